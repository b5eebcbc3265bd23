"""What a solved level leaves to the next: its image and its exposed faces become equations.

For every optimal y of a level, { z feasible : <y, s(z)> = 0, F z = F z* } is the set of all its
minimisers. No cut is needed, and no tolerance; a cut would let the next level gain sqrt(slack).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.cones import Active, Blocks
from tiebreak.conic.program import Cone
from tiebreak.conic.stage import Affine, row_lengths
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm


class Constraints(NamedTuple):
    """{ z : offset - rows z in K }."""

    rows: Any
    offset: Host
    cones: tuple[Cone, ...]

    def joined(self, rows: Any, offset: Host, *cones: Cone) -> Constraints:
        """With more of them."""
        import scipy.sparse as sp

        both = sp.vstack([self.rows, sp.csc_array(rows)], format="csc")
        return Constraints(both, np.append(self.offset, offset), (*self.cones, *cones))


class HeldRows(NamedTuple):
    """Equations that all minimisers of a level satisfy, and how far they may be off.

    On the true minimisers |equations z - their values| is at most ``linear`` * gap + ``root`` *
    sqrt(gap), where the gap is that of the level's value to its bound and at most ``limit``.
    """

    rows: Any
    linear: float
    root: float
    limit: float = np.inf

    def off(self, gap: float) -> float:
        """How far the equations may be off on the true minimisers."""
        return self.linear * gap + self.root * math.sqrt(gap) if gap <= self.limit else math.inf


def held_rows(
    constraints: Constraints, squares: Any, active: Active, s: Host, y: Host, reach: Host
) -> list[HeldRows]:
    """The equations of a level's minimisers: groups of rows with the same accuracy.

    From <y, s> + ½|F (z - z*)|² <= gap for all minimisers z; |s| <= reach there.
    """
    import scipy.sparse as sp

    rows, tiny = sp.csr_array(constraints.rows), np.finfo(float).tiny
    blocks = Blocks.of(constraints.cones)
    found = [HeldRows(rows[blocks.zero], 0.0, 0.0)]
    found += [HeldRows(rows[[j]], 1.0 / max(y[j], tiny), 0.0) for j in active.nonnegative]
    for cone in active.vertices:  # s_0 (y_0 - |y_1|) <= <y, s>
        inner = max(y[cone[0]] - norm(y[cone[1:]]), tiny)
        found.append(HeldRows(rows[cone], math.sqrt(2.0) / inner, 0.0))
    for cone in active.rays:  # s_0 - a <= gap / y_0, |across|² <= (s_0 - a) (s_0 + a)
        pull, size = max(y[cone[0]], tiny), float(reach[cone[0]])
        across = _across(ray_of(y[cone])).T @ rows[cone]
        found.append(HeldRows(across, 1.0 / pull, math.sqrt(2.0 * size / pull)))
    for cone in active.curves:  # s_1 e^r (e^d - 1 - d) <= gap / y_2, d = s_0 / s_1 - r
        slope, pull = math.exp(s[cone[0]] / s[cone[1]]), max(y[cone[2]], tiny)
        bend = math.sqrt(2.0 * s[cone[1]] / max(pull * slope, tiny))
        across = _across(s[cone]).T @ rows[cone]
        limit = 0.1 * pull * float(s[cone[1]]) * slope  # where |d| <= 1.3 sqrt(2 gap / ...)
        found.append(HeldRows(across, 1.0 / pull, 2.0 * bend * (1.0 + slope), limit))
    if squares.shape[0]:
        found.append(HeldRows(squares, 0.0, math.sqrt(2.0)))
    return [part for part in found if part.rows.shape[0]]


def remaining(constraints: Constraints, active: Active, s: Host, y: Host) -> Constraints:
    """The inequalities that a level's minimisers do not all satisfy with equality."""
    import scipy.sparse as sp

    rows, blocks = sp.csr_array(constraints.rows), Blocks.of(constraints.cones)
    taken = {int(cone[0]) for cone in (*active.vertices, *active.rays)}
    plain = np.setdiff1d(blocks.nonnegative, active.nonnegative)
    kept, offsets = [rows[plain]], [constraints.offset[plain]]
    sizes = len(plain)
    along = [(cone, ray_of(y[cone])) for cone in active.rays]
    along += [(cone, s[cone] / norm(s[cone])) for cone in active.curves]
    for cone, ray in along:  # its length is not negative
        kept.append(sp.csr_array(ray[None] @ rows[cone]))
        offsets.append(np.array([ray @ constraints.offset[cone]]))
        sizes += 1
    cones = [Cone("nonnegative", sizes)] if sizes else []
    for cone in blocks.second_order:
        if int(cone[0]) not in taken:
            kept.append(rows[cone])
            offsets.append(constraints.offset[cone])
            cones.append(Cone("second-order", len(cone)))
    gone = {int(cone[0]) for cone in active.curves}
    for cone in blocks.exponential:
        if int(cone[0]) not in gone:
            kept.append(rows[cone])
            offsets.append(constraints.offset[cone])
            cones.append(Cone("exponential", 3))
    return Constraints(sp.csc_array(sp.vstack(kept)), np.concatenate(offsets), tuple(cones))


def varying(constraints: Constraints, where: Affine) -> Constraints:
    """Without the inequalities that are constant on an affine set, of which a point is feasible."""
    lengths = row_lengths(where.columns(constraints.rows))
    kept, cones, end = [], [], 0
    for cone in constraints.cones:
        rows = np.arange(end, end + cone.size)
        end += cone.size
        moving = lengths[rows] > 0.0
        if cone.kind == "nonnegative":
            rows = rows[moving]
        if len(rows) and moving.any():
            kept.append(rows)
            cones.append(Cone(cone.kind, len(rows)))
    which = np.concatenate([np.zeros(0, dtype=np.int64), *kept])
    return Constraints(
        constraints.rows.tocsr()[which].tocsc(), constraints.offset[which], tuple(cones)
    )


def ray_of(y: Host) -> Host:
    """The ray of a second-order cone that is orthogonal to a y on the boundary of its dual."""
    ray = np.append(norm(y[1:]), -y[1:])
    return np.asarray(ray / norm(ray))


def _across(ray: Host) -> Host:
    """Orthonormal columns that complete the direction of a ray."""
    return np.asarray(np.linalg.svd(ray[None])[2][1:].T)
