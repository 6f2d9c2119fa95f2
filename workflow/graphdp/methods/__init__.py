"""The methods, one file each; `METHODS` is the list that configs, rules and scripts go by.

A method's module states, without importing torch (the training code is imported where it is used):

- `LEVELS`: privacy level -> the `Settings` type of its hyperparameters at that level ("k" for all
  k-neighbour levels "k<number>");
- `STAGES`: which of the stages before `fit` it has: "encode" and "aggregate", or "embed", or
  "bound_degree" for a method whose `fit` makes its own releases, over the bounded graph at node
  level, and "perturb" if it reads a perturbed graph at edge level;
- `LAST_EPOCH`: the levels at which the last epoch is kept whatever the study says, because
  looking at validation accuracies in between would be releases that the plan does not hold (if
  there are any);
- `USES_GRAPH`: whether it ever reads an edge (if not, its edge-level ε is 0);
- `plan_settings`, `encoder_settings`, `release_settings`: the part of the hyperparameters that its
  plan and each stage read, so that a stage is re-run exactly when something it reads has changed;
- `encode`, `aggregate`, `embed`, `fit`: the stages themselves.

What it releases stands in `graphdp.privacy`: its plan in `plans`, all analyses of it in `bases`.
"""

import importlib
from types import ModuleType

METHODS = ("gap", "mlp", "progap", "sage", "dpdgc", "dpdgcofficial")


def load(method: str) -> ModuleType:
    """The module of a method named in `METHODS`."""
    return importlib.import_module(f"graphdp.methods.{method}")


def checkpoint(method: str, level: str, asked: str) -> str:
    """The epoch that a method keeps at a level: the study's `asked`, or "last" by necessity."""
    return "last" if level in getattr(load(method), "LAST_EPOCH", ()) else asked
