"""Answers of Exact next to those of a conic solver."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tiebreak.exact.method import Exact

CVXPY_WORDS = "ignore:.*(Converting|Solution may be inaccurate).*"


def solved(problem, x0=None):
    """The state after Exact's only step."""
    method = Exact()
    assert method.check(problem) is None
    start = problem.start(x0)
    return method.step(problem, method.init(problem, start))


def wrong_intervals(claims, f_star: Fraction, g_star: Fraction) -> bool:
    """Is one of the claimed bounds on the wrong side?"""
    (low, high), lower = claims.upper, claims.lower
    return (
        (math.isfinite(low) and Fraction(low) > f_star)
        or (math.isfinite(high) and Fraction(high) < f_star)
        or (math.isfinite(lower) and Fraction(lower) > g_star)
    )


def hilbert(n):
    i = np.arange(n)
    return 1.0 / (i[:, None] + i[None] + 1.0)
