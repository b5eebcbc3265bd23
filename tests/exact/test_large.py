"""Tall data and many faces: every shortcut against the plain computation or a planted answer."""

from __future__ import annotations

import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import tiebreak as tb
from tiebreak.exact.bounds.curvature_bounds import combined, least_stretch
from tiebreak.exact.bounds.feasible_points import complement, inward_direction
from tiebreak.exact.faces import Face
from tiebreak.exact.interior_point import Inequalities, NormalEquations, interior_point
from tiebreak.exact.newton import _line_search, _small_root
from tiebreak.functions.losses.logistic import LogisticLoss
from tiebreak.functions.parts.loss_parts import LossPart
from tiebreak.functions.parts.parts import Parts
from tiebreak.linalg import spectra

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "race"))

import structured


def orthonormal(rng, rows, columns):
    return np.linalg.qr(rng.standard_normal((columns, rows)))[0].T


def bounds(rng, k, dense):
    """Rows of length 1: most about single variables, some not."""
    B = np.vstack([np.eye(k), -np.eye(k)[: k // 2], rng.standard_normal((dense, k))])
    return B / np.linalg.norm(B, axis=1)[:, None]


# --- linear algebra -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_diagonal", [False, True])
@pytest.mark.parametrize("equations", [0, 3])
def test_all_forms_of_the_normal_equations(is_diagonal, equations):
    rng, k = np.random.default_rng(1), 12
    M = np.diag(rng.uniform(0.5, 2.0, k)) if is_diagonal else rng.standard_normal((5, k))
    B, E = bounds(rng, k, 2), orthonormal(rng, equations, k)
    weights, right = 10.0 ** rng.uniform(-3, 3, len(B)), rng.standard_normal(k)
    H, rows = np.diag(M) ** 2 if is_diagonal else M.T @ M, Inequalities(B)
    K = M.T @ M + B.T @ (weights[:, None] * B)
    both = np.block([[K, E.T], [E, np.zeros((len(E), len(E)))]])
    d = np.linalg.solve(both, np.append(right, np.zeros(len(E))))[:k]
    system = NormalEquations(H, rows, weights, E)
    assert system.is_sound
    np.testing.assert_allclose(system.solve(right), d, rtol=1e-7, atol=1e-9 * np.linalg.norm(d))


@pytest.mark.parametrize("paired", [False, True])
def test_a_hint_with_equations_and_pairs(paired, count):
    """Planted: q is minus the slope and the normals at v, up to the equations."""
    rng = np.random.default_rng(2)
    for _ in range(count(4, 40)):
        n = int(rng.integers(8, 40))
        k, m = (2 * n if paired else n), n + 2
        M = rng.standard_normal((m, n))
        M = np.hstack([M, -M]) if paired else M
        B, E = bounds(rng, k, 1), orthonormal(rng, 2, k)
        v = rng.standard_normal(k)
        v -= E.T @ (E @ v)
        presses = np.zeros(len(B), dtype=bool)
        presses[: n // 3] = True
        if paired:  # otherwise v is not the only minimiser
            presses[n:k] = True
        z = np.where(presses, rng.uniform(0.1, 1.0, len(B)), 0.0)
        slack = B @ v + np.where(presses, 0.0, rng.uniform(0.1, 1.0, len(B)))
        q = -(M.T @ (M @ v)) - B.T @ z + E.T @ rng.standard_normal(2)
        found = interior_point(M, q, B, slack, E)
        assert np.linalg.norm(found.point - v) <= 1e-4 * np.linalg.norm(v)
        np.testing.assert_array_equal(found.guesses[0], presses)


def test_a_hint_where_nothing_is_feasible():
    B = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    assert interior_point(np.eye(2), np.ones(2), B, np.array([-1.0, -1.0, 3.0])) is None


def test_faces_of_bounds_are_faces():
    rng = np.random.default_rng(3)
    for dense in (0, 1, 3):
        fixed = np.vstack([bounds(rng, 15, dense)[:6], bounds(rng, 15, dense)[22:]])
        turn = orthonormal(rng, 15, 15)  # in v = turn u no row fixes a single variable
        quick, plain = Face(fixed), Face(fixed @ turn)
        T = turn @ plain.T
        np.testing.assert_allclose(quick.T @ quick.T.T, T @ T.T, atol=1e-13)
        d, slope, R = (rng.standard_normal(s) for s in (15, 15, (4, 15)))
        np.testing.assert_allclose(quick.onto(fixed @ d), turn @ plain.onto(fixed @ d), atol=1e-12)
        (w, rest), (weights, turned) = quick.balance(slope), plain.balance(turn.T @ slope)
        np.testing.assert_allclose(w, weights, atol=1e-12)
        np.testing.assert_allclose(rest, turn @ turned, atol=1e-12)
        for ours, theirs in zip(
            quick.step(R, 4.0, slope, 4.0),
            plain.step(R @ turn, 4.0, turn.T @ slope, 4.0),
            strict=True,
        ):
            np.testing.assert_allclose(ours, turn @ theirs, atol=1e-9)


@pytest.mark.parametrize("condition", [1e1, 1e4, 1e9])
@pytest.mark.parametrize("keeps_digits", [False, True])
def test_a_small_root_has_the_same_square(condition, keeps_digits):
    rng, m, n, r = np.random.default_rng(4), 400, 9, 6
    basis = orthonormal(rng, r, n).T
    U = orthonormal(rng, r, m).T
    R = (U * np.geomspace(1.0, 1.0 / condition, r)) @ basis.T
    small = _small_root(R, basis, keeps_digits)
    assert len(small) <= n
    for _ in range(20):
        v = basis @ rng.standard_normal(r)
        v /= np.linalg.norm(v)
        long, short = np.linalg.norm(R @ v), np.linalg.norm(small @ v)
        assert abs(long - short) <= 1e-5 * long + 1e-14
    np.testing.assert_allclose(small @ np.linalg.svd(basis.T)[2][r:].T, 0.0, atol=1e-15)


def test_exact_ranks_of_more_columns_than_a_panel():
    rng = np.random.default_rng(5)
    for m, n, r in ((40, 70, 33), (200, 90, 64), (90, 200, 1), (33, 33, 33), (300, 65, 32)):
        A = rng.integers(-9, 10, (m, r)).astype(float) @ rng.integers(-9, 10, (r, n))
        assert spectra.exact_rank(A * 2.0 ** rng.integers(-40, 40, n)) == r
        A[-1, -1] += 2.0**-30  # one more, as the numbers are stored
        assert spectra.exact_rank(A) == min(r + 1, m, n)


def test_the_line_search_finds_the_lowest_point():
    rng = np.random.default_rng(7)
    ones = np.ones(50)
    h = Parts(4, (LossPart(1.0, rng.standard_normal((50, 4)), ones, ones, LogisticLoss()),))
    for length in (1e-3, 1.0, 1e2, 1e4):
        d = -length * h.slope(np.zeros(4)).vector
        found = _line_search(h, np.zeros(4), d)
        derivative = h.along(np.zeros(4), d)
        if derivative(1.0) <= 0.0:
            assert found == 1.0
            continue
        best = scipy.optimize.brentq(derivative, 0.0, 1.0)
        assert best <= found * (1 + 1e-12)
        assert found <= 1.011 * best


# --- proofs ---------------------------------------------------------------------------------------


def test_the_least_stretch_is_never_too_large():
    rng, n = np.random.default_rng(8), 12
    for smallest in (1.0, 1e-3, 1e-6, 1e-7, 1e-9, 1e-15):
        with mpmath.workdps(40):
            U, V = (orthonormal(rng, n, size) for size in (30, n))
            rows = U.T * np.geomspace(1.0, smallest, n) @ V
            square = mpmath.matrix(rows.tolist())
            least = mpmath.sqrt(min(mpmath.eigsy(square.T * square, eigvals_only=True)))
            assert least_stretch(rows) <= least
        assert least_stretch(rows) >= 0.7 * smallest - 1e-13


@pytest.mark.parametrize("tall", [0, 1])
def test_combinations_of_rows(tall):
    rng = np.random.default_rng(9)
    for condition in (1.0, 1e6, 1e12):
        rows = orthonormal(rng, 6, 20) * np.geomspace(1.0, 1.0 / condition, 6)[:, None]
        rows = np.vstack([rows, rows[:1], np.zeros((20 * tall, 20))])
        target = rows.T @ rng.standard_normal(len(rows))
        assert np.linalg.norm(rows.T @ combined(rows, target) - target) <= 1e-13
        off = rng.standard_normal(20)
        left = off - rows.T @ combined(rows, off)
        best = off - rows.T @ np.linalg.lstsq(rows.T, off, rcond=None)[0]
        assert np.linalg.norm(left) <= np.linalg.norm(best) * (1.0 + 1e-12)


@pytest.mark.parametrize("has_basis", [False, True])
def test_an_inward_direction_is_the_clearest(has_basis, count):
    """Duality: no direction is clearer than |G'z - span'y| for weights z >= 0 with sum 1."""
    rng = np.random.default_rng(10)
    for _ in range(count(5, 30)):
        k, m = int(rng.integers(6, 30)), int(rng.integers(3, 20))
        span = orthonormal(rng, int(rng.integers(0, 3)), k)
        G = rng.standard_normal((m, k))
        G -= 0.6 * rng.standard_normal(k)
        G /= np.linalg.norm(G, axis=1)[:, None]
        d = inward_direction(G, span, complement(span) if has_basis else None)
        P = G - (G @ span.T) @ span
        z = scipy.optimize.nnls(np.vstack([P.T, 1e3 * np.ones(m)]), np.append(np.zeros(k), 1e3))[0]
        bound = np.linalg.norm(P.T @ (z / np.sum(z)))
        clear = 0.0 if d is None else -np.max(G @ d)
        assert clear <= bound * (1 + 1e-9)
        assert clear >= min(0.99 * bound, 0.1 / np.sqrt(m)) - 1e-6
        if d is not None:
            assert abs(np.linalg.norm(d) - 1.0) <= 1e-12
            assert np.linalg.norm(span @ d) <= 1e-12


# --- problems -------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("is_met", [True, False])
@pytest.mark.parametrize("kind", ["orthant", "box", "simplex", "l1 ball"])
def test_planted_least_squares_with_many_faces(kind, is_met, count):
    for seed in range(count(1, 6)):
        case = structured.planted(np.random.default_rng(seed), kind, is_met, (60, 120))
        total = 0.5 * float(case.x @ case.x)
        result = tb.solve(case.problem(), "exact")
        assert result.status in ("certified", "solved")
        assert abs(result.upper_value - total) <= 1e-10 * total
        assert np.linalg.norm(result.x - case.x) <= 1e-6 * np.linalg.norm(case.x)
        low, high = result.upper_optimum
        assert low <= total * (1 + 1e-12)
        assert total * (1 - 1e-12) <= high


@pytest.mark.parametrize("radius", [0.5, 30.0])
def test_tall_logistic_losses_of_deficient_rank_in_a_ball(radius):
    """The optimality conditions, in the arithmetic of mpmath."""
    A, y = structured.one_hot(np.random.default_rng(11), 600, 25)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, y), domain=tb.Ball(radius))
    result = tb.solve(problem, "exact")
    rank = np.linalg.matrix_rank(A)
    assert rank < 25
    with mpmath.workdps(40):
        x = [mpmath.mpf(t) for t in result.x]
        slope = [mpmath.mpf(0)] * 25
        for row, label in zip(A, y, strict=True):
            margin = label * mpmath.fsum(t for t, on in zip(x, row, strict=True) if on)
            share = -label / (1 + mpmath.exp(margin)) / len(A)
            slope = [s + share * on for s, on in zip(slope, row, strict=True)]
        length = mpmath.sqrt(mpmath.fsum(t * t for t in x))
        if radius == 0.5:  # the ball binds: minus the slope is a multiple of x
            assert result.dimension == 0
            assert abs(length - radius) <= 1e-14
            mu = -mpmath.fsum(s * t for s, t in zip(slope, x, strict=True)) / length**2
            assert mu > 0
            slope = [s + mu * t for s, t in zip(slope, x, strict=True)]
        else:  # it is the shortest of all minimisers
            assert result.dimension == 25 - rank
            null = np.linalg.svd(A)[2][rank:]
            assert np.linalg.norm(null @ result.x) <= 1e-12 * np.linalg.norm(result.x)
        assert max(abs(s) for s in slope) <= 1e-15


def test_separable_data_in_a_large_ball():
    """Margins grow until the ball ends: then -slope is a multiple of x."""
    rng = np.random.default_rng(12)
    A, _ = structured.one_hot(rng, 500, 20)
    t = A @ rng.standard_normal(20)
    keep = np.abs(t - np.median(t)) > 0.2
    A, y = A[keep], np.sign(t - np.median(t))[keep]
    lower = tb.Logistic(A, y)
    for radius in (1e1, 1e3):
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(radius))
        result = tb.solve(problem, "exact")
        assert result.success
        slope = lower.gradient(result.x)
        cosine = -slope @ result.x / np.linalg.norm(slope) / np.linalg.norm(result.x)
        assert cosine >= 1.0 - 1e-9


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
def test_a_zero_matrix_is_not_factorised(kind, monkeypatch):
    """All x are minimisers of g, and f has a formula; its curvature is a diagonal matrix."""
    for name in ("svd", "eigvalsh", "eigh"):
        monkeypatch.setattr(np.linalg, name, _only_small(getattr(np.linalg, name)))
    n = 300
    center = np.linspace(-2.0, 2.0, n)
    lower = tb.LeastSquares(kind(np.zeros((5, n))), np.ones(5))
    for weight in (1.0, 1.0 + np.arange(n) / n):
        upper = tb.SquaredNorm(center=center, weight=weight)
        for domain in (tb.Space(), tb.Orthant(), tb.Box(-1.0, 1.0), tb.Ball(1e3)):
            problem = tb.Problem(upper=upper, lower=lower, domain=domain)
            result = tb.solve(problem, "exact")
            assert result.status == "certified"
            assert (result.findings.rank, result.dimension) == (0, n)
            np.testing.assert_allclose(result.x, domain.project(center), rtol=0, atol=1e-14)


def _only_small(factorise):
    def checked(A, *args, **options):
        assert min(A.shape) <= 5, "factorised"
        return factorise(A, *args, **options)

    return checked


def test_linear_programs_with_few_equations_are_sparse(monkeypatch):
    """Posed in x, where a bound is one entry, and not in coordinates of the slice."""
    entries = []
    solve = scipy.optimize.linprog

    def counted(cost, **program):
        entries.append(sum(np.size(getattr(program[k], "data", 0)) for k in ("A_ub", "A_eq")))
        return solve(cost, **program)

    monkeypatch.setattr(scipy.optimize, "linprog", counted)
    rng, n = np.random.default_rng(3), 200
    A, c = rng.standard_normal((3, n)), rng.standard_normal(n)
    b = A @ rng.uniform(-0.5, 0.5, n)
    problem = tb.Problem(upper=tb.Linear(c), lower=tb.LeastSquares(A, b), domain=tb.Box(-1.0, 1.0))
    result = tb.solve(problem, "exact")
    assert result.status == "certified"
    assert entries
    assert max(entries) <= 2 * n + A.size
    truth = solve(c, A_eq=A, b_eq=b, bounds=(-1.0, 1.0))
    assert result.upper_value == pytest.approx(truth.fun, rel=1e-9)
