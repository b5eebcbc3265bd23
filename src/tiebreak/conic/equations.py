"""The symmetric equations of Newton's method; ties give these equations many solutions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tiebreak.conic.stage import dense
from tiebreak.linalg import TOL, Host, deadline
from tiebreak.linalg.conic_form import entries, scaled_rows
from tiebreak.linalg.host import norm

FEW_EQUATIONS = 100  # a complete orthogonal factorisation of this many rows takes a millisecond


def kkt_matrix(F: Any, H: Any, J: Any) -> Any:
    """Return the matrix that multiplies the unknowns (F dw, dw, dlambda); it is sparse if J is."""
    (p, n), k = F.shape, J.shape[0]
    size = p + n + k
    if isinstance(J, np.ndarray):
        F, H = dense(F), np.zeros((n, n)) if H is None else H
        first = [-np.eye(p), F, np.zeros((p, k))]
        return np.block([first, [F.T, H, J.T], [np.zeros((k, p)), J, np.zeros((k, k))]])
    import scipy.sparse as sp

    (i, j, a), (k, m, b) = entries(F), entries(J)
    parts = [(i, j + p, a), (j + p, i, a), (k + p + n, m + p, b), (m + p, k + p + n, b)]
    parts.append((np.arange(p), np.arange(p), -np.ones(p)))
    if H is not None:
        i, j, a = entries(H)
        parts.append((i + p, j + p, a))
    rows, columns, values = (np.concatenate(some) for some in zip(*parts, strict=True))
    return sp.csr_array((values, (rows, columns)), shape=(size, size))


def least_solution(K: Any, right: Host, cutoff: float = 1e-13) -> Host | None:
    """Return the least-squares solution of least norm from a complete orthogonal factorisation."""
    import scipy.linalg as la

    try:
        return np.asarray(la.lstsq(dense(K), right, cond=cutoff, lapack_driver="gelsy")[0])
    except (la.LinAlgError, ValueError):
        return None


def regularised_solution(K: Any, right: Host, primal: int) -> Host | None:
    """Return a solution close to the one of least norm, from a shifted factorisation.

    The shift is positive for the first ``primal`` unknowns and negative for the multipliers;
    iterative refinement removes its effect.
    """
    import scipy.linalg as la
    import scipy.sparse as sp
    import scipy.sparse.linalg as sla

    size = len(right)
    count = K.nnz if sp.issparse(K) else np.count_nonzero(K)
    # If a tenth of all entries is nonzero, a dense factorisation is faster.
    is_dense = count >= 0.1 * size * size
    K = dense(K) if is_dense else sp.csr_array(K)
    deadline.check(0.05 * deadline.svd_work(size, size) if is_dense else 0.0)
    sizes = dense(abs(K).max(axis=1)).ravel()
    d = 1.0 / np.sqrt(np.where(sizes > 0.0, sizes, 1.0))
    shift = TOL.half * np.where(np.arange(size) < primal, 1.0, -1.0)
    scaled = scaled_rows(K, d, d)
    try:
        if is_dense:
            solve = partial(la.lu_solve, la.lu_factor(scaled + np.diag(shift)))
        else:
            places = np.arange(size + 1)
            shifted = sp.csc_matrix(scaled + sp.csr_array((shift, places[:-1], places)))
            # Use a fixed order for symmetric patterns: with the shift, no pivot is 0.
            solve = sla.splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0).solve
    except (la.LinAlgError, RuntimeError, ValueError):
        return None
    x, left = np.zeros(size), d * right
    least = norm(left)
    # These rounds of refinement remove the effect of the shift.
    for _ in range(12):
        trial = x + solve(left)
        left = d * right - scaled @ trial
        if not norm(left) < 0.5 * least:
            break
        x, least = trial, norm(left)
    return np.asarray(d * x)
