"""The advice of a result in the words of an estimator, which has other parameters than `solve`."""

from __future__ import annotations

from dataclasses import replace

import tiebreak as tb
from tiebreak.driver.advice import Remedies

FOR_ESTIMATORS = Remedies(
    bound="alpha, or another prefer, gives",
    narrower="",
    one_sided="relax rtol",
    below_rounding="relax rtol",
    has_method=False,
)


def levels_for_estimators(result: tb.LevelsResult) -> tb.LevelsResult:
    """The same result, which says that its proofs rely on the size of the coefficients."""
    levels = {
        name: replace(level, why="coefficients") if level.why == "size" else level
        for name, level in result.levels.items()
    }
    return replace(result, levels=levels)
