"""The planted answers are right: checked without tiebreak, mostly in rational arithmetic."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from planted.smooth import (
    DOMAINS,
    EPS,
    LOWER,
    UPPER,
    Function,
    Planted,
    Region,
    dot,
    fractions,
    kinds,
    linear,
    lower_minimisers,
    null_space,
    planted,
    project_monotone,
    wrong_points,
)

Count = Callable[[int, int], int]


# --- the normal cone, from the definition of each set ------------------------------------------


def arguments(Z: Region) -> dict[str, Any]:
    """The arguments that the library's constructor is given."""
    return dict(
        Z.build(
            SimpleNamespace(
                Space=dict,
                Orthant=dict,
                Monotone=dict,
                Ball=lambda radius, center: {"radius": radius, "center": center},
                Box=lambda lower, upper: {"lower": lower, "upper": upper},
                Simplex=lambda total: {"total": total},
                L1Ball=lambda radius: {"radius": radius},
                Halfspace=lambda normal, offset: {"normal": normal, "offset": offset},
            )
        )
    )


def is_normal(Z: Region, v: list[Fraction]) -> bool:
    """Is <v, x*> = max over Z of <v, x>?  Exactly."""
    x, at = fractions(Z.x_star), arguments(Z)
    n = len(x)
    here = dot(v, x)
    if Z.kind == "Space":
        return not any(v)
    if Z.kind == "Ball":
        center = fractions(np.zeros(n) if at["center"] is None else at["center"])
        along = here - dot(v, center)
        return along >= 0 and along**2 == dot(v, v) * Fraction(at["radius"]) ** 2
    if Z.kind == "Box":
        low, high = (fractions(np.broadcast_to(at[name], n)) for name in ("lower", "upper"))
        return here == sum(max(t * a, t * b) for t, a, b in zip(v, low, high, strict=True))
    if Z.kind == "Orthant":
        return max(v) <= 0 and here == 0
    if Z.kind == "Simplex":
        return here == Fraction(at["total"]) * max(v)
    if Z.kind == "L1Ball":
        return here == Fraction(at["radius"]) * max(abs(t) for t in v)
    if Z.kind == "Monotone":
        sums = [sum(v[: k + 1], Fraction(0)) for k in range(n)]
        return sums[-1] == 0 and min(sums) >= 0 and here == 0
    assert Z.kind == "Halfspace"
    a = fractions(at["normal"])
    j = next(j for j, t in enumerate(a) if t)
    mu = v[j] / a[j]
    room = Fraction(at["offset"]) - dot(a, x)
    return mu >= 0 and mu * room == 0 and v == [mu * t for t in a]


def negative(v: list[Fraction]) -> list[Fraction]:
    return [-t for t in v]


# --- the planting ------------------------------------------------------------------------------


def test_every_combination_of_kinds_occurs() -> None:
    full = len(DOMAINS) * len(LOWER)
    assert len({kinds(seed)[1:] for seed in range(full)}) == full
    assert len({kinds(seed) for seed in range(full * len(UPPER))}) == full * len(UPPER)
    found = {planted(seed).kind for seed in range(full)}
    for name in DOMAINS:
        assert any(kind.endswith(f" on {name}") for kind in found)
    for name in LOWER:
        assert any(f" over {name} on " in kind for kind in found)
    for name in set(UPPER) - {"at rest"}:
        assert any(kind.startswith(f"{name} over ") for kind in found)


def test_the_same_seed_gives_the_same_problem() -> None:
    for seed in range(16):
        a, b = planted(seed), planted.__wrapped__(seed)  # the first may come from the cache
        assert a is not b
        assert a.kind == b.kind
        assert (a.f_star, a.g_star, a.L_f, a.L_g) == (b.f_star, b.g_star, b.L_f, b.L_g)
        assert np.array_equal(a.x0, b.x0)
        assert a.g(a.x0) == b.g(b.x0)


@pytest.mark.full  # of what is planted, not of the library
def test_the_sample_has_the_cases_that_matter() -> None:
    found = [planted(seed) for seed in range(208)]
    assert {p.n for p in found} == {1, 2, 3, 5, 8, 12, 40}
    assert sum(p.dimension == 0 for p in found) > 10
    assert sum((p.dimension or 0) > 0 for p in found) > 40
    assert sum(np.array_equal(p.x0, p.x_star) for p in found) > 10
    assert sum(bool(p.grad_g(p.x_star).any()) for p in found) > 40
    assert sum(p.region.hull is None for p in found) > 40
    moved = [p for p in found if any(p.f(x) < p.f_star for _, x in wrong_points(p, rng_of(p)))]
    assert len(moved) > 100  # f alone would choose something else
    for sizes in ([p.L_f for p in found], [p.L_g for p in found], [p.unit for p in found]):
        assert max(sizes) > 1e4 * min(s for s in sizes if s > 0)


def rng_of(p: Planted) -> np.random.Generator:
    return np.random.default_rng(p.seed)


def test_x_star_is_feasible_and_minimises_the_lower_level_exactly(count: Count) -> None:
    for seed in range(count(104, 3000)):
        p = planted(seed)
        assert p.region.contains(fractions(p.x_star)), p.kind
        assert is_normal(p.region, negative(p.lower.exact(p.x_star)[1])), p.kind


def test_the_exact_check_notices_a_spoiled_gradient() -> None:
    noticed = 0
    for seed in range(104):
        p = planted(seed)
        v = negative(p.lower.exact(p.x_star)[1])
        size = max([abs(t) for t in v] + [Fraction(1)])
        for j in range(p.n):
            for sign in (-1, 1):
                spoiled = [*v[:j], v[j] + sign * size / 2**60, *v[j + 1 :]]
                noticed += not is_normal(p.region, spoiled)
    assert noticed > 500


def test_x_star_is_a_fixed_point_of_the_slow_projection(count: Count) -> None:
    for seed in range(count(52, 2000)):
        p = planted(seed)
        slope = np.array([float(t) for t in p.lower.exact(p.x_star)[1]])
        size = float(np.linalg.norm(slope))
        for t in (1e-3, 1.0, 10.0) if size else (1.0,):
            moved = p.region.project(p.x_star - t * p.unit * slope / (size or 1.0))
            assert np.abs(moved - p.x_star).max() <= 1e-13 * p.unit * (t + 100), p.kind


def test_the_slow_projections_project() -> None:
    for seed in range(104):
        p = planted(seed)
        rng = rng_of(p)
        v = p.x_star + 5 * p.unit * rng.standard_normal(p.n)
        at = p.region.project(v)
        size = float(np.linalg.norm(v) + np.linalg.norm(at))
        assert np.abs(p.region.project(at) - at).max() <= 1e-14 * size
        for _ in range(10):
            z = p.region.sample(rng)
            room = size * (np.linalg.norm(z) + size)
            assert (v - at) @ (z - at) <= 1e-13 * room, p.kind
    assert project_monotone(np.array([3.0, 1.0, 2.0])) == pytest.approx([2.0, 2.0, 2.0])


def test_no_point_of_the_domain_is_better_for_the_lower_level(count: Count) -> None:
    for seed in range(count(52, 2000)):
        p = planted(seed)
        rng = rng_of(p)
        for _ in range(5):
            x = p.region.sample(rng)
            assert np.abs(p.region.project(x) - x).max() <= 1e-14 * (np.abs(x).max() + p.unit)
            for t in (1.0, 1e-2, 1e-4):  # also near x*
                z = p.x_star + t * (x - p.x_star)
                assert p.g(z) >= p.g_star - 8 * EPS * (p.g_scale + abs(p.g(z))), p.kind


def test_lower_minimisers_are_lower_minimisers_and_none_is_better(count: Count) -> None:
    found = 0
    for seed in range(count(52, 3000)):
        p = planted(seed)
        for x in lower_minimisers(p, rng_of(p), 6):
            found += 1
            assert p.region.contains(fractions(x))
            slack = 64 * EPS * (p.g_scale + p.L_g * float(x @ x + p.x_star @ p.x_star))
            assert p.g(x) == pytest.approx(p.g_star, rel=0, abs=slack), p.kind
            try:  # least squares, quadratics, Huber: exact at every point
                assert p.upper.exact(x)[0] >= p.upper.exact(p.x_star)[0], p.kind
            except ArithmeticError:
                size = p.f_scale + float(np.abs(p.grad_f(x)) @ np.abs(x)) + abs(p.f(x))
                assert p.f(x) >= p.f_star - 8 * EPS * size, p.kind
    assert found > count(150, 300)


def test_the_dimension_is_that_of_the_minimisers_found(count: Count) -> None:
    for seed in range(0, 104, count(3, 1)):
        p = planted(seed)
        found = list(lower_minimisers(p, rng_of(p), 10))
        if p.dimension == 0:
            assert not found
        elif p.dimension:
            moves = np.array([x - p.x_star for x in found]) / p.unit
            assert len(found) > 0 or p.n > 8, p.kind
            assert not found or np.linalg.matrix_rank(moves) <= p.dimension


def test_the_lower_level_curves_along_all_the_rows(count: Count) -> None:
    """Ties agree on the rows only if g is strictly convex there: the rank of its Hessian at x*,
    by differences of numpy's gradients, is that of the rows (sums mix scales too much to tell)."""
    checked = 0
    for seed in range(count(104, 2000)):
        p = planted(seed)
        if kinds(seed)[1] == "sum" or " over Linear" in p.kind:
            continue
        h = 1e-3 * p.unit
        ends = [[p.grad_g(p.x_star + s * h * e) for e in np.eye(p.n)] for s in (-1, 1)]
        hessian = (np.array(ends[1]) - np.array(ends[0])) / (2 * h)
        rank = p.n - len(null_space(p.rows))
        assert np.linalg.matrix_rank(hessian, tol=1e-8 * p.L_g) == rank, (seed, p.kind)
        checked += 1
    assert checked > count(75, 150)


# --- a conic solver agrees ---------------------------------------------------------------------


def conic_minimum(p: Planted, function: Function, among_ties: bool) -> float:
    """The minimum over Z, or over the lower level's minimisers, in units of the function's size."""
    u = cp.Variable(p.n)
    x = p.x_star + p.unit * u  # numbers near 1
    constraints = p.region.conic(cp, x)
    if among_ties:
        if len(p.rows):
            constraints.append(p.rows @ u == 0)
        push = np.array([float(s) for s in p.lower.exact(p.x_star)[1]])
        # <grad g(x*), z - x*> = 0 for minimisers z
        if push.any():
            constraints.append((push / np.abs(push).max()) @ u == 0)
    best, size = optimum(p, function)
    objective = (function.conic(cp, x) - best / function.weight) / (size / function.weight)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL)
    assert problem.status in ("optimal", "optimal_inaccurate"), (p.seed, p.kind, problem.status)
    return float(problem.value)


def optimum(p: Planted, function: Function) -> tuple[float, float]:
    best, slope, scale = function.exact(p.x_star)
    size = float(scale) + p.unit * float(sum(abs(t) for t in slope))
    return float(best), size + function.lipschitz * p.unit**2


def test_a_conic_solver_finds_the_same_two_optima(count: Count) -> None:
    for seed in range(count(16, 600)):
        p = planted(seed)
        assert conic_minimum(p, p.lower, among_ties=False) == pytest.approx(0, abs=1e-6), p.kind
        assert conic_minimum(p, p.upper, among_ties=True) == pytest.approx(0, abs=1e-6), p.kind


def test_no_direction_among_the_ties_lowers_the_upper_level(count: Count) -> None:
    """min <grad f(x*), x - x*> over the ties is 0: sharper than comparing values."""
    for seed in range(count(16, 600)):
        p = planted(seed)
        slope = p.grad_f(p.x_star)
        if slope.any():
            function = Function([(1.0, linear(slope / np.abs(slope).max() / p.unit))])
            assert conic_minimum(p, function, among_ties=True) >= -1e-7, p.kind


def test_the_penalty_path_knows_nothing_of_the_rows_and_agrees(count: Count) -> None:
    """f* >= (min over Z of g + eta f, minus g*)/eta, and the right side tends to f*."""
    gaps = []
    for seed in range(count(30, 400)):
        p = planted(seed)
        (f, f_size), (g, g_size) = optimum(p, p.upper), optimum(p, p.lower)
        u = cp.Variable(p.n)
        x = p.x_star + p.unit * u
        upper = (p.upper.conic(cp, x) - f / p.upper.weight) / (f_size / p.upper.weight)
        lower = (p.lower.conic(cp, x) - g / p.lower.weight) / (g_size / p.lower.weight)
        eta = 1e-3
        problem = cp.Problem(cp.Minimize(lower + eta * upper), p.region.conic(cp, x))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.solve(solver=cp.CLARABEL)
        if problem.status == "optimal":
            gaps.append(-float(problem.value) / eta)
            assert problem.value <= 1e-5, p.kind  # x* itself has 0; the solver is not exact
    assert len(gaps) > count(20, 40)
    assert np.median(gaps) < 1e-2


# --- the numpy versions ------------------------------------------------------------------------


def test_numpy_values_at_x_star_agree_with_the_exact_ones(count: Count) -> None:
    for seed in range(count(104, 3000)):
        p = planted(seed)
        for function, best, scale in (
            (p.upper, p.f_star, p.f_scale),
            (p.lower, p.g_star, p.g_scale),
        ):
            assert abs(function.value(p.x_star) - best) <= 4 * EPS * scale, p.kind
            gradient = np.array([float(t) for t in function.exact(p.x_star)[1]])
            room = function.lipschitz * np.abs(p.x_star).max() + np.abs(gradient).max() + scale
            assert np.abs(function.gradient(p.x_star) - gradient).max() <= 1e-13 * room, p.kind


def test_gradients_are_those_of_the_values_and_lipschitz(count: Count) -> None:
    for seed in range(count(52, 1000)):
        p = planted(seed)
        rng = rng_of(p)
        for function in (p.upper, p.lower):
            x, d = p.region.sample(rng), rng.standard_normal(p.n)
            d *= p.unit / np.linalg.norm(d)
            h = 1e-4
            ends = [function.value(x + s * h * d) for s in (-1, 1)]
            slope = float(function.gradient(x) @ d)
            room = function.lipschitz * p.unit**2 + abs(slope)
            rounding = 1e-14 * (max(map(abs, ends)) + optimum(p, function)[1]) / h
            rounding += 1e-14 * function.lipschitz * float(x @ x) / h
            assert abs((ends[1] - ends[0]) / (2 * h) - slope) <= h * room + rounding, p.kind
            z = p.region.sample(rng)
            change = np.linalg.norm(function.gradient(x) - function.gradient(z))
            size = np.linalg.norm(function.gradient(x)) + np.linalg.norm(function.gradient(z))
            limit = function.lipschitz * np.linalg.norm(x - z)
            assert change <= limit * (1 + 1e-12) + 1e-12 * size, p.kind


def test_wrong_points_are_in_the_domain_and_wrong(count: Count) -> None:
    labels: dict[str, int] = {}
    for seed in range(count(52, 1000)):
        p = planted(seed)
        for label, x in wrong_points(p, rng_of(p)):
            labels[label] = labels.get(label, 0) + 1
            assert np.abs(p.region.project(x) - x).max() <= 1e-13 * (np.abs(x).max() + p.unit)
            assert p.g(x) > p.g_star or p.f(x) > p.f_star, p.kind
            assert p.g(x) >= p.g_star - 1e-13 * p.g_scale, p.kind
    expected = ["random point", "lower minimiser", "towards the upper minimiser", "x* perturbed"]
    assert sorted(labels) == sorted(expected)
    assert min(labels.values()) > 50


def test_null_space() -> None:
    rows = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 1.0]])
    (d,) = null_space(rows)
    assert d == [-1, -1, 1]
    assert null_space(np.eye(3)) == []
    assert len(null_space(np.zeros((0, 4)))) == 4


def test_the_library_is_given_the_same_functions_and_the_same_set(count: Count) -> None:
    for seed in range(count(52, 1000)):
        p = planted(seed)
        rng = rng_of(p)
        problem = p.problem()
        for x in (p.x_star, p.x0, p.region.sample(rng)):
            for ours, theirs in ((p.upper, problem.upper), (p.lower, problem.lower)):
                size = optimum(p, ours)[1] + abs(ours.value(x)) + ours.lipschitz * float(x @ x)
                assert abs(float(theirs.value(x)) - ours.value(x)) <= 1e-14 * size, p.kind
                slope = ours.gradient(x)
                room = np.abs(slope).max() + ours.lipschitz * (np.abs(x).max() + p.unit)
                assert np.abs(theirs.gradient(x) - slope).max() <= 1e-12 * room, p.kind
                assert theirs.lipschitz >= ours.lipschitz * (1 - 1e-12), p.kind
            v = x + 5 * p.unit * rng.standard_normal(p.n)
            off = np.abs(problem.domain.project(v) - p.region.project(v)).max()
            assert off <= 1e-12 * np.abs(v).max(), p.kind
