"""f = the sum of w_i |(D x)_i - c_i| above: the same problem with variables v = D x.

The minimisers of g(x) + ½|D x - v|² over Z x R^m are the x that minimise g, with v = D x, and the
minimum is the same. So is f, a sum of w_i |v_i - c_i|, in which x has the weight 0: a problem that
`Exact` takes, by its linear program. What is proved about its f* and g* is proved about these.
"""

from __future__ import annotations

import numpy as np

from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.penalties.operator_terms import OperatorTerms
from tiebreak.functions.penalties.penalties import L1, Zero
from tiebreak.functions.substitution import Substitution
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
    below, _ = Substitution(np.arange(n), n + m).function(problem.smooth_parts[1])
    lower = LeastSquares(np.hstack([D, -np.eye(m)]), np.zeros(m)) + below
    weights = np.append(np.zeros(n), np.broadcast_to(terms.l1, m))
    center = np.zeros(m) if terms.center is None else terms.center
    upper = L1(weights, np.append(np.zeros(n), center))
    given, domain = problem.counted, _wider_domain(problem.domain, n, m)
    counted = np.append(np.ones(n) if given is None else host(given), np.zeros(m))
    return Problem(upper=upper, lower=lower, domain=domain, counted=counted)


def _wider_domain(Z: Domain, n: int, m: int) -> Domain:
    if isinstance(Z, Box):
        low, high = (np.broadcast_to(host(b), n) for b in (Z.lower, Z.upper))
        return Box(np.append(low, np.full(m, -np.inf)), np.append(high, np.full(m, np.inf)))
    if isinstance(Z, Halfspace):
        return Halfspace(np.append(host(Z.normal), np.zeros(m)), Z.offset)
    return Z
