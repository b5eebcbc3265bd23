"""A method running on a problem: state, bounds, rows, counts and clock, but no stopping rule."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from tiebreak.algorithms import Method, StateReport
from tiebreak.algorithms.base import first_state
from tiebreak.algorithms.common import is_due, values_at
from tiebreak.driver.counted import Counted
from tiebreak.driver.result import Result
from tiebreak.driver.trace import Row
from tiebreak.linalg import TINY, TOL, Array, arrays, in_files, rounding_unit
from tiebreak.linalg.fingerprints import is_ours, is_watched
from tiebreak.problem import Problem, with_smooth_parts
from tiebreak.proofs.accumulator import BoundAccumulator
from tiebreak.proofs.bounds import Sums
from tiebreak.proofs.certificate import UNDERFLOW, Certificate, Certifier, Proved, Standing
from tiebreak.proofs.evidence import StepEvidence, evaluated_again, value_error
from tiebreak.proofs.recession.watch import NoMinimum

NOT_FINITE = (
    "solve: {} begins at a point at which the upper or lower level has a value or a gradient that "
    "is not finite: check the functions away from x0, or choose another x0 or method"
)
NOTHING = (math.inf, math.inf)  # the gaps if nothing is proved
PER_STATE = ("report", "values", "asked", "is_met")  # cached until the state changes


class Intermediate(NamedTuple):
    """What a callback receives after every step; the gaps are proved."""

    x: Array
    nit: int
    upper_value: float
    lower_value: float
    upper_gap: float
    lower_gap: float
    time: float


@in_files("counts")
class Counts(NamedTuple):
    """Oracle calls and passes over the data so far."""

    upper_gradients: int = 0
    lower_gradients: int = 0
    passes: int = 0


@in_files("least")
class Least(NamedTuple):
    """The smallest value of g so far, and the point of Z at which g has this value."""

    value: float
    x: Array


@in_files("run")
class Saved(NamedTuple):
    """The saved form of a run."""

    iteration: int
    seconds: float
    counts: Counts
    start_values: tuple[float, float]
    rows: tuple[Row, ...]
    sums: Sums
    least: Least | None
    certified: tuple[Any, Standing] | None
    state: Any


class Run:
    """A method running on a problem: its state, bounds, trace, counts and clock.

    If ``certifies`` is False, no bounds are collected (except for methods that adapt to proved
    bounds), as in a race in which only the steps count. A warm start begins at the end of a
    ``former`` run.
    """

    def __init__(
        self,
        problem: Problem,
        method: Method,
        x0: Array,
        saved: Saved | None = None,
        began: float | None = None,
        certifies: bool = True,
        former: Result | None = None,
    ) -> None:
        self.method: Method = method
        self.certifies: bool = certifies or method.adapts
        self.relative: tuple[float, float] = (0.0, 0.0)  # the tolerances, if the loop has any
        self.absolute: tuple[float, float] = (0.0, 0.0)
        self.is_guarded = True  # must f(x) also be shown not to lie far below f*?
        self.fall: NoMinimum | None = None  # a direction along which there is no minimum
        self.is_empty = False  # do multipliers prove that Z is empty?
        self.is_foreign: bool = self.certifies and not is_ours(type(method))
        self.has_claims: bool = False  # has a third-party method claimed an interval?
        self.least: Least | None = saved.least if saved else None
        # The last state at which everything requested was proved, and its `Standing` at that time.
        self.certified = saved.certified if saved else None
        self._news = 0  # how often the point or the evidence has changed
        self._standings: tuple[int, Standing] | None = None  # last `standing`, with its ``_news``
        # a point, its step, and its certificate
        self._stated: tuple[Array, int, Certificate] | None = None
        self._x0 = x0  # where ``start_values`` are taken
        f1, g1 = (h.sized(x0, problem.domain.projected) for h in problem.smooth_parts)
        self.upper: Counted = Counted(f1)
        self.lower: Counted = Counted(g1)
        self._uncounted = problem
        self.problem: Problem = with_smooth_parts(problem, self.upper, self.lower)
        self.before: Counts = saved.counts if saved else Counts()
        self.seconds_before: float = saved.seconds if saved else 0.0
        self.clock: float = time.perf_counter() if began is None else began
        if saved:
            self.iteration: int = saved.iteration
            self.rows: list[Row] = list(saved.rows)
            self.state = saved.state
            self.start_values: tuple[float, float] = saved.start_values
            self.accumulator: BoundAccumulator = BoundAccumulator(self.problem, x0, saved.sums)
            self._note_violations()
        else:
            self.iteration, self.rows = 0, []
            multipliers = None if former is None else former.multipliers
            self.state = first_state(method, self.problem, x0, multipliers)
            self.start_values = self.values
            if former is not None:
                self._measure_from_origin()
            self.accumulator = BoundAccumulator(self.problem, x0)
            if self.certifies:
                if not (self._has_finite_values() and arrays.all_finite(self.state.x)):
                    raise ValueError(NOT_FINITE.format(method.name))
                self._note_least()
                self.accumulator.add(self._evidence())
        self.certifier: Certifier = Certifier(self.accumulator)
        # When ``meanwhile`` is called, f and g are both being evaluated, because g starts last.
        self.lower.meanwhile = self.accumulator.catch_up

    @property
    def seconds(self) -> float:
        """Return the seconds of work so far, including those before a checkpoint."""
        return self.seconds_before + time.perf_counter() - self.clock

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock inside the block, in which a race evaluates the current point."""
        stopped = time.perf_counter()
        yield
        self.clock += time.perf_counter() - stopped

    @property
    def state(self) -> Any:
        """The method's state."""
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._state = state
        for name in PER_STATE:
            vars(self).pop(name, None)

    @cached_property
    def report(self) -> StateReport:
        """The method's report on this state."""
        return self.method.report(self.state)

    @property
    def counts(self) -> Counts:
        """Gradients and data passes so far, including those before a checkpoint."""
        b = self.before
        return Counts(
            b.upper_gradients + self.upper.gradients,
            b.lower_gradients + self.lower.gradients,
            b.passes + self.upper.passed + self.lower.passed,
        )

    @cached_property
    def values(self) -> tuple[float, float]:
        """f and g at this point."""
        if not self.is_foreign:
            return self.state.upper_value, self.state.lower_value
        x = self.state.x
        problem = self._uncounted.in_precision_of(x)
        return problem.upper.value(x), problem.lower.value(x)

    def _evidence(self) -> StepEvidence:
        """Return this step's evidence; evidence from third-party methods is recomputed."""
        evidence: StepEvidence = self.state.evidence
        if not self.is_foreign:
            return evidence
        self.has_claims |= evidence.intervals is not None
        return evaluated_again(self._uncounted.in_precision_of(self.state.x), evidence)

    @property
    def gaps(self) -> tuple[float, float]:
        """Proved bounds on f - f* and g - g* at this point."""
        known = self.certificate(self.state.x) if self.has_own_proof else self.standing
        return known.upper_gap, known.lower_gap

    @property
    def has_own_proof(self) -> bool:
        """Does the method have its own proof for this point?  If so, minorants add little."""
        return not self.is_foreign and self.state.evidence.intervals is not None

    @property
    def due(self) -> bool:
        """Is a row due? At first a row is due after every step, later less often."""
        last = self.rows[-1].iteration if self.rows else -1
        is_milestone = self.iteration > last and self.report.is_milestone
        return is_milestone or self.iteration >= last + max(1, last // 10)

    def step(self) -> bool:
        """Take one step; return False, with nothing changed, if a value became infinite or NaN.

        Also return False if an earlier step had an infinite or NaN slope. The bound accumulator
        notices such a slope a few steps later. Such a slope may not show in x, because a projection
        skips a cut with this slope.
        """
        before, self.state = self.state, self.method.step(self.problem, self._adapted())
        try:
            is_good = self._has_finite_values() and (
                not self.certifies or self.accumulator.add(self._evidence())
            )
        except BaseException:  # perhaps Ctrl-C in the user's function: nothing has changed
            self.state = before
            raise
        if not is_good:
            self.state = before
            return False
        self._note_violations()
        if self.certifies:
            self._note_least()
        self._news += any(self.state.evidence) or self.state.x is not before.x
        self.iteration += 1
        return True

    def _has_finite_values(self) -> bool:
        """Are the values of this point finite, both the method's and our own?"""
        own = self.state.upper_value, self.state.lower_value
        return all(map(math.isfinite, (*own, *self.values)))

    def _note_least(self) -> None:
        """Keep the point of Z with the smallest g, so that nothing worse is returned."""
        seen = [] if self.is_foreign else self.state.evidence.values
        for value, at, *_ in (*seen, (self.values[1], self.state.x)):
            if (self.least is None or value < self.least.value) and self._is_inside(at):
                self.least = Least(value, at)

    def _is_inside(self, x: Array) -> bool:
        """Is x in Z?  Without a projection, the start may be outside Z."""
        return self.problem.domain.has_projection or self.problem.domain.contains(x)

    @cached_property
    def asked(self) -> tuple[float, float]:
        """The tolerances at this point."""
        return self.tolerance(self.state.x, *self.values)

    def tolerance(
        self, x: Array, upper_value: float, lower_value: float, has_floor: bool = True
    ) -> tuple[float, float]:
        """Return absolute + relative max(|value at x|, |value at x0|) for both levels.

        If both values are 0 up to rounding, the size of the level's terms at x replaces them: a
        residual that cancels is not a scale. For f we add its possible change over the distance
        that the tolerance of g leaves open, so that f = 0 has a scale too. We also add
        UNDERFLOW, because proofs have to allow for underflow.
        """
        values, n, size = (upper_value, lower_value), int(x.shape[0]), arrays.norm(x)
        asked: list[float] = []  # the lower level first
        for h, penalty, value, first, error, a, r in reversed(list(zip(
            (self.upper, self.lower), self.problem.penalties, values, self.start_values,
            self.certifier.value_errors(x, *values), self.absolute, self.relative, strict=True,
        ))):  # fmt: skip
            scale = max(abs(value), abs(first))
            error = error if error < math.inf else 0.0  # unknown: then nothing will be proved
            # Check x0 too: cancellation at x alone is no reason to relax the tolerance.
            if scale <= error and abs(first) <= self._rounding_at_start(h, first):
                L = self.lower.rough_lipschitz if asked else 0.0
                way = math.sqrt(2.0 * asked[0] / L) if 0.0 < L < math.inf else 0.0
                change = way * penalty.terms.steepness(n, way)
                scale = max(scale, h.magnitude(max(h.extent(x), way), value, 0.0), change)
            wanted = a + r * scale
            # Require no more than the rounding of x and of the level allows, unless this would let
            # a run end early.
            if has_floor and a + r > 0.0:
                unit = rounding_unit(arrays.epsilon(x), n)
                wanted = max(wanted, error + unit * size * penalty.terms.steepness(n, size))
            asked.append(wanted + UNDERFLOW)
        return asked[1], asked[0]

    def _measure_from_origin(self) -> None:
        """Scale tolerances as if the run began at the origin: an optimal x0 gives no scale."""
        origin = self.problem.domain.projected(arrays.zeros_like(self._x0))
        values = self.problem.upper.value(origin), self.problem.lower.value(origin)
        if all(map(math.isfinite, values)):
            self._x0, self.start_values = origin, values

    def take_over(self, former: Result) -> None:
        """Reuse a former run's scale of tolerances, and its proved bounds for this problem.

        If a level has another value at x, the user's functions have changed, and nothing is reused.
        Bounds also need data in which every change is noticed: equal values at x prove no bound.
        """
        x, problem = self.state.x, former.problem
        errors = self.certifier.value_errors(x, *self.values)
        before = former.upper_value, former.lower_value
        is_same = self.iteration == 0 and all(
            abs(now - then) <= 2.0 * error
            for now, then, error in zip(self.values, before, errors, strict=True)
        )
        if is_same and former.known is not None:
            self.start_values = former.start_values
            if is_watched((problem.upper, problem.lower, problem.domain)):
                self.accumulator.take_over(former.known)

    def _rounding_at_start(self, h: Counted, value: float) -> float:
        """Bound the rounding error of the value of h at x0."""
        return value_error(h, self._x0, h.extent(self._x0), value, abs(value), 0.0) + TINY

    @property
    def standing(self) -> Standing:
        """The `Standing` of this point, given the bounds so far; recomputed after new evidence."""
        if self._standings is None or self._standings[0] != self._news:
            # If a resumed run has recorded the step, it computed the bounds before it was saved.
            effort = 0 if self._standings is None and self.is_recorded else 5
            x, reach = self.state.x, self.report.reach
            standing = self.certifier.standing(x, *self.values, effort, reach)
            self._standings = self._news, standing
        return self._standings[1]

    @cached_property
    def is_met(self) -> bool:
        """Do the proved bounds meet the requested tolerances?"""
        is_enough = self._is_enough()
        if is_enough and not self.has_own_proof:  # this proof ends the run
            self.certified = self.state, self.standing
        return is_enough

    def _is_enough(self) -> bool:
        if self.has_own_proof:
            return self.is_proved(self.certificate(self.state.x)) and self._is_inside(self.state.x)
        tolerance = self.tolerance(self.state.x, *self.values, False)
        if not (self.standing.is_within(tolerance) and self._is_inside(self.state.x)):
            return False
        if not self.is_guarded or self._is_secured(self.standing, tolerance[0]):
            return True
        return self.certificate(self.state.x).upper_error <= tolerance[0]

    def _is_secured(self, standing: Standing, tolerance: float) -> bool:
        """Does the guard show that f(x) does not lie far below f*?

        If the guard's price is 0, f(x) is f's own minimum over Z. If the price is 0 already at x0,
        f has no scale, and g must be at its minimum up to rounding.
        """
        if self.report.readings or not standing.is_guarded(tolerance):
            return False
        if standing.price > 0.0 or self.values[0] < self.start_values[0]:
            return True
        error = self.certifier.value_errors(self.state.x, *self.values, self.report.reach)[1]
        return standing.lower_gap <= TOL.clear_units * error

    def is_proved(self, proof: Certificate) -> bool:
        """Does this certificate, perhaps for a rounded point, prove all that was requested?"""
        asked = self.asked
        if proof.upper_gap > asked[0] or proof.lower_gap > asked[1]:
            return False
        if not self.is_guarded or proof.upper_error <= asked[0]:
            return True
        return self._is_secured(self.standing, asked[0]) and proof.upper_gap >= -asked[0]

    def has_gone_back(self) -> bool:
        """Return to the last certified state, unless later findings contradict it.

        That state may have been certified by an earlier call, with looser tolerances. Since then, f
        may also have been proved to be too low at that point.
        """
        if self.certified is None:
            return False
        before = self.state, self._standings
        self.state, standing = self.certified
        self._standings = self._news, standing
        if self.is_proved(self.certificate(self.state.x)):
            return True
        self.state, self._standings = before
        return False

    @property
    def better_below(self) -> Least | None:
        """Return the point of least g if g is larger at x by more than the tolerance, else None.

        We use the tolerance at the point of least g: where g is huge, a relative tolerance is huge
        too. A tolerance that consists only of UNDERFLOW, which every tolerance contains, does not
        count.
        """
        least = self.least
        if least is None or not self.values[1] > least.value:
            return None
        upper = self.problem.upper.value(arrays.like(least.x, self._x0))  # it may be in float64
        if not math.isfinite(upper):
            return None
        tolerance = self.tolerance(least.x, upper, least.value)[1]
        is_worse = self.values[1] - least.value > tolerance
        return least if is_worse and tolerance > 2.0 * UNDERFLOW else None

    def _adapted(self) -> Any:
        """Return the state, adapted to the proved bounds if the method uses them."""
        if not self.is_adapting:
            return self.state
        bounds = self.accumulator.sums.lower_bound, self.accumulator.sums.ghat
        proved = Proved(self.standing, *bounds, self.asked, self.is_guarded)
        return self.method.adapt(self.state, proved)

    @property
    def is_adapting(self) -> bool:
        """Does the method receive the proved bounds at this step?"""
        return self.method.adapts and is_due(self.iteration) and not self.report.decides

    @property
    def is_recorded(self) -> bool:
        """Has this step been recorded?"""
        return bool(self.rows) and self.rows[-1].iteration == self.iteration

    def record(self, is_proved: bool = True) -> Row:
        """Append the row of this step unless it exists, and return it.

        The row gets no gaps if they will be proved later, or if the next step settles the outcome.
        """
        if not self.is_recorded:
            gaps = self.gaps if is_proved and not self.report.decides else NOTHING
            self.rows.append(Row(self.iteration, self.seconds, *self.values, *gaps, *self.counts))
        return self.rows[-1]

    def record_answer(self, proof: Certificate) -> None:
        """Make the last row describe the returned point."""
        self.rows[-1] = self.rows[-1]._replace(
            upper_value=proof.upper_value,
            lower_value=proof.lower_value,
            upper_gap=proof.upper_gap,
            lower_gap=proof.lower_gap,
        )

    def intermediate(self) -> Intermediate:
        """Return this step for a callback, with the bounds of the last recorded step."""
        x, values = self.state.x, self.values
        found = self.certifier.standing(x, *values, effort=0, reach=self.report.reach)
        gaps = found.upper_gap, found.lower_gap
        return Intermediate(x, self.iteration, *values, *gaps, self.seconds)

    def saved(self) -> Saved:
        """Return the current run in a form from which it can be resumed."""
        return Saved(
            self.iteration, self.seconds, self.counts, self.start_values,
            tuple(self.rows), self.accumulator.sums, self.least, self.certified, self.state,
        )  # fmt: skip

    def certificate(self, x: Array) -> Certificate:
        """Return all bounds proved for x; they are computed once per point and step.

        f and g are evaluated again, to be exact up to rounding, unless the method has evaluated
        them at x itself, rather than computed them from a combination of other points' images.
        """
        if self._stated is None or self._stated[0] is not x or self._stated[1] != self.iteration:
            self._stated = x, self.iteration, self._certificate(x)
        return self._stated[2]

    def _certificate(self, x: Array) -> Certificate:
        values = self.values
        if x is not self.state.x or not self.report.is_evaluated:
            problem = self.problem.in_precision_of(x)
            values = values_at(problem, *problem.forward(x))  # one pass if both share a matrix
        return self.certifier.certificate(x, *values, self.asked[0])

    def _note_violations(self) -> None:
        """Tell the bound accumulator which consistency checks of the method have failed."""
        self.accumulator.refuted |= any(self.report.convexity_violations)
        self.accumulator.is_steep |= self.report.lipschitz_violations[0] > 0
