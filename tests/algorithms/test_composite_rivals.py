"""R-APM, PB-APG, Bi-SG on composite problems: recursions, inequalities, rates, units, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import array_api_strict as xps
import numpy as np
import pytest
from helpers.rivals import (
    Instance,
    errors_across,
    errors_along,
    measured_rate,
    planted_pair,
    states,
)

import tiebreak as tb
from tiebreak.algorithms.rivals.bi_sg import BiSG
from tiebreak.algorithms.rivals.pb_apg import FIRST_PHASE, PBAPG
from tiebreak.algorithms.rivals.r_apm import RAPM

EPS = float(np.finfo(np.float64).eps)
RIVALS = [BiSG(), RAPM(), PBAPG(penalty=20.0), PBAPG(penalty=20.0, adaptive=True)]
NAMES = ["Bi-SG", "R-APM", "PB-APG", "adaptive PB-APG"]
LABELS = [0, 0, 1, -1, 2, 2]
N = len(LABELS)


# --- penalties in plain NumPy ---------------------------------------------------------------------


def prox_of(v: Any, l1: float, group: float, l2: float, square: float, Z: Any) -> Any:
    """Soft threshold, divide, clip to the box, shrink groups, shrink all, scale to the ball."""
    v = np.sign(v) * np.maximum(np.abs(v) - l1, 0.0) / (1.0 + square)
    if isinstance(Z, tb.Box):
        v = np.clip(v, Z.lower, Z.upper)
    for j in range(3):
        mine = np.array(LABELS) == j
        length = np.linalg.norm(v[mine])
        v = np.where(
            mine, v * (max(1.0 - group / (1.0 + square) / length, 0.0) if length else 0), v
        )
    length = np.linalg.norm(v)
    v = v * (max(1.0 - l2 / (1.0 + square) / length, 0.0) if length else 0.0)
    length = np.linalg.norm(v)
    return v * (Z.radius / length) if isinstance(Z, tb.Ball) and length > Z.radius else v


PENALTIES = {
    "none": (tb.Zero(), (0.0, 0.0, 0.0, 0.0)),
    "L1": (tb.L1(0.3), (0.3, 0.0, 0.0, 0.0)),
    "L2": (tb.L2(0.4), (0.0, 0.0, 0.4, 0.0)),
    "ElasticNet": (tb.ElasticNet(0.2, 0.5), (0.2, 0.0, 0.0, 0.5)),
    "GroupL2": (tb.GroupL2(LABELS, 0.3), (0.0, 0.3, 0.0, 0.0)),
}
DOMAINS = [tb.Space(), tb.Ball(1.5), tb.Orthant(), tb.Box(-0.6, 0.9)]


def pairs() -> list[tuple[str, str, Any]]:
    """All pairs of penalties with the domains that they have a joint prox with."""
    found = []
    for upper, lower, Z in itertools.product(PENALTIES, PENALTIES, DOMAINS):
        has_length = any(PENALTIES[name][1][1:3] != (0.0, 0.0) for name in (upper, lower))
        if upper == lower == "none" or (has_length and type(Z) is tb.Box):
            continue
        found.append((upper, lower, Z))
    return found


def composite(
    upper: str, lower: str, Z: Any, seed: int = 0, f_kind: int = 0, **words: Any
) -> tuple[Any, Any, Any, Any]:
    """A problem with random smooth parts, their gradients, and the start."""
    rng = np.random.default_rng([seed, 11])
    A, b, C, d = (rng.standard_normal(shape) for shape in ((4, N), 4, (7, N), 7))
    f1 = (tb.LeastSquares(C, d), tb.Linear(d[:N]), None)[f_kind]
    f2, g2 = PENALTIES[upper][0], PENALTIES[lower][0]
    problem = tb.Problem(
        upper=f2 if f1 is None else f1 + f2, lower=tb.LeastSquares(A, b) + g2, domain=Z, **words
    )
    grad_f = (lambda x: C.T @ (C @ x - d), lambda x: d[:N], lambda x: 0.0 * x)[f_kind]
    return problem, grad_f, lambda x: A.T @ (A @ x - b), Z.project(rng.standard_normal(N))


def weighted(a: float, upper: str, b: float, lower: str) -> list[float]:
    return [a * p + b * q for p, q in zip(PENALTIES[upper][1], PENALTIES[lower][1], strict=True)]


# --- the recursions -------------------------------------------------------------------------------


def plain(method: Any, first: Any, case: Any, problem: Any, grads: Any, x: Any, steps: int) -> Any:
    upper, lower, Z = case
    grad_f, grad_g = grads
    points = [x]
    if isinstance(method, BiSG):
        t = first.memory.step_size
        for k in range(steps):
            x = prox_of(x - t * grad_g(x), *weighted(0.0, upper, t, lower), Z)
            points.append(x)
            eta = first.memory.c / (k + 1) ** 0.75
            x = prox_of(x - eta * grad_f(x), *weighted(eta, upper, 0.0, lower), tb.Space())
        return points
    y, t, ends = x, 1.0, [FIRST_PHASE * (2**j - 1) for j in range(1, 9)]
    for k in range(steps):
        w_f, w_g, step = (
            first.memory.upper_weight,
            first.memory.lower_weight,
            first.memory.step_size,
        )
        if getattr(method, "adaptive", False):
            w_g *= 2 ** sum(end <= k for end in ends)
            step = 1.0 / (problem.upper.lipschitz + w_g * problem.lower.lipschitz)
        v = y - step * (w_f * grad_f(y) + w_g * grad_g(y))
        x_new = prox_of(v, *weighted(step * w_f, upper, step * w_g, lower), Z)
        t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y, t, x = x_new + (t - 1) / t_new * (x_new - x), t_new, x_new
        if getattr(method, "adaptive", False) and k + 1 in ends:
            y, t = x, 1.0
        points.append(x)
    return points


@pytest.mark.sample(4)
@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
def test_the_recursion_is_that_of_a_few_lines_of_numpy(count, method):
    worst, cases = 0.0, pairs()
    for i, case in enumerate(cases[:: count(9, 1)]):
        problem, *grads, x0 = composite(*case, seed=i, f_kind=i % 3)
        assert method.check(problem) is None
        run = list(states(method, problem, x0, 40))
        expected = plain(method, run[0], case, problem, grads, x0, 40)
        size = max(float(np.abs(x).max()) for x in expected) + 1.0
        for state, x in zip(run, expected, strict=True):
            worst = max(worst, float(np.abs(state.x - x).max()) / size)
            for value, h in (
                (state.upper_value, problem.upper),
                (state.lower_value, problem.lower),
            ):
                assert value == pytest.approx(h.value(state.x), rel=1e-12, abs=1e-12)
            assert problem.domain.contains(state.x, 1e-12)
    print(f"\n{method.name}: {len(cases)} pairs, worst distance to the plain recursion {worst:.1e}")
    assert worst <= 1e-12


def test_r_apm_with_eta_and_pb_apg_with_its_inverse_give_the_same_iterates(count):
    worst = 0.0
    for i, case in enumerate(pairs()[:: count(9, 1)]):
        problem, *_, x0 = composite(*case, seed=i, f_kind=i % 3)
        for eta in (1.0, 0.37, 1e-3):
            runs = (states(m, problem, x0, 60) for m in (RAPM(eta=eta), PBAPG(penalty=1.0 / eta)))
            for a, b in zip(*runs, strict=True):
                size = float(np.abs(a.x).max()) + 1.0
                worst = max(worst, float(np.abs(a.x - b.x).max()) / size)
    print(f"\nR-APM and PB-APG on composites: iterates differ by at most {worst:.1e}")
    assert worst <= 1e-12


# --- the inequalities behind the theorems ---------------------------------------------------------


def subgradient(weights: tuple[float, ...], x: Any) -> Any:
    """One of the penalty's at x."""
    l1, group, l2, square = weights
    v = l1 * np.sign(x) + square * x
    for mine in [np.array(LABELS) == j for j in range(3)]:
        length = np.linalg.norm(x[mine])
        v = v + np.where(mine, group * x / length if length else 0.0, 0.0)
    length = np.linalg.norm(x)
    return v + l2 * x / length if length else v


def test_the_inequality_of_the_alternating_steps(count):
    """2 s (f(x) - l_f(u) - f2(u)) + 2 t (g(x+) - l_g(u) - g2(u))
    <= |x - u|² - |x+ - u|² + s² |grad f1(x) + v|², v a subgradient of f2 at x."""
    rng = np.random.default_rng(3)
    for i, case in enumerate(pairs()[:: count(3, 1)]):
        problem, *_, x0 = composite(*case, seed=i, f_kind=i % 3)
        f2, g2 = problem.penalties
        run = list(states(BiSG(), problem, x0, 20))
        t = run[0].memory.step_size
        for before, after in itertools.pairwise(run):
            a, b, s = (
                before.memory.alternation,
                after.memory.alternation,
                before.memory.alternation.upper_step,
            )
            f_x, g_out, x, x1 = a.f_x, a.g_out, a.x.x, b.x.x
            steep = f_x.slope + subgradient(PENALTIES[case[0]][1], x)
            for u in (case[2].project(3.0 * rng.standard_normal(N)) for _ in range(3)):
                l_f = f_x.value + f_x.slope @ (u - x) + f2.value(u)
                l_g = g_out.value + g_out.slope @ (u - g_out.at) + g2.value(u)
                left = 2 * s * (a.upper_value - l_f) + 2 * t * (b.g_x - l_g)
                right = np.sum((x - u) ** 2) - np.sum((x1 - u) ** 2) + s**2 * np.sum(steep**2)
                assert left <= right + 1e-12 * (1.0 + abs(right) + abs(left)), case


@pytest.mark.parametrize("method", [RAPM(eta=0.1), PBAPG(penalty=10.0)], ids=["R-APM", "PB-APG"])
def test_the_inequality_of_fista_with_the_weights_of_the_certificate(count, method):
    """h(x_{k+1}) - sum t_i (l_i + h2)(u)/t_k² <= |u - x_0|²/(2 s t_k²) for all u in Z."""
    rng = np.random.default_rng(4)
    w_f, w_g = (0.1, 1.0) if isinstance(method, RAPM) else (1.0, 10.0)
    for i, case in enumerate(pairs()[:: count(3, 1)]):
        problem, *_, x0 = composite(*case, seed=i, f_kind=i % 3)
        f2, g2 = problem.penalties
        u = case[2].project(2.0 * rng.standard_normal(N))
        h2 = w_f * f2.value(u) + w_g * g2.value(u)
        run, total, sums = list(states(method, problem, x0, 40)), 0.0, 0.0
        for before, after in itertools.pairwise(run):
            t, f_y, g_y = before.memory.run.t, before.memory.run.f_y, before.memory.run.g_y
            total += t
            l_f = f_y.value + f_y.slope @ (u - f_y.at)
            l_g = g_y.value + g_y.slope @ (u - g_y.at)
            sums += t * (w_f * l_f + w_g * l_g + h2)
            h = w_f * after.upper_value + w_g * after.lower_value
            bound = np.sum((u - run[0].x) ** 2) / (2 * before.memory.step_size * t * t)
            assert h - sums / total <= bound + 1e-12 * (abs(h) + abs(sums / total) + bound), case


# --- the rates ------------------------------------------------------------------------------------


def sparse_conflict() -> Instance:
    """Order 2: L1 and a quadratic above, least squares below; f pulls away from all minimisers."""
    rows, others, star = planted_pair(np.random.default_rng(1), 8, 3)
    star = np.where(np.arange(8) % 2 == 0, star, 0.0)
    pull = rows.T @ (rows @ star)
    pull *= 0.3 / np.linalg.norm(pull)
    A, Q = np.linspace(0.6, 1.0, 3)[:, None] * rows, others.T @ others
    s = np.where(star == 0.0, 0.5, np.sign(star))  # a subgradient of |.|_1 at x*
    upper = tb.Quadratic(Q, pull - 0.1 * s - Q @ star) + tb.L1(0.1)
    problem = tb.Problem(
        upper=upper,
        lower=tb.LeastSquares(A, A @ star),
        domain=tb.Ball(),
        error_bound=tb.ErrorBound(2, 0.36, 0.3),
    )
    return Instance(problem, upper.value(star), 0.0, 2.0)


def sparse_sharp() -> Instance:
    """Order 1: the lower penalty |x_i| of some variables is weakly sharp; f pulls them off 0."""
    rng, n, m = np.random.default_rng(3), 10, 5
    off = np.arange(n) >= m
    groups = np.where(off, np.arange(n) - m, -1)
    star = np.where(off, 0.0, rng.uniform(0.1, 0.3, n) * rng.choice([-1, 1], n))
    V = np.linalg.qr(rng.standard_normal((n, n)))[0]
    roots = np.logspace(-1, 0, n)
    pull = -0.3 * off * rng.uniform(0.5, 1.0, n)  # a subgradient of f at x*
    slope_of_f1 = pull - 0.05 * np.sign(star)
    W = (V * roots) @ V.T
    target = star - (V / roots**2) @ V.T @ slope_of_f1
    upper = tb.LeastSquares(W, W @ target) + tb.L1(0.05)
    problem = tb.Problem(
        upper=upper,
        lower=0.5 * tb.LeastSquares(off[None].astype(float), [0.0]) + tb.GroupL2(groups),
        domain=tb.Ball(3.0),
        error_bound=tb.ErrorBound(1, 1.0, float(np.linalg.norm(pull))),
    )
    return Instance(problem, upper.value(star), 0.0, 1.0)


def lasso() -> Instance:
    """All solutions of a Lasso whose columns come twice; f chooses how each pair is shared."""
    rng, n = np.random.default_rng(5), 6
    B = np.linalg.qr(rng.standard_normal((9, n)))[0]
    A, weight = np.hstack([B, B]), 0.3
    sums = np.array([0.5, -0.4, 0.3, 0.0, 0.0, 0.0])
    dual = np.where(sums == 0.0, rng.uniform(-0.2, 0.2, n), weight * np.sign(sums))
    b = B @ (sums + dual)  # A'(A x - b) = -dual, twice
    share = rng.uniform(0.3, 0.7, n)
    star = np.concatenate([share * sums, (1.0 - share) * sums])
    common = np.where(sums == 0.0, 0.0, rng.uniform(-0.2, 0.2, n))  # the same for both of a pair
    W = np.linalg.qr(rng.standard_normal((2 * n, 2 * n)))[0] * np.logspace(-0.7, 0, 2 * n)[:, None]
    target = star - np.linalg.solve(W.T @ W, np.tile(common, 2))
    upper = tb.LeastSquares(W, W @ target)
    lower = tb.LeastSquares(A, b) + tb.L1(weight)
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(2.0))
    return Instance(problem, upper.value(star), lower.value(star), None)


INSTANCES = {"sparse conflict": sparse_conflict, "sparse sharp": sparse_sharp, "lasso": lasso}
RATES = [
    (BiSG(), "lasso", 1 / 4, 3 / 4, errors_along, 10_000),
    (BiSG(), "sparse conflict", 1 / 4, 3 / 4, errors_along, 10_000),
    (BiSG(), "sparse sharp", 1 / 4, 3 / 4, errors_along, 10_000),
    (RAPM(), "lasso", 1, 1, errors_across, 3000),
    (RAPM(), "sparse conflict", 1, 1, errors_across, 3000),
    (RAPM(), "sparse sharp", 2, 2, errors_across, 3000),
    (PBAPG(), "sparse sharp", 2, 2, errors_across, 3000),
    (PBAPG(), "sparse conflict", 1, 2, errors_across, 30_000),
    (PBAPG(adaptive=True), "sparse sharp", 2, 2, errors_along, 3000),
]


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", [RAPM, BiSG, PBAPG])
def test_the_measured_rate_is_at_least_the_published_one(count, kind):
    cases = [case for case in RATES if type(case[0]) is kind]
    for method, name, *published in cases[: count(1, len(cases))]:
        print(f"\n{method} on {name}: {measured_rate(method, INSTANCES[name](), *published)}")


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("method", [BiSG(), RAPM(), PBAPG(), PBAPG(adaptive=True)], ids=NAMES)
def test_no_certificate_is_wrong_and_on_a_bounded_set_it_follows_the_method(method, name):
    instance = INSTANCES[name]()
    result = tb.solve(instance.problem, method, max_iter=600, rtol=0)
    rows = [(r.upper_value, r.upper_gap, r.lower_value, r.lower_gap) for r in result.trace]
    last = (result.upper_value, result.upper_gap, result.lower_value, result.lower_gap)
    for f, f_gap, g, g_gap in (*rows, last):
        assert f_gap >= f - instance.upper - 1e-13
        assert g_gap >= g - instance.lower - 1e-13
    assert result.upper_gap <= result.upper_value - instance.upper + 0.05
    assert result.lower_gap <= result.lower_value - instance.lower + 0.05


# --- parameters -----------------------------------------------------------------------------------


def in_units(kind: int, f_unit: float, g_unit: float, x_unit: float) -> tuple[Any, Any]:
    """One problem with f multiplied, g multiplied, x measured in other units."""
    rng = np.random.default_rng(6)
    A, b, C, d = (rng.standard_normal(shape) for shape in ((3, 6), 3, (9, 6), 9))
    penalty = tb.L1(f_unit / x_unit)
    upper = (penalty, 1e-3 * f_unit * tb.LeastSquares(C / x_unit, d) + penalty)[kind]
    lower = g_unit * tb.LeastSquares(A / x_unit, b) + tb.L1(0.1 * g_unit / x_unit)
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(2.0 * x_unit))
    return problem, x_unit * np.full(6, 0.25)


@pytest.mark.parametrize("kind", [0, 1], ids=["L1 alone", "L1 and a little least squares"])
@pytest.mark.parametrize("method", [BiSG(), PBAPG(), PBAPG(adaptive=True)], ids=lambda m: str(m))
def test_the_default_parameters_know_no_units(method, kind):
    reference = [s.x for s in states(method, *in_units(kind, 1.0, 1.0, 1.0), 60)]
    for units in ((2.0**20, 1.0, 1.0), (1.0, 2.0**-30, 1.0), (1.0, 1.0, 2.0**12)):
        run = [s.x / units[2] for s in states(method, *in_units(kind, *units), 60)]
        np.testing.assert_allclose(run, reference, rtol=1e-9, atol=1e-9)


def test_a_small_smooth_part_beside_a_penalty_does_not_make_the_steps_long():
    """The penalty's slope over the way of the lower level counts, with a smooth part or without."""
    (alone, x0), (beside, _) = (in_units(kind, 1.0, 1.0, 1.0) for kind in (0, 1))
    L_f, L_g = beside.upper.lipschitz, beside.lower.lipschitz
    way = max(np.linalg.norm(x0), np.linalg.norm(beside.lower.gradient(x0)) / L_g)
    assert BiSG().init(alone, x0).memory.c == pytest.approx(way / math.sqrt(6.0))
    assert BiSG().init(beside, x0).memory.c == pytest.approx(1.0 / (L_f + math.sqrt(6.0) / way))
    gamma = PBAPG().init(beside, x0).memory.lower_weight
    assert gamma == pytest.approx(1e4 * (L_f + math.sqrt(6.0) / way) / L_g)
    assert "1/(L_f + M/D)" in BiSG().describe(beside)


@pytest.mark.parametrize("method", [BiSG(), RAPM(), PBAPG()], ids=lambda m: m.name)
def test_two_bare_penalties_are_no_division_by_zero(method):
    for unit in (1e-100, 1.0, 1e100):
        problem = tb.Problem(upper=tb.L1(unit), lower=tb.L2(1.0 / unit), domain=tb.Ball())
        result = tb.solve(problem, method, x0=[0.5, 0.5], max_iter=20, rtol=0)
        assert np.all(np.isfinite(result.x))
        assert np.abs(result.x).max() <= 0.5


# --- what every method must do --------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_library_and_dtype_are_kept_and_nothing_given_is_changed(method, dtype, library):
    xp = np if library == "numpy" else xps
    rng = np.random.default_rng(7)
    given = [rng.standard_normal(s) for s in ((8, N), (8,), (3, N), (3,), (N,))]
    A, b, C, d, x0 = (xp.asarray(v.tolist(), dtype=getattr(xp, dtype)) for v in given)
    kept = [np.array(np.asarray(v), copy=True) for v in (A, b, C, d, x0)]
    problem = tb.Problem(
        upper=tb.LeastSquares(A, b) + tb.L1(0.2),
        lower=tb.LeastSquares(C, d) + tb.GroupL2(LABELS, 0.1),
        domain=tb.Ball(0.7),
    )
    result = tb.solve(problem, method, x0=x0, max_iter=5, rtol=0)
    assert type(result.x) is type(x0)
    assert result.x.dtype == x0.dtype
    for before, after in zip(kept, (A, b, C, d, x0), strict=True):
        np.testing.assert_array_equal(before, np.asarray(after))


@pytest.mark.sample(5)
@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
def test_a_run_goes_on_from_its_checkpoint_bit_for_bit(tmp_path, method):
    problem, *_, x0 = composite("L1", "GroupL2", tb.Ball(1.5))
    path = tmp_path / "run.npz"
    method = method.planned(60) if hasattr(method, "planned") else method
    tb.solve(problem, method, x0=x0, rtol=0, max_iter=33, checkpoint=path)
    continued = tb.solve(problem, method, x0=x0, rtol=0, max_iter=60, checkpoint=path)
    whole = tb.solve(problem, method, x0=x0, rtol=0, max_iter=60)
    np.testing.assert_array_equal(continued.x, whole.x)
    assert (continued.upper_gap, continued.lower_gap) == (whole.upper_gap, whole.lower_gap)


@pytest.mark.sample(5)
@pytest.mark.parametrize("method", RIVALS, ids=NAMES)
def test_one_gradient_of_each_level_per_step(method):
    problem, *_, x0 = composite("L1", "L1", tb.Ball(1.5))
    rows = [
        tb.solve(problem, method, x0=x0, rtol=0, max_iter=steps).trace[-1] for steps in (20, 30)
    ]
    assert rows[1].upper_gradients - rows[0].upper_gradients == 10
    assert rows[1].lower_gradients - rows[0].lower_gradients == 10


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["agm-bio", "a-irg", "sea", "cg-bio", "bisec-bio"])
def test_methods_for_smooth_problems_refuse_penalties_with_one_sentence(name):
    smooth = tb.LeastSquares(np.eye(2), np.ones(2))
    for level, upper, lower in (
        ("upper", smooth + tb.L1(), smooth), ("upper", tb.L1(), smooth),
        ("lower", smooth, smooth + tb.L2()),
    ):  # fmt: skip
        problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball())
        with pytest.raises(ValueError, match=rf"^\w+: {level} must be smooth, got .*p-agm-bio, "):
            tb.solve(problem, name)


def test_penalties_without_a_joint_prox_get_one_sentence():
    smooth = tb.LeastSquares(np.eye(2), np.ones(2))
    above = tb.Problem(upper=smooth + tb.L1(), lower=smooth, domain=tb.Simplex())
    below = tb.Problem(upper=smooth, lower=smooth + tb.L1(), domain=tb.Simplex())
    for method, problem in (
        (RAPM(), above), (RAPM(), below), (PBAPG(), above), (PBAPG(), below), (BiSG(), below),
    ):  # fmt: skip
        sentence = rf"^{type(method).__name__}: .* joint prox .*, got L1 and Simplex$"
        with pytest.raises(ValueError, match=sentence):
            tb.solve(problem, method)


def test_bi_sg_needs_no_joint_prox_of_the_upper_penalty():
    """|x|_1 is constant on the simplex: there only the smooth part of f matters."""
    smooth, lower = (
        tb.SquaredNorm(center=[1.0, 0.0, 0.0]),
        tb.LeastSquares([[0.0, 1.0, 1.0]], [1.0]),
    )
    problem = tb.Problem(upper=smooth + tb.L1(0.1), lower=lower, domain=tb.Simplex())
    result = tb.solve(problem, BiSG(), max_iter=1000, rtol=0)
    np.testing.assert_allclose(result.x, [0.0, 0.5, 0.5], atol=0.05)
    assert result.upper_gap >= result.upper_value - (0.75 + 0.1) - 1e-12
