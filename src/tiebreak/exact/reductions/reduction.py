"""From a problem to another one with the same answer, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tiebreak.functions.base import Function, Squares
from tiebreak.functions.penalties.terms import Terms
from tiebreak.functions.sums import summands
from tiebreak.linalg import Host
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import Intervals


def squares_of(h: Function) -> list[Squares]:
    """The squares that h is the sum of, weights in their scale; none where it is more than that."""
    found = [(weight, part.squares) for weight, part in summands(h.bare)]
    if any(part is None for _, part in found):
        return []
    return [part._replace(scale=weight * part.scale) for weight, part in found if part is not None]


def l1_above(problem: Problem) -> Terms | None:
    """f where it is a sum of weights_j |x_j - center_j|, or of entries of D x, and no more."""
    terms = problem.penalties[0].terms
    is_alone = problem.smooth_parts[0].bare.is_zero and not any(terms.weights[1:])
    return terms if is_alone and terms.norms[0] else None


def is_plain(h: Function) -> bool:
    """Are its numbers NumPy's or SciPy's, and in float64?"""
    # Of data in single precision the rank would be that of rounded numbers.
    is_ours = type(h.prototype) is np.ndarray and h.prototype.dtype == np.float64
    return is_ours and h.data_epsilon == 0.0


def is_at_hand(h: Function) -> bool:
    """Are the entries of its matrix in memory, too?"""
    return is_plain(h) and h.matrix is not None and h.matrix.is_at_hand


class Reduction(NamedTuple):
    """Another problem, whose minimisers u are those of this one as x = point(u), with the same g*.

    ``point`` is linear, and None where u is x. f is ``value`` of the other one's f (None: that
    itself), up to rounding errors of ``unit``, relative to its terms.
    """

    problem: Problem
    point: Callable[[Host], Host] | None = None
    value: Callable[[float], float] | None = None
    unit: float = 0.0
    spare: int = 0  # dimensions in which minimisers u differ for one and the same x

    def values(self, ends: tuple[float, float]) -> tuple[float, float]:
        """f at both ends of an interval of the other one's f."""
        return ends if self.value is None else (self.value(ends[0]), self.value(ends[1]))

    def proved(self, of_other: Intervals | None) -> Intervals | None:
        """What is proved of f and g by what is proved of the other problem."""
        if of_other is None or self.value is None:
            return of_other
        low, high = self.values(of_other.upper)
        at_zero = 2.0 * abs(self.value(0.0))
        errors = [self.unit * (abs(end) + at_zero) for end in (low, high)]
        return of_other._replace(upper=(low - errors[0], high + errors[1]))
