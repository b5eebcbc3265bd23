"""Solve both levels on R^n if g is a least-squares loss with few rows and many variables.

The minimisers of g = w/2 |A x - b|² are the x with A x = b in the least-squares sense, and f is a
norm or another sum of squares. Everything uses the eigenvalues of the small matrix A A'
(`RowGram`), so A may be sparse and very wide:

- If f = |x - c|², then x = c + A'q with A A' q = b - A c.
- If f = |x - c|²_W with weights W > 0, then x = c + W⁻¹A'q with A W⁻¹A' q = b - A c.
- If f = |F x - t|², then x = A'q + M'p with A A' q = b and M M' p = t - F A' q.
- If f = |x - c|_1, we use column generation: see `basis_pursuit`.

Here M = F - (F A')(A A')^+ A has the rows of F projected onto the null space of A: A M' = 0.
Refinement solves the same equations again with the residuals of b and t in twice the precision.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.exact.basis_pursuit import BasisPursuit, GramEquations, L1Norm, sparsest
from tiebreak.exact.reductions.reduction import l1_above, squares_of
from tiebreak.functions import Squares, summands
from tiebreak.linalg import (
    DENSE_LIMIT,
    EPS,
    SAFE,
    TOL,
    Array,
    Host,
    Matrix,
    arrays,
    checks,
    deadline,
    rounding_unit,
)
from tiebreak.linalg.arrays import MOST_EXPONENT
from tiebreak.linalg.host import CAREFUL, Sliced, host, norm, top_exponent
from tiebreak.linalg.matrices import FLOAT64_COPY_LIMIT
from tiebreak.linalg.matrices.derived import with_scaled_rows
from tiebreak.linalg.row_gram import RowGram, RowRank, row_gram, row_rank, scaled
from tiebreak.linalg.sizes import DENSE_SIDE, SIDE
from tiebreak.problem import Problem
from tiebreak.sets.descriptions import stacked

ORTHOGONAL = 0.1  # the largest cosine allowed between the rows of M and those of A


class ScaledEquations:
    """The equations S x = b: rows and target of a least-squares loss, scaled as in `scaled`.

    Are they rounded (``is_rounded``), as products with the roots of weights?
    """

    def __init__(self, matrix: Matrix, b: Array, is_rounded: bool = False) -> None:
        self._rounding: float = 2.0 * EPS if is_rounded else 0.0
        self.S, self.exponent = scaled(matrix.on_host())
        self.b: Host = np.ldexp(host(b), -self.exponent)
        self.is_dense: bool = isinstance(self.S, np.ndarray)
        self._sliced = Sliced(self.S) if self.is_dense and self.S.size <= CAREFUL else None
        self.size: float = norm(self.S if self.is_dense else self.S.data)

    def _is_careful(self, x: Host) -> bool:
        """Is S x computed in twice the precision?  Only columns with x != 0 count."""
        return self.is_dense and len(self.b) * int(np.count_nonzero(x)) <= CAREFUL

    def left(self, x: Host) -> Host:
        """Return b - S x, in twice the precision unless S is very large or sparse."""
        if not x.any():
            return self.b
        if not self._is_careful(x):
            return np.asarray(self.b - self.S @ x)
        if self._sliced is None:
            return -Sliced(self.S[:, x != 0.0]).times(x[x != 0.0], self.b)
        return -self._sliced.times(x, self.b)

    def error(self, x: Host, left: Host) -> float:
        """Bound the error of ``left``, including that of rounded equations."""
        terms = self.size * norm(x) + norm(self.b)
        if not self._is_careful(x):
            return rounding_unit(EPS, *self.S.shape) * terms
        unit: float = EPS * max(self.S.shape)
        return 2.0 * EPS * norm(left) + (4.0 * unit * unit + self._rounding) * terms


class WideProblem(NamedTuple):
    """The levels f and g, which are squares; f is a norm if its rows are None.

    f may also be the sum of weights_j |x_j - center_j|.
    """

    upper: Squares | None
    lower: list[Squares]
    strength: float  # the least weight of f's squares
    data_epsilon: float

    def equations(self, epsilon: float) -> tuple[Matrix, Array, float, RowRank] | None:
        """Return rows and target whose least-squares solutions minimise g, with weight and rank.

        If rows are independent, all equations hold whatever their weights, and we return the
        largest weight. Return None if A A' leaves the rank in doubt, or if the weights of several
        squares matter.
        """
        first, *others = self.lower
        rows, target = first.rows, first.target
        if others:
            every = stacked([part.rows.on_host() for part in self.lower], rows.shape[1])
            rows = checks.matrix("Exact", "lower", every)
            target = np.concatenate([host(part.target) for part in self.lower])
        tops = (1.0 if part.weights is None else np.max(part.weights) for part in self.lower)
        heaviest = max(part.scale * top for part, top in zip(self.lower, tops, strict=True))
        found = row_rank(rows, epsilon)
        if found is not None and found.rank == rows.shape[0]:
            return rows, target, heaviest, found
        A, b = _weighted(first)
        given, found, (m, n) = found, row_rank(A, epsilon), A.shape
        is_long = max(m, n) * n > DENSE_LIMIT  # too many variables to compute singular values
        if others or found is None or not ((found.is_exact and A is rows) or is_long):
            return None
        if found.is_exact and found != given:  # the products with weights have another rank
            return None
        return A, b, first.scale, found

    @classmethod
    def of(cls, problem: Problem) -> WideProblem | None:
        """Return the problem in this form, or None if it has a different form or is too large."""
        above, below = squares_of(problem.upper), squares_of(problem.lower)
        is_l1 = (terms := l1_above(problem)) is not None and not terms.has_operator
        if not problem.domain.is_space or len(above) != 1 - is_l1 or not below:
            return None
        if any(part.rows is None or not _is_wide(part.rows) for part in below):
            return None
        if sum(part.rows.shape[0] for part in below) > DENSE_SIDE:
            return None
        f, strength = above[0] if above else None, problem.upper.strong_convexity
        if f is None or f.rows is None:
            is_fit = is_l1 or strength > 0.0  # for weights of 0, the rows must be factorised
        else:  # x has the least norm over all variables, so none may be left out of the norm
            # With up to twice as many rows as variables, M M' costs no more than other methods.
            is_fit = problem.counted is None and _is_wide(f.rows, 2)
            is_fit = is_fit and math.prod(f.rows.shape) <= DENSE_LIMIT
        if not is_fit:
            return None
        parts = [part for h in problem.smooth_parts for _, part in summands(h.bare)]
        return cls(f, below, strength, max(part.data_epsilon for part in parts))


def _weighted(part: Squares) -> tuple[Matrix, Array]:
    """Return rows and target, multiplied by the square roots of their weights."""
    if part.weights is None:
        return part.rows, part.target
    roots = arrays.like(np.sqrt(part.weights), part.rows.prototype)
    return with_scaled_rows(part.rows, roots), roots * part.target


def _is_wide(matrix: Matrix, most: int = 1) -> bool:
    """Are the entries of A available, and few enough for A A' and its eigenvalues?

    ``most`` is the largest allowed number of rows per variable.
    """
    rows, n = matrix.shape
    if not 0 < rows <= min(most * n, DENSE_SIDE) or matrix.size > FLOAT64_COPY_LIMIT:
        return False
    return rows * matrix.size <= SIDE * DENSE_LIMIT and matrix.is_at_hand


class Reduced(NamedTuple):
    """F projected onto the null space of g's rows, in units of F's largest entry."""

    equations: ScaledEquations  # F x = t
    FA: Host  # F S'
    M: Host  # M, divided by a power of two near its largest entry
    gram: RowGram  # of M
    rank: int  # of M
    least: float  # proved: |F d| >= least |d| for d with S d = 0 in the span of F's and S's rows


class Metric(NamedTuple):
    """The weights W of f's squares, at most 1, and the rows S W^-1/2."""

    weights: Host
    gram: RowGram

    @classmethod
    def of(cls, w: Host, S: Any) -> Metric:
        w = np.ldexp(w, -top_exponent(w))
        return cls(
            w, RowGram(S * w**-0.5 if isinstance(S, np.ndarray) else S.multiply(w**-0.5).tocsr())
        )

    def step(self, left: Host, S: Any, rank: int) -> Host:
        """Return the d of least |d|_W with S d = left."""
        unit = 2.0**-self.gram.exponent
        return np.asarray(S.T @ (unit * self.gram.solve(unit * left, rank)) / self.weights)


class WideAnswer(NamedTuple):
    """The solution of both levels, where A is scaled to S = 2^-exponent A."""

    x: Array
    weights: tuple[float, float]  # weights of the squares of f and g
    equations: ScaledEquations  # of g
    gram: RowGram
    rank: int
    rest: float  # singular values of A up to this are rounding errors; 0 if all are clear
    center: Host  # center of f, if f is a norm
    reduced: Reduced | None  # None if f is a norm
    metric: Metric | None = None  # used if f is a norm with weights
    dual: Host | None = None  # for an l1 norm f: S'dual is a subgradient, up to rounding
    balance: float = 0.0  # relative distance of S'dual from a subgradient
    left_open: int = 0  # dimension of the minimisers of f among those of g


def solve_wide(problem: Problem, start: Array) -> WideAnswer | None:
    """Return the answer, or None if the problem has a different form or the rank is in doubt."""
    wide = WideProblem.of(problem)
    if wide is None:
        return None
    f, epsilon = wide.upper, max(arrays.epsilon(start), wide.data_epsilon)
    if (given := wide.equations(epsilon)) is None:
        return None
    A, b, heaviest, (rank, rest) = given
    is_rounded = len(wide.lower) == 1 and A is not wide.lower[0].rows
    at, n = ScaledEquations(A, b, is_rounded), int(start.shape[0])
    strength = wide.strength if f is None or f.rows is None else f.scale
    none = WideAnswer(start, (strength, heaviest), at, row_gram(A), rank, rest, np.zeros(n), None)
    answer = _sparsest(problem, none) if f is None else _least_squares(f, none)
    if answer is None:
        return None
    of_f = answer.reduced.equations.exponent if answer.reduced else 0
    if max(abs(at.exponent), abs(of_f)) > MOST_EXPONENT:
        return None
    return answer._replace(x=arrays.like(answer.x, start))


def _least_squares(f: Squares, answer: WideAnswer) -> WideAnswer | None:
    """Return the answer if f is a norm or squares, or None if rounding leaves it in doubt."""
    equations, gram, rank = answer.equations, answer.gram, answer.rank
    if f.rows is not None:
        if (reduced := _reduced(f, equations, gram, rank)) is None:
            return None
        left_open = gram.shape[1] - rank - reduced.rank
        answer = answer._replace(reduced=reduced, left_open=left_open)
    else:
        if f.target is not None:
            answer = answer._replace(center=host(f.target))
        if f.weights is not None:
            answer = answer._replace(metric=Metric.of(f.weights, equations.S))
        if answer.metric is not None and answer.metric.gram.clear_rank() != rank:
            return None
    x = _refined(answer.center, equations, gram, rank, answer.reduced or answer.metric)
    return None if x is None else answer._replace(x=x)


def _sparsest(problem: Problem, answer: WideAnswer) -> WideAnswer | None:
    """Return the answer if f is an l1 norm, or None if HiGHS finds none."""
    n, equations = len(answer.center), answer.equations
    weights, center = L1Norm.of(problem, n)
    rows = GramEquations(equations.S, equations.left(center), answer.gram, answer.rank)
    counted = np.ones(n) if problem.counted is None else np.sqrt(host(problem.counted))
    program = BasisPursuit(rows, np.zeros((0, n)), np.zeros(0), weights)
    found = sparsest(program, center, counted)
    if found is None:
        return None
    return answer._replace(
        x=found.x,
        center=center,
        dual=rows.T.T @ found.multipliers,
        balance=found.residual,
        left_open=found.left_open,
    )


def _refined(
    x: Host, equations: ScaledEquations, gram: RowGram, rank: int, more: Reduced | Metric | None
) -> Host | None:
    """Refine x + A'q + M'p, or x + W⁻¹A'q, until only the last digit changes.

    Return None if the refinement does not converge. Rounding errors in A A' make each correction a
    fixed share of the last one, so we can predict the size of the next one.
    """
    before, S = 0.0, equations.S
    for _ in range(TOL.sweeps):
        deadline.check()
        if isinstance(more, Metric):
            d = more.step(equations.left(x), S, rank)
        else:
            q = gram.solve(equations.left(x), rank)
            d = S.T @ q
        if isinstance(more, Reduced):
            left = np.ldexp(more.equations.left(x) - more.FA @ q, -more.gram.exponent)
            d = d + more.M.T @ more.gram.solve(left, more.rank)
        x, length = x + d, norm(d)
        size = norm(x)
        if not 2.0**-MOST_EXPONENT < size < 2.0**MOST_EXPONENT and x.any():
            return None
        if length <= EPS * size or (before > 0.0 and length * (length / before) <= EPS * size):
            return x
        before = length
    return None


def _reduced(f: Squares, g: ScaledEquations, gram: RowGram, rank: int) -> Reduced | None:
    """Return the rows of F on the slice S d = 0, or None if their rank there is not clear.

    The rank is at most the number of rows and the dimension of the slice: either that many
    eigenvalues of M M' are clear, or the rank is in doubt.

    The bound ``least`` is proved for any Y, with M = F - Y S. Let the orthonormal columns of V span
    the rows of S, and let sigma be the least nonzero singular value of S. Let the columns of W be
    the right singular vectors of M whose singular values count, and let s be the least of these.
    Then |V'W| <= |S M'|/(sigma s) = e. Let d be in the span of the rows of F and S, with S d = 0.
    Then d = W a + V b and V'd = 0, so b = -V'W a and

        |W'd|² = |(I - C)a|² >= (1 - e²) <a, (I - C)a> = (1 - e²) |d|²,    C = W'V V'W.

    So |F d| = |M d| >= s |W'd| >= s (1 - e) |d|. (This holds for all d with S d = 0 if F has so
    many rows that V and W span everything.) The bound accounts for the error of the computed M.
    """
    equations = ScaledEquations(*_weighted(f))
    F = equations.S if isinstance(equations.S, np.ndarray) else equations.S.toarray()
    k, n = F.shape
    full = min(k, n - rank)
    if full == 0:
        return None
    FA = np.asarray(F @ g.S.T)
    Y = gram.solve(FA.T, rank).T
    M = F - Y @ g.S
    of_M = RowGram(M)
    error = rounding_unit(EPS, k, n) * (equations.size + norm(Y) * g.size)
    unit = 2.0**of_M.exponent
    s = unit * math.sqrt(max(of_M.least(full), 0.0)) - error
    if not (of_M.values[k - full] > TOL.clear_units * of_M.noise and s > TOL.clear_units * error):
        return None
    across = norm(np.asarray(M @ g.S.T)) + (rounding_unit(EPS, n) * norm(M) + error) * g.size
    cosine = across / (s * math.sqrt(gram.least(rank)))
    if not cosine <= ORTHOGONAL:
        return None
    return Reduced(equations, FA, M / unit, of_M, full, s * (1.0 - cosine) / SAFE)
