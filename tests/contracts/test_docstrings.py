"""Every public name says in a line what it is, and has a short example that prints what it says."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiebreak as tb

NEEDS = {
    "sklearn": "sklearn",
    "cvxpy": "cvxpy",
    "highs": "highspy",
}
EXTRAS = {
    "TieBreakClassifier": "sklearn",
    "TieBreakRegressor": "sklearn",
    "choose_slack": "sklearn",
    "from_cvxpy": "cvxpy",
    "register_cvxpy": "cvxpy",
    "read_model": "highs",
    "LinearModel": "highs",
}
NAMES = [*tb.__all__, "TieBreakClassifier", "TieBreakRegressor", "choose_slack"]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
public = pytest.mark.parametrize("name", NAMES)


def docstring(name: str) -> str:
    if name in tb.__all__:
        return inspect.getdoc(getattr(tb, name)) or ""
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install '.[sklearn]'")
    from tiebreak import sklearn

    return inspect.getdoc(getattr(sklearn, name)) or ""


class Rounded(doctest.OutputChecker):
    """Another BLAS may give -0.0 for 0.0."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(unsigned(want), unsigned(got), optionflags)


def unsigned(text: str) -> str:
    return re.sub(r"\[\s+", "[", re.sub(r"-0\.0*(?!\d)", "0.", text))


@public
def test_the_first_line_says_what_it_is(name):
    first, *others = docstring(name).splitlines()
    assert first.endswith((".", "?"))
    assert len(first) <= 100
    assert others[0] == ""


@pytest.mark.sample(3)
@public
def test_the_example_prints_what_it_says(name, tmp_path, monkeypatch):
    text = docstring(name)
    if name in EXTRAS:
        extra = EXTRAS[name]
        pytest.importorskip(NEEDS[extra], reason=f"needs pip install '.[{extra}]'")
    assert re.search(r"^Examples(:|\n--------)$", text, re.MULTILINE)
    names: dict[str, Any] = {"np": np, "tb": tb, "Path": Path}
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert test.examples
    assert any(example.want for example in test.examples)
    lines = sum((example.source + example.want).count("\n") for example in test.examples)
    assert lines <= 10
    monkeypatch.chdir(tmp_path)
    said = list[str]()
    doctest.DocTestRunner(Rounded(), optionflags=OPTIONS).run(test, out=said.append)
    assert said == []


def test_every_name_has_a_place_in_the_reference(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs"))
    try:
        import reference

        shown = [name.rpartition(".")[2] for group in reference.GROUPS for name in group.names]
    finally:
        sys.modules.pop("reference", None)
    assert sorted(shown) == sorted(NAMES)


def test_a_wrong_example_is_seen():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    said = list[str]()
    doctest.DocTestRunner(Rounded(), optionflags=OPTIONS).run(test, out=said.append)
    assert said != []
