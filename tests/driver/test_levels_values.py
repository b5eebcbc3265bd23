"""What a chain says of its levels: values by the objectives themselves, words, the least norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiebreak as tb


def generous(seed: int) -> list[Any]:
    """Three levels whose third is a Huber loss far from its own delta, on bounds of 1e9."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    A, H = (rng.integers(-2, 3, (rows, n)).astype(float) for rows in (2, 3))
    A[0, 0] = H[0, 0] = 1.0
    c, b, d = (rng.integers(-3, 4, size).astype(float) for size in (n, 2, 3))
    return [tb.LeastSquares(A, b), tb.Linear(c), tb.Huber(H, d, 0.5)]


def test_a_value_is_the_objectives_own_at_x(count: Any) -> None:
    for seed in range(count(5, 40)):
        levels = generous(seed)
        result = tb.solve(tb.Levels(*levels, domain=tb.Box(-1e9, 1e9)))
        for h, report in zip(levels, result.levels.values(), strict=False):
            assert report.value == h.value(result.x), (seed, report.name)


def test_values_of_levels_have_errors_that_count_what_cancels() -> None:
    """|x_2 - x_1| = 0 and <c, x> = 0, by terms of 1e6."""
    levels = tb.Levels(tb.TotalVariation(2.0), tb.Linear([1.0, -1.0]), tb.SquaredNorm())
    values = levels.values(np.array([1e6, 1e6]))
    assert [value for value, _ in values] == [0.0, 0.0, 1e12]
    for (_, error), size in zip(values, (1e6, 1e6, 1e12), strict=True):
        assert 1e-16 * size <= error <= 1e-12 * size


def test_levels_say_which_constraints_x_violates() -> None:
    levels = tb.Levels(tb.Linear([1.0, 1.0]), tb.L1(), tb.SquaredNorm(), domain=tb.Box(0.0, 1.0))
    assert levels.violations(np.array([0.5, 1.0])) == []
    (found,) = levels.violations(np.array([0.5, 1.25]))
    assert (found.what, found.amount) == ("the bound of x[1]", 0.25)


@pytest.mark.parametrize("kind", ["orthant", "box", "polyhedron"])
@pytest.mark.parametrize("more", [False, True])
def test_a_relative_slack_of_a_best_value_of_0_is_none(kind: str, more: bool) -> None:
    """x = 0 is the only minimiser of the l1 norm: nothing after it falls."""
    rng = np.random.default_rng(3)
    for _ in range(4):
        n = int(rng.integers(2, 5))
        A = rng.integers(-2, 3, (2, n)).astype(float)
        domain = {
            "orthant": tb.Orthant(),
            "box": tb.Box(0.0, np.inf),
            "polyhedron": tb.Polyhedron(-np.eye(n), np.zeros(n)),
        }[kind]
        slope = tb.Linear(rng.integers(-1, 3, n).astype(float))
        rest = [tb.Level(slope, slack=tb.Slack(relative=0.25)), tb.Huber(A, [-30.0, -30.0], 20.0)]
        first = [tb.Huber(np.eye(n)[:1], [-0.2], 0.2)] if more else []
        result = tb.solve(tb.Levels(*first, tb.L1(), *rest, tb.TotalVariation(), domain=domain))
        assert result.success, result.message
        assert np.max(np.abs(result.x)) <= 1e-6


def test_a_width_is_printed_for_what_is_proved() -> None:
    """The first level of a chain on a box is proved, the others are estimates."""
    fit = tb.LeastSquares([[1.0, 2.0]], [1.0])
    result = tb.solve(tb.Levels(fit, tb.Linear([1.0, 0.0]), tb.L1(), domain=tb.Box(-1.0, 1.0)))
    for report in result.levels.values():
        assert report.word in ("proved", "estimated")
        assert ("±" in report.row()[1]) == (report.word == "proved")
        assert report.row()[1].startswith("about") == (report.word == "estimated")


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
def test_the_least_norm_decides_what_all_levels_leave_open(unit: float) -> None:
    """x_1 + x_2 + x_3 >= 3 at least cost, whose units differ from entry to entry."""
    units = np.array([unit, 1.0, 1.0])
    row = np.array([[-1.0, -1.0, -1.0]]) / units
    levels = tb.Levels(
        tb.Linear(1.0 / units), tb.Linear(np.zeros(3)), tb.Linear(2.0 / units),
        domain=tb.Polyhedron(row, [-3.0]),
    )  # fmt: skip
    result = tb.solve(levels, x0=[3.0 * unit, 0.0, 0.0])
    a = -row[0]
    assert result.success, result.message
    assert result.x == pytest.approx(3.0 * a / (a @ a), rel=1e-9, abs=1e-9 * 3.0 / np.max(a))
    assert "point of least norm" in str(result)


def test_the_least_norm_decides_nothing_where_nothing_is_open() -> None:
    levels = tb.Levels(tb.Linear([1.0, 1.0]), tb.Linear([1.0, 0.0]), tb.L1(), domain=tb.Simplex())
    result = tb.solve(levels)
    assert result.x == pytest.approx([0.0, 1.0], abs=1e-12)
    assert "least norm" not in str(result)


@pytest.mark.parametrize("x0", [[5.0, 5.0, 5.0], [-1.0, 4.0, 0.0]])
def test_two_levels_by_cones_end_at_the_least_norm(x0: Any) -> None:
    problem = tb.Problem(
        lower=tb.Linear([1.0, 1.0, 0.0]),
        upper=tb.L1(1.0, operator=[[0.0, 0.0, 1.0]]),
        domain=tb.Polyhedron([[-1.0, -1.0, 0.0]], [-2.0]),
    )
    assert tb.solve(problem, "conic", x0=x0).x == pytest.approx([1.0, 1.0, 0.0], abs=1e-12)


def test_a_slope_that_drowns_beside_its_terms_is_found() -> None:
    """A Huber loss with delta 2 and residuals of 1e9: by hand x_1 = 1 - 1e9 fits it exactly."""
    levels = tb.Levels(
        tb.Linear([0.0, -200.0, -100.0]),
        tb.Huber([[1.0, 0.0, 1.0]], [1.0], 2.0),
        tb.SquaredNorm(0.2, [-2.0, 1.0, -1.0]),
        domain=tb.Box(-1e9, 1e9),
    )
    result = tb.solve(levels)
    assert result.success, result.message
    assert result.x == pytest.approx([1.0 - 1e9, 1e9, 1e9], rel=1e-12)


def _huber_with_an_outlier(rng: np.random.Generator, rows: int, size: float) -> tb.Huber:
    A, b = rng.normal(size=(rows, 4)), rng.normal(size=rows)
    A[:, 3], b[0] = A[:, 0] + A[:, 1], size
    return tb.Huber(A, b)


def test_a_lost_level_is_judged_by_its_own_value_not_by_the_squares_of_its_data() -> None:
    rng = np.random.default_rng(0)
    first = _huber_with_an_outlier(rng, 6, 1e10)
    second = tb.Huber(rng.normal(size=(3, 4)), [1.0, 2.0, 1e10])
    result = tb.solve(tb.Levels(first, second, tb.SquaredNorm(center=rng.normal(size=4))))
    level = result.levels["level 2"]
    assert not (result.success and level.value > level.best[1] + 1e-2 * level.value)


@pytest.mark.parametrize("size", [1e5, 1e6])
def test_the_tolerance_of_a_level_is_a_share_of_its_own_value(size: float) -> None:
    rng = np.random.default_rng(1)
    first = tb.Level(_huber_with_an_outlier(rng, 6, size), slack=1.0)
    second = tb.Huber(rng.normal(size=(3, 4)), [1.0, 2.0, size])
    result = tb.solve(tb.Levels(first, second, domain=tb.Box(-10.0, 10.0)), rtol=1e-4)
    low, high = result.levels["level 2"].best
    asked = 1e-4 * max(second.value(result.x), second.value(np.zeros(4)))
    assert result.status != "certified" or high - low <= 2.0 * asked
