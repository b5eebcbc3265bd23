"""Chains of 2 to 5 quadratic levels on R^n against null spaces in rational arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from planted import chains
from planted.levels import program

from tiebreak.conic.chain import solve_chain

Count = Callable[[int, int], int]


def test_every_level_of_quadratic_chains(count: Count) -> None:
    total, worst, unique, wrong, narrow = count(25, 500), 0.0, 0, [], 0
    for seed in range(total):
        chain = chains.solved(chains.drawn(seed))
        problem = chain.problem
        found = solve_chain(program(problem), [None] * (len(problem.levels) - 1))
        x = found.z[: problem.n]
        # Relative to the larger of the value and of the level at the origin.
        errors = [
            float(abs(level.exact([Fraction(float(v)) for v in x]) - value)) / size
            for level, value, size in zip(problem.levels, chain.values, chain.sizes, strict=True)
        ]
        claims = [
            float(abs(Fraction(part.best) - value)) / size
            for part, value, size in zip(found.levels, chain.values, chain.sizes, strict=True)
        ]
        worst = max(worst, *errors, *claims)
        dimensions = [part.dimension for part in found.levels]
        bounds = all(
            part.bound == -np.inf or Fraction(part.bound) <= value
            for part, value in zip(found.levels, chain.values, strict=True)
        )
        narrow += all(
            value - part.bound <= 1e-9 * size
            for part, value, size in zip(found.levels, chain.values, chain.sizes, strict=True)
            if part.bound > -np.inf
        ) and all(part.bound > -np.inf for part in found.levels)
        is_right = (
            found.status == "solved"
            and max(*errors, *claims) <= 1e-9
            and dimensions[:-1] == chain.dimensions[:-1]
            and bounds
        )
        if chain.x is not None:
            unique += 1
            expected = np.array([float(v) for v in chain.x])
            is_right &= np.max(np.abs(x - expected)) <= 1e-8 * max(1.0, np.max(np.abs(expected)))
        if not is_right:
            wrong.append((seed, found.status, max(errors), max(claims), dimensions, bounds))
    print(f"{total} chains, {unique} with one answer: largest error {worst:.1e} relative,")
    print(f"bounds of every level within 1e-9 on {narrow}; wrong: {wrong}")  # with pytest -s
    assert not wrong


def test_what_is_left_after_the_last_level(count: Count) -> None:
    for seed in range(count(10, 100)):
        chain = chains.solved(chains.drawn(seed))
        found = solve_chain(program(chain.problem), [None] * (len(chain.values) - 1))
        assert found.levels[-1].dimension == chain.dimensions[-1], seed
