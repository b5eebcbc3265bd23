"""Solves chains of linear levels on a polyhedron with HiGHS; reduced costs say which faces to fix.

With multipliers l of the rows and d = c - rows'l, for all x in the set

    <c, x>  =  <l, rows x> + <d, x>  >=  the sum of the least l_i s_i and the least d_j x_j.

Each minimum is over the range of the row or variable. The sum is a lower bound for any l. If this
bound is the minimum, every minimiser has l_i s_i and d_j x_j at their least values. So if l_i or
d_j is not 0, we fix one end of that range for later levels. Multipliers of a later level may have
the wrong sign at a fixed end. A multiple of the earlier level corrects such multipliers: <c, x> =
<c + share c_1, x> - share <c_1, x>, and <c_1, x> is at most the value found for level 1.

A point of the set at which all fixed levels are exactly at their lower bounds is one of their
minimisers, and bounds the next level from above. If the data and the vertices have few digits, as
in networks, all of these sums are free of rounding errors. Otherwise the cost c itself may be a
rounded sum over data: a level differs from <c, x> by at most its misfit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

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
from tiebreak.linalg import EPS, TOL, Host
from tiebreak.linalg.deferred import Deferred
from tiebreak.linalg.host import binary_digits
from tiebreak.linalg.host_rows import exact_products, rounded_sums
from tiebreak.linalg.linear_programs import Ranges, linear_programs
from tiebreak.sets.descriptions import of_single
from tiebreak.sets.polyhedra import single_entries

BY_LINEAR_PROGRAMS = "linear programs by HiGHS, with faces fixed by reduced costs"
LINEAR = ("zero", "nonnegative")
SOLVER = "HiGHS"


def linear_chain(program: ConicProgram, slacks: Sequence[SlackRule | None]) -> LinearChain | None:
    """Return the chain of a scaled program before its first level; None if it is not linear."""
    is_linear = all(cone.kind in LINEAR for cone in program.cones) and not any(
        h.squares.shape[0] for h in program.objectives
    )
    return LinearChain(program, slacks) if is_linear else None


class _HeldLevel(NamedTuple):
    """A level kept optimal; ``rows`` and ``columns``: multipliers of the ranges that it fixes."""

    number: int
    duals: Host
    rows: Host
    columns: Host
    bound: float  # a lower bound on the level's minimum
    most: float  # an upper bound on <c, x> + constant at its minimisers

    def share(self, duals: Host, slopes: Host) -> float:
        """Return the multiple of this level's multipliers that corrects those of a later level.

        The multiple is rounded up to four binary digits, so that products with it stay exact.
        """
        pulls, held = np.append(duals, slopes), np.append(self.rows, self.columns)
        away = np.divide(-pulls, held, out=np.zeros_like(held), where=held != 0.0)
        mantissa, exponent = math.frexp(float(np.max(away, initial=0.0)))
        return math.ldexp(math.ceil(16.0 * mantissa), exponent - 4)


class LinearChain:
    """The ranges to which the levels solved so far restrict the rows and variables."""

    def __init__(self, program: ConicProgram, slacks: Sequence[SlackRule | None]) -> None:
        import scipy.sparse as sp

        self.program, self.slacks = program, slacks
        self.all_rows = rows = sp.csr_array(program.rows)
        self.equal = np.zeros(len(program.offset), dtype=bool)
        self.equal[Blocks.of(program.cones).zero] = True
        least = np.where(self.equal, program.offset, -np.inf)
        which, place, entry = single_entries(rows)
        some = ~self.equal[which]
        which, place, entry = which[some], place[some], entry[some]
        limit, is_above = program.offset[which] / entry, entry > 0.0
        # Bounds use a larger set: a quotient that may be rounded is moved outwards.
        (_, digits), (_, others) = binary_digits(limit), binary_digits(entry)
        is_exact = (digits + others <= 53) & (limit * entry == program.offset[which])
        outwards = np.nextafter(limit, np.where(is_above, np.inf, -np.inf))
        limits = limit, np.where(is_exact, limit, outwards)
        bounds = [_bounds(program.size, place, is_above, some) for some in limits]
        kept = np.ones(len(least), dtype=bool)
        kept[which] = False
        # Each level with slack has its own row, which is inactive until that level is solved.
        cuts = [i for i, slack in enumerate(slacks) if slack is not None]
        costs = sp.csr_array([h.linear for h in program.objectives])
        self.rows: Any = sp.csr_array(sp.vstack([rows[kept], costs[cuts]])) if cuts else rows[kept]
        self.cuts: dict[int, int] = {
            level: self.rows.shape[0] - len(cuts) + k for k, level in enumerate(cuts)
        }
        free = np.full(len(cuts), np.inf)
        ends = np.append(least[kept], -free), np.append(program.offset[kept], free)
        self.ranges, self.whole = (Ranges(*both, *ends) for both in bounds)
        self.columns: Any = sp.csr_array(sp.hstack([-self.rows.T, costs.T]))
        self.held: list[_HeldLevel] = []
        self.programs = linear_programs(self.rows)
        self.found: list[LevelSolution] = []
        self.z = self.normal = np.zeros(program.size)
        self.is_whole = self.is_proved = True  # see `conic.chain`

    def level(self, number: int) -> bool:
        """Solve one level, bound its minimum, restrict later levels; return False if that fails.

        This fails if the level has no minimiser, or if its minimiser fails a check. Another method
        then finds out why.
        """
        h = self.program.objectives[number]
        vertex = self.programs.minimise(h.linear, self.ranges)
        if vertex is None or not np.isfinite(vertex.x).all():
            return False
        z = np.clip(vertex.x, self.ranges.low, self.ranges.high)
        before, self.z = self.z, z
        best, rounding = _value(h, z)
        duals, slopes = self._multipliers(number, vertex.duals)
        of_equations = np.where(self.whole.least == self.whole.most, duals, 0.0)
        self.normal = -self._multipliers(number, of_equations)[1]
        most, is_known = assumed_reach(self.program.reach, z, TOL.assumed)
        misfit = h.misfit(most)
        bound = self._bound(number, duals, slopes, most) - misfit
        is_inside = self._is_inside(z)
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
            end = _rounded((best, rounding, above, slack, misfit, -h.constant), math.inf)
            self._cut(self.cuts[number], best + slack - h.constant, end)
            held = "cut"
        else:
            held = self._hold(number, duals, slopes, (bound, best + rounding + above + misfit))
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

    def _multipliers(self, number: int, duals: Host) -> tuple[Host, Host]:
        """Return the multipliers of rows (0 if their end is infinite) and of variables."""
        duals, shares = _finite(duals, self.ranges), np.zeros(len(self.program.objectives))
        shares[number] = 1.0
        return duals, self.columns @ np.append(duals, shares)

    def _bound(self, number: int, duals: Host, slopes: Host, reach: Host) -> float:
        """Return a lower bound on the level over all points that earlier levels allow."""
        shares, most = np.zeros((2, len(self.program.objectives)))
        shares[number] = 1.0
        for level in reversed(self.held):
            if (share := level.share(duals, slopes)) > 0.0:
                shares[level.number], most[level.number] = share, level.most
                duals = duals + share * level.duals
                slopes = self.columns @ np.append(duals, shares)
        low, high = np.maximum(self.whole.low, -reach), np.minimum(self.whole.high, reach)
        duals = _finite(duals, self.whole)
        slopes, errors = _products(self.columns, np.append(duals, shares))
        constants = np.array([h.constant for h in self.program.objectives])
        ends = _ends_of(duals, self.whole.least, self.whole.most), _ends_of(slopes, low, high)
        weights = np.concatenate([duals, slopes, shares, -shares])
        total, error = _inner(weights, np.concatenate([*ends, constants, most]))
        return total - error - 2.0 * float(errors @ np.maximum(np.abs(low), np.abs(high)))

    def _above(self, duals: Host, slopes: Host, z: Host) -> float:
        """Bound how far the minimum may exceed the value at z, to first order: see conic.chain."""
        s, (low, high, least, most) = self.rows @ z, self.ranges
        missed = np.maximum(np.maximum(least - s, s - most), 0.0)
        terms = EPS * (np.diff(self.rows.indptr) + 4) * (abs(self.rows) @ np.abs(z))
        bounds = np.maximum(np.maximum(low - z, z - high), 0.0)
        return 2.0 * float(np.abs(duals) @ (missed + terms) + np.abs(slopes) @ bounds)

    def _is_inside(self, z: Host) -> bool:
        """Is z exactly feasible, a minimiser of the levels in ``held``, and within all slacks?

        A level with slack may exceed its lower bound by no more than its slack.
        """
        s, offset, levels = (
            exact_products(self.all_rows, z),
            self.program.offset,
            self.program.objectives,
        )
        if s is None or not np.all(np.where(self.equal, s == offset, s <= offset)):
            return False
        ends = [(level.number, level.bound) for level in self.held]
        ends += [
            (number, _rounded((level.bound, level.slack), -math.inf))
            for number, level in enumerate(self.found)
            if level.slack > 0.0
        ]
        values = [(*_value(levels[number], z), end) for number, end in ends]
        return all(value <= end and not error for value, error, end in values)

    def _cut(self, row: int, at: float, most: float) -> None:
        """Set the upper bound of this row, whose product with x is the value of a level.

        The cut is at ``at``; bounds use ``most``, which excludes no point within the slack.
        """
        is_row = np.arange(len(self.ranges.most)) == row
        self.ranges = self.ranges._replace(most=np.where(is_row, at, self.ranges.most))
        self.whole = self.whole._replace(most=np.where(is_row, most, self.whole.most))

    def _hold(self, number: int, duals: Host, slopes: Host, known: tuple[float, float]) -> str:
        """Narrow the ranges to the minimisers of a level; return what keeps the level optimal."""
        # Reduced costs that fix an end are far above the tolerance of HiGHS.
        cost, (low, high, lower, upper) = self.program.objectives[number].linear, self.ranges
        least = 100.0 * TOL.accurate * _largest(cost)
        rows = np.where((lower < upper) & (np.abs(duals) > least), duals, 0.0)
        columns = np.where((low < high) & (np.abs(slopes) > least), slopes, 0.0)
        self.held.append(_HeldLevel(number, duals, rows, columns, *known))
        self.ranges = Ranges(*_ends(columns, low, high), *_ends(rows, lower, upper))
        if np.all(self.ranges.low == self.ranges.high):
            return "point"
        return "face" if rows.any() or columns.any() else "nothing"

    def _dimension(self) -> Deferred:
        """Return the dimension of the set of x that remains, computed on demand."""
        ranges, z, own = self.ranges, self.z, self.program.variables

        def count() -> int | None:
            where, left = self.remaining(ranges, z)
            return open_directions(where, left, left.rows[:0], own, z, 1.0)

        return Deferred(count)

    def remaining(self, ranges: Ranges, z: Host) -> tuple[AffineSet, ConicSet]:
        """Return the points that differ from z only in free variables, and their constraints."""
        import scipy.sparse as sp

        low, high, least, most = ranges
        moves, n = low < high, len(low)
        sees = abs(self.rows) @ moves > 0.0
        equal, inner = sees & (least == most), sees & (least < most)
        above, below = inner & np.isfinite(most), inner & np.isfinite(least)
        up, down = (np.flatnonzero(moves & np.isfinite(end)) for end in (high, low))
        parts = self.rows[equal], self.rows[above], -self.rows[below]
        bounds = of_single(up, np.ones(len(up)), n), of_single(down, -np.ones(len(down)), n)
        offset = np.concatenate([most[equal], most[above], -least[below], high[up], -low[down]])
        count, free = int(np.count_nonzero(equal)), np.flatnonzero(moves)
        cones = Cone("zero", count), Cone("nonnegative", len(offset) - count)
        left = as_rows(sp.vstack([*parts, *bounds], format="csr"))
        where = AffineSet(z, of_single(free, np.ones(len(free)), n).T)
        return where, ConicSet(left, offset, tuple(cone for cone in cones if cone.size))

    def give_back(self) -> None:
        """Recover unused slack: if ties remain, minimise levels with slack once more, in order."""
        for number, level in enumerate(self.found):
            if level.slack > 0.0 and np.any(self.ranges.low < self.ranges.high):
                cost = self.program.objectives[number].linear
                vertex = self.programs.minimise(cost, self.ranges)
                if vertex is None:
                    return
                self.z = np.clip(vertex.x, self.ranges.low, self.ranges.high)
                unknown = -math.inf, math.inf
                self._hold(number, *self._multipliers(number, vertex.duals), unknown)


def _bounds(n: int, place: Host, is_above: Host, limit: Host) -> tuple[Host, Host]:
    """Return the bounds of n variables, from limits of some of them."""
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    np.minimum.at(high, place[is_above], limit[is_above])
    np.maximum.at(low, place[~is_above], limit[~is_above])
    return low, high


def _largest(values: Host) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def _rounded(terms: Sequence[float], towards: float) -> float:
    """Return the sum of the terms, rounded towards an infinity if it is not exact."""
    total = math.fsum(terms)
    rest = math.fsum([*terms, -total])
    return math.nextafter(total, towards) if rest and (rest > 0.0) == (towards > 0.0) else total


def _value(h: Objective, z: Host) -> tuple[float, float]:
    """Return <c, z> + constant, and a bound on how far it is from the value of the level at z."""
    value, error = _inner(np.append(h.linear, h.constant), np.append(z, 1.0))
    return value, error + h.misfit(np.abs(z))


def _inner(weights: Host, values: Host) -> tuple[float, float]:
    """Return <weights, values>, and a bound on its rounding error: 0 if there is none."""
    sums, errors = rounded_sums(weights, values, np.zeros(len(values), dtype=int), 1)
    total, error = float(sums[0]), float(errors[0])
    return total, error and error + 4.0 * EPS * abs(total)  # sums with other numbers round too


def _products(rows: Any, x: Host) -> tuple[Host, Host]:
    """Return rows @ x, and bounds on the rounding errors: 0 if there are none."""
    exact = exact_products(rows, x)
    if exact is not None:
        return exact, np.zeros(len(exact))
    return rows @ x, EPS * (np.diff(rows.indptr) + 4) * (abs(rows) @ np.abs(x))


def _finite(duals: Host, ranges: Ranges) -> Host:
    """Replace the multipliers of infinite ends by 0."""
    return np.where(np.isinf(np.where(duals > 0.0, ranges.least, ranges.most)), 0.0, duals)


def _ends_of(weights: Host, low: Host, high: Host) -> Host:
    """Return for each range the number in it whose product with the range's weight is least."""
    return np.where(weights > 0.0, low, np.where(weights < 0.0, high, 0.0))


def _ends(weights: Host, low: Host, high: Host) -> tuple[Host, Host]:
    """Narrow each range with a nonzero weight to the end whose product with the weight is least."""
    return np.where(weights < 0.0, high, low), np.where(weights > 0.0, low, high)
