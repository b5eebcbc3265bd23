"""Units in which the numbers of a program are about 1: powers of two, so nothing is rounded.

Levels are always solved in these units, so the answer does not depend on the user's units. Without
such units, variables in different units and rows of different lengths would hide each other's
errors, because a rounding error in one row may be as large as the entries of another row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.program import ConicProgram, Objective, cone_groups, largest_of_group
from tiebreak.conic.stage import as_rows
from tiebreak.linalg import TOL, Host, deadline
from tiebreak.linalg.conic_form import entries, scaled_rows
from tiebreak.linalg.host import power_of_two

FARTHEST_UNIT = 200  # units are between 2^-FARTHEST_UNIT and 2^FARTHEST_UNIT


class Units(NamedTuple):
    """The units of a program's z, its levels' values and its rows."""

    lengths: Host  # one unit for each entry of z
    values: Host  # one unit for each level
    rows: Host  # one unit for each row


class _Entries(NamedTuple):
    """The nonzero entries of some rows: their positions and sizes."""

    row: Host
    column: Host
    size: Host


def in_units(program: ConicProgram) -> tuple[ConicProgram, Units]:
    """Return the program in suitable units, with rows of length about 1, and these units.

    z = units.lengths * the new z; a value of level i = units.values[i] * the new value. Small
    matrices are returned as dense arrays.
    """
    rows, squares = as_rows(program.rows), [as_rows(h.squares) for h in program.objectives]
    linear = np.array([h.linear for h in program.objectives])
    targets = np.concatenate([program.offset, *(h.target for h in program.objectives)])
    # Rows of one cone share a unit; each row of an objective has its own unit.
    more = np.arange(len(program.offset), len(targets) + len(linear))
    group = np.append(cone_groups(program.cones), more)
    deadline.check()
    everything = _entries([rows, *squares, linear])
    lengths = _columns(everything, group, program.size, range(len(program.offset), len(targets)))
    deadline.check()
    scaled = everything.size * lengths[everything.column]
    squared = np.bincount(everything.row, scaled**2, minlength=len(group))
    sizes = np.sqrt(largest_of_group(np.arange(len(group)), squared, group))[: len(targets)]
    distance = _distance(sizes, targets)
    lengths = lengths * distance
    largest = largest_of_group(everything.row, scaled, group)[: len(program.offset)]
    widths = _power_of_two(largest * distance)
    pairs = [
        _objective(h, scaled_rows(F, np.ones(F.shape[0]), lengths), lengths)
        for h, F in zip(program.objectives, squares, strict=True)
    ]
    values, evaluate = np.array([unit for _, unit in pairs]), program.evaluate

    def evaluated(i: int, z: Host) -> tuple[float, float]:
        assert evaluate is not None
        value, error = evaluate(i, lengths * z)
        return value / float(values[i]), error / float(values[i])

    new = replace(
        program,
        rows=scaled_rows(rows, 1.0 / widths, lengths),
        offset=program.offset / widths,
        objectives=tuple(objective for objective, _ in pairs),
        reach=program.reach / lengths,
        evaluate=None if evaluate is None else evaluated,
    )
    return new, Units(lengths, values, widths)


def _objective(h: Objective, F: Any, lengths: Host) -> tuple[Objective, float]:
    """Return h divided by a unit that makes its slopes about 1, and the unit; F is scaled."""
    deadline.check()
    q, steepest = h.linear * lengths, float(abs(F).max()) ** 2 if F.shape[0] else 0.0
    root = float(_power_of_two(np.sqrt(max(steepest, float(np.max(np.abs(q)))))))
    unit = root * root
    new = Objective(
        squares=F / root,
        target=h.target / root,
        linear=q / unit,
        constant=h.constant / unit,
        misfits=(lambda sizes: h.misfit(lengths * sizes) / unit,) * bool(h.misfits),
    )
    return new, unit


def _distance(sizes: Host, targets: Host) -> float:
    """Return a length: the typical distance of the hyperplanes rows z = target from 0."""
    which = (targets != 0.0) & (sizes > 0.0)
    if not which.any():
        return 1.0
    return float(_power_of_two(np.median(np.abs(targets[which]) / sizes[which])))


def _columns(entries: _Entries, group: Host, n: int, squares: range) -> Host:
    """Return units of the variables that make the entries of every row as similar as possible.

    They are computed from mean logarithms over rows and columns in turn, and are 1 if scaling makes
    little difference. Rows of one cone share a unit. A row with one entry is ignored: it is a
    bound, whatever its unit. Entries of ``squares`` are ignored if they are rounding errors
    relative to others in their row and column, which is common in matrix square roots.
    """
    groups = int(group[-1]) + 1 if len(group) else 0
    in_row = largest_of_group(entries.row, entries.size, group)[entries.row]
    in_column = largest_of_group(entries.column, entries.size, np.arange(n))[entries.column]
    largest = np.minimum(in_row, in_column)
    is_square = (squares.start <= entries.row) & (entries.row < squares.stop)
    says = ~is_square | (entries.size > TOL.rounding * largest)
    entries = _Entries(*(part[says] for part in entries))
    several = np.bincount(group[entries.row], minlength=groups)[group[entries.row]] > 1
    rows, columns = group[entries.row][several], entries.column[several]
    logs = np.log2(entries.size[several])
    of_rows, of_columns = (
        np.bincount(places, logs, minlength=count)
        for places, count in ((rows, groups), (columns, n))
    )
    in_rows, in_columns = (
        np.maximum(np.bincount(places, minlength=count), 1)
        for places, count in ((rows, groups), (columns, n))
    )
    units = -of_columns / in_columns  # exponents of two
    for _ in range(TOL.sweeps):
        deadline.check()
        before = units
        rest = (of_rows + np.bincount(rows, units[columns], minlength=groups)) / in_rows
        units = (np.bincount(columns, rest[rows], minlength=n) - of_columns) / in_columns
        # Stop when units change by less than 2^(1/4).
        if np.max(np.abs(units - before), initial=0.0) < 0.25:
            break
    # Units that differ by less than 2^7 count as equal.
    if np.ptp(units) <= 7.0:
        return np.ones(n)
    return np.asarray(np.exp2(np.round(units - np.median(units))))


def _entries(parts: list[Any]) -> _Entries:
    """Return the entries of stacked matrices."""
    ends = np.cumsum([0, *(part.shape[0] for part in parts)])
    found = [
        (row + first, column, np.abs(value))
        for first, (row, column, value) in zip(ends, map(entries, parts), strict=False)
    ]
    row, column, size = (np.concatenate(some) for some in zip(*found, strict=True))
    is_there = size > 0.0
    return _Entries(row[is_there], column[is_there], size[is_there])


def _power_of_two(values: Any) -> Host:
    """Return the nearest powers of two, and 1 for 0."""
    return np.clip(power_of_two(np.asarray(values), 1.0), 2.0**-FARTHEST_UNIT, 2.0**FARTHEST_UNIT)
