"""The maximum of a concave function of one variable, from a few values and derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable

from tiebreak.linalg import TOL
from tiebreak.linalg.arrays import HUGE

Tangent = tuple[float, float, float]  # t, value and derivative
# value and derivative at t, or at the nearest t with a finite value
Concave = Callable[[float], Tangent]

STRIDES = 4.0, 1e8  # first and largest factor on t while the maximum is not bracketed


def largest(
    concave: Concave, start: float, effort: int, ceiling: float = math.inf
) -> tuple[float, float]:
    """The largest value found of a concave function of t in (0, ceiling], and its t.

    ``concave(t)`` returns t, value and derivative or, if the function is infinite at t, at a point
    just inside the interval where it is finite. t is multiplied or divided by 4, 16, 256 ... until
    the maximum is bracketed, and then moves to where the two tangents meet. Every value is a valid
    bound, so stopping early is safe. We trust values more than derivatives, which may be taken at
    an inexact minimiser.
    """
    left = right = None
    best, t, (stride, longest) = (-math.inf, start), start, STRIDES
    for _ in range(effort):
        asked = min(t, ceiling)
        t, value, derivative = concave(asked)
        best = max(best, (value, t))
        if left is not None and t > left[0] and value < left[1]:
            derivative = min(derivative, (value - left[1]) / (t - left[0]))
        if right is not None and t < right[0] and value < right[1]:
            derivative = max(derivative, (right[1] - value) / (right[0] - t))
        if derivative > 0.0:
            left = (t, value, derivative)
        elif derivative < 0.0:
            right = (t, value, derivative)
        is_end = derivative * (asked - t) > 0.0 or (t == ceiling and derivative > 0.0)
        if is_end or not abs(derivative) > 0.0:  # t or the end of the interval is best
            break
        if left is not None and right is not None:
            if right[0] - left[0] <= TOL.settled * right[0]:
                break
            t = _between(left, right)
        else:
            t = t / stride if left is None else t * stride
            stride = min(stride * stride, longest)
            if not 1.0 / HUGE < t < HUGE:
                break
    return best


def _between(left: Tangent, right: Tangent) -> float:
    """The point where two tangents meet, kept away from both points of tangency."""
    (a, at_a, up), (b, at_b, down) = left, right
    meet = (at_b - at_a + up * a - down * b) / (up - down)
    if not math.isfinite(meet):  # the model is unbounded at `a`
        meet = 0.5 * (a + b)
    # Stay away from the ends of the bracket, because tangents may be inexact.
    margin = 0.05 * (b - a)
    return min(max(meet, a + margin), b - margin)
