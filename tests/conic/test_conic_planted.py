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
        if found.status != "solved":
            wrong.append((seed, p.kinds, p.is_strict, found.status, found.message))
            continue
        found_errors = errors(found, p)
        worst = max(worst, *found_errors)
        high += [(seed, level) for level in too_high(found, p)]
        inside = p.problem.is_inside(found.z[: p.problem.n], ASKED)
        if max(found_errors) > ASKED or not inside:
            wrong.append((seed, p.kinds, p.is_strict, inside, found_errors))
    print(f"{total} mixed chains: largest error {worst:.1e}; bounds too high {high}; {wrong}")
    assert not high
    assert not wrong


def test_planted_on_cones(count: Count) -> None:
    total, strict, finite, worst = count(25, 300), 0, 0, 0.0
    wrong, high, wide, failed = [], [], [], []
    for seed in range(total):
        p = faces.two_levels(seed)
        found = solve_chain(program(p.problem), [None])
        strict += p.is_strict
        if found.status != "solved":
            failed.append((seed, p.kinds, p.is_strict, found.status, found.message))
            continue
        last, value = found.levels[-1], p.values[-1]
        width = last.value - last.bound
        finite += math.isfinite(width)
        error = max(errors(found, p))
        high += [(seed, level) for level in too_high(found, p)]
        inside = p.problem.is_inside(found.z[: p.problem.n], ASKED)
        if p.is_strict:
            worst = max(worst, error)
            if error > ASKED or not inside:
                wrong.append((seed, p.kinds, error, width))
        elif abs(last.value - float(value)) > max(width, 1e-12) or not inside:
            wide.append((seed, p.kinds, error, width))
    print(f"{total} on cones, {strict} strictly complementary: largest error there {worst:.1e};")
    print(f"a finite width on {finite}; not solved {failed}; bounds too high {high}")
    print(f"off where strict {wrong}; wider than said elsewhere {wide}")  # with pytest -s
    assert not high
    assert not wrong
    assert not wide
    assert not [case for case in failed if case[2]]
    assert finite >= 0.9 * total
