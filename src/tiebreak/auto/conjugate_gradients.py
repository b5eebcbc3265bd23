"""Conjugate gradients (CG), if f and g are quadratic and no constraint on x is active.

CG is the iterative form of the exact method, with a Krylov space instead of a factorisation. CG
needs only a gradient of f and of g in each step, so A may be sparse, an operator, or on another
machine. Hestenes, Stiefel 1952. Two classes implement CG:

`ShortestWay` is used if f is a distance from a center, perhaps with weights: one run on g alone
from the center ends at the minimiser of g closest to it, as LSQR does (Paige, Saunders 1982).
`ConjugateGradients` is used otherwise, on the objective of a round of Bregman iteration.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.auto.hessians import KEPT_MATRIX
from tiebreak.functions import Minorant, Squares, summands
from tiebreak.linalg import Array, arrays, in_files
from tiebreak.problem import Problem


def applies(problem: Problem) -> bool:
    """Are both levels quadratic on R^n, or on a ball (whose constraint may be active or not)?"""
    return (
        problem.is_smooth
        and problem.domain.as_ball is not None
        and all(part.degree <= 2 for h in problem.smooth_parts for _, part in summands(h.bare))
    )


def is_taken(problem: Problem) -> bool:
    """Do conjugate gradients apply, and are there too many variables for a Hessian?"""
    return (problem.dimension or 0) > KEPT_MATRIX and applies(problem)


@in_files("bregman.conjugate-gradients")
class ConjugateGradients(NamedTuple):
    """Conjugate gradients from x, the point where a round began."""

    moved: Array  # the iterate minus x
    lower: Array  # the slope of g at the iterate
    residual: Array  # minus the slope of the round's objective at the iterate
    direction: Array
    square: float  # |residual|²

    def step(
        self, problem: Problem, f: Minorant, g: Minorant, eta: float
    ) -> ConjugateGradients | None:
        """Take one step; f and g are minorants at x. Return None if rounding hides the curvature.

        We compute H d as the difference of the slopes at x and x + d, with d scaled to the norm of
        x. So cancellation loses no more digits than the slopes have already lost.
        """
        d, x = self.direction, f.at
        stretch = _stretch(g, self.moved, d)
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


def _stretch(g: Minorant, moved: Array, d: Array) -> float:
    """Return the factor that scales d to the norm of x or of ``moved``, whichever is larger."""
    length, reach = arrays.norm(d), max(arrays.norm(g.at), arrays.norm(moved))
    fall = abs(g.value) / (arrays.norm(g.slope) or math.inf)  # in case x and ``moved`` are 0
    return (reach or fall or length) / length


def begin(g: Minorant, slope: Array) -> ConjugateGradients:
    """Begin with a step of steepest descent; ``slope`` is the slope of the round's objective."""
    residual = -1.0 * slope
    return ConjugateGradients(
        arrays.zeros_like(slope), g.slope, residual, residual, arrays.dot(residual, residual)
    )


# -- f is a distance -------------------------------------------------------------------------------


@in_files("bregman.shortest-way")
class ShortestWay(NamedTuple):
    """Conjugate gradients on g, started at the minimiser of f = ½ <x - center, W (x - center)>.

    Every iterate has grad f(x) = W (x - center) = - gamma grad g(x) - H c, with H the Hessian of g
    and c in the Krylov space: c and gamma are accumulated along with x. At the end grad g is 0, and
    c gives the multipliers of the proof, like the c of Bregman iteration.
    """

    inverse: Any  # inverse of W: a number, or a vector with 0 for variables of weight 0
    # d and H d/<d, H d> for mutually conjugate directions d, one for each variable of weight 0
    free: tuple[tuple[Array, Array], ...]
    moved: Array  # the iterate minus the point at which g was evaluated
    residual: Array  # minus the slope of g at the iterate
    direction: Array
    square: float  # <residual, inverse residual>; ``first`` is its first value
    first: float
    c: Array
    apart: Array  # change of c per unit step length, without the term from the change of x
    gamma: float
    delta: float  # change of gamma per unit step length
    steps: int
    mark: Array  # ``moved`` after ``marked`` steps
    marked: int
    has_settled: bool

    def step(self, problem: Problem, g: Minorant) -> ShortestWay | None:
        """Take one step; g is the minorant at the first point. Return None at zero curvature."""
        d, p = self.direction, self
        curved = _curved(problem, g, self.moved, d)
        curvature = arrays.dot(d, curved)
        if not curvature > 0.0:
            return None
        t = p.square / curvature
        residual = arrays.plus(p.residual, curved, -t)
        ahead, square = _ahead(p.inverse, p.free, residual)
        share, gamma = square / p.square, p.gamma + t * p.delta
        moved, steps = arrays.plus(p.moved, d, t), p.steps + 1
        noise = (8.0 * arrays.epsilon(d)) ** 2 * p.first
        after = self._replace(
            moved=moved,
            residual=residual,
            direction=arrays.plus(ahead, d, share),
            square=square,
            c=arrays.plus(arrays.plus(p.c, p.apart, t), d, -t * gamma),
            apart=share * arrays.plus(p.apart, d, -p.delta * t),
            gamma=gamma,
            delta=1.0 + share * p.delta,
            steps=steps,
            has_settled=square <= noise,
        )
        if steps < 1.25 * p.marked:
            return after
        # Have six digits of x not changed in the last fifth of all steps?  If so, neither have
        # twelve digits of f. But x may only rest until the steps reach a direction in which g
        # hardly curves, so the slope must have lost twice as many digits as x has right.
        is_flat = square <= max(1e-12, 32.0 * arrays.epsilon(d)) ** 2 * p.first
        has_settled = is_flat and arrays.norm(moved - p.mark) <= 3e-6 * arrays.norm(moved)
        return after._replace(
            mark=moved, marked=steps, has_settled=after.has_settled or has_settled
        )


def distance(problem: Problem) -> tuple[float, Squares] | None:
    """Return the weight and squares of f; None unless f is a distance and CG applies."""
    summed = summands(problem.smooth_parts[0].bare)
    squares = summed[0][1].squares if len(summed) == 1 else None
    if squares is None or squares.rows is not None or not is_taken(problem):
        return None
    return summed[0][0], squares


def shortest(problem: Problem, x: Array) -> tuple[Array, ShortestWay] | None:
    """Return the start, as an array like x, and the first state; None if f is not a distance.

    Also return None if g has no curvature along a variable on which f does not depend.
    """
    if (found := distance(problem)) is None:
        return None
    weight, squares = found
    nothing = arrays.zeros_like(x)
    center = nothing if squares.target is None else arrays.like(squares.target, x)
    inverse: Any = 1.0 / (weight * squares.scale)
    unseen = np.zeros(0, dtype=int)
    if squares.weights is not None:
        weights = np.asarray(squares.weights, dtype=np.float64)
        unseen = np.flatnonzero(weights == 0.0)
        each = np.divide(inverse, weights, out=np.zeros_like(weights), where=weights > 0.0)
        inverse = arrays.like(each, x)
    if len(unseen) > 8:  # allow few variables of weight 0, such as an intercept: each costs a step
        return None
    g = _lower(problem, center)
    free: list[tuple[Array, Array]] = []
    for j in unseen:
        d = arrays.placed(nothing, [int(j)], 1.0)
        d = _conjugate(free, d)
        curved = _curved(problem, g, nothing, d)
        curvature = arrays.dot(d, curved)
        if not curvature > 0.0:
            return None
        free.append((d, curved / curvature))
        center = arrays.plus(center, d, -arrays.dot(g.slope, d) / curvature)
    residual = -1.0 * (_lower(problem, center) if free else g).slope
    direction, square = _ahead(inverse, tuple(free), residual)
    return center, ShortestWay(
        inverse=inverse, free=tuple(free), moved=nothing, residual=residual, direction=direction,
        square=square, first=square, c=nothing, apart=nothing, gamma=0.0, delta=1.0, steps=0,
        mark=nothing, marked=8, has_settled=not square > 0.0,
    )  # fmt: skip


def _lower(problem: Problem, x: Array) -> Minorant:
    (point,) = problem.forward(x)
    return problem.lower.evaluate([point.g])[0][0]


def _curved(problem: Problem, g: Minorant, moved: Array, d: Array) -> Array:
    """Return H d as a difference of slopes of g, as `ConjugateGradients` describes."""
    stretch = _stretch(g, moved, d)
    return (_lower(problem, arrays.plus(g.at, d, stretch)).slope - g.slope) / stretch


def _conjugate(free: Any, d: Array) -> Array:
    """Return the part of d that is conjugate to all of the given directions."""
    for other, curved in free:
        d = arrays.plus(d, other, -arrays.dot(curved, d))
    return d


def _ahead(inverse: Any, free: Any, residual: Array) -> tuple[Array, float]:
    """Return the steepest-descent direction and the squared residual, both in f's metric."""
    d = inverse * residual
    return _conjugate(free, d), arrays.dot(residual, d)
