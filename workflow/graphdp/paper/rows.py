"""Tidy rows: one per trained model and setting; tables and figures are functions of them alone."""

import csv
import gzip
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from graphdp import io
from graphdp.errors import GraphDPError
from graphdp.methods.settings import key
from graphdp.paper.labels import OLDER_NOISE
from graphdp.privacy.plan import STATUSES
from graphdp.privacy.protection import canonical_epsilon, is_level, is_private

COLUMNS = (
    "study",
    "dataset",
    "method",
    "level",
    "epsilon",
    "delta",
    "seed",
    "hyperparameters",
    "val_accuracy",
    "test_accuracy",
    "noise_multiplier",
    "best_epoch",
    "checkpoint",
    "study_seed",
    "split",
    "graph",
    "epsilon_basis",
    "adjacency",
    "epsilon_status",
    "epsilons",
    "cpu_seconds",
    "wall_seconds",
    "peak_rss_mb",
    "device",
    "git_commit",
    "versions",
)
# Two rows with equal values here claim to be the same trained model.
IDENTITY = (
    "study",
    "dataset",
    "method",
    "level",
    "epsilon",
    "seed",
    "hyperparameters",
    "checkpoint",
)

HYPERPARAMETER_PREFIX = "hp_"
_NUMBERS = (
    "delta",
    "val_accuracy",
    "test_accuracy",
    "noise_multiplier",
    "best_epoch",
    "cpu_seconds",
    "wall_seconds",
    "peak_rss_mb",
)
_NEVER_EMPTY = (*IDENTITY, "study_seed", "split", "graph")
_ACCURACIES = ("val_accuracy", "test_accuracy")
#: Columns that hold JSON, where they are not empty, and of what kind.
_JSON = {"epsilons": list, "versions": dict, "curves": dict}
#: Precision averaged over classes, and weighted by how often each one is true; not in older files.
PRECISIONS = ("test_precision", "test_precision_weighted")


def read_rows(path: str | os.PathLike) -> pd.DataFrame:
    """Read and check a rows.csv.

    Returns the columns of the file (at least `COLUMNS`): text as str ("" when empty), `seed` int64,
    the numeric columns float64 (NaN when empty), accuracies and precisions (NaN in older files) as
    fractions 0..1, `epsilon` as its canonical token, `noise` (what drew the noise, `OLDER_NOISE`
    where an older file does not say), `release` ("reproduction" or "private"; the former in older
    files), plus one column `hp_<name>` per hyperparameter (object; None where a row has none of
    that name). Raises GraphDPError for a missing column, an empty required value, a value out of
    range or a finite ε with noise of scale 0.
    """
    return _parse(_read(path), path)


def _read(path: str | os.PathLike) -> pd.DataFrame:
    """A rows.csv as its file has it: text alone."""
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except (EOFError, OSError, ValueError, zlib.error) as error:  # pandas' own are ValueErrors
        why = " ".join(str(error).split())
        raise GraphDPError(
            f"{path}: not a rows.csv ({why}); delete it and run again (what is shipped comes "
            "back with git checkout)"
        ) from error


def check_models(
    path: str | os.PathLike,
    block: Mapping[str, Any],
    settings: Sequence[Mapping[str, Any]],
    seeds: Sequence[int],
) -> None:
    """Whether a job's rows are those of exactly the models that it was asked for.

    block: their study, dataset, method, level, ε, checkpoint, study_seed and split_rule; there is
    one model per setting and seed. Raises GraphDPError naming the file and what is wrong with it.
    """
    rows = read_rows(path)
    same = ("study", "dataset", "method", "level", "epsilon", "checkpoint", "study_seed")
    origin = {name: str(block[name]) for name in same} | {"split": block["split_rule"]}
    for name, value in origin.items():
        strange = rows[rows[name].astype(str) != value]
        if len(strange):
            raise GraphDPError(
                f"{path}: a row has {name} {strange.iloc[0][name]}, the study {value}; delete the "
                "file and run again"
            )
    wanted = {(key(dict(setting)), seed) for setting in settings for seed in seeds}
    found = list(zip(rows["hyperparameters"], rows["seed"], strict=True))
    if len(found) != len(wanted) or set(found) != wanted:
        raise GraphDPError(
            f"{path} has {len(found)} models, {len(wanted - set(found))} of the {len(wanted)} "
            "wanted (settings x seeds) are missing; delete the file and run again"
        )


def collect(paths: Sequence[str | os.PathLike], more: pd.DataFrame | None = None) -> pd.DataFrame:
    """Concatenate the rows of all jobs, sorted by dataset, method, level, ε, setting and seed.

    The order of `paths` does not matter. more: further rows, as an earlier call gave them. No paths
    and no more give an empty frame with all columns (every dataset may be unavailable).

    Raises GraphDPError when two rows claim to be the same trained model.
    """
    if not paths and more is None:
        return _parse(pd.DataFrame(columns=list(COLUMNS), dtype=str), "no rows")
    frames = [_read(path) for path in paths]
    for frame, path in zip(frames, paths, strict=True):
        _parse(frame, path)  # so that an error names the job's own file
    if more is not None:
        frames.append(_as_text(more))
    raw = pd.concat(frames, ignore_index=True).fillna("")
    rows = _parse(raw, "collected rows")
    duplicated = rows.duplicated(list(IDENTITY))
    if duplicated.any():
        row = rows[duplicated].iloc[0]
        raise GraphDPError(
            f"{int(duplicated.sum())} rows stand twice, the first is {_name(row)}; "
            "delete the stale file among the job results and collect again"
        )
    order = sorted(
        range(len(rows)),
        key=lambda i: (
            *rows.loc[i, ["study", "dataset", "method", "level"]],
            float(rows.at[i, "epsilon"]),
            setting_key(rows.at[i, "hyperparameters"]),
            rows.at[i, "checkpoint"],
            rows.at[i, "seed"],
        ),
    )
    return rows.iloc[order].reset_index(drop=True)


def _as_text(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows as their file has them."""
    text = StringIO()
    _to_csv(rows, text)
    text.seek(0)
    return pd.read_csv(text, dtype=str, keep_default_na=False)


def collect_rows(
    inputs: Sequence[str | os.PathLike],
    output: str | os.PathLike,
    more: pd.DataFrame | None = None,
) -> None:
    """Join the jobs' CSV files, and `more` rows, into one rows.csv: checked, free of duplicates, in
    a fixed order."""
    write_rows(collect(inputs, more), output)


def write_rows(rows: pd.DataFrame, path: str | os.PathLike) -> None:
    """Write rows as CSV (without the derived `hp_*` columns), atomically; gzipped for .gz."""
    text = StringIO()
    _to_csv(rows, text)
    content = text.getvalue().encode()
    with io.atomic_path(path) as temporary:
        # Without name and time: equal rows are equal bytes.
        zipped = str(path).endswith(".gz")
        temporary.write_bytes(gzip.compress(content, mtime=0) if zipped else content)


def _to_csv(rows: pd.DataFrame, into: Any) -> None:
    kept = [name for name in rows.columns if not name.startswith(HYPERPARAMETER_PREFIX)]
    rows[kept].to_csv(into, index=False, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")


def setting_key(hyperparameters: str) -> tuple:
    """A sort key of a hyperparameter setting: numbers by value, not by spelling."""
    return tuple(
        (name, isinstance(value, str), str(value) if isinstance(value, str) else float(value or 0))
        for name, value in sorted(json.loads(hyperparameters).items())
    )


def _name(row: pd.Series) -> str:
    return ", ".join(f"{name}={row[name]}" for name in IDENTITY)


def _parse(raw: pd.DataFrame, path: str | os.PathLike) -> pd.DataFrame:
    label = Path(path).name if os.path.sep in str(path) else str(path)
    missing = [name for name in COLUMNS if name not in raw.columns]
    if missing:
        raise GraphDPError(f"{label}: no column {', '.join(missing)}; it is not a rows.csv")

    def refuse(bad: pd.Series, what: str) -> None:
        if bad.any():
            position = int(bad.to_numpy().argmax())
            raise GraphDPError(f"{label}: line {position + 2}: {what}")

    rows = raw.copy()
    if "noise" not in rows:
        drawn = (rows["noise_multiplier"] != "") & (rows["epsilon"] != "inf")
        rows["noise"] = drawn.map({True: OLDER_NOISE, False: ""}).astype(str)
    if "release" not in rows:
        rows["release"] = "reproduction"
    for name in PRECISIONS:
        if name not in rows:
            rows[name] = ""
    for name in _ACCURACIES:
        missing = (rows[name] == "") & (rows["release"] != "private")
        refuse(missing, f"{name} is empty")
    for name in _NEVER_EMPTY:
        refuse(rows[name] == "", f"{name} is empty")
    for name in (*_NUMBERS, *PRECISIONS):
        numbers = pd.to_numeric(rows[name].where(rows[name] != ""), errors="coerce")
        refuse((rows[name] != "") & numbers.isna(), f"{name} is not a number")
        rows[name] = numbers.astype("float64")
    refuse(~rows["seed"].str.fullmatch(r"\d+"), "seed is not a whole number >= 0")
    rows["seed"] = rows["seed"].astype("int64")
    known = rows["level"].map(is_level).astype(bool)
    refuse(~known, "level is not one of none, edge, node, k<number>")
    refuse(
        ~rows["epsilon_status"].isin(["", *STATUSES]),
        f"epsilon_status is not one of {', '.join(STATUSES)}",
    )
    rows["epsilon"] = rows["epsilon"].map(canonical_epsilon).astype(str)
    for name in (*_ACCURACIES, *PRECISIONS):
        given = rows[name].notna()
        refuse(given & ~rows[name].between(0, 1), f"{name} is not a fraction between 0 and 1")
    refuse(
        rows["level"].map(is_private).astype(bool) == (rows["epsilon"] == "inf"),
        "level 'none' and epsilon 'inf' belong together",
    )
    finite = ~rows["epsilon"].isin(["inf", "0"])
    refuse(
        finite & (rows["noise_multiplier"] <= 0),
        "noise of scale 0 with a finite epsilon; the calibration is broken",
    )
    refuse(finite & ~rows["delta"].between(0, 1, "neither"), "a finite epsilon needs 0 < delta < 1")
    refuse(
        finite & ((rows["epsilon_basis"] == "") | (rows["adjacency"] == "")),
        "a finite epsilon needs its epsilon_basis and adjacency",
    )
    for name, kind in _JSON.items():
        if name in rows:
            wrong = {text for text in rows[name].unique() if text and _parsed(text, kind) is None}
            what = "object" if kind is dict else "array"
            refuse(rows[name].isin(wrong), f"{name} is not a JSON {what}")
    return rows.join(_hyperparameters(rows, refuse))


def _parsed(text: str, kind: type) -> Any:
    """What a text of JSON holds, if it is of a kind."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, kind) else None


def _hyperparameters(rows: pd.DataFrame, refuse) -> pd.DataFrame:
    """The `hp_*` columns, parsed once per distinct setting."""
    settings = {text: _parsed(text, dict) for text in rows["hyperparameters"].unique()}
    refuse(
        rows["hyperparameters"].map(lambda text: settings[text] is None).astype(bool),
        "hyperparameters is not a JSON object",
    )
    names = sorted({name for setting in settings.values() for name in setting})
    return pd.DataFrame(
        {
            HYPERPARAMETER_PREFIX + name: pd.Series(
                [settings[text].get(name) for text in rows["hyperparameters"]],
                index=rows.index,
                dtype=object,
            )
            for name in names
        },
        index=rows.index,
    )
