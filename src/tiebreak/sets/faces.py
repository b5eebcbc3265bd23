"""Faces of sets: the directions along a face, and how to stay on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array


class ActiveFace(NamedTuple):
    """The directions along a face, and an array that identifies it."""

    along: Callable[[Array], Array]  # the part of a vector along the face
    key: Array
    retract: Callable[[Array], Array]  # back to the set, after a step along the face
    # 1 where an entry may change, 0 where it may not; None if it is not that simple
    free: Array | None
    # how far x + t d stays on the face
    room: Callable[[Array, Array], float] = lambda x, d: math.inf
    is_plain: bool = False  # is the face described by the entries of `free` alone?
    # what a curved face adds to the Hessian if the slope pushes x against it
    curvature: Callable[[Array], float] = lambda slope: 0.0


def face_of_signs(project: Callable[[Array], Array], x: Array, sign: Array) -> ActiveFace:
    """The face where the sum of sign_i x_i is constant, and x_i = 0 if sign_i = 0."""
    xp = arrays.namespace(x)
    count = max(arrays.dot(sign, sign), 1.0)
    zero = arrays.zeros_like(x)

    def along(v: Array) -> Array:
        return xp.where(sign != 0.0, v, zero) - (arrays.dot(sign, v) / count) * sign

    def retract(y: Array) -> Array:
        # The sum is constant along the face, and a projection would add rounding errors.
        return y if float(xp.min(sign * y)) >= 0.0 else project(y)

    return ActiveFace(
        along, sign, retract, xp.abs(sign), lambda x, d: room_along(sign * x, sign * d)
    )


def room_along(x: Array, d: Array) -> float:
    """The largest t with x + t d >= 0, if x >= 0; entries that do not change are ignored."""
    xp = arrays.namespace(x)
    falls = d < 0.0
    ratio = xp.where(falls, x / xp.where(falls, -d, xp.ones_like(d)), math.inf)
    return float(xp.min(ratio))


def face_across(project: Callable[[Array], Array], normal: Array) -> ActiveFace:
    """The face with this normal."""
    unit = normal / arrays.norm(normal)
    one = arrays.namespace(normal).ones_like(normal)
    return ActiveFace(lambda v: v - arrays.dot(unit, v) * unit, one, project, one)
