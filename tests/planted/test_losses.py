"""Certificates of losses whose answers are known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from planted.losses import holds, huber

import tiebreak as tb


@pytest.mark.parametrize("method", ["adaptive", "agm-bio", "auto"])
@pytest.mark.parametrize("is_pushed", [False, True])
def test_huber_is_solved_and_its_certificates_hold(method, is_pushed, count):
    for seed in range(count(3, 40)):
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
