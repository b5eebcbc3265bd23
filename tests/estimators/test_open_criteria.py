"""What the criterion leaves open: the least coefficients, and words that say so; against CVXPY."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import least_norm as slow_fits

from tiebreak.sklearn import InterpolatedWarning, TieBreakClassifier, TieBreakRegressor

cp = pytest.importorskip("cvxpy", reason="the independent truth")

LOSSES = ("squared", "logistic", "poisson")
PREFER = ("norm", "reference", "validation", "sparse", "fair", "smooth")
FLAT = "the criterion is the same for all best fits"
INTERPOLATED = "the criterion is interpolated"


class Design:
    """One-hot columns, perhaps with a number beside them, and rows to choose by."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.loss = LOSSES[seed % 3]
        sizes = rng.integers(2, 5, size=int(rng.integers(1, 4)))
        both = slow_fits.one_hot(rng, 320, sizes)
        if rng.random() < 0.5:
            both = np.hstack([both, rng.normal(size=(320, 1))])
        self.X, self.V = both[:200], both[200:].copy()
        if rng.random() < 0.5:  # categories that training has not seen: no column is 1
            self.V[rng.random(120) < 0.4, : sizes[0]] = 0.0
        t = [0.4 * M @ rng.normal(size=both.shape[1]) for M in (self.X, self.V)]
        self.y, self.w = (self._targets(rng, some) for some in t)
        self.group = (rng.random(120) + 0.3 * self.V[:, 0] > 0.5).astype(float)
        self.center = rng.normal(size=both.shape[1])

    def _targets(self, rng, t):
        if self.loss == "logistic":
            return (t + rng.logistic(size=len(t)) > 0.0).astype(float)
        return (
            rng.poisson(np.exp(t)) + 1.0 if self.loss == "poisson" else t + rng.normal(size=len(t))
        )

    def fitted(self, prefer):
        reference = self.center if prefer == "reference" else None
        if self.loss == "logistic":
            model = TieBreakClassifier(prefer, reference=reference)
        else:
            model = TieBreakRegressor(prefer, loss=self.loss, reference=reference)
        more = {"y_val": self.w, "sensitive_features": self.group}
        return model.fit(self.X, self.y, X_val=self.V, **more)

    def seen(self, prefer):
        """Rows whose products with (coef, intercept) the criterion is a function of."""
        n = self.X.shape[1]
        ones = np.hstack([self.V, np.ones((len(self.V), 1))])
        fair = (self.group - np.mean(self.group)) @ self.V / len(self.V)
        return {
            "validation": ones,
            "fair": np.append(fair, 0.0)[None],
            "smooth": np.hstack([np.diff(np.eye(n), axis=0), np.zeros((n - 1, 1))]),
        }.get(prefer, np.eye(n, n + 1))

    def criterion(self, prefer, image):
        """What is preferred as a function of that image, for CVXPY."""
        if prefer == "sparse":
            return cp.norm1(image)
        if prefer == "reference":
            return cp.sum_squares(image - self.center)
        if prefer != "validation":
            return cp.sum_squares(image)
        if self.loss == "logistic":
            return cp.sum(cp.logistic(cp.multiply(1.0 - 2.0 * self.w, image))) / len(self.w)
        if self.loss == "poisson":
            return cp.sum(cp.exp(image) - cp.multiply(self.w, image)) / len(self.w)
        return cp.sum_squares(image - self.w) / len(self.w)

    def truth(self, prefer):
        """The least coefficients of argmin f over the best fits; is f flat there?"""
        A, n = np.hstack([self.X, np.ones((200, 1))]), self.X.shape[1]
        best = slow_fits.one_fit(self.loss, A, self.y, np.ones(200))
        N, F = slow_fits.null_space(A), self.seen(prefer)
        v = cp.Variable(N.shape[1])
        x, held = best + N @ v, []
        if np.linalg.norm(F @ N) > 1e-9:
            image = F @ best + (F @ N) @ v
            least = _least(self.criterion(prefer, image))
            if prefer == "sparse":
                held = [cp.norm1(x[:n]) <= least * (1.0 + 1e-9)]
            else:
                _, sigma, vt = np.linalg.svd(F @ N)
                rows = vt[: np.count_nonzero(sigma > 1e-9)]
                held = [rows @ v == rows @ v.value]
        _least(cp.sum_squares(x[:n]), held)
        return (best + N @ v.value)[:n], not held


def _least(objective, constraints=()):
    problem = cp.Problem(cp.Minimize(objective), list(constraints))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it comes no closer than these
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


@pytest.mark.parametrize("prefer", PREFER)
def test_one_hot_columns_have_the_least_coefficients_that_the_criterion_allows(prefer, count):
    for seed in range(count(6, 100)):
        design = Design(seed)
        found = design.fitted(prefer)
        coef, is_flat = design.truth(prefer)
        got = np.ravel(found.coef_)
        assert np.linalg.norm(got) <= 1.001 * np.linalg.norm(coef) + 1e-7, (seed, got, coef)
        scores, best = design.X @ got, design.X @ coef
        np.testing.assert_allclose(scores - scores.mean(), best - best.mean(), atol=1e-5)
        assert (FLAT in found.report_) == is_flat, (seed, found.report_)
        assert INTERPOLATED not in found.report_


@pytest.mark.parametrize("rows", [3, 30])
def test_an_interpolated_criterion_is_named(rows):
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(20, 50)), rng.normal(size=(rows, 50))
    y, w = rng.normal(size=20), rng.normal(size=rows)  # 30 ties beside the intercept
    with pytest.warns(InterpolatedWarning, match=r"^TieBreakRegressor: the criterion is interpola"):
        model = TieBreakRegressor("validation").fit(X, y, X_val=V, y_val=w)
    np.testing.assert_allclose(model.predict(V), w, atol=1e-8)
    assert INTERPOLATED in model.report_
    enough = rng.normal(size=(40, 50)), rng.normal(size=40)
    model = TieBreakRegressor("validation").fit(X, y, X_val=enough[0], y_val=enough[1])
    assert INTERPOLATED not in model.report_


def test_what_zero_coefficients_reach_too_is_not_called_interpolated():
    rng = np.random.default_rng(0)
    X, y, V = rng.normal(size=(10, 12)), rng.normal(size=10), rng.normal(size=(30, 12))
    model = TieBreakRegressor("fair").fit(X, y, X_val=V, sensitive_features=np.arange(30) % 2)
    assert INTERPOLATED not in model.report_
