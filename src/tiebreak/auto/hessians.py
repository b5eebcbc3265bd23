"""Hessians on the active face: from the steps taken so far, or by differences of gradients.

For few variables, the steps give a BFGS matrix, which later rounds reuse. For many variables, only
the last pairs are kept (L-BFGS; Liu, Nocedal 1989).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.algorithms.common import minorants_at
from tiebreak.functions import Minorant, Terms
from tiebreak.linalg import TOL, Array, Host, arrays, deadline, in_files
from tiebreak.problem import Problem
from tiebreak.sets import ActiveFace

KEPT_MATRIX = 1000  # keep a matrix up to this many variables: 8 MB in float64
LEAST_CURVATURE = 1e-14  # an <s, y> below this share of |s| |y| is rounding error
PAIRS = 12  # number of pairs kept without a matrix


@in_files("bregman.inverse-hessian")
class InverseHessian(NamedTuple):
    """The inverse Hessian: a matrix, or pairs (change of x, change of slope), latest last."""

    inverse: Array | None = None
    pairs: tuple[tuple[Array, Array], ...] = ()

    def times(self, slope: Array, scale: float) -> Array:
        """Return H slope, or ``scale`` times the slope if there are no pairs yet."""
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
        """Add the pair (s, y): require H y = s."""
        product = arrays.dot(s, y)
        least = LEAST_CURVATURE * arrays.norm(s) * arrays.norm(y)
        if not product > least > 0.0 or not arrays.dot(y, y):  # a square may underflow
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
        """Restrict or extend the inverse Hessian to another face.

        If entries become fixed, a Schur complement gives the inverse Hessian of the others; entries
        that become free start with a typical curvature.
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


# -- by differences of gradients, one entry of x at a time ----------------------------------------


@in_files("bregman.hessians")
class HessianDifferences(NamedTuple):
    """Columns of the Hessians of f1 and g1, times the projection onto the face."""

    f: Array
    g: Array
    known: Array  # 1 for known columns

    def missing(self, face: ActiveFace) -> Host:
        """Return the free entries whose columns are not known."""
        return np.nonzero(arrays.to_numpy(face.free) > arrays.to_numpy(self.known))[0]

    def with_more_columns(
        self, problem: Problem, f_x: Minorant, g_x: Minorant, face: ActiveFace
    ) -> HessianDifferences:
        """Compute some more columns from both slopes at points of Z close to x."""
        x = f_x.at
        f, g, known = (np.array(arrays.to_numpy(part)) for part in self)
        # The step length balances rounding errors and third derivatives, and must not underflow.
        size = arrays.norm(x)
        length = 1e-6 * (size if size > 1e-150 else 1.0)
        # Compute only a few columns per step, so that a run can be stopped in between.
        for i in self.missing(face)[:16]:
            deadline.check()
            unit = np.zeros(len(known))
            unit[i] = length
            way = face.along(arrays.like(unit, x))
            there, sign = problem.domain.project(x + way), 1.0
            # if x + way is outside Z, use the point on the other side of x
            if arrays.norm(there - x - way) > 0.5 * arrays.norm(way):
                there, sign = problem.domain.project(x - way), -1.0
            (point,) = problem.forward(there)
            f_y, g_y = minorants_at(problem, point)
            f[:, i] = arrays.to_numpy(f_y.slope - f_x.slope) * (sign / length)
            g[:, i] = arrays.to_numpy(g_y.slope - g_x.slope) * (sign / length)
            known[i] = 1.0
        return HessianDifferences(*(arrays.like(part, x) for part in (f, g, known)))

    def inverse(
        self, eta: float, terms: Terms, x: Array, face: ActiveFace, curvature: float = 0.0
    ) -> Array | None:
        """Return the inverse Hessian of g1 + eta f1 + terms along the face, or None.

        ``curvature`` is the curvature of the face itself.
        """
        free = np.nonzero(arrays.to_numpy(face.free) > 0.0)[0]
        if not len(free):
            return None
        part = np.ix_(free, free)
        n, host = int(x.shape[0]), arrays.to_numpy(x)
        H = arrays.to_numpy(self.g)[part] + eta * arrays.to_numpy(self.f)[part]
        H = 0.5 * (H + H.T) + _hessian_of_terms(terms, host)[part] + curvature * np.eye(len(free))
        if not face.is_plain:
            units = [arrays.like(unit, x) for unit in np.eye(n)[free]]
            P = np.stack([arrays.to_numpy(face.along(unit)) for unit in units])[:, free]
            H = P @ H @ P + float(np.mean(np.diagonal(H))) * (np.eye(len(free)) - P)
        top = float(np.max(np.diagonal(H)))
        # The ridge is relative to the largest curvature, and well above the rounding errors of
        # differences (a few 1e-10). Otherwise steps would follow these errors far along directions
        # on which neither level depends.
        for ridge in (TOL.half, TOL.faint, TOL.away):
            H[np.diag_indices_from(H)] += ridge * top
            try:
                np.linalg.cholesky(H)
            except np.linalg.LinAlgError:
                continue
            inverse = np.zeros((n, n))
            inverse[part] = np.linalg.inv(H)
            return arrays.like(inverse, x)
        return None


def no_columns(x: Array) -> HessianDifferences:
    """Return the state in which no column is known."""
    zero = arrays.like(np.zeros((int(x.shape[0]),) * 2), x)
    return HessianDifferences(zero, zero, arrays.zeros_like(x))


def _hessian_of_terms(terms: Terms, x: Host) -> Host:
    """Return the Hessian of the terms at a point where they are smooth."""
    n, off = len(x), arrays.from_center(x, terms.center)
    H = terms.square * np.eye(n)
    length = float(np.linalg.norm(off))
    if terms.l2 > 0.0 and length > 0.0:
        u = off / length
        H += terms.l2 / length * (np.eye(n) - np.outer(u, u))
    if terms.group > 0.0:
        lengths, layout = terms.lengths(off)
        for i in np.nonzero((lengths > 0.0) & (layout.penalised > 0.0))[0]:
            labels = np.zeros(n) if layout.labels is None else layout.labels
            group = np.nonzero(labels == i)[0]
            u = off[group] / lengths[i]
            H[np.ix_(group, group)] += (
                terms.group / lengths[i] * (np.eye(len(group)) - np.outer(u, u))
            )
    return H
