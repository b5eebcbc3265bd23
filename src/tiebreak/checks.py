"""Checks of what a user passes in: each gives the value in its right form, or one clear sentence.

Every sentence names the owner and the argument, what is needed and what was got. A wrong kind of
thing is a TypeError, a wrong value a ValueError.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiebreak import arrays, matrices
from tiebreak.arrays import Array
from tiebreak.matrices import Matrix


def number(owner: str, name: str, value: object, needed: str = "a number") -> float:
    """``value`` as a float; NaN and infinities pass."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{owner}: {name} must be {needed}, got {what_it_is(value)}")
    return float(value)


def finite(owner: str, name: str, value: object) -> float:
    """``value`` as a finite float."""
    needed = "a finite number"
    result = number(owner, name, value, needed)
    if not math.isfinite(result):
        raise ValueError(f"{owner}: {name} must be {needed}, got {value}")
    return result


def positive(owner: str, name: str, value: object) -> float:
    """``value`` as a finite float above 0."""
    needed = "a positive finite number"
    result = number(owner, name, value, needed)
    if not 0.0 < result < math.inf:
        raise ValueError(f"{owner}: {name} must be {needed}, got {value}")
    return result


def at_least(owner: str, name: str, value: object, least: float = 0.0) -> float:
    """``value`` as a finite float of at least ``least``."""
    needed = "a non-negative finite number" if least == 0.0 else f"a finite number >= {least:g}"
    result = number(owner, name, value, needed)
    if not least <= result < math.inf:
        raise ValueError(f"{owner}: {name} must be {needed}, got {value}")
    return result


def whole(owner: str, name: str, value: object, least: int = 0) -> int:
    """``value`` as a whole number of at least ``least``."""
    needed = f"a whole number >= {least}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{owner}: {name} must be {needed}, got {what_it_is(value)}")
    if value < least:
        raise ValueError(f"{owner}: {name} must be {needed}, got {value}")
    return int(value)


def flag(owner: str, name: str, value: object, *others: object) -> Any:
    """``value`` if it is True, False or one of ``others``."""
    if not (isinstance(value, bool) or any(value is other for other in others)):
        choices = " or ".join(["True", "False", *map(str, others)])
        raise TypeError(f"{owner}: {name} must be {choices}, got {value!r}")
    return value


def floating(owner: str, name: str, value: Any) -> Array:
    """``value`` as a real floating-point array; integers and nested lists become float64."""
    given = value
    if type(value).__name__ == "MaskedArray":
        raise TypeError(f"{owner}: {name} must be an array of numbers, got a masked array")
    if not arrays.is_array(value):
        try:
            value = np.asarray(value)
        except ValueError:
            raise ValueError(
                f"{owner}: {name} must be a rectangular array, got rows of different lengths"
            ) from None
        if value.dtype.kind in ("O", "S", "U"):
            strings = value.ndim > 0 and value.dtype.kind != "O"
            raise TypeError(
                f"{owner}: {name} must be an array of numbers, "
                f"got {'strings' if strings else what_it_is(given)}"
            )
    elif isinstance(value, np.ndarray):
        value = np.asarray(value)  # a subclass such as np.matrix multiplies in its own way
    xp = arrays.namespace(value)
    if getattr(value.dtype, "kind", "") in ("O", "S", "U"):
        raise TypeError(f"{owner}: {name} must hold real numbers, got dtype {value.dtype}")
    if xp.isdtype(value.dtype, ("integral", "bool")):
        value = xp.astype(value, xp.float64)
    if not arrays.is_real_floating(value):
        raise TypeError(f"{owner}: {name} must hold real numbers, got dtype {value.dtype}")
    if not str(value.dtype).endswith(("float32", "float64")):
        raise TypeError(f"{owner}: {name} must be float32 or float64, got dtype {value.dtype}")
    return value


def what_it_is(value: object) -> str:
    """What a user passed, in a word or two."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, list | tuple) and not value:
        return f"an empty {type(value).__name__}"
    if arrays.is_array(value):
        shape = tuple(value.shape)  # type: ignore[attr-defined]
        return f"an array of shape {shape}" if shape else "a single number"
    return type(value).__name__


def vector(owner: str, name: str, value: Any) -> Array:
    """``value`` as a finite real floating-point vector with at least one entry."""
    result = floating(owner, name, value)
    if result.ndim != 1 or result.shape[0] == 0:
        raise ValueError(
            f"{owner}: {name} must be a vector with at least one entry, got {what_it_is(result)}"
        )
    if not arrays.all_finite(result):
        raise ValueError(f"{owner}: {name} must be finite, got NaN or infinite entries")
    return result


def matrix(owner: str, name: str, value: Any) -> Matrix:
    """``value``, a dense array or a scipy.sparse matrix, as two products; a Matrix as it is."""
    if isinstance(value, Matrix):
        return value
    if arrays.is_sparse(value):
        value = value.tocsr()
        if not value.has_canonical_format:
            value = value.copy()
            value.sum_duplicates()  # otherwise the stored entries are not the matrix's entries
        if value.dtype.kind not in "fiub":
            raise TypeError(f"{owner}: {name} must hold real numbers, got dtype {value.dtype}")
        if value.dtype not in (np.float32, np.float64):
            value = value.astype(np.float64)
    else:
        value = floating(owner, name, value)
    if value.ndim != 2 or value.shape[1] == 0:
        raise ValueError(
            f"{owner}: {name} must be a matrix with at least one column, "
            f"got an array of shape {tuple(value.shape)}"
        )
    result = matrices.of(value)
    if not arrays.all_finite(result.stored):
        raise ValueError(f"{owner}: {name} must be finite, got NaN or infinite entries")
    return result


def length(owner: str, name: str, value: Array, needed: int, what: str) -> Array:
    """``value`` if it has ``needed`` entries, one per ``what``."""
    if value.shape[0] != needed:
        raise ValueError(
            f"{owner}: {name} must have one entry per {what} ({needed}), got {value.shape[0]}"
        )
    return value
