"""Adam on a whole stack at once."""

import torch
from torch import Tensor


class Adam:
    """`torch.optim.Adam` with its defaults (betas 0.9 and 0.999, eps 1e-8), a learning rate per
    member. values: (S, P), changed in place. learning_rates: (S, 1)."""

    BETAS = (0.9, 0.999)
    EPS = 1e-8

    def __init__(self, values: Tensor, learning_rates: Tensor):
        self._values = values
        self._rates = learning_rates
        self._mean = torch.zeros_like(values)
        self._square = torch.zeros_like(values)
        self._work = torch.empty_like(values)
        self._steps = 0

    def step(self, gradients: Tensor) -> None:
        """One step against `gradients` (S, P)."""
        self._steps += 1
        beta1, beta2 = self.BETAS
        self._mean.lerp_(gradients, 1 - beta1)
        self._square.mul_(beta2).addcmul_(gradients, gradients, value=1 - beta2)
        # θ -= rate · (m / c1) / (√(v / c2) + eps), with the constants folded into the denominator
        c1, c2 = 1 - beta1**self._steps, 1 - beta2**self._steps
        scale = c1 / self._rates
        torch.sqrt(self._square, out=self._work)
        self._work.mul_(scale / c2**0.5).add_(scale * self.EPS)
        self._values.addcdiv_(self._mean, self._work, value=-1.0)
