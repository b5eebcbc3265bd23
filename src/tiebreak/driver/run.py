"""A method at work on a problem: state, ledger, rows, counts and clock.  Knows no stopping rule."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from tiebreak.algorithms.common import is_due
from tiebreak.driver.result import Row
from tiebreak.functions.base import Outcome, PendingEvaluation, PointWithImage, SmoothFunction
from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Array, Image
from tiebreak.problem import Problem
from tiebreak.proofs.accumulator import BoundAccumulator
from tiebreak.proofs.bounds import Sums
from tiebreak.proofs.certificate import UNDERFLOW, Certificate, Certifier, Proved, Standing


class Method(Protocol):
    """A method: parameters, a first state, and the way from one state to the next.

    ``planned(steps)`` may be there too: the method with what its parameters leave open filled in
    for a run of at most so many steps; and ``told(problem, state)``, the way that a run went, for
    a method that decides on the way; and ``heed(state, proved)``, the same state for a run that
    now and then is told what is Proved. A state may have ``finished``, the status and the sentence
    of a method that ends by itself, and ``findings``, what it found out besides x;
    ``answer``, the same as ``finished`` where only the proof is missing;
    ``is_settling``, where f is about to become more accurate, whatever is proved already; and
    ``is_milestone``, where a row should be recorded.
    """

    @property
    def name(self) -> str: ...

    def check(self, problem: Problem) -> None: ...

    def describe(self, problem: Problem) -> str: ...

    def init(self, problem: Problem, x0: Array) -> Any: ...

    def step(self, problem: Problem, state: Any) -> Any: ...


class Intermediate(NamedTuple):
    """What a callback sees after every step; the gaps are proved ones."""

    x: Array
    nit: int
    upper_value: float
    lower_value: float
    upper_gap: float
    lower_gap: float
    time: float


class Counts(NamedTuple):
    """Oracle calls and passes over the data so far."""

    upper_gradients: int = 0
    lower_gradients: int = 0
    passes: int = 0


class Counted(SmoothFunction):
    """A function that counts how often it is asked; otherwise the function itself.

    The certificate takes a look to be as precise as its point. So points in more than the
    precision of the data are left to the wider function: plain products of NumPy would be promoted,
    but others would round them in silence.
    """

    meanwhile: Callable[[], object] = staticmethod(lambda: None)  # done while a look is under way

    def __init__(self, function: SmoothFunction, counter: Counted | None = None) -> None:
        self.function, self._counter = function, counter or self
        self.gradients = self.passed = 0
        self.dimension, self.prototype = function.dimension, function.prototype
        own = self.prototype
        # None where no point can be wider, so that nothing is asked ten times in a step.
        self._single = own.dtype if own is not None and arrays.is_single(own) else None

    @property
    def bare(self) -> SmoothFunction:
        return self.function.bare

    @cached_property
    def in_float64(self) -> Counted | None:
        """The wider function, counted with this one."""
        wide = self.function.in_float64
        return None if wide is None else Counted(wide, self._counter)

    @property
    def shares_passes(self) -> bool:  # type: ignore[override]
        return self.function.shares_passes

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return self.function.lipschitz

    @property
    def known_lipschitz(self) -> float:
        return self.function.known_lipschitz

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        return self.function.strong_convexity

    @property
    def defect(self) -> float:  # type: ignore[override]
        return self.function.defect

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return self.function.lower_bound

    @property
    def growth(self) -> float:
        return self.function.growth

    def _count(self, lifts: int, slopes: int, values: int) -> None:
        self._counter.gradients += slopes
        self._counter.passed += self.function.passes(lifts, slopes, values)

    def _for(self, x: Array) -> Counted:
        """This function, or the wider one where x is in more than the precision of the data."""
        if self._single is None or x.dtype == self._single or arrays.is_single(x):
            return self
        if self.in_float64 is None:
            raise ValueError(
                f"{type(self.bare).__name__}: points must be {arrays.kind(self.prototype)} as its "
                f"data, which cannot be widened, got {arrays.kind(x)}"
            )
        return self.in_float64

    def _is_plain(self, points: Sequence[PointWithImage]) -> bool:
        """Are they all of the dtype of the data, as nearly always?"""
        for p in points:  # noqa: SIM110 -- a generator would take three times as long
            if p.x.dtype != self._single:
                return False
        return True

    def value(self, x: Array) -> float:
        h = self._for(x)
        h._count(1, 0, 1)
        return h.function.value(x)

    def gradient(self, x: Array) -> Array:
        h = self._for(x)
        h._count(1, 1, 0)
        return h.function.gradient(x)

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        self._count(len(xs), 0, 0)
        if self._single is None:
            return self.function.forward(*xs)
        # A wider point is lifted anew for a look. This image, rounded, can be mixed with others.
        return self.function.forward(
            *[x if self._for(x) is self else arrays.like(x, self.prototype) for x in xs]
        )

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        if self._single is not None and not (self._is_plain(at) and self._is_plain(values_at)):
            return self._start_apart(at, values_at)
        self._count(0, len(at), len(values_at))
        looking = self.function.evaluate_async(at, values_at)
        self.meanwhile()
        return looking

    def _start_apart(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage]
    ) -> PendingEvaluation:
        """Begin a look at points of which some may be left to the wider function.

        These are lifted anew: an image mixed from several may have been rounded with one of them.
        """
        parts = []
        for h in dict.fromkeys(self._for(p.x) for p in (*at, *values_at)):
            mine = [[p for p in points if self._for(p.x) is h] for points in (at, values_at)]
            if h is not self:
                mine = [[PointWithImage(p.x, *h.forward(p.x)) for p in points] for points in mine]
            h._count(0, *map(len, mine))
            parts.append((h, h.function.evaluate_async(*mine)))

        def end() -> Outcome:
            found = [(h, *looking()) for h, looking in parts]
            seen = {h: iter(some) for h, some, _ in found}
            values = {h: iter(some) for h, _, some in found}
            return (
                [next(seen[self._for(p.x)]) for p in at],
                [next(values[self._for(p.x)]) for p in values_at],
            )

        return PendingEvaluation(end)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        return self.function.rounding(reach, value, slope, epsilon, n)

    def extent(self, x: Array) -> float:
        return self.function.extent(x)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return self.function.magnitude(reach, value, slope)

    def turning(self, reach: float, slope: float) -> float:
        return self.function.turning(reach, slope)


class Least(NamedTuple):
    """The smallest value of g that was seen, and where in Z."""

    value: float
    x: Array


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
    """A method at work on a problem: its state, its ledger, its trace, its counts, its clock.

    With ``certifies`` False the ledger stays empty, for a race in which only the steps count (but
    for a method that heeds what is proved).
    """

    def __init__(
        self,
        problem: Problem,
        method: Method,
        x0: Array,
        saved: Saved | None = None,
        began: float | None = None,
        certifies: bool = True,
    ) -> None:
        self.method, self.certifies = method, certifies or hasattr(method, "adapt")
        self.relative = self.absolute = (0.0, 0.0)  # tolerances, for a loop that has some
        self.is_guarded = True  # is f(x) to be secured from below, too?
        self.least: Least | None = saved.least if saved else None
        # The last state of which all was proved that was asked for, and how it stood then.
        self.certified = saved.certified if saved else None
        self._standings: tuple[int, Standing, bool] | None = None  # of this iteration; is all met?
        f1, g1 = (h.sized(x0, problem.domain.project) for h in problem.smooth_parts)
        self.upper, self.lower = Counted(f1), Counted(g1)
        f2, g2 = problem.penalties
        self.problem = replace(problem, upper=self.upper + f2, lower=self.lower + g2)
        self.before = saved.counts if saved else Counts()
        self.seconds_before = saved.seconds if saved else 0.0
        self.clock = time.perf_counter() if began is None else began
        if saved:
            self.iteration, self.rows, self.state = saved.iteration, list(saved.rows), saved.state
            self.start_values = saved.start_values
            self.accumulator = BoundAccumulator(self.problem, x0, saved.sums)
            self._note_doubts()
        else:
            self.iteration, self.rows = 0, []
            self.state = method.init(self.problem, x0)
            self.start_values = (self.state.upper_value, self.state.lower_value)
            self.accumulator = BoundAccumulator(self.problem, x0)
            if self.certifies:
                self._note_least()
                self.accumulator.add(self.state.evidence)
        self.certifier = Certifier(self.accumulator)
        # A GPU or workers have f and g to work on by then: the second is begun last.
        self.lower.meanwhile = self.accumulator.catch_up

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.clock

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """The clock stands still meanwhile: measuring a run is no part of it."""
        stopped = time.perf_counter()
        yield
        self.clock += time.perf_counter() - stopped

    @property
    def finished(self) -> tuple[str, str]:
        """The status and the sentence with which the method ended by itself, else two blanks."""
        ending: tuple[str, str] = getattr(self.state, "finished", ("", ""))
        return ending

    @property
    def answer(self) -> tuple[str, str]:
        """The status and the sentence of an answer that only lacks its proof, else two blanks."""
        unproved: tuple[str, str] = getattr(self.state, "answer", ("", ""))
        return unproved

    @property
    def readings(self) -> str:
        """The two readings of data whose rank rounding decides, in a sentence, else ""."""
        sentence: str = getattr(self.state, "readings", "")
        return sentence

    @property
    def is_settling(self) -> bool:
        """Is f about to become more accurate, so that the run goes on though all is proved?"""
        return bool(getattr(self.state, "is_settling", False))

    @property
    def described(self) -> str:
        """The method in words, and the way that it went."""
        history = getattr(self.method, "history", None)
        words: str = (
            self.method.describe(self.problem)
            if history is None
            else history(self.problem, self.state)
        )
        return words

    @property
    def counts(self) -> Counts:
        b = self.before
        return Counts(
            b.upper_gradients + self.upper.gradients,
            b.lower_gradients + self.lower.gradients,
            b.passes + self.upper.passed + self.lower.passed,
        )

    @property
    def reach(self) -> Any:
        """Of what length the images of x were mixed, None where they were not: see `mixed`."""
        return getattr(self.state, "reach", None)

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.state.upper_value) and math.isfinite(self.state.lower_value)

    @property
    def due(self) -> bool:
        """Is it time for a row?  After every step at first, then every tenth of the way."""
        last = self.rows[-1].iteration if self.rows else -1
        is_milestone = getattr(self.state, "is_milestone", False) and self.iteration > last
        return is_milestone or self.iteration >= last + max(1, last // 10)

    def step(self) -> bool:
        """One step; False (and nothing changed) if it led to a value that is not finite.

        Or if an earlier one found a slope that is not, which the ledger tells a few steps later: a
        projection onto a cut leaves such a cut out, and x need not show it.
        """
        before, self.state = self.state, self.method.step(self.problem, self._adapted())
        try:
            is_good = self.is_finite and (
                not self.certifies or self.accumulator.add(self.state.evidence)
            )
        except deadline.Over:
            self.state = before
            raise
        if not is_good:
            self.state = before
            return False
        self._note_doubts()
        if self.certifies:
            self._note_least()
        self.iteration += 1
        return True

    def _note_least(self) -> None:
        """Keep the point where g is smallest: nothing worse is returned."""
        seen = [(value, at) for value, at, _ in self.state.evidence.values]
        for value, at in [*seen, (self.state.lower_value, self.state.x)]:
            if self.least is None or value < self.least.value:
                self.least = Least(value, at)

    @property
    def asked(self) -> tuple[float, float]:
        """The tolerances of this point."""
        return self.tolerance(self.state.x, self.state.upper_value, self.state.lower_value)

    def tolerance(self, x: Array, upper_value: float, lower_value: float) -> tuple[float, float]:
        """absolute + relative max(|value at x|, |value at x0|), for both levels.

        Where both are 0 to rounding, the size of the level's terms at x takes their place: a
        residual that cancels is no scale. And UNDERFLOW, for a proof pays for underflow.
        """
        values = upper_value, lower_value
        asked = []
        for h, value, first, error, a, r in zip(
            (self.upper, self.lower), values, self.start_values,
            self.certifier.value_errors(x, *values), self.absolute, self.relative, strict=True,
        ):  # fmt: skip
            scale = max(abs(value), abs(first))
            if scale <= error:
                scale = max(scale, h.magnitude(h.extent(x), value, 0.0))
            asked.append(a + r * scale + UNDERFLOW)
        return asked[0], asked[1]

    @property
    def standing(self) -> Standing:
        """How this point stands, by the bounds of this step."""
        return self._assessed()[0]

    @property
    def is_met(self) -> bool:
        """Is all proved that was asked for?"""
        return self._assessed()[1]

    def _assessed(self) -> tuple[Standing, bool]:
        """How this point stands, and whether that is enough; found once for each step."""
        if self._standings is None or self._standings[0] != self.iteration:
            state = self.state
            # A run that goes on has searched for the bounds of a recorded step before it was saved.
            effort = 0 if self._standings is None and self.is_recorded else 5
            values = state.upper_value, state.lower_value
            standing = self.certifier.standing(state.x, *values, effort, self.reach)
            self._standings = self.iteration, standing, self._is_enough(standing)
            if self._standings[2]:
                self.certified = state, standing
        return self._standings[1:]

    def _is_enough(self, standing: Standing) -> bool:
        tolerance = self.asked
        if not standing.is_within(tolerance):
            return False
        if not self.is_guarded or (standing.is_guarded(tolerance[0]) and not self.readings):
            return True
        return self.certificate(self.state.x).upper_error <= tolerance[0]

    def is_proved(self, proof: Certificate) -> bool:
        """The same of a certificate of this step's point, which may have been rounded."""
        asked = self.asked
        if proof.upper_gap > asked[0] or proof.lower_gap > asked[1]:
            return False
        if not self.is_guarded or proof.upper_error <= asked[0]:
            return True
        is_secured = self.standing.is_guarded(asked[0]) and not self.readings
        return is_secured and proof.upper_gap >= -asked[0]

    def is_exact(self, x: Array, proof: Certificate) -> bool:
        """Are |f(x) - f*| and g(x) - g* proved to be within the tolerances, at any point x?"""
        asked = self.tolerance(x, proof.upper_value, proof.lower_value)
        return proof.upper_error <= asked[0] and proof.lower_gap <= asked[1]

    def has_gone_back(self) -> bool:
        """Back to the last state that was certified; not where what is known now speaks against it.

        It may have been certified by a call that asked for less, or be proved to be too low since.
        """
        if self.certified is None:
            return False
        before = self.state, self._standings
        self.state, standing = self.certified
        self._standings = self.iteration, standing, True
        if self.is_proved(self.certificate(self.state.x)):
            return True
        self.state, self._standings = before
        return False

    @property
    def better_below(self) -> Least | None:
        """The point of least g, where g at this one exceeds it by more than the tolerance."""
        least, tolerance = self.least, self.asked[1]
        if least is None or not self.state.lower_value - least.value > tolerance > UNDERFLOW:
            return None
        return least if math.isfinite(self.problem.upper.value(least.x)) else None

    def _adapted(self) -> Any:
        """The state, with what is proved told to a method that wants to know."""
        state = self.state
        if not self.is_adapting:
            return state
        bounds = self.accumulator.sums.lower_bound, self.accumulator.sums.ghat
        proved = Proved(self.standing, *bounds, self.asked, self.is_guarded)
        return self.method.adapt(state, proved)  # type: ignore[attr-defined]

    @property
    def is_adapting(self) -> bool:
        """Is the method told at this step what is proved?"""
        return hasattr(self.method, "adapt") and is_due(self.iteration)

    @property
    def is_recorded(self) -> bool:
        """Has this step its row?"""
        return bool(self.rows) and self.rows[-1].iteration == self.iteration

    def record(self) -> Row:
        """Certify this step and append its row; the row itself if it is there already."""
        if not self.is_recorded:
            state, standing = self.state, self.standing
            values = (state.upper_value, state.lower_value)
            gaps = standing.upper_gap, standing.lower_gap
            self.rows.append(Row(self.iteration, self.seconds, *values, *gaps, *self.counts))
        return self.rows[-1]

    def record_answer(self, proof: Certificate) -> None:
        """The row of the last step is that of the point which is returned."""
        self.rows[-1] = self.record()._replace(
            upper_value=proof.upper_value,
            lower_value=proof.lower_value,
            upper_gap=proof.upper_gap,
            lower_gap=proof.lower_gap,
        )

    def intermediate(self) -> Intermediate:
        """This step for a callback, with the bounds of the last recorded one."""
        s = self.state
        standing = self.certifier.standing(
            s.x, s.upper_value, s.lower_value, effort=0, reach=self.reach
        )
        values = (s.upper_value, s.lower_value)
        gaps = standing.upper_gap, standing.lower_gap
        return Intermediate(s.x, self.iteration, *values, *gaps, self.seconds)

    def saved(self) -> Saved:
        return Saved(
            self.iteration, self.seconds, self.counts, self.start_values,
            tuple(self.rows), self.accumulator.sums, self.least, self.certified, self.state,
        )  # fmt: skip

    def certificate(self, x: Array) -> Certificate:
        """The whole statement about x: two more looks at f and g, exact to rounding."""
        problem = self.problem.in_precision_of(x)
        (point,) = problem.forward(x)
        (upper,), _ = problem.smooth_parts[0].evaluate([point.f])
        _, (lower_value,) = problem.lower.evaluate([], [point.g])
        upper_value = upper.value + problem.penalties[0].value(x)
        return self.certifier.certificate(x, upper, upper_value, lower_value)

    def _note_doubts(self) -> None:
        """What the method's free checks have found out about the functions, for the ledger."""
        self.accumulator.refuted |= any(getattr(self.state, "convexity_violations", (0, 0)))
        self.accumulator.is_steep |= getattr(self.state, "lipschitz_violations", (0, 0))[0] > 0
