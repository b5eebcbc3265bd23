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
from tiebreak.linalg.exact_sums import exact_products
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


def test_the_way_is_left_where_a_level_has_no_minimiser():
    falls = tb.Levels(
        tb.Linear([1.0, 0.0]), tb.Linear([0.0, -1.0]), tb.Linear([1.0, 1.0]),
        domain=tb.Polyhedron([[-1.0, 0.0]], [0.0]),
    )  # fmt: skip
    assert tb.solve(falls).status == "unbounded"
    empty = tb.Box(0.0, 1.0) & tb.Polyhedron([[1.0, 1.0]], [-1.0])
    levels = [tb.Linear([1.0, 1.0]), tb.Linear([1.0, 0.0]), tb.Linear([0.0, 1.0])]
    assert tb.solve(tb.Levels(*levels, domain=empty)).status == "infeasible"


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
