"""f of some variables only, over blocks that have no variable in common."""

from __future__ import annotations

import numpy as np
import pytest

import tiebreak as tb


def drawn(seed):
    """Two blocks of equations in mixed order, and rows of f in the variables of the first."""
    rng = np.random.default_rng(seed)
    n1, n2 = rng.integers(2, 5, 2)
    m1, m2 = rng.integers(1, n1 + 1), rng.integers(1, n2)
    A, V = np.zeros((m1 + m2, n1 + n2)), np.zeros((n1, n1 + n2))
    A[:m1, :n1] = rng.integers(-3, 4, (m1, n1))
    A[m1:, n1:] = rng.integers(-3, 4, (m2, n2))
    V[:, :n1] = A[rng.integers(0, m1, n1), :n1] if seed % 3 == 0 else rng.integers(-3, 4, (n1, n1))
    order = rng.permutation(n1 + n2)
    A, V = A[:, order], V[:, order]
    return A, A @ rng.integers(-2, 3, n1 + n2) + 1.0, V, rng.standard_normal(n1)


def answer(A, b, V, w):
    """The least-norm x that minimises |Vx - w| among the minimisers of |Ax - b|."""
    x = np.linalg.lstsq(A, b)[0]
    N = np.linalg.svd(A)[2][np.linalg.matrix_rank(A) :].T
    seen = V @ N
    seen[np.abs(seen) < 1e-10] = 0.0  # integers: nothing smaller than this is meant
    return x + N @ np.linalg.lstsq(seen, w - V @ x, rcond=1e-10)[0]


@pytest.mark.parametrize("seed", range(60))
def test_what_f_does_not_contain_stays_put(seed):
    A, b, V, w = drawn(seed)
    x = answer(A, b, V, w)
    for lower in (tb.LeastSquares(A, b), tb.Quadratic(A.T @ A, -(A.T @ b))):
        result = tb.solve(tb.Problem(lower=lower, upper=tb.LeastSquares(V, w)), "exact")
        assert result.proved
        np.testing.assert_allclose(result.x, x, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("seed", range(30))
def test_many_rows_that_mix_the_blocks(seed):
    A, b, V, w = drawn(seed)
    mixed = np.random.default_rng(seed).integers(-2, 3, (40, len(A))).astype(float)
    problem = tb.Problem(lower=tb.LeastSquares(mixed @ A, mixed @ b), upper=tb.LeastSquares(V, w))
    result = tb.solve(problem, "exact")
    assert result.proved
    np.testing.assert_allclose(result.x, answer(mixed @ A, mixed @ b, V, w), rtol=1e-7, atol=1e-7)


def test_an_equation_parallel_to_the_lower_level():
    A, b = np.array([[-1.0, 0.0, -3.0, 0.0, 0.0]]), [-4.0]
    lower = tb.Quadratic(A.T @ A, np.array([2.0, 0.0, 6.0, 0.0, 0.0]))
    for upper in (tb.Huber(A, [-0.08], 1.0), tb.LeastSquares(A, [-0.08])):
        result = tb.solve(
            tb.Problem(lower=lower, upper=upper, domain=tb.Polyhedron(A_eq=A, b_eq=b))
        )
        assert result.success
        np.testing.assert_allclose(result.x, [0.4, 0.0, 1.2, 0.0, 0.0], atol=1e-9)
