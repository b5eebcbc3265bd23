"""Bi-SG: a full proximal gradient step on g, then one on f whose size decreases like k^-alpha.

Merchav, Sabach: Convex bi-level optimization problems with nonsmooth outer objective function,
SIAM J. Optim. 2023, arXiv 2307.08245.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms.base import Method, Range, Rate
from tiebreak.algorithms.common import (
    POSITIVE,
    RunState,
    begun,
    need_joint_prox,
    need_lipschitz,
    need_short_step,
    positive_smoothness,
    typical_curvature,
    within,
)
from tiebreak.algorithms.rivals import alternating
from tiebreak.algorithms.rivals.alternating import Alternation
from tiebreak.linalg import Array, Refusal, in_files
from tiebreak.problem import Problem


@in_files("bi-sg")
class Memory(NamedTuple):
    """The recursion's variables; the point is y_k, because the paper's x_k may lie outside Z."""

    alternation: Alternation  # y_k in Z; the upper step from y_k gives x_k, perhaps outside Z
    step_size: float  # t
    c: float


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class BiSG(Method):
    """Bi-Sub-Gradient method, in a version with gradients and prox steps.

        y_{k+1} = prox of t g2 on Z at x_k - t grad g1(x_k)
        x_{k+1} = prox of eta_k f2 at y_{k+1} - eta_k grad f1(y_{k+1}),   eta_k = c/(k+1)^alpha

    Here f = f1 + f2 and g = g1 + g2 are smooth + penalty; without penalties the steps are a
    projected gradient step and a gradient step. Subgradient steps for f2 would also work. We use
    the prox of f2: the same inequality holds (see `alternating`), there is no subgradient to
    choose, and entries that a penalty makes 0 are exactly 0. f2 needs no joint prox with g2 and Z,
    because each level has its own step.

    The output is the last y_k: g(y_k) - g* = O(k^-alpha). The sum over all steps gives
    f - f* = O(k^-(1-alpha)) for the best of f(y_1) ... f(y_k).

    Args:
        alpha: a number in (1/2, 1); the experiments of the AGM-BiO paper use 3/4.
        c: size of the upper steps; if None, 1/L_f, or with a penalty 1/(L_f + M/D), where M is the
            penalty's steepest slope and D is the typical size of x.
        step_size: t, the size of the lower steps; at most 1/L_g, which is the default.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.BiSG(alpha=0.75), rtol=1e-2).status
        'certified'
    """

    alpha: float = 0.75
    c: float | None = None
    step_size: float | None = None

    name: ClassVar[str] = "bi-sg"
    paper: ClassVar[str] = (
        "Merchav, Sabach: Convex bi-level optimization problems with nonsmooth outer objective "
        "function, SIAM J. Optim. 2023, arXiv 2307.08245"
    )
    assumptions: ClassVar[str] = (
        "f, g convex, each smooth + penalty; f with bounded subgradients; Z closed, joint prox "
        "with the lower penalty"
    )
    guarantee: ClassVar[str] = "f - f* <= O(k^-(1-alpha)), g - g* <= O(k^-alpha), 1/2 < alpha < 1"
    cites: ClassVar[tuple[str, ...]] = ("merchav2023",)
    rates: ClassVar[tuple[Rate, ...]] = (  # for alpha = 3/4
        Rate("f above", 0.25, at="the best of y_1 ... y_k"),
        Rate("g", 0.75),
    )
    output: ClassVar[str] = "y_k, the last point in Z"
    ranges: ClassVar[dict[str, Range]] = {
        "alpha": within("a number in (1/2, 1)", lambda alpha: 0.5 < alpha < 1.0),
        "c": POSITIVE,
        "step_size": POSITIVE,
    }

    def check(self, problem: Problem) -> Refusal | None:
        return (
            need_joint_prox(self, problem, is_split=True)
            or need_lipschitz(self, problem, "upper", unless=("c",))
            or need_lipschitz(self, problem, "lower", unless=("step_size",))
            or need_short_step(self, "step_size", problem.lower.lipschitz)
        )

    def describe(self, problem: Problem) -> str:
        smoothness = "(L_f + M/D)" if problem.penalties[0].terms.has_weights else "L_f"
        c = f"1/{smoothness}" if self.c is None else f"{self.c:g}"
        t = "1/L_g" if self.step_size is None else f"{self.step_size:g}"
        return f"Bi-SG, upper steps {c}/(k+1)^{self.alpha:g}, lower steps {t}, last iterate"

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with y_0 = x_0."""
        start = alternating.begin(problem, x0)
        f_0, g_0 = start.f_x, start.g_out
        t, c = self.step_size, self.c
        if t is None:
            t = 1.0 / positive_smoothness(problem, problem.lower, g_0, g_0)
        if c is None:
            c = 1.0 / (typical_curvature(problem, problem.upper, f_0, g_0) or 1.0)
        return begun(start.x, start.upper_value, start.g_x, g_0, Memory(start, t, c))

    def step(self, problem: Problem, state: State) -> State:
        """Take a lower step to y_{k+1}, then an upper step of size eta_k to x_{k+1}."""
        k, (before, t, c) = state.k + 1, state.memory
        after = alternating.advance(problem, before, t, c / k**self.alpha)
        evidence, memory = alternating.evidence(before, after, t), Memory(after, t, c)
        return RunState(k, after.x, after.upper_value, after.g_x, evidence, memory)
