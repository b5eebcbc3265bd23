"""AdaptiveAGMBiO: no constants to ask for, and steps that follow what has been proved so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms.base import Method, Refusal, StateReport
from tiebreak.algorithms.common import REFRESH, out_of_bounds
from tiebreak.algorithms.fista import need_joint_prox
from tiebreak.functions.base import Minorant, PointWithImage, SmoothFunction
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array, Image
from tiebreak.problem import Point, Problem, mixed
from tiebreak.proofs.certificate import Proved, StepEvidence

SHRINK = 0.97  # of L after every step, so that it follows the curvature down as well as up
TRIES = 100  # backtracking steps at most: then rounding is all that is left
PROBE = 1e-4  # how far the first estimate of L looks, of a typical length
EASIER = 4.0  # eta falls by at most this factor at once, and at least by its root
ROOM = 0.5  # of the tolerance below is for x, the rest for the proof of g*


class Momentum(NamedTuple):
    """An accelerated run on h = w_f f + w_g g since its last restart (three-sequence form)."""

    A: float  # sum of the step sizes a_i
    x: Point  # the averaged point, of which the inequality speaks
    z: Point  # the mirror point
    origin: Array  # z_0, where it began
    smoothness: float  # the estimate of L_h1, for the next step
    value: float  # h(x)
    steps: int
    ahead: Looks | None = None  # f1 and g1 at the next y, where the last pass has seen that too


class Looks(NamedTuple):
    """What was seen at one point y."""

    f: Minorant | None  # None where f has no weight
    g: Minorant


class Ask(NamedTuple):
    """What a run needs to go on: a point lifted, or slopes at some points and values at others.

    Runs ask instead of looking, so that those which go side by side share each pass over the data.
    """

    eta: float
    lift: Array | None = None
    at: Sequence[Point] = ()
    values_at: Sequence[Point] = ()


class History(NamedTuple):
    """The answer."""

    lifted: Point | None = None
    seen: Sequence[Looks] = ()
    values: Sequence[tuple[float, float]] = ()  # f1 (nan where it has no weight) and g1


Advance: TypeAlias = "Generator[Ask, History, Move]"


class Move(NamedTuple):
    """What one accelerated step led to, and what was seen on the way."""

    run: Momentum
    a: float
    y: Looks
    f_x: float  # with the penalty; nan where f has no weight
    g_x: float
    lipschitz_violations: tuple[bool, bool]
    convexity_violations: tuple[bool, bool]


class State(NamedTuple):
    """Everything a run needs to go on; arrays and numbers only."""

    k: int
    main: Momentum  # on g + eta f
    lower: Momentum  # on g alone, for the proof of g*
    eta: float
    moves: bool  # is there something left to do for x?
    levels: bool  # is there something left to do for the proof of g*?
    age: int  # steps with this eta
    marks: tuple[float, float]  # h(x) at the last two ages that were powers of two
    upper_value: float  # f(x) and g(x)
    lower_value: float
    lipschitz_violations: tuple[
        int, int
    ]  # how often f, g rose more than their Lipschitz constants allow
    convexity_violations: tuple[
        int, int
    ]  # how often f, g fell below their own minorants, as no convex one can
    evidence: StepEvidence

    @property
    def x(self) -> Array:
        """The point."""
        return self.main.x.x


@dataclass(frozen=True)
class AdaptiveAGMBiO(Method):
    """AGM-BiO without constants: the multiplier of the cut is held for a phase, and then adapted.

    With the multiplier mu_k of its cut, line 6 of AGM-BiO is an accelerated step on f + (mu_k/a_k)
    g without the cut.  Here the ratio is 1/eta for a whole phase, h = g + eta f:

        a_k from L a_k² = A_k + a_k = A_{k+1},   y_k = (A_k x_k + a_k z_k)/A_{k+1}
        z_{k+1} = prox of a_k (g2 + eta f2) on Z at z_k - a_k (grad g1(y_k) + eta grad f1(y_k))
        x_{k+1} = (A_k x_k + a_k z_{k+1})/A_{k+1}

    where L grows until A_{k+1} D(x_{k+1}, y_k) <= ½|z_{k+1} - z_k|², D the Bregman distance of
    g1 + eta f1.  That is all which the proof of acceleration uses, so that at every step, for every
    u in Z and whatever the true Lipschitz constants are,

        A_k (h(x_k) - h(u)) + ½|z_k - u|² <= ½|z_0 - u|²,

    z_0 the point of the last restart.  With u = x* this says f(x_k) - f* <= |z_0 - x*|²/(2 eta A_k)
    and g(x_k) - g* <= |z_0 - x*|²/(2 A_k) + eta (f* - f(x_k)): as in Theorem 1 of AGM-BiO the upper
    gap needs no error bound, and eta decides how far x may be from the minimisers of g.

    A restart (z_0 = x) follows where h has risen.  A second run of the same kind, on g alone, finds
    g*; it rests while the bounds on g* are good enough.  Between steps the run is told what is
    proved.  Is f proved low enough but not g, then eta falls, by as much as is missing; is g far
    better than asked and f is not, eta rises; is only g* not known well enough, then the second run
    goes on alone.  Where nothing can be proved about f, eta falls once h has settled.  Nothing of
    this enters the proof: the certificate is the ledger's, as always.
    """

    name: ClassVar[str] = "adaptive"
    paper: ClassVar[str] = "tiebreak; step as in AGM-BiO, Cao et al. 2024, with a held multiplier"
    assumptions: ClassVar[str] = (
        "f, g convex, each smooth + penalty; both penalties and Z with a joint prox; no constants"
    )
    adapts: ClassVar[bool] = True
    guarantee: ClassVar[str] = "with eta held: f - f* <= O(1/k²), g - g* <= O(1/k²) + eta (f* - f)"

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse a problem outside the assumptions."""
        return need_joint_prox("AdaptiveAGMBiO", problem)

    def describe(self, problem: Problem) -> str:
        """The method in words."""
        return "adaptive AGM-BiO, no constants"

    def report(self, state: State) -> StateReport:
        """The reach and the eta of x, and what the consistency checks have found."""
        return StateReport(
            reach=state.main.x.reach,
            eta=state.eta,
            lipschitz_violations=state.lipschitz_violations,
            convexity_violations=state.convexity_violations,
        )

    def init(self, problem: Problem, x0: Array) -> State:
        """x_0 = z_0, a first look at the curvatures, and the eta that balances them."""
        (f1, g1), (f2, g2) = problem.smooth_parts, problem.penalties
        (x,) = problem.forward(problem.domain.project(x0))
        (f_x,), _ = f1.evaluate([x.f])
        (g_x,), _ = g1.evaluate([x.g])
        n = int(x.x.shape[0])
        L_f, bent_f = _curvature(problem, f1, f_x, g_x)
        L_g, bent_g = _curvature(problem, g1, g_x, f_x)
        pull_f = arrays.norm(f_x.slope) + f2.terms.steepness(n, 0.0)
        pull_g = arrays.norm(g_x.slope) + g2.terms.steepness(n, 0.0)
        eta = _ratio(L_g, L_f) or _ratio(pull_g, pull_f) or 1.0
        f, g = f_x.value + f2.value(x.x), g_x.value + g2.value(x.x)
        return State(
            k=0,
            main=_begin(x, L_g + eta * L_f or pull_g + eta * pull_f or 1.0, g + eta * f),
            lower=_begin(Point(x.x, None, x.lower), L_g or pull_g or 1.0, g),
            eta=eta, moves=True, levels=True, age=0, marks=(math.inf, math.inf),
            upper_value=f, lower_value=g, lipschitz_violations=(0, 0),
            convexity_violations=(int(bent_f), int(bent_g)),
            evidence=StepEvidence(values=((g, x.x, g_x),)),
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """One accelerated step on g + eta f, one on g alone; either may rest."""
        runs = [_advance(problem, state.main, state.eta)] if state.moves else []
        runs += [_advance(problem, state.lower, 0.0)] if state.levels else []
        moves = iter(_side_by_side(problem, runs))
        evidence: dict[str, tuple[object, ...]] = {"values": ()}
        if state.moves:
            move = next(moves)
            f_y, g_y = move.y
            assert f_y is not None
            state = _doubt(state, move)._replace(
                main=_restarted(state.main, move.run),
                upper_value=move.f_x,
                lower_value=move.g_x,
                age=state.age + 1,
                marks=_marked(state, move.run.value),
            )
            evidence = {
                "upper": ((state.eta * move.a, f_y),),
                "cuts": ((move.a, g_y),),
                "values": ((move.g_x, move.run.x.x, g_y.beside(move.run.x.g)),),
            }
        if state.levels:
            move = next(moves)
            state = _doubt(state, move)._replace(lower=_restarted(state.lower, move.run))
            evidence["lower"] = ((move.a, move.y.g),)
            x = move.run.x
            evidence["values"] += ((move.g_x, x.x, move.y.g.beside(x.g)),)
        return state._replace(k=state.k + 1, evidence=StepEvidence(**evidence))  # type: ignore[arg-type]

    def adapt(self, state: State, proved: Proved) -> State:
        """What to do next, from what is proved: which run works, and with which eta."""
        excess = state.lower_value - proved.least_value  # what x gives up, as far as is known
        asked_upper, asked_lower = proved.asked
        gap = proved.standing.upper_gap
        is_secured = True
        if proved.is_guarded:
            # The multiplier of g in the bound on f* is about 1/eta: see `certificate.Standing`.
            asked_upper, asked_lower = (
                0.5 * asked_upper,
                min(asked_lower, 0.125 * asked_upper * state.eta),
            )
            is_secured = -gap <= asked_upper and proved.standing.price <= 0.25 * asked_upper
        is_low = gap <= asked_upper
        is_feasible = excess <= ROOM * asked_lower
        unknown = proved.least_value - proved.lower_bound  # of g*
        is_known = unknown <= 0.25 * max(excess, asked_lower)
        eta = state.eta
        if is_low and not (is_feasible and (is_secured or not is_known)) and state.age > 1:
            # The excess is about proportional to eta².
            factor = 0.8 * math.sqrt(ROOM * asked_lower / excess) if excess > 0.0 else 1.0
            eta *= min(max(factor, 1.0 / EASIER), 1.0 / math.sqrt(EASIER))
        elif math.isinf(gap) and not is_feasible and _has_settled(state, excess):
            eta /= EASIER
        elif is_feasible and not is_low and 64.0 * excess < asked_lower and state.age >= 16:
            eta *= EASIER
        if eta != state.eta and 0.0 < eta < math.inf:
            main, value = state.main, state.lower_value + eta * state.upper_value
            state = state._replace(
                main=_begin(main.x, main.smoothness, value),
                eta=eta,
                age=0,
                marks=(math.inf, math.inf),
            )
        moves = not (is_low and is_feasible and is_secured)
        levels = not is_known
        return state._replace(moves=moves or not levels, levels=levels or not moves)


# -- one accelerated run --------------------------------------------------------------------------


def _begin(x: Point, smoothness: float, value: float) -> Momentum:
    return Momentum(0.0, x, x, x.x, smoothness, value, 0)


def _restarted(before: Momentum, after: Momentum) -> Momentum:
    """``after``, or a new beginning there if h has risen."""
    if after.value <= before.value or after.steps < 3:
        return after
    return _begin(after.x, after.smoothness, after.value)


def _advance(problem: Problem, run: Momentum, eta: float) -> Advance:
    """One step on h = g + eta f, with the smallest L >= the estimate that the inequality allows.

    Where passes are dear, f and g are looked at in the next y together with the values at x: that
    pass is in vain only where L has to grow, or the run begins anew.
    """
    (f1, g1), (f2, g2) = problem.smooth_parts, problem.penalties
    L, y = run.smoothness, run.ahead
    refresh = (run.steps + 1) % REFRESH == 0
    for _ in range(TRIES):
        a = _step_size(L, run.A)
        share = a / (run.A + a)
        if y is None:
            (y,) = (yield Ask(eta, at=[mixed(run.x, run.z, share) if run.A > 0.0 else run.z])).seen
        f_y, g_y = y
        slope = g_y.slope if f_y is None else g_y.slope + eta * f_y.slope
        z = yield from _lifted(eta, problem.prox(run.z.x - a * slope, a * eta, a))
        x = mixed(run.x, z, share) if run.A > 0.0 else z
        if refresh:
            x = yield from _lifted(eta, x.x)
        A, next_y = run.A + a, []
        if problem.shares_passes:
            next_a = _step_size(SHRINK * L, A)
            next_y = [mixed(x, z, next_a / (A + next_a))]
        history = yield Ask(eta, at=next_y, values_at=[x])
        ((f1_x, g1_x),) = history.values
        dz = z.x - run.z.x
        along_g, square, steepness, *along_f = arrays.dots(
            (g_y.slope, dz), (dz, dz), (slope, slope), *([] if f_y is None else [(f_y.slope, dz)])
        )
        rise_f = 0.0 if f_y is None else f1_x - f_y.value - share * along_f[0]
        rise = g1_x - g_y.value - share * along_g + eta * rise_f
        sizes = abs(g1_x) + abs(g_y.value)
        if f_y is not None:
            sizes += eta * (abs(f1_x) + abs(f_y.value))
        sizes += share * arrays.norm(slope, steepness) * arrays.norm(dz, square)
        slack = 16.0 * arrays.epsilon(dz) * sizes
        moved = share * share * square
        if rise <= 0.5 * L * moved + slack:
            break
        needed = 2.0 * rise / moved if moved > 0.0 else math.inf
        L = max(1.3 * L, 1.02 * needed) if math.isfinite(needed) else 8.0 * L
        if run.A > 0.0:  # at first y is z whatever L is
            y = None
    f_x, g_x = f1_x + f2.value(x.x), g1_x + g2.value(x.x)
    h_x = g_x + eta * f_x if eta > 0.0 else g_x
    ahead = history.seen[0] if history.seen else None
    after = Momentum(A, x, z, run.origin, SHRINK * L, h_x, run.steps + 1, ahead)
    steep_g, bent_g = out_of_bounds(g1, g_y, g1_x, share * along_g, moved)
    steep_f = bent_f = False
    if f_y is not None:
        steep_f, bent_f = out_of_bounds(f1, f_y, f1_x, share * along_f[0], moved)
    return Move(after, a, Looks(f_y, g_y), f_x, g_x, (steep_f, steep_g), (bent_f, bent_g))


def _lifted(eta: float, x: Array) -> Generator[Ask, History, Point]:
    point = (yield Ask(eta, lift=x)).lifted
    assert point is not None
    return point


def _step_size(L: float, A: float) -> float:
    """a with L a² = A + a."""
    return (1.0 + math.sqrt(1.0 + 4.0 * L * A)) / (2.0 * L)


def _side_by_side(problem: Problem, runs: Sequence[Advance]) -> list[Move]:
    """What the runs lead to, all that they ask for at the same time being looked up at once."""
    asks: dict[int, Ask] = {i: next(run) for i, run in enumerate(runs)}
    moves: dict[int, Move] = {}
    while asks:
        answers = _answers(problem, list(asks.values()))
        for i, history in zip(list(asks), answers, strict=True):
            try:
                asks[i] = runs[i].send(history)
            except StopIteration as end:
                moves[i] = end.value
                del asks[i]
    return [moves[i] for i in range(len(runs))]


def _answers(problem: Problem, asks: Sequence[Ask]) -> list[History]:
    """Lifts, slopes and values for all; f only for those who give it a weight."""
    f1, g1 = problem.smooth_parts
    upper = [ask for ask in asks if ask.eta > 0.0]
    # Both are started before either is waited for.
    of_f, of_g = (
        _looking_up(f1, upper, lambda point: point.f),
        _looking_up(g1, asks, lambda point: point.g),
    )
    (f_images, f_seen, f_values), (g_images, g_seen, g_values) = of_f(), of_g()
    history = []
    for ask in asks:
        has_f = ask.eta > 0.0
        lifted = None
        if ask.lift is not None:
            lifted = Point(ask.lift, next(f_images) if has_f else None, next(g_images))
        seen = [Looks(next(f_seen) if has_f else None, next(g_seen)) for _ in ask.at]
        values = [(next(f_values) if has_f else math.nan, next(g_values)) for _ in ask.values_at]
        history.append(History(lifted, seen, values))
    return history


def _looking_up(
    h: SmoothFunction, asks: Sequence[Ask], of: Callable[[Point], PointWithImage]
) -> Callable[[], tuple[Iterator[Image], Iterator[Minorant], Iterator[float]]]:
    """All that the asks want to know of h, in their order, once it is waited for."""
    images = h.forward(*(ask.lift for ask in asks if ask.lift is not None))
    at = [of(point) for ask in asks for point in ask.at]
    values_at = [of(point) for ask in asks for point in ask.values_at]
    looking = h.evaluate_async(at, values_at) if at or values_at else None

    def end() -> tuple[Iterator[Image], Iterator[Minorant], Iterator[float]]:
        seen, values = looking() if looking is not None else ([], [])
        return iter(images), iter(seen), iter(values)

    return end


def _doubt(state: State, move: Move) -> State:
    """With the free checks of this step counted."""
    lipschitz_violations = (
        state.lipschitz_violations[0] + move.lipschitz_violations[0],
        state.lipschitz_violations[1] + move.lipschitz_violations[1],
    )
    convexity_violations = (
        state.convexity_violations[0] + move.convexity_violations[0],
        state.convexity_violations[1] + move.convexity_violations[1],
    )
    return state._replace(
        lipschitz_violations=lipschitz_violations, convexity_violations=convexity_violations
    )


# -- what is known at the start, and when nothing is proved ---------------------------------------


def _curvature(
    problem: Problem, h: SmoothFunction, here: Minorant, other: Minorant
) -> tuple[float, bool]:
    """How much the gradient of h turns per length on a short way down: a first guess of L_h.

    And whether it turns the wrong way, as that of no convex function does.
    """
    way = here.slope if arrays.max_abs(here.slope) > 0.0 else other.slope
    steepness = arrays.norm(way)
    if not 0.0 < steepness < math.inf:
        return 0.0, False
    # In the units of x: its own length, how far h could fall to 0, or one step with a known L.
    length = max(arrays.norm(here.at), abs(here.value) / steepness)
    if 0.0 < h.known_lipschitz < math.inf:
        length = steepness / h.known_lipschitz
    there = problem.domain.project(here.at - (PROBE * (length or 1.0) / steepness) * way)
    move, turn = there - here.at, h.gradient(there) - here.slope
    moved, turned, slope = arrays.norm(move), arrays.norm(turn), arrays.norm(here.slope)
    epsilon = arrays.epsilon(here.at)
    if not (moved > 0.0 and 64.0 * epsilon * slope < turned < math.inf):
        return 0.0, False
    parts = max(abs(here.value), here.size)
    _, error = h.rounding(arrays.norm(here.at) + moved, parts, slope, epsilon, int(move.shape[0]))
    slack = (4.0 * error + 16.0 * epsilon * turned + h.defect * moved) * moved
    return turned / moved, arrays.dot(turn, move) < -slack


def _ratio(p: float, q: float) -> float:
    """p/q, or 0 where that says nothing."""
    return p / q if p > 0.0 and q > 0.0 and math.isfinite(p / q) else 0.0


def _marked(state: State, value: float) -> tuple[float, float]:
    """h(x) at the last two powers of two of the age, which becomes one more."""
    age = state.age + 1
    return (state.marks[1], value) if age & (age - 1) == 0 else state.marks


def _has_settled(state: State, excess: float) -> bool:
    """Is h(x) - min h small beside what x gives up of g, as far as can be told without a proof?

    By the inequality, with the way that z has gone for |z_0 - x*|, and by how much h has fallen
    since half of the steps were done; phases grow longer by half at least.
    """
    main = state.main
    way = main.z.x - main.origin
    left = 0.5 * arrays.dot(way, way) / main.A if main.A > 0.0 else 0.0
    left = max(left, state.marks[0] - main.value)
    return left <= 0.25 * excess and state.age >= max(4, state.k // 3)
