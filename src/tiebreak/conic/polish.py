"""From the answer of an interior-point method to one that is exact to rounding, by Newton's method.

Where the exposed faces are known, a minimiser solves smooth equations: with c_k(s) = 0 for every
inequality that binds (s_j, s_0 - |s_1|, s_2 - s_1 exp(s_0 / s_1)) and y = sum of lambda_k c_k'(s),

    F'(F w - t) + q + rows' y = 0,     c(offset - rows w) = 0.

They have many solutions where there are ties: each step is the least correction, so that w stays
where the interior-point method put it, in the middle of the minimisers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.cones import LEAST, Active, Pairs, dual_point, of_inequalities, outside
from tiebreak.conic.equations import FEW_EQUATIONS, kkt_matrix, least_solution, regularised_solution
from tiebreak.conic.stage import Stage, dense, stacked
from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm
from tiebreak.linalg.spectra import equilibrate
from tiebreak.linalg.tolerances import TOL

SMALL_PART = 1e-3  # of a length in the whole program: a solution that is much shorter is 0


class PrimalDualPoint(NamedTuple):
    """A point of the stage with multipliers."""

    w: Host
    y: Host


class Polished(NamedTuple):
    """A solution of a stage, the faces that it exposes, and how well the conditions hold."""

    at: PrimalDualPoint
    exposed: Active
    residual: float
    # Of the margins of losses by the last step. What is left of the slopes may be rounding for
    # losses of large weight, and all that those of little weight have.
    change: float = math.inf

    @property
    def is_enough(self) -> bool:
        """Can no step do better?"""
        return self.residual <= TOL.rounding and self.change <= TOL.small_change


def polished(stage: Stage, start: PrimalDualPoint) -> Polished:
    """The point and the multipliers after Newton's steps, or the start where these do not help.

    Pairs of which neither number is clearly positive may be 0 both: then they count as binding, so
    that Newton's equations hold, but expose no face.
    """
    size = norm(stage.slope_terms(start.w))

    def pairs(at: PrimalDualPoint) -> Pairs:
        least = max(float(np.max(np.abs(at.w), initial=0.0)), SMALL_PART * stage.unit)
        return Pairs.of(stage.blocks, stage.slack(at.w), at.y, stage.lengths, size, least)

    first = pairs(start)
    active, most = (first.active(stage.blocks, factor) for factor in (TOL.apart, 1.0 / TOL.apart))
    best = Polished(start, active, math.inf)
    for k in range(2 + TOL.refinements):
        found, last = _newton(stage, active, start)
        best = min(best, found, key=lambda one: one.residual)
        if best.is_enough:
            break
        active = most if k == 0 else _exchanged(stage, active, last)
    if not best.is_enough:
        # A cone's tip: a point next to it is small, and nothing is relative to it.
        tip, _ = _newton(stage, most, start._replace(w=np.zeros_like(start.w)))
        unpolished = Polished(start, active, residual(stage, start), best.change)
        best = min(best, tip, unpolished, key=lambda one: one.residual)
    least = max(TOL.touching, TOL.apart * best.residual)
    exposed = pairs(best.at).active(stage.blocks, TOL.apart, least)
    return best._replace(exposed=exposed, change=max(best.change, _held_wrongly(stage, best.at)))


def _held_wrongly(stage: Stage, at: PrimalDualPoint) -> float:
    """The largest share of a variable's slope that an inequality takes without binding.

    Either there is room left, or its multiplier pulls the wrong way. What losses of little weight
    decide is rounding relative to the others, so each variable that a loss moves counts by its own
    slopes; all others by the largest.
    """
    blocks, (w, y), size = stage.blocks, at, stage.row_sizes
    losses = np.zeros_like(y)
    losses[blocks.exponential] = np.abs(y[blocks.exponential])
    moved = size.T @ losses
    if not moved.any():
        return 0.0
    slopes = moved + stage.slope_terms(w)
    share = size @ (1.0 / np.where(moved > 0.0, slopes, np.max(slopes)))
    least = TOL.clear * (norm(w) + SMALL_PART * stage.unit)
    terms = of_inequalities(blocks, np.abs(stage.offset) + size @ np.abs(w) + least * stage.lengths)
    has_room = -outside(blocks, stage.slack(w)) > TOL.percent * terms
    wrong, count = dual_point(blocks, y) - y, len(blocks.nonnegative)
    rows = blocks.nonnegative[has_room[:count]]
    wrong[rows], wrong[blocks.exponential] = y[rows], 0.0
    for cone, is_free in zip(blocks.second_order, has_room[count:], strict=False):
        share[cone] = np.max(share[cone])  # its first row may have no variables
        wrong[cone] = y[cone] if is_free else wrong[cone]
    return float(np.max(np.abs(wrong) * share, initial=0.0))


def _margins(stage: Stage, curves: Host, w: Host) -> Host:
    """s_0 / s_1 of exponential cones."""
    first, second, _ = stage.slack(w)[curves].T
    return np.asarray(first / np.maximum(second, LEAST))


def _newton(
    stage: Stage, active: Active, start: PrimalDualPoint
) -> tuple[Polished, PrimalDualPoint]:
    """Newton's steps with these inequalities as equations: the best point on the way, and the last.

    The last solves these equations; it may violate inequalities that are not among them.
    """
    first = now = start._replace(y=_on_faces(stage, active, start))
    best = Polished(first, active, math.inf)
    # Newton's method doubles the digits, and begins with five or more.
    for k in range(6):
        further = _step(stage, active, now)
        if further is None:
            break
        before, after = (_margins(stage, active.curves, w) for w in (now.w, further.w))
        change = float(np.max(np.abs(after - before) / (1.0 + np.abs(after)), initial=0.0))
        now, size = further, residual(stage, further)
        if size > max(best.residual, TOL.rounding) and k > 1:
            break
        if size <= max(best.residual, TOL.rounding):
            best = Polished(now, active, size, change)
        if best.is_enough:
            return best, now
    unmoved = Polished(
        first, active, residual(stage, first), math.inf if len(active.curves) else 0.0
    )
    return min(best, unmoved, key=lambda one: one.residual), now


def _exchanged(stage: Stage, active: Active, at: PrimalDualPoint) -> Active:
    """Without the rows that pull the wrong way, and with those that are violated.

    A cone leaves its tip along a ray where that cannot be reached, or where its multiplier is
    outside of the dual cone.
    """
    (w, y), rows, s = at, stage.blocks.nonnegative, stage.slack(at.w)
    terms = np.abs(stage.offset) + stage.row_sizes @ np.abs(w)
    kept = active.nonnegative[((y > 0.0) & (s <= TOL.percent * terms))[active.nonnegative]]
    missing = rows[s[rows] < 0.0]
    tips: list[Host] = []
    rays = list(active.rays)
    for cone in active.vertices:
        is_there = norm(s[cone]) <= TOL.accurate * norm(terms[cone])
        is_held = y[cone[0]] >= norm(y[cone[1:]])
        (tips if is_there and is_held else rays).append(cone)
    return Active(np.union1d(kept, missing), tuple(tips), tuple(rays), active.curves)


def residual(stage: Stage, at: PrimalDualPoint) -> float:
    """How far the conditions of optimality are from holding, relative to their terms.

    Of stationarity, of feasibility and of complementarity the largest.
    """
    w, y = at
    s, u = stage.slack(w), stage.image(w)
    F, q = stage.objective.squares, stage.objective.linear
    # A part of the program's unit where nothing else says what is small: at a w of 0.
    least = SMALL_PART * stage.unit
    has_size = stage.objective.target.any() or q.any()
    terms = stage.slope_terms(w if has_size else np.maximum(np.abs(w), least))
    size = norm(terms) + norm(stage.row_sizes.T @ np.abs(y))
    stationarity = norm(F.T @ u + q + stage.rows.T @ y) / (size or 1.0)
    # With the length of w: where all that binds is x_j >= 0, nothing else says what is small.
    reach = np.abs(stage.offset) + stage.lengths * (norm(w) + least)
    zero = stage.blocks.zero
    # Each constraint by its own terms: a far one says nothing about what is small for another.
    beyond = outside(stage.blocks, s) / of_inequalities(stage.blocks, reach)
    unmet = np.abs(s[zero]) / np.where(reach[zero] > 0.0, reach[zero], 1.0)
    off = max(norm(unmet), float(np.max(beyond, initial=0.0)))
    pull = float(np.abs(y) @ reach) + float(terms @ np.abs(w)) or 1.0
    inside = dual_point(stage.blocks, y)
    products = inside * s
    products[zero] = 0.0
    complementarity = abs(float(np.sum(products))) / pull
    duals = norm((y - inside) * stage.lengths) / (size or 1.0)
    return max(stationarity, off, complementarity, duals)


def _on_faces(stage: Stage, active: Active, at: PrimalDualPoint) -> Host:
    """y where only what binds has a multiplier."""
    y = np.zeros_like(at.y)
    for rows in (stage.blocks.zero, active.nonnegative, *active.vertices, *active.rays):
        y[rows] = at.y[rows]
    y[active.curves] = at.y[active.curves]
    return y


class _Curve(NamedTuple):
    """An equation c(s) = 0 of a cone's surface."""

    cone: Host  # its rows
    normal: Host  # c'(s)
    value: float  # c(s)
    bent: Host  # the rows in which it is curved
    bend: Host  # -c''(s) there: positive semidefinite

    def weight(self, y: Host) -> float:
        """The lambda of a y = lambda c'(s), by least squares."""
        return float(self.normal @ y[self.cone]) / float(self.normal @ self.normal)


def _curves(active: Active, s: Host) -> list[_Curve] | None:
    """The surfaces that s is on; None where it is at a tip, or outside of the function's domain."""
    found = []
    for cone in active.rays:  # s_0 - |s_1|
        length = norm(s[cone[1:]])
        if s[cone[0]] <= 0.0 or length == 0.0:
            return None
        unit = s[cone[1:]] / length
        bend = (np.eye(len(unit)) - np.outer(unit, unit)) / length
        value = float(s[cone[0]] - length)
        found.append(_Curve(cone, np.append(1.0, -unit), value, cone[1:], bend))
    for cone in active.curves:  # s_2 - s_1 exp(s_0 / s_1)
        s0, s1, s2 = s[cone]
        if s1 <= 0.0:
            return None
        ratio = s0 / s1
        rise = float(np.exp(min(ratio, 700.0)))
        normal = np.array([-rise, -rise * (1.0 - ratio), 1.0])
        side = np.array([1.0, -ratio])
        bend = rise / s1 * np.outer(side, side)
        found.append(_Curve(cone, normal, float(s2 - s1 * rise), cone[:2], bend))
    return found


def _step(stage: Stage, active: Active, at: PrimalDualPoint) -> PrimalDualPoint | None:
    """Newton's step, by the least correction; None where the equations cannot be solved."""
    s, rows = stage.slack(at.w), stage.rows
    flat = np.concatenate([stage.blocks.zero, active.nonnegative, *active.vertices]).astype(int)
    curves = _curves(active, s)
    if curves is None:
        return None
    J = stacked([rows[flat], _normals(curves, len(s)) @ rows])
    values = np.append(s[flat], [curve.value for curve in curves])
    weights = np.append(at.y[flat], [curve.weight(at.y) for curve in curves])
    deadline.check()
    H = _curvature(rows, curves, weights[len(flat) :])
    slope = stage.slope(at.w) + J.T @ weights
    moved = _corrected(stage.objective.squares, H, J, slope, values)
    if moved is None:
        return None
    w, weights = at.w + moved[0], weights + moved[1]
    curves = _curves(active, stage.slack(w))
    if curves is None:
        return None
    y = np.zeros_like(at.y)
    y[flat] = weights[: len(flat)]
    for curve, weight in zip(curves, weights[len(flat) :], strict=True):
        y[curve.cone] = weight * curve.normal
    return PrimalDualPoint(w, y)


def _normals(curves: list[_Curve], m: int) -> Any:
    """A row for each, of m entries."""
    from scipy.sparse import csr_array

    ends = np.cumsum([0, *(len(curve.cone) for curve in curves)])
    columns = np.concatenate([np.zeros(0, dtype=int), *(curve.cone for curve in curves)])
    values = np.concatenate([np.zeros(0), *(curve.normal for curve in curves)])
    return csr_array((values, columns, ends), shape=(len(curves), m))


def _curvature(rows: Any, curves: list[_Curve], weights: Host) -> Any:
    """The Hessian of the weighted curves in w; None where there is none."""
    from scipy.sparse import csr_array

    parts, pairs = [], []
    for curve, weight in zip(curves, np.maximum(weights, 0.0), strict=True):
        if len(curve.bent) == 2:
            pairs.append((curve.bent, weight * curve.bend))
            continue
        deadline.check()
        bent = dense(rows[curve.bent])
        parts.append(bent.T @ (weight * curve.bend) @ bent)
    if pairs:  # there may be thousands: all at once
        bent, bends = (np.array(part) for part in zip(*pairs, strict=True))
        count = 2 * len(pairs)
        columns = np.repeat(np.arange(count).reshape(-1, 2), 2, axis=0)
        places = columns.reshape(-1), 2 * np.arange(count + 1)
        blocks = csr_array((bends.reshape(-1), *places), shape=(count, count))
        those = rows[bent.reshape(-1)]
        parts.append(those.T @ (blocks @ those))
    return sum(parts[1:], parts[0]) if parts else None


def _corrected(F: Any, H: Any, J: Any, slope: Host, values: Host) -> tuple[Host, Host] | None:
    """The smallest (dw, dlambda) with (F'F + H) dw + J' dlambda = -slope, J dw = values.

    As one system in (F dw, dw, dlambda), so that F is not squared.
    """
    p, n, k = F.shape[0], F.shape[1], J.shape[0]
    K, right = kkt_matrix(F, H, J), np.concatenate([np.zeros(p), -slope, values])
    if p + n + k > FEW_EQUATIONS:
        found = regularised_solution(K, right, p + n)
    else:  # in units in which a row of little weight is no rounding error
        rows, columns = equilibrate(dense(K))
        found = least_solution(rows[:, None] * dense(K) * columns, rows * right)
        found = None if found is None else columns * found
    return None if found is None else (found[p : p + n], found[p + n :])
