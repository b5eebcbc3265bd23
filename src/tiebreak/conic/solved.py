"""Solves one level with Clarabel and Newton's method, on the set that earlier levels leave."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tiebreak.conic.attained import is_way_down, slow_fall
from tiebreak.conic.cones import Active, outside
from tiebreak.conic.polish import PrimalDualPoint, SolvedStage, polished, residual
from tiebreak.conic.solver import clarabel_solve
from tiebreak.conic.stage import SVD_SIDE, Stage, dense
from tiebreak.linalg import TOL, Host, decide_rank
from tiebreak.linalg.host import norm

BALANCED = 1e-13  # a larger residual of the optimality conditions calls for another try
# If the norm of the second try's answer is larger by this factor, the infimum may not be attained:
# both tries end near a minimiser if there is one.
GROWS = 2.0


class Doubt(str):
    """The reason why there may be no minimiser, returned in place of an answer."""


class Fall(NamedTuple):
    """A direction along which a level seems to be unbounded, and the point where a solver ended.

    The point is known only if the level decreases slowly. A level with a slack needs no minimiser:
    unless it is unbounded, the point is its answer.
    """

    direction: Host
    found: SolvedStage | None = None


def unchanged(stage: Stage) -> SolvedStage:
    """Return the solution of a constant level: the previous point is optimal, like every point."""
    at = PrimalDualPoint(np.zeros(stage.rows.shape[1]), np.zeros(len(stage.offset)))
    return SolvedStage(stage, at, Active(), 0.0, 0.0)


def by_solver(stage: Stage) -> SolvedStage | Fall | str:
    """Solve the level with Clarabel and Newton's method, first without distant bounds.

    If the minimiser found without the distant bounds satisfies them, it is also a minimiser with
    them.
    """
    if (direct := _by_factorisation(stage)) is not None:
        return direct
    if (near := stage.without_far_bounds()) is not None:
        found = _by_solver(near)
        if isinstance(found, SolvedStage) and _is_inside(stage, near, found.at.w):
            return found._replace(stage=replace(stage, unit=near.unit))
    return _by_solver(stage)


def _by_factorisation(stage: Stage) -> SolvedStage | None:
    """Minimise a sum of squares without constraints; None for other levels, or if that fails.

    A solver ignores rows that are small relative to others. But if many points minimise the large
    rows, the small rows decide between these points.
    """
    F, t = stage.objective.squares, stage.objective.target
    if stage.cones or stage.objective.linear.any() or not 0 < min(F.shape) <= SVD_SIDE:
        return None
    rank = decide_rank(dense(F))
    seen = rank.basis[:, : rank.low]
    left, R = np.linalg.qr(F @ seen)
    v = np.zeros(rank.low)
    for _ in range(2):  # the second step removes rounding errors
        v = v - np.linalg.solve(R, left.T @ (F @ (seen @ v) - t))
    at = PrimalDualPoint(seen @ v, np.zeros(0))
    found = SolvedStage(stage, at, Active(), residual(stage, at), 0.0)
    return found if rank.is_determined and found.residual <= BALANCED else None


def _is_inside(stage: Stage, near: Stage, w: Host) -> bool:
    """Does w also satisfy the constraints that were left out?"""
    extra = np.maximum(outside(stage.blocks, stage.slack(w)), 0.0)
    return bool(np.all(extra <= np.maximum(outside(near.blocks, near.slack(w)), 0.0)))


def _is_drowned(found: SolvedStage) -> bool:
    """Is the slope more than rounding, but too small relative to its terms for a solver to see?"""
    terms = float(np.max(found.stage.slope_terms(found.at.w), initial=0.0))
    slope = float(np.max(np.abs(found.stage.slope(found.at.w)), initial=0.0))
    return BALANCED * terms < slope < TOL.faint * terms


def _by_solver(stage: Stage) -> SolvedStage | Fall | str:
    """Solve with these constraints; if the solver stalls, try again with stricter tolerances.

    Later tries solve for the difference from the point found, because Clarabel's accuracy is
    relative to the size of its input.
    """
    best: SolvedStage | None = None
    why, lengths = "", [stage.unit]
    # First stop slightly inside the constraints, where Newton's method can continue and a point is
    # certainly feasible. Then tighten the tolerance as far as possible, to see which constraints
    # bind.
    for tolerance in (TOL.half, TOL.met, TOL.met):
        center = None if best is None else best.at.w
        answer = clarabel_solve(
            stage.objective, stage.rows, stage.offset, stage.cones, tolerance, center
        )
        if answer.is_unbounded and best is None and is_way_down(stage, answer.z):
            return Fall(answer.z)
        if answer.is_infeasible or answer.is_unbounded:
            why = why or f"Clarabel found no feasible point ({answer.status})"
            continue
        if not (np.isfinite(answer.z).all() and np.isfinite(answer.y).all()):
            why = why or f"Clarabel returned numbers that are not finite ({answer.status})"
            continue
        lengths.append(norm(answer.z))
        start = PrimalDualPoint(answer.z, 0.0 * answer.y if stage.is_flat else answer.y)
        found = polished(stage, start)._replace(solver=answer.status, inner=answer.z)
        if best is None or (found.doubt, found.residual) <= (
            best.doubt,
            max(best.residual, BALANCED),
        ):
            best = found
        is_settled = best.residual <= (BALANCED if tolerance == TOL.half else TOL.half)
        if is_settled and not (best.doubt or _is_drowned(best)):
            break
    return why if best is None else _settled(best, lengths)


def _settled(best: SolvedStage, lengths: list[float]) -> SolvedStage | Fall | str:
    """Return the best of all tries, or the reason why it is not an answer.

    ``lengths``: the stage's unit, and the norm of each point that Clarabel returned.
    """
    is_clear = best.residual <= BALANCED and not best.doubt
    if not is_clear and len(lengths) > 2 and lengths[2] > GROWS * max(lengths[:2]):
        grown = f"its answer is {lengths[2] / lengths[1]:.2g} times as large"
        return Doubt(f"there may be no minimiser: with a stricter tolerance, {grown}")
    if (w := slow_fall(best.stage, best.at)) is not None:
        return Fall(w, best)
    if not best.residual <= TOL.half:
        return f"the optimality conditions hold only to {best.residual:.2g} ({best.solver})"
    return best
