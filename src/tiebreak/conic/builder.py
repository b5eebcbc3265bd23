"""Builds a conic program from variables with their sizes, constraints and objectives."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tiebreak.conic.program import DENSE_SHARE, Cone, ConicProgram, Objective
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost, Kind, entries


class Builder(ConicForm):
    """A conic form that becomes a program once it is complete."""

    def owners(self, multipliers: Host) -> list[str]:
        """Name the owners of rows with nonzero multipliers."""
        owners = itertools.chain(*self._names.values())
        names = (owner.format(i) for owner, numbers in owners for i in numbers)
        return list(dict.fromkeys(itertools.compress(names, multipliers)))

    def program(self, costs: Iterable[Cost]) -> ConicProgram:
        """Return the program, with its equations first."""
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
    """Return the objective of a program with this many variables."""
    q, constant = np.zeros(size), cost.constant
    for w, terms in cost.linear:
        constant += float(w @ terms.offset)
        for first, block in terms.blocks:
            q[first : first + block.shape[1]] += block.T @ w
    squares = _stacked(cost.squares, size)
    target = np.concatenate([np.zeros(0), *(-terms.offset for terms in cost.squares)])
    return Objective(squares, target, q, constant, tuple(cost.misfits))


def _cones(constraints: dict[Kind, list[Affine]]) -> list[Cone]:
    """Return the cones of all constraints in order: one for equations, one for >= 0, others."""
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
    """Stack all parts into one CSR matrix that multiplies z."""
    from scipy.sparse import csr_array

    if not parts:
        return csr_array((0, size))
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
    """Stack all parts into one matrix, dense if many entries are nonzero."""
    least = DENSE_SHARE * size * sum(len(terms) for terms in parts)
    blocks = [block for terms in parts for _, block in terms.blocks]
    is_one = len(parts) == len(blocks) == 1 and blocks[0].shape[1] == size
    if is_one and isinstance(blocks[0], np.ndarray) and np.count_nonzero(blocks[0]) > least:
        return blocks[0]  # without a copy: it may be large
    made = _sparse(parts, size)
    return made.toarray() if made.nnz > least else made
