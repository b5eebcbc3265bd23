"""Drawn chains of linear and quadratic levels: how many are certified, and are they right?

    python benchmarks/levels/rational_chains.py --count 200 --seed 0

Two to four levels on 5 to 60 variables, integer and real data by turns. Three in ten are
degenerate: many more rows touch the answer than there are variables, and some are redundant. Every
certified chain is confirmed in fractions: independent code puts the points and multipliers that the
library kept into the optimality conditions of each level. `--without-flint` hides python-flint;
`--singular` draws forms Q = C'C that rounding has made indefinite, none of which may be certified.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import statistics
import sys
import time
from collections import Counter
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

Host = np.ndarray[Any, Any]
Vector = list[Fraction]


class Objective(NamedTuple):
    """½|C x - d|² + <c, x>, which may give up ``slack`` for the levels after it."""

    C: Host
    d: Host
    c: Host
    slack: float = 0.0


class Chain(NamedTuple):
    """Levels on A x <= b, E x = e, low <= x <= high."""

    kind: str
    levels: list[Objective]
    A: Host
    b: Host
    E: Host
    e: Host
    low: float
    high: float

    @property
    def n(self) -> int:
        return int(self.A.shape[1])

    def rows(self) -> tuple[Host, Host]:
        """All inequalities, rows x <= right, as they are stored."""
        eye = np.eye(self.n)
        ends = np.full(self.n, -self.low), np.full(self.n, self.high)
        return np.vstack([-eye, eye, self.A]), np.concatenate([*ends, self.b])


def _numbers(draw: np.random.Generator, is_real: bool, most: int, shape: Any) -> Host:
    found = draw.standard_normal(shape) if is_real else draw.integers(-most, most + 1, shape)
    return np.asarray(found, dtype=float)


def _squares(draw: np.random.Generator, is_real: bool, n: int, d: Host | None = None) -> Objective:
    C = _numbers(draw, is_real, 2, (int(draw.integers(1, max(2, n // 3 + 1))), n))
    target = _numbers(draw, is_real, 3, len(C)) if d is None else C @ d
    return Objective(C, target, np.zeros(n))


def _linear(draw: np.random.Generator, is_real: bool, n: int, slack: float = 0.0) -> Objective:
    c = _numbers(draw, is_real, 2, n) * (draw.random(n) < 0.4)
    return Objective(np.zeros((0, n)), np.zeros(0), c, slack)


def ordinary(draw: np.random.Generator, is_real: bool) -> Chain:
    """A box with a few rows and equations, some of them tight at a point with many zeros."""
    n = int(draw.integers(5, 61))
    m = max(2, n // 2)
    A = _numbers(draw, is_real, 3, (m, n)) * (draw.random((m, n)) < 4.0 / n + 0.1)
    at = (draw.random(n) < 0.5) * np.abs(_numbers(draw, is_real, 3, n))
    b = A @ at + (draw.random(m) < 0.6) * np.abs(_numbers(draw, is_real, 2, m))
    equal = max(1, m // 4)
    E, e = A[:equal], (A @ at)[:equal]
    used = np.any(E != 0.0, axis=1)
    levels = []
    for _ in range(int(draw.integers(2, 5))):
        slack = float(draw.integers(1, 5)) / 4.0 if draw.random() < 0.3 else 0.0
        is_linear = draw.random() < 0.5
        levels.append(_linear(draw, is_real, n, slack) if is_linear else _squares(draw, is_real, n))
    levels[-1] = levels[-1]._replace(slack=0.0)
    kind = "real" if is_real else "integer"
    return Chain(kind, levels, A[equal:], b[equal:], E[used], e[used], 0.0, 5.0)


def degenerate(draw: np.random.Generator, is_real: bool) -> Chain:
    """Half as many rows again as variables touch one point; some of them twice, or as sums."""
    n = int(draw.integers(5, 61))
    at = _numbers(draw, is_real, 3, n)
    A = _numbers(draw, is_real, 3, (n + n // 2, n))
    b = A @ at
    some = draw.choice(len(A), max(1, n // 4), replace=False)
    A, b = np.vstack([A, 2.0 * A[some]]), np.append(b, 2.0 * b[some])
    if not is_real:
        A, b = np.vstack([A, A[some] + A[some - 1]]), np.append(b, b[some] + b[some - 1])
    far = _numbers(draw, is_real, 3, (n // 2, n))
    A, b = np.vstack([A, far]), np.append(b, far @ at + 1.0)
    pull = (draw.random(len(A)) < 0.2) * (draw.random(len(A)) if is_real else 1.0)
    pull[n + n // 2 :] = 0.0
    first = Objective(np.zeros((0, n)), np.zeros(0), -(A.T @ pull))
    others = [_squares(draw, is_real, n, at), _linear(draw, is_real, n), _squares(draw, is_real, n)]
    levels = [first, *others[: int(draw.integers(1, 4))]]
    kind = "degenerate real" if is_real else "degenerate integer"
    return Chain(kind, levels, A, b, np.zeros((0, n)), np.zeros(0), -8.0, 8.0)


def singular(draw: np.random.Generator, is_real: bool) -> Chain:
    """A first level Q = C'C of low rank, as rounding leaves it."""
    chain = ordinary(draw, True)
    return chain._replace(kind="singular", levels=[_squares(draw, True, chain.n), *chain.levels])


def draw_chain(seed: int, number: int, is_singular: bool = False) -> Chain:
    """By the seed and its number alone."""
    draw = np.random.default_rng([seed, number])
    make = singular if is_singular else degenerate if number % 10 in (2, 5, 8) else ordinary
    return make(draw, bool(number // 10 % 2) != bool(number % 2))


def model(chain: Chain) -> Any:
    """Return the model as a user would write it."""
    import tiebreak as tb

    levels = []
    for i, h in enumerate(chain.levels):
        if chain.kind == "singular" and i == 0:
            objective: Any = tb.Quadratic(h.C.T @ h.C, -h.C.T @ h.d)
        else:
            objective = tb.LeastSquares(h.C, h.d) if len(h.C) else tb.Linear(h.c)
        levels.append(tb.Level(objective, slack=h.slack))
    equations = (chain.E, chain.e) if len(chain.E) else ()
    rows = tb.Polyhedron(chain.A, chain.b, *equations)
    return tb.Levels(*levels, domain=tb.Box(chain.low, chain.high) & rows)


# -- the check, in fractions, of data and certificate alone -------------------------------------


def _dot(row: Any, x: Vector) -> Fraction:
    return sum((Fraction(a) * v for a, v in zip(row, x, strict=True) if a), Fraction(0))


def _value(h: Objective, x: Vector) -> Fraction:
    off = [_dot(row, x) - Fraction(d) for row, d in zip(h.C, h.d, strict=True)]
    return sum((v * v for v in off), Fraction(0)) / 2 + _dot(h.c, x)


def _slope(h: Objective, x: Vector) -> Vector:
    total = [Fraction(c) for c in h.c]
    for row, d in zip(h.C, h.d, strict=True):
        off = _dot(row, x) - Fraction(d)
        total = [t + off * Fraction(a) if a else t for t, a in zip(total, row, strict=True)]
    return total


class Solved(NamedTuple):
    """What is claimed of one level: its point, and a multiplier for every row of each kind."""

    x: Vector
    rows: Vector  # of the inequalities, then of the cuts so far
    equal: Vector  # of the equations, then of what the levels before have fixed


def objection(chain: Chain, solved: list[Solved]) -> str:
    """Why this is no proof that every level is minimised over those before it; "" if it is one.

    The minimisers of a level are the points of the set before it at which all rows with a positive
    multiplier are tight and C x is what it is at one minimiser. So both become equations.
    """
    rows, right = (list(map(list, chain.rows()[0])), [Fraction(v) for v in chain.rows()[1]])
    equal, given = list(map(list, chain.E)), [Fraction(v) for v in chain.e]
    for number, (h, (x, pull, turn)) in enumerate(zip(chain.levels, solved, strict=True)):
        room = [v - _dot(row, x) for row, v in zip(rows, right, strict=True)]
        if any(v < 0 for v in room):
            return f"level {number + 1} is not feasible"
        if any(_dot(row, x) != v for row, v in zip(equal, given, strict=True)):
            return f"level {number + 1} is not on the face"
        if any(v < 0 or (v and s) for v, s in zip(pull, room, strict=True)):
            return f"level {number + 1} has a wrong multiplier"
        total = _slope(h, x)
        for row, v in [*zip(rows, pull, strict=True), *zip(equal, turn, strict=True)]:
            if v:
                total = [t + v * Fraction(a) if a else t for t, a in zip(total, row, strict=True)]
        if any(total):
            return f"level {number + 1} is not stationary"
        if h.slack:
            rows.append(list(h.c))
            right.append(_value(h, x) + Fraction(h.slack))
            continue
        for row, v, limit in list(zip(rows, pull, right, strict=True)):
            if v:
                equal.append(row)
                given.append(limit)
        for row in h.C:
            equal.append(list(row))
            given.append(_dot(row, x))
    return ""


def confirmed(chain: Chain, levels: Any, result: Any) -> str:
    """ "" if the kept certificate proves what the result says, otherwise why not."""
    from tiebreak.rational import certificate

    kept = certificate(levels)
    if kept is None:
        return "no certificate"
    solved = [Solved(*(list(map(Fraction, part)) for part in level)) for level in kept.levels]
    if why := objection(chain, solved):
        return why
    last = [Fraction(v) for v in kept.x]
    for h, one, said in zip(chain.levels, solved, result.levels.values(), strict=True):
        best, low, high = _value(h, one.x), *map(Fraction, said.best)
        if not low <= best <= high:
            return f"{said.name} is {float(best)!r}, said to be in {said.best}"
        if not best <= _value(h, last) <= best + Fraction(h.slack):
            return f"{said.name} is not kept by the last point"
    given = [Fraction(float(v)) for v in result.x]
    for h, one in zip(chain.levels, solved, strict=True):
        best, at, origin = _value(h, one.x), _value(h, given), _value(h, [Fraction(0)] * chain.n)
        asked = Fraction(1, 10_000) * max(abs(at), abs(origin)) + Fraction(1, 10**12)
        if not -asked <= at - best <= asked + Fraction(h.slack):
            return f"x is off by {float(at - best):.2g}"
    return ""


def main() -> None:
    """Count, confirm and time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first chain")
    parser.add_argument("--without-flint", action="store_true")
    parser.add_argument("--without-check", action="store_true", help="count alone")
    parser.add_argument("--singular", action="store_true")
    given = parser.parse_args()
    if given.without_flint:
        sys.modules["flint"] = None  # type: ignore[assignment]
    import tiebreak as tb

    words: Counter[tuple[str, str]] = Counter()
    times: dict[str, list[float]] = {}
    wrong = 0
    for number in range(given.first, given.first + given.count):
        chain = draw_chain(given.seed, number, given.singular)
        levels = model(chain)
        began = time.process_time()
        result = tb.solve(levels)
        took = time.process_time() - began
        times.setdefault(chain.kind, []).append(took)
        words[chain.kind, result.status] += 1
        why = ""
        if result.status == "certified" and not given.without_check:
            why = confirmed(chain, levels, result)
            wrong += bool(why)
        if why or result.status != "certified" or took > 5.0:
            said = why or result.message
            print(
                f"{number} {chain.kind} n = {chain.n}: {result.status}, {took:.2f} s, {said[:90]}"
            )
    for kind, some in sorted(times.items()):
        ends = {word: count for (name, word), count in words.items() if name == kind}
        middle = f"median {statistics.median(some):.3f} s, most {max(some):.2f} s"
        print(f"{kind:19} {len(some):4} chains  {ends}  {middle}", flush=True)
    every = [took for some in times.values() for took in some]
    sure = sum(count for (_, word), count in words.items() if word == "certified")
    print(f"certified {sure} of {len(every)}, not confirmed {wrong}; ", end="")
    print(f"processor time: median {statistics.median(every):.3f} s, most {max(every):.2f} s")


if __name__ == "__main__":
    main()
