"""Euclidean balls."""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tiebreak.linalg import TOL, arrays, assign, checks, remember, tables
from tiebreak.linalg.arrays import SAFE, Array, dot, from_center, like, norm, zeros_like
from tiebreak.linalg.conic_form import ConicForm, constants
from tiebreak.linalg.elementwise import moved, shrunk
from tiebreak.linalg.host import host
from tiebreak.sets.base import Set, Violation
from tiebreak.sets.cuts import CutProjection, Products
from tiebreak.sets.descriptions import ActiveFace, Bounds, face_across


@dataclasses.dataclass(frozen=True, eq=False)
class Ball(Set):
    """{x : |x - center| <= radius}, the Euclidean ball; ``center=None`` is the origin.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> domain = tb.Ball(1.5)
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=domain)
        >>> tb.solve(problem).x.round(4)
        array([1.3536, 0.6464])
    """

    radius: float = 1.0
    center: Any = None
    _vector_names: ClassVar[tuple[str, ...]] = ("center",)

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

    def conic_form(self, form: ConicForm) -> None:
        center = 0.0 if self.center is None else host(self.center)
        form.second_order(constants(np.array([self.radius])), form.x - center)

    def bounds_in(self, n: int) -> Bounds:
        center = np.zeros(n) if self.center is None else host(self.center)
        away = self.radius + (SAFE - 1.0) * (np.abs(center) + self.radius)
        return Bounds(center - away, center + away, (norm(center) + self.radius) * SAFE)

    @property
    def as_ball(self) -> tuple[Any, float]:
        return self.center, self.radius

    def depth(self, x: Array) -> float:
        away, size = 0.0 if self.center is None else norm(like(self.center, x)), norm(x)
        unit = arrays.rounding_unit(arrays.epsilon(x), int(x.shape[0]))
        inside = self.radius - norm(from_center(x, self.center))
        return max(inside - unit * (self.radius + size + away), 0.0)

    def violations(self, x: Array) -> list[Violation]:
        # Center and radius are terms of the constraint, even where the sphere is close to 0.
        away = self.radius + (0.0 if self.center is None else norm(like(self.center, x)))
        return [
            one._replace(size=max(one.size, self.radius), reach=max(one.reach, away))
            for one in super().violations(x)
        ]

    def face_at(self, x: Array) -> ActiveFace | None:
        """The sphere as a face, with its tangent directions; None if x is not on the sphere."""
        away = from_center(x, self.center)
        if norm(away) < self.radius * (1.0 - TOL.met):
            return None
        # The sphere adds the curvature |slope|/radius: a tangent step d ends |d|²/(2 radius)
        # outside the sphere, and moving back raises the function by |slope| times this distance.
        return face_across(self.project, away)._replace(
            curvature=lambda slope: max(-dot(away, slope) / dot(away, away), 0.0)
        )

    def project(self, x: Array) -> Array:
        """center + (x - center) min(1, radius/|x - center|)."""
        y = from_center(x, self.center)
        return self._nearest(x, y, norm(y))

    def project_with_square(self, x: Array, square: float) -> Array:
        if self.center is not None or type(self).project is not Ball.project:
            return self.project(x)
        return self._nearest(x, x, norm(x, square))

    def support(self, direction: Array) -> float:
        """<direction, center> + radius |direction|."""
        return self._middle(direction) + self.radius * norm(direction)

    def argmin(self, direction: Array) -> Array:
        """The point center - radius direction/|direction|; for the zero direction, the center."""
        length = norm(direction)
        if length == 0.0:
            return self._back(zeros_like(direction))
        z = direction / length
        z *= -self.radius
        return self._back(z)

    def farthest(self, x: Array) -> float:
        """|x - center| + radius."""
        return norm(from_center(x, self.center)) + self.radius

    def _nearest(self, x: Array, y: Array, length: float) -> Array:
        """The projection of x, given y = x - center and ``length`` = |y|."""
        if length <= self.radius:
            return x
        return self._back(arrays.stretched(y, length, self.radius))

    def _back(self, y: Array) -> Array:
        return y if self.center is None else y + like(self.center, y)

    def _middle(self, direction: Array) -> float:
        return 0.0 if self.center is None else dot(direction, like(self.center, direction))

    @cached_property
    def length_scale(self) -> float:
        return max(self.radius, 0.0 if self.center is None else arrays.max_abs(self.center))

    @cached_property
    def cancelling_length(self) -> float:
        return self.radius + (0.0 if self.center is None else norm(arrays.double(self.center)))

    def distance_outside(self, x: Array, unit: float) -> float:
        return max(norm(from_center(x, self.center)) * (1.0 + unit) - self.radius, 0.0)

    def scaled(self, exponent: int) -> Ball:
        center = None if self.center is None else self.center * 2.0**exponent
        return Ball(shrunk(self.radius, exponent), center)

    def cut_projection(
        self, x: Array, c: Array, beta: float, guess: float, known: Products
    ) -> CutProjection:
        """A closed form: y = x - center has the component a along c/|c| and b orthogonal to c."""
        eps, radius = arrays.epsilon(x), self.radius
        y = from_center(x, self.center)
        if y is not x:
            known = Products.of(c, y)
        length, distance = norm(c, known.normal), norm(y, known.point)
        a, h = known.inner / length, (beta - self._middle(c)) / length
        ratio = h / radius
        rounding = 2.0 * eps * radius if distance > radius else 0.0
        if ratio >= 1.0 or a * min(1.0, radius / max(distance, radius)) <= h + rounding:
            return self._uncut(x, y, distance)
        if ratio <= -1.0 + eps:
            # The cut touches the ball in one point or misses it: z(mu) converges to the point of
            # the ball nearest to the cut.
            far = max(0.0, a + (distance + radius) / eps)
            return CutProjection(self._back(c * (-radius / length)), far / length, False)
        reach = radius * math.sqrt((1.0 - ratio) * (1.0 + ratio))
        b = math.sqrt(max(0.0, (distance - a) * (distance + a)))
        if not b > 0.1 * distance:  # b is small or NaN
            return self._cut_nearly_parallel(y, c, known.normal, a, h, reach) or self._uncut(
                x, y, distance
            )
        # The result minus the center is s y + t c; no other vector is computed.
        s, mu = (1.0, a - h) if a >= h and b <= reach else (reach / b, a - b * (h / reach))
        if mu <= 0.0:  # the projection of x violates the cut only by a rounding error
            return self._uncut(x, y, distance)
        t = (h - s * a) / length
        sizes = known.sizes(s, t) if self.center is None else None
        return CutProjection(
            self._back(moved(y if s == 1.0 else s * y, -t, c)), mu / length, True, sizes
        )

    def _cut_nearly_parallel(
        self, y: Array, c: Array, square: float, a: float, h: float, reach: float
    ) -> CutProjection | None:
        """The projection if y is nearly a multiple of c; None if the cut does not bind.

        ``square`` = <c, c>, and the cut's plane meets this ball in a ball of radius ``reach``.
        """
        length = norm(c, square)
        across = moved(y, a / length, c)
        inner, rest = arrays.dots((c, across), (across, across))
        # Orthogonalise against c a second time, because of cancellation.
        across, along = moved(across, inner / square, c), inner * inner / square
        b = norm(across, rest - along if along <= 0.01 * rest else None)
        if a >= h and b <= reach:
            return CutProjection(self._back(moved(across, -h / length, c)), (a - h) / length, True)
        if b == 0.0:
            return CutProjection(
                self._back(c * (-self.radius / length)), max(0.0, a) / length, False
            )
        mu = a - b * (h / reach)
        if mu <= 0.0:
            return None
        across *= reach / b
        return CutProjection(self._back(moved(across, -h / length, c)), mu / length, True)

    def _uncut(self, x: Array, y: Array, distance: float) -> CutProjection:
        """The projection if the cut does not bind, given y = x - center and ``distance`` = |y|."""
        size = min(distance, self.radius)
        sizes = (size, size) if self.center is None else None
        return CutProjection(self._nearest(x, y, distance), 0.0, True, sizes)
