"""Functions with a matrix inside: least squares, logistic regression, quadratics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiebreak.functions.base import PendingEvaluation, PointWithImage, SmoothFunction
from tiebreak.linalg import arrays, checks, deadline, matrices, spectra, tables
from tiebreak.linalg.arrays import Array, Image, rounding_unit
from tiebreak.linalg.fingerprints import FromData, remember
from tiebreak.linalg.images import DeferredImage, DeferredProduct, PassPlan, settled
from tiebreak.linalg.matrices import DENSE_LIMIT, Dense, Fused, Matrix, Operator

SMALL = 256  # up to this size eigenvalues are computed exactly, beyond it bounded by Lanczos
GRAM_LIMIT = 1024  # largest number of columns for which a Gram matrix is formed unasked
SPECTRUM_LIMIT = 2048  # largest smaller side for which all singular values are computed


class Found(NamedTuple):
    """The outcome of a pass that has begun: the losses wait for its end, slopes on a GPU do not."""

    losses: Callable[[], list[float]]
    slopes: Callable[[], list[Array]]


class _LinearLoss(SmoothFunction):
    """scale * phi(A x) with phi a sum over rows: what LeastSquares and Logistic share.

    A subclass gives ``_loss(image)``, the sum of phi over all rows, ``_slope(image)`` = (that, its
    gradient), ``_pulls(images, rows)``, the gradients of some images at these rows, on the host,
    and ``_curvature``, the largest second derivative of phi in one row.
    """

    lower_bound = 0.0
    _curvature: float
    _kind: str  # as the GPU's pass knows it

    def __init__(self, A: object, mean: bool, lipschitz: float | None) -> None:
        owner = type(self).__name__
        self.matrix = checks.matrix(owner, "A", A)
        self.names = tables.names(A) if tables.is_frame(A) else None
        rows, self.dimension = self.matrix.shape
        self.prototype = self.matrix.prototype
        self.mean = checks.flag(owner, "mean", mean)
        self._scale = 1.0 / rows if mean and rows else 1.0
        if lipschitz is not None:
            self.lipschitz = checks.at_least(owner, "lipschitz", lipschitz)

    def extent(self, x: Array) -> float:
        """sum of |a_j| |x_j| over |A|, a_j the columns, bounds the error of A x as |x| does."""
        size, shares = arrays.norm(x), self.matrix.column_shares
        if shares is None:
            return size
        return min(size, float(shares @ np.abs(x)) * (1.0 + rounding_unit(2.0**-52, len(shares))))

    def _per_row(self, A: object, value: object, name: str) -> Array:
        """``value`` as a vector with one entry per row of A, in A's library and dtype.

        Where A is in single precision and holds fewer digits than these numbers have, both are in
        double from now on.
        """
        rows, owner = self.matrix.shape[0], type(self).__name__
        if rows == 0 and not np.size(arrays.to_numpy(value)):
            return self.prototype
        tables.need_same_rows(owner, ("A", A), (name, value))
        vector = checks.length(owner, name, checks.vector(owner, name, value), rows, "row of A")
        fitted = checks.in_precision_of(self.prototype, vector)
        if fitted is not None:
            return fitted
        self.data_epsilon = arrays.epsilon(self.prototype)
        self.matrix = _widened(owner, name, "A", self.matrix)
        self.prototype = self.matrix.prototype
        return arrays.like(vector, self.prototype)

    @property
    def _target(self) -> Array:
        """What the images are compared with, row by row."""
        raise NotImplementedError

    def _loss(self, image: Array) -> Array:
        raise NotImplementedError

    def _slope(self, image: Array) -> tuple[Array, Array]:
        raise NotImplementedError

    def _pulls(self, images: Array, rows: slice) -> Array:
        raise NotImplementedError

    @property
    def shares_passes(self) -> bool:  # type: ignore[override]
        return self.matrix.shares_passes

    def value(self, x: Array) -> float:
        return self._found(self._images(x), 0).losses()[0]

    def gradient(self, x: Array) -> Array:
        return self._found(self._images(x), 1).slopes()[0]

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        return self._images(*xs)

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        found = self._found([p.image for p in (*at, *values_at)], len(at))
        return PendingEvaluation.of(at, *found)

    def _images(self, *xs: Array) -> tuple[Image, ...]:
        if self.matrix.shares_passes:
            return tuple(
                DeferredImage([(1.0, DeferredProduct(self.matrix.forward, x))]) for x in xs
            )
        return tuple(self.matrix.forward(*xs))

    def _found(self, images: Sequence[Image], slopes: int) -> Found:
        """The function at all images, its slopes at the first so many."""
        if self.matrix.shares_passes:
            return self._sweep(PassPlan.of(images), slopes)
        return self._looked(images, slopes)

    def _scaled(self, losses: list[float]) -> list[float]:
        return [self._scale * loss for loss in losses]

    def _pulled(self, slopes: list[Array]) -> list[Array]:
        return slopes if self._scale == 1.0 else [self._scale * slope for slope in slopes]

    def _sweep(self, plan: PassPlan, slopes: int) -> Found:
        """The losses at all images of the plan, the slopes at the first so many, in one pass."""
        if isinstance(self.matrix, Fused):
            return self._fused(self.matrix, plan, slopes)
        vectors = (*plan.known, *(product.x for product in plan.fresh))
        kind = np.result_type(self.matrix.prototype.dtype, *vectors)
        weights = np.asarray(plan.weights, dtype=kind)
        kept, rows = len(plan.known), self.matrix.shape[0]
        parts = np.empty((kept + len(plan.fresh), rows), dtype=weights.dtype)
        for part, known in zip(parts, plan.known, strict=False):
            part[:] = known
        recipe = weights[:slopes]

        def weigh(here: slice, fresh: Array) -> Array:
            return self._pulls(recipe @ parts[:, here], here)

        points, sums = [product.x for product in plan.fresh], np.empty((0, 0))
        with arrays.quiet():
            if points or slopes:
                _, sums = self.matrix.sweep(points, slopes, weigh if slopes else None, parts[kept:])
            images = [row @ parts for row in weights]  # each an array of its own, kept or not
            losses = [float(self._loss(image)) for image in images]
        plan.fill(list(parts[kept:]), images)
        losses, pulled = self._scaled(losses), self._pulled(list(sums))
        return Found(lambda: losses, lambda: pulled)

    def _fused(self, matrix: Fused, plan: PassPlan, slopes: int) -> Found:
        """The same by one reading of a matrix on a GPU."""
        from tiebreak.linalg import cuda

        surplus = plan.fresh[cuda.MAX_FRESH :]
        if surplus:
            products = matrix.forward(*(product.x for product in surplus))
            for product, value in zip(surplus, products, strict=True):
                product.value = value
            plan = PassPlan.of(plan.images)
        if not cuda.fits(len(plan.known), len(plan.images), slopes):  # then one by one
            images = [settled(image) for image in plan.images]
            each = [
                self._fused(matrix, PassPlan.of([i]), int(j < slopes)) for j, i in enumerate(images)
            ]

            return Found(
                lambda: [loss for found in each for loss in found.losses()],
                lambda: [slope for found in each for slope in found.slopes()],
            )
        points = [product.x for product in plan.fresh]
        asked = plan.known, plan.weights, slopes
        swept = matrix.read(points, *asked, self._target, self._kind, self._scale)
        plan.fill(swept.products[: len(points)], swept.images)
        gradients = [*swept.gradients]  # while the GPU is at work, not once it has ended
        return Found(arrays.PendingNumbers(swept.losses, self._scaled), lambda: gradients)

    def _looked(self, images: Sequence[Image], slopes: int) -> Found:
        """The same by plain products."""
        images = [settled(image) for image in images]
        pairs = [self._slope(image) for image in images[:slopes]]
        losses = [loss for loss, _ in pairs] + [self._loss(image) for image in images[slopes:]]
        back = self.matrix.adjoint(*(weights for _, weights in pairs)) if slopes else []
        pulled = self._pulled(back)
        return Found(arrays.pending_numbers(losses, self._scaled), lambda: pulled)

    def passes(self, lifts: int, slopes: int, values: int) -> int:
        return int(slopes + values > 0) if self.matrix.shares_passes else lifts + slopes

    @cached_property
    def lipschitz(self) -> float:  # type: ignore[override]
        """curvature * lambda_max(A'A) * scale: exact for small matrices, else a Lanczos bound."""
        if self.matrix.shape[0] == 0:
            return 0.0
        if self._has_eigenvalues:
            top = self._eigenvalues[-1] * (1.0 + 64 * arrays.epsilon(self.prototype))
        else:
            top = self.matrix.spectral_square
        return self._curvature * self._scale * max(float(top), 0.0)

    @property
    def known_lipschitz(self) -> float:
        rough = self._curvature * self._scale * self.matrix.frobenius**2
        if self.matrix.is_lanczos_cheap or "lipschitz" in vars(self):
            return deadline.unless_too_long(lambda: self.lipschitz, rough)
        return rough

    @property
    def _spectral(self) -> float:
        """A bound on |A|, the largest singular value."""
        return math.sqrt(self.known_lipschitz / (self._curvature * self._scale))

    @property
    def _has_eigenvalues(self) -> bool:
        """Are the entries of A there, and one side small enough for ``_eigenvalues``?"""
        is_there = self.matrix.is_explicit or self.matrix.is_sparse
        return is_there and min(self.matrix.shape) <= SMALL

    @cached_property
    def _eigenvalues(self) -> np.ndarray[Any, Any]:
        """Eigenvalues of the smaller of A'A and AA', ascending."""
        rows, n = self.matrix.shape
        A = self.matrix.entries.astype(np.float64) if self.matrix.is_sparse else self.matrix.dense()
        gram: Any = A.T @ A if n <= rows else A @ A.T
        return np.linalg.eigvalsh(gram.toarray() if self.matrix.is_sparse else gram)


def _widened(owner: str, name: str, whose: str, matrix: Matrix) -> Matrix:
    """The matrix in double precision, for a vector whose numbers need that."""
    wide = matrix.in_float64
    if wide is None:
        raise ValueError(
            f"{owner}: {name} must hold numbers of float32 as {whose} does, which cannot be "
            "widened, got float64 numbers that would be rounded"
        )
    return wide


def _as_given(A: object, matrix: Matrix) -> object:
    """What a function remembers of its matrix: what the user gave, or the stream made of that."""
    return matrix if isinstance(matrix, FromData) else A


class LeastSquares(_LinearLoss):
    """½|Ax - b|², divided by the number of rows if ``mean``.

    Args:
        A: matrix: dense (any array-API library), scipy.sparse, a linear operator (SciPy, PyLops),
            or Streamed (as a numpy.memmap and a Zarr array become by themselves). A DataFrame of
            pandas is welcome: then b, if it is a Series, must have the same index.
        b: vector with one entry per row. Nothing is rounded: where A is in float32 and b has
            numbers that float32 does not hold, A is widened to float64.
        mean: divide by the number of rows.
        gram: work with A'A instead of A (one product per point instead of two). None decides:
            yes if A is tall and dense, and the residual cannot become so small beside b that the
            value ½x'A'Ax - b'Ax + ½|b|² would lose more than two digits to cancellation.
        lipschitz: your own upper bound on lambda_max(A'A) (over the rows if ``mean``).

    New numbers that you write into your arrays are noticed when you call ``solve``, ``certify`` or
    ``compare``, and the answer is for them. (Not those behind a linear operator: make a new one.)
    """

    _curvature = 1.0
    _kind = "least-squares"

    def __init__(
        self,
        A: object,
        b: object,
        mean: bool = False,
        *,
        gram: bool | None = None,
        lipschitz: float | None = None,
    ) -> None:
        super().__init__(A, mean, lipschitz)
        given = _as_given(A, self.matrix)
        remember(self, LeastSquares, A=given, b=b, mean=mean, gram=gram, lipschitz=lipschitz)
        self.b = self._per_row(A, b, "b")
        self._use_gram: bool | None = checks.flag("LeastSquares", "gram", gram, None)
        if gram and not self.matrix.is_explicit:
            raise ValueError(
                "LeastSquares: gram must be False or None where A is not a matrix in memory that "
                "can be dense, got True"
            )

    @property
    def _target(self) -> Array:
        return self.b

    @property
    def in_float64(self) -> LeastSquares | None:
        matrix = self.matrix.in_float64
        if matrix is None:
            return None
        b, known = arrays.double(self.b), self.known_lipschitz
        wide = LeastSquares(matrix, b, self.mean, gram=False, lipschitz=known)
        wide.data_epsilon = arrays.epsilon(self.prototype)
        return wide

    def _loss(self, image: Array) -> Array:
        return self._slope(image)[0]

    def _slope(self, image: Array) -> tuple[Array, Array]:
        residual = image - self.b
        return 0.5 * arrays.inner(residual, residual), residual

    def _pulls(self, images: Array, rows: slice) -> Array:
        return images - self.b[rows]

    @property
    def shares_passes(self) -> bool:  # type: ignore[override]
        return self.gram is None and super().shares_passes

    @cached_property
    def gram(self) -> Quadratic | None:
        """The same function as ½x'Gx - c'x + const with G = A'A, where that is cheaper and safe."""
        rows, n = self.matrix.shape
        is_plain = type(self.matrix) is Dense  # dense and in memory
        wanted = self._use_gram
        if wanted is None:
            wanted = is_plain and n <= rows and n <= GRAM_LIMIT and self._gram_is_safe()
        if not wanted or rows == 0:
            return None
        deadline.check(deadline.svd(rows, n) / 16)
        A = self.matrix.entries if is_plain else self.matrix.dense()
        G = A.T @ A
        Q = arrays.like(self._scale * G, self.prototype)
        c = -self._scale * self.matrix.adjoint(self.b)[0]
        constant = 0.5 * self._scale * arrays.dot(self.b, self.b)
        return Quadratic._trusted(Dense(Q), c, constant)

    def _gram_is_safe(self) -> bool:
        """Is the smallest residual at least a tenth of b, and the arithmetic float64?"""
        if arrays.epsilon(self.prototype) > 1e-15:
            return False
        deadline.check(deadline.svd(*self.matrix.shape) / 8)  # once more for `gram` itself
        A = self.matrix.dense()
        b = np.asarray(arrays.to_numpy(self.b), dtype=np.float64)
        G = A.T @ A
        smallest, *_, largest = np.linalg.eigvalsh(G) if G.shape[0] > 1 else (G[0, 0], G[0, 0])
        if smallest <= 1e-8 * largest:  # the smallest residual cannot be found from G
            return False
        x = np.linalg.solve(G, A.T @ b)
        return bool(np.linalg.norm(A @ x - b) >= 0.1 * np.linalg.norm(b) > 0.0)

    def extent(self, x: Array) -> float:
        return arrays.norm(x) if self.gram is not None else super().extent(x)

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        return self.gram.forward(*xs) if self.gram is not None else super().forward(*xs)

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        if self.gram is not None:
            return self.gram.evaluate_async(at, values_at)
        return super().evaluate_async(at, values_at)

    def passes(self, lifts: int, slopes: int, values: int) -> int:
        return lifts if self.gram is not None else super().passes(lifts, slopes, values)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        if self.gram is not None:
            # G and A'b are themselves computed: their errors are those of |A|² and |A||b|.
            unit = self._scale * rounding_unit(epsilon, *self.matrix.shape)
            error = unit * self.matrix.frobenius * (self.matrix.frobenius * reach + self._size_b)
            return error * reach + unit * self._size_b * self._size_b, error
        unit, of_image, of_adjoint = self.matrix.errors(epsilon, self._spectral)
        residual = math.sqrt(2.0 * max(value, 0.0) / self._scale)
        error = of_image * reach + unit * self._size_b  # of the computed residual
        return (
            self._scale * (error * (residual + error) + unit * residual * residual),
            self._scale * (self._spectral * error + of_adjoint * (residual + error)),
        )

    @cached_property
    def _size_b(self) -> float:
        return arrays.norm(self.b)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return self._scale * (self.matrix.frobenius * reach + self._size_b) ** 2

    @cached_property
    def singular_values(self) -> np.ndarray[Any, Any] | None:
        """The singular values of A, descending; None where the matrix is too large."""
        rows, n = self.matrix.shape
        if min(rows, n) > SPECTRUM_LIMIT or rows * n > DENSE_LIMIT or not self.matrix.is_explicit:
            return None
        deadline.check(0.5 * deadline.svd(rows, n))
        return np.linalg.svd(self.matrix.dense(), compute_uv=False)

    @cached_property
    def _equilibrated(self) -> tuple[np.ndarray[Any, Any], float] | None:
        """The singular values of A in other units of its rows and columns, and a bound.

        A's own are at least theirs times that. None where A is too large.
        """
        if self.singular_values is None:
            return None
        A = self.matrix.dense()
        r, c = spectra.equilibrate(A)
        if np.all(r == 1.0) and np.all(c == 1.0):
            return self.singular_values, 1.0
        sigma = np.linalg.svd(r[:, None] * A * c, compute_uv=False)
        return sigma, 1.0 / float(np.max(r, initial=1.0) * np.max(c, initial=1.0))

    @cached_property
    def rank(self) -> int | None:
        """The rank of A, or None where it is not determined.

        Every singular value must be either rounding or at least 1e3 times that: rank is a decision,
        and without a gap there is none. It has no units: those of the equilibrated matrix decide,
        unless some of its rows or columns look like rounding errors themselves.
        """
        if self._equilibrated is None:
            return None
        A, epsilon = self.matrix.dense(), max(arrays.epsilon(self.prototype), self.data_epsilon)
        low, high = spectra.clear_rank(self._equilibrated[0], self.matrix.shape, epsilon)
        return low if low == high and spectra.cleaned(A, epsilon) is A else None

    @cached_property
    def growth(self) -> float:
        """The smallest positive eigenvalue of A'A (times the scale): least squares always has one.

        g(x) - g* <= |grad g(x)|²/(2 s²), s the smallest positive singular value, on R^n.
        """
        rank, smaller = self.rank, min(self.matrix.shape)
        if not rank or self.singular_values is None or self._equilibrated is None:
            return 0.0
        if rank < smaller and spectra.exact_rank(self.matrix.dense()) != rank:
            return 0.0  # singular values that look like zero are not: nothing is bounded by s
        alike, share = self._equilibrated
        noise = max(self.matrix.shape) * spectra.EPS * float(self.singular_values[0])
        s = max(float(self.singular_values[rank - 1]) - noise, share * float(alike[rank - 1]))
        return self._scale * (s * (1.0 - 1e-3)) ** 2  # 1e3 units of rounding are safe

    @cached_property
    def strong_convexity(self) -> float:  # type: ignore[override]
        """lambda_min(A'A) (times the scale), rounded down; 0 for wide and for large matrices."""
        rows, n = self.matrix.shape
        if rows < n or not self._has_eigenvalues:
            return 0.0
        values = self._eigenvalues
        noise = 64 * max(rows, n) * arrays.epsilon(self.prototype) * float(values[-1])
        return self._scale * max(float(values[0]) - noise, 0.0)


class Logistic(_LinearLoss):
    """sum_i log(1 + exp(-y_i <a_i, x>)), divided by the number of rows if ``mean``.

    Stable at any margin t: log(1 + e^-t) is computed without overflow, and the slope's weight
    1/(1 + e^t) = exp(-(t + log(1 + e^-t))) keeps its relative accuracy however small it is.

    Args:
        A: matrix as in LeastSquares, one row per example.
        y: labels, -1 or +1; a Series must have the index of A, if A is a DataFrame.
        mean: divide by the number of rows (the default).
        lipschitz: your own upper bound on lambda_max(A'A)/4 (over the rows if ``mean``).
    """

    _curvature = 0.25
    _kind = "logistic"

    def __init__(
        self, A: object, y: object, mean: bool = True, *, lipschitz: float | None = None
    ) -> None:
        super().__init__(A, mean, lipschitz)
        given = _as_given(A, self.matrix)
        remember(self, Logistic, A=given, y=y, mean=mean, lipschitz=lipschitz)
        self.y = self._per_row(A, y, "y")
        labels = arrays.to_numpy(self.y)
        if not bool(np.all(np.abs(labels) == 1.0)):
            found = ", ".join(f"{v:g}" for v in np.unique(labels)[:5])
            raise ValueError(f"Logistic: y must hold labels -1 and +1, got values {found}")
        self._zeros = arrays.zeros_like(self.y)

    @property
    def _target(self) -> Array:
        return self.y

    @property
    def in_float64(self) -> Logistic | None:
        matrix = self.matrix.in_float64
        if matrix is None:
            return None
        wide = Logistic(matrix, arrays.double(self.y), self.mean, lipschitz=self.known_lipschitz)
        wide.data_epsilon = arrays.epsilon(self.prototype)
        return wide

    def _loss(self, image: Array) -> Array:
        return arrays.namespace(image).sum(self._losses(self.y * image))

    def _slope(self, image: Array) -> tuple[Array, Array]:
        xp, margin = arrays.namespace(image), self.y * image
        losses = self._losses(margin)
        return xp.sum(losses), -self.y * xp.exp(-(margin + losses))

    def _losses(self, margin: Array) -> Array:
        """log(1 + e^-t) for all margins t."""
        if type(margin) is np.ndarray:  # where logaddexp takes several times as long as this
            return np.log1p(np.exp(-np.abs(margin))) + np.maximum(-margin, 0.0)
        return arrays.namespace(margin).logaddexp(self._zeros, -margin)

    def _pulls(self, images: Array, rows: slice) -> Array:
        y = self.y[rows]
        return -y / (1.0 + np.exp(y * images))  # where the power overflows, that is 0 as it should

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        rows = self.matrix.shape[0]
        unit, of_image, of_adjoint = self.matrix.errors(epsilon, self._spectral)
        error = of_image * reach  # of the computed margins
        return (
            self._scale * math.sqrt(rows) * error + unit * abs(value),
            self._scale * (self._spectral * error + of_adjoint * math.sqrt(rows)),
        )

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        rows = self.matrix.shape[0]
        return self._scale * (rows + math.sqrt(rows) * self.matrix.frobenius * reach)


def _index(Q: Any) -> Any:
    """The names of the rows of a DataFrame, where it has some."""
    return tables.names(Q.iloc[:, 0]) if tables.is_frame(Q) and Q.shape[1] else None


class Quadratic(SmoothFunction):
    """½x'Qx + c'x + constant with Q symmetric positive semidefinite.

    Args:
        Q: matrix, dense, scipy.sparse or a linear operator; checked for symmetry (an operator: on
            a random pair), and for a negative eigenvalue (all of them up to 2048 variables, by
            Lanczos beyond and for an operator).
        c: vector, zero if None. Where Q is in float32 and c has numbers that float32 does not
            hold, Q is widened to float64.
        constant: number.
        lipschitz: your own upper bound on the largest eigenvalue of Q.
    """

    def __init__(
        self,
        Q: object,
        c: object = None,
        constant: float = 0.0,
        *,
        lipschitz: float | None = None,
    ) -> None:
        matrix = checks.matrix("Quadratic", "Q", Q, is_symmetric=True)
        remember(self, Quadratic, Q=Q, c=c, constant=constant, lipschitz=lipschitz)
        self.names = tables.common(
            "Quadratic",
            ("the columns of Q", tables.names(Q) if tables.is_frame(Q) else None),
            ("the index of Q", _index(Q)),
            ("c", tables.names(c)),
            what="names",
        )
        rows, n = matrix.shape
        if rows != n:
            raise ValueError(f"Quadratic: Q must be square, got shape {rows} x {n}")
        if matrix.is_pass_expensive:
            raise TypeError(
                "Quadratic: Q must be a matrix in memory or an operator, got "
                f"{type(matrix).__name__}"
            )
        skew = 0.0
        if not isinstance(matrix, Operator):  # which is checked already
            skew = matrices.of(matrix.entries - matrix.transposed).frobenius
        if skew > 1e3 * arrays.epsilon(matrix.prototype) * matrix.frobenius:
            raise ValueError(
                "Quadratic: Q must be symmetric, got |Q - Q'| = "
                f"{skew:.2g} beside |Q| = {matrix.frobenius:.2g}; pass (Q + Q')/2"
            )
        if skew > 0.0:  # rounding only: the function has no other Q than this
            matrix = matrices.of(0.5 * (matrix.entries + matrix.transposed))
        if c is None:
            vector = arrays.like(np.zeros(n), matrix.prototype)
        else:
            vector = checks.length(
                "Quadratic", "c", checks.vector("Quadratic", "c", c), n, "row of Q"
            )
            fitted = checks.in_precision_of(matrix.prototype, vector)
            if fitted is None:
                self.data_epsilon = arrays.epsilon(matrix.prototype)
                matrix = _widened("Quadratic", "c", "Q", matrix)
                fitted = arrays.like(vector, matrix.prototype)
            vector = fitted
        constant = checks.finite("Quadratic", "constant", constant)
        self._set(matrix, vector, constant)
        smallest, largest = self._extremes
        unit = max(arrays.epsilon(matrix.prototype), self.data_epsilon)
        if smallest < -8 * n * unit * max(largest, -smallest):
            raise ValueError(
                "Quadratic: Q must be positive semidefinite (convex), "
                f"got the eigenvalue {smallest:.3g}"
            )
        if lipschitz is not None:
            self.lipschitz = checks.at_least("Quadratic", "lipschitz", lipschitz)

    def _set(self, matrix: Matrix, c: Array, constant: float) -> None:
        self.matrix, self.c, self.constant = matrix, c, constant
        self.dimension = matrix.shape[1]
        self.prototype = matrix.prototype

    @classmethod
    def _trusted(cls, matrix: Matrix, c: Array, constant: float) -> Quadratic:
        """Without the checks, for a Q that is a Gram matrix by construction, or was checked."""
        quadratic = cls.__new__(cls)
        quadratic._set(matrix, c, constant)
        return quadratic

    @property
    def in_float64(self) -> Quadratic | None:
        matrix = self.matrix.in_float64
        if matrix is None:
            return None
        wide = Quadratic._trusted(matrix, arrays.double(self.c), self.constant)
        wide.data_epsilon = arrays.epsilon(self.prototype)
        return wide

    def value(self, x: Array) -> float:
        return float(self._inner(x, self._apply(x))) + self.constant

    def _apply(self, x: Array) -> Array:
        return self.matrix.forward(x)[0]

    def _inner(self, x: Array, image: Array) -> Array:
        return arrays.inner(0.5 * image + self.c, x)

    def gradient(self, x: Array) -> Array:
        return self._apply(x) + self.c

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        return tuple(self.matrix.forward(*xs))

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        inner = [self._inner(p.x, p.image) for p in (*at, *values_at)]
        losses = arrays.pending_numbers(
            inner, lambda found: [some + self.constant for some in found]
        )
        slopes = [p.image + self.c for p in at]
        return PendingEvaluation.of(at, losses, lambda: slopes)

    def passes(self, lifts: int, slopes: int, values: int) -> int:
        return lifts

    @property
    def _has_spectrum(self) -> bool:
        """Are the entries of Q there, and few enough for all eigenvalues?"""
        return self.matrix.is_explicit and self.matrix.shape[0] <= SPECTRUM_LIMIT

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue of Q (Ritz values where Q is large)."""
        n = self.matrix.shape[0]
        if self._has_spectrum:
            deadline.check(0.25 * deadline.svd(n, n))
            values = np.linalg.eigvalsh(self.matrix.dense())
            return float(values[0]), float(values[-1])
        return spectra.extreme_eigenvalues(self._apply, self.prototype, n)

    @cached_property
    def lipschitz(self) -> float:  # type: ignore[override]
        """The largest eigenvalue of Q, rounded up; a Lanczos bound where Q is large."""
        n = self.matrix.shape[0]
        if self._has_spectrum:
            top = self._extremes[1] * (1.0 + 64 * arrays.epsilon(self.prototype))
        else:
            top = spectra.largest_eigenvalue_bound(self._apply, self.prototype, n)
        return max(top, 0.0)

    @cached_property
    def strong_convexity(self) -> float:  # type: ignore[override]
        """The smallest eigenvalue of Q, rounded down; 0 where Q is large."""
        n = self.matrix.shape[0]
        if not self._has_spectrum:
            return 0.0
        smallest, largest = self._extremes
        return max(smallest - 64 * n * arrays.epsilon(self.prototype) * abs(largest), 0.0)

    @cached_property
    def _least_positive(self) -> float:
        """A bound below the smallest positive eigenvalue, all others being 0; 0: that is not sure.

        Rounding cannot tell an eigenvalue 0 from 1e-17, but exact arithmetic tells the rank.
        """
        n = self.matrix.shape[0]
        if not self._has_spectrum or n > SMALL:
            return 0.0
        Q = self.matrix.dense()
        values, rank = np.linalg.eigvalsh(Q), spectra.exact_rank(Q)
        noise = 64 * n * arrays.epsilon(self.prototype) * float(np.max(np.abs(values)))
        return max(float(values[n - rank]) - noise, 0.0) if rank else 0.0

    @cached_property
    def growth(self) -> float:
        """The smallest positive eigenvalue, where c is in the range of Q, so that h has a minimum.

        Then h(x) - min h <= |grad h(x)|²/(2 mu) on R^n, as for least squares.
        """
        if self.strong_convexity > 0.0 or not self._least_positive > 0.0:
            return self.strong_convexity
        Q, c = self.matrix.dense(), np.asarray(arrays.to_numpy(self.c), dtype=np.float64)
        has_minimum = not c.any() or spectra.exact_rank(np.vstack([Q, c])) == spectra.exact_rank(Q)
        return self._least_positive if has_minimum else 0.0

    @cached_property
    def defect(self) -> float:  # type: ignore[override]
        """How far below 0 the smallest eigenvalue may be: a singular Q is not told from that."""
        smallest, largest = self._extremes
        if self.strong_convexity > 0.0 or self._least_positive > 0.0:
            return 0.0
        n = self.matrix.shape[0]
        return max(-smallest, 0.0) + 4 * n * arrays.epsilon(self.prototype) * abs(largest)

    @cached_property
    def lower_bound(self) -> float:  # type: ignore[override]
        """The constant of a definite Q without a linear term, otherwise not known unsolved."""
        is_plain = arrays.max_abs(self.c) == 0.0 and self.defect == 0.0
        return self.constant if is_plain else -math.inf

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        unit = rounding_unit(epsilon, *self.matrix.shape)
        error = unit * (self.matrix.frobenius * reach + self._size_c)
        return error * reach + unit * abs(self.constant), error

    @cached_property
    def _size_c(self) -> float:
        return arrays.norm(self.c)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return (self.matrix.frobenius * reach + self._size_c) * reach + abs(self.constant)
