"""The sparsest least-squares solution of wide data: `auto` compared with column generation.

    python benchmarks/race/basis_pursuit.py 200x20000 100x100000 --seed 5
    python benchmarks/race/basis_pursuit.py 200x20000 --kind products --method exact --runs 3

f = |x|_1 above, g = ½|Ax - b|² below on R^n. Kinds of data: `normal`, random matrix and target;
`planted`, a few columns explain the target; `repeated`, where a tenth of the rows are other rows
again with other readings, so that no x meets them all; `products`, the columns are products of up
to three measurements of scikit-learn's diabetes data, the rows its patients. The rival is twenty
lines of column generation with SciPy's HiGHS, which stop at a dual that is feasible to 1e-9; for
repeated rows it is given the means. Processor time, one thread, both in turn.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import itertools
import statistics
import sys
import time
from typing import Any

import numpy as np
from scipy.optimize import linprog

import tiebreak as tb

Host = np.ndarray[Any, Any]


def column_generation(A: Host, b: Host) -> tuple[float, float]:
    """|x|_1 and the dual's bound on it: few columns, and those that the dual asks for."""
    chosen = np.argsort(-np.abs(A.T @ b))[: 2 * len(b)]
    while True:
        some = A[:, chosen]
        found = linprog(
            np.ones(2 * len(chosen)),
            A_eq=np.hstack([some, -some]),
            b_eq=b,
            bounds=(0, None),
            method="highs",
        )
        if not found.success:  # too few columns to meet all rows
            chosen = np.argsort(-np.abs(A.T @ b))[: 2 * len(chosen)]
            continue
        dual = found.eqlin.marginals
        slopes = np.abs(A.T @ dual)
        new = np.setdiff1d(np.flatnonzero(slopes > 1.0 + 1e-9), chosen)
        if len(new) == 0:
            return found.fun, float(dual @ b) / max(1.0, float(slopes.max()))
        chosen = np.concatenate([chosen, new[np.argsort(-slopes[new])][: 2 * len(b)]])


def drawn(kind: str, m: int, n: int, seed: int) -> tuple[Host, Host, Host, Host]:
    """A and b, and what the rival is given of them."""
    rng = np.random.default_rng(seed)
    if kind == "products":
        return products(rng, m, n)
    A, b = rng.normal(size=(m, n)), rng.normal(size=m)
    if kind == "planted":
        some = rng.choice(n, m // 10, replace=False)
        b = A[:, some] @ rng.normal(size=len(some))
    if kind != "repeated":
        return A, b, A, b
    again = rng.choice(m - m // 10, m // 10, replace=False)
    A[m - len(again) :], means = A[again], b[: m - len(again)].copy()
    means[again] = (b[again] + b[m - len(again) :]) / 2
    return A, b, A[: len(means)], means


def products(rng: np.random.Generator, m: int, n: int) -> tuple[Host, Host, Host, Host]:
    """m patients, n products of one to five of ten measurements, each of length 1."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    rows = rng.choice(len(X), m, replace=False)
    X, y = X[rows] / X.std(axis=0), y[rows] - y.mean()
    every = (
        which
        for degree in range(1, 9)
        for which in itertools.combinations_with_replacement(range(X.shape[1]), degree)
    )
    A = np.stack([X[:, list(which)].prod(axis=1) for which in itertools.islice(every, n)], axis=1)
    A /= np.linalg.norm(A, axis=0)
    return A, y, A, y


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("sizes", nargs="+", help="ROWSxCOLUMNS")
    options.add_argument("--kind", default="normal")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--runs", type=int, default=1)
    options.add_argument("--method", default="auto")
    options.add_argument("--max-time", type=float, default=120.0)
    given = options.parse_args()
    worst = 0.0
    for size in given.sizes:
        m, n = map(int, size.split("x"))
        rows = []
        for run in range(given.runs):
            A, b, few, means = drawn(given.kind, m, n, given.seed + run)
            began = time.process_time()
            value, bound = column_generation(few, means)
            rival = time.process_time() - began
            began = time.process_time()
            problem = tb.Problem(lower=tb.LeastSquares(A, b), upper=tb.L1())
            result = tb.solve(problem, given.method, max_time=given.max_time)
            own = time.process_time() - began
            rows.append(own / rival)
            print(
                f"{size} {given.kind} seed {given.seed + run}: {result.status} {own:.2f} s, "
                f"rival {rival:.2f} s, ratio {own / rival:.2f}; f - rival "
                f"{result.upper_value - value:.1e}, its gap {value - bound:.1e}, "
                f"upper_error {result.upper_error:.1e}, lower_gap {result.lower_gap:.1e}",
                flush=True,
            )
        print(f"{size}: median ratio {statistics.median(rows):.2f}, worst {max(rows):.2f}")
        worst = max(worst, *rows)
    return int(worst > 1.5)


if __name__ == "__main__":
    sys.exit(main())
