"""Where all inequalities bind, where the answer is a tip, and where there is no room inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiebreak as tb


def huber(matrix: Any, target: Any, x: Any) -> float:
    """With delta = 1, written out."""
    size = np.abs(matrix @ x - target)
    return float(np.sum(np.where(size <= 1.0, 0.5 * size**2, size - 0.5)))


def test_all_inequalities_of_a_level_bind() -> None:
    """No residual is an outlier: then slacks are rounding, and none of them is a unit."""
    X = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [-2.0, 1.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    first = tb.Level(tb.Huber(X, y, 1.0), "huber")
    result = tb.solve(tb.Levels(first, tb.L1(), tb.Linear(np.array([1.0, 0.0]))))
    assert result.success
    # Least squares, for all residuals are at most 1: x = (0.6, 0).
    assert np.max(np.abs(result.x - [0.6, 0.0])) <= 1e-9
    assert abs(huber(X, y, result.x) - 0.2) <= 1e-12
    assert abs(result.levels["huber"].value - 0.2) <= 1e-9
    assert result.levels["huber"].dimension == 0


@pytest.mark.parametrize(
    "rows", [[[1.0, -1.0], [-1.0, -1.0]], [[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]]
)
def test_the_answer_is_the_tip_of_a_cone(rows: Any) -> None:
    domain = tb.Polyhedron(rows, np.zeros(len(rows)))
    first, then = tb.Linear(np.array([1.0, 2.0])), tb.Linear(np.array([1.0, 0.0]))
    result = tb.solve(tb.Levels(first, then, tb.SquaredNorm(), domain=domain))
    assert result.success, result.message
    assert np.max(np.abs(result.x)) <= 1e-12
