"""Exact: the answer by direct factorisation, if the lower level is a loss of a linear map.

If g(x) = phi(Ax) + <c, x> with phi strictly convex, all its minimisers over Z have the same values
Ax and <c, x>:

    X_g* = { x in Z : Ax = A xhat, <c, x> = <c, xhat> }    for any one minimiser xhat.

So we solve the lower level once, to within rounding error, and then minimise f over an affine slice
of Z. f has the same form as g, or it is weight |x|_1; in the second case, a linear program finds
the sparsest lower minimiser.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tiebreak.algorithms.base import DirectState, Method, StateReport
from tiebreak.exact.ball import ball_of
from tiebreak.exact.basis_pursuit import L1Norm
from tiebreak.exact.bounds.evaluations import evaluate_with_errors
from tiebreak.exact.bounds.intervals import prove, prove_within
from tiebreak.exact.bounds.rescaled import prove_rescaled
from tiebreak.exact.bounds.tall_bounds import prove_tall
from tiebreak.exact.bounds.wide_bounds import prove_wide
from tiebreak.exact.levels import DROWNED, LARGE_MARGINS, ExactSolution, solve
from tiebreak.exact.polyhedra import PolyhedralRows, exact_rows, start
from tiebreak.exact.reductions.images_above import refuse as refuse_operator
from tiebreak.exact.reductions.images_above import residuals_above, with_images, with_residuals
from tiebreak.exact.reductions.lasso import OnlyMinimiser, on_orthant, smooth_part
from tiebreak.exact.reductions.outliers import AT_DELTA, NO_RANK
from tiebreak.exact.reductions.reduction import Reduction, in_squares, l1_above
from tiebreak.exact.reductions.tall import is_tall, solve_tall
from tiebreak.exact.reductions.wide import WideProblem, solve_wide
from tiebreak.exact.scaled_problem import ScaledProblem
from tiebreak.functions import Minorant, Parts, decompose, split, summands
from tiebreak.linalg import EPS, TOL, Array, Rank, Refusal, arrays, deadline, in_files, refusal_of
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.rank import in_units
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import Intervals, StepEvidence
from tiebreak.proofs.gate import ANSWER, DOUBT, FALLS, Ended
from tiebreak.proofs.recession.programs import HARDLY_FALLS, Recession, recession
from tiebreak.proofs.recession.watch import NoMinimum

NEEDED = "must be R^n, a ball, an l1 ball, or a set of linear constraints"
NO_SQUARES = (
    "rank not determined: the eigenvalues of A A' do not decide it, and there are too many "
    "variables for singular values ({})"
)
SEEN_OR_NOT = (
    "not determined whether f varies along some of the lower minimisers: its change along "
    "them is less than 1e3 times the rounding error; f is {:.6g} if that change is rounding error, "
    "{:.6g} if it is real"
)
NO_LOWER, NO_UPPER = "g has a minimiser", "f has a minimum"
READINGS = (  # doubts about the data, not about the computation
    *map(HARDLY_FALLS.format, (NO_LOWER, NO_UPPER)), *map(DROWNED.format, "fg"), LARGE_MARGINS,
    AT_DELTA, NO_RANK,
)  # fmt: skip


@in_files("ExactFindings")
class ExactFindings(NamedTuple):
    """What the factorisations reveal besides x."""

    dimension: int | None  # dimension of the lower minimisers; None if not determined
    rank: int  # rank of the rows whose products with all minimisers are the same
    # The smallest singular value that counts towards the rank, and the next one. These singular
    # values belong to the matrix itself, to several matrices scaled to norm 1, or to an
    # equilibrated matrix if rows or columns differ much in size.
    sigma: float
    sigma_next: float
    # The distance from the given data to data for which x is exact, in units of the singular
    # values.
    backward_error: float
    upper_range: tuple[float, float]  # the values of f for the smaller and for the larger rank
    residual: float  # the larger of the two levels' relative residuals
    one_sided: str = ""  # why no upper bound on f* is proved, or ""
    left_open: int = 0  # a bound on the dimension of the solution set; x has the least norm
    is_flat: bool = False  # is f constant on the lower minimisers, and are there several?

    @property
    def is_ambiguous(self) -> bool:
        """Does f depend on a rank that rounding decides?"""
        low, high = self.upper_range
        apart, size = abs(high - low), max(abs(low), abs(high))
        return low != high and not (math.isfinite(size) and apart <= TOL.accurate * size)

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines for the report."""
        lines = [("rank", f"{self.rank}; singular values {self.sigma:.3g} | {self.sigma_next:.3g}")]
        lines.append(
            ("backward", f"error {self.backward_error:.2g}, in units of the singular values")
        )
        lines.append(("residual", f"{self.residual:.2g} (relative) in the optimality conditions"))
        low, high = self.upper_range
        if low != high:
            text = f"{low:.9g} with the smaller rank, {high:.9g} with the larger"
            lines.append(("f by rank", text))
        if self.left_open:
            which = "all ties" if self.is_flat else f"ties in {self.left_open} dimensions"
            lines.append(("left open", f"f is the same for {which}: x has the least norm"))
        return [*lines, ("one-sided", self.one_sided)] if self.one_sided else lines


@dataclass(frozen=True)
class Exact(Method):
    """The exact answer by direct factorisation, in one step.

    `Exact` solves the lower level by Newton's method over Z (one step if g is quadratic). It solves
    the upper level over the slice of all lower minimisers: using singular values and the root of a
    scalar equation on R^n and the ball, and face by face on polyhedra. If a polyhedron has many
    faces, an interior-point method guesses the right one. For f = L1(weight), HiGHS solves a linear
    program for the sparsest lower minimiser, which is then refined up to rounding. A lower level
    with an l1 penalty on R^n is reduced to one on an orthant (`reductions.lasso`). The method has
    to decide the rank: the run ends as "undetermined" if the singular values have no clear gap, or
    if the losses are too small to determine the answer. If f has several minimisers among the lower
    minimisers, the one of least norm is returned (``Problem(counted=...)`` restricts the norm to
    some variables). The answer does not depend on x0, because the method starts at the point of Z
    nearest to the origin, or at x0 if A has many more rows than variables.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.Exact(), rtol=1e-2).status
        'certified'
    """

    name: ClassVar[str] = "exact"
    needs_projection: ClassVar[bool] = False
    paper: ClassVar[str] = "none: the lower level's solution set is an affine slice of Z"
    assumptions: ClassVar[str] = (
        "f and g are sums of smooth losses whose entries are known, quadratic and linear terms, or "
        "f is an l1 or l2 norm alone; on R^n, g may have an l1 penalty plus squares or logistic "
        "losses; Z is R^n, a ball (not with an l1 norm), an l1 ball, or a set of linear constraints"
    )
    guarantee: ClassVar[str] = (
        "x and f* to within rounding error, for data within the stated backward error; or a "
        "message that the rank is not determined, or that there is no minimum"
    )
    output: ClassVar[str] = "the point that solves the optimality conditions of both levels"

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse a problem that violates the assumptions."""
        squares = in_squares(problem)
        problem = problem if squares is None else squares.problem
        Z = problem.domain
        if not (Z.is_polyhedral or Z.as_ball):
            return Refusal("Exact", "domain", NEEDED, type(problem.domain).__name__)
        if WideProblem.of(problem) or is_tall(problem) or residuals_above(problem):
            return None  # the parts of such a problem could be too large
        return refusal_of(lambda: _parts(problem, problem.dimension or 1))

    def describe(self, problem: Problem) -> str:
        """Describe the method in words."""
        return f"Exact, by direct factorisation, on {type(problem.domain).__name__}"

    def report(self, state: DirectState) -> StateReport:
        """Report how the step ended and what it found."""
        found = state.findings
        if found is None:  # before the step, which can prove more than a check now
            return StateReport(state.finished, decides=not state.finished.why, is_evaluated=True)
        if isinstance(found, NoMinimum):
            return StateReport(state.finished, fall=found, is_evaluated=True)
        return StateReport(
            state.finished,
            is_evaluated=True,
            is_ambiguous=found.is_ambiguous or state.finished[1] in READINGS,
            findings=found,
            one_sided=found.one_sided,
        )

    def init(self, problem: Problem, x0: Array) -> DirectState:
        """Return the values at x0 without evidence: nothing is proved before the step."""
        return DirectState(0, x0, problem.upper.value(x0), problem.lower.value(x0), StepEvidence())

    def step(self, problem: Problem, state: DirectState) -> DirectState:
        """Solve both levels in one step."""
        n = int(state.x.shape[0])
        found = with_images(problem, n) or in_squares(problem) or on_orthant(problem, n, state.x)
        found = found or with_residuals(problem, n)
        if found is not None:
            return self._by_reduction(problem, state.x, found)
        if (end := _by_row_gram(problem, state.x)) is not None:
            return end
        end, is_last = _by_second_derivatives(problem, state.x)
        if end is not None and is_last:
            return end
        try:
            parts = _parts(problem, n)
        except Refusal as too_long:
            if end is not None:
                return end
            end = _without_minorants(_state(problem, 1, state.x))
            return end._replace(finished=Ended(DOUBT, NO_SQUARES.format(too_long.got)))
        return _by_rows(problem, state.x, parts)

    def _by_reduction(
        self, problem: Problem, x0: Array, found: Reduction | OnlyMinimiser | str
    ) -> DirectState:
        """Take the step on a reduced problem with the same answer, or return why that fails."""
        if isinstance(found, OnlyMinimiser):
            return _without_ties(problem, x0, found)
        if isinstance(found, str):
            end = _without_minorants(_state(problem, 1, x0))
            return end._replace(finished=Ended(DOUBT, found))
        start = x0 if found.point is None else np.zeros(found.problem.dimension or 0)
        inner, point = self.step(found.problem, self.init(found.problem, start)), found.point
        x, findings = inner.x, inner.findings
        if point is not None:
            x = problem.domain.projected(arrays.like(point(host(x)), x0))
        if isinstance(findings, NoMinimum) and point is not None:
            findings = findings._replace(direction=point(findings.direction))
        elif isinstance(findings, ExactFindings):
            findings = findings._replace(upper_range=found.values(findings.upper_range))
            if findings.dimension is not None:
                findings = findings._replace(dimension=findings.dimension - found.spare)
        intervals = found.proved(inner.evidence.intervals)
        return _ended(problem, _state(problem, 1, x), inner.finished, findings, intervals)


def _by_rows(problem: Problem, given: Array, parts: tuple[Parts, Parts]) -> DirectState:
    """Solve both levels by factorising the rows, which loses half as many digits as A A' would.

    The answer has the same array type as ``given``.
    """
    n, is_ball = int(given.shape[0]), ball_of(problem.domain, 1) is not None
    rows = None if is_ball else exact_rows(problem.domain, n)
    fall = (
        Recession(None)
        if math.isfinite(problem.domain.diameter_in(n))
        else recession(problem, 0, n)
    )
    if fall.direction is not None:
        return _unbounded(problem, given, NoMinimum("lower", fall.direction))
    x0, (scaled, rank) = start(problem.domain, n, rows), _scaled(problem, parts, given, rows)

    def solved(doubtful: bool) -> tuple[ExactSolution, DirectState, float]:
        answer = solve(scaled, x0, doubtful)
        x = problem.domain.projected(arrays.like(answer.x, given))  # x is in Z up to rounding
        end = _state(problem, 1, x)
        return answer, end, -math.inf if answer.direction is not None else end.upper_value

    answer, end, low = solved(doubtful=False)
    high = low if rank.is_determined and answer.is_clear else solved(doubtful=True)[2]
    is_certain = rank.is_determined and fall.is_certain and not answer.doubt
    if is_certain and answer.direction is not None:
        return _unbounded(problem, end.x, NoMinimum("upper", answer.direction))
    findings = _findings(rank, answer, (low, high))
    if doubt := _doubt(findings, rank.is_determined, fall.is_certain, answer):
        findings = findings._replace(dimension=None)
        return _ended(problem, end, Ended(DOUBT, doubt), findings, None)
    intervals = None
    deadline.allow_as_much_again()
    with contextlib.suppress(deadline.Over):  # x stays valid if time ends during the proof
        normal, seen = np.ldexp(answer.normal, parts[0].exponent), _minorants(end)
        values = end.upper_value, end.lower_value
        if answer.sign is None:
            intervals = prove_rescaled(scaled, problem, host(end.x), normal, values)
        if intervals is None or not intervals.are_sharp(*values):
            others = prove(problem, end.x, normal, answer.sign, parts, seen, rows)
            intervals = others if intervals is None else others.both(intervals)
        findings = findings._replace(one_sided=intervals.why)
    return _solved(problem, end, findings, intervals)


def _solved(
    problem: Problem, end: DirectState, findings: ExactFindings, intervals: Intervals | None
) -> DirectState:
    """Return the answer with the bounds that are proved for it."""
    ending = (
        "by direct factorisation, the optimality conditions of both levels hold to "
        f"{findings.residual:.1g}, with a backward error of {findings.backward_error:.1g}"
    )
    return _ended(problem, end, Ended(ANSWER, ending), findings, intervals)


def _ended(
    problem: Problem,
    end: DirectState,
    finished: Ended,
    findings: ExactFindings | None,
    intervals: Intervals | None,
) -> DirectState:
    has_promise = problem.radius is not None or problem.error_bound is not None
    is_proved = intervals is not None and intervals.is_two_sided and not has_promise
    if is_proved or not problem.domain.has_projection:
        # If f* is proved, a minorant at x could only show that a promise is false. Without a
        # projection, a minorant is useless, because its minimum over Z is unknown.
        end = _without_minorants(end)
    evidence = end.evidence._replace(intervals=intervals)
    return end._replace(evidence=evidence, findings=findings, finished=finished)


def _without_ties(problem: Problem, x0: Array, only: OnlyMinimiser) -> DirectState:
    """End the step if the lower level has only one minimiser."""
    x = arrays.like(only.x, x0)
    end, g = _state(problem, 1, x), evaluate_with_errors(problem.lower, x)
    findings = ExactFindings(
        dimension=0,
        rank=only.rank,
        sigma=only.sigma,
        sigma_next=0.0,
        backward_error=EPS * only.size,
        upper_range=(end.upper_value, end.upper_value),
        residual=only.residual,
    )
    moved = norm(host(x) - only.x)  # by rounding to single precision
    least = g.value - g.value_error - g.steepness * moved - only.gap
    proved = prove_within(problem, x, only.distance + moved)
    proved = proved._replace(lower=least, has_minimiser=True)
    return _solved(problem, end, findings, proved)


def _by_row_gram(problem: Problem, x0: Array) -> DirectState | None:
    """Return the answer of `solve_wide` with the bounds that are proved for it, or None."""
    wide = solve_wide(problem, x0)
    if wide is None:
        return None
    end = _state(problem, 1, wide.x)
    intervals, residual = prove_wide(problem, wide, *_minorants(end))
    if not residual <= TOL.accurate:
        return None
    gram, rank = wide.gram, wide.rank
    least, top = (
        math.ldexp(math.sqrt(s), gram.exponent) for s in (gram.value(rank), gram.value(1))
    )
    findings = ExactFindings(
        dimension=gram.shape[1] - rank,
        rank=rank,
        sigma=least if rank else 0.0,
        sigma_next=wide.rest,
        backward_error=max(wide.rest, EPS * top),
        upper_range=(end.upper_value, end.upper_value),
        residual=residual,
        left_open=wide.left_open,
    )
    # If rest > 0, the stored matrix has a different rank, and we claim no bounds.
    return _solved(problem, end, findings, None if wide.rest > 0.0 else intervals)


def _by_second_derivatives(problem: Problem, x0: Array) -> tuple[DirectState | None, bool]:
    """Return the answer of `solve_tall`, or None, and whether it is final.

    The answer is final if everything is proved, or if the columns are dependent only up to
    rounding. Otherwise, factorising the rows may prove more.
    """
    tall = solve_tall(problem, x0)
    if tall is None:
        return None, False
    x = arrays.like(tall.x, x0)
    intervals, residual = prove_tall(problem, tall, host(x))
    if not residual <= TOL.accurate:
        return None, False
    end = _state(problem, 1, x)
    n, value = len(tall.x), end.upper_value
    sigma = np.sqrt(np.maximum(tall.values[::-1], 0.0))
    findings = ExactFindings(
        dimension=n - tall.rank,
        rank=tall.rank,
        sigma=float(sigma[tall.rank - 1]),
        sigma_next=0.0 if tall.is_exact or tall.rank == n else float(sigma[tall.rank]),
        backward_error=tall.lower.epsilon * float(sigma[0]),
        upper_range=(value, value),
        residual=residual,
        left_open=tall.left_open,
        is_flat=problem.is_smooth and 0 < tall.left_open == n - tall.rank,
    )
    (low, high), is_last = intervals.upper, intervals.is_two_sided
    if not problem.is_smooth:  # factorising the rows, in twice the precision, proves more
        is_last &= high - low <= TOL.faint * high
    is_last |= tall.is_rounded or tall.is_open_exactly is None
    known = None if tall.is_rounded else intervals
    return _solved(problem, end, findings, known), is_last


def _scaled(
    problem: Problem, parts: tuple[Parts, Parts], x: Array, Z: PolyhedralRows | None
) -> tuple[ScaledProblem, Rank]:
    """Return the problem in NumPy, and its rank in the units of the data."""
    # The rank is that of the data as given, even if single precision was converted to double.
    summed = (part for h in problem.smooth_parts for _, part in summands(h.bare))
    epsilon = max(arrays.epsilon(x), *(part.data_epsilon for part in summed))
    f, g = parts
    rows = g.rows(epsilon, f.sizes())
    l1 = L1Norm.of(problem, f.n) if problem.penalties[0].terms.has_weights else None
    counted = None if problem.counted is None else host(problem.counted)
    scaled = ScaledProblem(problem, f.scaled, g.scaled, rows, epsilon, l1, counted, Z)
    rank = scaled.rank
    if scaled.is_rescaled:  # convert multipliers and directions to the units of x
        rank = in_units(rank, scaled.rows_in_x, scaled.units)
    return scaled, rank._replace(sigma=g.unit * rank.sigma) if rank.is_plain else rank


def _parts(problem: Problem, n: int) -> tuple[Parts, Parts]:
    """Decompose f and g into parts, or raise a Refusal; an L1 norm in f is not a part."""
    (f, penalty), (g, below), Z = split(problem.upper), split(problem.lower), problem.domain
    name = type(Z).__name__
    if penalty.terms.has_operator:
        refuse_operator(problem)
    terms = penalty.terms
    f_parts = Parts(n, ()) if terms.has_weights else decompose("Exact", "upper", f, n)
    has_penalty = below.terms.has_weights
    g_parts = smooth_part(problem, n) if has_penalty else decompose("Exact", "lower", g, n)
    if not terms.has_weights:
        return f_parts, g_parts
    if l1_above(problem) is None:
        got = penalty if f.bare.is_zero else problem.upper.bare
        raise Refusal("Exact", "upper", "must be L1 or L2 alone if it has a penalty", repr(got))
    is_plain = terms.center is None and isinstance(terms.l1, float)
    if not Z.is_polyhedral:
        raise Refusal("Exact", "domain", "must be a polyhedron if upper is an l1 norm", name)
    if not (Z.is_linear or is_plain):
        needed = "must not be an l1 ball if upper is L1 with weights or a center"
        raise Refusal("Exact", "domain", needed, name)
    return f_parts, g_parts


def _doubt(
    findings: ExactFindings, is_determined: bool, is_minimum: bool, answer: ExactSolution
) -> str:
    """Return the reason why the answer is not determined, or ""."""
    if not is_determined:
        low, high = findings.upper_range
        return (
            f"rank not determined: singular values {findings.sigma:.3g} and "
            f"{findings.sigma_next:.3g}, the smaller of which is less than 1e3 times the "
            f"rounding error; f is {low:.6g} if that one is 0, {high:.6g} if not"
        )
    if findings.is_ambiguous:
        return SEEN_OR_NOT.format(*findings.upper_range)
    if not is_minimum:
        return HARDLY_FALLS.format(NO_LOWER)
    if not answer.doubt and not answer.residual <= TOL.accurate:
        return (
            f"the optimality conditions hold only to {answer.residual:.2g}, relative to their terms"
        )
    return answer.doubt


def _state(problem: Problem, k: int, x: Array) -> DirectState:
    """Evaluate f and g at x."""
    (point,) = problem.forward(x)
    (f_x,), (g_x,) = problem.upper.evaluate([point.f])[0], problem.lower.evaluate([point.g])[0]
    f2, g2 = (penalty.value(x) for penalty in problem.penalties)
    evidence = StepEvidence(
        upper=((1.0, f_x),),
        cuts=((1.0, g_x),),
        lower=((1.0, g_x),),
        values=((g_x.value + g2, g_x.at, g_x),),
    )
    return DirectState(k, x, f_x.value + f2, g_x.value + g2, evidence)


def _minorants(state: DirectState) -> tuple[Minorant, Minorant]:
    """Return the minorants of f and g at x."""
    ((_, f_x),), ((_, g_x),) = state.evidence.upper, state.evidence.lower
    return f_x, g_x


def _without_minorants(state: DirectState) -> DirectState:
    """Keep only the value of g at x as evidence."""
    return state._replace(evidence=StepEvidence(values=state.evidence.values))


def _findings(rank: Rank, answer: ExactSolution, uppers: tuple[float, float]) -> ExactFindings:
    """Collect the findings for this rank, before anything is proved."""
    sigma, following = rank.pair()
    return ExactFindings(
        dimension=answer.dimension if rank.is_determined else None,
        rank=rank.low,
        sigma=sigma,
        sigma_next=following,
        backward_error=max(following, EPS * float(np.max(rank.sigma, initial=0.0))),
        upper_range=uppers,
        residual=answer.residual,
        left_open=answer.left_open,
        is_flat=answer.is_flat,
    )


def _unbounded(problem: Problem, x: Array, found: NoMinimum) -> DirectState:
    """End the run because there is no minimum; keep the direction that proves this."""
    return _without_minorants(_state(problem, 1, x))._replace(
        finished=Ended(FALLS, found.sentence(problem.names)),
        findings=found._replace(direction=arrays.like(found.direction, x)),
    )
