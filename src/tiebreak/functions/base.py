"""Smooth convex functions: what the upper and the lower level are made of.

Besides ``value`` and ``gradient`` a function offers the two calls a method needs to touch the data
as rarely as possible:

    lift(*xs)               the images of some points under the function's matrix (forward products)
    look(at, values_at)     value and slope at some lifted points, the value alone at others

Images are linear in the point, so that a method which mixes points mixes their images too and
never multiplies twice; ``look`` then costs one adjoint product per slope and values are free.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from tiebreak.linalg import arrays, checks, tables
from tiebreak.linalg.arrays import Array, Image, rounding_unit
from tiebreak.linalg.fingerprints import FromData, remember

PROBE = 1e-4  # how far a callable is looked at around the start, beside |x0|


class PointWithImage(NamedTuple):
    """A point with its image under one function's matrix."""

    x: Array
    image: Image
    reach: Any = None  # see `Seen`


class Minorant(NamedTuple):
    """A minorant of a convex function: h(x) >= value + <slope, x - at> for all x."""

    at: Array
    value: float
    slope: Array
    size: float = 0.0  # of a sum: the sum of the sizes of its parts, which may cancel in the value
    # Where the image was mixed from others: the mixture of their lengths, of which it errs by a few
    # units, and which may be far longer than the point. None: multiplied, so |at|.
    reach: Any = None

    def beside(self, other: PointWithImage) -> Minorant:
        """This look with a reach that is enough for the image of another point too."""
        known = [reach for reach in (self.reach, other.reach) if reach is not None]
        return self._replace(reach=sum(known)) if known else self


Projection: TypeAlias = Callable[[Array], Array]  # onto Z
Outcome: TypeAlias = tuple[list[Minorant], list[float]]  # minorants, and values at other points


class PendingEvaluation:
    """A look that has begun: a call waits for its end, and gives the outcome.

    ``slopes`` need not wait: those on a GPU can go into what is to be computed there next. Its
    ``losses``, where they are known as such, can be waited for together with other numbers: see
    `arrays.fetch_together`.
    """

    def __init__(
        self,
        end: Callable[[], Outcome],
        slopes: Callable[[], list[Array]] | None = None,
        losses: Callable[[], list[float]] | None = None,
    ) -> None:
        self._end, self._slopes, self.losses = end, slopes, losses
        self._outcome: Outcome | None = None

    @classmethod
    def of(
        cls,
        at: Sequence[PointWithImage],
        losses: Callable[[], list[float]],
        slopes: Callable[[], list[Array]],
    ) -> PendingEvaluation:
        """Losses at the points ``at`` and at others after them, slopes at the first."""

        def end() -> Outcome:
            found = losses()
            looks = zip(at, found, slopes())  # noqa: B905
            seen = [Minorant(p.x, loss, slope, reach=p.reach) for p, loss, slope in looks]
            return seen, found[len(at) :]

        return cls(end, slopes, losses)

    def __call__(self) -> Outcome:
        if self._outcome is None:
            self._outcome = self._end()
        return self._outcome

    def slopes(self) -> list[Array]:
        """The slopes of the minorants, in their order."""
        if self._slopes is not None:
            return self._slopes()
        return [seen.slope for seen in self()[0]]


class Function(FromData):
    """What a level can be: a convex function, smooth or the sum of a smooth one and a penalty.

    ``lipschitz`` is an upper bound on the gradient's Lipschitz constant (inf if unknown),
    ``strong_convexity`` a lower bound on the curvature, ``lower_bound`` a number that the function
    never falls below (-inf if unknown), ``dimension`` the number of variables (None if any).
    """

    lipschitz: float
    strong_convexity: float = 0.0
    defect: float = 0.0  # how far below zero rounding may have put the curvature of a convex one
    lower_bound: float = -math.inf
    dimension: int | None = None
    shares_passes: bool = False  # do products wait for a look, which then does all in one pass?
    __array_ufunc__ = None  # so that a NumPy number times a function comes to __rmul__
    prototype: Array | None = None  # an empty vector of the function's library, dtype and device
    data_epsilon: float = 0.0  # the unit of rounding of its data, where they were widened
    names: tuple[Any, ...] | None = None  # of the variables, where a table of pandas has them

    def value(self, x: Array) -> float:
        """h(x)."""
        raise NotImplementedError

    def gradient(self, x: Array) -> Array:
        """The gradient of h at x."""
        raise NotImplementedError

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        """The images of ``xs``; a function without a matrix has none."""
        return (None,) * len(xs)

    def evaluate(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> Outcome:
        """Minorants at the points ``at``, values at the points ``values_at``."""
        return self.evaluate_async(at, values_at)()

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        """Begin a ``look``; what is returned waits for its end, and gives the outcome.

        Where the data are on a GPU or on a cluster, two functions then work at the same time.
        """

        def end() -> Outcome:
            seen = [Minorant(p.x, self.value(p.x), self.gradient(p.x), reach=p.reach) for p in at]
            return seen, [self.value(p.x) for p in values_at]

        return PendingEvaluation(end)

    def passes(self, lifts: int, slopes: int, values: int) -> int:
        """How many passes over the data so many lifts, slopes and values cost."""
        return 0

    @property
    def known_lipschitz(self) -> float:
        """An upper bound on ``lipschitz`` that costs no pass over data which are dear."""
        return self.lipschitz

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        """Bounds on the rounding errors of a computed value and of a computed slope (its norm).

        At a point with |x| <= reach, where the value is ``value`` and the slope has norm ``slope``,
        in arithmetic with unit of rounding ``epsilon``, with ``n`` variables.
        """
        raise NotImplementedError

    def extent(self, x: Array) -> float:
        """The ``reach`` of x in `rounding`: |x|, or less where its long entries hardly count.

        A column of a matrix that is much smaller than others makes entries of x large, and their
        products are none the larger for it.
        """
        return arrays.norm(x)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        """A bound on the sizes of the terms that make up the value where |x| <= reach.

        For a Sum, which knows its own value but not those of its parts. ``value`` and ``slope``
        are the Sum's; a function that knows its data does not need them.
        """
        return abs(value) + (slope + self.turning(reach, slope)) * reach

    def turning(self, reach: float, slope: float) -> float:
        """How far a slope of norm ``slope`` turns within ``reach``; a guess where L is unknown."""
        known = self.known_lipschitz
        return known * reach if math.isfinite(known) else slope

    @property
    def bare(self) -> Function:
        """The function itself, without the wrapper that counts."""
        return self

    @property
    def in_float64(self) -> Function | None:
        """The same function of the same data for vectors in float64; None where that is not known.

        The data may stay in single precision: then they are widened on their way.
        """
        return None

    @property
    def growth(self) -> float:
        """mu > 0 with h(x) - min h <= |grad h(x)|²/(2 mu) on all of R^n, or 0 if none is known."""
        return self.strong_convexity

    def __repr__(self) -> str:
        size = "" if self.dimension is None else f" of {self.dimension} variables"
        return f"<{type(self).__name__}{size}>"


class SmoothFunction(Function):
    """A convex function with Lipschitz gradient."""

    @property
    def bare(self) -> SmoothFunction:
        return self

    @property
    def in_float64(self) -> SmoothFunction | None:
        return None

    def sized(self, x0: Array, project: Projection) -> SmoothFunction:
        """The same for a run from x0 in Z, with the sizes that its rounding errors need."""
        return self

    def __add__(self, other: object) -> SmoothFunction:
        if not isinstance(other, SmoothFunction):
            return NotImplemented
        return Sum(self, other)

    def __radd__(self, other: object) -> SmoothFunction:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # sum([f, g])

    def __rmul__(self, weight: object) -> SmoothFunction:
        if isinstance(weight, bool) or not isinstance(weight, int | float | np.number):
            return NotImplemented
        return Scaled(float(weight), self)

    __mul__ = __rmul__


class SquaredNorm(SmoothFunction):
    """weight/2 |x - center|²; ``center`` is the origin if None, and is copied."""

    lower_bound = 0.0

    def __init__(self, weight: float = 1.0, center: object = None) -> None:
        remember(self, SquaredNorm, weight=weight, center=center)
        self.names = tables.names(center)
        self.weight = checks.positive("SquaredNorm", "weight", weight)
        self.lipschitz = self.strong_convexity = self.weight
        self.center = None
        self._size = 0.0
        if center is not None:
            self.center = checks.vector("SquaredNorm", "center", center)
            self.dimension = int(self.center.shape[0])
            self.prototype = self.center[:0]
            self._size = arrays.norm(self.center)

    @property
    def in_float64(self) -> SquaredNorm:
        return SquaredNorm(self.weight, None if self.center is None else arrays.double(self.center))

    def _shifted(self, x: Array) -> Array:
        return x if self.center is None else x - arrays.like(self.center, x)

    def value(self, x: Array) -> float:
        shifted = self._shifted(x)
        return 0.5 * self.weight * arrays.dot(shifted, shifted)

    def gradient(self, x: Array) -> Array:
        return self.weight * self._shifted(x)

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        shifted, half = [self._shifted(p.x) for p in (*at, *values_at)], 0.5 * self.weight
        squares = [arrays.inner(s, s) for s in shifted]
        losses = arrays.pending_numbers(squares, lambda found: [half * square for square in found])
        slopes = shifted[: len(at)]
        if self.weight != 1.0:  # otherwise not worth a copy
            slopes = [self.weight * s for s in slopes]
        return PendingEvaluation.of(at, losses, lambda: slopes)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        error = self.weight * rounding_unit(epsilon, n) * (reach + self._size)
        return error * (reach + self._size), error

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return self.weight * (reach + self._size) ** 2


class Flat(SmoothFunction):
    """0: the smooth part of a function that is a penalty and nothing else."""

    lipschitz = 0.0
    lower_bound = 0.0

    def __repr__(self) -> str:
        return "0"

    @property
    def in_float64(self) -> Flat:
        return self

    def value(self, x: Array) -> float:
        return 0.0

    def gradient(self, x: Array) -> Array:
        return arrays.zeros_like(x)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        return 0.0, 0.0

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return 0.0


class Linear(SmoothFunction):
    """<c, x>."""

    lipschitz = 0.0

    def __init__(self, c: object) -> None:
        remember(self, Linear, c=c)
        self.names = tables.names(c)
        self.c = checks.vector("Linear", "c", c)
        self.dimension = int(self.c.shape[0])
        self.prototype = self.c[:0]
        self._size = arrays.norm(self.c)
        if self._size == 0.0:
            self.lower_bound = 0.0

    @property
    def in_float64(self) -> Linear:
        return Linear(arrays.double(self.c))

    def value(self, x: Array) -> float:
        return arrays.dot(self.c, x)

    def gradient(self, x: Array) -> Array:
        return self.c

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        unit = rounding_unit(epsilon, self.c.shape[0])
        return unit * self._size * reach, 0.0

    def extent(self, x: Array) -> float:
        """sum of |c_i| |x_i| over |c|, where that is at hand; shares that underflow count too."""
        size = arrays.norm(x)
        if type(self.c) is not np.ndarray or not 0.0 < self._size < math.inf:
            return size
        shares = np.maximum(np.abs(self.c) / self._size, 2.0**-60)
        unit = rounding_unit(arrays.epsilon(x), len(shares))
        return min(size, float(shares @ np.abs(x)) * (1.0 + unit))

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return self._size * reach


class Smooth(SmoothFunction):
    """A convex function given by two plain callables.

    Args:
        value: x -> h(x), a number.
        gradient: x -> gradient of h at x, an array like x.
        lipschitz: an upper bound on the gradient's Lipschitz constant; None if you know none
            (then a method that finds it itself is needed: "auto" or "adaptive").
        strong_convexity: a lower bound on the curvature, 0 if you know none.
        lower_bound: a number below all values, -inf if you know none.

    These three are your word: the certificate relies on them. So does it on the accuracy of the
    callables, which is taken to be 64 units of rounding of the sizes involved: of the value, of the
    slope and its turning times |x|. Without ``lipschitz`` the sizes are those at the start, and the
    turning is the fastest that is seen around it, in three directions, one of them that of x0: so
    the terms of ½x'Qx - c'x + d count even where they cancel. A constant that is added inside and
    taken away again is not seen: then give ``lipschitz``, or none of its digits counts.

    Both callables get a copy of x, which they may write into; gradients are copied, so that the
    same buffer may be returned every time. What the callables compute with cannot be seen from
    here: where that changes, make a new Smooth.
    """

    # How a wrong answer of a callable is named, in a sentence.
    _owner, _value_name = "Smooth", "value"

    def __init__(
        self,
        value: Callable[[Array], float],
        gradient: Callable[[Array], Array],
        lipschitz: float | None = None,
        strong_convexity: float = 0.0,
        lower_bound: float = -math.inf,
    ) -> None:
        for name, call in (("value", value), ("gradient", gradient)):
            if not callable(call):
                raise TypeError(f"Smooth: {name} must be callable, got {type(call).__name__}")
        self._value, self._gradient = value, gradient
        self._value_size = self._slope_size = self._bend = 0.0  # at the start: see `sized`
        self.lipschitz = (
            math.inf if lipschitz is None else checks.at_least("Smooth", "lipschitz", lipschitz)
        )
        self.strong_convexity = checks.at_least("Smooth", "strong_convexity", strong_convexity)
        if self.strong_convexity > self.lipschitz:
            raise ValueError(
                "Smooth: strong_convexity must not exceed lipschitz, "
                f"got {self.strong_convexity} > {self.lipschitz}"
            )
        self.lower_bound = checks.number("Smooth", "lower_bound", lower_bound, "a number or -inf")
        if math.isnan(self.lower_bound) or self.lower_bound == math.inf:
            raise ValueError(f"Smooth: lower_bound must be a number or -inf, got {lower_bound}")

    def value(self, x: Array) -> float:
        given: Any = self._value(arrays.own(x, x))  # the callable may write into its argument
        return float(given) if isinstance(given, float) else self._as_number(given)

    def _as_number(self, value: Any) -> float:
        """What the callable returned: a number, or an array with one entry."""
        needed = "a callable that returns a number"
        if not (arrays.is_array(value) and math.prod(value.shape) == 1):
            return checks.number(self._owner, self._value_name, value, needed)
        if not arrays.is_real(value):
            name = f"{self._owner}: {self._value_name}"
            raise TypeError(f"{name} must be {needed}, got dtype {value.dtype}")
        return float(arrays.namespace(value).reshape(value, ()))

    def gradient(self, x: Array) -> Array:
        slope = self._gradient(arrays.own(x, x))
        if isinstance(slope, list | tuple):
            with contextlib.suppress(TypeError, ValueError):  # then the caller names what it is
                slope = np.asarray(slope, dtype=np.float64)
        if not (arrays.is_array(slope) and arrays.is_real(slope)):
            return slope
        return arrays.own(slope, x)  # the callable may use its buffer again

    def sized(self, x0: Array, project: Projection) -> SmoothFunction:
        if math.isfinite(self.lipschitz):
            return self
        mine, slope, value = copy.copy(self), self.gradient(x0), self.value(x0)
        steepness, size = arrays.norm(slope), arrays.norm(x0)
        mine._value_size, mine._slope_size = abs(value), steepness
        length = PROBE * (size or (abs(value) / steepness if steepness > 0.0 else 0.0) or 1.0)
        count = np.arange(1.0, x0.shape[0] + 1.0)
        for way in (x0, slope, arrays.like(np.cos(count * count), x0)):
            mine._bend = max(mine._bend, self._turned(x0, project, slope, way, length))
        return mine

    def _turned(
        self, x: Array, project: Projection, slope: Array, way: Array, length: float
    ) -> float:
        """How much the slope turns per length along a way within Z, or back; 0 where there is none.

        A function may end close to x: what it says beyond does not count.
        """
        if not arrays.norm(way) > 0.0:
            return 0.0
        for sign in (1.0, -1.0):
            there = project(x + arrays.stretched(way, arrays.norm(way), sign * length))
            moved = arrays.norm(there - x)
            if moved > 0.5 * length:
                with arrays.quiet(), contextlib.suppress(ArithmeticError, ValueError):
                    turned = arrays.norm(self.gradient(there) - slope) / moved
                    if math.isfinite(turned):
                        return turned
        return 0.0

    def passes(self, lifts: int, slopes: int, values: int) -> int:
        return 2 * slopes + values  # a slope comes with its value

    def turning(self, reach: float, slope: float) -> float:
        if math.isfinite(self.lipschitz):
            return self.lipschitz * reach
        return max(slope, self._slope_size, self._bend * reach)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        unit = rounding_unit(epsilon, n)
        steepness = slope + self.turning(reach, slope)
        return unit * self.magnitude(reach, value, slope), unit * steepness

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        known = math.isfinite(self.lipschitz)
        size = abs(value) if known else max(abs(value), self._value_size)
        return size + (slope + self.turning(reach, slope)) * reach


class Scaled(SmoothFunction):
    """weight * h, written ``weight * h``."""

    def __init__(self, weight: float, function: SmoothFunction) -> None:
        remember(self, Scaled, weight=weight, function=function)
        self.weight = checks.positive("Scaled", "weight", weight)
        self.function, self.names = function, function.names
        self.dimension, self.prototype = function.dimension, function.prototype

    @property
    def in_float64(self) -> SmoothFunction | None:
        function = self.function.in_float64
        return None if function is None else Scaled(self.weight, function)

    def sized(self, x0: Array, project: Projection) -> SmoothFunction:
        function = self.function.sized(x0, project)
        return self if function is self.function else Scaled(self.weight, function)

    @property
    def shares_passes(self) -> bool:  # type: ignore[override]
        return self.function.shares_passes

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return self.weight * self.function.lipschitz

    @property
    def known_lipschitz(self) -> float:
        return self.weight * self.function.known_lipschitz

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        return self.weight * self.function.strong_convexity

    @property
    def defect(self) -> float:  # type: ignore[override]
        return self.weight * self.function.defect

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return self.weight * self.function.lower_bound

    @property
    def growth(self) -> float:
        return self.weight * self.function.growth

    def value(self, x: Array) -> float:
        return self.weight * self.function.value(x)

    def gradient(self, x: Array) -> Array:
        return self.weight * self.function.gradient(x)

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        return self.function.forward(*xs)

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        looking, w = self.function.evaluate_async(at, values_at), self.weight

        def end() -> Outcome:
            seen, values = looking()
            scaled = [Minorant(s.at, w * s.value, w * s.slope, w * s.size, s.reach) for s in seen]
            return scaled, [w * v for v in values]

        return PendingEvaluation(end)

    def passes(self, lifts: int, slopes: int, values: int) -> int:
        return self.function.passes(lifts, slopes, values)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        w = self.weight
        of_value, of_slope = self.function.rounding(reach, value / w, slope / w, epsilon, n)
        return w * of_value + epsilon * abs(value), w * of_slope + epsilon * slope

    def extent(self, x: Array) -> float:
        return self.function.extent(x)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return self.weight * self.function.magnitude(
            reach, value / self.weight, slope / self.weight
        )

    def turning(self, reach: float, slope: float) -> float:
        return self.weight * self.function.turning(reach, slope / self.weight)


F = TypeVar("F", bound=Function)


def in_one_precision(who: str, first: F, second: F) -> tuple[F, F]:
    """Both functions for vectors of one dtype: float64, where only one of them is in that.

    ValueError where their libraries differ, or one cannot be widened.
    """
    kinds = [arrays.kind(h.prototype) for h in (first, second) if h.prototype is not None]
    if len(set(kinds)) < 2:
        return first, second
    found = [h if not arrays.is_single(h.prototype) else h.in_float64 for h in (first, second)]
    if len({kind.split()[0] for kind in kinds}) > 1 or None in found:
        raise ValueError(
            f"{who} must hold arrays of the same library and dtype, got {kinds[0]} and {kinds[1]}"
        )
    return found[0], found[1]  # type: ignore[return-value]


class Sum(SmoothFunction):
    """first + second, written ``first + second``; an image is the pair of their images."""

    def __init__(self, first: SmoothFunction, second: SmoothFunction) -> None:
        sizes = [h.dimension for h in (first, second) if h.dimension is not None]
        if len(set(sizes)) > 1:
            raise ValueError(
                "Sum: both functions must have the same number of variables, "
                f"got {sizes[0]} and {sizes[1]}"
            )
        remember(self, Sum, first=first, second=second)
        self.names = tables.common("Sum", ("first", first.names), ("second", second.names))
        first, second = in_one_precision("Sum: both functions", first, second)
        self.first, self.second = first, second
        self.dimension = sizes[0] if sizes else None
        self.prototype = first.prototype if first.prototype is not None else second.prototype

    @property
    def in_float64(self) -> SmoothFunction | None:
        first, second = self.first.in_float64, self.second.in_float64
        return None if first is None or second is None else Sum(first, second)

    def sized(self, x0: Array, project: Projection) -> SmoothFunction:
        first, second = (h.sized(x0, project) for h in (self.first, self.second))
        return self if first is self.first and second is self.second else Sum(first, second)

    @property
    def shares_passes(self) -> bool:  # type: ignore[override]
        return self.first.shares_passes or self.second.shares_passes

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return self.first.lipschitz + self.second.lipschitz

    @property
    def known_lipschitz(self) -> float:
        return self.first.known_lipschitz + self.second.known_lipschitz

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        return self.first.strong_convexity + self.second.strong_convexity

    @property
    def defect(self) -> float:  # type: ignore[override]
        return self.first.defect + self.second.defect

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return self.first.lower_bound + self.second.lower_bound

    def value(self, x: Array) -> float:
        return self.first.value(x) + self.second.value(x)

    def gradient(self, x: Array) -> Array:
        return self.first.gradient(x) + self.second.gradient(x)

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        return tuple(zip(self.first.forward(*xs), self.second.forward(*xs), strict=True))

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        parts = [
            h.evaluate_async(
                [PointWithImage(p.x, p.image[i], p.reach) for p in at],
                [PointWithImage(p.x, p.image[i], p.reach) for p in values_at],
            )
            for i, h in enumerate((self.first, self.second))
        ]

        def end() -> Outcome:
            (seen, values), (more_seen, more_values) = (looking() for looking in parts)
            return (
                [
                    Minorant(
                        s.at,
                        s.value + t.value,
                        s.slope + t.slope,
                        (s.size or abs(s.value)) + (t.size or abs(t.value)),
                        s.reach,
                    )
                    for s, t in zip(seen, more_seen, strict=True)
                ],
                [v + w for v, w in zip(values, more_values, strict=True)],
            )

        return PendingEvaluation(end)

    def passes(self, lifts: int, slopes: int, values: int) -> int:
        return self.first.passes(lifts, slopes, values) + self.second.passes(lifts, slopes, values)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        # The parts' own values are not known here, and may cancel: take what they can be. Where
        # the other one has a lower bound, a part is at most what that leaves of the sum.
        shares = []
        for h, other in ((self.first, self.second), (self.second, self.first)):
            most = max(abs(value) - other.lower_bound, abs(h.lower_bound))
            size = min(h.magnitude(reach, value, slope), most)
            steepness = slope + h.turning(reach, slope)
            shares.append(h.rounding(reach, size, steepness, epsilon, n))
        of_value, of_slope = (sum(errors) for errors in zip(*shares, strict=True))
        return of_value + epsilon * abs(value), of_slope + epsilon * slope

    def extent(self, x: Array) -> float:
        return max(self.first.extent(x), self.second.extent(x))

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        return sum(h.magnitude(reach, value, slope) for h in (self.first, self.second))
