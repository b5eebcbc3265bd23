"""NumPy float64 on the host: conversion, norms, and products with twice the precision.

Products with twice the precision make solutions of ill-conditioned systems as accurate as their
data allow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Host

FEW_TERMS = 512  # up to this many terms, Python's sum is faster than NumPy's
CAREFUL = 2**21  # entries; larger matrices are multiplied in plain float64


def host(x: Any) -> Host:
    """``x``, an array of any library or a number, as NumPy float64."""
    return np.asarray(arrays.to_numpy(x), dtype=np.float64)


def norm(x: Host) -> float:
    """The Euclidean (Frobenius) norm, safe against overflow."""
    return arrays.norm(x.reshape(-1))


class Sliced:
    """A matrix with products of twice the precision, from plain products (Ozaki et al. 2012).

    Matrix and vector are split into slices: slice i contains integer multiples of 2^(-i bits) that
    are below 2^((1-i) bits) in size. With n 2^(2 bits) <= 2^53, no product of two slices is
    rounded, whatever the order of summation. The remainder after three slices is below 2^(-3 bits),
    so its rounding errors are smaller than those of arithmetic with twice the precision. Very large
    matrices are multiplied in plain float64.
    """

    def __init__(self, A: Host) -> None:
        self.shape: tuple[int, ...] = A.shape
        self.exponent: int = top_exponent(A)
        self.is_plain: bool = A.size > CAREFUL  # is the matrix too large to be sliced?
        bits = (53 - max(*A.shape, 1).bit_length()) // 2
        self._shifts = 1.5 * np.array([[[2.0 ** (52 - i * bits)]] for i in (1, 2, 3)])
        # In units of 2^exponent, entries are at most 1 in size, so nothing overflows.
        self._slices = (
            A[None] if self.is_plain else _slices(np.ldexp(A, -self.exponent), self._shifts)
        )

    def terms(self, x: Host, transposed: bool = False) -> tuple[Host, int]:
        """Terms that add up, along the last axis, to A x (or A'x) in units of 2^exponent."""
        slices = self._slices.transpose(0, 2, 1) if transposed else self._slices
        if self.is_plain:
            return (slices[0] @ x)[..., None], 0
        top, columns, (count, rows, _) = top_exponent(x), math.prod(x.shape[1:]), slices.shape
        parts = _slices(np.ldexp(x, -top).reshape(len(x), columns), self._shifts)
        products = slices @ parts.transpose(1, 0, 2).reshape(len(x), len(parts) * columns)
        by_slices = products.reshape(count, rows, len(parts), columns).transpose(1, 3, 0, 2)
        return by_slices.reshape(rows, *x.shape[1:], count * len(parts)), self.exponent + top

    def times(self, x: Host, b: Host | None = None, transposed: bool = False) -> Host:
        """A x - b (or A'x - b), rounded once; x may have several columns if there is no b."""
        subtracted = [] if b is None else [(-b[:, None], 0)]
        return total([self.terms(x, transposed), *subtracted])


def total(parts: list[tuple[Host, int]]) -> Host:
    """The sum of all terms along their last axis; a part (terms, k) is in units of 2^k."""
    sizes = [(float(np.abs(terms).max(initial=0.0)), exponent) for terms, exponent in parts]
    top = max((math.frexp(size)[1] + exponent for size, exponent in sizes if size), default=0)
    scaled = [np.ldexp(terms, exponent - top) for terms, exponent in parts]
    return np.ldexp(_sums(np.concatenate(scaled, axis=-1)), top)


def top_exponent(x: Host) -> int:
    """The smallest k for which 2^k exceeds every |entry|; 0 if all entries are 0."""
    return math.frexp(float(np.abs(x).max(initial=0.0)))[1]


def power_of_two(sizes: Host, power: float) -> Host:
    """The powers of two closest to sizes^power; 1 where the size is 0."""
    with np.errstate(divide="ignore"):
        exponents = np.round(power * np.log2(sizes))
    return finite_power(np.where(np.isfinite(exponents), exponents, 0.0))


def finite_power(exponents: Host) -> Host:
    """2^exponents, at most 2^1023: units of subnormal numbers would overflow."""
    return np.asarray(np.exp2(np.minimum(exponents, 1023.0)))


def binary_digits(values: Host) -> tuple[Host, Host]:
    """For each value: the k with 2^(k-1) <= |value| < 2^k, and how many binary digits it has."""
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    _, last = np.frexp((whole & -whole).astype(float))  # the last digit stands for 2^(last - 1)
    return exponent, np.where(whole == 0, 0, 54 - last)


def _slices(A: Host, shifts: Host) -> Host:
    """A, with entries of size up to 1, as a sum of slices; slice i has multiples of 2^(-i bits).

    Adding and subtracting the i-th of the ``shifts`` rounds to such multiples. The last slices are
    left out if they are 0.
    """
    rounded = (A + shifts) - shifts
    slices = np.concatenate([rounded, A[None]])
    slices[1:] -= rounded
    while len(slices) > 1 and not slices[-1].any():
        slices = slices[:-1]
    return slices


def _sums(terms: Host) -> Host:
    """The sums along the last axis, by pairwise addition that keeps track of rounding errors.

    The sums use Knuth's two-sum: except for a final rounding, the error of n terms is (n EPS)²,
    relative to the sum of their sizes.
    """
    # `math.fsum` needs few calls and rounds only once.
    if terms.size <= FEW_TERMS and np.isfinite(terms).all():
        rows = terms.reshape(-1, terms.shape[-1]).tolist()
        return np.array([math.fsum(row) for row in rows]).reshape(terms.shape[:-1])
    errors = np.zeros(terms.shape[:-1])
    each: Host = np.ascontiguousarray(np.moveaxis(terms, -1, 0))  # sums along short rows are slow
    while len(each) > 1:
        half = len(each) // 2
        a, b, left = each[:half], each[half : 2 * half], each[2 * half :]
        added = a + b
        of_b = added - a
        errors = errors + np.sum((a - (added - of_b)) + (b - of_b), axis=0)
        each = np.concatenate([added, left])
    return np.asarray(each[0] + errors)


def ldexp_or_inf(x: float, exponent: int) -> float:
    """x times 2^exponent; inf, without a warning, if the product overflows."""
    with arrays.quiet():
        return float(np.ldexp(x, exponent))
