"""The cost of prox_cut, step 6 of P-AGM-BiO, in passes over the vector.

    python benchmarks/kernels/prox_cut.py [--n 1000000] [--repeats 3] [--all] [--only L1-GroupL2]

Cold: no guess.  Warm: the guess is the multiplier of the same problem with v slightly moved.
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
from tiebreak.functions.penalties.joint_prox import Joint, joint
from tiebreak.functions.penalties.penalties import (
    L1,
    L2,
    ElasticNet,
    GroupL2,
    Indicator,
    Penalty,
    Zero,
)
from tiebreak.functions.penalties.prox_cuts import prox_cut

A = 0.7


def pairs(n: int) -> Iterator[tuple[str, Joint]]:
    """Every pair of penalties, and each with the sets that it goes with."""
    rng = np.random.default_rng(0)
    groups = rng.integers(-1, n // 10, n)
    norms: dict[str, Penalty] = {
        "Zero": Zero(),
        "L1": L1(0.5),
        "L2": L2(0.3 * n**0.5),
        "ElasticNet": ElasticNet(0.3, 0.5),
        "GroupL2": GroupL2(groups, 1.0),
    }
    for first, f2 in norms.items():
        for second, g2 in norms.items():
            yield f"{first}-{second}", joint(f2, g2)
    few = GroupL2(np.sort(groups) // (n // 50), 1.0)
    yield "GroupL2-GroupL2, few", joint(few, few)
    lower = -rng.exponential(size=n)
    box = Indicator(domains.Box(lower, lower + rng.exponential(size=n)))
    for name, norm in norms.items():
        if name != "Zero":
            yield f"{name}-Orthant", joint(norm, Indicator(domains.Orthant()))
            yield f"Orthant-{name}", joint(Indicator(domains.Orthant()), norm)
            yield f"{name}-Ball", joint(norm, Indicator(domains.Ball(0.3 * n**0.5)))
            yield f"Ball-{name}", joint(Indicator(domains.Ball(0.3 * n**0.5)), norm)
        if name in ("L1", "ElasticNet"):
            yield f"{name}-Box", joint(norm, box)
            yield f"Box-{name}", joint(box, norm)


def tasks(n: int) -> Iterator[tuple[str, Task]]:
    for name, pair in pairs(n):

        def level(v: Vector, c: Vector, share: float, pair: Joint = pair) -> float:
            """Some way between what the prox at mu = 0 has and what can be reached."""
            z = pair.prox(v, A, 0.0)
            here = float(c @ z) + pair.lower.value(z)
            least = pair.lower.least(c)[0]
            if not np.isfinite(least):
                least = here - float(np.abs(c) @ np.abs(v))
            return here - share * (here - least)

        def solve(
            v: Vector, c: Vector, beta: float, guess: float | None, pair: Joint = pair
        ) -> tuple[Vector, float]:
            return prox_cut(pair, v, A, c, beta, guess)

        yield name, Task(level, solve)


if __name__ == "__main__":
    sys.exit(main(str(__doc__), tasks))
