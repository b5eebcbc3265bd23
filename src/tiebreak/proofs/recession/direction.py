"""Is this a direction along which a level decreases forever, from every feasible point?

The status "unbounded" relies on this, however the direction was found: no method or solver is
trusted here. Everything is decided row by row, with the rounding errors of the row's own terms.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tiebreak.levels import Levels
from tiebreak.linalg.arrays import Array, Host
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.host_rows import HostRows
from tiebreak.linalg.sizes import DENSE_LIMIT
from tiebreak.linalg.tolerances import TOL
from tiebreak.problem import Problem
from tiebreak.proofs.recession.level import RecessionCone, RecessionLevel
from tiebreak.proofs.recession.proof import proved_direction
from tiebreak.sets import described


def is_direction_of_descent(problem: Problem | Levels, level: int, direction: Array) -> bool:
    """Does a level have no minimiser, because it decreases along the direction from every point?

    Args:
        problem: the problem as given.
        level: its index, 0 for the first: for a `Problem`, 0 is g and 1 is f.
        direction: of any length; it may be rounded, if an exact one is near. It must be a direction
            of Z (so never on a bounded set) along which no earlier level rises; the level itself
            has a negative slope far out, or a slope of 0 that it never reaches, because a loss such
            as log(1 + exp(-t)) changes.
    """
    return settled_direction(problem, level, direction) is not None


def settled_direction(problem: Problem | Levels, level: int, direction: Array) -> Host | None:
    """A direction of descent near the one that a solver found; None if there is none."""
    return direction_near(level_of(problem, level, len(direction)), host(direction))


def direction_near(level: RecessionLevel | None, d: Host) -> Host | None:
    """A direction near d along which the level decreases; None if there is none, or no level."""
    if level is None or not (d.any() and np.isfinite(d).all()):
        return None
    tried = (proved_direction(level, some) for some in as_meant(level, d))
    return next((some / norm(some) for some in tried if some is not None), None)


def level_of(problem: Problem | Levels, level: int, n: int) -> RecessionLevel | None:
    """A level on the minimisers of those before it; None if a part has no description."""
    pairs = problem.pairs() if isinstance(problem, Levels) else (problem,)
    objectives = [pairs[0].lower, *(pair.upper for pair in pairs)][: level + 1]
    parts = described(pairs[max(level - 1, 0)].domain).parts
    cone = RecessionCone([part.recession(n) for part in parts], n)
    found = [known for h in objectives if (known := RecessionLevel.of(h, cone)) is not None]
    is_known = cone.is_known and len(found) == len(objectives)
    return found[-1].after(found[:-1]) if is_known else None


def as_meant(level: RecessionLevel, d: Host) -> Iterator[Host]:
    """Directions that a solver's may approximate: whole numbers, zero products, or itself.

    Small entries need not be rounding errors, because variables may have different units.
    """
    given, d = d, d / float(np.max(np.abs(d)))
    d = np.where(np.abs(d) <= TOL.solver, 0.0, d)
    # Directions with small whole numbers are tried: their products are exact.
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
