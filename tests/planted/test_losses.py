"""Certificates of losses whose answers are known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from planted.losses import holds, huber, multinomial

import tiebreak as tb


@pytest.mark.sample(6)
@pytest.mark.parametrize("method", ["adaptive", "agm-bio", "auto"])
@pytest.mark.parametrize("is_pushed", [False, True])
def test_huber_is_solved_and_its_certificates_hold(method, is_pushed, count):
    for seed in range(count(1, 40)):
        p = huber(seed, is_pushed=is_pushed)
        problem = tb.Problem(
            upper=tb.SquaredNorm(center=p.center),
            lower=tb.Huber(p.A, p.b, p.delta),
            domain=tb.Box(*p.box) if is_pushed else tb.Ball(30.0),
        )
        result = tb.solve(problem, method, rtol=1e-3, max_iter=1000)
        assert result.status != "failed", result.message
        assert holds(result.lower_optimum, p.g)
        assert holds(result.upper_optimum, p.f)
        if result.proved:
            assert result.lower_value - float(p.g) <= 1.01e-3 * max(1.0, float(p.g))
        if method == "adaptive":
            assert result.lower_value == pytest.approx(float(p.g), rel=1e-2, abs=1e-6)
            assert result.upper_value == pytest.approx(float(p.f), rel=0.1, abs=1e-2)


def test_huber_above_chooses_among_the_solutions_of_a_system(count):
    """f = Huber on the solutions of one equation: the planted forces stay in balance."""
    for seed in range(count(3, 20)):
        p = huber(seed)
        row = np.ones((1, len(p.x)))
        problem = tb.Problem(
            upper=tb.Huber(p.A, p.b, p.delta),
            lower=tb.LeastSquares(row, row @ p.x),
            domain=tb.Ball(30.0),
        )
        result = tb.solve(problem, "adaptive", rtol=1e-3, max_iter=5000)
        assert result.status != "failed", result.message
        assert holds(result.upper_optimum, p.g)
        assert result.upper_value == pytest.approx(float(p.g), rel=1e-2, abs=1e-2)


def test_a_level_that_falls_faster_than_huber_losses_rise_is_no_false_claim():
    """2|x| - 2x, beyond the kink, has minimisers without end; with a steeper slope it has none."""
    for slope, is_bounded in ((1.0, True), (2.0, True), (3.0, False)):
        lower = tb.Huber([[1.0, 0.0]], [0.0], 2.0) + tb.Linear([-slope, 0.0])
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), "adaptive", max_iter=500)
        if is_bounded:
            assert result.status != "unbounded"
        else:
            assert not result.proved
    flat = tb.Huber([[1.0, 0.0]], [0.0], 2.0) + tb.Linear([0.0, 1.0])
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=flat), "adaptive", max_iter=500)
    assert result.status == "unbounded"


@pytest.mark.parametrize("method", ["adaptive", "agm-bio", "auto"])
def test_multinomial_is_solved_and_its_certificates_hold(method, count):
    for seed in range(count(1, 40)):
        p = multinomial(seed)
        h = tb.Multinomial(p.A, p.y, mean=False)
        assert h.value(np.array(p.x, dtype=float)) == pytest.approx(float(p.g), rel=1e-13)
        problem = tb.Problem(upper=tb.SquaredNorm(center=p.center), lower=h, domain=tb.Ball(20.0))
        result = tb.solve(problem, method, rtol=1e-3, max_iter=1000)
        assert result.status != "failed", result.message
        assert holds(result.lower_optimum, p.g)
        assert holds(result.upper_optimum, p.f)
        if method == "adaptive":
            assert result.lower_value == pytest.approx(float(p.g), rel=1e-2)
            assert result.upper_value == pytest.approx(float(p.f), rel=0.1, abs=1e-2)


def test_multinomial_above_and_in_single_precision():
    p = multinomial(0)
    row = np.ones((1, len(p.x)))
    total = float(sum(p.x))
    above = tb.Problem(
        upper=tb.Multinomial(p.A, p.y, mean=False),
        lower=tb.LeastSquares(row, [total]),
        domain=tb.Ball(20.0),
    )
    result = tb.solve(above, "adaptive", rtol=1e-3, max_iter=3000)
    assert result.upper_optimum[0] <= float(p.g) * (1 + 1e-9)
    assert result.upper_value == pytest.approx(float(p.g), rel=1e-2)
    single = tb.Problem(
        upper=tb.SquaredNorm(center=p.center.astype(np.float32)),
        lower=tb.Multinomial(p.A.astype(np.float32), p.y, mean=False),
        domain=tb.Ball(20.0),
    )
    result = tb.solve(single, "adaptive", rtol=1e-2, max_iter=1000)
    assert result.x.dtype == np.float32
    assert holds(result.lower_optimum, p.g)
    assert holds(result.upper_optimum, p.f)


@pytest.mark.sample(3)
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_classes_that_can_be_separated_have_no_minimiser(classes):
    """Every class around a point of its own; with one row in the wrong class there is one."""
    rng = np.random.default_rng(classes)
    y = np.repeat(np.arange(classes), 6)
    corners = 5.0 * np.eye(4)[:classes]
    A = corners[y] + rng.uniform(-0.5, 0.5, (len(y), 4))
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.Multinomial(A, y))
    result = tb.solve(problem, "adaptive", max_iter=400)
    assert result.status == "unbounded"
    A, y = np.vstack([A, A]), np.concatenate([y, (y + 1) % classes])
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.Multinomial(A, y))
    assert tb.solve(problem, "adaptive", max_iter=400).status != "unbounded"


def test_a_linear_term_that_outweighs_the_classes_is_no_false_claim():
    """One variable, rows 1 with all classes: the loss rises by at most 1 per unit of max |w|."""
    A, y = np.ones((3, 1)), np.array([0, 1, 2])
    loss = tb.Multinomial(A, y, mean=True)
    for slope, is_bounded in ((0.3, True), (3.0, False)):
        c = slope * np.array([-1.0, 1.0, 0.0])
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=loss + tb.Linear(c))
        result = tb.solve(problem, "adaptive", max_iter=500)
        assert (result.status != "unbounded") or not is_bounded
    drift = loss + tb.Linear(np.ones(3))  # all classes together: nothing holds them
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=drift), "adaptive", max_iter=500)
    assert result.status == "unbounded"
