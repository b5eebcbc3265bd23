"""The minimum of a model over the region where x* can be.

      Z +----------------+
        |       (. . . . | . . )
        |     (    x*    |   0   )   |x| <= R
        |       (. . . . | . . )
        +----------------+

x* lies in Z, and also in the ball |x| <= R if a radius R was promised or follows from
g2(x*) <= ghat - inf g1. The minimum includes f2 and g2, with the model's weights.

Each kind of region has its own way to compute a lower bound, ``minimum(model) -> Low``:

- `BallRegion` uses only the ball: Z is R^n, or a ball around 0. - `SetRegion` uses Z and the ball
without penalties, using a projection or linear minimisation. - `PenalisedRegion` uses penalties
that are norms, and also Z and the ball if a joint prox exists. - `SolutionRegion` takes the best
bound from those of these regions that apply.

A bound over a larger region is valid for a smaller one, so we use the largest bound. The bound is
-inf if the model is unbounded below on all these regions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import cached_property

from tiebreak.functions import Joint, Penalty, Terms, Zero, joint
from tiebreak.linalg import EPS, TOL, Array, arrays, rounding_unit
from tiebreak.proofs.models import Low, Model
from tiebreak.sets import Ball, Domain, Space

SMALLEST_RADIUS = 2.0**-500  # a smaller radius counts as 0
WEIGHTS = 8  # number of multipliers of the constraint |x| <= R to try


class SolutionRegion:
    """The points of ``domain`` that may be x*: those with |x| <= radius, if a radius is known.

    If f2, g2 and the domain have no joint prox, we try all the largest subsets of {f2, g2, domain}
    that have one, because the minimum for each subset is a lower bound on the minimum for all
    three.
    """

    def __init__(
        self, f2: Penalty, g2: Penalty, domain: Domain, radius: float | None, zero: Array
    ) -> None:
        self._penalties, self._domain, self._zero = (f2, g2), domain, zero
        self._reach, self._radius = domain.farthest(zero), radius
        is_round = domain.as_ball is not None and domain.as_ball[0] is None
        # If a set has no projection and no argmin, only its size can be used.
        self._is_size_enough = is_round or not (domain.has_projection or domain.has_argmin)
        self.narrow(0, math.inf)

    def narrow(self, steps: int, radius: float) -> None:
        """Prepare for models that sum ``steps`` steps, given that |x*| <= radius."""
        if radius < self._size:
            self._radius = max(radius, SMALLEST_RADIUS)
        # The rounding error of a sum over the variables.
        self._slack = slack = rounding_unit(EPS, int(self._zero.shape[0]))
        # The weights and curvatures are rounded sums; slightly smaller ones are safe.
        self._safe = 1.0 - slack - 0.5 * EPS * steps
        self._plain: BallRegion | SetRegion = (
            BallRegion(self._size, self._zero, slack)
            if self._is_size_enough
            else SetRegion(self._domain, self._reach, self._radius, self._zero, slack)
        )

    @cached_property
    def _joints(self) -> Sequence[Joint]:
        return _largest_joint_parts(*self._penalties, self._domain)

    @property
    def _size(self) -> float:
        """A bound on |x| over the region."""
        return min(self._reach, self._radius or math.inf)

    def value(self, model: Model, x: Array) -> float:
        """The value of the model with its penalties at x, minus the possible errors at x."""
        f2, g2 = self._penalties
        value, size = model.at(x)
        if model.upper != 0.0:
            value += model.upper * f2.value(x)
        if model.lower != 0.0:
            value += model.lower * g2.value(x)
        return value - model.value_error - model.slope_error * size

    def minimum(self, model: Model) -> Low:
        """A lower bound on the model with its penalties over the part of Z where x* can be."""
        f2, g2 = self._penalties
        square = model.upper * f2.strong_convexity + model.lower * g2.strong_convexity
        lost = (1.0 - self._safe) * (abs(model.curvature) + square)
        model = model._replace(curvature=model.curvature + square - lost)
        if model.curvature < 0.0:  # the model is not quite convex: account for that first
            paid = model.constant + 0.5 * model.curvature * self._size * self._size
            if not math.isfinite(paid):
                return Low()
            model = model._replace(curvature=0.0, constant=paid)
        about = self._plain, self._size, self._slack, self._safe
        lows = [
            (PenalisedRegion(part, *about) if part.has_norms else self._plain).minimum(model)
            for part in self._joints
        ]
        best = _highest(*lows)
        if best.value == -math.inf:
            return next((low for low in lows if low.fall is not None), best)
        return best


@dataclasses.dataclass(frozen=True)
class BallRegion:
    """The ball |x| <= radius, or R^n if the radius is infinite; minima depend only on norms."""

    radius: float
    zero: Array
    slack: float  # the rounding of a sum over the variables

    def minimum(self, model: Model) -> Low:
        """The minimum of constant - |slope| r + q/2 r² over r <= R."""
        q, R, length = model.curvature, self.radius, arrays.norm(model.slope)
        steepness = length * (1.0 + self.slack) + model.slope_error  # the error may point anywhere
        r = min(steepness / q, R) if q > 0.0 else R
        if not math.isfinite(steepness * r):
            return Low()
        fall = steepness * r + model.value_error + self.slack * abs(model.constant)
        x = arrays.stretched(model.slope, length, -r) if length > 0.0 else self.zero
        return Low(model.constant - fall * (1.0 + 8.0 * EPS) + 0.5 * q * r * r, x)


@dataclasses.dataclass(frozen=True)
class SetRegion:
    """A set Z without penalties, with |x| <= radius if a radius is known."""

    domain: Domain
    reach: float  # a bound on |x| in Z
    radius: float | None
    zero: Array
    slack: float  # the rounding of a sum over the variables

    def minimum(self, model: Model) -> Low:
        """The best bound from a projection, from the linear part alone, or from the ball's dual."""
        can_project = self.domain.has_projection
        is_curved = model.curvature > 0.0 and can_project
        candidates = [self._by_projection(model, 0.0)] if is_curved else []
        is_sharp = any(low.is_sharp for low in candidates)
        if math.isfinite(self.reach) and not is_sharp:
            candidates.append(self._at_vertex(model))
            # Without rounding, the first bound is never smaller.
            if is_curved and candidates[0].value < candidates[1].value:
                candidates.append(self._at_vertex(self._flattened(model, candidates[0].at)))
        elif not is_sharp and (sides := self.domain.sides(self.zero)) is not None:
            candidates.append(self._at_corner(model, *sides))
        if can_project and self.radius is not None and self.radius <= self.reach:
            candidates.append(self._in_ball(model, self.radius))
        return _highest(*candidates) if candidates else Low()

    def _by_projection(self, model: Model, weight: float) -> Low:
        """The minimum over Z of the model + weight/2 (|x|² - radius²)."""
        q = model.curvature + weight
        center = model.slope * (-1.0 / q)
        x = self.domain.project(center)
        along, square = arrays.dots((model.slope, x), (x, x))
        size = farthest = arrays.norm(x, square)
        gap = 0.0  # |slope at x|
        if x is not center:
            way = x - center
            squares = arrays.dots((way, way), (center, center))
            gap, farthest = q * arrays.norm(way, squares[0]), arrays.norm(center, squares[1])
        radius = self.radius or 0.0
        ball = 0.5 * weight * radius * radius  # a product, because ** raises on overflow
        bent = 0.5 * q * size * size
        # Slope errors move the minimiser: model - e|x| >= value - e|x_min| - e²/(2q). The
        # projection itself has an error of a few unit roundoffs times the norm of its argument; so
        # has the evaluation.
        e = model.slope_error
        lost = model.value_error + e * size + e * e / (2.0 * q)
        lost += self.slack * (gap + q * size) * (farthest + size)
        if x is not center:
            off = self.domain.projection_error(x, size)
            lost += (gap + q * (size + off)) * off
        lost += self.slack * (abs(model.constant) + 2.0 * ball)
        value = model.constant + along + bent - ball - lost
        return Low(value, x, is_sharp=weight == 0.0 and 2.0 * lost < bent)

    def _in_ball(self, model: Model, radius: float) -> Low:
        """The minimum over the points of Z with |x| <= radius."""
        exact, paid = model._replace(slope_error=0.0), model.slope_error * radius

        def curved(weight: float) -> Low:
            low = self._by_projection(exact, weight)
            return low._replace(value=low.value - paid)  # |x*| <= radius

        steepness = arrays.norm(model.slope)
        if steepness / radius == 0.0:  # the slope is 0
            value = model.constant - model.value_error - paid - steepness * radius
            return Low(value, self.zero)
        return _by_weights(curved, steepness / radius, model.curvature, radius)

    def _at_vertex(self, model: Model) -> Low:
        """The minimum of the linear part over a bounded Z.

        The support function gives the bound, because a vertex of a linear program may not be
        optimal; it is exact up to the rounding of a sum.
        """
        slope = model.slope
        x = self.domain.argmin(slope)
        along, squared = arrays.dots((slope, x), (slope, slope))
        least = min(-self.domain.support(-slope), along)
        value = model.constant + least - model.value_error
        value -= (model.slope_error + self.slack * arrays.norm(slope, squared)) * self.reach
        return Low(value - self.slack * abs(model.constant), x)

    def _flattened(self, model: Model, p: Array) -> Model:
        """A linear minorant: q/2 |x|² >= q <p, x> - q/2 |p|².

        If q is small relative to the slope, rounding spoils the projection, but p still gives a
        good bound.
        """
        q, size = model.curvature, arrays.norm(p)
        rounding = 4.0 * EPS * (arrays.norm(model.slope) + q * size)
        return model._replace(
            constant=model.constant - 0.5 * q * size * size,
            slope=model.slope + q * p,
            curvature=0.0,
            value_error=model.value_error + self.slack * (abs(model.constant) + q * size * size),
            slope_error=model.slope_error + rounding,
        )

    def _at_corner(self, model: Model, low: Array, high: Array) -> Low:
        """The minimum of the linear part over an unbounded box; -inf if a side makes it unbounded.

        The slope error e counts in every coordinate, because |x| <= sum |x_i|.
        """
        xp = arrays.namespace(self.zero)
        e = model.slope_error + self.slack * arrays.norm(model.slope)
        falls_up = (model.slope - e < 0.0) & (high == math.inf)
        falls_down = (model.slope + e > 0.0) & (low == -math.inf)
        if bool(xp.any(falls_up | falls_down)):
            return Low()
        x = xp.where(model.slope >= 0.0, low, high)
        x = xp.where(xp.isfinite(x), x, xp.where(xp.isfinite(low), low, high))
        lengths = [xp.where(xp.isfinite(side), xp.abs(side), self.zero) for side in (low, high)]
        value = model.constant + arrays.dot(model.slope, x) - model.value_error
        value -= e * float(xp.sum(xp.maximum(*lengths)))
        return Low(value - self.slack * abs(model.constant), x)


@dataclasses.dataclass(frozen=True)
class PenalisedRegion:
    """Models with f2 and g2, and with Z and |x| <= reach as far as there is a joint prox."""

    penalties: Joint
    plain: BallRegion | SetRegion  # handles models in which the penalties have no weight
    reach: float
    slack: float  # the rounding of a sum over the variables
    safe: float  # slightly less than 1: a factor on weights that are sums

    def minimum(self, model: Model) -> Low:
        """The minimum of the model plus the penalties, with the model's weights."""
        terms = self.penalties.terms(model.upper, model.lower).times(self.safe)
        if not terms.has_norms:
            return self.plain.minimum(model)
        terms = terms.with_weights(*terms.weights[:3], model.curvature)
        steepness = arrays.norm(model.slope)
        error = model.slope_error + self.slack * steepness
        constant = model.constant - model.value_error - self.slack * abs(model.constant)
        if math.isinf(self.reach):
            low = self._least_with_error(terms, model.slope, error)
        else:
            constant -= error * self.reach  # |x*| <= reach
            low = self._in_ball(terms, model.slope, steepness)
        value = constant + low.value
        if value == -math.inf and math.isinf(self.reach):
            return Low(fall=self._rise_along(terms.falling(model.slope)))
        return low._replace(value=value)

    def _in_ball(self, terms: Terms, slope: Array, steepness: float) -> Low:
        """The minimum of <slope, x> + the terms over their set, with |x| <= reach."""
        reach = self.reach
        if terms.box is None and terms.center is None:
            ball = Ball(min(reach, terms.radius))
            return self._least(dataclasses.replace(terms, domain=ball), slope)
        low = self._least(terms, slope)
        if low.at is not None and not arrays.norm(low.at) > reach:
            return low

        def curved(weight: float) -> Low:
            heavier = terms.with_weights(*terms.weights[:3], terms.square + weight)
            paid = 0.5 * weight * reach * reach * (1.0 + self.slack)
            low = self._least(heavier, slope)
            return low._replace(value=low.value - paid)

        return _highest(low, _by_weights(curved, steepness / reach, terms.square, reach))

    def _least(self, terms: Terms, slope: Array) -> Low:
        """The minimum of <slope, x> + the terms over their set."""
        value, x = terms.least(slope)
        return Low(value - self.slack * abs(value), x)

    def _least_with_error(self, terms: Terms, slope: Array, error: float) -> Low:
        """The minimum of <slope, x> - error |x| + the terms over their set."""
        eased = terms.eased(slope.shape[0], error)
        if eased is not None:
            low = self._least(eased, slope)
            if eased.center is None:
                return low
            away = error * arrays.norm(eased.center) * (1.0 + self.slack)  # |x| <= |x - c| + |c|
            return low._replace(value=low.value - away)
        x = terms.least(slope)[1] if terms.square > 0.0 else None
        if x is None:
            return Low()
        # error |x| <= theta/2 |x|² + error²/(2 theta), and theta = error/|x| is best.
        length = arrays.norm(x)
        theta = min(error / length if length > 0.0 else math.inf, 0.5 * terms.square)
        low = self._least(terms.with_weights(*terms.weights[:3], terms.square - theta), slope)
        return low._replace(value=low.value - error * error / theta)

    def _rise_along(self, direction: Array | None) -> Callable[[Model], float] | None:
        """The rate at which a model with its penalties rises along a direction."""
        if direction is None:
            return None
        return lambda model: (
            arrays.dot(model.slope, direction)
            + dataclasses.replace(
                self.penalties.terms(model.upper, model.lower), center=None
            ).value(direction)
        )


def _highest(*lows: Low) -> Low:
    """The largest of the given lower bounds."""
    return max(lows, key=lambda low: low.value)


def _largest_joint_parts(f2: Penalty, g2: Penalty, domain: Domain) -> Sequence[Joint]:
    """f2, g2 and the domain together, or the largest subsets of the three with a joint prox."""
    found: dict[frozenset[int], Joint] = {}
    for some in ((0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,), (2,)):
        part = frozenset(some)
        if any(part < larger for larger in found):
            continue
        with contextlib.suppress(ValueError):
            found[part] = joint(
                f2 if 0 in part else Zero(),
                g2 if 1 in part else Zero(),
                domain if 2 in part else Space(),
            )
    return list(found.values())


def _by_weights(
    curved: Callable[[float], Low], weight: float, curvature: float, radius: float
) -> Low:
    """The best value of ``curved(weight)``, the minimum of a model + weight/2 (|x|² - radius²).

    The weight is the multiplier of |x| <= radius: any weight gives a bound, and the best gives
    |x| = radius.
    """
    best = Low()
    for _ in range(WEIGHTS):
        if not weight > 0.0:
            break
        low = curved(weight)
        best = _highest(best, low)
        if low.at is None:
            break
        longer = max(arrays.norm(low.at) / radius, TOL.settled)
        if abs(longer - 1.0) < TOL.accurate:
            break
        weight = max((curvature + weight) * longer - curvature, TOL.settled * weight)
    return best
