"""Logistic regression: labels of two kinds."""

from __future__ import annotations

import math

import numpy as np

from tiebreak.functions.far_slopes import FarRows, LossRows, are_clear
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.linalg import Array, Host, arrays, remember
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost, add_log_sum_exp
from tiebreak.linalg.host import host
from tiebreak.linalg.host_rows import HostRows


class Logistic(LinearLoss):
    """sum_i w_i log(1 + exp(-y_i <a_i, x>)), divided by the sum of the weights if ``mean``.

    Stable at any margin t: log(1 + e^-t) is computed without overflow, and the slope's weight
    1/(1 + e^t) = exp(-(t + log(1 + e^-t))) keeps its relative accuracy however small it is.

    Args:
        A: matrix as in LeastSquares, one row per example.
        y: labels, -1 and +1, or 0 and 1, where 0 is taken as -1 (and the report says so); a Series
            must have the index of A, if A is a DataFrame.
        mean: divide by the sum of the weights, which is the number of rows without weights (the
            default).
        weights: one number >= 0 per row, all 1 if None: weight 2 is the same row twice, weight 0
            no row at all.
        lipschitz: your own upper bound on lambda_max(A'WA)/4 (over the sum of the weights if
            ``mean``).

    Examples:
        >>> rows, labels = [[1, 1], [2, 2], [3, 3], [4, 4]], [0, 1, 0, 1]  # one feature, twice
        >>> problem = tb.Problem(lower=tb.Logistic(rows, labels), upper=tb.SquaredNorm())
        >>> tb.solve(problem).x.round(3)  # shared by both
        array([0.068, 0.068])
    """

    y: Array

    curvature = 0.25
    bend = 1.0
    falls_unseen = False
    kernel = "logistic"

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
        A = self._source(A)
        remember(self, Logistic, A=A, y=y, mean=mean, weights=weights, lipschitz=lipschitz)
        signs = self._signs(self._per_row(A, y, "y"))
        self.y = self.target = self._take_weights(A, weights, signs)
        self._zeros = arrays.zeros_like(self.y)

    def _signs(self, y: Array) -> Array:
        """The labels as -1 and +1."""
        labels = arrays.to_numpy(y)
        if bool(np.all(np.abs(labels) == 1.0)):
            return y
        if not bool(np.all((labels == 0.0) | (labels == 1.0))):
            found = ", ".join(f"{v:g}" for v in np.unique(labels)[:5])
            raise ValueError(
                f"Logistic: y must hold labels -1 and +1, or 0 and 1, got values {found}"
            )
        self.note = "Labels 0 and 1 were taken as -1 and +1"
        return 2.0 * y - 1.0

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
        if type(margin) is np.ndarray:  # where logaddexp takes several times as long as this
            return np.log1p(np.exp(-np.abs(margin))) + np.maximum(-margin, 0.0)
        return arrays.namespace(margin).logaddexp(self._zeros, -margin)

    def _slopes(self, images: Array, rows: slice) -> Array:
        y = self.y[rows]
        # Where the power overflows, that is 0 as it should.
        return self._weighted(-y / (1.0 + np.exp(y * images)), rows)

    def second(self, image: Host) -> Host:
        tail = np.exp(-np.abs(image))
        return np.asarray(self._weighted(tail / (1.0 + tail) ** 2))

    def _conic_rows(
        self, form: ConicForm, cost: Cost, weights: Host, products: Affine, target: Host
    ) -> bool:
        add_log_sum_exp(form, cost, weights, [products.scaled(-target)])
        return True

    def far_rows(self, weight: float, n: int) -> FarRows | None:
        return super().far_rows(weight, n) or FarRows(hidden=self._clearly_falls)

    def _far_rows(self, weights: Host, rows: HostRows, target: Host) -> FarRows:
        return FarRows(losses=[LossRows(weights, rows.scaled(target))])

    def _clearly_falls(self, d: Host) -> bool:
        labels, counts = host(self.y), self.row_weights() > 0.0
        return are_clear(self.matrix, lambda products: (labels * products)[counts], d)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        _, size, largest = self._weight_sizes
        spectral, root = self._spectral, math.sqrt(largest)
        unit, of_image, of_adjoint = self.matrix.errors(epsilon, self._matrix_spectral)
        error = of_image * reach  # of the computed margins
        return (
            self.scale * size * error + unit * abs(value),
            self.scale * (root * spectral * error + of_adjoint * size),
        )

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        total, size, _ = self._weight_sizes
        return self.scale * (total + size * self.matrix.frobenius * reach)
