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
        self._factors, self._floors = torch.empty_like(self._rates), torch.empty_like(self._rates)

    def step(self, gradients: Tensor) -> None:
        """One step against `gradients` (S, P)."""
        self.advance()
        self.apply(gradients)

    def advance(self) -> None:
        """Begin the next step: what it has of its own, apart from `apply`, which can be replayed.

        θ -= rate · (m / c1) / (√(v / c2) + eps), with the constants folded into the denominator.
        """
        self._steps += 1
        beta1, beta2 = self.BETAS
        c1, c2 = 1 - beta1**self._steps, 1 - beta2**self._steps
        scale = c1 / self._rates
        torch.div(scale, c2**0.5, out=self._factors)
        torch.mul(scale, self.EPS, out=self._floors)

    def apply(self, gradients: Tensor) -> None:
        """The step that was begun, against `gradients` (S, P)."""
        beta1, beta2 = self.BETAS
        self._mean.lerp_(gradients, 1 - beta1)
        self._square.mul_(beta2).addcmul_(gradients, gradients, value=1 - beta2)
        torch.sqrt(self._square, out=self._work)
        self._work.mul_(self._factors).add_(self._floors)
        self._values.addcdiv_(self._mean, self._work, value=-1.0)
