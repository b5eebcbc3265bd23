"""Huber's loss of a linear map: least squares for small residuals, absolute values for large."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from tiebreak.functions.linear_loss import LinearLoss
from tiebreak.linalg import arrays, checks
from tiebreak.linalg.arrays import Array
from tiebreak.linalg.fingerprints import remember
from tiebreak.linalg.matrices import Matrix


class Huber(LinearLoss):
    """sum_i h(<a_i, x> - b_i), divided by the number of rows if ``mean``.

    h(r) = r²/2 where |r| <= delta and delta |r| - delta²/2 beyond: rows that do not fit at all,
    outliers, pull at x with the force delta and no more.

    Args:
        A: matrix as in LeastSquares.
        b: vector with one entry per row; a Series must have the index of A, if A is a DataFrame.
        delta: where a residual begins to count as an outlier, in the units of b. The default is
            Huber's 1.35 for residuals whose standard deviation is 1 (95 % efficient if they are
            normal): divide A and b by that of yours, or multiply delta by it.
        mean: divide by the number of rows.
        lipschitz: your own upper bound on lambda_max(A'A) (over the rows if ``mean``).
    """

    curvature = 1.0

    def __init__(
        self,
        A: object,
        b: object,
        delta: float = 1.35,
        mean: bool = False,
        *,
        lipschitz: float | None = None,
    ) -> None:
        super().__init__(A, mean, lipschitz)
        A = self._source(A)
        remember(self, Huber, A=A, b=b, delta=delta, mean=mean, lipschitz=lipschitz)
        self.delta = checks.positive("Huber", "delta", delta)
        self.b = self.target = self._per_row(A, b, "b")

    def _in_float64(self, matrix: Matrix) -> Huber:
        b, known = arrays.double(self.b), self.known_lipschitz
        return Huber(matrix, b, self.delta, self.mean, lipschitz=known)

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        residual = image - self.b
        slope = arrays.namespace(image).clip(residual, -self.delta, self.delta)
        return arrays.inner(slope, residual - 0.5 * slope), slope

    def _slopes(self, images: Array, rows: slice) -> Array:
        return np.clip(images - self.b[rows], -self.delta, self.delta)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        unit, of_image, of_adjoint = self.matrix.errors(epsilon, self._spectral)
        # The slopes psi of the rows: psi²/2 <= h and |psi| <= delta.
        most = self.delta * math.sqrt(self.matrix.shape[0])
        steep = min(math.sqrt(2.0 * max(value, 0.0) / self.scale), most)
        error = of_image * reach + unit * self._size_b  # of the computed residual
        of_slopes = error + epsilon * steep  # delta may be rounded to single precision
        return (
            self.scale * error * (steep + error) + unit * abs(value),
            self.scale * (self._spectral * of_slopes + of_adjoint * (steep + of_slopes)),
        )

    @cached_property
    def _size_b(self) -> float:
        return arrays.norm(self.b)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        residual = self.matrix.frobenius * reach + self._size_b
        return self.scale * residual * min(residual, self.delta * math.sqrt(self.matrix.shape[0]))
