"""Draws with row weights up to 1e14 and units of the columns of 1e±12."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from truth import cases, draws
from truth.cases import Aim, Case, Zone

WEIGHTS = (1.0, 1.0, 1e11, 1e14, 2.0**40, 1e-12, 1e7, 0.25)
UNITS = (1.0, 1.0, 1.0, 2.0**40, 2.0**-40, 2.0**20, 2.0**-20)  # 2^40 is 1.1e12


def scaled(A: Any, units: Any) -> Any:
    """The columns in other units."""
    return (np.array(A) * units).tolist()


@st.composite
def losses(draw: Any, n: int, units: Any) -> Aim:
    """Least squares or Huber's loss with weights far apart, or a quadratic."""
    A = scaled(draws.matrix(draw, draw(st.integers(1, n + 1)), n), units)
    b = draws.numbers(draw, len(A), 3)
    w = [draw(st.sampled_from(WEIGHTS)) for _ in A]
    kind = draw(st.sampled_from(["least squares", "least squares", "huber", "quadratic"]))
    if kind == "least squares":
        return cases.least_squares(A, b, w)
    if kind == "huber":
        return cases.huber(A, b, draw(st.sampled_from([1.0, 0.5])), w)
    B = np.array(A[:1])
    return cases.quadratic((B.T @ B).tolist(), (b[0] * B[0]).tolist())


@st.composite
def choosers(draw: Any, n: int, units: Any) -> Aim:
    """A level above."""
    kind = draw(st.sampled_from(["norm", "linear", "l1", "loss", "variation"]))
    if kind == "norm":
        return cases.squared_norm(n, (np.array(units) ** 2).tolist(), _center(draw, n, units))
    if kind == "linear":
        return cases.linear(scaled(draws.numbers(draw, n), units))
    if kind == "l1":
        return cases.l1(n, list(units), _center(draw, n, units))
    if kind == "variation":
        return cases.l1(n, 1.0, None, scaled(np.diff(np.eye(n), axis=0), units))
    return draw(losses(n, units))


def _center(draw: Any, n: int, units: Any) -> list[float]:
    return (np.array(draws.numbers(draw, n)) / units).tolist()


@st.composite
def sets(draw: Any, n: int, units: Any) -> Zone:
    """Boxes, polyhedra and their intersections, in the same units."""
    inside = np.array(draws.numbers(draw, n, 1))
    kind = draw(st.sampled_from(["space", "box", "box", "polyhedron", "both"]))
    if kind == "space":
        return cases.space()
    low = [t - draw(st.integers(0, 2)) for t in inside.tolist()]
    high = [t + draw(st.integers(0, 2)) for t in inside.tolist()]
    box = cases.box((np.array(low) / units).tolist(), (np.array(high) / units).tolist())
    if kind == "box":
        return box
    A, b = draws.rows_below(draw, n, inside, 1.0)
    rows = cases.polyhedron(scaled(A, units), b)
    return rows if kind == "polyhedron" else rows & box


@st.composite
def problems(draw: Any) -> Case:
    """Chains of two or three levels."""
    n = draw(st.integers(2, 4))
    units = [draw(st.sampled_from(UNITS)) for _ in range(n)]
    zone = draw(sets(n, units))
    levels = [draw(losses(n, units))]
    levels += [draw(choosers(n, units)) for _ in range(draw(st.sampled_from([1, 1, 2])))]
    case = Case(n, zone, tuple(levels), draw(st.sampled_from([1e-4, 1e-4, 1e-8])))
    if case.is_chain:
        return case
    return draws.with_methods(case, "auto", draw(st.sampled_from(["exact", "conic", "adaptive"])))
