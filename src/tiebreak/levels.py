"""Objectives in order of priority: each is minimised over the minimisers of all those before it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tiebreak.functions import Function, Penalty, split
from tiebreak.linalg import Array, FromData, arrays, assign, checks, in_files, remember, tables
from tiebreak.linalg.archive import save
from tiebreak.linalg.fingerprints import known
from tiebreak.problem import DOMAIN, FUNCTION, Problem, check_kind, html_table
from tiebreak.sets import Domain, Space
from tiebreak.sets.base import Violation


@in_files("Slack")
@dataclass(frozen=True)
class Slack:
    """How much worse a level may get in favour of later levels: the sum of three parts.

    Args:
        absolute: a number in the level's own units.
        relative: a share of the absolute value of the best value; this part is 0 if that value is
            0.
        share: a share of the level's possible gain: its value before it was minimised (for the
            first level at x0, for later levels at the point that earlier levels chose) minus its
            best value.

    Examples:
        >>> cost = tb.Level(tb.Linear([1, 2]), slack=tb.Slack(relative=0.1))  # 10 % of the best
        >>> plan = tb.Levels(cost, tb.SquaredNorm(center=[0, 1]), domain=tb.Simplex())
        >>> tb.solve(plan).x.round(4)  # costs 1.1
        array([0.9, 0.1])
    """

    absolute: float = 0.0
    relative: float = 0.0
    share: float = 0.0

    def __post_init__(self) -> None:
        for name in ("absolute", "relative", "share"):
            # Fractions are not made of NumPy numbers, so they become Python's.
            assign(self, name, checks.at_least("Slack", name, getattr(self, name)))

    def __call__(self, best: float, before: float) -> float:
        """Return the slack, given the best value, as a number of the same type as ``best``."""
        kind = type(best)
        gain = kind(max(before - best, 0.0)) if math.isfinite(before) else kind(0.0)
        relative, share = kind(self.relative) * abs(best), kind(self.share) * gain
        return kind(self.absolute) + relative + share

    @property
    def is_none(self) -> bool:
        """Is the slack zero?"""
        return not (self.absolute or self.relative or self.share)


@dataclass(frozen=True)
class Level(FromData):
    """An objective to be minimised or maximised, with a name for the report.

    Args:
        objective: a function such as LeastSquares(A, b), a penalty such as L1(), or a sum.
        name: the name in the report; "level 1" and so on if None.
        slack: how much worse the level may get for later levels: a number (absolute) or a `Slack`.
        sense: "min", or "max" for a linear objective; reports keep the sign of your objective.

    Examples:
        >>> cost = tb.Level(tb.Linear([1, 2]), name="cost", slack=tb.Slack(relative=0.1))
        >>> change = tb.Level(tb.SquaredNorm(center=[0, 1]), name="change")
        >>> tb.solve(tb.Levels(cost, change, domain=tb.Simplex())).x.round(4)
        array([0.9, 0.1])
    """

    objective: Function | Penalty
    name: str | None = None
    slack: float | Slack = 0.0
    sense: str = "min"

    def __post_init__(self) -> None:
        check_kind("Level", "objective", self.objective, Function | Penalty, FUNCTION)
        check_kind("Level", "name", self.name, str | None, "a string")
        if isinstance(self.slack, str):
            raise TypeError(
                "Level: slack must be a number in the level's own units or a Slack, such as "
                f"Slack(relative=0.01) for 1 % of its best value, got {self.slack!r}"
            )
        if not isinstance(self.slack, Slack):
            slack = checks.at_least("Level", "slack", self.slack)
            assign(self, "slack", Slack(absolute=slack))
        if self.sense not in ("min", "max"):
            raise ValueError(f"Level: sense must be 'min' or 'max', got {self.sense!r}")
        given = {"objective": self.objective, "name": self.name, "slack": self.slack}
        remember(self, Level, **given, sense=self.sense)
        assign(self, "objective", known(self.objective))
        if self.sign < 0 and getattr(self.objective, "negative", None) is None:
            raise ValueError(
                "Level: objective must be linear to be maximised, got "
                f"{checks.what_it_is(self.objective)}; minimise the negative of a concave function"
            )

    @property
    def sign(self) -> int:
        """1 if the level is minimised, -1 if it is maximised."""
        return 1 if self.sense == "min" else -1

    @cached_property
    def minimised(self) -> Function | Penalty:
        """The function to minimise: the objective, or its negative."""
        return self.objective if self.sign > 0 else self.objective.negative  # type: ignore[union-attr]

    @property
    def rule(self) -> Slack:
        """The slack of the level."""
        assert isinstance(self.slack, Slack)
        return self.slack


@dataclass(frozen=True, init=False, eq=False)
class Levels(FromData):
    """Objectives in order of priority, the most important first.

        tb.Levels(tb.Level(fit, name="fit", slack=0.1), cost, tb.L1(), domain=tb.Box(0, 1))

    Every level is minimised over the minimisers of all levels before it, or over the points that
    stay within their slacks. ``Problem(upper=f, lower=g)`` is ``Levels(g, f)``.

    Args:
        levels: two or more; a plain function becomes a Level without a name or slack.
        domain: the set of all x; R^n if not given.
        radius: a promise that some solution has |x| <= radius; it is not verified, and only bounds
            use it.

    Examples:
        >>> plan = tb.Levels(
        ...     tb.Linear([1, 1, 1]),  # the most important first
        ...     tb.Linear([1, 2, 2]),
        ...     tb.SquaredNorm(center=[0, 3, 0]),
        ...     domain=tb.Box(0.0, 2.0) & tb.Polyhedron([[-1, -1, -1]], [-3]),
        ... )
        >>> tb.solve(plan).x.round(4)
        array([2., 1., 0.])
    """

    levels: tuple[Level, ...]
    domain: Domain = field(default_factory=Space)
    radius: float | None = None

    def __init__(
        self,
        *levels: Level | Function | Penalty,
        domain: Domain | None = None,
        radius: float | None = None,
    ) -> None:
        if len(levels) == 1 and isinstance(levels[0], list | tuple):
            got = checks.what_it_is(levels[0])
            raise TypeError(f"Levels: levels must be given one by one, Levels(g, f), got {got}")
        found = tuple(h if isinstance(h, Level) else Level(h) for h in levels)
        if len(found) < 2:
            raise ValueError(
                "Levels: levels must be two or more, such as Levels(g, SquaredNorm()) for the "
                f"minimiser of g of least norm, got {len(found)}"
            )
        if not found[-1].rule.is_none:
            raise ValueError(
                f"Levels: the last level must have no slack, because no level follows it, "
                f"got {found[-1].rule}"
            )
        check_kind("Levels", "domain", domain, Domain | None, DOMAIN)
        if radius is not None:
            radius = checks.positive("Levels", "radius", radius)
        assign(self, "levels", found)
        assign(self, "domain", Space() if domain is None else domain)
        assign(self, "radius", radius)
        remember(self, Levels, levels=found, domain=self.domain, radius=radius)
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"Levels: names must differ, got {', '.join(self.names)}")
        self._check_pairs()

    def _check_pairs(self) -> None:
        """Check the levels and the number and names of their variables, as `Problem` does."""
        sizes = sorted({h.dimension for h in self._objectives if h.dimension is not None})
        if len(sizes) > 1:
            got = " and ".join(map(str, sizes))
            raise ValueError(
                f"Levels: all levels must have the same number of variables, got {got}"
            )
        self.pairs()
        if self.dimension is None:
            raise ValueError(
                "Levels: nothing in the levels or the domain says how many variables there are"
            )

    def _repr_html_(self) -> str:
        parts = {
            f"{i + 1}. {name}": (level.sense, level.objective)
            for i, (name, level) in enumerate(zip(self.names, self.levels, strict=True))
        }
        return html_table(parts | {"domain": self.domain})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the levels, in order."""
        return tuple(level.name or f"level {i + 1}" for i, level in enumerate(self.levels))

    @property
    def dimension(self) -> int | None:
        """The number of variables; None if nothing determines it."""
        known = (part.dimension for part in (*self._objectives, self.domain))
        return next((n for n in known if n is not None), None)

    @property
    def _objectives(self) -> tuple[Function | Penalty, ...]:
        return tuple(level.minimised for level in self.levels)

    @property
    def variables(self) -> tuple[Any, ...] | None:
        """The names of the variables, if pandas tables or a model from a file give any."""
        named = [(name, h.names) for name, h in zip(self.names, self._objectives, strict=True)]
        return tables.common("Levels", *named, ("the domain", self.domain.names))

    @property
    def is_plain(self) -> bool:
        """Are there just two levels without slack, as in a `Problem`?"""
        return len(self.levels) == 2 and self.levels[0].rule.is_none

    def values(self, x: Array) -> list[tuple[float, float]]:
        """Return the value of each level at x, with a bound on the rounding error of its terms."""
        return [value_with_error(level.objective, x) for level in self.levels]

    def violations(self, x: Array) -> list[Violation]:
        """Return the constraints that x violates."""
        return self.problem().violations(x)

    def pairs(self) -> tuple[Problem, ...]:
        """Pair the first level with each later one in a `Problem`; maximised levels are negated."""
        return tuple(map(self._pair, self._objectives[1:]))

    def _pair(self, upper: Function | Penalty) -> Problem:
        lower = self._objectives[0]
        return Problem(upper=upper, lower=lower, domain=self.domain, radius=self.radius)

    def problem(self) -> Problem:
        """Return the first two levels as a `Problem` in which both are minimised."""
        return self._pair(self._objectives[1])

    def save(self, path: str | Path) -> None:
        """Save to a .npz file with all data, for ``tiebreak.load``; see `Problem.save`.

        Args:
            path: the .npz file, written whole or not at all.
        """
        now = self.current()
        save("Levels.save", path, "Levels", lambda writer: writer.model("", now, now.variables))


class ConicLevels(ABC):
    """Levels compiled to one conic program by another modelling language; see `from_cvxpy`.

    Attributes:
        names: the names of the levels, in order.
        rules: the slacks of the levels; the last level has none.
        signs: 1 for a level that is minimised, -1 for one that is maximised.
        model: the user's model, with methods ``values(x)`` and ``violations(x)``.
        promises: the arguments that the bounds rely on, such as radius=1.0.
        before: the value of the first level at x0, for a slack that is a share; nan if unknown.
        assumed: the unverified assumptions that the bounds rest on, as sentences.
    """

    names: tuple[str, ...]
    rules: tuple[Slack, ...]
    signs: tuple[int, ...]
    model: Any
    promises: tuple[str, ...] = ()
    before: float = math.nan
    assumed: tuple[str, ...] = ()

    @abstractmethod
    def program(self) -> Any:
        """Return the `ConicProgram` for the current values of the parameters."""

    def assign(self, z: Any) -> Any:
        """Return x, and assign its values to the user's variables, if the model has any."""
        return z[self.program().variables]


def value_with_error(h: Function | Penalty, x: Array) -> tuple[float, float]:
    """Return the value at x, and a bound on the rounding error of the sum of its terms."""
    smooth, penalty = split(h)
    at = x if smooth.prototype is None else arrays.like(x, smooth.prototype)
    value, n, length = float(h.value(at)), int(x.shape[0]), arrays.norm(at)
    error, _ = smooth.rounding_errors(at, smooth.extent(at), abs(value), 0.0)
    moved = abs(value) + length * penalty.terms.steepness(n, length)
    return value, error + arrays.rounding_unit(arrays.epsilon(at), n) * moved
