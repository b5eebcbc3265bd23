"""Losses with kinks, summed over rows: quantile regression, absolute deviations, and the hinge.

These losses have subgradients, but no gradient and no prox in closed form. They are therefore
penalties with a matrix, like `L1` with an operator: the method "conic" accepts them on both levels,
and "exact" accepts them as the upper level.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tiebreak.functions.base import EstimatorLoss, signs_of
from tiebreak.functions.penalties.operator_terms import OperatorTerms, in_memory
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.linalg import Host, assign, checks, remember, tables
from tiebreak.linalg.conic_form import scaled_rows
from tiebreak.linalg.host import host
from tiebreak.sets.polyhedra import host_matrix


class RowPenalty(EstimatorLoss, Penalty, is_open=True):
    """Sums of piecewise linear losses, one per row of A; subclasses define their two slopes."""

    A: Any
    mean: bool
    weights: Any
    target: ClassVar[str]  # the name of the constructor's second argument

    def __post_init__(self) -> None:
        from scipy.sparse import csr_array

        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        given = {name: getattr(self, name) for name in names}
        remember(self, type(self), **given)
        if tables.is_frame(self.A):
            assign(self, "names", tables.names(self.A))
        rows = [name for name in (self.target, "weights") if given[name] is not None]
        for name in rows:
            tables.need_same_rows(self.label, ("A", self.A), (name, given[name]))
        assign(self, "A", csr_array(host_matrix(self.label, "A", self.A), copy=True))
        assign(self, "dimension", int(self.A.shape[1]))
        assign(self, "mean", checks.flag(self.label, "mean", self.mean))
        for name in rows:
            made = checks.weights if name == "weights" else checks.vector
            found = host(made(self.label, name, given[name]))
            assign(self, name, checks.length(self.label, name, found, self.A.shape[0], "row of A"))
        if self.mean and not np.sum(self._weights_of_rows) > 0.0:
            raise ValueError(f"{self.label}: weights must have a positive sum, got 0 in all rows")

    def __repr__(self) -> str:
        return "{}(<{} x {}>)".format(self.label, *self.A.shape)

    def check(self, n: int) -> None:
        if self.dimension != n:
            raise ValueError(
                f"{self.label}: A must have one column per variable ({n}), got {self.dimension}"
            )

    @property
    def _weights_of_rows(self) -> Host:
        return np.ones(self.A.shape[0]) if self.weights is None else self.weights

    @property
    def _scale(self) -> Host:
        """The factor of each row's loss."""
        w = self._weights_of_rows
        return w / np.sum(w) if self.mean else w

    def scaled(self, factor: float) -> Penalty:
        """Multiply the weights by ``factor``, in a sum: in a mean, the factor would cancel."""
        made: Penalty = dataclasses.replace(self, mean=False, weights=factor * self._scale)  # type: ignore[type-var]
        assign(made, "names", self.names)
        return made


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Quantile(RowPenalty):
    """sum_i w_i (level max(r_i, 0) + (1 - level) max(-r_i, 0)), r = b - A x: quantile regression.

    At level 1/2, the loss is half the sum of the absolute deviations.

    Args:
        A: dense or scipy.sparse matrix with one row per observation.
        b: vector with one entry per row.
        level: the quantile, between 0 and 1.
        mean: divide by the sum of the weights or, without weights, by the number of rows.
        weights: one non-negative number per row; 1 if None.

    Examples:
        >>> prices = tb.Quantile(np.ones((5, 1)), [1, 2, 3, 4, 100])
        >>> tb.solve(tb.Problem(lower=prices, upper=tb.SquaredNorm())).x.round(4)  # the median
        array([3.])
    """

    A: Any
    b: Any
    level: float = 0.5
    mean: bool = False
    weights: Any = None
    target: ClassVar[str] = "b"
    loss_name = "quantile"
    loss_parameters: ClassVar[dict[str, str]] = {"quantile": "level"}

    def __post_init__(self) -> None:
        super().__post_init__()
        level = checks.finite("Quantile", "level", self.level)
        if not 0.0 < level < 1.0:
            raise ValueError(f"Quantile: level must be above 0 and below 1, got {level:g}")
        assign(self, "level", level)

    @cached_property
    def terms(self) -> OperatorTerms:
        w = self._scale
        return OperatorTerms(
            l1=0.5 * w, tilt=(0.5 - self.level) * w, center=self.b, matrix=in_memory(self.A)
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Hinge(RowPenalty):
    """sum_i w_i max(0, 1 - y_i <a_i, x>): the loss of support vector machines.

    Args:
        A: dense or scipy.sparse matrix with one row per example.
        y: labels -1 and +1, or 0 and 1. Labels 0 are treated as -1.
        mean: divide by the sum of the weights or, without weights, by the number of rows.
        weights: one non-negative number per row; 1 if None.

    Examples:
        >>> loss = tb.Hinge([[1, 0], [1, 1], [-2, 0]], [1, 1, -1])
        >>> tb.solve(tb.Problem(lower=loss, upper=tb.SquaredNorm())).x.round(4)  # widest margin
        array([1., 0.])
    """

    A: Any
    y: Any
    mean: bool = False
    weights: Any = None
    target: ClassVar[str] = "y"
    loss_name, task = "hinge", "two classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        assign(self, "y", signs_of("Hinge", self.y))

    @cached_property
    def terms(self) -> OperatorTerms:
        margins, w = scaled_rows(self.A, self.y), 0.5 * self._scale
        one = np.ones(len(self.y))
        return OperatorTerms(l1=w, tilt=-w, center=one, matrix=in_memory(margins))
