"""The lowest layer: array libraries, matrices as two products, Lanczos."""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_strict as xps
import numpy as np
import pytest
import scipy.sparse as sp

from tiebreak.linalg import arrays, checks, spectra

# --- norms and finiteness ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norm_is_relatively_exact_at_every_size_and_never_warns(dtype):
    limits = np.finfo(dtype)
    for exponent in range(-307, 307, 2):
        size = 10.0**exponent
        if float(limits.smallest_normal) <= size <= float(limits.max) / 10:
            x = np.array([3.0, -4.0, 0.0], dtype=dtype) * dtype(size)
            exact = math.hypot(*(float(t) for t in x))
            assert arrays.norm(x) == pytest.approx(exact, rel=8 * float(limits.eps)), exponent


def test_norm_of_nothing_and_of_zero_is_zero():
    assert arrays.norm(np.zeros(0)) == 0.0
    assert arrays.norm(np.zeros(3)) == 0.0
    assert arrays.max_abs(np.zeros(0)) == 0.0


@pytest.mark.parametrize(
    ("entries", "finite"),
    [
        ([1.0, 2.0], True),
        ([1e308, 1e308, 1e308], True),  # the sum overflows, the entries do not
        ([1.0, math.nan], False),
        ([math.inf, 1.0], False),
        ([math.inf, -math.inf], False),
        ([], True),
    ],
)
def test_all_finite_asks_about_the_entries_and_never_warns(entries, finite):
    assert arrays.all_finite(np.array(entries, dtype=np.float64)) is finite
    assert arrays.all_finite(xps.asarray(entries, dtype=xps.float64)) is finite


def test_all_finite_is_true_for_float32_entries_whose_sum_overflows():
    assert arrays.all_finite(np.full(4, 3e38, dtype=np.float32))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, 1, 2**13, 2**13 + 1, 20_000, 2**17, 2**17 + 1])
def test_a_product_of_long_vectors_in_pieces_is_within_the_classical_bound(n, dtype):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n)).astype(dtype)
    exact = math.fsum(x.astype(float) * y.astype(float))
    bound = (n + 2) * np.finfo(dtype).eps * float(np.abs(x).astype(float) @ np.abs(y))
    for found in (arrays.dot(x, y), *arrays.dots((x, y), (y, x))):
        assert abs(found - exact) <= bound
    for wrong, expected in ((np.finfo(dtype).max, math.inf), (math.nan, math.nan)):
        x[: n // 2] = wrong  # without a warning
        if n > 1:
            np.testing.assert_equal(arrays.dot(x, x), expected)


def test_vectors_of_different_lengths_have_no_product():
    for n, m in ((16384, 20000), (2**17, 2**17 + 5), (20000, 16384)):
        with pytest.raises(ValueError, match=r"."):
            arrays.dot(np.ones(n), np.ones(m))


# --- mixing points and images --------------------------------------------------------------------


class Pair(NamedTuple):
    first: object
    second: object


def test_mix_is_the_weighted_mean_and_goes_through_tuples_named_tuples_and_none():
    p, q = np.array([1.0, 2.0]), np.array([5.0, -2.0])
    np.testing.assert_array_equal(arrays.mix(p, q, 0.25), [2.0, 1.0])
    mixed = arrays.mix(Pair((p, None), q), Pair((q, None), p), 0.25)
    assert isinstance(mixed, Pair)
    np.testing.assert_array_equal(mixed.first[0], [2.0, 1.0])
    assert mixed.first[1] is None
    np.testing.assert_array_equal(mixed.second, [4.0, -1.0])


def test_mix_of_a_point_with_itself_is_that_point_bit_for_bit():
    p = np.random.default_rng(0).standard_normal(50)
    for weight in (0.0, 0.3, 1.0):
        np.testing.assert_array_equal(arrays.mix(p, p, weight), p)


def test_mix_writes_into_neither_point():
    p, q = np.ones(3), np.zeros(3)
    arrays.mix(p, q, 0.5)
    assert p.tolist() == [1.0] * 3
    assert q.tolist() == [0.0] * 3


# --- libraries and dtypes ------------------------------------------------------------------------


@pytest.mark.parametrize("x", [np.zeros(1, np.float32), np.zeros(1), xps.zeros(1), xps.zeros(1, dtype=xps.float32)])  # fmt: skip  # noqa: E501
@pytest.mark.parametrize("value", [[1, 2.5], (1.0, 2.5), np.array([1, 2.5]), xps.asarray([1, 2.5])])
def test_like_gives_the_library_and_dtype_of_the_other(x, value):
    made = arrays.like(value, x)
    assert type(made) is type(x)
    assert made.dtype == x.dtype
    assert arrays.to_numpy(made).tolist() == [1.0, 2.5]


def test_to_numpy_and_from_numpy_are_inverse_to_each_other():
    x = np.random.default_rng(1).standard_normal(7)
    for prototype in (np.zeros(1), xps.zeros(1)):
        there = arrays.from_numpy(x, prototype)
        assert type(there) is type(prototype)
        np.testing.assert_array_equal(arrays.to_numpy(there), x)


@pytest.mark.parametrize(
    "value", [[1, 2], (1, 2), range(1, 3), np.array([1, 2]), np.array([1, 2], np.uint8)]
)
def test_whole_numbers_and_sequences_become_float64(value):
    vector = checks.vector("Owner", "name", value)
    assert vector.dtype == np.float64
    assert vector.tolist() == [1.0, 2.0]


def test_a_float_vector_keeps_its_kind_and_is_copied():
    for x in (np.ones(2), np.ones(2, np.float32), xps.ones(2)):
        vector = checks.vector("Owner", "name", x)
        assert vector is not x
        assert (type(vector), vector.dtype) == (type(x), x.dtype)


# --- a matrix as two products --------------------------------------------------------------------

KINDS = {
    "dense": np.asarray,
    "fortran": np.asfortranarray,
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
    "coo_matrix": sp.coo_matrix,
    "csr_array": sp.csr_array,
    "csc_array": sp.csc_array,
    "coo_array": sp.coo_array,
    "lil_array": sp.lil_array,
    "list": lambda A: A.tolist(),
    "np.matrix": np.asmatrix,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_both_products_are_those_of_the_entries_for_every_kind_of_matrix(kind):
    rng = np.random.default_rng(2)
    A = rng.integers(-3, 4, (5, 3)).astype(np.float64)
    matrix = checks.matrix("Owner", "A", KINDS[kind](A))
    x, r = rng.standard_normal(3), rng.standard_normal(5)
    for vectors, found, expected in (
        ([x, -2 * x], matrix.forward(x, -2 * x), [A @ x, -2 * A @ x]),
        ([r], matrix.adjoint(r), [A.T @ r]),
        ([r, 3 * r], matrix.adjoint(r, 3 * r), [A.T @ r, 3 * A.T @ r]),
    ):
        assert len(found) == len(vectors)
        for image, right in zip(found, expected, strict=True):
            assert type(image) is np.ndarray
            assert image.shape == right.shape
            np.testing.assert_allclose(image, right, rtol=1e-14, atol=1e-14)
    assert matrix.frobenius == pytest.approx(np.linalg.norm(A), rel=1e-14)
    assert matrix.shape == (5, 3)
    np.testing.assert_array_equal(matrix.dense(), A)


def test_frobenius_counts_an_entry_that_is_stored_twice_as_their_sum():
    twice = sp.csr_array((np.ones(2), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    assert checks.matrix("Owner", "A", twice).frobenius >= 2.0


def test_frobenius_neither_overflows_nor_underflows():
    for size in (1e-200, 1e200):
        assert checks.matrix("Owner", "A", [[3 * size, 4 * size]]).frobenius == pytest.approx(
            5 * size
        )


def test_a_masked_array_is_refused_with_a_sentence():
    masked = np.ma.array([[1.0, 2.0]], mask=[[False, True]])
    with pytest.raises((TypeError, ValueError), match=r"^Owner: A must "):
        checks.matrix("Owner", "A", masked)


# --- eigenvalue bounds ---------------------------------------------------------------------------


def eigenvalue_lists(n: int):
    rng = np.random.default_rng(n)
    yield "one outlier", np.append(np.zeros(n - 1), 1.0)
    yield "uniform", np.linspace(0.0, 1.0, n)
    yield "dense at the top", 1.0 - np.linspace(0.0, 1.0, n) ** 4
    yield "geometric", 10.0 ** np.linspace(-12, 0, n)
    yield "random", rng.random(n)
    yield "all equal", np.ones(n)
    yield "tiny", 1e-150 * np.linspace(0.0, 1.0, n)
    yield "huge", 1e150 * np.linspace(0.0, 1.0, n)
    yield "zero", np.zeros(n)


@pytest.mark.parametrize("n", [1, 2, 99, 100, 101, 1000, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lanczos_bound_is_above_the_largest_eigenvalue_and_a_few_percent_at_most(n, dtype):
    for name, eigenvalues in eigenvalue_lists(n):
        if dtype == np.float32 and name in ("tiny", "huge"):
            continue
        scaled = eigenvalues.astype(dtype)
        bound = spectra.largest_eigenvalue_bound(
            lambda v, d=scaled: d * v, np.empty(0, dtype=dtype), n
        )
        top = float(np.max(scaled))
        assert top <= bound * (1 + 1e-15), (name, n)
        assert bound <= top * 1.04, (name, n)


def test_both_ritz_values_lie_inside_the_spectrum():
    d = np.linspace(-1.0, 3.0, 400)
    low, high = spectra.extreme_eigenvalues(lambda v: d * v, np.empty(0), 400)
    assert -1.0 - 1e-12 <= low <= -0.99
    assert 2.99 <= high <= 3.0 + 1e-12
