"""Units in which the entries of a program are about 1: powers of two, so that nothing is rounded.

Variables of different units and rows of different lengths hide each other's errors: what is
rounding for one is all there is of another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tiebreak.conic.program import Cone, ConicProgram
from tiebreak.linalg.arrays import Host

SWEEPS = 20  # over rows and columns in turn
WIDE = 2.0**7  # units of variables that differ by less are left as they are
LONG = 2.0**20  # the same for rows


def in_units(program: ConicProgram) -> tuple[ConicProgram, Host]:
    """The program in units of its variables, with rows of about one length, and these units.

    z = units * the new z. A program whose entries are alike stays as it is.
    """
    import scipy.sparse as sp

    rows = sp.csr_array(program.rows)
    if _is_alike(program, rows):
        return program, np.ones(program.size)
    units = _units(program, rows)
    lengths = _lengths(abs(rows) @ units, program.cones)
    columns = sp.diags_array(units)
    evaluate = program.evaluate
    new = replace(
        program,
        rows=sp.csc_array(sp.diags_array(1.0 / lengths) @ rows @ columns),
        offset=program.offset / lengths,
        objectives=tuple(
            replace(
                h,
                squares=_times(h.squares, units),
                linear=h.linear * units,
                misfits=tuple(part.in_units(units) for part in h.misfits),
            )
            for h in program.objectives
        ),
        reach=program.reach / units,
        evaluate=None if evaluate is None else lambda i, z: evaluate(i, units * z),
    )
    return new, units


def _is_alike(program: ConicProgram, rows: Any) -> bool:
    """Are all variables of about one size? Rows may differ more: their lengths are measured."""
    sizes = np.abs(np.array([h.linear for h in program.objectives])).max(axis=0)
    for matrix in (rows, *(h.squares for h in program.objectives)):
        if matrix.shape[0]:
            most = abs(matrix).max(axis=0)
            most = most.todense() if hasattr(most, "todense") else most
            sizes = np.maximum(sizes, np.asarray(most).ravel())
    longest = abs(rows).max(axis=1).todense().ravel() if rows.shape[0] else np.ones(1)
    return not _is_wide(_positive(sizes)) and not _is_wide(_positive(longest), LONG)


def _times(squares: Any, units: Host) -> Any:
    """Each column in its unit."""
    return squares * units if isinstance(squares, np.ndarray) else squares.multiply(units).tocsr()


def _units(program: ConicProgram, rows: Any) -> Host:
    """Of the variables: in them the entries of every row are as much alike as they can be.

    By means of logarithms over rows and columns in turn. Rows of one entry say nothing: they are
    bounds, in any unit.
    """
    import scipy.sparse as sp

    parts = [rows[np.diff(rows.indptr) > 1]]
    for h in program.objectives:
        parts += [sp.csr_array(h.squares), sp.csr_array(h.linear[None])]
    entries = sp.coo_array(sp.vstack(parts))
    entries.eliminate_zeros()
    i, j, sizes = entries.row, entries.col, np.log2(np.abs(entries.data))
    count = np.maximum(np.bincount(i, minlength=entries.shape[0]), 1)
    many = np.maximum(np.bincount(j, minlength=program.size), 1)
    units = np.zeros(program.size)  # as powers of two
    for _ in range(SWEEPS):
        rest = np.bincount(i, sizes + units[j], entries.shape[0]) / count
        units = -np.bincount(j, sizes - rest[i], program.size) / many
    return np.asarray(2.0 ** np.round(units - np.median(units)))


def _lengths(sizes: Host, cones: tuple[Cone, ...]) -> Host:
    """Of the rows, the same for all rows of a cone that is not linear."""
    found, end = _positive(sizes), 0
    for cone in cones:
        place = slice(end, end + cone.size)
        if cone.kind not in ("zero", "nonnegative"):
            found[place] = np.max(sizes[place]) or 1.0
        end += cone.size
    return _power_of_two(found)


def _positive(values: Host) -> Host:
    values = np.array(values, dtype=float).ravel()
    return np.where(values > 0.0, values, 1.0)


def _power_of_two(values: Host) -> Host:
    return np.asarray(2.0 ** np.round(np.log2(values)))


def _is_wide(values: Host, factor: float = WIDE) -> bool:
    return bool(np.max(values) > factor * np.min(values))
