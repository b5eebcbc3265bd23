"""Planted chains on polyhedra and second-order cones: values, bounds and widths."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from planted import faces
from planted.levels import program

from tiebreak.conic import solved as stages
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


def too_narrow(found: Any, p: faces.Planted) -> list[int]:
    """Levels whose optimum is farther from what was found than the report says."""
    return [
        i
        for i, (part, value) in enumerate(zip(found.levels, p.values, strict=True))
        if math.isfinite(part.error) and abs(Fraction(part.best) - value) > Fraction(part.error)
    ]


def too_high(found: Any, p: faces.Planted) -> list[int]:
    """Levels whose lower bound lies above their optimum, in rational arithmetic."""
    return [
        i
        for i, (part, value) in enumerate(zip(found.levels, p.values, strict=True))
        if part.bound > -math.inf and Fraction(part.bound) > value
    ]


def test_mixed_chains_on_polyhedra(count: Count) -> None:
    total, worst, wrong, high, narrow = count(15, 200), 0.0, [], [], []
    for seed in range(total):
        p = faces.mixed(seed)
        found = solve_chain(program(p.problem), [None] * (len(p.values) - 1))
        if found.status != "solved":
            wrong.append((seed, p.kinds, p.is_strict, found.status, found.message))
            continue
        found_errors = errors(found, p)
        worst = max(worst, *found_errors)
        high += [(seed, level) for level in too_high(found, p)]
        narrow += [(seed, level) for level in too_narrow(found, p)]
        inside = p.problem.is_inside(found.z[: p.problem.n], ASKED)
        if max(found_errors) > ASKED or not inside:
            wrong.append((seed, p.kinds, p.is_strict, inside, found_errors))
    print(
        f"{total} mixed chains: largest error {worst:.1e}; bounds too high {high}; {wrong} {narrow}"
    )
    assert not high
    assert not narrow
    assert not wrong


def test_planted_on_cones(count: Count) -> None:
    total, strict, finite, worst = count(25, 300), 0, 0, 0.0
    wrong, high, narrow, failed = [], [], [], []
    for seed in range(total):
        p = faces.two_levels(seed)
        found = solve_chain(program(p.problem), [None])
        strict += p.is_strict
        if found.status != "solved":
            failed.append((seed, p.kinds, p.is_strict, found.status, found.message))
            continue
        finite += math.isfinite(found.levels[-1].error)
        error = max(errors(found, p))
        high += [(seed, level) for level in too_high(found, p)]
        narrow += [(seed, level) for level in too_narrow(found, p)]
        inside = p.problem.is_inside(found.z[: p.problem.n], ASKED)
        if p.is_strict:
            worst = max(worst, error)
        if (p.is_strict and error > ASKED) or not inside:
            wrong.append((seed, p.kinds, p.is_strict, inside, error))
    print(f"{total} on cones, {strict} strictly complementary: largest error there {worst:.1e};")
    print(f"a finite width on {finite}; not solved {failed}; bounds too high {high};")
    print(f"off {wrong}; wider than said {narrow}")  # with pytest -s
    assert not high
    assert not narrow
    assert not wrong
    assert not [case for case in failed if case[2]]
    assert finite >= 0.9 * total


class Liar:
    """Clarabel with an error in its answer and the status that it says."""

    def __init__(self, solve: Callable[..., Any], size: float, status: str, seed: int) -> None:
        self.solve, self.size, self.status = solve, size, status
        self.rng = np.random.default_rng(seed)

    def __call__(self, *args: Any) -> Any:
        answer = self.solve(*args)

        def off(part: Any) -> Any:
            noise = self.rng.standard_normal(len(part))
            return part + self.size * noise * max(1.0, float(np.max(np.abs(part), initial=0.0)))

        return answer._replace(z=off(answer.z), y=off(answer.y), status=self.status)


@pytest.mark.sample(4)
@pytest.mark.parametrize("status", ["AlmostSolved", "Solved"])
@pytest.mark.parametrize("size", [1e-7, 1e-5, 1e-3, 1e-1])
def test_no_status_is_believed(
    size: float, status: str, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the solver says: a bound is a bound, and a width holds or is infinite."""
    solve, total, solved, wrong = stages.clarabel_solve, count(10, 100), 0, []
    for seed in range(total):
        p = faces.two_levels(seed)
        monkeypatch.setattr(stages, "clarabel_solve", Liar(solve, size, status, seed))
        found = solve_chain(program(p.problem), [None])
        if found.status != "solved":
            continue
        solved += 1
        bad = too_high(found, p) + too_narrow(found, p)
        is_shy = all(math.isfinite(part.error) or part.word == "estimated" for part in found.levels)
        if bad or not is_shy:
            words = [
                (part.word, part.error, part.best - float(v))
                for part, v in zip(found.levels, p.values, strict=True)
            ]
            wrong.append((seed, p.kinds, p.is_strict, bad, words))
    print(f"answers off by {size:g} and called {status}: {solved} of {total} solved; {wrong}")
    assert not wrong
