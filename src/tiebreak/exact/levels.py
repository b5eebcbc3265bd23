"""The lower level, the set of its solutions and the upper level, solved in that order.

1. Minimise g over Z to rounding: Newton's method, whose steps are exact on balls and polyhedra.
2. Its minimisers are an affine slice of Z: { x in Z : Ax = A xhat, <c, x> = <c, xhat> }. On a
   polyhedron inequalities that hold with equality on all of the slice become equations of it.
3. Minimise f over that slice in the same way, or |x|_1 by a linear program.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiebreak.exact.active_set import PolyhedronSlice, can_be_strict
from tiebreak.exact.ball import BallSlice
from tiebreak.exact.basis_pursuit import BasisPursuit, sparsest
from tiebreak.exact.constants import INDEPENDENT, TOUCHING
from tiebreak.exact.newton import SetSlice, minimise, refine
from tiebreak.exact.polyhedra import PolyhedralRows, polyhedron
from tiebreak.exact.reductions.outliers import NOT_L1, NOT_ON_BALL, shared_rows
from tiebreak.exact.scaled_problem import L1Norm, ScaledProblem
from tiebreak.functions.parts.parts import Parts
from tiebreak.functions.parts.quadratic_parts import LeastSquaresPart
from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import Sliced, host, norm
from tiebreak.linalg.rank import Rank, as_it_is, decide_rank, graded_basis, null_basis
from tiebreak.linalg.spectra import EPS
from tiebreak.proofs.recession.programs import HARDLY_FALLS, recession
from tiebreak.sets.balls import Ball
from tiebreak.sets.domains import Space

NO_ROOM = 3e-7  # of the radius: a slice of a ball this small is a point, for its distance from the
# center is the radius up to a share of 5e-14

UNLIKE = 2.0**13  # units this far apart: slopes of f differ by its square, and what is rounding of
# the large ones is 1e-8 of the small ones

NO_PROGRAM = "HiGHS found no solution of the linear program of the sparsest lower minimiser"
DROWNED = (
    "some rows or columns of g are so much larger than others that these are lost in rounding "
    "errors: rescale them"
)
NOT_SETTLED = "Newton's method did not settle on a minimiser of {}: its losses hardly change there"
LARGE_MARGINS = "the margins are too large: losses that would decide are lost in rounding errors"


class ExactSolution(NamedTuple):
    """Both levels solved with one choice of the rank."""

    x: Host
    dimension: int | None  # of the set of lower minimisers; None where it is not determined
    residual: float  # of the conditions of optimality of both levels, relative
    normal: Host  # of Z at x: with the slice it balances the slope of f
    direction: Host | None = None  # of the slice, along which f falls without end
    doubt: str = ""  # a sentence, where x may not be what it should be
    sign: Host | None = None  # where f = |x|_1: its subgradient that balances the slice and normal
    rank: Rank | None = None  # of the slice's equations, where it is not that of g's rows


def solve(p: ScaledProblem, x0: Host, doubtful: bool) -> ExactSolution:
    """Both levels from a point x0 of Z; doubtful directions of A count or do not."""
    if isinstance(p.domain, Ball):
        return _on_ball(p, x0, p.domain, doubtful)
    answer = _on_polyhedron(p, x0 / p.units, p.polyhedron(), doubtful)
    if not p.is_rescaled:
        return answer
    price = np.ldexp(p.units, -p.exponent) if p.l1 is None else p.slope_units
    sign = None if answer.sign is None else answer.sign / price
    return answer._replace(x=p.units * answer.x, normal=answer.normal / price, sign=sign)


# --- on R^n and the ball --------------------------------------------------------------------------


def _on_ball(p: ScaledProblem, x0: Host, ball: Ball, doubtful: bool) -> ExactSolution:
    """Both levels on a ball: all slices of it are balls."""
    center = np.zeros(p.n) if ball.center is None else host(ball.center)
    N = null_basis(p.rows, doubtful=doubtful, found=p.rank)
    inside = _inside_ball(p, ball, center, N, doubtful) if np.any(p.rank.units != 1.0) else None
    dimension: int | None = N.shape[1]
    if inside is not None:
        x, residual, doubt = inside
        is_bound = False
    else:
        basis = p.basis(doubtful)
        whole = BallSlice(center, ball.radius, np.eye(p.n), p.factors(basis.shape[1]))
        g, x, settled = _lower(p, p.g, whole, x0, basis)
        g = g.magnified(x)
        slope = g.slope(x)
        mu = whole.multiplier(slope.vector, x)
        is_bound = mu * ball.radius > TOUCHING * slope.size
        pressing, mu = (np.eye(p.n), mu) if is_bound else (N[:, :0].T, 0.0)
        doubt = _doubt(p, g, x, settled, whole, pressing, mu)
        residual = _residual(g, whole, x, x0, basis)
        none = PolyhedralRows(N[:, :0].T, np.zeros(0), N[:, :0].T)
        if shared_rows(g, p.rows, none, pressing, x, p.epsilon).rows is not p.rows:
            doubt = doubt or NOT_ON_BALL
    across = (x - center) - N @ (N.T @ (x - center))
    part = norm(across) / ball.radius
    room = math.sqrt(max(1.0 - part, 0.0)) * math.sqrt(1.0 + part)  # relative to the radius
    if is_bound or room <= NO_ROOM:
        # The ball binds, or just touches the solutions: then x is the only one.
        dimension, N, room = (0 if is_bound or N.shape[1] == 0 else None), N[:, :0], 0.0
    solutions = BallSlice(center, ball.radius * room, N)
    return _upper(p, p.f, solutions, x, residual, dimension)._replace(doubt=doubt)


def _inside_ball(
    p: ScaledProblem, ball: Ball, center: Host, N: Host, doubtful: bool
) -> tuple[Host, float, str] | None:
    """The minimiser of g on R^n next to the center, if that is in the ball; with its residual.

    In g's own units, in which a ball is none; so it serves only where the ball does not matter.
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
    if not norm(w) <= (1.0 - TOUCHING) * ball.radius:
        return None
    doubt = _doubt(free, g, u, settled, whole, none)
    return center + w, _residual(g, whole, u, start, basis), doubt


# --- on polyhedra ---------------------------------------------------------------------------------


def _on_polyhedron(p: ScaledProblem, x0: Host, Z: PolyhedralRows, doubtful: bool) -> ExactSolution:
    """Both levels on a polyhedron, R^n included."""
    f, g, rows, basis = p.f, p.g, p.rows, p.basis(doubtful)
    if Z.lift is not None:
        f, g, rows = f.composed(Z.lift), g.composed(Z.lift), rows @ Z.lift
        basis = Z.lift.T @ basis / math.sqrt(2.0)
    # 1. The lower level.
    paired = Z.lift is not None
    whole = PolyhedronSlice(Z.rows, Z.offset, null_basis(Z.equal), Z.equal, paired)
    g, u, settled = _lower(p, g, whole, Z.lifted(x0), basis)
    if p.rank.is_determined:
        u = refine(g, whole, Z.equal, u, basis)
    g = g.magnified(u)
    residual, slope = _residual(g, whole, u, Z.lifted(x0), basis), g.slope(u)
    weights, _ = whole.balance(slope.vector, u)
    doubt = _doubt(p, g, u, settled, whole, np.vstack([whole.rows[weights > 0.0], Z.equal]))
    # 2. The set of its solutions.
    presses = weights > max(TOUCHING * slope.size, INDEPENDENT * float(np.max(weights, initial=0)))
    pressing = whole.rows[presses]
    shared = shared_rows(g, rows, Z, pressing, u, p.epsilon)
    is_whole, doubt = shared.rows is rows, doubt or shared.doubt
    equations, rank = np.vstack([shared.rows, Z.equal]), p.rank
    if paired and rank.is_plain and is_whole:
        rank = rank.of_pairs()
    elif paired or len(Z.equal) or not is_whole:
        rank = decide_rank(equations, p.epsilon)
    N = null_basis(equations, p.epsilon, doubtful, rank)
    held = None if p.is_rescaled else rank.basis[:, : equations.shape[1] - N.shape[1]].T
    slice_of_Z = PolyhedronSlice(shared.Z.rows, shared.Z.offset, N, held, paired)
    faces, equations, dimension = _solution_set(
        p, shared.Z, slice_of_Z, equations, pressing, u, doubtful
    )
    # 3. The upper level.
    if p.l1 is not None:
        if not is_whole:
            return ExactSolution(Z.point(u), dimension, residual, 0.0 * x0, doubt=doubt or NOT_L1)
        answer = _sparsest(p, p.l1, Z, u, residual, dimension, doubtful, rank)
        return answer._replace(doubt=doubt or answer.doubt)
    graded = faces
    if np.max(p.units) > UNLIKE * np.min(p.units):
        N = graded_basis(faces.N, f.curvature(u), equations)
        graded = PolyhedronSlice(faces.rows, faces.offset, N, faces.equal, faces.paired)
    answer = _upper(p, f, graded, u, residual, dimension)
    if slice_of_Z is not faces and answer.direction is None:  # the normal of Z, not of a face
        normal, _ = slice_of_Z.normal(f.slope(answer.x), answer.x)
        answer = answer._replace(normal=normal)
    answer = answer._replace(x=Z.point(answer.x), doubt=doubt or answer.doubt)
    if Z.lift is None:
        return answer._replace(rank=p.equations_in_x(rank, Z) if is_whole else None)
    return answer._replace(normal=0.5 * Z.lift @ answer.normal)


def _solution_set(
    p: ScaledProblem,
    Z: PolyhedralRows,
    faces: PolyhedronSlice,
    equations: Host,
    pressing: Host,
    u: Host,
    doubtful: bool,
) -> tuple[PolyhedronSlice, Host, int | None]:
    """The slice of all minimisers, u among them, its equations and dimension (None: not known).

    Inequalities that hold with equality on all of the slice belong to its equations. Those with
    positive multipliers do (``pressing``): along the slice g's slope is 0, and so is the sum of
    weights <rows, d>. Of the others that are met at u a linear program finds them.
    """
    if len(pressing):
        N = _common_null_basis(equations, pressing, p.epsilon, doubtful)
        faces, equations = PolyhedronSlice(Z.rows, Z.offset, N), np.vstack([equations, pressing])
    met = faces.slack(u, TOUCHING)[0] == 0.0
    can_move = can_be_strict(faces.B[met])
    if can_move is None:
        return faces, equations, None
    if not can_move.all():
        equations = np.vstack([equations, faces.rows[met][~can_move]])
        faces = PolyhedronSlice(Z.rows, Z.offset, null_basis(equations, p.epsilon, doubtful))
    dimension = faces.N.shape[1]
    if Z.lift is not None and dimension:  # (p, q) may move where p - q does not
        deadline.check(0.5 * deadline.svd_work(len(Z.lift), dimension))
        moves = np.linalg.svd(Z.lift @ faces.N, compute_uv=False)
        dimension = int(np.count_nonzero(moves > TOUCHING))
    return faces, equations, dimension


def _common_null_basis(equations: Host, rows: Host, epsilon: float, doubtful: bool) -> Host:
    """Of the equations and of further rows of length 1, which may fix single variables."""
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
    """A minimiser of g from x, and whether it is one; with g as it was weighted.

    Where all rows can be met at once, their weights do not matter: then they are made alike.
    """
    if np.any(p.rank.row_units != 1.0) and g.only(LeastSquaresPart):
        alike = g.reweighted(p.rank.row_units)
        met, settled = minimise(alike, where, x, basis)
        if settled and all(_is_met(part, met) for part in alike.parts):
            return alike, met, settled
    return (g, *minimise(g, where, x, basis))


def _is_met(part: object, x: Host) -> bool:
    """Are all rows of these squares met, up to rounding, each relative to its own terms?"""
    assert isinstance(part, LeastSquaresPart)
    off = np.abs(part.sliced.times(x, part.target))
    return bool(np.all(off <= 64 * EPS * (np.abs(part.rows) @ np.abs(x) + np.abs(part.target))))


def _upper(
    p: ScaledProblem, f: Parts, where: SetSlice, x: Host, residual: float, dimension: int | None
) -> ExactSolution:
    """Minimise f over the slice, from the lower minimiser x."""
    doubt = ""
    if not p.is_bounded and isinstance(where, PolyhedronSlice):
        fall = recession(p.problem, 1, p.n)
        if fall.direction is not None:
            return ExactSolution(x, dimension, residual, 0.0 * x, fall.direction)
        doubt = "" if fall.is_certain else HARDLY_FALLS.format("f has a minimum")
    basis = None
    if not f.is_quadratic:  # whose flat directions are to stay flat in every step
        rank = decide_rank(f.rows(), units=as_it_is(f.rows()))
        basis = rank.basis[:, : rank.low]
    start, (x, settled) = x, minimise(f, where, x, basis)
    slope = f.slope(x)
    if not settled or math.isinf(slope.error):
        doubt = doubt or NOT_SETTLED.format("f")
    normal, _ = where.normal(slope, x)
    residual = max(residual, _residual(f, where, x, start, basis))
    return ExactSolution(x, dimension, residual, normal, doubt=doubt)


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
    if Z.lift is not None:  # an l1 ball: what is sparser than a point of it is in it too
        Z, x, rank = polyhedron(Space(), p.n), Z.lift @ x, p.rank
    equations = Sliced(np.vstack([p.rows, Z.equal]))
    rank = rank._replace(low=rank.high) if doubtful else rank
    center, offset = l1.center / p.units, Z.offset
    if center.any():
        offset = offset - Z.rows @ center
    found = sparsest(BasisPursuit(equations, rank, x - center, Z.rows, offset, p.prices))
    if found is None:
        return ExactSolution(x, dimension, residual, 0.0 * x, doubt=NO_PROGRAM)
    residual, rank = max(residual, found.residual), p.equations_in_x(rank, Z)
    x = Z.point(found.x + center)
    return ExactSolution(x, dimension, residual, found.normal, sign=found.sign, rank=rank)


# --- what may be rounding -------------------------------------------------------------------------


def _doubt(
    p: ScaledProblem,
    g: Parts,
    x: Host,
    settled: bool,
    whole: SetSlice,
    pressing: Host,
    curvature: float = 0.0,
) -> str:
    """Why x may not be the minimiser of g over the whole domain, or "".

    For quadratics: directions in which g varies may be lost beside larger rows or columns, but for
    those that do not matter relative to the ``curvature`` that a ball adds. Logistic losses may
    vanish beside the rounding errors of the others: they do no harm if the other losses, and the
    constraints that press, determine x as well.
    """
    if g.is_quadratic:
        if p.rank.is_plain:
            return ""
        R = g.curvature(x)
        deadline.check(0.5 * deadline.svd_work(*R.shape))
        sigma = np.linalg.svd(R, compute_uv=False)
        least = max(R.shape) * EPS * norm(R)
        is_lost = np.count_nonzero(sigma > least) < p.rank.low
        return DROWNED if is_lost and least > 1e-6 * math.sqrt(curvature) else ""
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


def _residual(h: Parts, where: SetSlice, x: Host, start: Host, basis: Host | None = None) -> float:
    """How much of h's slope at x no normal balances, relative to the size of its terms.

    For quadratics relative to a millionth of their size at the start, if that is more: x may be 0.
    The slope counts along the directions of the basis, in which h varies: others are rounding.
    """
    slope = h.slope(x)
    if basis is not None:
        slope = slope._replace(vector=basis @ (basis.T @ slope.vector))
    size = max(slope.size, 1e-6 * h.slope(start).size) if h.is_quadratic else slope.size
    return where.normal(slope, x)[1] / size if size > 0.0 else 0.0
