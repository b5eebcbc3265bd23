"""Estimators for scikit-learn that choose, among equally good fits, the one you prefer.

from tiebreak.sklearn import TieBreakRegressor

model = TieBreakRegressor(prefer="validation").fit(X, y, X_val=X_val, y_val=y_val)
model.n_ties_   # how many directions the training data leave free
model.proved_   # is it proved that no choice is better, within rtol?
"""

try:
    from tiebreak.sklearn.classifier import TieBreakClassifier
    from tiebreak.sklearn.fitting import InterpolatedWarning, NoMinimiserError, NoMinimiserWarning
    from tiebreak.sklearn.regressor import TieBreakRegressor
    from tiebreak.sklearn.slack import choose_slack
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "sklearn":
        raise
    from tiebreak.linalg.refusals import missing

    raise missing("tiebreak.sklearn", "scikit-learn", "sklearn") from None

__all__ = [
    "InterpolatedWarning",
    "NoMinimiserError",
    "NoMinimiserWarning",
    "TieBreakClassifier",
    "TieBreakRegressor",
    "choose_slack",
]
