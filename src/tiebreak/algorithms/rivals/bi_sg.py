"""Bi-SG: a full proximal gradient step on g, then one on f whose size decreases like k^-alpha.

Merchav, Sabach: Convex bi-level optimization problems with nonsmooth outer objective function,
SIAM J. Optim. 2023, arXiv 2307.08245.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiebreak.algorithms.base import Method, Rate, StepEvidence
from tiebreak.algorithms.common import (
    check_positive,
    check_within,
    need_lipschitz,
    need_short_step,
    positive_smoothness,
    typical_curvature,
)
from tiebreak.algorithms.fista import need_joint_prox
from tiebreak.algorithms.rivals import alternating
from tiebreak.algorithms.rivals.alternating import Alternation
from tiebreak.linalg import Array, Refusal, in_files
from tiebreak.problem import Problem


@in_files("bi-sg")
class State(NamedTuple):
    """Everything a run needs to continue, as arrays and numbers."""

    k: int
    alternation: Alternation  # y_k in Z, and x_k, the upper step from there, outside
    step_size: float  # t
    c: float
    evidence: StepEvidence

    @property
    def x(self) -> Array:
        """y_k, which is in Z; the paper's x_k is outside."""
        return self.alternation.x.x

    @property
    def upper_value(self) -> float:
        """The value f(y_k)."""
        return self.alternation.upper_value

    @property
    def lower_value(self) -> float:
        """The value g(y_k)."""
        return self.alternation.g_x


@dataclass(frozen=True)
class BiSG(Method):
    """Bi-Sub-Gradient method, here with gradients and prox steps.

        y_{k+1} = prox of t g2 on Z at x_k - t grad g1(x_k)
        x_{k+1} = prox of eta_k f2 at y_{k+1} - eta_k grad f1(y_{k+1}),   eta_k = c/(k+1)^alpha

    where f = f1 + f2 and g = g1 + g2 are smooth + penalty; without penalties these are a projection
    and a gradient step. For f2 one could also take subgradient steps. We use its prox: the same
    inequality holds (see `alternating`), there is no subgradient to choose, and entries that a
    penalty makes 0 are exactly 0. f2 needs no joint prox with g2 and Z: each has its own step.

    The output is the last y_k: g(y_k) - g* = O(k^-alpha). The sum over all steps gives
    f - f* = O(k^-(1-alpha)) for the best of f(y_1) ... f(y_k).

    Args:
        alpha: in (1/2, 1); 3/4 in the experiments of the AGM-BiO paper.
        c: size of the upper steps; if None, 1/L_f, or with a penalty 1/(L_f + M/D), where M is its
            steepest slope and D the distance that the lower level moves.
        step_size: t of the lower steps, at most 1/L_g, the default.

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
    rates: ClassVar[tuple[Rate, ...]] = (  # at alpha = 3/4
        Rate("f above", 0.25, at="the best of y_1 ... y_k"),
        Rate("g", 0.75),
    )
    output: ClassVar[str] = "y_k, the last point of Z"

    def __post_init__(self) -> None:
        check_within(self, "alpha", "a number in (1/2, 1)", lambda alpha: 0.5 < alpha < 1.0)
        check_positive(self, "c", "step_size")

    def check(self, problem: Problem) -> Refusal | None:
        refusal = need_joint_prox("BiSG", problem, is_split=True)
        if self.c is None:
            refusal = refusal or need_lipschitz("BiSG", problem, "upper", instead=" or BiSG(c=...)")
        if self.step_size is None:
            instead = " or BiSG(step_size=...)"
            refusal = refusal or need_lipschitz("BiSG", problem, "lower", instead=instead)
        step = self.step_size
        return refusal or need_short_step("BiSG", "step_size", step, problem.lower.lipschitz)

    def describe(self, problem: Problem) -> str:
        smoothness = "(L_f + M/D)" if problem.penalties[0].terms.has_weights else "L_f"
        c = f"1/{smoothness}" if self.c is None else f"{self.c:g}"
        t = "1/L_g" if self.step_size is None else f"{self.step_size:g}"
        return f"Bi-SG, upper steps {c}/(k+1)^{self.alpha:g}, lower steps {t}, last iterate"

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with y_0 = x_0."""
        alternation = alternating.begin(problem, x0)
        f_0, g_0 = alternation.f_x, alternation.g_out
        t, c = self.step_size, self.c
        if t is None:
            t = 1.0 / positive_smoothness(problem, problem.lower, g_0, g_0)
        if c is None:
            c = 1.0 / (typical_curvature(problem, problem.upper, f_0, g_0) or 1.0)
        return State(0, alternation, float(t), float(c), alternating.first_evidence(alternation))

    def step(self, problem: Problem, state: State) -> State:
        """Take a lower step to y_{k+1}, then an upper step of size eta_k to x_{k+1}."""
        k, t = state.k, state.step_size
        eta = state.c / (k + 1) ** float(self.alpha)
        alternation = alternating.advance(problem, state.alternation, t, eta)
        return state._replace(
            k=k + 1,
            alternation=alternation,
            evidence=alternating.evidence(state.alternation, alternation, t),
        )
