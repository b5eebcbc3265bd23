"""The output of a notebook's cell: how it ended, the table, a picture, and no script."""

from __future__ import annotations

from tiebreak.display.markup import TableStyle, escaped, table_html
from tiebreak.display.svg import picture
from tiebreak.display.views import View

SIGNS = {"good": "✓", "fair": "~", "poor": "!"}  # of the tones, for those who see no colour
CELL = "white-space:nowrap;padding:2px 9px;border-bottom:1px solid rgba(128,128,128,.4)"
STYLE = TableStyle(
    table=' style="border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px"',
    caption=' style="text-align:left;font-weight:600"',
    first=f' style="text-align:left;{CELL}"',
    cell=f' style="text-align:right;{CELL}"',
)


def notebook_html(view: View) -> str:
    """What is seen of a result in a notebook, in whatever colours it has."""
    return (
        '<div class="tiebreak" style="font-family:system-ui,sans-serif;line-height:1.45">'
        f"<p><strong>{SIGNS[view.tone]} {escaped(view.status)}</strong> · "
        f"{'<br>'.join(map(escaped, (view.heading, view.sentence, *view.assumed)))}</p>"
        f'<div style="overflow-x:auto">{_first_table(view)}</div>'
        f'<div style="overflow-x:auto;margin-top:8px">{picture(view)}</div></div>'
    )


def _first_table(view: View) -> str:
    return "".join(table_html(table, STYLE) for table in view.tables[:1])
