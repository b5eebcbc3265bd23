"""Sets by their constraints: what is in them, what is not, and who takes them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import tiebreak as tb
from tiebreak.driver.registry import METHODS
from tiebreak.problem_files import read_problem

INF = np.inf
A, B = np.array([[1.0, 2.0], [-1.0, 0.0], [0.0, -3.0]]), np.array([2.0, 0.0, 0.0])  # a triangle
TRIANGLE = tb.Polyhedron(A, B)
VERTICES = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
CONE = tb.SecondOrderCone([[1.0, 0.0]], c=[0.0, 1.0])  # |x_1| <= x_2
LS = tb.LeastSquares([[1.0, 1.0]], [3.0])


def problem(domain, lower=LS, upper=None):
    return tb.Problem(upper=upper or tb.SquaredNorm(), lower=lower, domain=domain)


# --- what is in them ------------------------------------------------------------------------------


def test_a_polyhedron_contains_the_convex_hull_of_its_vertices():
    rng = np.random.default_rng(0)
    for form in (np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array):
        Z = tb.Polyhedron(form(A), B)
        for weights in rng.dirichlet(np.ones(3), 20):
            x = weights @ VERTICES
            assert Z.contains(x)
            assert Z.project(x) is x
            away = x + 3.0 * rng.choice([-1.0, 1.0]) * np.array([1.0, 1.0])
            assert not Z.contains(away)
            assert Z.excess(away) > 0.0


def test_the_excess_is_at_most_the_distance():
    rng = np.random.default_rng(1)
    for _ in range(50):
        x = 3.0 * rng.standard_normal(2)
        nearest = min(
            np.linalg.norm(x - (p + t * (q - p)))
            for p in VERTICES
            for q in VERTICES
            for t in np.linspace(0.0, 1.0, 201)
        )
        inside = np.all(A @ x <= B)
        assert TRIANGLE.excess(x) <= (0.0 if inside else nearest) + 1e-12
        assert (TRIANGLE.excess(x) == 0.0) == inside


def test_linear_functions_by_a_linear_program():
    rng = np.random.default_rng(2)
    for _ in range(20):
        c = rng.standard_normal(2)
        assert TRIANGLE.support(c) == pytest.approx(np.max(VERTICES @ c), abs=1e-9)
        assert c @ TRIANGLE.argmin(c) == pytest.approx(np.min(VERTICES @ c), abs=1e-9)
    half = tb.Polyhedron([[1.0, 0.0]], [1.0])
    assert half.support(np.array([2.0, 0.0])) == pytest.approx(2.0)
    assert half.support(np.array([0.0, 1.0])) == INF
    with pytest.raises(ValueError, match="Polyhedron: <direction, x> is unbounded below"):
        half.argmin(np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="Polyhedron: the constraints must have a point in common"):
        tb.Polyhedron([[1.0], [-1.0]], [0.0, -1.0]).support(np.ones(1))


def test_equations_hold_up_to_rounding():
    plane = tb.Polyhedron(A_eq=[[1.0, 1.0, 1.0]], b_eq=[0.3])
    assert plane.contains(np.array([0.1, 0.1, 0.1]))
    assert not plane.contains(np.array([0.1, 0.1, 0.1001]))
    assert plane.support(np.ones(3)) == pytest.approx(0.3)
    assert plane.distance_bound(np.array([0.1, 0.1, 0.1])) == INF  # it is not proved to be in


def test_what_is_surely_inside_has_distance_0():
    assert TRIANGLE.distance_bound(np.array([0.1, 0.1])) == 0.0
    assert TRIANGLE.distance_bound(np.array([5.0, 5.0])) == INF
    assert CONE.distance_bound(np.array([0.1, 0.2])) == 0.0
    assert CONE.distance_bound(np.array([0.2, 0.2])) == INF
    both = TRIANGLE & CONE
    assert both.distance_bound(np.array([0.1, 0.2])) == 0.0
    assert both.distance_bound(np.array([0.2, 0.1])) == INF


def test_an_inequality_with_inf_is_none():
    Z = tb.Polyhedron(np.vstack([A, [[1.0, 1.0]]]), np.append(B, INF))
    assert Z.A.shape == (3, 2)
    assert Z.contains(np.array([0.5, 0.5]))


def test_bounds_of_single_variables_bound_the_set():
    box = tb.Polyhedron(
        sp.csr_array(np.vstack([2.0 * np.eye(2), -np.eye(2)])), [2.0, 4.0, 0.0, 1.0]
    )
    assert box.diameter_in(2) == pytest.approx(np.hypot(1.0, 3.0))
    assert box.farthest(np.zeros(2)) == pytest.approx(np.hypot(1.0, 2.0))
    assert TRIANGLE.diameter_in(2) == INF  # a bound, which here is not known
    assert (TRIANGLE & tb.Ball(2.0)).diameter_in(2) == 4.0
    fixed = tb.Polyhedron(A_eq=np.eye(2), b_eq=[1.0, 2.0])
    assert fixed.diameter_in(2) < 1e-15


def test_second_order_cones():
    assert CONE.contains(np.array([0.5, 0.5]))
    assert not CONE.contains(np.array([0.6, 0.5]))
    assert not CONE.contains(np.array([0.0, -1.0]))
    disc = tb.SecondOrderCone(np.eye(2), [-1.0, 0.0], d=2.0)  # a ball around (1, 0)
    ball = tb.Ball(2.0, [1.0, 0.0])
    for x in np.random.default_rng(3).uniform(-4.0, 4.0, (200, 2)):
        assert disc.contains(x) == ball.contains(x)
        assert disc.excess(x) <= np.linalg.norm(x - ball.project(x)) + 1e-12


# --- intersections --------------------------------------------------------------------------------


def test_an_intersection_contains_what_all_parts_do():
    both = tb.Ball(1.0) & TRIANGLE & CONE
    assert isinstance(both, tb.Intersection)
    assert [type(one) for one in both.sets] == [tb.Ball, tb.Polyhedron, tb.SecondOrderCone]
    for x in np.random.default_rng(4).uniform(-0.5, 1.5, (300, 2)):
        inside = np.linalg.norm(x) <= 1.0 and bool(np.all(A @ x <= B)) and abs(x[0]) <= x[1]
        assert both.contains(x) == inside
    assert len((tb.Orthant() & (TRIANGLE & (tb.Ball(1.0) & CONE))).sets) == 4


def test_an_intersection_that_is_a_known_set_is_that_set():
    box = tb.Box(0.0, 2.0) & tb.Box(-1.0, [1.0, 3.0])
    assert type(box) is tb.Box
    np.testing.assert_array_equal(box.upper, [1.0, 2.0])
    np.testing.assert_array_equal(box.lower, [0.0, 0.0])
    assert (tb.Ball(2.0) & tb.Ball(1.0)).radius == 1.0
    assert (tb.Space() & TRIANGLE) is TRIANGLE
    assert (TRIANGLE & tb.Space()) is TRIANGLE
    assert (TRIANGLE & TRIANGLE) is TRIANGLE
    boxes = (tb.Box(0.0, 2.0) & TRIANGLE) & tb.Box(1.0, 3.0)
    assert [type(one) for one in boxes.sets] == [tb.Box, tb.Polyhedron]
    assert (boxes.sets[0].lower, boxes.sets[0].upper) == (1.0, 2.0)


def test_an_indicator_and_a_domain_make_an_intersection():
    upper = tb.SquaredNorm() + tb.Indicator(TRIANGLE)
    assert isinstance(problem(tb.Ball(1.0), upper=upper).domain, tb.Intersection)
    assert problem(tb.Space(), upper=upper).domain is TRIANGLE


# --- who takes them -------------------------------------------------------------------------------

REFUSAL = (
    "domain must have a cheap projection, got {}; the conic and exact methods accept such sets"
)


@pytest.mark.parametrize("domain", [TRIANGLE, CONE, TRIANGLE & tb.Ball(1.0)], ids=repr)
def test_every_other_method_refuses_in_one_sentence(domain):
    sentence = REFUSAL.format(type(domain).__name__)
    for name, method in METHODS.items():
        if name in ("conic", "exact"):
            continue
        # A method without projections has a sentence of its own, about what it does need.
        words = sentence if method.needs_projection else "domain must"
        with pytest.raises(ValueError, match=words):
            tb.solve(problem(domain), name)
    for call in (tb.compare, lambda p: tb.certify(p, np.zeros(2))):
        with pytest.raises(ValueError, match=sentence):
            call(problem(domain))
    with pytest.raises(ValueError, match=sentence):
        tb.minimize(
            lambda x: float(x @ x),
            lambda x: float(x[0] ** 2),
            np.ones(2),
            jac=(lambda x: 2.0 * x, lambda x: np.array([2.0 * x[0], 0.0])),
            domain=domain,
            method="adaptive",
            check_gradients=True,
        )


def test_a_point_outside_is_not_projected():
    for Z in (TRIANGLE, CONE, TRIANGLE & CONE):
        with pytest.raises(ValueError, match=f"{type(Z).__name__}: x must be in the set"):
            Z.project(np.array([5.0, -5.0]))


# --- new numbers, tables, files -------------------------------------------------------------------


def test_new_numbers_are_noticed():
    rows, sides, center = A.copy(), B.copy(), np.zeros(2)
    p = problem(tb.Ball(9.0, center) & tb.Polyhedron(rows, sides))
    assert p.current() is p
    before = p.domain.sets[1]
    sides[0] = 1.0
    now = p.current().domain
    assert now.sets[1].b[0] == 1.0
    assert before.b[0] == 2.0
    assert now.sets[0] is p.domain.sets[0]
    center[0] = 1.0
    assert p.current().domain.sets[0].center[0] == 1.0
    sparse = sp.csr_array(A)
    Z = tb.Polyhedron(sparse, B)
    sparse.data[0] = 7.0
    assert Z.A[0, 0] == 1.0
    assert Z.current().A[0, 0] == 7.0


def test_names_of_tables_are_compared():
    table = pd.DataFrame(A, columns=["salt", "sugar"])
    Z = tb.Polyhedron(table, pd.Series(B))
    assert Z.names == ("salt", "sugar")
    assert (Z & tb.Ball(1.0)).names == ("salt", "sugar")
    other = pd.DataFrame([[1.0, 1.0]], columns=["sugar", "salt"])
    with pytest.raises(ValueError, match="Polyhedron: A and A_eq must have the same columns"):
        tb.Polyhedron(table, B, other, [1.0])
    with pytest.raises(ValueError, match="domain"):
        problem(Z, tb.LeastSquares(other, [1.0]))
    with pytest.raises(ValueError, match="Polyhedron: b must have the index of A"):
        tb.Polyhedron(table, pd.Series(B, index=[2, 1, 0]))


def test_a_problem_in_single_precision_keeps_the_numbers_of_its_polyhedron():
    lower = tb.LeastSquares(np.array([[1.0, 1.0]], np.float32), np.array([3.0], np.float32))
    assert problem(TRIANGLE, lower).is_single  # float32 holds them as they are
    assert not problem(tb.Polyhedron(A, [0.1, 0.0, 0.0]), lower).is_single
    assert not problem(tb.Polyhedron(A, [0.1, 0.0, 0.0]) & tb.Ball(1.0), lower).is_single


def test_toml_knows_them(tmp_path):
    np.save(tmp_path / "A.npy", A)
    (tmp_path / "b.csv").write_text("2\n0\n0\n")
    levels = '[upper]\nkind = "SquaredNorm"\n[lower]\nkind = "LeastSquares"\nA = [[1.0, 1.0]]\nb = [3.0]\n'  # noqa: E501
    rows = 'kind = "Polyhedron"\nA = "A.npy"\nb = "b.csv"\n'
    file = tmp_path / "p.toml"
    file.write_text(levels + "[domain]\n" + rows)
    read = read_problem(file)[0].domain
    np.testing.assert_array_equal(read.A, A)
    np.testing.assert_array_equal(read.b, B)
    cone = '[[domain]]\nkind = "SecondOrderCone"\nA = [[1.0, 0.0]]\nc = [0.0, 1.0]\n'
    file.write_text(levels + "[[domain]]\n" + rows + cone)
    both = read_problem(file)[0].domain
    assert [type(one) for one in both.sets] == [tb.Polyhedron, tb.SecondOrderCone]
    boxes = [
        '[[domain]]\nkind = "Box"\nlower = {}\nupper = {}\n'.format(*b) for b in ((0, 1), (2, 3))
    ]
    file.write_text(levels + "".join(boxes))
    with pytest.raises(ValueError, match="the two boxes must have a point in common"):
        read_problem(file)
    file.write_text("domain = [1, 2]\n" + levels)
    with pytest.raises(ValueError, match=r"\[domain\] must be a table"):
        read_problem(file)


def test_they_come_back_from_files(tmp_path):
    for Z in (TRIANGLE, CONE, tb.Polyhedron(sp.csr_array(A), B) & tb.Ball(1.0, [0.5, 0.5]) & CONE):
        problem(Z).save(tmp_path / "p.npz")
        again = tb.load(tmp_path / "p.npz").domain
        assert type(again) is type(Z)
        for x in np.random.default_rng(5).uniform(-1.0, 2.0, (100, 2)):
            assert again.contains(x) == Z.contains(x)


# --- wrong input ----------------------------------------------------------------------------------

WRONG = {
    "nothing": (lambda: tb.Polyhedron(), "A and b, or A_eq and b_eq, must be given, got none"),
    "no b": (lambda: tb.Polyhedron(A), "b must be given with A, got None"),
    "no A": (lambda: tb.Polyhedron(b=B), "A must be given with b, got None"),
    "no b_eq": (lambda: tb.Polyhedron(A_eq=A), "b_eq must be given with A_eq, got None"),
    "rows": (lambda: tb.Polyhedron(A, B[:2]), "b must have one entry per row of A (3), got 2"),
    "columns": (
        lambda: tb.Polyhedron(A, B, [[1.0]], [1.0]),
        "A and A_eq must have the same number of columns, got 2 and 1",
    ),
    "nan": (lambda: tb.Polyhedron(A * np.nan, B), "A must be finite, got NaN or infinite entries"),
    "nan in b": (lambda: tb.Polyhedron(A, [1, 2, np.nan]), "b must be finite or inf, got nan at index 2"),  # noqa: E501
    "-inf": (lambda: tb.Polyhedron(A, [1, -INF, 1]), "b must be finite or inf, got -inf at index 1"),  # noqa: E501
    "inf in b_eq": (lambda: tb.Polyhedron(A_eq=A, b_eq=[1, 1, INF]), "b_eq must be finite, got inf at index 2"),  # noqa: E501
    "scalar b": (lambda: tb.Polyhedron(A, 1.0), "b must be a vector, got a single number"),
    "vector A": (lambda: tb.Polyhedron([1.0, 2.0], [1.0]), "A must be a matrix with at least one column, got an array of shape (2,)"),  # noqa: E501
    "zero row": (
        lambda: tb.Polyhedron([[0.0, 0.0]], [-1.0]),
        "b must be at least 0 for a row of zeros, got -1: no x is in the set",
    ),
    "zero equation": (
        lambda: tb.Polyhedron(A_eq=[[0.0, 0.0]], b_eq=[1.0]),
        "b_eq must be 0 for a row of zeros, got 1: no x is in the set",
    ),
    "variables": (lambda: problem(tb.Polyhedron(np.eye(3), np.ones(3))), "A must have one column per variable (2), got 3"),  # noqa: E501
    "equations": (lambda: problem(tb.Polyhedron(A_eq=np.eye(3), b_eq=np.ones(3))), "A_eq must have one column per variable (2), got 3"),  # noqa: E501
}  # fmt: skip
WRONG_CONES = {
    "b": (lambda: tb.SecondOrderCone(np.eye(2), [1.0]), "b must have one entry per row of A (2), got 1"),  # noqa: E501
    "c": (lambda: tb.SecondOrderCone(np.eye(2), c=[1.0]), "c must have one entry per column of A (2), got 1"),  # noqa: E501
    "d": (lambda: tb.SecondOrderCone(np.eye(2), d=np.nan), "d must be a finite number, got nan"),
    "empty": (lambda: tb.SecondOrderCone(np.eye(2), d=-1.0), "d must be at least 0 if c is zero, got -1: no x is in the set"),  # noqa: E501
    "constant": (lambda: tb.SecondOrderCone([[0.0]], [3.0], d=1.0), "d must be at least 3 if c is zero, got 1: no x is in the set"),  # noqa: E501
    "variables": (lambda: problem(tb.SecondOrderCone(np.eye(3))), "A must have one column per variable (2), got 3"),  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_polyhedron_gets_one_sentence(kind):
    make, sentence = WRONG[kind]
    with pytest.raises(ValueError, match="Polyhedron") as caught:
        make()
    assert str(caught.value) == f"Polyhedron: {sentence}"


@pytest.mark.parametrize("kind", WRONG_CONES)
def test_a_wrong_cone_gets_one_sentence(kind):
    make, sentence = WRONG_CONES[kind]
    with pytest.raises(ValueError, match="SecondOrderCone") as caught:
        make()
    assert str(caught.value) == f"SecondOrderCone: {sentence}"


def test_a_wrong_intersection_gets_one_sentence():
    with pytest.raises(ValueError, match="sets must contain at least one set, got none"):
        tb.Intersection()
    with pytest.raises(TypeError, match="domains of tiebreak, passed one by one, such as"):
        tb.Intersection(TRIANGLE, 3.0)
    with pytest.raises(TypeError, match="got the class Ball"):
        tb.Intersection(TRIANGLE, tb.Ball)
    with pytest.raises(ValueError, match="Intersection: the two boxes must have a point in common"):
        tb.Box(0.0, 1.0) & tb.Box(2.0, 3.0)
    with pytest.raises(TypeError, match="unsupported operand"):
        TRIANGLE & 3.0
    with pytest.raises(ValueError, match="Polyhedron: A must have one column per variable"):
        problem(tb.Ball(1.0) & tb.Polyhedron(np.eye(3), np.ones(3)))


def test_the_triangle_is_what_it_is_said_to_be():
    for c in np.random.default_rng(6).standard_normal((10, 2)):
        assert linprog(c, A, B, bounds=(None, None)).fun == pytest.approx(np.min(VERTICES @ c))


def test_rows_are_counted_as_the_user_counts_them():
    """Those left out because of an infinite b count too."""
    A, b = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [-1.0, 0.0]]), [np.inf, np.inf, 1.0, -2.0]
    Z = tb.Polyhedron(A, b)
    named = [one.what for one in Z.violations(np.array([0.0, 3.0]))]
    assert named == ["row 2 of A", "row 3 of A"]
    assert list(Z.linear_rows(2).numbers[0]) == ["2 of A", "3 of A"]
    empty = tb.Polyhedron(A, [np.inf, np.inf, 1.0, -2.0]) & tb.Box(0.0, 1.0)
    problem = tb.Problem(lower=tb.SquaredNorm(), upper=tb.Linear([1, 1]), domain=empty)
    assert "row 3 of A" in tb.solve(problem, "conic").message


@pytest.mark.parametrize(
    "domain",
    [
        tb.Polyhedron([[1.0, 1.0, 1.0]], [1.0]),
        tb.SecondOrderCone(np.eye(3), d=1.0),
        tb.Box(0.0, [1.0, 2.0, 3.0]),
        tb.Ball(1.0, [1.0, 0.0, 0.0]),
        tb.Halfspace([1.0, 0.0, 0.0], 1.0),
        tb.Ball(2.0) & tb.Polyhedron([[1.0, 1.0, 1.0]], [1.0]),
    ],
)
def test_a_set_says_how_many_variables_there_are(domain):
    assert domain.dimension == 3
    problem = tb.Problem(lower=tb.SquaredNorm(), upper=tb.ElasticNet(1.0, 1.0), domain=domain)
    assert problem.dimension == 3
    assert tb.solve(problem).x == pytest.approx(np.zeros(3), abs=1e-6)
    assert tb.Levels(tb.SquaredNorm(), tb.ElasticNet(1.0, 1.0), domain=domain).dimension == 3
    assert tb.Simplex().dimension is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_ball_whose_sphere_passes_close_to_0_contains_its_projections(dtype):
    """Rounding in x - center is relative to the center, not to x."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        center = (1e9 * rng.standard_normal(3)).astype(dtype)
        ball = tb.Ball(float(np.linalg.norm(center)), center)
        x = ball.project((-rng.uniform(0.0, 1e3) / 1e9 * center).astype(dtype))
        assert ball.contains(x), ball.violations(x)
    assert not tb.Ball(1.0, [1e3, 0.0]).contains(np.array([1e3 + 1.0 + 1e-5, 0.0]))
