"""Poisson regression: counts with a logarithmic link."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tiebreak.functions.far_slopes import FarRows, LossRows
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.parts.loss_parts import LARGEST_POWER, ScalarLoss
from tiebreak.linalg import Array, Host, arrays
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost, constants
from tiebreak.linalg.host import host, top_exponent
from tiebreak.linalg.host_rows import HostRows

# For a row with mean m = e^t and loss D = m - y - y log(m/y): D/m increases with m/y if m > y, and
# is 1 - 3/e² at m = e² y. So m <= MEAN_PER_COUNT y + MEAN_PER_LOSS D; both factors are rounded up.
MEAN_PER_COUNT, MEAN_PER_LOSS = 7.4, 1.7


class PoissonLoss(ScalarLoss):
    """phi(t) = e^t - y t, up to a constant, where y is the target; so phi''' = phi''."""

    def first(self, margins: Host, target: Host) -> Host:
        return np.asarray(self.second(margins, target) - target)

    def second(self, margins: Host, target: Host) -> Host:
        """e^t, but at most e^700."""
        return np.asarray(np.exp(np.minimum(margins, LARGEST_POWER)))

    def terms(self, margins: Host, target: Host) -> Host:
        return np.asarray(self.second(margins, target) + target)

    visible = second

    def first_error(self, first: Host, target: Host) -> Host:
        """The relative error of e^t is |t| unit roundoffs, plus the effect of underflow."""
        means = np.maximum(first + target, 2.0**-1022)
        return np.asarray(means * (3.0 + np.abs(np.log(means))))

    def largest_second(self, low: Host, high: Host, target: Host) -> Host:
        with arrays.quiet():
            return np.asarray(np.exp(high))

    def largest_ratio(self, low: Host, high: Host, target: Host) -> Host:
        """phi'/sqrt(phi'') = e^(t/2) - y e^(-t/2) increases with t."""
        with arrays.quiet():
            ends = [np.exp(0.5 * t) - target * np.exp(-0.5 * t) for t in (low, high)]
            return np.asarray(np.maximum(*np.abs(ends)) ** 2)

    def exponent(self, target: Host) -> int:
        return top_exponent(np.maximum(target, 1.0))


class CountSizes(NamedTuple):
    """Sizes of the counts y and the weights w, for bounds on rounding errors."""

    counts: float  # the norm of w y
    logs: float  # sum of w y (1 + |log y|)
    largest_log: float  # the largest |log y| with y > 0
    total: float  # sum of w


class Poisson(LinearLoss):
    """sum_i w_i (exp(t_i) - y_i t_i + y_i log y_i - y_i), t = Ax: half the Poisson deviance.

    The sum is divided by the sum of the weights if ``mean``. Every term is at least 0, and it is 0
    if the mean exp(t_i) equals the count y_i. The slope has no Lipschitz constant on R^n
    (``lipschitz`` is inf): methods that need such a constant reject the loss, and other methods
    estimate a local one. If some t_i exceeds 350 (44 in float32), the value is inf, because the
    square of such a mean overflows. So it is if the mean is e^709 times the count (e^88), as for a
    count of 1e-300.

    Args:
        A: matrix as in LeastSquares, one row per observation.
        y: counts, or any numbers >= 0; a Series must have the same index as A if A is a DataFrame.
        mean: divide by the sum of the weights or, without weights, by the number of rows (the
            default).
        weights: one number >= 0 per row; None means that all are 1. A row of weight 2 counts twice,
            and a row of weight 0 is ignored.

    There is no minimiser if some direction d has <a_i, d> = 0 for all rows with y_i > 0, and
    <a_i, d> <= 0 for all rows with y_i = 0, with strict inequality for at least one of them. In
    that case, a run ends as "unbounded".

    Examples:
        >>> counts = tb.Poisson([[1, 1, 0], [1, 1, 1]], [2, 6])  # one feature twice, and another
        >>> problem = tb.Problem(lower=counts, upper=tb.SquaredNorm())
        >>> tb.solve(problem).x.round(3)  # the first two add up to log 2; the third is log 3
        array([0.347, 0.347, 1.099])
    """

    y: Array

    curvature = math.inf
    title = "Poisson loss"
    bend = 1.0
    phi = PoissonLoss()
    loss_name, has_counts = "poisson", True

    def __init__(self, A: object, y: object, mean: bool = True, *, weights: object = None) -> None:
        super().__init__(A, mean, None)
        self._remember(Poisson, A, y=y, weights=weights)
        counts = self._per_row(A, y, "y")
        found = arrays.to_numpy(counts)
        if bool(np.any(found < 0.0)):
            row = int(np.argmax(found < 0.0))
            raise ValueError(f"Poisson: y must be non-negative, got {found[row]:g} in row {row}")
        self.y = self.target = self._take_weights(A, weights, counts)
        self._most = 350.0 if arrays.epsilon(self.prototype) < 1e-10 else 44.0
        if not float(np.max(found, initial=0.0)) < math.exp(self._most):
            most = f"at most {math.exp(self._most):.1g} in {arrays.kind(self.prototype)}"
            raise ValueError(f"Poisson: y must be {most}, got {np.max(found):g}")
        xp = arrays.namespace(self.y)
        self.lipschitz = math.inf if self.matrix.shape[0] else 0.0
        self._is_zero = self.y == 0.0
        self._logs = xp.log(xp.where(self._is_zero, self.y + 1.0, self.y))

    @cached_property
    def _sizes(self) -> CountSizes:
        y, w, logs = host(self.y), self._each_weight, np.abs(host(self._logs))
        largest = float(np.max(logs, initial=0.0))
        return CountSizes(arrays.norm(w * y), float(w @ (y * (1.0 + logs))), largest, float(sum(w)))

    @staticmethod
    def predicted(scores: Host) -> Host:
        return np.asarray(np.exp(scores))

    @property
    def rough_lipschitz(self) -> float:
        return self.lipschitz

    def _of_matrix(self, matrix: object) -> Poisson:
        return Poisson(matrix, arrays.double(self.y))

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        xp, far = arrays.namespace(image), ~(image <= self._most)  # NaN also counts as far
        with arrays.quiet():
            t = xp.where(far, xp.full_like(image, self._most), image)
            means, u = xp.exp(t), t - self._logs
            # y (e^u - 1 - u) with e^t = y e^u: there is no cancellation if the mean is close to the
            # count. If t is too large, the loss is infinite.
            losses = xp.where(self._is_zero, means, self.y * (xp.expm1(u) - u))
            losses = xp.where(far, xp.full_like(image, math.inf), losses)
            return self._total(losses), self._weighted(means - self.y)

    def _slopes(self, images: Array, rows: slice) -> Array:
        return self._weighted(np.exp(np.fmin(images, self._most)) - self.y[rows], rows)

    def sizes_in_image(self, image: Host) -> tuple[float, Host]:
        """Terms of slopes have size mean + count; terms of values, (mean + count)(1 + |log y|)."""
        each = self._weighted(np.exp(np.minimum(image, self._most)) + self.y)
        return float(each @ (1.0 + np.abs(self._logs))), np.asarray(each)

    def _conic_rows(
        self, form: ConicForm, cost: Cost, weights: Host, products: Affine, target: Host
    ) -> bool:
        with np.errstate(over="ignore"):
            most = np.exp(form.bound(products))
        means = form.variables(len(weights), most)
        form.exponential(products, means)
        cost.add(weights, means)
        logs = np.log(np.where(target > 0.0, target, 1.0))
        cost.add(weights * target, constants(logs), is_rounded=True)
        cost.add(-weights * target, products + 1.0, is_rounded=True)
        return True

    @property
    def falls_unseen(self) -> bool:  # type: ignore[override]
        return not HostRows.can_hold(self.matrix)

    def _far_rows(self, weights: Host, rows: HostRows, target: Host) -> FarRows:
        """The terms exp(t) of all rows, and -y t of the rows with a positive count."""
        has_count, every = target > 0.0, target >= 0.0
        falls = LossRows((weights * target)[has_count], rows.only(has_count), "")
        return FarRows(losses=[LossRows(weights, rows.only(every, -1.0), "exp"), falls])

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        """Bounds computed from the value of the loss, which bounds the means (see MEAN_PER_COUNT).

        An error in t changes the loss of a row by at most (e^t + y) times that error, and so does
        the rounding error of t - log y. All other terms of the loss are at most (e^t + y)(1 + |log
        y|).
        """
        size, spectral = self._sizes, float(self.matrix.frobenius)
        unit, of_image, of_adjoint = self.matrix.errors(epsilon, spectral)
        error, loss = of_image * reach, max(value, 0.0) / self.scale
        if not (error < 0.1 and math.isfinite(loss)):  # then no bound on the means is known
            return math.inf, math.inf
        steep = 1.01 * ((MEAN_PER_COUNT + 1.0) * size.counts + MEAN_PER_LOSS * loss)
        terms = 1.01 * (MEAN_PER_COUNT + 1.0) * size.logs
        terms += 1.01 * MEAN_PER_LOSS * loss * (1.0 + size.largest_log)
        return (
            self.scale * (2.5 * error * steep + unit * terms),
            self.scale * (spectral * (1.2 * error + unit) + of_adjoint) * steep,
        )

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        """A bound from the largest possible t within ``reach``; inf if that t is too large."""
        size, t = self._sizes, float(self.matrix.frobenius) * reach
        if not t < self._most:
            return math.inf
        return self.scale * (size.total * math.exp(t) + size.logs * (1.0 + t))
