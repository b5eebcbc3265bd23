"""The sum of all terms that penalties consist of, and its prox.

Every penalty, and every weighted sum of two that has a joint prox in closed form, is of the form

    l1 |y|_1 + group sum_G |y_G|_2 + l2 |y|_2 + square/2 |x|_2² + (0 on Z, inf outside)

with y = x, or y = x - center with one center for all norms; l1 may differ between variables.

For y = x, the prox is a chain of these steps:

1. soft threshold by l1;
2. divide by 1 + square;
3. clip to Z if it is a box;
4. shrink each group by group/(1 + square);
5. shrink the whole vector by l2/(1 + square);
6. scale the vector down to Z if Z is a ball.

Each step preserves the subgradients of the earlier steps, because the norms are positively
homogeneous (Jenatton, Mairal, Obozinski, Bach 2011; Yu 2013). The chain requires a ball centred at
0 and, with groups or an l2 term, a box that is a cone; no other Z can be combined with a norm or a
square. With a center, the chain works on y, because square/2 |y + center|² is a square of y plus a
linear function. In that case a box can only be combined with the terms that act entry by entry (the
square and l1), and a ball cannot be combined with any term.
"""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from tiebreak.functions.far_slopes import FarRows, rising
from tiebreak.functions.penalties.groups import UNGROUPED, GroupLayout, Groups
from tiebreak.linalg import Host, arrays, into, rounding_unit
from tiebreak.linalg.arrays import Array, dot, namespace, norm, to_numpy, zeros_like
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost
from tiebreak.linalg.host_rows import HostRows
from tiebreak.sets import INFINITY, ActiveFace, Ball, Box, Domain, Space
from tiebreak.sets.descriptions import identity

L1Weight: TypeAlias = float | Host


@dataclasses.dataclass(frozen=True, eq=False)
class Terms:
    """l1 |y|_1 + group sum_G |y_G|_2 + l2 |y|_2 + square/2 |x|_2², restricted to ``domain``.

    y = x - center, or x if center is None. l1 is a number, or a vector on the host with one entry
    per variable.
    """

    l1: L1Weight = 0.0
    group: float = 0.0
    l2: float = 0.0
    square: float = 0.0
    groups: Groups | None = None
    domain: Domain = dataclasses.field(default_factory=Space)
    center: Host | None = None  # the center of the norms; the square is centred at 0
    has_operator: ClassVar[bool] = False  # is this a norm |D x - center|_1? See `operator_terms`
    is_alone: ClassVar[bool] = False  # is there no joint prox with any other penalty or set?
    has_prox: ClassVar[bool] = True  # do the terms have a prox?

    @property
    def weights(self) -> tuple[Any, float, float, float]:
        """The weights l1 (a number or a vector), group, l2 and square."""
        return self.l1, self.group, self.l2, self.square

    @property
    def norms(self) -> tuple[float, float, float]:
        """The weights of the three norms; for l1, the largest weight."""
        return largest(self.l1), self.group, self.l2

    @property
    def has_norms(self) -> bool:
        """Do the terms include a norm?"""
        return any(self.norms)

    @cached_property
    def has_weights(self) -> bool:
        """Do the terms include more than the set?"""
        return self.has_norms or self.square != 0.0

    def times(self, factor: float) -> Terms:
        """The terms with weights times ``factor``; the set stays the same, even if factor is 0."""
        return self.with_weights(*(factor * weight for weight in self.weights))

    def with_weights(self, l1: L1Weight, group: float, l2: float, square: float) -> Terms:
        """Terms with other weights, and the same groups, set and center."""
        return Terms(l1, group, l2, square, self.groups, self.domain, self.center)

    @property
    def radius(self) -> float:
        """The radius of the ball that x is restricted to; inf if there is none."""
        return self.domain.radius if isinstance(self.domain, Ball) else INFINITY

    @property
    def box(self) -> Box | None:
        """The box that x is restricted to; None if there is none."""
        return self.domain if isinstance(self.domain, Box) else None

    def value(self, x: Array) -> float:
        """The value at a point x of the domain."""
        total, y = 0.0, arrays.from_center(x, self.center)
        if not isinstance(self.l1, float) or (self.l1 > 0.0 and self.center is not None):
            total += dot(weight_like(self.l1, x) + zeros_like(x), abs(y))
        elif self.l1 > 0.0:
            total += self.l1 * float(namespace(x).sum(abs(x)))
        if self.group > 0.0:
            lengths, layout = self.lengths(y)
            total += self.group * float(layout.penalised @ lengths)
        if self.l2 > 0.0:
            total += self.l2 * norm(y)
        if self.square > 0.0:
            length = norm(x)
            total += 0.5 * (self.square * length) * length
        return total

    def value_error(self, x: Array) -> float:
        """A bound on the rounding error of the value: no terms cancel, and x - center is rounded
        only once."""
        return rounding_unit(arrays.epsilon(x), int(x.shape[0])) * self.value(x)

    def subgradient(self, x: Array) -> Array:
        """One subgradient at a point x of the domain; a norm that is 0 at x contributes 0."""
        y = arrays.from_center(x, self.center)
        found = weight_like(self.l1, x) * namespace(x).sign(y) + self.square * x
        if self.group > 0.0 or self.l2 > 0.0:
            lengths, layout = self.lengths(y)
            each = self.group * layout.penalised * _ratio(1.0, lengths)
            found = found + layout.spread(y, each + float(_ratio(self.l2, norm(y))))
        return found

    def is_conic(self, n: int) -> bool:
        """Can cones represent the terms of n variables? If so, `add_to_conic` does it."""
        return True

    def add_to_conic(self, form: ConicForm, cost: Cost) -> bool:
        """Add the terms, without the set, to an objective; False if cones cannot represent them."""
        off = form.x if self.center is None else form.x - self.center
        self._add_l1(form, cost, off)
        if self.square > 0.0:
            cost.add_squares(self.square, form.x)
        if self.l2 > 0.0:
            cost.add(self.l2, form.length(off))
        if self.group > 0.0 and self.groups is not None:
            layout = self.groups.layout(form.n)
            for group in np.flatnonzero(layout.penalised):
                members = np.flatnonzero(layout.labels == group)
                cost.add(self.group, form.length(off.some(members)))
        return True

    def _add_l1(self, form: ConicForm, cost: Cost, off: Affine, is_rounded: bool = False) -> None:
        weights = np.broadcast_to(np.asarray(self.l1, dtype=np.float64), len(off))
        if (counts := weights > 0.0).any():
            cost.add(weights[counts], form.absolute(off.some(counts)), is_rounded)

    def face_at(self, x: Array) -> tuple[ActiveFace, Array] | None:
        """The face around x on which the terms are smooth, and their slope; None if unknown."""
        return None

    def rows_above(self, n: int) -> tuple[Any, Host, Host, Host] | None:
        """D, the center, and both slopes of each entry of D x - center; None if there is no D."""
        return None

    def far_rows(self, n: int) -> FarRows | None:
        """How the terms grow far from 0, with |y|_2 replaced by |y|_1, which bounds it; None if
        unknown."""
        if not self.has_weights:
            return FarRows()
        one = HostRows(identity(n))
        weights = self.l2 + np.broadcast_to(self.l1, n) + self._group_weights(n)
        fixed = [one] if self.square > 0.0 else []
        return FarRows(fixed, rising(weights, weights, one))

    def prox(self, x: Array) -> Array:
        """The minimiser z of these terms at z plus ½|z - x|²."""
        if not self.has_weights:
            return self.domain.project(x)
        if self.center is not None:
            center = arrays.like(self.center, x)
            around = dataclasses.replace(self, center=None, domain=Space())
            return self.domain.project(center + around.prox(x - (1.0 + self.square) * center))
        u = soft(x, self.l1)
        if self.square > 0.0:
            u = u / (1.0 + self.square)
        if self.box is not None:
            u = self.box.project(u)
        if self.group == 0.0 and self.l2 == 0.0 and self.radius == INFINITY:
            return u
        lengths, layout = self.lengths(u)
        return layout.spread(u, self.shrunk(lengths, layout, 1.0 + self.square)[1])

    def least(self, slope: Array) -> tuple[float, Array | None]:
        """The minimum of <slope, x> plus the terms over all x, and a minimiser.

        The result is -inf and None if there is no minimiser. The returned value is never above the
        true minimum, because bounds on the rounding errors are subtracted; so the value is also
        -inf if a dual norm of the slope equals a weight up to rounding. (Without weights, the value
        is -support(-slope) of the set, and its rounding error is not subtracted.)
        """
        with arrays.quiet():
            if not self.has_weights:
                value = -self.domain.support(-slope)
                return value, None if value == -INFINITY else self.domain.argmin(slope)
            xp = namespace(slope)
            s = xp.astype(slope, xp.float64)
            entrywise = self.group == 0.0 and self.l2 == 0.0
            if entrywise and (self.center is not None or self.box is not None):
                value, x = self._least_by_entries(s)
            elif self.center is not None:
                value, x = self._least_around_center(s)
            else:
                value, x = self._least(soft(-s, self.l1))
            return value, None if x is None else xp.astype(x, slope.dtype)

    def _least_around_center(self, s: Array) -> tuple[float, Array | None]:
        """The result of `least` in terms of y = x - center, where the slope is s + square center.

        A rounding error e of that slope changes values by at most |e| |y| <= theta/2 |y|² +
        |e|²/(2 theta); the first term is covered by the square.
        """
        center = arrays.like(self.center, s)
        around = dataclasses.replace(self, center=None)
        unit = (8.0 + s.shape[0]) * arrays.epsilon(s)
        turned = s + self.square * center
        value, y = around.least(turned)
        if y is None:
            return -INFINITY, None
        paid = 0.0
        if self.square > 0.0:
            error = unit * (norm(s) + self.square * norm(center))
            length = norm(y)
            theta = min(error / length if length > 0.0 else INFINITY, 0.5 * self.square)
            value = around.with_weights(*self.weights[:3], self.square - theta).least(turned)[0]
            paid = error * (error / theta) if theta > 0.0 else INFINITY
        at_center = 0.5 * (self.square * norm(center)) * norm(center)
        sizes = abs(value) + dot(abs(s), abs(center)) + at_center
        value += dot(s, center) + at_center
        return value - paid - unit * sizes - _lost(s) - _lost(center), center + y

    def _least_by_entries(self, s: Array) -> tuple[float, Array | None]:
        """`least` entry by entry: every entry is pulled away from the center, within the box.

        With x = center + y, the square of x is a square of y plus a linear function. The result is
        the value at x minus a bound on its error: rounding errors of the center and of the pull
        change the value to first order and, if there is a square, to second order.
        """
        xp, has_center = namespace(s), self.center is not None
        center = arrays.like(self.center, s) if has_center else zeros_like(s)
        pull = soft(-(s + self.square * center), self.l1)
        x = center
        if self.square > 0.0:
            x = center + pull / self.square
        elif arrays.max_abs(pull) > 0.0:
            box = (-INFINITY, INFINITY) if self.box is None else self.box.bounds_like(s)
            low, high = (zeros_like(s) + b for b in box)
            x = xp.where(pull > 0.0, high, xp.where(pull < 0.0, low, center))
        if not arrays.all_finite(x):
            return -INFINITY, None
        x = self.domain.project(x)
        unit, reach = (8.0 + s.shape[0]) * arrays.epsilon(s), abs(x) + abs(center)
        size = dot(abs(s) + (weight_like(self.l1, s) if has_center else 0.0), reach) + self.value(x)
        size += unit * self.square * dot(reach, reach) if has_center else 0.0
        return dot(s, x) + self.value(x) - unit * size - _lost(s), x

    def _least(self, pull: Array) -> tuple[float, Array | None]:
        """The minimum over t of square/2 t² - left t; ``left`` is |pull|, shrunk by the norms."""
        if self.box is not None:
            pull = self.box.project(pull)
        lengths, layout = self.lengths(pull)
        unit = (8.0 + pull.shape[0]) * arrays.epsilon(pull)
        signs = namespace(pull).sign(pull)
        lost = np.where(layout.dots(signs, signs) > 0.0, 2.0**-500 * arrays.max_abs(pull), 0.0)
        at_most = (lengths + lost) * (1.0 + unit)
        left = max(norm(self.kept(at_most, layout)) * (1.0 + unit) - self.l2, 0.0)
        reach = self._reach(left)
        if reach == INFINITY:
            return -INFINITY, None
        value = -reach * (left - 0.5 * self.square * reach)
        value = 0.0 if left == 0.0 else value * (1.0 + unit) - _lost(pull)
        kept = self.kept(lengths, layout)
        total = norm(kept)
        reach = self._reach(max(total - self.l2, 0.0))
        return value, layout.spread(pull, _ratio(kept, lengths) * _ratio(reach, total))

    def _reach(self, left: float) -> float:
        """The norm t >= 0 that minimises square/2 t² - left t within the ball."""
        if left == 0.0:
            return 0.0
        return min(left / self.square if self.square > 0.0 else INFINITY, self.radius)

    def steepness(self, n: int, reach: float) -> float:
        """A bound on the norm of all subgradients at points of R^n with |x| <= reach."""
        groups = float(np.sum(self.layout(n).penalised)) if self.group > 0.0 else 0.0
        entries = self.l1 * math.sqrt(n) if isinstance(self.l1, float) else norm(self.l1)
        norms = entries + self.group * math.sqrt(groups) + self.l2
        return norms + (self.square * reach if self.square > 0.0 else 0.0)

    def extent(self, n: int, level: float) -> float:
        """A bound on |x| for all x in R^n with a value of at most ``level``; inf if there is none.

        If a_i is the l1 weight of variable i, and b_i is the weight of its group, the bound uses
        sum a_i |x_i| + group sum_G |x_G| >= |a x| + |b x| >= min (a_i + b_i) |x|, entry by entry.
        """
        away = 0.0 if self.center is None else norm(self.center) * (1.0 + 2.0**-48)
        square = self.square if self.center is None else 0.0  # the square is centred at 0
        steep = float(np.min(self.l1 + self._group_weights(n))) + self.l2
        root = math.hypot(steep, math.sqrt(2.0 * square) * math.sqrt(max(level, 0.0)))
        if not steep + root > 0.0:
            return INFINITY
        return 2.0 * level / (steep + root) * (1.0 + 2.0**-48) + away

    def eased(self, n: int, error: float) -> Terms | None:
        """Terms with values lower than these by at least error |x|; None if no norm allows this.

        With a center, the value is lower by at least error |x - center|.
        """
        l1, group, l2, square = self.weights
        if l2 >= error:
            l2 = (l2 - error) * (1.0 - 2.0**-52)
        elif np.min(l1) >= error:
            l1 = (l1 - error) * (1.0 - 2.0**-52)
        elif group >= error and np.all(self._group_weights(n) > 0.0):
            group = (group - error) * (1.0 - 2.0**-52)
        else:
            return None
        return self.with_weights(l1, group, l2, square)

    def falling(self, slope: Array) -> Array | None:
        """The direction within the set along which <slope, x> plus the norms decreases fastest.

        Only directions that never leave the set are allowed. Directions along which the sum is
        constant up to rounding are allowed too. The result is None if no direction is allowed.
        """
        nearly = self.times(1.0 - 2.0**-32)
        pull = soft(-slope, nearly.l1)
        if self.box is not None:
            lower, upper = self.box.bounds_like(slope)
            unbounded = ((pull > 0) & (upper == INFINITY)) | ((pull < 0) & (lower == -INFINITY))
            pull = namespace(slope).where(unbounded, pull, zeros_like(pull))
        lengths, layout = nearly.lengths(pull)
        kept = nearly.kept(lengths, layout)
        total = norm(kept)
        if self.radius < INFINITY or not total > nearly.l2:
            return None
        return layout.spread(pull, _ratio(kept, lengths) / total)

    def _group_weights(self, n: int) -> Host | float:
        """The weight of each variable's group; 0 for variables in no group."""
        layout = self.layout(n)
        return 0.0 if layout.labels is None else self.group * layout.penalised[layout.labels]

    # --- The chain's steps for groups, l2 and the ball only need the norms of the groups.

    def layout(self, n: int) -> GroupLayout:
        """The groups in R^n; if the weight of the groups is 0, a single group of all variables."""
        if self.group == 0.0 or self.groups is None:
            return UNGROUPED
        return self.groups.layout(n)

    def lengths(self, x: Array) -> tuple[Host, GroupLayout]:
        """The norm |x_G| of each group, or |x| without groups, even if squares overflow."""
        layout = self.layout(x.shape[0])
        if layout is UNGROUPED:
            return np.array([norm(x)]), layout
        top = arrays.max_abs(x)
        if top == 0.0 or not math.isfinite(top):
            return np.full(len(layout.penalised), top), layout
        part = to_numpy(x).astype(np.float64, copy=False) / top
        return top * np.sqrt(layout.dots(part, part)), layout

    def shrunk(
        self, lengths: Host, layout: GroupLayout, divisor: float = 1.0
    ) -> tuple[Host, Host, float, float]:
        """How groups, l2 and the ball shrink a vector whose groups have the norms ``lengths``.

        All weights are divided by ``divisor``. The result has four members:

        - the norms of the groups after each group has been shrunk;
        - the total factor of each group;
        - the norm of the whole vector before l2 and the ball shrink it;
        - the norm of the whole vector after all steps.
        """
        kept = self.kept(lengths, layout, divisor)
        total = norm(kept)
        length = min(max(total - self.l2 / divisor, 0.0), self.radius)
        return kept, _ratio(kept, lengths) * _ratio(length, total), total, length

    def kept(self, lengths: Host, layout: GroupLayout, divisor: float = 1.0) -> Host:
        """The norms of the groups after each group has been shrunk."""
        return np.maximum(lengths - self.group / divisor * layout.penalised, 0.0)


def soft(x: Array, threshold: L1Weight) -> Array:
    """sign(x) max(|x| - threshold, 0), with one threshold or one per entry."""
    if isinstance(threshold, float) and threshold == 0.0:
        return x
    threshold = weight_like(threshold, x)
    return x - into(None, "clip", x, -threshold, threshold)


def weight_like(weight: L1Weight, x: Array) -> Any:
    """A single weight unchanged, or one weight per variable as an array like x."""
    return weight if isinstance(weight, float) else arrays.like(weight, x)


def largest(weight: L1Weight) -> float:
    """The largest weight; a single number is returned as it is."""
    return weight if isinstance(weight, float) else float(np.max(weight))


def _ratio(part: Any, whole: Any) -> Any:
    """The quotient part/whole, or 0 where the whole is 0."""
    return part / np.where(whole > 0.0, whole, INFINITY)


def _lost(x: Array) -> float:
    """A bound on the error that underflow can cause in a sum over the entries of x."""
    return x.shape[0] * 2.0**-1070 if arrays.max_abs(x) > 0.0 else 0.0
