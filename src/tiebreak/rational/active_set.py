"""Solve one level in rational arithmetic by an active-set method, from a floating-point guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.program import Cone, Objective
from tiebreak.conic.solver import clarabel_solve
from tiebreak.linalg import TOL, Host, deadline
from tiebreak.rational.arithmetic import (
    Row,
    Unproved,
    Vector,
    independent,
    over_one_unit,
    pivot_columns,
    product,
    solve,
)

EMPTY = "no point satisfies all constraints exactly"


@dataclass(frozen=True)
class Form:
    """The function (½x'Hx + <c, x>) / scale + constant: H and c are integer, H semidefinite."""

    hessian: tuple[Row, ...]  # the rows of H; empty if H is 0
    linear: Row
    scale: Fraction
    constant: Fraction = Fraction(0)

    def slope(self, x: Vector) -> Vector:
        """The gradient times ``scale``."""
        found = [x.unit * self.linear.get(j, 0) for j in range(len(x.numbers))]
        for j, row in enumerate(self.hessian):
            found[j] += product(row, x.numbers)
        return Vector(found, x.unit)

    def value(self, x: Vector) -> Fraction:
        """The value at a point."""
        half = sum(
            v * product(row, x.numbers) for v, row in zip(x.numbers, self.hessian, strict=False)
        )
        total = Fraction(half, 2 * x.unit**2) + Fraction(product(self.linear, x.numbers), x.unit)
        return total / self.scale + self.constant


@dataclass(frozen=True)
class Feasible:
    """The set {x : rows x <= limits, equal x = values}; only independent equations are kept."""

    n: int
    rows: tuple[Row, ...] = ()
    limits: tuple[Fraction, ...] = ()
    equal: tuple[Row, ...] = ()
    values: tuple[Fraction, ...] = ()
    needed: tuple[int, ...] = field(default=())  # the independent equations

    def within(self, equal: Sequence[Row], values: Sequence[Fraction]) -> Feasible:
        """The set restricted by more equations."""
        every = (*self.equal, *equal)
        needed = [*self.needed, *range(len(self.equal), len(every))]
        kept = [needed[i] for i in independent([every[i] for i in needed], self.n)]
        return replace(self, equal=every, values=(*self.values, *values), needed=tuple(kept))

    def room(self, x: Vector) -> list[int]:
        """The slack of each row, times the unit of x and the denominator of its limit."""
        return [
            v.numerator * x.unit - v.denominator * product(row, x.numbers)
            for row, v in zip(self.rows, self.limits, strict=True)
        ]

    def contains(self, x: Vector) -> bool:
        """Does the point satisfy all rows and all equations?"""
        return min(self.room(x), default=0) >= 0 and all(
            v.numerator * x.unit == v.denominator * product(row, x.numbers)
            for row, v in zip(self.equal, self.values, strict=True)
        )

    def tight(self, working: Sequence[int]) -> tuple[list[Row], list[Fraction]]:
        """The equations of the set, together with these rows as further equations."""
        rows = [*(self.equal[i] for i in self.needed), *(self.rows[i] for i in working)]
        limits = [*(self.values[i] for i in self.needed), *(self.limits[i] for i in working)]
        return rows, limits

    def step(self, x: Vector, room: list[int], along: Vector) -> tuple[Fraction, int] | None:
        """How far x may move, and which row stops it first; None if no row does."""
        best: tuple[int, int, int] | None = None
        for i, (row, left) in enumerate(zip(self.rows, room, strict=True)):
            rise = product(row, along.numbers) * self.limits[i].denominator
            if rise > 0 and (best is None or left * best[1] < best[0] * rise):
                best = left, rise, i
        if best is None:
            return None
        return Fraction(best[0] * along.unit, best[1] * x.unit), best[2]


class Optimum(NamedTuple):
    """A minimiser with the multipliers that prove it, keyed by indices of rows and equations."""

    x: Vector
    rows: dict[int, Fraction]
    equal: dict[int, Fraction]


def minimise(form: Form, Z: Feasible, x: Vector, working: list[int]) -> Optimum:
    """Find a minimiser on Z, starting from a point of Z and independent rows that are tight there.

    We use a primal active-set method. The row with the most negative multiplier leaves the working
    set. While x does not move, the first row with a negative multiplier leaves instead (Bland's
    rule), so the method cannot cycle.
    """
    search = _Search(form, Z, x, working)
    while (found := search.pivot()) is None:
        pass
    return found


class _Search:
    """The search for a minimiser: a point and its working set, changed by pivots."""

    def __init__(self, form: Form, Z: Feasible, x: Vector, working: list[int]) -> None:
        self.form, self.Z, self.x, self.working = form, Z, x, working
        self.room = Z.room(x)
        self.has_moved = True

    def pivot(self) -> Optimum | None:
        """Take one step; return the optimum once it is reached."""
        # Count at least a millisecond per pivot, so that the search ends in any case.
        deadline.check(1e6)
        n, held = self.Z.n, self.Z.tight(self.working)[0]
        conditions = Conditions(self.form.hessian, held, n)
        slope = self.form.slope(self.x)
        step, pull = conditions.solve(Vector([-v for v in slope.numbers], slope.unit))
        pinned = next((k for k in range(len(held), len(pull.numbers)) if pull.numbers[k]), None)
        if pinned is not None:  # the level decreases along a direction without curvature
            self._go(conditions.along(pinned, 1 if pull.numbers[pinned] > 0 else -1))
            return None
        if any(step.numbers) and self._go(step, Fraction(1)):
            return None
        first = len(self.Z.needed)
        wrong = [k for k in range(len(self.working)) if pull.numbers[first + k] < 0]
        if not wrong:
            each = [v / self.form.scale for v in pull.fractions()]
            of_rows = dict(zip(self.working, each[first:], strict=False))
            return Optimum(self.x, of_rows, dict(zip(self.Z.needed, each, strict=False)))
        leaves = min(wrong, key=lambda k: pull.numbers[first + k])
        if not self.has_moved:
            leaves = min(wrong, key=self.working.__getitem__)
        del self.working[leaves]
        if not self.form.hessian:
            self._go(conditions.along(first + leaves, -1))
        return None

    def _go(self, along: Vector, most: Fraction | None = None) -> bool:
        """Move by at most ``most``; return whether a row stops x and joins the working set."""
        end = self.Z.step(self.x, self.room, along)
        if end is None and most is None:
            raise Unproved("a level is unbounded below")
        step = most
        if end is not None and (most is None or end[0] < most):
            step = end[0]
            self.working.append(end[1])
        assert step is not None
        self.has_moved = step > 0
        if self.has_moved:
            self.x = self.x.moved(step, along)
            self.room = self.Z.room(self.x)
        return step is not most


class Conditions:
    """The equations H x + R'y = a, R x = b, where R has independent rows.

    R includes pins, rows that fix one variable each, so that H and R leave no direction free.
    """

    def __init__(self, hessian: Sequence[Row], held: Sequence[Row], n: int) -> None:
        seen = set(pivot_columns([*held, *hessian], n))
        self.pins: list[int] = [j for j in range(n) if j not in seen]
        self.hessian, self.n = hessian, n
        self.rows: list[Row] = [*held, *({j: 1} for j in self.pins)]
        self.columns: list[Row] = [{} for _ in range(n)]
        for k, row in enumerate(self.rows):
            for j, a in row.items():
                self.columns[j][k] = a

    def solve(self, a: Vector, b: Vector | None = None) -> tuple[Vector, Vector]:
        """Solve for x and y, using separate equations if H is 0; b = None stands for 0."""
        n, k = self.n, len(self.rows)
        b = Vector([0] * k) if b is None else b
        if not self.hessian:
            return solve(self.rows, b), solve(self.columns, a)
        shifted = [{n + i: v for i, v in column.items()} for column in self.columns]
        upper = [row | column for row, column in zip(self.hessian, shifted, strict=True)]
        right = [*(v * b.unit for v in a.numbers), *(v * a.unit for v in b.numbers)]
        found = solve([*upper, *self.rows], Vector(right, a.unit * b.unit))
        return Vector(found.numbers[:n], found.unit), Vector(found.numbers[n:], found.unit)

    def along(self, k: int, change: int) -> Vector:
        """The direction along which only row k's product changes, by ``change``, not the slope."""
        ends = [0] * len(self.rows)
        ends[k] = change
        return self.solve(Vector([0] * self.n), Vector(ends))[0]


# --- the start ---


def solve_level(form: Form, objective: Objective, Z: Feasible, before: Vector | None) -> Optimum:
    """A minimiser of a level on Z; ``before`` is a known point of Z, or None.

    ``objective`` is the same level in floating point.
    """
    at, likely = _active_rows(objective, Z)
    held = Z.tight([])[0]
    kept = independent([*held, *(Z.rows[i] for i in likely)], Z.n)
    working = [likely[k - len(held)] for k in kept if k >= len(held)]
    x = _with_tight(form, Z, working, at)
    if min(Z.room(x), default=0) < 0:
        x = _feasible(Z, at) if before is None else before
        room = Z.room(x)
        working = [i for i in working if not room[i]]
    return minimise(form, Z, x, working)


def _with_tight(form: Form, Z: Feasible, working: list[int], at: Host) -> Vector:
    """The minimiser with these rows tight; free variables keep the floating-point values."""
    rows, limits = Z.tight(working)
    conditions = Conditions(form.hessian, rows, Z.n)
    pinned = [Fraction(float(at[j])) for j in conditions.pins]
    ends = over_one_unit([*limits, *pinned])
    slope = Vector([-form.linear.get(j, 0) for j in range(Z.n)])
    return conditions.solve(slope, ends)[0]


def _feasible(Z: Feasible, at: Host) -> Vector:
    """A point of Z, found by minimising the violation of its rows subject to its equations.

    The search starts near ``at``.
    """
    x = _with_tight(Form((), {}, Fraction(1)), Z, [], at)
    room = Z.room(x)
    if min(room, default=0) >= 0:
        return x
    rows = [row | {Z.n: -1} for row in Z.rows]
    limits = (*Z.limits, Fraction(0))
    wider = replace(Z, n=Z.n + 1, rows=(*rows, {Z.n: -1}), limits=limits)
    most = max(
        Fraction(-v, x.unit * limit.denominator) for v, limit in zip(room, Z.limits, strict=True)
    )
    start = over_one_unit([*x.fractions(), most])
    violation = Objective(np.zeros((0, Z.n + 1)), np.zeros(0), np.append(np.zeros(Z.n), 1.0))
    found = solve_level(Form((), {Z.n: 1}, Fraction(1)), violation, wider, start).x
    if found.numbers[-1]:
        raise Unproved(EMPTY)
    return Vector(found.numbers[:-1], found.unit).reduced()


def _active_rows(objective: Objective, Z: Feasible) -> tuple[Host, list[int]]:
    """A minimiser in floating point, and the rows that seem tight, the most certain first."""
    E, e = in_floats([Z.equal[i] for i in Z.needed], [Z.values[i] for i in Z.needed], Z.n)
    G, h = in_floats(Z.rows, Z.limits, Z.n)
    cones = (Cone("zero", len(e)),) * bool(len(e)) + (Cone("nonnegative", len(h)),) * bool(len(h))
    every = np.vstack([E, G]), np.concatenate([e, h])
    found = clarabel_solve(objective, *every, cones, TOL.met)
    if not np.isfinite(found.z).all():
        raise Unproved("no starting point was found in floating point")
    y, s = found.y[len(e) :], found.s[len(e) :]
    active = np.flatnonzero(y > s)
    return found.z, [int(i) for i in active[np.argsort(-y[active], kind="stable")]]


def in_floats(rows: Any, limits: Any, n: int) -> tuple[Host, Host]:
    """Rows in floating point, scaled so that the largest entry of each is 1."""
    matrix, right = np.zeros((len(rows), n)), np.zeros(len(rows))
    for i, (row, limit) in enumerate(zip(rows, limits, strict=True)):
        size = max(map(abs, row.values()), default=1)
        for j, a in row.items():
            matrix[i, j] = a / size
        right[i] = float(limit / size)
    return matrix, right
