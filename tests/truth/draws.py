"""Draws of chains by hypothesis, which shrinks what fails.

Numbers are small integers times powers of two, or of ten where that keeps multiples exact: what is
parallel, redundant or consistent is so to the last bit, in floating point as in fractions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from truth import cases
from truth.cases import Aim, Case, Zone

FIRST_ORDER = (
    "adaptive",
    "agm-bio",
    "p-agm-bio",
    "primal-dual",
    "a-irg",
    "bi-sg",
    "sea",
    "cg-bio",
    "r-apm",
    "pb-apg",
    "bisec-bio",
)
# About 1e-9 to 1e9; most draws have ordinary units.
BINARY = (1.0, 1.0, 1.0, 1.0, 2.0**-10, 2.0**10, 2.0**-30, 2.0**30, 2.0**20, 2.0**-20)
SCALES = (*BINARY, 0.1, 1e3, 1e-9, 1e9, 1e-6, 1e6)
UNITS = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0**-30, 2.0**30, 2.0**10)
FAR = 1e9


def numbers(draw: Any, size: int, most: int = 2, unit: float = 1.0) -> list[float]:
    entries = draw(st.lists(st.integers(-most, most), min_size=size, max_size=size))
    return [entry * unit for entry in entries]


def matrix(draw: Any, rows: int, n: int, most: int = 2) -> list[list[float]]:
    """No row is 0."""
    found = []
    for i in range(rows):
        row = numbers(draw, n, most)
        found.append(row if any(row) else [float(j == i % n) for j in range(n)])
    return found


def chance(draw: Any, percent: int) -> bool:
    """Shrinks to False."""
    return draw(st.integers(0, 99)) >= 100 - percent


# -- sets -----------------------------------------------------------------------------------------


def rows_below(draw: Any, n: int, inside: Any, unit: float) -> tuple[Any, Any]:
    """Rows that ``inside`` meets: some redundant, repeated, nearly parallel, or far away."""
    A = np.array(matrix(draw, draw(st.integers(1, n + 1)), n, 1))
    room = np.array([draw(st.integers(0, 2)) for _ in A])
    b = A @ inside + unit * room
    how = draw(st.integers(0, 19))
    if how in (1, 2):
        A, b = np.vstack([A, 2.0 * A[:1]]), np.append(b, 2.0 * b[0])
    elif how == 3:
        A, b = np.vstack([A, -A[:1]]), np.append(b, -b[0])  # the equation <a, x> = b
    elif how == 4:
        A, b = (
            np.vstack([A, A[:1] + 2.0**-33 * np.array(matrix(draw, 1, n, 1))]),
            np.append(b, b[0]),
        )
    elif how in (5, 6, 7):
        A, b = np.vstack([A, matrix(draw, 1, n, 1)]), np.append(b, FAR * max(unit, 1.0))
    elif how == 8:
        A, b = np.vstack([A[:-1], 2.0**20 * A[-1:]]), np.append(b[:-1], 2.0**20 * b[-1])
    return A.tolist(), b.tolist()


def rows_equal(draw: Any, n: int, inside: Any) -> tuple[Any, Any]:
    E = np.array(matrix(draw, draw(st.integers(1, max(1, n - 2))), n, 1))
    if chance(draw, 20):
        E = np.vstack([E, E.sum(axis=0)]) if E.sum(axis=0).any() else E
    return E.tolist(), (E @ inside).tolist()


def a_box(draw: Any, n: int, inside: Any, unit: float) -> Zone:
    lower = [t - unit * draw(st.integers(0, 2)) for t in inside.tolist()]
    upper = [t + unit * draw(st.integers(0, 2)) for t in inside.tolist()]
    for j in range(n):
        how = draw(st.integers(0, 9))
        lower[j], upper[j] = {1: (-np.inf, upper[j]), 2: (-FAR, FAR)}.get(how, (lower[j], upper[j]))
    return cases.box(lower, upper)


def a_polyhedron(draw: Any, n: int, inside: Any, unit: float) -> Zone:
    how = draw(st.sampled_from(["below", "below", "equal", "both"]))
    below = rows_below(draw, n, inside, unit) if how != "equal" else ((), ())
    equal = rows_equal(draw, n, inside) if how != "below" else ((), ())
    return cases.polyhedron(*below, *equal)


@st.composite
def zones(draw: Any, n: int, unit: float) -> Zone:
    """Every set that rows describe; intersections of any two of them, some of which are empty."""
    inside = np.array(numbers(draw, n, 1, unit))

    def one(kind: str) -> Zone:
        if kind == "space":
            return cases.space()
        if kind == "orthant":
            return cases.orthant(n)
        if kind == "box":
            return a_box(draw, n, inside, unit)
        if kind == "simplex":
            return cases.simplex(n, unit * draw(st.sampled_from([1.0, 2.0, 0.5])))
        if kind == "l1ball":
            return cases.l1_ball(unit * draw(st.sampled_from([2.0, 1.0, 4.0])))
        if kind == "monotone":
            return cases.monotone(n)
        if kind == "halfspace":
            normal = matrix(draw, 1, n)[0]
            return cases.halfspace(normal, unit * draw(st.integers(-1, 2)))
        return a_polyhedron(draw, n, inside, unit)

    kinds = ["space", "box", "orthant", "simplex", "l1ball", "monotone", "halfspace", "polyhedron"]
    found = one(draw(st.sampled_from([*kinds, "polyhedron", "box", "polyhedron"])))
    if chance(draw, 30):
        found = found & one(draw(st.sampled_from([*kinds[1:], "polyhedron", "box"])))
    return found


# -- levels ---------------------------------------------------------------------------------------


def rows_of_a_loss(draw: Any, n: int, unit: float) -> tuple[Any, Any]:
    A = matrix(draw, draw(st.integers(1, n + 1)), n)
    if chance(draw, 25):
        for row in A:
            row[-1] = row[0]
    scale = draw(st.sampled_from(BINARY)) if chance(draw, 30) else 1.0
    A = [[scale * t for t in row] for row in A]
    return A, numbers(draw, len(A), 3, scale * unit)


def weights(draw: Any, rows: int, choices: tuple[float, ...]) -> list[float] | None:
    if not chance(draw, 30):
        return None
    found = [draw(st.sampled_from(choices)) for _ in range(rows)]
    return found if any(found) else None


@st.composite
def aims(draw: Any, n: int, unit: float, kinds: tuple[str, ...]) -> Aim:
    """A level of one of the kinds."""
    kind = draw(st.sampled_from(kinds))
    scale = draw(st.sampled_from(SCALES))
    if kind == "linear":
        return cases.linear(numbers(draw, n, 2, scale))
    if kind == "least squares":
        A, b = rows_of_a_loss(draw, n, unit)
        return cases.least_squares(A, b, weights(draw, len(A), (1.0, 4.0, 0.0, 0.25, 2.0**20)))
    if kind == "mean":
        A, b = rows_of_a_loss(draw, n, unit)
        return cases.least_squares(A, b, mean=True)
    if kind == "huber":
        A, b = rows_of_a_loss(draw, n, unit)
        top = max(abs(t) for row in A for t in row) or 1.0
        delta = unit * top * draw(st.sampled_from([1.0, 0.5, 2.0]))
        return cases.huber(A, b, delta, weights(draw, len(A), (1.0, 4.0, 0.0, 0.25)))
    if kind == "norm":
        return cases.squared_norm(n, scale, numbers(draw, n, 2, unit))
    if kind == "seminorm":
        w = [scale * draw(st.integers(0, 2)) for _ in range(n)]
        return cases.squared_norm(n, w if any(w) else scale, numbers(draw, n, 2, unit))
    if kind == "quadratic":
        scale = draw(st.sampled_from(BINARY))
        B = np.array(matrix(draw, draw(st.integers(1, n)), n, 1))
        falls = chance(draw, 20)
        c = np.array(numbers(draw, n, 1)) if falls else B.T @ np.array(numbers(draw, len(B)))
        return cases.quadratic((scale * B.T @ B).tolist(), (scale * unit * c).tolist())
    if kind == "l1":
        return cases.l1(n, scale, numbers(draw, n, 2, unit) if chance(draw, 40) else None)
    if kind == "l1 of rows":
        D = matrix(draw, draw(st.integers(1, n)), n)
        return cases.l1(n, scale, numbers(draw, len(D), 2, unit), D)
    if kind == "total variation":
        return cases.total_variation(n, scale)
    if kind == "elastic net":
        return cases.elastic_net(n, scale * unit, scale)
    first = draw(aims(n, unit, ("least squares", "huber", "norm")))
    return first + draw(aims(n, unit, ("l1", "quadratic", "huber", "linear")))


LOSSES = ("least squares", "least squares", "mean", "huber", "quadratic", "seminorm")
PENALTIES = ("l1", "l1 of rows", "total variation", "elastic net")
OTHERS = ("linear", "linear", "norm", "sum")
ALL = (*LOSSES, *PENALTIES, *OTHERS)


@st.composite
def slacks(draw: Any, aim: Aim, unit: float) -> Aim:
    """The level with something to give up, where it is piecewise linear."""
    if not aim.objective.is_linear or not chance(draw, 30):
        return aim
    size = max((float(t.w) for t in aim.objective.absolutes), default=0.0)
    size = max([size, *(abs(float(t)) for t in aim.objective.c)])
    if size == 0.0:
        return aim
    absolute = draw(st.sampled_from([0.0, 1.0, 0.25])) * size * unit
    relative = draw(st.sampled_from([0.25, 0.0, 0.5])) if absolute == 0.0 or chance(draw, 30) else 0
    return Aim(aim.kind, aim.code, aim.objective, absolute, float(relative))


# -- problems -------------------------------------------------------------------------------------


@st.composite
def problems(draw: Any) -> Case:
    """Chains of 2 to 5 levels, and how to solve them."""
    # What is drawn last is often the simplest: first what must not be.
    count = draw(st.sampled_from([2, 2, 2, 3, 3, 4, 5]))
    other = draw(st.sampled_from(["conic", "exact", "conic", "exact", *FIRST_ORDER]))
    start = draw(st.sampled_from(["", "", "", "given", "given", "answer", "warm"]))
    rtol = draw(st.sampled_from([1e-4, 1e-4, 1e-4, 1e-8, 1e-2, 1e-15, 0.0]))
    as_levels = chance(draw, 15)
    n = draw(st.integers(2, 5))
    unit = draw(st.sampled_from(UNITS))
    x0 = numbers(draw, n, 3, draw(st.sampled_from([unit, unit, 2.0**10 * unit])))
    zone = draw(zones(n, unit))
    lowest = LOSSES if zone.kind in ("Space", "Monotone") and not chance(draw, 15) else ALL
    levels = [draw(aims(n, unit, ALL if i else lowest)) for i in range(count)]
    if count > 2 or chance(draw, 15):
        levels = [draw(slacks(aim, unit)) for aim in levels[:-1]] + levels[-1:]
    if not any(aim.says_size for aim in levels):
        levels[-1] = cases.squared_norm(n, 1.0, [0.0] * n)
    given = tuple(x0) if start == "given" else ()
    case = Case(n, zone, tuple(levels), rtol, start, given, ("auto",), as_levels)
    return case if case.is_chain else with_methods(case, "auto", other)


def with_methods(case: Case, *methods: str) -> Case:
    kept = (case.n, case.zone, case.aims, case.rtol, case.start, case.x0)
    return Case(*kept, methods, case.as_levels)
