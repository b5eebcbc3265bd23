"""A loss that the package does not know, in one file: log cosh of the residuals."""

from __future__ import annotations

import math

import numpy as np

from tiebreak.functions.far_slopes import FarRows, rising
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.parts.loss_parts import ScalarLoss
from tiebreak.linalg import Array, Host, arrays
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost, add_log_sum_exp
from tiebreak.linalg.host_rows import HostRows


class LogCoshRow(ScalarLoss):
    """log cosh(t - target): phi' = tanh, phi'' = 1 - tanh², |phi'''| <= 2 phi''."""

    concordance = 2.0

    def first(self, margins: Host, target: Host) -> Host:
        return np.tanh(margins - target)

    def second(self, margins: Host, target: Host) -> Host:
        return np.asarray(1.0 / np.cosh(np.clip(margins - target, -300.0, 300.0)) ** 2)

    def terms(self, margins: Host, target: Host) -> Host:
        return np.abs(self.first(margins, target))

    def first_error(self, first: Host, target: Host) -> Host:
        """A residual errs by units of the margin and of the target, its tanh by phi'' of that."""
        size = np.minimum(np.abs(first), 1.0 - 2.0**-53)
        return np.asarray((1.0 - size * size) * (2.0 * np.arctanh(size) + np.abs(target)) + size)

    def largest_second(self, low: Host, high: Host, target: Host) -> Host:
        nearest = np.clip(target, low, high)
        return self.second(nearest, target)

    def largest_ratio(self, low: Host, high: Host, target: Host) -> Host:
        """sinh²."""
        far = np.maximum(np.abs(low - target), np.abs(high - target))
        return np.asarray(np.sinh(np.minimum(far, 300.0)) ** 2)


class LogCosh(LinearLoss, keyword="LogCosh", in_tables=False):
    """sum of log cosh(<a_i, x> - b_i)."""

    curvature = 1.0
    falls_unseen = False  # it grows in both directions
    phi = LogCoshRow()

    def __init__(self, A: object, b: object, mean: bool = False) -> None:
        super().__init__(A, mean, None)
        self._remember(LogCosh, A, b=b)
        self.target = self._per_row(A, b, "b")

    def _of_matrix(self, matrix: object) -> LogCosh:
        return LogCosh(matrix, arrays.double(self.target))

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        xp, residual = arrays.namespace(image), image - self.target
        size = xp.abs(residual)
        losses = size + xp.log1p(xp.exp(-2.0 * size)) - math.log(2.0)
        return self._total(losses), self._weighted(xp.tanh(residual))

    def _slopes(self, images: Array, rows: slice) -> Array:
        return self._weighted(np.tanh(images - self.target[rows]), rows)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        """Slopes are at most 1, and so is the curvature; a value has log 2 subtracted."""
        unit, of_image, of_adjoint = self.matrix.errors(epsilon, self._spectral)
        error, root = of_image * reach + unit * arrays.norm(self.target), math.sqrt(self.row_count)
        return (
            self.scale * (error * root + 4.0 * unit * self.row_count) + 4.0 * unit * abs(value),
            self.scale * (self._spectral * (error + 4.0 * unit * root) + of_adjoint * root),
        )

    def _conic_rows(
        self, form: ConicForm, cost: Cost, weights: Host, products: Affine, target: Host
    ) -> bool:
        """log cosh r = log(1 + exp(2 r)) - r - log 2."""
        residual = products - target
        add_log_sum_exp(form, cost, weights, [2.0 * residual])
        cost.add(-weights, residual)
        cost.constant -= float(np.sum(weights)) * math.log(2.0)
        return True

    def _far_rows(self, weights: Host, rows: HostRows, target: Host) -> FarRows:
        return FarRows(losses=rising(weights, weights, rows))
