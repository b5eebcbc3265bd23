"""A portfolio: least variance, then least fees, then least turnover, each within a slack.

    python examples/portfolio.py

40 funds, 60 weeks of returns. The variance may be 5 % above the least, the fees half a basis point
above the least that this allows, and of all such portfolios the one nearest to last month's is
wanted: a smaller variance than that is noise, but every trade costs. The domain has a budget, no
short positions, at most 15 % in a fund, and a cone: a tracking error against equal weights. The
returns are drawn here from four factors and noise, and belong to no real fund.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import tiebreak as tb

rng = np.random.default_rng(0)
FUNDS, WEEKS = 40, 60
EXPOSURE = rng.uniform(0.3, 1.3, (4, FUNDS))
RETURNS = rng.normal(0, 0.02, (WEEKS, 4)) @ EXPOSURE + rng.normal(0, 0.015, (WEEKS, FUNDS))
FEES = rng.choice([5.0, 10.0, 20.0, 40.0], FUNDS)  # basis points a year
HELD = rng.dirichlet(np.full(FUNDS, 0.5))  # last month's weights
EQUAL = np.full(FUNDS, 1 / FUNDS)
RISK = (RETURNS - RETURNS.mean(axis=0)) / np.sqrt(WEEKS - 1)  # |RISK w|² is the variance
MOST, TRACKING = 0.15, 0.008
SLACKS = (tb.Slack(relative=0.05), tb.Slack(absolute=0.5))


def by_levels() -> tb.LevelsResult:
    """In tiebreak's own words."""
    tracking = tb.SecondOrderCone(RISK, -RISK @ EQUAL, d=TRACKING)  # |RISK (w - equal)| <= TRACKING
    levels = tb.Levels(
        tb.Level(2 * tb.LeastSquares(RISK, np.zeros(WEEKS)), name="variance", slack=SLACKS[0]),
        tb.Level(tb.Linear(FEES), name="fees", slack=SLACKS[1]),
        tb.Level(tb.L1(center=HELD), name="turnover"),
        domain=tb.Simplex() & tb.Box(0.0, MOST) & tracking,
    )
    return tb.solve(levels)


def by_cvxpy(w: cp.Variable) -> tb.LevelsResult:
    """The same model in CVXPY."""
    levels = tb.from_cvxpy(
        cp.Minimize(cp.sum_squares(RISK @ w)),
        then=[cp.Minimize(FEES @ w), cp.Minimize(cp.norm1(w - HELD))],
        constraints=constraints(w),
        slacks=SLACKS,
        names=("variance", "fees", "turnover"),
    )
    return tb.solve(levels)


def constraints(w: cp.Variable) -> list[cp.Constraint]:
    """The domain in CVXPY."""
    return [cp.sum(w) == 1, w >= 0, w <= MOST, cp.norm(RISK @ (w - EQUAL)) <= TRACKING]


def by_hand() -> tuple[list[float], float]:
    """The best values by three solves of CVXPY, without tiebreak; the turnover before the last."""
    w = cp.Variable(FUNDS)
    rows, best, before = constraints(w), [], np.nan
    for term in (cp.sum_squares(RISK @ w), FEES @ w, cp.norm1(w - HELD)):
        before = np.nan if w.value is None else float(np.abs(w.value - HELD).sum())
        best.append(float(cp.Problem(cp.Minimize(term), rows).solve(solver=cp.CLARABEL)))
        rows = [*rows, term <= best[-1] + (0.05 * best[-1] if len(best) == 1 else 0.5)]
    return best, before


def main() -> tb.LevelsResult:
    """Solve it three times, and say what each level gave up."""
    result, w = by_levels(), cp.Variable(FUNDS)
    print(result)
    same = by_cvxpy(w)
    variance, fees, turnover = result.levels.values()
    best, before = by_hand()
    print(f"turnover {turnover.value:.2f}; {before:.2f} at the portfolio of least fees")

    assert result.success
    assert same.success
    assert np.max(np.abs(w.value - result.x)) <= 1e-7  # CVXPY's variable has the same answer
    # What was given up is what was allowed, and the values are those of three solves by hand.
    assert variance.given_up[1] <= 0.05 * variance.best[1] + 1e-12
    assert fees.given_up[1] <= 0.5 + 1e-6
    for level, value in zip(result.levels.values(), best, strict=True):
        assert abs(level.best[1] - value) <= 1e-5 * value
    assert turnover.value < 0.9 * before
    # The cone binds, and the weights are a portfolio.
    assert abs(np.linalg.norm(RISK @ (result.x - EQUAL)) - TRACKING) <= 1e-9
    assert abs(result.x.sum() - 1) <= 1e-9
    assert result.x.min() >= -1e-9
    assert result.x.max() <= MOST + 1e-9
    return result


if __name__ == "__main__":
    main()
