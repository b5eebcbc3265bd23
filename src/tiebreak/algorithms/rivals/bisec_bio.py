"""Bisec-BiO: bisection on the level of f; each test minimises g below that level.

Wang, Shi, Jiang: Near-optimal methods for convex simple bilevel problems, AISTATS 2024,
arXiv 2402.05415.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import NOT_ENDED, Method, Rate, StateReport, StepEvidence
from tiebreak.algorithms.common import (
    TOLERANCE,
    check_positive,
    is_due,
    need_lipschitz,
    need_smooth,
    positive_smoothness,
)
from tiebreak.algorithms.fista import Fista
from tiebreak.functions import Minorant, level_sets
from tiebreak.functions.level_sets import LevelSets
from tiebreak.linalg import Array, Refusal, arrays, checks, in_files
from tiebreak.problem import Point, Problem
from tiebreak.proofs.gate import DOUBT, RULE, Ended


@in_files("bisec-bio.call")
class Call(NamedTuple):
    """One test: minimise g over Z ∩ {f <= level}, by FISTA."""

    level: float  # c; inf in the first call, which is on all of Z
    run: Fista
    f_0: Minorant  # f where the call began: its minorant in the certificate
    weight: float  # the sum of the weights t_i of g's minorants so far,
    constant: float  # and the weighted sum of these minorants: constant + <slope, x>
    slope: Array


@in_files("BisectionFindings")
class BisectionFindings(NamedTuple):
    """The state of the bisection."""

    low: float  # no point of Z with f <= low was found to be good enough for g
    high: float  # x is good enough for g, and f(x) <= high
    calls: int
    capped: int
    dimension: int | None = None

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines for the report."""
        if not self.calls:
            return [("bisection", "not begun: g is still being minimised on its own")]
        return [
            (
                "bisection",
                f"level of f in [{self.low:.9g}, {self.high:.9g}] after {self.calls} questions, "
                f"{self.capped} calls cut off (the method's own tests, no certificate)",
            )
        ]


@in_files("bisec-bio")
class State(NamedTuple):
    """Everything a run needs to continue, as arrays and numbers."""

    k: int  # FISTA steps in total
    x: Array  # the last accepted point
    upper_value: float  # f(x) and g(x)
    lower_value: float
    call: Call
    low: float  # l and u, which bracket the level of f
    high: float
    ghat: float  # g at the end of the first call
    calls: int  # number of calls after the first
    capped: int  # calls that ended because they had used all their gradients
    smoothness: float  # L_g, or a substitute
    upper_tolerance: float  # eps_f
    lower_tolerance: float  # eps_g
    finished: Ended
    evidence: StepEvidence

    @property
    def inner(self) -> Array:
        """The iterate of the current call, accepted or not."""
        return self.call.run.x.x


@dataclass(frozen=True)
class BisecBiO(Method):
    """Bisection method for Bilevel Optimization, if {f <= c} ∩ Z has an easy projection.

    First ghat = g(x) with g(x) - g* <= eps_g/2, by FISTA on Z; u = f(x), l = min_Z f. Then,
    until u - l <= eps_f, with c = (l + u)/2 and x_c the iterates of FISTA on g over Z ∩ {f <= c},

        g(x_c) <= ghat + eps_g/2:       x_c is accepted, u = f(x_c) <= c
        g > ghat on Z ∩ {f <= c}:       c < f*, so l = c

    The answer is the last accepted point: f(x) - f* <= eps_f and g(x) - g* <= eps_g, after
    O(log(1/eps_f)/sqrt(eps_g)) gradients of g in total. A step is one step of FISTA.

    A call ends as soon as a point is good enough. The larger of two bounds proves that g > ghat on
    the set: the minimum over the set of the minorants, averaged as in FISTA's proof (for balls and,
    if Z is bounded, half-spaces), and FISTA's own g(x_k) - 2 L_g D²/(k+1)², where D is the diameter
    of the set (if Z is bounded or f strongly convex). In the first call, g's lower bound and its
    growth count too. If nothing is proved within ``gradients`` gradients, the call is cut off and
    counts as "not good enough" (or as the end of the first call); the report says how often that
    happened, and then nothing is guaranteed.

    Args:
        eps_f: the accuracy for f; if None, 1e-4 of the first u - l.
        eps_g: the accuracy for g; if None, 1e-4 of |g(x0)| or, if that is 0, of the gain of a
            gradient step.
        gradients: the maximum number of gradients of g in a call; the AGM-BiO paper uses 100.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.BisecBiO(eps_f=1e-2, eps_g=1e-2), rtol=1e-2).status
        'solved'
    """

    eps_f: float | None = None
    eps_g: float | None = None
    gradients: int = 10_000

    name: ClassVar[str] = "bisec-bio"
    paper: ClassVar[str] = (
        "Wang, Shi, Jiang: Near-optimal convex simple bilevel optimization with a bisection "
        "method, AISTATS 2024, arXiv 2402.05415"
    )
    assumptions: ClassVar[str] = (
        "f convex with an easy projection onto Z ∩ {f <= c}; g convex and smooth; Z closed"
    )
    guarantee: ClassVar[str] = (
        "f - f* <= eps_f and g - g* <= eps_g after O(log(1/eps_f)/sqrt(eps_g)) gradients"
    )
    cites: ClassVar[tuple[str, ...]] = ("wang2024",)
    rates: ClassVar[tuple[Rate, ...]] = (Rate("f above", 2.0), Rate("g", 2.0))  # in gradients
    output: ClassVar[str] = "the last accepted point"

    def __post_init__(self) -> None:
        check_positive(self, "eps_f", "eps_g")
        checks.whole("BisecBiO", "gradients", self.gradients, 2)

    def check(self, problem: Problem) -> Refusal | None:
        refusal = need_smooth("BisecBiO", problem)
        if refusal:
            return refusal
        f, domain = problem.upper.bare, type(problem.domain).__name__
        sets = level_sets.find(f, problem.domain)
        if sets is None:
            needed = (
                "must have an easy projection onto {upper <= c} ∩ domain, which the distance "
                "from a point and linear functions have on every domain and quadratics have on R^n"
            )
            return Refusal("BisecBiO", "upper", needed, f"{type(f).__name__} on {domain}")
        if f.prototype is not None:
            origin = arrays.like(np.zeros(f.dimension or 1), f.prototype)
            if sets.least(origin) == -math.inf:
                needed = "must be bounded below on the domain"
                got = f"a function that is unbounded below on {domain}"
                return Refusal("BisecBiO", "upper", needed, got)
        return need_lipschitz("BisecBiO", problem, "lower")

    def points(self, state: State) -> dict[str, Array]:
        return {"the last iterate": state.inner}

    def describe(self, problem: Problem) -> str:
        return f"Bisec-BiO, at most {self.gradients} gradients of g in a call"

    def report(self, state: State) -> StateReport:
        """Report whether its own rule is met, the bracket and the number of calls."""
        found = BisectionFindings(state.low, state.high, state.calls, state.capped)
        return StateReport(state.finished, findings=found)

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin the first call, on all of Z, at the start."""
        g = problem.lower
        (x,) = problem.forward(problem.domain.project(x0))
        call = _begin(problem, x, math.inf)
        steep, g_x = arrays.norm(call.run.g_y.slope), call.run.g_x
        L_g = positive_smoothness(problem, g, call.run.g_y, call.run.g_y)
        size = abs(g_x) or 0.5 * steep * (steep / L_g) or 1.0  # steep² may underflow
        return State(
            k=0, x=x.x, upper_value=call.run.f_x, lower_value=g_x, call=call,
            low=_level_sets(problem).least(x.x), high=math.inf, ghat=math.inf,
            calls=0, capped=0, smoothness=L_g,
            upper_tolerance=self.eps_f or math.inf, lower_tolerance=self.eps_g or TOLERANCE * size,
            finished=NOT_ENDED, evidence=StepEvidence(values=((g_x, x.x, call.run.g_y),)),
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """Take one FISTA step; if it answers the test, begin the next one."""
        sets, call = _level_sets(problem), state.call
        multiplier = 0.0  # the multiplier of f <= c

        def project(v: Array) -> Array:
            nonlocal multiplier
            if call.level == math.inf:
                return problem.domain.project(v)
            z, multiplier = sets.project(v, call.level)
            return z

        before, size = call.run, 1.0 / state.smoothness
        run = fista.advance(problem, before, 0.0, 1.0, size, project)
        evidence = fista.evidence(before, run, 0.0, 1.0)
        if 0.0 < multiplier < math.inf:  # size grad g + multiplier grad f is normal to Z at x
            t = before.t
            evidence = evidence._replace(
                upper=((multiplier * t, call.f_0),), cuts=((size * t, before.g_y),)
            )
        state = state._replace(k=state.k + 1, call=_one_step_later(call, run), evidence=evidence)
        if call.level == math.inf:
            return self._after_first_call(problem, state, sets)
        return self._after_call(problem, state, sets)

    def _after_first_call(self, problem: Problem, state: State, sets: LevelSets) -> State:
        """Set ghat, u and eps_f if g is proved to be minimised to within eps_g/2."""
        run = state.call.run
        state = state._replace(x=run.x.x, upper_value=run.f_x, lower_value=run.g_x)
        is_over, capped = self._end_of_call(
            problem, state, sets, lambda bound: run.g_x - bound <= 0.5 * state.lower_tolerance
        )
        if not is_over:
            return state
        eps_f = self.eps_f or TOLERANCE * (run.f_x - state.low)
        state = state._replace(
            high=run.f_x, ghat=run.g_x, capped=int(capped), upper_tolerance=eps_f
        )
        return self._next_question(problem, state, sets)

    def _after_call(self, problem: Problem, state: State, sets: LevelSets) -> State:
        """Set u = f(x_c) or l = c if the test is answered."""
        call, run = state.call, state.call.run
        if run.g_x <= state.ghat + 0.5 * state.lower_tolerance:
            state = state._replace(
                x=run.x.x, upper_value=run.f_x, lower_value=run.g_x, high=min(call.level, run.f_x)
            )
            return self._next_question(problem, state, sets)
        is_over, capped = self._end_of_call(problem, state, sets, lambda bound: bound > state.ghat)
        if not is_over:
            return state
        state = state._replace(low=call.level, capped=state.capped + int(capped))
        return self._next_question(problem, state, sets)

    def _end_of_call(
        self,
        problem: Problem,
        state: State,
        sets: LevelSets,
        is_proved: Callable[[float], bool],
    ) -> tuple[bool, bool]:
        """Return whether the call ends, and whether that is because of its number of gradients."""
        capped = state.call.run.k + 1 >= self.gradients
        if not (is_due(state.call.run.k) or capped):
            return False, False
        if is_proved(_bound(problem, state, sets)):
            return True, False
        return capped, capped

    def _next_question(self, problem: Problem, state: State, sets: LevelSets) -> State:
        """Begin the next test where the last one ended, or end the run."""
        level = state.low + 0.5 * (state.high - state.low)
        if state.high - state.low <= state.upper_tolerance or not state.low < level < state.high:
            return state._replace(finished=_ending(state))
        (x,) = problem.forward(sets.project(state.inner, level)[0])
        return state._replace(call=_begin(problem, x, level), calls=state.calls + 1)


def _level_sets(problem: Problem) -> LevelSets:
    sets = level_sets.find(problem.upper, problem.domain)
    assert sets is not None  # ``check`` has made sure
    return sets


def _begin(problem: Problem, x: Point, level: float) -> Call:
    (f_0,), _ = problem.upper.evaluate([x.f])
    run = fista.begin(problem, x, 0.0)
    return Call(level, run, f_0, 0.0, 0.0, arrays.zeros_like(x.x))


def _one_step_later(call: Call, run: Fista) -> Call:
    """Return the call after one step: the minorant at y_k joins the average with weight t_k."""
    t, g_y = call.run.t, call.run.g_y
    height = g_y.value - arrays.dot(g_y.slope, g_y.at)
    return call._replace(
        run=run, weight=call.weight + t, constant=call.constant + t * height,
        slope=call.slope + t * g_y.slope,
    )  # fmt: skip


def _bound(problem: Problem, state: State, sets: LevelSets) -> float:
    """Return a lower bound on g over the set of the current call."""
    call, domain = state.call, problem.domain
    run, slope = call.run, call.slope / call.weight
    diameter = domain.diameter_in(int(slope.shape[0]))
    bounds = [problem.lower.lower_bound]
    if call.level == math.inf:
        least = -domain.support(-slope)
        if problem.growth > 0.0:
            steep = arrays.norm(run.g_y.slope)
            bounds.append(run.g_y.value - steep * (steep / (2.0 * problem.growth)))
    else:
        least = sets.lowest(slope, call.level)
        if problem.upper.strong_convexity > 0.0:  # |x - argmin f|² <= 2 (f(x) - min f)/sigma
            height = max(call.level - sets.least(slope), 0.0)
            radius = math.sqrt(2.0 * height / problem.upper.strong_convexity)
            diameter = min(diameter, 2.0 * radius)
    bounds.append(call.constant / call.weight + least)
    part = diameter / (run.k + 1.0)
    bounds.append(run.g_x - 2.0 * state.smoothness * part * part)
    return max(filter(math.isfinite, bounds), default=-math.inf)


def _ending(state: State) -> Ended:
    """Say by which rule the run ended, and whether every answer was proved."""
    width = state.high - state.low
    rule = (
        f"Bisec-BiO stopped because u - l = {width:.3g} is at most eps_f = "
        f"{state.upper_tolerance:.3g}"
    )
    if width > state.upper_tolerance:
        rule = f"Bisec-BiO stopped because no float lies between l and u = l + {width:.3g}"
    if state.capped:
        return Ended(
            DOUBT,
            f"{rule}, but {state.capped} of {state.calls + 1} calls were cut off, so nothing is "
            "guaranteed: allow more gradients",
        )
    return Ended(RULE, rule)
