"""Chains of linear levels of 300 to 2,000 variables, relative to HiGHS's own lexicographic mode.

    python benchmarks/levels/linear_chains.py SEED [--part NAME] [--scipy]

Four kinds: transport, flow, degenerate rows, staffing; two, three and all levels without slack, and
three with 1 % on the first two. Printed for each are processor times of one thread, the smaller of
two alternating runs, their ratio, how the result ended, the largest relative error of a level at x
(what it gives up beyond its slack, or lies below the best value), relative to a reference that
holds faces by reduced costs, and the largest width of a best value. The targets with highspy are at
most 3 times HiGHS in the median, 6 at worst, and errors up to 1e-9; with ``--scipy``, which hides
highspy from tiebreak, 8 and 15.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import tiebreak as tb

highspy: Any = importlib.import_module("highspy")
Host = np.ndarray[Any, Any]
ASKED = {False: (3.0, 6.0), True: (8.0, 15.0)}  # median and worst; True: with SciPy's HiGHS
ACCURATE = 1e-9
REPEATS = 2
HELD = 1e-7  # reduced costs above this hold a row or a bound of the reference
LIMIT = 60.0  # seconds for a call of tiebreak


class Chain(NamedTuple):
    """Minimise costs[0] x, then costs[1] x, ... over low <= x <= high, least <= rows x <= most."""

    name: str
    costs: list[Host]
    rows: Any
    least: Host
    most: Host
    low: Host
    high: Host
    slack: float = 0.0  # relative, of all levels but the last

    def levels(self) -> tb.Levels:
        equal = self.least == self.most
        above = ~equal & np.isfinite(self.most)
        kinds: dict[str, Any] = {}
        if equal.any():
            kinds |= {"A_eq": self.rows[equal], "b_eq": self.most[equal]}
        if above.any():
            kinds |= {"A": self.rows[above], "b": self.most[above]}
        slacks = [tb.Slack(relative=self.slack)] * (len(self.costs) - 1) + [tb.Slack()]
        return tb.Levels(
            *[tb.Level(tb.Linear(c), slack=s) for c, s in zip(self.costs, slacks, strict=True)],
            domain=tb.Box(self.low, self.high) & tb.Polyhedron(**kinds),
        )

    def some(self, count: int, slack: float = 0.0) -> Chain:
        """The first levels alone."""
        return self._replace(costs=self.costs[:count], slack=slack)


# -- problems -------------------------------------------------------------------------------------


def transport(sources: int, sinks: int, seed: int) -> Chain:
    """Costs are small whole numbers, so that ties abound; all sinks want the same."""
    rng = np.random.default_rng([32, 1, seed, sources])
    supply = sinks * rng.integers(5, 20, sources).astype(float)
    demand = np.full(sinks, supply.sum() / sinks)
    out = sp.kron(sp.eye_array(sources), np.ones((1, sinks)))
    into = sp.kron(np.ones((1, sources)), sp.eye_array(sinks))
    rows, right = sp.csr_array(sp.vstack([out, into]))[:-1], np.append(supply, demand)[:-1]
    n = sources * sinks
    costs = [rng.integers(1, 5, n).astype(float) for _ in range(5)]
    box = np.zeros(n), np.full(n, np.inf)
    return Chain(f"transport {sources}x{sinks}", costs, rows, right, right, *box)


def flow(nodes: int, arcs: int, seed: int) -> Chain:
    """Flows of bounded arcs, planted so that there is one."""
    rng = np.random.default_rng([32, 2, seed, nodes])
    start = rng.integers(0, nodes, arcs)
    end = (start + rng.integers(1, nodes, arcs)) % nodes
    places = np.append(start, end), np.tile(np.arange(arcs), 2)
    values = np.repeat([1.0, -1.0], arcs)
    rows = sp.csr_array((values, places), shape=(nodes, arcs))[:-1]
    right = rows @ rng.integers(0, 6, arcs).astype(float)
    costs = [rng.integers(0, 4, arcs).astype(float) for _ in range(5)]
    box = np.zeros(arcs), np.full(arcs, 8.0)
    return Chain(f"flow {nodes}x{arcs}", costs, rows, right, right, *box)


def degenerate(m: int, n: int, seed: int) -> Chain:
    """Packing rows with small whole entries, half of them tight at a planted point."""
    rng = np.random.default_rng([32, 3, seed, n])
    share = 6.0 / m * 2.0
    pattern = sp.random_array((m, n), density=share, rng=rng, format="csr")
    pattern.data = rng.integers(1, 4, pattern.nnz).astype(float)
    planted = (rng.random(n) < 0.3) * rng.integers(1, 4, n).astype(float)
    most = pattern @ planted + (rng.random(m) < 0.5) * rng.integers(0, 3, m)
    costs = [-rng.integers(0, 3, n).astype(float) for _ in range(5)]
    least, box = np.full(m, -np.inf), (np.zeros(n), np.full(n, 5.0))
    return Chain(f"degenerate {m}x{n}", costs, pattern, least, most, *box)


def staffing(workers: int, shifts: int, seed: int) -> Chain:
    """Who works when: understaffing, overtime, wages, wishes."""
    rng = np.random.default_rng([32, 4, seed, workers])
    n = workers * shifts
    need, most = rng.integers(5, 14, shifts).astype(float), rng.integers(6, 12, workers)
    missing, over = sp.eye_array(shifts), sp.eye_array(workers)
    cover = sp.kron(np.ones((1, workers)), sp.eye_array(shifts))
    hours = sp.kron(sp.eye_array(workers), np.ones((1, shifts)))
    rows = sp.csr_array(sp.block_array([[-cover, -missing, None], [hours, None, -over]]))
    free = (rng.random(n) < 0.6).astype(float)
    high = np.concatenate([free, np.full(shifts, 50.0), np.full(workers, 4.0)])
    wages = np.repeat(rng.choice([20.0, 25.0, 30.0], workers), shifts)
    wishes = rng.integers(0, 4, n).astype(float)
    costs = [np.zeros(len(high)) for _ in range(4)]
    costs[0][n : n + shifts] = 1.0
    costs[1][n + shifts :] = 1.0
    costs[2][:n], costs[3][:n] = wages, wishes
    right = np.append(-need, most.astype(float))
    least, low = np.full(len(right), -np.inf), np.zeros(len(high))
    return Chain(f"staffing {workers}x{shifts}", costs, rows, least, right, low, high)


def chains(seed: int) -> Iterator[Chain]:
    whole = [
        transport(20, 30, seed), transport(30, 60, seed),
        flow(40, 300, seed), flow(150, 1000, seed), flow(300, 2000, seed),
        degenerate(200, 400, seed), degenerate(500, 1000, seed), degenerate(900, 2000, seed),
        staffing(30, 28, seed), staffing(55, 30, seed),
    ]  # fmt: skip
    for chain in whole:
        yield from (chain.some(2), chain.some(3), chain.some(5), chain.some(3, 0.01))


# -- ways -----------------------------------------------------------------------------------------


def passed(chain: Chain) -> Any:
    """The set in HiGHS."""
    solver: Any = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    lp: Any = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = chain.rows.shape
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = chain.costs[0], chain.low, chain.high
    lp.row_lower_, lp.row_upper_ = chain.least, chain.most
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = chain.rows.indptr, chain.rows.indices
    lp.a_matrix_.value_ = chain.rows.data
    solver.passModel(lp)
    return solver


def lexicographic(chain: Chain) -> Host:
    """HiGHS's own lexicographic mode."""
    solver = passed(chain)
    solver.setOptionValue("blend_multi_objectives", False)
    for k, cost in enumerate(chain.costs):
        one: Any = highspy.HighsLinearObjective()
        one.weight, one.offset, one.coefficients = 1.0, 0.0, list(cost)
        one.priority = len(chain.costs) - k
        one.abs_tolerance = -1.0 if chain.slack else 0.0
        one.rel_tolerance = chain.slack or -1.0
        solver.addLinearObjective(one)
    solver.run()
    return np.array(solver.getSolution().col_value)


def reference(chain: Chain) -> list[float]:
    """The best value of each level: faces held by reduced costs, slacks by a row."""
    solver, values = passed(chain), []
    for kind in ("primal", "dual"):
        solver.setOptionValue(f"{kind}_feasibility_tolerance", 1e-10)
    n, (low, high), least, most = (
        len(chain.low), (chain.low.copy(), chain.high.copy()), chain.least, chain.most
    )  # fmt: skip
    for cost in chain.costs:
        solver.changeColsCost(n, np.arange(n, dtype=np.int32), cost)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(f"{chain.name}: {solver.getModelStatus()}")
        found = solver.getSolution()
        values.append(float(cost @ np.array(found.col_value)))
        if chain.slack:
            at = np.flatnonzero(cost).astype(np.int32)
            most_value = values[-1] + chain.slack * abs(values[-1])
            solver.addRow(-np.inf, most_value, len(at), at, cost[at])
            continue
        costs, duals = np.array(found.col_dual), np.array(found.row_dual)
        high = np.where(costs > HELD, low, high)
        low = np.where(costs < -HELD, high, low)
        solver.changeColsBounds(n, np.arange(n, dtype=np.int32), low, high)
        for i in np.flatnonzero(np.abs(duals) > HELD):
            end = most[i] if duals[i] < 0.0 else least[i]
            solver.changeRowBounds(int(i), end, end)
    return values


def error(chain: Chain, values: list[float], x: Host) -> float:
    """The largest of all levels, relative."""
    most = 0.0
    for k, (cost, value) in enumerate(zip(chain.costs, values, strict=True)):
        room = chain.slack * abs(value) if k < len(values) - 1 else 0.0
        off = float(cost @ x) - value
        off = max(off - room, -off, 0.0)  # a later level may also give back what it does not need
        most = max(most, off / max(1.0, abs(value)))
    return most


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = call()
    return time.process_time() - began, found


def hide_highspy() -> None:
    """As if it were not installed, for tiebreak; here it is imported already."""
    sys.modules["highspy"] = None  # type: ignore[assignment]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--part", default="", help="of the names of the problems")
    parser.add_argument("--scipy", action="store_true", help="hide highspy from tiebreak")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.scipy:
        hide_highspy()
    ratios, errors = [], []
    for chain in chains(given.seed):
        if given.part not in chain.name:
            continue
        name = f"{chain.name:<19} {len(chain.costs)} levels {chain.slack:4.0%}"
        values = reference(chain)
        levels, ours, theirs = chain.levels(), [], []
        for _ in range(REPEATS):
            ours.append(timed(lambda: tb.solve(levels, max_time=LIMIT)))  # noqa: B023
            theirs.append(timed(lambda: lexicographic(chain)))  # noqa: B023
        time_ours, result = min(ours, key=lambda pair: pair[0])
        time_theirs, x = min(theirs, key=lambda pair: pair[0])
        ends = [level.best for level in result.levels.values()]
        width = max((high - low) / max(1.0, abs(high)) for low, high in ends)
        off = error(chain, values, result.x)
        ratios.append(time_ours / time_theirs)
        errors.append(off)
        words = " ".join(level.word for level in result.levels.values())
        print(
            f"{name} {1e3 * time_ours:8.1f} ms, HiGHS {1e3 * time_theirs:6.1f} ms, "
            f"ratio {ratios[-1]:6.2f}, error {off:7.1e} (HiGHS {error(chain, values, x):7.1e}), "
            f"width {width:7.1e}, {result.status}: {words}",
            flush=True,
        )
    median, worst = ASKED[given.scipy]
    print(
        f"{len(ratios)} chains: median {statistics.median(ratios):.2f} (asked {median:g}), "
        f"worst {max(ratios):.2f} (asked {worst:g}), error {max(errors):.1e} (asked {ACCURATE:g})"
    )


if __name__ == "__main__":
    main()
