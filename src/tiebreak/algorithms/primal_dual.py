"""PrimalDual: Malitsky's primal-dual method, with an adaptive step ratio; returns the last iterate.

Malitsky: Chambolle-Pock and Tseng's methods: relationship and extension to the bilevel
optimization, arXiv 1706.02602, 2017 (a later version has a different title).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiebreak.algorithms.base import (
    NOT_ENDED,
    Ended,
    Method,
    Proved,
    Range,
    Rate,
    StateReport,
    StepEvidence,
)
from tiebreak.algorithms.common import (
    POSITIVE,
    at_start,
    first_curvature,
    is_due,
    need_joint_prox,
    out_of_bounds,
    rounding_of_rise,
    typical_curvature,
    typical_length,
    with_fresh_images,
    with_violations,
)
from tiebreak.algorithms.momentum import GROWTH, MOST_GROWTH, TRIES
from tiebreak.functions import Function, Minorant, OperatorTerms, SmoothFunction, Terms
from tiebreak.linalg import Array, Refusal, arrays, in_files, refusal_of
from tiebreak.problem import Point, Problem, mixed
from tiebreak.proofs.gate import ANSWER

SAFETY = 0.99  # share of the longest step; convergence is proved for shares below 1
# sigma changes when k has grown by a factor of EPOCH and by at least SHORTEST steps
EPOCH, SHORTEST = 1.5, 16
# The j-th change multiplies or divides sigma by at most exp(FREEDOM/j^DECAY). The sum of these
# exponents is finite, as the theorem on changing step sizes requires, but it exceeds 40, and a
# total factor of exp(40) suffices for any units.
FREEDOM, DECAY = 10.0, 1.1

ESTIMATED = (
    "f minus its dual value, and the cost of the lower level's error, are within the tolerance; "
    "f* cannot be bounded if an operator is known only through its products"
)


@in_files("primal-dual.mark")
class Mark(NamedTuple):
    """The last change of sigma, with x_k, the multiplier and the cut at y_k from that step."""

    x: Array
    multiplier: float
    cut: Minorant
    changes: int  # number of changes of sigma so far
    due: int  # the step k of the next change


@in_files("primal-dual.operator")
class OperatorDual(NamedTuple):
    """The dual variable of D x - center, if f2 is a penalty on D x - center."""

    u: Array
    pull: Array  # D'(2 u_k - u_{k-1}), a vector of x's length
    square: float  # an upper bound on |D|²
    gap: float = math.inf  # the last computed estimate of |f(x_k) - f*|
    finished: Ended = NOT_ENDED


@in_files("primal-dual")
class State(NamedTuple):
    """Everything a run needs to continue, as arrays and numbers."""

    k: int
    point: Point  # x_k
    s: Point  # the average of all x_i, weighted by sigma_i
    multiplier: float  # Lambda_k, the sum of all sigma_i
    sigma: float  # sigma_k, the next dual step, already used in y_k
    L_f: float  # estimates of both Lipschitz constants, which only grow
    L_g: float
    f_x: Minorant  # of f1 at x_k
    g_y: Minorant  # of g1 at y_k
    mark: Mark
    upper_value: float  # f(x_k) and g(x_k)
    lower_value: float
    lipschitz_violations: tuple[int, int]  # how often f and g rose more than L allows
    convexity_violations: tuple[int, int]  # how often f and g fell below a minorant
    evidence: StepEvidence
    dual: OperatorDual | None = None  # used if f2 is a penalty on D x

    @property
    def x(self) -> Array:
        """The last iterate."""
        return self.point.x


@dataclass(frozen=True)
class PrimalDual(Method):
    """Tseng's accelerated method with a weight on f that decreases like 1/k; returns x_k, not s_k.

        y_k     = (Lambda_k s_k + sigma x_k)/Lambda_{k+1},   Lambda_{k+1} = Lambda_k + sigma
        x_{k+1} = prox of tau (f2 + Lambda_{k+1} g2) on Z
                  at x_k - tau (grad f1(x_k) + Lambda_{k+1} grad g1(y_k))
        s_{k+1} = (Lambda_k s_k + sigma x_{k+1})/Lambda_{k+1},   tau (sigma L_g + L_f/2) < 1

    Here f = f1 + f2 and g = g1 + g2, each smooth + penalty, and Lambda_0 = 0. With sigma fixed,
    Lambda_k = sigma k, which gives the paper's averages with weights 1/(k+1). For g = ½|Ax - b|²
    this is Chambolle and Pock's method for minimising f subject to Ax = b, or the method of Condat
    and Vu if f1 != 0: the dual variable u_k = Lambda_k (A s_k - b) enters only through A'u_k =
    Lambda_k grad g(s_k), and b need not be in the range of A. Lambda_k is the multiplier of g: with
    the minorants l_f of f1 at x_k and l_g of g1 at y_k, f* >= min over Z of l_f + f2 + Lambda_{k+1}
    (l_g + g2 - g*) at every step.

    **The ratio of the two steps.** The dual step is sigma, and the primal step is as long as this
    sigma allows. Lambda and s determine the dual variable whatever the next sigma is, so a change
    of sigma loses no information. As in PDLP (Applegate et al. 2021), sigma/tau becomes
    |du|²/|dx|², where du and dx are the moves of the dual and the primal variable since the last
    change: along slow modes of g, x moves little and the dual variable far, so they need a larger
    sigma. We compute |du|² as <A'du, dw>, where du = A dw: gradients of g give A'du, and dw is
    computed with x_k in place of a minimiser of g. sigma L_g stays above L_f/2, because a smaller
    sigma would hardly increase tau.

    **A penalty on D x in f**, f2(x) = p(D x - c), has no prox in closed form. We keep the dual
    variable u of this penalty, as Condat and Vu do, and a step uses D'(2 u_k - u_{k-1}) instead of
    the prox of f2:

        u_{k+1} = the point nearest u_k + sigma_D (D x_{k+1} - c) with <u, r> <= p(r) for all r

    Here sigma_D |D|² = sigma L_g, so that tau (2 sigma L_g + L_f/2) < 1. The run stops
    when an estimate is small enough: f minus its dual value, plus the error of A x times its
    multiplier.

    L_f and L_g are the functions' own constants if known, otherwise estimates; both grow if
    f1(x_{k+1}) or g1(s_{k+1}) exceeds the minorant at x_k or y_k by more than these constants
    allow.

    Args:
        ratio: sigma L_g/L_f, fixed for the whole run (if f1 is linear, L_f is the slope of f over a
            typical length). If None, the ratio starts at 1 and is adapted.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.PrimalDual(), rtol=1e-2).status
        'certified'
    """

    ratio: float | None = None

    name: ClassVar[str] = "primal-dual"
    paper: ClassVar[str] = (
        "Malitsky: Chambolle-Pock and Tseng's methods: relationship and extension to the bilevel "
        "optimization, 2017, arXiv 1706.02602"
    )
    assumptions: ClassVar[str] = (
        "f, g convex, each smooth + penalty; joint prox of both penalties and Z; needs no constants"
    )
    guarantee: ClassVar[str] = (
        "paper: with a fixed ratio and prox steps on f, g - g* = o(1/k) at the average s_k; the "
        "last iterate x_k converges if g is least squares and a multiplier exists (Condat, Vu), "
        "otherwise no convergence theorem applies to it"
    )
    cites: ClassVar[tuple[str, ...]] = ("malitsky2017", "applegate2021")
    rates: ClassVar[tuple[Rate, ...]] = (
        Rate("g", 1.0, "a fixed ratio, prox steps on f", at="the average s_k"),
    )
    output: ClassVar[str] = "the last iterate (the paper's rate is for the average s_k)"
    ranges: ClassVar[dict[str, Range]] = {"ratio": POSITIVE}

    def check(self, problem: Problem) -> Refusal | None:
        if isinstance(problem.penalties[0].terms, OperatorTerms):  # no prox of f2 is needed
            return refusal_of(lambda: problem.lower_joint)
        return need_joint_prox(self, problem)

    def points(self, state: State) -> dict[str, Array]:
        return {"the average s_k": state.s.x}

    def describe(self, problem: Problem) -> str:
        ratio = "adaptive ratio" if self.ratio is None else f"ratio {self.ratio:g}"
        return f"primal-dual, {ratio}, last iterate"

    def report(self, state: State) -> StateReport:
        """Report whether there is a proof, and what the consistency checks have found."""
        return StateReport(
            NOT_ENDED if state.dual is None else state.dual.finished,
            is_milestone=len(state.evidence.lower) > 1,  # the step added a proof
            lipschitz_violations=state.lipschitz_violations,
            convexity_violations=state.convexity_violations,
        )

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with s_0 = x_0 and multiplier 0."""
        (f1, g1), (f2, g2) = problem.smooth_parts, problem.penalties
        x, f_x, g_x = at_start(problem, x0)
        L_f, is_f_concave = _known_or_seen(problem, f1, f_x, g_x)
        L_g, is_g_concave = _known_or_seen(problem, g1, g_x, f_x)
        L_g = L_g or _stand_in(problem, problem.lower, g_x, g_x)
        sigma = (self.ratio or 1.0) * (L_f or _stand_in(problem, problem.upper, f_x, g_x)) / L_g
        g_value = g_x.value + g2.value(x.x)
        return State(
            k=0, point=x, s=x, multiplier=0.0,
            sigma=sigma, L_f=L_f, L_g=L_g, f_x=f_x, g_y=g_x,
            mark=Mark(x.x, sigma, g_x, changes=0, due=SHORTEST),
            upper_value=f_x.value + f2.value(x.x), lower_value=g_value, lipschitz_violations=(0, 0),
            convexity_violations=(int(is_f_concave), int(is_g_concave)),
            evidence=StepEvidence(values=((g_value, x.x, g_x),)), dual=_first_dual(f2.terms, x.x),
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """Take a step; first increase the estimates of L_f and L_g until they are large enough."""
        if state.dual is not None and state.dual.finished.why:
            return state
        mark, sigma = state.mark, state.sigma  # sigma is for the step after this one
        if self.ratio is None and state.k >= mark.due:
            mark, sigma = _changed(state)
        for _ in range(TRIES):
            after = _trial(problem, state, sigma)
            if after.L_f == state.L_f and after.L_g == state.L_g:
                break
            state = state._replace(L_f=after.L_f, L_g=after.L_g)
        after = after._replace(mark=mark)
        is_proof_due = after.k % SHORTEST == 0 and is_due(after.k)
        if not is_proof_due:
            return after
        if after.dual is not None:
            return after._replace(dual=after.dual._replace(gap=_gap(problem, after)))
        return after._replace(evidence=with_proof(problem, after))


@dataclass(frozen=True)
class EndingPrimalDual(PrimalDual):
    """PrimalDual for a penalty on D x in f: it ends when its own estimate is small, without a
    proof."""

    adapts: ClassVar[bool] = True

    def adapt(self, state: State, proved: Proved) -> State:
        """Return the state; end the run if the estimate of |f(x_k) - f*| is small enough."""
        dual, (upper, lower) = state.dual, proved.asked
        if dual is None or dual.gap > upper or proved.standing.lower_gap > lower:
            return state
        return state._replace(dual=dual._replace(finished=Ended(ANSWER, ESTIMATED)))


def _trial(problem: Problem, state: State, sigma: float) -> State:
    """Take the step with the state's L_f and L_g; return larger ones if these are too small.

    y_{k+1}, with the next ``sigma``, is evaluated in the same pass as x_{k+1}.
    """
    (f1, g1), (f2, g2) = problem.smooth_parts, problem.penalties
    f_x, g_y, k = state.f_x, state.g_y, state.k + 1
    multiplier = state.multiplier + state.sigma  # Lambda_{k+1}
    share = state.sigma / multiplier
    dual, across = state.dual, state.sigma * state.L_g
    if dual is None:
        tau = SAFETY / (across + 0.5 * state.L_f)
        v = state.x - tau * (f_x.slope + multiplier * g_y.slope)
        (x,) = problem.forward(problem.prox(v, tau, tau * multiplier))
    else:
        tau = SAFETY / (2.0 * across + 0.5 * state.L_f)
        v = state.x - tau * (f_x.slope + multiplier * g_y.slope + dual.pull)
        (x,) = problem.forward(problem.prox(v, 0.0, tau * multiplier))
        dual = _next_dual(f2.terms, dual, x.x, across)
    s = with_fresh_images(problem, mixed(state.s, x, share), k)
    y = mixed(s, x, sigma / (multiplier + sigma))

    upper, lower = f1.evaluate_async([x.f]), g1.evaluate_async([y.g], [x.g, s.g])
    ((f_next,), _), ((g_next,), (g_x, g_s)) = upper(), lower()
    dx = x.x - state.x  # s_{k+1} - y_k = share dx
    along_f, along_g, square = arrays.dots((f_x.slope, dx), (g_y.slope, dx), (dx, dx))
    f_move = f_next.value, along_f, square
    g_move = g_s, share * along_g, share * share * square
    of_f, of_g = out_of_bounds(f1, f_x, *f_move), out_of_bounds(g1, g_y, *g_move)
    g_value = g_x + g2.value(x.x)
    after = with_violations(state, of_f, of_g)._replace(
        k=k, point=x, s=s, multiplier=multiplier, sigma=sigma, f_x=f_next, g_y=g_next,
        upper_value=f_next.value + f2.value(x.x), lower_value=g_value, dual=dual,
        evidence=StepEvidence(
            upper=((tau, f_x),),
            cuts=((tau * multiplier, g_y),),
            lower=((tau * multiplier, g_y),),
            values=((g_value, x.x, g_y.reaching(x.g)),),
        ),
    )  # fmt: skip
    L_f = _needed(f1, f_x, state.L_f, *f_move)
    L_g = _needed(g1, g_y, state.L_g, *g_move)
    return after._replace(L_f=L_f, L_g=L_g)


def _changed(state: State) -> tuple[Mark, float]:
    """Return a new mark and the next sigma, computed from the moves of x and the dual variable."""
    mark, x, cut, k = state.mark, state.x, state.g_y, state.k
    multiplier = state.multiplier + state.sigma
    dx = x - mark.x
    dw = multiplier * (cut.at - x) - mark.multiplier * (mark.cut.at - x)
    du = multiplier * cut.slope - mark.multiplier * mark.cut.slope
    dual, primal, size = arrays.dots((du, dw), (dx, dx), (x, x))
    sigma, j = state.sigma, mark.changes + 1
    # A smaller move of x may be a rounding error: over many steps, rounding may cost half of the
    # digits.
    if dual > 0.0 and primal > arrays.epsilon(x) * size:
        balanced = math.sqrt(dual / primal / state.L_g)  # tau = 1/(sigma L_g)
        factor = max(balanced, 0.5 * state.L_f / state.L_g) / sigma
        freedom = math.exp(FREEDOM / j**DECAY)
        sigma *= min(max(factor, 1.0 / freedom), freedom)
    return Mark(x, multiplier, cut, j, max(k + SHORTEST, int(EPOCH * k))), sigma


# -- a penalty on D x in f ------------------------------------------------------------------------


def _first_dual(terms: Terms, x: Array) -> OperatorDual | None:
    if not isinstance(terms, OperatorTerms):
        return None
    square = terms.matrix(int(x.shape[0])).spectral_square
    return OperatorDual(0.0 * terms.residual(x), 0.0 * x, square)


def _next_dual(terms: Terms, dual: OperatorDual, x: Array, across: float) -> OperatorDual:
    """Return the dual variable after a step to x; ``across`` is sigma L_g."""
    assert isinstance(terms, OperatorTerms)
    u = dual.u
    if dual.square > 0.0:
        u = terms.dual(u + (across / dual.square) * terms.residual(x))
    return dual._replace(u=u, pull=terms.adjoint(2.0 * u - dual.u, x))


def _gap(problem: Problem, state: State) -> float:
    """Estimate |f(x_k) - f*| from f2 minus its dual value, the slopes and the error of A x.

    Here q = |u|² for the dual variable of A x, as in `with_proof`, and |A (x_k - x*)|² = 2 (g -
    g*).
    """
    terms, x, y, dual = problem.penalties[0].terms, state.point, state.g_y, state.dual
    assert isinstance(terms, OperatorTerms)
    assert dual is not None
    g1, multiplier = problem.smooth_parts[1], state.multiplier + state.sigma
    ((g_x,), _) = g1.evaluate([x.g])
    e = state.f_x.slope + multiplier * y.slope + dual.pull
    q = arrays.dot(y.at - x.x, y.slope - g_x.slope) * multiplier * multiplier
    excess = min(_excess(problem, state, g_x)[0], g_x.value - g1.lower_bound)
    saddle = terms.value(x.x) - arrays.dot(dual.u, terms.residual(x.x))
    price = math.sqrt(max(q, 0.0)) * math.sqrt(2.0 * max(excess, 0.0))
    return saddle + abs(arrays.dot(e, x.x)) + price


# -- Lipschitz constants --------------------------------------------------------------------------


def _needed(
    h: SmoothFunction, at: Minorant, L: float, value: float, inner: float, square: float
) -> float:
    """Return L, or a larger constant if value = h(at + dx) clearly exceeds L's quadratic bound."""
    rise = value - at.value - inner
    if rise <= 0.5 * L * square or square == 0.0:
        return L
    if not math.isfinite(rise):
        return MOST_GROWTH * L
    rise -= rounding_of_rise(h, at, value, square)
    if not rise > 0.5 * L * square:
        return L
    return min(max(2.0 * rise / square, GROWTH * L), MOST_GROWTH * L)


def _known_or_seen(
    problem: Problem, h: SmoothFunction, here: Minorant, other: Minorant
) -> tuple[float, bool]:
    """Return L_h or an estimate of it, and whether the gradients show that h is not convex."""
    if math.isfinite(h.known_lipschitz):
        return h.known_lipschitz, False
    return first_curvature(problem, h, here, other)


def _stand_in(problem: Problem, h: Function, h_x: Minorant, g_x: Minorant) -> float:
    """Return a substitute for L_h = 0: the slope of h per typical length, penalty included."""
    if math.isfinite(h.lipschitz):
        return typical_curvature(problem, h, h_x, g_x) or 1.0
    return arrays.norm(h_x.slope) / typical_length(problem, g_x) or 1.0


INSIDE = 1e-5  # minimum relative reduction of the multiplier; it puts the slope in f2's dual ball


def with_proof(problem: Problem, state: State) -> StepEvidence:
    """Return the evidence from the last step, the gradient of g1 at x_k, and a better cut.

    The cut of a step, at y_k with the multiplier Lambda_k, bounds f* to within q/(2 Lambda_k),
    where q is |u|² for the dual variable u. This error decreases like 1/k, much more slowly than
    the error of x_k. The cut at x_k + (s_k - x_k) Lambda_k/Lambda with a larger Lambda has the same
    dual variable, since

        Lambda grad g1 = Lambda_k grad g1(s_k) + (Lambda - Lambda_k) grad g1(x_k)

    This identity is exact if g1 is quadratic, and approximate otherwise. The extra cost of this cut
    is at most Lambda times ``excess``, a bound on g(x_k) - g*. The best Lambda makes this cost
    equal to the error q/(2 Lambda). The function returns only minorants: the bound accumulator
    decides what they prove.
    """
    g1, x, evidence = problem.smooth_parts[1], state.point, state.evidence
    ((g_x,), _) = g1.evaluate([x.g])
    y, multiplier = state.g_y, state.multiplier + state.sigma
    q = arrays.dot(y.at - x.x, y.slope - g_x.slope) * multiplier * multiplier
    weight, (excess, error) = evidence.upper[0][0], _excess(problem, state, g_x)
    evidence = evidence._replace(lower=(*evidence.lower, (weight * multiplier, g_x)))
    best = math.sqrt(0.5 * q / excess) if q > 0.0 and excess > 0.0 else 0.0  # Lambda
    if not state.multiplier < best < math.inf:
        return evidence
    cut_at = mixed(x, state.s, state.multiplier / best)
    ((cut,), _) = g1.evaluate([cut_at.g])
    inside = 0.0
    if problem.penalties[0].terms.has_weights:
        inside = min(max(INSIDE, 2.0 * error / (arrays.max_abs(cut.slope) or error)), 1.0)
    return evidence._replace(
        upper=(*evidence.upper, (weight, state.f_x)),
        cuts=(*evidence.cuts, ((1.0 - inside) * weight * best, cut)),
    )


def _excess(problem: Problem, state: State, g_x: Minorant) -> tuple[float, float]:
    """Return upper estimates of g(x_k) - g* and of the error in g's slope.

    Both estimates come from a proximal gradient step on g and account for rounding errors.
    """
    x, t = state.x, 1.0 / state.L_g
    length, reach = arrays.norm(x), problem.domain.diameter_in(int(x.shape[0]))
    reach = reach if math.isfinite(reach) else length
    left = arrays.norm(x - problem.prox(x - t * g_x.slope, 0.0, t)) / t
    parts, steepness = max(abs(g_x.value), g_x.size), arrays.norm(g_x.slope)
    of_value, of_slope = problem.lower.rounding_errors(x, length, parts, steepness)
    return left * reach + 2.0 * of_value + of_slope * (length + reach), left + of_slope
