"""Proved bounds on f* and g*, from the minorants that any method leaves behind.

With f = f1 + f2 and g = g1 + g2, minorants l_f,i of f1 and l_g,i of g1, any weights a_i, mu_i >= 0,
and any ghat >= g* that is a computed value of g at a point of Z,

    f*  >=  (1/sum a_i) min_{x in Z} [ sum a_i (l_f,i + f2)(x) + sum mu_i (l_g,i + g2 - ghat)(x) ],

because x* lies in Z and (l_g,i + g2)(x*) <= g* <= ghat.  Likewise g* >= min_Z of g2 plus any
average of l_g,i.  Weights are free: which sums are tried is the matter of `tiebreak.bounds`.
Bounds on rounding errors are subtracted: a certificate may be wide, it is never wrong.

This file knows no method: a method hands over News, and that is all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tiebreak import arrays, theory
from tiebreak.arrays import TINY, Array, rounding_unit
from tiebreak.bounds import HUGE, Block, Search, Sums, best_of
from tiebreak.domains import Ball, Box, Domain, Space
from tiebreak.functions import Function, Seen
from tiebreak.models import UNIT, Model
from tiebreak.penalties import split
from tiebreak.problem import Problem

UNDERFLOW = 1e-290  # a gap below this is 0, a tolerance that is no larger is none
PROMISING = 1e-6  # growth of less than this share of L_g is as good as none
PATIENCE = 8  # steps whose news are taken in together: see Ledger.add
SHORT = 2**14  # entries of a vector that may wait in the memory of the host: no more than megabytes
FAR_SHORT = 2**20  # the same on a device, which has gigabytes


class Claims(NamedTuple):
    """Bounds that a method has proved in its own way, by structure and not by minorants."""

    upper: tuple[float, float] = (-math.inf, math.inf)  # an interval that contains f*
    lower: float = -math.inf  # g* is at least this


class News(NamedTuple):
    """What one step has found out: weighted minorants, and values of g at points of Z."""

    upper: tuple[tuple[float, Seen], ...] = ()  # of f1
    cuts: tuple[tuple[float, Seen], ...] = ()  # of g1, weighted by the cuts' multipliers
    lower: tuple[tuple[float, Seen], ...] = ()  # of g1, weighted for a bound on g* itself
    values: tuple[tuple[float, Array, Seen], ...] = ()  # g at a point of Z, a minorant close by
    claims: Claims | None = None


class Proved(NamedTuple):
    """What is proved at some step, for a method that heeds it."""

    upper_gap: float  # of its point
    lower_gap: float
    lower_bound: float  # g* is at least this
    least_value: float  # and at most this
    asked: tuple[float, float]  # the tolerances on both gaps, 0 where there is no end


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
    """

    upper_value: float
    lower_value: float
    upper_gap: float
    lower_gap: float
    upper_error: float
    upper_optimum: tuple[float, float]
    lower_optimum: tuple[float, float]
    distance: float

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
    """A minorant's point and slope in float64, <slope, at>, |at| and |slope|."""

    at: Array
    slope: Array
    inner: float
    size: float
    steepness: float


class Ledger:
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
        self._growth = problem.lower.growth if isinstance(problem.domain, Space) else 0.0
        self.refuted = False  # was a promise of the user seen to be false?
        self.is_steep = False  # was f seen to rise faster than its Lipschitz constant allows?
        self.part_sizes = (0.0, 0.0)  # of f and g, where they are sums whose parts may cancel
        self._waiting: list[News] = []
        self._measured: list[tuple[News, list[Measured]]] = []
        self._is_good = True  # was all finite that was taken in since the last add?
        is_short = self._n <= (SHORT if self._xp is np else FAR_SHORT)
        self._patience = PATIENCE if is_short else 1
        self._sums = sums or Sums(
            steps=0, blocks=(), last_upper=None, last_cut=None, last_lower=None, last_ratio=0.0,
            ghat=math.inf,
            upper_bound=problem.upper.lower_bound, upper_ceiling=math.inf,
            lower_bound=problem.lower.lower_bound,
            tail=0, tail_factor=1.0, kept_cut=None, kept_factor=1.0, lower_tail=0,
        )  # fmt: skip

    def _double(self, x: Array) -> Array:
        return x if self._is_double else self._xp.astype(x, self._xp.float64)

    # -- collecting -----------------------------------------------------------------------------

    def add(self, news: News) -> bool:
        """The news of one step; False if some that waited were not finite, and were left out.

        The news of a few steps are taken in together where the vectors are on a device, for asking
        for their sizes costs more than the arithmetic, or short, for beside the products of a step
        code that was not used for a while costs twice as much. The sums are the same, on the host
        to the bit. A device is asked here, when it has nothing else to do; the arithmetic is left
        to `catch_up`, unless nobody calls it.
        """
        self._waiting.append(news)
        if len(self._waiting) >= self._patience:
            self._measure()
        if self._patience == 1:
            self.catch_up()
        was_good, self._is_good = self._is_good, True
        return was_good

    def catch_up(self) -> None:
        """Enter what is measured: for whoever waits for data in the meantime."""
        measured, self._measured = self._measured, []
        for news, sizes in measured:
            self._is_good &= self._enter(news, iter(sizes))

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
            (news, list(itertools.islice(sizes, len(some))))
            for news, some in zip(waiting, looks, strict=True)
        ]
        values = [look for news in waiting for look in news.values]
        self._lower_ghat(values)
        if self._growth > 0.0:
            self._raise_lower_bound([near for _, _, near in values])

    def _lower_ghat(self, looks: Sequence[tuple[float, Array, Seen]]) -> None:
        """By the smallest value, and by those below its bound, mostly none."""
        ghat, looks = self._sums.ghat, sorted(looks, key=lambda look: look[0])
        for some in (looks[:1], looks[1:]):
            if below := [look for look in some if look[0] < ghat]:
                ghat = min(ghat, *self._values_above(self.problem.lower, below))
        self.sums = self._sums._replace(ghat=ghat)

    def _enter(self, news: News, sizes: Iterator[Measured]) -> bool:
        """The minorants of one step, which are measured already."""
        f, g = self.problem.upper, self.problem.lower
        uppers = [(w, self._model(f, seen, next(sizes), upper=1.0)) for w, seen in news.upper]
        cuts = [(w, self._model(g, seen, next(sizes), lower=1.0)) for w, seen in news.cuts]
        lowers = [(w, self._model(g, seen, next(sizes), lower=1.0)) for w, seen in news.lower]
        if not all(model.is_finite for _, model in (*uppers, *cuts, *lowers)):
            return False
        of_f, of_g = self.part_sizes
        self.part_sizes = (
            max((seen.size for _, seen in news.upper), default=of_f),
            max((seen.size for _, seen in (*news.lower, *news.cuts)), default=of_g),
        )
        if news.claims is not None:
            self._believe(news.claims)
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

    def _believe(self, claims: Claims) -> None:
        """Take over what a method has proved in its own way."""
        (low, high), s = claims.upper, self._sums
        self.sums = s._replace(
            upper_bound=max(s.upper_bound, low),
            upper_ceiling=min(s.upper_ceiling, high),
            lower_bound=max(s.lower_bound, claims.lower),
        )

    def inherit(self, other: Ledger) -> None:
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

    def _sizes(self, looks: Sequence[Seen]) -> Iterator[Measured]:
        """The minorants in float64, and all their sizes by one transfer."""
        vectors = iter(arrays.doubles([v for seen in looks for v in (seen.at, seen.slope)]))
        pairs = list(zip(vectors, vectors, strict=True))
        products = [p for at, slope in pairs for p in ((slope, at), (at, at), (slope, slope))]
        numbers = iter(arrays.dots(*products) if products else ())
        for at, slope in pairs:
            inner, size, steepness = (next(numbers) for _ in range(3))
            yield Measured(at, slope, inner, arrays.norm(at, size), arrays.norm(slope, steepness))

    def _model(
        self, h: Function, seen: Seen, sizes: Measured, upper: float = 0.0, lower: float = 0.0
    ) -> Model:
        """value + <slope, x - at> + sigma/2 |x - at|², with its rounding errors."""
        at, slope, inner, size, steepness = sizes
        sigma = h.strong_convexity - h.defect
        value_error, slope_error = self._errors(h, seen, size, steepness)
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
        self, h: Function, seen: Seen, size: float, steepness: float
    ) -> tuple[float, float]:
        """Bounds on the rounding errors of a look, in the precision of its vectors."""
        parts = max(abs(seen.value), seen.size)
        return h.rounding(size, parts, steepness, arrays.epsilon(seen.slope), self._n)

    def _value_error(
        self, h: Function, x: Array, size: float, value: float, parts: float, steepness: float
    ) -> float:
        """A bound on the rounding error of the value of h at x, its penalty included.

        ``size`` = |x|; ``steepness``: about the slope of the smooth part there; ``parts``: see
        `Seen.size`.
        """
        penalty = split(h)[1].value(x)
        parts = max(abs(value) + penalty, parts)
        epsilon = arrays.epsilon(x)  # a point in double was looked at in it: see run.Counted
        error, _ = h.rounding(size, parts, steepness, epsilon, self._n)
        return error + rounding_unit(epsilon, self._n) * penalty

    def _values_above(self, h: Function, looks: Sequence[tuple[float, Array, Seen]]) -> list[float]:
        """Upper bounds on the true values of h at points of Z, each close to a look."""
        lipschitz, terms = h.known_lipschitz, split(h)[1].terms
        vectors = arrays.doubles(
            [v for _, at, near in looks for v in (at, near.slope, at - near.at)]
        )
        squares = arrays.dots(*((v, v) for v in vectors))
        sizes = iter([arrays.norm(*known) for known in zip(vectors, squares, strict=True)])
        bounds = []
        for value, at, near in looks:
            size, steepness, distance = next(sizes), next(sizes), next(sizes)
            if math.isfinite(lipschitz):
                steepness += lipschitz * distance
            error = self._value_error(h, at, size, value, near.size, steepness)
            steepness += terms.steepness(self._n, size)
            # The point is in Z up to rounding only.
            outside = 64 * arrays.epsilon(at) * size
            bounds.append(value + error + outside * steepness + TINY)
        return bounds

    def _raise_lower_bound(self, looks: Sequence[Seen]) -> None:
        """On R^n: g* >= g(x) - |grad g(x)|²/(2 mu), where g has such a mu."""
        bounds = []
        for seen, sizes in zip(looks, self._sizes(looks), strict=True):
            errors = self._errors(self.problem.lower, seen, sizes.size, sizes.steepness)
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

    def gaps(
        self, x: Array, upper_value: float, lower_value: float, effort: int = 5
    ) -> tuple[float, float]:
        """Proved upper bounds on f(x) - f* and g(x) - g*; inf where there is none.

        With ``effort`` 0 the bounds are those found before.
        """
        if effort:
            self.bounds(effort)
        if self.is_contradicted:
            return math.inf, math.inf
        errors = self.value_errors(x, upper_value, lower_value)
        return (
            upper_value + errors[0] - self.sums.upper_bound,
            lower_value + errors[1] - self.sums.lower_bound,
        )

    def value_errors(self, x: Array, upper_value: float, lower_value: float) -> tuple[float, float]:
        """Bounds on the rounding errors of f and g at x."""
        size = arrays.norm(x)
        pairs = (
            (self.problem.upper, upper_value, self.sums.last_upper, self.part_sizes[0]),
            (self.problem.lower, lower_value, self.sums.last_lower, self.part_sizes[1]),
        )
        upper, lower = (
            self._value_error(
                h,
                x,
                size,
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
        self, x: Array, upper: Seen, upper_value: float, lower_value: float
    ) -> Certificate:
        """The whole statement about x, where f1 is ``upper`` and f and g have the values given."""
        upper_gap, lower_gap = self.gaps(x, upper_value, lower_value, effort=30)
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
        )

    def _upper_ceiling(
        self,
        upper: Seen,
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
        is_inside = distance <= 64 * arrays.epsilon(x) * size
        if not (is_inside and math.isfinite(steepness) and math.isfinite(lower_gap)):
            return math.inf
        last = self.sums.last_lower or self.sums.last_cut
        gap = max(lower_gap, 0.0)
        if distance > 0.0 and last is not None:
            gap += distance * (self._steepness(last, size) + g2.steepness(self._n, size))
        rises = [math.inf]
        growth = self.problem.growth
        reaches = [math.sqrt(2.0 * gap / growth)] if growth > 0.0 else []
        reaches = [d for d in (*reaches, self._way_inside(x, lower_value)) if math.isfinite(d)]
        for d in reaches if reaches and math.isfinite(f.lipschitz) else ():
            slope = steepness + slope_error + f2.steepness(self._n, size + d)
            rises.append(slope * d + 0.5 * f.lipschitz * d * d)
        if bound is not None:
            rises.append(
                -theory.upper_floor(
                    gap,
                    order=bound.order,
                    modulus=bound.modulus,
                    gradient_bound=bound.gradient_bound,
                )
            )
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
        if not 0.5 * depth * depth * PROMISING * g.known_lipschitz > excess or not g.growth > 0.0:
            return math.inf
        d = math.sqrt(2.0 * excess / g.growth)
        return d if d < depth else math.inf


def _depth(domain: Domain, x: Array) -> float:
    """A ball of this radius around x lies in the set; 0 where none is known."""
    size, unit = arrays.norm(x), 64.0 * arrays.epsilon(x)
    if isinstance(domain, Ball):
        center = 0.0 * x if domain.center is None else arrays.like(domain.center, x)
        inside = domain.radius - arrays.norm(x - center)
        return max(inside - unit * (domain.radius + size + arrays.norm(center)), 0.0)
    if isinstance(domain, Box):
        xp, (lower, upper) = arrays.namespace(x), domain._bounds(x)
        inside = min(float(xp.min(x - lower)), float(xp.min(upper - x)))
        return max(inside * (1.0 - unit) - unit * size, 0.0)
    return 0.0
