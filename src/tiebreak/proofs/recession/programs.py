"""Searches all directions at once with linear programs, or rules them out with a Newton step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from tiebreak.linalg import AS_IT_IS, TOL, Host, deadline, decide_rank
from tiebreak.linalg.conic_form import scaled_rows
from tiebreak.linalg.host import norm, power_of_two
from tiebreak.linalg.host_rows import HostRows
from tiebreak.linalg.linear_programs import linear_program
from tiebreak.linalg.sizes import QUICK_SIDE
from tiebreak.problem import Problem
from tiebreak.proofs.recession.direction import as_meant, level_of, proved_direction
from tiebreak.proofs.recession.level import RecessionLevel
from tiebreak.sets.descriptions import stacked

LONG = 2**28  # if a factorisation needs more multiplications, a linear program takes minutes
ROUGH = 0.5  # allowed change of a margin: up to 1, second derivatives are still informative
LEAST = float(np.finfo(float).tiny)  # replaces 0 in denominators
HARDLY_FALLS = "whether {} is not determined: it hardly decreases, if at all"


class Recession(NamedTuple):
    """A direction along which a level decreases forever, or None, and whether this is certain."""

    direction: Host | None
    is_certain: bool = True


def recession(problem: Problem, level: int, n: int) -> Recession:
    """Does a level of a problem decrease forever (0: g, 1: f among the minimisers of g)?

    The answer is not certain if a linear program finds a direction that may be an artefact of
    rounding.
    """
    found = level_of(problem, level, n)
    if found is None or found.cone.curves:
        return Recession(None)
    guesses, doubtful = found.single_variables(), 0
    for d in chain(guesses, candidates(found)):
        if (proved := proved_direction(found, d)) is not None:
            return Recession(proved / norm(proved))
        doubtful += 1
    return Recession(None, doubtful == len(guesses))  # a wrong guess casts no doubt


def is_long(level: RecessionLevel) -> bool:
    """Would a linear program with the numbers of this level take minutes?"""
    return sum(rows.stored for rows in level.all_rows) * level.side > LONG


def candidates(level: RecessionLevel) -> Iterator[Host]:
    """Directions along which the level may decrease, found by linear programs.

    If the level decreases along some direction, a yielded direction is close to it.
    """
    if level.hidden or not (level.has_tails or level.linear.c.any()):
        return
    if not level.losses and level.cone.is_space:
        yield from _projections(level)
        return
    other, W = _in_own_units(level)
    if W is not None and proved_direction(level, d := W @ _common(level, other)) is not None:
        yield d
        return
    for u in _programs(other):
        if W is not None:
            yield from (W @ v for v in as_meant(other, u))
        yield from as_meant(level, u if W is None else W @ u)


def _in_own_units(level: RecessionLevel) -> tuple[RecessionLevel, Host | None]:
    """Change variables to u, with x = W u, so that the level's rows have orthonormal columns.

    In these variables, no descent is slow. The change is made only on R^n and only if it is quick;
    otherwise return the level itself and None.
    """
    n = len(level.linear.c)
    if not level.cone.is_space or n > QUICK_SIDE or is_long(level):
        return level, None
    rows = np.vstack([some.some(np.ones(some.shape[0])) for some in level.all_rows])
    rows = rows / np.maximum(np.sqrt(np.sum(rows * rows, axis=1)), LEAST)[:, None]
    deadline.check(deadline.svd_work(*rows.shape))
    rank = decide_rank(rows, units=AS_IT_IS)
    scale = np.append(1.0 / rank.sigma[: rank.low], np.ones(n - rank.low))
    W = rank.basis * scale
    sees = np.arange(n) < rank.low  # beyond the rank, directions are rounding errors

    def turned(some: HostRows) -> HostRows:
        return HostRows(np.where(sees, some.entries @ W, 0.0))

    losses = [loss._replace(rows=turned(loss.rows)) for loss in level.losses]
    fixed = [turned(some) for some in level.fixed]
    c = W.T @ level.linear.c
    c = np.where(sees | (np.abs(c) > TOL.met * norm(level.linear.c)), c, 0.0)
    linear = level.linear._replace(c=c)
    return level._replace(fixed=fixed, losses=losses, linear=linear), W


def _common(level: RecessionLevel, other: RecessionLevel) -> Host:
    """The direction, in scaled units, whose products divided by the rows' norms are closest to 1.

    In the least-squares sense, this direction is a sum of rows, because the columns are
    orthonormal. If all losses decrease along this direction, as they often do with more variables
    than examples, no linear program is needed.
    """
    pairs = zip(level.losses, other.losses, strict=True)
    sums = (own.rows.entries.T @ (1.0 / np.maximum(loss.rows.sizes, LEAST)) for loss, own in pairs)
    return sum(sums, np.zeros(len(level.linear.c)))


def _projections(level: RecessionLevel) -> Iterator[Host]:
    """Directions near that of steepest descent, for a level on R^n without losses."""
    c = level.linear.c
    E = np.vstack([np.zeros((0, len(c))), *(r.some(np.ones(r.shape[0])) for r in level.fixed)])
    d = -c / norm(c)
    for _ in range(2):  # the first projection's error grows with the condition number of E
        d -= np.linalg.lstsq(E, E @ d, rcond=TOL.touching)[0]
    if norm(d) > TOL.met:
        yield from as_meant(level, d)


def _programs(level: RecessionLevel) -> Iterator[Host]:
    """Candidate directions d with |d_j| <= 1, in scaled variables, found by HiGHS."""
    import scipy.sparse as sp

    n, cone = len(level.linear.c), level.cone
    groups = level.fixed, [loss.rows for loss in level.losses], [cone.rows]
    fixed, moved, within = (
        sp.csr_array(stacked([some.entries for some in group], n)) for group in groups
    )
    # Scale the columns and then the rows to similar sizes, by powers of two. The units of the
    # linear term and those of the rows are unrelated, so we scale the term's largest entry to that
    # of the rows.
    every = [fixed, moved, within, sp.csr_array((1, n))]
    tops, slopes = _largest(sp.vstack(every, format="csr"), 0), np.abs(level.linear.c)
    tops = np.maximum(tops, (np.max(tops) or 1.0) * (slopes / (np.max(slopes) or 1.0)))
    column = power_of_two(tops, -1.0)
    fixed, _ = _scaled_rows(fixed @ sp.diags_array(column))
    moved, scale = _scaled_rows(moved @ sp.diags_array(column))
    within, _ = _scaled_rows(within @ sp.diags_array(column))
    bounds = np.stack([np.maximum(cone.low, -1.0), np.minimum(cone.high, 1.0)], axis=1)
    bounds[tops == 0.0] = 0.0

    def solved(cost: Host, rows: Any, box: Host, least: float) -> Iterator[Host]:
        more = sp.csr_array((fixed.shape[0], len(cost) - n))
        equal = sp.hstack([fixed, more], format="csr")
        top = float(np.max(np.abs(cost), initial=0.0)) or 1.0
        found = linear_program(cost / top, rows, np.zeros(rows.shape[0]), box, equal)
        if found is None:
            yield np.full(n, math.nan)  # nan stands for an unknown direction
        elif float(cost @ found) < -least:
            yield column * found[:n]

    m, c = moved.shape[0], level.linear.c * column
    # Losses that reach their least value do not decrease forever, however far they move.
    may_fall = [bool(loss.tail) or not loss.is_steep for loss in level.losses]
    which = np.repeat(may_fall, [len(loss.weights) for loss in level.losses])
    total = np.asarray(moved[np.flatnonzero(which)].sum(axis=0)).reshape(-1)
    more, one = sp.csr_array((within.shape[0], m)), sp.eye_array(m)
    if not c.any():
        found = [*solved(-total, sp.vstack([-moved, within], format="csr"), bounds, TOL.solver)]
        yield from found
        if found:  # yield one more, along which all losses that can decrease do so clearly
            rows = sp.vstack([sp.hstack([-moved, one]), sp.hstack([within, more])], format="csr")
            box = np.vstack([np.stack([cone.low, cone.high], 1), np.tile([0.0, 1.0], (m, 1))])
            yield from solved(np.append(np.zeros(n), -np.ones(m)), rows, box, TOL.solver)
        return
    weights = np.concatenate([np.zeros(0), *(loss.slopes for loss in level.losses)])
    is_hard, weights = np.isinf(weights), np.where(np.isinf(weights), 0.0, weights)
    # the cost of (d, z) with z >= max(-M d, 0)
    cost = np.concatenate([c / norm(c), weights / scale / norm(c)])
    losses = sp.hstack([-moved, -one])
    rows = sp.vstack([losses, sp.hstack([within, more])], format="csr")
    box = np.vstack([bounds, np.tile([0.0, math.inf], (m, 1))])
    box[n:, 1][is_hard] = 0.0
    yield from solved(cost, rows, box, TOL.accurate)
    if m:  # if the slope is 0, some loss must change
        box[n:, 1] = np.where(is_hard, 0.0, float(n))
        flat = sp.vstack([rows, sp.csr_array(cost[None])], format="csr")
        yield from solved(-np.concatenate([total, 2.0 * np.ones(m)]), flat, box, TOL.solver)


def _largest(rows: Any, axis: int) -> Host:
    """The largest absolute value in every column (axis 0) or row (axis 1)."""
    return np.asarray(abs(rows).max(axis=axis).todense()).reshape(-1)


def _scaled_rows(rows: Any) -> tuple[Any, Host]:
    """The rows, scaled by powers of two to a largest entry of about 1 each, and the scales."""
    scale = power_of_two(_largest(rows, 1), -1.0)
    return scaled_rows(rows, scale), scale


def has_minimum_near(level: RecessionLevel, x: Host, slope: Host) -> bool:
    """Does a Newton step from x, where the level has this slope, suggest that there is a minimiser?

    The domain must be R^n. With v the step, theta_i = w_i p_i (1 - (1 - p_i) <m_i, v>) are slopes
    of the losses that balance the squares and the linear term. If no margin changes by 1, all
    theta_i are positive, so the level decreases forever along no direction (Stiemke). This test
    ignores rounding errors, so it proves nothing, but it saves a linear program.
    """
    n = len(x)
    if level.hidden or not (level.cone.is_space and n <= QUICK_SIDE):
        return False
    H = sum((rows.gram() for rows in level.fixed), np.zeros((n, n)))
    for loss in level.losses:
        H = H + loss.rows.gram(loss.curvature(x))
    v = np.linalg.pinv(H, rcond=TOL.touching, hermitian=True) @ -slope
    rest = H @ v + slope
    if not level.linear.c.any():  # apart from rounding errors, the slope is a sum of rows
        values, basis = np.linalg.eigh(sum((r.gram() for r in level.all_rows), np.zeros((n, n))))
        seen = basis[:, values > TOL.touching * values[-1]]
        rest = seen @ (seen.T @ rest)
    if not norm(rest) <= TOL.solver * norm(H) * norm(v):
        return False
    changes = (np.max(np.abs(loss.rows.entries @ v), initial=0.0) for loss in level.losses)
    return float(max(changes, default=0.0)) <= ROUGH
