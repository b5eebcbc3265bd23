"""A level without inequalities, solved by singular values without a solver."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.conic.program import Objective
from tiebreak.conic.stage import AffineSet, dense
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm
from tiebreak.linalg.rank import decide_rank
from tiebreak.linalg.spectra import EPS
from tiebreak.linalg.tolerances import TOL


class Fall(NamedTuple):
    """A direction in w along which a level is unbounded."""

    direction: Host


def least_squares(h: Objective, where: AffineSet) -> Host | Fall:
    """Return the smallest w that minimises ½|F z - t|² + <q, z>, or an unbounded direction.

    We use coordinates of the row space of F, where it has full rank and is not truncated again.
    """
    inner = where.objective(h)
    seen, _, _ = where.split(h.squares)
    q = inner.linear
    rest = q - seen @ (seen.T @ q)
    rest -= seen @ (seen.T @ rest)
    if norm(rest) > max(where.rounding, TOL.clear_units * len(q) * EPS) * norm(h.linear):
        return Fall(-rest)
    if not seen.shape[1]:
        return np.zeros(len(q))
    F = dense(inner.squares) @ seen
    left, R = np.linalg.qr(F)
    v = np.zeros(seen.shape[1])
    for _ in range(2):  # once more, to remove what rounding left
        off = F @ v - inner.target
        slope = np.linalg.solve(R.T, F.T @ off + seen.T @ q) if q.any() else left.T @ off
        v = v - np.linalg.solve(R, slope)
    return np.asarray(seen @ v)


def on_equations(rows: Host, offset: Host, where: AffineSet) -> AffineSet | None:
    """Return the points of an affine set with rows z = offset, or None if there is none."""
    inner, right = dense(where.columns(rows)), offset - rows @ where.base
    rank = decide_rank(inner)
    w = rank.moved(right, rank.low) if rank.low else np.zeros(inner.shape[1])
    if rank.low:  # once more, to remove what rounding left
        w = w + rank.moved(right - inner @ w, rank.low)
    z = where.point(w)
    size = np.abs(rows) @ np.abs(z) + np.abs(offset)
    if norm(offset - rows @ z) > TOL.accurate * (norm(size) or 1.0):
        return None
    return where.within(rows, z)
