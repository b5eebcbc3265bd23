"""Matrices as products: ``forward(x) = A x`` and ``adjoint(r) = A' r``, whatever they are made of.

Dense arrays of any library, scipy.sparse matrices (which the array API does not cover), linear
operators that are nothing but their products, and rows that are read block by block from a disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import array_api_compat
import numpy as np

from tiebreak import arrays
from tiebreak.arrays import Array, namespace

BLOCK = 2**19  # bytes of a matrix that are worked on at a time: a part of a core's cache

# rows and the products with them -> what these rows are weighted with in the adjoint
Weigh = Callable[[slice, list[Array]], Sequence[Array]]


class Matrix:
    """A matrix that is an array in memory, dense and of any library; nothing is copied."""

    is_sparse = False
    is_dear = False  # is a pass over the matrix so dear that products wait to share it?

    def __init__(self, entries: Any) -> None:
        self.entries: Any = entries
        self.transposed = entries.T
        self.shape: tuple[int, int] = (int(entries.shape[0]), int(entries.shape[1]))

    @property
    def prototype(self) -> Array:
        """An empty vector of the library, dtype and device that the products work with."""
        xp = namespace(self.entries)
        return xp.empty(0, dtype=self.entries.dtype, device=array_api_compat.device(self.entries))

    def forward(self, *xs: Array) -> list[Array]:
        """A x for every x, in one pass over the matrix."""
        if len(xs) < 2 or not self._blocks:
            return [self.entries @ x for x in xs]
        products = [np.empty(self.shape[0], dtype=self.entries.dtype) for _ in xs]
        for rows in self._blocks:
            block = self.entries[rows]
            for x, product in zip(xs, products, strict=True):
                np.dot(block, x, out=product[rows])
        return products

    def adjoint(self, *rs: Array) -> list[Array]:
        """A' r for every r, in one pass over the matrix."""
        if len(rs) < 2 or not self._blocks:
            return [self.transposed @ r for r in rs]
        products = [np.zeros(self.shape[1], dtype=self.entries.dtype) for _ in rs]
        for rows in self._blocks:
            block = self.entries[rows].T
            for r, product in zip(rs, products, strict=True):
                product += block @ r[rows]
        return products

    def normal(self, x: Array) -> Array:
        """A'A x."""
        return self.adjoint(*self.forward(x))[0]

    @cached_property
    def _blocks(self) -> list[slice]:
        """Rows in blocks that stay in the cache from the first vector to the next.

        Only for NumPy's dense arrays: with two vectors this saves up to half of the memory traffic,
        which is what a product costs. (A product with a two-column matrix is slower, not faster.)
        """
        if type(self.entries) is not np.ndarray or self.entries.nbytes <= 2 * BLOCK:
            return []
        rows = max(1, BLOCK // (self.entries.itemsize * self.shape[1]))
        return [slice(i, i + rows) for i in range(0, self.shape[0], rows)]

    @property
    def stored(self) -> Array:
        """All stored entries as one vector."""
        return namespace(self.entries).reshape(self.entries, (-1,))

    @property
    def size(self) -> int:
        """How many numbers a product has to read."""
        return math.prod(self.shape)

    @cached_property
    def frobenius(self) -> float:
        """|A|_F, the root of the sum of the squares of all entries, or a bound on it."""
        return arrays.norm(self.stored)

    @property
    def is_explicit(self) -> bool:
        """Are the entries there to be looked at?"""
        return True

    def dense(self) -> np.ndarray[Any, Any]:
        """The entries as a NumPy float64 array on the host, for the small factorisations."""
        return np.asarray(arrays.to_numpy(self.entries), dtype=np.float64)

    @property
    def signature(self) -> tuple[Any, ...]:
        """Arrays that tell this matrix from every other, for a checkpoint."""
        return (self.entries,)


class Sparse(Matrix):
    """A scipy.sparse matrix in CSR form, never made dense for a product."""

    is_sparse = True

    @property
    def prototype(self) -> Array:
        return np.empty(0, dtype=self.entries.dtype)

    def forward(self, *xs: Array) -> list[Array]:
        return [self.entries @ x for x in xs]

    def adjoint(self, *rs: Array) -> list[Array]:
        return [self.transposed @ r for r in rs]

    @property
    def stored(self) -> Array:
        return self.entries.data

    @property
    def size(self) -> int:
        return int(self.entries.nnz)

    def dense(self) -> np.ndarray[Any, Any]:
        return np.asarray(self.entries.toarray(), dtype=np.float64)


def of(entries: Any) -> Matrix:
    """Entries in memory, dense or scipy.sparse, as a matrix."""
    return Sparse(entries) if arrays.is_sparse(entries) else Matrix(entries)


class Swept(Matrix):
    """A matrix whose rows come block by block, each block once in a pass.

    A subclass gives ``shape``, ``prototype`` and ``blocks()``, an iterator over (rows, their
    entries). All that is needed of a block is done while it is there: ``sweep``.
    """

    is_dear = True

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """All rows, in order."""
        raise NotImplementedError

    def sweep(self, xs: Sequence[Array], weigh: Weigh) -> tuple[list[Array], list[Array]]:
        """A x for every x, and A' w for the weights w that ``weigh`` makes of them: one pass."""
        products = [np.empty(self.shape[0], dtype=self.prototype.dtype) for _ in xs]
        sums: list[Array] = []
        for rows, block in self.blocks():
            fresh = [block @ x for x in xs]
            for product, part in zip(products, fresh, strict=True):
                product[rows] = part
            parts = [block.T @ weights for weights in weigh(rows, fresh)]
            sums = [s + p for s, p in zip(sums, parts, strict=True)] if sums else parts
        return products, sums

    def forward(self, *xs: Array) -> list[Array]:
        return self.sweep(xs, lambda rows, fresh: ())[0]

    def adjoint(self, *rs: Array) -> list[Array]:
        sums = self.sweep((), lambda rows, fresh: [r[rows] for r in rs])[1]
        return sums or [np.zeros(self.shape[1], dtype=self.prototype.dtype) for _ in rs]

    def normal(self, x: Array) -> Array:
        return self.sweep((x,), lambda rows, fresh: fresh)[1][0]
