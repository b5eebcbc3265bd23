"""Levels with slack: their sublevel sets as cones."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.program import Cone, Objective
from tiebreak.conic.stage import dense
from tiebreak.linalg.arrays import Host


class Cut(NamedTuple):
    """The set { z : h(z) <= most } of a level as rows, an offset and a cone."""

    level: int
    row: int  # where it begins among the constraints
    rows: Any
    offset: Host
    cone: Cone
    scale: float


def sublevel(h: Objective, z: Host, slack: float) -> tuple[Any, Host, Cone, float]:
    """Return { h <= h(z) + slack } for a minimiser z as rows, offset, cone and scale.

    h(z + d) = h(z) + <slope, d> + ½|F d|². With tau = slack - <slope, d>: |F d|² <= 2 tau, or |(F
    d, tau/a - a/2)| <= tau/a + a/2 for any a > 0; with a² = 2 slack all terms have similar sizes.
    """
    slope = h.squares.T @ (h.squares @ z - h.target) + h.linear
    sizes = abs(h.squares)
    terms = sizes.T @ (sizes @ np.abs(z) + np.abs(h.target)) + np.abs(h.linear)
    slope[np.abs(slope) <= 64.0 * len(z) * np.finfo(float).eps * terms] = 0.0  # only rounding
    room = slack + float(slope @ z)
    if not h.squares.shape[0]:
        return slope[None], np.array([room]), Cone("nonnegative", 1), 1.0
    a, F = math.sqrt(2.0 * slack), dense(h.squares)
    rows = np.vstack([slope / a, slope / a, -F])
    offset = np.concatenate([[room / a + a / 2.0, room / a - a / 2.0], -(F @ z)])
    return rows, offset, Cone("second-order", len(offset)), a
