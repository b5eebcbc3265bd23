"""Huber losses by direct factorisation: planted outliers, quadratic programs, exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from planted.losses import holds, huber

import tiebreak as tb
from tiebreak.exact.reductions.outliers import AT_DELTA, NOT_L1, NOT_ON_BALL
from tiebreak.functions.parts.parts import decompose


def solved(upper, lower, domain=None, **options):
    problem = tb.Problem(upper=upper, lower=lower, domain=domain or tb.Space())
    return tb.solve(problem, "exact", rtol=1e-8, **options)


def regression(seed: int, m: int = 40, n: int = 6, ties: int = 2):
    """Rows with a heavy tail, columns of which some are there twice."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n))
    A[:, n - ties :] = A[:, :ties]
    return A, A @ rng.standard_normal(n) + rng.standard_t(1.5, m), rng


def fractions_at(A, b, delta, x):
    """(value, slope, residuals) of the sum in rational arithmetic."""
    x = [Fraction(float(t)) for t in x]
    d, value, slope, residuals = Fraction(delta), Fraction(0), [Fraction(0)] * len(x), []
    for row, t in zip(A, b, strict=True):
        a = [Fraction(float(s)) for s in row]
        r = sum(s * u for s, u in zip(a, x, strict=True)) - Fraction(float(t))
        value += r * r / 2 if abs(r) <= d else d * (abs(r) - d / 2)
        psi = max(-d, min(d, r))
        slope = [s + psi * u for s, u in zip(slope, a, strict=True)]
        residuals.append(r)
    return value, slope, residuals


def exact_answer(A, b, delta, x):
    """The minimiser with the rows of an approximate one, in rational arithmetic, if that is it.

    A has independent columns: within delta the equations of least squares, beyond it forces.
    """
    n = A.shape[1]
    _, _, residuals = fractions_at(A, b, delta, x)
    M = [[Fraction(0)] * (n + 1) for _ in range(n)]
    for row, t, r in zip(A, b, residuals, strict=True):
        a, force = [Fraction(float(s)) for s in row], None
        if abs(r) > Fraction(delta):
            force = Fraction(delta) * (1 if r > 0 else -1)
        for i in range(n):
            M[i][n] += a[i] * (Fraction(float(t)) if force is None else -force)
            if force is None:
                for j in range(n):
                    M[i][j] += a[i] * a[j]
    for i in range(n):  # Gauss and Jordan
        pivot = next(k for k in range(i, n) if M[k][i] != 0)
        M[i], M[pivot] = M[pivot], M[i]
        M[i] = [t / M[i][i] for t in M[i]]
        for k in range(n):
            if k != i:
                M[k] = [s - M[k][i] * t for s, t in zip(M[k], M[i], strict=True)]
    found = [row[n] for row in M]
    d, value, slope = Fraction(delta), Fraction(0), [Fraction(0)] * n
    for row, t in zip(A, b, strict=True):
        a = [Fraction(float(s)) for s in row]
        r = sum(s * u for s, u in zip(a, found, strict=True)) - Fraction(float(t))
        value += r * r / 2 if abs(r) <= d else d * (abs(r) - d / 2)
        slope = [s + max(-d, min(d, r)) * u for s, u in zip(slope, a, strict=True)]
    assert not any(slope)  # so that it is a minimiser, exactly
    return found, value


@pytest.mark.sample(2)
@pytest.mark.parametrize("is_pushed", [False, True])
def test_planted_outliers_that_alone_see_some_directions(is_pushed, count):
    """X_g* is a slice with inequalities: x* is on none of them, or could be."""
    statuses = []
    for seed in range(count(12, 200)):
        p = huber(seed, is_pushed=is_pushed)
        domain = tb.Box(*p.box) if is_pushed else tb.Space()
        result = solved(tb.SquaredNorm(center=p.center), tb.Huber(p.A, p.b, p.delta), domain)
        statuses.append(result.status)
        assert holds(result.upper_optimum, p.f)
        assert holds(result.lower_optimum, p.g)
        if result.success:
            np.testing.assert_allclose(result.x, p.x, rtol=0, atol=1e-12)
    assert statuses.count("undetermined") <= 0.1 * len(statuses)


def test_an_outlier_that_alone_sees_a_direction_bounds_the_minimisers():
    """|x_1 - 5| and |x_1 + 5| beyond delta = 1 pull alike: x_1 is anything in [-4, 4]."""
    A, b = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.array([2.0, 5.0, -5.0])
    for wanted, found in ((0.5, 0.5), (3.0, 3.0), (4.0, 4.0), (9.0, 4.0), (-7.0, -4.0)):
        result = solved(tb.SquaredNorm(center=[0.0, wanted]), tb.Huber(A, b, 1.0))
        assert result.success, result.message
        np.testing.assert_allclose(result.x, [2.0, found], atol=1e-12)
        assert result.dimension == 1
        truth = Fraction(4 + (Fraction(wanted) - Fraction(found)) ** 2, 2)
        assert holds(result.upper_optimum, truth)
        assert holds(result.lower_optimum, Fraction(9))


def test_minimisers_are_exact_and_the_certificates_hold(count):
    for seed in range(count(6, 60)):
        A, b, _ = regression(seed, ties=0)
        x0 = solved(tb.SquaredNorm(), tb.Huber(A, b)).x
        x, g = exact_answer(A, b, 1.35, x0)
        f = sum(t * t for t in x) / 2
        result = solved(tb.SquaredNorm(), tb.Huber(A, b))
        assert result.status == "certified"
        assert result.dimension == 0
        np.testing.assert_allclose(result.x, np.array(x, dtype=float), rtol=0, atol=1e-13)
        assert holds(result.upper_optimum, f)
        assert holds(result.lower_optimum, g)


def test_ties_are_broken_as_among_the_minimisers_of_the_different_columns(count):
    """With columns twice, the shortest solution has half of each in both."""
    for seed in range(count(6, 60)):
        A, b, _ = regression(seed)
        x, g = exact_answer(A[:, :4], b, 1.35, solved(tb.SquaredNorm(), tb.Huber(A[:, :4], b)).x)
        shortest = [x[0] / 2, x[1] / 2, x[2], x[3], x[0] / 2, x[1] / 2]
        result = solved(tb.SquaredNorm(), tb.Huber(A, b))
        assert result.status == "certified"
        assert result.dimension == 2
        np.testing.assert_allclose(result.x, np.array(shortest, dtype=float), rtol=0, atol=1e-13)
        assert holds(result.upper_optimum, sum(t * t for t in shortest) / 2)
        assert holds(result.lower_optimum, g)


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["Box", "Simplex", "L1Ball", "Ball", "Monotone", "Halfspace"])
def test_on_other_sets_it_agrees_with_a_conic_solver(kind, seed):
    cp = pytest.importorskip("cvxpy")
    A, b, rng = regression(seed)
    center = rng.standard_normal(6)
    z = cp.Variable(6)
    domain, inside = {
        "Box": (tb.Box(-0.5, 0.5), [z >= -0.5, z <= 0.5]),
        "Simplex": (tb.Simplex(), [z >= 0.0, cp.sum(z) == 1.0]),
        "L1Ball": (tb.L1Ball(1.0), [cp.norm1(z) <= 1.0]),
        "Ball": (tb.Ball(0.7), [cp.norm2(z) <= 0.7]),
        "Monotone": (tb.Monotone(), [cp.diff(z) >= 0.0]),
        "Halfspace": (tb.Halfspace(np.ones(6), -1.0), [cp.sum(z) <= -1.0]),
    }[kind]
    result = solved(tb.SquaredNorm(center=center), tb.Huber(A, b), domain)
    assert result.success, result.message
    loss = 0.5 * cp.sum(cp.huber(A @ z - b, 1.35))
    problem = cp.Problem(cp.Minimize(loss), inside)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert result.lower_value == pytest.approx(problem.value, rel=1e-8)
    held = [A @ z == A @ result.x, *inside]  # both levels: the same images of all rows
    if kind != "Ball":  # whose sphere has one point only
        nearest = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(z - center)), held)
        nearest.solve(solver=cp.CLARABEL)
        assert result.upper_value == pytest.approx(nearest.value, rel=1e-5)
    low, high = result.lower_optimum
    assert low <= problem.value * (1 + 1e-7)
    assert high >= problem.value * (1 - 1e-7)


@pytest.mark.parametrize("size", [1e-80, 1e-8, 1.0, 1e8, 1e80])
def test_units_do_not_matter(size):
    A, b, _ = regression(1)
    plain = solved(tb.SquaredNorm(), tb.Huber(A, b))
    for lower, stretch in (
        (tb.Huber(size * A, size * b, size * 1.35), 1.0),
        (tb.Huber(size * A, b, 1.35), 1.0 / size),
    ):
        result = solved(tb.SquaredNorm(stretch**-2), lower)
        assert result.status == "certified"
        np.testing.assert_allclose(result.x / stretch, plain.x, rtol=1e-11, atol=1e-13)


def test_weights_are_repeated_rows():
    A, b, rng = regression(2)
    w = rng.integers(0, 4, len(b))
    times = np.repeat(np.arange(len(b)), w)
    weighted = solved(tb.SquaredNorm(), tb.Huber(A, b, weights=w))
    repeated = solved(tb.SquaredNorm(), tb.Huber(A[times], b[times]))
    assert (weighted.status, repeated.status) == ("certified", "certified")
    np.testing.assert_allclose(weighted.x, repeated.x, rtol=0, atol=1e-12)
    assert weighted.lower_value == pytest.approx(repeated.lower_value, rel=1e-13)


def test_with_other_losses_and_without_outliers():
    A, b, rng = regression(3)
    wide, squares = tb.Huber(A, b, 1e6), tb.LeastSquares(A, b)
    one, two = solved(tb.SquaredNorm(), wide), solved(tb.SquaredNorm(), squares)
    assert one.status == two.status == "certified"
    np.testing.assert_allclose(one.x, two.x, rtol=0, atol=1e-12)
    C, y = rng.standard_normal((20, 6)), rng.choice([-1.0, 1.0], 20)
    mixed = tb.Huber(A, b) + 0.3 * tb.Logistic(C, y) + 0.01 * tb.Linear(np.arange(6.0))
    result = solved(tb.SquaredNorm(), mixed)
    assert result.success, result.message
    assert np.linalg.norm(mixed.gradient(result.x)) <= 1e-12 * (1 + mixed.value(result.x))
    assert result.dimension == 0


@pytest.mark.parametrize(
    ("slope", "statuses"),
    [(1.0, ("certified", "solved")), (2.0, ("undetermined",)), (3.0, ("unbounded",))],
)
def test_a_linear_term_may_outweigh_the_forces_of_all_rows(slope, statuses):
    """2|x| - slope x beyond the kink: at slope 2 all x >= 2 are minimisers, but for rounding."""
    lower = tb.Huber([[1.0, 0.0], [0.0, 1.0]], [0.0, 1.0], 2.0) + tb.Linear([-slope, 0.0])
    result = solved(tb.SquaredNorm(), lower)
    assert result.status in statuses
    if slope == 1.0:
        np.testing.assert_allclose(result.x, [1.0, 1.0], atol=1e-14)


def test_what_is_not_determined_or_not_solved_is_said():
    # x_2 is between two outliers that pull alike, and both residuals are delta there.
    A, b = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.array([2.0, 1.0, -1.0])
    at_delta = solved(tb.SquaredNorm(), tb.Huber(A, b, 1.0))
    assert at_delta.success or at_delta.message == AT_DELTA
    if at_delta.success:
        np.testing.assert_allclose(at_delta.x, [2.0, 0.0], atol=1e-12)
    b = np.array([2.0, 5.0, -5.0])
    in_ball = solved(tb.SquaredNorm(), tb.Huber(A, b, 1.0), tb.Ball(10.0))
    assert in_ball.success
    np.testing.assert_allclose(in_ball.x, [2.0, 0.0], atol=1e-14)
    pulled = tb.SquaredNorm(center=[2.0, 4.0])  # out of a ball that the minimisers reach beyond
    on_ball = solved(pulled, tb.Huber(A, b, 1.0), tb.Ball(3.0))
    assert (on_ball.status, on_ball.message) == ("undetermined", NOT_ON_BALL)
    sparsest = solved(tb.L1(), tb.Huber(A, b, 1.0))
    assert (sparsest.status, sparsest.message) == ("undetermined", NOT_L1)


def test_the_sparsest_minimiser_where_rows_within_delta_tell_all():
    A, b, _ = regression(4, ties=2)
    result = solved(tb.L1(), tb.Huber(A, b))
    assert result.success
    # Of two columns that are the same |x|_1 only sees the sum, which the least norm halves.
    np.testing.assert_allclose(result.x[:2], result.x[4:], rtol=1e-12)
    merged = solved(tb.L1(), tb.Huber(A[:, :4], b))
    assert result.upper_value == pytest.approx(merged.upper_value, rel=1e-12)
    np.testing.assert_allclose(A @ result.x, A @ solved(tb.SquaredNorm(), tb.Huber(A, b)).x)


def test_a_rank_that_rounding_decides_stays_undetermined():
    n = 12
    A = 1.0 / (1.0 + np.arange(n + 3)[:, None] + np.arange(n)[None])
    result = solved(tb.SquaredNorm(), tb.Huber(A, np.ones(n + 3)))
    assert result.status == "undetermined"


def test_derivatives_and_kinks_of_the_part():
    A, b, rng = regression(5)
    h = tb.Huber(A, b, 0.7, weights=rng.random(len(b)))
    parts = decompose("test", "lower", h, 6)
    for x in rng.standard_normal((10, 6)):
        slope = parts.slope(x)
        np.testing.assert_allclose(slope.vector, h.gradient(x), rtol=1e-11, atol=1e-12)
        near, kinks = parts.between_kinks(x)
        radius = kinks.radius()
        R, d = near.curvature(x), rng.standard_normal(6)
        d *= 0.999 * radius / np.linalg.norm(d)
        # A quadratic as far as no row passes a kink.
        np.testing.assert_allclose(
            h.gradient(x + d) - h.gradient(x), R.T @ (R @ d), atol=1e-13 * (1 + slope.size)
        )
        above, start = parts.curvature(x, above=True), h.value(x)
        for z in x + rng.standard_normal((20, 6)):
            top = start + slope.vector @ (z - x) + 0.5 * np.sum((above @ (z - x)) ** 2)
            assert h.value(z) <= top * (1 + 1e-12)


@pytest.mark.parametrize("delta", [1e-4, 1e-6, 1e-8, 1e-12, 1e-40, 1e-150])
def test_a_tiny_delta_is_absolute_values_and_no_false_answer(delta):
    """delta |r|_1 but for delta²/2 a row: 3 of the residuals are 0 up to delta."""
    A, b, _ = regression(6, m=12, n=3, ties=0)
    result = solved(tb.SquaredNorm(), tb.Huber(A, b, delta))
    if result.success:
        r = np.abs(A @ result.x - b)
        assert np.count_nonzero(r <= delta * (1 + 1e-6)) >= 3
    if delta >= 1e-6:
        assert result.status == "certified"


EDGES = {
    "no rows": (lambda A, b: tb.Huber(A[:0], b[:0]), "certified"),
    "zeros": (lambda A, b: tb.Huber(0 * A, b), "certified"),
    "one row": (lambda A, b: tb.Huber(A[:1], b[:1]), "certified"),
    "one variable": (lambda A, b: tb.Huber(A[:, :1], b), "certified"),
    "constant": (lambda A, b: tb.Huber(np.ones((12, 3)), b), "certified"),
    "a row of zeros": (lambda A, b: tb.Huber(A * (b < b.max())[:, None], b), "certified"),
    "an outlier of 1e12": (lambda A, b: tb.Huber(A, np.append(b[1:], 1e12)), "certified"),
    "huge": (lambda A, b: tb.Huber(1e150 * A, 1e150 * b, 1e150), "certified"),
    "weights": (lambda A, b: tb.Huber(A, b, weights=1e-200 * np.arange(12)), "certified"),
    "float32": (lambda A, b: tb.Huber(A.astype("f"), b.astype("f")), "certified"),
    "two rows": (lambda A, b: tb.Huber([[1.0], [1.0]], [0.0, 10.0], 1.0), "solved"),
    "multinomial, no rows": (lambda A, b: tb.Multinomial(A[:0], [], classes=3), "certified"),
    "multinomial, zeros": (lambda A, b: tb.Multinomial(0 * A, np.arange(12) % 3), "certified"),
    "multinomial, a class without rows": (
        lambda A, b: tb.Multinomial(A, np.arange(12) % 3, classes=4),
        "unbounded",
    ),
    "multinomial, constant": (
        lambda A, b: tb.Multinomial(np.ones((12, 2)), np.arange(12) % 3),
        "certified",
    ),
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("method", ["exact", "auto"])
def test_edges(edge, method):
    A, b, _ = regression(7, m=12, n=3, ties=0)
    make, status = EDGES[edge]
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=make(A, b))
    assert tb.solve(problem, method, rtol=1e-4).status == status
