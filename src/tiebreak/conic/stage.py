"""One level in coordinates of the set that remains after earlier levels: z = base + basis w."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tiebreak.conic.cones import Blocks
from tiebreak.conic.program import DENSE_SHARE, KEPT_DENSE, Cone, Objective
from tiebreak.linalg import EPS, TOL, Host, deadline, decide_rank
from tiebreak.linalg.conic_form import row_lengths, scaled_rows
from tiebreak.linalg.host import norm

MOST_IN_BASIS = 1200  # a dense basis is used only up to this many variables
SVD_SIDE = 300  # singular values are used only up to this many rows and columns


def dense(matrix: Any) -> Host:
    """Return the matrix as a NumPy array."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def as_rows(matrix: Any) -> Any:
    """Return a small or full matrix as a dense array, and any other in CSR format."""
    import scipy.sparse as sp

    m, n = matrix.shape
    count = np.count_nonzero(matrix) if isinstance(matrix, np.ndarray) else matrix.nnz
    is_dense = m * n <= KEPT_DENSE or count > DENSE_SHARE * m * n
    return dense(matrix) if is_dense else sp.csr_array(matrix)


def stacked(parts: Sequence[Any]) -> Any:
    """Stack matrices, densely if the first is dense, and otherwise in CSR format."""
    import scipy.sparse as sp

    if isinstance(parts[0], np.ndarray):
        return np.vstack([dense(part) for part in parts])
    some = [sp.csr_array(part) for part in parts if part.shape[0]] or [sp.csr_array(parts[0])]
    return some[0] if len(some) == 1 else sp.vstack(some, format="csr")


@dataclass(frozen=True)
class AffineSet:
    """The set { base + basis w }: basis orthonormal, None (all z), or sparse (fixed variables).

    ``error`` bounds the relative error of the basis, which depends on the equations of the set.
    """

    base: Host
    basis: Any = None
    error: float = EPS

    @property
    def dimension(self) -> int:
        """The dimension of w."""
        return len(self.base) if self.basis is None else int(self.basis.shape[1])

    def direction(self, w: Host) -> Host:
        """Return the change of z that corresponds to w."""
        return w if self.basis is None else np.asarray(self.basis @ w)

    def point(self, w: Host) -> Host:
        """Return the point z that corresponds to w."""
        return self.base + self.direction(w)

    @property
    def rounding(self) -> float:
        """Below this value, products of a unit row with the basis may be rounding errors."""
        return TOL.clear_units * len(self.base) * self.error

    def columns(self, rows: Any) -> Any:
        """Convert rows that multiply z to rows that multiply w; set rounding errors to 0.

        Products of a row with the basis may cancel, or the basis may be 0 (up to rounding) in the
        places where the row is not.
        """
        if self.basis is None:
            return rows
        if not isinstance(self.basis, np.ndarray):
            return rows[:, self.basis.indices]
        inner = np.asarray(rows @ self.basis)
        inner[np.abs(inner) <= self.rounding * (abs(rows) @ np.abs(self.basis))] = 0.0
        inner[row_lengths(inner) <= self.rounding * row_lengths(rows)] = 0.0
        return inner

    def _null_space(self, inner: Host) -> tuple[Host, float]:
        """Return a basis of { w : inner w = 0 } and its error; in z, the rows have length 1."""
        m, n = inner.shape
        if min(m, n) > SVD_SIDE:
            from scipy.linalg import qr

            deadline.check(0.2 * deadline.svd_work(m, n, whole=True))
            Q, R, _ = qr(inner.T, pivoting=True, check_finite=False)
            basis, sizes = Q, np.abs(np.diag(R))
        else:
            deadline.check(deadline.svd_work(m, n, whole=True))
            _, sizes, vt = np.linalg.svd(inner)
            basis = vt.T
        rank = int(np.count_nonzero(sizes > self.rounding))
        least = float(np.min(sizes[:rank], initial=1.0))
        return basis[:, rank:], self.error + EPS / least

    def without_fixed(self, rows: Any, base: Host) -> tuple[AffineSet, Host]:
        """Return the set without variables that a single row fixes, and which rows are left.

        We do this if there are many variables, because a dense basis would be too large.
        """
        import scipy.sparse as sp

        inner = sp.csr_array(self.columns(rows))
        fixed = np.unique(inner[np.diff(inner.indptr) == 1].indices)
        moves = np.setdiff1d(np.arange(self.dimension), fixed, assume_unique=True)
        chosen = sp.eye_array(self.dimension, format="csc") if self.basis is None else self.basis
        left = np.diff(inner[:, moves].indptr) > 0
        return AffineSet(base, chosen[:, moves], self.error), left

    def within(self, rows: Any, base: Host) -> AffineSet:
        """Return the points of the set at which these rows have the same values as at ``base``."""
        if self.basis is not None:
            rows = dense(rows)[row_lengths(rows) > 0.0]
            free, error = self._null_space(rows / row_lengths(rows)[:, None] @ self.basis)
            return AffineSet(base, self.basis @ free, error)
        where, left = self.without_fixed(rows, base)
        inner = dense(rows[left] @ where.basis)
        if min(inner.shape) > SVD_SIDE:
            free, error = self._null_space(inner / row_lengths(inner)[:, None])
        else:
            rank = decide_rank(inner)
            least = rank.pair()[0] / float(np.max(rank.sigma, initial=0.0) or 1.0)
            free, error = rank.basis[:, rank.low :], EPS / (least or 1.0)
        return AffineSet(base, where.basis @ free, error)

    def objective(self, h: Objective) -> Objective:
        """Return h as a function of w."""
        if self.basis is None and not self.base.any():
            return h
        squares = self.columns(h.squares)
        target = h.target - h.squares @ self.base
        linear = np.asarray(self.columns(h.linear[None]))[0]
        constant = h.constant + float(h.linear @ self.base)

        def misfit(sizes: Host) -> float:
            moves = sizes if self.basis is None else abs(self.basis) @ sizes
            return h.misfit(np.abs(self.base) + moves)

        return Objective(squares, target, linear, constant, (misfit,) * bool(h.misfits))


@dataclass(frozen=True)
class Stage:
    """Minimise the objective over { w : offset - rows w in K }."""

    objective: Objective
    rows: Any
    offset: Host
    cones: tuple[Cone, ...]
    offset_error: Host  # a bound on the error of the offset
    unit: float  # a length of z; it is the scale if all other lengths are 0

    @cached_property
    def is_flat(self) -> bool:
        """Is the objective constant?"""
        h = self.objective
        return not h.linear.any() and not abs(h.squares).sum()

    @cached_property
    def blocks(self) -> Blocks:
        """The rows, grouped by kind."""
        return Blocks.of(self.cones)

    @cached_property
    def lengths(self) -> Host:
        """The lengths of the rows."""
        return row_lengths(self.rows)

    def slack(self, w: Host) -> Host:
        """Return offset - rows w."""
        return np.asarray(self.offset - self.rows @ w)

    def image(self, w: Host) -> Host:
        """Return F w - t."""
        return np.asarray(self.objective.squares @ w - self.objective.target)

    def slope(self, w: Host) -> Host:
        """Return the slope of the objective."""
        return np.asarray(self.objective.squares.T @ self.image(w) + self.objective.linear)

    @cached_property
    def row_sizes(self) -> Any:
        """|rows|."""
        return abs(self.rows)

    @cached_property
    def square_sizes(self) -> Any:
        """|F|."""
        return abs(self.objective.squares)

    def slope_terms(self, w: Host) -> Host:
        """Return the sizes of the terms of the slope before they cancel."""
        F, t, q = self.square_sizes, self.objective.target, self.objective.linear
        return np.asarray(F.T @ (F @ np.abs(w) + np.abs(t)) + np.abs(q))

    def without_far_bounds(self) -> Stage | None:
        """Return the stage without inequalities and cones that are relatively far from w = 0.

        Return None if all inequalities and cones are near. A solver's accuracy is relative to the
        largest number in its input, and a generous bound may be a million times the numbers that
        matter. 0 w <= unit replaces it.
        """
        unit, room = nearby(self.blocks, self.lengths, self.offset, [self.objective])
        far = room > unit
        if not far.any():
            return None
        offset = np.where(far, 0.0, self.offset)
        firsts = [cone[0] for cone in self.blocks.second_order]
        for first in (self.blocks.nonnegative, np.array(firsts, dtype=int)):
            offset[first] = np.where(far[first], unit, offset[first])
        rows, error = scaled_rows(self.rows, 1.0 - far), np.where(far, 0.0, self.offset_error)
        return replace(self, rows=rows, offset=offset, offset_error=error, unit=unit)


def nearby(
    blocks: Blocks, lengths: Host, offset: Host, objectives: Sequence[Objective]
) -> tuple[float, Host]:
    """Return the scale of the distances from w = 0, and the room (at least 0) left in each row.

    The scale comes from violated rows, or from the nearest bound if no row is violated, and from
    bounds less than TOL.far times as far away. Each row of a cone has the cone's distance.
    """
    apart = _distances(lengths, offset)
    room = np.zeros_like(apart)
    room[blocks.nonnegative] = np.where(offset > 0.0, apart, 0.0)[blocks.nonnegative]
    for cone in blocks.second_order:
        inside = float(offset[cone[0]]) - norm(offset[cone[1:]])
        room[cone] = max(inside, 0.0) / (norm(lengths[cone]) or np.inf)
    targets = (_distances(row_lengths(h.squares), h.target) for h in objectives)
    unit = float(np.max(np.concatenate([apart[room == 0.0], *targets]), initial=0.0))
    if unit == 0.0 and room.any():
        unit = float(np.min(room[room > 0.0]))
    return float(np.max(room[room <= TOL.far * unit], initial=unit)), room


def _distances(lengths: Host, offset: Host) -> Host:
    """Return how far hyperplanes with normals of these lengths are from 0; 0 for a zero normal."""
    return np.asarray(np.abs(offset) / np.where(lengths > 0.0, lengths, np.inf))


def stage_of(
    objective: Objective,
    rows: Any,
    offset: Host,
    cones: tuple[Cone, ...],
    where: AffineSet,
    unit: float,
) -> Stage:
    """Return the level as a program in w.

    The base satisfies the inequalities up to rounding. We relax the inequalities by the base's
    violation. Otherwise inequalities without any room, such as x >= 0 and x <= 0, would be
    infeasible.
    """
    moved, error = offset, np.zeros_like(offset)
    if where.base.any():
        moved = offset - rows @ where.base
        sizes = np.abs(offset) + abs(rows) @ np.abs(where.base)
        error = EPS * (len(where.base) + 8) * sizes
        inequalities = Blocks.of(cones).nonnegative
        missed = np.maximum(-moved[inequalities], 0.0)
        most = TOL.clear * (unit * row_lengths(rows) + sizes)[inequalities]
        missed[missed > most] = 0.0
        moved[inequalities] += missed
        error[inequalities] += missed
    return Stage(where.objective(objective), where.columns(rows), moved, cones, error, unit)
