"""The training data of a level, the order of its variables, and the role of the intercept.

The intercept is an extra column of ones with its own variable. For squares, the column can be left
out, because for any coefficients the best intercept makes the weighted residuals sum to 0, so that

    min over the intercept of sum w_i (<a_i, x> + intercept - y_i)²  =  |(H W^½ (A x - y)) without
                                                                        its first entry|²

where H is the reflection that maps the vector of the square roots of the weights onto the first
axis. The matrix on the right has one row fewer, and the same rank as the centred data.

If a column of whole numbers has a large offset (a time in nanoseconds, say), rounding makes it
nearly indistinguishable from a multiple of the column of ones. An intercept absorbs any offset, so
we shift such columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tiebreak.functions import Penalty, SmoothFunction
from tiebreak.functions.base import EstimatorLoss
from tiebreak.linalg import EPS, Dense, Host, assign, checks
from tiebreak.linalg.host import power_of_two
from tiebreak.linalg.registry import KINDS
from tiebreak.sets import Box, Polyhedron, Set, intersection


@dataclass(frozen=True)
class Layout:
    """The order of the variables: for each output the coefficients, then possibly the intercept."""

    features: int
    outputs: int = 1
    has_column: bool = False

    @property
    def width(self) -> int:
        """The number of variables of one output."""
        return self.features + self.has_column

    def split(self, x: Host) -> tuple[Host, Host]:
        """Return the coefficients, one row per output, and the intercepts (0 if left out)."""
        table = np.reshape(x, (self.outputs, self.width))
        intercepts = table[:, self.features] if self.has_column else np.zeros(self.outputs)
        return table[:, : self.features], intercepts

    def joined(self, coefficients: Host, intercepts: Host) -> Host:
        """Return the point that has the given coefficients and intercepts."""
        parts = [coefficients, intercepts[:, None]] if self.has_column else [coefficients]
        return np.hstack(parts).reshape(-1)

    @property
    def penalised(self) -> Host | float:
        """An array: 1 for coefficients, 0 for intercepts; the number 1 if no intercepts exist."""
        if not self.has_column:
            return 1.0
        return self.joined(np.ones((self.outputs, self.features)), np.zeros(self.outputs))

    def rows(self, M: Any) -> Any:
        """Extend rows for one output's coefficients to all variables, with one copy per output."""
        import scipy.sparse as sp

        M = sp.csr_array(M)
        padded = sp.hstack([M, sp.csr_array((M.shape[0], 1))]) if self.has_column else M
        return sp.kron(sp.eye_array(self.outputs), padded, format="csr")


class Data(NamedTuple):
    """Samples in float64, their weights, and the size of their rounding errors."""

    X: Any
    weights: Host | None
    offset: Host  # what has been subtracted from each column
    epsilon: float  # relative rounding error of the entries; 0.0 if they count as exact

    @classmethod
    def of(cls, X: Any, weights: Host | None, offset: Host) -> Data:
        """Return the samples X minus the offset; the dtype of X shows how X was rounded.

        Half precision counts as exact: it is so coarse that its rounding errors could be anything.
        """
        is_exact = X.dtype != np.float32 or np.all(
            _whole(X if isinstance(X, np.ndarray) else X.data)
        )
        epsilon = 0.0 if is_exact else float(np.finfo(X.dtype).eps)
        return cls(_minus(X.astype(np.float64, copy=False), offset), weights, offset, epsilon)

    @property
    def rows(self) -> Any:
        """X in a form that a loss neither copies nor checks for changes: a fit never changes X."""
        return Dense(self.X) if type(self.X) is np.ndarray else checks.matrix("fit", "X", self.X)

    def described(self, loss: SmoothFunction) -> SmoothFunction:
        """Record in the loss how its samples were rounded, and return the loss."""
        loss.data_epsilon = self.epsilon
        return loss


class Centred(NamedTuple):
    """Rows and targets without the intercept, whose best value is offset - <mean, coefficients>."""

    rows: Host
    targets: Host  # one column per target
    mean: Host  # means of the features
    offset: Host  # the means of the targets
    total: float  # the sum of the weights
    growth: float  # factor by which centring increases the features' relative rounding errors


def as_dense(X: Any) -> Host:
    """Return the entries as a NumPy array."""
    return np.asarray(X if isinstance(X, np.ndarray) else X.toarray())


def _whole(entries: Host) -> Host:
    """Find the entries that are whole numbers and small enough to be exact in their dtype."""
    largest = 1.0 / np.finfo(entries.dtype).eps
    return np.asarray((np.rint(entries) == entries) & (np.abs(entries) <= largest))


def exact_offset(X: Any) -> Host:
    """Return the smallest entry of each column of whole numbers far from 0; 0 for other columns.

    The difference of two numbers within a factor of two of each other is exact (Sterbenz).
    """
    near, is_far = _far_columns(X)
    # No entry of these columns is 0, so a dense copy wastes no memory.
    is_far[is_far] = np.all(_whole(as_dense(X[:, np.flatnonzero(is_far)])), axis=0)
    return np.where(is_far, near, 0.0).astype(np.float64)


def target_offset(Y: Host) -> Host:
    """Return the smallest entry of each column of targets far from 0; 0 for other columns."""
    near, is_far = _far_columns(Y)
    return np.where(is_far, near, 0.0)


def _far_columns(X: Any) -> tuple[Host, Host]:
    """Find the columns whose entries have the same sign and are within a factor of two.

    Return the entry of each column that is closest to 0, and whether the column is one of these.
    """
    low, high = (np.ravel(as_dense(M)) for M in (X.min(0), X.max(0)))
    near, far = np.where(low > 0.0, (low, high), (np.minimum(high, 0.0), low))
    return near, (near != 0.0) & (0.5 * np.abs(far) <= np.abs(near))


def _minus(X: Any, offset: Host) -> Any:
    """Subtract each column's offset from X."""
    if isinstance(X, np.ndarray) or not offset.any():
        return X - offset if offset.any() else X
    import scipy.sparse as sp

    return X - sp.csr_array(np.ones((X.shape[0], 1))) @ sp.csr_array(offset[None])


def with_ones(X: Any) -> Any:
    """Append a column of ones to the features X."""
    ones = np.ones((X.shape[0], 1))
    if isinstance(X, np.ndarray):
        return np.hstack([X, ones])
    import scipy.sparse as sp

    return sp.hstack([X, sp.csr_array(ones)], format="csr")


def without_zeros(data: Data, Y: Host) -> tuple[Data, Host]:
    """Keep the rows with positive weights."""
    if data.weights is None or np.all(data.weights > 0.0):
        return data, Y
    kept = data.weights > 0.0
    return data._replace(X=data.X[kept], weights=data.weights[kept]), Y[kept]


def centred(X: Any, Y: Host, weights: Host | None) -> Centred:
    """Eliminate the intercept from a squared loss, as described at the top of this module."""
    X = as_dense(X)
    roots = np.ones(len(X)) if weights is None else np.sqrt(weights)
    total = float(np.sum(roots * roots))
    mean, offset = (np.asarray((roots * roots) @ M / total) for M in (X, Y))
    A, B = roots[:, None] * (X - mean), roots[:, None] * (Y - offset)
    # Centring leaves only rounding errors of a constant column: set them to 0.
    for M, center in ((A, mean), (B, offset)):
        M[:, _lengths(M) <= len(X) * EPS * np.sqrt(total) * np.abs(center)] = 0.0
    varies = A.any(axis=0)
    ratios = np.sqrt(total) * mean[varies] / _lengths(A[:, varies])
    growth = np.sqrt(1.0 + np.mean(ratios**2)) if varies.any() else 1.0
    v = roots / np.sqrt(total)
    v[0] += 1.0
    v /= np.linalg.norm(v)
    A, B = (M - np.outer(2.0 * v, v @ M) for M in (A, B))
    return Centred(A[1:], B[1:], mean, offset, total, float(growth))


def _lengths(M: Host) -> Host:
    """Return the norms of the columns, accurate even if the squares of tiny entries underflow."""
    unit = power_of_two(np.max(np.abs(M), axis=0), 1.0)
    return np.asarray(unit * np.linalg.norm(M / unit, axis=0))


def with_free_intercepts(owner: str, domain: Any, layout: Layout) -> Any:
    """Extend a set of coefficients to a set of all variables, with unrestricted intercepts."""
    n = layout.outputs * layout.features
    domain.check(n)
    if not layout.has_column:
        return domain
    wider = domain.extended(n, np.array([-np.inf])) if layout.outputs == 1 else None
    if wider is not None:
        return wider
    return intersection(owner, *(_widened(owner, part, n, layout) for part in domain.parts))


def _widened(owner: str, part: Set, n: int, layout: Layout) -> Set:
    """Extend one set of coefficients to a set of all variables; rows keep their names."""
    places, width = np.flatnonzero(layout.penalised), layout.outputs * layout.width
    if type(part) is Box:
        ends = np.array([[-np.inf], [np.inf]]).repeat(width, axis=1)
        ends[:, places] = part.ends(n)
        box, names = Box(*ends), np.full(width, "intercept", dtype=object)
        names[places] = part.names or [f"x[{i}]" for i in range(n)]
        assign(box, "names", tuple(names))
        return box
    rows = part.linear_rows(n)
    if rows is None:
        raise ValueError(
            f"{owner}: domain must be a box or linear constraints if there is an "
            f"intercept, got {type(part).__name__}; fit_intercept=False accepts any set"
        )
    wide = [np.zeros((M.shape[0], width)) for M in (rows.A, rows.A_eq)]
    for M, given in zip(wide, (rows.A, rows.A_eq), strict=True):
        M[:, places] = as_dense(given)
    labels: list[str] = []
    for label in (label for numbers in rows.numbers if numbers is not None for label in numbers):
        # A row with two bounds appears here as two rows; the row with the lower bound comes last.
        labels.append(f"{label}, lower bound" if label in labels else label)
    return Polyhedron(wide[0], rows.b, wide[1], rows.b_eq, rows=labels or None)


# -- losses ---------------------------------------------------------------------------------------


def losses(task: str, first: str) -> dict[str, type[EstimatorLoss]]:
    """Return the losses for a task by name, with the default ``first`` at the front."""
    kinds = (k for k in KINDS.values() if issubclass(k, EstimatorLoss) and k.task == task)
    found = {kind.loss_name: kind for kind in kinds if kind.loss_name}
    return {first: found[first], **dict(sorted(found.items()))}


def mean_loss(kind: Any, model: Any, data: Data, y: Host, **more: Any) -> SmoothFunction | Penalty:
    """Return the mean loss of the given rows, with parameters from the model."""
    known = {own: getattr(model, name) for name, own in kind.loss_parameters.items()}
    made: SmoothFunction | Penalty
    made = kind(data.rows, y, mean=True, weights=data.weights, **known, **more)
    return made if isinstance(made, Penalty) else data.described(made)
