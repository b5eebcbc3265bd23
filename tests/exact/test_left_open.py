"""What both levels leave open is decided by the least norm, whatever x0 is."""

from __future__ import annotations

import cvxpy as cp
import mpmath
import numpy as np
import pytest

import tiebreak as tb

N = 9
DOMAINS = {
    "space": tb.Space(),
    "ball": tb.Ball(3.0, center=np.full(N, 0.5)),
    "box": tb.Box(-0.6, 0.6),
    "orthant": tb.Orthant(),
    "simplex": tb.Simplex(2.0),
    "l1 ball": tb.L1Ball(3.5),
    "polyhedron": tb.Polyhedron(np.vstack([np.ones(N), np.eye(N)]), np.append(0.5, np.ones(N))),
}


def constraints(name, x):
    """The domain for CVXPY."""
    return {
        "space": [],
        "ball": [cp.norm(x - 0.5) <= 3.0],
        "box": [x <= 0.6, x >= -0.6],
        "orthant": [x >= 0],
        "simplex": [x >= 0, cp.sum(x) == 2.0],
        "l1 ball": [cp.norm1(x) <= 3.5],
        "polyhedron": [cp.sum(x) <= 0.5, x <= 1.0],
    }[name]


def solved_by_cvxpy(objective, given):
    problem = cp.Problem(cp.Minimize(objective), given)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    problem.solve(solver="CLARABEL", **tight)
    return problem.value


def data(seed):
    """Rows of the lower level and of the upper one, which sees some directions or none."""
    rng = np.random.default_rng([41, seed])
    A, C = rng.standard_normal((3, N)), rng.standard_normal((2, N))
    C = (C, A[:2], np.vstack([A[0] - A[1], C[0]]), C[:1])[seed % 4]
    return A, A @ rng.uniform(0.0, 0.4, N), C, rng.standard_normal(len(C))


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("seed", range(4))
def test_the_least_norm_among_what_both_levels_leave(name, seed):
    A, b, C, t = data(seed)
    problem = tb.Problem(
        upper=tb.LeastSquares(C, t), lower=tb.LeastSquares(A, b), domain=DOMAINS[name]
    )
    found = tb.solve(problem, "exact")
    assert found.success
    # Independently: each level's images held, which all of its minimisers share.
    x = cp.Variable(N)
    Z = constraints(name, x)
    solved_by_cvxpy(cp.sum_squares(A @ x - b), Z)
    Z += [A @ x == A @ x.value]
    solved_by_cvxpy(cp.sum_squares(C @ x - t), Z)
    solved_by_cvxpy(cp.sum_squares(x), [*Z, C @ x == C @ x.value])
    assert np.linalg.norm(found.x) <= np.linalg.norm(x.value) * (1.0 + 1e-6)
    np.testing.assert_allclose(found.x, x.value, atol=2e-4)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["space", "box", "orthant", "simplex", "polyhedron"])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_norm_on_a_face_of_the_sparsest(name, seed):
    rng = np.random.default_rng([42, seed])
    A = rng.integers(-1, 2, (2, N)).astype(float)
    A[:, N // 2 :] = A[:, : N - N // 2]  # columns that are there twice
    b = A @ rng.uniform(0.0, 0.3, N)
    weights = np.where(rng.random(N) < 0.2, 0.0, 1.0) if seed == 3 else np.ones(N)
    problem = tb.Problem(upper=tb.L1(weights), lower=tb.LeastSquares(A, b), domain=DOMAINS[name])
    found = tb.solve(problem, "exact")
    assert found.success
    x = cp.Variable(N)
    Z = constraints(name, x)
    solved_by_cvxpy(cp.sum_squares(A @ x - b), Z)
    Z += [A @ x == A @ x.value]
    size = cp.sum(cp.multiply(weights, cp.abs(x)))
    best = solved_by_cvxpy(size, Z)
    assert found.upper_value == pytest.approx(best, abs=1e-7)
    solved_by_cvxpy(cp.sum_squares(x), [*Z, size <= best + 1e-9])
    assert np.linalg.norm(found.x) <= np.linalg.norm(x.value) * (1.0 + 1e-5) + 1e-6


def test_total_variation_leaves_a_constant():
    """The norm is that of x, not of its differences."""
    A = np.array([[1.0, -1.0, 0.0, 0.0, 0.0]])
    problem = tb.Problem(upper=tb.TotalVariation(1.0), lower=tb.LeastSquares(A, [3.0]))
    found = tb.solve(problem, "exact")
    assert found.success
    # |x_1 - x_2| = 3 and all else equal to x_2: of (a + 3, a, a, a, a) the least has a = -3/5.
    np.testing.assert_allclose(found.x, [2.4, -0.6, -0.6, -0.6, -0.6], atol=1e-12)
    assert found.findings.left_open == 1


def test_outliers_above_are_inequalities():
    """Two rows that pull alike: f is the same wherever both residuals are beyond delta = 1."""
    rows, lower = np.array([[1.0, 0.0], [1.0, 0.0]]), tb.LeastSquares([[0.0, 1.0]], [2.0])
    for targets, x_1 in (([9.0, -9.0], 0.0), ([19.0, 1.0], 2.0)):  # -8 to 8, and 2 to 18
        problem = tb.Problem(upper=tb.Huber(rows, targets, 1.0), lower=lower)
        found = tb.solve(problem, "exact")
        np.testing.assert_allclose(found.x, [x_1, 2.0], atol=1e-12)


def one_hot(seed, m=60):
    rng = np.random.default_rng([43, seed])
    first, second = rng.integers(0, 4, m), rng.integers(0, 3, m)
    X = np.c_[np.eye(4)[first], np.eye(3)[second], rng.standard_normal(m), np.ones(m)]
    return X, rng


@pytest.mark.sample(2)
@pytest.mark.parametrize("loss", ["squares", "logistic"])
@pytest.mark.parametrize("rows", [80, 2000])
def test_a_criterion_that_cannot_choose(loss, rows):
    """Indicators that add up to 1, and a mean of predictions above: the same for all best fits."""
    for seed in range(5):
        X, rng = one_hot(seed, rows)
        y = rng.standard_normal(rows)
        lower = tb.LeastSquares(X, y) if loss == "squares" else tb.Logistic(X, np.sign(y))
        group = rng.random(rows) < 0.4
        gap = np.mean(X[group], axis=0) - np.mean(X[~group], axis=0)
        found = tb.solve(tb.Problem(upper=tb.LeastSquares(gap[None], [0.0]), lower=lower))
        least = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower))
        assert found.success
        np.testing.assert_allclose(found.x, least.x, atol=1e-9)
        assert found.findings.is_flat
        assert found.findings.left_open == found.findings.dimension == 2
        assert "f is the same for all ties" in str(dict(found.findings.lines()))


@pytest.mark.parametrize("loss", ["squares", "logistic"])
def test_an_intercept_need_not_count(loss):
    X, rng = one_hot(7)
    n = X.shape[1]
    y = X @ rng.standard_normal(n) + rng.standard_normal(len(X))
    lower = tb.LeastSquares(X, y) if loss == "squares" else tb.Logistic(X, np.sign(y))
    counted = np.append(np.ones(n - 1), 0.0)
    flat = tb.Problem(upper=tb.Linear(np.zeros(n)), lower=lower, counted=counted)
    least = tb.Problem(upper=tb.SquaredNorm(counted), lower=lower)
    np.testing.assert_allclose(tb.solve(flat, "exact").x, tb.solve(least, "exact").x, atol=1e-9)
    with pytest.raises(ValueError, match="counted must have one entry per variable"):
        tb.Problem(upper=tb.SquaredNorm(), lower=lower, counted=np.ones(3))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", DOMAINS)
def test_a_start_does_not_change_the_answer(name):
    A, b, C, t = data(3)
    problem = tb.Problem(
        upper=tb.LeastSquares(C, t), lower=tb.LeastSquares(A, b), domain=DOMAINS[name]
    )
    first = tb.solve(problem)
    rng = np.random.default_rng(5)
    inside = first.x + 1e-3 * rng.standard_normal(N)
    for x0 in (inside, 100.0 * rng.standard_normal(N), first):
        again = tb.solve(problem, x0=x0)
        np.testing.assert_allclose(again.x, first.x, atol=1e-9)


def test_in_the_units_given():
    """Columns of sizes that are 1e12 apart: the norm is that of x as it is given."""
    D = np.array([1e-6, 1.0, 1e6, 1.0])
    A = np.array([[1.0, 1.0, 1.0, 0.0]]) * D
    f = tb.LeastSquares(np.array([[0.0, 0.0, 0.0, 1.0]]), [1.0])
    found = tb.solve(tb.Problem(upper=f, lower=tb.LeastSquares(A, [2.0])), "exact")
    least = np.append(2.0 * A[0, :3] / (A[0] @ A[0]), 1.0)
    np.testing.assert_allclose(found.x, least, rtol=1e-9, atol=1e-16)
    assert found.findings.left_open == 2


def test_where_f_sees_everything_nothing_is_left():
    A, b, _, _ = data(0)
    for f in (tb.SquaredNorm(), tb.LeastSquares(np.eye(N) + 0.1, np.ones(N))):
        for domain in DOMAINS.values():
            problem = tb.Problem(upper=f, lower=tb.LeastSquares(A, b), domain=domain)
            assert tb.solve(problem, "exact").findings.left_open == 0


def test_whether_f_sees_a_direction_may_be_undetermined():
    """f sees the second variable by 1e-13 of what it sees of the first, or by rounding."""
    turn = np.linalg.qr(np.random.default_rng(6).standard_normal((6, 6)))[0]
    rows = np.array([turn[0] + 3e-13 * turn[5], turn[1]])
    f = tb.LeastSquares(rows, np.array([7.0, 1.0]))
    found = tb.solve(tb.Problem(upper=f, lower=tb.LeastSquares(turn[:2], [1.0, 1.0])), "exact")
    assert found.status == "undetermined"
    low, high = found.findings.upper_range
    assert low == pytest.approx(18.0, rel=1e-6)
    assert high == pytest.approx(0.0, abs=1e-3)
    assert np.linalg.norm(found.x) == pytest.approx(np.sqrt(2.0), rel=1e-6)


def test_columns_in_units_of_their_own():
    """Units of both levels up to 1e12 apart, f flat or not: f is right, and so is the norm."""
    for seed in range(30):
        rng = np.random.default_rng([44, seed])
        A, C = (rng.standard_normal((2, 6)) * 10.0 ** rng.integers(-6, 7, 6) for _ in range(2))
        C, b, t = A[:1] if seed % 3 == 1 else C[: 1 + seed % 2], *rng.standard_normal((2, 2))
        problem = tb.Problem(upper=tb.LeastSquares(C, t[: len(C)]), lower=tb.LeastSquares(A, b))
        found = tb.solve(problem, "exact")
        assert found.success
        with mpmath.workdps(80):
            K = mpmath.matrix(A.tolist() if seed % 3 == 1 else np.vstack([A, C]).tolist())
            images = [*b] if seed % 3 == 1 else [*b, *t[: len(C)]]
            least = mpmath.norm(K.T * mpmath.lu_solve(K * K.T, mpmath.matrix(images)))
            f_star = 0.5 * (mpmath.mpf(b[0]) - mpmath.mpf(t[0])) ** 2 if seed % 3 == 1 else 0.0
            ratio = float(mpmath.norm(mpmath.matrix(found.x.tolist())) / least)
        assert found.upper_value == pytest.approx(float(f_star), rel=1e-9, abs=1e-12)
        assert ratio == pytest.approx(1.0, abs=1e-3)
