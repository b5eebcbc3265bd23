"""About where a quadratic program has its minimiser, and which inequalities are active there.

    minimise ½|M v|² + <q, v>   over   { v : B v <= slack }

Mehrotra's predictor-corrector method (SIAM J. Optim. 1992) with dense matrices. It squares M, so
that the answer has eight digits or so: a hint which inequalities hold with equality.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm

MAX_STEPS = 60  # 10 to 30 are usual
CENTRAL_PATH_END = 1e-12  # mean product of slack and multiplier: more than M'M has digits for
SHARE_OF_WAY = 0.995  # to the boundary, as is usual for this method
IMPOSSIBLE = 1e-8  # weights of the inequalities with B'z = 0, relative, but slack'z < 0: Farkas
REGULARISATION = 1e-14  # of |M|², added to all curvatures so that the matrix can be factorised


class Hint(NamedTuple):
    """A point close to the answer, and guesses which inequalities hold with equality there."""

    point: Host
    guesses: tuple[Host, ...]


def interior_point(M: Host, q: Host, rows: Host, slack: Host) -> Hint | None:
    """A point close to the minimiser; None where the method finds nothing, or that there is none.

    M and q are not 0.

    With slacks s >= 0, B v + s = slack, and multipliers z >= 0: optimal is M'M v + q + B'z = 0
    with s z = 0. A step of Newton's method on these, s z = mu, is (M'M + B' diag(z/s) B) dv = r.
    """
    M_norm, q_norm = norm(M), norm(q)
    unit = q_norm / M_norm / M_norm  # of v, so that M and q are 1 in size
    M, q, slack = M / M_norm, q / q_norm, slack / unit
    H, B = M.T @ M, Inequalities(rows)
    system = NormalEquations(H, B, np.ones(len(slack)))
    v = system.solve(-q + B.back(slack))  # with M and B of size 1 it can be factorised
    s, z = slack - B.times(v), B.times(v) - slack
    s, z = s + max(-1.5 * float(np.min(s)), 0.0), z + max(-1.5 * float(np.min(z)), 0.0)
    both = float(s @ z)
    if both > 0.0:
        s, z = s + 0.5 * both / float(np.sum(z)), z + 0.5 * both / float(np.sum(s))
    s, z = np.maximum(s, 1e-8), np.maximum(z, 1e-8)
    found = None
    for _ in range(MAX_STEPS):
        pull = B.back(z)
        rest = H @ v + q + pull, B.times(v) + s - slack
        mu = float(s @ z) / len(s)
        if not np.isfinite(norm(v) + mu):
            break
        if norm(pull) <= IMPOSSIBLE * float(np.sum(z)) and float(slack @ z) < 0.0:
            return None
        # Slacks of 0 without a multiplier are about sqrt(mu). First all small slacks, for a row too
        # many is let go with all others at once; then those smaller than their multipliers.
        found = Hint(unit * v, (s <= mu**0.25, z > s))
        system = NormalEquations(H, B, z / s)
        if mu <= CENTRAL_PATH_END or not system.is_sound:
            break
        _, ds, dz = _direction(system, rest, s, z, s * z)
        length = min(_reach(s, ds), _reach(z, dz), 1.0)
        after = float((s + length * ds) @ (z + length * dz)) / len(s)
        centre = (after / mu) ** 3 * mu
        dv, ds, dz = _direction(system, rest, s, z, s * z + ds * dz - centre)
        length = min(SHARE_OF_WAY * _reach(s, ds), SHARE_OF_WAY * _reach(z, dz), 1.0)
        v, s, z = v + length * dv, s + length * ds, z + length * dz
    return found


def _direction(
    system: NormalEquations, rest: tuple[Host, Host], s: Host, z: Host, fall: Host
) -> tuple[Host, Host, Host]:
    """dv, ds and dz that remove the residuals of both conditions, and reduce s z by ``fall``."""
    dual, primal = rest
    dv = system.solve(-dual - system.B.back((z * primal - fall) / s))
    ds = -primal - system.B.times(dv)
    return dv, ds, -(fall + z * ds) / s


def _reach(s: Host, ds: Host) -> float:
    """How far along ds s stays positive."""
    down = ds < 0.0
    return float(np.min(-s[down] / ds[down], initial=np.inf))


class Inequalities:
    """The rows B of some inequalities, of which many may be about single variables."""

    def __init__(self, B: Host) -> None:
        self._single = np.count_nonzero(B, axis=1) == 1
        self._columns = np.nonzero(B[self._single])[1]
        self._entries, self._dense = B[self._single, self._columns], B[~self._single]
        self.dense_count, self._shape = len(self._dense), B.shape

    def times(self, v: Host) -> Host:
        """B v."""
        found = np.empty(self._shape[0])
        found[self._single] = self._entries * v[self._columns]
        found[~self._single] = self._dense @ v
        return found

    def back(self, z: Host) -> Host:
        """B'z."""
        return self._dense.T @ z[~self._single] + self._sums(self._entries * z[self._single])

    def add_square(self, matrix: Host, weights: Host) -> None:
        """Add B' diag(weights) B."""
        scaled = np.sqrt(weights[~self._single])[:, None] * self._dense
        matrix += scaled.T @ scaled
        diagonal = np.einsum("ii->i", matrix)  # a view
        diagonal += self._sums(self._entries * self._entries * weights[self._single])

    def _sums(self, terms: Host) -> Host:
        """Of the terms of each variable."""
        return np.bincount(self._columns, terms, minlength=self._shape[1])


class NormalEquations:
    """(H + B' diag(weights) B), factorised."""

    def __init__(self, H: Host, B: Inequalities, weights: Host) -> None:
        from scipy.linalg import LinAlgError, cho_factor

        deadline.check(0.1 * deadline.svd(B.dense_count + len(H), len(H)))
        self.B, matrix = B, H.copy()
        B.add_square(matrix, weights)
        diagonal = np.einsum("ii->i", matrix)  # a view
        added, self.is_sound = REGULARISATION, False
        while not self.is_sound and added < 1.0:
            diagonal += added
            try:
                self._factor = cho_factor(matrix)
                self.is_sound = True
            except (LinAlgError, ValueError):
                added *= 100.0

    def solve(self, right: Host) -> Host:
        """The solution for this right side."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self._factor, right))
