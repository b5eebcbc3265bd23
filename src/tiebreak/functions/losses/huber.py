"""Huber's loss of a linear map: least squares for small residuals, absolute values for large."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tiebreak.functions.far_slopes import FarRows, rising
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.parts.clipped_part import ClippedPart
from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import Array, Host, arrays, checks
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost
from tiebreak.linalg.host_rows import HostRows


class Huber(LinearLoss):
    """sum_i w_i h(<a_i, x> - b_i), divided by the sum of the weights if ``mean``.

    h(r) = r²/2 if |r| <= delta, and delta |r| - delta²/2 otherwise: the slope of h is at most
    delta, which limits the influence of outliers, rows that do not fit at all.

    Args:
        A: matrix as in LeastSquares.
        b: vector with one entry per row; a Series must have the index of A, if A is a DataFrame.
        delta: residuals beyond this are outliers; it is in the units of b. The default is Huber's
            1.35 for residuals whose standard deviation is 1 (95 % efficient if they are normal):
            divide A and b by your standard deviation, or multiply delta by it.
        mean: divide by the sum of the weights or, without weights, by the number of rows.
        weights: one number >= 0 per row, all 1 if None: weight 2 counts a row twice, weight 0 not
            at all.
        lipschitz: your own upper bound on lambda_max(A'WA) (divided by the sum of the weights
            if ``mean``).

    Examples:
        >>> loss = tb.Huber([[1, 1], [1, 1], [1, 1]], [2, 2, 50], delta=1.0)  # 50 is an outlier
        >>> tb.solve(tb.Problem(lower=loss, upper=tb.SquaredNorm())).x.round(3)
        array([1.25, 1.25])
    """

    b: Array

    curvature = 1.0
    loss_name = "huber"
    loss_parameters: ClassVar[dict[str, str]] = {"delta": "delta"}
    falls_unseen = False
    title = "Huber loss"

    def __init__(
        self,
        A: object,
        b: object,
        delta: float = 1.35,
        mean: bool = False,
        *,
        weights: object = None,
        lipschitz: float | None = None,
    ) -> None:
        super().__init__(A, mean, lipschitz)
        self._remember(Huber, A, b=b, delta=delta, weights=weights, lipschitz=lipschitz)
        self.delta: float = checks.positive("Huber", "delta", delta)
        self.b = self.target = self._take_weights(A, weights, self._per_row(A, b, "b"))

    def _of_matrix(self, matrix: object) -> Huber:
        return Huber(matrix, arrays.double(self.b), self.delta)

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        residual = image - self.b
        slope = arrays.namespace(image).clip(residual, -self.delta, self.delta)
        weighted = self._weighted(slope)
        return arrays.inner(weighted, residual - 0.5 * slope), weighted

    def _slopes(self, images: Array, rows: slice) -> Array:
        clip = arrays.namespace(images).clip
        return self._weighted(clip(images - self.b[rows], -self.delta, self.delta), rows)

    def _conic_rows(
        self, form: ConicForm, cost: Cost, weights: Host, products: Affine, target: Host
    ) -> bool:
        """The minimum of ½(r - p + m)² + delta (p + m) over p, m >= 0, the excess over ±delta."""
        residual = products - target
        most = np.maximum(form.bound(residual) - self.delta, 0.0)
        above, below = (form.variables(len(weights), most) for _ in range(2))
        for part in (above, below):
            form.nonnegative(part)
            cost.add(weights * self.delta, part)
        cost.add_squares(weights, residual - above + below)
        return True

    def _far_rows(self, weights: Host, rows: HostRows, target: Host) -> FarRows:
        return FarRows(losses=rising(self.delta * weights, self.delta * weights, rows))

    def _part(self, weight: float, rows: Host, weights: Host, target: Host) -> Part:
        return ClippedPart(weight, rows, target, weights, -self.delta, self.delta)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        # The slope psi of a row satisfies psi²/2 <= h and |psi| <= delta.
        total = self._weight_sizes[0]
        steep = math.sqrt(min(2.0 * max(value, 0.0) / self.scale, total * self.delta**2))
        lost = epsilon * steep  # in single precision, delta may be rounded
        return self._rounding(reach, value, steep, epsilon, target=self._target_size, lost=lost)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        _, size, largest = self._weight_sizes
        residual = self.matrix.frobenius * reach + self._target_size
        return self.scale * residual * min(largest * residual, size * self.delta)
