"""Sharp layers from blurred readings

A probe goes down a borehole and reads a value every 30 cm, but each reading is an average over 1.7
metres of rock. How thick are the layers, and where are the edges? There are 34 readings for 100
depths, so infinitely many profiles explain them. Rock comes in layers: among all profiles that
explain the readings, we want the one of least total variation, which goes up and down least.
"""

# %%
# The data are simulated: six layers, one value for every 10 cm, and a probe that weights the rock
# around it by a triangle. Its display has three decimals.

import matplotlib.pyplot as plt
import numpy as np

import tiebreak as tb

depth = np.arange(100) / 10.0  # in metres
rock = np.repeat([2.0, 5.0, 3.0, 8.0, 4.0, 1.5], [16, 21, 10, 8, 25, 20])
probe = depth[::3]
blur = np.maximum(0.0, 1.0 - np.abs(depth - probe[:, None]) / 0.9)
blur /= blur.sum(axis=1, keepdims=True)
readings = np.round(blur @ rock, 3)

# %%
# `lstsq` explains the readings by the profile of least norm, which looks nothing like rock. With
# total variation as the upper level, the problem is a linear program and solved as such: the answer
# is proved, with no weight to tune and no edge detector.

usual = np.linalg.lstsq(blur, readings)[0]
problem = tb.Problem(lower=tb.LeastSquares(blur, readings), upper=tb.TotalVariation())
result = tb.solve(problem)
print(result)


def edges(profile):
    """Return the first value of each new layer, where neighbours differ by more than 1."""
    return (np.flatnonzero(np.abs(np.diff(profile)) > 1.0) + 1).tolist()


for name, profile in {"lstsq": usual, "least variation": result.x}.items():
    print(
        f"{name:<15} variation {np.sum(np.abs(np.diff(profile))):.2f}, off by "
        f"{np.max(np.abs(profile - rock)):.2f} at most, {len(edges(profile))} edges"
    )

# %%
# Real probes are noisier, and a profile that explains noise to the last digit is useless, because
# undoing a blur amplifies it. So we explain the readings only up to the noise: the sum of squares
# may be as large as noise of that size, here 0.03, makes it. Everything else stays the same.

noisy = blur @ rock + 0.03 * np.random.default_rng(0).standard_normal(len(probe))
misfit = tb.Level(tb.LeastSquares(blur, noisy), name="misfit", slack=0.5 * len(probe) * 0.03**2)
careful = tb.solve(tb.Levels(misfit, tb.Level(tb.TotalVariation(), name="variation")))
print(careful)
off = {
    "lstsq": np.sqrt(np.mean((np.linalg.lstsq(blur, noisy)[0] - rock) ** 2)),
    "least variation": np.sqrt(np.mean((careful.x - rock) ** 2)),
}
print("with noise, off on average by", {name: float(np.round(d, 2)) for name, d in off.items()})

# %%
# Without noise every edge is found to the 10 cm of the grid.

fig, axes = plt.subplots(2, 1, figsize=(7, 4.4), layout="constrained", sharex=True, sharey=True)
for ax, profile, name, colour in (
    (axes[0], usual, "lstsq: least norm", "#b3372f"),
    (axes[1], result.x, "tiebreak: least variation", "#1f3b6f"),
):
    ax.step(depth, rock, where="mid", color="0.7", linewidth=5)
    ax.plot(probe, readings, "x", color="0.35", markersize=5)
    ax.step(depth, profile, where="mid", color=colour, linewidth=1.6)
    wrong = np.max(np.abs(profile - rock))
    ax.text(9.95, 10.2, f"{name}, off by up to {wrong:.2f}", ha="right", va="top", color=colour)
    ax.set_ylabel("value")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].text(0.0, 10.2, "thick grey: the rock\ncrosses: the readings", va="top", color="0.35")
axes[1].set_ylim(0.8, 10.4)
axes[1].set_xlabel("depth in metres")
fig.suptitle("34 blurred readings, 100 depths: all five edges found", fontsize=11)

assert result.proved
assert np.max(np.abs(blur @ result.x - readings)) < 1e-9  # both explain the readings ...
assert np.max(np.abs(blur @ usual - readings)) < 1e-9
assert edges(result.x) == edges(rock) == [16, 37, 47, 55, 80]  # ... and one has the edges
assert edges(usual) != edges(rock)
assert np.max(np.abs(result.x - rock)) < 0.6 < 1.5 < np.max(np.abs(usual - rock))
assert careful.success
assert off["least variation"] < 0.3 * off["lstsq"]
plt.show()
