"""Problems at the edge of what a first-order method takes, for the tests of each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiebreak as tb


def check_units(
    method: Any, domain: Any, *, may_refuse: bool = False, may_end: bool = False
) -> None:
    """Linear levels and extreme units are no division by zero: ten steps, all finite, all in Z."""
    c = np.array([1.0, -2.0, 0.5])
    for unit_f, unit_g in ((1e-8, 1.0), (1.0, 1e8), (1e150, 1e-150)):
        for lower in (
            tb.Linear(unit_g * np.array([0.0, 0.0, 1.0])),
            unit_g * tb.LeastSquares([[1.0, 1.0, 1.0]], [1.0]),
        ):
            for upper in (tb.Linear(unit_f * c), tb.Linear(np.zeros(3)), tb.SquaredNorm(unit_f)):
                problem = tb.Problem(upper=upper, lower=lower, domain=domain)
                if may_refuse and method.refusal(problem):
                    continue
                result = tb.solve(problem, method, max_iter=10, rtol=0)
                assert result.nit == 10 or (may_end and result.status == "solved"), str(result)
                assert np.all(np.isfinite(result.x))
                assert domain.contains(result.x, 1e-9)


def check_small(method: Any, near: float = 0.2) -> None:
    """One variable (the solution is 3, to within ``near``), one point, a start that is optimal."""
    one = tb.Problem(
        upper=tb.SquaredNorm(1.0, [3.0]), lower=tb.LeastSquares([[0.0]], [0.0]), domain=tb.Ball(5.0)
    )
    assert tb.solve(one, method, max_iter=1000, rtol=0).x == pytest.approx([3.0], abs=near)
    point = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.Linear([1.0, 1.0]), domain=tb.Box([1.0, 2.0], [1.0, 2.0])
    )
    assert tb.solve(point, method, max_iter=20).x.tolist() == [1.0, 2.0]
    still = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(np.zeros((0, 4)), []), domain=tb.Ball()
    )
    assert not tb.solve(still, method, max_iter=20, rtol=0).x.any()
