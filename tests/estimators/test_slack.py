"""Fits that may be a little worse than the best: against CVXPY, which knows nothing of levels."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import tiebreak as tb
from tiebreak.sklearn import (
    NoMinimiserError,
    NoMinimiserWarning,
    TieBreakClassifier,
    TieBreakRegressor,
)
from tiebreak.sklearn.slack import with_slack_to_spare

cp = pytest.importorskip("cvxpy", reason="the independent truth")


def data(seed, rows, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, n)) + 0.5
    return X, X @ rng.normal(size=n) / np.sqrt(n) + 2.0 + 0.5 * rng.normal(size=rows)


class Truth:
    """The same by CVXPY: the best loss first, then what is preferred below best + slack."""

    def __init__(self, X, shape=(), intercept=True, alpha=0.0, l1_ratio=1.0):
        self.coef = cp.Variable((X.shape[1], *shape))
        self.intercept = cp.Variable(shape) if intercept else 0.0
        self.X, self.penalty = X, 0.0
        if alpha:
            square = 0.5 * cp.sum_squares(self.coef)
            self.penalty = alpha * (l1_ratio * cp.norm1(self.coef) + (1.0 - l1_ratio) * square)

    def scores(self, X=None):
        return (self.X if X is None else X) @ self.coef + self.intercept

    def solve(self, loss, preference, slack):
        """The best loss, what it may give up (of the best and of the constant), the preference."""
        total = loss + self.penalty
        best = _least(total)
        constant = _least(total, [self.coef == 0])
        allowed = slack(best, constant)
        return best, allowed, _least(preference, [total <= best + allowed])


def _least(objective, constraints=()):
    problem = cp.Problem(cp.Minimize(objective), list(constraints))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it comes no closer than these
        for tol in (1e-12, 1e-10, 1e-9):  # where rounding stops it far from the first it fails
            with contextlib.suppress(cp.error.SolverError):
                problem.solve(solver="CLARABEL", tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
                break
    return problem.value


def squares(residuals, weights=None):
    w = np.ones(residuals.shape[0]) if weights is None else weights
    return 0.5 * cp.sum_squares(cp.multiply(np.sqrt(w / np.sum(w)), residuals))


def of_best(share):
    return lambda best, constant: share * (best if best > 1e-9 * constant else constant)


def agree(model, best, allowed, value, loss, preference):
    """The model is as good as CVXPY's, and gives up no more than it may."""
    assert model.slack_ == pytest.approx(allowed, rel=1e-6)
    assert model.given_up_ <= model.slack_ * (1.0 + 1e-6) + 1e-12
    assert loss <= best + allowed * (1.0 + 1e-6) + 1e-9
    assert model.given_up_ == pytest.approx(loss - best, rel=1e-5, abs=1e-8)
    assert preference == pytest.approx(value, rel=2e-6, abs=1e-9)
    fit, chosen = model.certificate_["fit"], model.certificate_["preference"]
    assert fit.best[0] - 1e-7 <= best <= fit.best[1] + 1e-7
    assert chosen.best[0] <= value + 1e-6
    assert not model.proved_ or model.given_up_ < 0.999 * model.slack_
    assert "given up (allowed)" in model.report_


V, W = data(7, 60, 12)
GROUP = np.arange(60) % 2


def preferences(n):
    """By their names: as CVXPY writes them, as NumPy does, and what fit needs."""
    centred = (GROUP - 0.5) / 60.0 @ V[:, :n]
    center = np.linspace(-1.0, 1.0, n)
    return {
        "norm": (lambda t: 0.5 * cp.sum_squares(t.coef), lambda c, b: 0.5 * c @ c, {}),
        "reference": (
            lambda t: 0.5 * cp.sum_squares(t.coef - center),
            lambda c, b: 0.5 * np.sum((c - center) ** 2),
            {},
        ),
        "sparse": (lambda t: cp.norm1(t.coef), lambda c, b: np.sum(np.abs(c)), {}),
        "smooth": (
            lambda t: 0.5 * cp.sum_squares(cp.diff(t.coef)),
            lambda c, b: 0.5 * np.sum(np.diff(c) ** 2),
            {},
        ),
        "fair": (
            lambda t: 0.5 * cp.square(centred @ t.coef),
            lambda c, b: 0.5 * (centred @ c) ** 2,
            {"X_val": V[:, :n], "sensitive_features": GROUP},
        ),
        "validation": (
            lambda t: squares(t.scores(V[:, :n]) - W),
            lambda c, b: 0.5 * np.mean((V[:, :n] @ c + b - W) ** 2),
            {"X_val": V[:, :n], "y_val": W},
        ),
    }


@pytest.mark.sample(3)
@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("name", preferences(12))
def test_squares_with_every_preference(name, shape, count):
    rows, n = (40, 6) if shape == "tall" else (8, 12)
    for seed in range(count(1, 10)):
        X, y = data(seed, rows, n)
        intercept = seed % 2 == 0
        in_cvxpy, in_numpy, more = preferences(n)[name]
        last = np.linspace(-1.0, 1.0, n) if name == "reference" else None
        settings = {"reference": last, "fit_intercept": intercept}
        for share in (0.01, 0.3):
            model = TieBreakRegressor(name, slack=share, **settings).fit(X, y, **more)
            truth = Truth(X, intercept=intercept)
            found = truth.solve(squares(truth.scores() - y), in_cvxpy(truth), of_best(share))
            loss = 0.5 * np.mean((model.predict(X) - y) ** 2)
            agree(model, *found, loss, in_numpy(model.coef_, model.intercept_))


def test_a_perfect_fit_gives_up_a_share_of_what_the_constant_model_lacks():
    X, y = data(3, 10, 25)
    for share in (0.01, 0.2):
        assert TieBreakRegressor(slack=share).fit(X, y).score(X, y) == pytest.approx(1.0 - share)


@pytest.mark.parametrize("rows", [10, 40])
@pytest.mark.parametrize("value", [0.0, 1e-6, 3.0, 1e6])
def test_where_the_constant_model_is_perfect_there_is_nothing_to_give_up(rows, value):
    X, _ = data(3, rows, 25)
    model = TieBreakRegressor(slack=0.1).fit(X, np.full(rows, value))
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12 * max(value, 1.0))
    assert (model.slack_, model.given_up_) == (0.0, 0.0)
    sparse = TieBreakRegressor(slack=0.1).fit(sp.csr_array(X), np.full(rows, value))
    np.testing.assert_allclose(sparse.coef_, 0.0, atol=1e-12 * max(value, 1.0))


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["squared", "lasso", "logistic"])
@pytest.mark.parametrize("name", ["norm", "sparse", "smooth", "fair"])
def test_with_slack_to_spare_the_fit_decides_the_ties(name, kind):
    X, y = data(12, 40, 5)
    held = {
        "smooth": np.diff(np.eye(5), axis=0),
        "fair": ((GROUP - 0.5) / 60.0 @ V[:, :5])[None],
    }.get(name, np.eye(5))
    truth = Truth(X, alpha=0.05 if kind == "lasso" else 0.0)
    if kind == "logistic":
        y = (y + np.random.default_rng(0).logistic(size=40) > 2.5).astype(float)
        total = cp.sum(cp.logistic(cp.multiply(1.0 - 2.0 * y, truth.scores()))) / 40
        model = TieBreakClassifier(name, slack=2.0)
    else:
        total = squares(truth.scores() - y)
        model = TieBreakRegressor(name, slack=20.0, alpha=0.05 if kind == "lasso" else 0.0)
    model.fit(X, y, **preferences(5)[name][2])
    best = _least(total + truth.penalty, [held @ truth.coef == 0])
    truth.coef.value, truth.intercept.value = (
        np.ravel(model.coef_),
        float(np.ravel(model.intercept_)[0]),
    )
    np.testing.assert_allclose(held @ np.ravel(model.coef_), 0.0, atol=1e-9)
    assert float((total + truth.penalty).value) == pytest.approx(best, rel=2e-4)
    assert model.given_up_ < model.slack_


def test_a_slack_may_be_a_share_of_the_gain_or_absolute():
    X, y = data(4, 40, 6)
    best = 0.5 * np.mean((TieBreakRegressor().fit(X, y).predict(X) - y) ** 2)
    gain = 0.5 * np.var(y) - best
    share = TieBreakRegressor(slack=tb.Slack(share=0.1)).fit(X, y)
    assert share.slack_ == pytest.approx(0.1 * gain, rel=1e-9)
    assert share.score(X, y) == pytest.approx(0.9 * gain / (0.5 * np.var(y)), rel=1e-7)
    absolute = TieBreakRegressor(slack=tb.Slack(absolute=0.05)).fit(X, y)
    assert 0.5 * np.mean((absolute.predict(X) - y) ** 2) == pytest.approx(best + 0.05, rel=1e-7)


def test_the_constant_model_of_a_logistic_loss_has_its_best_intercept():
    X, y = data(4, 40, 6)
    labels = y > np.quantile(y, 0.8)
    truth = Truth(X)
    total = cp.sum(cp.logistic(cp.multiply(1.0 - 2.0 * labels, truth.scores()))) / 40
    found = truth.solve(total, cp.norm1(truth.coef), lambda best, constant: 0.5 * (constant - best))
    model = TieBreakClassifier("sparse", slack=tb.Slack(share=0.5)).fit(X, labels)
    p = np.where(labels, *model.predict_proba(X).T[::-1])
    agree(model, *found, -np.mean(np.log(p)), np.sum(np.abs(model.coef_)))


@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_other_losses_of_the_regressor(loss):
    X, y = data(5, 30, 4)
    y = y if loss == "huber" else np.round(np.abs(y))
    truth = Truth(X)
    t = truth.scores()
    if loss == "huber":
        total = 0.5 * cp.sum(cp.huber(t - y, 1.35)) / 30
    else:
        constant = np.sum(np.where(y > 0, y * np.log(np.maximum(y, 1.0)), 0.0) - y)
        total = (cp.sum(cp.exp(t) - cp.multiply(y, t)) + constant) / 30
    found = truth.solve(total, cp.norm1(truth.coef), of_best(0.05))
    model = TieBreakRegressor("sparse", loss=loss, slack=0.05).fit(X, y)
    truth.coef.value, truth.intercept.value = model.coef_, model.intercept_
    agree(model, *found, total.value, np.sum(np.abs(model.coef_)))


@pytest.mark.parametrize("classes", [2, 3])
def test_classes(classes):
    X, y = data(6, 40, 3)
    rng = np.random.default_rng(0)
    y = np.digitize(y + rng.normal(size=40), np.quantile(y, np.arange(1, classes) / classes))
    truth = Truth(X, (classes,) if classes > 2 else ())
    if classes == 2:
        total = cp.sum(cp.logistic(cp.multiply(1.0 - 2.0 * y, truth.scores()))) / 40
    else:
        scores = truth.X @ truth.coef + np.ones((40, 1)) @ cp.reshape(
            truth.intercept, (1, classes), order="C"
        )
        own = cp.sum(cp.multiply(np.eye(classes)[y], scores))
        total = (cp.sum(cp.log_sum_exp(scores, axis=1)) - own) / 40
    found = truth.solve(total, 0.5 * cp.sum_squares(truth.coef), of_best(0.02))
    model = TieBreakClassifier(slack=0.02).fit(X, y)
    p = model.predict_proba(X)[np.arange(40), y]
    agree(model, *found, -np.mean(np.log(p)), 0.5 * np.sum(model.coef_**2))


def test_weights_penalties_and_several_targets():
    X, y = data(8, 30, 5)
    weights = np.random.default_rng(1).integers(0, 4, size=30).astype(float)
    truth = Truth(X, alpha=0.2, l1_ratio=0.5)
    total = squares(truth.scores() - y, weights)
    found = truth.solve(total, cp.norm1(truth.coef), of_best(0.1))
    both = TieBreakRegressor("sparse", slack=0.1, alpha=0.2, l1_ratio=0.5)
    both.fit(X, np.stack([y, 2.0 * y], axis=1), weights)
    truth.coef.value, truth.intercept.value = both.coef_[0], both.intercept_[0]
    assert both.slack_[0] == pytest.approx(found[1], rel=1e-6)
    assert (total + truth.penalty).value <= found[0] + found[1] * (1.0 + 1e-6)
    assert np.sum(np.abs(both.coef_[0])) == pytest.approx(found[2], rel=2e-6)
    assert len(both.given_up_) == len(both.slack_) == len(both.certificate_) == 2
    assert both.report_.count("given up (allowed)") == 2


def test_without_a_slack_nothing_changes():
    X, y = data(9, 30, 40)
    one, other = TieBreakRegressor().fit(X, y), TieBreakRegressor(slack=0.0).fit(X, y)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert one.certificate_ == other.certificate_
    assert (other.given_up_, other.slack_) == (0.0, 0.0)
    assert TieBreakRegressor(slack=tb.Slack()).fit(X, y).proved_


def test_searches_clones_and_pickles():
    X, y = data(10, 20, 30)
    search = GridSearchCV(TieBreakRegressor(), {"slack": [0.0, 0.05, 0.5]}, cv=3).fit(X, y)
    assert len(set(np.round(search.cv_results_["mean_test_score"], 9))) == 3
    model = clone(TieBreakRegressor(slack=tb.Slack(share=0.1))).fit(X, y)
    text = pickle.dumps(model)
    assert pickle.loads(text).certificate_ == model.certificate_
    wide = np.hstack([X, *[X + i for i in range(9)]])
    assert len(pickle.dumps(TieBreakRegressor(slack=0.1).fit(wide, y))) < wide.nbytes / 2


@pytest.mark.parametrize("slack", [-0.1, np.nan, np.inf, "1 %", None, [0.1]])
def test_a_wrong_slack_gets_one_sentence(slack):
    with pytest.raises(ValueError, match=r"^TieBreakRegressor: slack must be a share of the best"):
        TieBreakRegressor(slack=slack).fit([[0.0], [1.0]], [0.0, 1.0])


def test_what_cones_cannot_represent_is_refused_by_the_name_of_the_parameter():
    prefer = tb.Smooth(lambda x: float(x @ x), lambda x: 2.0 * x, lipschitz=2.0)
    X, y = data(11, 20, 3)
    match = r"^TieBreakRegressor: with a slack, prefer must consist of .* Smooth"
    with pytest.raises(ValueError, match=match):
        TieBreakRegressor(prefer, slack=0.1).fit(X, y)


def test_an_error_in_what_is_preferred_is_not_taken_for_no_slack():
    def broken(x):
        raise ValueError("broken")

    lower = tb.LeastSquares(np.eye(2), np.ones(2))
    first = tb.solve(tb.Problem(lower=lower, upper=tb.SquaredNorm()))
    upper = tb.Smooth(broken, lambda x: x, lipschitz=1.0)
    first = dataclasses.replace(first, problem=tb.Problem(lower=lower, upper=upper))
    with pytest.raises(ValueError, match="broken"):
        with_slack_to_spare(first, 0.1)


@pytest.mark.parametrize("status", ["certified", "solved", "undetermined"])
def test_with_slack_to_spare_the_word_is_the_weaker_of_both(status):
    lower = tb.LeastSquares(np.eye(2), np.ones(2))
    first = tb.solve(tb.Problem(lower=lower, upper=tb.SquaredNorm()))
    first = dataclasses.replace(first, status=status)
    found = with_slack_to_spare(first, 10.0)
    assert found.status == status


def test_where_there_is_no_best_fit_a_slack_does_not_help():
    X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]
    with pytest.raises(NoMinimiserError, match="no minimiser"):
        TieBreakClassifier(slack=0.1, on_no_minimiser="error").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoMinimiserWarning)
        model = TieBreakClassifier(slack=0.1).fit(X, y)
    assert (model.given_up_, model.slack_) == (0.0, 0.0)


def test_a_first_target_that_needs_no_slack_takes_none_from_the_others():
    X, y = data(0, 30, 4)
    both = TieBreakRegressor("sparse", slack=0.2).fit(X, np.stack([np.zeros(30), y], axis=1))
    alone = TieBreakRegressor("sparse", slack=0.2).fit(X, y)
    assert alone.slack_ > 0.0
    assert both.slack_[1] == pytest.approx(alone.slack_)
    assert np.allclose(both.coef_[1], alone.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_the_constant_quantile_is_known_far_from_0(offset):
    X, y = data(0, 30, 4)
    least = np.mean(0.3 * (y - np.sort(y)[9]) + np.maximum(np.sort(y)[9] - y, 0.0))
    for slack in (tb.Slack(share=0.5), 0.1):
        model = TieBreakRegressor("sparse", loss="quantile", quantile=0.3, slack=slack)
        near, far = (model.fit(X, y + shift).slack_ for shift in (0.0, offset))
        assert far == pytest.approx(near, rel=1e-5)
    best = TieBreakRegressor(loss="quantile", quantile=0.3).fit(X, y).certificate_.lower_value
    model.set_params(slack=tb.Slack(share=0.5)).fit(X, y + offset)
    assert model.slack_ == pytest.approx(0.5 * (least - best), rel=1e-5)
