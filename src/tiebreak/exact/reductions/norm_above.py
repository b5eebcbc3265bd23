"""f = weight |x - center|_2 above, over some variables or all: its square has the same minimisers.

What is proved about F* = min of ½|x - center|² is proved about f* = weight sqrt(2 F*).
"""

from __future__ import annotations

import dataclasses
import math

from tiebreak.functions import L2, Flat, SquaredNorm, split
from tiebreak.functions.penalties.terms import largest
from tiebreak.linalg import arrays
from tiebreak.linalg.host import host
from tiebreak.linalg.tolerances import TOL
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import Intervals


def in_squares(problem: Problem) -> Problem | None:
    """The problem with the square above; None where f is not such a norm alone."""
    smooth, norm = split(problem.upper)
    if not isinstance(norm, L2) or not isinstance(smooth.bare, Flat) or not norm.terms.has_norms:
        return None
    weight = 1.0
    if arrays.is_array(norm.weight):
        weight = arrays.namespace(norm.weight).astype(norm.weight > 0.0, norm.weight.dtype)
    return dataclasses.replace(problem, upper=SquaredNorm(weight, norm.center))


def root_value(problem: Problem, square: float) -> float:
    """f where the square has this value."""
    norm = problem.penalties[0]
    assert isinstance(norm, L2)
    weight = norm.weight if isinstance(norm.weight, float) else largest(host(norm.weight))
    return weight * math.sqrt(2.0 * max(square, 0.0))


def root_intervals(problem: Problem, of_square: Intervals | None) -> Intervals | None:
    """What is proved of f and g by what is proved of the square and g, if anything is."""
    if of_square is None:
        return None
    low, high = (root_value(problem, end) for end in of_square.upper)
    return of_square._replace(upper=(low / (1.0 + TOL.rounding), high * (1.0 + TOL.rounding)))
