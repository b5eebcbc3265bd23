"""A function of x as a function of u, where every x_j is a multiple of one u_k, or 0.

Such a substitution selects variables, changes their signs and units, or embeds them among more
variables.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.functions.base import Function, SmoothFunction
from tiebreak.functions.elementary import Flat, Linear, SquaredNorm
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.penalties.composite import split
from tiebreak.functions.penalties.penalties import L1, Penalty
from tiebreak.functions.quadratic import Quadratic
from tiebreak.functions.sums import summands
from tiebreak.linalg import Host, arrays
from tiebreak.linalg.host import host


class Substitution:
    """x as a function of u, in which no two x_j depend on the same u_k.

    Args:
        places: the k of each x_j, or -1 if x_j = 0.
        size: the length of u.
        factors: one factor for each x_j; all 1 if None.
    """

    def __init__(self, places: Host, size: int, factors: Host | None = None) -> None:
        from scipy.sparse import csr_array

        self.size, self._used = size, places >= 0
        self._places = places[self._used]
        ones = np.ones(len(places))
        self._factors = (ones if factors is None else factors)[self._used]
        where = np.flatnonzero(self._used), self._places
        self._matrix = csr_array((self._factors, where), shape=(len(places), size))

    def point(self, u: Host) -> Host:
        """The vector x for this u."""
        return np.asarray(self._matrix @ u)

    def rows(self, A: Any) -> Any:
        """Rows whose products with u equal the products of A's rows with x.

        The new rows are dense or sparse, as A is; no two entries of A are added.
        """
        return A @ self._matrix

    def slope(self, c: Host) -> Host:
        """The result of `rows` for a single row of A, given and returned as a vector."""
        return np.asarray(self.rows(c[None])[0])

    def function(self, h: Function) -> tuple[SmoothFunction, float]:
        """The function h as a function of u, without its constant, and that constant.

        h must be a sum of losses, squared norms, quadratics and linear functions, and the entries
        of their matrices must be known.
        """
        total: SmoothFunction | None = None
        constant = 0.0
        for weight, part in summands(h.bare):
            some, more = self._part(part)
            some = some if weight == 1.0 else weight * some
            total, constant = some if total is None else total + some, constant + weight * more
        assert total is not None
        return total, constant

    def _part(self, h: Function) -> tuple[SmoothFunction, float]:
        if isinstance(h, LinearLoss):
            loss = h.of_columns(self.rows)
            loss.data_epsilon = max(h.data_epsilon, arrays.epsilon(h.matrix.prototype))
            return loss, 0.0
        if isinstance(h, SquaredNorm):
            return self._squares(h)
        if isinstance(h, Quadratic):
            Q = self.rows(self.rows(h.matrix.dense()).T)
            return Quadratic(Q, self.slope(host(h.c)), h.constant), 0.0
        if isinstance(h, Linear):
            return Linear(self.slope(host(h.c)), h.constant), 0.0
        assert isinstance(h, Flat)
        return h, 0.0

    def _squares(self, h: SquaredNorm) -> tuple[SmoothFunction, float]:
        n = len(self._used)
        center = np.zeros(n) if h.center is None else host(h.center)
        weights = np.broadcast_to(host(h.weight), n)
        constant = 0.5 * float(np.sum((weights * center**2)[~self._used]))
        are_signs = bool(np.all(np.abs(self._factors) == 1.0))
        if h.is_scalar and len(self._places) == self.size and are_signs:
            return SquaredNorm(h.weight, self.slope(center)), constant
        if h.is_scalar and not are_signs:  # the weights of a SquaredNorm would be squared factors
            rows = self.rows(np.eye(n)[self._used])
            loss = LeastSquares(rows, center[self._used], gram=False)
            return float(h.weight) * loss, constant
        each, middle = np.zeros(self.size), np.zeros(self.size)
        each[self._places] = weights[self._used] * self._factors**2
        middle[self._places] = center[self._used] / self._factors
        return SquaredNorm(each, middle) if each.any() else Flat(), constant

    def level(self, h: Function) -> tuple[SmoothFunction | Penalty, float]:
        """A level (smooth, or an l1 norm) as a function of u, and its constant."""
        smooth, penalty = split(h)
        return self.penalty(penalty) if penalty.terms.has_weights else self.function(smooth)

    def penalty(self, h: Penalty) -> tuple[L1, float]:
        """An l1 norm without an operator as a function of u, and the constant; factors must be
        ±1."""
        n, center = len(self._used), h.terms.center
        center = np.zeros(n) if center is None else center
        weights = np.broadcast_to(h.terms.l1, n)
        constant = float(np.sum((weights * np.abs(center))[~self._used]))
        each = np.zeros(self.size)
        each[self._places] = weights[self._used]
        return L1(each, self.slope(center)), constant
