"""What `graphdp.paper.orderings` found, in words: a run's table, and the pages' lines."""

from collections.abc import Iterator, Mapping

import pandas as pd

from graphdp.paper.labels import basis_text, delta_text, method_label, status_text
from graphdp.paper.orderings import ABOUT, FEWEST_SEEDS, VERDICTS, claimed_cells
from graphdp.paper.printing import Printed
from graphdp.privacy.protection import is_private, level_text


def show_orderings(table: pd.DataFrame) -> Printed:
    """One line per claim, level and dataset: how many ε give each verdict."""
    lines = []
    for (claim, level, dataset), group in table.groupby(["claim", "level", "dataset"], sort=False):
        counts = group["verdict"].value_counts()
        told = [f"{name}: {counts[name]} of {len(group)}" for name in VERDICTS if name in counts]
        fails = group[group["verdict"].str.startswith("fails")]
        reasons = "; ".join(dict.fromkeys(r for r in group["missing_reason"] if r))
        lines.append(
            {
                "claim": claim,
                "level": level_text(level),
                "dataset": dataset,
                "verdicts over the study's ε": "; ".join(told)
                + (f" ({reasons})" if reasons else ""),
                "fails at": _failures(fails),
            }
        )
    columns = ["claim", "level", "dataset", "verdicts over the study's ε", "fails at"]
    return Printed(
        "The orderings that the paper claims, in our results: by mean test accuracy of the "
        "selected hyperparameters, or what else a claim names; intervals are 95 % bootstrap "
        "intervals over seeds.",
        pd.DataFrame(lines, columns=columns),
        (
            f"'On par or better' also holds where the intervals overlap; 'about as good' within "
            f"{ABOUT:g} percentage points, or as many as a claim names.",
            "The datasets are those of the study; the paper's claims are about its own.",
            f"Of fewer than {FEWEST_SEEDS} models no ordering is read.",
        ),
        "The paper claims no ordering of what was requested in this run.",
    )


def verdict_lines(table: pd.DataFrame) -> Iterator[str]:
    """Lines of Markdown of `orderings_table`: a claim a line, a dataset a column, and in it at
    which target ε of the claim's level each verdict is given. Claims without a result are left
    out."""
    known = table[~table["verdict"].isin(["missing"])]
    datasets = list(dict.fromkeys(known["dataset"]))
    yield f"| the paper claims | level | {' | '.join(datasets)} |"
    yield "| --- " * (2 + len(datasets)) + "|"
    for (claim, level), group in known.groupby(["claim", "level"], sort=False):
        told = []
        for dataset in datasets:
            mine = group[group["dataset"] == dataset]
            at = {
                name: ["∞" if e == "inf" else e for e in mine[mine["verdict"] == name]["epsilon"]]
                for name in VERDICTS
            }
            if set(mine["epsilon"]) == {"inf"}:
                told.append("; ".join(name for name in at if at[name]))
            else:
                told.append("; ".join(f"{name}: {', '.join(e)}" for name, e in at.items() if e))
        yield f"| {claim} | {level} | {' | '.join(told)} |"


def _failures(fails: pd.DataFrame) -> str:
    """At which target ε orderings of one level fail, and what is claimed of it on either side."""
    found: dict[str, list[str]] = {}
    for number in range(len(fails)):
        line = fails.iloc[[number]]
        found.setdefault(_sides_text(line), []).append(line["epsilon"].item())
    return "; ".join(
        f"target ε {', '.join(epsilons)} ({sides})" if sides else level_text("none")
        for sides, epsilons in found.items()
    )


def _sides_text(line: pd.DataFrame) -> str:
    """The level of an ordering, and of each side's ε basis, adjacency, δ and status; "" where
    nothing is private."""
    level = line["level"].item()
    if not is_private(level):
        return ""
    told: dict[str, dict[str, None]] = {}
    for cell in claimed_cells(line).to_dict("records"):
        label = method_label(cell["method"], cell["level"])
        told.setdefault(_claim_text(cell), {})[label] = None
    sides = (f"{', '.join(labels)}: {claim}" for claim, labels in told.items())
    return "; ".join([level_text(level), *sides])


def _claim_text(cell: Mapping) -> str:
    if not is_private(cell["level"]):
        return level_text(cell["level"])
    if float(cell["epsilon"]) == 0:
        return "reads no edge"
    parts = (
        basis_text(cell["epsilon_basis"]),
        cell["adjacency"],
        f"δ = {delta_text(cell['delta'])}",
        status_text(cell["epsilon_status"]),
    )
    return ", ".join(filter(None, parts))
