"""Proved bounds on the distance from an answer x to the minimisers of g over a polyhedron.

The proof is the one in `polyhedral_bounds`, for a point p of the polyhedron that is close to x.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiebreak.exact.bounds.curvature_bounds import is_convex
from tiebreak.exact.bounds.feasible_points import feasible_point, point_on_rows
from tiebreak.exact.bounds.polyhedral_bounds import (
    DEGENERATE,
    NOT_CONVEX,
    TOO_FAR,
    AroundPoint,
    ProvedDistance,
)
from tiebreak.exact.polyhedra import PolyhedralRows, exact_rows
from tiebreak.functions import Parts, Slope
from tiebreak.linalg import SAFE, TINY, TOL, Host
from tiebreak.linalg.host import ldexp_or_inf, norm
from tiebreak.sets import Domain


class NearestMinimiser(NamedTuple):
    """Proved bounds for the minimisers of g over Z near x; inf if nothing is proved."""

    distance: float = math.inf  # distance from x to the nearest minimiser
    image: float = math.inf  # |R (x - x*)| for all x*; R'R is the curvature of g's squares
    excess: float = math.inf  # |g(x) - g*|
    why: str = ""  # the reason if nothing is proved
    around: AroundPoint | None = None
    close: ProvedDistance | None = None

    def fall(self, f: Parts, sigma: float, normal: Host) -> float:
        """Bound f(x) - f* from above; Z's ``normal`` at x balances f's slope on the minimisers.

        sigma: the strong convexity of f.
        """
        if self.around is None or self.close is None or not is_convex(f):
            return math.inf
        return self.around.fall(f, sigma, normal, self.close)


def nearest_minimiser(
    domain: Domain, g: Parts, x: Host, rows: PolyhedralRows | None = None
) -> NearestMinimiser:
    """Return bounds on the minimisers of g over a polyhedron, proved from a point x near them.

    ``rows``: the rows of the domain, if known.
    """
    exponent = g.exponent
    if not is_convex(g):
        return NearestMinimiser(why=NOT_CONVEX)
    Z, g = rows or exact_rows(domain, len(x)), g.scaled
    lifted = g if Z.lift is None else g.composed(Z.lift)
    start = Z.lifted(x)
    point = feasible_point(Z, Z._replace(lift=None).point(start))
    for _ in range(TOL.refinements):
        if point is None:
            return NearestMinimiser(why=DEGENERATE)
        slope = g.slope(point.at) if Z.lift is None else _lifted(g.slope(Z.lift @ point.at), Z.lift)
        around = AroundPoint(domain, Z, lifted, slope, point, start)
        found = around.search()
        if not isinstance(found, np.ndarray):
            break
        point = point_on_rows(Z, point.at, point.tight | found)
    else:
        return NearestMinimiser(why=TOO_FAR)
    if isinstance(found, str):
        return NearestMinimiser(why=found)
    size, away = 1.0 if Z.lift is None else math.sqrt(2.0), around.away
    image = (found.image + norm(around.C) * away) * SAFE
    excess = (
        found.delta + (around.slope_bound + 0.5 * around.curvature_bound * away) * away
    ) * SAFE
    distance = (found.distance + away) * size * SAFE + TINY
    if not math.isfinite(distance + image + excess):
        return NearestMinimiser(why=TOO_FAR)
    root = math.ldexp(1.0, exponent // 2) * (math.sqrt(2.0) if exponent % 2 else 1.0)
    image, excess = image * root * SAFE + TINY, ldexp_or_inf(excess, exponent) + TINY
    return NearestMinimiser(distance, image, excess, "", around, found)


def _lifted(slope: Slope, lift: Host) -> Slope:
    """Return the slope of g(p - q) with respect to (p, q), from g's slope; p - q is exact."""
    two = math.sqrt(2.0) * SAFE  # the norm of the lift
    vector, size, error, image_error, product_error = slope
    return Slope(lift.T @ vector, two * size, two * error, image_error, two * product_error)
