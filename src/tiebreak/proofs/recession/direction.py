"""Checks whether a level decreases forever along a direction, from every feasible point.

The status "unbounded" relies on this check, however the direction was found: it trusts no method
and no solver. The check treats each row separately and bounds the rounding errors of that row's
terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tiebreak.levels import Levels
from tiebreak.linalg import DENSE_LIMIT, EPS, TOL, Array, Host, decide_rank, rounding_unit, spectra
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.host_rows import HostRows, rounded_sums
from tiebreak.problem import Problem
from tiebreak.proofs.recession.level import RecessionCone, RecessionLevel


def is_direction_of_descent(problem: Problem | Levels, level: int, direction: Array) -> bool:
    """Does a level have no minimiser, because it decreases along the direction from every point?

    Args:
        problem: the problem as given.
        level: the index of the level; in a `Problem`, 0 is g and 1 is f.
        direction: its length does not matter, and it may be rounded if an exact direction is
            nearby. The direction must be a recession direction of Z (a bounded set has none) along
            which no earlier level rises. Far out, the level's own slope must be negative, or tend
            to 0 from below because a loss such as log(1 + exp(-t)) keeps decreasing.
    """
    return settled_direction(problem, level, direction) is not None


def settled_direction(problem: Problem | Levels, level: int, direction: Array) -> Host | None:
    """A proved direction of descent near the one that a solver found, or None."""
    return direction_near(level_of(problem, level, len(direction)), host(direction))


def direction_near(level: RecessionLevel | None, d: Host) -> Host | None:
    """A direction near d along which the level provably decreases; None without a proof."""
    if level is None or not (d.any() and np.isfinite(d).all()):
        return None
    tried = (proved_direction(level, some) for some in as_meant(level, d))
    return next((some / norm(some) for some in tried if some is not None), None)


def level_of(problem: Problem | Levels, level: int, n: int) -> RecessionLevel | None:
    """A level restricted to the minimisers of earlier levels; None if a part has no description."""
    pairs = problem.pairs() if isinstance(problem, Levels) else (problem,)
    objectives = [pairs[0].lower, *(pair.upper for pair in pairs)][: level + 1]
    parts = pairs[max(level - 1, 0)].domain.parts
    directions = [ways for part in parts if (ways := part.recession(n)) is not None]
    cone = RecessionCone(directions, n)
    found = [known for h in objectives if (known := RecessionLevel.of(h, cone)) is not None]
    is_known = len(directions) == len(parts) and len(found) == len(objectives)
    return found[-1].after(found[:-1]) if is_known else None


def as_meant(level: RecessionLevel, d: Host) -> Iterator[Host]:
    """Directions that d may approximate: one of whole numbers, one with zero products, and d.

    Small entries need not be rounding errors, because variables may have different units.
    """
    given, d = d, d / float(np.max(np.abs(d)))
    d = np.where(np.abs(d) <= TOL.solver, 0.0, d)
    # We try directions with small whole numbers, because their products are exact.
    for most in range(1, 13):
        whole = np.round(most * d)
        if np.all(np.abs(whole - most * d) <= TOL.solver * most):
            yield whole
            break
    moves, near, c = d != 0.0, [], level.linear.c
    for some in (*level.all_rows, level.cone.rows, *([HostRows(c[None])] if c.any() else [])):
        is_near = np.abs(some.along(d).product) <= TOL.solver * some.sizes * norm(d)
        near.append(some.some(is_near)[:, moves])
    E = np.vstack(near)
    E = E[np.any(E != 0.0, axis=1)]
    if len(E) and E.size <= DENSE_LIMIT:
        E = E / np.sqrt(np.sum(E * E, axis=1))[:, None]
        for _ in range(2):
            d[moves] -= np.linalg.lstsq(E, E @ d[moves], rcond=TOL.touching)[0]
    yield d
    yield given


def proved_direction(level: RecessionLevel, d: Host) -> Host | None:
    """Return d, or its part in the cone, if this level is proved to decrease along it.

    Products that are 0 up to rounding are taken as 0 if all of them vanish at some d' near d: see
    `_distance_to_zeros`. All other products must keep their signs within that distance.
    """
    d = level.cone.nearest(d)
    top = float(np.max(np.abs(d), initial=0.0))
    if not 0.0 < top < math.inf:
        return None
    if np.any(d != np.floor(d)):
        d = np.ldexp(d, -math.frexp(top)[1])  # without rounding
    return d if _Products(level, d).prove_a_fall() else None


class _Products:
    """The products of a direction with all rows of a level, and conclusions from them."""

    def __init__(self, level: RecessionLevel, d: Host) -> None:
        self._level, self._d = level, d
        self._fixed = [rows.along(d) for rows in level.fixed]
        self._losses = [loss.rows.along(d) for loss in level.losses]
        self._cone = level.cone.rows.along(d)
        self._linear = HostRows(level.linear.c[None]).along(d)
        self._steepest = level.linear.size * norm(d)
        # Is the linear term 0 along d up to rounding?
        self._is_flat = abs(self._linear.product[0]) <= TOL.touching * self._steepest

    def prove_a_fall(self) -> bool:
        """Does the level decrease along d, or along some d' that rounding cannot tell from d?"""
        reach = self._distance_to_zeros()
        if not (math.isfinite(reach) and self._is_in_cone(reach)):
            return False
        signs = [sign for a in self._losses if (sign := a.signs(reach)) is not None]
        if len(signs) < len(self._losses):
            return False
        hidden = self._level.hidden
        if hidden and (reach > 0.0 or not all(falls(self._d) for falls in hidden)):
            return False
        pairs = zip(signs, self._level.losses, strict=True)
        has_tails = bool(hidden) or any(np.any(sign) for sign, loss in pairs if loss.tail)
        if self._is_flat:
            return has_tails and all(np.all(sign >= 0.0) for sign in signs)
        slope, error = self._slope(reach)
        is_zero = slope == error == 0.0 and has_tails
        return is_zero or slope + error < -TOL.touching * self._steepest

    def _is_in_cone(self, reach: float) -> bool:
        """Is every vector with the zeros of d, and within ``reach`` of d, a direction of Z?"""
        d, cone = np.abs(self._d), self._level.cone
        bounded = (cone.low == 0.0) | (cone.high == 0.0)
        signs = self._cone.signs(reach)
        is_inside = signs is not None and not np.any(signs > 0.0)
        is_inside = is_inside and cone.is_inside_curves(self._d, reach)
        return is_inside and not np.any(bounded & (d != 0.0) & (d <= reach))

    def _slope(self, reach: float) -> tuple[float, float]:
        """The slope of the level far along d, and a bound on its error within ``reach``."""
        linear = self._level.linear
        weights, products = [np.ones(1)], [self._linear.product]
        error = float(self._linear.error[0]) + reach * linear.size
        error += 0.0 if linear.is_exact else 4.0 * EPS * self._steepest
        for loss, a in zip(self._level.losses, self._losses, strict=True):
            down = (a.product < 0.0) & ~(a.is_near & loss.is_steep)
            some = loss.slopes[down]
            if np.isinf(some).any():
                return math.inf, 0.0
            weights.append(some)
            products.append(-a.product[down])
            error += float(some @ (a.error[down] + reach * loss.rows.sizes[down]))
        each, terms = np.concatenate(weights), np.concatenate(products)
        sums, errors = rounded_sums(each, terms, np.zeros(len(each), dtype=int), 1)
        return float(sums[0]), error + float(errors[0])

    def _distance_to_zeros(self) -> float:
        """A bound on |d' - d| for some d' with all the intended zeros; inf if no bound is known.

        If E consists of the rows for these zeros and has a confirmed rank r, the bound is |E
        d|/sigma_r. Zero entries of d stay 0.
        """
        d, length, linear = self._d, norm(self._d), self._linear
        if any(
            np.any(np.abs(a.product) > TOL.solver * (a.rows.sizes * length)) for a in self._fixed
        ):
            return math.inf
        is_zeroed = linear.is_open & self._is_flat
        term = self._level.linear
        if self._is_flat and not term.is_exact and term.size_along(d) > 0.0:
            return math.inf  # the rounded terms may add up to 0, although the terms do not
        is_moved = any(a.is_open.any() for a in self._fixed) or is_zeroed.any()
        if not (is_moved or any(a.is_near.any() for a in (*self._losses, self._cone))):
            return 0.0
        # d' is not d, so products that are exactly 0 at d have to be kept, too.
        zeros = [(a, np.ones(len(a.product), dtype=bool)) for a in self._fixed]
        zeros += [(a, a.is_near | (a.product == 0.0)) for a in (*self._losses, self._cone)]
        zeros += [(linear, is_zeroed | (self._is_flat & (linear.product == 0.0)))]
        some = [(a.rows, which) for a, which in zeros if which.any()]
        moves = d != 0.0
        if sum(int(which.sum()) for _, which in some) * int(moves.sum()) > DENSE_LIMIT // 4:
            return math.inf
        none = np.zeros((0, int(moves.sum())))
        E = np.vstack([none, *(rows.some(which)[:, moves] for rows, which in some)])
        E = np.unique(E, axis=0)
        E = E[np.any(E != 0.0, axis=1)]
        E = np.ldexp(E, -np.frexp(np.max(np.abs(E), axis=1, initial=0.0))[1][:, None])  # exactly
        return _distance_to_kernel(E, d[moves]) if len(E) else 0.0


def _distance_to_kernel(E: Host, d: Host) -> float:
    """A bound on the distance from d to {d : E d = 0}; inf if the rank of E is not certain."""
    found = decide_rank(E)
    r = found.low
    if not found.is_determined or r == E.shape[1] or (r < len(E) and spectra.exact_rank(E) != r):
        return math.inf
    E, d = found.row_units[:, None] * E * found.units, d / found.units
    unit = rounding_unit(EPS, *E.shape)
    sigma = float(found.sigma[r - 1]) - unit * norm(E)
    off = norm(E @ d) + unit * norm(E) * norm(d)
    return float(np.max(found.units)) * off / sigma if sigma > 0.0 else math.inf
