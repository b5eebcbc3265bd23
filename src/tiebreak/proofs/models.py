"""Lower models: weighted sums of minorants, and the points where these sums are lowest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tiebreak.linalg import Array, arrays, in_files


@in_files("model")
class Model(NamedTuple):
    """A weighted sum of minorants of f1 and g1: constant + <slope, x> + curvature/2 |x|².

    ``upper`` and ``lower`` are the sums of the weights; f2 and g2 are added with these weights.
    Without f2 and g2, the true sum at x is at least this model minus value_error + slope_error |x|.
    """

    upper: float
    lower: float
    constant: float
    slope: Array
    curvature: float
    value_error: float
    slope_error: float

    @property
    def weight(self) -> float:
        """The sum of all weights."""
        return self.upper + self.lower

    @property
    def is_finite(self) -> bool:
        """Are all numbers finite? (The slope's error bound covers its norm, too.)"""
        return math.isfinite(self.constant) and math.isfinite(self.slope_error)

    def plus(self, other: Model, factor: float = 1.0) -> Model:
        """This sum plus ``factor`` times another sum."""
        return Model(  # written out for speed: ten calls per step
            self.upper + factor * other.upper,
            self.lower + factor * other.lower,
            self.constant + factor * other.constant,
            arrays.plus(self.slope, other.slope, factor),
            self.curvature + factor * other.curvature,
            self.value_error + factor * other.value_error,
            self.slope_error + factor * other.slope_error,
        )

    def scaled(self, factor: float) -> Model:
        """``factor`` times this sum."""
        return Model(*(factor * part for part in self))

    def at(self, x: Array) -> tuple[float, float]:
        """The model's value at x, and |x|."""
        along, square = arrays.dots((self.slope, x), (x, x))
        value = self.constant + along + 0.5 * self.curvature * square
        return value, arrays.norm(x, square)


class Low(NamedTuple):
    """A lower bound on a model and, if the bound is attained, a point at which it is.

    ``fall`` returns the rate at which another model rises or falls along a direction in which this
    model decreases forever; None if no such direction is known. ``is_sharp``: the curvature adds
    more than the rounding errors, so a bound on the linear part alone is no better.
    """

    value: float = -math.inf
    at: Array | None = None
    fall: Callable[[Model], float] | None = None
    is_sharp: bool = False
