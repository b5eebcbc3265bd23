"""FC-BiO: bisection on the level of f; each test minimises the maximum of two functions.

Zhang, Chen, Xu, Zhang: Functionally constrained algorithm solves convex simple bilevel problems,
NeurIPS 2024, arXiv 2409.06530.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import (
    NOT_ENDED,
    Ended,
    Method,
    Range,
    Rate,
    StateReport,
    StepEvidence,
)
from tiebreak.algorithms.common import (
    POSITIVE,
    TOLERANCE,
    RunState,
    averaged,
    minorants_at,
    need_bounded,
    need_lipschitz,
    need_smooth,
    positive_smoothness,
    values_at,
)
from tiebreak.algorithms.rivals import first_phase
from tiebreak.algorithms.rivals.first_phase import FirstPhase
from tiebreak.functions import Function, Minorant, Penalty, split
from tiebreak.linalg import Array, Refusal, arrays, checks, in_files
from tiebreak.problem import Point, Problem, mixed
from tiebreak.proofs.gate import RULE


@in_files("fc-bio.psi")
class Psi(NamedTuple):
    """The parameters of the function psi_t: see `FCBiO`."""

    level: float  # t; inf means g alone
    rho: float
    ghat: float
    size: float  # L = max{L_f, rho L_g}, or in the Lipschitz case, the bound C on slopes

    def parts(self, f: float, g: float) -> tuple[float, float]:
        """Return both terms of the maximum for these values of f and g."""
        return f - self.level, self.rho * (g - self.ghat)


@in_files("fc-bio.call")
class Question(NamedTuple):
    """A run that minimises psi_t to answer one test."""

    psi: Psi
    k: int
    momentum: float  # t_k of FISTA
    x: Point  # a point of Z: the last iterate, or the average
    y: Point  # where the next step begins
    f_y: Minorant  # minorants of f1 and g1 at y
    g_y: Minorant
    f_x: float  # values at x, with the penalties
    g_x: float
    guess: float | None  # the multiplier of the last step, as a first guess

    @property
    def value(self) -> float:
        """The value psi(x)."""
        return max(self.psi.parts(self.f_x, self.g_x))


@in_files("fc-bio")
class Memory(NamedTuple):
    """The variables of the recursion, besides the last accepted point."""

    first: FirstPhase | None  # the first phase, if g is smooth; None when it is over
    call: Question | None  # the current test; None in the first phase
    steps: int  # maximum number of steps in a call
    upper_tolerance: float  # eps_f
    lower_tolerance: float  # eps_g
    size: float  # L = max{L_f, rho L_g}, or the bound C on slopes
    low: float = -math.inf  # l and u, which bracket the level of f
    high: float = math.inf
    finished: Ended = NOT_ENDED


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class FCBiO(Method):
    """Functionally Constrained Bilevel Optimizer, for a bounded Z.

    First, FISTA on g finds ghat = g(x) with g(x) - g* <= eps_g/2 (see `first_phase`); u = f(x), and
    l is a lower bound on f. Then, until u - l <= eps_f/2, we take t = (l + u)/2 and rho =
    eps_f/eps_g, and minimise

        psi_t(x) = max{ f(x) - t, rho (g(x) - ghat) }

    The search over Z starts from the last accepted point:

        x_{k+1} = argmin over Z of (the larger minorant at y_k) + L/2 |x - y_k|²

    The steps use FISTA's momentum and L = max{L_f, rho L_g}. If psi_t <= eps_f/2, the point is
    accepted and u = min{t, f(x)}; if N = ceil(2 D sqrt(L/eps_f)) steps find no such point, l = t.
    The output is the last accepted point: f(x) - f* <= eps_f and g(x) - g* <= eps_g, since
    psi_t(x_N) - min psi_t <= 2 L D²/(N+1)² <= eps_f/2. The method takes about log2((u-l)/eps_f) N
    steps. f(x) may be far below f*. The inner step is a projection onto Z intersected with a
    half-space: see `minimised`. The lower bound l is the one that f declares, or (our choice) the
    minimum of f's minorant on Z.

    With ``lipschitz``, f and g need not be differentiable (hinge and quantile losses, norms). A
    first call on g alone and all later calls on psi_t then take projected subgradient steps and
    return their average. The steps have size D/(C sqrt(N)), N = ceil((2 D C/eps_f)²), where C
    bounds the slopes of f and rho g on Z.

    Args:
        eps_f, eps_g: the accuracy; if None, 1e-4 times the size of f and of g, as in CGBiO.
        lipschitz: if True, use subgradients instead of the accelerated steps.

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
    ranges: ClassVar[dict[str, Range]] = {
        "eps_f": POSITIVE, "eps_g": POSITIVE, "lipschitz": checks.flag,
    }  # fmt: skip

    def check(self, problem: Problem) -> Refusal | None:
        return (
            (None if self.lipschitz else need_smooth(self, problem))
            or need_bounded(self, problem)
            or need_lipschitz(self, problem, "upper", "lower")
        )

    def describe(self, problem: Problem) -> str:
        return f"FC-BiO{', by subgradients' if self.lipschitz else ''}"

    def report(self, state: State) -> StateReport:
        """Report whether the method's stopping rule is met, and the ``reach`` of x."""
        return StateReport(state.memory.finished, reach=state.point.reach)

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin the first phase at the starting point; it may end there at once."""
        f, g = problem.upper, problem.lower
        (x,) = problem.forward(problem.domain.project(x0))
        (f_x,) = f.evaluate([x.f])[0]
        first = first_phase.begin(problem, x)
        run = first.run
        whole = both_whole(problem, f_x, run.g_y)
        sizes = (first_phase.size(problem, *pair) for pair in zip((f, g), whole, strict=True))
        eps_f, eps_g = (
            given or TOLERANCE * size
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
        call, count, size = None, max(math.ceil(steps), 1), size or 1.0
        if self.lipschitz:
            psi = Psi(math.inf, rho, g.lower_bound, size)
            call = begin(problem, psi, x)
        memory = Memory(None if self.lipschitz else first, call, count, eps_f, eps_g, size)
        state = fista.first_state(run, memory)
        if not self.lipschitz and first_phase.frank_wolfe_gap(problem, run.g_y) <= 0.5 * eps_g:
            return self._bisection(problem, state, run.g_y.value)
        return state

    def step(self, problem: Problem, state: State) -> State:
        """Take one step of the first phase or of a call; if a test is answered, begin the next."""
        k, memory = state.k + 1, state.memory
        if memory.first is not None:
            half = 0.5 * memory.lower_tolerance
            first, evidence, g_x = first_phase.step(problem, memory.first, half)
            state = fista.next_state(k, first.run, evidence, memory._replace(first=first))
            return state if g_x is None else self._bisection(problem, state, g_x.value)
        assert memory.call is not None
        if self.lipschitz:
            D = problem.domain.diameter_in(int(state.x.shape[0]))
            step = D / (memory.size * math.sqrt(memory.steps))
            call, evidence = subgradient_step(problem, memory.call, step)
        else:
            call, evidence = accelerated_step(problem, memory.call)
        memory = memory._replace(call=call)
        state = state._replace(k=k, evidence=evidence, memory=memory)
        is_good, is_over = call.value <= 0.5 * memory.upper_tolerance, call.k >= memory.steps
        level, is_first = call.psi.level, call.psi.level == math.inf
        if is_good or is_first:
            state = state._replace(point=call.x, upper_value=call.f_x, lower_value=call.g_x)
        if not (is_good or is_over):
            return state
        if is_first:
            return self._bisection(problem, state, call.g_x)
        low, high = (memory.low, min(level, call.f_x)) if is_good else (level, memory.high)
        return self._asked(problem, state, memory._replace(low=low, high=high))

    def _bisection(self, problem: Problem, state: State, ghat: float) -> State:
        """Set l, u and the first test, now that g is minimised to within eps_g/2."""
        memory = state.memory
        rho = memory.upper_tolerance / memory.lower_tolerance
        call = begin(problem, Psi(math.inf, rho, ghat, memory.size), state.point)
        f_x, _ = both_whole(problem, call.f_y, call.g_y)
        low = max(f_x.value - first_phase.frank_wolfe_gap(problem, f_x), problem.upper.lower_bound)
        memory = memory._replace(first=None, call=call, low=low, high=f_x.value)
        return self._asked(problem, state, memory)

    def _asked(self, problem: Problem, state: State, memory: Memory) -> State:
        """Begin the next test from the last accepted point, or end the run."""
        width, half = memory.high - memory.low, 0.5 * memory.upper_tolerance
        level = memory.low + 0.5 * width
        if width <= half or level in (memory.low, memory.high):  # false if one of them is NaN
            sentence = f"FC-BiO stopped because u - l = {width:.3g} is at most eps_f/2 = {half:.3g}"
            if width > half:
                sentence = f"FC-BiO stopped because no float lies between l and u = l + {width:.3g}"
            return state._replace(memory=memory._replace(finished=Ended(RULE, sentence)))
        assert memory.call is not None
        call = begin(problem, memory.call.psi._replace(level=level), state.point)
        return state._replace(memory=memory._replace(call=call))


def _steepness(problem: Problem, h: Function, h_0: Minorant) -> float:
    """Bound the slopes of h on Z, including those of its penalty."""
    n, domain = int(h_0.at.shape[0]), problem.domain
    far = domain.farthest(arrays.zeros_like(h_0.at))
    curve = h.lipschitz * domain.diameter_in(n)
    return arrays.norm(h_0.slope) + curve + split(h)[1].terms.steepness(n, far)


# -- steps on psi ----------------------------------------------------------------------------------


def begin(problem: Problem, psi: Psi, x: Point) -> Question:
    """Begin a run from x."""
    return Question(psi, 0, 1.0, x, x, *minorants_at(problem, x), *values_at(problem, x), None)


def accelerated_step(problem: Problem, call: Question) -> tuple[Question, StepEvidence]:
    """Take a step to x_{k+1} with the model at y_k; psi(x_k) - min psi <= 2 L D²/(k+1)²."""
    psi, t, f_y, g_y = call.psi, call.momentum, call.f_y, call.g_y
    z, w, guess = minimised(problem, psi, f_y, g_y, call.guess)
    (x,) = problem.forward(z)
    later = fista.next_t(t)
    y = mixed(call.x, x, 1.0 + (t - 1.0) / later)
    (f_new,), (f_x,) = problem.upper.evaluate([y.f], [x.f])
    (g_new,), (g_x,) = problem.lower.evaluate([y.g], [x.g])
    after = Question(psi, call.k + 1, later, x, y, f_new, g_new, f_x, g_x, guess)
    return after, _evidence(call, t, w, (g_x, x.x, g_new))


def subgradient_step(
    problem: Problem, call: Question, step: float
) -> tuple[Question, StepEvidence]:
    """Add y_k to the average; take a subgradient step from y_k on the larger term of psi."""
    psi, y, k = call.psi, call.y, call.k + 1
    f_y, g_y = both_whole(problem, call.f_y, call.g_y)
    of_f, of_g = psi.parts(f_y.value, g_y.value)
    w = float(of_f >= of_g)
    slope = f_y.slope if w else psi.rho * g_y.slope
    x = averaged(problem, call.x, y, 1.0 / k, k)
    (y,) = problem.forward(problem.domain.project(y.x - step * slope))
    (f_new,), (f_x,) = problem.upper.evaluate([y.f], [x.f])
    (g_new,), (g_x,) = problem.lower.evaluate([y.g], [x.g])
    after = Question(psi, k, 1.0, x, y, f_new, g_new, f_x, g_x, None)
    return after, _evidence(call, step, w, (g_x, x.x, call.g_y))


def minimised(
    problem: Problem, psi: Psi, f_y: Minorant, g_y: Minorant, guess: float | None
) -> tuple[Array, float, float]:
    """Minimise the larger of the two minorants plus L/2 |x - y|² over Z; return x, w and mu.

    x = projection of y - (w a + (1-w) b)/L, where a and b are the slopes of f's and g's minorants,
    w is the weight of f, and both minorants are equal at x unless w is 0 or 1. So x is the
    projection of y - b/L onto the half-space where f's minorant is no larger than g's, with
    multiplier mu = w/L if that is at most 1/L. If the half-space contains no point of Z, w = 1.
    """
    y, L = f_y.at, psi.size
    of_f, of_g = psi.parts(f_y.value, g_y.value)
    b = psi.rho * g_y.slope
    c = f_y.slope - b
    offset = arrays.dot(c, y) - (of_f - of_g)
    z, mu = problem.domain.project_cut(y - b / L, c, offset, guess)
    above, size = arrays.dot(c, z) - offset, abs(offset) + arrays.norm(c) * arrays.norm(z)
    if L * mu < 1.0 and above <= math.sqrt(arrays.epsilon(y)) * size:
        return z, L * mu, mu
    return problem.domain.project(y - f_y.slope / L), 1.0, 1.0 / L


def both_whole(problem: Problem, f: Minorant, g: Minorant) -> tuple[Minorant, Minorant]:
    """Return minorants of f and g, given minorants of their smooth parts at the same point."""
    f2, g2 = problem.penalties
    return _whole(f, f2), _whole(g, g2)


def _whole(h: Minorant, penalty: Penalty) -> Minorant:
    terms = penalty.terms
    if not terms.has_weights:
        return h
    slope = h.slope + terms.subgradient(h.at)
    return h._replace(value=h.value + penalty.value(h.at), slope=slope)


def _evidence(
    before: Question, weight: float, w: float, value: tuple[float, Array, Minorant]
) -> StepEvidence:
    """Return the minorants at y_k, weighted as in the method's proof."""
    return StepEvidence(
        upper=((weight * w, before.f_y),) if w > 0.0 else (),
        cuts=((weight * (1.0 - w) * before.psi.rho, before.g_y),) if w < 1.0 else (),
        lower=((weight, before.g_y),),
        values=(value,),
    )
