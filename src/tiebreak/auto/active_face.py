"""The face of a set that a point lies on: the directions along it, and which face it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tiebreak.functions import Terms
from tiebreak.linalg import Array, arrays
from tiebreak.sets import Ball, Box, Domain, Halfspace, L1Ball, Monotone, Simplex

TOUCHING = 1e-12  # relative: closer to a bound than this is on it, whatever rounding has done


class ActiveFace(NamedTuple):
    """The directions along a face, and an array that tells it from others."""

    along: Callable[[Array], Array]  # the part of a vector along the face
    key: Array
    retract: Callable[[Array], Array]  # back to the set, after a step along the face
    free: Array | None  # 1 where an entry may change, 0 where it may not; None: not that simple
    room: Callable[[Array, Array], float] = lambda x, d: math.inf  # how far x + t d stays on it
    is_plain: bool = False  # is that all there is to it?
    # What the face itself adds to the Hessian, where a slope presses x onto it.
    curvature: Callable[[Array], float] = lambda slope: 0.0


def face_of_domain(domain: Domain, x: Array) -> ActiveFace:
    """The face of the domain that x, a point of it, lies inside of.

    Entries are on a bound where `project` has put them, to the last bit. The sphere of a ball
    counts as a face too, with the directions that touch it. Of a set that is not known, the whole.
    """
    whole = ActiveFace(
        lambda v: v,
        arrays.zeros_like(x),
        domain.project,
        arrays.namespace(x).ones_like(x),
        is_plain=True,
    )
    return _proper_face(domain, x) or whole


def _proper_face(domain: Domain, x: Array) -> ActiveFace | None:
    """The same, None where that is the whole set."""
    xp = arrays.namespace(x)
    if isinstance(domain, Box):  # the orthant too
        return _in_box(domain, x)
    if isinstance(domain, Simplex):
        return _on_simplex(domain, x, xp.astype(x > TOUCHING * domain.total, x.dtype))
    if isinstance(domain, L1Ball) and float(xp.sum(xp.abs(x))) >= domain.radius * (1.0 - TOUCHING):
        is_on = xp.abs(x) > TOUCHING * domain.radius
        return _on_simplex(domain, x, xp.where(is_on, xp.sign(x), arrays.zeros_like(x)))
    if isinstance(domain, Monotone):
        return _in_blocks(domain, x)
    return _on_surface(domain, x)


def _on_surface(domain: Domain, x: Array) -> ActiveFace | None:
    """The surface of a halfspace or a ball, where x is on it."""
    if isinstance(domain, Halfspace):
        normal = arrays.like(domain.normal, x)
        reach = arrays.norm(normal) * arrays.norm(x) + abs(domain.offset)
        if domain.offset - arrays.dot(normal, x) <= TOUCHING * reach:
            return _across(domain, normal)
    if isinstance(domain, Ball):
        away = x if domain.center is None else x - arrays.like(domain.center, x)
        if arrays.norm(away) >= domain.radius * (1.0 - TOUCHING):
            # |slope|/radius, for x + d lies |d|²/(2 radius) below the tangent plane of a sphere.
            return _across(domain, away)._replace(
                curvature=lambda slope: max(-arrays.dot(away, slope) / arrays.dot(away, away), 0.0)
            )
    return None


def _in_box(box: Box, x: Array) -> ActiveFace:
    """Entries on a bound stay there."""
    xp, zero = arrays.namespace(x), arrays.zeros_like(x)
    low, high = (arrays.like(bound, x) for bound in (box.lower, box.upper))
    free = (x > low) & (x < high)
    key = xp.astype(free, x.dtype)

    def room(x: Array, d: Array) -> float:
        return min(_room(x - low, d), _room(high - x, -d))

    return ActiveFace(lambda v: xp.where(free, v, zero), key, box.project, key, room, True)


def face_of_terms(terms: Terms, x: Array) -> tuple[ActiveFace, Array | None]:
    """The face of the set where the terms are smooth, and their slope along it; None: it is 0.

    Entries that are 0 stay so where an l1 part has its kink there, groups and the whole likewise;
    with a center, what is there stays there.
    """
    face = face_of_domain(terms.domain, x)
    if not terms.has_weights:
        return face, None
    xp = arrays.namespace(x)
    zero = arrays.zeros_like(x)
    # The kinks of the norms are at their center, those of a weight 0 are none.
    kink = zero if terms.center is None else arrays.like(terms.center, x)
    off = terms.from_center(x)
    has_l1 = terms.norms[0] > 0.0
    l1 = terms.l1 if isinstance(terms.l1, float) else arrays.like(terms.l1, x)
    slope, signs = terms.square * x, xp.sign(off)
    free = xp.ones_like(x)
    if has_l1 and not isinstance(terms.l1, float):
        signs = signs * xp.astype(l1 > 0.0, x.dtype)
        free = xp.where(l1 > 0.0, xp.abs(signs), free)
        slope = slope + l1 * signs
    elif has_l1:
        free = xp.abs(signs)
        slope = slope + l1 * signs
    if terms.group > 0.0:
        lengths, layout = terms.lengths(off)
        is_on = (lengths > 0.0) | (layout.penalised == 0.0)
        free = layout.spread(free, is_on.astype(np.float64))
        slope = slope + layout.spread(
            off, terms.group * layout.penalised / np.where(lengths > 0.0, lengths, np.inf)
        )
    if terms.l2 > 0.0:
        length = arrays.norm(off)
        free = free if length > 0.0 else zero
        slope = slope + (terms.l2 / length if length > 0.0 else 0.0) * off

    def retract(y: Array) -> Array:
        # A step that would change a sign, or turn a group around, ends at the kink.
        if has_l1:
            y = xp.where(signs * (y - kink) < 0.0, kink, y)
        if terms.group > 0.0:
            layout = terms.layout(int(x.shape[0]))
            beyond = terms.from_center(y)
            is_over = (layout.dots(off, beyond) < 0.0) & (layout.penalised > 0.0)
            y = kink + layout.spread(beyond, 1.0 - is_over)
        return face.retract(y)

    key = face.key + 4.0 * (free * signs if has_l1 else free)

    def room(x: Array, d: Array) -> float:
        return min(face.room(x, d), _room(signs * (x - kink), signs * d) if has_l1 else math.inf)

    both = None if face.free is None else free * face.free
    return ActiveFace(
        lambda v: face.along(free * v), key, retract, both, room, face.is_plain, face.curvature
    ), slope


def _on_simplex(domain: Domain, x: Array, sign: Array) -> ActiveFace:
    """Where the sum of sign_i x_i is given, and x_i = 0 where the sign is 0."""
    xp = arrays.namespace(x)
    count = max(arrays.dot(sign, sign), 1.0)
    zero = arrays.zeros_like(x)

    def along(v: Array) -> Array:
        return xp.where(sign != 0.0, v, zero) - (arrays.dot(sign, v) / count) * sign

    def retract(y: Array) -> Array:
        # Along the face the sum stays; projections onto it are not right to the last digit.
        return y if float(xp.min(sign * y)) >= 0.0 else domain.project(y)

    return ActiveFace(along, sign, retract, xp.abs(sign), lambda x, d: _room(sign * x, sign * d))


def _room(x: Array, d: Array) -> float:
    """The largest t with x + t d >= 0, where x >= 0; entries that stay do not count."""
    xp = arrays.namespace(x)
    falls = d < 0.0
    ratio = xp.where(falls, x / xp.where(falls, -d, xp.ones_like(d)), math.inf)
    return float(xp.min(ratio))


def _across(domain: Domain, normal: Array) -> ActiveFace:
    """What is orthogonal to the normal."""
    unit = normal / arrays.norm(normal)
    one = arrays.namespace(normal).ones_like(normal)
    return ActiveFace(lambda v: v - arrays.dot(unit, v) * unit, one, domain.project, one)


def _in_blocks(domain: Domain, x: Array) -> ActiveFace:
    """Where x is constant in blocks: the means over them."""
    values = arrays.to_numpy(x)
    apart = np.diff(values) > TOUCHING * float(np.max(np.abs(values), initial=0.0))
    block = np.append(0, np.cumsum(apart))
    count = np.bincount(block)

    def along(v: Array) -> Array:
        means = np.bincount(block, arrays.to_numpy(v)) / count
        return arrays.like(means[block], x)

    return ActiveFace(along, arrays.like(block.astype(values.dtype), x), domain.project, None)
