"""How a function behaves far along a direction, which decides whether a minimum exists."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tiebreak.linalg import EPS, Host, Matrix, arrays
from tiebreak.linalg.host import host
from tiebreak.linalg.host_rows import HostRows


class LossRows(NamedTuple):
    """Losses whose slopes far from 0, along d, are weights_i max(-<m_i, d>, 0) for rows m_i.

    Losses with a tail, weights_i log(1 + exp(-<m_i, x>)) or weights_i exp(-<m_i, x>), decrease
    forever if <m_i, d> > 0. A multinomial loss is represented by the logistic losses of its
    margins, because it rises no faster than their sum; if that sum has slope 0 along a direction
    and a margin changes, the multinomial loss decreases forever too. Absolute values and Huber
    losses have no tail; each of them is represented by two rows, one per sign. Losses that grow
    faster than linearly have infinite weights, unless their tail is "exp".
    """

    weights: Host
    rows: HostRows
    tail: Literal["log", "exp", ""] = "log"

    @property
    def is_steep(self) -> bool:
        """Do the losses grow faster than linearly?"""
        return self.tail == "exp" or bool(np.isinf(self.weights).any())

    @property
    def slopes(self) -> Host:
        """For each row, the slope far from 0 per unit of -<m_i, d> > 0."""
        return np.full(len(self.weights), math.inf) if self.tail == "exp" else self.weights

    def curvature(self, x: Host) -> Host:
        """Upper bounds on the second derivatives with respect to the products <m_i, x>."""
        margins = self.rows.entries @ x
        if self.tail == "exp":
            return np.asarray(self.weights * np.exp(np.clip(-margins, -700.0, 300.0)))
        bends = 1.0 / (2.0 + 2.0 * np.cosh(np.clip(margins, -700.0, 700.0)))
        return np.asarray(self.weights * bends if self.tail else 0.0 * margins)


class FarRows(NamedTuple):
    """The behaviour of a function far from 0 along a direction d."""

    # Rows whose products with d must be 0: otherwise the function grows quadratically.
    fixed: Sequence[HostRows] = ()
    losses: Sequence[LossRows] = ()
    linear: Host | None = None  # c of a term <c, x>, without the function's weight
    # If the rows are not available: says whether every row's loss is sure to decrease along d.
    hidden: Callable[[Host], bool] | None = None


def rising(up: Host, down: Host, rows: HostRows) -> list[LossRows]:
    """How the sum of up_i max(<row_i, x>, 0) + down_i max(-<row_i, x>, 0) grows far from 0."""
    sides = ((down, 1.0), (up, -1.0))
    return [LossRows(w[w > 0.0], rows.only(w > 0.0, sign), "") for w, sign in sides if w.any()]


def are_clear(matrix: Matrix, margins: Callable[[Host], Host], d: Host) -> bool:
    """Are all margins, which are functions of the products A d, certainly positive?

    Rounding errors are estimated from the largest product, because the individual terms of the
    products are not available.
    """
    products = host(matrix.forward(arrays.like(d, matrix.prototype))[0])
    # A margin that exceeds 2^10 times the estimated rounding error is certainly positive.
    least = 2.0**10 * (len(d) + 4) * EPS * float(np.max(np.abs(products)))
    return bool(np.all(margins(products) > least))
