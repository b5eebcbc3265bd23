"""Multipliers: x* to many digits without structure, matrices or constants, penalties included.

    x_k = argmin over Z of  g + eta f + sum_{i<k} l_i,
    l_i = g1(x_i) + <grad g1(x_i), . - x_i> + g2

Each round adds the minorant of g that it has seen at its end, with eta as it is: the method of
multipliers (Hestenes, Powell 1969; for two levels Osher, Burger, Goldfarb, Xu, Yin 2005). Where g
is g1 = phi(Ax) + <c, x>, phi strictly convex, plus g2, the sum of the minorants is smallest on all
minimisers of g, so that adding it does not change the answer, while its slope takes over what f
pulls: x_k goes to x* itself, and the conditions of the inner problem stay what they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiebreak import arrays
from tiebreak.arrays import Array
from tiebreak.certificate import News
from tiebreak.domains import Box
from tiebreak.functions import Seen
from tiebreak.methods import conjugate
from tiebreak.methods.apg import need_joint_prox
from tiebreak.methods.common import is_due, out_of_bounds
from tiebreak.methods.conjugate import Conjugate
from tiebreak.methods.curvature import DENSE, Curvature
from tiebreak.methods.probes import Probes, unknown
from tiebreak.methods.tangents import Tangent, along_terms
from tiebreak.problem import Problem
from tiebreak.terms import Terms

SHARE = 0.2  # the first eta, beside the one that makes f bend as much as g
STRAIGHT = 1e-3  # the same for conjugate gradients, which hardly mind: fewer rounds
CLOSE = 0.1  # a round ends where so much of what x lacks below is left of the slope of its sum
SLOW, EASIER = 0.3, 0.25  # where x lacks more than this part of the round before, eta falls
LASTING = 2000  # the same for conjugate gradients, whose slope may rise for long
PATIENCE = 500  # steps without half of the slope gone: rounding is all that is left
SOON = 32  # the same where f has settled but for rounding
ROUNDS = 60
SETTLED = 1e-11  # f is as close as this to f*, relative, as far as the multipliers say
ENOUGH = 2e-10  # the same where each digit costs many steps, for want of a Hessian
GOOD = 1e-7  # from here on x is better than what is asked as a rule
ROUNDING = 8.0  # units of rounding that a slope has
AGAIN = 0.25  # of the steps that Hessians cost: so many more with them, and they are found anew
WORTHWHILE = 16  # fewer steps than this need no Hessians
PROBE = 1e-4  # how far curvature is probed, beside the size of x
ARMIJO = 1e-4
RELEASE = 0.3  # where less of the slope is along the face, others take its place
STEEPER, PROOFS = 0.25, 7  # from one t of the proof to the next; so many of them
TILTED = 0.5  # of <c, Hc> t, for the right signs of a slope
EXACT = 0.02  # of <c, Hc> t: a slope that loses no more than this is left as it is
TRIES, LONGER = 16, 10.0  # cuts for one t at most; how much longer a step may become
INSIDE = 1e-5  # less than the multipliers say, so that a slope is inside the dual ball of f2


class Look(NamedTuple):
    """The sum of a round at a point; f and g are minorants of f1 and g1."""

    f: Seen
    g: Seen
    value: float
    smooth: Array  # the slope of its smooth part
    slope: Array  # the same with the slope of the penalties, along the face of the point

    @property
    def x(self) -> Array:
        """The point."""
        return self.f.at


class Proof(NamedTuple):
    """Where the next cut of the proof is seen: at x + t c."""

    t: float
    c: Array
    bend: float  # <c, Hc>, H the Hessian of g1
    rounding: float  # of a cut, as a value of g
    reach: float  # how long a way in Z can be, or what a tilt of 1 costs
    is_tilted: bool
    tilt: Array  # the signs that the slope left over has to have, where Z is unbounded; else 0
    lean: Array  # how far the minimiser of f + g/eta leans where it is tilted by so much
    rungs: int  # how many t there were before
    tries: int  # how many c there were for this t
    d: Array  # the last step of c
    left: Array  # what slope was left over before it, along the face


class State(NamedTuple):
    """Where the rounds are; x is the last point that a round ended with."""

    k: int
    x: Array
    upper_value: float
    lower_value: float
    eta: float
    pull: Array  # sum of grad g1(x_i)/eta_i over the rounds
    weight: float  # sum of 1/eta_i
    points: Array  # sum of x_i/eta_i
    here: Look  # the iterate of this round
    curvature: Curvature
    probes: Probes | None  # both Hessians along the face, where that has become worth its price
    since: int  # steps without them
    is_straight: bool  # are rounds solved by conjugate gradients?
    conjugate: Conjugate | None  # where these are, from ``here`` on
    least: float  # the smallest slope since ``stalled`` steps
    stalled: int
    scale: float  # 1/L for the first step of L-BFGS
    rounds: int
    lacks: float  # how far x_k is from a minimiser of g, as a slope
    off: float  # about |f(x) - f*|, relative
    proof: Proof | None  # None before f has settled
    finished: tuple[str, str]
    steep: tuple[int, int]  # how often f, g rose more than their Lipschitz constants allow
    bent: tuple[int, int]  # how often f, g fell below their own minorants, as no convex one can
    news: News

    @property
    def is_settling(self) -> bool:
        """Is f about to become more accurate, whatever is proved?"""
        return self.proof is None and not self.finished[0]

    @property
    def is_good(self) -> bool:
        """Is x better than where it began, as far as can be told?"""
        return self.off <= GOOD or self.proof is not None

    @property
    def is_milestone(self) -> bool:
        """Is this the end of a round?"""
        return bool(self.news.lower)


@dataclass(frozen=True)
class Multipliers:
    """The method of multipliers for two levels; see the head of the file.

    A round is solved by L-BFGS on the face that its point is on (Liu, Nocedal 1989), with steps of
    the prox where the face has to change, up to a part of what x lacks below. With c = sum of
    (x_i - x)/eta_i the multipliers are grad g1(x + t c)/t + O(t), so that

        |f(x) - f*|  is about  |c| |what x lacks below, as a slope|   and
        f* >= min over Z of  f1's minorant at x + f2 + (g1's minorant at x + t c + g2 - g*)/t
            = f* - O(t):

    the proof, from one gradient for each t, and some more to correct c where g1 is not quadratic.
    x + t c is in Z for t sum 1/eta_i <= 1, as a mixture of x and the x_i. Nothing is claimed: the
    certificate says what it is worth.

    Where f and g are quadratic with many variables, and nothing bounds x, a round is solved by
    conjugate gradients.

    Args:
        gives_up: end where that turns out not to be enough, for the ball binds.
    """

    gives_up: bool = False

    name: ClassVar[str] = "multipliers"
    paper: ClassVar[str] = "none: the method of multipliers, for two levels"
    assumptions: ClassVar[str] = "f, g convex, each smooth + penalty; with Z they have a joint prox"
    guarantee: ClassVar[str] = "none: a point is taken only where it is proved"

    def check(self, problem: Problem) -> None:
        """Refuse a problem outside the assumptions, with one sentence."""
        need_joint_prox("Multipliers", problem)

    def describe(self, problem: Problem) -> str:
        """The method in words."""
        way = ", by conjugate gradients" if self.gives_up else ""
        return f"the method of multipliers{way}"

    def init(self, problem: Problem, x0: Array, eta: float = 0.0) -> State:
        """Both curvatures along the slopes, and the eta that makes them comparable."""
        x = problem.prox(x0, 0.0, 0.0)
        f_x, g_x = _seen(problem, x)
        bend_f, bend_g = _bends(problem, f_x, g_x)
        is_straight = int(x.shape[0]) > DENSE and conjugate.applies(problem)
        if not eta > 0.0:
            is_fine = arrays.epsilon(x) < STRAIGHT**3  # eta f is known to epsilon/eta of its size
            share = STRAIGHT if is_straight and is_fine else SHARE
            eta = share * bend_g / bend_f if bend_f > 0.0 else 0.0
            weight = 0.0
        else:  # where x is about argmin g + eta f, its slope is a first multiplier
            weight = 1.0 / eta
        bend = bend_g + eta * bend_f
        f2, g2 = problem.penalties
        values = f_x.value + f2.value(x), g_x.value + g2.value(x)
        pull, points = weight * g_x.slope, weight * x
        return State(
            k=0, x=x, upper_value=values[0], lower_value=values[1], eta=eta,
            pull=pull, weight=weight, points=points,
            here=_look(problem, f_x, g_x, eta, pull, weight),
            curvature=Curvature(), probes=None, since=0,
            is_straight=is_straight, conjugate=None, least=math.inf, stalled=0,
            scale=1.0 / bend if bend > 0.0 else 1.0,
            rounds=0, lacks=math.inf, off=math.inf, proof=None,
            finished=("", ""), steep=(0, 0), bent=(0, 0), news=News(values=((values[1], x, g_x),)),
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """One step of L-BFGS, conjugate gradients or the prox; a round may end, the next begin."""
        state = state._replace(k=state.k + 1, news=News())
        if state.proof is not None:
            return _proved(problem.in_precision_of(state.x), state, state.proof)
        if not 0.0 < state.eta < math.inf:
            return _ended(state, "there is no slope to follow")
        if state.conjugate is not None:
            return self._conjugated(problem, state, state.conjugate)
        face = _face(problem, state, state.here.x)
        if _is_probing(state, face):
            return _probed(problem, state, face)
        here, t = state.here, state.scale
        weights = state.eta, 1.0 + state.eta * state.weight
        pushed = problem.prox(here.x - t * here.smooth, t * weights[0], t * weights[1])
        left = arrays.norm(here.x - pushed) / t
        lower = problem.prox(here.x - t * here.g.slope, 0.0, t)
        lacks = arrays.norm(here.x - lower) / t
        if left < 0.5 * state.least:
            state = state._replace(least=left, stalled=0)
        else:
            state = state._replace(stalled=state.stalled + 1)
        if left <= max(CLOSE * lacks, _floor(state)):
            return _round(problem, state, max(lacks, left))
        enough = max(ENOUGH, 32.0 * arrays.epsilon(here.x))
        if state.stalled >= SOON and state.off <= enough:  # the round before was the last one
            return _settled(problem, state._replace(here=_at(problem, state, state.x)))
        if state.stalled >= PATIENCE:
            return _ended(state, "a round could not be solved to rounding")
        if state.is_straight:
            return self._conjugated(problem, state, conjugate.begun(here.g, here.smooth))
        if arrays.norm(here.slope) < RELEASE * left:
            return _released(problem, state, face)
        return _moved(problem, state, face)

    def _conjugated(self, problem: Problem, state: State, way: Conjugate) -> State:
        """One step of conjugate gradients; where they end, a look at what they have reached."""
        here, noise = state.here, ROUNDING * arrays.epsilon(state.x)
        after = way.step(problem, here.f, here.g, state.eta)
        if after is not None:
            left, lacks = math.sqrt(after.square), arrays.norm(after.lower)
            is_halved = left < 0.5 * state.least
            state = state._replace(
                conjugate=after,
                least=left if is_halved else state.least,
                stalled=0 if is_halved else state.stalled + 1,
            )
            floor = max(_floor(state), noise * arrays.norm(after.moved) / state.scale)
            is_over = left <= max(0.5 * CLOSE * lacks, floor) or state.stalled >= LASTING
            if not is_over and not is_due(state.k):
                return state
            way = after
        x = here.x + way.moved
        if arrays.norm(x - problem.domain.project(x)) > 0.0:  # the ball binds, or may do so
            state = state._replace(conjugate=None, is_straight=False)
            return _ended(state, "the ball binds") if self.gives_up else state
        there = _at(problem, state, x)
        if after is not None and not is_over:  # only shown, in a round that takes long
            f, g = there.f.value, there.g.value
            news = News(lower=((1.0, there.g),), values=((g, x, there.g),))
            return state._replace(x=x, upper_value=f, lower_value=g, news=news)
        return _doubted(problem, state, there)._replace(here=there, conjugate=None)


def _round(problem: Problem, state: State, lacks: float) -> State:
    """The end of a round: what is f worth here, and the next minorant."""
    here = state.here
    f2, g2 = problem.penalties
    x, f, g = here.x, here.f.value + f2.value(here.x), here.g.value + g2.value(here.x)
    eta = state.eta
    slower = lacks > SLOW * state.lacks
    weight = state.weight + 1.0 / eta
    pull, points = state.pull + here.g.slope / eta, state.points + x / eta
    size = abs(f) + (arrays.norm(here.f.slope) + _steepness(f2.terms, x)) * arrays.norm(x)
    t = state.scale
    lower = problem.prox(here.x - t * here.g.slope, 0.0, t)
    gain = abs(arrays.dot(points - weight * x, x - lower)) / t
    gain = max(gain, abs(f - state.upper_value))
    if state.is_straight and state.rounds == 0 and state.weight == 0.0:
        gain = math.inf  # one point tells nothing, and the last value may be of the same round
    off = gain / size if size > 0.0 else 0.0
    news = News(lower=((1.0, here.g),), values=((g, x, here.g),))
    state = state._replace(
        x=x, upper_value=f, lower_value=g, rounds=state.rounds + 1, lacks=lacks, off=off,
        pull=pull, weight=weight, points=points, news=news,
    )  # fmt: skip
    enough = SETTLED if int(x.shape[0]) <= DENSE else ENOUGH
    if off <= max(enough, 32.0 * arrays.epsilon(x)) or lacks <= _floor(state):
        return _settled(problem, state)
    if state.rounds >= ROUNDS:
        return _ended(state, "f does not settle")
    if slower:
        eta *= EASIER
    look = _look(problem, here.f, here.g, eta, pull, weight)
    state = state._replace(eta=eta, here=look, least=math.inf, stalled=0)
    return _rebuilt(problem, state, _face(problem, state, x)) if slower else state


def _settled(problem: Problem, state: State) -> State:
    """The proof begins.

    A cut is off by t <c, Hc>/2 and by rounding/t: the t are around the best one, the largest first.
    """
    if arrays.is_single(state.x) and problem.widened is not None:
        problem = problem.widened
        state = _widened(problem, state)
    x, here = state.x, state.here
    c = state.points - state.weight * x
    bend = abs(arrays.dot(c, state.pull - state.weight * here.g.slope))
    length, reach = arrays.norm(x), problem.domain.diameter_in(int(x.shape[0]))
    reach = min(reach, 2.0 * (problem.radius or math.inf))
    reach = max(length, reach if math.isfinite(reach) else 0.0)
    steepness, parts = arrays.norm(here.g.slope), max(abs(here.g.value), here.g.size)
    of_value, of_slope = problem.lower.rounding(
        length, parts, steepness, arrays.epsilon(x), int(x.shape[0])
    )  # as in the certificate
    rounding = 2.0 * of_value + of_slope * (length + reach) + state.lacks * reach
    t = math.sqrt(2.0 * rounding / bend) if bend > 0.0 else 0.0
    if not 0.0 < t < math.inf:
        t = 1.0 / state.weight
    t *= STEEPER ** -(PROOFS // 2)
    nothing = arrays.zeros_like(x)
    tilt, cost = _tilt(problem, x)
    reach = max(reach, cost)
    lean = _face(problem, state, x).along(state.curvature.times(state.eta * tilt, state.scale))
    begun = Proof(t, c, bend, rounding, reach, cost > 0.0, tilt, lean, 0, 0, nothing, nothing)
    return state._replace(proof=begun)


def _widened(problem: Problem, state: State) -> State:
    """With the point as it is, in double precision, and ``problem`` in it too: for the proof."""
    x, t = arrays.double(state.x), state.scale
    f_x, g_x = _seen(problem, x)
    f2, g2 = problem.penalties
    inside, near = problem.domain.project(x), g_x  # x was rounded, perhaps out of Z
    if arrays.norm(x - inside) > 0.0:
        near = _seen(problem, inside)[1]
    pull, points = map(arrays.double, (state.pull, state.points))
    lacks = arrays.norm(x - problem.prox(x - t * g_x.slope, 0.0, t)) / t
    return state._replace(
        x=x, upper_value=f_x.value + f2.value(x), lower_value=g_x.value + g2.value(x),
        pull=pull, points=points, lacks=lacks,
        here=_look(problem, f_x, g_x, state.eta, pull, state.weight),
        curvature=Curvature(), probes=None,
        news=News(lower=((1.0, g_x),), values=((near.value + g2.value(inside), inside, near),)),
    )  # fmt: skip


def _tilt(problem: Problem, x: Array) -> tuple[Array, float]:
    """1 where a free entry has no upper bound, -1 where it has no lower one; and what that costs.

    A linear function over a box with infinite sides is bounded from below only if its slope has
    the right signs along them, to the last bit: it is tilted so that it surely has. A slope of s
    times these signs is smaller at the corner than at x, by s times the cost.
    """
    box, xp, zero = problem.domain, arrays.namespace(x), arrays.zeros_like(x)
    if not isinstance(box, Box) or problem.radius is not None or not problem.is_smooth:
        return zero, 0.0
    low, high = (zero + arrays.like(bound, x) for bound in (box.lower, box.upper))
    up = (high == math.inf) & (low < x) & (low > -math.inf)
    down = (low == -math.inf) & (x < high) & (high < math.inf)
    cost = xp.sum(xp.where(up, x - low, zero) + xp.where(down, high - x, zero))
    return xp.astype(up, x.dtype) - xp.astype(down, x.dtype), float(cost)


def _proved(problem: Problem, state: State, proof: Proof) -> State:
    """The next cut of the proof, and a better c, or the next t.

    The slope of a cut at x + t c, over t, should be minus that of f along the face (but for the
    tilt). What is left of the sum is answered by c, with the Hessian of the rounds for that of g,
    and with the length that would have been the best one of the last step.
    """
    x, here, t = state.x, state.here, proof.t
    (point,) = problem.lift(problem.domain.project(x + t * proof.c))
    (g_y,), _ = problem.lower.look([point.g])
    f_y, s = here.f, 0.0
    if proof.is_tilted:
        s = TILTED * t * proof.bend / proof.reach  # as much as the cut is off by anyway
        (leaned,) = problem.lift(problem.domain.project(x + s * proof.lean))
        (f_y,), _ = problem.upper.look([leaned.f])
    inside = INSIDE if any(problem.penalties[0].terms.weights) else 0.0
    news = News(
        upper=((1.0, f_y),),
        cuts=(((1.0 - inside) / t, g_y),),
        lower=((1.0, here.g),),
    )
    face, steepest = _face(problem, state, x), along_terms(problem.joint.terms(t, 1.0), point.x)[1]
    slope = g_y.slope if steepest is None else g_y.slope + steepest
    slope = f_y.slope + slope / t - s * proof.tilt
    left = face.along(slope)
    lost = arrays.norm(left) * proof.reach
    if problem.is_smooth:  # on a sphere it is of second order
        lost = min(lost, arrays.dot(slope, x) + problem.domain.support(-1.0 * slope))
    is_close = lost <= EXACT * max(t * proof.bend, proof.rounding / t)
    c, ahead = proof.c, left
    if proof.tries > 0:
        turn = left - proof.left
        bent, fell = arrays.dots((turn, proof.d), (proof.left, proof.d))
        longer = min(-fell / bent, LONGER) - 1.0 if bent > 0.0 else 0.0
        c, ahead = c + longer * proof.d, left + longer * turn
        state = state._replace(curvature=state.curvature.learned(proof.d, turn))
    d = -face.along(state.curvature.times(ahead, state.scale))
    proof = proof._replace(c=c + d, d=d, left=ahead, tries=proof.tries + 1)
    if is_close or proof.tries >= TRIES:
        proof = proof._replace(t=STEEPER * t, rungs=proof.rungs + 1, tries=0)
    state = state._replace(proof=proof, news=news)
    return _ended(state, "") if proof.rungs >= PROOFS else state


def _ended(state: State, why: str) -> State:
    """The end, with an answer if f has settled."""
    if state.proof is not None:
        why = f"f has settled after {state.rounds} rounds of the method of multipliers"
        return state._replace(finished=("settled", why))
    return state._replace(finished=("undetermined", why))


# -- the sum of a round ---------------------------------------------------------------------------


def _seen(problem: Problem, x: Array) -> tuple[Seen, Seen]:
    (point,) = problem.lift(x)
    return problem.upper.look([point.f])[0][0], problem.lower.look([point.g])[0][0]


def _look(problem: Problem, f: Seen, g: Seen, eta: float, pull: Array, weight: float) -> Look:
    """g + eta f + eta (<pull, .> + weight g2) at a point."""
    x, terms = f.at, problem.joint.terms(eta, 1.0 + eta * weight)
    smooth = g.slope + eta * (f.slope + pull)
    value = g.value + eta * (f.value + arrays.dot(pull, x)) + terms.value(x)
    face, steepest = along_terms(terms, x)
    slope = face.along(smooth if steepest is None else smooth + steepest)
    return Look(f, g, value, smooth, slope)


def _face(problem: Problem, state: State, x: Array) -> Tangent:
    """The face that x is on; no part of the state, which is saved."""
    terms = problem.joint.terms(state.eta, 1.0 + state.eta * state.weight)
    return along_terms(terms, x)[0]


def _sizes(state: State) -> float:
    """How large the parts are that cancel in the slope of the sum."""
    f, g = state.here.f, state.here.g
    return arrays.norm(g.slope) + state.eta * (arrays.norm(f.slope) + arrays.norm(state.pull))


def _floor(state: State) -> float:
    """What is left of a slope by rounding."""
    sizes = _sizes(state)
    if state.is_straight:  # a residual of 0 has no size of its own, but x is rounded
        sizes += arrays.norm(state.here.x) / state.scale
    return ROUNDING * arrays.epsilon(state.here.x) * sizes


def _noise(state: State) -> float:
    """How much rounding may change the sum."""
    f, g, eta = state.here.f, state.here.g, state.eta
    sizes = max(abs(g.value), g.size) + eta * max(abs(f.value), f.size)
    sizes += _sizes(state) * arrays.norm(f.at)  # x is rounded too, off the face
    return 16.0 * arrays.epsilon(f.at) * sizes


def _bends(problem: Problem, f_x: Seen, g_x: Seen) -> tuple[float, float]:
    """About how much both slopes turn, per length."""
    x = f_x.at
    bend_f, bend_g = 0.0, 0.0
    for way in (f_x.slope, g_x.slope, -1.0 * f_x.slope, -1.0 * g_x.slope):
        if bend_g > 0.0 or not arrays.norm(way) > 0.0:
            continue
        fall = abs(g_x.value) / (arrays.norm(g_x.slope) or math.inf)  # a length, in units of x
        length = PROBE * (arrays.norm(x) or fall or 1.0)
        there = problem.domain.project(x - (length / arrays.norm(way)) * way)
        moved = arrays.norm(there - x)
        if moved > 0.0:
            f_y, g_y = _seen(problem, there)
            bend_f = arrays.norm(f_y.slope - f_x.slope) / moved
            bend_g = arrays.norm(g_y.slope - g_x.slope) / moved
    return bend_f or arrays.norm(f_x.slope) / (arrays.norm(x) or 1.0), bend_g


def _steepness(terms: Terms, x: Array) -> float:
    n = int(x.shape[0])
    return terms.steepness(n, arrays.norm(x)) if any(terms.weights) else 0.0


# -- Hessians ------------------------------------------------------------------------------------


def _is_probing(state: State, face: Tangent) -> bool:
    """Are columns of the Hessians to be found out next, or anew?  Each costs as much as a step.

    Once as many steps were taken: at worst twice of what is needed is spent.
    """
    if face.free is None or int(state.x.shape[0]) > DENSE:
        return False
    if state.probes is not None and len(state.probes.missing(face)):
        return True
    share = 1.0 if state.probes is None else AGAIN
    return state.since > max(share * arrays.dot(face.free, face.free), WORTHWHILE)


def _probed(problem: Problem, state: State, face: Tangent) -> State:
    """Some more columns; with the last one the inverse."""
    here, probes = state.here, state.probes
    if probes is None or not len(probes.missing(face)):
        probes = unknown(here.x)
    probes = probes.probed(problem, here.f, here.g, face)
    state = state._replace(probes=probes, since=0)
    return state if len(probes.missing(face)) else _rebuilt(problem, state, face)


def _rebuilt(problem: Problem, state: State, face: Tangent) -> State:
    """With the inverse Hessian of this sum on this face, where all of it is known."""
    here, probes = state.here, state.probes
    if probes is None or face.free is None or len(probes.missing(face)):
        return state
    terms = problem.joint.terms(state.eta, 1.0 + state.eta * state.weight)
    steepest = along_terms(terms, here.x)[1]
    slope = here.smooth if steepest is None else here.smooth + steepest
    inverse = probes.inverse(state.eta, terms, here.x, face, face.bend(slope))
    return state._replace(curvature=Curvature(inverse), since=0)


# -- steps ---------------------------------------------------------------------------------------


def _doubted(problem: Problem, state: State, there: Look) -> State:
    """With the free checks of this step counted."""
    (f1, g1), here = problem.smooth_parts, state.here
    d = there.x - here.x
    along_f, along_g, square = arrays.dots((here.f.slope, d), (here.g.slope, d), (d, d))
    f = out_of_bounds(f1, here.f, there.f.value, along_f, square)
    g = out_of_bounds(g1, here.g, there.g.value, along_g, square)
    return state._replace(
        steep=(state.steep[0] + f[0], state.steep[1] + g[0]),
        bent=(state.bent[0] + f[1], state.bent[1] + g[1]),
    )


def _at(problem: Problem, state: State, x: Array) -> Look:
    return _look(problem, *_seen(problem, x), state.eta, state.pull, state.weight)


def _moved(problem: Problem, state: State, face: Tangent) -> State:
    """One step along the face, as long as the sum falls enough, or its slope where it is flat."""
    here = state.here
    slope = here.slope
    d = face.along(-state.curvature.times(slope, state.scale))
    fall = arrays.dot(slope, d)
    if not fall < 0.0:  # the memory is worn out
        d, fall = -state.scale * slope, -state.scale * arrays.dot(slope, slope)
        state = state._replace(curvature=Curvature())
    t, noise = 1.0, _noise(state)
    for _ in range(40):
        x = face.retract(here.x + t * d)
        there = _at(problem, state, x)
        rate = arrays.dot(there.slope, d)
        is_lower = there.value <= here.value + ARMIJO * arrays.dot(slope, x - here.x)
        is_flat = there.value <= here.value + noise and abs(rate) <= 0.9 * abs(fall)
        if math.isfinite(there.value) and (is_lower or is_flat):
            break
        if t == 1.0 and 0.0 < (room := face.room(here.x, d)) < 1.0:
            t = room  # bent by the set, a step need not fall: now straight to the first bound
            continue
        # The lowest point of the parabola through both values and the first slope.
        bend = there.value - here.value - t * fall
        best = -0.5 * fall * t * t / bend if math.isfinite(bend) and bend > 0.0 else 0.0
        t = min(max(best, 0.1 * t), 0.5 * t)
    else:  # bent by the projection, a direction need not fall
        return _released(problem, state, face)
    state = _doubted(problem, state, there)
    other = _face(problem, state, x)
    if arrays.max_abs(other.key - face.key) > 0.0:
        return _faced(problem, state, there, face, other)
    curvature = state.curvature.learned(x - here.x, there.slope - slope)
    return state._replace(here=there, curvature=curvature, since=state.since + 1)


def _faced(problem: Problem, state: State, there: Look, before: Tangent, after: Tangent) -> State:
    """On another face."""
    curvature = state.curvature.onto(before, after)
    state = state._replace(here=there, curvature=curvature, since=state.since + 1)
    return _rebuilt(problem, state, after)


def _released(problem: Problem, state: State, face: Tangent) -> State:
    """One step of the prox: off the face, or onto another one, where the slope says so."""
    here, t, noise = state.here, state.scale, _noise(state)
    weights = state.eta, 1.0 + state.eta * state.weight
    for _ in range(60):
        x = problem.prox(here.x - t * here.smooth, t * weights[0], t * weights[1])
        there, d = _at(problem, state, x), x - here.x
        # The smooth parts alone, without the penalties.
        rise = there.g.value - here.g.value - arrays.dot(here.g.slope, d)
        rise += state.eta * (there.f.value - here.f.value - arrays.dot(here.f.slope, d))
        if math.isfinite(there.value) and rise <= 0.5 * arrays.dot(d, d) / t + noise:
            state = _doubted(problem, state, there)
            state = state._replace(scale=1.5 * t)
            return _faced(problem, state, there, face, _face(problem, state, x))
        t *= 0.5
    return state._replace(stalled=PATIENCE)
