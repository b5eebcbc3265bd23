"""Linear minimisation over a bounded set Z and a cut: min <d, s> over s in Z with <c, s> <= beta.

The dual is the scalar problem max over mu >= 0 of

    q(mu) = min_{s in Z} <d + mu c, s> - mu beta,

a concave function with the slope <c, s(mu)> - beta. At the best mu, two minimisers s(mu), one on
each side of the cut, are combined so that <c, s> = beta. Z only needs ``argmin``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tiebreak.linalg import arrays, ldexp, moved, smallest_normal
from tiebreak.linalg.arrays import Array, dot, like, mix, norm, zeros_like
from tiebreak.sets.balls import Ball
from tiebreak.sets.base import Domain
from tiebreak.sets.roots import middle


def argmin_cut(
    domain: Domain, direction: Array, normal: Array, offset: float
) -> tuple[Array, float]:
    """A minimiser s of <direction, s> over Z ∩ {<normal, s> <= offset}, and the cut's multiplier.

    The multiplier mu >= 0 is finite, and 0 if the cut does not bind. It proves that s is optimal: s
    minimises <direction + mu normal, .> over Z, and mu (<normal, s> - offset) = 0, to within
    rounding error.

    A zero normal cuts nothing off. If no point of Z satisfies the cut, s is the best of the points
    where <normal, .> is smallest. Z must be bounded.
    """
    steep, long = arrays.max_abs(direction), arrays.max_abs(normal)
    if long < smallest_normal(normal):
        return domain.argmin(direction), 0.0
    # Powers of two that bring the largest entries of both vectors close to 1.
    up, across = math.frexp(steep)[1], math.frexp(long)[1]
    d, c = direction * 2.0**-up, normal * 2.0**-across
    beta = ldexp(float(offset), -across)
    with arrays.quiet():
        if isinstance(domain, Ball):
            s, mu = _in_ball(domain, d, c, beta)
        else:
            s, mu = _by_secants(domain, d, c, beta)
    return s, ldexp(mu, up - across)


class _Corner(NamedTuple):
    """A minimiser s of <d + mu c, .> over Z, and <c, s>."""

    mu: float
    s: Array
    height: float


def _by_secants(domain: Domain, d: Array, c: Array, beta: float) -> tuple[Array, float]:
    """Find the mu for which a corner above the cut and a corner below the cut are equally good.

    If no point of Z is better for that mu, the answer is a combination of the two corners;
    otherwise the better point replaces one of the corners. On a polytope the search ends after
    finitely many steps; if it is slow, we bisect over the floating-point numbers.
    """
    low = _corner(domain, d, c, 0.0)
    if low.height <= beta:
        return low.s, 0.0
    high = _corner(domain, d, c, math.inf)
    beta = max(beta, high.height)  # Z meets the cut only up to rounding, if at all
    mu, before, halve = 0.0, math.inf, False
    while True:
        change = high.s - low.s
        drop = -dot(c, change)
        if not drop > 0.0:  # low and high differ only by rounding
            return low.s, low.mu
        mu = min(max(dot(d, change) / drop, low.mu), high.mu)
        trial = middle(low.mu, high.mu) if halve else mu
        if mu in (low.mu, high.mu) or trial in (low.mu, high.mu):
            break
        new = _corner(domain, d, c, trial)
        if trial == mu:
            better = _better(d, c, mu, new.s - low.s)
            if better == 0.0:
                break
            halve, before = better > 0.5 * before, better
        else:
            halve = False
        low, high = (new, high) if new.height > beta else (low, new)
    return mix(high.s, low.s, min(max((beta - high.height) / drop, 0.0), 1.0)), mu


def _corner(domain: Domain, d: Array, c: Array, mu: float) -> _Corner:
    of_d, of_c = _weights(mu)
    s = domain.argmin(of_d * d + of_c * c)
    return _Corner(mu, s, dot(c, s))


def _weights(mu: float) -> tuple[float, float]:
    """1/(1 + mu) and mu/(1 + mu), for mu from 0 to inf."""
    return 1.0 / (1.0 + mu), 1.0 / (1.0 + 1.0 / mu) if mu > 0.0 else 0.0


def _better(d: Array, c: Array, mu: float, change: Array) -> float:
    """How much ``change`` lowers <d + mu c, .>; 0 if the decrease may be a rounding error."""
    of_d, of_c = _weights(mu)
    fall = -dot(of_d * d + of_c * c, change)
    noise = 4.0 * arrays.epsilon(d) * dot(of_d * abs(d) + of_c * abs(c), abs(change))
    return fall / of_d if fall > noise else 0.0


def _in_ball(ball: Ball, d: Array, c: Array, beta: float) -> tuple[Array, float]:
    """A closed form: s = center + h c/|c| - sqrt(radius² - h²) a, with |a| = 1 and <a, c> = 0."""
    s = ball.argmin(d)
    if dot(c, s) <= beta:
        return s, 0.0
    eps, radius, length = arrays.epsilon(d), ball.radius, norm(c)
    center = zeros_like(d) if ball.center is None else like(ball.center, d)
    ratio = min(max((beta - dot(c, center)) / length / radius, -1.0), 1.0)
    unit = c / length
    along = dot(unit, d)
    across = moved(d, along, unit)
    # Orthogonalise a second time, because of cancellation.
    across = moved(across, dot(unit, across), unit)
    width = norm(across)
    half = math.sqrt((1.0 - ratio) * (1.0 + ratio))
    s = center + (ratio * radius) * unit
    if width <= 8.0 * eps * norm(d):  # all points of the cut are equally good
        return s, max(-along, 0.0) / length
    s = moved(s, half * radius / width, across)
    # d + mu c is a negative multiple of s - center; if the cut leaves one point, mu may be large.
    mu = -(along + width * ratio / max(half, eps)) / length
    return s, max(mu, 0.0)
