"""f = a sum of piecewise linear functions of r = D x - c above: the same problem with images of x.

The minimisers of g(x) + ½|D x - v|² over Z x R^m are the x that minimise g, with v = D x, and the
minimum is the same. So is f, a sum of w_i |v_i - c_i|, in which x has the weight 0: a problem that
`Exact` takes, by its linear program. Where r_i rises otherwise than it falls, r = p - q with p and
q >= 0, and f is linear in them. What is proved about its f* and g* is proved about these.
"""

from __future__ import annotations

import numpy as np

from tiebreak.functions.base import SmoothFunction
from tiebreak.functions.elementary import Linear
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.penalties.penalties import L1, Zero
from tiebreak.functions.substitution import Substitution
from tiebreak.linalg.host import host
from tiebreak.linalg.refusals import Refusal
from tiebreak.problem import Problem
from tiebreak.sets.boxes import Box
from tiebreak.sets.domains import Domain, Halfspace, Space


def refuse(problem: Problem) -> None:
    """A Refusal where the rest of the problem does not go with an operator above."""
    penalty = problem.penalties[0]
    if penalty.terms.rows_above(problem.dimension or 2) is None:
        needed = "must be L1 or L2 alone, or a sum over rows, where it has a penalty"
        raise Refusal("Exact", "upper", needed, repr(penalty))
    if not isinstance(problem.domain, Space | Box | Halfspace):
        needed = "must be Space, Orthant, Box or Halfspace where upper is L1 with an operator"
        raise Refusal("Exact", "domain", needed, type(problem.domain).__name__)
    if problem.penalties[1] != Zero():
        needed = "must be without a penalty where upper is L1 with an operator"
        raise Refusal("Exact", "lower", needed, repr(problem.lower.bare))


def with_images(problem: Problem, n: int) -> tuple[Problem, int]:
    """The problem of (x, v), or of (x, p, q), in NumPy float64; and how many p + q are open."""
    rows = problem.penalties[0].terms.rows_above(n)
    assert rows is not None
    D, (_, center, up, down) = rows[0].toarray(), rows
    m = len(D)
    is_even = np.array_equal(up, down)
    images = -np.eye(m) if is_even else np.hstack([-np.eye(m), np.eye(m)])
    low = np.full(m, -np.inf) if is_even else np.zeros(2 * m)
    k = len(low)
    below, _ = Substitution(np.arange(n), n + k).function(problem.smooth_parts[1])
    fit: SmoothFunction = LeastSquares(np.hstack([D, images]), np.zeros(m) if is_even else center)
    upper = (
        L1(np.append(np.zeros(n), up), np.append(np.zeros(n), center))
        if is_even
        else Linear(np.concatenate([np.zeros(n), up, down]))
    )
    given, domain = problem.counted, _wider_domain(problem.domain, n, low)
    counted = np.append(np.ones(n) if given is None else host(given), np.zeros(k))
    wider = Problem(upper=upper, lower=fit + below, domain=domain, counted=counted)
    return wider, k - m


def _wider_domain(Z: Domain, n: int, low: np.ndarray) -> Domain:
    """Z, and variables above these bounds."""
    more = Box(np.append(np.full(n, -np.inf), low), np.inf)
    if isinstance(Z, Box):
        ends = Z.ends(n)
        return Box(np.append(ends[0], low), np.append(ends[1], np.full(len(low), np.inf)))
    if isinstance(Z, Halfspace):
        Z = Halfspace(np.append(host(Z.normal), np.zeros(len(low))), Z.offset)
        return Z if np.isinf(low).all() else Z & more
    return Z if np.isinf(low).all() else more
