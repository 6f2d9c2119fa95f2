"""The noisy rounds of DPDGC's DP-Emb phase, with the worst gradients that its accounting allows.

DP-Emb's own gradients cannot turn round when a row gains or loses an entry: with two classes those
of the two worlds have no coordinate of different signs, so they move by √2 C at most, and in
`phase_attack` by 0.77 C, of the 2 C that are accounted. So half of the noise does not show there.
The accounting, however, holds for any gradients (`graphdp.privacy.group`): every changed row's is
+C e in one world and -C e in the other. So here the rows' gradients are these, before clipping;
what is run is the rest: the stage `embed`, the plan's rounds as the stage reads them, `descend`
with its samples, clipping and noise.
"""

from typing import Any

import numpy as np

from graphdp.audit.front_door import audit_block
from graphdp.data.split import Split
from graphdp.methods.dpdgc import method as dpdgc
from graphdp.methods.dpdgc.phase_attack import LEARNING_RATE, Phase, embedded
from graphdp.methods.dpdgc.release_attack import BIAS, ROW_NORM
from graphdp.privacy import calibrated

#: Long enough that clipping brings every gradient to C.
_LENGTH = 1e3


def rounds_scores(
    phase: Phase,
    world: str,
    draws: int,
    seed: int,
    given: tuple[np.ndarray, np.ndarray] | None = None,
    found: dict[str, np.ndarray] | None = None,
) -> np.ndarray:
    """Log-likelihood ratios of `draws` training runs in one world: float64 (draws,).

    Along e a round's noisy sum is N(±C j, σ²), j the number of changed rows in its sample.
    given: W and b that the stage goes on with, in place of those of the rounds. found: receives
    what the stage returns. Raises `GraphDPError` if other noise was drawn than the plan accounts,
    as a job does.
    """
    import torch

    from graphdp.methods.dpdgc.network import Embedding
    from graphdp.training.descent import clipping_factors, descend

    graph, width = phase.graph(world), phase.setting["hidden"]
    unclipped = torch.zeros(graph.num_nodes)
    unclipped[np.concatenate(phase.kinds)] = _LENGTH if world == "present" else -_LENGTH
    numbers, log_chances = phase.chances
    mean, variance = phase.max_grad_norm * numbers.sum(1), phase.noise_std**2
    scores = np.zeros(draws)

    def add(nodes: Any, gradients: Any, clip: float) -> None:
        rows = unclipped[nodes]
        gradients[0] += (rows * clipping_factors(rows.square(), clip)).sum()

    def trained(block: Any, run: int, setting: dict[str, Any], rows: Any) -> Any:
        planned = calibrated.phases(block.entry(setting["plan"], run))["embedding"].run

        def observe(_, noisy_sum):
            along = float(noisy_sum[0])
            present, absent = (
                np.logaddexp.reduce(log_chances - (along - side * mean) ** 2 / (2 * variance))
                for side in (1, -1)
            )
            scores[run] += present - absent

        values = torch.zeros((graph.num_nodes + 1) * width)
        done = descend(
            values,
            add,
            dpdgc.noisy_rounds(planned, setting["epochs"]),
            block.split(run).train,
            LEARNING_RATE,
            block.stream(run, "embedding"),
            noise=block.noise_source,
            observe=observe,
        )
        own = values.numpy().reshape(-1, width)
        return Embedding(*(given or (own[:-1], own[-1])), done)

    block = audit_block(
        phase.entry,
        graph,
        range(draws),
        lambda run: ("audit", seed, "rounds", world, run),
        Split(phase.train, phase.train[:0], phase.train[:0]),
    )
    made = embedded(block, phase.setting, trained)
    if found is not None:
        found |= made
    return scores


def whole_scores(phase: Phase, world: str, draws: int, seed: int) -> np.ndarray:
    """Log-likelihood ratios of `draws` runs of the whole edge plan in one world: float64 (draws,).

    Those of the rounds, and of what is then released of row 1, the one that changes: all rows of W
    in one direction and the bias far longer than the noise, as in `release_attack`, which the
    rounds might have brought about. Raises as `rounds_scores`.
    """
    found: dict[str, np.ndarray] = {}
    std = calibrated.phase(phase.entry, "release").run.noise_std
    weight = np.zeros((phase.graph(world).num_nodes, phase.setting["hidden"]), np.float32)
    weight[:, 1] = ROW_NORM
    bias = np.zeros(phase.setting["hidden"])
    bias[0] = BIAS * std
    scores = rounds_scores(phase, world, draws, seed, (weight, bias), found)
    for run in range(draws):
        row = found[dpdgc.embedding_name(run, phase.setting)][1].astype(np.float64)
        # Normalised: the bias says by what. With the entry row 1 of A W has norm 1.
        scores[run] += (row[1] / row[0] * bias[0] - 0.5) / std**2
    return scores
