"""Claims about MLP-DP: its training is all that it releases."""

from collections.abc import Mapping
from typing import Any

from graphdp.audit.canaries import HIDDEN, Training
from graphdp.audit.training_claims import training_claims
from graphdp.methods.mlp.method import fit
from graphdp.methods.mlp.plan import mlp_plan
from graphdp.privacy.plan import Plan


def _plan(settings: Mapping[str, Any]) -> Plan:
    return mlp_plan("node", **settings)


CLAIMS = tuple(
    training_claims("mlp", "MLP-DP", Training(fit, {"hidden": HIDDEN, "layers": 3}), _plan)
)
