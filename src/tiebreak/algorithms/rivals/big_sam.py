"""BiG-SAM: averages a lower and an upper step from one point; the upper weight tends to 0.

Sabach, Shtern: A first order method for solving convex bilevel optimization problems, SIAM J.
Optim. 27(2), 2017. With inertia: Shehu, Vuong, Zemkoho: An inertial extrapolation method for convex
simple bilevel optimization, Optim. Methods Softw. 36, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms.base import Method, Range, Rate, StepEvidence
from tiebreak.algorithms.common import (
    UP_TO_1,
    RunState,
    begun,
    minorants_at,
    need_joint_prox,
    need_lipschitz,
    need_smooth,
    need_strong_convexity,
    positive_smoothness,
    typical_length,
    values_at,
)
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, Refusal, arrays, checks, in_files
from tiebreak.problem import Point, Problem, mixed


@in_files("big-sam")
class Memory(NamedTuple):
    """The variables of the recursion, besides y_k."""

    inner: Point  # x_k, outside Z
    f_w: Minorant  # f and g1 where the next step begins: at x_k, or beyond it with inertia
    g_w: Minorant
    lower_step: float  # t
    upper_step: float  # s
    margin: float  # 1 - beta
    length: float  # D, a length in the units of x


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class BiGSAM(Method):
    """Bi-level Gradient Sequential Averaging Method, for a strongly convex f.

        y_k = prox of t g2 on Z at x_{k-1} - t grad g1(x_{k-1}),     t = 1/L_g
        z_k = x_{k-1} - s grad f(x_{k-1}),                          s = 2/(L_f + sigma)
        x_k = a_k z_k + (1 - a_k) y_k,         a_k = min{2 gamma/(k (1 - beta)), 1}

    Here g = g1 + g2 is smooth + penalty, f has curvature at least sigma > 0, and the map from x to
    z is a contraction with the factor beta = 1 - s sigma. The output is y_k, because x_k may lie
    outside Z. With ``inertia`` both steps begin at the point w = x_{k-1} + th (x_{k-1} - x_{k-2}),
    where th = min{(k-1)/(k+2), D a_k/(k^0.01 |x_{k-1} - x_{k-2}|)} and D is a length in the units
    of x (the factor D is ours).

    The paper proves x_k -> x*, and g(y_k) - g* = O(1/k); there is no rate for f. We prove a bound
    for gamma = 1 without inertia. Let C = max{|x_0 - u|, |s grad f(u)|/(1 - beta)} for any
    minimiser u of g, and J = floor(2/(1 - beta)). Then

        g(y_k) - g* <= 2 C² (J + 2)/(t (1 - beta) k).

    Args:
        gamma: a number in (0, 1] that scales the weights of the upper steps.
        inertia: if True, extrapolate before both steps.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.BiGSAM(), rtol=1e-2).status
        'certified'
    """

    gamma: float = 1.0
    inertia: bool = False

    name: ClassVar[str] = "big-sam"
    paper: ClassVar[str] = (
        "Sabach, Shtern: A first order method for solving convex bilevel optimization problems, "
        "SIAM J. Optim. 2017"
    )
    assumptions: ClassVar[str] = (
        "f strongly convex and smooth; g convex, smooth + penalty; Z closed, joint prox with the "
        "lower penalty"
    )
    guarantee: ClassVar[str] = "g - g* <= O(1/k); x_k -> x* without a rate"
    cites: ClassVar[tuple[str, ...]] = ("sabachshtern2017", "shehu2021")
    rates: ClassVar[tuple[Rate, ...]] = (Rate("g", 1.0, "gamma = 1, without inertia"),)
    output: ClassVar[str] = "the last y_k, the lower step"
    ranges: ClassVar[dict[str, Range]] = {"gamma": UP_TO_1, "inertia": checks.flag}

    def check(self, problem: Problem) -> Refusal | None:
        return (
            need_smooth(self, problem, "upper")
            or need_lipschitz(self, problem, "upper", "lower")
            or need_strong_convexity(self, problem, "bi-sg accepts every convex function")
            or need_joint_prox(self, problem)
        )

    def describe(self, problem: Problem) -> str:
        inertial = " with inertia" if self.inertia else ""
        return f"BiG-SAM{inertial}, upper weights {2.0 * self.gamma:g}/(k (1 - beta))"

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with x_0 = y_0."""
        f, g = problem.upper, problem.lower
        (x,) = problem.forward(problem.domain.project(x0))
        (f_w,), (f_x,) = f.evaluate([x.f], [x.f])
        (g_w,), (g_x,) = g.evaluate([x.g], [x.g])
        sigma, L = f.strong_convexity, f.lipschitz
        t, s = 1.0 / positive_smoothness(problem, g, g_w, g_w), 2.0 / (L + sigma)
        memory = Memory(x, f_w, g_w, t, s, s * sigma, typical_length(problem, g_w))
        return begun(x, f_x, g_x, g_w, memory)

    def step(self, problem: Problem, state: State) -> State:
        """Take both steps from one point, and average their results."""
        k, (_, f, g, t, s, margin, D) = state.k + 1, state.memory
        a = self._weight(margin, k)
        y = problem.prox(g.at - t * g.slope, 0.0, t)
        y, x = problem.forward(y, a * (f.at - s * f.slope) + (1.0 - a) * y)
        w = self._ahead(state.memory, x, k) if self.inertia else x
        f_w, g_w = minorants_at(problem, w)
        f_y, g_y = values_at(problem, y)
        evidence = StepEvidence(
            upper=((a * s, f),),
            cuts=(((1.0 - a) * t, g),) if a < 1.0 else (),
            lower=((t, g),),
            values=((g_y, y.x, g_w),),
        )
        return RunState(k, y, f_y, g_y, evidence, Memory(x, f_w, g_w, t, s, margin, D))

    def _weight(self, margin: float, k: int) -> float:
        """Return a_k."""
        most = 2.0 * self.gamma
        return most / max(k * margin, most)

    def _ahead(self, memory: Memory, x: Point, k: int) -> Point:
        """Return w for step k + 1, which begins at x_k."""
        share, moved = k / (k + 3.0), arrays.norm(x.x - memory.inner.x)
        if moved > 0.0:
            weight = self._weight(memory.margin, k + 1)
            share = min(share, memory.length * weight / (k + 1) ** 0.01 / moved)
        return mixed(memory.inner, x, 1.0 + share)
