"""Which directions of a slice some rows see, and which they leave open."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.spectra import EPS, clear_rank, eigenvalues

CLEARLY_SEEN = 1e-8  # the least eigenvalue of M'M, whose rows have terms of length 1: with more
# there is no doubt


class Directions(NamedTuple):
    """The directions v of a slice, x0 + N v, that rows see and that they do not: orthonormal."""

    seen: Host
    unseen: Host
    is_clear: bool = True  # is it known which are which?


def directions(rows: Host, N: Host, epsilon: float = EPS, doubtful: bool = False) -> Directions:
    """Those of the columns of N; doubtful ones are seen only if asked.

    A product of a row and a column is rounding relative to its own terms, whatever the units are
    and whatever the other rows see: where all products are rounding, nothing is seen.
    """
    k, terms = N.shape[1], np.abs(rows) @ np.abs(N)
    lengths = np.sqrt(np.sum(terms * terms, axis=1))
    M = (rows[lengths > 0.0] @ N) / lengths[lengths > 0.0, None]
    if not M.size:
        return Directions(np.zeros((k, 0)), np.eye(k))
    if len(M) >= k:
        deadline.check(0.2 * deadline.svd_work(*M.shape))
        if eigenvalues(M.T @ M)[0] > CLEARLY_SEEN:
            return Directions(np.eye(k), np.zeros((k, 0)))
    deadline.check(deadline.svd_work(*M.shape, whole=len(M) < k))
    _, sigma, vt = np.linalg.svd(M, full_matrices=len(M) < k)
    # 1 is the length of the terms, with which the singular values are compared.
    low, high = (some - 1 for some in clear_rank(np.append(sigma, 1.0), rows.shape, epsilon))
    rank = high if doubtful else low
    return Directions(vt[:rank].T, vt[rank:].T, low == high)
