"""CG-BiO: conditional gradients on f with a cutting plane of g.

Jiang, Abolfazli, Mokhtari, Yazdandoost Hamedani: A conditional gradient-based method for simple
bilevel optimization with convex lower-level problem, AISTATS 2023, arXiv 2206.08868.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import NOT_ENDED, Method, Rate, StateReport, StepEvidence
from tiebreak.algorithms.common import (
    TOLERANCE,
    averaged,
    check_positive,
    check_within,
    minorants_at,
    need_lipschitz,
    need_smooth,
    positive_smoothness,
)
from tiebreak.algorithms.fista import Fista
from tiebreak.algorithms.rivals import first_phase
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, Image, Refusal, arrays, in_files
from tiebreak.problem import Point, Problem
from tiebreak.proofs.gate import RULE, Ended
from tiebreak.sets import argmin_cut


@in_files("cg-bio")
class State(NamedTuple):
    """Everything a run needs to continue, as arrays and numbers."""

    k: int  # steps of the second phase
    first_steps: int  # steps of the first phase
    x: Array
    images: tuple[Image, Image, Any]  # of x under the matrices of f and g, and their reach
    upper_value: float  # f(x) and g(x)
    lower_value: float
    first: Fista | None  # the first phase, on g alone; None when it is over
    step_size: float  # of the first phase
    f_x: Minorant | None  # f and g at x; None in the first phase
    g_x: Minorant | None
    level: float  # g at the first point of the second phase
    upper_tolerance: float  # eps_f
    lower_tolerance: float  # eps_g
    finished: Ended
    evidence: StepEvidence


@dataclass(frozen=True)
class CGBiO(Method):
    """Conditional Gradient method for Bilevel Optimization, for a bounded Z.

    First phase: FISTA on g until the Frank-Wolfe gap max_{s in Z} <grad g(x), x - s> is at most
    eps_g/2, which proves g(x) - g* <= eps_g/2: see `first_phase`. From that x_0 on,

        s_k     = argmin of <grad f(x_k), s> over
                  { s in Z : g(x_k) + <grad g(x_k), s - x_k> <= g(x_0) }
        x_{k+1} = (1 - gamma_k) x_k + gamma_k s_k,   gamma_k = scale/(k+2)

    until <grad f(x_k), x_k - s_k> <= eps_f and <grad g(x_k), x_k - s_k> <= eps_g/2, which proves
    f(x_k) - f* <= eps_f and g(x_k) - g* <= eps_g. With scale = 2, D the diameter of Z and k >= 1,
    f(x_k) - f* <= 2 L_f D²/(k+1) and g(x_k) - g* <= 2 L_g D²/(k+1) + eps_g/2.

    With the multiplier mu_k of the cut, f(x_k) minus the first of these gaps is a bound on f*: the
    certificate gets the minorants at x_k with the weights 1 and mu_k, times k + 1.

    Args:
        eps_f, eps_g: the accuracy. If None, 1e-4 of the size of f and of g: the value at x0 or, if
            that is 0, what the slope or else the Lipschitz constant allows within Z.
        scale: gamma_k (k+2), in (0, 2]. The theorem needs 2; the AGM-BiO paper uses 1e-2.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.CGBiO(eps_f=1e-2, eps_g=1e-2), rtol=1e-2).status
        'solved'
    """

    eps_f: float | None = None
    eps_g: float | None = None
    scale: float = 2.0

    name: ClassVar[str] = "cg-bio"
    paper: ClassVar[str] = (
        "Jiang, Abolfazli, Mokhtari, Yazdandoost Hamedani: A conditional gradient-based method for "
        "simple bilevel optimization with convex lower-level problem, AISTATS 2023, "
        "arXiv 2206.08868"
    )
    assumptions: ClassVar[str] = "f, g convex and smooth; Z bounded, with easy linear minimisation"
    guarantee: ClassVar[str] = "f - f* <= O(1/k); g - g* <= O(1/k) + eps_g/2"
    cites: ClassVar[tuple[str, ...]] = ("jiang2023",)
    rates: ClassVar[tuple[Rate, ...]] = (Rate("f above", 1.0), Rate("g", 1.0))

    def __post_init__(self) -> None:
        check_positive(self, "eps_f", "eps_g")
        check_within(self, "scale", "a number in (0, 2]", lambda scale: 0.0 < scale <= 2.0)

    def check(self, problem: Problem) -> Refusal | None:
        refusal = need_smooth("CGBiO", problem)
        if not refusal and not problem.is_bounded:
            needed = "must be bounded because linear functions are minimised over it"
            refusal = Refusal("CGBiO", "domain", needed, type(problem.domain).__name__)
        return refusal or need_lipschitz("CGBiO", problem, "lower")

    def describe(self, problem: Problem) -> str:
        return f"CG-BiO, gamma_k = {self.scale:g}/(k+2)"

    def report(self, state: State) -> StateReport:
        """Report whether its own rule is met, and the reach of x."""
        return StateReport(state.finished, reach=state.images[2])

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin the first phase at the start; it may end there."""
        f, g = problem.upper, problem.lower
        (x,) = problem.forward(problem.domain.project(x0))
        (f_x,), _ = f.evaluate([x.f])
        run = fista.begin(problem, x, 0.0)
        state = State(
            k=0, first_steps=0, x=x.x, images=x[1:],
            upper_value=run.f_x, lower_value=run.g_x, first=run,
            step_size=1.0 / positive_smoothness(problem, g, run.g_y, run.g_y),
            f_x=None, g_x=None, level=math.inf,
            upper_tolerance=self.eps_f or TOLERANCE * first_phase.size(problem, f, f_x),
            lower_tolerance=self.eps_g or TOLERANCE * first_phase.size(problem, g, run.g_y),
            finished=NOT_ENDED, evidence=StepEvidence(values=((run.g_x, x.x, run.g_y),)),
        )  # fmt: skip
        if not first_phase.is_minimal(problem, run.g_y, 0.5 * state.lower_tolerance):
            return state
        return _second_phase(problem, state, x, run.g_y)

    def step(self, problem: Problem, state: State) -> State:
        """Take one step of the current phase."""
        if state.first is not None:
            half = 0.5 * state.lower_tolerance
            state, g_x = first_phase.step(problem, state, state.first, half)
            if g_x is None:
                return state
            return _second_phase(problem, state, Point(state.x, *state.images), g_x)
        f_x, g_x = state.f_x, state.g_x
        assert f_x is not None
        assert g_x is not None
        offset = state.level - g_x.value + arrays.dot(g_x.slope, g_x.at)
        s_new, mu = argmin_cut(problem.domain, f_x.slope, g_x.slope, offset)
        weight = state.k + 1.0
        evidence = StepEvidence(
            upper=((weight, f_x),),
            cuts=((weight * mu, g_x),),
            lower=((weight, g_x),),
            values=((g_x.value, g_x.at, g_x),),
        )
        upper_gap, lower_gap = (arrays.dot(h.slope, h.at - s_new) for h in (f_x, g_x))
        if upper_gap <= state.upper_tolerance and lower_gap <= 0.5 * state.lower_tolerance:
            sentence = (
                f"CG-BiO stopped because <grad f, x - s> = {upper_gap:.3g} is at most "
                f"eps_f = {state.upper_tolerance:.3g} and <grad g, x - s> = {lower_gap:.3g} is at "
                f"most eps_g/2 = {0.5 * state.lower_tolerance:.3g}"
            )
            return state._replace(evidence=evidence, finished=Ended(RULE, sentence))

        (s,) = problem.forward(s_new)
        k = state.k + 1
        x = averaged(problem, Point(state.x, *state.images), s, self.scale / (k + 1), k)
        f_x, g_x = minorants_at(problem, x)
        return state._replace(
            k=k, x=x.x, images=x[1:], upper_value=f_x.value, lower_value=g_x.value,
            f_x=f_x, g_x=g_x, evidence=evidence,
        )  # fmt: skip


def _second_phase(problem: Problem, state: State, x: Point, g_x: Minorant) -> State:
    """Begin the second phase once the Frank-Wolfe gap of g is at most eps_g/2."""
    (f_x,), _ = problem.upper.evaluate([x.f])
    return state._replace(first=None, f_x=f_x, g_x=g_x, level=g_x.value)
