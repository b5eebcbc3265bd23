"""An ablation: AGM-BiO with its cut at y_k, as in the paper, or at x_k or z_k instead.

All three cuts contain every minimiser of g, so that f(x_k) - f* stays bounded by O(1/k²). The proof
of the lower level, however, needs the cut and the step at the same point: see ``CutAt``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiebreak import theory
from tiebreak.algorithms.base import Method, Refusal
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array, mix
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import StepEvidence


class State(NamedTuple):
    """Where a run is."""

    k: int
    A: float  # sum of the step sizes a_i
    x: Array
    z: Array
    upper_value: float  # f(x) and g(x)
    lower_value: float
    evidence: StepEvidence


@dataclass(frozen=True)
class CutAt(Method):
    """Algorithm 1 with the cut of g at p_k = (1 - share) x_k + share z_k.

        z_{k+1} = projection of z_k - a_k grad f(y_k) onto
                  { z in Z : g(p_k) + <grad g(p_k), z - p_k> <= level }

    With the cut at y_k convexity gives g(x_{k+1}) <= (A_k g(x_k) + a_k level)/A_{k+1} plus
    L_g/2 |x_{k+1} - y_k|², and x_{k+1} - y_k = a_k/A_{k+1} (z_{k+1} - z_k) is short. At x_k the
    last term has z_{k+1} - x_k in place of z_{k+1} - z_k, at z_k the factor a_k/A_{k+1} is lost.

    Args:
        level: g*, exactly: the cut is the only thing that differs.
        share: 0 for x_k, 1 for z_k, None for y_k, whose share is a_k/A_{k+1}.
        gamma: a_k = gamma (k+1)/(4 L_f).
    """

    level: float
    share: float | None = None
    gamma: float = 1.0

    name: ClassVar[str] = "cut-at"

    def check(self, problem: Problem) -> Refusal | None:
        """Any problem will do that AGM-BiO can be run on."""

    def describe(self, problem: Problem) -> str:
        """Where the cut is taken."""
        where = {None: "y_k", 0.0: "x_k", 1.0: "z_k"}.get(self.share, f"share {self.share}")
        return f"AGM-BiO with the cut at {where}, gamma = {self.gamma:g}"

    def init(self, problem: Problem, x0: Array) -> State:
        """x_0 = z_0."""
        x = problem.domain.project(x0)
        return State(0, 0.0, x, x, problem.upper.value(x), problem.lower.value(x), StepEvidence())

    def step(self, problem: Problem, state: State) -> State:
        """One step; plain products, for nobody waits for an ablation."""
        f, g = problem.upper, problem.lower
        a = theory.step_size(state.k, f.lipschitz / self.gamma)
        A = state.A + a
        y = mix(state.x, state.z, a / A)
        p = y if self.share is None else mix(state.x, state.z, self.share)
        c = g.gradient(p)
        offset = self.level - g.value(p) + arrays.dot(c, p)
        z, _ = problem.domain.project_cut(state.z - a * f.gradient(y), c, offset)
        x = mix(state.x, z, a / A)
        return State(state.k + 1, A, x, z, f.value(x), g.value(x), StepEvidence())
