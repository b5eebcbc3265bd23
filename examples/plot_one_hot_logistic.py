"""Readable coefficients for categories, with no category left out

A table of risks has categories: sex, age group, weight group, blood pressure group. With a column
for every category and an intercept, the columns depend on each other, and the coefficients of a
logistic regression are not unique: a solver returns some of them. Textbooks leave out one category
of each group, and then every number is relative to an arbitrary category. The smallest of all
equally good coefficients need no such choice: they add up to 0 in each group, and say how far a
category is from the average of its group.
"""

# %%
# The data are the 442 patients of scikit-learn's diabetes set. The question is who belongs to
# the quarter whose disease progresses most within a year.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression

from tiebreak.sklearn import TieBreakClassifier

data = load_diabetes(scaled=False)
measured = dict(zip(data.feature_names, data.data.T, strict=True))
groups = {
    "sex": ([1.5], ["first", "second"]),
    "age": ([40, 50, 60], ["below 40", "40 to 49", "50 to 59", "60 or more"]),
    "bmi": ([22, 25, 30], ["below 22", "22 to 25", "25 to 30", "30 or more"]),
    "bp": ([80, 90, 105], ["below 80", "80 to 90", "90 to 105", "105 or more"]),  # blood pressure
}
columns = [
    np.eye(len(labels))[np.searchsorted(edges, measured[name], side="right")]
    for name, (edges, labels) in groups.items()
]
X, badly = np.hstack(columns), data.target > np.quantile(data.target, 0.75)
starts = np.cumsum([0] + [block.shape[1] for block in columns])

# %%
# tiebreak finds a dimension of ties for each group, and the smallest of all equally good
# coefficients. The intercept does not count.

readable = TieBreakClassifier(prefer="norm").fit(X, badly)
print(readable.report_)

# %%
# scikit-learn without a penalty fits equally well and predicts the same. But it has put a part of
# the intercept into every group: only one patient in four is a bad case, so *both* sexes seem to
# protect.

usual = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(X, badly)
apart = np.max(np.abs(usual.predict_proba(X) - readable.predict_proba(X)))
print(f"predicted probabilities differ by {apart:.0e} at most")
print(f"sex: scikit-learn {usual.coef_[0, :2].round(2)}, tiebreak {readable.coef_[0, :2].round(2)}")
totals = {
    name: np.add.reduceat(model.coef_[0], starts[:-1])
    for name, model in (("scikit-learn", usual), ("tiebreak", readable))
}
for name, total in totals.items():
    print(f"{name:<13} the groups add up to", np.round(total, 2) + 0.0)

# %%
# The right-hand picture shows that a BMI of 30 or more multiplies the odds by exp(1.8), to six
# times those of the average group; sex hardly matters. On the left every point is shifted.

names = {"sex": "sex", "age": "age", "bmi": "BMI", "bp": "pressure"}
place = np.arange(len(X[0])) + np.repeat(np.arange(4), np.diff(starts)) * 0.8
fig, axes = plt.subplots(1, 2, figsize=(7, 4.6), layout="constrained", sharex=True, sharey=True)
for ax, model, title, colour, marker in (
    (axes[0], usual, "scikit-learn", "#b3372f", "s"),
    (axes[1], readable, "tiebreak", "#1f3b6f", "o"),
):
    ax.axvline(0.0, color="0.6", linewidth=1)
    ax.hlines(place, 0.0, model.coef_[0], color=colour, linewidth=1.5)
    ax.plot(model.coef_[0], place, marker, color=colour)
    shown = ", ".join(f"{c:+.2f}" for c in model.coef_[0, :2])
    ax.set_title(f"{title}: sex {shown}", fontsize=10, color=colour)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel("coefficient (log odds)")
ticks = [f"{names[name]} {label}" for name, (_, labels) in groups.items() for label in labels]
axes[0].set_yticks(place, ticks, fontsize=9)
axes[0].invert_yaxis()
fig.suptitle("Same predictions, but on the left both sexes seem to protect", fontsize=11)

assert readable.proved_
assert readable.n_ties_ == len(groups)
assert apart < 1e-5
assert np.max(np.abs(totals["tiebreak"])) < 1e-9  # deviations from the average of a group
assert np.max(totals["scikit-learn"]) < -0.5
assert np.max(usual.coef_[0, :2]) < -0.3  # both sexes "protect"
assert np.max(np.abs(readable.coef_[0, :2])) < 0.1
assert 6.0 < np.exp(readable.coef_[0, 9]) < 6.2
assert np.linalg.norm(readable.coef_) < np.linalg.norm(usual.coef_)
plt.show()
