"""Weights of rows: weight k is the row k times, weight 0 no row, whatever the matrix is made of."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import tiebreak as tb

KINDS = ("dense", "sparse", "streamed", "operator")


class Rows:
    """Rows that are streamed from memory."""

    def __init__(self, A: np.ndarray) -> None:
        self.A, self.shape, self.dtype = A, A.shape, A.dtype

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self.A[rows]


def made(kind: str, A: np.ndarray) -> object:
    if kind == "sparse":
        return sp.csr_array(A)
    if kind == "streamed":
        return tb.Streamed(Rows(A), block=128)
    return aslinearoperator(A) if kind == "operator" else A


def draw(loss: str, rng: np.random.Generator):
    m, n = int(rng.integers(3, 12)), int(rng.integers(1, 8))
    A = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-1, 1)
    target = rng.standard_normal(m)
    if loss == "Logistic":
        target = np.where(rng.random(m) < 0.5, -1.0, 1.0)
    if loss in ("Poisson", "Multinomial"):
        target = rng.integers(0, 4, m).astype(float)
    if loss == "Multinomial":
        target[-1] = 3.0
    weights = rng.integers(0, 4, m)
    weights[rng.integers(m)] = 2
    return A, target, weights


@pytest.mark.sample(3)
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["LeastSquares", "Logistic", "Poisson", "Huber", "Multinomial"])
def test_weight_k_is_the_row_k_times_and_weight_0_no_row(loss, kind, mean, count):
    rng = np.random.default_rng(1)
    for _ in range(count(8, 40)):
        A, target, w = draw(loss, rng)
        options = {"classes": 4} if loss == "Multinomial" else {}
        h = getattr(tb, loss)(made(kind, A), target, mean=mean, weights=w, **options)
        times = np.repeat(np.arange(len(w)), w)
        twin = getattr(tb, loss)(A[times], target[times], mean=mean, **options)
        assert h.lipschitz >= twin.lipschitz * (1 - 1e-9)
        assert kind == "operator" or h.lipschitz <= twin.lipschitz * 1.3
        for x in rng.standard_normal((3, h.dimension)):
            assert h.value(x) == pytest.approx(twin.value(x), rel=1e-12, abs=1e-14)
            np.testing.assert_allclose(h.gradient(x), twin.gradient(x), rtol=1e-10, atol=1e-12)
            errors = h.rounding_errors(x, np.linalg.norm(x), h.value(x), 0.0)
            assert abs(h.value(x) - twin.value(x)) <= errors[0] + 1e-15
            assert np.linalg.norm(h.gradient(x) - twin.gradient(x)) <= errors[1] + 1e-15


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("loss", ["LeastSquares", "Logistic", "Poisson"])
def test_solutions_are_those_of_repeated_rows(loss, kind, count):
    rng = np.random.default_rng(2)
    for _ in range(count(4, 12)):
        A, target, w = draw(loss, rng)
        n = A.shape[1]
        A[:, -1] = A[:, 0]  # ties
        f = tb.SquaredNorm(center=rng.standard_normal(n))
        times = np.repeat(np.arange(len(w)), w)
        weighted = getattr(tb, loss)(made(kind, A), target, weights=w)
        repeated = getattr(tb, loss)(A[times], target[times])
        found = tb.solve(tb.Problem(upper=f, lower=weighted, domain=tb.Ball(2.0)), "exact")
        wanted = tb.solve(tb.Problem(upper=f, lower=repeated, domain=tb.Ball(2.0)), "exact")
        assert found.status == wanted.status
        assert found.dimension == wanted.dimension
        if wanted.success:
            np.testing.assert_allclose(found.x, wanted.x, rtol=0, atol=1e-9)


def test_fractional_weights_weigh_and_a_mean_divides_by_their_sum():
    rng = np.random.default_rng(3)
    A, b, w = rng.standard_normal((9, 4)), rng.standard_normal(9), rng.random(9)
    y, x = np.sign(b), rng.standard_normal(4)
    squares, logs = 0.5 * (A @ x - b) ** 2, np.log1p(np.exp(-y * (A @ x)))
    for mean in (False, True):
        over = w.sum() if mean else 1.0
        assert tb.LeastSquares(A, b, mean, weights=w).value(x) == pytest.approx(w @ squares / over)
        assert tb.Logistic(A, y, mean, weights=w).value(x) == pytest.approx(w @ logs / over)
        r = np.abs(A @ x - b)
        huber = np.where(r <= 0.5, r * r / 2, 0.5 * r - 0.125)
        h = tb.Huber(A, b, 0.5, mean, weights=w)
        assert h.value(x) == pytest.approx(w @ huber / over)


def test_a_direction_of_fall_does_not_depend_on_positive_weights_and_ignores_rows_of_weight_0():
    A, y = np.array([[1.0, 0.0], [1.0, 1.0], [-1.0, 0.5]]), np.ones(3)
    for w, status in (([1.0, 3.0, 0.0], "unbounded"), ([1.0, 2.0, 0.5], "unbounded")):
        lower = tb.Logistic(A, y, weights=w)
        assert tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), "exact").status == status
    A = np.array([[1.0], [-1.0], [2.0]])
    for w, ends in (([1.0, 2.0, 0.5], True), ([1.0, 0.0, 0.5], False)):
        for method in ("exact", "auto"):
            problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, y, weights=w))
            result = tb.solve(problem, method)
            assert result.success if ends else result.status == "unbounded"


def test_weights_in_single_precision_and_in_tables():
    rng = np.random.default_rng(4)
    A = rng.standard_normal((6, 3)).astype(np.float32)
    b, y = rng.standard_normal(6).astype(np.float32), np.array([1, -1, 1, 1, -1, 1], np.float32)
    assert tb.Logistic(A, y, weights=[1, 2, 0, 1, 0.5, 3]).prototype.dtype == np.float32
    assert tb.Logistic(A, y, weights=[0.1] * 6).prototype.dtype == np.float64  # as for b
    h = tb.LeastSquares(A, b, weights=[1, 2, 0, 1, 0.5, 3])
    assert h.prototype.dtype == np.float64  # sqrt(2) A is none of float32
    x = rng.standard_normal(3)
    wanted = 0.5 * np.array([1, 2, 0, 1, 0.5, 3]) @ (A.astype(float) @ x - b.astype(float)) ** 2
    assert h.value(x) == pytest.approx(wanted, rel=1e-14)
    frame, weights = pd.DataFrame(A, index=list("abcdef")), pd.Series(np.ones(6), list("abcdef"))
    assert tb.LeastSquares(frame, b, weights=weights).dimension == 3
    with pytest.raises(ValueError, match="weights must have the index of A"):
        tb.LeastSquares(frame, b, weights=weights[::-1])


@pytest.mark.parametrize("loss", ["LeastSquares", "Logistic", "Poisson"])
def test_the_same_loss_in_float64_has_the_same_weights_scale_and_rounding_bounds(loss):
    rng = np.random.default_rng(6)
    A, target, w = draw(loss, rng)
    h = getattr(tb, loss)(A, target, True, weights=1e3 * w)
    twin, x = h.of_matrix(h.matrix.dense()), rng.standard_normal(A.shape[1])
    assert twin.value(x) == pytest.approx(h.value(x), rel=1e-14)
    np.testing.assert_allclose(twin.gradient(x), h.gradient(x), rtol=1e-13)
    errors = [k.rounding_errors(x, 1.0, k.value(x), 0.0) for k in (h, twin)]
    np.testing.assert_allclose(errors[1], errors[0], rtol=0.5)  # A itself may err more than A'A
    assert twin.in_float64.value(x) == pytest.approx(h.value(x), rel=1e-14)


def test_new_numbers_in_weights_are_noticed():
    A, w = np.array([[1.0], [1.0]]), np.array([1.0, 1.0])
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, [0.0, 1.0], weights=w))
    assert tb.solve(problem).x[0] == pytest.approx(0.5)
    w[1] = 3.0
    assert tb.solve(problem).x[0] == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1.0, -2.0, 1.0], "weights must be non-negative, got -2 in row 1"),
        ([0.0, 0.0, 0.0], "weights must have a positive finite sum, got 0 in all rows"),
        ([1e308, 1e308, 1e308], "weights must have a positive finite sum, got a sum that over"),
        ([1.0, np.nan, 1.0], "weights must be finite"),
        ([1.0, 2.0], "weights must have one entry per row of A \\(3\\), got 2"),
        ("heavy", "weights must be an array of numbers"),
    ],
)
@pytest.mark.parametrize("loss", ["LeastSquares", "Logistic", "Poisson", "Huber", "Multinomial"])
def test_wrong_weights_get_a_sentence(loss, weights, sentence):
    with pytest.raises((ValueError, TypeError), match=f"{loss}: {sentence}"):
        getattr(tb, loss)(np.eye(3), np.ones(3), weights=weights)


def test_labels_0_and_1_are_taken_as_minus_and_plus_1_and_the_report_says_so():
    rng = np.random.default_rng(5)
    A, y = rng.standard_normal((20, 3)), (rng.random(20) < 0.5).astype(int)
    x = rng.standard_normal(3)
    assert tb.Logistic(A, y).value(x) == tb.Logistic(A, 2 * y - 1).value(x)
    zeros = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, y)))
    signs = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, 2 * y - 1)))
    np.testing.assert_array_equal(zeros.x, signs.x)
    said = "Labels 0 and 1 were taken as -1 and +1"
    assert said in zeros.details()
    assert said not in signs.details()
    ones = tb.Logistic(A, np.ones(20))
    assert (ones.note, ones.value(x)) == ("", tb.Logistic(A, [True] * 20).value(x))
    for wrong in ([-1, 0, 1], [1, 2, 1], [0.5, 1, 0]):
        with pytest.raises(ValueError, match="labels -1 and \\+1, or 0 and 1, got values"):
            tb.Logistic(np.eye(3), wrong)
