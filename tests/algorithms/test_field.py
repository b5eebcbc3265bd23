"""The diagonal family, Tikhonov's path, Level-Newton, AdaBiM, R-VFISTA and FIBA."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import array_api_strict as xps
import numpy as np
import pytest
from helpers.edge_cases import check_small, check_units
from helpers.rivals import EPS, Vector, states
from planted.certified_share import share
from planted.smooth import Planted, planted

import tiebreak as tb
from tiebreak.driver.registry import METHODS

DIAGONAL = ("ire-pg", "sta-bim", "sedm", "bi-pg", "fbi-pg", "bi-fista", "ire-apg")
PATHS = ("tikhonov", "level-newton")
NAMES = (*DIAGONAL, *PATHS, "ada-bim", "r-vfista", "fiba")
FIXTURE = Path(__file__).parents[1] / "data" / "nemirovsky.json"
named = pytest.mark.parametrize("name", NAMES)


def accepted(method: Any, seeds: range, number: int) -> Iterator[tuple[Planted, tb.Problem]]:
    """The first so many planted problems that the method takes."""
    found = 0
    for p in map(planted, seeds):
        problem = p.problem()
        if method.refusal(problem) is None and found < number:
            found += 1
            yield p, problem


# --- the recursions, in a few lines of NumPy -----------------------------------------------------

Project = Callable[[Vector], Vector]

# For each preset m_k, e_k from k and e_{k-1}, s_k from e_k, e_0, L_f and L_g.
TABLE: dict[str, tuple[Any, Any, Any]] = {
    "ire-pg": (
        lambda k: 0.0,
        lambda k, e, u: u * (k + 1) ** -0.5,
        lambda e, e_0, L_f, L_g: 1 / (L_g + e_0 * L_f),
    ),
    "sta-bim": (
        lambda k: 0.0,
        lambda k, e, u: min(max(u / k, 3 * e / 4), e) if k else u,
        lambda e, e_0, L_f, L_g: 0.99 / (e * L_f + L_g),
    ),
    "bi-pg": (
        lambda k: 0.0,
        lambda k, e, u: 10 * u / (k + 10 + 1) ** (1.5 / 2),
        lambda e, e_0, L_f, L_g: 1 / (L_g + e_0 * L_f) if L_f else 1.9 / L_g,
    ),
    "fbi-pg": (
        lambda k: k / (k + 2 + 1),
        lambda k, e, u: u * (k + 2) ** -1.5,
        lambda e, e_0, L_f, L_g: 1 / (L_g + e_0 * L_f),
    ),
    "bi-fista": (
        lambda k: 1 - 4 / (k + 20 + 1),
        lambda k, e, u: 10 * u / (k + 10 + 1) ** 1.5,
        lambda e, e_0, L_f, L_g: 0.95 / (L_g + e_0 * L_f),
    ),
    "ire-apg": (
        lambda k: k / (k + 2 + 1),
        lambda k, e, u: u / (k + 2),
        lambda e, e_0, L_f, L_g: 1 / (L_g + e_0 * L_f),
    ),
}


def plain_diagonal(
    name: str, run: list[Any], p: Planted, project: Project, x: Vector, steps: int
) -> Iterator[Vector]:
    first = run[0]
    momentum, weight, step = TABLE[name]
    (L_f, L_g), old, e = first.memory.smoothness, x, 0.0
    total, z = 0.0, x
    for k in range(steps):
        e = weight(k, e, first.memory.unit)
        e_0 = weight(0, 0.0, first.memory.unit)
        s = step(e, e_0, L_f, L_g)
        y = x + momentum(k) * (x - old)
        old, x = x, project(y - s * (p.grad_g(y) + e * p.grad_f(y)))
        total, z = total + e, (total * z + e * x) / (total + e)
        yield z if name == "ire-pg" else x


def plain_sedm(
    name: str, run: list[Any], p: Planted, project: Project, x: Vector, steps: int
) -> Iterator[Vector]:
    first = run[0]
    (L_f, L_g), u = first.memory.smoothness, first.memory.unit
    for k in range(1, steps + 1):
        e, s = u / k, 2 / L_g
        d = p.grad_g(x) + e * p.grad_f(x)
        while True:
            z = project(x - s * d)
            slack = 64 * EPS * (abs(p.g(x)) + e * abs(p.f(x)))
            falls = p.g(z) + e * p.f(z) <= p.g(x) + e * p.f(x) + 0.5 * (d @ (z - x)) + slack
            if falls or s <= 1 / (L_g + e * L_f):
                break
            s /= 2
        x = z
        yield x


def plain_path(
    name: str, run: list[Any], p: Planted, project: Project, x: Vector, steps: int
) -> Iterator[Vector]:
    first = run[0]
    problem, u, eta = p.problem(), first.memory.unit, 0.1 * first.memory.unit
    L_f, L_g, low = problem.upper.lipschitz, problem.lower.lipschitz, problem.lower.lower_bound
    y, t, size_0, ends = x, 1.0, 0.0, []
    for k in range(steps):
        L = L_g + eta * L_f or 1 / first.memory.step_size * eta / first.memory.eta
        new = project(y - (p.grad_g(y) + eta * p.grad_f(y)) / L)
        size = L * np.linalg.norm(y - new)
        size_0 = size_0 if k else size
        is_end = size <= 0.3 * size_0 * (eta / u) ** 1.5
        t_new = (1 + math.sqrt(1 + 4 * t * t)) / 2
        if is_end or (y - new) @ (new - x) > 0:
            x, y, t = new, new, 1.0
        else:
            x, y, t = new, new + (t - 1) / t_new * (new - x), t_new
        yield x
        if is_end and eta > EPS * u:
            ends.append((eta, p.f(x)))
            factor = 0.25
            if name == "level-newton" and len(ends) > 1 and math.isfinite(low):
                (eta_0, f_0), (_, f_1) = ends[-2:]
                slope = (f_1 - f_0) / math.log(eta / eta_0)
                jump = max(p.g(x) - low, 0.0) / eta / slope if slope < 0 else 0.0
                factor = min(0.25, max(math.exp(jump), 0.25**3))
            eta *= factor


def plain_ada_bim(
    name: str, run: list[Any], p: Planted, project: Project, x: Vector, steps: int
) -> Iterator[Vector]:
    """Each step from our own iterates: its step sizes amplify rounding from step to step."""
    first = run[0]
    u, s, s_old = first.memory.unit, first.memory.step_size, first.memory.step_size
    e = e_old = u
    a, b = p.grad_f(x), p.grad_g(x)
    c = lip = lip_g = 0.0
    for k in range(steps):
        if k:
            new, tau_old = min(max(u / k, 0.75 * e), e), e / e_old
            bounds = [s * e / new * math.sqrt((1 + tau_old * s / s_old) * tau_old)]
            curved = s * lip * (s * c - 1)
            if curved > 0:
                root = max(1 - 4 * (1 - tau_old) * s * lip_g, 0.0)
                bounds.append(s * e / new * math.sqrt(root / curved) / 2)
            s_old, s = s, min(*bounds, first.memory.most) or s / 2
            e_old, e = e, new
        while True:
            z = project(x - s * (e * a + b))
            a_z, b_z = p.grad_f(z), p.grad_g(z)
            dx, dh, dg = z - x, e * (a_z - a) + b_z - b, b_z - b
            still = np.linalg.norm(dx) <= 64 * EPS * np.linalg.norm(z)
            if still or s * (dh @ dx) / (dx @ dx) <= 0.98:
                break
            s /= 2
        moves = not still and dh @ dx > 0
        c, lip, lip_g = (
            ((dh @ dh) / (dh @ dx), (dh @ dx) / (dx @ dx), (dg @ dx) / (dx @ dx))
            if moves
            else (0.0, 0.0, 0.0)
        )
        yield z
        x = run[k + 1].x
        a, b = p.grad_f(x), p.grad_g(x)


def plain_r_vfista(
    name: str, run: list[Any], p: Planted, project: Project, x: Vector, steps: int
) -> Iterator[Vector]:
    first = run[0]
    f, L_g, K = p.problem().upper, p.problem().lower.lipschitz, 1000
    sigma = f.strong_convexity
    eta = L_g / sigma * (2 * math.log(K) / K) ** 2 if L_g else first.memory.upper_weight
    L = L_g + eta * f.lipschitz if L_g else 1 / first.memory.step_size
    q = math.sqrt(eta * sigma / L)
    old = x
    for _ in range(steps):
        y = x + (1 - q) / (1 + q) * (x - old)
        old, x = x, project(y - (p.grad_g(y) + eta * p.grad_f(y)) / L)
        yield x


def plain_fiba(
    name: str, run: list[Any], p: Planted, project: Project, x: Vector, steps: int
) -> Iterator[Vector]:
    first = run[0]
    t, old = 1.0, x
    for k in range(1, steps + 1):
        t_new = (1 + math.sqrt(1 + 4 * t * t)) / 2
        y, t = x + (t - 1) / t_new * (x - old), t_new
        z = y - first.memory.step_size * p.grad_g(y)
        old, x = x, project(z - first.memory.upper_weight / k * p.grad_f(z))
        yield x


PLAIN: dict[str, Any] = {
    **dict.fromkeys(DIAGONAL, plain_diagonal),
    "sedm": plain_sedm,
    **dict.fromkeys(PATHS, plain_path),
    "ada-bim": plain_ada_bim,
    "r-vfista": plain_r_vfista,
    "fiba": plain_fiba,
}


@pytest.mark.sample(2)
@named
def test_the_recursion_is_that_of_a_few_lines_of_numpy(count, name):
    method, worst, where = METHODS[name](), 0.0, ""
    first = NAMES.index(name)
    for p, problem in accepted(method, range(first, 208, count(7, 1)), count(6, 50)):
        x0 = problem.domain.project(p.x0)
        run = list(states(method, problem, p.x0, 50))
        expected = [x0, *PLAIN[name](name, run, p, problem.domain.project, x0, 50)]
        size = max(float(np.abs(x).max()) for x in expected) + p.unit
        for state, x in zip(run, expected, strict=True):
            far = float(np.abs(state.x - x).max()) / size
            worst, where = max((worst, where), (far, f"{p.seed}, {p.kind}"))
            of_f = abs(p.f(x)) + np.linalg.norm(p.grad_f(x)) * size + p.f_scale
            of_g = abs(p.g(x)) + np.linalg.norm(p.grad_g(x)) * size + p.g_scale
            of_f, of_g = of_f + abs(p.f(np.zeros(p.n))), of_g + abs(p.g(np.zeros(p.n)))
            assert state.upper_value == pytest.approx(p.f(state.x), rel=0, abs=1e-11 * of_f)
            assert state.lower_value == pytest.approx(p.g(state.x), rel=0, abs=1e-11 * of_g)
            assert problem.domain.contains(state.x, 1e-12 * size)
    print(f"\n{name}: worst distance to the plain recursion {worst:.1e} ({where})")
    assert worst <= 1e-9


@pytest.mark.parametrize(
    ("key", "method"),
    [
        ("bi_FISTA", tb.BiFISTA(unit=1.0)),
        ("Bi_PG", tb.BiPG(unit=1.0)),
        ("FBi_PG", tb.FBiPG(unit=1.0, offset=3.0, momentum=(4.0, 4.0), step_factor=0.95)),
    ],
)
def test_the_numbers_of_the_public_program(key, method):
    """Of the authors of bi-FISTA, on an instance of theirs: g, |f - f*| and |x - x*|²."""
    M = np.eye(4, 7) - np.eye(4, 7, -1)
    star = np.array([1.0] * 4 + [50.0] * 3)
    lower, upper = tb.LeastSquares(M, np.eye(4)[0]), tb.L1(center=np.full(7, 50.0))
    run = list(states(method, tb.Problem(upper=upper, lower=lower), np.zeros(7), 50))[1:]
    found = {
        "g": [s.lower_value for s in run],
        "abs_f_minus_fstar": [abs(s.upper_value - 4 * 49.0) for s in run],
        "dist2": [float((s.x - star) @ (s.x - star)) for s in run],
    }
    expected = json.loads(FIXTURE.read_text())[key]
    for what, values in found.items():
        np.testing.assert_allclose(values, expected[what], rtol=1e-12, atol=1e-12, err_msg=what)


# --- the bounds that the docstrings state, at every step -----------------------------------------

Excess = Iterator[tuple[str, float, float]]  # a name, an error, and what bounds it


def without_momentum(method: Any, p: Planted, run: list[Any], low: float) -> Excess:
    """The three bounds of `Diagonal` with m = 0, at the average and at the last iterate."""
    (L_f, L_g), e_0 = run[0].memory.smoothness, run[0].memory.weight
    twice_s = 2 / (L_g + e_0 * L_f)
    R2 = float(np.sum((run[0].x - p.x_star) ** 2))
    delta, total, squares = p.f_star - low, 0.0, 0.0
    for k, (before, now) in enumerate(itertools.pairwise(run), start=1):
        total, squares = total + before.memory.weight, squares + before.memory.weight**2
        last = method.points(now).get("the last iterate", now.x)
        if method.average:
            yield "f(z)", p.f(now.x) - p.f_star, R2 / (twice_s * total)
            of_g = (e_0 * R2 / twice_s + delta * squares) / total
            yield "g(z)", p.g(now.x) - p.g_star, of_g
        yield "g(x)", p.g(last) - p.g_star, R2 / (twice_s * k) + delta * total / k


def with_momentum(method: Any, p: Planted, run: list[Any], low: float) -> Excess:
    """The bound of `Diagonal` with momentum, at the last iterate."""
    (L_f, L_g), e_0, t_0 = run[0].memory.smoothness, run[0].memory.weight, run[0].memory.run.t
    s = method.step_factor / (L_g + e_0 * L_f)
    x0, delta, total = run[0].x, p.f_star - low, 0.0
    first = np.sum((x0 - p.x_star) ** 2) / (2 * s)
    first += (t_0**2 - t_0) * (p.g(x0) - p.g_star + e_0 * (p.f(x0) - low))
    for before, now in itertools.pairwise(run):
        t = before.memory.run.t
        total += t * before.memory.weight
        yield "g(x)", p.g(now.x) - p.g_star, (first + delta * total) / t**2


def along_a_path(method: Any, p: Planted, run: list[Any], low: float) -> Excess:
    """f - f* <= B/eta and g - g* <= B + eta (f* - f), where h(x) - h(x*) <= B by the last step."""
    for before, now in itertools.pairwise(run):
        y, s, eta = before.memory.run.y.x, before.memory.step_size, before.memory.eta
        G = (y - now.x) / s
        bound = G @ (y - p.x_star) - 0.5 * s * (G @ G)
        yield "f(x)", p.f(now.x) - p.f_star, bound / eta
        yield "g(x)", p.g(now.x) - p.g_star, bound + eta * (p.f_star - p.f(now.x))


def strongly_convex(method: Any, p: Planted, run: list[Any], low: float) -> Excess:
    """R-VFISTA: linear convergence to the minimum of g + eta f."""
    eta, q, x0 = run[0].memory.upper_weight, 1 / (2 * run[0].memory.run.t - 1), run[0].x
    sigma = p.problem().upper.strong_convexity
    C = p.g(x0) - p.g_star + eta * (p.f(x0) - p.f_star)
    C += 0.5 * eta * sigma * np.sum((x0 - p.x_star) ** 2)
    for k, now in enumerate(run[1:], start=1):
        yield "f(x)", p.f(now.x) - p.f_star, (1 - q) ** k * C / eta
        of_g = (1 - q) ** k * C + eta * (p.f_star - p.f(now.x))
        yield "g(x)", p.g(now.x) - p.g_star, of_g


BOUNDS: list[tuple[Any, Any]] = [
    *((tb.IREPG(power=power), without_momentum) for power in (0.3, 0.5, 0.7)),
    (tb.BiPG(step_factor=1.0), without_momentum),
    *((tb.FBiPG(power=power), with_momentum) for power in (1.2, 1.5, 1.9)),
    (tb.BiFISTA(), with_momentum),
    (tb.IREAPG(), with_momentum),
    (tb.Tikhonov(), along_a_path),
    (tb.LevelNewton(), along_a_path),
    (tb.RVFISTA(horizon=100), strongly_convex),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("method", "bounds"), BOUNDS, ids=lambda v: getattr(v, "name", ""))
def test_the_bounds_hold_at_every_step(count, method, bounds):
    worst, problems = 0.0, 0
    for p, problem in accepted(method, range(0, 1200, count(17, 1)), count(6, 200)):
        run = list(states(method, problem, p.x0, 60))
        # The proofs need f >= f_low at the iterates alone, and this is the largest such number.
        iterates = [s.memory.run.x.x for s in run]
        low = min(p.f_star, *map(p.f, iterates))
        size = max(float(np.linalg.norm(s.x)) for s in run) + np.linalg.norm(p.x_star)
        of_f = p.f_scale + abs(p.f(run[0].x)) + np.linalg.norm(p.grad_f(run[0].x)) * size
        of_g = p.g_scale + abs(p.g(run[0].x)) + np.linalg.norm(p.grad_g(run[0].x)) * size
        last = run[-1].memory
        eta = last.weight if hasattr(last, "weight") else getattr(last, "eta", 1.0)
        rounding = {"f": 1e-12 * (of_f + of_g / eta), "g": 1e-12 * (of_g + of_f)}
        for what, error, bound in bounds(method, p, run, low):
            assert error <= bound + rounding[what[0]], f"{what}, {p.seed}, {p.kind}"
            if bound > 1e3 * rounding[what[0]] and math.isfinite(bound):
                worst = max(worst, error / bound)
        problems += 1
    power = getattr(method, "power", "")
    print(f"\n{method.name} {power}: {problems} problems, error/bound at most {worst:.3f}")


def drawn(seed: int, n: int = 12, rank: int = 5) -> tuple[Vector, Vector, Vector, tb.Problem]:
    """Least squares of low rank, and the nearest point to c above."""
    rng = np.random.default_rng(seed)
    A, c = rng.standard_normal((rank, n)), 2.0 * rng.standard_normal(n)
    b = A @ rng.standard_normal(n)
    problem = tb.Problem(upper=tb.SquaredNorm(center=c), lower=tb.LeastSquares(A, b))
    return A, b, c, problem


@pytest.mark.parametrize("name", PATHS)
def test_a_phase_ends_near_the_minimiser_in_closed_form(count, name):
    """f(x_j) <= f* + delta_j/eta_j, delta_j the error in g + eta_j f, and delta_j = o(eta_j)."""
    for seed in range(count(2, 50)):
        A, b, c, problem = drawn(seed)
        f_star = 0.5 * float(np.sum((np.linalg.pinv(A) @ (b - A @ c)) ** 2))
        phases = []
        before = None
        for state in states(METHODS[name](), problem, problem.start(), 2000):
            if before is not None and state.memory.ended != before.memory.ended:
                phases.append((before.memory.eta, state.x))
            before = state
        assert len(phases) >= 4
        relative = []
        for eta, x in phases:
            best = np.linalg.solve(A.T @ A + eta * np.eye(len(c)), A.T @ b + eta * c)
            f, g = 0.5 * np.sum((x - c) ** 2), 0.5 * np.sum((A @ x - b) ** 2)
            h_min = 0.5 * np.sum((A @ best - b) ** 2) + 0.5 * eta * np.sum((best - c) ** 2)
            delta = max(g + eta * f - h_min, 0.0) + 1e-14 * (g + eta * f)
            assert f <= f_star + delta / eta + 1e-12 * f_star
            assert g <= delta + eta * (f_star - f) + 1e-14
            relative.append(delta / eta)
        assert relative[-1] <= 0.1 * relative[0]


# --- certificates --------------------------------------------------------------------------------

# FIELD.md has bounds on both levels for these; for the others a share is reported, not asked for.
TWO_SIDED = ("ire-pg", *PATHS, "r-vfista")


@pytest.mark.sample(4)
@named
def test_no_certificate_is_wrong_and_the_share_is_reported(count, name):
    """With criterion="weak" and rtol=1e-2, on planted problems of every kind."""
    found = share(name, range(count(NAMES.index(name), 0), 208, count(26, 1)), count(100, 300))
    print(f"\n{name}: {found}")
    assert not found.wrong
    if name in TWO_SIDED and found.accepted >= 50:
        assert 10 * found.certified >= found.accepted


# --- what every method must do -------------------------------------------------------------------


def scaled(f_unit: float, g_unit: float, x_unit: float) -> tuple[tb.Problem, Vector]:
    """One problem in other units: f and g multiplied, x measured in units of x_unit."""
    rng = np.random.default_rng(6)
    A, b = rng.standard_normal((3, 6)), rng.standard_normal(3)
    C, d = rng.standard_normal((9, 6)), rng.standard_normal(9)
    problem = tb.Problem(
        upper=f_unit * tb.LeastSquares(C / x_unit, d),
        lower=g_unit * tb.LeastSquares(A / x_unit, b),
        domain=tb.Ball(2.0 * x_unit),
    )
    return problem, x_unit * np.full(6, 0.25)


@pytest.mark.sample(2)
@named
def test_the_default_parameters_know_no_units(name):
    method = METHODS[name]()
    reference = [s.x for s in states(method, *scaled(1.0, 1.0, 1.0), 30)]
    for units in ((2.0**20, 1.0, 1.0), (1.0, 2.0**-30, 1.0), (1.0, 1.0, 2.0**12)):
        run = [s.x / units[2] for s in states(method, *scaled(*units), 30)]
        np.testing.assert_allclose(run, reference, rtol=1e-9, atol=1e-9)


@pytest.mark.sample(3)
@named
def test_a_run_goes_on_from_its_checkpoint_bit_for_bit(tmp_path, name):
    p = planted(4 * 8 + 1)
    problem, path, method = p.problem(), tmp_path / "run.npz", METHODS[name]().planned(100)
    if method.refusal(problem):
        problem, p = planted(0).problem(), planted(0)
    tb.solve(problem, method, x0=p.x0, rtol=0, max_iter=33, checkpoint=path)
    continued = tb.solve(problem, method, x0=p.x0, rtol=0, max_iter=100, checkpoint=path)
    whole = tb.solve(problem, method, x0=p.x0, rtol=0, max_iter=100)
    np.testing.assert_array_equal(continued.x, whole.x)
    assert (continued.upper_gap, continued.lower_gap) == (whole.upper_gap, whole.lower_gap)


@pytest.mark.sample(6)
@named
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_library_and_dtype_are_kept(name, dtype, library):
    xp, method = np if library == "numpy" else xps, METHODS[name]()
    rng = np.random.default_rng(7)
    given = [rng.standard_normal(s) for s in ((8, 5), (8,), (3, 5), (3,), (5,))]
    A, b, C, d, x0 = (xp.asarray(v.tolist(), dtype=getattr(xp, dtype)) for v in given)
    problem = tb.Problem(
        upper=tb.LeastSquares(A, b), lower=tb.LeastSquares(C, d), domain=tb.Ball(0.7)
    )
    *_, last = states(method, problem, x0, 70)  # beyond one refresh of the images
    for x in (tb.solve(problem, method, x0=x0, max_iter=5, rtol=0).x, last.x):
        assert type(x) is type(x0)
        assert x.dtype == x0.dtype
    plain = tb.Problem(
        upper=tb.LeastSquares(*given[:2]), lower=tb.LeastSquares(*given[2:4]), domain=tb.Ball(0.7)
    )
    *_, reference = states(method, plain, given[4], 70)
    tolerance = 2e-3 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(np.asarray(last.x), reference.x, atol=tolerance)


@pytest.mark.sample(4)
@named
@pytest.mark.parametrize("domain", [tb.Ball(2.0), tb.Simplex(3.0), tb.Box(-1.0, 2.0)])
def test_linear_levels_and_extreme_units_are_no_division_by_zero(name, domain):
    check_units(METHODS[name](), domain, may_refuse=True)


@pytest.mark.sample(3)
@named
def test_one_variable_one_point_and_a_start_that_is_optimal(name):
    check_small(METHODS[name]())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("sedm", "ada-bim")])
def test_one_gradient_of_each_level_per_step(name):
    problem, x0 = scaled(1.0, 1.0, 1.0)
    method = METHODS[name]().planned(900)
    rows = [
        tb.solve(problem, method, x0=x0, rtol=0, max_iter=steps).trace[-1] for steps in (20, 30)
    ]
    assert rows[1].upper_gradients - rows[0].upper_gradients == 10
    assert rows[1].lower_gradients - rows[0].lower_gradients == 10


def test_penalties_are_taken_by_their_joint_prox():
    """Sparse least squares: the smallest l1 norm among the solutions, by a basis pursuit."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((6, 12))
    b = A @ np.concatenate([[1.0, -2.0], np.zeros(10)])
    problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, b))
    exact = tb.solve(problem, "exact").upper_value
    for name in ("bi-pg", "fbi-pg", "sta-bim", *PATHS, "ada-bim"):
        method = METHODS[name](unit=problem.lower.lipschitz)
        *_, last = states(method, problem, problem.start(), 2000)
        assert last.upper_value == pytest.approx(exact, rel=0.1), name
        assert last.lower_value <= 0.02 * problem.lower.value(np.zeros(12)), name


def test_numpy_numbers_as_parameters_do_not_change_the_dtype():
    A = np.ones((1, 3), np.float32)
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, A[0, :1]), domain=tb.Ball()
    )
    one, two = np.float64(1.0), np.float64(2.0)
    for method in (
        tb.Diagonal(power=one, offset=one, c=one, slowest=np.float64(0.5), step_factor=one),
        tb.FBiPG(momentum=(two + 1, two + 1), unit=one), tb.SEDM(armijo=np.float64(0.5)),
        tb.Tikhonov(q=np.float64(0.5), eta_0=one, delta=one, unit=one),
        tb.LevelNewton(multiplicity=two), tb.AdaBiM(mu=one, nu=np.float64(0.5), unit=one),
        tb.RVFISTA(p=two), tb.FIBA(mu_0=one),
    ):  # fmt: skip
        *_, last = states(method, problem, np.zeros(3, np.float32), 5)
        assert last.x.dtype == np.float32, method


# --- particulars ---------------------------------------------------------------------------------


def test_the_presets_are_the_general_class_with_other_numbers():
    problem, x0 = scaled(1.0, 1.0, 1.0)
    for preset in (tb.IREPG(), tb.StaBiM(), tb.SEDM(), tb.BiPG(), tb.FBiPG(), tb.BiFISTA()):
        general = tb.Diagonal(**vars(preset))
        runs = (list(states(method, problem, x0, 20)) for method in (preset, general))
        for one, other in zip(*runs, strict=True):
            np.testing.assert_array_equal(one.x, other.x)


def test_ire_pg_shows_its_last_iterate_too():
    problem, x0 = scaled(1.0, 1.0, 1.0)
    run = list(states(tb.IREPG(), problem, x0, 10))
    last = list(states(tb.IREPG(average=False), problem, x0, 10))[-1]
    np.testing.assert_array_equal(tb.IREPG().points(run[-1])["the last iterate"], last.x)
    assert not np.array_equal(run[-1].x, last.x)
    assert tb.IREPG(average=False).points(last) == {}


def test_level_newton_estimates_f_by_a_double_root(count):
    """f(x_j) + 2 p_j/eta_j is far closer to f* than f(x_j), if g grows quadratically."""
    for seed in range(count(2, 20)):
        A, b, c, problem = drawn(seed)
        f_star = 0.5 * float(np.sum((np.linalg.pinv(A) @ (b - A @ c)) ** 2))
        result = tb.solve(problem, tb.LevelNewton(multiplicity=2), rtol=0, max_iter=400)
        ((label, words),) = result.findings.lines()
        assert label == "estimate"
        estimate = float(words.split()[3])
        errors = abs(estimate - f_star), abs(result.upper_value - f_star)
        assert errors[0] <= max(0.1 * errors[1], 1e-6 * f_star), (seed, errors)


def test_level_newton_contracts_faster_than_the_path(count):
    """After as many phases eta is at most that of Tikhonov's path: jumps are at least q."""
    for seed in range(count(2, 20)):
        *_, problem = drawn(seed)
        etas = [
            [s.memory.eta for s in states(method, problem, problem.start(), 300)][-1]
            for method in (tb.LevelNewton(multiplicity=2), tb.Tikhonov())
        ]
        assert etas[0] <= etas[1] * 4.0


SMOOTH = tb.LeastSquares(np.eye(2), np.ones(2))
UNIT = "unit must be given if the upper level has no gradient (otherwise it is L_g/L_f), got none"
REFUSED = [
    ("fbi-pg", tb.L1(), SMOOTH, f"FBiPG: {UNIT}; give FBiPG(unit=...)"),
    ("tikhonov", tb.L1(), SMOOTH, f"Tikhonov: {UNIT}; give Tikhonov(unit=...)"),
    ("ada-bim", tb.L1(), SMOOTH, f"AdaBiM: {UNIT}; give AdaBiM(unit=...)"),
    ("sedm", SMOOTH + tb.L1(), SMOOTH, "SEDM: upper must be smooth"),
    ("fiba", SMOOTH, SMOOTH + tb.L1(), "FIBA: lower must be smooth"),
    ("r-vfista", tb.Linear([1.0, 1.0]), SMOOTH, "RVFISTA: upper must be strongly convex"),
    (
        "bi-fista",
        tb.Smooth(lambda x: 0.5 * float(x @ x), lambda x: x),
        SMOOTH,
        "BiFISTA: upper must have a known Lipschitz constant, got none",
    ),
]


@pytest.mark.parametrize(("name", "upper", "lower", "sentence"), REFUSED)
def test_what_is_outside_the_assumptions_is_refused_in_one_sentence(name, upper, lower, sentence):
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball())
    with pytest.raises(ValueError) as raised:  # noqa: PT011 -- the sentence is compared below
        tb.solve(problem, name, x0=np.zeros(2))
    assert str(raised.value).startswith(sentence)


def test_ada_bim_needs_no_constants():
    upper = tb.Smooth(lambda x: 0.5 * float(x @ x), lambda x: x)
    problem = tb.Problem(upper=upper, lower=tb.LeastSquares([[1.0, 2.0]], [4.0]))
    result = tb.solve(problem, "ada-bim", x0=np.zeros(2), rtol=0, max_iter=500)
    np.testing.assert_allclose(result.x, [0.8, 1.6], atol=0.01)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: tb.FBiPG(power=0), "FBiPG: power must be a positive finite number, got 0"),
        (lambda: tb.Diagonal(offset=-1), "Diagonal: offset must be"),
        (lambda: tb.Diagonal(slowest=1), "Diagonal: slowest must be a number in [0, 1), got 1"),
        (lambda: tb.StaBiM(step_factor=3), "StaBiM: step_factor must be a number in (0, 2], got 3"),
        (lambda: tb.SEDM(armijo=1.0), "SEDM: armijo must be a number in (0, 1), got 1.0"),
        (lambda: tb.IREPG(average=1), "IREPG: average must be True or False, got 1"),
        (
            lambda: tb.BiFISTA(momentum=(1.0, 3.0)),
            "BiFISTA: momentum must be (alpha, shift) with alpha > 1 and shift >= alpha - 1, got ",
        ),
        (lambda: tb.BiFISTA(momentum=3.0), "BiFISTA: momentum must be (alpha, shift) with"),
        (
            lambda: tb.SEDM(momentum=(3.0, 3.0)),
            "SEDM: momentum must be None with armijo, got (3.0, 3.0)",
        ),
        (lambda: tb.Tikhonov(q=1.0), "Tikhonov: q must be a number in (0, 1), got 1.0"),
        (lambda: tb.Tikhonov(delta=-1.0), "Tikhonov: delta must be a positive finite number"),
        (
            lambda: tb.LevelNewton(multiplicity=0.5),
            "LevelNewton: multiplicity must be a number of at least 1, got 0.5",
        ),
        (lambda: tb.AdaBiM(nu=1.0), "AdaBiM: nu must be a number in (0, 1), got 1.0"),
        (lambda: tb.AdaBiM(mu=-1.0), "AdaBiM: mu must be"),
        (lambda: tb.RVFISTA(horizon=0), "RVFISTA: horizon must be a whole number >= 1, got 0"),
        (lambda: tb.FIBA(mu_0=0.0), "FIBA: mu_0 must be a positive finite number, got 0.0"),
    ],
)
def test_a_wrong_parameter_gets_one_sentence(make, sentence):
    with pytest.raises((TypeError, ValueError)) as raised:
        make()
    assert str(raised.value).startswith(sentence)


def test_the_search_of_sedm_ends_even_if_the_unit_overflows():
    """L_g/L_f is inf, so the curvature times a step of 0 is NaN: the loop used to be endless."""
    problem = tb.Problem(
        upper=1e-200 * tb.SquaredNorm(center=[3.0, 0.0]),
        lower=1e200 * tb.LeastSquares([[1.0, 2.0]], [4.0]),
        domain=tb.Ball(4.0),
    )
    assert tb.solve(problem, tb.SEDM(), max_iter=5).status == "failed"
