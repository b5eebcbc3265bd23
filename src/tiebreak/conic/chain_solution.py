"""The solution of a chain of levels, whichever method found it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tiebreak.linalg import Host, deadline, in_files
from tiebreak.linalg.deferred import Deferred, resolved

SlackRule = Callable[[float, float], float]  # (best value, previous value) -> slack
Told = Callable[[int, float], None]  # receives the number and best value of each solved level

METHOD = "conic, with images and faces held fixed"
LEAST = "several points are optimal for all levels: x is the point of least norm"


def estimate(value: float, error: float) -> str:
    """Format an unproved value with as many digits as its error justifies."""
    if not math.isfinite(error):
        return "unknown"
    digits = math.log10(abs(value) / error) if value and error else 9.0
    return f"about {value:.{min(max(round(digits), 1), 9)}g}"


class _LevelSolution(NamedTuple):
    """The fields of a `LevelSolution`."""

    best: float  # the least value found over the minimisers of earlier levels
    bound: float  # a lower bound on the level's least value
    error: float  # the error of `best`, on both sides
    value: float  # the value at the final point
    slack: float  # the slack of the level, as a number
    dimension: int | Deferred | None  # of the set of x that remains; None if unknown
    # What keeps the level optimal while later levels are solved: "image", "face", "image and face",
    # "cut", "point" or "nothing".
    held: str
    word: str  # "proved" or "estimated"
    price: float | None  # -d(next level's best value)/d(slack); None without slack
    solver: str  # the solver's own status, "" if no solver was used
    residual: float = math.nan  # relative residual of the optimality conditions
    is_bound_proved: bool = False  # is `bound` proved? (`word` is about `bound` and `best`)
    why: str = ""  # why the gap is only estimated: "size", "inside" or "held"


@in_files("conic.level")
class LevelSolution(_LevelSolution):
    """The solution of one level; its ``dimension`` is computed on demand."""

    @property
    def dimension(self) -> Any:
        """The dimension of the set of x that remains after this level, None if unknown."""
        return resolved(self[self._fields.index("dimension")])

    def proved(self, value: float, bound: float, error: float) -> LevelSolution:
        """Return the solution with a proved value and bound at the final point."""
        found = self._replace(best=value, value=value, bound=bound, error=error)
        return found._replace(word="proved", is_bound_proved=True, why="")

    def in_unit(self, unit: float, following: float) -> LevelSolution:
        """Convert values from this unit to unit 1; ``following`` is the unit of the next level."""
        return self._replace(
            best=unit * self.best,
            bound=unit * self.bound,
            error=unit * self.error,
            value=unit * self.value,
            slack=unit * self.slack,
            price=None if self.price is None else following / unit * self.price,
        )


def word_of(is_proved: bool, is_known: bool, is_whole: bool) -> tuple[str, str]:
    """Return the fields ``word`` and ``why`` of a `LevelSolution`.

    ``is_known``: are the entries of solutions bounded?
    ``is_whole``: do all earlier levels have slack?
    """
    if is_proved:
        return "proved", ""
    return "estimated", "size" if not is_known else "inside" if is_whole else "held"


class ChainSolution(NamedTuple):
    """The solutions of all levels, or of those solved before a limit was reached."""

    z: Host
    levels: tuple[LevelSolution, ...]
    status: str  # "solved", "unbounded", "undetermined", "infeasible", "failed", or a limit
    message: str = ""
    direction: Host | None = None  # along which a level is unbounded
    contradiction: Host | None = None  # multipliers of the program's rows that prove infeasibility
    is_least: bool = False  # is x the point of least norm among those that all levels allow?
    method: str = METHOD
    normal: Host | None = None  # a normal of the set at z that balances the last level's slope


def allowed_slack(rule: SlackRule | None, best: float, before: float, rounding: float) -> float:
    """Return how much worse a level may get, or 0 if the slack would be only a rounding error."""
    if rule is None:
        return 0.0
    slack = rule(best if abs(best) > rounding else 0.0, before)
    return slack if slack > rounding else 0.0


def cut_short(over: deadline.Over, number: int) -> tuple[str, str]:
    """Return the status and message if time ran out or Ctrl-C was pressed before this level."""
    if isinstance(over, deadline.Interrupted):
        return "stopped", f"stopped before level {number + 1} was solved"
    return "max_time", f"no time was left for level {number + 1}"
