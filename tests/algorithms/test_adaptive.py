"""AdaptiveAGMBiO: its inequality at every step, its certificates, and that it asks for nothing."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from planted.composite import planted_composite
from planted.smooth import planted

import tiebreak as tb
from tiebreak.driver.run import Run

EPS = np.finfo(float).eps


def hidden(function):
    """The same function as two callables: nothing is known about it."""
    return tb.Smooth(function.value, function.gradient)


def check_step(problem, before, after, eta, points):
    """A_k (h(x_k) - h(u)) + ½|z_k - u|² does not grow from step to step, for all u in Z."""
    f, g = problem.upper, problem.lower

    def h(x):
        return g.value(x) + (eta * f.value(x) if eta else 0.0)

    def size(x):
        return abs(g.value(x)) + (eta * abs(f.value(x)) if eta else 0.0)

    for u in points:
        terms = []
        for run, sign in ((after, 1.0), (before, -1.0)):
            away = run.z.x - u
            terms += [sign * run.A * h(run.x.x), -sign * run.A * h(u), sign * 0.5 * (away @ away)]
        lengths = np.linalg.norm(u) + np.linalg.norm(after.z.x) + np.linalg.norm(before.z.x)
        sizes = after.A * (size(after.x.x) + size(u)) + before.A * size(before.x.x) + lengths**2
        assert math.fsum(terms) <= 1e-11 * sizes, (math.fsum(terms), sizes)


def check_run(problem, x0, points, steps):
    """The inequality of both runs, from restart to restart; how many restarts there were."""
    method = tb.AdaptiveAGMBiO()
    run = Run(problem, method, problem.start(x0))
    restarts = 0
    for _ in range(steps):
        before = run._adapted()
        after = method.step(run.problem, before)
        for part, eta in (("main", before.eta), ("lower", 0.0)):
            p, q = getattr(before, part), getattr(after, part)
            if q.steps == p.steps + 1:
                check_step(problem, p, q, eta, points)
            elif q.steps == 0 and p.steps:
                restarts += 1
        run.state = after
        run.accumulator.add(after.evidence)
        run.iteration += 1
    return restarts


def test_the_inequality_holds_at_every_step_of_problems_of_all_kinds(count):
    restarts, number = 0, count(8, 400)
    for seed in range(number):
        p = planted(seed)
        rng = np.random.default_rng(seed)
        problem = p.problem()
        points = [p.x_star, problem.domain.project(p.x_star + rng.normal(size=p.x_star.shape))]
        restarts += check_run(problem, p.x0, points, 25)
    print(f"\nadaptive: the inequality held on {number} problems through {restarts} restarts")
    assert restarts > 0


def test_the_inequality_holds_with_penalties(count):
    for seed in range(0, 520, count(104, 2)):
        p = planted_composite(seed)
        problem = p.problem()
        if tb.AdaptiveAGMBiO().check(problem):
            continue
        rng = np.random.default_rng(seed)
        points = [p.x_star, problem.domain.project(p.region.sample(rng))]
        check_run(problem, p.x0, points, 25)


def test_certificates_are_never_wrong(count):
    number, certified = count(8, 600), 0
    for seed in range(number):
        p = planted(seed)
        result = tb.solve(p.problem(), tb.AdaptiveAGMBiO(), x0=p.x0, rtol=1e-6, max_iter=60)
        low, high = result.upper_optimum
        slack = 64 * EPS * (abs(p.f_star) + abs(result.upper_value) + p.f_scale)
        assert low - slack <= p.f_star <= high + slack, seed
        low, high = result.lower_optimum
        slack = 64 * EPS * (abs(p.g_star) + abs(result.lower_value) + p.g_scale)
        assert low - slack <= p.g_star <= high + slack, seed
        certified += result.success
    print(f"\nadaptive: {number} planted problems, none wrong, {certified} certified in 60 steps")


def regression(of_f=1.0, of_g=1.0, of_x=1.0):
    rng = np.random.default_rng(3)
    A, b = rng.normal(size=(15, 40)), rng.normal(size=15)
    V, w = rng.normal(size=(60, 40)), rng.normal(size=60)
    return (
        of_f * tb.LeastSquares(V / of_x, w),
        of_g * tb.LeastSquares(A / of_x, b),
        of_f * tb.L1(1.0 / of_x),
    )


IN_UNITS = (
    lambda f, g, p, u: tb.Problem(upper=f, lower=g),
    lambda f, g, p, u: tb.Problem(upper=f, lower=g, domain=tb.Ball(0.3 * u[2])),
    lambda f, g, p, u: tb.Problem(upper=p, lower=g),
    lambda f, g, p, u: tb.Problem(upper=hidden(f), lower=hidden(g), domain=tb.Ball(0.3 * u[2])),
    lambda f, g, p, u: tb.Problem(upper=f, lower=g + (u[1] / u[0]) * 0.1 * p),
)


@functools.cache
def solved_in_units(which, units):
    problem = IN_UNITS[which](*regression(*units), units)
    return tb.solve(problem, tb.AdaptiveAGMBiO(), x0=np.zeros(40), criterion="weak")


def gradients(result):
    return result.trace[-1].upper_gradients + result.trace[-1].lower_gradients


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    "units",
    [(1e-6, 1.0, 1.0), (1e6, 1.0, 1.0), (1.0, 1e-6, 1.0), (1.0, 1e6, 1e6), (1.0, 1.0, 1e-6)],
)
@pytest.mark.parametrize("which", range(len(IN_UNITS)))
def test_units_change_neither_the_work_nor_the_accuracy(units, which):
    """Issue 5: the number of gradients by less than 10 %, the relative accuracy not at all."""
    plain, scaled = solved_in_units(which, (1.0, 1.0, 1.0)), solved_in_units(which, units)
    assert plain.success
    assert scaled.success
    assert abs(gradients(scaled) - gradients(plain)) < 0.1 * gradients(plain)
    # A restart may come a step later by rounding, on one machine and not on another: f may
    # change by what is allowed, no more.
    values = scaled.upper_value / units[0], scaled.lower_value / units[1]
    for value, was, scale in zip(
        values, (plain.upper_value, plain.lower_value), plain.tolerance, strict=True
    ):
        assert abs(value - was) <= scale


def test_nothing_needs_to_be_known():
    """Two callables alone: the answer is that of the exact road."""
    f, g, _ = regression()
    ball = tb.Ball(0.4)
    exact = tb.solve(tb.Problem(upper=f, lower=g, domain=ball), "exact")
    blind = tb.Problem(upper=hidden(f), lower=hidden(g), domain=ball)
    result = tb.solve(blind, tb.AdaptiveAGMBiO(), x0=np.zeros(40), rtol=1e-5)
    assert result.success
    assert abs(result.upper_value - exact.upper_value) <= 2 * result.tolerance[0]
    assert result.lower_value <= exact.lower_value + 1e-5 * g.value(np.zeros(40))
    assert result.upper_optimum[0] <= exact.upper_value


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name",
    [
        "logistic-small-ball",
        *(pytest.param(name, marks=pytest.mark.full) for name in ("phillips", "lasso-duplicates")),
    ],
)
def test_it_arrives_in_a_fraction_of_the_gradients_of_agm_bio(name):
    """Issue 5 asks for 0.6 in the median; `benchmarks/race/decide.py` has the whole table."""
    known = tb.instance(name)
    result = tb.solve(known.problem, tb.AdaptiveAGMBiO(), x0=known.x0)
    assert result.success
    own = tb.AGMBiO() if known.problem.is_smooth else tb.PAGMBiO()
    limit = gradients(result) // 2  # AGM-BiO takes three gradients a step
    other = tb.solve(known.problem, own, x0=known.x0, max_iter=limit)
    assert other.status == "max_iter"


def test_a_run_continued_from_a_checkpoint_is_the_same_to_the_last_bit(tmp_path):
    known = tb.instance("lasso-duplicates")
    whole = tb.solve(known.problem, tb.AdaptiveAGMBiO(), x0=known.x0, rtol=0, max_iter=70)
    path = tmp_path / "run.npz"
    for steps in (13, 40, 70):
        part = tb.solve(
            known.problem, "adaptive", x0=known.x0, rtol=0, max_iter=steps, checkpoint=path
        )
    np.testing.assert_array_equal(part.x, whole.x)


def test_float32_stays_float32():
    f, g, _ = regression()
    problem = tb.Problem(
        upper=tb.LeastSquares(np.float32(f.function.matrix.entries), np.float32(f.function.b)),
        lower=tb.LeastSquares(np.float32(g.function.matrix.entries), np.float32(g.function.b)),
        domain=tb.Ball(0.4),
    )
    result = tb.solve(problem, tb.AdaptiveAGMBiO(), rtol=1e-2, criterion="weak")
    assert result.x.dtype == np.float32
    assert result.status == "certified"


@pytest.mark.sample(3)
@pytest.mark.parametrize("start", [0.0, 1.0, 1e8, 1e-8])
def test_degenerate_problems_end_well(start):
    x0 = np.full(3, start)
    flat = tb.LeastSquares(np.zeros((2, 3)), np.zeros(2))
    for problem in (
        tb.Problem(
            upper=tb.SquaredNorm(1.0, np.full(3, 2.0)), lower=flat
        ),  # every x is a minimiser
        tb.Problem(upper=tb.Linear(np.ones(3)), lower=flat, domain=tb.Ball(2.0)),
        tb.Problem(upper=flat, lower=tb.SquaredNorm(1.0, np.full(3, 2.0))),  # nothing to choose
        tb.Problem(upper=tb.L1(), lower=tb.L2()),
        tb.Problem(upper=tb.SquaredNorm(), lower=tb.Linear(np.ones(3)), domain=tb.Box(-1.0, 1.0)),
    ):
        result = tb.solve(problem, tb.AdaptiveAGMBiO(), x0=x0, max_iter=2000)
        assert result.success, (problem, result)


def test_a_function_that_overflows_far_away_is_approached_with_shorter_steps():
    def value(x):
        with np.errstate(over="ignore"):
            return float(np.sum(np.exp(x) - x))

    lipschitz_violations = tb.Smooth(value, lambda x: np.exp(x) - 1.0)
    lower = tb.LeastSquares([[1.0, 1.0]], [2.0])
    problem = tb.Problem(upper=lipschitz_violations, lower=lower, domain=tb.Box(-50.0, 50.0))
    result = tb.solve(problem, tb.AdaptiveAGMBiO(), x0=np.array([-5.0, 8.0]), rtol=1e-6)
    assert result.success
    np.testing.assert_allclose(result.x, [1.0, 1.0], atol=3e-2)
