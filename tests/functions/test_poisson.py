"""Poisson regression: its values against mpmath, far out, and its minimisers against an oracle."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb


def exactly(A, y, w, x, mean):
    """The value and the gradient in 60 digits, without tiebreak."""
    with mpmath.workdps(60):
        t = [mpmath.fdot(row, x) for row in A.tolist()]
        over = mpmath.fsum(w) if mean else mpmath.mpf(1)
        rows = list(zip(t, y, w, strict=True))
        value = mpmath.fsum(
            v * (mpmath.exp(s) - c * s + (c * mpmath.log(c) if c > 0 else 0) - c)
            for s, c, v in rows
        )
        slopes = [v * (mpmath.exp(s) - c) for s, c, v in rows]
        gradient = [mpmath.fdot(column, slopes) / over for column in A.T.tolist()]
        return value / over, gradient


@pytest.mark.sample(2)
@pytest.mark.parametrize("mean", [False, True])
def test_value_and_gradient_are_those_of_mpmath_up_to_the_bound_on_rounding(mean):
    rng = np.random.default_rng(0)
    for _ in range(60):
        m, n = int(rng.integers(1, 9)), int(rng.integers(1, 6))
        A = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-2, 1)
        y = np.floor(rng.exponential(10.0 ** rng.uniform(-1, 4), m)) * (rng.random(m) < 0.7)
        if rng.random() < 0.3:
            y = y * rng.random(m)
        w = rng.random(m) * 10.0 ** rng.uniform(-3, 3) if rng.random() < 0.5 else np.ones(m)
        for size in (1e-8, 1e-2, 1.0, 5.0):
            x = size * rng.standard_normal(n)
            if rng.random() < 0.3 and m <= n and np.all(y > 0):  # a perfect fit: all cancels
                x = np.linalg.lstsq(A, np.log(y), rcond=None)[0]
            h = tb.Poisson(A, y, mean, weights=w)
            value, slope = h.value(x), h.gradient(x)
            if not math.isfinite(value):
                continue
            errors = h.rounding_errors(x, np.linalg.norm(x), value, np.linalg.norm(slope))
            wanted, gradient = exactly(A, y, w, x, mean)
            assert abs(float(mpmath.mpf(value) - wanted)) <= errors[0]
            off = [float(s - d) for s, d in zip(map(mpmath.mpf, slope), gradient, strict=True)]
            assert np.linalg.norm(off) <= errors[1]
            # And the bounds are worth having.
            assert errors[0] <= 1e-9 * (1 + abs(value) + h.scale * float(w @ y)) * (1 + size * 20)


def test_every_row_is_at_least_0_and_0_where_the_mean_is_the_count():
    y = np.array([0.5, 1.0, 3.0, 1e6, 1e-300, 1e100])
    h = tb.Poisson(np.eye(6), y, mean=False)
    assert h.lower_bound == 0.0
    assert 0.0 <= h.value(np.log(y)) <= 1e-20


def test_far_out_values_are_inf_and_never_nan():
    A = np.array([[1.0, -1.0], [-2.0, 0.0], [0.0, 3.0]])
    for kind in (np.float64, np.float32):
        h = tb.Poisson(A.astype(kind), np.array([0, 2, 1], kind))
        for size in (1e2, 1e4, 1e10, 1e30, 1e38):
            for x in ([1, 0], [-1, 0], [0, 1], [0, -1], [1, 1]):
                point = size * np.array(x, kind)
                value = h.value(point)
                assert not math.isnan(value)
                assert value > 0.0
                assert np.all(np.isfinite(h.gradient(point)))
    assert tb.Poisson(A, [0, 2, 1]).value(np.array([1e4, 0.0])) == math.inf


def test_there_is_no_lipschitz_constant_and_methods_that_need_one_say_so():
    h = tb.Poisson(np.eye(2), [1.0, 2.0])
    assert h.lipschitz == h.known_lipschitz == math.inf
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=h, domain=tb.Ball(1.0))
    with pytest.raises(
        ValueError, match='known Lipschitz constant, got none; use "auto" or "adaptive"'
    ):
        tb.solve(problem, "agm-bio")
    with pytest.raises(ValueError, match="Poisson: y must be non-negative, got -1 in row 1"):
        tb.Poisson(np.eye(2), [1.0, -1.0])
    with pytest.raises(ValueError, match="Poisson: y must be at most 1e\\+152 in numpy float64"):
        tb.Poisson(np.eye(2), [1.0, 1e200])
    with pytest.raises(ValueError, match="Poisson: weights must be non-negative"):
        tb.Poisson(np.eye(2), [1.0, 1.0], weights=[1.0, -1.0])


def test_sums_and_multiples_bound_their_rounding_errors():
    rng = np.random.default_rng(1)
    A, y, c = rng.standard_normal((6, 3)), rng.integers(0, 5, 6), rng.standard_normal(3)
    h = 3.0 * tb.Poisson(A, y, mean=False) + tb.Linear(c)
    for size in (0.1, 1.0, 10.0, 30.0):
        x = size * rng.standard_normal(3)
        value, slope = h.value(x), h.gradient(x)
        if not math.isfinite(value):
            continue
        wanted, _ = exactly(A, y, np.ones(6), x, False)
        wanted = 3 * wanted + mpmath.fdot(c.tolist(), x.tolist())
        errors = h.rounding_errors(x, np.linalg.norm(x), value, np.linalg.norm(slope))
        assert abs(float(mpmath.mpf(value) - wanted)) <= errors[0]
        assert math.isfinite(errors[0])


# --- minimisers ----------------------------------------------------------------------------------


def planted(rng, m, n, rank, domain=None):
    """A Poisson fit with ties whose minimiser of least distance to a center is known: x.

    The counts are the means at x, times nothing: g(x) = 0 is its minimum, wherever x is in Z.
    """
    A = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) / rank
    x = rng.standard_normal(n)
    x = 2.0 * x / np.linalg.norm(x)
    return A, x, np.exp(A @ x)


def test_the_fit_of_least_norm_is_that_of_newton_in_the_row_space():
    rng = np.random.default_rng(2)
    for _ in range(10):
        A = rng.standard_normal((20, 60)) / 4
        y = rng.poisson(np.exp(A @ rng.standard_normal(60) * 0.5)) + 1.0
        w = rng.random(20)
        wanted = np.linalg.pinv(A) @ np.log(y)  # all rows can be met: the least norm of A x = log y
        for lower in (tb.Poisson(A, y), tb.Poisson(sp.csr_array(A), y, weights=w)):
            result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower))
            assert result.status == "certified"
            np.testing.assert_allclose(result.x, wanted, rtol=0, atol=1e-9)


def newton(A, y, w, V):
    """The minimiser of the weighted loss over the span of V, by damped Newton steps."""
    u, B = np.zeros(V.shape[1]), A @ V

    def value(u):
        with np.errstate(over="ignore"):
            return np.sum(w * (np.exp(B @ u) - y * (B @ u)))

    for _ in range(500):
        means = np.exp(B @ u)
        d = np.linalg.solve(B.T @ (w * means * B.T).T, B.T @ (w * (y - means)))
        step = 1.0
        while not value(u + step * d) <= value(u) + 1e-14 * abs(value(u)) and step > 1e-12:
            step /= 2
        u = u + step * d
        if np.linalg.norm(d) <= 1e-14 * (1 + np.linalg.norm(u)):
            break
    return V @ u


def tied(rng, kind):
    """A with more columns than its rank: collinear ones, or one-hot ones with an intercept."""
    if kind == "collinear":
        A = rng.standard_normal((30, 4))
        return np.hstack([A, A[:, :2], A[:, :1] - 2 * A[:, 1:2]])
    one, two = rng.integers(0, 3, 40), rng.integers(0, 4, 40)
    one[:3], two[:4] = range(3), range(4)
    return np.hstack([np.ones((40, 1)), np.eye(3)[one], np.eye(4)[two]])


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["collinear", "one-hot"])
def test_with_ties_the_answer_is_that_of_newton_in_the_row_space(kind):
    rng = np.random.default_rng(3)
    for trial in range(12):
        A = tied(rng, kind)
        m, n = A.shape
        y = rng.poisson(np.exp(0.5 * A @ rng.standard_normal(n)) + 0.5) + (trial % 2)
        w = np.ones(m) if trial % 3 else rng.integers(1, 4, m).astype(float)
        V = np.linalg.svd(A)[2][: np.linalg.matrix_rank(A)].T
        center = rng.standard_normal(n)
        lower = tb.Poisson(A, y, weights=w)
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(center=center), lower=lower))
        fall = falling(A, y)
        if fall is None:
            assert result.success, result
            assert result.dimension == n - V.shape[1]
            wanted = newton(A, y, w, V) + center - V @ (V.T @ center)
            np.testing.assert_allclose(result.x, wanted, rtol=0, atol=1e-8)
            low, high = result.certificate.upper_optimum
            truth = 0.5 * np.sum((wanted - center) ** 2)
            assert low <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= high  # noqa: PT018
        else:
            assert result.status in ("unbounded", "undetermined")


def falling(A, y):
    """A direction along which the loss falls for ever, by a linear program; None: there is none."""
    from scipy.optimize import linprog

    zero, n = y == 0, A.shape[1]
    if not zero.any():
        return None
    equal = A[~zero] if (~zero).any() else None
    found = linprog(
        A[zero].sum(axis=0), A_ub=A[zero], b_ub=np.zeros(zero.sum()), A_eq=equal,
        b_eq=None if equal is None else np.zeros(len(equal)), bounds=[(-1, 1)] * n,
    )  # fmt: skip
    return found.x if found.fun < -1e-6 else None


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", ["exact", "auto", "adaptive"])
def test_without_a_minimiser_a_run_ends_as_unbounded_with_a_true_direction(method):
    rng = np.random.default_rng(4)
    for trial in range(8):
        n = 5
        A = rng.integers(-3, 4, (12, n)).astype(float)
        y = rng.poisson(2.0, 12).astype(float) * (np.arange(12) < 3)
        d = np.array([1.0, -1.0, 2.0, 0.0, 1.0])
        A[y > 0, 4] = -(A[y > 0, :4] @ d[:4])  # the rows with a count do not see d
        A[y == 0] *= -np.where(A[y == 0] @ d > 0, 1.0, -1.0)[:, None]
        lower = tb.Poisson(sp.csr_array(A) if trial % 2 else A, y, weights=rng.random(12) + 0.5)
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), method)
        assert result.status == "unbounded", result
        way = result.findings.direction
        along = A @ way
        assert np.all(np.abs(along[y > 0]) <= 1e-9)
        assert np.all(along[y == 0] <= 1e-9)
        assert np.any(along[y == 0] < -1e-6)


def test_a_linear_term_may_tip_the_balance():
    """e^t - y t + c t falls for ever where c > y, and has the minimiser log(y - c) where c < y."""
    for c, ends in ((2.0, True), (3.5, False)):
        lower = tb.Poisson([[1.0]], [3.0], mean=False) + tb.Linear([c])
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), "exact")
        if ends:
            assert result.success
            assert result.x[0] == pytest.approx(math.log(3.0 - c), abs=1e-12)
        else:
            assert result.status in ("unbounded", "undetermined")
    lower = tb.Poisson([[1.0]], [0.0]) + tb.Linear([-2.0])
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), "exact")
    assert result.x[0] == pytest.approx(math.log(2.0), abs=1e-12)


def test_in_a_ball_that_cuts_the_minimisers_the_answer_on_the_sphere_is_proved():
    """All minimisers are r + N v, r in the row space: the nearest to c has N v on the way to c."""
    rng = np.random.default_rng(10)
    for _ in range(10):
        A = np.repeat(rng.standard_normal((12, 3)), 2, axis=1)
        y, w = rng.poisson(2.0, 12) + 1.0, rng.random(12) + 0.1
        V = np.linalg.svd(A)[2][:3].T
        r, c = newton(A, y, w, V), rng.standard_normal(6)
        aside = c - V @ (V.T @ c)
        share = rng.uniform(0.1, 0.9)
        x = r + share * aside
        problem = tb.Problem(
            upper=tb.SquaredNorm(center=c),
            lower=tb.Poisson(A, y, weights=w),
            domain=tb.Ball(float(np.linalg.norm(x))),
        )
        result = tb.solve(problem, "exact")
        assert result.status == "certified", result
        np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-7)
        low, high = result.certificate.upper_optimum
        truth = 0.5 * np.sum((x - c) ** 2)
        assert low <= truth * (1 + 1e-10)
        assert high >= truth * (1 - 1e-10)
        assert high - low <= 1e-7


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3])
@pytest.mark.parametrize("method", ["exact", "auto"])
def test_large_and_small_counts_and_columns_settle(method, scale):
    rng = np.random.default_rng(5)
    for size in (1e-5, 1.0, 1e5):
        A = scale * np.hstack([np.ones((15, 1)), rng.standard_normal((15, 2))])
        y = size * rng.gamma(2.0, 1.0, 15)
        x = newton(A / scale, y, np.ones(15), np.eye(3)) / scale
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Poisson(A, y)), method)
        assert result.success, result
        np.testing.assert_allclose(scale * result.x, scale * x, rtol=1e-9, atol=1e-9)


DOMAINS = {"Ball": tb.Ball(3.0), "Box": tb.Box(-1.0, 1.0), "Orthant": tb.Orthant()}


@pytest.mark.sample(2)
@pytest.mark.parametrize("domain", DOMAINS)
def test_planted_minimisers_on_sets(domain):
    """The counts are the means at x: g* = 0. With f = ½|F(z - x) + s|² and s such that its slope at
    x is in the row space of A and the normals of Z, x is the answer."""
    rng = np.random.default_rng(6)
    for trial in range(8):
        A = rng.standard_normal((6, 12)) / 2
        x = rng.uniform(-1, 1, 12)
        normal = np.zeros(12)
        if domain == "Box":
            x[:4] = [1.0, -1.0, 1.0, -1.0]
            normal[:4] = -np.sign(x[:4]) * rng.random(4)
        if domain == "Orthant":
            x = np.abs(x)
            x[:4] = 0.0
            normal[:4] = rng.random(4)
        y = np.exp(A @ x)
        slope = A.T @ rng.standard_normal(6) + normal
        F = rng.standard_normal((14, 12))
        s = np.linalg.lstsq(F.T, slope, rcond=None)[0]
        f = tb.LeastSquares(F, F @ x - s)
        problem = tb.Problem(upper=f, lower=tb.Poisson(A, y), domain=DOMAINS[domain])
        result = tb.solve(problem)
        truth = 0.5 * s @ s
        low, high = result.certificate.upper_optimum
        assert low <= truth * (1 + 1e-9)
        assert high >= truth * (1 - 1e-9)
        assert result.success, (trial, result)
        np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-6)


def test_the_adaptive_method_certifies_planted_truth_in_a_ball():
    rng = np.random.default_rng(7)
    for _ in range(4):
        A = rng.standard_normal((5, 8)) / 2
        x = rng.standard_normal(8)
        x = A.T @ (np.linalg.pinv(A).T @ x)
        lower = tb.Poisson(A, np.exp(A @ x))
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(4.0))
        result = tb.solve(problem, "adaptive", rtol=1e-2, max_iter=20_000)
        truth = 0.5 * x @ x
        low, high = result.certificate.upper_optimum
        assert low <= truth <= high
        assert result.certificate.lower_optimum[0] <= 0.0
        assert result.success, result
        assert result.upper_value <= truth * 1.02


@pytest.mark.parametrize("method", ["adaptive", "primal-dual"])
def test_methods_step_back_from_where_the_value_is_infinite(method):
    """From far out, where steps by the first slope lead to means that overflow."""
    rng = np.random.default_rng(9)
    for size in (1.0, 10.0, 100.0):
        A = rng.standard_normal((4, 3))
        x0 = size * rng.standard_normal(3)
        x0 = x0 * min(1.0, 300.0 / np.max(np.abs(A @ x0)))
        lower = tb.Poisson(A, [0.0, 3.0, 1.0, 20.0])
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(1e3))
        result = tb.solve(problem, method, x0=x0, max_iter=300)
        assert result.status != "failed", result
        assert math.isfinite(result.lower_value)


class Rows:
    """Rows that are streamed from memory."""

    def __init__(self, A):
        self.A, self.shape, self.dtype = A, A.shape, A.dtype

    def __getitem__(self, rows):
        return self.A[rows]


def test_streamed_is_dense():
    rng = np.random.default_rng(8)
    A, y = rng.standard_normal((40, 6)), rng.poisson(2.0, 40)
    w = rng.integers(0, 3, 40)
    dense = tb.Poisson(A, y, weights=w)
    streamed = tb.Poisson(tb.Streamed(Rows(A), block=256), y, weights=w)
    for x in rng.standard_normal((5, 6)):
        assert streamed.value(x) == pytest.approx(dense.value(x), rel=1e-13)
        np.testing.assert_allclose(streamed.gradient(x), dense.gradient(x), rtol=1e-11)
    results = [tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=h)) for h in (dense, streamed)]
    np.testing.assert_allclose(results[1].x, results[0].x, rtol=0, atol=1e-9)
