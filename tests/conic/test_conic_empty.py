"""No point meets the constraints: multipliers that contradict them, found and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.conic.chain import solve_chain
from tiebreak.conic.representation import compile_levels
from tiebreak.sets.polyhedra import contradicts

EMPTY = {
    "two rows": (
        tb.Polyhedron([[1.0, 1.0], [-1.0, -1.0]], [-1.0, -1.0]),
        "row 0 of A and row 1 of A",
    ),
    "two equations": (
        tb.Polyhedron(A_eq=[[1.0, 1.0], [2.0, 2.0]], b_eq=[1.0, 3.0]),
        "row 0 of A_eq and row 1 of A_eq",
    ),
    "a row and bounds": (
        tb.Box(0.0, 1.0) & tb.Polyhedron([[-1.0, -1.0]], [-2.00001]),
        "the bound of x[0] and the bound of x[1] and row 0 of A",
    ),
    "a ball": (tb.Ball(1.0) & tb.Halfspace(np.array([3.0, 4.0]), -6.0), "Halfspace and Ball"),
    "two balls": (tb.Ball(1.0, center=[3.0, 0.0]) & tb.Ball(1.0, center=[0.0, 1.5]), "Ball"),
    "an l1 ball": (
        tb.L1Ball(1.0) & tb.Halfspace(np.array([1.0, 1.0]), -1.5),
        "L1Ball and Halfspace",
    ),
    "a far bound": (tb.Box(0.0, 1e9) & tb.Polyhedron([[1.0, 1.0]], [-2.0]), "row 0 of A"),
    "a cone": (tb.SecondOrderCone(np.eye(2), c=[0.1, 0.2], d=-1.0), "SecondOrderCone"),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_what_contradicts_is_named(kind: str) -> None:
    domain, names = EMPTY[kind]
    levels = tb.Levels(tb.Linear([1.0, 0.0]), tb.L1(), tb.SquaredNorm(), domain=domain)
    result = tb.solve(levels)
    assert result.status == "infeasible"
    assert not result.success
    assert names in result.message
    problem = tb.Problem(lower=tb.Linear([1.0, 0.0]), upper=tb.L1(), domain=domain)
    assert names in tb.solve(problem, "conic").message


def rows_of(seed: int, is_empty: bool) -> tuple[Any, Any]:
    """Rows that a planted point meets, some of them just so; or with one more, which none meets."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 9)), int(rng.integers(3, 20))
    A = rng.standard_normal((m, n)) if seed % 2 else rng.integers(-2, 3, (m, n)).astype(float)
    b = A @ rng.standard_normal(n) + rng.integers(0, 2, m) * rng.random(m)
    if is_empty:
        y = rng.random(m) * (rng.random(m) < 0.5) + (np.arange(m) == 0)
        A, b = (
            np.vstack([A, -(y @ A)]),
            np.append(b, -(y @ b) - 10.0 ** rng.integers(-6, 2) * (1.0 + y @ np.abs(b))),
        )
    if seed % 3 == 0:
        scales = 10.0 ** rng.integers(-6, 7, len(b))
        A, b = A * scales[:, None], b * scales
    return A[A.any(axis=1)], b[A.any(axis=1)]


def test_planted_contradictions_and_planted_points(count: Any) -> None:
    for seed in range(count(20, 400)):
        A, b = rows_of(seed, is_empty=True)
        program = compile_levels([tb.Linear(np.zeros(A.shape[1]))], tb.Polyhedron(A, b), A.shape[1])
        found = solve_chain(program, [])
        assert found.status == "infeasible", (seed, found.message)
        none = np.zeros((0, A.shape[1])), np.zeros(0)
        assert contradicts(A, b, *none, found.contradiction, np.zeros(0)), seed
        A, b = rows_of(seed, is_empty=False)
        program = compile_levels([tb.Linear(np.zeros(A.shape[1]))], tb.Polyhedron(A, b), A.shape[1])
        assert solve_chain(program, []).status != "infeasible", seed


def test_the_check_of_multipliers_believes_nobody() -> None:
    """x <= -1 and -x <= -1 contradict each other by y = (1, 1), and by nothing else."""
    A, b, none = np.array([[1.0], [-1.0]]), np.array([-1.0, -1.0]), (np.zeros((0, 1)), np.zeros(0))
    assert contradicts(A, b, *none, np.array([1.0, 1.0]), np.zeros(0))
    for y in ([1.0, 1.1], [-1.0, -1.0], [0.0, 0.0], [np.nan, 1.0]):
        assert not contradicts(A, b, *none, np.array(y), np.zeros(0)), y
    assert not contradicts(A, np.array([1.0, -1.0]), *none, np.array([1.0, 1.0]), np.zeros(0))
    almost = np.array([1.0, -1.0 - 1e-12])  # a point that misses it by so little counts as feasible
    assert not contradicts(A, almost, *none, np.array([1.0, 1.0]), np.zeros(0))
    tiny = np.array([[1.0, 0.0], [-1.0, -1e-14]])  # (-1, 1e14) meets both
    assert not contradicts(
        tiny, b, np.zeros((0, 2)), np.zeros(0), np.array([1.0, 1.0]), np.zeros(0)
    )


@pytest.mark.parametrize("method", ["auto", "exact", "conic"])
def test_an_empty_set_has_no_optimum_and_no_ties(method):
    g, f = tb.LeastSquares(np.eye(2), [1.0, 2.0]), tb.Linear([1.0, 1.0])
    domain = tb.Orthant() & tb.Polyhedron([[1.0, 1.0]], [-1.0])
    result = tb.solve(tb.Problem(upper=f, lower=g, domain=domain), method)
    assert result.status == "infeasible"
    assert result.upper_optimum == result.lower_optimum == (-np.inf, np.inf)
    assert (result.upper_gap, result.lower_gap, result.dimension) == (np.inf, np.inf, None)
    assert "proved" not in str(result)
    levels = tb.solve(tb.Levels(g, f, domain=domain), method)
    assert (levels.status, levels.levels) == ("infeasible", {})


@pytest.mark.parametrize("method", ["auto", "exact", "conic"])
def test_an_empty_set_has_no_point_in_memory_or_in_files(method, tmp_path):
    """nan in the shape of x, so that nothing that is computed with it looks like an answer."""
    g, f = tb.LeastSquares(np.eye(2), [1.0, 2.0]), tb.Linear([1.0, 1.0])
    domain = tb.Orthant() & tb.Polyhedron([[1.0, 1.0]], [-1.0])
    problem = tb.Problem(upper=f, lower=g, domain=domain)
    result = tb.solve(problem, method)
    chain = tb.Levels(g, f, tb.SquaredNorm(), domain=domain)
    for one in (result, tb.solve(tb.Levels(g, f, domain=domain), method), tb.solve(chain)):
        one.save(tmp_path / "run.npz")
        for x in (one.x, tb.load(tmp_path / "run.npz").x):
            assert x.shape == (2,)
            assert np.isnan(x).all()
        assert "last point" not in one.details()
        one.to_html(str(tmp_path / "run.html"))
    assert np.isnan([result.upper_value, result.lower_value]).all()
    assert result.to_dict()["upper"]["value"] is None
    again = tb.solve(tb.Problem(upper=f, lower=g), x0=result)  # a start that does not exist
    np.testing.assert_allclose(again.x, [1.0, 2.0])


BARELY = tb.SecondOrderCone([[1.0], [0.0]], [0.0, 1.0], [1.0], 0.0)  # sqrt(x² + 1) <= x
# |(2, x - y)| <= x + y: the hyperbola x y >= 1 with x > 0; but x <= 0.
HYPERBOLA = tb.SecondOrderCone(
    [[0.0, 0.0], [1.0, -1.0]], [2.0, 0.0], [1.0, 1.0], 0.0
) & tb.Polyhedron([[1.0, 0.0]], [0.0])


@pytest.mark.parametrize("method", ["auto", "conic"])
@pytest.mark.parametrize(
    "levels",
    [
        (tb.Linear([1.0]), tb.SquaredNorm()),
        (tb.Linear([-1.0]), tb.SquaredNorm()),
        (tb.SquaredNorm(), tb.Linear([1.0]), tb.L1()),
        (tb.Level(tb.Linear([1.0]), slack=1.0), tb.SquaredNorm()),
        (tb.Level(tb.Linear([-1.0]), slack=1.0), tb.SquaredNorm()),
    ],
)
def test_a_set_whose_points_would_be_at_infinity_gives_no_answer(levels: Any, method: str) -> None:
    """No multipliers prove that it is empty: numbers come arbitrarily close to being its points."""
    result = tb.solve(tb.Levels(*levels, domain=BARELY), method)
    assert result.status == "undetermined", result.message


@pytest.mark.parametrize("slope", [[0.0, -1.0], [0.0, 1.0], [1.0, 1.0]])
def test_a_hyperbola_and_its_asymptote(slope: Any) -> None:
    levels = tb.Levels(tb.Linear(slope), tb.SquaredNorm(), tb.L1(), domain=HYPERBOLA)
    assert tb.solve(levels, "conic").status in ("undetermined", "failed")


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_a_level_falls_from_a_point_of_the_set(size: float) -> None:
    """x y >= size² with x, y > 0: a set that is not empty, on which -x has no minimum."""
    matrix, offset = [[0.0, 0.0], [1.0, -1.0]], [2.0 * size, 0.0]
    domain = tb.SecondOrderCone(matrix, offset, [1.0, 1.0], 0.0)
    levels = tb.Levels(tb.Linear([-1.0, 0.0]), tb.SquaredNorm(), tb.L1(), domain=domain)
    assert tb.solve(levels, "conic").status == "unbounded"
