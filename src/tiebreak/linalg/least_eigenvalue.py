"""A proved lower bound on the least eigenvalue of K'K, from a (sparse) factorisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import rounding_unit
from tiebreak.linalg.host import norm
from tiebreak.linalg.spectra import EPS, norm_bound


def least_eigenvalue(K: Any) -> float:
    """A proved lower bound on the eigenvalues of K'K, or 0 if none is proved.

    If K'K - s I = L D L' + E with D > 0, no eigenvalue is below s - |E|.
    E has two parts: the rounding errors of Gaussian elimination, at most gamma |L| |U|, whatever
    the order of its sums (Higham 2002, theorem 9.3), and L (U - D L').
    """
    M, n = K.T @ K, K.shape[1]
    if not n or min(K.shape) < n:
        return 0.0
    unit = 4.0 * rounding_unit(EPS, *K.shape)
    rounding = 2.0 * unit * norm_bound(K) ** 2  # the rounding errors of K'K and of s
    guess = _guess(M)
    for share in (0.5, 0.05):  # smaller shifts: the guess may exceed the eigenvalue
        error = _factorisation_error(_shifted(M, share * guess), unit)
        if share * guess > error + rounding:
            return share * guess - error - rounding
    return 0.0


def _shifted(M: Any, shift: float) -> Any:
    if isinstance(M, np.ndarray):
        return M - shift * np.eye(len(M))
    from scipy.sparse import csc_array, eye_array

    return csc_array(M - shift * eye_array(M.shape[0]))


def factorisation_work(stored: int, n: int) -> float:
    """The approximate work of `factorise`, for n columns, ``stored`` entries and a grid pattern."""
    return float(32.0 * stored * np.sqrt(n))


def factorise(M: Any) -> Any:
    """The SuperLU factorisation of a symmetric sparse matrix, without row exchanges."""
    from scipy.sparse import csc_matrix
    from scipy.sparse.linalg import splu

    deadline.check(factorisation_work(M.nnz, M.shape[0]))
    options = {"SymmetricMode": True, "Equil": False}
    order = "MMD_AT_PLUS_A"
    return splu(csc_matrix(M), permc_spec=order, diag_pivot_thresh=0.0, options=options)


def _guess(M: Any) -> float:
    """An approximation of the least eigenvalue, by inverse iteration."""
    v = np.random.default_rng(0).standard_normal(M.shape[0])
    try:
        if isinstance(M, np.ndarray):
            deadline.check(0.1 * deadline.svd_work(*M.shape))
            return float(np.linalg.eigvalsh(M)[0])
        solve = factorise(M).solve
        for _ in range(8):  # a rough guess is enough
            v = solve(v)
            v /= norm(v)
    except RuntimeError:  # the matrix is exactly singular
        return 0.0
    return float(v @ (M @ v)) if np.all(np.isfinite(v)) else 0.0


def _factorisation_error(M: Any, unit: float) -> float:
    """A bound on |M - L D L'|; inf if D is not positive."""
    from scipy.sparse import diags

    try:
        if isinstance(M, np.ndarray):
            L = np.linalg.cholesky(M)
            return norm(M - L @ L.T) + unit * norm(L) ** 2
        lu = factorise(M)
    except (RuntimeError, np.linalg.LinAlgError):
        return np.inf
    L, U, pivots = lu.L, lu.U, lu.U.diagonal()
    if not (np.array_equal(lu.perm_r, lu.perm_c) and np.all(pivots > 0.0)):
        return np.inf
    apart, U, one = abs(U - diags(pivots) @ L.T), abs(U), np.ones(M.shape[0])
    L = abs(L)
    across = L @ (apart @ one + unit * (U @ one))
    down = one @ L
    down = down @ apart + unit * (down @ U)
    bound = np.sqrt(np.max(across)) * np.sqrt(np.max(down)) * (1.0 + unit)
    return float(bound)
