"""Planted problems with ties on a polyhedron, for bounds on f* from both sides.

As in ``planted``: x* and its active constraints first, then g and f around it, exactly. Of the
constraints that x* meets some press (a positive multiplier of g), and hold on all lower minimisers;
others are idle (f alone holds x* there). Then strict complementarity holds below, unless a flaw
is asked for:

- "idle": a variable on its bound that the losses of g hold there, with multiplier 0;
- "twice": some rows of g several times.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from planted import smooth as planted
from planted.smooth import Function, Matrix, Vector

DOMAINS = ["Box", "Orthant", "Simplex", "L1Ball"]
LOWERS = ["LeastSquares", "LeastSquares", "consistent", "Logistic"]
UPPERS = ["SquaredNorm", "LeastSquares", "Linear"]


@dataclass(frozen=True)
class Ties:
    """A problem, its answer, and what all lower minimisers share: rows @ x."""

    kind: str
    upper: Function
    lower: Function
    domain: Any  # builds it, of the library
    x_star: Vector
    rows: Matrix
    f_star: Fraction
    g_star: Fraction

    def build(self, tb: Any) -> Any:
        f, g = self.upper.build(tb), self.lower.build(tb)
        return tb.Problem(upper=f, lower=g, domain=self.domain(tb))


def ties(domain: str, seed: int, flaw: str = "") -> Ties:
    """Problem number ``seed`` on that domain."""
    rng = np.random.default_rng([20260714, DOMAINS.index(domain), seed])
    lower_kind, upper_kind = LOWERS[seed % 4], UPPERS[seed // 4 % 3]
    if (lower_kind, upper_kind) == ("Logistic", "Linear"):  # f would be 0 along the ray of x*
        lower_kind = "LeastSquares"
    n, m = int(rng.integers(10, 25)), int(rng.integers(2, 5))
    X = 2.0 ** int(rng.integers(-6, 7))
    # 0: inside, 1: idle, 2: presses. A linear f has a vertex as its only minimiser.
    inside = m + (domain in ("Simplex", "L1Ball")) + (0 if upper_kind == "Linear" else 2)
    state = np.array([0] * inside + list(rng.integers(1, 3, n - inside)))
    state[inside : inside + 2] = 1, 2
    if lower_kind != "LeastSquares":
        state[state == 2] = 1
    state = rng.permutation(state)
    is_tight = lower_kind == "LeastSquares" or rng.random() < 0.5  # of the l1 ball

    def size(count: int) -> Vector:
        return rng.integers(1, 8, count).astype(float)

    inner, zero = state == 0, np.zeros(n)
    sign = rng.choice([-1.0, 1.0], n)  # of the normal of Z at x*, where x* is on a bound
    x = np.where(inner, size(n), 0.0)
    x[np.flatnonzero(inner)[0]] = 1.0  # what logistic rows are divided by
    if domain == "Box":
        low, high = np.where(sign < 0, 0.0, -8.0), np.where(sign < 0, 8.0, 0.0)
        x = np.where(inner, x * sign * -1.0, 0.0)
        low[inner], high[inner] = x[inner] - size(int(inner.sum())), x[inner] + 8.0
        low, high = X * low, X * high
        press = np.where(state == 2, sign * size(n), 0.0)  # of -grad g at x*
        hold = np.where(state == 1, sign * size(n), 0.0) + np.where(state == 2, sign, 0.0)
        build = lambda tb: tb.Box(low, high)  # noqa: E731
    elif domain == "Orthant":
        press, hold = -np.where(state == 2, size(n), 0.0), -np.where(state == 1, size(n), 0.0)
        build = lambda tb: tb.Orthant()  # noqa: E731
    elif domain == "Simplex":
        total = float(X * x.sum())
        level = 0.0 if lower_kind != "LeastSquares" else float(rng.integers(-3, 4))
        press = level - np.where(state == 2, size(n), 0.0)
        hold = float(rng.integers(-3, 4)) - np.where(state == 1, size(n), 0.0)
        build = lambda tb: tb.Simplex(total)  # noqa: E731
    else:
        x *= sign
        radius = float(X * (np.abs(x).sum() + (0.0 if is_tight else 3.0)))
        # An idle variable may leave 0 in one direction without a change of g, and f stops it.
        tau = 4.0 if lower_kind == "LeastSquares" else 0.0
        press = np.where(state == 2, rng.integers(-3, 4, n), tau * sign)
        press = np.where(state == 2, press if tau else zero, press)
        top = float(rng.integers(1, 4)) if is_tight else 0.0
        hold = np.where(inner, top * sign, sign * (top - np.where(state == 1, size(n), 0.0)))
        if not tau and is_tight:
            hold = np.where(inner, top * sign, rng.integers(-int(top), int(top) + 1, n))
        if not tau and not is_tight:
            hold = zero
        build = lambda tb: tb.L1Ball(radius)  # noqa: E731
    x = X * x
    A = rng.integers(-3, 4, (m, n)).astype(float)
    A[:, np.flatnonzero(inner)[:m]] += 5 * np.eye(m)
    if flaw == "idle" and domain != "L1Ball":
        A = np.vstack([A, np.eye(n)[state == 1][:1]])
    lower, rows = _lower(lower_kind, rng, A, x, X, press, flaw == "twice")
    y = rng.integers(-2, 3, len(rows)).astype(float)
    upper = _upper(upper_kind, rng, x, X, -(rows.T @ y) - hold)
    _check(x, lower, upper, rows, y, press, hold)
    return Ties(
        f"{upper_kind} over {lower_kind} on {domain}",
        upper,
        lower,
        build,
        x,
        rows,
        upper.exact(x)[0],
        lower.exact(x)[0],
    )


def _lower(
    kind: str, rng: np.random.Generator, A: Matrix, x: Vector, X: float, press: Vector, twice: bool
) -> tuple[Function, Matrix]:
    """g with gradient -(a positive multiple of press) at x*; its last row sees to that."""
    if twice:
        A = np.vstack([A, A[:1], A[:1]])
    if kind == "Logistic":  # margins 0 at x*, every row with both labels, so that press = 0
        at = int(np.flatnonzero(np.abs(x) == X)[0])
        A[:, at] = 0.0
        A[:, at] = -(A @ x) / x[at]
        B = np.vstack([A, A])
        labels = np.append(np.ones(len(A)), -np.ones(len(A)))
        return Function([(1.0, planted.logistic(B, 1.0 / X, labels, mean=False))]), A
    r = rng.integers(-2, 3, len(A)).astype(float)
    if kind == "consistent":
        return Function([(1.0, planted.least_squares(A, 1.0, A @ x, 1.0, mean=False))]), A
    A, r = np.vstack([A, -press - r @ A]), np.append(r, 1.0)
    return Function([(1.0, planted.least_squares(A, 1.0, A @ x - X * r, 1.0, mean=False))]), A


def _upper(kind: str, rng: np.random.Generator, x: Vector, X: float, slope: Vector) -> Function:
    """f with the gradient ``slope`` at x*, up to a positive factor."""
    n = len(x)
    if kind == "Linear":
        return Function([(1.0, planted.linear(slope))])
    if kind == "SquaredNorm":
        return Function([(1.0, planted.squared_norm(1.0, x - X * slope))])
    F = rng.integers(-2, 3, (n, n)) + 6.0 * np.eye(n)
    F, r = np.vstack([F, slope]), np.append(np.zeros(n), 1.0)
    return Function([(1.0, planted.least_squares(F, 1.0, F @ x - X * r, 1.0, mean=False))])


def _check(
    x: Vector,
    lower: Function,
    upper: Function,
    rows: Matrix,
    y: Vector,
    press: Vector,
    hold: Vector,
) -> None:
    """In rational arithmetic: both gradients at x* are positive multiples of what was planted."""
    for h, wanted in ((lower, -press), (upper, -(rows.T @ y) - hold)):
        gradient, planned = h.exact(x)[1], planted.fractions(wanted)
        factor = next((g / w for g, w in zip(gradient, planned, strict=True) if w), Fraction(1))
        assert factor > 0
        assert gradient == [factor * w for w in planned]
