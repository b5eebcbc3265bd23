"""A plot of the preference and of the training loss along a line of equally good fits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import tiebreak as tb
from tiebreak.functions import Function, PointWithImage, matrices_of
from tiebreak.linalg import DENSE_LIMIT, EPS, Dense, Host, Matrix, mix
from tiebreak.linalg.host import norm
from tiebreak.linalg.row_gram import column_gram, row_gram

CURVE_POINTS = 21  # points on the line, enough for a smooth curve


class ChoiceCurve(NamedTuple):
    """Both levels along x + t d: g is constant along d, |d| = |x|, and t = 0 is the chosen fit."""

    steps: Host
    upper: Host
    lower: Host
    without: float  # the value of the lower level at zero coefficients

    def draw(self, axes: Any, preferred: str, title: str) -> None:
        """Draw both levels; the axis of the loss extends to the loss of zero coefficients."""
        axes.plot(self.steps, self.upper, color="C0", label=f"{preferred} (left)")
        axes.plot(0.0, self.upper[CURVE_POINTS // 2], "o", color="C0", label="the choice")
        axes.set_xlabel("distance from the choice, relative to the norm of the coefficients")
        axes.set_ylabel(preferred)
        other = axes.twinx()
        other.plot(self.steps, self.lower, "--", color="C1", label="training loss (right)")
        top = max(self.without, float(np.nanmax(self.lower)))
        top = top if top > 0.0 else 1.0
        other.set_ylim(-0.05 * top, 1.05 * top)  # a loss of 0 stays visible
        other.set_ylabel("training loss (top: zero coefficients)")
        lines = [line for one in (axes, other) for line in one.get_lines()]
        axes.legend(lines, [str(line.get_label()) for line in lines], loc="upper center")
        axes.set_title(title)


def choice_curve(problem: tb.Problem, x: Host, ties: int | None) -> ChoiceCurve | None:
    """Return the curve along a null-space direction of the training rows, or None without one."""
    found = list(matrices_of(problem.smooth_parts[1]))
    if not ties or len(found) != 1 or not found[0].is_explicit or found[0].size > DENSE_LIMIT:
        return None
    is_penalised = problem.penalties[1].terms.has_weights
    # With a penalty, moving a zero coefficient would raise the penalty.
    moves = np.flatnonzero(x) if is_penalised else np.arange(len(x))
    d = np.zeros_like(x)
    unseen = _unseen(found[0] if not is_penalised else Dense(found[0].dense()[:, moves]), x[moves])
    if unseen is None:
        return None
    d[moves] = unseen
    steps = np.linspace(-1.0, 1.0, CURVE_POINTS)
    upper, lower = (_along(h, x, d, steps) for h in (problem.upper, problem.lower))
    if not all(problem.domain.contains(x + end) for end in (d, -d)):
        outside = [not problem.domain.contains(x + t * d) for t in steps]
        upper[outside] = lower[outside] = np.nan  # these points lie outside the domain
    return ChoiceCurve(steps, upper, lower, problem.lower.value(np.zeros_like(x)))


def _along(h: Function, x: Host, d: Host, steps: Host) -> Host:
    """Return h(x + t d) for all t in ``steps``, with two matrix-vector products."""
    first, second = h.forward(x, x + d)
    points = [PointWithImage(x + t * d, mix(first, second, t)) for t in steps]
    return np.array(h.evaluate([], points)[1])


def _unseen(matrix: Matrix, x: Host) -> Host | None:
    """Return a null-space vector of the matrix with the norm of x; None if there is none.

    The vector is parallel to the null-space component of x, which points away from the smallest of
    all equally good fits. If that component is 0, the direction is random.
    """
    A = matrix.dense()
    rows, n = A.shape
    if rows <= n:
        gram = row_gram(matrix)
        rank = int(np.count_nonzero(gram.values > n * EPS * np.max(gram.values, initial=0.0)))

        def unseen(v: Host) -> Host:
            seen = np.ldexp(gram.solve(np.ldexp(A @ v, -gram.exponent), rank), -gram.exponent)
            return np.asarray(v - A.T @ seen)
    else:
        values, vectors = np.linalg.eigh(column_gram(matrix))
        N = vectors[:, values <= n * EPS * values[-1] * 1e3]

        def unseen(v: Host) -> Host:
            return np.asarray(N @ (N.T @ v))

    size = norm(x) or 1.0
    for v in (x / size, np.random.default_rng(0).standard_normal(n) / np.sqrt(n)):
        d = unseen(v)
        if norm(d) > 1e-6:
            return size * d / norm(d)
    return None
