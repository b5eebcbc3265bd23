"""An upper level that depends on images D x, reduced to a problem with the images as variables.

The minimisers of g(x) + w/2 |D x - v - c|² over Z x R^m are the pairs (x, v) in which x minimises g
and v = D x - c. The minimum is the same, and so is f as a function of x and v. So all bounds proved
for f* and g* of the reduced problem hold for the original.

* If f is a sum of w_i |v_i|, with weight 0 on x, the upper level is a linear program. If positive
  and negative v_i have different weights, we set v = p - q with p and q >= 0, so that f is linear
  in p and q.
* If f is a sum of squares of v and of all variables, it is a squared norm of (x, v). If there are
  few rows, `wide` solves this problem, however many variables there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.exact.reductions.reduction import Reduction, is_at_hand, squares_of
from tiebreak.functions import (
    L1,
    LeastSquares,
    Linear,
    SmoothFunction,
    SquaredNorm,
    Squares,
    Substitution,
    summands,
)
from tiebreak.linalg import DENSE_LIMIT, EPS, Host, Refusal
from tiebreak.linalg.host import host
from tiebreak.linalg.row_gram import row_rank
from tiebreak.linalg.sizes import DENSE_SIDE
from tiebreak.problem import Problem


def _lower(
    problem: Problem, n: int, rows: Any, target: Host, weight: float = 1.0
) -> SmoothFunction:
    """Return g(x) + weight/2 |rows (x, v) - target|²."""
    below, _ = Substitution(np.arange(n), rows.shape[1]).function(problem.smooth_parts[1])
    return weight * LeastSquares(rows, target, gram=False) + below


# --- piecewise linear functions -------------------------------------------------------------------


def refuse(problem: Problem) -> None:
    """Raise a Refusal if f has an operator and the rest of the problem does not allow this."""
    penalty, n = problem.penalties[0], problem.dimension or 2
    if penalty.terms.rows_above(n) is None:
        needed = "must be one norm alone, or a sum over rows, if it has a penalty"
        raise Refusal("Exact", "upper", needed, repr(penalty))
    if problem.domain.extended(n, np.zeros(0)) is None:
        needed = "must be R^n, bounds or a half-space if upper is an l1 norm with an operator"
        raise Refusal("Exact", "domain", needed, type(problem.domain).__name__)
    if problem.penalties[1].terms.has_weights:
        needed = "must have no penalty if upper is an l1 norm with an operator"
        raise Refusal("Exact", "lower", needed, repr(problem.lower.bare))


def with_images(problem: Problem, n: int) -> Reduction | None:
    """Return the problem in (x, v) or (x, p, q), in NumPy float64; None if f has no operator."""
    terms = problem.penalties[0].terms
    if not terms.has_operator or (rows := terms.rows_above(n)) is None:
        return None
    D, (_, center, up, down) = rows[0].toarray(), rows
    m, is_even = len(D), np.array_equal(up, down)
    images = -np.eye(m) if is_even else np.hstack([-np.eye(m), np.eye(m)])
    low = np.full(m, -np.inf) if is_even else np.zeros(2 * m)
    lower = _lower(problem, n, np.hstack([D, images]), np.zeros(m) if is_even else center)
    upper = (
        L1(np.append(np.zeros(n), up), np.append(np.zeros(n), center))
        if is_even
        else Linear(np.concatenate([np.zeros(n), up, down]))
    )
    domain = problem.domain.extended(n, low)
    assert domain is not None
    counted = np.ones(n) if problem.counted is None else host(problem.counted)
    counted = np.append(counted, np.zeros(len(low)))
    wider = Problem(upper=upper, lower=lower, domain=domain, counted=counted)
    return Reduction(wider, lambda u: u[:n], spare=len(low) - m)


# --- squares --------------------------------------------------------------------------------------


def residuals_above(problem: Problem) -> tuple[Squares, Squares, Squares] | None:
    """Return the parts of f = v/2 |F x - t|² + s times a squared norm, and g = w/2 |A x - b|².

    Return None if the problem has a different form, is too large, or has more rows than variables.
    """
    above, below = squares_of(problem.upper), squares_of(problem.lower)
    if not problem.domain.is_space or len(above) != 2 or len(below) != 1:
        return None
    (g,), (f, norm) = below, sorted(above, key=lambda part: part.rows is None)
    if f.rows is None or norm.rows is not None or g.rows is None:
        return None
    (rows, n), more = g.rows.shape, f.rows.shape[0]
    is_small = 0 < rows <= n and rows + more <= DENSE_SIDE
    is_small = is_small and (rows + more) * (n + more) <= DENSE_LIMIT
    parts = [part for h in problem.smooth_parts for _, part in summands(h.bare)]
    is_ready = all(is_at_hand(part) for part in parts if part.matrix is not None)
    is_norm = norm.weights is None or bool(np.all(norm.weights > 0.0))
    return (f, norm, g) if is_small and is_ready and is_norm else None


def with_residuals(problem: Problem, n: int) -> Reduction | None:
    """Return the problem in (x, v), or None if it has a different form or g's rows are dependent.

    If g's rows are independent, all rows are, because each further row has its own variable.
    """
    if (levels := residuals_above(problem)) is None:
        return None
    f, norm, g = levels
    found, k = row_rank(g.rows, EPS), f.rows.shape[0]
    if found is None or found.rank < g.rows.shape[0]:
        return None
    F, b = f.rows.on_host(), host(f.target)
    weights = np.ones(k) if f.weights is None else f.weights
    if isinstance(F, np.ndarray):
        rows = np.hstack([F, -np.eye(k)])
    else:
        import scipy.sparse as sp

        rows = sp.hstack([F, -sp.eye_array(k)], format="csr")
    lower = _lower(problem, n, rows, b, g.scale)
    # Products of weights are rounded once; the 64 extra units in `rounding_unit` cover this error.
    of_x = norm.scale * (np.ones(n) if norm.weights is None else norm.weights)
    center = np.zeros(n) if norm.target is None else host(norm.target)
    upper = SquaredNorm(np.append(of_x, f.scale * weights), np.append(center, np.zeros(k)))
    return Reduction(Problem(upper=upper, lower=lower), lambda u: u[:n])
