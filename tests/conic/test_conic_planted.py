"""Planted chains on polyhedra and second-order cones: values, bounds and widths."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from planted import faces
from planted.levels import program

from tiebreak.conic.chain import solve_chain

Count = Callable[[int, int], int]
ASKED = 1e-7  # relative to the larger of 1 and |value|


def size(value: Fraction) -> float:
    return max(1.0, abs(float(value)))


def errors(found: Any, p: faces.Planted) -> list[float]:
    """Of every level, the worse of its value at x (evaluated here) and of what is said of it."""
    x = found.z[: p.problem.n]
    return [
        max(abs(level.value(x) - float(value)), abs(part.best - float(value))) / size(value)
        for level, part, value in zip(p.problem.levels, found.levels, p.values, strict=True)
    ]


def too_high(found: Any, p: faces.Planted) -> list[int]:
    """Levels whose lower bound lies above their optimum, in rational arithmetic."""
    return [
        i
        for i, (part, value) in enumerate(zip(found.levels, p.values, strict=True))
        if part.bound > -math.inf and Fraction(part.bound) > value
    ]


def test_mixed_chains_on_polyhedra(count: Count) -> None:
    total, worst, wrong, high = count(15, 200), 0.0, [], []
    for seed in range(total):
        p = faces.mixed(seed)
        found = solve_chain(program(p.problem), [None] * (len(p.values) - 1))
        found_errors = errors(found, p)
        worst = max(worst, *found_errors)
        high += [(seed, level) for level in too_high(found, p)]
        inside = p.problem.is_inside(found.z[: p.problem.n], ASKED)
        if max(found_errors) > ASKED or found.status != "solved" or not inside:
            wrong.append((seed, p.kinds, p.is_strict, found.status, found.message, found_errors))
    print(f"{total} mixed chains: largest error {worst:.1e}")  # with pytest -s
    assert not high, high
    assert not wrong, wrong


def test_planted_on_cones(count: Count) -> None:
    total, strict, finite, worst = count(25, 300), 0, 0, 0.0
    wrong, high, wide = [], [], []
    for seed in range(total):
        p = faces.two_levels(seed)
        found = solve_chain(program(p.problem), [None])
        last, value = found.levels[-1], p.values[-1]
        width = last.value - last.bound
        finite += math.isfinite(width)
        strict += p.is_strict
        error = max(errors(found, p))
        high += [(seed, level) for level in too_high(found, p)]
        inside = p.problem.is_inside(found.z[: p.problem.n], ASKED)
        if p.is_strict:
            worst = max(worst, error)
            if error > ASKED or found.status != "solved" or not inside:
                wrong.append((seed, p.kinds, found.status, found.message, error, width))
        elif abs(last.value - float(value)) > max(width, 1e-12) or not inside:
            wide.append((seed, p.kinds, found.status, found.message, error, width))
    print(f"{total} on cones, {strict} strictly complementary: largest error there {worst:.1e};")
    print(f"a finite width on {finite}")  # with pytest -s
    assert not high, high
    assert not wrong, wrong
    assert not wide, wide
    assert finite >= 0.9 * total
