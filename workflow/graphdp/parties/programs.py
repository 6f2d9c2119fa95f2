"""The programs of a session: started on their hosts, heard, asked, and ended.

A program is a party or the shuffler; what starts it elsewhere (ssh, srun) is ended with it.
"""

import asyncio
import contextlib
import json
import math
import os
import signal
from collections.abc import Mapping
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.parties.frames import ProtocolError
from graphdp.parties.places import command
from graphdp.parties.process import answer, heard
from graphdp.parties.waiting import most_told

#: Seconds that others have to say what they see after one has failed.
AFTER_ONE = 5.0
#: Seconds in which programs have ended after they were told to.
_GRACE = 3.0


class Programs:
    """hosts: name -> where it runs. launch: what starts a program there (`places.command`)."""

    def __init__(self, hosts: Mapping[str, str], launch: str):
        self._hosts, self._start_with = hosts, launch
        self._heard: dict[str, dict[str, Any]] = {name: {} for name in hosts}
        self._asked = 0
        #: Name -> its process, by the order in which they were started.
        self.running: dict[str, asyncio.subprocess.Process] = {}

    async def start(
        self, name: str, module: str, spec: dict[str, Any]
    ) -> asyncio.subprocess.Process:
        """Start a module as the program of that name, and tell it what it has to know.

        Raises `GraphDPError` if it cannot be started.
        """
        words = command(self._start_with, self._hosts[name], module)
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # so that what a launcher starts can be ended with it
            )
        except OSError as error:
            raise GraphDPError(f"launch: {name} cannot be started ({error})") from None
        self.running[name] = process
        process.stdin.write(json.dumps(spec).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await process.stdin.drain()
        return process

    async def port(self, patience: float) -> int:
        """Where the shuffler listens, which it says first. Raises `GraphDPError` if it does not
        within so many seconds."""
        said = await self.hear("shuffler", "port", patience)
        if said is not None:
            return said
        fix = "; check hosts and launch" if self._start_with else ""
        process = self.running["shuffler"]
        if not process.stdout.at_eof():
            raise ProtocolError(f"the shuffler did not listen within {patience:g} s{fix}")
        await self.wait(AFTER_ONE)
        line, _ = await self._last_words(process)
        code = process.returncode
        how = "closed its output" if code is None else "ended"
        why = [f"exit status {code}"] * (code is not None) + [line] * bool(line)
        why = f" ({': '.join(why)})" * bool(why)
        raise GraphDPError(f"the shuffler {how} before it listened{why}{fix}")

    async def hear(self, name: str, what: str, patience: float) -> Any:
        """What a process says of `what`, or None after so many seconds of waiting or if it ends.
        What its launcher says besides is passed over."""
        output, said = self.running[name].stdout, self._heard[name]

        async def read() -> Any:
            try:
                while what not in said and (line := await output.readline()):
                    told = heard(line.decode(errors="replace"))
                    said.update({} if told is None else json.loads(told))
            except ValueError:  # a line without an end, or none of the program's
                raise ProtocolError(f"what {name} says on its output is not to be read") from None
            return said.pop(what, None)

        reading = asyncio.ensure_future(read())
        try:
            # Second by second: one of them may be long, if this process is at work itself.
            for _ in range(math.ceil(patience)):
                if (await asyncio.wait({reading}, timeout=1.0))[0]:
                    return reading.result()
            return None
        finally:
            reading.cancel()

    async def ask(self, patience: float) -> dict[str, list[str] | None]:
        """Program -> whom it waits for just now, none if it is at work; None without an answer
        within so many seconds. Those that have ended are left out."""
        self._asked += 1
        number = str(self._asked)
        for process in self.running.values():
            process.stdin.write(f"{number}\n".encode())
        hear = (self.hear(name, answer(number), patience) for name in self.running)
        found = dict(zip(self.running, await asyncio.gather(*hear), strict=True))
        return {
            name: waits
            for name, waits in found.items()
            if waits is not None or not self.running[name].stdout.at_eof()
        }

    async def why(self, seen: str) -> str:
        """The best account of a failure: of who died, else of who complained of something else
        than that another is gone, else what the server saw."""
        died, lines = [], []
        # Of one that is gone the others know, and end as well: what the first of them says counts.
        await self.wait(AFTER_ONE if seen.endswith("is gone") else 1.0)
        for name, process in self.running.items():
            code = process.returncode
            if code in (None, 0):
                continue
            line, own = await self._last_words(process)
            if own:
                lines.append(line)
            else:
                died.append(f"{name} died (exit status {code}{': ' * bool(line)}{line})")
        told = [line for line in lines if not line.endswith("is gone")]
        return "; ".join([seen, *(died or most_told(told))])

    async def _last_words(self, process: asyncio.subprocess.Process) -> tuple[str, bool]:
        """(line, whether it is the program's own) on standard error; else of what started it."""
        try:
            said = await asyncio.wait_for(process.stderr.read(), 1.0)
        except TimeoutError:
            return "", False  # another holds it open
        lines = said.decode(errors="replace").strip().splitlines()
        own = [line for line in map(heard, lines) if line is not None]
        return (own or lines or [""])[-1], bool(own)

    async def end(self) -> None:
        """Processes end when their standard input does; what is left after some seconds is killed,
        as is what started it on another host."""
        for process in self.running.values():
            process.stdin.close()
        await self.wait(_GRACE)
        for process in self.running.values():
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        await self.wait(_GRACE)
        for process in self.running.values():
            process._transport.close()  # another may hold its output open

    async def wait(self, most: float) -> None:
        """Until all have ended, for so many seconds at most. (`Process.wait` waits for whoever
        holds their output open as well.)"""
        loop = asyncio.get_running_loop()
        end = loop.time() + most
        while any(p.returncode is None for p in self.running.values()):
            if loop.time() >= end:
                return
            await asyncio.sleep(0.02)
