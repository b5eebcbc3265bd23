"""Evaluations of f and g with bounds on rounding errors, and bounds on f and g nearby and on Z."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiebreak.exact.bounds.curvature_bounds import largest_curvature
from tiebreak.functions import Function, Minorant, Parts, PointWithImage, Zero, split
from tiebreak.linalg import EPS, TINY, Array, Host, arrays
from tiebreak.linalg.host import host, norm
from tiebreak.problem import Problem
from tiebreak.proofs.models import Model
from tiebreak.proofs.regions import SolutionRegion


class EvaluationWithErrors(NamedTuple):
    """A function at x, with bounds on the rounding errors of its value and its slope.

    ``value`` belongs to the whole function, but ``slope`` only to its smooth part.
    """

    value: float
    slope: Host
    value_error: float
    slope_error: float
    penalty: float  # a bound on the slopes of the function's L1 penalty, at any x

    @property
    def steepness(self) -> float:
        """A bound on the norm of the true slope, including the penalty's."""
        return norm(self.slope) + self.slope_error + self.penalty


def evaluate_with_errors(
    h: Function, x: Array, parts: Parts | None = None, seen: Minorant | None = None
) -> EvaluationWithErrors:
    """Evaluate h at x; the slope is computed in twice the precision if that reduces its error.

    ``seen``: the result of an earlier evaluation at x, if there is one.
    """
    if seen is None:
        (image,) = h.forward(x)
        (seen,), _ = h.evaluate([PointWithImage(x, image)])
    size, terms, n = arrays.norm(x), max(abs(seen.value), seen.size), int(x.shape[0])
    errors = h.rounding_errors(x, size, terms, arrays.norm(seen.slope))
    penalty = split(h)[1]
    more = penalty.value(x)
    value_error = errors[0] + penalty.terms.value_error(x) + TINY
    steepness = penalty.terms.steepness(n, math.inf) * (1.0 + 8.0 * EPS)
    slope, slope_error = host(seen.slope), errors[1] + TINY
    exact = parts.slope(host(x)) if parts is not None else None
    if exact is not None and exact.error + TINY < slope_error:
        slope, slope_error = exact.vector, exact.error + TINY
    return EvaluationWithErrors(seen.value + more, slope, value_error, slope_error, steepness)


def change_within(
    problem: Problem, f: EvaluationWithErrors, d: float, at: tuple[Parts, Host] | None = None
) -> float:
    """Bound how much f can change within a distance d of x, including rounding errors.

    ``at``: the parts of f, and x; needed if no Lipschitz constant of f's gradient is known.
    """
    if not math.isfinite(d):
        return math.inf
    bend = problem.upper.rough_lipschitz
    if math.isinf(bend) and at is not None:
        bend = largest_curvature(*at, d)
    return f.value_error + f.steepness * d + 0.5 * bend * d * d


def least_value(problem: Problem, model: Model) -> float:
    """Return a lower bound on the minimum of the model over Z."""
    origin, none = np.zeros(len(host(model.slope))), Zero()
    region = SolutionRegion(none, none, problem.domain, problem.radius, origin)
    return region.minimum(model).value


def least_with_slope(
    problem: Problem, x: Host, f: EvaluationWithErrors, slope: Host, error: float, unit: float
) -> float:
    """Return a lower bound on f(x) + <slope, z - x> + sigma/2 |z - x|² over z in Z.

    f is sigma-strongly convex, ``error`` bounds the error of the slope, and ``unit`` is the
    relative rounding error of a product.
    """
    sigma = problem.upper.strong_convexity - problem.upper.defect
    size, steep = norm(x), norm(slope) + error
    square = size * size
    model = Model(
        upper=1.0,
        lower=0.0,
        constant=f.value - float(slope @ x) + 0.5 * sigma * square,
        slope=slope - sigma * x,
        curvature=sigma,
        value_error=f.value_error
        + error * size
        + unit * (abs(f.value) + steep * size + abs(sigma) * square),
        slope_error=error + unit * (steep + abs(sigma) * size),
    )
    return least_value(problem, model)
