"""The rows of a race by instance, and what is known of each: what claims and pictures refer to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, NamedTuple

from tiebreak.experiments.race import Record

TAIL = 0.1  # the part of the way over which the largest error counts
ROUNDING = 16 * 2.0**-52  # of a value of f or g: no error is known more precisely

Axis = Literal["iteration", "gradients", "seconds"]
Column = Literal["upper_error", "lower_error"]
Curves = Mapping[str, Sequence[Record]]  # method -> its rows, in the order of the steps


class Facts(NamedTuple):
    """What is known about an instance besides its rows."""

    label: str = ""  # what the data are
    is_twin: bool = False  # synthetic data in place of the paper's
    upper_optimum: float = math.nan  # f* and g*
    lower_optimum: float = math.nan
    source: str = ""  # where they come from
    shape: tuple[int, int] | None = None  # of the training matrix
    dimension: int | None = None  # of the set of lower minimisers
    order: float | None = None  # of the error bound; inf: there is none; None: not known
    smoothness: tuple[float, float] = (math.nan, math.nan)  # L_f and L_g
    refusals: Mapping[str, str] = {}  # method -> the sentence with which it refused


class UnknownHere(Exception):
    """A claim cannot be judged from these rows; the message says why."""


@dataclass(frozen=True)
class Scene:
    """An instance, or the same instance from several random starts, with all its curves."""

    name: str
    runs: tuple[Curves, ...]
    facts: Facts = field(default_factory=Facts)

    def at(self, method: str, column: Column, axis: Axis, share: float = 1.0) -> float:
        """The error of a method where the race ends on this axis: the median over the starts.

        The largest one in the last tenth of the way: a run that passes through f* by chance has
        not arrived. With ``share`` at that part of the way. A method that ended by itself keeps
        its last point.
        """
        tails = (last_tenth(run, method, axis, share) for run in self.runs)
        return median(max(error_of(row, column) for row in tail) for tail in tails)

    def all_at(self, methods: Iterable[str], column: Column, axis: Axis) -> dict[str, float]:
        """``at`` for some methods, the smallest error first."""
        errors = {method: self.at(method, column, axis) for method in methods}
        return dict(sorted(errors.items(), key=lambda item: item[1]))


def error_of(row: Record, column: Column) -> float:
    """The error in a row, but not less than the rounding of the value that it comes from."""
    error, value = (
        (row.upper_error, row.upper) if column == "upper_error" else (row.lower_error, row.lower)
    )
    if not math.isfinite(error):
        raise UnknownHere(f"{row.method} has no finite {column} at step {row.iteration}")
    return max(error, ROUNDING * abs(value))


def last_tenth(run: Curves, method: str, axis: Axis, share: float) -> list[Record]:
    """The rows of a method in the last tenth of ``share`` of the way; the last one always."""
    if not run.get(method):
        raise UnknownHere(f"there are no rows of {method}")
    limit = share * _end(run, axis)
    reached = [row for row in run[method] if getattr(row, axis) <= limit]
    if not reached:
        raise UnknownHere(f"{method} has no row within {limit:g} {axis}")
    tenth = [row for row in reached if getattr(row, axis) > (1.0 - TAIL) * limit]
    return tenth or reached[-1:]


def _end(run: Curves, axis: Axis) -> float:
    """Where the race ends: where the first of those that took all steps has taken them."""
    last = [rows[-1] for rows in run.values() if rows]
    steps = max(row.iteration for row in last)
    return float(min(getattr(row, axis) for row in last if row.iteration == steps))


def scenes_of(
    rows: Sequence[Record], experiment: str, facts: Mapping[str, Facts]
) -> dict[str, Scene]:
    """An experiment's rows by instance; random starts of one ("..., seed 3") come together."""
    curves: dict[str, dict[str, dict[str, list[Record]]]] = {}
    mine = [row for row in rows if row.experiment == experiment]
    for row in sorted(mine, key=lambda row: row.iteration):
        name, _, seed = row.instance.partition(", seed ")
        run = curves.setdefault(name, {}).setdefault(seed, {})
        run.setdefault(row.method, []).append(row)
    return {
        name: Scene(name, tuple(runs.values()), facts.get(name, Facts()))
        for name, runs in curves.items()
    }
