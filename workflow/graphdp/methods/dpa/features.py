"""What users send in the first round."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from graphdp.data.split import Split
from graphdp.errors import GraphDPError
from graphdp.parties.fixed_point import parts_of
from graphdp.rng import generator


def chosen_columns(x: Any, setting: dict[str, Any], public: tuple) -> np.ndarray:
    """The features, or `columns` of them that are drawn without looking at them: float64 (n, C).

    public: names what draws them, apart from any noise. Raises `GraphDPError` for more columns than
    there are.
    """
    columns = setting.get("columns")
    if columns is not None:
        if columns > x.shape[1]:
            raise GraphDPError(f"columns is {columns} of {x.shape[1]} features; give fewer")
        drawn = generator("dpa columns", *public).permutation(x.shape[1])[:columns]
        x = x[:, np.sort(drawn)]
    return x.astype(np.float64).toarray() if issparse(x) else np.array(x, np.float64, order="C")


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows over their norms, in place; rows of zeros stay."""
    for part in parts_of(rows):
        norms = np.linalg.norm(part, axis=1, keepdims=True)
        part /= np.where(norms > 0, norms, 1.0)
    return rows


def one_hot(labels: np.ndarray, classes: int, split: Split) -> np.ndarray:
    """Labels of training and validation nodes, zeros for the others: float64 (n, classes)."""
    found = np.zeros((len(labels), classes))
    known = np.concatenate([split.train, split.val])
    found[known, labels[known]] = 1.0
    return found
