"""Linear programs by HiGHS, and the directions along which a function has no minimum.

`proofs.recession` asks the same of a run that is under way: it proves that a direction is one for
the numbers as they are stored, and says nothing where it finds none. Here the answer is a decision
either way, with the rank of the data decided first: no direction means that there is a minimiser.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.exact.constants import PARALLEL
from tiebreak.linalg import EPS, Host, as_it_is, deadline, decide_rank
from tiebreak.linalg.host import norm

HIGHS_TOLERANCES = (1e-10, 1e-7)  # the second if the first fails: it may be too strict for HiGHS
NO_ZERO = 1e-7  # what HiGHS gives for a product of unit vectors is 0 up to its tolerance, or this
NO_ZERO_SUM = 1e-6  # the same for a sum of products
SURE_ZERO = 1e-9  # below this it is surely 0: with the first of the tolerances


def linear_program(
    cost: Host, rows: Any, right: Host, bounds: Any, equal: Host | None = None
) -> Host | None:
    """A minimiser of <cost, v> over {rows v <= right, equal v = 0} and bounds.

    None where HiGHS finds none.
    """
    zero = None if equal is None else np.zeros(len(equal))
    found = highs(cost, A_ub=rows, b_ub=right, A_eq=equal, b_eq=zero, bounds=bounds)
    return None if found is None else np.asarray(found.x)


def highs(cost: Host, presolve: bool = True, **program: Any) -> Any:
    """SciPy's answer to a linear program; None where HiGHS finds no minimiser."""
    from scipy.optimize import linprog

    for tolerance in HIGHS_TOLERANCES:
        deadline.check()
        options = {
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
            "time_limit": deadline.left(),
            "presolve": presolve,
        }
        found = linprog(cost, **program, options=options)
        deadline.check()
        if found.status == 0:
            return found
    return None


# --- directions of descent without end ------------------------------------------------------------


class Recession(NamedTuple):
    """A direction along which a function falls without end, or None; and whether it is certain."""

    direction: Host | None
    is_certain: bool = True


def linear_recession(c: Host, B: Host) -> Recession:
    """A direction v of the cone {B v <= 0}, rows of length 1, with <c, v> < 0."""
    if not c.any():
        return Recession(None)
    steepest = -c / norm(c)
    if np.all(B @ steepest <= 8 * EPS):
        return Recession(steepest)
    v = linear_program(-steepest, B, np.zeros(len(B)), (-1.0, 1.0))
    fall = math.nan if v is None else float(steepest @ v)
    return Recession(v) if fall > NO_ZERO else Recession(None, fall <= SURE_ZERO)


def logistic_recession(c: Host, B: Host, margins: Host, weights: Host) -> Recession:
    """The same for <c, v> + sum of weights_i log(1 + exp(-<margins_i, v>)), margins of length 1.

    Far out it is <c, v> + sum weights_i max(-<margins_i, v>, 0). It falls without end where that is
    negative, and also where that is 0 and some <margins_i, v> is not: an infimum not attained.
    With a weight of inf, exp(-<margins_i, v>) takes the place of the logarithm.
    In coordinates u, v = W u, in which the margins have orthonormal columns: then no direction that
    matters is small.
    """
    rank = decide_rank(margins, units=as_it_is(margins))
    r, V = rank.low, rank.basis
    W = np.hstack([V[:, :r] / rank.sigma[:r], V[:, r:]])
    U, tilt, cone = margins @ W, W.T @ c, B @ W
    cone /= np.maximum(np.sqrt(np.sum(cone * cone, axis=1)), PARALLEL)[:, None]
    found = _tilted(tilt, cone, U, weights) if c.any() else _separating(U, cone, r)
    if found.direction is None:
        return found._replace(is_certain=found.is_certain and rank.is_determined)
    v = W @ found.direction
    both = np.vstack([margins, c[None] / (norm(c) or 1.0)])
    visible = decide_rank(both, units=as_it_is(both))
    T = visible.basis[:, : visible.low]
    matters = T @ (T.T @ v)  # without what changes nothing, if that stays in the cone
    stays = np.all(B @ matters <= 8 * len(c) * EPS * norm(matters))
    return Recession(matters if stays else v)


def _separating(U: Host, cone: Host, r: int) -> Recession:
    """A direction u of the cone with U u >= 0 and not 0; U has r orthonormal columns, then zeros.

    Then the sum of U u is at least 1 where its first r entries have length 1: 0 or that.
    """
    rows = np.vstack([-U, cone])
    box = [(-1.0, 1.0)] * r + [(None, None)] * (U.shape[1] - r)
    u = linear_program(-np.sum(U, axis=0), rows, np.zeros(len(rows)), box)
    if u is None or float(np.sum(U @ u)) <= 0.5:
        return Recession(None, u is not None and float(np.sum(U @ u)) <= NO_ZERO_SUM)
    return _to_rounding(u, -U, cone)


def _tilted(tilt: Host, cone: Host, U: Host, weights: Host) -> Recession:
    """A direction along which <tilt, u> + sum weights_i max(-<U_i, u>, 0) falls, or stays at 0."""
    m, k = U.shape
    is_hard, weights = np.isinf(weights), np.where(np.isinf(weights), 0.0, weights)
    scale = norm(tilt) + norm(weights)
    far = np.concatenate([tilt, weights]) / scale  # of (u, z), z >= max(-U u, 0)
    rows = np.vstack([np.hstack([-U, -np.eye(m)]), np.hstack([cone, np.zeros((len(cone), m))])])
    zero, most = np.zeros(len(rows)), math.sqrt(k)
    box = [(-1.0, 1.0)] * k + [(0.0, 0.0 if hard else most) for hard in is_hard]
    v = linear_program(far, rows, zero, box)
    if v is not None and float(far @ v) < -NO_ZERO:
        return Recession(v[:k])
    least = float(np.min(weights[~is_hard], initial=math.inf))
    is_clear = v is not None and least > NO_ZERO_SUM * scale
    moved = -np.concatenate([np.sum(U, axis=0), 2.0 * np.ones(m)])  # -sum |<U_i, u>|
    v = linear_program(moved, np.vstack([rows, far]), np.append(zero, 0.0), box)
    if v is None or float(moved @ v) >= -NO_ZERO_SUM:
        return Recession(None, is_clear and v is not None)
    u = v[:k]
    down = U @ u < -NO_ZERO
    level = (tilt - weights[down] @ U[down]) / scale  # 0 along u
    return _to_rounding(u, np.where(down, 1.0, -1.0)[:, None] * U, np.vstack([cone, level]))


def _to_rounding(u: Host, downs: Host, cone: Host) -> Recession:
    """u with downs u <= 0 and not 0, and in the cone: to rounding, or it is not certain."""
    rows, size = np.vstack([downs, cone]), norm(downs @ u)
    near = np.abs(rows @ u) <= NO_ZERO * size
    deadline.check(0.5 * deadline.svd_work(*rows.shape))
    u = u - np.linalg.lstsq(rows[near], rows[near] @ u, rcond=PARALLEL)[0]
    is_inside = np.all(rows @ u <= 16 * len(u) * EPS * norm(u))
    return Recession(u) if is_inside and norm(downs @ u) > 0.5 * size else Recession(None, False)
