"""f = L1 with weights, zeros included, and a center, against a linear program of SciPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import tiebreak as tb

DOMAINS = {
    "Space": (tb.Space(), (None, None)),
    "Orthant": (tb.Orthant(), (0.0, None)),
    "Box": (tb.Box(-1.0, 1.0), (-1.0, 1.0)),
}


def drawn(m, n, zeros, has_center, on_orthant, seed):
    rng = np.random.default_rng(seed)
    A, x = rng.standard_normal((m, n)), rng.uniform(-0.9, 0.9, n) * (rng.random(n) < 0.3)
    w, c = 10 ** rng.uniform(-1, 1, n), has_center * rng.standard_normal(n)
    w[:zeros] = 0.0
    return A, A @ (np.abs(x) if on_orthant else x), w, c


def least(A, b, w, c, bounds):
    """min sum w_j |x_j - c_j| over A x = b and the bounds: variables x and s >= |x - c|."""
    n = A.shape[1]
    one = np.eye(n)
    found = linprog(
        np.append(np.zeros(n), w),
        A_ub=np.block([[one, -one], [-one, -one]]),
        b_ub=np.append(c, -c),
        A_eq=np.hstack([A, 0.0 * A]),
        b_eq=b,
        bounds=[bounds] * n + [(0.0, None)] * n,
    )
    return found.fun


@pytest.mark.sample(3)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(
    ("m", "n", "zeros", "has_center"),
    [(10, 30, 0, False), (10, 30, 4, False), (10, 30, 0, True), (25, 30, 3, True), (1, 2, 1, True)],
)
def test_the_answer_is_that_of_a_linear_program(m, n, zeros, has_center, domain):
    Z, bounds = DOMAINS[domain]
    A, b, w, c = drawn(m, n, zeros, has_center, domain == "Orthant", seed=m + zeros)
    upper = tb.L1(w, c) if has_center else tb.L1(w)
    result = tb.solve(tb.Problem(upper=upper, lower=tb.LeastSquares(A, b), domain=Z), "exact")
    star = least(A, b, w, c, bounds)
    assert result.success
    assert result.upper_value == pytest.approx(star, rel=1e-9, abs=1e-9)
    assert abs(result.upper_value - star) <= result.upper_error + 1e-12 * (1.0 + star)
    # What is not penalised must be bounded for a proof; on an orthant more is needed.
    if domain == "Box" or (domain == "Space" and not zeros):
        assert result.status == "certified"


def test_logistic_ties_and_auto():
    rng = np.random.default_rng(5)
    A = rng.standard_normal((40, 3))
    y = np.where(A @ np.ones(3) + rng.standard_normal(40) > 0, 1.0, -1.0)
    lower = tb.Logistic(np.hstack([A, A]), y)
    # Of every two copies the cheaper one is taken.
    w = np.array([1.0, 3.0, 1.0, 2.0, 1.0, 0.5])
    result = tb.solve(tb.Problem(upper=tb.L1(w), lower=lower))
    assert result.status == "certified"
    np.testing.assert_array_equal(result.x[[3, 1, 2]], 0.0)
    # With a center at one of the solutions that is the answer.
    near = tb.solve(tb.Problem(upper=tb.L1(w, result.x), lower=lower))
    np.testing.assert_allclose(near.x, result.x, atol=1e-9)


def test_an_l1_ball_is_refused_with_weights_and_taken_without():
    A, b, w, c = drawn(10, 30, 0, True, False, seed=0)
    for upper in (tb.L1(w), tb.L1(1.0, c)):
        problem = tb.Problem(upper=upper, lower=tb.LeastSquares(A, b), domain=tb.L1Ball(3.0))
        with pytest.raises(ValueError, match="must not be an l1 ball if upper is L1 with weights"):
            tb.solve(problem, "exact")
    assert tb.solve(
        tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, b), domain=tb.L1Ball(3.0)), "exact"
    ).success


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["adaptive", "primal-dual"])
def test_first_order_methods_prove_what_is_true(method):
    A, b, w, c = drawn(5, 10, 2, True, False, seed=7)
    problem = tb.Problem(upper=tb.L1(w, c), lower=tb.LeastSquares(A, b), domain=tb.Box(-1.0, 1.0))
    result = tb.solve(problem, method, max_iter=3000)
    star = least(A, b, w, c, (-1.0, 1.0))
    assert result.upper_value - star <= result.upper_gap
    assert abs(result.upper_value - star) <= 0.05 * star


def test_a_penalty_below_may_have_weights_and_a_center():
    rng = np.random.default_rng(8)
    A, b, c = rng.standard_normal((20, 6)), rng.standard_normal(20), rng.standard_normal(6)
    w = np.array([0.0, 1.0, 5.0, 20.0, 0.0, 3.0])
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b) + tb.L1(w, c), domain=tb.Box(-3.0, 3.0)
    )
    result = tb.solve(problem, rtol=1e-8)
    # Optimality of the lower level, by hand: it has one minimiser.
    slope, off = A.T @ (A @ result.x - b), result.x - c
    is_off = np.abs(off) > 1e-5
    np.testing.assert_allclose(slope[is_off], (-w * np.sign(off))[is_off], atol=1e-2)
    assert np.all(np.abs(slope) <= w + 1e-2)


def test_single_precision_is_kept_where_it_holds_the_weights():
    A = np.eye(3, 5, dtype=np.float32)
    lower, whole, third = (
        tb.LeastSquares(A, A[:, 0]),
        np.array([1.0, 2, 3, 4, 5]),
        np.full(5, 1 / 3),
    )
    assert tb.Problem(upper=tb.L1(whole), lower=lower).is_single
    assert not tb.Problem(upper=tb.L1(third), lower=lower).is_single
    assert not tb.Problem(upper=tb.L1(1.0, third), lower=lower).is_single


def test_names_of_weights_and_centers_must_be_those_of_the_data():
    table = pd.DataFrame(np.eye(2), columns=["a", "b"])
    lower = tb.LeastSquares(table, [1.0, 2.0])
    tb.Problem(upper=tb.L1(pd.Series([1.0, 2.0], ["a", "b"])), lower=lower)
    for upper in (
        tb.L1(pd.Series([1.0, 2.0], ["b", "a"])),
        tb.L1(1.0, pd.Series([1.0, 2.0], ["b", "a"])),
    ):
        for some in (upper, 2.0 * upper):
            with pytest.raises(ValueError, match="same columns in the same order"):
                tb.Problem(upper=some, lower=lower)


def test_new_numbers_in_the_arrays_count():
    w, b = np.ones(2), np.array([2.0])
    problem = tb.Problem(upper=tb.L1(w), lower=tb.LeastSquares(np.array([[1.0, 1.0]]), b))
    w[0] = 3.0
    np.testing.assert_allclose(tb.solve(problem).x, [0.0, 2.0], atol=1e-9)
    w[:] = 1.0, 3.0
    np.testing.assert_allclose(tb.solve(problem).x, [2.0, 0.0], atol=1e-9)
