"""Refines the answer of an interior-point method to full precision with Newton's method.

If the exposed faces are known, a minimiser solves smooth equations. Let c_k(s) = 0 for every
inequality that binds (s_j, s_0 - |s_1|, s_2 - s_1 exp(s_0 / s_1)) and y = sum of lambda_k c_k'(s).
Then

    F'(F w - t) + q + rows' y = 0,     c(offset - rows w) = 0.

These equations have many solutions if there are ties. Each step is the smallest correction, so w
stays near the point of the interior-point method, in the middle of the minimisers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.cones import LEAST, Active, Pairs, dual_point, of_inequalities, outside
from tiebreak.conic.equations import FEW_EQUATIONS, kkt_matrix, least_solution, regularised_solution
from tiebreak.conic.stage import Stage, dense, stacked
from tiebreak.linalg import TOL, Host, deadline, equilibrate
from tiebreak.linalg.host import norm

LOST = (
    "is solved up to rounding, but some of its losses are so small relative to others, or to "
    "rounding errors, that their effect is lost"
)
SMALL_PART = 1e-3  # a point below this share of the program's length unit gives no scale


class PrimalDualPoint(NamedTuple):
    """A point w of a stage, with multipliers y."""

    w: Host
    y: Host


class SolvedStage(NamedTuple):
    """A stage and its solution, the faces that it exposes, and how well the conditions hold."""

    stage: Stage
    at: PrimalDualPoint
    active: Active
    residual: float
    # Change of the losses' margins in the last step. A remaining slope may be a rounding error for
    # losses with large weights, and yet the whole slope of losses with small weights.
    change: float = math.inf
    solver: str = ""
    inner: Host | None = None  # the point of the interior-point method

    @property
    def doubt(self) -> str:
        """Why the answer may be wrong, or ""."""
        return "" if self.change <= TOL.small_change else LOST

    @property
    def is_enough(self) -> bool:
        """Is the point as good as Newton steps can make it?"""
        return self.residual <= TOL.rounding and not self.doubt


def polished(stage: Stage, start: PrimalDualPoint) -> SolvedStage:
    """Return the solution after Newton steps, or the given solution if they do not improve it.

    If neither number of a pair is clearly positive, both may be 0. Such a pair counts as binding in
    Newton's equations, but exposes no face.
    """
    size = norm(stage.slope_terms(start.w))

    def pairs(at: PrimalDualPoint) -> Pairs:
        least = max(float(np.max(np.abs(at.w), initial=0.0)), SMALL_PART * stage.unit)
        return Pairs.of(stage.blocks, stage.slack(at.w), at.y, stage.lengths, size, least)

    first = pairs(start)
    active, most = (first.active(stage.blocks, factor) for factor in (TOL.apart, 1.0 / TOL.apart))
    best = SolvedStage(stage, start, active, math.inf)
    tried: list[tuple[bytes, ...]] = []
    while len(tried) < 2 + TOL.refinements and active.key not in tried:
        found, last = _newton(stage, active, start)
        best = min(best, found, key=lambda one: one.residual)
        if best.is_enough:
            break
        tried.append(active.key)
        active = _exchanged(stage, active, last) if most.key in tried else most
    if not best.is_enough:
        # Also try the tips of the cones: a point near a tip is too small to give a scale.
        tip, _ = _newton(stage, most, start._replace(w=np.zeros_like(start.w)))
        unpolished = best._replace(at=start, residual=residual(stage, start))
        best = min(best, tip, unpolished, key=lambda one: one.residual)
    least = max(TOL.touching, TOL.apart * best.residual)
    exposed = pairs(best.at).active(stage.blocks, TOL.apart, least)
    return best._replace(active=exposed, change=max(best.change, _held_wrongly(stage, best.at)))


def _held_wrongly(stage: Stage, at: PrimalDualPoint) -> float:
    """Return the largest share of any variable's slope that a wrong inequality balances.

    A wrong inequality is not active, or its multiplier has the wrong sign. Losses with small
    weights look like rounding errors relative to the other losses, so each variable in a loss is
    compared with its own slopes, and all other variables with the largest slope.
    """
    blocks, (w, y) = stage.blocks, at
    if not len(blocks.exponential):
        return 0.0
    size = stage.row_sizes
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
        share[cone] = np.max(share[cone])  # the first row of a cone may contain no variables
        wrong[cone] = y[cone] if is_free else wrong[cone]
    return float(np.max(np.abs(wrong) * share, initial=0.0))


def _margins(stage: Stage, curves: Host, w: Host) -> Host:
    """Return s_0 / s_1 of exponential cones."""
    first, second, _ = stage.slack(w)[curves].T
    return np.asarray(first / np.maximum(second, LEAST))


def _newton(
    stage: Stage, active: Active, start: PrimalDualPoint
) -> tuple[SolvedStage, PrimalDualPoint]:
    """Take Newton steps with these inequalities as equations; return the best and the last point.

    The last point solves these equations; it may violate other inequalities.
    """
    first = now = start._replace(y=_on_faces(stage, active, start))
    best = SolvedStage(stage, first, active, math.inf)
    is_linear = not (active.rays or len(active.curves))  # then one step solves the equations
    # Newton's method doubles the number of correct digits, starting from five or more.
    for k in range(6):
        further = _step(stage, active, now)
        if further is None:
            break
        before, after = (_margins(stage, active.curves, w) for w in (now.w, further.w))
        change = float(np.max(np.abs(after - before) / (1.0 + np.abs(after)), initial=0.0))
        now, size = further, residual(stage, further)
        if size > max(best.residual, TOL.rounding) and (k > 1 or is_linear):
            break
        if size <= max(best.residual, TOL.rounding):
            best = SolvedStage(stage, now, active, size, change)
        if best.is_enough:
            return best, now
    change = math.inf if len(active.curves) else 0.0
    unmoved = SolvedStage(stage, first, active, residual(stage, first), change)
    return min(best, unmoved, key=lambda one: one.residual), now


def _exchanged(stage: Stage, active: Active, at: PrimalDualPoint) -> Active:
    """Drop the rows whose multipliers have the wrong sign, and add those that are violated.

    We move a slack from its cone's tip to a ray if the tip cannot be reached, or if the multiplier
    is outside the dual cone.
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
    """Return the residual of the optimality conditions, relative to their terms.

    The residual is the largest violation of stationarity, feasibility and complementarity.
    """
    w, y = at
    s, u = stage.slack(w), stage.image(w)
    F, q = stage.objective.squares, stage.objective.linear
    # At w = 0 nothing else gives a scale, so use a share of the program's unit.
    least = SMALL_PART * stage.unit
    has_size = stage.objective.target.any() or q.any()
    moved = np.abs(w) if has_size else np.maximum(np.abs(w), least)
    terms = stage.slope_terms(moved)
    size = norm(terms) + norm(stage.row_sizes.T @ np.abs(y))
    stationarity = norm(F.T @ u + q + stage.rows.T @ y) / (size or 1.0)
    # Include the length of w: if only x_j >= 0 binds, nothing else gives a scale.
    reach = np.abs(stage.offset) + stage.lengths * (norm(w) + least)
    zero = stage.blocks.zero
    # Compare each constraint with its own terms: a distant constraint gives no scale for others.
    beyond = outside(stage.blocks, s) / of_inequalities(stage.blocks, reach)
    unmet = np.abs(s[zero]) / np.where(reach[zero] > 0.0, reach[zero], 1.0)
    off = max(norm(unmet), float(np.max(beyond, initial=0.0)))
    pull = float(np.abs(y) @ reach) + float(terms @ moved) or 1.0
    inside = dual_point(stage.blocks, y)
    products = inside * s
    products[zero] = 0.0
    complementarity = abs(float(np.sum(products))) / pull
    duals = norm((y - inside) * stage.lengths) / (size or 1.0)
    return max(stationarity, off, complementarity, duals)


def _on_faces(stage: Stage, active: Active, at: PrimalDualPoint) -> Host:
    """Return y with multipliers only for the inequalities that bind."""
    y = np.zeros_like(at.y)
    faces = (*active.vertices, *active.rays, active.curves)
    for rows in (stage.blocks.zero, active.nonnegative, *faces):
        y[rows] = at.y[rows]
    return y


class _Curve(NamedTuple):
    """An equation c(s) = 0 of a cone's surface."""

    cone: Host  # the rows of the cone
    normal: Host  # c'(s)
    value: float  # c(s)
    bent: Host  # the rows in which c is curved
    bend: Host  # -c''(s) there: positive semidefinite

    def weight(self, y: Host) -> float:
        """Return the least-squares solution lambda of y = lambda c'(s)."""
        return float(self.normal @ y[self.cone]) / float(self.normal @ self.normal)


def _curves(active: Active, s: Host) -> list[_Curve] | None:
    """Return the curved surfaces, expanded at s; None if s is at a tip or outside the domain."""
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
    """Take the smallest Newton step; return None if the equations cannot be solved."""
    s, rows = stage.slack(at.w), stage.rows
    flat = np.concatenate([stage.blocks.zero, active.nonnegative, *active.vertices]).astype(int)
    curves = _curves(active, s)
    if curves is None:
        return None
    normals = [_normals(curves, len(s)) @ rows] if curves else []
    J = stacked([rows[flat], *normals])
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
    """Return the normals of the curves as rows of a sparse matrix with m columns."""
    from scipy.sparse import csr_array

    ends = np.cumsum([0, *(len(curve.cone) for curve in curves)])
    columns = np.concatenate([np.zeros(0, dtype=int), *(curve.cone for curve in curves)])
    values = np.concatenate([np.zeros(0), *(curve.normal for curve in curves)])
    return csr_array((values, columns, ends), shape=(len(curves), m))


def _curvature(rows: Any, curves: list[_Curve], weights: Host) -> Any:
    """Return the Hessian of the weighted curves in w, or None if there are no curves."""
    from scipy.sparse import csr_array

    if not curves:
        return None
    deadline.check()
    pairs = zip(curves, np.maximum(weights, 0.0), strict=True)
    bends = [weight * curve.bend for curve, weight in pairs]
    places = [curve.bent for curve in curves]
    # Use one block for each curve, because there may be thousands.
    sizes, bent = np.array([len(some) for some in places]), rows[np.concatenate(places)]
    firsts, ends = np.cumsum(sizes) - sizes, np.append(0, np.cumsum(np.repeat(sizes, sizes)))
    columns = [first + np.tile(np.arange(k), k) for first, k in zip(firsts, sizes, strict=True)]
    values = np.concatenate([bend.reshape(-1) for bend in bends])
    blocks = csr_array((values, np.concatenate(columns), ends), shape=(bent.shape[0],) * 2)
    return bent.T @ (blocks @ bent)


def _corrected(F: Any, H: Any, J: Any, slope: Host, values: Host) -> tuple[Host, Host] | None:
    """Return the smallest (dw, dlambda) with (F'F + H) dw + J' dlambda = -slope, J dw = values.

    The unknowns of the system are (F dw, dw, dlambda), so that F is not squared. If F is diagonal,
    as for a norm, its squares lose no digits.
    """
    if H is None and not isinstance(F, np.ndarray) and F.nnz == np.count_nonzero(F.diagonal()):
        F, H = F[:0], F.T @ F
    p, n, k = F.shape[0], F.shape[1], J.shape[0]
    K, right = kkt_matrix(F, H, J), np.concatenate([np.zeros(p), -slope, values])
    if p + n + k > FEW_EQUATIONS:
        found = regularised_solution(K, right, p + n)
    else:  # use units in which a row of small weight is not lost in rounding
        rows, columns = equilibrate(dense(K))
        found = least_solution(rows[:, None] * dense(K) * columns, rows * right)
        found = None if found is None else columns * found
    return None if found is None else (found[p : p + n], found[p + n :])
