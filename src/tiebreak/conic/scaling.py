"""Units in which the numbers of a program are about 1: powers of two, so that nothing is rounded.

An answer must not depend on the units of the question: levels are always solved in these. And
variables of different units and rows of different lengths hide each other's errors: what is
rounding for one is all there is of another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.program import ConicProgram, Objective, cone_groups
from tiebreak.conic.stage import as_rows, row_lengths
from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.conic_form import scaled_rows
from tiebreak.linalg.host import power_of_two
from tiebreak.linalg.tolerances import TOL

ALIKE_UNITS = 7.0  # powers of two: units of variables that differ by less are alike
FARTHEST_UNIT = 200  # units are between 2^-FARTHEST_UNIT and 2^FARTHEST_UNIT
STEADY = 0.25  # powers of two: units that change by less are found


class Units(NamedTuple):
    """What a program's z and the values of its levels are measured in."""

    lengths: Host  # one for each entry of z
    values: Host  # one for each level
    rows: Host  # one for each row


def in_units(program: ConicProgram) -> tuple[ConicProgram, Units]:
    """The same program with z and values in units of their own, rows of about length 1, and these.

    z = units.lengths * the new z, a value of level i = units.values[i] * the new value. Matrices
    that are small come out dense.
    """
    rows, squares = as_rows(program.rows), [as_rows(h.squares) for h in program.objectives]
    linear = np.array([h.linear for h in program.objectives])
    targets = np.concatenate([program.offset, *(h.target for h in program.objectives)])
    # Rows of one cone have one unit, those of the objectives their own.
    more = np.arange(len(program.offset), len(targets) + len(linear))
    groups = np.append(cone_groups(program.cones), more)
    deadline.check()
    everything = _stacked([rows, *squares, linear])
    lengths = _columns(everything, groups)
    deadline.check()
    sizes = _of_groups(row_lengths(_scaled(everything, lengths)), groups)[: len(targets)]
    lengths = lengths * _distance(sizes, targets)
    rows = _scaled(rows, lengths)
    widths = _power_of_two(_of_groups(_most(rows, 1), groups[groups < rows.shape[0]]))
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
        rows=scaled_rows(rows, 1.0 / widths),
        offset=program.offset / widths,
        objectives=tuple(objective for objective, _ in pairs),
        reach=program.reach / lengths,
        evaluate=None if evaluate is None else evaluated,
    )
    return new, Units(lengths, values, widths)


def _objective(h: Objective, F: Any, lengths: Host) -> tuple[Objective, float]:
    """In units in which its slopes are about 1, and this unit; F is in those of z already."""
    deadline.check()
    q, steepest = h.linear * lengths, float(np.max(_most(F, 0))) ** 2
    root = float(_power_of_two(np.sqrt(max(steepest, float(np.max(np.abs(q)))))))
    unit = root * root
    new = Objective(
        squares=F / root,
        target=h.target / root,
        linear=q / unit,
        constant=h.constant / unit,
        misfits=tuple(part.in_units(lengths, unit) for part in h.misfits),
    )
    return new, unit


def _distance(sizes: Host, targets: Host) -> float:
    """A length of the program: the distance of most hyperplanes rows z = target from the origin."""
    which = (targets != 0.0) & (sizes > 0.0)
    if not which.any():
        return 1.0
    return float(_power_of_two(np.median(np.abs(targets[which]) / sizes[which])))


def _columns(rows: Any, groups: Host) -> Host:
    """Of the variables: in these units the entries of every row are as much alike as they can be.

    By means of logarithms over rows and columns in turn; 1 where that makes little difference. Rows
    of one cone have one unit. A row of one entry says nothing: it is a bound, in any unit.
    """
    logs = rows.copy()
    if isinstance(rows, np.ndarray):
        np.log2(np.abs(rows), out=logs, where=rows != 0.0)
    else:
        logs.eliminate_zeros()
        logs.data = np.log2(np.abs(logs.data))
    used, logs = _added((rows != 0).astype(float), groups), _added(logs, groups)
    several = np.asarray(used.sum(axis=1)).ravel() > 1.0
    used, logs = used[several], logs[several]
    of_rows, of_columns = (np.asarray(logs.sum(axis=axis)).ravel() for axis in (1, 0))
    in_rows, in_columns = (np.asarray(used.sum(axis=axis)).ravel() for axis in (1, 0))
    in_columns = np.maximum(in_columns, 1.0)
    units = -of_columns / in_columns  # as powers of two
    for _ in range(TOL.sweeps):
        deadline.check()
        before = units
        rest = (of_rows + used @ units) / in_rows
        units = (used.T @ rest - of_columns) / in_columns
        if np.max(np.abs(units - before)) < STEADY:
            break
    if np.ptp(units) <= ALIKE_UNITS:
        return np.ones(len(units))
    return np.asarray(np.exp2(np.round(units - np.median(units))))


def _added(rows: Any, groups: Host) -> Any:
    """The sums of the rows of each group."""
    if isinstance(rows, np.ndarray):
        return np.add.reduceat(rows, groups, axis=0)
    import scipy.sparse as sp

    m, ends = rows.shape[0], np.append(groups, rows.shape[0])
    return sp.csr_array((np.ones(m), np.arange(m), ends), shape=(len(groups), m)) @ rows


def _of_groups(sizes: Host, groups: Host) -> Host:
    """For every row the largest in its group."""
    if not len(groups):
        return sizes
    largest = np.maximum.reduceat(sizes, groups)
    return np.repeat(largest, np.diff(np.append(groups, len(sizes))))


def _stacked(parts: list[Any]) -> Any:
    """One below the other; dense if all are."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.vstack(parts)
    import scipy.sparse as sp

    return sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts]))


def _scaled(matrix: Any, columns: Host) -> Any:
    """Every column times its factor."""
    if isinstance(matrix, np.ndarray):
        return matrix * columns
    return matrix.multiply(columns[None]).tocsr()


def _most(matrix: Any, axis: int) -> Host:
    """The largest sizes of entries."""
    if not all(matrix.shape):
        return np.zeros(matrix.shape[1 - axis])
    most = abs(matrix).max(axis=axis)
    return np.asarray(most.todense() if hasattr(most, "todense") else most).ravel()


def _power_of_two(values: Any) -> Host:
    """Next to these, 1 in the place of 0."""
    return np.clip(power_of_two(np.asarray(values), 1.0), 2.0**-FARTHEST_UNIT, 2.0**FARTHEST_UNIT)
