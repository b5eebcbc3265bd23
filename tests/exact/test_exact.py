"""Exact: planted answers on every combination, ranks, directions, intervals never wrong."""

from __future__ import annotations

import itertools
import math
import re
import sys
from fractions import Fraction

import array_api_strict as xps
import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from helpers.exact import CVXPY_WORDS, hilbert, solved, wrong_intervals
from planted import smooth as planted
from planted.structured import COMBINATIONS, conic_value, instance

import tiebreak as tb
from tiebreak.exact import active_set, interior_point, method
from tiebreak.exact.method import Exact
from tiebreak.functions.parts import parts
from tiebreak.linalg import host, spectra
from tiebreak.proofs import certificate
from tiebreak.proofs.evidence import Intervals
from tiebreak.proofs.recession import programs
from tiebreak.sets.base import Set


def seeds(number):
    """Spread over all combinations; 640 of them are every combination twice."""
    return [81 * i % (2 * len(COMBINATIONS)) for i in range(number)]


# --- planted answers -----------------------------------------------------------------------------


def test_planted_answers_on_all_combinations(count):
    number = count(24, 640)
    worst = dict.fromkeys(("f", "g", "x", "residual", "variation"), 0.0)
    unique, dimensions = 0, set()
    for seed in seeds(number):
        p, is_unique = instance(seed)
        state = solved(p.problem(), p.x0)
        found, where = state.findings, f"{seed}: {p.kind}, n = {p.n}"
        assert state.finished.why == "answer", (where, state.finished)
        f_scale = max(p.f_scale, p.L_f * p.unit**2, np.linalg.norm(p.grad_f(p.x_star)) * p.unit)
        g_scale = max(p.g_scale, p.L_g * p.unit**2, np.linalg.norm(p.grad_g(p.x_star)) * p.unit)
        errors = {
            "f": abs(state.upper_value - p.f_star) / f_scale,
            "g": abs(state.lower_value - p.g_star) / g_scale,
            "residual": found.residual,
            "variation": 0.0,
            "x": 0.0,
        }
        if is_unique:
            unique += 1
            size = max(np.linalg.norm(p.x_star), p.unit)
            errors["x"] = np.linalg.norm(state.x - p.x_star) / size
        for other in planted.lower_minimisers(p, np.random.default_rng(seed), 2):
            fall = -p.grad_f(state.x) @ (other - state.x) / f_scale
            errors["variation"] = max(errors["variation"], fall)
        assert all(error <= 1e-9 for error in errors.values()), (where, errors)
        assert p.dimension is None or found.dimension in (None, p.dimension), where
        exact = p.upper.exact(p.x_star)[0], p.lower.exact(p.x_star)[0]
        assert not wrong_intervals(state.evidence.intervals, *exact), where
        worst = {name: max(worst[name], float(errors[name])) for name in worst}
        dimensions.add((found.dimension, p.n))
    assert any(d == 0 for d, _ in dimensions)
    assert any(d == 1 for d, _ in dimensions)
    assert any(d is not None and d == n - 1 > 0 for d, n in dimensions)
    figures = ", ".join(f"{name} {error:.1e}" for name, error in worst.items())
    print(f"\nExact on {number} planted problems ({unique} with a unique x*): worst {figures}")


def test_on_bounded_sets_least_squares_are_proved_in_one_step(count):
    """Also where the lower level keeps entries on their bounds: f* >= f - 1e-4 of its size."""
    number, proved = count(30, 160), 0
    for seed in range(40 * len(COMBINATIONS)):
        lower, _, domain = COMBINATIONS[seed % len(COMBINATIONS)]
        is_one = lower in ("consistent", "inconsistent", "LeastSquares+Linear")
        if not is_one or domain not in ("Ball", "Box", "Simplex", "L1Ball"):
            continue
        p, _ = instance(seed)
        sigma = np.linalg.svd(p.rows, compute_uv=False)
        if sigma[sigma > 1e-12 * sigma[0]][-1] < 1e-2 * sigma[0]:
            continue  # then y is large, and so is its price
        problem = p.problem()
        state = solved(problem, p.x0)
        low, _ = state.evidence.intervals.upper
        scale = max(p.f_scale, p.L_f * p.unit**2, np.linalg.norm(p.grad_f(p.x_star)) * p.unit)
        assert state.upper_value - low <= 1e-4 * scale, (seed, p.kind)
        proved += 1
        if proved == number:
            break
    assert proved == number


@pytest.mark.filterwarnings(CVXPY_WORDS)
def test_least_squares_agrees_with_a_conic_solver_on_the_equality_form(count):
    number, worst, compared = count(10, 120), 0.0, 0
    for seed in range(2 * len(COMBINATIONS), 40 * len(COMBINATIONS)):
        if compared == number:
            break
        lower = COMBINATIONS[seed % len(COMBINATIONS)][0]
        if lower not in ("consistent", "inconsistent"):
            continue
        p, _ = instance(7 * seed)
        if "consistent" not in p.kind or not 1e-2 < p.L_f / p.upper.weight * p.unit**2 < 1e4:
            continue  # a conic solver wants numbers near 1
        try:
            value = conic_value(p, cp)
        except cp.SolverError:
            continue
        compared += 1
        scale = max(p.f_scale, p.L_f * p.unit**2)
        worst = max(worst, abs(solved(p.problem(), p.x0).upper_value - value) / scale)
        assert worst <= 1e-7, (7 * seed, p.kind)
    assert compared == number
    print(f"\nExact and Clarabel on {number} equality forms: worst difference in f {worst:.1e}")


@pytest.mark.parametrize("n", [3, 100])
def test_the_papers_inverse_problem(n):
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(np.ones((1, n)), [1.0]), domain=tb.Orthant()
    )
    state = solved(problem)
    assert abs(2 * n * state.upper_value - 1.0) <= 1e-12
    np.testing.assert_allclose(state.x, 1.0 / n, rtol=1e-12)
    assert state.findings.dimension == n - 1
    assert abs(tb.solve(problem, "exact").upper_value - 1 / (2 * n)) <= 1e-12 / (2 * n)


@pytest.mark.parametrize("tiny", [3e-15, 3e-14])
def test_a_singular_value_of_the_size_of_rounding_is_zero_a_larger_one_is_in_doubt(tiny):
    rng = np.random.default_rng(3)
    U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in (6, 5))
    clean = (U[:, :5] * [3.0, 2.0, 1.0, 0.0, 0.0]) @ V.T
    noisy = (U[:, :5] * [3.0, 2.0, 1.0, tiny, 0.0]) @ V.T
    b = rng.standard_normal(6)
    x = np.linalg.pinv(clean, rcond=1e-10) @ b
    state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(noisy, b)))
    np.testing.assert_allclose(state.x, x, rtol=1e-9, atol=1e-11)
    assert state.findings.rank == 3
    assert state.findings.sigma == pytest.approx(1.0)
    assert state.findings.sigma_next == pytest.approx(tiny, rel=0.3)
    if tiny < 4e-15:
        assert state.finished.why == "answer"
        assert state.findings.dimension == 2
    else:  # both readings: f is large if the direction counts
        assert state.finished.why == "doubt"
        assert state.findings.dimension is None
        assert state.findings.upper_range[1] > 1e20
    assert state.findings.backward_error == state.findings.sigma_next


# --- larger ones, against a conic solver ----------------------------------------------------------


def large(domain, upper):
    """A problem in 90 variables whose lower minimisers are {A x = b} ∩ Z, with points inside."""
    rng = np.random.default_rng(0)
    n = 90
    A, B, target = (rng.standard_normal(shape) for shape in ((30, n), (120, n), 120))
    inside = {
        tb.Box: rng.uniform(-0.15, 0.15, n),
        tb.L1Ball: rng.uniform(-0.05, 0.05, n),
        tb.Simplex: 8.0 * rng.dirichlet(np.ones(n)),
    }[type(domain)]
    f = tb.LeastSquares(B, target) if upper == "squares" else tb.Linear(B[0])
    problem = tb.Problem(upper=f, lower=tb.LeastSquares(A, A @ inside), domain=domain)
    return problem, A, A @ inside, B, target


@pytest.mark.filterwarnings(CVXPY_WORDS)
@pytest.mark.parametrize("upper", ["squares", "linear"])
@pytest.mark.parametrize(
    ("domain", "constraints"),
    [
        (tb.Box(-0.2, 0.2), lambda x: [cp.abs(x) <= 0.2]),
        (tb.L1Ball(6.0), lambda x: [cp.norm1(x) <= 6.0]),
        (tb.Simplex(8.0), lambda x: [x >= 0, cp.sum(x) == 8.0]),
    ],
)
def test_a_larger_polyhedron_is_solved_like_a_conic_solver_does_it(domain, constraints, upper):
    problem, A, b, B, target = large(domain, upper)
    state = solved(problem)
    x = cp.Variable(90)
    f = cp.sum_squares(B @ x - target) / 2 if upper == "squares" else B[0] @ x
    conic = cp.Problem(cp.Minimize(f), [*constraints(x), A @ x == b])
    conic.solve(solver=cp.CLARABEL)
    assert state.finished.why == "answer"
    assert domain.contains(state.x, 1e-14)
    assert np.linalg.norm(A @ state.x - b) <= 1e-13 * np.linalg.norm(b)
    assert state.findings.dimension == 60 - isinstance(domain, tb.Simplex)
    assert state.upper_value == pytest.approx(conic.value, rel=1e-6)


@pytest.mark.filterwarnings(CVXPY_WORDS)
@pytest.mark.parametrize("domain", [tb.Ball(2.0), tb.L1Ball(2.0), tb.Box(-0.5, 0.5), tb.Space()])
def test_logistic_regression_agrees_with_a_conic_solver(domain):
    rng = np.random.default_rng(5)
    A = rng.standard_normal((60, 12)) @ rng.standard_normal((12, 15))
    y = np.sign(A @ rng.standard_normal(15) + 8.0 * rng.standard_normal(60))
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, y), domain=domain)
    state = solved(problem)
    x = cp.Variable(15)
    inside = {
        tb.Ball: [cp.norm(x) <= 2.0], tb.L1Ball: [cp.norm1(x) <= 2.0],
        tb.Box: [cp.abs(x) <= 0.5], tb.Space: [],
    }[type(domain)]  # fmt: skip
    loss = cp.sum(cp.logistic(-cp.multiply(y, A @ x))) / 60
    cp.Problem(cp.Minimize(loss), inside).solve(solver=cp.CLARABEL)
    assert state.finished.why == "answer"
    assert state.lower_value == pytest.approx(problem.lower.value(x.value), rel=1e-7)
    assert state.lower_value <= problem.lower.value(problem.domain.project(x.value)) * (1 + 1e-15)
    if isinstance(domain, tb.Space):  # the one of least norm
        assert state.findings.dimension == 3
        np.testing.assert_allclose(
            np.linalg.pinv(A, rcond=1e-10) @ (A @ state.x), state.x, rtol=1e-9
        )


def test_a_start_far_away_does_not_keep_newtons_method_from_the_logistic_minimum():
    A = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [3.0, 1.0]])
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, np.ones(5)))
    near = solved(problem).x
    for start in ([300.0, -200.0], [-1e4, 1e5], [1e8, 1e8]):
        np.testing.assert_allclose(solved(problem, start).x, near, rtol=1e-12)


def test_the_start_does_not_matter():
    for domain in (tb.Space(), tb.Orthant(), tb.Ball(1e13)):
        problem = tb.Problem(
            upper=tb.SquaredNorm(), lower=tb.LeastSquares([[1.0, 1.0]], [2.0]), domain=domain
        )
        for start in (None, [1e12, 3.0], [-5.0, 1e-9]):
            state = solved(problem, start)
            np.testing.assert_allclose(state.x, [1.0, 1.0], rtol=1e-15)
            assert state.findings.residual <= 1e-15


def test_the_step_always_runs():
    lower = tb.LeastSquares([[1.0, 1.0]], [2.0])
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(3.0))
    evidence = Exact().init(problem, problem.start([1.0, 1.0])).evidence
    assert (evidence.upper, evidence.cuts, evidence.lower, evidence.intervals) == ((), (), (), None)
    for start in (None, [1.0, 1.0], [1.1, 0.9]):
        result = tb.solve(problem, "exact", x0=start, rtol=0.5)
        assert result.nit == 1
        assert result.dimension == 1


# --- margins that grow until Z ends ---------------------------------------------------------------

SEPARABLE = np.random.default_rng(0).standard_normal((3, 5))
THIN = np.array([[1.0, 0.0], [-1.0, 0.5]])
OPEN = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])  # only the last margin can grow


@pytest.mark.filterwarnings(CVXPY_WORDS)
@pytest.mark.parametrize("size", [100.0, 1000.0])
@pytest.mark.parametrize(
    ("make", "constraint"),
    [
        (tb.Ball, lambda u: cp.norm(u) <= 1),
        (tb.L1Ball, lambda u: cp.norm1(u) <= 1),
        (lambda size: tb.Box(-size, size), lambda u: cp.abs(u) <= 1),
    ],
)
def test_separable_data_on_a_bounded_set(make, constraint, size):
    """Where all margins are large g is sum e^-t: a conic solver minimises its logarithm."""
    lower = tb.Logistic(SEPARABLE, np.ones(3))
    state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=make(size)))
    u = cp.Variable(5)
    terms = -size * SEPARABLE @ u
    cp.Problem(cp.Minimize(cp.log_sum_exp(terms) / size), [constraint(u)]).solve(cp.CLARABEL)
    assert state.finished.why == "answer"
    assert state.findings.dimension == 0
    assert np.linalg.norm(state.x / size - u.value) <= 1e-4
    margins = SEPARABLE @ state.x
    other = SEPARABLE @ make(size).project(size * u.value)
    loss, conic = (-np.min(t) + math.log(np.sum(np.exp(np.min(t) - t))) for t in (margins, other))
    assert loss <= conic + 1e-9 * size


@pytest.mark.parametrize(("size", "scale"), [(1.0, 1e8), (1e6, 1.0), (1e3, 1e3)])
def test_huge_margins_give_the_direction_of_the_largest_one(size, scale):
    lower = tb.Logistic(scale * THIN, [1.0, 1.0])
    state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(size)))
    assert state.finished.why == "answer"
    assert state.findings.dimension == 0
    np.testing.assert_allclose(state.x / size, np.array([1.0, 4.0]) / math.sqrt(17.0), rtol=1e-5)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("rows", "domain"),
    [
        (THIN, tb.Box(-1e15, 1e15)),
        (THIN, tb.Ball(1e100)),
        (OPEN, tb.Ball(100.0)),
        (OPEN, tb.Box(-100.0, 100.0)),
        (OPEN, tb.L1Ball(1e4)),
    ],
)
def test_losses_too_small_to_decide_are_not_decided(rows, domain):
    """The minimiser is on the boundary, but what pushes it there is below rounding errors."""
    lower = tb.Logistic(rows, np.ones(len(rows)))
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain)
    for start in (None, [1e15, 1e15]):
        state = solved(problem, start)
        assert state.finished.why == "doubt"
        assert state.findings.dimension is None
        assert state.evidence.intervals is None


def test_a_loss_that_is_small_but_heard_decides():
    for domain in (tb.Ball(10.0), tb.Box(-10.0, 10.0), tb.L1Ball(10.0)):
        lower = tb.Logistic(OPEN, np.ones(3))
        state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain))
        assert state.finished.why == "answer"
        np.testing.assert_allclose(state.x, [0.0, 10.0], rtol=1e-9, atol=1e-9)


# --- rank is a decision ---------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [tb.Space(), tb.Ball(1e3), tb.Box(-1e3, 1e3), tb.Orthant()])
def test_without_a_gap_the_rank_is_not_determined_and_nothing_is_claimed(domain):
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(hilbert(14), np.ones(14)), domain=domain
    )
    state = solved(problem)
    status, sentence = state.finished
    assert status == "doubt"
    assert sentence.startswith("rank not determined: singular values ")
    assert state.evidence.intervals is None
    found = state.findings
    assert found.dimension is None
    assert found.sigma_next < found.sigma < 1e3 * found.sigma_next
    assert len(found.upper_range) == 2
    sigma = np.linalg.svd(hilbert(14), compute_uv=False)
    np.testing.assert_allclose(sigma[found.rank - 1], found.sigma, rtol=1e-3)


def test_f_at_both_ends_is_that_of_the_truncated_solutions():
    A, b = hilbert(14), np.ones(14)
    state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b)))
    U, s, _ = np.linalg.svd(A)
    low, high = state.findings.upper_range
    truncated = [0.5 * float(np.sum((U.T @ b / s)[:rank] ** 2)) for rank in range(1, 15)]
    assert low == pytest.approx(truncated[state.findings.rank - 1], rel=1e-2)
    assert any(high == pytest.approx(value, rel=0.2) for value in truncated[state.findings.rank :])


def test_the_report_of_an_undetermined_rank_is_no_success():
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(hilbert(14), np.ones(14)))
    result = tb.solve(problem, "exact")
    assert result.status == "undetermined"
    assert not result.success
    assert math.isinf(result.upper_error)
    assert "rank not determined" in str(result)
    assert all(len(label) <= 11 for label, _ in result.findings.lines())


# --- no minimum -----------------------------------------------------------------------------------


def falls_for_ever(h, d, x):
    """Does h go on falling along d, by its values far out?"""
    values = [h.value(x + t * d) for t in (1.0, 4.0, 16.0, 64.0)]
    return all(b < a for a, b in itertools.pairwise(values))


INF = math.inf
NO_LOWER_MINIMUM = [
    (tb.Logistic([[1.0, 2.0], [2.0, 1.0]], [1.0, 1.0]), tb.Space()),
    (tb.Logistic([[1.0, 2.0], [2.0, 1.0]], [1.0, 1.0]), tb.Orthant()),
    (tb.Logistic([[1.0, 2.0], [1.0, -1.0]], [1.0, -1.0]), tb.Monotone()),
    (tb.LeastSquares([[1.0, 1.0]], [1.0]) + tb.Linear([1.0, 0.0]), tb.Space()),
    (tb.LeastSquares([[1.0, 1.0]], [1.0]) + tb.Linear([0.0, -1.0]), tb.Box([-INF, 0.0], INF)),
    (tb.Quadratic([[1.0, 0.0], [0.0, 0.0]], [0.0, 1.0]), tb.Halfspace([1.0, 1.0], 3.0)),
    (tb.Logistic([[1.0, 0.0]], [1.0], mean=False) + tb.Linear([1.0, 0.0]), tb.Space()),
]  # fmt: skip


@pytest.mark.parametrize(("lower", "domain"), NO_LOWER_MINIMUM)
def test_a_lower_level_without_minimiser_is_named_with_its_direction(lower, domain):
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain)
    state = solved(problem)
    status, sentence = state.finished
    d = state.findings.direction
    assert status == "falls"
    assert sentence.startswith("g has no minimiser: it decreases along the direction x[")
    assert np.linalg.norm(d) == pytest.approx(1.0)
    assert falls_for_ever(lower, 0.1 * d, state.x)
    assert domain.contains(state.x + 1e6 * d, 1e-9)
    assert tb.solve(problem, "exact").status == "unbounded"


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-8, 1e-9, 1e-10, 1e-12])
@pytest.mark.parametrize("rows", [[[1, 0], [-1, 0], [0, 1]], [[1, 1], [-1, 1]]])
def test_a_slow_fall_is_a_fall(rows, size):
    rows = np.array(rows, dtype=float) * [1.0, size]
    angle = 0.3
    turned = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    for turn in (np.eye(2), np.array(turned)) if size >= 1e-10 else (np.eye(2),):
        lower = tb.Logistic(rows @ turn, np.ones(len(rows)))
        state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=lower))
        assert state.finished.why == "falls"
        changes = rows @ turn @ state.findings.direction
        assert np.min(changes) >= -1e-15
        assert np.max(changes) >= 0.5 * size
        if size < 1e-8:
            continue
        opposed = tb.Logistic(np.vstack([rows, -rows]) @ turn, np.ones(2 * len(rows)))
        state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=opposed), [3.0, 4.0])
        assert state.finished.why == "answer"
        assert np.linalg.norm(state.x) <= 1e-6
        assert state.findings.dimension == 0


def test_a_single_variable_that_separates_needs_neither_factorisation_nor_program(monkeypatch):
    """A word that only one class has: whole fits of text waited for a linear program."""

    def refuse(*given, **options):
        raise AssertionError

    monkeypatch.setattr(programs, "linear_program", refuse)
    monkeypatch.setattr(method, "_scaled", refuse)
    rng = np.random.default_rng(0)
    A = np.hstack([rng.normal(size=(60, 3)), np.arange(60.0)[:, None] % 7.0])
    y = np.where(rng.normal(size=60) + A[:, 3] > 0.0, 1.0, -1.0)
    y[A[:, 3] > 0.0] = 1.0
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, y))
    result = tb.solve(problem, "exact")
    assert result.status == "unbounded"
    np.testing.assert_array_equal(result.findings.direction, [0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize(("rtol", "calls"), [(1e-4, 0), (1e-9, 1)])
def test_an_upper_end_within_the_tolerance_is_not_sought_again(rtol, calls, monkeypatch):
    """For a closer one, least squares were factorised twice more: half of a fit's time."""
    sought, proved, own = [], method.prove_wide, certificate.Certifier._upper_ceiling

    def wider(*given):
        intervals, residual = proved(*given)
        low, high = intervals.upper
        return intervals._replace(upper=(low, high + 1e-6 * abs(high))), residual

    def counted(self, *given):
        sought.append(given)
        return own(self, *given)

    monkeypatch.setattr(method, "prove_wide", wider)
    monkeypatch.setattr(certificate.Certifier, "_upper_ceiling", counted)
    rng = np.random.default_rng(0)
    fit = tb.LeastSquares(rng.normal(size=(5, 11)), rng.normal(size=5))
    upper = tb.LeastSquares(rng.normal(size=(12, 11)), rng.normal(size=12))
    assert tb.solve(tb.Problem(upper=upper, lower=fit), rtol=rtol).success
    assert len(sought) == calls


@pytest.mark.parametrize(
    ("upper", "lower", "are_sharp"),
    [
        ((1.0 - 1e-9, 1.0), 2.0 - 1e-9, True),
        ((1.0 - 1e-6, 1.0), 2.0 - 1e-9, False),
        ((1.0 - 1e-9, 1.0), 2.0 - 1e-6, False),
        ((-math.inf, 1.0), 2.0, False),
        ((1.0, math.inf), 2.0, False),
        ((1.0, 1.0), -math.inf, False),
    ],
)
def test_intervals_are_sharp_that_prove_half_the_digits_of_both_levels(upper, lower, are_sharp):
    assert Intervals(upper, lower).are_sharp(1.0, 2.0) == are_sharp


def test_where_it_hardly_falls_nothing_is_said():
    nearly = tb.Logistic([[0.0, 1.0], [1.0, -1e-12], [-1.0, -1e-12]], np.ones(3))
    tilted = tb.LeastSquares([[1.0, 1.0]], [1.0]) + tb.Linear([1.0, 1.0 + 1e-11])
    flat = tb.LeastSquares([[1.0, 1.0]], [1.0])
    for upper, lower in (
        (tb.SquaredNorm(), nearly),
        (tb.SquaredNorm(), tilted),
        (tb.Linear([1.0, 1.0 + 1e-11]), flat),
    ):
        status, sentence = solved(tb.Problem(upper=upper, lower=lower)).finished
        assert status == "doubt"
        assert sentence.endswith("is not determined: it hardly decreases, if at all")


def test_a_failed_linear_program_is_no_answer(monkeypatch):
    monkeypatch.setattr(programs, "linear_program", lambda *_: None)
    # lowered neither by their mean nor by one variable
    rows = [[1.0, 1.0]] * 10 + [[-0.9, 1.1]] * 10 + [[1.1, -0.9]]
    lower = tb.Logistic(rows, np.ones(21))
    state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=lower))
    assert state.finished.why == "doubt"
    assert "whether g has a minimiser is not determined" in state.finished[1]


def test_the_direction_of_a_fall_has_no_idle_part_and_nothing_is_proved_there():
    lower = tb.Logistic([[1.0, 0.0], [2.0, 0.0]], np.ones(2))
    for domain in (tb.Space(), tb.Orthant(), tb.Halfspace([0.0, 1.0], 3.0)):
        state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain))
        np.testing.assert_allclose(state.findings.direction, [1.0, 0.0], atol=1e-12)
        assert (state.evidence.upper, state.evidence.cuts, state.evidence.lower) == ((), (), ())
    # On a monotone set x[1] has to come along; without it the direction would leave the set.
    monotone = solved(tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Monotone()))
    d = monotone.findings.direction
    assert 0.0 < d[0] <= d[1] + 1e-12
    flat = tb.LeastSquares([[1.0, 1.0, 0.0]], [1.0])
    for domain in (tb.Space(), tb.Orthant()):
        upper = tb.Linear([0.0, 0.0, -1.0])
        state = solved(tb.Problem(upper=upper, lower=flat, domain=domain))
        np.testing.assert_allclose(state.findings.direction, [0.0, 0.0, 1.0], atol=1e-12)


@pytest.mark.parametrize(
    ("lower", "domain"),
    [
        (tb.Logistic([[1.0, 2.0], [2.0, 1.0]], [1.0, 1.0]), tb.Ball(3.0)),
        (tb.Logistic([[1.0, 2.0], [2.0, 1.0]], [-1.0, -1.0]), tb.Orthant()),
        (tb.LeastSquares([[1.0, 1.0]], [1.0]) + tb.Linear([1.0, 0.0]), tb.Orthant()),
        (tb.Logistic([[1.0, 0.0]], [1.0], mean=False) + tb.Linear([0.5, 0.0]), tb.Space()),
        (tb.Linear([1.0, 0.0]), tb.Orthant()),
    ],
)
def test_a_lower_level_that_has_a_minimiser_is_solved(lower, domain):
    state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain), [0.3, 0.4])
    assert state.finished.why == "answer"
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = domain.project(state.x + rng.standard_normal(2) * 10.0 ** rng.uniform(-3, 1))
        assert lower.value(other) >= state.lower_value - 1e-14


@pytest.mark.parametrize(
    ("upper", "domain"),
    [
        (tb.Linear([0.0, 0.0, 1.0]), tb.Space()),
        (tb.Linear([1.0, -1.0, 0.0]), tb.Halfspace([0.0, 0.0, 1.0], 1.0)),
        (tb.Linear([0.0, 0.0, -1.0]), tb.Orthant()),
        (tb.Quadratic(np.diag([1.0, 1.0, 0.0]), [0.0, 0.0, -1.0]), tb.Monotone()),
        (tb.LeastSquares([[1.0, 0.0, 0.0]], [1.0]) + tb.Linear([0.0, 0.0, 1.0]), tb.Space()),
    ],
)
def test_an_upper_level_that_falls_for_ever_on_the_slice_is_named(upper, domain):
    lower = tb.LeastSquares([[1.0, 1.0, 0.0]], [1.0])
    state = solved(tb.Problem(upper=upper, lower=lower, domain=domain))
    d = state.findings.direction
    assert state.finished.why == "falls"
    assert "f has no minimum over the minimisers of g" in state.finished[1]
    assert falls_for_ever(upper, d, state.x)
    assert lower.value(state.x + 1e3 * d) == pytest.approx(state.lower_value, abs=1e-20)
    assert domain.contains(state.x + 1e6 * d, 1e-9)


# --- intervals ------------------------------------------------------------------------------------


def least_norm(A, b):
    """f* = ½|x|² and g* of the least-squares solution of least norm, in rational arithmetic.

    x = A'A w with (A'A)² w = A'b (any solution w), so that x is in the range of A'.
    """
    rows = [[Fraction(float(t)) for t in row] for row in A]
    right = [Fraction(float(t)) for t in b]
    n = len(rows[0])
    gram = [[sum(r[i] * r[j] for r in rows) for j in range(n)] for i in range(n)]
    square = [[sum(gram[i][k] * gram[k][j] for k in range(n)) for j in range(n)] for i in range(n)]
    wanted = [sum(r[i] * t for r, t in zip(rows, right, strict=True)) for i in range(n)]
    w = solve_rational(square, wanted)
    x = [sum(gram[i][j] * w[j] for j in range(n)) for i in range(n)]
    residuals = [
        sum(s * t for s, t in zip(r, x, strict=True)) - u for r, u in zip(rows, right, strict=True)
    ]
    return sum(t * t for t in x) / 2, sum(t * t for t in residuals) / 2


def solve_rational(M, b):
    """Any solution of a consistent system, by elimination."""
    n, rows = len(b), [[*row, t] for row, t in zip(M, b, strict=True)]
    pivots, r = [], 0
    for column in range(n):
        pivot = next((i for i in range(r, n) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[r], rows[pivot] = rows[pivot], rows[r]
        rows[r] = [t / rows[r][column] for t in rows[r]]
        for i in range(n):
            if i != r and rows[i][column]:
                rows[i] = [s - rows[i][column] * t for s, t in zip(rows[i], rows[r], strict=True)]
        pivots.append(column)
        r += 1
    x = [Fraction(0)] * n
    for i, column in enumerate(pivots):
        x[column] = rows[i][n]
    return x


def hostile_matrices(number):
    """Singular values from 1 down to 1e-17 in all ways, small and large scales, exact ranks."""
    rng = np.random.default_rng(11)
    for i in range(number):
        m, n = int(rng.integers(1, 6)), int(rng.integers(1, 6))
        r = min(m, n)
        U, V = (np.linalg.qr(rng.standard_normal((k, k)))[0] for k in (m, n))
        sigma = 10.0 ** rng.uniform([-2, -8, -17, -16][i % 4], [0, 0, 0, -9][i % 4], r)
        sigma[0] = 1.0
        A = (U[:, :r] * sigma) @ V[:, :r].T
        if i % 5 == 0:
            A = rng.integers(-2, 3, (m, n)).astype(float)  # often singular, exactly
        if i % 7 == 0:
            A[:, -1] = A[:, 0]
        yield A * 10.0 ** [0, 0, 100, -100, 8, -8][i % 6], rng.standard_normal(m)


def test_claims_on_ill_posed_matrices_are_never_wrong(count):
    number = count(24, 600)
    statuses, below, above = {"answer": 0, "doubt": 0}, 0, 0
    for A, b in hostile_matrices(number):
        truth = least_norm(A, b)
        reach = 4.0 * math.sqrt(2.0 * truth[0]) + 1e-300  # x* is far inside
        for domain in (tb.Space(), tb.Ball(reach), tb.Box(-reach, reach)):
            f, g = tb.SquaredNorm(), tb.LeastSquares(A, b)
            state = solved(tb.Problem(upper=f, lower=g, domain=domain))
            statuses[state.finished[0]] += 1
            if state.evidence.intervals is not None:
                assert not wrong_intervals(state.evidence.intervals, *truth), (A, b, domain)
                below += state.evidence.intervals.upper[0] > 0.0
                above += math.isfinite(state.evidence.intervals.upper[1])
    assert statuses["doubt"] > number // 20
    assert min(below, above) > number // 4
    print(
        f"\nExact on {number} ill-posed systems and 3 domains: {statuses}; f* bounded from below "
        f"in {below}, from above in {above} cases; no claim is wrong"
    )


def test_the_interval_of_a_well_posed_problem_is_narrow():
    rng = np.random.default_rng(2)
    A, b = rng.standard_normal((10, 20)), rng.standard_normal(10)
    for domain in (tb.Space(), tb.Ball(5.0)):
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b), domain=domain)
        result = tb.solve(problem, "exact")
        assert result.status == "certified"
        assert result.upper_error <= 1e-10 * result.upper_value
    binding = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b), domain=tb.Ball(0.1))
    assert tb.solve(binding, "exact").upper_error <= 1e-5 * 0.005


def test_a_lower_bound_that_is_attained_bounds_f_from_below_on_every_set():
    for domain in (tb.Orthant(), tb.Box(-INF, 4.0), tb.Halfspace([1.0, 0.0], 1.5), tb.Monotone()):
        problem = tb.Problem(
            upper=tb.SquaredNorm(), lower=tb.LeastSquares([[1.0, 1.0]], [2.0]), domain=domain
        )
        low, _ = tb.solve(problem, "exact").certificate.upper_optimum
        assert 1.0 - 1e-9 <= low <= 1.0  # x* = (1, 1)


def test_claims_by_a_lower_bound_are_never_wrong(count):
    """Integers, A x* = b and x* = A'y > 0 of least norm: f* and g* = 0 are exact."""
    rng, low = np.random.default_rng(8), []
    for i in range(count(12, 300)):
        m, n = rng.integers(1, 5), rng.integers(2, 8)
        A = rng.integers(0, 5, (m, n)).astype(float)
        A[:, 0] += 1.0
        x = A.T @ rng.integers(1, 5, m)
        unit = 2.0 ** rng.integers(-40, 40)
        domain = (tb.Orthant(), tb.Box(0.0, 4.0 * unit * np.max(x)))[i % 2]
        problem = tb.Problem(
            upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, A @ x * unit), domain=domain
        )
        intervals, f_star = (
            solved(problem).evidence.intervals,
            Fraction(x @ x) * Fraction(unit) ** 2 / 2,
        )
        assert intervals is not None
        assert not wrong_intervals(intervals, f_star, Fraction(0))
        low.append(float(Fraction(intervals.upper[0]) / f_star))
    assert min(low) >= 1.0 - 1e-6
    print(f"\nExact's proved bound on f* where g* = 0 is known: at least {min(low):.12f} f*")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_random_inverse_problem_is_certified_on_the_orthant(seed):
    problem = tb.instance("random-inverse", domain=tb.Orthant(), seed=seed).problem
    result = tb.solve(problem, "exact", criterion="weak")
    assert result.status == "certified"
    assert result.certificate.upper_gap <= 1e-9 * abs(result.upper_value)
    assert tb.solve(problem, "exact").success


# --- what it is made of ---------------------------------------------------------------------------


def test_products_are_as_if_in_twice_the_precision(count):
    rng = np.random.default_rng(1)
    for _ in range(count(20, 200)):
        m, n = rng.integers(1, 6, 2)
        A = rng.standard_normal((m, n)) * 10.0 ** rng.integers(-100, 100)
        x = rng.standard_normal(n) * 10.0 ** rng.uniform(-8, 8, n)
        b = A @ x  # so that nearly everything cancels
        exact = [
            sum((Fraction(s) * Fraction(t) for s, t in zip(row, x, strict=True)), -Fraction(u))
            for row, u in zip(A, b, strict=True)
        ]
        eps, size = spectra.EPS, abs(A) @ abs(x) + abs(b)
        for got, truth, terms in zip(host.Sliced(A).times(x, b), exact, size, strict=True):
            assert abs(float(Fraction(got) - truth)) <= eps * abs(got) + (n * eps) ** 2 * terms


def test_products_of_larger_matrices_and_their_transposes(count):
    """|computed - true| <= eps |true| + (n eps)² |A| |x|, against exact arithmetic."""
    rng = np.random.default_rng(2)
    for _ in range(count(3, 20)):
        m, n, k = rng.integers(20, 120, 3)
        A = rng.standard_normal((m, n)) * 2.0 ** rng.integers(-30, 30, (m, 1))
        X = rng.standard_normal((n, k)) * 2.0 ** rng.integers(-30, 30, (n, 1))
        matrix, eps = host.Sliced(A), spectra.EPS
        for got, B, Y in (
            (matrix.times(X), A, X),
            (matrix.times(X[:, 0]), A, X[:, 0]),
            (matrix.times(A @ X, transposed=True), A.T, A @ X),
        ):
            i, Y = int(rng.integers(len(B))), Y.reshape(len(Y), -1)
            true = sum(Fraction(s) * Fraction(t) for s, t in zip(B[i], Y[:, 0], strict=True))
            off = abs(float(Fraction(got.reshape(len(B), -1)[i, 0]) - true))
            size = np.linalg.norm(B) * np.linalg.norm(Y[:, 0])
            assert off <= eps * abs(float(true)) + (max(A.shape) * eps) ** 2 * size


def test_products_with_zeros_nothing_and_extreme_sizes():
    np.testing.assert_array_equal(host.Sliced(np.zeros((2, 3))).times(np.ones(3)), np.zeros(2))
    np.testing.assert_array_equal(
        host.Sliced(np.ones((1, 2))).times(np.zeros(2), np.ones(1)), [-1.0]
    )
    assert host.Sliced(np.zeros((0, 3))).times(np.ones(3)).shape == (0,)
    assert host.Sliced(np.full((1, 1), 1e200)).times(np.full(1, 1e-200))[0] == pytest.approx(1.0)
    assert host.Sliced(np.full((1, 1), 1e-300)).times(np.full(1, 1e-20), np.ones(1))[0] == -1.0


def planted_program(rng, k, rows, rank, is_strict):
    """A quadratic program with a planted answer: M, q, B, slack, v and the multipliers there."""
    M, v = rng.standard_normal((rank, k)), rng.standard_normal(k)
    B = rng.standard_normal((rows, k))
    B /= np.linalg.norm(B, axis=1)[:, None]
    presses = np.arange(rows) < min(rows, k) // 2
    room = np.where(presses, 0.0, rng.uniform(0.1, 1.0, rows))
    z = np.where(presses, rng.uniform(0.1, 1.0, rows) * is_strict, 0.0)
    slack = B @ v + room
    return M, -(M.T @ (M @ v)) - B.T @ z, B, slack, v, presses


def test_a_hint_says_which_inequalities_press(count):
    rng = np.random.default_rng(8)
    for _ in range(count(5, 40)):
        k, rows = int(rng.integers(5, 60)), int(rng.integers(10, 120))
        M, q, B, slack, v, presses = planted_program(rng, k, rows, k + 3, is_strict=True)
        found = interior_point.interior_point(M, q, B, slack)
        assert np.linalg.norm(found.point - v) <= 1e-4 * np.linalg.norm(v)
        np.testing.assert_array_equal(found.guesses[0], presses)
        np.testing.assert_array_equal(found.guesses[1], presses)


def test_a_hint_where_nothing_presses_but_much_is_met(count):
    """s and z both vanish: the first guess finds them by their size."""
    rng = np.random.default_rng(9)
    for _ in range(count(5, 40)):
        k = int(rng.integers(5, 40))
        M, q, B, slack, v, presses = planted_program(rng, k, 2 * k, k + 3, is_strict=False)
        found = interior_point.interior_point(M, q, B, slack)
        assert np.linalg.norm(found.point - v) <= 1e-4 * np.linalg.norm(v)
        assert np.all(found.guesses[0][presses])


def test_a_face_and_its_factors():
    rng = np.random.default_rng(10)
    for k, independent in ((8, 5), (8, 8), (12, 3)):
        fixed = rng.standard_normal((independent, k))
        fixed = np.vstack([fixed, fixed[:2] + fixed[1:3]])  # two that depend on the others
        fixed /= np.linalg.norm(fixed, axis=1)[:, None]
        face, d, slope = active_set.Face(fixed), rng.standard_normal(k), rng.standard_normal(k)
        assert face.T.shape == (k, k - independent)
        np.testing.assert_allclose(fixed @ face.T, 0.0, atol=1e-14)
        np.testing.assert_allclose(fixed @ face.onto(fixed @ d), fixed @ d, atol=1e-12)
        assert np.linalg.norm(face.onto(fixed @ d)) <= np.linalg.norm(d) * (1 + 1e-12)
        weights, rest = face.balance(slope)
        np.testing.assert_allclose(slope + fixed.T @ weights, rest, atol=1e-12)
        np.testing.assert_allclose(fixed @ rest, 0.0, atol=1e-12)


@pytest.mark.parametrize("kind", ["box", "simplex", "l1", "monotone"])
def test_larger_polyhedra_where_the_lower_level_presses(kind):
    """Planted: entries held by the lower level, others by f; hundreds of inequalities."""
    rng, n, m = np.random.default_rng(11), 120, 40
    x = np.zeros(n)
    x[:60] = rng.uniform(0.2, 1.0, 60)
    if kind == "monotone":
        x = np.sort(rng.integers(0, 40, n) / 4.0)
        rows, domain = (np.eye(n)[:-1] - np.eye(n)[1:])[np.diff(x) == 0.0], tb.Monotone()
    elif kind == "simplex":
        rows, domain = -np.eye(n)[60:], tb.Simplex(float(np.sum(x)))
    elif kind == "box":
        rows, domain = -np.eye(n)[60:], tb.Box(0.0, 1.0)
    else:
        rows, domain = np.ones((1, n)) * np.where(x > 0, 1.0, 0.5), tb.L1Ball(float(np.sum(x)))
    below, above = (rng.uniform(0.1, 1.0, len(rows)) @ rows for _ in range(2))
    A, dual = rng.standard_normal((m, n)), rng.standard_normal(m)
    A -= np.outer(dual, A.T @ dual + below) / (dual @ dual)  # now A'dual = -below
    slope = A.T @ rng.standard_normal(m) - above
    B, weights = rng.standard_normal((n + 5, n)), rng.standard_normal(n + 5)
    B -= np.outer(weights, B.T @ weights - slope) / (weights @ weights)
    f, g = tb.LeastSquares(B, B @ x - weights), tb.LeastSquares(A, A @ x - dual)
    state = solved(tb.Problem(upper=f, lower=g, domain=domain))
    assert state.finished.why == "answer"
    np.testing.assert_allclose(state.x, x, atol=1e-9)
    assert state.upper_value == pytest.approx(f.value(x), rel=1e-11)


def test_loose_inequalities_are_those_that_some_feasible_direction_leaves():
    B = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    assert active_set.can_be_strict(B).tolist() == [False, False, True]
    assert active_set.can_be_strict(np.zeros((0, 2))).tolist() == []
    corner = np.array([[-1.0, 0.0], [0.0, -1.0], [0.6, 0.8]])  # only the origin is left
    assert active_set.can_be_strict(corner).tolist() == [False, False, False]


def test_every_weight_and_sum_gives_the_slope_of_the_function():
    rng = np.random.default_rng(4)
    A, b, y = rng.standard_normal((4, 3)), rng.standard_normal(4), np.array([1.0, -1, 1, 1])
    h = 2.0 * (tb.LeastSquares(A, b, mean=True) + 3.0 * tb.Logistic(A, y)) + tb.Linear([1.0, 2, 3])
    h = h + 0.5 * tb.SquaredNorm(2.0, center=[1.0, 0, 0]) + tb.Quadratic(A.T @ A, A[0])
    found = parts.decompose("Exact", "lower", h, 3)
    for _ in range(10):
        x = rng.standard_normal(3)
        np.testing.assert_allclose(found.slope(x).vector, h.gradient(x), rtol=1e-13, atol=1e-14)
        scaled, lifted = found.scaled, found.composed(np.hstack([np.eye(3), -np.eye(3)]))
        ratio = scaled.slope(x).vector / found.slope(x).vector
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-13)
        u = np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)])
        halves = lifted.slope(u).vector
        np.testing.assert_allclose(
            halves, np.concatenate([h.gradient(x), -h.gradient(x)]), rtol=1e-12
        )
        step, d = 1e-6, rng.standard_normal(3)
        rise = (h.gradient(x + step * d) - h.gradient(x - step * d)) @ d / (2 * step)
        R = found.curvature(x)
        assert np.sum((R @ d) ** 2) == pytest.approx(rise, rel=1e-7)
        above = found.curvature(x, above=True)
        assert np.sum((above @ d) ** 2) >= np.sum((R @ d) ** 2) * (1 - 1e-12)


# --- arrays, scales, degenerate cases -------------------------------------------------------------

SMALL = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]])


@pytest.mark.parametrize("domain", [tb.Space(), tb.Ball(2.0), tb.L1Ball(2.0), tb.Simplex(), tb.Monotone()])  # fmt: skip  # noqa: E501
def test_library_and_dtype_of_the_data_come_back_and_inputs_stay(domain):
    for make in (
        lambda t: np.asarray(t, dtype=np.float32),
        np.asarray,
        lambda t: xps.asarray(t, dtype=xps.float64),
        lambda t: xps.asarray(t, dtype=xps.float32),
    ):
        A, b, center = make(SMALL), make(np.array([1.0, 2.0])), make(np.array([0.0, 0.0, 1.0]))
        problem = tb.Problem(
            upper=tb.SquaredNorm(center=center), lower=tb.LeastSquares(A, b), domain=domain
        )
        x0 = problem.start(None)
        before = [np.array(t) for t in (A, b, center, x0)]
        state = solved(problem)
        assert type(state.x) is type(b)
        assert state.x.dtype == b.dtype
        for old, new in zip(before, (A, b, center, x0), strict=True):
            np.testing.assert_array_equal(old, np.array(new))
        expected = solved(
            tb.Problem(
                upper=tb.SquaredNorm(center=[0.0, 0.0, 1.0]),
                lower=tb.LeastSquares(SMALL, [1.0, 2.0]),
                domain=domain,
            )
        )
        np.testing.assert_allclose(np.array(state.x), expected.x, atol=1e-6)


def test_sparse_matrices_are_understood():
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(sp.csr_array(SMALL), [1.0, 2.0])
    )
    np.testing.assert_allclose(solved(problem).x, [0.5, 0.5, 0.0], rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("size", [1e-150, 1e-100, 1e-20, 1e20, 1e100, 1e150])
def test_the_answer_does_not_depend_on_the_scale(size):
    for domain in (tb.Orthant(), tb.Box(-1.0, 4.0), tb.Ball(10.0), tb.Space(), tb.L1Ball(9.0)):
        for A, b in (([[size, 2 * size]], [size]), ([[1.0, 2.0]], [1.0])):
            scaled = tb.SquaredNorm(size if A[0][0] == 1.0 else 1.0, center=[1.0, 0.5])
            problem = tb.Problem(upper=scaled, lower=tb.LeastSquares(A, b), domain=domain)
            state = solved(problem)
            assert state.finished.why == "answer"
            np.testing.assert_allclose(state.x, [0.8, 0.1], rtol=1e-12)


def test_tiny_and_huge_solutions():
    for size in (1e-150, 1e-30, 1e30, 1e150):
        for domain in (tb.Orthant(), tb.Space(), tb.Monotone(), tb.Ball(4 * size)):
            problem = tb.Problem(
                upper=tb.SquaredNorm(), lower=tb.LeastSquares([[1.0, 1.0]], [size]), domain=domain
            )
            np.testing.assert_allclose(solved(problem).x, [size / 2] * 2, rtol=1e-12)


@pytest.mark.parametrize("radius", [1e-300, 1e-200, 1e-150, 1e-100, 1e100, 1e150, 1e200, 1e300])
def test_tiny_and_huge_balls(radius):
    lower, ball = tb.LeastSquares([[1.0, 1.0]], [2.0]), tb.Ball(radius)
    expected = np.ones(2) * min(1.0, radius / math.sqrt(2.0))
    for upper in (tb.SquaredNorm(), tb.SquaredNorm(center=[1.0, 1.0])):
        state = solved(tb.Problem(upper=upper, lower=lower, domain=ball))
        assert state.finished.why == "answer"
        np.testing.assert_allclose(state.x, expected, rtol=1e-9)
        assert state.findings.dimension == (1 if radius > 1.0 else 0)
    if radius < 1.0:  # g's slope at 0 is that of -<(0, 1), x>
        logistic = tb.Logistic(THIN, np.ones(2))
        state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=logistic, domain=ball))
        np.testing.assert_allclose(state.x, [0.0, radius], rtol=1e-9, atol=1e-9 * radius)


def test_degenerate_problems():
    nothing = tb.LeastSquares(np.zeros((0, 3)), np.zeros(0))
    zero = tb.LeastSquares(np.zeros((2, 3)), np.ones(2))
    for lower in (nothing, zero, tb.Linear(np.zeros(3))):
        state = solved(tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Simplex()))
        np.testing.assert_allclose(state.x, 1 / 3, rtol=1e-14)
        assert state.findings.dimension == 2
        state = solved(tb.Problem(upper=tb.Linear([1.0, 2, 3]), lower=lower, domain=tb.Ball(2.0)))
        np.testing.assert_allclose(state.x, -2 * np.array([1, 2, 3]) / math.sqrt(14), rtol=1e-12)
    one = tb.LeastSquares([[2.0]], [1.0])
    for domain in (tb.Space(), tb.Orthant(), tb.Monotone(), tb.L1Ball(1.0), tb.Ball(1.0)):
        state = solved(tb.Problem(upper=tb.Linear([1.0]), lower=one, domain=domain))
        np.testing.assert_allclose(state.x, [0.5], rtol=1e-14)
        assert state.findings.dimension == 0
    fixed = tb.Problem(
        upper=tb.Linear([1.0, 1.0]), lower=tb.SquaredNorm(), domain=tb.Box([1.0, -1], [1.0, 5])
    )
    np.testing.assert_allclose(solved(fixed).x, [1.0, 0.0], atol=1e-15)


def test_entries_on_their_bounds_are_there_exactly():
    rng = np.random.default_rng(6)
    A, b = rng.standard_normal((15, 30)), rng.standard_normal(15)
    for domain, bound in ((tb.Orthant(), 0.0), (tb.L1Ball(1.0), 0.0), (tb.Box(-0.05, 0.05), 0.05)):
        x = solved(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b), domain=domain)).x
        assert np.count_nonzero(np.abs(x) == bound) >= 5
        assert np.all((np.abs(x) == bound) | (np.abs(np.abs(x) - bound) > 1e-9))


def test_a_ball_that_just_touches_the_solutions():
    """x* is the point of least norm, and on the sphere: rounding must not open a gap."""
    for radius in (5.0, 5.0 * (1 + 2e-16), 5.0 * (1 - 2e-16)):
        lower = tb.LeastSquares([[3.0, 4.0, 0.0]], [25.0])
        problem = tb.Problem(upper=tb.Linear([0.0, 0.0, 1.0]), lower=lower, domain=tb.Ball(radius))
        state = solved(problem)
        np.testing.assert_allclose(state.x, [3.0, 4.0, 0.0], rtol=1e-12, atol=1e-12)


# --- refusals -------------------------------------------------------------------------------------


def test_what_it_cannot_do_is_refused_with_one_sentence():
    lower, upper = tb.LeastSquares([[1.0, 1.0]], [1.0]), tb.SquaredNorm()
    smooth = tb.Smooth(lambda x: 0.0, lambda x: 0 * x, lipschitz=1.0)
    for f, g, sentence in (
        (smooth, lower, r"^Exact: upper must be made of LeastSquares, .* got Smooth$"),
        (upper, lower + smooth, r"^Exact: lower must be made of .*Logistic.* got Smooth$"),
        (upper + 2.0 * smooth, lower, r"^Exact: upper must be made of .* got Smooth$"),
    ):
        with pytest.raises(ValueError, match=sentence):
            tb.solve(tb.Problem(upper=f, lower=g), "exact")

    class Wedge(tb.Space):
        pass

    class Other(Set):
        def project(self, x):
            return x

    tb.solve(tb.Problem(upper=upper, lower=lower, domain=Wedge()), "exact")
    sentence = Exact().check(tb.Problem(upper=upper, lower=lower, domain=Other())).sentence
    assert re.fullmatch(r"Exact: domain must be R\^n, .* got Other", sentence)


def test_too_large_a_matrix_is_refused_before_it_is_made_dense():
    n = 5000
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(sp.eye_array(n).tocsr(), np.ones(n))
    )
    sentence = Exact().check(problem).sentence
    assert re.fullmatch(r"Exact: upper must have at most .* got 5000 x 5000", sentence)


def test_a_large_problem_needs_no_other_solver(monkeypatch):
    problem, *_ = large(tb.L1Ball(6.0), "squares")
    monkeypatch.setitem(sys.modules, "clarabel", None)
    assert solved(problem).finished.why == "answer"


def test_a_run_can_be_saved_and_its_first_step_is_its_last(tmp_path):
    where = tmp_path / "run.npz"
    runs = []
    for _ in range(2):
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares([[1.0, 1.0]], [1.0]))
        runs.append(tb.solve(problem, "exact", rtol=0.0, checkpoint=where))
    first, again = runs
    assert first.status == again.status == "solved"
    assert first.nit == again.nit == 1
    np.testing.assert_array_equal(first.x, again.x)
    assert again.dimension == 1
    assert "by direct factorisation" in again.message


def test_where_there_is_no_minimiser_nothing_is_claimed_about_f():
    labels = tb.Logistic(np.array([[1.0, 0.0], [2.0, 0.0]]), np.ones(2))
    below = tb.LeastSquares(np.array([[1.0, 0.0]]), [1.0])
    for upper, lower in ((tb.SquaredNorm(), labels), (tb.Linear(np.array([0.0, 1.0])), below)):
        result = tb.solve(tb.Problem(upper=upper, lower=lower), "exact")
        assert result.status == "unbounded"
        assert not result.success
        assert result.upper_gap == result.upper_error == math.inf
        assert result.upper_optimum == (-math.inf, math.inf)


@pytest.mark.parametrize("room", [1.0, 1e-3, 1e-7, 0.0, -1e-7])
def test_where_the_ball_binds_f_both_sides_are_proved(room, count):
    """min ½|Cx - c|² over {Ax = b, |x - center| <= R}: against the root of the secular equation.

    R is larger than what Ax = b needs by the share ``room``; without any there is no minimiser on
    R^n deep inside, and nothing may be claimed of one.
    """
    for seed in range(count(6, 60)):
        rng = np.random.default_rng(seed)
        n, m = 12, int(rng.integers(1, 8))
        A, C = rng.standard_normal((m, n)), rng.standard_normal((9, n))
        center = rng.standard_normal(n) if seed % 2 else np.zeros(n)
        b, c = A @ (center + rng.standard_normal(n)), 1e3 * rng.standard_normal(9)
        nearest = center + np.linalg.pinv(A) @ (b - A @ center)
        away = float(np.linalg.norm(nearest - center))
        radius = away * (1.0 + room)
        N = np.linalg.svd(A)[2][m:].T
        left = np.sqrt(max(radius**2 - away**2, 0.0))
        f_star = least_in_a_ball(C @ N, c - C @ nearest, left)
        problem = tb.Problem(
            upper=tb.LeastSquares(C, c),
            lower=tb.LeastSquares(A, b),
            domain=tb.Ball(radius, center if seed % 2 else None),
        )
        proof = tb.solve(problem, "exact").certificate
        low, high = proof.upper_optimum
        size = 0.5 * float(c @ c)
        assert low - 1e-9 * size <= f_star <= high + 1e-9 * size, seed
        if room >= 1e-3:
            assert proof.upper_error <= 1e-7 * size, seed


def least_in_a_ball(F: np.ndarray, s: np.ndarray, radius: float) -> float:
    """min ½|Fu - s|² over |u| <= radius, where that binds: u = (F'F + t)^-1 F's, |u| = radius."""
    if radius == 0.0:
        return 0.5 * float(s @ s)
    values, V = np.linalg.eigh(F.T @ F)
    pull = V.T @ F.T @ s

    def excess(t: float) -> float:
        return float(np.linalg.norm(pull / (values + t))) - radius

    t = scipy.optimize.brentq(excess, 1e-9, np.linalg.norm(pull) / radius, xtol=1e-14)
    return 0.5 * float(np.linalg.norm(F @ V @ (pull / (values + t)) - s) ** 2)
