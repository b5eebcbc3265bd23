"""Quasi-Newton: the inverse Hessian from the steps taken so far, on the active face.

With few variables this is BFGS with a matrix: what one round has learned serves the next. With
many, it keeps only the last pairs (L-BFGS; Liu, Nocedal 1989).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.linalg import Array, arrays, in_files
from tiebreak.sets import ActiveFace

KEPT_MATRIX = 1000  # keep a matrix up to this many variables: 8 MB in float64
LEAST_CURVATURE = 1e-14  # an <s, y> below this share of |s| |y| is rounding error
PAIRS = 12  # number of pairs kept without a matrix


@in_files("bregman.inverse-hessian")
class InverseHessian(NamedTuple):
    """The inverse Hessian: a matrix, or pairs of changes of x and slope, the latest last."""

    inverse: Array | None = None
    pairs: tuple[tuple[Array, Array], ...] = ()

    def times(self, slope: Array, scale: float) -> Array:
        """Return H slope, or ``scale`` times the slope if nothing is known yet."""
        if self.inverse is not None:
            return self.inverse @ slope
        q, weights = slope, []
        for s, y in reversed(self.pairs):
            weights.append(arrays.dot(s, q) / arrays.dot(s, y))
            q = q - weights[-1] * y
        if self.pairs:
            s, y = self.pairs[-1]
            scale = arrays.dot(s, y) / arrays.dot(y, y)
        q = scale * q
        for (s, y), weight in zip(self.pairs, reversed(weights), strict=True):
            q = q + (weight - arrays.dot(y, q) / arrays.dot(s, y)) * s
        return q

    def learned(self, s: Array, y: Array) -> InverseHessian:
        """Add one more pair: H y = s."""
        product = arrays.dot(s, y)
        if not product > LEAST_CURVATURE * arrays.norm(s) * arrays.norm(y) > 0.0:
            return self
        n = int(s.shape[0])
        if n > KEPT_MATRIX:
            return InverseHessian(None, (*self.pairs, (s, y))[-PAIRS:])
        H = self.inverse
        if H is None:
            H = (product / arrays.dot(y, y)) * arrays.like(np.eye(n), s)
        # (I - s y'/<s,y>) H (I - y s'/<s,y>) + s s'/<s,y>, as a change of rank two.
        Hy = H @ y
        p = (0.5 * (1.0 + arrays.dot(y, Hy) / product) * s - Hy) / product
        xp = arrays.namespace(s)
        return InverseHessian(H + xp.stack([p, s], axis=1) @ xp.stack([s, p], axis=0))

    def onto(self, before: ActiveFace, after: ActiveFace) -> InverseHessian:
        """Carry it over to another face.

        If entries become fixed, the inverse of the rest of H^-1 is a Schur complement; entries that
        become free start with a typical curvature.
        """
        if self.inverse is None:
            kept = [(after.along(s), after.along(y), arrays.norm(s)) for s, y in self.pairs]
            # Keep a pair if most of its step is along the new face.
            return InverseHessian(
                None,
                tuple(
                    (s, y)
                    for s, y, size in kept
                    if arrays.norm(s) >= 0.9 * size
                    and arrays.dot(s, y) > LEAST_CURVATURE * arrays.norm(s) * arrays.norm(y)
                ),
            )
        if before.free is None or after.free is None:
            return InverseHessian()
        was, now = (arrays.to_numpy(face.free) > 0.0 for face in (before, after))
        fixed, freed = np.nonzero(was & ~now)[0], np.nonzero(now & ~was)[0]
        if len(fixed) + len(freed) > len(now) // 2:
            return InverseHessian()
        H = np.array(arrays.to_numpy(self.inverse))
        if len(fixed):
            try:
                part = np.linalg.solve(H[np.ix_(fixed, fixed)], H[fixed])
            except np.linalg.LinAlgError:
                return InverseHessian()
            H -= H[:, fixed] @ part
            H[fixed], H[:, fixed] = 0.0, 0.0
        if len(freed):
            known = np.diagonal(H)[was & now]
            H[freed], H[:, freed] = 0.0, 0.0
            H[freed, freed] = np.median(known) if len(known) else 1.0
        if not np.all(np.isfinite(H)):
            return InverseHessian()
        return InverseHessian(arrays.like(H, self.inverse))
