"""The diagonal family, Tikhonov's path, Level-Newton, AdaBiM, R-VFISTA and FIBA."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.rivals import EPS, Vector, states
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
    (L_f, L_g), old, e = first.smoothness, x, 0.0
    total, z = 0.0, x
    for k in range(steps):
        e = weight(k, e, first.unit)
        e_0 = weight(0, 0.0, first.unit)
        s = step(e, e_0, L_f, L_g)
        y = x + momentum(k) * (x - old)
        old, x = x, project(y - s * (p.grad_g(y) + e * p.grad_f(y)))
        total, z = total + e, (total * z + e * x) / (total + e)
        yield z if name == "ire-pg" else x


def plain_sedm(
    name: str, run: list[Any], p: Planted, project: Project, x: Vector, steps: int
) -> Iterator[Vector]:
    first = run[0]
    (L_f, L_g), u = first.smoothness, first.unit
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
    problem, u, eta = p.problem(), first.unit, 0.1 * first.unit
    L_f, L_g, low = problem.upper.lipschitz, problem.lower.lipschitz, problem.lower.lower_bound
    y, t, size_0, ends = x, 1.0, 0.0, []
    for k in range(steps):
        L = L_g + eta * L_f or 1 / first.step_size * eta / first.eta
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
    u, s, s_old = first.unit, first.step_size, first.step_size
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
            s_old, s = s, min(*bounds, first.most) or s / 2
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
    eta = L_g / sigma * (2 * math.log(K) / K) ** 2 if L_g else first.upper_weight
    L = L_g + eta * f.lipschitz if L_g else 1 / first.step_size
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
        z = y - first.lower_step * p.grad_g(y)
        old, x = x, project(z - first.upper_step / k * p.grad_f(z))
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
