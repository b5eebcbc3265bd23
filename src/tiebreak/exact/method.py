"""Exact: the answer by structure, where the lower level is a loss of a linear map.

If g(x) = phi(Ax) + <c, x> with phi strictly convex, all minimisers of g over Z share Ax and <c, x>:

    X_g* = { x in Z : Ax = A xhat, <c, x> = <c, xhat> }    for any one minimiser xhat.

So: solve the lower level once, to rounding; then minimise f over an affine slice of Z. f is
quadratic, or weight |x|_1: the sparsest of all lower minimisers, by a linear program.
"""

from __future__ import annotations

import contextlib
import copy
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tiebreak.algorithms.base import Method, StateReport
from tiebreak.exact.basis_pursuit import Slice, sparsest
from tiebreak.exact.equations import Equations
from tiebreak.exact.faces import (
    CLEAR,
    Disc,
    Faces,
    Fall,
    Polyhedron,
    Region,
    falling,
    falling_losses,
    loose,
    minimise,
    polish,
    polyhedron,
)
from tiebreak.exact.intervals import prove, prove_within
from tiebreak.exact.rescaled import stretched
from tiebreak.functions.base import Flat
from tiebreak.functions.parts import (
    EPS,
    Host,
    LogisticPart,
    QuadraticPart,
    Rank,
    Squares,
    Structure,
    Tilt,
    as_it_is,
    decide_rank,
    host,
    in_units,
    norm,
    null_basis,
    parts_of,
    product,
    structure,
)
from tiebreak.functions.penalties import Zero, split
from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Array
from tiebreak.linalg.refusals import Refusal, refusal_of
from tiebreak.linalg.spectra import equilibrate
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import Intervals, StepEvidence
from tiebreak.sets.domains import Ball, Box, Halfspace, L1Ball, Monotone, Simplex, Space

DOMAINS = (Space, Ball, Box, Simplex, L1Ball, Monotone, Halfspace)  # an Orthant is a Box
TOUCHING = 1e-10  # relative: constraints this close are met with equality, slopes this small are 0
ROUNDING = 1e-12  # relative: slopes this small may be none
NO_PROGRAM = "HiGHS found no solution of the linear program of the sparsest lower minimiser"
HARDLY = "whether {} is not determined: it hardly falls, if at all"
DROWNED = (
    "some rows or columns of g are so much larger than others that these are lost in rounding "
    "errors: rescale them"
)
ACCURATE = 1e-9  # the conditions of optimality hold to this, or there is no answer


class ExactFindings(NamedTuple):
    """What the structure says besides x."""

    dimension: int | None  # of the set of lower minimisers; None where it is not determined
    rank: int  # of the rows whose products with x all minimisers share
    # The singular values on both sides of the rank decision: of that matrix itself; of several
    # matrices scaled to length 1; or equilibrated, where rows or columns differ much in size.
    sigma: float
    sigma_next: float
    backward_error: float  # x is exact for data that differ from yours by this, in the same units
    upper_range: tuple[float, float]  # f with the smaller and with the larger rank
    residual: float  # of the conditions of optimality, the larger of both levels, relative
    direction: Array | None = None  # along which there is no minimum
    one_sided: str = ""  # why f* is not proved from above, where it is not

    @property
    def is_ambiguous(self) -> bool:
        """Does f depend on a rank that rounding decides?"""
        low, high = self.upper_range
        apart, size = abs(high - low), max(abs(low), abs(high))
        return low != high and not (math.isfinite(size) and apart <= ACCURATE * size)

    def lines(self) -> list[tuple[str, str]]:
        """For the report."""
        rank = ("rank", f"{self.rank}; singular values {self.sigma:.3g} | {self.sigma_next:.3g}")
        if self.direction is not None:
            return [rank]
        low, high = self.upper_range
        lines = [
            rank,
            (
                "backward",
                f"error {self.backward_error:.2g}: x is exact for data that close to yours",
            ),
            ("residual", f"{self.residual:.2g} of the conditions of optimality, relative"),
        ]
        if low != high:
            text = f"{low:.9g} with the smaller rank, {high:.9g} with the larger"
            lines.append(("f by rank", text))
        if self.one_sided:
            lines.append(("one-sided", self.one_sided))
        return lines


class State(NamedTuple):
    """Before the step and after it."""

    k: int
    x: Array
    upper_value: float
    lower_value: float
    evidence: StepEvidence
    finished: tuple[str, str] = ("", "")
    findings: ExactFindings | None = None


@dataclass(frozen=True)
class Exact(Method):
    """The exact answer by structure, in one step.

    The lower level by Newton's method over Z (one step where g is quadratic), the upper one over
    the slice that all lower minimisers share: by singular values and a scalar root on R^n and the
    ball, face by face on polyhedra (an interior-point method guesses which, where there are many).
    The sparsest lower minimiser, f = L1(weight), is a linear program (HiGHS), solved to rounding.
    Rank is a decision: where no gap in the singular values tells, the run ends as "undetermined",
    and also where logistic losses are too small to decide. x0 does not matter: it begins at the
    point of Z nearest to the origin.
    """

    name: ClassVar[str] = "exact"
    paper: ClassVar[str] = "none: the structure of the lower level's solution set"
    assumptions: ClassVar[str] = (
        "g a sum of LeastSquares, Logistic, Quadratic, SquaredNorm, Linear; f the same without "
        "Logistic, or L1 alone; Z one of Space, Ball (not with L1), Orthant, Box, Simplex, L1Ball, "
        "Monotone, Halfspace"
    )
    guarantee: ClassVar[str] = (
        "x and f* to rounding, for data within the stated backward error; or the sentence that "
        "the rank is not determined, or that there is no minimum"
    )

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse a problem outside the assumptions."""
        if not isinstance(problem.domain, DOMAINS):
            needed = "must be Space, Ball, Orthant, Box, Simplex, L1Ball, Monotone or Halfspace"
            return Refusal("Exact", "domain", needed, type(problem.domain).__name__)
        return refusal_of(lambda: _structures(problem, problem.dimension or 1))

    def describe(self, problem: Problem) -> str:
        """The method in words."""
        return f"Exact, by the structure of the lower level, on {type(problem.domain).__name__}"

    def report(self, state: State) -> StateReport:
        """How it ended, and what it found out."""
        found = state.findings
        if found is None:
            return StateReport(state.finished)
        return StateReport(
            state.finished,
            is_ambiguous=found.is_ambiguous,
            findings=found,
            one_sided=found.one_sided,
        )

    def init(self, problem: Problem, x0: Array) -> State:
        """The values at x0, and no minorants: nothing is proved before the step."""
        return _silent(_state(problem, 0, x0))

    def step(self, problem: Problem, state: State) -> State:
        """Everything: the first step is the last."""
        x0 = host(problem.domain.project(arrays.zeros_like(state.x)))
        # Where data in single precision were widened, the rank is still theirs.
        parts = (part for h in problem.smooth_parts for _, part in parts_of(h.bare))
        epsilon = max(arrays.epsilon(state.x), *(part.data_epsilon for part in parts))
        f, g = _structures(problem, len(x0))
        slices = Levels(problem, f.scaled(), g.scaled(), epsilon, g.rows(epsilon, f.sizes()))
        rank = rank_in_x = slices.rank_in_x
        if rank.is_plain:  # in the units of the data
            rank = rank._replace(sigma=g.unit * rank.sigma)
        fall = slices.no_lower_minimum()
        if fall.direction is not None:
            what = "g has no minimiser: it falls"
            return _unbounded(problem, state.x, rank, fall.direction, what)
        answer = slices.solve(x0, doubtful=False)
        x = _back(problem, answer.x, state.x)
        low = high = problem.upper.value(x) if answer.direction is None else -math.inf
        if not rank.is_determined:
            other = slices.solve(x0, doubtful=True)
            end = _back(problem, other.x, state.x)
            high = problem.upper.value(end) if other.direction is None else -math.inf
        elif answer.direction is not None and fall.is_certain and not answer.doubt:
            what = "f has no minimum over the minimisers of g: it falls"
            return _unbounded(problem, x, rank, answer.direction, what, answer)
        findings = _findings(rank, answer, (low, high))
        solved = _state(problem, 1, x)._replace(findings=findings)
        if not rank.is_determined:
            doubt = (
                f"rank not determined: singular values {findings.sigma:.3g} and "
                f"{findings.sigma_next:.3g}, of which the smaller is not clear of rounding by 1e3; "
                f"f is {low:.6g} if it is rounding, {high:.6g} if not"
            )
            return solved._replace(finished=("undetermined", doubt))
        doubt = answer.doubt
        if not fall.is_certain:
            doubt = HARDLY.format("g has a minimiser")
        elif not doubt and not answer.residual <= ACCURATE:
            doubt = f"the conditions of optimality hold to {answer.residual:.2g} only, relative"
        if doubt:
            findings = findings._replace(dimension=None)
            return solved._replace(findings=findings, finished=("undetermined", doubt))
        ending = (
            "by direct factorisation the conditions of optimality of both levels hold to "
            f"{answer.residual:.1g}, with a backward error of {findings.backward_error:.1g}"
        )
        normal = np.ldexp(answer.normal, f.exponent)  # f was scaled
        claims = None
        with contextlib.suppress(deadline.Over):  # x is there, whatever can still be proved of it
            rank = answer.rank or rank_in_x
            claims = prove(problem, x, rank, normal, answer.sign)
            if answer.sign is None:
                claims = claims.both(slices.prove_alike(problem, host(x), rank, normal))
            findings = findings._replace(one_sided=claims.why)
        evidence = solved.evidence._replace(claims=claims)
        return solved._replace(evidence=evidence, findings=findings, finished=("solved", ending))


# --- the two levels -------------------------------------------------------------------------------


class Answer(NamedTuple):
    """Both levels solved with one choice of the rank."""

    x: Host
    dimension: int | None
    residual: float
    normal: Host  # of Z at x: with the slice it balances the slope of f
    direction: Host | None = None  # of the slice, along which f falls for ever
    doubt: str = ""  # a sentence, where x may not be what it should be
    sign: Host | None = None  # where f = |x|_1: its subgradient that balances the slice and normal
    rank: Rank | None = None  # of the slice's equations, where it is not that of g's rows


class Levels:
    """A problem with f quadratic or |x|_1 and g = phi(Ax) + <c, x>, in NumPy and scaled.

    Where Z bounds each variable for itself, or not at all, all of it is in units in which g's
    columns are alike: x = units u, powers of two, so that nothing is rounded. Other sets compare
    the variables, and so have units of their own: there only the rank is decided in others.
    """

    def __init__(
        self,
        problem: Problem,
        f: Structure,
        g: Structure,
        epsilon: float,
        rows: Host | None = None,  # of g as it was before it was scaled
    ) -> None:
        self.n, self.domain, self.is_bounded = f.n, problem.domain, problem.is_bounded
        self.is_sparse = problem.penalties[0] != Zero()
        self.epsilon = epsilon
        self._f, self._g = f, g
        self._all_rows = g.rows(epsilon, f.sizes()) if rows is None else rows
        self._row_units, self._columns = equilibrate(self._all_rows)
        self._measure(isinstance(self.domain, Space | Box | Halfspace))

    def _measure(self, is_free: bool) -> None:
        """Take g's units for x, where Z is ``free`` of any; and decide the rank."""
        columns, self.units = self._columns, np.ones(self.n)
        if is_free and np.any(columns != 1.0):
            self.units = _units(columns, self._all_rows, self._f)
            columns = np.ones(self.n)
        self.f, self.g, self.exponent = self._f, self._g, 0
        if np.any(self.units != 1.0):
            f, g = self.f.stretched(self.units), self.g.stretched(self.units)
            self.f, self.g, self.exponent = f.scaled(), g.scaled(), f.exponent
        self.rows = self._all_rows * self.units
        self.rank = decide_rank(self.rows, self.epsilon, (self._row_units, columns))
        self.prices = self.units / np.max(self.units)  # of |x|_1, up to a factor

    @property
    def rank_in_x(self) -> Rank:
        """The rank with multipliers and directions in the units of x."""
        if np.all(self.units == 1.0):
            return self.rank
        return in_units(self.rank, self._all_rows, self.units)

    def prove_alike(self, problem: Problem, x: Host, rank: Rank, normal: Host) -> Intervals:
        """What is proved where columns are alike, and rows too if they can nearly be met."""
        claims, units, factors = Intervals(), self.units, self._row_units
        is_free = isinstance(self.domain, Space | Box | Halfspace)
        if not is_free or (np.all(units == 1.0) and np.all(factors == 1.0)):
            return claims
        twin, u, normal = stretched(problem, units), x / units, units * normal
        if np.any(units != 1.0):
            claims = prove(twin, u, self.normalised(rank), normal)
        equations = Equations.of(twin, factors) if np.any(factors != 1.0) else None
        if equations is None:
            return claims
        if equations.can_be_met(u):
            twin = equations.alike()
            rank = decide_rank(structure("Exact", "lower", twin.lower, self.n).rows())
            more = prove(twin, u, rank, normal)._replace(lower=-math.inf)  # g has other values
        else:
            more = prove_within(twin, u, equations.distance(u))
        return claims.both(more)

    def normalised(self, rank: Rank) -> Rank:
        """A rank in the units of x in those of u, of rows that have been scaled to length 1."""
        lengths, done = np.ones(len(rank.row_units)), 0
        for block in self._g.blocks():
            rows = slice(done, done + len(block))
            lengths[rows], done = norm(self.rows[rows]), rows.stop
        row_units, units = lengths * rank.row_units, rank.units / self.units
        return rank._replace(row_units=row_units, units=units, basis=rank.right)

    def polyhedron(self) -> Polyhedron:
        """Z, which is no ball, in the units of u."""
        Z = polyhedron(self.domain, self.n)
        return Z if np.all(self.units == 1.0) else Z.stretched(self.units)

    def no_lower_minimum(self) -> Fall:
        """A direction of Z along which g falls for ever, None where it has a minimiser."""
        if self.is_bounded:
            return Fall(None)
        Z, g = self.polyhedron(), self.g
        curved = [part.rows for part in g.parts if not isinstance(part, LogisticPart | Tilt)]
        N = null_basis(np.vstack([*curved, Z.equal]), self.epsilon)
        c = N.T @ g.c
        is_slope, is_clear = _beside(norm(c), norm(g.c))
        c = c if is_slope else 0.0 * c
        rises, weights = np.zeros((0, N.shape[1])), np.zeros(0)
        for part in g.parts:
            if isinstance(part, LogisticPart):
                along = part.rows @ N
                lengths = np.sqrt(np.sum(along * along, axis=1))
                moves = lengths > TOUCHING * np.sqrt(np.sum(part.rows * part.rows, axis=1))
                rises = np.vstack([rises, along[moves] / lengths[moves, None]])
                weights = np.append(weights, part.weight * lengths[moves])
        B = Faces(Z.rows, Z.offset, N).B
        fall = falling_losses(c, B, rises, weights) if len(rises) else falling(c, B)
        if fall.direction is None:
            return Fall(None, fall.is_certain and is_clear)
        return Fall(_unit(self.units * (N @ fall.direction)))

    def _basis(self, doubtful: bool) -> Host:
        """The directions in which g varies."""
        return self.rank.basis[:, : self.rank.high if doubtful else self.rank.low]

    def _factors(self, rank: int) -> tuple[Host, Host] | None:
        """The singular values and vectors of g's curvature, where the rank's decision has them."""
        if len(self.g.parts) != 1 or not self.g.only(Squares) or not self.rank.is_plain:
            return None
        (part,), sigma = self.g.parts, np.zeros(self.n)
        sigma[:rank] = math.sqrt(part.weight) * norm(part.rows) * self.rank.sigma[:rank]
        return sigma, self.rank.basis.T

    def solve(self, x0: Host, doubtful: bool) -> Answer:
        """Lower level, slice, upper level; doubtful directions of A count or do not."""
        if isinstance(self.domain, Ball):
            return self._on_ball(x0, self.domain, doubtful)
        answer = self._on_polyhedron(x0 / self.units, self.polyhedron(), doubtful)
        return answer if np.all(self.units == 1.0) else self._in_x(answer)

    def _in_x(self, answer: Answer) -> Answer:
        """What was found for u in the units of x."""
        units, direction, sign = self.units, answer.direction, answer.sign
        price = self.prices if self.is_sparse else np.ldexp(units, -self.exponent)
        return answer._replace(
            x=units * answer.x,
            normal=answer.normal / price,
            direction=None if direction is None else _unit(units * direction),
            sign=None if sign is None else sign / price,
        )

    def _lower(
        self, g: Structure, region: Region, x: Host, basis: Host
    ) -> tuple[Structure, Host, bool]:
        """A minimiser of g over the region from x, whether it is one; and g with fit weights.

        Where all rows can be met at once, their weights do not matter: then they are made alike.
        """
        if np.any(self.rank.row_units != 1.0) and g.only(Squares):
            alike = g.reweighted(self.rank.row_units)
            met, settled = minimise(alike, region, x, basis)
            if settled and all(_is_met(part, met) for part in alike.parts):
                return alike, met, settled
        return (g, *minimise(g, region, x, basis))

    def _is_lost(self, g: Structure, x: Host, bend: float = 0.0) -> bool:
        """Are directions in which g varies drowned by the larger rows or columns?

        Not those whose curvature does not matter beside ``bend``.
        """
        if self.rank.is_plain or not g.is_quadratic:
            return False
        R = g.curvature(x)
        sigma = np.linalg.svd(R, compute_uv=False)
        least = max(R.shape) * EPS * norm(R)
        kept = int(np.count_nonzero(sigma > least))
        return kept < self.rank.low and least > 1e-6 * math.sqrt(bend)

    def _on_ball(self, x0: Host, ball: Ball, doubtful: bool) -> Answer:
        center = np.zeros(self.n) if ball.center is None else host(ball.center)
        N = null_basis(self.rows, doubtful=doubtful, found=self.rank)
        inside = self._inside(ball, center, N, doubtful) if np.any(self.rank.units != 1.0) else None
        dimension: int | None = N.shape[1]
        if inside is not None:
            x, residual, doubt = inside
            is_bound = False
        else:
            basis = self._basis(doubtful)
            whole = Disc(center, ball.radius, np.eye(self.n), self._factors(basis.shape[1]))
            g, x, settled = self._lower(self.g, whole, x0, basis)
            g = g.magnified(x)
            slope = g.slope(x)
            mu = whole.multiplier(slope.vector, x)
            is_bound = mu * ball.radius > TOUCHING * slope.size
            doubt = _doubt(g, x, settled, whole, np.eye(self.n) if is_bound else N[:, :0].T)
            if not doubt and self._is_lost(g, x, mu if is_bound else 0.0):
                doubt = DROWNED
            residual = _residual(g, whole, x, x0, basis)
        across = (x - center) - N @ (N.T @ (x - center))
        part = norm(across) / ball.radius
        room = math.sqrt(max(1.0 - part, 0.0)) * math.sqrt(1.0 + part)  # beside the radius
        if is_bound or room <= 3e-7:
            # The ball binds, or just touches the solutions: then x is the only one.
            dimension, N, room = (0 if is_bound or N.shape[1] == 0 else None), N[:, :0], 0.0
        disc = Disc(center, ball.radius * room, N)
        return self._upper(self.f, disc, x, residual, dimension)._replace(doubt=doubt)

    def _inside(
        self, ball: Ball, center: Host, N: Host, doubtful: bool
    ) -> tuple[Host, float, str] | None:
        """The minimiser of g on R^n next to the center, if that is in the ball; with its residual.

        In g's own units, in which a ball is none; so it serves only where the ball does not matter.
        """
        free = copy.copy(self)
        free.domain, free.is_bounded = Space(), False
        free._measure(True)
        fall = free.no_lower_minimum()
        if fall.direction is not None or not fall.is_certain:
            return None
        none, start = N[:, :0].T, np.zeros(self.n)
        whole = Faces(none, np.zeros(0), np.eye(self.n))
        basis = free._basis(doubtful)
        g, u, settled = free._lower(free.g, whole, start, basis)
        g = g.magnified(u)
        doubt = _doubt(g, u, settled, whole, none)
        w = free.units * u - center
        w = w - N @ (N.T @ w)
        if not norm(w) <= (1.0 - TOUCHING) * ball.radius:
            return None
        if not doubt and free._is_lost(g, u):
            doubt = DROWNED
        return center + w, _residual(g, whole, u, start, basis), doubt

    def _on_polyhedron(self, x0: Host, Z: Polyhedron, doubtful: bool) -> Answer:
        f, g, rows, basis = self.f, self.g, self.rows, self._basis(doubtful)
        if Z.lift is not None:
            f, g, rows = f.lifted(Z.lift), g.lifted(Z.lift), rows @ Z.lift
            basis = Z.lift.T @ basis / math.sqrt(2.0)
        whole = Faces(Z.rows, Z.offset, null_basis(Z.equal))
        g, u, settled = self._lower(g, whole, Z.lifted(x0), basis)
        if self.rank.is_determined:
            u = polish(g, whole, Z.equal, u, basis)
        g = g.magnified(u)
        residual = _residual(g, whole, u, Z.lifted(x0), basis)
        slope = g.slope(u)
        weights, _ = whole.balance(slope.vector, u)
        doubt = _doubt(g, u, settled, whole, np.vstack([whole.rows[weights > 0.0], Z.equal]))
        if not doubt and self._is_lost(g, u):
            doubt = DROWNED
        # Inequalities that hold with equality on all of the slice belong to its equations. Those
        # that press do: along the slice g's slope is 0, and so is the sum of weights <rows, d>.
        equations, rank = np.vstack([rows, Z.equal]), self.rank
        if Z.lift is not None or len(Z.equal):
            rank = decide_rank(equations, self.epsilon)
        faces = Faces(Z.rows, Z.offset, null_basis(equations, self.epsilon, doubtful, rank))
        touching = faces
        presses = weights > max(TOUCHING * slope.size, CLEAR * float(np.max(weights, initial=0.0)))
        if presses.any():
            equations = np.vstack([equations, whole.rows[presses]])
            faces = Faces(Z.rows, Z.offset, null_basis(equations, self.epsilon, doubtful))
        met = faces.slack(u, TOUCHING)[0] == 0.0
        can_move = loose(faces.B[met])
        if can_move is not None and not can_move.all():
            equations = np.vstack([equations, faces.rows[met][~can_move]])
            faces = Faces(Z.rows, Z.offset, null_basis(equations, self.epsilon, doubtful))
        dimension = None if can_move is None else faces.N.shape[1]
        if Z.lift is not None and dimension:  # (p, q) may move where p - q does not
            moves = np.linalg.svd(Z.lift @ faces.N, compute_uv=False)
            dimension = int(np.count_nonzero(moves > TOUCHING))
        if self.is_sparse:
            if Z.lift is not None:  # an l1 ball: what is sparser than a point of it is in it too
                Z, u = polyhedron(Space(), self.n), Z.lift @ u
                rank = self.rank
            answer = self._sparsest(Z, u, residual, dimension, doubtful, rank)
            return answer._replace(doubt=doubt or answer.doubt)
        answer = self._upper(f, faces, u, residual, dimension)
        if touching is not faces and answer.direction is None:  # the normal of Z, not of a face
            normal, _ = touching.normal(f.slope(answer.x), answer.x)
            answer = answer._replace(normal=normal)
        answer = answer._replace(x=Z.point(answer.x), doubt=doubt or answer.doubt)
        if Z.lift is None:
            return answer._replace(rank=self._equations_in_x(rank, Z))
        direction = None if answer.direction is None else Z.lift @ answer.direction
        return answer._replace(normal=0.5 * Z.lift @ answer.normal, direction=direction)

    def _sparsest(
        self,
        Z: Polyhedron,
        x: Host,
        residual: float,
        dimension: int | None,
        doubtful: bool,
        rank: Rank,
    ) -> Answer:
        """Minimise |x|_1 over the slice, from the lower minimiser x."""
        equations = np.vstack([self.rows, Z.equal])
        rank = rank._replace(low=rank.high) if doubtful else rank
        found = sparsest(Slice(equations, rank, x, Z.rows, Z.offset, self.prices))
        if found is None:
            return Answer(x, dimension, residual, 0.0 * x, doubt=NO_PROGRAM)
        residual = max(residual, found.residual)
        x, rank = Z.point(found.x), self._equations_in_x(rank, Z)
        return Answer(x, dimension, residual, found.normal, sign=found.sign, rank=rank)

    def _equations_in_x(self, rank: Rank, Z: Polyhedron) -> Rank:
        """The rank of g's rows and Z's equations in the units of x."""
        if np.all(self.units == 1.0):
            return rank
        rows = np.vstack([self.rows, Z.equal]) / self.units
        lengths = np.ones(len(rows))  # Z's equations have length 1 in the units of x too
        lengths[len(self.rows) :] = np.sqrt(np.sum(rows[len(self.rows) :] ** 2, axis=1))
        found = in_units(rank, rows, self.units)
        return found._replace(row_units=lengths * found.row_units)

    def _upper(
        self, f: Structure, region: Disc | Faces, x: Host, residual: float, dimension: int | None
    ) -> Answer:
        """Minimise f over the slice, from the lower minimiser x."""
        slope, doubt = f.slope(x), ""
        if not self.is_bounded and isinstance(region, Faces):
            flat = region.N @ _flat(f.curvature(x), region.N)
            c = flat.T @ slope.vector
            is_slope, is_clear = _beside(norm(c), slope.size)
            doubt = "" if is_clear else HARDLY.format("f has a minimum")
            if is_slope:
                fall = falling(c, Faces(region.rows, region.offset, flat).B)
                if fall.direction is not None:
                    direction = _unit(flat @ fall.direction)
                    return Answer(x, dimension, residual, 0.0 * x, direction)
                if not fall.is_certain:
                    doubt = HARDLY.format("f has a minimum")
        start, (x, _) = x, minimise(f, region, x)
        normal, _ = region.normal(f.slope(x), x)
        residual = max(residual, _residual(f, region, x, start))
        return Answer(x, dimension, residual, normal, doubt=doubt)


def _units(columns: Host, rows: Host, f: Structure) -> Host:
    """These units of x; of variables that g does not see those of f, with the same mean."""
    sizes, seen = f.sizes(), rows.any(axis=0)
    both = seen & (sizes > 0.0)
    unseen = ~seen & (sizes > 0.0)
    units = np.where(seen, columns, np.median(columns[seen]))
    if unseen.any():
        scale = np.median(np.log2(columns[both] * sizes[both])) if both.any() else 0.0
        units[unseen] = np.exp2(np.round(scale - np.log2(sizes[unseen])))
    return units


def _is_met(part: Squares | LogisticPart | QuadraticPart | Tilt, x: Host) -> bool:
    """Are all rows of these squares met, but for rounding, each beside its own terms?"""
    assert isinstance(part, Squares)
    off = np.abs(product(part.rows, x, part.target))
    return bool(np.all(off <= 64 * EPS * (np.abs(part.rows) @ np.abs(x) + np.abs(part.target))))


def _flat(R: Host, N: Host) -> Host:
    """A basis of the v with R N v = 0, each row of R in its own units."""
    lengths = np.sqrt(np.sum(R * R, axis=1))
    along = (R[lengths > 0.0] / lengths[lengths > 0.0, None]) @ N
    return null_basis(along, found=decide_rank(along, units=as_it_is(along)))


def _beside(slope: float, size: float) -> tuple[bool, bool]:
    """Is it a slope, beside its terms, and is that clear?"""
    return slope > TOUCHING * size, not ROUNDING * size < slope <= TOUCHING * size


def _unit(d: Host) -> Host:
    return d / norm(d)


def _doubt(g: Structure, x: Host, settled: bool, whole: Region, pressing: Host) -> str:
    """Why x may not be the minimiser of g over the whole region, or "".

    Logistic losses that vanish beside the rounding errors of the others have not been heard: they
    do no harm if those that have been heard, and the constraints that press, determine x as well.
    """
    if g.is_quadratic:
        return ""
    slope = g.slope(x)
    if not settled or math.isinf(slope.error):
        return "Newton's method did not settle on a minimiser of g: its losses hardly change there"
    least = 1e3 * (whole.normal(slope, x)[1] + slope.error)
    heard = decide_rank(np.vstack([g.audible(x, least).rows(), pressing])).low
    if heard < decide_rank(np.vstack([g.rows(), pressing])).low:
        return "the margins are too large: losses that would decide are lost in rounding errors"
    return ""


def _residual(
    h: Structure, region: Region, x: Host, start: Host, basis: Host | None = None
) -> float:
    """How much of h's slope at x no normal balances, beside the size of its terms.

    A quadratic's beside a millionth of their size at the start, if that is more: x may be 0. The
    slope counts along the directions of the basis, in which h varies: beside them it is rounding.
    """
    slope = h.slope(x)
    if basis is not None:
        slope = slope._replace(vector=basis @ (basis.T @ slope.vector))
    size = max(slope.size, 1e-6 * h.slope(start).size) if h.is_quadratic else slope.size
    return region.normal(slope, x)[1] / size if size > 0.0 else 0.0


def _structures(problem: Problem, n: int) -> tuple[Structure, Structure]:
    """f and g as Exact knows them, or a sentence; L1 above is no part of a structure."""
    (f, penalty), (g, below) = split(problem.upper), split(problem.lower)
    if below != Zero():
        raise Refusal("Exact", "lower", "must be without a penalty", repr(problem.lower.bare))
    if penalty == Zero():
        return structure("Exact", "upper", f, n), structure("Exact", "lower", g, n)
    is_alone = isinstance(f.bare, Flat)
    if not is_alone or any(penalty.terms.weights[1:]):
        got = penalty if is_alone else problem.upper.bare
        raise Refusal("Exact", "upper", "must be L1 alone where it has a penalty", repr(got))
    if isinstance(problem.domain, Ball):
        raise Refusal("Exact", "domain", "must be a polyhedron where upper is L1", "Ball")
    return Structure(n, ()), structure("Exact", "lower", g, n)


# --- in the library's words -----------------------------------------------------------------------


def _back(problem: Problem, x: Host, prototype: Array) -> Array:
    """x in the library and dtype of the problem, and in Z up to rounding."""
    return problem.domain.project(arrays.like(x, prototype))


def _state(problem: Problem, k: int, x: Array) -> State:
    """Both functions looked at from x."""
    (point,) = problem.forward(x)
    (f_x,), (g_x,) = problem.upper.evaluate([point.f])[0], problem.lower.evaluate([point.g])[0]
    evidence = StepEvidence(
        upper=((1.0, f_x),),
        cuts=((1.0, g_x),),
        lower=((1.0, g_x),),
        values=((g_x.value, g_x.at, g_x),),
    )
    return State(k, x, f_x.value + problem.penalties[0].value(x), g_x.value, evidence)


def _silent(state: State) -> State:
    """Without minorants: only the value of g at x counts."""
    return state._replace(evidence=StepEvidence(values=state.evidence.values))


def _findings(rank: Rank, answer: Answer | None, uppers: tuple[float, float]) -> ExactFindings:
    sigma, following = rank.pair()
    return ExactFindings(
        dimension=None if answer is None or not rank.is_determined else answer.dimension,
        rank=rank.low,
        sigma=sigma,
        sigma_next=following,
        backward_error=max(following, EPS * float(np.max(rank.sigma, initial=0.0))),
        upper_range=uppers,
        residual=math.nan if answer is None else answer.residual,
    )


def _unbounded(
    problem: Problem, x: Array, rank: Rank, d: Host, what: str, answer: Answer | None = None
) -> State:
    """No minimum, and the direction that shows it."""
    largest = np.argsort(-np.abs(d), kind="stable")[:3]
    entries = ", ".join(f"x[{i}] {d[i]:+.3g}" for i in largest if abs(d[i]) > 1e-9)
    more = ", ..." if np.count_nonzero(np.abs(d) > 1e-9) > len(largest) else ""
    state = _silent(_state(problem, 1, x))
    findings = _findings(rank, answer, (-math.inf, state.upper_value))
    return state._replace(
        finished=("unbounded", f"{what} along the direction {entries}{more}"),
        findings=findings._replace(direction=arrays.like(d, x)),
    )
