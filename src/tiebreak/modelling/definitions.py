"""Auxiliary variables that an equation only defines are put back into the objectives.

CVXPY writes |A x - b|² as |u|² with the rows u = A x - b. Put back, the square is one of x again:
fewer variables and rows, and its rounding is measured against A x and b, not against u, which is 0
where the fit is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.program import Cone, Objective
from tiebreak.linalg.arrays import Host

STEADY = 1e-6  # a coefficient below this, relative to its row, defines nothing


class Definitions(NamedTuple):
    """u = given - taken w, where z = (w, u) in some order."""

    kept: Host  # which entries of z are w
    defined: Host  # which are u
    rows: Host  # all others than those that define u
    taken: Any
    given: Host

    @staticmethod
    def of(rows: Any, offset: Host, equations: int, variables: Host) -> Definitions:
        """Every column that meets one row alone, an equation, and is none of the variables."""
        import scipy.sparse as sp

        rows = sp.csc_array(rows)
        m, n = rows.shape
        alone = np.diff(rows.indptr) == 1
        alone[variables] = False
        columns = np.flatnonzero(alone)
        where, size = rows.indices[rows.indptr[columns]], rows.data[rows.indptr[columns]]
        largest = abs(rows).max(axis=1).toarray().ravel() if len(columns) else np.zeros(m)
        good = (where < equations) & (np.abs(size) > STEADY * largest[where])
        where, first = np.unique(where[good], return_index=True)
        defined, pivot = columns[good][first], size[good][first]
        kept = np.delete(np.arange(n), defined)
        taken = sp.csr_array(rows[where][:, kept].multiply(1.0 / pivot[:, None]))
        return Definitions(
            kept, defined, np.delete(np.arange(m), where), taken, offset[where] / pivot
        )

    def objective(self, h: Objective) -> Objective:
        """In w."""
        import scipy.sparse as sp

        F = sp.csc_array(h.squares)
        ours, linear = F[:, self.defined], h.linear[self.defined]
        return Objective(
            sp.csr_array(F[:, self.kept] - ours @ self.taken),
            h.target - ours @ self.given,
            h.linear[self.kept] - self.taken.T @ linear,
            h.constant + float(linear @ self.given),
        )

    def cones(self, cones: tuple[Cone, ...]) -> tuple[Cone, ...]:
        """Without the equations that are gone: they stood first."""
        if not len(self.defined):
            return cones
        left = Cone("zero", cones[0].size - len(self.defined))
        return (left, *cones[1:]) if left.size else cones[1:]

    def lifted(self, w: Host) -> Host:
        """z of w."""
        z = np.empty(len(self.kept) + len(self.defined))
        z[self.kept], z[self.defined] = w, self.given - self.taken @ w
        return z
