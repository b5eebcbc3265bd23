"""An upper level weight |x - center|_2 over some or all variables, replaced by its square.

Both have the same minimisers, and bounds on F* = min of ½|x - center|² give f* = weight sqrt(2 F*).
"""

from __future__ import annotations

import dataclasses
import math

from tiebreak.exact.reductions.reduction import Reduction
from tiebreak.problem import Problem


def in_squares(problem: Problem, n: int = 0) -> Reduction | None:
    """Return the problem with the square as f, or None if f is not such a norm alone."""
    root = problem.penalties[0].squared
    if root is None or not problem.smooth_parts[0].bare.is_zero:
        return None
    weight, square = root

    def value(of_square: float) -> float:
        return weight * math.sqrt(2.0 * max(of_square, 0.0))

    # 2^-48 exceeds the rounding errors of a root and two products.
    return Reduction(dataclasses.replace(problem, upper=square), value=value, unit=2.0**-48)
