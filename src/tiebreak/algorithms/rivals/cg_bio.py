"""CG-BiO: conditional gradients on f with a cutting plane of g.

Jiang, Abolfazli, Mokhtari, Yazdandoost Hamedani: A conditional gradient-based method for simple
bilevel optimization with convex lower-level problem, AISTATS 2023, arXiv 2206.08868.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import NOT_ENDED, Ended, Method, Range, Rate, StateReport
from tiebreak.algorithms.common import (
    POSITIVE,
    TOLERANCE,
    UP_TO_2,
    RunState,
    averaged,
    minorants_at,
    need_bounded,
    need_lipschitz,
    need_smooth,
    weighted,
)
from tiebreak.algorithms.rivals import first_phase
from tiebreak.algorithms.rivals.first_phase import FirstPhase
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, Refusal, arrays, in_files
from tiebreak.problem import Problem
from tiebreak.proofs.gate import RULE
from tiebreak.sets import argmin_cut


@in_files("cg-bio")
class Memory(NamedTuple):
    """The variables of the recursion, besides x; ``k`` counts the steps of the second phase."""

    first: FirstPhase | None  # the first phase, on g alone; None when it is over
    f_x: Minorant  # f and g at x; during the first phase, at the starting point
    g_x: Minorant
    level: float  # g at the first point of the second phase
    upper_tolerance: float  # eps_f
    lower_tolerance: float  # eps_g
    finished: Ended = NOT_ENDED


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class CGBiO(Method):
    """Conditional Gradient method for Bilevel Optimization, for a bounded Z.

    The first phase runs FISTA on g until the Frank-Wolfe gap max_{s in Z} <grad g(x), x - s> is at
    most eps_g/2, which proves g(x) - g* <= eps_g/2: see `first_phase`. Starting from the resulting
    x_0, the second phase is

        s_k     = argmin of <grad f(x_k), s> over
                  { s in Z : g(x_k) + <grad g(x_k), s - x_k> <= g(x_0) }
        x_{k+1} = (1 - gamma_k) x_k + gamma_k s_k,   gamma_k = scale/(k+2)

    The second phase ends when <grad f(x_k), x_k - s_k> <= eps_f and <grad g(x_k), x_k - s_k> <=
    eps_g/2, which proves f(x_k) - f* <= eps_f and g(x_k) - g* <= eps_g. With scale = 2, D the
    diameter of Z and k >= 1, f(x_k) - f* <= 2 L_f D²/(k+1) and g(x_k) - g* <= 2 L_g D²/(k+1) +
    eps_g/2.

    With the multiplier mu_k of the cut, f(x_k) - <grad f(x_k), x_k - s_k> is a lower bound on f*:
    the certificate gets the minorants at x_k with the weights k + 1 and (k + 1) mu_k.

    Args:
        eps_f, eps_g: the accuracy for f and g. If None, 1e-4 times the first nonzero number among
            |h(x0)|, |grad h(x0)| D and L_h D²/2, with h = f or g.
        scale: gamma_k (k+2), in (0, 2]. The theorem requires 2; the AGM-BiO paper uses 1e-2.

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
    ranges: ClassVar[dict[str, Range]] = {
        "eps_f": POSITIVE, "eps_g": POSITIVE, "scale": UP_TO_2,
    }  # fmt: skip

    def check(self, problem: Problem) -> Refusal | None:
        return (
            need_smooth(self, problem)
            or need_bounded(self, problem)
            or need_lipschitz(self, problem, "lower")
        )

    def describe(self, problem: Problem) -> str:
        return f"CG-BiO, gamma_k = {self.scale:g}/(k+2)"

    def report(self, state: State) -> StateReport:
        """Report whether the method's stopping rule is met, and the ``reach`` of x."""
        return StateReport(state.memory.finished, reach=state.point.reach)

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin the first phase at the starting point; it may end there at once."""
        f, g = problem.upper, problem.lower
        (x,) = problem.forward(problem.domain.project(x0))
        (f_x,), _ = f.evaluate([x.f])
        first = first_phase.begin(problem, x)
        g_x = first.run.g_y
        eps_f = self.eps_f or TOLERANCE * first_phase.size(problem, f, f_x)
        eps_g = self.eps_g or TOLERANCE * first_phase.size(problem, g, g_x)
        state = fista.first_state(first.run, Memory(first, f_x, g_x, math.inf, eps_f, eps_g))
        is_over = first_phase.frank_wolfe_gap(problem, g_x) <= 0.5 * eps_g
        return _second_phase(problem, state, g_x) if is_over else state

    def step(self, problem: Problem, state: State) -> State:
        """Take one step of the current phase."""
        memory, half = state.memory, 0.5 * state.memory.lower_tolerance
        if memory.first is not None:
            first, evidence, g_min = first_phase.step(problem, memory.first, half)
            state = fista.next_state(state.k, first.run, evidence, memory._replace(first=first))
            return state if g_min is None else _second_phase(problem, state, g_min)
        f_x, g_x, eps_f = memory.f_x, memory.g_x, memory.upper_tolerance
        offset = memory.level - g_x.value + arrays.dot(g_x.slope, g_x.at)
        s_new, mu = argmin_cut(problem.domain, f_x.slope, g_x.slope, offset)
        weight, k = state.k + 1.0, state.k + 1
        value = g_x.value, g_x.at, g_x
        evidence = weighted(weight, f_x, weight * mu, g_x, value, lower=weight)
        upper_gap, lower_gap = (arrays.dot(h.slope, h.at - s_new) for h in (f_x, g_x))
        if upper_gap <= eps_f and lower_gap <= half:
            sentence = (
                f"CG-BiO stopped because <grad f, x - s> = {upper_gap:.3g} is at most "
                f"eps_f = {eps_f:.3g} and <grad g, x - s> = {lower_gap:.3g} is at "
                f"most eps_g/2 = {half:.3g}"
            )
            ended = memory._replace(finished=Ended(RULE, sentence))
            return state._replace(evidence=evidence, memory=ended)

        (s,) = problem.forward(s_new)
        x = averaged(problem, state.point, s, self.scale / (k + 1), k)
        f_x, g_x = minorants_at(problem, x)
        memory = memory._replace(f_x=f_x, g_x=g_x)
        return RunState(k, x, f_x.value, g_x.value, evidence, memory)


def _second_phase(problem: Problem, state: State, g_x: Minorant) -> State:
    """Begin the second phase once the Frank-Wolfe gap of g is at most eps_g/2."""
    (f_x,), _ = problem.upper.evaluate([state.point.f])
    memory = state.memory._replace(first=None, f_x=f_x, g_x=g_x, level=g_x.value)
    return state._replace(memory=memory)
