"""Sets by their constraints: linear ones, second-order cones, and intersections of sets.

Their projections are optimisation problems themselves, too long for every step of a first-order
method: they are domains for the methods that take constraints as they are, "conic" and "exact".
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tiebreak.linalg import arrays, checks, tables
from tiebreak.linalg.arrays import Array, Host, like, norm, to_numpy
from tiebreak.linalg.fingerprints import assign, remember
from tiebreak.linalg.host import host
from tiebreak.linalg.refusals import Refusal
from tiebreak.sets.balls import Ball
from tiebreak.sets.boxes import Box
from tiebreak.sets.cuts import INFINITY, Set
from tiebreak.sets.domains import Domain, Space, distance_bound


class _Constraints(Set):
    """What the sets without a cheap projection have in common."""

    has_projection: ClassVar[bool] = False

    def project(self, x: Array) -> Array:
        """x itself where it is in the set; elsewhere a ValueError: no projection is computed."""
        if self.contains(x):
            return x
        raise ValueError(
            f"{type(self).__name__}: x must be in the set, whose projection is not computed, "
            "got a point outside; the methods conic and exact need none"
        )

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Is every constraint met, up to ``tol`` times the lengths in it?"""
        return arrays.all_finite(x) and self.excess(x) <= tol * max(norm(x), self.length_scale)

    def excess(self, x: Array) -> float:
        """How far x is outside at least, by the constraint that it violates most."""
        raise NotImplementedError

    def argmin(self, direction: Array) -> Array:
        raise ValueError(
            f"{type(self).__name__}: direction must be asked of a set with a formula or a linear "
            "program; the method conic takes Linear(direction) as an objective"
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Polyhedron(_Constraints):
    """{x : A x <= b, A_eq x = b_eq}, where one of the two pairs may be left out.

    Matrices are dense or of scipy.sparse. An entry inf of b is no constraint, and its row is left
    out. The set has no cheap projection: it is a domain for the methods "conic" and "exact".
    """

    A: Any = None
    b: Any = None
    A_eq: Any = None
    b_eq: Any = None

    def __post_init__(self) -> None:
        remember(self, Polyhedron, A=self.A, b=self.b, A_eq=self.A_eq, b_eq=self.b_eq)
        named = (("A", tables.names(self.A)), ("A_eq", tables.names(self.A_eq)))
        assign(self, "names", tables.common("Polyhedron", *named))
        below, equal = _rows("A", self.A, "b", self.b), _rows("A_eq", self.A_eq, "b_eq", self.b_eq)
        if below is None and equal is None:
            raise ValueError("Polyhedron: A and b, or A_eq and b_eq, must be given, got none")
        (A, b), (A_eq, b_eq) = below or _no_rows(equal), equal or _no_rows(below)
        if A.shape[1] != A_eq.shape[1]:
            raise ValueError(
                "Polyhedron: A and A_eq must have the same number of columns, "
                f"got {A.shape[1]} and {A_eq.shape[1]}"
            )
        is_needed = b < INFINITY
        A, b = (A, b) if is_needed.all() else (A[is_needed], b[is_needed])
        for name, value in (("A", A), ("b", b), ("A_eq", A_eq), ("b_eq", b_eq)):
            assign(self, name, value)
        self._check_zero_rows()

    def _check_zero_rows(self) -> None:
        """Raise ValueError where a row of zeros has no solution."""
        for name, offset, is_empty in (
            ("b", self.b, (self.lengths[0] == 0.0) & (self.b < 0.0)),
            ("b_eq", self.b_eq, (self.lengths[1] == 0.0) & (self.b_eq != 0.0)),
        ):
            if is_empty.any():
                i, needed = int(np.argmax(is_empty)), "at least 0" if name == "b" else "0"
                raise ValueError(
                    f"Polyhedron: {name} must be {needed} where a row of zeros belongs to it, "
                    f"got {offset[i]:g}: no x is in the set"
                )

    def __repr__(self) -> str:
        rows = f"{self.b.shape[0]} inequalities, {self.b_eq.shape[0]} equations"
        return f"Polyhedron({rows}, {self.variables} variables)"

    @property
    def variables(self) -> int:
        """How many there are."""
        return int(self.A.shape[1])

    @cached_property
    def lengths(self) -> tuple[Host, Host]:
        """Of the rows of A, and of those of A_eq."""
        return _lengths(self.A), _lengths(self.A_eq)

    @cached_property
    def bounds(self) -> tuple[Host, Host]:
        """Bounds of each variable, from the rows with one entry alone; -inf and inf without one."""
        low, high = np.full(self.variables, -INFINITY), np.full(self.variables, INFINITY)
        equal = [(sign * self.A_eq, sign * self.b_eq) for sign in (1.0, -1.0)]
        for rows, offset in ((self.A, self.b), *equal):
            single, which, entry = _single_entries(rows)
            bound = offset[single] / entry
            up = entry > 0.0
            np.minimum.at(high, which[up], np.nextafter(bound[up], INFINITY))
            np.maximum.at(low, which[~up], np.nextafter(bound[~up], -INFINITY))
        return low, high

    def diameter_in(self, n: int) -> float:
        """A bound on the diameter, finite where rows with one entry alone bound every variable."""
        low, high = self.bounds
        return norm(np.maximum(high - low, 0.0))

    def farthest(self, x: Array) -> float:
        """A bound on max |z - x|, from the same bounds."""
        (low, high), at = self.bounds, host(x)
        return norm(np.maximum(abs(at - low), abs(high - at)))

    def check(self, n: int) -> None:
        """Raise ValueError if the matrices have not ``n`` columns."""
        if self.variables != n:
            name = "A" if self.b.shape[0] else "A_eq"
            raise ValueError(
                f"Polyhedron: {name} must have one column per variable ({n}), got {self.variables}"
            )

    @cached_property
    def length_scale(self) -> float:
        """The largest distance of a plane from the origin."""
        offsets = np.append(self.b, self.b_eq)
        lengths = np.concatenate(self.lengths)
        distances = np.abs(offsets[lengths > 0.0]) / lengths[lengths > 0.0]
        return float(np.max(distances, initial=0.0))

    def excess(self, x: Array) -> float:
        """The largest distance of x from a half-space or a plane of the set."""
        at = host(x)
        off = np.append(np.maximum(self.A @ at - self.b, 0.0), abs(self.A_eq @ at - self.b_eq))
        lengths = np.concatenate(self.lengths)
        return float(np.max(off[lengths > 0.0] / lengths[lengths > 0.0], initial=0.0))

    def distance_outside(self, x: Array, unit: float) -> float:
        """0 where all constraints surely hold, otherwise inf: the angles between them decide."""
        at = host(x)
        if self.b_eq.shape[0]:
            return INFINITY
        errors = unit * (abs(self.A) @ abs(at) + abs(self.b))
        return 0.0 if bool(np.all(self.A @ at - self.b + errors <= 0.0)) else INFINITY

    def support(self, direction: Array) -> float:
        """max <direction, z> by a linear program, inf where it is unbounded."""
        try:
            return float(host(direction) @ host(self.argmin(-direction)))
        except Unbounded:
            return INFINITY

    def argmin(self, direction: Array) -> Array:
        """A vertex where <direction, .> is smallest, by a linear program (HiGHS)."""
        found = self._program(host(direction))
        return like(found, direction)

    def _program(self, c: Host) -> Host:
        from scipy.optimize import linprog

        for presolve in (True, False):  # without it HiGHS knows what it is that fails
            found = linprog(
                c, self.A, self.b, self.A_eq, self.b_eq, (None, None), "highs",
                options={"presolve": presolve},
            )  # fmt: skip
            if found.status in (0, 2):
                break
        if found.status == 2:
            raise self.is_empty()
        if found.status == 3:
            raise Unbounded(str(self.no_minimiser()))
        if found.status != 0:
            raise ValueError(f"Polyhedron: the linear program was not solved ({found.message})")
        return np.asarray(found.x, dtype=np.float64)

    def is_empty(self) -> ValueError:
        """What is raised where no x meets the constraints."""
        return ValueError(
            f"{type(self).__name__}: the constraints must have a point in common, got none"
        )


class Unbounded(ValueError):
    """A linear function has no minimiser on a set."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SecondOrderCone(_Constraints):
    """{x : |A x + b| <= <c, x> + d}; b and c are zeros where they are None.

    With c = 0 an ellipsoid or a cylinder: |A x + b| <= d. A is dense or of scipy.sparse. The set
    has no cheap projection: it is a domain for the method "conic".
    """

    A: Any
    b: Any = None
    c: Any = None
    d: float = 0.0

    def __post_init__(self) -> None:
        remember(self, SecondOrderCone, A=self.A, b=self.b, c=self.c, d=self.d)
        owner, named = "SecondOrderCone", (("A", tables.names(self.A)), ("c", tables.names(self.c)))
        assign(self, "names", tables.common(owner, *named))
        A = _matrix(owner, "A", self.A)
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
                f"{owner}: d must be at least {least:g} where c is zero, got {self.d:g}: "
                "no x is in the set"
            )

    def __repr__(self) -> str:
        return f"SecondOrderCone({self.A.shape[0]} rows, {self.A.shape[1]} variables)"

    @property
    def variables(self) -> int:
        """How many there are."""
        return int(self.A.shape[1])

    def check(self, n: int) -> None:
        """Raise ValueError if A has not ``n`` columns."""
        if self.variables != n:
            raise ValueError(
                f"SecondOrderCone: A must have one column per variable ({n}), got {self.variables}"
            )

    @cached_property
    def steepness(self) -> float:
        """A Lipschitz constant of |A x + b| - <c, x> - d."""
        return norm(_lengths(self.A)) + norm(self.c)

    @property
    def length_scale(self) -> float:
        return (norm(self.b) + abs(self.d)) / self.steepness if self.steepness else 0.0

    def excess(self, x: Array) -> float:
        """By how much the inequality is violated, in units of its steepness."""
        at = host(x)
        off = norm(self.A @ at + self.b) - float(self.c @ at) - self.d
        return max(off, 0.0) / (self.steepness or 1.0)

    def distance_outside(self, x: Array, unit: float) -> float:
        """0 where the inequality surely holds, otherwise inf."""
        at, unit = host(x), 2.0 * unit + arrays.rounding_unit(2.0**-52, len(self.b))
        image, size = self.A @ at + self.b, norm(at)
        terms = norm(_lengths(self.A)) * size + norm(self.b) + norm(self.c) * size + abs(self.d)
        off = norm(image) - float(self.c @ at) - self.d + 4.0 * unit * terms
        return 0.0 if off <= 0.0 else INFINITY

    def support(self, direction: Array) -> float:
        """0 for the zero direction; for others no bound is known here, so inf."""
        return 0.0 if arrays.max_abs(direction) == 0.0 else INFINITY


@dataclasses.dataclass(frozen=True, eq=False, init=False, repr=False)
class Intersection(_Constraints):
    """The points that several sets have in common, written ``Ball(1.0) & Polyhedron(A, b)``.

    Intersections of intersections are one. Where two of the sets make another of the library's,
    such as two boxes, that takes their place; of ``Box(0, 1) & Box(0, 2)`` nothing else is left,
    and the result is a Box. All others have no cheap projection: they are domains for the method
    "conic", and for "exact" where all parts are polyhedra.
    """

    sets: tuple[Set, ...]

    def __init__(self, *sets: Set) -> None:
        remember(self, Intersection, sets=sets)
        if not sets:
            raise ValueError("Intersection: sets must be one or more, got none")
        for one in sets:
            if isinstance(one, type) or not isinstance(one, Set):
                needed = "sets must be domains of tiebreak such as Ball(1.0)"
                raise TypeError(f"Intersection: {needed}, got {checks.what_it_is(one)}")
        assign(self, "sets", _merged("Intersection", sets))
        named = tuple((type(one).__name__, one.names) for one in self.sets)
        assign(self, "names", tables.common("Intersection", *named, what="names"))

    def __repr__(self) -> str:
        return f"Intersection({', '.join(map(repr, self.sets))})"

    def check(self, n: int) -> None:
        """Raise ValueError if a part does not fit dimension ``n``."""
        for one in self.sets:
            one.check(n)

    @property
    def diameter(self) -> float:
        """A bound: the least of the parts'."""
        return min(one.diameter for one in self.sets)

    def diameter_in(self, n: int) -> float:
        """A bound: the least of the parts'."""
        return min(one.diameter_in(n) for one in self.sets)

    def farthest(self, x: Array) -> float:
        """A bound: the least of the parts'."""
        return min(one.farthest(x) for one in self.sets)

    @property
    def length_scale(self) -> float:
        return max(one.length_scale for one in self.sets)

    def excess(self, x: Array) -> float:
        """The largest of the parts'."""
        return max(distance_from(one, x) for one in self.sets)

    def distance_outside(self, x: Array, unit: float) -> float:
        """0 where x is surely in every part, otherwise inf: the angles between them decide."""
        is_inside = all(distance_bound(one, x) == 0.0 for one in self.sets)
        return 0.0 if is_inside else INFINITY

    def support(self, direction: Array) -> float:
        """A bound on max <direction, z>: the least of the parts'."""
        return min(one.support(direction) for one in self.sets)


def has_projection(domain: Domain) -> bool:
    """Does the domain project in a time that every step can spend?"""
    return not isinstance(domain, Set) or domain.has_projection


def projected(domain: Domain, x: Array) -> Array:
    """x projected onto the domain; x itself where that has no cheap projection."""
    return domain.project(x) if has_projection(domain) else x


def distance_from(domain: Domain, x: Array) -> float:
    """From x to the domain; where that has no projection, at least so much."""
    if isinstance(domain, _Constraints):
        return domain.excess(x)
    return norm(x - domain.project(x))


def arrays_of(domain: Any) -> list[Array]:
    """The arrays that a set consists of."""
    if isinstance(domain, Intersection):
        return [found for one in domain.sets for found in arrays_of(one)]
    known = dataclasses.fields(domain) if dataclasses.is_dataclass(domain) else ()
    return [v for v in (getattr(domain, one.name) for one in known) if arrays.is_array(v)]


# -- intersections --------------------------------------------------------------------------------


def intersection(owner: str, *sets: Domain) -> Domain:
    """The common part of the sets: one of them or of the library's sets, or an Intersection.

    A Refusal where a set that is none of the library's would have to be intersected.
    """
    found: tuple[Domain, ...] = _merged(owner, sets)
    if len(found) == 1:
        return found[0]
    if not all(isinstance(one, Set) for one in found):
        outside = next(one for one in found if not isinstance(one, Set))
        needed = "must be sets of tiebreak's where there is more than one"
        raise Refusal(owner, "the domains", needed, type(outside).__name__)
    return Intersection(*(one for one in found if isinstance(one, Set)))


def _merged(owner: str, sets: tuple[Any, ...]) -> tuple[Any, ...]:
    """The parts of the sets, none twice; two that make one of the library's sets are that one."""
    parts = [p for one in sets for p in (one.sets if isinstance(one, Intersection) else (one,))]
    found: list[Any] = []
    for part in parts:
        one = part
        for i, other in enumerate(found):
            if (both := common_set(owner, other, one)) is not None:
                found[i] = both
                break
        else:
            found.append(one)
    return tuple(found)


def common_set(owner: str, first: Domain, second: Domain) -> Domain | None:
    """The intersection of two sets where it is one of the library's; None where it is not."""
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
    """Is the origin its center?"""
    return ball.center is None or arrays.max_abs(ball.center) == 0.0


# -- rows -----------------------------------------------------------------------------------------


def _matrix(owner: str, name: str, value: Any) -> Any:
    """On the host in float64: a NumPy array, or csr where it was sparse."""
    matrix = checks.matrix(owner, name, value)
    entries = getattr(matrix, "entries", None)
    if entries is None:
        raise TypeError(
            f"{owner}: {name} must hold its entries in memory, got {checks.what_it_is(value)}"
        )
    return entries.astype(np.float64) if arrays.is_sparse(entries) else host(entries)


def _rows(name: str, matrix: Any, other: str, offset: Any) -> tuple[Any, Host] | None:
    """A matrix and its right-hand side; None where neither is given."""
    if matrix is None and offset is None:
        return None
    if matrix is None or offset is None:
        given, missing = (other, name) if matrix is None else (name, other)
        raise ValueError(f"Polyhedron: {missing} must be given with {given}, got None")
    tables.need_same_rows("Polyhedron", (name, matrix), (other, offset))
    rows = _matrix("Polyhedron", name, matrix)
    found = host(checks.floating("Polyhedron", other, offset))
    if found.ndim != 1:
        got = checks.what_it_is(found)
        raise ValueError(f"Polyhedron: {other} must be a vector, got {got}")
    checks.length("Polyhedron", other, found, rows.shape[0], f"row of {name}")
    is_allowed = np.isfinite(found) | ((found == INFINITY) & (other == "b"))
    if not is_allowed.all():
        i, needed = int(np.argmin(is_allowed)), "finite or inf" if other == "b" else "finite"
        raise ValueError(f"Polyhedron: {other} must be {needed}, got {found[i]} at place {i}")
    return rows, found.copy()


def _no_rows(others: Any) -> tuple[Any, Host]:
    return np.zeros((0, others[0].shape[1])), np.zeros(0)


def _lengths(rows: Any) -> Host:
    """Of each row, safe against overflow."""
    if not arrays.is_sparse(rows):
        largest = np.max(np.abs(rows), axis=1, initial=0.0)
        scale = np.where(largest > 0.0, largest, 1.0)
        return np.asarray(largest * np.sqrt(np.sum((rows / scale[:, None]) ** 2, axis=1)))
    largest = np.asarray(abs(rows).max(axis=1).todense() if rows.shape[0] else []).reshape(-1)
    which = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    scale = np.where(largest > 0.0, largest, 1.0)
    squares = np.bincount(which, (rows.data / scale[which]) ** 2, rows.shape[0])
    return np.asarray(largest * np.sqrt(squares))


def _single_entries(rows: Any) -> tuple[Host, Host, Host]:
    """The rows with one entry other than 0: which they are, where it is and what it is."""
    if arrays.is_sparse(rows):
        coo = rows.tocoo()
        which, where, entries = coo.row, coo.col, coo.data
        which, where, entries = (v[coo.data != 0.0] for v in (which, where, entries))
    else:
        which, where = np.nonzero(rows)
        entries = rows[which, where]
    single = np.bincount(which, minlength=rows.shape[0])[which] == 1
    return which[single], where[single], entries[single]


__all__ = [
    "Intersection",
    "Polyhedron",
    "SecondOrderCone",
    "arrays_of",
    "common_set",
    "distance_from",
    "has_projection",
    "intersection",
    "projected",
]
