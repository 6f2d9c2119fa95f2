"""Claims about noisy sums over neighbours at edge level: one edge, directed and undirected."""

from collections.abc import Callable, Iterable
from typing import Any

from graphdp.audit.claims import Claim
from graphdp.privacy.plan import Plan

_DELTA = 1e-6


def edge_claims(
    method: str,
    title: str,
    attacks: str,
    cases: Iterable[tuple[int, float, float]],
    plans: Callable[[int], tuple[Plan, Plan]],
    attack: Callable[[int, str], Callable[..., Any]],
    corrected: str,
) -> list[Claim]:
    """What one directed edge meets, an undirected one exceeds, and the corrected ε covers.

    method, title: in names and headings. attacks: the code that is run. cases: (number of sums K,
    target ε, share of the runs). plans: K -> the plan as published, and that of an undirected edge.
    attack: (K, adjacency) -> a claim's attack. corrected: what the corrected ε is expected to be.
    """
    found = []
    for count, epsilon, share in cases:
        published, undirected = plans(count)
        for name, plan, adjacency, expected in (
            ("directed", published, "edge_directed", "tight"),
            ("undirected-published", published, "edge_undirected", "exceeds"),
            ("undirected-corrected", undirected, "edge_undirected", corrected),
        ):
            found.append(
                Claim(
                    name=f"{method}-edge-{name}-k{count}-eps{epsilon}",
                    family=f"{title}, edge level, {name.replace('-', ' edge, ')}"
                    + (" edge" if name == "directed" else ""),
                    title=f"K = {count}",
                    attacks=attacks,
                    plan=plan,
                    reference=published,
                    target_epsilon=epsilon,
                    delta=_DELTA,
                    adjacency=adjacency,
                    expected=expected,
                    attack=attack(count, adjacency),
                    share=share,
                )
            )
    return found
