"""Data in single precision, and columns far from 0: what of them is rounding, and what is not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import least_norm as slow_fits

from tiebreak.sklearn import TieBreakClassifier, TieBreakRegressor

LOSSES = ("squared", "huber", "poisson", "logistic")


def model(loss, **more):
    if loss == "logistic":
        return TieBreakClassifier(**more)
    return TieBreakRegressor(loss=loss, **more)


def targets(rng, loss, t):
    if loss == "logistic":
        return (t + rng.logistic(size=len(t)) > 0.0).astype(int)
    return rng.poisson(np.exp(t)) + 1.0 if loss == "poisson" else t + rng.normal(size=len(t))


def with_sums(seed, loss, rows=150, offset=0.0):
    """Columns of which four are sums of others, which float32 rounds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 8)) + offset
    y = targets(rng, loss, 0.3 * np.sum(X - offset, axis=1))
    return np.hstack([X, X[:, :4] + X[:, 4:]]), y


# --- single precision -----------------------------------------------------------------------------


@pytest.mark.sample(9)
@pytest.mark.parametrize("kind", ["tall", "wide", "sparse", "weighted", "no intercept", "lasso"])
@pytest.mark.parametrize("loss", LOSSES)
def test_sums_of_columns_in_float32_are_ties(loss, kind, count):
    if kind == "wide" and loss == "logistic":
        pytest.skip("wide data are separable: there is no minimiser")
    for seed in range(count(2, 10)):
        X, y = with_sums(seed, loss, rows=6 if kind == "wide" else 150)
        w = np.linspace(1.0, 2.0, len(X)) if kind == "weighted" else None
        options = {"fit_intercept": kind != "no intercept"}
        options |= {"alpha": 1e-3} if kind == "lasso" else {}
        single = X.astype(np.float32)
        single = sp.csr_array(single) if kind == "sparse" else single
        found = model(loss, **options).fit(single, y, sample_weight=w)
        truth = model(loss, **options).fit(X, y, sample_weight=w)
        np.testing.assert_allclose(found.coef_, truth.coef_, rtol=1e-3, atol=1e-4)
        assert found.n_ties_ == truth.n_ties_
        assert kind == "lasso" or found.n_ties_ >= 4
        assert found.coef_.dtype == np.float64


@pytest.mark.parametrize("rows", [10, 150])
@pytest.mark.parametrize("offset", [10.0, 1e3])
def test_an_offset_does_not_make_rounding_in_float32_smaller(offset, rows):
    X, y = with_sums(0, "squared", rows, offset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the rank may be in doubt, and that is said
        found = TieBreakRegressor().fit(X.astype(np.float32), y)
    truth = TieBreakRegressor().fit(X, y)
    assert np.linalg.norm(found.coef_) <= 1.01 * np.linalg.norm(truth.coef_)
    assert found.n_ties_ in (None, truth.n_ties_)


@pytest.mark.parametrize("loss", LOSSES)
def test_whole_numbers_in_float32_are_exact(loss):
    rng = np.random.default_rng(0)
    X = slow_fits.one_hot(rng, 200, (3, 4))
    y = targets(rng, loss, 0.3 * X @ rng.normal(size=7))
    for kind in (np.float32, np.float16):
        single, double = (model(loss).fit(M, y) for M in (X.astype(kind), X))
        np.testing.assert_array_equal(single.coef_, double.coef_)
        assert single.proved_
        assert single.n_ties_ == 2


def test_the_data_to_choose_by_may_be_in_float32():
    X, y = with_sums(0, "squared", rows=6)
    V, w = with_sums(1, "squared", rows=30)
    single = TieBreakRegressor("validation").fit(X, y, X_val=V.astype(np.float32), y_val=w)
    double = TieBreakRegressor("validation").fit(X, y, X_val=V, y_val=w)
    np.testing.assert_allclose(single.predict(V), double.predict(V), rtol=1e-3, atol=1e-4)


# --- columns far from 0 ---------------------------------------------------------------------------


@pytest.mark.sample(5)
@pytest.mark.parametrize("offset", [1e6, -1e9, 1e12, -1e14, 1e15, 2.0**50])
@pytest.mark.parametrize("loss", LOSSES)
def test_an_offset_of_whole_numbers_changes_no_coefficient(loss, offset, count):
    for seed in range(count(3, 20)):
        rng = np.random.default_rng(seed)
        X = rng.integers(-5, 6, (40, 3)).astype(float)
        y = targets(rng, loss, 0.2 * X @ [1.0, -2.0, 0.5])
        near = model(loss).fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            far = [model(loss).fit(M, y) for M in (X + offset, sp.csr_array(X + offset))]
        for found in far:
            np.testing.assert_allclose(found.coef_, near.coef_, rtol=1e-7, atol=1e-9)
            assert found.n_ties_ == near.n_ties_


@pytest.mark.parametrize("seed", range(4))
def test_few_rows_with_an_offset(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-5, 6, (6, 2)).astype(float)
    y = X @ [1.0, -2.0] + rng.integers(-1, 2, 6)
    with pytest.warns(UserWarning, match=r"predictions have rounding errors of up to 0\.\d"):
        coef = TieBreakRegressor().fit(X + 1e15, y).coef_
    A = X - np.mean(X, axis=0)
    np.testing.assert_allclose(coef, np.linalg.lstsq(A, y - np.mean(y))[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("prefer", ["validation", "fair", "smooth", "sparse"])
def test_an_offset_does_not_change_the_choice(prefer):
    rng = np.random.default_rng(0)
    X, V = (rng.integers(-5, 6, (rows, 12)).astype(float) for rows in (8, 30))
    y, w = (M @ np.linspace(-1.0, 1.0, 12) + rng.normal(size=len(M)) for M in (X, V))
    more = {"y_val": w, "sensitive_features": np.arange(30) % 2}
    near = TieBreakRegressor(prefer).fit(X, y, X_val=V, **more)
    far = TieBreakRegressor(prefer).fit(X + 1e9, y, X_val=V + 1e9, **more)
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(far.predict(V + 1e9), near.predict(V), atol=1e-5)


def test_time_in_nanoseconds_with_a_warm_start():
    rng = np.random.default_rng(0)
    t = np.arange(60.0)
    X = np.column_stack([1.7e18 + 6e10 * t, rng.normal(size=60)])  # more than float64 holds exactly
    y = (t / 30.0 - 1.0 + rng.logistic(size=60) > 0.0).astype(int)
    far = TieBreakClassifier(warm_start=True).fit(X, y)
    near = TieBreakClassifier().fit(np.column_stack([t, X[:, 1]]), y)
    np.testing.assert_allclose(far.coef_ * [[6e10, 1.0]], near.coef_, rtol=1e-5)
    again = far.coef_
    np.testing.assert_allclose(far.fit(X, y).coef_, again, rtol=1e-9)


def test_columns_whose_squares_underflow_are_no_constants():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(6, 9)), rng.normal(size=6)
    with pytest.raises(ValueError, match=r"A of LeastSquares in lower must be between 1e-152"):
        TieBreakRegressor().fit(1e-180 * X, y)
    small = TieBreakRegressor().fit(X, 1e-200 * y)
    np.testing.assert_allclose(1e200 * small.coef_, TieBreakRegressor().fit(X, y).coef_, atol=1e-12)


@pytest.mark.parametrize("shape", [(60, 5), (8, 20)])
@pytest.mark.parametrize("penalty", [{}, {"alpha": 0.1, "l1_ratio": 0.0}])
def test_half_precision_is_fitted_as_it_is(shape, penalty):
    """If its rounding errors could be anything, all coefficients would be 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape).astype(np.float16)
    y = X.astype(float) @ rng.normal(size=shape[1]) + rng.normal(size=shape[0])
    A, b = X - np.mean(X.astype(float), axis=0), y - np.mean(y)
    ridge = len(X) * penalty.get("alpha", 0.0)
    truth = A.T @ np.linalg.pinv(A @ A.T + ridge * np.eye(len(X)), rcond=1e-12) @ b
    fitted = TieBreakRegressor(**penalty).fit(X, y)
    assert fitted.proved_
    np.testing.assert_allclose(fitted.coef_, truth, atol=1e-8)


@pytest.mark.parametrize("loss", ["squared", "huber", "quantile"])
@pytest.mark.parametrize("prefer", ["norm", "validation"])
def test_targets_far_from_0_are_fitted_as_those_near_0(loss, prefer):
    """An intercept absorbs the shift, so that a tolerance is not measured against it."""
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(60, 4)), rng.normal(size=(9, 4))
    y = np.round(1024.0 * (X @ [1.0, 2.0, 0.0, 0.5] + rng.normal(size=60))) / 1024.0
    w = np.round(1024.0 * (V @ [1.0, 2.0, 0.0, 0.5])) / 1024.0
    model = TieBreakRegressor(prefer, loss=loss, warm_start=True, radius=2.0**31)
    near = model.fit(X, y, X_val=V, y_val=w)
    coef, intercept = near.coef_, near.intercept_
    for shift in (2.0**20, -(2.0**30)):
        far = model.fit(X, y + shift, X_val=V, y_val=w + shift)
        np.testing.assert_allclose(far.coef_, coef, rtol=1e-6, atol=1e-8)
        assert far.intercept_ == pytest.approx(intercept + shift, rel=1e-12)
        least = far.certificate_.lower_optimum[0]  # a bound is not looser than that of near targets
        assert far.certificate_.lower_value - least <= 0.4
        assert far.proved_ or loss == "quantile"


def test_each_target_has_a_shift_of_its_own():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    Y = X @ rng.normal(size=(3, 3)) + rng.normal(size=(40, 3)) + [1e6, 0.0, -1e3]
    model = TieBreakRegressor().fit(X, Y)
    truth = np.linalg.lstsq(np.column_stack([X, np.ones(40)]), Y, rcond=None)[0]
    assert model.proved_
    np.testing.assert_allclose(model.coef_, truth[:3].T, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, truth[3], rtol=1e-12, atol=1e-8)


def test_columns_and_targets_as_large_as_can_be():
    X = np.linspace(4e4, 6e4, 20).astype(np.float16)[:, None]  # twice this overflows
    y = np.linspace(1.0, 2.0, 20) + np.tile([0.1, -0.1], 10)
    truth = np.polyfit(X[:, 0].astype(float), y, 1)
    fitted = TieBreakRegressor().fit(X, y)
    np.testing.assert_allclose([fitted.coef_[0], fitted.intercept_], truth, rtol=1e-9)
    assert TieBreakRegressor().fit(X, np.full(20, 1.7e308)).intercept_ == 1.7e308
