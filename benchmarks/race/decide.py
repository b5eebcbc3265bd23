"""A benchmark that decides: which method is first to a given accuracy, and to the proof?

    python benchmarks/race/decide.py [--all] [--seed N] [--budget SECONDS]
                                [--only PROBLEM ...] [--methods METHOD ...]

Races `auto`, AdaptiveAGMBiO, AGM-BiO with the theorem's gamma and exact constants, the seven rivals
and what a user would do instead (CVXPY with Clarabel in two stages; SciPy's trust-constr up to 128
variables) on problems whose answers are planted. Three targets:

    1e-3, 1e-6    |f - f*| <= accuracy * max(|f*|, |f(x0) - f*|)  and
                  g - g* <= accuracy * (g(x0) - g*), from there to the end of the run
    proof         both gaps proved within tiebreak's default tolerance

All methods of tiebreak run in its own loop, certificate included, and their accuracy is taken from
the trace afterwards: nothing is measured while the clock runs. Those that need constants get them
before their clock starts (AGM-BiO also the order of the error bound, where that is known, for the
gamma of Theorem 2); `auto` and AdaptiveAGMBiO get nothing, and their clock includes building
the problem. `auto` runs with its defaults and, if that answer is not within 1e-6, once more with
rtol=1e-6. The others continue until they have met all targets or their time is up: a tenth of the
budget, or ten times the time of the fastest to 1e-6 if that is more; AdaptiveAGMBiO, AGM-BiO and
CVXPY get the whole budget for their proof or their answer.

Prints ratios to the best. Numbers go to out/decide.csv, the profiles to out/decide.png.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before NumPy is imported; not when a test imports this
    for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_variable] = "1"

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import problems
import rivals_outside as outside
import scores
from scores import FINE, ROUGH, TARGETS, Line, Mark

import tiebreak as tb
from tiebreak.driver.registry import METHODS
from tiebreak.driver.result import Result
from tiebreak.driver.trace import Row
from tiebreak.experiments.planted import Case, drawn
from tiebreak.experiments.race import RelativeScale

SUBSET = ("simplex", "callables", "lasso", "drawn 1")
QUICK, FULL = 2.0, 60.0  # seconds for each method, of the subset and of everything
LONGEST = 1_000_000  # steps of a run; time ends it, not this
PLANNED = 10_000  # the horizon for methods that need one: solve's own default
SHARE, BEYOND = 0.1, 10.0  # a rival's part of the budget; how far beyond the best it may run
LEAST = 0.7  # minimum seconds for every method
LIMIT = 3300.0  # seconds in total; what quick problems leave over goes to the others
RTOL = 1e-4  # solve's own default, which defines the certificate
SLACK = 1e-10  # a certificate is wrong beyond this: the planted answers are right to rounding
FAVOURITES, OTHERS = ("auto", "adaptive", "agm-bio"), ("trust-constr",)
RIVALS = ("a-irg", "bi-sg", "sea", "cg-bio", "r-apm", "pb-apg", "bisec-bio")
IMPORTED = ("scipy.linalg", "scipy.optimize", "scipy.sparse.linalg", "clarabel", "cvxpy")
CONIC = {"cvxpy, 0": 0.0, "cvxpy, 1e-8": 1e-8}


class Scale(RelativeScale):
    """What errors are relative to, and what a proof is."""

    def is_proved(self, row: Any) -> bool:
        """Are both gaps of a Row or an Intermediate within the default tolerance?"""
        values = (row.upper_value, row.lower_value)
        gaps = (row.upper_gap, row.lower_gap)
        return all(
            gap <= RTOL * max(abs(value), abs(first))
            for gap, value, first in zip(gaps, values, self.start, strict=True)
        )


def scale_of(case: Case) -> Scale:
    return Scale.of(case.make(), np.zeros(case.variables), case.answer)


# --- methods of tiebreak --------------------------------------------------------------------------


class Watch:
    """Stops a run that has met all targets, once it has stayed there for a fifth of its way.

    One that has its proof is stopped after ``patience`` seconds too.
    """

    def __init__(self, scale: Scale, patience: float = math.inf) -> None:
        self.scale, self.patience = scale, patience
        self.since, self.proved = -1, False

    def __call__(self, seen: Any) -> None:
        self.proved = self.proved or self.scale.is_proved(seen)
        if self.proved and seen.time > self.patience:
            raise StopIteration
        if not self.scale.is_within(FINE, seen.upper_value, seen.lower_value):
            self.since = -1
        elif self.since < 0:
            self.since = seen.nit
        if self.proved and self.since >= 0 and seen.nit >= 1.2 * self.since + 10:
            raise StopIteration


def marks(rows: Sequence[Row], scale: Scale, before: float) -> dict[str, Mark]:
    """When a run met each target, from its trace; ``before`` is time spent before its clock."""

    def first(met: Callable[[Row], bool], stays: bool) -> Mark | None:
        found = None
        for row in rows:
            if met(row):
                found = found or row
            elif stays:
                found = None
        if found is None:
            return None
        return Mark(before + found.seconds, found.upper_gradients + found.lower_gradients)

    def is_within(accuracy: float, row: Row) -> bool:
        return scale.is_within(accuracy, row.upper_value, row.lower_value)

    found = (
        first(partial(is_within, ROUGH), stays=True),
        first(partial(is_within, FINE), stays=True),
        first(scale.is_proved, stays=False),
    )
    return {target: mark for target, mark in zip(TARGETS, found, strict=True) if mark is not None}


def by_method(
    case: Case, scale: Scale, label: str, method: Any, seconds: float, patience: float
) -> Line:
    """A named method; where it needs constants they are found before its clock starts."""
    knows = label != "adaptive"
    began = time.perf_counter()
    problem = case.problem(informed=knows)
    before = 0.0 if knows else time.perf_counter() - began
    if knows:
        _ = [h.lipschitz for h in problem.smooth_parts], problem.growth
    if label == "agm-bio":
        problem = case.with_order(problem)
    if hasattr(method, "planned"):
        method = method.planned(PLANNED)
    result = tb.solve(
        problem, method, x0=np.zeros(case.variables), rtol=0.0, max_iter=LONGEST,
        max_time=seconds, callback=Watch(scale, patience),
    )  # fmt: skip
    return _line(case, scale, label, result, marks(result.trace, scale, before))


def by_auto(case: Case, scale: Scale, seconds: float, patience: float) -> Line:
    """`auto` as it comes, and once more with rtol=1e-6 where that was not close enough."""
    met: dict[str, Mark] = {}
    for rtol in (RTOL, FINE):
        began = time.perf_counter()
        problem = case.problem(informed=False)
        before = time.perf_counter() - began
        result = tb.solve(
            problem, x0=np.zeros(case.variables), rtol=rtol, max_iter=LONGEST, max_time=seconds
        )
        met = marks(result.trace, scale, before) | met
        if TARGETS[1] in met:
            break
    return _line(case, scale, "auto", result, met)


def _line(case: Case, scale: Scale, label: str, result: Result, met: dict[str, Mark]) -> Line:
    errors = scale.errors(result.upper_value, result.lower_value)
    wrong = any(
        max(low - true, true - high) > SLACK * max(size, abs(true))
        for (low, high), true, size in (
            (result.upper_optimum, scale.f, scale.upper),
            (result.lower_optimum, scale.g, scale.lower),
        )
    )
    return Line(case.name, label, met, *errors, result.time, result.status, wrong, result.method)


# --- everybody ------------------------------------------------------------------------------------


def by_others(
    case: Case, scale: Scale, label: str, task: outside.Task, seconds: float, patience: float
) -> Line:
    """A solver from outside: one point, after so many seconds."""
    taken, gradients, x, words = outside.limited(task, case, seconds)
    if x is None:
        return Line(case.name, label, {}, math.nan, math.nan, taken, words, False, "")
    problem = case.make()
    x = problem.domain.project(x)
    values = problem.upper.value(x), problem.lower.value(x)
    mark = Mark(taken, gradients)
    accuracies = zip(TARGETS[:2], (ROUGH, FINE), strict=True)
    met = {target: mark for target, a in accuracies if scale.is_within(a, *values)}
    return Line(case.name, label, met, *scale.errors(*values), taken, words, False, "")


class Entrant(NamedTuple):
    """Who takes part: a run of so many seconds, and how long to wait for 1e-6.

    A favourite gets all of the budget, if it needs that for its proof.
    """

    label: str
    run: Callable[[float, float], Line]
    is_favourite: bool


def entrants(case: Case, scale: Scale) -> Iterator[Entrant]:
    """The favourites first, so that the rivals get less time where these are quick."""
    smooth = case.make().is_smooth
    yield Entrant("auto", partial(by_auto, case, scale), True)
    for label, name in (("adaptive",) * 2, ("agm-bio", "agm-bio" if smooth else "p-agm-bio")):
        if name in METHODS:
            yield Entrant(label, partial(by_method, case, scale, label, METHODS[name]()), True)
    if not outside.missing("cvxpy"):
        for label, delta in CONIC.items():
            yield Entrant(label, partial(by_others, case, scale, label, outside.conic(delta)), True)
    if smooth and case.variables <= outside.SMALL and not outside.missing("scipy.optimize"):
        label, task = "trust-constr", outside.trust_constr
        yield Entrant(label, partial(by_others, case, scale, label, task), False)
    for name in RIVALS:
        yield Entrant(name, partial(by_method, case, scale, name, METHODS[name]()), False)


def race(case: Case, budget: float, methods: Sequence[str] = ()) -> list[Line]:
    """A line for everybody, or for some methods."""
    lines: list[Line] = []
    for label, run, is_favourite in entrants(case, scale_of(case)):
        if methods and label not in methods:
            continue
        best = scores.best_cost(lines, case.name, TARGETS[1], "seconds")
        enough = max(SHARE * budget, LEAST, BEYOND * best if math.isfinite(best) else 0.0)
        patience = min(budget, enough)
        try:
            lines.append(run(budget if is_favourite else patience, patience))
        except ValueError as error:
            nothing = (math.nan, math.nan, 0.0, "refused", False, str(error))
            lines.append(Line(case.name, label, {}, *nothing))
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--all", action="store_true", help="all problems, under an hour")
    parser.add_argument("--only", nargs="+", metavar="PROBLEM", help="only these problems")
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="only these methods")
    parser.add_argument("--seed", type=int, help="repeat the problems drawn with this seed")
    parser.add_argument(
        "--budget", type=float, help="seconds for each method; 60, or 2 for the subset"
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the results")
    options = parser.parse_args(arguments)
    seed = time.time_ns() % 1_000_000 if options.seed is None else options.seed
    everything = [*problems.FIXED, *(f"drawn {i}" for i in (1, 2, 3))]
    names = options.only or (everything if options.all else SUBSET)
    known = {"--only": everything, "--methods": [*FAVOURITES, *CONIC, *OTHERS, *RIVALS]}
    for option, asked in (("--only", names), ("--methods", options.methods or [])):
        if unknown := [name for name in asked if name not in known[option]]:
            parser.error(f"{option}: {unknown[0]!r} is unknown, not so {', '.join(known[option])}")
    print(f"problems drawn with --seed {seed}", flush=True)
    for module in IMPORTED:  # before any clock starts, so that no method pays for the imports
        outside.missing(module)
    began = time.perf_counter()
    lines: list[Line] = []
    cases: list[Case] = []
    for done, name in enumerate(names):
        left = LIMIT - (time.perf_counter() - began)
        ration = max(left / (5.0 * (len(names) - done)), 1.0)  # a problem takes about five budgets
        budget = options.budget or (min(FULL, ration) if options.all else QUICK)
        number = name.removeprefix("drawn ")
        cases.append(problems.fixed(name) if number == name else drawn(seed, int(number)))
        found = race(cases[-1], budget, options.methods or ())
        lines += found
        print(f"\n{scores.table(cases[-1], found)}\n  budget {budget:.2g} s", flush=True)
        scores.save(options.out, lines)
    print(f"\n{scores.overall(lines)}\n\n{scores.summary(cases, lines)}")
    print(scores.profile(options.out / "decide.png", lines))
    return int(any(line.wrong for line in lines))


if __name__ == "__main__":
    sys.exit(main())
