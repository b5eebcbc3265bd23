"""Least squares, and what A'A and the singular values of A say about the minimisers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tiebreak.functions.base import PendingEvaluation, PointWithImage, Squares
from tiebreak.functions.far_slopes import FarRows
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.parts.quadratic_parts import LeastSquaresPart, Part
from tiebreak.functions.quadratic import Quadratic
from tiebreak.linalg import (
    DENSE_LIMIT,
    TOL,
    Array,
    Dense,
    Host,
    Image,
    Matrix,
    RowBlocks,
    arrays,
    checks,
    deadline,
    rounding_unit,
    spectra,
)
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost
from tiebreak.linalg.host import host, power_of_two, top_exponent
from tiebreak.linalg.host_rows import HostRows
from tiebreak.linalg.matrices.derived import with_scaled_rows
from tiebreak.linalg.row_gram import column_gram, row_gram, row_rank
from tiebreak.linalg.sizes import LARGE_SIDE, SIDE


class LeastSquares(LinearLoss):
    """½|Ax - b|², divided by the number of rows if ``mean``; with weights w, ½ sum w_i (Ax - b)_i².

    Args:
        A: a dense matrix (any array-API library), a scipy.sparse matrix, a linear operator (SciPy,
            PyLops), or Streamed. A numpy.memmap or a Zarr array becomes Streamed automatically. A
            may be a pandas DataFrame: then b, if it is a Series, must have the same index.
        b: vector with one entry per row. Nothing is rounded: if A is in float32 and b has numbers
            that float32 cannot represent, A is converted to float64.
        mean: divide by the sum of the weights or, without weights, by the number of rows.
        weights: one number >= 0 per row. A row of weight 2 counts twice, and a row of weight 0 is
            ignored. The rows and b are multiplied by sqrt(w_i) in float64 and rounded once. Ranks
            refer to the rows as you gave them, before this multiplication.
        gram: work with A'A instead of A (one product per point instead of two). The default, None,
            uses A'A if A is tall and dense, unless the residual can become so small relative to b
            that the value ½x'A'Ax - b'Ax + ½|b|² loses more than two digits to cancellation. With
            A'A, streamed rows are read only a few times.
        lipschitz: your own upper bound on lambda_max(A'A) or, with weights, on lambda_max(A'WA) (if
            ``mean``, divided by the number of rows or by the sum of the weights).

    If you write new numbers into your arrays, ``solve``, ``certify`` and ``compare`` notice and use
    them. Changes of the data behind a linear operator cannot be noticed: after such a change, make
    a new LeastSquares.

    Examples:
        >>> loss = tb.LeastSquares([[1, 0], [0, 2]], [1, 4])
        >>> loss.value(np.zeros(2))  # ½ (1² + 4²)
        8.5
        >>> problem = tb.Problem(lower=tb.LeastSquares([[1, 1]], [2]), upper=loss)
        >>> tb.solve(problem).x.round(4)  # fits the other data best among x_1 + x_2 = 2
        array([0.2, 1.8])
    """

    b: Array
    unweighted: Squares | None = None  # rows, b and weights as given, if there are weights

    curvature = 1.0
    bend = 0.0
    falls_unseen = False
    degree = 2
    title = "least squares"
    kernel = "least-squares"
    loss_name = "squared"

    def __init__(
        self,
        A: object,
        b: object,
        mean: bool = False,
        *,
        weights: object = None,
        gram: bool | None = None,
        lipschitz: float | None = None,
    ) -> None:
        super().__init__(A, mean, lipschitz)
        self._remember(LeastSquares, A, b=b, weights=weights, gram=gram, lipschitz=lipschitz)
        self.b = self.target = self._take_weights(A, weights, self._per_row(A, b, "b"))
        if self.weights is not None:
            self._absorb_weights(self.weights)
        self._use_gram: bool | None = checks.flag("LeastSquares", "gram", gram, None)
        if gram and not self.matrix.is_explicit:
            raise ValueError(
                "LeastSquares: gram must be False or None if A is not a matrix in memory that "
                "can be made dense, got True"
            )

    def _absorb_weights(self, weights: Array) -> None:
        """Multiply rows and b by the roots of the weights, so that all weights become 1.

        The relative error of an entry is at most twice the unit roundoff; the 64 machine epsilons
        in `rounding_unit` cover it.
        """
        if arrays.is_single(self.prototype):
            wide = self.matrix.in_float64
            if wide is None:
                raise ValueError(
                    "LeastSquares: A must be convertible to float64 if there are "
                    "weights, got a float32 matrix that is not"
                )
            self._change_precision(wide)
        w = host(weights)
        if w.all():  # no row was replaced by zeros
            self.unweighted = Squares(self.matrix, arrays.like(self.b, self.prototype), w)
        factors = arrays.like(np.sqrt(w), self.prototype)
        self.matrix: Matrix = with_scaled_rows(self.matrix, factors)
        self.b = self.target = factors * arrays.like(self.b, self.prototype)
        self.weights: Any | None = None

    def _of_matrix(self, matrix: object) -> LeastSquares:
        return LeastSquares(matrix, arrays.double(self.b), gram=False)

    def of_columns(self, change: Callable[[Any], Any]) -> LinearLoss:
        given = self.unweighted
        if given is None:
            return super().of_columns(change)
        rows, b = change(given.rows.on_host()), host(given.target)
        made = LeastSquares(rows, b, weights=given.weights, gram=False)
        made.scale, made.mean, made.note = self.scale, self.mean, self.note
        return made

    @cached_property
    def squares(self) -> Squares:
        return (self.unweighted or Squares(self.matrix, self.b))._replace(scale=self.scale)

    @property
    def given_matrix(self) -> Matrix:
        """The rows as the user gave them: rounding of the weighted rows may change their rank."""
        rows: Matrix = self.squares.rows
        return rows

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        residual = image - self.b
        return 0.5 * arrays.inner(residual, residual), residual

    def _slopes(self, images: Array, rows: slice) -> Array:
        return images - self.b[rows]

    def _conic_rows(
        self, form: ConicForm, cost: Cost, weights: Host, products: Affine, target: Host
    ) -> bool:
        cost.add_squares(weights, products - target)
        return True

    def _far_rows(self, weights: Host, rows: HostRows, target: Host) -> FarRows:
        return FarRows([rows])

    def parts(self, weight: float, n: int) -> list[Part]:
        """The function as a single part, with the rows as the user gave them and their weights."""
        given = self.unweighted
        if given is None:
            return [LeastSquaresPart(weight * self.scale, self.matrix.dense(), host(self.b))]
        top = top_exponent(given.weights)
        w, scale = np.ldexp(given.weights, -top), math.ldexp(weight * self.scale, top)
        return [LeastSquaresPart(scale, given.rows.dense(), host(given.target), w)]

    def second(self, image: Host, rows: Any = None) -> Host:
        return np.ones(len(image))

    @property
    def shares_passes(self) -> bool:  # type: ignore[override]
        return self.gram is None and super().shares_passes

    @cached_property
    def gram(self) -> Quadratic | None:
        """The function as ½x'Gx - c'x + const with G = A'A, if that is cheaper and safe.

        For streamed rows, computing G takes three passes, and later evaluations need none.
        """
        rows, n = self.matrix.shape
        is_plain = type(self.matrix) is Dense  # is the matrix dense and in memory?
        wanted = self._use_gram
        if wanted is None:
            is_tall = n <= rows and n <= SIDE
            wanted = (is_plain or self._is_streamed) and is_tall and self._gram_is_safe()
        if not wanted or rows == 0:
            return None
        deadline.check(deadline.svd_work(rows, n) / 16)
        # On the host, `column_gram` caches A'A; with other libraries, A's device computes it.
        A = self.matrix.entries if is_plain and type(self.prototype) is not np.ndarray else None
        G = column_gram(self.matrix) if A is None else A.T @ A
        Q = arrays.like(self.scale * G, self.prototype)
        c = -self.scale * self.matrix.adjoint(self.b)[0]
        constant = 0.5 * self.scale * arrays.dot(self.b, self.b)
        return Quadratic.trusted(Dense(Q), c, constant)

    @property
    def _is_streamed(self) -> bool:
        """Are the rows read block by block, without being kept in memory?"""
        return isinstance(self.matrix, RowBlocks) and self.matrix.is_pass_expensive

    def _gram_is_safe(self) -> bool:
        """Is the norm of the smallest residual at least |b|/10, and is the arithmetic in float64?

        If passes are expensive, A'A is allowed to be singular: eigenvalues that are only rounding
        errors are ignored.
        """
        if arrays.epsilon(self.prototype) > 1e-15:
            return False
        rows, n = self.matrix.shape
        # This check of the time limit covers all the work below, including that of `gram`.
        deadline.check(deadline.svd_work(rows, n) / 8)
        values, vectors = np.linalg.eigh(G := column_gram(self.matrix))
        noise = rounding_unit(spectra.EPS, rows, n) * float(np.trace(G))
        seen = values > (noise if self._is_streamed else -math.inf)
        values, vectors = values[seen], vectors[:, seen]
        if not len(values) or values[0] <= 1e-8 * values[-1]:
            return False  # the smallest residual cannot be computed from G
        b = host(self.b)
        x = vectors @ ((vectors.T @ host(self.matrix.adjoint(self.b)[0])) / values)
        residual = host(self.matrix.forward(arrays.like(x, self.prototype))[0]) - b
        return bool(np.linalg.norm(residual) >= 0.1 * np.linalg.norm(b) > 0.0)

    def extent(self, x: Array) -> float:
        return arrays.norm(x) if self.gram is not None else super().extent(x)

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        return self.gram.forward(*xs) if self.gram is not None else super().forward(*xs)

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        if self.gram is not None:
            return self.gram.evaluate_async(at, values_at)
        return super().evaluate_async(at, values_at)

    def passes(self, forwards: int, slopes: int, values: int) -> int:
        if self.gram is None:
            return super().passes(forwards, slopes, values)
        return 0 if self._is_streamed else forwards  # products with G read no rows

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        if self.gram is not None:
            # G and A'b have rounding errors too, which scale with |A|² and |A||b|.
            unit = self.scale * rounding_unit(epsilon, *self.matrix.shape)
            size = self._target_size
            error = unit * self.matrix.frobenius * (self.matrix.frobenius * reach + size)
            return error * reach + unit * size * size, error
        unit, of_image, of_adjoint = self.matrix.errors(epsilon, self._spectral)
        residual = math.sqrt(2.0 * max(value, 0.0) / self.scale)
        error = of_image * reach + unit * self._target_size  # error of the residual
        return (
            self.scale * (error * (residual + error) + unit * residual * residual),
            self.scale * (self._spectral * error + of_adjoint * (residual + error)),
        )

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return self.scale * (self.matrix.frobenius * reach + self._target_size) ** 2

    @property
    def _epsilon(self) -> float:
        """The machine epsilon of the data."""
        return max(arrays.epsilon(self.prototype), self.data_epsilon)

    @property
    def _row_rank(self) -> int | None:
        """The rank of A from A A', if that is exact and A has few rows; otherwise None."""
        rows, n = self.matrix.shape
        is_small = 0 < rows <= min(n, LARGE_SIDE) and rows * n <= DENSE_LIMIT
        if not (is_small and self.matrix.is_explicit):
            return None
        found = row_rank(self.given_matrix, self._epsilon)
        return found.rank if found is not None and found.is_exact else None

    @cached_property
    def singular_values(self) -> np.ndarray[Any, Any] | None:
        """The singular values of A, descending; None if the matrix is too large."""
        rows, n = self.matrix.shape
        if min(rows, n) > LARGE_SIDE or rows * n > DENSE_LIMIT or not self.matrix.is_explicit:
            return None
        deadline.check(0.5 * deadline.svd_work(rows, n))
        return np.linalg.svd(self.matrix.dense(), compute_uv=False)

    @cached_property
    def _equilibrated(self) -> tuple[np.ndarray[Any, Any], float] | None:
        """The singular values of A with rescaled rows and columns, and a factor for A itself.

        The singular values of A itself are at least the returned ones times the factor. The result
        is None if A is too large.
        """
        if self.singular_values is None:
            return None
        A = self.matrix.dense()
        r, c = spectra.equilibrate(A)
        if np.all(r == 1.0) and np.all(c == 1.0):
            return self.singular_values, 1.0
        deadline.check(0.5 * deadline.svd_work(*A.shape))
        sigma = np.linalg.svd(r[:, None] * A * c, compute_uv=False)
        return sigma, 1.0 / float(np.max(r, initial=1.0) * np.max(c, initial=1.0))

    @cached_property
    def rank(self) -> int | None:
        """The rank of A, or None if it is not determined.

        Every singular value must be at the level of rounding errors or at least 1e3 times as large:
        without such a gap, the rank is undecided. Rank does not depend on units, so the
        equilibrated matrix decides, unless some rows or columns of A look like rounding errors
        themselves.
        """
        if (by_rows := self._row_rank) is not None:
            return by_rows
        if self._equilibrated is None:
            return None
        A, epsilon = self.matrix.dense(), self._epsilon
        low, high = spectra.clear_rank(self._equilibrated[0], self.matrix.shape, epsilon)
        return low if low == high and spectra.cleaned(A, epsilon) is A else None

    def solution_dimension(self, center: Any, radius: float) -> int | None:
        """n - rank(A) if the rank is determined and the ball contains a solution in its interior.

        The result is 0 if the solution closest to the centre is outside the ball.
        """
        rows, n = self.matrix.shape
        if not rows and math.isinf(radius):
            return n
        # If the growth constant is positive, the rank is certain: it is full, or exact arithmetic
        # has confirmed it.
        if self.rank is None or not self.growth > 0.0:
            return None
        length = 0.0 if math.isinf(radius) else self._distance_from(center, self.rank) / radius
        if not abs(length - 1.0) > 1e-6:
            return None
        return n - self.rank if length < 1.0 else 0

    def _distance_from(self, center: Any, rank: int) -> float:
        """The distance from a point to the nearest least-squares solution; nan if unknown."""
        shape = self.matrix.shape
        if min(shape) > SIDE:
            return math.nan
        A = self.matrix.dense()
        offset = np.zeros(shape[1]) if center is None else host(arrays.like(center, self.b))
        deadline.check(deadline.svd_work(*shape))
        u, s, vt = np.linalg.svd(A, full_matrices=False)
        if rank and s[rank - 1] <= TOL.clear_units * spectra.rounding_level(
            shape, float(s[0]), spectra.EPS
        ):
            return math.nan  # the problem is too ill-conditioned in the units of x
        rhs = host(self.b) - A @ offset
        return float(np.linalg.norm(vt[:rank].T @ ((u[:, :rank].T @ rhs) / s[:rank])))

    @cached_property
    def growth(self) -> float:
        """The smallest positive eigenvalue of A'A, times the scale; 0 if it is unknown.

        On R^n, g(x) - g* <= |grad g(x)|²/(2 s²), where s is the smallest positive singular value.
        """
        if (by_rows := self._row_rank) is not None:
            gram = row_gram(self.matrix)
            # If the weights differ by orders of magnitude, the bound may not be positive.
            square = max(gram.least(by_rows), 0.0)
            least = math.ldexp(math.sqrt(square) * (1.0 - 1e-3), gram.exponent)
            return self.scale * least * least
        if self._depends_by_rounding:
            return 0.0
        rank, smaller = self.rank, min(self.matrix.shape)
        if not rank or self.singular_values is None or self._equilibrated is None:
            return 0.0
        if rank < smaller and spectra.exact_rank(self.given_matrix.dense()) != rank:
            # Some positive singular value cannot be distinguished from 0.
            return 0.0
        alike, share = self._equilibrated
        noise = max(self.matrix.shape) * spectra.EPS * float(self.singular_values[0])
        s = max(float(self.singular_values[rank - 1]) - noise, share * float(alike[rank - 1]))
        return self.scale * (s * (1.0 - 1e-3)) ** 2  # s exceeds 1e3 times its own error

    @property
    def _depends_by_rounding(self) -> bool:
        """Is A tall, and does rounding make its rank look lower in A'A than it is?

        If so, the smallest singular value is almost 0 and useless as a bound, and no SVD is needed.
        """
        rows, n = self.matrix.shape
        if not (rows >= 4 * n > 0 and n <= SIDE and self.matrix.is_explicit):
            return False
        gram = column_gram(self.matrix)
        units = power_of_two(np.maximum(np.diag(gram), 0.0), -0.5)
        values = np.linalg.eigvalsh(units[:, None] * gram * units)
        noise = rounding_unit(spectra.EPS, rows, n) * float(np.sum(np.abs(values)))
        rank = int(np.count_nonzero(values > TOL.clear_units * noise))
        return rank < n and spectra.exact_rank(self.given_matrix.dense()) not in (None, rank)

    @cached_property
    def strong_convexity(self) -> float:  # type: ignore[override]
        """lambda_min(A'A) (times the scale), rounded down; 0 if A is wide or large."""
        rows, n = self.matrix.shape
        if rows < n or not self._has_eigenvalues:
            return 0.0
        values = self._eigenvalues
        noise = 64 * max(rows, n) * arrays.epsilon(self.prototype) * float(values[-1])
        return self.scale * max(float(values[0]) - noise, 0.0)
