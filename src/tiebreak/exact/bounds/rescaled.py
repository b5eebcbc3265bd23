"""Bounds proved after rescaling the variables of the problem, x = units u, and its rows.

Units are powers of two, so no number is rounded; f*, g* and all values stay the same. Bounds on the
rounding errors of products are multiples of the norms of vectors and matrices; these bounds are
smallest if the columns have similar norms. If the equations can be satisfied, or nearly so, their
weights hardly matter, as `WeightedEquations` explains.
"""

from __future__ import annotations

import math

import numpy as np

from tiebreak.exact.bounds.intervals import prove, prove_within
from tiebreak.exact.reductions.reduction import squares_of
from tiebreak.exact.scaled_problem import ScaledProblem
from tiebreak.functions import LeastSquares, Squares, Substitution
from tiebreak.linalg import EPS, SAFE, TINY, Host, deadline, rounding_unit
from tiebreak.linalg.host import host, norm
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import Intervals


def prove_rescaled(
    scaled: ScaledProblem, problem: Problem, x: Host, normal: Host, values: tuple[float, float]
) -> Intervals:
    """Run `prove` with columns scaled to similar sizes, and rows too if the equations nearly hold.

    ``values``: f(x) and g(x). If the intervals are already sharp for these values, the rows are not
    scaled.
    """
    intervals, units, factors = Intervals(), scaled.units, scaled.row_factors
    has_other_rows = bool(np.any(factors != 1.0))
    if not (scaled.is_rescaled or has_other_rows):
        return intervals
    try:
        twin, u, normal = stretched(problem, units), x / units, units * normal
    except ValueError:  # weights leave the range of float64
        return intervals
    if twin is None:
        return intervals
    if scaled.is_rescaled:
        intervals = prove(twin, u, normal).rescaled(units)
    if not has_other_rows or intervals.are_sharp(*values):
        return intervals
    equations = WeightedEquations.of(twin, factors)
    if equations is None:
        return intervals
    if equations.can_be_met(u):
        twin = equations.alike()
        more = prove(twin, u, normal)._replace(lower=-math.inf)  # the twin's g has different values
    else:
        more = prove_within(twin, u, equations.distance(u))
    return intervals.both(more.rescaled(units))


def stretched(problem: Problem, units: Host) -> Problem | None:
    """Return the problem in u = x/units, in NumPy float64, or None if Z couples the variables."""
    domain, n = problem.domain.in_units(units), len(units)
    if domain is None:
        return None
    variables = Substitution(np.arange(n), n, units)
    upper, lower = (variables.function(h)[0] for h in (problem.upper, problem.lower))
    return Problem(upper=upper, lower=lower, domain=domain)


# --- rows ---------------------------------------------------------------------------------------


class WeightedEquations:
    """The equations of a lower least-squares level on R^n or a box, multiplied by ``factors``.

    The factors are powers of two that make the rows similar in size. If the equations can be
    satisfied, or nearly so, their weights hardly matter, for the following reason.

    Let g = ½|W(Ax - b)|² with W diagonal, rows of A similar in size, and x a point of Z close to a
    solution. Let B stand for some independent rows, and sigma for the smallest singular value of
    A_B on the columns whose variables are not on a bound. Some q with A_B q = b_B is within s =
    |A_B x - b_B|/sigma of x, and q is in Z if no other bound is within s.

    If B contains all rows, then the minimisers of g over Z are the points of Z with Ax = b,
    whatever W is. Otherwise g at q depends only on the other rows N: a minimiser x* of g over Z
    satisfies

        min(W_B)² |A_B (x* - q)|²  <=  2 g(x*)  <=  2 g(q)  =  |W_N (A_N q - b_N)|².

    If B has as many rows as there are variables, this bounds x* - q. The bound is small if the rows
    of B are the heavy ones. (g is not small at x itself: heavy rows magnify the rounding errors of
    x.)
    """

    def __init__(self, problem: Problem, g: Squares, factors: Host) -> None:
        self.problem: Problem = problem
        self.factors: Host = factors
        self.A, self.b = factors[:, None] * g.rows.dense(), factors * host(g.target)
        self.roots: Host = np.ones(len(self.b)) if g.weights is None else np.sqrt(g.weights)
        self.unit: float = rounding_unit(EPS, *self.A.shape)

    @classmethod
    def of(cls, problem: Problem, factors: Host) -> WeightedEquations | None:
        """Return the equations of the problem, or None if the problem has no such equations."""
        below, Z = squares_of(problem.lower), problem.domain
        if len(below) != 1 or below[0].rows is None:
            return None
        if not Z.is_space and Z.sides(np.zeros(below[0].rows.shape[1])) is None:
            return None
        return cls(problem, below[0], factors)

    def alike(self) -> Problem:
        """Return a problem with rows of similar sizes, equivalent if all equations can hold."""
        lower = LeastSquares(self.A, self.b, gram=False)
        return Problem(upper=self.problem.upper, lower=lower, domain=self.problem.domain)

    def can_be_met(self, x: Host) -> bool:
        """Is it proved that a point of Z close to x satisfies all equations?"""
        return math.isfinite(self._way(x, np.arange(len(self.A)))[0])

    def distance(self, x: Host) -> float:
        """Bound the distance from x to all minimisers of g over Z; the bound may be inf."""
        from scipy.linalg import qr

        m, n = self.A.shape
        if m < n:
            return math.inf
        weights = self.roots / self.factors
        deadline.check(deadline.svd_work(m, n))
        heavy = qr((weights[:, None] * self.A).T, mode="r", pivoting=True)[1]
        chosen, others = heavy[:n], heavy[n:]
        way, sigma = self._way(x, chosen)
        if not math.isfinite(way):
            return math.inf
        lengths = np.sqrt(np.sum(self.A[others] ** 2, axis=1)) * SAFE
        off = (np.abs(self._residual(x)) + self._error(x))[others] + lengths * way
        lighter = weights[others] / np.min(weights[chosen])
        return (way + norm(lighter * off) / sigma) * SAFE + TINY

    def _way(self, x: Host, rows: Host) -> tuple[float, float]:
        """Bound the distance from x to a point of Z that satisfies these rows, and return sigma."""
        ends, room = self.problem.domain.sides(x), np.full(len(x), np.inf)
        if ends is not None:
            room = np.minimum(x - ends[0], ends[1] - x)
        free = self.A[np.ix_(rows, room > 0.0)]
        if np.min(room) < 0.0 or free.shape[1] < len(rows):
            return math.inf, 0.0
        deadline.check(deadline.svd_work(*free.shape))
        sigma = float(np.linalg.svd(free, compute_uv=False)[-1]) - self.unit * norm(free)
        off = norm(self._residual(x)[rows]) + math.sqrt(len(rows)) * self._error(x)
        is_near = off * SAFE < 0.5 * sigma * float(np.min(room[room > 0.0]))
        return (off / sigma * SAFE, sigma) if is_near else (math.inf, 0.0)

    def _residual(self, x: Host) -> Host:
        return np.asarray(self.A @ x - self.b)

    def _error(self, x: Host) -> float:
        """Bound the error of each entry of the residual."""
        return self.unit * (norm(self.A) * norm(x) + float(np.max(np.abs(self.b), initial=0.0)))
