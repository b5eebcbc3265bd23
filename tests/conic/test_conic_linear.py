"""Lexicographic linear programs, degenerate ones included, against HiGHS in two ways."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from planted import lexicographic
from planted.levels import program

from tiebreak.conic.chain import solve_chain

Count = Callable[[int, int], int]


def test_linear_levels(count: Count) -> None:
    total, worst, wrong, finite = count(24, 200), 0.0, [], 0
    for seed in range(total):
        lp = lexicographic.drawn(seed)
        expected = lexicographic.by_faces(lp)
        sizes = 1.0 + np.abs(expected)
        np.testing.assert_array_less(
            np.abs(lexicographic.by_priorities(lp) - expected) / sizes, 1e-7
        )
        problem = lexicographic.problem(lp)
        found = solve_chain(program(problem), [None] * (len(expected) - 1))
        x = found.z[: problem.n]
        errors = np.abs(lp.costs @ x - expected) / sizes
        claims = np.abs([level.best for level in found.levels] - expected) / sizes
        bounds = np.array([level.bound for level in found.levels])
        worst, finite = max(worst, *errors, *claims), finite + bool(np.all(np.isfinite(bounds)))
        is_right = (
            found.status == "solved"
            and max(*errors, *claims) <= 1e-7
            and problem.is_inside(x, 1e-7)
            and np.all(bounds <= expected + 1e-9 * sizes)  # the reference has errors of its own
        )
        if not is_right:
            kind = lexicographic.KINDS[seed % len(lexicographic.KINDS)]
            wrong.append((seed, kind, found.status, max(errors), max(claims), found.message))
    print(f"{total} linear programs: largest error {worst:.1e}, all bounds finite on {finite}")
    assert not wrong, wrong
