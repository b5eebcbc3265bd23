"""What one step of the loop costs relative to its six bare matrix-vector products, in the same run.

AGM-BiO with online levels needs, per step, A z and A' r for the upper function and the same twice
for the lower one. Everything else (projections, mixing, the certificate, the loop itself) is
overhead. Ratios only: the machine's speed cancels. Run by `make bench`.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import statistics
import subprocess
import sys
import time

import numpy as np

import tiebreak as tb

SIZES = [  # lower rows, upper rows, columns, steps per run, limit
    (801, 267, 730, 400, 1.3),
    (20_000, 5_000, 1_000, 40, 1.1),
]
ROUNDS = 7


def seconds_per_turn(problem: tb.Problem, steps: int) -> float:
    """One turn of the loop, averaged over a run, from the run's own clock."""
    result = tb.solve(problem, tb.AGMBiO(gamma=1e-2), rtol=0, max_iter=steps)
    first, last = result.trace[0], result.trace[-1]
    return (last.seconds - first.seconds) / (last.iteration - first.iteration)


def seconds_of_products(lower: np.ndarray, upper: np.ndarray, steps: int) -> float:
    """The six bare products of a step."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, lower.shape[1]))
    r, s, t = (rng.standard_normal(m) for m in (lower.shape[0], lower.shape[0], upper.shape[0]))
    began = time.perf_counter()
    for _ in range(steps):
        lower @ x
        lower @ y
        lower.T @ r
        lower.T @ s
        upper @ x
        upper.T @ t
    return (time.perf_counter() - began) / steps


def import_ratio() -> float:
    """`import tiebreak` over `import numpy`, each in a fresh interpreter, the quickest of nine."""

    def quickest(module: str) -> float:
        code = (
            f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter()-t)"
        )
        command = [sys.executable, "-c", code]
        return min(float(subprocess.check_output(command)) for _ in range(9))

    return quickest("tiebreak") / quickest("numpy")


def main() -> int:
    failed = False
    print("one turn of the loop, certificate on, over the six bare products (one BLAS thread)")
    print(f"{'lower':>14} {'upper':>14} {'Gram':>6} {'median':>8} {'best':>8} {'limit':>8}")
    for rows, upper_rows, n, steps, limit in SIZES:
        rng = np.random.default_rng(1)
        lower, upper = rng.standard_normal((rows, n)), rng.standard_normal((upper_rows, n))
        b, c = rng.standard_normal(rows), rng.standard_normal(upper_rows)
        for gram in (False, None):
            problem = tb.Problem(
                upper=tb.LeastSquares(upper, c, gram=gram),
                lower=tb.LeastSquares(lower, b, gram=gram),
                domain=tb.Ball(1.0),
            )
            seconds_per_turn(problem, 3)  # Lipschitz constants and Gram matrices, not timed
            ratios = []
            for _ in range(ROUNDS):
                products = seconds_of_products(lower, upper, steps)
                turn = seconds_per_turn(problem, steps)
                again = seconds_of_products(lower, upper, steps)
                ratios.append(turn / statistics.mean((products, again)))
            ratio = statistics.median(ratios)
            failed |= ratio > limit
            kind = "auto" if gram is None else "off"
            print(
                f"{rows:>7} x {n:<4} {upper_rows:>7} x {n:<4} {kind:>6} "
                f"{ratio:>8.2f} {min(ratios):>8.2f} {limit:>8.2f}"
            )
    ratio = import_ratio()
    failed |= ratio > 3.0
    print(f"import tiebreak / import numpy: {ratio:.2f} (limit 3)")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
