"""DPA-GNN's tables of accuracies: what the paper prints beside ours, a line per variant and ε.

Nothing is chosen here: each line is one setting of a graph. Methods that the project does not have
stand with what is printed of them, and "–" for ours.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from graphdp.methods.dpa.published_plan import PUBLISHED_DELTA
from graphdp.methods.registry import cards
from graphdp.paper.accuracy import COUNTS, FLOATS, typed
from graphdp.paper.accuracy_words import accuracy_text, claim_label, published_text
from graphdp.paper.cells import (
    expected_cells,
    experiment_rows,
    missing_reason,
    read_published,
    study_datasets,
)
from graphdp.paper.labels import epsilon_label, notes
from graphdp.paper.printing import Printed
from graphdp.paper.rows import HYPERPARAMETER_PREFIX, IDENTITY
from graphdp.paper.select import CELL, select_best, summarise
from graphdp.privacy.protection import is_private

OFFICIAL, CORRECTED = "dpaofficial", "dpa"
#: What the paper's ε is, also where there is nothing but its print.
CLAIM = {"adjacency": "participant", "epsilon_status": "refuted", "delta": PUBLISHED_DELTA}
#: Hyperparameters that most settings lack: a line that does not name one is of rows without it.
_OPTIONAL = ("activation", "columns", "noise", "public", "scaling")
#: Of the tidy frames, besides `FLOATS` and `COUNTS`.
NUMBERS = ("seconds", "published_seconds", "published_seconds_sd")
TABLE_FLOATS = (*FLOATS, *NUMBERS)
TABLE_COUNTS = tuple(name for name in COUNTS if name == "n")


@dataclass(frozen=True)
class Line:
    """A variant: how tables and figures call it, which rows it is made of, and its print.

    group: what a table puts before it. experiments: of the study. settings: hyperparameter -> value
    of its rows, where an experiment has several. printed: the `setting` of the printed numbers;
    None if the paper prints none. why: why there are no rows, if the study asks for none.
    """

    title: str
    method: str
    level: str = "node"
    experiments: tuple[str, ...] = ("accuracy",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    printed: str | None = None
    why: str = ""

    def rows(self, rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
        """Its rows."""
        mine = rows[(rows["method"] == self.method) & (rows["level"] == self.level)]
        parts = [experiment_rows(mine, context, name) for name in self.experiments]
        found = pd.concat([rows.iloc[:0], *parts], ignore_index=True)
        found = found[found["level"] == self.level].drop_duplicates(list(IDENTITY))
        wanted = dict.fromkeys(_OPTIONAL) | dict(self.settings)
        for name, value in wanted.items():
            column = HYPERPARAMETER_PREFIX + name
            if column in found:
                found = found.loc[[_same(one, value) for one in found[column]]]
            elif value is not None:
                found = found.iloc[:0]
        return found

    def cells(self, context: Mapping) -> list[tuple]:
        """The cells that its experiments ask for."""
        asked = [cell for name in self.experiments for cell in expected_cells(context, name)]
        return [c for c in dict.fromkeys(asked) if (c[1], c[2]) == (self.method, self.level)]

    def results(self, rows: pd.DataFrame, context: Mapping) -> dict[tuple, dict]:
        """Cell -> mean, interval, CPU seconds of a model, and what is claimed of its ε."""
        chosen, _ = select_best(self.rows(rows, context))
        seconds = chosen.groupby(list(CELL), sort=False)["cpu_seconds"].mean()
        return {
            tuple(one[name] for name in CELL): one | {"seconds": taken}
            for one, taken in zip(summarise(chosen).to_dict("records"), seconds, strict=True)
        }


def _same(found: Any, wanted: Any) -> bool:
    absent = found is None or (isinstance(found, float) and math.isnan(found))
    return wanted is None if absent else found == wanted


def implemented(title: str = "DPA-GNN, its code", **changes: Any) -> Line:
    """The authors' code."""
    return Line(title, OFFICIAL, **changes)


NODE = Line("corrected, node level", CORRECTED)
NODE_ONCE = Line("corrected, node level, 1 and 1 rounds", CORRECTED, experiments=("one_round",))
EDGE = Line("corrected, edge level", CORRECTED, "edge", ("edge",))
EDGE_ONCE = Line(
    "corrected, edge level, 1 and 1 rounds", CORRECTED, "edge", ("edge_one_round",)
)  # fmt: skip
PLAIN = Line("its code, without noise", OFFICIAL, "none", ("without_noise",))
PLAIN_CORRECTED = Line("corrected, without noise", CORRECTED, "none", ("without_noise",))
NO_GRAPH = Line("the same network without a graph", CORRECTED, "none", ("no_graph",))
#: What the three methods below protect, each user for itself. All three take features, edges and
#: labels as private (the paper's Table 2, and section 7.1.3, where RR of labels is named for
#: RGNN+RR, whose labels have it already); RR of an adjacency matrix hides an entry, not a user's.
_LOCALLY = "one matrix entry, features and label of a user"
BASELINES = (("Solitude+RR", "solitude-rr"), ("LPGNN+RR", "lpgnn-rr"), ("RGNN+RR", "rgnn-rr"))


def _table3() -> tuple[Line, ...]:
    lines: list[Line] = []
    for share, group in ((0.05, "ε_h = 5 % of ε"), (0.2, "ε_h = 20 % of ε")):
        setting = f"feature_share={share:g}"
        lines += [
            Line(title, name, experiments=(), group=group, printed=setting)
            for title, name in BASELINES
        ]
        settings = {"feature_share": share}
        lines.append(implemented(settings=settings, group=group, printed=setting))
    return (*lines, NODE, NODE_ONCE, EDGE, EDGE_ONCE, PLAIN, PLAIN_CORRECTED, NO_GRAPH)


TABLE3 = _table3()
_FIVE = {"feature_share": 0.05}
TABLE4 = tuple(
    implemented(
        experiments=("selective",),
        settings={"shares": shares, "parties": parties},
        group=f"t/m = {shares}/{parties}",
        printed=f"shares={shares} parties={parties}",
    )
    for shares, parties in ((2, 3), (2, 4), (3, 4), (3, 5))
)
TABLE6 = tuple(
    implemented(
        experiments=("scaling",),
        settings=settings,
        group=f"α of {name} degrees",
        printed=f"scaling={name}",
    )
    for name, settings in (
        ("raw", {"scaling": "raw"}),
        ("clipped", {"scaling": "clipped"}),
        ("dummy", {}),
    )
)
TABLE7 = (
    implemented(
        experiments=("laplace",),
        settings={"noise": "laplace"},
        group="Laplace",
        printed="noise=laplace",
    ),
    implemented(settings=_FIVE, group="Gaussian", printed="noise=gaussian"),
)
TABLE8 = (
    Line("GCN", "gcn", "none", (), printed="layers=2"),
    Line("DPA-GNN without noise, D, dummies, ReLU", OFFICIAL, "none", ("clean",),
         {"activation": "none"}, printed="layers=2"),
)  # fmt: skip
TABLE9 = (
    *(
        implemented(
            experiments=("dimensions",),
            settings={"columns": columns},
            group=f"{columns} columns",
            printed=f"columns={columns}",
        )
        for columns in (10, 50, 100, 200, 500)
    ),
    implemented(settings=_FIVE, group="all columns", printed="columns=all"),
)


_COLUMNS = (
    *CELL, "group", "line", "mean", "ci_low", "ci_high", "n", "seconds", "published_mean",
    "published_ci", "published_source", "published_seconds", "published_seconds_sd", "delta",
    "epsilon_basis", "adjacency", "epsilon_status", "noise", "checkpoint", "missing_reason",
)  # fmt: skip


def compared(
    rows: pd.DataFrame,
    context: Mapping,
    artefact: str,
    lines: Sequence[Line],
    epsilons: Sequence[str] = (),
) -> pd.DataFrame:
    """Every cell of the lines that the study asks for or the paper prints, on every dataset.

    epsilons: these alone, if given. Columns: dataset, method, level, epsilon, group, line, mean,
    ci_low, ci_high (percent), n, seconds (CPU, of a model), published_mean, published_ci (a
    standard deviation), published_source, published_seconds and its deviation, δ, basis, adjacency,
    status, noise, checkpoint, missing_reason.
    """
    table = []
    for line in lines:
        found = line.results(rows, context)
        printed = printed_cells(context, artefact, line)
        asked = {cell[3] for cell in (*line.cells(context), *printed)}
        for epsilon in sorted(asked, key=float):
            if epsilons and epsilon not in epsilons:
                continue
            for dataset in study_datasets(context):
                cell = dataset, line.method, line.level, epsilon
                one = dict(zip(CELL, cell, strict=True)) | printed.get(cell, {})
                one |= {"group": line.group, "line": line.title}
                if cell in found:
                    one |= found[cell]
                else:
                    absent = dataset in context.get("unavailable", {})
                    why = "" if absent else line.why
                    one["missing_reason"] = why or missing_reason(cell, context)
                    one |= CLAIM if (line.method, line.level) == (OFFICIAL, "node") else {}
                table.append(one)
    frame = pd.DataFrame(table, columns=list(_COLUMNS))
    bare = frame["epsilon_basis"].isna() & (frame["level"] != "none")
    frame["epsilon_basis"] = frame["epsilon_basis"].mask(
        bare, frame["published_mean"].isna().map({True: "not_calibrated", False: "as_published"})
    )
    return typed(frame, TABLE_FLOATS)


def printed_cells(context: Mapping, artefact: str, line: Line) -> dict[tuple, dict]:
    """Cell -> what the paper prints of a line."""
    published = read_published(context.get("published"))
    published = published[
        (published["artefact"] == artefact)
        & (published["method"] == line.method)
        & (published["setting"] == (line.printed or "-"))
    ]
    found: dict[tuple, dict] = {}
    for one in published.itertuples():
        names = ("published_mean", "published_ci", "published_source")
        values: tuple = (one.mean, one.ci, one.source)
        if one.metric == "seconds":
            names, values = ("published_seconds", "published_seconds_sd"), (one.mean, one.ci)
        cell = one.dataset, one.method, one.level, one.epsilon
        found.setdefault(cell, {}).update(zip(names, values, strict=True))
    return found


# --- as people read them --------------------------------------------------------------------------

CAPTION = (
    "Accuracy on the test nodes in percent: the mean over seeds with its 95 % bootstrap interval "
    "(1,000 resamples)."
)
PAPERS_DEVIATION = "Paper: the ± is a standard deviation over 10 runs."


def show(table: pd.DataFrame, remarks: Sequence[str]) -> Printed:
    """One line per group, variant and ε, one column per dataset; "–" where we have nothing."""
    reasons = list(dict.fromkeys(table.loc[table["missing_reason"] != "", "missing_reason"]))
    datasets = list(dict.fromkeys(table["dataset"]))
    lines = []
    for (group, line, _), own in table.groupby(["group", "line", "epsilon"], sort=False):
        records = own.to_dict("records")
        known = records[0]["method"] in cards()
        privacy = claim_label(records) if known else _unchecked(records[0])
        shown = {"variant": group, "method": line, "privacy": privacy}
        shown |= {one["dataset"]: _cell(one, reasons) for one in records}
        lines.append(shown)
    cells = pd.DataFrame(lines, columns=["variant", "method", "privacy", *datasets]).fillna("")
    if not (cells["variant"] != "").any():
        cells = cells.drop(columns="variant")
    results = table[table["mean"].notna()]
    told = [f"[{number}] {reason}." for number, reason in enumerate(reasons, 1)]
    told += [*remarks, *notes(results.to_dict("records"))]
    if table["published_mean"].notna().any():
        told.append(PAPERS_DEVIATION)
    return Printed(CAPTION, cells, tuple(told))


def _unchecked(record: Mapping) -> str:
    """Of a method that is not here."""
    if not is_private(record["level"]):
        return epsilon_label(record["level"], record["epsilon"])
    return f"claimed ε = {record['epsilon']} ({_LOCALLY}; the paper's own sum, not checked here)"


def _cell(record: Mapping, reasons: Sequence[str]) -> str:
    if record["missing_reason"]:
        ours = f"– [{reasons.index(record['missing_reason']) + 1}]"
    else:
        ours = accuracy_text(record)
        if not math.isnan(record["published_seconds"]):
            ours += f", {record['seconds']:.1f} CPU s"
    paper = published_text(record)
    if paper and not math.isnan(record["published_seconds"]):
        paper += f", {record['published_seconds']:.1f} s"
    return f"{ours}; paper {paper}" if paper else ours
