"""Computes lower bounds from a dual point, without trusting a solver's status.

Any u and any y in the dual cone give a bound for all feasible z:

    ½|F z - t|² + <q, z>  >=  -<u, t> - ½|u|² - <y, offset> + <r, z>,    r = F'u + q + rows'y.

All minimisers of earlier levels satisfy E z = E base up to the errors of these levels, where the
rows of E describe the images and faces of these levels. With suitable weights on these equations, r
+ E'weights is only rounding error, and

    <r, z - base>  >=  -|weights| |E (z - base)| - |r + E'weights| |z - base|.

The bounds account for all rounding errors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiebreak.conic.cones import LEAST, Blocks, dual_point, outside, steepness
from tiebreak.conic.equations import FEW_EQUATIONS, kkt_matrix, least_solution, regularised_solution
from tiebreak.conic.faces import ConicSet, HeldRows
from tiebreak.conic.polish import PrimalDualPoint
from tiebreak.conic.program import Cone, Objective
from tiebreak.conic.solver import clarabel_solve
from tiebreak.conic.stage import Stage, stacked
from tiebreak.linalg import EPS, TOL, Host
from tiebreak.linalg.conic_form import row_lengths, scaled_rows
from tiebreak.linalg.host import norm
from tiebreak.sets.polyhedra import contradicts


def lower_bound(
    h: Objective, constraints: ConicSet, y: Host, z: Host, held: list[HeldRows], most: Host
) -> float:
    """Return a lower bound on h over minimisers of the levels in ``held`` with |z_j| <= most_j."""
    rows, blocks, u = constraints.rows, Blocks.of(constraints.cones), h.squares @ z - h.target
    y, exact = _balanced_exponentials(h, rows, blocks, y)
    y = dual_point(blocks, y)
    r = h.squares.T @ u + h.linear + rows.T @ y
    unit = EPS * (max(len(u), len(y), len(z)) + 8)
    error = unit * (abs(h.squares).T @ np.abs(u) + np.abs(h.linear) + abs(rows).T @ np.abs(y))
    r[exact], error[exact] = 0.0, 0.0
    away = most + np.abs(z)
    rest, cost = _balanced(r, held, z, away)
    terms = np.array([u @ h.target, 0.5 * (u @ u), y @ constraints.offset, -(r @ z)])
    sizes = (np.abs(u) @ np.abs(h.target), terms[1], np.abs(y) @ np.abs(constraints.offset))
    size = float(sum(sizes) + np.abs(r) @ np.abs(z) + abs(h.constant))
    off = _times(np.abs(rest) + error, away)
    least = h.constant - float(np.sum(terms)) - off * (1.0 + unit) - cost * (1.0 + unit)
    is_square = not h.linear.any()  # if so, h is at least its constant
    bound = max(least - unit * size, h.constant if is_square else -math.inf)
    return bound - h.misfit(most) if h.misfits else bound


def _times(sizes: Host, away: Host) -> float:
    """Return <sizes, away>, where an entry of ``away`` may be infinite if its size is 0."""
    return float(sizes @ np.where(sizes > 0.0, away, 0.0))


def _balanced_exponentials(h: Objective, rows: Any, blocks: Blocks, y: Host) -> tuple[Host, Host]:
    """Change y so that the slope is 0 in variables that occur only as s_2 of one exponential cone.

    Return the new y, and these variables. Such a variable is the mean of a Poisson loss. This mean
    may be as large as exp(reach), so any rounding error in its slope would be too much.
    """
    tops = blocks.exponential[:, 2]
    if not len(tops):
        return y, tops
    import scipy.sparse as sp

    columns = sp.csc_array(rows)
    used = np.asarray(abs(h.squares).sum(axis=0)).ravel() > 0.0
    single = np.flatnonzero((np.diff(columns.indptr) == 1) & ~used)
    places, values = (part[columns.indptr[single]] for part in (columns.indices, columns.data))
    mine = np.isin(places, tops) & (np.abs(values) == 1.0) & (-h.linear[single] / values >= 0.0)
    y = y.copy()
    y[places[mine]] = -h.linear[single[mine]] / values[mine]
    # If several of these variables share a row, y can balance only one, unless they cost the same.
    exact = h.linear[single[mine]] + values[mine] * y[places[mine]] == 0.0
    return y, single[mine][exact]


def _balanced(r: Host, held: list[HeldRows], z: Host, away: Host) -> tuple[Host, float]:
    """Return the part of a slope that ``held`` does not balance; bound the effect of the rest.

    Any weights give a bound. We try weights that favour accurate equations to different degrees,
    and use those that give the best bound.
    """
    if not held or not r.any():
        return r, 0.0
    E = stacked([part.rows for part in held])
    lengths = row_lengths(E)
    lengths[lengths == 0.0] = 1.0
    offs = [part.off for part in held]
    values = np.concatenate([part.values for part in held])
    terms = abs(E) @ np.abs(z) + np.abs(values)
    missed = np.abs(E @ z - values) + EPS * (len(z) + 8) * terms  # the misfit of z itself
    each = (np.concatenate(offs) + missed) / lengths
    least = float(np.min(each[each > 0.0], initial=1.0))
    ends = np.cumsum([len(off) for off in offs])[:-1]
    found = []
    preferences = (1.0, TOL.far, TOL.far**2) if len(each) <= FEW_EQUATIONS else (1.0,)
    for preference in preferences:
        scale = 1.0 / (lengths * np.clip(each / least, 1.0, preference))
        unit = scaled_rows(E, scale)
        weights = _smallest_weights(unit, -r)
        rounding = EPS * (len(weights) + 8) * (np.abs(r) + abs(unit).T @ np.abs(weights))
        rest = np.abs(r + unit.T @ weights) + rounding
        some = np.split(weights * scale, ends)
        cost = sum(part.cost(w) for part, w in zip(held, some, strict=True))
        cost += float(np.abs(weights * scale) @ missed)
        found.append((cost + _times(rest, away), rest, cost))
    return min(found, key=lambda one: one[0])[1:]


def _smallest_weights(rows: Any, target: Host) -> Host:
    """Return small weights such that the weighted rows add up to the target, if possible."""
    if rows.shape[0] <= FEW_EQUATIONS:
        found = least_solution(rows.T, target, cutoff=TOL.met)
        return np.zeros(rows.shape[0]) if found is None else found
    k = rows.shape[0]
    import scipy.sparse as sp

    K = kkt_matrix(sp.csr_array((0, k)), sp.eye_array(k), sp.csr_array(rows).T)
    found = regularised_solution(K, np.concatenate([np.zeros(k), target]), k)
    return np.zeros(k) if found is None else found[:k]


def contradiction(constraints: ConicSet) -> Host | None:
    """Return multipliers that prove the constraints to be infeasible, or None if none are found.

    We minimise t such that all constraints, relaxed by t, are feasible (rows have lengths of about
    1), and return the multipliers of this problem. Small relative changes then make these
    multipliers balance the rows up to rounding.
    """
    import scipy.sparse as sp

    (rows, offset, cones), blocks = constraints, Blocks.of(constraints.cones)
    zero, one, (m, n), move = blocks.zero, blocks.nonnegative, rows.shape, np.ones((len(offset), 1))
    move[blocks.exponential[:, 0]] = -1.0
    move[[i for cone in blocks.second_order for i in cone[1:]]] = 0.0
    moved = [
        [sp.csr_array(rows), -move],
        [-sp.csr_array(rows[zero]), -move[zero]],
        [None, [[-1.0]]],
    ]
    kinds = [cone._replace(kind="nonnegative") if cone.kind == "zero" else cone for cone in cones]
    answer = clarabel_solve(
        Objective(sp.csr_array((0, n + 1)), np.zeros(0), np.eye(1, n + 1, n)[0]),
        sp.csr_array(sp.block_array(moved)),
        np.concatenate([offset, -offset[zero], [1.0]]),
        (*kinds, Cone("nonnegative", len(zero) + 1)),
        TOL.met,
    )
    y = answer.y[:m]
    y[zero] -= answer.y[m:-1]
    y[np.abs(y) < TOL.faint * np.max(np.abs(y), initial=0.0)] = 0.0
    # Each round gains as many digits as a least-squares solution has correct.
    for _ in range(3):
        y = dual_point(blocks, y)
        y += np.abs(y) * _smallest_weights(scaled_rows(rows, np.abs(y)), -(rows.T @ y))
    y, rest = dual_point(blocks, y), np.setdiff1d(np.arange(m), one)
    is_shown = contradicts(rows[one], offset[one], rows[rest], offset[rest], y[one], y[rest])
    return y if is_shown else None


def value_error(h: Objective, z: Host) -> float:
    """Bound the error of the computed value of the objective at z."""
    off = h.squares @ z - h.target
    unit = EPS * (max(len(off), len(z)) + 8)
    size = abs(h.squares) @ np.abs(z) + np.abs(h.target)
    sizes = np.abs(off) @ size + off @ off + np.abs(h.linear) @ np.abs(z)
    # The last term bounds the rounding errors even if off is 0.
    rounding = unit * float(sizes + abs(h.constant) + unit * (size @ size))
    return rounding + h.misfit(np.abs(z))


def clear_change(h: Objective, z: Host, least: float) -> float:
    """Return how much the objective must change near z for the change to exceed rounding clearly.

    A variable that is 0 is assumed to have the rounding error of the largest variable; we assume
    that the largest variable has at least the size ``least``.
    """
    longest = EPS * float(np.max(np.abs(z), initial=least))
    image = longest * np.asarray(abs(h.squares).sum(axis=1)).ravel()
    moved = longest * float(np.sum(np.abs(h.linear))) + 0.5 * float(image @ image)
    return TOL.clear_units * (value_error(h, z) + moved)


def slack_rounding(stage: Stage, w: Host, shift: float = 0.0) -> tuple[Host, Host]:
    """Bound the errors of the computed slacks of equations, and of the distances in `outside`.

    The errors are also those of all points at most ``shift`` away from w.
    """
    blocks, s = stage.blocks, stage.slack(w)
    unit = EPS * (sum(stage.rows.shape) + 8)
    terms = unit * (np.abs(stage.offset) + stage.row_sizes @ np.abs(w)) + stage.offset_error
    terms += shift * stage.lengths
    found = [terms[blocks.nonnegative]]
    found += [np.array([2.0 * norm(terms[cone])]) for cone in blocks.second_order]
    if len(blocks.exponential):  # error of s_2 - s_1 exp(s_0 / s_1), from derivatives
        (s0, s1, _), (t0, t1, t2) = s[blocks.exponential].T, terms[blocks.exponential].T
        ratio = s0 / np.maximum(s1, LEAST)
        rise = 2.0 * np.exp(np.minimum(ratio, 700.0))
        found.append(t2 + rise * (t0 + (1.0 + np.abs(ratio)) * (t1 + 8.0 * EPS * np.abs(s1))))
    return terms[blocks.zero], np.concatenate(found)


def value_inside(stage: Stage, at: PrimalDualPoint, inner: Host, stretch: float) -> float | None:
    """Return an upper bound on the least value, from a point w near ``at``.

    ``inner`` is the final point of the interior-point method. It usually satisfies all inequalities
    strictly; otherwise, return None. The equations hold at w + d: if w misses them by r, then E d =
    r and |d| <= ``stretch`` * |r|, with rows of length 1. So w must satisfy the inequalities by
    more than d can change them. For any y, the change of the objective is

        <slope, d> + ½|F d|²  <=  |<y, r>| + |slope + E'y| |d| + ½|F|² |d|².
    """
    zero, h = stage.blocks.zero, stage.objective
    if not math.isfinite(stretch):
        return None
    E, lengths, y = stage.rows[zero], np.where(stage.lengths > 0.0, stage.lengths, 1.0), at.y[zero]

    def missed(w: Host) -> Host:
        return np.abs(stage.slack(w)[zero]) + slack_rounding(stage, w)[0]

    def shift(w: Host) -> float:
        return stretch * norm(missed(w) / lengths[zero])

    def depth(w: Host, shift: float) -> Host:
        s = stage.slack(w)
        rounding = slack_rounding(stage, w, shift)[1] * steepness(stage.blocks, s)
        return np.asarray(-outside(stage.blocks, s) - rounding)

    near, deep = depth(at.w, shift(at.w)), depth(inner, 0.0)
    if np.any(deep <= 0.0):
        return None
    lacking = np.maximum(-near, 0.0)
    theta = float(np.max(lacking / (lacking + deep), initial=0.0))
    w = at.w + min(2.0 * theta, 1.0) * (inner - at.w)
    d = shift(w)
    if not np.all(depth(w, d) >= 0.0):  # nan counts as outside
        return None
    unit = EPS * (sum(h.squares.shape) + len(y) + 8)
    left = np.abs(stage.slope(w) + E.T @ y) + unit * (stage.slope_terms(w) + abs(E).T @ np.abs(y))
    image = d * norm(row_lengths(h.squares))
    cost = float(np.abs(y) @ missed(w)) + norm(left) * d + 0.5 * image * image
    return float(h.value(w) + value_error(h, w) + cost * (1.0 + unit))


def assumed_reach(reach: Host, z: Host, times: float) -> tuple[Host, bool]:
    """Bound |z_j| for some solution, and say whether all these bounds are proved.

    An unproved bound is ``times`` * |z|, because the program's units make the entries of z
    comparable.
    """
    is_known = np.isfinite(reach)
    return np.where(is_known, reach, times * (norm(z) or 1.0)), bool(np.all(is_known))
