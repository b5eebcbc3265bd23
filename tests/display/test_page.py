"""The page: complete in itself, true to the numbers, and safe whatever the names are."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import shown

import tiebreak as tb
from tiebreak.display.page import json_for_script
from tiebreak.display.views import kept_rows
from tiebreak.driver.trace import Row, Trace

VOID = {"meta", "input", "br", "img"}
every_kind = pytest.mark.parametrize("make", shown.ALL, ids=lambda make: make.__name__)


class Tags(HTMLParser):
    """Every tag must be closed, in its order; text, attributes and tags are kept."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.said = [], [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.said += data


def page_of(result, tmp_path, **options):
    return result.to_html(tmp_path / "p.html", **options).read_text(encoding="utf-8")


# --- the page ------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@every_kind
def test_it_is_well_formed_and_loads_nothing(make, tmp_path):
    text = page_of(make(), tmp_path)
    found = Tags(text)
    loading = {"src", "href", "srcset", "action", "background", "data"}
    assert [a for a in found.attributes if a[1] in loading or a[1].startswith("on")] == []
    assert not {"link", "iframe", "img", "object", "embed", "base"} & set(found.tags)
    assert re.findall(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|innerHTML|eval\(", text) == []
    assert len(text) < 2_000_000


def test_its_policy_allows_its_own_script_and_style_alone(tmp_path):
    text = page_of(shown.run(), tmp_path)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_the_numbers_are_those_of_to_dict(tmp_path):
    result = shown.run()
    path = result.to_html(tmp_path / "p.html")
    report, data = result.to_dict(), shown.page_data(path)
    trace = report.pop("trace")
    assert data["report"] == report
    (group,) = data["groups"]
    for name in Row._fields:
        assert group["columns"][name] == [row[name] for row in trace]
    found = Tags(path.read_text(encoding="utf-8"))
    for level in ("upper", "lower"):
        assert f"{report[level]['value']:.9g}" in found.said
        assert f"{report[level]['tolerance']:.3g}" in found.said
    assert result.details() in found.said


def test_the_page_has_x_by_name_or_the_largest_of_many_entries(tmp_path):
    A = pd.DataFrame([[1.0, 2.0], [0.0, 1.0]], columns=["age", "<b>income"])
    named = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, [1.0, 2.0])))
    assert named._view().tables[1].rows == [["age", "-3"], ["<b>income", "2"]]
    named.to_html(tmp_path / "a.html")
    assert "&lt;b&gt;income" in (tmp_path / "a.html").read_text()
    b = np.arange(30.0) * (-1.0) ** np.arange(30)
    many = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(np.eye(30), b)))
    table = many._view().tables[1]
    assert table.caption == "The 20 largest of the 30 entries of x"
    assert table.rows[:2] == [["x[29]", "-29"], ["x[28]", "28"]]
    assert len(table.rows) == 20


def test_the_rows_of_a_race_are_all_there_if_they_are_few(tmp_path):
    race = shown.race()
    data = shown.page_data(race.to_html(tmp_path / "p.html"))
    assert [group["name"] for group in data["groups"]] == race.methods
    assert data["report"] == {
        "upper": race.answer.upper, "lower": race.answer.lower, "source": race.source,
    }  # fmt: skip
    for group in data["groups"]:
        rows = [row for row in race.rows if row.method == group["name"]]
        assert group["columns"]["upper_error"] == [row.upper_error for row in rows]
        assert group["columns"]["gradients"] == [row.gradients for row in rows]
    assert str(race) in Tags((tmp_path / "p.html").read_text(encoding="utf-8")).said


def test_what_is_not_finite_survives(tmp_path):
    rows = [
        Row(0, 0.0, math.nan, -math.inf, math.inf, math.inf, 0, 0, 0),
        *(Row(k, 0.1 * k, 1.0, 2.0, math.inf, 1.0 / k, k, k, k) for k in range(1, 6)),
    ]
    path = replace(shown.run(), trace=Trace(rows)).to_html(tmp_path / "p.html")
    columns = shown.page_data(path)["groups"][0]["columns"]
    assert columns["upper_value"] == [None, 1, 1, 1, 1, 1]
    assert columns["lower_value"][0] == "-Infinity"
    assert columns["upper_gap"] == ["Infinity"] * 6
    assert columns["lower_gap"][1:] == [1, 0.5, 1 / 3, 0.25, 0.2]


@pytest.mark.parametrize("make", [shown.levels, shown.race], ids=["levels", "race"])
def test_a_script_in_a_name_is_text(make, tmp_path):
    text = page_of(make(), tmp_path, title=f"A title with {shown.SCRIPT}")
    found = Tags(text)
    assert found.tags.count("script") == 2  # the data and the one of the page
    assert f"A title with {shown.SCRIPT}" in found.said
    assert "alert(" not in re.sub(r"&lt;script&gt;alert|\\u003cscript\\u003ealert", "", text)
    assert "<script>alert" not in make()._repr_html_()


def test_json_cannot_end_its_element():
    hostile = {"</script>": ["<!--", "]]>", "\u2028 & 'quoted' \"too\""]}
    text = json_for_script(hostile)
    assert not set("<>&\u2028") & set(text)


def test_a_long_trace_is_thinned_and_says_so(tmp_path):
    result = shown.long_run()
    path = result.to_html(tmp_path / "p.html")
    assert path.stat().st_size < 2_000_000
    data = shown.page_data(path)
    columns = data["groups"][0]["columns"]
    assert data["rows"] == 100_000
    assert data["shown"] == len(columns["iteration"]) < 4000
    assert columns["iteration"][0] == 0
    assert columns["iteration"][-1] == 99_999
    assert 123.456 in columns["upper_value"]
    assert columns["upper_gap"][0] == "Infinity"
    best = np.maximum.accumulate([row.upper_value - row.upper_gap for row in result.trace])
    assert columns["upper_bound"][-1] == best[-1]  # of all rows, not of those that are shown


def test_it_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "p.html"
    assert shown.direct().to_html(str(target)) == target
    assert [path.name for path in tmp_path.iterdir()] == ["p.html"]
    with pytest.raises(OSError, match="missing"):
        shown.direct().to_html(tmp_path / "missing" / "p.html")


def test_open_shows_a_temporary_page_and_says_where_it_is_if_it_cannot(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    path = shown.direct().open()
    assert opened == [path.as_uri()]
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    with pytest.warns(UserWarning, match=r"no browser could be opened; the file is .*\.html"):
        shown.direct().open()


@pytest.mark.parametrize("status", ["unbounded", "max_time", "failed", "max_iter"])
def test_runs_without_an_answer_have_a_page_too(status, tmp_path):
    row = Row(0, 0.0, math.nan, math.nan, math.inf, math.inf, 0, 0, 0)
    for rows in ([row], [row, row._replace(iteration=1)]):
        result = replace(
            shown.direct(), status=status, trace=Trace(rows), tolerance=(math.nan, math.nan)
        )
        found = Tags(page_of(result, tmp_path))
        assert status in found.said
        assert status in result._repr_html_()


def test_a_run_that_is_over_before_its_first_step_has_a_page(tmp_path):
    result = tb.solve(shown.problem(), "adaptive", max_time=1e-9)
    assert result.status == "max_time"
    assert "max_time" in Tags(page_of(result, tmp_path)).said


def test_a_run_of_one_step_has_tables_and_no_line_through_two_points(tmp_path):
    found = Tags(page_of(shown.direct(), tmp_path))
    assert "value at x0" in found.said
    assert "figure" not in found.tags
    assert "figure" in Tags(page_of(shown.run(), tmp_path)).tags


def test_the_first_value_of_a_curve_is_not_called_that_without_slack(tmp_path):
    """f* = min (1 - t)^2 with t <= slack; a curve may begin at a slack of 0.1."""
    lower, upper = tb.Linear([1.0, 2.0]), tb.SquaredNorm(center=[0.0, 1.0])
    problem = tb.Problem(lower=lower, upper=upper, domain=tb.Simplex())
    said = Tags(page_of(tb.tradeoff(problem, [0.1]), tmp_path)).said
    assert "f* with slack 0.1" in said
    assert "without slack" not in said
    assert "1 slack, " in said


# --- thinning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [10, 100, 1000])
def test_thinning_keeps_the_ends_and_the_extremes(most):
    rng = np.random.default_rng(0)
    columns = [rng.standard_normal(50_000), np.where(rng.random(50_000) < 0.1, np.nan, 1.0)]
    columns[1][777] = np.inf
    kept = kept_rows(columns, most)
    assert kept[0] == 0
    assert kept[-1] == 49_999
    assert {columns[0].argmin(), columns[0].argmax(), 777} <= set(kept)
    assert np.all(np.diff(kept) > 0)
    assert len(kept) <= most + 8


def test_few_rows_are_not_thinned():
    assert kept_rows([np.zeros(7)], 7).tolist() == list(range(7))
    assert kept_rows([np.zeros(0)], 7).size == 0
    assert kept_rows([], 7).size == 0


# --- notebooks -----------------------------------------------------------------------------------


@every_kind
def test_in_a_notebook_there_is_a_table_and_a_picture_and_no_script(make):
    text = make()._repr_html_()
    found = Tags(text)
    assert not {"script", "style", "link"} & set(found.tags)
    assert [a for a in found.attributes if a[1].startswith("on")] == []
    assert "table" in found.tags
    assert ("img" in found.tags) is (make is not shown.levels)  # three levels have no curves
    for _, _, source in (a for a in found.attributes if a[1] == "src"):
        kind, data = source.split(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data).startswith(b"\x89PNG")
    assert len(text.encode()) < 250_000


def words_of(result):
    """The output in a notebook without its picture."""
    return re.sub('src="[^"]*"', "", result._repr_html_())


def test_without_matplotlib_a_notebook_shows_the_table_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    found = Tags(shown.run()._repr_html_())
    assert "table" in found.tags
    assert "img" not in found.tags


def relying(**promise):
    lower = tb.Smooth(lambda x: float(x @ x), lambda x: 2.0 * x, 2.0)
    upper = tb.SquaredNorm(center=np.ones(3))
    return tb.Problem(upper=upper, lower=lower, domain=tb.Ball(2.0), **promise)


def test_what_a_proof_relies_on_is_said_where_it_is_called_proved(tmp_path):
    """As by print(result): convexity of a callable is a promise, and so is a radius."""
    promised = "Assumes that lower is convex, with correct gradients"
    result = tb.solve(relying(), "agm-bio", x0=np.ones(3), max_iter=20)
    assert promised in str(result)
    assert result.to_dict()["assumed"] == [promised]
    both = tb.solve(tb.Levels(relying().lower, relying().upper, domain=tb.Ball(2.0)), x0=np.ones(3))
    result.save(tmp_path / "run.npz")
    for one in (result, both, tb.load(tmp_path / "run.npz")):
        assert promised in one._repr_html_()
        header = page_of(one, tmp_path).partition("</header>")[0]
        assert promised in header


def test_nothing_is_drawn_as_proved_on_an_empty_domain():
    """There is no f*, and so f(x) - f* is not bounded by what the norm is at least."""
    empty = tb.Box(0.0, 1.0) & tb.Polyhedron(A_eq=np.ones((1, 2)), b_eq=[5.0])
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.Linear([1.0, 0.0]), domain=empty)
    result = tb.solve(problem)
    assert result.status == "infeasible"
    (group,) = result._view().groups
    for level in ("upper", "lower"):
        assert np.all(np.isinf(group.columns[f"{level}_gap"]))


def test_nothing_is_drawn_as_proved_by_a_promise_that_was_false(tmp_path):
    A, b = np.random.default_rng(0).standard_normal((3, 5)), np.full(3, 10.0)
    upper = tb.SquaredNorm(center=np.full(5, 9.0))
    false = tb.Problem(upper=upper, lower=tb.LeastSquares(A, b), radius=0.01)  # all are longer
    result = tb.solve(false, "adaptive", x0=np.full(5, 0.5), max_iter=50)
    assert result.status == "failed"
    assert math.isfinite(result.trace[0].lower_gap)  # before it was seen
    page_of(result, tmp_path)
    (group,) = shown.page_data(tmp_path / "p.html")["groups"]
    for level in ("upper", "lower"):
        assert set(group["columns"][f"{level}_gap"]) == {"Infinity"}
        assert set(group["columns"][f"{level}_bound"]) == {"-Infinity"}


@pytest.mark.sample(4)
@pytest.mark.parametrize("other", [1.0, -1.0])
@pytest.mark.parametrize(
    "size", [math.inf, -math.inf, math.nan, 1.7e308, -1.7e308, 5e-315, 5e-324, 0.0]
)
def test_values_at_the_ends_of_the_floats_can_be_shown(size, other, tmp_path):
    """A run may diverge, or come to 0; a notebook must not answer with a traceback."""
    for values in ([size] * 9, [size, other, -size] * 3):
        rows = [Row(k, 0.1 * k, v, v, v, v, k, k, k) for k, v in enumerate(values)]
        result = replace(shown.run(), trace=Trace(rows))
        assert "nan" not in words_of(result)
        assert Tags(page_of(result, tmp_path)).open == []


def test_a_long_trace_is_not_made_a_list_of_dictionaries_first(monkeypatch):
    """Of a million rows that took nine seconds, to be thrown away."""

    def refuse(self):
        raise AssertionError("to_dict has the whole trace")

    monkeypatch.setattr(tb.Result, "to_dict", refuse)
    assert "<table" in shown.run()._repr_html_()


# --- figures -------------------------------------------------------------------------------------


def test_a_figure_shows_itself_in_a_notebook_and_in_the_browser(monkeypatch):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install '.[plot]'")
    figure = shown.run().plot()
    assert figure._repr_png_().startswith(b"\x89PNG")
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    figure.show()
    assert opened[0].endswith(".png")


def test_where_nothing_is_asked_no_line_and_no_axis_goes_down_to_underflow():
    lower = tb.LeastSquares([[1.0, 2.0, 0.5]], [1.0])
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(3.0))
    for method in ("adaptive", "exact"):
        result = tb.solve(problem, method, rtol=0.0, max_iter=20)
        assert 0.0 < result.tolerance[0] < 1e-200
        said = words_of(result)
        assert "e-29" not in said
        assert "e-30" not in said
