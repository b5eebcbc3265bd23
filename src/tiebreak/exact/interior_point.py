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
REGULARISATION = 1e-14  # of |M|², added to all curvatures so that the matrix can be factorised


class Hint(NamedTuple):
    """A point close to the answer, and guesses which inequalities hold with equality there."""

    point: Host
    guesses: tuple[Host, ...]


def interior_point(M: Host, q: Host, B: Host, slack: Host) -> Hint | None:
    """A point close to the minimiser; None where the method finds nothing. M and q are not 0.

    With slacks s >= 0, B v + s = slack, and multipliers z >= 0: optimal is M'M v + q + B'z = 0
    with s z = 0. A step of Newton's method on these, s z = mu, is (M'M + B' diag(z/s) B) dv = r.
    """
    M_norm, q_norm = norm(M), norm(q)
    unit = q_norm / M_norm / M_norm  # of v, so that M and q are 1 in size
    M, q, slack = M / M_norm, q / q_norm, slack / unit
    H = M.T @ M
    system = NormalEquations(H, B, np.ones(len(B)))
    v = system.solve(-q + B.T @ slack)  # with M and B of size 1 it can be factorised
    s, z = slack - B @ v, B @ v - slack
    s, z = s + max(-1.5 * float(np.min(s)), 0.0), z + max(-1.5 * float(np.min(z)), 0.0)
    both = float(s @ z)
    if both > 0.0:
        s, z = s + 0.5 * both / float(np.sum(z)), z + 0.5 * both / float(np.sum(s))
    s, z = np.maximum(s, 1e-8), np.maximum(z, 1e-8)
    found = None
    for _ in range(MAX_STEPS):
        rest = H @ v + q + B.T @ z, B @ v + s - slack
        mu = float(s @ z) / len(s)
        if not np.isfinite(norm(v) + mu):
            break
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
    dv = system.solve(-dual - system.B.T @ ((z * primal - fall) / s))
    ds = -primal - system.B @ dv
    return dv, ds, -(fall + z * ds) / s


def _reach(s: Host, ds: Host) -> float:
    """How far along ds s stays positive."""
    down = ds < 0.0
    return float(np.min(-s[down] / ds[down], initial=np.inf))


class NormalEquations:
    """(H + B' diag(weights) B), factorised."""

    def __init__(self, H: Host, B: Host, weights: Host) -> None:
        from scipy.linalg import LinAlgError, cho_factor

        deadline.check(0.1 * deadline.svd(len(B) + len(H), len(H)))
        scaled = np.sqrt(weights)[:, None] * B
        self.B, matrix = B, H + scaled.T @ scaled
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
