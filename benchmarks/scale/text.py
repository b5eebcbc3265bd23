"""A text-like problem from a seed: 20,000 documents, 60,000 words, 0.1 % non-zeros.

The words of a document follow Zipf's law, the entries are tf-idf (non-negative, every row of length
1), the labels come from a planted direction. Below: the training loss; among its minimisers the one
with the smallest norm, or with the smallest loss on a validation set. `tb.solve(problem)` as it is.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "2")

import argparse
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

import tiebreak as tb


def documents(rows: int, words: int, share: float, seed: int) -> Any:
    """tf-idf of documents whose words are drawn by Zipf's law; every row has length 1."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / (np.arange(words) + 10.0)
    cumulative = np.cumsum(popularity / popularity.sum())
    wanted = round(rows * words * share)
    drawn = round(1.6 * wanted)  # a word may be drawn twice for a document
    column = np.minimum(np.searchsorted(cumulative, rng.random(drawn)), words - 1)
    row = rng.integers(0, rows, drawn)
    counts = sp.csr_array((np.ones(drawn), (row, column)), shape=(rows, words))
    counts.sum_duplicates()
    keep = rng.random(counts.nnz) < wanted / counts.nnz
    counts.data *= keep
    counts.eliminate_zeros()
    found = np.bincount(counts.indices, minlength=words)
    counts.data = (1.0 + np.log(counts.data)) * np.log((1 + rows) / (1 + found))[counts.indices]
    lengths = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).reshape(-1))
    return sp.csr_array(sp.diags_array(1.0 / np.maximum(lengths, 1e-300)) @ counts)


def problem(kind: str, upper: str, rows: int, words: int, share: float, seed: int) -> tb.Problem:
    """The lower level on all documents, the upper one on a quarter as many others, or the norm."""
    A = documents(rows, words, share, seed)
    B = documents(rows // 4, words, share, seed + 1)
    rng = np.random.default_rng(seed + 2)
    truth = rng.standard_normal(words)
    b, c = (M @ truth + 0.1 * rng.standard_normal(M.shape[0]) for M in (A, B))
    loss: Any = tb.LeastSquares
    f: Any = tb.SquaredNorm()
    if kind == "logistic":
        loss, b, c = tb.Logistic, np.where(b >= 0.0, 1.0, -1.0), np.where(c >= 0.0, 1.0, -1.0)
    if upper == "validation":
        f = loss(B, c)
    domain = tb.Ball(10.0) if kind == "logistic" or upper == "validation" else tb.Space()
    return tb.Problem(upper=f, lower=loss(A, b), domain=domain)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--words", type=int, default=60_000)
    parser.add_argument("--share", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="lower-upper, such as logistic-norm")
    parser.add_argument("--max-time", type=float, default=600.0)
    options = parser.parse_args()
    failed = False
    for kind in ("squares", "logistic"):
        for upper in ("norm", "validation"):
            if options.only not in (None, f"{kind}-{upper}"):
                continue
            size = (options.rows, options.words, options.share, options.seed)
            made = problem(kind, upper, *size)
            entries = made.smooth_parts[1].matrix.size  # type: ignore[union-attr]
            began, busy = time.perf_counter(), time.process_time()
            result = tb.solve(made, max_time=options.max_time)
            seconds, cpu = time.perf_counter() - began, time.process_time() - busy
            failed |= not result.success
            print(
                f"{kind:>8} below, {upper:<10} above, {options.rows:,} x {options.words:,}, "
                f"{entries:,} non-zeros: {result.status}, {seconds:.1f} s ({cpu:.1f} s of one "
                f"core), {result.nit} steps, {result.trace[-1].passes:,} passes\n"
                f"         f {result.upper_value:.7g}, gap {result.upper_gap:.2e}, error "
                f"{result.upper_error:.2e};  g {result.lower_value:.7g}, gap "
                f"{result.lower_gap:.2e}\n         {result.method}",
                flush=True,
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
