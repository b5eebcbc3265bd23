"""`tiebreak race` runs every method on the same instances under the same rules.

The page of a race is made from its rows only: see `standings`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import starmap
from multiprocessing import get_context
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple, cast

import numpy as np

from tiebreak.algorithms import Method, PAGMBiO
from tiebreak.catalog.built import Answer
from tiebreak.catalog.instances import instance
from tiebreak.display.page import write_page
from tiebreak.driver.registry import from_file, known_methods
from tiebreak.driver.run import Run
from tiebreak.driver.solve import solve
from tiebreak.experiments.compare import reference
from tiebreak.experiments.planted import SEEDS, drawn, planted
from tiebreak.experiments.race import (
    Entrant,
    Record,
    RelativeScale,
    race,
    write_rows,
)
from tiebreak.experiments.standings import TARGETS, Course, Declined, Standings
from tiebreak.linalg import arrays, checks
from tiebreak.linalg.archive import write_atomically
from tiebreak.problem import ErrorBound, Problem

BUILT_IN = (
    *("toy", "inverse", "random-inverse", "regression", "regression-few-rows"),
    *("phillips-few-rows", "breast-cancer", "diabetes", "digits", "logistic"),
    *("sparse-logistic-large-ball", "hard", "basis-pursuit", "group-pursuit", "lasso-duplicates"),
)
FROM_PAPERS = ("nemirovsky", "squared-hinge", "cg-bio-toy", "duffin")
UNATTAINED = ("duffin",)  # no first-order method can solve these; only false claims are counted
DRAWN = tuple(f"drawn {i}" for i in range(1, 7))
Say = Callable[[str], None]


class Tuned(NamedTuple):
    """The parameter that is tuned for a method's second row, its five values, and their unit."""

    name: str
    values: tuple[float, ...]
    unit: Callable[[float, float], float] = lambda L_f, L_g: 1.0


def _powers(first: int) -> tuple[float, ...]:
    """Return five powers of ten."""
    return tuple(10.0**digits for digits in range(first, first + 5))


TUNED = {
    **dict.fromkeys(("agm-bio", "p-agm-bio"), Tuned("gamma", (1.0, 0.3, 0.1, 0.03, 0.01))),
    **dict.fromkeys(("ire-pg", "sta-bim", "sedm", "bi-pg", "bi-fista"), Tuned("c", _powers(-2))),
    **dict.fromkeys(("fbi-pg", "ire-apg"), Tuned("power", (1.0, 1.2, 1.4, 1.6, 1.8))),
    "primal-dual": Tuned("ratio", _powers(-1)),
    "a-irg": Tuned("b", (0.05, 0.15, 0.25, 0.35, 0.45)),
    "bi-sg": Tuned("alpha", (0.55, 0.65, 0.75, 0.85, 0.95)),
    "sea": Tuned("upper_step", _powers(-4), lambda L_f, L_g: 1.0 / L_f),
    **dict.fromkeys(("cg-bio", "sbcgf"), Tuned("scale", (2.0, 1.0, 0.5, 0.1, 0.01))),
    "r-apm": Tuned("eta", _powers(-5), lambda L_f, L_g: L_g / L_f),
    "pb-apg": Tuned("penalty", _powers(1), lambda L_f, L_g: L_f / L_g),
    "tikhonov": Tuned("eta_0", _powers(-3)),
    "level-newton": Tuned("multiplicity", (1.0, 1.5, 2.0, 3.0, 4.0)),
    "ada-bim": Tuned("unit", _powers(-2), lambda L_f, L_g: L_g / L_f),
    "r-vfista": Tuned("p", (1.0, 1.5, 2.0, 3.0, 4.0)),
    "big-sam": Tuned("gamma", (0.1, 0.3, 0.5, 0.7, 1.0)),
    "fiba": Tuned("mu_0", _powers(-2)),
    "dbgd": Tuned("xi", _powers(-3)),
    **dict.fromkeys(("ir-cg", "ir-scg", "ir-fscg"), Tuned("p", (0.3, 0.4, 0.5, 0.6, 0.7))),
}

RULES = (
    ("known to all", "Methods know L_f, L_g, sigma, the diameter D of Z, the order of growth of g "
     "if stated, and the number of allowed steps, but not f*, g* or a modulus."),
    ("start and budget", "All methods start at the same point. A run ends after a fixed number of "
     "data passes, never by a clock, so gradients and passes are repeatable."),
    ("costs", "We count gradients of f and g together, data passes (values cost as much as "
     "gradients) and seconds (the clock stops during measurements)."),
    ("parameters", "Methods use their theorem's own values. In a second row, \"tuned\", one "
     "parameter is the best of five values on three other draws, the same for all instances. "
     "Methods that have no free parameter or plan for an accuracy have no such row."),
    ("point", "Methods are measured at their theorem's own point. Rows for other points contain a "
     "colon. We evaluate f and g ourselves; a point outside Z does not count."),
    ("accuracy", "Weak: f - f* within eps max(|f*|, |f(x0) - f*|), g - g* within eps (g(x0) - g*). "
     "Absolute: likewise for |f - f*|. A run arrives once both gaps stay within their limits."),
    ("answers", "Answers are planted, have closed forms, or come from exact. exact and conic take "
     "no steps and do not race, nor does P-AGM-BiO without a penalty: it is AGM-BiO."),
    ("refusals", "Methods refuse instances outside their assumptions, and say why. On Duffin's "
     "instance, where no method can find f*, only false claims count."),
)  # fmt: skip


def contestants(names: Sequence[str] = ()) -> list[str]:
    """Return the names of the methods to race: ``names``, or all iterative methods from papers."""
    known = known_methods()
    for name in names:
        if name not in known:
            meant = checks.did_you_mean(name, known) or ", `tiebreak methods` lists those that are"
            raise ValueError(f"race: unknown method {name!r}{meant}")
    return list(names) or [name for name, kind in known.items() if kind.cites]


def run_field(
    out: Path,
    names: Sequence[str] = (),
    *,
    passes: int = 5000,
    seed: int = 0,
    courses: Sequence[str] = (),
    workers: int = 2,
    say: Say = lambda _: None,
) -> Standings:
    """Race methods on instances (all of them, or those named); write the rows and a page.

    If a race is interrupted, its finished parts stay in ``out``, and the same call continues it.

    Args:
        out: the folder for rows.csv, instances.csv, refused.csv and race.html.
        names: the methods to race, each a name or FILE.py:CLASS; all methods if empty.
        passes: the number of data passes that a run may take.
        seed: the seed of the six drawn instances.
        courses: the names of the instances; all instances if empty.
        workers: the number of processes; each has one thread, so that its products do not depend on
            the other processes.
        say: a function that receives one line of text for each stage of the race.
    """
    raced = contestants([from_file(name) for name in names])
    everything = (*BUILT_IN, *SEEDS, *FROM_PAPERS, *DRAWN)
    for name in courses:
        if name not in everything:
            known = ", ".join(everything)
            raise ValueError(f"race: unknown instance {name!r}, known are {known}")
    chosen = list(courses or everything)
    files = [Path(name.rpartition(":")[0]) for name in names if ":" in name]
    asked = repr((raced, passes, seed, [file.read_text() for file in files]))
    kept = out / f"unfinished-{sha256(asked.encode()).hexdigest()[:12]}"
    kept.mkdir(parents=True, exist_ok=True)
    done = {name: kept / f"{name}.json" for name in chosen}
    left = [name for name in chosen if not done[name].exists()]
    if len(left) < len(chosen):
        say(f"continues an unfinished race: {len(chosen) - len(left)} instances are done")
    with _workers(workers, names) as run_all:
        if not (values := kept / "parameters.json").exists():
            say(f"tuning {len(raced)} methods on three other draws")
            tunable = [name for name in raced if name in TUNED]
            found = run_all(_tune, [(name, seed, passes // 2) for name in tunable])
            _write(values, dict(zip(tunable, found, strict=True)))
        each = [(name, seed, raced, _read(values), passes) for name in left]
        for name, outcome in zip(left, run_all(_run_course, each), strict=True):
            _write(done[name], outcome)
            say(f"{name}: {len(outcome[1])} rows")
    outcomes = [_read(done[name]) for name in chosen]
    standings = Standings(
        [Record(*row) for _, rows, _ in outcomes for row in rows],
        [Course(*course) for course, _, _ in outcomes],
        [Declined(*one) for _, _, refused in outcomes for one in refused],
        RULES,
    )
    write_rows(out / "rows.csv", standings.rows)
    write_rows(out / "instances.csv", standings.courses, Course._fields)
    write_rows(out / "refused.csv", standings.refused, Declined._fields)
    write_page(standings.view(), out / "race.html")
    rmtree(kept)
    return standings


def _write(path: Path, what: Any) -> None:
    write_atomically(path, lambda file: file.write(json.dumps(what).encode()))


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def _workers(count: int, files: Sequence[str]) -> Iterator[Callable[..., Iterable[Any]]]:
    """Yield a function that maps over tuples of arguments, in this process or in others."""
    if count <= 1:
        yield starmap
        return
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    # New processes read these variables when they import NumPy.
    os.environ.update(dict.fromkeys(threads, "1"))
    with ProcessPoolExecutor(count, get_context("spawn"), _load, (files,)) as pool:
        yield lambda task, each: pool.map(task, *zip(*each, strict=True))


def _load(names: Iterable[str]) -> None:
    """Load the methods that come from files; each new process begins with this call."""
    for name in names:
        from_file(name)


# -- instances ------------------------------------------------------------------------------------


class Ready(NamedTuple):
    """An instance that is ready to be raced."""

    problem: Problem
    x0: Any
    answer: Answer
    course: Course


@cache
def ready(name: str, seed: int, passes: int) -> Ready:
    """Return the named instance with its answer, built once per process."""
    if name in SEEDS or name.startswith("drawn "):
        case = planted(name) if name in SEEDS else drawn(seed, int(name.removeprefix("drawn ")))
        problem, x0, order = case.make(), np.zeros(case.variables), case.order
        answer, source = case.answer, "planted"
    else:
        built = instance(name)
        problem, x0, order = built.problem, built.x0, built.order
        known = built.answer
        answer, source = reference(problem) if known is None else (known, "in closed form")
    scale = RelativeScale.of(problem, x0, answer)
    course = Course(
        name, len(x0), *scale[:4], order or math.nan, int(name not in UNATTAINED),
        passes, source,
    )  # fmt: skip
    return Ready(_informed(problem, order), x0, answer, course)


def _informed(problem: Problem, order: float | None) -> Problem:
    """Return the problem with the order of growth of g, if stated, but without a modulus.

    The bound on the slope of f is set to 0, so theorems that need a modulus do not apply.
    """
    if order is None or order <= 1.0 or not problem.is_smooth or problem.error_bound is not None:
        return problem
    return replace(problem, error_bound=ErrorBound(order, 1.0, 0.0))


def planned(method: Method, problem: Problem, x0: Any, passes: int) -> Method:
    """Plan the method for as many steps as the passes allow, judging from its first four steps."""
    with arrays.quiet():
        run = Run(problem, method.planned(passes), problem.start(x0), certifies=False)
        before = run.counts.passes
        while run.iteration < 4 and not run.report.finished.why and run.step():
            pass
        each = (run.counts.passes - before) / max(run.iteration, 1)
    return method.planned(max(round(passes / max(each, 1.0)), 1))


# -- runs -----------------------------------------------------------------------------------------


def _with_value(method: Method, value: float, problem: Problem) -> Method:
    """Return the method with its tuned parameter, in the units of the problem."""
    tuned, mine = TUNED[method.name], cast("Any", method)
    L_f, L_g = (h.lipschitz for h in problem.smooth_parts)
    if not (0.0 < L_f < math.inf and 0.0 < L_g < math.inf):
        L_f = L_g = 1.0
    return cast("Method", replace(mine, **{tuned.name: value * tuned.unit(L_f, L_g)}))


def _raced(at: Ready, label: str, method: Method) -> tuple[list[Record], str]:
    """Return the rows of one run, or the reason why the method refused."""
    passes = at.course.passes
    if at.problem.is_smooth and method.name == PAGMBiO.name:
        return [], "without a penalty P-AGM-BiO is AGM-BiO"
    try:
        if refusal := method.refusal(at.problem):
            return [], refusal.sentence
        entrant = Entrant(label, planned(method, at.problem, at.x0, passes))
        rows = race(
            at.problem, [entrant], at.answer, x0=at.x0, steps=passes, passes=passes, every=20,
            experiment="race", instance=at.course.instance, grades=True,
        )  # fmt: skip
        return rows, ""
    except (ValueError, TypeError, ArithmeticError) as error:
        return [], str(error)


def _run_course(
    name: str, seed: int, names: Sequence[str], tuned: Mapping[str, float], passes: int
) -> tuple[Course, list[Record], list[Declined]]:
    """Run all methods on one instance, with the theorem's parameters and with tuned parameters."""
    at = ready(name, seed, passes)
    rows: list[Record] = []
    refused: list[Declined] = []
    for method in (known_methods()[each]() for each in names):
        if not at.course.counts:
            refused.append(Declined(name, method.name, _claim(at, method)))
            continue
        found, sentence = _raced(at, method.name, method)
        rows += found
        refused += [Declined(name, method.name, sentence)] if sentence else []
        if found and method.name in tuned:
            best = _with_value(method, tuned[method.name], at.problem)
            rows += _raced(at, f"{method.name}, tuned", best)[0]
    return at.course, rows, refused


def _claim(at: Ready, method: Method) -> str:
    """Return what a method claims about an instance on which only false claims count."""
    try:
        result = solve(at.problem, method, x0=at.x0, max_iter=at.course.passes // 4)
    except (ValueError, TypeError) as error:
        return str(error)
    optima = ((result.upper_optimum, at.answer.upper), (result.lower_optimum, at.answer.lower))
    is_true = all(low - 1e-9 <= true <= high + 1e-9 for (low, high), true in optima)
    return f"{result.status}: {'no false claim' if is_true else 'A FALSE CLAIM'}"


def _tune(name: str, seed: int, passes: int) -> float:
    """Return the value with the most arrivals, then the fewest passes, on three other draws."""
    scores = []
    for value in TUNED[name].values:
        met = []
        for number in (1, 2, 3):
            # These three draws differ from the instances of the race.
            at = ready(f"drawn {number}", seed + 1_000_003, passes)
            method = _with_value(known_methods()[name](), value, at.problem)
            rows = [row for row in _raced(at, name, method)[0] if row.method == name]
            met += [at.course.arrival(rows, target) for target in TARGETS]
        arrived = [row.passes for row in met if row is not None]
        scores.append((-len(arrived), sum(arrived), value))
    return min(scores)[2]
