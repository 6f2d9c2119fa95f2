"""Claims about ProGAP: the noise of its stages, which all train on the features."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphdp.audit.canaries import HIDDEN, Training
from graphdp.audit.lattice_claims import lattice_claims
from graphdp.graphs.bounds import bound_name
from graphdp.methods.progap.method import fit
from graphdp.methods.progap.plan import analyses
from graphdp.privacy.plan import Plan
from graphdp.releases.cache import AggregateCache

_FIT = {
    "hidden": HIDDEN,
    "base_layers": 1,
    "depth": 1,
    "max_degree": 4,
    "layerwise": False,
    "history": False,
}


def _plan(settings: Mapping[str, Any]) -> Plan:
    """The whole plan as it holds, of a participant."""
    of_plan = {name: _FIT[name] for name in ("depth", "max_degree")}
    training = {name: value for name, value in settings.items() if name != "num_train"}
    found = analyses("node", of_plan | training, settings["num_train"])
    return next(p for p in found if p.adjacency == "participant" and p.status == "conditional")


def _reads(
    x: np.ndarray, seeds: list[int], setting: dict[str, Any], folder: str
) -> tuple[dict, AggregateCache]:
    """No edges, so that there are none to bound; the sums are released on the way."""
    masks = {bound_name(setting): {seed: np.zeros(0, bool) for seed in seeds}}
    return masks, AggregateCache(folder)


CLAIMS = lattice_claims("progap", "ProGAP's stages", Training(fit, _FIT, _reads), _plan)
