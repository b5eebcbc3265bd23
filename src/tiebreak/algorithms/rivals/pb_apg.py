"""PB-APG: FISTA on f + gamma g, with a large penalty gamma, fixed or growing.

Chen, Shi, Jiang, Wang: Penalty-based methods for simple bilevel optimization under Hölderian error
bounds, NeurIPS 2024.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import ORDER_2, Method, Range, Rate
from tiebreak.algorithms.common import (
    COUNT,
    DEFAULT_HORIZON,
    POSITIVE,
    need_bounded,
    need_joint_prox,
    need_lipschitz,
    positive_smoothness,
    typical_curvature,
    typical_length,
)
from tiebreak.algorithms.fista import Memory, State
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, Refusal, checks
from tiebreak.problem import ErrorBound, Problem

# steps of the adaptive variant's first phase; each phase is twice as long as the one before
FIRST_PHASE = 16
UNPROVED = 1e4  # the penalty if no theorem gives one, in units of L_f/L_g


@dataclass(frozen=True)
class PBAPG(Method):
    """Penalty-Based Accelerated Proximal Gradient method.

        x_{k+1} = prox of s (f2 + gamma g2) on Z at y_k - s (grad f1(y_k) + gamma grad g1(y_k))
        y_{k+1} = x_{k+1} + (t_k - 1)/t_{k+1} (x_{k+1} - x_k)

    Here s = 1/(L_f + gamma L_g), and f = f1 + f2 and g = g1 + g2 are smooth + penalty; without
    penalties the prox is the projection onto Z. The output is the last iterate. Under an error
    bound of order r on a bounded Z, gamma = O(eps^(1-r)) makes every eps-minimiser of f + gamma g a
    point with |f - f*| <= 3 eps and g - g* = O(eps^r) (``penalty_for``). FISTA finds such a
    minimiser in K = O(eps^(-r/2)) steps, so with the gamma chosen for K, the errors after K steps
    are O(K^(-2/r)) and O(K^-2). The error bound refers to g including its penalty, and its M bounds
    the subgradients of f including its penalty.

    ``adaptive`` needs neither eps nor K: it takes phases of 16, 32, 64 ... steps, each starting
    from the last point of the previous phase with new momentum; gamma grows by a factor of 2^(2 -
    2/r) from phase to phase, as the theory's gamma does when K doubles (by a factor of 2 if no
    order is known).

    Args:
        penalty: gamma; if adaptive, the gamma of the first phase. If None and the problem has an
            error bound, this is the theory's gamma for ``accuracy`` or ``horizon``. Without an
            error bound, the default is 1e4 L_f/L_g (L_f/L_g at first if adaptive), for which no
            theorem holds. A penalty of f with slopes up to M adds M/D to L_f, where D is the
            typical size of x. The AGM-BiO paper uses 1e4.
        accuracy: eps for f. If None, this is the accuracy that the theory predicts for ``horizon``
            steps (16 if adaptive), neglecting L_f compared with gamma L_g.
        adaptive: if True, gamma grows from phase to phase.
        horizon: K, the planned number of steps; if None, ``solve`` uses max_iter.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.PBAPG(adaptive=True), rtol=1e-2).success
        True
    """

    penalty: float | None = None
    accuracy: float | None = None
    adaptive: bool = False
    horizon: int | None = None

    name: ClassVar[str] = "pb-apg"
    paper: ClassVar[str] = (
        "Chen, Shi, Jiang, Wang: Penalty-based methods for simple bilevel optimization under "
        "Hölderian error bounds, NeurIPS 2024"
    )
    assumptions: ClassVar[str] = (
        "f, g convex, each smooth + penalty; Z compact, joint prox with both penalties; error "
        "bound of order r on g for its theorem"
    )
    guarantee: ClassVar[str] = "|f - f*| <= O(K^(-2/r)), g - g* <= O(K^-2) after K planned steps"
    cites: ClassVar[tuple[str, ...]] = ("chen2024",)
    rates: ClassVar[tuple[Rate, ...]] = (Rate("|f|", 1.0, ORDER_2), Rate("g", 2.0, ORDER_2))
    ranges: ClassVar[dict[str, Range]] = {
        "penalty": POSITIVE,
        "accuracy": POSITIVE,
        "adaptive": checks.flag,
        "horizon": COUNT,
    }

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse a problem that violates the method's assumptions.

        With a given penalty the method also runs on an unbounded Z (as in the AGM-BiO paper's
        second figure), but then no theorem holds.
        """
        refusal = need_joint_prox(self, problem) or need_bounded(self, problem, unless="penalty")
        refusal = refusal or need_lipschitz(self, problem, "upper", "lower")
        if refusal or self.accuracy is None or problem.error_bound is not None:
            return refusal
        needed, hint = "needs a problem with an error bound", "give Problem(error_bound=...)"
        return Refusal("PBAPG", "accuracy", needed, "none", f"{hint} or PBAPG(penalty=...)")

    def describe(self, problem: Problem) -> str:
        bound = problem.error_bound
        if self.penalty is not None:
            gamma = f"penalty {self.penalty:g}"
        elif bound is not None and bound.gradient_bound > 0.0:
            gamma = f"penalty by its theorem (error bound of order {bound.order:g})"
        else:
            gamma = f"penalty {1.0 if self.adaptive else UNPROVED:g} L_f/L_g (no theorem gives one)"
        growing = ", growing from phase to phase" if self.adaptive else ""
        proved = "" if problem.is_bounded else ", no convergence theorem applies (unbounded domain)"
        return f"PB-APG, {gamma}{growing}{proved}"

    # -- the penalty --------------------------------------------------------------------------

    def _first_penalty(self, problem: Problem, f_0: Minorant, g_0: Minorant) -> float:
        bound = problem.error_bound
        if self.penalty is not None:
            return self.penalty
        L_g = positive_smoothness(problem, problem.lower, g_0, g_0)
        if bound is None or bound.gradient_bound == 0.0:
            L_f = typical_curvature(problem, problem.upper, f_0, g_0) or 1.0
            return (1.0 if self.adaptive else UNPROVED) * L_f / L_g
        steps = FIRST_PHASE if self.adaptive else self.horizon or DEFAULT_HORIZON
        reach = L_g * typical_length(problem, g_0) ** 2
        return penalty_for(bound, self.accuracy or accuracy_after(bound, steps, reach))

    # -- the algorithm ------------------------------------------------------------------------

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with y_1 = x_1."""
        run = fista.start(problem, x0)
        assert run.f_y is not None
        gamma = self._first_penalty(problem, run.f_y, run.g_y)
        step = fista.step_size(problem, run, 1.0, gamma)
        phase = FIRST_PHASE if self.adaptive else 0
        return fista.first_state(run, Memory(run, 1.0, gamma, step, phase))

    def step(self, problem: Problem, state: State) -> State:
        """Take one FISTA step; at the end of a phase, raise the penalty and reset the momentum."""
        is_last = state.memory.run.k + 1 == state.memory.phase
        after = fista.one_step_later(problem, state, restart=is_last)
        if not is_last:
            return after
        order = 2.0 if problem.error_bound is None else problem.error_bound.order
        run, _, gamma, _, phase = after.memory
        gamma *= 2.0 ** (2.0 - 2.0 / order)
        step = fista.step_size(problem, run, 1.0, gamma)
        return after._replace(memory=Memory(run, 1.0, gamma, step, 2 * phase))


def penalty_for(bound: ErrorBound, accuracy: float) -> float:
    """gamma = 2 gamma*, gamma* = C^r eps^(1-r) (r-1)^(r-1)/r^r, C = M (r/alpha)^(1/r).

    By Proposition 1 of the AGM-BiO paper, f* - f <= C (g - g*)^(1/r) <= gamma* (g - g*) + eps. So
    an eps-minimiser of f + gamma g has f - f* <= eps, g - g* <= 2 eps/gamma* and f* - f <= 3 eps.
    If the order is 1, gamma = 2 M/alpha for every eps.
    """
    r = bound.order
    log = r * _log_slope(bound) + (1.0 - r) * math.log(accuracy) + _log_constant(r)
    return 2.0 * math.exp(min(log, 300.0))


def accuracy_after(bound: ErrorBound, steps: int, reach: float) -> float:
    """Return the eps with eps = 2 gamma L_g R²/(K+1)² and gamma = penalty_for(eps).

    K FISTA steps reach 2 (L_f + gamma L_g) R²/(K+1)²; here L_f is left out, because gamma L_g
    outgrows it if r > 1. With ``reach`` = L_g R², eps = C (4 reach (r-1)^(r-1)/r^r/(K+1)²)^(1/r).
    """
    r = bound.order
    squeezed = math.log(4.0) + math.log(reach) - 2.0 * math.log(steps + 1.0) + _log_constant(r)
    return math.exp(_log_slope(bound) + squeezed / r)


def _log_slope(bound: ErrorBound) -> float:
    """log C, C = M (r/alpha)^(1/r)."""
    return math.log(bound.gradient_bound) + math.log(bound.order / bound.modulus) / bound.order


def _log_constant(r: float) -> float:
    """log of (r-1)^(r-1)/r^r, 0 for r = 1."""
    return (r - 1.0) * math.log(r - 1.0) - r * math.log(r) if r > 1.0 else 0.0
