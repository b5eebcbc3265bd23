"""Bisec-BiO: bisection on the level of f; each test minimises g below that level.

Wang, Shi, Jiang: Near-optimal methods for convex simple bilevel problems, AISTATS 2024,
arXiv 2402.05415.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import NOT_ENDED, Ended, Method, Range, Rate, StateReport
from tiebreak.algorithms.common import (
    POSITIVE,
    TOLERANCE,
    RunState,
    is_due,
    need_lipschitz,
    need_smooth,
    positive_smoothness,
    whole,
)
from tiebreak.algorithms.fista import Fista
from tiebreak.functions import Minorant, level_sets
from tiebreak.functions.level_sets import LevelSets
from tiebreak.linalg import Array, Refusal, arrays, in_files
from tiebreak.problem import Point, Problem
from tiebreak.proofs.gate import DOUBT, RULE


@in_files("bisec-bio.call")
class Call(NamedTuple):
    """One call of FISTA, which minimises g over Z ∩ {f <= level} to test this level."""

    level: float  # c; inf in the first call, which covers all of Z
    run: Fista
    f_0: Minorant  # minorant of f at the start of the call, for the certificate
    weight: float  # the sum of the weights t_i of g's minorants so far
    constant: float  # the weighted sum of these minorants is constant + <slope, x>
    slope: Array


@in_files("BisectionFindings")
class BisectionFindings(NamedTuple):
    """The state of the bisection."""

    low: float  # l: by the tests, no point of Z with f <= l is good enough for g
    high: float = math.inf  # u: x is good enough for g, and f(x) <= u
    calls: int = 0  # number of calls after the first
    capped: int = 0  # calls that ended because they had used all their gradients
    dimension: int | None = None

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines for the report."""
        if not self.calls:
            return [("bisection", "not started: g is still being minimised on its own")]
        return [
            (
                "bisection",
                f"level of f in [{self.low:.9g}, {self.high:.9g}] after {self.calls} tests, "
                f"{self.capped} calls cut off (this relies on the method's tests, not on a proof)",
            )
        ]


@in_files("bisec-bio")
class Memory(NamedTuple):
    """The variables of the recursion besides the last accepted point; ``k`` counts FISTA steps."""

    call: Call
    found: BisectionFindings  # holds l and u
    smoothness: float  # L_g, or a substitute
    upper_tolerance: float  # eps_f
    lower_tolerance: float  # eps_g
    ghat: float = math.inf  # g at the end of the first call
    finished: Ended = NOT_ENDED


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class BisecBiO(Method):
    """Bisection method for Bilevel Optimization, if {f <= c} ∩ Z has an easy projection.

    First, FISTA on Z finds ghat = g(x) with g(x) - g* <= eps_g/2; u = f(x), l = min_Z f. Then,
    until u - l <= eps_f, FISTA minimises g over Z ∩ {f <= c} with c = (l + u)/2. The iterates x_c
    of FISTA decide between two cases:

        g(x_c) <= ghat + eps_g/2:       x_c is accepted, u = f(x_c) <= c
        g > ghat on Z ∩ {f <= c}:       c < f*, so l = c

    The answer is the last accepted point: f(x) - f* <= eps_f and g(x) - g* <= eps_g, after
    O(log(1/eps_f)/sqrt(eps_g)) gradients of g in total. A step of the method is one step of FISTA.

    After the first, each call of FISTA ends as soon as one of its points is accepted. The larger of
    two bounds proves that g > ghat on the set: the minimum over the set of the minorants, averaged
    as in FISTA's proof (for balls and, if Z is bounded, half-spaces), and FISTA's own g(x_k) - 2
    L_g D²/(k+1)², where D is the diameter of the set (if Z is bounded or f strongly convex). In the
    first call, the known lower bound of g and its quadratic growth are used too. If neither case is
    proved within the number of gradients that ``gradients`` allows, the call is cut off and counts
    as "not good enough" (or as the end of the first call). The report says how often this happened;
    if it did, the result has no guarantee.

    Args:
        eps_f: the accuracy for f; if None, 1e-4 times the first u - l.
        eps_g: the accuracy for g; if None, 1e-4 times |g(x0)| or, if that is 0, times |grad
            g(x0)|²/(2 L_g).
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
    ranges: ClassVar[dict[str, Range]] = {
        "eps_f": POSITIVE, "eps_g": POSITIVE, "gradients": whole(2),
    }  # fmt: skip

    def check(self, problem: Problem) -> Refusal | None:
        refusal = need_smooth(self, problem)
        if refusal:
            return refusal
        f, domain = problem.upper.bare, type(problem.domain).__name__
        sets = level_sets.find(f, problem.domain)
        if sets is None:
            needed = (
                "must have an easy projection onto {upper <= c} ∩ domain, as linear functions and "
                "distances from a point have on every domain, and quadratics on R^n"
            )
            return Refusal("BisecBiO", "upper", needed, f"{type(f).__name__} on {domain}")
        if f.prototype is not None:
            origin = arrays.like(np.zeros(f.dimension or 1), f.prototype)
            if sets.least(origin) == -math.inf:
                needed = "must be bounded below on the domain"
                got = f"a function that is unbounded below on {domain}"
                return Refusal("BisecBiO", "upper", needed, got)
        return need_lipschitz(self, problem, "lower")

    def points(self, state: State) -> dict[str, Array]:
        """Return the iterate of the current call, accepted or not."""
        return {"the last iterate": state.memory.call.run.x.x}

    def describe(self, problem: Problem) -> str:
        return f"Bisec-BiO, at most {self.gradients} gradients of g in a call"

    def report(self, state: State) -> StateReport:
        """Report the bracket, the number of calls and whether the method's stopping rule is met."""
        return StateReport(state.memory.finished, findings=state.memory.found)

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin the first call, on all of Z, at the starting point."""
        g = problem.lower
        (x,) = problem.forward(problem.domain.project(x0))
        call = _begin(problem, x, math.inf)
        run = call.run
        steep, L_g = arrays.norm(run.g_y.slope), positive_smoothness(problem, g, run.g_y, run.g_y)
        size = abs(run.g_x) or 0.5 * steep * (steep / L_g) or 1.0  # steep² may underflow
        least, eps_g = _level_sets(problem).least(x.x), self.eps_g or TOLERANCE * size
        found, eps_f = BisectionFindings(least), self.eps_f or math.inf
        memory = Memory(call, found, L_g, eps_f, eps_g)
        return fista.first_state(run, memory)

    def step(self, problem: Problem, state: State) -> State:
        """Take one FISTA step; if it answers the current test, begin the next test."""
        sets, memory, multiplier = _level_sets(problem), state.memory, 0.0  # multiplier of f <= c
        call, size = memory.call, 1.0 / memory.smoothness

        def project(v: Array) -> Array:
            nonlocal multiplier
            if call.level == math.inf:
                return problem.domain.project(v)
            z, multiplier = sets.project(v, call.level)
            return z

        before = call.run
        run = fista.advance(problem, before, 0.0, 1.0, size, project)
        evidence = fista.evidence(before, run, 0.0, 1.0)
        if 0.0 < multiplier < math.inf:  # size grad g + multiplier grad f is normal to Z at x
            t = before.t
            evidence = evidence._replace(
                upper=((multiplier * t, call.f_0),), cuts=((size * t, before.g_y),)
            )
        memory = memory._replace(call=_one_step_later(call, run))
        state = state._replace(k=state.k + 1, evidence=evidence, memory=memory)
        return self._judged(problem, state, sets)

    def _judged(self, problem: Problem, state: State, sets: LevelSets) -> State:
        """If the test is answered, set u = f(x_c) or l = c, and begin the next test.

        The first call, on all of Z, sets ghat, u and eps_f, and its points count as accepted.
        """
        memory, run, level = state.memory, state.memory.call.run, state.memory.call.level
        half, is_first, found = 0.5 * memory.lower_tolerance, level == math.inf, memory.found
        is_good, is_last = run.g_x <= memory.ghat + half, run.k + 1 >= self.gradients
        is_answered = is_good and not is_first
        if not is_answered and (is_due(run.k) or is_last):
            bound = _bound(problem, memory, sets)
            is_answered = run.g_x - bound <= half if is_first else bound > memory.ghat
        if is_good:
            state = state._replace(point=run.x, upper_value=run.f_x, lower_value=run.g_x)
        if is_first:
            eps_f = self.eps_f or TOLERANCE * (run.f_x - found.low)
            memory = memory._replace(ghat=run.g_x, upper_tolerance=eps_f)
        if not (is_answered or is_last):
            return state
        low, high = (found.low, min(level, run.f_x)) if is_good else (level, found.high)
        found = found._replace(low=low, high=high, capped=found.capped + int(not is_answered))
        memory = memory._replace(found=found)
        level = low + 0.5 * (high - low)
        if high - low <= memory.upper_tolerance or not low < level < high:
            return state._replace(memory=memory._replace(finished=_ending(memory)))
        (x,) = problem.forward(sets.project(run.x.x, level)[0])
        found = found._replace(calls=found.calls + 1)
        return state._replace(memory=memory._replace(call=_begin(problem, x, level), found=found))


def _level_sets(problem: Problem) -> LevelSets:
    sets = level_sets.find(problem.upper, problem.domain)
    assert sets is not None  # ``check`` guarantees this
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


def _bound(problem: Problem, memory: Memory, sets: LevelSets) -> float:
    """Return a lower bound on g over the set of the current call."""
    call, domain = memory.call, problem.domain
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
    bounds.append(run.g_x - 2.0 * memory.smoothness * part * part)
    return max(filter(math.isfinite, bounds), default=-math.inf)


def _ending(memory: Memory) -> Ended:
    """Say which rule ended the run, and whether the answer to every test was proved."""
    found, eps_f = memory.found, memory.upper_tolerance
    width = found.high - found.low
    rule = f"Bisec-BiO stopped because u - l = {width:.3g} is at most eps_f = {eps_f:.3g}"
    if width > eps_f:
        rule = f"Bisec-BiO stopped because no float lies between l and u = l + {width:.3g}"
    if found.capped:
        return Ended(
            DOUBT,
            f"{rule}, but {found.capped} of {found.calls + 1} calls were cut off, so nothing is "
            "guaranteed: allow more gradients",
        )
    return Ended(RULE, rule)
