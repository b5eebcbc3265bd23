"""How much fit to give up for a short formula, by cross-validation

A regression with many features fits its own data best when it uses all of them, and predicts worst.
Among all fits that are at most 10 % worse than the best, `TieBreakRegressor(prefer="sparse",
slack=0.1)` chooses the one with the smallest sum of absolute coefficients, which leaves most of
them at zero. Which slack is right for these data? It is a parameter like any other, so
scikit-learn's search can find it.
"""

# %%
# We predict the progress of diabetes from ten measurements and their products: 55 features, 200
# patients for training, and 242 others that are kept aside until the end.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from tiebreak.sklearn import TieBreakRegressor

X, y = load_diabetes(return_X_y=True)
X = PolynomialFeatures(2, interaction_only=True, include_bias=False).fit_transform(X)
order = np.random.default_rng(0).permutation(len(y))
seen, unseen = order[:200], order[200:]

# %%
# The estimator works in pipelines and searches like any other.

slacks = [0.0, 0.03, 0.1, 0.3, 0.6]
model = make_pipeline(StandardScaler(), TieBreakRegressor(prefer="sparse"))
search = GridSearchCV(model, {"tiebreakregressor__slack": slacks}, cv=5)
search.fit(X[seen], y[seen])
scores = search.cv_results_["mean_test_score"]
best = search.best_params_["tiebreakregressor__slack"]
print("cross-validated R² by slack:", dict(zip(slacks, scores.round(2).tolist(), strict=True)))

# %%
# The test uses the patients that neither the fits nor the search have seen.

usual = make_pipeline(StandardScaler(), LinearRegression()).fit(X[seen], y[seen])
chosen = search.best_estimator_[-1]
used = int(np.sum(np.abs(chosen.coef_) > 1e-9))
before, after = usual.score(X[unseen], y[unseen]), search.score(X[unseen], y[unseen])
print(f"LinearRegression: 55 features, R² {before:.2f} on unseen patients")
print(f"slack {best}: {used} features, R² {after:.2f} on unseen patients")
print(f"it gave up {chosen.given_up_:.0f} of {chosen.slack_:.0f} that the loss might rise")

# %%
# Each small dot is one of the five folds.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
folds = np.array([search.cv_results_[f"split{i}_test_score"] for i in range(5)])
places = np.arange(len(slacks))
ax.plot(np.tile(places, 5), folds.ravel(), ".", color="0.6", markersize=6)
ax.plot(places, scores, "o-", color="#1f3b6f", linewidth=2)
at = slacks.index(best)
ax.plot(at, scores[at], "o", color="#1f3b6f", markersize=14, fillstyle="none")
ax.text(at, scores[at] - 0.1, f"  {used} of 55 features are used", color="#1f3b6f")
ax.set_xticks(places, [f"{100 * slack:.0f} %" for slack in slacks])
ax.set_xlabel("how much worse than the best fit a fit may be")
ax.set_ylabel("R² in the folds left out")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title(
    f"Giving up {100 * best:.0f} % of the fit lifts R² on unseen patients "
    f"from {before:.2f} to {after:.2f}",
    fontsize=11,
)

assert search.best_score_ > scores[0] + 0.2  # the best slack is not 0
assert after > before + 0.15
assert used <= 20
assert chosen.given_up_ <= chosen.slack_ * (1 + 1e-6)
plt.show()
