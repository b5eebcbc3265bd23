"""AdaBiM: proximal gradient steps on g + e_k f, sized from the last two gradients.

Latafat, Themelis, Villa, Patrinos: On the convergence of proximal gradient methods for convex
simple bilevel optimization, J. Optim. Theory Appl. 2025, arXiv 2305.03559.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms.base import Method, Range
from tiebreak.algorithms.common import (
    POSITIVE,
    SHARE,
    RunState,
    begun,
    first_curvature,
    need_joint_prox,
    need_unit,
    typical_length,
    weighted,
)
from tiebreak.functions import Minorant, SmoothFunction
from tiebreak.linalg import Array, Refusal, arrays, checks, in_files
from tiebreak.problem import Point, Problem


@in_files("ada-bim")
class Memory(NamedTuple):
    """The variables of the recursion, besides x_k."""

    f_x: Minorant  # minorants of f1 and g1 at x_k
    g_x: Minorant
    unit: float  # u
    weight: float  # e_k
    fall: float  # e_k/e_{k-1}
    step_size: float  # s_k
    growth: float  # s_k/s_{k-1}
    most: float  # the largest step size allowed
    curvatures: tuple[float, float, float]  # c, l of g1 + e_k f1 and l of g1, on the last step


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class AdaBiM(Method):
    """Adaptive Bilevel Method: no Lipschitz constant is needed.

        x_{k+1} = prox of s_k (g2 + e_k f2) on Z at x_k - s_k (grad g1(x_k) + e_k grad f1(x_k))
        e_0 = u,   e_k = min(max(u/k, 3 e_{k-1}/4), e_{k-1})

    Let dx and dh be the last changes of x and of grad h1, with h1 = g1 + e f1. Let l = <dh,
    dx>/|dx|², c = |dh|²/<dh, dx>, l_g the value of l for g1 alone, tau_k = e_k/e_{k-1} and a = s_k
    e_k mu/2. Then s_{k+1} is s_k/tau_{k+1} times the smaller of

        sqrt((1 + tau_k s_k/s_{k-1}) tau_k)
        sqrt(1 + 4 a - 4 (1 - tau_k) s_k l_g) / (2 sqrt(s_k l (s_k c - 1) - a))

    This size is halved until s (l - e mu/2) <= nu, with the l of the new step. f and g are each
    smooth + penalty. The output is the last iterate. The theorem says that x_k converges to a
    solution, without a rate, if the gradients are locally Lipschitz; we prove nothing further.

    A negative number under a root counts as 0; a step that would become 0 is halved instead.

    Args:
        mu: strong convexity of f; 0 is always valid.
        nu: the bound in the step test, in (0, 1).
        unit: u; if None, the ratio of the curvatures of g1 and f1 at x0, estimated along a short
            gradient step. ``unit`` must be given if f has no gradient.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.AdaBiM(), rtol=1e-2, criterion="weak").status
        'certified'
    """

    mu: float = 0.0
    nu: float = 0.98
    unit: float | None = None

    name: ClassVar[str] = "ada-bim"
    paper: ClassVar[str] = (
        "Latafat, Themelis, Villa, Patrinos: On the convergence of proximal gradient methods for "
        "convex simple bilevel optimization, J. Optim. Theory Appl. 2025, arXiv 2305.03559"
    )
    assumptions: ClassVar[str] = (
        "f, g convex, each smooth + penalty, gradients locally Lipschitz; Z closed, joint prox "
        "with both penalties"
    )
    guarantee: ClassVar[str] = "x_k converges to a solution"
    cites: ClassVar[tuple[str, ...]] = ("latafat2025",)
    ranges: ClassVar[dict[str, Range]] = {"mu": checks.at_least, "nu": SHARE, "unit": POSITIVE}

    def check(self, problem: Problem) -> Refusal | None:
        return need_joint_prox(self, problem) or need_unit(self, problem)

    def describe(self, problem: Problem) -> str:
        unit = "" if self.unit is None else f", unit {self.unit:g}"
        return f"AdaBiM, weights 1/k{unit}, steps from the last two gradients"

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with a tenth of the step that the curvature of g at x_0 allows."""
        x, f_x, g_x, f_value, g_value = _evaluated(problem, problem.domain.project(x0))
        f1, g1 = problem.smooth_parts
        L_g, unit = _curvature(problem, g1, g_x, f_x, g_x), self.unit
        if unit is None:
            unit = L_g / _curvature(problem, f1, f_x, g_x, g_x)
        most = 1e9 / L_g  # reached only if f and g are linear
        memory = Memory(f_x, g_x, unit, unit, 1.0, 0.1 / L_g, 1.0, most, (0.0, 0.0, 0.0))
        return begun(x, f_value, g_value, g_x, memory)

    def step(self, problem: Problem, state: State) -> State:
        """Take a step, sized from the last two steps and halved until it is short enough."""
        memory, tau = state.memory, 1.0
        f, g, e, s = memory.f_x, memory.g_x, memory.weight, memory.step_size
        if state.k:
            e = min(max(memory.unit / state.k, 0.75 * e), e)
            tau = e / memory.weight
            s = self._step_size(memory, tau)
        slope = g.slope + e * f.slope
        while True:
            x = problem.prox(f.at - s * slope, s * e, s)
            point, f_x, g_x, f_value, g_value = _evaluated(problem, x)
            dx, dg = x - f.at, g_x.slope - g.slope
            dh = dg + e * (f_x.slope - f.slope)
            square, size, inner, turn, inner_g = arrays.dots(
                (dx, dx), (x, x), (dh, dx), (dh, dh), (dg, dx)
            )
            is_rounding = square <= (64.0 * arrays.epsilon(x)) ** 2 * size
            if is_rounding or not s * (inner / square - 0.5 * e * self.mu) > self.nu:
                break
            s *= 0.5
        curvatures = (0.0, 0.0, 0.0)
        if not is_rounding and inner > 0.0:
            curvatures = turn / inner, inner / square, inner_g / square
        evidence = weighted(s * e, f, s, g, (g_value, x, g_x))
        memory = memory._replace(
            f_x=f_x, g_x=g_x, weight=e, fall=tau, step_size=s,
            growth=s / (memory.step_size or s or 1.0), curvatures=curvatures,
        )  # fmt: skip
        return RunState(state.k + 1, point, f_value, g_value, evidence, memory)

    def _step_size(self, memory: Memory, tau: float) -> float:
        """Return s_{k+1} before halving."""
        s, e, fall = memory.step_size, memory.weight, memory.fall
        c, of_h, of_g = memory.curvatures
        longest = math.sqrt((1.0 + fall * memory.growth) * fall)
        curved = s * of_h * (s * c - 1.0) - 0.5 * s * e * self.mu
        if curved > 0.0:
            root = max(1.0 + 2.0 * self.mu * e * s - 4.0 * (1.0 - fall) * s * of_g, 0.0)
            longest = min(longest, math.sqrt(root) / (2.0 * math.sqrt(curved)))
        return min(s / tau * longest, memory.most) or 0.5 * s


def _evaluated(problem: Problem, x: Array) -> tuple[Point, Minorant, Minorant, float, float]:
    """Return x with its images, f1 and g1 at x, and the values of f and g."""
    (x_,) = problem.forward(x)
    (f_x,), (f_value,) = problem.upper.evaluate([x_.f], [x_.f])
    (g_x,), (g_value,) = problem.lower.evaluate([x_.g], [x_.g])
    return x_, f_x, g_x, f_value, g_value


def _curvature(
    problem: Problem, h: SmoothFunction, here: Minorant, other: Minorant, g_0: Minorant
) -> float:
    """Estimate the curvature of h at x0; return a substitute if h is linear."""
    length = typical_length(problem, g_0)
    return first_curvature(problem, h, here, other)[0] or arrays.norm(here.slope) / length or 1.0
