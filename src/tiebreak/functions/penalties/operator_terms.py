"""weight |D x - center|_1 for a matrix D: a penalty with a value, and no prox in closed form."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tiebreak.functions.penalties.terms import Terms
from tiebreak.linalg import Host, Refusal, arrays
from tiebreak.linalg.arrays import Array, norm
from tiebreak.linalg.host import host
from tiebreak.sets import INFINITY


@dataclasses.dataclass(frozen=True, eq=False)
class OperatorTerms(Terms):
    """The sum of l1_i |(D x)_i - center_i|, D = matrix(n) in CSR form, for x of length n."""

    matrix: Callable[[int], Any] = dataclasses.field(kw_only=True)
    has_operator: ClassVar[bool] = True

    def times(self, factor: float) -> Terms:
        return dataclasses.replace(self, l1=factor * self.l1)

    def value(self, x: Array) -> float:
        image = self.matrix(int(x.shape[0])) @ host(x)
        off = image if self.center is None else image - self.center
        return float(np.sum(self.l1 * np.abs(off)))

    def prox(self, x: Array) -> Array:
        raise Refusal("L1", "operator", "must be None for a prox in closed form", "a matrix")

    def least(self, slope: Array) -> tuple[float, Array | None]:
        return -INFINITY, None  # it is not known

    def steepness(self, n: int, reach: float) -> float:
        """|D's| <= |D| |s| for every s with |s_i| <= l1_i; |D|² <= |D|_1 |D|_inf."""
        D = abs(self.matrix(n))
        rows, columns = (float(np.max(D.sum(axis=axis), initial=0.0)) for axis in (1, 0))
        weights = np.broadcast_to(np.asarray(self.l1, dtype=np.float64), D.shape[0])
        return math.sqrt(rows) * math.sqrt(columns) * norm(weights) * (1.0 + 2.0**-40)

    def extent(self, n: int, level: float) -> float:
        return INFINITY

    def eased(self, n: int, error: float) -> Terms | None:
        return None

    def penalised(self, n: int) -> Host:
        return np.zeros(n, dtype=bool)

    def falling(self, slope: Array) -> Array | None:
        return None


def csr(owner: str, operator: Any) -> Any:
    """A matrix of the user, dense or sparse, in CSR form and float64."""
    from scipy.sparse import csr_array

    from tiebreak.linalg import checks

    matrix = checks.matrix(owner, "operator", operator)
    if not (matrix.is_explicit or matrix.is_sparse):
        raise TypeError(
            f"{owner}: operator must be a matrix in memory, got {type(operator).__name__}"
        )
    return csr_array(
        matrix.entries if matrix.is_sparse else arrays.to_numpy(matrix.dense())
    ).astype(np.float64)
