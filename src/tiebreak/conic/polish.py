"""From the answer of an interior-point method to one that is exact to rounding, by Newton's method.

Where the exposed faces are known, a minimiser solves smooth equations: with c_k(s) = 0 for every
inequality that binds (s_j, s_0 - |s_1|, s_2 - s_1 exp(s_0 / s_1)) and y = sum of lambda_k c_k'(s),

    F'(F w - t) + q + rows' y = 0,     c(offset - rows w) = 0.

They have many solutions where there are ties: each step is the least correction, so that w stays
where the interior-point method put it, in the middle of the minimisers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.cones import CLEAR, Active, Pairs, dual_point, outside
from tiebreak.conic.stage import Stage
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm
from tiebreak.linalg.spectra import EPS

STEPS = 6  # of Newton's method: it doubles the digits, and begins with five or more
EXCHANGES = 4  # of inequalities that were taken for binding and are not, or the other way round
ENOUGH = 16 * EPS  # a residual, relative to its terms, that no step can reduce


class Multipliers(NamedTuple):
    """A point of the stage with multipliers."""

    w: Host
    y: Host


class Polished(NamedTuple):
    """A solution of a stage, the faces that it exposes, and how well the conditions hold."""

    at: Multipliers
    exposed: Active
    residual: float


def polished(stage: Stage, start: Multipliers) -> Polished:
    """The point and the multipliers after Newton's steps, or the start where these do not help.

    Pairs of which neither number is clearly positive may be 0 both: then they count as binding, so
    that Newton's equations hold, but expose no face.
    """
    size = norm(stage.slope_terms(start.w))

    def pairs(at: Multipliers) -> Pairs:
        return Pairs.of(stage.blocks, stage.slack(at.w), at.y, stage.lengths, size)

    first = pairs(start)
    active, most = (first.active(stage.blocks, factor) for factor in (CLEAR, 1.0 / CLEAR))
    best = Polished(start, active, residual(stage, start))
    for k in range(2 + EXCHANGES):
        found, last = _newton(stage, active, start)
        best = min(best, found, key=lambda one: one.residual)
        if best.residual <= ENOUGH:
            break
        active = most if k == 0 else _exchanged(stage, active, last)
    exposed = pairs(best.at).active(stage.blocks, CLEAR, CLEAR * max(best.residual, EPS))
    return best._replace(exposed=exposed)


def _newton(stage: Stage, active: Active, start: Multipliers) -> tuple[Polished, Multipliers]:
    """Newton's steps with these inequalities as equations: the best point on the way, and the last.

    The last solves these equations; it may violate inequalities that are not among them.
    """
    now = start._replace(y=_on_faces(stage, active, start))
    best = Polished(now, active, residual(stage, now))
    for k in range(STEPS):
        further = _step(stage, active, now)
        if further is None:
            break
        now, size = further, residual(stage, further)
        if size > max(best.residual, ENOUGH) and k > 1:
            break
        best = min(best, Polished(now, active, size), key=lambda one: one.residual)
        if size <= ENOUGH:
            break
    return best, now


def _exchanged(stage: Stage, active: Active, at: Multipliers) -> Active:
    """Without the rows that pull the wrong way, and with those that are violated."""
    s, rows = stage.slack(at.w), stage.blocks.nonnegative
    kept = active.nonnegative[at.y[active.nonnegative] > 0.0]
    missing = rows[s[rows] < 0.0]
    return active._replace(nonnegative=np.union1d(kept, missing))


def residual(stage: Stage, at: Multipliers) -> float:
    """How far the conditions of optimality are from holding, relative to their terms.

    Of stationarity, of feasibility and of complementarity the largest.
    """
    w, y = at
    s, u = stage.slack(w), stage.image(w)
    F, q = stage.objective.squares, stage.objective.linear
    size = norm(stage.slope_terms(w)) + norm(abs(stage.rows).T @ np.abs(y))
    stationarity = norm(F.T @ u + q + stage.rows.T @ y) / (size or 1.0)
    reach = np.abs(stage.offset) + abs(stage.rows) @ np.abs(w)
    scale = float(np.max(reach, initial=0.0)) or 1.0
    zero = stage.blocks.zero
    off = max(norm(s[zero]), float(np.max(outside(stage.blocks, s), initial=0.0))) / scale
    pull = float(np.sum(np.abs(y))) * scale + float(stage.slope_terms(w) @ np.abs(w)) or 1.0
    complementarity = abs(float(np.delete(y, zero) @ np.delete(s, zero))) / pull
    duals = norm((y - dual_point(stage.blocks, y)) * stage.lengths) / (size or 1.0)
    return max(stationarity, off, complementarity, duals)


class _Pieces(NamedTuple):
    """The equations c = 0, their slopes in s, and the curvature that they add."""

    normals: Any  # G: columns are the slopes of the equations with respect to s, sparse
    values: Host  # c
    curvature: Any  # of sum lambda_k c_k, with respect to s, with a minus: positive semidefinite


def _on_faces(stage: Stage, active: Active, at: Multipliers) -> Host:
    """y where only what binds has a multiplier."""
    y = np.zeros_like(at.y)
    for rows in (stage.blocks.zero, active.nonnegative, *active.vertices, *active.rays):
        y[rows] = at.y[rows]
    y[active.curves] = at.y[active.curves]
    return y


def _pieces(stage: Stage, active: Active, s: Host, y: Host) -> tuple[_Pieces, Host]:
    """The equations at s, and the lambda of y."""
    import scipy.sparse as sp

    m = len(s)
    flat = np.concatenate([stage.blocks.zero, active.nonnegative, *active.vertices]).astype(int)
    places, columns, slopes = [flat], [np.arange(len(flat))], [np.ones(len(flat))]
    values, weights = [s[flat]], [y[flat]]
    count = len(flat)
    bends: list[tuple[Host, Host]] = []
    for cone in active.rays:
        length = norm(s[cone[1:]])
        unit = s[cone[1:]] / length
        normal = np.append(1.0, -unit)
        weight = float(normal @ y[cone]) / 2.0
        places.append(cone)
        columns.append(np.full(len(cone), count))
        slopes.append(normal)
        values.append(np.array([s[cone[0]] - length]))
        weights.append(np.array([weight]))
        bend = np.eye(len(unit)) - np.outer(unit, unit)
        bends.append((cone[1:], max(weight, 0.0) / length * bend))
        count += 1
    for cone in active.curves:
        ratio = s[cone[0]] / s[cone[1]]
        rise = float(np.exp(min(ratio, 700.0)))
        normal = np.array([-rise, -rise * (1.0 - ratio), 1.0])
        weight = float(normal @ y[cone]) / float(normal @ normal)
        places.append(cone)
        columns.append(np.full(3, count))
        slopes.append(normal)
        values.append(np.array([s[cone[2]] - s[cone[1]] * rise]))
        weights.append(np.array([weight]))
        side = np.array([1.0, -ratio])
        bends.append((cone[:2], max(weight, 0.0) * rise / s[cone[1]] * np.outer(side, side)))
        count += 1
    G = sp.csr_array(
        (np.concatenate(slopes), (np.concatenate(places), np.concatenate(columns))), (m, count)
    )
    D = sp.csr_array((m, m))
    if bends:
        i, j, v = zip(
            *((np.repeat(p, len(p)), np.tile(p, len(p)), B.ravel()) for p, B in bends), strict=True
        )
        D = sp.csr_array((np.concatenate(v), (np.concatenate(i), np.concatenate(j))), (m, m))
    return _Pieces(G, np.concatenate(values), D), np.concatenate(weights)


def _step(stage: Stage, active: Active, at: Multipliers) -> Multipliers | None:
    """Newton's step, by the least correction; None where the equations cannot be solved."""
    s = stage.slack(at.w)
    found, weights = _pieces(stage, active, s, at.y)
    rows = stage.rows
    J = (found.normals.T @ rows) if hasattr(rows, "tocsr") else np.asarray(found.normals.T @ rows)
    D = found.curvature
    H = rows.T @ (D @ rows) if D.nnz else None
    slope = stage.slope(at.w) + J.T @ weights
    moved = _corrected(stage.objective.squares, H, J, slope, found.values)
    if moved is None:
        return None
    dw, more = moved
    w = at.w + dw
    s = stage.slack(w)
    if any(s[c[0]] <= 0.0 or norm(s[c[1:]]) == 0.0 for c in active.rays):
        return None
    if len(active.curves) and np.any(s[active.curves[:, 1]] <= 0.0):
        return None
    return Multipliers(w, _lifted(stage, active, s, weights + more))


def _lifted(stage: Stage, active: Active, s: Host, weights: Host) -> Host:
    """y of the weights, at the new s: on the boundary of the dual cone."""
    zeros = np.zeros_like(s)
    G = _pieces(stage, active, s, zeros)[0].normals
    return np.asarray(G @ weights)


def _corrected(F: Any, H: Any, J: Any, slope: Host, values: Host) -> tuple[Host, Host] | None:
    """The smallest (dw, dlambda) with (F'F + H) dw + J' dlambda = -slope, J dw = values.

    As one system in (F dw, dw, dlambda), so that F is not squared.
    """
    import scipy.linalg as la

    F = F.toarray() if hasattr(F, "toarray") else np.asarray(F)
    J = J.toarray() if hasattr(J, "toarray") else np.asarray(J)
    H = np.zeros((F.shape[1], F.shape[1])) if H is None else H
    H = H.toarray() if hasattr(H, "toarray") else np.asarray(H)
    p, n, k = len(F), F.shape[1], len(J)
    K = np.zeros((p + n + k, p + n + k))
    K[:p, :p] = -np.eye(p)
    K[:p, p : p + n] = F
    K[p : p + n, :p] = F.T
    K[p : p + n, p : p + n] = H
    K[p : p + n, p + n :] = J.T
    K[p + n :, p : p + n] = J
    right = np.concatenate([np.zeros(p), -slope, values])
    try:
        found = la.lstsq(K, right, cond=1e-13, lapack_driver="gelsy")[0]
    except (la.LinAlgError, ValueError):
        return None
    return found[p : p + n], found[p + n :]
