"""The evidence that a method supplies at each step, with its norms and rounding errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tiebreak.functions import Function, Minorant, PointWithImage, SmoothFunction, split
from tiebreak.linalg import EPS, Array, Host, arrays, in_files
from tiebreak.problem import Problem

Weighted = tuple[tuple[float, Minorant], ...]

WITHIN = "a minimiser of g in the domain, within {:.2g} of x"
ALL_WITHIN = "all minimisers of g being within {:.2g} of x"


@in_files("intervals")
class Intervals(NamedTuple):
    """Bounds that a method has proved in its own way, with a factorisation instead of minorants."""

    upper: tuple[float, float] = (-math.inf, math.inf)  # an interval that contains f*
    lower: float = -math.inf  # a lower bound on g*
    why: str = ""  # why no upper bound on f* is known; empty if unexplained
    has_minimiser: bool = False  # is it proved that g has a minimiser?
    rests: str = ""  # the basis of the upper bound on f*: a point of Z, or the distance to one

    @property
    def is_two_sided(self) -> bool:
        """Is f* in a bounded interval, and g* bounded below?"""
        return all(map(math.isfinite, (*self.upper, self.lower)))

    def are_sharp(self, upper_value: float, lower_value: float) -> bool:
        """Do the intervals prove at least half the digits of the given values of f and g?"""
        widths = self.upper[1] - self.upper[0], lower_value - self.lower
        pairs = zip(widths, (upper_value, lower_value), strict=True)
        return all(width <= math.sqrt(EPS) * abs(value) for width, value in pairs)

    def rescaled(self, units: Host) -> Intervals:
        """Say that distances are between points x/units, unless all units are 1."""
        told = self.rests.replace(" of x", " of x in rescaled variables")
        return self._replace(rests=told) if (units != 1.0).any() else self

    def both(self, other: Intervals) -> Intervals:
        """The intersection with other intervals of the same problem."""
        (low, high), (least, most) = self.upper, other.upper
        high, rests = min((high, self.rests), (most, other.rests))
        why = self.why if math.isinf(high) else ""
        known = self.has_minimiser or other.has_minimiser
        return Intervals((max(low, least), high), max(self.lower, other.lower), why, known, rests)


@in_files("evidence")
class StepEvidence(NamedTuple):
    """The findings of one step: weighted minorants, and values of g at points of Z."""

    upper: Weighted = ()  # minorants of f1
    cuts: Weighted = ()  # minorants of g1, weighted by the cuts' multipliers
    lower: Weighted = ()  # minorants of g1, weighted for a bound on g* itself
    # values of g at points of Z, each with its point and a nearby minorant
    values: tuple[tuple[float, Array, Minorant], ...] = ()
    intervals: Intervals | None = None  # bounds that the method has proved in its own way


def evaluated_again(problem: Problem, evidence: StepEvidence) -> StepEvidence:
    """Recompute the evidence from a third-party method, using only its weights and points.

    Minorants are evaluated again at these points, and values of g at their projections onto Z.
    Weights that are not positive prove nothing and are dropped; the method's own intervals are not
    trusted and are dropped too.
    """
    (f1, g1), g2 = problem.smooth_parts, problem.penalties[1]

    def at(h: SmoothFunction, x: Array) -> Minorant:
        return h.evaluate([PointWithImage(x, *h.forward(x))])[0][0]

    def anew(h: SmoothFunction, given: Weighted) -> Weighted:
        return tuple((weight, at(h, m.at)) for weight, m in given if 0.0 < weight < math.inf)

    points = [at(g1, problem.domain.projected(x)) for _, x, _ in evidence.values]
    return StepEvidence(
        upper=anew(f1, evidence.upper),
        cuts=anew(g1, evidence.cuts),
        lower=anew(g1, evidence.lower),
        values=tuple((m.value + g2.value(m.at), m.at, m) for m in points),
    )


class Measured(NamedTuple):
    """A minorant's point and slope in float64, <slope, at>, |at| and |slope|.

    ``reach`` is |at|, or more if the image combines images of points with larger norms: see
    `Minorant`.
    """

    at: Array
    slope: Array
    inner: float
    size: float
    steepness: float
    reach: float


def measured(minorants: Sequence[Minorant]) -> Iterator[Measured]:
    """Yield the minorants in float64; all their norms are fetched in one transfer."""
    vectors = iter(arrays.doubles([v for m in minorants for v in (m.at, m.slope)]))
    pairs = list(zip(vectors, vectors, strict=True))
    products = [p for at, slope in pairs for p in ((slope, at), (at, at), (slope, slope))]
    numbers = iter(arrays.dots(*products) if products else ())
    reaches = arrays.floats([minorant.reach for minorant in minorants])
    for (at, slope), reach in zip(pairs, reaches, strict=True):
        inner, *squares = (next(numbers) for _ in range(3))
        size, steepness = arrays.norm(at, squares[0]), arrays.norm(slope, squares[1])
        yield Measured(at, slope, inner, size, steepness, max(size, reach))


def has_error_bounds(h: Function) -> bool:
    """Are the rounding errors of h bounded? Otherwise nothing is proved about it."""
    return math.isfinite(sum(h.rounding(1.0, 1.0, 1.0, EPS, 1)))


def minorant_errors(
    h: Function, minorant: Minorant, reach: float, steepness: float
) -> tuple[float, float]:
    """Bounds on the rounding errors of a minorant's value and slope, in its vectors' precision."""
    parts = max(abs(minorant.value), minorant.size)
    return h.rounding_errors(minorant.slope, reach, parts, steepness)


def value_error(
    h: Function,
    x: Array,
    reach: float,
    value: float,
    parts: float,
    steepness: float,
    moved: float = 0.0,
) -> float:
    """A bound on the rounding error of the value of h at x, including its penalty.

    ``reach`` is at least |x| (see `Measured`), ``steepness`` is roughly the norm of the smooth
    part's gradient at x, and ``parts`` is explained in `Minorant.size`.

    If x is ``moved`` away from where the value is needed, the smooth part's change counts too: in a
    coarse enough arithmetic, rounding moves x as far.
    """
    penalty = split(h)[1]
    parts = max(abs(value) + penalty.value(x), parts)
    # h was evaluated in the precision of x: see `Counted`
    error, _ = h.rounding_errors(x, reach, parts, steepness)
    if 0.0 < moved < math.inf:
        unit = moved / (reach + moved)
        error += h.rounding(reach + moved, parts, steepness, unit, int(x.shape[0]))[0]
    return error + penalty.terms.value_error(x)
