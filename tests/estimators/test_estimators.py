"""What the estimators do with users' data: labels, tables, weights, choices, errors, pickles."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import sklearn
from helpers import least_norm as slow_fits
from helpers import rational
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tiebreak as tb
from tiebreak.driver.advice import REMEDIES, Remedies
from tiebreak.sklearn import (
    NoMinimiserError,
    NoMinimiserWarning,
    TieBreakClassifier,
    TieBreakRegressor,
)
from tiebreak.sklearn.fitting import FOR_ESTIMATORS


def regression(seed=0, rows=20, n=50):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, n))
    return X, X @ rng.normal(size=n) / np.sqrt(n) + 2.0 + 0.3 * rng.normal(size=rows)


def classification(seed=0, rows=300, classes=2):
    rng = np.random.default_rng(seed)
    X = slow_fits.one_hot(rng, rows, (3, 4))
    scores = X @ rng.normal(size=(X.shape[1], classes)) + rng.gumbel(size=(rows, classes))
    return X, np.argmax(scores, axis=1)


# --- choices --------------------------------------------------------------------------------------


def ties(X):
    """All (coef, intercept) that change no prediction: a basis."""
    return slow_fits.null_space(np.hstack([X, np.ones((len(X), 1))]))


def test_validation_is_least_squares_along_the_ties():
    X, y = regression()
    V, w = regression(1, 40)
    V, w = V + 1.0, w - 1.0
    model = TieBreakRegressor("validation").fit(X, y, X_val=V, y_val=w)
    coef, b = slow_fits.least_norm("squared", X, y)
    N, A = ties(X), np.hstack([V, np.ones((40, 1))])
    best = np.append(coef, b)
    best = best - N @ np.linalg.lstsq(A @ N, A @ best - w, rcond=None)[0]
    loss = 0.5 * np.mean((A @ best - w) ** 2)
    assert 0.5 * np.mean((model.predict(V) - w) ** 2) <= loss + 1e-9
    np.testing.assert_allclose(model.predict(X), y, atol=1e-8)
    assert model.proved_
    assert model.n_ties_ == N.shape[1]


def test_smooth_and_fair_along_the_ties():
    X, y = regression(rows=10, n=12)
    N = ties(X)
    coef, b = slow_fits.least_norm("squared", X, y)
    x = np.append(coef, b)
    D = np.hstack([np.diff(np.eye(12), axis=0), np.zeros((11, 1))])
    best = x - N @ np.linalg.lstsq(D @ N, D @ x, rcond=None)[0]
    model = TieBreakRegressor("smooth").fit(X, y)
    np.testing.assert_allclose(model.coef_, best[:12], atol=1e-8)
    V, z = regression(2, 30, 12)[0], np.tile([0.0, 1.0], 15)
    fair = TieBreakRegressor("fair").fit(X, y, X_val=V, sensitive_features=z)
    assert abs(np.cov(z, fair.predict(V))[0, 1]) < 1e-9
    words = TieBreakRegressor("fair").fit(
        X, y, X_val=V, sensitive_features=np.where(z > 0.0, "a", "b")
    )
    assert abs(np.cov(z, words.predict(V))[0, 1]) < 1e-9


def test_numbers_beside_texts_in_a_table_are_numbers():
    pd = pytest.importorskip("pandas")
    X, y = regression(rows=5, n=12)
    V, ages = regression(2, 30, 12)[0], np.arange(30.0) ** 1.5
    people = pd.DataFrame({"age": ages, "sex": ["m", "f"] * 15})
    fair = TieBreakRegressor("fair").fit(X, y, X_val=V, sensitive_features=people)
    for column in (ages, people["sex"] == "m"):
        assert abs(np.cov(column, fair.predict(V))[0, 1]) < 1e-9


def test_sparse_is_the_least_sum_of_absolute_values():
    X, y = regression(rows=8, n=20)
    model = TieBreakRegressor("sparse").fit(X, y)
    A = np.hstack([X, np.ones((8, 1))])
    found = scipy.optimize.linprog(
        np.concatenate([np.ones(40), np.zeros(1)]),
        A_eq=np.hstack([X, -X, np.ones((8, 1))]),
        b_eq=y,
        bounds=[(0, None)] * 40 + [(None, None)],
    )
    assert np.sum(np.abs(model.coef_)) <= found.fun + 1e-8
    assert np.count_nonzero(np.abs(model.coef_) > 1e-9) <= A.shape[0]
    np.testing.assert_allclose(model.predict(X), y, atol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_any_function_of_the_coefficients(intercept):
    X, y = classification()
    n = X.shape[1]
    rng = np.random.default_rng(1)
    C, center, weight = rng.normal(size=(n, n)), rng.normal(size=n), rng.random(n)
    for prefer in (
        tb.SquaredNorm(2.0, center),
        tb.SquaredNorm(weight + 0.1, center),
        tb.LeastSquares(C, center),
        tb.Quadratic(C.T @ C, -C.T @ center),
        tb.LeastSquares(C, center) + 0.5 * tb.SquaredNorm(),
        tb.SquaredNorm() + tb.Linear(center),
    ):
        model = TieBreakClassifier(prefer, fit_intercept=intercept).fit(X, y)
        assert model.proved_, model.report_
        x, A = model.coef_[0], np.hstack([X, np.ones((len(X), 1))]) if intercept else X
        N = slow_fits.null_space(A)[:n]
        slope = N.T @ prefer.gradient(x)
        assert np.linalg.norm(slope) <= 1e-8 * (1.0 + np.linalg.norm(prefer.gradient(x)))


def test_a_function_of_another_number_of_coefficients_is_refused():
    X, y = regression()
    with pytest.raises(ValueError, match="50 coefficients, got one of 3"):
        TieBreakRegressor(tb.Linear(np.ones(3))).fit(X, y)
    with pytest.raises(ValueError, match="it is unbounded"):
        TieBreakRegressor(tb.Linear(np.ones(50))).fit(X, y)


def test_lasso_splits_evenly_between_copies_of_a_column():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(60, 5))
    X, y = np.hstack([half, half]), half @ [3.0, -2.0, 0.0, 0.0, 1.0] + 0.1 * rng.normal(size=60)
    model = TieBreakRegressor(alpha=0.1).fit(X, y)
    single = sklearn.linear_model.Lasso(alpha=0.1, tol=1e-14, max_iter=10**6).fit(half, y)
    np.testing.assert_allclose(model.coef_[:5], model.coef_[5:], atol=1e-7)
    np.testing.assert_allclose(2.0 * model.coef_[:5], single.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, single.intercept_, atol=1e-6)
    assert model.n_ties_ >= 3


def test_an_elastic_net_is_scikit_learns():
    X, y = regression(rows=40, n=10)
    ours = TieBreakRegressor(alpha=0.1, l1_ratio=0.3).fit(X, y)
    theirs = sklearn.linear_model.ElasticNet(alpha=0.1, l1_ratio=0.3, tol=1e-14, max_iter=10**6)
    np.testing.assert_allclose(ours.coef_, theirs.fit(X, y).coef_, atol=1e-6)
    assert ours.n_ties_ == 0


def test_several_targets_are_fits_of_their_own():
    X, y = regression()
    Y = np.stack([y, -2.0 * y + X[:, 0]], axis=1)
    both = TieBreakRegressor("reference", reference=np.ones((2, 50))).fit(X, Y)
    for k in range(2):
        one = TieBreakRegressor("reference", reference=np.ones(50)).fit(X, Y[:, k])
        np.testing.assert_allclose(both.coef_[k], one.coef_, atol=1e-12)
    assert both.predict(X).shape == (20, 2)
    assert both.n_ties_ == [31, 31]
    assert len(both.certificate_) == 2


def test_several_targets_without_ties_are_solved_once(monkeypatch):
    X, y = regression(rows=60, n=5)
    Y, solve, solved = np.stack([y, -2.0 * y + X[:, 0], np.exp(y)], axis=1), tb.solve, []
    monkeypatch.setattr(tb, "solve", lambda *a, **o: solved.append(1) or solve(*a, **o))
    together = TieBreakRegressor().fit(X, Y)
    assert len(solved) == 1
    assert together.proved_
    assert together.n_ties_ == [0, 0, 0]
    for k in range(3):
        one = TieBreakRegressor().fit(X, Y[:, k])
        np.testing.assert_allclose(together.coef_[k], one.coef_, atol=1e-12 * abs(one.coef_).max())
        assert together.intercept_[k] == pytest.approx(one.intercept_, rel=1e-10)
    # With a penalty or validation data, each target is a problem of its own.
    options = {"X_val": X, "y_val": Y}
    for model in (TieBreakRegressor(alpha=0.1), TieBreakRegressor("validation")):
        solved.clear()
        model.fit(X, Y, **options)
        assert len(solved) == 3


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(60))
def test_targets_that_share_a_factorisation_are_proved_one_by_one(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    X = rng.normal(size=(4 * n + 3, n)) * 10.0 ** rng.uniform(-3.0, 3.0, size=n)
    X[:, 0] += 10.0 ** rng.uniform(-6.0, 0.0) * np.sum(X[:, 1:], axis=1)
    Y = (X @ rng.normal(size=(n, 3)) + rng.normal(size=(len(X), 3))) * [1.0, 1e-9, 1e5]
    w = rng.uniform(0.5, 2.0, size=len(X)) if seed % 2 else None
    model = TieBreakRegressor(fit_intercept=False).fit(X, Y, w)
    for proof, y in zip(model.certificate_, Y.T, strict=True):
        below, above = rational.least_squares(X, y, w, mean=True), rational.squared_norm(n)
        truth = rational.solve(
            rational.Region(n), [(below, rational.Allowance()), (above, rational.Allowance())]
        )
        g, f = truth.values
        assert proof.lower_optimum[0] <= g <= proof.lower_optimum[1]
        assert proof.upper_optimum[0] <= f <= proof.upper_optimum[1]
        assert proof.lower_value - g <= proof.lower_gap
        assert abs(proof.upper_value - f) <= proof.upper_error


def test_huber_is_not_moved_by_an_outlier():
    X, y = regression(rows=60, n=4)
    X = np.hstack([X, X[:, :1]])  # one tie
    far = y.copy()
    far[0] += 1e6
    before, after = (TieBreakRegressor(loss="huber").fit(X, t) for t in (y, far))
    assert np.linalg.norm(before.coef_ - after.coef_) < 0.5
    np.testing.assert_allclose(after.coef_[0], after.coef_[4], atol=1e-7)


# --- classes --------------------------------------------------------------------------------------


def test_labels_of_any_kind():
    X, y = classification()
    plain = TieBreakClassifier().fit(X, y)
    for labels in (np.array(["no", "yes"]), np.array([-1, 1]), np.array([3, 7])):
        model = TieBreakClassifier().fit(X, labels[y])
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        np.testing.assert_array_equal(model.predict(X), labels[plain.predict(X)])


def test_probabilities_of_many_classes():
    X, y = classification(classes=4)
    model = TieBreakClassifier().fit(X, y)
    assert model.coef_.shape == (4, 7)
    np.testing.assert_allclose(np.sum(model.coef_, axis=0), 0.0, atol=1e-9)  # the least norm
    P = model.predict_proba(X)
    np.testing.assert_allclose(np.sum(P, axis=1), 1.0)
    # At a minimiser with intercepts the mean probabilities are the shares of the classes.
    np.testing.assert_allclose(np.mean(P, axis=0), np.bincount(y) / len(y), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), model.classes_[np.argmax(P, axis=1)])


def test_logarithms_of_tiny_probabilities_are_finite():
    model = TieBreakClassifier().fit([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1])
    score = model.decision_function([[1e5]])[0]
    assert score > 1e4
    np.testing.assert_allclose(model.predict_log_proba([[1e5]]), [[-score, 0.0]])


def test_two_classes_in_two_rows_or_one():
    X, y = classification()
    one = TieBreakClassifier().fit(X, y)
    A = np.hstack([X, np.ones((len(X), 1))])
    problem = tb.Problem(
        upper=tb.SquaredNorm(np.tile([*np.ones(7), 0.0], 2)),
        lower=tb.Multinomial(A, y, classes=2),
    )
    two = tb.solve(problem).x.reshape(2, 8)
    np.testing.assert_allclose(two[1, :7] - two[0, :7], one.coef_[0], atol=1e-8)


def test_separable_data_warn_or_raise_and_others_never(count):
    for seed in range(count(8, 100)):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 4))
        y = np.where(X @ rng.normal(size=4) + 0.1 > 0.0, "a", "b")
        if len(set(y)) < 2:
            continue
        with pytest.raises(NoMinimiserError, match="keeps decreasing along") as error:
            TieBreakClassifier(on_no_minimiser="error").fit(X, y)
        sides = np.where(y == "b", 1.0, -1.0)
        margins = sides * (X @ error.value.coef[0] + error.value.intercept[0])
        assert np.min(margins) >= -1e-9
        assert np.max(margins) > 1e-6
        with pytest.warns(NoMinimiserWarning):
            model = TieBreakClassifier().fit(X, y)
        assert not model.proved_
        assert model.n_ties_ is None
        assert "the loss has no minimiser" in model.report_.splitlines()[0]
        assert model.score(X, y) == 1.0
        # The same rows with both labels: no direction separates them.
        both = np.vstack([X, X]), np.concatenate([y, np.where(y == "a", "b", "a")])
        assert TieBreakClassifier().fit(*both).proved_


def test_a_weak_penalty_keeps_to_the_domain_without_an_exact_method(monkeypatch):
    refused = type("Refused", (), {"refusal": lambda self, problem: "too large"})
    monkeypatch.setattr(tb, "Exact", refused)
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:, 1] = 0.1 * X[:, 1] - X[:, 0]  # a negative coefficient would help
    with pytest.warns(NoMinimiserWarning):
        model = TieBreakClassifier(domain=tb.Orthant(), fit_intercept=False).fit(X, X[:, 0] > 0.0)
    assert model.coef_.min() >= 0.0
    assert not model.proved_


@pytest.mark.parametrize("most", [0, 2**29])
def test_a_weak_penalty_is_fitted_alike_by_steps_and_by_factorisation(most, monkeypatch):
    """Ten digits took minutes: a fit that proves nothing was factorised and proved."""
    monkeypatch.setattr("tiebreak.sklearn.fitting.SECOND", most)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3))
    y = np.argmax(X, axis=1)
    with pytest.warns(NoMinimiserWarning):
        model = TieBreakClassifier().fit(X, y)
    assert ("L-BFGS" in model.report_) == (most == 0)
    exact = TieBreakClassifier(alpha=1e-4, l1_ratio=0.0).fit(X, y)
    assert "alpha = 0.0001 " in model.report_
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.05 * np.abs(exact.coef_).max())


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", [1, 14, 51, 63])
def test_a_weak_penalty_separates_each_pair_of_classes_that_the_direction_does(seed):
    rng = np.random.default_rng(seed)
    rows, n = int(rng.integers(5, 14)), int(rng.integers(1, 4))
    X = rng.integers(-3, 4, (rows, n)) * 10.0 ** -rng.integers(0, 4)
    y = rng.integers(0, 3, rows)

    def margins(coef, intercept):
        scores = X @ coef.T + intercept
        return scores[np.arange(rows), y][:, None] - scores

    with pytest.raises(NoMinimiserError) as found:
        TieBreakClassifier(on_no_minimiser="error").fit(X, y)
    along = margins(found.value.coef, found.value.intercept)
    with pytest.warns(NoMinimiserWarning):
        model = TieBreakClassifier().fit(X, y)
    here = margins(model.coef_, model.intercept_)
    assert np.min(along) >= -1e-9 * np.max(along)
    assert np.min(here[along > 1e-9 * np.max(along)]) > 0.0


@pytest.mark.parametrize("tries", [1, 2])
def test_the_penalty_that_is_reported_is_the_one_that_was_used(tries, monkeypatch):
    monkeypatch.setattr("tiebreak.sklearn.fitting.MOST_TRIES", tries)
    X, y = np.array([[-1e-4], [0.0], [1e-4]]), [0, 1, 1]  # no penalty of this size separates them
    with pytest.warns(NoMinimiserWarning):
        model = TieBreakClassifier(rtol=1e-2).fit(X, y)
    assert model.score(X, y) < 1.0
    assert f"alpha = {1e-2 / 16.0 ** (tries - 1):.2g} " in model.report_


def test_a_category_with_one_label_is_named():
    pd = pytest.importorskip("pandas")
    X, y = classification()
    X = pd.DataFrame(X, columns=[f"size_{k}" for k in range(3)] + [f"hue_{k}" for k in range(4)])
    y = np.where(X["hue_2"] == 1.0, 1, y)
    with pytest.raises(NoMinimiserError, match="hue_2"):
        TieBreakClassifier(on_no_minimiser="error").fit(X, y)
    model = TieBreakClassifier(alpha=1e-3, l1_ratio=0.0).fit(X, y)  # as the error advises
    assert model.n_ties_ == 0


def test_the_classes_of_a_direction_have_their_names():
    X = np.repeat(np.eye(3), 4, axis=0)
    y = np.repeat(["red", "green", "blue"], 4)
    with pytest.raises(NoMinimiserError, match=r"of class (red|green|blue)"):
        TieBreakClassifier(on_no_minimiser="error").fit(X, y)


def test_several_weighted_targets_share_one_factorisation(monkeypatch):
    from tiebreak.linalg import row_gram

    made, init = [], row_gram.RowGram.__init__
    monkeypatch.setattr(
        row_gram.RowGram, "__init__", lambda self, A: (made.append(A.shape), init(self, A))[1]
    )
    X, y = regression()
    Y = np.stack([y, 2.0 * y, y + X[:, 0]], axis=1)
    TieBreakRegressor().fit(X, Y, sample_weight=np.linspace(1.0, 2.0, 20))
    assert len(made) == 1


def test_no_counts_along_a_feature():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    with pytest.raises(NoMinimiserError, match="x1"):
        TieBreakRegressor(loss="poisson", on_no_minimiser="error").fit(X, [1.0, 0.0, 2.0, 0.0])


# --- manners --------------------------------------------------------------------------------------


def test_the_pickle_has_no_data_in_it():
    X, y = regression(rows=500, n=1000)
    model = TieBreakRegressor().fit(X, y)
    data = pickle.dumps(model)
    assert len(data) <= 100_000 + 64 * 1000
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.certificate_ == model.certificate_
    again.plot_choice()


def test_fit_twice_is_the_same_to_the_bit():
    for model, (X, y) in (
        (TieBreakRegressor(), regression()),
        (TieBreakRegressor("sparse"), regression()),
        (TieBreakClassifier(), classification()),
        (TieBreakClassifier(), classification(classes=3)),
    ):
        first = clone(model).fit(X, y)
        np.testing.assert_array_equal(first.coef_, clone(model).fit(X, y).coef_)
        np.testing.assert_array_equal(first.coef_, model.fit(X, y).fit(X, y).coef_)


def test_a_warm_start_changes_nothing_but_the_time():
    X, y = classification()
    model = TieBreakClassifier(warm_start=True).fit(X, y)
    w = np.linspace(0.9, 1.1, len(X))
    warm = model.fit(X, y, sample_weight=w).coef_
    cold = TieBreakClassifier().fit(X, y, sample_weight=w).coef_
    np.testing.assert_allclose(warm, cold, atol=1e-10)


def test_validation_data_go_through_a_pipeline():
    X, y = regression()
    V, w = regression(1, 40)
    with sklearn.config_context(enable_metadata_routing=True):
        choose = TieBreakRegressor("validation").set_fit_request(X_val=True, y_val=True)
        model = make_pipeline(StandardScaler(), choose, transform_input=["X_val"])
        model.fit(X, y, X_val=V, y_val=w)
    scaler = StandardScaler().fit(X)
    by_hand = TieBreakRegressor("validation").fit(
        scaler.transform(X), y, X_val=scaler.transform(V), y_val=w
    )
    np.testing.assert_array_equal(model[-1].coef_, by_hand.coef_)


def test_searches_and_scores():
    X, y = regression(rows=40, n=60)
    search = GridSearchCV(TieBreakRegressor(), {"prefer": ["norm", "smooth"]}, cv=3).fit(X, y)
    assert search.best_params_["prefer"] in ("norm", "smooth")
    assert len(cross_val_score(TieBreakRegressor(), X, y, cv=3)) == 3


def test_tables_of_pandas_and_polars():
    X, y = regression()
    plain = TieBreakRegressor().fit(X, y)
    names = [f"f{k}" for k in range(50)]
    for library in ("pandas", "polars"):
        frames = pytest.importorskip(library)
        table = (
            frames.DataFrame(X, columns=names)
            if library == "pandas"
            else frames.DataFrame(X, schema=names)
        )
        model = TieBreakRegressor().fit(table, y)
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-12)
        if library == "pandas" or hasattr(model, "feature_names_in_"):  # scikit-learn 1.6 has none
            assert list(model.feature_names_in_) == names
        np.testing.assert_allclose(model.predict(table), plain.predict(X), rtol=1e-12)


def test_float32_is_taken_in_float64():
    X, y = regression()
    model = TieBreakRegressor().fit(X.astype(np.float32), y.astype(np.float32))
    assert model.coef_.dtype == np.float64


def test_sparse_rows():
    X, y = classification()
    dense, sparse = (TieBreakClassifier().fit(M, y) for M in (X, sp.csr_array(X)))
    np.testing.assert_allclose(dense.coef_, sparse.coef_, atol=1e-9)
    X, y = regression()
    X[np.abs(X) < 1.0] = 0.0
    dense, sparse = (TieBreakRegressor().fit(M, y) for M in (X, sp.csr_array(X)))
    np.testing.assert_allclose(dense.coef_, sparse.coef_, atol=1e-9)


def test_extreme_shapes():
    one = TieBreakRegressor().fit([[2.0]], [3.0])
    assert (one.coef_[0], one.intercept_, one.n_ties_) == (0.0, 3.0, 1)
    constant = TieBreakRegressor().fit(np.full((5, 2), 7.7), np.arange(5.0))
    np.testing.assert_allclose(constant.coef_, 0.0, atol=1e-12)
    np.testing.assert_allclose(constant.intercept_, 2.0)
    shifted = np.random.default_rng(0).normal(size=(30, 3)) + 1e8
    y = np.arange(30.0)
    far, near = (TieBreakRegressor().fit(M, y).coef_ for M in (shifted, shifted - 1e8))
    np.testing.assert_allclose(far, near, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prefer": "best"}, "prefer must be one of 'norm'"),
        ({"prefer": "nrom"}, "did you mean 'norm'"),
        ({"loss": "hubber"}, "did you mean 'huber'"),
        ({"loss": "hinge"}, "loss must be one of 'squared'"),
        ({"alpha": -1.0}, "alpha must be at least 0"),
        ({"alpha": None}, "alpha must be at least 0, got None"),
        ({"alpha": "0.1"}, "alpha must be at least 0, got '0.1'"),
        ({"l1_ratio": 2.0}, "l1_ratio must be at least 0 and at most 1"),
        ({"on_no_minimiser": "ignore"}, "on_no_minimiser must be 'error' or 'warn'"),
        ({"prefer": "reference", "reference": [1.0]}, "reference must have 1 x 50 coefficients"),
        ({"rtol": 0.0, "prefer": tb.SquaredNorm}, "prefer must be one of"),
        ({"domain": tb.Orthant}, "domain must be a set such as .* got the class Orthant"),
    ],
)
def test_bad_parameters_get_one_sentence(change, words):
    X, y = regression()
    with pytest.raises(ValueError, match=words):
        TieBreakRegressor(**change).fit(X, y)


def test_bad_data_get_one_sentence():
    X, y = regression()
    for weights, words in ((-np.ones(20), "negative"), (np.zeros(20), "positive entry|non-zero")):
        with pytest.raises(ValueError, match=words):
            TieBreakRegressor().fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="y_val must have 5 rows"):
        TieBreakRegressor("validation").fit(X, y, X_val=X[:5], y_val=y)
    with pytest.raises(ValueError, match="sensitive_features must have one row"):
        TieBreakRegressor("fair").fit(X, y, sensitive_features=y[:3])
    with pytest.raises(ValueError, match="must not be negative"):
        TieBreakRegressor(loss="poisson").fit(X, -np.abs(y))
    labels = np.arange(20) % 2
    with pytest.raises(ValueError, match="y_val must hold a label of the training data"):
        TieBreakClassifier("validation").fit(X, labels, X_val=X, y_val=labels + 1)
    words = np.array(["no", "yes"], dtype=object)[labels]
    with pytest.raises(ValueError, match="y_val must hold a label of the training data"):
        TieBreakClassifier("validation").fit(X, words, X_val=X, y_val=labels)


def test_the_picture_of_the_choice():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y = regression()
    V, w = regression(1, 40)
    model = TieBreakRegressor("validation").fit(X, y, X_val=V, y_val=w)
    (curve,) = model._choice_curves
    middle = len(curve.steps) // 2
    assert np.argmin(curve.upper) == middle  # nothing on the line is better
    assert np.ptp(curve.lower) <= 1e-9 * curve.without
    axes = model.plot_choice()
    assert "validation" in axes.get_ylabel()
    with pytest.raises(ValueError, match="plot_choice needs ties"):
        TieBreakRegressor().fit(X[:, :3], y).plot_choice()
    matplotlib.pyplot.close("all")


def test_nothing_is_said_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TieBreakRegressor().fit(*regression())
        TieBreakClassifier().fit(*classification())


def test_a_reference_is_in_the_order_of_the_columns_or_refused():
    pd = pytest.importorskip("pandas", reason="needs pandas: pip install '.[pandas]'")
    X = pd.DataFrame(np.eye(2, 3), columns=["a", "b", "c"])
    last = pd.Series([1.0, 2.0, 3.0], index=["a", "b", "c"])
    found = TieBreakRegressor("reference", reference=last).fit(X, [0.0, 1.0])
    assert found.coef_[2] == pytest.approx(3.0)
    words = r"^TieBreakRegressor: reference must have the same names as X in the same order, got "
    more = pd.Series(np.ones(5), index=["b", "d", "e", "f", "intercept"])
    for wrong, got in (
        (last[::-1], "'c', 'b', 'a' instead of 'a', 'b', 'c'$"),
        (last[1:], "no 'a'$"),
        (more, r"no 'a', 'c' and the unexpected 'd', 'e', 'f', \.\.\.$"),
    ):
        with pytest.raises(ValueError, match=words + got):
            TieBreakRegressor("reference", reference=wrong).fit(X, [0.0, 1.0])


def test_a_reference_with_names_is_not_used_by_position():
    pd = pytest.importorskip("pandas", reason="needs pandas: pip install '.[pandas]'")
    X, y = np.eye(2, 3), [0.0, 1.0]
    last = pd.Series([1.0, 2.0, 3.0], index=["a", "b", "c"])
    words = r"give X as a table .*, or reference\.to_numpy\(\) .*, got the names 'a', 'b', 'c'$"
    with pytest.raises(ValueError, match=words):
        TieBreakRegressor("reference", reference=last).fit(X, y)
    for known in (last.to_numpy(), last.set_axis(["x0", "x1", "x2"]), last.reset_index(drop=True)):
        found = TieBreakRegressor("reference", reference=known).fit(X, y)
        assert found.coef_[2] == pytest.approx(3.0)


def test_a_reference_of_the_wrong_kind_gets_the_sentence_that_says_what_to_write():
    X, y = np.eye(2, 3), [0.0, 1.0]
    old = TieBreakRegressor().fit(X, y)
    with pytest.raises(ValueError, match=r"such as model\.coef_, got TieBreakRegressor$"):
        TieBreakRegressor("reference", reference=old).fit(X, y)
    with pytest.raises(ValueError, match=r"must have 1 x 3 coefficients, got .*reindex\("):
        TieBreakRegressor("reference", reference=np.ones(5)).fit(X, y)
    with pytest.raises(ValueError, match=r"got shape \(4,\); leave out the intercept$"):
        TieBreakRegressor("reference", reference=np.ones(4)).fit(X, y)
    for wrong, got in (({"a": 1.0}, "got dict$"), (["a", "b", "c"], "got list$"), (1.0, "float$")):
        with pytest.raises(ValueError, match=rf"^TieBreakRegressor: reference must be an.* {got}"):
            TieBreakRegressor("reference", reference=wrong).fit(X, y)
    with pytest.raises(ValueError, match=r"^TieBreakRegressor: reference must be finite, got NaN"):
        TieBreakRegressor("reference", reference=[1.0, np.nan, 0.0]).fit(X, y)


def test_a_reference_that_is_a_table_from_a_file_gets_a_sentence_that_names_the_place():
    pd = pytest.importorskip("pandas", reason="needs pandas: pip install '.[pandas]'")
    X = pd.DataFrame(np.eye(2, 3), columns=["a", "b", "c"])
    table = pd.DataFrame({"name": ["a", "b", "c"], "coef": [1.0, np.nan, 2.0]})
    with pytest.raises(TypeError, match=r"reference must hold numbers, got text in column 'name'$"):
        TieBreakRegressor("reference", reference=table).fit(X, [0.0, 1.0])
    last = table.set_index("name")["coef"]
    with pytest.raises(ValueError, match=r"reference must be finite, got NaN or infinity at 'b'$"):
        TieBreakRegressor("reference", reference=last).fit(X, [0.0, 1.0])


def test_a_reference_that_is_not_used_is_said():
    words = r"^TieBreakRegressor: reference is not used if prefer is 'norm'; write prefer="
    with pytest.warns(UserWarning, match=words):
        TieBreakRegressor(reference=np.ones(3)).fit(np.eye(2, 3), [0.0, 1.0])


NOT_THEIRS = ("Problem(", "radius", "atol", "criterion", "error_bound", "gamma", "domain or")


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (TieBreakRegressor("smooth", rtol=1e-16), "as small as rounding allows"),
        (TieBreakRegressor(), "times the tolerance"),
        (TieBreakRegressor(slack=0.1), "assume a limit"),
    ],
)
def test_the_advice_of_a_fit_is_about_its_own_parameters(model, why):
    X, y = regression(rows=30, n=4)
    if model.prefer == "norm":  # beside times with fractions the proof is wide
        X = np.column_stack([1.7e12 + 0.25 + 8.64e7 * np.arange(30), X])
    report = " ".join(model.fit(np.hstack([X, X[:, :2]]), y).report_.split())
    assert why in report
    assert not any(word in report for word in NOT_THEIRS)
    assert model.slack or "relax rtol" in report


def test_no_advice_of_solve_is_left_in_that_of_a_fit():
    assert any(word in " ".join(map(str, Remedies())) for word in NOT_THEIRS)
    assert not any(word in " ".join(map(str, FOR_ESTIMATORS)) for word in NOT_THEIRS)
    assert not FOR_ESTIMATORS.has_method


def test_the_advice_of_a_fit_does_not_reach_the_next_solve():
    TieBreakRegressor().fit(*regression())
    assert REMEDIES.get() == Remedies()
