"""Logistic and Poisson losses above: validation losses of classifiers and counts, in `exact`.

The answers are planted: with s = grad f(x), computed here, a row s + (a normal of Z at x) of A puts
the slope of f into what all lower minimisers share, so that x is optimal for g = ½|Az - Ax|².
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import tiebreak as tb

LOSSES = ("Logistic", "Poisson")
DOMAINS = ("Space", "Ball", "Box", "Orthant", "Halfspace")


def drawn(loss, rng, k, n):
    B, w = rng.standard_normal((k, n)) / 2, rng.random(k) + 0.2
    y = np.where(rng.random(k) < 0.5, -1.0, 1.0) if loss == "Logistic" else rng.poisson(2.0, k)
    return B, np.asarray(y, dtype=float), w


def value_and_slope(loss, B, y, w, x):
    """The mean loss and its slope, without tiebreak."""
    t = B @ x
    if loss == "Logistic":
        losses, slopes = np.logaddexp(0.0, -y * t), -y / (1.0 + np.exp(y * t))
    else:
        own = np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0)) - y, 0.0)
        losses, slopes = np.exp(t) - y * t + own, np.exp(t) - y
    return w @ losses / w.sum(), B.T @ (w * slopes) / w.sum()


def set_and_normal(domain, x, rng):
    """Z with x in it, x itself, and a normal of Z at x."""
    normal = np.zeros(len(x))
    if domain == "Ball":
        return tb.Ball(float(np.linalg.norm(x))), x, 0.3 * x
    if domain == "Box":
        x = np.clip(x, -1.0, 1.0)
        x[:2] = 1.0, -1.0
        normal[:2] = 0.4, -0.3
        return tb.Box(-1.0, 1.0), x, normal
    if domain == "Orthant":
        x = np.abs(x)
        x[:3], normal[:3] = 0.0, -0.2
        return tb.Orthant(), x, normal
    if domain == "Halfspace":
        a = rng.standard_normal(len(x))
        return tb.Halfspace(a, float(a @ x)), x, 0.2 * a
    return tb.Space(), x, normal


@pytest.mark.sample(12)
@pytest.mark.parametrize("above", LOSSES)
@pytest.mark.parametrize("below", ["LeastSquares", "Poisson"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_planted_answers_are_found_and_no_interval_is_wrong(above, below, domain):
    rng = np.random.default_rng(0)
    proved = 0
    for trial in range(10):
        n, k = int(rng.integers(6, 12)), int(rng.integers(3, 30))
        B, y, w = drawn(above, rng, k, n)
        Z, x, normal = set_and_normal(domain, rng.standard_normal(n), rng)
        f_star, slope = value_and_slope(above, B, y, w, x)
        shared = slope + normal
        A = np.vstack([shared / np.linalg.norm(shared), rng.standard_normal((2, n)) / 2])
        target = A @ x if below == "LeastSquares" else np.exp(A @ x)
        lower = getattr(tb, below)(A, target)
        f = getattr(tb, above)(B, y, weights=w)
        result = tb.solve(tb.Problem(upper=f, lower=lower, domain=Z), "exact")
        assert result.success, (trial, result)
        assert result.upper_value == pytest.approx(f_star, rel=1e-7)
        low, high = result.certificate.upper_optimum
        assert low <= f_star * (1 + 1e-7)  # x is planted up to rounding, which ties magnify
        assert high >= f_star * (1 - 1e-7)
        proved += result.proved
        if k > n:  # then f is strictly convex, and x the only answer
            np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-5)
    assert proved >= 8


@pytest.mark.sample(2)
@pytest.mark.parametrize("above", LOSSES)
def test_on_space_the_answer_is_that_of_newton_in_the_null_space(above):
    rng = np.random.default_rng(1)
    for _ in range(10):
        A, x0 = rng.standard_normal((3, 8)), rng.standard_normal(8)
        B, y, w = drawn(above, rng, 60, 8)
        N = np.linalg.svd(A)[2][3:].T
        u = np.zeros(5)
        for _ in range(60):
            t = B @ (x0 + N @ u)
            bend = np.exp(t) if above == "Poisson" else 0.25 / np.cosh(0.5 * t) ** 2
            H = (B @ N).T @ (w * bend * (B @ N).T).T / w.sum()
            step = np.linalg.solve(H, -N.T @ value_and_slope(above, B, y, w, x0 + N @ u)[1])
            u = u + step / max(1.0, np.max(np.abs(B @ N @ step)))
        problem = tb.Problem(
            upper=getattr(tb, above)(B, y, weights=w), lower=tb.LeastSquares(A, A @ x0)
        )
        for method in ("exact", "auto"):
            result = tb.solve(problem, method)
            assert result.status == "certified", result
            np.testing.assert_allclose(result.x, x0 + N @ u, rtol=0, atol=1e-8)


def test_a_loss_that_falls_for_ever_among_the_minimisers_is_said_to():
    A = np.array([[1.0, 1.0, 0.0]])
    separable = np.array([[1.0, 0.0, 1.0], [2.0, 1.0, 0.0], [0.0, -1.0, 3.0]])  # d = (1, -1, 0)
    for f in (tb.Logistic(separable, np.ones(3)), tb.Poisson(-separable, np.zeros(3))):
        for Z in (tb.Space(), tb.Halfspace([0.0, 1.0, 0.0], 5.0)):
            problem = tb.Problem(upper=f, lower=tb.LeastSquares(A, [1.0]), domain=Z)
            result = tb.solve(problem, "exact")
            assert result.status == "unbounded", result
            d = result.findings.direction
            assert abs(A @ d)[0] <= 1e-9
            assert np.all(separable @ d >= -1e-9)
            assert np.max(separable @ d) > 1e-6
    bounded = tb.Problem(
        upper=tb.Logistic(separable, np.ones(3)),
        lower=tb.LeastSquares(A, [1.0]),
        domain=tb.Box(-2.0, 2.0),
    )
    result = tb.solve(bounded, "exact")
    assert result.success
    np.testing.assert_allclose(result.x, [2.0, -1.0, 2.0], atol=1e-6)


def test_flat_directions_of_the_loss_do_no_harm():
    """Fewer rows above than the slice has dimensions: f* is proved, and x some answer."""
    rng = np.random.default_rng(2)
    for _ in range(6):
        A, B = rng.standard_normal((4, 30)), rng.standard_normal((6, 30))
        B = np.vstack([B, B])
        y = np.repeat([1.0, -1.0], 6)  # both labels of every row: the least is log 2, at t = 0
        problem = tb.Problem(
            upper=tb.Logistic(B, y), lower=tb.LeastSquares(A, rng.standard_normal(4))
        )
        result = tb.solve(problem, "exact")
        low, high = result.certificate.upper_optimum
        assert low <= math.log(2.0) <= high
        assert result.upper_value == pytest.approx(math.log(2.0), abs=1e-12)
        assert result.status == "certified"
