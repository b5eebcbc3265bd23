"""Domains, radii, weights of classes, ridges, tables of coefficients, a slack by validation."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tiebreak as tb
from tiebreak.sklearn import TieBreakClassifier, TieBreakRegressor, choose_slack

SETS = {
    "orthant": tb.Orthant(),
    "box": tb.Box(-0.3, 0.4),
    "simplex": tb.Simplex(),
    "monotone": tb.Monotone(),
    "halfspace": tb.Halfspace(np.ones(9), 1.0),
    "ball": tb.Ball(0.5),
    "l1 ball": tb.L1Ball(0.5),
}


def data(rows=8, n=9, seed=0):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(rows, n)), draw.normal(size=rows) + 3.0


def on_means(X, y):
    """The columns and targets without their means: the best intercept is in them."""
    return X - X.mean(axis=0), y - y.mean()


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("rows", [8, 30])
def test_the_coefficients_are_the_shortest_best_ones_in_the_domain(kind, rows):
    X, y = data(rows)
    model = TieBreakRegressor(domain=SETS[kind]).fit(X, y)
    A, b = on_means(X, y)
    problem = tb.Problem(lower=tb.LeastSquares(A, b), upper=tb.SquaredNorm(), domain=SETS[kind])
    assert SETS[kind].contains(model.coef_)
    assert model.coef_ == pytest.approx(tb.solve(problem).x, abs=1e-6)
    assert model.intercept_ == pytest.approx(y.mean() - X.mean(axis=0) @ model.coef_)


def test_non_negative_coefficients_are_those_of_scikit_learn():
    X, y = data(60, 9)
    theirs = LinearRegression(positive=True).fit(X, y)
    model = TieBreakRegressor(domain=tb.Orthant()).fit(X, y)
    assert model.coef_ == pytest.approx(theirs.coef_, abs=1e-8)
    assert model.intercept_ == pytest.approx(theirs.intercept_)
    assert model.proved_


@pytest.mark.parametrize("rows", [9, 40])
def test_non_negative_coefficients_of_one_hot_columns_are_proved(rows):
    X, y = data(rows, 2)
    X = np.hstack([X, np.eye(3)[np.arange(rows) % 3], np.eye(4)[np.arange(rows) % 4]])
    model = TieBreakRegressor(domain=tb.Orthant()).fit(X, y)
    assert model.proved_
    assert model.n_ties_ >= 2


@pytest.mark.parametrize("kind", ["orthant", "box", "simplex", "monotone", "halfspace"])
@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_intercepts_are_free_beside_a_domain(kind, loss):
    X, y = data(30)
    y = np.round(np.abs(y)) if loss == "poisson" else 10.0 * y
    model = TieBreakRegressor(loss=loss, domain=SETS[kind], rtol=1e-6).fit(X, y)
    assert SETS[kind].contains(model.coef_)
    scores = np.exp(X @ model.coef_ + model.intercept_)
    if loss == "poisson":  # the best intercept meets the mean
        assert scores.mean() == pytest.approx(y.mean(), rel=1e-3)


@pytest.mark.parametrize("slack", [0.1, tb.Slack(share=0.05)])
def test_a_domain_holds_for_fits_with_slack(slack):
    X, y = data(30)
    for prefer in ("norm", "sparse"):
        model = TieBreakRegressor(prefer, slack=slack, domain=tb.Orthant()).fit(X, y)
        assert model.coef_.min() >= -1e-9
        assert 0.0 < model.given_up_ <= model.slack_ * (1.0 + 1e-6)


def test_a_domain_of_several_classes_is_one_of_all_rows():
    X, _ = data(30, 3)
    y = np.arange(30) % 3
    model = TieBreakClassifier(domain=tb.Box(-0.1, 0.1)).fit(X, y)
    assert model.coef_.shape == (3, 3)
    assert np.abs(model.coef_).max() == pytest.approx(0.1)


def test_a_domain_that_is_none_gets_a_sentence():
    X, y = data()
    with pytest.raises(
        ValueError, match=r"^TieBreakRegressor: domain must be .*\.Orthant\(\).*tuple$"
    ):
        TieBreakRegressor(domain=(0, np.inf)).fit(X, y)
    with pytest.raises(ValueError, match=r"got Ball; fit_intercept=False accepts any set$"):
        TieBreakClassifier(domain=tb.Ball(1.0)).fit(X, y > 3.0)
    model = TieBreakClassifier(domain=tb.Ball(1.0), fit_intercept=False).fit(X, y > 3.0)
    assert np.linalg.norm(model.coef_) == pytest.approx(1.0)


def test_a_radius_is_an_assumption_of_the_proof():
    X, y = data()
    report = TieBreakRegressor("sparse", slack=0.1, radius=20.0).fit(X, y).report_
    assert "Relies on radius=20.0" in report
    with pytest.raises(ValueError, match=r"^TieBreakRegressor: radius must be"):
        TieBreakRegressor(radius=-1.0).fit(X, y)


@pytest.mark.parametrize("weights", ["balanced", {"no": 1.0, "yes": 5.0}])
def test_weights_of_classes_are_those_of_scikit_learn(weights):
    X, y = data(60, 3)
    labels = np.where(y + np.random.default_rng(1).normal(size=60) > 4.0, "yes", "no")
    own = np.random.default_rng(2).uniform(1.0, 2.0, 60)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, class_weight=weights)
    theirs.fit(X, labels, sample_weight=own)
    model = TieBreakClassifier(class_weight=weights).fit(X, labels, sample_weight=own)
    assert model.coef_ == pytest.approx(theirs.coef_, abs=1e-3)
    assert not np.allclose(model.coef_, TieBreakClassifier().fit(X, labels, own).coef_, atol=1e-3)


@pytest.mark.parametrize("weight", [-2.0, np.nan, np.inf, None, "2", 1j, [1.0, 2.0]])
def test_a_weight_of_a_class_that_is_no_weight_is_named(weight):
    X, y = data()
    words = r"^TieBreakClassifier: class_weight of yes must be a "
    with pytest.raises((ValueError, TypeError), match=words):
        TieBreakClassifier(class_weight={"yes": weight}).fit(X, np.where(y > 3.0, "yes", "no"))


@pytest.mark.parametrize("weights", [[1.0, 2.0], "even", 3.0])
def test_weights_of_classes_are_balanced_or_a_dict(weights):
    X, y = data()
    words = r"^TieBreakClassifier: class_weight must be None, 'balanced' or a dict"
    with pytest.raises(TypeError, match=words):
        TieBreakClassifier(class_weight=weights).fit(X, np.where(y > 3.0, "yes", "no"))


@pytest.mark.parametrize("intercept", [True, False])
def test_the_ridge_of_shrunk_is_chosen_by_leaving_rows_out(intercept):
    A, b = data(10, 20)
    V, w = data(30, 20, seed=1)

    def fitted(ridge, keep):
        model = TieBreakRegressor("shrunk", ridge=ridge, fit_intercept=intercept, rtol=1e-8)
        return model.fit(A, b, X_val=V[keep], y_val=w[keep])

    chosen = fitted(None, slice(None)).ridge_

    def left_out(ridge):
        rows = (np.arange(30) != i for i in range(30))
        models = [fitted(ridge * 30 / 29, keep) for keep in rows]  # the mean is over fewer rows
        return sum((m.predict(V[i : i + 1])[0] - w[i]) ** 2 for i, m in enumerate(models))

    best = left_out(chosen)
    assert best <= 1.001 * min(left_out(chosen / 3.0), left_out(chosen * 3.0))
    assert fitted(1e9, slice(None)).coef_ == pytest.approx(
        TieBreakRegressor(fit_intercept=intercept).fit(A, b).coef_, abs=1e-6
    )


def test_validation_rows_of_weight_0_do_not_choose_the_ridge():
    A, b = data(10, 20)
    V, w = data(30, 20, seed=1)
    kept = np.arange(30) % 3 > 0
    model = TieBreakRegressor("shrunk")
    chosen = model.fit(A, b, X_val=V, y_val=w, sample_weight_val=1.0 * kept).ridge_
    assert chosen == pytest.approx(model.fit(A, b, X_val=V[kept], y_val=w[kept]).ridge_)


def test_a_ridge_is_needed_where_it_is_not_chosen():
    X, y = data()
    with pytest.raises(ValueError, match=r"^TieBreakClassifier: ridge must be a number if prefer"):
        TieBreakClassifier("shrunk").fit(X, y > 3.0, X_val=X, y_val=y > 3.0)
    model = TieBreakClassifier("shrunk", ridge=0.1, loss="squared_hinge")
    assert model.fit(X, y > 3.0, X_val=X, y_val=y > 3.0).score(X, y > 3.0) == 1.0


def test_coefficients_have_names_in_a_table():
    pd = pytest.importorskip("pandas", reason="needs pandas: pip install '.[pandas]'")
    X, y = data(12, 2)
    frame = pd.DataFrame(X, columns=["age", "size"])
    model = TieBreakRegressor().fit(frame, y)
    table = model.coef_table()
    assert list(table.index) == ["age", "size", "intercept"]
    assert table["coef"].to_numpy() == pytest.approx([*model.coef_, model.intercept_])
    several = TieBreakRegressor().fit(X, np.column_stack([y, y])).coef_table()
    assert several.shape == (3, 2)
    assert list(several.index) == ["x0", "x1", "intercept"]
    classes = TieBreakClassifier().fit(X, np.array(["a", "b", "c"])[np.arange(12) % 3])
    assert list(classes.coef_table().columns) == ["a", "b", "c"]


def test_reports_and_problems_display_in_a_notebook():
    X, y = data()
    model = TieBreakRegressor(domain=tb.Orthant()).fit(X, y)
    assert model.report_._repr_html_().startswith("<pre>tiebreak: certified after ")
    assert "g(x) - g* &lt;= " in model.report_._repr_html_()
    assert pickle.loads(pickle.dumps(model)).report_ == model.report_
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(X, y), radius=3.0)
    shown = problem._repr_html_()
    assert "<th>lower level g</th><td>&lt;LeastSquares, 8 x 9&gt;</td>" in shown
    assert "<th>radius</th><td>3.0</td>" in shown
    levels = tb.Levels(tb.LeastSquares(X, y), tb.Level(tb.L1(), name="<size>"), tb.SquaredNorm())
    assert "<th>2. &lt;size&gt;</th>" in levels._repr_html_()


def test_a_slack_is_chosen_by_cross_validation():
    X, y = data(40, 6)
    y = y + 3.0 * X[:, 0]
    model = make_pipeline(StandardScaler(), TieBreakRegressor("sparse"))
    search = choose_slack(clone(model), X, y, [0.0, 0.1], cv=3)
    assert list(search.best_params_) == ["tiebreakregressor__slack"]
    assert search.best_estimator_.score(X, y) > 0.5
    with pytest.raises(ValueError, match=r"^choose_slack: model must have one parameter slack"):
        choose_slack(StandardScaler(), X, y)


@pytest.mark.parametrize("model", [TieBreakRegressor, TieBreakClassifier])
def test_a_domain_without_a_point_is_refused(model):
    X, y = data()
    empty = tb.Polyhedron([np.ones(9), -np.ones(9)], [1.0, -2.0], rows=["most", "least"])
    with pytest.raises(ValueError, match=r"domain must contain a point: .* row .* and row "):
        model(domain=empty).fit(X, y > 3.0 if model is TieBreakClassifier else y)


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (["2024-01-01", "b", "c"], "X must hold numbers, got text in column 'odd'"),
        (["1,5", "2,5", "3,5"], "X must hold numbers, got text in column 'odd'"),
        ([1.0, np.nan, 2.0], "X must be finite, got NaN or infinity in column 'odd'"),
    ],
)
def test_a_column_of_a_table_that_is_rejected_is_named(column, says):
    X, y = pd.DataFrame({"even": [1.0, 2.0, 3.0], "odd": column}), [1, 0, 1]
    for model in (TieBreakRegressor(), TieBreakClassifier()):
        with pytest.raises((TypeError, ValueError), match=says):
            model.fit(X, y)
    with pytest.raises((TypeError, ValueError), match=says):
        TieBreakRegressor().fit(X.assign(odd=1.0), y).predict(X)


def test_text_as_a_target_is_named():
    y = pd.Series(["58,5", "43,2"], name="price")
    with pytest.raises(TypeError, match="y must hold numbers, got text in column 'price'"):
        TieBreakRegressor().fit([[1.0], [2.0]], y)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_domain_of_another_length_is_named(fit_intercept):
    box = tb.Box(np.zeros(3), np.ones(3))
    model = TieBreakRegressor(domain=box, fit_intercept=fit_intercept)
    with pytest.raises(
        ValueError, match=r"^Box: lower must have one entry per variable \(4\), got 3$"
    ):
        model.fit(np.eye(6, 4), np.arange(6.0))


@pytest.mark.parametrize("outputs", [1, 3])
def test_rows_of_a_domain_keep_their_names(outputs):
    X, y = data(30, 3)
    row = np.ones(3 * outputs)
    rows = tb.Polyhedron([row, row], [5.0, -1.0], lower=[2.0, -9.0], rows=["cap", "floor"])
    labels = np.digitize(y, np.quantile(y, np.arange(1, outputs + (outputs == 1)) / 3))
    with pytest.raises(
        ValueError, match=r"row cap, lower bound and row floor|row floor and row cap"
    ):
        TieBreakClassifier(domain=rows & tb.Box(-5.0, 5.0)).fit(X, labels)


def test_a_bound_is_named_by_the_place_of_its_coefficient():
    X, y = data(30, 3)
    labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    low = np.where(np.arange(9) == 4, 1.0, -5.0)
    row = tb.Polyhedron([np.arange(9) == 4.0], [0.5], rows=["cap"])
    with pytest.raises(ValueError, match=r"the bound of x\[4\] and row cap|row cap and the bound"):
        TieBreakClassifier(domain=tb.Box(low, 5.0) & row).fit(X, labels)
