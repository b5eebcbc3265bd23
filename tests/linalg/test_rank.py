"""Bases of what a matrix does not see, graded by what a function sees of them."""

import numpy as np
import pytest

from tiebreak.linalg.rank import decide_rank, graded_basis


@pytest.mark.parametrize("spread", [0.0, 3.0, 6.0])
def test_a_graded_basis_keeps_what_a_function_hardly_sees(spread):
    """Disjoint pairs of equal columns, each pair in a unit of its own: the basis is known."""
    rng, k = np.random.default_rng(0), 6
    units = 10.0 ** np.linspace(0.0, -2.0 * spread, k)
    pairs = np.kron(np.eye(k), [[np.sqrt(0.5)], [-np.sqrt(0.5)]])
    R, turn = np.diag(np.repeat(units, 2)), np.linalg.qr(rng.standard_normal((k, k)))[0]
    rounded = (pairs @ turn) * (1.0 + 2.0**-53 * rng.choice([-1.0, 0.0, 1.0], (2 * k, k)))
    N = graded_basis(rounded, R, np.abs(pairs.T))
    np.testing.assert_allclose(N.T @ N, np.eye(k), atol=1e-14)
    np.testing.assert_allclose(pairs @ (pairs.T @ N), N, atol=1e-14)  # the same space
    if spread:  # each column is one of the pairs, seen by R to the last digits
        M = np.abs(R @ N) / units
        np.testing.assert_allclose(M, np.abs(pairs), atol=1e-12)


def test_a_graded_basis_of_directions_that_a_function_does_not_see():
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.standard_normal((7, 7)))[0]
    N, across = Q[:, :5], Q[:, 5:].T
    for R in (np.zeros((7, 7)), rng.standard_normal((2, 7)), np.diag([1.0, 1e-9, 0, 0, 0, 0, 0])):
        graded = graded_basis(N, R, across)
        np.testing.assert_allclose(graded.T @ graded, np.eye(5), atol=1e-14)
        np.testing.assert_allclose(N @ (N.T @ graded), graded, atol=1e-14)
    empty = graded_basis(N[:, :0], np.eye(7), np.eye(7))
    assert empty.shape == (7, 0)


@pytest.mark.parametrize("faint", [5e-324, 1e-310, 1e-300])
@pytest.mark.parametrize("top", [1.0, 1e150])
def test_faint_rows_and_columns_have_finite_units(faint, top):
    """Entries of a kernel that underflow: 1e-310 would need a unit above the largest number."""
    rows = np.array([[1.0, 2.0, 3.0], [1.0, 4.0, 9.0], [1.0, 1.0, 2.0], [1.0, 0.0, 5.0]])
    rows[0] *= top
    rows[1] = faint * rows[1]
    rows[:, 2] = 2.0 * rows[:, 1]
    for A in (rows, rows.T):
        found = decide_rank(A)
        assert np.isfinite(found.sigma).all()
        assert np.isfinite(found.units).all()
        assert np.isfinite(found.row_units).all()
        assert found.low == found.high == 2
