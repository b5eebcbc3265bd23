"""What is to be seen of a result: its words, tables and curves, before anything is drawn.

The page and the notebook's output are two drawings of the same view.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from tiebreak.driver.levels_result import HEADER, LevelsResult
from tiebreak.driver.result import Result, is_void, without_trace
from tiebreak.driver.trace import Row
from tiebreak.driver.tradeoff import Tradeoff
from tiebreak.linalg import Array, to_numpy
from tiebreak.proofs.certificate import UNDERFLOW

TONES = {"certified": "good", "solved": "fair"}  # of a status; all others are "poor"
WORDS = {"solved": "solved, not proved"}  # where the status itself could mislead
NO_ROW = (0, 0, 0)
FEW = 3  # rows: no curve
MOST_ENTRIES = 20  # of x that are shown
LETTERS = {"upper": "f", "lower": "g"}

Column = np.ndarray[Any, Any]


class Card(NamedTuple):
    """A number that matters, with what it is above and what is known of it below."""

    label: str
    figure: str
    text: str


class Table(NamedTuple):
    """Cells of text; the first of a row is its name."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Curve(NamedTuple):
    """A column to draw."""

    column: str
    name: str
    is_dashed: bool = False


class Panel(NamedTuple):
    """One pair of axes: curves of every group, a band between two columns, a line to reach."""

    key: str
    title: str
    curves: Sequence[Curve]
    band: tuple[str, str] | None = None
    asked: float | None = None
    is_log: bool = False
    has_signs: bool = False  # a negative value says something: drawn by its size, as a circle
    below: str = ""  # what such a circle says
    missing: str = ""  # what a value of infinity says, drawn as a cross


class ProvedGap(NamedTuple):
    """Of one level: the proved gap at the start and at the end, and what was asked."""

    level: str
    start: float
    proved: float
    asked: float


class Group(NamedTuple):
    """Rows that belong together: of a run, or of one method of a race."""

    name: str
    columns: dict[str, Column]

    def thinned(self, most: int, by: Sequence[str]) -> Group:
        """Fewer rows, chosen by the columns that are drawn."""
        kept = kept_rows([self.columns[name] for name in by], most)
        return Group(self.name, {name: column[kept] for name, column in self.columns.items()})

    @property
    def size(self) -> int:
        """How many rows."""
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True)
class View:
    """Everything that is shown.

    Attributes:
        kind: "run", "levels", "race" or "tradeoff".
        status, tone: the word that stands out, and whether it is "good", "fair" or "poor".
        heading, sentence: what it is, and how it ended.
        assumed: what all that is called proved relies on and nobody has checked, in sentences.
        axes: what may be on the horizontal axis: column and name.
        readout: what is told of a row: column and name.
        proofs: of a run: drawn in the place of curves where there are only two or three points.
        details: the whole report as text.
        report: the numbers of ``to_dict``, without its trace.
    """

    kind: str
    status: str
    tone: str
    heading: str
    sentence: str
    details: str
    assumed: Sequence[str] = ()
    cards: Sequence[Card] = ()
    tables: Sequence[Table] = ()
    panels: Sequence[Panel] = ()
    groups: Sequence[Group] = ()
    axes: Sequence[tuple[str, str]] = ()
    readout: Sequence[tuple[str, str]] = ()
    proofs: Sequence[ProvedGap] = ()
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def has_curves(self) -> bool:
        """Are there curves worth drawing?  A direct method has one step: its proofs say more."""
        return any(group.size > (FEW if self.proofs else 1) for group in self.groups)


def view_of(shown: object) -> View:
    """The view of a Result, a LevelsResult or a Tradeoff; of a race: `experiments.compare`."""
    if isinstance(shown, Result):
        return _of_run(shown)
    if isinstance(shown, LevelsResult):
        return _of_levels(shown)
    if isinstance(shown, Tradeoff):
        return _of_tradeoff(shown)
    raise TypeError(f"nothing is known about how to show a {type(shown).__name__}")


def steps_taken(result: Result) -> str:
    """How many, in words."""
    return f"{result.nit:,} step{'' if result.nit == 1 else 's'}"


def number(value: float | None, digits: int = 9) -> str:
    """As in the reports; nothing known is a dash."""
    if value is None or math.isnan(value):
        return "–"
    return ("∞" if value > 0 else "−∞") if math.isinf(value) else f"{value:.{digits}g}"


# -- a run ----------------------------------------------------------------------------------------


def _of_run(result: Result) -> View:
    report, problem = without_trace(result), vars(result).get("problem")  # None: not saved with it
    upper, lower, ties = (line[9:] for line in str(result).splitlines()[1:4])
    end = [f"{calls:,}" for calls in (result.trace[-1] if result.trace else NO_ROW)[-3:]]
    steps = steps_taken(result)
    cards = [
        Card("upper level, f(x)", *_card(upper, "f", result.upper_value)),
        Card("lower level, g(x)", *_card(lower, "g", result.lower_value)),
        Card("ties", "?" if result.dimension is None else f"{result.dimension:,}", ties),
        Card(
            "effort",
            f"{result.time:.3g} s",
            f"{steps}; {end[0]} gradients of f, {end[1]} of g, {end[2]} passes over the data",
        ),
    ]
    return View(
        kind="run",
        status=WORDS.get(result.status, result.status),
        tone=TONES.get(result.status, "poor"),
        heading=f"{steps}, {result.time:.3g} s",
        sentence=result.message,
        details=result.details(),
        assumed=result.assumed,
        cards=cards,
        tables=[_levels_table(report), _x_table(result.x, getattr(problem, "names", None))],
        panels=_run_panels(result.tolerance),
        groups=[_run_group(result)],
        axes=[
            ("iteration", "steps"),
            ("seconds", "seconds"),
            ("gradients", "gradients of f and g"),
            ("passes", "passes over the data"),
        ],
        readout=[
            ("iteration", "step"),
            ("seconds", "seconds"),
            ("upper_value", "f(x)"),
            ("upper_gap", "proved: f(x) − f* ≤"),
            ("lower_value", "g(x)"),
            ("lower_gap", "proved: g(x) − g* ≤"),
            ("gradients", "gradients"),
            ("passes", "data passes"),
        ],
        proofs=_proofs(result),
        report=report,
    )


def _card(line: str, letter: str, value: float) -> tuple[str, str]:
    """The value, and what is said of it."""
    said = line.removeprefix(f"{letter}(x) = {value:.9g}").removeprefix(",").strip()
    return number(value), said.replace("<=", "≤").replace(" - ", " − ")


def _levels_table(report: dict[str, Any]) -> Table:
    """Both levels by the numbers of ``to_dict``."""
    rows = []
    for level, letter in LETTERS.items():
        found = report[level]
        low, high = (number(end) if end is not None else "unknown" for end in found["optimum"])
        gap = "not proved" if found["gap"] is None else number(found["gap"], 3)
        error = found.get("error")
        rows.append([
            f"{level}, {letter}",
            number(found["value"]),
            gap,
            number(error, 3) if error is not None else "",
            number(asked, 3) if (asked := found["tolerance"] or 0.0) > UNDERFLOW else "",
            low,
            high,
        ])  # fmt: skip
    header = [
        "level", "value at x", "proved gap", "proved |error|", "asked", "optimum ≥", "optimum ≤",
    ]  # fmt: skip
    return Table("Both levels", header, rows)


def _x_table(x: Array, names: Sequence[Any] | None) -> Table:
    """All entries of x, or the largest of many, with their names where they have some."""
    values = to_numpy(x)
    caption, places = "The point x", list(range(len(values)))
    if len(values) > MOST_ENTRIES:
        caption = f"The {MOST_ENTRIES} largest of the {len(values):,} entries of x"
        places = np.argsort(-np.abs(values), kind="stable")[:MOST_ENTRIES].tolist()
    rows = [
        [f"x[{i}]" if names is None else str(names[i]), number(float(values[i]))] for i in places
    ]
    return Table(caption, ["variable", "value"], rows)


def _run_panels(tolerance: tuple[float, float]) -> list[Panel]:
    panels = []
    for level, letter in LETTERS.items():
        curves = [
            Curve(f"{level}_value", f"{letter}(x)"),
            Curve(f"{level}_bound", f"proved: {letter}* is at least this", is_dashed=True),
        ]
        title = f"{level.capitalize()} level: {letter}(x) and its proved band"
        panels.append(Panel(f"{level}-value", title, curves, (f"{level}_bound", f"{level}_value")))
    for (level, letter), asked in zip(LETTERS.items(), tolerance, strict=True):
        panels.append(
            Panel(
                f"{level}-gap",
                f"{level.capitalize()} level: proved gap",
                [Curve(f"{level}_gap", f"{letter}(x) − {letter}* is at most this")],
                asked=asked if UNDERFLOW < asked < math.inf else None,  # rtol=0 asks for nothing
                is_log=True,
                has_signs=True,
                below=f"{letter}(x) < {letter}* is proved, by this much",
                missing=f"nothing is proved about {letter}*",
            )
        )
    return panels


def _proofs(result: Result) -> list[ProvedGap]:
    first = result.trace[0] if result.trace else None
    starts = (math.nan, math.nan) if first is None else (first.upper_gap, first.lower_gap)
    ends = zip(starts, (result.upper_gap, result.lower_gap), result.tolerance, strict=True)
    return [
        ProvedGap(f"{level} level, {letter}", *three)
        for (level, letter), three in zip(LETTERS.items(), ends, strict=True)
    ]


def _run_group(result: Result) -> Group:
    """The trace by columns, with the best bound so far."""
    rows, width = result.trace, len(Row._fields)
    flat = np.fromiter(chain.from_iterable(rows), float, len(rows) * width)  # there may be millions
    columns = dict(zip(Row._fields, flat.reshape(-1, width).T.copy(), strict=True))
    if is_void(result):
        columns["upper_gap"][:] = columns["lower_gap"][:] = math.inf
    for level in LETTERS:
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that left the floats
            bound = columns[f"{level}_value"] - columns[f"{level}_gap"]
        columns[f"{level}_bound"] = np.fmax.accumulate(np.where(np.isnan(bound), -np.inf, bound))
    columns["gradients"] = columns["upper_gradients"] + columns["lower_gradients"]
    return Group("", columns)


# -- levels ---------------------------------------------------------------------------------------


def _of_levels(result: LevelsResult) -> View:
    cells = [(*HEADER[:-1], "bounds"), *(level.row() for level in result.levels.values())]
    used = [column for column in zip(*cells, strict=True) if any(column[1:])]
    header, *rows = zip(*used, strict=True) if used else [HEADER]
    table = Table("Levels, the most important first", header, rows)
    count = f"{len(result.levels)} level{'' if len(result.levels) == 1 else 's'}"
    nothing = View("levels", status="", tone="", heading="", sentence="", details="")
    run = nothing if result.result is None else _of_run(result.result)
    return replace(
        run,
        kind="levels",
        status=WORDS.get(result.status, result.status),
        tone=TONES.get(result.status, "poor"),
        heading=f"{count}, {result.time:.3g} s",
        sentence=result.message,
        details=f"{result}\n\n{run.details}".rstrip(),
        assumed=[*dict.fromkeys([*result.assumed, *run.assumed])],
        tables=[table, _x_table(result.x, None) if result.result is None else run.tables[1]],
        report=result.to_dict(),
    )


# -- a trade-off ----------------------------------------------------------------------------------


def _of_tradeoff(curve: Tradeoff) -> View:
    first = curve.points[0]
    columns = {
        "slack": np.array([p.slack for p in curve.points]),
        "value": np.array([p.value for p in curve.points]),
        "low": np.array([p.bounds[0] for p in curve.points]),
        "high": np.array([p.bounds[1] for p in curve.points]),
    }
    columns["gain"] = curve.sign * (first.value - columns["value"])
    rows = [
        [
            number(p.slack, 4), number(p.value), number(p.bounds[0]), number(p.bounds[1]), p.word,
            number(curve.sign * (first.value - p.value), 3), number(p.price, 4),
        ]
        for p in curve.points
    ]  # fmt: skip
    header = ["slack", "f*(slack)", "at least", "at most", "by bounds", "gain", "price"]
    return View(
        kind="tradeoff",
        status="sensitive" if curve.is_sensitive else "trade-off",
        tone="fair" if curve.is_sensitive else "good",
        heading=f"{len(curve.points)} slacks, {curve.time:.3g} s",
        sentence="What giving up a little of g buys in f",
        details=str(curve),
        assumed=curve.assumed,
        cards=[
            Card("g*", number(curve.lower[1]), "the best value of the lower level"),
            Card("f* without slack", number(first.value), first.word),
        ],
        tables=[Table("f*(slack) = min f over all x with g(x) ≤ g* + slack", header, rows)],
        panels=[
            Panel(
                "value", "Best value of f for each slack of g",
                [Curve("value", "f*(slack)")], ("low", "high"),
            )
        ],
        groups=[Group("", columns)],
        axes=[("slack", "slack: what g may give up")],
        readout=[
            ("slack", "slack"), ("value", "f*(slack)"), ("low", "at least"), ("high", "at most"),
            ("gain", "gain"),
        ],
        report=curve.to_dict(),
    )  # fmt: skip


def kept_rows(columns: Sequence[Column], most: int) -> Column:
    """The indices of about ``most`` rows or fewer, in order; all where there are no more.

    The first, the last, some at even and some at geometric distances (an axis may be logarithmic),
    and in every stretch those where a column is smallest and largest, infinite values included.
    """
    count = len(columns[0]) if columns else 0
    if count <= most:
        return np.arange(count)
    few = max(most // 4, 2)
    chosen = [np.linspace(0, count - 1, few), np.geomspace(1, count, few) - 1.0]
    stretches = max((most - 2 * few) // (2 * len(columns)), 1)
    edges = np.unique(np.linspace(0, count, stretches + 1).astype(int))
    for column in columns:
        # Not a number: neither smallest nor largest.
        low = np.where(np.isnan(column), np.inf, column)
        high = np.where(np.isnan(column), -np.inf, column)
        for start, end in pairwise(edges):
            chosen.append(np.array([start + low[start:end].argmin()]))
            chosen.append(np.array([start + high[start:end].argmax()]))
    return np.unique(np.concatenate(chosen).round().astype(int))
