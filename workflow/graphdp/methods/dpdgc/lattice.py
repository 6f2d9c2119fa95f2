"""Bare noise in DPDGC's embedding phase: `graphdp.audit.lattice` against the stage `embed`.

One entry of A is there or not: node 1, alone, lists node 0. W has a row for each listed node, and
the gradient of a row that no sampled node lists is zero. So without the entry row 0 of every noisy
sum is bare noise.
"""

import numpy as np

from graphdp.audit import lattice
from graphdp.audit.front_door import audit_block, calibration_entry, graph_of
from graphdp.audit.lattice_claims import two_claims
from graphdp.data.split import Split
from graphdp.methods.dpdgc.phase_attack import LEARNING_RATE, embedded
from graphdp.methods.dpdgc.plan import corrected_analyses
from graphdp.noise import NoiseSource
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration

#: Wide enough that an entry is all but sure to be seen in the rounds that sample its row.
_HIDDEN = 512
_NUM_TRAIN = 24
_SETTINGS = {"batch_size": 6, "epochs": 10, "max_grad_norm": 0.1}


def _scores(
    calibration: Calibration, noise: NoiseSource, world: str, draws: int, seed: int
) -> np.ndarray:
    """Pairs off the lattice in row 0 of all noisy sums of `draws` runs: float64 (draws,)."""
    last = _NUM_TRAIN + 1  # which all other training nodes list
    lists = [[], [0] if world == "present" else [], *([last] for _ in range(_NUM_TRAIN - 1)), []]
    indptr = np.cumsum([0, *map(len, lists)])
    graph = graph_of(indptr, np.concatenate(lists).astype(np.int32))
    train = np.arange(1, last)
    entry = calibration_entry(calibration, _NUM_TRAIN, _SETTINGS)
    std, scores = calibrated.phase(entry, "embedding").run.noise_std, np.zeros(draws)

    def observe(_, runs, values, noisy_sum):
        scores[runs] += lattice.off_lattice(noisy_sum[None, :_HIDDEN].numpy(), std)

    block = audit_block(
        entry,
        graph,
        range(draws),
        lambda run: ("lattice", seed, world, run),
        Split(train, train[:0], train[:0]),
        observe,
        noise,
    )
    setting = _SETTINGS | {"hidden": _HIDDEN, "learning_rate": LEARNING_RATE, "plan": {}}
    embedded(block, setting)
    return scores


PLAN = corrected_analyses("edge", _SETTINGS, _NUM_TRAIN)[0]
CLAIMS = two_claims(
    "dpdgc", "DPDGC's embedding, whole plan", "graphdp.methods.dpdgc.method.embed", PLAN, _scores
)
