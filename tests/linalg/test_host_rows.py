"""Rows on the host: bounds that hold, and sums that are exact, for numbers of any size."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from tiebreak.linalg.host_rows import HostRows, exact_sums, rounded_sums


@pytest.mark.parametrize("scale", [1e-250, 1e-160, 1.0, 1e160])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_sizes_of_rows_are_at_least_the_lengths_of_the_rows(scale, is_sparse):
    A = np.random.default_rng(0).standard_normal((5, 7)) * scale
    A[0], A[1, 1:] = 0.0, 0.0
    sizes = HostRows(sp.csr_array(A) if is_sparse else A).sizes
    for row, size in zip(A.tolist(), sizes.tolist(), strict=True):
        square = sum(Fraction(a) ** 2 for a in row)
        assert square <= Fraction(size) ** 2 <= square * (1 + Fraction(1, 10**12))


def test_a_tiny_row_has_no_sign_if_a_small_move_changes_it():
    rows = HostRows(1e-200 * np.array([[1.0, -1.0 + 2.0**-20]]))
    assert rows.along(np.ones(2)).signs(2.0**-30) is not None
    assert rows.along(np.ones(2)).signs(2.0**-10) is None


def test_sums_whose_products_underflow_are_not_exact():
    tiny, which = np.array([2.0**-550, 2.0**-500]), np.zeros(2, dtype=int)
    assert exact_sums(tiny[:1], tiny[:1], which[:1], 1) is None  # 2^-1100, and not 0
    np.testing.assert_array_equal(exact_sums(tiny[1:], tiny[1:], which[1:], 1), [2.0**-1000])
    assert rounded_sums(tiny[:1], tiny[:1], which[:1], 1)[1] >= 2.0**-1074


def test_sums_are_rounded_once_and_say_how_far_they_are_off():
    rng = np.random.default_rng(3)
    for _ in range(100):
        values, factors = rng.standard_normal((2, 60)) * 10.0 ** rng.integers(-9, 9, (2, 60))
        group = rng.integers(0, 7, 60)
        values[:20] = -values[20:40]  # these terms cancel, up to the last
        factors[:20], group[:20] = factors[20:40] + (rng.random(20) < 0.1), group[20:40]
        sums, errors = rounded_sums(values, factors, group, 8)
        for k in range(8):
            pairs = zip(values[group == k], factors[group == k], strict=True)
            exact = sum((Fraction(v) * Fraction(f) for v, f in pairs), Fraction(0))
            assert sums[k] == float(exact)
            off = abs(exact - Fraction(sums[k]))
            assert off <= Fraction(errors[k]) <= off * (1 + Fraction(2) ** -50)


def test_sums_that_overflow_are_unknown():
    values, group = np.array([1e200, 1.0, 1e308, 1e308]), np.array([0, 1, 2, 2])
    sums, errors = rounded_sums(values, np.array([1e200, 3.0, 1.0, 1.0]), group, 3)
    np.testing.assert_array_equal(errors, [np.inf, 0.0, np.inf])
    assert sums[1] == 3.0
