"""Quantiles and hinge losses in the estimators: against scikit-learn, linear programs and CVXPY."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import mean_pinball_loss
from sklearn.svm import LinearSVC

from tiebreak.sklearn import InterpolatedWarning, TieBreakClassifier, TieBreakRegressor

ENGEL = Path(__file__).parent.parent / "data" / "engel.csv"  # of statsmodels; Koenker, Bassett 1982
LEVELS = (0.1, 0.5, 0.75)
HINGES = ("hinge", "squared_hinge")


def collinear(seed=0, rows=40):
    """Four features, two sums of them, and a target with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    y = X @ [1.0, 0.0, -1.0, 0.5] + 2.0 + rng.standard_t(3, size=rows)
    return np.hstack([X, X[:, :2] + X[:, 2:]]), y


def labels(seed=0, noise=1.5):
    rng = np.random.default_rng(seed)
    X, _ = collinear(seed)
    return X, np.where(X[:, 0] + noise * rng.normal(size=len(X)) > 0.0, "yes", "no")


def pinball(model, X, y, level, weights=None):
    return mean_pinball_loss(y, model.predict(X), alpha=level, sample_weight=weights)


def training_loss(model, X, y):
    lacking = np.maximum(1.0 - np.where(y == "yes", 1.0, -1.0) * model.decision_function(X), 0.0)
    return np.mean(lacking if model.loss == "hinge" else 0.5 * lacking**2)


def least_norm(X, y, loss, level=0.5):
    """The least loss, and the least |coef| among all fits that have it, by two CVXPY problems."""
    cp = pytest.importorskip("cvxpy")
    coef, intercept = cp.Variable(X.shape[1]), cp.Variable()
    scores = X @ coef + intercept
    if loss == "quantile":
        cost = level * cp.pos(y - scores) + (1.0 - level) * cp.neg(y - scores)
    else:
        lacking = cp.pos(1.0 - cp.multiply(np.where(y == "yes", 1.0, -1.0), scores))
        cost = lacking if loss == "hinge" else 0.5 * cp.square(lacking)
    mean = cp.sum(cost) / len(y)
    best = cp.Problem(cp.Minimize(mean)).solve(solver="CLARABEL")
    room = 1e-9 * max(best, 1.0)
    cp.Problem(cp.Minimize(cp.norm(coef)), [mean <= best + room]).solve(solver="CLARABEL")
    return best, np.linalg.norm(coef.value)


# --- quantiles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_engels_quantiles_are_scikit_learns(level):
    X, y = np.split(np.loadtxt(ENGEL, delimiter=",", skiprows=1), 2, axis=1)
    model = TieBreakRegressor(loss="quantile", quantile=level).fit(X, y[:, 0])
    other = QuantileRegressor(quantile=level, alpha=0.0, solver="highs").fit(X, y[:, 0])
    ours, theirs = (pinball(m, X, y[:, 0], level) for m in (model, other))
    assert ours <= theirs * (1.0 + 1e-8)
    assert ours == pytest.approx(theirs, rel=1e-8)
    assert model.n_ties_ == 0
    assert model.coef_ == pytest.approx(other.coef_, rel=1e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_of_equal_quantile_fits_it_is_the_shortest(level):
    X, y = collinear()
    model = TieBreakRegressor(loss="quantile", quantile=level).fit(X, y)
    other = QuantileRegressor(quantile=level, alpha=0.0, solver="highs").fit(X, y)
    assert pinball(model, X, y, level) == pytest.approx(pinball(other, X, y, level), rel=1e-8)
    assert model.n_ties_ == 2
    assert np.linalg.norm(model.coef_) < np.linalg.norm(other.coef_) - 1e-3
    _, shortest = least_norm(X, y, "quantile", level)
    assert np.linalg.norm(model.coef_) == pytest.approx(shortest, rel=1e-5)


def test_of_equal_quantile_fits_the_sparsest_is_that_of_a_linear_program():
    X, y = collinear()
    model = TieBreakRegressor("sparse", loss="quantile").fit(X, y)
    rows, n = X.shape
    eye, ones = np.eye(rows), np.ones((rows, 1))
    # coef = p - q, intercept, and the residual r - s; all but the intercept are not negative.
    A = np.hstack([X, -X, ones, eye, -eye])
    fit = np.concatenate([np.zeros(2 * n + 1), np.full(2 * rows, 0.5 / rows)])
    bounds = [(0, None)] * (2 * n) + [(None, None)] + [(0, None)] * (2 * rows)
    best = linprog(fit, A_eq=A, b_eq=y, bounds=bounds).fun
    size = np.concatenate([np.ones(2 * n), np.zeros(2 * rows + 1)])
    room = best * (1.0 + 1e-10)
    least = linprog(size, A_eq=A, b_eq=y, A_ub=fit[None], b_ub=[room], bounds=bounds).fun
    assert pinball(model, X, y, 0.5) == pytest.approx(best, rel=1e-8)
    assert np.sum(np.abs(model.coef_)) == pytest.approx(least, rel=1e-6)


def test_a_quantile_fit_with_a_penalty_is_scikit_learns():
    X, y = collinear()
    X = np.hstack([X, X[:, :1]])  # one feature twice: ties of the penalty too
    model = TieBreakRegressor(loss="quantile", quantile=0.3, alpha=0.05).fit(X, y)
    other = QuantileRegressor(quantile=0.3, alpha=0.05, solver="highs").fit(X, y)
    ours, theirs = (pinball(m, X, y, 0.3) + 0.05 * np.sum(np.abs(m.coef_)) for m in (model, other))
    assert ours == pytest.approx(theirs, rel=1e-8)
    assert np.linalg.norm(model.coef_) < np.linalg.norm(other.coef_) - 1e-3
    assert model.coef_[0] == pytest.approx(model.coef_[-1], abs=1e-8)


def test_quantiles_take_weights_sparse_data_and_several_targets():
    X, y = collinear()
    w = np.arange(len(y)) % 3
    model = TieBreakRegressor(loss="quantile", quantile=0.3)
    several = model.fit(sp.csr_array(X), np.stack([y, 2.0 * y], axis=1), w).coef_
    repeated = model.fit(np.repeat(X, w, axis=0), np.repeat(y, w)).coef_
    assert several == pytest.approx(np.stack([repeated, 2.0 * repeated]), rel=1e-6)


def test_a_slack_in_a_quantile_loss_is_kept():
    X, y = collinear()
    best, model = (TieBreakRegressor(loss="quantile", slack=s).fit(X, y) for s in (0.0, 0.02))
    assert pinball(model, X, y, 0.5) == pytest.approx(1.02 * pinball(best, X, y, 0.5), rel=1e-6)
    assert np.linalg.norm(model.coef_) < np.linalg.norm(best.coef_)


# --- hinge losses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", HINGES)
@pytest.mark.parametrize("noise", [1.5, 0.0])  # without noise, planes separate the classes
def test_a_hinge_fit_is_the_shortest_of_the_best(loss, noise):
    X, y = labels(noise=noise)
    model = TieBreakClassifier(loss=loss).fit(X, y)  # a warning would be an error
    best, shortest = least_norm(X, y, loss)
    assert training_loss(model, X, y) == pytest.approx(best, rel=1e-6, abs=1e-8)
    assert np.linalg.norm(model.coef_) == pytest.approx(shortest, rel=1e-3)
    assert model.n_ties_ == (2 if noise else 7)


def test_the_squared_hinge_loss_is_that_of_a_support_vector_machine_with_hardly_a_penalty():
    X, y = labels()
    model = TieBreakClassifier(loss="squared_hinge").fit(X, y)
    other = LinearSVC(C=1e7, dual=False, intercept_scaling=1e3, tol=1e-10, max_iter=10**6)
    theirs = training_loss(other.fit(X, y), X, y)
    assert training_loss(model, X, y) == pytest.approx(theirs, rel=1e-6)


def test_a_hinge_loss_takes_penalties():
    cp = pytest.importorskip("cvxpy")
    X, y = labels()
    model = TieBreakClassifier(loss="hinge", alpha=0.1, l1_ratio=0.5).fit(X, y)
    coef, intercept = cp.Variable(X.shape[1]), cp.Variable()
    margins = cp.multiply(np.where(y == "yes", 1.0, -1.0), X @ coef + intercept)
    cost = cp.sum(cp.pos(1.0 - margins)) / len(y)
    cost += 0.05 * cp.norm1(coef) + 0.025 * cp.sum_squares(coef)
    best = cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")
    found = model.coef_[0]
    penalty = 0.05 * np.sum(np.abs(found)) + 0.025 * found @ found
    assert training_loss(model, X, y) + penalty == pytest.approx(best, rel=1e-6)
    assert model.n_ties_ == 0


@pytest.mark.parametrize("loss", HINGES)
def test_hinge_losses_have_classes_and_no_probabilities(loss):
    X, y = labels()
    model = TieBreakClassifier(loss=loss).fit(X, y)
    assert set(model.predict(X)) == {"no", "yes"}
    assert np.array_equal(model.predict(X) == "yes", model.decision_function(X) > 0.0)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "predict_log_proba")
    assert hasattr(TieBreakClassifier(), "predict_proba")


def test_validation_data_without_any_hinge_loss_are_interpolated():
    X, y = labels()
    V = np.random.default_rng(1).normal(size=(2, X.shape[1]))
    with pytest.warns(InterpolatedWarning, match="reach its minimum"):
        TieBreakClassifier("validation", loss="hinge").fit(X, y, X_val=V, y_val=["no", "yes"])


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", HINGES)
def test_more_classes_need_the_logistic_loss(loss):
    X, _ = labels()
    with pytest.raises(ValueError, match=f"loss='{loss}'; use loss='logistic' for more classes"):
        TieBreakClassifier(loss=loss).fit(X, np.arange(len(X)) % 3)


@pytest.mark.parametrize("level", [0.0, 1.0, "half"])
def test_a_quantile_lies_between_0_and_1(level):
    X, y = collinear()
    with pytest.raises(ValueError, match="TieBreakRegressor: quantile must be above 0 and below 1"):
        TieBreakRegressor(loss="quantile", quantile=level).fit(X, y)


def test_a_classifier_names_its_losses():
    X, y = labels()
    with pytest.raises(ValueError, match="one of 'logistic', 'hinge', 'squared_hinge', got 'hing'"):
        TieBreakClassifier(loss="hing").fit(X, y)
