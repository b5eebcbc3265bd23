"""Sets given by constraints: second-order cones, and intersections of sets.

Projecting onto a set in this module is an optimisation problem, too expensive for every step of a
first-order method. These sets are therefore domains for the "conic" and "exact" methods, which
handle constraints directly.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np

from tiebreak.linalg import Refusal, arrays, checks, tables
from tiebreak.linalg.arrays import SAFE, Array, norm, to_numpy
from tiebreak.linalg.conic_form import ConicForm, row_lengths
from tiebreak.linalg.fingerprints import assign, known, remember
from tiebreak.linalg.host import host
from tiebreak.linalg.sizes import QUICK_SIDE
from tiebreak.sets.balls import Ball
from tiebreak.sets.base import INFINITY, Domain, Set, Violation
from tiebreak.sets.boxes import Box
from tiebreak.sets.descriptions import Bounds, LinearRows, RecessionDirections, stacked
from tiebreak.sets.domains import Constraints, Space
from tiebreak.sets.polyhedra import host_matrix


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SecondOrderCone(Constraints):
    """{x : |A x + b| <= <c, x> + d}; b and c are zero if None.

    With c = 0 the set is an ellipsoid or a cylinder, |A x + b| <= d. A is dense or a scipy.sparse
    matrix. The set has no cheap projection: it is a domain for the "conic" method.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> domain = tb.SecondOrderCone(np.eye(2), d=1.5)  # |x| <= 1.5
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=domain)
        >>> tb.solve(problem).x.round(4)
        array([1.3536, 0.6464])
    """

    A: Any
    b: Any = None
    c: Any = None
    d: float = 0.0

    def __post_init__(self) -> None:
        remember(self, SecondOrderCone, A=self.A, b=self.b, c=self.c, d=self.d)
        owner, named = "SecondOrderCone", (("A", tables.names(self.A)), ("c", tables.names(self.c)))
        assign(self, "names", tables.common(owner, *named))
        A = host_matrix(owner, "A", self.A)
        if A.shape[0] == 0:
            raise ValueError(f"{owner}: A must be a matrix with at least one row, got none")
        for name, size, what in (("b", A.shape[0], "row of A"), ("c", A.shape[1], "column of A")):
            given = getattr(self, name)
            found = np.zeros(size) if given is None else host(checks.vector(owner, name, given))
            assign(self, name, checks.length(owner, name, found, size, what))
        assign(self, "A", A)
        assign(self, "d", checks.finite(owner, "d", self.d))
        least = 0.0 if abs(self.A).max() > 0.0 else norm(self.b)
        if not self.c.any() and self.d < least:
            raise ValueError(
                f"{owner}: d must be at least {least:g} if c is zero, got {self.d:g}: "
                "no x is in the set"
            )

    def __repr__(self) -> str:
        return f"SecondOrderCone({self.A.shape[0]} rows, {self.A.shape[1]} variables)"

    @property
    def dimension(self) -> int:
        return int(self.A.shape[1])

    def check(self, n: int) -> None:
        """Raise ValueError if A does not have ``n`` columns."""
        if self.dimension != n:
            raise ValueError(
                f"SecondOrderCone: A must have one column per variable ({n}), got {self.dimension}"
            )

    def conic_form(self, form: ConicForm) -> None:
        form.second_order(form.of_x(self.c[None], self.d), form.of_x(self.A, self.b))

    def necessary_rows(self, n: int) -> LinearRows:
        """<c, x> + d is non-negative."""
        return LinearRows(n, -self.c[None], [self.d])

    def recession(self, n: int) -> RecessionDirections:
        if self.c.any():
            return RecessionDirections(curves=((self.A, self.c),))
        return RecessionDirections(rows=(self.A, -self.A))

    def bounds_in(self, n: int) -> Bounds:
        """|x| is bounded if A has least singular value s > |c|: s |x| - |b| <= |c| |x| + d."""
        radius = INFINITY
        if self.A.shape[0] >= n and self.A.shape[0] * n <= QUICK_SIDE**2:
            A = self.A.toarray() if arrays.is_sparse(self.A) else self.A
            sizes = np.linalg.svd(A, compute_uv=False)
            spare = sizes[-1] - (SAFE - 1.0) * sizes[0] - norm(self.c) * SAFE
            if spare > 0.0:
                radius = max(self.d + norm(self.b), 0.0) / float(spare) * SAFE
        return Bounds(-radius, radius, radius)

    @cached_property
    def steepness(self) -> float:
        """A Lipschitz constant of |A x + b| - <c, x> - d."""
        return norm(row_lengths(self.A)) + norm(self.c)

    def excess(self, x: Array) -> float:
        """The violation of the inequality, divided by the Lipschitz constant `steepness`."""
        return sum(one.amount for one in self.violations(x)) / (self.steepness or 1.0)

    def violations(self, x: Array) -> list[Violation]:
        """The set's only inequality, if x violates it."""
        at = host(x)
        image, right = self.A @ at + self.b, float(self.c @ at) + self.d
        size, length = norm(abs(self.A) @ np.abs(at) + np.abs(self.b)), norm(at)
        size += float(np.abs(self.c) @ np.abs(at)) + abs(self.d)
        off = norm(image) - right
        found = Violation("the second-order cone", off, size, self.steepness * length)
        return [] if off <= 0.0 else [found]

    def distance_outside(self, x: Array, unit: float) -> float:
        """Return 0 if the inequality certainly holds, otherwise inf."""
        at, unit = host(x), 2.0 * unit + arrays.rounding_unit(2.0**-52, len(self.b))
        image, size = self.A @ at + self.b, norm(at)
        terms = norm(row_lengths(self.A)) * size + norm(self.b) + norm(self.c) * size + abs(self.d)
        off = norm(image) - float(self.c @ at) - self.d + 4.0 * unit * terms
        return 0.0 if off <= 0.0 else INFINITY

    def support(self, direction: Array) -> float:
        """Return 0 for the zero direction; for any other, inf, because no bound is known."""
        return 0.0 if arrays.max_abs(direction) == 0.0 else INFINITY


@dataclasses.dataclass(frozen=True, eq=False, init=False, repr=False)
class Intersection(Constraints, in_tables=False):
    """The points that several sets have in common, written ``Ball(1.0) & Polyhedron(A, b)``.

    Nested intersections are flattened. Two sets whose intersection is another set of the library,
    such as two boxes, are merged: ``Box(0, 1) & Box(0, 2)`` is a Box. All other intersections have
    no cheap projection: they are domains for the "conic" method, and for the "exact" method if all
    parts are polyhedra.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> domain = tb.Ball(2.0) & tb.Polyhedron([[1, -1]], [1])  # and x_1 <= x_2 + 1
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=domain)
        >>> tb.solve(problem).x.round(4)
        array([1.5, 0.5])
    """

    sets: tuple[Set, ...]

    def __init__(self, *sets: Set) -> None:
        remember(self, Intersection, sets=sets)
        if not sets:
            raise ValueError("Intersection: sets must contain at least one set, got none")
        for one in sets:
            if isinstance(one, type) or not isinstance(one, Set):
                needed = "sets must be domains of tiebreak, passed one by one, such as Ball(1.0)"
                raise TypeError(f"Intersection: {needed}, got {checks.what_it_is(one)}")
        assign(self, "sets", _merged("Intersection", sets))
        named = tuple((type(one).__name__, one.names) for one in self.sets)
        assign(self, "names", tables.common("Intersection", *named, what="names"))

    @property
    def parts(self) -> tuple[Set, ...]:
        return self.sets

    @property
    def is_linear(self) -> bool:
        return all(one.is_linear for one in self.sets)

    @property
    def is_conic(self) -> bool:
        return all(one.is_conic for one in self.sets)

    def linear_rows(self, n: int) -> LinearRows | None:
        """The rows of all parts, if the parts have no other constraints."""
        found = [rows for one in self.sets if (rows := one.linear_rows(n)) is not None]
        if len(found) < len(self.sets):
            return None
        A, A_eq = (stacked([getattr(rows, name) for rows in found], n) for name in ("A", "A_eq"))
        b, b_eq = (np.hstack([getattr(rows, name) for rows in found]) for name in ("b", "b_eq"))
        return LinearRows(n, A, b, A_eq, b_eq)

    def __repr__(self) -> str:
        return f"Intersection({', '.join(map(repr, self.sets))})"

    def check(self, n: int) -> None:
        """Raise ValueError if a part does not fit dimension ``n``."""
        for one in self.sets:
            one.check(n)

    @property
    def dimension(self) -> int | None:
        return next((one.dimension for one in self.sets if one.dimension is not None), None)

    @property
    def diameter(self) -> float:
        """An upper bound: the smallest diameter of the parts."""
        return min(one.diameter for one in self.sets)

    def diameter_in(self, n: int) -> float:
        """An upper bound: the smallest diameter of the parts."""
        return min(one.diameter_in(n) for one in self.sets)

    def farthest(self, x: Array) -> float:
        """An upper bound: the smallest such distance over the parts."""
        return min(one.farthest(x) for one in self.sets)

    def excess(self, x: Array) -> float:
        """The largest distance from x to a part, or a lower bound on this distance."""
        return max(one.excess(x) for one in self.sets)

    def violations(self, x: Array) -> list[Violation]:
        """The violations of all parts."""
        return [found for one in self.sets for found in one.violations(x)]

    def distance_outside(self, x: Array, unit: float) -> float:
        """Return 0 if x is certainly in every part; else inf: parts may meet at a small angle."""
        is_inside = all(one.distance_bound(x) == 0.0 for one in self.sets)
        return 0.0 if is_inside else INFINITY

    def support(self, direction: Array) -> float:
        """A bound on max <direction, z>: the smallest of the parts' bounds."""
        return min(one.support(direction) for one in self.sets)


def arrays_of(domain: Any) -> list[Array]:
    """The arrays among the fields of a set."""
    if isinstance(domain, Intersection):
        return [found for one in domain.sets for found in arrays_of(one)]
    known = dataclasses.fields(domain) if dataclasses.is_dataclass(domain) else ()
    return [v for v in (getattr(domain, one.name) for one in known) if arrays.is_array(v)]


# -- intersections --------------------------------------------------------------------------------


def intersection(owner: str, *sets: Domain) -> Domain:
    """The intersection of the sets: one of the library's sets if possible, else an Intersection."""
    found = _merged(owner, sets)
    return found[0] if len(found) == 1 else Intersection(*found)


def _merged(owner: str, sets: tuple[Set, ...]) -> tuple[Set, ...]:
    """The distinct parts of the sets; two parts whose intersection is a library set are merged."""
    found: list[Set] = []
    for one in (part for given in map(known, sets) for part in given.parts):
        for i, other in enumerate(found):
            if (both := common_set(owner, other, one)) is not None:
                found[i] = both
                break
        else:
            found.append(one)
    return tuple(found)


def common_set(owner: str, first: Domain, second: Domain) -> Domain | None:
    """The intersection of two sets if it is a set of the library; otherwise None."""
    if isinstance(first, Space) or first is second:
        return second
    if isinstance(second, Space) or (type(first) is type(second) and first == second):
        return first
    if isinstance(first, Box) and isinstance(second, Box):
        return _common_box(owner, first, second)
    balls = [ball for ball in (first, second) if isinstance(ball, Ball) and is_centred(ball)]
    return min(balls, key=lambda ball: ball.radius) if len(balls) == 2 else None


def _common_box(owner: str, first: Box, second: Box) -> Box:
    bounds = [to_numpy(b) for b in (first.lower, second.lower, first.upper, second.upper)]
    sizes = {bound.shape[0] for bound in bounds if bound.ndim}
    if len(sizes) > 1:
        needed, got = "must have the same number of variables", f"{min(sizes)} and {max(sizes)}"
        raise Refusal(owner, "the two boxes", needed, got)
    lower, upper = np.maximum(*bounds[:2]), np.minimum(*bounds[2:])
    if np.any(lower > upper):
        raise Refusal(owner, "the two boxes", "must have a point in common")
    return Box(*(b if b.ndim else float(b) for b in (lower, upper)))


def is_centred(ball: Ball) -> bool:
    """Is the center of the ball the origin?"""
    return ball.center is None or arrays.max_abs(ball.center) == 0.0
