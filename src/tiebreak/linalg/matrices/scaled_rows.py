"""Matrices with some rows left out, or with rows multiplied by numbers: for row weights."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array, Host, namespace
from tiebreak.linalg.matrices.base import Matrix, RowBlock
from tiebreak.linalg.matrices.dense import FLOAT64_COPY_LIMIT, Dense, Fused, dense_matrix
from tiebreak.linalg.matrices.sparse import Sparse
from tiebreak.linalg.matrices.streamed import RowBlocks


def without_rows(matrix: Matrix, kept: Host) -> Matrix | None:
    """The rows that are ``kept`` (True or False for each); None if they are not in memory."""
    if type(matrix) in (Dense, Fused):
        return dense_matrix(taken(matrix.entries, kept))
    return Sparse(matrix.entries[np.flatnonzero(kept)]) if matrix.is_sparse else None


def taken(array: Array, kept: Host) -> Array:
    """The rows, or the entries of a vector, that are kept."""
    if type(array) is np.ndarray:
        return np.ascontiguousarray(array[kept])
    return namespace(array).take(array, arrays.from_numpy(np.flatnonzero(kept), array), axis=0)


def with_scaled_rows(matrix: Matrix, factors: Array) -> Matrix:
    """Each row times its factor: a copy if the matrix is in memory and not very large."""
    if matrix.is_sparse:
        by_row = np.repeat(factors, np.diff(matrix.entries.indptr))
        A = matrix.entries
        return Sparse(type(A)((A.data * by_row, A.indices, A.indptr), shape=A.shape))
    is_copied = matrix.size <= FLOAT64_COPY_LIMIT or type(factors) is not np.ndarray
    if type(matrix) in (Dense, Fused) and is_copied:
        return dense_matrix(matrix.entries * factors[:, None])
    has_blocks = isinstance(matrix, RowBlocks) or type(matrix) is Dense
    return ScaledRowBlocks(matrix, factors) if has_blocks else ScaledRows(matrix, factors)


class ScaledRows(Matrix):
    """Rows times factors, known only by their products, for operators and entries on a device."""

    def __init__(self, matrix: Matrix, factors: Array) -> None:
        self.matrix: Matrix = matrix
        self.factors: Array = factors
        self.shape, self._prototype = matrix.shape, matrix.prototype
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
    """Rows times factors, block by block as they are read."""

    def blocks(self) -> Iterable[RowBlock]:
        return ((here, self.factors[here, None] * block) for here, block in self.matrix.blocks())

    @cached_property
    def frobenius(self) -> float:
        norms = (arrays.norm(np.ravel(block).astype(np.float64)) for _, block in self.blocks())
        # 1e-6 is more than the rounding error of a sum of 1e9 squares.
        return arrays.norm(np.array([*norms, 0.0])) * (1.0 + 1e-6)

    @property
    def is_explicit(self) -> bool:
        return self.matrix.is_explicit

    def dense(self) -> Host:
        return np.asarray(self.factors, dtype=np.float64)[:, None] * self.matrix.dense()
