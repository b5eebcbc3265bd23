"""Exact with f = L1: the sparsest of all lower minimisers, planted and against a conic solver."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from fractions import Fraction

import array_api_strict as xps
import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from helpers.exact import CVXPY_WORDS, hilbert, solved, wrong_intervals
from planted import smooth as planted
from planted import structured as planted_exact

import tiebreak as tb
from tiebreak.exact.method import Exact
from tiebreak.linalg.linear_programs import linear_program

DOMAINS = [domain for domain in planted.DOMAINS if domain != "Ball"]
LOWERS = ["consistent", "inconsistent", "Quadratic", "LeastSquares+Linear"]


# --- planted answers ------------------------------------------------------------------------------


def sparse_instance(seed):
    """A problem with f = weight |x|_1 and its answer, by a planted dual certificate.

    x* first; then s in the subgradients of |.|_1 and n in the normals of Z at x*, and a lower level
    whose rows contain s + n: |x|_1 >= <s, x> = <s + n, x> - <n, x>, where the first product is
    shared by all lower minimisers and the second is largest at x*.
    """
    rng = np.random.default_rng([1909, seed])
    domain, kind = DOMAINS[seed % 7], LOWERS[(seed // 7) % 4]
    n, X = int(rng.choice([1, 2, 3, 5, 8, 12])), 2.0 ** int(rng.integers(-8, 9))
    region = planted.region(domain, rng, n, X, boundary=rng.random() < 0.7)
    if domain == "Space":
        region = replace(region, x_star=region.x_star * (rng.random(n) < 0.5))
    x = region.x_star
    off = rng.integers(-4, 5, n) if seed % 5 == 0 else rng.integers(-3, 4, n)
    s = np.where(x == 0.0, off, 4 * np.sign(x))  # four times a subgradient
    certificate = s + 4 * region.normal(rng)
    rank = int(rng.integers(1, n + 1))
    A = np.vstack([certificate, planted_exact._rows(rng, rank - 1, n, None)])
    grade = int(rng.choice(planted_exact.GRADES)) // (2 if kind == "Quadratic" else 1)
    A = planted_exact._graded(rng, A, grade)
    normal = region.normal(rng) if rng.random() < 0.5 else np.zeros(n)
    lower, rows, normal = planted_exact._lower(kind, rng, x, X, A, normal)
    lower = planted.Function(lower.parts, float(10 ** rng.uniform(-3, 3)))
    weight = float(10 ** rng.uniform(-8, 8))
    problem = tb.Problem(upper=tb.L1(weight), lower=lower.build(tb), domain=region.build(tb))
    strict = bool(np.all(np.abs(s[x == 0.0]) < 4))
    unique = strict and (not x.any() or len(planted.null_space(rows[:, x != 0.0])) == 0)
    return problem, region, lower, rows, normal, unique, f"{seed}: {kind} on {domain}, n = {n}"


def test_planted_answers_on_all_polyhedra(count):
    number, unique = count(28, 280), 0
    worst = dict.fromkeys(("f", "g", "x", "residual"), 0.0)
    below = []
    for seed in range(number):
        problem, region, lower, _, _, is_unique, where = sparse_instance(seed)
        x, weight = region.x_star, problem.upper.penalty.weight
        state = solved(problem)
        assert state.finished.why == "answer", (where, state.finished)
        f_star = Fraction(weight) * sum(map(abs, planted.fractions(x)))
        g_star, _, g_scale = lower.exact(x)
        size = max(np.abs(x).sum(), np.linalg.norm(state.x), 2.0**-8)
        steep = max(lower.lipschitz * size, np.linalg.norm(lower.gradient(x)))
        errors = {
            "f": abs(state.upper_value - float(f_star)) / (weight * size),
            "g": abs(state.lower_value - float(g_star)) / (float(g_scale) + steep * size or 1.0),
            "residual": state.findings.residual,
            "x": np.linalg.norm(state.x - x) / size if is_unique else 0.0,
        }
        unique += is_unique
        assert all(error <= 1e-9 for error in errors.values()), (where, errors)
        assert not wrong_intervals(state.evidence.intervals, f_star, g_star), where
        if f_star > 0:
            below.append(state.evidence.intervals.upper[0] / float(f_star))
        worst = {name: max(worst[name], float(errors[name])) for name in worst}
    figures = ", ".join(f"{name} {error:.1e}" for name, error in worst.items())
    tight = sum(share >= 1.0 - 1e-6 for share in below)
    print(
        f"\nsparsest of all minimisers, {number} planted ({unique} unique): worst {figures}; "
        f"f* proved from below to 1e-6 on {tight} of {len(below)}"
    )
    assert unique >= number // 4
    assert tight >= len(below) // 3


def basis_pursuit(seed, m, n, k):
    rng = np.random.default_rng(seed)
    A, x = rng.standard_normal((m, n)), np.zeros(n)
    x[rng.choice(n, k, replace=False)] = rng.standard_normal(k)
    return A, x


def test_basis_pursuit_recovers_the_planted_vector(count):
    """A conic solve or an LP alone gives 1e-9 to 1e-6; the equations of its support give it all."""
    m, n, k = (200, 1000, 20) if count(0, 1) else (60, 300, 6)
    for seed in range(count(2, 5)):
        A, x = basis_pursuit(seed, m, n, k)
        problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, A @ x))
        state = solved(problem)
        error = np.linalg.norm(state.x - x) / np.linalg.norm(x)
        print(f"\nbasis pursuit {m} x {n}, {k} non-zeros: error {error:.1e}")
        assert state.finished.why == "answer"
        assert error <= 1e-9
        assert np.array_equal(state.x != 0.0, x != 0.0)
        assert state.findings.dimension == n - m
        assert state.findings.residual <= 1e-12
        low, high = state.evidence.intervals.upper
        assert low <= np.abs(x).sum() <= high
        assert high - low <= 1e-8 * high


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [1e-8, 1e-3, 1e4, 1e8])
def test_units_do_not_matter(size):
    A, x = basis_pursuit(3, 12, 40, 3)
    for of_f, of_A, of_x in ((size, 1.0, 1.0), (1.0, size, 1.0), (1.0, 1.0, size)):
        lower = tb.LeastSquares(of_A * A, of_A * A @ (of_x * x))
        for domain in (tb.Space(), tb.Box(-9.0 * of_x, 9.0 * of_x), tb.L1Ball(90.0 * of_x)):
            state = solved(tb.Problem(upper=tb.L1(of_f), lower=lower, domain=domain))
            np.testing.assert_allclose(state.x / of_x, x, rtol=1e-9, atol=1e-12)
            assert state.upper_value == pytest.approx(of_f * of_x * np.abs(x).sum(), rel=1e-12)
            low, _ = state.evidence.intervals.upper
            assert (1 - 1e-6) * state.upper_value <= low <= (1 + 1e-9) * state.upper_value


# --- against a conic solver -----------------------------------------------------------------------

CONES = {
    "Space": (tb.Space(), lambda x: []),
    "Orthant": (tb.Orthant(), lambda x: [x >= 0]),
    "Box": (tb.Box(-0.3, 0.4), lambda x: [x >= -0.3, x <= 0.4]),
    "L1Ball": (tb.L1Ball(2.0), lambda x: [cp.norm1(x) <= 2.0]),
    "Simplex": (tb.Simplex(2.0), lambda x: [x >= 0, cp.sum(x) == 2.0]),
    "Monotone": (tb.Monotone(), lambda x: [cp.diff(x) >= 0]),
    "Halfspace": (tb.Halfspace(np.ones(16), -1.0), lambda x: [cp.sum(x) <= -1.0]),
}


@pytest.mark.sample(2)
@pytest.mark.filterwarnings(CVXPY_WORDS)
@pytest.mark.parametrize("name", CONES)
def test_the_value_is_that_of_a_conic_solver(count, name):
    """Rank-deficient rows and an inconsistent right side; the slice through Exact's own A x."""
    domain, cone = CONES[name]
    for seed in range(count(3, 25)):
        rng = np.random.default_rng([7, seed])
        A = rng.standard_normal((9, 5)) @ rng.standard_normal((5, 16))
        inside = domain.project(rng.standard_normal(16))
        b = A @ inside + (seed % 2) * rng.standard_normal(9)
        state = solved(tb.Problem(upper=tb.L1(2.0), lower=tb.LeastSquares(A, b), domain=domain))
        assert state.finished.why == "answer", state.finished
        assert state.findings.residual <= 1e-9
        assert domain.contains(state.x, 1e-12)
        x = cp.Variable(16)
        lower = cp.Problem(cp.Minimize(cp.sum_squares(A @ x - b) / 2), cone(x))
        lower.solve(solver=cp.CLARABEL)
        assert state.lower_value <= lower.value + 1e-7 * (1 + lower.value)
        # The conic solver is given a little room, for A x = A xhat just touches Z now and then.
        close = cp.norm(A @ x - A @ state.x) <= 1e-9
        upper = cp.Problem(cp.Minimize(2.0 * cp.norm1(x)), [*cone(x), close])
        upper.solve(solver=cp.CLARABEL)
        assert state.upper_value == pytest.approx(upper.value, rel=1e-6, abs=1e-7)
        low, high = state.evidence.intervals.upper
        assert low <= upper.value * (1 + 1e-6) + 1e-6
        assert high >= upper.value * (1 - 1e-6) - 1e-6


def test_a_logistic_lower_level_has_a_sparsest_minimiser_too():
    rng = np.random.default_rng(5)
    A = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 12))
    y = np.sign(A @ rng.standard_normal(12) + 8.0 * rng.standard_normal(60))
    state = solved(tb.Problem(upper=tb.L1(), lower=tb.Logistic(A, y)))
    assert state.finished.why == "answer"
    assert np.count_nonzero(state.x) <= 4
    dense = solved(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, y)))
    np.testing.assert_allclose(A @ state.x, A @ dense.x, atol=1e-9)
    assert np.abs(state.x).sum() < np.abs(dense.x).sum()


# --- degenerate cases -----------------------------------------------------------------------------


def test_degenerate_problems():
    for lower in (tb.LeastSquares(np.zeros((0, 3)), []), tb.LeastSquares(np.zeros((2, 3)), [1, 2])):
        state = solved(tb.Problem(upper=tb.L1(), lower=lower))
        assert state.finished.why == "answer"
        assert not state.x.any()
        assert state.findings.dimension == 3
    line = tb.LeastSquares([[1.0, 2.0, 0.0]], [0.0])
    assert not solved(tb.Problem(upper=tb.L1(), lower=line)).x.any()
    one = solved(tb.Problem(upper=tb.L1(), lower=tb.LeastSquares([[2.0]], [-1.0])))
    np.testing.assert_allclose(one.x, [-0.5], rtol=1e-15)
    assert one.findings.dimension == 0
    fixed = tb.Problem(
        upper=tb.L1(), lower=tb.LeastSquares([[0.0, 1.0, 1.0]], [3.0]),
        domain=tb.Box([1.0, -1.0, -1.0], [1.0, 5.0, 1.5]),
    )  # fmt: skip
    state = solved(fixed)
    assert state.x[0] == 1.0
    assert state.upper_value == pytest.approx(4.0, rel=1e-15)
    # A box away from 0: the point of least |x|_1 is a corner that the equations do not determine.
    away = tb.Problem(
        upper=tb.L1(), lower=tb.LeastSquares(np.zeros((0, 2)), []), domain=tb.Box(1.0, 2.0)
    )
    np.testing.assert_allclose(solved(away).x, [1.0, 1.0], rtol=1e-15)
    assert solved(away).evidence.intervals.upper[0] == pytest.approx(2.0, rel=1e-9)


def test_on_the_simplex_all_minimisers_are_alike():
    lower = tb.LeastSquares([[1.0, 2.0, 3.0]], [4.0])
    state = solved(tb.Problem(upper=tb.L1(3.0), lower=lower, domain=tb.Simplex(2.0)))
    assert state.upper_value == pytest.approx(6.0, rel=1e-14)
    assert state.evidence.intervals.upper[0] == pytest.approx(6.0, rel=1e-9)
    assert state.evidence.intervals.upper[0] <= 6.0


def test_many_sparsest_points_are_as_good_as_one():
    lower = tb.LeastSquares([[1.0, 1.0, -1.0]], [2.0])
    state = solved(tb.Problem(upper=tb.L1(), lower=lower))
    assert state.finished.why == "answer"
    assert state.upper_value == pytest.approx(2.0, rel=1e-14)


def test_small_entries_are_entries():
    """What is small beside the largest entry is not 0 for that."""
    rng = np.random.default_rng(8)
    for small in (1e-3, 1e-6, 1e-8, 1e-10):
        A = rng.standard_normal((20, 60))
        x = np.zeros(60)
        x[[3, 17, 40]] = 1.0, -small, small
        state = solved(tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, A @ x)))
        assert np.array_equal(np.sign(state.x), np.sign(x))
        np.testing.assert_allclose(state.x, x, rtol=1e-15 / small, atol=0.0)


def test_without_a_gap_the_rank_is_not_determined_and_nothing_is_claimed():
    problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(hilbert(14), np.ones(14)))
    state = solved(problem)
    assert state.finished.why == "doubt"
    assert state.finished[1].startswith("rank not determined: singular values ")
    assert state.evidence.intervals is None
    assert state.findings.dimension is None
    low, high = state.findings.upper_range
    assert 0.0 < low < high


def test_a_lower_level_without_minimiser_is_named_with_its_direction():
    for lower in (
        tb.Logistic([[1.0, 2.0], [2.0, 1.0]], [1.0, 1.0]),
        tb.LeastSquares([[1.0, 1.0]], [1.0]) + tb.Linear([1.0, 0.0]),
    ):
        result = tb.solve(tb.Problem(upper=tb.L1(), lower=lower), "exact")
        assert result.status == "unbounded"
        assert "g has no minimiser: it decreases along the direction x[" in result.message


def test_a_failed_linear_program_is_no_answer(monkeypatch):
    monkeypatch.setattr("tiebreak.exact.basis_pursuit._by_columns", lambda *_: None)
    state = solved(tb.Problem(upper=tb.L1(), lower=tb.LeastSquares([[1.0, 2.0]], [1.0])))
    assert state.finished.why == "doubt"
    assert "HiGHS did not solve the linear program" in state.finished[1]
    assert state.evidence.intervals is None
    assert linear_program(np.ones(1), [[1.0]], [-1.0], (0.0, None)) is None


# --- in the library's words -----------------------------------------------------------------------


@pytest.mark.parametrize("name", CONES)
def test_solve_certifies_it_on_every_polyhedron(name):
    domain, _ = CONES[name]
    rng = np.random.default_rng(2)
    A = rng.standard_normal((5, 16))
    b = A @ domain.project(rng.standard_normal(16))
    problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, b), domain=domain)
    result = tb.solve(problem, "exact", criterion="weak")
    assert result.status == "certified", str(result)
    assert tb.solve(problem, "exact").success
    assert result.upper_gap <= 1e-6 * result.upper_value
    assert result.method.startswith("Exact")
    assert result.dimension is not None


def test_library_and_dtype_of_the_data_come_back_and_inputs_stay():
    rows = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])
    for make in (
        np.asarray,
        lambda t: np.asarray(t, dtype=np.float32),
        lambda t: xps.asarray(t, dtype=xps.float64),
        lambda t: xps.asarray(t, dtype=xps.float32),
    ):
        A, b = make(rows), make(np.array([1.0, 2.0]))
        before = [np.array(t) for t in (A, b)]
        state = solved(tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, b)))
        assert type(state.x) is type(b)
        assert state.x.dtype == b.dtype
        np.testing.assert_allclose(np.array(state.x), [0.0, 0.5, 0.0], rtol=1e-6, atol=0.0)
        low, high = state.evidence.intervals.upper
        assert low <= 0.5 <= high
        for old, new in zip(before, (A, b), strict=True):
            np.testing.assert_array_equal(old, np.array(new))


def test_an_l1_weight_may_come_in_several_ways():
    lower = tb.LeastSquares([[1.0, 2.0]], [1.0])
    for upper in (
        tb.L1(3.0),
        3.0 * tb.L1(),
        tb.L1(1.0) + tb.L1(2.0),
        tb.ElasticNet(3.0, 0.0),
        tb.L1(3.0) + tb.Zero(),
    ):
        state = solved(tb.Problem(upper=upper, lower=lower))
        assert state.upper_value == pytest.approx(1.5, rel=1e-15)


def test_what_it_cannot_do_is_refused_with_one_sentence():
    lower, alone = tb.LeastSquares([[1.0, 1.0]], [1.0]), "upper must be L1 or L2 alone"
    for upper, below, domain, sentence in (
        (tb.L2() + tb.L1(), lower, tb.Space(), rf"^Exact: {alone} .*, got L2\(weight=1.0\) \+ L1"),
        (tb.ElasticNet(1.0, 1.0), lower, tb.Space(), rf"^Exact: {alone} .*, got ElasticNet"),
        (tb.GroupL2([0, 0]), lower, tb.Space(), rf"^Exact: {alone} .*, got L?"),
        (
            tb.SquaredNorm() + tb.L1(), lower, tb.Space(),
            rf"^Exact: {alone} .*, got <SquaredNorm> \+ L1\(weight=1.0\)$",
        ),
        (tb.L1(), lower, tb.Ball(), r"^Exact: domain must be a polyhedron .*, got Ball$"),
        (tb.L1(), lower + tb.L2(), tb.Space(), r"^Exact: lower must have no penalty but L1 "),
        (tb.SquaredNorm(), tb.L1(), tb.Space(), r"^Exact: lower must consist of LeastSquares, "),
    ):  # fmt: skip
        refusal = Exact().check(tb.Problem(upper=upper, lower=below, domain=domain))
        assert re.search(sentence, refusal.sentence)


def test_a_run_can_be_saved_and_its_first_step_is_its_last(tmp_path):
    problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares([[1.0, 2.0]], [1.0]))
    first, again = (
        tb.solve(problem, "exact", rtol=0.0, checkpoint=tmp_path / "run.npz") for _ in range(2)
    )
    assert first.nit == again.nit == 1
    np.testing.assert_array_equal(first.x, again.x)
    assert math.isfinite(again.upper_error)


# --- few rows and many columns --------------------------------------------------------------------


def least_l1(A, b, weights=1.0):
    """The least weighted |x|_1 with A x = b, by SciPy with all columns at once."""
    cost = np.tile(np.broadcast_to(weights, A.shape[1]), 2)
    return scipy.optimize.linprog(cost, A_eq=np.hstack([A, -A]), b_eq=b, bounds=(0, None)).fun


@pytest.mark.parametrize("has_highspy", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse", "weights", "center", "repeated", "copies"])
def test_column_generation_against_all_columns(kind, has_highspy, monkeypatch):
    if not has_highspy:
        monkeypatch.setitem(sys.modules, "highspy", None)
    rng = np.random.default_rng(4)
    A, b, upper = rng.standard_normal((12, 900)), rng.standard_normal(12), tb.L1()
    rows, target, weights, shift = A, b, 1.0, 0.0
    if kind == "sparse":
        A = rows = A * (rng.random(A.shape) < 0.2)
    if kind == "weights":
        weights = rng.uniform(0.5, 2.0, 900)
        weights[:3] = 0.0
        upper = tb.L1(weights)
    if kind == "center":
        shift = rng.standard_normal(900)
        upper, target = tb.L1(center=shift), b - A @ shift
    if kind == "repeated":  # no x meets both readings of a row: all minimisers meet their mean
        A, b = np.vstack([A, A[:4]]), np.append(b, b[:4] + 1.0)
        target = target + np.where(np.arange(12) < 4, 0.5, 0.0)
    if kind == "copies":
        A[:, 450:] = A[:, :450]
    best = least_l1(rows, target, weights)
    lower = tb.LeastSquares(sp.csr_array(A) if kind == "sparse" else A, b)
    result = tb.solve(tb.Problem(upper=upper, lower=lower))
    assert result.status == "certified"
    assert result.upper_value == pytest.approx(best, rel=1e-9)
    assert abs(result.upper_value - best) <= result.upper_error + 1e-8 * best  # HiGHS's own
    if kind == "copies":  # what |x|_1 leaves open is decided by the least norm
        np.testing.assert_allclose(result.x[:450], result.x[450:], rtol=0, atol=1e-12)
