"""What each tolerance decides: makes each in turn ten times larger and ten times smaller.

    PYTHONPATH=src:tests python benchmarks/tolerances.py [--draws N] [--seconds S]
                                                         [--only ENTRY ...] [--write]

Every entry of `tiebreak.linalg.tolerances.Tolerances` is multiplied and divided by 10. Each time we
solve again the draws of `tests/truth`, whose answers are known as fractions, and the problems of
`race/real.py` that take less than S seconds, if they read that entry. A row says how many calls do,
how many statuses differ from those of the unchanged library, how many claims are false, and how
many answers are right. --write puts the table into docs/development/tolerances.md, row by row.
False claims are printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "race"))

import real
import real_problems
from real_data import Data
from truth.cases import Case  # type: ignore[import-not-found]
from truth.count import STRATEGIES, cases  # type: ignore[import-not-found]
from truth.judge import Tally, judge  # type: ignore[import-not-found]

import tiebreak as tb
from tiebreak.linalg.tolerances import TOL, Tolerances

FACTOR = 10
FIRST_SEED = 2_000_000  # different draws from those of the tests
RTOL = 1e-6
PAGE = Path(__file__).parents[1] / "docs" / "development" / "tolerances.md"
BEGIN, END = "<!-- table of benchmarks/tolerances.py -->", "<!-- end -->"
HEAD = (
    "| entry | value | read by | times 10: changed | false | right "
    "| divided by 10: changed | false | right |"
)


class Answer(NamedTuple):
    """The outcome of one call: its status, its false claim if any, and whether it is right."""

    status: str
    false: str
    is_right: bool


@dataclass
class Call:
    """A call of solve with a known answer: its usual outcome, and the tolerances that it reads."""

    run: Callable[[], Answer]
    usual: Answer
    read: frozenset[str]


class Outcome(NamedTuple):
    """How many statuses differ from the usual ones, the false claims, and the right answers."""

    changed: int
    false: list[str]
    right: int

    def row(self) -> list[str]:
        """Return the cells of the table."""
        return [str(self.changed), str(len(self.false)), str(self.right)]


class Recording(Tolerances):
    """The tolerances, and which of them have been read."""

    names = frozenset(field.name for field in dataclasses.fields(Tolerances))
    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        if name in Recording.names:
            Recording.read.add(name)
        return super().__getattribute__(name)


@contextmanager
def recorded() -> Iterator[set[str]]:
    """Yield the entries read meanwhile; all modules share this object."""
    Recording.read.clear()
    object.__setattr__(TOL, "__class__", Recording)
    try:
        yield Recording.read
    finally:
        object.__setattr__(TOL, "__class__", Tolerances)


@contextmanager
def changed(name: str, value: float) -> Iterator[None]:
    """Change one entry temporarily; the class is otherwise frozen."""
    usual = getattr(TOL, name)
    object.__setattr__(TOL, name, value)
    try:
        yield
    finally:
        object.__setattr__(TOL, name, usual)


def others(value: float) -> tuple[float, float]:
    """Return the value times 10 and divided by 10; counts stay whole and at least 1."""
    if isinstance(value, int):
        return value * FACTOR, max(value // FACTOR, 1)
    return value * FACTOR, value / FACTOR


def quick(seconds: float) -> list[real.Entry]:
    """Return the real problems that take less than this much processor time."""
    found = []
    for entry in real.entries(Data(None), real_problems.names()):
        began = time.process_time()
        tb.solve(real.build(entry.spec), rtol=RTOL, max_time=4.0 * seconds)
        if time.process_time() - began < seconds:
            found.append(entry)
    return found


def drawn(number: int) -> list[Callable[[], Answer]]:
    """Return the draws, each with every method that it names; their truths are computed once."""
    shares = {
        "polyhedra": number - 2 * (number // 6),
        "balls": number // 6,
        "extremes": number // 6,
    }
    found: list[Callable[[], Answer]] = []
    for kind, share in shares.items():
        for case in cases(STRATEGIES[kind], share, FIRST_SEED):
            found += [partial(of_draw, case, method) for method in case.methods]
    return found


def of_draw(case: Case, method: str) -> Answer:
    verdict = judge(case, method)
    is_right = bool(Tally([verdict]).right)
    return Answer(verdict.status, str(verdict) if verdict.false else "", is_right)


def of_real(entry: real.Entry) -> Answer:
    try:
        result = tb.solve(real.build(entry.spec), rtol=RTOL)
    except Exception as error:  # caused by another value of an entry: print it and continue
        print(f"{entry.spec.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return Answer("exception", "", False)
    wrong = real.fault(entry, result)
    false = f"{entry.spec.name}: {wrong}" if wrong and result.status != "solved" else ""
    return Answer(result.status, false, real._is_right(entry, result.status, wrong))


def first(run: Callable[[], Answer]) -> Call:
    """Run the call with the library unchanged."""
    with recorded() as read:
        usual = run()
    return Call(run, usual, frozenset(read))


def again(calls: list[Call], name: str, value: float) -> Outcome:
    """Run the calls that read this entry with another value of it."""
    with changed(name, value):
        answers = [call.run() if name in call.read else call.usual for call in calls]
    pairs = zip(answers, calls, strict=True)
    differ = sum(answer.status != call.usual.status for answer, call in pairs)
    false = [answer.false for answer in answers if answer.false]
    return Outcome(differ, false, sum(answer.is_right for answer in answers))


def table(draws: int, problems: list[real.Entry], names: list[str]) -> Iterator[str]:
    """Yield the lines of the table, and print the false claims after each."""
    calls = [first(run) for run in drawn(draws)]
    calls += [first(partial(of_real, entry)) for entry in problems]
    false = [call.usual.false for call in calls if call.usual.false]
    yield (
        f"{len(calls)} calls: {draws} draws of `tests/truth` and {len(problems)} real "
        f"problems; version {tb.__version__}, {datetime.date.today()}. As it is: "
        f"{len(false)} false words, {sum(call.usual.is_right for call in calls)} right answers."
    )
    yield ""
    yield HEAD
    yield "|---|---|---|---|---|---|---|---|---|"
    for name in names:
        value = getattr(TOL, name)
        cells = [str(sum(name in call.read for call in calls))]
        for other in others(value):
            found = again(calls, name, other)
            cells += found.row()
            for word in found.false:
                print(f"{name} = {other:g}: {word}", file=sys.stderr, flush=True)
        yield f"| `{name}` | {value:g} | {' | '.join(cells)} |"


def write(lines: list[str]) -> None:
    """Put the lines between the markers of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    made = "\n".join([BEGIN, "", *lines, "", END])
    PAGE.write_text(before + made + rest.partition(END)[2], encoding="utf-8")


def main() -> int:
    names = [field.name for field in dataclasses.fields(TOL)]
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines: list[str] = []
    for line in table(options.draws, quick(options.seconds), options.only):
        print(line, flush=True)
        lines.append(line)
        if options.write:
            write(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
