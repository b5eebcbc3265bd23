"""Closed convex sets Z: projection, support function, and the projection onto Z ∩ a half-space.

One idea serves all the polyhedral sets.  The projection of x onto Z ∩ {<c, z> <= beta} is the point
z(mu) = Pi_Z(x - mu c) of a path, where mu is 0 or the root of the non-increasing, piecewise linear

    gap(mu) = <c, z(mu)> - beta.

On a piece z moves along -d, where d is the orthogonal projection of c onto the directions that the
piece leaves free; so the slope of the gap is -<c, d> = -|d|^2.  A set that can say ``z, d`` for any
mu, and what its last piece looks like, has its cut projection from `_root`.  The Ball has a
closed form of its own.
"""

from __future__ import annotations

import dataclasses
import math
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from tiebreak import arrays
from tiebreak.arrays import Array, dot, like, namespace, to_numpy, zeros_like

INFINITY = math.inf

Path = Callable[[float], tuple[Array, float]]  # mu -> z(mu), |d(mu)|


class Domain(Protocol):
    """What the rest of the library asks of a set Z."""

    @property
    def diameter(self) -> float: ...

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


class _Set:
    """What every domain has in common; the formulas are in the domains themselves."""

    @property
    def diameter(self) -> float:
        """max |y - z| over y, z in Z: here infinite."""
        return INFINITY

    def diameter_in(self, n: int) -> float:
        """The diameter of Z in R^n, exact also where ``diameter`` is silent or only a bound."""
        return self.diameter

    def check(self, n: int) -> None:
        """Raise ValueError if the parameters of the set do not fit dimension ``n``."""

    def project(self, x: Array) -> Array:
        raise NotImplementedError

    def farthest(self, x: Array) -> float:
        """max |z - x| over z in Z: here infinite."""
        return INFINITY

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Is ``x`` in Z, up to a distance of ``tol`` times the larger of |x| and its projection?"""
        if not arrays.all_finite(x):
            return False
        z = self.project(x)
        return _norm(x - z) <= tol * max(_norm(x), _norm(z))

    def project_cut(
        self, x: Array, normal: Array, offset: float, guess: float | None = None
    ) -> tuple[Array, float]:
        """The projection z of ``x`` onto Z ∩ {<normal, z> <= offset}, and the cut's multiplier.

        The multiplier mu >= 0 is finite and z = project(x - mu normal); mu = 0 where the cut does
        not bind.  ``guess``, the multiplier of a similar problem, saves time and changes nothing.

        A zero normal cuts nothing off.  Where the cut leaves nothing of Z, z is the limit for
        mu to infinity: the projection of x onto the points of Z where <normal, .> is smallest.
        """
        return _project_cut(self, x, normal, offset, guess)

    # What project_cut needs to know of a set.

    @property
    def _size(self) -> float:
        """The largest parameter of the set that is a length."""
        return 0.0

    def _shifted(self, exponent: int) -> _Set:
        """The set 2^exponent Z."""
        return self

    def _cut(self, x: Array, c: Array, beta: float, guess: float) -> tuple[Array, float, bool]:
        """z, mu, and whether the cut can be met; |c| is near 1, x and the set below 2^21."""
        return _root(self._path(x, c), lambda: self._last(x, c), x, c, beta, guess)

    def _path(self, x: Array, c: Array) -> Path:
        """The function mu -> z(mu), |d(mu)|."""
        raise NotImplementedError

    def _last(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """mu, z(mu), |d(mu)| where the last piece begins, or any mu that is certainly too large."""
        raise NotImplementedError


# ---------------------------------------------------------------------------------- the domains


@dataclasses.dataclass(frozen=True)
class Space(_Set):
    """The whole space R^n."""

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

    def _path(self, x: Array, c: Array) -> Path:
        slope = _norm(c)
        return lambda mu: (x - mu * c, slope)

    def _last(self, x: Array, c: Array) -> tuple[float, Array, float]:
        return 0.0, x, _norm(c)


@dataclasses.dataclass(frozen=True, eq=False)
class Ball(_Set):
    """{x : |x - center| <= radius}, the Euclidean ball; ``center=None`` is the origin."""

    radius: float = 1.0
    center: Any = None

    def __post_init__(self) -> None:
        _set(self, "radius", _positive(self, "radius", self.radius))
        if self.center is not None:
            _set(self, "center", _vector(self, "center", self.center))

    @property
    def diameter(self) -> float:
        """2 radius."""
        return 2.0 * self.radius

    def check(self, n: int) -> None:
        """Raise ValueError if the center has not ``n`` entries."""
        _check_length(self, "center", self.center, n)

    def project(self, x: Array) -> Array:
        """center + (x - center) min(1, radius/|x - center|)."""
        y = self._centred(x)
        length = _norm(y)
        if length <= self.radius:
            return x
        return self._moved(y / length * self.radius)

    def support(self, direction: Array) -> float:
        """<direction, center> + radius |direction|."""
        middle = 0.0 if self.center is None else dot(direction, like(self.center, direction))
        return middle + self.radius * _norm(direction)

    def argmin(self, direction: Array) -> Array:
        """center - radius direction/|direction|; the center for the zero direction."""
        length = _norm(direction)
        if length == 0.0:
            return self._moved(zeros_like(direction))
        return self._moved(direction / length * -self.radius)

    def farthest(self, x: Array) -> float:
        """|x - center| + radius."""
        return _norm(self._centred(x)) + self.radius

    def _centred(self, x: Array) -> Array:
        return x if self.center is None else x - like(self.center, x)

    def _moved(self, y: Array) -> Array:
        return y if self.center is None else y + like(self.center, y)

    @property
    def _size(self) -> float:
        return max(self.radius, 0.0 if self.center is None else arrays.max_abs(self.center))

    def _shifted(self, exponent: int) -> Ball:
        center = None if self.center is None else self.center * 2.0**exponent
        return Ball(self.radius * 2.0**exponent, center)

    def _cut(self, x: Array, c: Array, beta: float, guess: float) -> tuple[Array, float, bool]:
        """Closed form, in the plane of c and x - center: a along c/|c|, b across."""
        length = _norm(c)
        along = c / length
        y = self._centred(x)
        h = beta / length - (0.0 if self.center is None else dot(along, like(self.center, x)))
        a = dot(along, y)
        distance = _norm(y)
        rounding = 2.0 * _epsilon(x) * self.radius if distance > self.radius else 0.0
        if a * min(1.0, self.radius / max(distance, self.radius)) <= h + rounding:
            return self.project(x), 0.0, True
        across = y - a * along
        across = across - dot(along, across) * along  # once more, against cancellation
        b = _norm(across)
        ratio = h / self.radius
        if ratio <= -1.0 + _epsilon(x):
            # The cut touches the ball in one point or misses it: z(mu) tends to that point.
            far = max(0.0, a + (b + self.radius) / _epsilon(x))
            return self._moved(-self.radius * along), far / length, False
        reach = self.radius * math.sqrt((1.0 - ratio) * (1.0 + ratio)) if ratio < 1.0 else 0.0
        if a >= h and b <= reach:
            return self._moved(h * along + across), (a - h) / length, True
        if b == 0.0 or reach == 0.0:
            return self._moved(-self.radius * along), max(0.0, a) / length, False
        across = across / b
        across = across - dot(along, across) * along
        mu = a - b * (h / reach)
        return self._moved(h * along + reach * across), max(mu, 0.0) / length, True


@dataclasses.dataclass(frozen=True, eq=False)
class Box(_Set):
    """{x : lower <= x <= upper}, entry by entry; numbers or vectors, -inf and inf allowed."""

    lower: Any
    upper: Any

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            _set(self, name, _bound(self, name, getattr(self, name)))
        lower, upper = to_numpy(self.lower), to_numpy(self.upper)
        if lower.ndim == upper.ndim == 1 and lower.shape != upper.shape:
            raise ValueError(
                f"{_name(self)}: lower and upper must have the same length, "
                f"got {lower.shape[0]} and {upper.shape[0]}"
            )
        if np.any(lower > upper):
            raise ValueError(f"{_name(self)}: lower must not exceed upper{_where(lower, upper)}")
        if np.any(lower == INFINITY) or np.any(upper == -INFINITY):
            raise ValueError(f"{_name(self)}: lower must be below inf and upper above -inf")

    @property
    def diameter(self) -> float:
        """|upper - lower|; of two numbers it depends on the dimension: see `diameter_in`."""
        width = to_numpy(self.upper) - to_numpy(self.lower)
        if width.ndim:
            return float(_norm(width))
        if width == INFINITY or width == 0.0:
            return float(width)
        raise ValueError(
            f"{_name(self)}: the diameter of a box with two numbers as bounds depends on the "
            "dimension, ask diameter_in(n)"
        )

    def diameter_in(self, n: int) -> float:
        """|upper - lower| in R^n."""
        width = to_numpy(self.upper) - to_numpy(self.lower)
        return float(_norm(width) if width.ndim else width * math.sqrt(n))

    def check(self, n: int) -> None:
        """Raise ValueError if a vector of bounds has not ``n`` entries."""
        _check_length(self, "lower", self.lower, n)
        _check_length(self, "upper", self.upper, n)

    def project(self, x: Array) -> Array:
        """min(max(x, lower), upper)."""
        return _clip(x, *self._bounds(x))

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
        return _norm(namespace(x).maximum(abs(x - lower), abs(upper - x)))

    def _bounds(self, x: Array) -> tuple[Array, Array]:
        return like(self.lower, x), like(self.upper, x)

    def _corner(self, direction: Array) -> tuple[Array, bool]:
        """A maximiser of <direction, .>, and whether there is one."""
        xp = namespace(direction)
        lower, upper = self._bounds(direction)
        nearest_zero = self.project(zeros_like(direction))
        corner = xp.where(direction < 0, lower, nearest_zero)
        corner = xp.where(direction > 0, upper, corner)
        return corner, not bool(xp.any(xp.isinf(corner)))

    @property
    def _size(self) -> float:
        bounds = (to_numpy(self.lower), to_numpy(self.upper))
        return max(float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0)) for b in bounds)

    def _shifted(self, exponent: int) -> Box:
        return Box(self.lower * 2.0**exponent, self.upper * 2.0**exponent)

    def _path(self, x: Array, c: Array) -> Path:
        xp = namespace(x)
        lower, upper = self._bounds(x)

        def path(mu: float) -> tuple[Array, float]:
            v = x - mu * c
            z = _clip(v, lower, upper)
            return z, _short_norm(c * xp.astype(z == v, c.dtype))

        return path

    def _last(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """Past the largest breakpoint an entry rests on its bound, or moves for ever."""
        xp = namespace(x)
        lower, upper = self._bounds(x)
        moving = abs(c) > _floor(c)
        target = xp.where(c > 0, lower, upper)
        rests = moving & xp.isfinite(target)
        start = xp.where(c > 0, upper, lower)  # where an entry without target leaves its bound
        stop = xp.where(rests, target, xp.where(xp.isfinite(start), start, x))
        breaks = (x - stop) / xp.where(moving, c, xp.ones_like(c))
        mu = max(0.0, float(xp.max(xp.where(moving, breaks, zeros_like(c)))))
        z = xp.where(rests, target, _clip(x - mu * c, lower, upper))
        return mu, z, _norm(xp.where(moving & ~rests, c, zeros_like(c)))


class Orthant(Box):
    """{x : x >= 0}, the box from 0 to inf."""

    def __init__(self) -> None:
        super().__init__(0.0, INFINITY)

    def __repr__(self) -> str:
        return "Orthant()"

    def _shifted(self, exponent: int) -> Orthant:
        return self


@dataclasses.dataclass(frozen=True)
class Simplex(_Set):
    """{x : x >= 0, sum x = total}.

    The projection is max(x - tau, 0), where tau makes the sum right: the root of a convex
    piecewise linear function, by Newton's method from the left, which never passes it
    (Michelot 1986; Condat 2016).  No sorting.
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        _set(self, "total", _positive(self, "total", self.total))

    @property
    def diameter(self) -> float:
        """sqrt(2) total; in R^1, where the simplex is a point, only an upper bound."""
        return math.sqrt(2.0) * self.total

    def diameter_in(self, n: int) -> float:
        """sqrt(2) total, and 0 for n = 1."""
        return 0.0 if n == 1 else self.diameter

    def project(self, x: Array) -> Array:
        """max(x - tau, 0) with the tau for which the sum is ``total``."""
        return _onto_simplex(x, self.total)[0]

    def support(self, direction: Array) -> float:
        """total max_i direction_i."""
        return self.total * float(namespace(direction).max(direction))

    def argmin(self, direction: Array) -> Array:
        """The vertex total e_i with the smallest direction_i."""
        xp = namespace(direction)
        return self.total * _basis_vector(direction, int(xp.argmin(direction)))

    def farthest(self, x: Array) -> float:
        """The distance to the farthest vertex, which is the one with the smallest x_i."""
        return _norm(x - self.argmin(x))

    @property
    def _size(self) -> float:
        return self.total

    def _shifted(self, exponent: int) -> Simplex:
        return Simplex(self.total * 2.0**exponent)

    def _path(self, x: Array, c: Array) -> Path:
        tau_line = _Line()

        def path(mu: float) -> tuple[Array, float]:
            z, tau = _onto_simplex(x - mu * c, self.total, tau_line.at(mu))
            mean, slope = _mean_and_spread(c, z != 0)
            tau_line.set(mu, tau, -mean)
            return z, slope

        return path

    def _last(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """The face of smallest c_i; another entry is 0 for mu >= (x_i - tau)/(c_i - min c)."""
        xp = namespace(x)
        rise = c - xp.min(c)
        face = rise == 0
        on_face, tau = _onto_simplex(x[face], self.total)
        z = zeros_like(x)
        z = _put(z, face, on_face)
        above = rise > _floor(c)
        breaks = (x - tau) / xp.where(above, rise, xp.ones_like(c))
        mu = max(0.0, float(xp.max(xp.where(above, breaks, zeros_like(c)))))
        return mu, z, 0.0


@dataclasses.dataclass(frozen=True)
class L1Ball(_Set):
    """{x : sum |x_i| <= radius}.

    Outside, the projection is that of |x| onto the simplex, with the signs of x (Duchi, Shalev-
    Shwartz, Singer, Chandra 2008).
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        _set(self, "radius", _positive(self, "radius", self.radius))

    @property
    def diameter(self) -> float:
        """2 radius."""
        return 2.0 * self.radius

    def project(self, x: Array) -> Array:
        """x inside; sign(x) max(|x| - tau, 0) with the tau for which the sum is the radius."""
        return self._threshold(x)[0]

    def support(self, direction: Array) -> float:
        """radius max_i |direction_i|."""
        return self.radius * arrays.max_abs(direction)

    def argmin(self, direction: Array) -> Array:
        """The vertex -sign(direction_i) radius e_i with the largest |direction_i|."""
        i = int(namespace(direction).argmax(abs(direction)))
        sign = -1.0 if float(direction[i]) > 0.0 else 1.0
        return sign * self.radius * _basis_vector(direction, i)

    def farthest(self, x: Array) -> float:
        """The distance to the farthest vertex, which lies opposite to the largest |x_i|."""
        return _norm(x - self.argmin(x))

    def _threshold(self, v: Array, start: float | None = None) -> tuple[Array, float]:
        """The projection and its threshold tau, 0 inside."""
        xp = namespace(v)
        size = abs(v)
        largest = float(xp.max(size))
        if largest <= self.radius and float(xp.sum(size)) <= self.radius:
            return v, 0.0
        z, tau = _onto_simplex(size, self.radius, start)
        return xp.sign(v) * z, tau

    @property
    def _size(self) -> float:
        return self.radius

    def _shifted(self, exponent: int) -> L1Ball:
        return L1Ball(self.radius * 2.0**exponent)

    def _path(self, x: Array, c: Array) -> Path:
        xp = namespace(x)
        tau_line = _Line()
        length = _norm(c)

        def path(mu: float) -> tuple[Array, float]:
            v = x - mu * c
            z, tau = self._threshold(v, tau_line.at(mu))
            if z is v:
                return z, length
            mean, slope = _mean_and_spread(xp.sign(z) * c, z != 0)
            tau_line.set(mu, tau, -mean)
            return z, slope

        return path

    def _last(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """The face of largest |c_i|, with the threshold tau + mu max|c| that others stay below."""
        xp = namespace(x)
        top = arrays.max_abs(c)
        face = abs(c) == top
        signs = -xp.sign(c)
        on_face, tau = _onto_simplex((signs * x)[face], self.radius)
        z = signs * _put(zeros_like(x), face, on_face)
        mu = max(0.0, -tau / top)
        for sign in (1.0, -1.0):
            room = top + sign * c
            below = room > 0
            breaks = (sign * x - tau) / xp.where(below, room, xp.ones_like(c))
            mu = max(mu, float(xp.max(xp.where(below, breaks, zeros_like(c)))))
        return mu, z, 0.0


@dataclasses.dataclass(frozen=True)
class Monotone(_Set):
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
        return 0.0 if _is_zero(_monotone_part(_host(direction))) else INFINITY

    def argmin(self, direction: Array) -> Array:
        """The origin, if <direction, .> is bounded below."""
        if self.support(-direction) > 0.0:
            raise _unbounded(self)
        return zeros_like(direction)

    def _path(self, x: Array, c: Array) -> Path:
        x_host, c_host = _host(x), _host(c)

        def path(mu: float) -> tuple[Array, float]:
            z, blocks = _pool(x_host - mu * c_host)
            return like(z, x), _norm(_block_means(c_host, blocks))

        return path

    def _last(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """If c never stops pulling, any mu that is surely large enough; otherwise the last blocks.

        z(mu) differs from Pi_Z(-mu c) = mu p by at most |x|, and <c, p> = -|p|^2.
        If p = 0 then z is constant for large mu, and jumps only where the partial sums of c are 0.
        """
        x_host, c_host = _host(x), _host(c)
        pull = _norm(_monotone_part(-c_host))
        if pull > 0.0:
            mu = 4.0 * (_norm(c_host) * _norm(x_host) / pull + 1.0) / pull
            return mu, *self._path(x, c)(mu)
        sums, noise = _partial_sums(c_host)
        ends = np.flatnonzero(np.append(np.abs(sums[:-1]) <= noise[:-1], True)) + 1
        sizes = np.diff(ends, prepend=0)
        means = np.add.reduceat(x_host, ends - sizes) / sizes
        z = np.repeat(_pool(means, sizes)[0], sizes)
        inside = np.abs(sums) > noise
        breaks = np.cumsum(z - x_host)[inside] / -sums[inside]
        return max(0.0, float(np.max(breaks, initial=0.0))), like(z, x), 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class Halfspace(_Set):
    """{x : <normal, x> <= offset}."""

    normal: Any
    offset: float

    def __post_init__(self) -> None:
        _set(self, "normal", _vector(self, "normal", self.normal))
        _set(self, "offset", _finite(self, "offset", self.offset))
        if _norm(self.normal) == 0.0:
            raise ValueError("Halfspace: normal must not be the zero vector")

    def check(self, n: int) -> None:
        """Raise ValueError if the normal has not ``n`` entries."""
        _check_length(self, "normal", self.normal, n)

    def project(self, x: Array) -> Array:
        """x - max(<normal, x> - offset, 0) normal/|normal|^2."""
        return _onto_halfspace(x, *self._unit(x))

    def support(self, direction: Array) -> float:
        """t offset for direction = t normal with t >= 0 (to rounding), otherwise inf."""
        unit, height = self._unit(direction)
        t = dot(unit, direction)
        off = _norm(direction - t * unit)
        if t < 0.0 or off > 4.0 * _epsilon(direction) * t:
            return INFINITY
        return t * height

    def argmin(self, direction: Array) -> Array:
        """The point of the boundary nearest to the origin, if <direction, .> is bounded below."""
        if self.support(-direction) == INFINITY:
            raise _unbounded(self)
        unit, height = self._unit(direction)
        return height * unit

    def _unit(self, x: Array) -> tuple[Array, float]:
        """The same half-space with a normal of length 1."""
        length = _norm(self.normal)
        return like(self.normal / length, x), self.offset / length

    @property
    def _size(self) -> float:
        return max(0.0, -self.offset / _norm(self.normal))

    def _shifted(self, exponent: int) -> Halfspace:
        length = _norm(self.normal)
        return Halfspace(self.normal / length, _ldexp(self.offset / length, exponent))

    def _path(self, x: Array, c: Array) -> Path:
        unit, height = self._unit(x)
        length, along_boundary = _norm(c), _norm(_along(c, unit))

        def path(mu: float) -> tuple[Array, float]:
            v = x - mu * c
            z = _onto_halfspace(v, unit, height)
            return z, length if z is v else along_boundary

        return path

    def _last(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """The path meets the boundary at most once, at mu = (<unit, x> - height)/<unit, c>."""
        unit, height = self._unit(x)
        drop = dot(unit, c)
        meets = abs(drop) > 4.0 * _epsilon(x)
        mu = max(0.0, (dot(unit, x) - height) / drop) if meets else 0.0
        leaves = drop > 0.0 and meets
        slope = _norm(c if leaves else _along(c, unit))
        return mu, _onto_halfspace(x - mu * c, unit, height), slope


# ------------------------------------------------------------- projection onto a set and a cut


def _project_cut(
    domain: _Set, x: Array, normal: Array, offset: float, guess: float | None
) -> tuple[Array, float]:
    """Scale by powers of two so that nothing overflows, solve, refine, scale back."""
    largest = arrays.max_abs(normal)
    offset = float(offset)
    if largest < _smallest_normal(normal) or offset == INFINITY:
        return domain.project(x), 0.0
    slope = math.frexp(largest)[1]
    c = normal * 2.0**-slope
    beta = _ldexp(offset, -slope)
    size = max(arrays.max_abs(x), domain._size)
    if abs(beta) > size * x.shape[0]:
        # The cut is far from x and from the set: does it bind, and can it be met?
        z = domain.project(x)
        if dot(c, z) <= beta:
            return z, 0.0
        if beta > -domain.support(-c):  # type: ignore[attr-defined]
            size = abs(beta)
    length = max(math.frexp(size)[1], 0) if size > 2.0**20 else 0
    while True:
        start = _ldexp(guess, slope - length) if guess is not None and guess > 0.0 else 0.0
        small_set = domain._shifted(-length) if length else domain
        small_x = x * 2.0**-length if length else x
        z, mu = _refined_cut(small_set, small_x, c, _ldexp(beta, -length), start)
        if mu < INFINITY or length > 1000:
            break
        length = min(length + 400, 1001)  # z is far larger than x and the set: look from afar
    if length:
        z = z * 2.0**length if mu > 0.0 else domain.project(x)
    return z, _ldexp(min(mu, sys.float_info.max), length - slope)


def _refined_cut(
    domain: _Set, x: Array, c: Array, beta: float, guess: float
) -> tuple[Array, float]:
    """The cut projection with <c, z> = beta to the precision of z.

    Where x and mu c are much larger than z, their difference has an error.  Projecting once more,
    from z and from the side of the cut where it lies, moves it by that error only.
    """
    z, mu, met = domain._cut(x, c, beta, guess)
    for _ in range(3):
        gap = dot(c, z) - beta
        if not met or mu == 0.0 or _is_noise(gap, c, z, beta, 32.0):
            break
        sign = math.copysign(1.0, gap)
        closer, _mu, met = domain._cut(z, sign * c, sign * beta, 0.0)
        if arrays.max_abs(closer - z) > 64.0 * _epsilon(x) * (arrays.max_abs(x) + mu):
            break  # more than an error: beyond what the entries of z can express
        z = closer
    return z, mu


class _Point(NamedTuple):
    """A point of the path: the gap <c, z> - beta there, and its slope -|d|^2 as |d|."""

    mu: float
    gap: float
    slope: float
    z: Array

    @property
    def newton(self) -> float:
        """Where the gap would be zero if this piece went on."""
        if self.slope == 0.0:
            return math.copysign(INFINITY, self.gap)
        return self.mu + self.gap / self.slope / self.slope


def _root(
    path: Path,
    last: Callable[[], tuple[float, Array, float]],
    x: Array,
    c: Array,
    beta: float,
    guess: float,
) -> tuple[Array, float, bool]:
    """The first mu >= 0 with <c, z(mu)> <= beta, z(mu), and whether there is one.

    Newton's method on the current piece, which is exact once the piece is the right one; kept
    between ``low`` (gap > 0) and ``high`` (gap <= 0), and helped out where it is slow.
    """
    eps = _epsilon(c)
    largest_mu = 1.0 / _smallest_normal(c)
    low: _Point | None = None
    high: _Point | None = None
    mu, slow, smallest, largest = guess, 0, INFINITY, 0.0
    for tries in range(400):
        z, slope = path(mu)
        gap = dot(c, z) - beta
        largest = max(largest, abs(gap))
        worth_asking = tries % 4 == 0 or abs(gap) <= 1e-4 * largest
        if (gap <= 0.0 and mu == 0.0) or (worth_asking and _is_noise(gap, c, z, beta, 8.0)):
            break
        point = _Point(mu, gap, slope, z)
        newton = point.newton
        low, high = (point, high) if gap > 0.0 else (low, point)
        if high is None:
            # Newton's step, and longer and longer ones where that stays on this side.
            step = 0.1 * mu if slope == 0.0 and mu > 0.0 else point.newton - mu
            following = mu + step * 4.0 ** max(0, tries - 1)
            if following > largest_mu or tries > 8:
                final, z, slope = last()
                point = _Point(final, dot(c, z) - beta, slope, z)
                if point.gap > 0.0:
                    if slope == 0.0:
                        # Nothing of Z is left: the limit point, and a mu surely past its beginning.
                        return z, max(final * (1.0 + 4.0 * eps), mu), False
                    mu = point.newton
                    if mu > largest_mu:
                        return z, INFINITY, False
                    z, _slope = path(mu)
                    break
                high = point
        if high is not None:
            sound = low is None or low.mu < point.newton < high.mu
            slow = 0 if sound and abs(point.gap) <= 0.5 * smallest else slow + 1
            smallest = min(smallest, abs(point.gap))
            if low is None:
                following = point.newton if slope > 0.0 else 0.9 * mu
                following = following if 0.0 < following < high.mu and tries < 3 else 0.0
            else:
                following = _between(low, high, point, x, slow)
        if mu > 0.0 and min(abs(following - mu), abs(newton - mu)) <= eps * mu:
            # Perhaps mu is a breakpoint, and all is different one rounding error further.
            following = mu * (1.0 + math.copysign(2.0 * eps, gap))
        if low is not None and high is not None and not low.mu < following < high.mu:
            mu, _gap, _slope, z = min(low, high, key=lambda end: abs(end.gap))
            break
        mu = following
    return z, mu, True


def _between(low: _Point, high: _Point, latest: _Point, x: Array, slow: int) -> float:
    """The next mu to try: Newton's, and something more careful each time that it is slow."""
    following = latest.newton
    if slow % 4 == 1:
        # The best of what both ends say, if the gap between them is convex or if it is concave.
        secant = low.mu + (high.mu - low.mu) * (low.gap / (low.gap - high.gap))
        following = sorted((low.newton, secant, high.newton))[1]
    if slow % 4 == 2 or not low.mu < following < high.mu:
        # Where the two ends have the same Lagrangian |z - x|^2/2 + mu (<c, z> - beta): the gap of
        # a polytope may be a staircase, on which Newton's method is blind.
        change = high.z - low.z
        following = _large_dot(change, 0.5 * high.z + 0.5 * low.z - x) / (low.gap - high.gap)
    if slow % 4 == 3 or not low.mu < following < high.mu:
        following = _middle(low.mu, high.mu)
    return following


def _middle(low: float, high: float) -> float:
    """The middle of the floating-point numbers between two: near the geometric mean."""
    a, b = struct.unpack("<qq", struct.pack("<dd", low, high))
    return float(struct.unpack("<d", struct.pack("<q", (a + b) // 2))[0])


def _is_noise(gap: float, c: Array, z: Array, beta: float, factor: float) -> bool:
    """Is |gap| within ``factor`` times the usual rounding error of <c, z> - beta?"""
    tolerance = factor * _epsilon(c) * (1.0 + 0.1 * math.sqrt(c.shape[0]))
    return abs(gap) <= tolerance * (float(namespace(c).sum(abs(c * z))) + abs(beta))


# -------------------------------------------------------------------------------- shared pieces


class _Line:
    """A straight line through the last known threshold, to guess the next one."""

    def __init__(self) -> None:
        self.mu, self.value, self.slope = 0.0, math.nan, 0.0

    def set(self, mu: float, value: float, slope: float) -> None:
        self.mu, self.value, self.slope = mu, value, slope

    def at(self, mu: float) -> float | None:
        guess = self.value + self.slope * (mu - self.mu)
        return guess if math.isfinite(guess) else None


def _clip(x: Array, lower: Array, upper: Array) -> Array:
    xp = namespace(x)
    return xp.minimum(xp.maximum(x, lower), upper)


def _onto_simplex(v: Array, total: float, start: float | None = None) -> tuple[Array, float]:
    """max(v - tau, 0) with sum ``total``, and tau; ``start`` is a guess for tau.

    Newton's method on sum max(v - tau, 0) - total, convex in tau: after one step it is on the
    left of the root and stays there, so that the active entries only become fewer.
    """
    xp = namespace(v)
    n = v.shape[0]
    zero = like(0.0, v)
    # All relative to the largest entry: tau lies in [-total, 0), entries below -total do not
    # matter, and nothing is lost where v is much larger than total.
    top = float(xp.max(v))
    w = v - top
    near = w > -total
    count = int(xp.count_nonzero(near))
    few = count < n // 8
    part = w[near] if few else xp.maximum(w, like(-total, v))
    lowest = max(-total, (float(xp.sum(part)) - total) / part.shape[0])
    tau = lowest if start is None else min(max(start - top, lowest), 0.0)
    before = -1
    while True:
        z = xp.maximum(part - tau, zero)
        active = int(xp.count_nonzero(z > 0))
        if active == 0 and tau > lowest:  # the guess was too large
            tau = lowest
            continue
        excess = float(xp.sum(z)) - total
        # The same entries as before: this tau is theirs.  Right of the root after a step: rounding.
        if active == before or (before > 0 and excess <= 0.0):
            break
        tau, before = tau + excess / active, active
    return (xp.maximum(w - tau, zero) if few else z), top + tau


def _mean_and_spread(e: Array, on: Array) -> tuple[float, float]:
    """The mean m of the entries of e that are on, and |e - m| over them, 0 if only rounding."""
    xp = namespace(e)
    count = max(int(xp.count_nonzero(on)), 1)
    if count < e.shape[0] // 8:
        e = e[on]
        mean = float(xp.sum(e)) / count
        spread = _short_norm(e - mean)
    else:
        weights = xp.astype(on, e.dtype)
        mean = dot(weights, e) / count
        spread = _short_norm((e - mean) * weights)
    return mean, spread if spread > 8.0 * _epsilon(e) * abs(mean) * count**0.5 else 0.0


def _onto_halfspace(x: Array, unit: Array, height: float) -> Array:
    """Twice, because where |x| is much larger than the result the first time leaves an error."""
    excess = dot(unit, x) - height
    if excess <= 0.0:
        return x
    z = x - excess * unit
    return z - (dot(unit, z) - height) * unit


def _along(c: Array, unit: Array) -> Array:
    """The part of c that is orthogonal to ``unit``; zero where it is only rounding."""
    part = c - dot(unit, c) * unit
    part = part - dot(unit, part) * unit
    return part if _norm(part) > 8.0 * _epsilon(c) * _norm(c) else zeros_like(c)


def _basis_vector(x: Array, i: int) -> Array:
    xp = namespace(x)
    return xp.astype(xp.arange(x.shape[0], device=_device(x)) == i, x.dtype)


def _put(x: Array, mask: Array, values: Array) -> Array:
    """x, which is new, with ``values`` where the mask is true."""
    x[mask] = values
    return x


def _device(x: Array) -> Any:
    import array_api_compat

    return array_api_compat.device(x)


def _norm(x: Array) -> float:
    """|x| without overflow or underflow, and without NumPy's warning of it."""
    largest = arrays.max_abs(x)
    limit = _smallest_normal(x) ** 0.25
    if limit < largest < 1.0 / limit:
        return math.sqrt(dot(x, x))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    scaled = x / largest
    return largest * math.sqrt(dot(scaled, scaled))


def _large_dot(x: Array, y: Array) -> float:
    """<x, y> where it may overflow, which gives inf and no warning."""
    a, b = arrays.max_abs(x) or 1.0, arrays.max_abs(y) or 1.0
    return dot(x / a, y / b) * a * b


def _short_norm(d: Array) -> float:
    """|d| for entries in [-1, 1], which can only underflow."""
    squared = dot(d, d)
    return math.sqrt(squared) if squared > _smallest_normal(d) ** 0.5 else _norm(d)


def _epsilon(x: Array) -> float:
    return float(namespace(x).finfo(x.dtype).eps)


def _smallest_normal(x: Array) -> float:
    return float(namespace(x).finfo(x.dtype).smallest_normal)


def _floor(x: Array) -> float:
    """Entries of a vector of length 1 below this count as zero: dividing by them may overflow."""
    return _smallest_normal(x) * 2.0**23


def _ldexp(value: float, exponent: int) -> float:
    """value 2^exponent, or the largest finite number of the same sign."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(sys.float_info.max, value)


# ----------------------------------------------------------------- isotonic regression, on the host

Host = np.ndarray[Any, Any]


def _host(x: Array) -> Host:
    return to_numpy(x).astype(np.float64, copy=False)


def _pool(v: Host, weights: Host | None = None) -> tuple[Host, Host]:
    """The isotonic regression of v, and where its blocks begin (with the end at the end)."""
    from scipy.optimize import isotonic_regression

    result = isotonic_regression(v, weights=weights)
    return result.x, result.blocks


def _block_means(c: Host, blocks: Host) -> Host:
    """c averaged over each block; zero where the sum is only its rounding error."""
    sizes = np.diff(blocks)
    sums = np.add.reduceat(c, blocks[:-1])
    noise = 4.0 * np.finfo(c.dtype).eps * np.sqrt(sizes) * np.add.reduceat(np.abs(c), blocks[:-1])
    return np.repeat(np.where(np.abs(sums) > noise, sums / sizes, 0.0), sizes)


def _monotone_part(c: Host) -> Host:
    """The projection of c onto the cone, zero where it is only rounding error."""
    return _block_means(c, _pool(c)[1])


def _partial_sums(c: Host) -> tuple[Host, Host]:
    """The partial sums of c from the left, and the size of their rounding errors."""
    steps = np.sqrt(np.arange(1.0, c.shape[0] + 1.0))
    return np.cumsum(c), 4.0 * np.finfo(c.dtype).eps * steps * np.cumsum(np.abs(c))


def _is_zero(x: Host) -> bool:
    return not np.any(x)


# --------------------------------------------------------------------- checks of the parameters


def _name(domain: object) -> str:
    return type(domain).__name__


def _set(domain: object, name: str, value: object) -> None:
    object.__setattr__(domain, name, value)


def _unbounded(domain: object) -> ValueError:
    return ValueError(
        f"{_name(domain)}: <direction, x> is unbounded below on this set, so it has no minimiser"
    )


def _number(domain: object, name: str, value: object, needed: str) -> float:
    """value as a float, if it is a real number (or an array of one)."""
    if isinstance(value, (bool, str, bytes, complex)) or value is None:
        raise TypeError(f"{_name(domain)}: {name} must be {needed}, got {value!r}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(
            f"{_name(domain)}: {name} must be {needed}, got {type(value).__name__}"
        ) from None


def _positive(domain: object, name: str, value: object) -> float:
    number = _number(domain, name, value, "a positive finite number")
    if not 0.0 < number < INFINITY:
        raise ValueError(
            f"{_name(domain)}: {name} must be a positive finite number, got {number!r}"
        )
    return number


def _finite(domain: object, name: str, value: object) -> float:
    number = _number(domain, name, value, "a finite number")
    if not math.isfinite(number):
        raise ValueError(f"{_name(domain)}: {name} must be a finite number, got {number!r}")
    return number


def _floating(domain: object, name: str, value: Any, needed: str) -> Array:
    """value as a floating-point array: an array stays in its library, all else becomes NumPy's."""
    if not arrays.is_array(value):
        try:
            value = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"{_name(domain)}: {name} must be {needed}, got {type(value).__name__}"
            ) from None
    if arrays.is_real_floating(value):
        return value
    xp = namespace(value)
    if not xp.isdtype(value.dtype, "integral"):
        raise TypeError(f"{_name(domain)}: {name} must be {needed}, got dtype {value.dtype}")
    return xp.astype(value, xp.float64)


def _vector(domain: object, name: str, value: object) -> Array:
    needed = "a vector of finite numbers"
    if isinstance(value, (str, bytes, float, int)) or value is None:
        raise TypeError(f"{_name(domain)}: {name} must be {needed}, got {value!r}")
    vector = _floating(domain, name, value, needed)
    _check_shape(domain, name, vector, "a vector")
    if not bool(namespace(vector).all(namespace(vector).isfinite(vector))):
        raise ValueError(f"{_name(domain)}: {name} must be {needed}, got an entry that is not")
    return vector


def _bound(domain: object, name: str, value: object) -> Any:
    """A number stays a NumPy scalar, a vector a vector; infinities are allowed, NaN is not."""
    needed = "a number or a vector of numbers"
    if isinstance(value, (bool, str, bytes)) or value is None:
        raise TypeError(f"{_name(domain)}: {name} must be {needed}, got {value!r}")
    bound = _floating(domain, name, value, needed)
    if bound.ndim == 0:
        bound = float(bound)
        if math.isnan(bound):
            raise ValueError(f"{_name(domain)}: {name} must not be NaN")
        return bound
    _check_shape(domain, name, bound, "a number or a vector")
    if bool(namespace(bound).any(namespace(bound).isnan(bound))):
        raise ValueError(f"{_name(domain)}: {name} must not contain NaN")
    return bound


def _check_shape(domain: object, name: str, value: Array, needed: str) -> None:
    if value.ndim != 1:
        raise ValueError(
            f"{_name(domain)}: {name} must be {needed}, got an array of {value.ndim} dimensions"
        )
    if value.shape[0] == 0:
        raise ValueError(f"{_name(domain)}: {name} must have at least one entry, got none")


def _check_length(domain: object, name: str, value: Any, n: int) -> None:
    if arrays.is_array(value) and value.ndim == 1 and value.shape[0] != n:
        raise ValueError(
            f"{_name(domain)}: {name} has {value.shape[0]} entries, but the problem has {n}"
        )


def _where(lower: Host, upper: Host) -> str:
    lower, upper = np.broadcast_arrays(np.atleast_1d(lower), np.atleast_1d(upper))
    i = int(np.argmax(lower > upper))
    at = f" at entry {i}" if lower.shape[0] > 1 else ""
    return f", got {float(lower[i])!r} and {float(upper[i])!r}{at}"
