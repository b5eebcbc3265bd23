"""Proved bounds on f* and g*, from the minorants that any method leaves behind.

With f = f1 + f2 and g = g1 + g2, minorants l_f,i of f1 and l_g,i of g1, any weights a_i, mu_i >= 0,
and any ghat >= g* that is a computed value of g at a point of Z,

    f*  >=  (1/sum a_i) min_{x in Z} [ sum a_i (l_f,i + f2)(x) + sum mu_i (l_g,i + g2 - ghat)(x) ],

because x* lies in Z and (l_g,i + g2)(x*) <= g* <= ghat.  Likewise g* >= min_Z of g2 plus any
average of l_g,i.  Weights are free: which sums are tried is the matter of `tiebreak.proofs.bounds`.
Bounds on rounding errors are subtracted: a certificate may be wide, it is never wrong.

This file knows no method: a method hands over News, and that is all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tiebreak import theory
from tiebreak.functions.base import Function, Minorant
from tiebreak.functions.penalties import split
from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import TINY, Array, rounding_unit
from tiebreak.problem import Problem
from tiebreak.proofs.bounds import HUGE, Block, Bound, Search, Sums, best_of
from tiebreak.proofs.models import UNIT, Model
from tiebreak.sets.domains import Ball, Box, Domain, Space, distance_bound, projection_error

UNDERFLOW = 1e-290  # a gap below this is 0, a tolerance that is no larger is none
PROMISING = 1e-6  # growth of less than this share of L_g is as good as none
PATIENCE = 8  # steps whose news are taken in together: see Ledger.add
SHORT = 2**14  # entries of a vector that may wait in the memory of the host: no more than megabytes
FAR_SHORT = 2**20  # the same on a device, which has gigabytes


class Intervals(NamedTuple):
    """Bounds that a method has proved in its own way, by structure and not by minorants."""

    upper: tuple[float, float] = (-math.inf, math.inf)  # an interval that contains f*
    lower: float = -math.inf  # g* is at least this
    why: str = ""  # why f* has no upper bound, where that is known

    def both(self, other: Intervals) -> Intervals:
        """What both say, of the same problem."""
        (low, high), (least, most) = self.upper, other.upper
        high = min(high, most)
        why = self.why if math.isinf(high) else ""
        return Intervals((max(low, least), high), max(self.lower, other.lower), why)


class StepEvidence(NamedTuple):
    """What one step has found out: weighted minorants, and values of g at points of Z."""

    upper: tuple[tuple[float, Minorant], ...] = ()  # of f1
    cuts: tuple[tuple[float, Minorant], ...] = ()  # of g1, weighted by the cuts' multipliers
    lower: tuple[tuple[float, Minorant], ...] = ()  # of g1, weighted for a bound on g* itself
    values: tuple[tuple[float, Array, Minorant], ...] = ()  # g at a point of Z, a minorant close by
    claims: Intervals | None = None


class Standing(NamedTuple):
    """How a point stands: the proved gaps, and how far below f* its value may be.

    The gaps alone let f(x) lie far below f*, where x is not quite optimal below. With the bound
    min { f : g <= c } >= L - mu (c - ghat), where f(x) <= L + eps/2 and mu (g(x) - g*) <= eps/8,
    f cannot fall by more than eps between the levels of x and of four times its excess over g*.
    So if f falls at least half as much from the second to the fourth of these excesses as from
    0 to the first, f* - v(4c) >= 1.5 (f* - v(c)) with v(c) = min { f : g <= g* + c }, then
    |f(x) - f*| <= 2 eps: quadratic growth of g, where x is not close to f's own minimiser. It is
    a guard, and no proof: that is `upper_error`.
    """

    upper_gap: float  # f(x) - f* is at most this
    lower_gap: float  # g(x) - g* is at most this
    guard_gap: float  # f(x) - L
    price: float  # mu (g(x) - g*), at most

    def is_within(self, tolerance: tuple[float, float]) -> bool:
        """Are both gaps proved to be within the tolerance?"""
        return self.upper_gap <= tolerance[0] and self.lower_gap <= tolerance[1]

    def is_guarded(self, tolerance: float) -> bool:
        """Does the guard secure f(x) from below?"""
        half = 0.5 * tolerance
        return self.guard_gap <= half and -half <= self.upper_gap and self.price <= 0.25 * half

    @property
    def estimate(self) -> float:
        """About |f(x) - f*|: where g grows quadratically f* - f(x) is about twice the price."""
        return max(abs(self.upper_gap), 2.0 * self.price)


class Proved(NamedTuple):
    """What is proved at some step, for a method that heeds it."""

    standing: Standing  # of its point
    lower_bound: float  # g* is at least this
    least_value: float  # and at most this
    asked: tuple[float, float]  # the tolerances on both gaps, 0 where there is no end
    is_guarded: bool  # is f(x) to be secured from below, too?
    is_met: bool  # is all that was asked for proved?


@dataclass(frozen=True)
class Certificate:
    """What is proved about a point x.

    Attributes:
        upper_value, lower_value: f(x) and g(x).
        upper_gap: f(x) - f* is at most this (inf: nothing proved; negative: f(x) < f* is proved).
        lower_gap: g(x) - g* is at most this.
        upper_error: |f(x) - f*| is at most this.
        upper_optimum, lower_optimum: intervals that contain f* and g*.
        distance: how far x is from the domain; the gaps speak of x as it is.
        upper_estimate: about |f(x) - f*|; an estimate that assumes quadratic growth of g, no bound.
    """

    upper_value: float
    lower_value: float
    upper_gap: float
    lower_gap: float
    upper_error: float
    upper_optimum: tuple[float, float]
    lower_optimum: tuple[float, float]
    distance: float
    upper_estimate: float = math.inf

    @classmethod
    def of_gaps(
        cls,
        upper_value: float,
        lower_value: float,
        upper_gap: float = math.inf,
        lower_gap: float = math.inf,
    ) -> Certificate:
        """Nothing is known but these."""
        gaps, nothing = (upper_gap, lower_gap, math.inf), (-math.inf, math.inf)
        return cls(upper_value, lower_value, *gaps, nothing, nothing, 0.0)

    def without_upper(self) -> Certificate:
        """The same where there turned out to be no f*: nothing to be close to."""
        nothing = (-math.inf, math.inf)
        return replace(self, upper_gap=math.inf, upper_error=math.inf, upper_optimum=nothing)

    def __str__(self) -> str:
        lines = [
            _proved("upper level", "f", self.upper_value, self.upper_gap, self.upper_optimum),
            _proved("lower level", "g", self.lower_value, self.lower_gap, self.lower_optimum),
        ]
        if math.isfinite(self.upper_error):
            lines.append(f"both sides    |f(x) - f*| <= {self.upper_error:.3g}")
        if self.distance > 0.0:
            lines.append(f"outside       x is {self.distance:.3g} away from the domain")
        return "\n".join(lines)


def _proved(level: str, letter: str, value: float, gap: float, where: tuple[float, float]) -> str:
    """One line of a report: the value, and what is proved about it."""
    if math.isinf(gap):
        return f"{level}   {letter}(x) = {value:.9g}, not certified: nothing bounds {letter}* below"
    low, high = where
    interval = f"{letter}* in [{low:.9g}, {high:.9g}]"
    if math.isinf(high):
        interval = f"{letter}* >= {low:.9g}"
    if gap < 0.0:
        return (
            f"{level}   {letter}(x) = {value:.9g}, proved: {letter}(x) < {letter}* "
            f"by at least {-gap:.3g}, so x is no minimiser below; {interval}"
        )
    proved = f"{letter}(x) - {letter}* <= {gap:.3g}"
    return f"{level}   {letter}(x) = {value:.9g}, proved: {proved}; {interval}"


class Measured(NamedTuple):
    """A minorant's point and slope in float64, <slope, at>, |at| and |slope|.

    ``reach`` is |at|, or what the image was mixed from where that was longer: see `Seen`.
    """

    at: Array
    slope: Array
    inner: float
    size: float
    steepness: float
    reach: float


class BoundAccumulator:
    """Collects the News of a run and turns them into bounds on f* and g*."""

    def __init__(self, problem: Problem, x0: Array, sums: Sums | None = None) -> None:
        self.problem = problem
        self._xp = arrays.namespace(x0)
        self._n = int(x0.shape[0])
        self._is_double = x0.dtype == self._xp.float64
        self._zero = self._double(arrays.zeros_like(x0))
        self._nothing = Model(0.0, 0.0, 0.0, self._zero, 0.0, 0.0, 0.0)
        self._slack = rounding_unit(UNIT, self._n)  # of a sum over the variables
        self._search = Search(problem, self._zero)
        self._growth = 0.0
        if isinstance(problem.domain, Space):  # a factorisation, for the proof alone
            self._growth = deadline.unless_too_long(lambda: problem.lower.growth, 0.0)
        self.refuted = False  # was a promise of the user seen to be false?
        self.is_steep = False  # was f seen to rise faster than its Lipschitz constant allows?
        self.part_sizes = (0.0, 0.0)  # of f and g, where they are sums whose parts may cancel
        self._waiting: list[StepEvidence] = []
        self._measured: list[tuple[StepEvidence, list[Measured]]] = []
        self._is_good = True  # was all finite that was taken in since the last add?
        is_short = self._n <= (SHORT if self._xp is np else FAR_SHORT)
        self._patience = PATIENCE if is_short else 1
        self._sums = sums or Sums(
            steps=0, blocks=(), last_upper=None, last_cut=None, last_lower=None, last_ratio=0.0,
            ghat=math.inf,
            upper_bound=problem.upper.lower_bound,
            guard=Bound(problem.upper.lower_bound, 0.0, 0.0), upper_ceiling=math.inf,
            lower_bound=problem.lower.lower_bound,
            tail=0, tail_factor=1.0, kept_cut=None, kept_factor=1.0, lower_tail=0,
        )  # fmt: skip

    def _double(self, x: Array) -> Array:
        return x if self._is_double else self._xp.astype(x, self._xp.float64)

    # -- collecting -----------------------------------------------------------------------------

    def add(self, evidence: StepEvidence) -> bool:
        """The news of one step; False if some that waited were not finite, and were left out.

        The news of a few steps are taken in together where the vectors are on a device, for asking
        for their sizes costs more than the arithmetic, or short, for beside the products of a step
        code that was not used for a while costs twice as much. The sums are the same, on the host
        to the bit. A device is asked here, when it has nothing else to do; the arithmetic is left
        to `catch_up`, unless nobody calls it.
        """
        self._waiting.append(evidence)
        if len(self._waiting) >= self._patience:
            self._measure()
        if self._patience == 1:
            self.catch_up()
        was_good, self._is_good = self._is_good, True
        return was_good

    def catch_up(self) -> None:
        """Enter what is measured: for whoever waits for data in the meantime."""
        measured, self._measured = self._measured, []
        for evidence, sizes in measured:
            self._is_good &= self._enter(evidence, iter(sizes))

    @property
    def sums(self) -> Sums:
        """What was collected so far."""
        if self._waiting:
            self._measure()
        if self._measured:
            self.catch_up()
        return self._sums

    @sums.setter
    def sums(self, sums: Sums) -> None:
        self._sums = sums

    def _measure(self) -> None:
        """The sizes of all that waits, and what its values say: the questions to a device."""
        waiting, self._waiting = self._waiting, []
        self.catch_up()  # in the order of the steps
        looks = [[s for _, s in (*n.upper, *n.cuts, *n.lower)] for n in waiting]
        sizes = self._sizes([seen for some in looks for seen in some])
        self._measured = [
            (evidence, list(itertools.islice(sizes, len(some))))
            for evidence, some in zip(waiting, looks, strict=True)
        ]
        values = [look for evidence in waiting for look in evidence.values]
        self._lower_ghat(values)
        if self._growth > 0.0:
            self._raise_lower_bound([near for _, _, near in values])

    def _lower_ghat(self, looks: Sequence[tuple[float, Array, Minorant]]) -> None:
        """By the smallest value, and by those below its bound, mostly none."""
        ghat, looks = self._sums.ghat, sorted(looks, key=lambda look: look[0])
        for some in (looks[:1], looks[1:]):
            if below := [look for look in some if look[0] < ghat]:
                ghat = min(ghat, *self._values_above(self.problem.lower, below))
        self.sums = self._sums._replace(ghat=ghat)

    def _enter(self, evidence: StepEvidence, sizes: Iterator[Measured]) -> bool:
        """The minorants of one step, which are measured already."""
        f, g = self.problem.upper, self.problem.lower
        uppers = [(w, self._model(f, seen, next(sizes), upper=1.0)) for w, seen in evidence.upper]
        cuts = [(w, self._model(g, seen, next(sizes), lower=1.0)) for w, seen in evidence.cuts]
        lowers = [(w, self._model(g, seen, next(sizes), lower=1.0)) for w, seen in evidence.lower]
        if not all(model.is_finite for _, model in (*uppers, *cuts, *lowers)):
            return False
        of_f, of_g = self.part_sizes
        self.part_sizes = (
            max((seen.size for _, seen in evidence.upper), default=of_f),
            max((seen.size for _, seen in (*evidence.lower, *evidence.cuts)), default=of_g),
        )
        if evidence.claims is not None:
            self._believe(evidence.claims)
        s = self._sums
        steps, blocks = s.steps, s.blocks
        if uppers or cuts or lowers:
            if steps & (steps - 1) == 0:  # a power of two, or the very first: a new block
                blocks = (*blocks, Block(self._nothing, self._nothing, self._nothing))
            upper, cut, lower = blocks[-1]
            for weight, model in uppers:
                upper = upper.plus(model, weight)
            for weight, model in cuts:
                # Any weights are valid: a multiplier that would drown all others is left out.
                if 0.0 < weight * (1.0 + model.value_error + model.slope_error) < HUGE:
                    cut = cut.plus(model, weight)
            for weight, model in lowers:
                lower = lower.plus(model, weight)
            steps, blocks = steps + 1, (*blocks[:-1], Block(upper, cut, lower))
        self.sums = s._replace(
            steps=steps, blocks=blocks,
            last_upper=uppers[-1][1] if uppers else s.last_upper,
            last_cut=cuts[-1][1] if cuts else s.last_cut,
            last_lower=lowers[-1][1] if lowers else s.last_lower,
            last_ratio=cuts[-1][0] / uppers[-1][0] if cuts and uppers else s.last_ratio,
        )  # fmt: skip
        return True

    def _believe(self, claims: Intervals) -> None:
        """Take over what a method has proved in its own way."""
        (low, high), s = claims.upper, self._sums
        self.sums = s._replace(
            upper_bound=max(s.upper_bound, low),
            upper_ceiling=min(s.upper_ceiling, high),
            lower_bound=max(s.lower_bound, claims.lower),
        )

    def inherit(self, other: BoundAccumulator) -> None:
        """Take over the bounds and the doubts, not the sums, of another run on the same problem."""
        self.refuted |= other.refuted
        self.is_steep |= other.is_steep
        s, known = self.sums, other.sums
        self.sums = s._replace(
            ghat=min(s.ghat, known.ghat),
            upper_bound=max(s.upper_bound, known.upper_bound),
            upper_ceiling=min(s.upper_ceiling, known.upper_ceiling),
            lower_bound=max(s.lower_bound, known.lower_bound),
        )

    def _sizes(self, looks: Sequence[Minorant]) -> Iterator[Measured]:
        """The minorants in float64, and all their sizes by one transfer."""
        vectors = iter(arrays.doubles([v for seen in looks for v in (seen.at, seen.slope)]))
        pairs = list(zip(vectors, vectors, strict=True))
        products = [p for at, slope in pairs for p in ((slope, at), (at, at), (slope, slope))]
        numbers = iter(arrays.dots(*products) if products else ())
        reaches = arrays.floats([seen.reach for seen in looks])
        for (at, slope), reach in zip(pairs, reaches, strict=True):
            inner, *squares = (next(numbers) for _ in range(3))
            size, steepness = arrays.norm(at, squares[0]), arrays.norm(slope, squares[1])
            yield Measured(at, slope, inner, size, steepness, max(size, reach))

    def _model(
        self, h: Function, seen: Minorant, sizes: Measured, upper: float = 0.0, lower: float = 0.0
    ) -> Model:
        """value + <slope, x - at> + sigma/2 |x - at|², with its rounding errors."""
        at, slope, inner, size, steepness, reach = sizes
        sigma = h.strong_convexity - h.defect
        value_error, slope_error = self._errors(h, seen, reach, steepness)
        constant = seen.value - inner
        if sigma != 0.0:
            slope = arrays.plus(slope, at, -sigma)
            constant += 0.5 * sigma * size * size
        slack = self._slack + 0.5 * UNIT * self._sums.steps  # the sum over the steps rounds too
        value_error += slope_error * size + slack * (
            abs(seen.value) + steepness * size + abs(sigma) * size * size
        )
        value_error += TINY
        slope_error += slack * (steepness + abs(sigma) * size) + TINY
        return Model(upper, lower, constant, slope, sigma, value_error, slope_error)

    def _errors(
        self, h: Function, seen: Minorant, reach: float, steepness: float
    ) -> tuple[float, float]:
        """Bounds on the rounding errors of a look, in the precision of its vectors."""
        parts = max(abs(seen.value), seen.size)
        return h.rounding(reach, parts, steepness, arrays.epsilon(seen.slope), self._n)

    def _value_error(
        self, h: Function, x: Array, reach: float, value: float, parts: float, steepness: float
    ) -> float:
        """A bound on the rounding error of the value of h at x, its penalty included.

        ``reach`` = |x|, or more: see `Measured`; ``steepness``: about the slope of the smooth part
        there; ``parts``: see `Seen.size`.
        """
        penalty = split(h)[1].value(x)
        parts = max(abs(value) + penalty, parts)
        epsilon = arrays.epsilon(x)  # a point in double was looked at in it: see run.Counted
        error, _ = h.rounding(reach, parts, steepness, epsilon, self._n)
        return error + rounding_unit(epsilon, self._n) * penalty

    def _values_above(
        self, h: Function, looks: Sequence[tuple[float, Array, Minorant]]
    ) -> list[float]:
        """Upper bounds on the true values of h at points of Z, each close to a look."""
        lipschitz, terms = h.known_lipschitz, split(h)[1].terms
        vectors = arrays.doubles(
            [v for _, at, near in looks for v in (at, near.slope, at - near.at)]
        )
        squares = arrays.dots(*((v, v) for v in vectors))
        sizes = iter([arrays.norm(*known) for known in zip(vectors, squares, strict=True)])
        reaches = arrays.floats([near.reach for _, _, near in looks])
        bounds = []
        for (value, at, near), reach in zip(looks, reaches, strict=True):
            size, steepness, distance = next(sizes), next(sizes), next(sizes)
            # The point is in Z up to rounding only: this is about the next one that is.
            outside = distance_bound(self.problem.domain, at)
            if math.isfinite(lipschitz):
                steepness += lipschitz * (distance + outside)
            extent = max(size, reach) if near.reach is not None else h.extent(at)
            error = self._value_error(h, at, extent, value, near.size, steepness)
            steepness += terms.steepness(self._n, size + outside)
            bounds.append(value + error + outside * steepness + TINY)
        return bounds

    def _raise_lower_bound(self, looks: Sequence[Minorant]) -> None:
        """On R^n: g* >= g(x) - |grad g(x)|²/(2 mu), where g has such a mu."""
        bounds = []
        for seen, sizes in zip(looks, self._sizes(looks), strict=True):
            errors = self._errors(self.problem.lower, seen, sizes.reach, sizes.steepness)
            slope = sizes.steepness + errors[1]
            bounds.append(seen.value - errors[0] - slope * slope / (2.0 * self._growth) - TINY)
        self.sums = self._sums._replace(lower_bound=best_of(self._sums.lower_bound, *bounds))

    # -- bounding -------------------------------------------------------------------------------

    def bounds(self, effort: int = 5) -> tuple[float, float]:
        """The best proved lower bounds on f* and on g* so far; -inf where there is none.

        ``effort``: how many factors on the cuts are tried per sum, from the last best one on.
        """
        self.sums = self._search.improved(self.sums, effort)
        return self.sums.upper_bound, self.sums.lower_bound

    @property
    def is_contradicted(self) -> bool:
        """Is g* proved to be above a value of g, or was another promise of the user refuted?"""
        return self.refuted or self.sums.lower_bound > self.sums.ghat

    # -- the statement --------------------------------------------------------------------------

    def standing(
        self, x: Array, upper_value: float, lower_value: float, effort: int = 5, reach: Any = None
    ) -> Standing:
        """Proved upper bounds on f(x) - f* and g(x) - g*, and the guard; inf where there is none.

        With ``effort`` 0 the bounds are those found before; ``reach``: see `Seen`.
        """
        if effort:
            self.bounds(effort)
        if self.is_contradicted:
            return Standing(math.inf, math.inf, math.inf, math.inf)
        errors = self.value_errors(x, upper_value, lower_value, reach)
        upper, lower, s = upper_value + errors[0], lower_value + errors[1], self.sums
        gap = lower - s.lower_bound
        mu = s.guard.multiplier
        return Standing(
            upper_gap=upper - s.upper_bound,
            lower_gap=gap,
            guard_gap=upper - s.guard.at(s.ghat),
            price=mu * max(gap, 0.0) if mu > 0.0 else 0.0,
        )

    def gaps(
        self, x: Array, upper_value: float, lower_value: float, reach: Any = None
    ) -> tuple[float, float]:
        """Proved upper bounds on f(x) - f* and g(x) - g*; inf where there is none."""
        standing = self.standing(x, upper_value, lower_value, reach=reach)
        return standing.upper_gap, standing.lower_gap

    def value_errors(
        self, x: Array, upper_value: float, lower_value: float, reach: Any = None
    ) -> tuple[float, float]:
        """Bounds on the rounding errors of f and g at x; ``reach``: see `Seen`."""
        size = max(arrays.norm(x), *arrays.floats([reach]))
        pairs = (
            (self.problem.upper, upper_value, self.sums.last_upper, self.part_sizes[0]),
            (self.problem.lower, lower_value, self.sums.last_lower, self.part_sizes[1]),
        )
        upper, lower = (
            self._value_error(
                h,
                x,
                size if reach is not None else h.extent(x),
                value,
                part,
                0.0 if last is None else self._steepness(last, size),
            )
            + TINY
            for h, value, last, part in pairs
        )
        return upper, lower

    def _steepness(self, model: Model, size: float) -> float:
        """A bound on the slope of a model where |x| <= size."""
        return arrays.norm(self._search.slope(model)) + abs(model.curvature) * size

    def certificate(
        self, x: Array, upper: Minorant, upper_value: float, lower_value: float
    ) -> Certificate:
        """The whole statement about x, where f1 is ``upper`` and f and g have the values given."""
        standing = self.standing(x, upper_value, lower_value, effort=30)
        upper_gap, lower_gap = standing.upper_gap, standing.lower_gap
        distance = arrays.norm(x - self.problem.domain.project(x))
        ceiling = (
            math.inf
            if self.is_steep
            else self._upper_ceiling(upper, upper_value, lower_value, lower_gap, distance)
        )
        ceiling = min(ceiling, self.sums.upper_ceiling)
        if not ceiling >= self.sums.upper_bound:
            self.refuted = True  # an error bound or a Lipschitz constant that cannot be true
        if self.is_contradicted:
            upper_gap = lower_gap = ceiling = math.inf
        is_sound = not self.is_contradicted
        return Certificate(
            upper_value=upper_value,
            lower_value=lower_value,
            upper_gap=upper_gap,
            lower_gap=lower_gap,
            upper_error=max(upper_gap, ceiling - upper_value),
            upper_optimum=(self.sums.upper_bound if is_sound else -math.inf, ceiling),
            lower_optimum=(self.sums.lower_bound if is_sound else -math.inf, self.sums.ghat),
            distance=distance,
            upper_estimate=standing.estimate if is_sound else math.inf,
        )

    def _upper_ceiling(
        self,
        upper: Minorant,
        upper_value: float,
        lower_value: float,
        lower_gap: float,
        distance: float,
    ) -> float:
        """An upper bound on f*, from a bound d on the distance from x to the solution set.

        Where g grows like mu/2 dist² (strongly convex, or least squares on R^n), d² = 2 gap/mu and
        f* <= f(x) + |grad f1(x)| d + L_f/2 d² + (the rise of f2 over d); with the user's error
        bound f* <= f(x) + M d (Proposition 1). Otherwise nothing is known, and no first-order
        method could know. Growth is measured on Z: a point outside it (by ``distance``) gets no
        ceiling but on rounding. Deep inside Z growth on R^n will do.
        """
        f, bound, x = self.problem.upper, self.problem.error_bound, upper.at
        f2, g2 = (penalty.terms for penalty in self.problem.penalties)
        size, steepness = arrays.norm(x), arrays.norm(upper.slope)
        _, slope_error = self._errors(f, upper, size, steepness)
        value_error = self._value_error(f, x, size, upper_value, upper.size, steepness)
        if f.lipschitz == 0.0 and steepness == 0.0 and not any(f2.weights):
            return upper_value + value_error  # f is constant
        outside = distance_bound(self.problem.domain, x)
        is_inside = distance <= projection_error(self.problem.domain, x, size)
        if not (is_inside and math.isfinite(steepness) and math.isfinite(lower_gap)):
            return math.inf
        last = self.sums.last_lower or self.sums.last_cut
        gap = max(lower_gap, 0.0)
        if outside > 0.0 and last is not None:
            gap += outside * (self._steepness(last, size) + g2.steepness(self._n, size))
        rises = [math.inf]
        growth = deadline.unless_too_long(lambda: self.problem.growth, 0.0)
        reaches = [math.sqrt(2.0 * gap / growth) + outside] if growth > 0.0 else []
        reaches = [d for d in (*reaches, self._way_inside(x, lower_value)) if math.isfinite(d)]
        for d in reaches if reaches and math.isfinite(f.lipschitz) else ():
            slope = steepness + slope_error + f2.steepness(self._n, size + d)
            rises.append(slope * d + 0.5 * f.lipschitz * d * d)
        if bound is not None:
            floor = theory.upper_floor(
                gap,
                order=bound.order,
                modulus=bound.modulus,
                gradient_bound=bound.gradient_bound,
            )
            slope = steepness + slope_error + f2.steepness(self._n, size)
            rises.append(outside * slope - floor)
        return upper_value + value_error + min(rises)

    def _way_inside(self, x: Array, lower_value: float) -> float:
        """A bound on the distance to a minimiser of g on R^n that lies in Z; inf if there is none.

        g - inf g >= mu/2 dist² on R^n: if a ball of that radius around x is in Z, so is the nearest
        minimiser, and it is one on Z too.
        """
        g, depth = self.problem.lower, _depth(self.problem.domain, x)
        error = self.value_errors(x, 0.0, lower_value)[1]
        excess = max(lower_value - g.lower_bound, 0.0) + error
        # The growth of a matrix costs a factorisation: only where it can help.
        if not 0.5 * depth * depth * PROMISING * g.known_lipschitz > excess:
            return math.inf
        growth = deadline.unless_too_long(lambda: g.growth, 0.0)
        d = math.sqrt(2.0 * excess / growth) if growth > 0.0 else math.inf
        return d if d < depth else math.inf


def _depth(domain: Domain, x: Array) -> float:
    """A ball of this radius around x lies in the set; 0 where none is known."""
    size, unit = arrays.norm(x), rounding_unit(arrays.epsilon(x), int(x.shape[0]))
    if isinstance(domain, Ball):
        center = 0.0 * x if domain.center is None else arrays.like(domain.center, x)
        inside = domain.radius - arrays.norm(x - center)
        return max(inside - unit * (domain.radius + size + arrays.norm(center)), 0.0)
    if isinstance(domain, Box):
        xp, (lower, upper) = arrays.namespace(x), domain.bounds_like(x)
        inside = min(float(xp.min(x - lower)), float(xp.min(upper - x)))
        return max(inside * (1.0 - unit) - unit * size, 0.0)
    return 0.0
