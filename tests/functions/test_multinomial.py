"""Softmax regression: against 60 digits, against logistic regression, and through every matrix."""

from __future__ import annotations

import math
from typing import Any

import array_api_strict as xps
import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import tiebreak as tb
from tiebreak.functions.base import PointWithImage
from tiebreak.linalg import arrays
from tiebreak.linalg.matrices import of
from tiebreak.linalg.matrices.derived import Repeated

EPS = float(np.finfo(np.float64).eps)
ROWS, COLUMNS, CLASSES = 11, 4, 3


def data(seed: int = 0, rows: int = ROWS, n: int = COLUMNS, classes: int = CLASSES):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, n)), rng.integers(0, classes, rows), rng


def truth(A: Any, y: Any, x: Any, classes: int, mean: bool) -> tuple[Any, list[Any]]:
    """Value and gradient to 60 digits, by the definition."""
    with mpmath.workdps(60 + 2 * len(x)):
        n = A.shape[1]
        rows = [[mpmath.mpf(float(t)) for t in row] for row in A]
        W = [[mpmath.mpf(float(t)) for t in x[k * n : (k + 1) * n]] for k in range(classes)]
        value, slope = mpmath.mpf(0), [mpmath.mpf(0)] * len(x)
        for a, label in zip(rows, y, strict=True):
            t = [mpmath.fdot(a, w) for w in W]
            top = max(t)
            powers = [mpmath.exp(s - top) for s in t]
            total = mpmath.fsum(powers)
            value += top + mpmath.log(total) - t[int(label)]
            for k in range(classes):
                pull = powers[k] / total - (k == int(label))
                for j in range(n):
                    slope[k * n + j] += pull * a[j]
        count = len(rows) if mean else 1
        return value / count, [s / count for s in slope]


def errors_are_bounded(h: Any, A: Any, y: Any, x: Any, epsilon: float) -> None:
    (seen,), _ = h.evaluate([PointWithImage(x, h.forward(x)[0])])
    value, slope = truth(A, y, x, h.classes, h.mean)
    size = float(np.linalg.norm(x.astype(float)))
    steepness = float(np.linalg.norm(seen.slope.astype(float)))
    of_value, of_slope = h.rounding(size, seen.value, steepness, epsilon, len(x))
    assert abs(mpmath.mpf(seen.value) - value) <= of_value
    apart = [mpmath.mpf(float(s)) - t for s, t in zip(seen.slope, slope, strict=True)]
    assert mpmath.sqrt(mpmath.fsum(t * t for t in apart)) <= of_slope
    # and not absurdly wide
    spread = 1.0 + h.lipschitz * size * (1.0 + size)
    assert of_value <= 1e5 * epsilon * (seen.value + spread + np.linalg.norm(A) * size)


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_bounds_the_errors_of_value_and_slope(mean, dtype):
    for seed in range(12):
        A, y, rng = data(seed)
        A = (A * 10.0 ** rng.uniform(-2, 2, (ROWS, 1))).astype(dtype)
        h = tb.Multinomial(A, y, mean, classes=CLASSES)
        x = (10.0 ** rng.uniform(-3, 2.5) * rng.standard_normal(h.dimension)).astype(dtype)
        errors_are_bounded(h, A, y, x, float(np.finfo(dtype).eps))
        errors_are_bounded(h, A, y, 0 * x, float(np.finfo(dtype).eps))


def test_rounding_bounds_the_errors_far_out_where_losses_are_tiny_or_huge():
    A, rng = np.eye(3), np.random.default_rng(0)
    y = np.array([0, 1, 2])
    for size in (10.0, 30.0, 300.0, 1e4, 1e8):
        for sign in (1.0, -1.0):  # all rows right, or wrong, by such margins
            x = sign * size * np.eye(3).reshape(-1) + rng.standard_normal(9)
            errors_are_bounded(tb.Multinomial(A, y), A, y, x, EPS)


@pytest.mark.parametrize("margin", [0.0, 1e-300, 1.0, 40.0, 700.0, 1e3, 1e6, 1e300])
@pytest.mark.parametrize("label", [0, 1, 2])
def test_it_is_exact_at_every_margin_without_a_warning(margin, label):
    h = tb.Multinomial([[1.0]], [label], classes=3)
    for t in (margin, -margin):
        x = np.zeros(3)
        x[label] = t
        with np.errstate(all="raise", under="ignore"):
            value, slope = h.value(x), h.gradient(x)
        exact = math.log1p(2.0 * math.exp(-t)) if t > -700 else -t + math.log(2.0)
        other = math.exp(-t) / (1.0 + 2.0 * math.exp(-t)) if t > -700 else 0.5
        assert value == pytest.approx(exact, rel=4e-16, abs=0.0)
        expected = np.full(3, other)
        expected[label] = -2.0 * other
        np.testing.assert_allclose(slope, expected, rtol=4e-16 * (4 + abs(t)), atol=0.0)


def test_two_classes_are_logistic_regression_of_their_difference():
    A, y, rng = data(1, classes=2)
    for mean in (True, False):
        both, one = tb.Multinomial(A, y, mean), tb.Logistic(A, 2.0 * y - 1.0, mean)
        assert both.lipschitz == pytest.approx(2.0 * one.lipschitz, rel=1e-14)
        for size in (1e-3, 1.0, 1e2):
            W = size * rng.standard_normal((2, COLUMNS))
            assert both.value(W.reshape(-1)) == pytest.approx(one.value(W[1] - W[0]), rel=1e-13)
            slope = one.gradient(W[1] - W[0])
            expected = np.concatenate([-slope, slope])
            np.testing.assert_allclose(both.gradient(W.reshape(-1)), expected, rtol=1e-12)


def test_lipschitz_is_half_the_largest_eigenvalue_and_no_smaller_number_would_do():
    A, y, _ = data(2, classes=2)
    h = tb.Multinomial(A, y, mean=False, classes=4)
    values, vectors = np.linalg.eigh(A.T @ A)
    assert h.lipschitz == pytest.approx(0.5 * values[-1], rel=1e-12)
    two = tb.Multinomial(A, y, mean=False)
    d = 1e-5 * np.concatenate([vectors[:, -1], -vectors[:, -1]])
    change = two.gradient(d) - two.gradient(-d)
    assert np.linalg.norm(change) / np.linalg.norm(2 * d) == pytest.approx(two.lipschitz, rel=1e-6)


KINDS = {
    "dense": np.asarray,
    "fortran": np.asfortranarray,
    "csr": sp.csr_array,
    "operator": aslinearoperator,
    "streamed": lambda A: tb.Streamed(A, block=2**8),
    "strict": lambda A: xps.asarray(A.tolist()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_matrix_gives_the_same_function(kind):
    A, y, rng = data(3)
    plain, h = tb.Multinomial(A, y), tb.Multinomial(KINDS[kind](A), y)
    assert h.lipschitz >= plain.lipschitz * (1.0 - 1e-12)
    assert h.known_lipschitz >= plain.lipschitz * (1.0 - 1e-12)
    xs = [arrays.like(rng.standard_normal(h.dimension), h.prototype) for _ in range(3)]
    points = [PointWithImage(x, image) for x, image in zip(xs, h.forward(*xs), strict=True)]
    mixture = arrays.mix(points[0], points[1], 0.25)
    seen, values = h.evaluate([mixture, points[2]], [points[1], mixture])
    for found, x in zip(seen, (mixture.x, xs[2]), strict=True):
        x = arrays.to_numpy(x)
        assert found.value == pytest.approx(plain.value(x), rel=1e-13)
        np.testing.assert_allclose(arrays.to_numpy(found.slope), plain.gradient(x), atol=1e-14)
        assert type(found.slope) is type(xs[0])
    assert values == pytest.approx([plain.value(arrays.to_numpy(xs[1])), seen[0].value], rel=1e-13)
    again = h.value(xs[0]), arrays.to_numpy(h.gradient(xs[0]))
    assert again[0] == pytest.approx(plain.value(arrays.to_numpy(xs[0])), rel=1e-13)
    np.testing.assert_allclose(again[1], plain.gradient(arrays.to_numpy(xs[0])), atol=1e-14)


def test_one_pass_over_streamed_rows_is_enough_for_all_classes():
    A, y, rng = data(4, rows=300)
    rows = tb.Streamed(A, block=2**10)
    h = tb.Multinomial(rows, y)
    points = [PointWithImage(x, h.forward(x)[0]) for x in rng.standard_normal((2, h.dimension))]
    before = rows.bytes_read
    h.evaluate(points)
    assert rows.bytes_read - before == A.nbytes
    assert h.passes(2, 2, 0) == 1


def test_a_repeated_matrix_is_what_its_dense_form_is():
    A, _, rng = data(5)
    matrix = Repeated(of(A), 3)
    dense = matrix.dense()
    assert dense.shape == matrix.shape == (33, 12)
    assert matrix.is_explicit
    x, r = rng.standard_normal(12), rng.standard_normal(33)
    np.testing.assert_allclose(matrix.forward(x, 2 * x)[1], 2 * dense @ x, rtol=1e-12)
    np.testing.assert_allclose(matrix.adjoint(r)[0], dense.T @ r, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(matrix.normal(x), dense.T @ (dense @ x), rtol=1e-12)
    assert matrix.frobenius == pytest.approx(np.linalg.norm(dense))
    assert matrix.spectral_square >= np.linalg.norm(dense, 2) ** 2 * (1 - 1e-12)
    weights = rng.standard_normal((2, 33))
    products, sums = matrix.sweep([x], 2, lambda here, fresh: weights[:, here])
    np.testing.assert_allclose(products[0], dense @ x, rtol=1e-12)
    np.testing.assert_allclose(sums, weights @ dense, rtol=1e-12, atol=1e-13)


def test_margin_rows_are_the_differences_of_the_label_and_the_others():
    A, y, rng = data(6)
    for given in (A, sp.csr_array(A)):
        h = tb.Multinomial(given, y, mean=False)
        W = rng.standard_normal((CLASSES, COLUMNS))
        (far,) = h.far_rows(1.0, h.dimension).losses
        margins = far.rows.entries @ W.reshape(-1)
        expected = [
            a @ (W[label] - W[k])
            for a, label in zip(A, y, strict=True)
            for k in range(CLASSES)
            if label != k
        ]
        np.testing.assert_allclose(margins, expected, rtol=1e-12, atol=1e-14)
        (part,) = h.parts(1.0, h.dimension)
        np.testing.assert_array_equal(part.rows, far.rows.entries.toarray())
        examples = np.repeat(np.arange(len(y)), CLASSES - 1)
        losses = np.log1p(np.bincount(examples, np.exp(-margins)))
        assert h.value(W.reshape(-1)) == pytest.approx(np.sum(losses), rel=1e-13)


def test_single_precision_stays_single_and_in_float64_it_is_the_same_function():
    A, y, rng = data(7)
    h = tb.Multinomial(A.astype(np.float32), y)
    x = rng.standard_normal(h.dimension).astype(np.float32)
    assert h.gradient(x).dtype == np.float32
    wide = h.in_float64
    assert wide is not None
    assert (wide.classes, wide.mean, wide.prototype.dtype) == (CLASSES, True, np.float64)
    exact = tb.Multinomial(A.astype(np.float32).astype(float), y)
    assert wide.value(x.astype(float)) == pytest.approx(exact.value(x.astype(float)), rel=1e-14)


def test_names_are_pairs_of_class_and_column():
    import pandas as pd

    table = pd.DataFrame({"age": [30.0, 41.0, 7.0], "income": [1.0, 2.0, 3.5]})
    h = tb.Multinomial(table, pd.Series([0, 1, 2]))
    assert h.names == tuple((k, name) for k in range(3) for name in ("age", "income"))
    index = pd.MultiIndex.from_product([range(3), table.columns])
    center = pd.Series(np.arange(6.0), index=index)
    tb.Problem(upper=tb.SquaredNorm(center=center), lower=h)
    with pytest.raises(ValueError, match="same columns"):
        tb.Problem(upper=tb.SquaredNorm(center=center.iloc[::-1]), lower=h)


@pytest.mark.parametrize(
    ("labels", "value"),
    [([1e12], "1000000000000"), ([1e300], "1e+300"), (range(20240101, 20241101), "20241100")],
)
def test_ids_and_dates_are_no_classes(labels, value):
    A = np.ones((len(labels), 2))
    with pytest.raises(ValueError, match="whole numbers 0, 1, 2, ") as caught:
        tb.Multinomial(A, list(labels))
    assert f"got the value {value} in {len(labels)} rows" in str(caught.value)


def test_classes_without_rows_one_class_and_no_rows():
    assert tb.Multinomial(np.eye(2), [0, 0]).classes == 2
    assert tb.Multinomial(np.eye(2), [0, 2]).dimension == 6
    assert tb.Multinomial(np.eye(2), [0, 999]).classes == 1000
    assert tb.Multinomial(np.eye(2), [0, 1000], classes=1001).classes == 1001
    h = tb.Multinomial(np.eye(2), [0, 1], classes=5)
    assert h.gradient(np.zeros(10)).shape == (10,)
    none = tb.Multinomial(np.zeros((0, 2)), [], classes=3)
    assert none.value(np.ones(6)) == 0.0
    assert none.lipschitz == 0.0
    np.testing.assert_array_equal(none.gradient(np.ones(6)), np.zeros(6))
    zero = tb.Multinomial(np.zeros((3, 2)), [0, 1, 2])
    assert zero.value(np.ones(6)) == pytest.approx(math.log(3.0), rel=1e-15)
