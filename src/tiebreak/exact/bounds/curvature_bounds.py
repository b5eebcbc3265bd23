"""Bounds on the curvature of f and g, computed from their parts."""

from __future__ import annotations

import math

import numpy as np

from tiebreak.functions import Parts
from tiebreak.linalg import EPS, SAFE, TINY, TOL, Host, deadline, rounding_unit, spectra
from tiebreak.linalg.arrays import HUGE
from tiebreak.linalg.host import norm


def is_convex(h: Parts) -> bool:
    """Is h proved convex?

    A quadratic form is convex if it has as many positive eigenvalues as its rank.
    """
    for part in h.forms:
        noise = rounding_unit(EPS, h.n) * norm(part.rows)
        positive = int(np.count_nonzero(np.linalg.eigvalsh(part.rows) > TOL.clear_units * noise))
        if positive < h.n and spectra.exact_rank(part.rows) != positive:
            return False
    return True


def largest_curvature(h: Parts, at: Host, reach: float) -> float:
    """Bound the curvature of h within ``reach`` of a point."""
    return sum(part.largest_curvature(at, reach) for part in h.parts) * SAFE


def curvature_diagonal(h: Parts, at: Host) -> Host:
    """Return a close upper bound on the diagonal of h's second derivative."""
    diagonals = (part.curvature_diagonal(at) for part in h.parts)
    return np.asarray(sum(diagonals, np.zeros(h.n))) * SAFE


def largest_rho(f: Parts, x: Host) -> float:
    """Return rho such that f's second derivative at x + d is at least e^(-rho |F d|) F'F.

    F'F is the second derivative at x. Return inf if no such rho is known.
    """
    ratios = (part.phi.concordance * part.margins_per_curvature(x) for part in f.losses)
    return max(ratios, default=0.0) * SAFE


def largest_fall(m: float, rho: float) -> float:
    """Bound the amount by which m p exceeds the gain from f's curvature, where p = |F d|.

    The gain is at least ½p² for squares; otherwise, with `largest_rho`, it is the integral of (1 -
    exp(-rho p))/rho (Bach 2010). So the excess is largest at p = -log(1 - rho m)/rho, and it is
    less than m times that p.
    """
    if rho == 0.0:
        return 0.5 * m * m
    if not rho * m < 0.5:
        return math.inf
    return -m * math.log1p(-rho * m) / rho if rho * m > 1e-9 else m * m * (1.0 + 1e-9)


def curvature_below(f: Parts, at: Host, off: float) -> tuple[Host, float] | None:
    """Return F with F'F at most f's curvature within ``off`` of a point, and its `largest_rho`.

    Return None if F is unknown, as for quadratic forms, which would have to be factorised. The
    curvature of Huber losses is ignored, because it ends at their kinks.
    """
    f = Parts(f.n, tuple(part for part in f.parts if not part.has_kinks))
    if f.forms:
        return None
    unit = rounding_unit(EPS, f.n, *(len(part.rows) for part in f.parts))
    longest = max((longest_row(part.rows) for part in f.losses), default=0.0)
    change = longest * (off + unit * norm(at)) * SAFE + unit
    kept = min((part.curvature_kept(change) for part in f.losses), default=1.0)
    rho = largest_rho(f, at)
    if not (math.isfinite(rho) and kept > 0.0):
        return None
    return math.sqrt(kept) * f.curvature(at), rho / math.sqrt(kept)


def longest_row(rows: Host) -> float:
    """Return the largest norm of a row."""
    top = float(np.max(np.abs(rows), initial=0.0)) or 1.0
    return top * math.sqrt(float(np.max(np.sum((rows / top) ** 2, axis=1), initial=0.0))) * SAFE


def combined(rows: Host, target: Host) -> Host:
    """Return weights whose combination of the rows is the target, in the least-squares sense."""
    from scipy.linalg import lstsq

    if norm(rows) < 1.0 / HUGE:  # the rows are negligible
        return np.zeros(len(rows))
    deadline.check(deadline.svd_work(*rows.shape))
    # A factorisation with pivoting takes half as long as a singular value decomposition, but loses
    # digits unless some combination of the rows equals the target.
    weights = lstsq(rows.T, target, max(rows.shape) * EPS, lapack_driver="gelsy")[0]
    if norm(target - rows.T @ weights) <= 64.0 * EPS * norm(target):
        return np.asarray(weights)
    return np.asarray(np.linalg.lstsq(rows.T, target, rcond=None)[0])


def least_stretch(rows: Host) -> float:
    """Return a proved c with |rows d| >= c |d| for all d; it may be negative.

    The bound uses the eigenvalues of rows'rows if rounding changes the smallest by less than half.
    """
    size, unit = norm(rows), rounding_unit(EPS, *rows.shape)
    smallest = float(spectra.eigenvalues(rows.T @ rows)[0])
    noise = 4.0 * unit * size * size + TINY  # squares may underflow
    if smallest > 2.0 * noise:
        return math.sqrt(smallest - noise) / SAFE
    deadline.check(deadline.svd_work(*rows.shape))
    return float(np.linalg.svd(rows, compute_uv=False)[-1]) - unit * size


def curvature_error(h: Parts, x: Host, R: Host, least: float) -> float:
    """Bound the relative difference of |R v| and sqrt(v'Hv), for v in T and H = h''(x).

    An absolute rounding error in a margin causes a relative error of the same size (times
    `concordance`) in the second derivative of the loss. The root of a quadratic form comes from a
    factorisation, so its error is larger than that of the form itself.
    """
    unit = rounding_unit(EPS, *R.shape)
    lost = unit * norm(R) / least
    if h.forms:
        lost = lost * norm(R) / least
    for part in h.losses:
        longest = part.phi.concordance * float(np.max(part.lengths))
        largest = part.phi.concordance * float(np.max(np.abs(part.rows @ x)))
        lost += rounding_unit(EPS, len(x)) * longest * norm(x) + 8.0 * EPS * (1.0 + largest)
    return lost
