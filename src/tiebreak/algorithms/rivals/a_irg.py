"""a-IRG: averaged projected gradient steps on g + eta_k f, with eta_k decreasing to zero.

Kaushik, Yousefian: A method with convergence rates for optimization problems with variational
inequality constraints, SIAM J. Optim. 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiebreak.algorithms.base import Method, Rate, StateReport, StepEvidence
from tiebreak.algorithms.common import (
    at_start,
    averaged,
    check_positive,
    check_within,
    minorants_at,
    need_lipschitz,
    need_smooth,
    positive_smoothness,
    values_at,
)
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, Refusal, in_files
from tiebreak.problem import Point, Problem


@in_files("a-irg")
class State(NamedTuple):
    """Everything a run needs to continue, as arrays and numbers."""

    k: int
    f_x: Minorant  # f and g at x_k
    g_x: Minorant
    average: Point  # average of x_0 ... x_k, weighted by gamma_i^r
    total: float  # sum of these weights
    gamma_0: float
    eta_0: float
    upper_value: float  # f and g at the average
    lower_value: float
    evidence: StepEvidence

    @property
    def x(self) -> Array:
        """The average, the point of the theorem."""
        return self.average.x


@dataclass(frozen=True)
class AIRG(Method):
    """Averaged Iteratively Regularized Gradient method.

        x_{k+1} = projection of x_k - gamma_k (grad g(x_k) + eta_k grad f(x_k)) onto Z
        gamma_k = gamma_0/sqrt(k+1),   eta_k = eta_0/(k+1)^b

    The output is the average of x_0 ... x_k with weights gamma_i^r: f - f* = O(k^-(1/2-b)) and
    g - g* = O(k^-b), both O(k^-1/4) with b = 1/4, on a set where both gradients are bounded.

    Args:
        gamma_0: the first step size, 1/(L_g + eta_0 L_f) if None.
        eta_0: the first weight of f; L_g/(sqrt(8) L_f) if None, which makes both bounds equal, one
            in units of L_f R0² and one in units of L_g R0².
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
    rates: ClassVar[tuple[Rate, ...]] = (Rate("f above", 0.25), Rate("g", 0.25))  # at b = 1/4
    output: ClassVar[str] = "the average of x_0 ... x_k, weighted by gamma_i^r"

    def __post_init__(self) -> None:
        check_positive(self, "gamma_0", "eta_0")
        check_within(self, "b", "a number in (0, 1/2)", lambda b: 0.0 < b < 0.5)
        check_within(self, "r", "a number in [0, 1)", lambda r: 0.0 <= r < 1.0)

    def check(self, problem: Problem) -> Refusal | None:
        refusal = need_smooth("AIRG", problem)
        if refusal or not (self.gamma_0 is None or self.eta_0 is None):
            return refusal
        instead = " or AIRG(gamma_0=..., eta_0=...)"
        return need_lipschitz("AIRG", problem, "upper", "lower", instead=instead)

    def points(self, state: State) -> dict[str, Array]:
        return {"the last iterate": state.f_x.at}

    def describe(self, problem: Problem) -> str:
        gamma = "1/(L_g + eta_0 L_f)" if self.gamma_0 is None else f"{self.gamma_0:g}"
        eta = "L_g/(sqrt(8) L_f)" if self.eta_0 is None else f"{self.eta_0:g}"
        return f"a-IRG, gamma_0 = {gamma}, eta_0 = {eta}, b = {self.b:g}, averaged"

    def report(self, state: State) -> StateReport:
        """Report the reach of the average."""
        return StateReport(reach=state.average.reach)

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with x_0 as the first average."""
        x, f_x, g_x = at_start(problem, x0)
        gamma_0, eta_0 = self.gamma_0, self.eta_0
        if gamma_0 is None or eta_0 is None:
            L_f = positive_smoothness(problem, problem.upper, f_x, g_x)
            L_g = positive_smoothness(problem, problem.lower, g_x, g_x)
            eta_0 = L_g / (math.sqrt(8.0) * L_f) if eta_0 is None else float(eta_0)
            gamma_0 = 1.0 / (L_g + eta_0 * L_f) if gamma_0 is None else gamma_0
        return State(
            k=0, f_x=f_x, g_x=g_x, average=x, total=1.0,
            gamma_0=float(gamma_0), eta_0=float(eta_0),
            upper_value=f_x.value, lower_value=g_x.value,
            evidence=StepEvidence(values=((g_x.value, g_x.at, g_x),)),
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """Take one step on g + eta_k f and update the average."""
        k = state.k
        gamma = state.gamma_0 / math.sqrt(k + 1)
        eta = state.eta_0 / (k + 1) ** float(self.b)
        slope = state.g_x.slope + eta * state.f_x.slope
        (x,) = problem.forward(problem.domain.project(state.g_x.at - gamma * slope))

        weight = (k + 2) ** (-0.5 * float(self.r))  # gamma_{k+1}^r in units of gamma_0^r
        total = state.total + weight
        average = averaged(problem, state.average, x, weight / total, k + 1)
        f_x, g_x = minorants_at(problem, x)
        upper_value, lower_value = values_at(problem, average)
        return state._replace(
            k=k + 1, f_x=f_x, g_x=g_x, average=average, total=total,
            upper_value=upper_value, lower_value=lower_value,
            evidence=StepEvidence(
                upper=((gamma * eta, state.f_x),),
                cuts=((gamma, state.g_x),),
                lower=((gamma, state.g_x),),
                values=((g_x.value, g_x.at, g_x),),
            ),
        )  # fmt: skip
