"""Claims about MLP-DP: its training is all that it releases."""

from collections.abc import Mapping
from typing import Any

from graphdp.audit.canaries import CLASSES, HIDDEN, Network
from graphdp.audit.training_claims import training_claims
from graphdp.methods.mlp.plan import mlp_plan
from graphdp.privacy.plan import Plan


def _plan(settings: Mapping[str, Any]) -> Plan:
    return mlp_plan("node", **settings)


def _network(features: int) -> Any:
    from graphdp.training import MLP

    return MLP(features, HIDDEN, 3, CLASSES, batch_norm=False)


CLAIMS = tuple(training_claims("mlp", "MLP-DP", Network(_network), _plan))
