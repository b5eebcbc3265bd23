"""Draws on balls, whose truth is rational: slopes of whole length, as (3, 4), and chords of such.

The minimisers of the first level in the ball are one point, or a chord: a polyhedron, on which the
other levels are solved in fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from helpers import rational
from helpers.rational import Region, Row, Truth, Vector, dot, fractions, negated, unit
from hypothesis import strategies as st
from truth import cases, draws
from truth.cases import Aim, Case, Zone

WHOLE = {  # vectors of whole length
    2: ((3, 4, 5), (4, -3, 5), (1, 0, 1), (5, 12, 13)),
    3: ((1, 2, 2, 3), (2, -3, 6, 7), (0, 3, 4, 5), (0, 0, 1, 1)),
}


@dataclass(frozen=True, eq=False, repr=False)
class BallCase(Case):
    """A chain on {|x - center| <= radius} with ``left`` the minimisers of its first level there."""

    left: Region | None = None
    radius: float = 1.0
    center: tuple[float, ...] = ()

    @cached_property
    def region(self) -> Any:
        return self

    def excess(self, x: Vector) -> Fraction:
        """As that of a region: 1 for what may pass."""
        center, radius = fractions(self.center), Fraction(self.radius)
        off = sum(((s - t) ** 2 for s, t in zip(x, center, strict=True)), Fraction(0)) - radius**2
        terms = radius + max(map(abs, [*x, *center]))
        eps = Fraction(1, 2**52)
        allowed = 2 * radius * max(terms / 10**9, self.n * eps * max(map(abs, x)))
        return max(off / allowed, Fraction(0))

    @cached_property
    def truth(self) -> Truth:
        first, *others = [(a.objective, a.allowance) for a in self.aims]
        found = rational.solve(self.left, others)
        at = found.x if found.x is not None else rational.solve(self.left, []).x
        found.values.insert(0, first[0].value(at))
        found.slacks.insert(0, Fraction(0))
        return found


def ball(draw: Any, n: int, radius: float, center: list[float]) -> Zone:
    """As a Ball, or as a cone."""
    kind, code = "Ball", f"tb.Ball({radius}, {center})"
    if draws.chance(draw, 30):
        kind = "SecondOrderCone"
        code = f"tb.SecondOrderCone({np.eye(n).tolist()}, {[-t for t in center]}, d={radius})"
    return Zone(kind, code, lambda region: None)


def chord(normal: Vector, at: Fraction, center: Vector, half: Fraction) -> Region:
    """In the plane: <normal, x> = at, within a distance of ``half`` normals from the centre."""
    along = [-normal[1], normal[0]]
    middle = dot(along, center)
    ends = [Row(along, middle + half), Row(negated(along), half - middle)]
    return Region(2, ends, [Row(normal, at)])


def point(x: Vector) -> Region:
    return Region(len(x), [], [Row(unit(len(x), j), t) for j, t in enumerate(x)])


@st.composite
def problems(draw: Any) -> Case:
    """Two or three levels on a ball."""
    n = draw(st.integers(2, 3))
    size = draw(st.sampled_from((1.0, 1.0, 1.0, 2.0**-30, 2.0**30)))
    *a, length = draw(st.sampled_from(WHOLE[n]))
    radius = 5.0 * size
    center = draws.numbers(draw, n, 2, size)
    kind = draw(
        st.sampled_from(["linear", "norm", "far row", "row"] if n == 2 else ["linear", "norm"])
    )
    normal, middle, r = fractions(a), fractions(center), Fraction(radius)
    end = [t + r * s / length for t, s in zip(middle, normal, strict=True)]
    scale, left = draw(st.sampled_from(draws.SCALES)), point(end)
    if kind == "linear":
        first = cases.linear([-scale * t for t in a])
    elif kind == "norm":
        far = draw(st.sampled_from([8, 100])) * size
        first = cases.squared_norm(n, scale, [s + far * t for s, t in zip(center, a, strict=True)])
    else:
        part = (
            draw(st.sampled_from([6, 10]))
            if kind == "far row"
            else draw(st.sampled_from([0, 3, 4]))
        )
        b = float(np.dot(a, center)) + part * length * size
        first = cases.least_squares([list(map(float, a))], [b])
        if kind == "row":
            half = {0: 5, 3: 4, 4: 3}[part] * length * Fraction(size)
            left = chord(normal, Fraction(b), middle, half)
    levels: list[Aim] = [first]
    levels += [
        draw(draws.aims(n, size, draws.ALL)) for _ in range(draw(st.sampled_from([1, 1, 2])))
    ]
    methods = ("auto", draw(st.sampled_from(["conic", "exact", "adaptive", "primal-dual"])))
    rtol = draw(st.sampled_from([1e-4, 1e-4, 1e-8]))
    kept = (n, ball(draw, n, radius, center), tuple(levels), rtol, "", ())
    chain = len(levels) > 2
    more = {"left": left, "radius": radius, "center": tuple(center)}
    return BallCase(*kept, methods[:1] if chain else methods, chain, **more)
