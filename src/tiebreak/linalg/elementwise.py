"""Elementwise operations that reuse memory if the library can, and scaling by powers of two."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array, like, namespace


def into(out: Array | None, name: str, *operands: Any) -> Array:
    """The result of the elementwise function ``name``, in ``out`` if the library allows it.

    For long vectors, allocating memory costs more than the arithmetic.
    """
    first = operands[0]
    if type(first) is np.ndarray:
        return getattr(np, name)(*operands, out=out)
    function = getattr(namespace(first), name)
    return function(*(like(o, first) if isinstance(o, float) else o for o in operands))


def masked(out: Array | None, x: Array, mask: Array) -> Array:
    """A copy of x, with 0 where the mask is false."""
    numpy = type(x) is np.ndarray
    return into(out, "multiply", x, mask if numpy else namespace(x).astype(mask, x.dtype))


def moved(x: Array, mu: float, c: Array, out: Array | None = None) -> Array:
    """x - mu c."""
    return arrays.plus(x, c, -mu, out)


def smallest_normal(x: Array) -> float:
    """The smallest positive normal number of the dtype of ``x``; smaller numbers lose digits."""
    if arrays.epsilon(x) == sys.float_info.epsilon:
        return sys.float_info.min
    return float(namespace(x).finfo(x.dtype).smallest_normal)


def negligible(x: Array) -> float:
    """In a vector of norm 1, entries below this count as 0: dividing by them may overflow."""
    return smallest_normal(x) * 2.0**23


def ldexp(value: float, exponent: int) -> float:
    """value times 2^exponent; if that overflows, the largest finite number of the same sign."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(sys.float_info.max, value)


def shrunk(length: float, exponent: int) -> float:
    """length times 2^exponent, but never rounded to 0."""
    return max(length * 2.0**exponent, sys.float_info.min)
