"""The figures of a race, drawn from its rows alone.

A method has the same colour, line and marker in every figure, unless two methods of a figure would
look alike; lines and markers distinguish the methods for readers who do not see colours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiebreak.display.plotting import literal, new_figure, saved
from tiebreak.experiments.claims import CUTS
from tiebreak.experiments.race import Record
from tiebreak.experiments.scenes import (
    PULLS,
    RATES,
    Axis,
    Column,
    Facts,
    Scene,
    UnknownHere,
    measured_slopes,
    scenes_of,
)
from tiebreak.linalg import TOL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = np.ndarray[Any, Any]

UNITS: dict[Axis, str] = {
    "iteration": "iteration $k$",
    "gradients": "gradients of $f$ and $g$",
    "seconds": "time [s]",
}
ERRORS: dict[Column, str] = {
    "lower_error": "infeasibility $g(x_k) - g^*$",
    "upper_error": "suboptimality $|f(x_k) - f^*|$",
}
STEEPEST = -4.5  # steeper slopes (-inf for an error of zero) are drawn at this edge
FACES = ("black", "0.75", "white")  # fill colours of the measured rates: full, weak, no pull
BOTH: tuple[Column, Column] = ("lower_error", "upper_error")


class LineStyle(NamedTuple):
    """The style in which a method is drawn."""

    color: str
    line: Any
    marker: str
    width: float = 1.4


STYLES = {
    "a-irg": LineStyle("#e69f00", "--", "o"),
    "cg-bio": LineStyle("#56b4e9", "-.", "s"),
    "cg-bio, 2/(k+2)": LineStyle("#56b4e9", ":", "d"),
    "bi-sg": LineStyle("#009e73", (0, (6, 1.5)), "^"),
    "sea": LineStyle("#cc79a7", (0, (1, 1)), "v"),
    "r-apm": LineStyle("#0072b2", "-", "D"),
    "pb-apg": LineStyle("#d55e00", (0, (4, 1, 1, 1, 1, 1)), "P"),
    "bisec-bio": LineStyle("#7f7f7f", "-", "X"),
    "bisec-bio (last iterate)": LineStyle("#7f7f7f", ":", "x", 1.0),
    "agm-bio": LineStyle("black", "-", "*", 2.2),
    "adaptive": LineStyle("#b3372f", (0, (5, 1)), "o", 2.2),
    "p-agm-bio": LineStyle("black", "-", "*", 2.2),  # AGM-BiO with penalties
    CUTS[0]: LineStyle("black", "-", "*", 2.2),
    CUTS[1]: LineStyle("#0072b2", "--", "o"),
    CUTS[2]: LineStyle("#d55e00", "-.", "s"),
}
LINES = (("-", "p"), ("--", "h"), ("-.", "<"), (":", ">"), ((0, (3, 1)), "d"))
OTHERS = [LineStyle(f"C{i}", *line) for line in LINES for i in range(4, 10)]


def style_of(method: str) -> LineStyle:
    """Return the style of a method; the style of an unknown method depends only on its name."""
    return STYLES.get(method.lower(), OTHERS[sum(map(ord, method)) % len(OTHERS)])


def styles_of(methods: Iterable[str]) -> dict[str, LineStyle]:
    """Return the styles of the methods of a figure, which differ while there are free ones."""
    found: dict[str, LineStyle] = {}
    for method in dict.fromkeys(methods):
        taken, style = list(found.values()), style_of(method)
        if method.lower() not in STYLES or style in taken:
            uses = Counter(other.color for other in taken)
            free = (other for other in (style, *OTHERS) if other not in taken)
            style = min(free, key=lambda other: uses[other.color], default=style)
        found[method] = style
    return found


# -- the figures ----------------------------------------------------------------------------------


def error_curves(
    rows: Sequence[Record],
    experiment: str,
    names: Sequence[str],
    axes: Sequence[Axis],
    title: str,
    path: str | Path | None = None,
) -> Any:
    """Draw infeasibility on the left and suboptimality on the right, one row per instance and axis.

    If an instance has several random starts, their median is drawn, with a band.
    """
    scenes = scenes_of(rows, experiment, {})
    places = [(scenes[name], axis) for name in names if name in scenes for axis in axes]
    styles = styles_of(method for scene, _ in places for run in scene.runs for method in run)
    figure = new_figure(10.0, 1.1 + 3.1 * max(len(places), 1))
    grid = figure.subplots(max(len(places), 1), 2, squeeze=False)
    methods: dict[str, Any] = {}
    for (scene, axis), panels in zip(places, grid, strict=False):
        for ax, column in zip(panels, BOTH, strict=True):
            methods |= _draw(ax, scene, column, axis, styles)
            if len(names) > 1:
                ax.set_title(literal(scene.name.removeprefix("ablation: ")), fontsize=10)
    if methods:
        figure.legend(
            methods.values(), map(literal, methods),
            loc="outside lower center", ncols=4, frameon=False, handlelength=4.0,
        )  # fmt: skip
    figure.suptitle(literal(title), fontsize=11)
    return saved(figure, path)


def comparison(rows: Sequence[Record], path: str | Path | None = None) -> Any:
    """Draw both errors against gradients and time, for ``compare``."""
    names = list(dict.fromkeys(row.instance for row in rows))
    experiment = rows[0].experiment if rows else ""
    return error_curves(rows, experiment, names, ("gradients", "seconds"), ", ".join(names), path)


def rates(
    rows: Sequence[Record], facts: dict[str, Facts], title: str, path: Path | None = None
) -> Any:
    """Draw measured and published rates for each row of the paper's table 1."""
    figure = new_figure(10.0, 5.0)
    axes = figure.subplots(1, 2, sharey=True)
    scenes = scenes_of(rows, "table1", facts)
    for ax, level in zip(axes, ("upper", "lower"), strict=True):
        for place, row in enumerate(RATES):
            published = -getattr(row, level)
            ax.plot([published] * 2, [place - 0.32, place + 0.32], color="0.6", linewidth=5)
            for ending, face, shift in zip(PULLS.values(), FACES, (-0.2, 0.0, 0.2), strict=True):
                try:
                    measured = measured_slopes(scenes[row.label + ending], row)[level]
                except (KeyError, UnknownHere):
                    continue
                shown = max(measured, STEEPEST)
                marker = "<" if shown > measured else "o"
                ax.plot(
                    shown, place + shift, linestyle="", marker=marker, markersize=6.5,
                    color="black", markerfacecolor=face,
                )  # fmt: skip
        ax.set_xlim(STEEPEST - 0.2, 0.1)
        ax.set_xlabel("slope of the error over two decades (log-log)")
        ax.set_title({"upper": "$f - f^*$, from above", "lower": "$g - g^*$"}[level], fontsize=10)
        _tidy(ax)
    axes[0].set_yticks(range(len(RATES)), [row.label for row in RATES])
    axes[0].invert_yaxis()
    # Draw empty curves, for the legend.
    axes[0].plot([], [], color="0.6", linewidth=5, label="published rate")
    words = ("measured, full pull", "measured, weak pull", "measured, no pull")
    dots = [*zip("ooo", FACES, words, strict=True), ("<", "black", "steeper, or error 0")]
    for marker, face, label in dots:
        axes[0].plot([], [], marker, color="black", markerfacecolor=face, label=label)
    figure.legend(loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(title, fontsize=11)
    return saved(figure, path)


def _draw(
    ax: Axes, scene: Scene, column: Column, axis: Axis, styles: dict[str, LineStyle]
) -> dict[str, Any]:
    """Draw the curves of all methods; return their handles for the legend, by method."""
    handles: dict[str, Any] = {}
    seen = [np.zeros(0)]
    for method in dict.fromkeys(method for run in scene.runs for method in run):
        curves = [_points(run[method], column, axis) for run in scene.runs if method in run]
        curves = [curve for curve in curves if curve[0].size > 1]
        if not curves:  # a single-step method such as Exact has no curve
            continue
        at, middle, low, high = _summary(curves)
        style = styles[method]
        (handles[method],) = ax.plot(
            at, middle,
            color=style.color, linestyle=style.line, linewidth=style.width,
            marker=style.marker, markersize=9.0 if style.marker == "*" else 5.5,
            markeredgewidth=0.5,
            markeredgecolor=style.color if style.marker == "x" else "white",
            markevery=(0.02 + 0.018 * len(handles), 0.16), zorder=3 if style.width > 2.0 else 2,
        )  # fmt: skip
        if len(curves) > 1:
            ax.fill_between(at, low, high, color=style.color, alpha=0.12, linewidth=0)
        seen.append(middle)
    errors = np.concatenate(seen)
    # Errors below this share of the largest error count as rounding errors.
    shown = errors[errors > 1e-17 * np.max(errors, initial=0.0)]
    if shown.size:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(0.3 * float(shown.min()), 3.0 * float(shown.max()))
    ax.set_xlabel(UNITS[axis])
    ax.set_ylabel(ERRORS[column])
    _tidy(ax)
    return handles


def _points(rows: Sequence[Record], column: Column, axis: Axis) -> tuple[Numbers, Numbers]:
    """Return a curve for log axes, with errors of 0 (up to rounding) below the plotted range."""
    used = [row for row in rows if getattr(row, axis) > 0 and not np.isnan(getattr(row, column))]
    at = np.array([getattr(row, axis) for row in used], dtype=float)
    errors = np.array([getattr(row, column) for row in used], dtype=float)
    values = np.array([getattr(row, column.removesuffix("_error")) for row in used], dtype=float)
    # An error of 0 is placed below the plotted range.
    return at, np.where(errors > TOL.rounding * np.abs(values), errors, 1e-300)


def _summary(curves: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return a single curve as it is, or the median and 10 % and 90 % quantiles of several."""
    if len(curves) == 1:
        at, error = curves[0]
        return at, error, error, error
    grid = np.geomspace(max(at[0] for at, _ in curves), max(at[-1] for at, _ in curves), 200)
    held = np.array([e[np.searchsorted(at, grid * (1 + 1e-12), "right") - 1] for at, e in curves])
    low, middle, high = np.quantile(held, (0.1, 0.5, 0.9), axis=0)
    return grid, middle, low, high


# -- the sheet ------------------------------------------------------------------------------------


def _tidy(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)
