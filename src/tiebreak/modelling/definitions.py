"""Auxiliary variables that are only defined by an equation are substituted into the objectives.

CVXPY writes |A x - b|² as |u|² with the rows u = A x - b. After substitution it is a square of x
again, with fewer variables and rows, and its rounding is measured against A x and b, not against u,
which is 0 for an exact fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.conic.program import Cone, Objective
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.tolerances import TOL


class Definitions:
    """u = given - taken w, where z = (w, u) in some order.

    Args:
        rows: the rows of the program, a sparse array (csc). equations: how many of the first rows
            are equations. variables: the columns that are never substituted.

    Attributes:
        kept, defined: which entries of z are w and u.
        variables: which entries of w are the variables.
        rows: the remaining rows, which multiply w.
    """

    def __init__(self, rows: Any, equations: int, variables: Host) -> None:
        import scipy.sparse as sp

        self.matrix = rows = sp.csc_array(rows)
        m, n = rows.shape
        # Each u occurs in one row only, so substituting it changes no other row.
        alone = np.diff(rows.indptr) == 1
        alone[variables] = False
        columns = np.flatnonzero(alone)
        where, size = rows.indices[rows.indptr[columns]], rows.data[rows.indptr[columns]]
        largest = abs(rows).max(axis=1).toarray().ravel() if len(columns) else np.zeros(m)
        good = (where < equations) & (np.abs(size) > TOL.independent * largest[where])
        self._where, first = np.unique(where[good], return_index=True)
        self.defined, self._pivot = columns[good][first], size[good][first]
        self.kept = np.delete(np.arange(n), self.defined)
        self.variables = np.searchsorted(self.kept, variables)
        self._others = np.delete(np.arange(m), self._where)
        inner = rows[:, self.kept]
        self.rows = inner[self._others]
        self._taken = sp.csr_array(inner[self._where].multiply(1.0 / self._pivot[:, None]))

    def given(self, offset: Host) -> Host:
        """The offset in u, from the program's offset."""
        return np.asarray(offset[self._where] / self._pivot)

    def offset(self, offset: Host) -> Host:
        """The offset of the remaining rows."""
        return np.asarray(offset[self._others])

    def multipliers(self, y: Host) -> Host:
        """The multipliers of all rows, 0 for those that define u."""
        found = np.zeros(self.matrix.shape[0])
        found[self._others] = y
        return found

    def cones(self, cones: tuple[Cone, ...]) -> tuple[Cone, ...]:
        """The cones without the equations that define u; all equations come first."""
        if not len(self.defined):
            return cones
        left = Cone("zero", cones[0].size - len(self.defined))
        return (left, *cones[1:]) if left.size else cones[1:]

    def objective(self, h: Objective, given: Host) -> Objective:
        """The objective h of z, as a function of w."""
        import scipy.sparse as sp

        F = sp.csc_array(h.squares)
        ours = F[:, self.defined]
        squares = sp.csr_array(F[:, self.kept] - ours @ self._taken)
        linear = h.linear[self.kept] - self._taken.T @ h.linear[self.defined]
        constant = h.constant + float(h.linear[self.defined] @ given)
        return Objective(squares, h.target - ours @ given, linear, constant)

    def lifted(self, w: Host, given: Host) -> Host:
        """The z for this w."""
        z = np.empty(len(self.kept) + len(self.defined))
        z[self.kept], z[self.defined] = w, given - self._taken @ w
        return z
