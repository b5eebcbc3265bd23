"""Functions, penalties and sets as pieces of a conic program.

Squares stay squares; any other nonlinear function gets auxiliary variables, whose least cost for a
given x is the function's value at x.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tiebreak.conic.program import DENSE_SHARE, Cone, ConicProgram, Objective
from tiebreak.functions import Function, Penalty, split, summands
from tiebreak.levels import value_with_error
from tiebreak.linalg import Host, Refusal
from tiebreak.linalg.conic_form import Affine, ConicForm, Cost, Kind, entries
from tiebreak.linalg.host_rows import rounded_sums
from tiebreak.sets import Domain
from tiebreak.sets.descriptions import bounds_on

CONES = "must consist of functions that cones can represent"


def compile_levels(
    objectives: Sequence[Function | Penalty],
    domain: Domain,
    n: int,
    radius: float | None = None,
    owner: str = "Levels",
) -> ConicProgram:
    """Compile objectives in order of priority on a set in R^n into a conic program.

    Args:
        radius: |x| <= radius for some solution, if known; it bounds ``reach`` and is not a
            constraint.
        owner: the name that a `Refusal` gives if cones cannot represent an objective.
    """
    sets = check_levels(objectives, domain, n, owner)
    lower, upper, reach = bounds_on(sets, n)
    builder = Builder(lower, upper, min(reach, math.inf if radius is None else float(radius)))
    for part in sets:
        builder.owner = type(part).__name__
        part.conic_form(builder)
    costs = [
        _cost(h, builder, partial(Refusal, owner, f"level {i + 1}"))
        for i, h in enumerate(objectives)
    ]

    def evaluate(number: int, z: Host) -> tuple[float, float]:
        return value_with_error(objectives[number], z[:n])

    return replace(builder.program(costs), evaluate=evaluate, owners=builder.owners)


def check_levels(
    objectives: Sequence[Function | Penalty], domain: Domain, n: int, owner: str
) -> list[Domain]:
    """Raise a `Refusal` if cones cannot represent the levels; return the sets. Reads no data."""
    sets = [*domain.parts]
    for i, h in enumerate(objectives):
        restriction = split(h)[1].terms.domain
        if restriction.is_space:
            continue
        if i > 0:  # a set in a later level would restrict the earlier ones too
            got = f"the indicator of {type(restriction).__name__}"
            raise Refusal(owner, f"level {i + 1}", "must not contain a set", got)
        sets += restriction.parts
    for part in sets:
        if not part.is_conic:
            needed = "must be a set that cones can represent, such as Ball, Box or Polyhedron"
            raise Refusal(owner, "domain", needed, type(part).__name__)
        part.check(n)
    for i, h in enumerate(objectives):
        _check(h, n, partial(Refusal, owner, f"level {i + 1}"))
    return sets


def _check(h: Function | Penalty, n: int, refused: Callable[[str, str], Refusal]) -> None:
    """Raise a `Refusal` if cones cannot represent an objective."""
    smooth, penalty = _split(h)
    if smooth.dimension not in (None, n):
        raise refused(f"must have one variable for each of the {n}", f"{smooth.dimension}")
    for _, part in summands(smooth):
        if not part.bare.is_conic:
            raise refused(CONES, _called(part.bare))
    penalty.check(n)
    if not penalty.is_conic(n):
        raise refused(CONES, f"the penalty {penalty.label}")


def _split(h: Function | Penalty) -> tuple[Function, Penalty]:
    return split(h if isinstance(h, Penalty) else h.bare)


def _cost(h: Function | Penalty, builder: Builder, refused: Callable[[str, str], Refusal]) -> Cost:
    """Return the cost of an objective, and add its auxiliary variables to the builder."""
    cost = Cost()
    smooth, penalty = _split(h)
    for weight, part in summands(smooth):
        if not part.bare.add_to_conic(builder, cost, weight):
            raise refused(CONES, _called(part.bare))
    if not penalty.add_to_conic(builder, cost):
        raise refused(CONES, f"the penalty {penalty.label}")
    return cost


def _called(h: Function) -> str:
    """Describe a function that cones cannot represent."""
    name, matrix = type(h).__name__, h.matrix
    if matrix is not None and not matrix.is_at_hand:
        return f"{name} of {matrix.known_by}, whose entries are not known"
    return f"{name}, known by {h.known_by}" if h.known_by else name


class Builder(ConicForm):
    """A conic form that is built piece by piece and then becomes a program."""

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
            objectives=tuple(objective_of(cost, self.size) for cost in costs),
            variables=np.arange(self.n),
            reach=np.concatenate(self._reach),
        )


def objective_of(cost: Cost, size: int) -> Objective:
    """Return the objective of a program with this many variables."""
    linear, error = _linear_part(cost, size)
    squares = _stacked(cost.squares, size)
    target = np.concatenate([np.zeros(0), *(-terms.offset for terms in cost.squares)])
    misfits = [part.at for part in cost.misfits]
    if error.any():
        misfits.append(lambda sizes: float(error @ np.append(sizes, 1.0)))
    return Objective(squares, target, linear[:-1], float(linear[-1]), tuple(misfits))


def _linear_part(cost: Cost, size: int) -> tuple[Host, Host]:
    """Return the linear part of a cost, followed by the constant, and bounds on its errors.

    Costs of many rows may nearly cancel, so each sum over the rows is rounded only once.
    """
    numbers, weights, units = [np.array([cost.constant])], [np.ones(1)], [np.zeros(1)]
    places = [np.array([size])]
    for w, terms, unit in cost.linear:
        constants = np.full(len(w), size)
        parts = [(np.arange(len(w)), constants, terms.offset)]
        for first, block in terms.blocks:
            row, column, some = entries(block)
            parts.append((row, column + first, some))
        for row, place, some in parts:
            numbers.append(some)
            weights.append(w[row])
            places.append(place)
            units.append(np.full(len(row), unit))
    values, factors, where = map(np.concatenate, (numbers, weights, places))
    sums, errors = rounded_sums(values, factors, where, size + 1)
    of_weights = np.concatenate(units) * np.abs(values * factors)
    return sums, errors + np.bincount(where, of_weights, size + 1)


def _cones(constraints: dict[Kind, list[Affine]]) -> list[Cone]:
    """Return the cones of all constraints: one for equations, one for s >= 0, then all others."""
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
        return blocks[0]  # no copy, because the block may be large
    made = _sparse(parts, size)
    return made.toarray() if made.nnz > least else made
