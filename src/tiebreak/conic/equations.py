"""The symmetric equations of Newton's method, which have many solutions if there are ties."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.conic_form import entries
from tiebreak.linalg.host import norm
from tiebreak.linalg.tolerances import TOL

FEW_EQUATIONS = 100  # equations that a complete orthogonal factorisation solves in a millisecond


def kkt_matrix(F: Any, H: Any, J: Any) -> Any:
    """Return the matrix of the unknowns (F dw, dw, dlambda), sparse if J is."""
    p, n, k = F.shape[0], F.shape[1], J.shape[0]
    if isinstance(J, np.ndarray):
        K = np.zeros((p + n + k, p + n + k))
        K[:p, :p] = -np.eye(p)
        K[:p, p : p + n] = F if isinstance(F, np.ndarray) else F.toarray()
        K[p : p + n, :p] = K[:p, p : p + n].T
        if H is not None:
            K[p : p + n, p : p + n] = H
        K[p : p + n, p + n :] = J.T
        K[p + n :, p : p + n] = J
        return K
    import scipy.sparse as sp

    i, j, value = entries(F)
    parts = [(np.arange(p), np.arange(p), np.full(p, -1.0)), (i, p + j, value), (p + j, i, value)]
    i, j, value = entries(J)
    parts += [(p + j, p + n + i, value), (p + n + i, p + j, value)]
    if H is not None:
        i, j, value = entries(H)
        parts.append((p + i, p + j, value))
    row, column, value = (np.concatenate(some) for some in zip(*parts, strict=True))
    return sp.csc_array((value, (row, column)), shape=(p + n + k, p + n + k))


def least_solution(K: Any, right: Host, cutoff: float = 1e-13) -> Host | None:
    """Return the smallest least-squares solution by a complete orthogonal factorisation."""
    import scipy.linalg as la

    K = K if isinstance(K, np.ndarray) else K.toarray()
    try:
        return np.asarray(la.lstsq(K, right, cond=cutoff, lapack_driver="gelsy")[0])
    except (la.LinAlgError, ValueError):
        return None


def regularised_solution(K: Any, right: Host, primal: int) -> Host | None:
    """Return a solution close to the smallest one, by a shifted factorisation.

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
    if is_dense == sp.issparse(K):
        K = K.toarray() if is_dense else sp.csc_array(K)
    deadline.check()
    sizes = np.asarray(abs(K).max(axis=1).todense()).ravel() if sp.issparse(K) else None
    sizes = np.max(np.abs(K), axis=1) if sizes is None else sizes
    d = 1.0 / np.sqrt(np.where(sizes > 0.0, sizes, 1.0))
    shift = TOL.half * np.where(np.arange(size) < primal, 1.0, -1.0)
    try:
        if sp.issparse(K):
            scaled = K.copy()  # a copy, because K belongs to the caller
            scaled.data = K.data * d[K.indices] * np.repeat(d, np.diff(K.indptr))
            shifted = sp.csc_matrix(scaled + sp.diags_array(shift))
            # Use a fixed order for symmetric patterns: with the shift, no pivot is 0.
            factors = sla.splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)
            solve = factors.solve
        else:
            deadline.check(0.05 * deadline.svd_work(size, size))
            scaled = d[:, None] * K * d
            lu = la.lu_factor(scaled + np.diag(shift))

            def solve(b: Host) -> Host:
                return np.asarray(la.lu_solve(lu, b))

    except (la.LinAlgError, RuntimeError, ValueError):
        return None
    x, left = np.zeros(size), d * right
    least = norm(left)
    # Rounds of refinement that remove the effect of the shift.
    for _ in range(12):
        trial = x + solve(left)
        left = d * right - scaled @ trial
        if not norm(left) < 0.5 * least:
            break
        x, least = trial, norm(left)
    return np.asarray(d * x)
