"""Solve the lower level, find its solution set, and solve the upper level over that set.

1. Minimise g over Z to within rounding error by Newton's method, with exact steps on balls and
   polyhedra.
2. The minimisers of g form an affine slice of Z: { x in Z : Ax = A xhat, <c, x> = <c, xhat> }. On a
   polyhedron, inequalities that hold with equality on the whole slice become its equations.
3. Minimise f over that slice in the same way; if f is |x|_1, by a linear program.
4. The minimisers of f form a slice too, or a face of the linear program: minimise |x|² over them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiebreak.exact.active_set import PolyhedronSlice, can_be_strict
from tiebreak.exact.ball import BallSlice, ball_of
from tiebreak.exact.basis_pursuit import BasisPursuit, L1Norm, RankedEquations, sparsest
from tiebreak.exact.newton import SetSlice, minimise, refine
from tiebreak.exact.polyhedra import PolyhedralRows, whole_space
from tiebreak.exact.reductions.outliers import NOT_L1, NOT_ON_BALL, shared_rows
from tiebreak.exact.scaled_problem import UNLIKE, ScaledProblem
from tiebreak.functions import LeastSquaresPart, Parts
from tiebreak.linalg import AS_IT_IS, EPS, TOL, Host, Rank, deadline, decide_rank, null_basis
from tiebreak.linalg.host import norm
from tiebreak.linalg.rank import Directions, directions, graded_basis
from tiebreak.proofs.recession.programs import HARDLY_FALLS, recession

# A slice of a ball counts as a point if its radius is below this share of the ball's radius: its
# distance from the center then equals the ball's radius up to a relative error of 5e-14.
NO_ROOM = 3e-7

NO_PROGRAM = "HiGHS did not solve the linear program for the sparsest lower minimiser"
DROWNED = (
    "some rows or columns of {} are so large that rounding errors hide the others: rescale them"
)
NOT_SETTLED = "Newton's method did not converge to a minimiser of {}: its losses hardly change"
LARGE_MARGINS = "the margins are so large that rounding errors hide the losses that decide x"


class ExactSolution(NamedTuple):
    """The solution of both levels for one choice of the rank."""

    x: Host
    dimension: int | None  # dimension of the lower minimisers; None if not determined
    residual: float  # relative residual of the optimality conditions of both levels
    normal: Host  # the normal of Z at x that balances f's slope on the slice
    direction: Host | None = None  # a direction of the slice along which f is unbounded
    doubt: str = ""  # why x may be wrong, or ""
    sign: Host | None = None  # for f = |x|_1: the subgradient that the normal balances
    left_open: int = 0  # a bound on the dimension of the solution set; x has the least norm
    is_flat: bool = False  # is f constant on the lower minimisers, and are there several?
    is_clear: bool = True  # is the set of solutions known?


def solve(p: ScaledProblem, x0: Host, doubtful: bool) -> ExactSolution:
    """Solve both levels from x0 in Z; if ``doubtful``, the rank includes unclear directions."""
    if (ball := ball_of(p.domain, p.n)) is not None:
        answer = _on_ball(p, x0, *ball, doubtful)
        beyond = _beyond_ball(p, *ball, doubtful) if answer.doubt == NOT_ON_BALL else None
        return answer if beyond is None else beyond
    answer = _on_polyhedron(p, x0 / p.units, p.polyhedron(), doubtful)
    if not p.is_rescaled:
        return answer
    price = np.ldexp(p.units, -p.exponent) if p.l1 is None else p.slope_units
    sign = None if answer.sign is None else answer.sign / price
    return answer._replace(x=p.units * answer.x, normal=answer.normal / price, sign=sign)


# --- on R^n and the ball --------------------------------------------------------------------------


def _on_ball(
    p: ScaledProblem, x0: Host, center: Host, radius: float, doubtful: bool
) -> ExactSolution:
    """Solve both levels on a ball, all of whose slices are balls."""
    N = null_basis(p.rows, doubtful=doubtful, found=p.rank)
    inside = _inside_ball(p, center, radius, N, doubtful) if np.any(p.rank.units != 1.0) else None
    dimension: int | None = N.shape[1]
    if inside is not None:
        x, residual, doubt = inside
        is_bound = False
    else:
        basis = p.basis(doubtful)
        whole = BallSlice(center, radius, np.eye(p.n), p.factors(basis.shape[1]))
        g, x, settled = _lower(p, p.g, whole, x0, basis)
        g = g.magnified(x)
        slope = g.slope(x)
        mu = whole.multiplier(slope.vector, x)
        is_bound = mu * radius > TOL.touching * slope.size
        pressing, mu = (np.eye(p.n), mu) if is_bound else (N[:, :0].T, 0.0)
        doubt = _doubt(p, g, x, settled, whole, pressing, mu)
        residual = _residual(g, whole, x, x0, basis)
        if shared_rows(g, p.rows, whole_space(p.n), pressing, x, p.epsilon).rows is not p.rows:
            doubt = doubt or NOT_ON_BALL
    solutions = BallSlice(center, radius, np.eye(p.n)).along(N, x)
    if is_bound or solutions.radius <= NO_ROOM * radius:
        # The ball's constraint is active, or the ball just touches the solution set: then x is the
        # only solution.
        dimension = 0 if is_bound or N.shape[1] == 0 else None
        solutions = BallSlice(center, 0.0, N[:, :0])
    return _upper(p, p.f, solutions, x, residual, dimension, doubtful)._replace(doubt=doubt)


def _inside_ball(
    p: ScaledProblem, center: Host, radius: float, N: Host, doubtful: bool
) -> tuple[Host, float, str] | None:
    """Return g's minimiser on R^n nearest to the center, if it is in the ball, and its residual.

    The search uses g's own units, in which the ball is not a ball, so its result is valid only if
    the ball's constraint is inactive.
    """
    free = p.on_space()
    fall = recession(free.problem, 0, p.n)
    if fall.direction is not None or not fall.is_certain:
        return None
    none, start = N[:, :0].T, np.zeros(p.n)
    whole = PolyhedronSlice(none, np.zeros(0), np.eye(p.n))
    basis = free.basis(doubtful)
    g, u, settled = _lower(free, free.g, whole, start, basis)
    g = g.magnified(u)
    w = free.units * u - center
    w = w - N @ (N.T @ w)
    if not norm(w) <= (1.0 - TOL.touching) * radius:
        return None
    doubt = _doubt(free, g, u, settled, whole, none)
    return center + w, _residual(g, whole, u, start, basis), doubt


def _beyond_ball(
    p: ScaledProblem, center: Host, radius: float, doubtful: bool
) -> ExactSolution | None:
    """Solve both levels on R^n; return the answer if it is inside the ball."""
    answer = solve(p.on_space(), np.zeros(p.n), doubtful)
    is_inside = norm(answer.x - center) <= (1.0 - TOL.touching) * radius
    return answer if is_inside and answer.direction is None and not answer.doubt else None


# --- on polyhedra ---------------------------------------------------------------------------------


def _on_polyhedron(p: ScaledProblem, x0: Host, Z: PolyhedralRows, doubtful: bool) -> ExactSolution:
    """Solve both levels on a polyhedron, R^n included."""
    f, g, rows, basis = p.f, p.g, p.rows, p.basis(doubtful)
    if Z.lift is not None:
        f, g, rows = f.composed(Z.lift), g.composed(Z.lift), rows @ Z.lift
        basis = Z.lift.T @ basis / math.sqrt(2.0)
    # 1. The lower level.
    whole = PolyhedronSlice(Z.rows, Z.offset, null_basis(Z.equal), Z.equal)
    g, u, settled = _lower(p, g, whole, Z.lifted(x0), basis)
    if p.rank.is_determined:
        u = refine(g, whole, Z.equal, u, basis)
    g = g.magnified(u)
    residual, slope = _residual(g, whole, u, Z.lifted(x0), basis), g.slope(u)
    weights, _ = whole.balance(slope.vector, u)
    doubt = _doubt(p, g, u, settled, whole, np.vstack([whole.rows[weights > 0.0], Z.equal]))
    # 2. The set of lower minimisers.
    most = float(np.max(weights, initial=0.0))
    presses = weights > max(TOL.touching * slope.size, TOL.independent * most)
    pressing = whole.rows[presses]
    shared = shared_rows(g, rows, Z, pressing, u, p.epsilon)
    is_whole, doubt = shared.rows is rows, doubt or shared.doubt
    equations, rank = np.vstack([shared.rows, Z.equal]), p.rank
    if Z.lift is not None or len(Z.equal) or not is_whole:
        rank = decide_rank(equations, p.epsilon)
    N = null_basis(equations, p.epsilon, doubtful, rank)
    held = None if p.is_rescaled else rank.basis[:, : equations.shape[1] - N.shape[1]].T
    slice_of_Z = PolyhedronSlice(shared.Z.rows, shared.Z.offset, N, held)
    faces, held_rows, dimension = _solution_set(
        p, shared.Z, slice_of_Z, equations, pressing, u, doubtful
    )
    # 3. The upper level.
    if p.l1 is not None:
        if not is_whole:
            return ExactSolution(Z.point(u), dimension, residual, 0.0 * x0, doubt=doubt or NOT_L1)
        answer = _sparsest(p, p.l1, Z, u, residual, dimension, doubtful, rank)
        return answer._replace(doubt=doubt or answer.doubt)
    graded = faces
    if p.needs_grading:
        found = rank if held_rows is equations else None
        N = graded_basis(faces.N, f.curvature(u), held_rows, found)
        graded = PolyhedronSlice(faces.rows, faces.offset, N, faces.equal)
    answer = _upper(p, f, graded, u, residual, dimension, doubtful, Z.lift)
    # use the normal of Z, not of a face
    if slice_of_Z is not faces and answer.direction is None:
        normal, _ = slice_of_Z.normal(f.slope(answer.x), answer.x)
        answer = answer._replace(normal=normal)
    answer = answer._replace(x=Z.point(answer.x), doubt=doubt or answer.doubt)
    return answer if Z.lift is None else answer._replace(normal=0.5 * Z.lift @ answer.normal)


def _solution_set(
    p: ScaledProblem,
    Z: PolyhedralRows,
    faces: PolyhedronSlice,
    equations: Host,
    pressing: Host,
    u: Host,
    doubtful: bool,
) -> tuple[PolyhedronSlice, Host, int | None]:
    """Return the slice of all minimisers (u is one of them), its equations and its dimension.

    Inequalities that hold with equality on the whole slice become equations of the slice. The
    dimension is None if it is unknown. Inequalities with positive multipliers (``pressing``) hold
    with equality: along every direction d of the slice, g's slope is 0, and hence so is the
    weighted sum of <rows, d>. A linear program finds which of the other inequalities active at u
    also hold with equality everywhere.
    """
    if len(pressing):
        N = _common_null_basis(equations, pressing, p.epsilon, doubtful)
        faces, equations = PolyhedronSlice(Z.rows, Z.offset, N), np.vstack([equations, pressing])
    met = faces.slack(u, TOL.touching)[0] == 0.0
    can_move = can_be_strict(faces.B[met])
    if can_move is None:
        return faces, equations, None
    if not can_move.all():
        equations = np.vstack([equations, faces.rows[met][~can_move]])
        faces = PolyhedronSlice(Z.rows, Z.offset, null_basis(equations, p.epsilon, doubtful))
    return faces, equations, _moves(np.eye(faces.N.shape[1]), faces.N, Z.lift)


def _common_null_basis(equations: Host, rows: Host, epsilon: float, doubtful: bool) -> Host:
    """Return a null basis of the equations and of unit rows, some of which may fix variables."""
    single = np.count_nonzero(rows, axis=1) == 1
    free = ~np.any(rows[single] != 0.0, axis=0)
    inside = null_basis(np.vstack([equations, rows[~single]])[:, free], epsilon, doubtful)
    N = np.zeros((len(free), inside.shape[1]))
    N[free] = inside
    return N


# --- one level ------------------------------------------------------------------------------------


def _lower(
    p: ScaledProblem, g: Parts, where: SetSlice, x: Host, basis: Host
) -> tuple[Parts, Host, bool]:
    """Minimise g from x; return the reweighted g, the point, and whether it is a minimiser.

    If all equations can hold at once, their weights do not matter and are made equal.
    """
    if np.any(p.rank.row_units != 1.0) and g.is_squares:
        alike = g.reweighted(p.rank.row_units)
        met, settled = minimise(alike, where, x, basis)
        if settled and all(_is_met(part, met) for part in alike.squares):
            return alike, met, settled
    return (g, *minimise(g, where, x, basis))


def _is_met(part: LeastSquaresPart, x: Host) -> bool:
    """Do all residuals of these squares vanish up to rounding, each relative to its own terms?"""
    off = np.abs(part.sliced.times(x, part.target))
    return bool(np.all(off <= 64 * EPS * (np.abs(part.rows) @ np.abs(x) + np.abs(part.target))))


def _upper(
    p: ScaledProblem,
    f: Parts,
    where: SetSlice,
    x: Host,
    residual: float,
    dimension: int | None,
    doubtful: bool,
    lift: Host | None = None,
) -> ExactSolution:
    """Minimise f, and then the norm, over the slice; start from the lower minimiser x."""
    doubt = ""
    if not p.is_bounded and isinstance(where, PolyhedronSlice) and where.N.size:
        fall = recession(p.problem, 1, p.n)
        if fall.direction is not None:
            return ExactSolution(x, dimension, residual, 0.0 * x, fall.direction)
        doubt = "" if fall.is_certain else HARDLY_FALLS.format("f has a minimum")
    left, basis = _left_open(p, f, where, doubtful, lift), None
    if left.unseen.size:
        basis = where.N @ left.seen
    elif not f.is_quadratic:  # flat directions of f must stay flat in every step
        rank = decide_rank(f.rows(), units=AS_IT_IS)
        basis = rank.basis[:, : rank.low]
    start, (x, settled) = x, minimise(f, where, x, basis)
    if left.unseen.size:
        # Minimise f again: a long move along flat directions leaves rounding errors that change f.
        x, settled = minimise(f, where, _least_norm(p, f, where, x, left, lift), basis)
    slope = f.slope(x)
    if not settled or math.isinf(slope.error):
        doubt = doubt or NOT_SETTLED.format("f")
    sizes = f.sizes()[f.sizes() > 0.0]
    if (
        f.is_quadratic
        and not p.is_rescaled
        and np.max(sizes, initial=0.0) > UNLIKE * np.min(sizes, initial=math.inf)
    ):
        # f's largest entries may hide the others, and Z does not allow rescaling
        R = f.curvature(x)
        if _is_drowned(R @ where.N, norm(R), decide_rank(R @ where.N).low):
            doubt = doubt or DROWNED.format("f")
    normal, _ = where.normal(slope, x)
    residual = max(residual, _residual(f, where, x, start, basis))
    left_open, is_flat = _moves(left.unseen, where.N, lift), left.unseen.size > left.seen.size == 0
    return ExactSolution(
        x, dimension, residual, normal, None, doubt, None, left_open, is_flat, left.is_clear
    )


def _left_open(
    p: ScaledProblem, f: Parts, where: SetSlice, doubtful: bool, lift: Host | None
) -> Directions:
    """Return the directions of the slice along which f varies, and other directions that move x."""
    N, every = where.N, np.eye(where.N.shape[1])
    if p.f.has_norm:
        return Directions(every, every[:, :0])
    rows, others = f.rows(p.epsilon), len(p.rows)
    found = directions(rows, N, p.epsilon, doubtful, others, p.needs_grading)
    return found if _moves(found.unseen, N, lift) else Directions(every, every[:, :0])


def _moves(unseen: Host, N: Host, lift: Host | None) -> int:
    """Count the directions that move x: if x = p - q, (p, q) may move while x does not."""
    if lift is None or not unseen.size:
        return int(unseen.shape[1])
    deadline.check(0.5 * deadline.svd_work(len(lift), unseen.shape[1]))
    moves = np.linalg.svd(lift @ (N @ unseen), compute_uv=False)
    return int(np.count_nonzero(moves > TOL.touching))


def _least_norm(
    p: ScaledProblem, f: Parts, where: SetSlice, x: Host, left: Directions, lift: Host | None
) -> Host:
    """Return the least-norm minimiser of f over the slice; the given x is one minimiser."""
    size = p.norm_of_x(lift)
    if isinstance(where, BallSlice):
        return minimise(size, where.along(left.unseen, x), x)[0]
    Z, N = PolyhedralRows(where.rows, where.offset, where.rows[:0]), where.N @ left.unseen
    if f.kinked:  # outliers of f appear as inequalities
        shared = shared_rows(f, f.rows(p.epsilon), Z, null_basis(where.N.T).T, x, p.epsilon)
        if not shared.doubt:
            found = directions(shared.rows, where.N, p.epsilon, is_graded=p.needs_grading)
            Z, N = shared.Z, where.N @ found.unseen
    if p.needs_grading:
        N = graded_basis(N, size.curvature(x), null_basis(N.T).T)
    return minimise(size, PolyhedronSlice(Z.rows, Z.offset, N), x)[0]


def _sparsest(
    p: ScaledProblem,
    l1: L1Norm,
    Z: PolyhedralRows,
    x: Host,
    residual: float,
    dimension: int | None,
    doubtful: bool,
    rank: Rank,
) -> ExactSolution:
    """Minimise |x - center|_1 over the slice, from the lower minimiser x."""
    if Z.lift is not None:  # an l1 ball contains every point with a smaller l1 norm
        Z, x, rank = whole_space(p.n), Z.lift @ x, p.rank
    rank = rank._replace(low=rank.high) if doubtful else rank
    center, offset = l1.center / p.units, Z.offset
    if center.any():
        offset = offset - Z.rows @ center
    equations = RankedEquations(np.vstack([p.rows, Z.equal]), rank, x - center)
    program = BasisPursuit(equations, Z.rows, offset, p.prices)
    found = sparsest(program, center, p.counted * p.units)
    if found is None:
        return ExactSolution(x, dimension, residual, 0.0 * x, doubt=NO_PROGRAM)
    residual = max(residual, found.residual)
    left_open = min(found.left_open, p.n if dimension is None else dimension)
    return ExactSolution(
        Z.point(found.x), dimension, residual, found.normal, None, "", found.sign, left_open
    )


# --- possible effects of rounding -----------------------------------------------------------------


def _doubt(
    p: ScaledProblem,
    g: Parts,
    x: Host,
    settled: bool,
    whole: SetSlice,
    pressing: Host,
    curvature: float = 0.0,
) -> str:
    """Say why x may not be the minimiser of g over the whole domain, or return "".

    For quadratics, large rows or columns may hide directions in which g varies; such directions do
    not matter if their curvature is negligible relative to the ``curvature`` that a ball adds.
    Logistic losses may be smaller than the rounding errors of the other losses. This does no harm
    if the other losses and the active constraints still determine x.
    """
    if not p.rank.is_plain:
        R, rank = g.curvature(x), p.rank.low
        size = norm(R)
        if not g.is_quadratic:  # active constraints may detect changes that losses miss
            R = np.vstack([R, size * pressing])
            rank = decide_rank(np.vstack([g.rows(), pressing])).low
        matters = max(R.shape) * EPS * size > 1e-6 * math.sqrt(curvature)
        if matters and _is_drowned(R, size, rank):
            return DROWNED.format("g")
    if g.is_quadratic:
        return ""
    slope = g.slope(x)
    if not settled or math.isinf(slope.error):
        return NOT_SETTLED.format("g")
    least = 1e3 * (whole.normal(slope, x)[1] + slope.error)
    seen = g.without_negligible(x, least)
    if sum(map(len, seen.blocks())) == sum(map(len, g.blocks())):
        return ""
    if len(pressing) >= p.n and decide_rank(pressing).low == p.n:
        return ""
    counted = decide_rank(np.vstack([seen.rows(), pressing])).low
    return LARGE_MARGINS if counted < decide_rank(np.vstack([g.rows(), pressing])).low else ""


def _is_drowned(R: Host, size: float, rank: int) -> bool:
    """Are directions that count towards the rank lost in rounding errors relative to ``size``?"""
    deadline.check(0.5 * deadline.svd_work(*R.shape))
    clear = np.linalg.svd(R, compute_uv=False) > max(R.shape) * EPS * size
    return bool(np.count_nonzero(clear) < rank)


def _residual(h: Parts, where: SetSlice, x: Host, start: Host, basis: Host | None = None) -> float:
    """Return the part of h's slope at x that no normal balances, relative to the slope's terms.

    For quadratics, the divisor is at least a millionth of the size of the slope's terms at the
    start, because x may be 0. Only the slope along the basis counts: h does not vary in other
    directions.
    """
    slope = h.slope(x)
    if basis is not None:
        slope = slope._replace(vector=basis @ (basis.T @ slope.vector))
    size = max(slope.size, 1e-6 * h.slope(start).size) if h.is_quadratic else slope.size
    return where.normal(slope, x)[1] / size if size > 0.0 else 0.0
