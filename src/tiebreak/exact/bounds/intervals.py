"""What the structure proves about an answer, rounding included: intervals for f* and g*.

All of it is about a computed x, and delta = x* - x for a solution x*. Nothing relies on x being
good: a bad x, or bad multipliers, make wide intervals, never wrong ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiebreak.exact.bounds.loss_bounds import Around, around, below, below_l1, flattest
from tiebreak.exact.bounds.polyhedral_bounds import POLYHEDRA, Nearest, nearest_minimiser
from tiebreak.exact.polyhedra import polyhedron
from tiebreak.functions.base import Function, PointWithImage
from tiebreak.functions.parts import (
    EPS,
    Host,
    Rank,
    Squares,
    Structure,
    Tilt,
    host,
    norm,
    structure,
)
from tiebreak.functions.penalties import Zero, split
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import TINY, Array, rounding_unit
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import Intervals
from tiebreak.proofs.models import Model, Region
from tiebreak.sets.domains import Ball, Domain, Halfspace, L1Ball, Monotone, Space, distance_bound

LONG = 2**31  # multiplications of a factorisation that a proof is worth


class Look(NamedTuple):
    """A function at x, with bounds on the rounding errors of its value and its slope.

    The value is that of the whole function, the slope that of its smooth part.
    """

    value: float
    slope: Host
    value_error: float
    slope_error: float
    penalty: float  # a bound on the slopes of its penalty L1, anywhere

    @property
    def steepness(self) -> float:
        """A bound on the length of the true slope, the penalty's included."""
        return norm(self.slope) + self.slope_error + self.penalty


def prove(
    problem: Problem, x: Array, rank: Rank, normal: Host, sign: Host | None = None
) -> Intervals:
    """Proved intervals for f* and g*; ``normal`` of Z at x balances f's slope on the slice.

    ``rank`` is that of the slice's equations, g's `Structure.rows` and then those of Z. Where f is
    weight |x|_1, ``sign`` is the subgradient of |x|_1 that takes part in the balance.

    From a distance d: |f* - f(x)| <= |grad f(x)| d + L_f/2 d² where |delta| <= d, and f* is at
    most that much above f(x) where some lower minimiser is within d. From the slice: `_below`.
    """
    at = host(x)
    f, g = _look(problem.upper, x), _look(problem.lower, x)
    h = structure("Exact", "lower", problem.lower, len(at))
    g = _sharper(g, h, at)
    d = _distance_on_sphere(problem, at, g)
    low, high = f.value - _change(problem, f, d), f.value + _change(problem, f, d)
    way, reach = _ways(problem, x, g, h, rank)
    lower, unmet = -math.inf, math.inf
    if not h.parts:  # g is constant, and all of Z its minimisers
        lower, unmet = g.value - g.value_error, 0.0
        high = min(high, f.value + _change(problem, f, distance_bound(problem.domain, at)))
    elif math.isfinite(reach):  # some are in Z, which then does not matter to the lower level
        unmet = 0.5 * g.steepness * way
        lower = g.value - g.value_error - unmet
        high = min(high, f.value + _change(problem, f, reach))
    near = Nearest()
    if isinstance(problem.domain, POLYHEDRA) and math.isinf(reach):
        near = nearest_minimiser(problem.domain, h, at)
        high = min(high, f.value + _change(problem, f, near.distance))
        lower = max(lower, g.value - g.value_error - near.excess)
        if sign is None:
            f_parts = structure("Exact", "upper", problem.upper, len(at))
            fall = near.fall(f_parts, problem.upper.strong_convexity, normal)
            low = max(low, f.value - f.value_error - fall)
    is_single = len(h.parts) == 1 and h.only(Squares)  # of which all is known already
    if isinstance(problem.domain, Space) and not is_single:
        seen = around(h, at, g.slope, g.slope_error)
        if seen is not None:
            lower = max(lower, g.value - g.value_error - seen.gap)
            high = min(high, f.value + _change(problem, f, seen.way))
            low = max(low, _below_losses(problem, at, f, seen, sign))
    if math.isinf(unmet):
        unmet = _unmet(problem, at, g, h)
        if problem.is_bounded:
            lower = max(lower, g.value - g.value_error - unmet)
    if h.only(Squares, Tilt):
        unmet = min(unmet, max(near.excess, 0.5 * near.image * near.image))
        if sign is None:
            low = max(low, _below(problem, at, f, h, unmet, rank, normal))
        else:
            low = max(low, _below_sparse(problem, at, h, unmet, rank, normal, sign))
    if problem.is_smooth and not structure("Exact", "upper", problem.upper, len(at)).parts:
        low, high = f.value - f.value_error, f.value + f.value_error  # f is constant
    return Intervals((low, high), lower, why=near.why if math.isinf(high) else "")


def prove_within(problem: Problem, x: Array, d: float) -> Intervals:
    """f*, where all minimisers of g over Z are within a distance d of x."""
    f = _look(problem.upper, x)
    change = _change(problem, f, d)
    return Intervals((f.value - change, f.value + change))


def prove_at(problem: Problem, x: Array) -> Intervals | None:
    """What losses of a linear map prove about any x on R^n, without a radius; None: nothing.

    For whoever has a point and no slice: one factorisation of the rows of g.
    """
    if not isinstance(problem.domain, Space) or not problem.is_smooth:
        return None
    n = int(x.shape[0])
    try:
        h = structure("prove_at", "lower", problem.lower, n)
        own = structure("prove_at", "upper", problem.upper, n)
    except ValueError:  # numbers that are not at hand
        return None
    if n * n * sum(len(part.rows) for part in h.parts) > LONG:
        return None
    f, g, at = _look(problem.upper, x), _look(problem.lower, x), host(x)
    g = _sharper(g, h, at)
    seen = around(h, at, g.slope, g.slope_error)
    if seen is None:
        return None
    sigma = problem.upper.strong_convexity - problem.upper.defect
    low = below(own, sigma, f.value - f.value_error, f.slope, f.slope_error, seen)
    high = f.value + _change(problem, f, seen.way)
    return Intervals(upper=(low, high), lower=g.value - g.value_error - seen.gap)


def _below_losses(problem: Problem, x: Host, f: Look, g: Around, sign: Host | None) -> float:
    """f* on R^n from below, by the rows that all minimisers of g share."""
    if sign is not None:
        return below_l1(problem.penalties[0].terms.l1, x, sign, g)
    sigma = problem.upper.strong_convexity - problem.upper.defect
    own = structure("Exact", "upper", problem.upper, len(x))
    return below(own, sigma, f.value - f.value_error, f.slope, f.slope_error, g)


def _look(h: Function, x: Array) -> Look:
    (image,) = h.forward(x)
    (seen,), _ = h.evaluate([PointWithImage(x, image)])
    size, parts, n = arrays.norm(x), max(abs(seen.value), seen.size), int(x.shape[0])
    errors = h.rounding(size, parts, arrays.norm(seen.slope), arrays.epsilon(x), n)
    penalty = split(h)[1]
    more = penalty.value(x)
    value_error = errors[0] + rounding_unit(arrays.epsilon(x), n) * more + TINY
    steep = penalty.terms.steepness(n, math.inf) * (1.0 + 8.0 * EPS)
    return Look(seen.value + more, host(seen.slope), value_error, errors[1] + TINY, steep)


def _sharper(g: Look, h: Structure, x: Host) -> Look:
    """g with its slope in twice the precision, where that errs less; h is g."""
    exact = h.slope(x)
    if exact.error + TINY < g.slope_error:
        return g._replace(slope=exact.vector, slope_error=exact.error + TINY)
    return g


def _change(problem: Problem, f: Look, d: float) -> float:
    """How much f can change within a distance d of x, its rounding error included."""
    if not math.isfinite(d):
        return math.inf
    return f.value_error + f.steepness * d + 0.5 * problem.upper.lipschitz * d * d


def _ways(
    problem: Problem, answer: Array, g: Look, h: Structure, rank: Rank
) -> tuple[float, float]:
    """Bounds on the ways from x to the next minimiser of g on R^n, and to one that is in Z.

    x is the answer; inf where nothing is known. With mu from `_growth` the first is d =
    |grad g(x)|/mu, and if that much around x is in Z, so is the second. If not, let p be a point of
    Z at most e away from such a minimiser q, and all within e + depth of p be in Z. By convexity
    the mixture of q and of x's neighbour with the share t = d/(d + depth) of q is a minimiser in Z:
    d + t |x - q| away.
    """
    nowhere, ball = (math.inf, math.inf), problem.domain
    if isinstance(ball, Space):
        growth = _growth(problem, h, rank)
        return (g.steepness / growth,) * 2 if growth > 0.0 else nowhere
    if not isinstance(ball, Ball):
        return nowhere
    x = host(answer)
    center = np.zeros(len(x)) if ball.center is None else host(ball.center)
    w, p, safe = x - center, x, 1.0 + max(1e-12, 4.0 * rounding_unit(EPS, len(x)))
    if not norm(w) * safe < ball.radius:
        if not h.only(Squares):
            return nowhere
        # Of all points with the same images, the one next to the center.
        deep = arrays.like(center + h.curvature(x).T @ _multipliers(h, rank, w)[0], answer)
        p = host(deep)
    # Growth may take all singular values: it is asked for only where it can serve.
    depth = ball.radius - norm(p - center) * safe
    growth = _growth(problem, h, rank) if depth > 0.0 else 0.0
    if not growth > 0.0:
        return nowhere
    d = g.steepness / growth
    if p is x:
        return (d, d) if d * safe < depth else nowhere
    e = _look(problem.lower, deep).steepness / growth
    depth -= e * safe
    if not depth > 0.0:
        return nowhere
    outside = max(norm(w) - ball.radius, 0.0) + rounding_unit(EPS, len(x)) * (norm(x) + norm(w))
    share = (d + outside) / (d + outside + depth)
    return d, (d + 2.0 * outside + share * (norm(x - p) + e + d)) * safe


def _growth(problem: Problem, h: Structure, rank: Rank) -> float:
    """mu with g(x) - min g <= |grad g(x)|²/(2 mu) on R^n, 0 where none is sure; h is g.

    For least squares the smallest eigenvalue of A'A that is not 0. All singular values are known
    here; where some vanish, whether they do is more than they tell.
    """
    part = h.parts[0] if len(h.parts) == 1 else None
    if not isinstance(part, Squares) or rank.low < min(part.rows.shape):
        return problem.lower.growth
    s = float(rank.sigma[rank.low - 1]) * norm(part.rows)
    s /= float(np.max(rank.row_units) * np.max(rank.units))  # sigma_r(RAC) <= |R| sigma_r(A) |C|
    return part.weight * (s * (1.0 - 1e-3)) ** 2  # 1e3 units of rounding are safe


def _distance_on_sphere(problem: Problem, x: Host, g: Look) -> float:
    """A bound on |delta| where the ball binds: mu makes the Lagrangian strongly convex.

    L(z) = g(z) + mu/2 (|z - center|² - radius²) has L(x*) <= g* <= g(x) + (what x lacks to be in
    Z), hence mu/2 |delta|² <= |grad L(x)| |delta| + g(x) - L(x) + that. Any mu > 0 is valid.
    """
    ball = problem.domain
    if not isinstance(ball, Ball):
        return math.inf
    w = x if ball.center is None else x - host(ball.center)
    length = norm(w)
    mu = -float(g.slope @ w) / length / length if length > 0.0 else 0.0
    if not mu > 0.0:
        return math.inf
    unit = rounding_unit(EPS, len(x))
    size = norm(x) + length
    residual = norm(g.slope + mu * w) + g.slope_error + unit * (norm(g.slope) + mu * size)
    outside = max(length - ball.radius, 0.0) + unit * size
    lacking = g.steepness * outside + 0.5 * problem.lower.lipschitz * outside * outside
    lacking += 0.5 * mu * (abs(ball.radius - length) + unit * size) * (ball.radius + size)
    reach = math.hypot(residual, math.sqrt(2.0 * mu) * math.sqrt(lacking))
    return (residual + reach) / mu + EPS * ball.radius


def _unmet(problem: Problem, x: Host, g: Look, h: Structure) -> float:
    """A bound on ½|R delta|² and on |g(x) - g*|, for g = ½|Rx - s|² + <c, x>.

    Either ghat - g(x) - min_Z <grad g(x), z - x>, with ghat = g(p), p the point of Z next to x. Or
    by a lower bound of g: ½|R(p - x*)|² <= g(p) - g* for p in Z, and |R(x - p)| <= |R| |x - p|.
    """
    nothing = np.zeros(len(x))
    model = Model(0.0, 1.0, 0.0, g.slope, 0.0, 0.0, g.slope_error)
    least = Region(Zero(), Zero(), problem.domain, problem.radius, nothing).minimum(model).value
    outside = distance_bound(problem.domain, x)
    over = g.steepness * outside + 0.5 * problem.lower.lipschitz * outside * outside
    rounding = (g.slope_error + rounding_unit(EPS, len(x)) * g.steepness) * norm(x)
    # Outside of Z the slope may be lower at x than anywhere in Z: then g(x) < g* <= g(p).
    by_slope = over + max(float(g.slope @ x) + rounding - least, 0.0)
    above = max(g.value + g.value_error + over - problem.lower.lower_bound, 0.0)
    if not math.isfinite(above):
        return by_slope
    change = (math.sqrt(2.0 * above) + norm(h.curvature(x)) * outside) * (1.0 + 1e-12)
    return min(by_slope, 0.5 * change * change)


def _below(
    problem: Problem, x: Host, f: Look, h: Structure, unmet: float, rank: Rank, normal: Host
) -> float:
    """f* >= f(x) + min_Z <grad f(x) + R'y + nu c, z - x> - |y| |R delta| - |nu <c, delta>|.

    For every y and nu, with g = ½|Rx - s|² + <c, x>. |R delta| <= sqrt(2 unmet), and <c, delta> is
    g's change less that of the squares.
    """
    if not math.isfinite(unmet):
        return -math.inf
    R, c, size = h.curvature(x), h.c, norm(x)
    y, nu, _ = _multipliers(h, rank, -f.slope - normal)
    unit = rounding_unit(EPS, *R.shape)
    slope = f.slope + R.T @ y + nu * c
    error = f.slope_error + unit * (norm(f.slope) + norm(R) * norm(y) + abs(nu) * norm(c))
    change = math.sqrt(2.0 * unmet)
    price = _price(h, x, y, nu, unmet)
    sigma = problem.upper.strong_convexity - problem.upper.defect
    if isinstance(problem.domain, Space) and sigma <= 0.0:
        flat = _flat(problem, h, R, norm(slope) + error, change)
        return f.value - f.value_error - (flat + price)
    steep, square = norm(slope) + error, size * size
    model = Model(
        upper=1.0,
        lower=0.0,
        constant=f.value - float(slope @ x) + 0.5 * sigma * square,
        slope=slope - sigma * x,
        curvature=sigma,
        value_error=f.value_error
        + error * size
        + unit * (abs(f.value) + steep * size + abs(sigma) * square),
        slope_error=error + unit * (steep + abs(sigma) * size),
    )
    region = Region(Zero(), Zero(), problem.domain, problem.radius, np.zeros(len(x)))
    return region.minimum(model).value - price


def _price(h: Structure, x: Host, y: Host, nu: float, unmet: float) -> float:
    """A bound on |<y, R delta>| + |nu <c, delta>|."""
    change = math.sqrt(2.0 * unmet)
    unit = rounding_unit(EPS, len(y), len(x))
    residual = sum(
        math.sqrt(part.weight)
        * (
            norm(part.rows @ x - part.target)
            + unit * (norm(part.rows) * norm(x) + norm(part.target))
        )
        for part in h.parts
        if isinstance(part, Squares)
    )
    price = norm(y) * change + abs(nu) * (unmet + residual * change + 0.5 * change * change)
    return price * (1.0 + unit)


def _below_sparse(
    problem: Problem, x: Host, h: Structure, unmet: float, rank: Rank, normal: Host, sign: Host
) -> float:
    """f* >= t (<y, R x> + nu <c, x> - max_Z <q, z> - price), t |R'y + nu c - q|_inf <= weight.

    For every y, nu, q and t >= 0, with f = weight |x|_1: then s = t (R'y + nu c - q) has
    <s, x*> <= f*, and the right side is at most <s, x*>. q is a normal of Z.
    """
    if not math.isfinite(unmet):
        return 0.0
    R, c = h.curvature(x), h.c
    is_cut = isinstance(problem.domain, L1Ball)  # which does not cut off what is sparser
    equal = np.zeros((0, len(x))) if is_cut else polyhedron(problem.domain, len(x)).equal
    y, nu, others = _multipliers(h, rank, sign + normal)
    q, most = _normal(problem.domain, normal - equal.T @ others)
    unit = rounding_unit(EPS, len(R), len(x))
    size = norm(R) * norm(y) + abs(nu) * norm(c) + norm(q)
    steepest = float(np.max(np.abs(R.T @ y + nu * c - q))) + unit * size
    gain = float(y @ (R @ x)) + nu * float(c @ x) - unit * size * norm(x) - most
    gain -= _price(h, x, y, nu, unmet)
    if not gain > 0.0:
        return 0.0  # for f >= 0
    return problem.penalties[0].terms.l1 * (gain / steepest) * (1.0 - 4.0 * EPS)


def _normal(Z: Domain, normal: Host) -> tuple[Host, float]:
    """A normal q of Z next to this one, and a bound on max <q, z> over Z, rounding included."""
    if isinstance(Z, Monotone):  # q = sum of mu_i (e_i - e_{i+1}), where mu >= 0
        mu = np.maximum(np.cumsum(normal)[:-1], 0.0)
        return np.append(mu, 0.0) - np.append(0.0, mu), 0.0
    if isinstance(Z, Halfspace):
        direction = host(Z.normal)
        mu = max(float(direction @ normal) / norm(direction) / norm(direction), 0.0)
        return mu * direction, mu * Z.offset + EPS * abs(mu * Z.offset)
    most = Z.support(normal)
    if not math.isfinite(most):
        return 0.0 * normal, 0.0
    far = host(Z.argmin(-normal))
    return normal, most + rounding_unit(EPS, len(far)) * float(np.abs(normal) @ np.abs(far))


def _multipliers(h: Structure, rank: Rank, target: Host) -> tuple[Host, float, Host]:
    """y, nu and weights of Z's equations with R'y + nu c + (these) = target, as well as it goes."""
    weights = rank.weights(target)
    y, done = [], 0
    for part in h.parts:
        if isinstance(part, Squares):  # the equations have its rows scaled to length 1
            mine = weights[done : done + len(part.rows)]
            y.append(mine / (math.sqrt(part.weight) * norm(part.rows)))
            done += len(part.rows)
    nu = 0.0
    if h.c.any():
        nu = float(weights[done]) / norm(h.c)
        done += 1
    return np.concatenate([np.zeros(0), *y]), nu, weights[done:]


def _flat(problem: Problem, h: Structure, R: Host, steep: float, change: float) -> float:
    """On R^n, where f is not strongly convex: how much <slope, delta> + ½|F delta|² can fall."""
    f = structure("Exact", "upper", problem.upper, R.shape[1])
    rows = tuple(part.rows for part in h.parts if not isinstance(part, Tilt))
    return flattest(f, R, rows, (f.c, h.c), steep, change)
