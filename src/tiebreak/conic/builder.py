"""A conic program, piece by piece: variables with their sizes, constraints, and objectives."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tiebreak.conic.program import Cone, ConicProgram, Objective
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost, Kind, entries

DENSE_SHARE = 0.25  # of entries that are not 0, from which a matrix is faster dense


class Builder(ConicForm):
    """A conic form that becomes a program once all is in it."""

    def owners(self, multipliers: Host) -> list[str]:
        """Whose rows have multipliers other than 0, in words."""
        owners = itertools.chain(*self._names.values())
        names = (owner.format(i) for owner, numbers in owners for i in numbers)
        return list(dict.fromkeys(itertools.compress(names, multipliers)))

    def program(self, costs: Iterable[Cost]) -> ConicProgram:
        """All of it, the equations first."""
        kinds = self._constraints
        parts = [terms for kind in kinds.values() for terms in kind]
        offsets = [terms.offset for terms in parts]
        return ConicProgram(
            rows=-_sparse(parts, self.size).tocsc(),
            offset=np.concatenate([np.zeros(0), *offsets]),
            cones=tuple(_cones(kinds)),
            objectives=tuple(_objective(cost, self.size) for cost in costs),
            variables=np.arange(self.n),
            reach=np.concatenate(self._reach),
        )


def _objective(cost: Cost, size: int) -> Objective:
    """In a program of so many variables."""
    q, constant = np.zeros(size), cost.constant
    for w, terms in cost.linear:
        constant += float(w @ terms.offset)
        for first, block in terms.blocks:
            q[first : first + block.shape[1]] += block.T @ w
    squares = _stacked(cost.squares, size)
    target = np.concatenate([np.zeros(0), *(-terms.offset for terms in cost.squares)])
    return Objective(squares, target, q, constant, tuple(cost.misfits))


def _cones(constraints: dict[Kind, list[Affine]]) -> list[Cone]:
    """The cones of all constraints in their order; one of all equations, one of all >= 0."""
    cones: list[Cone] = []
    for kind, parts in constraints.items():
        sizes = [len(terms) for terms in parts]
        if kind == "second-order":
            cones += [Cone(kind, size) for size in sizes]
        elif kind == "exponential":
            cones += [Cone(kind, 3)] * (sum(sizes) // 3)
        elif sum(sizes):
            cones.append(Cone(kind, sum(sizes)))
    return cones


def _sparse(parts: Sequence[Affine], size: int) -> Any:
    """All parts below each other as one matrix that is multiplied with z, in CSR form."""
    from scipy.sparse import csr_array

    rows, columns, values = ([np.zeros(0, dtype=kind)] for kind in (np.int64, np.int64, float))
    start = 0
    for terms in parts:
        for first, block in terms.blocks:
            i, j, some = entries(block)
            rows.append(i + start)
            columns.append(j + first)
            values.append(some)
        start += len(terms)
    places = np.concatenate(rows), np.concatenate(columns)
    made = csr_array((np.concatenate(values), places), shape=(start, size))
    made.eliminate_zeros()
    return made


def _stacked(parts: Sequence[Affine], size: int) -> Any:
    """The same, dense where a large share of the entries is not 0."""
    rows = sum(len(terms) for terms in parts)
    blocks = [block for terms in parts for _, block in terms.blocks]
    counts = (b.count_nonzero() if arrays.is_sparse(b) else np.count_nonzero(b) for b in blocks)
    if sum(counts) <= DENSE_SHARE * rows * size:
        return _sparse(parts, size)
    if len(blocks) == 1 and blocks[0].shape == (rows, size) and not arrays.is_sparse(blocks[0]):
        return blocks[0]  # which may be large
    made, start = np.zeros((rows, size)), 0
    for terms in parts:
        for first, block in terms.blocks:
            here = slice(start, start + len(terms)), slice(first, first + block.shape[1])
            made[here] += block.toarray() if arrays.is_sparse(block) else block
        start += len(terms)
    return made
