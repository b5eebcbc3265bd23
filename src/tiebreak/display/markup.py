"""Turns text into HTML; all text from outside is escaped here."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from importlib.resources import files
from typing import Any, NamedTuple

from tiebreak.display.views import Table


def escaped(text: object) -> str:
    """Escape text for a page or for a quoted attribute."""
    return html.escape(str(text), quote=True)


def resource(name: str) -> str:
    """Return the text of a file in this package."""
    return files("tiebreak.display").joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """Return the hash by which the page's policy allows its own script and style."""
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
    first: str = ""  # cells of the first column
    cell: str = ""


def table_html(table: Table, style: TableStyle = TableStyle()) -> str:  # noqa: B008
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
