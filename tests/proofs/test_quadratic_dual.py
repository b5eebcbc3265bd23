"""What a direction c proves, right or wrong: never more than is true."""

from __future__ import annotations

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.algorithms import common
from tiebreak.auto import conjugate_gradients
from tiebreak.proofs.quadratic_dual import prove


def drawn(rng, is_consistent, m=12, n=20, rank=7):
    A = rng.integers(-3, 4, size=(m, rank)) @ rng.integers(-3, 4, size=(rank, n)).astype(float)
    return A, A @ rng.normal(size=n) if is_consistent else rng.normal(size=m)


def minorants_at(problem, x):
    return common.minorants_at(problem, *problem.forward(x))


def least(problem, x, c, gamma):
    f, g = minorants_at(problem, x)
    return prove(problem, f, g, minorants_at(problem, x + c)[1], gamma)


@pytest.mark.sample(20)
@pytest.mark.parametrize("seed", range(200))
def test_no_bound_is_above_the_truth_and_a_good_c_gives_a_close_one(seed):
    rng = np.random.default_rng(seed)
    A, b = drawn(rng, seed % 2 == 0)
    center = rng.normal(size=20) * rng.integers(0, 2)
    pseudo = np.linalg.pinv(A, rcond=1e-10)
    answer = center + pseudo @ (b - A @ center)
    best = 0.5 * float(np.sum((answer - center) ** 2))
    least_g = 0.5 * float(np.sum((A @ answer - b) ** 2))
    radius = 1.0 + 2.0 * float(np.linalg.norm(answer))
    upper, lower = tb.SquaredNorm(center=center), tb.LeastSquares(A, b)
    for bound in ({}, {"radius": radius}, {"domain": tb.Ball(radius)}):
        problem = tb.Problem(upper=upper, lower=lower, **bound)
        x = answer + 10.0 ** rng.uniform(-12, 0) * rng.normal(size=20)
        c = -pseudo @ (pseudo.T @ (answer - center))
        for way, gamma in ((c, 0.0), (c + rng.normal(size=20), 1.0), (-c, 3.0), (0.0 * c, 0.0)):
            known = least(problem, x, way, gamma)
            assert known.upper[0] <= best * (1.0 + 1e-9) + 1e-12
            assert known.lower <= least_g * (1.0 + 1e-9) + 1e-12
        known = least(problem, answer, c, 0.0)
        assert known.upper[0] >= best - 1e-6 * max(best, 1.0)
        assert not bound or known.lower >= least_g - 1e-6 * max(least_g, 1.0)


def test_a_ball_that_binds_is_not_mistaken_for_the_space():
    rng = np.random.default_rng(1)
    A, b = drawn(rng, False)
    shortest = np.linalg.pinv(A, rcond=1e-10) @ b
    radius = 0.5 * float(np.linalg.norm(shortest))
    problem = tb.Problem(
        upper=tb.SquaredNorm(center=np.ones(20)),
        lower=tb.LeastSquares(A, b),
        domain=tb.Ball(radius),
    )
    best = tb.solve(problem)
    x = (1.0 - 1e-3) * best.x
    for size in (1e-3, 1.0, 1e3):
        known = least(problem, x, size * rng.normal(size=20), 0.0)
        assert known.upper[0] <= best.upper_optimum[1]
        assert known.lower <= best.lower_value


@pytest.mark.parametrize("weights", ["all", "none for two"])
def test_the_shortest_way_has_its_multipliers_with_it(weights):
    rng, n = np.random.default_rng(2), 1200
    A, b = rng.normal(size=(60, n)), rng.normal(size=60)
    w = rng.uniform(0.5, 2.0, size=n)
    if weights != "all":
        w[[3, 700]] = 0.0
    center = rng.normal(size=n)
    upper, lower = tb.SquaredNorm(w, center=center), tb.LeastSquares(A, b)
    problem = tb.Problem(upper=upper, lower=lower)
    x, way = conjugate_gradients.shortest(problem, np.zeros(n))
    _, first = minorants_at(problem, x)
    for _ in range(12):
        way = way.step(problem, first)
        f, g = minorants_at(problem, x + way.moved)
        sizes = np.linalg.norm(f.slope) + np.linalg.norm(A.T @ (A @ way.c))
        left = f.slope + way.gamma * g.slope + A.T @ (A @ way.c)
        assert np.linalg.norm(left) <= 1e-9 * sizes
        np.testing.assert_allclose(-way.residual, g.slope, atol=1e-9 * np.linalg.norm(first.slope))
    result = tb.solve(problem)
    assert result.success
    X, c = A / np.sqrt(np.where(w > 0.0, w, 1e-12)), b - A @ center
    u = np.linalg.pinv(X) @ c
    truth = center + u / np.sqrt(np.where(w > 0.0, w, 1e-12))
    assert upper.value(result.x) == pytest.approx(upper.value(truth), rel=1e-6)
