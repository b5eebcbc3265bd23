"""How a function behaves far out along a direction: what existence of a minimum depends on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from tiebreak.linalg import Host
from tiebreak.linalg.host_rows import HostRows


class LossRows(NamedTuple):
    """Losses that rise like weights_i max(-<m_i, d>, 0) far out along d.

    They fall for ever where <m_i, d> > 0 if they have a tail: weights_i log(1 + exp(-<m_i, x>)) or
    weights_i exp(-<m_i, x>). A multinomial loss rises no faster than the sum of its margins' own
    losses would, and it too falls for ever along a direction in which that sum has slope 0, if a
    margin changes. Without a tail they are |<m_i, x>| and Huber losses, once for each sign.
    """

    weights: Host
    rows: HostRows
    tail: Literal["log", "exp", ""] = "log"

    @property
    def slopes(self) -> Host:
        """What <-m_i, d> > 0 counts in the slope far out."""
        return np.full(len(self.weights), math.inf) if self.tail == "exp" else self.weights

    def curvature(self, x: Host) -> Host:
        """The second derivatives in the products <m_i, x>; at most these."""
        margins = self.rows.entries @ x
        if self.tail == "exp":
            return np.asarray(self.weights * np.exp(np.clip(-margins, -700.0, 300.0)))
        bends = 1.0 / (2.0 + 2.0 * np.cosh(np.clip(margins, -700.0, 700.0)))
        return np.asarray(self.weights * bends if self.tail else 0.0 * margins)


class FarRows(NamedTuple):
    """What a function is far out along d: it grows without end unless the products stay 0."""

    fixed: Sequence[HostRows] = ()  # whose products with d must be 0, or it grows like a square
    losses: Sequence[LossRows] = ()
