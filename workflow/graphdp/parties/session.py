"""A session: starts the shuffler and the parties, sends for the users, and opens the sums.

Users and server are this process, since one program has all of the data; in a deployment they are
others, and every pair of ends has agreed on its secret beforehand. Here the session deals them.
"""

import asyncio
import secrets as tokens
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.parties.frames import DONE, SUMS, LateError, Link, ProtocolError
from graphdp.parties.party import connect, send_keys, send_values, values_of
from graphdp.parties.party import main as party_main
from graphdp.parties.process import source
from graphdp.parties.programs import AFTER_ONE, Programs
from graphdp.parties.shares import (
    STREAMS,
    Round,
    choose_parties,
    noise_secret,
    split_rows,
)
from graphdp.parties.shuffler import SILENT, accept, all_there
from graphdp.parties.shuffler import main as shuffler_main
from graphdp.parties.waiting import PATIENCE, late, seconds_of_work, silent

#: Seconds after which processes are asked whether they are there, and again after each answer.
_ASK_AFTER = 3.0
#: Seconds between two looks at whether all live, while they start; and in which one that was
#: started elsewhere on a busy machine reads what it is asked.
_LOOK, _BEGUN = 0.2, 60.0


class Session:
    """Rounds over TCP, as `memory.InMemory` makes them, bit for bit. Use it in a `with`.

    senders, keys: the pairs, int (P,) each. num_keys: n. noise: name of the noise's streams.
    rounds: all that will be asked for, in order. count_std: a party's σ of its dummies, 0 for none;
    mean_dummies: k0. host: where this process listens. hosts: where the shuffler runs and listens,
    and where the parties run; all here if not given. launch: what starts a program on a host
    (`places.command`). tls: paths of "certificate", "key" and "authority". timeout: seconds that a
    process may be late, besides the longest that the work of a piece takes (`seconds_of_work`);
    others wait for multiples of both (`PATIENCE`). patience: seconds within which a process has to
    answer that it is there, whatever it is at. secret: of all secrets, shares, masks, order and
    choice of parties, fresh if not given. Who gives the same once more, with the same rows, gets
    the same frames on every link; with others, shares of both would tell how they differ.

    Raises `GraphDPError` if a process fails, and says which one and in which round.
    """

    def __init__(
        self,
        senders: np.ndarray,
        keys: np.ndarray,
        num_keys: int,
        parties: int,
        shares: int,
        noise: tuple,
        rounds: Sequence[Round],
        *,
        count_std: float = 0.0,
        mean_dummies: int = 0,
        host: str = "127.0.0.1",
        hosts: Sequence[str] = (),
        launch: str = "",
        tls: dict[str, str] | None = None,
        timeout: float = 20.0,
        patience: float = 10.0,
        start_timeout: float = 120.0,
        secret: str = "",
    ):
        self._senders, self._keys, self._n = senders, keys, num_keys
        self._said = np.bincount(senders, minlength=num_keys)
        self._parties, self._shares = parties, shares
        self._noise, self._due = noise, list(rounds)
        self.count_std, self._mean_dummies = count_std, mean_dummies
        self._host, self._tls = host, tls
        ends = ["shuffler", *(f"party {p}" for p in range(parties))]
        self._hosts = dict(zip(ends, hosts or [host] * len(ends), strict=True))
        columns = max((piece.columns for one in rounds for piece in one.pieces), default=0)
        zeros = parties * num_keys * mean_dummies
        sizes = num_keys, columns, parties, shares
        self._timeout = timeout + seconds_of_work(len(keys), zeros, *sizes)
        # How many pairs there are is not public: a party learns by what it gets (`party.work`).
        self._told = timeout + seconds_of_work(0, zeros, *sizes)
        self._start_timeout = start_timeout
        self._patience = patience
        self._secret = secret or tokens.token_hex(32)
        self._programs = Programs(self._hosts, launch)
        self._links: dict[str, Link] = {}
        self.silent: set[int] = set()
        self.traffic: dict[str, Any] = {}
        self._chosen = choose_parties(len(keys), parties, shares, (self._secret, "choice"))

    def __enter__(self) -> "Session":
        self._loop = asyncio.new_event_loop()
        try:
            self._run(self._start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        try:
            if kind is None and not self._due:
                self._run(self._finish())
        finally:
            self._end()

    def add_up(self, one: Round, rows: np.ndarray) -> np.ndarray:
        """The released sums of a round in the place of its rows, int64 (n, C). Rounds come as they
        are due."""
        if not self._due or one != self._due[0]:
            raise GraphDPError(f"{one.words} is not due")
        self._run(self._while_all_answer(one, rows))
        self._due.pop(0)
        return rows

    @property
    def processes(self) -> dict[str, int]:
        """Name of a process -> its id."""
        return {name: process.pid for name, process in self._programs.running.items()}

    def _run(self, what: Any) -> Any:
        try:
            return self._loop.run_until_complete(what)
        except ProtocolError as error:
            raise GraphDPError(
                self._loop.run_until_complete(self._programs.why(str(error)))
            ) from None

    async def _start(self) -> None:
        names = [f"party {p}" for p in range(self._parties)]
        study = self._keyed("study")
        ends = ["users", "shuffler", "server", *names]
        secret = {
            frozenset((a, b)): self._keyed(a, b) for i, a in enumerate(ends) for b in ends[i + 1 :]
        }

        def spec(own: str, addresses: dict[str, Any], listens: bool = False) -> dict[str, Any]:
            kind = own.split()[0]
            others = [name for name in ends if name != own]
            return {
                "source": source(),
                "study": study,
                "parties": self._parties,
                "shares": self._shares,
                "num_keys": self._n,
                "rounds": [asdict(one) for one in self._due],
                "secrets": {other: secret[frozenset((own, other))] for other in others},
                "timeouts": {
                    other: (self._told if kind == "party" else self._timeout)
                    * PATIENCE.get((kind, other.split()[0]), 5)
                    for other in others
                },
                "start_timeout": self._start_timeout,
                "tls": self._tls,
                "addresses": addresses,
                "listen": (self._hosts.get(own, self._host), 0) if listens else None,
                "secret": self._keyed(own, "own"),
            }

        own = spec("server", {}, True)
        self._listening, ready = await accept(own, "server", names, self._links)
        port = self._listening.sockets[0].getsockname()[1]
        await self._launch("shuffler", spec("shuffler", {}, True))
        addresses = {
            "server": (self._host, port),
            "shuffler": (self._hosts["shuffler"], await self._programs.port(self._start_timeout)),
        }
        for number, name in enumerate(names):
            seeds = {
                other: secret[frozenset((name, names[other]))]
                for other in range(self._parties)
                if other != number
            }
            noise = noise_secret(self._noise, number)
            more = {
                "party": number,
                "seeds": seeds,
                "noise": noise,
                "count_std": self.count_std,
                "mean_dummies": self._mean_dummies,
            }
            await self._launch(name, spec(name, addresses) | more)
        to_shuffler = connect(spec("users", addresses), "shuffler", "users")
        self._users = await self._while_all_live(to_shuffler)
        await self._while_all_live(all_there(ready, names, self._links, self._start_timeout))
        self._listening.close()

    def _keyed(self, *who: str) -> str:
        from graphdp.rng import stream_key

        return stream_key(self._secret, "ends", *sorted(who)).hex()

    def _program(self, name: str) -> str:
        """The module that a process runs; audits put a curious party in the place of one."""
        # Named as functions, so that their code is known to belong to what a session makes.
        return shuffler_main.__module__ if name == "shuffler" else party_main.__module__

    async def _launch(self, name: str, spec: dict[str, Any]) -> asyncio.subprocess.Process:
        return await self._programs.start(name, self._program(name), spec)

    async def _while_all_answer(self, one: Round, rows: np.ndarray) -> None:
        """A round. Raises `ProtocolError` as soon as a process does not answer or has failed, even
        if nobody waits for it here; and names who is at work if another is late for that."""
        step, asking = asyncio.ensure_future(self._round(one, rows)), None
        try:
            while not (await asyncio.wait({step}, timeout=_ASK_AFTER))[0]:
                asking = asyncio.ensure_future(self._programs.ask(self._patience))
                await asyncio.wait({step, asking}, return_when=asyncio.FIRST_COMPLETED)
                if step.done():
                    break
                if stopped := silent(asking.result()):
                    raise ProtocolError(stopped)
                if failed := [name for name, p in self._programs.running.items() if p.returncode]:
                    # Who is cut off takes the others for that, and may be the first to end.
                    if not (await asyncio.wait({step}, timeout=AFTER_ONE))[0]:
                        raise ProtocolError(f"{failed[0]} is gone")
                    break
            step.result()
        except LateError as error:
            await _cancelled(asking)
            raise ProtocolError(
                f"{one.words}: {late(await self._programs.ask(self._patience)) or error}"
            ) from None
        except ProtocolError as error:
            raise ProtocolError(f"{one.words}: {error}") from None
        finally:
            await _cancelled(step, asking)

    async def _while_all_live(self, what: Coroutine) -> Any:
        """What a step of the start gives. Raises `ProtocolError` as soon as a process ends, or
        does not answer for longer than one takes to start."""
        step, asking = asyncio.ensure_future(what), None
        try:
            while not (await asyncio.wait({step}, timeout=_LOOK))[0]:
                if ended := [
                    n for n, p in self._programs.running.items() if p.returncode is not None
                ]:
                    raise ProtocolError(f"{ended[0]} ended before all were connected")
                if asking is None:
                    asking = asyncio.ensure_future(self._programs.ask(_BEGUN))
                elif asking.done():
                    if stopped := silent(asking.result()):
                        raise ProtocolError(stopped)
                    asking = None
            return step.result()
        finally:
            await _cancelled(step, asking)

    async def _round(self, one: Round, rows: np.ndarray) -> None:
        await self._announce(one)
        for piece in one.pieces:
            await self._send(piece, rows)
            rows[:, piece.place] = await self._sums(piece)

    def _in_order(self) -> list[Link]:
        return [self._links[f"party {p}"] for p in range(self._parties)]

    async def _announce(self, one: Round) -> None:
        """Say which shares are sent in a round, and each user how many pairs it sends."""
        talk = self._talk()
        senders, keys = self._senders[talk], self._keys[talk]
        await send_keys(self._users, one, senders, keys, self._chosen[talk])
        said = self._said.astype(np.uint32)
        said[list(self.silent)] = SILENT
        await self._users.send(
            DONE,
            said.tobytes(),
            stream=STREAMS.index(one.stream),
            number=one.number,
            rows=len(said),
            columns=1,
        )

    def _talk(self) -> np.ndarray:
        return ~np.isin(self._senders, list(self.silent))

    async def _send(self, piece: Round, rows: np.ndarray) -> None:
        name = (self._secret, "shares", piece.stream, piece.number, piece.start)
        own = rows[:, piece.place][self._senders[self._talk()]]
        await send_values(self._users, piece, split_rows(own, self._shares, name))

    async def _sums(self, piece: Round) -> np.ndarray:
        total = np.zeros((self._n, piece.columns), np.uint64)
        sums = (values_of(link, piece, self._n, SUMS) for link in self._in_order())
        for part in await asyncio.gather(*sums):
            total += part
        return total.view(np.int64)

    async def _finish(self) -> None:
        """Wait for the processes, and note what went over which link."""
        said = {}
        for name in self._programs.running:
            said[name] = await self._programs.hear(name, "sent", self._timeout)
            if said[name] is None:
                raise ProtocolError(f"{name} did not say what it sent")
        await self._programs.wait(self._timeout)
        parties = [f"party {p}" for p in range(self._parties)]
        self.traffic = {
            "users to shuffler": sum(self._users.sent.values()),
            "parties to shuffler": sum(sum(said[p]["shuffler"].values()) for p in parties),
            "shuffler to parties": sum(sum(said["shuffler"][p].values()) for p in parties),
            "parties to server": sum(link.received["sums"] for link in self._in_order()),
        }

    def _end(self) -> None:
        if self._loop.is_closed():
            return
        for link in [*self._links.values(), *([self._users] if hasattr(self, "_users") else [])]:
            link.close()
        self._loop.run_until_complete(self._end_steps())
        self._loop.run_until_complete(self._programs.end())
        self._loop.close()

    async def _end_steps(self) -> None:
        """End what is under way, and listen no more."""
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        await _cancelled(*waiting)
        if hasattr(self, "_listening"):
            self._listening.close()


async def _cancelled(*steps: asyncio.Future | None) -> None:
    """End what is under way of steps."""
    left = [step for step in steps if step is not None]
    for step in left:
        step.cancel()
    await asyncio.gather(*left, return_exceptions=True)
