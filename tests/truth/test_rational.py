"""The rational solver against closed forms, against vertices, and against itself."""

from __future__ import annotations

import itertools
from fractions import Fraction as F

import numpy as np
import pytest
from helpers import rational
from helpers.rational import Allowance, Region, fractions

NONE = Allowance()


def chain(region, *levels):
    return rational.solve(region, [h if isinstance(h, tuple) else (h, NONE) for h in levels])


def box(n, low=-1.0, high=1.0):
    region = Region(n)
    region.add_bounds([low] * n, [high] * n)
    return region


def test_least_norm_solution_of_one_equation():
    fit = rational.least_squares([[1.0, 2.0, 2.0]], [9.0])
    found = chain(Region(3), fit)
    assert found.values == [0]
    assert found.x == [1, 2, 2]


def test_nearest_point_of_the_simplex():
    region = Region(3)
    region.add_bounds([0.0] * 3, [np.inf] * 3)
    region.add_equal([[1.0, 1.0, 1.0]], [1.0])
    found = chain(region, rational.linear([1, 1, 2]), rational.squared_norm(3, 1, [1, 0.5, 0]))
    assert found.x == [F(3, 4), F(1, 4), 0]
    assert found.values == [1, F(1, 16)]


def test_median_and_huber_in_one_variable():
    rows, b = [[1.0]] * 3, [0.0, 1.0, 9.0]
    assert chain(Region(1), rational.l1(1, 1.0, b, rows)).x == [1]
    # 2 x - 1 - 2 = 0: the outlier pulls with force 2, the others with x and x - 1.
    assert chain(Region(1), rational.huber(rows, b, 2.0)).x == [F(3, 2)]


def test_between_two_points_the_absolute_values_leave_an_interval():
    middle = rational.l1(1, 1.0, [-1.0, 3.0], [[1.0], [1.0]])
    found = chain(Region(1), middle, rational.squared_norm(1, 1.0, [2.0]))
    assert found.values == [4, 0]
    assert chain(Region(1), middle).x == [0]
    assert chain(Region(1), middle, rational.linear([-1.0])).x == [3]


def test_total_variation_with_the_ends_known():
    ends = rational.least_squares([[1, 0, 0], [0, 0, 1]], [1, 2])
    found = chain(Region(3), ends, rational.total_variation(3))
    assert found.values == [0, 1]
    assert found.x == [1, 1, 2]  # of all between 1 and 2 the smallest


def test_l1_ball():
    region = Region(2)
    region.add_l1_ball(2.0)
    found = chain(region, rational.linear([-1, -1]), rational.squared_norm(2, 1, [2, 0]))
    assert found.values == [-2, 0]
    region = Region(2)
    region.add_l1_ball(2.2)
    fit = rational.least_squares([[1, 1]], [2])
    found = chain(region, fit, rational.squared_norm(2, 1.0, [3, 0]))
    assert np.allclose(np.array(found.x, dtype=float), [2.1, -0.1])


def test_slacks():
    region = Region(2)
    region.add_bounds([0.0] * 2, [np.inf] * 2)
    region.add_equal([[1.0, 1.0]], [1.0])
    cost, near = rational.linear([1, 2]), rational.squared_norm(2, 1.0, [0, 1])
    found = chain(region, (cost, Allowance(relative=F(1, 10))), near)
    assert found.x == [F(9, 10), F(1, 10)]
    size = rational.l1(2)
    pull = rational.linear([-1, -1])
    found = chain(box(2, -3, 3), (size, Allowance(absolute=F(2))), pull)
    assert found.values == [0, -2]
    assert found.x == [1, 1]


def test_no_is_told_apart():
    assert chain(Region(2), rational.linear([1, 0])).word == "unbounded"
    region = Region(1)
    region.add_below([[1.0], [-1.0]], [0.0, -1.0])
    assert chain(region, rational.squared_norm(1)).word == "infeasible"
    region = Region(2)
    region.add_equal([[1.0, 1.0], [2.0, 2.0]], [1.0, 3.0])
    assert chain(region, rational.squared_norm(2)).word == "infeasible"
    found = chain(Region(2), rational.least_squares([[1, 1]], [0]), rational.linear([1, 0]))
    assert (found.word, found.values) == ("unbounded", [0])
    found = chain(Region(2), rational.l1(2, 1.0) + rational.linear([2, 0]))
    assert found.word == "unbounded"
    assert chain(Region(2), rational.l1(2, 1.0) + rational.linear([1, 0])).values == [0]


def vertices(A, b):
    """Of {Ax <= b}, by all square systems."""
    n, found = len(A[0]), []
    for rows in itertools.combinations(range(len(A)), n):
        equal = [rational.Row(A[i], b[i]) for i in rows]
        at = rational._slice(equal, n)
        if at is not None and not at.columns:
            z = at.start
            if all(rational.dot(a, z) <= t for a, t in zip(A, b, strict=True)):
                found.append(z)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_linear_chains_by_their_vertices(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 4))
    A = np.vstack([np.eye(n), -np.eye(n), rng.integers(-2, 3, (3, n))])
    b = np.concatenate([np.full(2 * n, 2.0), rng.integers(0, 4, 3)])
    costs = rng.integers(-1, 2, (3, n))
    region = Region(n)
    region.add_below(A, b)
    found = chain(region, *map(rational.linear, costs))
    left = vertices([fractions(row) for row in A], fractions(b))
    for cost, value in zip(costs, found.values, strict=True):
        at = [rational.dot(fractions(cost), z) for z in left]
        assert value == min(at)
        left = [z for z, t in zip(left, at, strict=True) if t == min(at)]


def small_objective(rng, n):
    rows = int(rng.integers(1, n + 2))
    A, b = rng.integers(-2, 3, (rows, n)), rng.integers(-3, 4, rows)
    B = rng.integers(-1, 2, (1, n))
    return [
        rational.least_squares(A, b, rng.integers(0, 3, rows)),
        rational.huber(A, b, 1.0),
        rational.l1(n, 1.0, rng.integers(-1, 2, n)),
        rational.total_variation(n),
        rational.quadratic(B.T @ B, rng.integers(-1, 2, n)),
        rational.linear(rng.integers(-1, 2, n)),
        rational.least_squares(A, b) + rational.l1(n),
        rational.huber(A, b, 0.5) + rational.quadratic(B.T @ B, B[0]),
    ][int(rng.integers(8))]


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(40))
def test_what_is_held_are_the_minimisers(seed):
    """Where another level moves, the value of the first stays; nothing better is beside it.

    A level that is minimised again over what it left has the same value everywhere there: so its
    negative, where that is linear on it, and any direction, has nothing to gain.
    """
    rng = np.random.default_rng([5, seed])
    n = int(rng.integers(2, 4))
    first, region = small_objective(rng, n), box(n, -3.0, 3.0)
    best = rational.minimise(first, region.polyhedron())
    left = region.polyhedron()
    left.below += best.below
    left.equal += best.equal
    for direction in itertools.product((-1, 0, 1), repeat=n):
        end = rational.minimise(rational.linear(direction), left)
        assert first.value(end.z) == best.value
    # No feasible point of a grid is better, and those as good are among what is held.
    for point in itertools.product(range(-3, 4), repeat=n):
        z = fractions(point)
        assert first.value(z) >= best.value
        is_held = all(rational.dot(a, z) <= t for a, t in best.below) and all(
            rational.dot(a, z) == t for a, t in best.equal
        )
        assert is_held == (first.value(z) == best.value)


def test_units_do_not_matter_to_the_truth():
    rng = np.random.default_rng(1)
    A, b = rng.integers(-2, 3, (3, 4)), rng.integers(-3, 4, 3)
    truth = chain(box(4), rational.huber(A, b, 1.0), rational.l1(4))
    rows = [row * 2.0**20 for row in A]
    same = chain(box(4), rational.huber(rows, b * 2.0**20, 2.0**20), rational.l1(4, 1e-9))
    assert same.values[0] == truth.values[0] * 2**40
    assert same.x == truth.x


def test_excess_counts_each_constraint_by_its_own_terms():
    region = Region(2)
    region.add_below([[1, 0], [0, 1]], [1e9, 1])
    assert region.excess(fractions([5e8, 1 + 1e-6])) > 1
    assert region.excess(fractions([1e9 + 0.5, 0.0])) < 1
    assert region.excess(fractions([1e9 + 5, 0.0])) > 1
