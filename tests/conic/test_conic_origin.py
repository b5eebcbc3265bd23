"""Levels whose answer is x = 0, where the numbers of x are rounding errors and give no scale."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import tiebreak as tb


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_the_origin_minimises_every_level(kind: Any) -> None:
    """|Ax|², |x|² and |x|_1 on boxes around 0; in float32 the squares of 1e-23 are 0."""
    rng, statuses = np.random.default_rng(7), Counter[str]()
    for _ in range(40):
        n = int(rng.integers(1, 5))
        A = rng.integers(-2, 3, (int(rng.integers(1, 4)), n)).astype(kind)
        low, high = (-rng.integers(0, 3, n)).astype(kind), rng.integers(0, 3, n).astype(kind)
        first = tb.LeastSquares(A, np.zeros(len(A), kind))
        result = tb.solve(
            tb.Levels(first, tb.SquaredNorm(), tb.L1(), domain=tb.Box(low, high)), "conic"
        )
        statuses[result.status] += 1
        assert np.max(np.abs(result.x)) <= 1e-12, result.message
    assert set(statuses) <= {"solved", "certified"}, statuses


def test_one_coordinate_stays_a_rounding_error() -> None:
    rows = [[0.0, 0.0, -2.0, 1.0], [0.0, 0.0, 2.0, 1.0]]
    domain = tb.Box([-2.0, 0.0, -2.0, -1.0], [1.0, 1.0, 0.0, 2.0])
    first = tb.LeastSquares(rows, [0.0, 0.0])
    result = tb.solve(tb.Levels(first, tb.SquaredNorm(), tb.L1(), domain=domain), "conic")
    assert result.status in ("solved", "certified"), result.message
    assert np.max(np.abs(result.x)) <= 1e-12


@pytest.mark.parametrize("rows", [[[1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[1.0, 0.0]]])
def test_ties_at_the_origin(rows: Any) -> None:
    """x_0 + x_1 = 0 and x >= 0: nothing but 0 minimises the first level."""
    domain = tb.Box(0.0, 2.0) & tb.Polyhedron(np.array(rows), np.full(len(rows), 2.0))
    then = tb.L1(), tb.Linear([1.0, -1.0])
    for first in (
        tb.LeastSquares([[1.0, 1.0]], [0.0]),
        tb.Quadratic([[2.0, 2.0], [2.0, 2.0]], [0.0, 0.0]),
    ):
        result = tb.solve(tb.Levels(first, *then, domain=domain), "conic")
        assert [level.dimension for level in result.levels.values()] == [0, 0, 0]
        assert np.max(np.abs(result.x)) <= 1e-12
