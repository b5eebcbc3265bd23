"""A portfolio: several methods on one problem, taking turns by what they are seen to achieve.

The work that every candidate has had is counted, and there is a forecast of what it still needs.
The one with the least forecast works next. A forecast is

    measured:      the error of its point, as proved, was s after half of its work and is t now; on
                   logarithmic scales that is a line, and the forecast is where it meets 1;
    not measured:  as much again as it has had, and at first what is left of its least. So it is
                   too for a method that proves nothing before it ends.

So two candidates of which nothing is measured share the work evenly, and a wrong choice costs a
factor. A direct method, all of whose work is one step, is cut off where it takes much more than its
forecast, and waits for its next turn. All that is seen goes into one bound accumulator, and
whoever begins, begins at the best point. The work is counted, not timed: the same call takes the
same turns.

An answer should be exact and proved. What comes first, an exact point or a proof, may be followed
by AGAIN times as much work for the other; then it stays as it is.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tiebreak.algorithms.base import NOT_ENDED, Method, Multipliers, StateReport, first_state
from tiebreak.auto.candidates import (
    NONE,
    OVER,
    PROVING,
    RACING,
    REFINING,
    Candidate,
    Runner,
    State,
)
from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Array
from tiebreak.linalg.refusals import Refusal
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import UNDERFLOW, Proved, Standing
from tiebreak.proofs.evidence import StepEvidence
from tiebreak.proofs.gate import ANSWER, BROKEN, DOUBT, EMPTY, FALLS

STEP = 1e6  # the work of a step besides its products: some hundred calls of NumPy
ALLOWANCE = 64.0  # times its forecast may a direct method take: a general solver needs up to sixty
AGAIN = 1.0  # times the work that a proof or an exact point took may be spent on the other
CLOSER = 1e-3  # of the lower-level suboptimality of a point is asked of the next, for a proof
ENDED = "has ended"
WORSE = "g is larger there than at a point seen before, or f is less than f*"


@dataclass(frozen=True)
class Portfolio(Method):
    """Methods that take turns; see the head of the file.

    Args:
        candidates: the methods, with what they take at least.
        why: why one is missing that would be expected.
    """

    candidates: tuple[Candidate, ...]
    why: str = ""

    name: ClassVar[str] = "auto"
    paper: ClassVar[str] = "none: the methods of this library in turn"
    assumptions: ClassVar[str] = "those of the methods that it takes"
    guarantee: ClassVar[str] = "those of the methods that it takes"
    adapts: ClassVar[bool] = True
    needs_projection: ClassVar[bool] = False  # the candidates say what they need

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse what the first candidate refuses: they were chosen to fit."""
        return self.candidates[0].method.refusal(problem)

    def planned(self, steps: int) -> Portfolio:
        """The same with the horizons filled in that the methods leave open."""
        return replace(
            self,
            candidates=tuple(c._replace(method=c.method.planned(steps)) for c in self.candidates),
        )

    def describe(self, problem: Problem) -> str:
        """The first candidate in words."""
        return _words(self.candidates[0], problem)

    def history(self, problem: Problem, state: State) -> str:
        """The candidates that were taken, why, and how they ended."""
        words, has_answer, why = [], False, f", for {self.why}" if self.why else ""
        for number in state.order:
            runner, what = state.runners[number], _words(self.candidates[number], problem)
            if has_answer:
                what = f"{what}, for the proof"
            elif runner.note and runner.note != ENDED:
                what = f"{what}, which {runner.note}"
            has_answer |= number == state.answer
            words.append(what + why)
            why = ""
        return "; then ".join(words)

    def answer(self, state: State) -> str:
        """That of the method whose point counts, which may itself be made of others."""
        return self.candidates[state.best].method.answer(state.shown)

    def report(self, state: State) -> StateReport:
        """What the method whose point counts has to say, and how the one at work has ended."""
        shown, own = self.candidates[state.best].method.report(state.shown), self._report(state)
        ending = shown.finished if state.phase == OVER else NOT_ENDED
        answer = shown.finished if state.answer != NONE else NOT_ENDED
        return shown._replace(
            finished=ending,
            answer=answer,
            readings=self._readings(state),
            is_settling=self._is_settling(state),
            decides=own.decides,
            is_milestone=state.at == state.answer or own.is_milestone,
            lipschitz_violations=state.lipschitz_violations,
            convexity_violations=state.convexity_violations,
        )

    def _readings(self, state: State) -> str:
        """Why a direct method is in doubt, whoever works now: the two readings of data whose rank
        rounding decides, or, unless another of them has an answer, how far a computation came.
        """
        for candidate, runner in zip(self.candidates, state.runners, strict=True):
            if candidate.is_direct and runner.inner is not None:
                report = candidate.method.report(runner.inner)
                is_open = state.answer == NONE or not self.candidates[state.answer].is_direct
                if report.finished.why == DOUBT and (is_open or report.is_ambiguous):
                    return report.finished.sentence
        return ""

    def _report(self, state: State) -> StateReport:
        """What the method at work says about its own state."""
        inner = state.runners[state.at].inner
        return StateReport() if inner is None else self.candidates[state.at].method.report(inner)

    def init(self, problem: Problem, x0: Array) -> State:
        """The candidate with the least forecast begins."""
        return self._init(problem, x0, None)

    def init_from(self, problem: Problem, x0: Array, multipliers: Multipliers) -> State:
        """The same from where a former run has ended."""
        return self._init(problem, x0, multipliers)

    def _init(self, problem: Problem, x0: Array, multipliers: Multipliers | None) -> State:
        at = min(range(len(self.candidates)), key=lambda i: self.candidates[i].least)
        with deadline.metered() as meter:
            inner = first_state(self.candidates[at].method, problem, x0, multipliers)
        runners = [Runner() for _ in self.candidates]
        runners[at] = Runner(inner=inner, spent=meter.spent)
        report = self.candidates[at].method.report(inner)
        return State(
            k=0, start=x0, runners=tuple(runners), order=(at,), at=at, best=at, proved=NONE,
            answer=NONE, phase=RACING, since=0.0, lipschitz_violations=report.lipschitz_violations,
            convexity_violations=report.convexity_violations,
            least=_least(inner.evidence, math.inf), allowed=math.inf, evidence=inner.evidence,
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """One step of the method at work, or the first state of one that begins."""
        state = state._replace(k=state.k + 1, evidence=StepEvidence())
        if state.at == state.answer and state.phase != OVER:
            state = self._next(state)
        if state.phase == OVER:  # as what is proved may have said before this step
            return state
        candidate, runner = self.candidates[state.at], state.runners[state.at]
        has_others = self._has_others(state)
        allowed = self._allowed(state) if candidate.is_direct and has_others else math.inf
        try:
            # What one takes of the time, others may need.
            with (
                deadline.half() if has_others else contextlib.nullcontext(),
                deadline.metered(allowed) as meter,
            ):
                if candidate.is_direct and state.best != state.at:
                    inner = candidate.method.step(problem, self._first_state(problem, state))
                elif runner.inner is None:
                    inner = self._first_state(problem, state)
                else:
                    inner = candidate.method.step(problem, runner.inner)
        except deadline.OverBudget:  # its turn comes again, from a better point
            return self._next(state.with_runner(state.at, spent=runner.spent + allowed))
        except (np.linalg.LinAlgError, ImportError, MemoryError, deadline.TooLong) as error:
            if not has_others:
                raise
            return self._next(state.with_runner(state.at, note=f"failed ({error})"))
        state = state.with_runner(state.at, inner=inner, spent=runner.spent + STEP + meter.spent)
        if runner.inner is None:
            state = state._replace(order=(*(i for i in state.order if i != state.at), state.at))
        report = candidate.method.report(inner)
        (a, b), (c, d) = report.lipschitz_violations, report.convexity_violations
        (s, t), (u, v) = state.lipschitz_violations, state.convexity_violations
        state = state._replace(
            evidence=inner.evidence,
            least=_least(inner.evidence, state.least),
            lipschitz_violations=(max(a, s), max(b, t)),
            convexity_violations=(max(c, u), max(d, v)),
        )
        return self._concluded(problem, state)

    def _first_state(self, problem: Problem, state: State) -> Any:
        """The first state of the candidate at work, at the best point so far.

        At x0 where that is clearly better below: whoever worked before may have gone astray.
        """
        x = arrays.like(state.x, state.start)  # an answer may be in a wider precision
        if not problem.lower.value(x) <= problem.lower.value(state.start) + state.allowed:
            x = state.start
        return self.candidates[state.at].method.init(problem, x)

    def _allowed(self, state: State) -> float:
        """How much a direct method may take: as much as the next best at any rate."""
        forecasts = [
            runner.forecast(candidate)
            for candidate, runner in zip(self.candidates, state.runners, strict=True)
        ]
        own = forecasts.pop(state.at)
        return max(ALLOWANCE * own, *(other for other in forecasts if math.isfinite(other)), 0.0)

    def _can_go_on(self, state: State, number: int) -> bool:
        """Can this candidate go on, and is it of use?"""
        candidate, runner = self.candidates[number], state.runners[number]
        if runner.note or state.phase == RACING:
            return not runner.note
        if candidate.is_direct:  # not for a proof, and only where there is enough left for it
            return state.phase == REFINING and runner.forecast(candidate) <= self._left(state)
        return state.phase == PROVING or candidate.refines

    def _has_others(self, state: State) -> bool:
        """Can another candidate than the one at work go on?"""
        numbers = range(len(self.candidates))
        return any(self._can_go_on(state, i) for i in numbers if i != state.at)

    def _is_settling(self, state: State) -> bool:
        """Is a point on its way that is right to rounding?  Not where it is the one that counts."""
        candidate, runner = self.candidates[state.at], state.runners[state.at]
        if candidate.is_direct and (runner.inner is None or self._report(state).decides):
            return True  # its one step decides, and proves more
        is_there = candidate.refines and not self._report(state).is_settling
        is_ahead = state.phase == REFINING or self._will_refine(state)
        return is_ahead and not (is_there and state.best == state.at)

    def _will_refine(self, state: State) -> bool:
        """Does a refinement follow once both gaps are proved?"""
        return (
            state.phase == RACING
            and state.proved == NONE
            and any(
                candidate.refines and not runner.note
                for candidate, runner in zip(self.candidates, state.runners, strict=True)
            )
        )

    def _concluded(self, problem: Problem, state: State) -> State:
        """The state after a step, where the method at work may have ended."""
        inner, report = state.runners[state.at].inner, self._report(state)
        why, said = report.finished
        is_answer = why == ANSWER or (why == DOUBT and report.is_ambiguous)
        if not (math.isfinite(inner.upper_value) and math.isfinite(inner.lower_value)):
            is_answer, why, said = False, BROKEN, "a value that is not finite"
        elif is_answer and inner.lower_value > state.least + state.allowed:
            is_answer, said = False, WORSE
        if not why:
            return state
        if is_answer and state.answer == NONE:
            return self._hold_answer(problem, state)
        if why in (FALLS, EMPTY) or not (self._has_others(state) or state.phase != RACING):
            return state._replace(best=state.at, phase=OVER)
        note = f"ended without an answer: {said}" if state.answer == NONE else ENDED
        return self._next(state.with_runner(state.at, note=note))

    def _hold_answer(self, problem: Problem, state: State) -> State:
        """The one at work has its answer; now for the proof, by which the others are measured.

        Unless nobody can prove it: no minorant bounds g* from below.
        """
        for number in range(len(self.candidates)):
            state = state.with_runner(number, error=math.inf, marks=())
        state = state.with_runner(state.at, note=ENDED)
        state = state._replace(best=state.at, answer=state.at, phase=PROVING, since=state.work)
        is_proved_by_value = state.lower_value - problem.lower.lower_bound <= state.allowed
        can_be_proved = is_proved_by_value or not problem.is_open_below
        has_others = can_be_proved and self._has_others(state)
        return state if has_others else state._replace(phase=OVER)

    def _left(self, state: State) -> float:
        """The work that may still be done in this phase: see the head of the file."""
        return math.inf if state.phase == RACING else (1.0 + AGAIN) * state.since - state.work

    def _next(self, state: State) -> State:
        """The candidate with the least forecast is at work from now on."""
        left = [i for i in range(len(self.candidates)) if self._can_go_on(state, i)]
        forecasts = {i: state.runners[i].forecast(self.candidates[i]) for i in left}
        if state.phase != RACING and (not left or self._left(state) <= 0.0):
            if state.phase == PROVING:
                return state._replace(phase=OVER)
            return self._next(state._replace(best=state.proved, phase=RACING))
        at = min(left, key=lambda i: (forecasts[i], state.runners[i].spent), default=state.at)
        return state._replace(at=at)

    def adapt(self, state: State, proved: Proved) -> State:
        """What is proved, handed on to the method at work, and who works next."""
        at, state = state.at, state._replace(allowed=proved.asked[1])
        runner, method = state.runners[at], self.candidates[at].method
        if state.answer != NONE and _is_refuted(state, proved):
            state = state.with_runner(state.answer, note=f"ended without an answer: {WORSE}")
            return self._next(state._replace(answer=NONE, phase=RACING))
        if runner.inner is None or at == state.answer:
            return state
        own = proved._replace(standing=_standing_of(runner.inner, state, proved.standing))
        if self._will_refine(state):  # that secures f(x) from below
            if own.standing.is_within(own.asked) and method.report(runner.inner).is_good:
                state = state._replace(best=at, proved=at, phase=REFINING)
                return self._next(state._replace(since=state.work))
            own = own._replace(is_guarded=False)
        if state.phase == PROVING:
            runner = runner.measured(_error(proved._replace(is_guarded=False)))
            own = _for_the_proof(runner.inner, own)
        else:
            runner = runner.measured(_error(own))
        inner = method.adapt(runner.inner, own)
        state = state.with_runner(at, inner=inner, error=runner.error, marks=runner.marks)
        return self._next(self._with_best(state))

    def _with_best(self, state: State) -> State:
        """With the point that counts, where the one at work may be better than the one so far."""
        at, is_good = state.at, self._report(state).is_good
        if state.phase == REFINING:
            return state._replace(best=at if is_good else state.proved)
        is_best = state.runners[at].error <= state.runners[state.best].error
        if state.phase == RACING and is_good and is_best:
            return state._replace(best=at)
        return state


def _is_refuted(state: State, proved: Proved) -> bool:
    """Is it known by now that the point of the answer is none?"""
    asked_upper, asked_lower = proved.asked
    is_too_low = -proved.standing.upper_gap > asked_upper > UNDERFLOW
    return is_too_low or state.lower_value - proved.least_value > asked_lower > UNDERFLOW


def _standing_of(inner: Any, state: State, shown: Standing) -> Standing:
    """How the point of the method at work stands, by how the one that counts does."""
    f, g = inner.upper_value - state.upper_value, inner.lower_value - state.lower_value
    if f == g == 0.0:
        return shown
    lower_gap = shown.lower_gap + g
    share = lower_gap / shown.lower_gap if 0.0 < shown.lower_gap < math.inf else 1.0
    return Standing(shown.upper_gap + f, lower_gap, shown.guard_gap + f, shown.price * share)


def _error(own: Proved) -> float:
    """How far all is that is to be proved, in units of what is asked: 1 where it is there.

    The product, for one falls while another waits for its turn.
    """
    standing, (upper, lower) = own.standing, own.asked
    upper, lower = max(upper, UNDERFLOW), max(lower, UNDERFLOW)
    error = max(standing.upper_gap / upper, 1.0) * max(standing.lower_gap / lower, 1.0)
    if own.is_guarded:
        error *= max(standing.guard_gap / (0.5 * upper), standing.price / (0.125 * upper), 1.0)
    return error


def _for_the_proof(inner: Any, own: Proved) -> Proved:
    """What is proved as the method at work should see it, while an answer waits for its proof.

    The gap of its own point, and, once that is small, a tolerance below that it does not meet: its
    bound on f* is short by about the suboptimality of its point for g, which has to fall.
    """
    asked_upper, asked_lower = own.asked
    excess = max(inner.lower_value - own.least_value, 0.0)
    return own._replace(
        asked=(0.5 * asked_upper, min(asked_lower, CLOSER * excess)), is_guarded=False
    )


def _words(candidate: Candidate, problem: Problem) -> str:
    return candidate.title or candidate.method.describe(problem)


def _least(evidence: StepEvidence, before: float) -> float:
    """The least value of g, with those of a step."""
    return min(before, *(value for value, _, _ in evidence.values), math.inf)
