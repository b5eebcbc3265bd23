"""Both levels on R^n where the losses have many more rows than variables, on the small side.

Everything is done with second derivatives, n x n. The losses of f and g are sums of squares, or
such that |phi'''| <= bend phi'' (logistic, Poisson: bend = 1). For these the step

    x + log(1 + c)/c d,    c = bend max_i |<a_i, d>|,    d Newton's direction,

always descends (Sun and Tran-Dinh, Math. Program. 2019), and becomes Newton's as c goes to 0; where
Newton's own step descends enough, that is taken. The eigenvectors of A'A split R^n into what the
rows of g see and what they do not: g is minimised along the first, f along the others. All of it in
units in which the columns of g are alike.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.exact.bounds.evaluations import EvaluationWithErrors
from tiebreak.exact.reductions.reduction import is_at_hand
from tiebreak.functions import LinearLoss, SmoothFunction, summands
from tiebreak.linalg import TINY, Array, Host, deadline, rounding_unit
from tiebreak.linalg.host import host, norm, power_of_two
from tiebreak.linalg.row_gram import column_gram, is_even
from tiebreak.linalg.sizes import SIDE
from tiebreak.linalg.spectra import EPS, clear_rank, exact_rank
from tiebreak.linalg.tolerances import TOL
from tiebreak.problem import Problem
from tiebreak.sets import described

TALL = 4  # times as many rows as variables: then n x n is much less than all rows
MOST_TALL_STEPS = 60  # ten or so are usual; where there is no minimiser they never end
FULL_STEP = 0.2  # below this change of margins Newton's step needs no check: it descends
ENOUGH = 0.25  # of what the slope promises: the usual rule of a line search
MOST_WHOLE = 2.0**20  # no larger than this, ties next to whole numbers may be
LEAST_SQUARE = 1e-290  # of a column: smaller ones have lost digits to underflow


class TallLevel:
    """A sum of losses, squares and linear terms, with its second derivative."""

    def __init__(self, h: SmoothFunction, n: int) -> None:
        self.function: SmoothFunction = h
        self.n: int = n
        self.losses: list[tuple[float, LinearLoss, Any]] = []  # weight, loss, rows
        self.constant: Host = np.zeros((n, n))  # the second derivative of all else
        self.linear: Host = np.zeros(n)  # the sizes of the linear terms in its slope
        self._longest: tuple[bytes, float] | None = None  # of its rows, in some units
        origin = np.zeros(n)
        for weight, part in summands(h):
            if isinstance(part, LinearLoss):
                self.losses.append((weight * part.scale, part, part.matrix.on_host()))
                continue
            for piece in part.parts(weight, n) or ():
                self.constant += piece.second(origin)
            self.linear += weight * np.abs(host(part.gradient(origin)))

    @staticmethod
    def is_known(h: SmoothFunction) -> bool:
        """Is it nothing but that, with numbers at hand, and second derivatives that are tame?"""
        return all(
            is_at_hand(part) and part.bend is not None and not part.matrix.is_pass_expensive
            if isinstance(part, LinearLoss)
            else part.degree <= 2 and (part.matrix is None or part.matrix.is_explicit)
            for _, part in summands(h)
        )

    @property
    def rows(self) -> int:
        return sum(A.shape[0] for _, _, A in self.losses)

    def given_rows(self) -> list[Any]:
        """Those of the losses without weights, whose ties are the same."""
        return [loss.given_matrix.on_host() for _, loss, _ in self.losses]

    @property
    def bend(self) -> float:
        """|phi'''| <= bend phi'' for all losses."""
        return max((loss.bend or 0.0 for _, loss, _ in self.losses), default=0.0)

    def gradient(self, x: Host) -> Host:
        return host(self.function.gradient(x))

    def hessian(self, x: Host) -> Host:
        """The second derivative at x."""
        total = self.constant.copy()
        for weight, loss, A in self.losses:
            deadline.check(deadline.svd_work(*A.shape) / 16)
            total += _gram(A, weight * loss.second(np.asarray(A @ x)))
        return total

    def gram(self) -> Host:
        """A'A of all rows, and the second derivative of all else: the null space is the same."""
        return self.constant + sum(column_gram(loss.matrix) for _, loss, _ in self.losses)

    def change(self, d: Host) -> float:
        """bend times the largest change of a margin along d."""
        changes = (
            (loss.bend or 0.0) * float(np.max(np.abs(A @ d), initial=0.0))
            for _, loss, A in self.losses
        )
        return max(changes, default=0.0)

    def evaluate(self, x: Host, units: Host) -> EvaluationWithErrors:
        """Value and slope at x in the units u = x/units, with bounds on their rounding errors.

        Columns of very different sizes are alike there, so that none hides behind another.
        """
        u, unit = norm(x / units), rounding_unit(EPS, self.n)
        value, slope, off, turned = 0.0, np.zeros(self.n), 0.0, 0.0
        for weight, loss, A in self.losses:
            t, size = np.asarray(A @ x), math.sqrt(float(np.sum(_squares(A) @ (units * units))))
            far = unit * self.longest_row(units) * u  # the error of a margin
            own = rounding_unit(EPS, A.shape[0]) + EPS * float(np.max(np.abs(t), initial=0.0))
            bend = (loss.bend or 0.0) * far  # where that is large nothing is known of the margin
            here, slopes = (host(some) for some in loss.evaluate_image(t))
            whole, each = loss.sizes_in_image(t)
            second = math.exp(bend) * norm(loss.second(t)) * far if bend <= 1.0 else math.inf
            pull = float(np.sum(np.abs(slopes)))
            value, slope = value + weight * float(here), slope + weight * (A.T @ slopes)
            off += weight * (far * (pull + len(t) * second) + own * whole)
            turned += weight * size * (second + own * norm(each))
        for weight, part in summands(self.function):
            if isinstance(part, LinearLoss):
                continue
            value, slope = value + weight * part.value(x), slope + weight * host(part.gradient(x))
            off += 4.0 * unit * weight * part.magnitude(norm(x), 0.0, 0.0)
        terms = norm(units * self.linear) + norm(_in_units(self.constant, units)) * u
        off, turned = off + EPS * abs(value), turned + unit * terms
        return EvaluationWithErrors(value, units * slope, off + TINY, turned + TINY, 0.0)

    def longest_row(self, units: Host) -> float:
        """The length of the longest row of a loss, at most, in these units."""
        key = units.tobytes()
        if self._longest is None or self._longest[0] != key:
            lengths = [_squares(A) @ (units * units) for _, _, A in self.losses]
            most = max((float(np.max(some, initial=0.0)) for some in lengths), default=0.0)
            self._longest = key, math.sqrt(most) * (1.0 + rounding_unit(EPS, self.n))
        return self._longest[1]

    def largest_product(self, M: Host) -> float:
        """The length of the longest row of bend A M, at most."""
        most = 0.0
        for _, loss, A in self.losses:
            products = np.asarray(A @ M)
            longest = math.sqrt(float(np.max(np.sum(products * products, axis=1), initial=0.0)))
            most = max(most, (loss.bend or 0.0) * longest)
        return most * (1.0 + rounding_unit(EPS, *M.shape))


def _squares(A: Any) -> Any:
    return A * A if isinstance(A, np.ndarray) else A.multiply(A)


def _gram(A: Any, weights: Host) -> Host:
    """A' diag(weights) A."""
    roots = np.sqrt(weights)
    if isinstance(A, np.ndarray):
        B = roots[:, None] * A
        return np.asarray(B.T @ B)
    B = A.multiply(roots[:, None]).tocsr()
    return np.asarray((B.T @ B).toarray())


class TallAnswer(NamedTuple):
    """What both levels have for an answer, in units u = x/units."""

    x: Host
    upper: TallLevel
    lower: TallLevel
    units: Host
    rank: int
    is_exact: bool  # is that the rank of the numbers as they are stored?
    is_rounded: bool  # do they have another one, by rounding alone?  Then nothing is proved
    values: Host  # the eigenvalues of g's A'A in these units, ascending


def solve_tall(problem: Problem, start: Array) -> TallAnswer | None:
    """The answer; None where the problem is another one, or second derivatives do not tell."""
    if not is_tall(problem):
        return None
    f, g = (TallLevel(h.bare, int(start.shape[0])) for h in problem.smooth_parts)
    gram = g.gram()
    squares = np.diag(gram)
    is_ordinary = np.isfinite(gram).all() and np.all((squares == 0.0) | (squares > LEAST_SQUARE))
    if not is_ordinary or not all(is_even(A) for _, _, A in g.losses):
        return None
    units = power_of_two(np.maximum(np.diag(gram), 0.0), -0.5)  # the diagonal is about 1
    values, vectors = np.linalg.eigh(_in_units(gram, units))
    noise = rounding_unit(EPS, g.rows, g.n) * float(np.sum(np.maximum(values, 0.0)))
    rank = int(np.count_nonzero(values > TOL.clear_units * noise))
    # With a linear term g may fall along the ties for ever, however slowly.
    is_slanted = rank < g.n and g.linear.any()
    if not rank or is_slanted or np.any(values[: g.n - rank] > noise):
        return None
    N, V = vectors[:, : g.n - rank], vectors[:, g.n - rank :]
    stored = rank if _has_whole_ties(g, units[:, None] * N) else _stored_rank(g)
    kept = values[g.n - rank :]
    N = _unseen(g, units, N, V, kept)
    is_rounded = stored is not None and stored != rank
    if is_rounded and not _is_rounding(g, units[:, None] * N, np.sqrt(kept)):
        return None
    below, above = _Newton(g, units, V), _Newton(f, units, N)
    x = _better(problem, host(start))
    answer = _settled(units * (V @ (V.T @ (x / units))), units, below)
    if answer is not None and N.shape[1]:  # what that does to g is taken back in each step
        answer = _settled(answer, units, above, below)
    if answer is None:
        return None
    return TallAnswer(answer, f, g, units, rank, stored == rank, is_rounded, values)


def is_tall(problem: Problem) -> bool:
    """Is it a problem for this way?"""
    n = problem.dimension or 0
    if not described(problem.domain).is_space or not problem.is_smooth or n > SIDE:
        return False
    if sum(part.matrix.shape[0] for part in _losses(problem.lower.bare)) < TALL * n:
        return False
    return all(TallLevel.is_known(h.bare) for h in problem.smooth_parts)


def _losses(h: Any) -> list[LinearLoss]:
    return [part for _, part in summands(h) if isinstance(part, LinearLoss)]


def _better(problem: Problem, x: Host) -> Host:
    """x if it is better than the origin, which is never far out; otherwise that."""
    zero = np.zeros_like(x)
    return x if problem.lower.value(x) < problem.lower.value(zero) else zero


def _in_units(H: Host, units: Host) -> Host:
    return np.asarray(units[:, None] * H * units)


def _has_whole_ties(g: TallLevel, N: Host) -> bool:
    """Do whole multiples of the variables, as many as N has columns, change no row at all?

    As for indicators of categories, which add up to 1. Products of whole numbers are exact, and the
    ties are independent: each has a variable to itself. So the rank is no larger.
    """
    from scipy.linalg import qr

    if not N.shape[1]:
        return True
    own = qr(N.T, mode="r", pivoting=True)[1][: N.shape[1]]
    ties = N @ np.linalg.inv(N[own])
    whole = np.round(ties)
    if (
        g.constant.any()
        or np.max(np.abs(ties - whole)) > TOL.small_change
        or np.max(np.abs(whole)) > MOST_WHOLE
    ):
        return False
    return all(_is_whole(A) and not np.any(A @ whole) for A in g.given_rows())


def _is_whole(A: Any) -> bool:
    """Are all entries whole numbers, so small that no sum of products with ties is rounded?"""
    entries = A if isinstance(A, np.ndarray) else A.data
    size = float(np.max(np.abs(entries), initial=0.0)) * MOST_WHOLE * A.shape[1]
    return bool(size < 2.0**53 and np.all(entries == np.rint(entries)))


def _stored_rank(g: TallLevel) -> int | None:
    """The rank of the rows as they are stored; None where that is not known."""
    if g.constant.any() or len(g.losses) != 1:
        return None
    (A,) = g.given_rows()
    return exact_rank(A if isinstance(A, np.ndarray) else A.toarray())


def _is_rounding(g: TallLevel, N: Host, others: Host) -> bool:
    """Are the rows' products with all columns of N rounding, beside their other singular values?

    A'A alone cannot tell: its eigenvalues are squares.
    """
    (A,) = g.given_rows()
    deadline.check(deadline.svd_work(A.shape[0], N.shape[1]))
    sigma = np.append(np.sort(others)[::-1], np.linalg.svd(A @ N, compute_uv=False))
    return clear_rank(sigma, A.shape, EPS) == (len(others), len(others))


def _unseen(g: TallLevel, units: Host, N: Host, V: Host, values: Host) -> Host:
    """N without what the rows still see of it, which an eigenvector of A'A has."""
    if not N.shape[1]:
        return N
    moved = units[:, None] * N
    seen = g.constant @ moved + sum(A.T @ (A @ moved) for _, _, A in g.losses)
    return np.asarray(np.linalg.qr(N - V @ ((V.T @ (units[:, None] * seen)) / values[:, None]))[0])


class _Newton:
    """Newton's directions for one level along the columns of a basis; in units."""

    def __init__(self, level: TallLevel, units: Host, basis: Host) -> None:
        self.level, self.units, self.basis = level, units, basis
        self._factor: Any = None

    def step(self, x: Host, fresh: bool) -> tuple[Host, float] | None:
        """A step d along the basis, and the change of margins along it; None: the level is flat.

        Newton's where the slope falls by a quarter of what it promises or more, otherwise shorter.
        """
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        if fresh or self._factor is None:
            H = self.basis.T @ _in_units(self.level.hessian(x), self.units) @ self.basis
            scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
            try:
                self._factor = cho_factor(_in_units(H, scale)), scale
            except (LinAlgError, ValueError):
                return None
        factor, scale = self._factor
        if not np.min(np.diag(factor[0])) ** 2 > TOL.clear_units * len(scale) * EPS:
            return None
        gradient = self.level.gradient(x)
        slope = self.basis.T @ (self.units * gradient)
        d = -self.units * (self.basis @ (scale * cho_solve(factor, scale * slope)))
        if not np.all(np.isfinite(d)):
            return None
        change = self.level.change(d)
        h, promised = self.level.function, ENOUGH * float(gradient @ d)
        if change > FULL_STEP and not h.value(x + d) <= h.value(x) + promised:
            d = math.log1p(change) / change * d
        return d, change


def _settled(x: Host, units: Host, newton: _Newton, *others: _Newton) -> Host | None:
    """Steps until they are rounding; None where they do not end, or a level is flat."""
    fresh, before = True, math.inf
    for _ in range(MOST_TALL_STEPS):
        steps = [one.step(x, fresh and one is newton) for one in (newton, *others)]
        found = [step for step in steps if step is not None]
        if len(found) < len(steps):
            return None
        d, change = sum(d for d, _ in found), found[0][1]
        x, length, fresh = x + d, norm(d / units), change > TOL.percent
        is_rounding = length > 0.5 * before or length <= 2.0 * EPS * norm(x / units)
        if change <= TOL.small_change and is_rounding:
            return x
        before = length if change <= TOL.small_change else math.inf
    return None
