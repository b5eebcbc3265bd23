"""Bounds from a dual point, if g is least squares and f a penalty of D x - c.

Let f(x) = p(D x - c) with <u, r> <= p(r) for all r, and let y be any weights on the rows of g = ½|A
x - t|². Put e = A'y - D'u. Every minimiser x* of g with the least f satisfies

    f* >= <u, D x* - c>  >=  <u, D x - c> - |y| |A (x* - x)| - <e, x* - x>,

    |A (x* - x)|  <=  min(2 |A x - t|, sqrt(2 |A'(A x - t)| |x* - x|)),

The last inequality holds because |A x* - t| <= |A x - t| and g(x*) <= g(x), up to the distance of x
from Z. This bound does not need the rank of A. A bound on the distance to x* follows from Z, or
from the least singular value of [A; D]: if f* <= f(x), then |D (x* - x)| <= 2 f(x)/w, where w is
the least positive slope of p. f* is bounded from above if an exact minimiser of g is close to x; we
know this if the rows or the columns of A are independent and the domain is R^n. The bounds account
for all rounding errors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiebreak.functions import OperatorTerms
from tiebreak.linalg import EPS, Host, rounding_unit
from tiebreak.linalg.host import norm, power_of_two
from tiebreak.linalg.least_eigenvalue import least_eigenvalue
from tiebreak.linalg.spectra import norm_bound
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import WITHIN, Intervals

NO_RANK = (
    "neither the rows nor the columns of the lower level's matrix are proved to be independent, so "
    "no exact minimiser of g is known near x and nothing bounds f* from above"
)
ON_A_SET = "no exact minimiser of g is known in the domain, so nothing bounds f* from above"


class Balance:
    """The residuals of a point x and a dual point (y, u), as defined at the top of this module."""

    def __init__(
        self, problem: Problem, terms: OperatorTerms, A: Any, t: Host, at: tuple[Host, Host, Host]
    ) -> None:
        x, y, u = at
        D = terms.matrix(len(x)).on_host()
        # Relative rounding errors: one for products with A and D, whose rows may have few entries,
        # and one for sums over whole vectors.
        unit, long = rounding_unit(EPS, *_longest(A), *_longest(D)), rounding_unit(EPS, *D.shape)
        self.unit = long = max(long, rounding_unit(EPS, *A.shape))
        u, center = (1.0 - 2.0**-48) * terms.dual(u), np.zeros(D.shape[0])  # inside the dual ball
        center = center if terms.center is None else terms.center
        r, off = A @ x - t, D @ x - center
        r_size, off_size = abs(A) @ np.abs(x) + np.abs(t), abs(D) @ np.abs(x) + np.abs(center)
        slopes = terms.slopes(D.shape[0] // terms.stacks)
        self.problem, self.terms, self.A, self.D, self.x = problem, terms, A, D, x
        self.slopes = np.tile(np.minimum(*slopes), terms.stacks)
        self.e: Host = A.T @ y - D.T @ u
        self.e_error: Host = unit * (abs(A).T @ np.abs(y) + abs(D).T @ np.abs(u))
        self.y: float = norm(y) * (1.0 + long)
        error = unit * norm(r_size) * (1.0 + long)
        # A lower bound on g.
        self.g: float = 0.5 * max(norm(r) * (1.0 - long) - error, 0.0) ** 2 * (1.0 - long)
        self.off: float = norm(r) * (1.0 + long) + error  # an upper bound on |A x - t|
        self.slope: float = norm(np.abs(A.T @ r) + unit * (abs(A).T @ r_size)) * (1.0 + long)
        # A lower bound on <u, D x - c>.
        self.gain: float = float(u @ off) - float(
            np.abs(u) @ (long * np.abs(off) + unit * off_size)
        )
        weights, value = np.tile(np.maximum(*slopes), terms.stacks), terms.value(x)
        error = float(weights @ (long * np.abs(off) + unit * off_size)) * (1.0 + long)
        self.f: tuple[float, float] = value - error, value + error
        self.outside: float = problem.domain.distance_bound(x)  # the distance of x from Z

    def below(self, away: float) -> float:
        """A lower bound on f* if f* <= f(x) and |x* - x| <= ``away``."""
        across = min(2.0 * self.off, math.sqrt(2.0 * self.slope) * math.sqrt(away + self.outside))
        across += norm_bound(self.A) * self.outside
        cost = min(norm(np.abs(self.e) + self.e_error) * away, self._pull(away))
        return self.gain - (self.y * across + cost) * (1.0 + self.unit)

    def _pull(self, away: float) -> float:
        """The largest <e, z - x> for z in Z; small if e is normal to Z at x."""
        domain = self.problem.domain
        if not domain.has_projection:
            return math.inf
        most = domain.support(self.e) - float(self.e @ self.x)
        sizes = float(np.abs(self.e) @ np.abs(self.x)) + abs(most)
        return max(most, 0.0) + self.unit * sizes + norm(self.e_error) * away

    def distance(self) -> float:
        """A bound on the distance from x to every x*, if f* <= f(x); inf if no bound is known."""
        within = self.problem.domain.diameter_in(len(self.x))
        if math.isfinite(within):
            return within + self.outside
        D = self.D[self.slopes > 0.0]
        least = float(np.min(self.slopes, where=self.slopes > 0.0, initial=math.inf))
        of_D, of_A = power_of_two(np.array([norm_bound(D), norm_bound(self.A)]), 1.0)
        scale = float(of_D / of_A)
        square = least_eigenvalue(_stacked(scale * self.A, D))
        across = 2.0 * self.off + norm_bound(self.A) * self.outside
        moved = math.hypot(scale * across, 2.0 * self.f[1] / least)
        return moved / math.sqrt(square) * (1.0 + self.unit) if square > 0.0 else math.inf

    def nearest(self) -> tuple[float, float]:
        """Bounds (or inf) on the distance from x to a minimiser of g on R^n, and on g(x) - g*."""
        rows, n = self.A.shape
        if rows <= n:
            root = math.sqrt(least_eigenvalue(self.A.T))
            return (self.off / root if root else math.inf), 0.5 * self.off * self.off
        square = least_eigenvalue(self.A)
        apart = self.slope / square if square else math.inf
        return apart, 0.5 * self.slope * apart


def prove(
    problem: Problem, terms: OperatorTerms, A: Any, t: Host, at: tuple[Host, Host, Host]
) -> Intervals:
    """Intervals for f* and g* from x, y and u, if g = ½|A x - t|² and f = terms: see `Balance`.

    A may be sparse or dense. Scaling by row weights may have rounded the entries of A and t, but by
    less than the rounding errors that we include for products with A and t.
    """
    found = Balance(problem, terms, A, t, at)
    away = found.distance()
    low = min(found.below(away), found.f[0]) if math.isfinite(away) else 0.0
    if not problem.domain.is_space:
        reach = problem.domain.diameter_in(len(found.x)) + found.outside
        least = found.g - found.slope * reach if math.isfinite(reach) else 0.0
        return Intervals((max(low, 0.0), math.inf), max(least, 0.0), ON_A_SET)
    apart, excess = found.nearest()
    if not math.isfinite(apart):
        return Intervals((max(low, 0.0), math.inf), 0.0, NO_RANK)
    change = terms.steepness(len(found.x), apart) * apart * (1.0 + found.unit)
    if A.shape[0] > A.shape[1]:  # with more rows than columns, g has only one minimiser
        low = max(low, found.f[0] - change)
    ends, rests = (max(low, 0.0), found.f[1] + change), WITHIN.format(apart)
    return Intervals(ends, max(found.g - excess, 0.0), has_minimiser=True, rests=rests)


def _longest(matrix: Any) -> tuple[int, int]:
    """The largest number of entries in a row, and in a column."""
    if isinstance(matrix, np.ndarray):
        return matrix.shape[1], matrix.shape[0]
    in_columns = np.bincount(matrix.indices, minlength=1)
    return int(np.max(np.diff(matrix.indptr), initial=0)), int(np.max(in_columns))


def _stacked(A: Any, D: Any) -> Any:
    from scipy.sparse import csr_array, vstack

    if isinstance(A, np.ndarray):
        return np.vstack([A, D.toarray()])
    return csr_array(vstack([A, D]))
