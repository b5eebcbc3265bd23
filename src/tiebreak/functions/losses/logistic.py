"""Logistic regression for two classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiebreak.functions.far_slopes import FarRows, LossRows, are_clear
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.parts.loss_parts import LARGEST_POWER, ScalarLoss
from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import Array, Host, arrays
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost, add_log_sum_exp
from tiebreak.linalg.host import host
from tiebreak.linalg.host_rows import HostRows


@dataclass(frozen=True)
class LogisticLoss(ScalarLoss):
    """phi(t) = log(1 + e^-t); the margins t already include the labels, so targets are not used.

    Derivatives are multiplied by e^lift, because they would underflow at large margins.
    """

    lift: float = 0.0

    def lifted(self, lift: float) -> LogisticLoss:
        return LogisticLoss(lift)

    def first(self, margins: Host, target: Host) -> Host:
        return -self.terms(margins, target)

    def second(self, margins: Host, target: Host) -> Host:
        size = np.abs(margins)
        power = np.exp(np.minimum(self.lift - size, LARGEST_POWER))
        return np.asarray(power / (1.0 + np.exp(-size)) ** 2)

    def terms(self, margins: Host, target: Host) -> Host:
        """e^lift/(1 + e^t) with full relative accuracy, even for tiny values; capped at e^700."""
        return np.asarray(np.exp(np.minimum(self.lift - np.logaddexp(0.0, margins), LARGEST_POWER)))

    def first_error(self, first: Host, target: Host) -> Host:
        """The relative error of e^-t is |t| unit roundoffs, plus the effect of underflow."""
        slopes = np.maximum(np.abs(first), 2.0**-1022)
        return np.asarray(slopes * (3.0 + self.lift + np.abs(self.lift - np.log(slopes))))

    def least_margin(self, value: Any) -> Any:
        return -value

    def largest_second(self, low: Host, high: Host, target: Host) -> Host:
        return np.full(len(low), 0.25)

    def largest_ratio(self, low: Host, high: Host, target: Host) -> Host:
        """(phi')²/phi'' = e^-t."""
        return np.asarray(np.exp(np.minimum(-low, LARGEST_POWER)))


class Logistic(LinearLoss):
    """sum_i w_i log(1 + exp(-y_i <a_i, x>)), divided by the sum of the weights if ``mean``.

    The loss is computed stably at any margin t: log(1 + e^-t) does not overflow, and the slope's
    factor 1/(1 + e^t) = exp(-(t + log(1 + e^-t))) has full relative accuracy, even if it is tiny.

    Args:
        A: matrix as in LeastSquares, one row per example.
        y: labels -1 and +1, or 0 and 1. Labels 0 are treated as -1, and the report says so. If A is
            a DataFrame and y is a Series, both must have the same index.
        mean: divide by the sum of the weights or, without weights, by the number of rows (the
            default).
        weights: one number >= 0 per row; None means that all are 1. A row of weight 2 counts twice,
            and a row of weight 0 is ignored.
        lipschitz: your own upper bound on lambda_max(A'WA)/4 (divided by the sum of the weights
            if ``mean``).

    Examples:
        >>> rows, labels = [[1, 1], [2, 2], [3, 3], [4, 4]], [0, 1, 0, 1]  # the same feature twice
        >>> problem = tb.Problem(lower=tb.Logistic(rows, labels), upper=tb.SquaredNorm())
        >>> tb.solve(problem).x.round(3)  # both get the same coefficient
        array([0.068, 0.068])
    """

    y: Array

    curvature = 0.25
    bend = 1.0
    falls_unseen = False
    title = "logistic loss"
    kernel = "logistic"
    phi = LogisticLoss()  # its second derivative does not depend on the labels
    loss_name, task = "logistic", "two classes"

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
        self._remember(Logistic, A, y=y, weights=weights, lipschitz=lipschitz)
        signs = self._signs(self._per_row(A, y, "y"))
        self.y = self.target = self._take_weights(A, weights, signs)
        self._zeros = arrays.zeros_like(self.y)

    def _of_matrix(self, matrix: object) -> Logistic:
        return Logistic(matrix, arrays.double(self.y))

    def _loss(self, image: Array) -> Array:
        return self._total(self._losses(self.y * image))

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        xp, margin = arrays.namespace(image), self.y * image
        losses = self._losses(margin)
        return self._total(losses), self._weighted(-self.y * xp.exp(-(margin + losses)))

    def _losses(self, margin: Array) -> Array:
        """log(1 + e^-t) for all margins t."""
        if type(margin) is np.ndarray:  # logaddexp would take several times as long
            return np.log1p(np.exp(-np.abs(margin))) + np.maximum(-margin, 0.0)
        return arrays.namespace(margin).logaddexp(self._zeros, -margin)

    def _slopes(self, images: Array, rows: slice) -> Array:
        y, xp = self.y[rows], arrays.namespace(images)
        # If e^t overflows, 1/(1 + e^t) becomes 0, as it should.
        return self._weighted(-y / (1.0 + xp.exp(y * images)), rows)

    def _conic_rows(
        self, form: ConicForm, cost: Cost, weights: Host, products: Affine, target: Host
    ) -> bool:
        add_log_sum_exp(form, cost, weights, [products.scaled(-target)])
        return True

    def far_rows(self, weight: float, n: int) -> FarRows | None:
        return super().far_rows(weight, n) or FarRows(hidden=self._clearly_falls)

    def _far_rows(self, weights: Host, rows: HostRows, target: Host) -> FarRows:
        return FarRows(losses=[LossRows(weights, rows.scaled(target))])

    def _part(self, weight: float, rows: Host, weights: Host, target: Host) -> Part | None:
        return super()._part(weight, target[:, None] * rows, weights, target)

    def _clearly_falls(self, d: Host) -> bool:
        labels, counts = host(self.y), self.row_weights() > 0.0
        return are_clear(self.matrix, lambda products: (labels * products)[counts], d)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        _, size, largest = self._weight_sizes
        spectral, root = self._spectral, math.sqrt(largest)
        unit, of_image, of_adjoint = self.matrix.errors(epsilon, self._matrix_spectral)
        error = of_image * reach  # error of the computed margins
        return (
            self.scale * size * error + unit * abs(value),
            self.scale * (root * spectral * error + of_adjoint * size),
        )

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        total, size, _ = self._weight_sizes
        return self.scale * (total + size * self.matrix.frobenius * reach)
