"""The squared hinge loss: margins below 1 are shared by all minimisers, others are inequalities."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import tiebreak as tb
from tiebreak.functions.parts.parts import decompose

METHODS = ("exact", "conic", "auto")
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}


def least(goal: Any, constraints: list[Any]) -> float:
    problem = cp.Problem(cp.Minimize(goal), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # as tight as that is not always reached
        problem.solve(**TIGHT)
    return float(problem.value)


def planted(seed: int) -> tuple[tb.SquaredHinge, np.ndarray, float]:
    """Rows a_j with both labels, of weights u and v: all minimisers have <a_j, x> = (u-v)/(u+v).

    More rows are combinations of these whose margins are above 1 there. The point of least norm.
    """
    rng = np.random.default_rng(seed)
    k, n = 3, 5
    a = rng.integers(-3, 4, (k, n)).astype(float)
    while np.linalg.matrix_rank(a) < k:
        a = rng.integers(-3, 4, (k, n)).astype(float)
    u, v = rng.integers(1, 9, k).astype(float), rng.integers(1, 9, k).astype(float)
    t = (u - v) / (u + v)
    more = rng.integers(-20, 21, (40, k)).astype(float)
    more = more[np.abs(more @ t) > 1.25][:4]
    rows = np.vstack([a, a, more @ a])
    labels = np.concatenate([np.ones(k), -np.ones(k), np.sign(more @ t)])
    weights = np.concatenate([u, v, rng.integers(1, 5, len(more))])
    best = float(np.sum(u * (1 - t) ** 2 + v * (1 + t) ** 2)) / 2
    return tb.SquaredHinge(rows, labels, mean=False, weights=weights), np.linalg.pinv(a) @ t, best


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(8))
def test_the_planted_point_of_least_norm(method: str, seed: int) -> None:
    loss, x, best = planted(seed)
    result = tb.solve(tb.Problem(lower=loss, upper=tb.SquaredNorm()), method)
    np.testing.assert_allclose(result.x, x, atol=1e-8)
    assert result.lower_value == pytest.approx(best, rel=1e-12)
    assert result.status == "certified"


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(6))
def test_classes_that_a_plane_separates_give_the_plane_of_largest_margin(
    method: str, seed: int
) -> None:
    """g* = 0, and f = ½|x|² over margins of 1 at least: the hard-margin machine."""
    rng = np.random.default_rng([1, seed])
    A, w = rng.standard_normal((12, 4)), rng.standard_normal(4)
    y = np.sign(A @ w)
    result = tb.solve(tb.Problem(lower=tb.SquaredHinge(A, y), upper=tb.SquaredNorm()), method)
    x = cp.Variable(4)
    best = least(cp.sum_squares(x) / 2, [cp.multiply(y, A @ x) >= 1])
    assert result.success
    assert result.lower_value <= 1e-18
    assert result.upper_value == pytest.approx(best, rel=1e-7)


def draw(seed: int) -> tuple[Any, Any, list[Any], Any, Any]:
    """A problem, with its levels and constraints for CVXPY."""
    rng = np.random.default_rng([2, seed])
    m, n = int(rng.integers(3, 14)), int(rng.integers(2, 7))
    A = rng.standard_normal((m, n)) if seed % 2 else rng.integers(-2, 3, (m, n)).astype(float)
    A[:, -1] = A[:, 0] if rng.random() < 0.6 else A[:, -1]
    y, w = np.sign(rng.standard_normal(m)), rng.uniform(0.3, 2.0, m)
    x, c = cp.Variable(n), rng.standard_normal(n)
    B, b = rng.standard_normal((n + 1, n)), rng.standard_normal(n + 1)
    f, above = [
        (tb.SquaredNorm(center=c), cp.sum_squares(x - c) / 2),
        (tb.LeastSquares(B, b), cp.sum_squares(B @ x - b) / 2),
        (tb.Huber(B, b, 0.5), cp.sum(cp.huber(B @ x - b, 0.5)) / 2),
    ][seed % 3]
    rows, offset = np.vstack([np.eye(n), -np.eye(n), c]), np.full(2 * n + 1, 0.8)
    Z, constraints = [
        (tb.Space(), []),
        (tb.Box(-0.7, 0.9), [x >= -0.7, x <= 0.9]),
        (tb.Polyhedron(rows, offset), [rows @ x <= offset]),
    ][int(rng.integers(3))]
    margins = cp.multiply(y, A @ x)
    g = cp.sum(cp.multiply(w, cp.square(cp.pos(1 - margins)))) / 2 / w.sum()
    problem = tb.Problem(lower=tb.SquaredHinge(A, y, weights=w), upper=f, domain=Z)
    return problem, above, constraints, g, margins


def test_drawn_problems_against_cvxpy(count: Any) -> None:
    """g* directly; f* among points with the margins below 1 that CVXPY found, and others above."""
    words = []
    for seed in range(count(12, 300)):
        problem, above, constraints, g, margins = draw(seed)
        best = least(g, constraints)
        lacking = np.maximum(0.0, 1.0 - margins.value)
        on = lacking > 1e-6
        held = [
            margins[i] == 1.0 - lacking[i] if on[i] else margins[i] >= 1.0 for i in range(len(on))
        ]
        top = least(above, [*constraints, *held])
        found = {method: tb.solve(problem, method) for method in METHODS}
        for result in found.values():
            words.append(result.status)
            assert result.success, (seed, result.message)
            assert result.lower_value == pytest.approx(best, abs=1e-7)
            assert result.upper_value == pytest.approx(top, abs=2e-6 * (1.0 + abs(top))), seed
        exact, conic = found["exact"].upper_value, found["conic"].upper_value
        assert exact == pytest.approx(conic, abs=1e-7 * (1.0 + abs(top))), seed
    assert words.count("certified") > len(words) // 4


def test_derivatives_and_kinks_of_the_part() -> None:
    rng = np.random.default_rng(3)
    A, y = rng.standard_normal((20, 6)), np.sign(rng.standard_normal(20))
    h = tb.SquaredHinge(A, y, weights=rng.random(20))
    parts = decompose("test", "lower", h, 6)
    for x in rng.standard_normal((10, 6)):
        slope = parts.slope(x)
        np.testing.assert_allclose(slope.vector, h.gradient(x), rtol=1e-11, atol=1e-12)
        near, kinks = parts.between_kinks(x)
        R, d = near.curvature(x), rng.standard_normal(6)
        d *= 0.999 * kinks.radius() / np.linalg.norm(d)
        np.testing.assert_allclose(
            h.gradient(x + d) - h.gradient(x), R.T @ (R @ d), atol=1e-13 * (1 + slope.size)
        )
        above, start = parts.curvature(x, above=True), h.value(x)
        for z in x + rng.standard_normal((20, 6)):
            top = start + slope.vector @ (z - x) + 0.5 * np.sum((above @ (z - x)) ** 2)
            assert h.value(z) <= top * (1 + 1e-12)


def test_a_linear_term_that_no_margin_holds_falls_for_ever() -> None:
    """Along (0, -1) nothing holds it; along (1, 0) the loss is 0 from 1 on and <c, x> falls."""
    hinge = tb.SquaredHinge([[1.0, 0.0]], [1.0])
    for c in ([0.0, 1.0], [-1.0, 0.0]):
        problem = tb.Problem(lower=hinge + tb.Linear(c), upper=tb.SquaredNorm())
        for method in ("exact", "auto"):
            assert tb.solve(problem, method).status == "unbounded"
    held = tb.Problem(lower=hinge + tb.Linear([0.25, 0.0]), upper=tb.SquaredNorm())
    result = tb.solve(held, "exact")
    np.testing.assert_allclose(result.x, [0.75, 0.0], atol=1e-12)
    assert result.status == "certified"


def test_above_where_it_reaches_zero_and_falls_no_further() -> None:
    """f falls along (1, 0), a direction of the ties, until its margin is 1: no fall for ever."""
    lower = tb.LeastSquares([[0.0, 1.0]], [2.0])
    result = tb.solve(tb.Problem(lower=lower, upper=tb.SquaredHinge([[1.0, 0.0]], [1.0])))
    assert result.success
    assert result.upper_value <= 1e-12
    far = tb.Problem(lower=tb.SquaredHinge([[1.0, 0.0]], [1.0]), upper=tb.Linear([-1.0, 0.0]))
    assert tb.solve(far).status == "unbounded"


def test_labels_are_checked_and_zeros_are_taken_as_minus_one() -> None:
    h = tb.SquaredHinge([[1.0], [2.0]], [0, 1])
    assert "taken as -1" in h.note
    assert h.value(np.array([0.0])) == 0.5
    with pytest.raises(ValueError, match="SquaredHinge: y must hold labels"):
        tb.SquaredHinge([[1.0], [2.0]], [2, 1])


@pytest.mark.parametrize("seed", range(6))
def test_of_planes_that_separate_it_is_the_one_with_the_widest_margin(seed):
    """The rows at the margin touch their kink, some of them to nine digits only."""
    rng = np.random.RandomState(seed)
    X = 3.0 * rng.uniform(size=(20, 3))
    A, y = np.hstack([X, np.ones((20, 1))]), np.where(X[:, 0] < 1.0, -1.0, 1.0)
    upper, counted = tb.SquaredNorm([1.0, 1.0, 1.0, 0.0]), [1.0, 1.0, 1.0, 0.0]
    found, other = (
        tb.solve(tb.Problem(lower=loss, upper=upper, counted=counted), method)
        for loss, method in ((tb.SquaredHinge(A, y), "exact"), (tb.Hinge(A, y), "conic"))
    )
    assert found.success
    assert found.dimension == 4
    assert found.x == pytest.approx(other.x, rel=1e-7)
