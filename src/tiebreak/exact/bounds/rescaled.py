"""Bounds from the same problem in other units of its variables, x = units u, and of its rows.

Units are powers of two, so that no number is rounded; f*, g* and all values are the same. Rounding
errors of products are bounded by sizes of vectors and matrices: these are smallest in units in
which columns are alike.
"""

from __future__ import annotations

import math

import numpy as np

from tiebreak.exact.bounds.equations import Equations
from tiebreak.exact.bounds.intervals import prove, prove_within
from tiebreak.exact.scaled_problem import UNITLESS, ScaledProblem
from tiebreak.functions.base import Flat, Function, Linear, SmoothFunction, SquaredNorm
from tiebreak.functions.losses import LeastSquares, Logistic, Quadratic
from tiebreak.functions.parts import Host, Rank, decide_rank, host, parts_of, structure
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import Intervals
from tiebreak.sets.domains import Box, Domain, Halfspace, Space


def prove_rescaled(
    scaled: ScaledProblem, problem: Problem, x: Host, rank: Rank, normal: Host
) -> Intervals:
    """What `prove` proves where columns are alike, and rows too if they can nearly be met."""
    intervals, units, factors = Intervals(), scaled.units, scaled.row_factors
    has_other_rows = bool(np.any(factors != 1.0))
    if not isinstance(problem.domain, UNITLESS) or not (scaled.is_rescaled or has_other_rows):
        return intervals
    twin, u, normal = stretched(problem, units), x / units, units * normal
    if scaled.is_rescaled:
        intervals = prove(twin, u, scaled.rank_in_u(rank), normal)
    equations = Equations.of(twin, factors) if has_other_rows else None
    if equations is None:
        return intervals
    if equations.can_be_met(u):
        twin = equations.alike()
        rank = decide_rank(structure("Exact", "lower", twin.lower, len(u)).rows())
        more = prove(twin, u, rank, normal)._replace(lower=-math.inf)  # g has other values
    else:
        more = prove_within(twin, u, equations.distance(u))
    return intervals.both(more)


def stretched(problem: Problem, units: Host) -> Problem:
    """The problem of u, in NumPy float64: of LeastSquares, Logistic, Quadratic, ... on Z = Space,
    Box or Halfspace."""
    return Problem(
        upper=_function(problem.upper, units),
        lower=_function(problem.lower, units),
        domain=_domain(problem.domain, units),
    )


def _function(h: Function, units: Host) -> SmoothFunction:
    parts = [(weight, _part(part, units)) for weight, part in parts_of(h.bare)]
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
