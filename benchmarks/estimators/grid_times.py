"""Many fits on the same data relative to scikit-learn's: several targets, a grid of penalties.

    python benchmarks/estimators/grid_times.py --seed 1 --runs 3

20 targets, 500 x 50, are compared with LinearRegression. The grid has 20 alphas in 5 folds, from
the largest to a thousandth of it, and is compared with Lasso at its default settings; each alpha is
fitted from scratch, or from the last one with `warm_start=True` (on both sides). The data of the
grid are random (500 x 100), or scikit-learn's diabetes data with all pairwise products (442 x 65).
We report the median ratio of processor times of one thread in alternating runs.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.model_selection import KFold
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from tiebreak.sklearn import TieBreakRegressor

Host = np.ndarray[Any, Any]
Case = tuple[str, float, Callable[[], Any], Callable[[], Any]]  # name, limit, ours, theirs


def seconds(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def grid(model: Any, X: Host, y: Host) -> list[Any]:
    """Fits over 20 alphas in 5 folds; whether each was proved, where the model says so."""
    top = float(np.max(np.abs((X - X.mean(axis=0)).T @ (y - y.mean())))) / len(y)
    proved = []
    for rows, _ in KFold(5).split(X):
        for alpha in np.geomspace(0.99 * top, 1e-3 * top, 20):
            model.set_params(alpha=alpha).fit(X[rows], y[rows])
            proved.append(getattr(model, "proved_", True))
    return proved


def cases(seed: int) -> list[Case]:
    """All of them, drawn with this seed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 50))
    Y = X @ rng.normal(size=(50, 20)) + rng.normal(size=(500, 20))
    W = rng.normal(size=(500, 100)) @ (np.eye(100) + 0.3 * rng.normal(size=(100, 100)) / 10)
    w = W[:, :10] @ rng.normal(size=10) + rng.normal(size=500)
    D, d = load_diabetes(return_X_y=True)
    D = StandardScaler().fit_transform(PolynomialFeatures(2, include_bias=False).fit_transform(D))
    ours, theirs = TieBreakRegressor(), LinearRegression()
    found: list[Case] = [
        ("20 targets, 500 x 50", 10.0, lambda: ours.fit(X, Y), lambda: theirs.fit(X, Y))
    ]
    for what, A, b in (("drawn 500 x 100", W, w), ("diabetes 442 x 65", D, d)):
        for is_warm in (False, True):
            own = TieBreakRegressor(alpha=1.0, warm_start=is_warm)
            runs = [partial(grid, model, A, b) for model in (own, Lasso(warm_start=is_warm))]
            found.append((f"grid, {what}, warm_start={is_warm}", 4.0, runs[0], runs[1]))
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--only", default="")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    print("| fits | ratio | asked | ours (s) | proved |\n|---|---|---|---|---|")
    for name, limit, ours, theirs in cases(given.seed):
        if given.only not in name:
            continue
        found = ours()
        proved = np.mean(found if isinstance(found, list) else [found.proved_])
        theirs()
        pairs = [(seconds(ours), seconds(theirs)) for _ in range(given.runs)]
        ratio = statistics.median(a / b for a, b in pairs)
        own = statistics.median(a for a, _ in pairs)
        print(f"| {name} | {ratio:.1f} | {limit:g} | {own:.3f} | {proved:.0%} |", flush=True)


if __name__ == "__main__":
    main()
