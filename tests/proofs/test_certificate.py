"""Certificates against planted answers: they may be wide, they are never wrong."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from planted.smooth import Planted, planted, wrong_points

import tiebreak as tb
from tiebreak.functions.base import PointWithImage
from tiebreak.linalg import spectra
from tiebreak.proofs import bounds, models, regions
from tiebreak.proofs.accumulator import BoundAccumulator
from tiebreak.proofs.certificate import Certifier
from tiebreak.proofs.evidence import Intervals, StepEvidence

EPS = np.finfo(np.float64).eps


def methods(p: Planted) -> tb.AGMBiO:
    """A method for this seed; every fifth gets levels below g*, which no proof may rely on."""
    levels = (
        tb.OnlineLevels(),
        tb.FixedLevels(9),
        tb.GivenLevels(p.g_star + 0.1 * p.g_scale),
        tb.GivenLevels(p.g_star - 0.1 * p.g_scale),
        tb.GivenLevels(p.g_star - 1e-9 * p.g_scale),
    )
    return tb.AGMBiO(gamma=(None, 1.0, 0.1, 1e-3)[p.seed % 4], levels=levels[p.seed % 5])


def words(p: Planted) -> dict[str, object]:
    """What the user may promise about this problem, truly: a radius for every other seed."""
    return {"radius": 1.01 * float(np.linalg.norm(p.x_star)) + p.unit} if p.seed % 2 else {}


def check(p: Planted, proof: tb.Certificate, x: np.ndarray) -> None:
    """Every statement of the certificate against the planted truth; slack only for f*, g* in
    floating point and for evaluating f(x), g(x) here."""
    of_f = 8 * EPS * (p.f_scale + abs(proof.upper_value))
    of_g = 8 * EPS * (p.g_scale + abs(proof.lower_value))
    assert proof.upper_gap >= p.f(x) - p.f_star - of_f, p.kind
    assert proof.lower_gap >= p.g(x) - p.g_star - of_g, p.kind
    assert proof.upper_error >= abs(p.f(x) - p.f_star) - of_f, p.kind
    assert proof.upper_optimum[0] - of_f <= p.f_star <= proof.upper_optimum[1] + of_f, p.kind
    assert proof.lower_optimum[0] - of_g <= p.g_star <= proof.lower_optimum[1] + of_g, p.kind


def test_never_wrong_at_any_recorded_step(count):
    finite = 0
    number = count(8, 2288)
    for p in map(planted, range(number)):
        problem = p.problem(**words(p))
        result = tb.solve(problem, methods(p), x0=p.x0, rtol=0, max_iter=40)
        check(p, result.certificate, result.x)
        of_f, of_g = 8 * EPS * p.f_scale, 8 * EPS * p.g_scale
        for row in result.trace:
            assert row.upper_gap >= row.upper_value - p.f_star - of_f - 8 * EPS * abs(
                row.upper_value
            )
            assert row.lower_gap >= row.lower_value - p.g_star - of_g - 8 * EPS * abs(
                row.lower_value
            )
        finite += math.isfinite(result.upper_gap)
    print(
        f"\ncertificates: {number} planted problems, none wrong, {finite} with a finite upper gap"
    )


def test_never_wrong_about_a_point_from_anywhere(count):
    points = 0
    for p in map(planted, range(count(4, 416))):
        problem = p.problem(**words(p))
        rng = np.random.default_rng(p.seed)
        for _, x in itertools.islice(wrong_points(p, rng), 0, None, count(12, 4)):
            check(p, tb.certify(problem, x, max_iter=40), x)
            points += 1
        check(p, tb.certify(problem, p.x_star, max_iter=40), p.x_star)
    print(f"\ncertify: {points} wrong points, none certified wrongly")


def test_never_empty_handed_on_a_bounded_domain(count):
    """f(x_k) - bound <= max_{x in Z} |x - z_0|²/(2 A_k) at every step, with any valid levels."""
    checked, worst = 0, 0.0
    for p in map(planted, range(count(13, 2288))):
        problem = p.problem()
        if not problem.is_bounded:
            continue
        levels = (tb.OnlineLevels(), tb.FixedLevels(5), tb.GivenLevels(p.g_star + p.g_scale))
        method = tb.AGMBiO(gamma=(1.0, 0.1, 1e-3)[p.seed % 3], levels=levels[p.seed // 3 % 3])
        state = method.init(problem, p.x0)
        accumulator = BoundAccumulator(problem, p.x0)
        certifier = Certifier(accumulator)
        accumulator.add(state.evidence)
        reach = problem.domain.farthest(state.z)
        for _ in range(30):
            state = method.step(problem, state)
            accumulator.add(state.evidence)
            values = state.upper_value, state.lower_value
            gap = certifier.standing(state.x, *values).upper_gap
            if state.k:
                size = p.f_scale + abs(state.upper_value)
                bound = reach**2 / (2.0 * state.A)
                # Rounding: what is subtracted, a matter of 1e-13 of the sums' own sizes.
                slack = rounding_of(accumulator, reach) + 1e-12 * size
                assert gap <= bound + slack, p.kind
                worst = max(worst, gap / bound if bound > 0.0 else 0.0)
                checked += 1
    print(f"\nbounded domains: {checked} steps, gap at most {worst:.3f} of the theorem's")


def rounding_of(accumulator: BoundAccumulator, reach: float) -> float:
    """The rounding errors that the whole-run bound takes off, twice for good measure."""
    uppers = [block.upper for block in accumulator.sums.blocks]
    cuts = [block.cuts for block in accumulator.sums.blocks]
    weight = sum(model.weight for model in uppers)
    size = reach + float(np.linalg.norm(accumulator.problem.domain.project(0.0 * cuts[0].slope)))
    total = sum(
        model.value_error + (model.slope_error + 1e-13 * np.linalg.norm(model.slope)) * size
        for model in (*uppers, *cuts)
    )
    spread = abs(accumulator.sums.ghat)
    total += 1e-13 * sum(abs(m.constant) + m.weight * spread for m in (*uppers, *cuts))
    # ghat is the computed value plus its own rounding error, and every cut is paid with it.
    total += sum(m.weight for m in cuts) * 1e-12 * spread
    return 2.0 * float(total) / weight


@pytest.mark.sample(2)
@pytest.mark.parametrize(("n", "limit"), [(3, 1e-6), (100, 3e-4)])
def test_the_papers_inverse_problem_is_certified(n, limit, count):
    """Q = I, A = 1', b = 1, the orthant; gamma by Theorem 2 with r = 2 and K = 1000."""
    worst, loose = -math.inf, 0.0
    for seed in range(count(1, 20)):
        problem = tb.Problem(
            upper=tb.SquaredNorm(),
            lower=tb.LeastSquares(np.ones((1, n)), [1.0]),
            domain=tb.Orthant(),
            error_bound=tb.ErrorBound(order=2, modulus=1.0, gradient_bound=1.0),
        )
        x0 = np.random.default_rng(seed).random(n)
        result = tb.solve(problem, tb.AGMBiO(), x0=x0, max_iter=1000, rtol=0)
        worst = max(worst, result.upper_gap)
        true = result.upper_value - 1.0 / (2 * n)
        assert result.upper_gap >= true - 1e-15
        loose = max(loose, result.upper_gap - true)
    print(f"\ninverse problem, n = {n}: gap at most {worst:.2e}, off the true one by {loose:.1e}")
    assert worst <= limit
    if n == 100:
        assert loose <= 1e-6


def test_least_squares_on_the_whole_space_certifies_itself():
    """g(x) - g* <= |grad g(x)|²/(2 s²): no radius, no bounded domain needed below."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((30, 12)), rng.standard_normal(30)
    for data in (A, np.hstack([A, A[:, :3]]), A[:5]):  # full rank, duplicated columns, wide
        lower = tb.LeastSquares(data, b[: data.shape[0]])
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower)
        x = np.linalg.lstsq(data, b[: data.shape[0]], rcond=None)[0]
        result = tb.solve(problem, max_iter=5000)
        assert result.success, str(result)
        assert result.lower_gap >= result.lower_value - lower.value(x) - 1e-14
        # f is strongly convex, so that the upper level is certified too, from both sides.
        f_star = 0.5 * float(x @ x)
        assert result.upper_gap >= result.upper_value - f_star
        assert abs(result.upper_value - f_star) <= result.upper_error < math.inf


def test_no_rank_no_claim():
    """Without a gap in the singular values nothing is said about g* beyond its known bound."""
    n = 12
    hilbert = 1.0 / (np.arange(n)[:, None] + np.arange(n)[None, :] + 1.0)
    lower = tb.LeastSquares(hilbert, np.ones(n)) + tb.Linear(np.zeros(n))
    assert tb.LeastSquares(hilbert, np.ones(n)).rank is None
    result = tb.solve(tb.Problem(upper=tb.Linear(np.ones(n)), lower=lower), max_iter=50)
    assert result.upper_gap == math.inf
    assert result.upper_error == math.inf
    assert "not proved: nothing bounds f* from below" in str(result)


def test_unbounded_without_any_promise_is_honestly_infinite_and_a_radius_mends_it():
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((4, 9)), rng.standard_normal(4)
    V, w = rng.standard_normal((3, 9)), rng.standard_normal(3)
    upper, lower = tb.LeastSquares(V, w) + tb.Linear(A.sum(axis=0)), tb.LeastSquares(A, b)
    without = tb.solve(tb.Problem(upper=upper, lower=lower), "adaptive", max_iter=300)
    assert without.upper_gap == math.inf
    assert not without.success
    assert "radius" in without.message
    promise = tb.Problem(upper=upper, lower=lower, radius=20.0)
    promised = tb.solve(promise, "adaptive", max_iter=300)
    assert promised.upper_gap < math.inf


def test_the_orthant_bounds_a_linear_objective_by_the_signs_of_its_slope():
    c = np.array([1.0, 2.0, 3.0])
    problem = tb.Problem(
        upper=tb.Linear(c), lower=tb.LeastSquares(np.ones((1, 3)), [1.0]), domain=tb.Orthant()
    )
    result = tb.solve(problem, rtol=1e-3, max_iter=3000)
    assert result.upper_gap >= result.upper_value - 1.0
    assert result.upper_gap < math.inf


def test_a_strongly_convex_lower_level_bounds_the_error_on_both_sides():
    rng = np.random.default_rng(2)
    A, b = rng.standard_normal((30, 6)), rng.standard_normal(30)
    star = np.linalg.lstsq(A, b, rcond=None)[0]
    upper = tb.Linear(rng.standard_normal(6))
    problem = tb.Problem(upper=upper, lower=tb.LeastSquares(A, b), domain=tb.Ball(3.0))
    result = tb.solve(problem, rtol=1e-6, max_iter=3000)
    error = abs(result.upper_value - upper.value(star))
    assert error <= result.upper_error < 0.1
    assert result.dimension == 0


def test_the_bound_is_sharp_where_the_last_cut_says_it_all():
    """On the inverse problem the whole-run sum is useless; the last cut is right to 1e-6."""
    n = 100
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(np.ones((1, n)), [1.0]), domain=tb.Orthant()
    )
    x0 = np.random.default_rng(0).random(n)
    result = tb.solve(problem, tb.AGMBiO(gamma=4.95e-5), x0=x0, max_iter=1000, rtol=0)
    assert result.upper_gap - (result.upper_value - 1 / (2 * n)) < 1e-6


@pytest.mark.parametrize("scale", [1.0, 1e-100, 1e-12, 1e12, 1e100])
@pytest.mark.parametrize("units", [1.0, 1e-30, 1e30])
def test_the_minimum_over_a_ball_around_the_origin_is_a_matter_of_lengths(scale, units, count):
    """Never above min of c - v + <s, x> + q/2 |x|² - e |x| over |x| <= R, and hardly below.

    Which is c - v - (|s| + e) r + q/2 r² with r = min((|s| + e)/q, R): ``scale`` in the units of
    the values, ``units`` in those of x.
    """
    rng = np.random.default_rng(8)
    longer = np.longdouble
    for _ in range(count(100, 2000)):
        n = int(rng.choice([1, 2, 30, 3000]))
        radius = [None, units * rng.exponential()][int(rng.integers(2))]
        R = float(rng.choice([np.inf, units * rng.exponential()]))
        domain = tb.Space() if np.inf == R else tb.Ball(R)
        R = longer(min(R, radius or np.inf))
        q = float(rng.choice([0.0, 1e-8, 1.0, 1e8])) * scale / units**2
        slope = rng.standard_normal(n) * scale / units * rng.choice([1e-9, 1.0])
        e, v = rng.choice([0.0, 1e-3]) * scale / units, rng.choice([0.0, 1e-3]) * scale
        c = float(rng.choice([0.0, 1.0, -1e6])) * scale
        steps, later = int(rng.choice([0, 10**3, 10**7])), units * rng.choice([0.3, np.inf])
        region = regions.SolutionRegion(tb.Zero(), tb.Zero(), domain, radius, np.zeros(n))
        region.narrow(steps, later)
        R = min(R, longer(later))
        low = region.minimum(models.Model(1.0, 0.0, c, slope, q, v, e))
        q = longer(q) * (1 - longer(0.5 * spectra.EPS * steps))  # a sum over the steps rounds
        steepness = np.sqrt(np.sum(slope.astype(longer) ** 2)) + longer(e)
        r = min(steepness / q, R) if q > 0.0 else R
        if r == np.inf:
            assert low.value == -np.inf
            continue
        exact = longer(c) - longer(v) - steepness * r + q / 2 * r * r
        assert low.value <= exact
        sizes = abs(c) + v + 2 * steepness * r
        assert exact - low.value <= 2.0 * (64 + n + steps) * spectra.EPS * sizes
        assert np.linalg.norm(low.at / units) <= r / longer(units) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("domain", "f2", "slope", "exact"),
    [
        (tb.Ball(2.0), tb.Zero(), -1.0, -0.5),
        (tb.Box(1.0, 2.0), tb.Zero(), 0.0, 0.5),
        (tb.Space(), tb.L1(1.0), -2.0, -0.5),
    ],
)
def test_a_curvature_summed_over_many_steps_is_known_only_up_to_rounding(domain, f2, slope, exact):
    """The minimum of <slope, x> + q/2 x² + f2(x) for q slightly less than 1."""
    steps = 10**7
    region = regions.SolutionRegion(f2, tb.Zero(), domain, None, np.zeros(1))
    region.narrow(steps, math.inf)
    low = region.minimum(models.Model(1.0, 0.0, 0.0, np.array([slope]), 1.0, 0.0, 0.0))
    lost = 0.5 * spectra.EPS * steps * 0.5
    assert exact - 4.0 * lost <= low.value <= exact - 0.99 * lost


@pytest.mark.parametrize("slope", [[1e-310, 0.0], [0.0, 5e-324], [0.0, 0.0], [1e300, 0.0]])
@pytest.mark.parametrize("radius", [1e-200, 1.0, 1e200])
def test_where_a_model_is_lowest_is_a_point_whatever_its_slope(slope, radius):
    region = regions.SolutionRegion(tb.Zero(), tb.Zero(), tb.Ball(radius), None, np.zeros(2))
    low = region.minimum(models.Model(1.0, 0.0, 0.0, np.array(slope), 0.0, 0.0, 0.0))
    if math.isfinite(low.value):
        expected = -radius * np.sign(slope)
        np.testing.assert_allclose(low.at, expected, rtol=1e-12)


def test_a_tail_is_the_sum_from_one_block_to_the_end():
    one = models.Model(0.0, 1.0, 2.0, np.ones(2), 0.0, 0.0, 0.0)
    blocks = [one.scaled(2.0**i) for i in range(6)]
    weights = [tail.weight for tail in bounds.tails_of(blocks)]
    assert weights == [63.0, 62.0, 60.0, 56.0, 48.0, 32.0]
    assert [tail.weight for tail in bounds.tails_of(blocks[:1])] == [1.0]


def test_float32_data_is_certified_with_float32_rounding(count):
    rng = np.random.default_rng(3)
    for _ in range(count(5, 50)):
        n = int(rng.integers(3, 20))
        A = rng.integers(-3, 4, (n - 1, n)).astype(np.float32)
        star = rng.integers(-2, 3, n).astype(np.float32)
        center = star + A.T @ rng.integers(-2, 3, n - 1).astype(np.float32)
        problem = tb.Problem(
            upper=tb.SquaredNorm(1.0, center),
            lower=tb.LeastSquares(A, A @ star),
            domain=tb.Ball(float(2 * np.linalg.norm(star) + 1)),
        )
        result = tb.solve(problem, max_iter=400)
        f_star = 0.5 * float(np.sum((star.astype(float) - center.astype(float)) ** 2))
        x = result.x.astype(float)
        assert result.x.dtype == np.float32
        assert result.upper_gap >= 0.5 * float(np.sum((x - center) ** 2)) - f_star
        assert result.lower_gap >= 0.5 * float(np.sum((A.astype(float) @ (x - star)) ** 2))


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_deep_inside_the_domain_growth_on_the_whole_space_bounds_both_sides(scale):
    rng = np.random.default_rng(4)
    A, V = rng.standard_normal((10, 30)), rng.standard_normal((60, 30))
    b, w = rng.standard_normal(10), rng.standard_normal(60)
    upper, lower = tb.LeastSquares(V, w), tb.LeastSquares(A, b)
    # The answer on R^n by the optimality conditions.
    K = np.block([[V.T @ V, A.T], [A, np.zeros((10, 10))]])
    star = np.linalg.solve(K, np.concatenate([V.T @ w, b]))[:30]
    f_star, size = upper.value(star), np.linalg.norm(star)
    for domain in (tb.Ball(scale * 2 * size), tb.Box(-scale * 2 * size, scale * 2 * size)):
        problem = tb.Problem(upper=upper, lower=lower, domain=domain)
        proof = tb.solve(problem, "exact").certificate
        low, high = proof.upper_optimum
        if scale == 1.0:  # the answer is inside
            assert low <= f_star * (1 + 1e-12)
            assert f_star <= high * (1 + 1e-12)
            assert proof.upper_error <= 1e-6 * f_star
        # From a start that is no minimiser, or with a set that cuts the answer off: still true.
        far = tb.certify(problem, domain.project(star + 0.1 * rng.standard_normal(30)), max_iter=50)
        exact = tb.solve(problem, "exact").upper_value
        assert far.upper_optimum[0] <= exact * (1 + 1e-9)
        assert exact <= far.upper_optimum[1] * (1 + 1e-9)
        assert low <= exact * (1 + 1e-9) <= high * (1 + 2e-9)


def test_news_with_claims_are_entered_in_the_order_of_their_steps():
    """Whoever reads the sums while some wait and some are measured: the last is the last."""
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(np.eye(3), np.ones(3)), domain=tb.Ball(5.0)
    )
    f, g = problem.smooth_parts
    accumulator, xs = (
        BoundAccumulator(problem, np.zeros(3)),
        np.random.default_rng(0).standard_normal((10, 3)),
    )
    for k, x in enumerate(xs):
        (f_x,), _ = f.evaluate([PointWithImage(x, *f.forward(x))])
        (g_x,), _ = g.evaluate([PointWithImage(x, *g.forward(x))])
        claims = Intervals(lower=0.0) if k == 1 else None
        accumulator.add(StepEvidence(upper=((1.0, f_x),), cuts=((0.1 * k, g_x),), intervals=claims))
    sums = accumulator.sums
    assert sums.steps == 10
    assert sums.last_ratio == pytest.approx(0.9)
    assert sums.last_upper is not None
    np.testing.assert_allclose(sums.last_upper.slope, xs[-1] - xs[-1])


@pytest.mark.parametrize("units", [1.0, 1e-9, 1e-12])
def test_a_set_without_a_projection_bounds_curved_levels_by_its_vertices(units):
    """In any units: HiGHS takes a slope of 1e-11 for 0, which once refuted a true problem."""
    rng, n = np.random.default_rng(0), 4
    rows = np.vstack([np.eye(n), -np.eye(n), np.ones((1, n))])
    domain = tb.Polyhedron(rows, np.append(np.ones(2 * n), 1.5))
    fit = tb.LeastSquares(rng.standard_normal((6, n)), 3.0 * rng.standard_normal(6))
    norm = tb.SquaredNorm(center=rng.standard_normal(n))
    problem = tb.Problem(lower=units * fit, upper=units * norm, domain=domain)
    result, exact = tb.solve(problem, "ir-cg", max_iter=20), tb.solve(problem, "exact")
    assert result.status == "max_iter"
    for value, (low, high) in (
        (exact.upper_value, result.upper_optimum),
        (exact.lower_value, result.lower_optimum),
    ):
        assert -math.inf < low <= value * (1 + 1e-9) <= high * (1 + 2e-9)


def test_a_set_with_neither_projection_nor_argmin_bounds_levels_by_its_size():
    domain = tb.Ball(1.0) & tb.Polyhedron([[1.0, 1.0]], [1.0])
    model = models.Model(1.0, 0.0, 0.0, np.array([3.0, 4.0]), 0.0, 0.0, 0.0)
    region = regions.SolutionRegion(tb.Zero(), tb.Zero(), domain, None, np.zeros(2))
    assert region.minimum(model).value == pytest.approx(-5.0)


def least_at_a_vertex(A, b, c):
    """The least <c, x> over {x : A x <= b} in the plane, in rational arithmetic."""
    rows = [(*map(Fraction, row), Fraction(end)) for row, end in zip(A, b, strict=True)]
    values = []
    for (p, q, u), (r, s, v) in itertools.combinations(rows, 2):
        if det := p * s - q * r:
            x, y = (u * s - q * v) / det, (p * v - u * r) / det
            if all(i * x + j * y <= end for i, j, end in rows):
                values.append(Fraction(c[0]) * x + Fraction(c[1]) * y)
    return min(values)


def test_no_bound_trusts_a_vertex_of_a_linear_program(count):
    rng, zero, tilts, loss = np.random.default_rng(0), np.zeros(2), (1.0, 1e-9, 1e-10, 1e-11), 0.0
    for k in range(count(60, 2000)):
        turn = rng.uniform(0.0, 6.0)
        Q = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        A = np.vstack([Q, -Q, np.eye(2), -np.eye(2)])
        b = np.repeat([rng.uniform(0.5, 1.0), 2.0], 4)
        c = Q[0] + tilts[k % 4] * rng.standard_normal() * Q[1]  # HiGHS ignores small tilts
        region = regions.SolutionRegion(tb.Zero(), tb.Zero(), tb.Polyhedron(A, b), None, zero)
        low = region.minimum(models.Model(1.0, 0.0, 0.0, c, 0.0, 0.0, 0.0)).value
        least = least_at_a_vertex(A, b, c)
        assert Fraction(low) <= least
        loss = max(loss, float(least - Fraction(low)))
    assert loss < 1e-9  # as far as HiGHS's multipliers are off


def test_the_growth_of_a_sum_counts_what_a_large_quadratic_may_lack():
    tilt = 0.9e-8  # within the rounding of Q, which is not quite semidefinite
    large = tb.Quadratic(np.diag([1e8, -tilt]), [0.0, -1e-4])
    sums = (large + tb.SquaredNorm(1e-8), 1e-4), (large + tb.ElasticNet(0.5e-4, 1e-8), 0.5e-4)
    for (g, fall), domain in itertools.product(sums, (tb.Space(), tb.Box(-1e6, 1e6))):
        problem = tb.Problem(lower=g, upper=tb.SquaredNorm(center=[1.0, 1.0]), domain=domain)
        assert problem.growth <= 1e-8 - tilt
        proof = tb.solve(problem, "adaptive", max_iter=50).certificate
        x_star = np.array([0.0, fall / (1e-8 - tilt)])
        assert proof.lower_optimum[0] <= g.value(x_star)
        assert proof.upper_optimum[1] >= problem.upper.value(x_star)
    certain = tb.Quadratic(np.diag([1e8, 1.0])) + tb.SquaredNorm(1.0)
    assert certain.growth == pytest.approx(2.0, rel=1e-5)


def test_without_a_lipschitz_constant_the_slope_at_a_minorant_says_little_elsewhere():
    g = tb.Poisson(200.0 * np.eye(2), [0.0, 0.0], mean=False)  # flat at y, steep at x
    p = tb.Problem(lower=g, upper=tb.SquaredNorm(), domain=tb.Halfspace([-1.0, -1.0], -2.0))
    x, y = np.full(2, 1.0 - 1e-6), np.full(2, -1.0)
    (near,), _ = g.evaluate([PointWithImage(y, *g.forward(y))])
    step = StepEvidence(values=((g.value(x), x, near),))
    accumulator = BoundAccumulator(p, x)
    accumulator.add(step)
    assert accumulator.sums.ghat >= g.value(np.ones(2))
