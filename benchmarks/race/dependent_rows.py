"""Least squares over least squares on R^n whose rows depend on each other exactly: what is proved?

    python benchmarks/race/dependent_rows.py --seed 1 --draws 100
    python benchmarks/race/dependent_rows.py --seed 1 --draws 20 --rounded

The data are of the kind of network counts: flows over links are the columns; the rows are counts at
some places, and totals of three to five of them, which repeat what is known. Some links are never
used, some are always used together. Counts are integers, or integers times a small power of two, so
that totals are exact. With `--rounded` the totals have weights and are rounded: rows depend on each
other up to rounding only, and nothing may be claimed that is not so of the numbers as stored.

A pair counts as proved where the intervals of f* and g* are both finite on both sides, and each is
within 1e-4 of the level's value at x, relative to its value at 0 where that is larger.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

import numpy as np

import tiebreak as tb

Host = np.ndarray[Any, Any]
CLOSE = 1e-4


def level(
    rng: np.random.Generator, n: int, places: int, links: Host, is_rounded: bool
) -> tuple[Host, Host]:
    """Rows and readings: counts of links at some places, with totals of a few of them, shuffled."""
    counts = np.where(rng.random((places, n)) < 8.0 / n, rng.integers(1, 5, (places, n)), 0)
    counts = (counts * 2.0 ** rng.integers(-3, 1))[:, links]
    readings = counts @ rng.integers(0, 50, n).astype(float)
    rows, targets = [counts], [readings]
    for _ in range(places // 2):
        some = rng.choice(places, int(rng.integers(3, 6)), replace=False)
        weights = rng.choice([-1.0, 1.0], len(some))
        if is_rounded:
            weights *= 1.0 + rng.random(len(some)) / 3.0
        rows.append((weights @ counts[some])[None])
        targets.append(np.atleast_1d(weights @ readings[some]))
    order = rng.permutation(places + places // 2)
    return np.vstack(rows)[order], np.concatenate(targets)[order]


def pair(rng: np.random.Generator, is_rounded: bool) -> tuple[Host, Host, Host, Host]:
    """Both levels over the same links: the readings of the upper one are of other hours."""
    n = int(100 + 601 * np.sqrt(rng.random()))  # the larger ones more often
    links = np.arange(n)
    links[rng.choice(n, n // 10, replace=False)] = rng.choice(n, n // 10)  # used together
    A, b = level(rng, n, int(n * rng.uniform(0.5, 0.9)), links, is_rounded)
    C, d = level(rng, n, int(n * rng.uniform(1.0, 1.5)), links, is_rounded)
    unused = rng.choice(n, n // 20, replace=False)
    A[:, unused] = C[:, unused] = 0.0
    return A, b, C, d


def is_within(interval: tuple[float, float], value: float, scale: float) -> bool:
    """Is the whole interval close to the value at x?"""
    room = CLOSE * max(abs(value), scale)
    return bool(interval[0] >= value - room and interval[1] <= value + room)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--draws", type=int, default=100)
    options.add_argument("--rounded", action="store_true")
    given = options.parse_args()
    proved, seconds, statuses = 0, [], Counter[str]()
    for index in range(given.draws):
        rng = np.random.default_rng([given.seed, index])
        A, b, C, d = pair(rng, given.rounded)
        upper, lower = tb.LeastSquares(C, d), tb.LeastSquares(A, b)
        began = time.process_time()
        result = tb.solve(tb.Problem(upper=upper, lower=lower))
        seconds.append(time.process_time() - began)
        within = is_within(
            result.upper_optimum, result.upper_value, 0.5 * float(d @ d)
        ) and is_within(result.lower_optimum, result.lower_value, 0.5 * float(b @ b))
        proved += within
        statuses[result.status] += 1
        print(
            f"{index:3d} {A.shape[0]:4d} + {C.shape[0]:4d} x {A.shape[1]:4d} {result.status:12s} "
            f"f {result.upper_value:.6e} in [{result.upper_optimum[0]:.6e}, "
            f"{result.upper_optimum[1]:.6e}], g {result.lower_value:.2e}, {seconds[-1]:.2f} s",
            flush=True,
        )
    print(
        f"proved from both sides {proved} of {given.draws}; {dict(statuses)}; "
        f"median {np.median(seconds):.2f} s"
    )
    return int(proved < 0.9 * given.draws and not given.rounded)


if __name__ == "__main__":
    sys.exit(main())
