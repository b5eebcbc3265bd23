"""Inputs on which a certificate once claimed more than is proved, or a run fell over."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.sets import Set


def contains(interval: tuple[float, float], truth: float) -> bool:
    return interval[0] <= truth <= interval[1]


def test_extreme_numbers_give_an_infinite_gap_not_an_exception():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((3, 6)), rng.standard_normal(3)
    for scale in (1e100, 1e150, 1e-150):
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A * scale, b * scale))
        assert tb.solve(problem, max_iter=20).status


def test_weights_that_underflow_divide_nothing():
    """With |A|² = 1e300 above, a step of adaptive has a weight of 0 in the bound."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((30, 4)), rng.standard_normal(30)
    upper, lower = tb.Logistic(1e150 * A, np.sign(b)), tb.LeastSquares(A[:2], b[:2])
    for domain in (tb.Space(), tb.Box(-1.0, 1.0)):
        problem = tb.Problem(upper=upper, lower=lower, domain=domain)
        assert not tb.solve(problem, "adaptive", max_iter=500).proved


def test_an_honest_radius_never_crashes_and_never_lies(count):
    rng = np.random.default_rng(1)
    for seed in range(count(24, 600)):
        A = rng.integers(-3, 4, (1, 3)).astype(float)
        star = np.abs(rng.integers(-3, 4, 3).astype(float))
        multiplier = float(rng.integers(-2, 3))
        upper = tb.SquaredNorm(1.0, star + multiplier * A[0])  # x* is optimal on A x = A x*
        domain = tb.Orthant() if seed % 2 and multiplier >= 0 else tb.Space()
        problem = tb.Problem(
            upper=upper + tb.Linear(np.zeros(3)),
            lower=tb.LeastSquares(A, A @ star),
            domain=domain if np.all(star > 0) else tb.Space(),
            radius=10.0,
        )
        result = tb.solve(problem, max_iter=60, rtol=0)
        truth = 0.5 * multiplier**2 * float(A[0] @ A[0])
        assert contains(result.upper_optimum, truth)
        assert contains(result.lower_optimum, 0.0)


def test_a_radius_that_excludes_every_minimiser_is_noticed():
    problem = tb.Problem(
        upper=tb.Linear([1.0, 0.0]), lower=tb.SquaredNorm(1.0, [-10.0, 0.0]), radius=9.9
    )
    result = tb.solve(problem, max_iter=500)
    assert not result.success
    assert "contradict each other" in result.message


def test_a_radius_does_not_cost_a_bounded_domain_the_theorems_bound():
    rng = np.random.default_rng(2)
    A, b = rng.standard_normal((3, 5)), rng.standard_normal(3)
    V, w = rng.standard_normal((6, 5)), rng.standard_normal(6)
    upper, lower = tb.LeastSquares(V, w), tb.LeastSquares(A, b)
    for domain in (tb.Ball(2.0), tb.Box(-1.0, 1.0), tb.L1Ball(3.0)):
        problem = tb.Problem(upper=upper, lower=lower, domain=domain, radius=2.0)
        result = tb.solve(problem, tb.AGMBiO(gamma=1.0), max_iter=50, rtol=0)
        reach = domain.farthest(np.zeros(5))
        for row in result.trace[1:]:
            A_k = row.iteration * (row.iteration + 1) / (8.0 * upper.lipschitz)
            assert row.upper_gap <= reach**2 / (2.0 * A_k) + 1e-12


def test_scaled_functions_in_single_precision_pay_for_their_own_rounding(count):
    for seed in range(count(40, 1000)):
        rng = np.random.default_rng(seed)
        c, w = np.float32(rng.standard_normal()), float(rng.uniform(0.1, 10.0))
        lower = tb.LeastSquares(np.array([[1, 0]], np.float32), np.array([-2], np.float32))
        upper = w * tb.Linear(np.array([c, 0], np.float32))
        proof = tb.certify(
            tb.Problem(upper=upper, lower=lower, radius=2.0), np.zeros(2, np.float32), max_iter=1
        )
        truth = -2 * Fraction(w) * Fraction(float(c))  # x* = (-2, 0) alone has |x| <= 2
        assert Fraction(proof.upper_optimum[0]) <= truth


def test_sums_whose_parts_cancel_pay_for_them():
    big = 1e10
    upper = tb.Smooth(
        lambda x: big + 0.1 + 0.5 * float(x @ x), lambda x: x, lipschitz=1.0, strong_convexity=1.0
    ) + tb.Smooth(lambda x: -big, lambda x: 0 * x, lipschitz=0.0)
    problem = tb.Problem(upper=upper, lower=tb.LeastSquares([[1.0, 0.0]], [1.0]))
    result = tb.solve(problem, max_iter=300)
    assert contains(result.upper_optimum, 0.6)


def test_a_lipschitz_constant_seen_to_be_wrong_gives_no_two_sided_bound():
    problem = tb.Problem(
        upper=tb.LeastSquares([[10.0]], [0.0], lipschitz=1e-3), lower=tb.SquaredNorm(1.0, [5.0])
    )
    result = tb.solve(problem, tb.AGMBiO(gamma=1.0), max_iter=30, rtol=0)
    assert result.upper_error == math.inf
    assert "rises faster" in result.message


def test_rounding_is_no_reason_to_blame_a_lipschitz_constant():
    problem = tb.Problem(
        upper=tb.SquaredNorm(1.0, [1.0, 2.0, 3.0]),
        lower=tb.LeastSquares([[1.0, 1.0, 1.0]], [1.0]),
        domain=tb.Simplex(),
    )
    result = tb.solve(problem, max_iter=300)
    assert "rises faster" not in result.message
    assert "tangent" not in result.message
    assert result.success or "atol" in result.message


@pytest.mark.parametrize("dent", [2.0**-50, 2.0**-51])
def test_a_quadratic_that_rounding_has_dented_pays_for_the_dent(dent):
    Q = np.array([[1.0, 1.0], [1.0, 1.0 - dent]])
    eigenvalue = -dent / 2  # to first order, along (1, -1)/sqrt(2)
    truth = 0.5 * eigenvalue * (1e6) ** 2
    problem = tb.Problem(upper=tb.Quadratic(Q), lower=tb.Linear([0.0, 0.0]), domain=tb.Ball(1e6))
    result = tb.solve(problem, max_iter=100)
    assert result.upper_optimum[0] <= truth


def test_a_function_that_is_not_convex_is_found_out():
    upper = tb.Smooth(lambda x: float(np.sum(np.cos(x))), lambda x: -np.sin(x), lipschitz=1.0)
    lower = tb.LeastSquares([[1.0, 1.0]], [0.0])
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(5.0))
    result = tb.solve(problem, x0=[2.0, -1.0], max_iter=400, rtol=1e-3)
    assert not result.success
    assert "not convex" in result.message
    assert result.upper_gap == math.inf


def test_a_wrong_gradient_is_found_out():
    def solved(gradient, x0):
        upper = tb.Smooth(lambda x: 0.5 * float(x @ x), gradient, lipschitz=1.0)
        lower = tb.LeastSquares([[1.0, 1.0]], [1.0])
        problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(3.0))
        return tb.solve(problem, x0=x0, max_iter=200)

    with pytest.raises(ValueError, match="the gradient of upper does not match its values"):
        solved(lambda x: -x, None)
    # Right around the start, wrong where the run goes: found out on the way, and said.
    result = solved(lambda x: x if x[0] < -1.0 else x + 2.0, [-2.0, -2.0])
    assert result.status == "failed"
    assert not result.success
    assert result.upper_gap == math.inf
    assert "the gradient of upper does not match its values" in result.message


def test_a_callback_sees_no_gap_that_is_not_proved():
    gaps = []
    lower = tb.Smooth(lambda x: 0.5 * float(x @ x), lambda x: x, lipschitz=1.0, lower_bound=5.0)
    problem = tb.Problem(upper=tb.Linear([1.0, 0.0]), lower=lower, domain=tb.Ball())
    tb.solve(problem, max_iter=10, callback=lambda r: gaps.append(r.lower_gap))
    assert min(gaps[1:]) == math.inf


def test_a_rank_that_only_looks_deficient_is_full_whatever_the_units():
    for A in ([[1.0, 0.0], [0.0, 1e-17]], [[2.0**100, 0.0], [0.0, 2147483629.0]]):
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, [0.0, 1.0]))
        result = tb.solve(problem, "agm-bio", max_iter=50)
        assert contains(result.lower_optimum, 0.0)
        assert result.dimension == 0
        assert 0.0 < problem.lower.growth <= A[1][1] ** 2


@pytest.mark.parametrize("guess", [math.inf, math.nan, -1.0, 1e300, 1.7e308])
def test_a_senseless_guess_changes_nothing(guess):
    rng = np.random.default_rng(5)
    domains = (
        tb.Space(), tb.Ball(), tb.Box(-1.0, 2.0), tb.Orthant(), tb.Simplex(), tb.L1Ball(),
        tb.Monotone(), tb.Halfspace(rng.standard_normal(5), 0.3),
    )  # fmt: skip
    for domain in domains:
        for scale in (1.0, 1e91):
            x, c = scale * rng.standard_normal(5), rng.standard_normal(5)
            beta = float(c @ domain.project(x)) - 0.1 * scale
            z, mu = domain.project_cut(x, c, beta, guess)
            cold, cold_mu = domain.project_cut(x, c, beta)
            np.testing.assert_allclose(z, cold, rtol=1e-9, atol=1e-9 * float(np.max(np.abs(cold))))
            assert math.isfinite(mu)
            assert math.isfinite(cold_mu)


def test_sums_and_products_as_people_write_them():
    f, g = tb.SquaredNorm(), tb.Linear([1.0, 2.0])
    x = np.array([1.0, -1.0])
    assert sum([f, g]).value(x) == (f + g).value(x)
    assert (f * 2).value(x) == (2 * f).value(x)
    tb.solve(tb.Problem(upper=f, lower=g, domain=tb.Ball()), rtol=np.array([1e-2, 1e-2]))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.lil_matrix])
def test_extended_precision_is_refused(kind):
    with pytest.raises(TypeError, match="must be float32 or float64"):
        tb.LeastSquares(kind(np.ones((2, 2), np.longdouble)), np.ones(2))


def test_targets_that_are_too_large_for_the_precision_of_the_rows_are_kept():
    made = tb.LeastSquares(np.eye(2, dtype=np.float32), [1e300, 1.0])  # without a warning
    assert made.b.tolist() == [1e300, 1.0]


def test_a_false_error_bound_ends_in_no_success():
    """x* = 5 has f* = 50, yet the promise says that f rises by almost nothing on the way there."""
    problem = tb.Problem(
        upper=tb.SquaredNorm(4.0),
        lower=tb.SquaredNorm(1.0, [5.0]),
        error_bound=tb.ErrorBound(order=2, modulus=1e6, gradient_bound=1e-6),
    )
    result = tb.solve(problem, rtol=(1e-1, 1e-1), max_iter=400)
    assert math.isinf(result.upper_gap) == (not result.success)
    assert contains(result.upper_optimum, 50.0)


def test_certify_does_not_forget_that_a_function_is_not_convex():
    upper = tb.Smooth(lambda x: float(np.sum(np.cos(x))), lambda x: -np.sin(x), lipschitz=1.0)
    lower = tb.LeastSquares([[1.0, 1.0]], [0.0])
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(5.0))
    proof = tb.certify(problem, [2.0, -1.0], max_iter=3000)
    assert proof.upper_gap == math.inf


def test_a_warm_start_believes_no_bound_that_a_false_promise_gave():
    def f(x):  # on x[0] + x[1] = 1 least at (1, 0) and (0, 1), where it is 1; 1.125 at (.5, .5)
        return float(np.sum((x * x - 1.0) ** 2))

    upper = tb.Smooth(f, lambda x: 4.0 * x * (x * x - 1.0), lipschitz=50.0)
    lower = tb.LeastSquares([[1.0, 1.0]], [1.0])
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(2.0))
    failed = tb.solve(problem, "agm-bio", x0=[0.5, 0.5], rtol=1e-2, max_iter=300)
    assert failed.status == "failed"
    assert f(np.array([1.0, 0.0])) == 1.0
    assert tb.solve(problem, "agm-bio", x0=failed, max_iter=0).upper_optimum[0] <= 1.0


class Quarter(tb.Ball):
    """The part of a ball where no entry is negative, by public names only."""

    def project(self, x):
        return super().project(np.maximum(x, 0.0))

    def project_cut(self, x, normal, offset, guess=None):
        low, high = 0.0, 1.0
        while normal @ self.project(x - high * normal) > offset and high < 1e9:
            high *= 2.0
        for _ in range(100):
            middle = 0.5 * (low + high)
            if normal @ self.project(x - middle * normal) <= offset:
                high = middle
            else:
                low = middle
        return self.project(x - high * normal), high

    def support(self, direction):
        return self.radius * float(np.linalg.norm(np.maximum(direction, 0.0)))

    def argmin(self, direction):
        falling = np.maximum(-direction, 0.0)
        length = np.linalg.norm(falling)
        return falling * (self.radius / length) if length > 0.0 else falling


def test_a_set_derived_from_one_of_ours_is_asked_for_its_own_projections():
    """A ball's short cut for known products would leave the set, and g* its interval."""
    rng = np.random.default_rng(1)
    A, n = rng.standard_normal((6, 10)), 10
    b = A @ rng.standard_normal(n)
    problem = tb.Problem(
        upper=tb.SquaredNorm(center=rng.standard_normal(n)),
        lower=tb.LeastSquares(A, b, gram=False),
        domain=Quarter(1.0),
    )
    x, L = np.zeros(n), float(np.linalg.norm(A, 2) ** 2)
    for _ in range(20_000):
        x = problem.domain.project(x - A.T @ (A @ x - b) / L)
    least = 0.5 * float(np.sum((A @ x - b) ** 2))
    for steps in (1, 2, 5, 50):
        result = tb.solve(problem, tb.AGMBiO(gamma=1.0), rtol=0, max_iter=steps)
        low, high = result.certificate.lower_optimum
        assert low <= least * (1.0 + 1e-9)
        assert high >= least * (1.0 - 1e-9)
        assert result.x.min() >= 0.0


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("domain", [tb.L1Ball(1.0), tb.Simplex(1.0), tb.Ball(1.0)])
def test_a_gradient_that_ceases_to_be_finite_ends_the_run_with_a_word(domain, bad):
    calls = [0]

    def gradient(x):
        calls[0] += 1
        return np.where(np.arange(5) == 0, bad, x) if calls[0] == 9 else x - 1.0

    lower = tb.Smooth(lambda x: 0.5 * float(np.sum((x - 1.0) ** 2)), gradient, lipschitz=1.0)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain)
    result = tb.solve(problem, tb.AGMBiO(), x0=np.zeros(5), rtol=0, max_iter=40)
    assert result.status == "failed"
    assert np.isfinite(result.x).all()


def test_a_start_beside_zero_divides_by_nothing():
    """A step whose square underflows."""
    lower = tb.LeastSquares([[1.0, 0.0]], [0.0])
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(1.0))
    result = tb.solve(problem, "adaptive", x0=[5e-324, 0.3], max_iter=50)
    assert result.status in ("certified", "max_iter")
    assert np.all(np.isfinite(result.x))


@pytest.mark.parametrize("name", ["fc-bio", "ada-bim"])
@pytest.mark.parametrize("level", ["upper", "lower"])
def test_a_slope_that_is_not_finite_after_the_first_is_no_success(name, level):
    """FC-BiO was `solved` with u - l = nan, and AdaBiM divided by a step size of 0."""
    A, b = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]]), np.array([1.0, 2.0])
    calls = iter(range(10**6))

    def spoiled(slope):
        return lambda x: slope(x) if next(calls) < 2 else np.full(3, np.inf)

    slopes = {"upper": lambda x: x, "lower": lambda x: A.T @ (A @ x - b)}
    slopes[level] = spoiled(slopes[level])
    upper = tb.Smooth(lambda x: 0.5 * x @ x, slopes["upper"], 1.0, 1.0)
    lower = tb.Smooth(lambda x: 0.5 * np.sum((A @ x - b) ** 2), slopes["lower"], 7.0)
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(5.0))
    for first in (np.full(3, 0.3), np.ones(3)):
        calls = iter(range(10**6))
        result = tb.solve(problem, name, x0=first, max_iter=300)
        assert result.status == "failed"
        assert np.all(np.isfinite(result.x))


@pytest.mark.parametrize("delta", [1e-300, 1e300])
def test_a_threshold_whose_square_is_no_float_raises_nothing(delta):
    rng = np.random.default_rng(3)
    A, b = rng.standard_normal((12, 4)), rng.standard_normal(12)
    problem = tb.Problem(lower=tb.Huber(A, b, delta), upper=tb.SquaredNorm())
    assert tb.solve(problem).status in ("certified", "solved", "undetermined", "failed")


class Overwriting(Set):
    """The non-negative vectors, with a projection that overwrites its argument."""

    def project(self, x):
        x[x < 0.0] = 0.0
        return x

    def project_cut(self, x, normal, offset, guess=None):
        return tb.Orthant().project_cut(x, normal, offset, guess)

    def support(self, direction):
        return tb.Orthant().support(direction)

    def argmin(self, direction):
        return tb.Orthant().argmin(direction)


def test_a_point_is_judged_as_it_is_given_even_if_the_projection_overwrites_it():
    x, upper = np.array([1.0, -1.0, -1.0]), tb.SquaredNorm(center=[1.0, -1.0, -0.5])
    fit = tb.LeastSquares([[1.0, 1.0, -1.0]], [1.0])
    proof = tb.certify(tb.Problem(lower=fit, upper=upper, domain=Overwriting()), x, max_iter=300)
    assert proof.status == "failed"
    assert proof.upper_value == upper.value(x)
    assert proof.distance == pytest.approx(np.sqrt(2.0))


class OneBuffer(Overwriting):
    """The same set, with a projection that returns one array again and again."""

    def __init__(self):
        self.buffer = np.zeros(3)

    def project(self, x):
        return np.maximum(x, 0.0, out=self.buffer)


def test_a_projection_that_overwrites_its_former_results_is_refused():
    fit = tb.LeastSquares([[1.0, 1.0, -1.0]], [1.0])
    problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=OneBuffer())
    for call in (lambda: tb.solve(problem, "tikhonov"), lambda: tb.certify(problem, np.ones(3))):
        with pytest.raises(ValueError, match=r"domain must have a project that returns a new arr"):
            call()
