"""Matrices as products: ``forward(x) = A x`` and ``adjoint(r) = A' r``, whatever they are made of.

Dense arrays of any library, scipy.sparse matrices (which the array API does not cover), linear
operators that are nothing but their products, and rows that are read block by block from a disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import Any

import array_api_compat
import numpy as np

from tiebreak.linalg import arrays, deadline, spectra, threads
from tiebreak.linalg.arrays import Array, namespace, rounding_unit

CACHE = 2**24  # bytes of a matrix that stay in a cache anyhow, so that no pass need be shared
FEW = 2**21  # the same where a shared pass is quicker from the cache too: see `has_small_products`
LONGEST = 2**18  # bytes of a row, so that some of them are in a core's cache together
LEAST = 16  # rows of a block: with fewer, adding up the sums of blocks would count
BLOCK = 2**19  # bytes of a matrix that are worked on at a time: a part of a core's cache
THREADED_BLOCK = 2**25  # the same where threads share a product, which small ones are not worth
DEVICE_BLOCK = 2**28  # the same of a matrix that is widened on a GPU
DENSE_LIMIT = 2**23  # most entries of a matrix that is looked at as a whole
COPY_LIMIT = 2**27  # most non-zeros of a sparse matrix that is kept a second time, transposed
PART = 2**18  # non-zeros of a sparse matrix that are worth a thread
WIDE_LIMIT = 2**25  # most entries in single precision that are kept in double too
LANCZOS, DEAR_LANCZOS = 100, 30  # steps; where a pass is dear the bound is a fifth too large or so
MISMATCH = 1e4  # units of rounding by which <A x, r> and <x, A' r> may differ, beside their sizes

# some rows, and their products with the vectors x -> what they are weighted with in sums A' w;
# of both a matrix, with a row for each x or w
Weigh = Callable[[slice, Array], Array]
Block = tuple[slice, Array]  # some rows of A: which, and their entries


@cache
def has_small_products() -> bool:
    """Is a small matrix times two vectors at once quicker than times one after the other?

    It is where OpenBLAS has code of its own for small products, on processors with AVX-512: there
    it takes 0.6 of the time, elsewhere 1.5 times as long.
    """
    built: Any = np.show_config(mode="dicts")
    blas = built.get("Build Dependencies", {}).get("blas", {}).get("name", "")
    found = built.get("SIMD Extensions", {}).get("found", [])
    return "openblas" in blas and bool({"AVX512_SKX", "X86_V4"} & set(found))


def block_bytes() -> int:
    """How many bytes of a matrix on the host are worked on at a time."""
    return BLOCK if threads.allowed() == 1 else THREADED_BLOCK


class Matrix:
    """A matrix that is an array in memory, dense and of any library; nothing is copied."""

    is_sparse = False
    shares_passes = False  # do products wait for a look, which then does all in one pass?
    is_dear = False  # is a pass so dear that few are spent on constants?
    is_quick = True  # do a few dozen passes cost little beside a run?

    def __init__(self, entries: Any) -> None:
        self.entries: Any = entries
        self.transposed = entries.T
        self.shape: tuple[int, int] = (int(entries.shape[0]), int(entries.shape[1]))
        # Threads want the whole matrix: in blocks they take up to six times as long.
        is_plain = type(entries) is np.ndarray and entries.flags.c_contiguous
        if is_plain and entries.strides[0] <= LONGEST and threads.allowed() == 1:
            self.shares_passes = entries.nbytes > (FEW if self._in_pairs else CACHE)

    @cached_property
    def _in_pairs(self) -> bool:
        """Are the vectors of a pass multiplied together, block by block?"""
        return threads.allowed() == 1 and has_small_products()

    @property
    def prototype(self) -> Array:
        """An empty vector of the library, dtype and device that the products work with."""
        xp = namespace(self.entries)
        return xp.empty(0, dtype=self.entries.dtype, device=array_api_compat.device(self.entries))

    def forward(self, *xs: Array) -> list[Array]:
        """A x for every x, in one pass over the matrix."""
        if len(xs) < 2 or not self.shares_passes:
            return [self.entries @ x for x in xs]
        return [*self.sweep(xs)[0]]

    def adjoint(self, *rs: Array) -> list[Array]:
        """A' r for every r."""
        return [self.transposed @ r for r in rs]

    def normal(self, x: Array) -> Array:
        """A'A x."""
        return self.adjoint(*self.forward(x))[0]

    def sweep(
        self,
        xs: Sequence[Array],
        weights: int = 0,
        weigh: Weigh | None = None,
        products: Array | None = None,
    ) -> tuple[Array, Array]:
        """A x for every x, and A' w for so many ``weights`` w that ``weigh`` makes: one pass.

        All that is needed of a block of rows is done while it is there, or in the cache, by few
        calls. In a stack NumPy multiplies vector by vector, which is quicker than all at once but
        for `has_small_products`. The products go into ``products``, where that is given. In the
        precision of the x, if that is the wider one: who hands in float64 relies on it.
        """
        kind, (rows, n) = np.result_type(self.prototype.dtype, *xs), self.shape
        points = np.array(xs, dtype=kind).reshape(len(xs), n)
        if products is None:
            products = np.empty((len(xs), rows), dtype=kind)
        kind = np.result_type(kind, products)
        if self._in_pairs:
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

    def blocks(self) -> Iterable[Block]:
        """All rows of a dense matrix on the host in order, each once."""
        return self._blocks

    @cached_property
    def _blocks(self) -> list[Block]:
        """In blocks that stay in the cache of the one thread from the first product to the last."""
        rows, n = self.shape
        size = max(LEAST, block_bytes() // (self.entries.itemsize * n))
        parts = (slice(i, i + size) for i in range(0, rows, size))
        return [(here, self.entries[here]) for here in parts]

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
        if type(self.entries) is np.ndarray:
            return arrays.norm(self.stored)
        xp = namespace(self.entries)  # whose scalar product may end at 2^31 entries
        return arrays.norm(xp.astype(xp.linalg.vector_norm(self.entries, axis=1), xp.float64))

    @cached_property
    def column_shares(self) -> np.ndarray[Any, Any] | None:
        """The lengths of the columns over |A|_F, a little more; None where they are not at hand."""
        if type(self) is not Matrix or type(self.entries) is not np.ndarray:
            return None
        scaled = self.entries / (self.frobenius or 1.0)
        return _shares(np.einsum("ij,ij->j", scaled, scaled), self)

    def errors(self, epsilon: float, spectral: float) -> tuple[float, float, float]:
        """Bounds on rounding errors: of a sum over the rows, of A x per |x|, of A' r per |r|.

        ``spectral`` is a bound on |A|, for who needs it. The image of a point is mixed from others:
        between two refreshes that adds as much as the 64 units of `rounding_unit`.
        """
        unit = rounding_unit(epsilon, *self.shape)
        return unit, unit * self.frobenius, unit * self.frobenius

    @cached_property
    def spectral_square(self) -> float:
        """A bound on |A|², the largest eigenvalue of A'A and of AA', by Lanczos on the smaller."""
        rows, n = self.shape
        steps = DEAR_LANCZOS if self.is_dear else LANCZOS
        bound = spectra.largest_eigenvalue_bound
        deadline.check((8.0 if self.is_sparse else 2.0) * steps * self.size)
        if n <= rows or self.is_dear:  # A'A x is one pass, AA' r would be two
            return bound(self.normal, self.prototype, n, steps)
        return bound(lambda r: self.forward(*self.adjoint(r))[0], self.prototype, rows, steps)

    @property
    def is_explicit(self) -> bool:
        """May ``dense`` be asked for: are the entries there, and not too many to be unfolded?"""
        return True

    def dense(self) -> np.ndarray[Any, Any]:
        """The entries as a NumPy float64 array on the host, for the small factorisations."""
        return np.asarray(arrays.to_numpy(self.entries), dtype=np.float64)

    @property
    def in_float64(self) -> Matrix | None:
        """The same matrix for vectors in float64, None where its entries are not at hand."""
        if arrays.drops_float64(self.prototype):
            return None
        if self.size <= WIDE_LIMIT:
            return of(arrays.double(self.entries))
        return WideRows(self) if type(self.entries) is np.ndarray else Wide(self)

    @property
    def signature(self) -> tuple[Any, ...]:
        """Arrays that tell this matrix from every other, for a checkpoint."""
        return (self.entries,)


def _shares(squares: np.ndarray[Any, Any], matrix: Matrix) -> np.ndarray[Any, Any] | None:
    """The roots, rounding errors and underflow included; None where they are not finite."""
    unit = rounding_unit(arrays.epsilon(matrix.prototype), *matrix.shape)
    shares = np.maximum(np.sqrt(np.asarray(squares, dtype=np.float64)), 2.0**-60) * (1.0 + unit)
    return shares if bool(np.all(np.isfinite(shares))) else None


class Sparse(Matrix):
    """A scipy.sparse matrix in CSR form, never made dense for a product, which threads share.

    Vector by vector: a product with two columns at once reads the indices only once, but is a tenth
    quicker at best (columns of a text) and a quarter slower at worst (no column is frequent).
    """

    is_sparse = True

    @property
    def prototype(self) -> Array:
        return np.empty(0, dtype=self.entries.dtype)

    def forward(self, *xs: Array) -> list[Array]:
        return self._rows.products(xs)

    def adjoint(self, *rs: Array) -> list[Array]:
        return self._columns.products(rs)

    @cached_property
    def _rows(self) -> Parts:
        return Parts(self.entries)

    @cached_property
    def _columns(self) -> Parts:
        """A', by its own rows where that is no large copy: a fifth quicker than by A's rows."""
        return Parts(self.transposed.tocsr() if self.size <= COPY_LIMIT else self.transposed)

    @property
    def stored(self) -> Array:
        return self.entries.data

    @property
    def in_float64(self) -> Matrix:
        A = self.entries
        wide = A.data.astype(np.float64)
        return Sparse(type(A)((wide, A.indices, A.indptr), shape=A.shape))

    @cached_property
    def frobenius(self) -> float:
        return arrays.norm(self.stored)

    @cached_property
    def column_shares(self) -> np.ndarray[Any, Any] | None:
        scaled = self.entries.data / (self.frobenius or 1.0)
        squares = np.bincount(self.entries.indices, scaled * scaled, minlength=self.shape[1])
        return _shares(squares, self)

    def errors(self, epsilon: float, spectral: float) -> tuple[float, float, float]:
        # A sum has no more terms than a row, or a column, has entries.
        across, down = (rounding_unit(epsilon, count) for count in self._longest)
        return rounding_unit(epsilon, *self.shape), across * self.frobenius, down * self.frobenius

    @cached_property
    def _longest(self) -> tuple[int, int]:
        """The most entries of a row, and of a column."""
        in_rows = np.diff(self.entries.indptr)
        in_columns = np.bincount(self.entries.indices, minlength=1)
        return int(np.max(in_rows, initial=0)), int(np.max(in_columns))

    @property
    def size(self) -> int:
        return int(self.entries.nnz)

    @property
    def is_explicit(self) -> bool:
        return math.prod(self.shape) <= DENSE_LIMIT

    def dense(self) -> np.ndarray[Any, Any]:
        return np.asarray(self.entries.toarray(), dtype=np.float64)


class Parts:
    """A sparse matrix and its parts, of some rows each: for threads, where SciPy's product is one.

    The parts are views and have about as many non-zeros. A row is summed up as in the whole
    matrix, so that the number of threads changes no bit.
    """

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        count = min(threads.allowed(), int(whole.nnz) // PART)
        self.is_threaded = count > 1
        can_be_cut = self.is_threaded and whole.format == "csr"
        self.parts = _cut(whole, count) if can_be_cut else [whole]

    def __reduce__(self) -> Any:
        """Cut anew where it is copied to: a copy of a view would be one of its own."""
        return Parts, (self.whole,)

    def products(self, xs: Sequence[Array]) -> list[Array]:
        """The matrix times every x: a thread for every x, or else for every part."""
        if not (self.is_threaded and xs):
            return _times(self.whole, xs)
        if len(xs) >= len(self.parts):
            alone = threads.together([partial(_times, self.whole, [x]) for x in xs])
            return [product for (product,) in alone]
        pieces = threads.together([partial(_times, part, xs) for part in self.parts])
        return [np.concatenate(some) for some in zip(*pieces, strict=True)]


def _times(A: Any, xs: Sequence[Array]) -> list[Array]:
    return [A @ x for x in xs]


def _cut(A: Any, count: int) -> list[Any]:
    """A matrix in CSR form as ``count`` of its parts, or fewer, of whole rows."""
    inner = np.searchsorted(A.indptr, np.arange(1, count) * (A.nnz / count))
    ends = np.unique([0, *inner, A.shape[0]])
    parts = []
    for i, j in pairwise(ends):
        here = slice(A.indptr[i], A.indptr[j])
        part = type(A)((j - i, A.shape[1]), dtype=A.dtype)
        # One by one, for the constructor would copy what is a small part of something large.
        part.data, part.indices = A.data[here], A.indices[here]
        part.indptr = A.indptr[i : j + 1] - A.indptr[i]
        parts.append(part)
    return parts


class Wide(Matrix):
    """Entries on a device in single precision, widened block by block for vectors in double.

    For a few products with a matrix that is there already: a proof needs no more.
    """

    is_quick = False

    def __init__(self, matrix: Matrix) -> None:
        super().__init__(matrix.entries)
        self._matrix = matrix

    @property
    def prototype(self) -> Array:
        return arrays.double(self._matrix.prototype)

    def blocks(self) -> Iterable[Block]:
        rows = max(1, DEVICE_BLOCK // (8 * self.shape[1]))
        for start in range(0, self.shape[0], rows):
            some = slice(start, min(start + rows, self.shape[0]))
            yield some, arrays.double(self.entries[some, :])

    def forward(self, *xs: Array) -> list[Array]:
        parts = [[block @ x for x in xs] for _, block in self.blocks()]
        xp = namespace(self.entries)
        return [xp.concat(products) for products in zip(*parts, strict=True)]

    def adjoint(self, *rs: Array) -> list[Array]:
        xp, device = namespace(self.entries), array_api_compat.device(self.entries)
        sums = [xp.zeros(self.shape[1], dtype=xp.float64, device=device) for _ in rs]
        for rows, block in self.blocks():
            sums = [total + block.T @ r[rows] for total, r in zip(sums, rs, strict=True)]
        return sums

    @property
    def frobenius(self) -> float:
        return self._matrix.frobenius

    @property
    def is_explicit(self) -> bool:
        return self._matrix.is_explicit


def of(entries: Any) -> Matrix:
    """Entries in memory, dense or scipy.sparse, as a matrix."""
    if arrays.is_sparse(entries):
        return Sparse(entries)
    if type(entries) is not np.ndarray:
        from tiebreak.linalg import cuda

        if cuda.applies(entries):
            return Fused(entries)
    return Matrix(entries)


class Fused(Matrix):
    """A dense matrix on a GPU, of which one reading gives products, losses and slopes together.

    Sums begin with a few terms in the precision of the entries and go on in float64: see errors.
    """

    shares_passes = is_dear = True

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
        """`cuda.sweep`: images made of ``known`` and of A x by ``weights``, losses, slopes."""
        from tiebreak.linalg import cuda

        recipe = np.asarray(weights, dtype=np.float64)
        xp, device = namespace(self.entries), array_api_compat.device(self.entries)
        if target is None:
            target = xp.zeros(self.shape[0], dtype=self.entries.dtype, device=device)
        if not xs:  # the pass wants a point: one that nobody needs
            xs = [xp.zeros(self.shape[1], dtype=self.entries.dtype, device=device)]
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
        # Points and images are rounded when they are stored and mixed: |A| times that. A sum over a
        # row begins with 8 terms in the precision of the entries, one over the rows with 16; the
        # rest is float64.
        double = rounding_unit(2.0**-52, *self.shape)
        of_image = 2.0 * rounding_unit(epsilon) * spectral
        return (
            rounding_unit(epsilon) + double,
            of_image + (6.0 * epsilon + double) * self.frobenius,
            2.0 * epsilon * spectral + (10.0 * epsilon + double) * self.frobenius,
        )


def is_operator(value: Any) -> bool:
    """Is ``value`` known by its products alone?  Without importing what it may come from.

    A scipy.sparse.linalg.LinearOperator or an operator of PyLops has ``matvec`` and ``rmatvec``;
    anything else needs ``@`` and ``.H`` or ``.T``, and nothing that makes it an array.
    """
    if arrays.is_array(value) or arrays.is_sparse(value) or hasattr(value, "__array__"):
        return False
    has_products = hasattr(value, "matvec") or (
        hasattr(value, "__matmul__") and (hasattr(value, "H") or hasattr(value, "T"))
    )
    return has_products and len(getattr(value, "shape", ())) == 2


class Operator(Matrix):
    """A matrix that is nothing but its products, A x and A' r; the entries are never asked for.

    With ``is_symmetric`` A' = A, and no adjoint is asked for. NumPy's float64, or its float32 if
    that is the operator's dtype.
    """

    def __init__(self, operator: Any, is_symmetric: bool = False) -> None:
        self.operator, self.is_symmetric = operator, is_symmetric
        rows, n = operator.shape
        self.shape = (int(rows), int(n))
        is_single = np.dtype(getattr(operator, "dtype", None) or np.float64) == np.float32
        self._prototype = np.empty(0, dtype=np.float32 if is_single else np.float64)
        self._apply = getattr(operator, "matvec", None) or operator.__matmul__
        self._back = self._apply if is_symmetric else self._adjoint_of(operator)

    @staticmethod
    def _adjoint_of(operator: Any) -> Any:
        """r -> A' r, whatever it is called."""
        if hasattr(operator, "rmatvec"):
            return operator.rmatvec
        for name in ("H", "T"):
            if hasattr(operator, name):
                return getattr(operator, name).__matmul__
        raise NotImplementedError("there is no adjoint")

    @property
    def prototype(self) -> Array:
        return self._prototype

    def forward(self, *xs: Array) -> list[Array]:
        return [self._product(self._apply, x, self.shape[0]) for x in xs]

    def adjoint(self, *rs: Array) -> list[Array]:
        return [self._product(self._back, r, self.shape[1]) for r in rs]

    @property
    def in_float64(self) -> None:
        """None: its products are what they are."""
        return None

    def _product(self, apply: Any, x: Array, length: int) -> Array:
        """A copy of its own: an operator may use its buffer again, or write into its argument."""
        result = np.array(apply(x.copy()), dtype=self.prototype.dtype)
        return result.reshape(length)

    @property
    def pair(self) -> tuple[Array, Array]:
        """Two vectors x and r at random, the same ones in every run."""
        return _pair(self.shape, self.prototype)

    def mismatch(self) -> float:
        """|<A x, r> - <x, A' r>| in units of rounding of |A x||r| + |x||A' r|; nan if not finite.

        For x and r at random: 0 up to rounding, unless ``rmatvec`` is not the adjoint.
        """
        x, r = self.pair
        (image,), (back,) = self.forward(x), self.adjoint(r)
        if not (arrays.all_finite(image) and arrays.all_finite(back)):
            return math.nan
        apart = abs(arrays.dot(image, r) - arrays.dot(x, back))
        size = arrays.norm(image) * arrays.norm(r) + arrays.norm(x) * arrays.norm(back)
        return apart / (arrays.epsilon(x) * size) if size > 0.0 else 0.0

    @property
    def size(self) -> int:
        return sum(self.shape)  # all that is known

    @cached_property
    def frobenius(self) -> float:
        """sqrt(rank) |A| at most: a bound."""
        return math.sqrt(min(self.shape) * max(self.spectral_square, 0.0))

    @property
    def is_explicit(self) -> bool:
        return False

    def dense(self) -> np.ndarray[Any, Any]:
        raise NotImplementedError("an operator has no entries")

    @property
    def signature(self) -> tuple[Any, ...]:
        x, r = self.pair
        return (*self.forward(x), *self.adjoint(r))


def _pair(shape: tuple[int, int], prototype: Array) -> tuple[Array, Array]:
    """Two vectors x and r at random for A x and A' r, the same ones in every run."""
    rng = np.random.default_rng(20240208)
    rows, n = shape
    return arrays.like(rng.standard_normal(n), prototype), arrays.like(
        rng.standard_normal(rows), prototype
    )


class Swept(Matrix):
    """A matrix whose rows come block by block, each block once in a pass.

    A subclass gives ``shape``, ``prototype`` and ``blocks()``.
    """

    shares_passes = is_dear = True
    is_quick = False
    watch: Callable[[int], object] | None = None  # told after every block how many rows are done

    def blocks(self) -> Iterable[Block]:
        raise NotImplementedError

    @property
    def in_float64(self) -> Matrix | None:
        return WideRows(self)

    def forward(self, *xs: Array) -> list[Array]:
        return [*self.sweep(xs)[0]]

    def adjoint(self, *rs: Array) -> list[Array]:
        given = np.array(rs)
        return [*self.sweep((), len(rs), lambda rows, fresh: given[:, rows])[1]]

    def normal(self, x: Array) -> Array:
        return self.sweep((x,), 1, lambda rows, fresh: fresh)[1][0]

    @property
    def is_explicit(self) -> bool:
        return False

    @property
    def signature(self) -> tuple[Any, ...]:
        x, r = _pair(self.shape, self.prototype)
        (image,), (back,) = self.sweep((x,), 1, lambda rows, fresh: r[None, rows])
        return image, back


class WideRows(Swept):
    """Rows on the host in single precision, widened block by block for vectors in double."""

    def __init__(self, rows: Matrix) -> None:
        self._rows = rows
        self.shape = rows.shape

    @property
    def prototype(self) -> Array:
        return arrays.double(self._rows.prototype)

    def blocks(self) -> Iterable[Block]:
        return ((rows, arrays.double(block)) for rows, block in self._rows.blocks())

    @property
    def frobenius(self) -> float:
        return self._rows.frobenius
