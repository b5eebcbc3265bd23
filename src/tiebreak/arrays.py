"""The only file that knows array libraries.

Everything above is written once, over the array API. A vector is an array of any library that
array-api-compat knows; a matrix is *two products*, forward and adjoint, so that dense arrays and
scipy.sparse matrices (which the array API does not cover) look alike.
"""

from __future__ import annotations

import contextlib
import math
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import array_api_compat
import numpy as np

Array: TypeAlias = Any  # an array of any array-API library
Namespace: TypeAlias = Any
Image: TypeAlias = Any  # None, an array, or a tuple of images

T = TypeVar("T")

BLOCK = 2**19  # bytes of a matrix that are worked on at a time: a part of a core's cache


def namespace(x: Array) -> Namespace:
    """The array-API namespace of ``x``.

    NumPy 2 is its own: array_api_compat's wrapper would take as long to import as NumPy itself.
    """
    return np if type(x) is np.ndarray else array_api_compat.array_namespace(x)


def is_array(x: Any) -> bool:
    """Is ``x`` an array of a library that we know (not a list, not a sparse matrix)?"""
    return bool(array_api_compat.is_array_api_obj(x))


def is_sparse(x: Any) -> bool:
    """Is ``x`` a scipy.sparse matrix or array?  Asks without importing scipy.sparse."""
    return type(x).__module__.startswith("scipy.sparse") and hasattr(x, "tocsr")


def epsilon(x: Array) -> float:
    """The unit of rounding of the floating-point type of ``x``."""
    if type(x) is np.ndarray and x.dtype == np.float64:  # asked for in every step, and finfo slow
        return 2.0**-52
    return float(namespace(x).finfo(x.dtype).eps)


def is_real_floating(x: Array) -> bool:
    """Is ``x`` of a real floating-point type?"""
    return bool(namespace(x).isdtype(x.dtype, "real floating"))


def is_real(x: Array) -> bool:
    """Does ``x`` hold real numbers, floating-point or whole?"""
    if type(x) is np.ndarray:  # asked for every gradient, and isdtype is slow
        return x.dtype.kind in "fiu"
    return bool(namespace(x).isdtype(x.dtype, ("real floating", "integral")))


def kind(x: Array) -> str:
    """Library and dtype of an array, in words: numpy float64."""
    library = namespace(x).__name__.removeprefix("array_api_compat.")
    return f"{library} {str(x.dtype).rpartition('.')[2]}"


def like(value: object, x: Array) -> Array:
    """``value`` (a number, a sequence or an array) in the library, dtype and device of ``x``."""
    if type(value) is np.ndarray and type(x) is np.ndarray and value.dtype == x.dtype:
        return value
    xp = namespace(x)
    if not is_array(value):
        value = np.asarray(value, dtype=np.float64)
    elif namespace(value) is not xp:
        value = to_numpy(value)
    return xp.asarray(value, dtype=x.dtype, device=array_api_compat.device(x))


def own(value: Array, x: Array) -> Array:
    """A copy of ``value`` in the library, dtype and device of ``x``, that nobody else changes."""
    # Always a copy: what another library gives may share the memory of ``value``.
    return namespace(x).asarray(like(value, x), copy=True)


def to_numpy(x: Array) -> np.ndarray[Any, Any]:
    """``x`` as a NumPy array on the host."""
    if array_api_compat.is_torch_array(x) or array_api_compat.is_cupy_array(x):
        x = array_api_compat.to_device(x, "cpu")
    return np.asarray(x)


def from_numpy(value: np.ndarray[Any, Any], x: Array) -> Array:
    """``value`` in the library and on the device of ``x``, in its own dtype."""
    if type(x) is np.ndarray:
        return value
    return namespace(x).asarray(value, device=array_api_compat.device(x))


def zeros_like(x: Array) -> Array:
    """Zeros in the library, dtype, shape and device of ``x``."""
    return namespace(x).zeros_like(x)


def dot(x: Array, y: Array) -> float:
    """<x, y> as a Python number (NumPy's ``vdot`` overflows without a warning, unlike ``@``)."""
    return float(np.vdot(x, y) if type(x) is np.ndarray else x @ y)


def norm(x: Array) -> float:
    """|x|, the Euclidean norm, safe against overflow and underflow of the squares."""
    squared = dot(x, x)
    limit = 1e280 if epsilon(x) < 1e-10 else 1e30
    if 1.0 / limit < squared < limit:
        return math.sqrt(squared)
    largest = max_abs(x)
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    scaled = x / largest
    return largest * math.sqrt(dot(scaled, scaled))


def max_abs(x: Array) -> float:
    """max_i |x_i|, 0 for an empty vector."""
    xp = namespace(x)
    return float(xp.max(xp.abs(x))) if x.shape[0] else 0.0


def all_finite(x: Array) -> bool:
    """Are all entries finite?  One pass when they are: a sum is finite only if its terms are."""
    xp = namespace(x)
    with quiet():
        total = float(xp.sum(x))
    return math.isfinite(total) or bool(xp.all(xp.isfinite(x)))


def quiet() -> contextlib.AbstractContextManager[object]:
    """Overflow and NaN without NumPy's warnings, for code that looks at the outcome itself."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def mix(p: T, q: T, weight: float) -> T:
    """(1 - weight) p + weight q for arrays, and alike for tuples of arrays; None stays None."""
    if type(p) is np.ndarray:  # in place on the one new array: ten of these are in every step
        mixed = q - p  # type: ignore[operator]
        mixed *= weight
        mixed += p
        return mixed  # type: ignore[no-any-return]
    if p is None:
        return None  # type: ignore[return-value]
    if isinstance(p, tuple):
        parts = [mix(a, b, weight) for a, b in zip(p, q, strict=True)]  # type: ignore[call-overload]
        return type(p)(*parts) if hasattr(p, "_fields") else type(p)(parts)
    return p + weight * (q - p)  # type: ignore[operator, no-any-return]


class Matrix:
    """A matrix as two products: ``forward(x) = A x`` and ``adjoint(r) = A' r``.

    Dense arrays of any library and scipy.sparse matrices; nothing is densified or copied.
    """

    def __init__(self, entries: Any) -> None:
        self.entries: Any = entries
        self.transposed = entries.T
        self.shape: tuple[int, int] = (int(entries.shape[0]), int(entries.shape[1]))

    @property
    def is_sparse(self) -> bool:
        """Is this a scipy.sparse matrix?"""
        return is_sparse(self.entries)

    @property
    def prototype(self) -> Array:
        """An empty vector of the library, dtype and device that the products work with."""
        if self.is_sparse:
            return np.empty(0, dtype=self.entries.dtype)
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
        if self.is_sparse:
            return self.entries.data
        return namespace(self.entries).reshape(self.entries, (-1,))

    @cached_property
    def frobenius(self) -> float:
        """|A|_F, the root of the sum of the squares of all entries."""
        return norm(self.stored)

    def dense(self) -> np.ndarray[Any, Any]:
        """The entries as a NumPy float64 array on the host, for the small factorisations."""
        entries = self.entries.toarray() if self.is_sparse else to_numpy(self.entries)
        return np.asarray(entries, dtype=np.float64)
