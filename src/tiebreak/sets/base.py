"""The base class of sets: all questions that callers may ask; many defaults mean "unknown"."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from tiebreak.linalg import Array, FromData, Host, arrays, assign, checks
from tiebreak.linalg.conic_form import ConicForm
from tiebreak.sets.cuts import (
    CutProjection,
    LinearGap,
    Products,
    ProjectionPath,
    project_cut,
)
from tiebreak.sets.descriptions import ActiveFace, Bounds, LinearRows, RecessionDirections
from tiebreak.sets.roots import root

INFINITY = math.inf
NEEDED = ("project", "project_cut", "support", "argmin")  # a set overrides all four, or none


class Violation(NamedTuple):
    """A constraint that a point violates."""

    what: str  # the constraint in words
    amount: float  # by how much the constraint is violated, in its own units
    size: float  # the size of the constraint's terms at that point
    reach: float = 0.0  # the length of the point in the same units, to account for rounding

    def exceeds(self, share: float, unit: float) -> bool:
        """Does the amount exceed both ``share`` times the size and ``unit`` times the reach?"""
        return not self.amount <= max(share * self.size, unit * self.reach)


def violations_of(
    what: str, excess: Any, size: Any, reach: Any, numbers: Host | None = None
) -> list[Violation]:
    """One violation per positive entry of ``excess``; {} in ``what`` stands for its number.

    Entries are numbered from 0 unless ``numbers`` is given.
    """
    numbers = np.arange(len(excess)) if numbers is None else numbers
    excess, size, reach = np.broadcast_arrays(excess, size, reach)
    return [
        Violation(what.format(numbers[i]), float(excess[i]), float(size[i]), float(reach[i]))
        for i in np.flatnonzero(~(excess <= 0.0))
    ]


class Set(FromData, is_open=True):
    """The base class of all sets; the formulas are in the subclasses.

    The methods of a set must not modify their arguments, nor arrays that they have returned. To
    support cuts, a set defines either ``cut_projection``, or ``projection_path`` and
    ``last_piece``. These methods and everything below `project_cut_with_products` are internal.
    """

    names: tuple[Any, ...] | None = None  # names of the variables, if they come from pandas
    has_projection: ClassVar[bool] = True  # is there a projection fast enough for every step?
    has_argmin: ClassVar[bool] = True  # does argmin find every minimum that exists?
    is_space: ClassVar[bool] = False  # is the set all of R^n?
    _vector_names: ClassVar[tuple[str, ...]] = ()  # names of parameters with an entry per variable
    describing: ClassVar[tuple[str, ...]] = ("linear_rows", "conic_form", "recession", "bounds_in")

    def without_structure(self, own: tuple[str, ...]) -> Set:
        """A copy of the set with only the members that its class defines; the rest is unknown."""
        if missing := [name for name in NEEDED if name not in own]:
            raise TypeError(
                f"{type(self).__name__}: {', '.join(missing)} must be overridden together with "
                f"{', '.join(own)}, got those of another set"
            )
        answers = {
            name: staticmethod(getattr(self, name))
            for name in ("check", *NEEDED, "contains", "farthest", "diameter_in", *self.describing)
            if name == "check" or name in own
        }
        where = {"__module__": type(self).__module__}
        alone: Set = type(type(self).__name__, (Set,), {**answers, **where})()
        assign(alone, "given", self)  # identifies the set in a saved run
        return alone

    def __and__(self, other: Any) -> Set:
        """The points that both sets have in common: see ``Intersection``."""
        from tiebreak.sets.constraints import intersection

        if not isinstance(other, Set):
            return NotImplemented
        return intersection("Intersection", self, other)

    # --- The members below describe a set, so that callers need not know its class. ---

    @property
    def parts(self) -> tuple[Set, ...]:
        """The sets whose intersection is this set; most sets return only themselves."""
        return (self,)

    @property
    def is_linear(self) -> bool:
        """Do linear rows describe the set?"""
        return type(self).linear_rows is not Set.linear_rows

    @property
    def is_polyhedral(self) -> bool:
        """Is the set a polyhedron, possibly given as an image of another one? See `lifted_rows`."""
        return self.is_linear

    @property
    def is_conic(self) -> bool:
        """Can cones represent the set?"""
        return self.is_linear or type(self).conic_form is not Set.conic_form

    def linear_rows(self, n: int) -> LinearRows | None:
        """Linear constraints in R^n that describe the set; None if there are none."""
        return None

    def lifted_rows(self, n: int) -> tuple[Host | None, LinearRows]:
        """The matrix ``lift`` with x = lift u (None if u is x), and linear rows for u."""
        rows = self.linear_rows(n)
        assert rows is not None
        return None, rows

    def row_duals(self, below: Host, equal: Host) -> dict[str, float]:
        """How fast a minimum rises with each row's right-hand side, by the row's name.

        ``below`` and ``equal`` are multipliers of the set's linear rows: slope + A'below +
        A_eq'equal = 0 and below >= 0. The result is empty for a set that was not given by rows.
        """
        return {}

    def necessary_rows(self, n: int) -> LinearRows | None:
        """Linear constraints that hold for all points of the set; None if none are known."""
        return self.linear_rows(n)

    def conic_form(self, form: ConicForm) -> None:
        """Add the constraints of the set to a conic program; by default, its linear rows."""
        rows = self.linear_rows(form.n)
        if rows is None:
            raise NotImplementedError
        rows.add_to(form)

    def recession(self, n: int) -> RecessionDirections | None:
        """The directions in which the set is unbounded; None if unknown, or if there are none."""
        rows = self.linear_rows(n)
        return None if rows is None else RecessionDirections(rows=(rows.A, rows.A_eq, -rows.A_eq))

    def bounds_in(self, n: int) -> Bounds:
        """Bounds on all points in R^n that linear rows do not already give; infinite if unknown."""
        return Bounds()

    @property
    def is_cone(self) -> bool:
        """Is the set a box whose bounds are all 0 or infinite, and therefore a cone?"""
        return False

    @property
    def as_ball(self) -> tuple[Any, float] | None:
        """The center (None for 0) and radius of a ball; R^n is a ball of infinite radius."""
        return None

    def sides(self, x: Array) -> tuple[Array, Array] | None:
        """The lower and upper bounds of all entries of a box, as arrays like x."""
        return None

    def depth(self, x: Array) -> float:
        """The radius of a ball around x that lies in the set; 0 if none is known."""
        return 0.0

    def face_at(self, x: Array) -> ActiveFace | None:
        """The face with x in its relative interior; None if the face is the whole set, or unknown.

        In a box, an entry is on a bound only if it equals the bound, as it does after `project`.
        """
        return None

    @property
    def dimension(self) -> int | None:
        """The number of variables, if the parameters of the set determine it."""
        return next((int(value.shape[0]) for value in self._vectors().values()), None)

    @property
    def diameter(self) -> float:
        """The largest |y - z| over y, z in Z; infinite unless a subclass overrides it."""
        return INFINITY

    def diameter_in(self, n: int) -> float:
        """The diameter of Z in R^n, exact even if ``diameter`` is only a bound."""
        return self.diameter

    def check(self, n: int) -> None:
        """Raise ValueError if the parameters of the set do not fit dimension ``n``."""
        for name, value in self._vectors().items():
            checks.length(type(self).__name__, name, value, n, "variable")

    def _vectors(self) -> dict[str, Array]:
        """The parameters that have an entry per variable; numbers and None are left out."""
        given = {name: getattr(self, name) for name in self._vector_names}
        return {name: value for name, value in given.items() if arrays.is_array(value)}

    def project(self, x: Array) -> Array:
        """The point of Z nearest to ``x``."""
        raise NotImplementedError

    def projected(self, x: Array) -> Array:
        """The projection of x; x itself if there is no cheap projection."""
        return self.project(arrays.copied(x)) if self.has_projection else x

    def project_with_square(self, x: Array, square: float) -> Array:
        """The result of `project`; a known ``square`` = <x, x> saves a transfer from a device."""
        return self.project(x)

    def support(self, direction: Array) -> float:
        """The largest <direction, z> over z in Z; inf if these values are unbounded."""
        raise NotImplementedError

    def argmin(self, direction: Array) -> Array:
        """A minimiser of <direction, .> over Z; ValueError if there is none."""
        raise NotImplementedError

    def farthest(self, x: Array) -> float:
        """The largest |z - x| over z in Z; infinite unless a subclass overrides it."""
        return INFINITY

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Does ``x`` meet every constraint, up to ``tol`` times the size of its terms?"""
        if not arrays.all_finite(x):
            return False
        unit = int(x.shape[0]) * arrays.epsilon(x)
        return not any(one.exceeds(tol, unit) for one in self.violations(x))

    def violations(self, x: Array) -> list[Violation]:
        """The constraints of Z that ``x`` violates; by default a single one, the distance to Z."""
        # If a user's projection overwrites its argument, x must not become its own projection.
        length, nearest = arrays.norm(x), self.project(arrays.copied(x))
        off, size = arrays.norm(x - nearest), max(length, arrays.norm(nearest))
        return [] if off == 0.0 else [Violation(type(self).__name__, off, size, length)]

    def project_cut(
        self, x: Array, normal: Array, offset: float, guess: float | None = None
    ) -> tuple[Array, float]:
        """The projection z of ``x`` onto Z ∩ {<normal, z> <= offset}, and the cut's multiplier.

        The multiplier mu >= 0 is finite and z = project(x - mu normal); mu = 0 if the cut does not
        bind. ``guess``, the multiplier of a similar problem, only saves time.

        A zero normal cuts nothing off. If no point of Z satisfies the cut, z is the limit as mu
        tends to infinity: the projection of x onto the points of Z where <normal, .> is smallest.
        """
        return project_cut(self, x, normal, offset, guess, Products.of(normal, x))

    def project_cut_with_products(
        self, x: Array, normal: Array, offset: float, guess: float | None, known: Products
    ) -> tuple[Array, float]:
        """`project_cut` with known products; a subclass may override either method."""
        if type(self).project_cut is not Set.project_cut:
            return self.project_cut(x, normal, offset, guess)
        return project_cut(self, x, normal, offset, guess, known)

    def no_minimiser(self) -> ValueError:
        """The error that `argmin` raises if a linear function has no minimiser on Z."""
        return ValueError(
            f"{type(self).__name__}: <direction, x> is unbounded below on this set, "
            "so it has no minimiser"
        )

    @property
    def length_scale(self) -> float:
        """The largest length among the set's parameters."""
        return 0.0

    @property
    def cancelling_length(self) -> float:
        """The lengths, besides |z|, of terms that cancel in computing z: see `projection_error`."""
        return 0.0

    def excess(self, x: Array) -> float:
        """The distance from x to Z; only a lower bound on it if the set has no projection."""
        return arrays.norm(x - self.project(arrays.copied(x)))

    def distance_bound(self, x: Array, length: float | None = None) -> float:
        """A bound on the distance from x to Z, with an allowance for rounding errors.

        Every bound on how far outside Z a computed point may be comes from this method. The bound
        is 0 if x is certainly inside. ``length`` is |x|, if already known.
        """
        unit = arrays.rounding_unit(2.0**-52, int(x.shape[0]))
        x = arrays.double(x)
        if not (arrays.all_finite(x) if length is None else math.isfinite(length)):
            return INFINITY
        return self.distance_outside(x, unit)

    def distance_outside(self, x: Array, unit: float) -> float:
        """The result of `distance_bound` for x in float64.

        ``unit`` is the `rounding_unit` of a sum over the entries of x. By default, we assume that
        the projection is as accurate as ours.
        """
        z = self.project(arrays.copied(x))
        return arrays.norm(x - z) + unit * (arrays.norm(x) + arrays.norm(z))

    def projection_error(self, z: Array, size: float) -> float:
        """A bound on the rounding error of a computed projection z that differs from its argument.

        ``size`` = |z|. Errors proportional to the length of the argument are not included.
        """
        unit = arrays.rounding_unit(arrays.epsilon(z), int(z.shape[0]))
        return unit * (size + self.cancelling_length)

    def scaled(self, exponent: int) -> Set:
        """The scaled set 2^exponent Z."""
        return self

    def in_units(self, units: Any) -> Set | None:
        """The set {u : units * u in Z}, entry by entry; None if not implemented for this set."""
        return None

    def extended(self, n: int, lower: Host) -> Set | None:
        """The set {(x, u) : x in Z, u >= lower}, x in R^n; None if not implemented for this set."""
        return None

    def preimage(self, z: Array) -> Array:
        """A point with the projection z; if possible, points near it project onto z's face too."""
        return z

    def cut_projection(
        self, x: Array, c: Array, beta: float, guess: float, known: Products
    ) -> CutProjection:
        """The projection onto the intersection of Z and the cut, if no square overflows."""
        gap = LinearGap(self, x, c, beta)
        mu, _ = root(gap, guess)
        return CutProjection(gap.z, mu, gap.met)

    def projection_path(self, x: Array, c: Array) -> ProjectionPath:
        """The function that maps mu to z(mu), <c, z(mu)> and |d(mu)|."""
        raise NotImplementedError

    def last_piece(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """mu, z(mu) and |d(mu)| at the start of the last piece, or at any sufficiently large mu."""
        raise NotImplementedError


Domain: TypeAlias = Set  # the name of a set in its role as the Z of a problem
