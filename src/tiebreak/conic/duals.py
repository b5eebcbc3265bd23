"""Multipliers of the constraints at an answer, level by level, from the answer alone.

Whoever found it: at a minimiser z of a level its slope is balanced by the rows that bind there and
by what holds the levels before it. These are equations in the multipliers, and some of these are
not negative: a linear program for each level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiebreak.conic.cones import Blocks
from tiebreak.conic.program import ConicProgram
from tiebreak.conic.scaling import in_units
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.linear_programs import Ranges, linear_programs
from tiebreak.linalg.tolerances import TOL


def row_multipliers(
    program: ConicProgram, z: Host, is_cut: Sequence[bool | None]
) -> list[Host | None] | None:
    """For every level y with slope + rows'y = 0, up to what holds the levels before it.

    y >= 0 for inequalities, unless a level before it has made an equation of one. None where z is
    not known to balance a level, and for all if not all constraints are linear.

    Args:
        is_cut: of each level, None without a slack; otherwise whether all of its slack was used.
    """
    if any(cone.kind not in ("zero", "nonnegative") for cone in program.cones):
        return None
    import scipy.sparse as sp

    scaled, units = in_units(program)
    z, rows = z / units.lengths, sp.csr_array(scaled.rows)
    free = np.zeros(len(scaled.offset), dtype=bool)
    free[Blocks.of(scaled.cones).zero] = True
    size = abs(rows) @ np.abs(z) + np.abs(scaled.offset)
    active = free | (scaled.offset - rows @ z <= TOL.solver * size)
    held: list[Any] = []  # rows that pull both ways
    cuts: list[Any] = []
    found: list[Host | None] = []
    for h, unit, cut in zip(scaled.objectives, units.values, is_cut, strict=True):
        slope = h.squares.T @ (h.squares @ z - h.target) + h.linear
        if cut is not None:  # z gives something up: it is no minimiser of this level
            cuts += [sp.csr_array(slope[None])] if cut else []
            found.append(None)
            continue
        y = _balance(slope, rows, active, free, held, cuts)
        found.append(None if y is None else float(unit) * y / units.rows)
        if y is None:
            return [*found, *[None] * (len(is_cut) - len(found))]
        free = free | (active & (y > TOL.solver * float(np.max(np.abs(slope), initial=0.0))))
        held += [sp.csr_array(h.squares)] if h.squares.shape[0] else []
    return found


def _balance(
    slope: Host, rows: Any, active: Host, free: Host, held: list[Any], cuts: list[Any]
) -> Host | None:
    """Multipliers of the rows, 0 where they are not active, None if nothing balances the slope."""
    import scipy.sparse as sp

    n, where = len(slope), np.flatnonzero(active)
    one = sp.eye_array(n, format="csr")
    parts = [rows[where], *held, *cuts, one, -one]
    counts = [part.shape[0] for part in parts]
    low = np.zeros(sum(counts))
    low[: counts[0]][free[where]] = -np.inf
    low[counts[0] : counts[0] + sum(part.shape[0] for part in held)] = -np.inf
    cost = np.zeros(len(low))
    cost[len(low) - 2 * n :] = 1.0  # what is left unbalanced
    equations = sp.csr_array(sp.vstack(parts).T)
    ranges = Ranges(low, np.full(len(low), np.inf), -slope, -slope)
    vertex = linear_programs(equations).minimise(cost, ranges)
    if vertex is None:
        return None
    left = float(np.max(vertex.x[len(low) - 2 * n :], initial=0.0))
    if left > TOL.faint * float(np.max(np.abs(slope), initial=0.0)):
        return None
    y = np.zeros(rows.shape[0])
    y[where] = vertex.x[: len(where)]
    return y
