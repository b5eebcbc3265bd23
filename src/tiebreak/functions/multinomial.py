"""Softmax regression: the logistic loss of more than two classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiebreak.functions.linear_loss import LinearLoss
from tiebreak.linalg import arrays, checks
from tiebreak.linalg.arrays import Array, Host, rounding_unit
from tiebreak.linalg.fingerprints import remember
from tiebreak.linalg.matrices import Matrix
from tiebreak.linalg.matrices.repeated import Repeated
from tiebreak.linalg.row_gram import on_host


class Multinomial(LinearLoss):
    """sum_i [log(sum_k exp(<a_i, w_k>)) - <a_i, w_{y_i}>], over the number of rows if ``mean``.

    x holds the weights of all classes, w_0, ..., w_{K-1}, one class after the other: with n columns
    in A it has K n entries, and ``x.reshape(K, n)`` has a row for each class. To add the same
    vector to every class changes nothing: that is a tie for every column of A.

    Stable at any margins: losses and slopes are accurate however small they are.

    Args:
        A: matrix as in LeastSquares, one row per example.
        y: the class of each row, whole numbers 0, ..., K - 1; a Series must have the index of A,
            if A is a DataFrame.
        mean: divide by the number of rows (the default).
        classes: K, at least 2; the largest label plus 1 if None.
        lipschitz: your own upper bound on lambda_max(A'A)/2 (over the rows if ``mean``).
    """

    curvature = 0.5  # of log-sum-exp: its Hessian diag(p) - pp' is at most 1/2
    matrix: Repeated

    def __init__(
        self,
        A: object,
        y: object,
        mean: bool = True,
        *,
        classes: int | None = None,
        lipschitz: float | None = None,
    ) -> None:
        super().__init__(A, mean, lipschitz)
        A = self._source(A)
        given = {"A": A, "y": y, "mean": mean, "classes": classes, "lipschitz": lipschitz}
        remember(self, Multinomial, **given)
        self.y = self.target = self._per_row(A, y, "y")
        labels = arrays.to_numpy(self.y)
        self.classes = _class_count(labels, classes)
        self._labels = labels.astype(np.int64)
        chosen = np.arange(self.classes)[:, None] == self._labels
        self._chosen = arrays.like(chosen.astype(np.float64), self.prototype)
        self._others = arrays.like((~chosen).astype(np.float64), self.prototype)
        self.matrix = Repeated(self.matrix, self.classes)
        self.dimension = self.matrix.shape[1]
        if self.names is not None:  # as in the index of a stacked table: (class, column)
            self.names = tuple((k, name) for k in range(self.classes) for name in self.names)

    def _in_float64(self, matrix: Matrix) -> Multinomial:
        assert isinstance(matrix, Repeated)
        y, known = arrays.double(self.y), self.known_lipschitz
        return Multinomial(matrix.block, y, self.mean, classes=self.classes, lipschitz=known)

    @property
    def _spectral_matrix(self) -> Matrix:
        return self.matrix.block

    def _loss(self, image: Array) -> Array:
        return arrays.namespace(image).sum(self._margins_and_losses(image)[1])

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        xp = arrays.namespace(image)
        margins, losses = self._margins_and_losses(image)
        slopes = _slopes(xp, margins, losses, self._chosen, self._others)
        return xp.sum(losses), xp.reshape(slopes, (-1,))

    def _margins_and_losses(self, image: Array) -> tuple[Array, Array]:
        """<a_i, w_k> - <a_i, w_{y_i}> for all classes and rows, and the loss of every row."""
        xp = arrays.namespace(image)
        products = xp.reshape(image, (self.classes, -1))
        return _margins_and_losses(xp, products, self._chosen, self._others)

    def _slopes(self, images: Array, rows: Any) -> Array:
        """``rows`` are places in the image: those of some rows of A for every class."""
        here = np.asarray(rows)[: len(rows) // self.classes]
        chosen, others = self._chosen[:, here], self._others[:, here]
        products = images.reshape(len(images), self.classes, len(here))
        margins, losses = _margins_and_losses(np, products, chosen, others)
        return _slopes(np, margins, losses, chosen, others).reshape(images.shape)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        rows, spectral = self.matrix.block.shape[0], self._spectral
        unit, of_image, of_adjoint = self.matrix.errors(epsilon, spectral)
        # The slopes of a row, p - e_y, are at most sqrt(2) long, and their square at most 2 loss.
        steep = math.sqrt(2.0 * min(max(value, 0.0) / self.scale, rows))
        # Of the computed products; of their differences, and of these less a loss, in exponents.
        error = (of_image + 16.0 * epsilon * spectral) * reach
        of_slopes = error + rounding_unit(epsilon, self.classes) * steep
        return (
            self.scale * error * (steep + error) + unit * abs(value),
            self.scale * (spectral * of_slopes + of_adjoint * (steep + of_slopes)),
        )

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        rows, size = self.matrix.block.shape[0], self.matrix.block.frobenius * reach
        return self.scale * (rows * math.log(self.classes) + math.sqrt(2.0 * rows) * size)

    def margin_rows(self) -> Any:
        """All <a_i, w_{y_i} - w_k> with k != y_i as rows of a sparse matrix, k by k, on the host.

        The loss of row i is log(1 + the sum of exp(-margin) over these k).
        """
        import scipy.sparse as sp

        A, y, parts = sp.csr_array(on_host(self.matrix.block)), self._labels, []
        for k in range(self.classes):
            rows = np.flatnonzero(y != k)
            signs = [(y[rows] == j).astype(float) - float(k == j) for j in range(self.classes)]
            blocks = [sp.diags_array(sign).tocsr() @ A[rows] for sign in signs]
            parts.append(sp.hstack(blocks, format="csr"))
        found = sp.vstack(parts, format="csr")
        found.eliminate_zeros()
        return found


def _class_count(labels: Host, classes: int | None) -> int:
    """The number of classes; ValueError for labels that are not among 0, ..., K - 1."""
    count = None if classes is None else checks.whole("Multinomial", "classes", classes, 2)
    wrong = labels[(labels != np.floor(labels)) | (labels < 0.0)]
    if wrong.size:
        raise ValueError(
            "Multinomial: y must hold the classes as whole numbers 0, 1, 2, ..., "
            f"got the value {wrong[0]:g}"
        )
    top = int(np.max(labels, initial=0.0))
    if count is not None and top >= count:
        raise ValueError(
            f"Multinomial: y must hold classes below classes = {count}, got the value {top}"
        )
    return count or max(top + 1, 2)


def _margins_and_losses(
    xp: Any, products: Array, chosen: Array, others: Array
) -> tuple[Array, Array]:
    """u = t - t_y for every class and log(sum exp u), whose terms are 1 for y itself.

    With u_0 = max u >= 0: u_0 + log1p(sum over the others of exp(u - u_0) + (exp(-u_0) - 1)), which
    is log1p of a sum of small terms where y is the likeliest class.
    """
    own = xp.sum(products * chosen, axis=-2)
    margins = products - own[..., None, :]
    top = xp.max(margins, axis=-2)
    rest = xp.sum(xp.exp(margins - top[..., None, :]) * others, axis=-2)
    return margins, top + xp.log1p(rest + xp.expm1(-top))


def _slopes(xp: Any, margins: Array, losses: Array, chosen: Array, others: Array) -> Array:
    """p_k for the other classes, and minus their sum for y."""
    likely = xp.exp(margins - losses[..., None, :]) * others
    return likely - chosen * xp.sum(likely, axis=-2)[..., None, :]
