"""How a function behaves far out along a direction, which decides whether a minimum exists."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tiebreak.linalg import EPS, Host, Matrix, arrays
from tiebreak.linalg.host import host
from tiebreak.linalg.host_rows import HostRows


class LossRows(NamedTuple):
    """Losses that rise like weights_i max(-<m_i, d>, 0) far out along d.

    Those with a tail decrease forever if <m_i, d> > 0: weights_i log(1 + exp(-<m_i, x>)) or
    weights_i exp(-<m_i, x>). A multinomial loss rises no faster than the sum of its margins' own
    losses would, and it also decreases forever along a direction in which that sum has slope 0, if
    a margin changes. Without a tail they are |<m_i, x>| and Huber losses, once for each sign.
    Losses that grow faster than any slope have infinite weights, unless their tail is "exp".
    """

    weights: Host
    rows: HostRows
    tail: Literal["log", "exp", ""] = "log"

    @property
    def is_steep(self) -> bool:
        """Do they grow faster than any slope?"""
        return self.tail == "exp" or bool(np.isinf(self.weights).any())

    @property
    def slopes(self) -> Host:
        """The contribution of <-m_i, d> > 0 to the slope far out."""
        return np.full(len(self.weights), math.inf) if self.tail == "exp" else self.weights

    def curvature(self, x: Host) -> Host:
        """Upper bounds on the second derivatives in the products <m_i, x>."""
        margins = self.rows.entries @ x
        if self.tail == "exp":
            return np.asarray(self.weights * np.exp(np.clip(-margins, -700.0, 300.0)))
        bends = 1.0 / (2.0 + 2.0 * np.cosh(np.clip(margins, -700.0, 700.0)))
        return np.asarray(self.weights * bends if self.tail else 0.0 * margins)


class FarRows(NamedTuple):
    """A function far out along d: it grows without bound unless the products stay 0."""

    # rows whose products with d must be 0, or it grows like a square
    fixed: Sequence[HostRows] = ()
    losses: Sequence[LossRows] = ()
    linear: Host | None = None  # c of a term <c, x>, without the function's weight
    # If its rows are not available: does it certainly decrease in every row along d?
    hidden: Callable[[Host], bool] | None = None


def rising(up: Host, down: Host, rows: HostRows) -> list[LossRows]:
    """up_i max(<row_i, x>, 0) + down_i max(-<row_i, x>, 0), far out."""
    sides = ((down, 1.0), (up, -1.0))
    return [LossRows(w[w > 0.0], rows.only(w > 0.0, sign), "") for w, sign in sides if w.any()]


def are_clear(matrix: Matrix, margins: Callable[[Host], Host], d: Host) -> bool:
    """Are all margins certainly positive along d? They come from products with a matrix.

    Rounding errors are estimated from the largest product, because the terms of the others are not
    known.
    """
    products = host(matrix.forward(arrays.like(d, matrix.prototype))[0])
    # A product that is 2^10 times its rounding error is not 0.
    least = 2.0**10 * (len(d) + 4) * EPS * float(np.max(np.abs(products)))
    return bool(np.all(margins(products) > least))
