"""Before Clarabel is called: its time and memory, and another form where F'F would be large."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.conic import effort
from tiebreak.linalg import deadline

clarabel = pytest.importorskip("clarabel")


def factor_entries(P: sp.csc_array, rows: sp.csc_array) -> int:
    """Of the Cholesky factor of P + rows'rows in the best of a few orders, by plain elimination."""
    graph = ((P + P.T + rows.T @ rows) != 0).toarray() | np.eye(P.shape[0], dtype=bool)
    total = 0
    left = np.ones(len(graph), dtype=bool)
    while left.any():
        degrees = np.where(left, (graph & left).sum(axis=1), len(graph) + 1)
        node = int(np.argmin(degrees))  # minimum degree
        near = np.flatnonzero(graph[node] & left)
        total += len(near)
        graph[np.ix_(near, near)] = True
        left[node] = False
    return total


def banded(n: int, width: int) -> sp.csr_array:
    offsets = range(width)
    return sp.csr_array(sp.diags_array([np.ones(n)] * width, offsets=offsets, shape=(n, n)))


@pytest.mark.parametrize("dense_rows", [0, 2])
def test_the_widths_of_a_banded_matrix_bound_its_factor(dense_rows: int) -> None:
    rng, n = np.random.default_rng(0), 1_000
    rows = sp.csr_array(banded(n, 5)[:, rng.permutation(n)])
    rows = sp.csr_array(sp.vstack([rows, np.ones((dense_rows, n))]))
    sparse_part = sp.csr_array(rows[:n].T @ rows[:n])
    widths = effort._widths(sparse_part)
    true = factor_entries(sp.csc_array((n, n)), sp.csc_array(rows[:n]))
    assert true <= np.sum(widths) + n <= 2 * true
    by_rows = effort._widths(sp.csr_array(rows @ rows.T))
    assert np.sum(by_rows) <= 2 * true + dense_rows * 2 * n  # a dense row is one row more


def test_a_problem_with_few_entries_is_not_refused_for_its_size() -> None:
    """20,000 variables in a chain: a dense factor would take half an hour."""
    rows, n = banded(20_000, 5), 20_000
    with deadline.limited(5.0):
        effort.ask_for_factor(sp.csc_array((n, n)), sp.csc_array(rows))
        with pytest.raises(deadline.TooLong):
            effort._ask(np.arange(n), 0.0)


def test_a_factor_without_room_is_refused_in_a_sentence() -> None:
    with pytest.raises(MemoryError, match=r"Conic: .* GiB, more than there is"):
        effort._ask(np.array([2**50]), 0.0)


def test_work_that_does_not_fit_is_not_begun() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((1_200, 1_500))
    problem = tb.Problem(
        upper=tb.Linear(np.ones(1_500)),
        lower=tb.LeastSquares(A, A @ np.ones(1_500)),
        domain=tb.Ball(10.0),
    )
    result = tb.solve(problem, "conic", max_time=0.3)
    assert result.status == "max_time"


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("center", [0.0, 3.0])
def test_wide_squares_by_variables_of_their_own(is_sparse: bool, center: float) -> None:
    """The minimisers of least squares on a box, planted; the nearest of them to the center."""
    rng, m, n = np.random.default_rng(1), 6, 120
    A = rng.standard_normal((m, n))
    if is_sparse:
        A[rng.random((m, n)) < 0.5] = 0.0
    x = np.clip(center + A.T @ rng.standard_normal(m), -1.0, 4.0)  # the projection of center + A'y
    lower = tb.LeastSquares(sp.csr_array(A) if is_sparse else A, A @ x)
    upper = tb.SquaredNorm(center=np.full(n, center))
    result = tb.solve(tb.Problem(upper=upper, lower=lower, domain=tb.Box(-1.0, 4.0)), "conic")
    assert result.status in ("certified", "solved")
    np.testing.assert_allclose(result.x, x, atol=1e-8)


@pytest.mark.parametrize("is_chain", [False, True])
def test_ctrl_c_is_heard_inside_of_clarabel(
    is_chain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its next iteration."""
    asked, real = [], deadline.is_over

    def is_over() -> bool:
        asked.append(real())
        if len(asked) == 2:
            signal.raise_signal(signal.SIGINT)
        return asked[-1]

    monkeypatch.setattr(deadline, "is_over", is_over)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, 40))
    lower, domain = tb.LeastSquares(A, rng.standard_normal(20)), tb.Box(-1.0, 1.0)
    if is_chain:
        levels = tb.Levels(lower, tb.L1(), tb.SquaredNorm(), domain=domain)
        result = tb.solve(levels)
    else:
        result = tb.solve(tb.Problem(upper=tb.L1(), lower=lower, domain=domain), "conic")
    assert asked == [False, False, True]
    assert result.status == "stopped"
