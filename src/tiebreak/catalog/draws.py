"""Random draws for the built-in problems."""

from __future__ import annotations

import numpy as np

from tiebreak.catalog.built import Matrix, Vector
from tiebreak.functions import LeastSquares
from tiebreak.problem import Problem
from tiebreak.sets import Ball


def disturbed(b: Vector, noise: float, rng: np.random.Generator) -> Vector:
    """Return b plus a random vector of length noise |b|."""
    direction = rng.standard_normal(b.shape[0])
    return np.asarray(b + noise * np.linalg.norm(b) / np.linalg.norm(direction) * direction)


def validation_over_training(
    features: Matrix,
    target: Vector,
    train: int,
    radius: float,
    rng: np.random.Generator,
    *,
    mean: bool,
) -> Problem:
    """Build a problem: fit ``train`` random rows best, and among such models fit the others best.

    Both levels are least squares (per row if ``mean``), and the models lie in a ball. The error
    bound has order 2 unless the least-squares solution closest to the origin lies exactly on the
    sphere: if it is inside, the affine set of solutions meets the interior of the ball; if it is
    outside, the minimiser x* is unique, grad g(x*) = -lambda x* with lambda > 0, and on the ball
    g(x) - g* >= lambda (|x*|² - <x*, x>) >= lambda/2 |x - x*|².
    """
    order = rng.permutation(target.shape[0])
    below, above = order[:train], order[train:]
    return Problem(
        upper=LeastSquares(features[above], target[above], mean=mean),
        lower=LeastSquares(features[below], target[below], mean=mean),
        domain=Ball(radius),
    )
