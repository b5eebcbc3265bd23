"""Fit further targets with one factorisation, if the columns of the data are independent.

The loss g(x) = c/2 |A x - y|² then has a single minimiser x*. With s the slope of g at x, and
sigma > 0 at most the least singular value of A,

    |x - x*| <= |s|/(c sigma²),    g(x) - g* <= |s|²/(2 c sigma²),

and f* differs from f(x) by at most the change of f within that distance. The bounds are proved for
each target on its own. The columns are first scaled to similar norms.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import tiebreak as tb
from tiebreak.exact.bounds.intervals import prove_within
from tiebreak.exact.reductions.reduction import squares_of
from tiebreak.linalg import DENSE_LIMIT, EPS, TINY, Host, rounding_unit
from tiebreak.linalg.arrays import SAFE
from tiebreak.linalg.host import power_of_two
from tiebreak.linalg.least_eigenvalue import least_eigenvalue
from tiebreak.proofs.gate import ANSWER, Ended, ResultClaim, claims_of, judge


def solve_others(first: tb.Result, Y: Host, rtol: float) -> list[tb.Result]:
    """Return the results for all columns of Y except the first, whose result is given.

    The preference must be the same for all columns. A result is "certified" unless the bounds were
    too weak for a proof. The list is empty if the columns of the data are not known to be
    independent, or if the lower level is not just a squared loss with the target Y[:, 0].
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    problem, squares = first.problem, squares_of(first.problem.lower)
    is_free = problem.domain.is_space and not problem.penalties[1].terms.has_weights
    if not (first.proved and first.dimension == 0 and is_free and len(squares) == 1):
        return []
    rows, target, weights, c = squares[0]
    if target is None or not np.array_equal(target, Y[:, 0]) or rows.size > DENSE_LIMIT:
        return []
    roots = np.ones((len(Y), 1)) if weights is None else np.sqrt(weights)[:, None]
    A, Y = roots * rows.dense(), roots * Y[:, 1:]
    units = power_of_two(np.sum(A * A, axis=0), -0.5)
    A = A * units
    square = least_eigenvalue(A)
    try:
        factor = cho_factor(A.T @ A)
    except LinAlgError:
        return []
    U = cho_solve(factor, A.T @ Y)
    for _ in range(2):  # two steps of iterative refinement
        U += cho_solve(factor, A.T @ (Y - A @ U))
    R = A @ U - Y
    lengths, unit = np.linalg.norm(R, axis=0), 2.0 * rounding_unit(EPS, *A.shape)
    size = np.linalg.norm(A)
    off = unit * (size * np.linalg.norm(U, axis=0) + np.linalg.norm(Y, axis=0))  # error of R
    slopes = (1.0 + unit) * np.linalg.norm(A.T @ R, axis=0) + size * (off + unit * lengths) + TINY
    away = slopes / square * SAFE if square > 0.0 else np.full(len(slopes), np.inf)
    errors = c * (off * (lengths + off) + unit * lengths * lengths) + TINY
    gaps = 0.5 * c * slopes * away * SAFE + errors
    values, origin = 0.5 * c * lengths**2, 0.5 * c * np.sum(Y * Y, axis=0)
    numbers = np.stack([np.max(units) * away, values, errors, gaps, origin], axis=1).tolist()
    start = problem.upper.value(np.zeros(len(units)))
    return [
        _judged(first, units * u, rtol, start, *each) for u, each in zip(U.T, numbers, strict=True)
    ]


def _judged(
    first: tb.Result,
    x: Host,
    rtol: float,
    upper_start: float,
    away: float,
    value: float,
    error: float,
    gap: float,
    lower_start: float,
) -> tb.Result:
    """Return the result for a point x at a distance of at most ``away`` from the only minimiser.

    ``value`` is g(x) up to ``error``, and ``gap`` bounds g(x) - g*.
    """
    proved = prove_within(first.problem, x, away)
    f, (low, high) = first.problem.upper.value(x), proved.upper
    change = max(high - f, f - low)
    proof = tb.Certificate(
        upper_value=f,
        lower_value=value,
        upper_gap=change,
        lower_gap=gap,
        upper_error=change,
        upper_optimum=proved.upper,
        lower_optimum=(value - gap, value + error),
        distance=0.0,
        upper_estimate=change,
        rests=proved.rests,
    )
    starts = upper_start, lower_start
    asked = rtol * max(abs(f), abs(upper_start)), rtol * max(value, lower_start)
    claim = ResultClaim(first.problem, x, Ended(ANSWER), claims_of(proof, asked))
    status, reason = judge(claim)
    return replace(
        first,
        x=x,
        certificate=proof,
        tolerance=asked,
        start_values=starts,
        status=status,
        reason=reason,
    )
