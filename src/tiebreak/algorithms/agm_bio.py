"""AGM-BiO and P-AGM-BiO: accelerated gradients with a cutting plane (Algorithms 1 and 2).

Cao, Jiang, Yazdandoost Hamedani, Mokhtari: An accelerated gradient method for convex smooth simple
bilevel optimization, NeurIPS 2024, arXiv 2402.08097.

`tiebreak.algorithms.reference` has both algorithms as printed, in plain NumPy; the fast versions
take the same steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiebreak.algorithms.accelerated import Accelerated, GradientStep
from tiebreak.algorithms.common import need_joint_prox, need_smooth
from tiebreak.algorithms.facts import BOUNDED, ORDER_1, ORDER_2, Rate
from tiebreak.linalg import Array, Refusal
from tiebreak.problem import Problem


@dataclass(frozen=True)
class AGMBiO(Accelerated):
    """Accelerated Gradient Method for Bilevel Optimization.

    Algorithm 1, with a_k = gamma (k+1)/(4 L_f):

        y_k     = (A_k x_k + a_k z_k)/(A_k + a_k)
        z_{k+1} = projection of z_k - a_k grad f(y_k) onto
                  { z in Z : g(y_k) + <grad g(y_k), z - y_k> <= g_k }
        x_{k+1} = (A_k x_k + a_k z_{k+1})/(A_k + a_k),   A_{k+1} = A_k + a_k

    Args:
        gamma: a number in (0, 1], or None for the value of the theorem that applies: Theorem 3 or 2
            with the problem's error bound (or Theorem 2 with order 2 if g is known to grow
            quadratically), else Theorem 1 (gamma = 1) on a bounded domain. If no theorem applies,
            gamma = 1 and the report says so.
        levels: the source of g_k (OnlineLevels(), FixedLevels(iterations) or GivenLevels(values)).
        horizon: T of Theorem 2, the planned number of steps; if None, ``solve`` uses max_iter.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.AGMBiO(gamma=1.0), rtol=1e-2).status
        'certified'
    """

    name: ClassVar[str] = "agm-bio"
    title: ClassVar[str] = "AGM-BiO"
    paper: ClassVar[str] = (
        "Cao, Jiang, Yazdandoost Hamedani, Mokhtari: An accelerated gradient method for convex "
        "smooth simple bilevel optimization, NeurIPS 2024, arXiv 2402.08097"
    )
    assumptions: ClassVar[str] = "f, g convex and smooth; Z closed, with an easy projection"
    guarantee: ClassVar[str] = (
        "f - f* <= O(1/k²); g - g* <= O(1/k) on a bounded Z, "
        "both O(K^(-2r/(2r-1))) up to a logarithm under an error bound of order r"
    )
    cites: ClassVar[tuple[str, ...]] = ("cao2024",)
    rates: ClassVar[tuple[Rate, ...]] = (
        Rate("f above", 2.0),
        Rate("g", 1.0, BOUNDED),
        Rate("f above", 2.0, ORDER_1),
        Rate("g", 2.0, ORDER_1),
        Rate("f above", 4 / 3, ORDER_2),
        Rate("g", 4 / 3, ORDER_2),
    )

    def check(self, problem: Problem) -> Refusal | None:
        return need_smooth(self, problem) or super().check(problem)

    def line_6(
        self, problem: Problem, v: GradientStep, a: float, c: Array, beta: float, guess: float
    ) -> tuple[Array, float]:
        """Project v onto the intersection of Z and the cut."""
        return problem.domain.project_cut_with_products(v.point, c, beta, guess, v.known)

    def lower_step(self, problem: Problem, v: Array, b: float, square: float) -> Array:
        """Project v onto Z."""
        return problem.domain.project_with_square(v, square)


@dataclass(frozen=True)
class PAGMBiO(Accelerated):
    """Proximal AGM-BiO, for f = f1 + f2 and g = g1 + g2 with penalties f2 and g2.

    This is Algorithm 2, with a_k = gamma (k+1)/(4 L_f), where L_f is the Lipschitz constant of f1.
    If f1 is linear or absent, any positive number is admissible, and a unit-free substitute is
    used:

        y_k     = (A_k x_k + a_k z_k)/(A_k + a_k)
        z_{k+1} = argmin a_k f2(z) + ½|z - (z_k - a_k grad f1(y_k))|²
                  over { z in Z : g1(y_k) + <grad g1(y_k), z - y_k> + g2(z) <= g_k }
        x_{k+1} = (A_k x_k + a_k z_{k+1})/(A_k + a_k),   A_{k+1} = A_k + a_k

    The levels g_k come from an accelerated proximal gradient run on g. Without penalties, the
    results equal those of AGM-BiO bit for bit; an indicator function in f or g becomes a part of Z.

    Args:
        gamma: a number in (0, 1], or None for the value of the theorem that applies, as in AGMBiO;
            if f has a penalty, None means the rule of Theorem 2 with order 2, even if no error
            bound is known.
        levels: the source of g_k (OnlineLevels(), FixedLevels(iterations) or GivenLevels(values)).
        horizon: T of Theorem 2, the planned number of steps; if None, ``solve`` uses max_iter.

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
        "f, g convex, each smooth + penalty; joint prox of both penalties and Z"
    )
    guarantee: ClassVar[str] = AGMBiO.guarantee
    cites: ClassVar[tuple[str, ...]] = AGMBiO.cites
    rates: ClassVar[tuple[Rate, ...]] = AGMBiO.rates

    def check(self, problem: Problem) -> Refusal | None:
        for penalty in problem.penalties:
            if penalty.terms.is_alone:
                needed = "must have a prox within a cut in closed form"
                return Refusal("PAGMBiO", "the penalties", needed, penalty.label)
        return super().check(problem) or need_joint_prox(self, problem)
