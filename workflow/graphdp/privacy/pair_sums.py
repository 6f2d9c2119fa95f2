"""Sums by key of rows that users send to several parties: who sees what, and how far it moves.

**The protocol.** User j keeps a list L_j of at most D other users and a row h_j with ‖h_j‖ ≤ 1. In
each round it sends the pair (i : h_j) for every i in L_j, split into t additive shares over the
integers modulo 2⁶⁴, each to another of m parties, through a shuffler. Every party sums its shares
by key, adds its own noise on all n keys and a mask; the masks of all parties add up to zero. The m
results together are M_i = Σ_{j: i ∈ L_j} h_j + noise, for all keys i, and are released in full. The
rows of the next round are a public function of the released ones (divided by max(1, norm)).

**Adversary.** The server, any users, and at most t_c ≤ t - 1 parties together; semi-honest. The
shuffler is trusted: it sees who sends how many pairs to whom. Users' own pairs are their own.

**Released.** The noisy rows of every round and of both streams (features, labels), and, to the
parties, how many pairs arrive for each key. Any t - 1 shares of a row are uniform whatever the row,
and what a party gets of the others is hidden by their masks, so that t_c parties see nothing else
(the masks are as good as AES in counter mode). Each round's query is a function of the private
lists and of what was released before: adaptive composition of Gaussian releases,
μ² = Σ_rounds Δ² / σ². That only the first round needs noise is false: each later one reads the
lists again. A session that fails has released its rounds; run again with the same setting on the
same data it draws the same noise and dummies, and with fresh shares, masks and choices of parties
releases nothing more. With other data or settings it is another release.

**Sensitivities.** G, G' adjacent, earlier releases equal; ‖·‖ is the Frobenius norm.

- *edge_directed*: i enters L_j. Row i moves by h_j: Δ = 1. If a list of more than D is cut by
  sampling, another target z leaves: rows i and z move, Δ = √2. A list keeps the D targets with the
  smallest keys, each a hash of (seed, j, target) (`first_targets`), so that this holds for every
  seed. (By places in the list all of it would be drawn anew: √(2D), or √(8D) for both directions,
  for whoever knows the seed.)
- *edge_undirected*: i enters L_j, j enters L_i. Rows i and j move by 1 each: √2. With sampled lists
  z leaves L_j and z' leaves L_i; rows i, j, z, z' move by 1 each, or, if z = z', rows i and j by 1
  and z by ‖h_i + h_j‖ ≤ 2: at most √(1 + 1 + 4) = √6, attained by h_i = h_j.
- *participant*: user r sends its pairs or nothing; the lists of all others stay. At most D rows
  move, by h_r: √D. Row r sums what others send, so it does not move: the own row is covered.
- *node_replace_own_list*: r's row and list are others, the lists of others stay. In the first
  round a rows are reached by one of both lists and move by 1, b by both and move by ‖h_r - h_r'‖,
  at most 2, or √2 if no entry is negative. a + 2b ≤ 2D, so Δ² ≤ a + 4b ≤ 4D, or a + 2b ≤ 2D. In
  later rounds h_r is the same function of equal releases, the rows reached by both stay, and a ≤
  2D: √(2D). The own row does not move.
- *Labels*: one-hot rows or zeros (test users), so as features without negative entries.
- *Counts of pairs*: key by key as above with h = 1: 1, √2, √D, √(2D), and √2, √6 if sampled.
- *Numbers of users by length of list*, all in one key's row: a list that grows by one moves two of
  them by 1, or none at the longest: √2; both ends of an undirected edge, of equal length, √8. A
  user with another list, or with none (it then tells the length 0), moves from one length to
  another: √2. D is their quantile, and public from then on: where nodes are protected every later
  Δ is a √D, and noise of σ √D makes Δ/σ the same for any D, so that μ² is known before D is.

All are tight: `tests/test_pair_sums.py` looks at lists of small graphs and at the worst rows. They
rest on norms and signs alone, and so hold for rows in fixed point.

**Distributed noise.** Party p adds Gaussian noise of variance σ² / (m - t_c), so that what the at
most t_c colluders do not know has variance σ²; all of it together has σ² m / (m - t_c). This needs
the masks: without them a party that got no pair for a key would send its bare noise, and only
t - t_c parties' noise would count.

**Fixed point.** Rows and a round's noise are whole multiples of B · 2⁻²⁴, B the power of two that
leaves 2¹⁵ to 2¹⁶ of them in a party's deviation, or 1 where it has fewer (`step_bits`). h is cut
towards zero to these, which makes no norm larger and turns no sign, and Σ q² ≤ 2⁴⁸ is checked.
Nothing wraps around (`check_ring`): a bound on n keys, m parties and σ, all public. A check of the
sums themselves would tell of them.

**Noise on whole numbers.** In units of B · 2⁻²⁴ a party draws y = rint(σ_y Z). For k parties let W
be the sum of all σ_y Z, and f in [-1/2, 1/2] what each rounding took away. Then q + Σ y = q + W - Σ
f, and given W the density of all f on the set where q + Σ y is whole, which is the same for all
whole q, is a Gaussian summed over a shifted lattice of whole y with Σ y fixed. By Poisson summation
it is uniform there but for a factor within 1 ± Σ_u exp(-2 π² Q(u)), u over the nonzero whole
vectors on all y but the first, and

    Q(u) = σ_y² min_λ (λ² + Σ (u_p - λ)²) ≥ σ_y² max(1/2, Σ u_p² / k)

With σ_y ≥ 8 that is 1 ± 1e-120 for up to 100 parties: q + Σ y is drawn from the ideal Gaussian
mechanism's q + W by a kernel that does not depend on q, post-processing. The grid costs no δ that
could be written down (a discrete Gaussian would cost its distance from this one).

**Dummies.** If counts are to be covered, party p draws for every key, once,
max(0, k0 + rint(N(0, s² / (m - t_c)))) pairs of zeros, which are kept in all rounds and streams, as
is the choice of parties for each pair: otherwise every round would tell more. The parties draw
them and not the key's owner, who may be absent or a colluder. Without the cut at 0 the counts are a
Gaussian mechanism of deviation s: as above, u over all whole numbers but the first party's, with a
factor within 1 ± 2.1 exp(-π² s_p²) at each key that moves, s_p = s / √(m - t_c) ≥ LEAST_COUNT_STD,
below 1 ± 5e-10 (smaller ones are refused). The cut acts the same in both worlds at keys whose count
does not move; at the k ≤ Δ² keys that do, it changes something with a chance of
(m - t_c) P(N(0, 1) < -TAIL) each at most, k0 = ⌈TAIL s_p⌉ + 1. Which t parties a pair is sent to is
drawn without looking at anything: post-processing. No amplification by it is claimed.

`cut_loss` is what that adds to δ.
"""

import math

from graphdp.errors import GraphDPError, one_of
from graphdp.noise import MOST_DRAWS
from graphdp.parties.ring import CELL_BITS, FRACTION_BITS, RING_BITS, step_bits
from graphdp.privacy.mechanisms.base import Sensitivity, is_count, require
from graphdp.privacy.mechanisms.distributed_gaussian import party_std
from graphdp.privacy.protection import OWN_LIST_REPLACED

#: What parties' noise as drawn adds to ε at most, for the most numbers that a model may draw
#: (`graphdp.parties.fixed_point`).
DRAWN_EPSILON = 2 * (
    math.sqrt(MOST_DRAWS * 60) * 2.0 ** (CELL_BITS - 43)
    + 60 * 2.0 ** (2 * CELL_BITS - 50)
    + MOST_DRAWS * 2.0 ** (2 * CELL_BITS - 86)
)
#: No party's number of dummies is cut at 0 unless its noise falls so many deviations.
TAIL = 9.0
#: Least deviation of a party's number of dummies of a key.
LEAST_COUNT_STD = 1.5
#: A normal of `graphdp.noise` is below √(2 · 190 ln 2) < 17 in size: u has 190 bits at most.
MOST_NORMAL = 17.0
#: Lengths of lists that are told apart: 0 to this, where longer ones count as that.
MOST_LENGTH = 63
#: Names of the adjacencies whose sensitivities stand here.
ADJACENCIES = ("edge_directed", "edge_undirected", "participant", OWN_LIST_REPLACED)

_SOURCE = "graphdp.privacy.pair_sums, proof there"
#: Adjacency -> (square of Δ, formula).
_EDGES = {"edge_directed": (1, "1"), "edge_undirected": (2, "sqrt(2)")}
_SAMPLED_EDGES = {"edge_directed": (2, "sqrt(2)"), "edge_undirected": (6, "sqrt(6)")}


def sum_sensitivity(
    adjacency: str,
    max_degree: int | None = None,
    *,
    first: bool = False,
    non_negative: bool = False,
    sampled: bool = False,
) -> Sensitivity:
    """Δ of one round's sums of rows of norm at most 1.

    max_degree: D; read where nodes are protected. first: whether the rows are the users' own and
    not yet a function of what was released. non_negative: no entry is below 0. sampled: whether
    lists are cut by sampling; read where edges are protected.

    Raises GraphDPError for an unknown adjacency and for a D that is no whole number.
    """
    one_of("adjacency", adjacency, ADJACENCIES)
    if adjacency in _EDGES:
        square, formula = (_SAMPLED_EDGES if sampled else _EDGES)[adjacency]
        return Sensitivity(math.sqrt(square), formula, _SOURCE)
    multiple = 1
    if adjacency == OWN_LIST_REPLACED:
        multiple = 4 if first and not non_negative else 2
    value = math.sqrt(multiple * _checked_degree(max_degree))
    formula = "sqrt(max_degree)" if multiple == 1 else f"sqrt({multiple}*max_degree)"
    return Sensitivity(value, formula, _SOURCE)


def count_sensitivity(
    adjacency: str, max_degree: int | None = None, *, sampled: bool = False
) -> Sensitivity:
    """Δ of the numbers of pairs by key. Arguments and errors as `sum_sensitivity`."""
    return sum_sensitivity(adjacency, max_degree, sampled=sampled)


def length_sensitivity(adjacency: str) -> Sensitivity:
    """Δ of the numbers of users by length of list. Raises GraphDPError for an unknown adjacency."""
    one_of("adjacency", adjacency, ADJACENCIES)
    square = 8 if adjacency == "edge_undirected" else 2
    return Sensitivity(math.sqrt(square), f"sqrt({square})", _SOURCE)


def _checked_degree(max_degree: int | None) -> int:
    require(
        is_count(max_degree),
        f"max_degree is {max_degree!r}; give a whole number of at least 0",
    )
    return max_degree


def check_ring(num_keys: int, parties: int, party_noise: float) -> None:
    """Refuse sums that could wrap around modulo 2⁶⁴: Σ |q| + m |noise| must stay below 2⁶³.

    num_keys: n. party_noise: a party's deviation, in units of the grid. All is public.
    """
    noise = MOST_NORMAL * party_noise + 2.0 ** step_bits(party_noise)
    if num_keys * 2.0**FRACTION_BITS + parties * noise >= 2.0 ** (RING_BITS - 1):
        raise GraphDPError(
            f"sums of {num_keys} rows with noise of {party_noise * 2.0**-FRACTION_BITS:g} per "
            f"party may wrap around modulo 2^{RING_BITS}; take less noise (a larger epsilon)"
        )


def mean_dummies(count_std: float, parties: int, colluding: int) -> int:
    """k0, about which a party draws its dummies of a key. count_std: s.

    Raises GraphDPError for so little noise that whole numbers are no longer as good as real ones.
    """
    own = party_std(count_std, parties, colluding)
    if own < LEAST_COUNT_STD:
        raise GraphDPError(
            f"numbers of pairs would get noise of {own:.3g} from each party, below "
            f"{LEAST_COUNT_STD}: let the shares of features and labels leave less for them"
        )
    return math.ceil(TAIL * own) + 1


def cut_loss(epsilon: float, square: float, parties: int) -> float:
    """What the cut of dummies at 0 adds to δ at an ε.

    square: Δ² of the counts, at least the number of keys that move, since counts are whole.
    parties: m. Raises GraphDPError for an ε that is not finite.
    """
    if not 0 <= epsilon < math.inf:
        raise GraphDPError(f"epsilon {epsilon}: there is no noise to speak of")
    cut = square * parties * 0.5 * math.erfc(TAIL / math.sqrt(2))
    return min(1.0, (1 + math.exp(min(epsilon, 700.0))) * cut)
