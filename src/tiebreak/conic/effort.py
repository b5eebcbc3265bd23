"""Estimates of the time and memory that Clarabel needs before it first checks the clock.

Clarabel orders the variables of its equations (minimum degree) and factorises them once. The number
of entries in the factor is known only after the ordering. We estimate this number as if the factor
of the rows or of the variables, whichever are fewer, were dense. If time or memory does not allow
such a factor, we use an order that keeps entries close to the diagonal (Cuthill and McKee 1969). If
the graph is a tree, this order gives too large an estimate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.linalg import Host, deadline

SPARSE_PRODUCT = 4.0  # work per product of entries found by index, in `deadline.svd_work` units


def ask_for_factor(P: Any, rows: Any) -> None:
    """Raise `deadline.Over` or `MemoryError` unless there is time and memory for the first factor.

    The factor belongs to the equations of an interior-point method with Hessian P and these rows.
    """
    import scipy.sparse as sp

    # Below this number of rows and variables, a factor takes only milliseconds.
    if sum(rows.shape) <= 300:
        return
    data = sp.csr_array(rows)
    # Rows of at most three entries are left out: bounds, differences, and most rows of a cone.
    data = data[np.diff(data.indptr) > 3]
    in_rows, in_columns = np.diff(data.indptr), np.bincount(data.indices, minlength=data.shape[1])
    ordering = SPARSE_PRODUCT * _squares(in_columns[in_columns <= _many(sum(rows.shape))])
    deadline.check(ordering)
    shared = in_columns > 1  # a variable in a single row is eliminated with that row
    if couples := P.nnz > np.count_nonzero(P.diagonal()):
        shared |= np.diff(sp.csc_array(P + P.T).indptr) > 1
    by_rows = not couples and len(in_rows) < np.count_nonzero(shared)
    count = len(in_rows) if by_rows else int(np.count_nonzero(shared))
    try:
        check_factor(np.arange(count), ordering)
    except (deadline.TooLong, MemoryError):
        if 8 * P.nnz > count * count:  # too many entries for any order to help
            raise
        full = np.zeros(len(in_rows), dtype=bool) if by_rows else in_rows > _many(count)
        few = data[~full]  # a full row would give a full graph
        deadline.check(SPARSE_PRODUCT * _squares(in_columns if by_rows else in_rows[~full]))
        graph = few @ few.T if by_rows else (few.T @ few + P + P.T)[shared][:, shared]
        lasts = int(np.count_nonzero(full))
        check_factor(column_counts(sp.csr_array(graph), lasts), ordering)


def _squares(counts: Host) -> float:
    return float(np.sum(counts.astype(float) ** 2))


def _many(nodes: int) -> float:
    # Nodes with more than 10 sqrt(nodes) neighbours come last.
    return 10.0 * float(np.sqrt(nodes))


def check_factor(columns: Host, ordering: float) -> None:
    """Check that there is time and memory for a factor with these column counts."""
    # A product in a dense part of the factor costs 1/16 of a unit of `deadline.svd_work`.
    deadline.check(ordering + (1 / 16) * _squares(columns))
    entry = np.dtype(np.float64).itemsize + np.dtype(np.int64).itemsize  # a value and its index
    size = entry * int(np.sum(columns))
    try:  # if this allocation fails, Clarabel's own would end the process
        np.empty(size, dtype=np.uint8)
    except MemoryError:
        factor = f"the factor of Clarabel's equations may take {size / 2**30:.3g} GiB"
        raise MemoryError(f"Conic: {factor}, more than available: choose another method") from None


def column_counts(graph: Any, lasts: int = 0) -> Host:
    """Estimate how many entries each column of a factor has, with ``lasts`` full rows.

    We assume a good order of the variables.

    Nodes with many neighbours are ordered last, like full rows.
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    is_last = np.diff(graph.indptr) > _many(graph.shape[0])
    inner = graph[~is_last][:, ~is_last]
    n, last = inner.shape[0], lasts + int(np.count_nonzero(is_last))
    ends = np.arange(last)
    if n == 0:
        return ends
    place = np.empty(n, dtype=np.int64)
    place[reverse_cuthill_mckee(inner, symmetric_mode=True)] = np.arange(n)
    first = np.arange(n)  # the first entry in each row
    np.minimum.at(first, np.repeat(place, np.diff(inner.indptr)), place[inner.indices])
    begun = np.cumsum(np.bincount(first, minlength=n))  # rows that begin at or before a column
    return np.concatenate([last + begun - np.arange(1, n + 1), ends])
