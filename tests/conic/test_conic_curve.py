"""The curve f*(slack): the reference is enclosed from both sides, and ours lies on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from planted import curves
from planted.levels import program

import tiebreak as tb
from tiebreak.conic.chain import solve_chain
from tiebreak.driver import tradeoff

Count = Callable[[int, int], int]


@pytest.fixture(scope="module")
def references(count: Count) -> dict[int, tuple[float, list[curves.Point]]]:
    seeds = range(10, 50, 17) if count(0, 1) == 0 else range(50)
    return {seed: curves.reference(curves.drawn(seed)) for seed in seeds}


def size(point: curves.Point) -> float:
    return max(1.0, abs(point.high))


def test_the_reference_is_enclosed(
    references: dict[int, tuple[float, list[curves.Point]]],
) -> None:
    for _, points in references.values():
        for point in points:
            assert point.high - point.low <= 5e-7 * size(point)
            # With the cut the price, and so the point, is known to its own tolerance only.
            assert abs(point.by_cut - point.high) <= 1e-5 * size(point)


def test_points_of_the_curve(
    references: dict[int, tuple[float, list[curves.Point]]], count: Count
) -> None:
    wrong, worst, finite, total = [], 0.0, 0, 0
    for seed, (best, points) in references.items():
        curve = curves.drawn(seed)
        for point in points[:: count(3, 1)]:
            found = solve_chain(program(curve.problem), [lambda *_, d=point.slack: d])
            last, f = found.levels[-1], 0.5 * (point.high + point.low)
            error = abs(curve.problem.levels[1].value(found.z[: curve.problem.n]) - f) / size(point)
            given = curve.problem.levels[0].value(found.z[: curve.problem.n]) - best
            worst, total = max(worst, error), total + 1
            finite += math.isfinite(last.bound)
            is_right = (
                found.status == "solved"
                and error <= 1e-6
                and given <= point.slack + 1e-7 * max(1.0, best)
                and last.bound <= point.high + 2e-7 * size(point)
            )
            if not is_right:
                name = (seed, curve.lower, curve.upper, curve.domain, f"{point.slack:.1e}")
                wrong.append((*name, found.status, error, given, last.bound - f, found.message))
    print(f"{total} points: largest error {worst:.1e}, bounds finite on {finite}")  # with pytest -s
    assert not wrong, wrong


def test_tradeoff(references: dict[int, tuple[float, list[curves.Point]]]) -> None:
    """The public function, on the same curves."""
    wrong, worst, finite, total = [], 0.0, 0, 0
    for seed, (best, points) in references.items():
        curve = curves.drawn(seed)
        ordered = sorted(points)
        try:
            found = tb.tradeoff(curve.build(tb), slacks=[point.slack for point in ordered])
        except ValueError as refusal:
            wrong.append((seed, curve.lower, curve.upper, curve.domain, str(refusal)))
            continue
        assert abs(found.lower[1] - best) <= 1e-7 * max(1.0, best)
        for point, ours in zip(ordered, found.points, strict=True):
            error = max(ours.value - point.high, point.low - ours.value, 0.0) / size(point)
            low, high = ours.bounds
            worst, total = max(worst, error), total + 1
            finite += math.isfinite(high - low)
            # g* of the reference is known to 1e-9 only, and a price multiplies that.
            doubt = 1e-8 * size(point) + 1e-9 * point.price
            if error > 1e-6 or low > point.high + doubt or high < point.low - doubt:
                name = (seed, curve.lower, curve.upper, curve.domain, f"{point.slack:.1e}")
                wrong.append((*name, ours.value, ours.bounds, (point.low, point.high)))
    print(f"{total} points of tradeoff: largest error {worst:.1e}, finite bounds on {finite}")
    assert not wrong, wrong


@pytest.mark.parametrize(("slacks", "left"), [([0.0, 0.1, 0.2], [0.0]), ([0.1, 0.2], [])])
def test_points_are_kept_when_time_runs_out_and_without_points_there_is_no_curve(
    monkeypatch: pytest.MonkeyPatch, slacks: list[float], left: list[float]
) -> None:
    lower, upper = tb.Linear([1.0, 2.0]), tb.SquaredNorm(center=[0.0, 1.0])
    problem = tb.Problem(lower=lower, upper=upper, domain=tb.Simplex())
    solve = tradeoff.chain

    def in_time(program: Any, rules: Any, *more: Any) -> Any:
        if rules[0].absolute > 0.0:
            raise TimeoutError("tradeoff: max_time ran out before all slacks were solved")
        return solve(program, rules, *more)

    monkeypatch.setattr(tradeoff, "chain", in_time)
    if left:
        curve = tb.tradeoff(problem, slacks)
        assert [point.slack for point in curve.points] == left
        assert curve.skipped == (0.1, 0.2)
        assert "there was no time for 0.1, 0.2" in str(curve)
    else:
        with pytest.raises(TimeoutError, match="max_time ran out"):
            tb.tradeoff(problem, slacks)
