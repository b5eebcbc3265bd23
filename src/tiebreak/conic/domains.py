"""Sets as constraints of a conic program, and the bounds on x that follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.builder import Builder
from tiebreak.functions.penalties.operator_terms import differences
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.conic_form import ROUND_UP, constants, entries
from tiebreak.linalg.host import host
from tiebreak.sets.constraints import Intersection, Polyhedron, SecondOrderCone
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

SMALL = 2**18  # entries of a matrix whose singular values are computed for a bound
SWEEPS = 10  # over all rows, for bounds that follow from others


class Bounds(NamedTuple):
    """lower <= x <= upper and |x| <= radius."""

    lower: Host
    upper: Host
    radius: float = math.inf

    def within(self, other: Bounds) -> Bounds:
        """Those of both together."""
        lower = np.maximum(self.lower, other.lower)
        return Bounds(lower, np.minimum(self.upper, other.upper), min(self.radius, other.radius))

    def tightened(self, rows: Any, offset: Host) -> Bounds:
        """Those that follow from rows x <= offset as well, row by row, a few times over.

        A row bounds one variable where all others in it are bounded: x >= 0 and sum x <= 1 are
        0 <= x <= 1. All are rounded outwards.
        """
        found = self
        for _ in range(SWEEPS):
            with arrays.quiet():  # a bound that overflows is none
                before, found = found, found._swept(rows, offset)
            if not any(np.any(was != now) for was, now in zip(before[:2], found[:2], strict=True)):
                break
        return found

    def _swept(self, rows: Any, offset: Host) -> Bounds:
        i, j, a = entries(rows)
        least = a * np.where(a > 0.0, self.lower[j], self.upper[j])  # of each term of a row
        is_known = np.isfinite(least)
        known = np.where(is_known, least, 0.0)
        total, size = (np.bincount(i, terms, len(offset)) for terms in (known, np.abs(known)))
        unknown = np.bincount(i, ~is_known, len(offset))[i] - ~is_known  # among the others
        alone = np.bincount(i, known != 0.0, len(offset))[i] - (known != 0.0) == 0  # exactly
        rest, size = (np.where(alone, 0.0, sums) for sums in (total[i] - known, size[i]))
        slack = (ROUND_UP - 1.0) * (size + np.abs(offset[i]))
        bound = (offset[i] - rest + np.where(alone, 0.0, slack)) / a
        lower, upper = self.lower.copy(), self.upper.copy()
        for end, better, some in ((upper, np.minimum, a > 0.0), (lower, np.maximum, a < 0.0)):
            some = some & (unknown == 0)
            better.at(end, j[some], _outwards(bound[some], 1.0 if end is upper else -1.0))
        return Bounds(lower, upper, self.radius)


def _outwards(bound: Host, sign: float) -> Host:
    """Bounds with the rounding error of their quotients; 0 has none."""
    return np.where(bound == 0.0, 0.0, bound + sign * (ROUND_UP - 1.0) * np.abs(bound))


def parts_of(domain: Domain) -> list[Domain]:
    """The sets that it is the intersection of."""
    return list(domain.sets) if isinstance(domain, Intersection) else [domain]


def bounds_on(sets: Sequence[Domain], n: int) -> Bounds:
    """What sets together say about the sizes of x in R^n; inf where they do not."""
    from scipy.sparse import csr_array, vstack

    found = Bounds(np.full(n, -math.inf), np.full(n, math.inf))
    for part in sets:
        if type(part) in _BOUNDS:
            found = found.within(_BOUNDS[type(part)](part, n))
    linear = [pair for part in sets for pair in _linear_rows(part, n)]
    if not linear:
        return found
    rows = vstack([csr_array(some) for some, _ in linear], format="csr")
    return found.tightened(rows, np.concatenate([offset for _, offset in linear]))


def _linear_rows(domain: Domain, n: int) -> list[tuple[Any, Host]]:
    """Its linear inequalities rows x <= offset, of a set that has no other bounds here."""
    if isinstance(domain, Halfspace):
        return [(host(domain.normal)[None], np.array([domain.offset]))]
    if isinstance(domain, Monotone) and n > 1:
        return [(-differences(n), np.zeros(n - 1))]
    if isinstance(domain, Polyhedron):
        equal = domain.A_eq, domain.b_eq
        return [(domain.A, domain.b), equal, (-equal[0], -equal[1])]
    if isinstance(domain, SecondOrderCone):
        return [(-domain.c[None], np.array([domain.d]))]
    return []


def can_represent(domain: Domain) -> bool:
    """Is it one of ours?  A subclass of the user may be another set."""
    return type(domain) in _CONSTRAINTS


def constrain(builder: Builder, domain: Domain) -> None:
    """x in the domain."""
    builder.owner = type(domain).__name__
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
    builder.owner = "the bound of x[{}]"
    if is_point.any():
        builder.zero(x.some(is_point) - lower[is_point], np.flatnonzero(is_point))
    for end, sign in ((lower, 1.0), (upper, -1.0)):
        counts = np.isfinite(end) & ~is_point
        if counts.any():
            builder.nonnegative(sign * (x.some(counts) - end[counts]), np.flatnonzero(counts))


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


def _polyhedron(builder: Builder, domain: Polyhedron) -> None:
    if len(domain.b_eq):
        builder.owner = "row {} of A_eq"
        builder.zero(builder.of_x(domain.A_eq, -domain.b_eq))
    if len(domain.b):
        builder.owner = "row {} of A"
        builder.nonnegative(-1.0 * builder.of_x(domain.A, -domain.b))


def _second_order_cone(builder: Builder, domain: SecondOrderCone) -> None:
    top = builder.of_x(domain.c[None], domain.d)
    builder.second_order(top, builder.of_x(domain.A, domain.b))


def _second_order_bounds(domain: SecondOrderCone, n: int) -> Bounds:
    """s |x| - |b| <= |A x + b| <= |c| |x| + d, where s, the least singular value, is above |c|."""
    A = domain.A.toarray() if arrays.is_sparse(domain.A) else domain.A
    radius = math.inf
    if A.shape[0] >= n and A.size <= SMALL:
        sizes = np.linalg.svd(A, compute_uv=False)
        spare = sizes[-1] - (ROUND_UP - 1.0) * sizes[0] - arrays.norm(domain.c) * ROUND_UP
        if spare > 0.0:
            radius = max(domain.d + arrays.norm(domain.b), 0.0) / float(spare) * ROUND_UP
    return Bounds(np.full(n, -radius), np.full(n, radius), radius)


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
    Polyhedron: _polyhedron,
    SecondOrderCone: _second_order_cone,
}

_BOUNDS: dict[type, Callable[[Any, int], Bounds]] = {
    Ball: _ball_bounds,
    Box: lambda domain, n: Bounds(*_ends(domain, n)),
    Orthant: lambda domain, n: Bounds(*_ends(domain, n)),
    Simplex: _simplex_bounds,
    L1Ball: _l1_ball_bounds,
    SecondOrderCone: _second_order_bounds,
}
