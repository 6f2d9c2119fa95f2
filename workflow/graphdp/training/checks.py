"""Checks that what `training.train` is given fits together."""

import math

import numpy as np
from scipy import sparse

from graphdp.errors import GraphDPError
from graphdp.training.features import GraphInputs, StageInputs
from graphdp.training.members import DPAdam, FullBatch, Member, check_checkpoint
from graphdp.training.networks import (
    Dropout,
    HopClassifier,
    JumpingSage,
    Sage,
    StageClassifier,
    leaves,
)


def check(network, features, labels, members, training, checkpoint) -> np.ndarray:
    """Raise on what does not fit together; returns the labels as (members, n)."""
    if not members:
        raise GraphDPError("a block needs at least one member")
    check_checkpoint(checkpoint)
    labels = np.asarray(labels)
    if labels.ndim == 1:
        labels = np.broadcast_to(labels, (len(members), labels.size))
    if labels.dtype.kind not in "iu" or len(labels) != len(members):
        raise GraphDPError("labels must be integers, (n,) or (members, n)")
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= network.classes:
        raise GraphDPError(f"labels must lie in 0..{network.classes - 1}")
    _check_features(network, features, labels.shape[1], len(members))
    if training.epochs < 1:
        raise GraphDPError(f"epochs is {training.epochs}: at least 1")
    for member in members:
        _check_member(member, labels.shape[1], training)
    if isinstance(training, DPAdam):
        if network.batch_norm:
            raise GraphDPError("batch norm mixes samples: DP training needs batch_norm=False")
        if isinstance(network, Sage | JumpingSage):
            raise GraphDPError("message passing mixes samples: train Sage by sage.train_private")
        if any(isinstance(layer, Dropout) for layer in leaves(network.sequence)):
            raise GraphDPError("dropout is not for DP training: leave it out")
        if training.steps < 1 or training.batch_size < 1 or not training.max_grad_norm > 0:
            raise GraphDPError("DP training needs positive steps, batch_size and max_grad_norm")
        if training.sampling not in ("poisson", "fixed"):
            raise GraphDPError(f"sampling is {training.sampling!r}; choose poisson or fixed")
    return labels


def _check_features(network, features, num_nodes: int, members: int) -> None:
    if isinstance(network, StageClassifier):
        _check_stage_inputs(network, features, num_nodes, members)
    elif isinstance(network, HopClassifier):
        if sparse.issparse(features) or len(features) != members:
            raise GraphDPError(f"a HopClassifier needs one input per member ({members})")
        expected = (num_nodes, network.hops + 1, network.in_features)
        for given in features:
            if isinstance(given, list | tuple):
                shapes = {part.shape for part in given}
                shape = (*shapes.pop(), len(given)) if len(shapes) == 1 else ()
                shape = (shape[0], shape[2], shape[1]) if len(shape) == 3 else shape
            else:
                shape = given.shape
            if shape != expected:
                raise GraphDPError(f"a member's hop inputs have shape {shape}, not {expected}")
    elif isinstance(network, Sage | JumpingSage):
        expected = (num_nodes, network.in_features)
        if not isinstance(features, GraphInputs) or features.features.shape != expected:
            raise GraphDPError(f"a Sage network needs GraphInputs with features {expected}")
        if features.edges.num_nodes != num_nodes:
            raise GraphDPError(f"the graph has {features.edges.num_nodes} nodes, not {num_nodes}")
    elif features.shape != (num_nodes, network.in_features):
        raise GraphDPError(
            f"features have shape {features.shape}, not {(num_nodes, network.in_features)}"
        )


def _check_stage_inputs(network, inputs, num_nodes: int, members: int) -> None:
    if not isinstance(inputs, StageInputs) or len(inputs.aggregates) != members:
        raise GraphDPError(
            f"a StageClassifier needs StageInputs with one entry per member ({members})"
        )
    expected = (num_nodes, network.in_features)
    if network.reads_features and getattr(inputs.features, "shape", None) != expected:
        raise GraphDPError(f"features of a StageClassifier must have the shape {expected}")
    expected = [(num_nodes, network.hidden)] * network.aggregates
    for own in inputs.aggregates:
        if [part.shape for part in own] != expected:
            raise GraphDPError(f"a member's aggregates must be {len(expected)} of {expected[:1]}")


def _check_member(member: Member, num_nodes: int, training: FullBatch | DPAdam) -> None:
    for name in ("train", "val", "test"):
        nodes = getattr(member, name)
        if nodes.size == 0 or nodes.min() < 0 or nodes.max() >= num_nodes:
            raise GraphDPError(f"{name} nodes of {member.stream} are empty or not in the graph")
    if np.unique(member.train).size != member.train.size:
        # A node listed twice would contribute twice the clip to a step.
        raise GraphDPError(f"train nodes of {member.stream} are not distinct")
    if isinstance(training, DPAdam) and training.sampling == "fixed":
        rate, size = training.sampling_rate, training.batch_size
        if not math.isclose(rate * member.train.size, size):
            raise GraphDPError(
                f"{size} of {member.train.size} nodes of {member.stream} are not the share "
                f"{rate} that is accounted; sample batch size / nodes"
            )
    if not (member.learning_rate > 0 and math.isfinite(member.learning_rate)):
        raise GraphDPError(f"learning rate {member.learning_rate} of {member.stream}: above 0")
    noisy = isinstance(training, DPAdam) and not training.noise_free
    multiplier = member.noise_multiplier
    if noisy and not (multiplier > 0 and math.isfinite(multiplier)):
        raise GraphDPError(
            f"noise multiplier {multiplier} of {member.stream} gives no privacy: "
            "calibrate it, or say noise_free=True"
        )
    if not noisy and multiplier != 0:
        raise GraphDPError(f"noise multiplier {multiplier} of {member.stream} would not be used")
