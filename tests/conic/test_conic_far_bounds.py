"""A bound that is never met must not matter, however generous it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiebreak as tb

KINDS = ("box", "symmetric box", "ball", "l1 ball", "rows")


def domain_of(kind: str, n: int, far: float) -> Any:
    """A set whose farthest bounds are so far away."""
    if kind == "rows":
        rows = np.vstack([np.eye(n), np.ones((1, n))])
        return tb.Polyhedron(rows, np.append(np.full(n, far), n * far)) & tb.Orthant()
    return {
        "box": tb.Box(0.0, far),
        "symmetric box": tb.Box(-far, far),
        "ball": tb.Ball(far),
        "l1 ball": tb.L1Ball(far),
    }[kind]


def levels_of(rng: np.random.Generator, n: int, unit: float) -> list[Any]:
    """Equations that some x >= 0 of about this length meets, and two levels that keep it short."""
    rows = np.round(rng.standard_normal((int(rng.integers(1, n)), n)), 2)
    x = unit * np.abs(rng.standard_normal(n))
    others = [tb.L1(), tb.SquaredNorm(center=x), tb.SquaredNorm()]
    some = [others[i] for i in rng.permutation(3)[:2]]
    return [tb.LeastSquares(rows, rows @ x), *some]


@pytest.mark.sample(5)
@pytest.mark.parametrize("far", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("kind", KINDS)
def test_levels_are_the_same_whatever_the_bounds(kind: str, far: float, count: Any) -> None:
    for seed in range(count(4, 40)):
        rng = np.random.default_rng(seed)
        n, unit = int(rng.integers(2, 6)), 2.0 ** int(rng.integers(-3, 4))
        levels = levels_of(rng, n, unit)
        near, generous = (
            tb.solve(tb.Levels(*levels, domain=domain_of(kind, n, away * unit)))
            for away in (1e2, far)
        )
        assert near.success, (seed, near.message)
        assert generous.success, (seed, generous.message)
        for one, other in zip(near.levels.values(), generous.levels.values(), strict=True):
            assert abs(one.value - other.value) <= 1e-9 * (unit**2 + abs(one.value)), seed


@pytest.mark.parametrize("far", [1.0, 1e4, 1e6, 1e9])
def test_two_levels_by_cones_and_by_factorisation(far: float, count: Any) -> None:
    for seed in range(count(4, 40)):
        rng = np.random.default_rng([7, seed])
        n = int(rng.integers(2, 6))
        lower, *_ = levels_of(rng, n, 1.0)
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Box(0.0, 10.0 * far))
        exact, conic = tb.solve(problem, "exact"), tb.solve(problem, "conic")
        assert conic.success, (seed, conic.message)
        assert abs(conic.upper_value - exact.upper_value) <= 1e-12 * (1.0 + exact.upper_value)


def test_an_answer_on_a_far_bound_is_found() -> None:
    """x1 + x2 = 1 is held, and x1 falls as far as the box lets it."""
    problem = tb.Levels(
        tb.LeastSquares([[1.0, 1.0]], [1.0]),
        tb.Linear([1.0, 0.0]),
        tb.SquaredNorm(),
        domain=tb.Box(-1e6, 1e7),
    )
    result = tb.solve(problem)
    assert result.success, result.message
    assert np.max(np.abs(result.x - [-1e6, 1e6 + 1.0])) <= 1e-6


@pytest.mark.parametrize("far", [0.0, 1e6, 1e9, 1e10])
def test_the_sides_of_a_narrow_slab_are_not_one_plane(far: float) -> None:
    """Far from the origin, z is near both sides by a solver's accuracy; then ties are unknown."""
    center = np.array([far, -2.0 * far, 0.0])
    rows = np.array([[2.0, 0.0, 5.0], [1.0, 1.0, 5.0], [0.0, 1.0, -1.0]])
    middle, width = rows @ center, np.array([2.0, 4.0, 64.0])
    domain = tb.Polyhedron(rows, middle + width, lower=middle - width)
    f = tb.SquaredNorm(center=center + np.array([0.5, -4.5, 0.0]))
    result = tb.solve(tb.Problem(lower=tb.Linear(rows[1]), upper=f, domain=domain), "conic")
    assert result.dimension in ((2,) if far < 1e9 else (2, None))
