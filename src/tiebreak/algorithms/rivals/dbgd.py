"""DBGD: gradient steps on f, corrected just enough for g to decrease as a barrier requires.

Gong, Liu, Liu: Automatic and harmless regularization with constrained and lexicographic
optimization: a dynamic barrier approach, NeurIPS 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms.base import Method, Proved, Range, StepEvidence
from tiebreak.algorithms.common import (
    POSITIVE,
    RunState,
    at_start,
    begun,
    both_smoothness,
    minorants_at,
    need_lipschitz,
    need_smooth,
)
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, Refusal, arrays, in_files
from tiebreak.problem import Problem


@in_files("dbgd")
class Memory(NamedTuple):
    """The variables of the recursion, besides x_k."""

    f_x: Minorant  # minorants of f and g at x_k
    g_x: Minorant
    smoothness: tuple[float, float]  # L_f and L_g, or substitutes
    ghat: float  # a lower bound on g*


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class DBGD(Method):
    """Dynamic Barrier Gradient Descent.

        x_{k+1} = projection of x_k - xi_k (grad f + lam_k grad g) onto Z
        lam_k   = max{ (phi_k - <grad f, grad g>)/|grad g|², 0 }
        phi_k   = min{ alpha L_f (g(x_k) - ghat), beta L_f/L_g |grad g|² }
        xi_k    = min{ xi/(L_f sqrt(k+1)), 1/(L_f + lam_k L_g) }

    All functions are evaluated at x = x_k. ghat is the largest known lower bound on g*: the
    function's own, or the certificate's so far; without a lower bound, only the second part of phi
    counts. We added the factors L_f, L_f/L_g and 1/L_f, which make alpha, beta and xi
    dimensionless. We also added the second part of xi_k: without it, the steps diverge near the
    minimisers of g, where lam_k is large.

    The paper proves that a measure of stationarity tends to 0, without a rate for f or g.

    Args:
        xi, alpha, beta: the positive parameters of the formulas above.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.DBGD(), rtol=1e-2, criterion="weak").status
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
    ranges: ClassVar[dict[str, Range]] = {
        "xi": POSITIVE, "alpha": POSITIVE, "beta": POSITIVE,
    }  # fmt: skip

    def check(self, problem: Problem) -> Refusal | None:
        return need_smooth(self, problem) or need_lipschitz(self, problem, "upper", "lower")

    def describe(self, problem: Problem) -> str:
        return (
            f"DBGD, steps {self.xi:g}/(L_f sqrt(k+1)), alpha = {self.alpha:g}, beta = {self.beta:g}"
        )

    def adapt(self, state: State, proved: Proved) -> State:
        """Use the proved lower bound on g* if it is better than the current one."""
        ghat = max(state.memory.ghat, proved.lower_bound)
        return state._replace(memory=state.memory._replace(ghat=ghat))

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin at the starting point."""
        x, f_x, g_x = at_start(problem, x0)
        smoothness = both_smoothness(problem, f_x, g_x)
        memory = Memory(f_x, g_x, smoothness, problem.lower.lower_bound)
        return begun(x, f_x.value, g_x.value, g_x, memory)

    def step(self, problem: Problem, state: State) -> State:
        """Take one step along the corrected gradient."""
        f_x, g_x, (L_f, L_g), ghat = state.memory
        lam = self._multiplier(state.memory)
        xi = min(self.xi / (L_f * math.sqrt(state.k + 1)), 1.0 / (L_f + lam * L_g))
        (x,) = problem.forward(problem.domain.project(f_x.at - xi * (f_x.slope + lam * g_x.slope)))
        f_new, g_new = minorants_at(problem, x)
        evidence = StepEvidence(
            upper=((xi, f_x),),
            cuts=((xi * lam, g_x),) if lam > 0.0 else (),
            lower=((xi, g_x),),
            values=((g_new.value, x.x, g_new),),
        )
        memory = Memory(f_new, g_new, (L_f, L_g), ghat)
        return RunState(state.k + 1, x, f_new.value, g_new.value, evidence, memory)

    def _multiplier(self, memory: Memory) -> float:
        """Return lam_k."""
        f_x, g_x, (L_f, L_g), ghat = memory
        steep = arrays.norm(g_x.slope)
        if not steep > 0.0:
            return 0.0
        # Divide all terms by |grad g|, because its square may underflow.
        barrier = min(
            self.alpha * L_f * ((g_x.value - ghat) / steep),
            self.beta * (L_f / L_g) * steep,
        )
        return max((barrier - arrays.dot(f_x.slope, g_x.slope / steep)) / steep, 0.0)
