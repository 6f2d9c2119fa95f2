"""The stage that bounds degrees: which edges each seed keeps, once per bound, for all methods."""

from typing import TYPE_CHECKING, Any

from graphdp.graphs.bounds import bound_name
from graphdp.methods.card import MASKS, Stage

if TYPE_CHECKING:  # every start of Snakemake reads this module
    import numpy as np

    from graphdp.methods.block import Block


def bound_degree(
    block: "Block", settings: list[dict[str, Any]]
) -> dict[str, dict[int, "np.ndarray"]]:
    """The edges that degree bounds leave: `bound_name` -> seed -> kept, bool (m,)."""
    from graphdp.graphs import degree

    masks: dict[str, dict[int, Any]] = {}
    for seed, setting in block.runs(settings):
        bound = setting["bound"]
        stream, public = block.degree_stream(seed, bound), (block.dataset, seed)
        masks.setdefault(bound, {})[seed] = degree.keep_edges(block.graph, bound, stream, public)
    return masks


def bound_of(level: str, setting: dict[str, Any]) -> dict[str, Any] | None:
    """The degree bound of a setting, if it has one."""
    return {"bound": bound_name(setting)} if "max_degree" in setting else None


def _never(level: str) -> bool:
    return False


def _place(dataset: str, *cell: str, part: dict[str, Any]) -> str:
    """One file per graph and bound, whoever reads it."""
    return f"{dataset}/{part['bound']}"


STAGE = Stage(
    "bound_degree",
    "graphdp.methods.bound_degree:bound_degree",
    settings=bound_of,
    store=MASKS,
    levels=("k", "node"),
    place=_place,
    calibrated=_never,
    trains=False,
    of_graph=True,
)
