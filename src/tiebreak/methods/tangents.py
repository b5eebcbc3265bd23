"""The face of a set that a point lies on: the directions along it, and which face it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tiebreak import arrays
from tiebreak.arrays import Array
from tiebreak.domains import Ball, Box, Domain, Halfspace, L1Ball, Monotone, Simplex

TOUCHING = 1e-12  # relative: closer to a bound than this is on it


class Tangent(NamedTuple):
    """The directions along a face, and an array that tells it from others."""

    along: Callable[[Array], Array]  # the part of a vector along the face
    key: Array


def tangent(domain: Domain, x: Array) -> Tangent:
    """The face of the domain that x, a point of it, lies inside of.

    Entries are on a bound where `project` has put them, to the last bit. The sphere of a ball
    counts as a face too, with the directions that touch it. Of a set that is not known, the whole.
    """
    xp = arrays.namespace(x)
    zero = arrays.zeros_like(x)
    if isinstance(domain, Box):  # the orthant too
        low, high = (arrays.like(bound, x) for bound in (domain.lower, domain.upper))
        free = (x > low) & (x < high)
        return Tangent(lambda v: xp.where(free, v, zero), xp.astype(free, x.dtype))
    if isinstance(domain, Simplex):
        return _on_simplex(x, xp.astype(x > TOUCHING * domain.total, x.dtype))
    if isinstance(domain, L1Ball) and float(xp.sum(xp.abs(x))) >= domain.radius * (1.0 - TOUCHING):
        return _on_simplex(x, xp.where(xp.abs(x) > TOUCHING * domain.radius, xp.sign(x), zero))
    if isinstance(domain, Monotone):
        return _in_blocks(x)
    if isinstance(domain, Halfspace):
        normal = arrays.like(domain.normal, x)
        reach = arrays.norm(normal) * arrays.norm(x) + abs(domain.offset)
        if domain.offset - arrays.dot(normal, x) <= TOUCHING * reach:
            return _across(normal)
    if isinstance(domain, Ball):
        away = x if domain.center is None else x - arrays.like(domain.center, x)
        if arrays.norm(away) >= domain.radius * (1.0 - TOUCHING):
            return _across(away)
    return Tangent(lambda v: v, zero)


def _on_simplex(x: Array, sign: Array) -> Tangent:
    """Where the sum of sign_i x_i is given, and x_i = 0 where the sign is 0."""
    xp = arrays.namespace(x)
    count = max(arrays.dot(sign, sign), 1.0)
    zero = arrays.zeros_like(x)

    def along(v: Array) -> Array:
        return xp.where(sign != 0.0, v, zero) - (arrays.dot(sign, v) / count) * sign

    return Tangent(along, sign)


def _across(normal: Array) -> Tangent:
    """What is orthogonal to the normal."""
    unit = normal / arrays.norm(normal)
    one = arrays.namespace(normal).ones_like(normal)
    return Tangent(lambda v: v - arrays.dot(unit, v) * unit, one)


def _in_blocks(x: Array) -> Tangent:
    """Where x is constant in blocks: the means over them."""
    values = arrays.to_numpy(x)
    apart = np.diff(values) > TOUCHING * float(np.max(np.abs(values), initial=0.0))
    block = np.append(0, np.cumsum(apart))
    count = np.bincount(block)

    def along(v: Array) -> Array:
        means = np.bincount(block, arrays.to_numpy(v)) / count
        return arrays.like(means[block], x)

    return Tangent(along, arrays.like(block.astype(values.dtype), x))
