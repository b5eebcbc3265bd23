"""Matrices without stored entries: linear operators, and differences of neighbours on a grid."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array
from tiebreak.linalg.matrices.base import Matrix, random_pair


def is_operator(value: Any) -> bool:
    """Is ``value`` known only through its products? This check does not import any library.

    A scipy.sparse.linalg.LinearOperator or a PyLops operator has ``matvec`` and ``rmatvec``; any
    other operator needs ``@`` and ``.H`` or ``.T``, and must not be an array.
    """
    if arrays.is_array(value) or arrays.is_sparse(value) or hasattr(value, "__array__"):
        return False
    has_products = hasattr(value, "matvec") or (
        hasattr(value, "__matmul__") and (hasattr(value, "H") or hasattr(value, "T"))
    )
    return has_products and len(getattr(value, "shape", ())) == 2


class Operator(Matrix):
    """A matrix known only through its products A x and A' r; its entries are never needed.

    With ``is_symmetric``, A' = A and no adjoint is needed. Vectors are NumPy arrays in float64, or
    in float32 if that is the operator's dtype.
    """

    known_by = "a linear operator"

    def __init__(self, operator: Any, is_symmetric: bool = False) -> None:
        self.operator: Any = operator
        rows, n = operator.shape
        self.shape: tuple[int, int] = (int(rows), int(n))
        is_single = np.dtype(getattr(operator, "dtype", None) or np.float64) == np.float32
        self.prototype: Array = np.empty(0, dtype=np.float32 if is_single else np.float64)
        self._apply = getattr(operator, "matvec", None) or operator.__matmul__
        self._apply_adjoint = self._apply if is_symmetric else self._adjoint_of(operator)

    @staticmethod
    def _adjoint_of(operator: Any) -> Any:
        """The function r -> A' r, under whichever name the operator offers it."""
        if hasattr(operator, "rmatvec"):
            return operator.rmatvec
        for name in ("H", "T"):
            if hasattr(operator, name):
                return getattr(operator, name).__matmul__
        raise NotImplementedError("there is no adjoint")

    def forward(self, *xs: Array) -> list[Array]:
        return [self._product(self._apply, x, self.shape[0]) for x in xs]

    def adjoint(self, *rs: Array) -> list[Array]:
        return [self._product(self._apply_adjoint, r, self.shape[1]) for r in rs]

    def _product(self, apply: Any, x: Array, length: int) -> Array:
        """The product as a copy: operators may reuse a buffer, or write into the argument."""
        result = np.array(apply(x.copy()), dtype=self.prototype.dtype)
        return result.reshape(length)

    def adjoint_mismatch(self) -> float:
        """|<A x, r> - <x, A' r>| in machine epsilons times |A x||r| + |x||A' r|; nan if not finite.

        For random x and r, only rounding makes the result nonzero, unless ``rmatvec`` is not the
        adjoint.
        """
        x, r = random_pair(self)
        image, back = self.signature
        if not (arrays.all_finite(image) and arrays.all_finite(back)):
            return math.nan
        apart = abs(arrays.dot(image, r) - arrays.dot(x, back))
        size = arrays.norm(image) * arrays.norm(r) + arrays.norm(x) * arrays.norm(back)
        return apart / (arrays.epsilon(x) * size) if size > 0.0 else 0.0

    @property
    def size(self) -> int:
        return sum(self.shape)  # the operator's own cost is unknown

    @cached_property
    def frobenius(self) -> float:
        """A bound on |A|_F, which is at most sqrt(rank) |A|."""
        return math.sqrt(min(self.shape) * max(self.spectral_square, 0.0))

    @property
    def signature(self) -> tuple[Any, ...]:
        x, r = random_pair(self)
        return (*self.forward(x), *self.adjoint(r))


class Differences(Matrix):
    """The differences x_{j+1} - x_j along every axis of a grid, one axis after another.

    With ``is_padded``, every axis has one difference per grid point, which is 0 at the end of the
    axis. The differences that start at a grid point then have the same index along every axis.
    """

    is_at_hand = True

    def __init__(self, grid: tuple[int, ...], is_padded: bool = False) -> None:
        self.grid, self.is_padded = grid, is_padded
        n, short = math.prod(grid), 0 if is_padded else 1
        self._counts = [n // size * (size - short) for size in grid]
        self.shape: tuple[int, int] = (sum(self._counts), n)
        self.prototype: Array = np.empty(0)

    def forward(self, *xs: Array) -> list[Array]:
        return [self._forward(x) for x in xs]

    def adjoint(self, *rs: Array) -> list[Array]:
        return [self._adjoint(r) for r in rs]

    def _forward(self, x: Array) -> Array:
        xp, grid, found = arrays.namespace(x), arrays.namespace(x).reshape(x, self.grid), []
        for axis in range(len(self.grid)):
            apart = grid[self._part(axis, 1, None)] - grid[self._part(axis, 0, -1)]
            if self.is_padded:
                apart = xp.concat([apart, 0.0 * grid[self._part(axis, -1, None)]], axis=axis)
            found.append(xp.reshape(apart, (-1,)))
        return xp.concat(found)

    def _adjoint(self, r: Array) -> Array:
        xp, start, total = arrays.namespace(r), 0, arrays.like(np.zeros(self.grid), r)
        for axis, (size, count) in enumerate(zip(self.grid, self._counts, strict=True)):
            shape = list(self.grid)
            shape[axis] = count * size // self.shape[1]
            some = xp.reshape(r[start : start + count], tuple(shape))
            some, ends = some[self._part(axis, 0, size - 1)], 0.0 * total[self._part(axis, 0, 1)]
            total = total + xp.concat([ends, some], axis=axis) - xp.concat([some, ends], axis=axis)
            start += count
        return xp.reshape(total, (-1,))

    def _part(self, axis: int, first: int, last: int | None) -> tuple[slice, ...]:
        """An index that selects a slice of the grid along one axis."""
        whole = (slice(None),) * len(self.grid)
        return (*whole[:axis], slice(first, last), *whole[axis + 1 :])

    @property
    def spectral_square(self) -> float:
        """A bound on |A|²: at most 4 for each axis."""
        return 4.0 * len(self.grid)

    @property
    def size(self) -> int:
        return 2 * self.shape[0]

    def on_host(self) -> Any:
        from scipy.sparse import csr_array, diags_array, eye_array, kron, vstack

        parts = []
        for axis, size in enumerate(self.grid):
            ones = np.ones(size - 1)
            rows = size if self.is_padded else size - 1
            diagonals = [np.append(-ones, 0.0)[:rows], ones]
            one = diags_array(diagonals, offsets=[0, 1], shape=(rows, size))
            before, after = math.prod(self.grid[:axis]), math.prod(self.grid[axis + 1 :])
            parts.append(kron(kron(eye_array(before), one), eye_array(after)))
        made = csr_array(vstack(parts, format="csr"))
        made.eliminate_zeros()
        return made
