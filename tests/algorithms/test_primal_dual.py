"""PrimalDual: the identities behind it, the answers it reaches, its certificates, hard input."""

from __future__ import annotations

import functools
import math
from itertools import pairwise

import numpy as np
import pytest
from planted.composite import planted_composite
from planted.smooth import planted

import tiebreak as tb
from tiebreak.algorithms.primal_dual import SAFETY

EPS = np.finfo(float).eps


def hidden(function):
    """The same function as two callables: nothing is known about it."""
    return tb.Smooth(function.value, function.gradient)


def drawn(m=8, n=20, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, n)), rng.normal(size=m), rng


def states(problem, method, x0, steps):
    """The states of a run, the first included."""
    state = method.init(problem, problem.start(x0))
    yield state
    for _ in range(steps):
        state = method.step(problem, state)
        yield state


def last(problem, steps, x0=None, method=None):
    *_, state = states(problem, method or tb.PrimalDual(), x0, steps)
    return state


def squared_hinge(A, b):
    """½ sum of max(<a_i, x> - b_i, 0)²: its minimisers have interior points."""
    return tb.Smooth(
        lambda x: 0.5 * float(np.sum(np.maximum(A @ x - b, 0.0) ** 2)),
        lambda x: A.T @ np.maximum(A @ x - b, 0.0),
    )


# -- identities ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("kind", ["prox", "gradient"])
def test_least_squares_below_is_the_method_of_chambolle_and_pock(kind, ratio):
    """With a penalty above by its prox; with a smooth f it is that of Condat and Vu."""
    A, b, rng = drawn()
    c, x0 = rng.normal(size=20), rng.normal(size=20)
    upper = tb.L1(0.7) if kind == "prox" else tb.SquaredNorm(2.0, c)
    problem = tb.Problem(upper=upper, lower=tb.LeastSquares(A, b))
    run = list(states(problem, tb.PrimalDual(ratio), x0, 50))
    sigma = run[0].sigma
    tau = SAFETY / (sigma * run[0].L_g + 0.5 * run[0].L_f)

    x, u = x0, sigma * (A @ x0 - b)  # the dual variable after a first step from 0
    for state in run[1:]:
        v = x - tau * (A.T @ u)
        if kind == "prox":
            after = np.sign(v) * np.maximum(np.abs(v) - 0.7 * tau, 0.0)
        else:
            after = v - tau * 2.0 * (x - c)
        u = u + sigma * (A @ (2.0 * after - x) - b)
        x = after
        assert np.linalg.norm(state.x - x) <= 1e-12 * (1.0 + np.linalg.norm(x)), state.k


def test_the_sum_of_gradients_is_the_same_slope_where_g_is_quadratic():
    """Lambda_{k+1} grad g(y_k) = sigma (grad g(x_1) + ... + grad g(x_k) + grad g(x_k))."""
    A, b, rng = drawn(seed=1)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b), domain=tb.Box(-1, 1))
    total = np.zeros(20)
    for state in states(problem, tb.PrimalDual(2.0), rng.normal(size=20), 50):
        slope = problem.lower.gradient(state.x)
        total = total + slope if state.k else total
        left = (state.multiplier + state.sigma) * state.g_y.slope
        size = state.sigma * (np.linalg.norm(total) + np.linalg.norm(slope) + (state.k + 1) * 10.0)
        assert np.linalg.norm(left - state.sigma * (total + slope)) <= 1e-13 * size, state.k


def test_changing_the_ratio_keeps_the_dual():
    """The next step's slope is the same sum over the past, whatever the next sigma is."""
    A, b, rng = drawn(seed=2)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b))
    dual, changes, before = np.zeros(8), 0, None
    for state in states(problem, tb.PrimalDual(), rng.normal(size=20), 300):
        if before is not None:
            dual = dual + before.sigma * (A @ state.x - b)
            changes += state.sigma != before.sigma
        assert np.allclose(A.T @ dual, state.multiplier * (A.T @ (A @ state.s.x - b)), atol=1e-10)
        before = state
    assert changes >= 3


def test_the_changes_of_the_ratio_sum_up_to_a_finite_number():
    problem = tb.instance("hard").problem
    run = list(states(problem, tb.PrimalDual(), None, 3000))
    factors = [q.sigma / p.sigma for p, q in pairwise(run) if p.sigma != q.sigma]
    assert len(factors) > 8
    for j, factor in enumerate(factors, 1):
        assert abs(math.log(factor)) <= 10.0 / j**1.1 * (1.0 + 1e-12)


# -- answers -------------------------------------------------------------------------------------


def test_planted_answers_are_reached_by_the_last_iterate(count):
    number, near, of_average = count(6, 400), 0, 0
    for seed in range(number):
        p = planted(seed)
        problem = p.problem()
        state = last(problem, 800, p.x0)
        scale = abs(p.f_star) + abs(p.f(p.x0) - p.f_star)
        slack = 1e-6 * scale + 64 * EPS * p.f_scale
        near += abs(state.upper_value - p.f_star) <= slack
        of_average += abs(problem.upper.value(state.s.x) - p.f_star) <= slack
    print(f"\n{number} planted problems, 800 steps: {near} within 1e-6, of s_k {of_average}")
    assert near >= 0.7 * number
    assert near >= 2 * of_average


def test_a_lower_level_with_a_flat_interior():
    """The sum of gradients would end elsewhere: multipliers must be able to shrink."""
    rng = np.random.default_rng(3)
    A, c = rng.normal(size=(60, 20)), 2.0 * rng.normal(size=20)
    b = np.abs(rng.normal(size=60)) * 0.3
    problem = tb.Problem(upper=tb.SquaredNorm(1.0, c), lower=squared_hinge(A, b))
    state = last(problem, 6000, 3.0 * rng.normal(size=20))

    # The dual of the projection of c onto {Ax <= b}, by accelerated projected gradients.
    u, t = np.zeros(60), 1.0 / np.linalg.norm(A, 2) ** 2
    y, momentum = u, 1.0
    for _ in range(20_000):
        after = np.maximum(y + t * (A @ (c - A.T @ y) - b), 0.0)
        grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
        if (y - after) @ (after - u) > 0.0:
            grown = 1.0
        y, u, momentum = after + (momentum - 1.0) / grown * (after - u), after, grown
    x = c - A.T @ u
    assert np.max(A @ x - b) <= 1e-9
    assert state.upper_value == pytest.approx(0.5 * np.sum((x - c) ** 2), rel=1e-6)
    assert state.lower_value <= 1e-12


@pytest.mark.sample(2)
@pytest.mark.parametrize("known", [True, False])
def test_callables_need_no_constants(known):
    A, b, rng = drawn(seed=4)
    f, g = tb.LeastSquares(rng.normal(size=(30, 20)), rng.normal(size=30)), tb.LeastSquares(A, b)
    exact = tb.solve(tb.Problem(upper=f, lower=g, domain=tb.Ball(0.6)), "exact")
    problem = tb.Problem(
        upper=f if known else hidden(f), lower=g if known else hidden(g), domain=tb.Ball(0.6)
    )
    state = last(problem, 4000, np.zeros(20))
    assert state.upper_value == pytest.approx(exact.upper_value, rel=1e-6)


def test_an_estimate_of_L_that_is_far_too_small_grows():
    """exp turns steeply: the first steps would be far too long."""
    f = tb.SquaredNorm(1.0, np.array([3.0, 1.0]))
    g = tb.Smooth(
        lambda x: float(np.exp(4.0 * x[0]) - 4.0 * x[0]),
        lambda x: np.array([4.0 * np.exp(4.0 * x[0]) - 4.0, 0.0]),
    )
    with np.errstate(over="ignore"):
        state = last(tb.Problem(upper=f, lower=g), 3000, np.array([-2.0, 0.0]))
    assert state.x == pytest.approx([0.0, 1.0], abs=1e-6)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["lasso-duplicates", "basis-pursuit", "group-pursuit"])
def test_penalties_on_both_levels(name):
    built = tb.instance(name)
    state = last(built.problem, 1500, built.x0)
    assert state.upper_value == pytest.approx(built.upper_optimum, rel=1e-8)


def test_one_gradient_of_each_level_a_step():
    built = tb.instance("diabetes")
    result = tb.solve(built.problem, "primal-dual", x0=built.x0, rtol=0.0, max_iter=2000)
    row = result.trace[-1]
    assert row.upper_gradients <= 1.001 * 2000 + 1
    assert row.lower_gradients <= 1.08 * 2000 + 1


# -- proofs --------------------------------------------------------------------------------------


def test_certificates_are_never_wrong(count):
    number, certified = count(4, 600), 0
    for seed in range(number):
        p = planted(seed)
        result = tb.solve(p.problem(), "primal-dual", x0=p.x0, rtol=1e-6, max_iter=200)
        certified += _is_right(p, result)
    print(f"\nprimal-dual: {number} planted problems, none wrong, {certified} certified")


def test_certificates_with_penalties_are_never_wrong(count):
    number, certified = count(2, 600), 0
    for seed in range(number):
        p = planted_composite(seed)
        problem = p.problem()
        if tb.PrimalDual().check(problem) is None:
            result = tb.solve(problem, "primal-dual", x0=p.x0, rtol=1e-6, max_iter=200)
            certified += _is_right(p, result)
    print(f"\nprimal-dual: {number} with penalties, none wrong, {certified} certified")


def _is_right(p, result):
    for star, scale, value, (low, high) in (
        (p.f_star, p.f_scale, result.upper_value, result.upper_optimum),
        (p.g_star, p.g_scale, result.lower_value, result.lower_optimum),
    ):
        slack = 64 * EPS * (abs(star) + abs(value) + scale)
        assert low - slack <= star <= high + slack, p.seed
    return result.status == "certified"


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "name", ["toy", "random-inverse", "diabetes", "basis-pursuit", "lasso-duplicates"]
)
def test_the_last_iterate_is_proved(name):
    built = tb.instance(name)
    result = tb.solve(built.problem, "primal-dual", x0=built.x0)
    assert result.success
    assert result.upper_gap <= result.tolerance[0]
    assert result.lower_gap <= result.tolerance[1]


# -- hard input ----------------------------------------------------------------------------------


@functools.cache
def in_units(of_f, of_g, of_x):
    A, b, rng = drawn(seed=6)
    f = of_f * tb.LeastSquares(rng.normal(size=(30, 20)) / of_x, rng.normal(size=30))
    g = of_g * tb.LeastSquares(A / of_x, b)
    return last(tb.Problem(upper=f, lower=g, domain=tb.Ball(0.6 * of_x)), 300)


@pytest.mark.parametrize(
    "units", [(2.0**60, 1.0, 1.0), (1.0, 2.0**-60, 1.0), (1.0, 1.0, 2.0**40), (2.0**-90,) * 3]
)
def test_the_steps_are_the_same_in_other_units(units):
    state, same = in_units(1.0, 1.0, 1.0), in_units(*units)
    assert same.x / units[2] == pytest.approx(state.x, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "problem",
    [
        tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares([[2.0]], [3.0])),
        tb.Problem(
            upper=tb.Linear([1.0]), lower=tb.LeastSquares([[0.0]], [1.0]), domain=tb.Box(0, 1)
        ),
        tb.Problem(upper=tb.Linear([0.0, 0.0]), lower=tb.LeastSquares(np.eye(2), np.ones(2))),
        tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(np.zeros((2, 3)), np.zeros(2))),
        tb.Problem(upper=tb.Linear([1.0, 2.0]), lower=tb.Linear([0.0, 1.0]), domain=tb.Simplex()),
        tb.Problem(upper=tb.L1(1.0), lower=tb.LeastSquares(np.zeros((2, 3)), np.ones(2))),
        tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(np.eye(2), np.zeros(2))),
    ],
    ids=["one", "zero below", "zero above", "nothing", "both linear", "l1, zero", "start is best"],
)
def test_small_and_degenerate_problems(problem):
    exact = tb.solve(problem, "auto")
    state = last(problem, 400)
    assert np.all(np.isfinite(state.x))
    assert state.upper_value == pytest.approx(exact.upper_value, abs=1e-6)
    assert state.lower_value == pytest.approx(exact.lower_value, abs=1e-9)


def test_single_precision_stays_single():
    A, b, _ = drawn(seed=7)
    A, b = A.astype(np.float32), b.astype(np.float32)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b), domain=tb.Ball(5.0))
    state = last(problem, 2000)
    assert state.x.dtype == np.float32
    x = np.linalg.pinv(A.astype(float)) @ b.astype(float)
    assert state.upper_value == pytest.approx(0.5 * x @ x, rel=1e-3)


def test_two_runs_are_the_same_to_the_bit(tmp_path):
    built = tb.instance("diabetes")
    path = tmp_path / "run.npz"
    settings = {"x0": built.x0, "rtol": 0.0}
    whole = tb.solve(built.problem, "primal-dual", max_iter=300, **settings)
    again = tb.solve(built.problem, "primal-dual", max_iter=300, **settings)
    tb.solve(built.problem, "primal-dual", max_iter=130, checkpoint=path, **settings)
    resumed = tb.solve(built.problem, "primal-dual", max_iter=300, checkpoint=path, **settings)
    assert np.array_equal(whole.x, again.x)
    assert np.array_equal(whole.x, resumed.x)
    assert whole.upper_optimum == again.upper_optimum == resumed.upper_optimum


def test_a_ratio_must_be_positive():
    with pytest.raises(ValueError, match="PrimalDual: ratio must be a positive"):
        tb.PrimalDual(ratio=0.0)
