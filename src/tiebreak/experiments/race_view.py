"""What is to be seen of a comparison: the curves of all methods, and who arrives first."""

from __future__ import annotations

import math

import numpy as np

from tiebreak.display.views import Card, Curve, Group, Panel, Table, View, number
from tiebreak.experiments.compare import LEVELS, Comparison, arrivals

RACE = ("iteration", "gradients", "seconds", "upper", "lower", "upper_error", "lower_error")

NEVER = "–"  # in the place of a cost


def race_view(race: Comparison) -> View:
    """For the page and for notebooks."""
    names = race.methods
    groups = []
    for name in names:
        rows = [row for row in race.rows if row.method == name]
        found = {c: np.array([getattr(row, c) for row in rows], dtype=float) for c in RACE}
        groups.append(Group(name, found))
    instance = race.rows[0].instance if race.rows else ""
    has_upper = not math.isnan(race.answer.upper)
    panels = [Panel("lower", "Lower level: g(x) − g*", [Curve("lower_error", "")], is_log=True)]
    if has_upper:
        panel = Panel("upper", "Upper level: |f(x) − f*|", [Curve("upper_error", "")], is_log=True)
        panels.insert(0, panel)
    count = f"{len(names)} method{'' if len(names) == 1 else 's'}"
    return View(
        kind="race",
        status="compared",
        tone="good",
        heading=f"{count} on {instance}",
        sentence=f"Same start, oracle calls counted alike; the answer is {race.source}",
        details=str(race),
        cards=[
            Card("f*", number(race.answer.upper), race.source),
            Card("g*", number(race.answer.lower), race.source),
        ],
        tables=[_ends(race), *_arrivals(race), *_refused(race)],
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
            "upper": number(race.answer.upper, 17),
            "lower": number(race.answer.lower, 17),
            "source": race.source,
        },
    )


def _ends(race: Comparison) -> Table:
    header = ["method", "steps", "gradients", "seconds", "|f(x) − f*|", "g(x) − g*", "|x − x*|"]
    rows = []
    for name in race.methods:
        last = race.last(name)
        errors = [number(e, 3) for e in (last.upper_error, last.lower_error, last.distance)]
        count = [f"{last.iteration:,}", f"{last.gradients:,}", f"{last.seconds:.3g}"]
        rows.append([name, *count, *errors])
    return Table("At the end", header, rows)


def _arrivals(race: Comparison) -> list[Table]:
    """What each method took until both levels stayed within an accuracy; the best is starred."""
    tables = []
    for what, form in (("gradients", ",d"), ("seconds", ".3g")):
        cells = arrivals(race, what, form, marks=(" ★", "", NEVER))
        reached = [level for level in LEVELS if any(cells[m, level] != NEVER for m in race.methods)]
        rows = [[name, *(cells[name, level] for level in reached)] for name in race.methods]
        header = ["method", *(f"{level:.0e}" for level in reached)]
        words = f"{what.capitalize()} until both levels stay within an accuracy (★ the fewest)"
        tables.append(Table(words, header, rows))
    return [table for table in tables if len(table.header) > 1]


def _refused(race: Comparison) -> list[Table]:
    rows = list(race.refused.items())
    return [Table("Did not take part", ["method", "why"], rows)] if rows else []
