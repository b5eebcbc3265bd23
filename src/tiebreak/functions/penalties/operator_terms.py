"""Penalties on the entries of D x - center, and sums of penalties that have no joint prox."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tiebreak.functions.far_slopes import FarRows, rising
from tiebreak.functions.penalties.terms import Terms
from tiebreak.linalg import Host, Matrix, arrays, matrices, rounding_unit
from tiebreak.linalg.arrays import Array, norm
from tiebreak.linalg.conic_form import ConicForm, Cost
from tiebreak.linalg.host import host
from tiebreak.linalg.host_rows import HostRows
from tiebreak.sets import INFINITY, Space, intersection
from tiebreak.sets.descriptions import identity, stacked


@dataclasses.dataclass(frozen=True, eq=False)
class OnlyConic(Terms):
    """Terms with a conic form, but no joint prox; by default, all bounds are unknown."""

    has_operator: ClassVar[bool] = True

    def times(self, factor: float) -> Terms:
        return dataclasses.replace(self, l1=factor * self.l1)

    def least(self, slope: Array) -> tuple[float, Array | None]:
        return -INFINITY, None

    def extent(self, n: int, level: float) -> float:
        return INFINITY

    def eased(self, n: int, error: float) -> Terms | None:
        return None

    def falling(self, slope: Array) -> Array | None:
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class OperatorTerms(OnlyConic):
    """The sum of l1_i |r_i| + tilt_i r_i, where r = D x - center and |tilt_i| <= l1_i.

    D = matrix(n) for x of length n. Any convex function of r_i that is 0 at 0 and linear on both
    sides of 0 has this form: its slopes are l1 + tilt above 0 and -(l1 - tilt) below. With several
    ``stacks``, r is made of that many vectors of equal length, and l1_i multiplies the Euclidean
    length of their i-th entries.
    """

    matrix: Callable[[int], Matrix] = dataclasses.field(kw_only=True)
    tilt: Any = dataclasses.field(default=0.0, kw_only=True)
    stacks: int = dataclasses.field(default=1, kw_only=True)
    has_prox: ClassVar[bool] = False

    def times(self, factor: float) -> Terms:
        return dataclasses.replace(self, l1=factor * self.l1, tilt=factor * self.tilt)

    def residual(self, x: Array) -> Array:
        """D x - center, on the host unless D is `Differences`, which accepts any library's x."""
        D = self.matrix(int(x.shape[0]))
        is_host = type(x) is np.ndarray or not isinstance(D, matrices.Differences)
        (image,) = D.forward(host(x) if is_host else x)
        return arrays.from_center(image, self.center)

    def adjoint(self, u: Array, x: Array) -> Array:
        """D'u, like x."""
        return arrays.like(self.matrix(int(x.shape[0])).adjoint(u)[0], x)

    def slopes(self, count: int) -> tuple[Host, Host]:
        """The rates at which the penalties of ``count`` entries grow above 0 and below 0."""
        l1, tilt = np.broadcast_to(self.l1, count), np.broadcast_to(self.tilt, count)
        return l1 + tilt, l1 - tilt

    def _slopes_like(self, r: Array) -> tuple[Array, Array]:
        up, down = self.slopes(int(r.shape[0]) // self.stacks)
        return arrays.like(up, r), arrays.like(down, r)

    def lengths(self, r: Array) -> Array:
        """The Euclidean lengths of the i-th entries of all stacks."""
        xp = arrays.namespace(r)
        return xp.sqrt(xp.sum(xp.reshape(r * r, (self.stacks, -1)), axis=0))

    def value(self, x: Array) -> float:
        off = self.residual(x)
        xp, (up, down) = arrays.namespace(off), self._slopes_like(off)
        if self.stacks > 1:
            return float(xp.sum(up * self.lengths(off)))
        return float(xp.sum(xp.where(off > 0.0, up, down) * abs(off)))

    def value_error(self, x: Array) -> float:
        """The products and the center cancel, so the error grows with |D||x| + |center|."""
        D, epsilon = self.matrix(int(x.shape[0])), arrays.epsilon(x)
        rows, n = D.shape
        error = rounding_unit(epsilon, rows) * self.value(x)
        if isinstance(D, matrices.Differences):  # like x - center, each is rounded only once
            return error
        point = np.abs(host(x))
        known = abs(D.on_host()) @ point if D.is_at_hand else D.frobenius * norm(point)
        sizes = known + (0.0 if self.center is None else np.abs(self.center))
        weights = np.tile(np.maximum(*self.slopes(rows // self.stacks)), self.stacks)
        return error + rounding_unit(epsilon, n) * float(np.sum(weights * sizes))

    def dual(self, u: Array) -> Array:
        """The projection of u onto the dual set: all u with <u, r> <= value(r) for every r."""
        xp, (up, down) = arrays.namespace(u), self._slopes_like(u)
        if self.stacks == 1:
            return xp.clip(u, -down, up)
        lengths = self.lengths(u)
        share = xp.where(lengths > up, up / xp.where(lengths > 0.0, lengths, 1.0), 1.0)
        return u * xp.concat([share] * self.stacks)

    def subgradient(self, x: Array) -> Array:
        """One subgradient at x; entries at 0 contribute the mean of their two slopes."""
        off = self.residual(x)
        if self.stacks > 1:
            lengths, xp = self.lengths(off), arrays.namespace(off)
            share = self._slopes_like(off)[0] / xp.where(lengths > 0.0, lengths, 1.0)
            return self.adjoint(off * xp.concat([share] * self.stacks), x)
        (up, down), sign = self._slopes_like(off), arrays.namespace(off).sign(off)
        return self.adjoint(0.5 * (up + down) * sign + 0.5 * (up - down), x)

    def rows_above(self, n: int) -> tuple[Any, Host, Host, Host] | None:
        D = self.matrix(n)
        if self.stacks > 1 or not D.is_at_hand:
            return None
        center = np.zeros(D.shape[0]) if self.center is None else self.center
        return D.on_host(), center, *self.slopes(D.shape[0])

    def is_conic(self, n: int) -> bool:
        return self.matrix(n).is_at_hand

    def add_to_conic(self, form: ConicForm, cost: Cost) -> bool:
        off = form.of_x(self.matrix(form.n).on_host(), 0.0 if self.center is None else -self.center)
        if self.stacks > 1:
            count = len(off) // self.stacks
            for i, weight in enumerate(self.slopes(count)[0]):
                cost.add(weight, form.length(off.some(np.arange(i, len(off), count))))
            return True
        is_loss = np.ndim(self.tilt) > 0  # then both weights are computed from those of the rows
        self._add_l1(form, cost, off, is_loss)
        if np.any(self.tilt):
            cost.add(self.tilt, off, is_loss)
        return True

    def far_rows(self, n: int) -> FarRows | None:
        """With stacks, this is only a bound: lengths grow no faster than sums of absolute
        values."""
        if not self.matrix(n).is_at_hand:
            return None
        rows = HostRows(self.matrix(n).on_host())
        up, down = self.slopes(rows.shape[0] // self.stacks)
        return FarRows((), rising(np.tile(up, self.stacks), np.tile(down, self.stacks), rows))

    def steepness(self, n: int, reach: float) -> float:
        """|D's| <= |D| |s| for every s with |s_i| <= l1_i + |tilt_i|; |D|² <= |D|_1 |D|_inf."""
        D = self.matrix(n)
        square = D.spectral_square
        if D.is_at_hand and not isinstance(D, matrices.Differences):
            entries = abs(D.on_host())
            square = math.prod(float(np.max(entries.sum(axis=i), initial=0.0)) for i in (0, 1))
        weights = np.maximum(*self.slopes(D.shape[0] // self.stacks))
        return math.sqrt(square) * norm(weights) * (1.0 + 2.0**-40)


@dataclasses.dataclass(frozen=True, eq=False)
class TermsSum(OnlyConic):
    """The sum of two terms that have no joint prox, as made by `added`."""

    parts: tuple[Terms, Terms] = dataclasses.field(kw_only=True)
    has_prox: ClassVar[bool] = False

    @property
    def has_norms(self) -> bool:
        return any(part.has_norms for part in self.parts)

    def times(self, factor: float) -> Terms:
        return added(*(part.times(factor) for part in self.parts))

    def value(self, x: Array) -> float:
        return sum(part.value(x) for part in self.parts)

    def value_error(self, x: Array) -> float:
        # Values are not negative, and the last sum rounds by less than a part's own error.
        return sum(part.value_error(x) for part in self.parts)

    def subgradient(self, x: Array) -> Array:
        first, second = self.parts
        return first.subgradient(x) + second.subgradient(x)

    def is_conic(self, n: int) -> bool:
        return all(part.is_conic(n) for part in self.parts)

    def add_to_conic(self, form: ConicForm, cost: Cost) -> bool:
        return all(part.add_to_conic(form, cost) for part in self.parts)

    def far_rows(self, n: int) -> FarRows | None:
        found = [far for part in self.parts if (far := part.far_rows(n)) is not None]
        if len(found) < len(self.parts):
            return None
        fixed = [rows for far in found for rows in far.fixed]
        return FarRows(fixed, [rows for far in found for rows in far.losses])

    def rows_above(self, n: int) -> tuple[Any, Host, Host, Host] | None:
        """The rows of both terms, one of which may be an l1 norm of x and the other a loss."""
        found = [rows for part in self.parts if (rows := _entries(part, n)) is not None]
        if len(found) < len(self.parts):
            return None
        rows, *vectors = zip(*found, strict=True)
        center, up, down = map(np.concatenate, vectors)
        return stacked(rows, n), center, up, down

    def steepness(self, n: int, reach: float) -> float:
        return sum(part.steepness(n, reach) for part in self.parts)

    def extent(self, n: int, level: float) -> float:
        """The two terms are never negative, so neither of them exceeds the level."""
        return min(part.extent(n, level) for part in self.parts)


def added(first: Terms, second: Terms) -> TermsSum:
    """The sum of the two terms, for conic solvers only."""
    domain = intersection("PenaltySum", first.domain, second.domain)
    return TermsSum(square=first.square + second.square, domain=domain, parts=(first, second))


def _entries(terms: Terms, n: int) -> tuple[Any, Host, Host, Host] | None:
    """The result of `Terms.rows_above`, extended to an l1 norm of x."""
    is_more = terms.group or terms.l2 or terms.square or not isinstance(terms.domain, Space)
    if terms.has_operator or is_more:
        return terms.rows_above(n)
    weights, center = np.broadcast_to(terms.l1, n), -arrays.from_center(np.zeros(n), terms.center)
    counts = weights > 0.0
    return identity(n)[counts], center[counts], weights[counts], weights[counts]


def in_memory(D: Any) -> Callable[[int], Matrix]:
    """A matrix in memory in the form that `OperatorTerms` expects: as a function of n."""
    made = D if isinstance(D, Matrix) else matrices.of(D)
    return lambda n: made
