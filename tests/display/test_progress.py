"""Progress: on standard error alone, in every surrounding, and never in the way of the run."""

from __future__ import annotations

import io
import sys
import types

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.display import progress
from tiebreak.driver.trace import Row

METHOD = "agm-bio"
ROW = Row(1234, 5.6, 9.5, 1e-10, 3.6e-05, np.inf, 7, 8, 9)


def problem():
    A = np.random.default_rng(0).standard_normal((3, 8))
    return tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, np.ones(3)))


class Terminal(io.StringIO):
    """Standard error of a person who looks at it."""

    def isatty(self):
        return True


def looked_at(monkeypatch):
    """Within a test: capsys takes standard error for itself before each."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    return stream


def without(monkeypatch, *names):
    """As if these packages were not installed."""
    for name in names:
        for module in [m for m in sys.modules if m.split(".")[0] == name]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("missing", [(), ("rich",), ("rich", "tqdm")])
@pytest.mark.parametrize("name", ["change", "change [t]", "change [/MWh]"])
def test_two_levels_have_their_names(monkeypatch, missing, name):
    terminal = looked_at(monkeypatch)
    without(monkeypatch, *missing)
    levels = tb.Levels(
        tb.Level(tb.Linear([1.0, 1.0]), "profit", sense="max"),
        tb.Level(tb.SquaredNorm(), name),
        domain=tb.Ball(1.0),
    )
    tb.solve(levels, METHOD, rtol=0.0, max_iter=4, progress=True)
    assert f"{name} " in terminal.getvalue()
    assert "-profit" in terminal.getvalue()  # the run minimises the negative
    assert "level, f" not in terminal.getvalue()


def test_without_rich_and_tqdm_one_line_is_written_over_that_fits_the_terminal(monkeypatch, capsys):
    terminal = looked_at(monkeypatch)
    without(monkeypatch, "rich", "tqdm")
    tb.solve(problem(), METHOD, rtol=0.0, max_iter=40, progress=True)
    said = terminal.getvalue()
    first, *lines = said.split("\r")
    assert first == ""
    assert len(lines) >= 2
    assert said.count("\n") == 1
    assert said.endswith("\n")
    assert max(len(line.rstrip("\n")) for line in lines) == 79  # one more would begin a new line
    assert lines[-1].startswith("step      40   f ")
    assert capsys.readouterr().out == ""


def test_a_run_that_is_refused_leaves_the_terminal_as_it_was(monkeypatch):
    terminal = looked_at(monkeypatch)
    without(monkeypatch, "rich", "tqdm")
    refused = tb.Problem(upper=tb.L1(1.0), lower=tb.SquaredNorm(center=np.ones(3)))
    with pytest.raises(ValueError, match="agm-bio"):
        tb.solve(refused, METHOD, progress=True)
    assert terminal.getvalue() == ""


def test_rich_shows_both_levels(monkeypatch, capsys):
    terminal = looked_at(monkeypatch)
    pytest.importorskip("rich", reason="needs rich: pip install '.[progress]'")
    tb.solve(problem(), METHOD, rtol=0.0, max_iter=40, progress=True)
    said = terminal.getvalue()
    assert "step 40, " in said
    assert "upper level, f" in said
    assert "lower level, g" in said
    assert said.endswith("\x1b[?25h")  # the cursor is there again
    assert capsys.readouterr().out == ""


def test_what_a_callback_prints_stays_on_standard_output_with_rich(monkeypatch, capsys):
    terminal = looked_at(monkeypatch)
    pytest.importorskip("rich", reason="needs rich: pip install '.[progress]'")
    tb.solve(
        problem(), METHOD, rtol=0.0, max_iter=3, progress=True, callback=lambda at: print(at.nit)
    )
    assert capsys.readouterr().out.split() == ["0", "1", "2", "3"]
    assert "step 3" in terminal.getvalue()


def test_tqdm_is_taken_where_rich_is_missing(monkeypatch, capsys):
    terminal = looked_at(monkeypatch)
    pytest.importorskip("tqdm", reason="needs tqdm")
    without(monkeypatch, "rich")
    screen = progress.screen_for(True)
    screen.close()
    assert isinstance(screen, progress.Tqdm)
    tb.solve(problem(), METHOD, rtol=0.0, max_iter=40, progress=True)
    assert "step      40" in terminal.getvalue()
    assert capsys.readouterr().out == ""


def test_in_a_notebook_one_output_is_updated(monkeypatch, capsys):
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(("update", data["text/plain"]))

    def display(data, raw, display_id):
        shown.append(("display", data["text/plain"]))
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    tb.solve(problem(), METHOD, rtol=0.0, max_iter=40, progress=True)
    assert [how for how, _ in shown] == ["display"] + ["update"] * (len(shown) - 1)
    assert len(shown) >= 2
    assert shown[-1][1].startswith("step      40")
    assert capsys.readouterr() == ("", "")


class Mine:
    def __init__(self):
        self.rows, self.closed = [], 0

    def update(self, row):
        self.rows.append(row)

    def close(self):
        self.closed += 1


def test_an_object_is_told_every_recorded_row_and_closed_once(capsys):
    mine = Mine()
    result = tb.solve(problem(), METHOD, rtol=0.0, max_iter=40, progress=mine)
    assert [row.iteration for row in mine.rows[: len(result.trace)]] == result.trace.column(
        "iteration"
    )
    assert mine.rows[-1] == result.trace[-1]
    assert mine.closed == 1
    assert capsys.readouterr() == ("", "")


def test_it_is_closed_where_a_callback_fails():
    mine = Mine()
    with pytest.raises(ZeroDivisionError):
        tb.solve(problem(), METHOD, progress=mine, callback=lambda at: 1 / 0)
    assert mine.closed == 1


def test_a_function_is_told_too():
    rows = []
    tb.solve(problem(), METHOD, rtol=0.0, max_iter=5, progress=rows.append)
    assert rows[-1].iteration == 5


def test_what_is_neither_is_refused_in_a_sentence():
    words = r"^solve: progress must be True, False, a function of a row, or an object with up"
    with pytest.raises(TypeError, match=words):
        tb.solve(problem(), progress="yes")


@pytest.mark.parametrize("is_closed", [False, True])
def test_without_a_standard_error_the_run_goes_on(is_closed, monkeypatch, capsys):
    """As of pythonw, which has none, and of a daemon that has closed it."""
    nowhere = io.StringIO()
    nowhere.close()
    monkeypatch.setattr(sys, "stderr", nowhere if is_closed else None)
    assert tb.solve(problem(), METHOD, max_iter=3, progress=True).nit == 3
    assert capsys.readouterr().out == ""


def test_a_line_in_a_file_has_no_control_characters(capfd):
    tb.solve(problem(), METHOD, rtol=0.0, max_iter=40, progress=True)
    err = capfd.readouterr().err
    assert "\r" not in err
    assert "\x1b" not in err
    assert err.endswith(" s\n")
