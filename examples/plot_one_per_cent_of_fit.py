"""What one per cent of the fit buys

The last digits of the best fit to noisy data are worth nothing, but a solver insists on them. In
the diabetes data, cholesterol (s1) gets a large negative coefficient and the related LDL (s2) a
large positive one, and neither can be explained. How much simpler does the model become if the mean
squared error may be one per cent worse than the best? `tb.tradeoff` draws the whole curve, with
bounds, and without a search over penalties.
"""

# %%
# Ten measurements of 442 patients (scikit-learn's diabetes data), standardised. The lower level is
# the mean squared error, in units of the variance of y; the upper level is the sum of the
# coefficients' absolute values, as in the Lasso.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from sklearn.datasets import load_diabetes
from sklearn.linear_model import lars_path
from sklearn.preprocessing import StandardScaler

import tiebreak as tb

data = load_diabetes()
A = StandardScaler().fit_transform(data.data)
b = (data.target - data.target.mean()) / data.target.std()
fit = (2 / len(b)) * tb.LeastSquares(A, b)  # LeastSquares is half of the sum of squares

shares = [0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1]
curve = tb.tradeoff(
    tb.Problem(lower=fit, upper=tb.L1()), slacks=[tb.Slack(relative=share) for share in shares]
)
print(curve)

# %%
# Two rows of that table: the best fit, and the fit that is one per cent worse.

none, one = curve.points[0], curve.points[shares.index(0.01)]
print("       " + "".join(f"{name:>7}" for name in data.feature_names))
for share, point in (("0 %", none), ("1 %", one)):
    print(f"{share:>6} " + "".join(f"{x + 0.0:7.2f}" for x in np.round(point.x, 2)))
r2 = [1 - np.mean((A @ point.x - b) ** 2) for point in (none, one)]
used = [int(np.sum(np.abs(point.x) > 1e-6)) for point in (none, one)]
print(f"R² {r2[0]:.3f} with {used[0]} features, {r2[1]:.3f} with {used[1]}")

# %%
# Such a point also lies on the Lasso path, for some weight of its penalty, but you would have to
# search for that weight. LARS finds it here, as an independent check.

weights, _, path = lars_path(A, b, method="lasso")


def lasso(weight):
    """Return the coefficients for a weight, linear between the corners of the path."""
    return np.array([np.interp(weight, weights[::-1], row[::-1]) for row in path])


allowed = 1.01 * np.mean((A @ none.x - b) ** 2)
weight = brentq(lambda w: np.mean((A @ lasso(w) - b) ** 2) - allowed, 0, weights[0], xtol=1e-14)
print(f"the Lasso of weight {weight:.5f} differs by {np.max(np.abs(lasso(weight) - one.x)):.0e}")

# %%
# The first per cent gains most: for small slacks the curve falls like a square root.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
sums = [point.value for point in curve.points]
ax.plot(100 * np.array(shares), sums, "o-", color="#1f3b6f", markersize=4, linewidth=2)
ax.plot(1, one.value, "o", color="#1f3b6f", markersize=13, fillstyle="none")
ax.text(0.3, none.value, f"best fit: {used[0]} features, R² {r2[0]:.3f}", va="center")
ax.text(1.35, one.value + 0.05, f"1 % worse: {used[1]} features, R² {r2[1]:.3f}", va="center")
ax.set(xlim=(-0.15, 10.3), ylim=(0, 2.3))
ax.set_xlabel("mean squared error above the least possible, per cent")
ax.set_ylabel("least sum of |coefficients|")
ax.spines[["top", "right"]].set_visible(False)
gain = 100 * (1 - one.value / none.value)
ax.set_title(f"One per cent of the fit shrinks the coefficients by {gain:.0f} %", fontsize=11)

assert one.value < 0.6 * none.value
assert r2[0] - r2[1] < 0.005
assert (used[0], used[1]) == (10, 7)
assert np.max(np.abs(lasso(weight) - one.x)) < 1e-6
assert none.value - one.value > 0.6 * (none.value - curve.points[-1].value)  # of what 10 % gain
plt.show()
