"""AdaptiveAGMBiO: needs no constants, and its steps adapt to what has been proved so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiebreak.algorithms.base import Method, Proved, Rate, StateReport, StepEvidence
from tiebreak.algorithms.common import at_start, first_curvature, need_joint_prox, with_violations
from tiebreak.algorithms.momentum import Momentum, advance, begin, run_together
from tiebreak.linalg import Array, Refusal, arrays, in_files
from tiebreak.problem import Point, Problem

EASIER = 4.0  # eta is divided by at most this factor at a time, and by at least its square root
ETA_SAFETY = 0.8  # we use this share of the eta that should suffice, because it is only an estimate
LAVISH = 64.0  # if g's gap is below the tolerance by this factor, a larger eta helps f at no cost
ROOM = 0.5  # share of the lower tolerance that x may use; the proof of g* needs the rest


@in_files("adaptive")
class State(NamedTuple):
    """Everything a run needs to continue, as arrays and numbers."""

    k: int
    main: Momentum  # the run on g + eta f
    lower: Momentum  # the run on g alone, for the proof of g*
    eta: float
    is_main_active: bool  # does x still need more steps?
    is_lower_active: bool  # does the proof of g* still need more steps?
    age: int  # steps with this eta
    marks: tuple[float, float]  # h(x) at the last two ages that were powers of two
    upper_value: float  # f(x) and g(x)
    lower_value: float
    lipschitz_violations: tuple[int, int]  # how often f and g rose more than L allows
    convexity_violations: tuple[int, int]  # how often f and g fell below a minorant
    evidence: StepEvidence

    @property
    def x(self) -> Array:
        """The point."""
        return self.main.x.x


@dataclass(frozen=True)
class AdaptiveAGMBiO(Method):
    """AGM-BiO without constants: the multiplier of the cut is fixed for a phase, then adapted.

    With the multiplier mu_k of its cut, line 6 of AGM-BiO is an accelerated step on f + (mu_k/a_k)
    g without the cut. Here we keep this ratio at 1/eta for a whole phase, and minimise h = g + eta
    f:

        a_k from L a_k² = A_k + a_k = A_{k+1},   y_k = (A_k x_k + a_k z_k)/A_{k+1}
        z_{k+1} = prox of a_k (g2 + eta f2) on Z at z_k - a_k (grad g1(y_k) + eta grad f1(y_k))
        x_{k+1} = (A_k x_k + a_k z_{k+1})/A_{k+1}

    Here L grows until A_{k+1} D(x_{k+1}, y_k) <= ½|z_{k+1} - z_k|², with D denoting the Bregman
    distance of g1 + eta f1. The proof of acceleration uses no other property of L. So at every
    step, for every u in Z and whatever the true Lipschitz constants are, we have

        A_k (h(x_k) - h(u)) + ½|z_k - u|² <= ½|z_0 - u|².

    Here z_0 is the point of the last restart. With u = x* this gives f(x_k) - f* <= |z_0 - x*|²/(2
    eta A_k) and g(x_k) - g* <= |z_0 - x*|²/(2 A_k) + eta (f* - f(x_k)): as in Theorem 1 of AGM-BiO,
    the bound on the upper gap needs no error bound, and eta decides how far x may be from the
    minimisers of g.

    The method restarts (z_0 = x) when h has risen. A second run of the same kind, on g alone, finds
    g*; it pauses while the bounds on g* are good enough. Between steps `adapt` learns which bounds
    are proved. If the gap of f is small enough but that of g is not, eta is divided by about the
    missing factor; if the gap of g is far smaller than requested but that of f is not, eta grows;
    if only the bounds on g* are too wide, the second run continues alone. If nothing can be proved
    about f, eta shrinks once h has settled. The choice of eta does not enter the proof: as always,
    the bound accumulator produces the certificate.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.AdaptiveAGMBiO(), rtol=1e-2).success
        True
    """

    name: ClassVar[str] = "adaptive"
    paper: ClassVar[str] = "tiebreak; step as in AGM-BiO, Cao et al. 2024, with a fixed multiplier"
    assumptions: ClassVar[str] = (
        "f, g convex, each smooth + penalty; joint prox of both penalties and Z; needs no constants"
    )
    adapts: ClassVar[bool] = True
    guarantee: ClassVar[str] = "with eta fixed: f - f* <= O(1/k²), g - g* <= O(1/k²) + eta (f* - f)"
    cites: ClassVar[tuple[str, ...]] = ("cao2024",)
    rates: ClassVar[tuple[Rate, ...]] = (Rate("f above", 2.0, "eta fixed"),)

    def check(self, problem: Problem) -> Refusal | None:
        return need_joint_prox(self, problem)

    def describe(self, problem: Problem) -> str:
        return "adaptive AGM-BiO, no constants"

    def report(self, state: State) -> StateReport:
        """Report the ``reach`` of x, and what the consistency checks have found."""
        return StateReport(
            reach=state.main.x.reach,
            lipschitz_violations=state.lipschitz_violations,
            convexity_violations=state.convexity_violations,
        )

    def init(self, problem: Problem, x0: Array) -> State:
        """Start at x_0 = z_0 with estimates of both curvatures and the eta that balances them."""
        (f1, g1), (f2, g2) = problem.smooth_parts, problem.penalties
        x, f_x, g_x = at_start(problem, x0)
        n = int(x.x.shape[0])
        L_f, is_f_concave = first_curvature(problem, f1, f_x, g_x)
        L_g, is_g_concave = first_curvature(problem, g1, g_x, f_x)
        pull_f = arrays.norm(f_x.slope) + f2.terms.steepness(n, 0.0)
        pull_g = arrays.norm(g_x.slope) + g2.terms.steepness(n, 0.0)
        eta = _ratio(L_g, L_f) or _ratio(pull_g, pull_f) or 1.0
        f, g = f_x.value + f2.value(x.x), g_x.value + g2.value(x.x)
        return State(
            k=0,
            main=begin(x, L_g + eta * L_f or pull_g + eta * pull_f or 1.0, g + eta * f),
            lower=begin(Point(x.x, None, x.lower), L_g or pull_g or 1.0, g),
            eta=eta, is_main_active=True, is_lower_active=True, age=0, marks=(math.inf, math.inf),
            upper_value=f, lower_value=g, lipschitz_violations=(0, 0),
            convexity_violations=(int(is_f_concave), int(is_g_concave)),
            evidence=StepEvidence(values=((g, x.x, g_x),)),
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """Take an accelerated step on g + eta f and one on g alone; either run may pause."""
        runs = [advance(problem, state.main, state.eta)] if state.is_main_active else []
        runs += [advance(problem, state.lower, 0.0)] if state.is_lower_active else []
        steps = iter(run_together(problem, runs))
        evidence = StepEvidence()
        if state.is_main_active:
            step = next(steps)
            f_y, g_y = step.y
            assert f_y is not None
            age, marks = state.age + 1, state.marks
            state = with_violations(state, *step.violations)._replace(
                main=step.run.restarted_if_risen(state.main),
                upper_value=step.f_x,
                lower_value=step.g_x,
                age=age,
                marks=(marks[1], step.run.value) if age & (age - 1) == 0 else marks,
            )
            evidence = StepEvidence(
                upper=((state.eta * step.a, f_y),), cuts=((step.a, g_y),), values=(step.value,)
            )
        if state.is_lower_active:
            step = next(steps)
            state = with_violations(state, *step.violations)._replace(
                lower=step.run.restarted_if_risen(state.lower)
            )
            evidence = evidence._replace(
                lower=((step.a, step.y.g),), values=(*evidence.values, step.value)
            )
        return state._replace(k=state.k + 1, evidence=evidence)

    def adapt(self, state: State, proved: Proved) -> State:
        """Use the proved bounds to decide which runs continue, and with which eta."""
        excess = state.lower_value - proved.least_value  # an estimate of g(x) - g*
        asked_upper, asked_lower = proved.asked
        gap = proved.standing.upper_gap
        is_secured = True
        if proved.is_guarded:
            # The multiplier of g in the bound on f* is about 1/eta: see `certificate.Standing`.
            asked_lower = min(asked_lower, 0.125 * asked_upper * state.eta)
            asked_upper = 0.5 * asked_upper
            is_secured = -gap <= asked_upper and proved.standing.price <= 0.25 * asked_upper
        is_low = gap <= asked_upper
        is_feasible = excess <= ROOM * asked_lower
        unknown = proved.least_value - proved.lower_bound  # the uncertainty of g*
        is_known = unknown <= 0.25 * max(excess, asked_lower)
        eta = state.eta
        if is_low and not (is_feasible and (is_secured or not is_known)) and state.age > 1:
            # The excess is roughly proportional to eta².
            factor = ETA_SAFETY * math.sqrt(ROOM * asked_lower / excess) if excess > 0.0 else 1.0
            eta *= min(max(factor, 1.0 / EASIER), 1.0 / math.sqrt(EASIER))
        elif math.isinf(gap) and not is_feasible and _has_settled(state, excess):
            eta /= EASIER
        elif is_feasible and not is_low and LAVISH * excess < asked_lower and state.age >= 16:
            eta *= EASIER
        if eta != state.eta and 0.0 < eta < math.inf:
            main, value = state.main, state.lower_value + eta * state.upper_value
            state = state._replace(
                main=begin(main.x, main.smoothness, value),
                eta=eta,
                age=0,
                marks=(math.inf, math.inf),
            )
        is_done = is_low and is_feasible and is_secured
        return state._replace(
            is_main_active=not is_done or is_known, is_lower_active=is_done or not is_known
        )


# -- decisions at the start, and when nothing is proved ---------------------------------------


def _ratio(p: float, q: float) -> float:
    """Return p/q, or 0 if the ratio is meaningless."""
    return p / q if p > 0.0 and q > 0.0 and math.isfinite(p / q) else 0.0


def _has_settled(state: State, excess: float) -> bool:
    """Is h(x) - min h small relative to the excess of g, as far as we can tell without a proof?

    We use the inequality in the docstring of the class, with the distance that z has moved instead
    of |z_0 - x*|, and also the decrease of h since the phase was between a quarter and a half as
    long as it is now. The phase must contain at least a third of all steps so far.
    """
    main = state.main
    way = main.z.x - main.origin
    left = 0.5 * arrays.dot(way, way) / main.A if main.A > 0.0 else 0.0
    left = max(left, state.marks[0] - main.value)
    return left <= 0.25 * excess and state.age >= max(4, state.k // 3)
