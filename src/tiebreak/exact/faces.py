"""The linear algebra of a face, on which some inequalities hold with equality."""

from __future__ import annotations

import numpy as np

from tiebreak.linalg import TOL, Host, deadline
from tiebreak.linalg.host import norm
from tiebreak.linalg.spectra import singular


class Face:
    """The space {v : fixed v = 0}; the rows of ``fixed`` have norm 1.

    If rows fix single variables, each another one, only the other rows are factorised, on the
    variables that stay free.
    """

    def __init__(self, fixed: Host) -> None:
        self._single = np.count_nonzero(fixed, axis=1) == 1
        self._columns = np.nonzero(fixed[self._single])[1]
        if len(np.unique(self._columns)) < len(self._columns):
            self._single, self._columns = np.zeros(len(fixed), dtype=bool), self._columns[:0]
        self._entries = fixed[self._single, self._columns]
        self._free = np.ones(fixed.shape[1], dtype=bool)
        self._free[self._columns] = False
        self._dense = fixed[~self._single]
        rows = self._dense[:, self._free]
        count, k = rows.shape
        order = np.arange(count)
        deadline.check(0.5 * deadline.svd_work(k, count, whole=True))
        Q, triangle = np.linalg.qr(rows.T, mode="complete")
        if count > k or np.min(np.abs(np.diag(triangle)), initial=1.0) < TOL.independent:
            from scipy.linalg import qr  # takes several times as long as NumPy's qr

            deadline.check(deadline.svd_work(k, count, whole=True))
            Q, triangle, order = qr(rows.T, pivoting=True)
        rank = int(np.count_nonzero(np.abs(np.diag(triangle)) > TOL.touching))
        self._span, self._triangle = Q[:, :rank], triangle[:rank, :rank]
        self._first = order[:rank]  # independent rows that span all others
        self._rest = Q[:, rank:]  # an orthonormal basis of the face in the free variables
        self.T = np.zeros((len(self._free), k - rank))  # the same in all variables
        self.T[self._free] = self._rest
        self._factors: tuple[Host, Host, Host] | None = None  # R and its factors

    def onto(self, off: Host) -> Host:
        """Return the least-norm d with fixed d = off, if there is one."""
        from scipy.linalg import solve_triangular

        d = np.zeros(len(self.T))
        d[self._columns] = off[self._single] / self._entries
        if len(self._dense):
            left = off[~self._single] - self._dense @ d
            d[self._free] = self._span @ solve_triangular(
                self._triangle, left[self._first], trans="T"
            )
        return d

    def balance(self, slope: Host) -> tuple[Host, Host]:
        """Return the w that minimises |slope + fixed'w|, and slope + fixed'w."""
        from scipy.linalg import solve_triangular

        of_dense, inside = np.zeros(len(self._dense)), slope[self._free]
        if len(of_dense):
            of_dense[self._first] = -solve_triangular(self._triangle, self._span.T @ inside)
            inside = self._rest @ (self._rest.T @ inside)
        weights, rest = np.zeros(len(self._single)), np.zeros(len(slope))
        weights[~self._single], rest[self._free] = of_dense, inside
        held = slope + self._dense.T @ of_dense
        weights[self._single] = -held[self._columns] / self._entries
        return weights, rest

    def step(self, R: Host, rounding: float, slope: Host, size: float) -> tuple[Host, Host]:
        """Return the step to the minimum of ½|Rv|² + <slope, v> on the face, and a ray.

        The function decreases linearly along the ray; the ray is 0 if there is none.
        Singular values of R up to ``rounding`` count as 0; ``size`` is the size of the slope's
        terms before they cancel.
        """
        if self._factors is None or self._factors[0] is not R:
            deadline.check(deadline.svd_work(len(R), self.T.shape[1]))
            along = R[:, self._free]
            s, vt = singular(along @ self._rest if len(self._dense) else along)
            kept = s > rounding
            self._factors = R, s[kept], vt[kept]
        _, s, vt = self._factors
        q = self.T.T @ slope
        across = vt @ q
        rest = q - vt.T @ across
        rest -= vt.T @ (vt @ rest)
        ray = -rest if norm(rest) > TOL.met * size else 0.0 * rest
        return self.T @ (vt.T @ (-across / s / s)), self.T @ ray
