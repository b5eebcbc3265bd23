"""What it costs to notice new numbers: copies and fingerprints, in products with the matrix.

    python benchmarks/scale/inputs.py

A line for each size: how long a copy, the fingerprint, all of the constructor and the check at the
start of ``solve`` take relative to a product A x, and its share of a run of 100 steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import tiebreak as tb
from tiebreak.linalg import arrays, fingerprints


def seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """The shortest of some calls."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Print the table."""
    print("   MB   copy  fingerprint  constructor  check  products;  check over 100 steps")
    rng = np.random.default_rng(0)
    for rows, n in ((100, 200), (1000, 1000), (4000, 2000), (10000, 2500)):
        A, x, b = rng.standard_normal((rows, n)), rng.standard_normal(n), rng.standard_normal(rows)
        product = seconds(lambda A=A, x=x: A @ x, 20)  # type: ignore[misc]
        problem = tb.Problem(
            upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b, gram=False), domain=tb.Ball(1.0)
        )
        tb.solve(problem, "adaptive", max_iter=1)  # finds the constants
        run = seconds(lambda p=problem: tb.solve(p, "adaptive", rtol=0.0, max_iter=100), 1)  # type: ignore[misc]
        check = seconds(problem.current)
        shown = [
            seconds(lambda A=A: arrays.copied(A)),  # type: ignore[misc]
            seconds(lambda A=A: fingerprints.fingerprint(A)),  # type: ignore[misc]
            seconds(lambda A=A, b=b: tb.LeastSquares(A, b)),  # type: ignore[misc]
            check,
        ]
        ratios = "  ".join(f"{value / product:8.1f}" for value in shown)
        print(f"{A.nbytes / 1e6:5.0f}  {ratios}   {check / run:8.1%}")


if __name__ == "__main__":
    main()
