"""Bregman iteration, which finds x* to many digits from gradients and a prox, with penalties too.

    x_k = argmin over Z of  g + eta f + sum_{i<k} l_i,
    l_i = g1(x_i) + <grad g1(x_i), . - x_i> + g2

Each round adds the minorant of g at its last point and keeps eta: this is Bregman iteration (Osher,
Burger, Goldfarb, Xu, Yin 2005), which for one level is the method of multipliers (Hestenes, Powell
1969). Let g be g2 plus g1 = phi(Ax) + <c, x> with phi strictly convex. Then the sum of the
minorants attains its minimum at every minimiser of g. So adding this sum does not change the
answer, while its slope balances that of f: x_k converges to x* itself, and the inner problem does
not become worse conditioned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiebreak.algorithms import Method, Multipliers, Rate, StateReport, StepEvidence
from tiebreak.algorithms.base import NOT_ENDED
from tiebreak.algorithms.common import (
    is_due,
    minorants_at,
    need_joint_prox,
    out_of_bounds,
    size_of_terms,
    with_violations,
)
from tiebreak.auto import conjugate_gradients, refinement_proof
from tiebreak.auto.active_face import face_of_terms
from tiebreak.auto.bregman_state import RoundObjective, State, face_at, objective_at
from tiebreak.auto.conjugate_gradients import ConjugateGradients, ShortestWay
from tiebreak.auto.hessians import KEPT_MATRIX, InverseHessian, no_columns
from tiebreak.functions import Minorant
from tiebreak.linalg import TOL, Array, Refusal, arrays
from tiebreak.problem import Problem
from tiebreak.proofs.gate import DOUBT, Ended
from tiebreak.sets import ActiveFace

# Constants of the rounds; the unit of eta is the curvature of g divided by that of f.
FIRST_ETA = 0.2  # gives both levels similar weight, so that a few rounds suffice
# for conjugate gradients, which tolerate ill conditioning: a smaller eta means fewer rounds
FIRST_ETA_CG = 1e-3
ROUND_ACCURACY = 0.1  # a round ends when its slope is below this share of g's residual
# if a round leaves more than the share SLOW of g's residual, eta is multiplied by ETA_FALL
SLOW, ETA_FALL = 0.3, 0.25
MAX_ROUNDS = 60  # each round gains a factor of 3 or reduces eta; after this many, f will not settle
F_SETTLED = 1e-11  # f counts as settled at this estimated relative distance from f*
F_SETTLED_COARSELY = 2e-10  # used without a Hessian, where each digit costs many steps
# Constants of the steps of a round.
SLOPE_UNITS = 8.0  # rounding error of a slope, in units of epsilon times the sizes of its parts
ROUND_PATIENCE = 500  # if so many steps do not halve the slope, only rounding is left
CG_PATIENCE = 2000  # patience for conjugate gradients, whose slope may rise for a long time
FEW = 100.0  # rounding errors may add up to this multiple of their estimate, and f is then settled
SETTLED_PATIENCE = 32  # patience with steps along a face, and once f has settled up to rounding
RENEWAL = 0.25  # recompute the Hessians after this many steps per free variable
WORTHWHILE = 16  # Hessians do not pay off for fewer steps than this
RELEASE = 0.3  # change the face if less than this share of the slope lies along it
NO_SLOPE = "there is no slope to follow: near x0, the slopes of f or g are 0 or not finite"


@dataclass(frozen=True)
class BregmanIteration(Method):
    """Bregman iteration for two levels, as described at the top of the file.

    Each round is solved by L-BFGS on the active face of the point (Liu, Nocedal 1989), with prox
    steps if the face has to change, until the slope of the round's objective is below a fixed share
    of the residual of g. With c = sum of (x_i - x)/eta_i, the multipliers are grad g1(x + t c)/t +
    O(t), so that

        |f(x) - f*|  is about  |c| |residual of g at x|.

    Once f has settled according to this estimate, the proof begins: see `refinement_proof`.

    If f and g are quadratic with many variables, and no constraint on x is active, a round is
    solved by conjugate gradients.

    Rounds solved exactly from x_0 = argmin f have g(x_j) - g* <= eta D(x*, x_0)/j, where D is the
    Bregman distance of f (Osher et al.). f tends to f* if g has the form above. If g has a flat
    interior, like a squared hinge, f may settle elsewhere. Without a proof, x therefore counts as
    an answer only if multipliers of g balance the slope of f at x; otherwise the run ends as
    "undetermined".

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.BregmanIteration()).status
        'certified'
    """

    name: ClassVar[str] = "bregman"
    paper: ClassVar[str] = "Bregman iteration: Osher, Burger, Goldfarb, Xu, Yin 2005"
    assumptions: ClassVar[str] = "f, g convex, each smooth + penalty; with Z they have a joint prox"
    guarantee: ClassVar[str] = "g - g* <= O(1/j) after j exact rounds; no rate for f"
    cites: ClassVar[tuple[str, ...]] = ("osher2005",)
    rates: ClassVar[tuple[Rate, ...]] = (Rate("g", 1.0, "rounds solved exactly; k counts rounds"),)
    output: ClassVar[str] = "the point at the end of the last round"

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse a problem outside the assumptions."""
        return need_joint_prox(self, problem)

    def describe(self, problem: Problem) -> str:
        """Describe the method in words."""
        return "Bregman iteration"

    def report(self, state: State) -> StateReport:
        """Report how the run ended, whether f has settled, and what the consistency checks say."""
        is_proving, known = state.proof is not None, state.evidence.intervals
        return StateReport(
            one_sided="" if known is None else known.why,
            finished=state.finished,
            is_good=state.upper_error <= TOL.solver or is_proving,
            is_settling=not is_proving and not state.finished.why,
            is_milestone=bool(state.evidence.lower),  # the end of a round
            multipliers=refinement_proof.multipliers(state),
            lipschitz_violations=state.lipschitz_violations,
            convexity_violations=state.convexity_violations,
        )

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin the first round; if f is a distance, begin with `ShortestWay` instead."""
        state = self._first_round(problem, x0)
        found = conjugate_gradients.shortest(problem, state.x)
        if found is None:
            return state
        x, way = found
        return state._replace(here=_objective_at(problem, state, x), conjugate=way)

    def _first_round(self, problem: Problem, x0: Array) -> State:
        """Estimate each level's curvature along its slope, and the eta that balances both."""
        x = problem.prox(x0, 0.0, 0.0)
        f_x, g_x = minorants_at(problem, *problem.forward(x))
        by_cg = conjugate_gradients.is_taken(problem)
        eta, scale = _balanced(problem, f_x, g_x, by_cg)
        f2, g2 = problem.penalties
        values = f_x.value + f2.value(x), g_x.value + g2.value(x)
        nothing = arrays.zeros_like(x)
        return State(
            k=0, x=x, upper_value=values[0], lower_value=values[1], eta=eta,
            slope_sum=nothing, weight=0.0, point_sum=nothing,
            here=objective_at(problem, f_x, g_x, eta, nothing, 0.0),
            inverse_hessian=InverseHessian(), hessians=None, hessian_age=0,
            by_cg=by_cg, conjugate=None, least=math.inf, stalled=0,
            scale=scale,
            rounds=0, lower_residual=math.inf, upper_error=math.inf, hint=None, proof=None,
            finished=NOT_ENDED, lipschitz_violations=(0, 0), convexity_violations=(0, 0),
            evidence=StepEvidence(values=((values[1], x, g_x),)),
        )  # fmt: skip

    def init_from(self, problem: Problem, x0: Array, multipliers: Multipliers) -> State:
        """Resume the round that ended at x0; if x0 still ends this round, the proof is next.

        The lower level may be another one by now, and only slopes of this one add up to a function
        that is constant on its minimisers. If the former slopes differ from the slope at the mean
        of the former points, so that g is not quadratic or not the same, the latter counts. Without
        g2, the slope at x0 may be subtracted, which grows with the change of the problem.
        """
        eta, slopes, weight, points, t, c, inverse = multipliers
        if not (0.0 < eta < math.inf and 0.0 < weight < math.inf):
            return self.init(problem, x0)
        state = self._first_round(problem, x0)
        slopes, points, c = (arrays.like(vector, state.x) for vector in (slopes, points, c))
        mean = problem.domain.project(points / weight)
        (point,) = problem.forward(mean)
        (g,), _ = problem.lower.evaluate([point.g])
        parts = max(abs(g.value), g.size), arrays.norm(g.slope)
        error = problem.lower.rounding_errors(mean, arrays.norm(mean), *parts)[1]
        if not arrays.norm(slopes - weight * g.slope) <= weight * error:
            slopes, points = weight * g.slope, weight * mean
            if not problem.penalties[1].terms.has_weights:
                slopes, points = slopes - weight * state.here.g.slope, points - weight * state.x
                weight = 0.0
        here = objective_at(problem, state.here.f, state.here.g, eta, slopes, weight)
        known = None if inverse is None else arrays.like(inverse, state.x)
        return state._replace(
            eta=eta, slope_sum=slopes, weight=weight, point_sum=points, hint=(t, c), here=here,
            inverse_hessian=InverseHessian(known),
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """Take one step of L-BFGS, conjugate gradients or the prox; a new round may begin."""
        state = state._replace(k=state.k + 1, evidence=StepEvidence())
        if state.proof is not None:
            return refinement_proof.next_cut(problem.in_precision_of(state.x), state, state.proof)
        if not 0.0 < state.eta < math.inf:
            return _gave_up(state, NO_SLOPE)
        if isinstance(state.conjugate, ShortestWay):
            return self._shortest_step(problem, state, state.conjugate)
        if state.conjugate is not None:
            return self._cg_step(problem, state, state.conjugate)
        face = face_at(problem, state, state.here.x)
        if _needs_hessians(state, face):
            return _more_columns(problem, state, face)
        return self._round_step(problem, state, face)

    def _round_step(self, problem: Problem, state: State, face: ActiveFace) -> State:
        """Take one step within a round, or end it."""
        here, t = state.here, state.scale
        weights = state.eta, 1.0 + state.eta * state.weight
        pushed = problem.prox(here.x - t * here.smooth, t * weights[0], t * weights[1])
        left = arrays.norm(here.x - pushed) / t
        lower = problem.prox(here.x - t * here.g.slope, 0.0, t)
        lower_residual = arrays.norm(here.x - lower) / t
        if left < 0.5 * state.least:
            state = state._replace(least=left, stalled=0)
        else:
            state = state._replace(stalled=state.stalled + 1)
        if left <= max(ROUND_ACCURACY * lower_residual, _rounding_of_slope(problem, state)):
            return _end_round(problem, state, max(lower_residual, left))
        enough = max(F_SETTLED_COARSELY, 32.0 * arrays.epsilon(here.x))
        if state.stalled >= SETTLED_PATIENCE and state.upper_error <= enough:
            state = state._replace(here=_objective_at(problem, state, state.x))
            return refinement_proof.begin(problem, state)  # this proves the previous point
        if state.stalled >= ROUND_PATIENCE:
            return _gave_up(state, "a round could not be solved to rounding accuracy")
        if state.by_cg:
            return self._cg_step(problem, state, conjugate_gradients.begin(here.g, here.smooth))
        # A step of the prox may leave the face, also if steps along a curved face lead nowhere.
        is_stuck = not face.is_plain and (state.stalled + 1) % SETTLED_PATIENCE == 0
        if is_stuck or arrays.norm(here.slope) < RELEASE * left:
            return _prox_step(problem, state, face)
        return _quasi_newton_step(problem, state, face)

    def _shortest_step(self, problem: Problem, state: State, way: ShortestWay) -> State:
        """Take one step towards the closest minimiser of g; begin the proof once x has settled."""
        after = None if way.has_settled else way.step(problem, state.here.g)
        if after is not None and not after.has_settled:
            is_lower = after.square < 0.25 * state.least
            state = state._replace(
                conjugate=after,
                least=after.square if is_lower else state.least,
                stalled=0 if is_lower else state.stalled + 1,
            )
            if state.stalled >= CG_PATIENCE:
                return _gave_up(state, "conjugate gradients did not settle")
            if after.steps & (after.steps - 1):
                return state
        way = after or way
        x = state.here.x + way.moved
        if arrays.norm(x - problem.domain.project(x)) > 0.0:  # the ball is, or may be, active
            return self._first_round(problem, state.x)._replace(k=state.k, by_cg=False)
        f, g = minorants_at(problem, *problem.forward(x))
        evidence = StepEvidence(lower=((1.0, g),), values=((g.value, x, g),))
        state = state._replace(x=x, upper_value=f.value, lower_value=g.value, evidence=evidence)
        if not (after is None or after.has_settled):  # this evaluation was for the display
            return state
        if not arrays.is_single(x):
            return refinement_proof.at_once(problem, state, f, g, way)
        slopes = -1.0 * f.slope
        return refinement_proof.begin(problem, state._replace(
            here=objective_at(problem, f, g, state.eta, slopes, 0.0), conjugate=None, rounds=1,
            slope_sum=slopes, weight=0.0, point_sum=way.c, lower_residual=arrays.norm(g.slope),
        ))  # fmt: skip

    def _cg_step(self, problem: Problem, state: State, way: ConjugateGradients) -> State:
        """Take one step of conjugate gradients; evaluate the point once the run is over."""
        here, noise = state.here, SLOPE_UNITS * arrays.epsilon(state.x)
        after = way.step(problem, here.f, here.g, state.eta)
        if after is not None:
            left, lower_residual = math.sqrt(after.square), arrays.norm(after.lower)
            is_halved = left < 0.5 * state.least
            state = state._replace(
                conjugate=after,
                least=left if is_halved else state.least,
                stalled=0 if is_halved else state.stalled + 1,
            )
            of_step = noise * arrays.norm(after.moved) / state.scale
            floor = max(_rounding_of_slope(problem, state), of_step)
            is_over = (
                left <= max(0.5 * ROUND_ACCURACY * lower_residual, floor)
                or state.stalled >= CG_PATIENCE
            )
            if not is_over and not is_due(state.k):
                return state
            way = after
        x = here.x + way.moved
        if arrays.norm(x - problem.domain.project(x)) > 0.0:  # the ball is, or may be, active
            return state._replace(conjugate=None, by_cg=False)
        there = _objective_at(problem, state, x)
        if after is not None and not is_over:  # in a long round, this evaluation is for the display
            f, g = there.f.value, there.g.value
            evidence = StepEvidence(lower=((1.0, there.g),), values=((g, x, there.g),))
            return state._replace(x=x, upper_value=f, lower_value=g, evidence=evidence)
        return _checked(problem, state, there)._replace(here=there, conjugate=None)


def _end_round(problem: Problem, state: State, lower_residual: float) -> State:
    """End a round: estimate how accurate f is, and add the next minorant."""
    here = state.here
    f2, g2 = problem.penalties
    x, f, g = here.x, here.f.value + f2.value(here.x), here.g.value + g2.value(here.x)
    eta = state.eta
    slower = lower_residual > SLOW * state.lower_residual
    weight = state.weight + 1.0 / eta
    slope_sum, point_sum = state.slope_sum + here.g.slope / eta, state.point_sum + x / eta
    size = size_of_terms(here.f, f2.terms)
    t = state.scale
    lower = problem.prox(here.x - t * here.g.slope, 0.0, t)
    c = point_sum - weight * x
    gain = max(abs(arrays.dot(c, x - lower)) / t, abs(f - state.upper_value))
    if state.weight == 0.0 or not arrays.norm(c) > 0.0 or slower:
        # No estimate: both values of f may come from the same objective, or, if eta is much too
        # large, from nearly the same one, whose minimiser is that of f.
        gain = math.inf
    unit = size if size > 0.0 else 1.0
    upper_error = gain / unit
    evidence = StepEvidence(lower=((1.0, here.g),), values=((g, x, here.g),))
    state = state._replace(
        x=x, upper_value=f, lower_value=g, rounds=state.rounds + 1,
        lower_residual=lower_residual, upper_error=upper_error,
        slope_sum=slope_sum, weight=weight, point_sum=point_sum, evidence=evidence,
    )  # fmt: skip
    enough = F_SETTLED if int(x.shape[0]) <= KEPT_MATRIX else F_SETTLED_COARSELY
    # Where g hardly curves, a small slope of g may still hide a large change of x, of which neither
    # f nor the estimate knows anything yet: hardly more than rounding may be left of the slope.
    noise = _rounding_of_slope(problem, state)
    is_flat = lower_residual <= FEW * noise
    is_settled = is_flat and upper_error <= max(enough, 32.0 * arrays.epsilon(x))
    is_without_f = eta * arrays.norm(here.f.slope) <= noise  # f no longer influences the round
    if is_settled or lower_residual <= noise or (is_flat and is_without_f):
        # What is left of g's slope may be rounding of eta f, and |c| times as much missing in f.
        is_near = is_settled or arrays.norm(c) * lower_residual <= enough * unit
        again = state if is_near or state.rounds >= MAX_ROUNDS else _rebalanced(problem, state)
        return again if again.eta < state.eta else refinement_proof.begin(problem, state)
    if state.rounds >= MAX_ROUNDS:
        return _gave_up(state, "f does not settle")
    if slower:
        eta *= ETA_FALL
    here = objective_at(problem, here.f, here.g, eta, slope_sum, weight)
    state = state._replace(eta=eta, here=here, least=math.inf, stalled=0)
    return _with_inverse_hessian(problem, state, face_at(problem, state, x)) if slower else state


def _rebalanced(problem: Problem, state: State) -> State:
    """Begin the next round with the eta that balances the levels at x, if it is much smaller."""
    here = state.here
    eta, scale = _balanced(problem, here.f, here.g, state.by_cg)
    if not 0.0 < eta < ETA_FALL * state.eta:
        return state
    return state._replace(
        here=objective_at(problem, here.f, here.g, eta, state.slope_sum, state.weight),
        eta=eta, scale=scale, least=math.inf, stalled=0,
        inverse_hessian=InverseHessian(), hessians=None, hessian_age=0,
    )  # fmt: skip


def _gave_up(state: State, why: str) -> State:
    """End the run without an answer."""
    return state._replace(finished=Ended(DOUBT, why))


# -- sizes ----------------------------------------------------------------------------------------


def _sizes(state: State) -> float:
    """Return the sum of the norms of the slopes that cancel in the round's objective."""
    f, g = state.here.f, state.here.g
    return arrays.norm(g.slope) + state.eta * (arrays.norm(f.slope) + arrays.norm(state.slope_sum))


def _rounding_of_slope(problem: Problem, state: State) -> float:
    """Bound the rounding error in the slope of the round's objective."""
    x, sizes = state.here.x, SLOPE_UNITS * _sizes(state)
    from_x = arrays.norm(x) / state.scale
    if state.by_cg:  # at a zero residual the slopes give no scale, but x does
        sizes += SLOPE_UNITS * from_x
    elif problem.penalties[1].terms.has_weights:  # x is rounded where the prox ends
        sizes += from_x
    return arrays.epsilon(x) * sizes


def _rounding_of_value(state: State) -> float:
    """Bound how much rounding may change the value of the round's objective."""
    f, g, eta = state.here.f, state.here.g, state.eta
    sizes = max(abs(g.value), g.size) + eta * max(abs(f.value), f.size)
    sizes += _sizes(state) * arrays.norm(f.at)  # rounding also moves x off the face
    return 16.0 * arrays.epsilon(f.at) * sizes


def _balanced(problem: Problem, f_x: Minorant, g_x: Minorant, by_cg: bool) -> tuple[float, float]:
    """Return the eta that balances both levels' curvatures at a point, and 1/L for this eta."""
    x = f_x.at
    curvature_f, curvature_g = _curvatures(problem, f_x, g_x)
    is_fine = arrays.epsilon(x) < FIRST_ETA_CG**3  # eta f has a relative error of epsilon/eta
    share = FIRST_ETA_CG if by_cg and is_fine else FIRST_ETA
    eta = share * curvature_g / curvature_f if curvature_f > 0.0 else 0.0
    # If f is nearly linear here, its curvature says nothing about other points. Let eta f push the
    # minimiser of g away only so far that x keeps three quarters of its digits.
    reach = (curvature_g * arrays.norm(x) + arrays.norm(g_x.slope)) / arrays.epsilon(x) ** 0.25
    steepness = arrays.norm(f_x.slope)
    if reach > 0.0 and eta * steepness > reach:
        eta = reach / steepness
    curvature = curvature_g + eta * curvature_f
    return eta, 1.0 / curvature if curvature > 0.0 else 1.0


def _curvatures(problem: Problem, f_x: Minorant, g_x: Minorant) -> tuple[float, float]:
    """Estimate how much the gradients of f and g change per unit length."""
    x = f_x.at
    curvature_f, curvature_g = 0.0, 0.0
    for way in (f_x.slope, g_x.slope, -1.0 * f_x.slope, -1.0 * g_x.slope):
        if curvature_g > 0.0 or not arrays.norm(way) > 0.0:
            continue
        fall = abs(g_x.value) / (arrays.norm(g_x.slope) or math.inf)  # a length in the units of x
        length = TOL.away * (arrays.norm(x) or fall or 1.0)
        there = problem.domain.project(x - (length / arrays.norm(way)) * way)
        moved = arrays.norm(there - x)
        if moved > 0.0:
            f_y, g_y = minorants_at(problem, *problem.forward(there))
            curvature_f = arrays.norm(f_y.slope - f_x.slope) / moved
            curvature_g = arrays.norm(g_y.slope - g_x.slope) / moved
    return curvature_f or arrays.norm(f_x.slope) / (arrays.norm(x) or 1.0), curvature_g


# -- Hessians ------------------------------------------------------------------------------------


def _needs_hessians(state: State, face: ActiveFace) -> bool:
    """Is it time to compute or recompute columns of the Hessians?  A column costs a step.

    The first columns wait until the run has taken as many steps as they cost: thus at worst the run
    costs twice as much as needed.
    """
    if face.free is None or int(state.x.shape[0]) > KEPT_MATRIX:
        return False
    if state.hessians is not None and len(state.hessians.missing(face)):
        return True
    share = 1.0 if state.hessians is None else RENEWAL
    return state.hessian_age > max(share * arrays.dot(face.free, face.free), WORTHWHILE)


def _more_columns(problem: Problem, state: State, face: ActiveFace) -> State:
    """Compute a few more columns of the Hessians; after the last column, compute the inverse."""
    here, hessians = state.here, state.hessians
    if hessians is None or not len(hessians.missing(face)):
        hessians = no_columns(here.x)
    hessians = hessians.with_more_columns(problem, here.f, here.g, face)
    state = state._replace(hessians=hessians, hessian_age=0)
    return state if len(hessians.missing(face)) else _with_inverse_hessian(problem, state, face)


def _with_inverse_hessian(problem: Problem, state: State, face: ActiveFace) -> State:
    """Set the inverse Hessian of the round's objective on the face, if all columns are known."""
    here, hessians = state.here, state.hessians
    if hessians is None or face.free is None or len(hessians.missing(face)):
        return state
    terms = problem.joint.terms(state.eta, 1.0 + state.eta * state.weight)
    steepest = face_of_terms(terms, here.x)[1]
    slope = here.smooth if steepest is None else here.smooth + steepest
    inverse = hessians.inverse(state.eta, terms, here.x, face, face.curvature(slope))
    return state._replace(inverse_hessian=InverseHessian(inverse), hessian_age=0)


# -- steps ---------------------------------------------------------------------------------------


def _checked(problem: Problem, state: State, there: RoundObjective) -> State:
    """Run the consistency checks of this step, and count the violations."""
    (f1, g1), here = problem.smooth_parts, state.here
    d = there.x - here.x
    along_f, along_g, square = arrays.dots((here.f.slope, d), (here.g.slope, d), (d, d))
    f = out_of_bounds(f1, here.f, there.f.value, along_f, square)
    g = out_of_bounds(g1, here.g, there.g.value, along_g, square)
    return with_violations(state, f, g)


def _objective_at(problem: Problem, state: State, x: Array) -> RoundObjective:
    return objective_at(
        problem,
        *minorants_at(problem, *problem.forward(x)),
        state.eta,
        state.slope_sum,
        state.weight,
    )


def _quasi_newton_step(problem: Problem, state: State, face: ActiveFace) -> State:
    """Take a quasi-Newton step along the face; backtrack until the objective decreases enough."""
    here = state.here
    slope = here.slope
    d = face.along(-state.inverse_hessian.times(slope, state.scale))
    fall = arrays.dot(slope, d)
    if not fall < 0.0:  # the learned curvature is outdated
        d, fall = -state.scale * slope, -state.scale * arrays.dot(slope, slope)
        state = state._replace(inverse_hessian=InverseHessian())
    t, noise = 1.0, _rounding_of_value(state)
    for _ in range(40):
        x = face.retract(here.x + t * d)
        there = _objective_at(problem, state, x)
        rate = arrays.dot(there.slope, d)
        # Armijo's rule, and the curvature condition of Wolfe, with their usual constants
        is_lower = there.value <= here.value + 1e-4 * arrays.dot(slope, x - here.x)
        is_flat = there.value <= here.value + noise and abs(rate) <= 0.9 * abs(fall)
        if math.isfinite(there.value) and (is_lower or is_flat):
            break
        if t == 1.0 and 0.0 < (room := face.room(here.x, d)) < 1.0:
            t = room  # past the first bound the objective need not decrease: stop at this bound
            continue
        # Try the minimum of the parabola through both values with the first slope.
        rise = there.value - here.value - t * fall
        best = -0.5 * fall * t * t / rise if math.isfinite(rise) and rise > 0.0 else 0.0
        t = min(max(best, 0.1 * t), 0.5 * t)
    else:  # after a projection, even a descent direction need not decrease the objective
        return _prox_step(problem, state, face)
    state = _checked(problem, state, there)
    other = face_at(problem, state, x)
    if arrays.max_abs(other.key - face.key) > 0.0:
        return _on_face(problem, state, there, face, other)
    inverse_hessian = state.inverse_hessian.learned(x - here.x, there.slope - slope)
    return state._replace(
        here=there, inverse_hessian=inverse_hessian, hessian_age=state.hessian_age + 1
    )


def _on_face(
    problem: Problem, state: State, there: RoundObjective, before: ActiveFace, after: ActiveFace
) -> State:
    """Move the state to another face."""
    inverse_hessian = state.inverse_hessian.onto(before, after)
    state = state._replace(
        here=there, inverse_hessian=inverse_hessian, hessian_age=state.hessian_age + 1
    )
    return _with_inverse_hessian(problem, state, after)


def _prox_step(problem: Problem, state: State, face: ActiveFace) -> State:
    """Take one prox step, which may leave the face or reach another one."""
    here, t, noise = state.here, state.scale, _rounding_of_value(state)
    weights = state.eta, 1.0 + state.eta * state.weight
    for _ in range(60):
        x = problem.prox(here.x - t * here.smooth, t * weights[0], t * weights[1])
        there, d = _objective_at(problem, state, x), x - here.x
        # The step-size test uses only the smooth parts, without the penalties.
        rise = there.g.value - here.g.value - arrays.dot(here.g.slope, d)
        rise += state.eta * (there.f.value - here.f.value - arrays.dot(here.f.slope, d))
        if math.isfinite(there.value) and rise <= 0.5 * arrays.dot(d, d) / t + noise:
            state = _checked(problem, state, there)
            state = state._replace(scale=1.5 * t)
            return _on_face(problem, state, there, face, face_at(problem, state, x))
        t *= 0.5
    return state._replace(stalled=ROUND_PATIENCE)
