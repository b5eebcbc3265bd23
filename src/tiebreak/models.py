"""Quadratic models from below, and their minimum over the part of a set where x* can be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tiebreak import arrays
from tiebreak.arrays import Array
from tiebreak.domains import Box, Domain

Concave = Callable[[float], tuple[float, float]]  # t -> value and derivative
UNIT = 2.0**-52  # models are kept in float64 whatever the problem's own precision


class Model(NamedTuple):
    """A sum of weighted minorants: constant + <slope, x> + curvature/2 |x|².

    The true sum at x is at least this minus value_error + slope_error |x|.
    """

    weight: float
    constant: float
    slope: Array
    curvature: float
    value_error: float
    slope_error: float

    @property
    def is_finite(self) -> bool:
        """Are all its numbers finite (the slope by its error, which contains its norm)?"""
        return math.isfinite(self.constant) and math.isfinite(self.slope_error)

    def plus(self, other: Model, factor: float = 1.0) -> Model:
        """This sum plus ``factor`` times another."""
        return Model(
            self.weight + factor * other.weight,
            self.constant + factor * other.constant,
            self.slope + factor * other.slope,
            self.curvature + factor * other.curvature,
            self.value_error + factor * other.value_error,
            self.slope_error + factor * other.slope_error,
        )

    def scaled(self, factor: float) -> Model:
        """``factor`` times this sum."""
        return Model(*(factor * part for part in self))

    def at(self, x: Array) -> float:
        """Its value at x."""
        return self.constant + arrays.dot(self.slope, x) + 0.5 * self.curvature * arrays.dot(x, x)


class Region:
    """The points of ``domain`` where x* can be: those with |x| <= radius, if one was promised."""

    def __init__(self, domain: Domain, radius: float | None, zero: Array) -> None:
        self._domain, self._radius, self._zero = domain, radius, zero
        self._slack = UNIT * (64.0 + 0.5 * zero.shape[0])  # rounding of a sum over the variables
        self._reach = domain.farthest(zero)  # a bound on |x*|

    def minimum(self, model: Model) -> tuple[float, Array | None]:
        """A lower bound on the model over the part of Z where x* can be, and where it is attained.

        -inf (and None) where nothing bounds it from below.
        """
        radius = self._radius
        if model.curvature < 0.0:  # a function that is not quite convex: pay for it at once
            reach = min(self._reach, radius or math.inf)
            paid = model.constant + 0.5 * model.curvature * reach * reach
            model = model._replace(curvature=0.0, constant=paid)
            if not math.isfinite(paid):
                return -math.inf, None
        candidates = []
        if model.curvature > 0.0:
            candidates.append(self._curved(model, 0.0))
        if math.isfinite(self._reach):
            candidates.append(self._at_vertex(model))
        elif isinstance(self._domain, Box):
            candidates.append(self._at_corner(model))
        if radius is not None and radius <= self._reach:
            candidates.append(self._within_radius(model, radius))
        return max(candidates, key=lambda pair: pair[0], default=(-math.inf, None))

    def _curved(self, model: Model, weight: float) -> tuple[float, Array]:
        """min_Z of the model + weight/2 (|x|² - radius²): a projection."""
        q = model.curvature + weight
        center = model.slope * (-1.0 / q)
        x = self._domain.project(center)
        size, gap = arrays.norm(x), q * arrays.norm(x - center)  # gap = |slope at x|
        radius = self._radius or 0.0
        ball = 0.5 * weight * radius * radius  # products, for ** raises where they give inf
        value = model.constant + arrays.dot(model.slope, x) + 0.5 * q * size * size - ball
        # Slope errors move the minimiser: model - e|x| >= value - e|x_min| - e²/(2q). The
        # projection itself errs by a few units of its argument, and so does the evaluation.
        e = model.slope_error
        value -= model.value_error + e * size + e * e / (2.0 * q)
        value -= self._slack * (gap + q * size) * (arrays.norm(center) + size)
        value -= self._slack * (abs(model.constant) + 2.0 * ball)
        return value, x

    def _within_radius(self, model: Model, radius: float) -> tuple[float, Array | None]:
        """min over Z with |x| <= radius, by the dual of that constraint: any weight is valid."""
        best: tuple[float, Array | None] = (-math.inf, None)
        weight = arrays.norm(model.slope) / radius
        for _ in range(8):
            if not weight > 0.0:
                break
            value, x = self._curved(model._replace(slope_error=0.0), weight)
            value -= model.slope_error * radius  # |x*| <= radius
            best = max(best, (value, x), key=lambda pair: pair[0])
            total = model.curvature + weight
            longer = max(arrays.norm(x) / radius, 1e-3)
            if abs(longer - 1.0) < 1e-9:
                break
            weight = max(total * longer - model.curvature, 1e-3 * weight)
        if weight == 0.0:  # no slope at all
            best = model.constant - model.value_error - model.slope_error * radius, self._zero
        return best

    def _at_vertex(self, model: Model) -> tuple[float, Array]:
        """min of the linear part over a bounded Z."""
        x = self._domain.argmin(model.slope)
        value = model.constant + arrays.dot(model.slope, x) - model.value_error
        value -= (model.slope_error + self._slack * arrays.norm(model.slope)) * self._reach
        return value - self._slack * abs(model.constant), x

    def _at_corner(self, model: Model) -> tuple[float, Array | None]:
        """min of the linear part over a box with infinite sides: finite if the slope's signs fit.

        The slope error e counts in every coordinate, for |x| <= sum |x_i|.
        """
        xp, domain = arrays.namespace(self._zero), self._domain
        assert isinstance(domain, Box)
        e = model.slope_error + self._slack * arrays.norm(model.slope)
        low = self._zero + arrays.like(domain.lower, self._zero)
        high = self._zero + arrays.like(domain.upper, self._zero)
        falls_up = (model.slope - e < 0.0) & (high == math.inf)
        falls_down = (model.slope + e > 0.0) & (low == -math.inf)
        if bool(xp.any(falls_up | falls_down)):
            return -math.inf, None
        x = xp.where(model.slope >= 0.0, low, high)
        x = xp.where(xp.isfinite(x), x, xp.where(xp.isfinite(low), low, high))
        largest = xp.maximum(
            xp.where(xp.isfinite(low), xp.abs(low), self._zero),
            xp.where(xp.isfinite(high), xp.abs(high), self._zero),
        )
        value = model.constant + arrays.dot(model.slope, x) - model.value_error
        return value - e * float(xp.sum(largest)) - self._slack * abs(model.constant), x


def largest(concave: Concave, start: float, effort: int) -> tuple[float, float]:
    """The largest value found of a concave function of t > 0, and where; it gives its derivative.

    Multiplies or divides t by 4, 16, 256 ... until the maximum is bracketed, then goes to where
    the two tangents meet. Every value is a valid bound, so that stopping early is safe. Values are
    believed more than derivatives, which may belong to an inexact minimum.
    """
    left = right = None
    best, t, stride = (-math.inf, start), start, 4.0
    for _ in range(effort):
        value, derivative = concave(t)
        best = max(best, (value, t))
        if left is not None and t > left[0] and value < left[1]:
            derivative = min(derivative, (value - left[1]) / (t - left[0]))
        if right is not None and t < right[0] and value < right[1]:
            derivative = max(derivative, (right[1] - value) / (right[0] - t))
        if derivative > 0.0:
            left = (t, value, derivative)
        elif derivative < 0.0:
            right = (t, value, derivative)
        else:
            break
        if left is None or right is None:
            t = t / stride if left is None else t * stride
            stride = min(stride * stride, 1e8)
            if not 1e-150 < t < 1e150:
                break
        else:
            (a, at_a, up), (b, at_b, down) = left, right
            if b - a <= 1e-3 * b:
                break
            meet = (at_b - at_a + up * a - down * b) / (up - down)
            if not math.isfinite(meet):  # nothing bounds the model at a
                meet = 0.5 * (a + b)
            margin = 0.05 * (b - a)
            t = min(max(meet, a + margin), b - margin)
    return best
