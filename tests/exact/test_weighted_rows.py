"""Weights of rows keep the rank: least squares of dependent rows and columns, in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb


def solved_in_fractions(M, t):
    """M x = t, M square and regular, by elimination."""
    rows = [[*map(Fraction, row), Fraction(right)] for row, right in zip(M, t, strict=True)]
    n = len(rows)
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                factor = rows[i][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]


def least_norm(A, b, w, basis):
    """The shortest minimiser of sum w_i (Ax - b)_i², x = basis' z, rows of A spanned by basis."""
    exact = np.vectorize(Fraction, otypes=[object])
    A, b, w, B = exact(A), exact(b), exact(w), exact(basis)
    C = A.dot(B.T)
    z = solved_in_fractions(C.T.dot(w[:, None] * C), C.T.dot(w * b))
    return B.T.dot(np.array(z, dtype=object))


def drawn(seed, spread):
    """Whole numbers with dependent rows and columns, and weights of any size."""
    rng = np.random.default_rng([31, seed])
    n, r = int(rng.integers(4, 8)), int(rng.integers(1, 4))
    basis = np.hstack([np.eye(r), rng.integers(-3, 4, size=(r, n - r))])
    m = int(rng.integers(r, 30 if seed % 2 else n))
    A = np.vstack([basis, rng.integers(-3, 4, size=(m, r)) @ basis])
    b, w = rng.integers(-9, 10, size=len(A)).astype(float), 10.0 ** rng.uniform(0, spread, len(A))
    return A, b, w, basis


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_dependent_rows_and_columns_are_proved(kind, count):
    for seed in range(count(20, 600)):
        A, b, w, basis = drawn(seed, 2.0)
        x = least_norm(A, b, w, basis)
        value = float(sum(t * t for t in x) / 2)
        fit = tb.LeastSquares(kind(A), b, weights=w)
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=fit), "exact", rtol=1e-9)
        assert result.status == "certified"
        assert result.dimension == A.shape[1] - len(basis)
        np.testing.assert_allclose(result.x, x.astype(float), atol=1e-9)
        low, high = result.upper_optimum
        assert low <= value <= high


@pytest.mark.sample(2)
@pytest.mark.parametrize("spread", [8.0, 14.0])
def test_nothing_false_where_weights_are_far_apart(spread, count):
    for seed in range(count(20, 600)):
        A, b, w, basis = drawn(seed, spread)
        x = least_norm(A, b, w, basis)
        value = float(sum(t * t for t in x) / 2)
        fit = tb.LeastSquares(A, b, weights=w)
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=fit), "exact")
        low, high = result.upper_optimum
        assert low <= value * (1.0 + 1e-15)
        assert high >= value * (1.0 - 1e-15)
        if result.success:
            np.testing.assert_allclose(result.x, x.astype(float), rtol=1e-6, atol=1e-6)


def test_weight_2_is_the_row_twice_to_the_last_proof():
    A, b, _, _ = drawn(1, 0.0)
    twice = np.repeat(np.arange(len(A)), 1 + np.arange(len(A)) % 2)
    weighted = tb.LeastSquares(A, b, weights=1.0 + np.arange(len(A)) % 2)
    for fit in (weighted, tb.LeastSquares(A[twice], b[twice])):
        problem = tb.Problem(upper=tb.SquaredNorm(center=np.ones(A.shape[1])), lower=fit)
        assert tb.solve(problem, "exact").status == "certified"


def test_other_units_and_penalties_keep_the_weights():
    """The same answer in other units of the columns, and with a penalty too small to matter."""
    A, b, w, basis = drawn(4, 1.0)
    units = 2.0 ** (40.0 * (np.arange(A.shape[1]) % 2))
    x = least_norm(A, b, w, basis).astype(float)
    far = tb.SquaredNorm(units**2, None)
    fit = tb.LeastSquares(A * units, b, weights=w)
    result = tb.solve(tb.Problem(upper=far, lower=fit), "exact", rtol=1e-9)
    assert result.status == "certified"
    np.testing.assert_allclose(result.x * units, x, atol=1e-9)


def test_weights_whose_small_ones_are_rounding_of_the_large_ones():
    """The rows are independent, but of the weighted ones no eigenvalue tells it."""
    A, b, w = np.array([[1.0, 1.0, 0.0], [1.0, 2.0, 1.0]]), [1.0, 3.0], [1e-9, 1e9]
    fit = tb.LeastSquares(A, b, weights=w)
    assert fit.rank == 2
    assert 0.0 <= fit.growth <= 1e-9
    for domain in (tb.Space(), tb.Orthant()):
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=fit, domain=domain))
        assert abs(result.upper_value - 1.0) <= result.upper_error
        assert result.lower_value <= result.lower_gap


def test_streamed_rows_of_weight_0_and_others_far_apart(tmp_path):
    """Rows of weight 0 are left out in memory only: the number of rows is the same for all."""
    rng = np.random.default_rng(4)
    A, b = rng.integers(-9, 10, size=(12, 2)).astype(float), rng.integers(-9, 10, size=12)
    w = np.where(np.arange(12) % 3 > 0, 10.0 ** rng.integers(-3, 4, size=12), 0.0)
    np.save(tmp_path / "A.npy", A)
    fit = tb.LeastSquares(tb.Streamed(tmp_path / "A.npy", block=640), b.astype(float), weights=w)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=fit))
    x = least_norm(A, b, w, np.eye(2))
    low, high = result.upper_optimum
    assert low <= float(x.dot(x) / 2) <= high
    assert result.status == "certified"
