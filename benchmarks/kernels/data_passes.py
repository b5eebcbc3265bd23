"""What a projection costs in passes over its vector, counted and timed.

One pass is ``v + c``. Counting divides the memory read and written by that of a pass, independently
of the machine. Timing divides processor time by that of the passes just before and after, so that a
busy machine slows down both.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

LIMITS = {"cold": 250.0, "warm": 100.0}
SHARES = (0.01, 0.5, 0.99)

Vector = Any  # of NumPy or of `Counting`


class Task(NamedTuple):
    """A projection onto a cut of something."""

    level: Callable[[Vector, Vector, float], float]  # v, c, a share -> beta
    solve: Callable[[Vector, Vector, float, float | None], tuple[Vector, float]]  # ..., a guess


# --- an array library that counts


class Counting:
    """NumPy as an array library of its own, which counts the bytes that it reads and writes."""

    def __init__(self) -> None:
        self.traffic = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        return lambda *operands, **options: self.call(found, operands, options)

    def call(self, function: Any, operands: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The function of the plain arrays; a result that is an operand was for free."""
        plain = [o.values if isinstance(o, Counted) else o for o in operands]
        result = function(*plain, **options)
        if not any(result is o for o in plain):
            arrays = [o for o in (*plain, result) if isinstance(o, np.ndarray)]
            self.traffic += sum(o.nbytes for o in arrays)
        return Counted(self, result) if isinstance(result, np.ndarray) else result


class Counted(NDArrayOperatorsMixin):
    """An array of `Counting`."""

    device = "cpu"

    def __init__(self, library: Counting, values: np.ndarray[Any, Any]) -> None:
        self.library, self.values = library, values
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim

    def __array_namespace__(self, api_version: str | None = None) -> Counting:
        return self.library

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        (out,) = options.pop("out", (None,))
        result = self.library.call(getattr(ufunc, method), operands, options)
        if out is None:
            return result
        out.values[...] = result.values
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """On the host, where the values and as many labels are read for a sum over groups."""
        self.library.traffic += 2 * self.values.nbytes
        return np.asarray(self.values, dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        key = key.values if isinstance(key, Counted) else key
        return self.library.call(np.ndarray.__getitem__, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        key, value = (o.values if isinstance(o, Counted) else o for o in (key, value))
        self.values[key] = value

    @property
    def T(self) -> Counted:
        """The transpose, a view: nothing is read."""
        return Counted(self.library, self.values.T)

    def __float__(self) -> float:
        return float(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)


# --- the cases


def data(n: int) -> Iterator[tuple[str, Vector, Vector]]:
    """Pairs v, c, friendly and less friendly."""
    rng = np.random.default_rng(1)
    normal = rng.normal(size=n)
    yield "normal", normal, rng.normal(size=n)
    yield "trend", normal + np.linspace(-3.0, 3.0, n), rng.normal(size=n) + 0.5
    yield "heavy tails", rng.standard_cauchy(size=n), rng.standard_cauchy(size=n)
    yield "lognormal c", normal, np.exp(3.0 * rng.normal(size=n))
    yield "mixed signs", normal, np.exp(3.0 * rng.normal(size=n)) * rng.choice([-1.0, 1.0], n)
    yield "sparse c", normal, rng.normal(size=n) * (rng.random(n) < 0.01)
    yield "ties", np.round(normal), np.round(rng.normal(size=n))


class Case(NamedTuple):
    """A projection from cold or warm: without a guess, or with that of a v slightly moved."""

    kind: str
    label: str
    share: float
    v: Vector
    c: Vector
    beta: float
    guess: float | None


Place = tuple[str, float]  # label and share of a case


def cases(task: Task, n: int, places: Iterable[Place] | None = None) -> Iterator[Case]:
    """All of them for vectors of length n, or those at some places."""
    rng = np.random.default_rng(2)
    for label, v, c in data(n):
        near = v + 1e-3 * rng.normal(size=n)
        for share in SHARES:
            if places is None or (label, share) in places:
                beta = task.level(v, c, share)
                guess = task.solve(near, c, beta, None)[1]
                yield Case("cold", label, share, v, c, beta, None)
                yield Case("warm", label, share, v, c, beta, guess)


# --- what a case costs


def counted(task: Task, case: Case) -> float:
    """The passes of one projection, by its memory traffic."""
    library = Counting()
    v, c = (Counted(library, x) for x in (case.v, case.c))
    task.solve(v, c, case.beta, case.guess)
    return library.traffic / float(3 * case.v.nbytes)


def clocked(task: Task, case: Case, repeats: int) -> float:
    """The time of the projection over that of a pass around it; the smallest of some."""
    ratios = []
    for _ in range(repeats):
        passes = [_seconds(lambda: case.v + case.c) for _ in range(5)]
        spent = _seconds(lambda: task.solve(case.v, case.c, case.beta, case.guess))
        passes += [_seconds(lambda: case.v + case.c) for _ in range(5)]
        ratios.append(spent / statistics.median(passes))
    return min(ratios)


def _seconds(task: Callable[[], object]) -> float:
    began = time.process_time()
    task()
    return time.process_time() - began


def most_counted(task: Task, n: int) -> dict[str, tuple[float, str, float]]:
    """For cold and warm the most passes counted, and where: label and share."""
    most = dict.fromkeys(LIMITS, (0.0, "", 0.0))
    for case in cases(task, n):
        most[case.kind] = max(most[case.kind], (counted(task, case), case.label, case.share))
    return most


# --- the table


def main(doc: str, tasks: Callable[[int], Iterable[tuple[str, Task]]]) -> int:
    """Print a table; 1 if a limit is exceeded.

    The case of each kind with the most passes is found on a tenth of the length, where that is
    quick, and only this one is timed in full; unless all are asked for.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="time all cases, not only the worst")
    parser.add_argument("--only", help="only what has this name")
    options = parser.parse_args()
    n, within = options.n, True
    limits = ", ".join(f"{limit:.0f} {kind}" for kind, limit in LIMITS.items())
    print(f"{doc.splitlines()[0]}  n = {n}; limits {limits}")
    heads = (f"{kind:>5} {'clock':>6} {'on':>12} {'at':>5}" for kind in LIMITS)
    print(f"{'':23} " + "   ".join(heads))
    for (name, small), (_name, task) in zip(tasks(n // 10), tasks(n), strict=True):
        if options.only not in (None, name):
            continue
        places = {kind: most[1:] for kind, most in most_counted(small, n // 10).items()}
        rows = dict.fromkeys(LIMITS, (0.0, 0.0, "", 0.0))
        for case in cases(task, n, None if options.all else places.values()):
            place = (case.label, case.share)
            if options.all or place == places[case.kind]:
                clock = clocked(task, case, options.repeats)
                rows[case.kind] = max(rows[case.kind], (clock, counted(task, case), *place))
        within &= all(max(rows[kind][:2]) <= limit for kind, limit in LIMITS.items())
        cells = (f"{row[1]:5.0f} {row[0]:6.0f} {row[2]:>12} {row[3]:5.2f}" for row in rows.values())
        print(f"{name:23} " + "   ".join(cells), flush=True)
    return 0 if within else 1
