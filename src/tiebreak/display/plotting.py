"""Plots of a run and of a trade-off curve, drawn with matplotlib.

The plots are drawn from a view alone, without pyplot or global state.
"""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiebreak.display.views import LETTERS, Column, Panel, View
from tiebreak.linalg.archive import write_atomically
from tiebreak.linalg.refusals import missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_GAP = 1e-100  # gaps below this share of the largest gap are drawn as 0
DARK, BAND, GREY = "#1f3b6f", "#c3d0e8", "0.45"


def convergence(run: View, path: str | Path | None = None) -> Any:
    """Draw values with proved bounds on top and proved gaps below, with the upper level on the
    left.

    The lower edge of the band is proved: no minimiser of the lower level has a smaller f, and no
    point of the domain has a smaller g. If f(x) < f* is proved, x is slightly suboptimal for g:
    then no band is drawn, and open circles show the size of the gap. Crosses at the upper edge of
    the gap plots mark steps for which nothing is proved.

    Args:
        run: the view of what ``solve`` returned.
        path: where to save the plot (.png, .pdf, .svg); not saved if None.

    Returns:
        The matplotlib figure; a notebook shows it, ``show()`` opens it in the browser.
    """
    # Drop the largest values of a run that diverges: matplotlib's sums and differences of such
    # values would overflow.
    columns = {
        name: np.where(np.abs(column) < 1e300, column, np.nan)
        for name, column in run.groups[0].columns.items()
    }
    step, report = columns["iteration"], run.report
    is_direct = len(step) < 3  # for a direct method, a line through two points says nothing
    figure = new_figure(9.0, 2.8 if is_direct else 6.0)
    axes = figure.subplots(1 if is_direct else 2, 2, sharex=not is_direct, squeeze=False)
    for ax, (level, letter), panel in zip(axes[0], LETTERS.items(), run.panels[2:], strict=True):
        value, gap = columns[f"{level}_value"], columns[f"{level}_gap"]
        optimum = _interval(*report[level]["optimum"])
        ax.set_title(f"{level} level:  ${letter}^*$ {optimum}", fontsize=10.5)
        if is_direct:
            _draw_proof(ax, letter, abs(value[0] - value[-1]), gap[-1], panel.asked)
    for ax, panel in () if is_direct else zip(axes.flat, run.panels, strict=True):
        _draw(ax, panel, columns, step)
        # The axis is logarithmic from 1 on, with a short linear piece for step 0.
        ax.set_xscale("symlog", linthresh=1.0, linscale=0.3)
        ax.set_xlim(0.0, 1.05 * float(step.max()))
    figure.supxlabel("" if is_direct else "step", fontsize=10)
    ended = f"{report['status']} after {run.heading}"
    method = literal(textwrap.fill(report["method"], 100))
    figure.suptitle(f"{ended}\n{method}", fontsize=10.5)
    return saved(figure, path)


def tradeoff_curve(curve: View, path: str | Path | None = None) -> Any:
    """Draw f*(slack) and its bounds against the slack (as a share of g*), and the change in f."""
    figure = new_figure(7.0, 4.2)
    ax, columns = figure.subplots(), curve.groups[0].columns
    slack, value = columns["slack"], columns["value"]
    size = abs(curve.report["lower"][1] or 0.0)
    is_relative = size > 0.0 and bool(np.all(slack <= size))
    at = 100.0 * slack / size if is_relative else slack
    _draw(ax, curve.panels[0], columns, at)
    for x, y in zip(at[1:], value[1:], strict=True):
        ax.annotate(
            f"{y - value[0]:+.3g}", (x, y),
            textcoords="offset points", xytext=(4, 6), fontsize=9, color=GREY,
        )  # fmt: skip
    ax.set_xlabel("slack of the lower level" + (", per cent of $g^*$" if is_relative else ""))
    what = "sensitive: " if curve.report["sensitive"] else ""
    ax.set_title(f"{what}what a little slack in $g$ gains in $f$", fontsize=10.5)
    ax.margins(x=0.06, y=0.12)
    return saved(figure, path)


def new_figure(width: float, height: float) -> Any:
    """Return a new figure with its own canvas; raise ImportError if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401  (that it is there)

        from tiebreak.display.figure import ShownFigure
    except ImportError:
        raise missing("plotting", "matplotlib", "plot") from None
    return ShownFigure(figsize=(width, height), layout="constrained")


def saved(figure: Any, path: str | Path | None) -> Any:
    """Save the figure to ``path`` if one is given, completely or not at all; return it."""
    if path is not None:
        target = Path(path)
        kind = target.suffix[1:] or "png"
        write_atomically(target, lambda file: figure.savefig(file, format=kind, dpi=200))
    return figure


def literal(text: str) -> str:
    """Return text from outside so that matplotlib does not read its dollar signs as formulas."""
    return text.replace("$", r"\$")


def _draw_proof(ax: Axes, letter: str, way: float, proved: float, asked: float | None) -> None:
    """Draw the progress made, the tolerance and the proved gap on one log axis."""
    said = f"proved gap of {letter}" if proved >= 0.0 else f"proved: {letter}(x) < {letter}* by"
    tolerance = math.nan if asked is None else asked
    sizes = {f"|{letter}(x0) - {letter}(x)|": way, "asked": tolerance, said: abs(proved)}
    finite = [size for size in sizes.values() if math.isfinite(size)]
    known = [size for size in finite if size > NO_GAP * max(finite)]
    low, high = 0.1 * min(known, default=1e-16), 10.0 * max(known, default=1.0)
    for place, (label, size) in enumerate(sizes.items()):
        if math.isfinite(size):
            color = DARK if label.startswith("proved") else BAND
            ax.barh(-place, max(size, low) - low, left=low, height=0.6, color=color)
        words = f"{size:.2g}" if math.isfinite(size) else "nothing"
        ax.annotate(
            words, (max(min(size, high), low), -place), xytext=(4, 0), va="center",
            textcoords="offset points", fontsize=9.5,
        )  # fmt: skip
    ax.set_yticks([0, -1, -2], list(sizes))
    ax.set(xscale="log", xlim=(low, 30.0 * high))
    ax.spines[["top", "right"]].set_visible(False)


def _draw(ax: Axes, panel: Panel, columns: dict[str, Column], at: Column) -> None:
    """Draw the curves of a panel, the band and the target; circles and crosses as in `Panel`."""
    main = columns[panel.curves[0].column]
    known, is_below = np.isfinite(main), (main < 0.0) & panel.has_signs
    floor = -np.inf
    if panel.is_log:
        sizes = np.abs(main[known])
        sizes = sizes[sizes > NO_GAP * np.max(sizes, initial=0.0)]
        sizes = sizes if panel.asked is None else np.append(sizes, panel.asked)
        # The height at which a gap of 0 is drawn.
        floor = 0.1 * float(sizes.min()) if sizes.size else 1e-16
        ax.set_yscale("log")
    if panel.band is not None:
        low, high = (columns[name] for name in panel.band)
        ax.fill_between(at, low, high, where=low <= high, color=BAND, linewidth=0)
    for curve in panel.curves:
        values = np.maximum(np.where(is_below, np.nan, columns[curve.column]), floor)
        if np.isfinite(values).any():
            look: dict[str, Any] = {"color": DARK, "linewidth": 1.6}
            if curve.is_dashed:
                look = {"color": GREY, "linewidth": 1.2, "linestyle": (0, (4, 1.5))}
            ax.plot(at, values, label=curve.name, marker="." if len(at) < 13 else "", **look)
    if is_below.any():
        ax.plot(
            at[is_below], -main[is_below],
            color=DARK, linestyle="", marker="o", markersize=4, markerfacecolor="white",
            markevery=_thin(is_below), label=panel.below,
        )  # fmt: skip
    if panel.missing and not known.all():
        ax.plot(
            at[~known], np.ones(int((~known).sum())),
            transform=ax.get_xaxis_transform(), clip_on=False,
            color=GREY, linestyle="", marker="x", markersize=5, markevery=_thin(~known),
            label=panel.missing,
        )  # fmt: skip
    if panel.asked is not None:
        ax.axhline(panel.asked, color="black", linewidth=1.0, linestyle="--")
        ax.annotate(
            f"asked: {panel.asked:.2g}", (0.0, panel.asked), xycoords=("axes fraction", "data"),
            xytext=(5, 3), textcoords="offset points", fontsize=9,
        )  # fmt: skip
    ax.set_ylabel(panel.title, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)
    if ax.lines:  # without finite values there are no lines
        ax.legend(frameon=False, fontsize=9)


def _thin(marked: Column) -> float | None:
    """Return the spacing of markers for curves with many points."""
    return 0.02 if int(marked.sum()) > 30 else None


def _interval(low: float | None, high: float | None) -> str:
    if low is None:
        return "unknown" if high is None else f"$\\leq$ {high:.6g}"
    return f"$\\geq$ {low:.6g}" if high is None else f"in [{low:.6g}, {high:.6g}]"
