"""The level sets {f <= level} within a set Z, for functions with simple level sets.

- If f is a weighted sum of SquaredNorm and Linear functions, the level sets are balls, for any Z.
- If f is a weighted sum of Linear functions only, the level sets are half-spaces, for any Z.
- If f is a multiple of a Quadratic or LeastSquares, the level sets are ellipsoids, for Z = R^n.

The projection of v onto Z ∩ {f <= level} minimises |z - v|²/2 + lam f(z) over Z, for the smallest
multiplier lam >= 0 with f(z) <= level: finding lam is a scalar root problem. Methods ask for

- ``least(x)``: min_Z f, or -inf if f is unbounded below; x is any vector like v.
- ``project(v, level)``: the projection of v onto Z ∩ {f <= level}, and lam. If the set is empty,
  the result is a minimiser of f over Z, and inf.
- ``lowest(slope, level)``: a lower bound on <slope, x> over Z ∩ {f <= level}, or -inf.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
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


def find(f: Function, domain: Domain) -> LevelSets | None:
    """The level sets of f within the domain; None if they have no simple projection."""
    f = f.bare
    (weight, h), *others = parts = summands(f)
    norms = [
        (w * part.weight, part.center)
        for w, part in parts
        if isinstance(part, SquaredNorm) and part.is_scalar
    ]
    slopes = [part.c for _, part in parts if isinstance(part, Linear)]
    if len(norms) + len(slopes) == len(parts):
        if norms:
            return _balls(f, domain, norms, slopes)
        origin = zeros_like(slopes[0])
        return Halfspaces(domain, f.gradient(origin), f.value(origin))
    if isinstance(domain, Space) and isinstance(h, Quadratic | LeastSquares) and not others:
        is_small = min(h.matrix.shape) <= LARGE_SIDE and h.matrix.is_explicit
        return Ellipsoids(f, weight, h) if is_small else None
    return None


# --- balls and half-spaces


def _balls(
    f: Function, domain: Domain, norms: list[tuple[float, Array | None]], slopes: list[Array]
) -> Balls:
    """The level sets of squared norms plus linear functions, found by completing the square.

    The square is completed at the center of the norm with the largest weight, to avoid
    cancellation.
    """
    curvature, start = sum(p for p, _ in norms), max(norms, key=lambda norm: norm[0])[1]
    known = [*(center for _, center in norms if center is not None), *slopes]
    if not known:
        return Balls(domain, curvature)
    start = zeros_like(known[0]) if start is None else start
    shift = f.gradient(start) / curvature
    constant = f.value(start) - 0.5 * curvature * dot(shift, shift)
    return Balls(domain, curvature, start - shift, constant)


@dataclass(frozen=True)
class Balls:
    """Z ∩ {x : curvature/2 |x - a|² + constant <= level}: Z and the ball of radius rho around a.

    If the center a is None, it is the origin. The projection of v is z(s) = Pi_Z(a + s (v - a)) for
    the s = 1/(1 + lam curvature) in [0, 1] with |z(s) - a| = rho; this distance is non-decreasing
    in s.
    """

    domain: Domain
    curvature: float
    center: Array | None = None
    constant: float = 0.0

    def least(self, x: Array) -> float:
        a = self._center(x)
        distance = norm(self.domain.project(a) - a)
        return self.constant + 0.5 * self.curvature * distance * distance

    def project(self, v: Array, level: float) -> tuple[Array, float]:
        z = self.domain.project(v)
        a, rho = self._center(v), self._radius(level)
        if norm(z - a) <= rho:
            return z, 0.0
        z, s = self._along(a, v - a, rho)
        return z, (1.0 / s - 1.0) / self.curvature if s > 0.0 else math.inf

    def lowest(self, slope: Array, level: float) -> float:
        """The minimum of <p, x>, where p is the slope, is attained at x(t) = Pi_Z(a - t p) with
        |x(t) - a| = rho.

        Every t > 0 gives a bound: <p, x> >= <p, x(t)> + (|x(t) - a|² - rho²)/(2 t).
        """
        length, over_domain = norm(slope), -self.domain.support(-slope)
        if length == 0.0:
            return over_domain
        a, rho = self._center(slope), self._radius(level)
        unit, far = slope / length, 2.0**30 * rho
        x, s = self._along(a, unit * -far, rho)
        if s == 0.0:  # the level set is (nearly) a single point
            return max(over_domain, dot(slope, x))
        distance = norm(x - a)
        extra = 0.5 * (distance / far - rho / far) / s * (distance + rho)
        return max(over_domain, dot(slope, x) + length * extra)

    def _center(self, x: Array) -> Array:
        return zeros_like(x) if self.center is None else like(self.center, x)

    def _radius(self, level: float) -> float:
        return math.sqrt(max(level - self.constant, 0.0) / self.curvature * 2.0)

    def _along(self, a: Array, direction: Array, rho: float) -> tuple[Array, float]:
        """The point Pi_Z(a + s direction) and s, for the largest s in [0, 1] that keeps the point
        within rho of a."""

        def point(s: float) -> Array:
            return self.domain.project(a + s * direction)

        def excess(s: float) -> float:
            return norm(point(s) - a) - rho

        s = _crossing(excess, 4.0 * arrays.epsilon(a) * rho)
        return point(s), s


@dataclass(frozen=True)
class Halfspaces:
    """Z ∩ {x : <slope, x> + constant <= level}, whose projection is ``project_cut`` of Z."""

    domain: Domain
    slope: Array
    constant: float

    def least(self, x: Array) -> float:
        return self.constant - self.domain.support(-like(self.slope, x))

    def project(self, v: Array, level: float) -> tuple[Array, float]:
        c, offset = like(self.slope, v), level - self.constant
        return self.domain.project_cut(v, c, offset)

    def lowest(self, slope: Array, level: float) -> float:
        if math.isfinite(self.domain.diameter_in(int(slope.shape[0]))):
            c, offset = like(self.slope, slope), level - self.constant
            return dot(slope, argmin_cut(self.domain, slope, c, offset)[0])
        return -self.domain.support(-slope)


# --- ellipsoids


@dataclass(frozen=True)
class Ellipsoids:
    """{x in R^n : weight h(x) <= level} for a quadratic h with Hessian V diag(w) V', w > 0.

    Let V g be the slope of f at v. The projection moves v by -lam V (g/(1 + lam w)) and lowers f
    by the sum of g² lam (1 + lam w/2)/(1 + lam w)²: the formula needs neither a centre nor a
    constant.
    """

    f: Function
    weight: float  # the function is f = weight h
    h: Quadratic | LeastSquares

    def least(self, x: Array) -> float:
        w, V = self._spectrum()
        slope = self._slope(x)
        g = V.T @ slope
        noise = 64.0 * slope.shape[0] * arrays.epsilon(x)
        size = np.linalg.norm(slope) + self.f.lipschitz * norm(x)
        if np.linalg.norm(slope - V @ g) > noise * size:
            return -math.inf  # f is unbounded below along a direction without curvature
        return self.f.value(x) - float(np.sum(0.5 * g * (g / w)))

    def project(self, v: Array, level: float) -> tuple[Array, float]:
        excess = self.f.value(v) - level
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

    def _slope(self, x: Array) -> Host:
        return to_numpy(self.f.gradient(x)).astype(np.float64, copy=False)

    def _spectrum(self) -> tuple[Host, Host]:
        """The positive eigenvalues of the Hessian of f and their eigenvectors, computed once."""
        if self.f not in _SPECTRA:
            dense = self.h.matrix.dense()
            deadline.check(deadline.svd_work(*dense.shape))
            if isinstance(self.h, LeastSquares):
                _, size, rows = np.linalg.svd(dense, full_matrices=False)
                values, vectors = self.h.scale * size**2, rows.T
            else:
                size, vectors = np.linalg.eigh(dense)
                values = size
            unit = max(dense.shape) * arrays.epsilon(self.h.matrix.prototype)
            keep = size > unit * float(size.max(initial=0.0))
            _SPECTRA[self.f] = self.weight * values[keep], vectors[:, keep]
        return _SPECTRA[self.f]


LevelSets: TypeAlias = Balls | Halfspaces | Ellipsoids

_SPECTRA: WeakKeyDictionary[Function, tuple[Host, Host]] = WeakKeyDictionary()


# --- the scalar root


def _crossing(excess: Callable[[float], float], noise: float) -> float:
    """The s in [0, 1] where the non-decreasing ``excess`` passes 0, to within ``noise``.

    The result is 0 if ``excess`` is positive everywhere, and 1 if it is positive nowhere. The root
    is found by regula falsi with halved ends (the Illinois method: Dowell, Jarratt 1971) or, if
    that is slow, bisection over the floating-point numbers.
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
        # If the same end is kept twice in a row, its value is halved, so that the other end moves
        # too.
        if value < 0.0:
            low, weights = (s, value), [1.0, 0.5 * weights[1] if side < 0 else 1.0]
            side = -1
        else:
            high, weights = (s, value), [0.5 * weights[0] if side > 0 else 1.0, 1.0]
            side = 1
        slow = slow + 1 if min(-low[1], high[1]) > 0.5 * before else 0
