"""The bounds that docs/audits.md and docs/privacy.md name are those of the shipped audits."""

import json
import re
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path

import pytest

from graphdp.audit import claims, outcomes
from graphdp.errors import GraphDPError
from graphdp.methods import registry
from graphdp.privacy.rounding import at_most

ROOT = Path(__file__).parent.parent
PAGE = re.sub(r"\s+", " ", (ROOT / "docs/audits.md").read_text())
SHIPPED = {one["claim"]: one for one in outcomes.shipped()}

#: What the page says, with a number for each {}, and the claims whose lower bounds these are.
SAID = [
    ("1,500 runs of the real loops show ε ≥ {} (MLP-DP", "noise_lattice_mlp-official"),
    ("MLP-DP (node_add_remove, conditional) | ≥ {} | ≥ {} |",
     "noise_lattice_mlp-official noise_lattice_mlp"),
    ("GAP's classifier (node_add_remove, conditional) | ≥ {} | ≥ {} |",
     "noise_lattice_classifier-official noise_lattice_classifier"),
    ("ProGAP's stages (participant, conditional) | ≥ {} | ≥ {} |",
     "noise_lattice_progap-official noise_lattice_progap"),
    ("DPDGC's embedding, whole plan (edge_directed, proven) | ≥ {} | ≥ {} |",
     "noise_lattice_dpdgc-official noise_lattice_dpdgc"),
    # DPDGC
    ("release, one entry of A (edge_directed, δ = 1e-6) | ≥ {} of 1, ≥ {} of 4 | ≥ {}, claimed 1",
     "dpdgc-release-edge-eps1 dpdgc-release-edge-eps4 dpdgcofficial-release-edge-eps1"),
    ("release, both entries (edge_undirected, δ = 1e-6) | ≥ {} of 5.94",
     "dpdgc-release-edge-undirected-eps4"),
    ("release, node replaced, D = 4 (node_replace, δ = 1e-5) | ≥ {} of 4 | ≥ {}, claimed 4",
     "dpdgc-release-node-eps4 dpdgcofficial-release-node-eps4"),
    ("release, k = 1 and k = 5 (k_neighbor(k), δ = 1e-5) | ≥ {} and ≥ {} of 4 | ≥ {}, claimed 4",
     "dpdgc-release-k1-eps4 dpdgc-release-k5-eps4 dpdgcofficial-release-k1-eps4"),
    ("release against the whole plan, k = 1 (δ = 1e-5) | | ≥ {}, claimed 16",
     "dpdgcofficial-whole-k1-eps16"),
    ("DP-Emb, one entry of A (edge_directed, δ = 1e-3) | ≥ {} of 4", "dpdgc-training-edge-eps4"),
    ("DP-Emb, k = 1 and k = 5 (k_neighbor(k), δ = 1e-3) | ≥ {} and ≥ {} of 4",
     "dpdgc-training-k1-eps4 dpdgc-training-k5-eps4"),
    ("DP-Emb, k = 25 (k_neighbor(25), δ = 1e-3) | | ≥ {}, claimed 4",
     "dpdgcofficial-training-k25-eps4"),
    ("DP-Emb, node replaced, D = 100 (node_replace, δ = 1e-3) | ≥ {} of 4 | ≥ {}, claimed 4",
     "dpdgc-training-node-eps4 dpdgcofficial-training-node-eps4"),
    ("one entry, k = 1, k = 5, node (δ = 1e-3) | ≥ {}, {}, {} and {} of 4",
     "dpdgc-rounds-edge-eps4 dpdgc-rounds-k1-eps4 dpdgc-rounds-k5-eps4 dpdgc-rounds-node-eps4"),
    ("conditional): ≥ {} with all nodes in a batch (6,000 runs), ≥ {} with a quarter",
     "dpdgc-classifier-k1-all-eps4 dpdgc-classifier-k1-eps4"),
    ("δ = 1e-3, proven): ≥ {} (6,000 runs)", "dpdgc-edge-whole-plan-eps4"),
    # One run
    ("MLP-DP (node_add_remove, conditional) | 349 | ≥ 1.66 | ≥ {} of 4", "one-run-mlp-eps4"),
    ("GAP's classifier (node_add_remove, conditional) | 324 | ≥ 1.23 | ≥ {} of 4",
     "one-run-classifier-eps4"),
    # SAGE
    ("edge_rand, asymmetric, lap_graph | 4 | ≥ {}, ≥ {}, ≥ {} |",
     "sage-edge-edge_rand-eps4 sage-edge-asymmetric-eps4 sage-edge-lap_graph-eps4"),
    ("the same | 1 (edge_rand, asymmetric) | ≥ {}, ≥ {} |",
     "sage-edge-edge_rand-eps1 sage-edge-asymmetric-eps1"),
    ("one entry (edge_directed, pure ε): edge_rand, asymmetric | 1 | ≥ {}, ≥ {} |",
     "sage-entry-directed-edge_rand-eps1 sage-entry-directed-asymmetric-eps1"),
    ("(edge_undirected) | 1 as published, 2 corrected | ≥ {}, ≥ {} |",
     "sage-entry-undirected-published-edge_rand-eps1 "
     "sage-entry-undirected-published-asymmetric-eps1"),
    ("DP-GNN, a participant, whole plan (δ = 1e-5) | 5.97 | ≥ {} (2,400 runs)",
     "sage-node-participant-eps4"),
    ("the rounds ≥ {} of 3.53, the noisy sum for inference ≥ {} of 3.26",
     "sage-rounds-participant-eps4 sage-sum-participant-eps4"),
    ("at the smaller noise that they then have: ≥ {} of 4 (1,500 runs)",
     "sage-exact-participant-eps4"),
    # ProGAP
    ("One edge: ≥ {} of 1, ≥ {} of 4 (K = 1 and K = 2",
     "progap-edge-directed-k1-eps1 progap-edge-directed-k1-eps4"),
    ("both entries ≥ {} and ≥ {} of 5.94, published 4",
     "progap-edge-undirected-published-k1-eps4 progap-edge-undirected-published-k2-eps4"),
    ("Common neighbours (node_add_remove, δ = 1e-5, refuted): ≥ {}, claimed 1 and 4",
     "progap-node-common-neighbours-k1-eps4"),
    ("a gradient canary (node_add_remove, δ = 1e-3, conditional, 10,000 runs) shows ≥ {} of 4",
     "canary-progap-stage0-eps4"),
    # HeterPoisson
    ("one round with all nodes | 2 and 4 | ≥ {} (3,000) and ≥ {} (6,000)",
     "heterpoissonsml-norm-eps2 heterpoissonsml-norm-eps4"),
    ("three quarters of the nodes in each | 2 | ≥ {} (3,000)", "heterpoissonsml-listed-eps2"),
    ("the same, one round with all nodes | 8 | ≥ {} (28,000)", "heterpoissonsml-listed-eps8"),
    ("a row of zeros is not a missing one | 2 | ≥ {} (2,000)", "heterpoissonsml-zeroed-eps2"),
    ("with the norm of the whole sum ≥ {}. Along", "heterpoissonsml-algorithm5-eps2"),
    ("hidden coins | ≥ {} (1,500 runs) | 3.98 | ≥ {} (5,000 runs)",
     "heterpoisson-hidden-sampled-eps4 heterpoisson-hidden-all-eps4"),
    ("known multiplicities | ≥ {} | 2.31 | ≥ {} |",
     "heterpoisson-known-sampled-eps4 heterpoisson-known-all-eps4"),
    ("revealed centres | ≥ {} | 3.20", "heterpoisson-revealed-sampled-eps4"),
    ("each draws with 1/4: ≥ {} (2,000 runs)", "heterpoisson-hidden-rates-eps4"),
    ("(its scale revealed): ≥ {} of 2", "heterpoissonsml-revealed-scale-eps2"),
    ("accounts one round and runs two, ≥ {}, claimed 2", "heterpoissonofficial-steps-eps2"),
    ("sub-graphs turn their gradients, ≥ {}, claimed 2", "heterpoissonofficial-padding-eps2"),
    # DPA-GNN
    ("whole lists | ≥ {} and ≥ {}; both at a claimed 1: ≥ {} |",
     "dpa-edge-directed-eps4 dpa-edge-undirected-eps4 dpa-edge-undirected-eps1"),
    ("where lists are cut (Δ = √2 and √6) | ≥ {} and ≥ {} |",
     "dpa-cut-directed-eps4 dpa-cut-undirected-eps4"),
    ("or none (participant) | ≥ {}; at a claimed 1: ≥ {} |",
     "dpa-participant-eps4 dpa-participant-eps1"),
    ("and for two of five parties | ≥ {} and ≥ {} |", "dpa-server-eps4 dpa-five-eps4"),
    ("or another list (node_replace_own_list) | ≥ {} and ≥ {} |",
     "dpa-replace-turned-eps4 dpa-replace-moved-eps4"),
    ("6,000 runs (edge_undirected, participant) | ≥ {} and ≥ {} |",
     "dpa-party-edge-eps4 dpa-party-participant-eps4"),
    ("drawn in the first: ≥ {} (4,000 runs) and ≥ {} (50,000)",
     "dpaofficial-rounds-eps2 dpaofficial-rounds-eps8"),
    ("one round of each stream: ≥ {}, claimed 4", "dpaofficial-senders-eps4"),
    ("≥ {} and ≥ {} of 4 (5 % and 60 % of it for the features)",
     "dpaofficial-labels-eps4 dpaofficial-features-eps4"),
    # Naive DP-SGD, GAP with noise for all terms
    ("a gradient canary shows ≥ {} of 4 (1,500 runs)", "canary-naive-eps4"),
    ("two batches of four, one epoch (δ = 0.02, refuted) | 2 | ≥ {} (6,000)",
     "naiveofficial-shuffled-eps2"),
    ("batches of eight and two, one epoch (δ = 1e-3, refuted) | 2 | ≥ {} (2,500)",
     "naiveofficial-last-batch-eps2"),
    ("(δ = 1e-3, conditional) | 3.53 | ≥ {} (6,000)", "naiveofficial-epochs-eps1"),
    ("and one more, D = 1, show ≥ {}, claimed 4", "gap-node-all-terms-k1-eps4"),
    ("of which ≥ {} is found (50,000 runs)", "gap-node-all-terms-participant-k1-eps8"),
    # Batches of a fixed size, whole plans
    ("with all nodes in a batch ≥ {} (MLP-DP) and ≥ {} (GAP's classifier)",
     "replaced-mlp-all-eps4 replaced-classifier-all-eps4"),
    ("with half of them ≥ {} and ≥ {}, where these worlds are worth 2.19",
     "replaced-mlp-half-eps4 replaced-classifier-half-eps4"),
    ("of MLP-DP ≥ {} with all nodes in a batch (30,000 runs) and ≥ {} with half of them",
     "replaced-poisson-mlp-all-eps4 replaced-poisson-mlp-half-eps4"),
    ("ProGAP ≥ {}, with half of the noise", "progap-node-whole-plan-eps4"),
    ("GAP ≥ {} (3,000 runs)", "gap-node-whole-plan-eps4"),
]  # fmt: skip


#: The same, a claim, and what of its details these are.
DETAILS = [
    ("≥ 5.19, claimed 4 (with Gaussian noise; the shares by themselves ≥ {}, no more than claimed)",
     "dpdgcofficial-training-k25-eps4", ["without_assumption"]),
    ("MLP-DP (node_add_remove, conditional) | {} | ≥ {} | ≥ 2.38 of 4",
     "one-run-mlp-eps4", ["correct", "without_assumption"]),
    ("GAP's classifier (node_add_remove, conditional) | {} | ≥ {} | ≥ 1.74 of 4",
     "one-run-classifier-eps4", ["correct", "without_assumption"]),
    ("as printed ≥ {}; with the canary entering as ρ says, without a second coin, ≥ {}; with noise "
     "of their own in both worlds ≥ {}; the best test along the canary's direction ≥ {};",
     "heterpoissonsml-algorithm5-eps2", ["as_printed", "rho_alone", "own_noise", "along_e"]),
]  # fmt: skip


def numbers(words):
    """What stands in the page in the places of {}, once."""
    pattern = re.escape(words).replace(re.escape("{}"), r"(\d+(?:\.\d+)?)")
    (found,) = {match.groups() for match in re.finditer(pattern, PAGE)}
    return found


def as_told(value, told):
    """A lower bound with as many digits as another, not above itself."""
    unit = Decimal(1).scaleb(-len(told.partition(".")[2]))
    return str(Decimal(value).quantize(unit, ROUND_FLOOR))


@pytest.mark.parametrize(("words", "names"), SAID, ids=[names for _, names in SAID])
def test_a_bound_of_the_page_is_that_of_its_audit(words, names):
    for told, name in zip(numbers(words), names.split(), strict=True):
        assert told == as_told(SHIPPED[name]["lower_bound"], told), name


@pytest.mark.parametrize(
    ("claims_told", "name"),
    [
        ("≥ 5.81 of {}", "dpdgc-release-edge-undirected-eps4"),
        ("and ≥ 5.87 of {}, published 4", "progap-edge-undirected-corrected-k2-eps4"),
        ("whole plan (δ = 1e-5) | {} |", "sage-node-participant-eps4"),
        ("the rounds ≥ 2.53 of {}, the", "sage-rounds-participant-eps4"),
    ],
)
def test_a_claim_of_the_page_is_told_no_smaller_than_it_is(claims_told, name):
    (told,) = numbers(claims_told)
    assert told == at_most(SHIPPED[name]["claimed_epsilon"], 3)


@pytest.mark.parametrize(("words", "name", "parts"), DETAILS, ids=[name for _, name, _ in DETAILS])
def test_what_else_the_page_says_of_an_audit_is_in_its_details(words, name, parts):
    details = SHIPPED[name]["details"]
    for told, part in zip(numbers(words), parts, strict=True):
        assert told == as_told(details.get("bounds", details)[part], told), part


def test_how_bounds_are_read_is_told():
    """Those that rest on the kind of noise, and what one is without that."""
    read = [one["analysis"] for one in SHIPPED.values()]
    above = [one["analysis"] for one in SHIPPED.values() if one["verdict"] == "refuted"]
    said = {kind: read.count(kind) for kind in ("dp", "gdp", "noise")}
    told = (
        f"{said['dp']} of all read (`dp`), {above.count('dp')} of the {len(above)} that are "
        "exceeded among them ("
    )
    assert f"A bound on the other {said['gdp'] + said['noise']} rests" in PAGE
    held = [one for one in SHIPPED.values() if one["verdict"] == "refuted"]
    proven = [one for one in held if one["analysis"] == "dp" and one["status"] == "proven"]
    assert {(one["method"], one["adjacency"]) for one in proven} == {("sage", "edge_undirected")}
    assert (
        len(proven) == 2 and f"({above.count('dp') - 2} refuted, and GraphSAGE's two that" in PAGE
    )
    gaussian = {
        one["claim"] for one in held if one["analysis"] != "dp" and one["status"] == "refuted"
    }
    assert gaussian == {"dpdgcofficial-training-k25-eps4", "dpdgcofficial-whole-k1-eps16"}
    few = SHIPPED["dpdgcofficial-training-k25-eps4"]
    assert few["details"]["without_assumption"] < few["claimed_epsilon"]
    assert f"by `gdp` alone: k = 25 ({few['draws']} runs) and the whole plan, k = 1." in PAGE
    assert f"for itself, of {len(SHIPPED)} not all at once" in PAGE
    assert (
        told in PAGE and f"(`gdp`, {said['gdp']})" in PAGE and f"(`noise`, {said['noise']})" in PAGE
    )
    one = SHIPPED["dpa-edge-directed-eps4"]
    labels = f"{one['adjacency']}, {one['basis']}, δ = 1e-6, {one['status']}"
    alone = one["details"]["without_assumption"]
    assert one["delta"] == 1e-6
    assert (
        f"`dpa-edge-directed-eps4` ({labels}) ≥ {as_told(one['lower_bound'], '0.00')} of 4, where"
        in PAGE
    )
    assert f"where the shares by themselves show ≥ {as_told(alone, '0.00')}." in PAGE


def test_every_folder_of_methods_has_an_attack_on_them():
    """Nothing is called proven that nobody attacked."""
    attacked = {claims.home(name) for name in claims.claims()}
    assert attacked == {f"graphdp.methods.{folder}.audit" for folder in registry.folders()}


def test_all_claims_of_today_are_shipped_and_came_out_as_they_must():
    """A claim that is added, or whose target or verdict changes, needs another run."""
    assert set(SHIPPED) == set(claims.claims())
    for name, claim in claims.claims().items():
        one = SHIPPED[name]
        told = one["title"], one["family"], one["delta"], one["adjacency"], one["expected"]
        assert told == (
            claim.title, claim.family, claim.delta, claim.adjacency, claim.expected,
        ), name  # fmt: skip
        assert (one["basis"], one["status"]) == (claim.plan.basis, claim.plan.status)
        assert one["claimed_epsilon"] > 0
        assert claims.meets(
            claim.expected, claims.verdict(one["claimed_epsilon"], one["lower_bound"])
        )
    readme = (ROOT / "README.md").read_text()
    assert (
        f"bounds ε from below ([docs/audits.md](docs/audits.md)): {len(SHIPPED)} claims" in readme
    )
    refuted, beyond, within = 0, 0, 0
    for one in SHIPPED.values():
        exceeded = one["lower_bound"] > one["claimed_epsilon"]
        refuted += exceeded and one["status"] == "refuted"
        # What is proven for one directed entry, where both entries of an edge are attacked.
        undirected = one["adjacency"] == "edge_undirected" and one["basis"] == "as_published"
        beyond += exceeded and one["status"] == "proven" and undirected
        within += not exceeded and one["status"] != "refuted"
    assert (
        f"the {refuted} that are refuted are exceeded, {beyond} that are proven for one directed "
        "entry are exceeded where both entries of an undirected edge are attacked, and the other "
        f"{within} are not."
    ) in re.sub(r"\s+", " ", readme)
    assert refuted + beyond + within == len(SHIPPED)
    assert f"all {len(SHIPPED)} claims" in PAGE


def test_results_are_shipped_as_they_are_and_only_if_all_are_there(tmp_path):
    with pytest.raises(GraphDPError, match=rf"no result of {len(SHIPPED)} claims, .* audit$"):
        outcomes.ship(tmp_path, tmp_path / "audits.json.gz")
    assert not list(tmp_path.iterdir())
    for name, one in SHIPPED.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
    outcomes.ship(tmp_path, tmp_path / "audits.json.gz")
    assert (tmp_path / "audits.json.gz").read_bytes() == outcomes.FILE.read_bytes()
    wrong = outcomes.shipped()[0] | {"as_expected": False}
    (tmp_path / f"{wrong['claim']}.json").write_text(json.dumps(wrong))
    with pytest.raises(GraphDPError, match=f"1 of {len(SHIPPED)} audits .* {wrong['claim']}"):
        outcomes.ship(tmp_path, tmp_path / "other.json.gz")
    assert not (tmp_path / "other.json.gz").exists()
