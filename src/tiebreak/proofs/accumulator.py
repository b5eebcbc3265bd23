"""Sums the minorants that a method produces, for bounds on f* and g*.

Let f = f1 + f2 and g = g1 + g2, with minorants l_f,i of f1 and l_g,i of g1, weights a_i, mu_i >= 0,
and ghat >= g* a computed value of g at a point of Z. Then

    f*  >=  (1/sum a_i) min_{x in Z} [ sum a_i (l_f,i + f2)(x) + sum mu_i (l_g,i + g2 - ghat)(x) ].

The reason is that x* lies in Z and (l_g,i + g2)(x*) <= g* <= ghat. Similarly, g* is at least the
minimum over Z of g2 plus any average of l_g,i. The weights may be chosen freely;
`tiebreak.proofs.bounds` decides which sums to try. Bounds on rounding errors are subtracted: a
certificate may be loose, but it is never wrong.

This package does not depend on any method: a method only supplies `StepEvidence`. This module sums
the evidence, and a `Certifier` (certificate.py) says what the bounds mean for a point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from tiebreak.functions import Function, Minorant, split
from tiebreak.linalg import EPS, TINY, Array, arrays, deadline, rounding_unit
from tiebreak.problem import Problem
from tiebreak.proofs.bounds import Block, Bound, Known, Search, Sums, best_of
from tiebreak.proofs.evidence import (
    Intervals,
    Measured,
    StepEvidence,
    has_error_bounds,
    measured,
    minorant_errors,
    value_error,
)
from tiebreak.proofs.models import Model

HOST_LENGTH = 2**14  # longest vectors that may wait in the host's memory, a few megabytes in total
DEVICE_LENGTH = 2**20  # longest vectors that may wait on a device, which has gigabytes of memory


class BoundAccumulator:
    """Sums the evidence from a run, and turns the sums into bounds on f* and g*.

    On a device, fetching a number costs more than the arithmetic. On the host, code that has not
    run for a while is slow compared with the matrix products of a step. So the evidence from eight
    steps is collected and measured together (unless the vectors are long), and it is summed later
    still.
    """

    def __init__(self, problem: Problem, x0: Array, sums: Sums | None = None) -> None:
        self.problem = problem
        limit = HOST_LENGTH if arrays.namespace(x0) is np else DEVICE_LENGTH
        self._batch = 8 if x0.shape[0] <= limit else 1
        self._waiting: list[StepEvidence] = []
        self._measured: list[tuple[StepEvidence, Iterator[Measured]]] = []
        (zero,) = arrays.doubles([arrays.zeros_like(x0)])
        self._nothing = Model(0.0, 0.0, 0.0, zero, 0.0, 0.0, 0.0)
        self._search = Search(problem, zero)
        self._has_errors = has_error_bounds(problem.upper), has_error_bounds(problem.lower)
        self.refuted: bool = False  # was one of the user's promises found to be false?
        self.is_steep: bool = False  # does f rise faster than its Lipschitz constant allows?
        self._has_minimiser = False  # is it proved that g has a minimiser?
        # For an f or g that is a `Sum`, the total size of its parts, whose values may cancel.
        self.part_sizes: tuple[float, float] = (0.0, 0.0)
        self._is_good = True  # was all evidence summed since the last `add` finite?
        self._sums = sums or Sums(
            steps=0, blocks=(), last_upper=None, last_cut=None, last_lower=None, last_ratio=0.0,
            ghat=math.inf,
            upper_bound=problem.upper.lower_bound,
            guard=Bound(problem.upper.lower_bound, 0.0, 0.0), upper_ceiling=math.inf,
            lower_bound=problem.lower.lower_bound,
            tail=0, tail_factor=1.0, kept_cut=None, kept_factor=1.0, lower_tail=0,
        )  # fmt: skip

    def add(self, evidence: StepEvidence) -> bool:
        """Add the evidence from a step; return False if waiting evidence was dropped as non-finite.

        It does not matter when evidence is summed: on the host, the sums are the same, bit for bit.
        `add` measures the evidence, because a device is idle at that moment. `catch_up` sums it
        later; evidence with long vectors is measured and summed at once. Minorants of a level
        whose rounding errors are unknown prove nothing.
        """
        if not self._has_errors[0]:
            evidence = evidence._replace(upper=())
        if not self._has_errors[1]:
            evidence = evidence._replace(cuts=(), lower=(), values=())
        self._waiting.append(evidence)
        if len(self._waiting) >= self._batch:
            self._measure()
        if self._batch == 1:
            self.catch_up()
        was_good, self._is_good = self._is_good, True
        return was_good

    def catch_up(self) -> None:
        """Sum all measured evidence; call this while waiting for data."""
        taken, self._measured = self._measured, []
        for evidence, sizes in taken:
            self._is_good &= self._sum_up(evidence, sizes)

    @property
    def sums(self) -> Sums:
        """All sums and bounds so far."""
        if self._waiting or self._measured:
            self._measure()
            self.catch_up()
        return self._sums

    def _measure(self) -> None:
        """Measure all waiting evidence, and update the bounds with its values.

        If the vectors are on a device, all numbers are fetched in a single transfer.
        """
        self.catch_up()  # evidence is summed in the order of the steps
        waiting, self._waiting = self._waiting, []
        found = [[m for _, m in (*e.upper, *e.cuts, *e.lower)] for e in waiting]
        sizes = measured([minorant for some in found for minorant in some])
        self._measured += [
            (evidence, iter(list(itertools.islice(sizes, len(some)))))
            for evidence, some in zip(waiting, found, strict=True)
        ]
        values = [value for evidence in waiting for value in evidence.values]
        if values:
            self._lower_ghat(values)
        # The growth of g is expensive: skip it at the start, or if a method has its own bounds.
        has_stepped = any(evidence.lower or evidence.cuts for evidence in waiting)
        has_bounds = any(evidence.intervals is not None for evidence in waiting)
        if values and has_stepped and not has_bounds and self._growth > 0.0:
            self._raise_lower_bound([near for _, _, near in values])

    @cached_property
    def _growth(self) -> float:
        """The quadratic growth constant of g on R^n; computing it requires a factorisation."""
        if not self.problem.domain.is_space:
            return 0.0
        return deadline.unless_too_long(lambda: self.problem.lower.growth, 0.0)

    # -- values of g ----------------------------------------------------------------------------

    def _lower_ghat(self, values: Sequence[tuple[float, Array, Minorant]]) -> None:
        """Lower ghat, using the smallest value and then others still below it (usually none)."""
        ghat, values = self._sums.ghat, sorted(values, key=lambda entry: entry[0])
        for some in (values[:1], values[1:]):
            if below := [entry for entry in some if entry[0] < ghat]:
                ghat = min(ghat, *self._values_above(below))
        self._sums = self._sums._replace(ghat=ghat)

    def _values_above(self, values: Sequence[tuple[float, Array, Minorant]]) -> list[float]:
        """Upper bounds on the true values of g at points of Z, each with a nearby minorant."""
        g, n = self.problem.lower, int(self._nothing.slope.shape[0])
        lipschitz, terms = g.rough_lipschitz, split(g)[1].terms
        vectors = arrays.doubles(
            [v for _, at, near in values for v in (at, near.slope, at - near.at)]
        )
        squares = arrays.dots(*((v, v) for v in vectors))
        sizes = iter([arrays.norm(*known) for known in zip(vectors, squares, strict=True)])
        reaches = arrays.floats([near.reach for _, _, near in values])
        bounds = []
        for (value, at, near), reach in zip(values, reaches, strict=True):
            size, steepness, distance = next(sizes), next(sizes), next(sizes)
            # The point is in Z only up to rounding, so we bound g at the nearest point of Z.
            outside = self.problem.domain.distance_bound(at, size)
            moved = outside  # without a Lipschitz constant, no slope is known there
            if math.isfinite(lipschitz):
                steepness, moved = steepness + lipschitz * (distance + outside), 0.0
            extent = max(size, reach) if near.reach is not None else g.extent(at)
            error = value_error(g, at, extent, value, near.size, steepness, moved)
            steepness += terms.steepness(n, size + outside)
            bounds.append(value + error + outside * steepness + TINY)
        return bounds

    def _raise_lower_bound(self, minorants: Sequence[Minorant]) -> None:
        """Raise the lower bound to g(x) - |grad g(x)|²/(2 mu) if g - g* >= mu/2 dist² on R^n."""
        bounds = []
        for near, sizes in zip(minorants, measured(minorants), strict=True):
            errors = minorant_errors(self.problem.lower, near, sizes.reach, sizes.steepness)
            slope = sizes.steepness + errors[1]
            bounds.append(near.value - errors[0] - slope * (slope / (2.0 * self._growth)) - TINY)
        self._sums = self._sums._replace(lower_bound=best_of(self._sums.lower_bound, *bounds))

    # -- minorants ------------------------------------------------------------------------------

    def _sum_up(self, evidence: StepEvidence, sizes: Iterator[Measured]) -> bool:
        """Sum the measured minorants of one step; return False if any minorant is not finite."""
        f, g = self.problem.upper, self.problem.lower
        uppers = [(w, self._model(f, m, next(sizes), 1.0, 0.0)) for w, m in evidence.upper]
        cuts = [(w, self._model(g, m, next(sizes), 0.0, 1.0)) for w, m in evidence.cuts]
        lowers = [(w, self._model(g, m, next(sizes), 0.0, 1.0)) for w, m in evidence.lower]
        if not all(model.is_finite for _, model in (*uppers, *cuts, *lowers)):
            return False
        of_f, of_g = self.part_sizes
        self.part_sizes = (
            max((minorant.size for _, minorant in evidence.upper), default=of_f),
            max((minorant.size for _, minorant in (*evidence.lower, *evidence.cuts)), default=of_g),
        )
        if evidence.intervals is not None:
            self._take_over(evidence.intervals)
        s = self._sums
        steps, blocks = s.steps, s.blocks
        if uppers or cuts or lowers:
            if steps & (steps - 1) == 0:  # start a block at step 0 and every power of two
                blocks = (*blocks, Block(self._nothing, self._nothing, self._nothing))
            # Any weights are valid, so we drop a multiplier that would swamp all others.
            sane = [
                (w, m)
                for w, m in cuts
                if 0.0 < w * (1.0 + m.value_error + m.slope_error) < arrays.HUGE
            ]
            *before, block = blocks
            sums = map(_plus_all, block, (uppers, sane, lowers))
            steps, blocks = steps + 1, (*before, Block(*sums))
        has_ratio = cuts and uppers and uppers[-1][0] > 0.0  # the weight may have underflowed
        self._sums = s._replace(
            steps=steps, blocks=blocks,
            last_upper=uppers[-1][1] if uppers else s.last_upper,
            last_cut=cuts[-1][1] if cuts else s.last_cut,
            last_lower=lowers[-1][1] if lowers else s.last_lower,
            last_ratio=cuts[-1][0] / uppers[-1][0] if has_ratio else s.last_ratio,
        )  # fmt: skip
        return True

    def _model(
        self, h: Function, minorant: Minorant, sizes: Measured, upper: float, lower: float
    ) -> Model:
        """The model value + <slope, x - at> + sigma/2 |x - at|², with rounding error bounds."""
        at, slope, inner, size, steepness, reach = sizes
        sigma = h.strong_convexity - h.defect
        of_value, of_slope = minorant_errors(h, minorant, reach, steepness)
        constant = minorant.value - inner
        if sigma != 0.0:
            slope = arrays.plus(slope, at, -sigma)
            constant += 0.5 * sigma * size * size
        # The rounding errors of a sum over the variables, and of the sums of models and of their
        # weights over the steps.
        slack = rounding_unit(EPS, int(slope.shape[0])) + EPS * self._sums.steps
        of_value += of_slope * size + slack * (
            abs(minorant.value) + steepness * size + abs(sigma) * size * size
        )
        of_slope += slack * (steepness + abs(sigma) * size) + TINY
        return Model(upper, lower, constant, slope, sigma, of_value + TINY, of_slope)

    def _take_over(self, known: Intervals) -> None:
        """Adopt bounds that a method or another run has proved."""
        self._has_minimiser |= known.has_minimiser
        (low, high), s = known.upper, self._sums
        self._sums = s._replace(
            upper_bound=max(s.upper_bound, low),
            upper_ceiling=min(s.upper_ceiling, high),
            rests=known.rests if high < s.upper_ceiling else s.rests,
            lower_bound=max(s.lower_bound, known.lower),
        )

    def inherit(self, other: BoundAccumulator) -> None:
        """Adopt another run's bounds and warnings for the same problem, but not its sums."""
        self.refuted |= other.refuted
        self.is_steep |= other.is_steep
        self.take_over(other.sums.known)

    def take_over(self, known: Known) -> None:
        """Adopt the bounds that are already known for this problem."""
        s = self.sums
        guard = known.guard if known.guard.value > s.guard.value else s.guard
        self._sums = s._replace(ghat=min(s.ghat, known.ghat), guard=guard)
        ends = known.upper_bound, known.upper_ceiling
        self._take_over(Intervals(ends, known.lower_bound, rests=known.rests))

    @property
    def has_optimum(self) -> bool:
        """Is it proved that g has a minimiser and that f is bounded below over the minimisers?"""
        return self.sums.upper_bound > -math.inf and self._has_minimiser

    # -- bounds ---------------------------------------------------------------------------------

    def bounds(self, effort: int = 5) -> tuple[float, float]:
        """The best proved lower bounds on f* and on g* so far; -inf for a bound that is missing.

        ``effort``: the number of factors on the cuts to try per sum, starting from the last best
        factor.
        """
        self._sums = self._search.improved(self.sums, effort)
        return self._sums.upper_bound, self._sums.lower_bound

    @property
    def is_contradicted(self) -> bool:
        """Is g* proved to be above a value of g, or was one of the user's promises refuted?"""
        return self.refuted or self.sums.lower_bound > self.sums.ghat

    def steepness(self, model: Model, size: float) -> float:
        """A bound on the norm of the gradient of a summed model at all x with |x| <= size."""
        return arrays.norm(self._search.slope(model)) + abs(model.curvature) * size


def _plus_all(total: Model, weighted: Sequence[tuple[float, Model]]) -> Model:
    """Add weighted minorants to a sum."""
    for weight, model in weighted:
        total = total.plus(model, weight)
    return total
