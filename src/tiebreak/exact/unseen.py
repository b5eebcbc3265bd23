"""Which directions of a slice some rows see, and which they leave open."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm
from tiebreak.linalg.spectra import EPS, clear_rank, eigenvalues, equilibrate

CLEARLY_SEEN = 1e-8  # the least eigenvalue of M'M, relative to the terms: with more there is no doubt


class Directions(NamedTuple):
    """The directions v of a slice, x0 + N v, that rows see and that they do not: orthonormal."""

    seen: Host
    unseen: Host
    is_clear: bool = True  # is it known which are which?


def directions(
    rows: Host, N: Host, epsilon: float = EPS, doubtful: bool = False, others: int = 0
) -> Directions:
    """Those of the columns of N, the null space of so many other rows; doubtful ones if asked.

    A product of a row and a column is rounding relative to its own terms, in units in which these
    are alike: where all products are rounding, nothing is seen.
    """
    k, terms = N.shape[1], np.abs(rows) @ np.abs(N)
    if not terms.size:
        return Directions(np.zeros((k, 0)), np.eye(k))
    row_units, units = equilibrate(terms)
    M, size = row_units[:, None] * (rows @ N) * units, norm(row_units[:, None] * terms * units)
    if len(M) >= k:
        deadline.check(0.2 * deadline.svd_work(*M.shape))
        if eigenvalues(M.T @ M)[0] > CLEARLY_SEEN * size * size:
            return Directions(np.eye(k), np.zeros((k, 0)))
    deadline.check(deadline.svd_work(*M.shape, whole=len(M) < k))
    _, sigma, vt = np.linalg.svd(M, full_matrices=len(M) < k)
    low, high = clear_rank(np.append(sigma, size), (len(rows) + others, len(N)), epsilon)
    rank = (high if doubtful else low) - (size > 0.0)
    Q = np.linalg.qr(units[:, None] * vt[rank:].T, mode="complete")[0]
    return Directions(Q[:, k - rank :], Q[:, : k - rank], low == high)
