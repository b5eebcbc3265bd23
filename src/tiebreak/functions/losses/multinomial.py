"""Softmax regression: the logistic loss for more than two classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiebreak.functions.far_slopes import FarRows, LossRows, are_clear
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.parts.loss_parts import LARGEST_POWER, LossPart, ScalarLoss
from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import Array, Host, Matrix, arrays, checks
from tiebreak.linalg.conic_form import ConicForm, Cost, add_log_sum_exp
from tiebreak.linalg.host_rows import HostRows
from tiebreak.linalg.matrices.derived import Repeated

MANY_CLASSES = 1000  # more classes than this are not deduced from fewer rows


class MultinomialLoss(ScalarLoss):
    """log(1 + sum of e^-t) over the margins t of an example; a row's target is its example's index.

    With p_k = e^-t_k/(1 + sum of e^-t), the second derivative in the margins of one example is
    diag(p) - pp'. With p_0 = 1 - sum of p_k, the probability of the example's own class,

        diag(p) - pp' = S'S,   S = diag(sqrt p) (1 - p'/(1 + sqrt p_0) in every row).

    Along a change u of the margins, the second derivative is the variance of a random variable that
    is u_k with probability p_k and 0 with probability p_0. The derivative of this variance along
    another change w is, up to the sign, the mean of (u - mean u)² (w - mean w). This mean is at
    most the variance times the range of w, which is at most twice the largest |w_k|. So the second
    derivative changes by at most a factor e^(2s) if no margin changes by more than s.
    """

    concordance = 2.0

    def probabilities(self, margins: Host, examples: Host) -> tuple[Host, Host]:
        """The probability p of every row, and p_0 of the row's example."""
        top = np.zeros(int(np.max(examples, initial=-1)) + 1)
        # The largest exponent -t of each example; the exponent of p_0 is 0.
        np.maximum.at(top, examples, -margins)
        top = top[examples]
        powers = np.exp(-margins - top)
        total = np.exp(-top) + _sums(powers, examples)
        return powers / total, np.exp(-top) / total

    def first(self, margins: Host, target: Host) -> Host:
        return -self.probabilities(margins, target)[0]

    def second(self, margins: Host, target: Host) -> Host:
        """The entries of diag(p), which is an upper bound on diag(p) - pp'."""
        return self.probabilities(margins, target)[0]

    terms = second

    def first_error(self, first: Host, target: Host) -> Host:
        raise NotImplementedError  # the error also depends on margins: see `MultinomialPart`

    def largest_second(self, low: Host, high: Host, target: Host) -> Host:
        return np.full(len(low), 0.5)

    def largest_ratio(self, low: Host, high: Host, target: Host) -> Host:
        """The ratio (mean u)²/variance is at most (1 - p_0)/p_0, the sum of all e^-t."""
        return np.asarray(np.exp(np.minimum(-low, LARGEST_POWER)))


def _sums(values: Host, examples: Host) -> Host:
    """For each row, the sum of the values in all rows of the same example."""
    return np.asarray(np.bincount(examples, values)[examples])


@dataclass(frozen=True)
class MultinomialPart(LossPart):
    """weight times the sum over examples of weights_i log(1 + sum of e^-<m, x> over its rows m).

    ``weights`` has an entry per row, the same for all rows of an example. The second derivative of
    an example's loss is not diagonal.
    """

    phi: MultinomialLoss

    def _at(self, x: Host) -> tuple[Host, Host]:
        return self.phi.probabilities(self.rows @ x, self.target)

    def _first_errors(self, x: Host, dual: Host) -> Host:
        """The relative error of p is at most the example's largest |margin|, in unit roundoffs."""
        sizes = np.zeros(int(np.max(self.target, initial=-1)) + 1)
        np.maximum.at(sizes, self.target, np.abs(self.rows @ x))
        likely = np.maximum(np.abs(dual) / self.weight / self.weights, 2.0**-1022)
        return np.asarray(self.weight * self.weights * likely * (8.0 + sizes[self.target]))

    def image_error(self, x: Host, dual: Host) -> float:
        """No bound is known, because the second derivative of an example's loss is not diagonal."""
        return math.inf

    def curvature(self, x: Host) -> Host:
        p, own = self._at(x)
        means = np.zeros((int(np.max(self.target, initial=-1)) + 1, self.rows.shape[1]))
        np.add.at(means, self.target, p[:, None] * self.rows)
        root = self.rows - means[self.target] / (1.0 + np.sqrt(own))[:, None]
        return np.asarray(np.sqrt(self.weight * self.weights * p)[:, None] * root)

    def margins_per_curvature(self, x: Host) -> float:
        """The least eigenvalue of diag(p) - pp' is at least p_0 times the least p."""
        p, own = self._at(x)
        least = float(np.min(self.weight * self.weights * p * own, initial=math.inf))
        return 1.0 / math.sqrt(least) if least > 0.0 else math.inf


class Multinomial(LinearLoss):
    """sum_i w_i [log(sum_k exp(<a_i, x_k>)) - <a_i, x_{y_i}>], averaged if ``mean``.

    x contains the coefficients of all classes, x_0, ..., x_{K-1}, one after the other: with n
    columns in A it has K n entries, and ``x.reshape(K, n)`` has a row for each class. Adding the
    same vector to the coefficients of every class changes nothing, so every column of A adds a
    dimension to the set of minimisers.

    Losses and slopes are computed stably at any margins, with full relative accuracy.

    Args:
        A: matrix as in LeastSquares, one row per example.
        y: the class of each row, whole numbers 0, ..., K - 1; a Series must have the same index as
            A if A is a DataFrame.
        mean: divide by the sum of the weights or, without weights, by the number of rows (the
            default).
        classes: K, at least 2. If None, K is the largest label plus 1, but at most 1000 or the
            number of rows.
        weights: one number >= 0 per row; None means that all are 1. A row of weight 2 counts twice,
            and a row of weight 0 is ignored.
        lipschitz: your own upper bound on lambda_max(A'WA)/2 (divided by the sum of the weights
            if ``mean``).

    Examples:
        >>> loss = tb.Multinomial([[1, 0], [0, 1], [1, 1]], [0, 1, 2])  # three classes
        >>> round(loss.value(np.zeros(6)), 4)  # two coefficients for each class; log 3
        1.0986
    """

    curvature = 0.5  # the Hessian of log-sum-exp, diag(p) - pp', is at most 1/2
    steepest = math.sqrt(2.0)  # the largest norm of p - e_y
    cancels = False
    loss_name, task = "logistic", "more classes"
    falls_unseen = False
    title = "multinomial loss"
    _target_size = 0.0  # labels are not rounded
    # A loss made by ``of_matrix`` has a different kind of matrix.
    matrix: Repeated

    def __init__(
        self,
        A: object,
        y: object,
        mean: bool = True,
        *,
        classes: int | None = None,
        weights: object = None,
        lipschitz: float | None = None,
    ) -> None:
        super().__init__(A, mean, lipschitz)
        given = {"weights": weights, "lipschitz": lipschitz}
        self._remember(Multinomial, A, y=y, classes=classes, **given)
        y = self._per_row(A, y, "y")
        self.classes: int = _class_count(arrays.to_numpy(y), classes)
        self.take_labels(self._take_weights(A, weights, y))
        self.matrix = Repeated(self.matrix, self.classes)
        self.dimension: int = self.matrix.shape[1]
        if self.names is not None:  # names are pairs (class, column), as in a stacked table
            self.names: tuple[Any, ...] = tuple(
                (k, name) for k in range(self.classes) for name in self.names
            )

    def take_labels(self, y: Array) -> None:
        """Store the class of each row; called by constructors."""
        self.y = self.target = y
        self._labels = arrays.to_numpy(y).astype(np.int64)
        chosen = np.arange(self.classes)[:, None] == self._labels
        self._chosen = arrays.like(chosen.astype(np.float64), self.prototype)
        self._others = arrays.like((~chosen).astype(np.float64), self.prototype)

    def _of_matrix(self, matrix: object) -> Multinomial:
        """The loss for a matrix whose image consists of the products of one class after another."""
        made = Multinomial.__new__(Multinomial)
        made.matrix = checks.matrix("Multinomial", "A", matrix)  # type: ignore[assignment]
        made.dimension, made.prototype = made.matrix.shape[1], made.matrix.prototype
        made.classes = self.classes
        made.take_labels(arrays.double(self.y))
        return made

    @property
    def row_count(self) -> int:
        return len(self._labels)

    @property
    def _spectral_matrix(self) -> Matrix:
        return self.matrix.block if isinstance(self.matrix, Repeated) else self.matrix

    def _loss(self, image: Array) -> Array:
        return self._total(self._margins_and_losses(image)[1])

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        margins, losses = self._margins_and_losses(image)
        slopes = self._weighted(self._class_slopes(margins, losses))
        return self._total(losses), arrays.namespace(image).reshape(slopes, (-1,))

    def _slopes(self, images: Array, rows: Any) -> Array:
        """``rows`` are indices into the image that select the same rows of A for every class."""
        here = np.asarray(rows)[: len(rows) // self.classes]
        slopes = self._class_slopes(*self._margins_and_losses(images, here), here)
        return self._weighted(slopes, here).reshape(images.shape)

    def _margins_and_losses(self, images: Array, here: Any = slice(None)) -> tuple[Array, Array]:
        """u_k = <a_i, x_k> - <a_i, x_y> for all classes and some rows, and log(sum exp u) per row.

        In the sum, the term of the class y is 1. With u_0 = max u >= 0, the loss is u_0 + log1p(sum
        over the other classes of exp(u - u_0) + (exp(-u_0) - 1)). If y is the most likely class,
        the loss is log1p of a sum of small terms.
        """
        xp, shape = arrays.namespace(images), (*images.shape[:-1], self.classes, -1)
        products = xp.reshape(images, shape)
        own = xp.sum(products * self._chosen[:, here], axis=-2)
        margins = products - own[..., None, :]
        top = xp.max(margins, axis=-2)
        rest = xp.sum(xp.exp(margins - top[..., None, :]) * self._others[:, here], axis=-2)
        return margins, top + xp.log1p(rest + xp.expm1(-top))

    def _class_slopes(self, margins: Array, losses: Array, here: Any = slice(None)) -> Array:
        """The probabilities of the other classes, and, for the class y, minus their sum."""
        xp = arrays.namespace(margins)
        likely = xp.exp(margins - losses[..., None, :]) * self._others[:, here]
        return likely - self._chosen[:, here] * xp.sum(likely, axis=-2)[..., None, :]

    def add_to_conic(self, form: ConicForm, cost: Cost, weight: float) -> bool:
        w, products = self.row_weights(weight), form.of_x(self.matrix.on_host())
        examples, m = np.flatnonzero(w > 0.0), len(w)
        own = self._labels[examples]
        margins = []
        for k in range(self.classes - 1):
            other = k + (k >= own)  # the k-th of the other classes
            places = other * m + examples, own * m + examples
            margins.append(products.some(places[0]) - products.some(places[1]))
        add_log_sum_exp(form, cost, w[examples], margins)
        return True

    def far_rows(self, weight: float, n: int) -> FarRows:
        block = getattr(self.matrix, "block", None)
        if block is None or not HostRows.can_hold(block, 2 * (self.classes - 1)):
            return FarRows(hidden=self._clearly_falls)
        entries, examples = self._margin_rows(self.matrix.on_host())
        entries.eliminate_zeros()
        return FarRows(losses=[LossRows(self.row_weights(weight)[examples], HostRows(entries))])

    def parts(self, weight: float, n: int) -> list[Part]:
        rows, which = self._margin_rows(self.matrix.dense())
        weights = self._each_weight[which]
        return [MultinomialPart(weight * self.scale, rows, which, weights, MultinomialLoss())]

    def _margin_rows(self, products: Any) -> tuple[Any, Host]:
        """Rows whose products with x are <a_i, x_{y_i} - x_k> (k != y_i), and the index i of each.

        Rows of weight 0 are left out. The loss of row i is log(1 + the sum of exp(-margin)).
        """
        y, m = self._labels, self.row_count
        counts = self._each_weight > 0.0
        which, other = np.nonzero((np.arange(self.classes) != y[:, None]) & counts[:, None])
        return products[y[which] * m + which] - products[other * m + which], which

    def _clearly_falls(self, d: Host) -> bool:
        counts, own = self.row_weights() > 0.0, self._labels

        def least_margins(products: Host) -> Host:
            images = products.reshape(self.classes, -1)
            others = np.where(np.arange(self.classes)[:, None] == own, -np.inf, images)
            least = images[own, np.arange(len(own))] - np.max(others, axis=0)
            return np.asarray(least[counts])

        return are_clear(self.matrix, least_margins, d)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        # Differences of products, the losses and the sums over classes cause errors beyond the 64
        # machine epsilons in `rounding_unit`.
        return super().rounding(reach, value, slope, epsilon * (1.25 + self.classes / 128.0), n)


def _class_count(labels: Host, classes: int | None) -> int:
    """The number of classes; raise ValueError for labels that are not among 0, ..., K - 1."""
    count = None if classes is None else checks.whole("Multinomial", "classes", classes, 2)
    wrong = labels[(labels != np.floor(labels)) | (labels < 0.0)]
    if wrong.size:
        raise ValueError(
            "Multinomial: y must hold the classes as whole numbers 0, 1, 2, ..., "
            f"got the value {wrong[0]:g}"
        )
    top = float(np.max(labels, initial=0.0))
    if count is not None and top >= count:
        raise ValueError(
            f"Multinomial: y must hold labels below classes = {count}, got the value {top:.15g}"
        )
    # Ids and dates are no classes, and the memory grows with the largest label. With more classes
    # than rows, some class has no row; among few classes that may be meant.
    if count is None and top >= max(len(labels), MANY_CLASSES):
        raise ValueError(
            "Multinomial: y must hold the classes as whole numbers 0, 1, 2, ..., "
            f"got the value {top:.15g} in {len(labels)} rows; classes= allows for more"
        )
    return count or max(int(top) + 1, 2)
