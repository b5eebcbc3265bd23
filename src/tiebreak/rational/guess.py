"""Finds a start: guesses the active rows of a level in floats, then computes an exact point."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from tiebreak.conic.program import Cone, Objective
from tiebreak.conic.solver import clarabel_solve
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.tolerances import TOL
from tiebreak.rational.active_set import Conditions, Feasible, Form, Optimum, minimise
from tiebreak.rational.arithmetic import Unproved, Vector, independent, over_one_unit

EMPTY = "no point satisfies all constraints exactly"


def solve_level(form: Form, objective: Objective, Z: Feasible, before: Vector | None) -> Optimum:
    """A minimiser of a level on Z; ``before`` is a point of Z, if one is known.

    ``objective`` is the same level in floating point.
    """
    at, likely = _active_rows(objective, Z)
    held = Z.tight([])[0]
    kept = independent([*held, *(Z.rows[i] for i in likely)], Z.n)
    working = [likely[k - len(held)] for k in kept if k >= len(held)]
    x = _with_tight(form, Z, working, at)
    if min(Z.room(x), default=0) < 0:
        before = _feasible(Z, at) if before is None else before
        x, working = _towards(Z, before, x, working)
    return minimise(form, Z, x, working)


def _with_tight(form: Form, Z: Feasible, working: list[int], at: Host) -> Vector:
    """The minimiser with these rows tight; free variables keep their floating-point values."""
    rows, limits = Z.tight(working)
    conditions = Conditions(form.hessian, rows, Z.n)
    pinned = [Fraction(float(at[j])) for j in conditions.pins]
    ends = over_one_unit([*limits, *pinned])
    slope = Vector([-form.linear.get(j, 0) for j in range(Z.n)])
    return conditions.solve(slope, ends)[0]


def _towards(
    Z: Feasible, before: Vector, x: Vector, working: list[int]
) -> tuple[Vector, list[int]]:
    """The last point of Z on the way to x, and the rows of the working set that are tight there."""
    scaled = [v * before.unit for v in x.numbers], [v * x.unit for v in before.numbers]
    along = Vector([a - b for a, b in zip(*scaled, strict=True)], x.unit * before.unit)
    end = Z.step(before, Z.room(before), along)
    assert end is not None  # x is not in Z
    at = before.moved(end[0], along)
    room = Z.room(at)
    return at, [i for i in working if not room[i]]


def _feasible(Z: Feasible, at: Host) -> Vector:
    """A point of Z: near ``at`` on the equations, and then with the least violation."""
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
        raise Unproved("floating point finds no start")
    y, s = found.y[len(e) :], found.s[len(e) :]
    active = np.flatnonzero(y > s)
    slope = objective.squares.T @ (objective.squares @ found.z - objective.target)
    support = _support(slope + objective.linear, G[active], E)
    order = np.lexsort((-y[active], ~support))
    return found.z, [int(i) for i in active[order]]


def _support(slope: Host, rows: Host, equal: Host) -> Host:
    """Which of these rows have nonzero multipliers in a solution with few of them?"""
    from scipy.optimize import nnls

    basis = np.linalg.qr(equal.T, mode="complete")[0][:, len(equal) :]
    size = float(np.max(np.abs(slope), initial=0.0)) or 1.0
    if not rows.shape[0] or not basis.shape[1]:  # SciPy's nnls crashes on empty matrices
        return np.zeros(len(rows), dtype=bool)
    try:
        found: Any = nnls((rows @ basis).T, -(slope @ basis) / size)[0]
    except RuntimeError:  # too many steps
        return np.zeros(len(rows), dtype=bool)
    return np.asarray(found > 0.0)


def in_floats(rows: Any, limits: Any, n: int) -> tuple[Host, Host]:
    """Rows in floating point, scaled so that the largest entry of each is 1."""
    matrix, right = np.zeros((len(rows), n)), np.zeros(len(rows))
    for i, (row, limit) in enumerate(zip(rows, limits, strict=True)):
        size = max(map(abs, row.values()), default=1)
        for j, a in row.items():
            matrix[i, j] = a / size
        right[i] = float(limit / size)
    return matrix, right
