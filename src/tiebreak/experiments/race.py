"""A fair race: the same start, counted oracle calls, and a clock that stops while measuring.

The rows of a race go to a file, from which everything else (plots, tables, verdicts) is made.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from tiebreak.algorithms import Method
from tiebreak.catalog.built import Answer
from tiebreak.driver.run import Run
from tiebreak.linalg import Array, arrays
from tiebreak.linalg.archive import write_atomically
from tiebreak.problem import Problem


class RelativeScale(NamedTuple):
    """The scales of relative errors, and the optima from which errors are measured."""

    upper: float
    lower: float
    f: float  # f*
    g: float  # g*
    start: tuple[float, float]  # the pair f(x0), g(x0)

    @classmethod
    def of(cls, problem: Problem, x0: Any, answer: Answer) -> Self:
        """Use the scales max(|f*|, |f(x0) - f*|) and g(x0) - g*, or |g*|; or 1 if these are 0."""
        x, (f, g, _) = problem.start(x0), answer
        start = problem.upper.value(x), problem.lower.value(x)
        way = start[1] - g
        scales = max(abs(f), abs(start[0] - f)), way if way > 0.0 else abs(g)
        return cls(scales[0] or 1.0, scales[1] or 1.0, f, g, start)

    def errors(self, upper_value: float, lower_value: float) -> tuple[float, float]:
        """Return |f - f*| and g - g*, relative to the scales."""
        return abs(upper_value - self.f) / self.upper, (lower_value - self.g) / self.lower

    def is_within(self, accuracy: float, upper_value: float, lower_value: float) -> bool:
        """Are both errors within the accuracy?"""
        return all(error <= accuracy for error in self.errors(upper_value, lower_value))


class Entrant(NamedTuple):
    """A method in a race, under the name that appears in the rows."""

    label: str
    method: Method
    point: Callable[[Any], Array] | None = None  # the point to measure, x if None
    words: str = ""  # the measured point, in words


class Record(NamedTuple):
    """One row of ``rows.csv``."""

    experiment: str
    instance: str
    method: str
    iteration: int
    gradients: int  # gradients of f and g together
    seconds: float
    upper: float  # f(x)
    lower: float  # g(x)
    upper_error: float  # |f(x) - f*|
    lower_error: float  # g(x) - g*, which rounding may make negative
    distance: float  # |x - x*|
    passes: int = 0  # data passes of f and g together; a value costs one, like a gradient


READERS = (str, str, str, int, int, *[float] * 6, int)  # a cell of rows.csv -> part of a Record


def arrival(
    rows: Iterable[Record], f: float, scales: tuple[float, float], accuracy: float, is_weak: bool
) -> Record | None:
    """Return the first row from which on both levels stay within the accuracy.

    This means |f(x) - f*| <= accuracy scale_f (with f(x) - f* instead if ``is_weak``) and g(x) - g*
    <= accuracy scale_g. A run that passes through f* by chance has not arrived.
    """
    found = None
    for row in rows:
        errors = (row.upper - f if is_weak else row.upper_error, row.lower_error)
        is_within = all(e <= accuracy * scale for e, scale in zip(errors, scales, strict=True))
        found = (found or row) if is_within else None
    return found


def race(
    problem: Problem,
    entrants: Iterable[Entrant],
    answer: Answer,
    *,
    x0: Any = None,
    steps: int,
    seconds: float = math.inf,
    passes: float = math.inf,
    experiment: str,
    instance: str,
    every: int = 100,
    grades: bool = False,
) -> list[Record]:
    """Run every method from the same start and return the rows of all methods.

    Args:
        problem: the problem to solve.
        entrants: the methods; a method with an open horizon plans for ``steps``.
        answer: the answer from which errors are measured.
        x0: the common start, the origin if None; projected onto the domain.
        steps, seconds, passes: the limits of each method.
        experiment, instance: names for the rows.
        every: rows are recorded at the first steps, then whenever the step count has grown by the
            fraction 1/``every``.
        grades: measure each method's other points as well, and count the errors of points outside
            the domain as infinite.

    Returns:
        The rows of all methods, each ending with its last step.
    """
    start = problem.start(x0)
    rows: list[Record] = []
    for entrant in entrants:
        if refusal := entrant.method.refusal(problem):
            raise ValueError(refusal.sentence)
        method = entrant.method.planned(max(steps, 1))
        with arrays.quiet():
            # Constants such as L_g are computed once and cached before the run starts.
            method.init(problem, start)
            run = Run(problem, method, start, certifies=False)
            due, going = 0, True
            while going:
                has_ended = bool(run.report.finished.why)
                going = run.iteration < steps and run.seconds < seconds and not has_ended
                going = going and run.counts.passes < passes
                if run.iteration >= due or not going:
                    with run.paused():
                        names = experiment, instance, entrant
                        rows += _measured(run, problem, answer, *names, grades)
                    due = run.iteration + max(1, run.iteration // every)
                # If a step produces a non-finite value, the last row was recorded shortly before
                # this step.
                going = going and run.step()
    return rows


def _measured(
    run: Run,
    problem: Problem,
    answer: Answer,
    experiment: str,
    instance: str,
    entrant: Entrant,
    grades: bool,
) -> Iterator[Record]:
    """Yield the rows of a step; the evaluations made here are not counted as the run's."""
    state, label, counts = run.state, entrant.label, run.counts
    gradients = counts.upper_gradients + counts.lower_gradients
    points = {label: state.x if entrant.point is None else entrant.point(state)}
    if grades:
        points |= {f"{label}: {what}": x for what, x in run.method.points(state).items()}
    for name, x in points.items():
        upper, lower = problem.upper.value(x), problem.lower.value(x)
        errors = abs(upper - answer.upper), lower - answer.lower
        # The margin of 1e-9 is larger than rounding errors.
        if grades and not problem.domain.contains(x, 1e-9 * (1.0 + arrays.norm(x))):
            errors = math.inf, math.inf
        distance = math.nan if answer.solution is None else arrays.norm(x - answer.solution)
        yield Record(
            experiment, instance, name, run.iteration, gradients, run.seconds, upper, lower,
            *errors, distance, counts.passes,
        )  # fmt: skip


# -- rows.csv -------------------------------------------------------------------------------------


def write_rows(
    path: Path, rows: Sequence[Sequence[Any]], fields: Sequence[str] = Record._fields
) -> None:
    """Write the rows as a table, atomically, with all digits of every number."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(fields)
    table.writerows(rows)
    write_atomically(path, lambda file: file.write(text.getvalue().encode()))


def read_rows(path: Path) -> list[Record]:
    """Read the rows of a table that ``write_rows`` wrote."""
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
                    f"{path}: line {number} must have {len(Record._fields)} cells (three names, "
                    f"two whole numbers, six numbers and a whole number), got {','.join(cells)!r}"
                ) from None
    return rows
