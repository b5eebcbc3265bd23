"""The base of all losses of a linear map: scale * phi(A x) and its slope in one data pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeGuard

import numpy as np

from tiebreak.functions.base import (
    EstimatorLoss,
    Function,
    PendingEvaluation,
    PointWithImage,
    SmoothFunction,
    signs_of,
)
from tiebreak.functions.far_slopes import FarRows
from tiebreak.functions.parts.loss_parts import LossPart, ScalarLoss
from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import (
    Array,
    DeferredImage,
    DeferredProduct,
    FromData,
    Host,
    Image,
    Matrix,
    PassPlan,
    Refusal,
    arrays,
    checks,
    deadline,
    remember,
    rounding_unit,
    settled,
    tables,
)
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost
from tiebreak.linalg.host import host
from tiebreak.linalg.host_rows import HostRows
from tiebreak.linalg.matrices.base import RowSlice
from tiebreak.linalg.matrices.dense import Fused
from tiebreak.linalg.matrices.derived import taken, with_scaled_rows, without_rows
from tiebreak.linalg.row_gram import column_gram, row_gram
from tiebreak.linalg.sizes import QUICK_SIDE, SECOND, SMALL_SIDE


class LossesAndSlopes(NamedTuple):
    """The outcome of a data pass that may still be running; ``losses`` waits for its end."""

    losses: Callable[[], list[float]]
    slopes: Callable[[], list[Array]]


class LinearLoss(EstimatorLoss, SmoothFunction, is_open=True):
    """scale * phi(A x), where phi is a sum over rows: the base of LeastSquares, Logistic, etc.

    A subclass sets ``curvature`` and ``target``. It also sets ``lower_bound``, the sum of the
    smallest losses of all rows, if that sum is negative. The subclass must define these members:

    - ``_loss_and_slope(image)``: the sum of phi over all rows, and its gradient at the image;
    - ``_slopes(images, rows)``: the gradients at some images in some rows, on the host;
    - ``_of_matrix(matrix)``: the loss with this matrix in float64; `of_matrix` then sets its scale
      and weights.

    ``__init__`` calls `_remember` with the arguments from which a copy is made. The subclass may
    also define these members:

    - ``rounding(reach, ...)``: bounds on the rounding errors of the value and the gradient; if
      ``cancels`` is False, the default derives them from ``curvature``; otherwise nothing is
      proved;
    - ``_loss(image)``: the sum without its gradient, if that is cheaper;
    - ``_conic_rows(form, ...)``: the conic form, for the ``conic`` method;
    - ``phi``: the loss of a row, with bounds on its derivatives, for the ``exact`` method;
    - ``_far_rows(weights, ...)``: the slopes far from 0, which tell whether there is a minimiser
      (set ``falls_unseen = False`` if the loss of a row rises in both directions).

    With ``weights``, phi is the sum of weights_i phi_i; `_loss_and_slope`, `_slopes` and `_loss`
    apply the weights with `_total` and `_weighted`. Rows of weight 0 are removed from a matrix in
    memory; in other matrices they become rows of zeros.
    """

    describing: ClassVar[tuple[str, ...]] = (
        *SmoothFunction.describing,
        *("_conic_rows", "_far_rows", "_part", "phi", "bend", "second", "sizes_in_image"),
    )
    matrix: Matrix
    curvature: float  # the largest second derivative of phi in one row
    steepest: float = math.inf  # the largest slope of phi in one row
    cancels: ClassVar[bool] = True  # may large terms cancel within a row?
    target: Array  # what the images are compared with, one number per row
    weights: Array | None = None  # one weight per row, or None if all are 1
    phi: ScalarLoss | None = None  # the loss of a row, if it is smooth
    kernel: str | None = None  # the name of phi in the GPU kernel; None if the kernel lacks phi
    bend: float | None = (
        None  # a number with |phi'''| <= bend phi'' in every row; None if there is none
    )

    def __init__(self, A: object, mean: bool, lipschitz: float | None) -> None:
        owner = type(self).__name__
        self.matrix = checks.matrix(owner, "A", A)
        self.names: tuple[Any, ...] | None = tables.names(A) if tables.is_frame(A) else None
        rows = self.matrix.shape[0]
        self.dimension: int = self.matrix.shape[1]
        self.prototype = self.matrix.prototype
        self.mean: bool = checks.flag(owner, "mean", mean)
        self.scale: float = 1.0 / rows if mean and rows else 1.0
        if lipschitz is not None:
            self.lipschitz = checks.at_least(owner, "lipschitz", lipschitz)

    def __repr__(self) -> str:
        rows, columns = self.matrix.shape
        kind = "sparse " if self.matrix.is_sparse else ""
        return f"<{type(self).__name__}, {kind}{rows} x {columns}>"

    def extent(self, x: Array) -> float:
        """The sum of |a_j| |x_j|/|A| over the columns a_j: like |x|, it bounds the error of A x."""
        size, shares = arrays.norm(x), self.matrix.column_shares
        if shares is None:
            return size
        return min(size, float(shares @ np.abs(x)) * (1.0 + rounding_unit(2.0**-52, len(shares))))

    def _per_row(self, A: object, value: object, name: str) -> Array:
        """``value`` as a vector with one entry per row of A, in A's library and dtype.

        If A is in single precision and cannot represent the numbers in ``value``, A and ``value``
        are converted to float64.
        """
        rows, owner = self.matrix.shape[0], type(self).__name__
        if rows == 0 and not np.size(arrays.to_numpy(value)):
            return self.prototype
        tables.need_same_rows(owner, ("A", A), (name, value))
        vector = checks.length(owner, name, checks.vector(owner, name, value), rows, "row of A")
        vector, matrix = checks.with_matrix(owner, name, vector, "A", self.matrix)
        self._change_precision(matrix)
        return vector

    def _signs(self, y: Array) -> Array:
        """The labels as -1 and +1; the report says so if the given labels were 0 and 1."""
        signs = signs_of(type(self).__name__, y)
        if signs is not y:
            self.note = "Labels 0 and 1 were taken as -1 and +1"
        return signs

    def _change_precision(self, matrix: Matrix) -> None:
        """Use ``matrix`` from now on: it is the present matrix, or a copy of it in float64."""
        if matrix is not self.matrix:
            self.data_epsilon: float = arrays.epsilon(self.prototype)
            self.matrix, self.prototype = matrix, matrix.prototype

    def _take_weights(self, A: object, weights: object, target: Array) -> Array:
        """Check and store the weights; return the target of the rows that are kept.

        Rows of weight 0 are removed from a matrix in memory; in other matrices, their entries
        become zeros.
        """
        if weights is None or self.matrix.shape[0] == 0:
            return target
        owner, w = type(self).__name__, self._per_row(A, weights, "weights")
        found = np.asarray(arrays.to_numpy(w), dtype=np.float64)
        if np.any(found < 0.0):
            row = int(np.argmax(found < 0.0))
            raise ValueError(
                f"{owner}: weights must be non-negative, got {found[row]:g} in row {row}"
            )
        with arrays.quiet():
            total = float(np.sum(found))
        if not 0.0 < total < math.inf:
            got = "0 in all rows" if total == 0.0 else "a sum that overflows"
            raise ValueError(f"{owner}: weights must have a positive finite sum, got {got}")
        if self.mean:
            self.scale = 1.0 / total
        kept, target = found > 0.0, arrays.like(target, self.prototype)
        if not kept.all():
            smaller = without_rows(self.matrix, kept)
            if smaller is None:
                zeros_and_ones = arrays.like(kept.astype(np.float64), self.prototype)
                self.matrix = with_scaled_rows(self.matrix, zeros_and_ones)
            else:
                self.matrix, w, target = smaller, taken(w, kept), taken(target, kept)
        self.weights = w
        return target

    def _weighted(self, values: Array, rows: Any = None) -> Array:
        """``values`` of all rows, or of the given ``rows``, times the weights of these rows."""
        if self.weights is None:
            return values
        return values * (self.weights if rows is None else self.weights[rows])

    def _total(self, losses: Array) -> Array:
        """The sum of the losses of all rows, multiplied by their weights."""
        if self.weights is None:
            return arrays.namespace(losses).sum(losses)
        return arrays.inner(self.weights, losses)

    @property
    def row_count(self) -> int:
        """The number of losses in the sum."""
        return self.matrix.shape[0]

    @cached_property
    def _weight_sizes(self) -> tuple[float, float, float]:
        """The sum, the norm and the maximum of the weights."""
        w = self._each_weight
        return float(np.sum(w)), arrays.norm(w), float(np.max(w, initial=0.0))

    @property
    def _each_weight(self) -> Host:
        """The weight of every row, on the host."""
        return np.ones(self.row_count) if self.weights is None else host(self.weights)

    @cached_property
    def _target_size(self) -> float:
        return arrays.norm(self.target)

    def _remember(self, maker: type, A: object, **given: object) -> None:
        """Store the arguments; A is what the user gave, or the stream that was made from it."""
        source = self.matrix if isinstance(self.matrix, FromData) else A
        remember(self, maker, A=source, mean=self.mean, **given)

    @property
    def in_float64(self) -> LinearLoss | None:
        matrix = self.matrix.in_float64
        if matrix is None:
            return None
        wide = self.of_matrix(matrix)
        wide.data_epsilon, wide.lipschitz = arrays.epsilon(self.prototype), self.known_lipschitz
        return wide

    def of_matrix(self, matrix: object) -> LinearLoss:
        """The loss in float64 with another matrix that has the same number of rows."""
        made = self._of_matrix(matrix)
        made.scale, made.mean, made.note = self.scale, self.mean, self.note
        made.weights = None if self.weights is None else arrays.like(self.weights, made.prototype)
        return made

    def of_columns(self, change: Callable[[Any], Any]) -> LinearLoss:
        """The loss in float64 with the matrix ``change(A)``, a linear function of the matrix A."""
        # The entries of a matrix are not watched for changes.
        return self.of_matrix(
            checks.matrix(type(self).__name__, "A", change(self.matrix.on_host()))
        )

    @property
    def given_matrix(self) -> Matrix:
        """The matrix without the weights, which do not change its rank or its null space."""
        return self.matrix

    def _of_matrix(self, matrix: object) -> LinearLoss:
        raise Refusal(
            type(self).__name__,
            "_of_matrix",
            "must be defined if the same loss is needed with another matrix",
        )

    def _loss_and_slope(self, image: Array) -> tuple[Array, Array]:
        raise NotImplementedError

    def _loss(self, image: Array) -> Array:
        return self._loss_and_slope(image)[0]

    def _slopes(self, images: Array, rows: slice) -> Array:
        raise NotImplementedError

    def evaluate_image(self, image: Image) -> tuple[Array, Array]:
        """The value of phi at an image, and its gradient with respect to the image."""
        return self._loss_and_slope(settled(image))

    def sizes_in_image(self, image: Host) -> tuple[float, Host]:
        """The sizes of the terms of phi and of its gradient; the default is for terms that do not
        cancel."""
        loss, slopes = self._loss_and_slope(image)
        return float(loss), np.abs(slopes)

    def second(self, image: Host, rows: Any = None) -> Host:
        """The second derivatives of phi at an image on the host, for some rows or all."""
        assert self.phi is not None
        target = host(self.target if rows is None else self.target[rows])
        return np.asarray(self._weighted(self.phi.second(image, target), rows))

    def row_weights(self, weight: float = 1.0) -> Host:
        """The factor of each row's loss in ``weight`` times the function."""
        return np.asarray(weight * self.scale * self._each_weight)

    @property
    def is_conic(self) -> bool:
        own = ("_conic_rows", "add_to_conic")
        is_known = any(getattr(type(self), name) is not getattr(LinearLoss, name) for name in own)
        return is_known and super().is_conic

    def add_to_conic(self, form: ConicForm, cost: Cost, weight: float) -> bool:
        w, products = self.row_weights(weight), form.of_x(self.matrix.on_host())
        counts = w > 0.0
        target = host(self.target)[counts]
        return self._conic_rows(form, cost, w[counts], products.some(counts), target)

    def _conic_rows(
        self, form: ConicForm, cost: Cost, weights: Host, products: Affine, target: Host
    ) -> bool:
        """Add the sum of weights_i phi_i(products_i) to a program; False if no conic form is
        known."""
        return False

    def far_rows(self, weight: float, n: int) -> FarRows | None:
        rows = HostRows.of(self.matrix)
        if rows is None:
            return None
        return self._far_rows(self.row_weights(weight), rows, host(self.target))

    def _far_rows(self, weights: Host, rows: HostRows, target: Host) -> FarRows | None:
        """How the sum of weights_i phi_i(<row_i, x>) grows far from 0; None if unknown."""
        return None

    def parts(self, weight: float, n: int) -> Sequence[Part] | None:
        rows, weights, target = self.matrix.dense(), self._each_weight, host(self.target)
        kept = weights > 0.0
        if not kept.all():
            rows, weights, target = rows[kept], weights[kept], target[kept]
        part = self._part(weight * self.scale, rows, weights, target)
        return None if part is None else [part]

    def _part(self, weight: float, rows: Host, weights: Host, target: Host) -> Part | None:
        """``weight`` times the sum of weights_i phi_i(<row_i, x>), as a part; None if unknown."""
        return None if self.phi is None else LossPart(weight, rows, target, weights, self.phi)

    # --- reading a few rows at a time: see `has_slices` ---

    @cached_property
    def row_lipschitz(self) -> float:
        """The largest curvature of the loss of one row, times the number of rows."""
        squares = self._each_weight * self._spectral_matrix.row_squares
        return self.curvature * self.scale * len(squares) * float(np.max(squares, initial=0.0))

    def slopes_of_rows(self, image: Array, rows: Any) -> Array:
        """The gradient of phi for some of the rows, from the entries of an image in those rows."""
        return self._slopes(image[None, :], rows)[0, :]

    def slope_of(self, some: RowSlice, x: Array, before: Array | None = None) -> Array:
        """An estimate of the slope at x from a slice of the rows.

        If ``before`` has the slopes of all rows at another point, the estimate at that point is
        subtracted.
        """
        slopes = self.slopes_of_rows(some.entries @ x, some.rows)
        if before is not None:
            slopes = slopes - before[some.rows]
        return (self.scale * self.row_count / some.entries.shape[0]) * (some.transposed @ slopes)

    def gram_of(self, some: RowSlice, image: Host) -> Host:
        """A_I' phi''(A_I x) A_I for a slice I of the rows, on the host; ``image`` is A_I x."""
        roots = np.sqrt(self.second(image, some.rows))[:, None]
        if isinstance(some.entries, np.ndarray):
            B = roots * some.entries
            return np.asarray(B.T @ B)
        B = some.entries.multiply(roots).tocsr()
        return np.asarray((B.T @ B).toarray())

    @property
    def shares_passes(self) -> bool:  # type: ignore[override]
        return self.matrix.shares_passes

    def value(self, x: Array) -> float:
        return self._pass(self._images(x), 0).losses()[0]

    def gradient(self, x: Array) -> Array:
        return self._pass(self._images(x), 1).slopes()[0]

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        return self._images(*xs)

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        found = self._pass([p.image for p in (*at, *values_at)], len(at))
        return PendingEvaluation.of(at, *found)

    def _images(self, *xs: Array) -> tuple[Image, ...]:
        if self.matrix.shares_passes:
            return tuple(
                DeferredImage([(1.0, DeferredProduct(self.matrix.forward, x))]) for x in xs
            )
        return tuple(self.matrix.forward(*xs))

    def _pass(self, images: Sequence[Image], slopes: int) -> LossesAndSlopes:
        """The losses at all images, and the slopes at the first ``slopes`` of them."""
        if not self.matrix.shares_passes:
            return self._plain_pass(images, slopes)
        if isinstance(self.matrix, Fused):
            if self.kernel is None or self.weights is not None:
                return self._plain_pass(images, slopes)
            return self._gpu_pass(self.matrix, PassPlan.of(images), slopes)
        return self._shared_pass(PassPlan.of(images), slopes)

    def _scaled_losses(self, losses: list[float]) -> list[float]:
        return [self.scale * loss for loss in losses]

    def _scaled_slopes(self, slopes: list[Array]) -> list[Array]:
        return slopes if self.scale == 1.0 else [self.scale * slope for slope in slopes]

    def _shared_pass(self, plan: PassPlan, slopes: int) -> LossesAndSlopes:
        """The result of `_pass`, with all products of the plan in one pass over the matrix."""
        vectors = (*plan.known, *(product.x for product in plan.fresh))
        kind = np.result_type(self.matrix.prototype.dtype, *vectors)
        weights = np.asarray(plan.weights, dtype=kind)
        kept, rows = len(plan.known), self.matrix.shape[0]
        parts = np.empty((kept + len(plan.fresh), rows), dtype=weights.dtype)
        for part, known in zip(parts, plan.known, strict=False):
            part[:] = known
        recipe = weights[:slopes]

        def weigh(here: slice, fresh: Array) -> Array:
            return self._slopes(recipe @ parts[:, here], here)

        points, sums = [product.x for product in plan.fresh], np.empty((0, 0))
        with arrays.quiet():
            if points or slopes:
                _, sums = self.matrix.sweep(points, slopes, weigh if slopes else None, parts[kept:])
            images = [row @ parts for row in weights]  # a separate array for each image
            losses = [float(self._loss(image)) for image in images]
        plan.fill(list(parts[kept:]), images)
        losses, gradients = self._scaled_losses(losses), self._scaled_slopes(list(sums))
        return LossesAndSlopes(lambda: losses, lambda: gradients)

    def _gpu_pass(self, matrix: Fused, plan: PassPlan, slopes: int) -> LossesAndSlopes:
        """The result of `_pass`, in one pass on a GPU if the kernel accepts this many vectors."""
        from tiebreak.linalg import cuda

        if surplus := plan.fresh[cuda.MAX_FRESH :]:  # in the few steps that renew an average
            products = matrix.forward(*(product.x for product in surplus))
            for product, value in zip(surplus, products, strict=True):
                product.value = value
            plan = PassPlan.of(plan.images)
        if not cuda.fits(len(plan.fresh), len(plan.known), len(plan.images), slopes):
            return self._plain_pass(plan.images, slopes)
        points = [product.x for product in plan.fresh]
        asked = plan.known, plan.weights, slopes
        assert self.kernel is not None
        read = matrix.read(points, *asked, self.target, self.kernel, self.scale)
        plan.fill(read.products[: len(points)], read.images)
        gradients = [*read.gradients]  # copied while the GPU works
        return LossesAndSlopes(
            arrays.PendingNumbers(read.losses, self._scaled_losses), lambda: gradients
        )

    def _plain_pass(self, images: Sequence[Image], slopes: int) -> LossesAndSlopes:
        """The result of `_pass`, computed with separate products."""
        images = [settled(image) for image in images]
        pairs = [self._loss_and_slope(image) for image in images[:slopes]]
        losses = [loss for loss, _ in pairs] + [self._loss(image) for image in images[slopes:]]
        sums = self.matrix.adjoint(*(slope for _, slope in pairs)) if slopes else []
        gradients = self._scaled_slopes(sums)
        return LossesAndSlopes(
            arrays.pending_numbers(losses, self._scaled_losses), lambda: gradients
        )

    def passes(self, forwards: int, slopes: int, values: int) -> int:
        return int(slopes + values > 0) if self.matrix.shares_passes else forwards + slopes

    @cached_property
    def lipschitz(self) -> float:  # type: ignore[override]
        """curvature * lambda_max(A'A) * scale: exact for small matrices, otherwise a Lanczos bound.

        If there are weights W, A'WA takes the place of A'A.
        """
        if self.matrix.shape[0] == 0:
            return 0.0
        if self._has_eigenvalues:
            top = self._eigenvalues[-1] * (1.0 + 64 * arrays.epsilon(self.prototype))
        else:
            top = self._matrix_with_weights.spectral_square
        return self.curvature * self.scale * max(float(top), 0.0)

    @property
    def _spectral_matrix(self) -> Matrix:
        """A matrix, possibly smaller, with the same largest singular value as A."""
        return self.matrix

    @property
    def known_lipschitz(self) -> float:
        if "lipschitz" in vars(self):
            return self.lipschitz
        is_cheap = self.matrix.is_lanczos_cheap
        found = is_cheap and deadline.unless_too_long(lambda: self.lipschitz, 0.0)
        return found or self._lipschitz_by_entries

    @property
    def rough_lipschitz(self) -> float:
        return self._lipschitz_by_entries if self.matrix.is_sparse else self.known_lipschitz

    @property
    def _lipschitz_by_entries(self) -> float:
        norm_bound = self._spectral_matrix.norm_bound
        return self.curvature * self.scale * self._weight_sizes[2] * norm_bound * norm_bound

    @property
    def _spectral(self) -> float:
        """A bound on the largest singular value of `_matrix_with_weights`."""
        return math.sqrt(self.rough_lipschitz / (self.curvature * self.scale))

    @property
    def _matrix_spectral(self) -> float:
        """A bound on the largest singular value of A itself."""
        if self.weights is None:
            return self._spectral
        return float(self._spectral_matrix.frobenius)

    @property
    def _matrix_with_weights(self) -> Matrix:
        """B with B'B = A'WA."""
        if self.weights is None:
            return self._spectral_matrix
        roots = arrays.like(np.sqrt(self._each_weight), self.prototype)
        return with_scaled_rows(self._spectral_matrix, roots)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        """Bounds for a phi whose terms do not cancel within a row; inf for any other phi.

        The error of an image comes from the products and from rounding the target. An error of an
        image changes phi by at most the error times a slope of phi, and
        |phi'|² <= 2 curvature (phi - min phi). Computing a slope from its image adds a few machine
        epsilons.
        """
        if self.cancels or not math.isfinite(self.curvature):
            return math.inf, math.inf
        unit, of_image, of_adjoint = self.matrix.errors(epsilon, self._matrix_spectral)
        total, _, largest = self._weight_sizes
        root, above = math.sqrt(largest), max(value - self.lower_bound, 0.0) / self.scale
        steep = math.sqrt(min(2.0 * self.curvature * above, total * self.steepest * self.steepest))
        moved = root * (of_image * reach + unit * self._target_size)
        turned = self.curvature * moved
        of_slopes = turned + 16.0 * epsilon * steep
        return (
            self.scale * moved * (steep + turned) + unit * abs(value),
            self.scale * (self._spectral * of_slopes + of_adjoint * root * (steep + of_slopes)),
        )

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        """A bound computed from phi and its slope at the image 0 and the largest possible image."""
        _, size, largest = self._weight_sizes
        loss, steep = self._at_zero
        length = self.matrix.frobenius * reach
        rise = min(steep + 0.5 * self.curvature * largest * length, self.steepest * size)
        return self.scale * (loss + rise * length)

    @cached_property
    def _at_zero(self) -> tuple[float, float]:
        """phi at the image 0, and the norm of its gradient there."""
        loss, slopes = self._loss_and_slope(
            arrays.like(np.zeros(self.matrix.shape[0]), self.prototype)
        )
        return float(loss), arrays.norm(slopes)

    @property
    def _has_eigenvalues(self) -> bool:
        """Are the entries of A available, and is one side of A small enough for `_eigenvalues`?"""
        matrix = self._spectral_matrix
        rows, n = matrix.shape
        is_there = matrix.is_explicit or matrix.is_sparse
        is_cheap = rows <= n and rows <= QUICK_SIDE and rows * matrix.size <= SECOND
        return is_there and (min(rows, n) <= SMALL_SIDE or is_cheap)

    @cached_property
    def _eigenvalues(self) -> np.ndarray[Any, Any]:
        """Eigenvalues of the smaller of A'A and AA', ascending."""
        matrix = self._matrix_with_weights
        rows, n = matrix.shape
        if rows <= n:  # if time allows, compute eigenvectors too, for later use
            found = deadline.unless_too_long(lambda: row_gram(matrix), None)
            if found is not None:
                return np.asarray(np.ldexp(found.values, 2 * found.exponent))
            deadline.check(0.0 if rows <= SMALL_SIDE else deadline.svd_work(rows, rows) / 4)
        if n < rows:
            return np.linalg.eigvalsh(column_gram(matrix))
        A = matrix.on_host()
        product: Any = A @ A.T
        return np.linalg.eigvalsh(product.toarray() if matrix.is_sparse else product)


def has_slices(part: Function) -> TypeGuard[LinearLoss]:
    """Is ``part`` a loss whose slope is computed from rows that can be read a few at a time?"""
    return isinstance(part, LinearLoss) and part.matrix.has_slices and part.passes(0, 1, 0) > 0
