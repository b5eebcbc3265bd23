"""The exact answer in its iterative form: conjugate gradients in the rounds of the iteration."""

from __future__ import annotations

import math

import array_api_strict as xps
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import linalg
from scipy.sparse.linalg import aslinearoperator

import tiebreak as tb
from tiebreak.auto import conjugate_gradients
from tiebreak.auto.bregman import BregmanIteration
from tiebreak.auto.selection import choose
from tiebreak.linalg.matrices.dense import Dense
from tiebreak.linalg.matrices.sparse import Sparse

N = 1500  # more variables than are factorised or kept as a matrix


def sparse(rng, m, n=N, share=0.02, rank=None):
    """Random entries; with ``rank`` the rows after so many repeat the former ones."""
    A = sp.random_array((m, n), density=share, rng=rng, data_sampler=rng.standard_normal).tocsr()
    if rank is None:
        return A
    again = sp.csr_array(sp.eye_array(m, rank) + sp.random_array((m, rank), density=0.02, rng=rng))
    return sp.csr_array(again @ A[:rank])


def truth(A, b, C, c, center=None):
    """argmin |Cx - c|² over all minimisers of |Ax - b|², by one dense factorisation each."""
    A = A.toarray()
    if C is None:
        return center + shortest(A, b - A @ center)
    x = shortest(A, b)
    Q, R, _ = linalg.qr(A.T, pivoting=True)
    sizes = np.abs(np.diagonal(R))
    N_ = Q[:, int(np.sum(sizes > 1e-10 * sizes[0])) :]
    return x + N_ @ shortest(C.toarray() @ N_, c - C @ x)


def shortest(A, b):
    return linalg.lstsq(A, b, cond=1e-10, lapack_driver="gelsy")[0]


CASES = {
    "shortest": (400, None, "norm", False),
    "nearest, inconsistent, rank deficient": (500, 300, "center", False),
    "validation": (300, None, "squares", False),
    "validation, rank deficient": (400, 250, "squares", False),
    "operator": (300, None, "norm", True),
}
LONG = ("validation, rank deficient", "nearest, inconsistent, rank deficient")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=pytest.mark.full if c in LONG else ()) for c in CASES]
)
def test_it_finds_what_a_factorisation_finds_and_proves_it(case):
    m, rank, above, as_operator = CASES[case]
    rng = np.random.default_rng(len(case))
    A, b = sparse(rng, m, rank=rank), rng.standard_normal(m)
    C, c = sparse(rng, 2 * N), rng.standard_normal(2 * N)
    center = rng.standard_normal(N) if above == "center" else np.zeros(N)
    if above == "squares":
        x, upper = truth(A, b, C, c), tb.LeastSquares(C, c)
    else:
        x = truth(A, b, None, None, center)
        upper = tb.SquaredNorm(center=center)
    lower = tb.LeastSquares(aslinearoperator(A) if as_operator else A, b)
    # On R^n a proof needs a radius, where f does not bound x, or g* is not 0.
    radius = 2.0 * float(np.linalg.norm(x)) if above != "norm" else None
    result = tb.solve(tb.Problem(upper=upper, lower=lower, radius=radius), x0=np.zeros(N))
    assert result.success, result
    assert "exact, by " in result.method  # a factorisation where there are few rows
    f, best = upper.value(result.x), upper.value(x)
    assert abs(f - best) <= 1e-8 * best
    assert np.linalg.norm(result.x - x) <= 1e-6 * np.linalg.norm(x)
    low, high = result.certificate.upper_optimum
    assert low <= best * (1.0 + 1e-12) <= high * (1.0 + 1e-11)
    # A factorisation's proof may take as much work as it has taken itself.
    assert result.nit < 2000 or "by direct factorisation" in result.method


def test_the_residual_is_what_the_sum_falls_by_and_directions_are_conjugate():
    rng = np.random.default_rng(0)
    A, b, C, c = (
        sparse(rng, 300),
        rng.standard_normal(300),
        sparse(rng, 400),
        rng.standard_normal(400),
    )
    problem = tb.Problem(upper=tb.LeastSquares(C, c), lower=tb.LeastSquares(A, b))
    eta, x = 0.1, rng.standard_normal(N)

    def seen(y):
        (point,) = problem.forward(y)
        return problem.upper.evaluate([point.f])[0][0], problem.lower.evaluate([point.g])[0][0]

    def slope(y):
        f, g = seen(y)
        return g.slope + eta * f.slope

    f, g = seen(x)
    way, directions = conjugate_gradients.begin(g, slope(x)), []
    for _ in range(12):
        directions.append(way.direction / np.linalg.norm(way.direction))
        way = way.step(problem, f, g, eta)
        there = x + way.moved
        size = np.linalg.norm(slope(x))
        np.testing.assert_allclose(-way.residual, slope(there), atol=1e-12 * size)
        np.testing.assert_allclose(way.lower, seen(there)[1].slope, atol=1e-12 * size)
        assert abs(way.residual @ directions[-1]) <= 1e-12 * size
    D = np.array(directions)
    products = D @ (A.T @ (A @ D.T) + eta * (C.T @ (C @ D.T)))
    scale = np.sqrt(np.diagonal(products))
    np.testing.assert_allclose(products / np.outer(scale, scale), np.eye(12), atol=1e-10)


@pytest.mark.parametrize(
    ("dtype", "accuracy"),
    [pytest.param("float64", 1e-8, marks=pytest.mark.full), ("float32", 2e-5)],
)
def test_other_libraries_and_single_precision(dtype, accuracy):
    rng = np.random.default_rng(8)
    A, b = rng.standard_normal((60, N)), rng.standard_normal(60)
    C, c = rng.standard_normal((N + 300, N)), rng.standard_normal(N + 300)
    x = truth(sp.csr_array(A), b, sp.csr_array(C), c)
    best = 0.5 * float(np.sum((C @ x - c) ** 2))
    kind = getattr(xps, dtype)
    A, b, C, c = (xps.asarray(data, dtype=kind) for data in (A, b, C, c))
    problem = tb.Problem(upper=tb.LeastSquares(C, c), lower=tb.LeastSquares(A, b))
    result = tb.solve(problem, BregmanIteration(), max_iter=2000)
    assert result.status in ("certified", "solved"), result
    assert result.x.dtype == kind
    assert abs(result.upper_value - best) <= accuracy * best


@pytest.mark.sample(2)
@pytest.mark.parametrize("radius", [100.0, 0.5])
def test_a_ball_may_bind_or_not(radius):
    rng = np.random.default_rng(3)
    A, b = sparse(rng, 200), rng.standard_normal(200)
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b), domain=tb.Ball(radius)
    )
    result = tb.solve(problem)
    assert result.success, result
    x = truth(A, b, None, None, np.zeros(N))
    assert (np.linalg.norm(x) < radius) == (radius > 1.0)
    if radius > 1.0:
        assert np.linalg.norm(result.x - x) <= 1e-6 * np.linalg.norm(x)
    else:
        assert np.linalg.norm(result.x) == pytest.approx(radius, rel=1e-3)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("level", ["f", "g", "x"])
def test_units_do_not_matter(level, unit):
    rng = np.random.default_rng(4)
    A, b = sparse(rng, 200), rng.standard_normal(200)
    upper, lower = tb.SquaredNorm(), tb.LeastSquares(A, b)
    plain = tb.solve(tb.Problem(upper=upper, lower=lower))
    if level == "x":
        other = tb.Problem(upper=tb.SquaredNorm(unit**-2), lower=tb.LeastSquares(A / unit, b))
    elif level == "f":
        other = tb.Problem(upper=unit * upper, lower=lower)
    else:
        other = tb.Problem(upper=upper, lower=unit * lower)
    result = tb.solve(other)
    assert result.success
    assert plain.status == result.status
    gradients = plain.trace[-1].lower_gradients
    assert abs(result.trace[-1].lower_gradients - gradients) <= 0.1 * gradients
    x = result.x / (unit if level == "x" else 1.0)
    assert np.linalg.norm(x - plain.x) <= 1e-8 * np.linalg.norm(plain.x)


def test_a_run_goes_on_from_a_checkpoint(tmp_path):
    rng = np.random.default_rng(5)
    lower = tb.LeastSquares(sparse(rng, 200), rng.standard_normal(200))
    problem, file = tb.Problem(upper=tb.SquaredNorm(), lower=lower), tmp_path / "run.npz"
    method = BregmanIteration()
    whole = tb.solve(problem, method)
    tb.solve(problem, method, max_iter=13, checkpoint=file)
    goes_on = tb.solve(problem, method, checkpoint=file)
    assert goes_on.nit == whole.nit
    np.testing.assert_array_equal(goes_on.x, whole.x)


def test_it_is_taken_where_both_levels_are_quadratic_and_large():
    rng = np.random.default_rng(6)
    A, b = sparse(rng, 200), rng.standard_normal(200)
    squares, norm = tb.LeastSquares(A, b), tb.SquaredNorm()

    def first(**problem):
        return choose(tb.Problem(**problem)).candidates[0].title

    assert first(upper=norm, lower=squares) == "exact, by conjugate gradients"
    labels = np.where(b > 0.0, 1.0, -1.0)
    for other in (
        {"upper": norm, "lower": tb.Logistic(A, labels)},
        {"upper": norm, "lower": squares, "domain": tb.Orthant()},
        {"upper": tb.L1(), "lower": squares},
    ):
        assert first(**other) == ""


def test_zero_data_ends_at_once():
    lower = tb.LeastSquares(sp.csr_array((5, N)), np.zeros(5))
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(center=np.ones(N)), lower=lower))
    assert result.upper_value == pytest.approx(0.0, abs=1e-12)


def test_sums_of_a_sparse_matrix_have_no_more_terms_than_its_rows_and_columns():
    A = sp.csr_array(np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 3.0, 0.0]]))
    assert Sparse(A)._longest == (2, 2)
    wide = sp.csr_array((np.ones(3), ([0, 1, 2], [0, 500, 999])), shape=(3, 1000))
    narrow, dense = Sparse(wide).errors(2.0**-52, 1.0), Dense(wide.toarray()).errors(2.0**-52, 1.0)
    assert narrow[0] == dense[0]
    assert narrow[1] == narrow[2] == 64.5 * 2.0**-52 * math.sqrt(3.0)
    assert narrow[1] < 0.2 * dense[1]


def test_the_rounding_of_sparse_products_stays_below_its_bound():
    from fractions import Fraction

    rng = np.random.default_rng(7)
    A = sparse(rng, 40, 60, 0.2)
    x = rng.standard_normal(60) * 10.0 ** rng.integers(-6, 7, 60)
    r = rng.standard_normal(40) * 10.0 ** rng.integers(-6, 7, 40)
    _, forward, adjoint = Sparse(A).errors(2.0**-52, 1.0)
    for M, v, bound in ((A, x, forward), (sp.csr_array(A.T), r, adjoint)):
        exact = [
            sum(
                (Fraction(M.data[i]) * Fraction(v[M.indices[i]]) for i in range(*ends)),
                Fraction(0),
            )
            for ends in zip(M.indptr[:-1], M.indptr[1:], strict=True)
        ]
        error = np.array([float(Fraction(y) - e) for y, e in zip(M @ v, exact, strict=True)])
        assert np.linalg.norm(error) <= bound * np.linalg.norm(v)


@pytest.mark.parametrize("size", [1e-4, 1e-6])
@pytest.mark.parametrize("is_operator", [False, True])
def test_x_has_not_settled_where_a_column_in_other_units_has_not(size, is_operator):
    """The other columns settle in ten steps, and x rests until the slope of the last one counts."""
    rng = np.random.default_rng(0)
    A = sparse(rng, 4 * N, share=0.004).tolil()
    A[:, [0]] = rng.standard_normal((4 * N, 1)) * size
    A = sp.csr_array(A)
    b = A @ np.append(3.0 / size, rng.standard_normal(N - 1)) + 0.1 * rng.standard_normal(4 * N)
    G, sizes = (A.T @ A).toarray(), sp.linalg.norm(A, axis=0)
    x = linalg.solve(G / np.outer(sizes, sizes), (A.T @ b) / sizes) / sizes
    lower = tb.LeastSquares(aslinearoperator(A) if is_operator else A, b)
    result = tb.solve(tb.Problem(lower=lower, upper=tb.SquaredNorm()), "bregman")
    assert result.success
    assert result.upper_value == pytest.approx(0.5 * x @ x, rel=1e-6)
    assert result.lower_value == pytest.approx(lower.value(x), rel=1e-9)
