"""Bounds on the distance to the minimisers of g on R^n, for losses of A x; no radius is needed.

g is a sum of squares, losses sum w phi(<m_i, x>) of `loss_parts`, quadratic forms and a linear
term. Let H be the second derivative of g at x, and T the span of the rows of g. Let |v|_H² = <v, H
v> for v in T, and define

    lambda = max <grad g(x), v>/|v|_H    (Newton's decrement)    and    rho = max |<m_i, v>|/|v|_H.

The third derivative of phi is at most the second derivative (Bach 2010), or `concordance` times the
second derivative; this factor is included in rho. So along a v with |<m_i, v>| <= s, the second
derivative of g shrinks by no more than a factor e^-s. With s <= rho |v|_H,

    <grad g(x + v), v>/|v|_H  >=  -lambda + (1 - exp(-rho |v|_H))/rho.

The right-hand side is positive for |v|_H > r = -log(1 - rho lambda)/rho, if rho lambda < 1. So g
has a minimiser x + delta with delta in T and |delta|_H <= r, and g(x) - g* <= lambda r. All
minimisers x* have the same products with the rows, so |x* - x|_H <= r for every x*.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.exact.bounds.curvature_bounds import curvature_error, largest_fall, largest_rho
from tiebreak.functions import Parts
from tiebreak.functions.parts.parts import product_error
from tiebreak.linalg import EPS, SAFE, TINY, TOL, Host, deadline, rounding_unit, spectra
from tiebreak.linalg.host import Sliced, norm
from tiebreak.linalg.rank import have_whole_ties
from tiebreak.problem import Problem


class Span(NamedTuple):
    """The root R of a second derivative R'R, with its singular values on its row space T."""

    R: Host
    left: Host
    sigma: Host  # the positive singular values of R
    right: Host  # approximately an orthonormal basis of T, as rows
    least: float  # proved: |R v| >= least |v| for all v in T
    angle: float  # bounds the sine of the angle between T and the span of ``right``

    def weights(self, target: Host) -> Host:
        """Return the least-norm y with R'y = target, in the least-squares sense."""
        return np.asarray(self.left @ ((self.right @ target) / self.sigma))

    def balance(self, slope: Host, normal: Host | float = 0.0) -> tuple[Host, Host, float]:
        """Make slope + normal + R'y small; return y, then slope + R'y and a bound on its error."""
        rows, y = Sliced(self.R), self.weights(-slope - normal)
        y = y + self.weights(-rows.times(y, -slope, transposed=True) - normal)
        left, size = rows.times(y, -slope, transposed=True), norm(slope) + norm(self.R) * norm(y)
        return y, left, product_error(norm(left), self.R.shape, size, rows.is_plain)

    def dual(self, vectors: Host) -> Host:
        """Bound max <vector, v>/|R v| over v in T, for each column of ``vectors``."""
        top = float(np.max(np.abs(vectors), initial=0.0)) or 1.0  # keeps squares finite
        vectors = vectors / top
        lengths = np.sqrt(np.sum(vectors * vectors, axis=0))
        inside = (self.right @ vectors) / (self.sigma / self.least)[:, None]
        found = np.sqrt(np.sum(inside * inside, axis=0))
        return np.asarray((found + lengths * self.angle) * (top / self.least) * SAFE)


def span(R: Host, *rows: Host) -> Span | None:
    """Return R on the span T of ``rows``, which have R's null space; None if T is uncertain.

    T's dimension is a rank. The rank of R is certain if it has as many clear singular values as it
    can have (equal or zero columns cannot raise the rank); otherwise exact arithmetic decides.
    """
    n = R.shape[1]
    if not any(some.any() for some in rows):
        return Span(R, np.zeros((len(R), 0)), np.zeros(0), np.zeros((0, n)), math.inf, 0.0)
    deadline.check(deadline.svd_work(*R.shape))
    left, sigma, right = np.linalg.svd(R, full_matrices=False)
    noise = rounding_unit(EPS, *R.shape) * norm(R)
    rank, is_whole = int(np.count_nonzero(sigma > noise)), len(R) == sum(map(len, rows))
    is_clear = is_whole and (rank == len(sigma) or rank == _different_columns(*rows))
    if not is_clear and not (len(right) == n and have_whole_ties(rows, right[rank:].T)):
        rank = _rank(*rows)
    if not 0 < rank <= len(sigma):
        return None
    least = float(sigma[rank - 1]) - noise
    if not least > noise / TOL.percent:
        return None
    return Span(R, left[:, :rank], sigma[:rank], right[:rank], least, noise / least)


def _different_columns(*rows: Host) -> int:
    """Count the distinct nonzero columns of these rows."""
    columns = np.ascontiguousarray(np.vstack(rows).T)
    return len({column.tobytes() for column in columns if column.any()})


def _rank(*rows: Host) -> int:
    """Return the exact rank of the stored rows, or 0 if there are too many rows."""
    stacked = np.vstack(rows)
    found = spectra.exact_rank(stacked)
    if found is None:  # try again with only the distinct rows
        found = spectra.exact_rank(np.unique(stacked, axis=0))
    return found or 0


def _contains(found: Span, rows: tuple[Host, ...], h: Parts, outliers: Host) -> bool:
    """Is it proved that h's linear terms and these outliers are exactly in the span of the rows?

    The terms are checked one by one, because their sum is rounded.
    """
    some = [v[None] for v in (*(row for part in h.tilts for row in part.rows), *outliers)]
    rank, n = found.right.shape
    return not some or rank == n or (bool(rows) and _rank(*rows, *some) == rank)


class NearbyMinimisers(NamedTuple):
    """Bounds, proved at x, that hold for the minimisers of g on R^n."""

    gap: float  # an upper bound on g(x) - g*
    change: float  # an upper bound on |R (x* - x)| for every minimiser x*
    distance: float  # some minimiser is within this distance of x
    span: Span
    rows: tuple[Host, ...]  # the stored rows that span T


def nearby_minimisers(h: Parts, x: Host) -> NearbyMinimisers | None:
    """Return bounds on h's minimisers, proved from h's slope at x and the error of that slope.

    Return None if nothing is known: x is too far away, the rank is uncertain, or there is no
    minimiser. As long as no row passes its kink, a Huber loss is a square, or linear in a row that
    must be in the span of the others.
    """
    slope, is_squares, (h, kinks) = h.slope(x), h.is_squares, h.between_kinks(x)
    rows = tuple(part.rows for part in h.curved)
    R = h.curvature(x)
    found = span(R, *rows)
    if found is None:
        return _by_residual(h, x, R, rows) if is_squares else None
    # If the linear term or the row of an outlier is outside the span, g is unbounded (or nearly
    # so), or some direction affects only outliers.
    if not _contains(found, rows, h, kinks.outliers):
        return None
    doubt = curvature_error(h, x, R, found.least)
    if not doubt <= TOL.percent:
        return None
    more = (1.0 + doubt) * SAFE
    y, left, error = found.balance(slope.vector)
    lost = (norm(left) + error + slope.product_error + TINY) / found.least
    # With outliers, what is left of h may be squares, but it also has their linear terms.
    residual = _largest_residual(h, x) if is_squares else math.inf
    decrement = min(norm(y) + slope.image_error + lost, residual) * more
    seen = [float(np.max(found.dual(p.rows.T), initial=0.0)) * more for p in h.losses]
    rho = max((p.phi.concordance * s for p, s in zip(h.losses, seen, strict=True)), default=0.0)
    if not rho * decrement < 0.5:
        return None
    far = rho * decrement
    change = decrement * (1.0 if far < 1e-9 else -math.log1p(-far) / far) * (1.0 + 1e-9)
    if not np.all(found.dual(kinks.rows.T) * change * more < kinks.room):
        return None
    return NearbyMinimisers(
        gap=decrement * change * SAFE,
        change=change * more,
        distance=change * more / found.least,
        span=found,
        rows=rows,
    )


def _by_residual(h: Parts, x: Host, R: Host, rows: tuple[Host, ...]) -> NearbyMinimisers:
    """Return a bound for squares of any rank: |R (x* - x)| is at most the residual's norm at x.

    The distance to the minimisers stays unknown. We use only clear singular values; this is safe,
    because the bounds hold for any weights of the rows.
    """
    left, sigma, right = np.linalg.svd(R, full_matrices=False)
    clear = sigma > rounding_unit(EPS, *R.shape) * norm(R) / TOL.percent
    change = _largest_residual(h, x) * SAFE
    seen = Span(R, left[:, clear], sigma[clear], right[clear], 0.0, math.inf)
    return NearbyMinimisers(0.5 * change * change * SAFE, change, math.inf, seen, rows)


def _largest_residual(h: Parts, x: Host) -> float:
    """Bound |Rx - s| for squares ½|Rx - s|², hence |R delta|; inf if h has other parts."""
    if not h.is_squares:
        return math.inf
    sizes = []
    for part in h.squares:
        found, size = norm(part.dual(x) / part.roots), part.size(x) / math.sqrt(part.weight)
        sizes.append(found + product_error(found, part.rows.shape, size, part.sliced.is_plain))
    return math.hypot(*sizes) + TINY


def below(
    f: Parts,
    x: Host,
    sigma: float,
    value: float,
    slope: Host,
    error: float,
    g: NearbyMinimisers,
    reach: float = math.inf,
) -> float:
    """Return a lower bound on f* on R^n, from f's value and slope at x, known up to an error.

    For any weights y of g's rows, s = slope + R'y, and delta = x* - x for a solution x*, we have

        f* >= value + <s, delta> - |y| |R delta| + (sigma/2 |delta|², or ½|F delta|² for f's own F).

    ``sigma``: the strong convexity of f. If sigma = 0, `flattest` bounds the decrease below
    ``value``, and so does |delta| <= reach.
    """
    R, (y, left, rounding) = g.span.R, g.span.balance(slope)
    unit = rounding_unit(EPS, *R.shape)
    steep = norm(left) + error + rounding
    price = norm(y) * g.change
    fall = 0.5 * steep * (steep / sigma) if sigma > 0.0 else math.inf
    if not math.isfinite(fall):
        # rounding may make f slightly nonconvex
        dent = 0.5 * -sigma * reach * reach if sigma < 0.0 else 0.0
        fall = min(flattest(f, x, R, g.rows, steep, g.change), steep * reach + dent)
    return value - (fall + price) * (1.0 + unit) - 4.0 * EPS * abs(value)


def flattest(
    f: Parts,
    x: Host,
    R: Host,
    rows: tuple[Host, ...],
    steep: float,
    change: float,
) -> float:
    """Bound how far <s, delta> + ½|F delta|² is below 0 if |s| <= steep, |R delta| <= change.

    F is the root of f's second derivative at x; losses of f that are not squares gain less from
    their curvature (see `largest_fall`). The slope s is in the span of f's linear terms and the
    rows of F and R; F and R together have the same span as f's rows and ``rows``, and the linear
    terms must be in that span. There, |delta| <= (a|F delta| + |R delta|)/tau for any a > 0, where
    tau is the smallest positive singular value of aF and R together.

    For Huber losses, F has the rows that are not outliers, and outliers count as linear terms. No
    row passes its kink if |delta| <= radius, hence if p = |F delta| <= p1 = (radius tau -
    change)/a. Farther out, f's gain along the ray is convex, and it is known on the first share t =
    radius tau/(a p + change) of the ray: it is at least ½(t p)²/t, and t p >= p1. So the gain is at
    least ½p1 p. This gain makes up for the part steep a p/tau of the decrease of <s, delta> if
    steep a/tau <= ½p1.
    """
    f, kinks = f.between_kinks(x)
    F = f.curvature(x)
    a = 2.0 ** round(math.log2(norm(R) / norm(F))) if F.any() and R.any() else 1.0
    every = (*(part.rows for part in f.curved), *rows)
    both = span(np.vstack([a * F, R]), *every)
    if both is None or not _contains(both, every, f, kinks.outliers):
        return math.inf
    doubt = curvature_error(f, x, both.R, both.least)
    if not doubt <= TOL.percent:
        return math.inf
    tau = both.least / (1.0 + 4.0 * doubt)
    rho = largest_rho(f, x) * (1.0 + 4.0 * doubt)
    radius = kinks.some(~kinks.is_outlier).radius()
    if math.isfinite(radius):
        p1 = (radius * tau - change) / a
        if rho > 0.0 or not a * steep / tau * SAFE <= 0.5 * p1:
            return math.inf
    return (steep * change / tau + largest_fall(a * steep / tau, rho)) * SAFE


class L1Dual(NamedTuple):
    """Bounds on f* proved from a slope s, if f is the sum of weights_j |x_j - center_j|."""

    weights: Host
    center: Host
    reach: Host  # the largest |x_j - center_j| in Z

    @classmethod
    def of(cls, problem: Problem, n: int) -> L1Dual:
        """Return the dual of a problem whose upper level is an l1 norm."""
        terms, ends = problem.penalties[0].terms, problem.domain.bounds_in(n)
        center = np.zeros(n) if terms.center is None else terms.center
        reach = np.maximum(np.abs(ends.lower), np.abs(ends.upper)) + np.abs(center)
        return cls(np.broadcast_to(terms.l1, n), center, reach)

    @property
    def free(self) -> Host:
        """A mask of the variables with weight 0."""
        return np.asarray(self.weights == 0.0)

    def within(self, R: Any, x: Host, change: float, high: float) -> L1Dual:
        """Bound every |x*_j - center_j| of a solution, if f* <= high and |R (x* - x)| <= change."""
        if not self.free.any() or R.shape[0] < np.count_nonzero(self.free):
            return self
        is_dense = isinstance(R, np.ndarray)
        squares = np.sum(R * R, axis=0) if is_dense else R.multiply(R).sum(axis=0)
        F = R[:, self.free] if is_dense else R[:, self.free].toarray()
        deadline.check(0.5 * deadline.svd_work(*F.shape))
        least = float(np.linalg.svd(F, compute_uv=False)[-1])
        unit = rounding_unit(EPS, *F.shape)
        lengths = np.sqrt(np.asarray(squares).ravel()) * (1.0 + unit)
        return self.where_seen(least - unit * norm(F), lengths, x, change, high)

    def where_seen(
        self, sigma: float, lengths: Host, x: Host, change: float, high: float
    ) -> L1Dual:
        """Tighten ``reach`` if |R d| >= sigma |d| for all d that change only variables of weight 0.

        ``lengths`` are the lengths of R's columns.

        The variables P of positive weight have w_P |x*_P - x_P| <= f* + f(x) in total, so the
        variables F of weight 0 have |R_F (x*_F - x_F)| <= change + max(length/weight) (f* + f(x)).
        """
        w, free = self.weights, self.free
        if not (free.any() and sigma > 0.0 and math.isfinite(high + change)):
            return self
        off = np.abs(x - self.center)
        most = change + float(np.max(lengths[~free] / w[~free])) * (high + float(w @ off))
        far = np.where(free, off + most / sigma * SAFE, self.reach)
        return self._replace(reach=np.minimum(self.reach, far))

    def in_units(self, units: Host) -> L1Dual:
        """Return the dual for u = x/units."""
        return L1Dual(self.weights * units, self.center / units, self.reach / units)

    def length(self, x: Host) -> float:
        """Bound the size of the terms of x - center before they cancel."""
        return norm(x) + norm(self.center)

    def below(self, gain: float, s: Host, error: float | Host) -> float:
        """Return the bound f* >= t gain, for t |s_j| <= weights_j and <s, x* - center> >= gain.

        ``error`` bounds the error of s, as one number or entry by entry. If a weight is 0, the
        corresponding entry of s is a rounding error, so we subtract its size times the variable's
        reach from the gain.
        """
        w = self.weights
        gain -= float(np.sum((np.abs(s) + error)[w == 0.0] * self.reach[w == 0.0])) * SAFE
        if not gain > 0.0:
            return 0.0  # since f >= 0
        return gain / float(np.max((np.abs(s) + error)[w > 0.0] / w[w > 0.0])) * (1.0 - 4.0 * EPS)


def below_l1(dual: L1Dual, x: Host, sign: Host, g: NearbyMinimisers, high: float) -> float:
    """Bound f* from below for f = weight |x|_1, from an approximate subgradient; f* <= high.

    <R'y, x*> is at least <y, R x> - |y| |R delta| and at most |R'y|_inf |x*|_1; the same holds for
    x* - center.
    """
    y, s, error = g.span.balance(0.0 * sign, -sign)
    unit = rounding_unit(EPS, len(x))
    gain = float(s @ (x - dual.center)) - (unit * norm(s) + error) * dual.length(x)
    gain -= norm(y) * g.change * SAFE
    return dual.within(g.span.R, x, g.change, high).below(gain, s, error)
