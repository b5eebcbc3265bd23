"""Compare methods on your own problem: the gradients and seconds needed for each accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tiebreak.algorithms import Method, PAGMBiO, no_projection
from tiebreak.catalog.built import Answer
from tiebreak.display.page import Shown
from tiebreak.display.views import (
    Card,
    Curve,
    Group,
    Panel,
    Table,
    View,
    counted,
    number,
    number_or_none,
)
from tiebreak.driver.input_checks import need_problem
from tiebreak.driver.registry import find_method, known_methods
from tiebreak.driver.solve import solve
from tiebreak.exact.method import Exact
from tiebreak.experiments.race import Entrant, Record, arrival, race
from tiebreak.linalg import checks
from tiebreak.problem import Problem
from tiebreak.sets import Ball, Space

POLYHEDRAL = 300  # up to this many variables, Exact is fast on every domain
PENALISED = 1000  # up to this many variables, Exact is fast on R^n with a penalty
TO_REACH = tuple(10.0**-digits for digits in range(1, 9))  # the accuracies in the tables

# The default methods: two from the paper, the library's own, and three close rivals.
USUAL = (
    *("agm-bio", "p-agm-bio", "adaptive", "primal-dual", "bregman", "r-apm", "tikhonov", "fbi-pg"),
)

COLUMNS = ("iteration", "gradients", "seconds", "upper", "lower", "upper_error", "lower_error")

Contestant = str | Method | tuple[str, Method]


@dataclass(frozen=True)
class Comparison(Shown):
    """The result of ``compare``; printing it shows the tables.

    Attributes:
        rows: one Record per method and recorded step.
        answer: f*, g* and x*, from which the errors are measured.
        source: where the answer comes from, in words.
        scales: max(|value at x*|, |value at x0|) for each level; accuracies are relative to these.
        refused: the methods that refused the problem, with their reasons.

    Examples:
        >>> problem = tb.instance("toy").problem
        >>> race = tb.compare(problem, ["agm-bio", "bi-sg"], max_iter=200)
        >>> race.methods, race.source
        (['agm-bio', 'bi-sg'], 'by Exact')
    """

    rows: Sequence[Record] = field(repr=False)
    answer: Answer
    source: str
    scales: tuple[float, float]
    refused: dict[str, str]

    @property
    def methods(self) -> list[str]:
        """The methods that took part, in starting order."""
        return list(dict.fromkeys(row.method for row in self.rows))

    def first(self, method: str, accuracy: float) -> Record | None:
        """Return a method's first row from which on both levels stay within the accuracy."""
        mine = (row for row in self.rows if row.method == method)
        return arrival(mine, self.answer.upper, self.scales, accuracy, is_weak=False)

    def last(self, method: str) -> Record:
        """Return the last row of a method."""
        return [row for row in self.rows if row.method == method][-1]

    def __str__(self) -> str:
        f, g = map(number, self.answer[:2])
        lines = [f"f* = {f}, g* = {g} ({self.source})"]
        for table in self._tables():
            lines += ["", *_aligned([table.caption, *table.header[1:]], *table.rows)]
        for method, sentence in self.refused.items():
            lines += ["", f"{method} did not take part: {sentence}"]
        return "\n".join(lines)

    def _tables(self) -> list[Table]:
        """Return tables that show where each method ended, and its cost to reach each accuracy."""
        header = ["steps", "gradients", "seconds", "|f - f*|", "g - g*", "|x - x*|"]
        ends = [self._end(method) for method in self.methods]
        arrivals = [self._arrivals("gradients", ",d"), self._arrivals("seconds", ".3g")]
        return [Table("at the end", ["method", *header], ends), *arrivals]

    def _end(self, method: str) -> list[str]:
        row = self.last(method)
        errors = (row.upper_error, row.lower_error, row.distance)
        shown = ["?" if math.isnan(e) else f"{e:.2e}" for e in errors]
        return [method, f"{row.iteration:,}", f"{row.gradients:,}", f"{row.seconds:.3g}", *shown]

    def _arrivals(self, what: str, form: str) -> Table:
        """Return each method's cost to reach every accuracy; a star marks the lowest cost."""
        rows = [[method] for method in self.methods]
        for level in TO_REACH:
            found = [self.first(method, level) for method in self.methods]
            costs = [None if row is None else getattr(row, what) for row in found]
            least = min((cost for cost in costs if cost is not None), default=math.nan)
            for row, cost in zip(rows, costs, strict=True):
                mark = "*" if cost == least else ""
                row.append("-" if cost is None else f"{cost:{form}}{mark}")
        return Table(f"{what} to reach", ["method", *(f"{level:.0e}" for level in TO_REACH)], rows)

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw both errors against gradients and seconds, saved to ``path`` if given.

        Returns the matplotlib figure (needs the ``plot`` extra).
        """
        from tiebreak.experiments.figures import comparison

        return comparison(self.rows, path)

    def _view(self) -> View:
        names = self.methods
        groups = []
        for name in names:
            rows = [row for row in self.rows if row.method == name]
            found = {c: np.array([getattr(row, c) for row in rows], dtype=float) for c in COLUMNS}
            groups.append(Group(name, found))
        panels = [Panel("lower", "Lower level: g(x) − g*", [Curve("lower_error", "")], is_log=True)]
        if not math.isnan(self.answer.upper):
            curve, title = Curve("upper_error", ""), "Upper level: |f(x) − f*|"
            panels.insert(0, Panel("upper", title, [curve], is_log=True))
        refused = Table("Did not take part", ["method", "why"], list(self.refused.items()))
        return View(
            kind="race",
            status="compared",
            tone="good",
            heading=f"{counted(len(names), 'method')} on {self.rows[0].instance}",
            sentence=(
                "All methods start at the same point, and their oracle calls are counted; a star "
                f"marks the least cost to reach and keep an accuracy; the answer is {self.source}"
            ),
            details=str(self),
            cards=[
                Card("f*", number(self.answer.upper), self.source),
                Card("g*", number(self.answer.lower), self.source),
            ],
            tables=[*self._tables(), *([refused] if refused.rows else [])],
            panels=panels,
            groups=groups,
            axes=[
                ("gradients", "gradients of f and g"),
                ("seconds", "seconds"),
                ("iteration", "steps"),
            ],
            readout=[
                ("iteration", "step"),
                ("gradients", "gradients"),
                ("seconds", "seconds"),
                ("upper_error", "|f(x) − f*|"),
                ("lower_error", "g(x) − g*"),
            ],
            report={
                "upper": number_or_none(self.answer.upper),
                "lower": number_or_none(self.answer.lower),
                "source": self.source,
            },
        )


def compare(
    problem: Problem,
    methods: Iterable[Contestant] | Literal["all"] | None = None,
    budget: float = 10.0,
    *,
    x0: Any = None,
    max_iter: int = 10_000,
    answer: Answer | None = None,
    name: str = "your problem",
) -> Comparison:
    """Race methods on a problem, with the same start, counted oracle calls and a fair clock.

    Args:
        problem: the Problem.
        methods: names, methods, or (label, method) pairs. If None, the methods that you registered
            race against seven methods of the library: AGM-BiO (P-AGM-BiO if there is a penalty),
            adaptive, primal-dual, Bregman iteration, R-APM, Tikhonov's path and FBi-PG; "all" races
            every method except exact. A method given by name uses the parameters from its theory.
        budget: seconds for each method; the clock stops while errors are measured.
        x0: the common start; the origin if None.
        max_iter: the maximum number of steps of each method, and the horizon of methods that need
            one.
        answer: f*, g* and x* if you know them; otherwise Exact computes them. If Exact cannot, g*
            is the smallest value seen, and f* stays unknown.
        name: the name of the problem, for the rows and the plot.

    Returns:
        A Comparison, which can be printed and drawn (``.plot()``), with all numbers in ``.rows``.

    Examples:
        >>> problem = tb.instance("toy").problem
        >>> race = tb.compare(problem, ["agm-bio", "r-apm"], max_iter=200)
        >>> race.first("agm-bio", 1e-2) is not None  # the step that reached 1 % on both levels
        True
    """
    need_problem("compare", problem)
    checks.positive("compare", "budget", budget)
    checks.whole("compare", "max_iter", max_iter, 1)
    if answer is not None and not isinstance(answer, Answer):
        raise TypeError(
            f"compare: answer must be an Answer(upper, lower), got {checks.what_it_is(answer)}"
        )
    problem = problem.current()
    if methods in (None, "all") and (refusal := no_projection("compare", problem)):
        raise ValueError(refusal.sentence)
    start = problem.start(x0)
    entrants, refused = _entrants(problem, methods)
    source = "given"
    if answer is None:
        answer, source = reference(problem, start)
    rows = race(
        problem, entrants, answer, x0=start, steps=max_iter, seconds=budget,
        experiment="compare", instance=name,
    )  # fmt: skip
    if math.isnan(answer.lower):
        smallest = min((row.lower for row in rows), default=math.nan)
        answer = answer._replace(lower=smallest)
        rows = [row._replace(lower_error=row.lower - smallest) for row in rows]
    values = (problem.upper.value(start), problem.lower.value(start))
    scales = [max(abs(v), abs(best)) for v, best in zip(values, answer[:2], strict=True)]
    return Comparison(rows, answer, source, (scales[0], scales[1]), refused)


def reference(problem: Problem, x0: Any = None) -> tuple[Answer, str]:
    """Return f*, g* and x* from a direct factorisation (``Exact``), and their source as text."""
    n, domain = problem.dimension or 1, type(problem.domain).__name__
    limit = math.inf if problem.is_smooth else PENALISED
    if not isinstance(problem.domain, Space | Ball):
        limit = POLYHEDRAL
    if not Exact().refusal(problem) and n > limit:
        size = f"{'' if problem.is_smooth else 'a penalty and '}{n} variables"
        why = f"Exact may take minutes on {domain} with {size}, so it was not used"
    else:
        try:
            result = solve(problem, Exact(), x0=x0)
            if result.success and result.findings is not None:
                return Answer(result.upper_value, result.lower_value, result.x), "by Exact"
            why = result.message
        except (ValueError, ImportError) as error:
            why = str(error)
    return Answer(math.nan, math.nan), f"not known: {why}; g* is the smallest value seen"


def _entrants(
    problem: Problem, methods: Iterable[Contestant] | Literal["all"] | None
) -> tuple[list[Entrant], dict[str, str]]:
    """Return the methods that take part, and the reasons why others refuse."""
    if methods is None or methods == "all":
        left_out = (Exact, PAGMBiO) if problem.is_smooth else (Exact,)
        chosen = [
            Entrant(kind.name, kind())
            for kind in known_methods().values()
            if kind not in left_out and (methods or kind.name in USUAL or _is_from_outside(kind))
        ]
    elif isinstance(methods, str | dict) or not isinstance(methods, Iterable):
        needed = 'must be "all" or a list of names or methods'
        raise TypeError(f"compare: methods {needed}, got {methods!r}")
    else:
        chosen = [_entrant(problem, method) for method in methods]
    if not chosen:
        raise ValueError("compare: methods must name at least one method, got none")
    entrants: list[Entrant] = []
    refused: dict[str, str] = {}
    for entrant in chosen:
        if refusal := entrant.method.refusal(problem):
            refused[entrant.label] = refusal.sentence
        else:
            label, taken = entrant.label, {former.label for former in entrants}
            numbered = (f"{label} ({i})" for i in range(2, len(taken) + 3))
            unused = next(name for name in (label, *numbered) if name not in taken)
            entrants.append(entrant._replace(label=unused))
    if not entrants:
        raise ValueError(f"compare: no method accepts this problem: {'; '.join(refused.values())}")
    return entrants, refused


def _is_from_outside(kind: type[Method]) -> bool:
    """Did a user register the method?"""
    return kind.__module__.partition(".")[0] != __name__.partition(".")[0]


def _entrant(problem: Problem, method: Contestant) -> Entrant:
    if isinstance(method, tuple):
        if len(method) != 2 or not isinstance(method[0], str):
            raise TypeError(f"compare: methods need pairs (label, method), got {method!r}")
        label, method = method
        return Entrant(label, find_method(method, problem, "compare"))
    found = find_method(method, problem, "compare")
    return Entrant(method if isinstance(method, str) else found.name, found)


def _aligned(*rows: Sequence[str]) -> list[str]:
    """Return lines with columns of equal width, the first left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [f"{first:<{widths[0]}}"]
            + [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        ).rstrip()
        for first, *others in rows
    ]
