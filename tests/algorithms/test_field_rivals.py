"""BiG-SAM, MNG, DBGD, FC-BiO, IR-CG and Bregman iteration: recursions, bounds, certificates."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import array_api_strict as xps
import cvxpy as cp
import numpy as np
import pytest
from helpers.edge_cases import check_small, check_units
from helpers.rivals import EPS, Vector, states
from planted.certified_share import share
from planted.smooth import Planted, planted

import tiebreak as tb
from tiebreak.algorithms.rivals.fc_bio import Psi, minimised
from tiebreak.driver.registry import METHODS
from tiebreak.functions import Minorant

NAMES = ("big-sam", "mng", "dbgd", "fc-bio", "ir-cg")
named = pytest.mark.parametrize("name", NAMES)
Project = Callable[[Vector], Vector]


def accepted(method: Any, seeds: range, number: int) -> Iterator[tuple[Planted, tb.Problem]]:
    """The first so many planted problems that the method takes."""
    taken = ((p, p.problem()) for p in map(planted, seeds))
    yield from itertools.islice((one for one in taken if not method.refusal(one[1])), number)


# --- the recursions, in a few lines of NumPy -----------------------------------------------------


def plain_big_sam(m: Any, run: Any, p: Planted, problem: tb.Problem, x: Vector) -> Any:
    t, L, sigma = run[0].memory.lower_step, problem.upper.lipschitz, problem.upper.strong_convexity
    # The paper's beta = sqrt(1 - 2 s sigma L/(sigma + L)) at this s; the root of a difference that
    # rounds to 1e-16 instead of 0 would be 1e-8.
    s, beta = 2 / (L + sigma), (L - sigma) / (L + sigma)
    old = x
    for k in range(1, 51):
        a = min(2 * m.gamma / (k * (1 - beta)), 1)
        w = x
        if m.inertia and np.any(x != old):
            far = run[0].memory.length * a / k**0.01 / np.linalg.norm(x - old)
            w = x + min((k - 1) / (k + 2), far) * (x - old)
        y = problem.domain.project(w - t * p.grad_g(w))
        old, x = x, a * (w - s * p.grad_f(w)) + (1 - a) * y
        yield y


def plain_mng(m: Any, run: Any, p: Planted, problem: tb.Problem, x: Vector) -> Any:
    """With the projection onto both half-spaces by least squares: the shortest z - c.

    Each step from our own iterate: an error about doubles from step to step, whoever computes.
    """
    c = x = -p.grad_f(0 * x) / problem.upper.lipschitz
    for state in run:
        assert np.abs(x - state.memory.inner).max() <= 1e-9 * (np.abs(x).max() + p.unit)
        x = state.memory.inner
        T = problem.domain.project(x - run[0].memory.step_size * p.grad_g(x))
        yield T
        r, d = x - T, x - c
        u = min(r @ d - 0.75 * (r @ r), 0) / (r @ r or 1) * r  # the first alone
        noise = (64 + p.n / 2) * EPS * (np.linalg.norm(x) + np.linalg.norm(c))
        if d @ u < d @ d - noise * np.linalg.norm(d):
            sides = np.array([r, d]) / np.array([[np.linalg.norm(r) or 1], [np.linalg.norm(d)]])
            right = sides[0] @ d - 0.75 * np.linalg.norm(r), np.linalg.norm(d)
            u = np.linalg.lstsq(sides, np.array(right), rcond=None)[0]
            u = u if np.linalg.norm(r - (r @ d) / (d @ d) * d) > noise else d
        x = c + u


def plain_dbgd(m: Any, run: Any, p: Planted, problem: tb.Problem, x: Vector) -> Any:
    (L_f, L_g), ghat = run[0].memory.smoothness, problem.lower.lower_bound
    for k in range(50):
        a, b = p.grad_f(x), p.grad_g(x)
        lam = 0.0
        if b.any():
            barrier = min(m.alpha * L_f * (p.g(x) - ghat), m.beta * L_f / L_g * (b @ b))
            lam = max((barrier - a @ b) / (b @ b), 0)
        xi = min(m.xi / L_f / math.sqrt(k + 1), 1 / (L_f + lam * L_g))
        x = problem.domain.project(x - xi * (a + lam * b))
        yield x


def plain_ir_cg(m: Any, run: Any, p: Planted, problem: tb.Problem, x: Vector) -> Any:
    e = [run[0].memory.unit * (t + 1) ** -m.p for t in range(51)]
    points = [x]
    for t in range(50):
        v = problem.domain.argmin(p.grad_g(x) + e[t] * p.grad_f(x))
        x = x + 2 / (t + 2) * (v - x)
        points.append(x)
        T = t + 1
        weights = [i * (i + 1) * (e[i - 1] - e[i]) for i in range(1, T)] + [T * (T + 1) * e[T - 1]]
        yield np.average(points[1:], axis=0, weights=weights)


def balanced(project: Project, y: Vector, a: Vector, b: Vector, gap: float, L: float) -> Vector:
    """The argmin of max{gap + <a, x-y>, <b, x-y>} + L/2 |x-y|², by bisection on the weight of a."""
    low, high = 0.0, 1.0
    for w in (1.0, 0.0, *[None] * 60):
        w = 0.5 * (low + high) if w is None else w
        x = project(y - (w * a + (1 - w) * b) / L)
        above = gap + (a - b) @ (x - y)
        if (w == 1.0 and above >= 0) or (w == 0.0 and above <= 0):
            return x
        low, high = (w, high) if above > 0 else (low, w)
    return x


def plain_fc_bio(m: Any, run: Any, p: Planted, problem: tb.Problem, x: Vector) -> Any:
    project, rho, k = problem.domain.project, m.eps_f / m.eps_g, 0
    L_f, L_g = problem.upper.lipschitz, problem.lower.lipschitz
    y, t = x, 1.0

    def gap(slope: Vector, x: Vector) -> float:
        return float(slope @ (x - problem.domain.argmin(slope)))

    is_over = gap(p.grad_g(x), x) <= m.eps_g / 2  # the first phase, already at the start
    assert is_over == (run[0].memory.first is None)
    while not is_over:
        s = run[0].memory.first.step_size
        new, later = project(y - s * p.grad_g(y)), (1 + math.sqrt(1 + 4 * t * t)) / 2
        has_risen, k = p.g(new) > p.g(x), k + 1
        y, t, x = new + (t - 1) / later * (new - x), later, new
        is_due = k % (1 << max(k.bit_length() - 4, 0)) == 0
        if has_risen:
            y, t = x, 1.0
        yield x
        is_over = (has_risen or is_due) and gap(p.grad_g(x), x) <= m.eps_g / 2
    ghat, high = p.g(x), p.f(x)
    low = max(problem.upper.lower_bound, high - gap(p.grad_f(x), x))
    L, N = max(L_f, rho * L_g), run[0].memory.steps
    while high - low > m.eps_f / 2:
        level, z, y, t = (low + high) / 2, x, x, 1.0
        for i in range(1, N + 1):
            sides = p.f(y) - level - rho * (p.g(y) - ghat)
            new = balanced(project, y, p.grad_f(y), rho * p.grad_g(y), sides, L)
            later = (1 + math.sqrt(1 + 4 * t * t)) / 2
            y, t, z = new + (t - 1) / later * (new - z), later, new
            if max(p.f(z) - level, rho * (p.g(z) - ghat)) <= m.eps_f / 2:
                x, high = z, min(level, p.f(z))
                break
            if i == N:
                low = level
            else:
                yield x
        yield x


def plain_subgradients(m: Any, run: Any, p: Planted, problem: tb.Problem, x: Vector) -> Any:
    rho, level, ghat = m.eps_f / m.eps_g, math.inf, problem.lower.lower_bound
    step = problem.domain.diameter_in(p.n) / (run[0].memory.size * math.sqrt(run[0].memory.steps))
    low = high = math.nan
    while not high - low <= m.eps_f / 2:
        y, seen = x, []
        for i in range(1, run[0].memory.steps + 1):
            seen.append(y)
            is_f = p.f(y) - level >= rho * (p.g(y) - ghat)
            y = problem.domain.project(y - step * (p.grad_f(y) if is_f else rho * p.grad_g(y)))
            z = np.mean(seen, axis=0)
            is_good = max(p.f(z) - level, rho * (p.g(z) - ghat)) <= m.eps_f / 2
            if is_good or level == math.inf:
                x = z
            if is_good or i == run[0].memory.steps:
                break
            yield x
        if level == math.inf:
            slope, ghat, high = p.grad_f(x), p.g(x), p.f(x)
            bound = high - slope @ (x - problem.domain.argmin(slope))
            low = max(problem.upper.lower_bound, bound)
        elif is_good:
            high = min(level, p.f(x))
        else:
            low = level
        level = (low + high) / 2
        yield x


def fitting(method: Any, p: Planted, problem: tb.Problem) -> Any:
    """The method itself; FC-BiO with tolerances that 50 steps have something to do with."""
    if not isinstance(method, tb.FCBiO):
        return method
    x = problem.domain.project(p.x0)
    if method.lipschitz:
        D = problem.domain.diameter_in(p.n)
        slopes = (
            np.linalg.norm(grad(x)) + h.lipschitz * D
            for grad, h in ((p.grad_f, problem.upper), (p.grad_g, problem.lower))
        )
        eps_f, eps_g = (0.6 * D * slope + 1e-9 for slope in slopes)
        return tb.FCBiO(eps_f, eps_g, lipschitz=True)
    eps_f = 0.1 * (abs(p.f(x) - p.f_star) + 0.1 * abs(p.f_star)) + 1e-6 * p.f_scale + 1e-300
    return tb.FCBiO(eps_f, 0.1 * (p.g(x) - p.g_star) + 1e-6 * p.g_scale + 1e-300)


RECURSIONS = [
    (tb.BiGSAM(), plain_big_sam),
    (tb.BiGSAM(gamma=0.3), plain_big_sam),
    (tb.BiGSAM(inertia=True), plain_big_sam),
    (tb.MNG(), plain_mng),
    (tb.DBGD(), plain_dbgd),
    (tb.DBGD(xi=0.5, alpha=2.0, beta=0.3), plain_dbgd),
    (tb.IRCG(), plain_ir_cg),
    (tb.IRCG(p=0.3, c=0.1), plain_ir_cg),
    (tb.FCBiO(), plain_fc_bio),
    (tb.FCBiO(lipschitz=True), plain_subgradients),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("given", "plain"), RECURSIONS, ids=lambda v: str(v)[:24])
def test_the_recursion_is_that_of_a_few_lines_of_numpy(count, given, plain):
    worst, where, problems = 0.0, "", 0
    for p, problem in accepted(given, range(0, 1400, count(13, 1)), count(5, 50)):
        method, x0 = fitting(given, p, problem), problem.domain.project(p.x0)
        run = list(states(method, problem, p.x0, 50))
        steps = plain(method, run, p, problem, x0)
        run, problems = run if plain is plain_mng else run[1:], problems + 1
        for state, x in zip(run, steps, strict=False):
            size = float(np.abs(x).max()) + p.unit
            far = float(np.abs(state.x - x).max()) / size
            worst, where = max((worst, where), (far, f"{p.seed}, {p.kind}, step {state.k}"))
            of_f = abs(p.f(x)) + np.linalg.norm(p.grad_f(x)) * size + p.f_scale
            of_g = abs(p.g(x)) + np.linalg.norm(p.grad_g(x)) * size + p.g_scale
            of_f, of_g = of_f + abs(p.f(np.zeros(p.n))), of_g + abs(p.g(np.zeros(p.n)))
            assert state.upper_value == pytest.approx(p.f(state.x), rel=0, abs=1e-11 * of_f)
            assert state.lower_value == pytest.approx(p.g(state.x), rel=0, abs=1e-11 * of_g)
            assert problem.domain.contains(state.x, 1e-12 * size)
    print(f"\n{given}: {problems} problems, worst distance {worst:.1e} ({where})")
    assert worst <= 1e-9, where


# --- the bounds that the docstrings state, at every step -----------------------------------------

Excess = Iterator[tuple[str, float, float]]  # a name, an error, and what bounds it


def of_big_sam(p: Planted, problem: tb.Problem, run: list[Any]) -> Excess:
    first, u = run[0], p.x_star
    t, s, beta = first.memory.lower_step, first.memory.upper_step, 1 - first.memory.margin
    C = max(np.linalg.norm(first.x - u), np.linalg.norm(s * p.grad_f(u)) / (1 - beta))
    J = math.floor(2 / (1 - beta))
    for k, now in enumerate(run[1:], start=1):
        yield "g", p.g(now.x) - p.g_star, 2 * C * C * (J + 2) / (t * (1 - beta) * k)


def of_mng(p: Planted, problem: tb.Problem, run: list[Any]) -> Excess:
    sigma, best, before = problem.upper.lipschitz, math.inf, 0.0
    for k, now in enumerate(run, start=1):
        f_x = p.f(now.memory.inner)
        yield "f(x_k) <= f*", f_x, p.f_star
        yield "f(x_k) never falls", before, f_x
        before, best = f_x, min(best, p.g(now.x) - p.g_star)
        bound = (
            8
            * (p.f_star - p.f(run[0].memory.inner))
            / (3 * sigma * run[0].memory.step_size * math.sqrt(k))
        )
        yield "g", best, bound


def of_ir_cg(p: Planted, problem: tb.Problem, run: list[Any]) -> Excess:
    D, power = problem.domain.diameter_in(p.n), run[0].power
    e = [run[0].state.memory.unit * (t + 1) ** -power for t in range(len(run))]
    L = problem.lower.lipschitz + e[0] * problem.upper.lipschitz
    low = problem.upper.lower_bound
    if not math.isfinite(low):
        low = p.f_star - float(p.grad_f(p.x_star) @ p.x_star)
        low -= problem.domain.support(-p.grad_f(p.x_star))
    total = 0.0
    for T, now in enumerate(run[1:], start=1):
        total += T * e[T - 1]
        weights = sum(t * (t + 1) * (e[t - 1] - e[t]) for t in range(1, T)) + T * (T + 1) * e[T - 1]
        yield "f(z_T)", p.f(now.x) - p.f_star, 2 * L * D * D * T / weights
        of_g = (2 * L * D * D * T + 2 * (p.f_star - low) * total) / (T * (T + 1))
        yield "g(x_T)", p.g(now.last) - p.g_star, of_g


class Seen:
    """A state of IR-CG, with its last iterate and its power."""

    def __init__(self, method: Any, state: Any) -> None:
        self.state, self.x, self.power = state, state.x, method.p
        self.last = method.points(state)["the last iterate"]


def of_fc_bio(p: Planted, problem: tb.Problem, run: list[Any]) -> Excess:
    """psi(x_k) - psi(u) <= 2 L D²/(k+1)² for all u of Z, in every call; the answer at the end."""
    D = problem.domain.diameter_in(p.n)
    for now in run:
        if now.memory.call is not None and now.memory.call.k:
            psi = now.memory.call.psi
            there = max(psi.parts(p.f_star, p.g_star))
            yield (
                "f of psi",
                now.memory.call.value - there,
                2 * psi.size * (D / (now.memory.call.k + 1)) ** 2,
            )
        if now.memory.finished.why:
            yield "f at the end", p.f(now.x) - p.f_star, now.memory.upper_tolerance
            yield "g at the end", p.g(now.x) - p.g_star, now.memory.lower_tolerance


BOUNDS = [
    (tb.BiGSAM(), of_big_sam),
    (tb.MNG(), of_mng),
    *((tb.IRCG(p=power), of_ir_cg) for power in (0.3, 0.5, 0.7)),
    (tb.FCBiO(), of_fc_bio),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("given", "bounds"), BOUNDS, ids=lambda v: str(v)[:24])
def test_the_bounds_hold_at_every_step(count, given, bounds):
    worst, problems = 0.0, 0
    for p, problem in accepted(given, range(0, 6000, count(29, 1)), count(6, 200)):
        method = fitting(given, p, problem)
        run = list(states(method, problem, p.x0, 200 if bounds is of_fc_bio else 100))
        points = [s.memory.inner if bounds is of_mng else s.x for s in run]
        size = max(float(np.linalg.norm(x)) for x in points) + np.linalg.norm(p.x_star)
        of_f = max(abs(p.f(x)) + np.linalg.norm(p.grad_f(x)) * size for x in points) + p.f_scale
        of_g = max(abs(p.g(x)) + np.linalg.norm(p.grad_g(x)) * size for x in points) + p.g_scale
        if bounds is of_ir_cg:
            run = [Seen(method, state) for state in run]
        if bounds is of_fc_bio:
            of_f += run[0].memory.upper_tolerance / run[0].memory.lower_tolerance * of_g
        for what, error, bound in bounds(p, problem, run):
            slack = 1e-12 * (of_f if what[0] == "f" else of_g)
            assert error <= bound + slack, f"{what}, {p.seed}, {p.kind}"
            if "f(x_k)" not in what and bound > 1e3 * slack:
                worst = max(worst, error / bound)
        problems += 1
    print(f"\n{given}: {problems} problems, error/bound at most {worst:.3f}")


def test_dbgd_never_takes_a_value_of_g_below_what_is_proved(count):
    """g(x_k) - ghat >= 0 in a run that is told what is proved, and lam_k is as the formula says."""
    for p, problem in accepted(tb.DBGD(), range(0, 400, count(29, 1)), count(6, 60)):
        method = tb.DBGD()
        seen: list[float] = []

        class Told(tb.DBGD):
            def adapt(self, state: Any, proved: Any, seen: list[float] = seen) -> Any:
                told = super().adapt(state, proved)
                seen.append(told.memory.ghat)
                return told

        tb.solve(problem, Told(), x0=p.x0, rtol=0, max_iter=60)
        assert seen == sorted(seen)
        assert seen[-1] <= p.g_star + 1e-12 * p.g_scale
        state = method.init(problem, problem.start(p.x0))
        assert method.adapt(state, type("Proved", (), {"lower_bound": -math.inf})()) == state


# --- the inner step of FC-BiO --------------------------------------------------------------------


def sets(rng: np.random.Generator, n: int) -> list[tuple[Any, Any]]:
    """Bounded sets, each with its constraints in CVXPY's words."""
    low, high = np.sort(rng.standard_normal((2, n)), axis=0)
    c, radius = rng.standard_normal(n), float(rng.uniform(0.3, 2.0))
    return [
        (tb.Ball(radius, c), lambda x: [cp.norm2(x - c) <= radius]),
        (tb.Box(low, high), lambda x: [x >= low, x <= high]),
        (tb.Simplex(radius), lambda x: [x >= 0, cp.sum(x) == radius]),
        (tb.L1Ball(radius), lambda x: [cp.norm1(x) <= radius]),
    ]


def test_the_inner_step_of_fc_bio_is_that_of_a_conic_solver(count):
    """To 1e-8, and its weight w closes the duality gap to rounding."""
    rng, worst, gaps = np.random.default_rng(5), 0.0, 0.0
    options = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}
    kinds, sharp = [0, 0, 0], 0
    for _ in range(count(8, 100)):
        n = int(rng.choice([1, 2, 5, 12]))
        for domain, constraints in sets(rng, n):
            y, a, b = rng.standard_normal((3, n))
            f_y, g_y, t, ghat = rng.standard_normal(4)
            L, rho = (float(v) for v in 10.0 ** rng.uniform(-1, 1, 2))
            problem = tb.Problem(upper=tb.Linear(a), lower=tb.Linear(b), domain=domain)
            psi = Psi(float(t), rho, float(ghat), L)
            lines = Minorant(y, float(f_y), a), Minorant(y, float(g_y), b)
            z, w, _ = minimised(problem, psi, *lines, None)
            x = cp.Variable(n)
            model = cp.maximum(f_y - t + a @ (x - y), rho * (g_y - ghat + b @ (x - y)))
            conic = cp.Problem(cp.Minimize(model + L / 2 * cp.sum_squares(x - y)), constraints(x))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it asks for more than it may reach
                conic.solve(solver="CLARABEL", **options)
            sides = f_y - t + a @ (z - y), rho * (g_y - ghat + b @ (z - y))
            square = L / 2 * float(np.sum((z - y) ** 2))
            size = abs(sides[0]) + abs(sides[1]) + square + 1.0
            worst = max(worst, abs(max(sides) + square - conic.value) / size)
            if conic.status == "optimal":  # otherwise its x has half the digits of its value
                far = float(np.abs(z - x.value).max()) / (1.0 + np.abs(z).max())
                worst, sharp = max(worst, far), sharp + 1
            # z minimises w f-line + (1-w) g-line + the square over Z: then this is a lower bound.
            gaps = max(gaps, abs(max(sides) - w * sides[0] - (1 - w) * sides[1]) / size)
            still = domain.project(y - (w * a + (1 - w) * rho * b) / L)
            np.testing.assert_allclose(z, still, atol=1e-12 * (1.0 + np.abs(y).max() * 10))
            kinds[0 if w == 0.0 else 2 if w == 1.0 else 1] += 1
    print(f"\ninner step: {kinds} with w = 0, between, 1; conic solver {worst:.1e}, gap {gaps:.1e}")
    assert worst <= 1e-8
    assert gaps <= 1e-12
    assert min(kinds) > 0
    assert 4 * sharp >= 3 * sum(kinds)


def test_fc_bio_ends_with_what_it_promises(count):
    """f(x) - f* <= eps_f and g(x) - g* <= eps_g, at the end of whole runs."""
    ended = 0
    for p, problem in accepted(tb.FCBiO(), range(0, 208, count(29, 1)), count(5, 100)):
        method = fitting(tb.FCBiO(), p, problem)
        result = tb.solve(problem, method, x0=p.x0, rtol=0, max_iter=3000)
        if result.status == "solved":
            ended += 1
            assert p.f(result.x) - p.f_star <= method.eps_f * (1 + 1e-9) + 1e-12 * p.f_scale, p.kind
            assert p.g(result.x) - p.g_star <= method.eps_g * (1 + 1e-9) + 1e-12 * p.g_scale, p.kind
    assert ended >= count(2, 60)


@pytest.mark.parametrize("kind", ["hinge", "quantile", "both"])
def test_fc_bio_takes_losses_with_kinks_by_their_subgradients(kind):
    rng = np.random.default_rng(1)
    A = rng.integers(-1, 2, (4, 3)).astype(float)
    labels, targets = np.array([1.0, 1.0, -1.0, 1.0]), A @ np.array([0.5, -0.25, 0.25])
    lower = tb.Hinge(A, labels, mean=True) if kind != "quantile" else tb.Quantile(A, targets, 0.3)
    upper = tb.L1(0.5) if kind == "both" else tb.SquaredNorm(0.5)
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(1.0))
    truth = tb.solve(problem, "conic")
    method = tb.FCBiO(eps_f=0.4, eps_g=0.4, lipschitz=True)
    assert tb.FCBiO().check(problem).argument in ("upper", "lower")
    result = tb.solve(problem, method, x0=[1.0, 0.0, 0.0], rtol=0, max_iter=20_000)
    assert result.status == "solved"
    assert result.upper_value - truth.upper_value <= 0.4
    assert result.lower_value - truth.lower_value <= 0.4
    assert result.lower_gap >= result.lower_value - truth.lower_value
    assert result.upper_optimum[0] <= truth.upper_value + 1e-9 <= result.upper_optimum[1] + 1e-9


def test_every_penalty_has_subgradients():
    """p(z) >= p(x) + <s, z - x> for all z: norms, squares, groups, centers, losses of rows."""
    rng = np.random.default_rng(2)
    D, c = rng.standard_normal((5, 6)), rng.standard_normal(6)
    penalties = [
        tb.L1(0.7), tb.L1(rng.random(6), center=c), tb.L2(1.3), tb.ElasticNet(0.5, 2.0),
        tb.GroupL2([0, 0, 1, 1, 1, -1], 0.8), tb.LInf(1.1), tb.NuclearNorm((2, 3), 0.6),
        tb.L1(0.4, operator=D), tb.TotalVariation(0.9), tb.Hinge(D, [1, 1, -1, 1, -1]),
        tb.Quantile(D, rng.standard_normal(5), 0.2), tb.Hinge(D, [1, 0, 1, 1, 0]) + tb.L1(0.3),
    ]  # fmt: skip
    for penalty in penalties:
        for x in (*rng.standard_normal((5, 6)), np.zeros(6), c, np.eye(6)[2]):
            slope = penalty.terms.subgradient(x)
            for z in (*(x + 0.1 * rng.standard_normal((10, 6))), *rng.standard_normal((10, 6))):
                below = penalty.value(x) + slope @ (z - x)
                assert penalty.value(z) >= below - 1e-12 * (1.0 + abs(below)), penalty


# --- certificates --------------------------------------------------------------------------------

TWO_SIDED = ("fc-bio", "ir-cg")  # FIELD.md has bounds on both levels for these


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [*NAMES, "bregman"])
def test_no_certificate_is_wrong_and_the_share_is_reported(count, name):
    """With criterion="weak" and rtol=1e-2, on planted problems of every kind."""
    first = (*NAMES, "bregman").index(name)
    found = share(name, range(count(first, 0), 208, count(26, 1)), count(150, 1000))
    print(f"\n{name}: {found}")
    assert not found.wrong
    if name in TWO_SIDED and found.accepted >= 50:
        assert 10 * found.certified >= found.accepted


def test_the_own_bound_of_mng_is_shown_and_not_claimed():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((3, 8))
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, A @ np.ones(8)))
    result = tb.solve(problem, "mng", rtol=0, max_iter=20)
    ((label, words),) = result.findings.lines()
    assert label == "own bound"
    star = np.linalg.pinv(A) @ (A @ np.ones(8))
    assert 0.0 < float(words.split()[2]) <= 0.5 * float(star @ star)
    assert "no certificate" in words


# --- what every method must do -------------------------------------------------------------------


def scaled(f_unit: float, g_unit: float, x_unit: float) -> tuple[tb.Problem, Vector]:
    """One problem in other units: f and g multiplied, x measured in units of x_unit."""
    rng = np.random.default_rng(6)
    A, b, c = rng.standard_normal((3, 6)), rng.standard_normal(3), rng.standard_normal(6)
    problem = tb.Problem(
        upper=tb.SquaredNorm(f_unit / x_unit**2, center=x_unit * c),
        lower=g_unit * tb.LeastSquares(A / x_unit, b),
        domain=tb.Ball(2.0 * x_unit),
    )
    return problem, x_unit * np.full(6, 0.25)


VARIANTS = [*(METHODS[name]() for name in NAMES), tb.BiGSAM(inertia=True), tb.FCBiO(lipschitz=True)]
each = pytest.mark.parametrize("method", VARIANTS, ids=str)


@pytest.mark.sample(2)
@each
def test_the_default_parameters_know_no_units(method):
    reference = [s.x for s in states(method, *scaled(1.0, 1.0, 1.0), 30)]
    for units in ((2.0**20, 1.0, 1.0), (1.0, 2.0**-30, 1.0), (1.0, 1.0, 2.0**12)):
        run = [s.x / units[2] for s in states(method, *scaled(*units), 30)]
        np.testing.assert_allclose(run, reference, rtol=1e-9, atol=1e-9)


@pytest.mark.sample(2)
@each
def test_a_run_goes_on_from_its_checkpoint_bit_for_bit(tmp_path, method):
    (problem, x0), path = scaled(1.0, 1.0, 1.0), tmp_path / "run.npz"
    tb.solve(problem, method, x0=x0, rtol=0, max_iter=33, checkpoint=path)
    continued = tb.solve(problem, method, x0=x0, rtol=0, max_iter=100, checkpoint=path)
    whole = tb.solve(problem, method, x0=x0, rtol=0, max_iter=100)
    np.testing.assert_array_equal(continued.x, whole.x)
    assert (continued.upper_gap, continued.lower_gap) == (whole.upper_gap, whole.lower_gap)


def in_double(value: Any) -> Any:
    """A state with NumPy's float64 arrays in the place of its own."""
    if isinstance(value, tuple):
        parts = map(in_double, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return np.asarray(value, np.float64) if getattr(value, "shape", ()) else value


@pytest.mark.sample(4)
@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_library_and_dtype_are_kept(method, dtype, library):
    xp = np if library == "numpy" else xps
    rng = np.random.default_rng(7)
    given = [rng.standard_normal(s) for s in ((5,), (3, 5), (3,), (5,))]
    c, C, d, x0 = (xp.asarray(v.tolist(), dtype=getattr(xp, dtype)) for v in given)
    problem = tb.Problem(
        upper=tb.SquaredNorm(center=c), lower=tb.LeastSquares(C, d), domain=tb.Ball(0.7)
    )
    run = list(states(method, problem, x0, 70))  # beyond one refresh of the images
    last = run[-1]
    for x in (tb.solve(problem, method, x0=x0, max_iter=5, rtol=0).x, last.x):
        assert type(x) is type(x0)
        assert x.dtype == x0.dtype
    plain = tb.Problem(
        upper=tb.SquaredNorm(center=given[0]), lower=tb.LeastSquares(*given[1:3]),
        domain=tb.Ball(0.7),
    )  # fmt: skip
    reference, tolerance = states(method, plain, given[3], 70), 2e-3 if dtype == "float32" else 1e-9
    if not isinstance(method, tb.MNG):
        *_, end = reference
        np.testing.assert_allclose(np.asarray(last.x), end.x, atol=tolerance)
        return
    # MNG doubles an error in every step or two: a change of the data by one ulp reaches 0.01 in
    # these 70 steps. We compare where the run begins, and each step from the run's own state.
    np.testing.assert_allclose(np.asarray(run[0].x), next(reference).x, atol=tolerance)
    for state, later in itertools.pairwise(run):
        expected, ulp = method.step(plain, in_double(state)).x, float(np.finfo(dtype).eps)
        np.testing.assert_allclose(np.asarray(later.x), expected, rtol=0, atol=64 * ulp)


@pytest.mark.sample(4)
@each
@pytest.mark.parametrize("domain", [tb.Ball(2.0), tb.Simplex(3.0), tb.Box(-1.0, 2.0)])
def test_linear_levels_and_extreme_units_are_no_division_by_zero(method, domain):
    check_units(method, domain, may_refuse=True, may_end=True)


@pytest.mark.sample(2)
@each
def test_one_variable_one_point_and_a_start_that_is_optimal(method):
    if method != tb.FCBiO(lipschitz=True):
        check_small(method)
        return
    # A test of the level takes up to (2 D C/eps_f)² subgradient steps, 3e11 with the default eps_f.
    eps = 1.0
    check_small(tb.FCBiO(eps, eps, lipschitz=True), math.sqrt(2 * eps))  # f(x) = (x - 3)²/2 <= eps


@pytest.mark.parametrize("name", [name for name in NAMES if name != "fc-bio"])
def test_one_gradient_of_each_level_per_step(name):
    problem, x0 = scaled(1.0, 1.0, 1.0)
    rows = [tb.solve(problem, name, x0=x0, rtol=0, max_iter=steps).trace[-1] for steps in (20, 30)]
    assert rows[1].upper_gradients - rows[0].upper_gradients == 10
    assert rows[1].lower_gradients - rows[0].lower_gradients == 10


def test_ir_cg_needs_no_projection():
    made = tb.instance("cg-bio-toy")
    run = list(states(tb.IRCG(), made.problem, np.array([5.0, 5.0]), 60))  # from outside
    assert all(made.problem.domain.contains(state.x) for state in run[1:])
    assert run[-1].upper_value == pytest.approx(made.upper_optimum, abs=0.02)
    assert run[-1].lower_value == pytest.approx(made.lower_optimum, abs=0.02)
    outside = tb.Ball(1.0) & tb.Polyhedron([[1.0, 1.0]], [1.0])
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.Linear([1.0, 0.0]), domain=outside)
    sentence = "IRCG: domain must have an easy linear minimisation, got Intersection"
    assert tb.IRCG().refusal(problem).sentence == sentence


def test_big_sam_takes_a_curvature_that_rounding_would_lose():
    """1 - beta = 2 sigma/(L + sigma) is far below the rounding error of beta here."""
    upper = tb.SquaredNorm([1.0, 1e-17])
    problem = tb.Problem(upper=upper, lower=tb.LeastSquares([[1.0, 1.0]], [1.0]))
    *_, last = states(tb.BiGSAM(), problem, np.zeros(2), 5)
    assert last.memory.margin == pytest.approx(2e-17)
    assert np.isfinite(last.x).all()


def test_a_penalty_below_is_taken_by_its_prox():
    """Among the solutions of a lasso with a copied column, the one nearest to c."""
    A = np.array([[1.0, 1.0], [0.0, 0.0]])
    problem = tb.Problem(
        upper=tb.SquaredNorm(center=[1.0, 0.0]), lower=tb.LeastSquares(A, [3.0, 0.0]) + tb.L1(1.0)
    )
    for name in ("big-sam", "mng"):
        *_, last = states(METHODS[name](), problem, np.zeros(2), 2000)
        np.testing.assert_allclose(last.x, [1.5, 0.5], atol=0.01)


FINE, ROUGH = tb.SquaredNorm(), tb.Smooth(lambda x: float(x @ x) / 2, lambda x: x)
FIT = tb.LeastSquares(np.eye(2), np.ones(2))
NONE = "must have a known Lipschitz constant, got none; give Smooth(..., lipschitz=...)"


@pytest.mark.parametrize(
    ("name", "upper", "lower", "domain", "sentence"),
    [
        ("big-sam", tb.Linear([1.0, 1.0]), FIT, tb.Ball(),
         "BiGSAM: upper must be strongly convex, got curvature 0; bi-sg accepts every convex "),
        ("big-sam", FIT + tb.L1(), FIT, tb.Ball(), "BiGSAM: upper must be smooth, got "),
        ("big-sam", FINE, ROUGH, tb.Ball(), f"BiGSAM: lower {NONE}"),
        ("mng", FIT + tb.L1(), FIT, tb.Ball(), "MNG: upper must be smooth, got "),
        ("mng", tb.Quadratic([[1.0, 0.0], [0.0, 2.0]]), FIT, tb.Ball(),
         "MNG: upper must be the squared distance from a point, times a weight, got Quadratic"),
        ("mng", FINE, ROUGH, tb.Ball(), f"MNG: lower {NONE}"),
        ("dbgd", ROUGH, FIT, tb.Ball(), f"DBGD: upper {NONE}"),
        ("dbgd", FINE, FIT + tb.L1(), tb.Ball(), "DBGD: lower must be smooth, got "),
        ("fc-bio", FINE, FIT, tb.Orthant(), "FCBiO: domain must be bounded, got Orthant"),
        ("fc-bio", FINE, tb.Hinge(np.eye(2), [1, -1]), tb.Ball(), "FCBiO: lower must be smooth, "),
        ("ir-cg", FINE, FIT, tb.Space(), "IRCG: domain must be bounded, got Space"),
        ("ir-cg", ROUGH, FIT, tb.Ball(), f"IRCG: upper {NONE}"),
    ],
)  # fmt: skip
def test_what_is_outside_the_assumptions_is_refused_in_one_sentence(
    name, upper, lower, domain, sentence
):
    problem = tb.Problem(upper=upper, lower=lower, domain=domain)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 -- the sentence is compared below
        tb.solve(problem, name, x0=np.zeros(2))
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: tb.BiGSAM(gamma=1.5), "BiGSAM: gamma must be a number in (0, 1], got 1.5"),
        (lambda: tb.BiGSAM(inertia=1), "BiGSAM: inertia must be True or False, got 1"),
        (lambda: tb.DBGD(xi=0), "DBGD: xi must be a positive finite number, got 0"),
        (lambda: tb.DBGD(alpha=-1.0), "DBGD: alpha must be a positive finite number, got -1.0"),
        (lambda: tb.DBGD(beta=math.inf), "DBGD: beta must be a positive finite number, got inf"),
        (lambda: tb.FCBiO(eps_f=0), "FCBiO: eps_f must be a positive finite number, got 0"),
        (lambda: tb.FCBiO(lipschitz=1), "FCBiO: lipschitz must be True or False, got 1"),
        (lambda: tb.IRCG(p=1.0), "IRCG: p must be a number in (0, 1), got 1.0"),
        (lambda: tb.IRCG(c=0.0), "IRCG: c must be a positive finite number, got 0.0"),
    ],
)
def test_a_wrong_parameter_gets_one_sentence(make, sentence):
    with pytest.raises((TypeError, ValueError)) as raised:
        make()
    assert str(raised.value) == sentence


def test_numpy_numbers_as_parameters_do_not_change_the_dtype():
    A = np.ones((1, 3), np.float32)
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, A[0, :1]), domain=tb.Ball()
    )
    one, half = np.float64(1.0), np.float64(0.5)
    for method in (
        tb.BiGSAM(gamma=half), tb.DBGD(xi=one, alpha=one, beta=one), tb.IRCG(p=half, c=one),
        tb.FCBiO(eps_f=half, eps_g=half), tb.FCBiO(one, one, lipschitz=True),
        tb.RAPM(horizon=np.int64(50)), tb.RVFISTA(p=one, horizon=np.int64(50)),
        tb.PrimalDual(ratio=half), tb.BregmanSVRG(eta_0=half), tb.BregmanSVRG(batch=np.int64(1)),
        tb.PAGMBiO(gamma=half), tb.Diagonal(power=half, offset=one, momentum=(3 * one, 3 * one)),
    ):  # fmt: skip
        *_, last = states(method, problem, np.zeros(3, np.float32), 5)
        assert last.x.dtype == np.float32, method
    bound = tb.ErrorBound(order=2 * one, modulus=half, gradient_bound=one)
    numbers = tb.Problem(upper=FINE, lower=FIT, radius=one, error_bound=bound), bound
    numbers += (tb.PrimalDual(ratio=np.float32(0.5)), tb.SBCGF(scale=half), tb.AdaBiM(mu=half))
    for made in numbers:
        assert not any(isinstance(value, np.generic) for value in vars(made).values()), made
