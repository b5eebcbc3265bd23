"""Matrices as products: ``forward(x) = A x`` and ``adjoint(r) = A' r``, whatever they are made of.

`base` says what every matrix can be asked; `dense`, `sparse` and `operators` are the kinds in
memory; the rows of those in `streamed` come block by block, from `row_sources`.
"""

from typing import Any

from tiebreak.linalg import arrays
from tiebreak.linalg.matrices.base import Matrix
from tiebreak.linalg.matrices.dense import FLOAT64_COPY_LIMIT, Dense, Fused, dense_matrix
from tiebreak.linalg.matrices.differences import Differences
from tiebreak.linalg.matrices.operators import Operator
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
    """Entries in memory, dense or scipy.sparse, as a matrix."""
    return Sparse(entries) if arrays.is_sparse(entries) else dense_matrix(entries)
