"""Chains of linear levels: the same answers whoever solves them, and words that hold."""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import tiebreak as tb
from tiebreak.conic import chain as chains
from tiebreak.conic import method, polish
from tiebreak.conic.linear_chain import linear_chain
from tiebreak.conic.polish import PrimalDualPoint, SolvedStage
from tiebreak.conic.program import Cone, Objective
from tiebreak.conic.representation import compile_levels
from tiebreak.conic.stage import Stage
from tiebreak.exact.bounds import intervals
from tiebreak.linalg.conic_form import scaled_rows
from tiebreak.linalg.host_rows import exact_products
from tiebreak.linalg.rank import sparse_nullity


def drawn(seed: int, n: int = 60, m: int = 25, slack: float = 0.0) -> tb.Levels:
    rng = np.random.default_rng([32, seed])
    rows = sp.random_array((m, n), density=0.15, rng=rng, format="csr")
    rows.data = rng.integers(1, 4, rows.nnz).astype(float)
    planted = (rng.random(n) < 0.4) * rng.integers(1, 4, n).astype(float)
    most = rows @ planted + (rng.random(m) < 0.5) * rng.integers(0, 3, m)
    costs = [-rng.integers(0, 3, n).astype(float) for _ in range(4)]
    levels = [tb.Level(tb.Linear(c), slack=tb.Slack(relative=slack)) for c in costs[:-1]]
    domain = tb.Box(0.0, 5.0) & tb.Polyhedron(rows, most)
    return tb.Levels(*levels, tb.Linear(costs[-1]), domain=domain)


@pytest.mark.parametrize("slack", [0.0, 0.02])
@pytest.mark.parametrize("seed", range(4))
def test_highspy_scipy_and_cones_give_one_answer(monkeypatch, seed, slack):
    levels = drawn(seed, slack=slack)
    ours = tb.solve(levels)
    assert ours.x.tolist() == tb.solve(levels).x.tolist()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "highspy", None)
        others = [tb.solve(levels)]
    monkeypatch.setattr(chains, "linear_chain", lambda *_: None)
    others.append(tb.solve(levels))
    for other in others:
        assert other.status in ("solved", "certified")
        assert other.x == pytest.approx(ours.x, abs=1e-7)
        for one, two in zip(ours.levels.values(), other.levels.values(), strict=True):
            assert one.best[0] <= two.best[1]
            assert two.best[0] <= one.best[1]
            assert one.value == pytest.approx(two.value, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_of_ties_the_shortest_point_is_chosen_also_on_rows_that_are_zero(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (5, 12)).astype(float)
    costs = [np.repeat(sign * rng.integers(0, most, 4), 3) for sign, most in ((-1.0, 2), (1.0, 3))]
    domain = tb.Box(0.0, 5.0) & tb.Polyhedron(rows, rows @ rng.integers(0, 3, 12))
    program = compile_levels([tb.Linear(cost) for cost in costs], domain, 12)
    ours = chains.solve_chain(program, [None])
    monkeypatch.setattr(chains, "linear_chain", lambda *_: None)
    other = chains.solve_chain(program, [None])
    assert ours.status == other.status == "solved"
    assert ours.method != other.method
    assert ours.z == pytest.approx(other.z, abs=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_linear_levels_are_the_same_before_a_level_that_is_not(seed):
    """The cones hold sparse faces here; seed 3 once moved entries of the third level's rows."""
    rng, (m, n) = np.random.default_rng(seed), (60, 150)
    rows = sp.random_array((m, n), density=0.2, rng=rng, format="csr")
    rows.data = rng.integers(1, 4, rows.nnz).astype(float)
    planted = (rng.random(n) < 0.3) * rng.integers(1, 4, n).astype(float)
    most = rows @ planted + (rng.random(m) < 0.5) * rng.integers(0, 3, m)
    domain = tb.Box(0.0, np.where(rng.random(n) < 0.5, 1e4, 5.0)) & tb.Polyhedron(rows, most)
    costs = [tb.Linear(-rng.integers(0, 3, n).astype(float)) for _ in range(3)]
    last = tb.LeastSquares(sp.eye_array(n, format="csr"), rng.integers(0, 3, n).astype(float))
    alone, mixed = (tb.solve(tb.Levels(*some, domain=domain)) for some in (costs, [*costs, last]))
    assert mixed.status == alone.status == "solved"
    for one, two in zip(alone.levels.values(), mixed.levels.values(), strict=False):
        assert two.value == pytest.approx(one.value, rel=1e-10)


def test_a_scaled_copy_of_sparse_rows_shares_nothing_with_them():
    rows = sp.csr_array(([1.0, 2.0, 3.0], [2, 0, 1], [0, 2, 3]), shape=(2, 3))  # not sorted
    before = rows.toarray()
    scaled_rows(rows, np.array([1.0, 2.0])).sort_indices()
    assert np.array_equal(rows.toarray(), before)
    objective = Objective(sp.csr_array((0, 3)), np.zeros(0), np.ones(3))
    offset = np.array([1.0, 1e6])
    stage = Stage(objective, rows, offset, (Cone("nonnegative", 2),), np.zeros(2), 1.0)
    near = stage.without_far_bounds()
    assert near is not None
    assert near.row_sizes.shape == rows.shape  # of which SciPy sorts the rows in place
    assert np.array_equal(stage.rows.toarray(), before)


def test_intervals_contain_the_values_of_sequential_programs():
    for seed in range(6):
        levels = drawn(seed)
        rows, most = levels.domain.parts[1].A, levels.domain.parts[1].b
        result, cuts, limits = tb.solve(levels), [], []
        for level, report in zip(levels.levels, result.levels.values(), strict=True):
            cost = level.objective.c
            found = linprog(
                cost, sp.vstack([rows, *cuts]), np.append(most, limits), bounds=(0.0, 5.0)
            )
            assert report.best[0] - 1e-6 <= found.fun <= report.best[1] + 1e-6
            cuts.append(sp.csr_array(cost[None]))
            limits.append(found.fun + 1e-9)


def test_proved_intervals_contain_least_values_whose_sums_round(count):
    """A total less an error below half an ulp is the total again: both ends must move outwards."""
    for seed in range(count(40, 300)):
        rng = np.random.default_rng([33, seed])
        c, low = rng.standard_normal((3, 12)), rng.standard_normal(12)
        high = low + rng.random(12)
        levels = tb.Levels(*map(tb.Linear, c), domain=tb.Box(low, high))
        found = tb.solve(levels, "conic").levels["level 1"]
        least = sum(min(Fraction(w) * Fraction(a), Fraction(w) * Fraction(b))
                    for w, a, b in zip(c[0], low, high, strict=True))  # fmt: skip
        assert found.best[0] <= least <= found.best[1], seed


def test_the_way_is_left_where_a_level_has_no_minimiser():
    falls = tb.Levels(
        tb.Linear([1.0, 0.0]), tb.Linear([0.0, -1.0]), tb.Linear([1.0, 1.0]),
        domain=tb.Polyhedron([[-1.0, 0.0]], [0.0]),
    )  # fmt: skip
    assert tb.solve(falls).status == "unbounded"
    empty = tb.Box(0.0, 1.0) & tb.Polyhedron([[1.0, 1.0]], [-1.0])
    levels = [tb.Linear([1.0, 1.0]), tb.Linear([1.0, 0.0]), tb.Linear([0.0, 1.0])]
    assert tb.solve(tb.Levels(*levels, domain=empty)).status == "infeasible"


def network(seed: int, nodes: int = 30, arcs: int = 220) -> tuple[list[tb.Linear], tb.Domain]:
    """Costs of flows with bounds; too many variables for rational arithmetic."""
    rng = np.random.default_rng([33, seed])
    start = rng.integers(0, nodes, arcs)
    end = (start + rng.integers(1, nodes, arcs)) % nodes
    places = np.append(start, end), np.tile(np.arange(arcs), 2)
    rows = sp.csr_array((np.repeat([1.0, -1.0], arcs), places), shape=(nodes, arcs))[:-1]
    right = rows @ rng.integers(0, 6, arcs).astype(float)
    domain = tb.Box(0.0, 8.0) & tb.Polyhedron(A_eq=rows, b_eq=right)
    return [tb.Linear(rng.integers(0, 4, arcs).astype(float)) for _ in range(4)], domain


@pytest.mark.parametrize("seed", range(3))
def test_networks_are_proved_without_any_width_at_every_level(seed):
    costs, domain = network(seed)
    problem = tb.Problem(lower=costs[0], upper=costs[1], domain=domain)
    pair = tb.solve(problem)
    assert pair.status == "certified"
    assert pair.upper_optimum[0] == pair.upper_optimum[1]
    cuts, limits = [], []
    for count in (2, 3, 4):
        found = tb.solve(tb.Levels(*costs[:count], domain=domain))
        assert found.status == "certified"
        assert all(level.best[0] == level.best[1] for level in found.levels.values())
    of_set = {"A_eq": domain.parts[1].A_eq, "b_eq": domain.parts[1].b_eq, "bounds": (0.0, 8.0)}
    for cost, level in zip(costs, found.levels.values(), strict=True):
        rows = sp.vstack(cuts) if cuts else None
        least = linprog(cost.c, rows, limits or None, **of_set).fun
        assert level.best[0] == pytest.approx(least, abs=1e-6)  # costs and flows are whole numbers
        cuts.append(sp.csr_array(cost.c[None]))
        limits.append(least + 1e-9)
    assert pair.upper_optimum[0] == list(found.levels.values())[1].best[0]


def test_a_point_is_a_minimiser_of_held_levels_only_if_that_is_exact():
    costs, domain = network(0)
    chain = linear_chain(compile_levels(costs, domain, 220), [None] * 4)
    vertices = [(chain.level(number), chain.z)[1] for number in range(4)]
    assert all(level.word == "proved" for level in chain.found)
    held = chain.held
    for number, z in enumerate(vertices):
        chain.held = held[: number + 1]
        assert chain._is_inside(z)
        chain.held = held
        values = [costs[k].c @ z > level.best for k, level in enumerate(chain.found)]
        assert chain._is_inside(z) == (not any(values))
    moved = vertices[-1].copy()
    moved[np.flatnonzero(moved)[0]] += 2.0**-40
    assert not chain._is_inside(moved)


def test_products_are_exact_or_refused():
    rng = np.random.default_rng(5)
    for _ in range(200):
        rows = sp.csr_array(rng.integers(-9, 9, (3, 5)) * 2.0 ** rng.integers(-40, 20, (3, 5)))
        x = rng.integers(-9, 9, 5) * 2.0 ** rng.integers(-20, 20, 5)
        found = exact_products(rows, x)
        if found is not None:
            dense = rows.toarray()
            exact = [sum(Fraction(a) * Fraction(v) for a, v in zip(r, x)) for r in dense]  # noqa: B905
            assert [Fraction(v) for v in found] == exact
    assert exact_products(sp.csr_array([[1.0, 1.0]]), np.array([1.0, 2.0**-60])) is None


def test_a_sparse_nullity_is_that_of_singular_values():
    rng = np.random.default_rng(6)
    for rank in (0, 3, 17, 40):
        left, right = rng.normal(size=(60, rank)), rng.normal(size=(rank, 40))
        assert sparse_nullity(sp.csr_array(left @ right)) == 40 - rank
        assert sparse_nullity(sp.csr_array((left @ right).T)) == 60 - rank


@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-7, 1e-9, 0.0])
def test_rows_that_are_nearly_the_same_are_not_counted_as_one(apart):
    rows = np.ones((3, 6))
    rows[1, 1] += apart
    rows[2] = rows[0] + 3.0 * rows[1]
    found = sparse_nullity(sp.csr_array(rows)), sparse_nullity(sp.csr_array(rows.T))
    assert found in {1e-3: [(4, 1)], 0.0: [(5, 2)]}.get(apart, [(None, None)])


def test_long_chains_of_differences_leave_one_direction():
    D = sp.diags_array([-np.ones(10_000), np.ones(10_000)], offsets=[0, 1], shape=(9_999, 10_000))
    assert sparse_nullity(D) == 1
    assert sparse_nullity(sp.vstack([D, D]).tocsr()) == 1


def test_the_dimension_of_a_plan_does_not_count_nearly_equal_rows_as_one():
    rows = np.ones((2, 6))
    rows[1, 1] += 1e-5  # so the second entry of x is 0, and 4 directions are left
    domain = tb.Polyhedron(A_eq=sp.csr_array(rows), b_eq=[1.0, 1.0])
    flat = tb.Linear(np.zeros(6))
    found = tb.solve(tb.Problem(lower=flat, upper=flat, domain=domain), method="conic")
    assert found.dimension in (4, None)


@pytest.mark.parametrize("has_equation", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_two_levels_are_proved_with_the_multipliers_of_the_solver(monkeypatch, seed, has_equation):
    rng = np.random.default_rng([33, seed])
    levels = drawn(seed)
    costs = [level.objective.c + 0.1 * rng.random(60) for level in levels.levels[:2]]
    domain = levels.domain
    if has_equation:
        row = rng.integers(1, 3, (1, 60)).astype(float)
        domain = domain & tb.Polyhedron(A_eq=row, b_eq=[5.0])
    problem = tb.Problem(lower=tb.Linear(costs[0]), upper=tb.Linear(costs[1]), domain=domain)
    normals = []

    def noted(problem, x, normal=None):
        normals.append(normal)
        return intervals.prove_at(problem, x, normal)

    monkeypatch.setattr(method, "prove_at", noted)
    found = tb.solve(problem, method="conic")
    (normal,) = normals
    left = -costs[1] - normal  # what the equations of the set balance
    rows = [left, row[0]] if has_equation else [left]
    assert np.linalg.matrix_rank(rows, tol=1e-9) <= has_equation
    others = intervals.prove_at(problem, found.x)  # with multipliers by least squares
    mine = intervals.prove_at(problem, found.x, normal)
    assert mine.is_two_sided == others.is_two_sided == (found.status == "certified")
    assert [*mine.upper, mine.lower] == pytest.approx([*others.upper, others.lower], abs=1e-6)


def test_faces_are_polished_only_once(monkeypatch):
    tried = []

    def failed(stage, active, start):
        tried.append(active.key)
        return SolvedStage(stage, start, active, 1.0), start

    monkeypatch.setattr(polish, "_newton", failed)
    monkeypatch.setattr(polish, "_exchanged", lambda stage, active, last: active)
    objective, zero = Objective(np.eye(3), np.ones(3), np.zeros(3)), np.zeros(3)
    stage = Stage(objective, np.eye(3), zero, (Cone("nonnegative", 3),), zero, 1.0)
    polish.polished(stage, PrimalDualPoint(zero, np.ones(3)))
    *faces, _ = tried  # the last try begins at another point
    assert len(faces) == len(set(faces)) <= 2


def test_the_end_of_a_slack_is_not_rounded() -> None:
    """40 + 1e-6 is not a float: the second level is bounded on both sides of this sum."""
    domain = tb.Polyhedron([[-1, 0], [-3, -3]], [-8, -7]) & tb.Box(0.0, 20.0)
    costs = tb.Linear([5.0, 1.0]), tb.Linear([-3.0, -3.0])
    found = chains.solve_chain(compile_levels(costs, domain, 2), [lambda *_: 1e-6])
    assert found.levels[0].best == 40.0
    least = -24 - 3 * Fraction(1e-6)  # x = (8, 1e-6)
    level = found.levels[1]
    assert Fraction(level.bound) <= least <= Fraction(level.best) + Fraction(level.error)


@pytest.mark.parametrize("entry", [3, 5, 6, 7, 9, 49])
def test_a_bound_of_a_variable_that_is_not_a_float_is_rounded_outwards(entry: int) -> None:
    domain = tb.Polyhedron([[float(entry), 0.0]], [1.0]) & tb.Box(0.0, 5.0)
    costs = tb.Linear([-1.0, 0.0]), tb.Linear([0.0, -1.0])
    first, _ = chains.solve_chain(compile_levels(costs, domain, 2), [None]).levels
    assert Fraction(first.bound) <= Fraction(-1, entry) <= Fraction(first.best + first.error)
    assert first.best - first.bound < 1e-15


@pytest.mark.parametrize("level", [0.3, 0.1, 0.5])
@pytest.mark.parametrize("weight", [1.0, 10.0, 1.1])
def test_costs_that_nearly_cancel_are_within_their_misfit(level: float, weight: float) -> None:
    """Of 500 rows: the signs of all residuals are known, so the loss is linear."""
    rng, m = np.random.default_rng(7), 500
    A, b, c = rng.random((m, 2)), -1.0 - rng.random(m), rng.random(2)
    slope = -weight * (1.0 - level) * A.sum(axis=0) + c / 1e6
    loss = tb.Quantile(A, b, level, weights=np.full(m, weight))
    constant = weight * (1.0 - level) * float(b.sum())
    cost = loss + 0.7 * tb.Linear(slope / 0.7, constant=constant / 0.7)
    (h,) = compile_levels([cost], tb.Box(0.0, 1.0), 2).objectives
    for x in ([0.0, 0.0], [1.0, 1.0], [0.1, 0.7]):
        z = [Fraction(v) for v in x]
        rows = (a[0] * z[0] + a[1] * z[1] for a in (list(map(Fraction, a)) for a in A))
        losses = sum((row - Fraction(v) for row, v in zip(rows, b, strict=True)), Fraction(0))
        linear = sum(Fraction(v) * w for v, w in zip(slope / 0.7, z, strict=True))
        true = Fraction(weight) * (1 - Fraction(level)) * losses
        true += Fraction(0.7) * (linear + Fraction(constant / 0.7))
        found = sum(Fraction(q) * v for q, v in zip(h.linear, z, strict=True))
        assert abs(true - found - Fraction(h.constant)) <= Fraction(h.misfit(np.array(x)))
        assert h.misfit(np.array(x)) < 1e-14 * float(losses) * weight * 10


def test_costs_of_few_digits_have_no_misfit() -> None:
    center = np.array([-1.0, -2.5])
    costs = tb.L1(2.0, center), 3.0 * tb.Linear([0.75, 2.0], constant=-6.5) + tb.L1(0.5)
    objectives = compile_levels([*costs, tb.Linear([0.1, 0.3])], tb.Box(0.0, 1.0), 2).objectives
    assert not any(h.misfits for h in objectives)


def test_intervals_count_the_rounding_of_the_costs() -> None:
    m = 30_000
    loss = tb.Quantile(sp.csr_array(np.full((m, 1), 0.1)), np.full(m, -1.0), 0.3)
    slope, constant = -2099.99, -21000.0
    level = tb.Level(loss + tb.Linear([slope], constant=constant), "cost", slack=1e-3)
    domain = tb.Box(np.array([0.25]), 1.0)
    found = tb.solve(tb.Levels(level, tb.Linear([-1.0]), domain=domain))
    x = Fraction(1, 4)
    least = m * (1 - Fraction(0.3)) * (Fraction(0.1) * x + 1) + Fraction(slope) * x + int(constant)
    cost = found.levels["cost"]
    assert cost.word == "proved"
    assert Fraction(cost.best[0]) <= least <= Fraction(cost.best[1])
    assert cost.best[1] - cost.best[0] < 1e-9
    assert found.x[0] == pytest.approx(0.35, abs=1e-6)  # the slope is 0.01
