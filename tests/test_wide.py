"""Single precision: the data stay as they are, what is proved about them is summed in double."""

from __future__ import annotations

import array_api_strict as xps
import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.matrices import BLOCK

ROWS, N = 300, 90


def data(seed=0, rows=ROWS):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, N)).astype(np.float32)
    return A, (A @ rng.standard_normal(N) + rng.standard_normal(rows)).astype(np.float32)


def functions():
    A, b = data()
    y = np.sign(b)
    thin = sp.csr_array(np.where(np.abs(A) > 1.0, A, np.float32(0.0)))
    Q, c = A[:N].T @ A[:N], b[:N]
    least = tb.LeastSquares(A, b)
    return {
        "least squares": (least, tb.LeastSquares(*_wide(A, b), gram=False)),
        "mean": (tb.LeastSquares(A, b, mean=True), tb.LeastSquares(*_wide(A, b), mean=True)),
        "sparse": (tb.LeastSquares(thin, b), tb.LeastSquares(thin.astype(float), *_wide(b))),
        "streamed": (
            tb.LeastSquares(tb.Streamed(Rows(A), block=2**12), b),
            tb.LeastSquares(*_wide(A, b), gram=False),
        ),
        "logistic": (tb.Logistic(A, y), tb.Logistic(*_wide(A, y))),
        "quadratic": (tb.Quadratic(0.5 * (Q + Q.T), c), tb.Quadratic(*_wide(0.5 * (Q + Q.T), c))),
        "norm": (tb.SquaredNorm(center=c), tb.SquaredNorm(center=c.astype(float))),
        "linear": (tb.Linear(c), tb.Linear(c.astype(float))),
        "sum": (
            2.0 * least + tb.Linear(c),
            2.0 * tb.LeastSquares(*_wide(A, b), gram=False) + tb.Linear(c.astype(float)),
        ),
    }


def _wide(*arrays):
    return [array.astype(np.float64) for array in arrays]


class Rows:
    """Rows as a file would have them."""

    def __init__(self, A):
        self.A, self.shape, self.dtype = A, A.shape, A.dtype

    def __getitem__(self, rows):
        return self.A[rows]


@pytest.mark.parametrize("name", list(functions()))
def test_the_wider_function_is_that_of_the_same_data_in_float64(name):
    single, double = functions()[name]
    wide = single.widened
    x = np.random.default_rng(1).standard_normal(N)
    assert wide.value(x) == pytest.approx(double.value(x), rel=1e-13)
    np.testing.assert_allclose(wide.gradient(x), double.gradient(x), rtol=1e-11, atol=1e-12)
    assert wide.gradient(x).dtype == np.float64
    assert wide.prototype.dtype == np.float64
    assert wide.lipschitz >= 0.99 * double.lipschitz


def test_other_libraries_and_blocks_of_any_size():
    A, b = data(2, rows=BLOCK // (8 * N) * 2 + 3)
    x = np.random.default_rng(1).standard_normal(N)
    for convert in (np.asarray, xps.asarray):
        wide = tb.LeastSquares(convert(A), convert(b)).widened
        slope = np.asarray(wide.gradient(convert(x)))
        np.testing.assert_allclose(slope, A.T.astype(float) @ (A.astype(float) @ x - b), rtol=1e-9)
    none = tb.LeastSquares(np.zeros((0, 3), np.float32), np.zeros(0, np.float32)).widened
    assert none.value(np.ones(3)) == 0.0


def test_callables_and_operators_do_not_know_how():
    from scipy.sparse.linalg import aslinearoperator

    A, b = data()
    assert tb.LeastSquares(aslinearoperator(A), b).widened is None
    smooth = tb.Smooth(lambda x: float(x @ x), lambda x: 2.0 * x)
    assert smooth.widened is None
    assert (smooth + tb.SquaredNorm()).widened is None
    assert tb.Problem(upper=smooth, lower=tb.LeastSquares(A, b)).widened is None
