"""Positive multiples and sums of smooth functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, Self, TypeVar

from tiebreak.functions.base import (
    Function,
    Minorant,
    Outcome,
    PendingEvaluation,
    PointWithImage,
    Projection,
    SmoothFunction,
    delegated,
    with_members,
)
from tiebreak.linalg import Array, Image, Matrix, arrays, checks, tables
from tiebreak.linalg.fingerprints import known, remember

F = TypeVar("F", bound=Function)
N = TypeVar("N", float, Fraction)


def _summed(name: str) -> Any:
    """The weighted sum of a named property over all functions."""
    return property(lambda self: sum(w * getattr(h, name) for w, h in self.summed))


@with_members(
    _summed, "lipschitz", "known_lipschitz", "rough_lipschitz", "lower_bound", "amplification"
)
class Combination(SmoothFunction, is_open=True):
    """A sum of functions times positive weights: the base of `Scaled` and `Sum`."""

    @property
    def summed(self) -> list[tuple[float, SmoothFunction]]:
        """The functions of the sum, with their weights."""
        raise NotImplementedError

    def _of(self, functions: list[Any]) -> Any:
        """The combination of ``functions`` with the same weights."""
        raise NotImplementedError

    @property
    def in_float64(self) -> Self | None:
        functions = [h.in_float64 for _, h in self.summed]
        return None if None in functions else self._of(functions)

    @property
    def negative(self) -> SmoothFunction | None:
        functions = [h.negative for _, h in self.summed]
        return None if None in functions else self._of(functions)

    def sized(self, x0: Array, project: Projection, in_sum: bool = False) -> SmoothFunction:
        in_sum = in_sum or len(self.summed) > 1
        pairs = [(h, h.sized(x0, project, in_sum)) for _, h in self.summed]
        return self if all(h is new for h, new in pairs) else self._of([new for _, new in pairs])

    _curvature, _defect = _summed("strong_convexity"), _summed("defect")

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        """The part of the curvature that the functions' defects leave."""
        curvature: float = self._curvature
        return max(curvature - self._defect, 0.0) if curvature > 0.0 else 0.0

    @property
    def defect(self) -> float:  # type: ignore[override]
        """The part of the functions' defects that their curvature does not make up for."""
        return float(max(self._defect - self._curvature, 0.0))

    @property
    def shares_passes(self) -> bool:  # type: ignore[override]
        return any(h.shares_passes for _, h in self.summed)

    def value(self, x: Array) -> float:
        return sum(w * h.value(x) for w, h in self.summed)

    def passes(self, forwards: int, slopes: int, values: int) -> int:
        return sum(h.passes(forwards, slopes, values) for _, h in self.summed)

    def extent(self, x: Array) -> float:
        return max(h.extent(x) for _, h in self.summed)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return sum(w * h.magnitude(reach, value / w, slope / w) for w, h in self.summed)

    def turning(self, reach: float, slope: float) -> float:
        return sum(w * h.turning(reach, slope / w) for w, h in self.summed)


@with_members(_summed, "growth")
@with_members(delegated("function"), "forward", "solution_dimension")
class Scaled(Combination, in_tables=False):
    """A positive multiple of a function h, written ``weight * h``."""

    function: SmoothFunction

    def __init__(self, weight: float, function: SmoothFunction) -> None:
        remember(self, Scaled, weight=weight, function=function)
        self.weight: float = checks.positive("Scaled", "weight", weight)
        self.function, self.names = known(function), function.names
        self.dimension, self.prototype = function.dimension, function.prototype

    @property
    def summed(self) -> list[tuple[float, SmoothFunction]]:
        return [(self.weight, self.function)]

    def _of(self, functions: list[Any]) -> Scaled:
        return Scaled(self.weight, *functions)

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


class Sum(Combination, in_tables=False):
    """The sum of two functions, written ``first + second``; its images are pairs of images."""

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
        self.names: tuple[Any, ...] | None = tables.common(
            "Sum", ("first", first.names), ("second", second.names)
        )
        first, second = in_one_precision("Sum: both functions", known(first), known(second))
        self.first, self.second = first, second
        self.dimension: int | None = sizes[0] if sizes else None
        self.prototype: Any | None = (
            first.prototype if first.prototype is not None else second.prototype
        )

    @property
    def summed(self) -> list[tuple[float, SmoothFunction]]:
        return [(1.0, self.first), (1.0, self.second)]

    def _of(self, functions: list[Any]) -> Sum:
        return Sum(*functions)

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

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        # The values of the two parts are unknown and may cancel, so bounds are used: each part is
        # at most the sum minus a lower bound on the other part. Slopes may cancel too: `turning`.
        shares = []
        for h, other in ((self.first, self.second), (self.second, self.first)):
            most = max(abs(value) - other.lower_bound, abs(h.lower_bound))
            size = min(h.magnitude(reach, value, slope), most)
            if math.isinf(size):  # then bound the size of h with the size of the other part
                size = abs(value) + other.magnitude(reach, value, slope)
            steepness = slope + h.turning(reach, slope)
            shares.append(h.rounding(reach, size, steepness, epsilon, n))
        of_value, of_slope = (sum(errors) for errors in zip(*shares, strict=True))
        return of_value + epsilon * abs(value), of_slope + epsilon * slope


def in_one_precision(who: str, first: F, second: F) -> tuple[F, F]:
    """Both functions for vectors of the same dtype: float64 if one of them needs it.

    Raise ValueError if the libraries of the functions differ, or if one cannot be converted.
    """
    prototypes = [h.prototype for h in (first, second) if h.prototype is not None]
    if len({(type(x), x.dtype) for x in prototypes}) < 2:
        return first, second
    found = [h if not arrays.is_single(h.prototype) else h.in_float64 for h in (first, second)]
    if len(set(map(type, prototypes))) > 1 or None in found:
        got = " and ".join(map(arrays.kind, prototypes))
        raise ValueError(f"{who} must hold arrays of the same library and dtype, got {got}")
    return found[0], found[1]  # type: ignore[return-value]


def summands(h: Function, weight: N = 1.0) -> list[tuple[N, Function]]:  # type: ignore[assignment]
    """The functions whose weighted sum is h, with their weights (of the type of ``weight``)."""
    if not isinstance(h, Combination):
        return [(weight, h)]
    each = (summands(part, weight * type(weight)(w)) for w, part in h.summed)
    return list(chain.from_iterable(each))


def images_of(h: Function, image: Image) -> list[Image]:
    """The images of the functions whose weighted sum is h, taken from the image of h."""
    if isinstance(h, Scaled):
        return images_of(h.function, image)
    if isinstance(h, Sum):
        return images_of(h.first, image[0]) + images_of(h.second, image[1])
    return [image]


def matrices_of(h: Function) -> list[Matrix]:
    """The matrices of the functions whose weighted sum is h."""
    return [part.matrix for _, part in summands(h.bare) if part.matrix is not None]
