"""AGM-BiO against its own theory: identities at every step, theorems on planted problems."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from helpers.agm_bio import variants
from planted import identities
from planted.identities import At
from planted.smooth import Planted, planted

import tiebreak as tb
from tiebreak import theory

EPS = np.finfo(np.float64).eps


def walk(p: Planted, method: tb.AGMBiO, steps: int, **kwargs):
    """Pairs of consecutive states, and the level of the step between them."""
    problem = p.problem(**kwargs)
    state = method.init(problem, p.x0)
    for _ in range(steps):
        after = method.step(problem, state)
        if after.k > state.k:  # not in the first phase of FixedLevels
            yield state, after
        state = after


def excess(residual, size, slope, *terms_and_points) -> float:
    """|residual| relative to the sum of absolute terms, less what the points' own rounding makes.

    A point x is only known to EPS |x_i|, and <slope, x - y> no better than that allows: it shows
    where a run has converged and everything else in the identity has become tiny.
    """
    *terms, y, z = terms_and_points
    own = sum(w * float(np.abs(slope) @ (np.abs(p) + np.abs(y))) for w, p in terms)
    own += float(z @ z)
    return max(abs(residual) - 4 * EPS * own, 0.0) / (size or 1.0)


def projection_rounding(p: Planted, before, after) -> float:
    """How far V_k may be below 0: x* is in Z and in the cut, up to rounding.

    The rounding is that of z_{k+1}, and of the cut's own data, which weighs as much as mu.
    """
    norm = np.linalg.norm
    y, z, z1, star = before.f_y.at, before.z, after.z, p.x_star
    step = theory.step_size(before.k, before.smoothness) * p.grad_f(y)
    slope = p.grad_g(y)
    terms = abs(p.g(y)) + abs(before.level) + norm(slope) * norm(z1 - y)
    moved = (norm(z1) + norm(z) + norm(step)) * norm(star - z1)
    moved += norm(z1 - z + step) * (norm(z1) + norm(star))
    return 8 * EPS * float(moved + after.mu * (terms + norm(slope) * (norm(y) + norm(z1))))


def check_identities(p: Planted, method: tb.AGMBiO, steps: int) -> float:
    """The worst relative residual of the two identities over a run; V_k and the cut checked."""
    worst = 0.0
    for before, after in walk(p, method, steps):
        y, x, z, x1, z1 = before.f_y.at, before.x, before.z, after.x, after.z
        a, A = theory.step_size(before.k, before.smoothness), before.A
        star = p.x_star
        grad = p.grad_f(y)
        move = z1 - z + a * grad
        V = float(move @ (star - z1))
        residual, size_f = identities.upper_identity(
            step=a, total=A, y=p.f(y),
            x=At(p.f(x), float(grad @ (x - y))),
            x_next=At(p.f(x1), float(grad @ (x1 - y))),
            star=At(p.f(star), float(grad @ (star - y))),
            distance=float(np.linalg.norm(z - star)),
            distance_next=float(np.linalg.norm(z1 - star)),
            move=float(np.linalg.norm(z1 - z)), slack=V,
        )  # fmt: skip
        worst = max(worst, excess(residual, size_f, grad, (A + a, x1), (A, x), (a, star), y, z1))

        slope = p.grad_g(y)
        cut = p.g(y) + float(slope @ (z1 - y))
        residual, size = identities.lower_identity(
            step=a, total=A, y=p.g(y),
            x=At(p.g(x), float(slope @ (x - y))),
            x_next=At(p.g(x1), float(slope @ (x1 - y))), cut=cut,
        )  # fmt: skip
        worst = max(worst, excess(residual, size, slope, (A + a, x1), (A, x), (a, z1), y, z1))
        terms = abs(p.g(y)) + abs(before.level) + np.linalg.norm(slope) * np.linalg.norm(z1 - y)
        assert cut <= before.level + 1e-12 * (terms + np.linalg.norm(slope) * np.linalg.norm(y))
        assert -1e-12 * size_f - projection_rounding(p, before, after) <= V
        assert p.region.build(tb).contains(z1, 1e-12)
        # The values come from carried images: exact to rounding of the data, x = 0 included.
        origin = np.zeros(p.n)
        of_f, of_g = p.f_scale + abs(p.f(origin)), p.g_scale + abs(p.g(origin))
        assert after.upper_value == pytest.approx(p.f(x1), rel=1e-11, abs=1e-12 * of_f)
        assert after.lower_value == pytest.approx(p.g(x1), rel=1e-11, abs=1e-12 * of_g)
    return worst


def test_both_identities_hold_at_every_step_of_problems_of_all_kinds(count):
    worst = max(
        check_identities(p, variants(p), 60)
        for p in map(planted, range(count(16, 1144)))
    )  # fmt: skip
    print(f"\nidentities: worst residual {worst:.1e} relative to the sum of absolute terms")
    assert worst <= 1e-12


def slack(p: Planted, x: np.ndarray) -> tuple[float, float]:
    """Rounding in f(x) - f* and g(x) - g*: a few units of the terms, and no more."""
    return (
        1e3 * EPS * (p.f_scale + abs(p.f(x)) + np.linalg.norm(p.grad_f(x)) * np.linalg.norm(x)),
        1e3 * EPS * (p.g_scale + abs(p.g(x)) + np.linalg.norm(p.grad_g(x)) * np.linalg.norm(x)),
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("fixed", [None, 25])
@pytest.mark.parametrize("gamma", [1.0, 0.1])
def test_theorem_1_holds_at_every_step(count, gamma, fixed):
    levels = tb.OnlineLevels() if fixed is None else tb.FixedLevels(fixed)
    bounded = 0
    for i, p in enumerate(map(planted, range(count(13, 1144)))):
        if i % 4 == 3:  # where the bound is 0 up to rounding, and the cuts are rounding errors
            p = dataclasses.replace(p, x0=p.x_star)
        domain = p.region.build(tb)
        # If V_k >= -e_k, the proof holds with R0² + 2 (e_0 + ... + e_{k-1}) in place of R0².
        square = float(np.linalg.norm(p.region.project(p.x0) - p.x_star)) ** 2
        for before, state in walk(p, tb.AGMBiO(gamma, levels), 25 + (fixed or 0)):
            square += 2 * projection_rounding(p, before, state)
            theorem = theory.Theorem1(
                p.problem().upper.lipschitz, state.lower_smoothness, state.smoothness,
                math.sqrt(square), domain.diameter_in(p.n),
            )  # fmt: skip
            upper, lower = p.f(state.x) - p.f_star, p.g(state.x) - p.g_star
            of_f, of_g = slack(p, state.x)
            assert upper <= theorem.upper(state.k) + of_f
            assert lower <= theorem.lower(state.k, fixed) + of_g
            if upper >= 0.0:
                assert lower <= theorem.lower_if_above(state.k, fixed) + of_g
            bounded += math.isfinite(theorem.diameter)
    assert bounded


def test_levels_lie_between_the_optimum_and_the_papers_bound(count):
    for p in map(planted, range(count(16, 1144))):
        R0 = float(np.linalg.norm(p.region.project(p.x0) - p.x_star))
        for before, _ in walk(p, tb.AGMBiO(), 40):
            of_g = slack(p, before.x)[1]
            bound = theory.level_bound(before.k, L_g=before.lower_smoothness, distance=R0)
            assert -of_g <= before.level - p.g_star <= bound + of_g


def test_the_level_of_step_0_is_right_where_the_domain_binds():
    """METHODS.md, the first trap: g(x_0) = 5.1 would exceed the bound 0.5."""
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.Quadratic([[1.0]], [10.0]), domain=tb.Orthant()
    )
    state = tb.AGMBiO().init(problem, np.array([0.5]))
    assert 0.0 <= state.level <= 2 * 1.0 * 0.5**2


def growing(rng: np.random.Generator, n: int, rank: int) -> tuple[tb.Problem, np.ndarray, float]:
    """Least squares on R^n with a planted nearest solution, and its error bound of order 2."""
    A = rng.standard_normal((rank, n))
    star, multiplier = rng.standard_normal(n), rng.standard_normal(rank)
    s = np.linalg.svd(A, compute_uv=False)[-1]
    center = star + A.T @ multiplier
    problem = tb.Problem(
        upper=tb.SquaredNorm(1.0, center),
        lower=tb.LeastSquares(A, A @ star),
        error_bound=tb.ErrorBound(2, s**2, float(np.linalg.norm(star - center))),
    )
    return problem, star, problem.upper.value(star)


def test_theorem_2_holds_for_every_horizon(count):
    rng = np.random.default_rng(2)
    for _ in range(count(4, 60)):
        n = int(rng.integers(2, 12))
        problem, star, f_star = growing(rng, n, int(rng.integers(1, n)))
        bound = problem.error_bound
        theorem = theory.Theorem2(
            1.0, problem.lower.lipschitz, float(np.linalg.norm(star)), 2.0,
            bound.modulus, bound.gradient_bound,
        )  # fmt: skip
        for T in (1, 2, 5, 20, 60):
            result = tb.solve(problem, tb.AGMBiO(), max_iter=T, rtol=0)
            assert result.nit == T
            assert result.upper_value - f_star <= theorem.upper(T) + 1e-12
            assert result.upper_value - f_star >= theorem.upper_floor(T) - 1e-12
            assert result.lower_value <= theorem.lower(T) + 1e-12


def test_theorem_3_holds_at_every_step(count):
    """Weak sharpness on a simplex: the face of the first m vertices, everything else costs."""
    rng = np.random.default_rng(3)
    for _ in range(count(2, 60)):
        n = int(rng.integers(3, 10))
        m = int(rng.integers(1, n))
        price = np.concatenate([np.zeros(m), rng.uniform(0.2, 3.0, n - m)])
        off = np.concatenate([np.zeros(m), np.ones(n - m)])
        target = rng.standard_normal(n)
        star = np.zeros(n)
        star[:m] = tb.Simplex().project(target[:m])
        alpha = float(price[m:].min()) / math.sqrt(2.0)
        problem = tb.Problem(
            upper=tb.SquaredNorm(1.0, target),
            lower=tb.Linear(price) + rng.uniform(0.1, 2.0) * tb.LeastSquares(off[None, :], [0.0]),
            domain=tb.Simplex(),
            error_bound=tb.ErrorBound(1, alpha, float(np.linalg.norm(star - target))),
        )
        method = tb.AGMBiO()
        state = method.init(problem, np.full(n, 1.0 / n))
        theorem = theory.Theorem3(
            1.0, problem.lower.lipschitz, state.smoothness,
            float(np.linalg.norm(state.x - star)), alpha, problem.error_bound.gradient_bound,
        )  # fmt: skip
        f_star = problem.upper.value(star)
        for k in range(1, 61):
            state = method.step(problem, state)
            assert state.upper_value - f_star <= theorem.upper(k) + 1e-12
            assert state.upper_value - f_star >= theorem.upper_floor(k) - 1e-12
            assert state.lower_value <= theorem.lower(k) + 1e-12


def test_without_f_and_with_the_optimal_level_the_step_is_polyaks():
    rng = np.random.default_rng(4)
    for n in (1, 3, 10):
        A, b = rng.standard_normal((5, n)), rng.standard_normal(5)
        lower = tb.LeastSquares(A, b)
        optimum = lower.value(np.linalg.lstsq(A, b, rcond=None)[0])
        problem = tb.Problem(upper=tb.Linear(np.zeros(n)), lower=lower)
        method = tb.AGMBiO(levels=tb.GivenLevels(optimum))
        state = method.init(problem, rng.standard_normal(n))
        for k in range(50):
            after = method.step(problem, state)
            y, slope = state.g_y.at, lower.gradient(state.g_y.at)
            mu = identities.polyak_step(
                lower.value(y), float(slope @ (state.z - y)), float(slope @ slope), optimum
            )
            np.testing.assert_allclose(after.mu, mu, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(after.z, state.z - mu * slope, rtol=1e-9, atol=1e-12)
            if k == 0:  # then y = z and this is Polyak's own step size
                polyak = (lower.value(y) - optimum) / float(slope @ slope)
                assert after.mu == pytest.approx(polyak, rel=1e-9)
            state = after


def test_a_given_level_below_the_optimum_keeps_everything_finite(count):
    for p in map(planted, range(count(16, 520))):
        for level in (p.g_star - 1e-9 * p.g_scale, p.g_star - 10 * p.g_scale, -1e20):
            method = tb.AGMBiO(levels=tb.GivenLevels(level))
            for _, state in walk(p, method, 15):
                assert np.all(np.isfinite(state.x))
                assert np.all(np.isfinite(state.z))
                assert math.isfinite(state.mu)
                assert state.mu >= 0.0


def test_given_levels_may_be_a_number_a_sequence_or_a_callable():
    p = planted(5)
    numbers = [p.g_star + p.g_scale / (k + 1) for k in range(12)]
    runs = [
        [after.x for _, after in walk(p, tb.AGMBiO(levels=tb.GivenLevels(given)), 10)]
        for given in (numbers, tuple(numbers), numbers.__getitem__)
    ]
    for other in runs[1:]:
        for x, y in zip(runs[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


def test_one_forward_and_one_adjoint_product_per_step_and_sequence(monkeypatch):
    rng = np.random.default_rng(6)
    f = tb.LeastSquares(rng.standard_normal((4, 9)), np.ones(4))
    g = tb.LeastSquares(rng.standard_normal((5, 9)), np.ones(5))
    problem = tb.Problem(upper=f, lower=g, domain=tb.Ball())
    method, calls = tb.AGMBiO(), []
    state = method.init(problem, np.zeros(9))
    for name, h in (("f", f), ("g", g)):
        for product in ("forward", "adjoint"):
            original = getattr(h.matrix, product)
            monkeypatch.setattr(
                h.matrix, product,
                lambda *vs, original=original, key=name + product: calls.extend([key] * len(vs))
                or original(*vs),
            )  # fmt: skip
    method.step(problem, state)
    assert sorted(calls) == sorted(["fforward", "fadjoint", *2 * ["gforward"], *2 * ["gadjoint"]])


def test_carried_images_do_not_drift():
    rng = np.random.default_rng(7)
    A, b = rng.standard_normal((30, 20)), rng.standard_normal(30)
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b, gram=False), domain=tb.Ball()
    )
    method = tb.AGMBiO()
    state = method.init(problem, np.zeros(20))
    for _ in range(3000):
        state = method.step(problem, state)
    np.testing.assert_allclose(state.x_images[1], A @ state.x, atol=1e-13)
    np.testing.assert_allclose(state.level_run.u.lower, A @ state.level_run.u.x, atol=1e-13)


@pytest.mark.sample(3)
@pytest.mark.parametrize("domain", [tb.Ball(2.0), tb.Simplex(3.0), tb.Space()])
def test_linear_and_constant_levels_are_no_division_by_zero(domain):
    """L_f = 0 and L_g = 0: any positive stand-in is admissible, in any units."""
    c = np.array([1.0, -2.0, 0.5])
    for unit_f, unit_g in itertools.product((1e-8, 1.0, 1e8), repeat=2):
        lower = (
            tb.LeastSquares(np.array([[1.0, 1.0, 1.0]]), [1.0])
            if isinstance(domain, tb.Space)
            else tb.Linear(unit_g * np.array([0.0, 0.0, 1.0]))
        )
        problem = tb.Problem(upper=tb.Linear(unit_f * c), lower=lower, domain=domain)
        result = tb.solve(problem, tb.AGMBiO(), max_iter=200, rtol=1e-3)
        assert np.all(np.isfinite(result.x))
        if not isinstance(domain, tb.Space):
            assert result.success, str(result)


def test_a_lipschitz_constant_that_is_too_small_is_noticed():
    rng = np.random.default_rng(8)
    A = rng.standard_normal((20, 5))
    problem = tb.Problem(
        upper=tb.LeastSquares(A, np.ones(20), lipschitz=1e-2),
        lower=tb.LeastSquares(A[:2], np.ones(2)),
        domain=tb.Ball(),
    )
    result = tb.solve(problem, tb.AGMBiO(), max_iter=20)
    assert "rises faster than its Lipschitz constant" in result.message
    honest = tb.solve(
        tb.Problem(
            upper=tb.LeastSquares(A, np.ones(20)),
            lower=tb.LeastSquares(A[:2], np.ones(2)),
            domain=tb.Ball(),
        ),
        tb.AGMBiO(),
        max_iter=20,
    )
    assert "rises faster" not in honest.message
