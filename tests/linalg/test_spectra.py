"""Exact ranks: many rows are looked at in one pass, and give what plain elimination gives."""

import numpy as np
import pytest

from tiebreak.linalg import spectra

PRIME = 2**31 - 1


def plain(A: np.ndarray, prime: int = PRIME) -> int:
    """One row after the other, in Python's integers: those of 2^1074 A."""
    rows = []
    for row in A.tolist():
        fractions = [float(a).as_integer_ratio() for a in row]
        rows.append([p * pow(q, -1, prime) % prime for p, q in fractions])
    rank = 0
    for column in range(A.shape[1]):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        inverse = pow(rows[rank][column], -1, prime)
        for i in range(rank + 1, len(rows)):
            factor = rows[i][column] * inverse % prime
            if factor:
                rows[i] = [
                    (a - factor * b) % prime for a, b in zip(rows[i], rows[rank], strict=True)
                ]
        rank += 1
    return rank


def of_rank(rng: np.random.Generator, m: int, n: int, r: int) -> np.ndarray:
    return (rng.integers(-3, 4, (m, r)) @ rng.integers(-3, 4, (r, n))).astype(np.float64)


@pytest.mark.parametrize("seed", range(12))
def test_tall_ranks_are_those_of_plain_elimination(seed, monkeypatch):
    monkeypatch.setattr(spectra, "CHUNK", 50)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    A = of_rank(rng, 15 * n + 60, n, int(rng.integers(0, n + 1)))
    if seed % 3 == 1:
        A *= 2.0 ** rng.integers(-40, 40, n)
    if seed % 3 == 2:
        A[-3:] += 0.1 * rng.standard_normal((3, n))  # no small integers, and not in the sample
    expected = plain(A)
    assert spectra._tall_rank(A, PRIME) == expected
    assert spectra._square_rank(spectra._residues(A, PRIME), PRIME) == expected
    for B in (A, A.T, A[:, ::-1], 2.0**-700 * A, np.asfortranarray(A)):
        assert spectra.exact_rank(B) == expected


def test_more_columns_than_a_panel_and_residues_of_all_bits(monkeypatch):
    monkeypatch.setattr(spectra, "CHUNK", 200)
    rng = np.random.default_rng(0)
    for m, n, r in [(900, 100, 70), (700, 80, 80), (600, 70, 33), (500, 40, 0)]:
        A = of_rank(rng, m, n, r)
        A[: m // 2] = A[0]  # ranks that grow in one part after the other
        found = spectra._square_rank(spectra._residues(A, PRIME), PRIME)
        assert spectra._tall_rank(A, PRIME) == spectra.exact_rank(A) == found
    A = rng.integers(0, PRIME, (600, 66)).astype(np.float64)  # residues near the prime
    A[:, 65] = PRIME - 1.0
    A[:, 64] = A[:, 65]
    assert spectra._tall_rank(A, PRIME) == 65


def test_rare_rows_count_and_repeated_ones_do_not():
    A = np.zeros((20_000, 12))
    A[:, 0] = 1.0
    assert spectra.exact_rank(A) == 1
    for j in range(1, 12):
        A[1234 * j, j] = 3.0  # in one row each
    assert spectra.exact_rank(A) == 12
    A[:, 11] = A[:, 1] + A[:, 2]
    assert spectra.exact_rank(A) == 11
    A[19_999, 11] += 2.0**-52
    assert spectra.exact_rank(A) == 12


def test_zeros_one_column_and_no_rows():
    assert spectra.exact_rank(np.zeros((1000, 3))) == 0
    assert spectra.exact_rank(np.zeros((1000, 1))) == 0
    assert spectra.exact_rank(np.zeros((0, 3))) == spectra.exact_rank(np.zeros((3, 0))) == 0
    A = np.zeros((1000, 1))
    A[777] = 5e-324
    assert spectra.exact_rank(A) == spectra.exact_rank(A.T) == 1


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_sizes_do_not_matter(size):
    A = np.tile(np.eye(4), (50, 1)) * [1.0, 1.0, size, 1.0]
    A[:, 3] = A[:, 0] + A[:, 1]
    assert spectra.exact_rank(A) == 3
    A[7, 2] = 1e-300  # next to 1e300 in the same column
    A[9, 3] += 1e-300
    assert spectra.exact_rank(A) == 3 + (A[9, 3] != A[9, 0] + A[9, 1])


def test_the_answer_is_kept_and_is_that_in_other_units_of_columns(monkeypatch):
    calls = []
    original = spectra._rank_modulo
    monkeypatch.setattr(spectra, "_rank_modulo", lambda A, p: (calls.append(p), original(A, p))[1])
    monkeypatch.setattr(spectra, "_RANKS", {})
    rng = np.random.default_rng(3)
    A = of_rank(rng, 400, 9, 6)
    for B in (A, A.copy()):
        assert spectra.exact_rank(B) == 6
    assert len(calls) == 2
    for B in (A * 2.0 ** rng.integers(-20, 20, 9), 0.125 * A):
        assert spectra.exact_rank(B) == 6
    assert len(calls) == 6
    B = A.copy()
    B[5, 5] += 1.0
    assert spectra.exact_rank(B) == 7
    assert spectra.exact_rank(np.ones((6, 2))) == spectra.exact_rank(np.ones((2, 6))) == 1
    assert len(calls) == 12


@pytest.mark.parametrize("shape", [(4, 4), (6, 4), (4, 6), (3, 0), (0, 3)])
def test_singular_values_that_are_at_hand_are_those_of_a_factorisation(shape):
    rng = np.random.default_rng(0)
    single = np.zeros(shape)
    for i, j in zip(rng.permutation(shape[0]), rng.permutation(shape[1])[:3], strict=False):
        single[i, j] = rng.standard_normal()
    for A in (single, np.zeros(shape), rng.standard_normal(shape)):
        s, vt = spectra.singular(A)
        np.testing.assert_allclose(s, np.linalg.svd(A, compute_uv=False), atol=1e-15)
        np.testing.assert_allclose((vt.T * s**2) @ vt, A.T @ A, atol=1e-14)
        S = A.T @ A
        np.testing.assert_allclose(spectra.eigenvalues(S), np.linalg.eigvalsh(S), atol=1e-14)
    turned = np.array([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(spectra.eigenvalues(turned), [-1.0, 1.0])
