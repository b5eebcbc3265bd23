"""A fair race: same start, oracle calls counted alike, a clock that stops while measuring.

The rows of a race go to a file, and everything else (pictures, tables, verdicts) is made from them.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tiebreak.algorithms import Method
from tiebreak.driver.run import Run
from tiebreak.linalg import Array, arrays
from tiebreak.linalg.archive import write_atomically
from tiebreak.problem import Problem


class Answer(NamedTuple):
    """What the errors are measured against; nan or None where it is not known.

    Examples:
        >>> race = tb.compare(tb.instance("toy").problem, ["agm-bio"], max_iter=20)
        >>> round(race.answer.upper, 3)  # f*
        0.196
    """

    upper: float  # f*
    lower: float  # g*
    solution: Array | None = None  # x*, where it is unique


class Entrant(NamedTuple):
    """A method in a race, under the name that the rows carry."""

    label: str
    method: Method
    point: Callable[[Any], Array] | None = None  # of its state: where it is measured, x if None
    words: str = ""  # that point in words


class Record(NamedTuple):
    """One row of ``rows.csv``."""

    experiment: str
    instance: str
    method: str
    iteration: int
    gradients: int  # of f and g together
    seconds: float
    upper: float  # f(x)
    lower: float  # g(x)
    upper_error: float  # |f(x) - f*|
    lower_error: float  # g(x) - g*, as it is: rounding may make it negative
    distance: float  # |x - x*|


READERS = (str, str, str, int, int, *[float] * 6)  # a cell of rows.csv -> what a Record holds


def race(
    problem: Problem,
    entrants: Iterable[Entrant],
    answer: Answer,
    *,
    x0: Any = None,
    steps: int,
    seconds: float = math.inf,
    experiment: str,
    instance: str,
) -> list[Record]:
    """Run every method from the same start; the rows of all of them.

    Args:
        problem: what to solve.
        entrants: who takes part; a method that leaves a horizon open plans for ``steps``.
        answer: what the errors are measured against.
        x0: the common start, the origin if None; projected onto the domain.
        steps, seconds: where each of them is stopped.
        experiment, instance: names for the rows.

    Returns:
        Rows at the first steps and then at every hundredth part of the way; the last step always.
    """
    start = problem.start(x0)
    rows = []
    for entrant in entrants:
        if refusal := entrant.method.refusal(problem):
            raise ValueError(refusal.sentence)
        method = entrant.method.planned(max(steps, 1))
        with arrays.quiet():
            # Constants such as L_g are found once and kept: nobody pays for the others.
            method.init(problem, start)
            run = Run(problem, method, start, certifies=False)
            due, going = 0, True
            while going:
                has_ended = bool(run.report.finished.why)
                going = run.iteration < steps and run.seconds < seconds and not has_ended
                if run.iteration >= due or not going:
                    with run.paused():
                        rows.append(_record(run, answer, experiment, instance, entrant))
                    due = run.iteration + max(1, run.iteration // 100)
                going = going and run.step()  # not finite: its last row was not long ago
    return rows


def _record(run: Run, answer: Answer, experiment: str, instance: str, entrant: Entrant) -> Record:
    state, counts, problem = run.state, run.counts, run.problem
    x, upper, lower = state.x, state.upper_value, state.lower_value
    gradients = counts.upper_gradients + counts.lower_gradients
    if entrant.point is not None:
        x = entrant.point(state)
        upper, lower = problem.upper.value(x), problem.lower.value(x)
    distance = math.nan if answer.solution is None else arrays.norm(x - answer.solution)
    return Record(
        experiment, instance, entrant.label, run.iteration, gradients, run.seconds,
        upper, lower, abs(upper - answer.upper), lower - answer.lower, distance,
    )  # fmt: skip


# -- rows.csv -------------------------------------------------------------------------------------


def write_rows(path: Path, rows: Sequence[Record]) -> None:
    """The rows as a table, atomically; numbers with all their digits."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(Record._fields)
    table.writerows(rows)
    write_atomically(path, lambda file: file.write(text.getvalue().encode()))


def read_rows(path: Path) -> list[Record]:
    """The rows of a table that ``write_rows`` wrote."""
    with path.open(newline="") as file:
        table = csv.reader(file)
        header = next(table, [])
        if tuple(header) != Record._fields:
            raise ValueError(
                f"{path}: the columns must be {', '.join(Record._fields)}, "
                f"got {', '.join(header) or 'an empty file'}"
            )
        rows = []
        for number, cells in enumerate(table, start=2):
            try:
                row = (read(cell) for read, cell in zip(READERS, cells, strict=True))
                rows.append(Record._make(row))
            except ValueError:
                raise ValueError(
                    f"{path}: line {number} must hold {len(Record._fields)} cells, three names, "
                    f"two whole numbers and six numbers, got {','.join(cells)!r}"
                ) from None
    return rows
