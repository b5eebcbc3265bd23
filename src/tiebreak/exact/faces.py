"""The linear algebra of a face, on which some inequalities hold with equality."""

from __future__ import annotations

import numpy as np

from tiebreak.linalg import TOL, Host, deadline
from tiebreak.linalg.host import norm
from tiebreak.linalg.spectra import singular


def face_of(fixed: Host) -> Face:
    """Return the face {v : fixed v = 0}; the rows of ``fixed`` have norm 1."""
    single = np.count_nonzero(fixed, axis=1) == 1
    if single.any():
        columns = np.nonzero(fixed[single])[1]
        if len(np.unique(columns)) == len(columns):
            return BoundedFace(fixed, single, columns)
    return Face(fixed, fixed.shape[1])


class Face:
    """The space {v : fixed v = 0}, from a QR of fixed'; the rows of ``fixed`` have norm 1."""

    def __init__(self, fixed: Host, k: int) -> None:
        self.count, self._order = len(fixed), np.arange(len(fixed))
        deadline.check(0.5 * deadline.svd_work(k, self.count, whole=True))
        Q, triangle = np.linalg.qr(fixed.T, mode="complete")
        if self.count > k or np.min(np.abs(np.diag(triangle)), initial=1.0) < TOL.independent:
            from scipy.linalg import qr  # takes several times as long as NumPy's qr

            deadline.check(deadline.svd_work(k, self.count, whole=True))
            Q, triangle, self._order = qr(fixed.T, pivoting=True)
        rank = int(np.count_nonzero(np.abs(np.diag(triangle)) > TOL.touching))
        self._span, self._triangle = Q[:, :rank], triangle[:rank, :rank]
        self._first = self._order[:rank]  # independent rows that span all others
        self.T = Q[:, rank:]  # an orthonormal basis of the face
        self._factors: tuple[Host, Host, Host] | None = None  # R and its factors

    def along(self, R: Host) -> Host:
        """Return R in the basis of the face."""
        return np.asarray(R @ self.T)

    def onto(self, off: Host) -> Host:
        """Return the least-norm d with fixed d = off, if there is one."""
        if not self.count:
            return np.zeros(len(self.T))
        from scipy.linalg import solve_triangular

        return np.asarray(
            self._span @ solve_triangular(self._triangle, off[self._first], trans="T")
        )

    def balance(self, slope: Host) -> tuple[Host, Host]:
        """Return the w that minimises |slope + fixed'w|, and slope + fixed'w."""
        from scipy.linalg import solve_triangular

        weights = np.zeros(self.count)
        if not self.count:
            return weights, slope
        weights[self._first] = -solve_triangular(self._triangle, self._span.T @ slope)
        return weights, np.asarray(self.T @ (self.T.T @ slope))

    def step(self, R: Host, rounding: float, slope: Host, size: float) -> tuple[Host, Host]:
        """Return the step to the minimum of ½|Rv|² + <slope, v> on the face, and a ray.

        The function decreases linearly along the ray; the ray is 0 if there is none.
        Singular values of R up to ``rounding`` count as 0; ``size`` is the size of the slope's
        terms before they cancel.
        """
        if self._factors is None or self._factors[0] is not R:
            deadline.check(deadline.svd_work(len(R), self.T.shape[1]))
            s, vt = singular(self.along(R))
            kept = s > rounding
            self._factors = R, s[kept], vt[kept]
        _, s, vt = self._factors
        q = self.T.T @ slope
        across = vt @ q
        rest = q - vt.T @ across
        rest -= vt.T @ (vt @ rest)
        ray = -rest if norm(rest) > TOL.met * size else 0.0 * rest
        return self.T @ (vt.T @ (-across / s / s)), self.T @ ray


class BoundedFace(Face):
    """A face where some rows fix single variables; only the other rows are factorised."""

    def __init__(self, fixed: Host, single: Host, columns: Host) -> None:
        k = fixed.shape[1]
        self.count, self._single, self._columns = len(fixed), single, columns
        self._entries, free = fixed[single, columns], np.ones(k, dtype=bool)
        free[columns] = False
        self._free, dense = free, fixed[~single]
        self._dense, self._rest = dense, Face(dense[:, free], int(np.count_nonzero(free)))
        self.T = np.zeros((k, self._rest.T.shape[1]))
        self.T[free] = self._rest.T
        self._factors = None

    def along(self, R: Host) -> Host:
        return R[:, self._free] @ self._rest.T if len(self._dense) else R[:, self._free]

    def onto(self, off: Host) -> Host:
        d = np.zeros(len(self.T))
        d[self._columns] = off[self._single] / self._entries
        d[self._free] = self._rest.onto(off[~self._single] - self._dense @ d)
        return d

    def balance(self, slope: Host) -> tuple[Host, Host]:
        weights, rest = np.zeros(self.count), np.zeros(len(slope))
        weights[~self._single], rest[self._free] = self._rest.balance(slope[self._free])
        held = slope + self._dense.T @ weights[~self._single]
        weights[self._single] = -held[self._columns] / self._entries
        return weights, rest
