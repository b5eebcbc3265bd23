"""f = squares of F x - t and of all variables above: the same problem with variables v = F x - t.

The minimisers of g(x) + ½|F x - v - t|² are the x that minimise g, with v = F x - t, and the
minimum is the same. So is f, which is a norm of (x, v): with few rows a problem of `wide`, whatever
the number of variables. What is proved about its f* and g* is proved about these.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.functions import LeastSquares, SquaredNorm, summands
from tiebreak.linalg import DENSE_LIMIT, EPS, Host, Matrix
from tiebreak.linalg.host import host
from tiebreak.linalg.row_gram import row_rank
from tiebreak.problem import Problem
from tiebreak.sets import described


class SquaresAbove(NamedTuple):
    """f = v/2 |F x - t|² + s times a norm, g = w/2 |A x - b|²."""

    residuals: LeastSquares
    v: float
    norm: SquaredNorm
    s: float
    lower: LeastSquares
    w: float

    @classmethod
    def of(cls, problem: Problem) -> SquaresAbove | None:
        """None where the problem is another one, or too large, or has more rows than variables."""
        if not described(problem.domain).is_space or not problem.is_smooth:
            return None
        terms = summands(problem.upper.bare)
        above = {type(part): (weight, part) for weight, part in terms}
        (w, g), *others = summands(problem.lower.bare)
        if set(above) != {LeastSquares, SquaredNorm} or others or not isinstance(g, LeastSquares):
            return None
        if len(terms) > len(above):
            return None
        (v, f), (s, norm) = above[LeastSquares], above[SquaredNorm]
        assert isinstance(f, LeastSquares)
        assert isinstance(norm, SquaredNorm)
        rows, n = g.matrix.shape
        more = f.matrix.shape[0]
        is_small = 0 < rows <= n and rows + more <= math.isqrt(DENSE_LIMIT)
        is_small = is_small and (rows + more) * (n + more) <= DENSE_LIMIT
        if not is_small or not (_is_at_hand(f) and _is_at_hand(g)) or not norm.strong_convexity:
            return None
        return cls(f, v * f.scale, norm, s, g, w)

    @property
    def has_independent_rows(self) -> bool:
        """Are those of g?  Then all are, for each of the others has a variable to itself."""
        found = row_rank(self.lower.given_matrix, EPS)
        return found is not None and found.rank == self.lower.matrix.shape[0]


def with_residuals(problem: Problem) -> Problem | None:
    """The problem of (x, v); None where it is another one, or g's rows depend on one another."""
    levels = SquaresAbove.of(problem)
    if levels is None or not levels.has_independent_rows:
        return None
    f, g, norm = levels.residuals, levels.lower, levels.norm
    (k, n), given = f.matrix.shape, g.unweighted
    weights = None if given is None else np.append(given.weights, np.ones(k))
    b = np.append(host(g.b if given is None else given.b), host(f.b))
    rows = _stacked(g.given_matrix.on_host(), f.matrix.on_host())
    lower = (levels.w * g.scale) * LeastSquares(rows, b, weights=weights, gram=False)
    # Products of weights are rounded once, which is among the 64 units of `rounding_unit`.
    of_x = levels.s * np.broadcast_to(host(norm.weight), n)
    center = np.zeros(n) if norm.center is None else host(norm.center)
    upper = SquaredNorm(np.append(of_x, np.full(k, levels.v)), np.append(center, np.zeros(k)))
    return Problem(upper=upper, lower=lower)


def _stacked(A: Any, F: Any) -> Any:
    """The rows (A, 0) and (F, -1)."""
    k = F.shape[0]
    if isinstance(A, np.ndarray) and isinstance(F, np.ndarray):
        empty: Host = np.zeros((len(A), k))
        return np.block([[A, empty], [F, -np.eye(k)]])
    import scipy.sparse as sp

    blocks = [[sp.csr_array(A), None], [sp.csr_array(F), -sp.eye_array(k)]]
    return sp.block_array(blocks, format="csr")


def _is_at_hand(loss: LeastSquares) -> bool:
    """Are its rows NumPy's or SciPy's, in float64?"""
    matrix: Matrix = loss.matrix
    is_plain = type(loss.prototype) is np.ndarray and loss.prototype.dtype == np.float64
    return is_plain and loss.data_epsilon == 0.0 and (matrix.is_explicit or matrix.is_sparse)
