"""A level as its rows and linear term, the cone of the directions of Z, and products with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from tiebreak.functions.base import Function
from tiebreak.functions.far_slopes import LossRows, both_signs
from tiebreak.functions.penalties.composite import split
from tiebreak.functions.penalties.operator_terms import OperatorTerms, differences
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.functions.penalties.terms import Terms
from tiebreak.functions.sums import summands
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.host_rows import HostRows
from tiebreak.sets.boxes import Box, Orthant
from tiebreak.sets.constraints import Intersection, Polyhedron, SecondOrderCone
from tiebreak.sets.domains import Domain, Halfspace, Space
from tiebreak.sets.monotone import Monotone


class RecessionCone:
    """The directions of Z: {d : low <= d <= high, rows d <= 0, |A d| <= <c, d>}.

    The bounds are 0 or infinite. Of sets that are not known here ``is_known`` is False.
    """

    curves: list[tuple[HostRows, HostRows]]  # A and c of every second-order cone

    def __init__(self, domain: Domain, n: int) -> None:
        self.low, self.high = np.full(n, -math.inf), np.full(n, math.inf)
        self.curves, self.is_known = [], True
        linear: list[Any] = []
        parts = domain.sets if isinstance(domain, Intersection) else (domain,)
        for part in parts:
            if isinstance(part, Box) and type(part) in (Box, Orthant):
                low, high = (np.broadcast_to(host(b), n) for b in (part.lower, part.upper))
                self.low = np.where(np.isfinite(low), 0.0, self.low)
                self.high = np.where(np.isfinite(high), 0.0, self.high)
            elif type(part) is Halfspace:
                linear.append(host(part.normal)[None])
            elif type(part) is Monotone:
                linear.append(-differences(n))
            elif type(part) is Polyhedron:
                linear += [part.A, part.A_eq, -part.A_eq]
            elif type(part) is SecondOrderCone:
                if part.c.any():
                    self.curves.append((HostRows(part.A), HostRows(part.c[None])))
                else:
                    linear += [part.A, -part.A]
            else:
                self.is_known = self.is_known and type(part) is Space
        self.rows = _all_of(linear, n)
        self._is_monotone = type(domain) is Monotone
        self.is_space: bool = type(domain) is Space

    def within(self, rows: HostRows) -> RecessionCone:
        """Those of its directions with rows d <= 0."""
        found = copy(self)
        found.rows = _all_of([self.rows.entries, rows.entries], len(self.low))
        found.is_space = False
        return found

    def is_inside_curves(self, d: Host, reach: float) -> bool:
        """Are all within ``reach`` of d directions of the second-order cones, to rounding?"""
        is_inside = True
        for rows, c in self.curves:
            image, most = rows.along(d), c.along(d)
            room = float(most.product[0] + most.error[0]) + norm(image.error)
            is_inside = is_inside and norm(image.product) <= room - reach * float(c.sizes[0])
        return is_inside

    def nearest(self, d: Host) -> Host:
        """d with what is in the way of its signs taken away."""
        return host(Monotone().project(d)) if self._is_monotone else np.clip(d, self.low, self.high)


def _all_of(linear: list[Any], n: int) -> HostRows:
    """These rows, one below the other; sparse if one of them is."""
    if all(isinstance(rows, np.ndarray) for rows in linear):
        return HostRows(np.vstack([np.zeros((0, n)), *linear]))
    from scipy.sparse import csr_array, vstack

    return HostRows(csr_array(vstack([csr_array(rows) for rows in linear], format="csr")))


class LinearTerm(NamedTuple):
    """c, the sum of all linear terms."""

    c: Host
    size: float = 0.0  # the sum of their lengths, which may cancel in c
    is_exact: bool = True  # was nothing rounded in c?

    def plus(self, weight: float, c: Host) -> LinearTerm:
        """This and one more term."""
        more, is_exact = weight * c, self.size == 0.0 and is_power_of_two(weight)
        return LinearTerm(self.c + more, self.size + norm(more), is_exact) if c.any() else self


class RecessionLevel(NamedTuple):
    """What a level is made of, as far as directions go, and the directions of Z."""

    cone: RecessionCone
    fixed: list[HostRows]  # whose products with d must be 0
    losses: list[LossRows]  # that fall, or grow, along their rows
    linear: LinearTerm
    hidden: list[Callable[[Host], bool]]  # of losses whose rows are not at hand: do they all fall?

    @classmethod
    def of(cls, h: Function | Penalty, cone: RecessionCone) -> RecessionLevel | None:
        """h in parts; None where it is not known what it is made of."""
        found = cls(cone, [], [], LinearTerm(np.zeros(len(cone.low))), [])
        smooth, penalty = split(h if isinstance(h, Penalty) else h.bare)
        found._add_terms(penalty.terms)
        for weight, part in summands(smooth):
            far = part.far_rows(weight, len(cone.low))
            if far is None:
                return None
            found.fixed.extend(far.fixed)
            found.losses.extend(far.losses)
            found.hidden.extend([] if far.hidden is None else [far.hidden])
            if far.linear is not None:
                found = found._replace(linear=found.linear.plus(weight, far.linear))
        return found

    def _add_terms(self, terms: Terms) -> None:
        """The square of a penalty and its norms, of which |y|_2 grows no faster than |y|_1."""
        n = len(self.linear.c)
        inner = HostRows.unit(np.ones(n, dtype=bool))
        if terms.square > 0.0:
            self.fixed.append(inner)
        inner = HostRows(terms.matrix(n)) if isinstance(terms, OperatorTerms) else inner
        weights = terms.l2 + np.broadcast_to(np.asarray(terms.l1, float), inner.shape[0])
        if terms.group > 0.0 and terms.groups is not None:
            layout = terms.groups.layout(n)
            weights = weights + terms.group * layout.penalised[layout.labels]
        if (counts := weights > 0.0).any():
            self.losses.extend(both_signs(weights[counts], inner.only(counts)))

    @property
    def all_rows(self) -> list[HostRows]:
        """The rows of all squares and losses."""
        return [*self.fixed, *(loss.rows for loss in self.losses)]

    @property
    def side(self) -> int:
        """The smaller side of its matrix."""
        return min(len(self.linear.c), sum(rows.shape[0] for rows in self.all_rows))

    @property
    def has_tails(self) -> bool:
        """Is there a loss that may fall for ever and stay above its infimum?

        Without one a level on a polyhedron is piecewise linear and quadratic, or a norm: if it is
        bounded below, it has a minimum (Frank and Wolfe).
        """
        return any(loss.tail for loss in self.losses) or bool(self.hidden)

    @property
    def can_fall(self) -> bool:
        """Is there anything but squares and norms?"""
        return self.has_tails or self.linear.size > 0.0

    def single_variables(self) -> list[Host]:
        """A direction that changes one variable only, such as a category with one label."""
        n, c = len(self.linear.c), self.linear.c
        if self.hidden:
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
        """This level among the minimisers of others; None where too little is known of these.

        They are { x in Z : level_j(x) <= v_j }, which has the directions of Z along which no slope
        of a level_j far out is positive, with a slack or without. Losses with a tail do not change
        at all among minimisers, and nothing does that a linear term might outweigh.
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
    """So that multiplying by it rounds nothing?"""
    return math.frexp(weight)[0] == 0.5
