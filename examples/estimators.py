"""Choose among equally good fits inside scikit-learn: scores, searches, pipelines.

    python examples/estimators.py

The progress of diabetes from 10 measurements and their products: 55 features, and 30 patients to
learn from. So there are many perfect fits, and 210 other patients help to choose one of them.
"""

from __future__ import annotations

import numpy as np
import sklearn
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from tiebreak.sklearn import TieBreakRegressor

X, y = load_diabetes(return_X_y=True)
X = PolynomialFeatures(2, interaction_only=True, include_bias=False).fit_transform(X)
order = np.random.default_rng(0).permutation(len(y))
train, choose, test = order[:30], order[30:240], order[240:]


def standardised(model: object) -> sklearn.pipeline.Pipeline:
    """The model behind a scaler, with the validation data scaled as well."""
    return make_pipeline(StandardScaler(), model, transform_input=["X_val"])


def main() -> dict[str, float]:
    """Print test errors of several choices among perfect fits."""
    errors = {}
    with sklearn.config_context(enable_metadata_routing=True):
        plain = standardised(LinearRegression()).fit(X[train], y[train])
        errors["LinearRegression"] = float(np.mean((plain.predict(X[test]) - y[test]) ** 2))
        for prefer in ("norm", "sparse", "validation"):
            model = TieBreakRegressor(prefer).set_fit_request(X_val=True, y_val=True)
            more = {"X_val": X[choose], "y_val": y[choose]} if prefer == "validation" else {}
            fitted = standardised(model).fit(X[train], y[train], **more)
            errors[prefer] = float(np.mean((fitted.predict(X[test]) - y[test]) ** 2))
            last = fitted[-1]
            print(f"{prefer:<12} {last.n_ties_} dimensions of ties, proved: {last.proved_}")
    for name, error in errors.items():
        print(f"{name:<18} test error {error:12.0f}")

    # As any estimator of scikit-learn:
    model = make_pipeline(StandardScaler(), TieBreakRegressor())
    scores = cross_val_score(model, X[train], y[train], cv=5)
    print("cross-validated R²", np.round(scores, 2))
    choices = {"tiebreakregressor__prefer": ["norm", "smooth"]}
    search = GridSearchCV(model, choices, cv=3).fit(X[train], y[train])
    print("GridSearchCV prefers", search.best_params_["tiebreakregressor__prefer"])
    return errors


if __name__ == "__main__":
    main()
