"""The curve f*(slack): the reference is enclosed from both sides, and ours lies on it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from planted import curves
from planted.levels import program

from tiebreak.conic.chain import solve_chain

Count = Callable[[int, int], int]


@pytest.fixture(scope="module")
def references(count: Count) -> dict[int, tuple[float, list[curves.Point]]]:
    pytest.importorskip("clarabel")
    seeds = range(0, 50, 7) if count(0, 1) == 0 else range(50)
    return {seed: curves.reference(curves.drawn(seed)) for seed in seeds}


def size(point: curves.Point) -> float:
    return max(1.0, abs(point.high))


def test_the_reference_is_enclosed(
    references: dict[int, tuple[float, list[curves.Point]]],
) -> None:
    for _, points in references.values():
        for point in points:
            assert abs(point.high - point.low) <= 2e-7 * size(point)


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
