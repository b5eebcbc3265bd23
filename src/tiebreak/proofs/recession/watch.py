"""Watches a run for a direction along which a level decreases forever, and reports which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiebreak.functions import summands
from tiebreak.linalg import Array, Host, arrays, in_files
from tiebreak.linalg.host import host, norm
from tiebreak.problem import Problem
from tiebreak.proofs.recession.direction import level_of, proved_direction
from tiebreak.proofs.recession.level import RecessionLevel
from tiebreak.proofs.recession.programs import candidates, has_minimum_near, is_long

FIRST_PROGRAM, STEPS_PER_SIDE = 32, 4  # steps before a linear program, plus steps per row or column
# number of doublings of the path to x, and the largest allowed ratio of g to its previous value
DOUBLINGS, FALLING = 4, 0.75

LOWER = "g has no minimiser: it decreases"
UPPER = "f has no minimum over the minimisers of g: it decreases"
DOUBT = "whether {} has a minimiser is not determined: it still decreases far beyond x,"


@in_files("NoMinimum")
class NoMinimum(NamedTuple):
    """A level that was found to decrease forever along ``direction``, a vector of norm 1."""

    level: str  # "upper" or "lower"
    direction: Array
    is_proved: bool = True  # False: only observed, because g is given by callables
    dimension: int | None = None

    def sentence(self, names: Sequence[Any] | None) -> str:
        """Return the message, with the names of the variables if they are known."""
        letter, what = ("g", LOWER) if self.level == "lower" else ("f", UPPER)
        what = what if self.is_proved else DOUBT.format(letter)
        return f"{what} along the direction {largest_entries(self.direction, names)}"

    def lines(self) -> list[tuple[str, str]]:
        """Return no lines, because the message says everything."""
        return []


def largest_entries(direction: Array, names: Sequence[Any] | None, most: int = 3) -> str:
    """Describe a direction of norm 1 by its largest entries, with the names of the variables."""
    d = host(direction)
    largest = np.argsort(-np.abs(d), kind="stable")[:most]
    called = {i: f"x[{i}]" if names is None else str(names[i]) for i in largest}
    entries = ", ".join(f"{called[i]} {d[i]:+.3g}" for i in largest if abs(d[i]) > 1e-9)
    return f"{entries}, ..." if np.count_nonzero(np.abs(d) > 1e-9) > most else entries


class RecessionWatch:
    """Watches a running method for directions along which a level decreases forever.

    Watching is cheap: at steps that are powers of two, we try the path of the run so far as a
    direction, which costs one product. When the run has cost as much as a linear program, or is
    about to end with a success, one linear program checks all directions at once.
    """

    def __init__(self, problem: Problem, x0: Array) -> None:
        self._problem, self._x0, self._next = problem, x0, 0

    @cached_property
    def _can_fall(self) -> bool:
        """May g decrease forever, given the set, the penalty and the strong convexity?"""
        g, penalty = self._problem.smooth_parts[1], self._problem.penalties[1].terms
        is_held = self._problem.is_bounded or penalty.extent(int(self._x0.shape[0]), 1.0) < math.inf
        return not (is_held or g.strong_convexity > 0.0)

    @cached_property
    def _levels(self) -> dict[str, RecessionLevel]:
        """The levels that may still turn out to decrease forever."""
        n = int(self._x0.shape[0])
        found = [level_of(self._problem, level, n) if self._can_fall else None for level in (0, 1)]
        if found[0] is None or found[0].cone.curves:
            return {}
        levels = zip(("lower", "upper"), found, strict=True)
        return {name: h for name, h in levels if h is not None and h.can_fall}

    def check(
        self,
        step: int,
        x: Array,
        gaps: tuple[float, float],
        seconds: float = math.inf,
        is_success: bool = False,
    ) -> NoMinimum | None:
        """During a run, return a level that is proved to have no minimum, or None.

        ``gaps`` are the proved gaps of both levels, or inf: quadratics that are bounded below have
        a minimum. ``seconds`` limits the time of a linear program.
        """
        if step < self._next:
            return None
        self._next = 2 * step or 1
        if not self._levels:
            return None
        for name, gap in zip(("upper", "lower"), gaps, strict=True):
            if gap < math.inf and name in self._levels and not self._levels[name].has_tails:
                del self._levels[name]
        lower = self._levels.get("lower")
        if lower is not None and lower.has_tails:
            ways = [] if arrays.norm(self._x0) == 0.0 else [x - self._x0]
            for d in map(host, [x, *ways]) if step else lower.single_variables():
                if (found := proved_direction(lower, d)) is not None:
                    return self._found("lower", found)
        side = max((level.side for level in self._levels.values()), default=0)
        is_hidden = lower is not None and lower.hidden
        is_worth = step >= FIRST_PROGRAM + STEPS_PER_SIDE * side and not is_hidden
        return self._settle(seconds, is_success) if is_worth or is_success else None

    def check_at_end(
        self, x: Array, gaps: tuple[float, float], is_success: bool, seconds: float = math.inf
    ) -> NoMinimum | None:
        """At the end, return a level without a minimum, which rules out success, or None."""
        parts = summands(self._problem.smooth_parts[1].bare)
        if is_success and self._can_fall and any(part.falls_unseen for _, part in parts):
            return self._still_falls(x)
        x = arrays.like(x, self._x0)  # an exact point of float32 data may be in float64
        for name, h in (("lower", self._problem.lower), ("upper", self._problem.upper)):
            level = self._levels.get(name) if is_success else None
            if level is not None and has_minimum_near(level, host(x), host(h.gradient(x))):
                del self._levels[name]
        found = self.check(max(self._next, 1), x, gaps, seconds, is_success)
        return found or self._settle(seconds, is_success)

    def _still_falls(self, x: Array) -> NoMinimum | None:
        """Does g, known only through its values, keep decreasing along the path that led to x?

        A decrease proves nothing, but it is evidence against a success, which claims a minimiser
        close to x.
        """
        g, d = self._problem.smooth_parts[1], x - self._x0
        length, value = arrays.norm(d), g.value(x)
        if not length > 0.0:
            return None
        for k in range(DOUBLINGS):
            before, far = value, x + 2.0**k * d
            value = g.value(far)
            # A negative value proves nothing; a value that is only a rounding error does not shrink
            # so fast.
            if not (0.0 < value <= FALLING * before and self._problem.domain.contains(far)):
                return None
        return NoMinimum("lower", d / length, is_proved=False)

    def _settle(self, seconds: float, is_success: bool = False) -> NoMinimum | None:
        """Check all directions at once with linear programs, unless these are too large.

        For a success, it is not enough that no direction is proved: no direction may be found at
        all.
        """
        if not seconds > 0.0:
            return None
        levels, self._levels = self._levels, {}
        doubt = None
        for name, level in levels.items():
            for d in () if is_long(level) else candidates(level):
                if (found := proved_direction(level, d)) is not None:
                    return self._found(name, found)
                if is_success and np.isfinite(d).all() and d.any():
                    doubt = self._found(name, d)._replace(is_proved=False)
        return doubt

    def _found(self, level: str, d: Host) -> NoMinimum:
        self._levels = {}
        return NoMinimum(level, arrays.like(d / norm(d), self._x0))
