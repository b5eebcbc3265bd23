"""The proof of the refined point x, from the minorants that Bregman iteration has added up.

    c = sum of (x_i - x)/eta_i,   grad g1(x + t c)/t = the multipliers + O(t),   so that
    f* >= min over Z of  f1's minorant at x + f2 + (g1's minorant at x + t c + g2 - g*)/t
        = f* - O(t):

The bound costs one gradient for each t, and a few more to correct c if g1 is not quadratic. x + t c
is in Z if t sum 1/eta_i <= 1, as a convex combination of x and the x_i. We only supply minorants:
the bound accumulator turns them into bounds.

If there is no proof and g is not quadratic, x counts as an answer only if some cut balances f at x:
then x minimises f + cut/t over Z, up to a small gap. No cut balances f if the set of minimisers of
g has a flat interior, as for a squared hinge: the minorants of the rounds vary over this set, and f
settles elsewhere.
"""

from __future__ import annotations

import math

from tiebreak.algorithms import Multipliers
from tiebreak.algorithms.common import minorants_at, size_of_terms
from tiebreak.algorithms.primal_dual import INSIDE
from tiebreak.auto.active_face import face_of_terms
from tiebreak.auto.bregman_state import Proof, State, face_at, objective_at
from tiebreak.auto.conjugate_gradients import ShortestWay
from tiebreak.auto.hessians import InverseHessian
from tiebreak.functions import Minorant, summands
from tiebreak.linalg import Array, arrays
from tiebreak.problem import Problem
from tiebreak.proofs import quadratic_dual
from tiebreak.proofs.evidence import StepEvidence
from tiebreak.proofs.gate import ANSWER, DOUBT, Ended

# the factor from one t to the next, and the number of t: the best t can only be guessed
T_FALL, T_COUNT = 0.25, 7
TILTED = 0.5  # cost of the tilt as a share of <c, Hc> t: as much as the cut's error
SLIGHT_LOSS = 0.02  # ignore a slope that weakens the bound by less than this share of <c, Hc> t
MOST_CUTS, LONGEST = 16, 10.0  # the most cuts for one t, and the largest growth factor of a step

NOT_BALANCED = (
    "no multiplier of g balances f at x: the set of minimisers of g may have a flat interior, in "
    "which Bregman iteration need not find the least f"
)


def begin(problem: Problem, state: State) -> State:
    """Begin the proof.

    The error of a cut is t <c, Hc>/2 plus rounding/t: we try several t around the best one, the
    largest first. If rounding makes every sum of cuts unbounded below, there is no proof. In this
    case, we try the middle t and smaller ones to see whether x is an answer, unless this is already
    known.
    """
    is_hopeless = problem.is_open_below and not problem.upper.strong_convexity > 0.0
    if is_hopeless and _is_quadratic(problem):
        return state._replace(finished=Ended(ANSWER, _settled(state)))
    # Values with a relative error of epsilon determine a minimiser only to about sqrt(epsilon).
    slight = max(1e-4, 4.0 * math.sqrt(arrays.epsilon(state.x)))
    if arrays.is_single(state.x) and problem.in_float64 is not None:
        problem = problem.in_float64
        state = _in_float64(problem, state)
    x, here = state.x, state.here
    c = state.point_sum - state.weight * x
    curvature = abs(arrays.dot(c, state.slope_sum - state.weight * here.g.slope))
    length, reach = arrays.norm(x), problem.domain.diameter_in(int(x.shape[0]))
    reach = min(reach, 2.0 * (problem.radius or math.inf))
    reach = max(length, reach if math.isfinite(reach) else 0.0)
    steepness, parts = arrays.norm(here.g.slope), max(abs(here.g.value), here.g.size)
    # The certificate uses the same bounds on rounding errors.
    of_value, of_slope = problem.lower.rounding_errors(x, length, parts, steepness)
    rounding = 2.0 * of_value + of_slope * (length + reach) + state.lower_residual * reach
    t = math.sqrt(2.0 * rounding / curvature) if curvature > 0.0 else 0.0
    if not 0.0 < t < math.inf:
        t = 1.0 / (state.weight or 1.0)
    t *= 1.0 if is_hopeless else T_FALL ** -(T_COUNT // 2)
    if state.hint is not None and state.rounds == 1:  # a warm start from the answer itself
        t, c = state.hint
    nothing = arrays.zeros_like(x)
    tilt, cost = _tilt(problem, x)
    reach = max(reach, cost)
    lean = face_at(problem, state, x).along(
        state.inverse_hessian.times(state.eta * tilt, state.scale)
    )
    first = Proof(
        t=t, c=c, curvature=curvature, rounding=rounding, reach=reach, is_tilted=cost > 0.0,
        tilt=tilt, lean=lean, t_count=T_COUNT // 2 if is_hopeless else 0, tries=0, d=nothing,
        left=nothing, best=c, least=math.inf, made=(t, c), gap=math.inf,
        slight=slight,
    )  # fmt: skip
    return state._replace(proof=first)


def at_once(problem: Problem, state: State, f: Minorant, g: Minorant, way: ShortestWay) -> State:
    """Prove the point with c itself, because g is quadratic: see `quadratic_dual`."""
    (point,) = problem.forward(g.at + way.c)
    (ahead,), _ = problem.lower.evaluate([point.g])
    known = quadratic_dual.prove(problem, f, g, ahead, way.gamma)
    evidence = state.evidence._replace(intervals=known)
    ended = Ended(ANSWER, "x has settled by conjugate gradients")
    return state._replace(conjugate=None, upper_error=0.0, evidence=evidence, finished=ended)


def multipliers(state: State) -> Multipliers | None:
    """Return the start of the next run: the round that ended at x, without its minorant.

    A run that ended in its first round has nothing to pass on but x.
    """
    proof, last = state.proof, 1.0 / state.eta if state.eta > 0.0 else 0.0
    if proof is None or not state.weight > last:
        return None
    return Multipliers(
        eta=state.eta,
        slopes=state.slope_sum - last * state.here.g.slope,
        weight=state.weight - last,
        points=state.point_sum - last * state.x,
        t=proof.made[0],
        c=proof.made[1],
        inverse_hessian=state.inverse_hessian.inverse,
    )


def _in_float64(problem: Problem, state: State) -> State:
    """Convert the point to float64 for the proof; ``problem`` is in float64 too."""
    x, t = arrays.double(state.x), state.scale
    f_x, g_x = minorants_at(problem, *problem.forward(x))
    f2, g2 = problem.penalties
    inside, near = problem.domain.project(x), g_x  # rounding may have moved x out of Z
    if arrays.norm(x - inside) > 0.0:
        near = minorants_at(problem, *problem.forward(inside))[1]
    slope_sum, point_sum = map(arrays.double, (state.slope_sum, state.point_sum))
    lower_residual = arrays.norm(x - problem.prox(x - t * g_x.slope, 0.0, t)) / t
    return state._replace(
        x=x, upper_value=f_x.value + f2.value(x), lower_value=g_x.value + g2.value(x),
        slope_sum=slope_sum, point_sum=point_sum, lower_residual=lower_residual,
        here=objective_at(problem, f_x, g_x, state.eta, slope_sum, state.weight),
        inverse_hessian=InverseHessian(), hessians=None,
        evidence=StepEvidence(
            lower=((1.0, g_x),), values=((near.value + g2.value(inside), inside, near),)
        ),
    )  # fmt: skip


def _is_moderate(seen: Minorant) -> bool:
    """Are the value and slope of a minorant small enough to be summed?"""
    size = abs(seen.value) + arrays.norm(seen.slope) * (1.0 + arrays.norm(seen.at))
    return size < arrays.HUGE


def _tilt(problem: Problem, x: Array) -> tuple[Array, float]:
    """Return the tilt (1 at free entries without an upper bound, -1 without a lower) and its cost.

    A linear function over a box with infinite sides is bounded below only if its slope has the
    right signs along these sides, without any error, so we tilt it until the signs are certainly
    right. A linear function with the slope s times these signs is smaller at the corner than at x
    by s times the cost.
    """
    sides, xp, zero = problem.domain.sides(x), arrays.namespace(x), arrays.zeros_like(x)
    if sides is None or problem.radius is not None or not problem.is_smooth:
        return zero, 0.0
    low, high = sides
    up = (high == math.inf) & (low < x) & (low > -math.inf)
    down = (low == -math.inf) & (x < high) & (high < math.inf)
    cost = xp.sum(xp.where(up, x - low, zero) + xp.where(down, high - x, zero))
    return xp.astype(up, x.dtype) - xp.astype(down, x.dtype), float(cost)


def next_cut(problem: Problem, state: State, proof: Proof) -> State:
    """Make the next cut of the proof, and improve c or move on to the next t.

    The slope of f and the slope of a cut at x + t c, divided by t, should add up to 0 along the
    face (apart from the tilt). The remaining slope, this sum, gives a quasi-Newton step for c. The
    step uses the Hessian of the rounds instead of g's, and the length that would have been best for
    the last step.
    """
    x, here, t = state.x, state.here, proof.t
    proof = proof._replace(made=(t, proof.c))
    (point,) = problem.forward(problem.domain.project(x + t * proof.c))
    (g_y,), _ = problem.lower.evaluate([point.g])
    f_y, s = here.f, 0.0
    if proof.is_tilted:
        s = TILTED * t * proof.curvature / proof.reach  # a cost as large as the cut's own error
        (leaned,) = problem.forward(problem.domain.project(x + s * proof.lean))
        (f_y,), _ = problem.upper.evaluate([leaned.f])
    inside = INSIDE if problem.penalties[0].terms.has_weights else 0.0
    evidence = StepEvidence(
        upper=((1.0, f_y),),
        cuts=(((1.0 - inside) / t, g_y),),
        lower=((1.0, here.g),),
    )
    face = face_at(problem, state, x)
    steepest = face_of_terms(problem.joint.terms(t, 1.0), point.x)[1]
    slope = g_y.slope if steepest is None else g_y.slope + steepest
    slope = f_y.slope + slope / t - s * proof.tilt
    left = face.along(slope)
    lost = arrays.norm(left) * proof.reach
    if problem.is_smooth:  # the exact loss, of second order in ``left`` on a sphere
        lost = min(lost, arrays.dot(slope, x) + problem.domain.support(-1.0 * slope))
    is_close = lost <= SLIGHT_LOSS * max(t * proof.curvature, proof.rounding / t)
    # If the Hessian of the rounds does not fit g at the cut, the steps of c may diverge.
    remaining = arrays.norm(left)
    has_run_away = not remaining <= LONGEST * proof.least or not (
        _is_moderate(f_y) and _is_moderate(g_y)
    )
    if has_run_away:
        evidence = StepEvidence(lower=((1.0, here.g),))
    elif remaining < proof.least:
        proof = proof._replace(best=proof.c, least=remaining)
    gap = max((here.g.value - g_y.value - arrays.dot(g_y.slope, x - g_y.at)) / t, 0.0)
    # Add the largest decrease that the remaining slope of f + cut/t allows within a distance |x| of
    # x. The slope of g that remains at x does not count.
    unbalanced = arrays.norm(face.along(slope - here.g.slope / t))
    gap += min(lost, unbalanced * arrays.norm(x))
    proof = proof._replace(gap=min(proof.gap, gap))
    c, ahead, inverse_hessian = proof.c, left, state.inverse_hessian
    if proof.tries > 0 and not has_run_away:
        turn = left - proof.left
        curved, fell = arrays.dots((turn, proof.d), (proof.left, proof.d))
        longer = min(-fell / curved, LONGEST) - 1.0 if curved > 0.0 else 0.0
        c, ahead = c + longer * proof.d, left + longer * turn
        inverse_hessian = inverse_hessian.learned(proof.d, turn)
    d = -face.along(inverse_hessian.times(ahead, state.scale))
    if has_run_away or not arrays.all_finite(c + d):  # go back to the best c
        proof = proof._replace(c=proof.best, tries=MOST_CUTS)
    else:
        proof = proof._replace(c=c + d, d=d, left=ahead, tries=proof.tries + 1)
        state = state._replace(inverse_hessian=inverse_hessian)
    if is_close or proof.tries >= MOST_CUTS:
        proof = proof._replace(t=T_FALL * t, t_count=proof.t_count + 1, tries=0, least=math.inf)
    state = state._replace(proof=proof, evidence=evidence)
    if state.hint is not None:  # the proof of an earlier answer does not apply to this one
        return begin(problem, state._replace(hint=None))
    if proof.t_count < T_COUNT:
        return state
    return state._replace(finished=_ending(problem, state, proof))


def _ending(problem: Problem, state: State, proof: Proof) -> Ended:
    """Report an answer if the gap is slight, and otherwise a doubt with its reason."""
    if _is_quadratic(problem) or proof.gap <= _slight_gap(problem, state, proof.slight):
        return Ended(ANSWER, _settled(state))
    return Ended(DOUBT, f"{_settled(state)}, but {NOT_BALANCED}")


def _is_quadratic(problem: Problem) -> bool:
    """Is g1 quadratic?  A quadratic g has the form phi(Ax) + <c, x> with phi strictly convex."""
    return all(part.degree <= 2 for _, part in summands(problem.smooth_parts[1].bare))


def _settled(state: State) -> str:
    is_one = state.rounds == 1
    how = "conjugate gradients" if is_one else f"{state.rounds} rounds of Bregman iteration"
    return f"f has settled after {how}"


def _slight_gap(problem: Problem, state: State, share: float) -> float:
    """Return ``share`` times the size of f, plus the rounding errors of f."""
    x, f = state.x, state.here.f
    length, steepness = arrays.norm(x), arrays.norm(f.slope)
    of_value, of_slope = problem.upper.rounding_errors(
        x, length, max(abs(f.value), f.size), steepness
    )
    size = size_of_terms(f, problem.penalties[0].terms)
    return share * size + of_value + of_slope * length
