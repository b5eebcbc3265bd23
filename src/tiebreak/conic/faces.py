"""Constraints that a solved level adds: its image and faces as equations, or a cut if it has slack.

For every optimal y of a level, { z feasible : <y, s(z)> = 0, F z = F z* } is the set of all its
minimisers. No cut or tolerance is needed; a cut would let the next level gain sqrt(slack). So only
levels with slack become cuts.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.cones import LEAST, Active, Blocks, of_inequalities, outside
from tiebreak.conic.program import Cone, Objective
from tiebreak.conic.stage import AffineSet, dense, stacked
from tiebreak.linalg import EPS, TOL, Host, deadline
from tiebreak.linalg.conic_form import row_lengths, scaled_rows
from tiebreak.linalg.host import norm
from tiebreak.linalg.linear_programs import strict_rows
from tiebreak.linalg.rank import sparse_nullity


class ConicSet(NamedTuple):
    """{ z : offset - rows z in K }."""

    rows: Any
    offset: Host
    cones: tuple[Cone, ...]

    def joined(self, rows: Any, offset: Host, cones: tuple[Cone, ...]) -> ConicSet:
        """Return the set with further constraints."""
        both = stacked([self.rows, rows])
        return ConicSet(both, np.append(self.offset, offset), self.cones + cones)

    def part(self, which: Host) -> ConicSet:
        """Return the set with only these rows; rows of one cone must stay together."""
        if np.all(which):
            return self
        cones, end = [], 0
        for cone in self.cones:
            size = int(np.count_nonzero(which[end : end + cone.size]))
            end += cone.size
            if size:
                cones.append(Cone(cone.kind, size))
        return ConicSet(self.rows[which], self.offset[which], tuple(cones))


class HeldRows(NamedTuple):
    """Equations that all minimisers of a level satisfy, with bounds on their errors.

    On the true minimisers each |<row, z> - its value| is at most ``linear`` * gap, where the gap is
    between the level's value and its bound. If ``root`` is not 0, the vector of all these errors is
    at most ``linear`` * gap + ``root`` * sqrt(gap). If ``is_shared``, the errors cannot all reach
    their bounds at the same time: the sum of |<row, z> - its value| / ``linear`` is at most the
    gap.
    """

    rows: Any
    values: Host
    linear: Host  # one factor for each row
    root: float = 0.0
    is_shared: bool = False
    gap: float = 0.0

    @property
    def off(self) -> Host:
        """Bound the error of each equation."""
        return self.linear * self.gap + self.root * math.sqrt(self.gap)

    def cost(self, weights: Host) -> float:
        """Bound the error of a sum of the equations with these weights."""
        if not weights.any():
            return 0.0
        if self.root == 0.0:
            costs = np.abs(weights) * self.off
            return float(np.max(costs) if self.is_shared else np.sum(costs))
        return norm(weights) * float(np.max(self.off))


def held_rows(
    constraints: ConicSet,
    squares: Any,
    active: Active,
    y: Host,
    at: Host,
    reach: Host,
    gap: float,
) -> list[HeldRows]:
    """Return the equations of a level's minimisers, in groups of rows of equal accuracy.

    The equations follow from <y, s> + ½|F (z - at)|² <= gap for all minimisers z, where |s| <=
    reach.
    """
    (rows, offset, _), tiny = constraints, LEAST
    zero, one = Blocks.of(constraints.cones).zero, active.nonnegative
    found = [HeldRows(rows[zero], offset[zero], np.zeros(len(zero)))]
    found.append(HeldRows(rows[one], offset[one], 1.0 / np.maximum(y[one], tiny), is_shared=True))
    for cone in active.vertices:  # s_0 (y_0 - |y_1|) <= <y, s>
        inner = max(y[cone[0]] - norm(y[cone[1:]]), tiny)
        found.append(HeldRows(rows[cone], offset[cone], np.full(len(cone), 1.0 / inner)))
    for cone in active.rays:  # s_0 - a <= gap / |y_1|, |across|² <= (s_0 - a) (s_0 + a)
        pull, size = max(norm(y[cone[1:]]), tiny), float(reach[cone[0]])
        across, values = _across(ray_of(y[cone]), rows[cone], offset[cone])
        linear = np.full(across.shape[0], 1.0 / pull)
        found.append(HeldRows(across, values, linear, math.sqrt(2.0 * size / pull)))
    for cone in active.curves:  # y_1 >= -y_2 e^r (1 - r), y_0 = -y_2 e^r
        # D = |s_0 - r s_1|: e^r D² / (2 s_1 + D) <= gap / y_2, since e^d - 1 - d >= d² / (2 + |d|),
        # and |s_2 - e^r s_1| <= gap / y_2 + e^r D.
        pull = max(y[cone[2]], tiny)
        slope = max(-y[cone[0]], tiny) / pull  # e^r
        ray = np.array([math.log(slope), 1.0, slope])
        across, values = _across(ray / norm(ray), rows[cone], offset[cone])
        linear = np.full(across.shape[0], (2.0 + 1.0 / slope) / pull)
        root = (1.0 + slope) * math.sqrt(2.0 * float(reach[cone[1]]) / (pull * slope))
        found.append(HeldRows(across, values, linear, root))
    if squares.shape[0]:
        found.append(HeldRows(squares, squares @ at, np.zeros(squares.shape[0]), math.sqrt(2.0)))
    return [part._replace(gap=gap) for part in found if part.rows.shape[0]]


def remaining(
    constraints: ConicSet, active: Active, s: Host, y: Host, where: AffineSet
) -> ConicSet:
    """Return the inequalities that are not active at all minimisers of a level.

    Inequalities that are constant on ``where``, which contains a feasible point, are left out.
    """
    rows, offset, blocks = constraints.rows, constraints.offset, Blocks.of(constraints.cones)
    plain = np.setdiff1d(blocks.nonnegative, active.nonnegative, assume_unique=True)
    kept, offsets = [rows[plain]], [offset[plain]]
    along = [(cone, ray_of(y[cone])) for cone in active.rays]
    along += [(cone, s[cone] / norm(s[cone])) for cone in active.curves]
    for cone, ray in along:  # the part of s along the ray is nonnegative
        deadline.check()
        kept.append(stacked([ray[None] @ rows[cone]]))
        offsets.append(np.array([ray @ offset[cone]]))
    linear, limits = stacked(kept), np.concatenate(offsets)
    moving = row_lengths(where.columns(linear)) > 0.0
    count = int(np.count_nonzero(moving))
    flat = ConicSet(linear[moving], limits[moving], (Cone("nonnegative", count),) * bool(count))
    gone = {int(cone[0]) for cone in (*active.vertices, *active.rays, *active.curves)}
    is_kept = np.zeros(len(offset), dtype=bool)
    for cone in (*blocks.second_order, *blocks.exponential):
        is_moving = row_lengths(where.columns(rows[cone])).any()
        is_kept[cone] = is_moving and int(cone[0]) not in gone
    return flat.joined(*constraints.part(is_kept))


def ray_of(y: Host) -> Host:
    """Return a second-order cone's ray that is orthogonal to a y on the dual cone's boundary."""
    ray = np.append(norm(y[1:]), -y[1:])
    return np.asarray(ray / norm(ray))


def _across(ray: Host, rows: Any, offset: Host) -> tuple[Any, Host]:
    """Return the part of these rows that is orthogonal to a ray; drop rows of rounding errors."""
    deadline.check()  # there may be thousands of cones
    basis = np.linalg.svd(ray[None])[2][1:]
    found, size = basis @ rows, float(np.max(row_lengths(rows)))
    kept = row_lengths(found) > TOL.clear_units * len(ray) * EPS * size
    return found[kept], (basis @ offset)[kept]


class Cut(NamedTuple):
    """The set { z : h(z) <= most } of a level as rows, an offset and a cone.

    ``most`` is so small that all points of the set are certainly within the level's slack. With
    ``most`` raised by ``loose``, the set certainly contains all points within the slack. If
    ``is_clear`` is False, the slack hardly exceeds the errors, and ``most`` ignores them.
    """

    level: int
    row: int  # first row of the level among the constraints
    rows: Any
    offset: Host
    cone: Cone
    scale: float
    loose: float
    is_clear: bool

    @property
    def tops(self) -> slice:
        """The rows whose offsets are raised by the same share of any change in ``most``."""
        return slice(self.row, self.row + min(self.cone.size, 2))


def sublevel(
    level: int, row: int, h: Objective, z: Host, slack: float, gap: float, reach: Host
) -> Cut:
    """Return the cut { h <= h(z) + slack } of a level; h(z) is within ``gap`` of the minimum.

    h(z + d) = h(z) + <slope, d> + ½|F d|². With tau = slack - <slope, d>: |F d|² <= 2 tau, or |(F
    d, tau/a - a/2)| <= tau/a + a/2 for any a > 0; with a² = 2 slack all terms have similar sizes.
    For |z_j + d_j| <= reach_j, ``off`` bounds all rounding errors of these terms, and the gap.
    """
    found = h.squares.T @ (h.squares @ z - h.target) + h.linear
    sizes, away, a = abs(h.squares), reach + np.abs(z), math.sqrt(2.0 * slack)
    terms = sizes.T @ (sizes @ np.abs(z) + np.abs(h.target)) + np.abs(h.linear)
    slope = np.where(np.abs(found) > 64.0 * len(z) * EPS * terms, found, 0.0)  # not only rounding
    unit = 8.0 * EPS * (sum(h.squares.shape) + 8)
    of_image = unit * norm(sizes @ away)
    off = gap + float((np.abs(found - slope) + unit * terms) @ away) + unit * slack
    off += (a + of_image) * of_image + 2.0 * h.misfit(reach)
    is_clear = off * TOL.clear_units <= slack
    room = (slack - off if is_clear else slack) + float(slope @ z)
    if not h.squares.shape[0]:
        cone, rows, offset, a = Cone("nonnegative", 1), slope[None], np.array([room]), 1.0
    else:
        F = dense(h.squares)
        rows = np.vstack([slope / a, slope / a, -F])
        offset = np.concatenate([[room / a + a / 2.0, room / a - a / 2.0], -(F @ z)])
        cone = Cone("second-order", len(offset))
    return Cut(level, row, rows, offset, cone, a, 2.0 * off, is_clear)


def open_directions(
    where: AffineSet, left: ConicSet, held: Any, own: Host, z: Host, unit: float
) -> int | None:
    """Count the directions in which x may move from z; return None if the number is unknown.

    These directions satisfy three groups of equations: those of the affine set, of ``left`` and of
    ``held``. They also satisfy all inequalities that hold with equality at every point. ``unit`` is
    the scale of z if all entries of x are 0.
    """
    equations = stacked([left.rows[Blocks.of(left.cones).zero], held])
    most = free_directions(where, equations, own)
    if not most:  # no choice is left, or the number is unknown
        return most
    # An x that should be 0 is a rounding error, and says nothing about the scale.
    longest = float(np.max(np.abs(z[own]), initial=unit))
    flat = _flat_rows(left, where, equations, z, longest)
    return None if flat is None else free_directions(where, stacked([equations, flat]), own)


def _flat_rows(left: ConicSet, where: AffineSet, equations: Any, z: Host, longest: float) -> Any:
    """Return the inequalities that hold with equality at z and on the whole affine set.

    Return None if these inequalities are unknown, for example if z touches a curved cone.
    """
    rows, offset, cones = left
    blocks = Blocks.of(cones)
    sizes = of_inequalities(blocks, np.abs(offset) + longest * row_lengths(rows))
    touches = outside(blocks, offset - rows @ z) >= -TOL.solver * sizes
    plain = len(blocks.nonnegative)
    near = blocks.nonnegative[touches[:plain]]
    inner = where.columns(rows[near])
    lengths = row_lengths(inner)
    near, inner = near[lengths > 0.0], inner[lengths > 0.0]
    units = scaled_rows(inner, 1.0 / lengths[lengths > 0.0])
    is_strict = strict_rows(units, where.columns(equations))
    if is_strict is None or touches[plain:].any():
        return None
    edges = rows[near[~is_strict]]
    room, terms = (
        (offset - rows @ z)[near],
        np.abs(offset[near]) + longest * row_lengths(rows)[near],
    )
    # A row that holds with equality everywhere has no slack at z.
    return None if np.any((room > TOL.clear * terms)[~is_strict]) else edges


def free_directions(where: AffineSet, equations: Any, own: Host) -> int | None:
    """Count the directions in which x moves on an affine set with these equations."""
    from scipy.sparse import csr_array

    if isinstance(where.basis, np.ndarray):
        where = where.within(equations, where.base) if equations.shape[0] else where
        seen = where.basis[own]
        if not seen.size:
            return 0
        try:
            deadline.check(0.5 * deadline.svd_work(*seen.shape))
        except deadline.Over:
            return None
        return int(np.count_nonzero(np.linalg.svd(seen, compute_uv=False) > TOL.accurate))
    inner, moves = csr_array(where.columns(equations)), np.zeros(len(where.base))
    moves[own] = 1.0
    hidden = np.flatnonzero((moves if where.basis is None else where.basis.T @ moves) == 0.0)
    whole = sparse_nullity(inner)
    rest = sparse_nullity(inner[:, hidden]) if len(hidden) else 0
    return None if whole is None or rest is None else whole - rest
