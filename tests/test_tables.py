"""Measured tables of the pages are what the rows of the benchmarks say."""

import csv
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.csv"))


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_a_page_shows_the_rows(tables, path):
    page = path.read_text(encoding="utf-8")
    assert tables.filled(page) == page, "run `python docs/tables.py`"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_rows_say_when_and_on_what_they_were_measured(tables, path):
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert all(row[about] for row in rows for about in tables.ABOUT)


def test_every_file_of_rows_is_shown(tables):
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert {path.stem for path in RESULTS} == {place[1] for place in tables.PLACE.findall(pages)}


def test_an_edited_table_is_found(tables):
    name = RESULTS[0].stem
    edited = f"<!-- rows of {name} -->\n\n| by hand |\n\n<!-- end -->"
    assert tables.filled(edited) != edited
    assert tables.filled(tables.filled(edited)) == tables.filled(edited)
