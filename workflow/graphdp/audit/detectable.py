"""How little noise an audit needs to miss: its detectable factor.

An audit that stays quiet says nothing by itself: how much noise could be missing, and it would
still? So each that must stay quiet is run with the noise that its code draws multiplied by factors
below 1, at the generator: σ, the plan and what is checked of both stay as they are. Its detectable
factor is the smallest of `FACTORS` at which it is quiet; at the next smaller one it refutes its
claim. Not all are tried: less noise is taken to be never less visible.

    python -m graphdp.audit.detectable [CLAIM ...]

measures those claims (all that have no line, if none is named), and puts them into `detectable.csv`
beside this file, which the table and the figure of the audits read.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphdp import io
from graphdp.errors import GraphDPError

if TYPE_CHECKING:
    import pandas as pd

    from graphdp.audit.claims import Claim

#: 1 to 1/8, each by 2^(1/4) smaller than the one before it.
FACTORS = tuple(2 ** (-k / 4) for k in range(13))
#: What was measured, shipped.
FILE = Path(__file__).with_name("detectable.csv")

#: A factor -> a context in which the code of a claim draws that much of its noise.
ScaledNoise = Callable[[float], AbstractContextManager[None]]


@contextmanager
def replaced(owner: Any, name: str, change: Callable[[Callable], Callable]) -> Iterator[None]:
    """`owner.name` is what `change` makes of it: for a claim whose noise is drawn elsewhere.

    owner: a module or a class. Raises GraphDPError on leaving if it was not called: then a factor
    says nothing.
    """
    original, called = getattr(owner, name), []
    changed = change(original)

    def watched(*arguments: Any, **others: Any) -> Any:
        called.append(True)
        return changed(*arguments, **others)

    setattr(owner, name, watched)
    try:
        yield
    finally:
        setattr(owner, name, original)
    if not called:
        raise GraphDPError(
            f"{name} of {owner.__name__} drew nothing: say in the claim's `scaled` what draws its "
            "noise"
        )


def gaussian(factor: float) -> AbstractContextManager[None]:
    """All Gaussian noise of this process is multiplied, where `GridNoise` adds it.

    The methods have no such switch: less noise than accounted is an audit's business alone.
    """
    from graphdp.noise import GridNoise

    return replaced(
        GridNoise, "add", lambda add: lambda self, sums, std: add(self, sums, std * factor)
    )


def measure(claim: "Claim", draws: int, seed: int = 0) -> dict[str, Any]:
    """The detectable factor of a claim that must stay quiet, a line of `detectable.csv`.

    draws, seed: as of `claims.run`. quiet_at: the factor, 1 if any smaller one is caught.
    caught_at: the next smaller factor, None if it is quiet at the smallest. bound_quiet,
    bound_caught: the lower bounds there.
    Raises GraphDPError for claims that must be exceeded, whose attack does not test the scale of
    the noise, or that are refuted with all of their noise.
    """
    from graphdp.audit.claims import run

    if reason := untested(claim):
        raise GraphDPError(f"audit {claim.name}: {reason}")
    bounds: dict[int, float] = {}

    def caught(place: int) -> bool:
        with claim.scaled(FACTORS[place]):
            result = run(claim, draws, seed)
        bounds[place] = result["lower_bound"]
        return result["verdict"] == "refuted"

    if caught(0):
        raise GraphDPError(f"audit {claim.name}: refuted with all of its noise; mend that first")
    # Strides that double, then halves: most audits see the first steps below 1.
    quiet, end = 0, 1
    while end < len(FACTORS) and not caught(end):
        quiet, end = end, 2 * end
    end = min(end, len(FACTORS))
    while end - quiet > 1:
        middle = (quiet + end) // 2
        quiet, end = (quiet, middle) if caught(middle) else (middle, end)
    return {
        "claim": claim.name,
        "target_epsilon": claim.target_epsilon,
        "delta": claim.delta,
        "draws": draws,
        "share": claim.share,
        "seed": seed,
        "quiet_at": round(FACTORS[quiet], 4),
        "bound_quiet": round(bounds[quiet], 3),
        "caught_at": round(FACTORS[end], 4) if end in bounds else None,
        "bound_caught": round(bounds[end], 3) if end in bounds else None,
    }


def untested(claim: "Claim") -> str:
    """Why a claim has no detectable factor, "" if it has one."""
    if claim.expected == "exceeds":
        return "not applicable: must exceed its claim"
    return "" if claim.scaled else "none: does not test the scale"


def shipped(path: Path = FILE) -> "pd.DataFrame":
    """What was measured, by claim."""
    import pandas as pd

    return pd.read_csv(path).set_index("claim", drop=False)


def factor(name: str, known: Mapping[str, "Claim"], lines: "pd.DataFrame") -> str:
    """A claim's detectable factor in a table, and the next smaller one; or why there is none."""
    import pandas as pd

    if name in known and (reason := untested(known[name])):
        return reason
    if name not in lines.index:
        return "not measured"
    line = lines.loc[name]
    if pd.isna(line["caught_at"]):
        return f"none: quiet at {line['quiet_at']:.2g} too"
    return f"{line['quiet_at']:.2g}; caught at {line['caught_at']:.2g}"


def page() -> Iterator[str]:
    """The lines of the table of docs/audits.md: each claim's factor, and what is found beyond."""
    yield "| audit | quiet at (detectable factor) | caught at | bound there |"
    yield "| --- | --- | --- | --- |"
    for line in shipped().itertuples():
        caught, bound = f"{line.caught_at:.2g}", f"{line.bound_caught:.2f}"
        caught, bound = ("none", "") if caught == "nan" else (caught, bound)
        yield f"| `{line.claim}` | {line.quiet_at:.2g} | {caught} | {bound} |"


def main(arguments: list[str] | None = None) -> None:
    """The command of the module's docstring."""
    import pandas as pd

    from graphdp.audit.claims import DRAWS, claims, get

    parser = argparse.ArgumentParser(prog="python -m graphdp.audit.detectable")
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help="all without a line, if none")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default: 1)")
    given = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(given.threads)
    lines = {line["claim"]: line for line in shipped().to_dict("records")} if FILE.exists() else {}
    open_claims = [name for name in claims() if name not in lines and not untested(get(name))]
    for name in given.claims or open_claims:
        lines[name] = measure(get(name), DRAWS)
        found = pd.DataFrame([lines[other] for other in claims() if other in lines])
        with io.atomic_path(FILE) as temporary:
            found.to_csv(temporary, index=False, lineterminator="\n")
        print(f"{name}: quiet at {lines[name]['quiet_at']}, caught at {lines[name]['caught_at']}")


if __name__ == "__main__":
    try:
        main()
    except GraphDPError as error:
        sys.exit(f"error: {error}")
