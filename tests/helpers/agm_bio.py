"""The variants of AGM-BiO that a planted problem is run with."""

from __future__ import annotations

from planted.smooth import Planted

import tiebreak as tb


def variants(p: Planted) -> tb.AGMBiO:
    """A method for this seed: all kinds of levels, several gammas."""
    levels = (tb.OnlineLevels(), tb.FixedLevels(7), tb.GivenLevels(p.g_star + 0.1 * p.g_scale))
    gammas = (None, 1.0, 0.1, 1e-3)
    return tb.AGMBiO(gamma=gammas[p.seed % 4], levels=levels[p.seed // 4 % 3], horizon=50)
