"""Writes the measured tables of docs/ from benchmarks/results/*.csv: `python docs/tables.py`.

A table stands between `<!-- rows of NAME -->` and `<!-- end -->`; a test compares it with the rows.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

PAGES = Path(__file__).parent
RESULTS = PAGES.parent / "benchmarks" / "results"
PLACE = re.compile(r"(<!-- rows of (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
ABOUT = ("version", "date", "machine")


def shown(entry: str) -> str:
    """A number by three digits, whole numbers in groups of three, everything else as it is."""
    try:
        number = float(entry)
    except ValueError:
        return entry
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:.3g}"


def table(name: str) -> str:
    """The rows of a file in Markdown, with a line that says when and on what they were measured."""
    with (RESULTS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = [column for column in rows[0] if column not in ABOUT]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(shown(row[column]) for column in columns) + " |" for row in rows]
    version, date, machine = (rows[0][about] for about in ABOUT)
    return "\n".join([*lines, "", f"Measured on {date}, version {version}, {machine}."])


def filled(page: str) -> str:
    """A page with every measured table written anew."""
    return PLACE.sub(lambda place: f"{place[1]}\n{table(place[2])}\n\n{place[3]}", page)


def main() -> None:
    """Rewrite every page that has such a table."""
    for path in sorted(PAGES.rglob("*.md")):
        page = path.read_text(encoding="utf-8")
        path.write_text(filled(page), encoding="utf-8")


if __name__ == "__main__":
    main()
