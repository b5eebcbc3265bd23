"""Boxes and the orthant."""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tiebreak.linalg import (
    arrays,
    assign,
    checks,
    into,
    masked,
    moved,
    negligible,
    remember,
    tables,
)
from tiebreak.linalg.arrays import Array, Host, dot, like, namespace, norm, to_numpy, zeros_like
from tiebreak.linalg.host import host
from tiebreak.sets.base import INFINITY, Set, Violation, violations_of
from tiebreak.sets.cuts import ProjectionPath
from tiebreak.sets.descriptions import (
    ActiveFace,
    Bounds,
    LinearRows,
    RecessionDirections,
    of_single,
    room_along,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Box(Set):
    """{x : lower <= x <= upper}, entry by entry; a bound is a number or vector, possibly infinite.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> domain = tb.Box(0.0, [1.8, 5])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=domain)
        >>> tb.solve(problem).x.round(4)
        array([1.8, 0.2])
    """

    lower: Any
    upper: Any
    _vector_names: ClassVar[tuple[str, ...]] = ("lower", "upper")

    def __post_init__(self) -> None:
        remember(self, Box, lower=self.lower, upper=self.upper)
        sides = (("lower", tables.names(self.lower)), ("upper", tables.names(self.upper)))
        assign(self, "names", tables.common("Box", *sides, what="index"))
        for name in ("lower", "upper"):
            assign(self, name, _bound(name, getattr(self, name)))
        lower, upper = to_numpy(self.lower), to_numpy(self.upper)
        if lower.ndim and upper.ndim and lower.shape != upper.shape:
            raise ValueError(
                "Box: lower and upper must have the same length, "
                f"got {lower.shape[0]} and {upper.shape[0]}"
            )
        lower, upper = np.broadcast_arrays(lower, upper)
        if np.any(lower > upper):
            i = int(np.argmax(lower > upper))
            at = f" at entry {i}" if lower.ndim else ""
            raise ValueError(
                f"Box: lower must not exceed upper, got {lower.flat[i]} and {upper.flat[i]}{at}"
            )
        if np.any(lower == INFINITY) or np.any(upper == -INFINITY):
            raise ValueError("Box: lower must be below inf and upper above -inf")

    @property
    def diameter(self) -> float:
        """|upper - lower|; if both bounds are numbers, the dimension matters: see `diameter_in`."""
        width = to_numpy(self.upper) - to_numpy(self.lower)
        if width.ndim or width == INFINITY or width == 0.0:
            return norm(np.atleast_1d(width))
        raise ValueError(
            "Box: the diameter of a box with two numbers as bounds depends on the dimension; "
            "use diameter_in(n)"
        )

    def diameter_in(self, n: int) -> float:
        """|upper - lower| in R^n."""
        width = to_numpy(self.upper) - to_numpy(self.lower)
        return norm(width) if width.ndim else float(width) * math.sqrt(n)

    def ends(self, n: int) -> tuple[Host, Host]:
        """Both bounds of each of n variables, on the host."""
        return np.broadcast_to(host(self.lower), n), np.broadcast_to(host(self.upper), n)

    def linear_rows(self, n: int) -> LinearRows:
        """Rows for lower bounds, then rows for upper bounds; equations for fixed variables."""
        lower, upper = self.ends(n)
        fixed = np.flatnonzero(lower == upper)
        below, above = (np.flatnonzero(np.isfinite(b) & (lower != upper)) for b in (lower, upper))
        where = np.append(below, above)
        A = of_single(where, np.append(-np.ones(len(below)), np.ones(len(above))), n)
        b = np.append(-lower[below], upper[above])
        equal = of_single(fixed, np.ones(len(fixed)), n) if len(fixed) else None
        what, labels = self._labels(n)
        numbers = labels[where], labels[fixed]
        return LinearRows(n, A, b, equal, lower[fixed], (what, what), numbers)

    def _labels(self, n: int) -> tuple[str, Host]:
        """The words for a bound in messages, and the names or numbers of the variables."""
        if self.names is None:
            return "the bound of x[{}]", np.arange(n)
        return "the bound of {}", np.array(self.names, dtype=object)

    def necessary_rows(self, n: int) -> LinearRows | None:
        return None  # `bounds_in` already gives all bounds

    def bounds_in(self, n: int) -> Bounds:
        return Bounds(*self.ends(n))

    def recession(self, n: int) -> RecessionDirections:
        low, high = (np.where(np.isfinite(b), 0.0, b) for b in self.ends(n))
        return RecessionDirections(low, high)

    @property
    def is_cone(self) -> bool:
        ends = np.append(to_numpy(self.lower), to_numpy(self.upper))
        return bool(np.all((ends == 0.0) | np.isinf(ends)))

    def sides(self, x: Array) -> tuple[Array, Array]:
        zero = zeros_like(x)
        return zero + like(self.lower, x), zero + like(self.upper, x)

    def depth(self, x: Array) -> float:
        xp, (lower, upper) = namespace(x), self.sides(x)
        unit = arrays.rounding_unit(arrays.epsilon(x), int(x.shape[0]))
        inside = min(float(xp.min(x - lower)), float(xp.min(upper - x)))
        return max(inside * (1.0 - unit) - unit * norm(x), 0.0)

    def face_at(self, x: Array) -> ActiveFace:
        """The face that contains x: entries at a bound stay at that bound."""
        xp, zero = namespace(x), zeros_like(x)
        low, high = (like(bound, x) for bound in (self.lower, self.upper))
        free = (x > low) & (x < high)
        key = xp.astype(free, x.dtype)

        def room(x: Array, d: Array) -> float:
            return min(room_along(x - low, d), room_along(high - x, -d))

        return ActiveFace(lambda v: xp.where(free, v, zero), key, self.project, key, room, True)

    def project(self, x: Array) -> Array:
        """min(max(x, lower), upper)."""
        return self.clip(x, *self.bounds_like(x))

    def support(self, direction: Array) -> float:
        """The sum of direction_i upper_i where direction_i > 0, otherwise direction_i lower_i."""
        best, bounded = self._corner(direction)
        return dot(direction, best) if bounded else INFINITY

    def argmin(self, direction: Array) -> Array:
        """The lower bound where direction > 0, the upper where < 0, else the value nearest to 0."""
        best, bounded = self._corner(-direction)
        if not bounded:
            raise self.no_minimiser()
        return best

    def farthest(self, x: Array) -> float:
        """The distance from x to the farthest corner."""
        lower, upper = self.bounds_like(x)
        return norm(namespace(x).maximum(abs(x - lower), abs(upper - x)))

    def bounds_like(self, x: Array) -> tuple[Array, Array]:
        """The bounds as arrays like x, but plain numbers are kept for NumPy.

        Converting a number with `like` takes longer than clipping to it.
        """
        if type(x) is not np.ndarray:
            return like(self.lower, x), like(self.upper, x)
        lower, upper = (b if type(b) is float else like(b, x) for b in (self.lower, self.upper))
        return lower, upper

    def clip(self, x: Array, lower: Array, upper: Array, out: Array | None = None) -> Array:
        z = into(out, "maximum", x, lower)
        return z if upper is INFINITY else into(z, "minimum", z, upper)

    def _corner(self, direction: Array) -> tuple[Array, bool]:
        """A maximiser of <direction, .>, and whether a maximiser exists."""
        xp = namespace(direction)
        lower, upper = self.bounds_like(direction)
        nearest_zero = self.project(zeros_like(direction))
        corner = xp.where(direction < 0, lower, nearest_zero)
        corner = xp.where(direction > 0, upper, corner)
        return corner, not bool(xp.any(xp.isinf(corner)))

    @cached_property
    def length_scale(self) -> float:
        bounds = (to_numpy(self.lower), to_numpy(self.upper))
        return max(float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0)) for b in bounds)

    def distance_outside(self, x: Array, unit: float) -> float:
        xp, (lower, upper) = namespace(x), self.bounds_like(x)
        beyond = xp.maximum(lower - x, x - upper)
        return norm(xp.maximum(beyond, zeros_like(x))) * (1.0 + unit)

    def violations(self, x: Array) -> list[Violation]:
        at, near = host(x), host(self.project(x))
        size = np.maximum(np.abs(at), np.abs(near))
        what, labels = self._labels(len(at))
        return violations_of(what, np.abs(at - near), size, norm(at), labels)

    def scaled(self, exponent: int) -> Box:
        return Box(self.lower * 2.0**exponent, self.upper * 2.0**exponent)

    def in_units(self, units: Any) -> Box:
        return Box(host(self.lower) / units, host(self.upper) / units)

    def extended(self, n: int, lower: Host) -> Box:
        low, high = self.ends(n)
        return Box(np.append(low, lower), np.append(high, np.full(len(lower), np.inf)))

    def projection_path(self, x: Array, c: Array) -> ProjectionPath:
        lower, upper = self.bounds_like(x)
        v = z = free = None

        def path(mu: float) -> tuple[Array, float, float]:
            nonlocal v, z, free
            v = moved(x, mu, c, v)
            z = self.clip(v, lower, upper, z)
            free = masked(free, c, z == v)
            return z, dot(c, z), norm(free)

        return path

    def last_piece(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """Past the largest breakpoint, an entry either stays on its bound or tends to infinity."""
        xp = namespace(x)
        zeros = zeros_like(c)
        lower, upper = self.sides(x)
        moving = abs(c) > negligible(c)
        target = xp.where(c > 0, lower, upper)
        rests = moving & xp.isfinite(target)
        # The bound that an entry leaves on its way to infinity.
        start = xp.where(c > 0, upper, lower)
        stop = xp.where(rests, target, xp.where(xp.isfinite(start), start, x))
        breaks = (x - stop) / xp.where(moving, c, xp.ones_like(c))
        mu = max(0.0, float(xp.max(xp.where(moving, breaks, zeros))))
        z = xp.where(rests, target, self.clip(x - mu * c, lower, upper))
        return mu, z, norm(xp.where(moving & ~rests, c, zeros))


class Orthant(Box):
    """{x : x >= 0}, the box from 0 to inf.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> domain = tb.Orthant()
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=domain)
        >>> tb.solve(problem).x.round(4)
        array([2., 0.])
    """

    def __init__(self) -> None:
        super().__init__(0.0, INFINITY)

    def __repr__(self) -> str:
        return "Orthant()"


def _bound(name: str, value: Any) -> Any:
    """A bound of a Box as a float or a vector; infinities are allowed, but NaN is not."""
    is_vector = isinstance(value, list | tuple) or tables.is_series(value)
    if not arrays.is_array(value) and not is_vector:
        bound: Any = checks.number("Box", name, value, "a number or a vector")
    else:
        bound = checks.floating("Box", name, value)
        if bound.ndim > 1 or 0 in bound.shape:
            raise ValueError(
                f"Box: {name} must be a number or a vector with at least one entry, "
                f"got {checks.what_it_is(bound)}"
            )
        bound = arrays.copied(bound) if bound.ndim else float(bound)
    if np.any(np.isnan(to_numpy(bound))):
        raise ValueError(f"Box: {name} must hold numbers or infinities, got NaN")
    return bound
