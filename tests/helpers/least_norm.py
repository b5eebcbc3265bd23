"""Least-norm fits by null spaces and Newton's method: slow, plain, and nothing of tiebreak."""

from __future__ import annotations

import numpy as np
import scipy.linalg


def null_space(A):
    """Columns that span {v : A v = 0}."""
    return scipy.linalg.null_space(A, rcond=1e-10) if A.shape[1] else np.zeros((0, 0))


def derivatives(loss, t, y):
    """First and second derivatives of the loss of each row at its linear predictor t."""
    if loss == "squared":
        return t - y, np.ones_like(t)
    if loss == "poisson":
        return np.exp(t) - y, np.exp(t)
    p = 1.0 / (1.0 + np.exp(-t))  # logistic, y in {0, 1}
    return p - y, p * (1.0 - p)


def one_fit(loss, A, y, w):
    """Some minimiser of sum w_i loss_i: Newton's method in the row space, with a line search."""
    V = scipy.linalg.orth(A.T, rcond=1e-10)
    B, u = A @ V, np.zeros(V.shape[1])

    def slope(u):
        return B.T @ (w * derivatives(loss, B @ u, y)[0])

    for _ in range(200):
        first, second = derivatives(loss, B @ u, y)
        d = -np.linalg.solve(B.T @ ((w * second)[:, None] * B), B.T @ (w * first))
        step = 1.0
        while step > 1e-10 and np.linalg.norm(slope(u + step * d)) > np.linalg.norm(slope(u)):
            step /= 2.0
        u = u + step * d
        if np.linalg.norm(d) <= 1e-14 * (1.0 + np.linalg.norm(u)):
            break
    return V @ u


def least_norm(loss, X, y, w=None, intercept=True, center=None):
    """(coef, intercept) of the least |coef - center| among all minimisers of the loss."""
    w = np.ones(len(X)) if w is None else w
    X, y, w = X[w > 0], y[w > 0], w[w > 0]
    A = np.hstack([X, np.ones((len(X), 1))]) if intercept else X
    x, N, n = one_fit(loss, A, y, w), null_space(A), X.shape[1]
    center = np.zeros(n) if center is None else center
    if N.shape[1]:
        x = x - N @ np.linalg.lstsq(N[:n], x[:n] - center, rcond=1e-10)[0]
    return x[:n], float(x[n]) if intercept else 0.0


def wide(rng, rows, n):
    """More features than samples."""
    return rng.normal(size=(rows, n))


def one_hot(rng, rows, sizes):
    """Indicators of categories, every one of which occurs."""
    codes = [np.concatenate([np.arange(k), rng.integers(0, k, rows - k)]) for k in sizes]
    return np.hstack([np.eye(k)[rng.permutation(c)] for k, c in zip(sizes, codes, strict=True)])
