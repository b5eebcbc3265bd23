"""Units in which the numbers of a program are about 1: powers of two, so that nothing is rounded.

An answer must not depend on the units of the question: levels are always solved in these. And
variables of different units and rows of different lengths hide each other's errors: what is
rounding for one is all there is of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.program import Cone, ConicProgram, Objective
from tiebreak.conic.stage import as_rows, row_lengths, stacked
from tiebreak.linalg.arrays import Host

SWEEPS = 20  # over rows and columns in turn
WIDE = 7.0  # powers of two: units of variables that differ by less are alike
FARTHEST = 200  # units are between 2^-FARTHEST and 2^FARTHEST


class Units(NamedTuple):
    """What a program's z and the values of its levels are measured in."""

    lengths: Host  # one for each entry of z
    values: Host  # one for each level


def in_units(program: ConicProgram) -> tuple[ConicProgram, Units]:
    """The same program with z and values in units of their own, rows of about length 1, and these.

    z = units.lengths * the new z, a value of level i = units.values[i] * the new value. Matrices
    that are small come out dense.
    """
    rows, squares = as_rows(program.rows), [as_rows(h.squares) for h in program.objectives]
    everything = stacked([rows, *squares, *(h.linear[None] for h in program.objectives)])
    group = _groups(program.cones, everything.shape[0] - rows.shape[0])
    lengths = _columns(everything, group)
    targets = [program.offset, *(h.target for h in program.objectives)]
    lengths = lengths * _distance([rows, *squares], targets, lengths)
    rows = _scaled(rows, lengths)
    widths = _row_widths(rows, group[: rows.shape[0]])
    pairs = [
        _objective(h, _scaled(F, lengths), lengths)
        for h, F in zip(program.objectives, squares, strict=True)
    ]
    values, evaluate = np.array([unit for _, unit in pairs]), program.evaluate

    def evaluated(i: int, z: Host) -> float:
        assert evaluate is not None
        return evaluate(i, lengths * z) / float(values[i])

    new = replace(
        program,
        rows=_scaled(rows, None, 1.0 / widths),
        offset=program.offset / widths,
        objectives=tuple(objective for objective, _ in pairs),
        reach=program.reach / lengths,
        evaluate=None if evaluate is None else evaluated,
    )
    return new, Units(lengths, values)


def _objective(h: Objective, F: Any, lengths: Host) -> tuple[Objective, float]:
    """In units in which its slopes are about 1, and this unit; F is in those of z already."""
    q = h.linear * lengths
    size = max(float(np.max(_most(F, 0), initial=0.0)) ** 2, float(np.max(np.abs(q), initial=0.0)))
    root = float(_power_of_two(np.sqrt(size)))
    unit = root * root
    new = Objective(
        squares=F / root,
        target=h.target / root,
        linear=q / unit,
        constant=h.constant / unit,
        misfits=tuple(part.in_units(lengths, unit) for part in h.misfits),
    )
    return new, unit


def _distance(matrices: Sequence[Any], targets: Sequence[Host], lengths: Host) -> float:
    """A length of the program: that of most hyperplanes rows z = target from the origin."""
    found = []
    for rows, target in zip(matrices, targets, strict=True):
        which = target != 0.0
        widths = row_lengths(_scaled(rows[which], lengths))
        found.append(np.abs(target[which])[widths > 0.0] / widths[widths > 0.0])
    every = np.concatenate(found)
    return float(_power_of_two(np.median(every))) if every.size else 1.0


def _columns(rows: Any, group: Host) -> Host:
    """Of the variables: in these units the entries of every row are as much alike as they can be.

    By means of logarithms over rows and columns in turn; 1 where that makes little difference. Rows
    of one cone have one unit. A row of one entry says nothing: it is a bound, in any unit.
    """
    used, sizes = rows != 0, abs(rows)
    several = (np.bincount(group, np.asarray(used.sum(axis=1)).ravel()) > 1.0)[group]
    used, sizes, group = used[several].astype(float), sizes[several], group[several]
    if isinstance(sizes, np.ndarray):
        logs = np.log2(sizes, out=np.zeros(sizes.shape), where=sizes > 0.0)
    else:
        logs = sizes
        logs.eliminate_zeros()
        logs.data = np.log2(logs.data)
    of_rows, of_columns = (np.asarray(logs.sum(axis=axis)).ravel() for axis in (1, 0))
    in_rows, in_columns = (np.asarray(used.sum(axis=axis)).ravel() for axis in (1, 0))
    in_groups, in_columns = np.bincount(group, in_rows)[group], np.maximum(in_columns, 1.0)
    units = -of_columns / in_columns  # as powers of two
    for _ in range(SWEEPS):
        of_groups = np.bincount(group, of_rows + used @ units)[group]
        units = (used.T @ (of_groups / in_groups) - of_columns) / in_columns
    if np.ptp(units) <= WIDE:
        return np.ones(len(units))
    return np.asarray(np.exp2(np.round(units - np.median(units))))


def _groups(cones: tuple[Cone, ...], more: int) -> Host:
    """For every row the number of those that have one unit with it, with more rows of their own."""
    sizes: list[int] = []
    for cone in cones:
        sizes += [1] * cone.size if cone.kind in ("zero", "nonnegative") else [cone.size]
    sizes += [1] * more
    return np.repeat(np.arange(len(sizes)), sizes)


def _row_widths(rows: Any, group: Host) -> Host:
    """Powers of two next to the largest entries, the same for all rows of a group."""
    sizes = np.zeros(int(np.max(group, initial=-1)) + 1)
    np.maximum.at(sizes, group, _most(rows, 1))
    return _power_of_two(sizes)[group]


def _scaled(matrix: Any, columns: Host | None, rows: Host | None = None) -> Any:
    """Every column and every row times its factor."""
    if isinstance(matrix, np.ndarray):
        matrix = matrix if columns is None else matrix * columns
        return matrix if rows is None else rows[:, None] * matrix
    matrix = matrix if columns is None else matrix.multiply(columns[None])
    return (matrix if rows is None else matrix.multiply(rows[:, None])).tocsr()


def _most(matrix: Any, axis: int) -> Host:
    """The largest sizes of entries."""
    if not all(matrix.shape):
        return np.zeros(matrix.shape[1 - axis])
    most = abs(matrix).max(axis=axis)
    return np.asarray(most.todense() if hasattr(most, "todense") else most).ravel()


def _positive(values: Host) -> Host:
    return np.where(values > 0.0, values, 1.0)


def _power_of_two(values: Any) -> Host:
    """Next to these, 1 in the place of 0."""
    powers = np.round(np.log2(_positive(np.asarray(values))))
    return np.asarray(np.exp2(np.clip(powers, -FARTHEST, FARTHEST)))
