"""Quadratic functions, and what the eigenvalues of Q say about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tiebreak.functions.base import (
    PendingEvaluation,
    PointWithImage,
    SmoothFunction,
)
from tiebreak.functions.far_slopes import FarRows
from tiebreak.functions.parts.quadratic_parts import (
    LinearPart,
    Part,
    QuadraticPart,
)
from tiebreak.linalg import (
    Array,
    Image,
    Matrix,
    Operator,
    arrays,
    checks,
    deadline,
    matrices,
    remember,
    rounding_unit,
    spectra,
    tables,
)
from tiebreak.linalg.conic_form import ConicForm, Cost, add_quadratic
from tiebreak.linalg.host import host
from tiebreak.linalg.host_rows import HostRows
from tiebreak.linalg.sizes import LARGE_SIDE, SMALL_SIDE


class Quadratic(SmoothFunction):
    """½x'Qx + c'x + constant with Q symmetric positive semidefinite.

    Args:
        Q: a dense or scipy.sparse matrix or a linear operator. Q must be symmetric and have no
            negative eigenvalue. The symmetry of an operator is tested on a random pair of vectors.
            All eigenvalues are computed for up to 2048 variables; larger matrices and operators are
            tested by the Lanczos method.
        c: vector, zero if None. If Q is in float32 and c has numbers that float32 cannot represent,
            Q is converted to float64.
        constant: number.
        lipschitz: your own upper bound on the largest eigenvalue of Q.

    Examples:
        >>> risk = tb.Quadratic([[1, 1, 0], [1, 1, 0], [0, 0, 1]])  # two assets are the same
        >>> problem = tb.Problem(lower=risk, upper=tb.SquaredNorm(), domain=tb.Simplex())
        >>> tb.solve(problem).x.round(4)
        array([0.25, 0.25, 0.5 ])
    """

    matrix: Matrix
    c: Array
    constant: float
    falls_unseen = False
    degree = 2
    title = "quadratic"

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
        frame: Any = Q if tables.is_frame(Q) else None
        column = frame.iloc[:, 0] if frame is not None and frame.shape[1] else None
        self.names: tuple[Any, ...] | None = tables.common(
            "Quadratic",
            ("the columns of Q", tables.names(frame)),
            ("the index of Q", tables.names(column)),
            ("c", tables.names(c)),
            what="names",
        )
        matrix, n = _symmetric(matrix), matrix.shape[1]
        unit = arrays.epsilon(matrix.prototype)
        if c is None:
            vector = arrays.like(np.zeros(n), matrix.prototype)
        else:
            given = checks.vector("Quadratic", "c", c)
            given = checks.length("Quadratic", "c", given, n, "row of Q")
            vector, fitted = checks.with_matrix("Quadratic", "c", given, "Q", matrix)
            if fitted is not matrix:
                matrix, self.data_epsilon = fitted, unit
        self._set(matrix, vector, checks.finite("Quadratic", "constant", constant))
        smallest, largest = self._extremes
        if smallest < -8 * n * unit * max(largest, -smallest):
            raise ValueError(
                "Quadratic: Q must be positive semidefinite (convex), "
                f"got the eigenvalue {smallest:.3g}"
            )
        if lipschitz is not None:
            self.lipschitz = checks.at_least("Quadratic", "lipschitz", lipschitz)

    def _set(self, matrix: Matrix, c: Array, constant: float) -> None:
        self.matrix, self.c, self.constant = matrix, c, constant
        self.dimension, self.prototype = matrix.shape[1], matrix.prototype

    @classmethod
    def trusted(cls, matrix: Matrix, c: Array, constant: float) -> Quadratic:
        """Make a Quadratic without checks, for a Q that is a Gram matrix or was already checked."""
        quadratic = cls.__new__(cls)
        cls._set(quadratic, matrix, c, constant)
        return quadratic

    @property
    def in_float64(self) -> Quadratic | None:
        matrix = self.matrix.in_float64
        if matrix is None:
            return None
        wide = Quadratic.trusted(matrix, arrays.double(self.c), self.constant)
        wide.data_epsilon = arrays.epsilon(self.prototype)
        return wide

    def add_to_conic(self, form: ConicForm, cost: Cost, weight: float) -> bool:
        epsilon = max(arrays.epsilon(self.prototype), self.data_epsilon)
        add_quadratic(
            form, cost, weight, self.matrix.on_host(), host(self.c), self.constant, epsilon
        )
        return True

    def far_rows(self, weight: float, n: int) -> FarRows | None:
        rows = HostRows.of(self.matrix)
        return None if rows is None else FarRows([rows], linear=host(self.c))

    def parts(self, weight: float, n: int) -> list[Part]:
        tilt = LinearPart(weight, host(self.c)[None])
        return [QuadraticPart(weight, self.matrix.dense()), tilt]

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

    def passes(self, forwards: int, slopes: int, values: int) -> int:
        return forwards

    @property
    def _has_spectrum(self) -> bool:
        """Are the entries of Q available, and few enough for all eigenvalues?"""
        return self.matrix.is_explicit and self.matrix.shape[0] <= LARGE_SIDE

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        """The smallest and largest eigenvalue of Q (Ritz values if Q is large)."""
        n = self.matrix.shape[0]
        if self._has_spectrum:
            deadline.check(0.25 * deadline.svd_work(n, n))
            values = np.linalg.eigvalsh(self.matrix.dense())
            return float(values[0]), float(values[-1])
        return spectra.extreme_eigenvalues(self._apply, self.prototype, n)

    @cached_property
    def lipschitz(self) -> float:  # type: ignore[override]
        """The largest eigenvalue of Q, rounded up; a Lanczos bound if Q is large."""
        n = self.matrix.shape[0]
        if self._has_spectrum:
            top = self._extremes[1] * (1.0 + 64 * arrays.epsilon(self.prototype))
        else:
            top = spectra.largest_eigenvalue_bound(self._apply, self.prototype, n)
        return max(top, 0.0)

    @cached_property
    def strong_convexity(self) -> float:  # type: ignore[override]
        """The smallest eigenvalue of Q, rounded down; 0 if Q is large."""
        n = self.matrix.shape[0]
        if not self._has_spectrum:
            return 0.0
        smallest, largest = self._extremes
        return max(smallest - 64 * n * arrays.epsilon(self.prototype) * abs(largest), 0.0)

    @cached_property
    def _least_positive(self) -> float:
        """A lower bound on the smallest positive eigenvalue; 0 if no such bound is known.

        Floating-point arithmetic cannot distinguish an eigenvalue of 0 from one of 1e-17, but exact
        arithmetic gives the rank.
        """
        n = self.matrix.shape[0]
        if not self._has_spectrum or n > SMALL_SIDE:
            return 0.0
        Q = self.matrix.dense()
        values, rank = np.linalg.eigvalsh(Q), spectra.exact_rank(Q)
        noise = 64 * n * arrays.epsilon(self.prototype) * float(np.max(np.abs(values)))
        return max(float(values[n - rank]) - noise, 0.0) if rank else 0.0

    @cached_property
    def growth(self) -> float:
        """The smallest positive eigenvalue if c is in the range of Q: then h has a minimum.

        If mu is the smallest positive eigenvalue, h(x) - min h <= |grad h(x)|²/(2 mu) on R^n, as
        for least squares.
        """
        if self.strong_convexity > 0.0 or not self._least_positive > 0.0:
            return self.strong_convexity
        Q, c = self.matrix.dense(), np.asarray(arrays.to_numpy(self.c), dtype=np.float64)
        has_minimum = not c.any() or spectra.exact_rank(np.vstack([Q, c])) == spectra.exact_rank(Q)
        return self._least_positive if has_minimum else 0.0

    @cached_property
    def defect(self) -> float:  # type: ignore[override]
        """How far below 0 the smallest eigenvalue may be; 0 if Q is certainly semidefinite."""
        smallest, largest = self._extremes
        if self.strong_convexity > 0.0 or self._least_positive > 0.0:
            return 0.0
        n = self.matrix.shape[0]
        return max(-smallest, 0.0) + 4 * n * arrays.epsilon(self.prototype) * abs(largest)

    @cached_property
    def lower_bound(self) -> float:  # type: ignore[override]
        """The constant if Q is semidefinite and there is no linear term; -inf otherwise."""
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


def _symmetric(matrix: Matrix) -> Matrix:
    """The matrix made exactly symmetric; it must be symmetric up to rounding."""
    rows, n = matrix.shape
    if rows != n:
        raise ValueError(f"Quadratic: Q must be square, got shape {rows} x {n}")
    if matrix.is_pass_expensive:
        raise TypeError(
            f"Quadratic: Q must be a matrix in memory or an operator, got {type(matrix).__name__}"
        )
    if isinstance(matrix, Operator):  # `checks.matrix` has tested its symmetry
        return matrix
    skew = matrices.of(matrix.entries - matrix.transposed).frobenius
    if skew > 1e3 * arrays.epsilon(matrix.prototype) * matrix.frobenius:
        raise ValueError(
            "Quadratic: Q must be symmetric, got |Q - Q'| = "
            f"{skew:.2g} relative to |Q| = {matrix.frobenius:.2g}; pass (Q + Q')/2"
        )
    return matrices.of(0.5 * (matrix.entries + matrix.transposed)) if skew > 0.0 else matrix
