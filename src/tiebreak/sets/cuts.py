"""Projections onto the intersection of a set Z and a cut {<c, z> <= beta}, from a scalar root.

The projection lies on the path z(mu) = Pi_Z(x - mu c), where mu is 0 or the root of the
non-increasing function

    gap(mu) = <c, z(mu)> - beta.

For a polyhedral Z the path is piecewise linear: on each piece, z moves along -d, where d is the
orthogonal projection of c onto the directions that the piece leaves free, and the slope of the gap
is -<c, d> = -|d|^2. If a set provides z and |d| for any mu, and the last piece of its path,
`roots.root` finds the projection; a set with a closed form uses the closed form instead.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tiebreak.linalg import arrays, in_files, into, ldexp, smallest_normal
from tiebreak.linalg.arrays import Array, dot, namespace
from tiebreak.sets.roots import PathPoint, past_a_breakpoint

if TYPE_CHECKING:
    from tiebreak.sets.base import Set

ProjectionPath = Callable[[float], tuple[Array, float, float]]  # mu -> z(mu), <c, z(mu)>, |d(mu)|


@in_files("products")
class Products(NamedTuple):
    """The inner products of a normal c and a point x."""

    normal: float  # <c, c>
    point: float  # <x, x>
    inner: float  # <c, x>

    @classmethod
    def of(cls, c: Array, x: Array) -> Products:
        """All three products, in one transfer from a device."""
        return cls(*arrays.dots(*cls.pairs(c, x)))

    @staticmethod
    def pairs(c: Array, x: Array) -> tuple[tuple[Array, Array], ...]:
        """The pairs of vectors whose products are needed."""
        return (c, c), (x, x), (c, x)

    def sizes(self, s: float, t: float) -> tuple[float, float]:
        """|s x + t c|, and |s x| + |t c|."""
        square = s * s * self.point + 2.0 * s * t * self.inner + t * t * self.normal
        return math.sqrt(max(square, 0.0)), abs(s) * math.sqrt(self.point) + abs(t) * math.sqrt(
            self.normal
        )


class CutProjection(NamedTuple):
    """The projection onto the intersection of a set and a cut."""

    z: Array
    mu: float
    is_met: bool  # does a point of the set satisfy the cut?
    # |z|, and the sum of the lengths of the vectors that add up to z, if known
    sizes: tuple[float, float] | None = None


def project_cut(
    domain: Set, x: Array, normal: Array, offset: float, guess: float | None, known: Products
) -> tuple[Array, float]:
    """The result of `Set.project_cut`, without rescaling if no square can overflow."""
    offset = float(offset)
    is_ordinary = (
        2.0**-80 < known.normal < 2.0**40
        and known.point < 2.0**40
        and abs(offset) < 2.0**20
        and domain.length_scale < 2.0**20
    )
    with arrays.quiet():
        if is_ordinary:
            start = float(guess) if guess is not None and 0.0 < guess < 2.0**80 else 0.0
            z, mu = _refined(domain, x, normal, offset, start, known)
            if mu < math.inf:
                return z, mu
        return _rescaled(domain, x, normal, offset, guess)


def _rescaled(
    domain: Set, x: Array, normal: Array, offset: float, guess: float | None
) -> tuple[Array, float]:
    """`project_cut` after scaling by powers of two, so that no number is very large or small."""
    largest = arrays.max_abs(normal)
    if largest < smallest_normal(normal) or offset == math.inf:
        return domain.project(x), 0.0
    slope = math.frexp(largest)[1]
    c = normal * 2.0**-slope
    beta = ldexp(offset, -slope)
    size = max(arrays.max_abs(x), domain.length_scale)
    if abs(beta) > size * x.shape[0]:
        # The cut is far from x and from the set: check whether it binds and can be met.
        z = domain.project(x)
        if dot(c, z) <= beta:
            return z, 0.0
        if beta > -domain.support(-c):
            size = abs(beta)
    length = min(math.frexp(size)[1], 1001) if size > 2.0**20 else 0
    while True:
        start = 0.0 if guess is None else ldexp(float(guess), slope - length)
        if not 0.0 < start < 2.0**80:  # unusable: NaN, not positive, or huge
            start = 0.0
        small_set = domain.scaled(-length) if length else domain
        small_x = x * 2.0**-length if length else x
        known = Products.of(c, small_x)
        z, mu = _refined(small_set, small_x, c, ldexp(beta, -length), start, known)
        if mu < math.inf or length > 1000:
            break
        length = min(length + 100, 1001)  # |z| is much larger than |x| and all lengths in Z
    if length:
        z = z * 2.0**length if mu > 0.0 else domain.project(x)
    return z, ldexp(min(mu, sys.float_info.max), length - slope)


def _refined(
    domain: Set, x: Array, c: Array, beta: float, guess: float, known: Products
) -> tuple[Array, float]:
    """The cut projection; if the cut binds, <c, z> = beta is accurate to the precision of z.

    If x and mu c are much larger than z, rounding errors of their difference remain in z. A second
    projection, of z itself onto the plane of the cut, moves z only by these errors.
    """
    z, mu, met, sizes = domain.cut_projection(x, c, beta, guess, known)
    if sizes is not None and sizes[1] <= 8.0 * sizes[0] and type(z) is not np.ndarray:
        return z, mu  # errors of a few machine epsilons are not worth a transfer from a device
    for attempt in range(4):
        if not met or mu == math.inf:
            break
        inner, square = arrays.dots((c, z), (z, z))
        gap, lengths = inner - beta, arrays.norm(c, known.normal) * arrays.norm(z, square)
        if (gap <= 0.0 and mu == 0.0) or _is_noise(gap, c, z, beta, 32.0, lengths):
            break
        sign = math.copysign(1.0, gap)
        start = domain.preimage(z) if attempt == 0 else z
        turned = sign * c
        again = Products.of(turned, start)
        closer, extra, closer_met, _ = domain.cut_projection(start, turned, sign * beta, 0.0, again)
        error = arrays.max_abs(x) + mu * arrays.max_abs(c)
        if arrays.max_abs(closer - z) <= 64.0 * arrays.epsilon(x) * error:
            z, mu, met = closer, mu or extra, closer_met
        elif attempt > 0:
            break  # the step is larger than any rounding error: keep z
    return z, mu


class LinearGap:
    """The gap <c, z(mu)> - beta along the path of a set: see `Gap`."""

    def __init__(self, domain: Set, x: Array, c: Array, beta: float) -> None:
        self.domain: Set = domain
        self.x: Array = x
        self.c: Array = c
        self.beta: float = beta
        self.epsilon: float = arrays.epsilon(c)
        self.path = domain.projection_path(x, c)
        self.z: Array = None  # z at the latest mu; the next call may overwrite it
        self.met: bool = True  # does a point of the set satisfy the cut?
        self.calls: int = 0

    def at(self, mu: float) -> PathPoint:
        """The gap at mu, its slope, and |z|^2/2 - <x, z>."""
        self.calls += 1
        self.z, value, slope = self.path(mu)
        # If Newton's method works, the energy is not needed.
        needed = self.calls > 2 or slope == 0.0
        return PathPoint(mu, value - self.beta, slope, self._energy() if needed else math.nan)

    def _energy(self) -> float:
        """|z - x|^2/2 up to a constant."""
        return 0.5 * dot(self.z, self.z) - dot(self.x, self.z)

    def is_noise(self, gap: float) -> bool:
        return _is_noise(gap, self.c, self.z, self.beta, 8.0)

    def further(self, point: PathPoint, tries: int) -> float | PathPoint:
        """Try Newton's step, then longer and longer steps, then the last piece."""
        mu = point.mu
        step = 0.1 * mu if point.slope == 0.0 and mu > 0.0 else point.newton - mu
        following = mu + step * 4.0 ** max(0, tries - 1)
        largest = 2.0**-24 / smallest_normal(self.c)
        if following > largest or tries > 8:
            return self.last_piece(mu, largest)
        return past_a_breakpoint(point, following, self.epsilon)

    def last_piece(self, mu: float, largest: float) -> PathPoint:
        """The start of the last piece if it is past the root; otherwise the answer."""
        start, self.z, slope = self.domain.last_piece(self.x, self.c)
        last = PathPoint(start, dot(self.c, self.z) - self.beta, slope, self._energy())
        if last.gap <= 0.0:
            return last
        if slope == 0.0:
            # No point of Z meets the cut: return the limit point, with a sufficiently large mu.
            self.met = False
            return last._replace(mu=max(start * (1.0 + 4.0 * self.epsilon), mu))
        if last.newton > largest:
            self.met = False
            return last._replace(mu=math.inf)  # the multiplier is too large for this scale
        self.z = self.path(last.newton)[0]
        return last._replace(mu=last.newton)


def _is_noise(
    gap: float, c: Array, z: Array, beta: float, factor: float, lengths: float | None = None
) -> bool:
    """Is |gap| within ``factor`` times the usual rounding error of <c, z> - beta?

    ``lengths`` is |c| |z|, if known.
    """
    tolerance = factor * arrays.epsilon(c) * (1.0 + 0.1 * math.sqrt(c.shape[0]))
    if abs(gap) <= tolerance * abs(beta):
        return True
    if lengths is None:
        lengths = arrays.norm(c) * arrays.norm(z)
    if abs(gap) > tolerance * (lengths + abs(beta)):
        return False  # most calls return here or above, which saves the sum below
    terms = c * z
    sizes = into(terms, "abs", terms)
    return abs(gap) <= tolerance * (float(namespace(c).sum(sizes)) + abs(beta))
