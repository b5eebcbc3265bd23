"""R-VFISTA: FISTA for a strongly convex g + eta f, with one small eta and constant momentum.

Samadi, Burbano, Yousefian: On iteratively regularized first-order methods for simple bilevel
optimization, 2025, arXiv 2504.08079.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import Method, Range, Rate
from tiebreak.algorithms.common import (
    COUNT,
    DEFAULT_HORIZON,
    POSITIVE,
    need_joint_prox,
    need_lipschitz,
    need_strong_convexity,
    positive_smoothness,
)
from tiebreak.algorithms.fista import Memory, State
from tiebreak.linalg import Array, Refusal
from tiebreak.problem import Problem


@dataclass(frozen=True)
class RVFISTA(Method):
    """Regularised FISTA for an f whose smooth part is sigma-strongly convex.

        x_{k+1} = prox of (g2 + eta f2)/L on Z at y_k - (grad g1(y_k) + eta grad f1(y_k))/L
        y_{k+1} = x_{k+1} + (1 - q)/(1 + q) (x_{k+1} - x_k)
        eta = (L_g/sigma) (p ln K/K)²,   L = L_g + eta L_f,   q = sqrt(eta sigma/L)

    The output is the last iterate. Let h = g + eta f and C = h(x_0) - h(x*) + (eta sigma/2) |x_0 -
    x*|². For every k, we can prove

        f(x_k) - f* <= (1 - q)^k C/eta,    g(x_k) - g* <= (1 - q)^k C + eta (f* - f(x_k)),

    So g - g* = O(ln²K/K²) and f - f* = O(K^(2-p)/ln²K) after K steps. The method is our
    reconstruction from the paper; in our tests, p = 2 did better than p = 4, although p = 4 makes
    both bounds O(1/K²) up to logarithms.

    Args:
        p: the parameter of eta.
        horizon: K, the planned number of steps; if None, ``solve`` uses max_iter.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.RVFISTA(), rtol=1e-2, max_iter=1000).status
        'certified'
    """

    p: float = 2.0
    horizon: int | None = None

    name: ClassVar[str] = "r-vfista"
    paper: ClassVar[str] = (
        "Samadi, Burbano, Yousefian: On iteratively regularized first-order methods for simple "
        "bilevel optimization, 2025, arXiv 2504.08079"
    )
    assumptions: ClassVar[str] = (
        "f strongly convex, g convex, each smooth + penalty; Z closed, joint prox with both "
        "penalties"
    )
    guarantee: ClassVar[str] = (
        "g - g* <= O(ln²K/K²), f - f* <= O(K^(2-p)/ln²K) after the K planned steps"
    )
    cites: ClassVar[tuple[str, ...]] = ("samadi2025",)
    rates: ClassVar[tuple[Rate, ...]] = (
        Rate("g", 2.0),
        Rate("f above", 2.0, assuming="p = 4"),
    )
    ranges: ClassVar[dict[str, Range]] = {"p": POSITIVE, "horizon": COUNT}

    def check(self, problem: Problem) -> Refusal | None:
        return (
            need_joint_prox(self, problem)
            or need_lipschitz(self, problem, "upper", "lower")
            or need_strong_convexity(self, problem, "r-apm accepts other functions")
        )

    def describe(self, problem: Problem) -> str:
        return f"R-VFISTA, eta = (L_g/sigma) ({self.p:g} ln K/K)², K the planned steps"

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with y_0 = x_0."""
        K = max(self.horizon or DEFAULT_HORIZON, 2)
        run = fista.start(problem, x0)
        L_g = positive_smoothness(problem, problem.lower, run.g_y, run.g_y)
        sigma = problem.upper.strong_convexity
        eta = L_g / sigma * (self.p * math.log(K) / K) ** 2
        L = L_g + eta * problem.upper.lipschitz
        q = math.sqrt(eta * sigma / L)
        run = run._replace(t=0.5 * (1.0 + q) / q)  # the momentum is (t - 1)/t
        return fista.first_state(run, Memory(run, eta, 1.0, 1.0 / L))

    def step(self, problem: Problem, state: State) -> State:
        """Take one step; its minorants have weight (1 - q)^-k, as in the proof."""
        run, eta, _, s, _ = state.memory
        x = fista.moved(problem, run, eta, 1.0, s)
        after = fista.extrapolated(problem, run, x, eta, run.t)
        q = min(1.0 / (2.0 * run.t - 1.0), 0.5)
        weight = math.exp(min(-state.k * math.log1p(-q), 600.0))  # clipped well below overflow
        evidence = fista.evidence(run._replace(t=weight), after, eta, 1.0)
        return fista.next_state(state.k + 1, after, evidence, state.memory._replace(run=after))
