"""Domains as inequalities and equations."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiebreak.exact.constants import ACTIVE
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import host, norm
from tiebreak.sets.boxes import Box
from tiebreak.sets.domains import Domain, Halfspace
from tiebreak.sets.monotone import Monotone
from tiebreak.sets.simplices import L1Ball, Simplex


class Polyhedron(NamedTuple):
    """{x = lift u : rows u <= offset, equal u constant}, rows of length 1; lift None: x = u.

    The constants are those of any feasible start.
    """

    rows: Host
    offset: Host
    equal: Host
    lift: Host | None = None

    def lifted(self, x: Host) -> Host:
        """A u with lift u = x that is in the set if x is."""
        return x if self.lift is None else np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)])

    def stretched(self, units: Host) -> Polyhedron:
        """The same for u / units (lift None): exact for bounds of entries and powers of two."""
        assert self.lift is None
        rows, equal = self.rows * units, self.equal * units
        lengths = np.sqrt(np.sum(rows * rows, axis=1))
        equal = equal / np.sqrt(np.sum(equal * equal, axis=1))[:, None]
        return Polyhedron(rows / lengths[:, None], self.offset / lengths, equal)

    def point(self, u: Host) -> Host:
        """lift u, where entries of u that are on their bounds up to rounding are put there."""
        bounds = np.count_nonzero(self.rows, axis=1) == 1
        rows, offset = self.rows[bounds], self.offset[bounds]
        near = np.abs(offset - rows @ u) <= ACTIVE * (norm(u) + np.abs(offset))
        which, sign = np.nonzero(rows[near])[1], np.sum(rows[near], axis=1)
        u = u.copy()
        u[which] = sign * offset[near]
        return u if self.lift is None else self.lift @ u


def polyhedron(domain: Domain, n: int) -> Polyhedron:
    """The domain (any but the ball) in R^n as inequalities.

    The l1 ball has 2^n faces; as x = p - q with p, q >= 0 and a sum of at most the radius only
    2n + 1. Then <rows, u> are the inequalities of u = (p, q).
    """
    one, none = np.eye(n), np.zeros((0, n))
    rows, offset, equal = none, np.zeros(0), none
    if isinstance(domain, Box):  # the orthant too
        low, high = (np.broadcast_to(host(b), n) for b in (domain.lower, domain.upper))
        fixed = low == high
        below, above = np.isfinite(low) & ~fixed, np.isfinite(high) & ~fixed
        rows, offset = np.vstack([-one[below], one[above]]), np.append(-low[below], high[above])
        equal = one[fixed]
    elif isinstance(domain, Simplex):
        rows, offset, equal = -one, np.zeros(n), np.ones((1, n)) / math.sqrt(n)
    elif isinstance(domain, Monotone):
        rows, offset = (one[:-1] - one[1:]) / math.sqrt(2.0), np.zeros(n - 1)
    elif isinstance(domain, Halfspace):
        normal = host(domain.normal)
        rows, offset = normal[None] / norm(normal), np.array([domain.offset]) / norm(normal)
    elif isinstance(domain, L1Ball):
        length = math.sqrt(2 * n)
        rows = np.vstack([-np.eye(2 * n), np.ones((1, 2 * n)) / length])
        offset = np.append(np.zeros(2 * n), domain.radius / length)
        return Polyhedron(rows, offset, np.zeros((0, 2 * n)), np.hstack([one, -one]))
    return Polyhedron(rows, offset, equal)
