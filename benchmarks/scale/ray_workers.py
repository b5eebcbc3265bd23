"""What a step costs with the rows in two Ray workers, relative to one process with one BLAS thread.

AGM-BiO with online levels, both sequences, the certificate on. Runs alternate and the medians of
their times per step are compared, so that the machine's speed cancels. Also: what a step costs
where there is nothing to compute, relative to bare calls of Ray, and the numbers that travel.
"""

from __future__ import annotations

import logging
import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # as this process: Ray steps back by 15

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray

import tiebreak as tb
from tiebreak import distributed
from tiebreak.functions.base import SmoothFunction

WORKERS = 2
LIMIT = 0.65  # of the single-process time
CURVATURES = {"LeastSquares": 1.0, "Logistic": 0.25, "Huber": 1.0, "Multinomial": 0.5}


def write_shards(
    folder: Path, rows: int, n: int, has_classes: bool = False
) -> list[tuple[Path, Path]]:
    """Random rows in one pair of files for each worker, with targets -1 and +1, or 0, 1 and 2."""
    shards = []
    for i in range(WORKERS):
        rng = np.random.default_rng(i)
        A = rng.standard_normal((rows // WORKERS, n))
        noisy = A[:, 0] + rng.standard_normal(len(A))
        b = np.digitize(noisy, (-0.5, 0.5)) * 1.0 if has_classes else np.where(noisy > 0, 1.0, -1.0)
        shards.append((folder / f"A{i}.npy", folder / f"b{i}.npy"))
        for path, array in zip(shards[-1], (A, b), strict=True):
            np.save(path, array)
    return shards


def seconds_per_step(lower: SmoothFunction, steps: int) -> float:
    """One step, averaged over a run, from the run's own clock."""
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(1.0))
    result = tb.solve(problem, tb.AGMBiO(gamma=1e-2), rtol=0, max_iter=steps)
    first, last = result.trace[0], result.trace[-1]
    return (last.seconds - first.seconds) / (last.iteration - first.iteration)


def alternating(
    functions: Sequence[SmoothFunction], steps: int, rounds: int
) -> list[tuple[float, ...]]:
    """Seconds per step of each function, so many times in turn."""
    for function in functions:
        seconds_per_step(function, 2)
    return [tuple(seconds_per_step(h, steps) for h in functions) for _ in range(rounds)]


def compare(kind: str, rows: int, n: int, steps: int, rounds: int, folder: Path) -> bool:
    """A line of the table; is the ratio within its limit?"""
    has_classes = kind == "Multinomial"
    shards = write_shards(folder, rows, n, has_classes)
    A, b = (np.concatenate([np.load(pair[i]) for pair in shards]) for i in (0, 1))
    lipschitz = (np.sqrt(rows) + 2.0 * np.sqrt(n)) ** 2 * CURVATURES[kind] / rows
    options: dict[str, Any] = {"mean": True, "lipschitz": lipschitz}
    options |= {"classes": 3} if has_classes else {}
    no_gram = {"gram": False} if kind == "LeastSquares" else {}
    here = getattr(tb, kind)(A, b, **options, **no_gram)
    far = getattr(distributed, kind)(shards, **options)
    pairs = alternating((here, far), steps, rounds)
    one, two = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(far_time / here_time for here_time, far_time in pairs)
    print(
        f"{kind:>14} {rows:>8} x {n:<6} {1e3 * one:>9.1f} {1e3 * two:>9.1f} "
        f"{ratio:>7.2f} {LIMIT:>6.2f}",
        flush=True,
    )
    return ratio <= LIMIT


class Echo:
    """An actor that does nothing: what Ray itself costs."""

    def echo(self, points: bytes) -> bytes:
        return points


def seconds_per_echo(actors: Sequence[Any], n: int, calls: int) -> float:
    """Two points to every actor and back, as bytes, and nothing else."""
    points = np.zeros((2, n)).tobytes()
    began = time.perf_counter()
    for _ in range(calls):
        ray.get([actor.echo.remote(points) for actor in actors])
    return (time.perf_counter() - began) / calls


def overhead(n: int, steps: int, rounds: int) -> bool:
    """A line for a step without work: one row for each worker."""
    row = np.full((1, n), n**-0.5)
    far = distributed.LeastSquares([lambda: (row, np.ones(1))] * WORKERS, lipschitz=float(WORKERS))
    here = tb.LeastSquares(
        np.repeat(row, WORKERS, axis=0), np.ones(WORKERS), gram=False, lipschitz=float(WORKERS)
    )
    echoes = [ray.remote(Echo).remote() for _ in range(WORKERS)]
    seconds_per_echo(echoes, n, steps)
    extras, bare = [], []
    for _ in range(rounds):
        ((here_time, far_time),) = alternating((here, far), steps, 1)
        extras.append(far_time - here_time)
        bare.append(seconds_per_echo(echoes, n, steps))
    print(
        f"a step without work at d = {n}: {1e3 * statistics.median(extras):.2f} ms, "
        f"bare calls of Ray alone {1e3 * statistics.median(bare):.2f} ms"
    )
    before = far.traffic
    seconds_per_step(far, 200)
    rounds_made = far.traffic.rounds - before.rounds
    out, recipe, slopes, scalars = (
        (now - then) / rounds_made for now, then in zip(far.traffic[1:], before[1:], strict=True)
    )
    print(
        f"a round and worker: {out + recipe:.0f} numbers out (2d = {2 * n}), points {out:.0f} and "
        f"a recipe of {recipe:.0f}; {slopes:.0f} + {scalars:.0f} back"
    )
    return out + recipe <= 2 * n and slopes + scalars <= 2 * n + 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    ray.init(
        num_cpus=WORKERS,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=100_000_000,
    )
    within = True
    print(f"{'a step (ms)':>32} {'one':>9} {'two':>9} {'ratio':>7} {'limit':>6}")
    for kind in CURVATURES:
        with tempfile.TemporaryDirectory() as folder:
            within &= compare(
                kind, options.rows, options.columns, options.steps, options.rounds, Path(folder)
            )
    within &= overhead(options.columns, 100, options.rounds)  # when Ray's own start is long over
    ray.shutdown()
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
