"""The nuclear norm: the sum of the singular values of a matrix."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tiebreak.functions.far_slopes import FarRows
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.functions.penalties.terms import Terms
from tiebreak.linalg import TOL, Host, arrays, assign, checks
from tiebreak.linalg.arrays import Array, norm
from tiebreak.linalg.host import host
from tiebreak.sets import INFINITY, ActiveFace


@dataclasses.dataclass(frozen=True, eq=False)
class NuclearTerms(Terms):
    """nuclear sum_i sigma_i(X) + square/2 |X|², where X is x as a matrix, filled row by row."""

    shape: tuple[int, int] = dataclasses.field(kw_only=True)
    nuclear: float = dataclasses.field(kw_only=True)
    is_alone: ClassVar[bool] = True

    def times(self, factor: float) -> Terms:
        made = {"nuclear": factor * self.nuclear, "square": factor * self.square}
        return dataclasses.replace(self, **made)  # type: ignore[arg-type]

    def with_weights(self, l1: Any, group: float, l2: float, square: float) -> Terms:
        """The same nuclear norm with a different weight for the square, the only other term."""
        return dataclasses.replace(self, square=square)

    @property
    def has_norms(self) -> bool:
        return self.nuclear > 0.0

    def _svd(self, x: Array) -> tuple[Host, Host, Host]:
        u, s, vt = np.linalg.svd(host(x).reshape(self.shape), full_matrices=False)
        return u, s, vt

    def _made(self, u: Host, s: Host, vt: Host, x: Array) -> Array:
        return arrays.like(((u * s) @ vt).reshape(-1), x)

    def value(self, x: Array) -> float:
        size = norm(x)
        return self.nuclear * float(np.sum(self._svd(x)[1])) + 0.5 * self.square * size * size

    def subgradient(self, x: Array) -> Array:
        """The subgradient at x with the smallest norm."""
        u, s, vt = self._svd(x)
        is_on = (s > TOL.met * s[0]).astype(np.float64)
        return self._made(u, self.nuclear * is_on, vt, x) + self.square * x

    def prox(self, x: Array) -> Array:
        """A soft threshold of the singular values (Cai, Candès, Shen 2010)."""
        u, s, vt = self._svd(x)
        return self._made(u, np.maximum(s - self.nuclear, 0.0) / (1.0 + self.square), vt, x)

    def least(self, slope: Array) -> tuple[float, Array | None]:
        """The minimum, from the amounts by which the slope's singular values exceed the weight."""
        u, s, vt = self._svd(slope)
        unit = (8.0 + slope.shape[0]) * arrays.epsilon(slope)
        kept = np.maximum(s - self.nuclear, 0.0)
        at_most = norm(np.maximum(s + unit * s[0] - self.nuclear, 0.0)) * (1.0 + unit)
        reach = self._reach(at_most)
        if reach == INFINITY:
            return -INFINITY, None
        value = -reach * (at_most - 0.5 * self.square * reach) * (1.0 + unit)
        length = norm(kept)
        pull = -self._reach(length) / length if length > 0.0 else 0.0
        return value, self._made(u, pull * kept, vt, slope)

    def face_at(self, x: Array) -> tuple[ActiveFace, Array]:
        """The set of matrices with the same rank as x, and the slope along that set."""
        u, s, vt = self._svd(x)
        rank = int(np.sum(s > TOL.met * s[0]))
        u, vt = u[:, :rank], vt[:rank]

        def along(v: Array) -> Array:
            M = host(v).reshape(self.shape)
            left = u @ (u.T @ M)
            return arrays.like((left + ((M - left) @ vt.T) @ vt).reshape(-1), x)

        def retract(y: Array) -> Array:
            a, b, c = self._svd(y)
            return self._made(a[:, :rank], b[:rank], c[:rank], x)

        key = arrays.zeros_like(x) + float(rank)
        return ActiveFace(along, key, retract, None), self.subgradient(x)

    def is_conic(self, n: int) -> bool:
        return False

    def far_rows(self, n: int) -> FarRows | None:
        return None

    def steepness(self, n: int, reach: float) -> float:
        norms = self.nuclear * float(np.sqrt(min(self.shape)))
        return norms + (self.square * reach if self.square > 0.0 else 0.0)

    def extent(self, n: int, level: float) -> float:
        """|X| is at most the sum of the singular values."""
        return level / self.nuclear * (1.0 + 2.0**-48) if self.nuclear > 0.0 else INFINITY

    def eased(self, n: int, error: float) -> Terms | None:
        """error |X| is at most error times the sum of the singular values of X."""
        if self.nuclear < error:
            return None
        return dataclasses.replace(self, nuclear=(self.nuclear - error) * (1.0 - 2.0**-52))

    def falling(self, slope: Array) -> Array | None:
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class NuclearNorm(Penalty):
    """weight times the sum of the singular values of x as a matrix, which favours low rank.

    The prox requires one singular value decomposition. The nuclear norm cannot be combined with
    other penalties or sets, and has no conic form in this package.

    Args:
        shape: the numbers of rows and columns of the matrix, whose entries, row by row, form x.
        weight: a non-negative number.

    Examples:
        >>> seen = np.eye(4)[[0, 1, 2]]  # all entries of a 2 x 2 matrix except one
        >>> fit = tb.LeastSquares(seen, [2, 1, 1])
        >>> tb.solve(tb.Problem(lower=fit, upper=tb.NuclearNorm((2, 2)))).x.round(2)  # of rank 1
        array([2. , 1. , 1. , 0.5])
    """

    shape: tuple[int, int]
    weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.shape, tuple | list) or len(self.shape) != 2:
            got = checks.what_it_is(self.shape)
            raise TypeError(f"NuclearNorm: shape must be two whole numbers, got {got}")
        rows, columns = (checks.whole("NuclearNorm", "shape", k, 1) for k in self.shape)
        assign(self, "shape", (rows, columns))
        assign(self, "dimension", rows * columns)

    def check(self, n: int) -> None:
        if n != self.dimension:
            raise ValueError(
                f"NuclearNorm: shape must have {n} entries, one per variable, got {self.shape}"
            )

    @cached_property
    def terms(self) -> NuclearTerms:
        return NuclearTerms(shape=self.shape, nuclear=self.weight)
