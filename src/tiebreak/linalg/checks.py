"""Checks of user input: each returns the value in the right form, or raises a clear error.

Every error message names the owner and the argument, and says what is needed and what was passed. A
wrong type raises a TypeError, and a wrong value a ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

import numpy as np

from tiebreak.linalg import arrays, matrices, tables
from tiebreak.linalg.arrays import Array
from tiebreak.linalg.matrices import Matrix
from tiebreak.linalg.matrices.operators import Operator, is_operator
from tiebreak.linalg.matrices.row_sources import is_source
from tiebreak.linalg.matrices.streamed import Streamed
from tiebreak.linalg.sizes import DENSE_LIMIT

# An operator is accepted if |<A x, r> - <x, A' r>| is at most this many machine epsilons times
# |A x||r| + |x||A' r|.
ADJOINT_MISMATCH = 1e4


def number(owner: str, name: str, value: object, needed: str = "a number") -> float:
    """``value`` as a float; NaN and infinities are accepted."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{owner}: {name} must be {needed}, got {what_it_is(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(
            f"{owner}: {name} must be {needed}, got a whole number that is too large"
        ) from None


def _number_where(
    is_allowed: Callable[[float], bool], owner: str, name: str, value: object, needed: str
) -> float:
    result = number(owner, name, value, needed)
    if not is_allowed(result):
        raise ValueError(f"{owner}: {name} must be {needed}, got {value}")
    return result


def finite(owner: str, name: str, value: object) -> float:
    """``value`` as a finite float."""
    return _number_where(math.isfinite, owner, name, value, "a finite number")


def positive(owner: str, name: str, value: object) -> float:
    """``value`` as a finite float above 0."""
    needed = "a positive finite number"
    return _number_where(lambda found: 0.0 < found < math.inf, owner, name, value, needed)


def at_least(owner: str, name: str, value: object, least: float = 0.0) -> float:
    """``value`` as a finite float of at least ``least``."""
    needed = "a non-negative finite number" if least == 0.0 else f"a finite number >= {least:g}"
    return _number_where(lambda found: least <= found < math.inf, owner, name, value, needed)


def whole(owner: str, name: str, value: object, least: int = 0) -> int:
    """``value`` as a whole number of at least ``least``."""
    needed = f"a whole number >= {least}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{owner}: {name} must be {needed}, got {what_it_is(value)}")
    if value < least:
        raise ValueError(f"{owner}: {name} must be {needed}, got {value}")
    return int(value)


def flag(owner: str, name: str, value: object, *others: object) -> Any:
    """Return ``value`` if it is True, False or one of ``others``."""
    if not (isinstance(value, bool) or any(value is other for other in others)):
        choices = " or ".join(["True", "False", *map(str, others)])
        raise TypeError(f"{owner}: {name} must be {choices}, got {value!r}")
    return value


def floating(owner: str, name: str, value: Any) -> Array:
    """``value`` as a real floating-point array; integers and nested lists become float64.

    Pandas tables become arrays, and non-native byte order is converted.
    """
    if type(value) is np.ndarray and value.dtype.char in "fd" and value.dtype.isnative:
        return value
    value = _array(owner, name, value)
    xp = arrays.namespace(value)
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    if xp.isdtype(value.dtype, ("integral", "bool")):
        value = xp.astype(value, xp.float64)
    if not arrays.is_real_floating(value):
        raise TypeError(f"{owner}: {name} must hold real numbers, got dtype {value.dtype}")
    if not str(value.dtype).endswith(("float32", "float64")):
        raise TypeError(f"{owner}: {name} must be float32 or float64, got dtype {value.dtype}")
    if arrays.drops_float64(value):  # the certificate needs float64 even for float32 data
        raise ValueError(
            f"{owner}: {name} must come from JAX with float64, which the certificate needs, "
            'got JAX without float64; call jax.config.update("jax_enable_x64", True)'
        )
    return value


def _array(owner: str, name: str, value: Any) -> Array:
    """``value`` as an array of a known library; anything else becomes a NumPy array."""
    if type(value).__name__ == "MaskedArray":
        raise TypeError(f"{owner}: {name} must be an array of numbers, got a masked array")
    if tables.is_frame(value) or tables.is_series(value):
        return tables.numbers(owner, name, value)
    if arrays.is_array(value):
        # Convert subclasses: np.matrix, for example, has its own multiplication.
        return np.asarray(value) if isinstance(value, np.ndarray) else value
    try:
        found = np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{owner}: {name} must be a rectangular array, got rows of different lengths"
        ) from None
    if found.dtype.kind in "OSU":  # objects or text
        is_text = found.ndim > 0 and found.dtype.kind != "O"
        got = "strings" if is_text else what_it_is(value)
        raise TypeError(f"{owner}: {name} must be an array of numbers, got {got}")
    return found


def what_it_is(value: object) -> str:
    """What the user passed, in a word or two."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, list | tuple) and not value:
        return f"an empty {type(value).__name__}"
    if isinstance(value, FunctionType):
        return "a plain Python function"
    if arrays.is_array(value):
        shape = tuple(value.shape)  # type: ignore[attr-defined]
        return f"an array of shape {shape}" if shape else "a single number"
    return type(value).__name__


def did_you_mean(wrong: object, known: Iterable[str]) -> str:
    """The question "did you mean ...?" with the closest known name; "" if none is close."""
    from difflib import get_close_matches

    def bare(name: str) -> str:  # makes squared_norm match SquaredNorm
        return name.lower().replace("_", "").replace("-", "")

    names = {bare(name): name for name in known}
    nearest = get_close_matches(bare(wrong), names, n=1) if isinstance(wrong, str) else []
    return "".join(f" (did you mean {names[name]!r}?)" for name in nearest)


def vector(owner: str, name: str, value: Any) -> Array:
    """A copy of ``value`` as a finite real floating-point vector with at least one entry.

    A run keeps dozens of vectors of the same length, so one more hardly matters.
    """
    result = floating(owner, name, value)
    if result.ndim != 1 or result.shape[0] == 0:
        raise ValueError(
            f"{owner}: {name} must be a vector with at least one entry, got {what_it_is(result)}"
        )
    _need_finite(owner, name, result, value)
    return arrays.copied(result)


def is_sequence(value: Any) -> bool:
    """Is ``value`` meant as a vector rather than a number?"""
    return isinstance(value, list | tuple) or bool(getattr(value, "shape", ()))


def weights(owner: str, name: str, value: Any) -> Array:
    """A copy of ``value`` as a vector of non-negative weights."""
    result = vector(owner, name, value)
    found = arrays.to_numpy(result)
    if found.min() < 0.0:
        at = int(found.argmin())
        raise ValueError(f"{owner}: {name} must be non-negative, got {found[at]:g} at index {at}")
    return result


def in_one_precision(
    owner: str, first: tuple[str, Array], second: tuple[str, Array]
) -> tuple[Array, Array]:
    """Two vectors in the same precision: float64 if either of them is in float64."""
    (name, a), (other, b) = first, second
    if arrays.kind(a) != arrays.kind(b):
        if arrays.kind(a).split()[0] != arrays.kind(b).split()[0]:
            raise ValueError(
                f"{owner}: {name} and {other} must be arrays of the same library, "
                f"got {arrays.kind(a)} and {arrays.kind(b)}"
            )
        a, b = arrays.double(a), arrays.double(b)
    return a, b


def in_precision_of(prototype: Array, value: Array) -> Array | None:
    """``value`` in the library, dtype and device of ``prototype``; None if it would be rounded.

    Numbers are never rounded silently: a caller that gets None continues in float64, or rejects the
    value.
    """
    with arrays.quiet():  # float32 may be too small for the numbers
        fitted = arrays.like(value, prototype)
    if arrays.is_single(value) or not arrays.is_single(prototype):
        return fitted
    wide = arrays.to_numpy(fitted).astype(np.float64)
    return fitted if np.array_equal(wide, arrays.to_numpy(value)) else None


def with_matrix(
    owner: str, name: str, vector: Array, whose: str, matrix: Matrix
) -> tuple[Array, Matrix]:
    """The vector in the precision of the matrix; both in float64 if the vector would be rounded."""
    fitted = in_precision_of(matrix.prototype, vector)
    if fitted is not None:
        return fitted, matrix
    wide = matrix.in_float64
    if wide is None:
        raise ValueError(
            f"{owner}: {name} must hold float32 numbers like {whose}, which cannot be "
            "converted to float64; got float64 numbers that would be rounded"
        )
    return arrays.like(vector, wide.prototype), wide


def matrix(owner: str, name: str, value: Any, is_symmetric: bool = False) -> Matrix:
    """``value`` as a `Matrix`: dense, scipy.sparse, an operator, or streamed rows.

    A symmetric operator needs no adjoint: symmetry is checked instead. A matrix of up to
    DENSE_LIMIT entries is copied: a factorisation makes several copies anyway. A larger matrix
    stays in the user's memory, and `fingerprints` detects changes.
    """
    if isinstance(value, Matrix):
        return value
    if is_source(value):
        return Streamed(value)
    if is_operator(value):
        return _operator(owner, name, value, is_symmetric)
    entries = (_sparse if arrays.is_sparse(value) else _dense)(owner, name, value)
    if entries.ndim != 2 or entries.shape[1] == 0:
        raise ValueError(
            f"{owner}: {name} must be a matrix with at least one column, "
            f"got an array of shape {tuple(entries.shape)}"
        )
    result = matrices.of(entries)
    _need_finite(owner, name, result.stored, value)
    return result


def _dense(owner: str, name: str, value: Any) -> Array:
    entries = floating(owner, name, value)
    return arrays.copied(entries) if math.prod(entries.shape) <= DENSE_LIMIT else entries


def _sparse(owner: str, name: str, value: Any) -> Any:
    value = value.tocsr()
    value = value.astype(floating(owner, name, value.data).dtype, copy=False)
    if value.nnz <= DENSE_LIMIT or not value.has_canonical_format:
        value = value.copy()
        # Add up entries with the same row and column: SciPy allows several and means their sum.
        value.sum_duplicates()
    return value


def _need_finite(owner: str, name: str, entries: Array, given: Any) -> None:
    if not arrays.all_finite(entries):
        where = tables.where_not_finite(given)
        raise ValueError(f"{owner}: {name} must be finite, got NaN or infinite entries{where}")


def _operator(owner: str, name: str, value: Any, is_symmetric: bool) -> Operator:
    """An `Operator`, after checking that A x and A' r exist, are finite and match each other."""
    kind = np.dtype(getattr(value, "dtype", None) or np.float64)
    if kind.kind not in "fiub":
        raise TypeError(f"{owner}: {name} must be a real operator, got dtype {kind}")
    rows, n = value.shape
    if n == 0:
        raise ValueError(
            f"{owner}: {name} must be a matrix with at least one column, "
            f"got an operator of shape {tuple(value.shape)}"
        )
    if is_symmetric and rows != n:
        raise ValueError(f"{owner}: {name} must be square, got shape {rows} x {n}")
    try:
        result = Operator(value, is_symmetric)
        apart = result.adjoint_mismatch()
    except NotImplementedError:
        raise ValueError(
            f"{owner}: {name} must have an adjoint (rmatvec), got {type(value).__name__} without it"
        ) from None
    if math.isnan(apart):
        raise ValueError(f"{owner}: {name} must have finite products, got NaN or infinite ones")
    if apart > ADJOINT_MISMATCH:
        share = apart * arrays.epsilon(result.prototype)
        needed = "symmetric, <Qx, y> = <x, Qy>" if is_symmetric else "one with <Ax, r> = <x, A'r>"
        what = "two sides" if is_symmetric else "an adjoint (rmatvec) that does not match: sides"
        raise ValueError(f"{owner}: {name} must be {needed}, got {what} {share:.1g} apart")
    return result


def length(owner: str, name: str, value: Array, needed: int, what: str) -> Array:
    """Return ``value`` if it has ``needed`` entries; ``what`` is a noun such as "row"."""
    if value.shape[0] != needed:
        raise ValueError(
            f"{owner}: {name} must have one entry per {what} ({needed}), got {value.shape[0]}"
        )
    return value
