"""Points that lie exactly in a polyhedron, and the constraints that a slope forces to be active."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiebreak.exact.active_set import PolyhedronSlice
from tiebreak.exact.bounds.curvature_bounds import combined, least_stretch
from tiebreak.exact.interior_point import interior_point
from tiebreak.exact.polyhedra import PolyhedralRows
from tiebreak.functions.parts.parts import product_error
from tiebreak.linalg import EPS, SAFE, TOL, Host, deadline, null_basis, rounding_unit
from tiebreak.linalg.host import Sliced, norm


class FeasiblePoint(NamedTuple):
    """A point p of Z that need not be representable in floats: |p - at| <= off."""

    at: Host
    off: float
    tight: Host  # G_i p = h_i, exactly
    slack: Host  # lower bounds on h_i - G_i p


def feasible_point(Z: PolyhedralRows, v: Host) -> FeasiblePoint | None:
    """Return a point of Z near v; v already satisfies its active bounds exactly."""
    near = np.where(Z.bounds, 0.0, TOL.met * (norm(v) + abs(Z.offset)))
    return point_on_rows(Z, v, Z.offset - Z.rows @ v <= near)


def point_on_rows(Z: PolyhedralRows, v: Host, tight: Host) -> FeasiblePoint | None:
    """Return a point near v that satisfies Z's equations and makes these constraints tight.

    If the rows M have rank len(M), then for any right-hand side m there is a p with M p = m within
    |M v - m|/sigma of v, where sigma is the least singular value of M on the free variables. Return
    None if it is not certain that the rank is len(M) and that p is in Z.
    """
    bounds, v = tight & Z.bounds, v.copy()
    which = np.nonzero(Z.rows[bounds])[1]
    v[which] = np.sum(Z.rows[bounds], axis=1) * Z.offset[bounds]  # move exactly onto bounds
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
        sliced = Sliced(M)
        for _ in range(2):
            v[free] -= np.linalg.lstsq(rows, sliced.times(v, right), rcond=None)[0]
        left, size = norm(sliced.times(v, right)), norm(M) * norm(v) + norm(right)
        off = (left + product_error(left, M.shape, size, sliced.is_plain)) / sigma * SAFE
    slack = Z.offset - Z.rows @ v - off - unit * (np.abs(Z.offset) + np.abs(Z.rows) @ np.abs(v))
    if np.any(slack[~tight] < 0.0):
        return None
    return FeasiblePoint(v, off, tight, np.where(tight, 0.0, slack))


def multiples_of_rows(Z: PolyhedralRows, normal: Host, x: Host) -> tuple[Host, float, float]:
    """Return a normal q of Z at x that is near the given ``normal``, and max <q, z> over Z.

    q = G'lambda + E'nu with lambda >= 0. Also return the size of the terms that add up to q. The
    maximum is at most <lambda, offset> + <nu, right>.
    """
    faces = PolyhedronSlice(Z.rows, Z.offset, null_basis(Z.equal))
    weights, _ = faces.balance(-normal, x)
    weights = np.append(weights, combined(Z.equal, normal - faces.rows.T @ weights))
    rows, sides = np.vstack([faces.rows, Z.equal]), np.append(faces.offset, Z.right)
    rounding = rounding_unit(EPS, len(sides)) * float(np.abs(weights) @ np.abs(sides))
    return rows.T @ weights, float(weights @ sides) + rounding, norm(rows) * norm(weights)


def forced_rows(Z: PolyhedralRows, near: Host, s: Host, error: Host) -> Host:
    """Find the inequalities that are active at every point where -slope is a normal of Z.

    The slope is s up to ``error``, entry by entry, and only inequalities that are ``near`` can be
    active. If the rows M of these inequalities and Z's equations are independent, the multipliers
    are unique. The multipliers of bounds balance the part of the slope that the other rows do not
    balance, so the free variables alone determine the multipliers of the other rows. With an
    approximate left inverse P of M' and P M' = I + D, these multipliers are -P (slope) - D
    (multipliers).
    """
    forced = np.zeros(len(Z.rows), dtype=bool)
    single = near & (np.count_nonzero(Z.rows, axis=1) == 1)
    entries, columns = Z.rows[single].sum(axis=1), np.nonzero(Z.rows[single])[1]
    free = np.ones(len(s), dtype=bool)
    free[columns] = False
    dense = np.vstack([Z.rows[near & ~single], Z.equal])
    M = dense[:, free]
    if len(set(columns.tolist())) < len(columns) or len(M) > M.shape[1]:
        return forced
    multipliers, errors = np.zeros(len(M)), np.zeros(len(M))
    if len(M):
        sigma = least_stretch(M.T)
        if not sigma > 0.0:
            return forced
        P, unit = np.linalg.pinv(M.T), rounding_unit(EPS, *M.shape)
        lengths, size = np.sqrt(np.sum(P * P, axis=1)), norm(s[free]) + norm(error[free])
        wrong = np.sqrt(np.sum((P @ M.T - np.eye(len(M))) ** 2, axis=1)) + unit * lengths * norm(M)
        multipliers = -(P @ s[free])
        errors = np.abs(P) @ error[free] + unit * lengths * size + wrong * (size / sigma)
    forced[near & ~single] = (multipliers > errors)[: np.count_nonzero(near & ~single)]
    across, unit = dense[:, columns].T, rounding_unit(EPS, len(M)) if len(M) else 0.0
    left = -(s[columns] + across @ multipliers) * np.sign(entries)
    sizes = np.abs(s[columns]) + np.abs(across) @ np.abs(multipliers)
    forced[single] = left > error[columns] + np.abs(across) @ errors + unit * sizes
    return forced


def complement(span: Host) -> Host:
    """Return an orthonormal basis of the complement of these orthonormal rows, as columns."""
    r, k = span.shape
    deadline.check(0.5 * deadline.svd_work(k, r, whole=True))
    return np.linalg.qr(span.T, mode="complete")[0][:, r:]


def inward_direction(G: Host, span: Host, null: Host | None) -> Host | None:
    """Return a unit vector d that makes the largest entry of G d clearly negative, or None.

    d is orthogonal to the orthonormal rows ``span``; ``null`` is a basis of their complement, or
    None if the complement is large. We first try d = minus the sum of the rows. The best direction
    is that of the least-norm d with G d <= -1.
    """
    if null is not None:
        inside = inward_direction(G @ null, np.zeros((0, null.shape[1])), None)
        return None if inside is None else np.asarray(null @ inside)
    lengths, d = np.sqrt(np.sum(G * G, axis=1)), -np.sum(G, axis=0)
    d = d - span.T @ (span @ d)
    if not (d.any() and lengths.all()):  # no d has G d < 0: the rows' sum or one row is 0
        return None
    if np.max(G @ d) * math.sqrt(len(G)) >= -0.1 * norm(d):  # a better direction may exist
        slack = -(1.0 + G @ d) / lengths
        short = interior_point(np.ones(len(d)), d, G / lengths[:, None], slack, span, end=TOL.half)
        if short is None:  # some combination of rows is 0: G d < 0 has no solution
            return None
        d = d + short.point
    return d / norm(d) if np.all(G @ d < 0.0) else None
