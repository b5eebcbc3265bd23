"""Is this a direction along which a level falls for ever, from every point that is left to it?

The points that earlier levels leave are { x in Z : level_j(x) <= v_j }, with a slack or without, and
such a set has the directions of Z along which no level_j has a positive slope far out. So one
question is asked of every level: its slope far out along d. Everything is decided row by row, to the
rounding of the row's own terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tiebreak.levels import Levels
from tiebreak.linalg.arrays import Array, Host
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.matrices.base import DENSE_LIMIT
from tiebreak.problem import Problem
from tiebreak.proofs.recession.level import HostRows, RecessionCone, RecessionLevel

SLIGHT = 1e-10  # relative: slopes this small are rounding errors of what they were computed from
MEANT = 1e-7  # relative: where a linear program means 0
LARGEST = 12  # directions with whole numbers up to this are tried: their products are exact


def is_direction_of_descent(problem: Problem | Levels, level: int, direction: Array) -> bool:
    """Does a level have no minimiser, because it falls along the direction from everywhere?

    Args:
        problem: the problem as it was given.
        level: its place in the order, 0 for the first: for a `Problem` 0 is g, 1 is f.
        direction: of any length. It must be a direction of Z (so never on a bounded set) along
            which no earlier level rises; the level itself has a negative slope far out, or a slope
            of 0 that it never reaches, because a loss such as log(1 + exp(-t)) changes.
    """
    d = host(direction)
    known = _known(problem, level, len(d))
    return known is not None and _falls(known, d)


def settled_direction(problem: Problem | Levels, level: int, direction: Array) -> Host | None:
    """A direction of descent next to what a solver found of one; None where there is none."""
    d = host(direction)
    known = _known(problem, level, len(d))
    if known is None or not (d.any() and np.isfinite(d).all()):
        return None
    tried = (known[-1].cone.nearest(some) for some in (d, *as_meant(known, d)))
    return next((some / norm(some) for some in tried if _falls(known, some)), None)


def _known(problem: Problem | Levels, level: int, n: int) -> list[RecessionLevel] | None:
    """The level and those before it; None where a part of them is not known here."""
    pairs = problem.pairs() if isinstance(problem, Levels) else (problem,)
    objectives = [pairs[0].lower, *(pair.upper for pair in pairs)][: level + 1]
    cone = RecessionCone(pairs[max(level - 1, 0)].domain, n)
    found = [RecessionLevel.of(h, cone) for h in objectives]
    return [h for h in found if h is not None] if cone.is_known and None not in found else None


def _falls(levels: Sequence[RecessionLevel], d: Host) -> bool:
    """Does the last of these levels fall along d, where none before it rises?"""
    if not (d.any() and np.isfinite(d).all() and levels[-1].cone.admits(d)):
        return False
    *before, last = (level.far_slope(d) for level in levels)
    return last.is_fall and all(slope.value <= slope.error for slope in before)


def as_meant(levels: Sequence[RecessionLevel], d: Host) -> Iterator[Host]:
    """A solver's direction as it may be meant: whole numbers, or with products that are 0."""
    d = d / float(np.max(np.abs(d)))
    d = np.where(np.abs(d) <= MEANT, 0.0, d)
    for most in range(1, LARGEST + 1):
        whole = np.round(most * d)
        if np.all(np.abs(whole - most * d) <= MEANT * most):
            yield whole
            break
    linear = [HostRows(level.linear.c[None]) for level in levels if level.linear.c.any()]
    rows = [some for level in levels for some in level.all_rows]
    moves, near = d != 0.0, []
    for some in (*rows, levels[-1].cone.rows, *linear):
        is_near = np.abs(some.along(d).product) <= MEANT * some.sizes * norm(d)
        near.append(some.some(is_near)[:, moves])
    E = np.vstack(near)
    E = E[np.any(E != 0.0, axis=1)]
    if len(E) and E.size <= DENSE_LIMIT:
        E = E / np.sqrt(np.sum(E * E, axis=1))[:, None]
        for _ in range(2):
            d[moves] -= np.linalg.lstsq(E, E @ d[moves], rcond=SLIGHT)[0]
    yield d
