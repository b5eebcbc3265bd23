"""Functions in closed form: squared norm, linear, and zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiebreak.functions.base import (
    PendingEvaluation,
    PointWithImage,
    SmoothFunction,
    Squares,
)
from tiebreak.functions.far_slopes import FarRows
from tiebreak.functions.parts.quadratic_parts import (
    LeastSquaresPart,
    LinearPart,
    Part,
)
from tiebreak.linalg import (
    Array,
    arrays,
    checks,
    remember,
    rounding_unit,
    tables,
)
from tiebreak.linalg.conic_form import ConicForm, Cost
from tiebreak.linalg.host import host, top_exponent
from tiebreak.linalg.host_rows import HostRows
from tiebreak.sets.descriptions import identity


class SquaredNorm(SmoothFunction):
    """weight/2 |x - center|², or ½ sum_j weight_j (x_j - center_j)² with one weight per variable.

    Args:
        weight: a positive number; or a vector with one non-negative entry per variable, at least
            one of them positive. Variables of weight 0, such as an intercept, are not penalised.
        center: vector, the origin if None; center and weights are copied.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(weight=[1, 3]))
        >>> tb.solve(problem).x.round(4)  # the second variable has three times the weight
        array([1.5, 0.5])
    """

    lower_bound = 0.0
    falls_unseen = False
    degree = 2
    weight: Any  # a number, or a vector like the center
    growth = 0.0  # set by the constructor

    def __init__(self, weight: object = 1.0, center: object = None) -> None:
        remember(self, SquaredNorm, weight=weight, center=center)
        both = ("weight", tables.names(weight)), ("center", tables.names(center))
        self.names: tuple[Any, ...] | None = tables.common("SquaredNorm", *both, what="names")
        self.is_scalar: bool = not checks.is_sequence(weight)
        self.center = None if center is None else checks.vector("SquaredNorm", "center", center)
        if self.is_scalar:
            self.weight = checks.positive("SquaredNorm", "weight", weight)
            self.lipschitz = self.strong_convexity = self.growth = self.weight
        else:
            self._set_weights(checks.weights("SquaredNorm", "weight", weight))
        self.amplification: float = self.lipschitz  # by weights
        self._size = 0.0 if self.center is None else self.extent(self.center)
        vector = self.center if self.is_scalar else self.weight
        if vector is not None:
            self.dimension: int = int(vector.shape[0])
            self.prototype: Any | None = vector[:0]

    def _set_weights(self, weights: Array) -> None:
        """Set a weight for each variable, in the same precision as the center."""
        if self.center is not None:
            checks.length("SquaredNorm", "center", self.center, int(weights.shape[0]), "weight")
            weights, self.center = checks.in_one_precision(
                "SquaredNorm", ("weight", weights), ("center", self.center)
            )
        self.weight, w = weights, arrays.to_numpy(weights)
        if not w.any():
            raise ValueError("SquaredNorm: weight must have a positive entry, got only zeros")
        self.lipschitz, self.strong_convexity = float(w.max()), float(w.min())
        self.growth = float(w[w > 0.0].min())
        self._counts = np.asarray(w > 0.0, dtype=float)

    @property
    def squares(self) -> Squares:
        if self.is_scalar:
            return Squares(None, self.center, scale=self.weight)
        return Squares(None, self.center, host(self.weight))

    @property
    def in_float64(self) -> SquaredNorm:
        weight = self.weight if self.is_scalar else arrays.double(self.weight)
        return SquaredNorm(weight, None if self.center is None else arrays.double(self.center))

    def parts(self, weight: float, n: int) -> list[Part]:
        center = np.zeros(n) if self.center is None else host(self.center)
        if self.is_scalar:
            return [LeastSquaresPart(weight * self.weight, np.eye(n), center)]
        w = host(self.weight)
        top, counts = top_exponent(w), w > 0.0
        rows, w = np.eye(n)[counts], np.ldexp(w, -top)[counts]
        return [LeastSquaresPart(math.ldexp(weight, top), rows, center[counts], w)]

    def add_to_conic(self, form: ConicForm, cost: Cost, weight: float) -> bool:
        center = 0.0 if self.center is None else host(self.center)
        cost.add_squares(weight * host(self.weight), form.x - center)
        return True

    def far_rows(self, weight: float, n: int) -> FarRows:
        return FarRows([HostRows(identity(n)[np.broadcast_to(host(self.weight), n) > 0.0])])

    def _weighted(self, shifted: Array) -> Array:
        return (self.weight if self.is_scalar else arrays.like(self.weight, shifted)) * shifted

    def value(self, x: Array) -> float:
        shifted = arrays.from_center(x, self.center)
        if not self.is_scalar:
            return 0.5 * arrays.dot(self._weighted(shifted), shifted)
        return 0.5 * float(self.weight) * arrays.dot(shifted, shifted)

    def gradient(self, x: Array) -> Array:
        return self._weighted(arrays.from_center(x, self.center))

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        shifted = [arrays.from_center(p.x, self.center) for p in (*at, *values_at)]
        half = 0.5 * self.weight if self.is_scalar else 0.5
        weighted = shifted if self.is_scalar else [self._weighted(s) for s in shifted]
        squares = [arrays.inner(w, s) for w, s in zip(weighted, shifted, strict=True)]
        losses = arrays.pending_numbers(squares, lambda found: [half * square for square in found])
        slopes = weighted[: len(at)]
        if self.is_scalar and self.weight != 1.0:  # with weight 1 no copy is needed
            slopes = [self.weight * s for s in slopes]
        return PendingEvaluation.of(at, losses, lambda: slopes)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        error = self.lipschitz * rounding_unit(epsilon, n) * (reach + self._size)
        return error * (reach + self._size), error

    def extent(self, x: Array) -> float:
        """The length of the entries of x whose weight is not 0."""
        return arrays.norm(x if self.is_scalar else arrays.like(self._counts, x) * x)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return self.lipschitz * (reach + self._size) ** 2


class Linear(SmoothFunction):
    """<c, x> + constant.

    Args:
        c: vector.
        constant: number added to all values; a relative slack refers to values that include it.

    Examples:
        >>> cost, even = tb.Linear([1, 1, 2]), tb.SquaredNorm()
        >>> tb.solve(tb.Problem(lower=cost, upper=even, domain=tb.Simplex())).x.round(4)
        array([0.5, 0.5, 0. ])
    """

    lipschitz = 0.0
    falls_unseen = False
    degree = 1

    def __init__(self, c: object, constant: float = 0.0) -> None:
        remember(self, Linear, c=c, constant=constant)
        self.names: tuple[Any, ...] | None = tables.names(c)
        self.c: Array = checks.vector("Linear", "c", c)
        self.constant: float = checks.finite("Linear", "constant", constant)
        self.dimension: int = int(self.c.shape[0])
        self.prototype: Any | None = self.c[:0]
        self._size = arrays.norm(self.c)
        if self._size == 0.0:
            self.lower_bound: float = self.constant

    @property
    def in_float64(self) -> Linear:
        return Linear(arrays.double(self.c), self.constant)

    @property
    def negative(self) -> Linear:
        made = Linear(-self.c, -self.constant)
        made.names = self.names
        return made

    def add_to_conic(self, form: ConicForm, cost: Cost, weight: float) -> bool:
        cost.add(weight, form.of_x(host(self.c)[None], self.constant))
        return True

    def far_rows(self, weight: float, n: int) -> FarRows:
        return FarRows(linear=host(self.c))

    def parts(self, weight: float, n: int) -> list[Part]:
        return [LinearPart(weight, host(self.c)[None])]

    def value(self, x: Array) -> float:
        return arrays.dot(self.c, x) + self.constant

    def gradient(self, x: Array) -> Array:
        return self.c

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        unit = rounding_unit(epsilon, self.c.shape[0])
        return unit * (self._size * reach + abs(self.constant)), 0.0

    def extent(self, x: Array) -> float:
        """The sum of |c_i| |x_i|/|c|, or |x| if that is smaller or c is not on the host.

        The shares |c_i|/|c| might underflow, so shares below 2^-60 are rounded up to 2^-60.
        """
        size = arrays.norm(x)
        if type(self.c) is not np.ndarray or not 0.0 < self._size < math.inf:
            return size
        shares = np.maximum(np.abs(self.c) / self._size, 2.0**-60)
        unit = rounding_unit(arrays.epsilon(x), len(shares))
        return min(size, float(shares @ np.abs(x)) * (1.0 + unit))

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return self._size * reach + abs(self.constant)

    def turning(self, reach: float, slope: float) -> float:
        return self._size  # c is exact, but a multiple of c is rounded


class Flat(SmoothFunction, in_tables=False):
    """The function 0: the smooth part of a function that is only a penalty."""

    lipschitz = 0.0
    lower_bound = 0.0
    falls_unseen = False
    degree = 0
    is_zero = True

    def __repr__(self) -> str:
        return "0"

    @property
    def in_float64(self) -> Flat:
        return self

    def add_to_conic(self, form: ConicForm, cost: Cost, weight: float) -> bool:
        return True

    def far_rows(self, weight: float, n: int) -> FarRows:
        return FarRows()

    def parts(self, weight: float, n: int) -> list[Part]:
        return []

    def value(self, x: Array) -> float:
        return 0.0

    def gradient(self, x: Array) -> Array:
        return arrays.zeros_like(x)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        return 0.0, 0.0

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return 0.0
