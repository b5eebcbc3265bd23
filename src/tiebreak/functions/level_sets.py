"""The level sets {f <= level} within a set Z, for functions with simple level sets.

    f                                                       {f <= level} is     on
    SquaredNorm (+ Linear, multiples, sums)                 a ball              every Z
    Linear (multiples, sums)                                a half-space        every Z
    Quadratic, LeastSquares (multiples)                     an ellipsoid        R^n

The projection of v onto Z ∩ {f <= level} minimises |z - v|²/2 + lam f(z) over Z, for the smallest
multiplier lam >= 0 with f(z) <= level: finding it is a scalar root problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np

from tiebreak.functions.base import Function
from tiebreak.functions.elementary import Linear, SquaredNorm
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.quadratic import Quadratic
from tiebreak.functions.sums import summands
from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Array, Host, dot, like, norm, to_numpy, zeros_like
from tiebreak.linalg.sizes import LARGE_SIDE
from tiebreak.sets import Domain, Space, argmin_cut
from tiebreak.sets.roots import middle


class LevelSets(Protocol):
    """What a method needs to know about the sets Z ∩ {f <= level}."""

    def least(self, x: Array) -> float:
        """min_Z f, or -inf if f is unbounded below; ``x`` is any vector of the right kind."""

    def project(self, v: Array, level: float) -> tuple[Array, float]:
        """The projection of v onto Z ∩ {f <= level}, and the multiplier lam >= 0 of f.

        If the set is empty, they are a minimiser of f over Z and inf.
        """

    def lowest(self, slope: Array, level: float) -> float:
        """A lower bound on <slope, x> over Z ∩ {f <= level}; -inf if there is none."""


def find(f: Function, domain: Domain) -> LevelSets | None:
    """The level sets of f within the domain; None if projecting onto them is not easy."""
    simple = _simple(f.bare)
    if isinstance(simple, _Bowl):
        return Balls(simple, domain)
    if isinstance(simple, _Plane):
        return Halfspaces(simple, domain)
    (weight, h), *others = summands(f.bare)
    if isinstance(domain, Space) and isinstance(h, Quadratic | LeastSquares) and not others:
        is_small = min(h.matrix.shape) <= LARGE_SIDE and h.matrix.is_explicit
        return Ellipsoids(weight, h) if is_small else None
    return None


# --- balls and half-spaces


@dataclass(frozen=True)
class _Bowl:
    """curvature/2 |x - center|² + constant; the center is the origin if None."""

    curvature: float
    center: Array | None = None
    constant: float = 0.0


@dataclass(frozen=True)
class _Plane:
    """<slope, x> + constant."""

    slope: Array
    constant: float = 0.0


def _simple(h: Function) -> _Bowl | _Plane | None:
    """h as a bowl or a plane; None if it is neither."""
    parts = [_term(weight, part) for weight, part in summands(h)]
    known = [part for part in parts if part is not None]
    return reduce(_added, known) if len(known) == len(parts) else None


def _term(weight: float, h: Function) -> _Bowl | _Plane | None:
    """weight times h as a bowl or a plane; None if it is neither."""
    if isinstance(h, SquaredNorm) and h.is_scalar:
        return _Bowl(weight * h.weight, h.center)
    return _Plane(weight * h.c, weight * h.constant) if isinstance(h, Linear) else None


def _added(first: _Bowl | _Plane, second: _Bowl | _Plane) -> _Bowl | _Plane:
    """The sum of two bowls or planes, by completing the square."""
    if isinstance(first, _Plane) and isinstance(second, _Plane):
        return _Plane(first.slope + second.slope, first.constant + second.constant)
    if isinstance(first, _Plane):
        first, second = second, first
    assert isinstance(first, _Bowl)
    p, a, constant = first.curvature, first.center, first.constant + second.constant
    if isinstance(second, _Plane):
        shift = second.slope / p
        center = -shift if a is None else a - shift
        height = 0.0 if a is None else dot(second.slope, a)
        return _Bowl(p, center, constant + height - 0.5 * p * dot(shift, shift))
    q, b = second.curvature, second.center
    if a is None and b is None:
        return _Bowl(p + q, None, constant)
    a, b = (zeros_like(b) if a is None else a), (zeros_like(a) if b is None else b)
    apart = b - a
    share = q / (p + q)
    return _Bowl(p + q, a + share * apart, constant + 0.5 * p * share * dot(apart, apart))


@dataclass(frozen=True)
class Balls:
    """Z ∩ {x : curvature/2 |x - a|² + constant <= level}, the ball of radius rho around a.

    The projection of v is z(s) = Pi_Z(a + s (v - a)) for the s = 1/(1 + lam curvature) in [0, 1]
    with |z(s) - a| = rho, which is non-decreasing in s.
    """

    bowl: _Bowl
    domain: Domain

    def least(self, x: Array) -> float:
        a = self._center(x)
        distance = norm(self.domain.project(a) - a)
        return self.bowl.constant + 0.5 * self.bowl.curvature * distance * distance

    def project(self, v: Array, level: float) -> tuple[Array, float]:
        z = self.domain.project(v)
        a, rho = self._center(v), self._radius(level)
        if norm(z - a) <= rho:
            return z, 0.0
        z, s = self._along(a, v - a, rho)
        return z, (1.0 / s - 1.0) / self.bowl.curvature if s > 0.0 else math.inf

    def lowest(self, slope: Array, level: float) -> float:
        """With p the slope, min <p, x> is attained at x(t) = Pi_Z(a - t p) with |x(t) - a| = rho.

        Every t > 0 gives a bound: <p, x> >= <p, x(t)> + (|x(t) - a|² - rho²)/(2 t).
        """
        length, over_domain = norm(slope), -self.domain.support(-slope)
        if length == 0.0:
            return over_domain
        a, rho = self._center(slope), self._radius(level)
        unit, far = slope / length, 2.0**30 * rho
        x, s = self._along(a, unit * -far, rho)
        if s == 0.0:  # the set is (nearly) a single point
            return max(over_domain, dot(slope, x))
        distance = norm(x - a)
        extra = 0.5 * (distance / far - rho / far) / s * (distance + rho)
        return max(over_domain, dot(slope, x) + length * extra)

    def _center(self, x: Array) -> Array:
        return zeros_like(x) if self.bowl.center is None else like(self.bowl.center, x)

    def _radius(self, level: float) -> float:
        return math.sqrt(max(level - self.bowl.constant, 0.0) / self.bowl.curvature * 2.0)

    def _along(self, a: Array, direction: Array, rho: float) -> tuple[Array, float]:
        """Pi_Z(a + s direction) with the largest s in [0, 1] for which it is within rho of a."""

        def point(s: float) -> Array:
            return self.domain.project(a + s * direction)

        def excess(s: float) -> float:
            return norm(point(s) - a) - rho

        s = _crossing(excess, 4.0 * arrays.epsilon(a) * rho)
        return point(s), s


@dataclass(frozen=True)
class Halfspaces:
    """Z ∩ {x : <c, x> + constant <= level}: the projection onto a set and a cut."""

    plane: _Plane
    domain: Domain

    def least(self, x: Array) -> float:
        return self.plane.constant - self.domain.support(-like(self.plane.slope, x))

    def project(self, v: Array, level: float) -> tuple[Array, float]:
        c, offset = like(self.plane.slope, v), level - self.plane.constant
        return self.domain.project_cut(v, c, offset)

    def lowest(self, slope: Array, level: float) -> float:
        if math.isfinite(self.domain.diameter_in(int(slope.shape[0]))):
            c, offset = like(self.plane.slope, slope), level - self.plane.constant
            return dot(slope, argmin_cut(self.domain, slope, c, offset)[0])
        return -self.domain.support(-slope)


# --- ellipsoids


@dataclass(frozen=True)
class Ellipsoids:
    """{x in R^n : weight h(x) <= level} for a quadratic h with Hessian V diag(w) V', w > 0.

    At v, let V g be the slope of f. The projection moves v by -lam V (g/(1 + lam w)) and lowers f
    by the sum of g² lam (1 + lam w/2)/(1 + lam w)²: neither a centre nor a constant is needed.
    """

    weight: float
    function: Quadratic | LeastSquares

    def least(self, x: Array) -> float:
        w, V = self._spectrum()
        slope = self._slope(x)
        g = V.T @ slope
        noise = 64.0 * slope.shape[0] * arrays.epsilon(x)
        size = np.linalg.norm(slope) + self.function.lipschitz * self.weight * norm(x)
        if np.linalg.norm(slope - V @ g) > noise * size:
            return -math.inf  # f is unbounded below along a direction without curvature
        return self._value(x) - float(np.sum(0.5 * g * (g / w)))

    def project(self, v: Array, level: float) -> tuple[Array, float]:
        excess = self._value(v) - level
        if excess <= 0.0:
            return v, 0.0
        w, V = self._spectrum()
        top = float(w.max(initial=0.0)) or 1.0
        g, omega = V.T @ self._slope(v), w / top

        def above(s: float) -> float:  # s = 1/(1 + lam top), omega = w/top
            mixed = s + (1.0 - s) * omega
            share = (1.0 - s) * (s + 0.5 * (1.0 - s) * omega) / mixed / mixed
            return excess - float(np.sum(g * share * g)) / top

        s = _crossing(above, 4.0 * arrays.epsilon(v) * abs(level))
        move = V @ ((1.0 - s) / top * g / (s + (1.0 - s) * omega))
        return v - like(move, v), (1.0 / s - 1.0) / top if s > 0.0 else math.inf

    def lowest(self, slope: Array, level: float) -> float:
        return 0.0 if arrays.max_abs(slope) == 0.0 else -math.inf

    def _value(self, x: Array) -> float:
        return self.weight * self.function.value(x)

    def _slope(self, x: Array) -> Host:
        slope = to_numpy(self.weight * self.function.gradient(x))
        return slope.astype(np.float64, copy=False)

    def _spectrum(self) -> tuple[Host, Host]:
        values, vectors = _spectrum(self.function)
        return self.weight * values, vectors


_SPECTRA: WeakKeyDictionary[Function, tuple[Host, Host]] = WeakKeyDictionary()


def _spectrum(h: Quadratic | LeastSquares) -> tuple[Host, Host]:
    """The positive eigenvalues of the Hessian of h and their eigenvectors, computed once."""
    if h not in _SPECTRA:
        dense = h.matrix.dense()
        deadline.check(deadline.svd_work(*dense.shape))
        if isinstance(h, LeastSquares):
            _, sigma, rows = np.linalg.svd(dense, full_matrices=False)
            values, vectors = sigma**2 / (len(dense) if h.mean else 1.0), rows.T
            size = sigma
        else:
            values, vectors = np.linalg.eigh(dense)
            size = values
        unit = max(dense.shape) * arrays.epsilon(h.matrix.prototype)
        keep = size > unit * float(size.max(initial=0.0))
        _SPECTRA[h] = values[keep], vectors[:, keep]
    return _SPECTRA[h]


# --- the scalar root


def _crossing(excess: Callable[[float], float], noise: float) -> float:
    """The s in [0, 1] where the non-decreasing ``excess`` passes 0, to within ``noise``.

    The result is 0 if it is positive everywhere, and 1 if nowhere. We use regula falsi with halved
    ends (the Illinois method: Dowell, Jarratt 1971) and, if that is slow, bisection over the
    floating-point numbers.
    """
    low, high = (0.0, excess(0.0)), (1.0, excess(1.0))
    if low[1] >= 0.0:
        return 0.0
    if high[1] <= 0.0:
        return 1.0
    weights, side, slow = [1.0, 1.0], 0, 0
    while True:
        p, q = weights[0] * low[1], weights[1] * high[1]
        s = low[0] + (high[0] - low[0]) * (p / (p - q))
        if slow > 3 or not low[0] < s < high[0]:
            s, slow = middle(low[0], high[0]), 0
        if not low[0] < s < high[0]:
            return low[0]
        value = excess(s)
        if abs(value) <= noise:
            return s
        before = min(-low[1], high[1])
        # The value at an end that stays twice in a row is halved, so that the other end moves too.
        if value < 0.0:
            low, weights = (s, value), [1.0, 0.5 * weights[1] if side < 0 else 1.0]
            side = -1
        else:
            high, weights = (s, value), [0.5 * weights[0] if side > 0 else 1.0, 1.0]
            side = 1
        slow = slow + 1 if min(-low[1], high[1]) > 0.5 * before else 0
