"""Are equations independent, and how far is a point that misses them by rounding from solutions?

A point w that misses the equations E w = e by r is near a solution w + d, with E d = r and |d| <=
|r| / sigma, where sigma is the least singular value of E that is not 0. If sigma is a rounding
error, the solution may be anywhere: [1, 1] and [1, 1 + 2^-50] as stored determine both variables,
but as real numbers they may be the same row.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.cones import Blocks
from tiebreak.conic.faces import ConicSet
from tiebreak.conic.stage import dense
from tiebreak.linalg import EPS, Host, decide_rank
from tiebreak.linalg.conic_form import row_lengths, scaled_rows
from tiebreak.linalg.least_eigenvalue import least_eigenvalue
from tiebreak.linalg.spectra import exact_rank, rounding_level

MOST_WORK = 2**30  # products that take a few seconds, see `exact_rank`
DOUBT = (
    "rounding decides how many of the equations are independent: {} as they are stored, but only "
    "{} if their numbers are rounded"
)


class Independence(NamedTuple):
    """How far the equations of a set bind its points.

    A point that misses the equations, divided by their lengths, by r is at most ``stretch`` * |r|
    away from a solution; ``stretch`` is infinite if this is unknown.
    """

    stretch: float
    doubt: str = ""


def independence(constraints: ConicSet) -> Independence:
    """Decide which equations are independent, exactly where floating point cannot tell."""
    zero = Blocks.of(constraints.cones).zero
    rows, right = constraints.rows[zero], constraints.offset[zero]
    m, n = rows.shape
    units = scaled_rows(rows, 1.0 / lengths_of(rows))
    if not isinstance(rows, np.ndarray) and (least := least_eigenvalue(units.T.tocsr())) > 0.0:
        return Independence(1.0 / math.sqrt(least))
    if m * n * min(m, n) > MOST_WORK:
        return Independence(math.inf)
    E, units = dense(rows), dense(units)
    low = decide_rank(units).low
    if low < m:
        whole = exact_rank(E)
        if whole is None or whole > low:
            return Independence(math.inf, "" if whole is None else DOUBT.format(whole, low))
        if exact_rank(np.column_stack([E, right])) != whole:
            return Independence(math.inf)  # contradictory as stored, so no solution is near
    if low == 0:
        return Independence(0.0)
    sigma = np.linalg.svd(units, compute_uv=False)
    least = float(sigma[low - 1]) - 2.0 * rounding_level(units.shape, float(sigma[0]), EPS)
    return Independence(1.0 / least if least > 0.0 else math.inf)


def lengths_of(rows: Any) -> Host:
    """Return the lengths of the rows, and 1 for rows of zeros."""
    lengths = row_lengths(rows)
    return np.where(lengths > 0.0, lengths, 1.0)
