"""The rounds in one process: what the parties' results add up to, without shares."""

import numpy as np
from scipy import sparse

from graphdp.parties.fixed_point import dummies, party_noise
from graphdp.parties.shares import Round, dummies_name, noise_name, noise_secret

#: Columns that are added up together: a cache holds them for all users of a middling graph.
_COLUMNS = 32
#: Sums of fewer rows of whole numbers up to 2²⁴ are exact in float64, and made twice as fast.
_EXACT = 1 << 29


class InMemory:
    """Sums by key with the noise of all parties.

    senders, keys: the pairs, int (P,) each. name: of the noise's streams. count_std, mean_dummies:
    as `session.Session` has them. `counts`: how many pairs arrive for each key, dummies of all
    parties included, int64 (n,); a party sees as many where shares go to all.
    """

    def __init__(
        self,
        senders: np.ndarray,
        keys: np.ndarray,
        num_keys: int,
        parties: int,
        name: tuple,
        *,
        count_std: float = 0.0,
        mean_dummies: int = 0,
    ):
        ones = np.ones(len(keys), np.float64 if len(keys) < _EXACT else np.int64)
        self._pairs = sparse.csr_matrix((ones, (keys, senders)), shape=(num_keys, num_keys))
        self._secrets = [noise_secret(name, party) for party in range(parties)]
        self.count_std = count_std
        self.counts = np.bincount(keys, minlength=num_keys)
        for secret in self._secrets if count_std else ():
            self.counts += dummies(dummies_name(secret), num_keys, mean_dummies, count_std)

    def __enter__(self) -> "InMemory":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def add_up(self, one: Round, rows: np.ndarray) -> np.ndarray:
        """The released sums of a round in the place of its rows, int64 (n, C)."""
        for piece in one.pieces:
            found = self._sums(rows[:, piece.place])
            for secret in self._secrets:
                found += party_noise(noise_name(secret, piece), found.shape, piece.party_std)
            rows[:, piece.place] = found
        return rows

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        """What they are without noise, int64 (n, C) both."""
        real, found = rows.astype(self._pairs.dtype), np.empty(rows.shape, np.int64)
        for start in range(0, rows.shape[1], _COLUMNS):
            some = slice(start, start + _COLUMNS)
            found[:, some] = self._pairs @ real[:, some]
        return found
