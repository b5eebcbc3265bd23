"""What ``make run`` says is so: computed here once more, by NumPy and scikit-learn alone."""

from __future__ import annotations

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.cli import main
from tiebreak.experiments import demo as demonstration

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install '.[sklearn]'")
RADIUS = 10.0


def split(seed=None):
    """Features and labels of the tumours that are fitted, that choose and that judge.

    In the order of the file, or of a seed.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import PolynomialFeatures, normalize, scale

    X, y = load_breast_cancer(return_X_y=True)
    X = normalize(scale(PolynomialFeatures(2, include_bias=False).fit_transform(scale(X))))
    order = np.arange(len(y)) if seed is None else np.random.default_rng(seed).permutation(len(y))
    return [(X[rows], 2.0 * y[rows] - 1.0) for rows in (order[:50], order[50:310], order[310:])]


def half_mean_square(A, b, x):
    return 0.5 * np.mean((A @ x - b) ** 2)


def best_of_all(fitted, choosing):
    """The shortest best fit p, and the best one p + N v with |v|^2 <= R^2 - |p|^2, by bisection."""
    A, b = fitted
    U, s, V = np.linalg.svd(A)
    p, N = V[: len(b)].T @ ((U.T @ b) / s), V[len(b) :].T
    B, c = choosing[0] @ N, choosing[1] - choosing[0] @ p
    values, vectors = np.linalg.eigh(B.T @ B)
    pull, room = vectors.T @ (B.T @ c), np.sqrt(RADIUS**2 - p @ p)
    low, high = 0.0, 1e3
    for _ in range(200):
        middle = 0.5 * (low + high)
        length = np.linalg.norm(pull / (np.maximum(values, 0.0) + middle))
        low, high = (middle, high) if length > room else (low, middle)
    return p, p + N @ (vectors @ (pull / (np.maximum(values, 0.0) + high)))


def wrong(judging, x):
    return int(np.sum(np.sign(judging[0] @ x) != judging[1]))


def test_the_screen_says_what_numpy_finds(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demonstration, "RANDOM_FITS", 20)
    assert main(["demo", "--out", "deep/er"]) == 0
    said = capsys.readouterr().out
    assert (tmp_path / "deep" / "er" / "demo.png").stat().st_size > 10_000
    fitted, choosing, judging = split()
    p, best = best_of_all(fitted, choosing)
    rows = [
        line.split() for line in said.splitlines() if line.startswith(("  numpy", "  tiebreak"))
    ]
    for row, x in zip(rows, (p, best), strict=True):
        assert float(row[1]) < 1e-25  # both fit as well as possible
        assert float(row[2]) == pytest.approx(half_mean_square(*choosing, x), abs=1e-4)
        assert int(row[3]) == wrong(judging, x)
    bound = float(said.split("f is at least ")[1].split(" for every")[0])
    truth = half_mean_square(*choosing, best)
    assert 0.999 * truth <= bound <= truth


def test_fits_drawn_at_random_fit_as_well_and_none_is_better(monkeypatch):
    monkeypatch.setattr(demonstration, "RANDOM_FITS", 50)
    shown = demonstration.demo()
    assert shown.drawn.min() >= shown.result.upper_optimum[0]
    fitted, *_ = split()
    points = demonstration._best_fits(fitted[0], shown.standard, np.random.default_rng(0))
    assert np.abs(points @ fitted[0].T - fitted[1]).max() < 1e-10
    assert np.linalg.norm(points, axis=1).max() <= RADIUS * (1.0 + 1e-12)


def test_the_choice_helps_tumours_that_no_level_saw(count):
    """Not by luck of the split: over the seeds fewer are misclassified."""
    before = after = splits = 0
    for seed in range(count(2, 20)):
        fitted, choosing, judging = split(seed)
        p = np.linalg.lstsq(*fitted)[0]
        problem = tb.Problem(
            lower=tb.LeastSquares(*fitted, mean=True),
            upper=tb.LeastSquares(*choosing, mean=True),
            domain=tb.Ball(RADIUS),
        )
        result = tb.solve(problem)
        assert result.proved
        has_choice = np.linalg.norm(p) < RADIUS
        assert (result.dimension == 445) == has_choice
        if not has_choice:  # the ball leaves one best model, which is not the solver's
            continue
        splits += 1
        before, after = before + wrong(judging, p), after + wrong(judging, result.x)
    print(f"misclassified in {splits} splits with a choice: {before} before, {after} after")
    assert after < 0.8 * before
