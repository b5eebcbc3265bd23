"""Closed convex sets Z: projection, support function, and the projection onto Z ∩ a half-space."""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tiebreak.linalg import arrays, checks, tables
from tiebreak.linalg.arrays import (
    Array,
    dot,
    like,
    namespace,
    norm,
    rounding_unit,
    to_numpy,
    zeros_like,
)
from tiebreak.linalg.fingerprints import remember
from tiebreak.sets.cuts import (
    INFINITY,
    Cut,
    Path,
    Products,
    Set,
    assign,
    into,
    ldexp,
    masked,
    moved,
    negligible,
    shrunk,
)
from tiebreak.sets.simplices import L1Ball, Simplex

__all__ = [
    "Ball",
    "Box",
    "Domain",
    "Halfspace",
    "L1Ball",
    "Monotone",
    "Orthant",
    "Simplex",
    "Space",
]


@runtime_checkable
class Domain(Protocol):
    """What the rest of the library asks of a set Z; it must not write into what it is given."""

    def diameter_in(self, n: int) -> float: ...

    def check(self, n: int) -> None: ...

    def project(self, x: Array) -> Array: ...

    def support(self, direction: Array) -> float: ...

    def argmin(self, direction: Array) -> Array: ...

    def farthest(self, x: Array) -> float: ...

    def contains(self, x: Array, tol: float = 1e-9) -> bool: ...

    def project_cut(
        self, x: Array, normal: Array, offset: float, guess: float | None = None
    ) -> tuple[Array, float]: ...


def distance_bound(domain: Domain, x: Array) -> float:
    """A bound on the distance of x from the set, the rounding errors of measuring it included.

    The one place that says how far outside a computed point of Z may be. It is 0 where x is surely
    inside, however large the set is.
    """
    unit = rounding_unit(2.0**-52, int(x.shape[0]))
    x = arrays.double(x)
    if not arrays.all_finite(x):
        return INFINITY
    known = domain._outside(x, unit) if isinstance(domain, Set) else None
    if known is None:  # a set from outside, whose projection is taken to err as ours do
        z = domain.project(x)
        known = norm(x - z) + unit * (norm(x) + norm(z))
    return known


def projection_error(domain: Domain, z: Array, size: float) -> float:
    """How far a computed projection z may be from the true one, where it is not its argument.

    ``size`` = |z|; the errors that are units of the argument's length are not counted here.
    """
    carried = domain._carried if isinstance(domain, Set) else 0.0
    return rounding_unit(arrays.epsilon(z), int(z.shape[0])) * (size + carried)


@dataclasses.dataclass(frozen=True)
class Space(Set):
    """The whole space R^n."""

    def _outside(self, x: Array, unit: float) -> float:
        return 0.0

    def project(self, x: Array) -> Array:
        """``x`` itself."""
        return x

    def support(self, direction: Array) -> float:
        """0 for the zero direction, otherwise inf."""
        return 0.0 if arrays.max_abs(direction) == 0.0 else INFINITY

    def argmin(self, direction: Array) -> Array:
        """The origin for the zero direction; otherwise there is no minimiser."""
        if self.support(direction) > 0.0:
            raise _unbounded(self)
        return zeros_like(direction)

    def _cut(self, x: Array, c: Array, beta: float, guess: float, known: Products) -> Cut:
        gap = known.inner - beta
        if gap <= 0.0:
            return Cut(x, 0.0, True, known.sizes(1.0, 0.0))
        mu = gap / known.normal
        return Cut(moved(x, mu, c), mu, True, known.sizes(1.0, -mu))


@dataclasses.dataclass(frozen=True, eq=False)
class Ball(Set):
    """{x : |x - center| <= radius}, the Euclidean ball; ``center=None`` is the origin."""

    radius: float = 1.0
    center: Any = None

    def __post_init__(self) -> None:
        remember(self, Ball, radius=self.radius, center=self.center)
        assign(self, "names", tables.names(self.center))
        assign(self, "radius", checks.positive("Ball", "radius", self.radius))
        if self.center is not None:
            assign(self, "center", checks.vector("Ball", "center", self.center))

    @property
    def diameter(self) -> float:
        """2 radius."""
        return 2.0 * self.radius

    def check(self, n: int) -> None:
        """Raise ValueError if the center has not ``n`` entries."""
        if self.center is not None:
            checks.length("Ball", "center", self.center, n, "variable")

    def project(self, x: Array) -> Array:
        """center + (x - center) min(1, radius/|x - center|)."""
        y = self._centred(x)
        return self._nearest(x, y, norm(y))

    def _project(self, x: Array, square: float) -> Array:
        if self.center is not None or type(self).project is not Ball.project:
            return self.project(x)
        return self._nearest(x, x, norm(x, square))

    def support(self, direction: Array) -> float:
        """<direction, center> + radius |direction|."""
        return self._middle(direction) + self.radius * norm(direction)

    def argmin(self, direction: Array) -> Array:
        """center - radius direction/|direction|; the center for the zero direction."""
        length = norm(direction)
        if length == 0.0:
            return self._back(zeros_like(direction))
        z = direction / length
        z *= -self.radius
        return self._back(z)

    def farthest(self, x: Array) -> float:
        """|x - center| + radius."""
        return norm(self._centred(x)) + self.radius

    def _nearest(self, x: Array, y: Array, length: float) -> Array:
        """The projection of x, where y = x - center has this length."""
        if length <= self.radius:
            return x
        return self._back(arrays.stretched(y, length, self.radius))

    def _centred(self, x: Array) -> Array:
        return x if self.center is None else x - like(self.center, x)

    def _back(self, y: Array) -> Array:
        return y if self.center is None else y + like(self.center, y)

    def _middle(self, direction: Array) -> float:
        return 0.0 if self.center is None else dot(direction, like(self.center, direction))

    @cached_property
    def _size(self) -> float:
        return max(self.radius, 0.0 if self.center is None else arrays.max_abs(self.center))

    @cached_property
    def _carried(self) -> float:
        return self.radius + (0.0 if self.center is None else norm(arrays.double(self.center)))

    def _outside(self, x: Array, unit: float) -> float:
        return max(norm(self._centred(x)) * (1.0 + unit) - self.radius, 0.0)

    def _scaled(self, exponent: int) -> Ball:
        center = None if self.center is None else self.center * 2.0**exponent
        return Ball(shrunk(self.radius, exponent), center)

    def _cut(self, x: Array, c: Array, beta: float, guess: float, known: Products) -> Cut:
        """Closed form, in the plane of c and y = x - center: a along c/|c|, b across."""
        eps, radius = arrays.epsilon(x), self.radius
        y = self._centred(x)
        if y is not x:
            known = Products.of(c, y)
        length, distance = norm(c, known.normal), norm(y, known.point)
        a, h = known.inner / length, (beta - self._middle(c)) / length
        ratio = h / radius
        rounding = 2.0 * eps * radius if distance > radius else 0.0
        if ratio >= 1.0 or a * min(1.0, radius / max(distance, radius)) <= h + rounding:
            return self._uncut(x, y, distance)
        if ratio <= -1.0 + eps:
            # The cut touches the ball in one point or misses it: z(mu) tends to that point.
            far = max(0.0, a + (distance + radius) / eps)
            return Cut(self._back(c * (-radius / length)), far / length, False)
        reach = radius * math.sqrt((1.0 - ratio) * (1.0 + ratio))
        b = math.sqrt(max(0.0, (distance - a) * (distance + a)))
        if b > 0.1 * distance:  # no vector is needed but the outcome, s y + t c
            s, mu = (1.0, a - h) if a >= h and b <= reach else (reach / b, a - b * (h / reach))
            if mu <= 0.0:  # the projection of x is beyond the cut by a rounding error only
                return self._uncut(x, y, distance)
            t = (h - s * a) / length
            sizes = known.sizes(s, t) if self.center is None else None
            return Cut(self._back(moved(y if s == 1.0 else s * y, -t, c)), mu / length, True, sizes)
        # Nearly parallel: orthogonal to c once more, against cancellation.
        across = moved(y, a / length, c)
        inner, square = arrays.dots((c, across), (across, across))
        across, along = moved(across, inner / known.normal, c), inner * inner / known.normal
        b = norm(across, square - along if along <= 0.01 * square else None)
        if a >= h and b <= reach:
            return Cut(self._back(moved(across, -h / length, c)), (a - h) / length, True)
        if b == 0.0:
            return Cut(self._back(c * (-radius / length)), max(0.0, a) / length, False)
        mu = a - b * (h / reach)
        if mu <= 0.0:
            return self._uncut(x, y, distance)
        across *= reach / b
        return Cut(self._back(moved(across, -h / length, c)), mu / length, True)

    def _uncut(self, x: Array, y: Array, distance: float) -> Cut:
        """The projection of x, where y = x - center has this length and the cut is beyond."""
        size = min(distance, self.radius)
        sizes = (size, size) if self.center is None else None
        return Cut(self._nearest(x, y, distance), 0.0, True, sizes)


@dataclasses.dataclass(frozen=True, eq=False)
class Box(Set):
    """{x : lower <= x <= upper}, entry by entry; numbers or vectors, -inf and inf allowed."""

    lower: Any
    upper: Any

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
        """|upper - lower|; of two numbers it depends on the dimension: see `diameter_in`."""
        width = to_numpy(self.upper) - to_numpy(self.lower)
        if width.ndim or width == INFINITY or width == 0.0:
            return norm(np.atleast_1d(width))
        raise ValueError(
            "Box: the diameter of a box with two numbers as bounds depends on the dimension, "
            "ask diameter_in(n)"
        )

    def diameter_in(self, n: int) -> float:
        """|upper - lower| in R^n."""
        width = to_numpy(self.upper) - to_numpy(self.lower)
        return norm(width) if width.ndim else float(width) * math.sqrt(n)

    def check(self, n: int) -> None:
        """Raise ValueError if a vector of bounds has not ``n`` entries."""
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if not isinstance(bound, float):
                checks.length("Box", name, bound, n, "variable")

    def project(self, x: Array) -> Array:
        """min(max(x, lower), upper)."""
        return self._clip(x, *self._bounds(x))

    def support(self, direction: Array) -> float:
        """The sum of direction_i upper_i where direction_i > 0, direction_i lower_i where < 0."""
        best, bounded = self._corner(direction)
        return dot(direction, best) if bounded else INFINITY

    def argmin(self, direction: Array) -> Array:
        """lower where direction > 0, upper where < 0, the point nearest to 0 where it is zero."""
        best, bounded = self._corner(-direction)
        if not bounded:
            raise _unbounded(self)
        return best

    def farthest(self, x: Array) -> float:
        """The distance to the farthest corner."""
        lower, upper = self._bounds(x)
        return norm(namespace(x).maximum(abs(x - lower), abs(upper - x)))

    def _bounds(self, x: Array) -> tuple[Array, Array]:
        """The bounds for x; for NumPy a number stays one: `like` takes longer than a clip."""
        if type(x) is not np.ndarray:
            return like(self.lower, x), like(self.upper, x)
        lower, upper = (b if type(b) is float else like(b, x) for b in (self.lower, self.upper))
        return lower, upper

    def _clip(self, x: Array, lower: Array, upper: Array, out: Array | None = None) -> Array:
        z = into(out, "maximum", x, lower)
        return z if upper is INFINITY else into(z, "minimum", z, upper)

    def _corner(self, direction: Array) -> tuple[Array, bool]:
        """A maximiser of <direction, .>, and whether there is one."""
        xp = namespace(direction)
        lower, upper = self._bounds(direction)
        nearest_zero = self.project(zeros_like(direction))
        corner = xp.where(direction < 0, lower, nearest_zero)
        corner = xp.where(direction > 0, upper, corner)
        return corner, not bool(xp.any(xp.isinf(corner)))

    @cached_property
    def _size(self) -> float:
        bounds = (to_numpy(self.lower), to_numpy(self.upper))
        return max(float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0)) for b in bounds)

    def _outside(self, x: Array, unit: float) -> float:
        xp, (lower, upper) = namespace(x), self._bounds(x)
        beyond = xp.maximum(lower - x, x - upper)
        return norm(xp.maximum(beyond, zeros_like(x))) * (1.0 + unit)

    def _scaled(self, exponent: int) -> Box:
        return Box(self.lower * 2.0**exponent, self.upper * 2.0**exponent)

    def _path(self, x: Array, c: Array) -> Path:
        lower, upper = self._bounds(x)
        v = z = free = None

        def path(mu: float) -> tuple[Array, float, float]:
            nonlocal v, z, free
            v = moved(x, mu, c, v)
            z = self._clip(v, lower, upper, z)
            free = masked(free, c, z == v)
            return z, dot(c, z), norm(free)

        return path

    def _last(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """Past the largest breakpoint an entry rests on its bound, or moves for ever."""
        xp = namespace(x)
        zeros = zeros_like(c)
        lower, upper = (like(bound, x) + zeros for bound in (self.lower, self.upper))
        moving = abs(c) > negligible(c)
        target = xp.where(c > 0, lower, upper)
        rests = moving & xp.isfinite(target)
        start = xp.where(c > 0, upper, lower)  # where an entry without target leaves its bound
        stop = xp.where(rests, target, xp.where(xp.isfinite(start), start, x))
        breaks = (x - stop) / xp.where(moving, c, xp.ones_like(c))
        mu = max(0.0, float(xp.max(xp.where(moving, breaks, zeros))))
        z = xp.where(rests, target, self._clip(x - mu * c, lower, upper))
        return mu, z, norm(xp.where(moving & ~rests, c, zeros))


class Orthant(Box):
    """{x : x >= 0}, the box from 0 to inf."""

    def __init__(self) -> None:
        super().__init__(0.0, INFINITY)

    def __repr__(self) -> str:
        return "Orthant()"

    def _scaled(self, exponent: int) -> Orthant:
        return self


@dataclasses.dataclass(frozen=True)
class Monotone(Set):
    """{x : x_1 <= x_2 <= ... <= x_n}, a cone.

    The projection is isotonic regression: pooling of adjacent violators, in O(n), on the host
    (scipy.optimize.isotonic_regression).
    """

    def project(self, x: Array) -> Array:
        """Isotonic regression of x."""
        return like(_pool(_host(x))[0], x)

    def support(self, direction: Array) -> float:
        """0 if the entries sum to 0 and no partial sum from the left is negative; otherwise inf.

        Sums that differ from 0 by no more than their rounding errors count as 0.
        """
        return 0.0 if _length_of_means(_host(direction)) == 0.0 else INFINITY

    def argmin(self, direction: Array) -> Array:
        """The origin, if <direction, .> is bounded below."""
        if self.support(-direction) > 0.0:
            raise _unbounded(self)
        return zeros_like(direction)

    def _outside(self, x: Array, unit: float) -> float:
        host = _host(x)
        return norm(np.maximum.accumulate(host) - host) * (1.0 + unit)

    def _path(self, x: Array, c: Array) -> Path:
        x_host, c_host = _host(x), _host(c)

        def path(mu: float) -> tuple[Array, float, float]:
            z_host, blocks = _pool(moved(x_host, mu, c_host))
            z = like(z_host, x)
            return z, dot(c, z), _length_of_means(c_host, blocks)

        return path

    def _last(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """If c never stops pulling, any mu that is surely large enough; otherwise the last blocks.

        z(mu) differs from Pi_Z(-mu c) = mu p by at most |x|, and <c, p> = -|p|^2.
        If p = 0 then z is constant for large mu, and jumps only where the partial sums of c are 0.
        """
        x_host, c_host = _host(x), _host(c)
        pull = _length_of_means(-c_host)
        if pull > 0.0:
            mu = 4.0 * (norm(c_host) * norm(x_host) / pull + 1.0) / pull
            z, _value, slope = self._path(x, c)(mu)
            return mu, z, slope
        sums = np.cumsum(c_host)
        steps = np.sqrt(np.arange(1.0, c_host.shape[0] + 1.0))
        noise = 4.0 * arrays.epsilon(c_host) * steps * np.cumsum(np.abs(c_host))
        ends = np.flatnonzero(np.append(np.abs(sums[:-1]) <= noise[:-1], True)) + 1
        sizes = np.diff(ends, prepend=0)
        means = np.add.reduceat(x_host, ends - sizes) / sizes
        z = np.repeat(_pool(means, sizes)[0], sizes)
        inside = np.abs(sums) > noise
        breaks = np.cumsum(z - x_host)[inside] / -sums[inside]
        return max(0.0, float(np.max(breaks, initial=0.0))), like(z, x), 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class Halfspace(Set):
    """{x : <normal, x> <= offset}."""

    normal: Any
    offset: float

    def __post_init__(self) -> None:
        remember(self, Halfspace, normal=self.normal, offset=self.offset)
        assign(self, "names", tables.names(self.normal))
        assign(self, "normal", checks.vector("Halfspace", "normal", self.normal))
        assign(self, "offset", checks.finite("Halfspace", "offset", self.offset))
        if arrays.max_abs(self.normal) == 0.0:
            raise ValueError("Halfspace: normal must not be the zero vector")

    def check(self, n: int) -> None:
        """Raise ValueError if the normal has not ``n`` entries."""
        checks.length("Halfspace", "normal", self.normal, n, "variable")

    def project(self, x: Array) -> Array:
        """x - max(<normal, x> - offset, 0) normal/|normal|^2."""
        return self._onto(x, like(self._unit, x))

    def support(self, direction: Array) -> float:
        """t offset for direction = t normal with t >= 0 (to rounding), otherwise inf."""
        unit = like(self._unit, direction)
        t = dot(unit, direction)
        off = norm(moved(direction, t, unit))
        if t < 0.0 or off > 4.0 * arrays.epsilon(direction) * t:
            return INFINITY
        return t * self._height

    def argmin(self, direction: Array) -> Array:
        """The point of the boundary nearest to the origin, if <direction, .> is bounded below."""
        if self.support(-direction) == INFINITY:
            raise _unbounded(self)
        return self._height * like(self._unit, direction)

    @cached_property
    def _unit(self) -> Array:
        """The normal with length 1; the half-space is {<unit, x> <= height}.

        In double precision, for points may be: rounded to single it would be another half-space.
        """
        normal = self._precise
        return normal / norm(normal)

    @cached_property
    def _height(self) -> float:
        return self.offset / norm(self._precise)

    @property
    def _precise(self) -> Array:
        normal = self.normal
        return normal if arrays.drops_float64(normal) else arrays.double(normal)

    @property
    def _size(self) -> float:
        return max(0.0, -self._height)

    def _onto(self, x: Array, unit: Array, *, boundary: bool = False) -> Array:
        """Twice, because where |x| is much larger than the result the first leaves an error."""
        excess = dot(unit, x) - self._height
        if excess <= 0.0 and not boundary:
            return x
        z = moved(x, excess, unit)
        z += unit * (self._height - dot(unit, z))
        return z

    @property
    def _carried(self) -> float:
        return abs(self._height)

    def _outside(self, x: Array, unit: float) -> float:
        normal = like(self.normal, x)
        length = norm(normal)
        along, reach = dot(normal, x), length * norm(x) + abs(self.offset)
        return max(along - self.offset + unit * reach, 0.0) / length * (1.0 + unit)

    def _scaled(self, exponent: int) -> Halfspace:
        return Halfspace(self._unit, ldexp(self._height, exponent))

    def _path(self, x: Array, c: Array) -> Path:
        unit = like(self._unit, x)
        length, along_boundary = norm(c), _length_across(c, unit)

        def path(mu: float) -> tuple[Array, float, float]:
            v = moved(x, mu, c)
            z = self._onto(v, unit)
            return z, dot(c, z), length if z is v else along_boundary

        return path

    def _last(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """The path meets the boundary at most once, at mu = (<unit, x> - height)/<unit, c>."""
        unit = like(self._unit, x)
        length, drop = norm(c), dot(unit, c)
        meets = abs(drop) > 4.0 * arrays.epsilon(x) * length
        mu = max(0.0, (dot(unit, x) - self._height) / drop) if meets else 0.0
        slope = length if meets and drop > 0.0 else _length_across(c, unit)
        return mu, self._onto(moved(x, mu, c), unit, boundary=mu > 0.0), slope


# --- Monotone: isotonic regression on the host

Host = np.ndarray[Any, Any]


def _host(x: Array) -> Host:
    return to_numpy(x).astype(np.float64, copy=False)


def _pool(v: Host, weights: Host | None = None) -> tuple[Host, Host]:
    """The isotonic regression of v, and where its blocks begin (with the end at the end)."""
    from scipy.optimize import isotonic_regression

    result = isotonic_regression(v, weights=weights)
    return result.x, result.blocks


def _length_of_means(c: Host, blocks: Host | None = None) -> float:
    """|c averaged over each block|, where a sum that is only rounding counts as 0.

    Without blocks those of the projection of c, whose length it then is.
    """
    blocks = _pool(c)[1] if blocks is None else blocks
    roots = np.sqrt(np.diff(blocks))
    sums = np.add.reduceat(c, blocks[:-1])
    noise = 4.0 * arrays.epsilon(c) * roots * np.add.reduceat(np.abs(c), blocks[:-1])
    return norm(sums / roots * (np.abs(sums) > noise))


# --- small pieces


def _length_across(c: Array, unit: Array) -> float:
    """The length of the part of c that is orthogonal to ``unit``; 0 where it is only rounding."""
    part = moved(c, dot(unit, c), unit)
    length = norm(moved(part, dot(unit, part), unit))
    return length if length > 8.0 * arrays.epsilon(c) * norm(c) else 0.0


def _bound(name: str, value: Any) -> Any:
    """A bound of a Box, a float or a vector; infinities are allowed, NaN is not."""
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


def _unbounded(domain: object) -> ValueError:
    return ValueError(
        f"{type(domain).__name__}: <direction, x> is unbounded below on this set, "
        "so it has no minimiser"
    )
