"""Models from below, and their minimum over the part of a set where x* can be."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tiebreak.functions.joint_prox import Joint, joint
from tiebreak.functions.penalties import Penalty, Zero
from tiebreak.functions.terms import Terms
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array, rounding_unit
from tiebreak.sets.domains import Ball, Box, Domain, Space, projection_error

Concave = Callable[[float], tuple[float, float, float]]  # t -> t, value and derivative
UNIT = 2.0**-52  # models are kept in float64 whatever the problem's own precision
SMALLEST = 2.0**-500  # a radius below this is as good as 0


class Model(NamedTuple):
    """A weighted sum of minorants of f1 and g1: constant + <slope, x> + curvature/2 |x|².

    ``upper`` and ``lower`` are the sums of the weights; f2 and g2 come with the same weights.  The
    true sum at x, without them, is at least this minus value_error + slope_error |x|.
    """

    upper: float
    lower: float
    constant: float
    slope: Array
    curvature: float
    value_error: float
    slope_error: float

    @property
    def weight(self) -> float:
        """The sum of all weights."""
        return self.upper + self.lower

    @property
    def is_finite(self) -> bool:
        """Are all its numbers finite (the slope by its error, which contains its norm)?"""
        return math.isfinite(self.constant) and math.isfinite(self.slope_error)

    def plus(self, other: Model, factor: float = 1.0) -> Model:
        """This sum plus ``factor`` times another."""
        return Model(  # written out, for this is done ten times in a step
            self.upper + factor * other.upper,
            self.lower + factor * other.lower,
            self.constant + factor * other.constant,
            arrays.plus(self.slope, other.slope, factor),
            self.curvature + factor * other.curvature,
            self.value_error + factor * other.value_error,
            self.slope_error + factor * other.slope_error,
        )

    def scaled(self, factor: float) -> Model:
        """``factor`` times this sum."""
        return Model(*(factor * part for part in self))

    def at(self, x: Array) -> tuple[float, float]:
        """Its value at x, and |x|."""
        along, square = arrays.dots((self.slope, x), (x, x))
        value = self.constant + along + 0.5 * self.curvature * square
        return value, arrays.norm(x, square)


class Low(NamedTuple):
    """A lower bound on a model, and where it is attained, if anywhere.

    ``fall`` tells how fast a model rises, or falls, along a direction in which this one falls for
    ever; None where no such direction is known. ``is_sharp``: its rounding errors are less than
    what the curvature adds to the linear part, so that a bound on that part alone is no better.
    """

    value: float = -math.inf
    at: Array | None = None
    fall: Callable[[Model], float] | None = None
    is_sharp: bool = False


class Region:
    """The points of ``domain`` where x* can be: those with |x| <= radius, if one is known.

    Penalties f2 and g2 that have no joint prox with the domain are relaxed: all the largest parts
    of {f2, g2, domain} that have one are tried, for each bounds the whole from below.
    """

    def __init__(
        self, f2: Penalty, g2: Penalty, domain: Domain, radius: float | None, zero: Array
    ) -> None:
        self._penalties, self._domain, self._radius, self._zero = (f2, g2), domain, radius, zero
        self._slack = rounding_unit(UNIT, int(zero.shape[0]))  # of a sum over the variables
        self._reach = domain.farthest(zero)  # a bound on |x*|
        self._pairs = _largest_joint_parts(f2, g2, domain)
        is_ball = type(domain) is Ball and domain.center is None
        self._is_round = is_ball or type(domain) is Space  # and the origin is its middle
        self._steps = 0

    def after(self, steps: int, radius: float) -> Region:
        """The region for sums over so many steps, where |x*| <= radius too is known by now."""
        region = copy.copy(self)
        region._steps = steps
        if radius < self._size:
            region._radius = max(radius, SMALLEST)
        return region

    @property
    def _size(self) -> float:
        """|x| is at most this in all of it."""
        return min(self._reach, self._radius or math.inf)

    def value(self, model: Model, x: Array) -> float:
        """The model with its penalties at x, less the errors that it may have there."""
        f2, g2 = self._penalties
        value, size = model.at(x)
        if model.upper != 0.0:
            value += model.upper * f2.value(x)
        if model.lower != 0.0:
            value += model.lower * g2.value(x)
        return value - model.value_error - model.slope_error * size

    def minimum(self, model: Model) -> Low:
        """A lower bound on the model with its penalties over the part of Z where x* can be.

        -inf where nothing bounds it from below.
        """
        lows = [self._minimum(model, pair) for pair in self._pairs]
        best = max(lows, key=lambda low: low.value)
        if best.value == -math.inf:
            return next((low for low in lows if low.fall is not None), best)
        return best

    def _minimum(self, model: Model, pair: Joint) -> Low:
        """The same where ``pair`` is all that is known of the penalties and of Z."""
        # The weights are sums, which round; smaller ones are safe.
        safe = 1.0 - self._slack - UNIT * self._steps
        f2, g2 = self._penalties
        square = model.upper * f2.strong_convexity + model.lower * g2.strong_convexity
        if square > 0.0:
            model = model._replace(curvature=model.curvature + safe * square)
        reach = self._size
        if model.curvature < 0.0:  # a function that is not quite convex: pay for it at once
            paid = model.constant + 0.5 * model.curvature * reach * reach
            model = model._replace(curvature=0.0, constant=paid)
            if not math.isfinite(paid):
                return Low()
        if not pair.has_norms:
            return self._without_norms(model)
        terms = pair.terms(model.upper, model.lower).times(safe)
        if not any(terms.weights[:3]):
            return self._without_norms(model)
        terms = terms.with_weights(*terms.weights[:3], model.curvature * (1.0 - self._slack))
        low = self._with_norms(model, terms, reach)
        if low.value == -math.inf and math.isinf(reach):
            return Low(fall=_along_fall(pair, terms.falling(model.slope)))
        return low

    # -- a linear or quadratic function over Z

    def _without_norms(self, model: Model) -> Low:
        if self._is_round:
            return self._along_slope(model)
        radius = self._radius
        candidates = [self._curved(model, 0.0)] if model.curvature > 0.0 else []
        is_sharp = any(low.is_sharp for low in candidates)
        if math.isfinite(self._reach) and not is_sharp:
            candidates.append(self._at_vertex(model))
            # Without rounding the first is never the smaller one.
            if model.curvature > 0.0 and candidates[0].value < candidates[1].value:
                candidates.append(self._at_vertex(self._flattened(model, candidates[0].at)))
        elif isinstance(self._domain, Box) and not is_sharp:
            candidates.append(self._at_corner(model))
        if radius is not None and radius <= self._reach:
            candidates.append(self._in_ball(model, radius))
        return max(candidates, key=lambda low: low.value, default=Low())

    def _along_slope(self, model: Model) -> Low:
        """min over all |x| <= R, a matter of lengths: of constant - |slope| r + q/2 r², r <= R."""
        lost = self._slack + 0.5 * UNIT * self._steps  # the curvature is a sum over the steps
        q, R, length = model.curvature * (1.0 - lost), self._size, arrays.norm(model.slope)
        steepness = length * (1.0 + self._slack) + model.slope_error  # which may point anywhere
        r = min(steepness / q, R) if q > 0.0 else R
        if not math.isfinite(steepness * r):
            return Low()
        fall = steepness * r + model.value_error + self._slack * abs(model.constant)
        x = arrays.stretched(model.slope, length, -r) if length > 0.0 else self._zero
        return Low(model.constant - fall * (1.0 + 8.0 * UNIT) + 0.5 * q * r * r, x)

    def _curved(self, model: Model, weight: float) -> Low:
        """min_Z of the model + weight/2 (|x|² - radius²): a projection."""
        q = model.curvature + weight
        center = model.slope * (-1.0 / q)
        x = self._domain.project(center)
        along, square = arrays.dots((model.slope, x), (x, x))
        size = farthest = arrays.norm(x, square)
        gap = 0.0  # |slope at x|
        if x is not center:
            way = x - center
            squares = arrays.dots((way, way), (center, center))
            gap, farthest = q * arrays.norm(way, squares[0]), arrays.norm(center, squares[1])
        radius = self._radius or 0.0
        ball = 0.5 * weight * radius * radius  # products, for ** raises where they give inf
        bent = 0.5 * q * size * size
        # Slope errors move the minimiser: model - e|x| >= value - e|x_min| - e²/(2q). The
        # projection itself errs by a few units of its argument, and so does the evaluation.
        e = model.slope_error
        lost = model.value_error + e * size + e * e / (2.0 * q)
        lost += self._slack * (gap + q * size) * (farthest + size)
        if x is not center:
            off = projection_error(self._domain, x, size)
            lost += (gap + q * (size + off)) * off
        lost += self._slack * (abs(model.constant) + 2.0 * ball)
        value = model.constant + along + bent - ball - lost
        return Low(value, x, is_sharp=weight == 0.0 and 2.0 * lost < bent)

    def _in_ball(self, model: Model, radius: float) -> Low:
        """min over Z with |x| <= radius."""
        exact, paid = model._replace(slope_error=0.0), model.slope_error * radius

        def curved(weight: float) -> Low:
            low = self._curved(exact, weight)
            return low._replace(value=low.value - paid)  # |x*| <= radius

        steepness = arrays.norm(model.slope)
        if steepness / radius == 0.0:  # no slope at all
            value = model.constant - model.value_error - paid - steepness * radius
            return Low(value, self._zero)
        return _by_weights(curved, steepness / radius, model.curvature, radius)

    def _at_vertex(self, model: Model) -> Low:
        """min of the linear part over a bounded Z."""
        slope = model.slope
        x = self._domain.argmin(slope)
        along, squared = arrays.dots((slope, x), (slope, slope))
        value = model.constant + along - model.value_error
        value -= (model.slope_error + self._slack * arrays.norm(slope, squared)) * self._reach
        return Low(value - self._slack * abs(model.constant), x)

    def _flattened(self, model: Model, p: Array) -> Model:
        """A linear minorant: q/2 |x|² >= q <p, x> - q/2 |p|².

        Where q is small beside the slope, rounding leaves little of `_curved`, but p is good.
        """
        q, size = model.curvature, arrays.norm(p)
        rounding = 4.0 * UNIT * (arrays.norm(model.slope) + q * size)
        return model._replace(
            constant=model.constant - 0.5 * q * size * size,
            slope=model.slope + q * p,
            curvature=0.0,
            value_error=model.value_error + self._slack * (abs(model.constant) + q * size * size),
            slope_error=model.slope_error + rounding,
        )

    def _at_corner(self, model: Model) -> Low:
        """min of the linear part over a box with infinite sides: finite if the slope's signs fit.

        The slope error e counts in every coordinate, for |x| <= sum |x_i|.
        """
        xp, domain = arrays.namespace(self._zero), self._domain
        assert isinstance(domain, Box)
        e = model.slope_error + self._slack * arrays.norm(model.slope)
        low = self._zero + arrays.like(domain.lower, self._zero)
        high = self._zero + arrays.like(domain.upper, self._zero)
        falls_up = (model.slope - e < 0.0) & (high == math.inf)
        falls_down = (model.slope + e > 0.0) & (low == -math.inf)
        if bool(xp.any(falls_up | falls_down)):
            return Low()
        x = xp.where(model.slope >= 0.0, low, high)
        x = xp.where(xp.isfinite(x), x, xp.where(xp.isfinite(low), low, high))
        largest = xp.maximum(
            xp.where(xp.isfinite(low), xp.abs(low), self._zero),
            xp.where(xp.isfinite(high), xp.abs(high), self._zero),
        )
        value = model.constant + arrays.dot(model.slope, x) - model.value_error
        return Low(value - e * float(xp.sum(largest)) - self._slack * abs(model.constant), x)

    # -- the same with norms

    def _with_norms(self, model: Model, terms: Terms, reach: float) -> Low:
        """min of the model and the terms over the set of these, with |x| <= reach."""
        slope, steepness = model.slope, arrays.norm(model.slope)
        error = model.slope_error + self._slack * steepness
        constant = model.constant - model.value_error - self._slack * abs(model.constant)
        if math.isinf(reach):
            low = self._least_with_error(terms, slope, error)
        elif not isinstance(terms.domain, Box):
            constant -= error * reach  # |x*| <= reach
            ball = Ball(min(reach, terms.radius))
            low = self._least(dataclasses.replace(terms, domain=ball), slope)
        else:
            constant -= error * reach
            low = self._least(terms, slope)
            if low.at is None or arrays.norm(low.at) > reach:
                # The ball by the dual of its constraint.
                def curved(weight: float) -> Low:
                    heavier = terms.with_weights(*terms.weights[:3], terms.square + weight)
                    paid = 0.5 * weight * reach * reach * (1.0 + self._slack)
                    low = self._least(heavier, slope)
                    return low._replace(value=low.value - paid)

                other = _by_weights(curved, steepness / reach, terms.square, reach)
                low = max(low, other, key=lambda low: low.value)
        return low._replace(value=constant + low.value)

    def _least(self, terms: Terms, slope: Array) -> Low:
        """min of <slope, x> + the terms over their set."""
        value, x = terms.least(slope)
        return Low(value - self._slack * abs(value), x)

    def _least_with_error(self, terms: Terms, slope: Array, error: float) -> Low:
        """min of <slope, x> - error |x| + the terms over their set."""
        eased = terms.eased(slope.shape[0], error)
        if eased is not None:
            return self._least(eased, slope)
        x = terms.least(slope)[1] if terms.square > 0.0 else None
        if x is None:
            return Low()
        # error |x| <= theta/2 |x|² + error²/(2 theta), and theta = error/|x| is best.
        length = arrays.norm(x)
        theta = min(error / length if length > 0.0 else math.inf, 0.5 * terms.square)
        low = self._least(terms.with_weights(*terms.weights[:3], terms.square - theta), slope)
        return low._replace(value=low.value - error * error / theta)


def _largest_joint_parts(f2: Penalty, g2: Penalty, domain: Domain) -> Sequence[Joint]:
    """f2, g2 and the domain together, or else the largest parts of that which have a joint prox."""
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


def _along_fall(pair: Joint, direction: Array | None) -> Callable[[Model], float] | None:
    """How fast a model rises along a direction, with the penalties of ``pair``."""
    if direction is None:
        return None
    return lambda model: (
        arrays.dot(model.slope, direction) + pair.terms(model.upper, model.lower).value(direction)
    )


def _by_weights(
    curved: Callable[[float], Low], weight: float, curvature: float, radius: float
) -> Low:
    """The best of ``curved(weight)``, min of a model + weight/2 (|x|² - radius²).

    The dual of |x| <= radius: any weight is valid, and the best one has |x| = radius.
    """
    best = Low()
    for _ in range(8):
        if not weight > 0.0:
            break
        low = curved(weight)
        best = max(best, low, key=lambda low: low.value)
        if low.at is None:
            break
        longer = max(arrays.norm(low.at) / radius, 1e-3)
        if abs(longer - 1.0) < 1e-9:
            break
        weight = max((curvature + weight) * longer - curvature, 1e-3 * weight)
    return best


def largest(
    concave: Concave, start: float, effort: int, ceiling: float = math.inf
) -> tuple[float, float]:
    """The largest value found of a concave function of t in (0, ceiling], and where.

    ``concave(t)`` gives value and derivative, at t or, where t is outside of the interval on which
    the function is finite, at a point just inside. Multiplies or divides t by 4, 16, 256 ... until
    the maximum is bracketed, then goes to where the two tangents meet. Every value is a valid
    bound, so that stopping early is safe. Values are believed more than derivatives, which may
    belong to an inexact minimum.
    """
    left = right = None
    best, t, stride = (-math.inf, start), start, 4.0
    for _ in range(effort):
        asked = min(t, ceiling)
        t, value, derivative = concave(asked)
        best = max(best, (value, t))
        if left is not None and t > left[0] and value < left[1]:
            derivative = min(derivative, (value - left[1]) / (t - left[0]))
        if right is not None and t < right[0] and value < right[1]:
            derivative = max(derivative, (right[1] - value) / (right[0] - t))
        if derivative > 0.0:
            left = (t, value, derivative)
        elif derivative < 0.0:
            right = (t, value, derivative)
        else:
            break
        if derivative * (asked - t) > 0.0 or (t == ceiling and derivative > 0.0):
            break  # the end of the interval is best
        if left is None or right is None:
            t = t / stride if left is None else t * stride
            stride = min(stride * stride, 1e8)
            if not 1e-150 < t < 1e150:
                break
        else:
            (a, at_a, up), (b, at_b, down) = left, right
            if b - a <= 1e-3 * b:
                break
            meet = (at_b - at_a + up * a - down * b) / (up - down)
            if not math.isfinite(meet):  # nothing bounds the model at a
                meet = 0.5 * (a + b)
            margin = 0.05 * (b - a)
            t = min(max(meet, a + margin), b - margin)
    return best
