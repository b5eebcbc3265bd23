"""Where all inequalities bind, where the answer is a tip, and where there is no room inside."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.conic.duals import _dependent
from tiebreak.conic.program import Cone, Objective
from tiebreak.conic.solver import clarabel_solve


def huber(matrix: Any, target: Any, x: Any) -> float:
    """With delta = 1, written out."""
    size = np.abs(matrix @ x - target)
    return float(np.sum(np.where(size <= 1.0, 0.5 * size**2, size - 0.5)))


def test_all_inequalities_of_a_level_bind() -> None:
    """No residual is an outlier: then slacks are rounding, and none of them is a unit."""
    X = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [-2.0, 1.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    first = tb.Level(tb.Huber(X, y, 1.0), "huber")
    result = tb.solve(tb.Levels(first, tb.L1(), tb.Linear(np.array([1.0, 0.0]))))
    assert result.success
    # Least squares, for all residuals are at most 1: x = (0.6, 0).
    assert np.max(np.abs(result.x - [0.6, 0.0])) <= 1e-9
    assert abs(huber(X, y, result.x) - 0.2) <= 1e-12
    assert abs(result.levels["huber"].value - 0.2) <= 1e-9
    assert result.levels["huber"].dimension == 0


@pytest.mark.parametrize(
    "rows", [[[1.0, -1.0], [-1.0, -1.0]], [[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]]
)
def test_the_answer_is_the_tip_of_a_cone(rows: Any) -> None:
    domain = tb.Polyhedron(rows, np.zeros(len(rows)))
    first, then = tb.Linear(np.array([1.0, 2.0])), tb.Linear(np.array([1.0, 0.0]))
    result = tb.solve(tb.Levels(first, then, tb.SquaredNorm(), domain=domain))
    assert result.success, result.message
    assert np.max(np.abs(result.x)) <= 1e-12


@pytest.mark.parametrize("weight", [1.0, 0.94, 8080214056.152639])
def test_the_answer_is_the_origin_where_nothing_but_the_ball_has_a_size(weight: float) -> None:
    problem = tb.Problem(
        upper=tb.LeastSquares([[0.21183638]], [0.01129466]),
        lower=tb.SquaredNorm(weight=weight),
        domain=tb.L1Ball(0.17114444395307937),
    )
    result = tb.solve(problem, "conic")
    assert result.success, result.message
    assert abs(result.x[0]) <= 1e-15


@pytest.mark.parametrize("seed", range(8))
def test_ties_between_two_bounds_that_leave_no_room(seed: int) -> None:
    """x_0 + x_2 = 0 is held, both are >= 0: the point of before misses that by rounding."""
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((4, 2)) / 10.0
    rows = np.vstack([half, half])[:, [0, 1, 0]]
    center = 20.0 * rng.standard_normal(3)
    problem = tb.Problem(
        upper=tb.SquaredNorm(center=center),
        lower=tb.Logistic(rows, np.repeat([1.0, -1.0], 4)),  # of every row both labels
        domain=tb.Orthant(),
    )
    result = tb.solve(problem, "conic")
    assert result.success, result.message
    assert np.max(np.abs(result.x)) <= 1e-12 * np.max(np.abs(center))


def test_nothing_is_proved_from_above_where_there_is_no_room() -> None:
    """Two balls that touch in one point: the solver ends sqrt(rounding) away from it.

    Now and then it comes no closer than 1e-8, on one processor here and on another there, and says
    that it failed.
    """
    failed = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, unit = int(rng.integers(2, 5)), np.eye(5)[0]
        center = np.round(8.0 * rng.standard_normal(n)) * 2.0 ** int(rng.integers(-10, 10))
        radius = 2.0 ** int(rng.integers(-5, 10))
        other = center + 2.0 * radius * unit[:n]
        p = center + radius * unit[:n]  # without rounding errors
        target = np.round(4.0 * rng.standard_normal(n)) * np.max(np.abs(p))
        truth = {"near": 0.5 * np.sum((p - target) ** 2), "sizes": np.sum(np.abs(p))}
        levels = [
            tb.Level(tb.SquaredNorm(center=target), "near"),
            tb.Level(tb.L1(), "sizes"),
            tb.Level(tb.Linear(np.ones(n)), "sum"),
        ]
        domain = tb.Ball(radius, center=center) & tb.Ball(radius, center=other)
        result = tb.solve(tb.Levels(*levels[:: 1 if seed % 2 else -1], domain=domain))
        if result.status == "failed":
            failed += 1
            continue
        for name, value in truth.items():
            low, high = result.levels[name].best
            rounding = 1e-15 * (value + float(target @ target))
            assert low <= value + rounding
            assert high >= value - rounding
    assert failed <= 3


def test_a_bound_on_equations_alone() -> None:
    """Its multipliers belong to the bound: without them it was 0."""
    rng = np.random.default_rng(0)
    A, b, n = rng.standard_normal((20, 6)), rng.standard_normal(20), 6
    domain = tb.Polyhedron(A_eq=np.ones((1, n)), b_eq=[1.0])
    first = tb.Level(tb.LeastSquares(A, b), "fit")
    result = tb.solve(tb.Levels(first, tb.L1(), tb.SquaredNorm(), domain=domain))
    K = np.block([[A.T @ A, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    x = np.linalg.solve(K, np.append(A.T @ b, 1.0))[:n]
    value = 0.5 * float(np.sum((A @ x - b) ** 2))
    low, high = result.levels["fit"].best
    assert value - 1e-9 <= low <= value + 1e-14 * value
    assert value - 1e-14 * value <= high <= value + 1e-9


def test_the_slope_of_a_curve_from_a_minimiser() -> None:
    """g and g* are 0 at x0, which gives no unit: the slope was said to be 0."""
    first, then = tb.Linear(np.array([1.0, 0.0])), tb.Linear(np.array([-1.0, 0.0]))
    problem = tb.Problem(upper=then, lower=first, domain=tb.Box(0.0, 1.0))
    curve = tb.tradeoff(problem, [0.0, 0.25])
    assert abs(curve.slope - 1.0) <= 1e-3  # f*(slack) = -slack
    assert curve.points[0].price == curve.slope
    assert not curve.is_sensitive
    with pytest.raises(ValueError, match="tradeoff: slacks must be given"):
        tb.tradeoff(problem)
    with pytest.raises(TypeError, match="tradeoff: slacks must be a list of numbers, got float"):
        tb.tradeoff(problem, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", [1.0, 2.0**-26])
@pytest.mark.parametrize("first", [tb.L1(), tb.TotalVariation(1.0), tb.L2()])
def test_the_answer_is_0_up_to_rounding(unit: float, first: tb.L1) -> None:
    """Then rounding is all that the constraints' terms consist of."""
    rows = np.array([[2.0, -1.0, 3.0], [-1.0, 1.0, 2.0], [1.0, 1.0, -3.0]])
    domain = tb.Polyhedron(rows, np.full(3, 2.0 * unit), np.array([[3.0, -1.0, 1.0]]), [0.0])
    near = tb.SquaredNorm(center=np.array([2.0, -1.0, 1.0]) * unit)
    levels = tb.Levels(first, tb.L1(2.0), near, domain=domain & tb.L1Ball(5.0 * unit))
    result = tb.solve(levels)
    assert result.success, result.message
    assert np.max(np.abs(result.x)) <= 1e-12 * unit


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("cost", "inside", "has_minimiser"),
    [
        ([1.0, 0.0], ([[0.0, 0.0], [1.0, -1.0]], [2.0, 0.0], [1.0, 1.0]), False),  # x, xy >= 1
        ([1.0, 1.0], ([[0.0, 0.0], [1.0, -1.0]], [2.0, 0.0], [1.0, 1.0]), True),  # x + y
        ([1.0, -1.0], ([[0.0, 1.0], [0.0, 0.0]], [0.0, 1.0], [1.0, 0.0]), False),  # |(y, 1)| - y
        ([1.0, -0.5], ([[0.0, 1.0], [0.0, 0.0]], [0.0, 1.0], [1.0, 0.0]), True),
    ],
)
@pytest.mark.parametrize("unit", [1.0, 2.0**-20, 2.0**20])
def test_an_infimum_that_is_not_attained(
    cost: list[float], inside: Any, has_minimiser: bool, unit: float
) -> None:
    A, b, c = map(np.array, inside)
    domain = tb.SecondOrderCone(A, unit * b, c, 0.0)
    levels = tb.Levels(tb.Linear(np.array(cost)), tb.L1(), tb.SquaredNorm(), domain=domain)
    result = tb.solve(levels)
    assert result.success == has_minimiser
    assert has_minimiser or "no minimiser" in result.message


def test_float32_is_no_reason_to_fail() -> None:
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((6, 4)), rng.standard_normal(6)
    rows = rng.standard_normal((3, 4)) * 2.0 ** rng.integers(-20, 20, 4)
    c = rng.standard_normal(4).astype(np.float32)
    fit = tb.LeastSquares(A.astype(np.float32), b.astype(np.float32))
    domain = tb.Polyhedron(rows.astype(np.float32), np.ones(3)) & tb.Box(-1.0, 1.0)
    result = tb.solve(tb.Levels(tb.Level(fit, slack=0.1), tb.Linear(c), tb.L1(), domain=domain))
    assert result.success, result.message


@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_a_loss_that_falls_for_ever(kind: str) -> None:
    """The infimum is no minimum: there is nothing to choose from."""
    X = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [-2.0, 1.0]])
    losses = {
        "logistic": tb.Logistic(X, np.array([1.0, 1.0, -1.0, -1.0])),
        "poisson": tb.Poisson(np.abs(X), np.array([0.0, 3.0, 0.0, 0.0])),
    }
    levels = (tb.Level(losses[kind], "loss"), tb.SquaredNorm(), tb.Linear(np.ones(2)))
    result = tb.solve(tb.Levels(*levels))
    assert result.status == "unbounded"
    assert not result.success
    assert result.direction is not None
    value = losses[kind].value
    assert value(40.0 * result.direction) <= value(10.0 * result.direction)
    assert tb.solve(tb.Levels(*levels, domain=tb.Ball(2.0))).success


def test_rounding_in_the_root_of_a_form_is_no_unit():
    """Its entries of 1e-17 made units of 1e-6, in which the slope of the second level was 0."""
    Q = [
        [2.0, 1.0, 1.0, -2.0, -1.0],
        [1.0, 1.0, 1.0, -1.0, -1.0],
        [1.0, 1.0, 2.0, -1.0, -2.0],
        [-2.0, -1.0, -1.0, 3.0, 0.0],
        [-1.0, -1.0, -2.0, 0.0, 3.0],
    ]  # of rank 4: 0 along (1, 0, 1, 1, 1)
    falls = tb.Linear([0.0, 1.0, 0.0, 0.0, 1.0])
    levels = tb.Levels(tb.Quadratic(Q, np.zeros(5)), falls, tb.L1())
    assert tb.solve(levels).status == "unbounded"


@pytest.mark.parametrize("rise", [0.0, 1e-13])
def test_a_fall_along_ties_that_may_be_rounding_is_not_called_unbounded(rise):
    """g sees the direction of f's fall by 1e-13 of its size: a minimiser is far away."""
    A = np.array([[1.0, 2.0], [1.0, 2.0 + 2.0 * rise]])
    lower = tb.LeastSquares(A, np.array([1.0, 1.0]))
    problem = tb.Problem(upper=tb.Linear([2.0, -1.5]), lower=lower, domain=tb.Monotone())
    result = tb.solve(problem, "conic")
    assert result.status == ("undetermined" if rise else "unbounded"), result.message
    levels = tb.solve(tb.Levels(lower, tb.Linear([2.0, -1.5]), domain=tb.Monotone()), "conic")
    assert levels.status == result.status


def test_many_variables_without_a_square() -> None:
    """The Hessian is nothing, and not a dense matrix of zeros."""
    n, none = 4000, np.zeros((0, 4000))
    bounds = sp.csr_array(-sp.eye_array(n))
    tracemalloc.start()
    answer = clarabel_solve(
        Objective(none, np.zeros(0), np.ones(n)), bounds, np.ones(n), (Cone("nonnegative", n),)
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.max(np.abs(answer.z + 1.0)) <= 1e-6
    assert peak < 8 * n * n / 4


SLOPES = [2.0**-k for k in (24, 30, 36, 42, 48)]
FIT = tb.LeastSquares([[1.0, -2.0, 0.0, 0.0]], [1.0])
SECOND = {
    "least squares": tb.LeastSquares([[0.0, 3.0, 1.0, 0.0]], [2.0]),
    "huber": tb.Huber([[0.0, 3.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]], [2.0, -5.0]),
    "logistic": tb.Logistic([[0.0, 3.0, 1.0, 0.0]] * 2, [1.0, -1.0]),
}


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("is_first", [False, True])
def test_a_level_falls_without_end_however_slowly(slope, name, is_first):
    """To a solver the slope is rounding beside the other terms; nothing else sees x_4."""
    falls, domain = (
        SECOND[name] + tb.Linear([0.0, 0.0, 0.0, slope]),
        tb.Polyhedron([[1, 0, 0, 0]], [5]),
    )
    some = (falls, FIT) if is_first else (FIT, falls)
    result = tb.solve(tb.Levels(*some, tb.SquaredNorm(), domain=domain))
    assert result.status == "unbounded", result.message
    assert result.direction[3] < 0.0


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("name", SECOND)
def test_a_slow_fall_that_ends_at_a_bound_is_none(slope, name):
    falls = SECOND[name] + tb.Linear([0.0, 0.0, 0.0, slope])
    domain = tb.Polyhedron([[1.0, 0.0, 0.0, -1.0]], [5.0])
    result = tb.solve(tb.Levels(FIT, falls, tb.SquaredNorm(), domain=domain & tb.Box(-1.0, np.inf)))
    assert result.success, result.message


POINT = tb.Orthant() & tb.Polyhedron([[1.0, 1.0, 1.0]], [0.0])
PLANE = tb.Box(-3.0, 3.0) & tb.Polyhedron([[1.0, 1, 0], [-1, -1, 0]], [1.0, -1.0])
VERTEX = tb.Orthant() & tb.Polyhedron([[-1.0, -1, 0], [0, -1, -1]], [-1.0, -1.0])
BY_A_HAIR = tb.Box(0.0, 1.0) & tb.Polyhedron([[2.0, 0, 0], [1, -2, 0]], [1.0, -2.0])


@pytest.mark.parametrize("method", ["auto", "conic"])
@pytest.mark.parametrize("last", [tb.Linear(np.zeros(3)), tb.SquaredNorm(center=np.ones(3))])
@pytest.mark.parametrize(
    ("domain", "first", "ties"),
    [
        (POINT, [0.0, 0, 0], 0),
        (PLANE, [0.0, 0, 0], 2),
        (PLANE, [0.0, 0, 1], 1),
        (VERTEX, [1.0, 1, 1], 0),  # one of two binding rows has all of the multiplier
        (BY_A_HAIR, [0.0, 0, 0], 1),
    ],
)
def test_ties_count_rows_that_bind_everywhere_without_a_multiplier(
    domain, first, ties, last, method
):
    flat = tb.Linear(np.zeros(3))
    result = tb.solve(tb.Levels(tb.Linear(first), flat, last, domain=domain), method)
    assert result.success
    assert [level.dimension for level in result.levels.values()][:2] == [ties, ties]


def test_ties_are_unknown_if_a_curved_set_touches_the_rest_in_one_point():
    touching = tb.Ball(1.0) & tb.Halfspace(np.array([-1.0, 0.0]), -1.0)
    levels = tb.Levels(tb.Linear([0.0, 0]), tb.Linear([0.0, 0]), tb.SquaredNorm(), domain=touching)
    result = tb.solve(levels)
    assert result.levels["level 1"].dimension in (None, 0)


def test_conditions_that_fail_are_no_solution_on_the_whole_space_either():
    A = np.hstack([1e-180 * np.array([[1.0, 2], [3, 4]]), [[1.0], [0.0]]])
    problem = tb.Problem(lower=tb.LeastSquares(A, [1.0, 2]), upper=tb.SquaredNorm())
    result = tb.solve(problem, "conic")
    assert not result.success
    assert result.dimension is None


def test_levels_whose_squares_underflow_get_one_sentence():
    tiny = tb.LeastSquares(np.full((1, 3), 1e-200), [3e-200])
    domain = tb.Orthant() & tb.Ball(20.0)
    with pytest.raises(ValueError, match=r"A of LeastSquares in level 1 must be between"):
        tb.solve(tb.Levels(tiny, tb.Linear([1.0, 2, 3]), tb.SquaredNorm(), domain=domain))


def test_a_box_that_is_narrow_for_its_distance_is_not_taken_for_a_point():
    domain = tb.Box([0.0, 1e12 - 0.5], [1.0, 1e12 + 0.5])
    for second in (tb.Linear([2.0, 0.0]), tb.SquaredNorm(weight=[1.0, 0.0])):
        levels = tb.Levels(tb.Linear([1.0, 0.0]), second, tb.Linear([1.0, 0.0]), domain=domain)
        found = tb.solve(levels, "conic").levels.values()
        assert all(level.dimension in (1, None) for level in found)


def test_rows_that_depend_on_others_are_those_without_which_the_rank_stays(
    count: Callable[[int, int], int],
) -> None:
    for seed in range(count(60, 600)):
        rng = np.random.default_rng(seed)
        m, n = int(rng.integers(0, 7)), int(rng.integers(1, 6))
        A = rng.integers(-2, 3, (m, n)) * (rng.random((m, n)) < rng.uniform(0.2, 1.0)) * 1.0
        active = np.flatnonzero(is_active := rng.random(m) < 0.7)
        rank = np.linalg.matrix_rank
        needs = [rank(A[np.setdiff1d(active, [i])]) < rank(A[active]) for i in active]
        found = _dependent(sp.csr_array(A), is_active)
        assert not found[~is_active].any()
        np.testing.assert_array_equal(found[active], ~np.array(needs, dtype=bool))


@pytest.mark.parametrize("tilt", [1e-8, 1e-9, 1e-10])
def test_a_cost_that_is_nearly_parallel_to_a_face_is_not_solved_on_the_face(tilt: float) -> None:
    """The face has f = 0 but is above g* by half the tilt; f* is 1/2, at (0, 1/2, 0)."""
    domain = tb.Box(0.0, 1.0) & tb.Polyhedron([[2.0, 2, 1], [-3, -2, 2]], [1.0, 3])
    g, f = tb.Linear([-4.0 + tilt, -4, -2]), tb.Linear([0.0, 1, 2])
    found = tb.solve(tb.Problem(lower=g, upper=f, domain=domain), "conic")
    assert not found.success or found.upper_value == pytest.approx(0.5)
    exactly = tb.solve(tb.Levels(g, f, domain=domain))
    assert exactly.status == "certified"
    np.testing.assert_array_equal(exactly.x, [0.0, 0.5, 0.0])
