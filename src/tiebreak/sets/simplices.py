"""The simplex and the l1 ball, whose projections use a threshold found without sorting."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from tiebreak.linalg import TOL, arrays, assign, checks
from tiebreak.linalg.arrays import Array, Host, dot, namespace, norm
from tiebreak.linalg.conic_form import ConicForm
from tiebreak.linalg.elementwise import into, masked, moved, negligible, shrunk, smallest_normal
from tiebreak.linalg.host import host
from tiebreak.sets.base import Set, Violation, violations_of
from tiebreak.sets.cuts import ProjectionPath
from tiebreak.sets.descriptions import ActiveFace, Bounds, LinearRows, face_of_signs, identity


class _WithVertices(Set):
    """The base class of two sets with vertices on the axes, at distance `length_scale` from 0."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = checks.positive(type(self).__name__, field.name, getattr(self, field.name))
            assign(self, field.name, value)

    def scaled(self, exponent: int) -> Set:
        return type(self)(shrunk(self.length_scale, exponent))  # type: ignore[call-arg]

    def farthest(self, x: Array) -> float:
        """The distance from x to the farthest vertex, which minimises <x, .>."""
        return norm(x - self.argmin(x))

    @property
    def cancelling_length(self) -> float:
        return self.length_scale

    def preimage(self, z: Array) -> Array:
        return z + self.length_scale * namespace(z).sign(z)


@dataclasses.dataclass(frozen=True)
class Simplex(_WithVertices):
    """{x : x >= 0, sum x = total}.

    The projection is max(x - tau, 0), where tau gives the right sum. The threshold tau is the root
    of a convex piecewise linear function, found without sorting by Newton's method from the left,
    which never passes the root (Michelot 1986; Condat 2016).

    Examples:
        >>> fit = tb.Linear([1, 1, 2])
        >>> domain = tb.Simplex()
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[1, 0.5, 0]), domain=domain)
        >>> tb.solve(problem).x.round(4)
        array([0.75, 0.25, 0.  ])
    """

    total: float = 1.0

    @property
    def diameter(self) -> float:
        """The diameter sqrt(2) total: only an upper bound in R^1, where the simplex is a point."""
        return math.sqrt(2.0) * self.total

    def diameter_in(self, n: int) -> float:
        """The diameter in R^n: sqrt(2) total, and 0 for n = 1."""
        return 0.0 if n == 1 else self.diameter

    def linear_rows(self, n: int) -> LinearRows:
        return LinearRows(n, -identity(n), np.zeros(n), np.ones((1, n)), [self.total])

    def recession(self, n: int) -> None:
        """Return None: the set is bounded, so zero is its only recession direction."""

    def bounds_in(self, n: int) -> Bounds:
        return Bounds(0.0, self.total, self.total)

    def face_at(self, x: Array) -> ActiveFace:
        is_on = namespace(x).astype(x > TOL.met * self.total, x.dtype)
        return face_of_signs(self.project, x, is_on)

    def project(self, x: Array) -> Array:
        """max(x - tau, 0), where tau makes the sum equal to ``total``."""
        with arrays.quiet():  # -entries may be inf, which is harmless
            return _onto_simplex(x, self.total)[0]

    def support(self, direction: Array) -> float:
        """total max_i direction_i."""
        return self.total * float(namespace(direction).max(direction))

    def argmin(self, direction: Array) -> Array:
        """The vertex total e_i with the smallest direction_i."""
        return arrays.placed(direction, int(namespace(direction).argmin(direction)), self.total)

    @property
    def length_scale(self) -> float:
        return self.total

    def distance_outside(self, x: Array, unit: float) -> float:
        """The length of the path from x to p = max(x, 0) and on to the multiple of p in the set."""
        xp = namespace(x)
        positive = xp.maximum(x, arrays.zeros_like(x))
        total = float(xp.sum(positive))
        return norm(x - positive) * (1.0 + unit) + abs(total - self.total) + unit * total

    def violations(self, x: Array) -> list[Violation]:
        at, total = host(x), self.total
        length, size = norm(at), float(np.sum(np.abs(at)))
        off = Violation("the sum of x", abs(float(np.sum(at)) - total), size + total, size)
        below = violations_of("the sign of x[{}]", -at, np.abs(at), length)
        return [off, *below] if off.amount > 0.0 else below

    def projection_path(self, x: Array, c: Array) -> ProjectionPath:
        return _threshold_path(x, c, self.total, signed=False)

    def last_piece(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """The face where c_i is least; other entries are 0 if mu >= (x_i - tau)/(c_i - min c)."""
        rise = c - namespace(x).min(c)
        face = rise == 0
        on_face, tau = _onto_simplex(x[face], self.total)[:2]
        z = arrays.placed(x, face, on_face)
        return max(0.0, _last_break(x - tau, rise)), z, 0.0


@dataclasses.dataclass(frozen=True)
class L1Ball(_WithVertices):
    """{x : sum |x_i| <= radius}.

    For x outside the ball, the projection is that of |x| onto the simplex, with the signs of x
    (Duchi, Shalev-Shwartz, Singer, Chandra 2008).

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> domain = tb.L1Ball(2.2)
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=domain)
        >>> tb.solve(problem).x.round(4)
        array([ 2.1, -0.1])
    """

    radius: float = 1.0

    @property
    def diameter(self) -> float:
        """2 radius."""
        return 2.0 * self.radius

    @property
    def is_polyhedral(self) -> bool:
        return True

    def lifted_rows(self, n: int) -> tuple[Host, LinearRows]:
        """Write x = p - q, where p, q >= 0 sum to at most the radius; x alone needs 2^n rows."""
        A = np.vstack([-np.eye(2 * n), np.ones((1, 2 * n))])
        rows = LinearRows(2 * n, A, np.append(np.zeros(2 * n), self.radius))
        return np.hstack([np.eye(n), -np.eye(n)]), rows

    def conic_form(self, form: ConicForm) -> None:
        form.nonnegative(-1.0 * form.absolute(form.x).sum() + self.radius)

    def bounds_in(self, n: int) -> Bounds:
        return Bounds(-self.radius, self.radius, self.radius)

    def face_at(self, x: Array) -> ActiveFace | None:
        xp = namespace(x)
        if float(xp.sum(xp.abs(x))) < self.radius * (1.0 - TOL.met):
            return None
        is_on = xp.abs(x) > TOL.met * self.radius
        return face_of_signs(self.project, x, xp.where(is_on, xp.sign(x), arrays.zeros_like(x)))

    def project(self, x: Array) -> Array:
        """Return x if it is inside; otherwise sign(x) max(|x| - tau, 0) for a suitable tau."""
        size = abs(x)
        if _sums_to_at_most(size, self.radius):
            return x
        z = _onto_simplex(size, self.radius)[0]
        z = into(z, "minimum", z, size)  # a tau < 0, by rounding, must not move zeros
        return namespace(x).copysign(z, x)

    def support(self, direction: Array) -> float:
        """radius max_i |direction_i|."""
        return self.radius * arrays.max_abs(direction)

    def argmin(self, direction: Array) -> Array:
        """The vertex -sign(direction_i) radius e_i with the largest |direction_i|."""
        i = int(namespace(direction).argmax(abs(direction)))
        value = -self.radius if float(direction[i]) > 0.0 else self.radius
        return arrays.placed(direction, i, value)

    @property
    def length_scale(self) -> float:
        return self.radius

    def distance_outside(self, x: Array, unit: float) -> float:
        """A bound on the distance from x to its multiple on the boundary of the ball."""
        return max(float(namespace(x).sum(abs(x))) * (1.0 + unit) - self.radius, 0.0)

    def projection_path(self, x: Array, c: Array) -> ProjectionPath:
        return _threshold_path(x, c, self.radius, signed=True)

    def last_piece(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """The face of the largest |c_i|; other entries stay below the threshold tau + mu max|c|."""
        xp = namespace(x)
        top = arrays.max_abs(c)
        face = abs(c) == top
        where = xp.nonzero(face)[0]
        signs = -xp.sign(xp.take(c, where))
        on_face, tau = _onto_simplex(signs * xp.take(x, where), self.radius)[:2]
        z = arrays.placed(x, face, signs * on_face)
        breaks = (_last_break(x - tau, top + c), _last_break(-tau - x, top - c))
        return max(0.0, -tau / top, *breaks), z, 0.0


# --- the threshold


def _onto_simplex(
    v: Array, total: float, start: float | None = None, w: Array = None, z: Array = None
) -> tuple[Array, float, Array | None]:
    """Return max(v - tau, 0) with sum ``total``, tau, and a few places with all nonzeros, or None.

    Newton's method is applied to sum max(v - tau, 0) - total, which is convex in tau: after the
    first step, from ``start`` or anywhere, tau is to the left of the root and stays there. If
    given, ``w`` and ``z`` are overwritten; w may be v, and z then holds the result.
    """
    xp = namespace(v)
    # Subtract the largest entry: then tau is in [-total, 0), entries below -total do not matter,
    # and no digits are lost if v is much larger than total.
    top = float(xp.max(v))
    w = into(w, "subtract", v, top)
    near = w > -total
    few = int(xp.count_nonzero(near)) < v.shape[0] // 8
    where = xp.nonzero(near)[0] if few else None
    part, above = (w, z) if where is None else (xp.take(w, where), None)
    tau = -total if start is None else min(max(start - top, -total), 0.0)
    before = -1
    while True:
        above = _above(part, tau, above)
        active = int(xp.count_nonzero(above > 0))
        if active == 0 and tau > -total:  # the first guess was too large
            tau = -total
            continue
        if active == 0:  # some entry is not finite, which the caller notices
            break
        excess = float(xp.sum(above)) - total
        # If the active entries have not changed, tau is right. A step past the root can only be due
        # to rounding errors.
        if active == before or (before > 0 and excess <= 0.0):
            break
        tau, before = tau + excess / active, active
    return (above if where is None else _above(w, tau, z)), top + tau, where


def _above(w: Array, tau: float, out: Array | None) -> Array:
    """max(w - tau, 0)."""
    z = into(out, "maximum", w, tau)
    z -= tau
    return z


def _threshold_path(x: Array, c: Array, total: float, *, signed: bool) -> ProjectionPath:
    """The path z(mu) = max(v - tau, 0) of v = x - mu c; if ``signed``, of |v|, with v's signs."""
    xp = namespace(x)
    v = size = z = signs = None
    line = (0.0, math.nan, 0.0)  # mu, tau, and the slope of tau at the last point

    def path(mu: float) -> tuple[Array, float, float]:
        nonlocal v, size, z, signs, line
        v = moved(x, mu, c, v)
        size = into(size, "abs", v) if signed else v
        if signed and _sums_to_at_most(size, total):
            return v, dot(c, v), norm(c)
        guess = line[1] + line[2] * (mu - line[0])
        start = guess if math.isfinite(guess) else None
        z, tau, where = _onto_simplex(size, total, start, size, z)
        z = into(z, "copysign", z, v) if signed else z
        if where is None:
            part, e = z, c
            signs = into(signs, "sign", z)
        else:
            part, e = xp.take(z, where), xp.take(c, where)
        mean, spread = _mean_and_spread(e, signs if where is None else xp.sign(part))
        line = (mu, tau, -mean)
        return z, dot(part, e), spread

    return path


def _mean_and_spread(c: Array, signs: Array) -> tuple[float, float]:
    """The mean m of sign_j c_j over nonzero signs, and the length of the deviations from m.

    A length that is only a rounding error is returned as 0. ``signs`` is overwritten.
    """
    xp = namespace(c)
    count = max(dot(signs, signs), 1.0)
    mean = dot(signs, c) / count
    on = signs != 0
    signs *= c
    squares = dot(signs, signs)
    spread = squares - count * mean * mean
    if spread > 1e-4 * squares > smallest_normal(c) ** 0.5:
        return mean, math.sqrt(spread)
    careful = norm((signs - mean) * xp.astype(on, c.dtype))
    return mean, careful if careful > 8.0 * arrays.epsilon(c) * abs(mean) * count**0.5 else 0.0


def _sums_to_at_most(size: Array, total: float) -> bool:
    """Is the sum of the non-negative entries at most ``total``?"""
    xp = namespace(size)
    return float(xp.max(size)) <= total and float(xp.sum(size)) <= total


def _last_break(height: Array, rate: Array) -> float:
    """The largest height/rate over the entries with rate > 0, or 0. Both are overwritten."""
    least = negligible(rate)
    height = masked(height, height, rate > least)
    height /= into(rate, "maximum", rate, least)
    return float(namespace(height).max(height))
