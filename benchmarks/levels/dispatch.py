"""A dispatch of power plants by cost, then CO2, then ramping, relative to Clarabel by hand.

    python benchmarks/levels/dispatch.py SEED

96 hours x 10 plants, without slack and with 1 % on cost and CO2; by hand means: solve, add one row
"not worse than that", solve again, with Clarabel alone. The targets are at most 1.5 times its
processor time, or 4 times with slack. For 1,500 hours x 7 plants, they are at most 3 times the
number of levels times Clarabel's time for the first level alone, and every width at most 1e-6 of
the value. Times are the smaller of two alternating runs of one thread.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import clarabel
import numpy as np
import scipy.sparse as sp

import tiebreak as tb

Host = np.ndarray[Any, Any]
ASKED = {0.0: 1.5, 0.01: 4.0}
ASKED_LARGE = 3.0  # times the number of levels
WIDTH = 1e-6
DELTA = 1e-7  # relative: what the row by hand leaves, or the solver stalls
REPEATS = 2


class Dispatch(NamedTuple):
    """What every plant makes in every hour."""

    cost: Host
    carbon: Host
    change: Any  # from hour to hour
    balance: Any  # balance x = load
    load: Host
    reserve: Any  # reserve x >= least
    least: Host
    most: Host  # 0 <= x <= most

    def levels(self, slack: float) -> tb.Levels:
        rule = tb.Slack(relative=slack)
        return tb.Levels(
            tb.Level(tb.Linear(self.cost), name="cost", slack=rule),
            tb.Level(tb.Linear(self.carbon), name="CO2", slack=rule),
            tb.Level(tb.LeastSquares(self.change, np.zeros(self.change.shape[0])), name="ramps"),
            domain=tb.Box(0.0, self.most)
            & tb.Polyhedron(-self.reserve, -self.least, self.balance, self.load),
        )

    def values(self, x: Host) -> list[float]:
        ramps = self.change @ x
        return [float(self.cost @ x), float(self.carbon @ x), 0.5 * float(ramps @ ramps)]


def drawn(hours: int, plants: int, seed: int) -> Dispatch:
    """Prices and CO2 of few kinds, so that ties abound; smooth loads with noise."""
    rng = np.random.default_rng([32, 5, seed, hours])
    price = rng.choice([20.0, 35.0, 60.0], plants)
    carbon = rng.choice([0.2, 0.4, 0.9], plants)
    size = rng.uniform(50.0, 150.0, plants)
    wave = 0.55 + 0.2 * np.sin(np.arange(hours) * np.pi / 12) + 0.03 * rng.normal(size=hours)
    load, hour = wave * size.sum(), sp.eye_array(hours, format="csr")
    flexible = (np.arange(plants) % 2).astype(float)
    change = sp.csr_array(sp.kron(hour[1:] - hour[:-1], sp.eye_array(plants)))
    return Dispatch(
        np.tile(price, hours), np.tile(carbon, hours), change,
        sp.csr_array(sp.kron(hour, np.ones((1, plants)))), load,
        sp.csr_array(sp.kron(hour, flexible[None])), 0.1 * load, np.tile(size, hours),
    )  # fmt: skip


def by_hand(plan: Dispatch, slack: float, count: int = 3) -> Host:
    """The first levels with Clarabel, a row for each that was solved."""
    n, settings = len(plan.cost), clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    eye = sp.eye_array(n, format="csr")
    inner = [-plan.reserve, eye, -eye]
    right = [-plan.least, plan.most, np.zeros(n)]
    x = np.zeros(n)
    for number in range(count):
        square = sp.triu(plan.change.T @ plan.change) if number == 2 else sp.csc_array((n, n))
        q = (plan.cost, plan.carbon, np.zeros(n))[number]
        A, b = sp.csc_array(sp.vstack([plan.balance, *inner])), np.concatenate([plan.load, *right])
        equal = len(plan.load)
        cones = [clarabel.ZeroConeT(equal), clarabel.NonnegativeConeT(len(b) - equal)]
        P, A = sp.csc_matrix(square), sp.csc_matrix(A)
        x = np.array(clarabel.DefaultSolver(P, q, A, b, cones, settings).solve().x)
        value = float(q @ x)
        inner.append(sp.csr_array(q[None]))
        right.append(np.array([value + (slack or DELTA) * abs(value)]))
    return x


def race(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, Any, float, Any]:
    times: list[list[float]] = [[], []]
    found: list[Any] = [None, None]
    for _ in range(REPEATS):
        for k, call in enumerate((ours, theirs)):
            began = time.process_time()
            found[k] = call()
            times[k].append(time.process_time() - began)
    return min(times[0]), found[0], min(times[1]), found[1]


def told(plan: Dispatch, result: Any) -> str:
    pairs = zip(result.levels.values(), plan.values(result.x), strict=False)
    ends = [f"{level.word} {(level.best[1] - level.best[0]) / abs(v):.1e}" for level, v in pairs]
    return f"{result.status}; widths: {', '.join(ends)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    seed = parser.parse_args().seed
    plan = drawn(96, 10, seed)
    for slack, asked in ASKED.items():
        levels = plan.levels(slack)
        ours, result, hand, x = race(lambda: tb.solve(levels), lambda: by_hand(plan, slack))  # noqa: B023
        off = [(a - b) / b for a, b in zip(plan.values(result.x), plan.values(x), strict=True)]
        print(
            f"96 x 10, slack {slack:.0%}: {ours:.3f} s, by hand {hand:.3f} s, ratio "
            f"{ours / hand:.2f} (asked {asked:g}); ours less by hand "
            f"{', '.join(f'{one:+.0e}' for one in off)}; {told(plan, result)}",
            flush=True,
        )
    plan = drawn(1500, 7, seed)
    levels = plan.levels(0.0)
    ours, result, hand, _ = race(lambda: tb.solve(levels), lambda: by_hand(plan, 0.0, 1))
    print(
        f"1,500 x 7: {ours:.2f} s, the first level by Clarabel {hand:.3f} s, ratio "
        f"{ours / hand:.1f} (asked {ASKED_LARGE * len(levels.levels):g}); {told(plan, result)} "
        f"(asked {WIDTH:g})"
    )


if __name__ == "__main__":
    main()
