"""Every word that a report may say is explained, in the help of `solve` and on a page."""

from __future__ import annotations

import pydoc
import re
from pathlib import Path

import numpy as np

import tiebreak as tb
from tiebreak.driver.glossary import GLOSSARY, plain, tables
from tiebreak.driver.result import STATUSES

DOCS = Path(__file__).parents[2] / "docs"
TERMS = {
    title: {term for terms in said for term in terms.split(", ")}
    for title, said in GLOSSARY.items()
}
BALL = tb.Ball(3.0)
ROW = tb.LeastSquares([[1.0, 2.0]], [1.0])


def labels(lines, width):
    """The labels of lines, each of so many letters after two blanks."""
    return {line[2 : 2 + width].strip() for line in lines if line[2:3].strip()}


def runs():
    """One for every kind of finding that adds lines."""
    yield tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=ROW, domain=BALL))
    yield tb.solve(
        tb.Problem(upper=tb.SquaredNorm(), lower=ROW, domain=BALL), "agm-bio", max_iter=3
    )
    yield tb.solve(tb.Problem(upper=tb.L1(), lower=ROW))
    yield tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=ROW, domain=BALL), "bisec-bio")
    yield tb.solve(tb.Problem(upper=tb.Linear([1.0, 0.0]), lower=ROW))
    nearly = np.array([[1.0, 1.0], [1.0, 1.0 + 2e-16]])
    yield tb.solve(
        tb.Problem(upper=tb.SquaredNorm(center=[3.0, 0.0]), lower=tb.LeastSquares(nearly, [1, 2]))
    )
    h = tb.Smooth(lambda x: float(x @ x), lambda x: 2.0 * x)
    yield tb.solve(tb.Problem(upper=h, lower=ROW, domain=BALL), max_iter=3)


def test_every_label_of_a_report_is_explained():
    seen = set()
    for result in runs():
        short, whole = str(result).splitlines(), result.details().splitlines()
        assert labels(short[1:], 6) <= TERMS["print(result)"]
        seen |= labels(whole[len(short) :], 10)
    assert seen <= TERMS["result.details()"]
    assert len(seen) >= 9  # the runs do show most of them


def test_every_label_of_the_conic_method_is_explained():
    cut = tb.Ball(3.0) & tb.Polyhedron([[1.0, 0.0]], [1.0])
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=ROW, domain=cut), "conic")
    added = result.details().splitlines()[len(str(result).splitlines()) :]
    assert labels(added, 10) <= TERMS["result.details()"]
    levels = tb.solve(tb.Levels(tb.Level(ROW, slack=0.1), tb.L1(), tb.SquaredNorm(), domain=cut))
    _, header, *rest = str(levels).splitlines()
    known = TERMS["Levels, one row each"] | {"level"}
    assert set(re.split(r"  +", header.strip())) <= known
    assert labels(rest[3:], 6) <= known
    assert {row.word for row in levels.levels.values()} <= known


def test_every_status_is_explained():
    assert TERMS["The status"] == set(STATUSES)


def test_the_help_of_solve_ends_with_the_glossary():
    said = pydoc.plain(pydoc.render_doc(tb.solve))
    for line in plain().splitlines():
        assert line.strip() in said


def test_the_page_has_the_glossary():
    """`make docs` writes it."""
    assert tables() in (DOCS / "statuses.md").read_text(encoding="utf-8"), "run `make docs`"
