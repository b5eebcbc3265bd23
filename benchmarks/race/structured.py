"""How long the exact answer takes if a set has many faces, or the data have many rows.

    python benchmarks/race/structured.py [--faces] [--rows] [--seed N] [--repeat N]

Faces: the least norm over least squares 250 x 500 with planted answers, on an orthant, a box, a
simplex and an l1 ball, where the lower level can be met (g* = 0) and where the set keeps it from
that. Against CVXPY with Clarabel in two stages, the image held: minimise g; minimise f subject to
A x = A x_g.

Rows: the least norm over logistic losses of one-hot data, of which the rank is not full, in a ball
that binds and in one that does not. Against `adaptive`, certified at the default tolerance.

One thread, and seconds of the processor, so that other processes matter less; the best of
``--repeat`` runs of each.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before NumPy is imported
    for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_variable] = "1"

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rivals_outside import missing

import tiebreak as tb
from tiebreak.experiments.planted import Generator, Vector

ROWS, COLUMNS, HELD = 250, 500, 40  # HELD variables are on a bound in all minimisers, if g* > 0
SMALL_DATA, LARGE_DATA = (8_000, 110), (32_000, 120)
TOTAL = 200.0  # of the simplex and the l1 ball: the sizes of half the entries of x*
LIMIT = 120.0  # seconds for a run
IMPORTED = ("scipy.linalg", "scipy.optimize", "scipy.sparse.linalg")  # before the clock starts


class Planted(NamedTuple):
    """min ½|x|² over the minimisers of ½|Ax - b|² on a set, and the answer."""

    A: Vector
    b: Vector
    domain: Any
    x: Vector

    def problem(self) -> tb.Problem:
        """The problem anew."""
        return tb.Problem(
            upper=tb.SquaredNorm(), lower=tb.LeastSquares(self.A, self.b), domain=self.domain
        )

    @property
    def value(self) -> float:
        """f*."""
        return 0.5 * float(self.x @ self.x)


def planted(
    rng: Generator, kind: str, is_met: bool, shape: tuple[int, int] = (ROWS, COLUMNS)
) -> Planted:
    """A problem of this kind: see `planted` for the conditions.

    With nu a normal at x* and d of any kind, A'd = -nu makes x* a minimiser of g for b = Ax* - d.
    x* is the projection of A'y onto the set (on the l1 ball, where g* > 0, onto its face), on which
    HELD variables are put onto the bound by a multiple of nu; so x* is the shortest of all.
    """
    m, n = shape
    total = TOTAL * n / COLUMNS
    A = rng.standard_normal((m, n)) / np.sqrt(m)
    held, signs = np.zeros(n, dtype=bool), np.ones(n)
    held[rng.permutation(n)[: HELD * n // COLUMNS]] = not is_met
    if kind == "l1 ball":
        signs = rng.choice([-1.0, 1.0], n)
    nu, d = np.zeros(n), np.zeros(m)
    if not is_met:
        nu = np.where(held, -rng.uniform(0.5, 1.5, n), 0.0)
        if kind == "l1 ball":
            nu = signs * np.where(held, rng.uniform(-0.9, 0.9, n), 1.0)
        d = rng.standard_normal(m) / np.sqrt(m)
        A = A - np.outer(d, A.T @ d + nu) / float(d @ d)
    domain: Any = tb.Orthant()
    bound = 0.0
    way = A.T @ rng.standard_normal(m)
    if kind == "orthant":
        x = np.maximum(way, 0.0)
    elif kind == "box":
        domain, bound = tb.Box(-1.0, 1.0), -1.0
        x = np.clip(way, -1.0, 1.0)
    elif kind == "simplex" or not is_met:
        x = np.where(held, 0.0, signs * _on_simplex(np.where(held, -np.inf, signs * way), total))
        domain = tb.Simplex(total) if kind == "simplex" else tb.L1Ball(total)
    else:
        domain = tb.L1Ball(total)
        x = np.sign(way) * _on_simplex(np.abs(way), total)
    x = np.where(held, bound, x)
    return Planted(A, A @ x - d, domain, x)


def _on_simplex(v: Vector, total: float) -> Vector:
    """The projection of v, where -inf stands for entries that are 0, onto a simplex."""
    top = np.sort(v[np.isfinite(v)])[::-1]
    shifts = (np.cumsum(top) - total) / np.arange(1, len(top) + 1)
    return np.asarray(np.maximum(v - shifts[np.flatnonzero(top > shifts)[-1]], 0.0))


def two_stages(case: Planted) -> Vector:
    """CVXPY with Clarabel, the image held."""
    cp = importlib.import_module("cvxpy")
    x = cp.Variable(case.A.shape[1])
    inside = {
        tb.Orthant: [x >= 0.0],
        tb.Box: [x >= -1.0, x <= 1.0],
        tb.Simplex: [x >= 0.0, cp.sum(x) == TOTAL],
        tb.L1Ball: [cp.norm1(x) <= TOTAL],
    }[type(case.domain)]
    cp.Problem(cp.Minimize(cp.sum_squares(case.A @ x - case.b)), inside).solve(cp.CLARABEL)
    held = [*inside, case.A @ x == case.A @ x.value]
    cp.Problem(cp.Minimize(cp.sum_squares(x)), held).solve(cp.CLARABEL)
    return np.asarray(x.value)


def one_hot(rng: Generator, rows: int, columns: int) -> tuple[Vector, Vector]:
    """Categories as columns of 0 and 1, some of them rare, and labels that they partly explain."""
    sizes: list[int] = []
    while sum(sizes) < columns:
        sizes.append(min(int(rng.integers(2, 13)), columns - sum(sizes)))
    blocks = [np.eye(k)[rng.choice(k, rows, p=rng.dirichlet(np.full(k, 0.7)))] for k in sizes]
    A = np.hstack(blocks)
    chance = 1.0 / (1.0 + np.exp(-A @ rng.standard_normal(columns) * 0.7))
    return A, np.where(rng.random(rows) < chance, 1.0, -1.0)


def best(task: Callable[..., Any], repeat: int, *given: Any) -> tuple[float, Any]:
    """The shortest time of a task, and its last answer."""
    times = []
    for _ in range(repeat):
        began = time.process_time()
        answer = task(*given)
        times.append(time.process_time() - began)
    return min(times), answer


def faces(seed: int, repeat: int) -> None:
    """Print a line for each set."""
    has_rival = not missing("cvxpy")
    print("least norm over least squares 250 x 500, planted: seconds, |f - f*|/f*, ties, status")
    for is_met in (True, False):
        for kind in ("orthant", "box", "simplex", "l1 ball"):
            case = planted(np.random.default_rng(seed), kind, is_met)
            seconds, result = best(exact, repeat, case)
            off = abs(result.upper_value - case.value) / case.value
            line = f"{kind:8} g* {'=' if is_met else '>'} 0  exact {seconds:6.2f}  {off:.0e}"
            line += f"  {result.dimension!s:4} {result.status:10}"
            if has_rival:
                theirs, x = best(two_stages, repeat, case)
                off = abs(0.5 * float(x @ x) - case.value) / case.value
                line += f"  CVXPY {theirs:6.2f}  {off:.0e}  ratio {seconds / theirs:.2f}"
            print(line, flush=True)


def exact(case: Planted) -> Any:
    """The exact answer."""
    return tb.solve(case.problem(), "exact", max_time=LIMIT)


def in_ball(method: str, A: Vector, y: Vector, radius: float) -> Any:
    """The least norm over logistic losses in a ball."""
    lower, domain = tb.Logistic(A, y), tb.Ball(radius)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain)
    return tb.solve(problem, method, max_time=LIMIT)


def rows(seed: int, repeat: int) -> None:
    """Print a line for each size and ball."""
    print("least norm over logistic losses, one-hot, in a ball: seconds, status")
    for shape in (SMALL_DATA, LARGE_DATA):
        A, y = one_hot(np.random.default_rng(seed), *shape)
        for radius in (1.0, 30.0):
            ours, answer = best(in_ball, repeat, "exact", A, y, radius)
            theirs, other = best(in_ball, 1, "adaptive", A, y, radius)
            label = f"{shape[0]} x {shape[1]}, radius {radius:g}"
            line = f"{label:24} exact {ours:6.2f} {answer.status:9}"
            line += f"  adaptive {theirs:6.2f} {other.status:9}  ratio {ours / theirs:.2f}"
            print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faces", action="store_true")
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=1)
    chosen = parser.parse_args()
    for module in IMPORTED:
        importlib.import_module(module)
    if chosen.faces or not chosen.rows:
        faces(chosen.seed, chosen.repeat)
    if chosen.rows or not chosen.faces:
        rows(chosen.seed, chosen.repeat)


if __name__ == "__main__":
    main()
