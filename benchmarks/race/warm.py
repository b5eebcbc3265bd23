"""Warm starts: the same problem again, and 50 neighbours, with `x0=result` and without.

    python benchmarks/race/warm.py [--neighbours N] [--seed S]

Problems that first-order methods solve: callables and penalties, with b or labels moved by 1 %.
Prints steps and gradients of the warm calls relative to the cold ones, and processor time.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before NumPy is imported; a test that imports this stays as it is
    for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_variable] = "1"

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tiebreak as tb

Made = Callable[[float], tb.Problem]  # a problem, its b or labels moved by that share


def callables(rng: np.random.Generator, n: int = 60) -> Made:
    """Least squares above and below, known by their values and gradients alone."""
    A, b = rng.standard_normal((n // 2, n)), rng.standard_normal(n // 2)
    V, w = rng.standard_normal((n + 20, n)), rng.standard_normal(n + 20)
    move = rng.standard_normal(n // 2)

    def made(share: float) -> tb.Problem:
        f, g = tb.LeastSquares(V, w), tb.LeastSquares(A, b + share * move)
        upper = tb.Smooth(f.value, f.gradient, lower_bound=0.0)
        return tb.Problem(upper=upper, lower=g, domain=tb.Ball(3.0))

    return made


def penalty(rng: np.random.Generator, n: int = 60) -> Made:
    """The shortest of all lasso solutions, columns in pairs."""
    A, b = rng.standard_normal((40, n // 2)), rng.standard_normal(40)
    move = rng.standard_normal(40)

    def made(share: float) -> tb.Problem:
        lower = tb.LeastSquares(np.hstack([A, A]), b + share * move) + tb.L1(0.5)
        return tb.Problem(upper=tb.SquaredNorm(), lower=lower)

    return made


def logistic(rng: np.random.Generator, n: int = 40) -> Made:
    """A validation loss over all minimisers of a logistic loss in a box; some labels move."""
    A = rng.standard_normal((300, n))
    x = rng.standard_normal(n)
    y, z = (np.sign(A @ x + 3.0 * rng.standard_normal(300)) for _ in range(2))
    order = rng.permutation(300)

    def made(share: float) -> tb.Problem:
        labels = y.copy()
        labels[order[: round(abs(share) * 300)]] *= -1.0
        lower = tb.Logistic(np.hstack([A, A[:, :5]]), labels)
        upper = tb.Logistic(np.hstack([A, A[:, :5]]), z)
        return tb.Problem(upper=upper, lower=lower, domain=tb.Box(-2.0, 2.0))

    return made


KINDS = {"callables": callables, "penalty": penalty, "logistic": logistic}


def gradients(result: Any) -> int:
    return int(result.trace[-1].upper_gradients + result.trace[-1].lower_gradients)


def start(problem: tb.Problem) -> Any:
    return np.zeros(problem.dimension or 0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--neighbours", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    print("problem     again: steps status      neighbours: gradients  seconds  statuses alike")
    for name, kind in KINDS.items():
        rng = np.random.default_rng(options.seed)
        made = kind(rng)
        problem = made(0.0)
        first = tb.solve(problem, x0=start(problem))
        again = tb.solve(problem, x0=first)
        counts, seconds, alike = [0, 0], [0.0, 0.0], 0
        for _ in range(options.neighbours):
            problem, statuses = made(0.01 * float(rng.uniform(-1.0, 1.0))), []
            for i, x0 in enumerate((start(problem), first)):
                began = time.process_time()
                result = tb.solve(problem, x0=x0)
                seconds[i] += time.process_time() - began
                counts[i] += gradients(result)
                statuses.append(result.status)
            alike += statuses[0] == statuses[1]
        print(
            f"{name:11s} {again.nit:12d} {again.status:11s}"
            f" {counts[1] / max(counts[0], 1):22.2f} {seconds[1] / seconds[0]:8.2f}"
            f" {alike:4d} of {options.neighbours}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
