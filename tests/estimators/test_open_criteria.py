"""What the criterion leaves open: the least coefficients, and words that say so; against CVXPY."""

from __future__ import annotations

import numpy as np
import pytest
from truth.claims import INTERPOLATED, one_hot

from tiebreak.sklearn import InterpolatedWarning, TieBreakRegressor


def test_one_hot_columns_have_the_least_coefficients_that_the_criterion_allows(count):
    print(figure := one_hot(count(3, 100), 0))
    assert not figure.misses, figure


@pytest.mark.parametrize("rows", [3, 30])
def test_an_interpolated_criterion_is_named(rows):
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(20, 50)), rng.normal(size=(rows, 50))
    y, w = rng.normal(size=20), rng.normal(size=rows)  # 30 ties beside the intercept
    with pytest.warns(InterpolatedWarning, match=r"^TieBreakRegressor: the criterion is interpola"):
        model = TieBreakRegressor("validation").fit(X, y, X_val=V, y_val=w)
    np.testing.assert_allclose(model.predict(V), w, atol=1e-8)
    assert INTERPOLATED in model.report_
    enough = rng.normal(size=(40, 50)), rng.normal(size=40)
    model = TieBreakRegressor("validation").fit(X, y, X_val=enough[0], y_val=enough[1])
    assert INTERPOLATED not in model.report_


def test_what_zero_coefficients_reach_too_is_not_called_interpolated():
    rng = np.random.default_rng(0)
    X, y, V = rng.normal(size=(10, 12)), rng.normal(size=10), rng.normal(size=(30, 12))
    model = TieBreakRegressor("fair").fit(X, y, X_val=V, sensitive_features=np.arange(30) % 2)
    assert INTERPOLATED not in model.report_


def test_a_constant_sensitive_feature_leaves_the_choice_to_the_norm():
    rng = np.random.default_rng(1)
    X, y, V = rng.normal(size=(6, 9)), rng.normal(size=6), rng.normal(size=(6, 9))
    model = TieBreakRegressor("fair").fit(X, y, X_val=V, sensitive_features=np.ones(6))
    assert "the criterion is the same for all best fits" in model.report_
    np.testing.assert_allclose(model.coef_, TieBreakRegressor().fit(X, y).coef_, atol=1e-12)
