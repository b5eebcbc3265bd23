"""The result of ``solve`` for levels, with one row for each level."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from tiebreak.conic.chain_solution import estimate
from tiebreak.display.page import Shown
from tiebreak.display.views import View, counted, number_or_none
from tiebreak.driver.result import Outcome, Result
from tiebreak.driver.result_views import HEADER, levels_view
from tiebreak.functions import split
from tiebreak.linalg import TOL, Array, arrays, in_files
from tiebreak.linalg.archive import save
from tiebreak.linalg.checks import did_you_mean
from tiebreak.linalg.deferred import deferring
from tiebreak.proofs.gate import STATUSES

Interval = tuple[float, float]
Named = TypeVar("Named")

HOLDS = {
    "cut": "a cut at its best value + slack",
    "point": "the only point left",
    "nothing": "no condition, because the level is constant there",
}


def is_sensitive(price: float, size: float, following: float) -> bool:
    """Does a slack of 1e-7 for this level change the next one by 1 % or more?"""
    return price * TOL.solver * size > TOL.percent * abs(following)


@in_files("LevelReport")
@deferring("dimension")
@dataclass(frozen=True)
class LevelReport:
    """The results for one level.

    Attributes:
        name: the name of the level.
        best: an interval for the least value of the level over the minimisers of all levels before
            it; ``word`` says whether it is proved or estimated.
        value: the value of the level at x.
        given_up: an interval for value - least value, the loss in favour of later levels.
        slack: by how much the level may be worse than its best value.
        dimension: the dimension of the set that is left *after* this level, None if unknown.
        price: how fast the next level's best value falls as the slack grows; None without slack.
        held: how later levels were restricted to the minimisers of this one, or to points within
            its slack.
        word: whether the interval ``best`` is proved or estimated. "proved": the interval contains
            the least value, and accounts for rounding. "estimated": the interval rests on an
            unproved assumption (see ``why``).
        sign: 1 if the level is minimised, -1 if it is maximised; then best is the largest value.
        why: the reason for an estimate: "size" (a radius is assumed), "inside" (no point is known
            to be exactly feasible) or "held" (the levels before it may be off by their errors).

    Examples:
        >>> cost = tb.Level(tb.Linear([1, 2]), name="cost", slack=0.1)
        >>> plan = tb.Levels(cost, tb.SquaredNorm(center=[0, 1]), domain=tb.Simplex())
        >>> report = tb.solve(plan).levels["cost"]
        >>> round(report.value, 4), report.slack, round(report.price, 4)
        (1.1, 0.1, 1.8)
    """

    name: str
    best: Interval
    value: float
    slack: float
    dimension: int | None
    price: float | None
    held: str
    word: str
    sign: int = 1
    why: str = ""

    @property
    def given_up(self) -> Interval:
        """Bounds on the loss of the level in favour of later levels."""
        losses = sorted(self.sign * (self.value - end) for end in self.best)
        return max(0.0, losses[0]), max(0.0, losses[1])  # never -0.0

    def row(self) -> tuple[str, ...]:
        """Return this level's row of the report."""
        middle, width = sum(self.best) / 2.0, (self.best[1] - self.best[0]) / 2.0
        (least, most), best = self.given_up, estimate(middle, width)
        lost = f"{least:.3g}" if self.slack else f"about {(least + most) / 2.0:.1g}"
        if self.word == "proved" and math.isfinite(width):
            best = f"{0.0 if abs(middle) <= width else middle:.9g} ± {width:.1g}"
            lost = lost if self.slack else f"<= {most:.1g}"
        return (
            self.name,
            best,
            f"{0.0 if abs(self.value) <= TOL.percent * width else self.value:.9g}",
            f"{lost if math.isfinite(width) else 'unknown'} ({self.slack:.3g})",
            "?" if self.dimension is None else str(self.dimension),
            "" if self.price is None else f"{self.price:.3g}",
            self.word if math.isfinite(width) else "",
        )


REASONS = {  # why an interval is estimated rather than proved
    "size": "the bounds assume a limit on the size of the solution, including auxiliary variables; "
    "a bounded domain or radius=... limits x",
    "coefficients": "the bounds assume a limit on the size of the coefficients",  # for estimators
    "inside": "no point is known to be exactly feasible",
    "held": "the bounds allow for errors in earlier levels",
}
# placeholder for the time while lines are wrapped, so that breaks do not depend on it
CLOCK = "000000.s:"


def lower_interval(result: Result) -> tuple[Interval, str, str]:
    """Return an interval for g* of two levels without slack, whether it is proved, and if not, why.

    The interval of the certificate accounts for rounding errors. If the upper end of the interval
    is looser than requested, as for constraints that no computed point satisfies exactly, we
    estimate it by g(x), plus a bound on its rounding errors, plus a bound on the rise of g between
    x and Z.
    """
    (low, high), value = result.lower_optimum, result.lower_value
    if high <= value + result.tolerance[1] and math.isfinite(low):
        return (low, high), "proved", ""
    if math.isfinite(gap := result.lower_gap) and math.isfinite(low):
        value = max(value, low + gap)
    if off := result.certificate.distance:
        smooth, penalty = split(result.problem.lower)
        rise = penalty.terms.steepness(len(result.x), arrays.norm(result.x))
        value += off * (arrays.norm(smooth.gradient(result.x)) + rise)
    return (low, value), "estimated", "inside"


class ByName(dict[str, Named]):
    """A dictionary whose KeyError suggests the name that was probably meant."""

    def __missing__(self, name: str) -> Named:
        raise KeyError(f"there is no {name!r}{did_you_mean(name, self)}")


@deferring("multipliers")
@dataclass(repr=False, eq=False)
class LevelsResult(Outcome, Shown):
    """The answer of ``solve`` for `Levels`; printing it shows one row per level.

    Attributes:
        x: the point; nan if no point meets the constraints.
        levels: a `LevelReport` for each level that was solved, by name, in the order of priority.
        status, success, proved, message: how the call ended, in the words of `Result`.
        time: seconds.
        method: how the levels were solved.
        result: the `Result` of two levels without slack that were solved as a `Problem`, or None.
        direction: a direction along which a level has no minimum, or None.
        assumed: the unchecked assumptions of the bounds, in sentences.
        note: how x was chosen if the levels have several solutions.

        variables: the names of the variables, or None.
        rows: the names of the domain's rows (see `Polyhedron`).
        multipliers: one line for each level, with a column for each row of the domain; nan if
            unknown; see `duals`.

    Examples:
        >>> cost = tb.Level(tb.Linear([1, 2]), name="cost", slack=0.1)
        >>> change = tb.Level(tb.SquaredNorm(center=[0, 1]), name="change")
        >>> result = tb.solve(tb.Levels(cost, change, domain=tb.Simplex()))
        >>> result.success, round(result.levels["change"].value, 4)
        (True, 0.81)
    """

    x: Array
    levels: dict[str, LevelReport]
    status: str
    reason: str
    time: float
    method: str
    skipped: tuple[str, ...] = ()
    result: Result | None = field(default=None, repr=False)
    direction: Array | None = field(default=None, repr=False)
    assumed: tuple[str, ...] = ()
    note: str = ""
    variables: tuple[str, ...] | None = None
    rows: tuple[str, ...] = ()
    multipliers: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.levels = ByName(self.levels)

    @property
    def message(self) -> str:
        """A sentence that says how the call ended."""
        said = STATUSES[self.status]
        return self.reason or (said.replace("both", "all") if len(self.levels) > 2 else said)

    def __repr__(self) -> str:
        values = [f"{name} = {level.value:.6g}" for name, level in self.levels.items()]
        return f"<tiebreak.LevelsResult: {', '.join([self.status, *values])}>"

    def __str__(self) -> str:
        count = counted(len(self.levels), "level")
        lines = _wrapped(f"tiebreak: {self.word} after {count}, ", f"{CLOCK} {self.message}")
        lines[0] = lines[0].replace(CLOCK, f"{self.time:.3g} s:")
        rows = [HEADER, *(r.row() for r in self.levels.values())]
        lines += [f"  {line}" for line in _table(rows)]
        for label, text in self._notes():
            lines += _wrapped(f"  {label:<6} ", text)
        lines += _wrapped("  x      ", _largest(self.named)) if self.named else []
        return "\n".join(lines)

    @property
    def duals(self) -> dict[str, dict[str, float] | None]:
        """How fast the best value of each level changes as the right-hand side of each row grows.

        Earlier levels stay optimal, or within their slack, as in this result. The duals of a level
        are None if they are unknown, because the level has slack or because the domain has
        constraints that are not linear. If several values are possible, as at a degenerate vertex,
        the first level has one of them, and later levels have nan.
        """
        found = self.multipliers
        lines = [None] * len(self.levels) if found is None else found.tolist()
        return ByName(
            (
                name,
                None
                if line is None or all(map(math.isnan, line))
                else ByName(zip(self.rows, line, strict=True)),
            )
            for name, line in zip(self.levels, lines, strict=True)
        )

    @property
    def named(self) -> dict[str, float]:
        """The entries of x by variable name; empty if there are no names or no feasible x."""
        if self.status == "infeasible":
            return {}
        return ByName(zip(self.variables or (), arrays.to_numpy(self.x).tolist(), strict=False))

    def details(self) -> str:
        """Return the full report: the short one, duals by name, and how x was found."""
        if self.result is None:
            how = "\n".join(_wrapped("  method ", self.method))
        else:  # leave out the first lines of the `Result`, which the short report repeats
            which = [f"{letter} is {name}" for letter, name in zip("gf", self.levels, strict=False)]
            how = "\n".join([f"  {'levels':<10} {', '.join(which)}"] * bool(which))
            how += self.result.details().removeprefix(str(self.result))
        return "\n".join([str(self), *self._dual_lines(), how.strip("\n")])

    def _dual_lines(self) -> list[str]:
        """Return the largest duals of each level, by name of the row."""
        lines: list[str] = []
        for name, duals in self.duals.items() if self.rows and self.success else ():
            none = "none (the level has slack)" if self.levels[name].slack else "unknown"
            said = none if duals is None else _largest(duals)
            lines += _wrapped("  duals  ", f"of {name}: {said}")
        return lines

    def _view(self) -> View:
        return levels_view(self)

    def plot(self, path: str | None = None) -> Any:
        """Draw two levels without slack (see `Result.plot`); other chains have no steps to draw.

        Returns the matplotlib figure (needs the ``plot`` extra).
        """
        if self.result is None:
            raise ValueError(
                "plot: three or more levels, or levels with slack or sense='max', have no steps; "
                "tradeoff(problem).plot() draws what a slack buys"
            )
        return self.result.plot(path)

    def _notes(self) -> list[tuple[str, str]]:
        reports = list(self.levels.values())
        notes = [
            (
                "held",
                "; ".join(
                    f"{r.name} by {HOLDS.get(r.held, f'its {r.held}')}" for r in reports[:-1]
                ),
            )
        ]
        notes += [("proof", text) for text in self._senses(reports)]
        for before, after in pairwise(reports):
            size = max(abs(before.value), before.slack)
            if is_sensitive(before.price or 0.0, size, after.value):
                text = f"1e-7 more slack in {before.name} changes {after.name} by 1 % or more"
                notes.append(("price", f"sensitive: {text}"))
        for before, after in pairwise(reports):
            if before.dimension == 0:
                notes.append(("ties", f"a single point is left for {after.name}"))
                break
        notes.append(("ties", self.note))
        if self.skipped:
            notes.append(("rest", f"not reached: {', '.join(self.skipped)}"))
        notes += [("note", text) for text in self.assumed]
        return [note for note in notes if note[1]]

    def _senses(self, reports: list[LevelReport]) -> list[str]:
        """Say whether the bounds hold for the problem itself or for a problem with slacks."""
        if self.result is not None:  # the message of the result already says so
            return []
        cuts = [r.name for r in reports[:-1] if r.held == "cut"]
        said = []
        if cuts:
            said.append(
                f"after {_and(cuts)}: the bounds hold for slacks measured from the best values "
                "found"
            )
        for why, text in REASONS.items():
            names = [r.name for r in reports if r.word == "estimated" and r.why == why]
            if names:
                who = "" if len(names) == len(reports) else f"{_and(names)} "
                said.append(f"{who}estimated, not proved: {text}")
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON; inf and nan become None."""
        return {
            "status": self.status,
            "success": self.success,
            "proved": self.proved,
            "message": self.message,
            "time": self.time,
            "method": self.method,
            "skipped": list(self.skipped),
            "assumed": list(self.assumed),
            **({"x": self.named or None} if self.variables else {}),
            **(
                {"duals": {name: _or_none(one) for name, one in self.duals.items()}}
                if self.rows
                else {}
            ),
            "levels": {
                name: {
                    "best": [number_or_none(end) for end in level.best],
                    "value": number_or_none(level.value),
                    "given_up": [number_or_none(end) for end in level.given_up],
                    "slack": level.slack,
                    "dimension": level.dimension,
                    "price": None if level.price is None else number_or_none(level.price),
                    "held": level.held,
                    "word": level.word,
                }
                for name, level in self.levels.items()
            },
        }

    def save(self, path: str | Path) -> None:
        """Save to a .npz file for ``tiebreak.load``; every number is saved exactly (bit for bit).

        Args:
            path: the .npz file, written completely or not at all.
        """
        from tiebreak.saving import levels_content

        save("LevelsResult.save", path, "LevelsResult", lambda to: levels_content(to, self))


def _or_none(numbers: dict[str, float] | None) -> dict[str, float | None] | None:
    """Return numbers by name for JSON; inf and nan become None."""
    if numbers is None:
        return None
    return {name: number_or_none(value) for name, value in numbers.items()}


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _largest(numbers: Mapping[Any, float]) -> str:
    """Return the largest numbers by name, as many as fit on a few lines."""
    known = {name: value for name, value in numbers.items() if not math.isnan(value)}
    ordered = sorted(known.items(), key=lambda item: -abs(item[1]))
    shown = [f"{name} = {value:.6g}" for name, value in ordered[:12] if value]
    others = sum(1 for value in known.values() if value) - len(shown)
    unknown = len(numbers) - len(known)
    parts = [*shown, *[f"{others} more"] * bool(others), *[f"{unknown} unknown"] * bool(unknown)]
    return ", ".join(parts) or "all 0"


def _wrapped(start: str, text: str) -> list[str]:
    """Wrap lines for a terminal, with a hanging indent."""
    indent = " " * (len(start) if start.startswith(" ") else 2)
    return textwrap.wrap(text, 100, initial_indent=start, subsequent_indent=indent)


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Align rows in columns; drop trailing blanks and empty columns."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
