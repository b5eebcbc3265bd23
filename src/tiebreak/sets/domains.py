"""The whole space, half-spaces, and the base class of sets without a cheap projection."""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tiebreak.linalg import TOL, arrays, assign, checks, ldexp, moved, remember, tables
from tiebreak.linalg.arrays import Array, Host, dot, like, norm, zeros_like
from tiebreak.linalg.host import host
from tiebreak.sets.base import INFINITY, Set
from tiebreak.sets.boxes import Box
from tiebreak.sets.cuts import CutProjection, Products, ProjectionPath
from tiebreak.sets.descriptions import ActiveFace, LinearRows, face_across


class Constraints(Set, is_open=True):
    """The base class of sets without a cheap projection."""

    has_projection: ClassVar[bool] = False
    has_argmin: ClassVar[bool] = False

    def project(self, x: Array) -> Array:
        """Return x if it is in the set; otherwise raise ValueError: no projection is computed."""
        if self.contains(x):
            return x
        raise ValueError(
            f"{type(self).__name__}: x must be in the set, because its projection is not computed, "
            "got a point outside; the conic and exact methods need no projection"
        )

    def excess(self, x: Array) -> float:
        """A lower bound on the distance from x to the set, from the most violated constraint."""
        raise NotImplementedError

    def argmin(self, direction: Array) -> Array:
        raise ValueError(
            f"{type(self).__name__}: linear functions cannot be minimised by a formula or a "
            "linear program; the conic method accepts Linear(direction) as an objective"
        )


@dataclasses.dataclass(frozen=True)
class Space(Set):
    """The whole space R^n.

    Examples:
        >>> problem = tb.Problem(lower=tb.LeastSquares([[1, 1]], [2]), upper=tb.SquaredNorm())
        >>> problem.domain  # no constraint
        Space()
        >>> problem.domain.project(np.array([3.0, -4.0]))
        array([ 3., -4.])
    """

    is_space: ClassVar[bool] = True

    def linear_rows(self, n: int) -> LinearRows:
        return LinearRows(n)

    @property
    def is_cone(self) -> bool:
        return True

    @property
    def as_ball(self) -> tuple[Any, float]:
        return None, INFINITY

    def in_units(self, units: Any) -> Space:
        return self

    def extended(self, n: int, lower: Host) -> Set:
        return self if np.isinf(lower).all() else Box(np.append(np.full(n, -np.inf), lower), np.inf)

    def distance_outside(self, x: Array, unit: float) -> float:
        return 0.0

    def project(self, x: Array) -> Array:
        """``x`` itself."""
        return x

    def support(self, direction: Array) -> float:
        """Return 0 for the zero direction, otherwise inf."""
        return 0.0 if arrays.max_abs(direction) == 0.0 else INFINITY

    def argmin(self, direction: Array) -> Array:
        """Return the origin for the zero direction; any other direction has no minimiser."""
        if self.support(direction) > 0.0:
            raise self.no_minimiser()
        return zeros_like(direction)

    def cut_projection(
        self, x: Array, c: Array, beta: float, guess: float, known: Products
    ) -> CutProjection:
        gap = known.inner - beta
        if gap <= 0.0:
            return CutProjection(x, 0.0, True, known.sizes(1.0, 0.0))
        mu = gap / known.normal
        return CutProjection(moved(x, mu, c), mu, True, known.sizes(1.0, -mu))


@dataclasses.dataclass(frozen=True, eq=False)
class Halfspace(Set):
    """{x : <normal, x> <= offset}.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> domain = tb.Halfspace([1, 0], 1.5)  # x_1 <= 1.5
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=domain)
        >>> tb.solve(problem).x.round(4)
        array([1.5, 0.5])
    """

    normal: Any
    offset: float
    _vector_names: ClassVar[tuple[str, ...]] = ("normal",)

    def __post_init__(self) -> None:
        remember(self, Halfspace, normal=self.normal, offset=self.offset)
        assign(self, "names", tables.names(self.normal))
        assign(self, "normal", checks.vector("Halfspace", "normal", self.normal))
        assign(self, "offset", checks.finite("Halfspace", "offset", self.offset))
        if arrays.max_abs(self.normal) == 0.0:
            raise ValueError("Halfspace: normal must not be the zero vector")
        if not math.isfinite(self._height):
            raise ValueError(
                "Halfspace: offset divided by the length of normal must be finite, "
                f"got {self.offset:g}/{norm(self._precise):g}"
            )

    def linear_rows(self, n: int) -> LinearRows:
        return LinearRows(n, host(self.normal)[None], [self.offset])

    def face_at(self, x: Array) -> ActiveFace | None:
        """The plane that bounds the half-space, if x is on it."""
        normal = like(self.normal, x)
        reach = norm(normal) * norm(x) + abs(self.offset)
        is_on = self.offset - dot(normal, x) <= TOL.met * reach
        return face_across(self.project, normal) if is_on else None

    def project(self, x: Array) -> Array:
        """x - max(<normal, x> - offset, 0) normal/|normal|^2."""
        return self._onto(x, like(self._unit, x))

    def support(self, direction: Array) -> float:
        """Return t offset if direction = t normal with t >= 0, up to rounding; otherwise inf."""
        unit = like(self._unit, direction)
        t = dot(unit, direction)
        off = norm(moved(direction, t, unit))
        if t < 0.0 or off > 4.0 * arrays.epsilon(direction) * t:
            return INFINITY
        return t * self._height

    def argmin(self, direction: Array) -> Array:
        """The point of the boundary nearest to the origin, if <direction, .> is bounded below."""
        if self.support(-direction) == INFINITY:
            raise self.no_minimiser()
        return self._height * like(self._unit, direction)

    @cached_property
    def _unit(self) -> Array:
        """The normal scaled to length 1; the half-space is {<unit, x> <= height}.

        The scaled normal is in double precision, because some points are: rounded to single
        precision, it would describe a different half-space.
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
    def length_scale(self) -> float:
        return max(0.0, -self._height)

    def _onto(self, x: Array, unit: Array, *, boundary: bool = False) -> Array:
        """The projection z, computed twice because the first z is inaccurate if |x| >> |z|."""
        excess = dot(unit, x) - self._height
        if excess <= 0.0 and not boundary:
            return x
        z = moved(x, excess, unit)
        z += unit * (self._height - dot(unit, z))
        return z

    @property
    def cancelling_length(self) -> float:
        return abs(self._height)

    def distance_outside(self, x: Array, unit: float) -> float:
        normal = like(self.normal, x)
        length = norm(normal)
        along, reach = dot(normal, x), length * norm(x) + abs(self.offset)
        return max(along - self.offset + unit * reach, 0.0) / length * (1.0 + unit)

    def scaled(self, exponent: int) -> Halfspace:
        return Halfspace(self._unit, ldexp(self._height, exponent))

    def in_units(self, units: Any) -> Halfspace:
        return Halfspace(host(self.normal) * units, self.offset)

    def extended(self, n: int, lower: Host) -> Set:
        wider = Halfspace(np.append(host(self.normal), np.zeros(len(lower))), self.offset)
        return wider if np.isinf(lower).all() else wider & Space().extended(n, lower)

    def projection_path(self, x: Array, c: Array) -> ProjectionPath:
        unit = like(self._unit, x)
        length, along_boundary = norm(c), _length_across(c, unit)

        def path(mu: float) -> tuple[Array, float, float]:
            v = moved(x, mu, c)
            z = self._onto(v, unit)
            return z, dot(c, z), length if z is v else along_boundary

        return path

    def last_piece(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """The path meets the boundary at most once, at mu = (<unit, x> - height)/<unit, c>."""
        unit = like(self._unit, x)
        length, drop = norm(c), dot(unit, c)
        meets = abs(drop) > 4.0 * arrays.epsilon(x) * length
        mu = max(0.0, (dot(unit, x) - self._height) / drop) if meets else 0.0
        slope = length if meets and drop > 0.0 else _length_across(c, unit)
        return mu, self._onto(moved(x, mu, c), unit, boundary=mu > 0.0), slope


def _length_across(c: Array, unit: Array) -> float:
    """The length of the part of c orthogonal to ``unit``; 0 if this part is a rounding error."""
    part = moved(c, dot(unit, c), unit)
    length = norm(moved(part, dot(unit, part), unit))
    return length if length > 8.0 * arrays.epsilon(c) * norm(c) else 0.0
