"""The F of ½ z'Pz = ½|F z|²."""

from __future__ import annotations

from typing import Any

import numpy as np

RANK = 1e-12  # eigenvalues below this times the largest of their block are rounding


def square_root(P: Any) -> Any:
    """F with F'F = P, sparse, no rows where P does nothing.

    Block by block: an interface that writes squares as auxiliary variables gives a diagonal, and
    one dense quadratic form must not make everything else dense.
    """
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components

    P = sp.csr_array(P)
    P.eliminate_zeros()
    n = P.shape[0]
    used = np.unique(P.nonzero()[0])
    diagonal = P.diagonal()
    if P.nnz == np.count_nonzero(diagonal):
        roots = np.sqrt(np.maximum(diagonal[used], 0.0))
        return sp.csr_array((roots, (np.arange(used.size), used)), shape=(used.size, n))
    blocks, block_of = connected_components(P[used][:, used], directed=False)
    pieces = []
    for block in range(blocks):
        columns = used[block_of == block]
        values, vectors = np.linalg.eigh(P[columns][:, columns].toarray())
        kept = values > max(RANK, columns.size * np.finfo(float).eps) * values[-1]
        factor = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        row, column = np.nonzero(factor)
        piece = (factor[row, column], (row, columns[column]))
        pieces.append(sp.csr_array(piece, shape=(factor.shape[0], n)))
    return sp.csr_array(sp.vstack(pieces, format="csr"))
