"""a-IRG: averaged projected gradient steps on g + eta_k f, with eta_k decreasing to zero.

Kaushik, Yousefian: A method with convergence rates for optimization problems with variational
inequality constraints, SIAM J. Optim. 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms.base import Method, Range, Rate, StateReport
from tiebreak.algorithms.common import (
    POSITIVE,
    RunState,
    at_start,
    averaged,
    begun,
    both_smoothness,
    minorants_at,
    need_lipschitz,
    need_smooth,
    values_at,
    weighted,
    within,
)
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, Refusal, in_files
from tiebreak.problem import Problem


@in_files("a-irg")
class Memory(NamedTuple):
    """The variables of the recursion, besides the average of x_0 ... x_k with weights gamma_i^r."""

    f_x: Minorant  # f and g at x_k
    g_x: Minorant
    total: float  # sum of the weights
    gamma_0: float
    eta_0: float


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class AIRG(Method):
    """Averaged Iteratively Regularized Gradient method.

        x_{k+1} = projection of x_k - gamma_k (grad g(x_k) + eta_k grad f(x_k)) onto Z
        gamma_k = gamma_0/sqrt(k+1),   eta_k = eta_0/(k+1)^b

    The output is the average of x_0 ... x_k with weights gamma_i^r: f - f* = O(k^-(1/2-b)) and
    g - g* = O(k^-b), both O(k^-1/4) with b = 1/4, on a set where both gradients are bounded.

    Args:
        gamma_0: the first step size, 1/(L_g + eta_0 L_f) if None.
        eta_0: the first weight of f; L_g/(sqrt(8) L_f) if None, which makes the bound for f divided
            by L_f equal to the bound for g divided by L_g.
        b: the exponent of eta_k, in (0, 1/2).
        r: the exponent of the average's weights, in [0, 1).

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.AIRG(), rtol=1e-2).success
        True
    """

    gamma_0: float | None = None
    eta_0: float | None = None
    b: float = 0.25
    r: float = 0.5

    name: ClassVar[str] = "a-irg"
    paper: ClassVar[str] = (
        "Kaushik, Yousefian: A method with convergence rates for optimization problems with "
        "variational inequality constraints, SIAM J. Optim. 2021"
    )
    assumptions: ClassVar[str] = "f, g convex with bounded gradients; Z closed"
    guarantee: ClassVar[str] = "f - f* <= O(k^-(1/2-b)), g - g* <= O(k^-b); both O(k^(-1/4))"
    cites: ClassVar[tuple[str, ...]] = ("kaushik2021",)
    rates: ClassVar[tuple[Rate, ...]] = (Rate("f above", 0.25), Rate("g", 0.25))  # for b = 1/4
    output: ClassVar[str] = "the average of x_0 ... x_k, weighted by gamma_i^r"
    ranges: ClassVar[dict[str, Range]] = {
        "gamma_0": POSITIVE,
        "eta_0": POSITIVE,
        "b": within("a number in (0, 1/2)", lambda b: 0.0 < b < 0.5),
        "r": within("a number in [0, 1)", lambda r: 0.0 <= r < 1.0),
    }

    def check(self, problem: Problem) -> Refusal | None:
        return need_smooth(self, problem) or need_lipschitz(
            self, problem, "upper", "lower", unless=("gamma_0", "eta_0")
        )

    def points(self, state: State) -> dict[str, Array]:
        return {"the last iterate": state.memory.f_x.at}

    def describe(self, problem: Problem) -> str:
        gamma = "1/(L_g + eta_0 L_f)" if self.gamma_0 is None else f"{self.gamma_0:g}"
        eta = "L_g/(sqrt(8) L_f)" if self.eta_0 is None else f"{self.eta_0:g}"
        return f"a-IRG, gamma_0 = {gamma}, eta_0 = {eta}, b = {self.b:g}, averaged"

    def report(self, state: State) -> StateReport:
        """Report the ``reach`` of the average."""
        return StateReport(reach=state.point.reach)

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with x_0 as the first average."""
        x, f_x, g_x = at_start(problem, x0)
        gamma_0, eta_0 = self.gamma_0, self.eta_0
        if gamma_0 is None or eta_0 is None:
            L_f, L_g = both_smoothness(problem, f_x, g_x)
            eta_0 = L_g / (math.sqrt(8.0) * L_f) if eta_0 is None else eta_0
            gamma_0 = 1.0 / (L_g + eta_0 * L_f) if gamma_0 is None else gamma_0
        memory = Memory(f_x, g_x, 1.0, gamma_0, eta_0)
        return begun(x, f_x.value, g_x.value, g_x, memory)

    def step(self, problem: Problem, state: State) -> State:
        """Take one step on g + eta_k f and update the average."""
        k, (f_x, g_x, total, gamma_0, eta_0) = state.k, state.memory
        gamma = gamma_0 / math.sqrt(k + 1)
        eta = eta_0 / (k + 1) ** self.b
        slope = g_x.slope + eta * f_x.slope
        (x,) = problem.forward(problem.domain.project(g_x.at - gamma * slope))

        weight = (k + 2) ** (-0.5 * self.r)  # gamma_{k+1}^r in units of gamma_0^r
        total += weight
        average = averaged(problem, state.point, x, weight / total, k + 1)
        f_new, g_new = minorants_at(problem, x)
        evidence = weighted(gamma * eta, f_x, gamma, g_x, (g_new.value, x.x, g_new))
        memory = Memory(f_new, g_new, total, gamma_0, eta_0)
        return RunState(k + 1, average, *values_at(problem, average), evidence, memory)
