"""f = the sum of w_i |(D x)_i - c_i| above: the same problem with variables v = D x.

The minimisers of g(x) + ½|D x - v|² over Z x R^m are the x that minimise g, with v = D x, and the
minimum is the same. So is f, a sum of w_i |v_i - c_i|, in which x has the weight 0: a problem that
`Exact` takes, by its linear program. What is proved about its f* and g* is proved about these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.functions.base import Function, SmoothFunction
from tiebreak.functions.elementary import Flat, Linear, Quadratic, SquaredNorm
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.losses.logistic import Logistic
from tiebreak.functions.penalties.operator_terms import OperatorTerms
from tiebreak.functions.penalties.penalties import L1, Zero
from tiebreak.functions.sums import summands
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import host
from tiebreak.linalg.refusals import Refusal
from tiebreak.problem import Problem
from tiebreak.sets.boxes import Box
from tiebreak.sets.domains import Domain, Halfspace, Space


def refuse(problem: Problem) -> None:
    """A Refusal where the rest of the problem does not go with an operator above."""
    if not isinstance(problem.domain, Space | Box | Halfspace):
        needed = "must be Space, Orthant, Box or Halfspace where upper is L1 with an operator"
        raise Refusal("Exact", "domain", needed, type(problem.domain).__name__)
    if problem.penalties[1] != Zero():
        needed = "must be without a penalty where upper is L1 with an operator"
        raise Refusal("Exact", "lower", needed, repr(problem.lower.bare))


def with_images(problem: Problem, n: int) -> Problem:
    """The problem of (x, v), in NumPy float64."""
    terms = problem.penalties[0].terms
    assert isinstance(terms, OperatorTerms)
    D = terms.matrix(n).toarray()
    m = len(D)
    lower: Any = LeastSquares(np.hstack([D, -np.eye(m)]), np.zeros(m))
    for weight, part in summands(problem.smooth_parts[1].bare):
        more = _wider(part, n, m)
        lower = lower + (more if weight == 1.0 else weight * more)
    weights = np.append(np.zeros(n), np.broadcast_to(terms.l1, m))
    center = np.zeros(m) if terms.center is None else terms.center
    upper = L1(weights, np.append(np.zeros(n), center))
    return Problem(upper=upper, lower=lower, domain=_wider_domain(problem.domain, n, m))


def _wider(h: Function, n: int, m: int) -> SmoothFunction:
    """h as a function of (x, v)."""

    def padded(A: Host) -> Host:
        return np.hstack([A, np.zeros((len(A), m))])

    none = np.zeros(m)
    if isinstance(h, LeastSquares):
        loss = LeastSquares(padded(h.matrix.dense()), host(h.b), h.mean)
        loss.data_epsilon = max(h.data_epsilon, arrays.epsilon(h.matrix.prototype))
        return loss
    if isinstance(h, Logistic):
        return Logistic(padded(h.matrix.dense()), host(h.y), h.mean)
    if isinstance(h, SquaredNorm):
        center = np.zeros(n) if h.center is None else host(h.center)
        weights = np.broadcast_to(host(h.weight), n)
        return SquaredNorm(np.append(weights, none), np.append(center, none))
    if isinstance(h, Quadratic):
        Q = np.zeros((n + m, n + m))
        Q[:n, :n] = h.matrix.dense()
        return Quadratic(Q, np.append(host(h.c), none), h.constant)
    if isinstance(h, Linear):
        return Linear(np.append(host(h.c), none))
    assert isinstance(h, Flat)
    return h


def _wider_domain(Z: Domain, n: int, m: int) -> Domain:
    if isinstance(Z, Box):
        low, high = (np.broadcast_to(host(b), n) for b in (Z.lower, Z.upper))
        return Box(np.append(low, np.full(m, -np.inf)), np.append(high, np.full(m, np.inf)))
    if isinstance(Z, Halfspace):
        return Halfspace(np.append(host(Z.normal), np.zeros(m)), Z.offset)
    return Z
