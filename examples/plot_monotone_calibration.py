"""What a calibration curve does not know

A score has to be turned into a probability. Isotonic regression does it: the best non-decreasing
curve through the patients of a calibration sample. At scores that none of them had, many curves
are equally good; libraries draw a straight line there without saying so. Which patients get a
probability that the data do not determine, how uncertain is it, and what is the cautious choice?
"""

# %%
# The data are the 569 patients of scikit-learn's breast cancer set in file order: 150 for training,
# 30 for calibration, 389 new ones. The score is the number of malignant cases among the 50
# nearest neighbours, and the curve has a value for each of the 51 scores.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.isotonic import IsotonicRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import tiebreak as tb

data = load_breast_cancer()
malignant = (data.target == 0).astype(float)
learn, calibrate, new = slice(0, 150), slice(150, 180), slice(180, None)
X = StandardScaler().fit(data.data[learn]).transform(data.data)
neighbours = KNeighborsClassifier(50).fit(X[learn], malignant[learn])
score = np.rint(50 * neighbours.predict_proba(X)[:, 1]).astype(int)

# %%
# This is scikit-learn's curve for the 30 patients:

scores = np.arange(51)
isotonic = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
straight = isotonic.fit(score[calibrate], malignant[calibrate]).predict(scores)

# %%
# Now the curve as two levels: least squares over the non-decreasing curves between 0 and 1, and
# among all that fit equally well, the ones nearest to 0 and to 1 everywhere. These are the lowest
# and the highest: every non-decreasing curve in between fits just as well.

fit = tb.LeastSquares(np.eye(51)[score[calibrate]], malignant[calibrate])
curves = tb.Monotone() & tb.Box(0.0, 1.0)
results = {
    name: tb.solve(tb.Problem(lower=fit, upper=tb.SquaredNorm(center=end), domain=curves))
    for name, end in {"lowest": np.zeros(51), "highest": np.ones(51)}.items()
}
print({name: result.status for name, result in results.items()})
lowest, highest = (result.x for result in results.values())

# %%
# "Solved": the optimality conditions of both levels hold to rounding. It is not "certified",
# because constraints that happen to be active defeat the proof. The two curves are easy to check:
# between the scores of two patients, the lowest curve keeps its value at the lower score, and the
# highest curve already has its value at the higher score. Suppose that we call in everybody with a
# probability above 40 per cent: how many errors does each curve make?

width = highest - lowest
open_ = width[score[new]] > 0.1
print(f"{np.sum(open_)} of {len(open_)} new patients have a probability open by more than 0.1")
missed, alarms = {}, {}
for name, curve in {"lowest": lowest, "scikit-learn": straight, "highest": highest}.items():
    called = curve[score[new]] > 0.4
    missed[name] = int(np.sum(~called & (malignant[new] == 1)))
    alarms[name] = int(np.sum(called & (malignant[new] == 0)))
    loss = np.mean((curve[score[new]] - malignant[new]) ** 2)
    print(
        f"{name:<13} {missed[name]:2d} cancers missed, {alarms[name]:2d} false alarms, "
        f"squared error {loss:.3f}"
    )

# %%
# No curve is better in every respect, and the calibration sample cannot say which to use. For
# cancer screening, the highest is the cautious choice.

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.fill_between(scores, lowest, highest, facecolor="0.92", hatch="///", edgecolor="0.6")
ax.plot(scores, straight, "--", color="#b3372f", linewidth=1.6)
ax.plot(scores, highest, color="#1f3b6f", linewidth=1.8)
ax.plot(score[calibrate], malignant[calibrate], "|", color="black", markersize=12)
ax.text(0.0, 0.07, "marks: the 30 patients", color="0.2")
ax.text(23.5, 0.5, "highest: cautious", ha="right", va="center", color="#1f3b6f")
ax.text(24.5, 0.25, "dashed: scikit-learn's straight line", color="#b3372f")
ax.text(40.5, 0.6, "hatched: fits\nequally well", color="0.3")
ax.set_xlabel("score: malignant cases among 50 neighbours")
ax.set_ylabel("probability of cancer")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title(
    f"{np.mean(open_):.0%} of new patients have scores that the calibration leaves open",
    fontsize=11,
)

losses = [fit.value(curve) for curve in (straight, lowest, highest, 0.5 * (lowest + highest))]
assert all(result.success for result in results.values())
assert np.ptp(losses) < 1e-12  # all of these fit the 30 patients equally well
had = np.isin(scores, score[calibrate])
assert np.allclose(lowest, np.maximum.accumulate(np.where(had, straight, 0.0)), atol=1e-9)
after = np.minimum.accumulate(np.where(had, straight, 1.0)[::-1])[::-1]
assert np.allclose(highest, after, atol=1e-9)
assert np.max(width) > 0.4
assert 0.08 < np.mean(open_) < 0.15
assert np.all((lowest <= straight + 1e-9) & (straight <= highest + 1e-9))
assert missed["highest"] < missed["scikit-learn"] <= missed["lowest"]
assert alarms["highest"] >= alarms["scikit-learn"]
plt.show()
