"""One-hot designs, of which every criterion leaves something open, with the truth by CVXPY."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
from helpers import least_norm as slow_fits

from tiebreak.sklearn import TieBreakClassifier, TieBreakRegressor

LOSSES = ("squared", "logistic", "poisson")
PREFER = ("norm", "reference", "validation", "sparse", "fair", "smooth")


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
