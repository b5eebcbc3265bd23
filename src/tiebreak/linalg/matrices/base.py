"""The interface of a matrix: its products, bounds on its norm, and its rounding errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from tiebreak.linalg import arrays, deadline, spectra, threads
from tiebreak.linalg.arrays import Array, Host, rounding_unit
from tiebreak.linalg.host import host, norm

BLOCK = 2**19  # bytes of rows to process at a time: less than a core's cache
THREADED_BLOCK = 2**25  # bytes at a time if threads share a product: small blocks gain nothing

# Maps some rows (a slice or indices) and their products with the vectors x to their weights in the
# sums A' w. In a call, products and weights are matrices, with a row for each x or w.
Weigh = Callable[[Any, Array], Array]
RowBlock = tuple[slice, Array]  # the place and the entries of some rows of A


class RowSlice(NamedTuple):
    """Consecutive rows of A, to be multiplied from both sides."""

    rows: Any  # a slice, or the rows' indices in an image
    entries: Any  # entries @ x are the rows' products
    transposed: Any


def row_slices(
    entries: Any, size: int, order: np.random.Generator | None, first: int = 0
) -> Iterator[RowSlice]:
    """Dense rows in slices of about ``size`` rows, as equal as possible: see `Matrix.slices`."""
    ends = slice_ends(int(entries.shape[0]), size)
    for i in slice_order(len(ends) - 1, order):
        here = entries[ends[i] : ends[i + 1], :]
        yield RowSlice(slice(first + ends[i], first + ends[i + 1]), here, here.T)


def slice_ends(rows: int, size: int) -> list[int]:
    """The row numbers at which slices of about ``size`` rows begin and end."""
    count = max(1, round(rows / size))
    return [rows * i // count for i in range(count + 1)]


def slice_order(count: int, order: np.random.Generator | None) -> Iterable[int]:
    """The indices of all slices, in random order if a generator is given."""
    return range(count) if order is None else order.permutation(count).tolist()


@cache
def has_small_products() -> bool:
    """Is multiplying a small matrix by two vectors at once faster than by one after the other?

    The answer is yes if OpenBLAS has special code for small products, on processors with AVX-512:
    there, multiplying by two vectors at once takes 0.6 times as long; elsewhere, 1.5 times as long.
    """
    built: Any = np.show_config(mode="dicts")
    blas = built.get("Build Dependencies", {}).get("blas", {}).get("name", "")
    found = built.get("SIMD Extensions", {}).get("found", [])
    return "openblas" in blas and bool({"AVX512_SKX", "X86_V4"} & set(found))


def block_bytes() -> int:
    """The number of bytes of a matrix on the host that are processed at a time."""
    return BLOCK if threads.allowed() == 1 else THREADED_BLOCK


class Matrix:
    """A matrix A, known by its products; subclasses also define ``shape`` and ``prototype``."""

    shape: tuple[int, int]
    entries: Any  # the entries, if they are in memory, and their transpose
    transposed: Any
    prototype: Array  # an empty vector of the library, dtype and device that the products use

    is_sparse = False
    has_slices: bool = False  # can ``slices`` be called?
    are_slices_here: bool = True  # are entries of slices available, or only their products?
    # A slice of rows costs a dozen calls, or 10 microseconds in NumPy: as much time as multiplying
    # ``entries_per_call`` cached entries. On a device, launching a dozen kernels costs much more.
    entries_per_call: int = 2**12
    known_by = "rows not in memory"  # what a refusal says if entries are unavailable
    # Do products wait until a function is evaluated, to share one data pass?
    shares_passes = False
    is_pass_expensive = False  # may computing a constant take only a few data passes?
    is_lanczos_cheap = True  # do a few dozen data passes cost little compared with a run?

    def forward(self, *xs: Array) -> list[Array]:
        """The product A x for every x, in one pass over the matrix."""
        raise NotImplementedError

    def adjoint(self, *rs: Array) -> list[Array]:
        """A' r for every r."""
        raise NotImplementedError

    def normal(self, x: Array) -> Array:
        """A'A x."""
        return self.adjoint(*self.forward(x))[0]

    def blocks(self) -> Iterable[RowBlock]:
        """All rows of a dense matrix in order, each of them once."""
        raise NotImplementedError

    def slices(self, size: int, order: np.random.Generator | None = None) -> Iterator[RowSlice]:
        """All rows in slices of about ``size`` consecutive rows, each row once, in one data pass.

        With ``order``, the slices come in random order: the first slices then represent all rows
        about as well as random rows do, even if the rows are sorted. Rows that are not in memory
        come block by block, and only the slices within a block are shuffled.
        """
        raise NotImplementedError

    @cached_property
    def row_squares(self) -> Host:
        """|a_i|² of every row, to within rounding error."""
        size = max(1, block_bytes() // max(1, 8 * self.shape[1]))
        parts = [squared_lengths(some.entries) for some in self.slices(size)]
        return np.concatenate([*parts, np.empty(0)])

    def sweep(
        self,
        xs: Sequence[Array],
        weights: int = 0,
        weigh: Weigh | None = None,
        products: Array | None = None,
    ) -> tuple[Array, Array]:
        """Compute, in one pass, A x for every x and A' w for every w that ``weigh`` returns.

        ``weights`` is the number of vectors w.

        On the host, all work with a block of rows is done in a few calls, while the block is in the
        cache. NumPy multiplies a block by a stack of vectors one by one; unless
        `has_small_products`, this is faster than multiplying by all vectors at once. The products
        A x are written into ``products``, if given. If the vectors x have a higher precision than
        A, so do the results: callers that pass float64 rely on this precision.
        """
        kind, (rows, n) = np.result_type(self.prototype.dtype, *xs), self.shape
        points = np.array(xs, dtype=kind).reshape(len(xs), n)
        if products is None:
            products = np.empty((len(xs), rows), dtype=kind)
        kind = np.result_type(kind, products)
        if self.multiplies_pairs:
            columns, sums = np.ascontiguousarray(points.T), np.zeros((weights, n), dtype=kind)
            for here, block in self.blocks():
                products[:, here] = (block @ columns).T
                if weigh is not None:
                    sums += weigh(here, products[:, here]) @ block
            return products, sums
        stack, out = points[:, :, None], products[:, :, None]
        sums = np.zeros((weights, 1, n), dtype=kind)
        for here, block in self.blocks():
            np.matmul(block, stack, out=out[:, here])
            if weigh is not None:
                sums += np.matmul(weigh(here, products[:, here])[:, None], block)
        return products, sums[:, 0]

    @cached_property
    def multiplies_pairs(self) -> bool:
        """Are the vectors of a pass multiplied together, block by block?"""
        return threads.allowed() == 1 and has_small_products()

    @property
    def stored(self) -> Array:
        """All stored entries as one vector."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The number of matrix entries that a product must read."""
        return math.prod(self.shape)

    @cached_property
    def frobenius(self) -> float:
        """The Frobenius norm |A|_F (root of the sum of all squared entries), or a bound on it."""
        return arrays.norm(host(self.stored))

    @property
    def norm_bound(self) -> float:
        """A bound on |A| that costs one pass over the entries."""
        return self.frobenius

    @cached_property
    def column_shares(self) -> Host | None:
        """The norms of the columns divided by |A|_F, rounded up; None if unknown."""
        return None

    def errors(self, epsilon: float, spectral: float) -> tuple[float, float, float]:
        """Bounds on relative errors of sums over the rows, and on errors of A x/|x| and A' r/|r|.

        ``spectral`` is a bound on |A|, for a subclass that needs it. Until an image is recomputed,
        mixing it from other images adds at most the 64 epsilon that `rounding_unit` includes.
        """
        unit = rounding_unit(epsilon, *self.shape)
        return unit, unit * self.frobenius, unit * self.frobenius

    @cached_property
    def spectral_square(self) -> float:
        """A bound on |A|², the largest eigenvalue of A'A and AA', from Lanczos steps."""
        rows, n = self.shape
        # If data passes are expensive, few steps are taken, and the bound is about a fifth too
        # large.
        steps = 30 if self.is_pass_expensive else 100
        bound = spectra.largest_eigenvalue_bound
        deadline.check((8.0 if self.is_sparse else 2.0) * steps * self.size)
        if n <= rows or self.is_pass_expensive:  # A'A x takes one pass, but AA' r two
            return bound(self.normal, self.prototype, n, steps)
        return bound(lambda r: self.forward(*self.adjoint(r))[0], self.prototype, rows, steps)

    @property
    def is_explicit(self) -> bool:
        """May ``dense`` be called: are the entries available, and few enough?"""
        return False

    @property
    def is_at_hand(self) -> bool:
        """May ``on_host`` be called: are the entries in memory, dense or sparse?"""
        return self.is_explicit or self.is_sparse

    def on_host(self) -> Any:
        """The entries in float64 on the host: NumPy, or SciPy's CSR if they are sparse."""
        return self.dense()

    def dense(self) -> Host:
        """The entries as a NumPy float64 array on the host, for small factorisations."""
        raise NotImplementedError(f"{type(self).__name__} has no entries in memory")

    @property
    def in_float64(self) -> Matrix | None:
        """The same matrix for vectors in float64; None if the entries are not known."""
        return None

    @property
    def signature(self) -> tuple[Any, ...]:
        """Arrays that distinguish the matrix from every other matrix, for a checkpoint."""
        return (self.entries,)


def norm_by_blocks(blocks: Iterable[RowBlock]) -> float:
    """|A|_F in float64, without a copy of A: sums of many squares in float32 are off by 1e-3."""
    return arrays.norm(np.array([0.0, *(norm(host(block)) for _, block in blocks)]))


def squared_lengths(entries: Any) -> Host:
    """Return |a_i|² for each of the given rows, dense or sparse."""
    squares = entries.multiply(entries) if arrays.is_sparse(entries) else entries * entries
    found = (
        squares.sum(axis=1)
        if arrays.is_sparse(entries)
        else arrays.namespace(squares).sum(squares, axis=1)
    )
    return np.asarray(arrays.to_numpy(found), dtype=np.float64).reshape(-1)


def rounded_up_roots(squares: Host, matrix: Matrix) -> Host | None:
    """The roots of ``squares``, sums over rows of ``matrix``; None if a root is not finite.

    The roots are rounded up, and underflow does not turn them into 0.
    """
    unit = rounding_unit(arrays.epsilon(matrix.prototype), *matrix.shape)
    roots = np.maximum(np.sqrt(np.asarray(squares, dtype=np.float64)), 2.0**-60) * (1.0 + unit)
    return roots if bool(np.all(np.isfinite(roots))) else None


def random_pair(matrix: Matrix) -> tuple[Array, Array]:
    """Random vectors x and r for A x and A' r; they are the same in every run."""
    rng = np.random.default_rng(20240208)
    rows, n = matrix.shape
    x, r = rng.standard_normal(n), rng.standard_normal(rows)
    return arrays.like(x, matrix.prototype), arrays.like(r, matrix.prototype)
