"""The curves of a view as one small static SVG picture, without scripts or style sheets.

Lines take the colour of the surrounding text, so that they are readable in light and dark
notebooks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiebreak.display.markup import escaped
from tiebreak.display.views import Column, Curve, Group, Panel, ProvedGap, View, number
from tiebreak.proofs.certificate import UNDERFLOW

MOST_DRAWN = 1e300  # beyond it and below its inverse, sums and quotients overflow
WIDTH, HEIGHT = 340.0, 190.0  # size of one panel
LEFT, RIGHT, TOP, FOOT = 58.0, 10.0, 26.0, 156.0  # the margins, and where the axis is
BLUE = "#4a7fd4"  # contrast of at least 3:1 on white and on black
HUES = (BLUE, "#c8641e", "#2a9070", "#b0609f", "#8f7d14", "#7d8794")
# five dash patterns times six hues serve thirty methods
DASHES = ("", "7 3", "2 3", "8 2 2 2", "4 2")
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DEPTH = 1e-17  # errors below this share of the largest are rounding


class Scale(NamedTuple):
    """Maps a value to its position on an axis; values without a logarithm have none."""

    low: float
    high: float
    is_log: bool

    def at(self, values: Column) -> Column:
        """Return positions between 0 and 1, nan for values that have none."""
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = np.log10(np.where(values > 0.0, values, np.nan)) if self.is_log else values
            return np.asarray((sizes - self.low) / (self.high - self.low))

    def ticks(self) -> list[tuple[float, str]]:
        """Return a few round values with their labels."""
        raw = (self.high - self.low) / 4.0
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(k * unit for k in (1.0, 2.0, 5.0, 10.0) if k * unit >= 0.999 * raw)
        if self.is_log:
            step = max(1.0, math.ceil(step))
        first = math.ceil(self.low / step - 1e-9)
        found = []
        for i in range(first, first + 12):
            value = i * step
            if value > self.high + 1e-9 * step:
                break
            if self.is_log:
                found.append((10.0**value, _power(round(value))))
            else:
                found.append((value, _round(value, step)))
        return found


def picture(view: View) -> str:
    """Draw all panels in two columns, or for a run of one step its proofs, if any."""
    if not view.has_curves:
        proved = [p for p in view.proofs if math.isfinite(p.proved)]
        return " ".join(_proof(p) for p in proved if UNDERFLOW < p.asked < math.inf)
    columns = min(2, len(view.panels))
    rows = math.ceil(len(view.panels) / columns)
    keys = _keys(view.groups) if len(view.groups) > 1 else ""
    key_rows = math.ceil(len(view.groups) / 3) if keys else 0
    words = "; ".join(panel.title for panel in view.panels)  # the description for screen readers
    about = f"{words}. {view.status}, {view.heading}"
    parts = [_open(WIDTH * columns, HEIGHT * rows + 18.0 * key_rows, about)]
    for i, panel in enumerate(view.panels):
        x, y = WIDTH * (i % columns), HEIGHT * (i // columns)
        parts.append(f'<g transform="translate({x:g},{y:g})">{_panel(view, panel)}</g>')
    parts += [f'<g transform="translate(0,{HEIGHT * rows:g})">{keys}</g>' if keys else "", "</svg>"]
    return "".join(parts)


def _open(width: float, height: float, words: str, size: int = 11) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-label="{escaped(words)}" '
        'fill="none" font-family="system-ui, sans-serif" '
        f'font-size="{size}" preserveAspectRatio="xMinYMin"><title>{escaped(words)}</title>'
    )


def _proof(proof: ProvedGap) -> str:
    sizes = {"start": proof.start, "asked": proof.asked, "proved": abs(proof.proved)}
    usable = {name: v for name, v in sizes.items() if UNDERFLOW < v < math.inf}
    usable["proved"] = max(abs(proof.proved), min(usable.values()) * 1e-2)  # it may be 0
    low, high = (math.log10(end(usable.values())) for end in (min, max))
    pad = 0.1 * (high - low) + 0.4
    scale = Scale(low - pad, high + pad, True)
    x = {n: WIDTH * float(scale.at(np.array([v]))[0]) for n, v in usable.items()}
    proved, asked = number(proof.proved, 3), number(proof.asked, 3)
    y = 46.0
    parts = [
        _open(WIDTH, 84.0, f"{proof.level}: proved gap {proved}, asked {asked}", 13),
        _label(4.0, 13.0, f"{proof.level}: proved gap", "start", 'font-weight="600"'),
        _line(4.0, y, WIDTH - 4.0, y, 0.35),
    ]
    if "start" in x:
        ends = f"M{x['start']:.1f},{y}L{x['proved']:.1f},{y}"
        parts.append(f'<path d="{ends}" stroke="{BLUE}" stroke-width="2.5"/>')
        parts.append(_spot(x["start"], y, "none"))
        lower = y + (18.0 if abs(x["start"] - x["proved"]) > 115.0 else 34.0)
        parts.append(
            _label(*_beside(x["start"], lower), f"start {number(proof.start, 3)}", "middle")
        )
    parts.append(_line(x["asked"], y - 12.0, x["asked"], y + 6.0, 0.9, ' stroke-dasharray="4 2"'))
    parts.append(_label(*_beside(x["asked"], y - 15.0), f"asked {asked}", "middle"))
    parts.append(_spot(x["proved"], y, BLUE))
    parts.append(_label(*_beside(x["proved"], y + 18.0), f"proved {proved}", "middle"))
    return "".join([*parts, "</svg>"])


def _beside(x: float, y: float) -> tuple[float, float]:
    """Return the position of a label centred at x, kept inside the picture."""
    return min(max(x, 58.0), WIDTH - 58.0), y


def _spot(x: float, y: float, fill: str, radius: float = 5.0) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}" stroke="{BLUE}" '
        'stroke-width="1.8"/>'
    )


def _panel(view: View, panel: Panel) -> str:
    axis, name = view.axes[0]
    # At most 600 points over all lines of a panel.
    most = min(110, 600 // len(view.groups))
    drawn = [_thinned(group, axis, panel, most) for group in view.groups]
    has_below = any(_below(group, panel).any() for group in drawn)
    title = f"{panel.title}; ○ below it" if has_below else panel.title
    head = _label(LEFT, 14.0, title, "start", 'font-weight="600"')
    vertical = _scale(panel, drawn)
    if vertical is None:
        return head + _label(WIDTH / 2, HEIGHT / 2, "nothing to draw", "middle")
    last = max(float(np.nanmax(group.columns[axis])) for group in drawn) or 1.0
    place = Place(vertical, last, is_wide=last > 100.0 and axis != "slack")
    curves = [_group(panel, group, axis, i, place) for i, group in enumerate(drawn)]
    return "".join([head, _axes(place, name), *curves, _asked(panel, place)])


class Place(NamedTuple):
    """Maps values to coordinates in a panel."""

    vertical: Scale
    last: float  # the largest value on the horizontal axis
    is_wide: bool  # is that axis logarithmic, in 1 + value?

    def across(self, values: Column) -> Column:
        """Return horizontal coordinates, from left to right."""
        logs = np.log1p(values) / math.log1p(self.last)
        return np.asarray(
            LEFT + (WIDTH - LEFT - RIGHT) * (logs if self.is_wide else values / self.last)
        )

    def up(self, values: Column) -> Column:
        """Return vertical coordinates; an error of 0 is at the bottom of a logarithmic scale.

        Infinite values get no coordinate: a bound of -inf is not a bound and must not be drawn.
        """
        values = np.where(np.isfinite(values), values, np.nan)
        if self.vertical.is_log:
            values = np.where(values <= 0.0, 10.0**self.vertical.low, values)
        share = np.clip(self.vertical.at(values), -0.02, 1.02)
        return np.asarray(FOOT - (FOOT - TOP) * share)


def _axes(place: Place, name: str) -> str:
    parts = []
    for value, text in place.vertical.ticks():
        y = float(place.up(np.array([value]))[0])
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y, 0.15))
        parts.append(_label(LEFT - 5, y + 4, text, "end"))
    parts.append(_line(LEFT, FOOT, WIDTH - RIGHT, FOOT, 0.6))
    for value in (0.0, 10.0, place.last) if place.is_wide else (0.0, place.last):
        x = float(place.across(np.array([value]))[0])
        anchor = "end" if value == place.last else "middle"
        text = f"{value:,.0f}" if value.is_integer() else number(value, 3)
        parts.append(_label(x, FOOT + 14, text, anchor))
    return "".join([*parts, _label((LEFT + WIDTH) / 2, FOOT + 28, name, "middle")])


def _group(panel: Panel, group: Group, axis: str, index: int, place: Place) -> str:
    x, below = place.across(group.columns[axis]), _below(group, panel)
    parts = []
    if panel.band is not None:
        parts.append(_band(x, *(place.up(group.columns[name]) for name in panel.band)))
    for curve in panel.curves:
        values = np.where(below, np.nan, group.columns[curve.column])
        parts.append(_curve(x, place.up(values), curve, index))
    if below.any():
        y = place.up(-group.columns[panel.curves[0].column])
        parts += [_spot(x[i], y[i], "none", 2.6) for i in np.flatnonzero(below)]
    return "".join(parts)


def _asked(panel: Panel, place: Place) -> str:
    if panel.asked is None:
        return ""
    y = float(place.up(np.array([panel.asked]))[0])
    words = f"asked {number(panel.asked, 2)}"
    return _line(LEFT, y, WIDTH - RIGHT, y, 0.9, ' stroke-dasharray="5 3"') + _label(
        LEFT + 4, y - 4 if y > TOP + 40 else y + 12, words, "start"
    )


def _thinned(group: Group, axis: str, panel: Panel, most: int) -> Group:
    names = [curve.column for curve in panel.curves]
    columns = {name: group.columns[name] for name in {axis, *names, *(panel.band or ())}}
    return Group(group.name, columns).thinned(most, names)


def _scale(panel: Panel, groups: Sequence[Group]) -> Scale | None:
    """Return the scale of the values; it ignores far-away bounds, which would flatten them."""
    values = np.concatenate([g.columns[c.column] for g in groups for c in panel.curves[:1]])
    values = np.abs(values) if panel.has_signs else values
    values = values[np.abs(values) < MOST_DRAWN]
    if panel.asked is not None:
        values = np.append(values, panel.asked)
    values = values[values > 0.0] if panel.is_log else values
    if not values.size:
        return None
    low, high = float(values.min()), float(values.max())
    if panel.is_log:
        low = max(low, high * DEPTH)
        ends = math.log10(low), math.log10(high)
        return Scale(ends[0] - 0.3, ends[1] + 0.3, True)
    bounds = np.concatenate(
        [g.columns[c] for g in groups for c in panel.band or ()] or [np.empty(0)]
    )
    near = bounds[(bounds >= low - (high - low)) & (bounds <= high + (high - low))]
    low, high = min(low, near.min(initial=low)), max(high, near.max(initial=high))
    pad = max(0.06 * (high - low), 1e-9 * abs(high))
    pad = pad if pad > 1.0 / MOST_DRAWN else 1.0
    return Scale(low - pad, high + pad, False)


def _below(group: Group, panel: Panel) -> Column:
    """Mark negative gaps, which prove that the value is below the optimum."""
    values = group.columns[panel.curves[0].column]
    return np.isfinite(values) & (values < 0.0) & panel.has_signs


def _pieces(known: Column) -> list[Column]:
    """Return the indices of each unbroken stretch."""
    found = np.flatnonzero(known)
    return np.split(found, np.flatnonzero(np.diff(found) > 1) + 1) if found.size else []


def _band(x: Column, low: Column, high: Column) -> str:
    known = np.isfinite(low) & np.isfinite(high) & (low >= high)  # y grows downwards
    parts = []
    for piece in _pieces(known):
        edge = [*zip(x[piece], high[piece], strict=True)]
        edge += [*zip(x[piece][::-1], low[piece][::-1], strict=True)]
        parts.append(f'<path d="{_path(edge)}Z" fill="{BLUE}" fill-opacity="0.25"/>')
    return "".join(parts)


def _curve(x: Column, y: Column, curve: Curve, index: int) -> str:
    pieces = _pieces(np.isfinite(y) & np.isfinite(x))
    if not pieces:
        return ""
    path = "".join(_path(list(zip(x[piece], y[piece], strict=True))) for piece in pieces)
    if curve.is_dashed:
        look = 'stroke="currentColor" stroke-opacity="0.7" stroke-dasharray="4 2"'
        return f'<path d="{path}" {look}/>'
    hue, dash = HUES[index % len(HUES)], DASHES[index % len(DASHES)]
    # Draw up to a dozen points as dots as well; a single point would be no line.
    dotted = [i for piece in pieces if x.size <= 12 or piece.size == 1 for i in piece]
    dots = "".join(
        f'<circle cx="{x[i]:.1f}" cy="{y[i]:.1f}" r="2.6" fill="{hue}"/>' for i in dotted
    )
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="{path}" stroke="{hue}" stroke-width="1.8"{dashed}/>{dots}'


def _path(points: Sequence[Any]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _line(x1: float, y1: float, x2: float, y2: float, opacity: float, more: str = "") -> str:
    return (
        f'<path d="M{x1:.1f},{y1:.1f}L{x2:.1f},{y2:.1f}" stroke="currentColor" '
        f'stroke-opacity="{opacity:g}"{more}/>'
    )


def _label(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor" {more}>'
        f"{escaped(text)}</text>"
    )


def _keys(groups: Sequence[Group]) -> str:
    """Draw the legend: the methods with their lines, three to a row."""
    parts = []
    for i, group in enumerate(groups):
        x, y = 12.0 + 220.0 * (i % 3), 10.0 + 18.0 * (i // 3)
        dash = DASHES[i % len(DASHES)]
        parts.append(
            f'<path d="M{x:g},{y:g}h34" stroke="{HUES[i % len(HUES)]}" stroke-width="1.8"'
            f"{f' stroke-dasharray={chr(34)}{dash}{chr(34)}' if dash else ''}/>"
        )
        parts.append(_label(x + 40.0, y + 4.0, group.name[:26], "start"))
    return "".join(parts)


def _power(exponent: int) -> str:
    """Return the label of a power of ten."""
    if -3 <= exponent <= 3:
        return f"{10.0**exponent:,.{max(-exponent, 0)}f}"
    return "10" + str(exponent).translate(RAISED)


def _round(value: float, step: float) -> str:
    """Format a multiple of a step with as many digits as it needs."""
    if step >= 1e-4 and abs(value) < 1e7:
        return f"{value:,.{max(-math.floor(math.log10(step) + 1e-9), 0)}f}"
    return "0" if abs(value) < 1e-9 * step else f"{value:.{_digits(value, step)}g}"


def _digits(value: float, step: float) -> int:
    return min(max(math.ceil(math.log10(abs(value) / step)) + 1, 2), 15)
