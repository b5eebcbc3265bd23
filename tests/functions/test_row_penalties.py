"""Quantile regression, the hinge, the largest deviation: against linear and quadratic programs."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import tiebreak as tb

ENGEL = Path(__file__).parent.parent / "data" / "engel.csv"  # of statsmodels; Koenker, Bassett 1982


def drawn(seed: int):
    """A function with a kink, its expression in a CVXPY variable, and the seed's generator."""
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 7)), int(rng.integers(4, 14))
    is_whole = rng.random() < 0.4
    A = rng.integers(-2, 3, (m, n)).astype(float) if is_whole else rng.standard_normal((m, n))
    b = rng.integers(-3, 4, m).astype(float) if is_whole else rng.standard_normal(m)
    if rng.random() < 0.4:
        A[:, 0] = A[:, -1]  # so that there are ties
    w = rng.integers(1, 4, m).astype(float) if rng.random() < 0.5 else np.ones(m)
    x, y = cp.Variable(n), np.where(rng.random(m) < 0.5, -1.0, 1.0)
    level, center = float(rng.choice([0.5, 0.25, 0.9])), rng.standard_normal(n)
    r = b - A @ x
    known = (
        (tb.Quantile(A, b, level, weights=w), w @ (level * cp.pos(r) + (1 - level) * cp.neg(r))),
        (tb.Hinge(sp.csr_array(A), y, weights=w), w @ cp.pos(1 - cp.multiply(y, A @ x))),
        (tb.LInf(2.0, center), 2.0 * cp.norm_inf(x - center)),
    )
    return *known[seed % 3], x, rng


def drawn_set(x, rng):
    cp = pytest.importorskip("cvxpy")
    n = x.size
    sets = (
        (tb.Space(), []),
        (tb.Box(-1.0, 1.0), [x >= -1, x <= 1]),
        (tb.Polyhedron(np.ones((1, n)), [1.0]), [cp.sum(x) <= 1]),
        (tb.Ball(1.5), [cp.norm(x) <= 1.5]),
    )
    return sets[int(rng.integers(4))]


def test_above_it_is_that_of_another_solver(count):
    for seed in range(count(24, 150)):
        above(seed)


def above(seed):
    cp = pytest.importorskip("cvxpy")
    h, expression, x, rng = drawn(seed)
    Z, constraints = drawn_set(x, rng)
    n = x.size
    M = rng.standard_normal((int(rng.integers(1, n)), n))
    t = M @ rng.uniform(-0.3, 0.3, n)
    result = tb.solve(tb.Problem(lower=tb.LeastSquares(M, t), upper=h, domain=Z))
    star = cp.Problem(cp.Minimize(expression), [*constraints, M @ x == t]).solve(cp.CLARABEL)
    assert result.success
    assert result.lower_value == pytest.approx(0.0, abs=1e-14)
    assert result.upper_value == pytest.approx(star, rel=1e-7, abs=1e-7)
    if result.status == "certified":
        assert abs(result.upper_value - star) <= result.upper_error + 1e-7 * (1.0 + abs(star))


def test_below_its_face_is_held(count):
    number = count(24, 150)
    assert sum(map(below, range(number))) >= 0.95 * number


def below(seed):
    cp = pytest.importorskip("cvxpy")
    h, expression, x, rng = drawn(seed)
    Z, constraints = drawn_set(x, rng)
    result = tb.solve(tb.Problem(lower=h, upper=tb.SquaredNorm(), domain=Z))
    g = cp.Problem(cp.Minimize(expression), constraints).solve(cp.CLARABEL)
    assert result.success
    assert result.lower_value == pytest.approx(g, rel=1e-7, abs=1e-7)
    # |x|² over all points that are as good as this one, up to what the other solver loses.
    held = [*constraints, expression <= result.lower_value + 1e-9]
    shortest = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x)), held)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # with so thin a set, the other solver may give up
        try:
            f = shortest.solve(cp.CLARABEL)
        except cp.SolverError:
            return False
    if shortest.status == cp.OPTIMAL:
        assert result.upper_value == pytest.approx(f, rel=1e-6, abs=1e-6)
    return shortest.status == cp.OPTIMAL


@pytest.mark.parametrize("seed", range(6))
def test_subgradients_and_slopes(seed):
    h, _, x, rng = drawn(seed)
    for at, other in 2.0 * rng.standard_normal((20, 2, x.size)):
        slope = h.subgradient(at)
        value = h.value(at) + slope @ (other - at)
        assert h.value(other) >= value - 1e-12 * (1.0 + abs(value))
        assert (3.0 * h).value(at) == pytest.approx(3.0 * h.value(at), rel=1e-13)
        rise = abs(h.value(other) - h.value(at))
        assert rise <= h.terms.steepness(x.size, 9.0) * np.linalg.norm(other - at) * (1.0 + 1e-12)


def test_the_prox_of_the_largest_deviation_is_that_of_a_fine_search():
    rng, h = np.random.default_rng(1), tb.LInf(0.7, [0.2, -0.1])
    for v in rng.standard_normal((20, 2)):
        z = h.prox(v, 1.5)
        best = 1.5 * h.value(z) + 0.5 * np.sum((z - v) ** 2)
        for other in z + 0.1 * rng.standard_normal((200, 2)):
            assert 1.5 * h.value(other) + 0.5 * np.sum((other - v) ** 2) >= best - 1e-13


def test_a_sum_with_an_l1_norm_is_solved_as_it_stands():
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(2)
    A, b, w = rng.standard_normal((20, 5)), rng.standard_normal(20), np.array([0.1, 0.1, 0, 2, 0.1])
    A[:, 4] = A[:, 0]  # a tie
    h, x = tb.Quantile(A, b, 0.3, mean=True) + tb.L1(w), cp.Variable(5)
    at = rng.standard_normal(5)
    assert h.value(at) == pytest.approx(h.terms.value(at))
    r = b - A @ x
    cost = cp.sum(0.3 * cp.pos(r) + 0.7 * cp.neg(r)) / 20 + w @ cp.abs(x)
    best = cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")
    found = tb.solve(tb.Problem(lower=h, upper=tb.SquaredNorm()))
    assert found.success
    assert found.lower_value == pytest.approx(best, rel=1e-7)
    assert found.x[0] == pytest.approx(found.x[4])


def test_a_sum_with_any_norm_is_solved_by_cones():
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(3)
    A, b, x = rng.standard_normal((20, 4)), rng.standard_normal(20), cp.Variable(4)
    h, cost = tb.Quantile(A, b, mean=True), cp.sum(cp.abs(b - A @ x)) / 40
    for other, norm in (
        (tb.L2(0.2), 0.2 * cp.norm2(x)),
        (tb.ElasticNet(0.05, 0.1), 0.05 * cp.norm1(x) + 0.05 * cp.sum_squares(x)),
        (tb.GroupL2([0, 0, 1, 1], 0.1), 0.1 * (cp.norm2(x[:2]) + cp.norm2(x[2:]))),
        (tb.LInf(0.2), 0.2 * cp.norm_inf(x)),
        (tb.TotalVariation(0.1), 0.1 * cp.norm1(cp.diff(x))),
    ):
        for both in (h + other, other + h):
            best = cp.Problem(cp.Minimize(cost + norm)).solve(solver="CLARABEL")
            found = tb.solve(tb.Problem(lower=both, upper=tb.SquaredNorm()))
            assert found.success
            assert found.lower_value == pytest.approx(best, rel=1e-7)
        at = rng.standard_normal((2, 4))
        values = [both.value(x) for x in at]
        assert values == pytest.approx([both.terms.value(x) for x in at])
        assert (2.0 * both).value(at[0]) == pytest.approx(2.0 * values[0])
        steep = both.terms.steepness(4, float(np.max(np.linalg.norm(at, axis=1))))
        assert abs(values[0] - values[1]) <= steep * np.linalg.norm(at[0] - at[1])
    inside = tb.solve(tb.Problem(lower=h + tb.Indicator(tb.Box(0.0, 0.1)), upper=tb.SquaredNorm()))
    best = cp.Problem(cp.Minimize(cost), [x >= 0.0, x <= 0.1]).solve(solver="CLARABEL")
    assert inside.lower_value == pytest.approx(best, rel=1e-7)
    with pytest.raises(ValueError, match=r"got Quantile\(<20 x 4>\), which has none; conic"):
        h + tb.NuclearNorm((2, 2))


@pytest.mark.parametrize("method", ["adaptive", "bi-sg", "p-agm-bio"])
@pytest.mark.parametrize("h", [tb.Quantile(np.eye(3), np.ones(3)), tb.Hinge(np.eye(3), [1, 1, 0])])
def test_methods_with_a_prox_refuse_in_one_sentence(h, method):
    problem = tb.Problem(upper=h, lower=tb.LeastSquares([[1, 1, 1]], [1]))
    with pytest.raises(ValueError, match=rf"got {h.label}\(<3 x 3>\), which has none; conic"):
        tb.solve(problem, method)


def test_a_refusal_names_the_penalty_and_not_another_one():
    problem = tb.Problem(upper=tb.LInf(), lower=tb.LeastSquares([[1, 1, 1]], [1]) + tb.L1())
    with pytest.raises(ValueError, match=r"got LInf\(weight=1.0\), which has none; conic"):
        tb.solve(problem, "p-agm-bio")
    with pytest.raises(ValueError, match=r"^Quantile: prox must have a closed form, got a penalty"):
        tb.Quantile(np.eye(2), [0, 0]).prox(np.ones(2), 1.0)


def test_what_is_wrong_is_refused_in_one_sentence():
    A = np.eye(2)
    for make, sentence in (
        (lambda: tb.Quantile(A, [1.0, 2.0], 1.0), "Quantile: level must be above 0 and below 1"),
        (lambda: tb.Quantile(A, [1.0]), r"Quantile: b must have .* row of A"),
        (lambda: tb.Quantile(A, [1.0, 2.0], weights=[-1.0, 1.0]), "Quantile: weights must be non"),
        (lambda: tb.Hinge(A, [1.0, 2.0]), "Hinge: y must hold labels"),
        (lambda: tb.LInf([1.0, 2.0]), "LInf: weight must be a number"),
        (lambda: tb.Quantile(A, [0, 0]).check(3), "Quantile: A must have one column per variable"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence):
            make()


def test_a_mean_is_over_the_weights():
    rng = np.random.default_rng(2)
    A, b, w = rng.standard_normal((5, 2)), rng.standard_normal(5), rng.exponential(size=5)
    x = rng.standard_normal(2)
    whole = tb.Quantile(A, b, 0.3, weights=w).value(x)
    assert tb.Quantile(A, b, 0.3, mean=True, weights=w).value(x) == pytest.approx(whole / w.sum())
    assert (2.0 * tb.Quantile(A, b, mean=True)).value(x) == pytest.approx(
        np.sum(np.abs(b - A @ x)) / 5
    )


@pytest.mark.parametrize("level", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_food_expenditure_is_that_of_a_linear_program(level):
    income, food = np.loadtxt(ENGEL, delimiter=",", skiprows=1).T
    A = np.column_stack([np.ones(len(income)), income])
    result = tb.solve(tb.Problem(lower=tb.Quantile(A, food, level), upper=tb.SquaredNorm()))
    m, one = len(food), np.eye(len(food))
    cost = np.concatenate([np.zeros(2), np.full(m, level), np.full(m, 1.0 - level)])
    rows = np.hstack([A, one, -one])
    found = linprog(
        cost,
        A_eq=rows,
        b_eq=food,
        bounds=[(None, None)] * 2 + [(0.0, None)] * 2 * m,
        method="highs",
    )
    assert result.success
    assert result.lower_value == pytest.approx(found.fun, rel=1e-9)
    np.testing.assert_allclose(result.x, found.x[:2], rtol=1e-8)
    # Two points lie on the line, as many as it has parameters: there are no ties.
    assert np.sum(np.abs(food - A @ result.x) < 1e-7) == 2


def exact_value(kind: str, A, b, x) -> Fraction:
    """The value in rational arithmetic."""
    rows = [[Fraction(float(t)) for t in row] for row in A]
    point, c = [Fraction(float(t)) for t in x], [Fraction(float(t)) for t in b]
    images = [sum(s * t for s, t in zip(row, point, strict=True)) for row in rows]
    r = [image - t for image, t in zip(images, c, strict=True)]
    if kind == "L1":
        return sum((abs(t) for t in r), Fraction())
    if kind == "Quantile":
        below = Fraction(0.25)
        return sum(((1 - below) * t if t > 0 else -below * t for t in r), Fraction())
    signs = [1 if t > 0 else -1 for t in b]
    return sum((max(0, 1 - s * t) for s, t in zip(signs, images, strict=True)), Fraction())


def by_name(kind: str, A, b):
    if kind == "L1":
        return tb.L1(center=b, operator=A)
    if kind == "Quantile":
        return tb.Quantile(A, b, level=0.25)
    return tb.Hinge(A, np.where(b > 0, 1.0, -1.0))


@pytest.mark.parametrize("kind", ["L1", "Quantile", "Hinge"])
def test_no_gap_is_proved_below_the_rounding_of_the_products(kind, count):
    """g* = 0, because the rows are independent: so g(x) itself is the gap, in rational numbers."""
    for seed in range(count(12, 100)):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 4))
        A = np.round(rng.standard_normal((int(rng.integers(1, n + 1)), n)), 1) + 0.1
        b = np.round(rng.standard_normal(len(A)) * 3, 1) * 10.0 ** rng.choice([0, 6])
        if np.linalg.cond(A) > 1e3:
            continue
        for f in (tb.SquaredNorm(), tb.L1()):
            problem = tb.Problem(lower=by_name(kind, A, b), upper=f, domain=tb.Box(-1e9, 1e9))
            result = tb.solve(problem)
            assert exact_value(kind, A, b, result.x) <= result.lower_gap
            assert result.lower_gap == np.inf or result.lower_gap < 1e-8 * (1 + np.abs(b).max())


def test_the_error_of_a_value_covers_what_cancels_in_the_products():
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(100):
        D, x = rng.standard_normal((3, 4)) * 10.0 ** rng.uniform(-3, 3, 4), rng.standard_normal(4)
        h = tb.L1(center=D @ x, operator=D)
        error = abs(float(Fraction(h.value(x)) - exact_value("L1", D, D @ x, x)))
        assert error <= h.terms.value_error(x)
        worst = max(worst, error / h.terms.value_error(x))
        both = h + tb.L1(2.0, operator=D)
        assert both.terms.value_error(x) >= h.terms.value_error(x)
    assert worst > 1e-4  # and not absurdly wide


def test_the_error_of_total_variation_is_relative():
    """A difference is rounded once: where x is constant, the value is exactly 0."""
    for h in (tb.TotalVariation(), tb.TotalVariation(shape=(2, 3), isotropic=True)):
        assert h.terms.value_error(np.full(6, 0.1)) == 0.0
