"""Which methods arrive in a race, and at what cost, as tables, profiles, rates and a page.

Everything is computed from the rows of the race; benchmarks/race/recompute.py checks it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import NamedTuple

import numpy as np

from tiebreak.display.views import Card, Curve, Group, Panel, Table, View
from tiebreak.driver.registry import known_methods
from tiebreak.experiments.race import Record, arrival

COSTS = ("passes", "gradients", "seconds")
TARGETS = tuple((kind, eps) for kind in ("weak", "absolute") for eps in (1e-2, 1e-3, 1e-4, 1e-6))
OURS = ("agm-bio", "p-agm-bio")  # the paper's method, without and with penalties
NEVER = "–"


class Course(NamedTuple):
    """A row of instances.csv: the scales, the optima and the budget for an instance's rows."""

    instance: str
    variables: int
    upper: float  # upper and lower: the scales of the errors
    lower: float
    f: float  # f*
    g: float  # g*
    order: float  # order of growth of g, if stated
    counts: int  # 0 if only false claims are counted
    passes: int  # the budget of passes
    source: str  # where f* and g* come from

    def arrival(self, rows: Iterable[Record], target: tuple[str, float]) -> Record | None:
        """Return the row at which a run arrives, for a criterion and an accuracy."""
        scales = (self.upper, self.lower)
        return arrival(rows, self.f, scales, target[1], is_weak=target[0] == "weak")


class Declined(NamedTuple):
    """A row of refused.csv: why a method did not run, or its claim where only claims count."""

    instance: str
    method: str
    why: str


def is_official(label: str) -> bool:
    """Does the label stand for the theorem's own parameters and point?"""
    return ":" not in label and "," not in label


@dataclass(frozen=True)
class Standings:
    """The rows of a race, and all numbers that follow from them."""

    rows: Sequence[Record]
    courses: Sequence[Course]
    refused: Sequence[Declined]
    rules: Sequence[tuple[str, str]] = field(default=())

    @cached_property
    def runs(self) -> dict[tuple[str, str], list[Record]]:
        """The rows by instance and method."""
        found: dict[tuple[str, str], list[Record]] = {}
        for row in self.rows:
            found.setdefault((row.instance, row.method), []).append(row)
        return found

    @cached_property
    def raced(self) -> list[Course]:
        """The instances on which a method can arrive."""
        return [course for course in self.courses if course.counts]

    @cached_property
    def methods(self) -> list[str]:
        """All labels, in the order of their first rows."""
        return list(dict.fromkeys(row.method for row in self.rows))

    @cached_property
    def officials(self) -> list[str]:
        """The labels that stand for the theorem's own parameters and point."""
        return list(filter(is_official, self.methods))

    @cached_property
    def arrivals(self) -> dict[tuple[str, float], dict[str, dict[str, Record]]]:
        """The row at which a method arrived, by criterion and accuracy, method and instance."""
        return {
            target: {
                method: {
                    course.instance: row
                    for course in self.courses
                    if (row := course.arrival(self.runs.get((course.instance, method), ()), target))
                }
                for method in self.methods
            }
            for target in TARGETS
        }

    def ratios(self, target: tuple[str, float], method: str, what: str) -> list[float]:
        """Return a method's costs relative to the best, on instances where it arrives."""
        met, found = self.arrivals[target], []
        for at, row in met[method].items():
            costs = (getattr(met[m][at], what) for m in self.officials if at in met[m])
            # The floor of 1e-9 avoids division by 0 if a method meets the target at the start.
            best = max(min(costs, default=math.inf), 1e-9)
            found.append(getattr(row, what) / best)
        return found

    # -- tables -------------------------------------------------------------------------------

    def overview(self, what: str) -> Table:
        """Return how often each method arrives, and its median cost relative to the best."""
        rows = []
        for method in self.methods:
            cells = []
            for target in TARGETS:
                found = self.ratios(target, method, what)
                # Ratios are 0 if no official row arrives.
                finite = [ratio for ratio in found if ratio > 0.0]
                typical = f" ({median(finite):.3g})" if finite else ""
                cells.append(f"{len(found)}{typical}")
            rows.append([method, *cells])
        words = (
            f"On how many of {len(self.raced)} instances a method arrives (median {what} there, "
        )
        return Table(f"{words}as a multiple of the best)", ["method", *map(_name, TARGETS)], rows)

    def details(self, target: tuple[str, float]) -> Table:
        """Return the passes of each method on each instance."""
        found = self.arrivals[target]
        names = [course.instance for course in self.raced]
        rows = []
        for method in self.methods:
            cells = [
                f"{found[method][at].passes:,}"
                if at in found[method]
                else (NEVER if (at, method) in self.runs else "")
                for at in names
            ]
            rows.append([method, *cells])
        words = f"Passes to {_name(target)} ({NEVER}: never; empty: refused)"
        return Table(words, ["method", *names], rows)

    def rates(self) -> Table:
        """Return published exponents and the median exponents of the runs' last decade."""
        rows, known = [], known_methods()
        for method in self.methods:
            published: dict[tuple[str, str], list[str]] = {}
            for rate in known[method].rates if method in known else ():
                said = f"{rate.exponent:.3g}" + (f" ({rate.assuming})" if rate.assuming else "")
                published.setdefault((rate.error, rate.at), []).append(said)
            for (error, at), exponents in published.items():
                label = f"{method}: {at}" if at else method
                here = [course for course in self.raced if (course.instance, label) in self.runs]
                found = [self.exponent(course, label, error) for course in here]
                finite = [exponent for exponent in found if not math.isnan(exponent)]
                shown = f"{median(finite):.3g}" if finite else NEVER
                rows.append([method, error, at, "; ".join(exponents), shown, str(len(finite))])
        words = (
            "Published rates and the exponents of the last decade of steps, the median over all "
            "instances on which the method ran (inf: the error is zero up to rounding)"
        )
        return Table(words, ["method", "error", "at", "published", "measured", "instances"], rows)

    def exponent(self, course: Course, label: str, error: str) -> float:
        """Return p if the largest error in (k/2, k] decreases like k^-p over the last decade.

        The result is nan if no error exceeds rounding before the last decade or if a point is
        outside the domain, where errors are infinite; it is inf if no error exceeds rounding at the
        end.
        """
        rows = self.runs[course.instance, label]
        last = rows[-1].iteration
        floor = 1e-14 * (course.lower if error == "g" else course.upper)  # the level of rounding

        def largest(k: float) -> float:
            near = [row for row in rows if k / 2 < row.iteration <= k]
            values = {
                "f above": [row.upper - course.f for row in near],
                "|f|": [row.upper_error for row in near],
                "g": [row.lower_error for row in near],
            }[error]
            return max(values, default=math.nan)

        before, after = largest(last / 10), largest(last)
        if not (floor < before < math.inf and math.isfinite(after)):
            return math.nan
        return math.log10(before / after) if after > floor else math.inf

    # -- sentences ----------------------------------------------------------------------------

    def sentences(self) -> list[str]:
        """Return sentences about the results, and about where AGM-BiO is first and last."""
        said = [
            f"{len(self.officials)} methods on {len(self.courses)} instances, "
            f"{self.courses[0].passes:,} passes each."
        ]
        for target in TARGETS:
            counts = {m: len(self.arrivals[target][m]) for m in self.officials}
            order = sorted(self.officials, key=lambda m: -counts[m])[:3]
            leaders = ", ".join(f"{m} on {counts[m]}" for m in order)
            said.append(f"{_name(target)}: {leaders} arrive most often; {self.place(target)}.")
        uncounted = {course.instance for course in self.courses if not course.counts}
        claims = [r for r in self.refused if r.instance in uncounted]
        if claims:
            wrong = sum("FALSE" in claim.why for claim in claims)
            said.append(f"{claims[0].instance}: {len(claims)} methods, {wrong} false claims.")
        return said

    def place(self, target: tuple[str, float]) -> str:
        """Say where AGM-BiO needs the fewest passes of all arriving methods, and where the most."""
        first, last, arrived = [], [], 0
        for course in self.raced:
            at, met = course.instance, self.arrivals[target]
            costs = {m: met[m][at].passes for m in self.officials if at in met[m]}
            mine = [costs[m] for m in OURS if m in costs]
            if mine:
                arrived += 1
                first += [at] * (mine[0] == min(costs.values()))
                last += [at] * (mine[0] == max(costs.values()) and len(costs) > 1)
        listed = [", ".join(names) or "none" for names in (first, last)]
        return f"AGM-BiO arrives on {arrived}, is first on {listed[0]} and last on {listed[1]}"

    # -- profiles and the page ----------------------------------------------------------------

    def profiles(self) -> tuple[list[Group], list[Panel]]:
        """Return performance (Dolan, Moré 2002) and data profiles (Moré, Wild 2009), in passes.

        Both profiles have the same horizontal axis, from 1 to the budget.
        """
        last = max(course.passes for course in self.courses)
        x = 2.0 ** (np.arange(4 * math.ceil(math.log2(last)) + 1) / 4.0)
        panels: list[Panel] = []
        groups: list[Group] = []
        for kind in ("Performance", "Data"):
            for target in TARGETS:
                title, key = f"{kind} profile, {_name(target)}", f"p{len(panels)}"
                column = f"{kind.lower()} {_name(target)}"
                panels.append(Panel(key, title, [Curve(column, "")]))
        for method in self.officials:
            columns = {"x": x}
            for target in TARGETS:
                ratios = np.array(self.ratios(target, method, "passes"))
                passes = np.array([row.passes for row in self.arrivals[target][method].values()])
                for kind, costs in (("performance", ratios), ("data", passes)):
                    counted = (costs[:, None] <= x).sum(axis=0) if costs.size else 0.0 * x
                    columns[f"{kind} {_name(target)}"] = counted / len(self.raced)
            groups.append(Group(method, columns))
        return groups, panels

    def view(self) -> View:
        """The page."""
        groups, panels = self.profiles()
        said = self.sentences()
        tables = [
            *map(self.overview, COSTS),
            *map(self.details, TARGETS),
            self.rates(),
            Table("Rules", ["rule", "what it says"], self.rules),
            Table("Refusals, and claims where only claims count", ["method", "instance", "why"], [
                [r.method, r.instance, r.why] for r in self.refused
            ]),
        ]  # fmt: skip
        return View(
            kind="race",
            status="raced",
            tone="good",
            heading="The field side by side",
            sentence=said[0],
            assumed=said[1:],
            details="\n".join(said),
            cards=[
                Card("methods", str(len(groups)), "with the theorem's parameters"),
                Card("instances", str(len(self.courses)), "the same start for all"),
                Card("rows", f"{len(self.rows):,}", "in rows.csv"),
            ],
            tables=tables,
            panels=panels,
            groups=groups,
            axes=[("x", "multiple of the best (performance), passes (data)")],
            # Show one accuracy of each criterion: a table with all accuracies is too wide to read.
            readout=[
                ("x", "at"),
                *((p.curves[0].column, p.title) for p in panels if p.title.endswith("1e-2")),
            ],
        )


def _name(target: tuple[str, float]) -> str:
    return f"{target[0]} {target[1]:.0e}".replace("e-0", "e-")
