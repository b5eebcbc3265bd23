"""A check, coordinate by coordinate, that a gradient is the derivative of its function.

A convex function h of one variable satisfies, for every step t > 0,

    (h(x) - h(x - t))/t  <=  h'(x)  <=  (h(x + t) - h(x))/t,

so values on either side of x enclose the derivative without truncation error: only the rounding
errors of the values must be added. These errors are measured on a short line segment, where the
function is almost a parabola. If they hide the slope, as for values near 1e12 that vary by 1, the
check reports no error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tiebreak.functions.base import SmoothFunction
from tiebreak.functions.callables import Smooth
from tiebreak.linalg import TINY, Array, arrays, deadline
from tiebreak.sets import Domain

Value = Callable[[Any], float]  # a function of a NumPy vector

# Steps are lengths times these powers of epsilon: for most functions, one of the powers works well.
POWERS = (1 / 2, 3 / 8, 1 / 4, 1 / 8)
LINE = 6  # points on either side of the middle of the segment where rounding is measured
MOVES = (1.0, 1e-3, 1e-6)  # distances relative to |x0|: far away, h may overflow or be flat


class Rounding(NamedTuple):
    """Bounds on the ``size`` of values near a point, and on their errors (``part * size``)."""

    part: float
    size: float


class WrongDerivative(NamedTuple):
    """A coordinate with a derivative ``got`` outside the interval [low, high] from differences."""

    coordinate: int
    got: float
    low: float
    high: float

    @property
    def excess(self) -> float:
        """The distance of ``got`` from [low, high], relative to the largest of these numbers."""
        beyond = max(self.low - self.got, self.got - self.high)
        return beyond / max(abs(self.got), abs(self.low), abs(self.high))

    @property
    def interval(self) -> str:
        """The interval that contains the derivative, as shown to the user."""
        return f"{(self.low + self.high) / 2:.6g} +- {(self.high - self.low) / 2:.1g}"


def check_gradient(owner: str, name: str, h: SmoothFunction, domain: Domain, x0: Array) -> None:
    """Raise ValueError, naming the coordinate, if the gradient of ``h`` near x0 is certainly wrong.

    The check computes eight values of h per variable at each of three points inside ``domain``, at
    different distances from x0. It does not use x0 itself, which is often the origin: a wrong
    formula may happen to give the right gradient there. A relative error below 1e-6 in an entry of
    the gradient is accepted (below 1/400 in single precision).
    """
    wrong: list[WrongDerivative] = []
    with arrays.quiet():
        for x, scale in _points_near(domain, x0):
            slope = h.gradient(x)
            if not arrays.is_array(slope) or slope.shape != x.shape:
                return  # the run itself reports a gradient of a wrong type or shape
            if math.isfinite(h.value(x)) and arrays.all_finite(slope):
                wrong = _wrong_coordinates(h, x, arrays.to_numpy(slope), scale)
                if wrong:
                    break
    if wrong:
        worst = max(wrong, key=lambda found: found.excess)
        others = f" (and in {len(wrong) - 1} others)" if len(wrong) > 1 else ""
        raise ValueError(
            f"{owner}: the gradient of {name} is wrong in coordinate {worst.coordinate}{others}: "
            f"got {worst.got:.6g} near x0, but differences of its values give {worst.interval}"
        )


def wrong_slope(name: str, h: SmoothFunction, domain: Domain, x: Array) -> str:
    """A message if the gradient of ``h`` is certainly wrong along a direction near x, else "".

    Along a line, h is a function of one variable, which is checked with about twenty values. Only
    one direction is checked; ``minimize(check_gradients=True)`` checks every coordinate.
    """
    near, _ = next(_points_near(domain, x))
    # The points ``x`` and ``near`` are in the domain.
    direction = near - x if arrays.norm(near - x) > 0.0 else near
    with arrays.quiet():
        slope = h.gradient(near)
        if not arrays.is_array(slope) or slope.shape != x.shape or not arrays.all_finite(slope):
            return ""
        along = Smooth(lambda t: h.value(near + float(t[0]) * direction), lambda t: t)
        zero = arrays.from_numpy(np.zeros(1), near)
        got = np.array([arrays.dot(slope, direction)])
        wrong = _wrong_coordinates(along, zero, got, np.ones(1))
    if not wrong:
        return ""
    return (
        f"the gradient of {name} does not match its values: its slope in a random direction is "
        f"{wrong[0].got:.6g}, but differences of its values give {wrong[0].interval}; "
        "or the function is not convex"
    )


def _points_near(domain: Domain, x0: Array) -> Iterator[tuple[Array, Any]]:
    """Random points of the domain near x0, with a typical length for each coordinate."""
    rng = np.random.default_rng(0)
    start = np.asarray(arrays.to_numpy(x0), dtype=np.float64)
    typical = float(np.max(np.abs(start))) or min(1.0, domain.diameter_in(len(start)))
    lengths = np.where(start == 0.0, typical, np.abs(start))
    move = lengths * rng.uniform(0.5, 1.5, len(start)) * rng.choice([-1.0, 1.0], len(start))
    for part in MOVES:
        there, back = (
            arrays.to_numpy(domain.projected(arrays.like(start + sign * part * move, x0)))
            for sign in (1.0, -1.0)
        )
        # A point between two projections from opposite sides lies inside Z if Z has an interior.
        point = (2.0 * there + back) / 3.0
        yield arrays.like(point, x0), np.maximum(part * lengths, np.abs(point))


def _wrong_coordinates(
    h: SmoothFunction, x: Array, slope: Any, scale: Any
) -> list[WrongDerivative]:
    """The coordinates where ``slope`` contradicts the values of h around x."""
    at, epsilon = arrays.to_numpy(x), arrays.epsilon(x)

    def value(point: Any) -> float:
        deadline.check()  # dozens of values: the user's function may be slow
        return h.value(arrays.from_numpy(point, x))

    rounding = _rounding(value, at, scale, epsilon)
    if rounding is None:
        return []
    center, wrong = value(at), []
    for j, got in enumerate(slope.tolist()):
        steps = [float(scale[j]) * epsilon**power for power in POWERS]
        low, high = _enclosure(value, center, rounding, at, j, steps)
        slack = epsilon**0.375 * abs(got)
        # Differences of values that contradict each other (low > high) prove nothing.
        if low <= high and not low - slack <= got <= high + slack:
            wrong.append(WrongDerivative(j, got, low, high))
    return wrong


def _enclosure(
    value: Value, center: float, rounding: Rounding, at: Any, j: int, steps: list[float]
) -> tuple[float, float]:
    """An interval that contains the derivative in coordinate j: the intersection over all steps."""
    low, high = -math.inf, math.inf
    for step in steps:
        (left, below), (right, above) = (_moved(value, at, j, signed) for signed in (-step, step))
        if math.isfinite(below) and math.isfinite(above) and left < 0.0 < right:
            error = rounding.part * max(rounding.size, abs(below), abs(above)) + TINY
            low = max(low, (center - below - 2.0 * error) / -left)
            high = min(high, (above - center + 2.0 * error) / right)
    return low, high


def _moved(value: Value, at: Any, j: int, step: float) -> tuple[float, float]:
    """How far a step in coordinate j actually moves ``at``, and the value at the new point."""
    point = at.copy()
    point[j] += step
    return float(point[j]) - float(at[j]), value(point)


def _rounding(value: Value, at: Any, scale: Any, epsilon: float) -> Rounding | None:
    """How large the errors of values near ``at`` may be; None if nothing can be said.

    Third differences of a smooth function over steps of epsilon^(3/8) are below machine epsilon, so
    the differences that we see are rounding errors: each is at most eight times the error of a
    value. The largest of ten differences is usually about seven standard deviations of the errors,
    so four times this difference is about thirty standard deviations. Eight machine epsilons are
    added for errors that are the same at all points of the line segment.
    """
    direction = np.random.default_rng(1).uniform(-1.0, 1.0, len(at)) * scale
    for power in POWERS[1:]:
        places = np.arange(-LINE, LINE + 1)[:, None] * epsilon**power * direction
        line = np.array([value((at + place).astype(at.dtype)) for place in places])
        # Equal values show that the segment is too short for the precision of the values.
        if len(set(line.tolist())) == len(line):
            size = float(np.max(np.abs(line)))
            part = 8.0 * epsilon + 4.0 * float(np.max(np.abs(np.diff(line / size, n=3))))
            return Rounding(part, size) if math.isfinite(part) else None
    return None  # h is constant near ``at``, or is computed in a much lower precision
