"""Which samples are positive? 48 tests for 192 samples

A laboratory has 192 samples, and one test costs as much as lunch. It mixes every sample into five
of 48 pools and tests the pools: a reading is the sum of the virus loads in the pool. That is 48
equations for 192 unknowns, and infinitely many loads explain the readings. If few samples are
positive, the sparsest loads are the right ones to look for.
"""

# %%
# The data are simulated: eight positive samples, loads between 1 and 10, and readings with an error
# of one per cent.

import matplotlib.pyplot as plt
import numpy as np

import tiebreak as tb

rng = np.random.default_rng(0)
pools = np.zeros((48, 192))
for sample in range(192):
    pools[rng.choice(48, 5, replace=False), sample] = 1.0
positive = rng.choice(192, 8, replace=False)
loads = np.zeros(192)
loads[positive] = rng.uniform(1.0, 10.0, 8)
readings = pools @ loads * (1.0 + 0.01 * rng.standard_normal(48))

# %%
# NumPy returns the explanation of least Euclidean norm, which spreads every load over all samples
# that could have it.

usual = np.linalg.lstsq(pools, readings)[0]

# %%
# Among all loads that explain the readings, we want those with the least sum of absolute values: a
# penalty as the upper level expresses that. Unlike in a Lasso, there is no weight between fit and
# sparsity to tune.

problem = tb.Problem(lower=tb.LeastSquares(pools, readings), upper=tb.L1())
result = tb.solve(problem)
print(result)

# %%
# Both explain every reading. Suppose that we call in everyone with a load above 0.5. Who is that?


def called(x):
    """Return the samples with a load above 0.5, in order."""
    return np.flatnonzero(x > 0.5).tolist()


for name, x in {"lstsq": usual, "sparsest": result.x}.items():
    right = len(set(called(x)) & set(positive.tolist()))
    print(
        f"{name:<9} misfit {np.max(np.abs(pools @ x - readings)):.0e}, sum of loads "
        f"{np.sum(np.abs(x)):5.1f}, calls in {len(called(x))} samples, {right} of them rightly"
    )

# %%
# The noise has to go somewhere, because every reading is explained to the last digit: a few dozen
# samples get a load near 0.

worst = np.max(np.abs(result.x - loads))
false_alarms = len(set(called(usual)) - set(positive.tolist()))
fig, axes = plt.subplots(2, 1, figsize=(7, 4.4), layout="constrained", sharex=True, sharey=True)
for ax, x, name, colour in (
    (axes[0], usual, f"lstsq: {false_alarms} false alarms", "#b3372f"),
    (axes[1], result.x, "sparsest: exactly the 8", "#1f3b6f"),
):
    ax.plot(positive, loads[positive], "o", color="0.35", fillstyle="none", markersize=9)
    ax.vlines(np.arange(192), 0.0, x, color=colour, linewidth=1.8)
    ax.plot([0, 194], [0.5, 0.5], color="0.35", linestyle="--", linewidth=0.8)
    ax.text(195, 0.5, "called in\nabove", va="center", color="0.35", fontsize=9)
    ax.text(0.99, 0.97, name, transform=ax.transAxes, ha="right", va="top", color=colour)
    ax.set_ylabel("load")
    ax.set_ylim(-2.0, 13.0)
    ax.spines[["top", "right"]].set_visible(False)
first = positive[np.argmax(loads[positive])]
axes[0].annotate(
    "true load", (first, loads[first]), (10, 3), textcoords="offset points", color="0.35"
)
axes[1].set_xlim(-6, 216)
axes[1].set_xlabel("sample")
fig.suptitle("48 pooled tests find all 8 positive samples among 192", fontsize=11)

assert result.proved
assert np.max(np.abs(pools @ result.x - readings)) < 1e-9  # they explain the readings
assert np.max(np.abs(pools @ usual - readings)) < 1e-9  # and so do lstsq's
assert called(result.x) == sorted(positive.tolist())
assert worst < 0.25
assert false_alarms > 10
plt.show()
