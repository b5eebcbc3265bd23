"""FIBA: a FISTA step on g, then a gradient step on f whose size decreases like 1/k.

Helou, Simões: epsilon-subgradient algorithms for bilevel convex optimization, Inverse Problems
2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import Method, Range
from tiebreak.algorithms.common import (
    POSITIVE,
    both_smoothness,
    need_lipschitz,
    need_smooth,
    weighted,
)
from tiebreak.algorithms.fista import Memory, State
from tiebreak.functions import PointWithImage
from tiebreak.linalg import Array, Refusal
from tiebreak.problem import Problem


@dataclass(frozen=True)
class FIBA(Method):
    """Fast Iterative Bilevel Algorithm.

        y_k     = x_k + (t_k - 1)/t_{k+1} (x_k - x_{k-1}),   t_k as in FISTA
        z_k     = y_k - grad g(y_k)/L_g
        x_{k+1} = projection of z_k - (mu_0/(L_f k)) grad f(z_k) onto Z,   k = 1, 2, ...

    The output is the last iterate. The paper's theorem is asymptotic: f and g tend to f* and g*,
    without a rate. In our measurements `FIBA` is close to `IREAPG`; in both methods the weight of f
    decreases like 1/k.

    Args:
        mu_0: size of the upper steps, in units of 1/L_f.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.FIBA(), rtol=1e-2, criterion="weak").status
        'certified'
    """

    mu_0: float = 1.0

    name: ClassVar[str] = "fiba"
    paper: ClassVar[str] = (
        "Helou, Simões: epsilon-subgradient algorithms for bilevel convex optimization, Inverse "
        "Problems 2017"
    )
    assumptions: ClassVar[str] = "f, g convex and smooth; Z closed, with an easy projection"
    guarantee: ClassVar[str] = "f -> f*, g -> g*"
    cites: ClassVar[tuple[str, ...]] = ("helousimoes2017",)
    ranges: ClassVar[dict[str, Range]] = {"mu_0": POSITIVE}

    def check(self, problem: Problem) -> Refusal | None:
        return need_smooth(self, problem) or need_lipschitz(self, problem, "upper", "lower")

    def describe(self, problem: Problem) -> str:
        return f"FIBA, upper steps {self.mu_0:g}/(L_f k), lower steps 1/L_g with momentum"

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with y_1 = x_1."""
        run = fista.start(problem, x0)
        assert run.f_y is not None
        L_f, L_g = both_smoothness(problem, run.f_y, run.g_y)
        run = run._replace(t=fista.next_t(1.0), f_y=None)  # the steps evaluate f at z_k instead
        return fista.first_state(run, Memory(run, self.mu_0 / L_f, 1.0, 1.0 / L_g))

    def step(self, problem: Problem, state: State) -> State:
        """Take a step on g from y_k to z_k, then one on f from z_k, and project the result."""
        k, (run, upper, _, lower, _) = state.k + 1, state.memory
        upper /= k
        z = run.y.x - lower * run.g_y.slope
        (f_z,), _ = problem.upper.evaluate([PointWithImage(z, problem.upper.forward(z)[0])])
        (x,) = problem.forward(problem.domain.project(z - upper * f_z.slope))
        after = fista.extrapolated(problem, run, x, 0.0, fista.next_t(run.t))
        value = after.g_x, x.x, after.g_y
        evidence = weighted(upper, f_z, lower, run.g_y, value, lower=run.t)
        return fista.next_state(k, after, evidence, state.memory._replace(run=after))
