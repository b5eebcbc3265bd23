"""Directions along which a level falls without end, on a polyhedron or on a slice of it."""

from __future__ import annotations

import numpy as np

from tiebreak.exact.active_set import PolyhedronSlice
from tiebreak.exact.constants import TOUCHING
from tiebreak.exact.linear_programs import (
    NO_ZERO,
    Recession,
    linear_recession,
    logistic_recession,
)
from tiebreak.exact.scaled_problem import ScaledProblem
from tiebreak.functions.parts.huber_part import HuberPart
from tiebreak.functions.parts.loss_parts import LossPart
from tiebreak.functions.parts.parts import Parts
from tiebreak.functions.parts.quadratic_parts import LeastSquaresPart, LinearPart
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm
from tiebreak.linalg.rank import directions, null_basis

NO_SLOPE = 1e-12  # relative: smaller slopes are rounding errors; between this and TOUCHING, perhaps
HARDLY_FALLS = "whether {} is not determined: it hardly falls, if at all"


def no_lower_minimum(p: ScaledProblem) -> Recession:
    """A direction of Z along which g falls without end, None where it has a minimiser."""
    if p.is_bounded or p.g.only(LeastSquaresPart):
        return Recession(None)
    Z, g = p.polyhedron(), p.g
    N = null_basis(np.vstack([*_fixed_rows(g), Z.equal]), p.epsilon)
    found = _recession(g, PolyhedronSlice(Z.rows, Z.offset, N))
    if found.direction is None:
        return found
    return Recession(unit(p.units * found.direction))


def _fixed_rows(h: Parts) -> list[Host]:
    """Rows whose products with a direction must be 0 if h is not to grow along it."""
    others = LossPart | LinearPart | HuberPart
    curved = [part.rows for part in h.parts if not isinstance(part, others)]
    return [*curved, *(part.far_out(bool(h.c.any())).fixed for part in h.losses)]


def _recession(h: Parts, where: PolyhedronSlice) -> Recession:
    """A direction of the slice along which h falls without end; it does not see `_fixed_rows`."""
    N, losses = where.N, [part.far_out(bool(h.c.any())) for part in h.losses]
    losses += [part.far_out() for part in h.huber]
    slopes = [h.c, *(loss.slope for loss in losses)]
    c = N.T @ np.sum(slopes, axis=0)
    is_slope, is_clear = _is_slope(norm(c), sum(map(norm, slopes)))
    c = c if is_slope else 0.0 * c
    margins, weights, least = np.zeros((0, N.shape[1])), np.zeros(0), np.zeros(0)
    for loss in losses:
        along = loss.margins @ N
        lengths = np.sqrt(np.sum(along * along, axis=1))
        moves = lengths > TOUCHING * np.sqrt(np.sum(loss.margins * loss.margins, axis=1))
        margins = np.vstack([margins, along[moves] / lengths[moves, None]])
        weights = np.append(weights, loss.weights[moves] * lengths[moves])
        lower = loss.weights if loss.least is None else loss.least
        least = np.append(least, lower[moves] * lengths[moves])
    B = where.B
    found = logistic_recession(c, B, margins, weights) if len(margins) else linear_recession(c, B)
    if found.direction is None and c.any() and np.any(least < weights):
        perhaps = logistic_recession(c, B, margins, least)
        found = Recession(None, perhaps.is_certain and perhaps.direction is None)
    if found.direction is None:
        return Recession(None, found.is_certain and is_clear)
    if h.huber and c.any():  # whose slope far out is reached: where that is 0 there is a minimiser
        v = found.direction / norm(found.direction)
        far = float(c @ v + weights @ np.maximum(-(margins @ v), 0.0))
        if not far < -NO_ZERO * (norm(c) + norm(weights)):
            return Recession(None, False)
    return Recession(N @ found.direction)


def no_upper_minimum(f: Parts, where: PolyhedronSlice, x: Host) -> Recession:
    """A direction of the slice, one of whose points is x, along which f falls without end."""
    if f.has_norm:  # which grows faster than anything falls
        return Recession(None)
    R = f.curvature(x) if f.is_quadratic else np.vstack([np.zeros((0, f.n)), *_fixed_rows(f)])
    flat = where.N @ directions(R, where.N).unseen
    along = PolyhedronSlice(where.rows, where.offset, flat)
    if not f.is_quadratic:
        return _recession(f, along)
    slope = f.slope(x)
    c = flat.T @ slope.vector
    is_slope, is_clear = _is_slope(norm(c), slope.size)
    if not is_slope:
        return Recession(None, is_clear)
    found = linear_recession(c, along.B)
    return found if found.direction is None else Recession(flat @ found.direction)


def _is_slope(slope: float, size: float) -> tuple[bool, bool]:
    """Is it a slope, relative to its terms, and is that clear?"""
    return slope > TOUCHING * size, not NO_SLOPE * size < slope <= TOUCHING * size


def unit(d: Host) -> Host:
    """d with length 1."""
    return d / norm(d)
