"""What figures say in words: the claims behind their ε, what is missing and why, their seeds."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from graphdp.paper.cells import NO_METHOD, NOT_AVAILABLE, NOT_REQUESTED, missing_reason
from graphdp.paper.labels import (
    as_implemented,
    basis_text,
    covers_weights_alone,
    delta_text,
    held_under,
    method_label,
    method_name,
    short_status,
)
from graphdp.paper.select import CELL
from graphdp.privacy.protection import is_private, level_kind


def claims_title(
    cells: pd.DataFrame, label: str, *, details: bool = True, places: pd.Series | None = None
) -> str:
    """The name of an axis with everything that must be said about the ε of its cells.

    details: whether `claims` is part of it; a figure without says it elsewhere. places: where each
    cell stands on the axis, where that tells its δ.
    """
    private = cells[cells["level"].map(is_private).astype(bool)]
    if private.empty:
        return label
    statuses = set(private["epsilon_status"])
    # Of lines whose ε holds and others whose claim is refuted it is what noise was calibrated to.
    symbol = "ε" if "refuted" not in statuses else "claimed ε" if len(statuses) == 1 else "target ε"
    tokens = sorted(set(private["epsilon"]), key=float)
    head = symbol if label == "ε" else f"{label} at {symbol} = {', '.join(tokens)}"
    told = [f"δ = {_deltas(private, label, places)}", *(claims(cells) if details else ())]
    return f"{head} ({'; '.join(told)})"


def _deltas(private: pd.DataFrame, label: str, places: pd.Series | None) -> str:
    """The δ of cells, with their levels if it follows from these; with places that of the most,
    and at which it is another."""
    known = private[private["delta"].notna()]
    texts, kinds = known["delta"].map(delta_text), known["level"].map(level_kind)
    ordered = sorted(set(texts), key=float)
    if places is None and kinds.nunique() > 1 and len(ordered) > 1:
        told = {delta: " and ".join(dict.fromkeys(kinds[texts == delta])) for delta in ordered}
        return ", ".join(f"{delta} for {levels}" for delta, levels in told.items())
    if places is None or len(ordered) < 2:
        return ", ".join(ordered)
    where = {delta: sorted(set(places[texts.index[texts == delta]])) for delta in ordered}
    first, *others = sorted(ordered, key=lambda delta: -len(where[delta]))
    told = [f"{delta} at {label} = {', '.join(f'{x:g}' for x in where[delta])}" for delta in others]
    return f"{first}, but {' and '.join(told)}"


def claims(cells: pd.DataFrame) -> list[str]:
    """The adjacencies of cells, then by basis and status of their ε the methods that have it.
    Where cells of one kind of level have several adjacencies, each stands with its methods."""
    private = cells[cells["level"].map(is_private).astype(bool)]
    under = private["adjacency"].map(lambda name: re.sub(r"\(\d+\)", "(k)", name))
    mixed = under.groupby(private["level"].map(level_kind)).nunique().max() > 1
    private = private.assign(under=under if mixed else "")
    #: (name, basis, adjacency) -> status -> kinds of levels that have it.
    analysed: dict[tuple[str, str, str], dict[str, dict[str, None]]] = {}
    by = ["method", "epsilon_basis", "under", "level", "epsilon_status"]
    made = list(private[by].drop_duplicates().itertuples(index=False, name=None))
    statuses = {claim[:4]: claim[4] for claim in made}
    for method, basis, place, level, status in made:
        # A method goes by one name as its code runs it too, unless that changes the verdict.
        of = as_implemented().get(method, method)
        alike = statuses.get((of, basis, place, level), status) == status
        verdicts = analysed.setdefault((method_name(of if alike else method), basis, place), {})
        verdicts.setdefault(status, {})[level_kind(level)] = None
    #: verdict -> adjacency -> names
    told: dict[str, dict[str, list[str]]] = {}
    for (name, basis, place), verdicts in analysed.items():
        # Levels are named where an analysis says one thing of some and another of others.
        words = [
            short_status(status) + (f" ({', '.join(kinds)})" if len(verdicts) > 1 else "")
            for status, kinds in verdicts.items()
        ]
        verdict = f"{basis_text(basis)}, {', '.join(words)}"
        told.setdefault(verdict, {}).setdefault(place, []).append(name)
    if mixed:
        return [
            f"{verdict} "
            + ", ".join(f"under {place}: {', '.join(names)}" for place, names in places.items())
            for verdict, places in told.items()
        ]
    lines = [f"{', '.join(places[''])} {verdict}" for verdict, places in told.items()]
    adjacencies = f"adjacency {' / '.join(dict.fromkeys(under))}"
    return [adjacencies, *lines] if lines else []


def weights_alone(shown: pd.DataFrame) -> list[str]:
    """Of which methods the ε says nothing of predictions, and so of the accuracies drawn."""
    labels = dict.fromkeys(
        method_label(as_implemented().get(cell["method"], cell["method"]), cell["level"])
        for cell in shown.to_dict("records")
        if covers_weights_alone(cell)
    )
    told = f"{' / '.join(labels)} infers without noise: its ε is the weights' alone"
    return [told] if labels else []


def of_refuted(shown: pd.DataFrame) -> str:
    """What is known of the cells whose claim is refuted: of which methods the claimed ε, or less,
    is a participant's. Claims about a participant are claims as any other."""
    if "epsilon_status" not in shown:
        return ""
    kept: dict[str, bool] = {}
    for cell in shown[shown["epsilon_status"] == "refuted"].to_dict("records"):
        label = method_label(cell["method"], cell["level"])
        kept[label] = kept.get(label, True) and held_under(cell, "participant") is not None
    if not kept:
        return ""
    if not any(kept.values()):
        return "refuted claims: no ε is known to hold"
    held = " / ".join(label for label, holds in kept.items() if holds)
    return (
        "refuted claims: no ε is known to hold under that adjacency; for a participant that of "
        f"{held} holds (conditional)"
    )


@dataclass(frozen=True)
class Compared:
    """The hyperparameter whose values a figure compares.

    of: a value of the grid -> the value in the summary, which is `column` there, and how a remark
    calls it, in two parts: ("D =", "10"), or ("without encoder", "").
    """

    hyperparameter: str
    column: str
    of: Callable[[Any], tuple[Any, str, str]]


def missing_values(
    expected: Iterable[tuple[tuple, Any]], shown: pd.DataFrame, context: Mapping, compared: Compared
) -> list[dict]:
    """The values that `shown` lacks in cells that it has for others, with the reason.

    setting: how a value is called; partly: whether its line is there at other ε.
    """
    keys = list(shown[list(CELL)].itertuples(index=False, name=None))
    found = set(zip(keys, shown[compared.column], strict=True))
    lines = {(cell[:3], value) for cell, value in found}
    missing = []
    for cell, of in expected:
        value, *setting = compared.of(of)
        if cell in set(keys) and (cell, value) not in found:
            missing.append(
                dict(zip(CELL, cell, strict=True))
                | {"missing_reason": missing_reason(cell, context)}
                | {"setting": tuple(setting), "partly": (cell[:3], value) in lines}
            )
    return missing


def missing_cells(
    expected: Iterable[tuple],
    shown: pd.DataFrame,
    context: Mapping,
    panels: Mapping[str, str] | None = None,
) -> list[dict]:
    """The expected cells that `shown` lacks, with the reason.

    panels: dataset -> the panel that it shares with others. A dataset that is not there has its
    cells here only if its panel shows others; else the panel itself says so.
    """
    panels = panels or {}
    found = set(shown[list(CELL)].itertuples(index=False, name=None))
    drawn = {panels[dataset] for dataset in shown["dataset"] if dataset in panels}
    return [
        dict(zip(CELL, cell, strict=True)) | {"missing_reason": missing_reason(cell, context)}
        for cell in expected
        if cell not in found
        and (cell[0] not in unavailable_in(context) or panels.get(cell[0]) in drawn)
    ]


def unavailable_in(context: Mapping) -> Mapping[str, str]:
    """Dataset -> why it is not there."""
    return context.get("unavailable", {})


def reason_of(dataset: str, context: Mapping) -> str:
    """Why a dataset has no panel to show."""
    unavailable = unavailable_in(context)
    return f"{NOT_AVAILABLE}: {unavailable[dataset]}" if dataset in unavailable else NOT_REQUESTED


def not_shown(missing: Sequence[Mapping], shown: pd.DataFrame) -> str:
    """What a reader would look for and not find, by reason; what is missing on the same datasets
    stands together."""
    lines = set(shown[["dataset", "method", "level"]].itertuples(index=False, name=None))
    datasets = set(shown["dataset"])
    #: (reason, what is missing, of which setting, whether at some ε alone) -> where -> its values
    found: dict[tuple, dict[str, dict[str, None]]] = {}
    for cell in missing:
        why, what = cell["missing_reason"], method_label(cell["method"], cell["level"])
        where, (setting, value) = cell["dataset"], cell.get("setting", ("", ""))
        partly = cell.get("partly", (where, cell["method"], cell["level"]) in lines)
        if why == NO_METHOD:
            where = ""
        elif where not in datasets:
            what, where = where, ""
        key = why, what, setting, partly and bool(where)
        found.setdefault(key, {}).setdefault(where, {})[value] = None
    told: dict[str, dict[str, list[str]]] = {}
    for (why, what, setting, partly), places in found.items():
        by_values: dict[tuple, list[str]] = {}
        for where, values in places.items():
            by_values.setdefault(tuple(values), []).append(where)
        for values, names in by_values.items():
            of = " ".join(filter(None, [setting, ", ".join(values)]))
            of = f" {of}" if of else ""
            of += " at some ε" if partly else ""
            of += f" on {', '.join(names)}" if any(names) else ""
            told.setdefault(why, {}).setdefault(of, []).append(what)
    return "; ".join(
        f"not shown: {'; '.join(f'{_names(names)}{of}' for of, names in each.items())} ({why})"
        for why, each in told.items()
    )


def _names(names: Iterable[str]) -> str:
    """Names, or of very many how many: the report lists what is missing one by one."""
    names = list(names)
    return ", ".join(names) if len(names) <= 12 else f"{len(names)} lines ({names[0]} and others)"


def seeds_of(shown: pd.DataFrame) -> str:
    """How many seeds the means of a figure are taken over, by dataset where that differs."""
    spans: dict[str, list[str]] = {}
    for dataset, counts in shown.groupby("dataset", sort=False)["n"]:
        least, most = int(counts.min()), int(counts.max())
        span = str(most) if least == most else f"{least} to {most}"
        span += " seed" if most == 1 else " seeds"
        spans.setdefault(span, []).append(dataset)
    if len(spans) == 1:
        return f"mean over {next(iter(spans))}"
    return "; ".join(f"mean over {span} on {', '.join(names)}" for span, names in spans.items())
