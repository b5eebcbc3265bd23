"""A reduction of a problem to another with the same answer, and the conversion back."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tiebreak.functions import Function, Squares, Terms, summands
from tiebreak.linalg import Host
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import Intervals


def squares_of(h: Function) -> list[Squares]:
    """Return the squares whose sum is h, weights included; [] if h has other terms."""
    found = [(weight, part.squares) for weight, part in summands(h.bare)]
    if any(part is None for _, part in found):
        return []
    return [part._replace(scale=weight * part.scale) for weight, part in found if part is not None]


def l1_above(problem: Problem) -> Terms | None:
    """Return f's terms if f is just a weighted l1 norm of x - center, or of D x - center."""
    terms = problem.penalties[0].terms
    is_alone = problem.smooth_parts[0].bare.is_zero and not any(terms.weights[1:])
    return terms if is_alone and terms.norms[0] else None


def is_plain(h: Function) -> bool:
    """Are the function's numbers NumPy or SciPy arrays in float64?"""
    # In single precision, the rank would be that of rounded numbers.
    is_ours = type(h.prototype) is np.ndarray and h.prototype.dtype == np.float64
    return is_ours and h.data_epsilon == 0.0


def is_at_hand(h: Function) -> bool:
    """Is the function plain, with the entries of its matrix in memory?"""
    return is_plain(h) and h.matrix is not None and h.matrix.is_at_hand


class Reduction(NamedTuple):
    """Another problem with the same g*, whose minimisers u give the original ones, x = point(u).

    ``point`` is linear; None means that u is x. ``value`` converts the other problem's f to f;
    None means that the two are equal. Rounding errors of f are at most ``unit`` times its terms.
    """

    problem: Problem
    point: Callable[[Host], Host] | None = None
    value: Callable[[float], float] | None = None
    unit: float = 0.0
    spare: int = 0  # the number of dimensions in which u can vary without changing x

    def values(self, ends: tuple[float, float]) -> tuple[float, float]:
        """Return f at both ends of an interval for the other problem's f."""
        return ends if self.value is None else (self.value(ends[0]), self.value(ends[1]))

    def proved(self, of_other: Intervals | None) -> Intervals | None:
        """Turn bounds proved for the other problem into bounds for f and g."""
        if of_other is None or self.value is None:
            return of_other
        low, high = self.values(of_other.upper)
        at_zero = 2.0 * abs(self.value(0.0))
        errors = [self.unit * (abs(end) + at_zero) for end in (low, high)]
        return of_other._replace(upper=(low - errors[0], high + errors[1]))


def in_squares(problem: Problem) -> Reduction | None:
    """Return the problem with upper level ½|x - center|² if f is weight |x - center|_2, else None.

    Some variables may have weight 0. Norm and square have the same minimisers, and bounds on F* =
    min of ½|x - center|² give f* = weight sqrt(2 F*).
    """
    root = problem.penalties[0].squared
    if root is None or not problem.smooth_parts[0].bare.is_zero:
        return None
    weight, square = root

    def value(of_square: float) -> float:
        return weight * math.sqrt(2.0 * max(of_square, 0.0))

    # 2^-48 exceeds the rounding errors of a root and two products.
    return Reduction(dataclasses.replace(problem, upper=square), value=value, unit=2.0**-48)
