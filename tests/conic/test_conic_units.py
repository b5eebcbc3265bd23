"""Lexicographic linear programs in odd units, far from the origin, against HiGHS in good ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linprog

import tiebreak as tb

Count = Callable[[int, int], int]
SIDE = 4.0  # |y| <= SIDE


def drawn(seed: int) -> tuple[Any, Any, list[Any]]:
    """A y <= b with integers, degenerate ones too, and objectives that repeat or conflict."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 7)), int(rng.integers(1, 6))
    A = np.round(3.0 * rng.standard_normal((m, n)))
    b = np.round(3.0 * np.abs(rng.standard_normal(m)))
    if seed % 4 == 1:  # no interior
        A, b = np.vstack([A, -A[:1]]), np.zeros(m + 1)
    costs = [np.round(2.0 * rng.standard_normal(n)) for _ in range(int(rng.integers(2, 6)))]
    if seed % 5 < 2:
        costs.insert(1, costs[0] if seed % 5 == 0 else -costs[0])
    return A, b, costs


def best_values(A: Any, b: Any, costs: list[Any]) -> list[float]:
    """One after the other, cut with 1e-9."""
    values = []
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    for c in costs:
        found = linprog(c, A, b, bounds=(-SIDE, SIDE), method="highs", options=tight)
        assert found.status == 0
        values.append(found.fun)
        A, b = np.vstack([A, c]), np.append(b, found.fun + 1e-9)
    return values


def test_units_of_columns_and_points_far_away(count: Count) -> None:
    total, wrong = count(40, 600), []
    for seed in range(total):
        A, b, costs = drawn(seed)
        values, n = best_values(A, b, costs), A.shape[1]
        rng = np.random.default_rng([seed, 1])
        powers = rng.integers(-20, 20, n if seed % 3 == 0 else 1)
        units = np.broadcast_to(2.0**powers, n)
        center = np.round(rng.standard_normal(n) * (10.0 ** rng.uniform(0, 6) if seed % 2 else 1.0))
        # x = units (y + center)
        box = tb.Box(units * (center - SIDE), units * (center + SIDE))
        domain = tb.Polyhedron(A / units, b + A @ center) & box
        result = tb.solve(tb.Levels(*(tb.Linear(c / units) for c in costs), domain=domain))
        for level, value, c in zip(result.levels.values(), values, costs, strict=False):
            truth, size = value + float(c @ center), float(np.abs(c) @ (np.abs(center) + SIDE))
            near = 1e-7 * float(np.sum(np.abs(c))) + 1e-13 * size
            is_in = level.best[0] <= truth + near and level.best[1] >= truth - near
            if not result.success or not is_in or abs(level.value - truth) > near:
                wrong.append((seed, level.name, result.message, level.value - truth))
    print(f"{total} programs: wrong {wrong}")  # with pytest -s
    assert not wrong
