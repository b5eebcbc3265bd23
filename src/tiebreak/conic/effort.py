"""How long Clarabel works before it looks at the clock for the first time, and in how much memory.

It puts the variables of its equations in order (minimum degree) and factorises them once. How many
entries the factor has is known only then, but it can be bounded: by those of a dense factor of the
rows or of the variables, whichever are fewer, and by those between the diagonal and the outermost
entries of each row in an order that keeps these close to it (Cuthill and McKee 1969).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host

SMALL = 300  # rows and variables of which a factor takes milliseconds, whatever it is like
FEW = 3  # entries of a row that couples next to nothing: a bound, a difference, a row of a cone
MANY = 10.0  # times the square root of their number: nodes with more neighbours than that come last
DENSE = 1 / 16  # of a unit of `deadline.svd_work`: a product within a dense part of the factor
SPARSE = 4.0  # the same for one that is found by its indices, in the order or in the factor
ENTRY = 16  # bytes of a value and its index


def ask_for_factor(P: Any, rows: Any) -> None:
    """Is there time and memory for the first factor? Otherwise `deadline.Over` or `MemoryError`.

    Of the equations of an interior-point method with the Hessian P and these rows; both sparse.
    """
    import scipy.sparse as sp

    if sum(rows.shape) <= SMALL:
        return
    data = sp.csr_array(rows)
    data = data[np.diff(data.indptr) > FEW]
    in_rows, in_columns = np.diff(data.indptr), np.bincount(data.indices, minlength=data.shape[1])
    searched = SPARSE * _squares(in_columns[in_columns <= _many(sum(rows.shape))])
    deadline.check(searched)
    shared = in_columns > 1  # a variable of a single row goes with that row
    if couples := P.nnz > np.count_nonzero(P.diagonal()):
        shared |= np.diff(sp.csc_array(P + P.T).indptr) > 1
    by_rows = not couples and len(in_rows) < np.count_nonzero(shared)
    count = len(in_rows) if by_rows else int(np.count_nonzero(shared))
    try:
        _ask(np.arange(count), searched)
    except (deadline.TooLong, MemoryError):
        deadline.check(SPARSE * _squares(in_columns if by_rows else in_rows))
        graph = data @ data.T if by_rows else (data.T @ data + P + P.T)[shared][:, shared]
        _ask(_widths(sp.csr_array(graph)), searched)


def _squares(counts: Host) -> float:
    return float(np.sum(counts.astype(float) ** 2))


def _many(nodes: int) -> float:
    return MANY * float(np.sqrt(nodes))


def _ask(widths: Host, searched: float) -> None:
    """For a factor with so many entries in each row."""
    deadline.check(searched + DENSE * _squares(widths))
    size = ENTRY * int(np.sum(widths))
    try:  # here it can be refused: there that would end the process
        np.empty(size, dtype=np.uint8)
    except MemoryError:
        told = f"the factor of Clarabel's equations may take {size / 2**30:.3g} GiB"
        raise MemoryError(f"Conic: {told}, more than there is: choose another method") from None


def _widths(graph: Any) -> Host:
    """For each node how many may be between it and its first neighbour, in a good order.

    Nodes with very many neighbours come last, and have all before them.
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    neighbours = np.diff(graph.indptr)
    last = neighbours > _many(graph.shape[0])
    if last.all():
        return np.arange(len(last))
    inner = graph[~last][:, ~last]
    order = reverse_cuthill_mckee(inner, symmetric_mode=True)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    first = np.arange(len(order))
    row = np.repeat(place, np.diff(inner.indptr))
    np.minimum.at(first, row, place[inner.indices])
    ends = len(order) + np.arange(int(np.count_nonzero(last)))
    return np.concatenate([np.arange(len(order)) - first, ends])
