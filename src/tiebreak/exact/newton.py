"""Newton's method over a slice of a ball or polyhedron, run until only rounding error is left.

A slice is {x0 + N v} ∩ Z, with N an orthonormal basis of its directions. Each slice object provides
the ``step`` d that minimises a quadratic model over the slice, and the ``normal`` that balances a
slope, with the residual of the optimality conditions. Slopes are computed in twice the precision,
so Newton's method also acts as iterative refinement.
"""

from __future__ import annotations

import math

import numpy as np

from tiebreak.exact.active_set import PolyhedronSlice
from tiebreak.exact.ball import BallSlice
from tiebreak.exact.faces import Face
from tiebreak.functions import LinearPart, Parts
from tiebreak.linalg import EPS, TOL, Host, deadline
from tiebreak.linalg.host import norm

SetSlice = BallSlice | PolyhedronSlice


def minimise(h: Parts, where: SetSlice, x: Host, basis: Host | None = None) -> tuple[Host, bool]:
    """Minimise h over the slice from x; also return whether the method converged.

    We use Newton's method until only rounding error is left. If the margins of logistic losses grow
    until x reaches the boundary of the slice, they grow by only about 1 per step. In this case, we
    start from margins of size 1 and double them repeatedly, because the directions of the
    minimisers hardly change. If Huber losses have a small delta, rows pass their kinks at every
    step. In this case, we follow a path of minimisers: we start with a large delta and divide it by
    4 repeatedly.
    """
    start = x
    x, settled = _newton(h, where, x, basis)
    beyond = max((part.beyond(start) for part in h.kinked), default=0.0)
    if not settled and 1.0 < beyond < 2.0**50:
        x = start
        for quarters in range(math.ceil(0.5 * math.log2(beyond)), -1, -1):
            x, settled = _newton(h.with_kinks(4.0**quarters), where, x, basis)
    # the largest margins
    steepest = max((part.norm * where.extent for part in h.losses), default=0.0)
    if settled or not 1.0 < steepest < 2.0**50:
        return x, settled
    x = start
    for halvings in range(math.ceil(math.log2(steepest)), -1, -1):
        x, settled = _newton(h.with_margins(2.0**-halvings), where, x, basis)
    return x, settled


def refine(h: Parts, faces: PolyhedronSlice, equal: Host, x: Host, basis: Host) -> Host:
    """Refine the minimiser x on its face, with the terms of the multipliers added to the slope.

    Otherwise, rounding errors in terms of size 1 would hide the rest of the slope, which would cost
    digits of x in directions where h has little curvature.
    """
    h = h.magnified(x)
    slope = h.slope(x).vector
    weights, _ = faces.balance(slope, x)
    rows = np.vstack([faces.rows[weights > 0.0], equal])
    if not len(rows):
        return x
    weights, _ = Face(rows).balance(slope)
    face = PolyhedronSlice(faces.rows, faces.offset, Face(rows).T)
    balanced = Parts(h.n, (*h.parts, LinearPart(1.0, rows, weights)))
    better, settled = _newton(h, face, x, basis, balanced)
    return better if settled else x


def _newton(
    h: Parts,
    where: SetSlice,
    x: Host,
    basis: Host | None = None,
    balanced: Parts | None = None,
) -> tuple[Host, bool]:
    """Minimise h over the slice from its point x; also return whether the method converged.

    Each step goes towards the minimiser of the quadratic model over the slice itself, but no
    farther than to the minimum of h on the way. Far from the minimiser, where losses with kinks
    have hardly any curvature, the model is a quadratic upper bound on these losses. Steps that no
    longer get shorter and hardly change the margins are rounding errors.

    Args:
        basis: the directions in which h is known to vary, as columns; it excludes the rounding
            errors of flat directions.
        balanced: h plus a linear function that is constant on the slice and cancels most of its
            slope, so that the rest is known to more digits.
    """
    before, stalled, far = math.inf, 0, bool(h.kinked) and balanced is None
    is_smooth = not (h.is_quadratic or h.kinked)
    # Smaller entries of x are set to 0, which refinement approaches but never reaches.
    least = max(2.0**-200 * norm(x), 2.0**-1022)
    R: Host | None = None
    rows = 0
    for _ in range(TOL.newton_steps):
        deadline.check()
        near = h if far or balanced is not None else h.magnified(x)
        slope = (balanced or near).slope(x)
        if R is None or not h.is_quadratic:
            R = near.curvature(x, above=far)
            rows = len(R)
            if not where.is_factorised:
                R = _small_root(R, basis, keeps_digits=h.is_quadratic)
        if is_smooth and not h.largest_change(slope.vector) <= 2.0**200 * norm(R) ** 2:
            break  # margins would grow without bound: the losses are practically linear
        if basis is not None and balanced is None:
            slope = slope._replace(vector=basis @ (basis.T @ slope.vector))
        d = where.step(R, slope, x, rows)
        length, change = norm(d), h.largest_change(d)
        if far:
            far = change > 1.0
            x = x + _line_search(h, x, d) * d
            continue
        x = x + (d if h.is_quadratic else _line_search(near, x, d) * d)
        x[np.abs(x) < least] = 0.0
        stalls = length > 0.5 * before and length <= TOL.small_change * norm(x)
        if change <= TOL.small_change and (stalls or length <= 2.0 * EPS * norm(x)):
            return x, True
        stalled += length > 0.5 * before
        # After three refinements that do not halve the step, only rounding is left.
        if h.is_quadratic and stalled >= 3:
            return x, True
        before = length
    near = h if balanced is not None else h.magnified(x)
    slope = (balanced or near).slope(x)
    return x, h.is_quadratic or where.normal(slope, x)[1] <= 8.0 * slope.error < math.inf


def _small_root(R: Host, basis: Host | None, keeps_digits: bool) -> Host:
    """Return a small matrix with the same R'R on the span of the basis, and 0 elsewhere.

    The small matrix comes from R'R if that has enough digits for a Newton step. Otherwise, or if
    one R serves all steps (``keeps_digits``), it comes from a factorisation of R.
    """
    m, n = R.shape
    if m < TOL.tall * n:
        return R if basis is None else (R @ basis) @ basis.T
    V = np.eye(n) if basis is None else basis
    if not keeps_digits:
        deadline.check(0.1 * deadline.svd_work(m, n))
        values, vectors = np.linalg.eigh(V.T @ (R.T @ R) @ V)
        if len(values) and values[0] > TOL.touching * values[-1]:
            return np.asarray(np.sqrt(values)[:, None] * (V @ vectors).T)
    deadline.check(0.5 * deadline.svd_work(m, n))
    _, sigma, vt = np.linalg.svd((np.linalg.qr(R, mode="r") @ V) @ V.T, full_matrices=False)
    kept = sigma > m * EPS * norm(R)
    return np.asarray(sigma[kept, None] * vt[kept])


def _line_search(h: Parts, x: Host, d: Host) -> float:
    """Return how far to go along d: to x + d, or to the minimum along d if that is nearer.

    We use the Illinois method: secant steps that halve the derivative at an end point that stays.
    """
    derivative = h.along(x, d)
    low, high, at_high = 0.0, 1.0, derivative(1.0)
    if at_high <= 0.0:
        return 1.0
    at_low = derivative(0.0)
    while high - low > 1e-2 * low and high > 2.0**-200 and at_low < 0.0:
        share = max(-at_low / (at_high - at_low), 1e-3)
        middle = low + share * (high - low)
        slope = derivative(middle)
        if slope < 0.0:
            low, at_low, at_high = middle, slope, 0.5 * at_high
        else:
            high, at_high, at_low = middle, slope, 0.5 * at_low
    return high
