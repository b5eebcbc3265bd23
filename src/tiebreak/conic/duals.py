"""Computes the multipliers of the constraints, level by level, from the final point alone.

Whatever method found the point, no direction d that respects the active constraints and the
earlier levels improves a level to first order. So the linear program min <slope, d> has the minimum
0, and its multipliers are those of the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiebreak.conic.cones import Blocks
from tiebreak.conic.equations import kkt_matrix, regularised_solution
from tiebreak.conic.program import ConicProgram
from tiebreak.conic.scaling import in_units
from tiebreak.linalg import TOL, Host
from tiebreak.linalg.linear_programs import Ranges, linear_programs


def row_multipliers(
    program: ConicProgram, z: Host, is_cut: Sequence[bool | None]
) -> list[Host | None] | None:
    """Return a y for every level with slope + rows'y = 0, up to multipliers of the earlier levels.

    y >= 0 for inequalities, unless an earlier level has turned one into an equation. y is None for
    a level whose slope is not known to be balanced at z. The result is None if some constraints are
    not linear. If several y are possible, each is a subgradient of the first level's best value.
    This is not true of later levels, so their entries that are not unique are nan.

    Args:
        is_cut: for each level, None without slack; otherwise whether all of its slack was used.
    """
    import scipy.sparse as sp

    if any(cone.kind not in ("zero", "nonnegative") for cone in program.cones):
        return None
    (scaled, units), found = in_units(program), list[Host | None]()
    z, rows, offset = z / units.lengths, sp.csr_array(scaled.rows), scaled.offset
    slopes = [h.squares.T @ (h.squares @ z - h.target) + h.linear for h in scaled.objectives]
    size = abs(rows) @ np.abs(z) + np.abs(offset)
    is_equal = np.isin(np.arange(len(offset)), Blocks.of(scaled.cones).zero)
    room = np.maximum(offset - rows @ z, 0.0)
    is_active = is_equal | (room <= TOL.solver * size)
    # Far from the origin, rows may seem active that are not. Multipliers prefer rows with little
    # room if these rows allow directions in proportion to their room.
    room[is_equal] = 0.0
    room *= TOL.faint / (np.max(room[is_active], initial=0.0) or 1.0)
    # The program's rows come first, then the levels' slopes: these rows cap levels with slack.
    all_rows = sp.csr_array(sp.vstack([rows, sp.csr_array(np.array(slopes))]))
    programs, (count, n) = linear_programs(all_rows), all_rows.shape
    # Consider directions with entries in [-1, 1] that respect active rows, caps and earlier levels.
    least, most = np.full(count, -np.inf), np.full(count, np.inf)
    least[: len(offset)][is_equal], most[: len(offset)][is_active] = 0.0, room[is_active]
    is_cap = np.array([bool(cut) for cut in is_cut])
    is_open = _dependent(all_rows, np.append(is_active, is_cap))[: len(offset)]
    for number, (unit, cut) in enumerate(zip(units.values, is_cut, strict=True)):
        if cut is not None:  # z uses some slack: it does not minimise this level
            most[len(offset) + number] = 0.0 if cut else np.inf
            found.append(None)
            continue
        slope, largest = slopes[number], float(np.max(np.abs(slopes[number]), initial=0.0))
        ends_of_rows = least.copy(), most.copy()
        vertex = programs.minimise(slope, Ranges(np.full(n, -1.0), np.full(n, 1.0), *ends_of_rows))
        off = slope - all_rows.T @ vertex.duals if vertex is not None else slope
        if vertex is None or np.max(np.abs(off), initial=0.0) > TOL.faint * largest:
            return [*found, *[None] * (len(is_cut) - len(found))]
        y = -vertex.duals
        first = all(one is None for one in found)
        ours = float(unit) * y[: len(offset)] / units.rows
        found.append(ours if first else np.where(is_open, np.nan, ours))
        # Later levels keep the rows and caps that this one needs. They also keep the values of its
        # squared terms. These values change with the right-hand sides of the rows, so a later level
        # that relies on them has no multipliers.
        is_held = np.isfinite(most) & (y > TOL.solver * largest)
        least[is_held] = most[is_held] = 0.0
    return found


def _dependent(rows: Any, is_active: Host) -> Host:
    """Return the active rows that are combinations of other active rows.

    We take a random combination of the active rows that is 0: its entry for a row is nonzero if and
    only if that row is a combination of the others. Bounds of single variables can complete any
    combination of the other rows that is 0 for the variables without an active bound. So only those
    rows and variables are factorised.
    """
    import scipy.sparse as sp

    active = rows[np.flatnonzero(is_active)]
    active.eliminate_zeros()
    is_bound = np.diff(active.indptr) == 1
    bounds = np.bincount(active[is_bound].indices, minlength=active.shape[1])
    plain, found = active[~is_bound], is_active.copy()
    free = plain[:, bounds == 0]
    k, n = free.shape
    right = np.append(np.random.default_rng(0).standard_normal(k), np.zeros(n))
    K = kkt_matrix(free, None, sp.csr_array((0, n)))
    off = regularised_solution(K, right, k + n) if k else right
    if off is not None:
        weights = off[:k]
        is_needed = np.abs(plain.T @ weights) > TOL.faint * np.sum(abs(plain), axis=0)
        which = np.flatnonzero(is_active)
        found[which[~is_bound]] = np.abs(weights) > TOL.faint
        found[which[is_bound]] = ((bounds > 1) | is_needed)[active[is_bound].indices]
    return found
