"""The projection onto a set Z and a cut {<c, z> <= beta}: one scalar root for every Z.

It is the point z(mu) = Pi_Z(x - mu c) of a path, where mu is 0 or the root of the non-increasing

    gap(mu) = <c, z(mu)> - beta.

For a polyhedral Z the path is piecewise linear: on a piece z moves along -d, where d is the
orthogonal projection of c onto the directions that the piece leaves free, and the slope of the gap
is -<c, d> = -|d|^2.  A set that can say z and |d| for any mu, and what its last piece looks like,
has its cut projection from `root`; a set with a closed form takes that.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array, dot, like, namespace
from tiebreak.linalg.fingerprints import FromData

INFINITY = math.inf

Path = Callable[[float], tuple[Array, float, float]]  # mu -> z(mu), <c, z(mu)>, |d(mu)|


class Set(FromData):
    """What every domain has in common; the formulas are in the domains themselves.

    For the cut a set gives either ``_cut`` itself, or ``_path`` and ``_last``.
    """

    names: tuple[Any, ...] | None = None  # of the variables, where a Series of pandas has them

    @property
    def diameter(self) -> float:
        """max |y - z| over y, z in Z: here infinite."""
        return INFINITY

    def diameter_in(self, n: int) -> float:
        """The diameter of Z in R^n, exact also where ``diameter`` is silent or only a bound."""
        return self.diameter

    def check(self, n: int) -> None:
        """Raise ValueError if the parameters of the set do not fit dimension ``n``."""

    def project(self, x: Array) -> Array:
        raise NotImplementedError

    def _project(self, x: Array, square: float) -> Array:
        """`project`, where <x, x> is known: a device need not be asked for it."""
        return self.project(x)

    def support(self, direction: Array) -> float:
        raise NotImplementedError

    def farthest(self, x: Array) -> float:
        """max |z - x| over z in Z: here infinite."""
        return INFINITY

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Is ``x`` in Z, up to a distance of ``tol`` times the larger of |x| and its projection?"""
        if not arrays.all_finite(x):
            return False
        z = self.project(x)
        return arrays.norm(x - z) <= tol * max(arrays.norm(x), arrays.norm(z))

    def project_cut(
        self, x: Array, normal: Array, offset: float, guess: float | None = None
    ) -> tuple[Array, float]:
        """The projection z of ``x`` onto Z ∩ {<normal, z> <= offset}, and the cut's multiplier.

        The multiplier mu >= 0 is finite and z = project(x - mu normal); mu = 0 where the cut does
        not bind.  ``guess``, the multiplier of a similar problem, saves time and changes nothing.

        A zero normal cuts nothing off.  Where the cut leaves nothing of Z, z is the limit for
        mu to infinity: the projection of x onto the points of Z where <normal, .> is smallest.
        """
        return _cut_off(self, x, normal, offset, guess, Products.of(normal, x))

    def _project_cut(
        self, x: Array, normal: Array, offset: float, guess: float | None, known: Products
    ) -> tuple[Array, float]:
        """`project_cut`, where the products are known; that of a subclass, where it has its own."""
        if type(self).project_cut is not Set.project_cut:
            return self.project_cut(x, normal, offset, guess)
        return _cut_off(self, x, normal, offset, guess, known)

    @property
    def _size(self) -> float:
        """The largest parameter of the set that is a length."""
        return 0.0

    @property
    def _carried(self) -> float:
        """The lengths that a projection adds to its result and takes away again: see `domains`."""
        return 0.0

    def _outside(self, x: Array, unit: float) -> float | None:
        """A bound on the distance of x from Z, ``unit`` being that of a sum over its entries.

        x is in float64. None where the set knows none.
        """
        return None

    def _scaled(self, exponent: int) -> Set:
        """The set 2^exponent Z."""
        return self

    def _lifted(self, z: Array) -> Array:
        """A point whose projection is z, if possible with the same face of Z all around it."""
        return z

    def _cut(self, x: Array, c: Array, beta: float, guess: float, known: Products) -> Cut:
        """The projection; nothing is so large that squares overflow."""
        gap = _LinearGap(self, x, c, beta)
        mu, _exact = root(gap, guess)
        return Cut(gap.z, mu, gap.met)

    def _path(self, x: Array, c: Array) -> Path:
        """The function mu -> z(mu), <c, z(mu)>, |d(mu)|."""
        raise NotImplementedError

    def _last(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """mu, z(mu), |d(mu)| where the last piece begins, or any mu that is certainly too large."""
        raise NotImplementedError


class Products(NamedTuple):
    """What is known of a normal c and a point x."""

    normal: float  # <c, c>
    point: float  # <x, x>
    inner: float  # <c, x>

    @classmethod
    def of(cls, c: Array, x: Array) -> Products:
        """All three, by one transfer from a device."""
        return cls(*arrays.dots(*cls.pairs(c, x)))

    @staticmethod
    def pairs(c: Array, x: Array) -> tuple[tuple[Array, Array], ...]:
        """Of what they are the products."""
        return (c, c), (x, x), (c, x)

    def sizes(self, s: float, t: float) -> tuple[float, float]:
        """|s x + t c|, and |s x| + |t c|."""
        square = s * s * self.point + 2.0 * s * t * self.inner + t * t * self.normal
        return math.sqrt(max(square, 0.0)), abs(s) * math.sqrt(self.point) + abs(t) * math.sqrt(
            self.normal
        )


class Cut(NamedTuple):
    """The projection onto a set and a cut."""

    z: Array
    mu: float
    is_met: bool  # can the cut be met?
    sizes: tuple[float, float] | None = None  # |z|, and of what was added to make z, where known


def _cut_off(
    domain: Set, x: Array, normal: Array, offset: float, guess: float | None, known: Products
) -> tuple[Array, float]:
    """Directly where all magnitudes are ordinary, which two products tell."""
    offset = float(offset)
    is_ordinary = (
        2.0**-80 < known.normal < 2.0**40
        and known.point < 2.0**40
        and abs(offset) < 2.0**20
        and domain._size < 2.0**20
    )
    with arrays.quiet():
        if is_ordinary:
            start = float(guess) if guess is not None and 0.0 < guess < 2.0**80 else 0.0
            z, mu = _refined(domain, x, normal, offset, start, known)
            if mu < INFINITY:
                return z, mu
        return _rescaled(domain, x, normal, offset, guess)


def _rescaled(
    domain: Set, x: Array, normal: Array, offset: float, guess: float | None
) -> tuple[Array, float]:
    """The same by way of powers of two that make all magnitudes ordinary."""
    largest = arrays.max_abs(normal)
    if largest < smallest_normal(normal) or offset == INFINITY:
        return domain.project(x), 0.0
    slope = math.frexp(largest)[1]
    c = normal * 2.0**-slope
    beta = ldexp(offset, -slope)
    size = max(arrays.max_abs(x), domain._size)
    if abs(beta) > size * x.shape[0]:
        # The cut is far from x and from the set: does it bind, and can it be met?
        z = domain.project(x)
        if dot(c, z) <= beta:
            return z, 0.0
        if beta > -domain.support(-c):
            size = abs(beta)
    length = min(math.frexp(size)[1], 1001) if size > 2.0**20 else 0
    while True:
        start = 0.0 if guess is None else ldexp(float(guess), slope - length)
        if not 0.0 < start < 2.0**80:  # no sensible guess: NaN, or a multiplier of an empty cut
            start = 0.0
        small_set = domain._scaled(-length) if length else domain
        small_x = x * 2.0**-length if length else x
        known = Products.of(c, small_x)
        z, mu = _refined(small_set, small_x, c, ldexp(beta, -length), start, known)
        if mu < INFINITY or length > 1000:
            break
        length = min(length + 100, 1001)  # z is far larger than x and the set: look from afar
    if length:
        z = z * 2.0**length if mu > 0.0 else domain.project(x)
    return z, ldexp(min(mu, sys.float_info.max), length - slope)


def _refined(
    domain: Set, x: Array, c: Array, beta: float, guess: float, known: Products
) -> tuple[Array, float]:
    """The cut projection with <c, z> = beta to the precision of z.

    Where x and mu c are much larger than z, their difference has an error.  Projecting once more,
    from z and from the side of the cut where it lies, moves it by that error only.
    """
    z, mu, met, sizes = domain._cut(x, c, beta, guess, known)
    if sizes is not None and sizes[1] <= 8.0 * sizes[0] and type(z) is not np.ndarray:
        return z, mu  # that error is no more than a few of |z|: not worth asking a device
    for attempt in range(4):
        if not met or mu == INFINITY:
            break
        inner, square = arrays.dots((c, z), (z, z))
        gap, lengths = inner - beta, arrays.norm(c, known.normal) * arrays.norm(z, square)
        if (gap <= 0.0 and mu == 0.0) or _is_noise(gap, c, z, beta, 32.0, lengths):
            break
        sign = math.copysign(1.0, gap)
        start = domain._lifted(z) if attempt == 0 else z
        turned = sign * c
        again = Products.of(turned, start)
        closer, extra, closer_met, _ = domain._cut(start, turned, sign * beta, 0.0, again)
        error = arrays.max_abs(x) + mu * arrays.max_abs(c)
        if arrays.max_abs(closer - z) <= 64.0 * arrays.epsilon(x) * error:
            z, mu, met = closer, mu or extra, closer_met
        elif attempt > 0:
            break  # more than an error: beyond what the entries of z can express
    return z, mu


# --- the scalar root


class Point(NamedTuple):
    """A point of a path: the gap there, and its slope -s^2 as s (for a cut of a set s = |d|)."""

    mu: float
    gap: float
    slope: float
    energy: float  # what z minimises where the cut does not bind, up to a constant

    @property
    def newton(self) -> float:
        """Where the gap would be zero if this piece went on."""
        if self.slope == 0.0:
            return math.copysign(INFINITY, self.gap)
        return self.mu + self.gap / self.slope / self.slope


class Gap(Protocol):
    """A non-increasing gap(mu), and what is special to it."""

    @property
    def epsilon(self) -> float:
        """The unit of rounding."""
        ...

    def at(self, mu: float) -> Point:
        """The gap at mu and its slope.  The energy may be NaN on the first two calls."""
        ...

    def is_noise(self, gap: float) -> bool:
        """Is the latest gap no more than its usual rounding error?"""
        ...

    def further(self, point: Point, tries: int) -> float | Point:
        """Where to look after ``tries`` points that all had gap > 0, of which this is the latest.

        A mu; or a point that is known without looking: past the root, or with gap > 0 still, which
        is then the answer.
        """
        ...


def root(gap: Gap, guess: float) -> tuple[float, bool]:
    """The first mu >= 0 with gap(mu) <= 0, and whether the gap is only rounding there.

    Newton's method on the current piece, which is exact once a linear piece is the right one; kept
    between ``low`` (gap > 0) and ``high`` (gap <= 0), and helped out where it is slow.  This mu is
    the last that ``gap`` is asked for, unless it came from ``further``.
    """
    eps = gap.epsilon
    low: Point | None = None
    high: Point | None = None
    mu, slow, smallest = guess, 0, INFINITY
    for tries in range(1000):
        here = latest = gap.at(mu)
        if (here.gap <= 0.0 and mu == 0.0) or gap.is_noise(here.gap):
            return mu, True
        low, high = (here, high) if here.gap > 0.0 else (low, here)
        if high is None:
            ahead = gap.further(here, tries)
            if not isinstance(ahead, Point):
                mu = ahead
                continue
            if ahead.gap > 0.0:
                return ahead.mu, False
            latest = high = ahead
        sound = low is None or low.mu < latest.newton < high.mu
        slow = 0 if sound and abs(latest.gap) <= 0.5 * smallest else slow + 1
        smallest = min(smallest, abs(latest.gap))
        if low is None:
            following = here.newton if here.slope > 0.0 else 0.9 * mu
            following = following if 0.0 < following < mu and tries < 3 else 0.0
        else:
            following = between(low, high, latest, slow)
        following = past_a_breakpoint(here, following, eps)
        if low is not None and not low.mu < following < high.mu:
            mu = min(low, high, key=lambda end: abs(end.gap)).mu
            break
        mu = following
    gap.at(mu)
    return mu, False


def between(low: Point, high: Point, latest: Point, slow: int) -> float:
    """The next mu to try: Newton's, and something more careful each time that it is slow."""
    following = latest.newton
    if slow % 4 == 1:
        # The best of what both ends say, if the gap between them is convex or if it is concave.
        secant = low.mu + (high.mu - low.mu) * (low.gap / (low.gap - high.gap))
        following = sorted((low.newton, secant, high.newton))[1]
    if slow % 4 == 2 or not low.mu < following < high.mu:
        # Where the two ends have the same Lagrangian |z - x|^2/2 + mu (<c, z> - beta): the gap of
        # a polytope may be a staircase, on which Newton's method is blind.
        following = (high.energy - low.energy) / (low.gap - high.gap)
    if slow % 4 == 3 or not low.mu < following < high.mu:
        following = middle(low.mu, high.mu)
    return following


def past_a_breakpoint(point: Point, following: float, eps: float) -> float:
    """``following``; but where a step leads nowhere, two rounding errors further on.

    Perhaps the point is a breakpoint, and all is different there.
    """
    mu = point.mu
    if mu > 0.0 and min(abs(following - mu), abs(point.newton - mu)) <= eps * mu:
        return mu * (1.0 + math.copysign(2.0 * eps, point.gap))
    return following


def middle(low: float, high: float) -> float:
    """The middle of the floating-point numbers between two: near the geometric mean."""
    a, b = struct.unpack("<qq", struct.pack("<dd", low, high))
    return float(struct.unpack("<d", struct.pack("<q", (a + b) // 2))[0])


# --- the gap of a cut of a set


class _LinearGap:
    """gap(mu) = <c, z(mu)> - beta on the path of a set: see `Gap`."""

    def __init__(self, domain: Set, x: Array, c: Array, beta: float) -> None:
        self.domain, self.x, self.c, self.beta = domain, x, c, beta
        self.epsilon = arrays.epsilon(c)
        self.path = domain._path(x, c)
        self.z: Array = None  # at the latest mu, which may overwrite an earlier one
        self.met = True  # can the cut be met?
        self.calls = 0

    def at(self, mu: float) -> Point:
        """The gap at mu, its slope, and |z|^2/2 - <x, z>."""
        self.calls += 1
        self.z, value, slope = self.path(mu)
        # Where Newton's method works, nobody will ask for the energy.
        needed = self.calls > 2 or slope == 0.0
        return Point(mu, value - self.beta, slope, self._energy() if needed else math.nan)

    def _energy(self) -> float:
        """|z - x|^2/2 up to a constant."""
        return 0.5 * dot(self.z, self.z) - dot(self.x, self.z)

    def is_noise(self, gap: float) -> bool:
        return _is_noise(gap, self.c, self.z, self.beta, 8.0)

    def further(self, point: Point, tries: int) -> float | Point:
        """Newton's step, and longer and longer ones; then the last piece."""
        mu = point.mu
        step = 0.1 * mu if point.slope == 0.0 and mu > 0.0 else point.newton - mu
        following = mu + step * 4.0 ** max(0, tries - 1)
        largest = 2.0**-24 / smallest_normal(self.c)
        if following > largest or tries > 8:
            return self._last(mu, largest)
        return past_a_breakpoint(point, following, self.epsilon)

    def _last(self, mu: float, largest: float) -> Point:
        """Where the last piece begins if that is past the root, and otherwise the answer."""
        start, self.z, slope = self.domain._last(self.x, self.c)
        last = Point(start, dot(self.c, self.z) - self.beta, slope, self._energy())
        if last.gap <= 0.0:
            return last
        if slope == 0.0:
            # Nothing of Z is left: the limit point, and a mu surely past its beginning.
            self.met = False
            return last._replace(mu=max(start * (1.0 + 4.0 * self.epsilon), mu))
        if last.newton > largest:
            self.met = False
            return last._replace(mu=INFINITY)  # too large for this scale
        self.z = self.path(last.newton)[0]
        return last._replace(mu=last.newton)


def _is_noise(
    gap: float, c: Array, z: Array, beta: float, factor: float, lengths: float | None = None
) -> bool:
    """Is |gap| within ``factor`` times the usual rounding error of <c, z> - beta?

    ``lengths`` is |c||z|, where it is known.
    """
    tolerance = factor * arrays.epsilon(c) * (1.0 + 0.1 * math.sqrt(c.shape[0]))
    if abs(gap) <= tolerance * abs(beta):
        return True
    if lengths is None:
        lengths = arrays.norm(c) * arrays.norm(z)
    if abs(gap) > tolerance * (lengths + abs(beta)):
        return False  # these two spare most of the sums below
    terms = c * z
    sizes = into(terms, "abs", terms)
    return abs(gap) <= tolerance * (float(namespace(c).sum(sizes)) + abs(beta))


# --- small pieces


def into(out: Array | None, name: str, *operands: Any) -> Array:
    """The elementwise function of that name, written into ``out`` where the library can do that.

    For long vectors fresh memory costs more than the arithmetic.
    """
    first = operands[0]
    if type(first) is np.ndarray:
        return getattr(np, name)(*operands, out=out)
    function = getattr(namespace(first), name)
    return function(*(like(o, first) if isinstance(o, float) else o for o in operands))


def masked(out: Array | None, x: Array, mask: Array) -> Array:
    """x where the mask is true, elsewhere 0."""
    numpy = type(x) is np.ndarray
    return into(out, "multiply", x, mask if numpy else namespace(x).astype(mask, x.dtype))


def moved(x: Array, mu: float, c: Array, out: Array | None = None) -> Array:
    """x - mu c."""
    if type(x) is not np.ndarray:
        return arrays.plus(x, c, -mu)
    v = into(out, "multiply", c, -mu)
    v += x
    return v


def smallest_normal(x: Array) -> float:
    """The smallest number of the type of ``x`` that has full precision."""
    if arrays.epsilon(x) == sys.float_info.epsilon:
        return sys.float_info.min
    return float(namespace(x).finfo(x.dtype).smallest_normal)


def negligible(x: Array) -> float:
    """Entries of a vector of length 1 up to this count as zero: dividing by them may overflow."""
    return smallest_normal(x) * 2.0**23


def ldexp(value: float, exponent: int) -> float:
    """value 2^exponent, or the largest finite number of the same sign."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(sys.float_info.max, value)


def shrunk(length: float, exponent: int) -> float:
    """length 2^exponent, but not 0."""
    return max(length * 2.0**exponent, sys.float_info.min)


def assign(domain: object, name: str, value: object) -> None:
    """Set an attribute of a frozen dataclass, in its __post_init__."""
    object.__setattr__(domain, name, value)
