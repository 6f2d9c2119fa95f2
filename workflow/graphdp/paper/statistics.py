"""Statistics of the datasets, ours beside the printed ones."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from graphdp.paper.accuracy import typed
from graphdp.paper.cells import NOT_AVAILABLE, NOT_REQUESTED, read_published, study_datasets
from graphdp.paper.printing import Printed

STATISTICS = (
    "nodes",
    "edges",
    "average_degree",
    "median_degree",
    "max_out_degree",
    "features",
    "classes",
    "edge_density",
    "homophily",
)
#: The "degree" of GAP's and ProGAP's tables is the median (Facebook: 62 beside 80 edges per node),
#: that of PNPiGNNs' is edges per node.
PUBLISHED_STATISTICS = (
    "nodes", "edges", "average_degree", "median_degree", "features", "classes", "edge_density",
    "homophily",
)  # fmt: skip
_PUBLISHED_PREFIX = "published_"
STATISTICS_NUMBERS = (
    *STATISTICS,
    *(_PUBLISHED_PREFIX + name for name in PUBLISHED_STATISTICS),
)


def statistics_table(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Statistics of the study's datasets beside what the papers print for the same dataset.

    Columns: dataset, `STATISTICS` (float64; NaN where unknown), `PUBLISHED_STATISTICS` with the
    prefix published_, published_source, missing_reason. `rows` plays no part.
    """
    return _statistics(study_datasets(context), context)


def table1(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """The paper's table of datasets first, then the study's other datasets; columns as above."""
    published = read_published(context.get("published"))
    paper = published.loc[published["artefact"] == "Table 1", "dataset"]
    return _statistics(list(dict.fromkeys([*paper, *study_datasets(context)])), context)


def _statistics(datasets: Sequence[str], context: Mapping) -> pd.DataFrame:
    published = read_published(context.get("published"))
    published = published[published["artefact"] == "Table 1"]
    table = []
    for dataset in datasets:
        known = context.get("statistics", {}).get(dataset)
        line = {"dataset": dataset} | {name: (known or {}).get(name) for name in STATISTICS}
        if known and known["nodes"] > 1:
            # DPDGC, section 6, whose |E| counts directed entries.
            line["edge_density"] = 2 * known["edges"] / (known["nodes"] * (known["nodes"] - 1))
        paper = published[published["dataset"] == dataset]
        values = dict(zip(paper["metric"], paper["mean"], strict=True))
        line |= {_PUBLISHED_PREFIX + name: values.get(name) for name in PUBLISHED_STATISTICS}
        line["published_source"] = next(iter(paper["source"]), "")
        if known is None:
            reason = context.get("unavailable", {}).get(dataset)
            asked = dataset in study_datasets(context)
            line["missing_reason"] = (
                f"{NOT_AVAILABLE}: {reason}"
                if reason
                else NOT_AVAILABLE
                if asked
                else NOT_REQUESTED
            )
        table.append(line)
    numbers = list(STATISTICS_NUMBERS)
    frame = pd.DataFrame(table, columns=["dataset", *numbers, "published_source", "missing_reason"])
    return typed(frame, numbers, ())


def show_statistics(table: pd.DataFrame) -> Printed:
    """Ours and the paper's statistics; of each pair the paper's follows in its own line."""
    lines = []
    for line in table.to_dict("records"):
        ours = {name: _number(name, line[name]) for name in STATISTICS}
        if line["missing_reason"]:
            lines.append(
                {"dataset": line["dataset"], "source": f"missing: {line['missing_reason']}"}
            )
        else:
            lines.append({"dataset": line["dataset"], "source": "this study", **ours})
        paper = {name: line[_PUBLISHED_PREFIX + name] for name in PUBLISHED_STATISTICS}
        if all(math.isnan(value) for value in paper.values()):
            continue
        printed = {name: _number(name, value) for name, value in paper.items()}
        lines.append({"dataset": line["dataset"], "source": line["published_source"], **printed})
    cells = pd.DataFrame(
        lines,
        columns=["dataset", "source", "nodes", "edges", "average_degree", "median_degree",
                 "max_out_degree", "features", "classes", "edge_density", "homophily"],
    ).fillna("")  # fmt: skip
    if table[_PUBLISHED_PREFIX + "edge_density"].isna().all():
        cells = cells.drop(columns="edge_density")
    cells = cells[[name for name in cells.columns if (cells[name] != "").any()]]
    cells = cells.rename(
        columns={
            "average_degree": "edges per node",
            "median_degree": "median degree",
            "max_out_degree": "largest degree",
            "edge_density": "edge density",
        }
    )
    note = "Edges are directed entries: an undirected edge counts twice."
    return Printed("Datasets after preprocessing.", cells, (note,))


def _number(name: str, value: float | None) -> str:
    if value is None or math.isnan(value):
        return ""
    if name in ("edge_density", "homophily"):
        return f"{value:.4f}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
