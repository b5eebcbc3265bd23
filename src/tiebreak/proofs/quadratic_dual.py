"""Bounds on both levels from a direction c, if g is quadratic and f smooth.

Let H be the Hessian of g, and e = grad f(x) + gamma grad g(x) + H c with gamma >= 0. For x in Z,
every minimiser x* of g over Z has <grad g(x), d> <= g* - g(x) <= 0 with d = x* - x. So if f is
strongly convex with modulus s >= 0, we have

    f*  >=  f(x) + <grad f(x), d> + s/2 |d|²  >=  f(x) - <H c, d> + <e, d> + s/2 |d|²,

    -<H c, d>  =  <c, grad g(x)> - <c, grad g(x*)>.

On R^n, grad g(x*) is 0. If a ball of radius rho around x lies in Z, z = x - rho c/|c| is in Z, and
<grad g(x*), z - x*> >= 0 says that <c, grad g(x*)> <= (g(x) - g*) |c|/rho. The bounds need neither
the rank of H nor a bound on g* on R^n. The bounds hold for any c: H c is the difference of two
gradients, and c the difference of their points. The bounds account for all rounding errors.
"""

from __future__ import annotations

import math

from tiebreak.functions import Function, Minorant
from tiebreak.linalg import EPS, TINY, Array, arrays, rounding_unit
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import Intervals, minorant_errors

ONE_SIDED = (
    "the least singular value of the lower level's matrix is not known, so no exact minimiser of g "
    "is known near x"
)


def _errors(h: Function, seen: Minorant) -> tuple[float, float]:
    """Bounds on the rounding errors of a minorant's value and slope."""
    reach = max(arrays.norm(seen.at), *arrays.floats([seen.reach]))
    return minorant_errors(h, seen, reach, arrays.norm(seen.slope))


def prove(problem: Problem, f: Minorant, g: Minorant, ahead: Minorant, gamma: float) -> Intervals:
    """Intervals for f* and g* from minorants f and g at x; ``ahead`` is g's minorant at x + c."""
    x, where, unit = g.at, problem.domain, rounding_unit(EPS, int(g.at.shape[0]))
    depth = math.inf if where.is_space else where.depth(x)
    if not depth > 0.0:
        return Intervals(why=ONE_SIDED)
    (f_value, f_slope), (g_value, g_slope) = _errors(problem.upper, f), _errors(problem.lower, g)
    c = ahead.at - x
    e = f.slope + gamma * g.slope + (ahead.slope - g.slope)
    steepness, further = arrays.norm(g.slope) * (1.0 + unit), arrays.norm(ahead.slope)
    off = arrays.norm(e) * (1.0 + unit) + unit * (
        arrays.norm(f.slope) + (1.0 + gamma) * steepness + further
    )
    off += f_slope + (1.0 + gamma) * g_slope + _errors(problem.lower, ahead)[1]
    reach, length = _reach(problem, x), arrays.norm(c) * (1.0 + unit)
    # Two lower bounds on g: the declared lower bound, and the tangent plane of g at x.
    low = g.value - g_value - (steepness + g_slope) * reach - unit * abs(g.value) - TINY
    low = max(problem.lower.lower_bound, low if math.isfinite(reach) else -math.inf)
    along = arrays.dot(c, g.slope) - length * (g_slope + unit * steepness)
    if math.isfinite(depth):
        along -= (g.value + g_value - low) * (length / depth)
    modulus = problem.upper.strong_convexity - problem.upper.defect
    lost = min(off * (off / (2.0 * modulus)) if modulus > 0.0 else math.inf, off * reach)
    least = f.value - f_value + along - lost - unit * (abs(f.value) + abs(along) + lost) - TINY
    bound = max(least, problem.upper.lower_bound) if math.isfinite(least) else -math.inf
    return Intervals((bound, math.inf), low, ONE_SIDED)


def _reach(problem: Problem, x: Array) -> float:
    """A bound on the distance from x to x*, from the diameter of Z or the promised radius."""
    length = arrays.norm(x) * (1.0 + rounding_unit(EPS, int(x.shape[0])))
    promised = math.inf if problem.radius is None else length + problem.radius
    return min(problem.domain.diameter_in(int(x.shape[0])), promised)
