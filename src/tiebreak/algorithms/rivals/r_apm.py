"""R-APM: FISTA on g + eta f, with one small eta for the whole run.

Samadi, Burbano, Yousefian: Achieving optimal complexity guarantees for a class of bilevel convex
optimization problems, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import ORDER_1, Method, Range, Rate
from tiebreak.algorithms.common import (
    COUNT,
    DEFAULT_HORIZON,
    POSITIVE,
    need_joint_prox,
    need_lipschitz,
    need_short_step,
)
from tiebreak.algorithms.fista import Memory, State
from tiebreak.linalg import Array, Refusal
from tiebreak.problem import Problem


@dataclass(frozen=True)
class RAPM(Method):
    """Regularized Accelerated Proximal Method.

        x_{k+1} = prox of s (g2 + eta f2) on Z at y_k - s (grad g1(y_k) + eta grad f1(y_k))
        y_{k+1} = x_{k+1} + (t_k - 1)/t_{k+1} (x_{k+1} - x_k)

    Here f = f1 + f2 and g = g1 + g2 are smooth + penalty; without penalties the prox is the
    projection onto Z. The output is the last iterate. With h = g + eta f, FISTA's bound h(x_K) -
    min h <= 2 R0²/(s (K+1)²) says that f - f* <= 2 R0²/(s eta (K+1)²) and g - g* <= 2 R0²/(s
    (K+1)²) + eta (f* - f): both O(1/K) with eta = 1/(K+1). Under weak sharpness, eta <= alpha/(2 M)
    makes the bounds O(1/K²), because then eta (f* - f) <= (g - g*)/2. The bounds also hold with
    penalties; alpha and M then refer to g and to subgradients of f, both including their penalties.

    Args:
        eta: the weight of f. The default is alpha/(2 M) if the problem has an error bound of order
            1 (and M > 0), otherwise 1/(K+1), as in the paper: set eta yourself if the scales of f
            and g differ greatly.
        step_size: s; at most 1/(L_g + eta L_f), which is the default.
        horizon: K, the planned number of steps; if None, ``solve`` uses max_iter.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.RAPM(eta=1e-3), rtol=1e-2).status
        'certified'
    """

    eta: float | None = None
    step_size: float | None = None
    horizon: int | None = None

    name: ClassVar[str] = "r-apm"
    paper: ClassVar[str] = (
        "Samadi, Burbano, Yousefian: Achieving optimal complexity guarantees for a class of "
        "bilevel convex optimization problems, ACC 2024"
    )
    assumptions: ClassVar[str] = (
        "f, g convex, each smooth + penalty; Z closed, joint prox with both penalties"
    )
    guarantee: ClassVar[str] = (
        "f - f* and g - g* <= O(1/K) after the K planned steps, O(1/K²) under weak sharpness"
    )
    cites: ClassVar[tuple[str, ...]] = ("samadi2024",)
    rates: ClassVar[tuple[Rate, ...]] = (
        Rate("f above", 1.0),
        Rate("g", 1.0),
        Rate("f above", 2.0, ORDER_1),
        Rate("g", 2.0, ORDER_1),
    )
    ranges: ClassVar[dict[str, Range]] = {
        "eta": POSITIVE, "step_size": POSITIVE, "horizon": COUNT,
    }  # fmt: skip

    def check(self, problem: Problem) -> Refusal | None:
        smoothness = problem.lower.lipschitz + self._eta(problem) * problem.upper.lipschitz
        return (
            need_joint_prox(self, problem)
            or need_lipschitz(self, problem, "upper", "lower", unless=("step_size",))
            or need_short_step(self, "step_size", smoothness)
        )

    def describe(self, problem: Problem) -> str:
        if self.eta is None and not _is_weakly_sharp(problem):
            return "R-APM, eta = 1/(K+1), K the planned steps"
        reason = " = alpha/(2 M) (weak sharpness)" if self.eta is None else ""
        return f"R-APM, eta = {self._eta(problem):g}{reason}"

    def _eta(self, problem: Problem) -> float:
        bound = problem.error_bound
        if self.eta is not None:
            return self.eta
        if bound is not None and _is_weakly_sharp(problem):
            return bound.modulus / (2.0 * bound.gradient_bound)
        return 1.0 / ((self.horizon or DEFAULT_HORIZON) + 1)

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with y_1 = x_1."""
        eta = self._eta(problem)
        run = fista.start(problem, x0, eta)
        s = self.step_size or fista.step_size(problem, run, eta, 1.0)
        return fista.first_state(run, Memory(run, eta, 1.0, s))

    def step(self, problem: Problem, state: State) -> State:
        """Take one FISTA step."""
        return fista.one_step_later(problem, state)


def _is_weakly_sharp(problem: Problem) -> bool:
    """Is an error bound of order 1 known, with a positive bound on the slopes of f?"""
    bound = problem.error_bound
    return bound is not None and bound.order == 1.0 and bound.gradient_bound > 0.0
