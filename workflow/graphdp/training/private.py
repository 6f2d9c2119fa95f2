"""One step of DP-SGD on a stack: per-sample clipping by ghost norms.

Source: Abadi et al., "Deep Learning with Differential Privacy" (CCS 2016), Algorithm 1, with each
sample's gradient over all parameters of a model clipped to L2 norm C. Under add/remove of one
sample, the sum that is noised moves by at most C (its sensitivity), where one is replaced by 2C;
the noise added to it has standard deviation noise_multiplier · sensitivity in every coordinate.
"""

import torch
from torch import Tensor

from graphdp.training.descent import clipping_factors
from graphdp.training.inputs import Scratch
from graphdp.training.layers import Input, backward, forward_training
from graphdp.training.layout import Stack


def add_clipped_gradients(
    stack: Stack,
    block: Input,
    labels: Tensor,
    present: Tensor,
    max_grad_norm: float,
    gradients: Stack,
    scratch: Scratch,
) -> None:
    """Add, per member, the sum of its samples' clipped gradients to `gradients`.

    labels: int64 (S, W). present: (S, W) of the parameters' dtype, 1 for a sample and 0 for
    padding. A sample's gradient is that of its own cross-entropy, over all parameters of the
    member; it enters with a norm of at most `max_grad_norm`, and not at all if its norm overflows.
    The network must not have batch norm, which mixes samples.
    """
    logits, tape = forward_training(stack, block, scratch)
    g = torch.softmax(logits, 1)
    g.scatter_add_(1, labels.unsqueeze(1), g.new_full((), -1.0).expand(len(g), 1, g.shape[2]))
    deltas = backward(stack, tape, g, gradients, scratch)
    squared_norms = sum(delta.squared_norms() for delta in deltas)
    factors = clipping_factors(squared_norms, max_grad_norm).mul_(present)
    for delta in deltas:
        delta.g.mul_(factors.unsqueeze(1))
        delta.add_to(gradients)
