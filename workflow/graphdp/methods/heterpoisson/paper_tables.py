"""PNPiGNNs' Tables 1 to 4: what the paper prints beside ours, one line per convolution and variant.

M is the best of 1 to 4. The paper calls the best what performs best, on the nodes that it reports;
here it is chosen on validation nodes, and what the paper's rule gives stands in brackets.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from graphdp.paper.accuracy import COUNTS, FLOATS, typed
from graphdp.paper.accuracy_words import accuracy_text, claim_label, published_text
from graphdp.paper.cells import expected_cells, experiment_rows, missing_reason, read_published
from graphdp.paper.labels import notes
from graphdp.paper.printing import Printed
from graphdp.paper.rows import IDENTITY
from graphdp.paper.select import CELL, select_best, summarise
from graphdp.paper.statistics import show_statistics

CONVOLUTIONS = ("gcn", "gin", "sage")
BOUND, NO_PRECISION = "bound", "rows without precision"
_BY = "hp_convolution"
#: Of the tidy frames, besides `FLOATS` and `COUNTS`.
NUMBERS = ("weighted", "best_on_test")


@dataclass(frozen=True)
class Line:
    """A variant: how tables and figures call it, and which rows it is made of.

    experiment, inductive: of the study, by setting ("" where it has none): the experiment of that
    name, and those of one convolution, which end in its name ("accuracy_gcn"). chosen: whether M
    is. printed: whether the paper prints it. only: its convolution, where it has just this one.
    """

    title: str
    method: str
    experiment: str
    inductive: str = ""
    convolutions: bool = True
    chosen: bool = True
    printed: bool = False
    only: str = ""

    def rows(self, rows: pd.DataFrame, context: Mapping, inductive: bool = False) -> pd.DataFrame:
        """The rows of its experiments."""
        mine = rows[rows["method"] == self.method]
        parts = [experiment_rows(mine, context, name) for name in self._names(context, inductive)]
        # An edge-free method's models stand again as those of its edge level.
        found = pd.concat([rows.iloc[:0], *parts], ignore_index=True)
        found = found.assign(**{_BY: self.only}) if self.only else found
        return found[found["level"] != "edge"].drop_duplicates(list(IDENTITY))

    def cells(self, context: Mapping, inductive: bool = False) -> list[tuple]:
        """The cells that its experiments ask for."""
        names = self._names(context, inductive)
        asked = dict.fromkeys(cell for name in names for cell in expected_cells(context, name))
        return [cell for cell in asked if cell[1] == self.method and cell[2] != "edge"]

    def _names(self, context: Mapping, inductive: bool) -> list[str]:
        base = self.inductive if inductive else self.experiment
        names = {base, *(f"{base}_{convolution}" for convolution in CONVOLUTIONS)}
        return [name for name in context.get("experiments", {}) if name in names]


AS_IMPLEMENTED = Line(
    "HeterPoisson-SML, its code",
    "heterpoissonofficial",
    "published",
    "inductive",
    printed=True,
)
AS_PUBLISHED = Line("HeterPoisson-SML, as published", "heterpoissonsml", "published", "inductive")
CORRECTED = Line("HeterPoisson, corrected", "heterpoisson", "accuracy", "inductive")
WITHOUT = Line("the same network without neighbours", "heterpoisson", "without", chosen=False)
OURS = (AS_IMPLEMENTED, AS_PUBLISHED, CORRECTED, WITHOUT)


def _plain(title: str, method: str, experiment: str, printed: bool = False) -> Line:
    """A method without M and without a choice of convolution."""
    return Line(title, method, experiment, convolutions=False, chosen=False, printed=printed)


#: In the order of the tables: the paper's baselines, then others, their noise for a participant.
LINES = (
    _plain("naive DP-SGD, its code", "naiveofficial", "papers", printed=True),
    _plain("corrected GAP: noise for all terms of a row", "gap", "papers", printed=True),
    Line("NDP: exact inference", "sage", "papers", chosen=False, printed=True, only="sage"),
    _plain("naive DP-SGD, done right", "naive", "baselines"),
    _plain("SAGE-NDP (DP-GNN), noise at inference too", "sage", "baselines"),
    _plain("GAP-NDP", "gap", "baselines"),
    _plain("ProGAP-NDP", "progap", "baselines"),
    _plain("MLP-DP", "mlp", "baselines"),
    *OURS,
)


def table2(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Accuracy, transductive: the tidy frame that `compared` describes."""
    return compared(rows, context, LINES, "Table 2", "accuracy")


def table3(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Precision, as `compared`: the mean over classes, and as `weighted` the mean over nodes that
    the authors' code prints. First the bound of Equation 8 at ε = 2."""
    frame = compared(rows, context, LINES, "Table 3", "precision")
    return pd.concat([_bounds(context), frame], ignore_index=True)


def table4(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Accuracy, inductive, as `compared`; nothing is printed (`show_table4`)."""
    lines = [line for line in OURS if line.inductive]
    return compared(rows, context, lines, "", "accuracy", inductive=True)


def compared(
    rows: pd.DataFrame,
    context: Mapping,
    lines: Sequence[Line],
    artefact: str,
    metric: str,
    *,
    inductive: bool = False,
) -> pd.DataFrame:
    """Every cell of the lines that the study asks for or the paper prints.

    Columns: dataset, method, level, epsilon, `line` and `convolution` ("" for a method without),
    mean, ci_low, ci_high (percent), n, neighbors (the M that validation nodes choose, as text),
    best_on_test and best_neighbors (by the paper's rule), weighted (precision weighted by class,
    percent), published_mean, published_ci, published_source, δ, basis, adjacency, status, noise,
    checkpoint, missing_reason.
    """
    table = []
    for line in lines:
        found, incomplete = best_cells(rows, context, line, metric, inductive)
        printed = _printed(context, artefact, metric, line.method) if line.printed else {}
        asked = {
            (cell, convolution)
            for cell in line.cells(context, inductive)
            for convolution in (CONVOLUTIONS if line.convolutions else ("",))
        }
        asked |= set(printed)
        # Every line has every dataset, so that it says why one is missing.
        whole = {((name, *cell[1:]), c) for cell, c in asked for name in context["datasets"]}
        for cell, convolution in whole:
            one = dict(zip(CELL, cell, strict=True)) | {
                "line": line.title,
                "convolution": convolution,
                **printed.get((cell, convolution), {}),
            }
            if (cell, convolution) in found:
                one |= found[cell, convolution]
            else:
                named = (*cell, convolution) if convolution else cell
                one["missing_reason"] = incomplete.get(named) or _reason(line, named, context)
            table.append(one)
    return _typed(pd.DataFrame(table, columns=list(_COLUMNS)), context, lines)


_COLUMNS = (
    *CELL, "line", "convolution", "mean", "ci_low", "ci_high", "n", "neighbors", "best_on_test",
    "best_neighbors", "weighted", "published_mean", "published_ci", "published_source", "delta",
    "epsilon_basis", "adjacency", "epsilon_status", "noise", "checkpoint", "missing_reason",
)  # fmt: skip


def best_cells(
    rows: pd.DataFrame, context: Mapping, line: Line, metric: str = "accuracy", inductive=False
) -> tuple[dict[tuple, dict], dict[tuple, str]]:
    """(cell, convolution) -> what `compared` says of a result; and cells left out with the reason.

    A line without convolutions has its results under "".
    """
    mine = line.rows(rows, context, inductive)
    by = [_BY] if line.convolutions else []
    if line.convolutions and _BY not in mine:
        return {}, {}
    chosen, incomplete = select_best(mine, by)
    by_test, _ = select_best(mine.assign(val_accuracy=mine["test_accuracy"]), by)
    found = {}
    for one, theirs, plain in zip(
        summarise(_scored(chosen, metric), by).to_dict("records"),
        summarise(_scored(by_test, metric), by).to_dict("records"),
        summarise(_scored(chosen, f"{metric}_weighted"), by)["mean"],
        strict=True,
    ):
        more = {"neighbors": _neighbors(one) if line.chosen else "", "weighted": plain}
        if line.chosen:
            more |= {"best_on_test": theirs["mean"], "best_neighbors": _neighbors(theirs)}
        if math.isnan(one["mean"]):
            more |= {"missing_reason": NO_PRECISION, "n": None}
        key = tuple(one[name] for name in CELL), one[_BY] if by else ""
        found[key] = one | more
    return found, incomplete


def _scored(selected: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Selected rows with what `summarise` is to average as their test accuracy."""
    column = metric if f"test_{metric}" in selected else "accuracy"
    return selected.assign(test_accuracy=selected[f"test_{column}"])


def _neighbors(one: Mapping) -> str:
    return str(json.loads(one["hyperparameters"])["num_neighbors"])


def _reason(line: Line, named: tuple, context: Mapping) -> str:
    if line.only and named[-1] != line.only:
        return f"here it has the convolution {line.only.upper()} alone"
    return missing_reason(named[:4], context)


def _printed(context: Mapping, artefact: str, metric: str, method: str) -> dict[tuple, dict]:
    """(cell, convolution) -> what the paper prints of a method."""
    published = read_published(context.get("published"))
    published = published[(published["artefact"] == artefact) & (published["metric"] == metric)]
    found = {}
    for row in published[published["method"] == method].itertuples():
        convolution = row.setting.removeprefix("convolution=")
        cell = row.dataset, row.method, row.level, row.epsilon
        found[cell, convolution if convolution in CONVOLUTIONS else ""] = {
            "published_mean": row.mean,
            "published_ci": row.ci,
            "published_source": row.source,
        }
    return found


def equation_8(epsilon: float, delta: float, classes: int) -> float:
    """The paper's bound on the precision of a class-aligned classifier of private node embeddings
    (Theorem 3), as a fraction."""
    return (math.exp(epsilon) + delta * (classes - 1)) / (classes - 1 + math.exp(epsilon))


def _bounds(context: Mapping) -> pd.DataFrame:
    """The lines of Equation 8: recomputed from each dataset's classes, and δ = (0.8 N)^-1.1."""
    statistics = read_published(context.get("published"))
    statistics = statistics[statistics["artefact"] == "Table 1"]
    theirs: dict[str, dict[str, float]] = {}
    for row in statistics.itertuples():
        theirs.setdefault(row.dataset, {})[row.metric] = row.mean
    printed = _printed(context, "Table 3", "precision", BOUND)
    table = []
    for dataset in context["datasets"]:
        known = context.get("statistics", {}).get(dataset) or theirs.get(dataset)
        cell = dataset, BOUND, "node", "2"
        one = dict(zip(CELL, cell, strict=True)) | printed.get((cell, ""), {})
        one |= {"line": "bound of Equation 8, recomputed", "epsilon_basis": "as_published"}
        if known:
            one["delta"] = (0.8 * known["nodes"]) ** -1.1
            one["mean"] = 100 * equation_8(2, one["delta"], int(known["classes"]))
        else:
            one["missing_reason"] = "number of classes not known"
        table.append(one)
    return _typed(pd.DataFrame(table, columns=list(_COLUMNS)), context, ())


def _typed(table: pd.DataFrame, context: Mapping, lines: Sequence[Line]) -> pd.DataFrame:
    """In the order of the convolutions, lines, ε and datasets, with the columns' types."""
    titles, datasets = [line.title for line in lines], list(context["datasets"])
    ranks = {
        "convolution": lambda column: column.map(("", *CONVOLUTIONS).index),
        "line": lambda column: column.map(titles.index),
        "epsilon": lambda column: column.map(float),
        "dataset": lambda column: column.map(datasets.index),
    }
    if titles:
        table = table.sort_values(list(ranks), key=lambda column: ranks[column.name](column))
    table = table.reset_index(drop=True)
    bare = table["epsilon_basis"].isna()
    unknown = "as_published" if titles else ""
    table["epsilon_basis"] = table["epsilon_basis"].mask(
        bare, table["published_mean"].isna().map({True: "not_calibrated", False: unknown})
    )
    return typed(table, TABLE_FLOATS)


def show_table1(table: pd.DataFrame) -> Printed:
    """The statistics; the paper's degree is edges per node, of the counts that it does not
    truncate."""
    printed = show_statistics(table)
    note = (
        "The paper's nodes and edges are printed in thousands; its degree is edges per node (for "
        "Amazon of all 13,752 nodes, 281 of them without an edge)."
    )
    return Printed(printed.caption, printed.cells, (printed.notes[0], note))


def show_table2(table: pd.DataFrame) -> Printed:
    """One line per convolution, variant and ε, one column per dataset."""
    return _show(table, "Accuracy on the test nodes in percent, transductive", "")


def show_table3(table: pd.DataFrame) -> Printed:
    """As `show_table2`; in brackets the precision weighted by how often a class is true."""
    note = (
        "Precision is the mean over classes, as the paper's text says; weighted, in brackets, by "
        "how often each class is true, as its code computes it."
    )
    return _show(table, "Precision on the test nodes in percent, transductive", note)


def show_table4(table: pd.DataFrame) -> Printed:
    """As `show_table2`, with what stands for a printed number."""
    note = (
        "The paper's Table 4, captioned inductive, repeats its Table 2: all 100 pairs of mean and "
        "deviation that can be read in both are equal. So no inductive accuracy is published."
    )
    title = "Accuracy on the test nodes in percent, inductive (training reads edges between "
    title += "training nodes alone)"
    return _show(table, title, note, absent="not published")


def _show(table: pd.DataFrame, title: str, note: str, absent: str = "") -> Printed:
    reasons = list(dict.fromkeys(table.loc[table["missing_reason"] != "", "missing_reason"]))
    datasets = list(dict.fromkeys(table["dataset"]))
    lines = []
    for (convolution, line, _), group in table.groupby(
        ["convolution", "line", "epsilon"], sort=False
    ):
        records = group.to_dict("records")
        shown = {
            "convolution": convolution.upper(),
            "method": line,
            "privacy": claim_label(records),
        }
        for record in records:
            shown[record["dataset"]] = "; ".join(filter(None, [_ours(record, reasons),
                f"paper {paper}" if (paper := published_text(record)) else
                absent * bool(record["mean"] == record["mean"])]))  # fmt: skip
        lines.append(shown)
    cells = pd.DataFrame(lines, columns=["convolution", "method", "privacy", *datasets]).fillna("")
    results = table[table["mean"].notna() & (table["method"] != BOUND)]
    told = [f"[{number}] {reason}." for number, reason in enumerate(reasons, 1)]
    told += filter(None, [note, *notes(results.to_dict("records"))])
    if (results["neighbors"] != "").any():
        told.append(
            "M is the best of 1 to 4 by mean accuracy on validation nodes (1 % of the nodes); on "
            "test: what its best value on the test nodes would give, the paper's rule. No ε counts "
            "either choice."
        )
    if table["published_mean"].notna().any():
        told.append("Paper: the ± is a deviation over runs whose number is not printed (code: 3).")
    caption = f"{title}: the mean over seeds with its 95 % bootstrap interval (1,000 resamples)."
    return Printed(caption, cells, tuple(told))


def _ours(record: Mapping, reasons: Sequence[str]) -> str:
    if record["missing_reason"]:
        return f"missing [{reasons.index(record['missing_reason']) + 1}]"
    if record["method"] == BOUND:
        return f"{record['mean']:.1f}"
    text = accuracy_text(record)
    if not math.isnan(record["weighted"]) and abs(record["weighted"] - record["mean"]) > 1e-9:
        text += f" (weighted {record['weighted']:.1f})"
    if record["neighbors"]:
        text += f", M = {record['neighbors']}"
        if record["best_neighbors"] != record["neighbors"]:
            text += f" (on test M = {record['best_neighbors']}: {record['best_on_test']:.1f})"
    return text


TABLE_FLOATS = (*FLOATS, *NUMBERS)
TABLE_COUNTS = tuple(name for name in COUNTS if name == "n")
