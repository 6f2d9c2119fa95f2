"""How our results stand to what a paper prints and claims: cell by cell, ordering by ordering."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from graphdp.errors import GraphDPError
from graphdp.paper import style
from graphdp.paper.accuracy import FLOATS, accuracy_table
from graphdp.paper.cells import (
    NOT_REQUESTED,
    expected_cells,
    experiment_rows,
    missing_reason,
    read_published,
    study_datasets,
)
from graphdp.paper.labels import edge_free_methods, epsilon_label, method_label, notes
from graphdp.paper.printing import Printed
from graphdp.paper.rows import HYPERPARAMETER_PREFIX
from graphdp.paper.select import CELL, select_best, summarise
from graphdp.privacy.protection import edges_alone, is_private, level_text

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


# --- orderings ------------------------------------------------------------------------------------

ORDERINGS_COLUMNS = (
    "paper",
    "claim",
    "level",
    "relation",
    "higher",
    "lower",
    "experiment",
    "datasets",
    "epsilons",
    "source",
)
RELATIONS = ("above", "at_least", "about")
#: Verdicts, from best to worst, with their colour.
VERDICTS = {
    "holds": "#1f5fa8",
    "holds, intervals overlap": "#9cc3e6",
    "fails, intervals overlap": "#f3b58a",
    "fails": "#b8420f",
    "too few seeds": "#a6a6a6",
    "missing": "#e3e3e3",
}
#: An interval of fewer models than this is no evidence: it is narrow by luck.
FEWEST_SEEDS = 5
#: "about as good as": at most this many percentage points apart.
ABOUT = 2.0


@dataclass(frozen=True)
class Side:
    """One side of an ordering: a method, or its models with one value of a hyperparameter; at the
    level of the claim, or at one of its own."""

    method: str
    level: str = ""
    name: str = ""
    value: object = None

    @classmethod
    def of(cls, text: str) -> "Side":
        """From "gap", "mlp@node" or "gap:encoder_layers=2"."""
        method, _, setting = text.partition(":")
        method, _, level = method.partition("@")
        name, _, value = setting.partition("=")
        return cls(method, level, name, json.loads(value) if value else None)


def read_orderings(path: str | Path | None, paper: str | None) -> pd.DataFrame:
    """The orderings that a paper claims (config/published/orderings.csv).

    Raises GraphDPError for missing columns or an unknown relation.
    """
    if path is None:
        return pd.DataFrame(columns=list(ORDERINGS_COLUMNS), dtype=str)
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    missing = [name for name in ORDERINGS_COLUMNS if name not in table.columns]
    if missing:
        raise GraphDPError(f"{Path(path).name}: no column {', '.join(missing)}")
    unknown = sorted(set(table["relation"]) - set(RELATIONS))
    if unknown:
        raise GraphDPError(
            f"{Path(path).name}: relation {unknown[0]!r}; use {', '.join(RELATIONS)}"
        )
    return table[table["paper"] == (paper or "")].reset_index(drop=True)


def orderings_table(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Whether each ordering that the paper claims holds in ours, per dataset and ε of the study.

    Columns: claim, level, dataset, epsilon, higher, lower, relation, higher_mean, higher_low,
    higher_high, higher_n, lower_mean, lower_low, lower_high (percent), lower_n (models), verdict (a
    key of `VERDICTS`), missing_reason, source. Each side is the selection of its own settings by
    validation accuracy. A method that reads no edge stands against every edge-level ε with its
    ε = 0. Where a claim names datasets or ε (separated by blanks), it is about these alone.
    """
    orderings = read_orderings(context.get("orderings"), context.get("paper"))
    experiments = context.get("experiments", {})

    @cache
    def summary(experiment: str, name: str) -> dict[tuple, dict]:
        mine = experiment_rows(rows, context, experiment)
        by = [HYPERPARAMETER_PREFIX + name] if name else []
        if by and by[0] not in mine.columns:
            return {}
        best, _ = select_best(mine, by)
        lines = summarise(best, by).to_dict("records")
        return {tuple(line[column] for column in (*CELL, *by)): line for line in lines}

    table = []
    for claim in orderings.to_dict("records"):
        # The accuracy experiment serves where a study has no experiment of that name.
        experiment = claim["experiment"]
        asked = expected_cells(context, experiment) if experiment in experiments else []
        sides = {name: Side.of(claim[name]) for name in ("higher", "lower")}
        named, budgets = claim["datasets"].split(), claim["epsilons"].split()
        higher = sides["higher"]
        for dataset in study_datasets(context):
            if named and dataset not in named:
                continue
            tokens = dict.fromkeys(
                epsilon
                for d, method, level, epsilon in asked
                if (d, method, level) == (dataset, higher.method, higher.level or claim["level"])
                and epsilon in (budgets or [epsilon])
            )
            for epsilon in tokens:
                line = {
                    name: claim[name]
                    for name in ("claim", "level", "higher", "lower", "relation", "source")
                } | {"dataset": dataset, "epsilon": epsilon, "missing_reason": ""}
                for name, side in sides.items():
                    cell = _cell(dataset, side, claim["level"], epsilon)
                    found = summary(experiment, side.name).get(cell)
                    if found is None:
                        requested = cell[:4] in asked
                        why = missing_reason(cell[:4], context) if requested else NOT_REQUESTED
                        line["missing_reason"] = f"{method_label(side.method, cell[2])}: {why}"
                    for column, source in (
                        ("mean", "mean"),
                        ("low", "ci_low"),
                        ("high", "ci_high"),
                        ("n", "n"),
                    ):
                        line[f"{name}_{column}"] = found[source] if found else np.nan
                table.append(line | {"verdict": verdict(line)})
    frame = pd.DataFrame(table, columns=list(ORDERING_TEXTS + ORDERING_NUMBERS))
    frame[list(ORDERING_NUMBERS)] = frame[list(ORDERING_NUMBERS)].astype("float64")
    return frame


ORDERING_NUMBERS = (
    "higher_mean",
    "higher_low",
    "higher_high",
    "higher_n",
    "lower_mean",
    "lower_low",
    "lower_high",
    "lower_n",
)
ORDERING_TEXTS = (
    "claim",
    "level",
    "dataset",
    "epsilon",
    "higher",
    "lower",
    "relation",
    "verdict",
    "missing_reason",
    "source",
)


def _cell(dataset: str, side: Side, level: str, epsilon: str) -> tuple:
    level = side.level or level
    if side.method in edge_free_methods() and edges_alone(level):
        epsilon = "0"
    if not is_private(level):
        epsilon = "inf"
    cell = (dataset, side.method, level, epsilon)
    return (*cell, side.value) if side.name else cell


def verdict(line: Mapping) -> str:
    """Whether one ordering holds: by the means, and "intervals overlap" where they do; of fewer
    models than `FEWEST_SEEDS` on either side nothing is said.

    at_least: also holds where the intervals overlap. about: holds within `ABOUT` points.
    """
    higher, lower = line["higher_mean"], line["lower_mean"]
    if np.isnan(higher) or np.isnan(lower):
        return "missing"
    if min(line["higher_n"], line["lower_n"]) < FEWEST_SEEDS:
        return "too few seeds"
    if line["relation"] == "about":
        return "holds" if abs(higher - lower) <= ABOUT else "fails"
    apart = line["higher_low"] > line["lower_high"] or line["lower_low"] > line["higher_high"]
    if line["relation"] == "at_least":
        return "fails" if apart and higher < lower else "holds"
    outcome = "holds" if higher > lower else "fails"
    return outcome if apart else f"{outcome}, intervals overlap"


def show_orderings(table: pd.DataFrame) -> Printed:
    """One line per claim, level and dataset: how many ε give each verdict."""
    lines = []
    for (claim, level, dataset), group in table.groupby(["claim", "level", "dataset"], sort=False):
        counts = group["verdict"].value_counts()
        told = [f"{name}: {counts[name]} of {len(group)}" for name in VERDICTS if name in counts]
        fails = group[group["verdict"].str.startswith("fails")]["epsilon"]
        reasons = "; ".join(dict.fromkeys(r for r in group["missing_reason"] if r))
        lines.append(
            {
                "claim": claim,
                "level": level,
                "dataset": dataset,
                "verdicts over the study's ε": "; ".join(told)
                + (f" ({reasons})" if reasons else ""),
                "fails at": ", ".join(f"ε = {e} ({level} level, target)" for e in fails),
            }
        )
    columns = ["claim", "level", "dataset", "verdicts over the study's ε", "fails at"]
    return Printed(
        "The orderings that the paper claims, in our results: by mean test accuracy of the "
        "selected hyperparameters; intervals are 95 % bootstrap intervals over seeds.",
        pd.DataFrame(lines, columns=columns),
        (
            f"'On par or better' also holds where the intervals overlap; 'about as good' within "
            f"{ABOUT:g} percentage points.",
            "The datasets are those of the study; the paper's claims are about its own.",
            f"Of fewer than {FEWEST_SEEDS} models no ordering is read.",
        ),
    )


# --- the figure -----------------------------------------------------------------------------------


def scorecard_figure(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Left: our accuracy minus the printed one per cell; right: the orderings, ε by ε."""
    with style.theme():
        cells = scorecard_table(rows, context)
        cells = cells[cells["difference"].notna()].reset_index(drop=True)
        orderings = orderings_table(rows, context)
        claims = orderings[["level", "claim", "dataset"]].drop_duplicates()
        height = 1.6 + 0.24 * max(len(claims), len(cells), 4)
        figure = Figure(figsize=(12, height), layout="constrained")
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
    if cells.empty:
        why = "no result on a dataset of the paper"
        ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", color="0.35")
        ax.set_axis_off()
        return
    for y, line in enumerate(cells.itertuples()):
        colour, marker = style.method_style(line.method)
        spread = [[line.mean - line.ci_low], [line.ci_high - line.mean]]
        bar = None if np.isnan(line.ci_low) else spread
        ax.errorbar([line.difference], [y], xerr=bar, color=colour, marker=marker)
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
