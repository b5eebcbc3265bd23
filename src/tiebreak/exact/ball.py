"""Minimising a quadratic over a slice of a ball: the trust-region subproblem."""

from __future__ import annotations

import math

import numpy as np

from tiebreak.functions import Slope
from tiebreak.linalg import EPS, TOL, Host, deadline
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.spectra import singular
from tiebreak.sets import Domain

LEAST_MULTIPLIER = 1e-300  # the smallest multiplier we look for: just above the denormal numbers


def ball_of(domain: Domain, n: int) -> tuple[Host, float] | None:
    """Return the center and radius, or None if the domain is neither a ball nor R^n."""
    center, radius = domain.as_ball or (None, math.inf)
    if math.isinf(radius):
        return None
    return np.zeros(n) if center is None else host(center), radius


class BallSlice:
    """{x0 + N v : |x0 + N v - center| <= radius}: a flat slice of a ball, itself a ball.

    ``radius`` is the radius of the slice, around the point of the slice nearest to the center.
    ``known``: the singular values and right vectors of R on the slice, if R never changes.
    """

    def __init__(
        self, center: Host, radius: float, N: Host, known: tuple[Host, Host] | None = None
    ) -> None:
        self.center, self.radius, self.N, self._known = center, radius, N, known
        self.extent, self.is_factorised = radius, known is not None
        self._factors: tuple[Host, Host, Host] | None = None  # R and its factors

    def step(self, R: Host, slope: Slope, x: Host, rows: int = 0) -> Host:
        """Return the d that minimises ½|R d|² + <slope, d> among all d with x + d in the slice.

        The step needs one singular value decomposition and the root of one scalar equation. In the
        coordinates of R's singular vectors, with w = x - center and the slope a, the step is z(mu)
        = -(a + mu w)/(s² + mu), where mu is 0 or the root of |w + z(mu)| = radius.
        """
        s, vt = self._singular(R, rows)
        a, w = vt @ (self.N.T @ slope.vector), vt @ (self.N.T @ (x - self.center))
        flat = s == 0.0
        a[flat & (np.abs(a) <= TOL.met * slope.size)] = 0.0
        square = s * s
        with np.errstate(divide="ignore", invalid="ignore"):
            free = np.where(flat, 0.0, w - a / square)  # the minimiser nearest to the center
        if not a[flat].any() and norm(free) <= self.radius:
            room = math.sqrt(self.radius - norm(free)) * math.sqrt(self.radius + norm(free))
            aside = norm(w[flat])
            z = np.where(flat, w * min(1.0, room / aside if aside > 0.0 else 1.0), free) - w
            z[~flat] = -a[~flat] / square[~flat]
        else:
            b = square * w - a
            mu = self._root(b, square)
            z = -(a + mu * w) / (square + mu) if mu < math.inf else b * (self.radius / norm(b)) - w
        return np.asarray(self.N @ (vt.T @ z))

    def along(self, directions: Host, x: Host) -> BallSlice:
        """Return the part of the slice that can be reached from x along the ``directions`` v."""
        w = self.N.T @ (x - self.center)
        across = norm(w - directions @ (directions.T @ w)) / self.radius
        room = math.sqrt(max(1.0 - across, 0.0)) * math.sqrt(1.0 + across)
        N = self.N @ (directions if room > 0.0 else directions[:, :0])
        return BallSlice(self.center, self.radius * room, N)

    def _singular(self, R: Host, rows: int) -> tuple[Host, Host]:
        """Return the singular values and right vectors of R on the slice; cached for a fixed R."""
        if self._known is not None:
            return self._known
        if self._factors is None or self._factors[0] is not R:
            m, k = len(R), self.N.shape[1]
            deadline.check(deadline.svd_work(m, k, whole=m < k))
            s, vt = singular(R @ self.N, whole=m < k)
            s = np.append(s, np.zeros(len(vt) - len(s)))
            s[s <= max(rows, *R.shape) * EPS * norm(R)] = 0.0
            self._factors = R, s, vt
        return self._factors[1:]

    def _root(self, b: Host, square: Host) -> float:
        """Return the root mu of |b/(s² + mu)| = radius; inf if it overflows."""
        from scipy.optimize import brentq

        with np.errstate(over="ignore"):
            b = b / self.radius
        if not math.isfinite(norm(b)):
            return math.inf

        def excess(mu: float) -> float:
            with np.errstate(divide="ignore", invalid="ignore"):
                length = norm(np.where(b == 0.0, 0.0, b / (square + mu)))
            return 1.0 / length - 1.0 if length > 0.0 else math.inf

        high = norm(b)
        while excess(high) < 0.0:
            high *= 1.0 + 1e-6
        low = high
        while excess(low) > 0.0 and low > LEAST_MULTIPLIER:
            low *= 0.1
        if low == high or excess(low) > 0.0:  # the root is at an end of the range
            return low
        return float(brentq(excess, low, high, xtol=LEAST_MULTIPLIER, rtol=4 * EPS))

    def multiplier(self, slope: Host, x: Host) -> float:
        """Return the mu >= 0 of least |slope + mu (x - center)| on the slice; 0 if x is inside."""
        w = self.N.T @ (x - self.center)
        if norm(w) < self.radius * (1.0 - TOL.met) or not w.any():
            return 0.0
        return max(-float(w / norm(w) @ (self.N.T @ slope)) / norm(w), 0.0)

    def normal(self, slope: Slope, x: Host) -> tuple[Host, float]:
        """Return the outward normal at x that best balances the slope, and the residual."""
        normal = self.multiplier(slope.vector, x) * (x - self.center)
        return normal, norm(self.N.T @ (slope.vector + normal))
