"""A cascade: several methods on one problem, one after the other, as one method.

Each runs until it ends by itself, fails or has had its steps; then the next one begins. Where one
has an answer but no proof of it, the last one goes on for the proof alone, and the answer stays.
Where both gaps are proved and the next one refines, it may try, for a bounded number of steps: its
point counts only if it is proved too. One loop, one bound accumulator, one clock, one trace.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tiebreak.algorithms.base import NOT_ENDED, Method, StateReport
from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Array
from tiebreak.linalg.refusals import Refusal
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import UNDERFLOW, Proved
from tiebreak.proofs.evidence import StepEvidence

ANSWERS = ("solved",)  # statuses with which a method has its point, proved or not
HOPELESS_AFTER = 32  # steps of a proof without a lower bound on f*, or a better one on g*
BETTER = 0.99  # of a gap: what counts as better
PROVING = 300  # steps at least for the proof of an answer; or twice as many as were taken
CLOSER = 1e-3  # of the lower-level suboptimality of a point is asked of the next, for a proof
REFINING = 8  # times PROVING, or the steps so far: what a refinement may take
WORSE = "g is larger there than at a point seen before"
AHEAD, WANTED, AT_WORK, OVER = 1, 2, 3, 4  # where a refinement is; 0: there is none


class Candidate(NamedTuple):
    """A method of a cascade, and what the report says of it.

    ``title`` is the method in a word or two ("": as it describes itself), ``why`` the reason for
    taking it. It is left after ``steps``, where given. Where one fails that ``is_safe``, whose x is
    never worse than its start, the next one begins there, otherwise where that one began. One that
    ``refines`` is also taken once the candidate before it has its proof.
    """

    method: Method
    title: str
    why: str
    steps: int | None = None
    is_safe: bool = False
    refines: bool = False


class State(NamedTuple):
    """Where a cascade is; x and the values are those of the method at work, or the ones held."""

    k: int
    candidate: int  # its number
    taken: int  # its steps
    inner: Any  # the state of its method
    start: Array  # where that method began
    held: Any  # the state of the method that has an answer, None before
    holder: int  # the number of that method
    is_over: bool  # is that answer the last word, proved or not?
    proving: int  # steps that its proof, or a refinement, may take; 0 before, -1: no hope
    moved: tuple[int, float]  # the step of it that last made the gap of g smaller, and that gap
    refinement: int  # where it is: AHEAD, WANTED, AT_WORK or OVER
    proved: Any  # the state that a refinement began with; it comes back where that fails
    is_better: bool  # is the refinement at work better than that, as far as can be told?
    notes: tuple[str, ...]  # how the former candidates ended, for the report
    lipschitz_violations: tuple[int, int]  # doubts about f and g, of all candidates
    convexity_violations: tuple[int, int]
    readings: str  # of a rank that rounding decides, in a sentence; "" where there is no doubt
    least: float  # the least value of g that was seen
    allowed: float  # so much more may an answer have
    evidence: StepEvidence

    @property
    def shown(self) -> Any:
        """The state whose point counts: a refinement shows nothing before it is better."""
        if self.is_worse:
            return self.proved
        return self.held or self.inner

    @property
    def is_waiting(self) -> bool:
        """Is there an answer, and nobody at work on its proof, for it may be there already?"""
        return self.held is not None and self.inner is self.held

    @property
    def is_worse(self) -> bool:
        """Is a refinement at work that is not better yet than what was proved?"""
        return self.refinement == AT_WORK and not self.is_better

    @property
    def fallback(self) -> State | None:
        """What was proved before a refinement that is at work, or waits for its proof.

        As if there had been none; None where nothing was.
        """
        if self.proved is None:
            return None
        is_at_work = self.refinement == AT_WORK
        return self._replace(
            candidate=self.candidate - is_at_work,
            taken=0,
            inner=self.proved,
            held=None,
            proving=0,
            refinement=OVER,
            proved=None,
            notes=self.notes if is_at_work else self.notes[:-1],
        )

    @property
    def x(self) -> Array:
        """The point."""
        return self.shown.x

    @property
    def upper_value(self) -> float:
        """f(x)."""
        value: float = self.shown.upper_value
        return value

    @property
    def lower_value(self) -> float:
        """g(x)."""
        value: float = self.shown.lower_value
        return value


@dataclass(frozen=True)
class Cascade(Method):
    """Methods one after the other, each from where the former ended.

    Args:
        candidates: the methods with their titles and reasons, in order; the last one may go on for
            ever.
    """

    candidates: tuple[Candidate, ...]

    name: ClassVar[str] = "auto"
    paper: ClassVar[str] = "none: the methods of this library in turn"
    assumptions: ClassVar[str] = "those of the methods that it takes"
    guarantee: ClassVar[str] = "those of the methods that it takes"
    adapts: ClassVar[bool] = True

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse what the last candidate refuses: the others were chosen to fit."""
        return self.candidates[-1].method.check(problem)

    def planned(self, steps: int) -> Cascade:
        """The same with the horizons filled in that the methods leave open.

        None takes more than half of the steps, if others are to follow.
        """
        candidates = []
        for candidate in self.candidates:
            candidate = candidate._replace(method=candidate.method.planned(steps))
            if candidate.steps is not None:
                candidate = candidate._replace(steps=min(candidate.steps, max(steps // 2, 1)))
            candidates.append(candidate)
        return replace(self, candidates=tuple(candidates))

    def describe(self, problem: Problem) -> str:
        """The first candidate in words."""
        return _words(self.candidates[0], problem)

    def history(self, problem: Problem, state: State) -> str:
        """The candidates that were taken, and why."""
        words = _words(self.candidates[state.candidate], problem)
        if state.refinement == AT_WORK:
            before = _words(self.candidates[state.candidate - 1], problem)
            words = f"{before}; then {words}" if state.shown is not state.proved else before
        elif state.proving:
            words = f"{words}, for the proof"
        # The answer may be proved as it is.
        is_needed = not state.proving or state.refinement == AT_WORK or state.taken > 0
        return "; then ".join([*state.notes, *([words] if is_needed else [])])

    def report(self, state: State) -> StateReport:
        """What the method whose point counts has to say, and how far the one at work is."""
        at_work = shown = StateReport() if state.is_waiting else self._report(state)
        answer = NOT_ENDED
        if state.is_worse:
            shown = self.candidates[state.candidate - 1].method.report(state.proved)
        elif state.held is not None:
            shown = self.candidates[state.holder].method.report(state.held)
            answer = shown.finished
        is_waiting = state.held is not None  # only the proof is missing
        is_back = state.refinement == OVER and state.taken == 0 and not is_waiting
        is_ahead = state.refinement in (AHEAD, WANTED)
        return shown._replace(
            finished=answer if state.is_over else at_work.finished,
            answer=answer,
            readings=state.readings,
            is_settling=not is_waiting and (is_ahead or at_work.is_settling),
            is_milestone=is_back or at_work.is_milestone,
            lipschitz_violations=state.lipschitz_violations,
            convexity_violations=state.convexity_violations,
        )

    def _report(self, state: State) -> StateReport:
        """What the method at work says about its own state."""
        return self.candidates[state.candidate].method.report(state.inner)

    def init(self, problem: Problem, x0: Array) -> State:
        """The first candidate begins."""
        method = self.candidates[0].method
        inner = method.init(problem, x0)
        report = method.report(inner)
        return State(
            k=0, candidate=0, taken=0, inner=inner, start=x0, held=None, holder=0, is_over=False,
            proving=0, moved=(0, math.inf), refinement=self._refinement_after(0), proved=None,
            is_better=False, notes=(), lipschitz_violations=report.lipschitz_violations,
            convexity_violations=report.convexity_violations, readings="",
            least=_least(inner.evidence, math.inf), allowed=math.inf, evidence=inner.evidence,
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """One step of the method at work; the next one begins where it fails or has to end."""
        if state.refinement in (WANTED, AT_WORK):
            return self._refine(problem, state)
        candidate, k = self.candidates[state.candidate], state.k + 1
        if state.is_waiting:
            return self._next(problem, state._replace(k=k), "", state.x, self._prover(state.holder))
        is_last = state.candidate + 1 == len(self.candidates)
        if candidate.steps is not None and state.taken >= candidate.steps and not is_last:
            note = f"{_words(candidate, problem)} for {candidate.steps:,} steps"
            return self._next(problem, state._replace(k=k), note, state.x)
        if state.held is not None and state.taken >= state.proving:
            before = state.fallback or state._replace(is_over=True)
            return before._replace(k=k, evidence=StepEvidence())
        try:
            # As with `planned` steps: what one takes of the time, others may need.
            with contextlib.nullcontext() if is_last else deadline.half():
                inner = candidate.method.step(problem, state.inner)
        except (np.linalg.LinAlgError, ImportError, MemoryError, deadline.TooLong) as error:
            if is_last:
                raise
            note = f"{_words(candidate, problem)}, which failed ({error})"
            return self._next(problem, state._replace(k=k), note, state.start)
        report = candidate.method.report(inner)
        status, said = report.finished
        if status and state.held is not None and not is_last:  # all that it has for the proof
            evidence = inner.evidence
            after = self._next(problem, state._replace(k=k), "", state.held.x)
            return after._replace(evidence=_both(evidence, after.evidence))
        failed = bool(status) and status not in (*ANSWERS, "unbounded")
        least = _least(inner.evidence, state.least)
        if status in ANSWERS and inner.lower_value > least + state.allowed:
            failed, said = True, WORSE
        if not (math.isfinite(inner.upper_value) and math.isfinite(inner.lower_value)):
            failed, said = True, "a value that is not finite"
        if failed and not is_last:
            note = f"{_words(candidate, problem)}, which ended without an answer: {said}"
            x = inner.x if candidate.is_safe else state.start
            if status == "undetermined" and report.is_ambiguous:
                state = state._replace(readings=said)
            return self._next(problem, state._replace(k=k), note, x)
        state = _noted(state, report)._replace(
            k=k, taken=state.taken + 1, inner=inner, least=least, evidence=inner.evidence
        )
        if status in ANSWERS and not is_last:
            return self._hold_answer(problem, state, inner)
        return state

    def _hold_answer(self, problem: Problem, state: State, answer: Any) -> State:
        """The last candidate begins, for the proof of an answer; before it a quick refinement."""
        note = self.history(problem, state._replace(notes=()))
        before = state._replace(
            held=answer, holder=state.candidate, proving=max(PROVING, 2 * state.k)
        )
        known = answer.evidence.intervals
        if known is not None and known.is_two_sided:  # most probably all that was asked for
            return before._replace(taken=0, refinement=OVER, notes=(*before.notes, note))
        after = self._next(problem, before, note, answer.x, self._prover(state.candidate))
        return after._replace(evidence=_both(answer.evidence, after.evidence))

    def _prover(self, holder: int) -> int:
        """The number of the candidate that proves the answer of this one, or refines it first."""
        last = len(self.candidates) - 1
        helps = last >= 1 and self.candidates[last - 1].refines and holder < last - 1
        return last - helps

    def adapt(self, state: State, proved: Proved) -> State:
        """What is proved, handed on to the method at work; no proof goes on without hope."""
        standing = proved.standing
        state = state._replace(allowed=proved.asked[1])
        if state.held is not None:
            has_none = state.taken >= HOPELESS_AFTER and math.isinf(standing.upper_gap)
            if standing.lower_gap < BETTER * state.moved[1]:
                state = state._replace(moved=(state.taken, standing.lower_gap))
            is_last = state.candidate + 1 == len(self.candidates)
            is_stuck = is_last and state.taken >= state.moved[0] + HOPELESS_AFTER
            has_none |= is_stuck and standing.lower_gap > proved.asked[1]
            if has_none or min(proved.asked) <= UNDERFLOW:
                state = state._replace(proving=state.taken or -1)
        # A refinement secures f(x) from below, and sooner than a smaller eta would.
        if standing.is_within(proved.asked) and state.refinement == AHEAD:
            return state._replace(refinement=WANTED)
        history = proved if state.held is None else _for_the_proof(state, proved)
        if state.refinement == AHEAD:
            history = history._replace(is_guarded=False)
        method = self.candidates[state.candidate].method
        return state._replace(inner=method.adapt(state.inner, history))

    def _refinement_after(self, candidate: int) -> int:
        """AHEAD where the next candidate refines what this one proves, else 0."""
        after = self.candidates[candidate + 1 : candidate + 2]
        return AHEAD if any(other.refines for other in after) else 0

    def _refine(self, problem: Problem, state: State) -> State:
        """The next step of a refinement; the proved state where it fails or takes too long."""
        k = state.k + 1
        if state.refinement == WANTED:
            refinement = self.candidates[state.candidate + 1]
            inner = _begin(refinement, problem, state.x, self._report(state).eta)
            return state._replace(
                k=k, candidate=state.candidate + 1, taken=0, inner=inner, refinement=AT_WORK,
                proved=state.inner, is_better=refinement.method.report(inner).is_good,
                proving=REFINING * max(PROVING, k), evidence=inner.evidence,
            )  # fmt: skip
        method = self.candidates[state.candidate].method
        inner = method.step(problem, state.inner)
        report, least = method.report(inner), _least(inner.evidence, state.least)
        status = report.finished[0]
        state = _noted(state, report)._replace(
            k=k, taken=state.taken + 1, least=least, evidence=inner.evidence
        )
        if status in ANSWERS and inner.lower_value <= least + state.allowed:
            return self._hold_answer(problem, state, inner)
        values = inner.upper_value, inner.lower_value
        if status or state.taken > state.proving or not all(map(math.isfinite, values)):
            return state.fallback or state
        return state._replace(inner=inner, is_better=report.is_good)

    def _next(
        self, problem: Problem, state: State, note: str, x: Array, number: int | None = None
    ) -> State:
        """The next candidate, or the one of that number, begins at x."""
        candidate = state.candidate + 1 if number is None else number
        x = arrays.like(x, state.start)  # an answer may be in a wider precision
        inner = _begin(self.candidates[candidate], problem, x, self._report(state).eta)
        return state._replace(
            candidate=candidate,
            taken=0,
            inner=inner,
            start=x,
            moved=(0, math.inf),
            refinement=OVER if state.held is not None else self._refinement_after(candidate),
            notes=(*state.notes, note) if note else state.notes,
            evidence=inner.evidence,
        )


def _for_the_proof(state: State, proved: Proved) -> Proved:
    """What is proved as the method at work should see it, while an answer waits for its proof.

    The gap of its own point, and, once that is small, a tolerance below that it does not meet: its
    bound on f* is short by about the suboptimality of its point for g, which has to fall.
    """
    inner, (asked_upper, asked_lower) = state.inner, proved.asked
    own = proved.standing.upper_gap - (state.upper_value - inner.upper_value)
    excess = max(inner.lower_value - proved.least_value, 0.0)
    return proved._replace(
        standing=proved.standing._replace(upper_gap=own),
        asked=(0.5 * asked_upper, min(asked_lower, CLOSER * excess)),
        is_guarded=False,
    )


def _begin(candidate: Candidate, problem: Problem, x: Array, eta: float) -> Any:
    """The candidate's method at x; a refinement gets the eta of the method before it, if any.

    Then x is about argmin g + eta f, so that it knows the size of its first multiplier.
    """
    if candidate.refines:
        return candidate.method.init_near(problem, x, eta)
    return candidate.method.init(problem, x)


def _both(first: StepEvidence, second: StepEvidence) -> StepEvidence:
    """All minorants and values of two steps."""
    return StepEvidence(
        upper=first.upper + second.upper,
        cuts=first.cuts + second.cuts,
        lower=first.lower + second.lower,
        values=first.values + second.values,
        intervals=first.intervals or second.intervals,
    )


def _words(candidate: Candidate, problem: Problem) -> str:
    what = candidate.title or candidate.method.describe(problem)
    return f"{what}{', ' if candidate.why else ''}{candidate.why}"


def _least(evidence: StepEvidence, before: float) -> float:
    """The least value of g, with those of a step."""
    return min(before, *(value for value, _, _ in evidence.values), math.inf)


def _noted(state: State, report: StateReport) -> State:
    """With what the consistency checks of the method at work have found, and those before it."""
    (a, b), (c, d) = report.lipschitz_violations, report.convexity_violations
    (s, t), (u, v) = state.lipschitz_violations, state.convexity_violations
    return state._replace(
        lipschitz_violations=(max(a, s), max(b, t)), convexity_violations=(max(c, u), max(d, v))
    )
