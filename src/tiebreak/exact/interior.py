"""Where a quadratic program over inequalities has its answer, and what presses there.

    minimise ½|M v|² + <q, v>   over   { v : B v <= slack }

Mehrotra's predictor-corrector method (SIAM J. Optim. 1992) with dense matrices. It squares M, so
that it is no more than a hint, to eight digits or so: which inequalities hold with equality.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm

STEPS = 60
CLOSE = 1e-12  # mean product of a distance and its multiplier, in units of the problem
BACK = 0.995  # of the way to the boundary
LEAST = 1e-14  # of |M|², added to all curvatures so that the matrix can be factorised


class Hint(NamedTuple):
    """A point close to the answer, and guesses which inequalities hold with equality there."""

    point: Host
    guesses: tuple[Host, ...]


def hint(M: Host, q: Host, B: Host, slack: Host) -> Hint | None:
    """A point close to the answer; None where the method finds nothing. M and q are not 0.

    With distances s >= 0, B v + s = slack, and multipliers z >= 0: optimal is M'M v + q + B'z = 0
    with s z = 0. A step of Newton's method on these, s z = mu, is (M'M + B' diag(z/s) B) dv = r.
    """
    bend, steep = norm(M), norm(q)
    unit = steep / bend / bend  # of v, so that M and q are 1 in size
    M, q, slack = M / bend, q / steep, slack / unit
    H = M.T @ M
    system = _System(H, B, np.ones(len(B)))
    v = system.solve(-q + B.T @ slack)  # with M and B of size 1 it can be factorised
    s, z = slack - B @ v, B @ v - slack
    s, z = s + max(-1.5 * float(np.min(s)), 0.0), z + max(-1.5 * float(np.min(z)), 0.0)
    both = float(s @ z)
    if both > 0.0:
        s, z = s + 0.5 * both / float(np.sum(z)), z + 0.5 * both / float(np.sum(s))
    s, z = np.maximum(s, 1e-8), np.maximum(z, 1e-8)
    found = None
    for _ in range(STEPS):
        rest = H @ v + q + B.T @ z, B @ v + s - slack
        mu = float(s @ z) / len(s)
        if not np.isfinite(norm(v) + mu):
            break
        # Where nothing presses, distances of 0 are about sqrt(mu): those that are close, first, for
        # a row too many is let go with all others at once; or else those that do press.
        found = Hint(unit * v, (s <= mu**0.25, z > s))
        system = _System(H, B, z / s)
        if mu <= CLOSE or not system.is_sound:
            break
        _, ds, dz = _direction(system, rest, s, z, s * z)
        length = min(_reach(s, ds), _reach(z, dz), 1.0)
        after = float((s + length * ds) @ (z + length * dz)) / len(s)
        centre = (after / mu) ** 3 * mu
        dv, ds, dz = _direction(system, rest, s, z, s * z + ds * dz - centre)
        length = min(BACK * _reach(s, ds), BACK * _reach(z, dz), 1.0)
        v, s, z = v + length * dv, s + length * ds, z + length * dz
    return found


def _direction(
    system: _System, rest: tuple[Host, Host], s: Host, z: Host, fall: Host
) -> tuple[Host, Host, Host]:
    """dv, ds and dz that take away the rest of both conditions, and make s z fall by so much."""
    dual, primal = rest
    dv = system.solve(-dual - system.B.T @ ((z * primal - fall) / s))
    ds = -primal - system.B @ dv
    return dv, ds, -(fall + z * ds) / s


def _reach(s: Host, ds: Host) -> float:
    """How far along ds until s is no longer positive."""
    down = ds < 0.0
    return float(np.min(-s[down] / ds[down], initial=np.inf))


class _System:
    """(H + B' diag(weights) B), factorised."""

    def __init__(self, H: Host, B: Host, weights: Host) -> None:
        from scipy.linalg import LinAlgError, cho_factor

        deadline.check(0.1 * deadline.svd(len(B) + len(H), len(H)))
        scaled = np.sqrt(weights)[:, None] * B
        self.B, matrix = B, H + scaled.T @ scaled
        diagonal = np.einsum("ii->i", matrix)  # a view
        least, self.is_sound = LEAST, False
        while not self.is_sound and least < 1.0:
            diagonal += least
            try:
                self._factor = cho_factor(matrix)
                self.is_sound = True
            except (LinAlgError, ValueError):
                least *= 100.0

    def solve(self, right: Host) -> Host:
        """The solution for this right side."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self._factor, right))
