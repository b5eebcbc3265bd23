"""Few rows, many variables: answers and intervals against exact ones, in rational arithmetic."""

from __future__ import annotations

import dataclasses
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.exact import newton
from tiebreak.exact.bounds.wide_bounds import prove_wide
from tiebreak.exact.method import Exact, _state
from tiebreak.exact.reductions.wide import ScaledEquations, WideAnswer, _reduced, solve_wide
from tiebreak.linalg.row_gram import RowGram
from tiebreak.proofs.evidence import Intervals

Exactly = list[Fraction]


def fractions(values: Any) -> list[Any]:
    return [fractions(v) if np.ndim(v) else Fraction(float(v)) for v in values]


def transposed(A: list[Exactly]) -> list[Exactly]:
    return [list(column) for column in zip(*A, strict=True)]


def product(A: list[Exactly], x: Exactly) -> Exactly:
    return [sum((a * v for a, v in zip(row, x, strict=True)), Fraction(0)) for row in A]


def solution(M: list[Exactly], r: Exactly) -> Exactly:
    """Any solution of M x = r, by elimination; there is one."""
    rows = [[*row, value] for row, value in zip(M, r, strict=True)]
    n, pivots = len(M[0]), []
    for column in range(n):
        done = len(pivots)
        found = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if found is None:
            continue
        rows[done], rows[found] = rows[found], rows[done]
        rows[done] = [v / rows[done][column] for v in rows[done]]
        for i, row in enumerate(rows):
            if i != done and row[column]:
                rows[i] = [v - row[column] * w for v, w in zip(row, rows[done], strict=True)]
        pivots.append(column)
    assert all(not row[-1] for row in rows[len(pivots) :])
    x = [Fraction(0)] * n
    for row, column in zip(rows, pivots, strict=False):
        x[column] = row[-1]
    return x


def optimum(F: list[Exactly], t: Exactly, A: list[Exactly], b: Exactly) -> tuple[Exactly, Fraction]:
    """A minimiser of ½|Fx - t|² over those of |Ax - b|, and f there.

    F'(Fx - t) + A'A z = 0 and A'A x = A'b: both have solutions, with z for the multiplier.
    """
    n, At, Ft = len(A[0]), transposed(A), transposed(F)
    AA = [product(At, [row[j] for row in A]) for j in range(n)]
    FF = [product(Ft, [row[j] for row in F]) for j in range(n)]
    zero = [Fraction(0)] * n
    M = [[*f, *a] for f, a in zip(FF, AA, strict=True)] + [[*a, *zero] for a in AA]
    x = solution(M, product(Ft, t) + product(At, b))[:n]
    return x, half_square(F, x, t)


def half_square(F: list[Exactly], x: Exactly, t: Exactly) -> Fraction:
    left = [v - w for v, w in zip(product(F, x), t, strict=True)]
    return sum((v * v for v in left), Fraction(0)) / 2


def contains(known: Intervals, f_star: Fraction, g_star: Fraction) -> bool:
    (low, high), least = known.upper, known.lower
    return Fraction(low) <= f_star <= Fraction(high) and Fraction(least) <= g_star


def proved(problem: tb.Problem, answer: WideAnswer) -> Intervals:
    end = _state(problem, 1, answer.x)
    return prove_wide(problem, answer, end.evidence.upper[0][1], end.evidence.lower[0][1])[0]


def drawn(seed: int, m: int, n: int, k: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    shapes: list[Any] = [(m, n), m, (k, n), k]
    return tuple(rng.integers(-4, 5, shape).astype(float) for shape in shapes)


@pytest.mark.parametrize("repeated", [False, True], ids=["independent", "repeated rows"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_norm_and_its_interval(seed, is_sparse, repeated):
    A, b, _, _ = drawn(seed, 3, 7, 1)
    center = np.arange(7.0)
    if repeated:  # with other targets, so that they cannot be met; and a row of zeros
        A, b = np.vstack([A, A[0], -2.0 * A[1], 0.0 * A[0]]), np.append(b, [1.0, 2.0, 3.0])
    one = [[Fraction(int(i == j)) for j in range(7)] for i in range(7)]
    exact = fractions(A), fractions(b)
    x, half = optimum(one, fractions(center), *exact)
    lower = tb.LeastSquares(sp.csr_array(A) if is_sparse else A, b, mean=True)
    problem = tb.Problem(upper=tb.SquaredNorm(3.0, center), lower=lower)
    answer = solve_wide(problem, np.zeros(7))
    assert answer is not None
    np.testing.assert_allclose(answer.x, [float(v) for v in x], rtol=1e-12, atol=1e-13)
    known = proved(problem, answer)
    g_star = half_square(exact[0], x, exact[1]) / len(b)
    assert contains(known, 3 * half, g_star)
    assert known.upper[1] - known.upper[0] <= 1e-9 * float(3 * half)
    assert float(g_star) - known.lower <= 1e-12 * (1.0 + float(g_star))
    result = tb.solve(problem)
    assert result.status == "certified"
    assert result.dimension == 7 - answer.rank
    assert Fraction(result.certificate.upper_optimum[0]) <= 3 * half


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("k", [1, 3, 4, 6, 7])
@pytest.mark.parametrize("seed", range(3))
def test_another_loss_and_its_interval(seed, k, is_sparse):
    """With k <= 4 rows it is 0 on the slice of dimension 4, with more it is not."""
    A, b, F, t = drawn(seed + 10, 3, 7, k)
    exact = [fractions(part) for part in (F, t, A, b)]
    _, f_star = optimum(*exact)
    assert (f_star == 0) == (k <= 4)
    of = sp.csr_array if is_sparse else np.asarray
    problem = tb.Problem(upper=2 * tb.LeastSquares(of(F), t), lower=tb.LeastSquares(of(A), b))
    answer = solve_wide(problem, np.zeros(7))
    assert answer is not None
    known = proved(problem, answer)
    assert contains(known, 2 * f_star, Fraction(0))
    assert known.upper[1] - known.upper[0] <= 1e-8 * max(float(f_star), 1e-8)
    assert tb.solve(problem).status == "certified"


@pytest.mark.sample(3)
@pytest.mark.parametrize("off", [1e-14, 1e-10, 1e-6, 1e-2])
@pytest.mark.parametrize("k", [0, 3, 6])
@pytest.mark.parametrize("repeated", [False, True])
def test_intervals_hold_for_a_wrong_point_too(off, k, repeated):
    for seed in range(5):
        A, b, F, t = drawn(seed + 20, 3, 7, max(k, 1))
        if repeated:
            A, b = np.vstack([A, A[2]]), np.append(b, 0.5)
        F, t, upper = (
            (F, t, tb.LeastSquares(F, t)) if k else (np.eye(7), np.zeros(7), tb.SquaredNorm())
        )
        problem = tb.Problem(upper=upper, lower=tb.LeastSquares(A, b))
        x, f_star = optimum(*[fractions(part) for part in (F, t, A, b)])
        g_star = half_square(fractions(A), x, fractions(b))
        answer = solve_wide(problem, np.zeros(7))
        assert answer is not None
        wrong = answer.x + off * np.random.default_rng(seed).standard_normal(7)
        assert contains(proved(problem, answer._replace(x=wrong)), f_star, g_star)


def test_the_least_curvature_on_the_slice_is_no_more_than_it_is():
    rng = np.random.default_rng(5)
    for k, n, tilt in ((2, 9, 0.0), (4, 9, 1e-3), (6, 9, 1e-1), (3, 5, 1.0)):
        A, F = rng.standard_normal((3, n)), rng.standard_normal((k, n))
        F[0] = A[0] + tilt * F[0]  # nearly a row of A: hardly any curvature is left
        equations, gram = (
            ScaledEquations(tb.LeastSquares(A, np.zeros(3)).matrix, np.zeros(3)),
            RowGram(A),
        )
        loss = tb.LeastSquares(F, np.zeros(k))
        found = _reduced(loss.squares, equations, gram, 3)
        if tilt == 0.0:
            assert found is None  # the rank of F on the slice is not what it could be
            continue
        assert found is not None
        N = np.linalg.svd(A)[2][3:].T
        sigma = np.linalg.svd(F @ N, compute_uv=False)[min(k, n - 3) - 1]
        least = found.least * 2.0**found.equations.exponent
        assert 0.5 * sigma <= least <= sigma * (1.0 + 1e-9)


def test_where_squares_do_not_tell_the_other_way_is_gone():
    """Singular values 1 and 1e-7: certain, but not by those of A A'; the answer is the same."""
    rng = np.random.default_rng(6)
    U, V = (np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in (3, 8))
    A = U @ np.diag([1.0, 1e-3, 1e-7]) @ V.T
    truth = V @ np.array([1.0, 2.0, 3.0])
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, A @ truth))
    assert solve_wide(problem, np.zeros(8)) is None
    result = tb.solve(problem, Exact())
    assert result.success
    np.testing.assert_allclose(result.x, truth, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-120, 1e-70, 1e70, 1e120])
def test_sizes_do_not_matter(size):
    A, b, _, _ = drawn(7, 3, 7, 1)
    plain = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b)))
    other = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(size * A, size * b)))
    assert other.success
    np.testing.assert_allclose(other.x, plain.x, rtol=1e-12)


def test_rows_and_variables_at_the_edges():
    for A, b in (([[2.0]], [3.0]), ([[2.0], [0.0]], [3.0, 1.0]), (np.zeros((2, 3)), [1.0, 2.0])):
        A, b = np.asarray(A), np.asarray(b)
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b)))
        assert result.status == "certified"
        np.testing.assert_allclose(result.x, np.linalg.pinv(A) @ b, rtol=1e-14)
    same = np.ones((1, 4))  # four columns that are one
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(same, [2.0])))
    np.testing.assert_allclose(result.x, 0.5, rtol=1e-15)
    none = np.zeros((0, 3))
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(none, [])))
    assert (result.status, result.x.tolist()) == ("certified", [0.0, 0.0, 0.0])


def test_single_precision_is_decided_in_double():
    A, b, F, t = (part.astype(np.float32) for part in drawn(8, 3, 7, 2))
    result = tb.solve(tb.Problem(upper=tb.LeastSquares(F, t), lower=tb.LeastSquares(A, b)))
    assert result.x.dtype == np.float32
    both = np.vstack([A, F]).astype(float)
    truth = np.linalg.pinv(both) @ np.append(b, t)
    np.testing.assert_allclose(result.x, truth, rtol=1e-5)
    assert result.success
    assert math.isfinite(result.certificate.upper_error)


@pytest.mark.parametrize("keeps_digits", [True, False])
@pytest.mark.parametrize("rows", [3, 8, 20])
def test_a_small_root_has_the_same_square_whatever_counts_as_tall(monkeypatch, rows, keeps_digits):
    """With `tall` below 1, roots of fewer rows than columns are factorised, too."""
    monkeypatch.setattr(newton, "TOL", dataclasses.replace(newton.TOL, tall=0.1))
    R = np.random.default_rng(0).standard_normal((rows, 8))
    root = newton._small_root(R, None, keeps_digits)
    np.testing.assert_allclose(root.T @ root, R.T @ R, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_products_of_rows_with_roots_of_weights_are_rounded(seed):
    """Two equal rows of ones: every x_j is b/n, and the distance to it is what the report says."""
    rng, n = np.random.default_rng(seed), 3000  # too many variables for singular values
    b = float(rng.normal())
    fit = tb.LeastSquares(np.ones((2, n)), [b, b], weights=rng.uniform(0.5, 2.0, 2))
    result = tb.solve(tb.Problem(lower=fit, upper=tb.SquaredNorm()), Exact())
    assert result.status == "certified"
    square = sum((Fraction(x) - Fraction(b) / n) ** 2 for x in result.x)
    said = re.search("within (.*?) of x", result.certificate.rests)
    assert square <= Fraction(float(said[1])) ** 2
