"""The facts of the methods, and how a method of one's own joins them."""

from __future__ import annotations

import json
import re
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

import tiebreak as tb
from tiebreak.algorithms.facts import _bibliography
from tiebreak.driver import registry


def fields(entry: str) -> dict[str, str]:
    """A BibTeX entry by its fields: braces balance, every field is name={...}; else ValueError."""
    head = re.fullmatch(r"@(article|book|inproceedings)\{([a-z0-9]+), (.*)\}", entry)
    if head is None:
        raise ValueError(entry)
    found, rest = {"key": head[2], "kind": head[1]}, head[3]
    while rest:
        name = re.match(r"(?:, )?([a-z]+)=\{", rest)
        if name is None:
            raise ValueError(rest)
        depth, at = 1, name.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(rest[at], 0)
            at += 1
        found[name[1]], rest = rest[name.end() : at - 1], rest[at:]
    return found


def test_every_entry_of_the_bibliography_parses_and_says_who_what_and_when():
    for key, entry in _bibliography().items():
        found = fields(entry)
        assert found["key"] == key
        assert re.fullmatch(r"\d{4}", found["year"])
        assert found["title"]
        assert all(re.match(r".+, .+", one) for one in found["author"].split(" and "))
        if found["kind"] == "inproceedings":
            assert found["booktitle"]
    with pytest.raises(ValueError, match="title"):
        fields("@article{a2024, title=Open}")


def test_every_method_with_a_paper_cites_it_and_its_rates_are_data():
    for info in tb.methods():
        assert bool(info.bibtex) != info.paper.startswith("none")
        for entry in info.bibtex.splitlines():
            fields(entry)
        for rate in info.rates:
            assert rate.exponent > 0.0
        assert info.output


@pytest.fixture
def own() -> Any:
    """A class that can be registered; afterwards nobody knows it."""

    class Own(tb.AGMBiO):
        name = "own"

    yield Own
    registry.METHODS.pop("own", None)


def test_a_registered_method_is_known_by_name_everywhere(own):
    assert tb.register(own) is own
    assert tb.register(own) is own
    built = tb.instance("toy")
    result = tb.solve(built.problem, "own", x0=built.x0, rtol=1e-2)
    assert result.success
    assert "own" in [info.name for info in tb.methods()]
    assert "own" in tb.compare(built.problem, max_iter=5).methods


@pytest.mark.parametrize("name", ["agm-bio", "auto", "custom"])
def test_a_name_that_is_taken_is_refused(own, name):
    own.name = name
    with pytest.raises(ValueError, match=f"^register: name must be unused, got '{name}' of Own"):
        tb.register(own)
    assert tb.methods()[0].name == "agm-bio"


def test_only_classes_of_methods_can_be_registered():
    with pytest.raises(TypeError, match=r"^register: kind must be a subclass of Method, got"):
        tb.register(tb.AGMBiO())


def test_entry_points_are_loaded_once_and_a_broken_one_is_named(own, monkeypatch):
    asked = []

    def entries(group):
        asked.append(group)
        good = SimpleNamespace(name="own", value="my:Own", load=lambda: own)
        bad = SimpleNamespace(name="bad", value="my:Bad", load=lambda: {}["Bad"])
        return [bad, good]

    monkeypatch.setattr(registry, "entry_points", entries)
    registry._load_entry_points.cache_clear()
    with pytest.warns(RuntimeWarning, match="my:Bad of the entry point 'bad' was not loaded"):
        assert "own" in [info.name for info in tb.methods()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert registry.find_method("own", tb.instance("toy").problem)
    assert asked == ["tiebreak.methods"]
    monkeypatch.undo()
    registry._load_entry_points.cache_clear()


def test_a_file_with_a_method_is_run_and_bad_ones_are_refused(tmp_path):
    path = tmp_path / "json.py"
    path.write_text("import tiebreak as tb\nclass Own(tb.AGMBiO):\n    name = 'own'\n")
    assert registry.from_file("agm-bio") == "agm-bio"
    assert registry.from_file(f"{path}:Own") == "own"
    assert registry.METHODS.pop("own").__module__ == "methods_in_json"
    assert sys.modules["json"] is json  # for others, it is still the module of Python
    with pytest.raises(ValueError, match="must name a class in that file"):
        registry.from_file(f"{path}:Other")
    with pytest.raises(ValueError, match="must name an existing file"):
        registry.from_file(f"{tmp_path}/none.py:Own")
