"""Solves chains of linear levels on a polyhedron by HiGHS; reduced costs say which faces to hold.

With multipliers l of the rows and d = c - rows'l, for all x in the set

    <c, x>  =  <l, rows x> + <d, x>  >=  the sum of the least l_i s_i and the least d_j x_j.

Each minimum is over the range of the row or variable. The sum is a lower bound for any l. If this
bound is the minimum, every minimiser has l_i s_i and d_j x_j at their least values. So if l_i or
d_j is not 0, we hold one end of that range for later levels. Multipliers of a later level may pull
away from a held end. A multiple of the earlier level corrects such multipliers: <c, x> = <c + share
c_1, x> - share <c_1, x>, and <c_1, x> is at most the value found for level 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiebreak.conic.bounds import assumed_reach, clear_change
from tiebreak.conic.chain_solution import (
    LevelSolution,
    SlackRule,
    allowed_slack,
    word_of,
)
from tiebreak.conic.cones import Blocks
from tiebreak.conic.faces import ConicSet, open_directions
from tiebreak.conic.program import Cone, ConicProgram, Objective
from tiebreak.conic.stage import AffineSet, as_rows
from tiebreak.linalg import EPS, Host
from tiebreak.linalg.deferred import Deferred
from tiebreak.linalg.host_rows import exact_products
from tiebreak.linalg.linear_programs import Ranges, linear_programs
from tiebreak.linalg.tolerances import TOL
from tiebreak.sets.polyhedra import single_entries

BY_LINEAR_PROGRAMS = "linear programs by HiGHS, faces held by reduced costs"
LINEAR = ("zero", "nonnegative")
SOLVER = "HiGHS"


def linear_chain(program: ConicProgram, slacks: Sequence[SlackRule | None]) -> LinearChain | None:
    """Return the chain of a scaled program before its first level; None if it is not linear."""
    is_linear = all(cone.kind in LINEAR for cone in program.cones) and not any(
        h.squares.shape[0] or h.misfits for h in program.objectives
    )
    return LinearChain(program, slacks) if is_linear else None


class _HeldLevel(NamedTuple):
    """A held level; ``rows`` and ``columns`` are its multipliers for the ranges that it holds."""

    cost: Host
    duals: Host
    rows: Host
    columns: Host
    most: float  # an upper bound on the level's minimum, without the constant

    def share(self, duals: Host, slopes: Host) -> float:
        """Return the multiple of this level that brings other multipliers back to its held ends."""
        pulls, held = np.append(duals, slopes), np.append(self.rows, self.columns)
        away = np.divide(-pulls, held, out=np.zeros_like(held), where=held != 0.0)
        return float(np.max(away, initial=0.0))


class LinearChain:
    """The ranges of rows and variables that the levels solved so far leave."""

    def __init__(self, program: ConicProgram, slacks: Sequence[SlackRule | None]) -> None:
        import scipy.sparse as sp

        self.program, self.slacks = program, slacks
        self.all_rows = rows = sp.csr_array(program.rows)
        self.equal = np.zeros(len(program.offset), dtype=bool)
        self.equal[Blocks.of(program.cones).zero] = True
        least = np.where(self.equal, program.offset, -np.inf)
        low, high = np.full(program.size, -np.inf), np.full(program.size, np.inf)
        which, place, entry = single_entries(rows)
        some = ~self.equal[which]
        which, place, entry = which[some], place[some], entry[some]
        limit, is_above = program.offset[which] / entry, entry > 0.0
        np.minimum.at(high, place[is_above], limit[is_above])
        np.maximum.at(low, place[~is_above], limit[~is_above])
        kept = np.ones(len(least), dtype=bool)
        kept[which] = False
        # Levels with slack have their own row, which is inactive until they are solved.
        cuts = [i for i, slack in enumerate(slacks) if slack is not None]
        costs = sp.csr_array(np.array([program.objectives[i].linear for i in cuts]))
        self.rows = sp.csr_array(sp.vstack([rows[kept], costs])) if cuts else rows[kept]
        self.cuts = {level: self.rows.shape[0] - len(cuts) + k for k, level in enumerate(cuts)}
        free = np.full(len(cuts), np.inf)
        self.ranges = self.whole = Ranges(
            low, high, np.append(least[kept], -free), np.append(program.offset[kept], free)
        )
        self.turned, self.sizes = sp.csr_array(self.rows.T), abs(self.rows)
        self.turned_sizes = abs(self.turned)
        self.held: list[_HeldLevel] = []
        self.programs = linear_programs(self.rows)
        self.found: list[LevelSolution] = []
        self.z = np.zeros(program.size)
        self.is_whole = self.is_proved = True  # see `conic.chain`

    def level(self, number: int) -> bool:
        """Solve one level, bound it, and hold it; return False if that fails.

        The level fails if it has no minimiser, or if its minimiser fails a check. The other methods
        then find out why the level fails.
        """
        h = self.program.objectives[number]
        vertex = self.programs.minimise(h.linear, self.ranges)
        if vertex is None or not np.isfinite(vertex.x).all():
            return False
        z = np.clip(vertex.x, self.ranges.low, self.ranges.high)
        before, self.z = self.z, z
        best = math.fsum(h.linear * z) + h.constant
        rounding = 4.0 * EPS * (float(np.abs(h.linear) @ np.abs(z)) + abs(h.constant))
        duals, slopes = self._multipliers(h.linear, vertex.duals, self.ranges)
        most, is_known = assumed_reach(self.program.reach, z, TOL.assumed)
        bound = self._bound(h, duals, slopes, most)
        is_inside = self.is_whole and self._is_feasible(z)
        is_bound_proved = self.is_proved and is_known
        self.is_proved = is_bound_proved and is_inside
        above = 0.0 if is_inside else self._above(duals, slopes, z)
        gap = max(best - bound, 0.0) + rounding + above
        size = float(np.abs(h.linear) @ np.abs(z) + _largest(h.linear))
        if not gap <= 1e3 * TOL.accurate * size:  # the multipliers are unreliable
            return False
        word, why = word_of(self.is_proved, is_known, self.is_whole)
        clear = clear_change(h, z, 1.0)
        slack = allowed_slack(self.slacks[number], best, self.program.value(number, before), clear)
        if number - 1 in self.cuts and self.found[-1].slack > 0.0:
            price = max(-float(duals[self.cuts[number - 1]]), 0.0)
            self.found[-1] = self.found[-1]._replace(price=price)
        if slack > 0.0:
            self._cut(self.cuts[number], best + slack - h.constant)
            held = "cut"
        else:
            held = self._hold(h.linear, duals, slopes, best - h.constant + rounding + above)
        self.is_whole = self.is_whole and slack > 0.0
        self.found.append(
            LevelSolution(
                best=best,
                bound=bound,
                error=gap,
                value=best,
                slack=slack,
                dimension=self._dimension(),
                held=held,
                word=word,
                price=None,
                solver=SOLVER,
                residual=gap / (size or 1.0),
                is_bound_proved=is_bound_proved,
                why=why,
            )
        )
        return True

    def _multipliers(self, cost: Host, duals: Host, ranges: Ranges) -> tuple[Host, Host]:
        """Return multipliers of rows (0 if the end of the range is infinite) and of variables."""
        is_lost = np.isinf(np.where(duals > 0.0, ranges.least, ranges.most))
        duals = np.where(is_lost, 0.0, duals)
        return duals, cost - self.turned @ duals

    def _bound(self, h: Objective, duals: Host, slopes: Host, most: Host) -> float:
        """Return a lower bound on the level over all points that earlier levels allow."""
        cost, of_cost, rest, given = h.linear, np.abs(h.linear), 0.0, abs(h.constant)
        for level in reversed(self.held):
            if (share := level.share(duals, slopes)) > 0.0:
                cost, duals = cost + share * level.cost, duals + share * level.duals
                of_cost = of_cost + share * np.abs(level.cost)  # terms of a sum that may cancel
                slopes = cost - self.turned @ duals
                rest, given = rest + share * level.most, given + abs(share * level.most)
        low, high = np.maximum(self.whole.low, -most), np.minimum(self.whole.high, most)
        duals, slopes = self._multipliers(cost, duals, self.whole)
        terms = _least(duals, self.whole.least, self.whole.most), _least(slopes, low, high)
        # Bound the rounding of the slopes, which are sums of few terms; costs have one term per
        # level.
        count = np.diff(self.turned.indptr) + len(self.held) + 4
        sizes = of_cost + self.turned_sizes @ np.abs(duals)
        off = EPS * float((count * sizes) @ np.maximum(np.abs(low), np.abs(high)))
        size = sum(float(np.sum(np.abs(part))) for part in terms) + given
        total = math.fsum(np.concatenate(terms)) + h.constant - rest
        return total - 2.0 * off - (len(self.held) + 8) * EPS * size

    def _above(self, duals: Host, slopes: Host, z: Host) -> float:
        """Bound how far the minimum may exceed the value at z, to first order: see conic.chain."""
        s, (low, high, least, most) = self.rows @ z, self.ranges
        missed = np.maximum(np.maximum(least - s, s - most), 0.0)
        terms = EPS * (np.diff(self.rows.indptr) + 4) * (self.sizes @ np.abs(z))
        bounds = np.maximum(np.maximum(low - z, z - high), 0.0)
        return 2.0 * float(np.abs(duals) @ (missed + terms) + np.abs(slopes) @ bounds)

    def _is_feasible(self, z: Host) -> bool:
        """Does z satisfy all constraints to the last bit?"""
        cuts = list(self.cuts.values())
        s, slacks = exact_products(self.all_rows, z), exact_products(self.rows[cuts], z)
        if s is None or slacks is None or np.any(slacks > self.whole.most[cuts]):
            return False
        offset = self.program.offset
        return bool(np.all(np.where(self.equal, s == offset, s <= offset)))

    def _cut(self, row: int, most: float) -> None:
        """Set the upper bound of the level in this row."""
        self.ranges, self.whole = (
            some._replace(most=np.where(np.arange(len(some.most)) == row, most, some.most))
            for some in (self.ranges, self.whole)
        )

    def _hold(self, cost: Host, duals: Host, slopes: Host, most: float) -> str:
        """Narrow the ranges to the minimisers of a level; return how it is held."""
        # Reduced costs that hold an end are far above the tolerance of HiGHS.
        least, (low, high, lower, upper) = 100.0 * TOL.accurate * _largest(cost), self.ranges
        rows = np.where((lower < upper) & (np.abs(duals) > least), duals, 0.0)
        columns = np.where((low < high) & (np.abs(slopes) > least), slopes, 0.0)
        self.held.append(_HeldLevel(cost, duals, rows, columns, most))
        self.ranges = Ranges(*_ends(columns, low, high), *_ends(rows, lower, upper))
        if np.all(self.ranges.low == self.ranges.high):
            return "point"
        return "face" if rows.any() or columns.any() else "nothing"

    def _dimension(self) -> Deferred:
        """Return the dimension of the remaining choices of x, computed on demand."""
        ranges, z, own = self.ranges, self.z, self.program.variables

        def count() -> int | None:
            where, left = self.remaining(ranges, z)
            return open_directions(where, left, left.rows[:0], own, z)

        return Deferred(count)

    def remaining(self, ranges: Ranges, z: Host) -> tuple[AffineSet, ConicSet]:
        """Return the points that differ from z in free variables, and the constraints on them."""
        import scipy.sparse as sp

        low, high, least, most = ranges
        free, one = np.flatnonzero(low < high), sp.eye_array(len(low), format="csr")
        sees = np.diff(self.rows[:, free].indptr) > 0
        equal = (least == most)[sees]
        rows, least, most = self.rows[sees], least[sees], most[sees]
        parts = [(rows[equal], most[equal])]
        for inequalities, ends in (
            (rows[~equal], most[~equal]),
            (-rows[~equal], -least[~equal]),
            (one[free], high[free]),
            (-one[free], -low[free]),
        ):
            is_bound = np.isfinite(ends)
            parts.append((inequalities[is_bound], ends[is_bound]))
        offset = np.concatenate([ends for _, ends in parts])
        count = int(np.count_nonzero(equal))
        cones = Cone("zero", count), Cone("nonnegative", len(offset) - count)
        left = as_rows(sp.vstack([some for some, _ in parts]))
        where = AffineSet(z, sp.csc_array(one[:, free]))
        return where, ConicSet(left, offset, tuple(cone for cone in cones if cone.size))

    def give_back(self) -> None:
        """Return unused slack: if ties are left, minimise levels with slack once more, in order."""
        for level, h in zip(self.found, self.program.objectives, strict=True):
            if level.slack > 0.0 and np.any(self.ranges.low < self.ranges.high):
                vertex = self.programs.minimise(h.linear, self.ranges)
                if vertex is None:
                    return
                self.z = np.clip(vertex.x, self.ranges.low, self.ranges.high)
                self._hold(
                    h.linear, *self._multipliers(h.linear, vertex.duals, self.ranges), math.inf
                )


def _largest(values: Host) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def _least(weights: Host, low: Host, high: Host) -> Host:
    """Return the least value of each weight times a number in its range."""
    ends = np.where(weights > 0.0, low, np.where(weights < 0.0, high, 0.0))
    return np.asarray(weights * ends)


def _ends(weights: Host, low: Host, high: Host) -> tuple[Host, Host]:
    """Narrow each range with a nonzero weight to the end that minimises its product."""
    return np.where(weights < 0.0, high, low), np.where(weights > 0.0, low, high)
