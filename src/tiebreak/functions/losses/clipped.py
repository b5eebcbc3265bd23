"""Huber's loss and the squared hinge, whose slopes are clipped residuals.

`parts.loss_parts` explains what clipped slopes mean for the minimisers.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from tiebreak.functions.far_slopes import FarRows, rising
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.parts.loss_parts import ClippedPart
from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import Array, Host, arrays, checks
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost
from tiebreak.linalg.host_rows import HostRows


class ClippedLoss(LinearLoss, is_open=True):
    """A loss whose slopes are the residuals <a_i, x> - target_i, clipped to [low, high].

    Either low = -high, or low = -inf and high = 0: see `ClippedPart`.
    """

    curvature = 1.0
    falls_unseen = False
    low: float
    high: float
    cancels: ClassVar[bool] = False

    def _residual(self, images: Array, rows: Any = slice(None)) -> Array:
        """The residuals of all rows, or of the given rows."""
        return images - self.target[rows]

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        residual = self._residual(image)
        slope = arrays.namespace(image).clip(residual, self.low, self.high)
        weighted = self._weighted(slope)
        return arrays.inner(weighted, residual - 0.5 * slope), weighted

    def _slopes(self, images: Array, rows: slice) -> Array:
        clip = arrays.namespace(images).clip
        return self._weighted(clip(self._residual(images, rows), self.low, self.high), rows)

    def _conic_rows(
        self, form: ConicForm, cost: Cost, weights: Host, products: Affine, target: Host
    ) -> bool:
        """The loss of a residual r is the minimum of ½(r - p + m)² + high p - low m over p, m >= 0.

        At the minimum, p is how far r lies above ``high``, and m is how far it lies below ``low``.
        """
        left = residual = products - target
        size = form.bound(residual)
        for bound, sign in ((self.high, 1.0), (-self.low, -1.0)):
            if math.isfinite(bound):
                beyond = form.variables(len(weights), np.maximum(size - bound, 0.0))
                form.nonnegative(beyond)
                cost.add(weights * bound, beyond)
                left = left - sign * beyond
        cost.add_squares(weights, left)
        return True

    def _far_rows(self, weights: Host, rows: HostRows, target: Host) -> FarRows:
        counts, (up, down) = weights > 0.0, np.zeros((2, len(weights)))
        up[counts], down[counts] = self.high * weights[counts], -self.low * weights[counts]
        return FarRows(losses=rising(up, down, rows))

    def _part(self, weight: float, rows: Host, weights: Host, target: Host) -> Part | None:
        return ClippedPart(weight, rows, target, weights, self.low, self.high)


class Huber(ClippedLoss):
    """sum_i w_i h(<a_i, x> - b_i), divided by the sum of the weights if ``mean``.

    h(r) = r²/2 if |r| <= delta, and delta |r| - delta²/2 otherwise. The slope of h is at most
    delta, which limits the influence of outliers (rows that do not fit at all).

    Args:
        A: matrix as in LeastSquares.
        b: vector with one entry per row; a Series must have the same index as A if A is a
            DataFrame.
        delta: residuals beyond delta (in the units of b) are outliers. The default 1.35 is Huber's
            choice for residuals whose standard deviation is 1 (95 % efficient if they are normal).
            If your residuals have a different standard deviation, divide A and b by it, or multiply
            delta by it.
        mean: divide by the sum of the weights or, without weights, by the number of rows.
        weights: one number >= 0 per row; None means that all are 1. A row of weight 2 counts twice,
            and a row of weight 0 is ignored.
        lipschitz: your own upper bound on lambda_max(A'WA) (divided by the sum of the weights
            if ``mean``).

    Examples:
        >>> loss = tb.Huber([[1, 1], [1, 1], [1, 1]], [2, 2, 50], delta=1.0)  # 50 is an outlier
        >>> tb.solve(tb.Problem(lower=loss, upper=tb.SquaredNorm())).x.round(3)
        array([1.25, 1.25])
    """

    b: Array

    loss_name = "huber"
    loss_parameters: ClassVar[dict[str, str]] = {"delta": "delta"}
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
        self.low, self.high, self.steepest = -self.delta, self.delta, self.delta
        self.b = self.target = self._take_weights(A, weights, self._per_row(A, b, "b"))

    def _of_matrix(self, matrix: object) -> Huber:
        return Huber(matrix, arrays.double(self.b), self.delta)


class SquaredHinge(ClippedLoss):
    """sum_i w_i ½ max(0, 1 - y_i <a_i, x>)², divided by the sum of the weights if ``mean``.

    This is the loss of a support vector machine with squared errors. Unlike `Logistic`, it has a
    minimiser even if a plane separates the classes; in that case, all planes with margins of at
    least 1 are minimisers.

    Args:
        A: matrix as in LeastSquares, one row per example.
        y: labels -1 and +1, or 0 and 1. Labels 0 are treated as -1, and the report says so. If A is
            a DataFrame and y is a Series, both must have the same index.
        mean: divide by the sum of the weights or, without weights, by the number of rows (the
            default).
        weights: one number >= 0 per row; None means that all are 1. A row of weight 2 counts twice,
            and a row of weight 0 is ignored.
        lipschitz: your own upper bound on lambda_max(A'WA) (divided by the sum of the weights
            if ``mean``).

    Examples:
        >>> loss = tb.SquaredHinge([[2, 0], [0, 1]], [1, -1])  # separable, by many planes
        >>> tb.solve(tb.Problem(lower=loss, upper=tb.SquaredNorm())).x.round(3)
        array([ 0.5, -1. ])
    """

    y: Array

    low, high = -math.inf, 0.0
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

    def _residual(self, images: Array, rows: Any = slice(None)) -> Array:
        """The margins minus 1, capped at 1; a row with a positive result has loss 0."""
        margins = self.y[rows] * images
        return arrays.namespace(images).clip(margins, -math.inf, 2.0) - 1.0

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        loss, slope = super()._loss_and_slope(image)
        return loss, self.y * slope

    def _slopes(self, images: Array, rows: slice) -> Array:
        return self.y[rows] * super()._slopes(images, rows)

    def _conic_rows(
        self, form: ConicForm, cost: Cost, weights: Host, products: Affine, target: Host
    ) -> bool:
        return super()._conic_rows(
            form, cost, weights, products.scaled(target), np.ones_like(target)
        )

    def _far_rows(self, weights: Host, rows: HostRows, target: Host) -> FarRows:
        """As a margin falls, its loss grows quadratically; as it rises, the loss becomes 0."""
        return super()._far_rows(weights, rows.scaled(target), target)

    def _part(self, weight: float, rows: Host, weights: Host, target: Host) -> Part | None:
        return super()._part(weight, target[:, None] * rows, weights, np.ones_like(target))
