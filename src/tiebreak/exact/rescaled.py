"""The same problem in other units of its variables, x = units u: what is proved there holds here.

Units are powers of two, so that no number is rounded; f*, g* and all values are the same. Rounding
errors of products are bounded by sizes of vectors and matrices: these are smallest in units in
which columns are alike.
"""

from __future__ import annotations

import numpy as np

from tiebreak.functions.base import Function, SmoothFunction
from tiebreak.functions.elementary import Flat, Linear, Quadratic, SquaredNorm
from tiebreak.functions.losses import LeastSquares, Logistic
from tiebreak.functions.sums import summands
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import host
from tiebreak.problem import Problem
from tiebreak.sets.boxes import Box
from tiebreak.sets.domains import Domain, Halfspace, Space


def stretched(problem: Problem, units: Host) -> Problem:
    """The problem of u, in NumPy float64: of LeastSquares, Logistic, Quadratic, ... on Z = Space,
    Box or Halfspace."""
    return Problem(
        upper=_function(problem.upper, units),
        lower=_function(problem.lower, units),
        domain=_domain(problem.domain, units),
    )


def _function(h: Function, units: Host) -> SmoothFunction:
    parts = [(weight, _part(part, units)) for weight, part in summands(h.bare)]
    total, *more = [part if weight == 1.0 else weight * part for weight, part in parts]
    for part in more:
        total = total + part
    return total


def _part(h: Function, units: Host) -> SmoothFunction:
    n = len(units)
    if isinstance(h, LeastSquares):
        return LeastSquares(h.matrix.dense() * units, host(h.b), h.mean, gram=False)
    if isinstance(h, Logistic):
        return Logistic(h.matrix.dense() * units, host(h.y), h.mean)
    if isinstance(h, SquaredNorm):
        center = np.zeros(n) if h.center is None else host(h.center)
        return h.weight * LeastSquares(np.diag(units), center, gram=False)
    if isinstance(h, Quadratic):
        return Quadratic(units[:, None] * h.matrix.dense() * units, host(h.c) * units, h.constant)
    if isinstance(h, Linear):
        return Linear(host(h.c) * units)
    assert isinstance(h, Flat)
    return h


def _domain(Z: Domain, units: Host) -> Domain:
    if isinstance(Z, Box):
        return Box(host(Z.lower) / units, host(Z.upper) / units)
    if isinstance(Z, Halfspace):
        return Halfspace(host(Z.normal) * units, Z.offset)
    assert isinstance(Z, Space)
    return Z
