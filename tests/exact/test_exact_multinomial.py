"""Softmax regression by direct factorisation: against 40 digits, and what its proof rests on."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from planted.losses import holds, multinomial

import tiebreak as tb
from tiebreak.functions.losses.multinomial import MultinomialPart
from tiebreak.functions.parts.parts import decompose

SETS = {"Space": tb.Space(), "Ball": tb.Ball(20.0), "Box": tb.Box(-15.0, 15.0)}


def smallest(A: np.ndarray, y: np.ndarray, classes: int) -> tuple[list[Any], Any, Any]:
    """The shortest minimiser of the sum, f* = ½|x|² and g*, by Newton's method in 40 digits.

    A has independent columns: then only the same vector added to all classes is a tie, and the
    shortest minimiser is the one whose classes add up to 0.
    """
    n, free = A.shape[1], classes - 1
    with mpmath.workdps(40):
        rows = [[mpmath.mpf(float(t)) for t in row] for row in A]
        w = mpmath.zeros(free * n, 1)  # the class 0 has zeros
        for _ in range(60):
            slope, H = mpmath.zeros(free * n, 1), mpmath.zeros(free * n, free * n)
            value = mpmath.mpf(0)
            for a, label in zip(rows, y.tolist(), strict=True):
                t = [mpmath.mpf(0)]
                t += [mpmath.fsum(a[j] * w[k * n + j] for j in range(n)) for k in range(free)]
                powers = [mpmath.exp(s) for s in t]
                total = mpmath.fsum(powers)
                p = [q / total for q in powers]
                value += mpmath.log(total) - t[label]
                for k in range(free):
                    for j in range(n):
                        slope[k * n + j] += (p[k + 1] - (label == k + 1)) * a[j]
                        for m in range(free):
                            bend = p[k + 1] * ((k == m) - p[m + 1]) * a[j]
                            for i in range(n):
                                H[k * n + j, m * n + i] += bend * a[i]
            step = mpmath.lu_solve(H, slope)
            w -= step
            if mpmath.norm(step) < mpmath.mpf(10) ** -30:
                break
        W = [[mpmath.mpf(0)] * n, *([w[k * n + j] for j in range(n)] for k in range(free))]
        mean = [mpmath.fsum(row[j] for row in W) / classes for j in range(n)]
        x = [row[j] - mean[j] for row in W for j in range(n)]
        return x, mpmath.fsum(t * t for t in x) / 2, value


@pytest.mark.sample(2)
@pytest.mark.parametrize("domain", SETS)
def test_planted_answers_are_found_to_rounding_and_proved(domain, count):
    for seed in range(count(5, 100)):
        p = multinomial(seed, classes=2 + seed % 3)
        lower = tb.Multinomial(p.A, p.y, mean=False)
        problem = tb.Problem(
            upper=tb.SquaredNorm(center=p.center), lower=lower, domain=SETS[domain]
        )
        result = tb.solve(problem, "exact", rtol=1e-8)
        np.testing.assert_allclose(result.x, np.array(p.x, dtype=float), rtol=0, atol=1e-13)
        assert holds(result.upper_optimum, p.f)
        assert holds(result.lower_optimum, p.g)
        assert result.success
        if domain != "Ball":  # inside of which nothing proves the upper side, nor for Logistic
            assert result.status == "certified"


@pytest.mark.sample(3)
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_the_shortest_minimiser_agrees_with_newton_in_40_digits(classes, count):
    for seed in range(count(2, 10)):
        rng = np.random.default_rng(seed)
        A = np.column_stack([rng.standard_normal((14, 2)), np.ones(14)])
        y = np.concatenate([np.arange(classes), rng.integers(0, classes, 14 - classes)])
        x, f, g = smallest(A, y, classes)
        if max(map(abs, x)) > 50:  # classes that can be separated: the next draw
            continue
        lower = tb.Multinomial(A, y, mean=False)
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), "exact", rtol=1e-8)
        assert result.status == "certified"
        assert result.dimension == 3  # one for each column
        np.testing.assert_allclose(result.x, np.array(x, dtype=float), rtol=0, atol=1e-11)
        np.testing.assert_allclose(result.x.reshape(classes, 3).sum(axis=0), 0.0, atol=1e-13)
        assert holds(result.upper_optimum, f)
        assert holds(result.lower_optimum, g)


def test_one_hot_columns_with_an_intercept_have_more_ties():
    """Column 0 is the sum of the others: for each class one more direction, for all one column."""
    rng = np.random.default_rng(3)
    colour = np.repeat(np.arange(3), 8)
    A = np.column_stack([np.ones(24), np.eye(3)[colour]])
    y = rng.integers(0, 3, 24)
    y[::8], y[1::8], y[2::8] = 0, 1, 2  # every class in every colour
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Multinomial(A, y)), "exact")
    assert result.status == "certified"
    assert result.dimension == 12 - 3 * 2  # rank 3 of A, K - 1 = 2 margins each
    # Each colour by itself: the probabilities are the shares of the classes.
    t = A @ result.x.reshape(3, 4).T
    shares = np.exp(t - np.log(np.exp(t).sum(axis=1))[:, None])[::8]
    counts = [[np.mean(y[colour == c] == k) for k in range(3)] for c in range(3)]
    np.testing.assert_allclose(shares, counts, atol=1e-13)


def test_two_classes_are_logistic_regression():
    rng = np.random.default_rng(4)
    A = rng.standard_normal((30, 5))
    A[:, 4] = A[:, 0]
    y = rng.integers(0, 2, 30)
    both = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Multinomial(A, y)), "exact")
    one = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, 2 * y - 1)), "exact")
    assert (both.status, one.status) == ("certified", "certified")
    W = both.x.reshape(2, 5)
    np.testing.assert_allclose(W[1] - W[0], one.x, atol=1e-12)
    assert both.upper_value == pytest.approx(one.upper_value / 2.0, rel=1e-12)
    assert both.lower_value == pytest.approx(one.lower_value, rel=1e-13)


def test_weights_are_repeated_rows():
    p = multinomial(1)
    rows, counts = np.unique(np.column_stack([p.A, p.y]), axis=0, return_counts=True)
    lower = tb.Multinomial(rows[:, :-1], rows[:, -1], mean=False, weights=counts)
    problem = tb.Problem(upper=tb.SquaredNorm(center=p.center), lower=lower)
    result = tb.solve(problem, "exact", rtol=1e-8)
    assert result.status == "certified"
    assert holds(result.upper_optimum, p.f)
    assert holds(result.lower_optimum, p.g)
    np.testing.assert_allclose(result.x, np.array(p.x, dtype=float), rtol=0, atol=1e-13)


@pytest.mark.parametrize("size", [1e-60, 1e-8, 1e8, 1e60])
def test_units_of_the_columns_do_not_matter(size):
    p = multinomial(2)
    lower = tb.Multinomial(p.A * size, p.y, mean=False)
    upper = tb.SquaredNorm(size**2, center=p.center / size)
    result = tb.solve(tb.Problem(upper=upper, lower=lower), "exact", rtol=1e-8)
    assert result.status == "certified"
    np.testing.assert_allclose(size * result.x, np.array(p.x, dtype=float), rtol=0, atol=1e-12)
    assert result.lower_value == pytest.approx(float(p.g), rel=1e-13)


def test_columns_of_different_sizes_are_solved_and_their_certificates_hold():
    p, units = multinomial(3), 2.0 ** np.array([20, -15, 0, 7, -30])
    everywhere = np.tile(units, 3)
    lower = tb.Multinomial(p.A * units, p.y, mean=False)
    upper = tb.LeastSquares(np.diag(everywhere), p.center)
    result = tb.solve(tb.Problem(upper=upper, lower=lower), "exact", rtol=1e-8)
    assert result.success
    assert holds(result.upper_optimum, p.f)
    assert holds(result.lower_optimum, p.g)
    np.testing.assert_allclose(everywhere * result.x, np.array(p.x, float), rtol=0, atol=1e-11)


def test_classes_that_can_be_separated_are_unbounded_and_a_box_ends_that():
    A, y = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]), np.arange(3)
    lower = tb.Multinomial(A, y)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), "exact")
    assert result.status == "unbounded"
    W = result.findings.direction.reshape(3, 2)
    margins = [A[i] @ (W[i] - W[k]) for i in range(3) for k in range(3) if k != i]
    assert min(margins) > -1e-12
    assert max(margins) > 0.1
    boxed = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Box(-1.0, 1.0))
    result = tb.solve(boxed, "exact")
    assert result.success
    np.testing.assert_allclose(result.x, [1.0, -1.0, -1.0, 1.0, -1.0, -1.0], atol=1e-12)


@pytest.mark.parametrize(
    ("slope", "statuses"),
    [(0.5, ("certified",)), (1.4, ("certified", "undetermined")), (3.0, ("unbounded",))],
)
def test_a_linear_term_beside_the_loss_is_never_misread(slope, statuses):
    """One variable, one row of each class: -slope x_0 + slope x_1 has a minimum where slope < 1.5.

    Far out along (1, -1, 0) the three losses rise by 0, 2 and 1.
    """
    lower = tb.Multinomial(np.ones((3, 1)), np.arange(3), mean=False)
    lower = lower + tb.Linear(slope * np.array([-1.0, 1.0, 0.0]))
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), "exact")
    assert result.status in statuses


def test_the_root_and_the_quadratic_above_and_the_change_of_the_curvature():
    """diag(p) - pp' = S'S; at most Boehning's; and no factor beyond e^(2 s) between two points."""
    rng = np.random.default_rng(5)
    for classes in (2, 3, 6):
        A, y = rng.standard_normal((5, 2)), rng.integers(0, classes, 5)
        h = tb.Multinomial(A, y, mean=False, classes=classes)
        parts = decompose("test", "lower", h, h.dimension)
        (part,) = parts.parts
        assert isinstance(part, MultinomialPart)
        for size in (0.1, 1.0, 10.0):
            x, d = size * rng.standard_normal((2, h.dimension))
            slope = parts.slope(x)
            np.testing.assert_allclose(slope.vector, h.gradient(x), rtol=1e-11, atol=1e-13)
            R = parts.curvature(x)
            H = R.T @ R
            e = 1e-6
            differences = [
                (h.gradient(x + e * v) - h.gradient(x - e * v)) / (2 * e)
                for v in np.eye(h.dimension)
            ]
            np.testing.assert_allclose(H, differences, atol=1e-8)
            above = parts.curvature(x, above=True)
            assert np.linalg.eigvalsh(above.T @ above - H)[0] >= -1e-12
            step = d / 30.0
            s = float(np.max(np.abs(part.rows @ step)))
            after = parts.curvature(x + step)
            for v in rng.standard_normal((30, h.dimension)):
                before, now = float(v @ H @ v), float(np.sum((after @ v) ** 2))
                assert np.exp(-2 * s) * before <= now * (1 + 1e-9) + 1e-14
                assert now <= np.exp(2 * s) * before * (1 + 1e-9) + 1e-14
                ratio = part.slope_ratio(x, 0.0) * np.sqrt(before)
                assert abs(float(slope.vector @ v)) <= ratio * (1 + 1e-9)
                assert before <= part.largest_curvature(x, 0.0) * float(v @ v) * (1 + 1e-9)


def test_above_it_is_a_validation_loss_that_chooses_among_ties():
    """Few equations below, which x* meets: the loss above has its minimum there."""
    for seed in range(4):
        p = multinomial(seed)
        rng = np.random.default_rng(seed)
        rows, x = rng.integers(-3, 4, (4, len(p.x))).astype(float), np.array(p.x, dtype=float)
        upper = tb.Multinomial(p.A, p.y, mean=False)
        for domain in (tb.Space(), tb.Box(-15.0, 15.0)):
            lower = tb.LeastSquares(rows, rows @ x)
            problem = tb.Problem(upper=upper, lower=lower, domain=domain)
            result = tb.solve(problem, "exact", rtol=1e-8)
            assert result.status == "certified"
            low, high = result.upper_optimum  # of rows that err by rounding, and the loss with them
            assert low - 1e-14 * float(p.g) <= float(p.g) <= high + 1e-14 * float(p.g)
            assert result.upper_error <= 1e-8
