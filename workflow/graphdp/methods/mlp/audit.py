"""Claims about MLP-DP: its training is all that it releases."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graphdp.audit.canaries import HIDDEN, Training
from graphdp.audit.lattice_claims import lattice_claims
from graphdp.audit.replacement import replacement_claims
from graphdp.audit.training_claims import training_claims
from graphdp.methods.mlp.method import fit
from graphdp.methods.mlp.plan import mlp_plan
from graphdp.privacy.plan import Plan


def _plan(settings: Mapping[str, Any]) -> Plan:
    return mlp_plan("node", **settings)


_TRAINING = Training(fit, {"hidden": HIDDEN, "layers": 3})
#: A node that is classified well has a small gradient, in one of its two worlds: clip it as well.
_REPLACED = replace(_TRAINING, max_grad_norm=0.1)
CLAIMS = (
    *training_claims("mlp", "MLP-DP", _TRAINING, _plan),
    *replacement_claims("mlp", "MLP-DP", _REPLACED, _plan),
    *lattice_claims("mlp", "MLP-DP", _TRAINING, _plan),
)
