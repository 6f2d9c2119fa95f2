"""The lattice audits: the noise of the papers' code refutes any ε, that drawn here does not."""

import numpy as np
import pytest

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.audit import lattice
from graphdp.audit.claims import claims, get, run

#: 300 runs per world: enough for a bound of 3.
DRAWS = 40_000


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mlp", "classifier"])
def test_bare_noise_gives_a_record_away_and_the_grid_does_not(method):
    official = run(get(f"noise_lattice_{method}-official"), draws=DRAWS)
    off = official["details"]["pairs_off_the_lattice"]
    assert official["verdict"] == "refuted" and official["lower_bound"] > 3
    assert official["claimed_epsilon"] <= 0.5 and official["basis"] == "as_implemented"
    assert off["absent"] == 0 and off["present"] > 4
    own = run(get(f"noise_lattice_{method}"), draws=DRAWS)
    off = own["details"]["pairs_off_the_lattice"]
    assert own["verdict"] != "refuted" and own["noise_multiplier"] == official["noise_multiplier"]
    # The grid is off that lattice whatever lies beneath it.
    assert off["absent"] > 4 and off["present"] == pytest.approx(off["absent"], rel=0.1)


def test_every_method_that_trains_with_noise_on_features_or_lists_has_both_claims():
    names = {name for name in claims() if name.startswith("noise_lattice_")}
    trained = ("mlp", "classifier", "progap", "dpdgc")
    assert names == {f"noise_lattice_{name}{end}" for name in trained for end in ("", "-official")}
    for name in names:
        claim = get(name)
        assert claim.target_epsilon == 0.5
        assert (claim.expected == "exceeds") == name.endswith("-official")
        assert claim.share * 200_000 >= 1500


def test_blocks_are_those_that_torch_draws_together():
    """Only blocks of 16 that are bare in all of their places may be judged."""
    own = np.zeros(70, bool)
    own[10:66] = True
    assert np.flatnonzero(lattice.whole_blocks(own)).tolist() == list(range(16, 64))
