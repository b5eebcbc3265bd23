"""The cone of non-decreasing vectors; its projection is isotonic regression."""

from __future__ import annotations

import dataclasses

import numpy as np

from tiebreak.linalg import TOL, arrays, moved
from tiebreak.linalg.arrays import Array, Host, dot, like, norm, to_numpy, zeros_like
from tiebreak.linalg.host import host
from tiebreak.linalg.matrices.operators import Differences
from tiebreak.sets.base import INFINITY, Set, Violation, violations_of
from tiebreak.sets.cuts import ProjectionPath
from tiebreak.sets.descriptions import ActiveFace, LinearRows, RecessionDirections


@dataclasses.dataclass(frozen=True)
class Monotone(Set):
    """{x : x_1 <= x_2 <= ... <= x_n}, a cone.

    The projection is an isotonic regression. It is computed on the host in O(n), by pooling
    adjacent violators (scipy.optimize.isotonic_regression).

    Examples:
        >>> fit = tb.LeastSquares([[1, 0, 0], [0, 0, 1]], [1, 3])
        >>> domain = tb.Monotone()  # x_1 <= x_2 <= x_3
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[0, 4, 0]), domain=domain)
        >>> tb.solve(problem).x.round(4)
        array([1., 3., 3.])
    """

    def linear_rows(self, n: int) -> LinearRows:
        return LinearRows(n, -Differences((n,)).on_host(), np.zeros(n - 1))

    def recession(self, n: int) -> RecessionDirections:
        return RecessionDirections(rows=(self.linear_rows(n).A,), project=self.project)

    def face_at(self, x: Array) -> ActiveFace:
        """The vectors that are constant on each block of equal entries of x."""
        values = to_numpy(x)
        apart = np.diff(values) > TOL.met * float(np.max(np.abs(values), initial=0.0))
        block = np.append(0, np.cumsum(apart))
        count = np.bincount(block)

        def along(v: Array) -> Array:
            means = np.bincount(block, to_numpy(v)) / count
            return like(means[block], x)

        return ActiveFace(along, like(block.astype(values.dtype), x), self.project, None)

    def project(self, x: Array) -> Array:
        """Isotonic regression of x."""
        return like(_pool(host(x))[0], x)

    def support(self, direction: Array) -> float:
        """Return 0 if the entries sum to 0 and no partial sum from the left is negative; else inf.

        Sums that differ from 0 by no more than their rounding errors count as 0.
        """
        return 0.0 if _length_of_means(host(direction)) == 0.0 else INFINITY

    def argmin(self, direction: Array) -> Array:
        """Return the origin if <direction, .> is bounded below; otherwise raise ValueError."""
        if self.support(-direction) > 0.0:
            raise self.no_minimiser()
        return zeros_like(direction)

    def distance_outside(self, x: Array, unit: float) -> float:
        at = host(x)
        return norm(np.maximum.accumulate(at) - at) * (1.0 + unit)

    def violations(self, x: Array) -> list[Violation]:
        at = host(x)
        size = np.abs(at[:-1]) + np.abs(at[1:])
        return violations_of("the order of x[{}] and the next entry", -np.diff(at), size, norm(at))

    def projection_path(self, x: Array, c: Array) -> ProjectionPath:
        x_host, c_host = host(x), host(c)

        def path(mu: float) -> tuple[Array, float, float]:
            z_host, blocks = _pool(moved(x_host, mu, c_host))
            z = like(z_host, x)
            return z, dot(c, z), _length_of_means(c_host, blocks)

        return path

    def last_piece(self, x: Array, c: Array) -> tuple[float, Array, float]:
        """The start of the last piece if z(mu) is constant there; else a sufficiently large mu.

        Let p = Pi_Z(-c), so that <c, p> = -|p|^2; then z(mu) differs from mu p by at most |x|.
        If p = 0, z is constant for large mu, and its blocks end only where partial sums of c are 0.
        """
        x_host, c_host = host(x), host(c)
        pull = _length_of_means(-c_host)
        if pull > 0.0:
            mu = 4.0 * (norm(c_host) * norm(x_host) / pull + 1.0) / pull
            z, _value, slope = self.projection_path(x, c)(mu)
            return mu, z, slope
        sums = np.cumsum(c_host)
        steps = np.sqrt(np.arange(1.0, c_host.shape[0] + 1.0))
        noise = 4.0 * arrays.epsilon(c_host) * steps * np.cumsum(np.abs(c_host))
        ends = np.flatnonzero(np.append(np.abs(sums[:-1]) <= noise[:-1], True)) + 1
        sizes = np.diff(ends, prepend=0)
        means = np.add.reduceat(x_host, ends - sizes) / sizes
        z = np.repeat(_pool(means, sizes)[0], sizes)
        inside = np.abs(sums) > noise
        breaks = np.cumsum(z - x_host)[inside] / -sums[inside]
        return max(0.0, float(np.max(breaks, initial=0.0))), like(z, x), 0.0


def _pool(v: Host, weights: Host | None = None) -> tuple[Host, Host]:
    """The isotonic regression of v, and where its blocks begin (with len(v) as last entry)."""
    from scipy.optimize import isotonic_regression

    result = isotonic_regression(v, weights=weights)
    return result.x, result.blocks


def _length_of_means(c: Host, blocks: Host | None = None) -> float:
    """The length of c averaged over each block; sums that are only rounding errors count as 0.

    By default, the blocks are those of the projection of c, and the result is the length of this
    projection.
    """
    blocks = _pool(c)[1] if blocks is None else blocks
    roots = np.sqrt(np.diff(blocks))
    sums = np.add.reduceat(c, blocks[:-1])
    noise = 4.0 * arrays.epsilon(c) * roots * np.add.reduceat(np.abs(c), blocks[:-1])
    return norm(sums / roots * (np.abs(sums) > noise))
