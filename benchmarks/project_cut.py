"""The cost of project_cut in passes, one pass being the time of ``v + c``.

    python benchmarks/project_cut.py [--n 1000000] [--repeats 5]

Cold: no guess.  Warm: the guess is the multiplier of the same problem with x slightly moved.
Exits with 1 if a limit is exceeded.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tiebreak import domains

COLD_LIMIT, WARM_LIMIT = 250.0, 100.0

Vector = np.ndarray[Any, Any]


def fastest(task: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of some runs."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - start)
    return float(best)


def sets(n: int) -> Iterator[tuple[str, domains.Domain]]:
    """Every domain, with few and with many entries off its bounds where that matters."""
    rng = np.random.default_rng(0)
    lower = -rng.exponential(size=n)
    yield "Space", domains.Space()
    yield "Ball", domains.Ball(radius=0.5 * n**0.5, center=rng.normal(size=n))
    yield "Box, numbers", domains.Box(-1.0, 1.0)
    yield "Box, vectors", domains.Box(lower, lower + rng.exponential(size=n))
    yield "Orthant", domains.Orthant()
    yield "Simplex, few", domains.Simplex(1.0)
    yield "Simplex, many", domains.Simplex(0.5 * n)
    yield "L1Ball, few", domains.L1Ball(1.0)
    yield "L1Ball, many", domains.L1Ball(0.3 * n)
    yield "Monotone", domains.Monotone()
    yield "Halfspace", domains.Halfspace(rng.normal(size=n), -1.0)


def data(n: int) -> Iterator[tuple[str, Vector, Vector]]:
    """Pairs x, c, friendly and less friendly."""
    rng = np.random.default_rng(1)
    normal = rng.normal(size=n)
    yield "normal", normal, rng.normal(size=n)
    yield "trend", normal + np.linspace(-3.0, 3.0, n), rng.normal(size=n) + 0.5
    yield "heavy tails", rng.standard_cauchy(size=n), rng.standard_cauchy(size=n)
    yield "lognormal c", normal, np.exp(3.0 * rng.normal(size=n))
    yield "mixed signs", normal, np.exp(3.0 * rng.normal(size=n)) * rng.choice([-1.0, 1.0], n)
    yield "sparse c", normal, rng.normal(size=n) * (rng.random(n) < 0.01)
    yield "ties", np.round(normal), np.round(rng.normal(size=n))


def offset_between(domain: domains.Domain, x: Vector, c: Vector, share: float) -> float:
    """A right-hand side some way between what the projection of x has and what can be reached."""
    here = float(c @ domain.project(x))
    least = -domain.support(-c)
    if not np.isfinite(least):
        least = here - float(np.abs(c) @ np.abs(x))
    return here - share * (here - least)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    n, repeats = options.n, options.repeats
    rng = np.random.default_rng(2)
    print(f"passes of project_cut, n = {n}; limits {COLD_LIMIT:.0f} cold, {WARM_LIMIT:.0f} warm")
    print(f"{'domain':14} {'cold':>7} {'on':>12} {'at':>5}   {'warm':>7} {'on':>12} {'at':>5}")
    worst = {"cold": 0.0, "warm": 0.0}
    for name, domain in sets(n):
        rows: dict[str, tuple[float, str, float]] = {"cold": (0.0, "", 0.0), "warm": (0.0, "", 0.0)}
        for label, x, c in data(n):
            for share in (0.01, 0.5, 0.99):
                beta = offset_between(domain, x, c, share)
                moved = x + 1e-3 * rng.normal(size=n)
                guess = domain.project_cut(moved, c, beta)[1]
                one_pass = fastest(lambda x=x, c=c: x + c, 5 * repeats)  # type: ignore[misc]

                def cold(x: Vector = x, c: Vector = c, beta: float = beta) -> object:
                    return domain.project_cut(x, c, beta)  # noqa: B023

                def warm(
                    x: Vector = x, c: Vector = c, beta: float = beta, guess: float = guess
                ) -> object:
                    return domain.project_cut(x, c, beta, guess)  # noqa: B023

                for kind, task in (("cold", cold), ("warm", warm)):
                    passes = fastest(task, repeats) / one_pass
                    rows[kind] = max(rows[kind], (passes, label, share))
        cells = [f"{p:7.0f} {label:>12} {share:5.2f}" for p, label, share in rows.values()]
        print(f"{name:14} " + "   ".join(cells), flush=True)
        worst = {kind: max(worst[kind], rows[kind][0]) for kind in worst}
    return int(worst["cold"] > COLD_LIMIT or worst["warm"] > WARM_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
