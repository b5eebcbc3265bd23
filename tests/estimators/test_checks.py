"""scikit-learn's own checks of every estimator: no expected failures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import tiebreak as tb
from tiebreak.sklearn import (
    InterpolatedWarning,
    NoMinimiserWarning,
    TieBreakClassifier,
    TieBreakRegressor,
)


class _Supplied:
    """With data to choose by, which the checks do not give: always the same."""

    def fit(self, X, y, sample_weight=None):
        shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
        V = np.random.default_rng(0).normal(size=(6, shape[-1]))
        if self.prefer == "fair":
            return super().fit(X, y, sample_weight, X_val=V, sensitive_features=np.arange(6) % 2)
        labels = np.arange(6.0) if y is None else self._targets(np.asarray(y))
        return super().fit(X, y, sample_weight, X_val=V, y_val=labels)


class SuppliedRegressor(_Supplied, TieBreakRegressor):
    def _targets(self, y):
        return np.arange(6.0) if y.ndim < 2 else np.arange(6.0)[:, None] * np.ones(y.shape[1])


class SuppliedClassifier(_Supplied, TieBreakClassifier):
    def _targets(self, y):
        return np.resize(np.unique(y), 6)


CHOICES = ("sparse", "smooth", "reference")
PLAIN = [TieBreakRegressor(), TieBreakClassifier(on_no_minimiser="warn")]
OTHERS = [
    *(TieBreakRegressor(prefer) for prefer in CHOICES),
    TieBreakRegressor(fit_intercept=False),
    TieBreakRegressor(loss="huber"),
    TieBreakRegressor(loss="poisson"),
    TieBreakRegressor(loss="quantile"),
    TieBreakRegressor(alpha=0.1),
    TieBreakRegressor(slack=0.1),
    TieBreakRegressor(domain=tb.Orthant(), radius=1e3),
    SuppliedRegressor("shrunk"),
    TieBreakClassifier(class_weight="balanced", domain=tb.Box(-5.0, 5.0)),
    *(TieBreakClassifier(prefer) for prefer in CHOICES),
    TieBreakClassifier(alpha=0.1),
    *(TieBreakClassifier(loss=loss) for loss in ("hinge", "squared_hinge")),
    *(SuppliedRegressor(prefer) for prefer in ("validation", "fair")),
    *(SuppliedClassifier(prefer) for prefer in ("validation", "fair")),
]


@parametrize_with_checks(PLAIN)
def test_scikit_learns_checks(estimator, check):
    _pass(estimator, check)


@pytest.mark.full
@parametrize_with_checks(OTHERS)
def test_scikit_learns_checks_of_every_option(estimator, check):
    _pass(estimator, check)


def _pass(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", NoMinimiserWarning)
        warnings.simplefilter("ignore", InterpolatedWarning)
        check(estimator)


@pytest.mark.full  # minutes: a logistic fit with a slack is slow
@parametrize_with_checks([TieBreakClassifier(alpha=0.1, slack=0.1)])
def test_scikit_learns_checks_of_the_classifier_with_a_slack(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(estimator)


@pytest.mark.parametrize("model", [TieBreakRegressor, TieBreakClassifier])
@pytest.mark.parametrize(("prefer", "needed"), [("validation", "X_val"), ("fair", "sensitive")])
def test_without_the_data_to_choose_by_fit_raises(model, prefer, needed):
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 1, 0])
    with pytest.raises(ValueError, match=needed):
        model(prefer).fit(X, y)
