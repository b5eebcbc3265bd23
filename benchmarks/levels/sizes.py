"""How large a plan may be, and how long it takes: the table of docs/planners.md.

    python benchmarks/levels/sizes.py SEED [--save]

Plans of `linear_chains` and `dispatch` (whose last level is quadratic), three levels without slack.
Processor times of one thread, the smaller of two runs; duals are those of all three levels.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

import argparse
import time
from collections.abc import Callable
from typing import Any

import record
from dispatch import drawn
from linear_chains import flow, staffing, transport

import tiebreak as tb

LIMIT = 60.0  # seconds for a call


def taken(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = call()
    return time.process_time() - began, found


def measured(name: str, levels: tb.Levels) -> dict[str, object]:
    seconds, result = min(
        (taken(lambda: tb.solve(levels, max_time=LIMIT)) for _ in range(2)),
        key=lambda pair: pair[0],
    )
    asking, duals = taken(lambda: result.duals)
    return {
        "plan": name,
        "variables": levels.dimension,
        "rows": len(result.rows),
        "seconds": round(seconds, 3),
        "seconds for duals": round(asking, 3) if None not in duals.values() else "unknown",
        "ends": result.status,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--save", action="store_true", help="to benchmarks/results")
    given = parser.parse_args()
    seed, rows = given.seed, []
    chains = [
        transport(20, 30, seed), transport(60, 120, seed), transport(150, 200, seed),
        flow(300, 2000, seed), flow(3000, 20_000, seed),
        staffing(30, 28, seed), staffing(200, 60, seed),
    ]  # fmt: skip
    plans = [(f"{chain.name}, linear", chain.some(3).levels()) for chain in chains]
    for hours, plants in ((96, 10), (1500, 7)):
        name = f"dispatch {hours}x{plants}, quadratic last"
        plans.append((name, drawn(hours, plants, seed).levels(0.0)))
    for name, levels in plans:
        rows.append(measured(name, levels))
        print(rows[-1], flush=True)
    if given.save:
        print(record.save("plan_sizes", rows))


if __name__ == "__main__":
    main()
