"""P-AGM-BiO: AGM-BiO for composite functions (Algorithm 2 of the paper, in its appendix).

Cao, Jiang, Yazdandoost Hamedani, Mokhtari: An accelerated gradient method for convex smooth simple
bilevel optimization, NeurIPS 2024, arXiv 2402.08097.

`tiebreak.algorithms.reference` has it as printed, in plain NumPy; both take the same steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiebreak.algorithms.accelerated import Accelerated, GradientStep
from tiebreak.algorithms.agm_bio import AGMBiO
from tiebreak.algorithms.facts import Rate
from tiebreak.algorithms.fista import need_joint_prox
from tiebreak.functions.penalties.prox_cuts import prox_cut
from tiebreak.linalg import Array, Refusal
from tiebreak.problem import Problem


@dataclass(frozen=True)
class PAGMBiO(Accelerated):
    """Proximal AGM-BiO, for f = f1 + f2 and g = g1 + g2 with penalties f2 and g2.

    Algorithm 2, with a_k = gamma (k+1)/(4 L_f); L_f is that of f1, or a unit-free substitute if
    f1 is linear or absent (any positive number is admissible then):

        y_k     = (A_k x_k + a_k z_k)/(A_k + a_k)
        z_{k+1} = argmin a_k f2(z) + ½|z - (z_k - a_k grad f1(y_k))|²
                  over { z in Z : g1(y_k) + <grad g1(y_k), z - y_k> + g2(z) <= g_k }
        x_{k+1} = (A_k x_k + a_k z_{k+1})/(A_k + a_k),   A_{k+1} = A_k + a_k

    and the levels g_k come from an accelerated proximal gradient run on g. Without penalties it is
    AGM-BiO bit for bit; an indicator in f or g is a part of Z.

    Args:
        gamma: in (0, 1], or None for the theorem that applies, as in AGMBiO; if f has a penalty,
            the rule of Theorem 2 with order 2, even if no error bound is known.
        levels: where g_k comes from: OnlineLevels(), FixedLevels(iterations), GivenLevels(values).
        horizon: T of Theorem 2, the planned number of steps; ``solve`` uses max_iter.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.L1(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.PAGMBiO(), rtol=1e-2).status
        'certified'
    """

    name: ClassVar[str] = "p-agm-bio"
    title: ClassVar[str] = "P-AGM-BiO"
    paper: ClassVar[str] = f"{AGMBiO.paper}, Algorithm 2"
    assumptions: ClassVar[str] = (
        "f, g convex, each smooth + penalty; both penalties and Z with a joint prox"
    )
    guarantee: ClassVar[str] = AGMBiO.guarantee
    cites: ClassVar[tuple[str, ...]] = AGMBiO.cites
    rates: ClassVar[tuple[Rate, ...]] = AGMBiO.rates

    def check(self, problem: Problem) -> Refusal | None:
        for penalty in problem.penalties:
            if penalty.terms.is_alone:
                needed = "must have a prox within a cut in closed form"
                return Refusal("PAGMBiO", "the penalties", needed, penalty.label)
        return super().check(problem) or need_joint_prox("PAGMBiO", problem)

    def line_6(
        self, problem: Problem, v: GradientStep, a: float, c: Array, beta: float, guess: float
    ) -> tuple[Array, float]:
        """Return the prox of a f2 within Z and the cut, which is curved if g has a penalty."""
        return prox_cut(problem.joint, v.point, a, c, beta, guess)

    def lower_step(self, problem: Problem, v: Array, b: float, square: float) -> Array:
        """Return the prox of b g2 within Z."""
        return problem.prox(v, 0.0, b)
