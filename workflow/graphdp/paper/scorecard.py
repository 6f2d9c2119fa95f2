"""How our results stand to what a paper prints and claims: cell by cell, ordering by ordering."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from graphdp.paper import style
from graphdp.paper.accuracy import FLOATS, accuracy_table
from graphdp.paper.cells import read_published
from graphdp.paper.labels import epsilon_label, method_label, notes
from graphdp.paper.orderings import VERDICTS, orderings_table
from graphdp.paper.printing import Printed
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
        ours = "" if np.isnan(line["mean"]) else f"{line['mean']:.1f}"
        if ours and not np.isnan(line["ci_low"]):
            ours += f" [{line['ci_low']:.1f}, {line['ci_high']:.1f}]"
        printed = ""
        if not np.isnan(line["published_mean"]):
            known = not np.isnan(line["published_ci"])
            half_width = f" ± {line['published_ci']:.2f}" if known else ""
            printed = f"{line['published_mean']:.1f}{half_width}"
        gap = line["difference"]
        lines.append(
            {
                "dataset": line["dataset"],
                "method": method_label(line["method"], line["level"]),
                "privacy": epsilon_label(
                    line["level"],
                    line["epsilon"],
                    line["epsilon_basis"],
                    [line["delta"]],
                    line["epsilon_status"],
                ),
                "ours, %": ours or f"missing: {line['missing_reason']}",
                "paper, %": printed or line["beside"],
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

    Where no graph is the paper's there is nothing on the left, and the orderings have all of it.
    """
    with style.theme():
        cells = scorecard_table(rows, context)
        cells = cells[cells["difference"].notna()].reset_index(drop=True)
        orderings = orderings_table(rows, context)
        claims = orderings[["level", "claim", "dataset"]].drop_duplicates()
        height = 1.6 + 0.24 * max(len(claims), len(cells), 4)
        figure = Figure(figsize=(9 if cells.empty else 12, height), layout="constrained")
        if cells.empty:
            _verdicts(figure.subplots(), orderings, claims)
        else:
            left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
            _differences(left, cells)
            _verdicts(right, orderings, claims)
        handles = [
            Line2D([], [], marker="s", linestyle="none", markersize=9, color=colour, label=name)
            for name, colour in VERDICTS.items()
        ]
        figure.legend(handles=handles, loc="outside upper right", ncol=len(handles), frameon=False)
        reasons = dict.fromkeys(reason for reason in orderings["missing_reason"] if reason)
        if reasons:
            style.footnote(figure, [], [f"no results: {'; '.join(reasons)}"])
        return figure


def _differences(ax: Axes, cells: pd.DataFrame) -> None:
    ax.set_title("ours minus the paper's accuracy, same dataset")
    for y, line in enumerate(cells.itertuples()):
        spread = [[line.mean - line.ci_low], [line.ci_high - line.mean]]
        bar = None if np.isnan(line.ci_low) else spread
        ax.errorbar([line.difference], [y], xerr=bar, **style.method_look(line.method))
    ax.axvline(0, color="0.3", linewidth=0.8)
    names = [
        f"{line.dataset}, {method_label(line.method, line.level)}, "
        f"{'∞' if line.epsilon == 'inf' else line.epsilon}"
        for line in cells.itertuples()
    ]
    ax.set_yticks(range(len(cells)), names)
    ax.invert_yaxis()
    ax.set_xlabel("percentage points (bars: our 95 % interval); after the method: its target ε")


def _verdicts(ax: Axes, orderings: pd.DataFrame, claims: pd.DataFrame) -> None:
    # Long claims leave narrow axes: what is centred on them would be cut at the figure's edge.
    ax.set_title("orderings that the paper claims, in ours", loc="right")
    if orderings.empty:
        ax.text(0.5, 0.5, "no ordering to check", transform=ax.transAxes, ha="center", color="0.35")
        ax.set_axis_off()
        style.say_nothing(ax, "no ordering to check")
        return
    tokens = sorted(set(orderings["epsilon"]), key=float)
    for y, (level, claim, dataset) in enumerate(claims.itertuples(index=False)):
        mine = orderings[
            (orderings["level"] == level)
            & (orderings["claim"] == claim)
            & (orderings["dataset"] == dataset)
        ]
        for line in mine.itertuples():
            colour = VERDICTS[line.verdict]
            ax.plot(tokens.index(line.epsilon), y, "s", markersize=12, color=colour)
    scopes = [level_text(level) if is_private(level) else "no privacy" for level in claims["level"]]
    names = [
        f"{c.claim} ({scope}), {c.dataset}"
        for c, scope in zip(claims.itertuples(), scopes, strict=True)
    ]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xticks(range(len(tokens)), ["∞" if token == "inf" else token for token in tokens])
    ax.set_xlim(-0.6, len(tokens) - 0.4)
    ax.set_xlabel(
        "target ε of the level (its basis, adjacency and δ stand in the tables)", loc="right"
    )
    ax.grid(False)
