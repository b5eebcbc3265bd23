"""Step 6 of P-AGM-BiO: the prox of a f2 subject to a cut with g2 and a linear function.

    minimise a f2(z) + ½|z - v|²  over the z with  G(z) = <c, z> + g2(z) <= beta

As for a cut through a set (see `cuts`), the answer lies on a path: z(mu) is the prox of a f2 + mu
g2 at v - mu c, and mu is 0 or the root of the non-increasing gap(mu) = G(z(mu)) - beta. The cut in
this module is curved, so it may bind even if c = 0. The sets of f2 and g2 restrict z for every mu,
even for mu = 0.

On a smooth piece of the path, dz/dmu = -H^-1 d, where d is the gradient of G along the piece and H
is the Hessian of a f2 + mu g2 + ½|.|². So the slope of the gap is -<d, H^-1 d>.
"""

from __future__ import annotations

import dataclasses
import math
import sys

import numpy as np

from tiebreak.functions.penalties.joint_prox import Joint
from tiebreak.functions.penalties.terms import L1Weight, Terms, weight_like
from tiebreak.linalg import Host, arrays, into, ldexp, masked, moved
from tiebreak.linalg.arrays import Array, dot, namespace, norm, zeros_like
from tiebreak.sets import INFINITY, Ball, Box
from tiebreak.sets.roots import PathPoint, root

FAR_MULTIPLIER = 2.0**300  # ordinary problems have far smaller multipliers

# --- step 6


def prox_cut(
    pair: Joint, v: Array, a: float, c: Array, beta: float, guess: float | None = None
) -> tuple[Array, float]:
    """The minimiser z of a f2(z) + ½|z - v|² with <c, z> + g2(z) <= beta, and its multiplier.

    The multiplier mu >= 0 is finite and z = pair.prox(v - mu c, a, mu); mu = 0 if the cut does not
    bind. ``guess``, the multiplier of a similar problem, only saves time. If no z satisfies the
    cut, beta is replaced by the smallest value of <c, .> + g2, to within rounding error.
    """
    with arrays.quiet():
        # The square in f2 only moves v: q/2 |z|² + ½|z - v|² = (1 + q)/2 |z - v/(1 + q)|² + const.
        divisor = min(1.0 + a * pair.upper.square, sys.float_info.max)
        f, g = pair.upper.times(a / divisor), pair.lower
        f = dataclasses.replace(f, square=0.0)
        v = v if divisor == 1.0 else v / divisor
        start = 0.0 if guess is None else float(guess) / divisor
        if f.center is not None:
            z, mu = _around_center(f, g, v, c, float(beta), start)
        elif f.has_weights or g.has_weights:
            z, mu = _at_ordinary_size(f, g, v, c, float(beta), start)
        else:
            z, mu = f.domain.project_cut(v, c, float(beta), start)
        return z, min(mu * divisor, sys.float_info.max)


def _around_center(
    f: Terms, g: Terms, v: Array, c: Array, beta: float, guess: float
) -> tuple[Array, float]:
    """`prox_cut` for y = z - center: the square in g2 becomes a square of y plus <slope, y>."""
    center, Z = arrays.like(f.center, v), f.domain
    domain = Z
    height = dot(c, center) + 0.5 * g.square * dot(center, center)
    if isinstance(Z, Box):
        domain = Box(*(b - center for b in Z.sides(v)))
    f, g = (dataclasses.replace(part, domain=domain, center=None) for part in (f, g))
    c = c + g.square * center
    y, mu = _at_ordinary_size(f, g, v - center, c, beta - height, guess)
    return Z.project(y + center), mu


def _at_ordinary_size(
    f: Terms, g: Terms, v: Array, c: Array, beta: float, guess: float
) -> tuple[Array, float]:
    """`prox_cut`, rescaled by powers of two if lengths or slopes are extremely large or small."""
    if beta == INFINITY:
        return f.prox(v), 0.0
    slope = max(norm(c), *g.norms)
    length = max(norm(v), f.domain.length_scale)
    steepest = max(slope, g.square * length)
    if steepest == 0.0:
        return f.prox(v), 0.0
    ordinary = 2.0**-20 < steepest < 2.0**20 and 2.0**-20 < length < 2.0**20
    if ordinary and abs(beta) < 2.0**20:
        return _solved(f, g, v, c, beta, guess)
    if abs(beta) > length * steepest and beta > g.least(c)[0]:
        # The cut is far from the origin, so |z| exceeds |v|.
        length = max(length, min(abs(beta) / slope if slope > 0.0 else 0.0, sys.float_info.max))
        steepest = max(slope, g.square * length)
    up, across = _exponent(steepest), _exponent(length)
    z, mu = _solved(
        _resized(f, across, across),
        _resized(g, across, up),
        v * 2.0**-across,
        c * 2.0**-up,
        ldexp(ldexp(beta, -up), -across),
        ldexp(guess, up - across),
    )
    return z * 2.0**across, ldexp(mu, across - up)


def _exponent(size: float) -> int:
    return min(max(math.frexp(size)[1], -1000), 1000)


def _resized(terms: Terms, length: int, slope: int) -> Terms:
    """The terms, with lengths divided by 2^length and values by 2^(length + slope)."""
    domain = terms.domain
    if isinstance(domain, Box | Ball):
        domain = domain.scaled(-length)
    l1: L1Weight
    group, l2 = (ldexp(weight, -slope) for weight in (terms.group, terms.l2))
    if isinstance(terms.l1, float):
        l1 = ldexp(terms.l1, -slope)
    else:
        l1 = np.minimum(np.ldexp(terms.l1, -slope), sys.float_info.max)
    return Terms(l1, group, l2, ldexp(terms.square, length - slope), terms.groups, domain)


def _solved(
    f: Terms, g: Terms, v: Array, c: Array, beta: float, guess: float
) -> tuple[Array, float]:
    path = _Path(f, g, v, c, beta)
    mu, exact = root(path, guess if 0.0 < guess < FAR_MULTIPLIER else 0.0)
    if path.beta > beta:  # no point satisfies the cut
        mu, exact = root(path, path.ordinary())
    z = path.point()
    return z if exact else _polished(path, z, mu), mu


# --- the path


class _Path:
    """The path mu -> z(mu), and its gap: see `roots.Gap`. Each call of `at` reuses the arrays."""

    def __init__(self, f: Terms, g: Terms, v: Array, c: Array, beta: float) -> None:
        self.f, self.g, self.beta = f, g, beta
        self.v, self.c, self.box = v, c, f.box
        self.epsilon = arrays.epsilon(c)
        self.layout = (f if f.group > 0.0 else g).layout(v.shape[0])
        self.reach, self.length = norm(v), norm(c)
        self.entrywise = not (f.group or g.group or f.l2 or g.l2) and f.radius == INFINITY
        self.factors: Host = np.ones(1)
        self.calls, self.size, self.widest = 0, 0.0, 0.0
        self._u: Array = None
        self._t = self._e = None

    def at(self, mu: float) -> PathPoint:
        """The gap at mu, its slope, and a f2(z) + ½|z - v|² up to a constant."""
        self.calls += 1
        f, g = self.f, self.g
        self.total = f.with_weights(
            *(p + mu * q for p, q in zip(f.weights, g.weights, strict=True))
        )
        l1, divisor = weight_like(self.total.l1, self.c), 1.0 + self.total.square
        has_l1 = self.total.norms[0] > 0.0
        u = self._u = moved(self.v, mu, self.c, self._u)
        if has_l1:
            self._t = into(self._t, "clip", u, -l1, l1)
            u -= self._t
        if divisor > 1.0:
            u /= divisor
        self._u = u  # a new array if the library cannot write into arrays
        free = None
        if self.box is not None:
            self._t = self.box.clip(u, *self.box.bounds_like(u), self._t)
            free = u == self._t
            self._u, self._t = self._t, u
            u = self._u
        if has_l1:
            moves = u != 0 if isinstance(l1, float) else (u != 0) | (l1 == 0.0)
            free = moves if free is None else free & moves
        e = self.c
        if g.norms[0] > 0.0:
            e = self._e = into(self._e, "sign", u)
            e *= weight_like(g.l1, self.c)
            e += self.c
            self._e = e
        gap, slope, energy = (self._entries if self.entrywise else self._lengths)(
            mu, u, e, free, divisor
        )
        return PathPoint(mu, gap - self.beta, self._bent(gap - self.beta, slope, divisor), energy)

    def _bent(self, gap: float, slope: float, divisor: float) -> float:
        """The slope of the line from the current mu to the root, predicted from the square in g2.

        If g2 has a square, the gap is far from linear in mu, but on each piece it is nearly
        quadratic in 1/divisor, where divisor = 1 + mu square.
        """
        if self.g.square == 0.0 or slope == 0.0:
            return slope
        bend = 2.0 * self.g.square * gap / slope / slope / divisor
        if not abs(bend) > 1e-8:
            return slope
        ahead = math.expm1(-0.5 * math.log1p(-min(bend, 0.99))) * divisor / self.g.square
        return math.sqrt(gap / ahead)

    def _entries(
        self, mu: float, u: Array, e: Array, free: Array | None, divisor: float
    ) -> tuple[float, float, float]:
        """The gap, its slope and the energy if z = u, where entries move independently."""
        f, g = self.f, self.g
        linear = dot(u, e)
        squared = dot(u, u)
        self.size = math.sqrt(squared)
        if g.square > 0.0:
            self._t = into(self._t, "multiply", u, g.square)
            e = self._e = into(self._e, "add", e, self._t)
        if free is not None:
            e = self._e = masked(self._e, e, free)
        energy = math.nan
        if self.box is None:
            energy = (0.5 - divisor) * squared - mu * linear
        elif self.calls > 2:  # the first two calls need no prediction
            energy = 0.5 * squared - dot(self.v, u)
            if not isinstance(f.l1, float):
                energy += f.value(u)
            elif f.l1 > 0.0:
                self._t = into(self._t, "abs", u)
                energy += f.l1 * float(namespace(u).sum(self._t))
        return linear + 0.5 * g.square * squared, norm(e) / math.sqrt(divisor), energy

    def _lengths(
        self, mu: float, u: Array, e: Array, free: Array | None, divisor: float
    ) -> tuple[float, float, float]:
        """The gap, its slope and the energy if z is u with each group multiplied by a factor.

        Only sums over groups are needed. In a group, d has a part along u and a part orthogonal to
        u, which H multiplies by 1/factor. The parts along u, taken together, have a part along z
        and a part orthogonal to z, which H multiplies by total/length.
        """
        g, penalised = self.g, self.layout.penalised
        with_u, lengths = self._sums(u, e), np.sqrt(self._sums(u, u))
        if free is not None:
            e = self._e = masked(self._e, e, free)
        kept, self.factors, total, length = self.total.shrunk(lengths, self.layout, divisor)
        self.size = length
        if length == 0.0:
            return 0.0, 0.0, 0.0
        shift = length / total
        linear = float(self.factors @ with_u + g.group * shift * (penalised @ kept)) + g.l2 * length
        live = kept > 0.0
        along = np.where(live, with_u / np.where(live, lengths, 1.0), 0.0)
        across = float(self.factors @ np.maximum(self._sums(e, e) - along * along, 0.0))
        along = along + g.group * penalised * live
        inner = float(along @ kept) / total
        across += shift * norm(along - inner * (kept / total)) ** 2
        uncut = total - self.total.l2 / divisor
        radial = 0.0 if uncut > self.total.radius else inner + g.l2 + g.square * length
        slope = math.sqrt((across + radial * radial) / divisor)
        energy = 0.5 * length * length - mu * linear - divisor * uncut * length
        return linear + 0.5 * g.square * length * length, slope, energy

    def _sums(self, x: Array, y: Array) -> Host:
        """<x, y> over each group."""
        return self.layout.dots(x, y, self._t)

    def is_noise(self, gap: float) -> bool:
        unit = _unit(self.c)
        value = abs(gap + self.beta) + abs(self.beta)
        self.widest = max(self.widest, abs(gap))
        if abs(gap) <= max(unit * abs(self.beta), self.epsilon**2 * self.widest):
            return True
        if abs(gap) > unit * (self.length * self.size + value):
            return False  # most calls end with this test, which saves the sums below
        products = self._sums(abs(self._u), abs(self.c))
        return abs(gap) <= unit * (float(self.factors @ products) + value)

    def further(self, point: PathPoint, tries: int) -> float | PathPoint:
        """Try Newton's step first, then longer and longer steps.

        The search ends if v is lost to rounding in v - mu c, or if no point satisfies the cut.
        """
        if tries == 4 and self._accept_the_least():
            return point
        ordinary = self.ordinary()
        far = min(2.0**50 * ordinary, FAR_MULTIPLIER)
        if point.mu >= far and tries > 4:
            return point
        step = point.newton - point.mu if point.slope > 0.0 else max(point.mu, ordinary)
        step = max(step, 2.0 * self.epsilon * point.mu) * 4.0 ** max(0, tries - 1)
        return max(point.mu, min(point.mu + step, far))

    def ordinary(self) -> float:
        """A typical multiplier, estimated from the sizes of the data."""
        (p, q, r), g, size = self.f.norms, self.g, max(self.reach, self.size)
        l1, group, l2 = g.norms
        steep = self.length + l1 + group + l2 + g.square * size or 1.0
        return (size + p + q + r) / steep + abs(self.beta) / steep / steep

    def _accept_the_least(self) -> bool:
        """If no point satisfies the cut, replace beta by min G and return True.

        G is minimised with a slightly smaller c, equal up to rounding: G may be bounded below for
        this c, but not for the original one.
        """
        nearly = 1.0 - 2.0 * (8.0 + self.c.shape[0]) * self.epsilon
        best = self.g.least(self.c * nearly)[1]
        least = -INFINITY if best is None else dot(self.c, best) + self.g.value(best)
        if least <= self.beta:
            return False
        self.beta, self.widest = least, 0.0
        return True

    def point(self) -> Array:
        """The point z at the latest mu."""
        return self._u if self.entrywise else self.layout.spread(self._u, self.factors)


# --- the last digits


def _polished(path: _Path, z: Array, mu: float) -> Array:
    """The z with G(z) = beta, to the precision of z.

    If v and mu c are much larger than z, rounding in their difference leaves a gap. A Newton step
    along the piece of the path that z lies on closes this gap and moves z only by a rounding error.
    """
    f, g, c = path.f, path.g, path.c
    carried = arrays.max_abs(path.v) + mu * arrays.max_abs(c) + max(path.total.norms)
    for _ in range(4):
        value = g.value(z)
        gap = dot(c, z) + value - path.beta
        size = float(namespace(z).sum(abs(c * z))) + value + abs(path.beta)
        d = _slope_along(f, g, z, c)
        steep = norm(d)
        if steep == 0.0 or abs(gap) <= _unit(c) * size:
            break
        step = d * (gap / steep / steep)
        if arrays.max_abs(step) > 64.0 * arrays.epsilon(c) * carried:
            break  # the step exceeds all rounding errors, so it would not make z more accurate
        closer = z - step
        same_side = namespace(z).sign(closer) == namespace(z).sign(z)
        z = f.domain.project(masked(None, closer, same_side))
    return z


def _slope_along(f: Terms, g: Terms, z: Array, c: Array) -> Array:
    """The gradient of G at z along the entries that are neither 0 nor at a bound."""
    d, length = c + g.subgradient(z), norm(z)
    free = z != 0
    if not isinstance(g.l1, float) or not isinstance(f.l1, float):
        free = free | (zeros_like(z) + arrays.like(g.l1 + f.l1, z) == 0.0)
    if f.box is not None:
        lower, upper = f.box.bounds_like(z)
        free = free & (z > lower) & (z < upper)
    if length > 0.0 and length >= f.radius * (1.0 - 8.0 * arrays.epsilon(z)):
        d = moved(d, dot(z, d) / length / length, z)
    return masked(None, d, free)


def _unit(c: Array) -> float:
    """The usual relative rounding error of a sum over the entries of c, with a safety margin."""
    return 8.0 * arrays.epsilon(c) * (1.0 + 0.1 * math.sqrt(c.shape[0]))
