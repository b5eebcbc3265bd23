"""Certificates of composite problems against planted answers: wide perhaps, never wrong."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest
from planted.composite import APART, PlantedComposite, planted_composite, ties, wrong_points
from planted.smooth import EPS

import tiebreak as tb
from tiebreak.driver.run import Run
from tiebreak.functions.elementary import Flat
from tiebreak.functions.penalties.joint_prox import Joint
from tiebreak.functions.penalties.terms import Terms
from tiebreak.functions.sums import Scaled
from tiebreak.proofs import concave
from tiebreak.proofs.accumulator import BoundAccumulator
from tiebreak.proofs.bounds import Search
from tiebreak.proofs.evidence import StepEvidence
from tiebreak.proofs.models import Model
from tiebreak.proofs.regions import SolutionRegion


def method(p: PlantedComposite):
    """A method for this seed; now and then with levels below g*, which no proof may rely on."""
    levels = (
        tb.OnlineLevels(),
        tb.FixedLevels(9),
        tb.GivenLevels(p.g_star + 0.1 * p.g_scale),
        tb.GivenLevels(p.g_star - 0.1 * p.g_scale),
    )
    if p.seed % 7 == 0 and p.lower.lipschitz > 0.0:
        return tb.RAPM(eta=(1.0, 1e-2)[p.seed % 2] * p.lower.lipschitz / (p.upper.lipschitz or 1.0))
    return tb.PAGMBiO(gamma=(None, 1.0, 0.1, 1e-3)[p.seed % 4], levels=levels[p.seed % 5 % 4])


def words(p: PlantedComposite) -> dict[str, object]:
    """What the user may promise about this problem, truly: a radius for every third seed."""
    return {} if p.seed % 3 else {"radius": 1.01 * float(np.linalg.norm(p.x_star)) + p.unit}


def is_bounded(problem: tb.Problem) -> bool:
    """Does mathematics alone say where the solutions are, or the user?"""
    n = problem.upper.dimension or problem.lower.dimension or 1
    g2_bounds = math.isfinite(problem.penalties[1].terms.extent(n, 1.0))
    by_penalty = g2_bounds and math.isfinite(problem.lower.lower_bound)
    return problem.is_bounded or problem.radius is not None or by_penalty


def slack(p: PlantedComposite, level, x) -> float:
    """What evaluating f or g here, and rounding f* and g* once, may be off by."""
    scale = p.f_scale if level is p.upper else p.g_scale
    return 8 * EPS * (scale + abs(level.value(x)) + level.factor * level.kink.value(x))


def check(p: PlantedComposite, proof: tb.Certificate, x) -> None:
    """Every statement of the certificate against the planted truth."""
    of_f, of_g = slack(p, p.upper, x), slack(p, p.lower, x)
    assert proof.upper_gap >= p.f(x) - p.f_star - of_f, (p.seed, p.kind)
    assert proof.lower_gap >= p.g(x) - p.g_star - of_g, (p.seed, p.kind)
    assert proof.upper_error >= abs(p.f(x) - p.f_star) - of_f, (p.seed, p.kind)
    assert proof.upper_optimum[0] - of_f <= p.f_star <= proof.upper_optimum[1] + of_f, p.kind
    assert proof.lower_optimum[0] - of_g <= p.g_star <= proof.lower_optimum[1] + of_g, p.kind


def test_never_wrong_at_any_recorded_step_and_finite_on_every_bounded_one(count):
    number, finite, bounded = count(8, 520), 0, 0
    widths: list[float] = []
    for p in map(planted_composite, range(0, 520, 520 // number)):
        problem = p.problem(**words(p))
        result = tb.solve(problem, method(p), x0=p.x0, rtol=0, max_iter=40)
        # At f* = 0 both gaps can be 0 without a proof of the other side of f*.
        is_at_zero = result.status == "solved" and p.f(result.x) == p.f_star == 0.0
        is_known = is_at_zero or result.status in ("max_iter", "certified")
        assert is_known, (p.seed, p.kind, result.message)
        check(p, result.certificate, result.x)
        of_f, of_g = 8 * EPS * p.f_scale, 8 * EPS * p.g_scale
        for row in result.trace:
            true = row.upper_value - p.f_star, row.lower_value - p.g_star
            assert row.upper_gap >= true[0] - of_f - 8 * EPS * abs(row.upper_value), p.kind
            assert row.lower_gap >= true[1] - of_g - 8 * EPS * abs(row.lower_value), p.kind
        finite += math.isfinite(result.upper_gap)
        if is_bounded(problem):
            bounded += 1
            assert math.isfinite(result.upper_gap), (p.seed, p.kind)
            assert math.isfinite(result.lower_gap), (p.seed, p.kind)
            size = p.f_scale + abs(p.f(p.x0) - p.f_star)
            widths.append((p.f_star - result.upper_optimum[0]) / size if size > 0.0 else 0.0)
    middle, wide = np.quantile(widths, [0.5, 0.9])
    print(
        f"\ncomposite certificates: {number} problems, none wrong; {finite} with a finite upper "
        f"gap, all {bounded} bounded ones among them; f* - bound after 40 steps, relative: "
        f"median {middle:.1e}, 90 % below {wide:.1e}"
    )


def test_never_wrong_about_a_point_from_anywhere(count):
    points = 0
    for p in map(planted_composite, range(0, 520, count(65, 1))):
        problem = p.problem(**words(p))
        run = Run(problem, method(p), problem.start(p.x0))
        for _ in range(12):
            run.step()
        rng = np.random.default_rng(p.seed)
        for x in (p.x_star, *wrong_points(p, rng)):
            check(p, run.certificate(x), x)
            points += 1
        if p.seed % 13 == 0:
            check(p, tb.certify(problem, p.x0, max_iter=40), p.x0)
    print(f"\ncomposite certificates: {points} points from anywhere, none judged wrongly")


def hearsay(p: PlantedComposite, problem: tb.Problem, rng: np.random.Generator) -> StepEvidence:
    """Minorants at points that no method chose, with any weights, and values in Z."""

    def near() -> np.ndarray:
        z = problem.domain.project(p.region.sample(rng))
        return p.x_star + 2.0 ** -int(rng.integers(0, 30)) * (z - p.x_star)

    f1, g1 = problem.smooth_parts
    (x, y, z) = problem.forward(near(), near(), near())
    (f_y,), _ = f1.evaluate([y.f])
    (g_z, g_x), _ = g1.evaluate([z.g, x.g])
    _, (value,) = problem.lower.evaluate([], [x.g])
    weights = [float(10.0**power) for power in rng.uniform(-3, 3, 3)]
    return StepEvidence(
        upper=((weights[0], f_y),),
        cuts=((weights[1], g_z),),
        lower=((weights[2], g_z),),
        values=((value, x.x, g_x),),
    )


def test_never_wrong_by_hearsay_with_or_without_a_joint_prox(count):
    """Any minorants with any weights prove something; what has no joint prox is relaxed."""
    finite = total = 0
    for kinds in (None, APART):
        for seed in range(count(8, 416)):
            p = planted_composite(seed) if kinds is None else planted_composite(seed, kinds)
            problem = p.problem(**words(p))
            rng = np.random.default_rng(seed)
            accumulator = BoundAccumulator(problem, p.x0)
            for _ in range(6):
                assert accumulator.add(hearsay(p, problem, rng))
                upper, lower = accumulator.bounds()
                assert upper <= p.f_star + 8 * EPS * p.f_scale, (seed, p.kind)
                assert lower <= p.g_star + 8 * EPS * p.g_scale, (seed, p.kind)
                assert accumulator.sums.ghat >= p.g_star - 8 * EPS * p.g_scale, (seed, p.kind)
            finite += math.isfinite(upper)
            total += 1
            if is_bounded(problem):
                assert math.isfinite(upper), (seed, p.kind)
                assert math.isfinite(lower), (seed, p.kind)
    print(f"\nhearsay: {total} problems, half without a joint prox, none wrong, {finite} finite")


def test_the_planted_answers_notice_errors(monkeypatch, count):
    """A penalty with too much weight, or the wrong one's, makes a certificate wrong somewhere."""
    sound = Joint.terms

    def wrong(error) -> int:
        monkeypatch.setattr(Joint, "terms", error)
        found = 0
        for seed in range(count(26, 104)):
            p = planted_composite(seed)
            problem, rng = p.problem(), np.random.default_rng(seed)
            accumulator = BoundAccumulator(problem, p.x0)
            for _ in range(4):
                accumulator.add(hearsay(p, problem, rng))
            upper, lower = accumulator.bounds()
            found += upper > p.f_star + 8 * EPS * p.f_scale
            found += lower > p.g_star + 8 * EPS * p.g_scale
        monkeypatch.undo()
        return found

    assert wrong(sound) == 0
    assert wrong(lambda self, a, mu: sound(self, a, 1.01 * mu)) > 0
    assert wrong(lambda self, a, mu: sound(self, 1.01 * a, mu)) > 0
    assert wrong(lambda self, a, mu: sound(self, a + mu, a + mu)) > 0


# --- on R^n, without anybody's word ------------------------------------------------------------


def shrinks(problem: tb.Problem, f_star: float, chosen, steps: int) -> tuple[float, float]:
    """f* less its proved bound after a tenth of the steps, and after all."""
    after = []
    for k in (steps // 10, steps):
        result = tb.solve(problem, chosen, rtol=0, max_iter=k)
        assert result.upper_optimum[0] <= f_star + 1e-12 * (1.0 + abs(f_star))
        after.append(f_star - result.upper_optimum[0])
    return after[0], after[1]


def test_the_sparsest_least_squares_solution_is_certified_on_the_whole_space(count):
    """f = |x|_1 over ½|Ax - b|² on R^n: the factor on the cuts finds the dual ball."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((15, 30))
    x = np.zeros(30)
    x[:3] = [3.0, -2.0, 1.0]
    problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, A @ x))
    early, late = shrinks(problem, 6.0, tb.PAGMBiO(gamma=1e-2), count(1500, 3000))
    print(f"\nbasis pursuit: f* - bound is {early:.1e}, then {late:.1e}")
    assert late < 0.01
    assert late < 0.2 * early


@pytest.mark.full
def test_the_best_of_all_lasso_solutions_is_certified_on_the_whole_space(count):
    """A linear f over a Lasso with duplicated columns: only g2 says where the solutions are."""
    rng = np.random.default_rng(6)
    A, weight, single = rng.standard_normal((12, 5)), 2.0, np.array([1.0, -2.0, 0.0, 3.0, 0.0])
    slope = -weight * np.where(single == 0, rng.uniform(-0.9, 0.9, 5), np.sign(single))
    b = A @ single - np.linalg.lstsq(A.T, slope, rcond=None)[0]
    # Twins share the weight of a column, both with its sign: f chooses the cheaper one.
    c = rng.standard_normal(10)
    f_star = float(np.sum(np.minimum(single * c[:5], single * c[5:])))
    problem = tb.Problem(
        upper=tb.Linear(c), lower=tb.LeastSquares(np.hstack([A, A]), b) + tb.L1(weight)
    )
    early, late = shrinks(problem, f_star, tb.PAGMBiO(gamma=1e-2), count(1000, 2000))
    print(f"\nLasso ties: f* - bound is {early:.1e}, then {late:.1e}")
    assert late < 0.02 * abs(f_star)
    assert late < 0.3 * early
    result = tb.solve(problem, tb.PAGMBiO(gamma=1e-2), max_iter=count(1000, 2000))
    assert result.lower_gap < 1e-3 * result.lower_value


@pytest.mark.full
def test_a_smooth_upper_level_with_a_norm_is_certified_on_the_whole_space(count):
    rng = np.random.default_rng(7)
    A, x = rng.standard_normal((6, 12)), np.zeros(12)
    x[:2] = [1.0, -1.0]
    V = rng.standard_normal((5, 12))
    # -V'(Vx - w) - p = A'lambda for a p of the norm's: x is best.
    p = np.sign(x)
    r = np.linalg.lstsq(V.T, A.T @ rng.standard_normal(6) - p, rcond=None)[0]
    slack = p + V.T @ r  # what is left is made a multiple of A's rows
    A = np.vstack([A, slack])
    upper = tb.LeastSquares(V, V @ x - r) + tb.L1(1.0)
    problem = tb.Problem(upper=upper, lower=tb.LeastSquares(A, A @ x))
    early, late = shrinks(problem, upper.value(x), tb.PAGMBiO(gamma=1e-2), count(1000, 3000))
    print(f"\nLeastSquares + L1: f* - bound is {early:.1e}, then {late:.1e}")
    assert late < 0.05 * upper.value(x)


def test_nothing_is_claimed_where_nothing_is_known_and_the_advice_says_what_would_help():
    rng = np.random.default_rng(8)
    A, b = rng.standard_normal((6, 9)), rng.standard_normal(6)
    groups = [[0, 1], [2, 3]]  # the others are not penalised, but A determines them
    problem = tb.Problem(
        upper=tb.Linear(rng.standard_normal(9)), lower=tb.LeastSquares(A, b) + tb.GroupL2(groups)
    )
    result = tb.solve(problem, tb.PAGMBiO(gamma=1.0), max_iter=50)
    assert result.upper_gap == math.inf
    assert "a penalty on all variables" in result.message
    promised = dataclasses.replace(problem, radius=50.0)
    assert tb.solve(promised, tb.PAGMBiO(gamma=1.0), max_iter=50).upper_gap < math.inf


def test_a_strongly_convex_penalty_below_bounds_the_error_on_both_sides():
    rng = np.random.default_rng(9)
    A, b = rng.standard_normal((5, 8)), rng.standard_normal(5)
    lower = tb.LeastSquares(A, b) + tb.ElasticNet(0.1, 0.5)
    upper = tb.Linear(rng.standard_normal(8)) + tb.L2(0.3)
    star = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), rtol=1e-13, max_iter=5000)
    f_star = upper.value(star.x)
    for k in (10, 100, 1000):
        result = tb.solve(tb.Problem(upper=upper, lower=lower), max_iter=k, rtol=0)
        assert result.dimension == 0
        assert abs(result.upper_value - f_star) <= result.upper_error + 1e-6
        low, high = result.upper_optimum
        assert low - 1e-6 <= f_star <= high + 1e-6
    assert result.upper_error < 0.05


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", ["p-agm-bio", "adaptive", "auto"])
def test_norms_around_a_center_are_certified_like_those_around_0(method, count):
    """The same problem after a translation: the same f*, within what is proved of it."""
    for seed in range(count(1, 0), count(3, 40)):  # one above, one below
        rng = np.random.default_rng([17, seed])
        A, b, c = rng.standard_normal((4, 7)), rng.standard_normal(4), rng.standard_normal(7)
        some = np.where(rng.random(7) < 0.7, 0.6, 0.0) if seed % 2 else 0.6

        def problem(center, b, above=seed % 4 < 2, some=some, A=A):  # at 0 or at c
            norm, fit = tb.L2(some, center), tb.LeastSquares(A, b)
            if above:
                return tb.Problem(upper=norm, lower=fit)
            near = tb.SquaredNorm(center=np.ones(7) + (0.0 if center is None else center))
            return tb.Problem(upper=near, lower=fit + tb.L2(0.4, center))

        there = problem(None, b - A @ c)
        around_0 = tb.solve(there, "conic", rtol=1e-9)
        # The gamma of Theorem 2 knows a bound on |x|, which is not the same far from 0.
        chosen = tb.PAGMBiO(gamma=1.0) if method == "p-agm-bio" else method
        same = tb.solve(there, chosen, x0=-c, max_iter=100)
        result = tb.solve(problem(c, b), chosen, x0=np.zeros(7), max_iter=100)
        low, high = result.upper_optimum
        assert low - 1e-6 <= around_0.upper_value <= high + 1e-6
        low, high = result.certificate.lower_optimum
        assert low - 1e-6 <= around_0.lower_value <= high + 1e-6
        # The other two take steps by what is proved, and that is not the same far from 0.
        np.testing.assert_allclose(
            result.x - c, same.x, atol=1e-6 if method == "p-agm-bio" else 0.1
        )


def test_ties_are_told_from_x_star(count):
    """A tie that is worse for f is judged so: the gap is at least what it gives up."""
    judged = 0
    for seed in range(count(52, 208)):
        p = planted_composite(seed)
        x = next(ties(p, np.random.default_rng(seed)), None)
        if x is None or not is_bounded(problem := p.problem()):
            continue
        proof = tb.certify(problem, x, max_iter=60)
        check(p, proof, x)
        judged += p.f(x) > p.f_star
    assert judged > count(2, 5)


def test_float32_is_certified_with_float32_rounding(count):
    checked = 0
    for seed in range(0, 520, count(20, 1)):
        p = planted_composite(seed)
        problem = p.problem()
        f1, g1 = (in_float32(h) for h in problem.smooth_parts)
        if f1 is None or g1 is None:
            continue
        f2, g2 = problem.penalties
        problem = dataclasses.replace(problem, upper=f1 + f2, lower=g1 + g2)
        x0 = p.x0.astype(np.float32)
        result = tb.solve(problem, tb.PAGMBiO(gamma=0.1), x0=x0, max_iter=20, rtol=0)
        checked += 1
        x = result.x.astype(float)
        assert result.x.dtype == np.float32
        assert result.upper_gap >= p.f(x) - p.f_star - 1e-13 * p.f_scale
        assert result.lower_gap >= p.g(x) - p.g_star - 1e-13 * p.g_scale
    assert checked > 5


def in_float32(h):
    """The same data, small integers times powers of two, in float32; None if they do not fit."""
    if isinstance(h, Scaled):
        function = in_float32(h.function)
        return None if function is None else h.weight * function
    if isinstance(h, Flat):
        return h
    kinds = {tb.LeastSquares: ("A", "b"), tb.Linear: ("c",), tb.SquaredNorm: ("center",)}
    if type(h) not in kinds:
        return None
    given = {"A": h.matrix.entries if h.matrix is not None else None}
    given |= {name: getattr(h, name, None) for name in ("b", "c", "center")}
    data = [given[name] for name in kinds[type(h)]]
    if any(part is None or np.any(part.astype(np.float32) != part) for part in data):
        return None
    data = [part.astype(np.float32) for part in data]
    if isinstance(h, tb.SquaredNorm):
        return tb.SquaredNorm(h.weight, *data)
    return type(h)(*data, **({"mean": True} if getattr(h, "scale", 1.0) != 1.0 else {}))


# --- the parts ---------------------------------------------------------------------------------


def terms(rng: np.random.Generator, n: int) -> Terms:
    weights = [float(w) for w in rng.uniform(0, 2, 4) * (rng.random(4) < 0.5)]
    labels = rng.integers(-1, 2, n) if rng.random() < 0.5 else np.arange(n) // 2
    groups = tb.GroupL2(labels).groups
    if not np.any(labels >= 0):
        weights[1] = 0.0
    return Terms(*weights, groups=groups)


def test_eased_terms_and_extents_keep_their_word(count):
    rng = np.random.default_rng(0)
    eased_ones = 0
    for _ in range(count(300, 3000)):
        n = int(rng.integers(1, 7))
        these, error = terms(rng, n), float(rng.choice([0.0, 1e-14, 0.1, 1.0]))
        eased = these.eased(n, error)
        eased_ones += eased is not None
        level = float(rng.uniform(0, 5))
        for x in rng.standard_normal((5, n)) * 10.0 ** rng.uniform(-3, 3):
            size = float(np.linalg.norm(x))
            if eased is not None:
                assert eased.value(x) <= (these.value(x) - error * size) + 1e-14 * these.value(x)
            value = these.value(x)
            assert size <= these.extent(n, value) * (1 + 1e-12)
            assert these.extent(n, level) >= these.extent(n, 0.5 * level)
    assert eased_ones > 100


def test_a_falling_direction_is_the_steepest(count):
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(count(300, 3000)):
        n = int(rng.integers(1, 6))
        these = dataclasses.replace(terms(rng, n), square=0.0)
        slope = 2.0 * rng.standard_normal(n)
        d = these.falling(slope)
        least = these.least(slope)[0]
        assert (d is None) == (least > -math.inf) or not any(these.weights)
        if d is not None:
            found += 1
            assert np.linalg.norm(d) == pytest.approx(1.0)
            fall = float(slope @ d) + these.value(d)
            for other in rng.standard_normal((20, n)):
                other /= np.linalg.norm(other)
                assert slope @ other + these.value(other) >= fall - 1e-6
    assert found > 50


@pytest.mark.sample(2)
@pytest.mark.parametrize("radius", [None, 1.5])
def test_the_minimum_over_a_region_is_that_of_a_conic_solver(radius, count):
    """Model + a f2 + mu g2 over Z and a ball: never above, and hardly below."""
    import cvxpy as cp
    from helpers.penalties import conic, rules

    rng = np.random.default_rng(2)
    for _ in range(count(30, 200)):
        n = int(rng.integers(1, 6))
        labels = np.arange(n) // 2
        f2, g2 = (
            [tb.L1(1.0), tb.L2(0.7), tb.GroupL2(labels, 0.8), tb.ElasticNet(0.5, 0.4)][i]
            for i in rng.integers(0, 4, 2)
        )
        Z = [tb.Space(), tb.Ball(2.0), tb.Orthant()][int(rng.integers(3))]
        a, mu = rng.uniform(0, 2, 2)
        curvature = float(rng.choice([0.0, 0.5]))
        slope = 1.5 * rng.standard_normal(n)
        model = Model(a, mu, 0.3, slope, curvature, 0.0, 0.0)
        low = SolutionRegion(f2, g2, Z, radius, np.zeros(n)).minimum(model)
        x = cp.Variable(n)
        objective = 0.3 + slope @ x + a * conic(f2, x)[0] + mu * conic(g2, x)[0]
        objective += curvature / 2 * cp.sum_squares(x)
        limit = [cp.norm(x) <= radius] if radius else []
        conic_problem = cp.Problem(cp.Minimize(objective), rules(Z, x) + limit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best = conic_problem.solve(solver="CLARABEL")
        if best == -math.inf:
            assert low.value == -math.inf
        else:
            assert low.value <= best + 1e-7
            assert low.value >= best - 1e-6 * (1.0 + abs(best))


def test_the_search_for_a_factor_goes_into_the_interval_where_the_bound_is_finite():
    """min over x of |x| + 3 + t (1 + 2 x): finite for t <= 1/2, where it is largest."""

    def bound(t: float) -> tuple[float, float, float]:
        t = min(t, 0.5)
        return t, 3.0 + t, 1.0

    for start in (1e-6, 0.3, 1.0, 1e6):
        value, factor = concave.largest(bound, start, 12)
        assert (value, factor) == (3.5, 0.5)


def test_walls_on_both_sides_are_found_from_anywhere():
    """f = <c, x> + |x|_1 with |c_1| > 1 needs the cuts, but not too much of them."""
    problem = tb.Problem(
        upper=tb.Linear([-1.5, 0.2]) + tb.L1(),
        lower=tb.LeastSquares(np.eye(2), [1.0, 0.0]),
    )
    (y,) = problem.forward(np.array([1.25, 0.25]))
    (of_f,), (of_g,) = (
        h.evaluate([p])[0] for h, p in zip(problem.smooth_parts, (y.f, y.g), strict=True)
    )
    for factor in (1e-9, 7.0, 1e9):  # bounded for factors between 2 and 10
        accumulator = BoundAccumulator(problem, np.zeros(2))
        accumulator.add(
            StepEvidence(
                upper=((1.0, of_f),), cuts=((factor, of_g),), values=((of_g.value, y.x, of_g),)
            )
        )
        bound = accumulator.bounds()[0]
        assert -math.inf < bound <= -0.5


def test_a_bound_holds_for_every_level_of_g_also_below_its_own(count):
    """min { f : g <= c } is at least ``at(c)``, with and without a constant minorant mixed in."""
    rng, grid = np.random.default_rng(0), np.linspace(-20.0, 20.0, 40001)
    some = 0
    for _ in range(count(40, 400)):
        a, b, s, w, target, y, z = rng.uniform(0.2, 3.0, 7)
        p = tb.Problem(
            lower=tb.LeastSquares([[a]], [target]), upper=s * tb.SquaredNorm(center=[b]) + tb.L1(w)
        )
        search = Search(p, np.zeros(1))
        pull, turn = s * (y - b), a * (a * z - target)
        upper = Model(1.0, 0.0, 0.5 * s * (y - b) ** 2 - pull * y, np.array([pull]), 0.0, 0.0, 0.0)
        cut = Model(
            0.0, 1.0, 0.5 * (a * z - target) ** 2 - turn * z, np.array([turn]), 0.0, 0.0, 0.0
        )
        f, g = 0.5 * s * (grid - b) ** 2 + w * abs(grid), 0.5 * (a * grid - target) ** 2
        ghat = rng.uniform(0.1, 5.0)
        base, move = search._normalised(upper, cut, ghat)
        factor, low = search._lowest(base, move, 10.0 ** rng.uniform(-2, 2))
        for bound in search._two_bounds(low.value, base, move, factor, ghat):
            some += math.isfinite(bound.value)
            for c in np.linspace(np.min(g), 1.5 * ghat, 9):
                assert bound.at(c) <= np.min(f[g <= c + 1e-12]) + 1e-9
    assert some > 40
