"""A method at work on a problem: state, bounds, rows, counts and clock.  Knows no stopping rule."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from tiebreak.algorithms.base import Method, StateReport, first_state
from tiebreak.algorithms.common import is_due
from tiebreak.driver.counted import Counted
from tiebreak.driver.result import Result
from tiebreak.driver.trace import Row
from tiebreak.linalg import arrays, deadline, in_files
from tiebreak.linalg.arrays import TINY, Array, rounding_unit
from tiebreak.linalg.tolerances import TOL
from tiebreak.problem import Problem, with_smooth_parts
from tiebreak.proofs.accumulator import BoundAccumulator
from tiebreak.proofs.bounds import Sums
from tiebreak.proofs.certificate import UNDERFLOW, Certificate, Certifier, Proved, Standing
from tiebreak.proofs.evidence import StepEvidence, evaluated_again, value_error
from tiebreak.proofs.recession.watch import NoMinimum
from tiebreak.sets.domains import has_projection, projected

NOTHING = (math.inf, math.inf)  # the gaps where nothing is proved


class Intermediate(NamedTuple):
    """What a callback sees after every step; the gaps are proved ones."""

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
    """The smallest value of g that was seen, and where in Z."""

    value: float
    x: Array


@in_files("run")
class Saved(NamedTuple):
    """A run as it is saved."""

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
    """A method at work on a problem: its state, its bounds, its trace, its counts, its clock.

    With ``certifies`` False no bounds are collected, for a race in which only the steps count (but
    for a method that adapts to what is proved). A warm start begins where a ``former`` run ended.
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
        self.method, self.certifies = method, certifies or method.adapts
        self.relative = self.absolute = (0.0, 0.0)  # tolerances, for a loop that has some
        self.is_guarded = True  # is f(x) to be secured from below, too?
        self.fall: NoMinimum | None = None  # the direction along which there is no minimum
        self.is_empty = False  # do multipliers show that Z is?
        is_ours = type(method).__module__.startswith("tiebreak.")
        self.is_foreign = self.certifies and not is_ours
        self.has_claims = False  # has a method from outside claimed an interval?
        self._own_values: tuple[Any, tuple[float, float]] = (None, (math.nan, math.nan))
        self.least: Least | None = saved.least if saved else None
        # The last state of which all was proved that was asked for, and how it stood then.
        self.certified = saved.certified if saved else None
        self._news = 0  # how often there was a new point, or evidence
        self._standings: tuple[int, Standing] | None = None  # since the last of these
        self._met: tuple[Any, bool] = (None, False)  # a state; is all proved that was asked for?
        self._reported: tuple[Any, StateReport] = (None, StateReport())  # a state, and its report
        # A state with the tolerances that were given, and its own; a point with the step, and what
        # is proved of it.
        self._asked: tuple[Any, Any, tuple[float, float]] | None = None
        self._stated: tuple[Array, int, Certificate] | None = None
        self._x0 = x0  # where the values are those at the start
        f1, g1 = (h.sized(x0, partial(projected, problem.domain)) for h in problem.smooth_parts)
        self.upper, self.lower, self._uncounted = Counted(f1), Counted(g1), problem
        self.problem: Problem = with_smooth_parts(problem, self.upper, self.lower)
        self.before: Counts = saved.counts if saved else Counts()
        self.seconds_before: float = saved.seconds if saved else 0.0
        self.clock = time.perf_counter() if began is None else began
        if saved:
            self.iteration, self.rows, self.state = saved.iteration, list(saved.rows), saved.state
            self.start_values = saved.start_values
            self.accumulator = BoundAccumulator(self.problem, x0, saved.sums)
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
                self._note_least()
                self.accumulator.add(self._evidence())
        self.certifier: Certifier = Certifier(self.accumulator)
        # A GPU or workers have f and g to work on by then: the second is begun last.
        self.lower.meanwhile = self.accumulator.catch_up

    @property
    def seconds(self) -> float:
        """Of work so far, those before a checkpoint included."""
        return self.seconds_before + time.perf_counter() - self.clock

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """The clock stands still meanwhile: measuring a run is no part of it."""
        stopped = time.perf_counter()
        yield
        self.clock += time.perf_counter() - stopped

    @property
    def report(self) -> StateReport:
        """What the method says about this state; asked once for each."""
        if self._reported[0] is not self.state:
            self._reported = self.state, self.method.report(self.state)
        return self._reported[1]

    @property
    def counts(self) -> Counts:
        """Gradients and data passes so far, those before a checkpoint included."""
        b = self.before
        return Counts(
            b.upper_gradients + self.upper.gradients,
            b.lower_gradients + self.lower.gradients,
            b.passes + self.upper.passed + self.lower.passed,
        )

    @property
    def values(self) -> tuple[float, float]:
        """f and g at this point."""
        if not self.is_foreign:
            return self.state.upper_value, self.state.lower_value
        if self._own_values[0] is not self.state:
            x = self.state.x
            problem = self._uncounted.in_precision_of(x)
            self._own_values = self.state, (problem.upper.value(x), problem.lower.value(x))
        return self._own_values[1]

    def _evidence(self) -> StepEvidence:
        """Of this step; that of a method from outside is evaluated again."""
        evidence: StepEvidence = self.state.evidence
        if not self.is_foreign:
            return evidence
        self.has_claims |= evidence.intervals is not None
        return evaluated_again(self._uncounted.in_precision_of(self.state.x), evidence)

    @property
    def gaps(self) -> tuple[float, float]:
        """What is proved of f - f* and g - g* at this point."""
        known = self.certificate(self.state.x) if self.has_own_proof else self.standing
        return known.upper_gap, known.lower_gap

    @property
    def has_own_proof(self) -> bool:
        """Has the method proved this point in its own way?  Then minorants have little to add."""
        return not self.is_foreign and self.state.evidence.intervals is not None

    @property
    def due(self) -> bool:
        """Is it time for a row?  After every step at first, then every tenth of the way."""
        last = self.rows[-1].iteration if self.rows else -1
        is_milestone = self.iteration > last and self.report.is_milestone
        return is_milestone or self.iteration >= last + max(1, last // 10)

    def step(self) -> bool:
        """One step; False (and nothing changed) if it led to a value that is not finite.

        Or if an earlier one found a slope that is not, as the bound accumulator says a few steps
        later: a projection onto a cut leaves such a cut out, and x need not show it.
        """
        before, self.state = self.state, self.method.step(self.problem, self._adapted())
        own = self.state.upper_value, self.state.lower_value
        is_good = all(map(math.isfinite, (*own, *self.values)))
        try:
            is_good = is_good and (not self.certifies or self.accumulator.add(self._evidence()))
        except deadline.Over:
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

    def _note_least(self) -> None:
        """Keep the point of Z where g is smallest: nothing worse is returned."""
        seen = [] if self.is_foreign else self.state.evidence.values
        for value, at, *_ in (*seen, (self.values[1], self.state.x)):
            if (self.least is None or value < self.least.value) and self._is_inside(at):
                self.least = Least(value, at)

    def _is_inside(self, x: Array) -> bool:
        """Is x in Z?  A start may not be, if there is no projection."""
        return has_projection(self.problem.domain) or self.problem.domain.contains(x)

    @property
    def asked(self) -> tuple[float, float]:
        """The tolerances of this point; found once for each."""
        key = self.absolute, self.relative
        if self._asked is None or self._asked[0] is not self.state or self._asked[1] != key:
            self._asked = self.state, key, self.tolerance(self.state.x, *self.values)
        return self._asked[2]

    def tolerance(
        self, x: Array, upper_value: float, lower_value: float, has_floor: bool = True
    ) -> tuple[float, float]:
        """absolute + relative max(|value at x|, |value at x0|), for both levels.

        Where both are 0 to rounding, the size of the level's terms at x takes their place: a
        residual that cancels is no scale. And of f, what it may change by over the distance that
        the tolerance of g leaves open: so f = 0 has a scale too. And UNDERFLOW, for a proof pays
        for underflow.
        """
        values, n, size = (upper_value, lower_value), int(x.shape[0]), arrays.norm(x)
        asked: list[float] = []  # the lower level first
        for h, penalty, value, first, error, a, r in reversed(list(zip(
            (self.upper, self.lower), self.problem.penalties, values, self.start_values,
            self.certifier.value_errors(x, *values), self.absolute, self.relative, strict=True,
        ))):  # fmt: skip
            scale = max(abs(value), abs(first))
            # At x0 too: a value that drowns in its own terms at x alone is no reason to ask less.
            if scale <= error and abs(first) <= self._rounding_at_start(h, first):
                L = self.lower.rough_lipschitz if asked else 0.0
                way = math.sqrt(2.0 * asked[0] / L) if 0.0 < L < math.inf else 0.0
                change = way * penalty.terms.steepness(n, way)
                scale = max(scale, h.magnitude(max(h.extent(x), way), value, 0.0), change)
            wanted = a + r * scale
            # No more than the rounding of x and of the level allow; not to stop early by that.
            if has_floor and a + r > 0.0:
                unit = rounding_unit(arrays.epsilon(x), n)
                wanted = max(wanted, error + unit * size * penalty.terms.steepness(n, size))
            asked.append(wanted + UNDERFLOW)
        return asked[1], asked[0]

    def _measure_from_origin(self) -> None:
        """Tolerances as of a start at the origin: one at an answer is no scale for them."""
        origin = projected(self.problem.domain, arrays.zeros_like(self._x0))
        values = self.problem.upper.value(origin), self.problem.lower.value(origin)
        if all(map(math.isfinite, values)):
            self._x0, self.start_values = origin, values

    def take_over(self, former: Result) -> None:
        """What a former run has proved of the same problem, and the scale of its tolerances.

        Only where both levels still have the values they had: functions of yours may have changed.
        """
        x = self.state.x
        errors = self.certifier.value_errors(x, *self.values)
        before = former.upper_value, former.lower_value
        is_same = self.iteration == 0 and all(
            abs(now - then) <= 2.0 * error
            for now, then, error in zip(self.values, before, errors, strict=True)
        )
        if is_same and former.known is not None:
            self.accumulator.take_over(former.known)
            self.start_values = former.start_values

    def _rounding_at_start(self, h: Counted, value: float) -> float:
        """A bound on the rounding error of the value of h at x0."""
        return value_error(h, self._x0, h.extent(self._x0), value, abs(value), 0.0) + TINY

    @property
    def standing(self) -> Standing:
        """How this point stands, by the bounds of this step; found once for each that has news."""
        if self._standings is None or self._standings[0] != self._news:
            # A run that goes on has searched for the bounds of a recorded step before it was saved.
            effort = 0 if self._standings is None and self.is_recorded else 5
            x, reach = self.state.x, self.report.reach
            standing = self.certifier.standing(x, *self.values, effort, reach)
            self._standings = self._news, standing
        return self._standings[1]

    @property
    def is_met(self) -> bool:
        """Is all proved that was asked for?  Found once for each state."""
        if self._met[0] is not self.state:
            self._met = self.state, self._is_enough()
            if self._met[1] and not self.has_own_proof:  # which ends the run
                self.certified = self.state, self.standing
        return self._met[1]

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
        """Does the guard secure f(x) from below?

        Where its price is 0, f(x) is f's own minimum over Z. If that was already so at x0, nothing
        says what would be little for f, and g must be at its minimum, but for rounding.
        """
        if self.report.readings or not standing.is_guarded(tolerance):
            return False
        if standing.price > 0.0 or self.values[0] < self.start_values[0]:
            return True
        error = self.certifier.value_errors(self.state.x, *self.values, self.report.reach)[1]
        return standing.lower_gap <= TOL.clear_units * error

    def is_proved(self, proof: Certificate) -> bool:
        """The same of a certificate of this step's point, which may have been rounded."""
        asked = self.asked
        if proof.upper_gap > asked[0] or proof.lower_gap > asked[1]:
            return False
        if not self.is_guarded or proof.upper_error <= asked[0]:
            return True
        return self._is_secured(self.standing, asked[0]) and proof.upper_gap >= -asked[0]

    def has_gone_back(self) -> bool:
        """Back to the last state that was certified; not where what is known now speaks against it.

        It may have been certified by a call that asked for less, or be proved to be too low since.
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
        """The point of least g, where g at this one exceeds it by more than the tolerance."""
        least, tolerance = self.least, self.asked[1]
        if least is None or not self.values[1] - least.value > tolerance > UNDERFLOW:
            return None
        return least if math.isfinite(self.problem.upper.value(least.x)) else None

    def _adapted(self) -> Any:
        """The state, adapted to what is proved by a method that wants to know."""
        if not self.is_adapting:
            return self.state
        bounds = self.accumulator.sums.lower_bound, self.accumulator.sums.ghat
        proved = Proved(self.standing, *bounds, self.asked, self.is_guarded)
        return self.method.adapt(self.state, proved)

    @property
    def is_adapting(self) -> bool:
        """Is the method told at this step what is proved?"""
        return self.method.adapts and is_due(self.iteration) and not self.report.decides

    @property
    def is_recorded(self) -> bool:
        """Has this step its row?"""
        return bool(self.rows) and self.rows[-1].iteration == self.iteration

    def record(self, is_proved: bool = True) -> Row:
        """Append the row of this step; the row itself if it is there already.

        Without gaps where its proof comes later, or before a step that decides everything.
        """
        if not self.is_recorded:
            gaps = self.gaps if is_proved and not self.report.decides else NOTHING
            self.rows.append(Row(self.iteration, self.seconds, *self.values, *gaps, *self.counts))
        return self.rows[-1]

    def record_answer(self, proof: Certificate) -> None:
        """The row of the last step is that of the point which is returned."""
        self.rows[-1] = self.rows[-1]._replace(
            upper_value=proof.upper_value,
            lower_value=proof.lower_value,
            upper_gap=proof.upper_gap,
            lower_gap=proof.lower_gap,
        )

    def intermediate(self) -> Intermediate:
        """This step for a callback, with the bounds of the last recorded one."""
        x, values = self.state.x, self.values
        found = self.certifier.standing(x, *values, effort=0, reach=self.report.reach)
        gaps = found.upper_gap, found.lower_gap
        return Intermediate(x, self.iteration, *values, *gaps, self.seconds)

    def saved(self) -> Saved:
        """The run as it is now, to go on from there."""
        return Saved(
            self.iteration, self.seconds, self.counts, self.start_values,
            tuple(self.rows), self.accumulator.sums, self.least, self.certified, self.state,
        )  # fmt: skip

    def certificate(self, x: Array) -> Certificate:
        """The whole statement about x: f and g are evaluated once more, exact to rounding.

        Found once for each point and step.
        """
        if self._stated is None or self._stated[0] is not x or self._stated[1] != self.iteration:
            self._stated = x, self.iteration, self._certificate(x)
        return self._stated[2]

    def _certificate(self, x: Array) -> Certificate:
        problem = self.problem.in_precision_of(x)
        (point,) = problem.forward(x)
        (upper,), _ = problem.smooth_parts[0].evaluate([point.f])
        _, (lower_value,) = problem.lower.evaluate([], [point.g])
        upper_value = upper.value + problem.penalties[0].value(x)
        return self.certifier.certificate(x, upper, upper_value, lower_value)

    def _note_violations(self) -> None:
        """What the method's consistency checks have found, for the bounds."""
        self.accumulator.refuted |= any(self.report.convexity_violations)
        self.accumulator.is_steep |= self.report.lipschitz_violations[0] > 0
