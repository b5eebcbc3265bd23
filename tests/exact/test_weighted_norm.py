"""f or g with a squared norm whose variables have weights of their own, zeros included."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import tiebreak as tb

SHAPES = [(20, 50, 0), (20, 50, 3), (60, 40, 5), (30, 60, 20), (3, 1, 0), (1, 8, 4)]


def drawn(m, n, zeros, seed):
    """A, b with pairs of equal columns, weights over four decades, some of them 0, and a center."""
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((m, n)), rng.standard_normal(m)
    half = n // 2
    A[:, :half] = A[:, n - half :]
    w = 10 ** rng.uniform(-2, 2, n)
    w[:zeros] = 0.0
    return A, b, w, rng.standard_normal(n)


def solution(A, b, w, c):
    """f* of min ½ sum w (x - c)² over the least-squares solutions, in 60 digits.

    By penalties: the limit of x(t) = argmin ½|A x - b|² + t f(x), whose error is of order t.
    """
    with mp.workdps(120):
        M, W = mp.matrix(A.tolist()), mp.diag([mp.mpf(v) for v in w.tolist()])
        t = mp.mpf(10) ** -50
        right = M.T * mp.matrix(b.tolist()) + t * W * mp.matrix(c.tolist())
        # A third level, the norm, decides where f does not.
        H = M.T * M + t * W + t * t * mp.eye(len(w))
        d = mp.lu_solve(H, right) - mp.matrix(c.tolist())
        return float((d.T * W * d)[0] / 2)


@pytest.mark.sample(9)
@pytest.mark.parametrize(("m", "n", "zeros"), SHAPES)
def test_the_answer_on_space_is_the_weighted_projection(m, n, zeros):
    A, b, w, c = drawn(m, n, zeros, seed=n)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(w, c), lower=tb.LeastSquares(A, b)), "exact")
    star = solution(A, b, w, c)
    assert result.success
    assert abs(result.upper_value - star) <= 1e-9 * (1.0 + star)
    assert abs(result.upper_value - star) <= result.upper_error


@pytest.mark.sample(3)
@pytest.mark.parametrize("domain", [tb.Orthant(), tb.Box(-0.5, 0.5), tb.Ball(2.0), tb.Simplex()])
@pytest.mark.parametrize(("m", "n", "zeros"), SHAPES[:4])
def test_weights_are_those_of_the_rows_of_least_squares(m, n, zeros, domain):
    # Powers of four, whose roots are exact: both problems are the same, number by number.
    A, b, w, c = drawn(m, n, zeros, seed=n)
    w = np.where(w > 0.0, 4.0 ** np.round(np.log2(w + 1e-9) / 2), 0.0)
    lower, root = tb.LeastSquares(A, b), np.sqrt(w)
    upper = tb.LeastSquares(np.diag(root), root * c)
    mine = tb.solve(tb.Problem(upper=tb.SquaredNorm(w, c), lower=lower, domain=domain), "exact")
    other = tb.solve(tb.Problem(upper=upper, lower=lower, domain=domain), "exact")
    assert mine.success
    assert other.success
    assert abs(mine.upper_value - other.upper_value) <= 1e-9 * (1.0 + other.upper_value)


def logistic(seed=0, rows=60):
    """With an intercept in front, and two columns twice at the end."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, 6))
    A = np.hstack([np.ones((rows, 1)), A, A[:, :2]])
    return A, np.where(A @ rng.standard_normal(9) + rng.standard_normal(rows) > 0, 1.0, -1.0)


def test_what_is_not_penalised_below_may_tie_and_is_split_evenly():
    A, y = logistic()
    w = np.array([0.0, 0, 0, 1, 1, 1, 1, 0, 0])
    lower = tb.Logistic(A, y) + 0.1 * tb.SquaredNorm(w)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower))
    assert result.status == "certified"
    assert result.dimension == 2
    np.testing.assert_allclose(result.x[1:3], result.x[7:], atol=1e-9)
    # The slope of the lower level, by hand.
    slope = A.T @ (-y / (1.0 + np.exp(y * (A @ result.x)))) / len(y) + 0.1 * w * result.x
    assert np.max(np.abs(slope)) <= 1e-9


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["auto", "exact", "adaptive", "primal-dual"])
def test_an_intercept_without_a_weight_can_fall_without_end(method):
    A, _ = logistic()
    w = np.append(0.0, np.ones(8))
    lower = tb.Logistic(A, np.ones(len(A))) + tb.SquaredNorm(w)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), method, max_iter=2000)
    assert result.status == "unbounded"
    with_weight = tb.Logistic(A, np.ones(len(A))) + tb.SquaredNorm(np.maximum(w, 1e-3))
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=with_weight), method)
    assert result.status != "unbounded"


def test_f_may_fall_along_variables_of_weight_zero_only():
    B = np.random.default_rng(3).standard_normal((3, 6))
    w, c = np.append(0.0, np.ones(5)), np.append(1.0, np.zeros(5))
    upper = tb.SquaredNorm(w) + tb.Linear(c)
    assert tb.solve(tb.Problem(upper=upper, lower=tb.LeastSquares(B, B[:, 0]))).success
    B[:, 0] = 0.0
    for method in ("auto", "adaptive"):
        result = tb.solve(tb.Problem(upper=upper, lower=tb.LeastSquares(B, B[:, 1])), method)
        assert result.status == "unbounded"


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_units_of_the_weights_do_not_matter(scale):
    A, b, w, c = drawn(20, 50, 3, seed=1)
    lower = tb.LeastSquares(A, b)
    plain = tb.solve(tb.Problem(upper=tb.SquaredNorm(w, c), lower=lower), "exact")
    scaled = tb.solve(tb.Problem(upper=tb.SquaredNorm(scale * w, c), lower=lower), "exact")
    assert scaled.status == plain.status == "certified"
    np.testing.assert_allclose(scaled.x, plain.x, rtol=1e-8, atol=1e-12)
