"""GAP's Table 3: how well node membership inference does, per cell, beside the paper's numbers."""

import csv
import math
import os
from collections.abc import Mapping, Sequence

import pandas as pd

from graphdp import io
from graphdp.attacks.nodes import ATTACK
from graphdp.errors import GraphDPError
from graphdp.paper.accuracy import typed
from graphdp.paper.accuracy_words import claim_label
from graphdp.paper.cells import expected_cells, missing_reason, read_published, study_datasets
from graphdp.paper.labels import method_label, notes
from graphdp.paper.printing import Printed
from graphdp.paper.select import CELL, bootstrap_ci
from graphdp.privacy.protection import canonical_epsilon, whole_nodes
from graphdp.privacy.rounding import at_most

NUMBERS = (
    "delta",
    "auc",
    "auc_same_model",
    "train_accuracy",
    "test_accuracy",
    "membership_epsilon",
    "auc_bound",
    "noise_multiplier",
    "cpu_seconds",
    "wall_seconds",
    "peak_rss_mb",
)
IDENTITY = ("study", "attack", "dataset", "method", "level", "epsilon", "seed")

TABLE3_COUNTS = ("n", "members")
TABLE3_NUMBERS = (
    "mean",
    "ci_low",
    "ci_high",
    "same_model_mean",
    "same_model_ci_low",
    "same_model_ci_high",
    "train_accuracy",
    "test_accuracy",
    "published_mean",
    "membership_epsilon",
    "auc_bound",
    "delta",
)
TABLE3_COLUMNS = (
    *CELL,
    "mean",
    "ci_low",
    "ci_high",
    "same_model_mean",
    "same_model_ci_low",
    "same_model_ci_high",
    "n",
    "members",
    "train_accuracy",
    "test_accuracy",
    "published_mean",
    "published_source",
    "membership_epsilon",
    "auc_bound",
    "epsilon_basis",
    "adjacency",
    "delta",
    "epsilon_status",
    "hyperparameters",
    "missing_reason",
)


def collect_attacks(
    paths: Sequence[str | os.PathLike],
    output: str | os.PathLike,
    known: pd.DataFrame | None = None,
) -> None:
    """Join the jobs' files, and the rows that are taken over, in a fixed order. Raises GraphDPError
    if a repeat stands twice."""
    frames = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in paths]
    frames += [] if known is None else [known]
    columns = [*IDENTITY, "hyperparameters", *NUMBERS, "epsilon_basis", "adjacency",
               "epsilon_status"]  # fmt: skip
    rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)
    if rows.duplicated(list(IDENTITY)).any():
        twice = ", ".join(rows.loc[rows.duplicated(list(IDENTITY)), list(IDENTITY)].iloc[0])
        raise GraphDPError(f"attack {twice} stands twice; delete the stale file and collect again")
    rows = rows.sort_values([*IDENTITY], key=_as_order)
    with io.atomic_path(output) as temporary:
        rows.to_csv(temporary, index=False, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")


def read_attacks(path: str | os.PathLike | None) -> pd.DataFrame:
    """Read attacks.csv: `NUMBERS` as float64 (NaN where empty), `seed` int64, the rest str. Without
    a path there are no rows: a study that attacks no model has no such file.

    Raises GraphDPError for a missing column, or an AUC that is no fraction.
    """
    if path is None:
        rows = pd.DataFrame(columns=[*IDENTITY, *NUMBERS], dtype=str)
    else:
        rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    missing = [name for name in (*IDENTITY, *NUMBERS) if name not in rows.columns]
    if missing:
        raise GraphDPError(f"{path}: no column {', '.join(missing)}; it is not an attacks.csv")
    for name in NUMBERS:
        rows[name] = pd.to_numeric(rows[name].where(rows[name] != "")).astype("float64")
    for name in ("auc", "auc_same_model"):
        if not rows[name].between(0, 1).all():
            raise GraphDPError(f"{path}: {name} is not a fraction between 0 and 1")
    rows["seed"] = rows["seed"].astype("int64")
    rows["epsilon"] = rows["epsilon"].map(canonical_epsilon).astype(str)
    return rows


def _as_order(column: pd.Series) -> pd.Series:
    return column.map(float) if column.name in ("epsilon", "seed") else column


def table3(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Every cell that the study attacks, and what the paper prints for the study's datasets.

    rows: as `read_attacks` gives. Columns `TABLE3_COLUMNS`, in percent: mean,
    ci_low, ci_high of the AUC on the target model's nodes over n repeats, `same_model_*` of the AUC
    on the shadow model's held-out nodes, the target model's accuracy on its `members` members and
    as many non-members, the largest mean AUC that `membership_epsilon` allows (`auc_bound`), and
    the paper's AUC where it prints the same cell on the same dataset. A cell without a result has
    an empty mean and its `missing_reason`.
    """
    asked = _of_attacks(context)
    published = read_published(context.get("published"))
    published = published[(published["metric"] == "auc") & (published["artefact"] == "Table 3")]
    printed = {tuple(line[name] for name in CELL): line for line in published.to_dict("records")}
    datasets = study_datasets(context)
    cells = dict.fromkeys(attack_cells(context))
    cells |= dict.fromkeys(cell for cell in printed if cell[0] in datasets)
    methods = list(dict.fromkeys(cell[1] for cell in cells))
    groups = dict(list(rows[rows["attack"] == ATTACK].groupby(list(CELL))))
    lines = []
    for cell in sorted(
        cells, key=lambda c: (datasets.index(c[0]), methods.index(c[1]), float(c[3]))
    ):
        line = dict(zip(CELL, cell, strict=True))
        if cell in printed:
            line["published_mean"] = printed[cell]["mean"]
            line["published_source"] = printed[cell]["source"]
        if cell in groups:
            line |= _summary(groups[cell])
        else:
            line["missing_reason"] = missing_reason(cell, asked)
        lines.append(line)
    table = pd.DataFrame(lines, columns=list(TABLE3_COLUMNS))
    # A cell without a result claims what the paper does.
    table["epsilon_basis"] = table["epsilon_basis"].astype(object).fillna("as_published")
    return typed(table, TABLE3_NUMBERS, TABLE3_COUNTS)


def attack_cells(context: Mapping) -> list[tuple[str, str, str, str]]:
    """The cells (dataset, method, level, ε) whose models the study attacks, in its order."""
    return [cell for cell in expected_cells(_of_attacks(context), ATTACK) if cell[3] != "0"]


def _of_attacks(context: Mapping) -> dict:
    return dict(context) | {"experiments": context.get("attacks", {})}


def _summary(group: pd.DataFrame) -> dict:
    """A cell's mean over repeats and its labels."""
    summary = {"n": len(group)}
    for prefix, column in (("", "auc"), ("same_model_", "auc_same_model")):
        names = (f"{prefix}mean", f"{prefix}ci_low", f"{prefix}ci_high")
        summary |= dict(zip(names, bootstrap_ci(100 * group[column]), strict=True))
    summary |= {
        name: 100 * group[name].mean() for name in ("train_accuracy", "test_accuracy", "auc_bound")
    }
    first = group.iloc[0]
    same = ("members", "membership_epsilon", "epsilon_basis", "adjacency", "delta",
            "epsilon_status", "hyperparameters")  # fmt: skip
    return summary | {name: first[name] for name in same}


def show_table3(table: pd.DataFrame) -> Printed:
    """Table 3, one line per cell."""
    lines = []
    for line in table.to_dict("records"):
        missing = math.isnan(line["mean"])
        lines.append(
            {
                "dataset": line["dataset"],
                "method": method_label(line["method"], line["level"]),
                "privacy": claim_label([line]),
                "AUC, %": f"missing: {line['missing_reason']}" if missing else _interval(line),
                "AUC, same model, %": "" if missing else _interval(line, "same_model_"),
                "accuracy of members, others, %": ""
                if missing
                else f"{line['train_accuracy']:.1f}, {line['test_accuracy']:.1f}",
                "ε corrected, training membership": _membership(line),
                "largest mean AUC, %": "" if missing else f"{line['auc_bound']:.1f}",
                "paper, %": ""
                if math.isnan(line["published_mean"])
                else f"{line['published_mean']:.2f}",
            }
        )
    columns = ["dataset", "method", "privacy", "AUC, %", "AUC, same model, %",
               "accuracy of members, others, %", "ε corrected, training membership",
               "largest mean AUC, %", "paper, %"]  # fmt: skip
    cells = pd.DataFrame(lines, columns=columns)
    if not (cells["paper, %"] != "").any():
        cells = cells.drop(columns="paper, %")
    found = table[table["mean"].notna()]
    repeats = " or ".join(str(n) for n in sorted(set(found["n"])))
    return Printed(
        "Node membership inference (TSTF: trained with the labels of some nodes, queried on the "
        f"full graph): mean AUC of the attack over {repeats or 'the'} repeats with its 95 % "
        "bootstrap interval (1,000 resamples). 50 % is guessing.",
        cells,
        tuple(_notes(table)),
    )


def _interval(line: Mapping, prefix: str = "") -> str:
    mean, low, high = (line[f"{prefix}{name}"] for name in ("mean", "ci_low", "ci_high"))
    if math.isnan(low):
        return f"{mean:.1f} (one repeat, no interval)"
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def _notes(table: pd.DataFrame) -> list[str]:
    found = table[table["mean"].notna()]
    result = [
        "AUC: an attack model trained on a shadow model's answers judges the members and "
        "non-members of a target model, trained on other nodes. Same model: it judges those nodes "
        "of the shadow model that it was not trained on, as the authors' code does by default; an "
        "attack that knows nothing then falls below 50 %, since every class has as many members as "
        "others, and those that its training nodes have too many of are missing in the rest.",
        *notes(found.to_dict("records")),
    ]
    if found["level"].map(whole_nodes).any():
        result.append(
            "ε corrected, training membership: the graph is fixed, with all features, and one node "
            "is trained on or not. The aggregates are then post-processing, and only the DP-Adam "
            "phases count, whatever holds for the aggregations; at the noise and δ of the cell; "
            "conditional: the number of members is public. Largest mean AUC: what that ε leaves to "
            "any attack that judges the nodes of one model, where a member's exchange for a "
            "non-member is two steps."
        )
    if table["published_mean"].notna().any():
        sources = "; ".join(sorted(set(table.loc[table["published_mean"].notna(),
                                                 "published_source"])))  # fmt: skip
        result.append(f"Paper: {sources}, beside results on the same dataset only.")
    return result


def _membership(line: Mapping) -> str:
    """The ε of training membership with its status; "none" where no finite one is known."""
    epsilon = line["membership_epsilon"]
    if math.isnan(epsilon):
        return ""
    return f"{at_most(epsilon, 4)}, conditional" if math.isfinite(epsilon) else "none"
