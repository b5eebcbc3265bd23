"""SciPy sparse matrices, with products shared among threads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from tiebreak.linalg import spectra, threads
from tiebreak.linalg.arrays import Array, Host, rounding_unit
from tiebreak.linalg.matrices.base import (
    Matrix,
    RowSlice,
    rounded_up_roots,
    slice_ends,
    slice_order,
)
from tiebreak.linalg.sizes import DENSE_LIMIT

COPY_LIMIT = 2**27  # the most non-zeros of a sparse matrix that is also kept transposed
THREAD_NONZEROS = 2**18  # with fewer non-zeros, an extra thread costs more than it saves


class Sparse(Matrix):
    """A scipy.sparse matrix in CSR form; it never becomes dense, and threads share its products.

    Products are computed vector by vector. Multiplying two vectors at once would read the indices
    only once, but would be at best a tenth faster (for word counts) and at worst a quarter slower
    (if no column is frequent).
    """

    is_sparse = True

    def __init__(self, entries: Any) -> None:
        self.entries, self.transposed = entries, entries.T
        self.shape: tuple[int, int] = (int(entries.shape[0]), int(entries.shape[1]))
        self.prototype: Array = np.empty(0, dtype=entries.dtype)

    def forward(self, *xs: Array) -> list[Array]:
        return self._rows.products(xs)

    def adjoint(self, *rs: Array) -> list[Array]:
        return self._columns.products(rs)

    has_slices = True
    # The last requested size and its slices, cached because making slices takes long.
    _cut: tuple[int, list[RowSlice]] = (0, [])

    def slices(self, size: int, order: np.random.Generator | None = None) -> Iterator[RowSlice]:
        if self._cut[0] != size:
            ends = slice_ends(self.shape[0], size)
            parts = _parts(self.entries, ends)
            self._cut = (
                size,
                [
                    RowSlice(slice(*pair), part, part.T)
                    for pair, part in zip(pairwise(ends), parts, strict=True)
                ],
            )
        return (self._cut[1][i] for i in slice_order(len(self._cut[1]), order))

    @cached_property
    def _rows(self) -> RowParts:
        return RowParts(self.entries)

    @cached_property
    def _columns(self) -> RowParts:
        """A', in CSR form unless this copy would be too large; CSR products are a fifth faster."""
        return RowParts(self.transposed.tocsr() if self.size <= COPY_LIMIT else self.transposed)

    @property
    def stored(self) -> Array:
        return self.entries.data

    @property
    def in_float64(self) -> Matrix:
        A = self.entries
        return Sparse(type(A)((A.data.astype(np.float64), A.indices, A.indptr), shape=A.shape))

    @cached_property
    def norm_bound(self) -> float:
        bound = spectra.norm_bound(self.entries.astype(np.float64, copy=False))
        return bound * (1.0 + rounding_unit(2.0**-52, self.size))

    @cached_property
    def column_shares(self) -> Host | None:
        scaled = self.entries.data / (self.frobenius or 1.0)
        squares = np.bincount(self.entries.indices, scaled * scaled, minlength=self.shape[1])
        return rounded_up_roots(squares, self)

    def errors(self, epsilon: float, spectral: float) -> tuple[float, float, float]:
        # A sum over a row or column has no more terms than the row or column has entries.
        across, down = (rounding_unit(epsilon, count) for count in self._longest)
        return rounding_unit(epsilon, *self.shape), across * self.frobenius, down * self.frobenius

    @cached_property
    def _longest(self) -> tuple[int, int]:
        """The largest number of entries in any row, and in any column."""
        in_rows = np.diff(self.entries.indptr)
        in_columns = np.bincount(self.entries.indices, minlength=1)
        return int(np.max(in_rows, initial=0)), int(np.max(in_columns))

    @property
    def size(self) -> int:
        return int(self.entries.nnz)

    @property
    def is_explicit(self) -> bool:
        return math.prod(self.shape) <= DENSE_LIMIT

    def on_host(self) -> Any:
        from scipy.sparse import csr_array

        return csr_array(self.entries).astype(np.float64, copy=False)

    def dense(self) -> Host:
        return np.asarray(self.entries.toarray(), dtype=np.float64)


class RowParts:
    """A sparse matrix split by rows, one part per thread, because SciPy's product uses one thread.

    The parts are views with about the same number of non-zeros. Each row is summed as in the whole
    matrix, so the number of threads does not change any bit of the result.
    """

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        count = min(threads.allowed(), int(whole.nnz) // THREAD_NONZEROS)
        self.is_threaded: bool = count > 1
        can_be_split = self.is_threaded and whole.format == "csr"
        self.parts: list[Any] = _split(whole, count) if can_be_split else [whole]

    def __reduce__(self) -> Any:
        """Split the matrix again after copying: a copied view would have its own data."""
        return RowParts, (self.whole,)

    def products(self, xs: Sequence[Array]) -> list[Array]:
        """The product of the matrix with every x, with one thread per x or per part."""
        if not (self.is_threaded and xs):
            return _times(self.whole, xs)
        if len(xs) >= len(self.parts):
            alone = threads.together([partial(_times, self.whole, [x]) for x in xs])
            return [product for (product,) in alone]
        pieces = threads.together([partial(_times, part, xs) for part in self.parts])
        return [np.concatenate(some) for some in zip(*pieces, strict=True)]


def _times(A: Any, xs: Sequence[Array]) -> list[Array]:
    return [A @ x for x in xs]


def _split(A: Any, count: int) -> list[Any]:
    """A matrix in CSR form, split into at most ``count`` parts of whole rows."""
    inner = np.searchsorted(A.indptr, np.arange(1, count) * (A.nnz / count))
    return _parts(A, np.unique([0, *inner, A.shape[0]]))


def _parts(A: Any, ends: Sequence[int] | Host) -> list[Any]:
    """The parts of a matrix in CSR form between consecutive row numbers ``ends``, as views."""
    parts = []
    for i, j in pairwise(ends):
        here = slice(A.indptr[i], A.indptr[j])
        part = type(A)((j - i, A.shape[1]), dtype=A.dtype)
        # Set the attributes one by one: the constructor would copy small parts of large arrays.
        part.data, part.indices = A.data[here], A.indices[here]
        part.indptr = A.indptr[i : j + 1] - A.indptr[i]
        parts.append(part)
    return parts
