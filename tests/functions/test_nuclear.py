"""The nuclear norm, against its definition and a semidefinite program."""

from __future__ import annotations

import numpy as np
import pytest

import tiebreak as tb


def drawn(seed: int):
    """Equations that a matrix of rank 1 meets."""
    rng = np.random.default_rng(seed)
    p, q = (int(k) for k in rng.integers(2, 6, 2))
    low = np.outer(rng.standard_normal(p), rng.standard_normal(q)).reshape(-1)
    k = int(rng.integers(1, p * q))
    M = rng.standard_normal((k, p * q)) if seed % 2 else np.eye(p * q)[rng.permutation(p * q)[:k]]
    return (p, q), M, M @ low, rng


def test_value_prox_and_subgradient():
    for seed in range(10):
        shape, _, _, rng = drawn(seed)
        h, n = tb.NuclearNorm(shape, 0.7), shape[0] * shape[1]
        for v, other in rng.standard_normal((20, 2, n)):
            z = h.prox(v, 1.3)
            best = 1.3 * h.value(z) + 0.5 * np.sum((z - v) ** 2)
            near = z + 0.1 * other
            assert 1.3 * h.value(near) + 0.5 * np.sum((near - v) ** 2) >= best - 1e-12
            assert h.value(v) == pytest.approx(0.7 * np.linalg.norm(v.reshape(shape), "nuc"))
            for at in (v, z):
                line = h.value(at) + h.subgradient(at) @ (other - at)
                assert h.value(other) >= line - 1e-11


def test_the_minimum_with_a_slope_is_never_too_large():
    for seed in range(10):
        shape, _, _, rng = drawn(seed)
        terms, n = (tb.NuclearNorm(shape, 0.9).terms), shape[0] * shape[1]
        for slope in rng.standard_normal((20, n)):
            value, x = terms.with_weights(0.0, 0.0, 0.0, 0.4).least(slope)
            attained = slope @ x + terms.value(x) + 0.2 * x @ x
            assert attained - 1e-11 <= value <= attained + 1e-15
            small = slope * (0.8 / np.linalg.norm(slope.reshape(shape), 2))
            assert terms.least(small)[0] == 0.0
            assert terms.least(2.0 * small)[0] == -np.inf


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["above", "with a square", "below"])
def test_the_answer_is_that_of_a_semidefinite_program(kind, count):
    cp = pytest.importorskip("cvxpy")
    for seed in range(count(2, 60)):
        shape, M, t, _ = drawn(seed)
        X = cp.Variable(shape)
        x = cp.vec(X, order="C")
        fit, norm = 0.5 * cp.sum_squares(M @ x - t), cp.normNuc(X)
        if kind == "below":
            lower, upper = tb.LeastSquares(M, t) + tb.NuclearNorm(shape, 0.3), tb.SquaredNorm()
            g, f = cp.Problem(cp.Minimize(fit + 0.3 * norm)).solve(cp.CLARABEL), None
        else:
            square = 0.5 * cp.sum_squares(x) if kind == "with a square" else 0.0
            lower, upper = tb.LeastSquares(M, t), tb.NuclearNorm(shape)
            upper = tb.SquaredNorm() + upper if kind == "with a square" else upper
            objective = cp.Minimize(norm + square)
            g, f = 0.0, cp.Problem(objective, [M @ x == t]).solve(cp.CLARABEL)
        result = tb.solve(tb.Problem(lower=lower, upper=upper))
        assert result.success, (seed, str(result))
        assert result.lower_value == pytest.approx(g, rel=1e-4, abs=1e-4)
        if f is not None:
            assert result.upper_value == pytest.approx(f, rel=1e-4, abs=1e-4)
            assert abs(result.upper_value - f) <= result.upper_error + 1e-6 * (1.0 + abs(f))


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("conic", "level 2 must consist of functions that cones can represent, .* NuclearNorm"),
        ("exact", "upper must be L1 or L2 alone if it has a penalty"),
        ("p-agm-bio", "the penalties must have a prox within a cut in closed form, .* NuclearNorm"),
    ],
)
def test_refused_in_one_sentence(method, sentence):
    fit = tb.LeastSquares([[1, 0, 0, 0]], [1])
    with pytest.raises(ValueError, match=sentence):
        tb.solve(tb.Problem(lower=fit, upper=tb.NuclearNorm((2, 2))), method)


def test_what_does_not_go_together_is_refused_in_one_sentence():
    h = tb.NuclearNorm((2, 2))
    with pytest.raises(ValueError, match="joint prox in closed form, got NuclearNorm and L1"):
        h + tb.L1()
    fit = tb.LeastSquares([[1, 0, 0, 0]], [1])
    with pytest.raises(ValueError, match="NuclearNorm and Box"):
        tb.solve(tb.Problem(lower=fit, upper=h, domain=tb.Box(0, 1)), "adaptive")
    with pytest.raises(ValueError, match="NuclearNorm: shape must have 3 entries"):
        tb.Problem(lower=tb.LeastSquares([[1, 0, 0]], [1]), upper=h)
    with pytest.raises(TypeError, match="NuclearNorm: shape must be two whole numbers"):
        tb.NuclearNorm(4)
