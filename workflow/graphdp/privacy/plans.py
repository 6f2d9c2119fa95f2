"""The plans of the methods: what each releases at each privacy level, as published."""

from dataclasses import replace

from graphdp.errors import GraphDPError
from graphdp.privacy import sensitivity
from graphdp.privacy.plan import (
    FixedSizeDPSGD,
    GaussianReleases,
    Plan,
    PoissonDPSGD,
    PureRelease,
    UnnoisedRelease,
    WithoutReplacementDPSGD,
    check_level,
    dpsgd_rounds,
    neighbors,
)

#: What bounds a node's out-degree: GAP's sample of its edges, or candidates drawn without them.
DEGREE_BOUNDS = ("sampling", "public_candidates")
#: What a node-level claim is about: a node there or not (GAP, ProGAP), or one replaced by another
#: (DPDGC, whose baselines run that way).
NODE_ADJACENCIES = ("node_add_remove", "node_replace")

# The same words wherever the same thing is taken for granted.
TRAINING_COUNT_IS_PUBLIC = (
    "The number of training nodes is public: it sets the sampling rate and the steps."
)
SELECTION_IS_UNCOUNTED = (
    "Choosing a checkpoint or hyperparameters by validation accuracy reads private labels; "
    "that is not counted."
)
FEATURES_ARE_PUBLIC = "Node features, labels and the set of nodes are public; only edges are not."
CANDIDATES_ARE_PUBLIC = (
    "Whom a node may send to is drawn from a public universe of ids with a seed that does not "
    "depend on the graph; an absent id sends nothing."
)
ROW_IS_WITHHELD = (
    "The protected node's own row of each aggregate is not published and its prediction is not "
    "asked for; in training the row enters only its own clipped gradient."
)
EDGE_COUNT_IS_PUBLIC = "The number of edges may be used to choose δ; it is taken as public."


def _dpsgd(
    phase: str,
    num_train: int,
    batch_size: int,
    epochs: int,
    max_grad_norm: float,
    adjacency: str = "node_add_remove",
) -> PoissonDPSGD | WithoutReplacementDPSGD:
    """A phase of DP-Adam: Poisson samples, or where a node is replaced samples of a fixed size."""
    sampling_rate, steps = dpsgd_rounds(num_train, batch_size, epochs)
    kind, bound = PoissonDPSGD, sensitivity.clipped_gradient_sum(max_grad_norm)
    if adjacency == "node_replace":
        kind = WithoutReplacementDPSGD
        bound = sensitivity.replaced_gradient_sum(max_grad_norm)
    return kind(
        query=f"sum of clipped gradients of the {phase}",
        sampling_rate=sampling_rate,
        steps=steps,
        max_grad_norm=bound,
        phase=phase,
    )


def _not_private(method: str) -> Plan:
    """The plan of any method at level "none": a model trained without noise."""
    return Plan(
        method=method,
        level="none",
        adjacency="",
        basis="as_published",
        status="",
        assumptions=(),
        own_row_covered=None,
        mechanisms=(UnnoisedRelease(query="trained model", phase="training"),),
    )


def _check_level(method: str, level: str) -> None:
    check_level(f"{method}: level", level)
    if neighbors(level) is not None:
        raise GraphDPError(f"{method} knows no k-neighbour level; use node, which it equals there")


def _check_adjacency(method: str, adjacency: str) -> None:
    if adjacency not in NODE_ADJACENCIES:
        raise GraphDPError(
            f"{method}: adjacency is {adjacency!r}; choose one of {', '.join(NODE_ADJACENCIES)}"
        )


def _check_given(method: str, **settings: object) -> None:
    missing = [name for name, value in settings.items() if value is None]
    if missing:
        raise GraphDPError(f"{method}, node level: give {', '.join(missing)}")


def gap_plan(
    level: str,
    hops: int,
    max_degree: int | None = None,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
    encoder: bool = True,
    degree_bound: str = "sampling",
    adjacency: str = "node_add_remove",
) -> Plan:
    """GAP (Sajadmanesh et al., USENIX Security 2023) as published, or with another degree bound.

    edge: `hops` noisy aggregations, sensitivity 1 (Theorem 1). Encoder and classifier read public
        features and labels and the noisy aggregates: post-processing.
    node: DP-Adam for the encoder (left out when `encoder` is False), `hops` noisy aggregations
        with sensitivity √max_degree (Theorem 2), DP-Adam for the classifier (Proposition 3).
        Both phases have the same settings (section 7.3). The claim is refuted under
        node_add_remove: see `sensitivity.node_add_remove_as_published`. With `degree_bound`
        "public_candidates" the same noise holds (`sensitivity.public_candidates`): basis
        corrected, status conditional.
        With `adjacency` "node_replace" it is GAP as DPDGC (NeurIPS 2023) analyses and runs it
        (Theorem 5.1, Corollary H.5): aggregations with sensitivity 2√max_degree, DP-Adam over
        samples of a fixed size without replacement with sensitivity 2C. That claim is refuted as
        well: whoever is replaced may leave the lists of others, who then keep other neighbours.
    none: no privacy, ε = ∞ only.

    Units: hops, max_degree, num_train, batch_size and epochs are counts; max_grad_norm is an L2
    norm. Edge level reads `hops` alone, level none nothing.
    Raises GraphDPError for a missing, wrong or unknown setting.
    """
    if degree_bound not in DEGREE_BOUNDS:
        raise GraphDPError(
            f"gap: degree_bound is {degree_bound!r}; choose one of {', '.join(DEGREE_BOUNDS)}"
        )
    _check_adjacency("gap", adjacency)
    training = (num_train, batch_size, epochs, max_grad_norm, adjacency)
    published = _perturbed_plan(
        "gap", level, hops, ("encoder",) if encoder else (), ("classifier",), max_degree, *training
    )
    if level != "node" or degree_bound == "sampling":
        return published
    bound = sensitivity.public_candidates(max_degree)
    if adjacency == "node_replace":  # the lists of others stay, so the published bound holds
        bound = sensitivity.node_replace(max_degree)
    return replace(
        published,
        basis="corrected",
        status="conditional",
        assumptions=(CANDIDATES_ARE_PUBLIC, ROW_IS_WITHHELD, *published.assumptions[2:]),
        mechanisms=tuple(
            replace(mechanism, sensitivity=bound)
            if isinstance(mechanism, GaussianReleases)
            else mechanism
            for mechanism in published.mechanisms
        ),
    )


def progap_plan(
    level: str,
    depth: int,
    max_degree: int | None = None,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
) -> Plan:
    """ProGAP (Sajadmanesh and Gatica-Perez, WSDM 2024) as published.

    edge: `depth` noisy aggregations, sensitivity 1 (Theorem 4.1, whose closed form is Rényi DP's;
        here they compose exactly). The K + 1 stages read public features and labels and the noisy
        aggregates: post-processing.
    node: DP-Adam in each of the depth + 1 stages, `epochs` each, and `depth` noisy aggregations
        with sensitivity √max_degree (Theorem 4.2 and its proof, which takes it from GAP, Lemma 3).
        One noise multiplier for all, as in the authors' code. The claim is refuted under
        node_add_remove for GAP's reason: see `sensitivity.node_add_remove_as_published`.
    none: no privacy, ε = ∞ only.

    Theorem 4.2 as printed is no bound: its term l = 2 has exp(C²/2σ²) where Zhu and Wang (2019),
    Theorem 11, has exp(C²/σ²). The accountants here use the theorem that holds.

    Units: depth, max_degree, num_train, batch_size and epochs are counts (depth 0 is an MLP);
    max_grad_norm is an L2 norm. Edge level reads `depth` alone, level none nothing.
    Raises GraphDPError for a missing, wrong or unknown setting.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
        raise GraphDPError(f"progap: depth is {depth!r}; give a whole number of at least 0")
    stages = tuple(f"stage{stage}" for stage in range(depth + 1))
    training = (num_train, batch_size, epochs, max_grad_norm)
    return _perturbed_plan("progap", level, depth, stages[:1], stages[1:], max_degree, *training)


def _perturbed_plan(
    method: str,
    level: str,
    aggregations: int,
    before: tuple[str, ...],
    after: tuple[str, ...],
    max_degree: int | None,
    num_train: int | None,
    batch_size: int | None,
    epochs: int | None,
    max_grad_norm: float | None,
    adjacency: str = "node_add_remove",
) -> Plan:
    """The plan of a method with aggregation perturbation, as published.

    aggregations: number of noisy sums of unit-norm rows. before, after: the phases that train on
    private nodes (DP-Adam at node level), those before the first aggregation and the others.
    """
    _check_level(method, level)
    if level == "none":
        return _not_private(method)
    if level == "edge":
        aggregation = sensitivity.edge_directed()
    else:
        _check_given(
            method,
            max_degree=max_degree,
            num_train=num_train,
            batch_size=batch_size,
            epochs=epochs,
            max_grad_norm=max_grad_norm,
        )
        aggregation = _PUBLISHED_SUM[adjacency](max_degree)
    releases = GaussianReleases(
        query="sum of in-neighbours' unit-norm rows",
        sensitivity=aggregation,
        count=aggregations,
        phase="aggregation",
    )
    if level == "edge":
        return Plan(
            method=method,
            level="edge",
            adjacency="edge_directed",
            basis="as_published",
            status="proven",
            assumptions=(
                "One directed entry of the adjacency matrix differs; an undirected edge is two.",
                FEATURES_ARE_PUBLIC,
                EDGE_COUNT_IS_PUBLIC,
            ),
            own_row_covered=None,
            mechanisms=(releases,),
        )
    training = (num_train, batch_size, epochs, max_grad_norm, adjacency)
    return Plan(
        method=method,
        level="node",
        adjacency=adjacency,
        basis="as_published",
        status="refuted",
        assumptions=(
            "The out-degree bound of the other nodes does not depend on the protected node; "
            "random sampling of neighbours breaks this.",
            "The protected node's own row of each aggregate is not released.",
            TRAINING_COUNT_IS_PUBLIC,
            SELECTION_IS_UNCOUNTED,
        ),
        own_row_covered=False,
        mechanisms=(
            *(_dpsgd(phase, *training) for phase in before),
            releases,
            *(_dpsgd(phase, *training) for phase in after),
        ),
    )


#: Adjacency -> the published sensitivity of one aggregation.
_PUBLISHED_SUM = {
    "node_add_remove": sensitivity.node_add_remove_as_published,
    "node_replace": sensitivity.node_replace,
}


def mlp_plan(
    level: str,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
    adjacency: str = "node_add_remove",
) -> Plan:
    """The graph-free baselines MLP and MLP-DP (GAP, section 7.2).

    edge: the edges are never read, so nothing is released about them and ε = 0.
    node: one DP-Adam phase over the training nodes: Poisson samples, or with `adjacency`
        "node_replace" (as DPDGC, section 6, runs it) samples of a fixed size and sensitivity 2C.
    none: no privacy, ε = ∞ only.

    Units: num_train, batch_size and epochs are counts; max_grad_norm is an L2 norm. Only node
    level reads them. Raises GraphDPError for a missing, wrong or unknown setting.
    """
    _check_level("mlp", level)
    _check_adjacency("mlp", adjacency)
    if level == "none":
        return _not_private("mlp")
    if level == "edge":
        return Plan(
            method="mlp",
            level="edge",
            adjacency="edge_directed",
            basis="as_published",
            status="proven",
            assumptions=(FEATURES_ARE_PUBLIC,),
            own_row_covered=None,
            mechanisms=(),
        )
    _check_given(
        "mlp",
        num_train=num_train,
        batch_size=batch_size,
        epochs=epochs,
        max_grad_norm=max_grad_norm,
    )
    return Plan(
        method="mlp",
        level="node",
        adjacency=adjacency,
        basis="as_published",
        status="conditional",
        assumptions=(
            "Only the weights are released; a prediction also reads the queried node's features.",
            TRAINING_COUNT_IS_PUBLIC,
            SELECTION_IS_UNCOUNTED,
        ),
        own_row_covered=None,
        mechanisms=(_dpsgd("classifier", num_train, batch_size, epochs, max_grad_norm, adjacency),),
    )


#: perturbation -> what each part of it releases: phase -> (query, share of ε).
_PERTURBATIONS = {
    # GAP's code gives a tenth of ε to the density; Wu et al. a hundredth to the count.
    "asymmetric": {
        "density": ("number of undirected edges", 0.1),
        "link": ("every pair of nodes, by randomised response with thinned ones", 0.9),
    },
    "edge_rand": {"link": ("every pair of nodes, by randomised response", 1.0)},
    "lap_graph": {
        "density": ("number of undirected edges", 0.01),
        "link": ("every pair of nodes, with Laplace noise", 0.99),
    },
}


def sage_plan(
    level: str,
    perturbation: str = "asymmetric",
    max_degree: int | None = None,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
    adjacency: str = "node_add_remove",
    directed: bool | None = None,
) -> Plan:
    """The GraphSAGE baselines (GAP, section 7.2) as published.

    edge: one perturbed graph (Wu et al. 2022; `graphdp.perturbation`), all else is post-processing.
        Every undirected edge is perturbed once, with `directed` every directed one; pure ε, so the
        noise multiplier is 1 / ε.
    node: DP-GNN (Daigavane et al. 2021), one message-passing layer over lists bounded by max_degree
        both ways: floor(epochs · N / B) DP-Adam steps over fixed-size samples of the training
        nodes. A node is in its own sub-graph and in those of at most max_degree others, so
        N_g = max_degree + 1 samples depend on it. Then one noisy sum for inference, cached, with
        sensitivity √max_degree (GAP, section 7.2 and Theorem 2). One noise multiplier for both
        (GAP, section 7.3). The claim is refuted under node_add_remove for GAP's reason: see
        `sensitivity.node_add_remove_as_published`. With `adjacency` "node_replace" the noisy sum
        has sensitivity 2√max_degree, as in DPDGC's code; training is the same, since its bound
        2 N_g C lets every sample that a node is in change. Refuted for the same reason.
    none: no privacy, ε = ∞ only.

    Units: max_degree, num_train, batch_size and epochs are counts; max_grad_norm is an L2 norm.
    Raises GraphDPError for a missing, wrong or unknown setting.
    """
    _check_level("sage", level)
    _check_adjacency("sage", adjacency)
    if level == "none":
        return _not_private("sage")
    if level == "edge":
        if perturbation not in _PERTURBATIONS:
            known = ", ".join(_PERTURBATIONS)
            raise GraphDPError(f"sage: perturbation is {perturbation!r}; choose one of {known}")
        return Plan(
            method="sage",
            level="edge",
            adjacency="edge_directed",
            basis="as_published",
            status="proven",
            assumptions=(FEATURES_ARE_PUBLIC, EDGE_COUNT_IS_PUBLIC),
            own_row_covered=None,
            mechanisms=tuple(
                PureRelease(query, sensitivity.perturbed_pairs(1), share, phase)
                for phase, (query, share) in _PERTURBATIONS[perturbation].items()
            ),
        )
    _check_given(
        "sage",
        max_degree=max_degree,
        num_train=num_train,
        batch_size=batch_size,
        epochs=epochs,
        max_grad_norm=max_grad_norm,
    )
    _, steps = dpsgd_rounds(num_train, batch_size, epochs)
    group = max_degree + 1
    return Plan(
        method="sage",
        level="node",
        adjacency=adjacency,
        basis="as_published",
        status="refuted",
        assumptions=(
            "The bounded lists of the other nodes do not depend on the protected node; "
            "random sampling of neighbours breaks this.",
            "The protected node's own row of the aggregate is not released.",
            TRAINING_COUNT_IS_PUBLIC,
            SELECTION_IS_UNCOUNTED,
        ),
        own_row_covered=False,
        mechanisms=(
            FixedSizeDPSGD(
                query="sum of clipped gradients of sub-graphs",
                population=num_train,
                batch_size=min(batch_size, num_train),
                group=group,
                steps=steps,
                max_grad_norm=sensitivity.clipped_group_gradient_sum(group, max_grad_norm),
                phase="classifier",
            ),
            GaussianReleases(
                query="sum of in-neighbours' unit-norm rows, for inference",
                sensitivity=_PUBLISHED_SUM[adjacency](max_degree),
                count=1,
                phase="aggregation",
            ),
        ),
    )
