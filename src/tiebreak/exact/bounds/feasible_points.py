"""Points that lie in a polyhedron exactly, and which constraints a slope forces on a minimiser."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tiebreak.exact.constants import ACTIVE, SAFE
from tiebreak.exact.interior_point import interior_point
from tiebreak.exact.linear_programs import linear_program
from tiebreak.exact.polyhedra import Polyhedron, polyhedron
from tiebreak.linalg.arrays import Host, rounding_unit
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.spectra import EPS
from tiebreak.sets.boxes import Box
from tiebreak.sets.domains import Domain, Halfspace
from tiebreak.sets.monotone import Monotone
from tiebreak.sets.simplices import L1Ball, Simplex


class FeasiblePoint(NamedTuple):
    """A point p of Z, which need not be representable: |p - at| <= off."""

    at: Host
    off: float
    tight: Host  # G_i p = h_i, exactly
    slack: Host  # h_i - G_i p is at least this
    touch: bool  # was p put onto the one inequality that is not about single variables?


def exact_polyhedron(domain: Domain, n: int) -> Polyhedron:
    """As `polyhedron`, with rows that are exact up to a factor; they are no longer than 1."""
    if not isinstance(domain, Halfspace):
        return polyhedron(domain, n)
    normal = host(domain.normal)
    exponent = math.frexp(norm(normal))[1]
    rows, offset = np.ldexp(normal, -exponent)[None], math.ldexp(domain.offset, -exponent)
    return Polyhedron(rows, np.array([offset]), np.zeros((0, n)))


def feasible_point(domain: Domain, Z: Polyhedron, v: Host, touch: bool) -> FeasiblePoint | None:
    """A point of Z next to v; with ``touch`` on the sum, or the plane, that bounds Z."""
    unit, off = rounding_unit(EPS, len(v)), 0.0
    if isinstance(domain, Box):
        v = np.clip(v, host(domain.lower), host(domain.upper))
    elif isinstance(domain, Monotone):
        v = np.maximum.accumulate(host(domain.project(v)))
        steps = np.flatnonzero(np.diff(v) > ACTIVE * norm(v)) + 1
        starts = np.append(0, steps)
        v = np.repeat(v[starts], np.diff(np.append(starts, len(v))))
    elif isinstance(domain, Simplex | L1Ball):
        v = np.maximum(v, 0.0)
        total, wanted = math.fsum(v), domain.radius if isinstance(domain, L1Ball) else domain.total
        touch = touch or isinstance(domain, Simplex) or total >= wanted * (1.0 - ACTIVE)
        if touch:  # p = v wanted/total: its zeros are those of v
            if not total > 0.0:
                return None
            off = norm(v) * (abs(wanted - total) / total + 4.0 * EPS) * SAFE
    elif isinstance(domain, Halfspace):
        row, offset = Z.rows[0], float(Z.offset[0])
        over, size = float(row @ v) - offset, norm(v) + abs(offset)
        touch = touch or over >= -ACTIVE * size
        if touch:
            off = (abs(over) + unit * size) / norm(row) / norm(row) * SAFE
    slack = Z.offset - Z.rows @ v
    tight = slack == 0.0
    if isinstance(domain, Monotone):
        tight = v[:-1] == v[1:]
    elif isinstance(domain, L1Ball | Halfspace):
        tight[-1] = touch
    slack = slack - off - unit * (np.abs(Z.offset) + norm(v))
    return FeasiblePoint(v, off, tight, np.where(tight, 0.0, np.maximum(slack, 0.0)), touch)


def moved_onto(
    domain: Domain, Z: Polyhedron, point: FeasiblePoint, forced: Host
) -> FeasiblePoint | None:
    """The next point of Z where these constraints hold with equality too."""
    v, touch = point.at.copy(), point.touch
    if isinstance(domain, Monotone):
        for i in np.flatnonzero(forced):
            v[i + 1] = v[i]
    else:
        for i in np.flatnonzero(forced):
            places = np.flatnonzero(Z.rows[i])
            if len(places) == 1 and not isinstance(domain, Halfspace):
                v[places[0]] = Z.rows[i, places[0]] * Z.offset[i]
            else:
                touch = True
    return feasible_point(domain, Z, v, touch)


def forced_constraints(domain: Domain, s: Host, error: Host) -> Host:
    """Which inequalities hold with equality wherever minus the slope is a normal of Z.

    The slope is s up to ``error``, entry by entry. In the order of the rows of `polyhedron`.
    """
    low, high = s - error, s + error
    if isinstance(domain, Box):
        below, above = (np.broadcast_to(host(b), len(s)) for b in (domain.lower, domain.upper))
        moves = below != above
        return np.append(
            (low > 0.0)[np.isfinite(below) & moves], (high < 0.0)[np.isfinite(above) & moves]
        )
    if isinstance(domain, Simplex):  # only the smallest entries of the slope may be at work
        return np.asarray(low > np.min(high))
    if isinstance(domain, L1Ball):  # u >= 0, its sum at most the radius
        least = min(float(np.min(high)), 0.0)
        return np.append(low > least, least < 0.0)
    if isinstance(domain, Monotone):  # minus the partial sums are the multipliers
        unit = rounding_unit(EPS, len(s))
        sums = np.cumsum(s)[:-1]
        errors = np.cumsum(error + unit * np.abs(s))[:-1]
        return np.asarray(sums + errors * SAFE < 0.0)
    if isinstance(domain, Halfspace):
        normal = host(domain.normal)
        pull = float(normal @ s) / norm(normal)
        return np.array([pull + norm(error) + rounding_unit(EPS, len(s)) * norm(s) < 0.0])
    return np.zeros(0, dtype=bool)


def inward_direction(G: Host, null: Host) -> Host | None:
    """A unit vector d of the span with G d < 0 in all rows, as clearly as possible; None: none."""
    M = G @ null
    best, clearest = None, 0.0
    for candidate in _candidates(M):
        d = null @ candidate
        length = norm(d)
        d = d / length if length > 0.0 else d
        clear = -float(np.max(G @ d))
        if clear > clearest:
            best, clearest = d, clear
        if clearest * math.sqrt(len(G)) > 0.1:  # more than this is not to be had
            break
    return best


def _candidates(M: Host) -> Iterator[Host]:
    """Some w for which M w may be negative in all rows."""
    near, k = _equal(M), M.shape[1]
    yield near
    # The shortest w with M w <= -1 is the clearest of all directions.
    lengths = np.sqrt(np.sum(M * M, axis=1))
    if near.any() and lengths.all():
        short = interior_point(np.eye(k), near, M / lengths[:, None], -(1.0 + M @ near) / lengths)
        if short is None:  # some combination of the rows is 0: no direction is clear of all
            return
        w = near + short.point
        yield w
        if np.all(M @ w < -0.5):
            return
    found = linear_program(
        np.append(np.zeros(k), -1.0),
        np.hstack([M, np.ones((len(M), 1))]),
        np.zeros(len(M)),
        [(-1.0, 1.0)] * k + [(None, 1.0)],
    )
    if found is not None:
        yield found[:k]


def _equal(M: Host) -> Host:
    """About the shortest w for which all entries of M w are about -1, if there is one."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    square, right = M.T @ M, -np.sum(M, axis=0)
    np.einsum("ii->i", square)[:] += 1e-12 * np.trace(square)
    try:
        return np.asarray(cho_solve(cho_factor(square), right))
    except (LinAlgError, ValueError):
        return right
