"""One step of the loop over the bare products on the same data, as the data grow.

AGM-BiO with its levels on g = ½|Ax - b|² and f = |x|²/2 in a ball: per step two products with A and
two with A', which is what the bare products are. Everything else (the projection, mixing, the
certificate, the loop) is overhead. 10^6, 10^7 and 10^8 non-zeros, dense and sparse, by turns in one
run, in seconds of the clock; one BLAS thread. Limit 1.2. "Dense" is forbidden to work with A'A, and
"default" is what `tb.LeastSquares(A, b)` does with the same data, over the same bare products with
A. "Sparse" is as the library takes it, by as many threads as there are cores, over SciPy's own
products, which take one; "one" allows the library one thread too.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import statistics
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.driver.run import Run

LIMIT = 1.2
SIZES = {10**6: (2_000, 500, 60), 10**7: (10_000, 1_000, 12), 10**8: (50_000, 2_000, 3)}
CORES = os.cpu_count()
SHARE = 0.01  # of the entries of a sparse one that are not zero; rows and columns to fit


def dense(entries: int) -> Any:
    rows, n, _ = SIZES[entries]
    return np.random.default_rng(0).standard_normal((rows, n))


def sparse(entries: int) -> Any:
    """As many non-zeros, anywhere: twice as many columns as rows."""
    rows = round((entries / SHARE / 2) ** 0.5)
    n, per_row = 2 * rows, entries // rows
    rng = np.random.default_rng(0)
    columns = rng.integers(0, n, (rows, per_row), dtype=np.int32)
    columns.sort(axis=1)
    pointers = np.arange(0, rows * per_row + 1, per_row, dtype=np.int64).astype(np.int32)
    made = sp.csr_array(
        (rng.standard_normal(rows * per_row), columns.reshape(-1), pointers), shape=(rows, n)
    )
    made.sum_duplicates()
    return made


KINDS = {"dense": dense, "default": dense, "sparse": sparse, "one": sparse}


def seconds_of_products(A: Any, steps: int) -> float:
    """Two products and two adjoint ones."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, A.shape[1]))
    r, s = rng.standard_normal((2, A.shape[0]))
    back = A.T
    began = time.perf_counter()
    for _ in range(steps):
        A @ x
        A @ y
        back @ r
        back @ s
    return (time.perf_counter() - began) / steps


def seconds_per_step(run: Run, steps: int) -> float:
    """Steps of the loop, with their rows where they are due."""
    began = time.perf_counter()
    for _ in range(steps):
        assert run.step()
        if run.due:
            run.record()
    return (time.perf_counter() - began) / steps


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--most", type=int, default=10**8, help="the largest number of non-zeros")
    parser.add_argument("--least", type=int, default=10**6, help="the smallest")
    parser.add_argument("--warm", type=int, default=100, help="steps before the clock is started")
    parser.add_argument("--only", choices=list(KINDS))
    options = parser.parse_args()
    worst = 0.0
    print(f"one step of the loop over its four bare products (limit {LIMIT})")
    print(f"{'':8} {'non-zeros':>12} {'shape':>18} {'median':>8} {'best':>8} {'step, ms':>10}")
    for kind, make in KINDS.items():
        for entries, (_, _, steps) in SIZES.items():
            if not options.least <= entries <= options.most or options.only not in (None, kind):
                continue
            # BLAS has read it long since: this is what the library may take.
            os.environ["OPENBLAS_NUM_THREADS"] = str(CORES if kind == "sparse" else 1)
            A = make(entries)
            b = np.random.default_rng(2).standard_normal(A.shape[0])
            stored = A.data if make is sparse else A.reshape(-1)
            L = float(np.vdot(stored, stored))  # no Lanczos: a step costs the same with any bound
            lower = tb.LeastSquares(A, b, gram=None if kind == "default" else False, lipschitz=L)
            problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(1.0))
            run = Run(problem, tb.AGMBiO(gamma=1e-2), problem.start())
            seconds_per_step(run, max(options.warm * 10**6 // entries, 12))
            ratios, times = [], []
            for _ in range(options.rounds):
                before = seconds_of_products(A, steps)
                times.append(seconds_per_step(run, steps))
                after = seconds_of_products(A, steps)
                ratios.append(times[-1] / statistics.mean((before, after)))
            ratio = statistics.median(ratios)
            worst = max(worst, ratio)
            print(
                f"{kind:8} {lower.matrix.size:>12,} {A.shape[0]:>9,} x {A.shape[1]:<6,} "
                f"{ratio:>8.2f} {min(ratios):>8.2f} {1e3 * statistics.median(times):>10.1f}",
                flush=True,
            )
            del A, lower, problem, run
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
