"""The report of levels: what was given up, and lines that fit a terminal."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas
import pytest

import tiebreak as tb
from tiebreak.rational import certificate


def test_a_maximised_level_gives_up_what_it_lost():
    """x in [0, 2]: 10 % of max x may be given up, and min x takes all of that."""
    cp = pytest.importorskip("cvxpy", reason="needs CVXPY: pip install '.[cvxpy]'")
    x = cp.Variable()
    levels = tb.from_cvxpy(cp.Maximize(x), cp.Minimize(x), [x >= 0, x <= 2], slacks=[0.2])
    first = tb.solve(levels).levels["level 1"]
    assert first.given_up == pytest.approx((0.2, 0.2), abs=1e-9)
    assert "0.2 (0.2)" in " ".join(first.row())


@pytest.mark.parametrize("slack", [0.0, 0.2, tb.Slack(relative=0.1), tb.Slack(share=0.1)])
@pytest.mark.parametrize("levels", [2, 3])
def test_a_level_that_is_maximised_is_its_negative_with_the_sign_turned(slack, levels, tmp_path):
    gain, domain = tb.Linear([3.0, 1.0, 2.0]) + 2.0 * tb.Linear([0.0, 1.0, 0.5]), tb.Simplex()
    more = [tb.SquaredNorm(), tb.Linear([1.0, 0.0, 0.0])][: levels - 1]
    up = tb.Levels(tb.Level(gain, "gain", slack, "max"), *more, domain=domain)
    down = tb.Levels(tb.Level(tb.Linear([-3.0, -3.0, -3.0]), "gain", slack), *more, domain=domain)
    up.save(tmp_path / "levels.npz")
    found, wanted = tb.solve(tb.load(tmp_path / "levels.npz")), tb.solve(down)
    assert found.status == wanted.status == "certified"
    assert found.x == pytest.approx(wanted.x, abs=1e-12)
    mine, other = found.levels["gain"], wanted.levels["gain"]
    assert (mine.sign, other.sign) == (-1, 1)
    assert mine.value == pytest.approx(gain.value(found.x)) == pytest.approx(-other.value)
    assert mine.best == pytest.approx((-other.best[1], -other.best[0]), abs=1e-12)
    assert mine.given_up == pytest.approx(other.given_up, abs=1e-12)
    found.save(tmp_path / "result.npz")
    assert tb.load(tmp_path / "result.npz").levels["gain"] == mine
    assert "  gain" in found.details()


def test_only_what_is_linear_can_be_maximised():
    with pytest.raises(ValueError, match=r"must be linear to be maximised, got SquaredNorm;"):
        tb.Level(tb.SquaredNorm(), sense="max")
    with pytest.raises(ValueError, match=r"^Level: sense must be 'min' or 'max', got 'maximise'"):
        tb.Level(tb.Linear([1.0]), sense="maximise")


def test_what_is_zero_to_its_own_error_is_printed_as_zero():
    zero = tb.LevelReport("a", (-3e-13, 3.1e-13), 1e-17, 0.0, 0, None, "last", "proved")
    assert zero.row()[1:3] == ("0 ± 3e-13", "0")
    assert replace(zero, value=2e-13).row()[2] == "2e-13"
    assert replace(zero, best=(1.0, 1.0), value=1.0).row()[1:3] == ("1 ± 0", "1")


def test_no_line_of_a_report_is_longer_than_a_terminal():
    names = [f"the {word} of all the objectives of this model" for word in ("first", "second")]
    levels = tb.Levels(
        tb.Level(tb.Linear([1.0, 1.0]), name=names[0]),
        tb.Level(tb.Linear([-1.0, 0.0]), name=names[1]),
        tb.L1(),
        domain=tb.Simplex(),
    )
    notes = [
        line
        for line in str(tb.solve(levels)).splitlines()
        if "±" not in line and "about" not in line
    ]
    assert max(map(len, notes)) <= 100


@pytest.mark.parametrize("slack", [tb.Slack(relative=0.01), 1e-30])
def test_a_slack_that_drowns_in_rounding_is_none(slack):
    """1 % of a perfect fit: the point of least norm on x1 + 3 x2 = 2 is (0.2, 0.6)."""
    fit = tb.Level(tb.LeastSquares([[1.0, 3.0]], [2.0]), name="fit", slack=slack)
    result = tb.solve(tb.Levels(fit, tb.SquaredNorm()))
    assert result.success
    assert result.x == pytest.approx([0.2, 0.6], abs=1e-12)
    assert result.levels["fit"].held == "image"


TIES = tb.Box(0.0, 1.0) & tb.Polyhedron(A_eq=[[1.0, 1.0, 1.0]], b_eq=[1.0])


@pytest.mark.parametrize("method", ["auto", "conic"])
def test_a_bounded_domain_is_not_called_unbounded(method):
    """By hand: x1 + x2 = 1, x3 = 0 are all minimisers of the first, (1, 0, 0) is the best."""
    levels = tb.Levels(tb.Linear([1.0, 1.0, 2.0]), tb.Linear([1.0, 2.0, 0.0]), domain=TIES)
    result = tb.solve(levels, method)
    assert result.x == pytest.approx([1.0, 0.0, 0.0], abs=1e-9)
    assert "unbounded" not in str(result)


def test_the_bounds_of_two_levels_by_conic_are_in_the_report():
    levels = tb.Levels(tb.Linear([1.0, 1.0, 2.0]), tb.Linear([1.0, 2.0, 0.0]), domain=TIES)
    for level in tb.solve(levels, "conic").levels.values():
        low, high = level.best
        assert 1.0 - 1e-9 <= low <= 1.0 <= high <= 1.0 + 1e-9
        assert level.word in ("proved", "estimated")


def test_a_best_value_that_is_not_known_has_no_word():
    report = tb.LevelReport(
        "fit", (-float("inf"), 1.0), 1.0, 0.0, None, None, "gap", word="estimated"
    )
    assert report.row()[1] == "unknown"
    assert report.row()[-1] == ""


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["box", "polyhedron"])
def test_what_is_proved_of_two_levels_holds_in_rational_arithmetic(kind):
    """The value at x has rounding errors: it was once taken for the upper end of a proof."""
    proved = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        c, low = rng.standard_normal((2, 6)) * 10.0 ** rng.integers(-2, 3)
        high, one = low + rng.random(6), np.eye(6)
        domain = tb.Box(low, high)
        if kind == "polyhedron":
            domain = tb.Polyhedron(np.vstack([one, -one]), np.append(high, -low))
        levels = tb.Levels(tb.Linear(c), tb.SquaredNorm(), domain=domain)
        report = tb.solve(levels, "exact").levels["level 1"]
        at = np.where(c < 0.0, high, low)
        best = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(c, at, strict=True))
        if report.word == "proved":
            proved += 1
            assert Fraction(report.best[0]) <= best <= Fraction(report.best[1]), seed
        assert report.best[0] == pytest.approx(float(best), rel=1e-9)
    assert proved == (30 if kind == "box" else 0)


@pytest.mark.parametrize("count", [2, 3])
def test_a_report_says_what_nobody_has_checked(count):
    """A radius is believed, and so is a function of the user's own."""
    fit, rest = tb.LeastSquares(np.eye(2, 4), np.ones(2)), [tb.SquaredNorm(), tb.L1()]
    result = tb.solve(tb.Levels(fit, *rest[: count - 1], radius=7.0))
    assert "Relies on radius=7.0: user-supplied, not verified" in str(result)
    assert result.to_dict()["assumed"] == list(result.assumed)
    assert not tb.solve(tb.Levels(fit, *rest[: count - 1])).assumed


def test_levels_have_details_and_where_there_are_steps_a_picture():
    fit, rest = tb.LeastSquares(np.eye(2, 4), np.ones(2)), [tb.SquaredNorm(), tb.L1()]
    two, three = tb.solve(tb.Levels(fit, rest[0])), tb.solve(tb.Levels(fit, *rest), progress=True)
    assert two.details().endswith(two.result.details().partition("  optimum ")[2])
    assert three.details().startswith(str(three))
    assert three.method in " ".join(three.details().split())
    assert two.plot().axes
    with pytest.raises(ValueError, match=r"^plot: three or more levels, or levels with slack or"):
        three.plot()


def test_a_callable_is_assumed_to_be_convex():
    own = tb.Smooth(lambda x: 0.5 * float(x @ x), lambda x: x)
    result = tb.solve(tb.Levels(tb.LeastSquares(np.eye(2, 4), np.ones(2)), own))
    assert "Assumes that upper is convex, with correct gradients" in str(result)
    assert result.levels["level 1"].held == "gap"  # it was no factorisation that held it


@pytest.mark.parametrize("name", ["callback", "checkpoint"])
def test_what_does_not_apply_to_chains_is_refused_even_where_it_is_true(name):
    """Only progress=True is harmless."""
    levels = tb.Levels(tb.LeastSquares(np.eye(2, 4), np.ones(2)), tb.SquaredNorm(), tb.L1())
    with pytest.raises(ValueError, match=f"^solve: {name} does not apply"):
        tb.solve(levels, **{name: True})


@pytest.mark.parametrize("seed", range(4))
def test_an_estimated_end_counts_what_x_lacks_to_be_in_the_domain(seed):
    """x is outside by rounding, so that g(x) may be below g*, here computed in fractions."""
    draw = np.random.default_rng(seed)
    A = draw.integers(-3, 4, (12, 24)) * (draw.random((12, 24)) < 0.3)
    at = draw.integers(0, 4, 24) * (draw.random(24) < 0.5)
    C, d = draw.integers(-2, 3, (8, 24)), draw.integers(-3, 4, 8)
    rows = tb.Polyhedron(A[4:], A[4:] @ at, A[:4], A[:4] @ at)
    levels = tb.Levels(
        tb.LeastSquares(C, d), tb.SquaredNorm(center=at + 1.0), domain=tb.Box(0.0, 5.0) & rows
    )
    exact = certificate(levels)
    assert exact is not None
    residuals = [
        sum(int(a) * v for a, v in zip(row, exact.levels[0].x, strict=True)) - int(b)
        for row, b in zip(C, d, strict=True)
    ]
    low, high = tb.solve(levels, "exact").levels["level 1"].best
    assert Fraction(low) <= sum(v * v for v in residuals) / 2 <= Fraction(high)


@pytest.mark.parametrize("count", [2, 3])
def test_a_pickle_holds_the_report_and_the_duals(count):
    rest = [tb.Linear([2.0, 1.0]), tb.SquaredNorm()][: count - 1]
    domain = tb.Box(0.0, 5.0) & tb.Polyhedron([[-1.0, -1.0]], [-1.0])
    result = tb.solve(tb.Levels(tb.Linear([1.0, 2.0]), *rest, domain=domain))
    again = pickle.loads(pickle.dumps(result))
    assert again.duals["level 1"] == {"0 of A": -1.0}  # one more unit of x[0], which costs 1
    assert again.details() == result.details()


def test_rows_of_two_polyhedra_have_two_names():
    one, two = tb.Polyhedron([[-1.0, 0.0]], [-1.0]), tb.Polyhedron([[0.0, -1.0]], [-2.0])
    domain = tb.Box(0.0, 5.0) & one & two
    result = tb.solve(tb.Levels(tb.Linear([3.0, 4.0]), tb.SquaredNorm(), domain=domain))
    assert result.duals["level 1"] == {"0 of A": -3.0, "0 of A (2)": -4.0}  # x >= (1, 2)


def test_labels_that_read_alike_have_two_names():
    costs = pandas.Series([3.0, 4.0], index=[1, "1"])
    result = tb.solve(tb.Levels(tb.Linear(costs), tb.SquaredNorm(), domain=tb.Box(1.0, 5.0)))
    assert result.named == {"1": 1.0, "1 (2)": 1.0}


@pytest.mark.parametrize("far", [0.0, 1e9, 1e12])
def test_duals_far_from_the_origin_are_those_of_rows_that_bind(far: float) -> None:
    """The bounds of x are 70 and more away, little compared with x; only the sum binds."""
    rows, limits = [[-1.0, -1.0], [-1.0, 0.0], [0.0, -1.0]], [-2 * far, 100 - far, 100 - far]
    domain = tb.Polyhedron(rows, limits, rows=["sum", "one", "two"])
    near = tb.SquaredNorm(center=[far + 30.0, far - 30.0])
    result = tb.solve(tb.Levels(tb.Level(tb.Linear([1.0, 1.0]), name="cost"), near, domain=domain))
    assert result.status == "certified"
    assert result.duals["cost"] == {"sum": -1.0, "one": 0.0, "two": 0.0}
