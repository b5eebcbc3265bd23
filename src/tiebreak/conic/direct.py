"""A level without inequalities: by singular values, with no solver."""

from __future__ import annotations

import numpy as np

from tiebreak.conic.polish import Multipliers
from tiebreak.conic.stage import Affine, Stage, dense
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm
from tiebreak.linalg.rank import decide_rank

FLAT = 1e-10  # a slope that is not seen by the squares is rounding below this, relative


def least_squares(stage: Stage) -> Multipliers | Host:
    """The smallest minimiser of ½|F w - t|² + <q, w>; a direction where it falls without end."""
    F, t, q = dense(stage.objective.squares), stage.objective.target, stage.objective.linear
    rank = decide_rank(F)
    none = np.zeros(0)
    d = F.shape[1]
    w = rank.moved(t, rank.low) if rank.low else np.zeros(d)
    if rank.low:  # once more, for what rounding left
        w = w + rank.moved(t - F @ w, rank.low)
    if q.any():
        seen = rank.basis[:, : rank.low]
        rest = q - seen @ (seen.T @ q)
        if norm(rest) > FLAT * norm(q):
            return np.asarray(-rest)
        # F'F d = -q: u with F'u = -q, and then F d = u.
        u = rank.weights(-q)
        w = w + rank.moved(u, rank.low)
    return Multipliers(w, none)


def on_equations(rows: Host, offset: Host) -> Affine | None:
    """{ z : rows z = offset }; None where there is no such z."""
    rank = decide_rank(rows)
    base = rank.moved(offset, rank.low) if rank.low else np.zeros(rows.shape[1])
    if rank.low:
        base = base + rank.moved(offset - rows @ base, rank.low)
    size = np.abs(rows) @ np.abs(base) + np.abs(offset)
    if norm(offset - rows @ base) > 1e-9 * (norm(size) or 1.0):
        return None
    return Affine(base, rank.basis[:, rank.low :])
