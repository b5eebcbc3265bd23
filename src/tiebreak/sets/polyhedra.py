"""Sets described by linear constraints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tiebreak.linalg import EPS, TOL, assign, checks, remember, rounding_unit, tables
from tiebreak.linalg.arrays import Array, Host, norm, own
from tiebreak.linalg.conic_form import entries, row_lengths
from tiebreak.linalg.host import host
from tiebreak.linalg.linear_programs import last_attempt
from tiebreak.sets.base import INFINITY, Violation, violations_of
from tiebreak.sets.descriptions import LinearRows, stacked
from tiebreak.sets.domains import Constraints


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Polyhedron(Constraints):
    """{x : lower <= A x <= b, A_eq x = b_eq}; A or A_eq may be left out.

    A Polyhedron has no cheap projection: it is a domain for the "conic" and "exact" methods.

    Args:
        A: a matrix, dense or from scipy.sparse.
        b: upper bounds on A x; inf means that a row has none.
        A_eq, b_eq: equations.
        lower: lower bounds on A x; -inf means that a row has none, None that no row has one. A row
            whose two bounds are equal is an equation.
        rows: names for the rows of A, followed by those of A_eq, for reports. If None, the index of
            a pandas table is used, or numbers: "0 of A", "1 of A".

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> domain = tb.Polyhedron([[1, -1]], [0])  # x_1 <= x_2
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=domain)
        >>> tb.solve(problem).x.round(4)
        array([1., 1.])
    """

    A: Any = None
    b: Any = None
    A_eq: Any = None
    b_eq: Any = None
    lower: Any = None
    rows: Sequence[str] | None = None
    has_argmin: ClassVar[bool] = True
    origins: ClassVar[tuple[Host, Host]]  # the user's row from which each row comes
    signs: ClassVar[Host]  # -1 for rows of A that are negated, because they were lower bounds
    counts: ClassVar[tuple[tuple[str, int], ...]]  # the number of rows given for each matrix
    # the last c, and the result of `_least` for it
    _latest: ClassVar[tuple[Any, tuple[Host, float] | None]] = (None, None)

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("A", "b", "A_eq", "b_eq", "lower", "rows")}
        remember(self, Polyhedron, **given)
        named = (("A", tables.names(self.A)), ("A_eq", tables.names(self.A_eq)))
        assign(self, "names", tables.common("Polyhedron", *named))
        b = self.b
        if b is None and self.lower is not None:
            if self.A is None:
                raise ValueError("Polyhedron: A must be given with lower, got None")
            b = np.full(host_matrix("Polyhedron", "A", self.A).shape[0], INFINITY)
        below, equal = _rows("A", self.A, "b", b), _rows("A_eq", self.A_eq, "b_eq", self.b_eq)
        if below is None and equal is None:
            raise ValueError("Polyhedron: A and b, or A_eq and b_eq, must be given, got none")
        (A, b), (A_eq, b_eq) = below or _no_rows(equal), equal or _no_rows(below)
        if A.shape[1] != A_eq.shape[1]:
            raise ValueError(
                "Polyhedron: A and A_eq must have the same number of columns, "
                f"got {A.shape[1]} and {A_eq.shape[1]}"
            )
        assign(self, "rows", _row_names(self.rows, (self.A, len(b)), (self.A_eq, len(b_eq))))
        low = np.full(len(b), -INFINITY) if self.lower is None else _lower(self.A, self.lower, b)
        is_equal = low == b
        up, down = (b < INFINITY) & ~is_equal, (low > -INFINITY) & ~is_equal
        parts = {
            "A_eq": _stacked(A, is_equal, A_eq),
            "b_eq": np.append(b[is_equal], b_eq),
            "A": _stacked(A, up, -A[down]),
            "b": np.append(b[up], -low[down]),
            "origins": (
                np.append(np.flatnonzero(up), np.flatnonzero(down)),
                np.append(np.flatnonzero(is_equal), len(b) + np.arange(len(b_eq))),
            ),
            "counts": (("A", len(b)), ("A_eq", len(b_eq))),
            "signs": np.repeat([1.0, -1.0], [np.count_nonzero(up), np.count_nonzero(down)]),
        }
        for name, value in parts.items():
            assign(self, name, value)
        self._check_zero_rows()

    def _check_zero_rows(self) -> None:
        """Raise ValueError if a row of zeros makes the set empty."""
        for name, offset, is_empty in (
            ("b", self.b, (self.lengths[0] == 0.0) & (self.b < 0.0)),
            ("b_eq", self.b_eq, (self.lengths[1] == 0.0) & (self.b_eq != 0.0)),
        ):
            if is_empty.any():
                i, needed = int(np.argmax(is_empty)), "at least 0" if name == "b" else "0"
                raise ValueError(
                    f"Polyhedron: {name} must be {needed} for a row of zeros, "
                    f"got {offset[i]:g}: no x is in the set"
                )

    def __repr__(self) -> str:
        rows = f"{self.b.shape[0]} inequalities, {self.b_eq.shape[0]} equations"
        return f"Polyhedron({rows}, {self.dimension} variables)"

    @property
    def dimension(self) -> int:
        return int(self.A.shape[1])

    @cached_property
    def lengths(self) -> tuple[Host, Host]:
        """The lengths of the rows of A, and of the rows of A_eq."""
        return row_lengths(self.A), row_lengths(self.A_eq)

    def linear_rows(self, n: int) -> LinearRows:
        words = ("row {}", "row {}")
        return LinearRows(n, self.A, self.b, self.A_eq, self.b_eq, words, self._labels)

    @cached_property
    def row_names(self) -> tuple[str, ...]:
        """The names of the rows of A, then of A_eq, as given."""
        if self.rows is not None:
            return tuple(self.rows)
        return tuple(f"{i} of {name}" for name, count in self.counts for i in range(count))

    @cached_property
    def _labels(self) -> tuple[Host, Host]:
        """The names of the rows of A and of A_eq, in their stored order."""
        names = np.array(self.row_names, dtype=object)
        return names[self.origins[0]], names[self.origins[1]]

    def row_duals(self, below: Host, equal: Host) -> dict[str, float]:
        found = np.zeros(len(self.row_names))
        np.add.at(found, self.origins[0], -self.signs * below)
        np.add.at(found, self.origins[1], -equal)
        return dict(zip(self.row_names, (found + 0.0).tolist(), strict=True))  # -0 becomes 0

    @cached_property
    def bounds(self) -> tuple[Host, Host]:
        """The bounds of each variable from rows with a single entry; infinite if there are none."""
        low, high = np.full(self.dimension, -INFINITY), np.full(self.dimension, INFINITY)
        equal = [(sign * self.A_eq, sign * self.b_eq) for sign in (1.0, -1.0)]
        for rows, offset in ((self.A, self.b), *equal):
            single, which, entry = single_entries(rows)
            bound = offset[single] / entry
            up = entry > 0.0
            np.minimum.at(high, which[up], np.nextafter(bound[up], INFINITY))
            np.maximum.at(low, which[~up], np.nextafter(bound[~up], -INFINITY))
        return low, high

    def diameter_in(self, n: int) -> float:
        """A bound on the diameter, finite if rows with a single entry bound every variable."""
        low, high = self.bounds
        return norm(np.maximum(high - low, 0.0))

    def farthest(self, x: Array) -> float:
        """A bound on max |z - x|, from rows with a single entry."""
        (low, high), at = self.bounds, host(x)
        return norm(np.maximum(abs(at - low), abs(high - at)))

    def check(self, n: int) -> None:
        """Raise ValueError if the matrices do not have ``n`` columns."""
        if self.dimension != n:
            name = "A" if self.b.shape[0] else "A_eq"
            raise ValueError(
                f"Polyhedron: {name} must have one column per variable ({n}), got {self.dimension}"
            )

    def excess(self, x: Array) -> float:
        """The largest distance from x to one of the half-spaces and planes that define the set."""
        at = host(x)
        off = np.append(np.maximum(self.A @ at - self.b, 0.0), abs(self.A_eq @ at - self.b_eq))
        lengths = np.concatenate(self.lengths)
        return float(np.max(off[lengths > 0.0] / lengths[lengths > 0.0], initial=0.0))

    def violations(self, x: Array) -> list[Violation]:
        """The violated rows, with the sizes of their terms."""
        at, found = host(x), []
        for rows, offset, lengths, labels in (
            (self.A, self.b, self.lengths[0], self._labels[0]),
            (self.A_eq, self.b_eq, self.lengths[1], self._labels[1]),
        ):
            off, size = rows @ at - offset, abs(rows) @ np.abs(at) + np.abs(offset)
            off = np.abs(off) if rows is self.A_eq else off
            found += violations_of("row {}", off, size, lengths * norm(at), labels)
        return found

    def distance_outside(self, x: Array, unit: float) -> float:
        """Return 0 if all constraints certainly hold; else inf: rows may meet at a small angle."""
        at = host(x)
        if self.b_eq.shape[0]:
            return INFINITY
        errors = unit * (abs(self.A) @ abs(at) + abs(self.b))
        return 0.0 if bool(np.all(self.A @ at - self.b + errors <= 0.0)) else INFINITY

    def support(self, direction: Array) -> float:
        """An upper bound on the largest <direction, z>; inf if the values are unbounded.

        The bound is proved if rows with a single entry bound every variable: see `_least`.
        """
        found = self._least(-host(direction))
        return INFINITY if found is None else -found[1]

    def argmin(self, direction: Array) -> Array:
        """A vertex that minimises <direction, .>, found by a linear program (HiGHS)."""
        found = self._least(host(direction))
        if found is None:
            raise self.no_minimiser()
        return own(found[0], direction)

    def _least(self, c: Host) -> tuple[Host, float] | None:
        """A vertex x that minimises <c, .>, and a lower bound on the minimum; None if it is -inf.

        HiGHS's vertex is optimal only up to its tolerances, so the bound uses weak duality: for all
        multipliers y >= 0 and y_eq, and r = c + A'y + A_eq'y_eq,

            <c, z>  >=  <r, z> - <y, b> - <y_eq, b_eq>   for all z in the set.

        r is small, and |z_i| is at most the larger of its ``bounds``; |x_i| if they are infinite.
        """
        latest = self._latest
        if not np.array_equal(c, latest[0]):
            assign(self, "_latest", latest := (c.copy(), self._minimised(c)))
        return latest[1]

    def _minimised(self, c: Host) -> tuple[Host, float] | None:
        found = _linear_program(c, self.A, self.b, self.A_eq, self.b_eq)
        if found is None:
            return None
        x, y, y_eq = found
        y, most = np.maximum(y, 0.0), np.maximum(*map(np.abs, self.bounds))
        most = np.where(np.isfinite(most), most, np.abs(x))
        unit = rounding_unit(EPS, len(y) + len(y_eq) + 1, len(c))
        sizes = np.abs(c) + abs(self.A).T @ y + abs(self.A_eq).T @ np.abs(y_eq)
        off = np.abs(c + self.A.T @ y + self.A_eq.T @ y_eq) + unit * sizes
        paid = y @ self.b + y_eq @ self.b_eq + off @ most
        paid += unit * (y @ np.abs(self.b) + np.abs(y_eq) @ np.abs(self.b_eq) + off @ most)
        return x, -float(paid)


NEARNESS = 1e-3  # the depth that a start may lose if it is nearer to 0 by 1, so by three digits


def deepest_point(rows: Host, offset: Host, equal: Host, right: Host) -> tuple[Host, float]:
    """A deep x near 0 with ``rows @ x <= offset`` and ``equal @ x = right``, and its depth.

    The rows have length 1; the depth is the smallest slack of an inequality, capped at 1. In the
    affine subspace of the equations, the set contains the ball around x whose radius is the depth.
    A linear program finds x, up to its tolerance; ValueError if the set is empty.

    x is the deepest point, unless much less depth suffices much nearer to 0: far away, where large
    bounds are only a way to write "none", rounding errors would hide everything else.
    """
    n, depth = rows.shape[1], np.ones((rows.shape[0], 1))
    none = np.zeros((equal.shape[0], 1))
    # x is the difference of two nonnegative vectors, so that their sum is |x|_1.
    wider = np.hstack([rows, -rows, depth]), np.hstack([equal, -equal, none])
    bounds = [(0.0, None)] * (2 * n) + [(0.0, 1.0)]
    cost = np.append(np.full(2 * n, NEARNESS), -1.0)
    found = _linear_program(cost, wider[0], offset, wider[1], right, bounds)
    # The depth is bounded, so there is a maximum.
    assert found is not None
    return found[0][:n] - found[0][n : 2 * n], float(found[0][-1])


def _linear_program(
    c: Host, A: Any, b: Host, A_eq: Any, b_eq: Host, bounds: Any = (None, None)
) -> tuple[Host, Host, Host] | None:
    """A minimiser from HiGHS, and multipliers of the inequalities and equations.

    None if the minimum is -inf; ValueError if no point is feasible.
    """
    top = float(np.max(np.abs(c), initial=0.0)) or 1.0  # HiGHS's tolerances are absolute
    found = last_attempt(c / top, A_ub=A, b_ub=b, A_eq=A_eq, b_eq=b_eq, bounds=bounds)
    if found.success:
        of_rows = found.ineqlin.marginals, found.eqlin.marginals
        return np.asarray(found.x), -top * of_rows[0], -top * of_rows[1]
    if found.status == 2:
        raise EmptySet(NO_POINT)
    if found.status == 3:
        return None
    raise ValueError(f"Polyhedron: the linear program was not solved ({found.message})")


class EmptySet(ValueError):
    """Raised if no x satisfies the constraints."""


NO_POINT = "Polyhedron: the constraints must have a point in common, got none"


def contradicts(A: Any, b: Host, A_eq: Any, b_eq: Host, y: Host, y_eq: Host) -> bool:
    """Do the multipliers show that no x has A x <= b and A_eq x = b_eq?

    For y >= 0, every such x would satisfy (y'A + y_eq'A_eq) x <= y'b + y_eq'b_eq. This is
    impossible if the slope on the left is 0 in every entry, up to the rounding of its terms, and
    the right side is so negative that the tolerance for feasible points cannot explain it.
    """
    slope, terms = A.T @ y + A_eq.T @ y_eq, abs(A).T @ np.abs(y) + abs(A_eq).T @ np.abs(y_eq)
    right, size = b @ y + b_eq @ y_eq, np.abs(b) @ np.abs(y) + np.abs(b_eq) @ np.abs(y_eq)
    unit = TOL.clear_units * EPS * (len(y) + len(y_eq) + 8)
    is_balanced = np.all(y >= 0.0) and np.all(np.abs(slope) <= unit * terms)
    return bool(is_balanced and right < -TOL.accurate * size)


# -- rows -----------------------------------------------------------------------------------------


def host_matrix(owner: str, name: str, value: Any) -> Any:
    """A matrix on the host in float64: a NumPy array, or CSR if it was sparse."""
    matrix = checks.matrix(owner, name, value)
    if not matrix.is_at_hand:
        got = checks.what_it_is(value)
        raise TypeError(f"{owner}: {name} must hold its entries in memory, got {got}")
    return matrix.on_host()


def _rows(name: str, matrix: Any, other: str, offset: Any) -> tuple[Any, Host] | None:
    """A matrix and its right-hand side; None if neither is given."""
    if matrix is None and offset is None:
        return None
    if matrix is None or offset is None:
        given, missing = (other, name) if matrix is None else (name, other)
        raise ValueError(f"Polyhedron: {missing} must be given with {given}, got None")
    rows = host_matrix("Polyhedron", name, matrix)
    found = _sides((name, matrix), (other, offset), rows.shape[0])
    is_allowed = np.isfinite(found) | ((found == INFINITY) & (other == "b"))
    if not is_allowed.all():
        i, needed = int(np.argmin(is_allowed)), "finite or inf" if other == "b" else "finite"
        raise ValueError(f"Polyhedron: {other} must be {needed}, got {found[i]} at index {i}")
    return rows, found.copy()


def _sides(of: tuple[str, Any], given: tuple[str, Any], count: int) -> Host:
    """The named bounds ``given`` as a vector with an entry per row of the named matrix ``of``."""
    tables.need_same_rows("Polyhedron", of, given)
    found = host(checks.floating("Polyhedron", *given))
    if found.ndim != 1:
        got = checks.what_it_is(found)
        raise ValueError(f"Polyhedron: {given[0]} must be a vector, got {got}")
    checks.length("Polyhedron", given[0], found, count, f"row of {of[0]}")
    return found


def _lower(matrix: Any, lower: Any, upper: Host) -> Host:
    """The lower bounds of A x, after checking that none exceeds its upper bound."""
    found = _sides(("A", matrix), ("lower", lower), len(upper))
    is_allowed = found <= upper  # False for NaN
    if not is_allowed.all() or np.any(found == INFINITY):
        i = int(np.argmin(is_allowed & (found < INFINITY)))
        needed = f"-inf or a number up to b ({upper[i]:g})"
        raise ValueError(f"Polyhedron: lower must be {needed}, got {found[i]} at index {i}")
    return found


def _row_names(given: Sequence[str] | None, *parts: tuple[Any, int]) -> tuple[str, ...] | None:
    """The names of the rows from the user or from tables; None if names are missing or repeated.

    ``parts`` are A and A_eq, each with its number of rows.
    """
    if given is None:
        indices = [() if not count else tables.row_names(matrix) for matrix, count in parts]
        if None in indices:
            return None
        names = tuple(name for index in indices for name in index or ())
        return names if len(set(names)) == len(names) else None
    count = sum(count for _, count in parts)
    needed = f"Polyhedron: rows must be names, one per row ({count}), got "
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(needed + (repr(given) if isinstance(given, str) else type(given).__name__))
    names = tuple(map(str, given))
    if len(names) != count:
        raise ValueError(f"{needed}{len(names)}")
    if len(set(names)) < count:
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"Polyhedron: rows must have different names, got {twice!r} twice")
    return names


def _stacked(A: Any, which: Host, below: Any) -> Any:
    """The rows ``which`` of A, stacked on ``below``; not a copy if the result equals A."""
    if not below.shape[0]:
        return A if which.all() else A[which]
    if not which.any():
        return below
    return stacked([A[which], below], A.shape[1])


def _no_rows(others: Any) -> tuple[Any, Host]:
    return np.zeros((0, others[0].shape[1])), np.zeros(0)


def single_entries(rows: Any) -> tuple[Host, Host, Host]:
    """The rows with a single nonzero entry: row indices, column indices, and values."""
    which, where, values = entries(rows)
    single = np.bincount(which, minlength=rows.shape[0])[which] == 1
    return which[single], where[single], values[single]
