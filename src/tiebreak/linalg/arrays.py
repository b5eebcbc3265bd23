"""The only file that knows array libraries.

Everything above is written once, over the array API. A vector is an array of any library that
array-api-compat knows; matrices, which need not be arrays, have a file of their own.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import array_api_compat
import numpy as np

Array: TypeAlias = Any  # an array of any array-API library
Namespace: TypeAlias = Any
Image: TypeAlias = Any  # None, an array, a Deferred, or a tuple of images

T = TypeVar("T")

ALONE = 2**13  # entries of vectors whose product BLAS leaves to one thread
SHARED = 2**17  # entries from which threads are quicker
TINY = 2.0**-1000  # covers underflow, which relative errors do not

_NAMESPACES: dict[type, Namespace] = {}
_UNITS: dict[tuple[type, Any], float] = {}  # by type and dtype


def namespace(x: Array) -> Namespace:
    """The array-API namespace of ``x``.

    NumPy 2 is its own: array_api_compat's wrapper would take as long to import as NumPy itself.
    """
    kind = type(x)
    if kind is np.ndarray:
        return np
    if kind not in _NAMESPACES:  # asked for fifty times in a step, and slow
        _NAMESPACES[kind] = array_api_compat.array_namespace(x)
    return _NAMESPACES[kind]


def is_array(x: Any) -> bool:
    """Is ``x`` an array of a library that we know (not a list, not a sparse matrix)?"""
    return bool(array_api_compat.is_array_api_obj(x))


def is_sparse(x: Any) -> bool:
    """Is ``x`` a scipy.sparse matrix or array?  Asks without importing scipy.sparse."""
    return type(x).__module__.startswith("scipy.sparse") and hasattr(x, "tocsr")


def drops_float64(x: Array) -> bool:
    """Does the library of ``x`` turn float64 into float32, as JAX does unless told otherwise?"""
    if not array_api_compat.is_jax_array(x):
        return False
    return not sys.modules["jax"].config.jax_enable_x64


def is_immutable(x: Array) -> bool:
    """Can nobody write into ``x``, as into an array of JAX?"""
    return bool(array_api_compat.is_jax_array(x))


def words(x: Array) -> Array | None:
    """The memory of an array on a GPU as one vector of 32-bit words; None of one on the host."""
    is_remote = array_api_compat.is_cupy_array(x) or (
        array_api_compat.is_torch_array(x) and x.device.type != "cpu"
    )
    if not is_remote or x.dtype.itemsize % 4:
        return None
    if array_api_compat.is_torch_array(x) and x.ndim == 2 and x.T.is_contiguous():
        x = x.T  # whose memory is one piece, so that nothing is copied
    return x.reshape(-1).view(namespace(x).int32)


def epsilon(x: Array) -> float:
    """The unit of rounding of the floating-point type of ``x``."""
    kind = type(x), x.dtype
    if kind not in _UNITS:
        _UNITS[kind] = float(namespace(x).finfo(x.dtype).eps)
    return _UNITS[kind]


def rounding_unit(epsilon: float, *sizes: int) -> float:
    """The relative rounding error of a sum over the longest of ``sizes``: n units, and 64 more.

    The classical bound; a smaller one fails where equal terms round in the same direction. The 64
    are for everything else, the drift of carried images between two refreshes included.
    """
    return epsilon * (64.0 + 0.5 * max(sizes, default=1))


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


def copied(x: Array) -> Array:
    """A copy of ``x`` with the same order of its entries in memory, where the library has one."""
    if type(x) is np.ndarray:
        return np.array(x, order="K")
    return x if is_immutable(x) else namespace(x).asarray(x, copy=True)


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


def is_single(x: Array) -> bool:
    """Is ``x`` of single precision, or of less?"""
    return epsilon(x) > 2.0**-50


def double(x: Array) -> Array:
    """``x`` in float64."""
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def doubles(vectors: Sequence[Array]) -> list[Array]:
    """The vectors, of one length, in float64."""
    if not vectors or type(vectors[0]) is np.ndarray:
        return [np.asarray(vector, dtype=np.float64) for vector in vectors]
    xp, kinds = namespace(vectors[0]), {vector.dtype for vector in vectors}
    if len(kinds) > 1 or kinds == {xp.float64}:
        return list(map(double, vectors))
    return list(xp.unstack(xp.astype(xp.stack(vectors), xp.float64)))  # few calls


def zeros_like(x: Array) -> Array:
    """Zeros in the library, dtype, shape and device of ``x``."""
    return namespace(x).zeros_like(x)


def placed(x: Array, places: Any, values: Any) -> Array:
    """A vector like ``x`` with ``values`` at ``places`` and zeros elsewhere."""
    z = zeros_like(x)
    if array_api_compat.is_jax_array(z):  # which cannot be written into
        return z.at[places].set(values)
    z[places] = values
    return z


def dot(x: Array, y: Array) -> float:
    """<x, y> as a Python number (NumPy's ``vdot`` overflows without a warning, unlike ``@``)."""
    return float(inner(x, y))


def inner(x: Array, y: Array) -> Array:
    """<x, y> as a number of the library, which need not leave its device."""
    return _inner(x, y) if type(x) is np.ndarray else x @ y


def _inner(x: Any, y: Any) -> Any:
    """NumPy's, and for long vectors in pieces that BLAS leaves to one thread.

    Its other threads stay busy for a while after every call, waiting for the next one: they would
    take the cores from those of sparse products, or from another process, and gain nothing here.
    """
    n = x.size
    if not ALONE < n <= SHARED or x.shape != y.shape:
        return np.vdot(x, y)
    return sum(float(np.vdot(x[i : i + ALONE], y[i : i + ALONE])) for i in range(0, n, ALONE))


def dots(*pairs: tuple[Array, Array]) -> list[float]:
    """<x, y> of every pair, of one dtype, with one transfer from a device to the host for all."""
    return begin_dots(*pairs)()


def begin_dots(*pairs: tuple[Array, Array]) -> Callable[[], list[float]]:
    """The same, where a device may still be at work on the vectors: a call waits for it."""
    if type(pairs[0][0]) is np.ndarray:
        found = [float(_inner(x, y)) for x, y in pairs]
        return lambda: found
    vectors = {id(x): x for pair in pairs for x in pair}
    places = {key: i for i, key in enumerate(vectors)}
    xp = namespace(pairs[0][0])
    # All products of all, in float64 (nobody's tensor cores are that), are fewer calls than some.
    rows = xp.astype(xp.stack(list(vectors.values())), xp.float64, copy=False)
    wanted = [places[id(x)] * len(places) + places[id(y)] for x, y in pairs]
    return Coming(xp.reshape(rows @ rows.T, (-1,)), lambda table: [table[i] for i in wanted])


class Coming:
    """Numbers that a device was asked for: a call waits for them, `bring` for several at once."""

    def __init__(self, vector: Array, then: Callable[[list[float]], list[float]]) -> None:
        self.vector, self._then = vector, then
        self._found: list[float] | None = None

    def __call__(self) -> list[float]:
        if self._found is None:
            self.take(numbers(self.vector))
        assert self._found is not None
        return self._found

    def take(self, found: list[float]) -> None:
        """These are the numbers."""
        self._found = self._then(found)


def later(
    values: Sequence[Array], then: Callable[[list[float]], list[float]]
) -> Callable[[], list[float]]:
    """``then`` of some numbers of one library: those of NumPy are there, others are coming."""
    if not values or isinstance(values[0], float | np.generic):
        found = then([float(value) for value in values])
        return lambda: found
    return Coming(namespace(values[0]).stack(list(values)), then)


def bring(*asked: Callable[[], list[float]] | None) -> None:
    """Wait for all of these that come from a device, by one transfer."""
    coming = [some for some in asked if isinstance(some, Coming)]
    if len(coming) < 2:
        return
    xp = namespace(coming[0].vector)
    found = numbers(xp.concat([xp.astype(c.vector, xp.float64, copy=False) for c in coming]))
    for some in coming:
        size = some.vector.shape[0]
        some.take(found[:size])
        del found[:size]


def numbers(x: Array) -> list[float]:
    """The entries of a vector as Python numbers, by one transfer."""
    found: list[float] = x.tolist() if hasattr(x, "tolist") else to_numpy(x).tolist()
    return found


def norm(x: Array, squared: float | None = None) -> float:
    """|x|, the Euclidean norm, safe against overflow and underflow of the squares.

    ``squared`` is <x, x>, where somebody knows it already.
    """
    squared = dot(x, x) if squared is None else squared
    if 1e-30 < squared < 1e30:  # nearly always, and safe in every precision
        return math.sqrt(squared)
    if epsilon(x) < 1e-10 and 1e-280 < squared < 1e280:
        return math.sqrt(squared)
    largest = max_abs(x)
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    scaled = x / largest
    return largest * math.sqrt(dot(scaled, scaled))


def length(x: Array) -> Any:
    """|x| as a number of the library, which need not leave its device."""
    return norm(x) if type(x) is np.ndarray else namespace(x).linalg.vector_norm(x)


def floats(values: Sequence[Any]) -> list[float]:
    """Numbers of a library as Python numbers, 0 for None, by one transfer."""
    far = [value for value in values if is_array(value)]
    found = iter(numbers(namespace(far[0]).stack(far)) if far else ())
    return [next(found) if is_array(value) else float(value or 0.0) for value in values]


def stretched(x: Array, length: float, wanted: float) -> Array:
    """x times wanted/length, where ``length`` = |x| > 0, whatever that quotient is."""
    share = wanted / length
    if 1e-30 < abs(share) < 1e30:  # in every precision
        return x * share
    unit = x / length
    return unit * wanted


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
    """(1 - weight) p + weight q for arrays, and alike for tuples of arrays; None stays None.

    It errs by a few units of |1 - weight| |p| + |weight| |q|, however long p is beside that.
    """
    if p is None:
        return None  # type: ignore[return-value]
    if weight > 0.5:  # from the nearer one: of a p that is hardly wanted no rounding error stays
        p, q, weight = q, p, 1.0 - weight
    # In place on the one new array: ten of these are in every step.
    if type(p) is np.ndarray and type(q) is np.ndarray:
        mixed = q - p  # type: ignore[operator]
        mixed *= weight
        mixed += p
        return mixed  # type: ignore[no-any-return]
    if isinstance(p, tuple):
        parts = [mix(a, b, weight) for a, b in zip(p, q, strict=True)]  # type: ignore[call-overload]
        return type(p)(*parts) if hasattr(p, "_fields") else type(p)(parts)
    if isinstance(p, Deferred):
        return p.mixed(p, q, weight)  # type: ignore[return-value]
    if isinstance(q, Deferred):
        return q.mixed(p, q, weight)  # type: ignore[return-value]
    if hasattr(p, "lerp"):  # one call in PyTorch, where calls are what a short vector costs
        return p.lerp(q, weight)  # type: ignore[no-any-return]
    return p + weight * (q - p)  # type: ignore[operator, no-any-return]


def plus(x: Array, y: Array, factor: float) -> Array:
    """x + factor y."""
    if type(x) is np.ndarray:
        total = factor * y  # in place on the one new array
        total += x
        return total
    if array_api_compat.is_torch_array(x):
        return x.add(y, alpha=factor)
    return x + factor * y


class Product:
    """A x for a vector x and a matrix A, once somebody passes over A: ``value`` is None before."""

    def __init__(self, forward: Callable[[Array], list[Array]], x: Array) -> None:
        self._forward, self.x = forward, x
        self.value: Array | None = None

    def known(self) -> Array:
        """Its value, by a pass of its own if there was none."""
        if self.value is None:
            (self.value,) = self._forward(self.x)
        return self.value


class Deferred:
    """The image of a point, where a pass over the matrix is shared: a sum weight * part.

    A part is an array or a Product. Nothing is multiplied until a function looks at the point, for
    then one pass over the rows gives the products, the loss and the slope together.
    """

    __array_ufunc__ = None  # so that NumPy leaves the arithmetic to mix

    def __init__(self, parts: Sequence[tuple[float, Array | Product]]) -> None:
        self.parts = tuple(parts)
        self.value: Array | None = None  # the sum itself, once it is known

    def mixed(self, p: Array | Deferred, q: Array | Deferred, weight: float) -> Deferred:
        """(1 - weight) p + weight q, every part once; ``self`` is one of the two."""
        merged: dict[int, tuple[float, Array | Product]] = {}
        for image, share in ((p, 1.0 - weight), (q, weight)):
            is_sum = isinstance(image, Deferred) and image.value is None
            known = image.value if isinstance(image, Deferred) else image
            for factor, part in image.parts if is_sum else ((1.0, known),):
                before = merged.get(id(part), (0.0, part))[0]
                merged[id(part)] = (before + share * factor, part)
        return Deferred(list(merged.values()))

    def known(self) -> Array:
        """The image as an array, by a pass over the matrix if a product is not known yet."""
        if self.value is None:
            weights, parts = zip(*self.parts, strict=True)
            known = [part.known() if isinstance(part, Product) else part for part in parts]
            self.value = combination(weights, known)
        return self.value

    def saved(self) -> Array:
        """The array that a checkpoint keeps of it."""
        return self.known()


def _opened(part: Any) -> Any:
    """The array, where it is known, of a Deferred or a Product."""
    is_known = isinstance(part, Deferred | Product) and part.value is not None
    return part.value if is_known else part


class Plan(NamedTuple):
    """What one pass over the rows has to do for some images.

    Image j is sum_i weights[j][i] part_i, the parts being ``known`` (arrays) and then ``fresh``.
    """

    images: list[Image]
    known: list[Array]
    fresh: list[Product]
    weights: list[list[float]]

    @classmethod
    def of(cls, images: Sequence[Image]) -> Plan:
        """The plan for images of one matrix, deferred or not."""
        parts: dict[int, Any] = {}
        sums: list[dict[int, float]] = []  # weights by part
        for image in images:
            is_sum = isinstance(image, Deferred) and image.value is None
            terms: dict[int, float] = {}
            for weight, part in image.parts if is_sum else ((1.0, image),):
                opened = _opened(part)
                parts[id(opened)] = opened
                terms[id(opened)] = terms.get(id(opened), 0.0) + weight
            sums.append(terms)
        known = [part for part in parts.values() if not isinstance(part, Product)]
        fresh = [part for part in parts.values() if isinstance(part, Product)]
        places = [id(part) for part in (*known, *fresh)]
        weights = [[terms.get(place, 0.0) for place in places] for terms in sums]
        return cls(list(images), known, fresh, weights)

    def fill(self, products: Sequence[Array], images: Sequence[Array]) -> None:
        """Keep what the pass has found."""
        for product, value in zip(self.fresh, products, strict=True):
            product.value = value
        for image, found in zip(self.images, images, strict=True):
            if isinstance(image, Deferred):
                image.value, image.parts = found, ()


def combination(weights: Sequence[float], parts: Sequence[Array]) -> Array:
    """sum_i weights[i] parts[i], over the weights that are not 0."""
    terms = [w * part for w, part in zip(weights, parts, strict=True) if w != 0.0]
    return sum(terms[1:], terms[0]) if terms else zeros_like(parts[0])


def settled(image: Array | Deferred) -> Array:
    """The image as an array, by a pass over the matrix if it was deferred and is not known yet."""
    return image.known() if isinstance(image, Deferred) else image
