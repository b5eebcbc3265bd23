"""Ties of the lasso: all minimisers of a loss + an l1 penalty, and the best of them for f."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.exact.reductions import lasso
from tiebreak.functions.losses.logistic import LogisticLoss
from tiebreak.functions.parts.loss_parts import LossPart
from tiebreak.functions.parts.parts import Parts, decompose

LOSSES = ("squares", "logistic")


def drawn(kind, seed, rows=30):
    """Columns that are copies, copies with the other sign, twice a column, and a mean of three."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((rows, 8))
    A = np.hstack([B, B[:, :4], -B[:, 2:5], 2.0 * B[:, :2], B[:, :3].mean(axis=1)[:, None]])
    b = B @ np.array([3.0, -2, 1.5, -1, 2, 0, 0, 0]) + 0.3 * rng.standard_normal(rows)
    y = np.where(b > 0.0, 1.0, -1.0)
    if kind == "squares":
        return A, b, tb.LeastSquares(A, b), np.max(np.abs(A.T @ b))
    return A, y, tb.Logistic(A, y), np.max(np.abs(A.T @ y)) / (2 * rows)


def slope(kind, A, b, x):
    """Of the loss, by hand."""
    if kind == "squares":
        return A.T @ (A @ x - b)
    return -A.T @ (b / (1.0 + np.exp(b * (A @ x)))) / len(b)


def two_stages(kind, A, b, w, f):
    """CVXPY: the lasso, and f over the points with its image, its zeros and its signs."""
    import cvxpy as cp

    x, n = cp.Variable(A.shape[1]), A.shape[1]
    loss = 0.5 * cp.sum_squares(A @ x - b)
    if kind == "logistic":
        loss = cp.sum(cp.logistic(cp.multiply(-b, A @ x))) / len(b)
    tight = {"solver": "CLARABEL", "tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-12}
    cp.Problem(cp.Minimize(loss + cp.norm1(cp.multiply(w, x)))).solve(**tight)
    s, right = slope(kind, A, b, x.value), np.linalg.svd(A)[2]
    rank = np.linalg.matrix_rank(A, tol=1e-8)
    z, is_zero = cp.Variable(n), np.abs(s) < w * (1.0 - 1e-5)
    inside = [right[:rank] @ z == right[:rank] @ x.value, cp.multiply(-np.sign(s), z) >= 0.0]
    inside += [z[is_zero] == 0.0] if is_zero.any() else []
    second = cp.Problem(cp.Minimize(f(z)), inside)
    second.solve(solver="CLARABEL")
    return second.value


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("share", [0.3, 0.05])
@pytest.mark.parametrize("upper", ["norm", "center", "weights", "l1", "validation"])
@pytest.mark.filterwarnings("ignore")
def test_both_levels_agree_with_two_conic_problems(kind, share, upper):
    import cvxpy as cp

    A, b, loss, largest = drawn(kind, seed=3)
    rng, n = np.random.default_rng(4), A.shape[1]
    c, w, F = rng.standard_normal(n), np.arange(float(n)), rng.standard_normal((5, n))
    f, conic = {
        "norm": (tb.SquaredNorm(), lambda z: 0.5 * cp.sum_squares(z)),
        "center": (tb.SquaredNorm(center=c), lambda z: 0.5 * cp.sum_squares(z - c)),
        "weights": (
            tb.SquaredNorm(w, c),
            lambda z: 0.5 * cp.sum_squares(cp.multiply(np.sqrt(w), z - c)),
        ),
        "l1": (tb.L1(w, c), lambda z: cp.norm1(cp.multiply(w, z - c))),
        "validation": (tb.LeastSquares(F, F @ c), lambda z: 0.5 * cp.sum_squares(F @ (z - c))),
    }[upper]
    problem = tb.Problem(upper=f, lower=loss + tb.L1(share * largest))
    result = tb.solve(problem, "exact")
    assert result.success
    assert result.status == "certified" or upper in ("l1", "validation")
    weights = np.full(n, share * largest)
    star = two_stages(kind, A, b, weights, conic)
    assert result.upper_value == pytest.approx(star, rel=1e-6, abs=1e-6)
    # The optimality conditions of the lower level, by hand.
    s = slope(kind, A, b, result.x)
    is_on = result.x != 0.0
    np.testing.assert_allclose(s[is_on], -(weights * np.sign(result.x))[is_on], rtol=1e-9)
    assert np.all(np.abs(s) <= weights * (1.0 + 1e-9))


@pytest.mark.parametrize("share", [0.1, 0.01])
def test_copies_share_evenly_what_scikit_learn_gives_to_one(share):
    from sklearn.linear_model import Lasso

    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 40))
    b = A[:, :6] @ rng.standard_normal(6) + 0.5 * rng.standard_normal(200)
    alpha = share * np.max(np.abs(A.T @ b))
    model = Lasso(alpha=alpha / 200, fit_intercept=False, tol=1e-15, max_iter=10**6).fit(A, b)
    lower = tb.LeastSquares(np.hstack([A, A]), b) + tb.L1(alpha)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower))
    assert result.status == "certified"
    assert "exact" in result.method
    np.testing.assert_allclose(result.x, np.tile(model.coef_, 2) / 2, atol=1e-9)
    star = float(model.coef_ @ model.coef_) / 4
    assert abs(result.upper_value - star) <= 1e-9
    assert result.upper_error <= 1e-6


def test_an_intercept_without_a_weight_is_that_of_scikit_learn():
    from sklearn.linear_model import Lasso

    rng = np.random.default_rng(1)
    A = rng.standard_normal((60, 10)) + 0.5
    b = 3.0 + A[:, :3] @ np.array([1.0, -2.0, 1.5]) + 0.3 * rng.standard_normal(60)
    alpha = 0.1 * np.max(np.abs(A.T @ (b - b.mean())))
    model = Lasso(alpha=alpha / 60, tol=1e-15, max_iter=10**6).fit(A, b)
    w = np.append(0.0, np.full(20, alpha))
    lower = tb.LeastSquares(np.hstack([np.ones((60, 1)), A, A]), b) + tb.L1(w)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower))
    assert result.status == "certified"
    expected = np.concatenate([[model.intercept_], model.coef_ / 2, model.coef_ / 2])
    np.testing.assert_allclose(result.x, expected, atol=1e-9)


@pytest.mark.parametrize("labels", ["both", "one"])
def test_a_logistic_intercept_is_bounded_by_labels_of_both_kinds(labels):
    A, y, _, _ = drawn("logistic", seed=5)
    A, y = np.hstack([np.ones((30, 1)), A]), y if labels == "both" else np.ones(30)
    w = np.append(0.0, np.full(18, 0.02))
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, y) + tb.L1(w)))
    assert result.status == ("certified" if labels == "both" else "unbounded")


def test_planted_faces_are_found_whole():
    """b = A x + r with a r whose products with the columns are the weights on the face."""
    rng = np.random.default_rng(6)
    for _ in range(10):
        m, face, n = 12, 5, 20
        A = rng.standard_normal((m, n))
        A[:, face : 2 * face] = A[:, :face] * rng.choice([-1.0, 1.0], face)
        r = np.linalg.lstsq(A[:, :face].T, rng.choice([-1.0, 1.0], face), rcond=None)[0]
        others = np.abs(A[:, 2 * face :].T @ r)
        A[:, 2 * face :] *= rng.uniform(0.1, 0.9, n - 2 * face) / others
        signs = np.sign(A.T @ r)[: 2 * face]
        x = np.zeros(n)
        x[: 2 * face] = signs * rng.exponential(size=2 * face)
        problem = tb.Problem(
            upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, A @ x + r) + tb.L1(1.0)
        )
        reduced = lasso.on_orthant(problem, n, np.zeros(n))
        found = reduced.point(np.ones(reduced.problem.dimension))
        np.testing.assert_array_equal(found, np.append(signs, np.zeros(n - 2 * face)))
        # Of two copies each has half of what both have together.
        result = tb.solve(problem, "exact")
        half = signs[:face] * (np.abs(x[:face]) + np.abs(x[face : 2 * face])) / 2
        np.testing.assert_allclose(result.x[:face], half, atol=1e-9)
        assert result.dimension == face


@pytest.mark.parametrize("kind", LOSSES)
def test_slopes_of_minimisers_are_as_close_as_the_deviation_says(kind):
    """|grad_j(x) - grad_j(x*)| <= c_j sqrt(2 (g(x) - g*)), the inequality behind the reduction."""
    A, b, loss, largest = drawn(kind, seed=7)
    parts, w = decompose("test", "lower", loss, A.shape[1]), np.full(A.shape[1], 0.1 * largest)
    star = lasso.approximate_minimiser(parts, w, np.zeros(parts.n))
    bounds, rng = lasso._curvatures(parts), np.random.default_rng(8)
    for _ in range(200):
        x = star + 10 ** rng.uniform(-4, 1) * rng.standard_normal(len(star))
        more = loss.value(x) + w @ np.abs(x) - loss.value(star) - w @ np.abs(star)
        apart = np.abs(slope(kind, A, b, x) - slope(kind, A, b, star))
        assert np.all(apart <= bounds * np.sqrt(2.0 * more) * (1.0 + 1e-6) + 1e-9)


class Shifted(LogisticLoss):
    """phi(t) = log(1 + e^(6 - t)), steepest far from the margin 0: phi''(0) is 0.0025."""

    def terms(self, margins, target):
        return super().terms(margins - 6.0, target)

    def second(self, margins, target):
        return super().second(margins - 6.0, target)


def test_the_largest_curvature_need_not_be_at_the_margin_0():
    """The reduction used the curvature at 0 in its bound on the slopes of all minimisers."""
    rows = np.array([[2.0, 1.0], [0.0, 3.0]])
    part = LossPart(1.0, rows, target=np.zeros(2), weights=np.ones(2), phi=Shifted())
    bounds = lasso._curvatures(Parts(2, (part,)))
    steepest = part.curvature(np.linalg.solve(rows, [6.0, 6.0]))
    assert np.all(bounds >= np.sqrt(np.sum(steepest**2, axis=0)))


class Steep(LogisticLoss):
    """A loss whose second derivative has no upper bound."""

    def largest_second(self, low, high, target):
        return np.full(np.shape(low), np.inf)


def test_an_unbounded_curvature_bounds_no_slope():
    """Only for variables that its row contains: inf * 0 would be nan for the others."""
    part = LossPart(
        1.0, np.array([[2.0, 0.0]]), target=np.zeros(1), weights=np.ones(1), phi=Steep()
    )
    contained, other = lasso._curvatures(Parts(2, (part,)))
    assert contained == np.inf
    assert 0.0 <= other <= 1e-300


def test_an_elastic_net_below_has_one_minimiser():
    from sklearn.linear_model import ElasticNet

    A, b, loss, largest = drawn("squares", seed=9)
    m, l1, l2 = len(b), 0.1 * largest, 0.7
    model = ElasticNet(
        alpha=(l1 + l2) / m, l1_ratio=l1 / (l1 + l2), fit_intercept=False, tol=1e-15, max_iter=10**6
    ).fit(A, b)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=loss + tb.ElasticNet(l1, l2)))
    assert result.status == "certified"
    np.testing.assert_allclose(result.x, model.coef_, atol=1e-8)


def test_small_and_odd_problems():
    for A, b, weight, x in (
        (np.ones((3, 1)), np.ones(3), 1.0, [2.0 / 3.0]),
        (np.zeros((3, 2)), np.ones(3), 1.0, [0.0, 0.0]),
        (np.ones((1, 2)), [4.0], 1.0, [1.5, 1.5]),
        (np.ones((1, 2)), [4.0], 4.0, [0.0, 0.0]),  # just not 0, or just 0
        (np.ones((1, 2)), [4.0], 5.0, [0.0, 0.0]),
        (1e100 * np.ones((1, 2)), [4.0], 1e100, [1.5e-100, 1.5e-100]),
        (1e-100 * np.ones((1, 2)), [4.0], 1e-100, [1.5e100, 1.5e100]),
    ):
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b) + tb.L1(weight))
        result = tb.solve(problem, "exact")
        assert result.success
        np.testing.assert_allclose(result.x, x, rtol=1e-9, atol=1e-9 * (max(x) if any(x) else 1.0))


def test_a_square_below_that_holds_no_array():
    """The minimiser is 0, or as much less than the center as the weight says."""
    for center, x in ((None, np.zeros(3)), ([1.0, 0.1, -3.0], [0.75, 0.0, -2.75])):
        lower = tb.SquaredNorm(2.0, center) + tb.L1(0.5)
        upper = tb.SquaredNorm(center=np.arange(3.0))
        result = tb.solve(tb.Problem(upper=upper, lower=lower), "exact")
        assert result.success
        np.testing.assert_allclose(result.x, x, atol=1e-12)


def test_single_precision_comes_back_in_single_precision():
    A, b, _, _ = drawn("squares", seed=10)
    lower = tb.LeastSquares(A.astype(np.float32), b.astype(np.float32)) + tb.L1(0.125)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower))
    assert result.success
    assert result.x.dtype == np.float32


@pytest.mark.parametrize(
    ("penalty", "domain", "sentence"),
    [
        (tb.L2(1.0), tb.Space(), "lower must have no penalty but L1 around 0 and ElasticNet"),
        (tb.L1(1.0, [1.0, 1.0]), tb.Space(), "lower must have no penalty but L1 around 0"),
        (tb.L1(1.0), tb.Orthant(), "domain must be Space if lower has an l1 penalty"),
        (tb.ElasticNet(0.0, 1.0), tb.Space(), "lower must have an l1 penalty, or none"),
    ],
)
def test_other_penalties_below_are_refused_in_one_sentence(penalty, domain, sentence):
    lower = tb.LeastSquares(np.ones((3, 2)), np.ones(3)) + penalty
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain)
    with pytest.raises(ValueError, match=f"^Exact: {sentence}"):
        tb.solve(problem, "exact")


def test_groups_that_leave_a_variable_out_do_not_hide_that_there_is_no_minimiser():
    A = np.hstack([np.ones((30, 1)), np.random.default_rng(11).standard_normal((30, 4))])
    for penalty in (tb.GroupL2([-1, 0, 0, 1, 1], 0.1), tb.L1([0.0, 1, 1, 1, 1])):
        lower = tb.Logistic(A, np.ones(30)) + penalty
        assert tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower)).status == "unbounded"


def test_a_poisson_loss_above_a_lasso():
    """It once failed with an assertion: the substitution knew two losses alone."""
    A, _, loss, most = drawn("squares", seed=2)
    V = np.abs(A[:10]) / 10.0
    upper, t = tb.Poisson(V, np.full(10, 2.0)), 0.1 * most
    result = tb.solve(tb.Problem(upper=upper, lower=loss + tb.L1(t)))
    even = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=loss + tb.L1(t)))
    assert result.success
    assert result.lower_value == pytest.approx(even.lower_value, rel=1e-9)
    assert result.upper_value <= float(upper.value(even.x)) * (1.0 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_rounded_to_single_precision_is_that_far_from_the_minimiser(seed):
    """With one variable, x = (<a, b> - w sign <a, b>)/<a, a>, here as a fraction."""
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(size=9).astype(np.float32) for _ in range(2))
    fit = tb.LeastSquares(a[:, None], b) + tb.L1(0.125)
    start = np.zeros(1, dtype=np.float32)
    problem = tb.Problem(lower=fit, upper=tb.SquaredNorm())
    result = tb.solve(problem, tb.Exact(), x0=start)
    assert result.status == "certified"
    a, b = ([Fraction(float(v)) for v in each] for each in (a, b))
    square, inner = (sum(s * t for s, t in zip(a, each, strict=True)) for each in (a, b))
    truth = (inner - Fraction(1, 8) * (1 if inner > 0 else -1)) / square
    said = re.search("within (.*?) of x", result.certificate.rests)
    assert abs(Fraction(float(result.x[0])) - truth) <= Fraction(1.1) * Fraction(float(said[1]))
