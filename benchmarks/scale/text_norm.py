"""The least norm over least squares on a text that can be met exactly, beside SciPy's LSQR.

    python benchmarks/scale/text_norm.py --seed 1 [--rows 20000 --words 50000]

Rows of 0.1 % non-zeros, in random columns or in columns by Zipf's law, b = A x. LSQR runs to the g
that `tb.solve(..., criterion="weak")` has reached. Processor time, one thread, alternating.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import statistics
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

import tiebreak as tb

Host = np.ndarray[Any, Any]
LIMIT = 3.0


def text(rng: np.random.Generator, rows: int, words: int, kind: str) -> Any:
    """Rows with 0.1 % of the words, each with a positive entry."""
    each = max(words // 1000, 1)
    share = 1.0 / (np.arange(words) + 1.0) if kind == "zipf" else np.ones(words)
    edges = np.cumsum(share / share.sum())
    columns = np.minimum(np.searchsorted(edges, rng.random(rows * each)), words - 1)
    A = sp.coo_array((1.0 + rng.random(rows * each), (np.repeat(np.arange(rows), each), columns)))
    A.resize(rows, words)
    return sp.csr_array(A)


def steps_to(A: Any, b: Host, residual: float) -> int:
    """How many steps LSQR takes until |Ax - b| is at most this, found by doubling."""
    steps = 8
    while steps < 2**20:
        x = lsqr(A, b, atol=0.0, btol=0.0, conlim=0.0, iter_lim=steps)[0]
        if np.linalg.norm(A @ x - b) <= residual:
            return steps
        steps = int(1.25 * steps) + 1
    return steps


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--rows", type=int, default=20_000)
    options.add_argument("--words", type=int, default=50_000)
    options.add_argument("--runs", type=int, default=3)
    given = options.parse_args()
    failed = False
    for kind in ("random", "zipf"):
        rng = np.random.default_rng([given.seed, kind == "zipf"])
        A = text(rng, given.rows, given.words, kind)
        b = A @ rng.normal(size=given.words)
        ratios = []
        for run in range(given.runs):
            problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b))
            began = time.process_time()
            result = tb.solve(problem, criterion="weak")
            ours = time.process_time() - began
            if run == 0:
                steps = steps_to(A, b, float(np.sqrt(2.0 * result.lower_value)))
            began = time.process_time()
            lsqr(A, b, atol=0.0, btol=0.0, conlim=0.0, iter_lim=steps)
            theirs = time.process_time() - began
            ratios.append(ours / theirs)
        ratio = statistics.median(ratios)
        print(
            f"{kind:7s} {A.shape[0]:,} x {A.shape[1]:,}: {result.status}, {ours:.2f} s, LSQR "
            f"{theirs:.2f} s in {steps} steps, ratio {ratio:.2f}; f {result.upper_value:.6e}, gap "
            f"{result.upper_gap:.1e}, g {result.lower_value:.1e}",
            flush=True,
        )
        failed |= result.status != "certified" or ratio > LIMIT
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
