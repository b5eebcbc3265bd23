"""Logistic losses with ties in a ball that binds: is the norm of the answer proved?

    python benchmarks/race/active_ball.py --seed 1 --draws 20

5,000 to 40,000 rows of zeros and ones, as one-hot codes give them, or normal ones with columns that
are sums of others; mean losses in a ball in which no minimiser on R^n lies; above, the squared norm
or a validation loss. Counted are the draws that end `certified` at the default tolerance.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

import tiebreak as tb

Host = np.ndarray[Any, Any]


def zipf(k: int) -> Host:
    """How often each of k codes occurs: the j-th one in proportion to 1/j²."""
    share = 1.0 / np.arange(1, k + 1) ** 2
    return np.asarray(share / share.sum())


def rows_of(rng: np.random.Generator, m: int) -> Host:
    """One-hot codes of a few variables, or normal columns with some that are sums of others."""
    if rng.random() < 0.5:
        sizes = rng.integers(2, 30, int(rng.integers(6, 16)))
        drawn = [rng.choice(k, m, p=zipf(k)) for k in sizes]  # some codes are rare
        return np.hstack([np.eye(k)[codes] for k, codes in zip(sizes, drawn, strict=True)])
    A = rng.normal(size=(m, int(rng.integers(20, 100))))
    return np.hstack([A, A[:, :5] + A[:, 5:10]])


def draw(seed: int, index: int) -> tb.Problem:
    """A problem whose ball is smaller than the direction that made the labels."""
    rng = np.random.default_rng([seed, index])
    m = int(np.exp(rng.uniform(np.log(5_000), np.log(40_000))))
    A = rows_of(rng, m)
    truth = rng.normal(size=A.shape[1])
    y = np.where(A @ truth + rng.logistic(size=m) > 0.0, 1.0, -1.0)
    upper: Any = tb.SquaredNorm()
    if rng.random() < 0.5:
        kept = slice(0, m // 5)
        upper = tb.Logistic(
            A[kept], np.where(rng.random(m // 5) < 0.1, -y[kept], y[kept]), mean=True
        )
    radius = float(rng.uniform(0.3, 0.9) * np.linalg.norm(truth))
    return tb.Problem(upper=upper, lower=tb.Logistic(A, y, mean=True), domain=tb.Ball(radius))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--draws", type=int, default=20)
    given = options.parse_args()
    certified = 0
    for index in range(given.draws):
        problem = draw(given.seed, index)
        began = time.process_time()
        result = tb.solve(problem, max_time=120)
        seconds = time.process_time() - began
        certified += result.status == "certified"
        m, n = problem.lower.matrix.shape  # type: ignore[union-attr]
        low, high = result.upper_optimum
        print(
            f"{index:3d} {m:6d} x {n:3d} {type(problem.upper).__name__:12s} {result.status:12s} "
            f"f {result.upper_value:.6e}, f* from {low - result.upper_value:+.1e} to "
            f"{high - result.upper_value:+.1e}, {seconds:.2f} s",
            flush=True,
        )
    print(f"certified {certified} of {given.draws}")
    return int(certified < 0.95 * given.draws)


if __name__ == "__main__":
    sys.exit(main())
