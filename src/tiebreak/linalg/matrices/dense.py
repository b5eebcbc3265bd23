"""Dense matrices in memory, from any array library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import array_api_compat
import numpy as np

from tiebreak.linalg import arrays, threads
from tiebreak.linalg.arrays import Array, Host, namespace, rounding_unit
from tiebreak.linalg.matrices.base import (
    BLOCK,
    Matrix,
    RowBlock,
    RowSlice,
    block_bytes,
    norm_by_blocks,
    rounded_up_roots,
    row_slices,
)
from tiebreak.linalg.matrices.streamed import Float64Rows

CACHED_BYTES = 2**24  # smaller matrices stay in the cache, so products need not share passes
CACHED_PAIR_BYTES = 2**21  # as CACHED_BYTES, if `has_small_products`
FEWEST_ROWS = 16  # per block: with fewer rows, adding up the sums over blocks would take too long
DEVICE_BLOCK = 2**28  # bytes of a matrix on a device that are converted to float64 at a time
FLOAT64_COPY_LIMIT = 2**25  # largest single-precision matrix that is also kept in float64


class Dense(Matrix):
    """A dense matrix in memory, from any array library; its entries are not copied."""

    is_explicit = True

    def __init__(self, entries: Any) -> None:
        self.entries = entries
        self.transposed: Any = entries.T
        self.shape: tuple[int, int] = (int(entries.shape[0]), int(entries.shape[1]))
        self.prototype: Array = self._zeros(0)
        if type(entries) is not np.ndarray:
            self.entries_per_call = 2**23
        elif entries.nbytes > CACHED_PAIR_BYTES and entries.flags.c_contiguous:
            # With several threads, products in blocks would take up to six times as long.
            is_faster = entries.strides[0] <= BLOCK // 2 and threads.allowed() == 1
            is_cached = not self.multiplies_pairs and entries.nbytes <= CACHED_BYTES
            self.shares_passes: bool = is_faster and not is_cached

    def _zeros(self, n: int) -> Array:
        xp, device = namespace(self.entries), array_api_compat.device(self.entries)
        return xp.zeros(n, dtype=self.entries.dtype, device=device)

    def forward(self, *xs: Array) -> list[Array]:
        if len(xs) < 2 or not self.shares_passes:
            return [self.entries @ x for x in xs]
        return [*self.sweep(xs)[0]]

    def adjoint(self, *rs: Array) -> list[Array]:
        return [self.transposed @ r for r in rs]

    def blocks(self) -> Iterable[RowBlock]:
        return self._blocks

    @cached_property
    def _blocks(self) -> list[RowBlock]:
        """Blocks of rows, each of which stays in a thread's cache during all products with it."""
        rows, n = self.shape
        size = max(FEWEST_ROWS, block_bytes() // (self.entries.itemsize * n))
        parts = (slice(i, i + size) for i in range(0, rows, size))
        return [(here, self.entries[here]) for here in parts]

    has_slices = True

    def slices(self, size: int, order: np.random.Generator | None = None) -> Iterator[RowSlice]:
        return row_slices(self.entries, size, order)

    @property
    def stored(self) -> Array:
        return namespace(self.entries).reshape(self.entries, (-1,))

    @cached_property
    def frobenius(self) -> float:
        if type(self.entries) is np.ndarray:
            return norm_by_blocks(self.blocks())
        xp = namespace(self.entries)  # row by row: one norm may fail beyond 2^31 entries
        return arrays.norm(xp.astype(xp.linalg.vector_norm(self.entries, axis=1), xp.float64))

    @cached_property
    def column_shares(self) -> Host | None:
        if type(self.entries) is not np.ndarray:
            return None
        scaled = self.entries / (self.frobenius or 1.0)
        return rounded_up_roots(np.einsum("ij,ij->j", scaled, scaled), self)

    def dense(self) -> Host:
        return np.asarray(arrays.to_numpy(self.entries), dtype=np.float64)

    @property
    def in_float64(self) -> Matrix | None:
        if self.size <= FLOAT64_COPY_LIMIT:
            return dense_matrix(arrays.double(self.entries))
        return (Float64Rows if type(self.entries) is np.ndarray else Float64DeviceRows)(self)


class Float64DeviceRows(Dense):
    """A single-precision matrix on a device, converted block by block for vectors in float64.

    The class is meant for the few products that a proof needs.
    """

    is_lanczos_cheap = False

    def __init__(self, matrix: Dense) -> None:
        super().__init__(matrix.entries)
        self._matrix, self.prototype = matrix, arrays.double(matrix.prototype)

    def blocks(self) -> Iterable[RowBlock]:
        rows = max(1, DEVICE_BLOCK // (8 * self.shape[1]))
        for start in range(0, self.shape[0], rows):
            some = slice(start, min(start + rows, self.shape[0]))
            yield some, arrays.double(self.entries[some, :])

    def forward(self, *xs: Array) -> list[Array]:
        parts = [[block @ x for x in xs] for _, block in self.blocks()]
        xp = namespace(self.entries)
        return [xp.concat(products) for products in zip(*parts, strict=True)]

    def adjoint(self, *rs: Array) -> list[Array]:
        sums = [arrays.double(self._zeros(self.shape[1])) for _ in rs]
        for rows, block in self.blocks():
            sums = [total + block.T @ r[rows] for total, r in zip(sums, rs, strict=True)]
        return sums

    @property
    def frobenius(self) -> float:
        return self._matrix.frobenius


class Fused(Dense):
    """A dense matrix on a GPU; one pass computes products, losses and slopes together.

    Sums begin with a few terms in the precision of the entries and continue in float64: see
    `errors`.
    """

    shares_passes = is_pass_expensive = True

    def read(
        self,
        xs: Sequence[Array],
        known: Sequence[Array],
        weights: Any,
        slopes: int,
        target: Array | None = None,
        kind: str = "least-squares",
        scale: float = 1.0,
    ) -> Any:
        """Run `cuda.sweep` for combinations, with ``weights``, of known images and products A x."""
        from tiebreak.linalg import cuda

        recipe = np.asarray(weights, dtype=np.float64)
        if target is None:
            target = self._zeros(self.shape[0])
        if not xs:  # the kernel needs a point, even if its product is unused
            xs = [self._zeros(self.shape[1])]
            recipe = np.column_stack([recipe, np.zeros(len(recipe))])
        return cuda.sweep(self.entries, xs, known, recipe, target, kind, slopes, scale)

    def forward(self, *xs: Array) -> list[Array]:
        pairs = [xs[i : i + 2] for i in range(0, len(xs), 2)]
        return [A_x for pair in pairs for A_x in self.read(pair, (), np.eye(len(pair)), 0).products]

    def adjoint(self, *rs: Array) -> list[Array]:
        pairs = [rs[i : i + 2] for i in range(0, len(rs), 2)]
        swept = (self.read((), pair, np.eye(len(pair)), len(pair)) for pair in pairs)
        return [slope for each in swept for slope in each.gradients]

    def normal(self, x: Array) -> Array:
        return self.read((x,), (), [[1.0]], 1).gradients[0]

    def errors(self, epsilon: float, spectral: float) -> tuple[float, float, float]:
        # Points and images are rounded when they are stored and mixed; |A| multiplies this error. A
        # sum over a row begins with 8 terms in the precision of the entries, a sum over the rows
        # with 16 terms; all other sums are in float64.
        double = rounding_unit(2.0**-52, *self.shape)
        of_image = 2.0 * rounding_unit(epsilon) * spectral
        return (
            rounding_unit(epsilon) + double,
            of_image + (6.0 * epsilon + double) * self.frobenius,
            2.0 * epsilon * spectral + (10.0 * epsilon + double) * self.frobenius,
        )


def dense_matrix(entries: Any) -> Dense:
    """A dense array as a matrix, which uses the fused kernel if the kernel applies."""
    if type(entries) is not np.ndarray:
        from tiebreak.linalg import cuda

        if cuda.applies(entries):
            return Fused(entries)
    return Dense(entries)
