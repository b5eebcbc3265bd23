"""P-AGM-BiO against its own theory: identities at every step, theorems on planted problems.

With f = f1 + f2, g = g1 + g2, D_h(p) = h(p) - h(y_k) - <grad h(y_k), p - y_k> and any u in the cut

    X_k = { z in Z : l_k(z) + g2(z) <= g_k },   l_k(z) = g1(y_k) + <grad g1(y_k), z - y_k>,

the Lemma of the paper's appendix is what is left of two identities when their signs are used:

    A_{k+1}(f(x_{k+1}) - f(u)) + |z_{k+1} - u|²/2 - [A_k(f(x_k) - f(u)) + |z_k - u|²/2]
    = A_{k+1} D_f1(x_{k+1}) - A_k D_f1(x_k) - a_k D_f1(u) - |z_{k+1} - z_k|²/2 - V_k + J_k(f2),
    A_{k+1} g(x_{k+1}) - A_k g(x_k)
    = a_k (l_k(z_{k+1}) + g2(z_{k+1})) + A_{k+1} D_g1(x_{k+1}) - A_k D_g1(x_k) + J_k(g2),

    V_k = <z_{k+1} - z_k + a_k grad f1(y_k), u - z_{k+1}> + a_k (f2(u) - f2(z_{k+1})) >= 0,
    J_k(h) = A_{k+1} h(x_{k+1}) - A_k h(x_k) - a_k h(z_{k+1}) <= 0,   z_{k+1} in X_k.

The auxiliary run has the first identity with b, B, w, v, u, g in place of a, A, y, z, x, f, and
with all of Z in place of X_k.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import Any

import array_api_strict as xps
import numpy as np
import pytest
from helpers.agm_bio import variants
from helpers.penalties import clarabel, conic, labels, members, plain_value, rules
from planted.smooth import planted

import tiebreak as tb
from tiebreak import theory

EPS = np.finfo(np.float64).eps
NORMS = ("Zero", "L1", "L2", "ElasticNet", "GroupL2")
DOMAINS = ("Space", "Orthant", "Ball", "Box")
KINDS = [
    (f2, g2, domain)
    for f2, g2, domain in itertools.product(NORMS, NORMS, DOMAINS)
    if domain != "Box" or not {f2, g2} & {"L2", "GroupL2"}
]


# --- composite problems in plain NumPy -----------------------------------------------------------


@dataclass
class Level:
    """h1 + h2; h1(x) = curved/2 |Bx - c|² + <slope, x>, or the logistic loss of Bx."""

    B: np.ndarray
    c: np.ndarray
    slope: np.ndarray
    curved: float
    logistic: bool
    penalty: Any

    def smooth(self, x):
        r = self.B @ x - self.c
        loss = np.sum(np.logaddexp(0.0, -r)) if self.logistic else r @ r / 2
        return float(self.curved * loss + self.slope @ x)

    def gradient(self, x):
        r = self.B @ x - self.c
        return (
            self.curved * (self.B.T @ (-1 / (1 + np.exp(r)) if self.logistic else r)) + self.slope
        )

    def value(self, x):
        return self.smooth(x) + plain_value(self.penalty, x)

    @property
    def lipschitz(self):
        return self.curved * np.linalg.norm(self.B, 2) ** 2 * (0.25 if self.logistic else 1.0)

    def build(self):
        """The same in the library's words."""
        if not self.curved:
            return tb.Linear(self.slope) + self.penalty if np.any(self.slope) else self.penalty
        loss = (
            tb.Logistic(self.B, np.ones(len(self.c)), mean=False)
            if self.logistic
            else tb.LeastSquares(self.B, self.c)
        )
        return tb.Linear(self.slope) + self.curved * loss + self.penalty


@dataclass
class Case:
    """A composite problem without a known answer."""

    f: Level
    g: Level
    domain: Any
    x0: np.ndarray
    rng: np.random.Generator

    @property
    def n(self):
        return len(self.x0)

    def problem(self):
        return tb.Problem(upper=self.f.build(), lower=self.g.build(), domain=self.domain)

    def method(self, seed):
        level = self.g.value(self.domain.project(self.x0))
        levels = (tb.OnlineLevels(), tb.FixedLevels(5), tb.GivenLevels(level))
        gamma = (None, 1.0, 0.1, 1e-3)[seed % 4]
        return tb.PAGMBiO(gamma, levels[seed // 4 % 3], horizon=50)

    def points(self, count):
        """Some points of Z."""
        size = 1.0 + np.linalg.norm(self.x0)
        return [self.domain.project(size * self.rng.normal(size=self.n)) for _ in range(count)]


def penalty(kind, rng, groups, unit):
    weight, square = unit * float(rng.exponential()), float(rng.exponential())
    return {
        "Zero": tb.Zero(),
        "L1": tb.L1(weight),
        "L2": tb.L2(weight),
        "ElasticNet": tb.ElasticNet(weight, square),
        "GroupL2": tb.GroupL2(groups, weight),
    }[kind]


def level(rng, n, h2, least):
    """A random smooth part: losses of all shapes, linear, none; ``least`` has it bounded below."""
    m = int(rng.integers(1, 2 * n + 2))
    logistic = rng.random() < 0.3
    c = np.zeros(m) if logistic else rng.normal(size=m)
    curved = 0.0 if not isinstance(h2, tb.Zero) and rng.random() < 0.2 else float(rng.exponential())
    slope = np.zeros(n) if least or rng.random() < 0.5 else rng.normal(size=n)
    return Level(rng.normal(size=(m, n)), c, slope, curved, logistic, h2)


def case(seed):
    """Problem number ``seed``: len(KINDS) in a row are one of each kind."""
    rng = np.random.default_rng([4, seed])
    f2, g2, domain = KINDS[seed % len(KINDS)]
    n = int(rng.choice([1, 2, 3, 6, 15]))
    unit = 10.0 ** rng.uniform(-2, 1)
    groups = labels(rng, n)
    Z = {
        "Space": tb.Space(),
        "Orthant": tb.Orthant(),
        "Ball": tb.Ball(float(rng.exponential()) + 0.1),
        "Box": tb.Box(*sorted(rng.normal(size=2))),
    }[domain]
    f, g = (penalty(kind, rng, groups, unit) for kind in (f2, g2))
    x0 = np.zeros(n) if rng.random() < 0.2 else rng.normal(size=n)
    return Case(level(rng, n, f, False), level(rng, n, g, True), Z, x0, rng)


def last_state(problem, method, x0, steps):
    state = method.init(problem, x0)
    for _ in range(steps):
        state = method.step(problem, state)
    return state


# --- the identities ------------------------------------------------------------------------------


def jensen(h2, A, a, x, x1, z1):
    """The terms of J = A1 h2(x1) - A h2(x) - a h2(z1)."""
    at = [plain_value(h2, p) for p in (x1, x, z1)]
    return [(A + a) * at[0], -A * at[1], -a * at[2]]


def assert_jensen(h2, A, a, x, x1, z1):
    """J <= 0, up to rounding: of the terms, and of x1 = x + a/A1 (z1 - x) itself."""
    J = jensen(h2, A, a, x, x1, z1)
    reach = float(np.linalg.norm(x) + np.linalg.norm(z1))
    of_x1 = 4 * EPS * (A + a) * h2.terms.steepness(len(x), reach) * reach
    assert math.fsum(J) <= 1e-14 * math.fsum(map(abs, J)) * math.sqrt(len(x)) + of_x1


def bregman(h, weight, p, y):
    """The terms of weight D_h1(p), seen from y."""
    return [weight * h.smooth(p), -weight * h.smooth(y), -weight * float(h.gradient(y) @ (p - y))]


def points_rounding(h, y, *weighted):
    """What rounding the points themselves does to <grad, p - y>: no identity can be better."""
    slope = np.abs(h.gradient(y))
    return 4 * EPS * sum(w * float(slope @ (np.abs(p) + np.abs(y))) for w, p in weighted)


def relative(terms, rounding):
    """|sum of the terms| beyond ``rounding``, relative to the sum of their absolute values."""
    size = math.fsum(map(abs, terms)) or 1.0
    return max(abs(math.fsum(terms)) - rounding, 0.0) / size, size


def descent(h, A, a, y, x, z, x1, z1, u):
    """The residual of the first identity, its size, and V."""
    move, penalties = z1 - z + a * h.gradient(y), [plain_value(h.penalty, p) for p in (u, z1)]
    V = float(move @ (u - z1)) + a * (penalties[0] - penalties[1])
    left = [(A + a) * h.value(x1), -(A + a) * h.value(u), -A * h.value(x), A * h.value(u)]
    left += [float((z1 - u) @ (z1 - u)) / 2, -float((z - u) @ (z - u)) / 2]
    right = bregman(h, A + a, x1, y) + bregman(h, -A, x, y) + bregman(h, -a, u, y)
    right += [-float((z1 - z) @ (z1 - z)) / 2, -V, *jensen(h.penalty, A, a, x, x1, z1)]
    rounding = points_rounding(h, y, (A + a, x1), (A, x), (a, u)) + 4 * EPS * float(z1 @ z1 + u @ u)
    return *relative([*left, *(-t for t in right)], rounding), V


def in_cut(c, before, best, count):
    """Points u of X_k: the best point so far, and points between that and others of Z."""
    y = before.g_y.at

    def excess(p):
        linear = c.g.smooth(y) + float(c.g.gradient(y) @ (p - y))
        return linear + plain_value(c.g.penalty, p) - before.level

    yield best
    for p in c.points(count):
        t = 1.0
        while t > 1e-6 and excess(best + t * (p - best)) > 0:
            t /= 2
        if excess(best + t * (p - best)) <= 0:
            yield best + t * (p - best)


def check_step(c, before, after, best):
    """The worst residual of one step; V, J, the cut and the free checks asserted."""
    norm, n = np.linalg.norm, c.n
    y, x, z, x1, z1 = before.f_y.at, before.x, before.z, after.x, after.z
    a, A = theory.step_size(before.k, before.smoothness), before.A
    slope, worst = c.g.gradient(y), 0.0
    linear = [c.g.smooth(y), float(slope @ (z1 - y))]
    g2_z1 = plain_value(c.g.penalty, z1)
    sizes = abs(c.g.smooth(y)) + abs(before.level) + norm(slope) * (norm(z1) + norm(y)) + g2_z1
    assert math.fsum([*linear, g2_z1, -before.level]) <= 1e-12 * sizes
    for u in in_cut(c, before, best, 3):
        residual, size, V = descent(c.f, A, a, y, x, z, x1, z1, u)
        worst = max(worst, residual)
        # Up to the rounding of z_{k+1}, and of the cut's own data, which weighs as much as mu.
        lengths = norm(z1) + norm(z) + a * norm(c.f.gradient(y)) + after.mu * norm(slope)
        rounding = lengths * (norm(u) + norm(z1)) + after.mu * sizes
        assert -1e-12 * size - 64 * EPS * math.sqrt(n) * rounding <= V

    terms = [(A + a) * c.g.value(x1), -A * c.g.value(x), *(-a * t for t in (*linear, g2_z1))]
    rest = bregman(c.g, A + a, x1, y) + bregman(c.g, -A, x, y)
    terms += [-t for t in rest + jensen(c.g.penalty, A, a, x, x1, z1)]
    residual, _ = relative(terms, points_rounding(c.g, y, (A + a, x1), (A, x), (a, z1)))
    for h in (c.f, c.g):
        assert_jensen(h.penalty, A, a, x, x1, z1)
    assert c.domain.contains(z1, 1e-12)
    assert after.lipschitz_violations == after.convexity_violations == (0, 0)
    for found, h in ((after.upper_value, c.f), (after.lower_value, c.g)):
        size = h.curved * float(np.sum(np.abs(h.B) @ np.abs(x1) + np.abs(h.c))) + abs(h.value(x1))
        assert found == pytest.approx(h.value(x1), rel=1e-11, abs=1e-12 * size)
    return max(worst, residual)


def check_auxiliary(c, before, after, L_g):
    """The worst residual of one step of the auxiliary run; W and J asserted."""
    b, B = theory.auxiliary_step_size(before.k, L_g), before.B
    w, u, v, u1, v1 = before.g_w.at, before.u.x, before.v, after.u.x, after.v
    norm, worst = np.linalg.norm, 0.0
    for p in (u, *c.points(3)):
        residual, size, W = descent(c.g, B, b, w, u, v, u1, v1, p)
        lengths = norm(v1) + norm(v) + b * norm(c.g.gradient(w))
        assert -1e-12 * size - 64 * EPS * math.sqrt(c.n) * lengths * (norm(p) + norm(v1)) <= W
        worst = max(worst, residual)
    assert_jensen(c.g.penalty, B, b, u, u1, v1)
    assert after.g_u == pytest.approx(c.g.value(u1), rel=1e-10, abs=1e-12)
    return worst


def check_identities(c, method, steps):
    problem, worst = c.problem(), 0.0
    state = method.init(problem, c.x0)
    best = c.domain.project(c.x0)
    for _ in range(steps):
        aux = state.level_run
        if aux is not None and c.g.value(aux.u.x) <= c.g.value(best):
            best = aux.u.x
        after = method.step(problem, state)
        if after.k > state.k:  # not in the first phase of FixedLevels
            worst = max(worst, check_step(c, state, after, best))
        if aux is not None and after.level_run is not None:
            worst = max(worst, check_auxiliary(c, aux, after.level_run, state.lower_smoothness))
        state = after
    return worst


def test_the_composite_identities_hold_at_every_step_for_all_pairs_of_penalties(count):
    seeds, steps = range(0, 4 * len(KINDS), count(23, 1)), count(12, 40)
    worst = max(check_identities(case(s), case(s).method(s), steps) for s in seeds)
    print(f"\ncomposite identities: worst residual {worst:.1e} in {len(seeds)} problems")
    assert worst <= 1e-12


# --- AGM-BiO is the special case without penalties -----------------------------------------------


def same(p, q):
    """Are two states, or parts of them, equal to the last bit?"""
    if isinstance(p, tuple):
        return len(p) == len(q) and all(map(same, p, q))
    return np.array_equal(p, q) if isinstance(p, np.ndarray) else p == q


def test_without_penalties_every_state_is_that_of_agm_bio_to_the_last_bit(count):
    for p in map(planted, range(count(16, 1144))):
        agm, problem = variants(p), p.problem()
        composite = tb.Problem(
            upper=problem.upper + tb.L1(0.0) + tb.Zero(),
            lower=problem.lower + tb.GroupL2(np.zeros(p.n, dtype=int), 0.0),
            domain=problem.domain,
        )
        pagm = tb.PAGMBiO(agm.gamma, agm.levels, agm.horizon)
        state, other = agm.init(problem, p.x0), pagm.init(composite, p.x0)
        for _ in range(25):
            assert same(state, other)
            state, other = agm.step(problem, state), pagm.step(composite, other)


def test_an_indicator_is_a_domain(count):
    for p in map(planted, range(count(13, 520))):
        agm, problem = variants(p), p.problem()
        pagm = tb.PAGMBiO(agm.gamma, agm.levels, agm.horizon)
        f, g, Z = problem.upper, problem.lower, tb.Indicator(problem.domain)
        for upper, lower in ((f + Z, g), (f, g + Z), (f + Z, g + Z)):
            other = tb.Problem(upper=upper, lower=lower)
            assert same(last_state(problem, agm, p.x0, 15), last_state(other, pagm, p.x0, 15))


# --- a slow Algorithm 2 --------------------------------------------------------------------------


def slow_prox(c, v, a, b, cut=None):
    """argmin over Z of a f2 + b g2 + ½|z - v|², within a cut (slope, offset): a conic problem."""
    import cvxpy as cp

    z = cp.Variable(c.n)
    (f2, _), (g2, _) = conic(c.f.penalty, z), conic(c.g.penalty, z)
    limits = rules(c.domain, z)
    if cut is not None:
        limits = [*limits, cut[0] @ z + g2 <= cut[1]]
    clarabel(a * f2 + b * g2 + cp.sum_squares(z - v) / 2, limits)
    return z.value


def slow_run(c, S, L_g, steps):
    """Algorithm 2 with online levels, line by line from the paper."""
    x = z = u = v = c.domain.project(c.x0)
    A = B = 0.0
    level = c.g.value(x)
    for k in range(steps):
        b = (k + 1) / (2 * L_g)
        w = (B * u + b * v) / (B + b)
        v = slow_prox(c, v - b * c.g.gradient(w), 0.0, b)
        u = (B * u + b * v) / (B + b)
        level = min(level, c.g.value(u))
        a = (k + 1) / (4 * S)
        y = (A * x + a * z) / (A + a)
        slope = c.g.gradient(y)
        offset = level - c.g.smooth(y) + float(slope @ y)
        z = slow_prox(c, z - a * c.f.gradient(y), a, 0.0, (slope, offset))
        x = (A * x + a * z) / (A + a)
        A, B = A + a, B + b
        yield x


@pytest.mark.filterwarnings("ignore")
def test_the_iterates_are_those_of_a_slow_implementation(count):
    for seed in range(0, 4 * len(KINDS), count(61, 5)):
        c = case(seed)
        problem, method = c.problem(), tb.PAGMBiO(gamma=0.5)
        state = method.init(problem, c.x0)
        for x in slow_run(c, state.smoothness, state.lower_smoothness, 5):
            state = method.step(problem, state)
            size = 1.0 + np.linalg.norm(x)
            np.testing.assert_allclose(state.x, x, atol=3e-6 * size, err_msg=str(seed))


# --- planted answers -----------------------------------------------------------------------------


@dataclass
class Answer:
    """f1 + f2 over ½|Ax - b|² + g2 with a known solution."""

    f: Level
    g: Level
    star: np.ndarray
    slope: np.ndarray  # in the subdifferential of f at x*, and normal to the solution set there
    domain: Any

    def problem(self, **kwargs):
        return tb.Problem(upper=self.f.build(), lower=self.g.build(), domain=self.domain, **kwargs)


def subgradient(h2, x, rng):
    """One of h2 at x != 0, at random where there are many."""
    free = rng.uniform(-1, 1, len(x))
    sign = np.where(x == 0, free, np.sign(x))
    match h2:
        case tb.L1():
            return h2.weight * sign
        case tb.L2():
            return h2.weight * x / np.linalg.norm(x)
        case tb.ElasticNet():
            return h2.l1 * sign + h2.l2 * x
        case tb.GroupL2():
            s = np.zeros(len(x))
            for where in members(h2, len(x)):
                is_zero = not np.any(x[where])
                part = free[where] if is_zero else x[where]
                s[where] = h2.weight * part / max(np.linalg.norm(part), float(is_zero))
            return s
    return np.zeros(len(x))


def answer(seed):
    """f1 + f2 over least squares + g2, where A' y = s + t q and A' r = p, b = A x* + r, with s in
    the subdifferential of f at x*, p and q in that of g2, t >= 0.  Then x* minimises g, all
    minimisers have its Ax and g2, and f(x) >= f(x*) + <s, x - x*> >= f(x*) for them."""
    rng = np.random.default_rng([5, seed])
    f2, g2 = list(itertools.product(NORMS, NORMS))[seed % 25]
    n = int(rng.integers(3, 12))
    m = int(rng.integers(2, n))
    groups, unit = labels(rng, n), 10.0 ** rng.uniform(-1, 1)
    star = rng.normal(size=n) * (rng.random(n) < 0.5)
    star[0] = 1.0
    f = level(rng, n, penalty(f2, rng, groups, unit), False)
    g2 = penalty(g2, rng, groups, unit)
    s = f.gradient(star) + subgradient(f.penalty, star, rng)
    p, q = subgradient(g2, star, rng), subgradient(g2, star, rng)
    Y = rng.normal(size=(m, 2))
    A = rng.normal(size=(m, n))
    want = np.vstack([s + float(rng.exponential()) * q, p])
    A -= Y @ np.linalg.solve(Y.T @ Y, Y.T @ A - want)
    g = Level(A, A @ star + Y[:, 1], np.zeros(n), 1.0, False, g2)
    Z = (tb.Space(), tb.Ball(1.5 * float(np.linalg.norm(star))))[seed // 25 % 2]
    return Answer(f, g, star, s, Z)


@pytest.mark.sample(2)
@pytest.mark.parametrize("fixed", [None, 12])
@pytest.mark.parametrize("gamma", [None, 1.0, 0.1])
def test_theorem_1_and_the_level_bounds_hold_at_every_step(count, gamma, fixed):
    levels = tb.OnlineLevels() if fixed is None else tb.FixedLevels(fixed)
    method, bounded = tb.PAGMBiO(gamma, levels, horizon=100), 0
    for p in map(answer, range(0, count(60, 300), count(3, 1))):
        problem = p.problem()
        R0 = float(np.linalg.norm(p.star))
        state = method.init(problem, np.zeros(len(p.star)))
        f_star, g_star = p.f.value(p.star), p.g.value(p.star)
        theorem = theory.Theorem1(
            problem.upper.lipschitz, state.lower_smoothness, state.smoothness, R0,
            p.domain.diameter_in(len(p.star)),
        )  # fmt: skip
        for _ in range(20 + (fixed or 0)):
            before, state = state, method.step(problem, state)
            if state.k == before.k:
                continue
            slack_f = 1e-11 * (abs(f_star) + abs(state.upper_value) + np.linalg.norm(p.slope) * R0)
            slack_g = 1e-11 * (g_star + state.lower_value + theorem.L_g * R0**2)
            upper, lower = state.upper_value - f_star, state.lower_value - g_star
            assert upper <= theorem.upper(state.k) + slack_f
            assert -slack_g <= lower <= theorem.lower(state.k, fixed) + slack_g
            if upper >= 0.0:
                assert lower <= theorem.lower_if_above(state.k, fixed) + slack_g
            limit = theory.level_bound(fixed or before.k, L_g=theorem.L_g, distance=R0)
            assert -slack_g <= before.level - g_star <= limit + slack_g
            bounded += math.isfinite(theorem.diameter)
    assert bounded


def test_theorem_2_holds_for_penalties_over_least_squares(count):
    for seed in range(0, count(100, 500), 5):  # those without g2
        p = answer(seed)
        p.domain = tb.Space()
        s = np.linalg.svd(p.g.B, compute_uv=False)
        bound = tb.ErrorBound(2, s[s > 1e-9 * s[0]][-1] ** 2, float(np.linalg.norm(p.slope)))
        problem, f_star = p.problem(error_bound=bound), p.f.value(p.star)
        R0 = float(np.linalg.norm(p.star))
        for T in (1, 5, 40):
            method = tb.PAGMBiO(horizon=T)
            state = last_state(problem, method, np.zeros(len(p.star)), T)
            L_f, L_g = problem.upper.lipschitz, state.lower_smoothness
            unit = 2 * L_g * T ** (2 / 3) / (state.smoothness - 2 * L_f)
            theorem = theory.Theorem2(L_f, L_g, R0, 2.0, bound.modulus, bound.gradient_bound, unit)
            slack = 1e-11 * (abs(f_star) + abs(state.upper_value))
            assert state.upper_value - f_star <= theorem.upper(T) + slack
            assert state.upper_value - f_star >= theorem.upper_floor(T) - slack
            excess = state.lower_value - p.g.value(p.star)
            assert excess <= theorem.lower(T) + 1e-11 * L_g * R0**2


# --- the sparsest of all least-squares solutions -------------------------------------------------


def sparse(seed, m, n, nonzeros):
    """Gaussian A and a planted x* with b = A x*: with so few entries the only l1-minimiser."""
    rng = np.random.default_rng([6, seed])
    star = np.zeros(n)
    where = rng.permutation(n)[:nonzeros]
    star[where] = rng.choice([-1.0, 1.0], nonzeros) * rng.uniform(0.1, 2.0, nonzeros)
    A = rng.normal(size=(m, n))
    return A, A @ star, star


def test_the_sparsest_solution_is_found_alone_and_by_default(count):
    """Issue 4: within 1e-2 in 10,000 steps, and its largest entries are the planted ones."""
    shape, steps = (count(40, 200), count(120, 1000), count(4, 20)), count(1500, 10_000)
    for seed in range(count(1, 5)):
        A, b, star = sparse(seed, *shape)
        problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, b))
        result = tb.solve(problem, tb.PAGMBiO(), max_iter=steps, rtol=0.0)
        assert result.nit == steps
        found = np.argsort(-np.abs(result.x))[: shape[2]]
        error = np.linalg.norm(result.x - star) / np.linalg.norm(star)
        outside = np.max(np.abs(np.delete(result.x, found)))
        inside = np.min(np.abs(result.x[found]))
        print(f"\nbasis pursuit {shape}, seed {seed}: |x - x*|/|x*| = {error:.1e}, entries of the "
              f"support >= {inside:.2g}, others <= {outside:.2g}")  # fmt: skip
        assert set(found) == set(np.flatnonzero(star))
        assert outside < 0.1 * inside
        assert error <= 1e-2


@pytest.mark.sample(2)
@pytest.mark.parametrize("gamma", [None, 1e-2])
def test_the_iterates_know_no_units(gamma):
    A, b, _ = sparse(0, 12, 40, 2)
    method = tb.PAGMBiO(gamma, horizon=100)

    def run(of_f, of_g, of_x, upper):
        lower = of_g * tb.LeastSquares(A / of_x, b)
        problem = tb.Problem(upper=of_f * upper(of_x), lower=lower)
        return last_state(problem, method, np.zeros(40), 100).x / of_x

    def elastic(of_x):
        return tb.ElasticNet(1.0 / of_x, 0.5 / of_x**2)

    def group(of_x):
        return 0.3 * tb.SquaredNorm(1.0 / of_x**2) + tb.GroupL2(np.arange(40) // 4, 1.0 / of_x)

    def alone(of_x):
        return tb.L1(1.0 / of_x)

    for upper in (alone, elastic, group):
        plain = run(1.0, 1.0, 1.0, upper)
        for units in ((1e6, 1.0, 1.0), (1.0, 1e-6, 1.0), (1e-5, 1e7, 1.0), (1.0, 1.0, 1e4)):
            x = run(*units, upper)
            np.testing.assert_allclose(x, plain, atol=1e-9 * np.linalg.norm(plain))


def test_a_start_at_a_minimiser_of_g_does_not_stop_f():
    """There the first lower step has no length; the start itself gives one."""
    A, b, star = sparse(1, 30, 90, 3)
    problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, b))
    x0 = np.linalg.lstsq(A, b, rcond=None)[0]
    x = last_state(problem, tb.PAGMBiO(), x0, 1000).x
    assert np.linalg.norm(x - star) <= 3e-2 * np.linalg.norm(star)


@pytest.mark.sample(5)
@pytest.mark.parametrize("domain", [tb.Box(-1e4, 1e4), tb.Space(), tb.Ball(1e4)], ids=repr)
def test_a_loose_box_changes_little(domain):
    A, b, star = sparse(2, 30, 90, 3)
    problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, b), domain=domain)
    x = last_state(problem, tb.PAGMBiO(), np.zeros(90), 1000).x
    assert np.linalg.norm(x - star) <= 3e-2 * np.linalg.norm(star)


# --- what every method owes ----------------------------------------------------------------------


def test_the_report_names_the_rule_for_gamma():
    g = tb.LeastSquares(np.eye(2, 3), np.ones(2))
    logistic = tb.Logistic(np.eye(2, 3), [1.0, -1.0])
    by_rule = "gamma by the rule of Theorem 2, though no error bound is known, On"
    for upper, lower, said in (
        (tb.L1(), g, "P-AGM-BiO, gamma by Theorem 2 (error bound of order 2), Online"),
        (tb.SquaredNorm(), g + tb.Indicator(tb.Box(0, 1)), "P-AGM-BiO, gamma = 1 by Theorem 1"),
        (tb.SquaredNorm() + tb.L1(), logistic + tb.L1(0.1), f"P-AGM-BiO, {by_rule}"),
    ):
        result = tb.solve(tb.Problem(upper=upper, lower=lower), "p-agm-bio", max_iter=3)
        assert result.method.startswith(said)
    assert "p-agm-bio" in [m.name for m in tb.methods()]


def test_certify_takes_composite_problems():
    problem = tb.Problem(
        upper=tb.L1(), lower=tb.LeastSquares(np.eye(2, 3), np.ones(2)), domain=tb.Ball(3.0)
    )
    proof = tb.certify(problem, np.array([1.0, 1.0, 0.0]), max_iter=500)
    low, high = proof.upper_optimum
    assert low <= 2.0 <= high


def test_what_it_cannot_do_gets_one_sentence():
    g = tb.LeastSquares(np.eye(2), np.ones(2))
    plain = tb.Smooth(lambda x: float(x @ x), lambda x: 2 * x)
    no_constant = "must have a known Lipschitz constant, got none; give Smooth(..., lipschitz=...)"
    no_prox = "the penalties and the domain must have a joint prox in closed form, got"
    for upper, lower, domain, sentence in (
        (tb.L1(), g, tb.Simplex(), f"{no_prox} L1 and Simplex"),
        (tb.GroupL2([0, 1]), g + tb.GroupL2([0, -1]), tb.Space(),
         f"{no_prox} two GroupL2 with different groups"),
        (plain + tb.L1(), g, tb.Space(), f"upper {no_constant}"),
        (tb.L1(), plain + tb.L1(), tb.Space(), f"lower {no_constant}"),
    ):  # fmt: skip
        problem = tb.Problem(upper=upper, lower=lower, domain=domain)
        with pytest.raises(ValueError, match=f"^PAGMBiO: {re.escape(sentence)}$"):
            tb.solve(problem, "p-agm-bio", x0=np.zeros(2))
    with pytest.raises(ValueError, match=r"^PAGMBiO: gamma must be a number in \(0, 1\] or None"):
        tb.PAGMBiO(gamma=2.0)
    with pytest.raises(ValueError, match=r"^AGMBiO: upper must be smooth"):
        tb.solve(tb.Problem(upper=tb.L1(), lower=g), "agm-bio")


def test_a_run_continued_from_a_checkpoint_is_the_same_to_the_last_bit(tmp_path, count):
    for seed in (22, 35, 61, 80)[: count(1, 4)]:
        c = case(seed)
        method, problem = c.method(seed), c.problem()
        whole = tb.solve(problem, method, x0=c.x0, max_iter=150, rtol=0.0)
        for steps in (70, 150):
            result = tb.solve(
                problem, method, x0=c.x0, max_iter=steps, rtol=0.0,
                checkpoint=tmp_path / f"{seed}.npz",
            )  # fmt: skip
        assert result.nit == 150
        np.testing.assert_array_equal(result.x, whole.x)
        assert (result.upper_value, result.lower_value) == (whole.upper_value, whole.lower_value)


@pytest.mark.parametrize(
    ("convert", "tolerance"), [(lambda x: x.astype(np.float32), 1e-4), (xps.asarray, 1e-12)]
)
def test_library_and_dtype_stay_and_inputs_are_left_alone(convert, tolerance):
    A, b, _ = sparse(3, 12, 40, 2)
    data = (A, b, np.full(40, 0.1))
    given, copies = [convert(p) for p in data], [convert(p.copy()) for p in data]
    for upper, penalty_below in (
        (tb.L1(), tb.Zero()),
        (tb.L1() + tb.GroupL2(np.arange(40) // 8), tb.L2(0.1)),
        (tb.SquaredNorm(), tb.ElasticNet(0.1, 0.0)),
    ):
        x, exact = (
            last_state(
                tb.Problem(upper=upper, lower=tb.LeastSquares(*kind[:2]) + penalty_below),
                tb.PAGMBiO(), kind[2], 40,
            ).x
            for kind in (given, data)
        )  # fmt: skip
        assert type(x) is type(given[2])
        assert x.dtype == given[2].dtype
        assert np.linalg.norm(np.asarray(x) - exact) <= tolerance * np.linalg.norm(exact)
    for p, q in zip(given, copies, strict=True):
        np.testing.assert_array_equal(np.asarray(p), np.asarray(q))


def test_one_variable_and_levels_without_slope(count):
    half = tb.LeastSquares([[1.0], [1.0]], [1.0, 2.0])
    for upper, lower, x_star in (
        (tb.L1(), half, 1.5),
        (tb.L2(), half, 1.5),
        (tb.SquaredNorm(1.0, [7.0]), half + tb.L1(1.0), 1.0),
        (tb.SquaredNorm(1.0, [7.0]), tb.L1(1.0), 0.0),  # g is a penalty and nothing else
        (tb.L1(), tb.GroupL2([0], 2.0), 0.0),
        (tb.L1(), 0.5 * half + tb.L2(5.0), 0.0),  # the penalty wins over the slope
    )[:: count(2, 1)]:
        for x0 in (np.full(1, -4.0), np.full(1, 1.5), np.zeros(1))[: count(1, 3)]:
            problem = tb.Problem(upper=upper, lower=lower)
            x = last_state(problem, tb.PAGMBiO(), x0, 600).x  # the error is about 1/k
            assert x[0] == pytest.approx(x_star, abs=1e-2)


def test_a_given_level_below_the_optimum_keeps_everything_finite(count):
    for seed in range(0, 4 * len(KINDS), count(23, 1)):
        c = case(seed)
        for below in (1e-9, 10.0, 1e20):
            method = tb.PAGMBiO(levels=tb.GivenLevels(-below))
            problem = c.problem()
            state = method.init(problem, c.x0)
            for _ in range(6):
                state = method.step(problem, state)
                assert np.all(np.isfinite(state.x))
                assert np.all(np.isfinite(state.z))
                assert math.isfinite(state.mu)
                assert state.mu >= 0.0


def test_the_free_checks_speak_of_the_smooth_part():
    rng = np.random.default_rng(8)
    A = rng.normal(size=(20, 5))
    for lipschitz, noticed in ((1e-2, True), (None, False)):
        f = tb.LeastSquares(A, np.ones(20), lipschitz=lipschitz)
        problem = tb.Problem(
            upper=f + tb.L1(100.0), lower=tb.LeastSquares(A[:2], np.ones(2)) + tb.L2(50.0)
        )
        result = tb.solve(problem, tb.PAGMBiO(gamma=1.0), x0=np.ones(5), max_iter=20)
        assert ("rises faster than its Lipschitz constant" in result.message) is noticed
