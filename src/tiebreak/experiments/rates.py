"""How fast an error falls: the slope of a log-log plot, measured so that it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

BINS_PER_DECADE = 8
FEWEST = 3  # points that make a slope


def slope(
    iterations: Sequence[float], errors: Sequence[float], decades: float, floor: float = 0.0
) -> float:
    """The slope of log(error) over log(iteration) in the last ``decades``: -p where error ~ k^-p.

    The fit goes through the *largest* error of each eighth of a decade, so that the dips of an
    oscillating run do not count. Errors of at most ``floor`` (rounding; also negative ones, as
    f - f* has below f*) are zero: a run that reaches zero and stays there is fitted down to its
    first zero bin, and -inf is the slope of one that is there all along. NaN for too few points.

    Args:
        iterations: numbers of iterations, above 0 and rising.
        errors: as many errors; take absolute values yourself where that is meant.
        decades: length of the window that ends at the last iteration.
        floor: the size of rounding in the errors.
    """
    k, e = np.asarray(iterations, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    if k.shape != e.shape or k.ndim != 1 or not k.size or not np.all(k > 0.0):
        raise ValueError("slope: needs as many errors as positive iterations, at least one")
    since_end = np.log10(k[-1] / k)
    bins = np.floor(BINS_PER_DECADE * (decades - since_end) * (1.0 + 1e-12)).astype(int)
    points: list[tuple[float, float]] = []
    for index in np.unique(bins[since_end <= decades * (1.0 + 1e-12)]):
        inside = np.flatnonzero(bins == index)
        worst = inside[np.argmax(e[inside])]
        points.append((math.log10(k[worst]), max(float(e[worst]), floor)))
    if not all(math.isfinite(error) for _, error in points):
        return math.nan
    last = max((i for i, (_, error) in enumerate(points) if error > floor), default=-1)
    if last < 0:
        return -math.inf
    until_zero = points[: last + 2]
    tiny = floor or 1e-300
    if len(until_zero) < FEWEST:
        return -math.inf if len(points) >= FEWEST else math.nan
    x, y = zip(*((at, math.log10(max(error, tiny))) for at, error in until_zero), strict=True)
    return float(np.polyfit(x, y, 1)[0])
