"""Differences of neighbours on a grid, by slicing, for arrays of any library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array
from tiebreak.linalg.matrices.base import Matrix


class Differences(Matrix):
    """x_{j+1} - x_j along every axis of a grid of this shape, one axis after another.

    With ``is_padded``, every axis has one difference per grid point, which is 0 at the end of the
    axis. So the differences of a point have the same index along every axis.
    """

    takes_any_library = True

    def __init__(self, grid: tuple[int, ...], is_padded: bool = False) -> None:
        self.grid, self.is_padded = grid, is_padded
        n, short = math.prod(grid), 0 if is_padded else 1
        self._counts = [n // size * (size - short) for size in grid]
        self.shape = (sum(self._counts), n)
        self._prototype = np.empty(0)

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
        """An index of the grid that takes a slice along this axis."""
        whole = (slice(None),) * len(self.grid)
        return (*whole[:axis], slice(first, last), *whole[axis + 1 :])

    @property
    def spectral_square(self) -> float:
        """At most 4 for each axis."""
        return 4.0 * len(self.grid)

    @property
    def frobenius(self) -> float:
        """Each row has two entries, 1 and -1."""
        return math.sqrt(2.0 * self.shape[0])

    @property
    def size(self) -> int:
        return 2 * self.shape[0]

    @property
    def is_at_hand(self) -> bool:
        return True

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
