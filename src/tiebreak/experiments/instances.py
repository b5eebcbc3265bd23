"""The built-in problems: real data, bundled, nothing is downloaded."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.domains import Ball
from tiebreak.losses import LeastSquares
from tiebreak.problem import Problem

Matrix = np.ndarray[Any, Any]


def breast_cancer(train: int = 50, radius: float = 10.0, seed: int = 0) -> Problem:
    """Of all models that fit the training rows best, the one with the least error on the rest.

    scikit-learn's breast cancer data (569 tumours, 30 measurements, benign or malignant as +1 or
    -1) with all products of two measurements: 495 columns, standardised, rows of length one.  With
    far fewer training rows than columns the lower level has an affine set of minimisers, and the
    upper level, the error on the other rows, chooses among them.

    Args:
        train: rows of the lower level, drawn at random; all others go to the upper level.
        radius: of the ball around the origin in which the model lies.
        seed: of the draw.
    """
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        raise ImportError(
            "the breast cancer data needs scikit-learn: pip install 'tiebreak[data]'"
        ) from None
    measured, benign = load_breast_cancer(return_X_y=True)
    rows = measured.shape[0]
    if isinstance(train, bool) or not isinstance(train, int):
        raise TypeError(f"breast_cancer: train must be a whole number, got {type(train).__name__}")
    if not 0 < train < rows:
        raise ValueError(f"breast_cancer: train must be between 1 and {rows - 1}, got {train}")
    labels = 2.0 * benign - 1.0
    X = _standardised(measured)
    first, second = np.triu_indices(X.shape[1])
    features = _standardised(np.hstack([X, X[:, first] * X[:, second]]))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    order = np.random.default_rng(seed).permutation(rows)
    below, above = order[:train], order[train:]
    return Problem(
        upper=LeastSquares(features[above], labels[above], mean=True),
        lower=LeastSquares(features[below], labels[below], mean=True),
        domain=Ball(radius),
    )


def _standardised(X: Matrix) -> Matrix:
    """X with columns of mean 0 and standard deviation 1."""
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))
