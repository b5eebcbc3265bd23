"""Functions, penalties and sets as pieces of a conic program: the same values, the same points.

The truth is NumPy's formula of each function; the least value of a representation over its
auxiliary variables, and whether there is one at all, is what Clarabel finds.
"""

from __future__ import annotations

import math
from fractions import Fraction

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.special import logsumexp

import tiebreak as tb
from tiebreak.conic.representation import compile_levels
from tiebreak.functions.sums import Scaled
from tiebreak.linalg.conic_form import ConicForm, completed_square
from tiebreak.linalg.matrices.base import Matrix
from tiebreak.linalg.refusals import Refusal
from tiebreak.sets import Set

cp = pytest.importorskip("cvxpy")

N = 5
CONES = {
    "zero": "ZeroConeT",
    "nonnegative": "NonnegativeConeT",
    "second-order": "SecondOrderConeT",
}


def clarabel_solved(program, objective, x=None):
    """Status, least value and z; where x is given, over the auxiliary variables alone."""
    size = program.size
    P = sp.triu(sp.csc_array(objective.squares.T @ objective.squares), format="csc")
    q = objective.linear - objective.squares.T @ objective.target
    rows, offset = [program.rows], [program.offset]
    cones = []
    for cone in program.cones:
        is_exp = cone.kind == "exponential"
        assert not is_exp or cone.size == 3
        kind = clarabel.ExponentialConeT() if is_exp else getattr(clarabel, CONES[cone.kind])
        cones.append(kind if is_exp else kind(cone.size))
    if x is not None:
        rows.append(sp.eye_array(size, format="csc")[program.variables])
        offset.append(x)
        cones.append(clarabel.ZeroConeT(len(x)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    A, b = sp.csc_matrix(sp.vstack(rows)), np.concatenate(offset)
    found = clarabel.DefaultSolver(sp.csc_matrix(P), q, A, b, cones, settings).solve()
    z = np.array(found.x)
    return str(found.status), objective.value(z), z


def drawn(seed, rows=7, n=N):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, n)) * (rng.random((rows, n)) < 0.7)
    return rng, A, rng.standard_normal(rows)


def huber(r, delta):
    return np.where(np.abs(r) <= delta, 0.5 * r * r, delta * (np.abs(r) - 0.5 * delta))


def softmax_losses(A, y, x, classes):
    products = A @ x.reshape(classes, -1).T
    return logsumexp(products, axis=1) - products[np.arange(len(y)), y]


def deviance(t, y):
    return np.exp(t) - y * t + np.where(y > 0, y * np.log(np.maximum(y, 1e-300)) - y, 0.0)


# --- functions: (ours, the same by NumPy) ---------------------------------------------------------


def least_squares(seed):
    rng, A, b = drawn(seed)
    w = rng.random(7) * (rng.random(7) < 0.7)
    w[0] = 1.0
    mean = bool(seed % 2)
    scale = 1.0 / np.sum(w) if mean else 1.0
    ours = tb.LeastSquares(A, b, mean, weights=w)
    return ours, lambda x: 0.5 * scale * np.sum(w * (A @ x - b) ** 2)


def sparse_least_squares(seed):
    _, A, b = drawn(seed)
    return tb.LeastSquares(sp.csr_array(A), b), lambda x: 0.5 * np.sum((A @ x - b) ** 2)


def single_least_squares(seed):
    _, A, b = drawn(seed)
    A, b = A.astype(np.float32), b.astype(np.float32)
    wide = A.astype(np.float64), b.astype(np.float64)
    return tb.LeastSquares(A, b, True), lambda x: np.sum((wide[0] @ x - wide[1]) ** 2) / 14


def squared_norm(seed):
    rng, _, _ = drawn(seed)
    w, center = rng.random(N) * np.array([1, 0, 1, 1, 0]), rng.standard_normal(N)
    return tb.SquaredNorm(w, center), lambda x: 0.5 * np.sum(w * (x - center) ** 2)


def scalar_squared_norm(seed):
    return 3 * tb.SquaredNorm(0.5), lambda x: 0.75 * x @ x


def quadratic(seed):
    rng, A, _ = drawn(seed, rows=3)
    Q, c = A.T @ A, rng.standard_normal(N)
    return tb.Quadratic(Q, c, 1.5), lambda x: 0.5 * np.sum((A @ x) ** 2) + c @ x + 1.5


def sparse_quadratic(seed):
    rng, _, _ = drawn(seed)
    d = rng.random(N) * np.array([1, 0, 1, 1e-12, 1])
    return 2.0 * tb.Quadratic(sp.diags_array(d).tocsr()), lambda x: np.sum(d * x * x)


def linear(seed):
    c = drawn(seed)[0].standard_normal(N)
    return 0.3 * tb.Linear(c), lambda x: 0.3 * c @ x


def logistic(seed):
    rng, A, b = drawn(seed)
    y, w = np.where(b > 0, 1.0, -1.0), rng.random(7)
    w[3] = 0.0
    mean = bool(seed % 2)
    scale = 1.0 / np.sum(w) if mean else 1.0
    ours = 2.0 * tb.Logistic(A, y, mean, weights=w)
    return ours, lambda x: 2.0 * scale * np.sum(w * np.logaddexp(0.0, -y * (A @ x)))


def sparse_logistic(seed):
    _, A, b = drawn(seed)
    ours = tb.Logistic(sp.csr_array(A), (b > 0).astype(float))
    return ours, lambda x: np.mean(np.logaddexp(0.0, -np.where(b > 0, 1, -1) * (A @ x)))


def multinomial(seed):
    rng, A, _ = drawn(seed, n=2)
    y, w = rng.integers(0, 3, 7), rng.random(7)
    A = sp.csr_array(A) if seed % 2 else A
    ours = tb.Multinomial(A, y, classes=3, weights=w, mean=False)
    return ours, lambda x: np.sum(w * softmax_losses(A, y, x, 3))


def poisson(seed):
    rng, A, _ = drawn(seed)
    y, w = rng.poisson(1.0, 7).astype(float), rng.random(7)
    return tb.Poisson(A, y, weights=w), lambda x: np.sum(w * deviance(A @ x, y)) / np.sum(w)


def huber_loss(seed):
    rng, A, b = drawn(seed)
    w, delta = rng.random(7), 0.4
    return tb.Huber(A, b, delta, weights=w), lambda x: np.sum(w * huber(A @ x - b, delta))


def squared_hinge(seed):
    rng, A, b = drawn(seed)
    w, y = rng.random(7), np.sign(b)
    ours = tb.SquaredHinge(A, y, weights=w, mean=False)
    return ours, lambda x: np.sum(w * np.maximum(0.0, 1.0 - y * (A @ x)) ** 2) / 2


def l1(seed):
    rng, _, _ = drawn(seed)
    w, center = rng.random(N) * np.array([1, 1, 0, 1, 1]), rng.standard_normal(N)
    return tb.L1(w, center), lambda x: np.sum(w * np.abs(x - center))


def l1_operator(seed):
    rng, D, center = drawn(seed, rows=4)
    w = rng.random(4)
    ours = tb.L1(w, center, sp.csr_array(D) if seed % 2 else D)
    return 2.0 * ours, lambda x: 2.0 * np.sum(w * np.abs(D @ x - center))


def total_variation(seed):
    return tb.TotalVariation(0.7), lambda x: 0.7 * np.sum(np.abs(np.diff(x)))


def l2(seed):
    return tb.L2(0.6), lambda x: 0.6 * np.linalg.norm(x)


def l2_of_some(seed):
    return tb.L2([2.0, 0, 2, 0, 2]), lambda x: 2.0 * np.linalg.norm(x[[0, 2, 4]])


def l2_center(seed):
    center = drawn(seed)[0].standard_normal(N)
    return tb.L2(0.6, center), lambda x: 0.6 * np.linalg.norm(x - center)


def l2_of_some_around_a_center(seed):
    center = drawn(seed)[0].standard_normal(N)
    return tb.L2([2.0, 0, 2, 0, 2], center), lambda x: 2.0 * np.linalg.norm((x - center)[[0, 2, 4]])


def group_l2(seed):
    ours = tb.GroupL2([0, 1, -1, 0, 1], 0.5)
    return ours, lambda x: 0.5 * (np.linalg.norm(x[[0, 3]]) + np.linalg.norm(x[[1, 4]]))


def elastic_net(seed):
    return tb.ElasticNet(0.5, 0.2), lambda x: 0.5 * np.sum(np.abs(x)) + 0.1 * x @ x


def no_penalty(seed):
    return tb.Zero(), lambda x: 0.0


def weightless(seed):
    return tb.ElasticNet(0.0, 0.0) + tb.L2(0.0), lambda x: 0.0


def a_sum(seed):
    smooth = [least_squares(seed), linear(seed), scalar_squared_norm(seed), huber_loss(seed)]
    ours, truth = zip(*smooth, *[l2(seed), elastic_net(seed)], strict=True)
    return sum(ours[:4]) + (ours[4] + ours[5]), lambda x: sum(h(x) for h in truth)


SQUARES = [
    least_squares,
    sparse_least_squares,
    single_least_squares,
    squared_norm,
    scalar_squared_norm,
    quadratic,
    sparse_quadratic,
    linear,
    no_penalty,
    weightless,
]
WITH_VARIABLES = [
    logistic,
    sparse_logistic,
    multinomial,
    poisson,
    huber_loss,
    squared_hinge,
    l1,
    l1_operator,
    total_variation,
    l2,
    l2_of_some,
    l2_center,
    l2_of_some_around_a_center,
    group_l2,
    elastic_net,
    a_sum,
]


def size_of(h):
    return getattr(h, "dimension", None) or N


@pytest.mark.parametrize("make", SQUARES)
def test_squares_and_linear_functions_need_no_variables(make, count):
    for seed in range(count(4, 50)):
        ours, truth = make(seed)
        program = compile_levels([ours], tb.Space(), N)
        assert program.rows.shape == (0, N)
        assert program.cones == ()
        assert np.array_equal(program.reach, np.full(N, math.inf))
        for x in np.random.default_rng(seed).standard_normal((5, N)):
            assert program.objectives[0].value(x) == pytest.approx(truth(x), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("make", WITH_VARIABLES)
def test_least_value_over_the_auxiliary_variables_is_the_value(make, count):
    for seed in range(count(3, 40)):
        ours, truth = make(seed)
        n = size_of(ours)
        x = np.random.default_rng(seed).standard_normal(n)
        program = compile_levels([ours], tb.Ball(1.01 * np.linalg.norm(x)), n)
        status, value, z = clarabel_solved(program, program.objectives[0], x)
        assert "Infeasible" not in status
        assert value == pytest.approx(truth(x), rel=1e-7, abs=1e-7)
        assert np.array_equal(program.variables, np.arange(n))
        assert np.all(np.isfinite(program.reach))
        assert np.all(np.abs(z) <= program.reach + 1e-6)


@pytest.mark.parametrize("make", SQUARES + WITH_VARIABLES)
def test_whether_cones_can_represent_a_level_is_known_without_its_data(make, monkeypatch):
    """`auto` asks this at once, and copies of large data take longer than many answers."""
    ours, _ = make(0)
    box = tb.Box(-np.ones(size_of(ours)), np.ones(size_of(ours)))
    monkeypatch.setattr(Matrix, "on_host", lambda self: pytest.fail("the data were copied"))
    assert tb.Conic().refusal(tb.Problem(upper=ours, lower=ours, domain=box)) is None


@pytest.mark.parametrize("make", WITH_VARIABLES)
def test_reach_follows_a_radius_and_is_infinite_without(make):
    ours, truth = make(0)
    n = size_of(ours)
    x = np.random.default_rng(1).standard_normal(n)
    program = compile_levels([ours], tb.Space(), n, radius=float(np.linalg.norm(x)))
    _, value, z = clarabel_solved(program, program.objectives[0], x)
    assert value == pytest.approx(truth(x), rel=1e-7, abs=1e-7)
    assert np.all(np.abs(z) <= program.reach + 1e-6)
    assert np.all(np.isinf(compile_levels([ours], tb.Space(), n).reach[:n]))


# --- sets -----------------------------------------------------------------------------------------


CENTER = np.array([0.5, -1.0, 0.0, 2.0, 0.25])
ROWS = np.array([[1.0, -1, 0.5, 0, 0], [0, 0, 0, 1, 1], [-1, 0, 2, 0, -0.5]])
SETS = {
    "space": (tb.Space(), lambda x: True),
    "ball": (tb.Ball(2.0, CENTER), lambda x: np.linalg.norm(x - CENTER) <= 2.0),
    "box": (
        tb.Box([-1, -np.inf, 0.5, -2, -np.inf], [1, 0.3, 0.5, np.inf, np.inf]),
        lambda x: abs(x[0]) <= 1 and x[1] <= 0.3 and x[2] == 0.5 and x[3] >= -2,
    ),
    "orthant": (tb.Orthant(), lambda x: np.all(x >= 0)),
    "simplex": (
        tb.Simplex(2.0),
        lambda x: np.all(x >= 0) and math.isclose(np.sum(x), 2.0, abs_tol=1e-12),
    ),
    "l1 ball": (tb.L1Ball(3.0), lambda x: np.sum(np.abs(x)) <= 3.0),
    "monotone": (tb.Monotone(), lambda x: np.all(np.diff(x) >= 0)),
    "halfspace": (tb.Halfspace(CENTER, 0.3), lambda x: CENTER @ x <= 0.3),
    "polyhedron": (
        tb.Polyhedron(ROWS, [1.0, 2.0, np.inf], np.eye(N)[2:3], [0.5]),
        lambda x: np.all(ROWS[:2] @ x <= [1.0, 2.0]) and x[2] == 0.5,
    ),
    "sparse polyhedron": (
        tb.Polyhedron(sp.csr_array(ROWS), [1.0, 2.0, 1.0]),
        lambda x: np.all(ROWS @ x <= [1.0, 2.0, 1.0]),
    ),
    "second-order cone": (
        tb.SecondOrderCone(ROWS, [0.1, 0, 0], CENTER, 1.5),
        lambda x: np.linalg.norm(ROWS @ x + [0.1, 0, 0]) <= CENTER @ x + 1.5,
    ),
    "intersection": (
        tb.Ball(4.0) & tb.Orthant() & tb.Polyhedron(ROWS, [1.0, 2.0, 1.0]),
        lambda x: (
            np.linalg.norm(x) <= 4.0 and np.all(x >= 0) and np.all(ROWS @ x <= [1.0, 2.0, 1.0])
        ),
    ),
}


def points(rng):
    """Of many kinds, so that every set has some and does not have others."""
    x = rng.standard_normal(N) * rng.choice([0.5, 2.0])
    kind = rng.integers(5)
    if kind == 0:
        x = np.abs(x) / np.sum(np.abs(x)) * 2.0
    if kind == 1:
        x = np.sort(x)
    if kind == 2:
        x = np.clip(x, -1.0, [1, 0.2, 1, 1, 1])
        x[2] = 0.5
    if kind == 3:
        x = np.abs(x)
    return x


def is_feasible(program, x):
    zero = compile_levels([tb.Zero()], tb.Space(), program.size).objectives[0]
    status, _, z = clarabel_solved(program, zero, x)
    return "Infeasible" not in status and np.allclose(z[: len(x)], x, atol=1e-7)


@pytest.mark.parametrize("name", SETS)
def test_a_point_is_feasible_where_it_is_in_the_set(name, count):
    domain, contains = SETS[name]
    program = compile_levels([tb.Zero()], domain, N)
    rng, seen = np.random.default_rng(5), []
    for _ in range(count(25, 400)):
        x = points(rng)
        seen.append(bool(contains(x)))
        assert is_feasible(program, x) == seen[-1]
        if seen[-1]:
            assert np.all(np.abs(x) <= program.reach[:N] * (1 + 1e-12))
    assert any(seen)
    assert all(seen) == (name == "space")


@pytest.mark.parametrize("name", ["ball", "box", "orthant", "simplex", "l1 ball"])
def test_reach_of_x_is_the_largest_that_is_possible(name):
    domain, _ = SETS[name]
    reach = compile_levels([tb.Zero()], domain, N).reach[:N]
    expected = {
        "ball": np.minimum(np.abs(CENTER) + 2.0, np.linalg.norm(CENTER) + 2.0),
        "box": np.array([1.0, np.inf, 0.5, np.inf, np.inf]),
        "orthant": np.full(N, np.inf),
        "simplex": np.full(N, 2.0),
        "l1 ball": np.full(N, 3.0),
    }[name]
    assert np.allclose(reach, expected, rtol=1e-9)


def linear_programs(domain_rows, offset):
    """The least box around { rows x <= offset }, by linear programs."""
    ends = []
    for sign in (1.0, -1.0):
        found = [linprog(sign * e, domain_rows, offset, bounds=(None, None)) for e in np.eye(N)]
        ends.append([sign * f.fun if f.status == 0 else -sign * np.inf for f in found])
    return np.array(ends[0]), np.array(ends[1])


def test_bounds_from_rows_hold_and_are_found_row_by_row(count):
    finite = 0
    for seed in range(count(10, 200)):
        rng = np.random.default_rng(seed)
        A = rng.integers(-1, 3, (6, N)) * (rng.random((6, N)) < 0.6)
        A = np.vstack([A, -np.eye(N)]).astype(float)
        b = A @ rng.random(N) + rng.random(len(A)) * (rng.random(len(A)) < 0.5)
        reach = compile_levels([tb.Zero()], tb.Polyhedron(A, b), N).reach
        low, high = linear_programs(A, b)
        most = np.maximum(np.abs(low), np.abs(high))
        assert np.all(reach >= most * (1 - 1e-9))
        finite += int(np.sum(np.isfinite(reach)))
        assert np.all(np.isfinite(most) | np.isinf(reach))
    assert finite > count(10, 200)


def test_bounds_of_a_budget():
    shares = tb.Polyhedron(-np.eye(N), np.zeros(N), np.ones((1, N)), [3.0])
    program = compile_levels([tb.L1()], shares, N)
    assert program.reach == pytest.approx(np.full(N, 3.0), rel=1e-9)
    assert program.size == N  # |x| = x
    above = tb.Monotone() & tb.Polyhedron(np.eye(N)[[0, N - 1]] * [[-1], [1]], [0.0, 2.0])
    assert compile_levels([tb.L1()], above, N).reach == pytest.approx(np.full(N, 2.0))


def test_bounds_of_an_ellipsoid(count):
    for seed in range(count(5, 100)):
        rng = np.random.default_rng(seed)
        A, b, c = rng.standard_normal((8, N)), rng.standard_normal(8), 0.2 * rng.standard_normal(N)
        cone = tb.SecondOrderCone(A, b, c, 4.0)
        radius = np.max(compile_levels([tb.Zero()], cone, N).reach)
        if np.linalg.svd(A)[1][-1] > 1.01 * np.linalg.norm(c):
            assert radius < np.inf
        e = cp.Variable(N)
        for sign in (1.0, -1.0):
            inside = [cp.norm(A @ e + b) <= c @ e + 4.0]
            found = cp.Problem(cp.Maximize(sign * e[0]), inside).solve(solver="CLARABEL")
            assert found <= radius * (1 + 1e-6)


def test_equal_ends_of_a_box_are_equations():
    program = compile_levels([tb.Zero()], SETS["box"][0], N)
    assert [(cone.kind, cone.size) for cone in program.cones] == [("zero", 1), ("nonnegative", 4)]


def test_absolute_values_of_known_sign_need_no_variables():
    center = np.array([0.0, -1.0, 0.5, 0.0, 0.0])
    program = compile_levels([tb.L1(1.0, center)], tb.Orthant(), N)
    assert program.size == N + 1
    x = np.array([1.0, 2.0, 0.25, 0.0, 3.0])
    _, value, _ = clarabel_solved(program, program.objectives[0], x)
    assert value == pytest.approx(1 + 3 + 0.25 + 0 + 3, abs=1e-7)
    program = compile_levels([tb.L1(1.0, center)], tb.Box(-np.inf, -2.0), N)
    assert program.size == N
    assert program.objectives[0].value(-x - 2) == pytest.approx(3 + 3 + 2.75 + 2 + 5)


@pytest.mark.parametrize("entry", [0.1, 0.3, 0.7])
def test_bounds_and_signs_of_long_sums_allow_for_their_rounding(entry):
    """A million equal terms, added one by one, are off by 1e-11 of their sum."""
    n = 10**6
    ends, ones = np.full(n, entry), sp.csr_array(np.ones((1, n)))
    form = ConicForm(-ends, ends)
    assert Fraction(form.bound(form.of_x(ones))[0]) >= n * Fraction(entry)
    form = ConicForm(ends, 2.0 * ends)
    for offset in (ones @ ends) * (1.0 + 1e-12 * np.arange(-20, 20)):
        sign = form.signs(form.of_x(ones, -offset))[0]
        assert sign == 0.0 or n * Fraction(entry) >= Fraction(offset)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("size", [1e-170, 1.0, 1e170])
def test_bounds_by_a_radius_hold_for_rows_of_any_size(kind, size):
    ends = np.full(3, np.inf)
    form = ConicForm(-ends, ends, 2.0)
    found = form.bound(form.of_x(kind(size * np.array([[3.0, 0.0, 4.0], [0.0, 0.0, 1.0]]))))
    np.testing.assert_allclose(found, [10.0 * size, 2.0 * size], rtol=1e-12)


def test_a_radius_is_no_fact_about_the_feasible_set():
    program = compile_levels([tb.L1(1.0, np.full(N, 5.0))], tb.Space(), N, radius=1.0)
    _, value, _ = clarabel_solved(program, program.objectives[0], np.full(N, 7.0))
    assert value == pytest.approx(2 * N, abs=1e-6)


def test_an_indicator_of_the_first_level_is_a_constraint():
    first = tb.LeastSquares(np.eye(N), np.full(N, 2.0)) + tb.Indicator(tb.Box(0, 1))
    program = compile_levels([first, tb.L1()], tb.Ball(100.0), N)
    _, value, z = clarabel_solved(program, program.objectives[0])
    assert value == pytest.approx(0.5 * N)
    assert z[:N] == pytest.approx(np.ones(N), abs=1e-6)
    assert program.size == N  # |x| = x there


def test_all_levels_are_in_the_same_variables():
    made = [least_squares(1), l1(1), logistic(1)]
    ours, truth = zip(*made, strict=True)
    program = compile_levels(ours, tb.Ball(3.0), N)
    x = np.full(N, 0.5)
    for objective, h in zip(program.objectives, truth, strict=True):
        assert objective.squares.shape[1] == len(objective.linear) == program.size
        _, value, _ = clarabel_solved(program, objective, x)
        assert value == pytest.approx(h(x), abs=1e-7)
    assert program.rows.format == "csc"
    assert sum(cone.size for cone in program.cones) == len(program.offset) == program.rows.shape[0]


def test_sparse_data_stay_sparse_and_dense_data_dense():
    A = sp.random_array((300, 100), density=0.02, rng=np.random.default_rng(0), format="csr")
    sparse = compile_levels([tb.LeastSquares(A, np.ones(300))], tb.Space(), 100).objectives[0]
    assert sp.issparse(sparse.squares)
    assert sparse.squares.nnz == A.nnz
    dense = compile_levels([tb.LeastSquares(A.toarray() + 1, np.ones(300))], tb.Space(), 100)
    assert isinstance(dense.objectives[0].squares, np.ndarray)


@pytest.mark.parametrize("seed", range(5))
def test_square_roots_have_the_rank_of_the_matrix_in_whatever_units(seed):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((3, 8)) * 10.0 ** rng.uniform(-6, 6, 8)
    F, _ = completed_square(B.T @ B, np.zeros(8), 2.0**-52)
    assert F.shape == (3, 8)
    sizes = np.linalg.norm(B, axis=0)
    assert np.abs(F.T @ F - B.T @ B) / np.outer(sizes, sizes) == pytest.approx(0, abs=1e-13)


def test_a_linear_part_within_the_range_of_a_form_is_part_of_its_square(count):
    for seed in range(count(5, 100)):
        rng, A, b = drawn(seed, rows=3)
        form = 2.0 * tb.Quadratic(A.T @ A, -A.T @ b, 0.5 * b @ b)
        objective = compile_levels([form], tb.Space(), N).objectives[0]
        assert not objective.linear.any()
        x = rng.standard_normal(N)
        assert objective.value(x) == pytest.approx(np.sum((A @ x - b) ** 2), abs=1e-11)
        outside = tb.Quadratic(A.T @ A, -A.T @ b + np.linalg.svd(A)[2][-1])
        assert compile_levels([outside], tb.Space(), N).objectives[0].linear.any()


# --- whole problems against CVXPY's own atoms -----------------------------------------------------


def atoms(rng, x):
    """Functions with a minimum on a bounded set: ours, and CVXPY's expression."""
    A, b = rng.standard_normal((6, N)), rng.standard_normal(6)
    y, counts, c = np.sign(b), rng.poisson(2.0, 6).astype(float), rng.standard_normal(N)
    Q = A[:3].T @ A[:3]
    constant = float(np.sum(deviance(np.zeros(6), counts))) - 6
    return [
        (tb.LeastSquares(A, b), cp.sum_squares(A @ x - b) / 2),
        (tb.SquaredNorm(2.0, c), cp.sum_squares(x - c)),
        (tb.Quadratic(Q, c), cp.sum_squares(A[:3] @ x) / 2 + c @ x),
        (tb.Linear(c), c @ x),
        (tb.Logistic(A, y, mean=False), cp.sum(cp.logistic(cp.multiply(-y, A @ x)))),
        (tb.Huber(A, b, 0.5), cp.sum(cp.huber(A @ x - b, 0.5)) / 2),
        (
            tb.SquaredHinge(A, y, mean=False),
            cp.sum_squares(cp.pos(1 - cp.multiply(y, A @ x))) / 2,
        ),
        (tb.Poisson(A, counts, False), cp.sum(cp.exp(A @ x)) - counts @ (A @ x) + constant),
        (tb.L1(0.5, c), cp.norm1(x - c) / 2),
        (tb.L1(operator=A), cp.norm1(A @ x)),
        (tb.TotalVariation(), cp.tv(x)),
        (tb.L2(0.3), 0.3 * cp.norm(x)),
        (tb.GroupL2([0, 0, 1, 1, -1]), cp.norm(x[:2]) + cp.norm(x[2:4])),
        (tb.ElasticNet(0.1, 1.0), 0.1 * cp.norm1(x) + cp.sum_squares(x) / 2),
    ]


def bounded_sets(rng, x):
    A, b, c = rng.standard_normal((4, N)), rng.random(4) + 0.5, rng.standard_normal(N)
    return [
        (tb.Ball(1.5, c), [cp.norm(x - c) <= 1.5]),
        (tb.Box(c, c + 1), [x >= c, x <= c + 1]),
        (tb.Simplex(1.5), [x >= 0, cp.sum(x) == 1.5]),
        (tb.L1Ball(1.5), [cp.norm1(x) <= 1.5]),
        (tb.Box(-1, 1) & tb.Polyhedron(A, b), [x >= -1, x <= 1, A @ x <= b]),
        (tb.Ball(2.0) & tb.Halfspace(c, -0.5), [cp.norm(x) <= 2, c @ x <= -0.5]),
        (tb.Ball(2.0) & tb.Monotone(), [cp.norm(x) <= 2, cp.diff(x) >= 0]),
        (
            tb.Box(-2, 2) & tb.SecondOrderCone(A, b, c, 3.0),
            [x >= -2, x <= 2, cp.norm(A @ x + b) <= c @ x + 3.0],
        ),
    ]


def test_minima_are_those_of_cvxpy_and_solutions_within_reach(count):
    compared = 0
    for seed in range(count(40, 800)):
        rng, x = np.random.default_rng(seed), cp.Variable(N)
        kinds, sets = atoms(rng, x), bounded_sets(rng, x)
        (ours, theirs), (domain, constraints) = kinds[seed % 13], sets[seed % 8]
        try:
            best = cp.Problem(cp.Minimize(theirs), constraints).solve(solver="CLARABEL")
        except (cp.SolverError, UserWarning):  # an empty set, for example, or an inaccurate answer
            continue
        program = compile_levels([ours], domain, N)
        status, value, z = clarabel_solved(program, program.objectives[0])
        if not math.isfinite(best):
            assert "Infeasible" in status
            continue
        assert value == pytest.approx(best, rel=1e-6, abs=1e-6)
        assert np.all(np.isfinite(program.reach))
        assert np.all(np.abs(z) <= program.reach + 1e-5)
        compared += 1
    assert compared >= count(35, 700)


# --- refusals -------------------------------------------------------------------------------------


class MySet(Set):
    """A set of the user that says nothing of itself."""


def refused():
    operator = pytest.importorskip("scipy.sparse.linalg").aslinearoperator(np.eye(N))
    smooth = tb.Smooth(lambda x: float(x @ x), lambda x: 2 * x, 2.0)
    return {
        "callables": ([smooth], tb.Space(), "level 1 .* Smooth, known by its callables"),
        "inside": ([tb.Zero(), Scaled(2.0, smooth) + tb.L1()], tb.Space(), "level 2 .* Smooth"),
        "operator": (
            [tb.LeastSquares(operator, np.ones(N))],
            tb.Space(),
            "LeastSquares of a linear operator",
        ),
        "dimension": (
            [tb.Linear(np.ones(3))],
            tb.Space(),
            "level 1 must have one variable for each",
        ),
        "quadratic": ([tb.Quadratic(operator)], tb.Space(), "Quadratic of a linear operator"),
        "set": ([tb.Zero()], MySet(), "domain .* got MySet"),
        "indicator": ([tb.Zero(), tb.Indicator(tb.Orthant())], tb.Space(), "level 2 .* Orthant"),
    }


def test_rows_of_a_stream_are_taken_where_they_fit_into_memory(monkeypatch, tmp_path):
    _, A, b = drawn(0)
    np.save(tmp_path / "A.npy", A)
    loss = tb.LeastSquares(tb.Streamed(tmp_path / "A.npy"), b)
    x = np.ones(N)
    value = compile_levels([loss], tb.Space(), N).objectives[0].value(x)
    assert value == pytest.approx(0.5 * np.sum((A @ x - b) ** 2))
    monkeypatch.setattr("tiebreak.linalg.matrices.streamed.DENSE_LIMIT", 10)
    with pytest.raises(Refusal, match="LeastSquares of rows not in memory"):
        compile_levels([loss], tb.Space(), N)


@pytest.mark.parametrize("name", refused())
def test_what_cones_cannot_represent_is_refused_in_one_sentence(name):
    objectives, domain, words = refused()[name]
    with pytest.raises(Refusal, match=words) as found:
        compile_levels(objectives, domain, N, owner="Levels")
    sentence = str(found.value)
    assert sentence.startswith("Levels: ")
    assert "\n" not in sentence
    assert ". " not in sentence


def test_where_nothing_says_how_many_variables_there_are_x0_does():
    """Norms on a ball with a center: the method is asked before x0 is known."""
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.L1(), domain=tb.Ball(1.0, [3.0, 0.0]))
    result = tb.solve(problem, "conic", x0=[3.0, 0.0])
    assert result.success
    np.testing.assert_allclose(result.x, [2.0, 0.0], atol=1e-6)
