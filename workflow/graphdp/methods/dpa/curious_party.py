"""A party that follows the protocol and writes down what it sees: what a colluding one does.

`curious` starts it in place of `graphdp.parties.party`, with the path of its notes in what it
reads. They hold its noise of every round (of one piece: audits have few columns), how many pairs
arrived for each key, how many of these were its own dummies, and the shares of the first round.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from graphdp.parties import party, session


@contextmanager
def curious(folder: Path, colluding: int) -> Iterator[None]:
    """Within it the first `colluding` parties of sessions leave their notes in `folder`."""
    notes = {f"party {p}": str(folder / f"{p}.npz") for p in range(colluding)}

    class Session(session.Session):
        def _program(self, name: str) -> str:
            return __name__ if name in notes else super()._program(name)

        async def _launch(self, name: str, spec: dict[str, Any]) -> Any:
            return await super()._launch(name, spec | {"notes": notes.get(name)})

    with patch.object(session, "Session", Session):
        yield


def read(folder: Path, colluding: int) -> tuple[list[np.ndarray], np.ndarray]:
    """What parties drew in each round together, int64 (n, C), and the pairs that arrived at the
    first of them without the dummies of all, (n,), the mean of all rounds."""
    views = [np.load(folder / f"{p}.npz") for p in range(colluding)]
    rounds = range(len(views[0]["arrived"]))
    noise = [np.sum([view[f"noise {number}"] for view in views], axis=0) for number in rounds]
    return noise, views[0]["arrived"].mean(0) - sum(view["own"] for view in views)


def main() -> int:
    """Run the party; as `graphdp.parties.party.main`."""
    draw, receive, dummies, follow = party.party_noise, party._keys, party._own_pairs, party.work
    get = party.values_of
    noise, arrived, own, shares = [], [], [], {}

    def drawn(*arguments: Any) -> np.ndarray:
        noise.append(draw(*arguments))
        return noise[-1]

    async def received(shuffler: Any, one: Any, n: int) -> np.ndarray:
        keys = await receive(shuffler, one, n)
        arrived.append(np.bincount(keys, minlength=n))
        shares.setdefault("keys", keys)
        return keys

    async def given(*arguments: Any) -> np.ndarray:
        values = await get(*arguments)
        shares.setdefault("values", values)
        return values

    def sent(spec: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        keys, chosen = dummies(spec)
        mine = keys[(chosen == spec["party"]).any(1)]
        own.append(np.bincount(mine, minlength=spec["num_keys"]))
        return keys, chosen

    async def work(spec: dict[str, Any]) -> None:
        await follow(spec)
        numbered = {f"noise {number}": one for number, one in enumerate(noise)}
        np.savez(spec["notes"], arrived=np.array(arrived), own=own[0], **numbered, **shares)

    party.party_noise, party._keys, party._own_pairs, party.work = drawn, received, sent, work
    party.values_of = given
    return party.main()


if __name__ == "__main__":
    sys.exit(main())
