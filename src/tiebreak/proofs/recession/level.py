"""A level as its rows and linear term, the cone of the directions of Z, and products with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from tiebreak.functions.base import Function
from tiebreak.functions.elementary import Flat, Linear, Quadratic, SquaredNorm
from tiebreak.functions.far_slopes import LossRows
from tiebreak.functions.losses.huber import Huber
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.losses.logistic import Logistic
from tiebreak.functions.losses.multinomial import Multinomial
from tiebreak.functions.losses.poisson import Poisson
from tiebreak.functions.penalties.composite import split
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.functions.sums import summands
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.host_rows import HostRows
from tiebreak.linalg.matrices import Matrix
from tiebreak.linalg.matrices.base import DENSE_LIMIT
from tiebreak.linalg.spectra import EPS
from tiebreak.sets import Domain, described
from tiebreak.sets.descriptions import stacked

KNOWN = (
    *(LeastSquares, Logistic, Multinomial, Poisson, Huber),
    *(Quadratic, Linear, SquaredNorm, Flat),
)
CLEAR = 2.0**10  # times its rounding error: a product is not 0


class RecessionCone:
    """The directions of Z: {d : low <= d <= high, rows d <= 0, |A d| <= <c, d>}.

    The bounds are 0 or infinite. Of sets that are not known here ``is_known`` is False.
    """

    curves: list[tuple[HostRows, HostRows]]  # A and c of every second-order cone

    def __init__(self, domain: Domain, n: int) -> None:
        self.low, self.high = np.full(n, -math.inf), np.full(n, math.inf)
        found = [part.recession(n) for part in described(domain).parts]
        known = [some for some in found if some is not None]
        self.is_known = len(known) == len(found)
        for some in known:
            self.low, self.high = np.maximum(self.low, some.low), np.minimum(self.high, some.high)
        self.rows = HostRows(stacked([rows for some in known for rows in some.rows], n))
        self.curves = [(HostRows(A), HostRows(c[None])) for some in known for A, c in some.curves]
        self._project = known[0].project if len(found) == len(known) == 1 else None
        is_free = np.isinf(self.low).all() and np.isinf(self.high).all() and not self.curves
        self.is_space: bool = self.is_known and bool(is_free) and not self.rows.shape[0]

    def within(self, rows: HostRows) -> RecessionCone:
        """Those of its directions with rows d <= 0."""
        found = copy(self)
        found.rows = HostRows(stacked([self.rows.entries, rows.entries], len(self.low)))
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
        return np.clip(d, self.low, self.high) if self._project is None else self._project(d)


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
    hidden: list[tuple[Host, LinearLoss]]  # weights and logistic losses whose rows are not at hand

    @classmethod
    def of(cls, h: Function | Penalty, cone: RecessionCone) -> RecessionLevel | None:
        """h in parts; None where it is not known what it is made of."""
        found = cls(cone, [], [], LinearTerm(np.zeros(len(cone.low))), [])
        smooth, penalty = split(h if isinstance(h, Penalty) else h.bare)
        far = penalty.far_rows(len(cone.low))
        if far is None:
            return None
        found.fixed.extend(far.fixed)
        found.losses.extend(far.losses)
        for weight, part in summands(smooth):
            if type(part) not in KNOWN or not found._add(weight, part):
                return None
            if isinstance(part, Quadratic | Linear):
                found = found._replace(linear=found.linear.plus(weight, host(part.c)))
        return found

    def _add(self, weight: float, part: Function) -> bool:
        """One summand; False where its rows are not at hand."""
        if isinstance(part, SquaredNorm):
            weights = np.broadcast_to(host(part.weight), len(self.linear.c))
            self.fixed.append(unit_rows(weights > 0.0))
        elif isinstance(part, LeastSquares | Quadratic):
            if not _is_at_hand(part.matrix):
                return False
            self.fixed.append(HostRows.of(part.matrix))
        elif isinstance(part, LinearLoss):
            weights = weight * row_weights(part)
            losses = _loss_rows(weights, part)
            self.losses.extend(losses)
            if not losses and not isinstance(part, Logistic | Multinomial):
                return False
            if not losses:
                self.hidden.append((weights, part))
        return True

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
                if loss.tail or level.linear.size:
                    fixed.append(loss.rows)
                else:
                    cone = cone.within(HostRows(-loss.rows.entries))
            fixed += [HostRows(level.linear.c[None])] if level.linear.size else []
        return self._replace(fixed=fixed, cone=cone)


def unit_rows(which: Host) -> HostRows:
    """A row for each of these variables, whose products with d must be 0."""
    from scipy.sparse import eye_array

    return HostRows(eye_array(len(which), format="csr")[np.flatnonzero(which)])


def _loss_rows(weights: Host, part: LinearLoss) -> list[LossRows]:
    """The rows of a loss with how it grows along them; none: they are not at hand."""
    if isinstance(part, Multinomial):
        block, count = getattr(part.matrix, "block", None), 2 * (part.classes - 1)
        if block is None or not (_is_at_hand(block) and count * block.size <= DENSE_LIMIT):
            return []
        entries, examples = part.margin_rows()
        return [LossRows(weights[examples], HostRows(entries))]
    if not _is_at_hand(part.matrix):
        return []
    if isinstance(part, Logistic):
        return [LossRows(weights, HostRows.of(part.matrix, host(part.y)))]
    rows = HostRows.of(part.matrix)
    if isinstance(part, Huber):
        return _both_signs(part.delta * weights, rows)
    counts = host(part.target)
    falls = [LossRows((weights * counts)[counts > 0.0], rows.only(counts > 0.0), "")]
    return [LossRows(weights, rows.only(counts >= 0.0, -1.0), "exp"), *falls]


def _both_signs(weights: Host, rows: HostRows) -> list[LossRows]:
    """weights_i |<row_i, x>|, far out."""
    return [LossRows(weights, side, "") for side in (rows, HostRows(-rows.entries))]


def clearly_falls(part: LinearLoss, d: Host) -> bool:
    """Does a logistic loss whose rows are not at hand fall in every row, beyond all doubt?

    Rounding errors are taken from the largest product, for the terms of the others are not known.
    """
    product = host(part.matrix.forward(arrays.like(d, part.prototype))[0])
    labels = host(part.target)
    if isinstance(part, Multinomial):
        images, own = product.reshape(part.classes, -1), labels.astype(np.int64)
        others = np.where(np.arange(part.classes)[:, None] == own, -np.inf, images)
        margins = images[own, np.arange(len(own))] - np.max(others, axis=0)
    else:
        margins = labels * product
    margins = margins[row_weights(part) > 0.0]
    least = CLEAR * (len(d) + 4) * EPS * float(np.max(np.abs(product)))
    return bool(np.all(margins > least))


def _is_at_hand(matrix: Matrix) -> bool:
    """Are the entries in memory, and not too many?"""
    return (matrix.is_explicit or matrix.is_sparse) and matrix.size <= DENSE_LIMIT


def is_known(h: Function) -> bool:
    """Is it one of those whose falls are known here?  Of counts that are not at hand none is."""
    return isinstance(h, KNOWN) and not (isinstance(h, Poisson) and not _is_at_hand(h.matrix))


def row_weights(loss: LinearLoss) -> Host:
    """What each row of a loss counts, its scale included; 0 for rows of zeros."""
    if loss.weights is None:
        count = len(loss.y) if isinstance(loss, Multinomial) else loss.matrix.shape[0]
        return np.full(count, loss.scale)
    return np.asarray(loss.scale * host(loss.weights))


def is_power_of_two(weight: float) -> bool:
    """So that multiplying by it rounds nothing?"""
    return math.frexp(weight)[0] == 0.5
