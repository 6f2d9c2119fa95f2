"""How our results stand to what a paper prints and claims: cell by cell, ordering by ordering."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from graphdp.paper import style
from graphdp.paper.accuracy import FLOATS, accuracy_table
from graphdp.paper.accuracy_words import accuracy_text, claim_label, published_text
from graphdp.paper.cells import read_published
from graphdp.paper.labels import delta_text, method_label, notes
from graphdp.paper.orderings import VERDICTS, claimed_cells, orderings_table
from graphdp.paper.printing import Printed
from graphdp.paper.remarks import claims, weights_alone
from graphdp.privacy.protection import is_private, level_text

# --- cells ----------------------------------------------------------------------------------------

OTHER_DATASET = "not a dataset of the paper"
NOT_PRINTED = "not printed in the paper"
SCORECARD_NUMBERS = (*FLOATS, "difference")


def scorecard_table(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Every cell that the study trains or the paper prints for its datasets, ours against theirs.

    The columns of `accuracy_table` with, after the printed ones: difference (ours - published,
    percentage points) and overlap ("yes" or "no": whether the 95 % intervals meet; "" where one of
    them is unknown) and `beside`, why nothing of the paper stands beside a cell: its dataset is
    not the paper's, or the paper prints no such cell.
    """
    table = accuracy_table(rows, context)
    papers = set(read_published(context.get("published"))["dataset"])
    low, high = (table["published_mean"] + sign * table["published_ci"] for sign in (-1, 1))
    meet = (table["ci_low"] <= high) & (low <= table["ci_high"])
    known = table[["ci_low", "ci_high"]].notna().all(axis=1) & low.notna()
    beside = np.where(table["published_mean"].notna(), "", NOT_PRINTED)
    beside = np.where(~table["dataset"].isin(papers), OTHER_DATASET, beside)
    position = table.columns.get_loc("published_source") + 1
    for name, values in {
        "beside": beside,
        "overlap": np.where(known, np.where(meet, "yes", "no"), ""),
        "difference": table["mean"] - table["published_mean"],
    }.items():
        table.insert(position, name, values)
    return table


def show_scorecard(table: pd.DataFrame) -> Printed:
    """One line per cell that has a result or a printed number."""
    lines = []
    for line in table.to_dict("records"):
        gap = line["difference"]
        lines.append(
            {
                "dataset": line["dataset"],
                "method": method_label(line["method"], line["level"]),
                "privacy": claim_label([line]),
                "ours, %": accuracy_text(line) or f"missing: {line['missing_reason']}",
                "paper, %": published_text(line) or line["beside"],
                "difference": "" if np.isnan(gap) else f"{gap:+.1f}",
                "intervals overlap": line["overlap"],
            }
        )
    return Printed(
        "Test accuracy beside the paper's: mean and 95 % interval of each, and their difference in "
        "percentage points.",
        pd.DataFrame(lines),
        tuple(notes(table[table["mean"].notna()].to_dict("records"))),
    )


# --- the figure -----------------------------------------------------------------------------------


def scorecard_figure(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Left: our accuracy minus the printed one per cell; right: the orderings, ε by ε.

    Where no graph is the paper's there is nothing on the left, and the orderings have all of it. δ
    stands in every line, and what else must be said of its ε once below.
    """
    with style.theme():
        cells = scorecard_table(rows, context)
        cells = cells[cells["difference"].notna()].reset_index(drop=True)
        orderings = orderings_table(rows, context)
        of_claims = orderings[["level", "claim", "dataset"]].drop_duplicates()
        height = 1.6 + max(0.24 * max(len(cells), 4), 0.34 * len(of_claims))
        figure = Figure(figsize=(9 if cells.empty else 12, height), layout="constrained")
        if cells.empty:
            _verdicts(figure.subplots(), orderings, of_claims)
        else:
            left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
            _differences(left, cells)
            _verdicts(right, orderings, of_claims)
        handles = [
            Line2D([], [], marker="s", linestyle="none", markersize=9, color=colour, label=name)
            for name, colour in VERDICTS.items()
        ]
        figure.legend(handles=handles, loc="outside upper right", ncol=len(handles), frameon=False)
        shown = pd.concat([cells, claimed_cells(orderings)], ignore_index=True)
        shown = shown[shown["epsilon"] != "0"]
        refuted = shown["epsilon_status"].isin(["refuted"]).any()
        said = [
            *(claims(shown) if len(shown) else []),
            *(["refuted: no guarantee"] if refuted else []),
            *weights_alone(cells),
        ]
        reasons = dict.fromkeys(reason for reason in orderings["missing_reason"] if reason)
        also = [f"no results: {'; '.join(reasons)}"] if reasons else []
        lines = style.footnote(figure, said, also)
        figure.set_figheight(height + 0.17 * max(0, lines - 1))
        return figure


def _differences(ax: Axes, cells: pd.DataFrame) -> None:
    ax.set_title("ours minus the paper's accuracy, same dataset")
    for y, line in enumerate(cells.itertuples()):
        spread = [[line.mean - line.ci_low], [line.ci_high - line.mean]]
        bar = None if np.isnan(line.ci_low) else spread
        ax.errorbar([line.difference], [y], xerr=bar, **style.method_look(line.method))
    ax.axvline(0, color="0.3", linewidth=0.8)
    names = [
        f"{line['dataset']}, {method_label(line['method'], line['level'])}, {_epsilon(line)}"
        for line in cells.to_dict("records")
    ]
    ax.set_yticks(range(len(cells)), names)
    ax.invert_yaxis()
    ax.set_xlabel("percentage points (bars: our 95 % interval)")


def _epsilon(line: Mapping) -> str:
    """The ε of a line and its δ; its basis, adjacency and status stand below the figure."""
    if not is_private(line["level"]):
        return level_text(line["level"])
    if float(line["epsilon"]) == 0:
        return "ε = 0, reads no edge"
    claimed = "claimed " if line["epsilon_status"] == "refuted" else ""
    return f"{claimed}ε = {line['epsilon']}, δ = {delta_text(line['delta'])}"


def _verdicts(ax: Axes, orderings: pd.DataFrame, of_claims: pd.DataFrame) -> None:
    # Long claims leave narrow axes: what is centred on them would be cut at the figure's edge.
    ax.set_title("orderings that the paper claims, in ours", loc="right")
    if orderings.empty:
        ax.text(0.5, 0.5, "no ordering to check", transform=ax.transAxes, ha="center", color="0.35")
        ax.set_axis_off()
        style.say_nothing(ax, "no ordering to check")
        return
    tokens = sorted(set(orderings["epsilon"]), key=float)
    names = []
    for y, (level, claim, dataset) in enumerate(of_claims.itertuples(index=False)):
        mine = orderings[
            (orderings["level"] == level)
            & (orderings["claim"] == claim)
            & (orderings["dataset"] == dataset)
        ]
        for line in mine.itertuples():
            colour = VERDICTS[line.verdict]
            ax.plot(tokens.index(line.epsilon), y, "s", markersize=12, color=colour)
        names.append(f"{claim}\n{dataset}, {_scope(level, claimed_cells(mine))}")
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xticks(range(len(tokens)), ["∞" if token == "inf" else token for token in tokens])
    ax.set_xlim(-0.6, len(tokens) - 0.4)
    ax.set_xlabel("target ε of the line's level", loc="right")
    ax.grid(False)


def _scope(level: str, cells: pd.DataFrame) -> str:
    """The level of an ordering, and δ of the cells that it compares."""
    noisy = cells[cells["level"].map(is_private).astype(bool) & (cells["epsilon"] != "0")]
    deltas = dict.fromkeys(delta_text(delta) for delta in noisy["delta"])
    return level_text(level) + (f", δ = {' and '.join(deltas)}" if deltas else "")
