"""Points that lie in a polyhedron exactly, and which constraints a slope forces on a minimiser."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tiebreak.exact.bounds.curvature_bounds import least_stretch
from tiebreak.exact.constants import ACTIVE, SAFE, TOUCHING
from tiebreak.exact.interior_point import interior_point
from tiebreak.exact.polyhedra import PolyhedralRows, exact_rows, polyhedron
from tiebreak.linalg import EPS, Host, deadline, rounding_unit
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.linear_programs import highs
from tiebreak.sets import Box, Domain, Halfspace, L1Ball, Monotone, Simplex, has_projection

ABOUT = 1e-8  # a direction to four digits is as good as any


class FeasiblePoint(NamedTuple):
    """A point p of Z, which need not be representable: |p - at| <= off."""

    at: Host
    off: float
    tight: Host  # G_i p = h_i, exactly
    slack: Host  # h_i - G_i p is at least this
    touch: bool  # was p put onto the one inequality that is not about single variables?


def exact_polyhedron(domain: Domain, n: int) -> PolyhedralRows:
    """As `polyhedron`, with rows that are exact up to a factor; they are no longer than 1."""
    if not has_projection(domain):
        return exact_rows(domain, n)
    if not isinstance(domain, Halfspace):
        return polyhedron(domain, n)
    normal = host(domain.normal)
    exponent = math.frexp(norm(normal))[1]
    rows, offset = np.ldexp(normal, -exponent)[None], math.ldexp(domain.offset, -exponent)
    return PolyhedralRows(rows, np.array([offset]), np.zeros((0, n)))


def feasible_point(domain: Domain, Z: PolyhedralRows, v: Host, touch: bool) -> FeasiblePoint | None:
    """A point of Z next to v; with ``touch`` on the sum, or the plane, that bounds Z."""
    if not has_projection(domain):
        return point_on_rows(Z, v, Z.offset - Z.rows @ v <= ACTIVE * (norm(v) + abs(Z.offset)))
    return _point_of_known_set(domain, Z, v, touch)


def _point_of_known_set(
    domain: Domain, Z: PolyhedralRows, v: Host, touch: bool
) -> FeasiblePoint | None:
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
    domain: Domain, Z: PolyhedralRows, point: FeasiblePoint, forced: Host
) -> FeasiblePoint | None:
    """The next point of Z where these constraints hold with equality too."""
    v, touch = point.at.copy(), point.touch
    if not has_projection(domain):
        return point_on_rows(Z, v, point.tight | forced)
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


# -- constraints of any kind ----------------------------------------------------------------------


def point_on_rows(Z: PolyhedralRows, v: Host, tight: Host) -> FeasiblePoint | None:
    """The point next to v that meets Z's equations, and with equality these constraints.

    Rows M of rank len(M) have a p with M p = m wherever the right sides come from, at most
    |M v - m|/sigma away from v. None where the rank is not sure, or p not surely in Z.
    """
    bounds, v = tight & Z.bounds, v.copy()
    which = np.nonzero(Z.rows[bounds])[1]
    v[which] = np.sum(Z.rows[bounds], axis=1) * Z.offset[bounds]  # exactly on their bounds
    free = np.ones(len(v), dtype=bool)
    free[which] = False
    M = np.vstack([Z.rows[tight & ~bounds], Z.equal])
    right, off = np.append(Z.offset[tight & ~bounds], Z.right), 0.0
    unit = rounding_unit(EPS, len(v))
    if len(set(which.tolist())) < len(which):
        return None
    if len(M):
        rows = M[:, free]
        if len(rows) > rows.shape[1]:
            return None
        sigma = least_stretch(rows.T)
        if not sigma > 0.0:
            return None
        for _ in range(2):
            v[free] -= np.linalg.lstsq(rows, M @ v - right, rcond=None)[0]
        error = unit * (norm(M) * norm(v) + norm(right))
        off = (norm(M @ v - right) + error) / sigma * SAFE
    slack = Z.offset - Z.rows @ v - off - unit * (np.abs(Z.offset) + norm(v))
    if np.any(slack[~tight] < 0.0):
        return None
    return FeasiblePoint(v, off, tight, np.where(tight, 0.0, slack), False)


def multiples_of_rows(Z: PolyhedralRows, normal: Host, x: Host) -> tuple[Host, float, float]:
    """A normal q = G'lambda + E'nu of Z at x next to this one, lambda >= 0; max <q, z> over Z.

    And the size of the terms of q. The maximum is at most <lambda, offset> + <nu, right>.
    """
    from scipy.optimize import nnls

    met = Z.offset - Z.rows @ x <= TOUCHING * (norm(x) + np.abs(Z.offset))
    rows = np.vstack([Z.rows[met], Z.equal, -Z.equal])
    sides = np.concatenate([Z.offset[met], Z.right, -Z.right])
    weights = np.maximum(nnls(rows.T, normal)[0], 0.0) if len(rows) else np.zeros(0)
    rounding = rounding_unit(EPS, len(sides)) * float(weights @ np.abs(sides))
    return rows.T @ weights, float(weights @ sides) + rounding, norm(rows) * norm(weights)


def forced_rows(Z: PolyhedralRows, near: Host, s: Host, error: Host) -> Host:
    """Which inequalities hold with equality wherever minus the slope is a normal of Z.

    The slope is s up to ``error``, entry by entry, and only those that are ``near`` can. Where
    their rows M and Z's equations are independent, the multipliers are the only ones: with a left
    inverse P of M', P M' = 1 + D, they are -P (slope) - D (multipliers).
    """
    forced = np.zeros(len(Z.rows), dtype=bool)
    M = np.vstack([Z.rows[near], Z.equal])
    if not len(M) or len(M) > M.shape[1]:
        return forced
    sigma = least_stretch(M.T)
    if not sigma > 0.0:
        return forced
    P, unit = np.linalg.pinv(M.T), rounding_unit(EPS, *M.shape)
    lengths, size = np.sqrt(np.sum(P * P, axis=1)), norm(s) + norm(error)
    wrong = np.sqrt(np.sum((P @ M.T - np.eye(len(M))) ** 2, axis=1)) + unit * lengths * norm(M)
    least = -(P @ s) - np.abs(P) @ error - unit * lengths * size - wrong * (size / sigma)
    forced[np.flatnonzero(near)] = least[: np.count_nonzero(near)] > 0.0
    return forced


def complement(span: Host) -> Host:
    """An orthonormal basis of what orthonormal rows leave, as columns."""
    r, k = span.shape
    deadline.check(0.5 * deadline.svd_work(k, r, whole=True))
    return np.linalg.qr(span.T, mode="complete")[0][:, r:]


def inward_direction(G: Host, span: Host, null: Host | None) -> Host | None:
    """A unit vector d with G d < 0 in all rows, as clearly as possible; None: none.

    It is orthogonal to the span, orthonormal rows; ``null`` is a basis of what that leaves, or None
    where that is most.
    """
    best, clearest = None, 0.0
    for d in _candidates(G, span, null):
        length = norm(d)
        d = d / length if length > 0.0 else d
        clear = -float(np.max(G @ d))
        if clear > clearest:
            best, clearest = d, clear
        if clearest * math.sqrt(len(G)) > 0.1:  # more than this is not to be had
            break
    return best


def _candidates(G: Host, span: Host, null: Host | None) -> Iterator[Host]:
    """Some directions d along which G may be negative in all rows, orthogonal to the span."""
    if null is not None:
        none = np.zeros((0, null.shape[1]))
        yield from (null @ w for w in _candidates(G @ null, none, None))
        return
    near, k = -np.sum(G, axis=0) if len(span) else _equal(G), G.shape[1]
    near = near - span.T @ (span @ near)
    yield near
    # The shortest d with G d <= -1 is the clearest of all directions.
    lengths = np.sqrt(np.sum(G * G, axis=1))
    if near.any() and lengths.all():
        slack = -(1.0 + G @ near) / lengths
        rows = G / lengths[:, None]
        short = interior_point(np.ones(k), near, rows, slack, span, end=ABOUT)
        if short is None:  # some combination of the rows is 0: no direction is clear of all
            return
        d = near + short.point
        yield d
        if np.all(G @ d < -0.5):
            return
    found = highs(
        np.append(np.zeros(k), -1.0),
        A_ub=np.hstack([G, np.ones((len(G), 1))]),
        b_ub=np.zeros(len(G)),
        A_eq=np.hstack([span, np.zeros((len(span), 1))]),
        b_eq=np.zeros(len(span)),
        bounds=[(-1.0, 1.0)] * k + [(None, 1.0)],
    )
    if found is not None:
        yield np.asarray(found.x[:k])


def _equal(M: Host) -> Host:
    """About the shortest w for which all entries of M w are about -1, if there is one."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    square, right = M.T @ M, -np.sum(M, axis=0)
    np.einsum("ii->i", square)[:] += 1e-12 * np.trace(square)
    try:
        return np.asarray(cho_solve(cho_factor(square), right))
    except (LinAlgError, ValueError):
        return np.asarray(right)
