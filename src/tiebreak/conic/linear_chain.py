"""Solves chains of linear levels on a polyhedron by HiGHS; reduced costs say which faces to hold.

With multipliers l of the rows and d = c - rows'l, for all x in the set

    <c, x>  =  <l, rows x> + <d, x>  >=  the sum of the least l_i s_i and the least d_j x_j,

each over the range of that row or variable. This is a lower bound for any l. If it is the minimum,
a minimiser has l_i s_i and d_j x_j at their least values. So if l_i or d_j is not 0, we hold one
end of its range for later levels. Multipliers of a later level may pull away from a held end. A
share of the earlier level corrects them: <c, x> = <c + share c_1, x> - share <c_1, x>, and
<c_1, x> is at most the value found for it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiebreak.conic.bounds import assumed_reach, clear_change
from tiebreak.conic.chain_solution import (
    ChainSolution,
    LevelSolution,
    SlackRule,
    Told,
    allowed_slack,
    cut_short,
    word_of,
)
from tiebreak.conic.cones import Blocks
from tiebreak.conic.faces import ConicSet, open_directions
from tiebreak.conic.program import Cone, ConicProgram, Objective
from tiebreak.conic.solved import SolvedStage, by_solver
from tiebreak.conic.stage import AffineSet, Stage, as_rows, stacked
from tiebreak.linalg import EPS, Host, deadline
from tiebreak.linalg.deferred import Deferred
from tiebreak.linalg.host_rows import exact_products
from tiebreak.linalg.linear_programs import Ranges, linear_programs
from tiebreak.linalg.rank import sparse_nullity
from tiebreak.linalg.tolerances import TOL
from tiebreak.sets.polyhedra import single_entries

METHOD = "linear programs by HiGHS, faces held by reduced costs"
LINEAR = ("zero", "nonnegative")
SOLVER = "HiGHS"


def linear_chain(
    program: ConicProgram, slacks: Sequence[SlackRule | None], lengths: Host, solved: Told
) -> ChainSolution | None:
    """Solve all levels of a scaled program; return None if this method does not apply.

    It does not apply if something is not linear, if a level has no minimiser, or if a minimiser
    fails a check. Other methods then find out why.
    """
    is_linear = all(cone.kind in LINEAR for cone in program.cones) and not any(
        h.squares.shape[0] or h.misfits for h in program.objectives
    )
    if not is_linear:
        return None
    chain = _LinearChain(program, [*slacks, None], lengths)
    for number in range(len(program.objectives)):
        try:
            if not chain.level(number):
                return None
            solved(number, chain.found[-1].best)
        except deadline.Over as over:
            z = np.zeros(program.size) if chain.z is None else chain.z
            return ChainSolution(z, chain.valued(z), *cut_short(over, number))
    with contextlib.suppress(deadline.Over, MemoryError):
        chain.give_back()
        chain.least_norm()
    return chain.end()


class _HeldLevel(NamedTuple):
    """A held level; ``rows`` and ``columns`` are its multipliers where it holds a range."""

    cost: Host
    duals: Host
    rows: Host
    columns: Host
    most: float  # an upper bound on its minimum, without the constant

    def share(self, duals: Host, slopes: Host) -> float:
        """Return how many times to add its multipliers to bring others back to its held ends."""
        pulls, held = np.append(duals, slopes), np.append(self.rows, self.columns)
        away = np.divide(-pulls, held, out=np.zeros_like(held), where=held != 0.0)
        return float(np.max(away, initial=0.0))


class _LinearChain:
    """The ranges of rows and variables that the levels solved so far leave."""

    def __init__(
        self, program: ConicProgram, slacks: Sequence[SlackRule | None], lengths: Host
    ) -> None:
        import scipy.sparse as sp

        self.program, self.slacks, self.lengths = program, slacks, lengths
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
        self.z: Host | None = None
        self.is_whole = self.is_proved = True  # see `conic.chain`
        self.is_least = False

    def level(self, number: int) -> bool:
        """Solve one level, bound it, and hold it; return False if that fails."""
        h = self.program.objectives[number]
        vertex = self.programs.minimise(h.linear, self.ranges)
        if vertex is None or not np.isfinite(vertex.x).all():
            return False
        z = np.clip(vertex.x, self.ranges.low, self.ranges.high)
        before, self.z = np.zeros_like(z) if self.z is None else self.z, z
        best, rounding = math.fsum(h.linear * z) + h.constant, _value_error(h, z)
        duals, slopes = self._multipliers(h.linear, vertex.duals, self.ranges)
        most, is_known = assumed_reach(self.program.reach, z, TOL.assumed)
        bound = self._bound(h, duals, slopes, most)
        is_inside = self.is_whole and self._is_feasible(z)
        is_bound_proved = self.is_proved and is_known
        self.is_proved = is_bound_proved and is_inside
        above = 0.0 if is_inside else self._above(duals, slopes, z)
        gap = max(best - bound, 0.0) + rounding + above
        size = float(np.abs(h.linear) @ np.abs(z) + _largest(h.linear))
        if not gap <= 1e3 * TOL.accurate * size:  # its multipliers are not reliable
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
        """Return multipliers of rows, 0 if their end is infinite, and of variables."""
        is_lost = np.isinf(np.where(duals > 0.0, ranges.least, ranges.most))
        duals = np.where(is_lost, 0.0, duals)
        return duals, cost - self.turned @ duals

    def _bound(self, h: Objective, duals: Host, slopes: Host, most: Host) -> float:
        """Return a lower bound on the level over all points that earlier levels allow."""
        cost, of_cost, rest, given = h.linear, np.abs(h.linear), 0.0, abs(h.constant)
        for level in reversed(self.held):
            if (share := level.share(duals, slopes)) > 0.0:
                cost, duals = cost + share * level.cost, duals + share * level.duals
                of_cost = of_cost + share * np.abs(level.cost)  # a sum that may cancel
                slopes = cost - self.turned @ duals
                rest, given = rest + share * level.most, given + abs(share * level.most)
        low, high = np.maximum(self.whole.low, -most), np.minimum(self.whole.high, most)
        duals, slopes = self._multipliers(cost, duals, self.whole)
        terms = _least(duals, self.whole.least, self.whole.most), _least(slopes, low, high)
        # The rounding of the slopes, sums of few terms; costs have one term per level.
        count = np.diff(self.turned.indptr) + len(self.held) + 4
        sizes = of_cost + self.turned_sizes @ np.abs(duals)
        off = EPS * float((count * sizes) @ np.maximum(np.abs(low), np.abs(high)))
        size = sum(float(np.sum(np.abs(part))) for part in terms) + given
        total = math.fsum(np.concatenate(terms)) + h.constant - rest
        return total - 2.0 * off - (len(self.held) + 8) * EPS * size

    def _above(self, duals: Host, slopes: Host, z: Host) -> float:
        """Bound how far the least value may exceed that at z, to first order: see `conic.chain`."""
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
        assert self.z is not None
        free = np.flatnonzero(self.ranges.low < self.ranges.high)
        own = np.flatnonzero(np.isin(free, self.program.variables))
        where, left, z = AffineSet(np.zeros(len(free))), self._left(free), self.z[free]
        return Deferred(lambda: open_directions(where, left, [], own, z))

    def _left(self, free: Host) -> ConicSet:
        """Return the constraints on these variables, if all others stay as they are."""
        import scipy.sparse as sp

        assert self.z is not None
        fixed, (low, high, least, most) = self.z.copy(), self.ranges
        fixed[free], rows = 0.0, self.rows[:, free]
        sees, there = np.diff(rows.indptr) > 0, self.rows @ fixed
        rows, least, most = as_rows(rows[sees]), (least - there)[sees], (most - there)[sees]
        equal, one = least == most, as_rows(sp.eye_array(len(free), format="csr"))
        parts = [(rows[equal], most[equal])]
        for inequalities, ends in (
            (rows[~equal], most[~equal]),
            (-rows[~equal], -least[~equal]),
            (one, high[free]),
            (-one, -low[free]),
        ):
            is_bound = np.isfinite(ends)
            parts.append((inequalities[is_bound], ends[is_bound]))
        offset = np.concatenate([ends for _, ends in parts])
        count = int(np.count_nonzero(equal))
        cones = Cone("zero", count), Cone("nonnegative", len(offset) - count)
        used = tuple(cone for cone in cones if cone.size)
        return ConicSet(stacked([some for some, _ in parts]), offset, used)

    def give_back(self) -> None:
        """Return unused slack: if ties are left, minimise those levels once more, in order."""
        for level, h in zip(self.found, self.program.objectives, strict=True):
            if level.slack > 0.0 and np.any(self.ranges.low < self.ranges.high):
                vertex = self.programs.minimise(h.linear, self.ranges)
                if vertex is None:
                    return
                self.z = np.clip(vertex.x, self.ranges.low, self.ranges.high)
                self._hold(
                    h.linear, *self._multipliers(h.linear, vertex.duals, self.ranges), math.inf
                )

    def _open(self) -> Host:
        """Find the free variables: not those that an equation determines from the others."""
        low, high, least, most = self.ranges
        is_open, equations = low < high, self.rows[least == most].tocoo()
        while True:
            moves = is_open[equations.col] & (equations.data != 0.0)
            row, column = equations.row[moves], equations.col[moves]
            given = column[np.bincount(row, minlength=len(least))[row] == 1]
            if not len(given):
                return is_open
            is_open[given] = False

    def least_norm(self) -> None:
        """Choose the point of least |x|, in the user's units, that all levels allow."""
        z, (low, high, *_) = self.z, self.ranges
        assert z is not None
        free = np.flatnonzero(self._open())
        own = np.flatnonzero(np.isin(free, self.program.variables))
        if not own.size:
            return
        from scipy.sparse import csr_array

        left, n = self._left(free), len(free)
        equations = left.rows[Blocks.of(left.cones).zero]
        if equations.shape[0] >= n and sparse_nullity(equations) == 0:
            return  # the equations leave only one point
        sizes = self.lengths[free][own]
        places = np.arange(len(own)), own
        squares = csr_array((sizes / np.max(sizes), places), shape=(len(own), n))
        size = Objective(as_rows(squares), np.zeros(len(own)), np.zeros(n))
        unit = float(np.max(np.abs(z))) or 1.0
        found = by_solver(Stage(size, *left, np.zeros(len(left.offset)), unit))
        if isinstance(found, SolvedStage):
            fixed = z.copy()
            fixed[free] = np.clip(found.at.w, low[free], high[free])
            if self._is_kept(fixed):
                self.z, self.is_least = fixed, True

    def _is_kept(self, z: Host) -> bool:
        """Does z satisfy all constraints, and is no level worse by more than rounding?"""
        s, offset = self.all_rows @ z, self.program.offset
        terms = abs(self.all_rows) @ np.abs(z) + np.abs(offset)
        missed = np.where(self.equal, np.abs(s - offset), s - offset)
        longest = float(np.max(np.abs(z), initial=0.0))
        if np.any(missed > TOL.accurate * terms + TOL.clear_units * EPS * longest):
            return False
        return all(
            h.value(z) <= level.best + level.slack + level.error + clear_change(h, z, 1.0)
            for h, level in zip(self.program.objectives, self.found, strict=True)
        )

    def valued(self, z: Host) -> tuple[LevelSolution, ...]:
        """Return the levels so far with their values at z."""
        return tuple(
            level._replace(value=self.program.value(i, z)) for i, level in enumerate(self.found)
        )

    def end(self) -> ChainSolution | None:
        """Return the answer if it passes the final check, else None."""
        z = self.z
        if z is None or not self._is_kept(z):
            return None
        return ChainSolution(z, self.valued(z), "solved", is_least=self.is_least, method=METHOD)


def _value_error(h: Objective, z: Host) -> float:
    """Bound the error of a linear level's value, whose products are summed exactly."""
    return 4.0 * EPS * (float(np.abs(h.linear) @ np.abs(z)) + abs(h.constant))


def _largest(values: Host) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def _least(weights: Host, low: Host, high: Host) -> Host:
    """Return the least value of each weight times a number in its range."""
    ends = np.where(weights > 0.0, low, np.where(weights < 0.0, high, 0.0))
    return np.asarray(weights * ends)


def _ends(weights: Host, low: Host, high: Host) -> tuple[Host, Host]:
    """Narrow each range with a nonzero weight to the end that minimises its product."""
    return np.where(weights < 0.0, high, low), np.where(weights > 0.0, low, high)
