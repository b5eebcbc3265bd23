"""What was found of a chain of levels, whoever solved it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tiebreak.linalg import deadline, in_files
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.deferred import resolved

SlackRule = Callable[[float, float], float]  # of the best value and of that before this level

METHOD = "conic, images and faces held"
LEAST = "all levels leave directions of x open: there x is the point of least norm"


def estimate(value: float, error: float) -> str:
    """A value that is not proved, to the digits that its error leaves."""
    if not math.isfinite(error):
        return "unknown"
    digits = math.log10(abs(value) / error) if value and error else 9.0
    return f"about {value:.{min(max(round(digits), 1), 9)}g}"


class _LevelSolution(NamedTuple):
    """The fields of a `LevelSolution`."""

    best: float  # its least value over the minimisers of the levels before it, as found
    bound: float  # that least value is at least this
    error: float  # how far `best` may be off, on both sides
    value: float  # at the final point
    slack: float  # what it may give up, resolved to a number
    dimension: Any  # of what is left to choose after it: int, None (not known), or `Deferred`
    held: str  # how it was held: "image", "face", "image and face", "cut", "point", "nothing"
    word: str  # "proved" or "estimated"
    price: float | None  # -d(next level)/d(slack), where its slack is positive
    solver: str  # the solver's own word, "" where none was asked
    residual: float = math.nan  # of the conditions of optimality, relative
    is_bound_proved: bool = False  # `bound` alone; the word is of both ends
    why: str = ""  # why it is estimated only: "size", "inside" or "held"


@in_files("conic.level")
class LevelSolution(_LevelSolution):
    """What was found of one level; the ties after it are counted when somebody asks."""

    @property
    def dimension(self) -> Any:
        """Of what is left to choose after it, None where that is not known."""
        return resolved(self[self._fields.index("dimension")])

    def in_unit(self, unit: float, following: float) -> LevelSolution:
        """In units of 1, if it is in this ``unit`` and the next level in ``following``."""
        return self._replace(
            best=unit * self.best,
            bound=unit * self.bound,
            error=unit * self.error,
            value=unit * self.value,
            slack=unit * self.slack,
            price=None if self.price is None else following / unit * self.price,
        )


def word_of(is_proved: bool, is_known: bool, is_whole: bool) -> tuple[str, str]:
    """The word of a level, and why it is no better: see `LevelSolution`.

    ``is_known``: how long solutions are at most; ``is_whole``: no level before it is held.
    """
    if is_proved:
        return "proved", ""
    return "estimated", "size" if not is_known else "inside" if is_whole else "held"


class ChainSolution(NamedTuple):
    """All levels solved, or those before a limit."""

    z: Host
    levels: tuple[LevelSolution, ...]
    status: str  # "solved", "unbounded", "undetermined", "infeasible", "failed", or a limit
    message: str = ""
    direction: Host | None = None  # where it is unbounded
    contradiction: Host | None = None  # where it is infeasible: multipliers of the program's rows
    is_least: bool = False  # did the least norm of x choose among points that all levels leave?
    method: str = METHOD


def cut_short(over: deadline.Over, number: int) -> tuple[str, str]:
    """Status and message where a level, by its number, was not solved."""
    if isinstance(over, deadline.Interrupted):
        return "stopped", f"stopped before level {number + 1} was solved"
    return "max_time", f"no time was left for level {number + 1}"
