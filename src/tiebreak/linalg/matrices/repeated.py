"""Block-diagonal matrices with equal blocks, for several vectors with the same data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tiebreak.linalg.arrays import Array, Host, namespace, rounding_unit
from tiebreak.linalg.matrices.base import Matrix, RowSlice, Weigh
from tiebreak.linalg.matrices.dense import Fused
from tiebreak.linalg.sizes import DENSE_LIMIT


class _Copies:
    """A few rows of A in all copies, to be multiplied."""

    def __init__(self, block: Any, copies: int) -> None:
        self.block, self.copies, self.shape = block, copies, block.shape

    def __matmul__(self, x: Array) -> Array:
        xp = namespace(x)
        return xp.reshape((self.block @ xp.reshape(x, (self.copies, -1)).T).T, (-1,))


class Repeated(Matrix):
    """diag(A, ..., A) with ``copies`` blocks: x consists of one vector for each, in order.

    All of them are multiplied in one pass over A, whatever A is.
    """

    def __init__(self, block: Matrix, copies: int) -> None:
        self.block: Matrix = block
        self.copies: int = copies
        rows, n = block.shape
        self.shape = (copies * rows, copies * n)
        self._prototype = block.prototype
        # The GPU kernel handles only one vector of targets, so plain products are used here.
        self.shares_passes: bool = block.shares_passes and not isinstance(block, Fused)
        self.entries_per_call = block.entries_per_call
        self.has_slices, self.is_pass_expensive = block.has_slices, block.is_pass_expensive
        self.is_lanczos_cheap: bool = block.is_lanczos_cheap

    def _parts(self, xs: Sequence[Array]) -> list[Array]:
        """The vectors that A multiplies, which make up the xs."""
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
        """Like `Matrix.sweep`, but ``weigh`` gets the indices of some rows of A in all copies."""
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

        flat = products.reshape(len(xs) * copies, rows)  # the same memory, because it is contiguous
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
        """The shares in one copy, to go with `errors`: |diag(A, ..., A) x| <= sum_k |A x_k|."""
        shares = self.block.column_shares
        return None if shares is None else np.tile(shares, self.copies)

    def errors(self, epsilon: float, spectral: float) -> tuple[float, float, float]:
        # Every copy has the errors of A, whose squares add up like the squares of the parts of x.
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
