"""The plot: what is drawn is what was recorded, and nothing that is not proved looks proved."""

from __future__ import annotations

import builtins
from dataclasses import replace

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.display.plotting import convergence
from tiebreak.driver.result_views import run_view
from tiebreak.driver.trace import Row, Trace


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    lower = tb.LeastSquares(rng.standard_normal((3, 8)), rng.standard_normal(3))
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(3.0))
    return tb.solve(problem, "adaptive", rtol=1e-9, max_iter=50)


def with_gaps(result, upper, lower):
    """The same result with these gaps and values 2, ..., 2 in its trace."""
    rows = [
        Row(k, 0.0, 2.0, 2.0, f, g, k, k, k)
        for k, (f, g) in enumerate(zip(upper, lower, strict=True))
    ]
    return replace(result, trace=Trace(rows))


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_values_bounds_gaps_and_tolerances_are_those_of_the_result(result):
    figure = convergence(run_view(result))
    for i, (level, letter) in enumerate((("upper", "f"), ("lower", "g"))):
        values, gaps = figure.axes[i], figure.axes[2 + i]
        value = np.array(result.trace.column(f"{level}_value"))
        gap = np.array(result.trace.column(f"{level}_gap"))
        np.testing.assert_array_equal(lines(values)[f"{letter}(x)"].get_ydata(), value)
        bound = lines(values)[f"proved: {letter}* is at least this"].get_ydata()
        best = np.maximum.accumulate(value - gap)
        np.testing.assert_array_equal(bound, np.where(np.isfinite(best), best, np.nan))
        assert gaps.get_yscale() == "log"
        assert gaps.lines[-1].get_ydata()[0] == result.tolerance[i]
    assert f"{result.status} after {result.nit} steps" in figure.get_suptitle()
    assert result.method in figure.get_suptitle()


def test_a_direct_answer_is_drawn_by_what_was_asked_and_proved():
    """A line through two points would say nothing."""
    lower = tb.LeastSquares([[1.0, 2.0]], [1.0])
    found = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower))
    assert found.nit == 1
    figure = convergence(run_view(found))
    assert "certified after 1 step," in figure.get_suptitle()
    for ax, tolerance, gap in zip(
        figure.axes, found.tolerance, (found.upper_gap, found.lower_gap), strict=True
    ):
        assert [float(text.get_text()) for text in ax.texts[1:]] == pytest.approx(
            [tolerance, abs(gap)], rel=0.05
        )
        assert not ax.lines


def test_a_direct_answer_in_other_units_has_the_same_bars():
    """Relative to the axis: a unit of 1e-150 is no reason to draw nothing."""
    shares = []
    for unit in (1.0, 1e-150):
        upper, lower = tb.SquaredNorm(center=[3.0, 1.0]), tb.LeastSquares([[1.0, 2.0]], [1.0])
        found = tb.solve(tb.Problem(upper=unit * upper, lower=unit * lower))
        figure = convergence(run_view(found))
        shares.append([
            bar.get_width() / ax.get_xlim()[1] for ax in figure.axes for bar in ax.patches[:2]
        ])  # fmt: skip
    assert min(shares[0]) > 0.0
    np.testing.assert_allclose(*shares, rtol=1e-6)


def test_a_bound_never_falls_back(result):
    figure = convergence(run_view(with_gaps(result, [3.0, 1.0, 2.0], [1.0, 1.0, 1.0])))
    bound = lines(figure.axes[0])["proved: f* is at least this"].get_ydata()
    np.testing.assert_array_equal(bound, [-1.0, 1.0, 1.0])


def test_negative_gaps_are_open_markers_at_their_size(result):
    figure = convergence(run_view(with_gaps(result, [1.0, -0.5, -0.25], [1.0, 1.0, 1.0])))
    label = "f(x) < f* is proved, by this much"
    below = lines(figure.axes[2])[label]
    np.testing.assert_array_equal(below.get_xdata(), [1, 2])
    np.testing.assert_array_equal(below.get_ydata(), [0.5, 0.25])
    assert below.get_markerfacecolor() == "white"
    assert label in legend(figure.axes[2])
    positive = lines(figure.axes[2])["f(x) − f* is at most this"]
    np.testing.assert_array_equal(positive.get_ydata(), [1.0, np.nan, np.nan])


def test_where_nothing_is_proved_there_are_crosses_and_no_band(result):
    inf = np.inf
    figure = convergence(run_view(with_gaps(result, [inf, inf, 1.0], [inf, inf, inf])))
    crosses = lines(figure.axes[2])["nothing is proved about f*"]
    np.testing.assert_array_equal(crosses.get_xdata(), [0, 1])
    bound = lines(figure.axes[0])["proved: f* is at least this"].get_ydata()
    assert np.isfinite(bound).tolist() == [False, False, True]
    assert legend(figure.axes[1]) == ["g(x)"]
    assert legend(figure.axes[3]) == ["nothing is proved about g*"]
    assert all(not len(band.get_paths()) for band in figure.axes[1].collections)


def test_a_promise_that_was_seen_to_be_false_proves_no_row(result):
    nothing = replace(result.certificate, upper_gap=np.inf, lower_gap=np.inf)
    void = replace(with_gaps(result, [1.0] * 3, [1.0] * 3), status="failed", certificate=nothing)
    figure = convergence(run_view(void))
    assert legend(figure.axes[0]) == ["f(x)"]
    assert legend(figure.axes[3]) == ["nothing is proved about g*"]


@pytest.mark.sample(8)
@pytest.mark.parametrize("gaps", [[1.0], [0.0, 0.0], [np.inf], [-1.0] * 40, [np.inf] * 40, [1, 0]])
def test_every_kind_of_trace_can_be_drawn(result, gaps):
    odd = replace(with_gaps(result, gaps, gaps), tolerance=(0.0, 1e-3))
    odd.plot().canvas.draw()


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("ending", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_it_is_saved_in_the_format_of_its_ending_and_nothing_is_left_over(
    result, tmp_path, ending, magic
):
    convergence(run_view(result), tmp_path / f"p.{ending}")
    assert (tmp_path / f"p.{ending}").read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [f"p.{ending}"]


def test_a_format_that_matplotlib_does_not_know_leaves_nothing(result, tmp_path):
    with pytest.raises(ValueError, match="xyz"):
        convergence(run_view(result), tmp_path / "p.xyz")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_install_line_is_said(result, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError) as caught:
        result.plot()
    assert str(caught.value).startswith("plotting needs matplotlib: pip install matplotlib ")


def test_where_nothing_is_asked_the_axis_keeps_to_the_gaps(result, tmp_path):
    """The tolerance is what underflow may hide then, some 1e-290: no line, no axis to it."""
    found = tb.solve(result.problem, "adaptive", rtol=0.0, max_iter=30)
    assert 0.0 < found.tolerance[0] < 1e-200
    figure = convergence(run_view(found), tmp_path / "p.png")
    for axes in figure.axes[2:]:
        assert axes.get_ylim()[0] > 1e-30
    direct = tb.solve(result.problem, "exact", rtol=0.0)
    for axes in convergence(run_view(direct)).axes:
        assert axes.texts[1].get_text() == "nothing"


@pytest.mark.parametrize("named", ["cost in $", "$5 or $7", r"$\frac$"])
def test_dollars_in_a_name_are_text_and_no_formula(result, named, tmp_path):
    from matplotlib.cbook import is_math_text

    figure = convergence(run_view(replace(result, method=named)), tmp_path / "p.png")
    _, last = figure.get_suptitle().split("\n")
    assert last.replace("\\$", "") == named.replace("$", "")
    rows = tb.compare(result.problem, [(named, tb.RAPM())], max_iter=20, name=named)
    figure = rows.plot(tmp_path / "p.png")
    (label,) = figure.legends[0].get_texts()
    assert not any(map(is_math_text, (last, label.get_text(), figure.get_suptitle())))
