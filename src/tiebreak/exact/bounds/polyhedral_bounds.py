"""Proved bounds on the distance from a computed point of a polyhedron to the minimisers of g.

Z = {u : G u <= h, E u = e}, and g(u) = sum of phi_i(<a_i, u>) + <c, u> with phi_i strictly convex:
then the minimisers are the points u of Z at which all <a_i, u> and <c, u> have the same values as
at any one minimiser. Let p be a point of Z, s = grad g(p), and C the matrix with C'C the second
derivative of the losses at p.

*Near p.* For any R > 0 let y minimise g over the points of Z within R of p (such a y exists). If
s = C'eta + r - G'lambda - E'nu, with lambda >= 0 and lambda_i > 0 only where G_i p = h_i, then
<s, p - z> <= |eta| |C (p - z)| + |r| R for all of these points z. For z = y, this inequality bounds
both

    g(p) - g(y)   and   <grad g(p) - grad g(y), p - y>  >=  kappa |C (p - y)|².

Here kappa = 1 for squares (and for Huber losses, if no row passes its kink); the second derivatives
of other losses change by a factor of at most e^(largest change of a margin), because |phi'''| <=
phi''. So |C (p - y)| is at most m, the positive root of kappa m² = |eta| m + |r| R, and both
numbers are at most delta = kappa m². By Cauchy-Schwarz, the slopes at p and y differ in entry j by
at most (length of column j of C) m. Most of the rounding error in p and s has the form C'eta:
without eta the distance bound below would be about |C| |eta|/sigma²; with it, |eta|/sigma.

*Which constraints hold with equality.* y has a slope s* = grad g(y) + mu (y - p) such that -s* is a
normal of Z at y, and mu >= 0 is the multiplier of |y - p| <= R. p lies in Z, so mu R² <= <grad
g(y), p - y> <= delta, and s* is known up to the entrywise bound above and delta/R. If an entry of
s* is certainly positive, its variable is on its lower bound, and likewise for other constraints:
those that must hold with equality at y are called J. No multiplier is assumed to be zero; a
constraint whose multiplier may be 0 is just not in J.

*The distance.* W = {w : a_i w = a_i y, <c, w> = <c, y>, G_J w = h_J, E w = e} contains y. B has the
scaled rows of W, and p satisfies the constraints J and the equations of Z exactly, so |p1 - p| <=
|B (y - p)|/sigma for some p1 in W, where sigma is the smallest nonzero singular value of B. If W =
{y}, p1 = y. Otherwise take any (Slater) point p0 that satisfies the other constraints with a
margin, and move it onto W likewise. A mixture q of p1 and the moved p0 satisfies the constraints
that p1 violates. q is in W and in Z, hence g(q) = g(y); and if it is nearer to p than R, the convex
g has a minimum over Z at q.

So the proof holds wherever its numbers come from (the multipliers, the point p0, R): a bad number
makes the bound wide or infinite, never wrong. R is as small as the argument allows; the bound is
then about |eta|/sigma + |r|/sigma². A rank that is not full is computed exactly for the stored
numbers (`spectra.exact_rank`), and so is the rank of a quadratic form, which must be convex.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tiebreak.exact.bounds.curvature_bounds import (
    combined,
    curvature_below,
    curvature_diagonal,
    largest_curvature,
    largest_fall,
    least_stretch,
    longest_row,
)
from tiebreak.exact.bounds.feasible_points import (
    FeasiblePoint,
    complement,
    forced_rows,
    inward_direction,
)
from tiebreak.exact.polyhedra import PolyhedralRows
from tiebreak.functions import Parts, Slope
from tiebreak.linalg import EPS, SAFE, TINY, TOL, Host, deadline, rounding_unit, spectra
from tiebreak.linalg.arrays import HUGE
from tiebreak.linalg.host import ldexp_or_inf, norm
from tiebreak.sets import Domain

# Reasons why no upper bound on f* is proved; the report quotes them.
NO_RANK = (
    "the rank of the equations that every lower minimiser satisfies is not proved, "
    "so nothing bounds the distance to these minimisers"
)
NO_SLATER = (
    "some constraints are active, or nearly so, at all lower minimisers although the slope of g "
    "does not force this (no strict complementarity): nothing bounds the distance to the minimisers"
)
TOO_FAR = "x is too far from the lower minimisers to prove a bound on the distance to them"
NOT_CONVEX = "a quadratic form is convex only up to rounding"
VANISHED = "the curvature of some losses at x is rounded to 0"
NO_SPAN = (
    "some directions within the set of minimisers affect only outliers: nothing bounds the distance"
)
DEGENERATE = (
    "constraints that are active at x, or nearly so, are dependent: "
    "it is not proved that they have a common point"
)

# R may be increased this many times, each time by a factor of at least 4; 4^40 is about 1e24
MAX_GROWTHS = 40


@dataclass(frozen=True, eq=False)
class FreeRows:
    """B, restricted to variables that are not forced onto a bound, with its least singular value.

    ``span``: orthonormal rows with the same span as the rows of B.
    """

    free: Host
    B: Host
    sigma: float
    span: Host
    tilt: float  # the factor by which c is scaled as a row of B

    @cached_property
    def null(self) -> Host | None:
        """An orthonormal basis of the span's complement, or None if the complement is large."""
        is_large = 3 * len(self.span) < self.span.shape[1]
        return None if is_large else complement(self.span)


class Residual(NamedTuple):
    """Bounds on |eta| and |r|, excluding the contribution of |p - at|."""

    eta: float
    r: float


class ProvedDistance(NamedTuple):
    """A bound on p's distance to a minimiser of g; all minimisers z have |C (z - p)| <= image."""

    distance: float
    delta: float  # an upper bound on g(p) - g*
    image: float
    tilt: float  # an upper bound on |<c, z - p>|
    forced: Host  # constraints active at all minimisers


class AroundPoint:
    """The proof around one point p, from the scaled g, its slope and the unbalanced residuals."""

    def __init__(
        self,
        domain: Domain,
        Z: PolyhedralRows,
        g: Parts,
        slope: Slope,
        point: FeasiblePoint,
        start: Host,
    ) -> None:
        self.domain, self.Z, self.point = domain, Z, point
        self.n, at = g.n, point.at
        self.away: float = (norm(start - at) + point.off) * SAFE  # distance from x to p
        self.single = np.count_nonzero(Z.rows, axis=1) == 1
        self.fixed = np.count_nonzero(Z.equal, axis=1) == 1
        self.unit: float = rounding_unit(EPS, self.n, *(len(part.rows) for part in g.parts))
        self.curvature_bound: float = largest_curvature(g, at, self.away)  # valid between x and p
        self.s, self.s_error = slope.vector, slope.error + self.curvature_bound * point.off + TINY
        self.slope_bound: float = norm(self.s) + self.s_error
        g, kinks = g.between_kinks(at)
        self.g, self.outliers, self.kink = g, kinks.outliers, kinks.radius()
        self.C = np.vstack([np.zeros((0, self.n)), *(part.curvature_rows(at) for part in g.parts)])
        squares = curvature_diagonal(g, at)
        self.columns = np.sqrt(squares) + 1.0 / HUGE  # the last term covers underflow
        # An upper bound on the slope of losses and squares along d, divided by the root of the
        # curvature.
        ratios = (part.slope_ratio(at, point.off) for part in g.parts)
        self.slope_ratio: float = math.hypot(*ratios) * SAFE
        self.c: Host = g.c
        if len(self.outliers) and self.c.any():  # outliers have slopes without curvature
            self.slope_ratio = math.inf
        self.margin_rows: float = max((longest_row(part.rows) for part in g.losses), default=0.0)
        self.margins: float = max(
            (float(np.max(np.abs(p.rows @ at))) for p in g.losses), default=0.0
        )
        self.residuals: list[Residual] = list(self._residuals(slope))
        self.off_image: float = norm(self.C) * point.off  # an upper bound on |C (p - at)|
        if g.forms:  # C'C is only a lower bound on the form's curvature
            more, self.off_image = self.curvature_bound * point.off, 0.0
            self.residuals = [Residual(eta, r + more) for eta, r in self.residuals]
        self._far = 0.0  # the bound on the distance for the last R
        self._known: dict[bytes, FreeRows | str] = {}
        self._directions: dict[bytes, Host | None] = {}

    def _residuals(self, slope: Slope) -> Iterator[Residual]:
        """Yield residuals for several choices of eta; all are valid, and any may be the smallest.

        The choices are eta = 0, one with multipliers for constraints on several variables, and one
        without such multipliers.
        """
        Z, nothing = self.Z, np.zeros(len(self.Z.rows), dtype=bool)
        tight = self.point.tight
        rest, error, _ = self._balanced(self.s, nothing, tight)
        yield self._residual(slope, 0.0, rest, error)
        if not len(self.C):
            return
        for which in (tight, tight & self.single) if np.any(tight & ~self.single) else (tight,):
            rest = self._balanced(self.s, nothing, which)[0]
            left = rest != 0.0
            if left.any():
                rows = np.vstack([self.C, Z.rows[which & ~self.single], Z.equal[~self.fixed]])
                eta = combined(rows[:, left], rest[left])[: len(self.C)]
                rest, error, _ = self._balanced(self.s - self.C.T @ eta, nothing, which)
                yield self._residual(slope, norm(eta), rest, error)

    def _residual(self, slope: Slope, eta: float, rest: Host, error: float) -> Residual:
        """Return the residual with all rounding errors; ``error`` bounds the error of ``rest``."""
        error += self.unit * norm(self.C) * eta + EPS * norm(rest)
        r = norm(rest) + slope.product_error + error + TINY
        return Residual((eta + slope.image_error) * SAFE, r * SAFE)

    def _balanced(self, slope: Host, equal: Host, tight: Host) -> tuple[Host, float, Host]:
        """Make slope + G'lambda + E'nu small; return this sum, a bound on its error, and lambda.

        lambda_i is nonzero only for ``tight`` constraints, which p satisfies with exact equality.
        Multipliers of ``equal`` constraints may have any sign; the others are nonnegative.
        """
        Z, r = self.Z, slope.copy()
        multipliers = np.zeros(len(tight))
        single, others = tight & self.single, np.flatnonzero(tight & ~self.single)
        ends = np.any(Z.equal[self.fixed] != 0.0, axis=0)
        ends |= np.any(Z.rows[equal & self.single] != 0.0, axis=0)
        held = ends | np.any(Z.rows[single] != 0.0, axis=0)
        dense = np.vstack([Z.rows[others], Z.equal[~self.fixed]])
        error = 0.0
        if len(dense) and not held.all():
            weights = np.linalg.lstsq(dense[:, ~held].T, -r[~held], rcond=None)[0]
            mine = weights[: len(others)]
            mine[:] = np.where(equal[others], mine, np.maximum(mine, 0.0))
            multipliers[others] = mine
            r = r + dense.T @ weights
            error = (len(dense) + 2) * EPS * (norm(slope) + norm(dense) * norm(weights))
        for i in np.flatnonzero(single & ~equal):
            (j,) = np.flatnonzero(Z.rows[i])
            if Z.rows[i, j] * r[j] < 0.0 and not ends[j]:
                multipliers[i] = -r[j] / Z.rows[i, j]
                r[j] = 0.0
        r[ends] = 0.0
        return r, error, multipliers

    def search(self) -> ProvedDistance | Host | str:
        """Return a proved distance, or constraints to make active at p, or why the proof fails."""
        if not self.g.parts and not len(self.outliers):  # g is constant
            return ProvedDistance(0.0, 0.0, 0.0, 0.0, np.zeros(len(self.Z.rows), dtype=bool))
        error = min(self.columns.max() * eta + r for eta, r in self.residuals) + self.s_error
        rows = self._rows(self._forced(error + 0.0 * self.s, 0.0))
        if isinstance(rows, str):
            return rows
        smallest = min(eta + r / rows.sigma for eta, r in self.residuals) + self.off_image
        R = max(4.0 * smallest / rows.sigma, EPS * norm(self.point.at), TINY)
        for _ in range(MAX_GROWTHS):
            found = self._within(R)
            if not (isinstance(found, str) and found == TOO_FAR):
                return found
            R = max(4.0 * R, 1.5 * self._far)
        return TOO_FAR

    def _within(self, R: float) -> ProvedDistance | Host | str:
        """Run the proof for one radius R."""
        kappa = self._kept_curvature(R)
        if not kappa > 0.0:
            return TOO_FAR
        off = self.off_image / kappa
        moved = min(_root(kappa, eta + off, r * R) for eta, r in self.residuals) + 1.0 / HUGE
        delta = kappa * moved * moved * SAFE
        if not math.isfinite(delta):
            return TOO_FAR
        error = self.columns * moved + self.s_error + delta / R
        forced = self._forced(error * SAFE, R)
        if np.any(forced & ~self.point.tight):
            return forced
        rows = self._rows(forced)
        if isinstance(rows, str):
            return rows
        tilted = (delta + self.slope_ratio * moved) * SAFE
        far = math.hypot(moved, rows.tilt * tilted) / rows.sigma * SAFE
        if len(rows.span) < rows.span.shape[1]:
            far = self._mixture(forced, rows, far)
            if not math.isfinite(far):
                return NO_SLATER
        self._far = far
        return ProvedDistance(far, delta, moved, tilted, forced) if far < R else TOO_FAR

    def _kept_curvature(self, R: float) -> float:
        """Return kappa for the points within R of p, or 0 if kappa is unknown."""
        change = self.margin_rows * (R + self.point.off + self.unit * norm(self.point.at))
        change = change * SAFE + (self.unit * (1.0 + self.margins) if self.margin_rows else 0.0)
        if not (change < 50.0 and R + self.point.off < self.kink):
            return 0.0
        return min((p.curvature_kept(change) for p in self.g.losses), default=1.0)

    def _forced(self, error: Host, R: float) -> Host:
        """Find constraints that are active at y, where the slope is s up to ``error``."""
        return forced_rows(self.Z, self.point.slack <= R * SAFE, self.s, error)

    def _rows(self, forced: Host) -> FreeRows | str:
        """Return B for these forced constraints, or the reason why it bounds no distance."""
        key = forced.tobytes()
        if key not in self._known:
            self._known[key] = self._factorised(forced)
        return self._known[key]

    def _factorised(self, forced: Host) -> FreeRows | str:
        Z = self.Z
        bounds = np.vstack([Z.rows[forced & self.single], Z.equal[self.fixed]])
        free = ~np.any(bounds != 0.0, axis=0)
        dense = np.vstack([Z.rows[forced & ~self.single], Z.equal[~self.fixed]])[:, free]
        losses = [part.rows for part in self.g.curved]
        raw = np.vstack([np.zeros((0, self.n)), *losses])[:, free]
        C, c = self.C[:, free], self.c[free]
        matters = np.any(raw != 0.0, axis=1)
        if not np.all(np.any(C != 0.0, axis=1)[matters]):
            return VANISHED
        size = norm(C) or 1.0
        blocks, raws, tilt = [C[matters]], [raw[matters]], 0.0
        tilts = self.g.tilts
        if len(tilts) == 1 and c.any():
            tilt = size / norm(c)
            blocks.append(tilt * c[None])
            raws.append((tilts[0].weights @ tilts[0].rows)[None, free])  # c has a rounded factor
        dense = dense[np.any(dense != 0.0, axis=1)]
        B, raw = np.vstack([*blocks, size * dense]), np.vstack([*raws, dense])
        if not B.size:
            whole = FreeRows(free, B, 1.0, np.zeros((0, B.shape[1])), tilt)
            is_seen = self.outliers[:, free].any()
            return NO_RANK if len(tilts) > 1 else NO_SPAN if is_seen else whole
        deadline.check(deadline.svd_work(*B.shape))
        _, s, vt = np.linalg.svd(B, full_matrices=False)
        noise = rounding_unit(EPS, *B.shape) * norm(B)
        rank = min(B.shape)
        if not s[rank - 1] > 2.0 * noise:
            rank = int(np.count_nonzero(s > TOL.clear_units * noise))
            if not rank or spectra.exact_rank(raw) != rank:
                return NO_RANK
        if rank < B.shape[1] and len(tilts) > 1:  # as a sum of several terms, c is rounded
            return NO_RANK
        found = FreeRows(free, B, float(s[rank - 1]) - noise, vt[:rank], tilt)
        if len(self.outliers) and rank < B.shape[1]:
            every = np.vstack([raw, self.outliers[:, free]])
            return NO_SPAN if spectra.exact_rank(every) != rank else found
        return found

    # -- Slater's point

    def _mixture(self, forced: Host, rows: FreeRows, far: float) -> float:
        """Bound |q - p| for the mixture q of p1 (|p1 - p| <= far) and p0 moved onto W."""
        G = self.Z.rows[:, rows.free]
        live = ~forced & np.any(G != 0.0, axis=1)
        G, slack = G[live], self.point.slack[live]
        violated = np.maximum(far * SAFE - slack, 0.0)
        if not violated.any():
            return far
        best = math.inf
        for direction in self._inward_directions(G, slack, rows, far):
            rate = G @ direction
            error = self.unit
            inward = -float(np.max(rate[violated > 0.0])) - error
            if not inward > 0.0:
                continue
            outward = rate > 0.0
            room = float(np.min(0.5 * slack[outward] / rate[outward], initial=math.inf))
            step = min(room, 100.0 * far / inward)
            length = step * norm(direction) * SAFE
            aside = norm(rows.B @ direction) + rounding_unit(EPS, *rows.B.shape) * norm(rows.B)
            off = (aside * step / rows.sigma + far) * SAFE  # distance from p0 to W
            margin = slack - step * rate - (off + error * step) * SAFE
            if not np.all(margin > 0.0):
                continue
            share = float(np.max(violated / (violated + margin))) * SAFE
            best = min(best, (far + share * (length + off + far)) * SAFE)
            if best <= 2.0 * far:  # no direction can more than halve this
                break
        return best

    def _inward_directions(
        self, G: Host, slack: Host, rows: FreeRows, far: float
    ) -> Iterator[Host]:
        """Yield unit directions in W that lead away from the nearest constraints."""
        for reach in (1e2, 1e4, 1e6, 1e8):
            near = slack <= reach * far
            key = near.tobytes() + rows.free.tobytes()
            if key not in self._directions:
                self._directions[key] = inward_direction(G[near], rows.span, rows.null)
            direction = self._directions[key]
            if direction is None:  # there is none for more constraints either
                return
            yield direction

    # -- from below

    def fall(self, f: Parts, sigma: float, normal: Host, close: ProvedDistance) -> float:
        """Return an upper bound on f(x) - f*.

        Let z be any minimiser of g and d = z - p. For every y, nu and lambda >= 0 on constraints
        active at p, and r = C'y + nu c + E'omega + G'lambda + grad f(p), we have

            f(z) - f(p) >= -|r| |d| - <y, C d> - nu <c, d> + sum of lambda_i slack_i(z) + ½|F d|².

        Here F'F is the curvature of f; lambda_i may be negative if slack_i(z) = 0 for all z. If the
        rows of F/|F|, C/|C|, E and G_K together have rank n and the least singular value tau, |d|
        is at most (|F d|/|F| + |C d|/|C| + the sum of slack_i(z) over K)/tau: with m = |r|/tau and
        m <= lambda_i on K, the terms that depend on z add up to at least -½ (m/|F|)² - m |C d|/|C|.
        Otherwise |d| is at most the diameter of Z.
        """
        exponent, f = f.exponent, f.scaled
        if self.Z.lift is not None:
            f, normal = f.composed(self.Z.lift), self.Z.lift.T @ normal
        at, Z = self.point.at, self.Z
        slope, bend = f.slope(at), largest_curvature(f, at, self.away)
        error = slope.error + bend * self.point.off + TINY
        lost = (norm(slope.vector) + error + 0.5 * bend * self.away) * self.away  # |f(x) - f(p)|
        C, c = self.C / (norm(self.C) or 1.0), self.c / (norm(self.c) or 1.0)
        equal = Z.equal[~self.fixed]
        rows = np.vstack([C, c[None], equal])
        target = -slope.vector - np.ldexp(normal, -exponent)
        weights = combined(rows, target)
        y, nu = weights[: len(C)], float(weights[len(C)])
        rest, rounding, multipliers = self._balanced(
            slope.vector + rows.T @ weights, close.forced, self.point.tight
        )
        size = norm(slope.vector) + norm(rows) * norm(weights)
        rounding += rounding_unit(EPS, *rows.shape, self.n) * size
        r = (norm(rest) + error + rounding) * SAFE
        image, tilt = close.image / (norm(self.C) or 1.0), close.tilt / (norm(self.c) or 1.0)
        lost += (norm(y) * image + abs(nu) * tilt) * SAFE
        lift = np.eye(self.n) if Z.lift is None else Z.lift
        strong = math.sqrt(math.ldexp(max(sigma, 0.0), -exponent)) * lift, 0.0
        F, rho = curvature_below(f, at, self.point.off) or strong
        unseen = self._unseen(F, rho, C, r, image, multipliers, close.forced)
        lost += min(r * self.domain.diameter_in(self.n) * SAFE, unseen)
        return ldexp_or_inf(lost * SAFE, exponent) + TINY

    def _unseen(
        self, F: Host, rho: float, C: Host, r: float, image: float, weights: Host, forced: Host
    ) -> float:
        """Return an upper bound on r |d| - ½|F d|² - the sum of lambda_i slack_i(z)."""
        Z, length = self.Z, norm(F)
        top = float(np.max(weights, where=~forced, initial=0.0))
        pressing = ~forced & (weights > math.sqrt(r) * math.sqrt(top))
        rows = np.vstack([F / (length or 1.0), C, Z.equal, Z.rows[forced | pressing]])
        if len(rows) < self.n:
            return math.inf
        tau = least_stretch(rows)
        m = r / tau * SAFE if tau > 0.0 else math.inf
        if not m <= float(np.min(weights, where=pressing, initial=math.inf)):
            return math.inf
        return largest_fall(m / length if length > 0.0 else 0.0, rho) + m * image


def _root(kappa: float, a: float, b: float) -> float:
    """Return the positive root m of kappa m² = a m + b, rounded up."""
    return 0.5 * (a + math.hypot(a, 2.0 * math.sqrt(kappa * b))) / kappa * SAFE
