"""The papers' selection rule: the best mean validation accuracy; and bootstrap intervals."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from graphdp.errors import GraphDPError
from graphdp.paper.rows import setting_key
from graphdp.rng import generator

CELL = ("dataset", "method", "level", "epsilon")
# What must be the same for all rows of a cell, or its mean would mix different things.
_UNIFORM = ("study", "checkpoint", "epsilon_basis", "adjacency", "epsilon_status")


def bootstrap_ci(
    values: Iterable[float], resamples: int = 1000, seed: int = 0, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Mean of `values` and its percentile bootstrap interval: (mean, low, high).

    GAP (USENIX Security 2023), section 7.3: 95 % confidence, 1,000 resamples with replacement. The
    limits are NaN for fewer than two values: resampling one value would claim certainty. Raises
    GraphDPError when there are no values.
    """
    values = np.asarray(list(values), dtype=np.float64)
    if values.size == 0:
        raise GraphDPError("no values to average; select rows of a cell that has results")
    mean = float(values.mean())
    if values.size == 1:
        return mean, float("nan"), float("nan")
    picks = generator("bootstrap", seed).integers(values.size, size=(resamples, values.size))
    tail = 50 * (1 - confidence)
    low, high = np.percentile(values[picks].mean(axis=1), [tail, 100 - tail])
    return mean, float(low), float(high)


def select_best(
    rows: pd.DataFrame, by: Sequence[str] = ()
) -> tuple[pd.DataFrame, dict[tuple, str]]:
    """The rows of the best setting of each cell (dataset, method, level, ε, and the columns `by`).

    Best is the highest mean `val_accuracy` over seeds; of equal ones the first in the order of the
    settings. Test accuracy plays no part. `by` adds columns to the cell, e.g. ["hp_hops"] chooses
    the rest separately for each number of hops. (GAP section 7.3.)

    A setting that lacks seeds which another setting of the cell has is left out of the comparison;
    a cell in which no setting has every seed is left out altogether.

    Returns the selected rows with two added columns `settings_compared` and `settings_incomplete`
    (int), and the cells left out with the reason. Raises GraphDPError when the rows of one cell
    differ in checkpoint rule, basis, adjacency or status, or hold a model twice.
    """
    cells = [*CELL, *by]
    read = rows[[*dict.fromkeys((*cells, *_UNIFORM, "hyperparameters", "seed", "val_accuracy"))]]
    places, compared, incomplete, left_out = [], [], [], {}
    for cell, group in read.reset_index(drop=True).groupby(cells, sort=False):
        best, complete, settings = _best_setting(cell, group)
        if not complete:
            left_out[cell] = f"incomplete: none of {settings} settings has all seeds"
        places.extend(best)
        compared.extend([complete] * len(best))
        incomplete.extend([settings - complete] * len(best))
    chosen = rows.iloc[places].reset_index(drop=True)
    counts = {"settings_compared": compared, "settings_incomplete": incomplete}
    return chosen.assign(**{name: np.array(n, np.int64) for name, n in counts.items()}), left_out


def summarise(selected: pd.DataFrame, by: Sequence[str] = (), seed: int = 0) -> pd.DataFrame:
    """One row per cell of selected rows: mean test accuracy with its interval, in percent.

    Columns: the cell, mean, ci_low, ci_high (percent), n (models), the cell's δ, basis, adjacency,
    status and checkpoint rule, what drew its noise, ε under every analysis (JSON), hyperparameters,
    settings_compared, settings_incomplete.
    """
    kept = ["noise", "epsilon_basis", "adjacency", "epsilon_status", "epsilons", "checkpoint",
            "hyperparameters", "settings_compared", "settings_incomplete"]  # fmt: skip
    summary = []
    for cell, group in selected.groupby([*CELL, *by], sort=False):
        mean, low, high = bootstrap_ci(100 * group["test_accuracy"], seed=seed)
        summary.append(
            dict(zip([*CELL, *by], cell, strict=True))
            | {"mean": mean, "ci_low": low, "ci_high": high, "n": len(group)}
            # With one split per seed δ may differ between models; the weakest is the cell's.
            | {"delta": group["delta"].max()}
            | {name: group[name].iloc[0] for name in kept}
        )
    return pd.DataFrame(
        summary, columns=[*CELL, *by, "mean", "ci_low", "ci_high", "n", "delta", *kept]
    )


def _best_setting(cell: tuple, group: pd.DataFrame) -> tuple[np.ndarray, int, int]:
    """The index of the rows of a cell's best setting, by seed; how many settings have all seeds
    (if none does, there are no such rows), and how many there are."""
    name = ", ".join(map(str, cell))
    for column in _UNIFORM:
        values = group[column].unique()
        if len(values) > 1:
            raise GraphDPError(
                f"rows of {name} mix {column} {values[0]!r} and {values[1]!r}; keep one per study"
            )
    setting, texts = pd.factorize(group["hyperparameters"])
    seed, seeds = pd.factorize(group["seed"], sort=True)
    models = np.bincount(setting * len(seeds) + seed, minlength=len(texts) * len(seeds))
    models = models.reshape(len(texts), len(seeds))
    if models.max() > 1:
        raise GraphDPError(f"rows of {name} hold a seed twice; collect the jobs' results again")
    complete = np.flatnonzero(models.all(axis=1))
    if not complete.size:
        return np.array([], np.int64), 0, len(texts)
    means = np.bincount(setting, group["val_accuracy"]) / models.sum(axis=1)
    # Rounding makes means equal that differ only by the order in which floats were added.
    means = means.round(12)
    best = complete[~(means[complete] < means[complete].max())]
    chosen = min(best, key=lambda one: setting_key(texts[one]))
    order = np.argsort(seed[setting == chosen])
    return group.index.to_numpy()[setting == chosen][order], complete.size, len(texts)
