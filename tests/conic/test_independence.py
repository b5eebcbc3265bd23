"""Equations that are nearly dependent: rounding decides which points satisfy them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.conic.faces import ConicSet
from tiebreak.conic.independence import independence
from tiebreak.conic.program import Cone

CENTER = [-1.0, 3.0]


def solved(rows: Any, right: Any, method: str = "auto") -> Any:
    """½|x - (-1, 3)|² up to 1e-3, then ½|x - (3, 0)|², on a box with these equations."""
    domain = tb.Box(-5.0, 5.0) & tb.Polyhedron(A_eq=rows, b_eq=right)
    first = tb.Level(tb.SquaredNorm(center=CENTER), slack=1e-3)
    return tb.solve(tb.Levels(first, tb.SquaredNorm(center=[3.0, 0.0]), domain=domain), method)


@pytest.mark.parametrize("digits", [52, 50, 48, 46, 40])
def test_rounding_decides_how_many_equations_there_are(digits: int) -> None:
    """As stored, (1, 1) is the only point; without the last digits, a line is left."""
    apart = 2.0**-digits
    for method in ("auto", "conic"):
        result = solved([[1.0, 1.0], [1.0, 1.0 + apart]], [2.0, 2.0 + apart], method)
        assert result.status == "undetermined"
        assert "2 as they are stored" in result.message
        for level in result.levels.values():
            assert level.word != "proved"


def test_a_decimal_row_that_is_a_multiple_only_for_its_reader() -> None:
    """0.7 and 3.5 are not stored as 7/10 and 35/10, so the rows are independent."""
    rows, right = [[0.8, 0.7, 0.1], [4.0, 3.5, 0.5]], [1.4, 7.0]
    (a, b, c), (d, e, f) = ([Fraction(v) for v in row] for row in rows)
    assert any([b * f - c * e, c * d - a * f, a * e - b * d])
    domain = tb.Box(-5.0, 5.0) & tb.Polyhedron(A_eq=rows, b_eq=right)
    first = tb.Level(tb.SquaredNorm(center=[-1.0, 3.0, 0.0]), slack=0.1)
    result = tb.solve(tb.Levels(first, tb.Linear([1.0, 0.0, 0.0]), domain=domain))
    assert result.status == "undetermined"


DEPENDENT = {
    "twice": ([[1.0, 1.0], [1.0, 1.0]], [2.0, 2.0]),
    "three times": ([[0.1, 0.1], [0.25, -0.25], [0.5, -0.5]], [0.2, -1.0, -2.0]),
    "a row of zeros": ([[1.0, 1.0], [0.0, 0.0]], [2.0, 0.0]),
}


@pytest.mark.parametrize("kind", DEPENDENT)
def test_equations_that_are_exactly_dependent_cost_no_proof(kind: str) -> None:
    """(-1, 3) satisfies all of them, so g* = 0."""
    result = solved(*DEPENDENT[kind], "conic")
    assert result.status == "certified", result.message
    low, high = result.levels["level 1"].best
    assert low <= 0.0 <= high <= 1e-9


def test_equations_that_contradict_each_other_by_rounding_prove_nothing() -> None:
    result = solved([[1.0, 1.0], [1.0, 1.0]], [2.0, 2.0 + 2.0**-50], "conic")
    assert all(level.word != "proved" for level in result.levels.values())


@pytest.mark.parametrize("as_sparse", [False, True])
def test_how_far_a_solution_is(as_sparse: bool) -> None:
    """Rows of length 1 at an angle with cosine c: the least singular value is sqrt(1 - c)."""
    rows = np.array([[1.0, 0.0, 0.0], [0.96, 0.28, 0.0]])
    matrix = sp.csr_array(rows) if as_sparse else rows
    found = independence(ConicSet(matrix, np.zeros(2), (Cone("zero", 2),)))
    assert not found.doubt
    exact = 1.0 / np.sqrt(0.04)
    assert exact * (1.0 - 1e-12) <= found.stretch <= 5.0 * exact
