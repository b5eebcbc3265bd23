"""Few rows of many, so that the curve through them looks the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Column = np.ndarray[Any, Any]


def kept_rows(columns: Sequence[Column], most: int) -> Column:
    """The indices of about ``most`` rows or fewer, in order; all where there are no more.

    The first, the last, some at even and some at geometric distances (an axis may be logarithmic),
    and in every stretch those where a column is smallest and largest, infinite values included.
    """
    count = len(columns[0]) if columns else 0
    if count <= most:
        return np.arange(count)
    few = max(most // 4, 2)
    chosen = [np.linspace(0, count - 1, few), np.geomspace(1, count, few) - 1.0]
    stretches = max((most - 2 * few) // (2 * len(columns)), 1)
    edges = np.unique(np.linspace(0, count, stretches + 1).astype(int))
    for column in columns:
        # Not a number: neither smallest nor largest.
        low = np.where(np.isnan(column), np.inf, column)
        high = np.where(np.isnan(column), -np.inf, column)
        for start, end in pairwise(edges):
            chosen.append(np.array([start + low[start:end].argmin()]))
            chosen.append(np.array([start + high[start:end].argmax()]))
    return np.unique(np.concatenate(chosen).round().astype(int))
