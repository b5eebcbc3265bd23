"""What all minimisers have in common if Huber losses have outliers (`functions.parts.loss_parts`).

All minimisers have the same outliers. Each outlier adds an inequality to the slice, unless the
other shared rows already determine the product of its row with x.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.exact.polyhedra import PolyhedralRows
from tiebreak.functions import Parts
from tiebreak.functions.parts.loss_parts import ClippedPart
from tiebreak.linalg import TOL, Host, decide_rank, null_basis
from tiebreak.linalg.host import norm
from tiebreak.linalg.linear_programs import linear_program
from tiebreak.linalg.spectra import eigenvalues

AT_DELTA = (
    "not determined which rows are outliers: some residuals equal delta up to rounding, and the "
    "lower minimisers depend on it"
)
NO_RANK = "the rank of the rows that are not outliers is not determined, and f depends on it"
NOT_ON_BALL = (
    "some directions of the lower minimisers affect only outliers, so the lower minimisers do "
    "not form a slice of the ball: bound the variables instead"
)
NOT_L1 = (
    "some directions of the lower minimisers affect only outliers; then f = |x|_1 is not supported"
)


class SharedRows(NamedTuple):
    """Rows whose products are the same at all minimisers, and Z with the outliers' inequalities."""

    rows: Host
    Z: PolyhedralRows
    doubt: str = ""


class Outliers(NamedTuple):
    """Rows that are or may be outliers at a point, and their inequalities, scaled to norm 1."""

    seen: Host  # the rows of g that are neither linear nor outliers
    rows: Host
    offset: Host
    touches: Host  # for each inequality: is the residual delta, up to rounding?

    @classmethod
    def of(cls, g: Parts, x: Host) -> Outliers:
        """Return the outliers of all Huber losses in g."""
        none = np.zeros(0, dtype=bool)
        seen, rows, offsets, touching = [none], [np.zeros((0, g.n))], [np.zeros(0)], [none]
        for part in g.curved:
            outside = np.zeros(len(part.rows), dtype=bool)
            if isinstance(part, ClippedPart):
                kinks, lengths = part.kinks(x), part.lengths
                sizes = lengths * norm(x) + np.abs(part.target)
                touches = kinks.room <= TOL.met * sizes + TOL.touching * part.unit
                outside = (kinks.is_outlier | touches) & (lengths > 0.0)
                length = lengths[outside]
                sign = kinks.side[outside] / length
                rows.append(-sign[:, None] * part.rows[outside])
                offsets.append(-sign * part.target[outside] - kinks.bound[outside] / length)
                touching.append(touches[outside])
            seen.append(~outside)
        both = np.concatenate(rows), np.concatenate(offsets)
        return cls(np.concatenate(seen), *both, np.concatenate(touching))

    def are_clear(self, g: Parts, x: Host, Z: PolyhedralRows, held: Host) -> bool:
        """Are all rows that touch their kinks certainly outliers?

        All minimisers have the same slopes psi, so it suffices to find a minimiser where no row
        touches its kink: a point with the same slope of g and the same products with ``held``.
        """
        # Rows that nearly touch their kinks leave no room for a step, unless the step loosens these
        # rows too.
        half = TOL.touching**0.5 * (norm(x) + np.abs(self.offset))
        is_near = self.offset - self.rows @ x <= half
        ways = (self.touches, self.touches | is_near)
        return not self.touches.any() or any(self._leaves(g, x, Z, held, way) for way in ways)

    def _leaves(self, g: Parts, x: Host, Z: PolyhedralRows, held: Host, touches: Host) -> bool:
        """Do we reach a minimiser away from all kinks by loosening these inequalities?"""
        N = null_basis(held)
        rows, offset = np.vstack([Z.rows, self.rows]), np.append(Z.offset, self.offset)
        slack, rates = offset - rows @ x, rows @ N
        moves = np.sqrt(np.sum(rates * rates, axis=1)) > TOL.touching
        on = np.append(slack[: len(Z.rows)] <= TOL.touching * (norm(x) + np.abs(Z.offset)), touches)
        on &= moves
        # Find the direction that loosens the slowest of these inequalities as fast as possible.
        B, k = np.hstack([rates[on], np.ones((int(on.sum()), 1))]), N.shape[1]
        box = [(-1.0, 1.0)] * k + [(0.0, 1.0)]
        v = linear_program(np.append(np.zeros(k), -1.0), B, np.zeros(len(B)), box)
        if v is None or not v[k] > TOL.independent:
            return False
        rate = rates @ v[:k]
        ahead = moves & ~on & (rate > 0.0)
        step = float(np.min(slack[ahead] / rate[ahead], initial=1.0 + norm(x)))
        away = x + 0.5 * step * (N @ v[:k])
        before, after = g.slope(x), g.slope(away)
        is_same = norm(after.vector - before.vector) <= TOL.touching * max(before.size, after.size)
        loose = (offset - rows @ away)[on] > TOL.touching * (norm(away) + np.abs(offset[on]))
        return bool(is_same and loose.all())


def shared_rows(
    g: Parts, rows: Host, Z: PolyhedralRows, pressing: Host, x: Host, epsilon: float
) -> SharedRows:
    """Return the rows of g that have the same product with all minimisers; x is a minimiser.

    ``pressing``: rows of Z that are active at all minimisers. ``rows``: the rows of g, up to
    factors.
    """
    found = Outliers.of(g, x)
    if found.seen.all():
        return SharedRows(rows, Z)
    # Linear terms and outliers are not among the shared rows, whose slopes balance the slopes of
    # linear terms and outliers.
    seen = np.append(found.seen, np.zeros(len(rows) - len(found.seen), dtype=bool))
    held = np.vstack([Z.equal, pressing])
    some = np.vstack([rows[seen], held])
    if eigenvalues(some.T @ some)[0] > TOL.half * norm(some) ** 2:  # these rows determine x
        return SharedRows(rows, Z)
    every, mine = (decide_rank(R, epsilon) for R in (np.vstack([rows, held]), some))
    if mine.low == every.low == every.high:
        return SharedRows(rows, Z)
    doubt = "" if mine.is_determined else NO_RANK
    if not doubt and not found.are_clear(g, x, Z, some):
        doubt = AT_DELTA
    offset = np.append(Z.offset, found.offset)
    return SharedRows(
        rows[seen], Z._replace(rows=np.vstack([Z.rows, found.rows]), offset=offset), doubt
    )
