"""A level as its rows and linear term, the cone of the directions of Z, and products with them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiebreak.functions.base import Function, SmoothFunction
from tiebreak.functions.elementary import Flat, Linear, Quadratic, SquaredNorm
from tiebreak.functions.losses.huber import Huber
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.losses.logistic import Logistic
from tiebreak.functions.losses.multinomial import Multinomial
from tiebreak.functions.losses.poisson import Poisson
from tiebreak.functions.sums import summands
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.matrices import Matrix
from tiebreak.linalg.matrices.base import DENSE_LIMIT
from tiebreak.linalg.spectra import EPS
from tiebreak.problem import Problem
from tiebreak.sets.boxes import Box
from tiebreak.sets.domains import Domain, Halfspace, Space
from tiebreak.sets.monotone import Monotone

CONES = (Space, Box, Monotone, Halfspace)
KNOWN = (
    *(LeastSquares, Logistic, Multinomial, Poisson, Huber),
    *(Quadratic, Linear, SquaredNorm, Flat),
)
FALLING = (Logistic, Multinomial, Poisson)  # losses that may fall for ever


class HostRows:
    """Rows on the host, dense or sparse."""

    entries: Any

    def __init__(self, entries: Any) -> None:
        self.entries, self._is_dense = entries, isinstance(entries, np.ndarray)
        self.shape: tuple[int, int] = (int(entries.shape[0]), int(entries.shape[1]))

    @classmethod
    def of(cls, matrix: Matrix, labels: Host | None = None) -> HostRows:
        """The rows of a matrix, each times its label."""
        entries: Any = matrix.entries.astype(np.float64) if matrix.is_sparse else matrix.dense()
        if labels is None:
            return cls(entries)
        signs = labels[:, None]
        return cls(entries.multiply(signs).tocsr() if matrix.is_sparse else signs * entries)

    @property
    def stored(self) -> int:
        """How many entries are not known to be 0."""
        return math.prod(self.shape) if self._is_dense else int(self.entries.nnz)

    @cached_property
    def _is_whole(self) -> bool:
        """Are all entries whole numbers?"""
        stored = self.entries if self._is_dense else self.entries.data
        return bool(np.all(stored == np.floor(stored)))

    @cached_property
    def sizes(self) -> Host:
        """The length of every row, rounded up."""
        squares = self.entries**2 if self._is_dense else self.entries.multiply(self.entries)
        lengths = np.sqrt(np.asarray(squares.sum(axis=1)).reshape(-1))
        return np.asarray(lengths * (1.0 + self.shape[1] * EPS))

    def along(self, d: Host) -> RowProducts:
        """Their products with d, and bounds on the rounding errors of these."""
        product, size = self.entries @ d, abs(self.entries) @ np.abs(d)
        if self._is_whole and not np.any(d != np.floor(d)) and np.max(size, initial=0.0) < 2.0**53:
            return RowProducts(self, product, np.zeros(len(product)))
        # 0 where there is nothing to add up.
        return RowProducts(self, product, (self.shape[1] + 4) * EPS * size)

    def only(self, which: Host, sign: float = 1.0) -> HostRows:
        """Some of the rows, each times a sign."""
        return HostRows(sign * self.entries[np.flatnonzero(which)])

    def some(self, which: Host) -> Host:
        """Some of the rows, dense."""
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
        if self._is_dense:
            return np.asarray(A.T @ (A if weights is None else weights[:, None] * A))
        weighted = A if weights is None else A.multiply(weights[:, None]).tocsr()
        return np.asarray((A.T @ weighted).toarray())


class RowProducts(NamedTuple):
    """Rows times a direction d: the products, and bounds on their errors."""

    rows: HostRows
    product: Host
    error: Host

    @property
    def is_open(self) -> Host:
        """Which are not known to be exactly 0?"""
        return np.asarray((self.product != 0.0) | (self.error > 0.0))

    @property
    def is_near(self) -> Host:
        """Which may be 0, and may be not?"""
        return np.asarray((self.error > 0.0) & (np.abs(self.product) <= self.error))

    def signs(self, reach: float) -> Host | None:
        """The signs of all products within ``reach`` of d, near ones taken as 0; None: not sure."""
        near, lost = self.is_near, self.error + reach * self.rows.sizes
        if np.any(~near & (self.product != 0.0) & (np.abs(self.product) <= lost)):
            return None
        return np.where(near, 0.0, np.sign(self.product))


class RecessionCone:
    """The directions of Z: {d : low <= d <= high, rows d <= 0}, bounds 0 or infinite."""

    low: Host
    high: Host
    rows: HostRows

    def __init__(self, domain: Domain, n: int) -> None:
        self.low, self.high = np.full(n, -math.inf), np.full(n, math.inf)
        self.rows = HostRows(np.zeros((0, n)))
        self._is_monotone = isinstance(domain, Monotone)
        self.is_space: bool = isinstance(domain, Space)
        if isinstance(domain, Box):
            low, high = (np.broadcast_to(host(b), n) for b in (domain.lower, domain.upper))
            self.low = np.where(np.isfinite(low), 0.0, -math.inf)
            self.high = np.where(np.isfinite(high), 0.0, math.inf)
        elif isinstance(domain, Halfspace):
            self.rows = HostRows(host(domain.normal)[None])
        elif isinstance(domain, Monotone) and n > 1:
            from scipy.sparse import diags_array

            steps = diags_array([np.ones(n - 1), -np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
            self.rows = HostRows(steps.tocsr())

    def contains(self, d: Host) -> bool:
        """Is d one of them, surely?"""
        if self._is_monotone:
            return bool(np.all(d[:-1] <= d[1:]))
        _, product, error = self.rows.along(d)
        is_between = (self.low <= d) & (d <= self.high)
        return bool(np.all(product + error <= 0.0) and np.all(is_between))

    def nearest(self, d: Host) -> Host:
        """d with what is in the way of its signs taken away."""
        return host(Monotone().project(d)) if self._is_monotone else np.clip(d, self.low, self.high)


class LinearTerm(NamedTuple):
    """c, the sum of all linear terms."""

    c: Host
    size: float = 0.0  # the sum of their lengths, which may cancel in c
    is_exact: bool = True  # was nothing rounded in c?

    def plus(self, weight: float, c: Host) -> LinearTerm:
        """This and one more term."""
        more, is_exact = weight * c, self.size == 0.0 and is_power_of_two(weight)
        return LinearTerm(self.c + more, self.size + norm(more), is_exact) if c.any() else self


class LossRows(NamedTuple):
    """Losses that fall for ever where <m_i, d> > 0: weights_i log(1 + exp(-<m_i, x>)).

    Or weights_i exp(-<m_i, x>), ``is_exponential``. A multinomial loss rises no faster than the sum
    of its margins' own losses would, and it too falls for ever along a direction in which that sum
    has slope 0, if a margin changes.
    """

    weights: Host
    rows: HostRows
    is_exponential: bool = False

    @property
    def slopes(self) -> Host:
        """What <-m_i, d> > 0 counts in the slope far out."""
        return np.full(len(self.weights), math.inf) if self.is_exponential else self.weights

    def curvature(self, x: Host) -> Host:
        """The second derivatives in the products <m_i, x>."""
        margins = self.rows.entries @ x
        if self.is_exponential:
            return np.asarray(self.weights * np.exp(np.clip(-margins, -700.0, 300.0)))
        return np.asarray(self.weights / (2.0 + 2.0 * np.cosh(np.clip(margins, -700.0, 700.0))))


class RecessionLevel(NamedTuple):
    """What a level is made of, as far as directions go, and the directions of Z."""

    cone: RecessionCone
    fixed: list[HostRows]  # whose products with d must be 0
    losses: list[LossRows]  # that fall, or grow, along their rows
    linear: LinearTerm
    hidden: float  # the least weight of logistic losses whose rows are not at hand, or inf

    @classmethod
    def of(cls, h: SmoothFunction, cone: RecessionCone) -> RecessionLevel | None:
        """h in parts; None where it is not known what it is made of."""
        fixed: list[HostRows] = []
        losses: list[LossRows] = []
        linear, hidden = LinearTerm(np.zeros(len(cone.low))), math.inf
        for weight, part in summands(h.bare):
            if isinstance(part, FALLING) and (found := _loss_rows(weight, part)) is not None:
                fixed += found[0]
                losses += found[1]
            elif isinstance(part, Logistic | Multinomial):
                weights = row_weights(part)
                hidden = min(hidden, weight * float(np.min(weights[weights > 0.0])))
            # Huber losses too: less than they allow, for a level may fall faster than they rise.
            elif isinstance(part, LeastSquares | Huber | Quadratic) and _is_at_hand(part.matrix):
                fixed.append(HostRows.of(part.matrix))
            elif isinstance(part, SquaredNorm):
                weights = np.broadcast_to(host(part.weight), len(cone.low))
                fixed.append(unit_rows(weights > 0.0))
            elif not isinstance(part, Linear | Flat):
                return None
            if isinstance(part, Quadratic | Linear):
                linear = linear.plus(weight, host(part.c))
        return cls(cone, fixed, losses, linear, hidden)

    @property
    def all_rows(self) -> list[HostRows]:
        """The rows of all squares and losses."""
        return [*self.fixed, *(loss.rows for loss in self.losses)]

    @property
    def side(self) -> int:
        """The smaller side of its matrix."""
        return min(len(self.linear.c), sum(rows.shape[0] for rows in self.all_rows))

    @property
    def can_fall(self) -> bool:
        """Is there anything but squares?"""
        return bool(self.losses or self.linear.size)

    def single_variables(self) -> list[Host]:
        """A direction that changes one variable only, such as a category with one label."""
        n, c = len(self.linear.c), self.linear.c
        up, down, moves = self.cone.high > 0.0, self.cone.low < 0.0, np.zeros(n, dtype=bool)
        for rows in self.fixed:
            least, most = rows.column_range()
            is_empty = (least == most) & (most == 0.0)
            up, down = up & is_empty, down & is_empty
        for loss in self.losses:
            least, most = loss.rows.column_range()
            up, down = up & (least >= 0.0), down & (most <= 0.0)
            moves |= (least < most) | (least != 0.0)
        up, down = up & moves & (c <= 0.0), down & moves & (c >= 0.0)
        j = int(np.argmax(up | down))
        d = np.zeros(n)
        d[j] = 1.0 if up[j] else -1.0
        return [d] if up[j] or down[j] else []

    def upper_of(self, problem: Problem) -> RecessionLevel | None:
        """The upper level among the minimisers of this one; None: it cannot fall, or unknown."""
        f, penalty = problem.smooth_parts[0], problem.penalties[0]
        if penalty.terms.has_weights or f.strong_convexity > 0.0 or not self.linear.is_exact:
            return None
        above = RecessionLevel.of(f, self.cone)
        if above is None or above.hidden < math.inf or not above.can_fall:
            return None
        shared = [*self.all_rows, *([HostRows(self.linear.c[None])] if self.linear.size else [])]
        return above._replace(fixed=[*shared, *above.fixed])


def unit_rows(which: Host) -> HostRows:
    """A row for each of these variables, whose products with d must be 0."""
    from scipy.sparse import eye_array

    return HostRows(eye_array(len(which), format="csr")[np.flatnonzero(which)])


def _loss_rows(weight: float, part: LinearLoss) -> tuple[list[HostRows], list[LossRows]] | None:
    """Rows whose products with d must be 0, and losses that fall; None: they are not at hand."""
    weights = weight * row_weights(part)
    if isinstance(part, Multinomial):
        block, count = part.matrix.block, 2 * (part.classes - 1)
        if not (_is_at_hand(block) and count * block.size <= DENSE_LIMIT):
            return None
        entries, examples = part.margin_rows()
        return [], [LossRows(weights[examples], HostRows(entries))]
    if not _is_at_hand(part.matrix):
        return None
    if isinstance(part, Logistic):
        return [], [LossRows(weights, HostRows.of(part.matrix, host(part.y)))]
    has_count, rows = host(part.target) > 0.0, HostRows.of(part.matrix)
    fixed = [rows.only(has_count)] if has_count.any() else []
    if has_count.all():
        return fixed, []
    return fixed, [LossRows(weights[~has_count], rows.only(~has_count, -1.0), True)]


def _is_at_hand(matrix: Matrix) -> bool:
    """Are the entries in memory, and not too many?"""
    return (matrix.is_explicit or matrix.is_sparse) and matrix.size <= DENSE_LIMIT


def is_known(h: Function) -> bool:
    """Is it one of those whose falls are known here?  Of counts that are not at hand none is."""
    return isinstance(h, KNOWN) and not (isinstance(h, Poisson) and not _is_at_hand(h.matrix))


def row_weights(loss: LinearLoss) -> Host:
    """What each row of a loss counts, its scale included; 0 for rows of zeros."""
    if loss.weights is None:
        matrix = loss.matrix.block if isinstance(loss, Multinomial) else loss.matrix
        return np.full(matrix.shape[0], loss.scale)
    return np.asarray(loss.scale * host(loss.weights))


def is_power_of_two(weight: float) -> bool:
    """So that multiplying by it rounds nothing?"""
    return math.frexp(weight)[0] == 0.5
