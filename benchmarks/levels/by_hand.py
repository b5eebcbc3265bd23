"""Levels held by their images, compared with the usual two solves by hand.

    python benchmarks/levels/by_hand.py

By hand means: solve, add g <= g1 + delta with the value found, solve again, once through CVXPY and
once with Clarabel alone. Answers are planted, so errors are exact. The script prints the error of
the last level and the ratio of our processor time to each, as medians of alternating runs of one
process; the targets are at most 1.2 times the time with the same solver, and errors 100 times
smaller than at the best delta.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import importlib
import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tiebreak.conic.chain import solve_chain
from tiebreak.conic.program import Cone, ConicProgram, Objective

Host = np.ndarray[Any, Any]
DELTAS = [0.0, 1e-9, 1e-8, 1e-7, 1e-5]
REPEATS = 7
TIME = 1.2


class Case(NamedTuple):
    """Least-squares levels in order on rows x <= right, with the value of the last."""

    name: str
    levels: list[tuple[Host, Host]]  # ½|F x - t|²
    rows: Host
    right: Host
    best: float

    def program(self) -> ConicProgram:
        n = self.levels[0][0].shape[1]
        return ConicProgram(
            rows=self.rows,
            offset=self.right,
            cones=(Cone("nonnegative", len(self.right)),) if len(self.right) else (),
            objectives=tuple(Objective(F, t, np.zeros(n)) for F, t in self.levels),
            variables=np.arange(n),
            reach=np.full(n, np.inf),
        )

    def error(self, x: Host) -> float:
        """Of the last level at x, relative."""
        F, t = self.levels[-1]
        return abs(0.5 * float(np.sum((F @ x - t) ** 2)) - self.best) / max(1.0, abs(self.best))


# -- problems -------------------------------------------------------------------------------------


def free(seed: int = 0, n: int = 50, m: int = 40, rank: int = 25) -> Case:
    """Least squares of a lower rank below, the distance to a point above, on R^n."""
    rng = np.random.default_rng([18, 1, seed])
    A = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n)) / math.sqrt(rank)
    b, p = rng.normal(size=m), 2.0 * rng.normal(size=n)
    inverse = np.linalg.pinv(A, rcond=1e-10)
    best = 0.5 * float(np.sum((inverse @ (b - A @ p)) ** 2))
    return Case(f"R^{n}", [(A, b), (np.eye(n), p)], np.zeros((0, n)), np.zeros(0), best)


def bound(seed: int = 0, n: int = 50, m: int = 30) -> Case:
    """The same on m rows and a box, where some rows press below and some above; whole numbers."""
    rng = np.random.default_rng([18, 2, seed])

    def small(*shape: int) -> Host:
        return rng.integers(-2, 3, shape).astype(float)

    x, A = small(n), small(n // 2, n)
    A = np.vstack([A, small(n // 5, len(A)) @ A])  # a lower rank than rows
    off, G = small(len(A)), small(m, n)
    # Rows 0 to 3 press below: the first is what makes x* optimal there. Rows 4 to 7 press above.
    G[0] = -(off @ A + rng.integers(1, 4, 3) @ G[1:4])
    room = np.where(np.arange(m) < 8, 0, rng.integers(1, 9, m))
    pull = small(len(A)) @ A + small(4) @ G[:4] + rng.integers(1, 4, 4) @ G[4:8]
    scale = 2.0 ** -np.ceil(np.log2(np.max(np.abs(pull))))
    rows = np.vstack([G, np.eye(n), -np.eye(n)])
    right = np.concatenate([G @ x + room, np.full(2 * n, 4.0)])
    best = 0.5 * float(np.sum((scale * pull) ** 2))
    name = f"{m} rows and a box in R^{n}"
    return Case(name, [(A, A @ x - off), (np.eye(n), x + scale * pull)], rows, right, best)


def four(seed: int = 0, n: int = 40) -> Case:
    """Four levels of least squares on R^n."""
    rng = np.random.default_rng([18, 3, seed])
    levels, point, basis = [], np.zeros(n), np.eye(n)
    for rank in (n // 5, n // 5, n // 5, n):
        F = rng.normal(size=(rank + 5, rank)) @ rng.normal(size=(rank, n)) / math.sqrt(n)
        t = rng.normal(size=len(F))
        levels.append((F, t))
        _, sizes, right = np.linalg.svd(F @ basis)
        held = int(np.sum(sizes > 1e-9 * sizes[0]))
        point = point + basis @ np.linalg.lstsq(F @ basis, t - F @ point, rcond=1e-9)[0]
        basis = basis @ right[held:].T
    best = 0.5 * float(np.sum((F @ point - t) ** 2))
    return Case("four levels", levels, np.zeros((0, n)), np.zeros(0), best)


# -- ways -----------------------------------------------------------------------------------------


def ours(case: Case) -> Host:
    found = solve_chain(case.program(), [None] * (len(case.levels) - 1))
    return found.z


def with_cvxpy(case: Case, delta: float) -> Host | None:
    """A cut after each level; None where a solve fails."""
    cp: Any = importlib.import_module("cvxpy")  # its types say less than its names
    x = cp.Variable(case.levels[0][0].shape[1])
    limits = [case.rows @ x <= case.right] if len(case.right) else []
    for F, t in case.levels:
        value = cp.sum_squares(F @ x - t) / 2
        problem = cp.Problem(cp.Minimize(value), limits)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "solution may be inaccurate"
                problem.solve(solver="CLARABEL")
        except cp.error.SolverError:
            return None
        if x.value is None:
            return None
        limits.append(value <= problem.value + delta)
    return np.asarray(x.value)


def with_clarabel(case: Case, delta: float) -> Host | None:
    """The same without CVXPY: each cut is one more second-order cone."""
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    n = case.levels[0][0].shape[1]
    rows, right = [sp.csc_array(case.rows)], [case.right]
    cones = [clarabel.NonnegativeConeT(len(case.right))] if len(case.right) else []
    x: Host | None = None
    for F, t in case.levels:
        P, q = sp.csc_matrix(np.triu(F.T @ F)), -(F.T @ t)
        stacked, offset = sp.csc_matrix(sp.vstack(rows)), np.concatenate(right)
        solution = clarabel.DefaultSolver(P, q, stacked, offset, cones, settings).solve()
        if str(solution.status) not in ("Solved", "AlmostSolved"):
            return None
        x = np.array(solution.x)
        value = 0.5 * float(np.sum((F @ x - t) ** 2))
        rows.append(sp.csc_array(np.vstack([np.zeros(n), F])))
        right.append(np.concatenate([[math.sqrt(2.0 * (value + delta))], t]))
        cones.append(clarabel.SecondOrderConeT(len(t) + 1))
    return x


# -- figures --------------------------------------------------------------------------------------


def errors(case: Case, way: Callable[[Case, float], Host | None]) -> dict[float, float]:
    """At every delta; inf where it fails."""
    found = {delta: way(case, delta) for delta in DELTAS}
    return {d: math.inf if x is None else case.error(x) for d, x in found.items()}


def seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def ratios(case: Case) -> dict[str, float]:
    """Our time over that of each way by hand, at the delta that they would take."""
    ways: dict[str, Callable[[], Any]] = {
        "CVXPY": lambda: with_cvxpy(case, 1e-7),
        "Clarabel": lambda: with_clarabel(case, 1e-7),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    ours(case)  # imports
    for _ in range(REPEATS):
        for name, way in ways.items():
            theirs = seconds(way)
            found[name].append(seconds(lambda: ours(case)) / theirs)
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> int:
    above = 0
    for case in (free(), bound(), four(), free(n=200, m=150, rank=100), bound(n=200, m=100)):
        mine = case.error(ours(case))
        print(f"{case.name}: last level {case.best:.9g}, our error {mine:.1e}")
        for name, way in (("CVXPY", with_cvxpy), ("Clarabel", with_clarabel)):
            cells = [f"{d:g}: {e:.1e}" for d, e in errors(case, way).items()]
            print(f"    {name} with a cut of delta   {'   '.join(cells)}")
        found = ratios(case)
        above += found["Clarabel"] > TIME
        cells = [f"{ratio:.2f} of {name}'s" for name, ratio in found.items()]
        print(f"    our time: {', '.join(cells)} (at most {TIME} of Clarabel's)")
    return int(above > 0)


if __name__ == "__main__":
    raise SystemExit(main())
