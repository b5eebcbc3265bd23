"""Operators, streamed rows and shared passes: never unfolded, checked once, read once per pass."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import tiebreak as tb
from tiebreak.driver.console import LiveLine
from tiebreak.functions.base import PointWithImage
from tiebreak.linalg import checks, matrices, threads
from tiebreak.linalg.arrays import mix
from tiebreak.linalg.matrices import base, dense, sparse


def operator(A: np.ndarray) -> LinearOperator:
    return LinearOperator(A.shape, matvec=lambda x: A @ x, rmatvec=lambda r: A.T @ r, dtype=A.dtype)


# --- operators ------------------------------------------------------------------------------------


def test_an_operator_gives_both_products_and_bounds_that_hold():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 20))
    matrix = checks.matrix("Owner", "A", operator(A))
    x, r = rng.standard_normal(20), rng.standard_normal(30)
    np.testing.assert_allclose(matrix.forward(x, 2 * x)[1], 2 * A @ x)
    np.testing.assert_allclose(matrix.adjoint(r)[0], A.T @ r)
    top = np.linalg.norm(A, 2) ** 2
    assert top <= matrix.spectral_square <= 1.2 * top
    assert matrix.frobenius >= np.linalg.norm(A)
    assert not matrix.is_explicit


def test_an_operator_of_single_precision_stays_single():
    matrix = checks.matrix("Owner", "A", aslinearoperator(np.eye(3, dtype=np.float32)))
    assert matrix.prototype.dtype == np.float32
    assert matrix.forward(np.ones(3, np.float32))[0].dtype == np.float32


def test_an_object_with_a_product_and_a_transposed_is_an_operator():
    class Twice:
        shape = (3, 3)

        def __matmul__(self, x):
            return 2.0 * x

        @property
        def T(self):
            return self

    assert checks.matrix("Owner", "A", Twice()).adjoint(np.ones(3))[0].tolist() == [2.0] * 3


def test_a_data_frame_is_no_operator():
    pandas = pytest.importorskip("pandas")
    matrix = checks.matrix("Owner", "A", pandas.DataFrame(np.eye(2)))
    assert type(matrix) is matrices.Dense


def test_an_operator_may_write_into_its_argument_and_return_the_same_buffer():
    buffer = np.empty(2)

    def double(x):
        x *= 2.0
        buffer[:] = x
        return buffer

    matrix = checks.matrix("Owner", "A", LinearOperator((2, 2), double, double, dtype=float))
    x = np.ones(2)
    first, second = matrix.forward(x, 3 * x)
    assert (x.tolist(), first.tolist(), second.tolist()) == ([1, 1], [2, 2], [6, 6])


def test_a_quadratic_of_an_operator_needs_no_adjoint():
    rng = np.random.default_rng(1)
    R = rng.standard_normal((12, 8))
    Q = R.T @ R
    made = tb.Quadratic(LinearOperator((8, 8), lambda x: Q @ x, dtype=float), rng.random(8))
    assert made.lipschitz >= np.linalg.eigvalsh(Q)[-1]
    assert made.strong_convexity == 0.0


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["auto", "adaptive", "agm-bio", "bi-sg", "cg-bio"])
def test_methods_work_on_operators_and_never_ask_for_entries(method):
    rng = np.random.default_rng(2)
    A, b = rng.standard_normal((10, 15)), rng.standard_normal(10)
    problem = tb.Problem(
        upper=tb.LeastSquares(operator(rng.standard_normal((5, 15))), np.ones(5)),
        lower=tb.LeastSquares(operator(A), b),
        domain=tb.Ball(1.0),
    )
    result = tb.solve(problem, method, rtol=1e-2, max_iter=200)
    assert np.isfinite(result.lower_gap)
    assert "dimension" in str(result)


def test_a_checkpoint_tells_operators_apart(tmp_path):
    def problem(A):
        lower = tb.LeastSquares(operator(A), np.ones(3))
        return tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(1.0))

    file = tmp_path / "run.npz"
    tb.solve(problem(np.eye(3)), "agm-bio", rtol=0.0, max_iter=5, checkpoint=file)
    again = tb.solve(problem(np.eye(3)), "agm-bio", rtol=0.0, max_iter=7, checkpoint=file)
    assert again.nit == 7
    with pytest.raises(ValueError, match="lower differs"):
        tb.solve(problem(2 * np.eye(3)), "agm-bio", max_iter=5, checkpoint=file)


# --- sparse ---------------------------------------------------------------------------------------


def test_a_large_sparse_matrix_is_never_made_dense(monkeypatch):
    A = sp.random_array((3_000, 9_000), density=1e-3, rng=np.random.default_rng(3), format="csr")

    def refuse(*_, **__):
        raise AssertionError("made dense")

    monkeypatch.setattr(type(A), "toarray", refuse)
    monkeypatch.setattr(type(A), "todense", refuse)
    lower = tb.LeastSquares(A, np.ones(3_000))
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(1.0))
    for method in ("auto", "bisec-bio"):
        tb.solve(problem, method, max_iter=3)


def sparse_matrix(kind=sp.csr_array, rows=301, n=47, dtype=np.float64):
    """With rows of very different lengths, the first and the last empty, one full."""
    rng = np.random.default_rng(12)
    A = rng.standard_normal((rows, n)) * (rng.random((rows, n)) < rng.random((rows, 1)) ** 3)
    A[[0, -1]], A[5] = 0.0, 1.0
    return kind(A.astype(dtype))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_threads_change_no_bit_of_a_sparse_product(kind, count, monkeypatch):
    monkeypatch.setattr(threads, "allowed", lambda: count)
    monkeypatch.setattr(sparse, "THREAD_NONZEROS", 10)
    for dtype in (np.float64, np.float32):
        A = sparse_matrix(kind, dtype=dtype)
        made, back = matrices.of(A), A.T.tocsr()
        rng = np.random.default_rng(1)
        for vectors in (0, 1, 2, 5):
            for products, matrix, length in (
                (made.forward, A, A.shape[1]),
                (made.adjoint, back, A.shape[0]),
            ):
                xs = rng.standard_normal((vectors, length)).astype(dtype)
                found = products(*xs)
                assert [(p.dtype, p.tolist()) for p in found] == [
                    (dtype, (matrix @ x).tolist()) for x in xs
                ]


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_parts_of_a_sparse_matrix_are_all_of_it_alike_and_views(index, monkeypatch):
    monkeypatch.setattr(threads, "allowed", lambda: 4)
    monkeypatch.setattr(sparse, "THREAD_NONZEROS", 10)
    A = sparse_matrix()
    A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
    parts = sparse.RowParts(A).parts
    assert (sp.vstack(parts).tocsr() != A).nnz == 0
    assert all(np.shares_memory(part.data, A.data) for part in parts)
    assert all(np.shares_memory(part.indices, A.indices) for part in parts)
    sizes = [part.nnz for part in parts]
    assert len(parts) == 4
    assert max(sizes) - min(sizes) <= 2 * A.shape[1]  # a row at either end


@pytest.mark.parametrize(
    ("A", "allowed"),
    [
        (sparse_matrix(), 1),
        (sp.csr_array(np.ones((3, 4))), 8),  # too few
        (sp.csr_array(np.ones((1, 400))), 8),  # one row
        (sp.csr_array((0, 5)), 8),
        (sparse_matrix(sp.csc_array), 8),  # of a large matrix the transposed one is no copy
    ],
)
def test_a_sparse_matrix_that_cannot_be_cut_stays_whole(A, allowed, monkeypatch):
    monkeypatch.setattr(threads, "allowed", lambda: allowed)
    monkeypatch.setattr(sparse, "THREAD_NONZEROS", 10)
    whole = sparse.RowParts(A)
    assert len(whole.parts) == 1
    xs = np.random.default_rng(0).standard_normal((2, A.shape[1]))
    for found, x in zip(whole.products([*xs]), xs, strict=True):
        assert found.tolist() == (A @ x).tolist()


def test_a_task_that_fails_is_heard_of_and_the_others_go_on():
    def fails():
        raise ArithmeticError("no luck")

    for tasks in ([fails, lambda: 1], [lambda: 1, fails]):
        with pytest.raises(ArithmeticError, match="no luck"):
            threads.together(tasks)
    assert threads.together([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]


def test_no_more_threads_are_at_work_than_are_allowed(monkeypatch):
    monkeypatch.setattr(threads, "allowed", lambda: 2)
    threads._pool.cache_clear()

    def who():
        time.sleep(0.02)
        return threading.get_ident()

    try:
        assert len(set(threads.together([who] * 6))) <= 2
    finally:
        threads._pool.cache_clear()


FORKS = """
import os, signal
from tiebreak.linalg import threads
assert threads.together([lambda: 1, lambda: 2]) == [1, 2]
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends it, if it waits
    os._exit(0 if threads.together([lambda: 3, lambda: 4]) == [3, 4] else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_has_threads_of_its_own():
    """The threads of the parent are not there: whoever waited for them would wait for ever."""
    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=300)


LATE = """
import threading, time
import numpy as np
import scipy.sparse as sp
import tiebreak as tb
from tiebreak.linalg import threads
from tiebreak.linalg.matrices import sparse

threads.allowed, sparse.THREAD_NONZEROS = lambda: 2, 10
A = sp.random_array((60, 40), density=0.5, rng=np.random.default_rng(0), format="csr")
lower = tb.LeastSquares(A, np.ones(60))
problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(1.0))

def work():
    for part in range(2):
        print(tb.solve(problem, "agm-bio", rtol=0.0, max_iter=5).nit, flush=True)
        while part == 0 and threading.main_thread().is_alive():
            time.sleep(0.01)
    print("done")

threading.Thread(target=work).start()
"""


def test_a_run_in_a_thread_outlives_the_main_one():
    """When that has ended, Python begins no more threads."""
    command = [sys.executable, "-c", LATE]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert (ended.stdout.split(), ended.stderr) == (["5", "5", "done"], "")


def test_a_copy_of_a_sparse_matrix_has_no_copies_of_its_parts(monkeypatch):
    monkeypatch.setattr(sparse, "THREAD_NONZEROS", 10)
    A, sizes = sparse_matrix(), []
    for count in (1, 4):
        monkeypatch.setattr(threads, "allowed", lambda count=count: count)
        made = matrices.of(A)
        made.forward(np.ones(47)), made.adjoint(np.ones(301))
        assert len(made._rows.parts) == count
        sizes.append(len(pickle.dumps(made)))
        again = copy.deepcopy(made)
        assert len(again._rows.parts) == count
        assert again.forward(np.ones(47))[0].tolist() == (A @ np.ones(47)).tolist()
    assert abs(sizes[0] - sizes[1]) < 100


# --- streamed rows --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", ">f8"])
@pytest.mark.parametrize("block", [1, 1000, 2**26])
def test_streamed_rows_give_the_products_of_the_matrix_in_any_block(dtype, block, tmp_path):
    rng = np.random.default_rng(4)
    A = rng.integers(-9, 9, (57, 13)).astype(dtype)
    np.save(tmp_path / "A.npy", A)
    S = tb.Streamed(tmp_path / "A.npy", block)
    right = A.astype(np.float32 if dtype == "float32" else np.float64)
    assert S.prototype.dtype == right.dtype
    x, r = rng.integers(-9, 9, 13).astype(right.dtype), rng.integers(-9, 9, 57).astype(right.dtype)
    np.testing.assert_array_equal(S.forward(x)[0], right @ x)
    np.testing.assert_array_equal(S.adjoint(r, r)[1], right.T @ r)
    np.testing.assert_array_equal(S.normal(x), right.T @ (right @ x))
    np.testing.assert_array_equal(S.dense(), right)
    assert S.frobenius == pytest.approx(np.linalg.norm(right), rel=1e-6)
    assert S.bytes_read == 5 * A.nbytes  # the look at the start, and four since then


@pytest.mark.parametrize("entry", [0.1, 0.3, 0.7, 1.0 / 3.0])
def test_the_norm_of_streamed_rows_is_not_too_small_if_all_terms_are_rounded_alike(entry):
    rows = 2**22
    found = tb.Streamed(np.full((rows, 1), entry)).frobenius
    assert rows * Fraction(entry) ** 2 <= Fraction(found) ** 2


@pytest.mark.parametrize("entry", [0.1, 0.3, 0.7])
def test_the_norm_bound_of_sparse_rows_in_single_precision_is_not_too_small(entry):
    column = np.full((2**22, 1), entry, dtype=np.float32)
    found = matrices.of(sp.csr_array(column)).norm_bound
    assert column.size * Fraction(column[0, 0].item()) ** 2 <= Fraction(found) ** 2


@pytest.mark.parametrize("order", ["C", "F", "sparse"])
@pytest.mark.parametrize("entry", [0.1, 0.3, 0.7])
def test_norms_of_single_precision_are_those_of_the_numbers(order, entry):
    """Four million equal squares, added in float32, are off by 1e-3."""
    A = np.zeros((2**22, 2), dtype=np.float32, order="F" if order == "F" else "C")
    A[:, 0] = entry
    found = matrices.of(sp.csr_array(A) if order == "sparse" else A).frobenius
    assert found == pytest.approx(2.0**11 * float(A[0, 0]), rel=1e-11)


def test_a_view_of_a_memmap_and_a_private_one_are_read_as_they_are(tmp_path):
    np.save(tmp_path / "A.npy", np.arange(60.0).reshape(10, 6))
    whole = np.load(tmp_path / "A.npy", mmap_mode="c")
    whole[0, 0] = 7.0  # not in the file
    for source in (whole, whole[2:], whole[:, ::2], whole.T):
        made = checks.matrix("Owner", "A", source)
        assert isinstance(made, tb.Streamed)
        np.testing.assert_array_equal(made.dense(), np.asarray(source))


def test_every_byte_is_read_once_per_step_and_the_loop_counts_the_passes(tmp_path):
    rng = np.random.default_rng(5)
    np.save(tmp_path / "A.npy", rng.standard_normal((40, 10)))
    S = tb.Streamed(tmp_path / "A.npy", block=640)
    lower = tb.LeastSquares(S, rng.standard_normal(40), gram=False, lipschitz=200.0)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(1.0))
    seen = []
    result = tb.solve(
        problem, tb.AGMBiO(gamma=0.1), rtol=0.0, max_iter=150,
        callback=lambda now: seen.append(S.bytes_read),
    )  # fmt: skip
    assert {later - before for before, later in itertools.pairwise(seen)} == {3200}
    rows = [row for row in result.trace if row.iteration > 0]
    assert all(row.passes - rows[0].passes == row.iteration - rows[0].iteration for row in rows)


@pytest.mark.parametrize("has_ties", [False, True])
def test_least_squares_of_few_streamed_columns_reads_the_rows_a_few_times(
    has_ties, tmp_path, monkeypatch
):
    """By A'A, where the residual is no rounding error; answer and proof against dense rows."""
    monkeypatch.setattr("tiebreak.linalg.matrices.streamed.DENSE_LIMIT", 1000)  # as if it were long
    rng = np.random.default_rng(6)
    A = rng.integers(-9, 10, (4000, 6)).astype(float)
    if has_ties:
        A[:, 5] = A[:, 0] + A[:, 1]
    b = A @ rng.standard_normal(6) + 3.0 * rng.standard_normal(4000)
    np.save(tmp_path / "A.npy", A)
    S = tb.Streamed(tmp_path / "A.npy")
    best = np.linalg.lstsq(A, b, rcond=1e-9)[0]
    f_best, g_best = 0.5 * best @ best, 0.5 * np.sum((A @ best - b) ** 2)
    lower = tb.LeastSquares(S, b)
    assert lower.gram is not None
    for domain in (tb.Space(), tb.Box(-9.0, 9.0)):
        S.bytes_read = 0
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain))
        assert result.success
        assert S.bytes_read <= 10 * A.nbytes
        assert result.trace[-1].passes <= 10
        np.testing.assert_allclose(result.x, best, atol=1e-6)
        assert result.upper_optimum[0] <= f_best * (1.0 + 1e-12)
        assert result.lower_optimum[0] <= g_best * (1.0 + 1e-12)
        assert result.lower_optimum[1] >= g_best * (1.0 - 1e-12)
    x = rng.standard_normal(6)  # values and slopes err by no more than they say
    value, slope = 0.5 * np.sum((A @ x - b) ** 2), A.T @ (A @ x - b)
    sizes = np.linalg.norm(x), value, np.linalg.norm(slope)
    of_value, of_slope = lower.rounding(*sizes, 2.0**-52, 6)
    assert abs(lower.value(x) - value) <= of_value <= 1e-9 * value
    assert np.linalg.norm(lower.gradient(x) - slope) <= of_slope


def test_rows_are_read_where_the_gram_matrix_would_cost_digits(tmp_path):
    rng = np.random.default_rng(7)
    A = rng.standard_normal((40, 4))
    np.save(tmp_path / "A.npy", A)
    assert tb.LeastSquares(tb.Streamed(tmp_path / "A.npy"), A @ np.ones(4)).gram is None
    np.save(tmp_path / "B.npy", A * np.array([1.0, 1.0, 1.0, 1e-6]))
    assert tb.LeastSquares(tb.Streamed(tmp_path / "B.npy"), np.ones(40)).gram is None
    np.save(tmp_path / "C.npy", A.astype(np.float32))
    C = tb.Streamed(tmp_path / "C.npy")
    assert tb.LeastSquares(C, np.ones(40, np.float32)).gram is None


def test_parquet_gives_the_columns_that_are_asked_for_and_the_target(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns = {"a": [1, 2, 3], "y": [1.0, -1.0, 1.0], "b": [0.5, 0.0, 2.5]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    S = tb.Streamed(tmp_path / "t.parquet", target="y")
    np.testing.assert_array_equal(S.dense(), [[1, 0.5], [2, 0], [3, 2.5]])
    assert S.target.tolist() == [1.0, -1.0, 1.0]
    other = tb.Streamed([tmp_path / "t.parquet"] * 2, columns=["b", "a"])
    assert other.shape == (6, 2)
    assert other.dense()[4].tolist() == [0.0, 2.0]


def test_targets_of_single_precision_rows_are_not_rounded(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rng = np.random.default_rng(9)
    A = rng.standard_normal((30, 3)).astype(np.float32)
    columns = {name: A[:, j] for j, name in enumerate("abc")}
    targets = {
        "real": 1e6 + rng.standard_normal(30),
        "whole": rng.integers(2**40, 2**41, 30),
        "short": rng.standard_normal(30).astype(np.float32),
        "label": rng.integers(0, 2, 30) == 1,
    }
    for name, y in targets.items():
        pq.write_table(pa.table({**columns, name: y}), tmp_path / "t.parquet")
        S = tb.Streamed(tmp_path / "t.parquet", target=name)
        np.testing.assert_array_equal(S.target, y)
        assert S.prototype.dtype == np.float32
        assert S.target.dtype == (np.float32 if name in ("short", "label") else np.float64)
        if name == "real":
            lower = tb.LeastSquares(S, S.target)
            x = tb.solve(tb.Problem(lower=lower, upper=tb.SquaredNorm())).x
            truth = np.linalg.lstsq(A.astype(float), y, rcond=None)[0]
            np.testing.assert_allclose(x, truth, rtol=1e-9)


def test_a_row_that_is_not_finite_is_named(tmp_path):
    A = np.ones((9, 4))
    A[6, 1] = np.nan
    np.save(tmp_path / "A.npy", A)
    with pytest.raises(ValueError, match=r"^Streamed: source must be finite, got .* in row 6$"):
        tb.Streamed(tmp_path / "A.npy", block=100)


def test_the_progress_line_shows_the_pass_and_leaves_no_trace(tmp_path, capsys, monkeypatch):
    np.save(tmp_path / "A.npy", np.eye(8))
    S = tb.Streamed(tmp_path / "A.npy", block=128)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(S, np.ones(8)))
    monkeypatch.setattr(LiveLine, "_is_due", lambda self: True)
    tb.solve(problem, "adaptive", rtol=0.0, max_iter=2, progress=True)
    shown = capsys.readouterr().err
    assert "pass 1, rows 2 of 8" in shown
    assert "pass 3, rows 8 of 8" in shown
    assert S.on_progress is None


def test_a_mistake_in_the_middle_of_a_pass_does_not_hang(tmp_path):
    np.save(tmp_path / "A.npy", np.eye(64))
    S = tb.Streamed(tmp_path / "A.npy", block=1024)
    (tmp_path / "A.npy").write_bytes((tmp_path / "A.npy").read_bytes()[:5000])
    with pytest.raises(OSError, match="has become shorter"):
        S.forward(np.ones(64))


# --- one pass for all of a look -------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["in pairs", "one by one"])
def shared(monkeypatch, request):
    """Passes are shared from 1,000 bytes on, in blocks of 16 rows; vectors together or not."""
    monkeypatch.setattr(threads, "allowed", lambda: 1)
    monkeypatch.setattr(base, "has_small_products", lambda: request.param)
    monkeypatch.setattr(dense, "CACHED_PAIR_BYTES", 1000)
    monkeypatch.setattr(dense, "CACHED_BYTES", 1000)
    monkeypatch.setattr(base, "BLOCK", 1)


def data(rows=41, n=7, dtype=np.float64):
    rng = np.random.default_rng(11)
    A, b = rng.standard_normal((rows, n)).astype(dtype), rng.standard_normal(rows).astype(dtype)
    return A, b, rng


@pytest.mark.parametrize(
    ("asked", "expected"),
    [({}, 8), ({"OMP_NUM_THREADS": "4"}, 4), ({"OMP_NUM_THREADS": "4,2"}, 4),
     ({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "4"}, 1), ({"MKL_NUM_THREADS": "64"}, 8)],
)  # fmt: skip
def test_threads_want_large_blocks_and_share_no_passes(asked, expected, monkeypatch):
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert threads.allowed() == expected
    is_one = expected == 1
    assert matrices.of(np.ones((3000, 730))).shares_passes is is_one
    assert base.block_bytes() == (base.BLOCK if is_one else base.THREADED_BLOCK)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_of_a_shared_pass_are_products(shared, dtype):
    """Within the classical bound, a unit of rounding for every term of a sum."""
    A, _, rng = data(1003, 301, dtype)
    made, exact = matrices.of(A), A.astype(np.longdouble)
    for count, kind in itertools.product((1, 2, 3), (dtype, np.float64)):
        xs, ws = (rng.standard_normal((count, size)).astype(kind) for size in (301, 1003))
        products, sums = made.sweep(xs, count, lambda here, _, ws=ws: ws[:, here])
        for found, matrix, vectors in ((products, exact, xs), (sums, exact.T, ws)):
            assert found.dtype == kind
            for product, vector in zip(found, vectors, strict=True):
                bound = matrix.shape[1] * np.finfo(kind).eps * (np.abs(matrix) @ np.abs(vector))
                assert np.all(np.abs(product - matrix @ vector) <= bound)


@pytest.mark.parametrize(("is_quick", "rows"), [(True, 600), (False, 5000)])
def test_the_smallest_shared_pass_depends_on_the_blas(is_quick, rows, monkeypatch):
    monkeypatch.setattr(threads, "allowed", lambda: 1)
    monkeypatch.setattr(base, "has_small_products", lambda: is_quick)
    assert matrices.of(np.ones((rows, 500))).shares_passes
    assert not matrices.of(np.ones((rows // 2, 500))).shares_passes


def test_the_processor_and_the_blas_say_how_two_vectors_are_multiplied(monkeypatch):
    for blas, found, expected in [
        ("scipy-openblas", ["X86_V3", "X86_V4"], True),
        ("scipy-openblas", ["AVX512F", "AVX512_SKX"], True),
        ("scipy-openblas", ["X86_V3"], False),
        ("mkl", ["X86_V4"], False),
        ("accelerate", ["NEON"], False),
    ]:
        built = {
            "Build Dependencies": {"blas": {"name": blas}},
            "SIMD Extensions": {"found": found},
        }
        monkeypatch.setattr(np, "show_config", lambda mode, built=built: built)
        assert base.has_small_products.__wrapped__() is expected
    monkeypatch.setattr(np, "show_config", lambda mode: {})
    assert base.has_small_products.__wrapped__() is False


def test_passes_are_shared_by_rows_in_order_beyond_the_cache_that_are_not_too_long(monkeypatch):
    monkeypatch.setattr(threads, "allowed", lambda: 1)
    monkeypatch.setattr(base, "has_small_products", lambda: False)
    assert matrices.of(np.ones((3000, 730))).shares_passes
    for entries in (
        np.ones((2000, 730)),  # stays in the cache
        np.ones((3000, 730), order="F"),
        np.ones((6000, 730))[::2],
        np.ones((60, 40_000)),
        sp.csr_array(np.ones((3000, 730))),
    ):
        assert not matrices.of(entries).shares_passes


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [41, 48])
@pytest.mark.parametrize("kind", [tb.LeastSquares, tb.Logistic, tb.Huber])
def test_a_shared_pass_gives_what_plain_products_give(kind, rows, dtype, shared, monkeypatch):
    A, b, rng = data(rows, dtype=dtype)
    options = {"gram": False} if kind is tb.LeastSquares else {"mean": True}
    h = kind(A, np.sign(b), **options)
    monkeypatch.undo()
    plain = kind(A, np.sign(b), **options)
    assert h.matrix.shares_passes
    assert not plain.matrix.shares_passes
    xs = rng.standard_normal((4, 7)).astype(dtype)
    close = {"rtol": 1e-4 if dtype is np.float32 else 1e-12}
    looks = []
    for f in (h, plain):
        z, v, x, u = (PointWithImage(x, image) for x, image in zip(xs, f.forward(*xs), strict=True))
        x = mix(x, z, 0.3)
        first = f.evaluate([mix(x, z, 0.5), mix(u, v, 0.2)], [x, u])
        again = f.evaluate([x], [z])  # images that are known by now
        values = f.evaluate([], [v])
        looks.append((first, again, values))
        assert f.passes(2, 2, 2) == (1 if f is h else 4)
    for (seen, values), (others, wanted) in zip(*looks, strict=True):
        np.testing.assert_allclose(values, wanted, **close)
        for one, other in zip(seen, others, strict=True):
            np.testing.assert_allclose(one.value, other.value, **close)
            np.testing.assert_allclose(one.slope, other.slope, atol=1e-5, **close)
            assert one.slope.dtype == dtype
    np.testing.assert_allclose(h.value(xs[0]), plain.value(xs[0]), **close)
    np.testing.assert_allclose(h.gradient(xs[0]), plain.gradient(xs[0]), atol=1e-5, **close)
    assert (h.lipschitz, h.known_lipschitz) == (plain.lipschitz, plain.known_lipschitz)


def test_a_point_of_another_type_is_taken_too(shared):
    A, b, _ = data()
    h = tb.LeastSquares(A, b, gram=False)
    assert h.value(np.ones(7, np.int64)) == h.value(np.ones(7))
    np.testing.assert_array_equal(h.gradient(np.ones(7, np.float32)), h.gradient(np.ones(7)))


def test_the_pull_of_a_row_keeps_its_relative_accuracy_at_any_margin(shared):
    A = np.zeros((41, 7))
    A[20, 0] = 1.0
    h = tb.Logistic(A, np.ones(41), mean=False)
    assert h.matrix.shares_passes
    for margin in (-1e4, -30.0, 0.0, 30.0, 700.0):
        slope = h.gradient(margin * np.eye(7)[0])[0]
        assert slope == pytest.approx(-1.0 / (1.0 + np.exp(margin)), rel=1e-14)
    assert h.gradient(1e4 * np.eye(7)[0])[0] == 0.0


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", [tb.AGMBiO(gamma=0.1), tb.AdaptiveAGMBiO()])
def test_runs_with_shared_passes_end_alike_and_go_on_to_the_bit(
    method, tmp_path, shared, monkeypatch
):
    A, b, rng = data()
    C, c = rng.standard_normal((40, 7)), rng.standard_normal(40)
    A = A[:, :4] @ rng.standard_normal((4, 7))

    def problem():
        f, g = tb.LeastSquares(C, c, gram=False), tb.LeastSquares(A, b, gram=False)
        return tb.Problem(upper=f, lower=g, domain=tb.Ball(0.5))

    assert problem().lower.matrix.shares_passes
    whole = tb.solve(problem(), method, rtol=0.0, max_iter=90)
    path = tmp_path / "run.npz"
    tb.solve(problem(), method, rtol=0.0, max_iter=37, checkpoint=path)
    second = tb.solve(problem(), method, rtol=0.0, max_iter=90, checkpoint=path)
    np.testing.assert_array_equal(second.x, whole.x)
    assert second.trace[-1].passes == whole.trace[-1].passes
    monkeypatch.undo()
    plain = tb.solve(problem(), method, rtol=0.0, max_iter=90)
    assert not problem().lower.matrix.shares_passes
    np.testing.assert_allclose(whole.x, plain.x, atol=1e-8)
    np.testing.assert_allclose(whole.lower_value, plain.lower_value, rtol=1e-9)
    if isinstance(method, tb.AGMBiO):  # a step is one pass over each matrix, refreshes included
        rows = [row for row in whole.trace if row.iteration > 0]
        steps = [row.iteration - rows[0].iteration for row in rows]
        assert [row.passes - rows[0].passes for row in rows] == [2 * k for k in steps]


@pytest.mark.parametrize("kind", [tb.LeastSquares, tb.Logistic, tb.Huber])
def test_a_point_in_double_is_looked_at_in_double_by_a_shared_pass_too(shared, kind):
    A, b, rng = data(dtype=np.float32)
    target = np.sign(b) if kind is tb.Logistic else b
    single = kind(A, target)
    assert single.shares_passes
    double = kind(A.astype(np.float64), target.astype(np.float64))
    x = rng.standard_normal(A.shape[1])
    assert single.value(x) == pytest.approx(double.value(x), rel=1e-14)
    slope = single.gradient(x)
    assert slope.dtype == np.float64
    np.testing.assert_allclose(slope, double.gradient(x), rtol=1e-12, atol=1e-14)
