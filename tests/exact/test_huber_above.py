"""Huber's loss above: answers planted to the last bit, and what is proved about them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.exact.bounds.loss_bounds import flattest
from tiebreak.functions.parts.parts import decompose


def planted(rng, beyond=0.2, at_kink=0.0, rows=40, n=10):
    """f, A and b with exact numbers such that f is least on Ax = b at a planted x; x and f*.

    The forces psi of f's rows V are multiples of 1/8 and V'psi is a row of A: so f's slope at x is
    balanced. Residuals are psi, or anything beyond where |psi| is delta = 1.
    """
    V, x = rng.integers(-3, 4, size=(rows, n)).astype(float), rng.integers(-4, 5, size=n)
    psi = rng.integers(-7, 8, size=rows) / 8.0
    is_out = rng.random(rows) < beyond
    psi[is_out] = np.sign(psi[is_out]) + (psi[is_out] == 0.0)
    r = psi * np.where(is_out & (rng.random(rows) >= at_kink), rng.integers(2, 9, rows), 1.0)
    weights = rng.integers(1, 4, size=rows).astype(float)
    A = np.vstack([rng.integers(-3, 4, size=(3, n)), V.T @ (weights * psi)])
    f = tb.Huber(V, V @ x - r, 1.0, weights=weights)
    size = [abs(Fraction(t)) for t in r]
    h = [t * t / 2 if t <= 1 else t - Fraction(1, 2) for t in size]
    return f, A, A @ x, x, float(sum(Fraction(w) * t for w, t in zip(weights, h, strict=True)))


def contains(interval, value):
    low, high = interval
    return low <= value <= high


def test_planted_answers_are_proved(count):
    for seed in range(count(40, 400)):
        f, A, b, x, value = planted(np.random.default_rng([1, seed]))
        result = tb.solve(tb.Problem(upper=f, lower=tb.LeastSquares(A, b)), "exact", rtol=1e-9)
        assert result.status == "certified"
        np.testing.assert_allclose(result.x, x, atol=1e-9)
        assert contains(result.upper_optimum, value)
        assert np.diff(result.upper_optimum)[0] <= 1e-9 * (1.0 + value)


@pytest.mark.sample(3)
@pytest.mark.parametrize("below", ["least squares", "logistic", "huber"])
def test_below_are_other_losses_too(below, count):
    """The rows of A with residuals or labels of both signs, so that x is least below too."""
    for seed in range(count(20, 200)):
        rng = np.random.default_rng([2, seed])
        f, A, b, x, value = planted(rng)
        twice = np.vstack([A, A])
        if below == "huber":
            g = tb.Huber(np.vstack([A, A, A]), np.concatenate([b + 0.25, b - 0.25, b]), 0.5)
        elif below == "least squares":
            g = tb.LeastSquares(twice, np.concatenate([b + 1.0, b - 1.0]), mean=True)
        else:  # then margins are best at 0: the same problem with x moved there
            V, x_before, x = f.matrix.dense(), x, 0 * x
            f = tb.Huber(V, f.b - V @ x_before, 1.0, weights=f.weights)
            g = tb.Logistic(twice, np.repeat([1.0, -1.0], len(A)))
        result = tb.solve(tb.Problem(upper=f, lower=g), "exact", rtol=1e-6)
        assert result.status == "certified", below
        np.testing.assert_allclose(result.x, x, atol=1e-5)
        assert contains(result.upper_optimum, value)


@pytest.mark.sample(2)
@pytest.mark.parametrize("at_kink", [0.5, 1.0])
def test_nothing_false_where_residuals_are_delta(at_kink, count):
    for seed in range(count(40, 400)):
        f, A, b, _, value = planted(np.random.default_rng([3, seed]), 0.5, at_kink)
        result = tb.solve(tb.Problem(upper=f, lower=tb.LeastSquares(A, b)), "exact")
        assert result.upper_value == pytest.approx(value, rel=1e-9)
        assert contains(result.upper_optimum, value)


def test_nothing_false_where_outliers_alone_see_a_direction(count):
    """Few rows, nearly all of them outliers: the minimisers of f are many."""
    proved = 0
    for seed in range(count(40, 400)):
        f, A, b, _, value = planted(np.random.default_rng([4, seed]), beyond=0.8, rows=8)
        result = tb.solve(tb.Problem(upper=f, lower=tb.LeastSquares(A, b)), "exact")
        assert result.upper_value == pytest.approx(value, rel=1e-9)
        assert contains(result.upper_optimum, value)
        proved += result.status == "certified"
    assert proved < count(40, 400)


@pytest.mark.sample(3)
@pytest.mark.parametrize("domain", [tb.Box(-5.0, 5.0), tb.Orthant(), tb.Ball(40.0)])
def test_on_sets_that_hold_the_planted_point(domain, count):
    for seed in range(count(15, 150)):
        f, A, b, x, value = planted(np.random.default_rng([5, seed]))
        if not domain.contains(x.astype(float)):  # f of -x_j, with the columns' signs
            signs = np.where(x < 0, -1.0, 1.0)
            f = tb.Huber(f.matrix.dense() * signs, f.b, 1.0, weights=f.weights)
            A = A * signs
        problem = tb.Problem(upper=f, lower=tb.LeastSquares(A, b), domain=domain)
        result = tb.solve(problem, "exact")
        assert result.upper_value == pytest.approx(value, rel=1e-9)
        assert contains(result.upper_optimum, value)


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_the_units_of_the_data_do_not_matter(scale):
    f, A, b, x, value = planted(np.random.default_rng(6))
    far = tb.Huber(f.matrix.dense(), scale * f.b, scale, weights=f.weights)
    result = tb.solve(tb.Problem(upper=far, lower=tb.LeastSquares(A, scale * b)), "exact")
    assert result.status == "certified"
    np.testing.assert_allclose(result.x / scale, x, atol=1e-9)
    assert result.upper_value / scale / scale == pytest.approx(value, rel=1e-12)


def test_the_fall_beyond_the_kinks_is_bounded_or_not_at_all(count):
    """What <s, d> + (f(x + d) - f(x) - <f'(x), d>) falls, against the bound, at many d."""
    bounded = 0
    for seed in range(count(60, 600)):
        rng = np.random.default_rng([7, seed])
        f, A, _, x, _ = planted(rng, rows=20)
        h, at = decompose("test", "upper", f, len(x)), x.astype(float)
        N = np.linalg.svd(A)[2][np.linalg.matrix_rank(A) :]
        steep = 10.0 ** rng.uniform(-6, 1)
        fall = flattest(h, at, A, (A,), steep, 0.0)
        bounded += np.isfinite(fall)
        for length in 10.0 ** rng.uniform(-8, 4, size=30):
            d = rng.standard_normal(len(N)) @ N
            d *= length / np.linalg.norm(d)
            gain = f.value(at + d) - f.value(at) - f.gradient(at) @ d
            noise = 1e-13 * (f.value(at + d) + f.value(at))
            assert gain - steep * np.linalg.norm(d) >= -fall - noise
    assert 0 < bounded < count(60, 600)


def test_validation_data_with_outliers_are_proved():
    from tiebreak.sklearn import TieBreakRegressor

    rng = np.random.default_rng(8)
    X, X_val, w = rng.standard_normal((20, 30)), rng.standard_normal((40, 30)), np.ones(30)
    y_val = X_val @ w + 0.3 * rng.standard_normal(40) + 5.0 * (np.arange(40) % 9 == 0)
    model = TieBreakRegressor("validation", loss="huber")
    assert model.fit(X, X @ w, X_val=X_val, y_val=y_val).proved_
