"""What `real.py` says of its runs: a row for each problem, and the summary."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """One method on one problem."""

    problem: str
    method: str
    rtol: float = math.nan  # the loosest that was close enough, or the last
    seconds: float = math.inf  # of that call
    is_met: bool = False
    status: str = ""
    errors: tuple[float, float] = (math.nan, math.nan)  # |f - f*| and g - g*, relative
    wrong: str = ""  # what is wrong with a success
    is_right: bool = False  # certified, or rightly unbounded or undetermined
    is_doubtful: bool = False  # does rounding of the data decide a rank?
    first: tuple[bool, float, str] = (False, math.nan, "")  # default rtol: success, |f-f*|/tol.
    note: str = ""
    wall: float = 0.0  # seconds on the wall's clock, whatever clock the race goes by


def ratio(line: Line, lines: Sequence[Line]) -> float:
    """The time of a line over the best one's on the same problem; inf where it is not met."""
    if not line.is_met:
        return math.inf
    return line.seconds / min(other.seconds for other in lines if other.is_met)


def head(methods: Sequence[str]) -> str:
    cells = "".join(f"{name:>10}" for name in methods[1:])
    return (
        f"{'problem':48}{'ties':>5} {'auto':13}{'rtol':>6}{'|f-f*|':>8}{'g-g*':>8}{'seconds':>9}"
        f"{'/best':>7}  time relative to the best:{cells}"
    )


def row(name: str, ties: int, lines: Sequence[Line]) -> str:
    """A problem: auto's answer in full, the ratios of the others; loud where anything is wrong."""
    auto, *others = lines
    cells = "".join(f"{_cell(line, lines):>10}" for line in others)
    dimension = "-" if ties < 0 else str(ties)
    said = (
        f"{name[:47]:48}{dimension:>5} {auto.status:13}{_small(auto.rtol):>6}"
        f"{_small(auto.errors[0]):>8}{_small(auto.errors[1]):>8}{auto.seconds:>9.3f}"
        f"{_cell(auto, lines):>7}  {'':26}{cells}"
    )
    loud = [f"\n    {_loud(line)}" for line in lines if line.wrong]
    return said + "".join(loud)


def _loud(line: Line) -> str:
    word = "in doubt" if line.is_doubtful else "WRONG"
    return f"{word}: {line.problem}, {line.method}: {line.wrong}"


def _cell(line: Line, lines: Sequence[Line]) -> str:
    if line.status == "refused":
        return "no"
    found = ratio(line, lines)
    return "-" if math.isinf(found) else f"{found:.2f}" if found < 9.995 else f"{found:.0f}"


def _small(number: float) -> str:
    if math.isnan(number):
        return "?"
    return "0" if number <= 0.0 else f"{number:.0e}".replace("e-0", "e-").replace("e+0", "e+")


def summary(lines: Sequence[Line]) -> str:
    """How many within 2 and 4 times the best, proved, within 2 tolerances; all that is wrong."""
    by_problem: dict[str, list[Line]] = {}
    for line in lines:
        by_problem.setdefault(line.problem, []).append(line)
    autos = [found[0] for found in by_problem.values()]
    ratios = {found[0].problem: ratio(found[0], found) for found in by_problem.values()}
    count = len(autos)
    said = [f"{count} problems"]
    methods = dict.fromkeys(line.method for line in lines)
    for method in methods:
        mine = [line for line in lines if line.method == method]
        met = sum(line.is_met for line in mine)
        every = [ratio(line, by_problem[line.problem]) for line in mine]
        first = sum(r <= 1.0 for r in every)
        within = [sum(r <= times for r in every) for times in (2.0, 4.0)]
        said.append(
            f"  {method:10} right to 1e-6 and 1e-8 on {met}, the fastest on {first}, within 2 "
            f"times the best on {within[0]}, within 4 times on {within[1]}"
        )
    slow = [f"{name} ({r:.1f})" for name, r in ratios.items() if 4.0 < r < math.inf]
    missed = [line.problem for line in autos if not line.is_met]
    said.append(f"  auto beyond 4 times the best: {', '.join(slow) or 'none'}")
    said.append(f"  auto not there at any rtol: {', '.join(missed) or 'none'}")
    right = sum(line.is_right for line in autos)
    other = [f"{line.problem} ({line.status})" for line in autos if not line.is_right]
    said.append(
        f"  auto certified, or rightly unbounded or undetermined, on {right} of {count}; "
        f"not on: {', '.join(other) or 'none'}"
    )
    successes = [line for line in autos if line.first[0]]
    beyond = [
        f"{line.problem} ({line.first[1]:.2g} tol., {line.first[2]})"
        for line in successes if not line.first[1] <= 2.0
    ]  # fmt: skip
    said.append(
        f"  auto at the default tolerance: {len(successes)} successes, true |f - f*| beyond two "
        f"tolerances on: {', '.join(beyond) or 'none'}"
    )
    wrong = [_loud(line) for line in lines if line.wrong]
    said.append("\n".join(["  " + words for words in wrong]) or "  wrong answers: none")
    return "\n".join(said)


def save(path: Path, lines: Sequence[Line]) -> None:
    """All numbers, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    sheet = csv.writer(text, lineterminator="\n")
    sheet.writerow(Line._fields)
    sheet.writerows(lines)
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
