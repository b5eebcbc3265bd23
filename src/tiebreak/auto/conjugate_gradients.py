"""Conjugate gradients (CG) on the objective of a round: f and g quadratic, nothing bounds x.

The iterative form of the exact method: a Krylov space in place of a factorisation. All that it asks
of f and g is a gradient in each step, so that A may be sparse, an operator, or elsewhere.
Hestenes, Stiefel 1952.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tiebreak.auto.quasi_newton import KEPT_MATRIX
from tiebreak.functions import Minorant, summands
from tiebreak.linalg import Array, arrays, in_files
from tiebreak.problem import Problem
from tiebreak.sets import described


def applies(problem: Problem) -> bool:
    """Are both levels quadratic, on R^n or in a ball, which may turn out to bind or not?"""
    return (
        problem.is_smooth
        and described(problem.domain).as_ball is not None
        and all(part.degree <= 2 for h in problem.smooth_parts for _, part in summands(h.bare))
    )


def is_taken(problem: Problem) -> bool:
    """Do they apply, and are there too many variables for a Hessian?"""
    return (problem.dimension or 0) > KEPT_MATRIX and applies(problem)


@in_files("bregman.conjugate-gradients")
class ConjugateGradients(NamedTuple):
    """The iterates of conjugate gradients from x, the point where a round began."""

    moved: Array  # how far the iterate is from x
    lower: Array  # the slope of g at the iterate
    residual: Array  # minus the slope of the sum there
    direction: Array
    square: float  # |residual|²

    def step(
        self, problem: Problem, f: Minorant, g: Minorant, eta: float
    ) -> ConjugateGradients | None:
        """One step; f and g are minorants at x. None where the curvature is 0 by rounding.

        H d is the change of the slopes from x to x + d, with d as long as x: as many digits are
        lost to cancellation as the slopes have lost already.
        """
        d, x = self.direction, f.at
        length = arrays.norm(d)
        reach = max(arrays.norm(x), arrays.norm(self.moved))
        fall = abs(g.value) / (arrays.norm(g.slope) or math.inf)  # a length, where both are 0
        stretch = (reach or fall or length) / length
        (point,) = problem.forward(x + stretch * d)
        (f_d,), (g_d,) = problem.upper.evaluate([point.f])[0], problem.lower.evaluate([point.g])[0]
        lower = (g_d.slope - g.slope) / stretch
        both = lower + (eta / stretch) * (f_d.slope - f.slope)
        curvature = arrays.dot(d, both)
        if not curvature > 0.0:
            return None
        t = self.square / curvature
        residual = arrays.plus(self.residual, both, -t)
        square = arrays.dot(residual, residual)
        return ConjugateGradients(
            moved=arrays.plus(self.moved, d, t),
            lower=arrays.plus(self.lower, lower, t),
            residual=residual,
            direction=arrays.plus(residual, d, square / self.square),
            square=square,
        )


def begin(g: Minorant, slope: Array) -> ConjugateGradients:
    """The first step goes down the slope of the sum."""
    residual = -1.0 * slope
    return ConjugateGradients(
        arrays.zeros_like(slope), g.slope, residual, residual, arrays.dot(residual, residual)
    )
