"""The projection onto a set Z and a cut {<c, z> <= beta}: one scalar root for every Z.

It is the point z(mu) = Pi_Z(x - mu c) of a path, where mu is 0 or the root of the non-increasing

    gap(mu) = <c, z(mu)> - beta.

For a polyhedral Z the path is piecewise linear: on a piece z moves along -d, where d is the
orthogonal projection of c onto the directions that the piece leaves free, and the slope of the gap
is -<c, d> = -|d|^2.  A set that gives z and |d| for any mu, and its last piece, has its cut
projection from `roots.root`; a set with a closed form uses that.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from tiebreak.linalg import FromData, arrays, assign, in_files, into, ldexp, smallest_normal
from tiebreak.linalg.arrays import Array, Host, dot, namespace
from tiebreak.linalg.conic_form import ConicForm
from tiebreak.sets.descriptions import Bounds, LinearRows, RecessionDirections
from tiebreak.sets.faces import ActiveFace
from tiebreak.sets.roots import PathPoint, past_a_breakpoint, root

INFINITY = math.inf
NEEDED = ("project", "project_cut", "support", "argmin")  # of one set: all are its own, or none

ProjectionPath = Callable[[float], tuple[Array, float, float]]  # mu -> z(mu), <c, z(mu)>, |d(mu)|


class Violation(NamedTuple):
    """A constraint that a point does not meet."""

    what: str  # the constraint in words
    amount: float  # by how much it is violated, in its own units
    size: float  # of its own terms at that point
    reach: float = 0.0  # the length of the point in the same units: a unit of its precision counts

    def exceeds(self, share: float, unit: float) -> bool:
        """Is it more than this share of its own terms, and more than ``unit`` of the reach?"""
        return not self.amount <= max(share * self.size, unit * self.reach)


def violations_of(what: str, excess: Any, size: Any, reach: Any) -> list[Violation]:
    """One for each positive entry of ``excess``; ``what`` is a text with a place for its number."""
    excess, size, reach = np.broadcast_arrays(excess, size, reach)
    return [
        Violation(what.format(i), float(excess[i]), float(size[i]), float(reach[i]))
        for i in np.flatnonzero(~(excess <= 0.0))
    ]


def distance_violation(what: str, x: Array, nearest: Array) -> list[Violation]:
    """The distance from a set whose nearest point to x is known."""
    length = arrays.norm(x)
    off, size = arrays.norm(x - nearest), max(length, arrays.norm(nearest))
    return [] if off == 0.0 else [Violation(what, off, size, length)]


class Set(FromData, is_open=True):
    """What every domain has in common; the formulas are in the domains themselves.

    For the cut a set gives either ``cut_projection`` itself, or ``projection_path`` and
    ``last_piece``. These, and all below `project_cut_with_products`, are for the library's own use.
    """

    names: tuple[Any, ...] | None = None  # of the variables, where a Series of pandas has them
    has_projection: ClassVar[bool] = True  # one that every step of a method can spend the time on
    describing = ("linear_rows", "conic_form", "recession", "bounds_in")

    def without_structure(self, own: tuple[str, ...]) -> Set:
        """A set that answers as this one where its class says how, and otherwise knows nothing."""
        if missing := [name for name in NEEDED if name not in own]:
            raise TypeError(
                f"{type(self).__name__}: {', '.join(missing)} must be its own where "
                f"{', '.join(own)} is, got those of another set, which has other points"
            )
        answers = {
            name: staticmethod(getattr(self, name))
            for name in ("check", *NEEDED, "contains", "farthest", "diameter_in", *self.describing)
            if name == "check" or name in own
        }
        where = {"__module__": type(self).__module__}
        alone: Set = type(type(self).__name__, (Set,), {**answers, **where})()
        assign(alone, "given", self)  # by which a saved run tells it from others
        return alone

    def __and__(self, other: Any) -> Set:
        """The points that both sets have in common: see ``Intersection``."""
        from tiebreak.sets.constraints import intersection

        if not isinstance(other, Set):
            return NotImplemented
        return cast("Set", intersection("Intersection", self, other))

    # --- what a set says of itself, so that nobody needs to know which it is ---

    @property
    def parts(self) -> tuple[Set, ...]:
        """The sets that it is the intersection of."""
        return (self,)

    @property
    def is_linear(self) -> bool:
        """Do linear rows describe it?"""
        return type(self).linear_rows is not Set.linear_rows

    @property
    def is_polyhedral(self) -> bool:
        """The same, perhaps those of a u of which x is an image: see `lifted_rows`."""
        return self.is_linear

    @property
    def is_conic(self) -> bool:
        """Can cones represent it?"""
        return self.is_linear or type(self).conic_form is not Set.conic_form

    def linear_rows(self, n: int) -> LinearRows | None:
        """Linear constraints in R^n that describe the set; None where there are none."""
        return None

    def lifted_rows(self, n: int) -> tuple[Host | None, LinearRows]:
        """Rows of a u whose images lift u are the set; lift is None where u is x itself."""
        rows = self.linear_rows(n)
        assert rows is not None
        return None, rows

    def necessary_rows(self, n: int) -> LinearRows | None:
        """Linear constraints that all points of the set meet; None where none are known."""
        return self.linear_rows(n)

    def conic_form(self, form: ConicForm) -> None:
        """Add the constraints of the set to a conic program; by its linear rows if it has any."""
        rows = self.linear_rows(form.n)
        if rows is None:
            raise NotImplementedError
        rows.add_to(form)

    def recession(self, n: int) -> RecessionDirections | None:
        """The directions in which the set goes on for ever; None: unknown, or none but 0."""
        rows = self.linear_rows(n)
        return None if rows is None else RecessionDirections(rows=(rows.A, rows.A_eq, -rows.A_eq))

    def bounds_in(self, n: int) -> Bounds:
        """Bounds of all points in R^n, other than its linear rows say; infinite if unknown."""
        return Bounds()

    @property
    def is_space(self) -> bool:
        """Is it R^n?"""
        return False

    @property
    def is_cone(self) -> bool:
        """Is t x in the set for every x of it and t >= 0, entry by entry?"""
        return False

    @property
    def as_ball(self) -> tuple[Any, float] | None:
        """Center (None: 0) and radius, where it is a ball; R^n is one of infinite radius."""
        return None

    def sides(self, x: Array) -> tuple[Array, Array] | None:
        """Both bounds of every entry, as arrays like x, where it is a box."""
        return None

    def depth(self, x: Array) -> float:
        """A ball of this radius around x lies in the set; 0 where none is known."""
        return 0.0

    def face_at(self, x: Array) -> ActiveFace | None:
        """The face that x, a point of the set, lies inside of; None: the whole set, or unknown.

        Entries are on a bound where `project` has put them, to the last bit.
        """
        return None

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
        """The point of Z nearest to ``x``."""
        raise NotImplementedError

    def project_with_square(self, x: Array, square: float) -> Array:
        """`project`, where ``square`` = <x, x> is known: a device need not be asked for it."""
        return self.project(x)

    def support(self, direction: Array) -> float:
        """max <direction, z> over z in Z, inf where it is unbounded."""
        raise NotImplementedError

    def argmin(self, direction: Array) -> Array:
        """A minimiser of <direction, .> over Z; ValueError where there is none."""
        raise NotImplementedError

    def farthest(self, x: Array) -> float:
        """max |z - x| over z in Z: here infinite."""
        return INFINITY

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Does ``x`` meet every constraint, up to ``tol`` of that constraint's own terms?"""
        if not arrays.all_finite(x):
            return False
        unit = int(x.shape[0]) * arrays.epsilon(x)
        return not any(one.exceeds(tol, unit) for one in self.violations(x))

    def violations(self, x: Array) -> list[Violation]:
        """The constraints of Z that ``x`` does not meet: here one, the distance from Z."""
        return distance_violation(type(self).__name__, x, self.project(x))

    def project_cut(
        self, x: Array, normal: Array, offset: float, guess: float | None = None
    ) -> tuple[Array, float]:
        """The projection z of ``x`` onto Z ∩ {<normal, z> <= offset}, and the cut's multiplier.

        The multiplier mu >= 0 is finite and z = project(x - mu normal); mu = 0 where the cut does
        not bind.  ``guess``, the multiplier of a similar problem, saves time and changes nothing.

        A zero normal cuts nothing off.  Where the cut leaves nothing of Z, z is the limit for
        mu to infinity: the projection of x onto the points of Z where <normal, .> is smallest.
        """
        return _project_cut(self, x, normal, offset, guess, Products.of(normal, x))

    def project_cut_with_products(
        self, x: Array, normal: Array, offset: float, guess: float | None, known: Products
    ) -> tuple[Array, float]:
        """`project_cut`, where the products are known; that of a subclass, where it has its own."""
        if type(self).project_cut is not Set.project_cut:
            return self.project_cut(x, normal, offset, guess)
        return _project_cut(self, x, normal, offset, guess, known)

    def no_minimiser(self) -> ValueError:
        """What `argmin` raises where a linear function has no minimiser on Z."""
        return ValueError(
            f"{type(self).__name__}: <direction, x> is unbounded below on this set, "
            "so it has no minimiser"
        )

    @property
    def length_scale(self) -> float:
        """The largest parameter of the set that is a length."""
        return 0.0

    @property
    def cancelling_length(self) -> float:
        """The lengths that a projection adds and subtracts again: see `projection_error`."""
        return 0.0

    def distance_outside(self, x: Array, unit: float) -> float | None:
        """A bound on the distance of x from Z; None where the set knows none.

        x is in float64, and ``unit`` is the `rounding_unit` of a sum over its entries.
        """
        return None

    def scaled(self, exponent: int) -> Set:
        """The set 2^exponent Z."""
        return self

    def in_units(self, units: Any) -> Set | None:
        """{u : units u in Z}, entry by entry; None where the set compares the variables."""
        return None

    def extended(self, n: int, lower: Host) -> Set | None:
        """Z in R^n times the vectors above these bounds, with a projection; None: not known."""
        return None

    def preimage(self, z: Array) -> Array:
        """A point whose projection is z, if possible with the same face of Z all around it."""
        return z

    def cut_projection(
        self, x: Array, c: Array, beta: float, guess: float, known: Products
    ) -> CutProjection:
        """The projection; nothing is so large that squares overflow."""
        gap = _LinearGap(self, x, c, beta)
        mu, _exact = root(gap, guess)
        return CutProjection(gap.z, mu, gap.met)

    def projection_path(self, x: Array, c: Array) -> ProjectionPath:
        """The function mu -> z(mu), <c, z(mu)>, |d(mu)|."""
        raise NotImplementedError

    def last_piece(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """mu, z(mu), |d(mu)| where the last piece begins, or any mu that is certainly too large."""
        raise NotImplementedError


@in_files("products")
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


class CutProjection(NamedTuple):
    """The projection onto a set and a cut."""

    z: Array
    mu: float
    is_met: bool  # can the cut be met?
    sizes: tuple[float, float] | None = None  # |z|, and of what was added to make z, where known


def _project_cut(
    domain: Set, x: Array, normal: Array, offset: float, guess: float | None, known: Products
) -> tuple[Array, float]:
    """`Set.project_cut`: directly where no square can overflow, which the products tell."""
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
            if mu < INFINITY:
                return z, mu
        return _rescaled(domain, x, normal, offset, guess)


def _rescaled(
    domain: Set, x: Array, normal: Array, offset: float, guess: float | None
) -> tuple[Array, float]:
    """The same, scaled by powers of two that make all magnitudes ordinary."""
    largest = arrays.max_abs(normal)
    if largest < smallest_normal(normal) or offset == INFINITY:
        return domain.project(x), 0.0
    slope = math.frexp(largest)[1]
    c = normal * 2.0**-slope
    beta = ldexp(offset, -slope)
    size = max(arrays.max_abs(x), domain.length_scale)
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
        small_set = domain.scaled(-length) if length else domain
        small_x = x * 2.0**-length if length else x
        known = Products.of(c, small_x)
        z, mu = _refined(small_set, small_x, c, ldexp(beta, -length), start, known)
        if mu < INFINITY or length > 1000:
            break
        length = min(length + 100, 1001)  # z is far larger than x and the set
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
    z, mu, met, sizes = domain.cut_projection(x, c, beta, guess, known)
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
        start = domain.preimage(z) if attempt == 0 else z
        turned = sign * c
        again = Products.of(turned, start)
        closer, extra, closer_met, _ = domain.cut_projection(start, turned, sign * beta, 0.0, again)
        error = arrays.max_abs(x) + mu * arrays.max_abs(c)
        if arrays.max_abs(closer - z) <= 64.0 * arrays.epsilon(x) * error:
            z, mu, met = closer, mu or extra, closer_met
        elif attempt > 0:
            break  # more than an error: beyond what the entries of z can express
    return z, mu


class _LinearGap:
    """gap(mu) = <c, z(mu)> - beta on the path of a set: see `Gap`."""

    def __init__(self, domain: Set, x: Array, c: Array, beta: float) -> None:
        self.domain, self.x, self.c, self.beta = domain, x, c, beta
        self.epsilon = arrays.epsilon(c)
        self.path = domain.projection_path(x, c)
        self.z: Array = None  # at the latest mu, which may overwrite an earlier one
        self.met = True  # can the cut be met?
        self.calls = 0

    def at(self, mu: float) -> PathPoint:
        """The gap at mu, its slope, and |z|^2/2 - <x, z>."""
        self.calls += 1
        self.z, value, slope = self.path(mu)
        # Where Newton's method works, the energy is not needed.
        needed = self.calls > 2 or slope == 0.0
        return PathPoint(mu, value - self.beta, slope, self._energy() if needed else math.nan)

    def _energy(self) -> float:
        """|z - x|^2/2 up to a constant."""
        return 0.5 * dot(self.z, self.z) - dot(self.x, self.z)

    def is_noise(self, gap: float) -> bool:
        return _is_noise(gap, self.c, self.z, self.beta, 8.0)

    def further(self, point: PathPoint, tries: int) -> float | PathPoint:
        """Newton's step, and longer and longer ones; then the last piece."""
        mu = point.mu
        step = 0.1 * mu if point.slope == 0.0 and mu > 0.0 else point.newton - mu
        following = mu + step * 4.0 ** max(0, tries - 1)
        largest = 2.0**-24 / smallest_normal(self.c)
        if following > largest or tries > 8:
            return self.last_piece(mu, largest)
        return past_a_breakpoint(point, following, self.epsilon)

    def last_piece(self, mu: float, largest: float) -> PathPoint:
        """Where the last piece begins if that is past the root, and otherwise the answer."""
        start, self.z, slope = self.domain.last_piece(self.x, self.c)
        last = PathPoint(start, dot(self.c, self.z) - self.beta, slope, self._energy())
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
