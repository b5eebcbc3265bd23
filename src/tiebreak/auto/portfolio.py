"""A portfolio: several methods on one problem that take turns according to their progress.

We count the work of every candidate and forecast what it still needs. The candidate with the
smallest forecast runs next. Suppose that the proved error of a candidate's point was s after half
of its work and is t now. Then the line through (half of the work, s) and (all of the work, t), on
logarithmic scales, gives the work for an error of 1. For a candidate without measured errors, we
assume that it needs as much work again as it has received, and at first the rest of its minimum
work. Methods that prove nothing before they end are treated as having no measurements.

Therefore, two candidates without measurements share the work evenly, and a wrong choice costs only
a constant factor. A direct method, whose work is a single step, is interrupted if it far exceeds
its forecast, and waits for its next turn. All evidence goes into one bound accumulator, and each
method starts from the best point found so far. The work is counted, not timed, so the methods take
the same turns in every repetition of a call.

An answer should be exact and proved. If we have an exact point or a proof, we spend up to AGAIN
times as much work on the other, and then stop.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tiebreak.algorithms import Method, Multipliers, StateReport, StepEvidence
from tiebreak.algorithms.base import NOT_ENDED, first_state
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
from tiebreak.linalg import Array, Refusal, arrays, deadline
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import UNDERFLOW, Proved, Standing
from tiebreak.proofs.gate import ANSWER, BROKEN, DOUBT, EMPTY, FALLS

STEP = 1e6  # the work of a step apart from its products: about a hundred NumPy calls
# a direct method may exceed its forecast by this factor: general solvers may need 60 times it
ALLOWANCE = 64.0
AGAIN = 1.0  # after a proof, spend up to this share of its work on an exact point, or vice versa
CLOSER = 1e-3  # while proving, require that g(x) - g* is at most this share of its present value
ENDED = "has ended"
WORSE = "g is larger at its point than at an earlier one, or f is below f*"


@dataclass(frozen=True)
class Portfolio(Method):
    """Methods that take turns, as described at the top of the file.

    Args:
        candidates: the methods of the portfolio, each with its minimum work.
        why: the reason why an expected method is missing.
    """

    candidates: tuple[Candidate, ...]
    why: str = ""

    name: ClassVar[str] = "auto"
    paper: ClassVar[str] = "none: it runs methods of this library"
    assumptions: ClassVar[str] = "those of the methods that it runs"
    guarantee: ClassVar[str] = "those of the methods that it runs"
    adapts: ClassVar[bool] = True
    needs_projection: ClassVar[bool] = False  # the candidates check for a projection themselves

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse a problem that the first candidate refuses; all candidates were chosen for it."""
        refusal = self.candidates[0].method.refusal(problem)
        if refusal is None or refusal.argument != "domain" or not self.why:
            return refusal
        # The hint in the refusal names the direct methods, which refuse the problem too.
        return Refusal(refusal.owner, "domain", refusal.needed, refusal.got, self.why)

    def planned(self, steps: int) -> Portfolio:
        """Return the portfolio with methods that plan for this number of steps."""
        return replace(
            self,
            candidates=tuple(c._replace(method=c.method.planned(steps)) for c in self.candidates),
        )

    def describe(self, problem: Problem) -> str:
        """Describe the first candidate."""
        return _words(self.candidates[0], problem)

    def history(self, problem: Problem, state: State) -> str:
        """Describe the candidates that ran, why an expected one is missing, and how they ended."""
        words, has_answer, why = [], False, f" because {self.why}" if self.why else ""
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
        """Say which point x is, in the words of the method that found it."""
        return self.candidates[state.best].method.answer(state.shown)

    def report(self, state: State) -> StateReport:
        """Report on the method with the best point, and on how the running method has ended."""
        shown = self.candidates[state.best].method.report(state.shown)
        own = shown if state.at == state.best else self._report(state)
        ending = shown.finished if state.phase == OVER else NOT_ENDED
        answer = shown.finished if state.answer != NONE else NOT_ENDED
        return shown._replace(
            finished=ending,
            answer=answer,
            readings=self._readings(state),
            is_settling=self._is_settling(state, own),
            decides=own.decides,
            is_milestone=state.at == state.answer or own.is_milestone,
            lipschitz_violations=state.lipschitz_violations,
            convexity_violations=state.convexity_violations,
        )

    def _readings(self, state: State) -> str:
        """Say why a direct method is in doubt, even if another method is running.

        Either rounding decides the rank of the data, so that the data can be read in two ways, or a
        computation stopped early; the latter does not matter once a direct method has an answer.
        """
        for candidate, runner in zip(self.candidates, state.runners, strict=True):
            if candidate.is_direct and runner.inner is not None:
                report = candidate.method.report(runner.inner)
                is_open = state.answer == NONE or not self.candidates[state.answer].is_direct
                if report.finished.why == DOUBT and (is_open or report.is_ambiguous):
                    return report.finished.sentence
        return ""

    def _report(self, state: State) -> StateReport:
        """Return the running method's report on its state."""
        inner = state.runners[state.at].inner
        return StateReport() if inner is None else self.candidates[state.at].method.report(inner)

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin with the candidate that has the smallest forecast."""
        return self.init_from(problem, x0, None)

    def init_from(self, problem: Problem, x0: Array, multipliers: Multipliers | None) -> State:
        """Begin where an earlier run ended, if its multipliers are given."""
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
        """Take one step of the running method, or compute its first state."""
        state = state._replace(k=state.k + 1, evidence=StepEvidence())
        if state.at == state.answer and state.phase != OVER:
            state = self._begin_proof(problem, state)
        if state.phase == OVER:  # the proof may have ended the run before the step
            return state
        candidate, runner = self.candidates[state.at], state.runners[state.at]
        has_others = self._has_others(state)
        allowed = self._allowed(state) if candidate.is_direct and has_others else math.inf
        try:
            # Leave half of the time to other methods.
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
        except deadline.OverBudget:  # the method will get another turn, starting at a better point
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
        return self._concluded(problem, state, report)

    def _first_state(self, problem: Problem, state: State) -> Any:
        """Return the first state of the running candidate, at the best point so far.

        The candidate starts at x0 if g is clearly smaller at x0: earlier methods may have gone
        astray.
        """
        x = arrays.like(state.x, state.start)  # an answer may be in a higher precision
        if not problem.lower.value(x) <= problem.lower.value(state.start) + state.allowed:
            x = state.start
        return self.candidates[state.at].method.init(problem, x)

    def _allowed(self, state: State) -> float:
        """Return how much work a direct method may take: at least any other method's forecast."""
        forecasts = [
            runner.forecast(candidate)
            for candidate, runner in zip(self.candidates, state.runners, strict=True)
        ]
        own = forecasts.pop(state.at)
        return max(ALLOWANCE * own, *(other for other in forecasts if math.isfinite(other)), 0.0)

    def _can_go_on(self, state: State, number: int) -> bool:
        """Is it useful to continue with this candidate?"""
        candidate, runner = self.candidates[number], state.runners[number]
        if runner.note or state.phase == RACING:
            return not runner.note
        if candidate.is_direct:  # it may refine a point if enough work is left, but cannot prove it
            return state.phase == REFINING and runner.forecast(candidate) <= self._left(state)
        return state.phase == PROVING or candidate.refines

    def _has_others(self, state: State) -> bool:
        """Can a candidate other than the running one continue?"""
        numbers = range(len(self.candidates))
        return any(self._can_go_on(state, i) for i in numbers if i != state.at)

    def _is_settling(self, state: State, own: StateReport) -> bool:
        """Is a refinement running or due, so that the best point is not yet fully accurate?

        ``own`` is the running method's report.
        """
        candidate, runner = self.candidates[state.at], state.runners[state.at]
        if candidate.is_direct and (runner.inner is None or own.decides):
            return True  # a direct method's single step settles the outcome, with a stronger proof
        is_there = candidate.refines and not own.is_settling
        is_ahead = state.phase == REFINING or self._will_refine(state)
        return is_ahead and not (is_there and state.best == state.at)

    def _will_refine(self, state: State) -> bool:
        """Will a refinement follow once both gaps are proved?"""
        return (
            state.phase == RACING
            and state.proved == NONE
            and any(
                candidate.refines and not runner.note
                for candidate, runner in zip(self.candidates, state.runners, strict=True)
            )
        )

    def _concluded(self, problem: Problem, state: State, report: StateReport) -> State:
        """Return the state after a step that may have ended the running method."""
        inner, (why, said) = state.runners[state.at].inner, report.finished
        is_answer = why == ANSWER or (why == DOUBT and report.is_ambiguous)
        if not (math.isfinite(inner.upper_value) and math.isfinite(inner.lower_value)):
            is_answer, why, said = False, BROKEN, "a value that is not finite"
        elif is_answer and inner.lower_value > state.least + state.allowed:
            is_answer, said = False, WORSE
        if not why:
            return state
        if is_answer and state.answer == NONE:
            return self._hold_answer(state)
        if why in (FALLS, EMPTY) or not (self._has_others(state) or state.phase != RACING):
            return state._replace(best=state.at, phase=OVER)
        note = f"ended without an answer: {said}" if state.answer == NONE else ENDED
        return self._next(state.with_runner(state.at, note=note))

    def _hold_answer(self, state: State) -> State:
        """Keep the running method's answer; its proof is now the goal of all other methods."""
        runners = tuple(runner._replace(error=math.inf, marks=()) for runner in state.runners)
        state = state._replace(runners=runners).with_runner(state.at, note=ENDED)
        state = state._replace(best=state.at, answer=state.at, phase=PROVING, since=state.work)
        return state if self._has_others(state) else state._replace(phase=OVER)

    def _begin_proof(self, problem: Problem, state: State) -> State:
        """Begin to prove the answer, or end the run if no minorant bounds g* from below.

        The first step after the answer makes this choice, because by then `adapt` has set the
        tolerance.
        """
        is_proved_by_value = state.lower_value - problem.lower.lower_bound <= state.allowed
        can_be_proved = is_proved_by_value or not problem.is_open_below
        return self._next(state) if can_be_proved else state._replace(phase=OVER)

    def _left(self, state: State) -> float:
        """Return how much work this phase may still spend, as described at the top of the file."""
        return math.inf if state.phase == RACING else (1.0 + AGAIN) * state.since - state.work

    def _next(self, state: State) -> State:
        """Switch to the candidate with the smallest forecast."""
        left = [i for i in range(len(self.candidates)) if self._can_go_on(state, i)]
        forecasts = {i: state.runners[i].forecast(self.candidates[i]) for i in left}
        if state.phase != RACING and (not left or self._left(state) <= 0.0):
            if state.phase == PROVING:
                return state._replace(phase=OVER)
            return self._next(state._replace(best=state.proved, phase=RACING))
        at = min(left, key=lambda i: (forecasts[i], state.runners[i].spent), default=state.at)
        return state._replace(at=at)

    def adapt(self, state: State, proved: Proved) -> State:
        """Pass the proved bounds on to the running method, and choose the next method."""
        at, state = state.at, state._replace(allowed=proved.asked[1])
        runner, method = state.runners[at], self.candidates[at].method
        if state.answer != NONE and _is_refuted(state, proved):
            state = state.with_runner(state.answer, note=f"ended without an answer: {WORSE}")
            return self._next(state._replace(answer=NONE, phase=RACING))
        if runner.inner is None or at == state.answer:
            return state
        own = proved._replace(standing=_standing_of(runner.inner, state, proved.standing))
        if self._will_refine(state):  # the refinement ensures that f(x) is not far below f*
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
        """Record the running method as the best one if its point is better."""
        at, is_good = state.at, self._report(state).is_good
        if state.phase == REFINING:
            return state._replace(best=at if is_good else state.proved)
        is_best = state.runners[at].error <= state.runners[state.best].error
        if state.phase == RACING and is_good and is_best:
            return state._replace(best=at)
        return state


def _is_refuted(state: State, proved: Proved) -> bool:
    """Is the answer's point now known to be wrong?"""
    asked_upper, asked_lower = proved.asked
    is_too_low = -proved.standing.upper_gap > asked_upper > UNDERFLOW
    return is_too_low or state.lower_value - proved.least_value > asked_lower > UNDERFLOW


def _standing_of(inner: Any, state: State, shown: Standing) -> Standing:
    """Return the `Standing` of the running method's point, given that of the best point."""
    f, g = inner.upper_value - state.upper_value, inner.lower_value - state.lower_value
    if f == g == 0.0:
        return shown
    lower_gap = shown.lower_gap + g
    share = lower_gap / shown.lower_gap if 0.0 < shown.lower_gap < math.inf else 1.0
    return Standing(shown.upper_gap + f, lower_gap, shown.guard_gap + f, shown.price * share)


def _error(own: Proved) -> float:
    """Return how far the proof is from complete, in units of the tolerances: 1 if complete.

    We multiply the parts of the distance, because one part may shrink while another has to wait.
    """
    standing, (upper, lower) = own.standing, own.asked
    upper, lower = max(upper, UNDERFLOW), max(lower, UNDERFLOW)
    error = max(standing.upper_gap / upper, 1.0) * max(standing.lower_gap / lower, 1.0)
    if own.is_guarded:
        error *= max(standing.guard_gap / (0.5 * upper), standing.price / (0.125 * upper), 1.0)
    return error


def _for_the_proof(inner: Any, own: Proved) -> Proved:
    """Return the bounds to show to the running method while an answer needs a proof.

    These bounds contain the gap of the method's own point and, as soon as that gap is small, a
    lower tolerance that the point does not meet yet. The bound on f* is loose by about the point's
    suboptimality for g, so the method has to reduce this suboptimality.
    """
    asked_upper, asked_lower = own.asked
    excess = max(inner.lower_value - own.least_value, 0.0)
    return own._replace(
        asked=(0.5 * asked_upper, min(asked_lower, CLOSER * excess)), is_guarded=False
    )


def _words(candidate: Candidate, problem: Problem) -> str:
    return candidate.title or candidate.method.describe(problem)


def _least(evidence: StepEvidence, before: float) -> float:
    """Return the least value of g so far, including the values of this step."""
    return min(before, *(value for value, _, _ in evidence.values), math.inf)
