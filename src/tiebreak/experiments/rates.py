"""How fast an error falls: the paper's table 1, and slopes of log-log plots to compare with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiebreak.experiments.scenes import ROUNDING, Axis, Scene, UnknownHere

BINS_PER_DECADE = 8  # each wide enough to hold a top of an oscillating run
FEWEST = 3  # points that make a slope
DECADES = 2.0  # of iterations, over which a rate is measured
FITTED = 0.05  # how far a fitted slope may stay behind the published rate
LOGARITHM = 0.15  # the slope of a factor log k over the same decades, 1/ln(1000)
# How hard the slope of f at x* pulls away from the minimisers of g, and how such names end.
PULLS = {1.0: "", 0.1: ", weak pull", 0.0: ", no pull"}


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


class PublishedRate(NamedTuple):
    """A row of the paper's table 1, as rates: errors fall like (steps)^-rate."""

    label: str
    quote: str
    upper: float
    lower: float
    axis: Axis = "iteration"

    @property
    def allowed(self) -> float:
        """How far a slope may stay behind: Õ hides a logarithm."""
        return FITTED + (LOGARITHM if "Õ" in self.quote else 0.0)


RATES = (
    PublishedRate("a-IRG", "O(1/eps_f^4), O(1/eps_g^4)", 0.25, 0.25),
    PublishedRate(
        "Bi-SG", "O(1/eps_f^(1/(1-alpha))), O(1/eps_g^(1/alpha)); alpha = 3/4", 0.25, 0.75
    ),
    PublishedRate("SEA", "O(1/eps_f²), O(1/eps_g²)", 0.5, 0.5),
    PublishedRate("CG-BiO", "O(1/eps_f), O(1/eps_g)", 1.0, 1.0),
    PublishedRate("R-APM", "O(1/eps_f), O(1/eps_g)", 1.0, 1.0),
    PublishedRate("AGM-BiO", "O(1/eps_f^0.5), O(1/eps_g)", 2.0, 1.0),
    PublishedRate("R-APM, order 1", "O(1/eps_f^0.5), O(1/eps_g^0.5)", 2.0, 2.0),
    PublishedRate("Bisec-BiO", "Õ(max(1/eps_f^0.5, 1/eps_g^0.5))", 2.0, 2.0, "gradients"),
    PublishedRate("AGM-BiO, order 1", "O(1/eps_f^0.5), Õ(1/eps_g^0.5)", 2.0, 2.0),
    PublishedRate("PB-APG, order 2", "O(1/eps_f^(0.5 r)) + O(1/eps_g^0.5); r = 2", 1.0, 2.0),
    PublishedRate(
        "AGM-BiO, order 2",
        "Õ(1/eps_f^((2r-1)/(2r))), Õ(1/eps_g^((2r-1)/(2r))); r = 2", 4 / 3, 4 / 3,
    ),
)  # fmt: skip


def measured_slopes(scene: Scene, row: PublishedRate) -> dict[str, float]:
    """The slopes over the last two decades: (f - f*)+, g - g* and |f - f*|.

    The published rates bound f - f* from above; the last is given for comparison.
    """
    every = scene.runs[0].get(row.label, ())
    rows = sorted((r for r in every if r.iteration > 0), key=lambda r: r[3:5])
    if not rows:
        raise UnknownHere(f"there are no rows of {row.label}")
    k = [getattr(r, row.axis) for r in rows]
    best = scene.facts.upper_optimum
    floor_f = ROUNDING * max(abs(r.upper) for r in every)
    floor_g = ROUNDING * max(abs(r.lower) for r in every)
    return {
        "upper": slope(k, [r.upper - best for r in rows], DECADES, floor_f),
        "lower": slope(k, [r.lower_error for r in rows], DECADES, floor_g),
        "|f - f*|": slope(k, [r.upper_error for r in rows], DECADES, floor_f),
    }
