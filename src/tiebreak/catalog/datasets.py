"""Problems on data that come with scikit-learn; nothing is downloaded."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.catalog.built import Built, Matrix, Vector
from tiebreak.functions import LeastSquares, Logistic, SquaredNorm
from tiebreak.linalg import checks
from tiebreak.linalg.refusals import missing
from tiebreak.problem import Problem
from tiebreak.sets import Ball, L1Ball

# --- over-parameterised regression: fewer training rows than columns


def breast_cancer(train: int = 50, radius: float = 10.0, seed: int = 0) -> Problem:
    """Among the best fits to the training rows, the model with the least error on the other rows.

    The data set is scikit-learn's breast cancer data (569 tumours, 30 measurements, benign or
    malignant as +1 or -1), extended by all products of two measurements: it has 495 standardised
    columns, and its rows are scaled to norm one. With far fewer training rows than columns, the
    lower level has an affine set of minimisers, and the upper level, the error on the other rows,
    chooses among them.

    Args:
        train: number of rows in the lower level, drawn at random; the upper level has the others.
        radius: the radius of the ball around the origin to which the model is restricted.
        seed: the seed for drawing the training rows.
    """
    return tumours(train, radius, seed).problem


def tumours(train: int = 50, radius: float = 10.0, seed: int = 0) -> Built:
    """Return `breast_cancer` with its starting point and known facts."""
    measured, benign = load("breast cancer")
    features, target = unit_rows(degree_two(measured)), 2.0 * benign - 1.0
    names = ("breast_cancer", "breast cancer, degree 2")
    return _regression(*names, features, target, train, radius, seed)


def diabetes(train: int = 30, radius: float = 20.0, seed: int = 0) -> Built:
    """Build the diabetes version of `breast_cancer`: 442 patients, 10 measurements, 65 columns.

    The target, the progress of the disease, has mean 0 and standard deviation 1.

    Args:
        train, radius, seed: as for `breast_cancer`.
    """
    measured, progress = load("diabetes")
    features, target = unit_rows(degree_two(measured)), _standardised(progress[:, None])[:, 0]
    return _regression("diabetes", "diabetes, degree 2", features, target, train, radius, seed)


def digits(train: int = 30, radius: float = 20.0, seed: int = 0) -> Built:
    """Build the digits version of `breast_cancer`: 1797 pictures of 64 pixels, odd or even.

    Odd digits have the label -1, even digits +1. Pixels that never change become columns of zeros.

    Args:
        train, radius, seed: as for `breast_cancer`.
    """
    pictures, digit = load("digits")
    features, target = unit_rows(_standardised(pictures)), 1.0 - 2.0 * (digit % 2)
    return _regression("digits", "digits, odd or even", features, target, train, radius, seed)


def validation_over_training(
    features: Matrix,
    target: Vector,
    train: int,
    radius: float,
    rng: np.random.Generator,
    *,
    mean: bool,
) -> Problem:
    """Build the problem of finding, among all best fits to ``train`` rows, the best for the rest.

    Both levels are least squares (averaged over the rows if ``mean``), and the domain is a ball.
    The error bound has order 2 unless the least-squares solution closest to the origin lies exactly
    on the sphere. If that solution is inside, the affine set of solutions meets the interior of the
    ball; if that solution is outside, the minimiser x* is unique, grad g(x*) = -lambda x* with
    lambda > 0, and on the ball g(x) - g* >= lambda (|x*|² - <x*, x>) >= lambda/2 |x - x*|².
    """
    order = rng.permutation(target.shape[0])
    below, above = order[:train], order[train:]
    return Problem(
        upper=LeastSquares(features[above], target[above], mean=mean),
        lower=LeastSquares(features[below], target[below], mean=mean),
        domain=Ball(radius),
    )


def _regression(
    owner: str,
    what: str,
    features: Matrix,
    target: Vector,
    train: int,
    radius: float,
    seed: int,
) -> Built:
    rows = target.shape[0]
    if isinstance(train, bool) or not isinstance(train, int | np.integer):
        raise TypeError(f"{owner}: train must be a whole number, got {checks.what_it_is(train)}")
    if not 0 < train < rows:
        raise ValueError(f"{owner}: train must be between 1 and {rows - 1}, got {train}")
    checks.positive(owner, "radius", radius)
    rng = np.random.default_rng(checks.whole(owner, "seed", seed))
    return Built(
        label=f"{what}, {train} training rows",
        problem=validation_over_training(features, target, train, radius, rng, mean=True),
        x0=np.zeros(features.shape[1]),
        order=2.0,
    )


# --- logistic regression with more columns than it needs


def logistic(radius: float = 10.0) -> Built:
    """The maximum-likelihood model of least norm: f = ½|x|², g the mean logistic loss, in a ball.

    The data set is the breast cancer data with two columns for each of the ten mean measurements:
    one for values below the median, one for the others. Each column of a pair is one minus the
    other, so the 20 columns have rank 11, and the minimisers of g on R^20 have dimension 9. The
    minimiser of least norm, p, has |p| = 3.18:

        radius > |p|: the ball does not bind, x* = p, and the ties keep their 9 dimensions;
        radius < |p|: the minimiser is unique and lies on the sphere, f* = ½ radius².

    Args:
        radius: the radius of the ball around the origin.
    """
    return _shortest_logistic("logistic", Ball(radius))


def sparse_logistic(radius: float = 8.0) -> Built:
    """Build `logistic` with an l1 ball, which makes models sparse; the ball binds if radius < 11.2.

    Ties remain if the ball binds: coefficients (a, -b) for a pair of columns may become (a+t, -b+t)
    if another pair compensates, with the same fit and the same l1 norm.

    Args:
        radius: the radius of the l1 ball.
    """
    return _shortest_logistic("sparse-logistic", L1Ball(radius))


def _shortest_logistic(owner: str, domain: Ball | L1Ball) -> Built:
    A, y = _low_or_high()
    p = _shortest_minimiser(A, y)
    round_ball = isinstance(domain, Ball)
    length = float(np.linalg.norm(p) if round_ball else np.abs(p).sum()) / domain.radius
    inside, outside = length < 1.0 - 1e-9, length > 1.0 + 1e-9
    lower = Logistic(A, y)
    upper_optimum = 0.5 * float(p @ p) if inside else None
    if round_ball and outside:
        upper_optimum = 0.5 * domain.radius**2
    return Built(
        label=f"{owner} regression, breast cancer, radius {domain.radius:g}",
        problem=Problem(upper=SquaredNorm(), lower=lower, domain=domain),
        x0=np.zeros(A.shape[1]),
        upper_optimum=upper_optimum,
        lower_optimum=lower.value(p) if inside else None,
        solution=p if inside else None,
        ties=A.shape[1] - _PAIRS - 1 if inside else 0 if round_ball and outside else None,
        order=2.0 if inside or outside else None,
    )


_PAIRS = 10  # measurements: their 20 columns have rank 11, because every pair has the same sum


def _low_or_high() -> tuple[Matrix, Vector]:
    """Return two columns, low and high, for each of the ten mean measurements, and the labels."""
    measured, benign = load("breast cancer")
    means = measured[:, :_PAIRS]
    high = (means >= np.median(means, axis=0)).astype(np.float64)
    return np.hstack([1.0 - high, high]), 2.0 * benign - 1.0


def _shortest_minimiser(A: Matrix, y: Vector) -> Vector:
    """Return the logistic loss's minimiser of least norm on R^n, using Newton's method from 0.

    Each step is the Newton step of least norm, so all steps and their sum are in the range of A'.
    """
    x = np.zeros(A.shape[1])
    for _ in range(50):
        weight = 1.0 / (1.0 + np.exp(y * (A @ x)))
        curvature = A.T @ (A * (weight * (1.0 - weight))[:, None])
        step = np.linalg.lstsq(curvature, A.T @ (y * weight), rcond=1e-10)[0]
        x += step
        if np.linalg.norm(step) <= 1e-14 * np.linalg.norm(x):
            break
    return x


# --- the data


def load(name: str) -> tuple[Matrix, Vector]:
    try:
        from sklearn import datasets
    except ImportError:
        raise missing(f"the {name} data", "scikit-learn", "sklearn") from None
    load: Any = getattr(datasets, f"load_{name.replace(' ', '_')}")
    measured, target = load(return_X_y=True)
    return measured, target


def degree_two(X: Matrix) -> Matrix:
    """Standardise the columns of X, append all pairwise products, and standardise the result."""
    X = _standardised(X)
    first, second = np.triu_indices(X.shape[1])
    return _standardised(np.hstack([X, X[:, first] * X[:, second]]))


def _standardised(X: Matrix) -> Matrix:
    """Return X with columns of mean 0 and standard deviation 1; constant columns become zero."""
    spread = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def unit_rows(X: Matrix) -> Matrix:
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))
