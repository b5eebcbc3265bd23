"""A conic program, piece by piece: variables with their sizes, constraints, and objectives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np

from tiebreak.conic.program import Cone, ConicProgram, Kind, Objective
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import SAFE, Host
from tiebreak.linalg.conic_form import Affine, Cost, constants, entries, stacked_terms

DENSE_SHARE = 0.25  # of entries that are not 0, from which a matrix is faster dense


class Builder:
    """Variables z = (x, auxiliary ones), and constraints on them.

    Args:
        lower, upper: lower <= x <= upper on the whole feasible set; infinite where not known.
        radius: |x| <= radius for some solution, inf where not known.
    """

    def __init__(self, lower: Host, upper: Host, radius: float = math.inf) -> None:
        self.lower, self.upper = lower, upper
        farthest = np.maximum(np.abs(lower), np.abs(upper))
        self.radius: float = min(radius, arrays.norm(farthest) * SAFE)
        self._reach = [np.minimum(farthest, self.radius)]
        self.n = self.size = len(lower)
        self._constraints: dict[Kind, list[Affine]] = {kind: [] for kind in get_args(Kind)}
        self._names: dict[Kind, list[tuple[str, Any]]] = {kind: [] for kind in get_args(Kind)}
        self.owner = ""  # of the constraints to come, in words, with {} for the number of a row

    @property
    def x(self) -> Affine:
        """The variables of the problem."""
        return _identity(0, self.n)

    def of_x(self, matrix: Any, offset: Host | float = 0.0) -> Affine:
        """matrix x + offset; the matrix is NumPy's or SciPy's."""
        if not arrays.is_sparse(matrix):
            matrix = np.asarray(matrix, dtype=np.float64)
        rows = np.broadcast_to(np.asarray(offset, dtype=np.float64), matrix.shape[0])
        return Affine(((0, matrix),), rows)

    def variables(self, count: int, reach: Host | float = math.inf) -> Affine:
        """New ones, each at most ``reach`` in size in some solution."""
        made = _identity(self.size, count)
        self._reach.append(np.array(np.broadcast_to(reach, count), dtype=np.float64))
        self.size += count
        return made

    def zero(self, terms: Affine, numbers: Host | None = None) -> None:
        """terms = 0; ``numbers``: of the rows, for their names."""
        self._add("zero", terms, numbers)

    def nonnegative(self, terms: Affine, numbers: Host | None = None) -> None:
        """terms >= 0; ``numbers``: of the rows, for their names."""
        self._add("nonnegative", terms, numbers)

    def second_order(self, top: Affine, rest: Affine) -> None:
        """top >= |rest|; top is one number."""
        self._add("second-order", stacked_terms([top, rest]))

    def exponential(self, exponent: Affine, above: Affine) -> None:
        """exp(exponent_i) <= above_i for every i."""
        count = len(exponent)
        each = stacked_terms([exponent, constants(np.ones(count)), above])
        turns = np.arange(3 * count).reshape(3, count).T.reshape(-1)  # cone by cone
        self._add("exponential", each.some(turns))

    def _add(self, kind: Kind, terms: Affine, numbers: Host | None = None) -> None:
        self._constraints[kind].append(terms)
        self._names[kind].append((self.owner, range(len(terms)) if numbers is None else numbers))

    def owners(self, multipliers: Host) -> list[str]:
        """Whose rows have multipliers other than 0, in words."""
        owners = itertools.chain(*self._names.values())
        names = (owner.format(i) for owner, numbers in owners for i in numbers)
        return list(dict.fromkeys(itertools.compress(names, multipliers)))

    def bound(self, terms: Affine) -> Host:
        """A bound on the size of each number, from those of the variables."""
        reach, total = np.concatenate(self._reach), np.abs(terms.offset)
        for first, block in terms.blocks:
            size, known = abs(block), reach[first : first + block.shape[1]]
            most = _product(size, known)
            if first == 0 and block.shape[1] == self.n and self.radius < math.inf:
                squares = block.multiply(block) if arrays.is_sparse(block) else block * block
                most = np.minimum(most, np.sqrt(squares.sum(axis=1)) * self.radius)
            total = total + most
        return np.asarray(total * SAFE)

    def signs(self, terms: Affine) -> Host:
        """1 for numbers that are >= 0 on the whole feasible set, -1 for <= 0, 0 for others.

        terms are of x alone.
        """
        found = np.zeros(len(terms))
        for sign, near, far in ((1.0, self.lower, self.upper), (-1.0, -self.upper, -self.lower)):
            # The smallest value of sign * terms, and the sizes of what it is the sum of.
            least, sizes = sign * terms.offset, np.abs(terms.offset)
            for first, block in terms.blocks:
                assert first + block.shape[1] <= self.n
                up, down = _positive(block), _positive(-block)
                least = least + _product(up, near) - _product(down, far)
                sizes = sizes + _product(up, np.abs(near)) + _product(down, np.abs(far))
            sure = least >= (SAFE - 1.0) * sizes
            found[sure & (found == 0.0)] = sign
        return found

    def absolute(self, terms: Affine, is_of_x: bool = True) -> Affine:
        """Numbers that are |terms| where they are minimised."""
        signs = self.signs(terms) if is_of_x else np.zeros(len(terms))
        known = signs != 0.0
        if known.all():
            return terms.scaled(signs)
        open_terms = terms.some(~known)
        sizes = self.variables(len(open_terms), self.bound(open_terms))
        self.nonnegative(sizes - open_terms)
        self.nonnegative(sizes + open_terms)
        return stacked_terms([sizes, terms.scaled(signs).some(known)], _order(~known))

    def length(self, terms: Affine) -> Affine:
        """One number that is |terms|, the Euclidean norm, where it is minimised."""
        most = arrays.norm(self.bound(terms)) * SAFE
        is_of_x = all(first == 0 for first, _ in terms.blocks)
        if is_of_x and self.radius < math.inf:
            of_matrix = sum(_norm_bound(block) for _, block in terms.blocks)
            most = min(most, (of_matrix * self.radius + arrays.norm(terms.offset)) * SAFE)
        size = self.variables(1, most)
        self.second_order(size, terms)
        return size

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


def _identity(first: int, count: int) -> Affine:
    from scipy.sparse import eye_array

    return Affine(((first, eye_array(count, format="csr")),), np.zeros(count))


def _order(is_first: Host) -> Host:
    """Where to find each entry, if those that ``is_first`` came before all others."""
    order = np.empty(len(is_first), dtype=np.int64)
    order[np.concatenate([np.flatnonzero(is_first), np.flatnonzero(~is_first)])] = np.arange(
        len(is_first)
    )
    return order


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


def _product(size: Any, reach: Host) -> Host:
    """A matrix without negative entries times numbers that may be infinite, where 0 inf = 0."""
    known = np.isfinite(reach)
    total = np.asarray(size @ np.where(known, reach, 0.0))
    if not known.all():
        for end in (math.inf, -math.inf):
            total = np.where(np.asarray(size @ (reach == end).astype(float)) > 0.0, end, total)
    return total


def _positive(block: Any) -> Any:
    """max(entries, 0)."""
    return block.maximum(0.0) if arrays.is_sparse(block) else np.maximum(block, 0.0)


def _norm_bound(block: Any) -> float:
    """A bound on the largest singular value, which it is where no two entries share a line."""
    rows, columns, values = entries(block)
    is_choice = all(len(np.unique(places)) == len(places) for places in (rows, columns))
    return float(np.max(np.abs(values), initial=0.0)) if is_choice else arrays.norm(values)
