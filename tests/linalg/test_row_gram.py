"""The eigenvalues of A A': what they prove, against ranks and values that are known."""

from __future__ import annotations

import gc
import math
import pickle
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.linalg import spectra
from tiebreak.linalg.row_gram import RowGram, row_gram, sparse_rank, sure_rank
from tiebreak.linalg.spectra import EPS, rounding_level
from tiebreak.linalg.tolerances import TOL


def hadamard(n: int) -> np.ndarray:
    """Rows of +1 and -1, all orthogonal: H H' = n I without any rounding."""
    H = np.ones((1, 1))
    while len(H) < n:
        H = np.block([[H, H], [H, -H]])
    return H


def with_singular_values(sigma: list[float], n: int) -> np.ndarray:
    """diag(s) H/sqrt(n): these singular values, exact where they are powers of two."""
    H = hadamard(n)[: len(sigma)]
    return np.asarray(sigma)[:, None] * H / math.sqrt(n)  # n = 4^k: nothing is rounded


@pytest.mark.parametrize("scale", [1.0, 2.0**-600, 2.0**600])
def test_eigenvalues_are_the_squares_of_planted_singular_values(scale):
    sigma = [4.0, 2.0, 1.0, 0.25]
    gram = RowGram(scale * with_singular_values(sigma, 16))
    found = np.sqrt(gram.values[::-1]) * 2.0**gram.exponent
    np.testing.assert_allclose(found, np.array(sigma) * scale, rtol=1e-13)
    for rank, s in enumerate(sigma, 1):
        least = math.sqrt(gram.least(rank)) * 2.0**gram.exponent
        assert (1.0 - 1e-9) * s * scale <= least <= s * scale


def test_what_is_clear_is_clear_by_singular_values_too():
    """s² > GAP noise implies s > GAP times the rounding level of singular values."""
    rng = np.random.default_rng(1)
    seen = set()
    for smallest in np.logspace(0, -12, 25):
        for m, n in ((2, 3), (5, 40), (30, 31)):
            U = np.linalg.qr(rng.standard_normal((m, m)))[0]
            V = np.linalg.qr(rng.standard_normal((n, m)))[0]
            A = U @ np.diag(np.logspace(0, math.log10(smallest), m)) @ V.T
            for epsilon in (EPS, 2.0**-23):
                rank = RowGram(A).clear_rank(epsilon)
                sigma = np.linalg.svd(A, compute_uv=False)
                assert rank <= spectra.clear_rank(sigma, (m, n), epsilon)[0]
                seen.add(rank == m)
    assert seen == {True, False}
    for size in (1, 10, 10**6, 10**11):  # the inequality itself, of the docstring
        assert (
            TOL.clear_units * EPS * (64 + size / 2)
            >= (TOL.clear_units * rounding_level((1, size), 1.0, EPS)) ** 2
        )


def test_the_pseudo_inverse_has_the_rank_that_is_asked_for():
    A = with_singular_values([4.0, 2.0, 1.0], 16)
    A = np.vstack([A, A[0]])  # 4 sqrt(2), 2, 1, 0
    gram = RowGram(A)
    S = A * 2.0**-gram.exponent
    r = np.array([3.0, 5.0, 7.0, 3.0])  # in the range of A
    np.testing.assert_allclose(S @ (S.T @ gram.solve(r, 3)), r, rtol=1e-13)
    assert sure_rank(A, gram, EPS) == (3, 0.0)


def test_a_rank_is_sure_only_where_all_else_is_exactly_zero():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((4, 9))
    twice = np.vstack([A, A[1], 0.5 * A[2], np.zeros(9)])
    assert sure_rank(A, RowGram(A), EPS) == (4, 0.0)
    assert sure_rank(twice, RowGram(twice), EPS) == (4, 0.0)
    for change in (1e-8, 1e-12, 1e-14):  # whose square A A' cannot see
        nearly = twice.copy()
        nearly[4] += change * rng.standard_normal(9)
        assert sure_rank(nearly, RowGram(nearly), EPS) is None
    nearly = twice.copy()
    nearly[4] *= 1.0 + rng.integers(-1, 2, 9) * EPS  # as rounding does it
    found = sure_rank(nearly, RowGram(nearly), EPS)
    assert found is not None
    assert found.rank == 4
    assert not found.is_exact
    assert np.linalg.svd(nearly, compute_uv=False)[4] <= found.rest + 1e-15


def test_a_row_or_column_of_rounding_errors_is_left_to_others():
    A = np.random.default_rng(3).standard_normal((4, 9))
    for place in ((slice(None), 0), (0, slice(None))):
        dust = A.copy()
        dust[place] *= 2.0**-50
        assert sure_rank(dust, RowGram(dust), EPS) is None
    single = A.copy()
    single[:, 0] *= 2.0**-20  # clear in double precision, dust in single
    assert sure_rank(single, RowGram(single), EPS) == (4, 0.0)
    assert sure_rank(single, RowGram(single), 2.0**-23) is None


@pytest.mark.parametrize("seed", range(6))
def test_the_rank_of_a_sparse_matrix_is_that_of_its_numbers(seed):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((30, 40)) < 0.06, rng.integers(1, 9, (30, 40)), 0).astype(float)
    A[7], A[8], A[9] = A[3], A[4] + 2.0 * A[5], 0.0
    found = sparse_rank(sp.csr_array(A))
    assert found == np.linalg.matrix_rank(A) == spectra.exact_rank(A)


def test_a_stored_zero_is_no_column_of_its_own():
    A = sp.csr_array(([1.0, 0.0, 1.0], ([0, 1, 1], [0, 1, 0])), shape=(2, 2))
    assert sparse_rank(A) == 1


def test_documents_whose_words_are_those_of_others_are_dependent():
    words = sp.csr_array(np.array([[1.0, 0, 0], [0, 1.0, 0], [0.6, 0.8, 0], [0.6, 0, 0.8]]))
    assert sparse_rank(words) == 3
    assert sure_rank(words, RowGram(words), EPS) == (3, 0.0)


def test_factors_are_kept_as_long_as_the_data_and_stay_at_home():
    rng = np.random.default_rng(4)
    g = tb.LeastSquares(rng.standard_normal((5, 9)), rng.standard_normal(5))
    gram = row_gram(g.matrix)
    tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=g))
    assert row_gram(g.matrix) is gram
    twin = pickle.loads(pickle.dumps(g.matrix))
    assert row_gram(twin) is not gram
    np.testing.assert_array_equal(row_gram(twin).values, gram.values)
    alive = weakref.ref(gram)
    del g, gram
    gc.collect()
    assert alive() is None
