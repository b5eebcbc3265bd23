"""f = weight |x - center|_2 above: by its square, against the closed form."""

from __future__ import annotations

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.exact.method import Exact


def planted(rng, scale=1.0):
    """Whole data, and the point of Ax = b next to a center."""
    m, n = (int(k) for k in rng.integers((1, 4), (4, 9)))
    A = rng.integers(-4, 5, size=(m, n)).astype(float)
    A[:, 0] += 5.0 * (np.abs(A).sum(axis=1) == 0.0)
    b, center = A @ rng.integers(-4, 5, size=n), rng.integers(-4, 5, size=n).astype(float)
    x = center + np.linalg.pinv(A) @ (b - A @ center)
    return A, scale * b, scale * center, scale * x


@pytest.mark.sample(3)
@pytest.mark.parametrize("scale", [1.0, 1e-80, 1e80])
def test_the_nearest_solution_is_proved(scale, count):
    for seed in range(count(12, 400)):
        A, b, center, x = planted(np.random.default_rng([1, seed]), scale)
        problem = tb.Problem(upper=tb.L2(2.0, center), lower=tb.LeastSquares(A, b))
        result = tb.solve(problem, "exact")
        size = scale * (1.0 + np.linalg.norm(x / scale) + np.linalg.norm(center / scale))
        assert result.status in ("certified", "solved")
        np.testing.assert_allclose(result.x, x, atol=1e-12 * size)
        low, high = result.upper_optimum
        truth = 2.0 * scale * np.linalg.norm((x - center) / scale)
        assert low - 1e-13 * size <= truth <= high + 1e-13 * size
        assert high - low <= 1e-6 * size


def test_only_some_variables_count(count):
    """What has the weight 0 is free: the others are as they are without it, where it fits all."""
    for seed in range(count(20, 200)):
        A, b, center, _ = planted(np.random.default_rng([2, seed]))
        weights = np.where(np.arange(A.shape[1]) == 0, 0.0, 3.0)
        squares = tb.SquaredNorm(np.sign(weights), center)
        truth = tb.solve(tb.Problem(upper=squares, lower=tb.LeastSquares(A, b)), "exact")
        found = tb.solve(tb.Problem(upper=tb.L2(weights, center), lower=tb.LeastSquares(A, b)))
        np.testing.assert_allclose(found.x, truth.x, atol=1e-9)
        low, high = found.upper_optimum
        assert low - 1e-9 <= 3.0 * np.sqrt(2.0 * max(truth.upper_value, 0.0)) <= high + 1e-9


def test_on_sets_and_with_ties_of_the_lasso():
    center, fit = np.array([3.0, 0.0]), tb.LeastSquares([[1.0, 1.0]], [2.0])
    box = tb.Problem(upper=tb.L2(1.0, center), lower=fit, domain=tb.Box(0.0, 1.5))
    np.testing.assert_allclose(tb.solve(box, "exact").x, [1.5, 0.5], atol=1e-12)
    ball = tb.Problem(upper=tb.L2(1.0, center), lower=fit, domain=tb.Ball(1.5))
    assert tb.solve(ball, "exact").status == "certified"
    lasso = tb.Problem(upper=tb.L2(), lower=fit + tb.L1(0.5))
    result = tb.solve(lasso, "exact")
    np.testing.assert_allclose(result.x, [0.75, 0.75], atol=1e-12)
    assert result.status == "certified"


def test_a_lower_level_without_a_minimum_is_told_so():
    problem = tb.Problem(upper=tb.L2(), lower=tb.Logistic([[1.0, 0.0]], [1.0]))
    assert tb.solve(problem, "exact").status == "unbounded"


def test_what_stands_beside_the_norm_is_refused():
    fit = tb.LeastSquares([[1.0, 1.0]], [2.0])
    for upper in (tb.L2() + tb.L1(), tb.SquaredNorm() + tb.L2(), tb.GroupL2([0, 1])):
        assert Exact().check(tb.Problem(upper=upper, lower=fit)) is not None
