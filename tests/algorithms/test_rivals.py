"""a-IRG, Bi-SG, SEA, R-APM, PB-APG: their recursions, their rates, their certificates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import array_api_strict as xps
import numpy as np
import pytest
from helpers.edge_cases import check_small, check_units
from helpers.rivals import (
    EPS,
    Instance,
    Vector,
    errors_across,
    errors_along,
    measured_rate,
    planted_pair,
    states,
)
from planted.smooth import Planted, planted

import tiebreak as tb
from tiebreak.algorithms.rivals.a_irg import AIRG
from tiebreak.algorithms.rivals.bi_sg import BiSG
from tiebreak.algorithms.rivals.pb_apg import FIRST_PHASE, PBAPG, accuracy_after, penalty_for
from tiebreak.algorithms.rivals.r_apm import RAPM
from tiebreak.algorithms.rivals.sea import SEA
from tiebreak.experiments.scenes import slope
from tiebreak.theory import upper_floor

RIVALS = [AIRG(), BiSG(), SEA(), RAPM(), PBAPG(), PBAPG(adaptive=True)]
NAMES = ["a-IRG", "Bi-SG", "SEA", "R-APM", "PB-APG", "adaptive PB-APG"]


def runnable(method: Any, p: Planted) -> Any:
    """The method itself; where Z is unbounded SEA and PB-APG need a number of their own."""
    if p.problem().is_bounded:
        return method
    if isinstance(method, SEA):
        return SEA(upper_step=0.1 / (p.L_f or 1.0))
    if isinstance(method, PBAPG):
        return replace(method, penalty=1e4 * (p.L_f or 1.0) / (p.L_g or 1.0))
    return method


def sample(count: Callable[[int, int], int], method: Any, full: int) -> Iterator[Planted]:
    """Planted problems: the first ``full``, or 8 in a short run, one per domain and others for
    each method."""
    first, step = count(RIVALS.index(method), 0), count(14, 1)
    return map(planted, range(first, count(56, full), step))


# --- the recursions, in a few lines of NumPy -----------------------------------------------------


Plain = Callable[[Any, Any, Planted, Callable[[Vector], Vector], Vector, int], list[Vector]]


def plain_a_irg(m: Any, first: Any, p: Planted, project: Any, x: Vector, steps: int) -> Any:
    points, weights = [x], [first.memory.gamma_0**m.r]
    for k in range(steps):
        gamma, eta = first.memory.gamma_0 / np.sqrt(k + 1), first.memory.eta_0 / (k + 1) ** m.b
        x = project(x - gamma * (p.grad_g(x) + eta * p.grad_f(x)))
        points.append(x)
        weights.append((first.memory.gamma_0 / np.sqrt(k + 2)) ** m.r)
    return [np.average(points[: k + 1], axis=0, weights=weights[: k + 1]) for k in range(steps + 1)]


def plain_bi_sg(m: Any, first: Any, p: Planted, project: Any, x: Vector, steps: int) -> Any:
    ys = [x]
    for k in range(steps):
        ys.append(project(x - first.memory.step_size * p.grad_g(x)))
        x = ys[-1] - first.memory.c / (k + 1) ** m.alpha * p.grad_f(ys[-1])
    return ys


def plain_sea(m: Any, first: Any, p: Planted, project: Any, x: Vector, steps: int) -> Any:
    points = []
    start = x
    for _ in range(steps):
        y = x - first.memory.upper_step * p.grad_f(x)
        x = project(y - first.memory.lower_step * p.grad_g(y))
        points.append(x)
    return [start] + [np.mean(points[:k], axis=0) for k in range(1, steps + 1)]


def plain_fista(
    weights: Callable[[int], tuple[float, float, float]], p: Planted, project: Any, x: Vector,
    steps: int, restarts: tuple[int, ...] = (),
) -> list[Vector]:  # fmt: skip
    points, y, t = [x], x, 1.0
    for k in range(steps):
        w_f, w_g, step = weights(k)
        x_new = project(y - step * (w_f * p.grad_f(y) + w_g * p.grad_g(y)))
        t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y, t, x = x_new + (t - 1) / t_new * (x_new - x), t_new, x_new
        if k + 1 in restarts:
            y, t = x, 1.0
        points.append(x)
    return points


def plain_r_apm(m: Any, first: Any, p: Planted, project: Any, x: Vector, steps: int) -> Any:
    return plain_fista(
        lambda k: (first.memory.upper_weight, 1.0, first.memory.step_size), p, project, x, steps
    )


def plain_pb_apg(m: Any, first: Any, p: Planted, project: Any, x: Vector, steps: int) -> Any:
    return plain_fista(
        lambda k: (1.0, first.memory.lower_weight, first.memory.step_size), p, project, x, steps
    )


def plain_adaptive(m: Any, first: Any, p: Planted, project: Any, x: Vector, steps: int) -> Any:
    ends = tuple(FIRST_PHASE * (2**j - 1) for j in range(1, 12))
    L_f, L_g = p.problem().upper.lipschitz, p.problem().lower.lipschitz

    def weights(k: int) -> tuple[float, float, float]:
        gamma = first.memory.lower_weight * 2 ** sum(end <= k for end in ends)
        smoothness = L_f + gamma * L_g
        return (
            1.0,
            gamma,
            1 / smoothness
            if smoothness
            else first.memory.step_size / 2 ** sum(end <= k for end in ends),
        )

    return plain_fista(weights, p, project, x, steps, restarts=ends)


PLAIN = [plain_a_irg, plain_bi_sg, plain_sea, plain_r_apm, plain_pb_apg, plain_adaptive]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("method", "plain"), list(zip(RIVALS, PLAIN, strict=True)), ids=NAMES)
def test_the_recursion_is_that_of_a_few_lines_of_numpy(count, method, plain):
    steps, worst = 70, 0.0  # beyond one refresh of the images
    for p in sample(count, method, 104):
        problem = p.problem()
        if isinstance(method, PBAPG) and problem.upper.lipschitz == problem.lower.lipschitz == 0.0:
            continue  # the stand-in for the step size is not a formula of the constants
        m = runnable(method, p)
        x0 = problem.domain.project(p.x0)
        run = list(states(m, problem, p.x0, steps))
        expected = plain(m, run[0], p, problem.domain.project, x0, steps)
        size = max(float(np.abs(x).max()) for x in expected) + p.unit
        for state, x in zip(run, expected, strict=True):
            worst = max(worst, float(np.abs(state.x - x).max()) / size)
            of_f = abs(p.f(x)) + np.linalg.norm(p.grad_f(x)) * size + p.f_scale
            of_g = abs(p.g(x)) + np.linalg.norm(p.grad_g(x)) * size + p.g_scale
            origin = np.zeros(p.n)
            of_f, of_g = of_f + abs(p.f(origin)), of_g + abs(p.g(origin))
            assert state.upper_value == pytest.approx(p.f(state.x), rel=0, abs=1e-11 * of_f)
            assert state.lower_value == pytest.approx(p.g(state.x), rel=0, abs=1e-11 * of_g)
            assert problem.domain.contains(state.x, 1e-12 * size)
    print(f"\nworst distance to the plain recursion {worst:.1e}")
    assert worst <= 1e-9


def test_r_apm_with_eta_and_pb_apg_with_its_inverse_give_the_same_iterates(count):
    worst = 0.0
    for p in map(planted, range(count(8, 208))):
        problem = p.problem()
        for eta in (1.0, 0.37, 1e-3):
            runs = zip(
                states(RAPM(eta=eta), problem, p.x0, 100),
                states(PBAPG(penalty=1.0 / eta), problem, p.x0, 100),
                strict=True,
            )
            for a, b in runs:
                size = float(np.abs(a.x).max()) + p.unit
                worst = max(worst, float(np.abs(a.x - b.x).max()) / size)
    print(f"\nR-APM and PB-APG: iterates differ by at most {worst:.1e}")
    assert worst <= 1e-9


# --- the inequalities behind the theorems, at every step -----------------------------------------


def test_the_inequality_of_the_alternating_steps(count):
    """2 s (f(x) - l_f(u)) + 2 t (g(x+) - l_g(u)) <= |x - u|² - |x+ - u|² + s²|grad f(x)|²."""
    for p in map(planted, range(count(12, 208))):
        problem, rng = p.problem(), np.random.default_rng(p.seed)
        points = [p.x_star, p.region.sample(rng), p.region.sample(rng)]
        for method in (BiSG(), runnable(SEA(), p)):
            run = list(states(method, problem, p.x0, 20))
            t = run[0].memory.step_size if isinstance(method, BiSG) else run[0].memory.lower_step
            for before, after in itertools.pairwise(run):
                a, b, s = (
                    before.memory.alternation,
                    after.memory.alternation,
                    before.memory.alternation.upper_step,
                )
                f_x, g_out, x, x1 = a.f_x, a.g_out, a.x.x, b.x.x
                for u in points:
                    l_f = f_x.value + f_x.slope @ (u - x)
                    l_g = g_out.value + g_out.slope @ (u - g_out.at)
                    left = 2 * s * (f_x.value - l_f) + 2 * t * (b.g_x - l_g)
                    right = np.sum((x - u) ** 2) - np.sum((x1 - u) ** 2)
                    right += s**2 * np.sum(f_x.slope**2)
                    reach = np.linalg.norm(u) + np.linalg.norm(x) + np.linalg.norm(g_out.at)
                    size = s * np.linalg.norm(f_x.slope) + t * np.linalg.norm(g_out.slope) + reach
                    size = size * reach + t * (abs(b.g_x) + p.g_scale)
                    assert left <= right + 1e-12 * size, p.kind


@pytest.mark.parametrize("method", [RAPM(eta=0.1), PBAPG(penalty=10.0)], ids=["R-APM", "PB-APG"])
def test_the_inequality_of_fista_with_the_weights_of_the_certificate(count, method):
    """h(x_{k+1}) - sum t_i l_i(u)/t_k² <= |u - x_0|²/(2 s t_k²) for all u in Z, sum t_i = t_k²."""
    for p in map(planted, range(count(12, 208))):
        problem, rng = p.problem(), np.random.default_rng(p.seed)
        points = [p.x_star, p.region.sample(rng)]
        w_f, w_g = (0.1, 1.0) if isinstance(method, RAPM) else (1.0, 10.0)
        run = list(states(method, problem, p.x0, 40))
        x0, total, sums, size = run[0].x, 0.0, [0.0, 0.0], 0.0
        for before, after in itertools.pairwise(run):
            t, f_y, g_y = before.memory.run.t, before.memory.run.f_y, before.memory.run.g_y
            total += t
            assert total == pytest.approx(t * t, rel=1e-12)
            h = w_f * after.upper_value + w_g * after.lower_value
            for i, u in enumerate(points):
                l_f = f_y.value + f_y.slope @ (u - f_y.at)
                l_g = g_y.value + g_y.slope @ (u - g_y.at)
                sums[i] += t * (w_f * l_f + w_g * l_g)
                terms = w_f * (abs(f_y.value) + np.linalg.norm(f_y.slope) * np.linalg.norm(u))
                terms += w_g * (abs(g_y.value) + np.linalg.norm(g_y.slope) * np.linalg.norm(u))
                reach = np.linalg.norm(f_y.at)
                slopes = w_f * np.linalg.norm(f_y.slope) + w_g * np.linalg.norm(g_y.slope)
                size = max(size, terms + slopes * reach + w_f * p.f_scale + w_g * p.g_scale)
                bound = np.sum((u - x0) ** 2) / (2 * before.memory.step_size * t * t)
                assert h - sums[i] / total <= bound + 1e-12 * (size + bound), p.kind


def test_the_news_of_a_regularised_step_weigh_the_minorants_as_the_step_does():
    p = planted(1)
    problem = p.problem()
    a, b = list(states(AIRG(), problem, p.x0, 1))
    (w_f, f_x), (w_g, g_x) = b.evidence.upper[0], b.evidence.cuts[0]
    assert w_f / w_g == pytest.approx(a.memory.eta_0)
    np.testing.assert_array_equal(f_x.at, a.x)
    np.testing.assert_array_equal(g_x.at, a.x)
    for method, ratio in ((RAPM(eta=0.2), 0.2), (PBAPG(penalty=5.0), 0.2)):
        evidence = list(states(method, problem, p.x0, 3))[-1].evidence
        assert evidence.upper[0][0] / evidence.cuts[0][0] == pytest.approx(ratio)


# --- the rates -----------------------------------------------------------------------------------


def conflict() -> Instance:
    """Order 2: f pulls away from all minimisers of g alike, and chooses one among them."""
    rows, others, star = planted_pair(np.random.default_rng(1), 8, 3)
    pull = rows.T @ (rows @ star)  # away from the solutions, towards the start at 0
    pull *= 0.3 / np.linalg.norm(pull)
    A = np.linspace(0.6, 1.0, 3)[:, None] * rows
    Q = others.T @ others
    upper = tb.Quadratic(Q, pull - Q @ star)
    problem = tb.Problem(
        upper=upper,
        lower=tb.LeastSquares(A, A @ star),
        domain=tb.Ball(),
        error_bound=tb.ErrorBound(2, 0.36, 0.3),
    )
    return Instance(problem, upper.value(star), 0.0, 2.0)


def quiet() -> Instance:
    """f >= f* everywhere, ill-conditioned: its error is never negative."""
    rng = np.random.default_rng(2)
    rows, _, star = planted_pair(rng, 30, 10)
    A = np.linspace(0.6, 1.0, 10)[:, None] * rows
    V = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    W = (V * np.logspace(-1, 0, 30)) @ V.T
    problem = tb.Problem(
        upper=tb.LeastSquares(W, W @ star), lower=tb.LeastSquares(A, A @ star), domain=tb.Ball()
    )
    return Instance(problem, 0.0, 0.0, None)


def sharp() -> Instance:
    """Order 1: a face of the simplex, everything off it costs; f pulls off it, ill-conditioned."""
    rng, n, m = np.random.default_rng(3), 10, 5
    off = np.concatenate([np.zeros(m), np.ones(n - m)])
    price = off * rng.uniform(0.5, 1.0, n)
    star = np.concatenate([rng.dirichlet(np.full(m, 5.0)), np.zeros(n - m)])
    V = np.linalg.qr(rng.standard_normal((n, n)))[0]
    roots = np.logspace(-1, 0, n)
    pull = -0.3 * off * rng.uniform(0.5, 1.0, n)  # grad f(x*)
    W = (V * roots) @ V.T
    target = star - (V / roots**2) @ V.T @ pull
    upper = tb.LeastSquares(W, W @ target)
    problem = tb.Problem(
        upper=upper,
        lower=tb.Linear(price) + 0.5 * tb.LeastSquares(off[None, :], [0.0]),
        domain=tb.Simplex(),
        error_bound=tb.ErrorBound(
            1, float(price[m:].min()) / math.sqrt(2.0), float(np.linalg.norm(pull))
        ),
    )
    return Instance(problem, upper.value(star), 0.0, 1.0)


def quartic() -> Instance:
    """Order 4: g grows like the fourth power of the distance, f pulls away."""
    rows, others, star = planted_pair(np.random.default_rng(4), 6, 1)
    a = rows[0] * np.sign(rows[0] @ star)
    Q = others.T @ others
    upper = tb.Quadratic(Q, 0.3 * a - Q @ star)

    def value(x: Vector) -> float:
        t = abs(float(a @ (x - star)))
        return t**4 / 4 if t <= 1 else 0.25 + (t - 1) + 1.5 * (t - 1) ** 2

    def gradient(x: Vector) -> Vector:
        t = float(a @ (x - star))
        return np.sign(t) * (abs(t) ** 3 if abs(t) <= 1 else 1 + 3 * (abs(t) - 1)) * a

    # On the unit ball |t| <= 1.5: there g >= 0.69 t⁴/4.
    problem = tb.Problem(
        upper=upper,
        lower=tb.Smooth(value, gradient, lipschitz=3.0, lower_bound=0.0),
        domain=tb.Ball(),
        error_bound=tb.ErrorBound(4, 0.69, 0.3),
    )
    return Instance(problem, upper.value(star), 0.0, 4.0)


INSTANCES = {"conflict": conflict, "quiet": quiet, "sharp": sharp, "quartic": quartic}
# method, instance, published rates of f and of g, along one run or across planned runs, steps
RATES = [
    (AIRG(), "quiet", 1 / 4, 1 / 4, errors_along, 10_000),
    (AIRG(), "conflict", 1 / 4, 1 / 4, errors_along, 10_000),
    (AIRG(), "sharp", 1 / 4, 1 / 4, errors_along, 10_000),
    (AIRG(b=0.1), "quiet", 0.4, 0.1, errors_along, 10_000),
    (BiSG(), "quiet", 1 / 4, 3 / 4, errors_along, 10_000),
    (BiSG(), "conflict", 1 / 4, 3 / 4, errors_along, 10_000),
    (BiSG(), "sharp", 1 / 4, 3 / 4, errors_along, 10_000),
    (BiSG(), "quartic", 1 / 4, 3 / 4, errors_along, 10_000),
    (BiSG(alpha=0.55), "quiet", 0.45, 0.55, errors_along, 10_000),
    (SEA(), "quiet", 1 / 2, 1 / 2, errors_across, 3000),
    (SEA(), "conflict", 1 / 2, 1 / 2, errors_across, 3000),
    (SEA(), "sharp", 1 / 2, 1 / 2, errors_across, 3000),
    (RAPM(), "quiet", 1, 1, errors_across, 3000),
    (RAPM(), "sharp", 2, 2, errors_across, 3000),
    (RAPM(), "conflict", 1, 1, errors_across, 3000),
    (RAPM(), "quartic", 1, 1, errors_across, 3000),
    (PBAPG(), "conflict", 1, 2, errors_across, 3000),
    (PBAPG(), "sharp", 2, 2, errors_across, 3000),
    (PBAPG(), "quartic", 1 / 2, 2, errors_across, 3000),
    (PBAPG(adaptive=True), "sharp", 2, 2, errors_along, 3000),
]


# The sample has the first, third and fifth; test_composite_rivals.py has the other two in its own.
@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", [AIRG, RAPM, BiSG, PBAPG, SEA])
def test_the_measured_rate_is_at_least_the_published_one(count, kind):
    cases = [case for case in RATES if type(case[0]) is kind]
    for method, name, *published in cases[: count(1, len(cases))]:
        print(f"\n{method} on {name}: {measured_rate(method, INSTANCES[name](), *published)}")


def test_the_growing_penalty_follows_the_rate_of_the_planned_one(count):
    """At the end of each phase, against its length: more than half of all the steps until then."""
    for name in ("conflict", "quartic")[: count(1, 2)]:
        instance = INSTANCES[name]()
        lengths = FIRST_PHASE * 2 ** np.arange(2, 10)
        _, f, g = errors_along(instance, PBAPG(adaptive=True), 2 * lengths[-1] - FIRST_PHASE)
        ends = 2 * lengths - FIRST_PHASE
        absolute = slope(lengths, np.abs(f[ends]), 2, 1e-14)
        below = slope(lengths, g[ends], 2, 1e-14)
        print(f"\nadaptive PB-APG on {name}: |f - f*| {absolute:.3f}, g {below:.3f}")
        assert round(-absolute, 2) >= 2 / instance.order
        assert round(-below, 2) >= 2


# --- slopes --------------------------------------------------------------------------------------


def test_slope_of_a_power_is_its_exponent():
    k = np.arange(1, 5000)
    for p in (0.25, 1.0, 2.0):
        assert slope(k, 3.0 * k**-p, 2) == pytest.approx(-p, abs=1e-9)
    assert slope([10, 100, 1000], [1e-1, 1e-2, 1e-3], 2) == pytest.approx(-1)


def test_slope_goes_through_the_peaks_of_an_oscillation():
    k = np.arange(1, 20_000)
    assert slope(k, np.abs(np.sin(0.1 * k)) / k, 2) == pytest.approx(-1, abs=0.02)


def test_slope_of_a_run_that_has_converged_is_steep_and_never_flat():
    k = np.arange(1, 1001)
    assert slope(k, np.zeros(1000), 2) == -math.inf
    assert slope(k, np.full(1000, 1e-17), 2, 1e-16) == -math.inf
    assert slope(k, -np.ones(1000), 2) == -math.inf
    stopped = np.where(k < 100, 1.0 / k, 1e-17)
    assert slope(k, stopped, 2, 1e-16) < -1.0
    early = np.where(k < 12, 1.0, 0.0)
    assert slope(k, early, 2) == -math.inf


def test_slope_of_a_run_that_stalls_is_flat():
    k = np.arange(1, 1001)
    assert slope(k, np.ones(1000), 2) == pytest.approx(0.0, abs=1e-9)
    assert slope(k, np.where(k < 500, 0.0, 1.0), 2) > 0.0


def test_slope_looks_at_the_last_decades_alone():
    k = np.arange(1, 10_001)
    convexity_violations = np.where(k < 100, 1.0, 100.0 / k)
    assert slope(k, convexity_violations, 2) == pytest.approx(-1.0, abs=0.01)
    assert slope(k, convexity_violations, 4) > -0.9


def test_slope_is_nan_for_what_is_no_measurement():
    assert math.isnan(slope([100, 200], [1.0, 0.5], 2))
    assert math.isnan(slope([1, 10, 100], [1.0, math.nan, 0.1], 2))
    with pytest.raises(ValueError, match=r"^slope: "):
        slope([0, 1], [1.0, 1.0], 2)
    with pytest.raises(ValueError, match=r"^slope: "):
        slope([1, 2, 3], [1.0, 1.0], 2)


# --- certificates --------------------------------------------------------------------------------


def words(p: Planted) -> dict[str, object]:
    """What the user may promise about this problem, truly: a radius for every other seed."""
    return {"radius": 1.01 * float(np.linalg.norm(p.x_star)) + p.unit} if p.seed % 2 else {}


@pytest.mark.sample(5)
@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
def test_no_certificate_is_wrong_at_any_recorded_step(count, method):
    number = finite = 0
    for p in sample(count, method, 208):
        problem = p.problem(**words(p))
        result = tb.solve(problem, runnable(method, p), x0=p.x0, rtol=0, max_iter=60)
        proof, f_x, g_x = result.certificate, p.f(result.x), p.g(result.x)
        of_f = 8 * EPS * (p.f_scale + abs(proof.upper_value))
        of_g = 8 * EPS * (p.g_scale + abs(proof.lower_value))
        assert proof.upper_gap >= f_x - p.f_star - of_f, p.kind
        assert proof.lower_gap >= g_x - p.g_star - of_g, p.kind
        assert proof.upper_error >= abs(f_x - p.f_star) - of_f, p.kind
        assert proof.upper_optimum[0] - of_f <= p.f_star <= proof.upper_optimum[1] + of_f, p.kind
        assert proof.lower_optimum[0] - of_g <= p.g_star <= proof.lower_optimum[1] + of_g, p.kind
        for row in result.trace:
            of_f = 8 * EPS * (p.f_scale + abs(row.upper_value))
            of_g = 8 * EPS * (p.g_scale + abs(row.lower_value))
            assert row.upper_gap >= row.upper_value - p.f_star - of_f, p.kind
            assert row.lower_gap >= row.lower_value - p.g_star - of_g, p.kind
        finite += math.isfinite(result.upper_gap)
        number += 1
    print(f"\n{number} planted problems, none wrong, {finite} with a finite upper gap")
    assert finite >= number // 3


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("method", "reach"),
    [(AIRG(), 2e-1), (BiSG(), 1e-2), (SEA(), 3e-2), (RAPM(), 1e-3), (PBAPG(), 1e-2)],
    ids=NAMES[:-1],
)
def test_the_certificate_follows_the_method(method, reach):
    """On a bounded domain both proved gaps become small, as the true errors do."""
    instance = conflict()
    result = tb.solve(instance.problem, method, max_iter=3000, rtol=0)
    assert result.upper_gap <= result.upper_value - instance.upper + reach
    assert result.lower_gap <= result.lower_value + reach


@pytest.mark.sample(4)
@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
def test_a_run_in_single_precision_proves_nothing_wrong(method):
    rng = np.random.default_rng(5)
    A = rng.integers(-2, 3, (3, 8)).astype(np.float32)
    problem = tb.Problem(
        upper=tb.SquaredNorm(),
        lower=tb.LeastSquares(A, A @ np.ones(8, np.float32) / 8),
        domain=tb.Ball(3.0),
    )
    A64 = A.astype(np.float64)
    star = np.linalg.pinv(A64) @ (A64 @ np.ones(8) / 8)
    result = tb.solve(problem, method, max_iter=500, rtol=0)
    assert result.x.dtype == np.float32
    x = result.x.astype(np.float64)
    assert result.upper_gap >= 0.5 * float(x @ x) - 0.5 * float(star @ star)
    assert result.lower_gap >= 0.5 * float(np.sum((A64 @ (x - star)) ** 2))


# --- parameters ----------------------------------------------------------------------------------


def scaled(f_unit: float, g_unit: float, x_unit: float) -> tuple[tb.Problem, Vector]:
    """One problem in other units: f and g multiplied, x measured in units of x_unit."""
    rng = np.random.default_rng(6)
    A, b = rng.standard_normal((3, 6)), rng.standard_normal(3)
    C, d = rng.standard_normal((9, 6)), rng.standard_normal(9)
    problem = tb.Problem(
        upper=f_unit * tb.LeastSquares(C / x_unit, d),
        lower=g_unit * tb.LeastSquares(A / x_unit, b),
        domain=tb.Ball(2.0 * x_unit),
        error_bound=tb.ErrorBound(2, 0.5 * g_unit / x_unit**2, 3.0 * f_unit / x_unit),
    )
    return problem, x_unit * np.full(6, 0.25)


@pytest.mark.parametrize(
    "method",
    [AIRG(), BiSG(), SEA(), PBAPG(), PBAPG(adaptive=True)],
    ids=lambda m: f"{m.name} {getattr(m, 'adaptive', '')}",
)
def test_the_default_parameters_know_no_units(method):
    reference = [s.x for s in states(method, *scaled(1.0, 1.0, 1.0), 60)]
    for units in ((2.0**20, 1.0, 1.0), (1.0, 2.0**-30, 1.0), (1.0, 1.0, 2.0**12)):
        run = [s.x / units[2] for s in states(method, *scaled(*units), 60)]
        np.testing.assert_allclose(run, reference, rtol=1e-9, atol=1e-9)


def test_the_default_parameters_are_those_of_the_docstrings():
    problem, x0 = scaled(1.0, 1.0, 1.0)
    L_f, L_g = problem.upper.lipschitz, problem.lower.lipschitz
    a = AIRG().init(problem, x0).memory
    assert a.eta_0 == pytest.approx(L_g / (math.sqrt(8) * L_f))
    assert a.gamma_0 == pytest.approx(1 / (L_g + a.eta_0 * L_f))
    b = BiSG().init(problem, x0).memory
    assert (b.step_size, b.c) == pytest.approx((1 / L_g, 1 / L_f))
    s = SEA().planned(400).init(problem, x0).memory
    steepness = np.linalg.norm(problem.upper.gradient(x0)) + L_f * 4.0
    assert (s.lower_step, s.upper_step) == pytest.approx((1 / L_g, 4.0 / (steepness * 20)))
    r = RAPM().planned(99).init(problem, x0).memory
    assert (r.upper_weight, r.step_size) == pytest.approx((0.01, 1 / (L_g + 0.01 * L_f)))
    q = PBAPG(penalty=7.0).init(problem, x0).memory
    assert (q.lower_weight, q.step_size) == pytest.approx((7.0, 1 / (L_f + 7.0 * L_g)))


def test_explicit_parameters_are_taken_as_they_are():
    problem, x0 = scaled(1.0, 1.0, 1.0)
    a = AIRG(gamma_0=1e-3, eta_0=1e-2).init(problem, x0).memory
    assert (a.gamma_0, a.eta_0) == (1e-3, 1e-2)
    b = BiSG(c=1e-2, step_size=1e-4).init(problem, x0).memory
    assert (b.c, b.step_size) == (1e-2, 1e-4)
    s = SEA(upper_step=1e-4, lower_step=1e-3).init(problem, x0).memory
    assert (s.upper_step, s.lower_step) == (1e-4, 1e-3)
    r = RAPM(eta=1.25e-5, step_size=1e-4).init(problem, x0).memory
    assert (r.upper_weight, r.step_size) == (1.25e-5, 1e-4)
    assert PBAPG(penalty=1e4).init(problem, x0).memory.lower_weight == 1e4


def test_r_apm_takes_the_eta_of_weak_sharpness_where_it_is_known():
    instance = sharp()
    bound = instance.problem.error_bound
    state = RAPM().planned(10).init(instance.problem, instance.problem.start())
    assert state.memory.upper_weight == bound.modulus / (2 * bound.gradient_bound)
    assert "weak sharpness" in RAPM().describe(instance.problem)
    flat = tb.Problem(
        upper=tb.SquaredNorm(),
        lower=instance.problem.lower,
        domain=tb.Simplex(),
        error_bound=tb.ErrorBound(1, 1.0, 0.0),
    )
    assert RAPM().planned(9).init(flat, np.full(10, 0.1)).memory.upper_weight == 0.1


def test_planned_fills_in_the_horizon_and_only_where_it_is_open():
    for method in (SEA, RAPM, PBAPG):
        assert method().planned(70).horizon == 70
        assert method().planned(0).horizon == 1
        assert method(horizon=5).planned(70).horizon == 5


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 4.0])
def test_the_penalty_makes_up_for_what_f_can_gain(order):
    """C t^(1/r) <= gamma* t + eps for all t >= 0, with equality somewhere; gamma = 2 gamma*."""
    for modulus, slope_bound, eps in ((1.0, 1.0, 0.1), (0.3, 7.0, 1e-3), (1e3, 1e-2, 1e-6)):
        bound = tb.ErrorBound(order, modulus, slope_bound)
        half = penalty_for(bound, eps) / 2
        t = eps / half * np.geomspace(1e-6, 1e6, 4001)
        gain = [
            -upper_floor(s, order=order, modulus=modulus, gradient_bound=slope_bound) for s in t
        ]
        excess = np.array(gain) - half * t
        assert np.all(excess <= eps + 1e-12 * half * t)
        if order > 1.0:
            assert excess.max() >= 0.99 * eps
        else:
            assert half == pytest.approx(slope_bound / modulus)
        for steps, reach in ((10, 1.0), (1000, 50.0)):
            found = accuracy_after(bound, steps, reach)
            fista = 2 * penalty_for(bound, found) * reach / (steps + 1) ** 2
            assert order == 1.0 or found == pytest.approx(fista, rel=1e-9)


def test_the_penalty_stays_finite_at_any_size():
    for modulus, slope_bound, eps in ((1e-300, 1e300, 1e-300), (1e300, 1e-300, 1e300)):
        assert math.isfinite(penalty_for(tb.ErrorBound(4, modulus, slope_bound), eps))


def test_an_accuracy_gives_its_penalty():
    instance = quartic()
    state = PBAPG(accuracy=1e-2).init(instance.problem, instance.problem.start())
    assert state.memory.lower_weight == penalty_for(instance.problem.error_bound, 1e-2)
    run = list(states(PBAPG(accuracy=1e-2), instance.problem, instance.problem.start(), 3000))
    assert -3e-2 <= run[-1].upper_value - instance.upper <= 1e-2
    assert run[-1].lower_value <= 4 * 1e-2 / state.memory.lower_weight


# --- what every method must do -------------------------------------------------------------------


@pytest.mark.sample(18)
@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
@pytest.mark.parametrize("domain", [tb.Ball(2.0), tb.Simplex(3.0), tb.Box(-1.0, 2.0)])
def test_linear_levels_are_no_division_by_zero(method, domain):
    check_units(method, domain)


@pytest.mark.sample(6)
@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
def test_one_variable_one_point_and_a_start_that_is_optimal(method):
    check_small(method)


@pytest.mark.sample(6)
@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_library_and_dtype_are_kept_and_nothing_given_is_changed(method, dtype, library):
    xp = np if library == "numpy" else xps
    rng = np.random.default_rng(7)
    given = [rng.standard_normal(s) for s in ((8, 5), (8,), (3, 5), (3,), (5,))]
    A, b, C, d, x0 = (xp.asarray(v.tolist(), dtype=getattr(xp, dtype)) for v in given)
    kept = [np.array(np.asarray(v), copy=True) for v in (A, b, C, d, x0)]
    problem = tb.Problem(
        upper=tb.LeastSquares(A, b), lower=tb.LeastSquares(C, d), domain=tb.Ball(0.7)
    )
    result = tb.solve(problem, method, x0=x0, max_iter=5, rtol=0)
    *_, last = states(method, problem, x0, 70)  # beyond one refresh of the images
    for x in (result.x, last.x):
        assert type(x) is type(x0)
        assert x.dtype == x0.dtype
    for before, after in zip(kept, (A, b, C, d, x0), strict=True):
        np.testing.assert_array_equal(before, np.asarray(after))
    plain = tb.Problem(
        upper=tb.LeastSquares(*given[:2]), lower=tb.LeastSquares(*given[2:4]), domain=tb.Ball(0.7)
    )
    *_, reference = states(method, plain, given[4], 70)
    tolerance = 1e-3 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(np.asarray(last.x), reference.x, atol=tolerance)


@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
def test_numpy_numbers_as_parameters_do_not_change_the_dtype(method):
    numbers = {
        AIRG: {"gamma_0": np.float64(0.1), "eta_0": np.float64(0.1), "b": np.float64(0.2)},
        BiSG: {"c": np.float64(0.1), "alpha": np.float64(0.7), "step_size": np.float64(0.1)},
        SEA: {"upper_step": np.float64(0.1), "lower_step": np.float64(0.1)},
        RAPM: {"eta": np.float64(0.1), "step_size": np.float64(0.1)},
        PBAPG: {"penalty": np.float64(10.0)},
    }[type(method)]
    A = np.ones((1, 3), np.float32)
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, A[0, :1]), domain=tb.Ball()
    )
    assert tb.solve(problem, type(method)(**numbers), max_iter=3).x.dtype == np.float32


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
def test_a_run_goes_on_from_its_checkpoint_bit_for_bit(tmp_path, method):
    p = planted(4 * 8 + 1)
    problem, path = p.problem(), tmp_path / "run.npz"
    if hasattr(method, "planned"):
        method = method.planned(100)
    tb.solve(problem, method, x0=p.x0, rtol=0, max_iter=33, checkpoint=path)
    continued = tb.solve(problem, method, x0=p.x0, rtol=0, max_iter=100, checkpoint=path)
    whole = tb.solve(problem, method, x0=p.x0, rtol=0, max_iter=100)
    np.testing.assert_array_equal(continued.x, whole.x)
    assert (continued.upper_gap, continued.lower_gap) == (whole.upper_gap, whole.lower_gap)


@pytest.mark.parametrize("method", [SEA(), RAPM(), PBAPG()], ids=lambda m: m.name)
def test_a_longer_second_half_keeps_the_step_sizes_that_were_planned(tmp_path, method):
    problem, x0 = scaled(1.0, 1.0, 1.0)
    path = tmp_path / "run.npz"
    tb.solve(problem, method, x0=x0, rtol=0, max_iter=20, checkpoint=path)
    continued = tb.solve(problem, method, x0=x0, rtol=0, max_iter=50, checkpoint=path)
    whole = tb.solve(problem, method.planned(20), x0=x0, rtol=0, max_iter=50)
    np.testing.assert_array_equal(continued.x, whole.x)


@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
def test_one_gradient_of_each_level_and_few_passes_per_step(method):
    problem, x0 = scaled(1.0, 1.0, 1.0)
    rows = [
        tb.solve(problem, method.planned(900) if hasattr(method, "planned") else method,
                 x0=x0, rtol=0, max_iter=steps).trace[-1]
        for steps in (20, 30)
    ]  # fmt: skip
    assert rows[1].upper_gradients - rows[0].upper_gradients == 10
    assert rows[1].lower_gradients - rows[0].lower_gradients == 10
    # f in Gram form: one product; g: one forward (two where a step leaves Z) and one adjoint.
    assert rows[1].passes - rows[0].passes == 10 * (4 if isinstance(method, BiSG | SEA) else 3)


@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
def test_every_method_says_what_it_is(method):
    for words in (method.paper, method.assumptions, method.guarantee):
        assert words
        assert words == words.strip()
    assert method.describe(conflict().problem).startswith(NAMES[RIVALS.index(method)][-6:].strip())


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: AIRG(gamma_0=0), "AIRG: gamma_0 must be a positive finite number, got 0"),
        (lambda: AIRG(eta_0=-1.0), "AIRG: eta_0 must be a positive finite number, got -1.0"),
        (lambda: AIRG(b=0.5), "AIRG: b must be a number in (0, 1/2), got 0.5"),
        (lambda: AIRG(r=1), "AIRG: r must be a number in [0, 1), got 1"),
        (lambda: AIRG(b="x"), "AIRG: b must be a number in (0, 1/2), got str"),
        (lambda: BiSG(alpha=0.5), "BiSG: alpha must be a number in (1/2, 1), got 0.5"),
        (lambda: BiSG(alpha=math.nan), "BiSG: alpha must be a number in (1/2, 1), got nan"),
        (lambda: BiSG(c=math.inf), "BiSG: c must be a positive finite number, got inf"),
        (lambda: BiSG(step_size=0), "BiSG: step_size must be a positive finite number, got 0"),
        (lambda: SEA(upper_step=-1), "SEA: upper_step must be a positive finite number, got -1"),
        (lambda: SEA(lower_step="a"), "SEA: lower_step must be a positive finite number, got str"),
        (lambda: SEA(horizon=0), "SEA: horizon must be a whole number >= 1, got 0"),
        (lambda: RAPM(eta=0), "RAPM: eta must be a positive finite number, got 0"),
        (lambda: RAPM(step_size=-2), "RAPM: step_size must be a positive finite number, got -2"),
        (lambda: RAPM(horizon=1.5), "RAPM: horizon must be a whole number >= 1, got float"),
        (lambda: PBAPG(penalty=0), "PBAPG: penalty must be a positive finite number, got 0"),
        (lambda: PBAPG(accuracy=0), "PBAPG: accuracy must be a positive finite number, got 0"),
        (lambda: PBAPG(adaptive=1), "PBAPG: adaptive must be True or False, got 1"),
        (lambda: PBAPG(horizon=-1), "PBAPG: horizon must be a whole number >= 1, got -1"),
    ],
)
def test_a_wrong_parameter_gets_one_sentence(make, sentence):
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert str(caught.value) == sentence


ROUGH = tb.Smooth(lambda x: float(x @ x) / 2, lambda x: x)
FINE = tb.SquaredNorm()
NONE = "must have a known Lipschitz constant, got none; give Smooth(..., lipschitz=...)"


@pytest.mark.parametrize(
    ("method", "upper", "lower", "domain", "sentence"),
    [
        (AIRG(), ROUGH, FINE, tb.Ball(), f"AIRG: upper {NONE} or AIRG(gamma_0=..., eta_0=...)"),
        (AIRG(gamma_0=1.0), FINE, ROUGH, tb.Ball(),
         f"AIRG: lower {NONE} or AIRG(gamma_0=..., eta_0=...)"),
        (BiSG(), ROUGH, FINE, tb.Space(), f"BiSG: upper {NONE} or BiSG(c=...)"),
        (BiSG(), FINE, ROUGH, tb.Space(), f"BiSG: lower {NONE} or BiSG(step_size=...)"),
        (BiSG(step_size=3.0), FINE, FINE, tb.Ball(),
         "BiSG: step_size must be at most 1/L = 1 (steps of twice this size diverge), got 3"),
        (SEA(lower_step=3.0), FINE, FINE, tb.Ball(),
         "SEA: lower_step must be at most 1/L = 1 (steps of twice this size diverge), got 3"),
        (RAPM(eta=1.0, step_size=3.0), FINE, FINE, tb.Ball(),
         "RAPM: step_size must be at most 1/L = 0.5 (steps of twice this size diverge), got 3"),
        (SEA(), FINE, FINE, tb.Orthant(),
         "SEA: domain must be bounded, got Orthant; or give SEA(upper_step=...)"),
        (SEA(), ROUGH, FINE, tb.Ball(), f"SEA: upper {NONE} or SEA(upper_step=...)"),
        (SEA(), FINE, ROUGH, tb.Ball(), f"SEA: lower {NONE} or SEA(lower_step=...)"),
        (RAPM(), ROUGH, FINE, tb.Ball(), f"RAPM: upper {NONE} or RAPM(step_size=...)"),
        (RAPM(), FINE, ROUGH, tb.Ball(), f"RAPM: lower {NONE} or RAPM(step_size=...)"),
        (PBAPG(), FINE, FINE, tb.Space(),
         "PBAPG: domain must be bounded, got Space; or give PBAPG(penalty=...)"),
        (PBAPG(), ROUGH, FINE, tb.Ball(), f"PBAPG: upper {NONE}"),
        (PBAPG(penalty=1.0), FINE, ROUGH, tb.Ball(), f"PBAPG: lower {NONE}"),
        (PBAPG(accuracy=0.1), FINE, FINE, tb.Ball(),
         "PBAPG: accuracy needs a problem with an error bound, got none; "
         "give Problem(error_bound=...) or PBAPG(penalty=...)"),
    ],
)  # fmt: skip
def test_a_problem_outside_the_assumptions_gets_one_sentence(
    method, upper, lower, domain, sentence
):
    problem = tb.Problem(upper=upper, lower=lower, domain=domain)
    with pytest.raises(ValueError, match=r"^[A-Za-z]+: ") as caught:
        tb.solve(problem, method, x0=np.ones(2))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "method",
    [
        AIRG(gamma_0=0.1, eta_0=0.1),
        BiSG(c=0.1, step_size=0.1),
        SEA(upper_step=0.1, lower_step=0.1),
        RAPM(step_size=0.1),
    ],
    ids=lambda m: m.name,
)
def test_step_sizes_of_your_own_need_no_lipschitz_constants(method):
    problem = tb.Problem(upper=ROUGH, lower=tb.Smooth(ROUGH.value, ROUGH.gradient))
    result = tb.solve(problem, method, x0=np.ones(2), max_iter=200)
    assert result.lower_value < 0.1
