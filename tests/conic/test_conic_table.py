"""Hold the image, do not cut: what a cut with some delta costs, and that ours costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak.conic.chain import solve_chain

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "levels"))

import by_hand

Count = Callable[[int, int], int]
CASES = {"free": by_hand.free, "bound": by_hand.bound, "four": by_hand.four}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", CASES)
def test_errors_beside_every_cut(kind: str, count: Count) -> None:
    pytest.importorskip("cvxpy")
    for seed in range(count(1, 10)):
        case = CASES[kind](seed)
        mine = case.error(by_hand.ours(case))
        for way in (by_hand.with_cvxpy, by_hand.with_clarabel):
            theirs = by_hand.errors(case, way)
            print(f"{kind} {seed} {way.__name__}: ours {mine:.1e}, cuts {theirs}")  # with pytest -s
            assert mine <= 0.01 * min(theirs.values())
            if kind != "bound":  # their error goes as the root of delta
                assert 5.0 <= theirs[1e-5] / theirs[1e-7] <= 20.0


@pytest.mark.parametrize("kind", CASES)
def test_nothing_is_cut(kind: str) -> None:
    case = CASES[kind]()
    found = solve_chain(case.program(), [None] * (len(case.levels) - 1))
    assert found.status == "solved"
    assert all(level.held != "cut" for level in found.levels)
