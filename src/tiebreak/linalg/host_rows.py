"""Rows on the host, dense or sparse, and their products with a direction, with error bounds."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiebreak.linalg.arrays import Host
from tiebreak.linalg.conic_form import row_lengths, row_numbers, scaled_rows
from tiebreak.linalg.host import binary_digits
from tiebreak.linalg.matrices.base import Matrix
from tiebreak.linalg.sizes import DENSE_LIMIT
from tiebreak.linalg.spectra import EPS


class HostRows:
    """Rows on the host, dense or sparse."""

    def __init__(self, entries: Any) -> None:
        self.entries, self._is_dense = entries, isinstance(entries, np.ndarray)
        self.shape: tuple[int, int] = (int(entries.shape[0]), int(entries.shape[1]))

    @classmethod
    def of(cls, matrix: Matrix) -> HostRows | None:
        """The rows of a matrix; None if they are not in memory or have too many entries."""
        return cls(matrix.on_host()) if cls.can_hold(matrix) else None

    @staticmethod
    def can_hold(matrix: Matrix, times: int = 1) -> bool:
        """Are the entries in memory, and few enough to be stored ``times`` times?"""
        return matrix.is_at_hand and times * matrix.size <= DENSE_LIMIT

    def scaled(self, factors: Host) -> HostRows:
        """The rows, each multiplied by its factor."""
        return HostRows(scaled_rows(self.entries, factors))

    @property
    def stored(self) -> int:
        """The number of stored entries."""
        return math.prod(self.shape) if self._is_dense else int(self.entries.nnz)

    @cached_property
    def _is_whole(self) -> bool:
        """Are all entries whole numbers?"""
        stored = self.entries if self._is_dense else self.entries.data
        return bool(np.all(stored == np.floor(stored)))

    @cached_property
    def sizes(self) -> Host:
        """The Euclidean norm of every row, rounded up."""
        return row_lengths(self.entries) * (1.0 + (self.shape[1] + 4) * EPS)

    def along(self, d: Host) -> RowProducts:
        """The products of the rows with d, and bounds on their rounding errors."""
        product, size = self.entries @ d, abs(self.entries) @ np.abs(d)
        if self._is_whole and not np.any(d != np.floor(d)) and np.max(size, initial=0.0) < 2.0**53:
            return RowProducts(self, product, np.zeros(len(product)))
        # The bound is 0 for a row whose terms are all 0.
        return RowProducts(self, product, (self.shape[1] + 4) * EPS * size)

    def only(self, which: Host, sign: float = 1.0) -> HostRows:
        """The chosen rows, multiplied by ``sign``."""
        return HostRows(sign * self.entries[np.flatnonzero(which)])

    def some(self, which: Host) -> Host:
        """The chosen rows as a dense matrix."""
        rows = self.entries[np.flatnonzero(which)]
        return np.asarray(rows if self._is_dense else rows.toarray())

    def column_range(self) -> tuple[Host, Host]:
        """The least and the largest entry of every column."""
        if not self.shape[0]:
            return np.zeros(self.shape[1]), np.zeros(self.shape[1])
        least, most = self.entries.min(axis=0), self.entries.max(axis=0)
        if not self._is_dense:
            least, most = least.todense(), most.todense()
        return np.asarray(least).reshape(-1), np.asarray(most).reshape(-1)

    def gram(self, weights: Host | None = None) -> Host:
        """The sum of weight_i m_i m_i'."""
        A = self.entries
        product = A.T @ (A if weights is None else scaled_rows(A, weights))
        return np.asarray(product if self._is_dense else product.toarray())


class RowProducts(NamedTuple):
    """Rows times a direction d: the products, and bounds on their errors."""

    rows: HostRows
    product: Host
    error: Host

    @property
    def is_open(self) -> Host:
        """A mask of the products that are not known to be exactly 0."""
        return np.asarray((self.product != 0.0) | (self.error > 0.0))

    @property
    def is_near(self) -> Host:
        """A mask of the products that are too close to 0 for their signs to be known."""
        return np.asarray((self.error > 0.0) & (np.abs(self.product) <= self.error))

    def signs(self, reach: float) -> Host | None:
        """The products' signs, 0 if `is_near`; None if moving d by ``reach`` may change another."""
        near, lost = self.is_near, self.error + reach * self.rows.sizes
        if np.any(~near & (self.product != 0.0) & (np.abs(self.product) <= lost)):
            return None
        return np.where(near, 0.0, np.sign(self.product))


def exact_products(rows: Any, x: Host) -> Host | None:
    """rows @ x, for rows in CSR form; None if this product may contain rounding errors.

    A product is exact if its factors have few digits and it does not underflow. A sum is exact, in
    any order, if all its terms are multiples of a power of two and their sizes add up to less than
    2^53 times that power.
    """
    return exact_sums(rows.data, x[rows.indices], row_numbers(rows), rows.shape[0])


def exact_sums(values: Host, factors: Host, group: Host, count: int) -> Host | None:
    """The sums of values * factors in each group; None if they may contain rounding errors."""
    some = (values != 0.0) & (factors != 0.0)
    values, factors, group = values[some], factors[some], group[some]
    (first, one), (second, other) = binary_digits(values), binary_digits(factors)
    unit = int(np.min(first - one + second - other, initial=0))
    if unit < -1074 or np.any(one + other > 53):
        return None
    terms = values * factors
    if not np.all(np.bincount(group, np.abs(terms), count) < np.ldexp(1.0, 52 + unit)):
        return None
    return np.bincount(group, terms, count)


def rounded_sums(values: Host, factors: Host, group: Host, count: int) -> tuple[Host, Host]:
    """The sums of values * factors in each group, each rounded once, and how far they are off.

    An error is 0 if a sum is exact, and infinite if its terms overflow.
    """
    (a, i), (b, j) = np.frexp(values), np.frexp(factors)
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    rest = a2 * b2 - (((a * b - a1 * b1) - a2 * b1) - a1 * b2)  # of a * b, exactly (Dekker 1971)
    with np.errstate(over="ignore"):
        terms = np.ldexp(np.array([a * b, rest]), i + j)
        sums, sizes = (np.bincount(group, some, count) for some in (terms[0], np.abs(terms[0])))
    errors = np.where(np.isfinite(sizes), 0.0, np.inf)
    ends = np.cumsum(np.bincount(group, minlength=count))
    is_alone = np.diff(ends, prepend=0) == 1
    terms = terms[:, np.argsort(group, kind="stable")]
    for k in np.setdiff1d(group[~is_alone[group] | (rest != 0.0)], np.flatnonzero(errors)):
        own = terms[:, ends[k - 1] if k else 0 : ends[k]].ravel().tolist()
        sums[k] = total = math.fsum(own)
        off = abs(math.fsum([*own, -total]))
        errors[k] = math.nextafter(off, math.inf) if off else 0.0
    # A product below 2^-960 and its rest may each lose half of the least positive number.
    lost = np.where((a * b != 0.0) & (i + j < -960), math.ulp(0.0), 0.0)
    return sums, errors + np.bincount(group, lost, count)


def _halves(mantissas: Host) -> tuple[Host, Host]:
    """Two numbers of at most 26 digits that add up to each mantissa (Veltkamp's splitting)."""
    shifted = (2.0**27 + 1.0) * mantissas
    high = shifted - (shifted - mantissas)
    return high, mantissas - high
