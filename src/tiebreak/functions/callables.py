"""A smooth convex function given by two plain callables."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tiebreak.functions.base import Projection, SmoothFunction
from tiebreak.linalg import TOL, Array, arrays, checks, rounding_unit


class StartSizes(NamedTuple):
    """The sizes of the value and slope at the start of a run, and how fast the slope changes."""

    value: float = 0.0
    slope: float = 0.0  # if L is known, a bound on the slope at 0
    change: float = 0.0  # change of the slope per unit of distance


class Smooth(SmoothFunction, keyword=""):
    """A convex function given by two plain callables.

    Args:
        value: x -> h(x), a number.
        gradient: x -> gradient of h at x, an array like x.
        lipschitz: an upper bound on the gradient's Lipschitz constant; None if unknown (then use a
            method that finds it itself, "auto" or "adaptive").
        strong_convexity: a lower bound on the curvature, 0 if unknown.
        lower_bound: a lower bound on all values, -inf if unknown.

    ``lipschitz``, ``strong_convexity`` and ``lower_bound`` are not verified, but the certificate
    relies on them. The certificate also assumes that the errors of the callables are at most 64
    machine epsilons, relative to the sizes involved: the value, the slope, and the change of the
    slope times |x|. In a sum, where it may cancel, the slope is measured at the start, and
    ``lipschitz`` bounds it elsewhere. Without ``lipschitz``, these sizes are also measured at the
    start; the change of the slope is then the largest one along three directions, one of which is
    x0. For ½x'Qx - c'x + d, for example, the sizes account for every term, even if the terms
    cancel. If the callables add and subtract a large constant, the loss of digits goes unnoticed
    unless you give ``lipschitz``.

    ``value`` and ``gradient`` get a copy of x, which they may overwrite. Gradients are copied, so
    ``gradient`` may return the same buffer in every call. If the data behind the callables change,
    make a new Smooth.

    Examples:
        >>> fit = tb.Smooth(
        ...     lambda x: 0.5 * (x[0] + x[1] - 2) ** 2,
        ...     lambda x: (x[0] + x[1] - 2) * np.ones(2),
        ... )
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(3.0))
        >>> tb.solve(problem, x0=np.zeros(2)).x.round(2)
        array([1., 1.])
    """

    # These names appear in messages about a callable that returned something wrong.
    _owner, _value_name = "Smooth", "value"
    known_by = "its callables"

    def __init__(
        self,
        value: Callable[[Array], float],
        gradient: Callable[[Array], Array],
        lipschitz: float | None = None,
        strong_convexity: float = 0.0,
        lower_bound: float = -math.inf,
    ) -> None:
        for name, call in (("value", value), ("gradient", gradient)):
            if not callable(call):
                raise TypeError(f"Smooth: {name} must be callable, got {type(call).__name__}")
        self._value, self._gradient = value, gradient
        self.at_start: StartSizes = StartSizes()
        self.lipschitz: float = (
            math.inf if lipschitz is None else checks.at_least("Smooth", "lipschitz", lipschitz)
        )
        self.strong_convexity: float = checks.at_least(
            "Smooth", "strong_convexity", strong_convexity
        )
        if self.strong_convexity > self.lipschitz:
            raise ValueError(
                "Smooth: strong_convexity must not exceed lipschitz, "
                f"got {self.strong_convexity} > {self.lipschitz}"
            )
        self.lower_bound: float = checks.number(
            "Smooth", "lower_bound", lower_bound, "a number or -inf"
        )
        if math.isnan(self.lower_bound) or self.lower_bound == math.inf:
            raise ValueError(f"Smooth: lower_bound must be a number or -inf, got {lower_bound}")

    def value(self, x: Array) -> float:
        given: Any = self._value(arrays.own(x, x))  # the callable may overwrite this copy
        return float(given) if isinstance(given, float) else self._as_number(given)

    def _as_number(self, value: Any) -> float:
        """The number that the callable returned; an array with a single entry is accepted too."""
        needed = "a callable that returns a number"
        if not (arrays.is_array(value) and math.prod(value.shape) == 1):
            return checks.number(self._owner, self._value_name, value, needed)
        if not arrays.is_real(value):
            name = f"{self._owner}: {self._value_name}"
            raise TypeError(f"{name} must be {needed}, got dtype {value.dtype}")
        return float(arrays.namespace(value).reshape(value, ()))

    def gradient(self, x: Array) -> Array:
        slope = self._gradient(arrays.own(x, x))
        if isinstance(slope, list | tuple):
            # If the conversion fails, the caller of this method reports the wrong type.
            with contextlib.suppress(TypeError, ValueError):
                slope = np.asarray(slope, dtype=np.float64)
        if not (arrays.is_array(slope) and arrays.is_real(slope)):
            return slope
        return arrays.own(slope, x)  # a copy: the callable may reuse its buffer

    def sized(self, x0: Array, project: Projection, in_sum: bool = False) -> SmoothFunction:
        is_known = math.isfinite(self.lipschitz)
        if is_known and not in_sum:
            return self
        mine, slope = copy.copy(self), self.gradient(x0)
        steepness, size = arrays.norm(slope), arrays.norm(x0)
        if is_known:
            mine.at_start = StartSizes(slope=steepness + self.lipschitz * size)
            return mine
        value = abs(self.value(x0))
        length = TOL.away * (size or (value / steepness if steepness > 0.0 else 0.0) or 1.0)
        count = np.arange(1.0, x0.shape[0] + 1.0)
        directions = (x0, slope, arrays.like(np.cos(count * count), x0))
        changes = [self._change(x0, project, slope, d, length) for d in directions]
        mine.at_start = StartSizes(value, steepness, max(changes))
        return mine

    def _change(
        self, x: Array, project: Projection, slope: Array, direction: Array, length: float
    ) -> float:
        """The slope's rate of change along a direction or its opposite, within Z; 0 if unknown.

        Gradients that are not finite are ignored: the function may be undefined near x.
        """
        if not arrays.norm(direction) > 0.0:
            return 0.0
        for sign in (1.0, -1.0):
            there = project(x + arrays.stretched(direction, arrays.norm(direction), sign * length))
            moved = arrays.norm(there - x)
            if moved > 0.5 * length:
                with arrays.quiet(), contextlib.suppress(ArithmeticError, ValueError):
                    change = arrays.norm(self.gradient(there) - slope) / moved
                    if math.isfinite(change):
                        return change
        return 0.0

    def passes(self, forwards: int, slopes: int, values: int) -> int:
        # An evaluation with a slope calls ``value``, too.
        return 2 * slopes + values

    def turning(self, reach: float, slope: float) -> float:
        if math.isfinite(self.lipschitz):
            return self.at_start.slope + self.lipschitz * reach
        return max(slope, self.at_start.slope, self.at_start.change * reach)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        unit = rounding_unit(epsilon, n)
        steepness = slope + self.turning(reach, slope)
        return unit * self.magnitude(reach, value, slope), unit * steepness

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        size = max(abs(value), self.at_start.value)
        return size + (slope + self.turning(reach, slope)) * reach
