"""Solve both levels on R^n with n x n matrices if losses have many more rows than variables.

All computations use second derivatives, which are n x n. The losses of f and g are sums of squares,
or have |phi'''| <= bend phi'' (logistic, Poisson: bend = 1). For losses of the second kind, we use
the step

    x + log(1 + c)/c d,    c = bend max_i |<a_i, d>|,    d: Newton's direction.

The step always decreases the function (Sun and Tran-Dinh 2019), and tends to Newton's step as c
goes to 0; we take Newton's own step if it descends enough. The eigenvectors of A'A split R^n into
directions along which g changes and all others: g is minimised along the former, f along the
latter, and the norm along those of the latter that leave f unchanged. If f is an l1 norm, the upper
level is a linear program in the n variables. The variables are rescaled so that the columns of g
have similar sizes.

The rows are read in slices, from memory or disk, and not kept. One reading gives the value, slope,
second derivative and margins at the next point, so it also shows whether the step has decreased the
level enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tiebreak.exact.basis_pursuit import BasisPursuit, L1Norm, RankedEquations, sparsest
from tiebreak.exact.bounds.evaluations import EvaluationWithErrors
from tiebreak.exact.reductions.reduction import is_plain, l1_above
from tiebreak.functions import Function, LinearLoss, SmoothFunction, has_slices, summands
from tiebreak.linalg import (
    DENSE_LIMIT,
    EPS,
    TINY,
    TOL,
    Array,
    Host,
    Matrix,
    arrays,
    deadline,
    decide_rank,
    rounding_unit,
)
from tiebreak.linalg.host import host, norm, power_of_two
from tiebreak.linalg.matrices.base import RowSlice, squared_lengths
from tiebreak.linalg.matrices.streamed import Float64Rows
from tiebreak.linalg.rank import directions, have_whole_ties, without_fixed
from tiebreak.linalg.row_gram import column_gram, is_even
from tiebreak.linalg.sizes import SIDE
from tiebreak.linalg.spectra import exact_rank, rounding_level
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import UNDERFLOW

TALL = 4  # at this ratio of rows to variables, n x n matrices are much smaller than the rows
MOST_TALL_STEPS = 60  # usually about ten suffice; without a minimiser, steps would never end
FULL_STEP = 0.2  # if margins change by less, Newton's step is sure to descend
ENOUGH = 0.25  # required share of the descent that the slope promises, as usual in a line search


class Seen(NamedTuple):
    """A level evaluated at a point, from one reading of its rows."""

    x: Host
    value: float
    slope: Host
    hessian: Host | None  # None if not requested
    images: list[Host]  # images of the losses


def _has_rows(loss: LinearLoss) -> bool:
    """Can the rows be read?  A disk is read only if other methods would read it as well."""
    if not (loss.matrix.has_slices and loss.matrix.are_slices_here):
        return False
    return not loss.matrix.is_pass_expensive or has_slices(loss)


def _on_host(loss: LinearLoss) -> LinearLoss:
    """Return the loss with its rows in NumPy float64, converted slice by slice if necessary."""
    if is_plain(loss):
        return loss
    is_ours = type(loss.prototype) is np.ndarray
    wide = loss.in_float64 if is_ours else loss.of_matrix(Float64Rows(loss.matrix))
    return wide or loss


def _like(part: Function, x: Host) -> Array:
    """Convert x to float64 in the array library that the function uses."""
    return x if part.prototype is None else arrays.like(x, arrays.double(part.prototype))


def _gradient(part: Function, x: Host) -> Host:
    return host(part.gradient(_like(part, x)))


class TallLevel:
    """A sum of losses, squares and linear terms, with its second derivative."""

    def __init__(self, h: SmoothFunction, n: int) -> None:
        self.n: int = n
        self.losses: list[tuple[float, LinearLoss]] = []
        self.others: list[tuple[float, Function]] = []
        self.constant: Host = np.zeros((n, n))  # second derivative of all terms but the losses
        self.linear: Host = np.zeros(n)  # the sizes of the slope's linear terms
        self._longest: tuple[bytes, float] | None = None  # the largest norm of a row, by units
        origin = np.zeros(n)
        self.epsilon: float = EPS  # the machine epsilon of the losses' entries
        self.is_in_memory: bool = True  # are all rows in memory?
        for weight, part in summands(h):
            if isinstance(part, LinearLoss):
                self.losses.append((weight * part.scale, _on_host(part)))
                self.epsilon = max(self.epsilon, part.data_epsilon, arrays.epsilon(part.prototype))
                self.is_in_memory = self.is_in_memory and part.matrix.is_at_hand
                continue
            self.others.append((weight, part))
            for piece in part.parts(weight, n) or ():
                self.constant += piece.second(origin)
            self.linear += weight * np.abs(_gradient(part, origin))

    @staticmethod
    def is_known(h: SmoothFunction) -> bool:
        """Is h a sum of terms whose data can be read and whose curvature varies slowly?"""
        return all(
            part.bend is not None and _has_rows(part)
            if isinstance(part, LinearLoss)
            else part.degree <= 2 and (part.matrix is None or part.matrix.is_explicit)
            for _, part in summands(h)
        )

    @property
    def rows(self) -> int:
        return sum(loss.matrix.shape[0] for _, loss in self.losses)

    @property
    def bend(self) -> float:
        """The least number with |phi'''| <= bend phi'' for all losses."""
        return max((loss.bend or 0.0 for _, loss in self.losses), default=0.0)

    def slices(self, matrix: Matrix) -> Iterator[RowSlice]:
        """Yield slices of a few megabytes, large enough for efficient n x n products."""
        return matrix.slices(max(4 * self.n, 2**19 // self.n))

    def at(self, x: Host, is_curved: bool = True) -> Seen:
        """Evaluate the level at x in one reading, with the second derivative if ``is_curved``."""
        value, slope = 0.0, np.zeros(self.n)
        H, images = self.constant.copy() if is_curved else None, []
        for weight, loss in self.losses:
            rows, n = loss.matrix.shape
            deadline.check(deadline.svd_work(rows, n) / 16 if is_curved else float(rows * n))
            image = np.empty(rows)
            for some in self.slices(loss.matrix):
                deadline.check()
                here = image[some.rows] = some.entries @ x
                slope += weight * (some.transposed @ loss.slopes_of_rows(here, some.rows))
                if H is not None and loss.degree > 2:
                    H += weight * loss.gram_of(some, here)
            if H is not None and loss.degree <= 2:
                H += weight * column_gram(loss.matrix)
            value += weight * float(loss.evaluate_image(image)[0])
            images.append(image)
        for weight, part in self.others:
            value += weight * part.value(_like(part, x))
            slope += weight * _gradient(part, x)
        return Seen(x, value, slope, H, images)

    def change(self, before: Seen, after: Seen) -> float:
        """Return bend times the largest change of a margin."""
        changes = (
            (loss.bend or 0.0) * float(np.max(np.abs(new - old), initial=0.0))
            for (_, loss), old, new in zip(self.losses, before.images, after.images, strict=True)
        )
        return max(changes, default=0.0)

    def times_hessian(self, seen: Seen, d: Host) -> tuple[Host, Host, float]:
        """Return H d from the rows themselves, a bound on the error of each entry, and |d|_H.

        The second derivative is evaluated at the computed images. Sums over m rows are split into
        sums over about sqrt(m) of them, to reduce rounding errors.
        """
        product = self.constant @ d
        error = rounding_unit(EPS, self.n) * (np.abs(self.constant) @ np.abs(d))
        square = float(d @ product)
        for (weight, loss), t in zip(self.losses, seen.images, strict=True):
            image = np.empty(len(t))
            for some in self.slices(loss.matrix):
                image[some.rows] = some.entries @ d
            y = weight * loss.second(t) * image
            few = 8 + math.isqrt(len(y))
            for some in loss.matrix.slices(few):
                product = product + some.transposed @ y[some.rows]
            lengths = np.sqrt(np.diag(column_gram(loss.matrix)))
            error = error + 2.0 * few * EPS * norm(y) * lengths
            square += float(y @ image)
        return product, error, math.sqrt(max(square, 0.0))

    def gram(self) -> Host:
        """Return A'A plus the other terms' Hessian; the level's Hessian has the same null space."""
        return self.constant + sum(column_gram(loss.matrix) for _, loss in self.losses)

    def evaluate(self, seen: Seen, units: Host) -> EvaluationWithErrors:
        """Return the value and the slope in the units u = x/units, with error bounds.

        In these units columns have similar sizes, so no column is lost in the rounding errors of
        another.
        """
        u, unit = norm(seen.x / units), rounding_unit(EPS, self.n)
        off, turned = 0.0, 0.0
        for (weight, loss), t in zip(self.losses, seen.images, strict=True):
            size = math.sqrt(float(np.diag(column_gram(loss.matrix)) @ (units * units)))
            far = unit * self.longest_row(units) * u  # the error of a margin
            own = rounding_unit(EPS, len(t)) + EPS * float(np.max(np.abs(t), initial=0.0))
            bend = (loss.bend or 0.0) * far  # if this is large, the margin is unknown
            slopes = host(loss.evaluate_image(t)[1])
            whole, each = loss.sizes_in_image(t)
            second = math.exp(bend) * norm(loss.second(t)) * far if bend <= 1.0 else math.inf
            pull = float(np.sum(np.abs(slopes)))
            off += weight * (far * (pull + len(t) * second) + own * whole)
            turned += weight * size * (second + own * norm(each))
        for weight, part in self.others:
            off += 4.0 * unit * weight * part.magnitude(norm(seen.x), 0.0, 0.0)
        terms = norm(units * self.linear) + norm(_in_units(self.constant, units)) * u
        off, turned = off + EPS * abs(seen.value), turned + unit * terms
        return EvaluationWithErrors(seen.value, units * seen.slope, off + TINY, turned + TINY, 0.0)

    def products(
        self, M: Host, is_bent: bool = False
    ) -> Iterator[tuple[LinearLoss, RowSlice, Host]]:
        """Yield the rows' products with M slice by slice; if ``is_bent``, leave out squares."""
        for loss in (loss for _, loss in self.losses if loss.bend or not is_bent):
            for some in self.slices(loss.matrix):
                yield loss, some, np.asarray(some.entries @ M)

    def longest_row(self, units: Host) -> float:
        """Bound the largest norm of a row of the losses in these units."""
        key = units.tobytes()
        if self._longest is None or self._longest[0] != key:
            slices = (some.entries for _, loss in self.losses for some in self.slices(loss.matrix))
            rows = (A * units if isinstance(A, np.ndarray) else A.multiply(units) for A in slices)
            longest = max(map(_longest, rows), default=0.0)
            self._longest = key, longest * (1.0 + rounding_unit(EPS, self.n))
        return self._longest[1]

    def largest_product(self, M: Host) -> float:
        """Bound the largest norm of a row of bend A M."""
        rows = ((loss.bend or 0.0) * _longest(found) for loss, _, found in self.products(M, True))
        return max(rows, default=0.0) * (1.0 + rounding_unit(EPS, *M.shape))


def _longest(rows: Any) -> float:
    """Return the largest norm of a row."""
    return math.sqrt(float(np.max(squared_lengths(rows), initial=0.0)))


class TallAnswer(NamedTuple):
    """The solution of both levels, computed in the units u = x/units."""

    x: Host
    upper: TallLevel
    lower: TallLevel
    units: Host
    rank: int
    is_exact: bool  # is `rank` exact for the stored numbers?
    # Do the stored numbers have a different rank because of rounding? Then nothing is proved.
    is_rounded: bool
    values: Host  # the eigenvalues of g's A'A in these units, ascending
    left_open: int = 0  # dimension of the minimisers of f among those of g
    # Is `left_open` exact for the stored numbers?  None if stored numbers were rounded.
    is_open_exactly: bool | None = True
    subgradient: Host | None = None  # a subgradient of f in u, if f is an l1 norm
    balance: float = 0.0  # relative distance of the subgradient from the span of g's rows


def solve_tall(problem: Problem, start: Array) -> TallAnswer | None:
    """Return the answer, or None if rounding hides it or the problem has a different form."""
    if not is_tall(problem):
        return None
    f, g = (TallLevel(h.bare, int(start.shape[0])) for h in problem.smooth_parts)
    gram = g.gram()
    squares = np.diag(gram)
    is_ordinary = np.isfinite(gram).all() and np.all((squares == 0.0) | (squares > UNDERFLOW))
    # The rows and columns of each loss must have similar sizes, up to rounding errors.
    are_even = (
        is_even((some.entries for some in g.slices(h.matrix)), g.epsilon) for _, h in g.losses
    )
    if not is_ordinary or not all(are_even):
        return None
    units = power_of_two(np.maximum(np.diag(gram), 0.0), -0.5)  # the diagonal is about 1
    values, vectors = np.linalg.eigh(_in_units(gram, units))
    # Rounding the entries with relative error epsilon moves singular values by up to epsilon times
    # the norm of the matrix.
    squared = float(np.sum(np.maximum(values, 0.0)))
    noise = max(rounding_unit(EPS, g.rows, g.n), g.epsilon**2) * squared
    clear = max(TOL.clear_units * noise, (TOL.clear_units * g.epsilon) ** 2 * squared)
    rank = int(np.count_nonzero(values > clear))
    # With a linear term, g may be unbounded along the ties, however slowly it decreases.
    is_slanted = rank < g.n and g.linear.any()
    if not rank or is_slanted or np.any(values[: g.n - rank] > noise):
        return None
    N, V = vectors[:, : g.n - rank], vectors[:, g.n - rank :]
    stored = rank if _has_whole_ties(units[:, None] * N, g) else _stored_rank(rank, g)
    kept = values[g.n - rank :]
    N = _unseen(g, units, N, V, kept)
    is_rounded = stored is not None and stored != rank
    if is_rounded and not _is_rounding(g, units[:, None] * N, np.sqrt(kept)):
        return None
    below = _Newton(g, units, V)
    x, zero, h = host(start), arrays.zeros_like(start), problem.lower
    # 0 is often a better start than the one given.
    x = x if x.any() and h.value(start) < h.value(zero) else host(zero)
    answer = _settled(units * (V @ (V.T @ (x / units))), units, below)
    if answer is None:
        return None
    found = TallAnswer(answer, f, g, units, rank, stored == rank, is_rounded, values)
    return _chosen(problem, found, N, below) if N.shape[1] else found


def _chosen(problem: Problem, answer: TallAnswer, N: Host, below: _Newton) -> TallAnswer | None:
    """Minimise f along the columns of N, and take the point of least norm among the minimisers.

    Return None if it is not clear along which directions f varies. Each step also undoes the change
    in g that the last step caused.
    """
    if not problem.is_smooth:
        return _sparsest(problem, answer, N)
    f, units = answer.upper, answer.units
    found = _seen_above(problem, answer, N)
    if found is None:
        return None
    seen, unseen = found
    newtons = [_Newton(f, units, seen), below] if seen.shape[1] else [below]
    x = _settled(answer.x, units, *newtons)
    if x is not None and unseen.shape[1]:
        counted = np.ones(f.n) if problem.counted is None else host(problem.counted)
        x = _shortest(x, units[:, None] * unseen, counted)
        x = None if x is None else _settled(x, units, *newtons)  # removes rounding errors
    if x is None:
        return None
    is_exact: bool | None = _has_whole_ties(units[:, None] * unseen, answer.lower, f)
    if not is_exact:
        rank = f.n - unseen.shape[1]
        is_exact = _stored_rank(rank, answer.lower, f) == rank
        is_exact = None if not is_exact and f.epsilon > EPS else is_exact
    return answer._replace(x=x, left_open=unseen.shape[1], is_open_exactly=is_exact)


def _shortest(x: Host, moves: Host, weights: Host) -> Host | None:
    """Return the point of least weighted norm in x + span of ``moves``; None if not unique."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor = cho_factor(moves.T @ (weights[:, None] * moves))
    except LinAlgError:
        return None
    for _ in range(2):  # the second pass removes rounding errors of the first
        x = x - moves @ cho_solve(factor, moves.T @ (weights * x))
    return x


def _seen_above(problem: Problem, answer: TallAnswer, N: Host) -> tuple[Host, Host] | None:
    """Split N's span into directions that change f and others; None if that is not clear."""
    f, (n, g) = answer.upper, (len(N), answer.lower)
    if problem.upper.strong_convexity > 0.0:
        return N, N[:, :0]
    if f.n * f.rows > DENSE_LIMIT or not f.is_in_memory:
        return None
    every = np.vstack([f.constant, *(loss.matrix.dense() for _, loss in f.losses)])
    moved = without_fixed(N, np.ones(n), rounding_level((g.rows, n), 1.0, g.epsilon))
    found = directions(every * answer.units, moved, f.epsilon, others=g.rows)
    may_fall = found.unseen.shape[1] > 0 and f.linear.any()
    return (N @ found.seen, N @ found.unseen) if found.is_clear and not may_fall else None


def _sparsest(problem: Problem, answer: TallAnswer, N: Host) -> TallAnswer | None:
    """Minimise the l1 norm along the columns of N; return None if HiGHS fails."""
    units, (n, ties) = answer.units, N.shape
    l1 = L1Norm.of(problem, n).in_units(units)
    rows = np.linalg.qr(N, mode="complete")[0][:, ties:].T
    equations = RankedEquations(rows, decide_rank(rows), answer.x / units - l1.center)
    counted = np.ones(n) if problem.counted is None else np.sqrt(host(problem.counted))
    program = BasisPursuit(equations, np.zeros((0, n)), np.zeros(0), l1.weights)
    found = sparsest(program, l1.center, counted * units)
    if found is None:
        return None
    return answer._replace(
        x=units * found.x,
        left_open=found.left_open,
        subgradient=found.sign,
        balance=found.residual,
    )


def is_tall(problem: Problem) -> bool:
    """Is the problem suitable for this method?"""
    n, is_fit = problem.dimension or 0, problem.is_smooth
    below = [part for _, part in summands(problem.lower.bare) if isinstance(part, LinearLoss)]
    if not is_fit and not problem.penalties[1].terms.has_weights:
        is_fit = (terms := l1_above(problem)) is not None and not terms.has_operator
        is_fit = is_fit and all(map(is_plain, below))
    if not problem.domain.is_space or not is_fit or n > SIDE:
        return False
    if sum(part.matrix.shape[0] for part in below) < TALL * n:
        return False
    return all(TallLevel.is_known(h.bare) for h in problem.smooth_parts)


def _in_units(H: Host, units: Host) -> Host:
    return np.asarray(units[:, None] * H * units)


def _has_whole_ties(N: Host, *levels: TallLevel) -> bool:
    """Do all rows satisfy as many linear relations with integer coefficients as N has columns?"""
    if not N.shape[1]:
        return True
    slices = (
        some.entries
        for level in levels
        for _, loss in level.losses
        for some in level.slices(loss.given_matrix)
    )
    return not any(level.constant.any() for level in levels) and have_whole_ties(slices, N)


def _stored_rank(rank: int, *levels: TallLevel) -> int | None:
    """Return the exact rank of the stored rows, or a lower bound on it that exceeds ``rank``.

    If the rank of a few rows exceeds ``rank``, columns are dependent only up to rounding. Return
    None if the rank is unknown.
    """
    if any(level.constant.any() or not level.is_in_memory for level in levels):
        return None
    matrices = [loss.given_matrix for level in levels for _, loss in level.losses]
    each = [
        part.entries[:1]
        for matrix in matrices
        for part in matrix.slices(max(1, matrix.shape[0] // (2 * matrix.shape[1])))
    ]
    rows = [row if isinstance(row, np.ndarray) else row.toarray() for row in each]
    some = exact_rank(np.vstack(rows))
    if some is not None and some > rank:
        return some
    if sum(matrix.size for matrix in matrices) > DENSE_LIMIT:
        return None
    return exact_rank(np.vstack([matrix.dense() for matrix in matrices]))


def _is_rounding(g: TallLevel, N: Host, others: Host) -> bool:
    """Are the products of the rows with N below the rounding errors of the other singular values?

    A'A alone cannot decide this, because its eigenvalues are squares; the products themselves are
    accurate enough, however small they are.
    """
    total = N.T @ g.constant @ N
    for _, _, products in g.products(N):
        total += products.T @ products
    rest = math.sqrt(max(float(np.linalg.eigvalsh(total)[-1]), 0.0))
    top, whole = float(np.max(others)), math.hypot(norm(others), rest)
    noise = max(rounding_level((g.rows, g.n), top, EPS), g.epsilon * whole)
    return rest <= noise and float(np.min(others)) > TOL.clear_units * noise


def _unseen(g: TallLevel, units: Host, N: Host, V: Host, values: Host) -> Host:
    """Remove from the eigenvectors N of A'A the components along which the rows do not vanish."""
    if not N.shape[1]:
        return N
    moved = units[:, None] * N
    seen = g.constant @ moved
    for _, some, products in g.products(moved):
        seen += some.transposed @ products
    return np.asarray(np.linalg.qr(N - V @ ((V.T @ (units[:, None] * seen)) / values[:, None]))[0])


class _Newton:
    """Newton directions for one level along the columns of a basis, in scaled units."""

    def __init__(self, level: TallLevel, units: Host, basis: Host) -> None:
        self.level, self.units, self.basis = level, units, basis
        self._factor: Any = None

    def direction(self, seen: Seen) -> Host | None:
        """Return Newton's step with the latest second derivative, or None if the level is flat."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        if seen.hessian is not None:
            H = self.basis.T @ _in_units(seen.hessian, self.units) @ self.basis
            scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
            try:
                self._factor = cho_factor(_in_units(H, scale)), scale
            except (LinAlgError, ValueError):
                return None
        factor, scale = self._factor
        if not np.min(np.diag(factor[0])) ** 2 > TOL.clear_units * len(scale) * EPS:
            return None
        slope = self.basis.T @ (self.units * seen.slope)
        d = -self.units * (self.basis @ (scale * cho_solve(factor, scale * slope)))
        return d if np.all(np.isfinite(d)) else None


def _settled(x: Host, units: Host, newton: _Newton, *others: _Newton) -> Host | None:
    """Take Newton steps until only rounding errors remain; None if that fails or a level is flat.

    We take Newton's step if it achieves at least a quarter of the decrease that the slope predicts,
    otherwise a shorter step.
    """
    both, before, level = (newton, *others), math.inf, newton.level
    here = [one.level.at(x, one is newton) for one in both]  # others keep their Hessians
    for _ in range(MOST_TALL_STEPS):
        steps = [one.direction(seen) for one, seen in zip(both, here, strict=True)]
        found = [step for step in steps if step is not None]
        if len(found) < len(steps):
            return None
        d = sum(found[1:], found[0])
        # `most` bounds the change of the margins; if it is small, keep the second derivative.
        most = level.bend * level.longest_row(units) * norm(d / units)
        there = level.at(x + d, most > TOL.percent)
        change = level.change(here[0], there)
        promised = ENOUGH * float(here[0].slope @ found[0])
        if change > FULL_STEP and not there.value <= here[0].value + promised:
            d = d + (math.log1p(change) / change - 1.0) * found[0]
            there = level.at(x + d)
        x, length = x + d, norm(d / units)
        here = [there, *(one.level.at(x, False) for one in others)]
        is_rounding = length > 0.5 * before or length <= 2.0 * EPS * norm(x / units)
        if change <= TOL.small_change and is_rounding:
            return x
        before = length if change <= TOL.small_change else math.inf
    return None
