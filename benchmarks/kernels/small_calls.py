"""What one call of `solve` costs on a small problem, relative to bare NumPy.

    python benchmarks/kernels/small_calls.py [--seed N] [--draws N] [--repeat N]

The problems are least squares over least squares: g with 5 rows, f with 3, 7 and 12, in 11
variables, on R^n, in a ball and in a box; and g of 45 x 110 with 30, 70 and 120 rows in f on R^n.
NumPy uses one singular value decomposition and `lstsq` on the null space, which solves only the
problem on R^n. The sizes of the ball and the box are random, 0.5 to 1.5 times that of the answer on
R^n, so they bind in about half of the draws.

Times are processor times of one thread, after a warm-up. Both sides are measured in turn, and the
least of ``--repeat`` times counts; the figure is the median ratio over the draws.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tiebreak as tb

ABOVE = {(5, 11): (3, 7, 12), (45, 110): (30, 70, 120)}  # rows and columns below: rows above
# rows and columns below, the set, and the largest median ratio that was asked for
ASKED = (
    ((5, 11), "R^n", 25.0),
    ((5, 11), "ball", 50.0),
    ((5, 11), "box", 80.0),
    ((45, 110), "R^n", 4.0),
)
EXACT = 1e-7  # the largest relative error of x on R^n


def by_numpy(A: Any, b: Any, B: Any, c: Any) -> Any:
    """The answer on R^n: a minimiser below, then least squares on the null space."""
    U, s, V = np.linalg.svd(A)
    N, x = V[len(b) :].T, V[: len(b)].T @ ((U.T @ b) / s)
    return x + N @ np.linalg.lstsq(B @ N, c - B @ x, rcond=None)[0]


def domain_of(kind: str, x: Any, share: float) -> Any:
    """A set of this kind whose size is that share of the answer's on R^n."""
    if kind == "ball":
        return tb.Ball(share * float(np.linalg.norm(x)))
    if kind == "box":
        size = share * float(np.abs(x).max())
        return tb.Box(-size, size)
    return tb.Space()


def seconds_of(task: Callable[[], Any]) -> float:
    """Seconds of the processor for one call; a short one is called until a millisecond is over."""
    calls, began = 0, time.process_time()
    while True:
        task()
        calls += 1
        if (taken := time.process_time() - began) > 1e-3:
            return taken / calls


def ratio(
    shape: tuple[int, int], above: int, kind: str, rng: Any, repeat: int
) -> tuple[float, float, str]:
    """Of one draw: seconds of `solve`, times bare NumPy's, and the status."""
    A, B = rng.standard_normal(shape), rng.standard_normal((above, shape[1]))
    b, c = rng.standard_normal(shape[0]), rng.standard_normal(above)
    x = by_numpy(A, b, B, c)
    domain = domain_of(kind, x, rng.uniform(0.5, 1.5))

    def solve() -> tb.Result:
        upper, lower = tb.LeastSquares(B, c), tb.LeastSquares(A, b)
        return tb.solve(tb.Problem(upper=upper, lower=lower, domain=domain))

    result = solve()
    if kind == "R^n" and not np.linalg.norm(result.x - x) <= EXACT * np.linalg.norm(x):
        return float("inf"), float("inf"), "wrong"
    own, theirs = [], []
    for _ in range(repeat):  # alternating: what else the machine does meets both
        theirs.append(seconds_of(lambda: by_numpy(A, b, B, c)))
        own.append(seconds_of(solve))
    return min(own), min(own) / min(theirs), result.status


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args(arguments)
    is_good = True
    for shape, kind, asked in ASKED:
        for above in ABOVE[shape]:
            seed = [options.seed, *shape, above]
            drawn = [
                ratio(shape, above, kind, np.random.default_rng([*seed, draw]), options.repeat)
                for draw in range(options.draws)
            ]
            found = statistics.median(times for _, times, _ in drawn)
            statuses = Counter(status for _, _, status in drawn)
            is_good &= found <= asked and set(statuses) <= {"certified", "solved"}
            print(
                f"{shape[0]} x {shape[1]}, {above} above, {kind:<4}"
                f" {1e3 * statistics.median(own for own, _, _ in drawn):>8.2f} ms"
                f" {found:>7.1f} x (asked {asked:g}, worst {max(r for _, r, _ in drawn):.0f})  "
                + ", ".join(f"{count} {status}" for status, count in statuses.items())
                + ("" if found <= asked else "   <--"),
                flush=True,
            )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
