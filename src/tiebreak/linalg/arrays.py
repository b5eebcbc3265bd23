"""The only module with code for particular array libraries; all others use the array API.

Vectors may come from any library that array-api-compat supports.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

import array_api_compat
import numpy as np

Array: TypeAlias = Any  # an array of any array-API library
Namespace: TypeAlias = Any
Host: TypeAlias = np.ndarray[Any, Any]  # a NumPy array, in the memory of the host
Image: TypeAlias = Any  # None, an array, a `DeferredImage`, or a tuple of images

T = TypeVar("T")

ONE_THREAD = 2**13  # up to this length, BLAS multiplies vectors in one thread
MANY_THREADS = 2**17  # beyond this length, several threads are faster
TINY = 2.0**-1000  # an absolute error that covers underflow, which relative errors do not
SAFE = 1.0 + 1e-12  # exceeds the rounding errors of adding thousands of positive numbers
MOST_EXPONENT = 256  # numbers below 2**256 have fourth powers that do not overflow
HUGE = 1e150  # with larger factors, rounding errors exceed all other terms; HUGE² is finite

_NAMESPACES: dict[type, Namespace] = {}
_UNITS: dict[tuple[type, Any], float] = {}  # machine epsilons by array type and dtype


def namespace(x: Array) -> Namespace:
    """The array-API namespace of ``x``.

    NumPy 2 is its own namespace: importing the wrapper of array_api_compat would only cost time.
    """
    kind = type(x)
    if kind is np.ndarray:
        return np
    if kind not in _NAMESPACES:  # cached: lookups are slow, and a step needs about fifty
        _NAMESPACES[kind] = array_api_compat.array_namespace(x)
    return _NAMESPACES[kind]


def is_array(x: Any) -> bool:
    """Is ``x`` an array of a known library (not a list, not a sparse matrix)?"""
    return type(x) is np.ndarray or bool(array_api_compat.is_array_api_obj(x))


def is_sparse(x: Any) -> bool:
    """Is ``x`` a scipy.sparse matrix or array? This check does not import scipy.sparse."""
    return type(x).__module__.startswith("scipy.sparse") and hasattr(x, "tocsr")


def drops_float64(x: Array) -> bool:
    """Does the library of ``x`` turn float64 into float32, as JAX does by default?"""
    if not array_api_compat.is_jax_array(x):
        return False
    return not sys.modules["jax"].config.jax_enable_x64


def is_immutable(x: Array) -> bool:
    """Is ``x`` read-only by design, like a JAX array?"""
    return bool(array_api_compat.is_jax_array(x))


def is_remote(x: Array) -> bool:
    """Is ``x`` in the memory of a GPU?"""
    return bool(
        array_api_compat.is_cupy_array(x)
        or (array_api_compat.is_torch_array(x) and x.device.type != "cpu")
    )


def words(x: Array) -> Array | None:
    """A GPU array's memory as a vector of 32-bit words; None for other arrays."""
    if not is_remote(x) or x.dtype.itemsize % 4:
        return None
    if array_api_compat.is_torch_array(x) and x.ndim == 2 and x.T.is_contiguous():
        x = x.T  # the transpose is contiguous, so nothing is copied
    return x.reshape(-1).view(namespace(x).int32)


def underflow(x: Array) -> float:
    """A bound on the effect of underflow in single-precision sums, even of many weighted terms.

    In double precision, the bound is 0, because the `TINY` that every proof adds is enough.
    """
    return 2.0**-100 if epsilon(x) > 1e-10 else 0.0


def epsilon(x: Array) -> float:
    """The machine epsilon of the floating-point type of ``x``."""
    kind = type(x), x.dtype
    if kind not in _UNITS:
        _UNITS[kind] = float(namespace(x).finfo(x.dtype).eps)
    return _UNITS[kind]


def rounding_unit(epsilon: float, *sizes: int) -> float:
    """A bound on the relative rounding error of a sum of n terms, with n = max(``sizes``).

    The classical bound is n epsilon/2; smaller bounds fail if equal terms are rounded in the same
    direction. Another 64 epsilon cover everything else, including the rounding errors of images
    that are mixed repeatedly before they are recomputed.
    """
    return epsilon * (64.0 + 0.5 * max(sizes, default=1))


def is_real_floating(x: Array) -> bool:
    """Is ``x`` of a real floating-point type?"""
    return bool(namespace(x).isdtype(x.dtype, "real floating"))


def is_real(x: Array) -> bool:
    """Does ``x`` hold real numbers, either floating-point or integers?"""
    if type(x) is np.ndarray:  # a fast path for every gradient: isdtype is slow
        return x.dtype.kind in "fiu"
    return bool(namespace(x).isdtype(x.dtype, ("real floating", "integral")))


def kind(x: Array) -> str:
    """The library and dtype of an array in words, such as "numpy float64"."""
    library = namespace(x).__name__.removeprefix("array_api_compat.")
    return f"{library} {str(x.dtype).rpartition('.')[2]}"


def like(value: object, x: Array) -> Array:
    """``value``, an array, sequence or number, in the library, dtype and device of ``x``."""
    if type(value) is np.ndarray and type(x) is np.ndarray and value.dtype == x.dtype:
        return value
    xp = namespace(x)
    if not is_array(value):
        value = np.asarray(value, dtype=np.float64)
    elif namespace(value) is not xp:
        value = to_numpy(value)
    return xp.asarray(value, dtype=x.dtype, device=array_api_compat.device(x))


def from_center(x: Array, center: Array | None) -> Array:
    """x - center, or x itself if ``center`` is None, which stands for the origin."""
    return x if center is None else x - like(center, x)


def own(value: Array, x: Array) -> Array:
    """A private copy of ``value``, converted to the library, dtype and device of ``x``."""
    # Always copy: an array of another library may share its memory with ``value``.
    return namespace(x).asarray(like(value, x), copy=True)


def copied(x: Array) -> Array:
    """A copy of ``x`` with the same memory layout, if the library has layouts."""
    if type(x) is np.ndarray:
        return np.array(x, order="K")
    return x if is_immutable(x) else namespace(x).asarray(x, copy=True)


def to_numpy(x: Array) -> Host:
    """``x`` as a NumPy array on the host."""
    if array_api_compat.is_torch_array(x) or array_api_compat.is_cupy_array(x):
        x = array_api_compat.to_device(x, "cpu")
    return np.asarray(x)


def from_numpy(value: Host, x: Array) -> Array:
    """``value``, moved to the library and device of ``x`` without changing its dtype."""
    if type(x) is np.ndarray:
        return value
    return namespace(x).asarray(value, device=array_api_compat.device(x))


def is_single(x: Array) -> bool:
    """Is ``x`` in single or lower precision?"""
    return epsilon(x) > 2.0**-50


def double(x: Array) -> Array:
    """``x`` in float64."""
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def doubles(vectors: Sequence[Array]) -> list[Array]:
    """The vectors, which all have the same length, converted to float64."""
    if not vectors or type(vectors[0]) is np.ndarray:
        return [np.asarray(vector, dtype=np.float64) for vector in vectors]
    xp, kinds = namespace(vectors[0]), {vector.dtype for vector in vectors}
    if len(kinds) > 1 or kinds == {xp.float64}:
        return list(map(double, vectors))
    return list(xp.unstack(xp.astype(xp.stack(vectors), xp.float64)))  # few calls for many vectors


def zeros_like(x: Array) -> Array:
    """Zeros with the same library, dtype, shape and device as ``x``."""
    return namespace(x).zeros_like(x)


def nowhere(x: Array) -> Array:
    """An array like ``x`` filled with NaN, which stands for a point that does not exist."""
    return namespace(x).full_like(x, math.nan)


def placed(x: Array, places: Any, values: Any) -> Array:
    """A vector like ``x`` with ``values`` at ``places`` and zeros elsewhere."""
    z = zeros_like(x)
    if array_api_compat.is_jax_array(z):  # JAX arrays are read-only
        return z.at[places].set(values)
    z[places] = values
    return z


def dot(x: Array, y: Array) -> float:
    """<x, y> as a Python number (NumPy's ``vdot`` overflows without a warning, unlike ``@``)."""
    return float(inner(x, y))


def inner(x: Array, y: Array) -> Array:
    """<x, y> as a scalar of the vectors' library, which may stay on the device.

    Long NumPy vectors are multiplied in pieces so short that BLAS uses only one thread. Otherwise
    the other threads of BLAS would stay busy for a while after every call, waiting for the next
    call. They would take cores from sparse products or other processes, without any gain.
    """
    if type(x) is not np.ndarray:
        return x @ y
    n = x.size
    if not ONE_THREAD < n <= MANY_THREADS or x.shape != y.shape:
        return np.vdot(x, y)
    return sum(
        float(np.vdot(x[i : i + ONE_THREAD], y[i : i + ONE_THREAD]))
        for i in range(0, n, ONE_THREAD)
    )


def dots(*pairs: tuple[Array, Array]) -> list[float]:
    """<x, y> for every pair; all vectors have the same dtype. A device needs a single transfer."""
    return dots_async(*pairs)()


def dots_async(*pairs: tuple[Array, Array]) -> Callable[[], list[float]]:
    """Start computing `dots` without waiting for the device; calling the result waits for them."""
    if type(pairs[0][0]) is np.ndarray:
        found = [float(inner(x, y)) for x, y in pairs]
        return lambda: found
    vectors = {id(x): x for pair in pairs for x in pair}
    places = {key: i for i, key in enumerate(vectors)}
    xp = namespace(pairs[0][0])
    # One matrix product takes fewer calls than separate scalar products, and tensor cores do not
    # round float64 to fewer bits.
    rows = xp.astype(xp.stack(list(vectors.values())), xp.float64, copy=False)
    wanted = [places[id(x)] * len(places) + places[id(y)] for x, y in pairs]
    return PendingNumbers(
        xp.reshape(rows @ rows.T, (-1,)), lambda table: [table[i] for i in wanted]
    )


class PendingNumbers:
    """Numbers requested from a device; calling the object, or `fetch_together`, waits for them."""

    def __init__(self, vector: Array, then: Callable[[list[float]], list[float]]) -> None:
        self.vector, self._then = vector, then
        self._found: list[float] | None = None

    def __call__(self) -> list[float]:
        if self._found is None:
            self.take(numbers(self.vector))
        assert self._found is not None
        return self._found

    def take(self, found: list[float]) -> None:
        """Receive the numbers."""
        self._found = self._then(found)


def pending_numbers(
    values: Sequence[Array], then: Callable[[list[float]], list[float]]
) -> Callable[[], list[float]]:
    """Apply ``then`` to scalars of one library: at once for NumPy, otherwise when they arrive."""
    if not values or isinstance(values[0], float | np.generic):
        found = then([float(value) for value in values])
        return lambda: found
    return PendingNumbers(namespace(values[0]).stack(list(values)), then)


def fetch_together(*asked: Callable[[], list[float]] | None) -> None:
    """Wait for all pending numbers at once, in one transfer."""
    coming = [some for some in asked if isinstance(some, PendingNumbers)]
    if len(coming) < 2:
        return
    xp = namespace(coming[0].vector)
    found = numbers(xp.concat([xp.astype(c.vector, xp.float64, copy=False) for c in coming]))
    for some in coming:
        size = some.vector.shape[0]
        some.take(found[:size])
        del found[:size]


def numbers(x: Array) -> list[float]:
    """The entries of a vector as Python numbers, in one transfer."""
    found: list[float] = x.tolist() if hasattr(x, "tolist") else to_numpy(x).tolist()
    return found


def norm(x: Array, squared: float | None = None) -> float:
    """The Euclidean norm |x|, computed so that squares cannot overflow or underflow.

    ``squared`` is <x, x>, if known.
    """
    squared = float(inner(x, x)) if squared is None else squared
    if 1e-30 < squared < 1e30:  # nearly always true; safe in every precision
        return math.sqrt(squared)
    if epsilon(x) < 1e-10 and 1e-280 < squared < 1e280:
        return math.sqrt(squared)
    largest = max_abs(x)
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    scaled = x / largest
    return largest * math.sqrt(dot(scaled, scaled))


def length(x: Array) -> Any:
    """|x| as a scalar of the library of ``x``, which may stay on the device."""
    return norm(x) if type(x) is np.ndarray else namespace(x).linalg.vector_norm(x)


def floats(values: Sequence[Any]) -> list[float]:
    """Scalars as Python numbers, with 0 for None, in one transfer from the device."""
    far = [value for value in values if is_array(value)]
    found = iter(numbers(namespace(far[0]).stack(far)) if far else ())
    return [next(found) if is_array(value) else float(value or 0.0) for value in values]


def stretched(x: Array, length: float, wanted: float) -> Array:
    """x times wanted/length, where ``length`` = |x| > 0, even if that quotient overflows."""
    share = wanted / length
    if 1e-30 < abs(share) < 1e30:  # no overflow or underflow in any precision
        return x * share
    unit = x / length
    return unit * wanted


def max_abs(x: Array) -> float:
    """The largest |x_i|; 0 for an empty vector."""
    xp = namespace(x)
    return float(xp.max(xp.abs(x))) if x.shape[0] else 0.0


def all_finite(x: Array) -> bool:
    """Are all entries finite? Usually one pass is enough, because a finite sum has finite terms."""
    xp = namespace(x)
    with quiet():
        total = float(xp.sum(x))
    return math.isfinite(total) or bool(xp.all(xp.isfinite(x)))


def quiet() -> contextlib.AbstractContextManager[object]:
    """Silence NumPy's warnings about overflow and NaN, for code that checks the outcome itself."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def mix(p: T, q: T, weight: float) -> T:
    """(1 - weight) p + weight q for arrays and tuples of arrays; None stays None.

    The error is at most a few machine epsilons times |1 - weight| |p| + |weight| |q|, however many
    entries p has.
    """
    if p is None:
        return None  # type: ignore[return-value]
    if weight > 0.5:  # starting from the nearer point keeps rounding errors small
        p, q, weight = q, p, 1.0 - weight
    # Work in place, with one new array, because every step mixes points about ten times.
    if type(p) is np.ndarray and type(q) is np.ndarray:
        mixed = q - p  # type: ignore[operator]
        mixed *= weight
        mixed += p
        return mixed  # type: ignore[no-any-return]
    if isinstance(p, tuple):
        parts = [mix(a, b, weight) for a, b in zip(p, q, strict=True)]  # type: ignore[call-overload]
        return type(p)(*parts) if hasattr(p, "_fields") else type(p)(parts)
    for image in (p, q):
        if hasattr(image, "mixed"):  # a `DeferredImage`, which mixes itself
            return image.mixed(p, q, weight)  # type: ignore[no-any-return]
    return _interpolated(p, q, weight)  # type: ignore[no-any-return]


def _interpolated(p: Array, q: Array, weight: float) -> Array:
    """p + weight (q - p) in one call, because on a device calls cost more than arithmetic does."""
    if hasattr(p, "lerp"):  # PyTorch
        return p.lerp(q, weight)
    if array_api_compat.is_cupy_array(p):
        return _cupy_kernel("mix", "p + weight * (q - p)")(p, q, weight)
    return p + weight * (q - p)


def plus(x: Array, y: Array, factor: float, out: Array | None = None) -> Array:
    """x + factor y; NumPy writes the result into ``out``, if given."""
    if type(x) is np.ndarray:
        total = np.multiply(y, factor, out=out)  # later steps work in place
        total += x
        return total
    if array_api_compat.is_torch_array(x):
        return x.add(y, alpha=factor)
    if array_api_compat.is_cupy_array(x):
        return _cupy_kernel("plus", "p + weight * q")(x, y, factor)
    return x + factor * y


@lru_cache
def _cupy_kernel(name: str, formula: str) -> Callable[[Any, Any, float], Any]:
    """A CuPy kernel for ``formula``, a function of vectors p and q and a number ``weight``."""
    kernel: Callable[[Any, Any, float], Any] = import_module("cupy").ElementwiseKernel(
        "T p, T q, T weight", "T result", f"result = {formula}", f"tiebreak_{name}"
    )
    return kernel
