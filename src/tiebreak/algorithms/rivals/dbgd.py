"""DBGD: gradient steps on f, rotated just enough that g decreases as a barrier demands.

Gong, Liu, Liu: Automatic and harmless regularization with constrained and lexicographic
optimization: a dynamic barrier approach, NeurIPS 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiebreak.algorithms.base import Method, Proved, StepEvidence
from tiebreak.algorithms.common import (
    at_start,
    check_positive,
    minorants_at,
    need_lipschitz,
    need_smooth,
    positive_smoothness,
)
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, Refusal, arrays, in_files
from tiebreak.problem import Problem


@in_files("dbgd")
class State(NamedTuple):
    """Everything a run needs to continue, as arrays and numbers."""

    k: int
    f_x: Minorant  # both levels at x_k, in Z
    g_x: Minorant
    smoothness: tuple[float, float]  # L_f and L_g, or substitutes
    ghat: float  # g* is at least this
    evidence: StepEvidence

    @property
    def x(self) -> Array:
        """The last iterate."""
        return self.f_x.at

    @property
    def upper_value(self) -> float:
        """The value f(x)."""
        return self.f_x.value

    @property
    def lower_value(self) -> float:
        """The value g(x)."""
        return self.g_x.value


@dataclass(frozen=True)
class DBGD(Method):
    """Dynamic Barrier Gradient Descent.

        x_{k+1} = projection of x_k - xi_k (grad f + lam_k grad g) onto Z
        lam_k   = max{ (phi_k - <grad f, grad g>)/|grad g|², 0 }
        phi_k   = min{ alpha L_f (g(x_k) - ghat), beta L_f/L_g |grad g|² }
        xi_k    = min{ xi/(L_f sqrt(k+1)), 1/(L_f + lam_k L_g) }

    at x = x_k. ghat is the largest known lower bound on g*: the function's own, or what the
    certificate has proved so far; without one, only the second part of phi counts. The units L_f,
    L_f/L_g and 1/L_f of alpha, beta and xi are ours. So is the second part of xi_k, without which
    the steps diverge near the minimisers of g, where lam_k is large.

    The paper proves that a measure of stationarity tends to 0. There is no rate for f or g.

    Args:
        xi, alpha, beta: positive numbers, see above.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.DBGD(), rtol=1e-2).status
        'certified'
    """

    xi: float = 1.0
    alpha: float = 1.0
    beta: float = 1.0

    name: ClassVar[str] = "dbgd"
    paper: ClassVar[str] = (
        "Gong, Liu, Liu: Automatic and harmless regularization with constrained and lexicographic "
        "optimization: a dynamic barrier approach, NeurIPS 2021"
    )
    assumptions: ClassVar[str] = "f, g convex and smooth; Z closed, with an easy projection"
    guarantee: ClassVar[str] = "stationarity only, without a rate for f or g"
    cites: ClassVar[tuple[str, ...]] = ("gong2021",)
    adapts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(self, "xi", "alpha", "beta")

    def check(self, problem: Problem) -> Refusal | None:
        return need_smooth("DBGD", problem) or need_lipschitz("DBGD", problem, "upper", "lower")

    def describe(self, problem: Problem) -> str:
        return (
            f"DBGD, steps {self.xi:g}/(L_f sqrt(k+1)), alpha = {self.alpha:g}, beta = {self.beta:g}"
        )

    def adapt(self, state: State, proved: Proved) -> State:
        """Use a better lower bound on g*."""
        return state._replace(ghat=max(state.ghat, proved.lower_bound))

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin at the start."""
        f, g = problem.upper, problem.lower
        x, f_x, g_x = at_start(problem, x0)
        smoothness = (
            positive_smoothness(problem, f, f_x, g_x),
            positive_smoothness(problem, g, g_x, g_x),
        )
        values = StepEvidence(values=((g_x.value, x.x, g_x),))
        return State(0, f_x, g_x, smoothness, g.lower_bound, values)

    def step(self, problem: Problem, state: State) -> State:
        """Take one step along the rotated gradient."""
        (L_f, L_g), f_x, g_x = state.smoothness, state.f_x, state.g_x
        lam = self._multiplier(state)
        xi = min(float(self.xi) / (L_f * math.sqrt(state.k + 1)), 1.0 / (L_f + lam * L_g))
        x_new = problem.domain.project(f_x.at - xi * (f_x.slope + lam * g_x.slope))
        (x,) = problem.forward(x_new)
        f_new, g_new = minorants_at(problem, x)
        evidence = StepEvidence(
            upper=((xi, f_x),),
            cuts=((xi * lam, g_x),) if lam > 0.0 else (),
            lower=((xi, g_x),),
            values=((g_new.value, x.x, g_new),),
        )
        return state._replace(k=state.k + 1, f_x=f_new, g_x=g_new, evidence=evidence)

    def _multiplier(self, state: State) -> float:
        """Return lam_k."""
        (L_f, L_g), slope = state.smoothness, state.g_x.slope
        steep = arrays.norm(slope)
        if not steep > 0.0:
            return 0.0
        # Divide everything by |grad g|, whose square may underflow.
        barrier = min(
            float(self.alpha) * L_f * ((state.g_x.value - state.ghat) / steep),
            float(self.beta) * (L_f / L_g) * steep,
        )
        return max((barrier - arrays.dot(state.f_x.slope, slope / steep)) / steep, 0.0)
