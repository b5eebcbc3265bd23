"""Computes the multipliers of the constraints, level by level, from the final point alone.

Whichever method found the point, no direction d that respects the active constraints and the
earlier levels improves a level to first order. So the linear program min <slope, d> has the minimum
0, and its multipliers are those of the level.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiebreak.conic.cones import Blocks
from tiebreak.conic.program import ConicProgram
from tiebreak.conic.scaling import in_units
from tiebreak.linalg import Host
from tiebreak.linalg.linear_programs import Ranges, linear_programs
from tiebreak.linalg.tolerances import TOL


def row_multipliers(
    program: ConicProgram, z: Host, is_cut: Sequence[bool | None]
) -> list[Host | None] | None:
    """Return y for every level with slope + rows'y = 0, up to multipliers of the earlier levels.

    y >= 0 for inequalities, unless an earlier level has turned one into an equation. The result is
    None for a level that z is not known to balance, and for all levels if some constraints are not
    linear.

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
    is_active = is_equal | (offset - rows @ z <= TOL.solver * size)
    # The rows of the program come first, then those of the levels' squares, then the slopes.
    images = [sp.csr_array(h.squares) for h in scaled.objectives]
    parts = [rows, *images, sp.csr_array(np.array(slopes))]
    ends = np.cumsum([part.shape[0] for part in parts])
    all_rows = sp.csr_array(sp.vstack(parts))
    programs, (count, n) = linear_programs(all_rows), all_rows.shape
    # Directions of length at most 1 that respect the active rows and the earlier levels.
    least, most = np.full(count, -np.inf), np.full(count, np.inf)
    least[: ends[0]][is_equal], most[: ends[0]][is_active] = 0.0, 0.0
    for number, (unit, cut) in enumerate(zip(units.values, is_cut, strict=True)):
        if cut is not None:  # z gives some value up: it does not minimise this level
            most[ends[-2] + number] = 0.0 if cut else np.inf
            found.append(None)
            continue
        slope, largest = slopes[number], float(np.max(np.abs(slopes[number]), initial=0.0))
        ends_of_rows = least.copy(), most.copy()
        vertex = programs.minimise(slope, Ranges(np.full(n, -1.0), np.full(n, 1.0), *ends_of_rows))
        off = slope - all_rows.T @ vertex.duals if vertex is not None else slope
        if vertex is None or np.max(np.abs(off), initial=0.0) > TOL.faint * largest:
            return [*found, *[None] * (len(is_cut) - len(found))]
        y = -vertex.duals[: ends[0]]
        found.append(float(unit) * y / units.rows)
        # Later levels keep the rows in which this level has a multiplier, and the image of its
        # squares.
        least[: ends[0]][is_active & (y > TOL.solver * largest)] = 0.0
        least[ends[number] : ends[number + 1]] = 0.0
        most[ends[number] : ends[number + 1]] = 0.0
    return found
