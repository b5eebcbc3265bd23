"""What a re-solve with a new parameter value costs relative to the solver's own calls.

    python benchmarks/levels/parameters.py

The CVXPY levels have a parameter in the first of them: ½|A x - b|² with parameter b, then |x|_1 on
a polyhedron. The script prints the processor time of ``tb.solve`` with a new b, relative to that of
its Clarabel calls (target: at most 1.2) and to that of all levels without CVXPY, as medians of
alternating runs of one process.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import importlib
import statistics
import time
from typing import Any

import numpy as np

import tiebreak as tb
from tiebreak.conic import solved
from tiebreak.driver import solve_levels

REPEATS = 9
ASKED = 1.2
cp: Any = importlib.import_module("cvxpy")


class Clock:
    """A function with the processor time that its calls have taken."""

    def __init__(self, function: Any) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any) -> Any:
        began = time.process_time()
        try:
            return self.function(*arguments)
        finally:
            self.seconds += time.process_time() - began


def ratios(n: int, m: int, seed: int) -> tuple[float, float, float]:
    """Of one problem: to the solver's calls, to all levels, and the milliseconds of a re-solve."""
    rng = np.random.default_rng(seed)
    x, b = cp.Variable(n), cp.Parameter(m)
    A, G = rng.standard_normal((m, n)), rng.standard_normal((n // 2, n))
    b.value = A @ rng.uniform(-0.5, 0.5, n)
    fit = cp.Minimize(cp.sum_squares(A @ x - b))
    limits = [G @ x <= 1.0, x >= -1.0, x <= 1.0]
    levels = tb.from_cvxpy(fit, then=[cp.Minimize(cp.norm1(x))], constraints=limits)
    places: tuple[Any, Any] = (solved, solve_levels)
    solver, whole = Clock(places[0].clarabel_solve), Clock(places[1].solve_chain)
    places[0].clarabel_solve, places[1].solve_chain = solver, whole
    found = []
    try:
        for _ in range(REPEATS):
            b.value = A @ rng.uniform(-0.5, 0.5, n)
            solver.seconds = whole.seconds = 0.0
            began = time.process_time()
            tb.solve(levels)
            seconds = time.process_time() - began
            found.append((seconds / solver.seconds, seconds / whole.seconds, 1e3 * seconds))
    finally:
        places[0].clarabel_solve, places[1].solve_chain = solver.function, whole.function
    by_solver, by_levels, milliseconds = (
        statistics.median(part) for part in zip(*found[1:], strict=True)
    )
    return by_solver, by_levels, milliseconds


def main() -> None:
    """Four sizes."""
    for n, m in ((10, 4), (50, 20), (100, 40), (200, 80)):
        by_solver, by_levels, milliseconds = ratios(n, m, seed=n)
        print(
            f"{n} variables: {milliseconds:.1f} ms, {by_solver:.2f} of the solver's calls "
            f"(at most {ASKED}), {by_levels:.2f} of all levels without CVXPY"
        )


if __name__ == "__main__":
    main()
