"""Bounds on f* and g* from sums of minorants: which sums to try, and with which factors.

See `tiebreak.proofs.accumulator` for the inequality. The weights in that inequality are free, so
several sums are kept: the whole run, its tails from every power of two, and the last cut alone. For
each sum we search for the best common factor on its cuts, and we use the best bound found. A
constant below f1 or g1 is also a minorant and may be mixed in: on an unbounded Z, mixing moves the
slope into the dual ball of a penalty. The bound g2(x*) <= ghat - inf g1 limits the size of x*.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from tiebreak.functions import Function, split
from tiebreak.linalg import EPS, TINY, TOL, Array, arrays, in_files, rounding_unit
from tiebreak.problem import Problem
from tiebreak.proofs.concave import Concave, largest
from tiebreak.proofs.models import Low, Model
from tiebreak.proofs.regions import SolutionRegion
from tiebreak.sets import Domain

# the distances to try from the boundary of a dual ball
MARGINS = (1e-13, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)


@in_files("Bound")
class Bound(NamedTuple):
    """min { f : g <= c } >= value - multiplier (c - level) for all c; for c = g* this bounds f*.

    The multiplier is the total weight of g's minorants relative to that of f's minorants: the rate
    at which the bound decreases as c increases.
    """

    value: float
    multiplier: float
    level: float

    def at(self, level: float) -> float:
        """The bound on f if g may be as large as ``level``."""
        return (
            self.value - self.multiplier * (level - self.level) if self.multiplier else self.value
        )


@in_files("block")
class Block(NamedTuple):
    """The sums of the steps from one power of two to the next."""

    upper: Model
    cuts: Model
    lower: Model


@in_files("Known")
class Known(NamedTuple):
    """The bounds proved for a problem, without the evidence."""

    upper_bound: float  # this field and the next four have the same meaning as in `Sums`
    upper_ceiling: float
    lower_bound: float
    ghat: float
    guard: Bound
    rests: str = ""  # the basis of the upper bound on f*: see `Intervals`


@in_files("sums")
class Sums(NamedTuple):
    """The data behind the certificate: only arrays and numbers, which can be saved."""

    steps: int
    blocks: tuple[Block, ...]
    last_upper: Model | None
    last_cut: Model | None
    last_lower: Model | None
    # weight of the last cut divided by that of the last minorant of f; 0 if unknown
    last_ratio: float
    ghat: float  # the smallest upper bound on a value of g in Z, rounding errors included
    upper_bound: float  # a lower bound on f*, the optimum of the upper level
    guard: Bound  # the strongest bound on f at points slightly suboptimal for g
    upper_ceiling: float  # an upper bound on f* that a method has proved in its own way
    lower_bound: float  # a lower bound on g*
    tail: int  # the first block of the best sum for f*; tail_factor is its factor on the cuts
    tail_factor: float
    kept_cut: Model | None  # the best single cut so far; kept_factor is its factor
    kept_factor: float
    lower_tail: int  # the first block of the best sum for g*
    rests: str = ""  # the basis of the upper bound on f*: see `Intervals`

    @property
    def known(self) -> Known:
        """The bounds that the sums prove."""
        ends = self.upper_bound, self.upper_ceiling, self.lower_bound, self.ghat
        return Known(*ends, self.guard, self.rests)

    @property
    def models(self) -> list[Model]:
        """All sums and single minorants that are kept."""
        lasts = (self.last_upper, self.last_cut, self.last_lower, self.kept_cut)
        kept = [model for model in lasts if model is not None]
        return kept + [model for block in self.blocks for model in block]

    def exchanged(self, twins: Mapping[int, Model]) -> Sums:
        """The sums with every model replaced by its twin; ``twins`` is keyed by the model's id."""
        lasts = (self.last_upper, self.last_cut, self.last_lower, self.kept_cut)
        upper, cut, lower, kept = (model and twins[id(model)] for model in lasts)
        return self._replace(
            blocks=tuple(Block(*(twins[id(model)] for model in block)) for block in self.blocks),
            last_upper=upper, last_cut=cut, last_lower=lower, kept_cut=kept,
        )  # fmt: skip


class Search:
    """Turns sums into bounds.

    A search needs about a hundred numbers at a time. If the vectors are on a device and not very
    long, all new vectors are first copied to the host in one transfer.
    """

    def __init__(self, problem: Problem, zero: Array) -> None:
        self._problem, domain, n = problem, problem.domain, int(zero.shape[0])
        # Vectors of up to 2^16 entries are copied to the host, where the search runs.
        self._is_far = type(zero) is not np.ndarray and n <= 2**16
        self._copies: dict[int, tuple[Model, Model]] = {}  # a model and its copy, by the model's id
        if self._is_far:
            zero, domain = np.zeros(n), _on_the_host(domain)
        self._slack = rounding_unit(EPS, n)  # unit for the rounding of a sum over variables
        self._zero = zero
        self._region = SolutionRegion(*problem.penalties, domain, problem.radius, zero)
        self._floors = tuple(self._floor(h) for h in (problem.upper, problem.lower))

    def improved(self, sums: Sums, effort: int) -> Sums:
        """The sums, updated with the best bounds on f* and g* that the search finds.

        ``effort``: the number of factors on the cuts to try per sum, starting from the last best
        factor.
        """
        self._region.narrow(sums.steps, self._solution_radius(sums.ghat))
        found = self._by_lower_sums(self._on_the_host(sums) if self._is_far else sums)
        if math.isfinite(sums.ghat) and (upper := found.last_upper) is not None:
            found, by_tails = self._by_tails(found, effort)
            found, by_cuts = self._by_single_cuts(found, upper, effort)
            found = _with_bounds(found, [*by_tails, *by_cuts])
        if self._is_far:
            found = found.exchanged({id(copy): model for model, copy in self._copies.values()})
        return found

    def slope(self, model: Model) -> Array:
        """The slope of a model in the latest sums; if a copy is on the host, the copy's slope."""
        return self._copies.get(id(model), (model, model))[1].slope

    def _on_the_host(self, sums: Sums) -> Sums:
        """The sums with copies of all their vectors; earlier copies are reused."""
        models = sums.models
        new = [model for model in models if id(model) not in self._copies]
        if new:
            xp = arrays.namespace(new[0].slope)
            slopes = arrays.to_numpy(xp.stack([model.slope for model in new]))
            for model, slope in zip(new, slopes, strict=True):
                self._copies[id(model)] = model, model._replace(slope=slope)
        self._copies = {id(model): self._copies[id(model)] for model in models}
        return sums.exchanged({key: copy for key, (_, copy) in self._copies.items()})

    def _solution_radius(self, ghat: float) -> float:
        """A bound on |x*| for all solutions, from g2(x*) <= ghat - inf g1; inf if there is none."""
        terms, floor = self._problem.penalties[1].terms, self._problem.lower.lower_bound
        level = ghat - floor + self._slack * (abs(ghat) + abs(floor)) + TINY
        return terms.extent(int(self._zero.shape[0]), level) if 0.0 < level < math.inf else math.inf

    def _floor(self, h: Function) -> Model | None:
        """The constant minorant of h's smooth part; None if no penalty makes mixing worthwhile."""
        if not split(h)[1].terms.has_weights or math.isinf(h.lower_bound):
            return None
        of_f, of_g = float(h is self._problem.upper), float(h is not self._problem.upper)
        error = self._slack * abs(h.lower_bound)
        return Model(of_f, of_g, h.lower_bound, self._zero, 0.0, error, 0.0)

    def _by_lower_sums(self, s: Sums) -> Sums:
        """Bounds on g* from the minima over Z of the last minorants and of averages over tails."""
        if not s.blocks:
            return s
        best, favourite = -math.inf, s.last_lower or s.last_cut
        for last in (s.last_lower, s.last_cut):
            if last is not None:
                bound = self._region.minimum(last).value
                if bound > best:
                    best, favourite = bound, last
        tails = tails_of([block.lower for block in s.blocks])
        tried = []  # the shortest tail, a single step, is the last minorant: tried above
        for start in _starts(len(s.blocks), s.lower_tail, s.steps):
            tail = tails[start]
            if tail.weight > 0.0:
                model = tail.scaled(1.0 / tail.weight)
                tried.append((self._region.minimum(model).value, start, model))
        if tried:
            bound, start, model = max(tried, key=lambda entry: entry[:2])
            s = s._replace(lower_tail=start)
            if bound >= best:
                best, favourite = bound, model
        mixed, _ = self._mixed(self._floors[1], favourite)
        return s._replace(lower_bound=best_of(s.lower_bound, best, mixed))

    def _by_tails(self, s: Sums, effort: int) -> tuple[Sums, list[Bound]]:
        """Bounds on f* from some tails, including the whole run; keep the best tail."""
        bounds: list[Bound] = []
        favourite: tuple[float, int, Model, Model] | None = None
        uppers = tails_of([block.upper for block in s.blocks])
        all_cuts = tails_of([block.cuts for block in s.blocks])
        for start in _starts(len(s.blocks), s.tail, s.steps):
            if uppers[start].weight > 0.0:
                upper, cuts = self._normalised(uppers[start], all_cuts[start], s.ghat)
                t, low = self._lowest(upper, cuts, 1.0)  # factor 1, as in the theorem's proof
                if favourite is None or low.value >= favourite[0]:
                    favourite = low.value, start, upper, cuts
                bounds.append(Bound(low.value, t * cuts.weight, s.ghat))
        if favourite is not None:
            _, start, upper, cuts = favourite
            value, factor = largest(self._along(upper, cuts), s.tail_factor, effort)
            bounds += self._two_bounds(value, upper, cuts, factor, s.ghat)
            s = s._replace(tail=start, tail_factor=factor)
        return s, bounds

    def _by_single_cuts(self, s: Sums, upper: Model, effort: int) -> tuple[Sums, list[Bound]]:
        """Bounds on f* from one cut and f's last minorant; often best if f is curved or a norm.

        A cut that was best once stays a candidate, because ghat keeps decreasing.
        """
        is_curved = upper.curvature > 0.0 or self._problem.penalties[0].terms.has_weights
        cuts = (s.kept_cut, s.last_cut, s.last_lower) if is_curved else (s.last_cut,)
        race = []
        for cut in cuts:
            if cut is not None:
                start = s.kept_factor if cut is s.kept_cut else s.last_ratio or s.kept_factor
                along = self._along(*self._normalised(upper, cut, s.ghat))
                race.append((*largest(along, start, effort), cut))
        if not race:
            return s, []
        value, factor, cut = max(race, key=lambda entry: entry[0])
        base, move = self._normalised(upper, cut, s.ghat)
        bounds = self._two_bounds(value, base, move, factor, s.ghat)
        return s._replace(kept_cut=cut, kept_factor=factor), bounds

    def _two_bounds(
        self, value: float, upper: Model, cuts: Model, factor: float, ghat: float
    ) -> list[Bound]:
        """Two bounds on f*: ``value``, and the bound after mixing in a constant minorant of f."""
        mixed, share = self._mixed(self._floors[0], upper.plus(cuts, factor))
        multiplier = factor * cuts.weight
        return [Bound(value, multiplier, ghat), Bound(mixed, share * multiplier, ghat)]

    def _normalised(self, upper: Model, cuts: Model, ghat: float) -> tuple[Model, Model]:
        """Averaged minorants of f1, and weighted cuts minus ghat, which are at most 0 at x*."""
        upper, cuts = upper.scaled(1.0 / upper.weight), cuts.scaled(1.0 / upper.weight)
        # l_g,i(x) + g2(x) - ghat <= 0 at x*; ghat already includes its rounding error.
        cuts = cuts._replace(
            constant=cuts.constant - ghat * cuts.weight,
            value_error=cuts.value_error + self._slack * abs(ghat) * cuts.weight,
        )
        return upper, cuts

    def _mixed(self, floor: Model | None, model: Model | None) -> tuple[float, float]:
        """The best bound from t model + (1 - t) floor, and t: any mixture of minorants is one."""
        if floor is None or model is None:
            return -math.inf, 0.0
        along = self._along(floor, model.plus(floor, -1.0))
        return largest(along, 1.0, TOL.refinements, ceiling=1.0)

    def _along(self, base: Model, move: Model) -> Concave:
        """The concave function t -> min_Z (base + t move) with its derivative: see `_lowest`."""

        def bound(t: float) -> tuple[float, float, float]:
            t, low = self._lowest(base, move, t)
            if low.at is None:
                return t, low.value, math.inf if low.fall is None else 0.0
            return t, low.value, self._region.value(move, low.at)

        return bound

    def _lowest(self, base: Model, move: Model, t: float) -> tuple[float, Low]:
        """min_Z of base + t move.

        If the model is unbounded below at t, we move t to a value at which the model is bounded, if
        possible.
        """
        low = self._region.minimum(base.plus(move, t))
        for margin in MARGINS:
            if low.fall is None:
                break
            # Along some direction the sum decreases forever, at a rate that is linear in t.
            at_0, at_t = low.fall(base), min(low.fall(base.plus(move, t)), 0.0)
            ratio = at_0 / (at_0 - at_t) if at_0 != at_t else 0.0
            if not 0.0 < t * ratio < arrays.HUGE:  # the sum decreases forever for every t
                return t, Low(fall=low.fall)
            t *= ratio * (1.0 - margin if at_0 > 0.0 else 1.0 + margin)
            low = self._region.minimum(base.plus(move, t))
        return t, low


def _on_the_host(domain: Domain) -> Domain:
    """The same set with its vectors (if it has any) moved to the host."""
    assert dataclasses.is_dataclass(domain)
    fields = {each.name: getattr(domain, each.name) for each in dataclasses.fields(domain)}
    far = {name: arrays.to_numpy(part) for name, part in fields.items() if arrays.is_array(part)}
    return dataclasses.replace(domain, **far) if far else domain


def _with_bounds(s: Sums, bounds: Sequence[Bound]) -> Sums:
    """The sums, updated with the best of ``bounds`` on f* and with the best guard."""
    bounds = [bound for bound in bounds if math.isfinite(bound.value)]
    # Guards are compared at four times the proved gap of g: see `certificate.Standing`.
    level = s.ghat + 4.0 * max(s.ghat - s.lower_bound, 0.0)
    guard = max((s.guard, *bounds), key=lambda bound: (bound.at(level), bound.value))
    best = best_of(s.upper_bound, *(bound.value for bound in bounds))
    return s._replace(upper_bound=best, guard=guard)


def best_of(*bounds: float) -> float:
    """The largest finite bound (bounds that overflowed are ignored); -inf if there is none."""
    return max(filter(math.isfinite, bounds), default=-math.inf)


def _starts(blocks: int, favourite: int, turn: int) -> set[int]:
    """The blocks at which we try to start a tail, because trying every block would cost too much.

    These blocks are the first (the whole run), the last but one, the best one so far and its
    successor, and one more in rotation, so that every block is tried eventually.
    """
    return {0, max(blocks - 2, 0), favourite, min(favourite + 1, blocks - 1), turn % blocks}


def tails_of(models: Sequence[Model]) -> list[Model]:
    """The sums of all blocks from the first on, from the second on, and so on."""
    sums = accumulate(reversed(models), lambda total, model: model.plus(total))
    return list(sums)[::-1]
