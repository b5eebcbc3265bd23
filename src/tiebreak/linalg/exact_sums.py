"""Products with sparse rows that are exact in floating point, as for whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.linalg.arrays import Host


def exact_products(rows: Any, x: Host) -> Host | None:
    """rows @ x (csr) if it is certainly free of rounding, otherwise None.

    A product is exact if its factors have few digits; a sum is exact, in any order, if all its
    terms are multiples of a power of two and their sizes add up to less than 2^53 times that.
    """
    if not rows.nnz:
        return np.zeros(rows.shape[0])
    values, factors = rows.data, x[rows.indices]
    (first, one), (second, other) = binary_digits(values), binary_digits(factors)
    if np.any(one + other > 53):
        return None
    unit = int(np.min(first - one + second - other))
    sizes = abs(rows) @ np.abs(x)
    if not np.all(sizes < np.ldexp(1.0, 52 + unit)):
        return None
    return np.asarray(rows @ x)


def binary_digits(values: Host) -> tuple[Host, Host]:
    """Exponents and numbers of binary digits of values that are in [½, 1) times 2^exponent."""
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    _, last = np.frexp((whole & -whole).astype(float))  # 2^(last - 1) is its last digit
    return exponent, np.where(whole == 0, 0, 54 - last)
