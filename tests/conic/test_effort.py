"""Before Clarabel is called: its time and memory, and another form where F'F would be large."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.conic import effort, solver
from tiebreak.linalg import deadline


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


def test_the_counts_of_a_banded_matrix_bound_its_factor() -> None:
    rng, n = np.random.default_rng(0), 1_000
    rows = sp.csr_array(banded(n, 5)[:, rng.permutation(n)])
    true = factor_entries(sp.csc_array((n, n)), sp.csc_array(rows))
    for graph in (rows.T @ rows, rows @ rows.T):
        counts = effort.column_counts(sp.csr_array(graph))
        assert true <= np.sum(counts) + n <= 2 * true
    full = sp.csr_array(sp.vstack([rows, np.ones((2, n))]))
    by_rows = effort.column_counts(sp.csr_array(full @ full.T))
    by_columns = effort.column_counts(sp.csr_array(rows.T @ rows), lasts=2)
    for counts in (by_rows, by_columns):  # two more in each column
        assert np.sum(counts) <= 2 * true + 2 * n + 1
        assert np.max(counts) <= 16


@pytest.mark.parametrize("has_hessian", [False, True])
@pytest.mark.parametrize("full_rows", [0, 1])
def test_a_problem_with_few_entries_is_not_refused_for_its_size(
    has_hessian: bool, full_rows: int
) -> None:
    """20,000 variables in a chain, with a budget: a dense factor would take half an hour."""
    n = 20_000
    rows = sp.vstack([banded(n, 5), np.ones((full_rows, n))])
    P = sp.csc_array(sp.triu(banded(n, 2))) if has_hessian else sp.csc_array((n, n))
    with deadline.limited(5.0):
        effort.ask_for_factor(P, sp.csc_array(rows))
        assert deadline.left() > 3.0
        with pytest.raises(deadline.TooLong):
            effort.check_factor(np.arange(n), 0.0)


def test_a_factor_without_room_is_refused_in_a_sentence() -> None:
    with pytest.raises(MemoryError, match=r"Conic: .* GiB, more than available"):
        effort.check_factor(np.array([2**50]), 0.0)


def test_levels_are_kept_where_the_next_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(P: object, rows: object) -> None:
        asked.append(rows)
        if len(asked) > 1:
            raise MemoryError("too large")

    monkeypatch.setattr(solver, "ask_for_factor", ask)
    first = tb.Level(tb.LeastSquares([[1.0, 1.0]], [1.0]), "fit")
    levels = tb.Levels(first, tb.Level(tb.L1(), "sizes"), domain=tb.Box(-1.0, 2.0))
    result = tb.solve(levels, "conic")
    assert (result.status, len(asked)) == ("failed", 2)
    assert "level 2: too large" in result.message
    assert result.levels["fit"].value == pytest.approx(0.0, abs=1e-12)


@pytest.mark.sample(2)
@pytest.mark.parametrize("is_dense", [False, True])
def test_work_that_does_not_fit_is_not_begun(is_dense: bool) -> None:
    """A dense Hessian, and rows that share their variables with all others."""
    rng, n = np.random.default_rng(0), 4_000
    P, rows = sp.csc_array((n, n)), sp.csc_array(sp.eye_array(n))
    if is_dense:
        P = sp.csc_array(sp.triu(np.ones((n, n))))
    else:
        rows = sp.csc_array(sp.random_array((n, n), density=0.005, rng=rng))
    effort.ask_for_factor(P, rows)
    with deadline.limited(2.0), pytest.raises(deadline.TooLong):
        effort.ask_for_factor(P, rows)


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
