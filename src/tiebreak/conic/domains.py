"""Sets as constraints of a conic program, and the bounds on x that follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.builder import ROUND_UP, Builder, constants
from tiebreak.functions.penalties.operator_terms import differences
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import host
from tiebreak.sets.domains import (
    Ball,
    Box,
    Domain,
    Halfspace,
    L1Ball,
    Monotone,
    Orthant,
    Simplex,
    Space,
)


class Bounds(NamedTuple):
    """lower <= x <= upper and |x| <= radius."""

    lower: Host
    upper: Host
    radius: float = math.inf

    def within(self, other: Bounds) -> Bounds:
        """Those of both together."""
        lower = np.maximum(self.lower, other.lower)
        return Bounds(lower, np.minimum(self.upper, other.upper), min(self.radius, other.radius))


def parts_of(domain: Domain) -> list[Domain]:
    """The sets that it is the intersection of."""
    return [domain]


def bounds_on(domain: Domain, n: int) -> Bounds:
    """What a set says about the sizes of x in R^n; nothing where it is not bounded."""
    known = _BOUNDS.get(type(domain))
    nothing = Bounds(np.full(n, -math.inf), np.full(n, math.inf))
    return nothing if known is None else nothing.within(known(domain, n))


def can_represent(domain: Domain) -> bool:
    """Is it one of ours?  A subclass of the user may be another set."""
    return type(domain) in _CONSTRAINTS


def constrain(builder: Builder, domain: Domain) -> None:
    """x in the domain."""
    _CONSTRAINTS[type(domain)](builder, domain)


# --- the sets -------------------------------------------------------------------------------------


def _ends(domain: Box, n: int) -> tuple[Host, Host]:
    lower, upper = (np.broadcast_to(host(end), n) for end in (domain.lower, domain.upper))
    return lower, upper


def _ball(builder: Builder, domain: Ball) -> None:
    center = 0.0 if domain.center is None else host(domain.center)
    builder.second_order(constants(np.array([domain.radius])), builder.x - center)


def _ball_bounds(domain: Ball, n: int) -> Bounds:
    center = np.zeros(n) if domain.center is None else host(domain.center)
    slack = (ROUND_UP - 1.0) * (np.abs(center) + domain.radius)
    away = domain.radius + slack
    return Bounds(center - away, center + away, (arrays.norm(center) + domain.radius) * ROUND_UP)


def _box(builder: Builder, domain: Box) -> None:
    lower, upper = _ends(domain, builder.n)
    x, is_point = builder.x, lower == upper
    if is_point.any():
        builder.zero(x.some(is_point) - lower[is_point])
    for end, sign in ((lower, 1.0), (upper, -1.0)):
        counts = np.isfinite(end) & ~is_point
        if counts.any():
            builder.nonnegative(sign * (x.some(counts) - end[counts]))


def _simplex(builder: Builder, domain: Simplex) -> None:
    builder.nonnegative(builder.x)
    builder.zero(builder.x.sum() - domain.total)


def _simplex_bounds(domain: Simplex, n: int) -> Bounds:
    return Bounds(np.zeros(n), np.full(n, domain.total), domain.total)


def _l1_ball(builder: Builder, domain: L1Ball) -> None:
    builder.nonnegative(-1.0 * builder.absolute(builder.x).sum() + domain.radius)


def _l1_ball_bounds(domain: L1Ball, n: int) -> Bounds:
    return Bounds(np.full(n, -domain.radius), np.full(n, domain.radius), domain.radius)


def _monotone(builder: Builder, domain: Monotone) -> None:
    if builder.n > 1:
        builder.nonnegative(builder.of_x(differences(builder.n)))


def _halfspace(builder: Builder, domain: Halfspace) -> None:
    builder.nonnegative(builder.of_x(-host(domain.normal)[None], domain.offset))


def _space(builder: Builder, domain: Space) -> None:
    pass


_CONSTRAINTS: dict[type, Callable[[Builder, Any], None]] = {
    Space: _space,
    Ball: _ball,
    Box: _box,
    Orthant: _box,
    Simplex: _simplex,
    L1Ball: _l1_ball,
    Monotone: _monotone,
    Halfspace: _halfspace,
}

_BOUNDS: dict[type, Callable[[Any, int], Bounds]] = {
    Ball: _ball_bounds,
    Box: lambda domain, n: Bounds(*_ends(domain, n)),
    Orthant: lambda domain, n: Bounds(*_ends(domain, n)),
    Simplex: _simplex_bounds,
    L1Ball: _l1_ball_bounds,
}
