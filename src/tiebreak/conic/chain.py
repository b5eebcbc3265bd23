"""Solves levels in order, each with the images and faces of all earlier ones held fixed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tiebreak.conic.attained import escape, fall_along
from tiebreak.conic.bounds import (
    assumed_reach,
    clear_change,
    contradiction,
    lower_bound,
    slack_rounding,
    value_error,
    value_inside,
)
from tiebreak.conic.chain_solution import (
    ChainSolution,
    LevelSolution,
    SlackRule,
    Told,
    allowed_slack,
    cut_short,
    word_of,
)
from tiebreak.conic.cones import Blocks, of_inequalities, outside
from tiebreak.conic.faces import (
    ConicSet,
    Cut,
    HeldRows,
    free_directions,
    held_rows,
    open_directions,
    remaining,
    sublevel,
)
from tiebreak.conic.independence import Independence, independence
from tiebreak.conic.linear_chain import BY_LINEAR_PROGRAMS, LinearChain, linear_chain
from tiebreak.conic.polish import PrimalDualPoint, SolvedStage
from tiebreak.conic.program import Cone, ConicProgram, Objective
from tiebreak.conic.scaling import in_units
from tiebreak.conic.solved import Doubt, Fall, by_solver, unchanged
from tiebreak.conic.stage import (
    MOST_IN_BASIS,
    AffineSet,
    Stage,
    as_rows,
    nearby,
    stacked,
    stage_of,
)
from tiebreak.linalg import TOL, Host, deadline
from tiebreak.linalg.conic_form import row_lengths
from tiebreak.linalg.deferred import Deferred, resolved
from tiebreak.sets.polyhedra import single_entries

NOT_TIGHT = "its auxiliary variables do not match what they represent: too many digits cancel"
HARDLY_FALLS = (
    "seems to be unbounded along a direction, but rounding decides how a constraint or an earlier "
    "level changes along it"
)
RUNS_AWAY = "may have no minimiser: it seems to keep decreasing far beyond the point that was found"
LOST = (
    "may have no minimiser, or no point may meet all constraints: the solver ended far from all "
    "numbers of the problem, where the error is larger than the value"
)
NO_POINT_FOUND = (
    "seems to be unbounded along a direction, but no point was found that certainly meets all "
    "constraints"
)
UNSETTLED = "the optimality conditions hold at none of Clarabel's points"
WORSENED = (
    "is slightly worse at x than where it was minimised: multipliers that are not certainly 0 were "
    "taken for 0, so x and later levels may be wrong"
)
MOST_NAMES = 8  # names in a message
NO_POINT = "no point meets all constraints"


def solve_chain(
    program: ConicProgram, slacks: Sequence[SlackRule | None], told: Told | None = None
) -> ChainSolution:
    """Solve one level after another; ``slacks``: a rule or None for each level but the last."""
    try:
        scaled, units = in_units(program)
    except deadline.Over as over:
        return ChainSolution(np.zeros(program.size), (), *cut_short(over, 0))
    rules = [
        None if rule is None else _in_unit(rule, float(unit))
        for rule, unit in zip(slacks, units.values, strict=False)
    ]

    def solved(number: int, best: float) -> None:
        if told is not None:
            told(number, float(units.values[number]) * best)

    linear, found = linear_chain(scaled, [*rules, None]), None
    if linear is not None:
        found = _Chain(scaled, rules, units.lengths).solve_linear(linear, solved)
    if found is None:
        found = _Chain(scaled, rules, units.lengths).solve(solved)
    following = np.append(units.values[1:], 1.0)
    levels = (
        level.in_unit(float(unit), float(after))
        for level, unit, after in zip(found.levels, units.values, following, strict=False)
    )
    direction = None if found.direction is None else units.lengths * found.direction
    against, z = found.contradiction, units.lengths * found.z
    normal = None
    if found.normal is not None and len(program.variables) == program.size:
        normal = float(units.values[-1]) / units.lengths * found.normal
    if against is not None:
        against = against / units.rows
        names = [] if program.owners is None else program.owners(against)
        said = [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"][: len(names)]
        found = found._replace(message=": ".join([NO_POINT, *[" and ".join(said)] * bool(said)]))
    return found._replace(
        z=z, levels=tuple(levels), direction=direction, contradiction=against, normal=normal
    )


def _in_unit(rule: SlackRule, unit: float) -> SlackRule:
    """Convert a slack rule to values in this unit."""
    return lambda best, before: rule(unit * best, unit * before) / unit


class _Chain:
    """The set that the levels solved so far leave to the next one."""

    def __init__(
        self, program: ConicProgram, slacks: Sequence[SlackRule | None], lengths: Host
    ) -> None:
        self.program, self.slacks, self.lengths = program, [*slacks, None], lengths
        self.whole = whole = ConicSet(program.rows, program.offset, program.cones)
        self.first_levels = program.first_levels()
        self.constraints = whole.part(self.first_levels == 0)
        self.objectives = program.objectives
        # Equations for images and faces, used if a basis is too large.
        self.equations = whole.part(self.first_levels < 0)
        self.where = AffineSet(np.zeros(program.size))
        blocks, lengths = Blocks.of(whole.cones), row_lengths(whole.rows)
        self.unit = nearby(blocks, lengths, whole.offset, self.objectives)[0] or 1.0
        self.held: list[HeldRows] = []
        self.is_bounded = bool(np.isfinite(program.reach[program.variables]).all())
        # Do all levels so far have slack, so that points can be proved feasible?
        self.is_whole = True
        self.is_proved = True  # are the gaps of all levels so far proved?
        self.cuts: list[Cut] = []  # of the levels with slack, until one without slack is solved
        self.found: list[LevelSolution] = []
        self.left_open: Any = None  # dimension of the set of x that remains, computed on demand
        self.doubt = ""  # why a level may have minimisers besides those kept
        self.independence: dict[int, Independence] = {}  # by the number of equations
        self.previous = np.zeros(program.size)
        self.is_least = False

    def solve(self, solved: Told) -> ChainSolution:
        """Solve all levels."""
        for number, objective in enumerate(self.objectives):
            try:
                end = self._level(number, objective)
            except deadline.Over as over:
                return self._end(*cut_short(over, number))
            except MemoryError as error:
                return self._end("failed", f"level {number + 1}: {error}")
            if end is not None:
                return end
            solved(number, self.found[-1].best)
        with contextlib.suppress(deadline.Over, MemoryError):
            self._give_back()
            if self.where.dimension and resolved(self.left_open) != 0:
                self._least_norm(self.program.variables)
        return self._end(*self._verdict())

    def _verdict(self) -> tuple[str, str]:
        """Return the status after all levels are solved, with a doubt if there is one.

        The chain's own equations are in doubt if rounding decides how many are independent.
        """
        doubt = self.doubt or self._independence(self._of_set[0]).doubt
        if not doubt and (worse := self._worsened(self.previous)) is not None:
            doubt = f"level {worse + 1} {WORSENED}"
        return ("undetermined" if doubt else "solved"), doubt

    def solve_linear(self, linear: LinearChain, solved: Told) -> ChainSolution | None:
        """Solve all levels as linear programs; return None if that fails."""
        for number in range(len(self.objectives)):
            try:
                if not linear.level(number):
                    return None
            except deadline.Over as over:
                self.found, self.previous = linear.found, linear.z
                return self._end(*cut_short(over, number))
            solved(number, linear.found[-1].best)
        self.found, self.previous = linear.found, linear.z
        with contextlib.suppress(deadline.Over, MemoryError):
            linear.give_back()
            self.previous = linear.z
            self.where, self.constraints = linear.remaining(linear.ranges, linear.z)
            equations = self.constraints.rows[Blocks.of(self.constraints.cones).zero]
            own = np.intersect1d(self.program.variables, self.where.basis.indices)
            # Counting the directions takes a factorisation, so we only do it if there may be none.
            is_open = len(own) > equations.shape[0]
            if is_open or (len(own) and free_directions(self.where, equations, own) != 0):
                self._least_norm(own)
        if not self._is_kept(self.previous):
            self.previous, self.is_least = linear.z, False
        found = self._end(*self._verdict())
        is_kept = found.status in ("solved", "undetermined") and self._is_kept(found.z)
        return found._replace(method=BY_LINEAR_PROGRAMS, normal=linear.normal) if is_kept else None

    def _is_kept(self, z: Host) -> bool:
        """Does z satisfy all constraints without making a level worse by more than rounding?"""
        is_outside = self._is_outside(z, TOL.accurate, TOL.clear / TOL.accurate)
        return not is_outside and self._worsened(z) is None

    def _worsened(self, z: Host) -> int | None:
        """Return the first level that is worse at z than its minimum and its errors explain."""
        for number, (h, level) in enumerate(zip(self.objectives, self.found, strict=True)):
            most = level.best + level.slack + level.error + self._rounding(number, z)
            if not h.value(z) <= most:
                return number
        return None

    def _give_back(self) -> None:
        """Recover unused slack: if ties remain, minimise levels with slack once more, in order."""
        for level, objective in zip(self.found, self.objectives, strict=True):
            if level.slack > 0.0 and resolved(self.left_open) != 0:
                stage = self._stage(objective)
                found = None if stage.is_flat else by_solver(stage)
                if isinstance(found, SolvedStage):
                    self.previous = self.where.point(found.at.w)
                    self._hold_face(objective, found, 0.0)
                    self.left_open = self._dimension()

    def _least_norm(self, own: Host) -> None:
        """Among the points that all levels allow, choose the one of least |x|, in the user's units.

        ``own``: the entries of x that may move. We keep the point only if no level gets worse by
        more than rounding.
        """
        from scipy.sparse import csr_array

        former, lengths, places = self.previous, self.lengths[own], (np.arange(len(own)), own)
        rows = csr_array((lengths / np.max(lengths), places), shape=(len(own), len(former)))
        size = Objective(as_rows(rows), np.zeros(len(own)), np.zeros(len(former)))
        found = by_solver(self._stage(size))
        z = self.where.point(found.at.w) if isinstance(found, SolvedStage) else former
        excess = [
            h.value(z) - h.value(former) - self._rounding(number, z)
            for number, h in enumerate(self.objectives)
        ]
        if z is not former and max(excess) <= 0.0 and not self._is_outside(z):
            self.previous, self.is_least = z, True

    def _enter(self, number: int) -> None:
        """Add the constraints on the auxiliary variables of a level."""
        so_far, aims = self.whole.part(self.first_levels <= number), self.objectives[: number + 1]
        near, _ = nearby(Blocks.of(so_far.cones), row_lengths(so_far.rows), so_far.offset, aims)
        self.unit = near or self.unit  # later levels have their own scale
        more = self.whole.part(self.first_levels == number) if number else None
        if more is not None and len(more.offset):
            self.constraints = self.constraints.joined(*more)

    def _end(self, status: str, message: str = "", direction: Host | None = None) -> ChainSolution:
        z = self._within_bounds(self.previous)
        values = [self.program.value(number, z) for number in range(len(self.found))]
        if status == "solved" and self._is_outside(z):
            empty = deadline.unless_too_long(self._infeasible, None, deadline.Over)
            if empty is not None:
                return empty
            status, message = "failed", "the solution violates the constraints"
        if status == "solved" and (lost := self._lost(z)) is not None:
            status, message = (
                "failed",
                f"level {lost + 1} became worse after it was solved",
            )
        levels = (
            level._replace(value=value) for level, value in zip(self.found, values, strict=True)
        )
        return ChainSolution(z, tuple(levels), status, message, direction, is_least=self.is_least)

    def _within_bounds(self, z: Host) -> Host:
        """Correct entries of z that rounding moved away from 0 or across a simple bound."""
        z = np.where(np.abs(z) <= TOL.nothing * self.unit, 0.0, z)
        row, place, entry = single_entries(self.whole.rows)
        is_bound = np.isin(row, Blocks.of(self.whole.cones).nonnegative)
        for some, ufunc in ((entry > 0.0, np.minimum), (entry < 0.0, np.maximum)):
            some = some & is_bound
            ufunc.at(z, place[some], self.whole.offset[row[some]] / entry[some])
        # If all terms of a row are rounding errors, only exact zeros satisfy that row.
        plain = np.where(np.abs(z) <= TOL.clear * self.unit, 0.0, z)
        strict = TOL.accurate, 0.0
        is_met = self._is_outside(z, *strict) and not self._is_outside(plain, *strict)
        return plain if is_met else z

    def _lost(self, z: Host) -> int | None:
        """Return the first level that later levels made worse than allowed, or None."""
        for number, level in enumerate(self.found):
            allowed = level.slack + TOL.solver * self._size(number) + self._rounding(number, z)
            # At z = 0 a level may have no size, but the error of its best value is known.
            allowed += level.error if math.isfinite(level.error) else 0.0
            value, error = self.program.value_with_error(number, z)  # it may be in float32
            if not value <= max(level.best, level.value) + allowed + error:
                return number
        return None

    @cached_property
    def _of_set(self) -> tuple[ConicSet, Any, Host]:
        """The first level's constraints, the absolute values of their entries, the row norms."""
        first = self.whole.part(self.first_levels == 0)
        return first, abs(first.rows), row_lengths(first.rows)

    def _is_outside(self, z: Host, share: float = TOL.solver, floor: float = 1.0) -> bool:
        """Is a constraint violated by more than this share of its own terms?

        If an answer is 0, its terms are rounding errors on the scale of the program's unit, so
        ``floor`` times that scale is added to the terms.
        """
        (rows, offset, cones), sizes, lengths = self._of_set
        blocks, s = Blocks.of(cones), offset - rows @ z
        least = TOL.clear / TOL.solver * self.unit
        size = float(np.max(np.abs(z[self.program.variables]), initial=least))
        terms = np.abs(offset) + sizes @ np.abs(z) + floor * size * lengths
        return bool(
            np.any(outside(blocks, s) > share * of_inequalities(blocks, terms))
            or np.any(np.abs(s[blocks.zero]) > share * terms[blocks.zero])
        )

    def _level(self, number: int, objective: Objective) -> ChainSolution | None:
        """Solve one level and hold it; return how the chain ends if the level has no solution."""
        own = len(self.constraints.offset) if number else 0
        self._enter(number)
        stage = self._stage(objective)
        is_fixed = self.where.dimension == 0
        is_done = is_fixed or (number > 0 and stage.is_flat)
        found = unchanged(stage) if is_done else by_solver(stage)
        if isinstance(found, str):
            if not isinstance(found, Doubt):
                return self._no_answer(number, found)
            # On a bounded set, every level has a minimiser: there, only the solver failed.
            ended = (UNSETTLED, "failed") if self.is_bounded else (found, "undetermined")
            return self._no_answer(number, *ended)
        if isinstance(found, Fall):
            end = self._falls(number, self.where.direction(found.direction))
            needs_minimiser = self.slacks[number] is None or end.status == "unbounded"
            if found.found is None or needs_minimiser:
                return end
            found = found.found
        if not is_done and (w := self._escape(number, found, own)) is not None:
            direction = self.where.direction(w)
            return self._end("undetermined", f"level {number + 1} {RUNS_AWAY}", direction)
        self._hold(number, objective, found)
        if found.doubt and not self.found[-1].slack > self.found[-1].error:
            self.doubt = self.doubt or f"level {number + 1} {found.doubt}"
        return self._unanswered(number)

    def _unanswered(self, number: int) -> ChainSolution | None:
        """End the chain if the level that was solved last has no answer after all."""
        level, size, z = self.found[-1], self._size(number), self.previous
        rounding = self._rounding(number, z)
        if self._is_lost_far_away(z, level.error, size + rounding):
            return self._end("undetermined", f"level {number + 1} {LOST}")
        value, error = self.program.value_with_error(number, z)  # it may be in float32
        if abs(level.best - value) > TOL.percent * size + rounding + error:
            return self._end("failed", f"level {number + 1}: {NOT_TIGHT}")
        return None

    def _size(self, number: int) -> float:
        """Return the scale of a level's values, to which changes in the level are compared.

        At z = 0 we use the level's own value, because auxiliary variables are 0 there too, and the
        squares of the data may be far larger than that value.
        """
        level = self.found[number]
        at_zero = abs(self.program.value(number, np.zeros_like(self.previous)))
        return max(abs(level.best), at_zero if math.isfinite(at_zero) else 0.0, level.slack)

    def _rounding(self, number: int, z: Host) -> float:
        return clear_change(self.objectives[number], z, self.unit)

    def _falls(self, number: int, direction: Host) -> ChainSolution:
        """If a level is certainly unbounded along a direction, end the chain with that direction.

        A solver may find such a direction before it finds that no point is feasible.
        """
        if number == 0 and (empty := self._infeasible()) is not None:
            return empty
        if number == 0 and not self._has_point():
            return self._end("undetermined", f"level 1 {NO_POINT_FOUND}")
        fall = fall_along(self.program, number, direction)
        if fall is None:
            return self._end("undetermined", f"level {number + 1} {HARDLY_FALLS}", direction)
        where = " on the minimisers of those before it" if number else ""
        return self._end("unbounded", f"level {number + 1} is unbounded{where}", fall)

    def _has_point(self) -> bool:
        """Does the nearest point to 0 meet all constraints, and is it known where it is?"""
        import scipy.sparse as sp

        n = len(self.previous)
        eye = as_rows(sp.eye_array(n, format="csr"))
        norm_of_z = Objective(eye, np.zeros(n), np.zeros(n))
        found = by_solver(self._stage(norm_of_z))
        if not isinstance(found, SolvedStage) or self._is_outside(found.at.w):
            return False
        most, _ = assumed_reach(self.program.reach, found.at.w, TOL.assumed)
        _, error = self._bounds(norm_of_z, found, most)
        return not self._is_lost_far_away(found.at.w, error, norm_of_z.value(found.at.w))

    def _is_lost_far_away(self, z: Host, error: float, size: float) -> bool:
        """Is z far from everything in the data, and the error of a level there above its size?

        Constraints may come arbitrarily close to being met, or a level to its infimum, without ever
        reaching it: { sqrt(x² + 1) <= x } is empty. Then a solver ends where rounding hides the
        difference, with multipliers that are too large to bound anything.
        """
        if not error > size:
            return False
        own = self.program.variables
        far = TOL.far * np.maximum(self.program.distances(), self.unit)
        return bool(np.any(np.abs(z[own]) > far[own]))

    def _escape(self, number: int, found: SolvedStage, own: int) -> Host | None:
        """Return a direction along which a level may have no minimum, or None.

        The level's losses are the rows from ``own`` on. A level needs no minimum if its slack is
        above the solver's accuracy.
        """
        z = self.where.point(found.at.w)
        best = self.objectives[number].value(z)
        # If a value is 0 up to the solver's accuracy, any share of it is 0 too.
        best = best if abs(best) > TOL.half else 0.0
        if self.is_bounded or self._slack(number, best, z, self.previous) > 0.0:
            return None
        return escape(found.stage, found.at, None if self.program.evaluate is None else own)

    def _stage(self, objective: Objective) -> Stage:
        """Return a level restricted to the set that remains after the earlier levels."""
        return stage_of(objective, *self.constraints.joined(*self.equations), self.where, self.unit)

    def _no_answer(self, number: int, why: str, status: str = "failed") -> ChainSolution:
        """End the chain at an unsolved level, after checking that some point is feasible."""
        if number == 0 and (empty := self._infeasible()) is not None:
            return empty
        value = self.objectives[number].value(self.previous)
        self.found.append(
            LevelSolution(
                value, -math.inf, math.inf, value, 0.0, None, "nothing", "estimated", None, why
            )
        )
        return self._end(status, f"level {number + 1}: {why}")

    def _infeasible(self) -> ChainSolution | None:
        """End the chain if multipliers prove that no point satisfies the constraints."""
        first = self.first_levels == 0
        against, y = np.zeros(len(first)), contradiction(self.whole.part(first))
        if y is None:
            return None
        against[first] = y
        return ChainSolution(self.previous, (), "infeasible", NO_POINT, contradiction=against)

    def _hold(self, number: int, objective: Objective, found: SolvedStage) -> None:
        """Store a level's solution, and restrict later levels to its image and its faces."""
        at, z = found.at, self.where.point(found.at.w)
        before, self.previous = self.previous, z
        best = objective.value(z)
        most, is_known = assumed_reach(self.program.reach, z, TOL.assumed)
        is_bound_proved = self.is_proved and is_known
        bound, gap = self._bounds(objective, found, most)
        word, why = word_of(self.is_proved and is_known, is_known, self.is_whole)
        slack = self._slack(number, best, z, before)
        self._price(number, at)
        held = self._keep(number, objective, found, gap, slack, most)
        self.left_open = self._dimension()
        self.is_whole, self.is_proved = self.is_whole and slack > 0.0, self.is_proved and is_known
        self.found.append(
            LevelSolution(
                best=best,
                bound=bound,
                error=gap,
                value=self.program.value(number, z),
                slack=slack,
                dimension=self.left_open,
                held=held,
                word=word,
                price=None,
                solver=found.solver,
                residual=found.residual,
                is_bound_proved=is_bound_proved,
                why=why,
            )
        )

    def _bounds(self, objective: Objective, found: SolvedStage, most: Host) -> tuple[float, float]:
        """Return a lower bound on a level's minimum, and a bound on the error of the value found.

        This also updates ``is_proved``.
        """
        z, y = self.where.point(found.at.w), found.at.y
        loose = self.constraints._replace(offset=self.constraints.offset.copy())
        for cut in self.cuts:
            loose.offset[cut.tops] += cut.loose / cut.scale
        own = y[: len(loose.offset)]  # without those of ``equations``
        bound = lower_bound(objective, loose, own, z, self.held, most)
        gap = max(objective.value(z) - bound, 0.0) + value_error(objective, z)
        return bound, gap + self._above(found)

    def _slack(self, number: int, best: float, z: Host, before: Host) -> float:
        """Return how much worse than at z the level may get; ``before`` is the previous point."""
        value, rounding = self.program.value(number, before), self._rounding(number, z)
        return allowed_slack(self.slacks[number], best, value, rounding)

    def _above(self, found: SolvedStage) -> float:
        """Bound how far the minimum may exceed the value at the point, which may be infeasible.

        An interior point proves the bound; without one, the multipliers estimate it to first order.
        If an earlier level has no slack, nothing is proved, because no point is known to be one of
        that level's minimisers.
        """
        stage, at = found.stage, found.at
        if self.is_whole and (stage.is_flat or not stage.cones):
            return 0.0
        # Without a proof, multipliers estimate what it costs to meet the equations.
        stretch = self._independence(self.constraints).stretch if self.is_whole else 0.0
        inside = None if found.inner is None else value_inside(stage, at, found.inner, stretch)
        self.is_proved = self.is_proved and self.is_whole and inside is not None
        if inside is None:
            off = np.maximum(outside(stage.blocks, stage.slack(at.w)), 0.0)
            most = float(np.max(off + slack_rounding(stage, at.w)[1], initial=0.0))
            # Use twice the estimate: in a set without interior, the minimum changes like the square
            # root of `most`, and `most` times y is half of that change.
            return 2.0 * most * float(np.sum(np.abs(at.y)))
        return max(inside - stage.objective.value(at.w), 0.0)

    def _independence(self, constraints: ConicSet) -> Independence:
        """Decide which equations are independent, once for every number of equations."""
        count = len(Blocks.of(constraints.cones).zero)
        if count not in self.independence:
            self.independence[count] = deadline.unless_too_long(
                lambda: independence(constraints), Independence(math.inf)
            )
        return self.independence[count]

    def _keep(
        self,
        number: int,
        objective: Objective,
        found: SolvedStage,
        gap: float,
        slack: float,
        most: Host,
    ) -> str:
        """Add a cut if the level has slack, otherwise fix its image and face; say which."""
        if self.where.dimension == 0:
            return "point"
        if slack == 0.0:
            return self._hold_face(objective, found, gap)
        row = len(self.constraints.offset)
        cut = sublevel(number, row, objective, self.previous, slack, gap, most)
        self.cuts.append(cut)
        self.is_proved = self.is_proved and cut.is_clear
        self.constraints = self.constraints.joined(cut.rows, cut.offset, (cut.cone,))
        self.where = replace(self.where, base=self.previous)
        return "cut"

    def _price(self, number: int, at: PrimalDualPoint) -> None:
        """Set the price of the previous level's slack: how fast it lowers the current level."""
        if self.cuts and (cut := self.cuts[-1]).level == number - 1:
            price = float(np.sum(at.y[cut.tops])) / cut.scale
            self.found[-1] = self.found[-1]._replace(price=price)

    def _hold_face(self, objective: Objective, found: SolvedStage, gap: float) -> str:
        s, y = found.stage.slack(found.at.w), found.at.y[: len(self.constraints.offset)]
        # The equations below hold for the cuts as they are, without their errors.
        self.is_proved, self.cuts = self.is_proved and not self.cuts, []
        z = self.previous
        most, _ = assumed_reach(self.program.reach, z, TOL.assumed)
        reach = abs(self.constraints.rows) @ most + np.abs(self.constraints.offset)
        held = held_rows(self.constraints, objective.squares, found.active, y, z, reach, gap)
        self.held += held
        rows = stacked([part.rows for part in held]) if held else None
        if rows is None:
            self.where = replace(self.where, base=z)
        elif self.where.dimension <= MOST_IN_BASIS and isinstance(rows, np.ndarray):
            self.where = self.where.within(rows, z)
        else:
            self.where, left = self.where.without_fixed(rows, z)
            equation = (Cone("zero", int(sum(left))),)
            self.equations = self.equations.joined(rows[left], rows[left] @ z, equation)
        self.constraints = remaining(self.constraints, found.active, s, y, self.where)
        faces = len(found.active.nonnegative) + len(found.active.vertices) + len(found.active.rays)
        names = ["image"] * bool(objective.squares.shape[0] or len(found.active.curves))
        names += ["face"] * bool(faces)
        return " and ".join(names) or "nothing"

    def _dimension(self) -> Deferred:
        """Return the dimension of the set of x that remains, computed on demand."""
        where, left, own, z = self.where, self.constraints, self.program.variables, self.previous
        held, unit = self.equations.rows, self.unit
        return Deferred(lambda: open_directions(where, left, held, own, z, unit))
