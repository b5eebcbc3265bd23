"""docs/development/paper-to-code.md: every name on the page exists."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

import tiebreak

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "development" / "paper-to-code.md").read_text()
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))
FILES = [quoted for quoted in QUOTED if quoted.endswith(".py")]
DOTTED = [q for q in QUOTED if re.fullmatch(r"[a-z]\w*(\.[A-Za-z]\w*)+", q) and q not in FILES]
NAMES = [q for q in DOTTED if not re.fullmatch(r"[fg]_y\.at", q)]  # those are in a step


def found(name):
    """The object that a dotted name below ``tiebreak`` means; AttributeError if there is none."""
    parts = name.split(".")
    here = tiebreak
    path = "tiebreak"
    while parts and importlib.util.find_spec(f"{path}.{parts[0]}") is not None:
        path = f"{path}.{parts.pop(0)}"
        here = importlib.import_module(path)
        if not hasattr(here, "__path__"):
            break
    for part in parts:
        is_field = isinstance(here, type) and part in getattr(here, "__annotations__", {})
        here = None if is_field and not hasattr(here, part) else getattr(here, part)
    return here


@pytest.mark.parametrize("name", NAMES)
def test_every_name_on_the_page_exists(name):
    found(name)


def test_a_name_that_does_not_exist_is_noticed():
    for name in ("theory.no_such_size", "algorithms.no_such_module", "problem.Problem.nothing"):
        with pytest.raises(AttributeError):
            found(name)


@pytest.mark.parametrize("path", FILES)
def test_every_file_on_the_page_exists(path):
    assert (ROOT / path).is_file()


def test_the_page_names_every_line_of_the_algorithms():
    cells = re.findall(r"^\| (\d[\d, ]*)", PAGE, re.M)
    assert {int(n) for cell in cells for n in re.findall(r"\d+", cell)} >= set(range(1, 11))
