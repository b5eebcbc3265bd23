"""The rows and the linear term of a level, and the recession cone of Z."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from tiebreak.functions import Function, Penalty, split, summands
from tiebreak.functions.far_slopes import LossRows
from tiebreak.linalg import EPS, Host, rounding_unit
from tiebreak.linalg.host import norm
from tiebreak.linalg.host_rows import HostRows
from tiebreak.sets import RecessionDirections
from tiebreak.sets.descriptions import stacked


class RecessionCone:
    """The directions of Z: {d : low <= d <= high, rows d <= 0, |A d| <= <c, d>}.

    Every entry of ``low`` and ``high`` is 0 or infinite.
    """

    low: Host
    high: Host
    curves: list[tuple[HostRows, HostRows]]  # A and c of every second-order cone

    def __init__(self, known: Sequence[RecessionDirections], n: int) -> None:
        self.low, self.high = np.full(n, -math.inf), np.full(n, math.inf)
        for some in known:
            self.low, self.high = np.maximum(self.low, some.low), np.minimum(self.high, some.high)
        self.rows: HostRows = HostRows(stacked([rows for some in known for rows in some.rows], n))
        self.curves = [(HostRows(A), HostRows(c[None])) for some in known for A, c in some.curves]
        self._project = known[0].project if len(known) == 1 else None

    @property
    def is_space(self) -> bool:
        """Is the cone R^n, without bounds, rows or second-order cones?"""
        is_free = np.isinf(self.low).all() and np.isinf(self.high).all()
        return bool(is_free) and not (self.rows.shape[0] or self.curves)

    def within(self, rows: HostRows) -> RecessionCone:
        """The part of this cone in which rows d <= 0."""
        found = copy(self)
        found.rows = HostRows(stacked([self.rows.entries, rows.entries], len(self.low)))
        return found

    def is_inside_curves(self, d: Host, reach: float) -> bool:
        """Is every point within ``reach`` of d certainly a direction of the second-order cones?"""
        return all(_is_inside_curve(*curve, d, reach) for curve in self.curves)

    def nearest(self, d: Host) -> Host:
        """The projection of d, or d with entries of a forbidden sign set to 0."""
        return np.clip(d, self.low, self.high) if self._project is None else self._project(d)


def _is_inside_curve(rows: HostRows, c: HostRows, d: Host, reach: float) -> bool:
    """Is |rows d| <= <c, d> at every point within ``reach`` of d, rounding errors included?"""
    image, most = rows.along(d), c.along(d)
    lost = float(most.error[0]) + norm(image.error)
    lost += reach * (float(c.sizes[0]) + norm(rows.sizes))
    if lost > 0.0:
        length = norm(image.product) * (1.0 + rounding_unit(EPS, len(image.product)))
        return length <= float(most.product[0]) - lost
    right = int(most.product[0])  # all products are whole numbers
    return right >= 0 and sum(int(product) ** 2 for product in image.product) <= right**2


class LinearTerm(NamedTuple):
    """c, the sum of all linear terms."""

    c: Host
    sizes: Host | float = 0.0  # the sum of the terms' absolute values; the terms may cancel in c
    is_exact: bool = True  # is c free of rounding?

    def plus(self, weight: float, c: Host) -> LinearTerm:
        """The sum of this linear term and ``weight`` c."""
        more, is_exact = weight * c, not np.any(self.sizes) and is_power_of_two(weight)
        return LinearTerm(self.c + more, self.sizes + abs(more), is_exact) if c.any() else self

    def size_along(self, d: Host) -> float:
        """The sum of the absolute values of all terms of <c, d>."""
        return float(np.sum(self.sizes * np.abs(d)))

    @property
    def size(self) -> float:
        """A bound on the size of the linear term per unit length."""
        return norm(self.sizes + np.zeros(len(self.c)))


class RecessionLevel(NamedTuple):
    """The parts of a level that matter for directions, and the directions of Z."""

    cone: RecessionCone
    fixed: list[HostRows]  # rows whose products with d must be 0
    losses: list[LossRows]  # losses that decrease, or grow, along their rows
    linear: LinearTerm
    # If the rows of the losses are not available: does every loss decrease along a direction?
    hidden: list[Callable[[Host], bool]]

    @classmethod
    def of(cls, h: Function | Penalty, cone: RecessionCone) -> RecessionLevel | None:
        """The level whose objective is h; None if h does not describe its parts."""
        n = len(cone.low)
        found = cls(cone, [], [], LinearTerm(np.zeros(n)), [])
        smooth, penalty = split(h if isinstance(h, Penalty) else h.bare)
        parts = [(weight, part.far_rows(weight, n)) for weight, part in summands(smooth)]
        for weight, far in [(1.0, penalty.far_rows(n)), *parts]:
            if far is None:
                return None
            found.fixed.extend(far.fixed)
            found.losses.extend(far.losses)
            found.hidden.extend([] if far.hidden is None else [far.hidden])
            if far.linear is not None:
                found = found._replace(linear=found.linear.plus(weight, far.linear))
        return found

    @property
    def all_rows(self) -> list[HostRows]:
        """The rows of all squares and losses."""
        return [*self.fixed, *(loss.rows for loss in self.losses)]

    @property
    def side(self) -> int:
        """The smaller dimension of the level's matrix."""
        return min(len(self.linear.c), sum(rows.shape[0] for rows in self.all_rows))

    @property
    def has_tails(self) -> bool:
        """Is there a loss that may decrease forever and stay above its infimum?

        Without such a loss, a level on a polyhedron is piecewise linear and quadratic, or a norm:
        if it is bounded below, it has a minimum (Frank and Wolfe).
        """
        return any(loss.tail for loss in self.losses) or bool(self.hidden)

    @property
    def can_fall(self) -> bool:
        """Does the level have parts other than squares and norms?"""
        return self.has_tails or self.linear.size > 0.0

    def single_variables(self) -> list[Host]:
        """Directions that change one variable, as for a category whose examples share one label."""
        n, c = len(self.linear.c), self.linear.c
        if self.hidden or not self.has_tails:
            return []
        up, down, moves = self.cone.high > 0.0, self.cone.low < 0.0, np.zeros(n, dtype=bool)
        for rows in self.fixed:
            least, most = rows.column_range()
            is_empty = (least == most) & (most == 0.0)
            up, down = up & is_empty, down & is_empty
        for loss in self.losses:
            least, most = loss.rows.column_range()
            up, down = up & (least >= 0.0), down & (most <= 0.0)
            moves |= bool(loss.tail) & ((least < most) | (least != 0.0))
        up, down = up & moves & (c <= 0.0), down & moves & (c >= 0.0)
        j = int(np.argmax(up | down))
        d = np.zeros(n)
        d[j] = 1.0 if up[j] else -1.0
        return [d] if up[j] or down[j] else []

    def after(self, before: Sequence[RecessionLevel]) -> RecessionLevel | None:
        """The level restricted to the minimisers of the levels ``before``; None if unknown.

        These minimisers are { x in Z : level_j(x) <= v_j }. The directions of this set are those of
        Z along which no level_j has a positive slope far out, with or without slack. Losses with a
        tail are constant on the set of minimisers, and so are terms that a linear term might
        outweigh.
        """
        fixed, cone = [*self.fixed], self.cone
        for level in before:
            if level.hidden or not level.linear.is_exact:
                return None
            fixed += level.fixed
            for loss in level.losses:
                if loss.tail or (level.linear.size and not loss.is_steep):
                    fixed.append(loss.rows)
                else:
                    cone = cone.within(HostRows(-loss.rows.entries))
            fixed += [HostRows(level.linear.c[None])] if level.linear.size else []
        return self._replace(fixed=fixed, cone=cone)


def is_power_of_two(weight: float) -> bool:
    """Is multiplication by this factor free of rounding?"""
    return math.frexp(weight)[0] == 0.5
