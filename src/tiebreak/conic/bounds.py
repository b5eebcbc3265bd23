"""Lower bounds of our own: they need a dual point, and trust no status of a solver.

For any u, any y in the dual cone and all feasible w

    ½|F w - t|² + <q, w>  >=  -<u, t> - ½|u|² - <y, offset> + <F'u + q + rows'y, w>,

and the last term is at least -|F'u + q + rows'y| |w|. Rounding errors are counted.
"""

from __future__ import annotations

import numpy as np

from tiebreak.conic.cones import dual_point
from tiebreak.conic.polish import Multipliers
from tiebreak.conic.stage import Stage
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm

EPS = float(np.finfo(float).eps)


def lower_bound(stage: Stage, at: Multipliers, reach: float) -> float:
    """The objective is at least this on all feasible w with |w| <= reach."""
    least = _dual_value(stage, at, reach)
    if not stage.objective.linear.any():  # squares are not negative
        return max(least, stage.objective.constant)
    return least


def _dual_value(stage: Stage, at: Multipliers, reach: float) -> float:
    y, u = dual_point(stage.blocks, at.y), stage.image(at.w)
    F, t, q = stage.objective.squares, stage.objective.target, stage.objective.linear
    rest = F.T @ u + q + stage.rows.T @ y
    unit = EPS * (max(len(u), len(y), len(q)) + 8)
    error = unit * (abs(F).T @ np.abs(u) + np.abs(q) + abs(stage.rows).T @ np.abs(y))
    slope = norm(np.abs(rest) + error) * (1.0 + unit)
    terms = (float(u @ t), 0.5 * float(u @ u), float(y @ stage.offset))
    size = float(np.abs(u) @ np.abs(t)) + terms[1] + float(np.abs(y) @ np.abs(stage.offset))
    least = stage.objective.constant - sum(terms) - (slope * reach if slope > 0.0 else 0.0)
    return float(least - unit * (size + abs(stage.objective.constant) + abs(least)))


def value_error(stage: Stage, w: Host) -> float:
    """How far the computed value of the objective at w may be off."""
    off = stage.image(w)
    F, q = stage.objective.squares, stage.objective.linear
    unit = EPS * (max(len(off), len(w)) + 8)
    size = abs(F) @ np.abs(w) + np.abs(stage.objective.target)
    return unit * float(np.abs(off) @ size + off @ off + np.abs(q) @ np.abs(w)) + unit * abs(
        stage.objective.constant
    )
