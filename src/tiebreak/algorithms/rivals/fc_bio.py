"""FC-BiO: bisection on the level of f; each test minimises a maximum.

Zhang, Chen, Xu, Zhang: Functionally constrained algorithm solves convex simple bilevel problems,
NeurIPS 2024, arXiv 2409.06530.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import NOT_ENDED, Method, Rate, StateReport, StepEvidence
from tiebreak.algorithms.common import (
    TOLERANCE,
    check_positive,
    need_bounded,
    need_lipschitz,
    need_smooth,
    positive_smoothness,
)
from tiebreak.algorithms.fista import Fista
from tiebreak.algorithms.rivals import first_phase, max_model
from tiebreak.algorithms.rivals.max_model import Psi, Question
from tiebreak.functions import Function, Minorant, split
from tiebreak.linalg import Array, Image, Refusal, arrays, checks, in_files
from tiebreak.problem import Point, Problem
from tiebreak.proofs.gate import RULE, Ended


@in_files("fc-bio")
class State(NamedTuple):
    """Everything a run needs to continue, as arrays and numbers."""

    k: int
    first_steps: int  # steps of the first phase, if g is smooth
    x: Array  # the last accepted point
    images: tuple[Image, Image, Any]
    upper_value: float  # f(x) and g(x)
    lower_value: float
    first: Fista | None  # the first phase; None when it is over
    step_size: float  # of the first phase
    call: Question | None  # the current test; None in the first phase
    steps: int  # maximum number of steps in a call
    low: float  # l and u, which bracket the level of f
    high: float
    upper_tolerance: float  # eps_f
    lower_tolerance: float  # eps_g
    size: float  # L = max{L_f, rho L_g}, or the bound C on slopes
    finished: Ended
    evidence: StepEvidence


@dataclass(frozen=True)
class FCBiO(Method):
    """Functionally Constrained Bilevel Optimizer, for a bounded Z.

    First FISTA on g finds ghat = g(x) with g(x) - g* <= eps_g/2 (see `first_phase`); u = f(x), and
    l is a lower bound on f. Then, until u - l <= eps_f/2, with t = (l + u)/2 and rho = eps_f/eps_g,

        psi_t(x) = max{ f(x) - t, rho (g(x) - ghat) }

    is minimised over Z from the last accepted point:

        x_{k+1} = argmin over Z of max of both minorants at y_k, + L/2 |x - y_k|²

    with FISTA's momentum and L = max{L_f, rho L_g}. A point with psi_t <= eps_f/2 is accepted:
    u = min{t, f(x)}; if there is none after N = ceil(2 D sqrt(L/eps_f)) steps, l = t. The output is
    the last accepted point: f(x) - f* <= eps_f and g(x) - g* <= eps_g, since
    psi_t(x_N) - min psi_t <= 2 L D²/(N+1)² <= eps_f/2. That takes about log2((u-l)/eps_f) N steps.
    f(x) may be far below f*. The inner step is a projection onto Z and a cut: see `max_model`.
    The lower bound l is that of f itself, or (our choice) of its minorant on Z.

    With ``lipschitz`` f and g need no gradients (the hinge and quantile losses, norms): the calls,
    and before them one on g alone, average projected subgradients of psi_t with steps
    D/(C sqrt(N)), N = ceil((2 D C/eps_f)²), where C bounds the slopes of f and rho g on Z.

    Args:
        eps_f, eps_g: the accuracy; if None, 1e-4 of the size of f and of g, as in CGBiO.
        lipschitz: use subgradients instead of the accelerated steps.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.FCBiO(eps_f=1e-2, eps_g=1e-2), rtol=1e-3).status
        'solved'
    """

    eps_f: float | None = None
    eps_g: float | None = None
    lipschitz: bool = False

    name: ClassVar[str] = "fc-bio"
    paper: ClassVar[str] = (
        "Zhang, Chen, Xu, Zhang: Functionally constrained algorithm solves convex simple bilevel "
        "problems, NeurIPS 2024, arXiv 2409.06530"
    )
    assumptions: ClassVar[str] = (
        "f, g convex and smooth, or Lipschitz; Z bounded, with an easy projection"
    )
    guarantee: ClassVar[str] = (
        "f - f* <= eps_f and g - g* <= eps_g after O(log(1/eps) eps^(-1/2)) gradients"
    )
    cites: ClassVar[tuple[str, ...]] = ("zhang2024fcbio",)
    rates: ClassVar[tuple[Rate, ...]] = (
        Rate("f above", 2.0, "eps planned"),
        Rate("g", 2.0, "eps planned"),
    )
    output: ClassVar[str] = "the last accepted point"

    def __post_init__(self) -> None:
        check_positive(self, "eps_f", "eps_g")
        checks.flag("FCBiO", "lipschitz", self.lipschitz)

    def check(self, problem: Problem) -> Refusal | None:
        refusal = None if self.lipschitz else need_smooth("FCBiO", problem)
        refusal = refusal or need_bounded("FCBiO", problem)
        return refusal or need_lipschitz("FCBiO", problem, "upper", "lower")

    def describe(self, problem: Problem) -> str:
        return f"FC-BiO{', by subgradients' if self.lipschitz else ''}"

    def report(self, state: State) -> StateReport:
        """Report whether its own rule is met, and the reach of x."""
        return StateReport(state.finished, reach=state.images[2])

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin the first phase at the start; it may end there."""
        f, g = problem.upper, problem.lower
        (x,) = problem.forward(problem.domain.project(x0))
        (f_x,) = f.evaluate([x.f])[0]
        run = fista.begin(problem, x, 0.0)
        whole = max_model.both_whole(problem, f_x, run.g_y)
        sizes = (first_phase.size(problem, *pair) for pair in zip((f, g), whole, strict=True))
        eps_f, eps_g = (
            float(given or TOLERANCE * size)
            for given, size in zip((self.eps_f, self.eps_g), sizes, strict=True)
        )
        rho, D = eps_f / eps_g, problem.domain.diameter_in(int(x.x.shape[0]))
        if self.lipschitz:
            size = max(_steepness(problem, f, f_x), rho * _steepness(problem, g, run.g_y))
            steps = (2.0 * D * (size / eps_f)) ** 2
        else:
            size = max(f.lipschitz, rho * g.lipschitz)
            size = size or rho * positive_smoothness(problem, g, run.g_y, run.g_y)
            steps = 2.0 * D * math.sqrt(size / eps_f)
        state = State(
            k=0, first_steps=0, x=x.x, images=x[1:], upper_value=run.f_x, lower_value=run.g_x,
            first=None if self.lipschitz else run,
            step_size=1.0 / positive_smoothness(problem, g, run.g_y, run.g_y),
            call=None, steps=max(math.ceil(steps), 1), low=-math.inf, high=math.inf,
            upper_tolerance=eps_f, lower_tolerance=eps_g, size=size or 1.0, finished=NOT_ENDED,
            evidence=StepEvidence(values=((run.g_x, x.x, run.g_y),)),
        )  # fmt: skip
        if self.lipschitz:
            psi = Psi(math.inf, rho, g.lower_bound, state.size)
            return state._replace(call=max_model.begin(problem, psi, x))
        if first_phase.is_minimal(problem, run.g_y, 0.5 * eps_g):
            return self._bisection(problem, state, run.g_y.value)
        return state

    def step(self, problem: Problem, state: State) -> State:
        """Take one step of the first phase or of a call; begin a new test if it is answered."""
        state = state._replace(k=state.k + 1)
        if state.first is not None:
            half = 0.5 * state.lower_tolerance
            state, g_x = first_phase.step(problem, state, state.first, half)
            return state if g_x is None else self._bisection(problem, state, g_x.value)
        assert state.call is not None
        if self.lipschitz:
            D = problem.domain.diameter_in(int(state.x.shape[0]))
            step = D / (state.size * math.sqrt(state.steps))
            call, evidence = max_model.subgradient_step(problem, state.call, step)
        else:
            call, evidence = max_model.accelerated_step(problem, state.call)
        state = state._replace(call=call, evidence=evidence)
        is_good, is_over = call.value <= 0.5 * state.upper_tolerance, call.k >= state.steps
        if call.psi.level == math.inf:
            state = _accepted(state, call)
            return self._bisection(problem, state, call.g_x) if is_good or is_over else state
        if is_good:
            state = _accepted(state, call)
            return self._asked(problem, state._replace(high=min(call.psi.level, call.f_x)))
        return self._asked(problem, state._replace(low=call.psi.level)) if is_over else state

    def _bisection(self, problem: Problem, state: State, ghat: float) -> State:
        """Set l, u and the first test, now that g is minimised to within eps_g/2."""
        x = Point(state.x, *state.images)
        rho = state.upper_tolerance / state.lower_tolerance
        call = max_model.begin(problem, Psi(math.inf, rho, ghat, state.size), x)
        f_x, _ = max_model.both_whole(problem, call.f_y, call.g_y)
        low = f_x.value - first_phase.frank_wolfe_gap(problem, f_x)
        return self._asked(
            problem,
            state._replace(
                first=None, call=call, low=max(low, problem.upper.lower_bound), high=f_x.value
            ),
        )

    def _asked(self, problem: Problem, state: State) -> State:
        """Begin the next test from the last accepted point, or end the run."""
        width, half = state.high - state.low, 0.5 * state.upper_tolerance
        level = state.low + 0.5 * width
        if width <= half or not state.low < level < state.high:
            sentence = f"FC-BiO stopped because u - l = {width:.3g} is at most eps_f/2 = {half:.3g}"
            if width > half:
                sentence = f"FC-BiO stopped because no float lies between l and u = l + {width:.3g}"
            return state._replace(finished=Ended(RULE, sentence))
        assert state.call is not None
        psi = state.call.psi._replace(level=level)
        call = max_model.begin(problem, psi, Point(state.x, *state.images))
        return state._replace(call=call)


def _accepted(state: State, call: Question) -> State:
    """Return the state with the point of a call as its answer."""
    return state._replace(x=call.x.x, images=call.x[1:], upper_value=call.f_x, lower_value=call.g_x)


def _steepness(problem: Problem, h: Function, h_0: Minorant) -> float:
    """Bound the slopes of h on Z, penalty included."""
    n, domain = int(h_0.at.shape[0]), problem.domain
    far = domain.farthest(arrays.zeros_like(h_0.at))
    curve = h.lipschitz * domain.diameter_in(n)
    return arrays.norm(h_0.slope) + curve + split(h)[1].terms.steepness(n, far)
