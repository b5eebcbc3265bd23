"""f = |D x - c|_1 and the total variation, against a linear program of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import tiebreak as tb

DOMAINS = {
    "Space": (tb.Space(), (None, None)),
    "Orthant": (tb.Orthant(), (0.0, None)),
    "Box": (tb.Box(-2.0, 2.0), (-2.0, 2.0)),
}
N = 20


def drawn(rows, seed):
    """Equations that a vector with few steps meets."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, N))
    return A, A @ np.repeat(rng.uniform(0.2, 1.5, 5), N // 5), rng


def least(A, b, D, w, c, bounds):
    """min sum w_i |(D x)_i - c_i| over A x = b and the bounds."""
    m, n = D.shape
    one = np.eye(m)
    return linprog(
        np.append(np.zeros(n), np.broadcast_to(w, m)),
        A_ub=np.block([[D, -one], [-D, -one]]),
        b_ub=np.append(c, -c),
        A_eq=np.hstack([A, np.zeros((len(A), m))]),
        b_eq=b,
        bounds=[bounds] * n + [(0.0, None)] * m,
    ).fun


@pytest.mark.sample(3)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("rows", [5, 14])
@pytest.mark.parametrize("kind", ["variation", "dense", "sparse"])
def test_the_answer_is_that_of_a_linear_program(kind, rows, domain):
    A, b, rng = drawn(rows, seed=rows)
    (Z, bounds), D = DOMAINS[domain], np.diff(np.eye(N), axis=0)
    w, c, upper = 2.0, np.zeros(N - 1), tb.TotalVariation(2.0)
    if kind != "variation":
        D, w, c = rng.standard_normal((25, N)), np.arange(1.0, 26.0), rng.standard_normal(25)
        upper = tb.L1(w, c, operator=D if kind == "dense" else sp.coo_array(D))
    result = tb.solve(tb.Problem(upper=upper, lower=tb.LeastSquares(A, b), domain=Z))
    star = least(A, b, D, w, c, bounds)
    assert result.success
    assert result.upper_value == pytest.approx(star, rel=1e-8, abs=1e-8)
    assert abs(result.upper_value - star) <= result.upper_error + 1e-9 * (1.0 + star)
    if domain == "Space":
        assert result.status == "certified"


def test_the_identity_is_l1():
    A, b, rng = drawn(8, seed=1)
    w, lower = rng.exponential(size=N), tb.LeastSquares(A, b)
    plain = tb.solve(tb.Problem(upper=tb.L1(w), lower=lower))
    result = tb.solve(tb.Problem(upper=tb.L1(w, operator=np.eye(N)), lower=lower))
    np.testing.assert_allclose(result.x, plain.x, atol=1e-8)
    assert result.upper_value == pytest.approx(plain.upper_value, rel=1e-9)


def test_logistic_copies_are_smoothed():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((60, 3))
    y = np.where(A @ np.ones(3) + 2.0 * rng.standard_normal(60) > 0, 1.0, -1.0)
    lower = tb.Logistic(np.repeat(A, 2, axis=1), y)  # every column twice, side by side
    result = tb.solve(tb.Problem(upper=tb.TotalVariation(), lower=lower))
    assert result.status == "certified"
    t = [tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, y))).x]
    # Sums of the pairs are known: the least variation by a linear program.
    pairs = np.kron(np.eye(3), np.ones((1, 2)))
    star = least(pairs, t[0], np.diff(np.eye(6), axis=0), 1.0, np.zeros(5), (None, None))
    assert result.upper_value == pytest.approx(star, abs=1e-7)


def test_values_and_bounds_on_slopes():
    rng = np.random.default_rng(3)
    D, w, c = rng.standard_normal((7, 4)), rng.exponential(size=7), rng.standard_normal(7)
    penalty = tb.L1(w, c, D)
    for _ in range(100):
        x, y = 3.0 * rng.standard_normal((2, 4))
        value = w @ np.abs(D @ x - c)
        assert penalty.value(x) == pytest.approx(value, rel=1e-13)
        assert (3 * penalty).value(x) == pytest.approx(3 * value, rel=1e-13)
        rise = abs(value - w @ np.abs(D @ y - c))
        assert rise <= penalty.terms.steepness(4, 1.0) * np.linalg.norm(x - y)
    assert tb.TotalVariation(2.0).value(np.array([1.0, 3.0, 2.0])) == 6.0


@pytest.mark.parametrize("method", ["adaptive", "bi-sg", "p-agm-bio"])
def test_other_methods_refuse_in_one_sentence(method):
    A, b, _ = drawn(5, seed=4)
    problem = tb.Problem(upper=tb.TotalVariation(), lower=tb.LeastSquares(A, b))
    with pytest.raises(ValueError, match=r"got TotalVariation\(.*\), which has none; conic"):
        tb.solve(problem, method)


def test_what_does_not_go_together_is_refused_in_one_sentence():
    A, b, _ = drawn(5, seed=4)
    lower = tb.LeastSquares(A, b)
    for problem, sentence in (
        (
            tb.Problem(upper=tb.TotalVariation(), lower=lower, domain=tb.Simplex()),
            r"domain must be R\^n, bounds or a half-space if upper is an l1 norm",
        ),
        (
            tb.Problem(upper=tb.TotalVariation(), lower=lower + tb.L1()),
            "lower must have no penalty if upper is an l1 norm with an operator",
        ),
        (
            tb.Problem(upper=tb.SquaredNorm() + tb.TotalVariation(), lower=lower),
            "upper must be L1 or L2 alone if it has a penalty",
        ),
    ):
        with pytest.raises(ValueError, match=f"^Exact: {sentence}"):
            tb.solve(problem, "exact")
    with pytest.raises(ValueError, match=r"^L1: prox must have a closed form"):
        tb.L1(operator=np.eye(2)).prox(np.ones(2), 1.0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: tb.L1(operator=np.eye(3)).check(2),
         "L1: operator must have one column per variable (2), got 3"),
        (lambda: tb.L1([1.0], operator=np.eye(3)),
         "L1: weight must have one entry per row of operator (3), got 1"),
        (lambda: tb.L1(1.0, [1.0], operator=np.eye(3)),
         "L1: center must have one entry per row of operator (3), got 1"),
        (lambda: tb.TotalVariation().check(1),
         "TotalVariation: x must have at least two variables, got 1"),
        (lambda: tb.TotalVariation(-1.0),
         "TotalVariation: weight must be a non-negative finite number, got -1.0"),
    ],
)  # fmt: skip
def test_wrong_parameters_get_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=r"^(L1|TotalVariation): ") as caught:
        make()
    assert str(caught.value) == sentence


def test_a_problem_file_knows_them(tmp_path):
    from tiebreak.problem_files import read_problem

    np.savetxt(tmp_path / "D.csv", np.diff(np.eye(3), axis=0), delimiter=",")
    lower = '[lower]\nkind = "LeastSquares"\nA = [[1.0, 1.0, 1.0]]\nb = [3.0]\n'
    for text in (
        'kind = "TotalVariation"\nweight = 2.0\n',
        'kind = "L1"\noperator = "D.csv"\nweight = [2.0, 2.0]\n',
    ):
        (tmp_path / "p.toml").write_text(f"[upper]\n{text}{lower}")
        problem, _, _ = read_problem(tmp_path / "p.toml")
        np.testing.assert_allclose(tb.solve(problem).x, np.ones(3), atol=1e-9)


def weighted(kind, A, rng):
    """A loss with weights, and the same loss with every row as often as its weight says.

    Every row stands there twice, with two targets: no x meets both, so that weights matter.
    """
    A, b = np.vstack([A, A]), rng.standard_normal(2 * len(A))
    w = rng.integers(1, 4, len(b))
    rows = np.repeat(np.arange(len(A)), w)
    if kind == "logistic":
        y = np.repeat([1.0, -1.0], len(A) // 2)
        return tb.Logistic(A, y, weights=w), tb.Logistic(A[rows], y[rows])
    is_mean = kind == "mean"
    loss = tb.LeastSquares(A, b, mean=is_mean, weights=w)
    return loss, tb.LeastSquares(A[rows], b[rows], mean=is_mean)


@pytest.mark.parametrize("kind", ["squares", "mean", "logistic"])
def test_weights_below_are_repeated_rows(kind):
    """The widened losses once lost their weights."""
    A, _, rng = drawn(8, seed=3)
    loss, repeated = weighted(kind, A, rng)
    first = tb.solve(tb.Problem(upper=tb.TotalVariation(), lower=loss))
    second = tb.solve(tb.Problem(upper=tb.TotalVariation(), lower=repeated))
    assert first.success
    assert second.success
    assert first.upper_value == pytest.approx(second.upper_value, rel=1e-7)


def other_losses(rng):
    A = rng.standard_normal((8, N))
    onto = np.repeat(rng.standard_normal((20, 4)), 3, axis=0)
    return {
        "poisson": tb.Poisson(A, rng.uniform(0.5, 3.0, 8)),
        "huber": tb.Huber(A, rng.standard_normal(8)),
        "multinomial": tb.Multinomial(onto, np.tile(np.arange(3), 20)),
    }


@pytest.mark.parametrize("kind", ["poisson", "huber", "multinomial"])
def test_every_loss_may_stand_below(kind):
    """With x among (x, D x) the value of g is what it is without the variation above."""
    loss = other_losses(np.random.default_rng(4))[kind]
    result = tb.solve(tb.Problem(upper=tb.TotalVariation(), lower=loss))
    norm = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=loss))
    assert result.success
    assert result.lower_value == pytest.approx(norm.lower_value, rel=1e-9, abs=1e-12)
    variation = float(np.sum(np.abs(np.diff(norm.x))))
    assert result.upper_value <= variation * (1.0 + 1e-9) + 1e-12
