"""Losses whose minimisers, and the best of them, are known exactly, or to as many digits as wanted.

Huber: every row a_i comes with -a_i, and both have the same slope psi at x*, so that their forces
cancel: two residuals within delta that are equal, or two beyond it, equal or not. All numbers are
small multiples of powers of two: nothing is rounded. With B the rows within delta,

    X_g* = {x : B(x - x*) = 0, the others stay beyond delta},

and f = ½|x - c|² has its minimum there at x* if c = x* + B'lambda.

Multinomial: each row a_i of the matrix A comes c_ik times with the class k. Whatever A is, the loss
is smallest where the probabilities are c_ik over their sum C_i, if <a_i, w_k> can be log c_ik plus
something of i alone for all i and k: where the rows of A are independent. Then with s_ik = log c_ik
less its mean over k

    X_g* = {W : A(w_k - mean of all w) = s_k for all k},

and the projection of a center onto it is one of every column by itself.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import mpmath
import numpy as np


class Planted(NamedTuple):
    """The data of a problem, and its answer."""

    A: np.ndarray
    b: np.ndarray
    delta: float
    center: np.ndarray  # of f
    box: tuple[np.ndarray, np.ndarray]
    x: np.ndarray
    f: Fraction
    g: Fraction


def huber(seed: int, *, is_pushed: bool = False) -> Planted:
    """A problem on R^n, or with ``is_pushed`` one in the box, with x* on some of its sides."""
    rng = np.random.default_rng(seed)
    n, within, beyond = 6, 3, 3
    delta = float(rng.choice([0.5, 1.0, 2.0]))
    B, C = (rng.integers(-3, 4, (rows, n)).astype(float) for rows in (within, beyond))
    x = rng.integers(-3, 4, n).astype(float)
    small = np.repeat(rng.integers(-7, 8, (1, within)), 2, axis=0) / 8.0 * delta
    signs = rng.choice([-1.0, 1.0], beyond)
    large = signs * delta * (1.0 + rng.integers(1, 20, (2, beyond)) / 4.0)
    A = np.vstack([B, -B, C, -C])
    r = np.concatenate([small[0], small[1], large[0], large[1]])
    low, high = x - rng.integers(1, 5, n), x + rng.integers(1, 5, n)
    center = x + B.T @ rng.integers(-2, 3, within)
    if is_pushed:  # rows e_j that pull at x* with all their force, out of the box
        pushed = rng.choice(n, 2, replace=False)
        sign = rng.choice([-1.0, 1.0], 2)
        E = np.zeros((2, n))
        E[[0, 1], pushed] = 1.0
        A, r = np.vstack([A, E]), np.concatenate([r, -sign * 9.0 * delta])
        high[pushed[sign > 0]], low[pushed[sign < 0]] = x[pushed[sign > 0]], x[pushed[sign < 0]]
        center[pushed] += sign * rng.integers(0, 3, 2)
    b = A @ x - r
    f = sum((Fraction(c) - Fraction(t)) ** 2 for c, t in zip(center, x, strict=True)) / 2
    g = Fraction(0)
    for t in r:
        size, d = abs(Fraction(float(t))), Fraction(delta)
        g += size * size / 2 if size <= d else d * size - d * d / 2
    return Planted(A, b, delta, center, (low, high), x, f, g)


class PlantedClasses(NamedTuple):
    """The rows with their classes, all c_ik times, and the answer for f = ½|x - center|²."""

    A: np.ndarray
    y: np.ndarray
    center: np.ndarray
    x: list[Any]
    f: Any
    g: Any  # of the sum


def multinomial(seed: int, rows: int = 3, n: int = 5, classes: int = 3) -> PlantedClasses:
    """Small whole numbers, the answer to 40 digits."""
    rng = np.random.default_rng(seed)
    while True:
        A = rng.integers(-3, 4, (rows, n)).astype(float)
        if np.linalg.svd(A)[1][-1] > 0.5:
            break
    counts = rng.integers(1, 6, (rows, classes))
    center = rng.integers(-2, 3, (classes, n)).astype(float)
    places = [(i, k) for i in range(rows) for k in range(classes) for _ in range(counts[i, k])]
    which, y = np.array(places).T
    with mpmath.workdps(40):
        M = mpmath.matrix(A.tolist())
        logs = [[mpmath.log(int(c)) for c in row] for row in counts]
        means = [mpmath.fsum(row) / classes for row in logs]
        middle = [mpmath.fsum(column) / classes for column in center.T.tolist()]
        x, f = [], mpmath.mpf(0)
        for k in range(classes):
            goal = mpmath.matrix([logs[i][k] - means[i] for i in range(rows)])
            away = mpmath.matrix([center[k, j] - middle[j] for j in range(n)])
            step = M.T * mpmath.lu_solve(M * M.T, goal - M * away)
            x += [center[k, j] + step[j] for j in range(n)]
            f += mpmath.fsum(t * t for t in step) / 2
        g = -mpmath.fsum(
            int(c) * mpmath.log(mpmath.mpf(int(c)) / int(sum(row))) for row in counts for c in row
        )
    return PlantedClasses(A[which], y, center.reshape(-1), x, f, g)


def holds(interval: tuple[float, float], truth: Any) -> bool:
    """Is the exact number in a proved interval?"""
    low, high = interval
    return (low == -np.inf or Fraction(low) <= truth) and (
        high == np.inf or truth <= Fraction(high)
    )
