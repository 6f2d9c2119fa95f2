"""The orderings that a paper claims, in our results: which side is above, on how good evidence.

A claim compares two sides by a measure: mean test accuracy (as the paper selects models), where a
run's curves end (`convergence`), or the AUC of the membership attack, which has rows of its own.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from graphdp.errors import GraphDPError
from graphdp.paper.accuracy import typed
from graphdp.paper.attack import attack_cells, table3
from graphdp.paper.cells import (
    NOT_REQUESTED,
    expected_cells,
    experiment_rows,
    missing_reason,
    study_datasets,
)
from graphdp.paper.labels import edge_free_methods, method_label
from graphdp.paper.rows import HYPERPARAMETER_PREFIX
from graphdp.paper.select import CELL, bootstrap_ci, select_best, summarise
from graphdp.privacy.protection import edges_alone, is_private

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
    "measure",
    "within",
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
#: "about as good as": at most this many percentage points apart, unless a claim says within how
#: many.
ABOUT = 2.0

#: Cell -> mean, ci_low, ci_high and n of a side of a claim.
Found = Mapping[tuple, Mapping[str, Any]]


@dataclass(frozen=True)
class Side:
    """One side of an ordering: a method, or its models with one value of a hyperparameter or those
    above it (of curves: one place of them); at the level of the claim, or at one of its own. Or a
    number."""

    method: str
    level: str = ""
    name: str = ""
    value: object = None
    above: bool = False

    @classmethod
    def of(cls, text: str) -> "Side":
        """From "gap", "mlp@node", "gap:encoder_layers=2", "gap:hops>1", "progap:at=val_last" or
        "50"."""
        method, _, setting = text.partition(":")
        method, _, level = method.partition("@")
        name, sign, value = re.fullmatch(r"([^=>]*)([=>]?)(.*)", setting).groups()
        return cls(method, level, name, _value(value), sign == ">")

    @property
    def number(self) -> float | None:
        """What it is without any model, in percent."""
        return float(self.method) if self.method.isdecimal() else None

    @property
    def setting(self) -> "Side":
        """What it says of a method's models, whichever the method and the level."""
        return Side("", "", self.name, self.value, self.above)

    def has(self, value: Any) -> bool:
        """Whether models with this value of the hyperparameter are its."""
        if not self.name:
            return True
        return value == self.value if not self.above else value is not None and value > self.value

    def meets(self, other: "Side", level: str) -> bool:
        """Whether a model may be of both sides of a claim about a level: it would be compared with
        itself."""
        if self.method != other.method or (self.level or level) != (other.level or level):
            return False
        if not self.name or self.name != other.name or (self.above and other.above):
            return True
        return other.has(self.value) if other.above else self.has(other.value)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text or None


def read_orderings(path: str | Path | None, paper: str | None) -> pd.DataFrame:
    """The orderings that a paper claims (config/published/orderings.csv).

    Raises GraphDPError for missing columns, an unknown relation or measure, or sides that share
    models: the selection of the wider one may be a model of the other, and the claim could not
    fail.
    """
    if path is None:
        return pd.DataFrame(columns=list(ORDERINGS_COLUMNS), dtype=str)
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    missing = [name for name in ORDERINGS_COLUMNS if name not in table.columns]
    if missing:
        raise GraphDPError(f"{Path(path).name}: no column {', '.join(missing)}")
    for column, known in (("relation", RELATIONS), ("measure", ("", *_OF_MODELS, _AUC))):
        unknown = sorted(set(table[column]) - set(known))
        if unknown:
            names = ", ".join(filter(None, known))
            raise GraphDPError(f"{Path(path).name}: {column} {unknown[0]!r}; use {names}")
    for claim in table.itertuples():
        if Side.of(claim.higher).meets(Side.of(claim.lower), claim.level):
            raise GraphDPError(
                f"{Path(path).name}: {claim.claim!r}: {claim.higher} and {claim.lower} share "
                "models; let one exclude the other (gap:hops>1 and gap:hops=1)"
            )
    return table[table["paper"] == (paper or "")].reset_index(drop=True)


def orderings_table(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Whether each ordering that the paper claims of its models holds in ours, per dataset and ε.

    Columns: claim, level, dataset, epsilon, higher, lower, relation, higher_mean, higher_low,
    higher_high, higher_n, lower_mean, lower_low, lower_high (percent), lower_n (models), verdict (a
    key of `VERDICTS`), missing_reason, source, and what is claimed of the ε of each side
    (higher_basis, higher_adjacency, higher_delta, higher_status, and lower_*). Each side is the
    selection of its own settings by validation accuracy. A method that reads no edge stands against
    every edge-level ε with its ε = 0. Where a claim names datasets or ε (separated by blanks), it
    is about these alone.
    """
    claims = read_orderings(context.get("orderings"), context.get("paper"))

    @cache
    def of(experiment: str) -> pd.DataFrame:
        return experiment_rows(rows, context, experiment)

    @cache
    def found(measure: str, experiment: str, setting: Side) -> Found:
        return _OF_MODELS[measure](of(experiment), setting)

    def asked(experiment: str) -> list[tuple]:
        named = experiment in context.get("experiments", {})
        return expected_cells(context, experiment) if named else []

    return _judged(claims[claims["measure"] != _AUC], context, asked, found)


def attack_orderings_table(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """As `orderings_table`, of the AUC of attacks; rows: as `attack.read_attacks` gives."""
    claims = read_orderings(context.get("orderings"), context.get("paper"))
    table = table3(rows, context)
    cells = {
        tuple(line[name] for name in CELL): line
        for line in table[table["mean"].notna()].to_dict("records")
    }
    return _judged(
        claims[claims["measure"] == _AUC],
        dict(context) | {"experiments": context.get("attacks", {})},
        lambda _: attack_cells(context),
        lambda *_: cells,
    )


def _judged(
    claims: pd.DataFrame,
    context: Mapping,
    asked_by: Callable[[str], list[tuple]],
    found: Callable[[str, str, Side], Found],
) -> pd.DataFrame:
    """A line for every claim, dataset and ε of the cells that an experiment asks for."""
    table = []
    for claim in claims.to_dict("records"):
        asked = asked_by(claim["experiment"])
        sides = {name: Side.of(claim[name]) for name in ("higher", "lower")}
        named = claim["datasets"].split()
        for dataset in study_datasets(context):
            if named and dataset not in named:
                continue
            for epsilon in _budgets(asked, dataset, claim, sides["higher"]):
                line = {
                    name: claim[name]
                    for name in ("claim", "level", "higher", "lower", "relation", "source")
                } | {"dataset": dataset, "epsilon": epsilon, "missing_reason": ""}
                for name, side in sides.items():
                    of = found(claim["measure"], claim["experiment"], side.setting)
                    ours, missing = _of_side(side, of, dataset, claim["level"], epsilon)
                    if missing:
                        why = missing_reason(missing, context)
                        why = why if missing in asked else NOT_REQUESTED
                        line["missing_reason"] = f"{method_label(side.method, missing[2])}: {why}"
                    line |= {f"{name}_{column}": value for column, value in ours.items()}
                within = float(claim["within"] or ABOUT)
                table.append(line | {"verdict": verdict(line, within)})
    frame = pd.DataFrame(table, columns=list(ORDERING_TEXTS + ORDERING_NUMBERS))
    return typed(frame, ORDERING_NUMBERS, ())


def _budgets(asked: Iterable[tuple], dataset: str, claim: Mapping, higher: Side) -> Iterable[str]:
    """The ε at which a claim is looked at: those that its level has for either side's method."""
    named = claim["epsilons"].split()
    method, level = higher.method, higher.level or claim["level"]
    if not is_private(level) and is_private(claim["level"]):  # looked at where the other one is
        method, level = Side.of(claim["lower"]).method, claim["level"]
    return dict.fromkeys(
        cell[3]
        for cell in asked
        if cell[:3] == (dataset, method, level) and cell[3] in (named or [cell[3]])
    )


def _of_side(
    side: Side, found: Found, dataset: str, level: str, epsilon: str
) -> tuple[dict[str, Any], tuple | None]:
    """mean, low, high and n of a side, what is claimed of its ε, and the cell that is missing, if
    it is."""
    columns = {"mean": "mean", "low": "ci_low", "high": "ci_high", "n": "n"}
    if side.number is not None:
        return dict.fromkeys(("mean", "low", "high"), side.number) | {"n": np.inf}, None
    cell = _cell(dataset, side, level, epsilon)
    ours = found.get(cell)
    if ours is None:
        return dict.fromkeys(columns, np.nan), cell
    return {name: ours[column] for name, column in (columns | _CLAIMED).items()}, None


#: What is claimed of a side's ε: its name here -> in what is found.
_CLAIMED = {
    "basis": "epsilon_basis",
    "adjacency": "adjacency",
    "delta": "delta",
    "status": "epsilon_status",
}


def _cell(dataset: str, side: Side, level: str, epsilon: str) -> tuple:
    level = side.level or level
    if side.method in edge_free_methods() and edges_alone(level):
        epsilon = "0"
    if not is_private(level):
        epsilon = "inf"
    return dataset, side.method, level, epsilon


# --- measures -------------------------------------------------------------------------------------


def _accuracy(rows: pd.DataFrame, setting: Side) -> Found:
    """Test accuracy of the selected models of each cell, of those that a setting names."""
    if setting.name:
        column = HYPERPARAMETER_PREFIX + setting.name
        if column not in rows.columns:
            return {}
        rows = rows[rows[column].map(setting.has).astype(bool)]
    best, _ = select_best(rows)
    lines = summarise(best).to_dict("records")
    return {tuple(line[column] for column in CELL): line for line in lines}


def _convergence(rows: pd.DataFrame, setting: Side) -> Found:
    """A place of the curves of the selected models of each cell (`curve_places`), in percent."""
    if "curves" not in rows.columns:
        return {}
    best, _ = select_best(rows[rows["curves"] != ""])
    found = {}
    for cell, models in best.groupby(list(CELL), sort=False):
        places = [curve_places(json.loads(text))[setting.value] for text in models["curves"]]
        interval = bootstrap_ci(100 * np.array(places))
        line = dict(zip(("mean", "ci_low", "ci_high"), interval, strict=True))
        # As `summarise`: of several δ the weakest is the cell's.
        line |= {name: models[name].iloc[0] for name in _CLAIMED.values()}
        found[cell] = line | {"n": len(models), "delta": models["delta"].max()}
    return found


def curve_places(curves: Mapping[str, list[list[float]]]) -> dict[str, float]:
    """Of accuracies after every epoch of every stage: those at the end of the first stage and of
    the last one (val, train), and what the second and the last stage gain over the one before.
    """
    train, val = ([stage[-1] for stage in curves[part]] for part in ("train", "val"))
    return {
        "train_first": train[0],
        "train_last": train[-1],
        "val_first": val[0],
        "val_last": val[-1],
        "gain_second": val[1] - val[0],
        "gain_last": val[-1] - val[-2],
    }


_OF_MODELS: dict[str, Callable[[pd.DataFrame, Side], Found]] = {
    "": _accuracy,
    "convergence": _convergence,
}
_AUC = "auc"


# --- verdicts -------------------------------------------------------------------------------------

ORDERING_NUMBERS = (
    "higher_mean",
    "higher_low",
    "higher_high",
    "higher_n",
    "higher_delta",
    "lower_mean",
    "lower_low",
    "lower_high",
    "lower_n",
    "lower_delta",
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
    "higher_basis",
    "higher_adjacency",
    "higher_status",
    "lower_basis",
    "lower_adjacency",
    "lower_status",
)


def claimed_cells(orderings: pd.DataFrame) -> pd.DataFrame:
    """The cells with a result that lines of `orderings_table` compare, the higher side first, each
    with what is claimed of its ε: `CELL`, epsilon_basis, adjacency, epsilon_status, delta."""
    cells = []
    for line in orderings.to_dict("records"):
        for name in ("higher", "lower"):
            side = Side.of(line[name])
            if side.number is None and not np.isnan(line[f"{name}_mean"]):
                cell = _cell(line["dataset"], side, line["level"], line["epsilon"])
                claimed = {column: line[f"{name}_{own}"] for own, column in _CLAIMED.items()}
                cells.append(dict(zip(CELL, cell, strict=True)) | claimed)
    return pd.DataFrame(cells, columns=[*CELL, *_CLAIMED.values()])


def verdict(line: Mapping, within: float = ABOUT) -> str:
    """Whether one ordering holds: by the means, and "intervals overlap" where they do; of fewer
    models than `FEWEST_SEEDS` on either side nothing is said.

    at_least: also holds where the intervals overlap. about: holds within so many points.
    """
    higher, lower = line["higher_mean"], line["lower_mean"]
    if np.isnan(higher) or np.isnan(lower):
        return "missing"
    if min(line["higher_n"], line["lower_n"]) < FEWEST_SEEDS:
        return "too few seeds"
    if line["relation"] == "about":
        return "holds" if abs(higher - lower) <= within else "fails"
    apart = line["higher_low"] > line["lower_high"] or line["lower_low"] > line["higher_high"]
    if line["relation"] == "at_least":
        return "fails" if apart and higher < lower else "holds"
    outcome = "holds" if higher > lower else "fails"
    return outcome if apart else f"{outcome}, intervals overlap"
