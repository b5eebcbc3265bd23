"""f = squares of other rows and of all variables, on few rows: against dense normal equations."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.exact.reductions.images_above import with_residuals


def drawn(rng, kind=np.asarray, weights=False):
    """A problem, and its answer by one dense system for x and multipliers."""
    m, n, k = (int(t) for t in rng.integers((2, 12, 1), (8, 30, 40)))
    A, F = rng.standard_normal((m, n)), rng.standard_normal((k, n))
    b, t, c = rng.standard_normal(m), rng.standard_normal(k), rng.standard_normal(n)
    s = 10.0 ** rng.uniform(-2, 2, n) if rng.random() < 0.5 else 10.0 ** rng.uniform(-2, 2)
    v = 10.0 ** rng.uniform(-2, 2)
    W = rng.exponential(size=m) if weights else None
    fit = tb.LeastSquares(kind(A), b, weights=W, mean=bool(rng.random() < 0.5))
    other = tb.LeastSquares(kind(F), t)
    problem = tb.Problem(upper=tb.SquaredNorm(s, c) + v * other, lower=3.0 * fit)
    S = np.diag(np.broadcast_to(s, n))
    K = np.block([[v * F.T @ F + S, A.T], [A, np.zeros((m, m))]])
    x = np.linalg.solve(K, np.concatenate([v * F.T @ t + S @ c, b]))[:n]
    value = 0.5 * v * np.sum((F @ x - t) ** 2) + 0.5 * np.sum(s * (x - c) ** 2)
    return problem, x, value


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weights", [False, True])
def test_the_answer_is_that_of_the_normal_equations_and_proved(kind, weights, count):
    for seed in range(count(10, 300)):
        problem, x, value = drawn(np.random.default_rng([1, seed]), kind, weights)
        assert with_residuals(problem, problem.dimension) is not None
        result = tb.solve(problem, "exact", rtol=1e-9)
        assert result.status == "certified"
        np.testing.assert_allclose(result.x, x, atol=1e-8 * (1.0 + np.linalg.norm(x)))
        assert result.upper_value == pytest.approx(value, rel=1e-9)
        low, high = result.upper_optimum
        assert low <= value * (1.0 + 1e-12)
        assert high >= value * (1.0 - 1e-12)


def test_dependent_rows_and_other_functions_go_another_way():
    rng = np.random.default_rng(2)
    A, F, c = rng.standard_normal((3, 9)), rng.standard_normal((4, 9)), np.ones(9)
    fit, other = tb.LeastSquares(A, np.ones(3)), tb.LeastSquares(F, np.ones(4))
    norm = tb.SquaredNorm(0.5, c)
    twice = tb.LeastSquares(np.vstack([A, A]), np.ones(6))
    assert with_residuals(tb.Problem(upper=other + norm, lower=fit), 9) is not None
    for upper, lower in (
        (other + norm, twice),
        (other + norm + other, fit),
        (other + norm + tb.Linear(c), fit),
        (other, fit),
        (other + tb.SquaredNorm(np.arange(9.0)), fit),
        (other + norm, tb.Huber(A, np.ones(3))),
        (other + norm, tb.LeastSquares(rng.standard_normal((12, 9)), np.ones(12))),
    ):
        assert with_residuals(tb.Problem(upper=upper, lower=lower), 9) is None
    in_ball = tb.Problem(upper=other + norm, lower=fit, domain=tb.Ball(9.0))
    assert with_residuals(in_ball, 9) is None
    a, b = (
        tb.solve(tb.Problem(upper=other + norm, lower=lower), "exact") for lower in (fit, twice)
    )
    assert a.status == b.status == "certified"
    np.testing.assert_allclose(a.x, b.x, atol=1e-10)


def test_many_variables_take_no_longer_than_few_rows_do():
    """Squares of n variables were n rows: at n = 1,200 more than a hundred times the work."""
    rng = np.random.default_rng(3)
    A, F = rng.standard_normal((50, 1200)), rng.standard_normal((30, 1200))
    problem = tb.Problem(
        upper=tb.LeastSquares(F, np.ones(30)) + tb.SquaredNorm(0.1),
        lower=tb.LeastSquares(A, np.ones(50)),
    )
    norm = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, np.ones(50)))
    tb.solve(norm, "exact")
    began = time.process_time()
    tb.solve(norm, "exact")
    least = time.process_time() - began
    began = time.process_time()
    assert tb.solve(problem, "exact").status == "certified"
    assert time.process_time() - began <= 20.0 * least + 0.2
