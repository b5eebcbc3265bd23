"""The cost of project_cut in passes over the vector.

    python benchmarks/kernels/project_cut.py [--n 1000000] [--repeats 3] [--all] [--only Ball]

Cold: no guess.  Warm: the guess is the multiplier of the same problem with x slightly moved.
Exits with 1 if a limit is exceeded.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import sys
from collections.abc import Iterator

import numpy as np
from data_passes import Task, Vector, main

from tiebreak import sets as domains


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


def tasks(n: int) -> Iterator[tuple[str, Task]]:
    for name, domain in sets(n):

        def level(x: Vector, c: Vector, share: float, domain: domains.Domain = domain) -> float:
            """Some way between what the projection of x has and what can be reached."""
            here = float(c @ domain.project(x))
            least = -domain.support(-c)
            if not np.isfinite(least):
                least = here - float(np.abs(c) @ np.abs(x))
            return here - share * (here - least)

        yield name, Task(level, domain.project_cut)


if __name__ == "__main__":
    sys.exit(main(str(__doc__), tasks))
