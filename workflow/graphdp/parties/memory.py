"""The rounds in one process: what the parties' results add up to, without shares."""

import numpy as np
from scipy import sparse

from graphdp.parties.fixed_point import party_noise
from graphdp.parties.shares import Round, noise_name, noise_secret


class InMemory:
    """Sums by key with the noise of all parties.

    senders, keys: the pairs, int (P,) each. name: of the noise's streams.
    """

    def __init__(
        self, senders: np.ndarray, keys: np.ndarray, num_keys: int, parties: int, name: tuple
    ):
        ones = np.ones(len(keys), np.int64)
        self._pairs = sparse.csr_matrix((ones, (keys, senders)), shape=(num_keys, num_keys))
        self._secrets = [noise_secret(name, party) for party in range(parties)]

    def __enter__(self) -> "InMemory":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def add_up(self, one: Round, rows: np.ndarray) -> np.ndarray:
        """The released sums of a round's rows, int64 (n, C) both."""
        sums = np.empty_like(rows)
        for piece in one.pieces:
            found = self._pairs @ rows[:, piece.place].copy()
            for secret in self._secrets:
                found += party_noise(noise_name(secret, piece), found.shape, piece.party_std)
            sums[:, piece.place] = found
        return sums
