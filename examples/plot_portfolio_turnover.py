"""The minimum-variance portfolio with the least trading

Most indices are tracked by several funds of different providers, and two trackers of the same index
have the same returns. So there is not one minimum-variance portfolio but a whole set of them, and a
solver returns a point in the middle: a little of everything, most of which has to be bought first.
Among all minimum-variance portfolios, we want the one that trades least, and if there are still
several, the one with the lowest fees.
"""

# %%
# The returns are simulated: 20 indices driven by four factors and noise, 104 weeks, and two to five
# funds for each index. Today's portfolio had the least variance four weeks ago, with one fund for
# each index.

import matplotlib.pyplot as plt
import numpy as np

import tiebreak as tb

try:
    import cvxpy as cp
except ImportError:
    raise SystemExit("skipped: needs CVXPY, pip install cvxpy") from None

rng = np.random.default_rng(1)
weeks, indices = 104, 20
index_returns = rng.normal(0, 0.02, (weeks, 4)) @ rng.uniform(0.3, 1.3, (4, indices))
index_returns += rng.normal(0, 0.015, (weeks, indices))
index_of = np.repeat(np.arange(indices), rng.integers(2, 6, indices))  # of each fund
returns = index_returns[:, index_of]
funds = len(index_of)
fees = rng.choice([5.0, 10.0, 20.0, 40.0], funds)  # basis points a year


def least_variance(returns):
    """Solve the usual CVXPY model by its default solver."""
    w = cp.Variable(funds)
    risk = (returns - returns.mean(axis=0)) / np.sqrt(len(returns) - 1)  # |risk w|² is the variance
    problem = cp.Problem(cp.Minimize(cp.sum_squares(risk @ w)), [cp.sum(w) == 1, w >= 0])
    problem.solve()
    return problem, w, risk


_, past, _ = least_variance(returns[:-4])
chosen = [rng.choice(np.flatnonzero(index_of == i)) for i in range(indices)]
held = np.zeros(funds)
held[chosen] = np.maximum(np.bincount(index_of, past.value), 0.0)
held /= held.sum()

# %%
# We solve the same model for today's data, and two further objectives choose among its optima.

problem, w, risk = least_variance(returns)
usual = w.value.copy()

tb.register_cvxpy()
then = [cp.Minimize(cp.norm1(w - held)), cp.Minimize(fees @ w)]
problem.solve(method="tiebreak", then=then, names=("variance", "turnover", "fees"))
print(problem.solution.attr["tiebreak"])

# %%
# Turnover is half of the sum of all changes: what is sold, which equals what is bought.

turnover = {name: 0.5 * np.abs(x - held).sum() for name, x in (("usual", usual), ("tb", w.value))}
variance = {name: np.sum((risk @ x) ** 2) for name, x in (("usual", usual), ("tb", w.value))}
for name in turnover:
    print(f"{name:<5} variance {variance[name]:.9f}, turnover {100 * turnover[name]:.1f} %")

# %%
# A trade is a change of at least 0.1 % of the portfolio.

fig, axes = plt.subplots(2, 1, figsize=(7, 4.2), sharex=True, sharey=True, layout="constrained")
rows = (("CVXPY's solver", usual, "#c8553d"), ("tiebreak", w.value, "#1f3b6f"))
for ax, (label, x, colour) in zip(axes, rows, strict=True):
    change = 100 * (x - held)
    ax.bar(range(funds), change, color=colour, width=0.8)
    ax.axhline(0, color="0.3", linewidth=0.8)
    trades = np.sum(np.abs(change) >= 0.1)
    ax.text(0, -20, f"{label}: {trades} trades", color=colour, fontsize=11)
    ax.set_ylabel("bought or sold, %")
    ax.spines[["top", "right", "bottom"]].set_visible(False)
axes[1].set_xlabel(f"the {funds} funds, by index")
axes[1].set_xlim(-1.5, funds + 0.5)
before, after = (round(100 * turnover[name]) for name in ("usual", "tb"))
fig.suptitle(f"Turnover falls from {before} % to {after} % at the same variance", fontsize=11)

# %%
# Now we check the claims. Here the least turnover can also be worked out by hand: the variance
# determines how much goes into each index, and the difference from today's amounts is the least
# that has to be traded.

needed = 0.5 * np.abs(np.bincount(index_of, usual) - np.bincount(index_of, held)).sum()
assert variance["tb"] <= variance["usual"] * (1 + 1e-9)
assert turnover["tb"] < 0.5 * turnover["usual"]
assert abs(turnover["tb"] - needed) < 0.002
plt.show()
