"""CG-BiO and Bisec-BiO against their theory, and the two oracles that they rest on."""
# ruff: noqa: E501 (the sentences of the errors stay in one piece)

from __future__ import annotations

import itertools
import math
import warnings

import array_api_strict
import cvxpy as cp
import numpy as np
import pytest
from planted.smooth import planted
from scipy.optimize import linprog

import tiebreak as tb
from tiebreak.algorithms.rivals.bisec_bio import BisecBiO
from tiebreak.algorithms.rivals.cg_bio import CGBiO
from tiebreak.functions import level_sets
from tiebreak.sets.lmo import argmin_cut

EPS = np.finfo(np.float64).eps
COMPACT = ["Ball", "Box", "Simplex", "L1Ball"]
DOMAINS = [*COMPACT, "Space", "Orthant", "Monotone", "Halfspace"]


def make_domain(kind, rng, n, size=1.0):
    """A domain of about this size."""
    if kind == "Ball":
        center = size * rng.normal(size=n) if rng.random() < 0.5 else None
        return tb.Ball(size * rng.uniform(0.1, 2.0), center)
    if kind == "Box":
        bounds = size * np.sort(rng.normal(size=(2, n)), axis=0)
        bounds[1] = np.where(rng.random(n) < 0.1, bounds[0], bounds[1])  # some sides have no width
        return tb.Box(*bounds) if rng.random() < 0.8 else tb.Box(-0.5 * size, 2.0 * size)
    if kind == "Simplex":
        return tb.Simplex(size * rng.uniform(0.1, 2.0))
    if kind == "L1Ball":
        return tb.L1Ball(size * rng.uniform(0.1, 2.0))
    if kind == "Halfspace":
        return tb.Halfspace(rng.normal(size=n), size * rng.normal())
    return {"Space": tb.Space, "Orthant": tb.Orthant, "Monotone": tb.Monotone}[kind]()


def scaled_domain(domain, factor):
    """factor Z."""
    if isinstance(domain, tb.Ball):
        center = None if domain.center is None else factor * domain.center
        return tb.Ball(factor * domain.radius, center)
    if isinstance(domain, tb.Box) and not isinstance(domain, tb.Orthant):
        return tb.Box(factor * domain.lower, factor * domain.upper)
    if isinstance(domain, tb.Simplex):
        return tb.Simplex(factor * domain.total)
    if isinstance(domain, tb.L1Ball):
        return tb.L1Ball(factor * domain.radius)
    if isinstance(domain, tb.Halfspace):
        return tb.Halfspace(domain.normal, factor * domain.offset)
    return domain


def vector(rng, n):
    """Ordinary entries, ties, zeros, one size beside another."""
    style = rng.integers(5)
    if style == 0:
        return rng.integers(-2, 3, n).astype(float)
    if style == 1:
        return np.zeros(n)
    if style == 2:
        return rng.normal(size=n) * 10.0 ** rng.uniform(-8, 8, n)
    return rng.normal(size=n)


def constraints(domain, x):
    """The domain in CVXPY's words."""
    n = x.shape[0]
    if isinstance(domain, tb.Ball):
        return [
            cp.norm(x - (np.zeros(n) if domain.center is None else domain.center)) <= domain.radius
        ]
    if isinstance(domain, tb.Orthant):
        return [x >= 0]
    if isinstance(domain, tb.Box):
        return [x >= domain.lower, x <= domain.upper]
    if isinstance(domain, tb.Simplex):
        return [x >= 0, cp.sum(x) == domain.total]
    if isinstance(domain, tb.L1Ball):
        return [cp.norm1(x) <= domain.radius]
    if isinstance(domain, tb.Halfspace):
        return [domain.normal @ x <= domain.offset]
    if isinstance(domain, tb.Monotone):
        return [cp.diff(x) >= 0] if n > 1 else []
    return []


# --- linear minimisation over a set and a cut ----------------------------------------------------


def cut_case(kind, rng):
    n = int(rng.choice([1, 2, 3, 8, 30]))
    domain = make_domain(kind, rng, n)
    d, c = vector(rng, n), vector(rng, n)
    if rng.random() < 0.1:
        d = rng.choice([-1.0, 1.0, 1e-14]) * c  # parallel, or nearly zero beside c
    low, high = -domain.support(-c), domain.support(c)
    share = rng.choice([0.0, 1e-12, 0.1, 0.5, 0.9, 1.0, 1.5, rng.random()])
    return domain, d, c, low + share * (high - low)


def optimality(domain, d, c, beta, s, mu):
    """Relative residuals: duality gap, cut, membership."""
    reach = domain.farthest(np.zeros_like(d))
    size = (np.linalg.norm(d) + mu * np.linalg.norm(c)) * reach + mu * abs(beta)
    dual = -domain.support(-(d + mu * c)) - mu * beta
    gap = (d @ s - dual) / (size or 1.0)
    cut = (c @ s - beta) / (np.linalg.norm(c) * reach + abs(beta) or 1.0)
    return gap, cut, np.linalg.norm(s - domain.project(s)) / reach


@pytest.mark.parametrize("kind", COMPACT)
def test_argmin_cut_closes_the_duality_gap(kind, count):
    """A feasible s whose value is that of the dual at mu is optimal, whatever found it."""
    rng = np.random.default_rng(1)
    worst = np.zeros(3)
    for _ in range(count(400, 20_000)):
        domain, d, c, beta = cut_case(kind, rng)
        s, mu = argmin_cut(domain, d, c, beta)
        assert 0.0 <= mu < math.inf
        worst = np.maximum(worst, optimality(domain, d, c, beta, s, mu))
    assert max(worst) <= 1e-13, worst
    print(f"\nargmin_cut on {kind}: gap {worst[0]:.1e}, cut {worst[1]:.1e}, set {worst[2]:.1e}")


@pytest.mark.parametrize("kind", ["Box", "Simplex", "L1Ball"])
def test_argmin_cut_agrees_with_a_linear_program(kind, count):
    rng = np.random.default_rng(2)
    for _ in range(count(25, 400)):
        n = int(rng.choice([1, 2, 5, 12]))
        domain = make_domain(kind, rng, n)
        d, c = rng.integers(-3, 4, n) * 1.0, rng.integers(-3, 4, n) * 1.0
        low, high = -domain.support(-c), domain.support(c)
        beta = low + rng.choice([0.01, 0.3, 0.7]) * (high - low)
        s, _ = argmin_cut(domain, d, c, beta)
        if kind == "L1Ball":  # x = p - q, p and q >= 0, sum p + q <= radius
            rows = np.vstack([np.r_[c, -c], np.ones(2 * n)])
            found = linprog(np.r_[d, -d], rows, [beta, domain.radius], bounds=(0, None))
        elif kind == "Simplex":
            found = linprog(d, c[None], [beta], np.ones((1, n)), [domain.total], bounds=(0, None))
        else:
            zeros = np.zeros(n)
            sides = np.column_stack([zeros + domain.lower, zeros + domain.upper])
            found = linprog(d, c[None], [beta], bounds=sides)
        assert found.status == 0
        assert d @ s == pytest.approx(found.fun, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", COMPACT)
def test_argmin_cut_is_free_of_scale(kind, count):
    rng = np.random.default_rng(3)
    for _ in range(count(60, 1000)):
        domain, d, c, beta = cut_case(kind, rng)
        s, mu = argmin_cut(domain, d, c, beta)
        p, q, r = (2.0 ** int(k) for k in rng.integers(-490, 491, 3))
        far, far_mu = argmin_cut(scaled_domain(domain, r), p * d, q * c, q * (r * beta))
        assert np.all(np.isfinite(far))
        assert np.linalg.norm(far / r - s) <= 1e-12 * domain.farthest(np.zeros_like(d))
        if mu and 1e-290 < mu * (p / q) < 1e290:
            assert far_mu == pytest.approx(mu * (p / q), rel=1e-9)


@pytest.mark.parametrize("kind", COMPACT)
def test_a_cut_that_leaves_nothing_gives_the_best_of_the_lowest_points(kind):
    rng = np.random.default_rng(4)
    for _ in range(50):
        n = int(rng.choice([1, 3, 8]))
        domain = make_domain(kind, rng, n)
        d, c = rng.normal(size=n), rng.integers(-1, 2, n).astype(float)
        if not c.any():
            continue
        low = -domain.support(-c)
        reach = domain.farthest(np.zeros(n))
        for beta in (low, low - 1e-15 * abs(low), low - reach, -1e300):
            s, mu = argmin_cut(domain, d, c, beta)
            assert math.isfinite(mu)
            assert c @ s <= low + 1e-14 * n * reach
            assert np.linalg.norm(s - domain.project(s)) <= 1e-14 * reach
        if kind == "Simplex":
            assert d @ s == pytest.approx(domain.total * min(d[c == c.min()]), rel=1e-12)
        if kind == "Box":
            free = np.where(c == 0, d, 0.0)  # where c says nothing, d decides
            assert free @ s == pytest.approx(-domain.support(-free), rel=1e-12, abs=1e-12)


def test_a_zero_normal_cuts_nothing_off():
    d = np.array([1.0, -2.0])
    for normal in (np.zeros(2), np.full(2, 5e-324)):
        s, mu = argmin_cut(tb.L1Ball(3.0), d, normal, -1.0)
        assert mu == 0.0
        assert np.array_equal(s, [0.0, 3.0])


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", COMPACT)
@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_argmin_cut_keeps_library_and_dtype_and_leaves_inputs_alone(kind, library, dtype):
    rng = np.random.default_rng(5)
    for _ in range(20):
        domain = make_domain(kind, rng, 6)
        d_host, c_host = rng.normal(size=(2, 6)).astype(dtype)
        beta = float(c_host @ domain.argmin(d_host)) - 0.1
        beta = max(beta, -domain.support(-c_host))
        d, c = library.asarray(d_host, copy=True), library.asarray(c_host, copy=True)
        s, mu = argmin_cut(domain, d, c, beta)
        assert type(s) is type(d)
        assert s.dtype == d.dtype
        assert isinstance(mu, float)
        assert np.array_equal(np.asarray(d), d_host)
        assert np.array_equal(np.asarray(c), c_host)
        long, _ = argmin_cut(domain, d_host.astype(float), c_host.astype(float), beta)
        value = d_host.astype(float) @ np.asarray(s, dtype=float)
        assert value == pytest.approx(d_host.astype(float) @ long, abs=1e-3, rel=1e-3)


# --- the projection onto Z and a sublevel set ----------------------------------------------------


def make_upper(kind, rng, n):
    if kind == "SquaredNorm":
        center = None if rng.random() < 0.3 else rng.normal(size=n)
        return tb.SquaredNorm(10.0 ** rng.uniform(-2, 2), center)
    if kind == "Linear":
        return tb.Linear(rng.normal(size=n))
    if kind == "sum":
        parts = [
            tb.SquaredNorm(0.5),
            3.0 * tb.SquaredNorm(2.0, rng.normal(size=n)),
            tb.Linear(rng.normal(size=n)),
            0.5 * tb.SquaredNorm(1.5),
        ]
        chosen = [parts[i] for i in rng.permutation(4)[: rng.integers(2, 5)]]
        return 2.0 * sum(chosen)
    A, b = rng.normal(size=(int(rng.integers(1, n + 3)), n)), rng.normal()
    if kind == "LeastSquares":
        weights = rng.uniform(0.1, 9.0, len(A)) if rng.integers(2) else None
        is_mean = bool(rng.integers(2))
        return 0.7 * tb.LeastSquares(A, A @ rng.normal(size=n) + b, is_mean, weights=weights)
    return tb.Quadratic(A.T @ A, A.T @ rng.normal(size=len(A)), 0.3)


def solved(objective, domain, x, f, level):
    """The minimum over Z ∩ {f <= level} by a conic solver, None where it gives up."""
    problem = cp.Problem(cp.Minimize(objective), [*constraints(domain, x), conic(f, x) <= level])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.error.SolverError:
            return None
    return problem.value if problem.status == "optimal" else None


def conic(f, x):
    """f in CVXPY's words."""
    if isinstance(f, tb.SquaredNorm):
        return f.weight / 2 * cp.sum_squares(x if f.center is None else x - f.center)
    if isinstance(f, tb.Linear):
        return f.c @ x
    if isinstance(f, tb.LeastSquares):
        return f.scale / 2 * cp.sum_squares(f.matrix.entries @ x - f.b)
    if isinstance(f, tb.Quadratic):
        return cp.quad_form(x, cp.psd_wrap(f.matrix.entries)) / 2 + f.c @ x + f.constant
    if hasattr(f, "function"):
        return f.weight * conic(f.function, x)
    return conic(f.first, x) + conic(f.second, x)


CASES = [
    *itertools.product(["SquaredNorm", "Linear", "sum"], DOMAINS),
    ("Quadratic", "Space"),
    ("LeastSquares", "Space"),
]


def sublevel_case(upper, kind, rng):
    """f, Z, v, a level between the least value and f(Pi_Z(v)), and the sublevel sets."""
    n = int(rng.choice([1, 2, 3, 8]))
    domain, f = make_domain(kind, rng, n), make_upper(upper, rng, n)
    v = rng.normal(size=n) * 10.0 ** rng.uniform(-1, 1)
    sets = level_sets.find(f, domain)
    least, here = sets.least(v), f.value(domain.project(v))
    if least == -math.inf:
        least = here - 1.0
    share = rng.choice([1e-3, 0.1, 0.5, 0.9, 1.1])
    return f, domain, v, least + share * (here - least), sets


@pytest.mark.sample(2)
@pytest.mark.parametrize(("upper", "kind"), CASES)
def test_projections_onto_sublevel_sets_satisfy_their_optimality_conditions(upper, kind, count):
    """f(z) <= level, z in Z, lam (f(z) - level) = 0, and z = Pi_Z(z + (v - z - lam grad f(z)))."""
    rng = np.random.default_rng(6)
    for _ in range(count(40, 1000)):
        f, domain, v, level, sets = sublevel_case(upper, kind, rng)
        z, lam = sets.project(v, level)
        size = np.linalg.norm(v) + np.linalg.norm(z) + 1.0
        scale = abs(level) + abs(f.value(v)) + np.linalg.norm(f.gradient(z)) * size
        if not math.isfinite(lam):
            assert f.value(z) == pytest.approx(sets.least(v), abs=1e-9 * scale)
            continue
        assert lam >= 0.0
        assert f.value(z) <= level + 1e-12 * scale
        assert np.linalg.norm(z - domain.project(z)) <= 1e-12 * size
        if lam * scale > 1e-9 * size:
            assert f.value(z) == pytest.approx(level, abs=1e-9 * scale)
        again = domain.project(v - lam * f.gradient(z))
        assert np.linalg.norm(again - z) <= 1e-9 * (size + lam * np.linalg.norm(f.gradient(z)))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("upper", "kind"), CASES)
def test_projections_onto_sublevel_sets_agree_with_a_conic_solver(upper, kind, count):
    rng = np.random.default_rng(7)
    compared = 0
    for _ in range(count(2, 30)):
        f, domain, v, level, sets = sublevel_case(upper, kind, rng)
        z, _ = sets.project(v, level)
        x = cp.Variable(len(v))
        square = solved(cp.sum_squares(x - v), domain, x, f, level)
        if square is not None:
            distance = np.linalg.norm(z - v)
            assert distance == pytest.approx(math.sqrt(max(square, 0.0)), rel=1e-5, abs=1e-4)
            compared += 1
    assert compared


@pytest.mark.sample(2)
@pytest.mark.parametrize(("upper", "kind"), CASES)
def test_lowest_bounds_linear_functions_from_below(upper, kind, count):
    """Never above the minimum, and equal to it for balls, and for half-spaces if Z is bounded."""
    rng = np.random.default_rng(8)
    for _ in range(count(2, 30)):
        f, domain, v, level, sets = sublevel_case(upper, kind, rng)
        p = rng.normal(size=len(v))
        bound = sets.lowest(p, level)
        x = cp.Variable(len(v))
        value = solved(p @ x, domain, x, f, level)
        if value is None:
            continue
        assert bound <= value + 1e-5 * (1.0 + abs(value))
        if upper == "SquaredNorm" or (upper == "Linear" and kind in COMPACT):
            assert bound == pytest.approx(value, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("kind", DOMAINS)
def test_a_level_below_the_least_value_gives_a_minimiser_of_f(kind):
    rng = np.random.default_rng(9)
    domain, f = make_domain(kind, rng, 5), tb.SquaredNorm(2.0, rng.normal(size=5))
    sets = level_sets.find(f, domain)
    z, lam = sets.project(rng.normal(size=5), sets.least(f.center) - 1.0)
    assert lam == math.inf
    assert np.allclose(z, domain.project(f.center), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("kind", DOMAINS)
def test_balls_are_free_of_scale(kind, count):
    rng = np.random.default_rng(10)
    for _ in range(count(20, 300)):
        n = int(rng.choice([1, 3, 8]))
        domain, center, v = make_domain(kind, rng, n), rng.normal(size=n), rng.normal(size=n)
        f = tb.SquaredNorm(1.0, center)
        sets = level_sets.find(f, domain)
        least = sets.least(v)
        level = least + 0.3 * (f.value(domain.project(v)) - least)
        z, lam = sets.project(v, level)
        r = 2.0 ** int(rng.integers(-490, 491))
        far_sets = level_sets.find(tb.SquaredNorm(1.0, r * center), scaled_domain(domain, r))
        far, far_lam = far_sets.project(r * v, r * (r * level))
        assert np.linalg.norm(far / r - z) <= 1e-9 * (np.linalg.norm(z) + np.linalg.norm(center))
        assert far_lam == pytest.approx(lam, rel=1e-6) or lam > 1e9


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sublevel_sets_keep_library_and_dtype_and_leave_inputs_alone(library, dtype):
    rng = np.random.default_rng(11)
    A, c, v_host = (rng.normal(size=s).astype(dtype) for s in [(4, 4), 4, 4])
    uppers = [
        (tb.SquaredNorm(2.0, library.asarray(c)), tb.Simplex()),
        (tb.SquaredNorm(2.0), tb.L1Ball()),
        (tb.Linear(library.asarray(c)), tb.Orthant()),
        (tb.LeastSquares(library.asarray(A), library.asarray(c)), tb.Space()),
    ]
    for f, domain in uppers:
        sets = level_sets.find(f, domain)
        v = library.asarray(v_host, copy=True)
        here = f.value(domain.project(v))
        level = here - 0.1 * abs(here)
        z, lam = sets.project(v, level)
        assert type(z) is type(v)
        assert z.dtype == v.dtype
        assert isinstance(lam, float)
        assert np.array_equal(np.asarray(v), v_host)
        assert f.value(z) <= max(level, sets.least(v)) + 1e-5 * (1.0 + abs(level))


def test_a_quadratic_that_falls_for_ever_has_no_least_value():
    falls = tb.Quadratic(np.diag([1.0, 0.0]), np.array([0.0, 1.0]))
    sets = level_sets.find(falls, tb.Space())
    assert sets.least(np.zeros(2)) == -math.inf
    flat = tb.Quadratic(np.diag([1.0, 0.0]), np.array([2.0, 0.0]), 5.0)
    assert level_sets.find(flat, tb.Space()).least(np.ones(2)) == pytest.approx(3.0, rel=1e-14)


# --- CG-BiO --------------------------------------------------------------------------------------


def second_phase(method, problem, x0, limit=5000):
    """The states of the second phase, from its first on; none if it is not reached."""
    state = method.init(problem, x0)
    for _ in range(limit):
        if state.memory.first is None:
            break
        state = method.step(problem, state)
    while state.memory.first is None and not state.memory.finished[0]:
        yield state
        state = method.step(problem, state)


def test_cg_bio_keeps_its_theorem_on_planted_problems(count):
    """f(x_k) - f* <= 2 L_f D²/(k+1) and g(x_k) - g* <= 2 L_g D²/(k+1) + eps_g/2 at every step."""
    steps, worst = 0, np.zeros(2)
    for p in map(planted, range(count(40, 2288))):
        problem = p.problem()
        if not problem.is_bounded:
            continue
        D2 = problem.domain.diameter_in(p.n) ** 2
        eps_g = 1e-3 * (p.g_scale + p.L_g * D2)
        method = CGBiO(eps_f=1e-12 * (p.f_scale + p.L_f * D2 + 1e-300), eps_g=eps_g + 1e-300)
        for state in itertools.islice(second_phase(method, problem, p.x0), 60):
            rounding = 1e-12 * (p.f_scale + p.L_f * D2), 1e-12 * (p.g_scale + p.L_g * D2)
            errors = state.upper_value - p.f_star, state.lower_value - p.g_star
            if state.k == 0:
                assert errors[1] <= 0.5 * eps_g + rounding[1], p.kind
                continue
            bounds = (
                2.0 * p.L_f * D2 / (state.k + 1) + rounding[0],
                2.0 * p.L_g * D2 / (state.k + 1) + 0.5 * eps_g + rounding[1],
            )
            assert errors[0] <= bounds[0], p.kind
            assert errors[1] <= bounds[1], p.kind
            if state.k > 2:
                shares = [e / b if b > 0.0 else 0.0 for e, b in zip(errors, bounds, strict=True)]
                worst = np.maximum(worst, shares)
            steps += 1
    assert steps > count(400, 1000)
    print(f"\nCG-BiO: {steps} steps, at most {worst[0]:.2f} and {worst[1]:.2f} of the theorem's")


def groups():
    """Many minimisers on the simplex: five groups of four with given sums; f chooses the middle."""
    A = np.kron(np.eye(5), np.ones((1, 4)))
    x = np.full(20, 1 / 20)
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, A @ x), domain=tb.Simplex()
    )
    return problem, x, 1 / 40


def slope(ks, errors):
    """The slope in log-log between the largest errors of [k, 2k) at the first and last k."""
    ends = [max(errors[k : 2 * k]) for k in (ks[0], ks[-1])]
    return math.log(max(ends[1], 1e-300) / ends[0]) / math.log(ks[-1] / ks[0])


def test_cg_bio_converges_at_its_published_rate_on_both_levels(count):
    problem, _, f_star = groups()
    method = CGBiO(eps_f=1e-14, eps_g=1e-12)
    states = second_phase(method, problem, np.eye(20)[0])
    last = count(1000, 10_000)
    values = [(s.upper_value, s.lower_value) for s in itertools.islice(states, 2 * last)]
    upper, lower = zip(*values, strict=True)
    slopes = (
        slope((last // 100, last), [abs(v - f_star) for v in upper]),
        slope((last // 100, last), lower),
    )
    assert max(slopes) <= -1.0
    print(f"\nCG-BiO: slopes {slopes[0]:.2f} (upper) and {slopes[1]:.2f} (lower), published -1")


def test_the_stopping_rule_of_cg_bio_proves_what_it_says():
    problem, _, f_star = groups()
    result = tb.solve(problem, CGBiO(eps_f=1e-3, eps_g=1e-3), x0=np.eye(20)[0], rtol=0.0)
    assert result.status == "solved"
    assert "CG-BiO stopped because <grad f, x - s> =" in result.message
    assert result.upper_value - f_star <= 1e-3
    assert result.lower_value <= 1e-3


def test_the_paper_run_of_cg_bio_takes_short_steps():
    problem, _, _ = groups()
    fast, slow = (
        tb.solve(problem, CGBiO(eps_g=1e-6, scale=scale), x0=np.eye(20)[0], rtol=0.0, max_iter=300)
        for scale in (2.0, 1e-2)
    )
    assert "gamma_k = 0.01/(k+2)" in slow.method
    assert slow.upper_value > fast.upper_value


# --- Bisec-BiO -----------------------------------------------------------------------------------


def ill_posed(seed=0, n=40, rows=15):
    """A consistent system with decaying singular values in a ball: n - rows dimensions of ties."""
    rng = np.random.default_rng(seed)
    left, _ = np.linalg.qr(rng.normal(size=(rows, rows)))
    right, _ = np.linalg.qr(rng.normal(size=(n, rows)))
    A = (left * np.arange(1.0, rows + 1.0) ** -2.0) @ right.T
    inside, center = (w / np.linalg.norm(w) for w in rng.normal(size=(2, n)))
    b = A @ (2.0 * inside)
    x = center + np.linalg.lstsq(A, b - A @ center, rcond=None)[0]
    problem = tb.Problem(
        upper=tb.SquaredNorm(center=center), lower=tb.LeastSquares(A, b), domain=tb.Ball(4.0)
    )
    assert np.linalg.norm(x) < 4.0
    return problem, x


def test_bisec_bio_converges_at_its_published_rate(count):
    """Gradients in all ~ log(1/eps)/sqrt(eps): at most 10 (log 1e5/log 1e3) more for eps/100."""
    for seed in range(count(1, 5)):
        problem, x = ill_posed(seed)
        f_star, g_0 = problem.upper.value(x), problem.lower.value(np.zeros(40))
        gradients, accuracies = [], (1e-3, 1e-4, 1e-5)[: count(2, 3)]
        for eps in accuracies:
            method = BisecBiO(eps_f=eps * f_star, eps_g=eps * g_0)
            result = tb.solve(problem, method, rtol=0.0, max_iter=100_000)
            assert result.status == "solved"
            assert result.findings.capped == 0
            assert result.upper_value - f_star <= eps * f_star
            assert result.lower_value <= eps * g_0
            gradients.append(result.trace[-1].lower_gradients)
        ratio = accuracies[0] / accuracies[-1]
        logarithms = math.log(accuracies[-1]) / math.log(accuracies[0])
        assert gradients[-1] <= math.sqrt(ratio) * logarithms * gradients[0]
        print(f"\nBisec-BiO: {gradients} gradients for eps = {accuracies}")


@pytest.mark.parametrize("n", [1, *(pytest.param(n, marks=pytest.mark.full) for n in (3, 100))])
def test_bisec_bio_solves_the_inverse_problem_of_the_paper(n):
    problem = tb.Problem(
        upper=tb.SquaredNorm(),
        lower=tb.LeastSquares(np.ones((1, n)), np.ones(1)),
        domain=tb.Orthant(),
    )
    x0 = np.random.default_rng(0).random(n)
    paper = BisecBiO(eps_f=1e-4, eps_g=1e-4, gradients=100)
    result = tb.solve(problem, paper, x0=x0, rtol=0.0)
    assert result.status == "solved"
    assert result.upper_value - 0.5 / n <= 1e-4
    assert result.lower_value <= 1e-4
    fine = tb.solve(problem, BisecBiO(eps_f=1e-9, eps_g=1e-14), x0=x0, rtol=0.0, max_iter=100_000)
    assert fine.status == "solved"
    # f may be below f* as far as g(x) > 0 allows: |x| >= (1 - sqrt(2 g))/sqrt(n).
    assert -2.0 * math.sqrt(2e-14) / n <= fine.upper_value - 0.5 / n <= 1e-9
    assert "tests" in fine.details()


def test_a_call_that_is_cut_off_is_reported():
    problem, _ = ill_posed()
    result = tb.solve(problem, BisecBiO(eps_f=1e-3, eps_g=1e-9, gradients=20), rtol=0.0)
    assert result.status == "undetermined"
    assert not result.success
    assert result.findings.capped > 0
    assert "calls were cut off, so nothing is guaranteed" in result.message
    assert result.trace[-1].lower_gradients <= 20 * (result.findings.calls + 1)


def test_a_bisection_to_the_last_bit_ends():
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(np.ones((1, 2)), [1.0]), domain=tb.Ball()
    )
    result = tb.solve(problem, BisecBiO(eps_f=1e-300, eps_g=1e-2), rtol=0.0)
    assert result.status == "solved"
    assert "no float lies between l and u" in result.message


def test_the_inner_iterate_is_there_to_look_at():
    problem, _ = ill_posed()
    method = BisecBiO(eps_f=1e-3, eps_g=1e-6)
    state = method.init(problem, np.zeros(40))
    apart = 0
    for _ in range(2000):
        state = method.step(problem, state)
        apart += not np.array_equal(state.memory.call.run.x.x, state.x)
        assert state.upper_value == pytest.approx(problem.upper.value(state.x), rel=1e-12)
        assert problem.upper.value(state.memory.call.run.x.x) <= state.memory.call.level * (
            1 + 1e-12
        )
    assert apart > 0


# --- both ----------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("make", [CGBiO, lambda: BisecBiO(gradients=60)])
def test_certificates_are_never_wrong_on_planted_problems(make, count):
    number, runs, finite = count(16, 2288), 0, 0
    for p in map(planted, range(number)):
        problem, method = p.problem(), make()
        if method.check(problem):
            continue
        result = tb.solve(problem, method, x0=p.x0, rtol=0.0, max_iter=120)
        of_f = 8 * EPS * (p.f_scale + abs(result.upper_value))
        of_g = 8 * EPS * (p.g_scale + abs(result.lower_value))
        proof, x = result.certificate, result.x
        assert result.status in ("solved", "max_iter", "certified", "undetermined"), p.kind
        assert proof.upper_optimum[0] - of_f <= p.f_star <= proof.upper_optimum[1] + of_f, p.kind
        assert proof.lower_optimum[0] - of_g <= p.g_star <= proof.lower_optimum[1] + of_g, p.kind
        assert proof.upper_gap >= p.f(x) - p.f_star - of_f, p.kind
        assert proof.lower_gap >= p.g(x) - p.g_star - of_g, p.kind
        for row in result.trace:
            of_row = 8 * EPS * (abs(row.upper_value) + abs(row.lower_value))
            assert row.upper_gap >= row.upper_value - p.f_star - of_f - of_row, p.kind
            assert row.lower_gap >= row.lower_value - p.g_star - of_g - of_row, p.kind
        runs += 1
        finite += math.isfinite(result.upper_gap)
    assert runs > min(15, number // 10)
    print(f"\n{method.name}: {runs} planted problems, none wrong, {finite} with a finite upper gap")


def test_the_certificate_of_cg_bio_follows_its_gap(count):
    """f* >= f(x_k) - <grad f, x_k - s_k> at every step, to rounding, and so says the ledger."""
    problem, _, f_star = groups()
    eps = 1e-4 * count(4, 1)
    result = tb.solve(problem, CGBiO(eps_f=eps, eps_g=eps), x0=np.eye(20)[0], rtol=0.0)
    assert result.upper_optimum[0] <= f_star
    assert result.upper_gap <= 1.01 * eps
    assert result.lower_gap <= 1.01 * eps


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", [CGBiO(), BisecBiO()])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_methods_keep_library_and_dtype(method, dtype):
    xp = array_api_strict
    rng = np.random.default_rng(12)
    A, b = (rng.normal(size=s).astype(dtype) for s in [(3, 6), 3])
    problem = tb.Problem(
        upper=tb.SquaredNorm(),
        lower=tb.LeastSquares(xp.asarray(A), xp.asarray(b)),
        domain=tb.Ball(),
    )
    host = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b), domain=tb.Ball())
    x0 = np.full(6, 0.3, dtype=dtype)
    start = xp.asarray(x0, copy=True)
    result = tb.solve(problem, method, x0=start, max_iter=100)
    assert result.x.dtype == start.dtype
    assert np.array_equal(np.asarray(start), x0)
    other = tb.solve(host, method, x0=x0, max_iter=100)
    assert np.asarray(result.upper_value) == pytest.approx(other.upper_value, rel=1e-2)


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", [CGBiO(eps_g=1e-6), BisecBiO(eps_f=1e-4, eps_g=1e-6)])
def test_a_run_goes_on_from_its_checkpoint_to_the_last_bit(method, tmp_path):
    problem, _ = ill_posed()
    whole = tb.solve(problem, method, rtol=0.0, max_iter=800)
    for steps in (3, 150, 500, 800):
        parts = tb.solve(problem, method, rtol=0.0, max_iter=steps, checkpoint=tmp_path / "run.npz")
    assert np.array_equal(whole.x, parts.x)
    assert whole.nit == parts.nit
    assert whole.upper_optimum == parts.upper_optimum
    assert whole.trace[-1].lower_gradients == parts.trace[-1].lower_gradients


def test_gradients_are_counted_as_they_are_spent():
    problem, _ = ill_posed()
    result = tb.solve(problem, BisecBiO(eps_f=1e-3, eps_g=1e-6), rtol=0.0)
    row, calls = result.trace[-1], result.findings.calls + 1
    assert row.lower_gradients == result.nit + calls  # one per step and one where a call begins
    assert row.upper_gradients <= calls + 1
    result = tb.solve(problem, CGBiO(eps_g=1e-3), rtol=0.0, max_iter=400)
    assert result.trace[-1].upper_gradients <= result.nit + 2
    assert result.trace[-1].lower_gradients >= result.nit


@pytest.mark.parametrize("scale", [1e-200, 1e-120, 1.0])
def test_the_tolerance_of_bisec_bio_has_the_scale_of_g(scale):
    """g is 0 at the start: its slope tells the scale, though the square of that underflows."""
    lower = tb.Quadratic(scale * np.diag([2.0, 1.0, 0.0]), scale * np.array([1.0, -1.0, 0.0]))
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Space())
    result = tb.solve(problem, "bisec-bio")
    np.testing.assert_allclose(result.x, [-0.5, 1.0, 0.0], atol=0.02)


@pytest.mark.parametrize("method", [CGBiO(), BisecBiO()])
def test_linear_levels_and_one_variable(method):
    """Linear above, linear below, one variable, a start that is the answer already."""
    c, e = np.array([1.0, 2.0, -1.0]), np.array([1.0, 1.0, 0.0])
    box = tb.Box(np.zeros(3), np.ones(3))
    linear_above = tb.Problem(upper=tb.Linear(c), lower=tb.LeastSquares(e[None], [1.0]), domain=box)
    linear_below = tb.Problem(upper=tb.SquaredNorm(), lower=tb.Linear(c), domain=box)
    both = tb.Problem(upper=tb.Linear(e), lower=tb.Linear(np.array([0.0, 0.0, 1.0])), domain=box)
    one = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares([[2.0]], [1.0]), domain=tb.Ball()
    )
    for problem, f_star, g_star in (
        (linear_above, 0.0, 0.0), (linear_below, 0.5, -1.0), (both, 0.0, 0.0), (one, 0.125, 0.0),
    ):  # fmt: skip
        result = tb.solve(problem, method, rtol=0.0, max_iter=3000)
        assert result.upper_value - f_star <= 2e-3
        assert result.lower_value - g_star <= 2e-3
        assert result.upper_optimum[0] <= f_star
    assert tb.solve(one, method, x0=[0.5]).success


REFUSED = [
    (
        CGBiO(),
        {"domain": tb.Orthant()},
        "CGBiO: domain must be bounded, got Orthant",
    ),
    (
        CGBiO(),
        {"lower": tb.Smooth(lambda x: float(x @ x), lambda x: 2 * x)},
        "CGBiO: lower must have a known Lipschitz constant, got none; "
        "give Smooth(..., lipschitz=...)",
    ),
    (
        BisecBiO(),
        {"upper": tb.LeastSquares(np.eye(2), np.ones(2))},
        "BisecBiO: upper must have an easy projection onto {upper <= c} ∩ domain, as linear "
        "functions and distances from a point have on every domain, and quadratics on R^n, got LeastSquares on Ball",
    ),
    (
        BisecBiO(),
        {"upper": tb.Linear([1.0, -1.0]), "domain": tb.Orthant()},
        "BisecBiO: upper must be bounded below on the domain, "
        "got a function that is unbounded below on Orthant",
    ),
    (
        BisecBiO(),
        {"lower": tb.Smooth(lambda x: float(x @ x), lambda x: 2 * x)},
        "BisecBiO: lower must have a known Lipschitz constant, got none; "
        "give Smooth(..., lipschitz=...)",
    ),
]


@pytest.mark.parametrize(("method", "changes", "sentence"), REFUSED)
def test_a_problem_outside_the_assumptions_is_refused_with_one_sentence(method, changes, sentence):
    parts = {
        "upper": tb.SquaredNorm(),
        "lower": tb.LeastSquares(np.ones((1, 2)), np.ones(1)),
        "domain": tb.Ball(),
    }
    with pytest.raises(ValueError, match=method.__class__.__name__) as caught:
        tb.solve(tb.Problem(**{**parts, **changes}), method, x0=np.zeros(2))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: CGBiO(scale=3), ValueError, "CGBiO: scale must be a number in (0, 2], got 3"),
        (lambda: CGBiO(scale="2"), TypeError, "CGBiO: scale must be a number in (0, 2], got str"),
        (lambda: CGBiO(eps_f=0), ValueError, "CGBiO: eps_f must be a positive finite number, got 0"),
        (lambda: BisecBiO(eps_g=-1), ValueError, "BisecBiO: eps_g must be a positive finite number, got -1"),
        (lambda: BisecBiO(gradients=1), ValueError, "BisecBiO: gradients must be a whole number >= 2, got 1"),
        (lambda: BisecBiO(gradients=9.0), TypeError, "BisecBiO: gradients must be a whole number >= 2, got float"),
    ],
)  # fmt: skip
def test_wrong_parameters_get_one_clear_sentence(make, error, sentence):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == sentence
