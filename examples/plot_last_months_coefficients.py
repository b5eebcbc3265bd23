"""Refit a scorecard and keep last month's points

A scorecard gives a patient points for the band that each measurement falls into. Its columns depend
on each other (the bands of a measurement always add up to one), so many cards give exactly the same
predictions, and a refit on one more month of data may return any of them: the predictions hardly
move, but every number on the card does, and you have to explain it. Among all equally good cards,
we want the one closest to last month's.
"""

# %%
# The data are the 442 patients of scikit-learn's diabetes set. We pretend that the last 37 of them
# came this month. Six measurements are cut into bands, which gives 32 columns of zeros and ones.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

from tiebreak.sklearn import TieBreakRegressor

data = load_diabetes(scaled=False)
measured = dict(zip(data.feature_names, data.data.T, strict=True))
cuts = {
    "age": [30, 40, 50, 60, 70],
    "bmi": [20, 25, 30, 35, 40],
    "bp": [75, 90, 105, 120],  # blood pressure
    "s3": [30, 40, 60, 80],  # HDL cholesterol
    "s5": [4.0, 4.5, 5.0, 5.5],  # logarithm of the triglycerides
    "s6": [80, 100, 115],  # blood sugar
}
columns, lowest = [], []
for name, edges in cuts.items():
    band = np.searchsorted(edges, measured[name], side="right")
    lowest.append(sum(block.shape[1] for block in columns))  # the column of the lowest band
    columns.append(np.eye(len(edges) + 1)[band])
X, y = np.hstack(columns), data.target
before, now = slice(0, 405), slice(0, 442)

# %%
# This is last month's card, as approved: whole points, and none for the lowest band of each
# measurement.

others = np.setdiff1d(np.arange(X.shape[1]), lowest)
card = np.zeros(X.shape[1])
card[others] = np.round(LinearRegression().fit(X[before][:, others], y[before]).coef_)

# %%
# This month's refit, by scikit-learn and by tiebreak. Both fit equally well and predict the same
# for every patient; tiebreak proves that no card that does so is closer to last month's.

usual = LinearRegression().fit(X[now], y[now])
closest = TieBreakRegressor(prefer="reference", reference=card).fit(X[now], y[now])
print(closest.report_)

apart = np.max(np.abs(usual.predict(X) - closest.predict(X)))
moved = {"LinearRegression": usual.coef_ - card, "tiebreak": closest.coef_ - card}
print(f"predictions differ by {apart:.0e} at most")
for name, change in moved.items():
    print(f"{name:<17} moves an entry by {np.mean(np.abs(change)):.1f} points on average")

# %%
# The usual remedy is to leave out the lowest bands by hand. For that you need to know which columns
# depend on each other, and it still moves the card more than necessary: anything new about a lowest
# band has to go into the other bands.

by_hand = np.zeros(X.shape[1])
by_hand[others] = LinearRegression().fit(X[now][:, others], y[now]).coef_
moved["by hand"] = by_hand - card
print(f"by hand: {np.mean(np.abs(moved['by hand'])):.1f} points")

# %%
# On the diagonal nothing has changed.

average = {name: np.mean(np.abs(change)) for name, change in moved.items()}
fig, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
ax.axline((0, 0), slope=1, color="0.6", linewidth=1)
ax.plot(card, usual.coef_, "^", color="#c8553d", fillstyle="none")
ax.plot(card, closest.coef_, "o", color="#1f3b6f", markersize=5)
ax.text(118, 128, "unchanged", ha="right", color="0.35")
ax.text(160, 165, "tiebreak", ha="right", va="bottom", color="#1f3b6f")
ax.text(178, 96, "LinearRegression", ha="right", va="center", color="#c8553d")
ax.set_xlabel("points on last month's card")
ax.set_ylabel("points after the refit")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title(
    f"Same predictions, but an entry moves by {average['tiebreak']:.1f} points "
    f"instead of {average['LinearRegression']:.0f}",
    fontsize=11,
)

assert closest.proved_
assert closest.n_ties_ == len(cuts)  # one free number for each measurement
assert apart < 1e-9
assert average["tiebreak"] < 0.1 * average["LinearRegression"]
assert np.linalg.norm(moved["tiebreak"]) < 0.8 * np.linalg.norm(moved["by hand"])
plt.show()
