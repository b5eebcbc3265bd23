"""Positive multiples and sums of smooth functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeVar

from tiebreak.functions.base import (
    Function,
    Minorant,
    Outcome,
    PendingEvaluation,
    PointWithImage,
    Projection,
    SmoothFunction,
    delegated,
)
from tiebreak.linalg import Array, Image, Matrix, arrays, checks, tables
from tiebreak.linalg.fingerprints import known, remember

F = TypeVar("F", bound=Function)
N = TypeVar("N", float, Fraction)


def _weighted(name: str) -> Any:
    """The property of this name, times the weight."""
    return property(lambda self: self.weight * getattr(self.function, name))


def _added(name: str) -> Any:
    """The sum of the two functions' properties of this name."""
    return property(lambda self: getattr(self.first, name) + getattr(self.second, name))


class Scaled(SmoothFunction, in_tables=False):
    """weight * h, written ``weight * h``."""

    function: SmoothFunction

    def __init__(self, weight: float, function: SmoothFunction) -> None:
        remember(self, Scaled, weight=weight, function=function)
        self.weight: float = checks.positive("Scaled", "weight", weight)
        self.function, self.names = known(function), function.names
        self.dimension, self.prototype = function.dimension, function.prototype

    @property
    def in_float64(self) -> Scaled | None:
        function = self.function.in_float64
        return None if function is None else Scaled(self.weight, function)

    @property
    def negative(self) -> SmoothFunction | None:
        function = self.function.negative
        return None if function is None else Scaled(self.weight, function)

    def sized(self, x0: Array, project: Projection) -> SmoothFunction:
        function = self.function.sized(x0, project)
        return self if function is self.function else Scaled(self.weight, function)

    shares_passes = delegated("function.shares_passes")
    forward = delegated("function.forward")
    passes = delegated("function.passes")
    extent = delegated("function.extent")
    solution_dimension = delegated("function.solution_dimension")
    lipschitz = _weighted("lipschitz")
    known_lipschitz = _weighted("known_lipschitz")
    rough_lipschitz = _weighted("rough_lipschitz")
    strong_convexity = _weighted("strong_convexity")
    defect = _weighted("defect")
    lower_bound = _weighted("lower_bound")
    growth = _weighted("growth")

    def value(self, x: Array) -> float:
        return self.weight * self.function.value(x)

    def gradient(self, x: Array) -> Array:
        return self.weight * self.function.gradient(x)

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        pending, w = self.function.evaluate_async(at, values_at), self.weight

        def end() -> Outcome:
            found, values = pending()
            scaled = [Minorant(m.at, w * m.value, w * m.slope, w * m.size, m.reach) for m in found]
            return scaled, [w * v for v in values]

        return PendingEvaluation(end)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        w = self.weight
        of_value, of_slope = self.function.rounding(reach, value / w, slope / w, epsilon, n)
        return w * of_value + epsilon * abs(value), w * of_slope + epsilon * slope

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return self.weight * self.function.magnitude(
            reach, value / self.weight, slope / self.weight
        )

    def turning(self, reach: float, slope: float) -> float:
        return self.weight * self.function.turning(reach, slope / self.weight)


class Sum(SmoothFunction, in_tables=False):
    """first + second, written ``first + second``; an image is the pair of their images."""

    first: SmoothFunction
    second: SmoothFunction

    def __init__(self, first: SmoothFunction, second: SmoothFunction) -> None:
        sizes = [h.dimension for h in (first, second) if h.dimension is not None]
        if len(set(sizes)) > 1:
            raise ValueError(
                "Sum: both functions must have the same number of variables, "
                f"got {sizes[0]} and {sizes[1]}"
            )
        remember(self, Sum, first=first, second=second)
        self.names = tables.common("Sum", ("first", first.names), ("second", second.names))
        first, second = in_one_precision("Sum: both functions", known(first), known(second))
        self.first, self.second = first, second
        self.dimension = sizes[0] if sizes else None
        self.prototype = first.prototype if first.prototype is not None else second.prototype

    @property
    def in_float64(self) -> Sum | None:
        first, second = self.first.in_float64, self.second.in_float64
        return None if first is None or second is None else Sum(first, second)

    @property
    def negative(self) -> SmoothFunction | None:
        first, second = self.first.negative, self.second.negative
        return None if first is None or second is None else Sum(first, second)

    def sized(self, x0: Array, project: Projection) -> SmoothFunction:
        first, second = (h.sized(x0, project) for h in (self.first, self.second))
        return self if first is self.first and second is self.second else Sum(first, second)

    lipschitz = _added("lipschitz")
    known_lipschitz = _added("known_lipschitz")
    rough_lipschitz = _added("rough_lipschitz")
    strong_convexity = _added("strong_convexity")
    defect = _added("defect")
    lower_bound = _added("lower_bound")

    @property
    def shares_passes(self) -> bool:  # type: ignore[override]
        return self.first.shares_passes or self.second.shares_passes

    def value(self, x: Array) -> float:
        return self.first.value(x) + self.second.value(x)

    def gradient(self, x: Array) -> Array:
        return self.first.gradient(x) + self.second.gradient(x)

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        return tuple(zip(self.first.forward(*xs), self.second.forward(*xs), strict=True))

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        pending = [
            h.evaluate_async(
                [PointWithImage(p.x, p.image[i], p.reach) for p in at],
                [PointWithImage(p.x, p.image[i], p.reach) for p in values_at],
            )
            for i, h in enumerate((self.first, self.second))
        ]

        def end() -> Outcome:
            (minorants, values), (others, other_values) = (one() for one in pending)
            return (
                [
                    Minorant(
                        m.at,
                        m.value + o.value,
                        m.slope + o.slope,
                        (m.size or abs(m.value)) + (o.size or abs(o.value)),
                        m.reach,
                    )
                    for m, o in zip(minorants, others, strict=True)
                ],
                [v + w for v, w in zip(values, other_values, strict=True)],
            )

        return PendingEvaluation(end)

    def passes(self, forwards: int, slopes: int, values: int) -> int:
        return sum(h.passes(forwards, slopes, values) for h in (self.first, self.second))

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        # The values of the two parts are not known here and may cancel, so we use bounds: a part
        # is at most the sum minus a lower bound on the other part.
        shares = []
        for h, other in ((self.first, self.second), (self.second, self.first)):
            most = max(abs(value) - other.lower_bound, abs(h.lower_bound))
            size = min(h.magnitude(reach, value, slope), most)
            if math.isinf(size):  # then the data of the other part bound it
                size = abs(value) + other.magnitude(reach, value, slope)
            steepness = slope + h.turning(reach, slope)
            shares.append(h.rounding(reach, size, steepness, epsilon, n))
        of_value, of_slope = (sum(errors) for errors in zip(*shares, strict=True))
        return of_value + epsilon * abs(value), of_slope + epsilon * slope

    def extent(self, x: Array) -> float:
        return max(self.first.extent(x), self.second.extent(x))

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return sum(h.magnitude(reach, value, slope) for h in (self.first, self.second))


def in_one_precision(who: str, first: F, second: F) -> tuple[F, F]:
    """Both functions for vectors of the same dtype: float64 if one of them needs it.

    ValueError if their libraries differ, or one cannot be converted.
    """
    kinds = [arrays.kind(h.prototype) for h in (first, second) if h.prototype is not None]
    if len(set(kinds)) < 2:
        return first, second
    found = [h if not arrays.is_single(h.prototype) else h.in_float64 for h in (first, second)]
    if len({kind.split()[0] for kind in kinds}) > 1 or None in found:
        raise ValueError(
            f"{who} must hold arrays of the same library and dtype, got {kinds[0]} and {kinds[1]}"
        )
    return found[0], found[1]  # type: ignore[return-value]


def summands(h: Function, weight: N = 1.0) -> list[tuple[N, Function]]:  # type: ignore[assignment]
    """The functions that h is a weighted sum of, with their weights (of the type of ``weight``)."""
    if isinstance(h, Scaled):
        return summands(h.function, weight * type(weight)(h.weight))
    if isinstance(h, Sum):
        return summands(h.first, weight) + summands(h.second, weight)
    return [(weight, h)]


def images_of(h: Function, image: Image) -> list[Image]:
    """The images of the functions that h is a weighted sum of, taken from the image of h."""
    if isinstance(h, Scaled):
        return images_of(h.function, image)
    if isinstance(h, Sum):
        return images_of(h.first, image[0]) + images_of(h.second, image[1])
    return [image]


def matrices_of(h: Function) -> list[Matrix]:
    """The matrices of the functions that h is a weighted sum of."""
    return [part.matrix for _, part in summands(h.bare) if part.matrix is not None]
