"""What each tolerance decides: all of them in turn ten times larger and ten times smaller.

    PYTHONPATH=src:tests python benchmarks/tolerances.py [--draws N] [--seconds S]
                                                         [--only ENTRY ...] [--write]

Every entry of `tiebreak.linalg.tolerances.Tolerances` is multiplied and divided by 10. Each time
the draws of `tests/truth`, whose answers are known as fractions, and the problems of
`race/real.py` that take less than S seconds are solved again. A row says how many statuses differ
from those of the library as it is, how many words are false, and how many answers are right.
--write puts the table into docs/development/tolerances.md, row by row. False words are shown.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "race"))

import real
import real_problems
from real_data import Data
from truth.count import STRATEGIES, tallied  # type: ignore[import-not-found]
from truth.judge import Verdict  # type: ignore[import-not-found]

import tiebreak as tb
from tiebreak.linalg.tolerances import TOL

FACTOR = 10
FIRST_SEED = 2_000_000  # other draws than those of the tests
RTOL = 1e-6
PAGE = Path(__file__).parents[1] / "docs" / "development" / "tolerances.md"
BEGIN, END = "<!-- table of benchmarks/tolerances.py -->", "<!-- end -->"
HEAD = (
    "| entry | value | times 10: changed | false | right | divided by 10: changed | false | right |"
)


class Outcome(NamedTuple):
    """The statuses of all calls, the false words among them, and how many answers are right."""

    statuses: list[str]
    false: list[str]
    right: int

    def row(self, usual: Outcome) -> list[str]:
        """The cells of the table."""
        pairs = zip(self.statuses, usual.statuses, strict=True)
        changed = sum(one != other for one, other in pairs)
        return [str(changed), str(len(self.false)), str(self.right)]


@contextmanager
def changed(name: str, value: float) -> Iterator[None]:
    """One entry with another value: the class is frozen for everybody else."""
    usual = getattr(TOL, name)
    object.__setattr__(TOL, name, value)
    try:
        yield
    finally:
        object.__setattr__(TOL, name, usual)


def others(value: float) -> tuple[float, float]:
    """Ten times larger and smaller; counts stay whole, and at least 1."""
    if isinstance(value, int):
        return value * FACTOR, max(value // FACTOR, 1)
    return value * FACTOR, value / FACTOR


def quick(seconds: float) -> list[real.Entry]:
    """The real problems that take less than so many seconds of the processor."""
    found = []
    for entry in real.entries(Data(None), real_problems.names()):
        began = time.process_time()
        tb.solve(real.build(entry.spec), rtol=RTOL, max_time=4.0 * seconds)
        if time.process_time() - began < seconds:
            found.append(entry)
    return found


def measured(draws: int, problems: list[real.Entry]) -> Outcome:
    """All draws and all real problems with the tolerances as they are now."""
    verdicts: list[Verdict] = []
    shares = {"polyhedra": draws - 2 * (draws // 6), "balls": draws // 6, "extremes": draws // 6}
    right = 0
    for kind, number in shares.items():
        tally = tallied(STRATEGIES[kind], number, FIRST_SEED, verdicts.append)
        right += len(tally.right)
    statuses = [verdict.status for verdict in verdicts]
    false = [str(verdict) for verdict in verdicts if verdict.false]
    for entry in problems:
        result = tb.solve(real.build(entry.spec), rtol=RTOL)
        wrong = real.fault(entry, result)
        statuses.append(result.status)
        false += [f"{entry.spec.name}: {wrong}"] * (bool(wrong) and result.status != "solved")
        right += real._is_right(entry, result.status, wrong)
    return Outcome(statuses, false, right)


def table(draws: int, problems: list[real.Entry], names: list[str]) -> Iterator[str]:
    """The lines of the table, one by one, and the false words after each."""
    usual = measured(draws, problems)
    yield (
        f"{len(usual.statuses)} calls: {draws} draws of `tests/truth` and {len(problems)} real "
        f"problems; version {tb.__version__}, {datetime.date.today()}. As it is: "
        f"{len(usual.false)} false words, {usual.right} right answers."
    )
    yield ""
    yield HEAD
    yield "|---|---|---|---|---|---|---|---|"
    for name in names:
        value, cells = getattr(TOL, name), []
        for other in others(value):
            with changed(name, other):
                found = measured(draws, problems)
            cells += found.row(usual)
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
