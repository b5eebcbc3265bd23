"""Computes the multipliers of the constraints, level by level, from the final point alone.

Whichever method found the point, no direction d that keeps the active constraints and the earlier
levels improves a level to first order. So the linear program min <slope, d> has the minimum 0, and
its multipliers are those of the level.
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
    """Return y for every level with slope + rows'y = 0, up to what holds the earlier levels.

    y >= 0 for inequalities, unless an earlier level has turned one into an equation. None for a
    level that z is not known to balance, and for all if some constraints are not linear.

    Args:
        is_cut: for each level, None without slack; otherwise whether all of its slack was used.
    """
    if any(cone.kind not in ("zero", "nonnegative") for cone in program.cones):
        return None
    scaled, units = in_units(program)
    directions = _KeptDirections(scaled, z / units.lengths)
    found: list[Host | None] = []
    for number, (unit, cut) in enumerate(zip(units.values, is_cut, strict=True)):
        if cut is not None:  # z gives something up: it does not minimise this level
            directions.cuts += [number] * cut
            found.append(None)
            continue
        y = directions.multipliers(number)
        if y is None:
            return [*found, *[None] * (len(is_cut) - len(found))]
        found.append(float(unit) * y / units.rows)
    return found


class _KeptDirections:
    """Directions, of length at most 1, that keep the active rows and the earlier levels."""

    def __init__(self, program: ConicProgram, z: Host) -> None:
        import scipy.sparse as sp

        self.program, rows = program, sp.csr_array(program.rows)
        self.slopes = [
            h.squares.T @ (h.squares @ z - h.target) + h.linear for h in program.objectives
        ]
        self.free = np.zeros(len(program.offset), dtype=bool)  # rows that are equations
        self.free[Blocks.of(program.cones).zero] = True
        size = abs(rows) @ np.abs(z) + np.abs(program.offset)
        self.active = self.free | (program.offset - rows @ z <= TOL.solver * size)
        # The rows of the program come first, then those of the levels' squares, then the slopes.
        images = [sp.csr_array(h.squares) for h in program.objectives]
        parts = [rows, *images, sp.csr_array(np.array(self.slopes))]
        self.counts = np.cumsum([part.shape[0] for part in parts])
        self.rows = sp.csr_array(sp.vstack(parts))
        self.programs = linear_programs(self.rows)
        self.held: list[int] = []  # levels whose squares stay as they are
        self.cuts: list[int] = []  # levels that must not rise

    def _ranges(self) -> Ranges:
        count, n = self.rows.shape
        most, least = np.full(count, np.inf), np.full(count, -np.inf)
        most[: self.counts[0]][self.active] = 0.0
        least[: self.counts[0]][self.free] = 0.0
        for level in self.held:
            most[self.counts[level] : self.counts[level + 1]] = 0.0
            least[self.counts[level] : self.counts[level + 1]] = 0.0
        most[[self.counts[-2] + level for level in self.cuts]] = 0.0
        return Ranges(np.full(n, -1.0), np.full(n, 1.0), least, most)

    def multipliers(self, number: int) -> Host | None:
        """Return the rows' multipliers for a level, then hold it; None if it is not balanced."""
        slope = self.slopes[number]
        largest = float(np.max(np.abs(slope), initial=0.0))
        vertex = self.programs.minimise(slope, self._ranges())
        if vertex is None:
            return None
        left = slope - self.rows.T @ vertex.duals
        if np.max(np.abs(left), initial=0.0) > TOL.faint * largest:
            return None
        y = -vertex.duals[: self.counts[0]]
        self.free |= self.active & (y > TOL.solver * largest)
        self.held.append(number)
        return y
