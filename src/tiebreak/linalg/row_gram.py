"""Ranks and least-squares solutions for matrices A with few rows, from eigenvalues of A A'.

The eigenvalues cost a fraction of a singular value decomposition, and A itself may stay sparse; but
as these eigenvalues are the squares of the singular values, small singular values are lost in
rounding errors sooner. Results computed from these eigenvalues must be refined, and are rejected if
the eigenvalues do not determine the rank: see `rank`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tiebreak.linalg import deadline, spectra
from tiebreak.linalg.arrays import Host, rounding_unit
from tiebreak.linalg.host import host, norm, top_exponent
from tiebreak.linalg.matrices import RowBlocks
from tiebreak.linalg.matrices.base import Matrix
from tiebreak.linalg.spectra import EPS, rounding_level
from tiebreak.linalg.tolerances import TOL


class RowGram:
    """The factorisation S S' = U diag(values) U', values ascending, for S = 2^-exponent A.

    Args:
        A: a NumPy array, or a SciPy matrix in CSR form, in float64, with no more rows than columns.
    """

    shape: tuple[int, int]
    exponent: int
    values: Host
    vectors: Host

    def __init__(self, A: Any) -> None:
        self.shape, m = A.shape, A.shape[0]
        S, self.exponent = scaled(A)
        deadline.check(m * float(S.size) / 4 + deadline.svd_work(m, m) / 2)
        product = S @ S.T
        if not isinstance(product, np.ndarray):
            product = product.toarray()
        self.values, self.vectors = np.linalg.eigh(product)
        self.trace: float = float(np.sum(self.values))  # |S|²
        self.ranks: dict[float, RowRank | None] = {}  # ranks by epsilon: see `row_rank`
        # A bound on the error of every eigenvalue: the sums in S S' are rounded, and `eigh` adds
        # its own errors.
        self.noise: float = rounding_unit(EPS, *self.shape) * self.trace

    def clear_rank(self, epsilon: float = EPS) -> int:
        """How many eigenvalues certainly exceed rounding errors, for data rounded to ``epsilon``.

        Those eigenvalues exceed c = `TOL.clear_units` times their rounding errors, and their roots
        exceed c times the rounding level of singular values. The first condition implies the second
        if epsilon = EPS: s² > c EPS (64 + max(m, n)/2) |S|² implies s > c EPS max(m, n) |S|. The
        square of the latter bound is c² EPS² max² |S|², which is at most c EPS max/2 |S|² if
        max(m, n) <= 1/(2 c EPS) ~ 2e12.
        """
        level = TOL.clear_units * rounding_level(
            self.shape, math.sqrt(max(self.value(1), 0.0)), epsilon
        )
        return int(np.count_nonzero(self.values > max(TOL.clear_units * self.noise, level * level)))

    def value(self, rank: int) -> float:
        """The ``rank``-th largest eigenvalue, as computed; inf for a rank of 0."""
        return float(self.values[len(self.values) - rank]) if rank else math.inf

    def least(self, rank: int) -> float:
        """A lower bound on the ``rank``-th largest eigenvalue."""
        return self.value(rank) - self.noise

    def solve(self, r: Host, rank: int) -> Host:
        """(S S')^+ r for a given rank: the minimum-norm least-squares solution y of S S'y = r."""
        first = len(self.values) - rank
        U = self.vectors[:, first:]
        return np.asarray(U @ ((U.T @ r).T / self.values[first:]).T)


def scaled(A: Any) -> tuple[Any, int]:
    """2^-k A and k, which is chosen to prevent overflow."""
    entries = A if isinstance(A, np.ndarray) else A.data
    exponent = top_exponent(np.array([np.max(entries, initial=0.0), np.min(entries, initial=0.0)]))
    if abs(exponent) <= 64:  # products with A are safe and need no copy
        return A, 0
    if isinstance(A, np.ndarray):
        return np.ldexp(A, -exponent), exponent
    S = A.copy()
    S.data = np.ldexp(S.data, -exponent)
    return S, exponent


_KEPT_COLUMNS: WeakKeyDictionary[Matrix, Host] = WeakKeyDictionary()
_KEPT: WeakKeyDictionary[Matrix, RowGram] = WeakKeyDictionary()


def row_gram(matrix: Matrix) -> RowGram:
    """The `RowGram` of a matrix whose entries are available; cached with the matrix."""
    found = _KEPT.get(matrix)
    if found is None:
        found = _KEPT[matrix] = RowGram(matrix.on_host())
    return found


def column_gram(matrix: Matrix) -> Host:
    """The product A'A of a matrix with available or streamed entries; cached with the matrix."""
    found = _KEPT_COLUMNS.get(matrix)
    if found is None:
        found = _KEPT_COLUMNS[matrix] = _column_gram(matrix)
    return found


def _column_gram(matrix: Matrix) -> Host:
    if isinstance(matrix, RowBlocks):
        total = np.zeros((matrix.shape[1],) * 2)
        # Slices of this length make the products fast.
        for some in matrix.slices(4 * matrix.shape[1]):
            total += host(some.transposed) @ host(some.entries)
        return total
    A = matrix.on_host()
    product = A.T @ A
    return product if isinstance(product, np.ndarray) else np.asarray(product.toarray())


def row_rank(matrix: Matrix, epsilon: float) -> RowRank | None:
    """The rank for data with machine epsilon ``epsilon``, cached; None if A A' leaves it open."""
    gram = row_gram(matrix)
    if epsilon not in gram.ranks:
        gram.ranks[epsilon] = sure_rank(matrix.on_host(), gram, epsilon)
    return gram.ranks[epsilon]


class RowRank(NamedTuple):
    """A rank beyond doubt, with a bound on the remaining singular values."""

    rank: int
    rest: float  # 0 if the remaining values are exactly 0

    @property
    def is_exact(self) -> bool:
        """Is this the exact rank of the stored numbers, not just the rank to within rounding?"""
        return self.rest == 0.0


def sure_rank(A: Any, gram: RowGram, epsilon: float) -> RowRank | None:
    """The rank of A if it is beyond doubt; None if A A' does not determine it.

    Eigenvalues far above rounding errors are certainly positive. Other eigenvalues may be exactly
    0, which takes exact arithmetic to decide, because a singular value of 1e-8 has an eigenvalue of
    A A' that looks like 0. Otherwise, the remaining singular values may be rounding errors: by the
    minimax principle, they are at most |U'A| for any U with as many orthonormal columns. The result
    is None if a row or column looks like rounding errors of the others, because `spectra.cleaned`
    would set it to 0.
    """
    rank = gram.clear_rank(epsilon)
    if gram.trace == 0.0:  # all entries are 0
        return RowRank(0, 0.0)
    if rank == 0 or not is_even([A], epsilon):
        return None
    others = A.shape[0] - rank
    if others == 0:
        return RowRank(rank, 0.0)
    found = spectra.exact_rank(A) if isinstance(A, np.ndarray) else sparse_rank(A)
    if found == rank:
        return RowRank(rank, 0.0)
    rest = norm(np.asarray(scaled(A)[0].T @ gram.vectors[:, :others]))
    level = rounding_level(A.shape, math.sqrt(gram.value(1)), epsilon)
    return RowRank(rank, math.ldexp(rest, gram.exponent)) if 0.0 < rest <= level else None


def is_even(slices: Iterable[Any], epsilon: float = EPS) -> bool:
    """Is each row (column) either 0 or clearly above rounding errors of the largest row (column)?

    The rows, dense or sparse, come in ``slices``.
    """
    rows, columns = zip(*map(_largest, slices), strict=True)
    for tops in (np.concatenate(rows), np.max(columns, axis=0)):
        tops = tops[tops > 0.0]
        if tops.size and tops.min() <= 2.0 * spectra.FEW_UNITS * epsilon * tops.max():
            return False
    return True


def _largest(A: Any) -> tuple[Host, Host]:
    """Return the size of the largest entry of each row, and of each column."""
    sizes = abs(A)
    tops = (sizes.max(axis=axis) for axis in (1, 0))
    rows, columns = (top if isinstance(top, np.ndarray) else top.toarray().ravel() for top in tops)
    return rows, columns


def sparse_rank(A: Any) -> int | None:
    """The exact rank of a CSR matrix with the numbers as stored; None if that takes too long.

    A row that has the only nonzero entry of some column is independent of all others. Once such
    rows are removed, other rows may have the only entry of a column, and so on. For text data, few
    rows remain after this procedure.
    """
    rest, known = A.copy(), 0
    rest.eliminate_zeros()
    while True:
        deadline.check()
        counts = np.bincount(rest.indices, minlength=A.shape[1])
        row = np.repeat(np.arange(rest.shape[0]), np.diff(rest.indptr))
        has_own = np.zeros(rest.shape[0], dtype=bool)
        has_own[row[counts[rest.indices] == 1]] = True
        if not has_own.any():
            break
        known += int(np.count_nonzero(has_own))
        rest = rest[~has_own]
    columns = np.flatnonzero(counts)
    rows = np.flatnonzero(np.diff(rest.indptr))
    core = spectra.exact_rank(rest[rows][:, columns].toarray())
    return None if core is None else known + core
