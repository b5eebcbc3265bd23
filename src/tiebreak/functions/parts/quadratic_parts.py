"""Parts of a function: squares, quadratic forms and linear terms, with their matrices.

All arrays are NumPy float64 on the host, for the exact solver. Losses are in `loss_parts`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from tiebreak.linalg import EPS, TOL, Host
from tiebreak.linalg.host import Sliced, norm, top_exponent
from tiebreak.linalg.spectra import semidefinite_root


@dataclass(frozen=True)
class Part(ABC):
    """weight phi(rows x)."""

    weight: float
    rows: Host
    power: ClassVar[int] = 2  # the degree of the value as a function of the rows
    in_units_of_rows: ClassVar[tuple[str, ...]] = ()  # fields with the units of the products rows x
    has_kinks: ClassVar[bool] = False  # does the slope of phi have kinks?

    @cached_property
    def sliced(self) -> Sliced:
        """The rows, split for products in twice the precision."""
        return Sliced(self.rows)

    @cached_property
    def norm(self) -> float:
        """The Frobenius norm of the rows."""
        return norm(self.rows)

    @cached_property
    def lengths(self) -> Host:
        """The Euclidean norm of every row."""
        return np.asarray(np.sqrt(np.sum(self.rows * self.rows, axis=1)))

    def some(self, which: Host) -> Self:
        """The part with only the chosen rows; all fields that are arrays have an entry per row."""
        each: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)}
        arrays = {name: value for name, value in each.items() if isinstance(value, np.ndarray)}
        chosen: dict[str, Any] = {name: value[which] for name, value in arrays.items()}
        return replace(self, **chosen)

    @abstractmethod
    def dual(self, x: Host) -> Host:
        """The gradient with respect to the products rows x."""

    @abstractmethod
    def size(self, x: Host) -> float:
        """A bound on the size of the terms of the dual before they cancel."""

    def noise(self, x: Host, dual: Host) -> float:
        """A bound, in units of 8 EPS, on the error of the dual, apart from its final rounding."""
        return 0.0

    def image_error(self, x: Host, dual: Host) -> float:
        """The largest |<e, rows d>|/|R d| over all d: e is the dual's error, R is `curvature`.

        The result ignores the rounding of R. It is inf if no bound is known.
        """
        return math.inf

    @abstractmethod
    def curvature(self, x: Host) -> Host:
        """A matrix R for which R'R is the second derivative at x."""

    def curvature_above(self, x: Host) -> Host:
        """`curvature`, or a larger one for parts whose kinks would leave too little curvature."""
        return self.curvature(x)

    def second(self, x: Host) -> Host:
        """The second derivative at x."""
        R = self.curvature(x)
        return np.asarray(R.T @ R)

    @abstractmethod
    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        """A function of ``step``: the derivative along d at x + step d."""

    @abstractmethod
    def largest_curvature(self, at: Host, reach: float) -> float:
        """A bound on the curvature within ``reach`` of ``at``, except for its own rounding."""

    @abstractmethod
    def slope_ratio(self, at: Host, off: float) -> float:
        """A bound on |<grad, d>| divided by the root of the curvature along d, for all d.

        The bound holds at all points within ``off`` of ``at``, except for its own rounding.
        """

    def curvature_rows(self, at: Host) -> Host:
        """Rows C with |C d|² <= the curvature along d."""
        return self.curvature(at)

    def curvature_diagonal(self, at: Host) -> Host:
        """The diagonal of the second derivative."""
        return np.asarray(np.sum(self.curvature(at) ** 2, axis=0))

    @property
    def exponent(self) -> int:
        """The k for which 2^k is near the magnitude of the part."""
        return top_exponent(np.array(self.weight)) + self.power * top_exponent(self.rows)

    def composed(self, M: Host) -> Part:
        """The part as a function of u with x = M u."""
        return replace(self, rows=self.rows @ M)

    def stretched(self, units: Host) -> Part:
        """The part as a function of u with x = units u, entry by entry."""
        return replace(self, rows=self.rows * units)

    def column_sizes(self) -> Host:
        """The size of each variable's column: its largest entry."""
        return np.asarray(np.max(np.abs(self.rows), axis=0, initial=0.0))

    def scaled(self, top: int) -> Part:
        """2^-top times the part, with rows whose entries are scaled to about 1."""
        e = top_exponent(self.rows)
        weight = math.ldexp(self.weight, self.power * e - top)
        others: dict[str, Any] = {
            name: np.ldexp(getattr(self, name), -e) for name in self.in_units_of_rows
        }
        return replace(self, weight=weight, rows=np.ldexp(self.rows, -e), **others)


@dataclass(frozen=True)
class LeastSquaresPart(Part):
    """weight/2 |A x - b|², or weight/2 times the sum of w_i (A x - b)_i², 0 < w_i <= 1."""

    target: Host
    w: Host | None = None
    in_units_of_rows: ClassVar[tuple[str, ...]] = ("target",)

    @cached_property
    def roots(self) -> Host:
        """The square roots of the weights of the rows."""
        return math.sqrt(self.weight) * (np.ones(len(self.rows)) if self.w is None else self.w**0.5)

    def dual(self, x: Host) -> Host:
        off = self.weight * self.sliced.times(x, self.target)
        return off if self.w is None else self.w * off

    def size(self, x: Host) -> float:
        return self.weight * (self.norm * norm(x) + norm(self.target))

    def image_error(self, x: Host, dual: Host) -> float:
        return 8.0 * EPS * norm(dual / self.roots)

    def curvature(self, x: Host) -> Host:
        return (math.sqrt(self.weight) if self.w is None else self.roots[:, None]) * self.rows

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change = self.rows @ x - self.target, self.rows @ d
        weighted = change if self.w is None else self.w * change
        return lambda step: self.weight * float(weighted @ (start + step * change))

    def largest_curvature(self, at: Host, reach: float) -> float:
        return self.weight * self.norm * self.norm

    def slope_ratio(self, at: Host, off: float) -> float:
        root = math.sqrt(self.weight)
        return self.size(at) / root + root * self.norm * off

    def column_sizes(self) -> Host:
        return np.asarray(np.max(np.abs(self.roots[:, None] * self.rows), axis=0, initial=0.0))


@dataclass(frozen=True)
class QuadraticPart(Part):
    """weight/2 x'Qx; its rows are the rows of Q, because Qx is the same at all minimisers."""

    power: ClassVar[int] = 1

    def dual(self, x: Host) -> Host:
        return self.weight * x

    def size(self, x: Host) -> float:
        return self.weight * norm(x)

    def curvature(self, x: Host) -> Host:
        roots, basis, units = semidefinite_root(self.rows, TOL.clear_units * len(self.rows) * EPS)
        return np.asarray((math.sqrt(self.weight) * roots)[:, None] * basis * units)

    def second(self, x: Host) -> Host:
        return self.weight * self.rows

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change = self.rows @ x, self.rows @ d
        return lambda step: self.weight * float(d @ (start + step * change))

    def largest_curvature(self, at: Host, reach: float) -> float:
        return self.weight * self.norm

    def slope_ratio(self, at: Host, off: float) -> float:
        return math.sqrt(self.weight) * math.sqrt(self.norm) * (norm(at) + off)

    def curvature_rows(self, at: Host) -> Host:
        """|Q d|² <= |Q| d'Qd."""
        return math.sqrt(self.weight / self.norm) * self.rows

    def curvature_diagonal(self, at: Host) -> Host:
        return np.maximum(self.weight * np.diag(self.rows), 0.0)

    def composed(self, M: Host) -> Part:
        return replace(self, rows=M.T @ (self.rows @ M))

    def stretched(self, units: Host) -> Part:
        return replace(self, rows=units[:, None] * (self.rows * units))

    def column_sizes(self) -> Host:
        """The roots of Q's diagonal, which are the norms of the columns of any R with R'R = Q."""
        return np.asarray(np.sqrt(np.abs(np.diag(self.rows))))


@dataclass(frozen=True)
class LinearPart(Part):
    """weight <c, x>, where c is the sum of the rows times their weights."""

    weights: Host = field(default_factory=lambda: np.ones(1))
    power: ClassVar[int] = 1

    @property
    def c(self) -> Host:
        """The slope."""
        return np.asarray(self.weight * (self.weights @ self.rows))

    def dual(self, x: Host) -> Host:
        return self.weight * self.weights

    def size(self, x: Host) -> float:
        return self.weight * norm(self.weights)

    def curvature(self, x: Host) -> Host:
        return self.rows[:0]

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        change = float(self.c @ d)
        return lambda step: change

    def largest_curvature(self, at: Host, reach: float) -> float:
        return 0.0

    def slope_ratio(self, at: Host, off: float) -> float:
        """0, because the bound is only for losses and squares."""
        return 0.0
