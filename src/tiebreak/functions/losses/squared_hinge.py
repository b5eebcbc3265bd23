"""The squared hinge loss for two classes: rows with a margin of 1 or more cost nothing."""

from __future__ import annotations

import math

import numpy as np

from tiebreak.functions.far_slopes import FarRows, LossRows
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.parts.clipped_part import ClippedPart
from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import Array, Host, arrays
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost
from tiebreak.linalg.host_rows import HostRows


class SquaredHinge(LinearLoss):
    """sum_i w_i ½ max(0, 1 - y_i <a_i, x>)², divided by the sum of the weights if ``mean``.

    The loss of a support vector machine with squared errors. Unlike `Logistic` it has a minimiser
    even if a plane separates the classes: then all planes with margins of 1 or more are ties.

    Args:
        A: matrix as in LeastSquares, one row per example.
        y: labels, -1 and +1, or 0 and 1, where 0 is taken as -1 (and the report says so); a Series
            must have the index of A, if A is a DataFrame.
        mean: divide by the sum of the weights or, without weights, by the number of rows (the
            default).
        weights: one number >= 0 per row, all 1 if None: weight 2 counts a row twice, weight 0 not
            at all.
        lipschitz: your own upper bound on lambda_max(A'WA) (divided by the sum of the weights
            if ``mean``).

    Examples:
        >>> loss = tb.SquaredHinge([[2, 0], [0, 1]], [1, -1])  # separable, by many planes
        >>> tb.solve(tb.Problem(lower=loss, upper=tb.SquaredNorm())).x.round(3)
        array([ 0.5, -1. ])
    """

    y: Array

    curvature = 1.0
    falls_unseen = False
    title = "squared hinge loss"
    loss_name, task = "squared_hinge", "two classes"

    def __init__(
        self,
        A: object,
        y: object,
        mean: bool = True,
        *,
        weights: object = None,
        lipschitz: float | None = None,
    ) -> None:
        super().__init__(A, mean, lipschitz)
        self._remember(SquaredHinge, A, y=y, weights=weights, lipschitz=lipschitz)
        self.y = self.target = self._take_weights(A, weights, self._signs(self._per_row(A, y, "y")))

    def _of_matrix(self, matrix: object) -> SquaredHinge:
        return SquaredHinge(matrix, arrays.double(self.y))

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        lacking = arrays.namespace(image).clip(1.0 - self.y * image, 0.0, None)
        weighted = self._weighted(lacking)
        return 0.5 * arrays.inner(weighted, lacking), -self.y * weighted

    def _slopes(self, images: Array, rows: slice) -> Array:
        y = self.y[rows]
        short = arrays.namespace(images).clip(1.0 - y * images, 0.0, None)
        return self._weighted(-y * short, rows)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        """The bounds of least squares with targets ±1: max(0, .) does not increase errors."""
        steep = math.sqrt(2.0 * max(value, 0.0) / self.scale)
        return self._rounding(reach, value, steep, epsilon, target=self._target_size)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        largest = self._weight_sizes[2]
        residual = self.matrix.frobenius * reach + self._target_size
        return self.scale * largest * residual * residual

    def _conic_rows(
        self, form: ConicForm, cost: Cost, weights: Host, products: Affine, target: Host
    ) -> bool:
        """The minimum of ½(1 - t + s)² over s >= 0, where s is how much the margin t exceeds 1."""
        lacking = products.scaled(-target) + 1.0
        above = form.variables(len(weights), form.bound(lacking))
        form.nonnegative(above)
        cost.add_squares(weights, lacking + above)
        return True

    def _far_rows(self, weights: Host, rows: HostRows, target: Host) -> FarRows:
        """If a margin decreases, its loss grows like a square; if it grows, the loss becomes 0."""
        steep = np.full(len(weights), math.inf)
        return FarRows(losses=[LossRows(steep, rows.scaled(target), "")])

    def _part(self, weight: float, rows: Host, weights: Host, target: Host) -> Part:
        ones = np.ones(len(rows))
        return ClippedPart(weight, target[:, None] * rows, ones, weights, -math.inf, 0.0)
