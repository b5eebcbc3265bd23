"""The words, tables and curves of a result, before anything is drawn.

The HTML page, the notebook output and the plot are all made from the same view.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

TONES = {"certified": "good", "solved": "fair"}  # the tone of a status; all others are "poor"
WORDS = {"solved": "solved, not proved"}  # for a status that could mislead on its own
LETTERS = {"upper": "f", "lower": "g"}

Column = np.ndarray[Any, Any]


class Card(NamedTuple):
    """A key number, with its name above it and what is known about it below."""

    label: str
    figure: str
    text: str


class Table(NamedTuple):
    """Cells of text, where the first cell of a row is the row's name."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Curve(NamedTuple):
    """A column to draw."""

    column: str
    name: str
    is_dashed: bool = False


class Panel(NamedTuple):
    """One pair of axes with the curves of every group, a band between two columns and a target."""

    key: str
    title: str
    curves: Sequence[Curve]
    band: tuple[str, str] | None = None
    asked: float | None = None
    is_log: bool = False
    has_signs: bool = False  # do negative values have a meaning, so that circles show their size?
    below: str = ""  # what a circle for a negative value means
    missing: str = ""  # what an infinite value means, drawn as a cross


class Group(NamedTuple):
    """Rows that belong together: all rows of a run, or of one method in a race."""

    name: str
    columns: dict[str, Column]

    def thinned(self, most: int, by: Sequence[str]) -> Group:
        """Return about ``most`` rows, chosen by the columns that are drawn."""
        kept = kept_rows([self.columns[name] for name in by], most)
        return Group(self.name, {name: column[kept] for name, column in self.columns.items()})

    @property
    def size(self) -> int:
        """The total number of rows."""
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True)
class View:
    """Everything that is shown about a result.

    Attributes:
        kind: "run", "levels", "race" or "tradeoff".
        status, tone: the word shown large, and whether it is "good", "fair" or "poor".
        heading, sentence: what the result is, and how the run ended.
        assumed: what the proofs assume without checking it, in sentences.
        axes: the choices for the horizontal axis, each a column and its name.
        readout: the columns shown for a row, each with its name.
        details: the full report as text.
        report: the numbers of ``to_dict``, without the trace.
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
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def has_curves(self) -> bool:
        """Are there curves worth drawing?  A direct method records only two or three rows."""
        few = 3 if self.kind in ("run", "levels") else 1
        return any(group.size > few for group in self.groups)


def number(value: float | None, digits: int = 9) -> str:
    """Format a number as in the reports; an unknown number becomes a dash."""
    if value is None or math.isnan(value):
        return "–"
    return ("∞" if value > 0 else "−∞") if math.isinf(value) else f"{value:.{digits}g}"


def number_or_none(value: float) -> float | None:
    """Return None for inf and nan, which JSON does not have."""
    return value if math.isfinite(value) else None


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: 1 step, 2,000 steps."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def kept_rows(columns: Sequence[Column], most: int) -> Column:
    """Return the indices of about ``most`` rows, in order, or of all rows if there are fewer.

    The chosen rows are the first, the last, some at even and some at geometric distances (an axis
    may be logarithmic), and, in every stretch, the rows in which a column is smallest or largest,
    infinite values included.
    """
    count = len(columns[0]) if columns else 0
    if count <= most:
        return np.arange(count)
    few = max(most // 4, 2)
    chosen = [np.linspace(0, count - 1, few), np.geomspace(1, count, few) - 1.0]
    stretches = max((most - 2 * few) // (2 * len(columns)), 1)
    edges = np.unique(np.linspace(0, count, stretches + 1).astype(int))
    for column in columns:
        # NaN counts neither as smallest nor as largest.
        low = np.where(np.isnan(column), np.inf, column)
        high = np.where(np.isnan(column), -np.inf, column)
        for start, end in pairwise(edges):
            chosen.append(np.array([start + low[start:end].argmin()]))
            chosen.append(np.array([start + high[start:end].argmax()]))
    return np.unique(np.concatenate(chosen).round().astype(int))
