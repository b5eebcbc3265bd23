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
from typing import ClassVar

from tiebreak.algorithms.base import Method, Refusal, StateReport
from tiebreak.algorithms.common import is_due, out_of_bounds
from tiebreak.algorithms.fista import need_joint_prox
from tiebreak.auto import conjugate_gradients, refinement_proof
from tiebreak.auto.active_face import ActiveFace, along_terms
from tiebreak.auto.bregman_state import Look, State, face_at, seen_at, sum_at
from tiebreak.auto.conjugate_gradients import Conjugate
from tiebreak.auto.hessian_differences import unknown
from tiebreak.auto.quasi_newton import DENSE, Curvature
from tiebreak.functions.base import Minorant
from tiebreak.functions.terms import Terms
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import StepEvidence

SHARE = 0.2  # the first eta, beside the one that makes f bend as much as g
HEAVIEST = 1e3  # an eta that makes f bend so much more than g is none to begin with
STRAIGHT = 1e-3  # the same for conjugate gradients, which hardly mind: fewer rounds
CLOSE = 0.1  # a round ends where so much of what x lacks below is left of the slope of its sum
SLOW, EASIER = 0.3, 0.25  # where x lacks more than this part of the round before, eta falls
LASTING = 2000  # the same for conjugate gradients, whose slope may rise for long
PATIENCE = 500  # steps without half of the slope gone: rounding is all that is left
SOON = 32  # the same where f has settled but for rounding
ROUNDS = 60
SETTLED = 1e-11  # f is as close as this to f*, relative, as far as the multipliers say
ENOUGH = 2e-10  # the same where each digit costs many steps, for want of a Hessian
ROUNDING = 8.0  # units of rounding that a slope has
AGAIN = 0.25  # of the steps that Hessians cost: so many more with them, and they are found anew
WORTHWHILE = 16  # fewer steps than this need no Hessians
PROBE = 1e-4  # how far curvature is probed, beside the size of x
ARMIJO = 1e-4
GOOD = 1e-7  # from here on x is better than what is asked as a rule
RELEASE = 0.3  # where less of the slope is along the face, others take its place


@dataclass(frozen=True)
class BregmanIteration(Method):
    """The method of multipliers for two levels; see the head of the file.

    A round is solved by L-BFGS on the face that its point is on (Liu, Nocedal 1989), with steps of
    the prox where the face has to change, up to a part of what x lacks below. With c = sum of
    (x_i - x)/eta_i the multipliers are grad g1(x + t c)/t + O(t), so that

        |f(x) - f*|  is about  |c| |what x lacks below, as a slope|.

    Where that says that f has settled, the proof begins: see `polished`.

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

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse a problem outside the assumptions."""
        return need_joint_prox("Multipliers", problem)

    def describe(self, problem: Problem) -> str:
        """The method in words."""
        way = ", by conjugate gradients" if self.gives_up else ""
        return f"the method of multipliers{way}"

    def report(self, state: State) -> StateReport:
        """How it ended, whether f has settled, and what the consistency checks have found."""
        is_proving = state.proof is not None
        return StateReport(
            finished=state.finished,
            eta=state.eta,
            is_good=state.off <= GOOD or is_proving,
            is_settling=not is_proving and not state.finished[0],
            is_milestone=bool(state.evidence.lower),  # the end of a round
            lipschitz_violations=state.lipschitz_violations,
            convexity_violations=state.convexity_violations,
        )

    def init(self, problem: Problem, x0: Array) -> State:
        """At x0, where nothing is known of eta."""
        return self.init_near(problem, x0, 0.0)

    def init_near(self, problem: Problem, x0: Array, eta: float) -> State:
        """Both curvatures along the slopes, and the eta that makes them comparable."""
        x = problem.prox(x0, 0.0, 0.0)
        f_x, g_x = seen_at(problem, x)
        bend_f, bend_g = _bends(problem, f_x, g_x)
        is_straight = int(x.shape[0]) > DENSE and conjugate_gradients.applies(problem)
        is_heavy = eta * bend_f > HEAVIEST * bend_g > 0.0
        if is_heavy or not eta > 0.0:
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
            here=sum_at(problem, f_x, g_x, eta, pull, weight),
            curvature=Curvature(), probes=None, since=0,
            is_straight=is_straight, conjugate=None, least=math.inf, stalled=0,
            scale=1.0 / bend if bend > 0.0 else 1.0,
            rounds=0, lacks=math.inf, off=math.inf, proof=None,
            finished=("", ""), lipschitz_violations=(0, 0), convexity_violations=(0, 0),
            evidence=StepEvidence(values=((values[1], x, g_x),)),
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """One step of L-BFGS, conjugate gradients or the prox; a round may end, the next begin."""
        state = state._replace(k=state.k + 1, evidence=StepEvidence())
        if state.proof is not None:
            return refinement_proof.next_cut(problem.in_precision_of(state.x), state, state.proof)
        if not 0.0 < state.eta < math.inf:
            return _ended(state, "there is no slope to follow")
        if state.conjugate is not None:
            return self._conjugated(problem, state, state.conjugate)
        face = face_at(problem, state, state.here.x)
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
            return refinement_proof.begun(
                problem, state._replace(here=_at(problem, state, state.x))
            )
        if state.stalled >= PATIENCE:
            return _ended(state, "a round could not be solved to rounding")
        if state.is_straight:
            return self._conjugated(problem, state, conjugate_gradients.begun(here.g, here.smooth))
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
            evidence = StepEvidence(lower=((1.0, there.g),), values=((g, x, there.g),))
            return state._replace(x=x, upper_value=f, lower_value=g, evidence=evidence)
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
    if state.weight == 0.0:
        gain = math.inf  # one point tells nothing, and the last value may be that of the same sum
    off = gain / size if size > 0.0 else 0.0
    evidence = StepEvidence(lower=((1.0, here.g),), values=((g, x, here.g),))
    state = state._replace(
        x=x, upper_value=f, lower_value=g, rounds=state.rounds + 1, lacks=lacks, off=off,
        pull=pull, weight=weight, points=points, evidence=evidence,
    )  # fmt: skip
    enough = SETTLED if int(x.shape[0]) <= DENSE else ENOUGH
    if off <= max(enough, 32.0 * arrays.epsilon(x)) or lacks <= _floor(state):
        return refinement_proof.begun(problem, state)
    if state.rounds >= ROUNDS:
        return _ended(state, "f does not settle")
    if slower:
        eta *= EASIER
    look = sum_at(problem, here.f, here.g, eta, pull, weight)
    state = state._replace(eta=eta, here=look, least=math.inf, stalled=0)
    return _rebuilt(problem, state, face_at(problem, state, x)) if slower else state


def _ended(state: State, why: str) -> State:
    """The end without an answer."""
    return state._replace(finished=("undetermined", why))


# -- sizes ----------------------------------------------------------------------------------------


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


def _bends(problem: Problem, f_x: Minorant, g_x: Minorant) -> tuple[float, float]:
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
            f_y, g_y = seen_at(problem, there)
            bend_f = arrays.norm(f_y.slope - f_x.slope) / moved
            bend_g = arrays.norm(g_y.slope - g_x.slope) / moved
    return bend_f or arrays.norm(f_x.slope) / (arrays.norm(x) or 1.0), bend_g


def _steepness(terms: Terms, x: Array) -> float:
    n = int(x.shape[0])
    return terms.steepness(n, arrays.norm(x)) if any(terms.weights) else 0.0


# -- Hessians ------------------------------------------------------------------------------------


def _is_probing(state: State, face: ActiveFace) -> bool:
    """Are columns of the Hessians to be found out next, or anew?  Each costs as much as a step.

    Once as many steps were taken: at worst twice of what is needed is spent.
    """
    if face.free is None or int(state.x.shape[0]) > DENSE:
        return False
    if state.probes is not None and len(state.probes.missing(face)):
        return True
    share = 1.0 if state.probes is None else AGAIN
    return state.since > max(share * arrays.dot(face.free, face.free), WORTHWHILE)


def _probed(problem: Problem, state: State, face: ActiveFace) -> State:
    """Some more columns; with the last one the inverse."""
    here, probes = state.here, state.probes
    if probes is None or not len(probes.missing(face)):
        probes = unknown(here.x)
    probes = probes.probed(problem, here.f, here.g, face)
    state = state._replace(probes=probes, since=0)
    return state if len(probes.missing(face)) else _rebuilt(problem, state, face)


def _rebuilt(problem: Problem, state: State, face: ActiveFace) -> State:
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
        lipschitz_violations=(
            state.lipschitz_violations[0] + f[0],
            state.lipschitz_violations[1] + g[0],
        ),
        convexity_violations=(
            state.convexity_violations[0] + f[1],
            state.convexity_violations[1] + g[1],
        ),
    )


def _at(problem: Problem, state: State, x: Array) -> Look:
    return sum_at(problem, *seen_at(problem, x), state.eta, state.pull, state.weight)


def _moved(problem: Problem, state: State, face: ActiveFace) -> State:
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
    other = face_at(problem, state, x)
    if arrays.max_abs(other.key - face.key) > 0.0:
        return _faced(problem, state, there, face, other)
    curvature = state.curvature.learned(x - here.x, there.slope - slope)
    return state._replace(here=there, curvature=curvature, since=state.since + 1)


def _faced(
    problem: Problem, state: State, there: Look, before: ActiveFace, after: ActiveFace
) -> State:
    """On another face."""
    curvature = state.curvature.onto(before, after)
    state = state._replace(here=there, curvature=curvature, since=state.since + 1)
    return _rebuilt(problem, state, after)


def _released(problem: Problem, state: State, face: ActiveFace) -> State:
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
            return _faced(problem, state, there, face, face_at(problem, state, x))
        t *= 0.5
    return state._replace(stalled=PATIENCE)
