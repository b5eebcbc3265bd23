"""The planted answers of composite problems are right: checked without tiebreak's own methods."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from planted.composite import (
    APART,
    COMBINATIONS,
    Level,
    PlantedComposite,
    planted_composite,
    ties,
    wrong_points,
)
from planted.smooth import EPS, fractions

import tiebreak as tb
from tiebreak.functions.penalties.joint_prox import joint

Count = Callable[[int, int], int]


def problems(number: int) -> Iterator[PlantedComposite]:
    """So many problems with a joint prox, and a quarter as many without."""
    for seed in range(number):
        yield planted_composite(seed)
    for seed in range(number // 4):
        yield planted_composite(seed, APART)


def rng_of(p: PlantedComposite) -> np.random.Generator:
    return np.random.default_rng(p.seed)


def size_of(p: PlantedComposite, level: Level, x: Any) -> float:
    """All that the value of a level at x is made of, more or less."""
    scale = p.f_scale if level is p.upper else p.g_scale
    moved = float(np.linalg.norm(x)) + float(np.linalg.norm(p.x_star))
    return scale + abs(level.value(x)) + level.lipschitz * moved**2


def test_all_penalties_on_all_domains_occur() -> None:
    assert len(COMBINATIONS) == 104
    found = [planted_composite(seed) for seed in range(104)]
    assert sum(bool(p.x_star.any()) for p in found) > 70
    assert sum(bool(np.any(p.x_star == 0)) for p in found) > 40
    assert sum(p.region.active.shape[0] > 0 for p in found) > 30
    assert sum(next(ties(p, rng_of(p)), None) is not None for p in found) > 15
    assert sum(p.upper.smooth is None for p in found) > 8
    assert sum(p.lower.smooth is None for p in found) > 3


def test_the_library_sees_the_same_functions_and_knows_what_goes_together() -> None:
    for kinds, together in ((COMBINATIONS, True), (APART, False)):
        for seed in range(len(kinds)):
            p = planted_composite(seed, kinds)
            problem = p.problem()
            for x in (p.x_star, p.region.sample(rng_of(p))):
                for ours, theirs in ((p.upper, problem.upper), (p.lower, problem.lower)):
                    off = abs(theirs.value(x) - ours.value(x))
                    assert off <= 1e-14 * size_of(p, ours, x), p.kind
            if together:
                joint(*problem.penalties, problem.domain)
            elif any(any(penalty.terms.weights) for penalty in problem.penalties):
                with pytest.raises(ValueError, match="joint prox"):
                    joint(*problem.penalties, problem.domain)


def test_the_optimality_conditions_hold_exactly(count: Count) -> None:
    for p in problems(count(52, 520)):
        x, factor = p.x_star, Fraction(p.lower.factor)
        assert p.region.contains(fractions(x)), p.kind
        t = [factor * Fraction(v) for v in p.subgradient + p.normal]
        slope = [Fraction(0)] * p.n if p.lower.smooth is None else p.lower.smooth.exact(x)[1]
        assert [a + b for a, b in zip(slope, t, strict=True)] == [0] * p.n, p.kind
        for _ in range(8):
            z = p.region.sample(rng := rng_of(p))
            d = (z if rng.random() < 0.5 else x + p.unit * rng.standard_normal(p.n)) - x
            rise = p.lower.kink.value(x + d) - float(p.lower.kink.at_star)
            size = float(p.lower.kink.at_star) + p.lower.kink.value(d) + abs(rise)
            assert rise - p.subgradient @ d >= -1e-13 * size, p.kind
            assert p.normal @ (z - x) <= 1e-13 * np.abs(p.normal) @ (np.abs(z) + np.abs(x)), p.kind


def test_no_point_is_better_below_and_no_tie_above(count: Count) -> None:
    for p in problems(count(52, 520)):
        rng = rng_of(p)
        for z in (p.region.sample(rng), p.region.sample(rng), *wrong_points(p, rng)):
            for near in (1.0, 1e-3):
                x = p.x_star + near * (z - p.x_star)
                assert p.g(x) >= p.g_star - 8 * EPS * size_of(p, p.lower, x), p.kind
        for x in ties(p, rng):
            slack = 8 * EPS * size_of(p, p.lower, x)
            assert p.g(x) == pytest.approx(p.g_star, rel=0, abs=slack), p.kind
            assert p.f(x) >= p.f_star - 8 * EPS * size_of(p, p.upper, x), p.kind


# --- a conic solver agrees ---------------------------------------------------------------------


def solved(objective: Any, constraints: list[Any]) -> float:
    """The optimum; nan where the solver gives up."""
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.error.SolverError:
            return math.nan
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    return float(problem.value)


def scaled(p: PlantedComposite, level: Level, x: Any) -> Any:
    """level(x) less its optimum, in its own size: a conic solver wants numbers near 1."""
    best, scale = (p.f_star, p.f_scale) if level is p.upper else (p.g_star, p.g_scale)
    slope = float(np.linalg.norm(level.gradient(p.x_star)))
    size = scale + p.unit * slope + level.lipschitz * p.unit**2
    size += level.factor * level.kink.value(p.unit * np.ones(p.n))
    return (level.conic(cp, x) - best) / size


def test_a_conic_solver_finds_the_same_two_optima(count: Count) -> None:
    worst, given_up, number = 0.0, 0, count(20, 208)
    for p in problems(number):
        u = cp.Variable(p.n)
        x = p.x_star + p.unit * u
        g2, s = p.lower.kink, p.subgradient
        among = p.region.conic(cp, x)
        below = solved(scaled(p, p.lower, x), among)
        if len(p.rows):  # CVXPY 1.6 takes no matrix without rows
            among.append(p.rows @ u == 0)
        among.append(p.normal @ u == 0)
        if g2.kind != "none":
            size = p.unit * (1.0 + float(np.abs(s).sum()))
            among.append((g2.conic(cp, x) - float(g2.at_star) - p.unit * (s @ u)) / size <= 0)
        above = solved(scaled(p, p.upper, x), among)
        if math.isnan(below + above):
            given_up += 1
            continue
        worst = max(worst, abs(below), abs(above))
        assert below == pytest.approx(0, abs=1e-6), (p.seed, p.kind)
        assert above == pytest.approx(0, abs=1e-5), (p.seed, p.kind)
    print(
        f"\nconic solver: both optima within {worst:.1e} of the planted ones, {given_up} given up"
    )
    assert given_up <= number // 50


def test_the_penalty_path_knows_nothing_of_the_multipliers_and_agrees(count: Count) -> None:
    """f* >= (min over Z of g + eta f, minus g*)/eta, and the right side tends to f*."""
    gaps, eta = [], 1e-3
    for p in problems(count(16, 208)):
        u = cp.Variable(p.n)
        x = p.x_star + p.unit * u
        both = scaled(p, p.lower, x) + eta * scaled(p, p.upper, x)
        value = solved(both, p.region.conic(cp, x))
        assert value <= 1e-6, (p.seed, p.kind)  # x* itself has 0; the solver is not exact
        gaps.append(-value / eta)
    assert np.median(gaps) < 1e-2


def test_the_same_seed_gives_the_same_problem() -> None:
    for seed in range(8):
        a, b = planted_composite(seed), planted_composite.__wrapped__(seed)
        assert a is not b
        assert (a.kind, a.f_star, a.g_star) == (b.kind, b.f_star, b.g_star)
        assert np.array_equal(a.x0, b.x0)
        assert isinstance(a.problem(), tb.Problem)
