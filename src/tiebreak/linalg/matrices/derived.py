"""Matrices made from another matrix: some of its rows, scaled rows, or equal diagonal blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array, Host, namespace, rounding_unit
from tiebreak.linalg.conic_form import scaled_rows
from tiebreak.linalg.matrices.base import Matrix, RowBlock, RowSlice, Weigh, norm_by_blocks
from tiebreak.linalg.matrices.dense import FLOAT64_COPY_LIMIT, Dense, Fused, dense_matrix
from tiebreak.linalg.matrices.sparse import Sparse
from tiebreak.linalg.matrices.streamed import RowBlocks
from tiebreak.linalg.sizes import DENSE_LIMIT


def without_rows(matrix: Matrix, kept: Host) -> Matrix | None:
    """The rows for which ``kept`` is True; None if the rows are not in memory."""
    if type(matrix) in (Dense, Fused):
        return dense_matrix(taken(matrix.entries, kept))
    return Sparse(matrix.entries[np.flatnonzero(kept)]) if matrix.is_sparse else None


def taken(array: Array, kept: Host) -> Array:
    """The kept rows of a matrix, or the kept entries of a vector."""
    if type(array) is np.ndarray:
        return np.ascontiguousarray(array[kept])
    return namespace(array).take(array, arrays.from_numpy(np.flatnonzero(kept), array), axis=0)


def with_scaled_rows(matrix: Matrix, factors: Array) -> Matrix:
    """The matrix with scaled rows, as a copy if it is in memory and not very large."""
    if matrix.is_sparse:
        return Sparse(scaled_rows(matrix.entries, factors))
    is_copied = matrix.size <= FLOAT64_COPY_LIMIT or type(factors) is not np.ndarray
    if type(matrix) in (Dense, Fused) and is_copied:
        return dense_matrix(matrix.entries * factors[:, None])
    has_blocks = isinstance(matrix, RowBlocks) or type(matrix) is Dense
    return ScaledRowBlocks(matrix, factors) if has_blocks else ScaledRows(matrix, factors)


class ScaledRows(Matrix):
    """Scaled rows, known only through their products, for operators and entries on a device."""

    def __init__(self, matrix: Matrix, factors: Array) -> None:
        self.matrix: Matrix = matrix
        self.factors: Array = factors
        self.shape, self.prototype = matrix.shape, matrix.prototype
        self.is_pass_expensive: bool = matrix.is_pass_expensive
        self.is_lanczos_cheap: bool = matrix.is_lanczos_cheap

    def forward(self, *xs: Array) -> list[Array]:
        return [self.factors * image for image in self.matrix.forward(*xs)]

    def adjoint(self, *rs: Array) -> list[Array]:
        return self.matrix.adjoint(*(self.factors * r for r in rs))

    @property
    def size(self) -> int:
        return self.matrix.size

    @cached_property
    def frobenius(self) -> float:
        return arrays.max_abs(self.factors) * self.matrix.frobenius

    @property
    def signature(self) -> tuple[Any, ...]:
        return (*self.matrix.signature, self.factors)


class ScaledRowBlocks(RowBlocks, ScaledRows):
    """Scaled rows; each block of rows is multiplied by its factors when it is read."""

    def blocks(self) -> Iterable[RowBlock]:
        return ((here, self.factors[here, None] * block) for here, block in self.matrix.blocks())

    @cached_property
    def frobenius(self) -> float:
        # 1e-6 is more than the rounding error of a sum of 1e9 squares.
        return norm_by_blocks(self.blocks()) * (1.0 + 1e-6)

    @property
    def is_explicit(self) -> bool:
        return self.matrix.is_explicit

    def dense(self) -> Host:
        return np.asarray(self.factors, dtype=np.float64)[:, None] * self.matrix.dense()


# --- equal blocks: several vectors with the same data ---


class _Copies:
    """The same few rows in every copy of A, to be multiplied by vectors."""

    def __init__(self, block: Any, copies: int) -> None:
        self.block, self.copies, self.shape = block, copies, block.shape

    def __matmul__(self, x: Array) -> Array:
        xp = namespace(x)
        return xp.reshape((self.block @ xp.reshape(x, (self.copies, -1)).T).T, (-1,))


class Repeated(Matrix):
    """diag(A, ..., A) with ``copies`` blocks: x consists of one vector for each block, in order.

    One pass over A multiplies the vectors of all blocks, whatever the kind of A.
    """

    def __init__(self, block: Matrix, copies: int) -> None:
        self.block: Matrix = block
        self.copies: int = copies
        rows, n = block.shape
        self.shape: tuple[int, int] = (copies * rows, copies * n)
        self.prototype: Array = block.prototype
        # The GPU kernel handles only one vector of targets, so plain products are used here.
        self.shares_passes: bool = block.shares_passes and not isinstance(block, Fused)
        self.entries_per_call: int = block.entries_per_call
        self.has_slices, self.is_pass_expensive = block.has_slices, block.is_pass_expensive
        self.is_lanczos_cheap: bool = block.is_lanczos_cheap

    def _parts(self, xs: Sequence[Array]) -> list[Array]:
        """The vectors that A multiplies: each x is cut into ``copies`` pieces."""
        size = xs[0].shape[0] // self.copies if xs else 0
        return [x[k * size : (k + 1) * size] for x in xs for k in range(self.copies)]

    def _joined(self, parts: Sequence[Array]) -> list[Array]:
        """The inverse of `_parts`."""
        groups = [parts[i : i + self.copies] for i in range(0, len(parts), self.copies)]
        return [namespace(group[0]).concat(list(group)) for group in groups]

    def forward(self, *xs: Array) -> list[Array]:
        return self._joined(self.block.forward(*self._parts(xs)))

    def adjoint(self, *rs: Array) -> list[Array]:
        return self._joined(self.block.adjoint(*self._parts(rs)))

    def sweep(
        self,
        xs: Sequence[Array],
        weights: int = 0,
        weigh: Weigh | None = None,
        products: Array | None = None,
    ) -> tuple[Array, Array]:
        """Like `Matrix.sweep`, but ``weigh`` gets the indices of rows in every copy of A."""
        (rows, n), copies = self.block.shape, self.copies
        if products is None:
            kind = np.result_type(self.prototype.dtype, *xs)
            products = np.empty((len(xs), copies * rows), dtype=kind)
        starts = rows * np.arange(copies)[:, None]

        def of_block(here: slice, fresh: Array) -> Array:
            assert weigh is not None
            places = (starts + np.arange(rows)[here]).reshape(-1)
            found = weigh(places, fresh.reshape(len(xs), len(places)))
            return found.reshape(weights * copies, -1)

        flat = products.reshape(len(xs) * copies, rows)  # a view: the array is contiguous
        assert np.shares_memory(flat, products) or not products.size
        inner = None if weigh is None else of_block
        _, sums = self.block.sweep(self._parts(xs), weights * copies, inner, flat)
        return products, sums.reshape(weights, copies * n)

    def slices(self, size: int, order: np.random.Generator | None = None) -> Iterator[RowSlice]:
        starts = self.block.shape[0] * np.arange(self.copies)[:, None]
        for some in self.block.slices(size, order):
            places = (starts + np.arange(some.rows.start, some.rows.stop)).reshape(-1)
            pair = (_Copies(part, self.copies) for part in some[1:])
            yield RowSlice(places, *pair)

    @property
    def size(self) -> int:
        return self.copies * self.block.size

    @cached_property
    def frobenius(self) -> float:
        return math.sqrt(self.copies) * self.block.frobenius

    @cached_property
    def column_shares(self) -> Host | None:
        """A's shares, repeated per copy to match `errors`: |diag(A, ..., A) x| <= sum_k |A x_k|."""
        shares = self.block.column_shares
        return None if shares is None else np.tile(shares, self.copies)

    def errors(self, epsilon: float, spectral: float) -> tuple[float, float, float]:
        # Every copy has the errors of A, and squared errors add up like the squares of the |x_k|.
        _, of_image, of_adjoint = self.block.errors(epsilon, spectral)
        return rounding_unit(epsilon, *self.shape), of_image, of_adjoint

    @property
    def spectral_square(self) -> float:
        return self.block.spectral_square

    @property
    def is_explicit(self) -> bool:
        return self.block.is_explicit and math.prod(self.shape) <= DENSE_LIMIT

    @property
    def is_at_hand(self) -> bool:
        return self.block.is_at_hand

    def on_host(self) -> Any:
        from scipy.sparse import block_diag, csr_array

        block = csr_array(self.block.on_host())
        return csr_array(block_diag([block] * self.copies, format="csr"))

    def dense(self) -> Host:
        return np.kron(np.eye(self.copies), self.block.dense())

    @property
    def in_float64(self) -> Matrix | None:
        wide = self.block.in_float64
        return None if wide is None else Repeated(wide, self.copies)

    @property
    def signature(self) -> tuple[Any, ...]:
        return (*self.block.signature, np.array([float(self.copies)]))
