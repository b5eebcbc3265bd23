"""A result as one self-contained HTML page with curves, tables and the full report.

The module also makes the output of a notebook cell: a sentence on how the run ended, a table and a
plot, without scripts.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import math
import tempfile
import warnings
import webbrowser
from abc import abstractmethod
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from tiebreak.display.views import Panel, Table, View
from tiebreak.linalg.archive import write_atomically

MOST = 3000  # maximum number of rows on a page, over all groups: about half a megabyte


class Shown:
    """Objects that can be shown as a page (``to_html``, ``open``) or in a notebook."""

    def to_html(self, path: str | Path, title: str = "") -> Path:
        """Write curves, tables and the report to one HTML file.

        The page loads nothing from the network, so you can send it to a colleague. Long traces are
        thinned.

        Args:
            path: the .html file, written completely or not at all.
            title: the heading of the page; the default says how the run ended.

        Returns:
            The path.
        """
        return write_page(self._view(), Path(path), title)

    def open(self) -> Path:
        """Write the page to a temporary file and open it in the browser; returns its path."""
        path = self.to_html(Path(tempfile.mkdtemp(prefix="tiebreak-")) / "report.html")
        open_in_browser(path)
        return path

    def _repr_html_(self) -> str:
        """Return a table for notebooks, without scripts, and with a plot if there are curves.

        The plot needs matplotlib.
        """
        view, picture = self._view(), b""
        if view.panels:
            with contextlib.suppress(ImportError):
                picture = self.plot()._repr_png_()
        return notebook_html(view, picture)

    @abstractmethod
    def plot(self, path: str | None = None) -> Any:
        """Return the matplotlib figure, and save it to ``path`` if one is given."""

    @abstractmethod
    def _view(self) -> View:
        """Return the view to show."""


def write_page(view: View, path: Path, title: str = "") -> Path:
    """Write the page to ``path``, completely or not at all, and return the path."""
    text = page(view, title)
    write_atomically(path, lambda file: file.write(text.encode()))
    return path


def page(view: View, title: str = "") -> str:
    """Return the page. Its security policy allows nothing but its own style and script."""
    style, script = resource("report.css"), resource("report.js")
    policy = (
        f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    heading = title or f"{view.status}: {view.heading}"
    return "\n".join([
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escaped(heading)} · tiebreak</title>",
        f"<style>{style}</style>\n</head>\n<body>",
        _header(view, title),
        "<main>",
        *_cards(view),
        *_curves(view),
        *map(_table, view.tables),
        f"<details{'' if view.kind == 'race' else ' open'}><summary>The full report</summary>"
        f'<pre id="report">{escaped(view.details)}</pre></details>',
        "</main>",
        "<footer>Made by tiebreak. This file is self-contained: it loads nothing.</footer>",
        f'<script type="application/json" id="data">{json_for_script(_data(view))}</script>',
        f"<script>{script}</script>\n</body>\n</html>\n",
    ])  # fmt: skip


def _header(view: View, title: str) -> str:
    top = f"<h1>{escaped(title or view.heading)}</h1>"
    below = f'<p class="heading">{escaped(view.heading)}</p>' if title else ""
    said = "".join(f'<p class="sentence">{escaped(t)}</p>' for t in (view.sentence, *view.assumed))
    return (
        '<header><div class="brand"><span>tiebreak</span>'
        '<button type="button" id="theme">theme: automatic</button></div>'
        f'<p class="status {view.tone}">{escaped(view.status)}</p>'
        f"{top}{below}{said}</header>"
    )


def _cards(view: View) -> Iterator[str]:
    if view.cards:
        yield '<section class="cards" aria-label="Summary">'
        for label, figure, text in view.cards:
            yield (
                f'<div class="card"><h2>{escaped(label)}</h2>'
                f'<p class="figure">{escaped(figure)}</p><p>{escaped(text)}</p></div>'
            )
        yield "</section>"


def _curves(view: View) -> Iterator[str]:
    """Yield the controls, a place for every panel, and the readout; the script draws into them."""
    if not view.has_curves:
        return
    yield '<section id="curves" aria-label="Curves">'
    yield "<noscript>The curves need JavaScript; the tables and the report below do not.</noscript>"
    yield '<div class="controls">'
    if len(view.axes) > 1:
        options = "".join(f'<option value="{column}">{name}</option>' for column, name in view.axes)
        yield f'<label>Horizontal axis <select id="axis">{options}</select></label>'
    else:
        yield f"<span>Horizontal axis: {view.axes[0][1]}</span>"
    yield _scale("x", "Horizontal scale", is_log=False)
    yield "</div>"
    if len(view.groups) > 1:
        yield '<fieldset class="methods"><legend>Methods</legend>'
        for i, group in enumerate(view.groups):
            yield (
                f'<label><input type="checkbox" data-group="{i}" checked>'
                f'<svg class="key" data-key="{i}" width="34" height="12" aria-hidden="true"></svg>'
                f"{escaped(group.name)}</label>"
            )
        yield "</fieldset>"
    yield '<div class="panels">'
    yield from (_panel(panel) for panel in view.panels)
    yield "</div>"
    yield _readout(view)
    yield "</section>"


def _panel(panel: Panel) -> str:
    name = escaped(panel.title)
    return (
        f'<figure data-panel="{panel.key}"><figcaption><span>{name}</span>'
        f"{_scale(panel.key, f'Scale of {name}', panel.is_log)}</figcaption>"
        f'<svg role="img" aria-label="{name}"></svg><p class="legend"></p></figure>'
    )


def _scale(key: str, name: str, is_log: bool) -> str:
    """Return the switch between a linear and a logarithmic scale."""
    choices = "".join(
        f'<label><input type="radio" name="scale-{key}" value="{kind}"'
        f"{' checked' if is_log == (kind == 'log') else ''}><span>{kind}</span></label>"
        for kind in ("linear", "log")
    )
    return f'<fieldset class="scale"><legend>{name}</legend>{choices}</fieldset>'


def _readout(view: View) -> str:
    """Return a slider through the rows, for mouse and keyboard, and the numbers at the slider."""
    names = "".join(f'<th scope="col">{escaped(name)}</th>' for _, name in view.readout)
    first = '<th scope="col">method</th>' if len(view.groups) > 1 else ""
    stack = "" if first else ' class="stacked"'
    return (
        '<div class="readout"><label for="at">Read values off the curves '
        "<small>(point at a plot, or use the arrow keys here)</small></label>"
        '<input type="range" id="at" min="0" value="0" step="1">'
        '<div class="scroll" tabindex="0" role="region" aria-label="Numbers at this position">'
        f'<table id="numbers"{stack}><caption>Numbers at this position</caption>'
        f"<thead><tr>{first}{names}</tr></thead>"
        '<tbody></tbody></table></div><p id="thinned"></p></div>'
    )


def _table(table: Table) -> str:
    name = escaped(table.caption)
    # On a narrow screen, the cells of a table with few rows are stacked.
    stacked = " stacked" if len(table.rows) <= 4 else ""
    return (
        f'<section class="table scroll{stacked}" tabindex="0" aria-label="{name}">'
        f"{table_html(table, TableStyle())}</section>"
    )


def _data(view: View) -> dict[str, Any]:
    """Return the thinned rows that the script draws, and the numbers that ``to_dict`` returns."""
    drawn = [curve.column for panel in view.panels for curve in panel.curves]
    most = MOST // max(len(view.groups), 1)
    kept = [group.thinned(most, drawn) for group in view.groups] if view.has_curves else []
    return {
        "kind": view.kind,
        "report": view.report,
        "axes": view.axes,
        "readout": view.readout,
        "panels": [
            panel._asdict() | {"curves": [curve._asdict() for curve in panel.curves]}
            for panel in view.panels
        ],
        "groups": [
            {
                "name": group.name,
                "columns": {name: column.tolist() for name, column in group.columns.items()},
            }
            for group in kept
        ],
        "rows": sum(group.size for group in view.groups),
        "shown": sum(group.size for group in kept),
    }


def open_in_browser(path: Path) -> None:
    """Open a file in the browser; if there is no browser, warn and say where the file is."""
    if not webbrowser.open(path.resolve().as_uri()):
        warnings.warn(f"no browser could be opened; the file is {path}", stacklevel=3)


# -- Text as HTML: all text from outside is escaped when it is added.


def escaped(text: object) -> str:
    """Escape text for a page or for a quoted attribute."""
    return html.escape(str(text), quote=True)


def resource(name: str) -> str:
    """Return the text of a file in this package."""
    return files("tiebreak.display").joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """Return the hash with which the page's policy allows its own script and style."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def json_for_script(data: Any) -> str:
    """Return JSON that cannot end its <script> element; infinities become strings, NaN null."""
    text = json.dumps(_plain(data), allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    if isinstance(data, float):
        if math.isnan(data):
            return None
        if math.isinf(data):
            return "Infinity" if data > 0 else "-Infinity"
        return int(data) if data.is_integer() and abs(data) < 2**53 else data
    return data


class TableStyle(NamedTuple):
    """Attributes for the tags of a table without a style sheet."""

    table: str = ""
    caption: str = ""
    first: str = ""  # tag for cells of the first column
    cell: str = ""


def table_html(table: Table, style: TableStyle) -> str:
    """Return a table; with a style sheet, cells carry their column's name for narrow screens."""
    head = "".join(
        f'<th scope="col"{style.cell if i else style.first}>{escaped(name)}</th>'
        for i, name in enumerate(table.header)
    )
    rows = []
    for first, *others in table.rows:
        named = zip(table.header[1:], others, strict=True)
        cells = "".join(
            f"<td{style.cell or _label(name)}>{escaped(text)}</td>" for name, text in named
        )
        rows.append(f'<tr><th scope="row"{style.first}>{escaped(first)}</th>{cells}</tr>')
    return (
        f"<table{style.table}><caption{style.caption}>{escaped(table.caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _label(name: str) -> str:
    return f' data-label="{escaped(name)}"'


# -- notebooks


# Signs that mark the tones for readers who do not see colours.
SIGNS = {"good": "✓", "fair": "~", "poor": "!"}
CELL = "white-space:nowrap;padding:2px 9px;border-bottom:1px solid rgba(128,128,128,.4)"
STYLE = TableStyle(
    table=' style="border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px"',
    caption=' style="text-align:left;font-weight:600"',
    first=f' style="text-align:left;{CELL}"',
    cell=f' style="text-align:right;{CELL}"',
)


def notebook_html(view: View, picture: bytes = b"") -> str:
    """Return a result for a notebook, readable in any colour scheme; ``picture`` is a .png file."""
    first = "".join(table_html(table, STYLE) for table in view.tables[:1])
    source = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    titles = escaped("; ".join(panel.title for panel in view.panels))
    drawn = f'<img alt="{titles}" src="{source}" style="max-width:100%">' if picture else ""
    return (
        '<div class="tiebreak" style="font-family:system-ui,sans-serif;line-height:1.45">'
        f"<p><strong>{SIGNS[view.tone]} {escaped(view.status)}</strong> · "
        f"{'<br>'.join(map(escaped, (view.heading, view.sentence, *view.assumed)))}</p>"
        f'<div style="overflow-x:auto">{first}</div>'
        f'<div style="margin-top:8px">{drawn}</div></div>'
    )
