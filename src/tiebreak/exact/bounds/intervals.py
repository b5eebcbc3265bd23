"""Proved intervals for f* and g* from the parts of f and g, accounting for rounding errors.

In all formulas x is the computed point and delta = x* - x for a solution x*. No proof relies on a
good x: poor points or poor multipliers give wide intervals, never wrong ones.
"""

from __future__ import annotations

import math

import numpy as np

from tiebreak.exact.active_set import PolyhedronSlice
from tiebreak.exact.ball import ball_of
from tiebreak.exact.bounds.curvature_bounds import largest_curvature
from tiebreak.exact.bounds.evaluations import (
    EvaluationWithErrors,
    change_within,
    evaluate_with_errors,
    least_value,
    least_with_slope,
)
from tiebreak.exact.bounds.loss_bounds import (
    L1Dual,
    NearbyMinimisers,
    below,
    below_l1,
    nearby_minimisers,
)
from tiebreak.exact.bounds.multipliers import RowMultipliers
from tiebreak.exact.bounds.nearest_minimiser import NearestMinimiser, nearest_minimiser
from tiebreak.exact.polyhedra import PolyhedralRows, exact_rows
from tiebreak.functions import Minorant, Parts, decompose
from tiebreak.linalg import EPS, SAFE, Array, Host, null_basis, rounding_unit
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.sizes import SECOND
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import ALL_WITHIN, WITHIN, Intervals
from tiebreak.proofs.models import Model


def prove(
    problem: Problem,
    x: Array,
    normal: Host,
    sign: Host | None = None,
    parts: tuple[Parts, Parts] | None = None,
    seen: tuple[Minorant | None, Minorant | None] = (None, None),
    rows: PolyhedralRows | None = None,
) -> Intervals:
    """Prove intervals for f* and g*; the ``normal`` of Z at x balances f's slope on the slice.

    If f is weight |x|_1, ``sign`` is the subgradient of |x|_1 that the ``normal`` balances. Three
    arguments are optional: the ``parts`` of both levels, their evaluations at x (``seen``), and the
    exact ``rows`` of a polyhedron Z.

    A distance d gives a bound: |f* - f(x)| <= |grad f(x)| d + L_f/2 d² if |delta| <= d, and f* -
    f(x) has the same upper bound if some lower minimiser is within d of x.
    """
    at = host(x)
    is_l1, n = sign is not None, len(at)
    f_parts, g_parts = parts or (
        Parts(n, ()) if is_l1 else decompose("Exact", "upper", problem.upper, n),
        decompose("Exact", "lower", problem.lower, n),
    )
    f = evaluate_with_errors(problem.upper, x, seen=seen[0])
    g = evaluate_with_errors(problem.lower, x, g_parts, seen[1])

    def interval(distance: float, excess: float, fall: float = math.inf) -> Intervals:
        """Build intervals from bounds on a minimiser's distance, on g(x) - g* and on f(x) - f*."""
        high = f.value + change_within(problem, f, distance, (f_parts, at))
        low, least = f.value - f.value_error - fall, g.value - g.value_error - excess
        return Intervals((low, high), least, rests=WITHIN.format(distance))

    def is_open(value: float, error: float, low: float, high: float) -> bool:
        """Could a proof narrow the interval? No proof removes the value's rounding error."""
        return not (value - low <= 64.0 * error and high - value <= 64.0 * error)

    near, unmet, is_space = NearestMinimiser(), math.inf, problem.domain.is_space
    is_round = problem.domain.as_ball is not None
    is_flat = is_space or not is_round
    rows = exact_rows(problem.domain, n) if is_flat and rows is None else rows
    sphere = _distance_on_sphere(problem, at, g, g_parts)
    apart = change_within(problem, f, sphere, (f_parts, at))
    proved = Intervals((f.value - apart, f.value + apart), rests=ALL_WITHIN.format(sphere))
    if is_round and is_open(f.value, f.value_error, *proved.upper):
        more = _on_space(problem, at, (f, g), (f_parts, g_parts), normal, sign)
        proved = proved.both(more)
    if not g_parts.parts:  # g is constant, and all of Z minimises it
        proved = proved.both(interval(problem.domain.distance_bound(at), 0.0))
    if is_flat and not proved.is_two_sided:
        near = nearest_minimiser(problem.domain, g_parts, at, rows)
        sigma = problem.upper.strong_convexity
        fall = math.inf if is_l1 else near.fall(f_parts, sigma, normal)
        proved = proved.both(interval(near.distance, near.excess, fall))
    is_f_open = is_open(f.value, f.value_error, *proved.upper)
    is_g_open = is_open(g.value, g.value_error, proved.lower, g.value)
    if problem.domain.has_projection and (is_f_open or is_g_open):
        unmet = _unmet(problem, at, g, g_parts) if g_parts.parts else 0.0
        width, excess = problem.domain.diameter_in(n), math.inf
        if math.isfinite(width):  # convex only up to a defect, g may fall below its tangents
            excess = unmet + 0.5 * problem.lower.defect * width * width * SAFE
        proved = proved.both(Intervals(lower=g.value - g.value_error - excess))
    has_more = is_l1 or (problem.domain.has_projection and not is_space)
    if is_f_open and has_more and len(g_parts.squares) == len(g_parts.curved):
        unmet = min(unmet, max(near.excess, 0.5 * near.image * near.image))
        multipliers = RowMultipliers(problem, at, g_parts, normal, unmet, rows)
        low = multipliers.below(f) if sign is None else multipliers.below_l1(sign, proved.upper[1])
        proved = proved.both(Intervals((low, math.inf)))
    if not is_l1 and not f_parts.parts:  # f is constant
        same = f.value - f.value_error, f.value + f.value_error
        proved = proved._replace(upper=same, rests="f being constant")
    # A quadratic that is bounded below has a minimum on a polyhedron, and on a ball.
    is_attained = g_parts.is_squares and f_parts.is_quadratic
    why = near.why if math.isinf(proved.upper[1]) else ""
    return proved._replace(why=why, has_minimiser=is_attained)


def prove_within(problem: Problem, x: Array, d: float) -> Intervals:
    """Bound f* if all minimisers of g over Z are within a distance d of x."""
    f = evaluate_with_errors(problem.upper, x)
    change = change_within(problem, f, d)
    return Intervals((f.value - change, f.value + change), rests=ALL_WITHIN.format(d))


def prove_at(problem: Problem, x: Array, normal: Host | None = None) -> Intervals | None:
    """Return intervals that can be proved at any x from losses of linear maps, or None.

    Z must be R^n or a polyhedron. `Exact` does not need these bounds: they are for points that
    other methods found. ``normal`` is as in `prove`. Without it, we use the multipliers that best
    balance the slope of f, which requires one factorisation of the rows of g.
    """
    if not (problem.domain.is_linear and problem.is_smooth):
        return None
    at, n = host(x), int(x.shape[0])
    try:
        g_parts = decompose("prove_at", "lower", problem.lower, n)
        f_parts = decompose("prove_at", "upper", problem.upper, n)
    except ValueError:  # the entries are not available
        return None
    count = sum(len(part.rows) for part in g_parts.parts)
    count += problem.domain.lifted_rows(n)[1].A.shape[0]
    if n * n * count > 4 * SECOND:  # the factorisation would take seconds
        return None
    rows = exact_rows(problem.domain, n)
    if normal is None:
        N = null_basis(np.vstack([g_parts.rows(), rows.equal]))
        where = PolyhedronSlice(rows.rows, rows.offset, N)
        normal, _ = where.normal(f_parts.slope(at), at)
    found = prove(problem, x, normal, parts=(f_parts, g_parts), rows=rows)
    return None if found == Intervals() else found


def _on_space(
    problem: Problem,
    x: Host,
    values: tuple[EvaluationWithErrors, EvaluationWithErrors],
    parts: tuple[Parts, Parts],
    normal: Host,
    sign: Host | None = None,
) -> Intervals:
    """Bound both levels on R^n or in a ball, using the minimisers of g on R^n near x.

    If a minimiser on R^n is in the ball, the minimisers over the ball are also minimisers on R^n.
    """
    (f, g), (f_parts, g_parts), Z = values, parts, problem.domain
    near = nearby_minimisers(g_parts, x)
    if near is None:
        return Intervals()
    if (ball := ball_of(Z, len(x))) is not None and not Z.depth(x) > near.distance:
        return _across_ball(problem, ball[0], x, values, parts, normal, near)
    change = change_within(problem, f, near.distance, (f_parts, x))
    high = f.value + change
    if len(near.span.right) == len(x) and math.isfinite(change):  # the minimiser is unique
        low = f.value - change
    elif sign is not None:
        low = below_l1(L1Dual.of(problem, len(x)), x, sign, near, high)
    else:
        sigma = problem.upper.strong_convexity - problem.upper.defect
        value, reach = f.value - f.value_error, Z.farthest(x) * SAFE
        low = below(f_parts, x, sigma, value, f.slope, f.slope_error, near, reach)
    rests = WITHIN.format(near.distance)
    return Intervals((low, high), g.value - g.value_error - near.gap, rests=rests)


def _across_ball(
    problem: Problem,
    center: Host,
    x: Host,
    values: tuple[EvaluationWithErrors, EvaluationWithErrors],
    parts: tuple[Parts, Parts],
    normal: Host,
    near: NearbyMinimisers,
) -> Intervals:
    """Bound both levels in a ball if x is close to its sphere, using minimisers on R^n near x.

    Among the points with the same images as x, p is the nearest to the center. Z contains a ball of
    radius ``depth`` around some minimiser near p. So the minimisers over Z are minimisers on R^n.
    If the minimiser nearest to x is within d of both x and Z, mix it with the minimiser near p,
    giving the latter the share d/(d + depth): the mixture is in Z. For every y and s = grad f(x) +
    R'y, all such mixtures z satisfy

        f(z) >= f(x) + <s, z - x> + sigma/2 |z - x|² - |y| |R (z - x)|.
    """
    (f, g), (f_parts, g_parts) = values, parts
    Z, V = problem.domain, near.span.right
    p = center + V.T @ (V @ (x - center))
    deep = nearby_minimisers(g_parts, p)
    depth = -math.inf if deep is None else Z.depth(p) - deep.distance
    if deep is None or not depth > 0.0:
        return Intervals()
    way = near.distance + Z.distance_bound(x)
    share = way / (way + depth)
    reach = near.distance + share * (norm(x - p) + deep.distance + near.distance)
    high = f.value + change_within(problem, f, reach * SAFE, (f_parts, x))
    y, slope, error = near.span.balance(f.slope, normal)
    unit = rounding_unit(EPS, *near.span.R.shape)
    low = least_with_slope(problem, x, f, slope, f.slope_error + error, unit)
    low -= norm(y) * near.change * SAFE
    least, rests = g.value - g.value_error - near.gap, WITHIN.format(reach)
    return Intervals((low, high), least, rests=rests)


def _distance_on_sphere(problem: Problem, x: Host, g: EvaluationWithErrors, h: Parts) -> float:
    """Bound |delta| if the ball binds: its multiplier mu makes the Lagrangian strongly convex.

    L(z) = g(z) + mu/2 (|z - center|² - radius²) has L(x*) <= g* <= g(x) + (the cost of moving x
    into Z), hence mu/2 |delta|² <= |grad L(x)| |delta| + g(x) - L(x) + (that cost). The bound is
    valid for any mu > 0. If g is convex only up to a defect, L is that much less convex.
    """
    center, radius = ball_of(problem.domain, len(x)) or (x, math.inf)
    w = x - center
    length = norm(w)
    mu = -float(g.slope @ w) / length / length if length > 0.0 else 0.0
    strong = mu - problem.lower.defect
    if not strong > 0.0:
        return math.inf
    unit = rounding_unit(EPS, len(x))
    size = norm(x) + length
    residual = norm(g.slope + mu * w) + g.slope_error + unit * (norm(g.slope) + mu * size)
    outside = max(length - radius, 0.0) + unit * size
    lacking = g.steepness * outside + 0.5 * largest_curvature(h, x, outside) * outside * outside
    lacking += 0.5 * mu * (abs(radius - length) + unit * size) * (radius + size)
    reach = math.hypot(residual, math.sqrt(2.0 * strong) * math.sqrt(lacking))
    return (residual + reach) / strong * SAFE + EPS * radius


def _unmet(problem: Problem, x: Host, g: EvaluationWithErrors, h: Parts) -> float:
    """Bound ½|R delta|² and |g(x) - g*|, for g = ½|Rx - s|² + <c, x>.

    The first bound is ghat - g(x) - min_Z <grad g(x), z - x>, with ghat = g(p) for the point p of Z
    nearest to x. The second bound uses a lower bound on g: ½|R(p - x*)|² <= g(p) - g* for p in Z,
    and |R(x - p)| <= |R| |x - p|.
    """
    least = least_value(problem, Model(0.0, 1.0, 0.0, g.slope, 0.0, 0.0, g.slope_error))
    outside = problem.domain.distance_bound(x)
    over = g.steepness * outside + 0.5 * largest_curvature(h, x, outside) * outside * outside
    rounding = (g.slope_error + rounding_unit(EPS, len(x)) * g.steepness) * norm(x)
    # Outside Z, g may be lower at x than anywhere in Z: then g(x) < g* <= g(p).
    by_slope = over + max(float(g.slope @ x) + rounding - least, 0.0)
    above = max(g.value + g.value_error + over - problem.lower.lower_bound, 0.0)
    if not math.isfinite(above) or h.kinked:
        return by_slope
    change = (math.sqrt(2.0 * above) + norm(h.curvature(x)) * outside) * (1.0 + 1e-12)
    return min(by_slope, 0.5 * change * change)
