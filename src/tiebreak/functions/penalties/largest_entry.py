"""weight max |x_j - center_j|: the largest deviation."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np

from tiebreak.functions.far_slopes import FarRows, rising
from tiebreak.functions.penalties.operator_terms import OnlyConic
from tiebreak.functions.penalties.penalties import CentredNorm
from tiebreak.linalg import arrays, checks, remember
from tiebreak.linalg.arrays import Array, from_center
from tiebreak.linalg.conic_form import ConicForm, Cost
from tiebreak.linalg.host_rows import HostRows
from tiebreak.sets import INFINITY, L1Ball
from tiebreak.sets.descriptions import identity


@dataclasses.dataclass(frozen=True, eq=False)
class LargestEntry(OnlyConic):
    """l1 max |x_j - center_j|."""

    l1: float = 1.0

    def value(self, x: Array) -> float:
        return self.l1 * arrays.max_abs(from_center(x, self.center))

    def subgradient(self, x: Array) -> Array:
        """One subgradient at x, nonzero only in the first of the largest entries."""
        y = from_center(x, self.center)
        j = int(arrays.namespace(y).argmax(abs(y)))
        return arrays.placed(y, j, self.l1 * float(np.sign(float(y[j]))))

    def prox(self, x: Array) -> Array:
        """x minus the projection of x - center onto the l1 ball, the ball of the dual norm."""
        return x if self.l1 == 0.0 else x - L1Ball(self.l1).project(from_center(x, self.center))

    def add_to_conic(self, form: ConicForm, cost: Cost) -> bool:
        off = form.x if self.center is None else form.x - self.center
        top = form.variables(1, float(np.max(form.bound(off))))
        for sign in (1.0, -1.0):
            form.nonnegative(top.some(np.zeros(form.n, dtype=np.int64)) + sign * off)
        cost.add(self.l1, top)
        return True

    def far_rows(self, n: int) -> FarRows:
        """A bound on the growth far from 0: the largest entry grows no faster than the l1 norm."""
        weights = np.full(n, self.l1)
        return FarRows((), rising(weights, weights, HostRows(identity(n))))

    def steepness(self, n: int, reach: float) -> float:
        return self.l1

    def extent(self, n: int, level: float) -> float:
        if not self.l1 > 0.0:
            return INFINITY
        away = 0.0 if self.center is None else arrays.norm(self.center)
        return (float(np.sqrt(n)) * level / self.l1 + away) * (1.0 + 2.0**-48)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LInf(CentredNorm):
    """weight max_j |x_j - center_j|, the largest deviation; ``center=None`` is the origin.

    The prox of LInf plus another penalty or a set has no closed form, so the "conic" method solves
    problems with LInf.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1, 2]], [4])
        >>> tb.solve(tb.Problem(lower=fit, upper=tb.LInf())).x.round(4)  # as even as possible
        array([1., 1., 1.])
    """

    def __post_init__(self) -> None:
        remember(self, LInf, weight=self.weight, center=self.center)
        if checks.is_sequence(self.weight):
            got = checks.what_it_is(self.weight)
            raise TypeError(f"LInf: weight must be a number, got {got}")
        super().__post_init__()

    @cached_property
    def terms(self) -> LargestEntry:
        return LargestEntry(l1=self.weight, center=self._origin)
