"""Tall data by second derivatives: answers and intervals against Newton's method in 40 digits."""

from __future__ import annotations

import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.exact.reductions import tall
from tiebreak.exact.reductions.tall import is_tall

mpmath.mp.dps = 60  # one number for all tests: see `planted.adversary`


def one_hot(rng, m, sizes):
    """Indicator columns and a column of ones: one tie for each variable, known exactly."""
    blocks = [np.eye(k)[rng.integers(0, k, m)] for k in sizes]
    A, null, first = np.hstack([*blocks, np.ones((m, 1))]), [], 0
    for k in sizes:
        v = np.zeros(A.shape[1])
        v[first : first + k], v[-1], first = 1.0, -1.0, first + k
        null.append(v)
    return A, np.array(null).T


class Slow:
    """A function by its value, slope and second derivative in mpmath; imports nothing of ours."""

    def __init__(self, kind, A=None, y=None, weight=1.0, center=None):
        self.kind, self.weight = kind, mpmath.mpf(weight)
        self.A = None if A is None else mpmath.matrix(A.tolist())
        self.y = None if y is None else [mpmath.mpf(float(v)) for v in y]
        self.center = center

    def parts(self, x):
        """Value, slope, second derivative."""
        n = len(x)
        if self.kind == "norm":
            d = x - mpmath.matrix([float(c) for c in self.center])
            return (d.T * d)[0] / 2, d, mpmath.eye(n)
        t, value, slope, second = self.A * x, mpmath.mpf(0), [], []
        for ti, yi in zip(t, self.y, strict=True):
            if self.kind == "poisson":
                value += mpmath.exp(ti) - yi * ti + (yi * mpmath.log(yi) - yi if yi > 0 else 0)
                slope.append(mpmath.exp(ti) - yi)
                second.append(mpmath.exp(ti))
            elif self.kind == "squares":
                value += (ti - yi) ** 2 / 2
                slope.append(ti - yi)
                second.append(mpmath.mpf(1))
            else:
                p = 1 / (1 + mpmath.exp(yi * ti))
                value += mpmath.log(1 + mpmath.exp(-yi * ti))
                slope.append(-yi * p)
                second.append(p * (1 - p))
        D = mpmath.diag(second)
        w = self.weight
        return w * value, w * (self.A.T * mpmath.matrix(slope)), w * (self.A.T * D * self.A)


def minimised(h, x, B):
    """A minimiser of h over x + the columns of B, by damped Newton steps."""
    for _ in range(200):
        _, slope, H = h.parts(x)
        d = B * mpmath.lu_solve(B.T * H * B, -(B.T * slope))
        size = mpmath.norm(d)
        x = x + (d if h.kind == "squares" or size < 0.1 else d / (1 + size))
        if size < mpmath.mpf(10) ** -35:
            return x
    raise AssertionError("Newton's method did not converge")


def truth(f, g, N):
    """f*, g* and the solution: g along a complement of the ties, then f along the ties."""
    n = N.shape[0]
    complement = np.linalg.svd(N.T)[2][N.shape[1] :].T  # any complement does
    x = minimised(g, mpmath.zeros(n, 1), mpmath.matrix(complement.tolist()))
    x = minimised(f, x, mpmath.matrix(N.tolist()))
    return f.parts(x)[0], g.parts(x)[0], np.array([float(v) for v in x])


def drawn(seed, lower, upper):
    rng = np.random.default_rng(seed)
    m = 60
    A, N = one_hot(rng, m, (3, 4))
    n = A.shape[1]
    if lower == "squares":
        y = rng.normal(size=m)
        g, slow_g = tb.LeastSquares(A, y, mean=True), Slow("squares", A, y, 1.0 / m)
    elif lower == "poisson":
        y = rng.poisson(20.0 * np.exp(rng.normal(size=m))).astype(float)
        g, slow_g = tb.Poisson(A, y), Slow("poisson", A, y, 1.0 / m)
    else:
        y = np.sign(rng.normal(size=m))
        g, slow_g = tb.Logistic(A, y), Slow("logistic", A, y, 1.0 / m)
    F, t = rng.normal(size=(20, n)), rng.normal(size=20)
    if upper == "norm":
        center = rng.normal(size=n)
        f, slow_f = tb.SquaredNorm(1.0, center), Slow("norm", center=center)
    elif upper == "squares":
        f, slow_f = tb.LeastSquares(F, t), Slow("squares", F, t)
    elif upper == "poisson":
        t = rng.poisson(3.0, size=20).astype(float)
        f, slow_f = tb.Poisson(F, t, mean=False), Slow("poisson", F, t)
    else:
        f, slow_f = tb.Logistic(F, np.sign(t), mean=False), Slow("logistic", F, np.sign(t))
    return tb.Problem(upper=f, lower=g), truth(slow_f, slow_g, N)


CASES = [
    (lower, upper)
    for lower in ("squares", "logistic", "poisson")
    for upper in ("norm", "squares", "logistic", "poisson")
]


@pytest.mark.sample(6)
@pytest.mark.parametrize(("lower", "upper"), CASES)
@pytest.mark.parametrize("seed", range(3))
def test_answers_and_intervals_are_those_of_forty_digits(seed, lower, upper):
    problem, (f_star, g_star, x) = drawn(seed, lower, upper)
    assert is_tall(problem)
    result = tb.solve(problem, "exact", rtol=1e-9)
    assert result.status == "certified", result.message
    np.testing.assert_allclose(result.x, x, atol=1e-9 * np.linalg.norm(x))
    low, high = map(mpmath.mpf, result.upper_optimum)
    assert low <= f_star <= high
    assert mpmath.mpf(result.lower_optimum[0]) <= g_star <= mpmath.mpf(result.lower_optimum[1])
    assert result.dimension == 2


def with_numbers(rng, m):
    """Two categories and a measurement: the ties are whole, the measurement is not."""
    A, N = one_hot(rng, m, (3, 5))
    return np.hstack([rng.normal(size=(m, 1)), A]), np.vstack([np.zeros((1, 2)), N])


@pytest.mark.sample(4)
@pytest.mark.parametrize("upper", ["squares", "logistic"])
@pytest.mark.parametrize("lower", ["squares", "logistic"])
@pytest.mark.parametrize("ties_seen", [0, 1])
@pytest.mark.parametrize("seed", range(2))
def test_what_f_does_not_see_of_the_ties_is_decided_by_the_least_norm(
    seed, ties_seen, lower, upper
):
    rng = np.random.default_rng(seed)
    A, N = with_numbers(rng, 100)
    F, y, t = with_numbers(rng, 30)[0], *(np.sign(rng.normal(size=k)) for k in (100, 30))
    if ties_seen:  # the second category is not complete there
        F[:10, 4:9] = 0.0
    g = tb.LeastSquares(A, y) if lower == "squares" else tb.Logistic(A, y, mean=False)
    f = tb.LeastSquares(F, t) if upper == "squares" else tb.Logistic(F, t, mean=False)
    seen, unseen = N[:, 2 - ties_seen :], N[:, : 2 - ties_seen]
    complement = np.linalg.svd(N.T)[2][2:].T
    x, levels = mpmath.zeros(10, 1), (Slow(lower, A, y), Slow(upper, F, t))
    for h, basis in zip(
        (*levels, Slow("norm", center=np.zeros(10))), (complement, seen, unseen), strict=True
    ):
        x = minimised(h, x, mpmath.matrix(basis.tolist())) if basis.size else x
    problem = tb.Problem(upper=f, lower=g)
    found = tall.solve_tall(problem, np.zeros(10))
    assert found is not None
    assert found.left_open == 2 - ties_seen
    result = tb.solve(problem, "exact", rtol=1e-9)
    assert result.status == "certified", result.message
    assert (result.dimension, result.findings.is_flat) == (2, ties_seen == 0)
    np.testing.assert_allclose(result.x, [float(v) for v in x], atol=1e-9)
    for (low, high), h in zip((result.lower_optimum, result.upper_optimum), levels, strict=True):
        assert mpmath.mpf(low) <= h.parts(x)[0] <= mpmath.mpf(high)


@pytest.mark.sample(4)
@pytest.mark.parametrize("lower", ["squares", "logistic"])
@pytest.mark.parametrize("center", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_the_least_l1_norm_is_that_of_the_medians(seed, center, lower):
    rng = np.random.default_rng(seed)
    A, N = with_numbers(rng, 100)
    A[:, 0] *= 2.0**20  # units do not matter
    y = np.sign(rng.normal(size=100))
    g = tb.LeastSquares(A, y) if lower == "squares" else tb.Logistic(A, y, mean=False)
    complement = mpmath.matrix(np.linalg.svd(N.T)[2][2:].T.tolist())
    x = minimised(Slow(lower, A, y), mpmath.zeros(10, 1), complement)
    for first, last in ((1, 4), (4, 9)):  # along a tie all levels of a category move alike
        middle = sorted(x[j] for j in range(first, last))[(last - first) // 2] - center
        x[9] += middle
        for j in range(first, last):
            x[j] -= middle
    weights = np.append(np.ones(9), 0.0)  # of an odd number of levels, the intercept free
    f = tb.L1(weights, center=np.full(10, center))
    f_star = sum(abs(x[j] - mpmath.mpf(center)) for j in range(9))
    problem = tb.Problem(upper=f, lower=g)
    assert tall.solve_tall(problem, np.zeros(10)) is not None
    result = tb.solve(problem, "exact", rtol=1e-6)
    assert result.status == "certified", result.message
    np.testing.assert_allclose(result.x, [float(v) for v in x], atol=1e-9)
    low, high = map(mpmath.mpf, result.upper_optimum)
    assert low <= f_star <= high


@pytest.mark.parametrize(("lower", "upper"), [("logistic", "norm"), ("squares", "squares")])
def test_columns_of_other_units_change_nothing_else(lower, upper):
    rng = np.random.default_rng(5)
    A, _ = one_hot(rng, 80, (3, 4))
    units = np.exp2(rng.integers(-30, 31, A.shape[1]))
    y = np.sign(rng.normal(size=80))
    F, t = rng.normal(size=(20, A.shape[1])), rng.normal(size=20)

    def result(scale):
        g = tb.Logistic(A / scale, y) if lower == "logistic" else tb.LeastSquares(A / scale, y)
        f = tb.LeastSquares(np.diag(1.0 / scale), np.zeros(len(scale)), gram=False)
        f = f if upper == "norm" else tb.LeastSquares(F / scale, t)
        return tb.solve(tb.Problem(upper=f, lower=g), "exact", rtol=1e-6)

    plain, other = result(np.ones(len(units))), result(units)
    assert plain.status == other.status == "certified"
    np.testing.assert_allclose(other.x / units, plain.x, rtol=1e-8, atol=1e-10)


def test_sparse_rows_give_the_same_answer():
    rng = np.random.default_rng(1)
    A, _ = one_hot(rng, 500, (5, 6))
    y = np.sign(rng.normal(size=500))
    f = tb.SquaredNorm()
    dense = tb.solve(tb.Problem(upper=f, lower=tb.Logistic(A, y)), "exact")
    sparse = tb.solve(tb.Problem(upper=f, lower=tb.Logistic(sp.csr_array(A), y)), "exact")
    assert sparse.status == dense.status == "certified"
    np.testing.assert_allclose(sparse.x, dense.x, atol=1e-12)


def test_data_too_large_to_be_factorised_as_a_whole():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(30_000, 300))
    y = np.sign(A @ rng.normal(size=300) * 0.1 + rng.normal(size=30_000))
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, y)), "exact")
    assert result.status == "certified"
    assert np.linalg.norm(tb.Logistic(A, y).gradient(result.x)) < 1e-12


def test_separable_rows_are_left_to_the_linear_program():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(100, 5))
    y = np.sign(A @ rng.normal(size=5))
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, y)), "exact")
    assert result.status == "unbounded"
    assert np.min(y * (A @ result.findings.direction)) > -1e-12


def test_a_rank_that_rounding_decides_is_left_to_singular_values():
    rng = np.random.default_rng(4)
    A = rng.normal(size=(100, 5))
    A[:, 4] = A[:, 0] + 1e-9 * rng.normal(size=100)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, rng.normal(size=100)))
    assert tall.solve_tall(problem, np.zeros(5)) is None
    assert tb.solve(problem, "exact").success


def test_a_start_close_by_saves_steps(monkeypatch):
    rng = np.random.default_rng(6)
    A, _ = one_hot(rng, 400, (5, 5))
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.Logistic(A, np.sign(rng.normal(size=400)))
    )
    cold, calls, at = tb.solve(problem, "exact"), [], tall.TallLevel.at
    monkeypatch.setattr(tall.TallLevel, "at", lambda *a: (calls.append(1), at(*a))[1])
    tb.solve(problem, "exact", x0=np.zeros(11))
    from_zero = len(calls)
    warm = tb.solve(problem, "exact", x0=cold.x)
    assert len(calls) - from_zero < from_zero
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-12)


@pytest.mark.parametrize("slope", [1e-10, 1e-13, 1e-16])
def test_a_linear_term_along_the_ties_leaves_g_without_a_minimiser(slope):
    rng = np.random.default_rng(7)
    A, N = one_hot(rng, 60, (3,))
    g = tb.LeastSquares(A, rng.normal(size=60), mean=True) + tb.Linear(slope * N[:, 0])
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=g), "exact")
    assert result.lower_optimum[0] == -np.inf  # no row sees N, and g falls along it for ever
    assert result.status == "unbounded"


def test_margins_that_are_nothing_but_rounding_prove_nothing():
    # The minimiser of g is (1/3, 1/3), where the margin of f is 0; at the floats next to it the
    # margin is thousands, and f and its derivatives are 0.
    for seed in range(4):
        A = np.random.default_rng(seed).integers(-9, 10, (40, 2)).astype(float)
        f = tb.Logistic(np.array([[1e20, -1e20]]), np.ones(1))
        result = tb.solve(
            tb.Problem(upper=f, lower=tb.LeastSquares(3.0 * A, A @ np.ones(2))), "exact"
        )
        low, high = result.upper_optimum
        assert low <= np.log(2.0) <= high


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 1e100, 1e140])
@pytest.mark.parametrize("loss", [tb.LeastSquares, tb.Logistic, tb.Poisson])
def test_units_far_from_one(loss, scale):
    rng = np.random.default_rng(8)
    A, _ = one_hot(rng, 60, (3,))
    y = np.sign(rng.normal(size=60)) if loss is tb.Logistic else rng.poisson(3.0, 60).astype(float)
    plain, other = (
        tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=loss(s * A, y)), "exact")
        for s in (1.0, scale)
    )
    assert plain.status == other.status == "certified"
    np.testing.assert_allclose(scale * other.x, plain.x, rtol=1e-9)
    # What is not proved of f is the same share of it, whatever the units are.
    (low, _), (low_there, _) = plain.upper_optimum, other.upper_optimum
    missing, missing_there = 1.0 - low / plain.upper_value, 1.0 - low_there / other.upper_value
    assert missing_there >= 0.5 * missing


def test_what_second_derivatives_do_not_prove_singular_values_may():
    rng = np.random.default_rng(3)
    A = np.hstack([rng.normal(size=(60, 2)) + 1e4, np.ones((60, 1))])  # far from their mean
    g = tb.Logistic(A, np.sign(rng.normal(size=60)))
    problem = tb.Problem(upper=tb.SquaredNorm(np.array([1.0, 1.0, 0.0])), lower=g)
    assert tall.solve_tall(problem, np.zeros(3)) is not None
    assert tb.solve(problem, "exact").status == "certified"


@pytest.mark.parametrize("kind", ["float32", "another library", "both"])
def test_single_precision_and_other_libraries_are_read_in_slices(kind, monkeypatch):
    xp = pytest.importorskip("array_api_strict")
    rng = np.random.default_rng(12)
    A = rng.standard_normal((3000, 8)) @ np.linalg.qr(rng.standard_normal((16, 8)))[0].T
    y, center = np.where(A[:, 0] + rng.logistic(size=3000) > 0, 1.0, -1.0), rng.standard_normal(16)
    truth = tb.solve(tb.Problem(upper=tb.SquaredNorm(center=center), lower=tb.Logistic(A, y)))

    def given(a):
        a = a if kind == "another library" else a.astype(np.float32)
        return a if kind == "float32" else xp.asarray(a)

    upper, lower = tb.SquaredNorm(center=given(center)), tb.Logistic(given(A), given(y))
    monkeypatch.setattr("tiebreak.exact.method._by_rows", None)  # which would keep all rows
    found = tb.solve(tb.Problem(upper=upper, lower=lower), "exact")
    assert found.status == "solved"
    assert found.dimension == 8
    assert type(found.x) is type(given(center))
    np.testing.assert_allclose(np.asarray(found.x), truth.x, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_in_single_precision_says_how_far_it_is_from_the_minimiser(seed):
    """With one variable, x = <a, b>/<a, a>, here as a fraction."""
    rng, start = np.random.default_rng(seed), np.zeros(1, dtype=np.float32)
    a, b = (rng.normal(size=9).astype(np.float32) for _ in range(2))
    units = np.float32(2.0 ** round(np.log2(np.linalg.norm(a))))
    a = a / units  # so that no unit but 1 is used
    fit = tb.LeastSquares(a[:, None], b)
    result = tb.solve(tb.Problem(lower=fit, upper=tb.SquaredNorm()), tb.Exact(), x0=start)
    a, b = ([Fraction(float(v)) for v in each] for each in (a, b))
    square, inner = (sum(s * t for s, t in zip(a, each, strict=True)) for each in (a, b))
    said = re.search(r"within (\S*?) of x$", result.certificate.rests)
    away = abs(Fraction(float(result.x[0])) - inner / square)
    assert away <= Fraction(1.1) * Fraction(float(said[1]))  # two digits are printed
