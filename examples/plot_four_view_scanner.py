"""Reconstruct a picture from four views

A scanner cannot see the picture, only its shadows: the sums along the rows, along the columns and
along both diagonals, 46 sums for 64 pixels. Many pictures cast exactly these shadows. If we have
seen many pictures of this kind, we know which ones are likely: among all that cast these shadows,
we want the most likely one.
"""

# %%
# The pictures are the handwritten digits of scikit-learn, 8 by 8 pixels between 0 and 16. The first
# 1,500 are known, the next 16 are scanned.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import tiebreak as tb

digits = load_digits().data
known, scanned = digits[:1500], digits[1500:1516]
row, column = np.divmod(np.arange(64), 8)
views = np.vstack(
    [
        np.eye(8)[:, row],
        np.eye(8)[:, column],
        np.eye(15)[:, row + column],
        np.eye(15)[:, row - column + 7],
    ]
)
print(f"{len(views)} sums of rank {np.linalg.matrix_rank(views)} for 64 pixels")

# %%
# "Likely" means close to the mean picture, measured by the covariance of the known ones (the
# Mahalanobis distance; we add half a unit to the variances, because corner pixels are always 0).

covariance = np.cov(known.T) + 0.5 * np.eye(64)
whitened = np.linalg.inv(np.linalg.cholesky(covariance))
unlikely = tb.LeastSquares(whitened, whitened @ known.mean(axis=0))

# %%
# The shadows have priority, so the answer casts them exactly, up to rounding. So does that of
# `lstsq`.

pixels = tb.Box(0.0, 16.0)
usual, likely, statuses = [], [], []
for picture in scanned:
    shadows = views @ picture  # all that the scanner sees
    usual.append(np.linalg.lstsq(views, shadows)[0])
    lower = tb.LeastSquares(views, shadows)
    result = tb.solve(tb.Problem(lower=lower, upper=unlikely, domain=pixels))
    likely.append(result.x)
    statuses.append(result.success)
usual, likely = np.array(usual), np.array(likely)
print("status of the last one:", result.status)

# %%
# "Solved" means that the optimality conditions hold to rounding, but the answer is not proved: the
# many pixels that are 0 prevent a proof. Without the box each answer is proved. Still, the box is
# worth it, because no pixel is lighter than white. This is what the box and the likelihood achieve
# on average over all pixels of the 16 pictures:

in_box, likely_free = [], []
for picture in scanned:
    lower = tb.LeastSquares(views, views @ picture)
    in_box.append(tb.solve(tb.Problem(lower=lower, upper=tb.SquaredNorm(), domain=pixels)).x)
    free = tb.solve(tb.Problem(lower=lower, upper=unlikely))
    assert free.proved
    likely_free.append(free.x)
print(free)
wrong = {
    name: float(np.sqrt(np.mean((np.array(answers) - scanned) ** 2)))
    for name, answers in {
        "least norm (lstsq)": usual,
        "least norm, in the box": in_box,
        "most likely": likely_free,
        "most likely, in the box": likely,
    }.items()
}
for name, error in wrong.items():
    print(f"{name:<24} off by {error:.2f}")

# %%
# The first eight of the 16:

fig, axes = plt.subplots(3, 8, figsize=(7, 3.5), layout="constrained")
for axis_row, pictures, name in zip(
    axes, (scanned, usual, likely), ("true", "lstsq", "most likely"), strict=True
):
    for ax, picture in zip(axis_row, pictures, strict=False):
        ax.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0.0, vmax=16.0)
        ax.set_xticks([])
        ax.set_yticks([])
    axis_row[0].set_ylabel(name, fontsize=10)
error, before = wrong["most likely, in the box"], wrong["least norm (lstsq)"]
fig.suptitle(
    f"From the same four shadows: pixels off by {error:.2f} instead of {before:.2f} of 16",
    fontsize=11,
)

assert all(statuses)
assert max(np.max(np.abs((x - scanned) @ views.T)) for x in (usual, likely)) < 1e-9
assert error < 0.35 * before
assert error < wrong["most likely"] < before
assert error < wrong["least norm, in the box"] < before
plt.show()
