"""The training data as a level sees them: which variable is which coefficient, and the intercept.

The intercept is a column of ones more, with a variable of its own. For squares it can be left out:
whatever the coefficients are, the best intercept makes the weighted residuals sum to 0, so that

    min over the intercept of sum w_i (<a_i, x> + intercept - y_i)²  =  |(H W^½ (A x - y)) without
                                                                        its first entry|²

with H the reflection that maps the vector of the roots of the weights onto the first axis. That is
one row less, of the same rank as the centred data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tiebreak.linalg.arrays import Host
from tiebreak.linalg.spectra import EPS


@dataclass(frozen=True)
class Layout:
    """Which variable is which: output by output its coefficients, then perhaps its intercept."""

    features: int
    outputs: int = 1
    has_column: bool = False

    @property
    def width(self) -> int:
        """The variables of one output."""
        return self.features + self.has_column

    def split(self, x: Host) -> tuple[Host, Host]:
        """The coefficients, one row per output, and the intercepts, 0 where there are none."""
        table = np.reshape(x, (self.outputs, self.width))
        intercepts = table[:, self.features] if self.has_column else np.zeros(self.outputs)
        return table[:, : self.features], intercepts

    def joined(self, coefficients: Host, intercepts: Host) -> Host:
        """The point with these coefficients and intercepts."""
        parts = [coefficients, intercepts[:, None]] if self.has_column else [coefficients]
        return np.hstack(parts).reshape(-1)

    @property
    def penalised(self) -> Host | float:
        """1 for coefficients and 0 for intercepts; the number 1 where all are coefficients."""
        if not self.has_column:
            return 1.0
        return self.joined(np.ones((self.outputs, self.features)), np.zeros(self.outputs))

    def rows(self, M: Any) -> Any:
        """Rows of products with the coefficients of one output as rows of all variables."""
        import scipy.sparse as sp

        M = sp.csr_array(M)
        padded = sp.hstack([M, sp.csr_array((M.shape[0], 1))]) if self.has_column else M
        return sp.kron(sp.eye_array(self.outputs), padded, format="csr")

    @property
    def selection(self) -> Any:
        """The matrix that takes the coefficients out of a point."""
        import scipy.sparse as sp

        return self.rows(sp.eye_array(self.features))


class Centred(NamedTuple):
    """Rows and targets without the intercept, and what gives it back."""

    rows: Host
    targets: Host  # one column per target
    mean: Host  # of the features
    offset: Host  # the means of the targets
    total: float  # the sum of the weights

    def intercept(self, coefficients: Host, target: int) -> float:
        """The best one with these coefficients."""
        return float(self.offset[target] - self.mean @ coefficients)


def with_ones(X: Any) -> Any:
    """X with a column of ones at its end."""
    ones = np.ones((X.shape[0], 1))
    if isinstance(X, np.ndarray):
        return np.hstack([X, ones])
    import scipy.sparse as sp

    return sp.hstack([X, sp.csr_array(ones)], format="csr")


def without_zeros(X: Any, Y: Host, weights: Host | None) -> tuple[Any, Host, Host | None]:
    """The rows of positive weight."""
    if weights is None or np.all(weights > 0.0):
        return X, Y, weights
    kept = weights > 0.0
    return X[kept], Y[kept], weights[kept]


def centred(X: Any, Y: Host, weights: Host | None) -> Centred:
    """Squares without the intercept: see above."""
    X = X if isinstance(X, np.ndarray) else X.toarray()
    roots = np.ones(len(X)) if weights is None else np.sqrt(weights)
    total = float(np.sum(roots * roots))
    mean, offset = (np.asarray((roots * roots) @ M / total) for M in (X, Y))
    A, B = roots[:, None] * (X - mean), roots[:, None] * (Y - offset)
    # What rounding leaves of a constant column is no feature, and nothing to explain.
    for M, center in ((A, mean), (B, offset)):
        size = np.sqrt(np.sum(M * M, axis=0))
        M[:, size <= len(X) * EPS * np.sqrt(total) * np.abs(center)] = 0.0
    v = roots / np.sqrt(total)
    v[0] += 1.0
    v /= np.linalg.norm(v)
    A, B = (M - np.outer(2.0 * v, v @ M) for M in (A, B))
    return Centred(A[1:], B[1:], mean, offset, total)
