"""Proofs without a radius: logistic losses, singular quadratics and constants on R^n.

The truth is computed here, in whole numbers and 60 decimal digits, and imports nothing of tiebreak:
g(x) = sum w_i log(1 + exp(-<b_i, C x>)) + v/2 (<e, C x> - s)² with whole b_i, C, e, so that its
minimisers are {x : C x = u}, u found by Newton's method, and there are ties.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.exact.bounds import intervals, loss_bounds
from tiebreak.exact.bounds.curvature_bounds import least_stretch
from tiebreak.exact.bounds.intervals import prove

DIGITS = 60


@pytest.fixture(autouse=True)
def digits():
    with decimal.localcontext() as context:
        context.prec = DIGITS
        yield


def numbers(x):
    return [Decimal(float(v)) for v in x]


def inner(a, b):
    return sum((p * q for p, q in zip(a, b, strict=True)), Decimal(0))


def solved(A, b):
    """A u = b by elimination with pivots."""
    A, n = [[*row, right] for row, right in zip(A, b, strict=True)], len(b)
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(A[i][k]))
        A[k], A[pivot] = A[pivot], A[k]
        for i in range(k + 1, n):
            share = A[i][k] / A[k][k]
            A[i] = [p - share * q for p, q in zip(A[i], A[k], strict=True)]
    u = [Decimal(0)] * n
    for k in reversed(range(n)):
        u[k] = (A[k][n] - inner(A[k][k + 1 : n], u[k + 1 :])) / A[k][k]
    return u


def losses(B, u, weight):
    return weight * sum((1 + (-inner(row, u)).exp()).ln() for row in B)


def lower_minimum(B, weight, squares):
    """u and g* by Newton's method with halved steps; squares = (v, e, s) or None."""
    r, u = len(B[0]), [Decimal(0)] * len(B[0])

    def value(u):
        extra = (
            Decimal(0)
            if squares is None
            else squares[0] / 2 * (inner(squares[1], u) - squares[2]) ** 2
        )
        return losses(B, u, weight) + extra

    for _ in range(200):
        slope, H = [Decimal(0)] * r, [[Decimal(0)] * r for _ in range(r)]
        for row in B:
            pull = 1 / (1 + inner(row, u).exp())
            for i in range(r):
                slope[i] -= weight * pull * row[i]
                for j in range(r):
                    H[i][j] += weight * pull * (1 - pull) * row[i] * row[j]
        if squares is not None:
            v, e, s = squares
            off = inner(e, u) - s
            for i in range(r):
                slope[i] += v * off * e[i]
                for j in range(r):
                    H[i][j] += v * e[i] * e[j]
        if max(map(abs, slope)) < Decimal(10) ** (12 - DIGITS):
            return u, value(u)
        step = solved(H, [-p for p in slope])
        length, now = Decimal(1), value(u)
        while True:
            ahead = [p + length * q for p, q in zip(u, step, strict=True)]
            if value(ahead) <= now * (1 + Decimal(10) ** (5 - DIGITS)):
                break
            length /= 2
        u = ahead
    raise AssertionError("Newton's method has not converged")


def upper_minimum(C, u, center, weight):
    """min weight/2 |x - center|² where C x = u."""
    off = [p - inner(row, center) for row, p in zip(C, u, strict=True)]
    gram = [[inner(a, b) for b in C] for a in C]
    return weight * inner(off, solved(gram, off)) / 2


class Planted:
    """A problem with ties, f* and g* to 60 digits."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        while True:
            r = int(rng.integers(1, 5))
            n, m = r + int(rng.integers(1, 6)), int(rng.integers(r + 1, 12))
            B = rng.integers(-3, 4, (m, r)).astype(float)
            B = np.vstack([B, -(rng.integers(1, 3, m) @ B)])  # some mean of all rows is 0
            C = rng.integers(-2, 3, (r, n)).astype(float)
            if np.linalg.matrix_rank(B) == np.linalg.matrix_rank(C) == r:
                break
        y = rng.choice([-1.0, 1.0], len(B))
        weight = [1.0, 2.0**-6, 4.0][seed % 3]
        lower = weight * tb.Logistic(y[:, None] * (B @ C), y, mean=False)
        squares = None
        if seed % 2:
            e = rng.integers(-2, 3, r).astype(float)
            e[0] = 1.0
            squares = Decimal(1), numbers(e), Decimal(float(rng.integers(-3, 4)))
            lower = lower + tb.LeastSquares((e @ C)[None], [float(squares[2])])
        center = np.zeros(n) if seed % 5 == 0 else np.round(4 * rng.standard_normal(n)) / 4
        upper = [tb.SquaredNorm(2.0, center), tb.LeastSquares(np.eye(n), center)][seed // 3 % 2]
        self.problem = tb.Problem(upper=upper, lower=lower)
        u, self.g = lower_minimum([numbers(row) for row in B], Decimal(weight), squares)
        scale = Decimal(2 if seed // 3 % 2 == 0 else 1)
        self.f = upper_minimum([numbers(row) for row in C], u, numbers(center), scale)
        self.rng, self.n = rng, n


def within(interval, truth):
    low, high = interval
    return (math.isinf(low) or Decimal(low) <= truth) and (
        math.isinf(high) or truth <= Decimal(high)
    )


def test_both_levels_are_proved_without_a_radius(count):
    number = count(10, 100)
    proved = 0
    for seed in range(number):
        planted = Planted(seed)
        result = tb.solve(planted.problem)
        assert within(result.upper_optimum, planted.f), seed
        assert within(result.lower_optimum, planted.g), seed
        error = abs(Decimal(result.upper_value) - planted.f)
        assert error <= Decimal(result.upper_error), seed
        is_tight = result.upper_error <= result.tolerance[0]
        proved += result.status == "certified" and is_tight
    print(f"\n{proved} of {number} certified at 1e-4 without a radius")
    assert proved >= 0.95 * number


def test_other_points_have_wide_intervals_and_no_wrong_ones(count):
    finite = 0
    for seed in range(count(6, 300)):
        planted = Planted(seed)
        problem, n = planted.problem, planted.n
        best = tb.solve(problem).x
        for size in (0.0, 1e-12, 1e-8, 1e-4, 1e-2, 1.0, 1e3):
            x = best + size * planted.rng.standard_normal(n)
            intervals = prove(problem, x, np.zeros(n))
            assert within(intervals.upper, planted.f), (seed, size)
            assert within((intervals.lower, math.inf), planted.g), (seed, size)
            finite += math.isfinite(intervals.upper[0]) and math.isfinite(intervals.lower)
    assert finite > 0


def test_any_point_can_be_certified_without_a_radius():
    for seed in range(6):
        planted = Planted(seed)
        best = tb.solve(planted.problem).x
        for size in (0.0, 1e-6, 1e-2):
            x = best + size * planted.rng.standard_normal(planted.n)
            proof = tb.certify(planted.problem, x, max_iter=0)
            assert within(proof.upper_optimum, planted.f), (seed, size)
            assert within(proof.lower_optimum, planted.g), (seed, size)
            if size <= 1e-6:
                assert proof.upper_error <= 1e-2 * (1.0 + float(planted.f)), (seed, size)
                assert proof.lower_gap <= 1e-6 * float(planted.g), (seed, size)


def test_no_claim_where_there_is_no_minimiser_or_the_rank_is_not_sure():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((12, 3)) @ rng.standard_normal((3, 6))  # rank 6, but for rounding 3
    nearly = tb.Logistic(np.vstack([rows, -rows]), np.ones(24))
    separable = tb.Logistic([[1.0, 0.0, 0, 0, 0, 0], [0.0, 1.0, 0, 0, 0, 0]], np.ones(2))
    tilted = tb.LeastSquares(np.eye(2, 6), np.ones(2)) + tb.Linear(1e-30 * np.eye(6)[5])
    for lower in (nearly, separable, tilted):
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower)
        for x in (np.zeros(6), 5.0 * np.ones(6), 30.0 * np.ones(6)):
            intervals = prove(problem, x, np.zeros(6))
            assert intervals.lower == -math.inf
            assert intervals.upper == (-math.inf, math.inf)


# --- singular quadratics --------------------------------------------------------------------------


@pytest.mark.sample(20)
@pytest.mark.parametrize("seed", range(20))
def test_a_singular_quadratic_is_proved(seed):
    """g = ½x'Qx - <Q x1, x> + 1, Q = C'C whole: minimisers {Cx = C x1}, g* = 1 - ½|C x1|²."""
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, 4))
    while True:
        n = r + int(rng.integers(1, 5))
        C = rng.integers(-2, 3, (r, n)).astype(float)
        if np.linalg.matrix_rank(C) == r:
            break
    Q, x1 = C.T @ C, rng.integers(-3, 4, n).astype(float)
    lower = tb.Quadratic(Q, -Q @ x1, 1.0)
    center = rng.integers(-2, 3, n).astype(float)
    rows, image = [numbers(row) for row in C], numbers(C @ x1)
    truth = upper_minimum(rows, image, numbers(center), Decimal(1))
    minimum = 1 - inner(image, image) / 2
    assert lower.growth > 0.0
    assert lower.growth <= np.sort(np.linalg.eigvalsh(Q))[n - r]
    for method in ("auto", "adaptive"):
        problem = tb.Problem(upper=tb.SquaredNorm(1.0, center), lower=lower)
        result = tb.solve(problem, method)
        assert within(result.upper_optimum, truth)
        assert within(result.lower_optimum, minimum)
        assert math.isfinite(result.upper_error)
        assert math.isfinite(result.lower_gap)
    assert tb.solve(problem).upper_error <= 1e-8 * (1.0 + float(truth))
    # And above: f* = 1 - ½|C x1|² where x = 0 in the first entries is no obstacle.
    above = tb.Problem(upper=lower, lower=tb.LeastSquares(np.zeros((1, n)), [1.0]))
    result = tb.solve(above)
    assert within(result.upper_optimum, minimum)
    assert result.upper_error <= 1e-8 * (1.0 + abs(float(minimum)))


def test_a_quadratic_without_a_minimum_has_no_growth():
    Q = np.diag([1.0, 0.0])
    assert tb.Quadratic(Q, [1.0, 0.0]).growth == pytest.approx(1.0)
    assert tb.Quadratic(Q, [1.0, 1e-30]).growth == 0.0
    assert tb.Quadratic(np.diag([1.0, 1e-30])).growth == 0.0  # singular but for rounding
    assert tb.Quadratic(np.zeros((2, 2))).growth == 0.0
    assert tb.Quadratic(Q).defect == 0.0


@pytest.mark.parametrize(("n", "d", "radius"), [(2, 1e-17, 1e6), (100, 1.5e-13, 1.0)])
def test_a_quadratic_that_is_convex_only_up_to_rounding(n, d, radius):
    """On a ball, ½x_1² - d/2 x_n² has the minimum -d radius²/2, where x_n = radius or -radius."""
    Q, end = np.zeros(n), np.zeros(n)
    Q[0], Q[-1], end[-1] = 1.0, -d, radius
    lower, Z = tb.Quadratic(np.diag(Q)), tb.Ball(radius)
    problem = tb.Problem(upper=tb.Linear(end / radius), lower=lower, domain=Z)
    for x in (0.0 * end, end):
        found = prove(problem, x, np.zeros(n))
        assert found.lower <= -0.5 * d * radius**2
        assert found.upper[0] <= -radius


@pytest.mark.parametrize(
    "tilts", [0.1 * tb.Linear([1.0, 3.0]), tb.Linear([0.1, 0.5]) + tb.Linear([0.2, 0.1])]
)
def test_linear_terms_count_before_they_are_rounded(tilts):
    """The rounded slope is a multiple of the row, the true one is not: g decreases forever."""
    row = tilts.gradient(np.zeros(2))
    along = [Fraction(row[1]), -Fraction(row[0])]  # <row, along> = 0
    slope = sum(
        Fraction(w) * sum(Fraction(c) * d for c, d in zip(h.c, along, strict=True))
        for w, h in tilts.summed
    )
    assert slope != 0
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares([row], [2.0]) + tilts)
    found = intervals.prove_at(problem, tb.solve(problem, tb.Exact()).x)
    assert found.lower == -math.inf


@pytest.mark.parametrize("entry", [1.6e-162, 1e-160, 1e-150, 1.0])
def test_rows_whose_squares_underflow(entry):
    assert least_stretch(np.array([[entry]])) <= entry


# --- constants ------------------------------------------------------------------------------------

CONSTANTS = {
    "zero matrix": tb.LeastSquares(np.zeros((2, 3)), [1.0, 2.0]),
    "linear": tb.Linear([0.0] * 3),
}
SETS = {
    "space": tb.Space(), "orthant": tb.Orthant(), "box": tb.Box(-1.0, 1.0), "ball": tb.Ball(2.0),
    "far ball": tb.Ball(100.0, [60.0, 80.0, 0.0]), "simplex": tb.Simplex(), "l1": tb.L1Ball(2.0),
    "halfspace": tb.Halfspace([1.0, 1.0, 0.0], 1.0),
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("domain", SETS)
def test_constants_are_proved(constant, domain):
    h, Z = CONSTANTS[constant], SETS[domain]
    value = 2.5 if constant == "zero matrix" else 0.0
    center = np.array([3.0, 1.0, -2.0])
    other = tb.SquaredNorm(1.0, center)
    nearest = Z.project(center)
    distance = 0.5 * float((center - nearest) @ (center - nearest))
    below = tb.solve(tb.Problem(upper=other, lower=h, domain=Z))
    assert below.upper_error <= 1e-10
    assert below.upper_value == pytest.approx(distance, abs=1e-10)
    assert below.lower_optimum[0] <= value <= below.lower_optimum[1] + 1e-300
    assert below.lower_gap <= 1e-10
    above = tb.solve(tb.Problem(upper=h, lower=other, domain=Z))
    assert above.upper_optimum[0] <= value <= above.upper_optimum[1]
    assert above.upper_error <= 1e-10
    both = tb.solve(tb.Problem(upper=h, lower=h, domain=Z))
    assert max(both.upper_error, both.lower_gap) <= 1e-10


def network(rng, n=40):
    """Counts of links, with totals of three that repeat them, links used together, unused ones."""
    counts = np.where(rng.random((n // 2, n)) < 0.2, rng.integers(1, 5, (n // 2, n)), 0.0)
    counts[:, 0], counts[:, 1] = 0.0, counts[:, 2]
    totals = counts[: n // 4] + counts[1 : n // 4 + 1] - counts[2 : n // 4 + 2]
    return np.vstack([counts, totals])


def test_equal_and_empty_columns_need_no_elimination(monkeypatch):
    """As many clear singular values as different columns: the rank is known without residues."""
    rng = np.random.default_rng(3)
    rows = np.vstack([network(rng), network(rng), network(rng)])
    monkeypatch.setattr(loss_bounds, "_rank", lambda *rows: 0)
    found = loss_bounds.span(rows, rows)
    assert found is not None
    assert len(found.sigma) == len(np.unique(rows, axis=1).T) - 1 == 38


def test_a_rank_that_is_not_known_leaves_the_lower_side(monkeypatch):
    """|A (x* - x)| is at most the residual whatever the rank: f* from below, nothing from above."""
    rng = np.random.default_rng(4)
    A, C = network(rng), rng.normal(size=(60, 40))
    b, d = A @ rng.integers(0, 9, 40).astype(float), rng.normal(size=60)
    problem = tb.Problem(upper=tb.LeastSquares(C, d), lower=tb.LeastSquares(A, b))
    x = tb.solve(problem).x
    f = problem.upper.value(x)
    rank, null = np.linalg.matrix_rank(A), np.linalg.svd(A)[2]
    basis, start = null[rank:].T, np.linalg.lstsq(A, b)[0]
    step = np.linalg.lstsq(C @ basis, d - C @ start)[0]
    best = 0.5 * float(np.sum((C @ (start + basis @ step) - d) ** 2))
    monkeypatch.setattr(loss_bounds.spectra, "exact_rank", lambda *rows: None)
    monkeypatch.setattr(loss_bounds, "have_whole_ties", lambda *rows: False)
    found = intervals.prove_at(problem, x)
    assert found.upper[1] == np.inf
    assert found.upper[0] <= best
    assert found.upper[0] == pytest.approx(f, rel=1e-6)
    wrong = x + 1e-3 * rng.normal(size=40)  # a bad point: wide, never wrong
    assert intervals.prove_at(problem, wrong).upper[0] <= best


def test_squares_next_to_outliers_are_not_all_of_the_lower_level():
    """At x = 0 the squares vanish, but the outlier pulls: g* = 9 and f* = 1/2, at x = 1."""
    fit = tb.LeastSquares([[1.0]], [0.0]) + tb.Huber([[1.0]], [10.0], delta=1.0)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=fit)
    for x in (0.0, 0.5, 1.0, 3.0):
        found = intervals.prove_at(problem, np.array([x]))
        assert found.lower <= 9.0
        assert found.upper[0] <= 0.5 <= found.upper[1]
