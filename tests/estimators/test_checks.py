"""scikit-learn's own checks of every estimator: no expected failures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tiebreak.sklearn import NoMinimiserWarning, TieBreakClassifier, TieBreakRegressor


class _Supplied:
    """With data to choose by, which the checks do not give: every second sample."""

    def fit(self, X, y, sample_weight=None):
        if self.prefer == "fair":
            rows = np.shape(X)[0] if np.ndim(X) else X.shape[0]
            return super().fit(X, y, sample_weight, sensitive_features=np.arange(rows) % 2)
        return super().fit(X, y, sample_weight, X_val=X, y_val=y)


class SuppliedRegressor(_Supplied, TieBreakRegressor):
    pass


class SuppliedClassifier(_Supplied, TieBreakClassifier):
    pass


CHOICES = ("norm", "sparse", "smooth", "reference")
ESTIMATORS = [
    *(TieBreakRegressor(prefer) for prefer in CHOICES),
    TieBreakRegressor(fit_intercept=False),
    TieBreakRegressor(loss="huber"),
    TieBreakRegressor(loss="poisson", on_no_minimiser="warn"),
    TieBreakRegressor(alpha=0.1),
    *(TieBreakClassifier(prefer, on_no_minimiser="warn") for prefer in CHOICES),
    TieBreakClassifier(alpha=0.1),
    *(SuppliedRegressor(prefer) for prefer in ("validation", "fair")),
    *(SuppliedClassifier(prefer, on_no_minimiser="warn") for prefer in ("validation", "fair")),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if estimator.on_no_minimiser == "warn":
            warnings.simplefilter("ignore", NoMinimiserWarning)
        check(estimator)


@pytest.mark.parametrize("model", [TieBreakRegressor, TieBreakClassifier])
@pytest.mark.parametrize(("prefer", "needed"), [("validation", "X_val"), ("fair", "sensitive")])
def test_without_the_data_to_choose_by_fit_raises(model, prefer, needed):
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 1, 0])
    with pytest.raises(ValueError, match=needed):
        model(prefer).fit(X, y)
