"""DPA-GNN's tables without trained models: what is protected, what it costs, what is recommended,
what a user of the protocol sends, and what the protocol was measured to take."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from graphdp.methods.dpa import numbers
from graphdp.methods.dpa.paper_tables import CORRECTED
from graphdp.methods.dpa.remarks import REMARKS
from graphdp.paper.cells import missing_reason, study_datasets, values_for
from graphdp.paper.printing import Printed
from graphdp.paper.statistics import show_statistics
from graphdp.parties.shares import link_bytes

PARTIES, SHARES = 3, 2


def show_table1(table: pd.DataFrame) -> Printed:
    """The statistics, and why the paper's differ."""
    printed = show_statistics(table)
    return Printed(printed.caption, printed.cells, (*printed.notes, *REMARKS["Table 1"]))


# --- Table 2 --------------------------------------------------------------------------------------

_YES, _NO = "yes", "–"
#: Method, category, then features, edges and labels as section 7.1.3 says, and what is here.
_PROTECTS = (
    ("RR", 1, _NO, _YES, "in Figure 5", ""),
    ("Solitude", 1, _YES, _YES, _NO, ""),
    ("LPGNN", 1, _YES, _NO, _YES, ""),
    ("RGNN", 1, _YES, _NO, _YES, ""),
    ("DPRR", 1, _NO, _YES, _NO, ""),
    ("Blink", 1, _NO, _YES, _NO, ""),
    ("Solitude+RR, LPGNN+RR, RGNN+RR", 2, _YES, _YES, _YES, ""),
    ("DP-SGD", 3, _YES, "reads none", _YES, "mlp, naive, naiveofficial"),
    ("GAP-NDP", 3, _YES, _YES, _YES, "gap"),
    ("PNPiGNNs", 3, _YES, _YES, _YES, "heterpoisson, heterpoissonsml, heterpoissonofficial"),
    ("DPDGC", 3, _YES, _YES, _YES, "dpdgc, dpdgcofficial"),
    ("DPA-GNN", "", _YES, _YES, _YES, "dpaofficial: refuted; dpa: what a user sends (conditional)"),
)


def table2(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Columns, text: method, category, features, edges, labels, here."""
    columns = ["method", "category", "features", "edges", "labels", "here"]
    return pd.DataFrame(_PROTECTS, columns=columns).astype(str)


def show_table2(table: pd.DataFrame) -> Printed:
    """As it is."""
    cells = table.assign(here=[text or "–" for text in table["here"]])
    return Printed(
        "What each method is said to protect, and which of them are here.",
        cells,
        (
            "By the text of section 7.1.3: the ticks of the printed table cannot be told apart in "
            "its text.",
            "A tick says nothing about the unit. Methods of category 1 and 2 protect one entry of "
            "the adjacency matrix, not a user's list.",
            "DPA-GNN, corrected, protects what a user sends: at most D pairs, its features and its "
            "label. Edges that others hold stay visible.",
        ),
    )


# --- Table 5 --------------------------------------------------------------------------------------

#: What the paper computes for Reddit with: users, features, bytes of 128 bits, rounds, epochs.
REDDIT = {"N": 140_667, "C": 602, "bytes": 16, "k": 8, "T": 200, "m": PARTIES, "t": SHARES}


def reddit_bytes() -> dict[str, float]:
    """What the paper's formulas give for Reddit, in bytes: the constants are 1."""
    n, c, size, k, epochs, m, t = (REDDIT[name] for name in ("N", "C", "bytes", "k", "T", "m", "t"))
    return {
        "non-private, per user": n / 8 + 8 * c,
        "initial, per user": m * (n + c) * size,
        "initial, per party": k * epochs * (n * n + n * c) * size,
        "DPA-GNN, per user and pair": k * t * c * size,
        "DPA-GNN, per party": n * c * size,
    }


def table5(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Columns: approach, cost, formula, printed (text), bytes (float64), remark."""
    found = reddit_bytes()
    per_pair = found["DPA-GNN, per user and pair"]
    pairs = 4.9e6 / per_pair
    lines = (
        ("non-private", "user", "", "22 KB", found["non-private, per user"],
         "N bits and C numbers of 8 bytes"),
        ("initial", "user, offline as well", "O(m (N + C))", "6.8 MB", found["initial, per user"],
         ""),
        ("initial", "between parties, each", "O(m k T (N² + N C))", "0.5 PB",
         found["initial, per party"], "k = 8, T = 200"),
        ("DPA-GNN", "user, offline as well", "O(k d t C)", "4.9 MB", per_pair * round(pairs),
         f"k = 8; d is not named: {pairs:.1f} pairs make the printed number"),
        ("DPA-GNN", "parties to server, each", "O(m N C)", "1.35 GB", found["DPA-GNN, per party"],
         "of the last round alone"),
    )  # fmt: skip
    columns = ["approach", "cost", "formula", "printed", "bytes", "remark"]
    return pd.DataFrame(lines, columns=columns)


def show_table5(table: pd.DataFrame) -> Printed:
    """Printed beside recomputed."""
    cells = table.assign(bytes=[size_text(value) for value in table["bytes"]])
    cells = cells.rename(columns={"bytes": "recomputed", "printed": "printed (Reddit)"})
    return Printed(
        "Communication by the paper's formulas, for Reddit (N = 140,667, C = 602, m = 3, t = 2, "
        "128 bits a number).",
        cells,
        (
            "Left out there: what parties send back to users after each round (m C numbers each, "
            "0.2 MB in eight rounds), the labels' rounds, dummies (1 / r pairs more a user) and "
            "keys. What this project's protocol sends stands in dpa_sends.",
        ),
    )


# --- Table 10 -------------------------------------------------------------------------------------

_GUIDE = (
    ("ε", "4 to 10; 4 for high privacy", "2 to 11", "as claimed; no finite ε holds"),
    ("ε_h", "5 % of ε", "5 % and 20 %", ""),
    ("ε_e", "1.25", "1.25, whatever r and t/m",
     "equation 13: 1.253 at r = 0.5 and 2/3; 1.361 at r = 0.1, 2.303 at 0.9"),
    ("ε_y", "2 to 6", "ε - ε_h - 1.25: 0.35 to 9.2", "outside the range for ε below 4, above 7"),
    ("l_h", "small graphs 8 to 10, large 4 to 6", "10, 8, 10 | 6, 10, 8",
     "Amazon and Reddit outside the range"),
    ("l_y", "small graphs 6 to 10, large 2 to 4", "8, 10, 6 | 4, 2, 2", ""),
    ("c", "small graphs 0.7 to 0.9, large 0.2 to 0.6", "0.8, 0.8, 0.7 | 0.6, 0.4, 0.2",
     "chosen by the accuracies that are reported; D is a private quantile"),
    ("r", "0.5; 0.1 to 0.5", "0.1 to 0.9",
     "dummies per user at 0.5: 2 by the code and the text, 1 by equation 27"),
    ("p", "2/3", "2/3, 2/4, 3/4, 3/5",
     "two of three parties together read the pairs whose shares both reach them"),
)  # fmt: skip


def table10(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Columns, text: parameter, recommended, used, remark."""
    return pd.DataFrame(_GUIDE, columns=["parameter", "recommended", "used", "remark"])


def show_table10(table: pd.DataFrame) -> Printed:
    """As it is."""
    return Printed(
        "The paper's guideline, and what its own experiments use (Cora, CiteSeer, LastFM | "
        "Facebook, Amazon, Reddit).",
        table,
        ("Each ε is a claim at node level, as published, with δ = 1e-5 for each stream; refuted.",),
    )


# --- what a user sends ----------------------------------------------------------------------------

_SENDS = ("pairs", "user_bytes", "bounded_bytes", "server_bytes", "paper_bytes")
SENDS_NUMBERS = ("nodes", "features", "classes", "feature_layers", "label_layers", "max_degree",
                 *_SENDS)  # fmt: skip


def sends(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """For each graph, of all rounds with m = 3 and t = 2: what a user sends.

    Columns: dataset, `SENDS_NUMBERS` (float64), missing_reason. pairs: of a user with a whole list,
    mean. user_bytes: what such a user sends; bounded_bytes: one with D pairs. server_bytes: what
    the server gets from all parties. paper_bytes: 16 k d t C for the same pairs (Table 5).
    """
    table = []
    for dataset in study_datasets(context):
        known = context.get("statistics", {}).get(dataset)
        asked = {name: _setting(context, dataset, name) for name in
                 ("feature_layers", "label_layers", "max_degree")}  # fmt: skip
        line: dict[str, Any] = {"dataset": dataset, "missing_reason": ""}
        if known is None or None in asked.values():
            cell = dataset, CORRECTED, "node", ""
            line["missing_reason"] = missing_reason(cell, context)
        else:
            line |= asked | {name: known[name] for name in ("nodes", "features", "classes")}
            line |= _bytes(line, known["edges"])
        table.append(line)
    frame = pd.DataFrame(table, columns=["dataset", *SENDS_NUMBERS, "missing_reason"])
    frame[list(SENDS_NUMBERS)] = frame[list(SENDS_NUMBERS)].astype("float64")
    return frame


def _bytes(line: Mapping, edges: int) -> dict[str, float]:
    rounds = (
        (line["features"], line["feature_layers"]),
        (line["classes"], line["label_layers"]),
    )
    nodes = line["nodes"]

    def sent(pairs: float, link: str) -> float:
        return sum(
            count * link_bytes(pairs, 0, nodes, columns, PARTIES, SHARES)[link]
            for columns, count in rounds
        )

    return {
        "pairs": edges / nodes,
        "user_bytes": sent(edges, "users to shuffler") / nodes,
        "bounded_bytes": sent(nodes * line["max_degree"], "users to shuffler") / nodes,
        "server_bytes": sent(0, "parties to server"),
        "paper_bytes": 16 * SHARES * edges / nodes * sum(c * k for c, k in rounds),
    }


def _setting(context: Mapping, dataset: str, name: str) -> int | None:
    """What the study's first corrected entry at node level has for a graph."""
    specs = context.get("experiments", {}).get("accuracy", [])
    for spec in specs:
        if (spec["method"], spec["level"]) == (CORRECTED, "node"):
            values = values_for(spec.get(name), dataset)
            return None if values is None else values[0]
    return None


def show_sends(table: pd.DataFrame) -> Printed:
    """One line per graph."""
    lines = []
    for one in table.to_dict("records"):
        if one["missing_reason"]:
            lines.append({"dataset": one["dataset"], "pairs": f"– {one['missing_reason']}"})
            continue
        lines.append(
            {
                "dataset": one["dataset"],
                "rounds, columns": f"{one['feature_layers']:.0f} of {one['features']:,.0f}, "
                f"{one['label_layers']:.0f} of {one['classes']:.0f}",
                "pairs": f"{one['pairs']:.1f} (D = {one['max_degree']:.0f})",
                "a user sends": size_text(one["user_bytes"]),
                "with D pairs": size_text(one["bounded_bytes"]),
                "by Table 5": size_text(one["paper_bytes"]),
                "the server gets": size_text(one["server_bytes"]),
            }
        )
    columns = ["dataset", "rounds, columns", "pairs", "a user sends", "with D pairs", "by Table 5",
               "the server gets"]  # fmt: skip
    return Printed(
        "What a user of the protocol sends to train one model: m = 3 parties, t = 2 shares, all "
        "rounds of features and labels, headers and HMACs apart.",
        pd.DataFrame(lines, columns=columns).astype(object).fillna(""),
        (
            "For each pair and share: the key (4 bytes), sender (4), party (1) and C numbers of 8 "
            "bytes; for each round, 4 bytes that say how many pairs come. A user with d pairs so "
            "sends d t (9 + 8 C) + 4 bytes a round, and must be there in every round.",
            "The shuffler learns how many pairs a user has; a party keys, and how many pairs they "
            "get; two parties together the rows whose shares both reach them. Pairs are the mean "
            "of whole lists (edge level); at node level a user sends D at most. By Table 5: 16 k d "
            "t C for the same pairs.",
        ),
    )


# --- what the protocol takes ----------------------------------------------------------------------

_SECONDS = ("cpu", "wall", "alone")
COST_NUMBERS = ("m", "t", "users", "pairs", "dummies", "formula_bytes", "counted_bytes", *_SECONDS)


def cost(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """What models over TCP were measured to take (`numbers.TABLE`), beside the formula.

    Columns: `COST_NUMBERS` (float64); columns and rounds (text), of features and of labels. Bytes
    are those of all links and rounds together, headers apart; cpu, wall and alone are seconds
    (`numbers.measured`).
    """
    table = []
    for size in numbers.TABLE:
        shipped, formula = numbers.cost_of(size), numbers.formula(size)
        (rounds, columns), (label_rounds, classes) = size.streams.values()
        table.append(
            {
                "m": size.parties,
                "t": size.shares,
                "users": size.users,
                "pairs": size.pairs,
                "dummies": numbers.dummies_of(size),
                "columns": f"{columns:,} and {classes}",
                "rounds": f"{rounds} and {label_rounds}",
                "formula_bytes": sum(formula.values()),
                "counted_bytes": sum(v for what, v in shipped.items() if what not in _SECONDS),
                **{what: shipped[what] for what in _SECONDS},
            }
        )
    return pd.DataFrame(table).astype(dict.fromkeys(COST_NUMBERS, "float64"))


def show_cost(table: pd.DataFrame) -> Printed:
    """One line per size."""
    titles = {
        "formula_bytes": "bytes by formula",
        "counted_bytes": "bytes counted",
        "cpu": "CPU s",
        "wall": "wall s",
        "alone": "CPU s in one process",
    }
    cells = table.astype(object)
    for name in COST_NUMBERS:
        places = {"cpu": ".1f", "wall": ".1f", "alone": ".2f"}.get(name, ",.0f")
        cells[name] = [format(value, places) for value in table[name]]
    return Printed(
        "What the rounds of one model take over TCP, of as many users and pairs as Cora, Computers "
        "and Facebook pages have: bytes of all links by the formula and as the processes count "
        "them, headers and HMACs apart.",
        cells.rename(columns=titles),
        (
            "Columns and rounds are those of features and of labels. Lists are random: costs "
            "depend on how many pairs there are, not on which.",
            "Dummies: pairs of zeros that the parties draw for all keys, with s = "
            f"{numbers.count_noise():.1f}, a fifth of μ² for ε = 2 (edge level: edge_undirected, "
            "corrected, δ = 1e-5, conditional).",
            "CPU seconds of all processes and wall seconds, starts included and training not, on "
            f"two cores with other work beside it: of {numbers.SESSIONS} sessions that with the "
            "least CPU time, with dummies of one. In one process the same sums and noise are made "
            "without shares and dummies, which change no sum.",
        ),
    )


def size_text(size: float) -> str:
    """Bytes for people, in powers of 1,000."""
    power = min(5, int(math.log10(size) // 3)) if size >= 1 else 0
    return f"{size / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB', 'PB')[power]}"
