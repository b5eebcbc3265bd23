"""Matrices, however stored, given by two products: ``forward(x) = A x``, ``adjoint(r) = A' r``.

`base` defines the interface of a matrix; `dense`, `sparse` and `operators` define the kinds in
memory; in `streamed`, rows come block by block, from `row_sources`.
"""

from typing import Any

from tiebreak.linalg import arrays
from tiebreak.linalg.matrices.base import Matrix
from tiebreak.linalg.matrices.dense import FLOAT64_COPY_LIMIT, Dense, Fused, dense_matrix
from tiebreak.linalg.matrices.operators import Differences, Operator
from tiebreak.linalg.matrices.sparse import Sparse
from tiebreak.linalg.matrices.streamed import RowBlocks, Streamed
from tiebreak.linalg.sizes import DENSE_LIMIT

__all__ = [
    "DENSE_LIMIT",
    "FLOAT64_COPY_LIMIT",
    "Dense",
    "Differences",
    "Fused",
    "Matrix",
    "Operator",
    "RowBlocks",
    "Sparse",
    "Streamed",
    "of",
]


def of(entries: Any) -> Matrix:
    """A matrix from entries in memory, dense or scipy.sparse."""
    return Sparse(entries) if arrays.is_sparse(entries) else dense_matrix(entries)
