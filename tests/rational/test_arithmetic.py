"""Rational arithmetic against plain fractions, with python-flint and without."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tiebreak.rational import arithmetic
from tiebreak.rational.arithmetic import (
    Unproved,
    Vector,
    as_integers,
    as_row,
    independent,
    is_semidefinite,
    solve,
)


@pytest.fixture(params=["flint", "integers"], autouse=True)
def library(request, monkeypatch):
    if request.param == "integers":
        monkeypatch.setattr(arithmetic, "flint", lambda: None)
    else:
        pytest.importorskip("flint")


@pytest.mark.parametrize("seed", range(8))
def test_solutions_satisfy_their_equations_exactly(seed):
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 12))
    A = draw.integers(-9, 10, (n, n)) * (draw.random((n, n)) < 0.7)
    A[: n // 3] = np.eye(n, dtype=int)[: n // 3]  # rows and columns of one entry
    A[:, -1] = 0
    A[-1, -1] = -1
    right = [int(v) for v in draw.integers(-9, 10, n)]
    try:
        found = solve([as_row([int(v) for v in row]) for row in A], Vector(right, 7))
    except Unproved:
        assert abs(np.linalg.det(A)) < 1e-6
        return
    for row, v in zip(A, right, strict=True):
        total = sum((int(a) * x for a, x in zip(row, found.fractions(), strict=True)), Fraction(0))
        assert total == Fraction(v, 7)


def test_singular_equations_have_no_solution():
    for rows in ([{0: 2, 1: 4}, {0: 3, 1: 6}], [{0: 1}, {0: 1}]):
        with pytest.raises(Unproved):
            solve(rows, Vector([1, 2]))


def test_numbers_of_all_sizes_are_integers_over_one_scale():
    values = [1e300, -5e-324, 0.1, 0.0]
    numbers, scale = as_integers(values)
    assert [Fraction(v) / scale for v in numbers] == [Fraction(v) for v in values]


def test_the_first_independent_rows_are_kept():
    rows = [{0: 1, 1: 2}, {0: 2, 1: 4}, {2: 5}, {0: 1, 1: 2, 2: 5}, {1: 1}]
    assert independent(rows, 3) == [0, 2, 4]
    assert independent([], 3) == []


@pytest.mark.parametrize(
    ("Q", "is_one"),
    [
        ([[1, 1], [1, 1]], True),
        ([[0, 0], [0, 3]], True),
        ([[0, 1], [1, 0]], False),
        ([[1, 2], [2, 3]], False),
        ([[4, 2, 2], [2, 1, 1], [2, 1, 1]], True),
        ([[4, 2, 2], [2, 1, 1], [2, 1, 0]], False),
    ],
)
def test_semidefinite_forms_are_told_from_others(Q, is_one):
    assert is_semidefinite(Q) is is_one
