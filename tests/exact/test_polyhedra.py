"""Exact on polyhedra of any rows and their intersections: planted answers, bounds never wrong."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.exact import CVXPY_WORDS, solved, wrong_intervals
from scipy.optimize import linprog

import tiebreak as tb
from tiebreak.exact import polyhedra


class Planted(NamedTuple):
    """min ½|x - c|² over the minimisers of ½|A x - b|² on {G x <= h, E x = e}; all whole numbers.

    r = A x* - b, and A'r + G'lambda + E'nu = 0 with lambda >= 0 on rows that x* meets: x* is a
    lower minimiser. c - x* = A'y + E'mu + G'omega, with omega >= 0 where lambda = 0: x* is the
    only solution.
    """

    A: np.ndarray
    b: np.ndarray
    G: np.ndarray
    h: np.ndarray
    E: np.ndarray
    e: np.ndarray
    c: np.ndarray
    x: np.ndarray
    f_star: Fraction
    g_star: Fraction

    def problem(self, domain=None) -> tb.Problem:
        if domain is None:
            domain = tb.Polyhedron(self.G, self.h, self.E, self.e)
        lower, upper = tb.LeastSquares(self.A, self.b), tb.SquaredNorm(1.0, self.c)
        return tb.Problem(upper=upper, lower=lower, domain=domain)


def planted(rng: np.random.Generator, n: int, *, presses: bool, equations: int) -> Planted:
    def whole(*shape):
        return rng.integers(-3, 4, shape).astype(float)

    m, k = int(rng.integers(1, n + 1)), int(rng.integers(2, n + 3))
    x, A, G, E = whole(n), whole(m, n), whole(k, n), whole(equations, n)
    r = whole(m) if presses else np.zeros(m)
    if presses:  # the first two rows press, with multipliers 1
        G[1] = -A.T @ r - E.T @ np.ones(equations) - G[0]
    met = np.zeros(k, dtype=bool)
    met[: max(2 * presses, int(rng.integers(0, min(n, k) + 1)))] = True
    h = G @ x + np.where(met, 0.0, rng.integers(1, 6, k))
    omega = np.where(met, rng.integers(0, 3, k), 0).astype(float)
    if presses:
        omega[:2] = whole(2)
    c = x + A.T @ whole(m) + E.T @ whole(equations) + G.T @ omega
    square = [sum(Fraction(t) ** 2 for t in v) for v in (x - c, r)]
    return Planted(A, A @ x - r, G, h, E, E @ x, c, x, square[0] / 2, square[1] / 2)


def drawn(seed: int) -> Planted:
    rng = np.random.default_rng([17, seed])
    n = int(rng.integers(1, 9))
    return planted(rng, n, presses=seed % 2 == 1, equations=seed % 3 if n > 3 else 0)


def check(p: Planted, domain=None) -> tb.Result:
    problem = p.problem(domain)
    state, result = solved(problem), tb.solve(problem, "exact")
    assert result.success, result.message
    size = 1.0 + np.linalg.norm(p.x) + np.linalg.norm(p.c)
    np.testing.assert_allclose(result.x, p.x, atol=1e-8 * size)
    assert result.upper_value == pytest.approx(float(p.f_star), abs=1e-8 * size**2)
    assert result.lower_value == pytest.approx(float(p.g_star), abs=1e-8 * size**2)
    assert not wrong_intervals(state.evidence.intervals, p.f_star, p.g_star)
    assert result.upper_optimum[0] <= p.f_star <= result.upper_optimum[1]
    assert result.lower_optimum[0] <= p.g_star <= result.lower_optimum[1]
    return result


def test_planted_answers_on_polyhedra(count):
    number = count(20, 1000)
    ends = [check(drawn(seed)).status for seed in range(number)]
    assert ends.count("certified") >= 0.7 * number  # whole numbers: many vertices are degenerate


def test_redundant_rows_and_zero_rows_change_nothing(count):
    for seed in range(count(8, 500)):
        p, rng = drawn(seed), np.random.default_rng(seed)
        i, j = rng.integers(0, len(p.G), 2)
        more = np.vstack([p.G, p.G[i] + p.G[j], 2.0 * p.G[i], 3.0 * p.G[j], 0.0 * p.G[i]])
        sides = np.append(p.h, [p.h[i] + p.h[j], 2.0 * p.h[i], 3.0 * p.h[j] + 1.0, 0.0])
        again = np.vstack([p.E, 3.0 * p.E, 0.0 * p.E])
        check(p, tb.Polyhedron(more, sides, again, np.concatenate([p.e, 3.0 * p.e, 0.0 * p.e])))


def test_two_inequalities_may_be_an_equation(count):
    for seed in range(count(8, 300)):
        p = drawn(seed)
        check(p, tb.Polyhedron(np.vstack([p.G, p.E, -3.0 * p.E]), np.concatenate([p.h, p.e, -3.0 * p.e])))  # fmt: skip # noqa: E501


def test_intersections_are_polyhedra(count):
    for seed in range(count(8, 500)):
        p, low, high = drawn(seed), 4.0, 5.0
        Z = tb.Polyhedron(sp.csr_array(p.G[1:]), p.h[1:], p.E, p.e) & tb.Box(p.x - low, p.x + high)
        check(p, Z & tb.Halfspace(p.G[0], p.h[0]) if p.G[0].any() else Z)


def test_an_intersection_of_known_sets_has_the_answer_of_its_rows():
    rng, n = np.random.default_rng(3), 6
    lower, upper = tb.LeastSquares(rng.standard_normal((3, n)), rng.standard_normal(3)), tb.L1()
    up, down = np.eye(n)[:-1] - np.eye(n)[1:], -np.eye(n)
    pairs = [
        (tb.Simplex() & tb.Monotone(), tb.Polyhedron(np.vstack([up, down]), np.zeros(2 * n - 1), np.ones((1, n)), [1.0])),  # noqa: E501
        (tb.Orthant() & tb.Halfspace(np.ones(n), 1.0), tb.Polyhedron(np.vstack([down, np.ones((1, n))]), np.append(np.zeros(n), 1.0))),  # noqa: E501
    ]  # fmt: skip
    for both, rows in pairs:
        for f in (upper, tb.SquaredNorm(1.0, rng.standard_normal(n))):
            x, y = (
                tb.solve(tb.Problem(upper=f, lower=lower, domain=Z), "exact") for Z in (both, rows)
            )
            assert x.success
            assert y.success
            assert x.upper_value == pytest.approx(y.upper_value, rel=1e-9)
    one = tb.solve(tb.Problem(upper=upper, lower=lower, domain=tb.Orthant() & tb.Space()), "exact")
    box = tb.solve(tb.Problem(upper=upper, lower=lower, domain=tb.Orthant()), "exact")
    assert one.upper_value == box.upper_value


def lexicographic(c, d, G, h, E=None, e=None):
    """min <d, x> over the minimisers of <c, x>, by HiGHS: both levels of one linear program."""
    first = linprog(c, G, h, E, e, (None, None))
    if first.status != 0:
        return None
    rows = np.vstack([G, c[None]])
    second = linprog(d, rows, np.append(h, first.fun + 1e-12 * abs(first.fun)), E, e, (None, None))
    return (first.fun, second.fun) if second.status == 0 else None


def test_linear_levels_against_linear_programs(count):
    tried = 0
    for seed in {*range(count(15, 600)), 16}:  # in 16, g at x is 0 only up to rounding
        rng = np.random.default_rng([5, seed])
        n = int(rng.integers(1, 7))
        G = rng.integers(-2, 3, (2 * n + 3, n)).astype(float)
        h = np.maximum(np.abs(G).sum(axis=1), 1.0) * rng.integers(0, 2, len(G))
        G, h = np.vstack([G, np.eye(n), -np.eye(n)]), np.append(h, np.full(2 * n, 4.0))
        c, d = G[:n].sum(axis=0) * -1.0, rng.standard_normal(n)
        found = lexicographic(c, d, G, h)
        if found is None or not c.any():
            continue
        tried += 1
        problem = tb.Problem(upper=tb.Linear(d), lower=tb.Linear(c), domain=tb.Polyhedron(G, h))
        result = tb.solve(problem, "exact")
        assert result.success, result.message
        assert result.lower_value == pytest.approx(found[0], abs=1e-7)
        assert result.upper_value == pytest.approx(found[1], abs=1e-6)
        assert result.upper_optimum[0] <= found[1] + 1e-6
        assert result.upper_optimum[1] >= found[1] - 1e-6
    assert tried >= count(10, 20)


def test_the_sparsest_point_of_a_polyhedron(count):
    for seed in range(count(5, 200)):
        rng = np.random.default_rng([7, seed])
        n, m = 8, 3
        A, G = rng.standard_normal((m, n)), rng.standard_normal((5, n))
        x0 = rng.standard_normal(n)
        b, h = A @ x0, G @ x0 + rng.random(5)  # every point of the slice has g = 0
        split = np.hstack([A, -A]), np.hstack([G, -G])
        best = linprog(np.ones(2 * n), split[1], h, split[0], b, (0.0, None)).fun
        problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, b), domain=tb.Polyhedron(G, h))
        result = tb.solve(problem, "exact")
        assert result.status == "certified"
        assert result.upper_value == pytest.approx(best, rel=1e-8)
        assert result.upper_optimum[0] <= best * (1.0 + 1e-9)
        assert result.upper_optimum[1] >= best * (1.0 - 1e-9)


@pytest.mark.filterwarnings(CVXPY_WORDS)
def test_logistic_losses_against_a_conic_solver_that_holds_the_image(count):
    for seed in range(count(4, 60)):
        rng = np.random.default_rng([9, seed])
        n, m = 5, 3
        A, y = rng.standard_normal((m, n)), rng.choice([-1.0, 1.0], m)
        G, center = np.vstack([np.eye(n), -np.eye(n), rng.standard_normal((2, n))]), rng.standard_normal(n)  # fmt: skip # noqa: E501
        h, x = np.append(np.ones(2 * n), [0.2, 0.3]), cp.Variable(n)
        loss, inside = cp.sum(cp.logistic(-cp.multiply(y, A @ x))) / m, [G @ x <= h]
        first = cp.Problem(cp.Minimize(loss), inside)
        first.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        held = [*inside, cp.abs(A @ x - A @ x.value) <= 1e-8]
        second = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - center)), held)
        second.solve(solver="CLARABEL")
        lower, upper = tb.Logistic(A, y), tb.SquaredNorm(1.0, center)
        problem = tb.Problem(upper=upper, lower=lower, domain=tb.Polyhedron(G, h))
        result = tb.solve(problem, "exact")
        assert result.success, result.message
        assert result.lower_value == pytest.approx(first.value, abs=1e-7)
        assert result.upper_value == pytest.approx(second.value, abs=1e-3)
        assert result.lower_optimum[0] <= first.value + 1e-8


# --- what is no problem ---------------------------------------------------------------------------

LS = tb.LeastSquares([[1.0, 1.0]], [3.0])
EMPTY = {
    "two half-spaces": tb.Polyhedron([[1.0, 0.0], [-1.0, 0.0]], [0.0, -1.0]),
    "parallel": tb.Polyhedron([[1.0, 3.0], [-2.0, -6.0]], [0.0, -1.0]),
    "a triangle": tb.Polyhedron([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [1.0, -1.0, -1.0]),
    "two equations": tb.Polyhedron(A_eq=[[1.0, 1.0], [3.0, 3.0]], b_eq=[1.0, 2.0]),
    "box and plane": tb.Box(0.0, 1.0) & tb.Polyhedron(A_eq=[[1.0, 1.0]], b_eq=[3.0]),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_set_gets_one_sentence(kind):
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=LS, domain=EMPTY[kind])
    for method in ("auto", "exact", "conic"):
        result = tb.solve(problem, method)
        assert result.status == "infeasible"
        assert not result.success
        assert result.message.startswith("no point meets all constraints: ")


def test_unbounded_levels_name_their_direction():
    Z = tb.Polyhedron([[1.0, 0.0]], [1.0])
    below = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Linear([1.0, 1.0]), domain=Z), "exact")  # fmt: skip # noqa: E501
    assert below.status == "unbounded"
    d = below.findings.direction
    assert d[0] + d[1] < 0.0
    assert d[0] <= 1e-12
    above = tb.solve(tb.Problem(upper=tb.Linear([1.0, 0.0]), lower=LS, domain=Z), "exact")
    assert above.status == "unbounded"


def test_one_variable_and_one_point():
    for Z, x in (
        (tb.Polyhedron([[3.0]], [1.0]), 1.0 / 3.0),
        (tb.Polyhedron([[2.0], [-2.0]], [1.0, -1.0]), 0.5),
        (tb.Polyhedron(A_eq=[[7.0]], b_eq=[1.0]), 1.0 / 7.0),
    ):
        problem = tb.Problem(
            upper=tb.SquaredNorm(), lower=tb.LeastSquares([[1.0]], [3.0]), domain=Z
        )
        result = tb.solve(problem, "exact")
        assert result.status == "certified"
        assert result.x[0] == pytest.approx(x, rel=1e-14)


def test_a_start_outside_changes_nothing_and_is_no_answer():
    Z = tb.Polyhedron([[-1.0, 0.0]], [-2.0])  # x_1 >= 2, where g is larger than at the origin
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares([[1.0, 0.0]], [0.5]), domain=Z
    )
    for x0 in (None, [9.0, 9.0], [2.0, 0.0]):
        result = tb.solve(problem, "exact", x0=x0)
        assert result.status == "certified"
        np.testing.assert_allclose(result.x, [2.0, 0.0], atol=1e-14)
    early = tb.solve(problem, "exact", max_iter=0)
    assert not early.success
    assert early.upper_optimum == (-np.inf, np.inf) or early.upper_optimum[0] <= 2.0


def test_auto_takes_it_by_exact():
    result = tb.solve(drawn(1).problem())
    assert result.success
    assert "exact" in result.method


def test_rows_are_dropped_only_where_they_are_exact_multiples():
    G = np.array([[1.0, 3.0], [2.0, 6.0], [0.1, 0.3], [-1.0, -3.0]])
    Z = polyhedra.exact_rows(tb.Polyhedron(G, [1.0, 1.0, 5.0, 9.0]), 2)
    # 0.1, 0.3 is no multiple of 1, 3: neither number is what it says.
    assert len(Z.rows) == 3
    assert not len(Z.equal)


def test_a_set_that_is_empty_by_rounding_alone_has_an_answer_without_a_proof():
    Z = tb.Polyhedron([[1.0], [-3.0]], [0.3, -0.9])  # 3 * 0.3 < 0.9 in exact arithmetic
    assert Fraction(0.3) * 3 < Fraction(0.9)
    lower = tb.LeastSquares([[1.0]], [3.0])
    for domain in (Z, tb.Polyhedron(A_eq=[[1.0], [3.0]], b_eq=[0.3, 0.9])):
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain), "exact")
        assert result.status == "solved"
        assert result.x[0] == pytest.approx(0.3, rel=1e-12)


def test_bounds_are_never_wrong_where_constraints_are_nearly_met(count):
    """Slacks from 2^-45 to 1, rows and variables in other units: all of it exact in float64."""
    ends = []
    for seed in range(count(15, 1000)):
        p, rng = drawn(seed), np.random.default_rng([23, seed])
        slack = p.h - p.G @ p.x
        slack = np.where(slack > 0.0, 2.0 ** -rng.integers(0, 46, len(slack)), 0.0)
        rows = 2.0 ** rng.integers(-20, 21, len(p.h))
        columns = 2.0 ** rng.integers(-3, 4, len(p.x))
        G, h = rows[:, None] * p.G, rows * (p.G @ p.x + slack)
        Z = tb.Polyhedron(G * columns, h, p.E * columns, p.e)
        upper = tb.LeastSquares(np.diag(columns), p.c)  # of x = columns u
        lower = tb.LeastSquares(p.A * columns, p.b)
        state = solved(tb.Problem(upper=upper, lower=lower, domain=Z))
        ends.append(state.finished[0])
        if ends[-1] == "answer":
            assert not wrong_intervals(state.evidence.intervals, p.f_star, p.g_star), seed
    assert ends.count("answer") >= 0.9 * len(ends)


@pytest.mark.parametrize("offset", [1e8, 1e12, 1e13, -1e12])
def test_far_from_the_origin_a_variable_is_on_its_bound_only_within_its_own_range(offset):
    A = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    for seed, width in itertools.product(range(4), (3.0, 50.0, 1000.0)):
        rng = np.random.default_rng(seed)
        d, c = rng.integers(-12, 13, 2).astype(float), rng.integers(-3, 4, 4).astype(float)
        problem = tb.Problem(
            lower=tb.LeastSquares(A, d),
            upper=tb.SquaredNorm(center=offset + c),
            domain=tb.Box(offset - width, offset + width),
        )
        result = tb.solve(problem, "exact")
        gap = np.clip(d, -2.0 * width, 2.0 * width)  # of each pair: its first is the nearest to c
        first = np.clip(
            (c[::2] + c[1::2] + gap) / 2.0,
            np.maximum(-width, gap - width),
            np.minimum(width, gap + width),
        )
        truth = np.column_stack([first, first - gap]).ravel()
        assert result.success
        np.testing.assert_allclose(result.x - offset, truth, atol=4.0 * np.spacing(abs(offset)))


@pytest.mark.parametrize("far", [1e6, 1e9, 1e10])
@pytest.mark.parametrize("has_bounds", [False, True])
def test_slabs_far_from_the_origin_are_as_wide_as_they_are(far: float, has_bounds: bool) -> None:
    """Two slabs of width 4 and 8 across the ties: rounding relative to x would close them."""
    center = np.array([far, -2.0 * far, 0.0])
    rows = np.array([[2.0, 0.0, 5.0], [1.0, 1.0, 5.0], [0.0, 1.0, -1.0]])
    middle, width = rows @ center, np.array([2.0, 4.0, 64.0])
    domain = tb.Polyhedron(rows, middle + width, lower=middle - width)
    if has_bounds:
        domain = domain & tb.Box(center - 64.0, center + 64.0)
    g = tb.Linear([1.0, 1.0, 5.0])  # its face is a side of the second slab: two dimensions
    x = center + np.array([0.5, -4.5, 0.0])
    assert rows[1] @ x == middle[1] - width[1]
    problem = tb.Problem(lower=g, upper=tb.SquaredNorm(center=x), domain=domain)
    result = tb.solve(problem, "exact")
    assert result.success
    assert result.dimension == 2
    np.testing.assert_allclose(result.x, x, atol=1e-14 * far)


@pytest.mark.parametrize("far", [1e8, 5e9, 1e11])
def test_a_variable_far_away_does_not_close_the_constraints_of_the_others(far: float) -> None:
    """Three shares that add up to 1, and a variable that is far from 0: f* = 1 at (0, 0, 1)."""
    shares = tb.Polyhedron(A_eq=[[1.0, 1.0, 1.0, 0.0]], b_eq=[1.0])
    problem = tb.Problem(
        lower=tb.LeastSquares([[0.0, 0.0, 0.0, 1.0]], [far]),
        upper=tb.Linear([3.0, 2.0, 1.0, 0.0]),
        domain=shares & tb.Box([0.0, 0.0, 0.0, -np.inf], np.inf),
    )
    result = tb.solve(problem, "exact")
    assert result.success
    assert result.upper_value == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("bound", [1e7, 1e10, 1e15, 1e20])
@pytest.mark.parametrize("t", [1e-3, 0.5])
def test_large_bounds_that_stand_for_none_change_no_answer(bound: float, t: float) -> None:
    """x_1 + x_3 = t and x_2 >= 2 - t, so f* = 2 - t; and a level that only 0 <= x bounds."""
    domain = tb.Polyhedron([[-1.0, -1.0, -1.0]], [-2.0]) & tb.Box(0.0, bound)
    f = tb.Linear([0.0, 1.0, 3.0])
    g = tb.LeastSquares([[1.0, 0.0, 1.0]], [t])
    result = tb.solve(tb.Problem(lower=g, upper=f, domain=domain), "exact")
    assert result.success
    assert result.upper_value == pytest.approx(2.0 - t, rel=1e-9)
    # ½(x_1 + x_3)² + ½ x_1² + x_2 - x_3 is 0 at (0, 0, 2), and at no other point that is allowed.
    g = tb.Quadratic([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]], [0.0, 1.0, -1.0])
    result = tb.solve(tb.Problem(lower=g, upper=f, domain=domain), "exact")
    assert result.success
    np.testing.assert_allclose(result.x, [0.0, 0.0, 2.0], atol=1e-9)
