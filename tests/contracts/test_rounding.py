"""What an error bound must not forget: centres and radii, former points, what cancels at the start.

Against rational or 60-digit arithmetic. Each of these was once a false certificate, a run that
failed though nothing was promised, or one that did not end.
"""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction as F

import mpmath
import numpy as np
import pytest
from planted.adversary import rational, real

import tiebreak as tb
from tiebreak.linalg import arrays
from tiebreak.problem import Point, mixed

UNIT = 2.0**-53


def is_in(value, interval):
    """Is a true value in a proved interval?"""
    low, high = interval
    return mpmath.mpf(low) <= value <= mpmath.mpf(high)


# -- Z ------------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["auto", "adaptive"])
def test_a_ball_whose_sphere_is_far_closer_than_its_center(method, count):
    """x* is the projection of p, at 1e-4 of the way to the center, in closed form."""
    center, radius = np.array([60.0, 80.0, 0.0]), 100.0
    for seed in range(count(2, 40)):
        rng = np.random.default_rng(seed)
        p = -0.01 * center / 100.0 + 0.003 * rng.standard_normal(3)
        q = rng.standard_normal(3)
        problem = tb.Problem(
            upper=tb.Linear(q), lower=tb.SquaredNorm(1.0, p), domain=tb.Ball(radius, center)
        )
        c, p_, q_ = ([mpmath.mpf(t) for t in v.tolist()] for v in (center, p, q))
        away = [a - b for a, b in zip(p_, c, strict=True)]
        length = mpmath.sqrt(sum(t * t for t in away))
        x = [b + radius * t / length if length > radius else b + t for b, t in zip(c, away)]  # noqa: B905
        f = sum(a * b for a, b in zip(x, q_, strict=True))
        g = sum((a - b) ** 2 for a, b in zip(x, p_, strict=True)) / 2
        result = tb.solve(problem, method, max_iter=count(1000, 10_000))
        assert result.status != "failed", result.message
        assert is_in(f, result.upper_optimum)
        assert is_in(g, result.lower_optimum)


def true_distance(domain, x):
    """At least the distance of x from a set is missing from it, to 60 digits; n = 3."""
    v = [real(t) for t in rational(x)]
    if isinstance(domain, tb.Ball):
        c = [real(t) for t in rational(domain.center)]
        return mpmath.sqrt(sum((a - b) ** 2 for a, b in zip(v, c, strict=True))) - domain.radius
    if isinstance(domain, tb.Simplex):
        return max(abs(sum(v) - domain.total) / mpmath.sqrt(3), -min(v))
    if isinstance(domain, tb.L1Ball):
        return (sum(map(abs, v)) - domain.radius) / mpmath.sqrt(3)
    if isinstance(domain, tb.Halfspace):
        normal = [real(t) for t in rational(domain.normal)]
        along = sum(a * b for a, b in zip(v, normal, strict=True)) - domain.offset
        return along / mpmath.sqrt(sum(t * t for t in normal))
    if isinstance(domain, tb.Monotone):
        return max(a - b for a, b in itertools.pairwise(v)) / mpmath.sqrt(2)
    low, high = (np.broadcast_to(bound, 3) for bound in (domain.lower, domain.upper))
    return max(max(a - h, b - a) for a, h, b in zip(v, high.tolist(), low.tolist(), strict=True))


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_how_far_outside_a_computed_point_is(dtype, count):
    """Never less than the truth, at computed projections, at mixtures of them, and elsewhere."""
    for seed in range(count(100, 2000)):
        rng = np.random.default_rng(seed)
        scale = 10.0 ** rng.uniform(-6, 6)
        center, normal = (rng.standard_normal(3).astype(dtype) for _ in range(2))
        for domain in (
            tb.Ball(scale, scale * 10.0 ** rng.uniform(-2, 8) * center),
            tb.Box(-scale * abs(center), scale * abs(normal)),
            tb.Orthant(), tb.Simplex(scale), tb.L1Ball(scale), tb.Monotone(),
            tb.Halfspace(normal, scale * float(rng.standard_normal())),
        ):  # fmt: skip
            far = (10.0 ** rng.uniform(-8, 8, (2, 1)) * rng.standard_normal((2, 3))).astype(dtype)
            p, q = (domain.project(x) for x in far)
            for x in (p, q, arrays.mix(p, q, float(rng.random())), far[0]):
                assert domain.distance_bound(x) >= true_distance(domain, x)


def test_a_point_deep_inside_a_large_set_is_not_outside_at_all():
    x = np.array([1e-3, 2.0, -1.0])
    for domain in (
        tb.Ball(1e12),
        tb.Ball(1e9, np.full(3, 1e8)),
        tb.Box(-1e12, 1e12),
        tb.L1Ball(1e9),
    ):
        assert domain.distance_bound(x) == 0.0
    assert tb.Halfspace(np.ones(3), 1e9).distance_bound(x) == 0.0


# -- images that are mixed ----------------------------------------------------------------------


def test_a_mixture_errs_by_what_is_left_of_its_parts(count):
    """(1 - w) p + w q errs by a few units of |1 - w| |p| + |w| |q|, also where that is far less."""
    rng = np.random.default_rng(0)
    for _ in range(count(200, 20_000)):
        p, q = (10.0 ** rng.uniform(-16, 16) * rng.standard_normal(1) for _ in range(2))
        weight = float(rng.choice([0.0, 1.0, rng.random(), 1.0 - 10.0 ** -rng.uniform(1, 16), 1.7]))
        exact = (1 - F(weight)) * F(float(p[0])) + F(weight) * F(float(q[0]))
        sizes = abs(1 - F(weight)) * abs(F(float(p[0]))) + abs(F(weight)) * abs(F(float(q[0])))
        assert abs(F(float(arrays.mix(p, q, weight)[0])) - exact) <= 4 * F(UNIT) * sizes


def test_a_mixed_point_knows_of_what_length_it_was_mixed():
    a, b = np.array([3e8, 4e8]), np.array([-3e8, -4e8])
    point = mixed(Point(a), Point(b), 0.5)
    assert arrays.norm(point.x) == 0.0
    assert point.reach == 5e8
    again = mixed(point, Point(np.array([0.0, 1.0])), 0.9)
    assert again.reach == pytest.approx(0.1 * 5e8 + 0.9)
    assert mixed(Point(a), Point(b), 1.0).reach is None  # as it was multiplied


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "method",
    ["r-apm", "pb-apg", "agm-bio", "p-agm-bio", "adaptive", "a-irg", "sea", "cg-bio", "auto"],
)
@pytest.mark.parametrize("length", [10.0, 1e4, 1e6, 1e12])
def test_a_start_that_is_far_longer_than_the_answer(method, length, count):
    """The minimiser of g is unique, and rational."""
    n = 3
    A = np.vstack([1000.0 * np.eye(n), np.zeros((2, n))])
    b, c = np.array([-1.32, -0.25, 0.42, 1.14, 0.11]), np.array([0.0, -1.0, -3.0])
    x = [F(t) / 1000 for t in b[:n].tolist()]
    g = sum(F(t) ** 2 for t in b[n:].tolist()) / 2
    f = sum((s - F(t)) ** 2 for s, t in zip(x, c.tolist(), strict=True)) / 2
    problem = tb.Problem(
        upper=tb.SquaredNorm(1.0, c), lower=tb.LeastSquares(A, b), domain=tb.Ball(10.0 * length)
    )
    for seed in range(count(1, 3)):
        x0 = length * np.random.default_rng(seed).standard_normal(n)
        result = tb.solve(problem, method, x0=x0, rtol=1e-12, max_iter=30)
        assert result.status != "failed", result.message
        assert is_in(real(f), result.upper_optimum)
        assert is_in(real(g), result.lower_optimum)


# -- callables -----------------------------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize("method", ["adaptive", "auto"])
@pytest.mark.parametrize("off", [0.0, 1e-12])
def test_a_callable_that_starts_where_all_of_it_cancels(method, off, count):
    """½x'Gx - c'x + d in whole numbers, so that g* = 0 at x*; only the sizes of the terms tell."""
    rng = np.random.default_rng(0)
    for _ in range(count(2, 40)):
        A = rng.integers(-9, 10, (3, 2)).astype(float)
        x = 1e5 * rng.integers(1, 9, 2)
        b = A @ x
        G, c, d = A.T @ A, A.T @ b, 0.5 * float(b @ b)
        lower = tb.Smooth(
            lambda x, G=G, c=c, d=d: 0.5 * x @ (G @ x) - c @ x + d, lambda x, G=G, c=c: G @ x - c
        )
        problem = tb.Problem(upper=tb.SquaredNorm(1.0, x + 1.0), lower=lower, domain=tb.Ball(1e7))
        result = tb.solve(problem, method, x0=x * (1.0 + off), max_iter=300)
        assert result.status != "failed", result.message
        if np.linalg.matrix_rank(A) == 2:
            assert result.upper_optimum[0] <= 1.0 <= result.upper_optimum[1]
        assert result.lower_optimum[0] <= 0.0 <= result.lower_optimum[1]


def test_sizes_are_those_of_the_run_and_not_of_an_earlier_one():
    """The same call gives the same bits, whatever was solved before."""
    lower = tb.Smooth(lambda x: 0.5 * float(x @ x), lambda x: x)
    problem = tb.Problem(upper=tb.SquaredNorm(1.0, np.ones(3)), lower=lower, domain=tb.Ball(5.0))
    first = tb.solve(problem, "adaptive", x0=np.ones(3))
    tb.solve(problem, "adaptive", x0=np.full(3, 1e9))
    again = tb.solve(problem, "adaptive", x0=np.ones(3))
    assert first.upper_optimum == again.upper_optimum
    assert first.lower_optimum == again.lower_optimum


# -- what ended badly ----------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["adaptive", "agm-bio", "r-apm", "a-irg", "auto"])
def test_a_callback_may_write_into_its_point(method):
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((5, 10)), rng.standard_normal(5)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b), domain=tb.Ball(5.0))
    plain = tb.solve(problem, method, max_iter=100)
    result = tb.solve(problem, method, max_iter=100, callback=lambda now: now.x.fill(7.0))
    assert np.array_equal(result.x, plain.x)
    assert result.upper_optimum == plain.upper_optimum


@pytest.mark.parametrize("method", ["exact", "auto", "adaptive"])
@pytest.mark.parametrize("radius", [1e-300, 1e-12])
def test_a_ball_far_smaller_than_a_unit_of_its_center(method, radius):
    A, b = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 1.0, 0.0]]), np.array([1.0, 2.0])
    h = tb.LeastSquares(A, b)
    problem = tb.Problem(upper=h, lower=h, domain=tb.Ball(radius, np.full(4, 1e12)))
    result = tb.solve(problem, method, max_iter=20)
    assert np.array_equal(result.x, np.full(4, 1e12))
    exact = sum(
        (sum(F(a) * 10**12 for a in row) - F(t)) ** 2
        for row, t in zip(A.tolist(), b.tolist(), strict=True)
    )
    assert is_in(real(exact / 2), result.lower_optimum)


def test_a_proof_that_runs_away_does_not_end_the_run(count):
    """Logistic losses over least squares on the orthant: the proof of a polish looked too far."""
    for seed in range(count(3, 12)):
        rng = np.random.default_rng(seed)
        A, b = rng.standard_normal((10, 25)), rng.standard_normal(10)
        V, w = rng.standard_normal((30, 25)), rng.standard_normal(30)
        upper, lower = tb.Logistic(V, np.sign(w), mean=False), tb.LeastSquares(A, b)
        result = tb.solve(tb.Problem(upper=upper, lower=lower, domain=tb.Orthant()))
        assert result.success, result.message


@pytest.mark.sample(3)
@pytest.mark.parametrize("length", [1e16, 1e150, 1e308])
def test_a_start_at_the_end_of_the_numbers_warns_of_nothing(length):
    lower = tb.LeastSquares(np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]]), np.array([1.0, 2.0]))
    for domain in (tb.Ball(5.0), tb.Simplex(), tb.Box(-1.0, 1.0), tb.L1Ball(3.0)):
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain)
        for method in ("auto", "adaptive", "agm-bio"):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                x0 = length * np.array([1.0, -1.0, 0.5])
                result = tb.solve(problem, method, x0=x0, max_iter=50)
            assert result.status != "failed"
