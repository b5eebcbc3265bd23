"""An approximate minimiser of a quadratic program, and the inequalities that are active at it.

    minimise ½|M v|² + <q, v>   over   { v : B v <= slack, E v = 0 }

We use Mehrotra's predictor-corrector method (1992) with dense matrices. The method works with M'M,
so the answer has about eight correct digits: enough to guess which inequalities hold with equality.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.linalg import TOL, Host, arrays, deadline
from tiebreak.linalg.host import norm

# If the mean product of slack and multiplier is small and this many steps do not halve it, only
# rounding errors are left.
NOT_HALVED = 5
SHARE_OF_WAY = 0.995  # step this share of the way to the boundary, as usual for this method
REGULARISATION = 1e-14  # share of |M|² added to all curvatures so that the matrix can be factorised


class Hint(NamedTuple):
    """A point close to the answer, and guesses of the inequalities that are active there."""

    point: Host
    guesses: tuple[Host, ...]


def interior_point(
    M: Host,
    q: Host,
    rows: Host,
    slack: Host,
    equal: Host | None = None,
    *,
    end: float | None = None,
) -> Hint | None:
    """Return a point close to the minimiser, or None if no minimiser exists or none is found.

    With slacks s >= 0, B v + s = slack, and multipliers z >= 0, v is optimal if
    M'M v + q + B'z = 0 and s z = 0. A Newton step towards s z = mu is
    (M'M + B' diag(z/s) B) dv = r.

    Args:
        M, q: neither is 0; M may be given by its diagonal.
        rows: B.
        slack: the slacks of the inequalities at v = 0, which may be negative.
        equal: E, with orthonormal rows.
        end: stop when the mean product of slack and multiplier is at most this.
    """
    M_norm, q_norm = norm(M), norm(q)
    unit = q_norm / M_norm / M_norm  # the unit of v in which M and q have norm 1
    q, slack = q / q_norm, slack / unit
    H, split = _square(M / M_norm), Inequalities(rows)
    E = np.zeros((0, len(q))) if equal is None else equal
    system = NormalEquations(H, split, np.ones(len(slack)), E)
    v = system.solve(-q + rows.T @ slack)  # cannot fail: M and B's rows have norm 1
    s, z = slack - rows @ v, rows @ v - slack
    s, z = s + max(-1.5 * float(np.min(s)), 0.0), z + max(-1.5 * float(np.min(z)), 0.0)
    both = float(s @ z)
    if both > 0.0:
        s, z = s + 0.5 * both / float(np.sum(z)), z + 0.5 * both / float(np.sum(s))
    s, z = np.maximum(s, 1e-8), np.maximum(z, 1e-8)
    found, before = None, [np.inf] * NOT_HALVED
    with arrays.quiet():  # an underflowing slack gives NaN, which ends the search
        # Usually 10 to 30 steps suffice.
        for _ in range(60):
            pull = rows.T @ z
            rest = (H * v if H.ndim == 1 else H @ v) + q + pull, rows @ v + s - slack
            mu = float(s @ z) / len(s)
            if not np.isfinite(norm(v) + mu):
                break
            if norm(pull - E.T @ (E @ pull)) <= TOL.half * float(np.sum(z)) and slack @ z < 0.0:
                return None
            # Slacks that tend to 0 without a multiplier are about sqrt(mu). The first guess
            # contains all inequalities with small slacks, because superfluous ones are released
            # together; the second contains those with a slack below the multiplier.
            found = Hint(unit * v, (s <= mu**0.25, z > s))
            system = NormalEquations(H, split, z / s, E)
            is_stalled = TOL.small_change > mu > 0.5 * before[-NOT_HALVED]
            if mu <= (end or TOL.met) or is_stalled or not system.is_sound:
                break
            before.append(mu)
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
    """Return dv, ds and dz that remove both residuals and lower s z by ``fall``, to first order."""
    dual, primal = rest
    dv = system.solve(-dual - system.B.T @ ((z * primal - fall) / s))
    ds = -primal - system.B @ dv
    return dv, ds, -(fall + z * ds) / s


def _reach(s: Host, ds: Host) -> float:
    """Return how far s can move along ds before an entry reaches 0."""
    down = ds < 0.0
    return float(np.min(-s[down] / ds[down], initial=np.inf))


# --- linear algebra -------------------------------------------------------------------------------


def _square(M: Host) -> Host:
    """Return M'M, or only its diagonal if M'M is diagonal; M may be given by its diagonal."""
    if M.ndim == 1:
        return M * M
    square = M.T @ M
    diagonal = np.diag(square).copy()
    return diagonal if np.count_nonzero(square) == np.count_nonzero(diagonal) else square


class Inequalities:
    """The rows B of some inequalities, many of which may bound single variables."""

    def __init__(self, B: Host) -> None:
        self.B = B
        self._single = np.count_nonzero(B, axis=1) == 1
        self._squares, self.dense = B[self._single] ** 2, B[~self._single]

    def square(self, weights: Host) -> tuple[Host, Host]:
        """Return the diagonal B' diag(weights) B of the bounds, and the other rows' weights."""
        return weights[self._single] @ self._squares, weights[~self._single]


class NormalEquations:
    """The factorised system (H + B' diag(weights) B) d + E'y = r, E d = 0; H may be a diagonal.

    Without E we factorise a single matrix, unless it is diagonal up to the squares of a few rows.
    Otherwise K is the sum of H and the terms of the bounds on single variables, and C has all other
    rows. With the weights w of the rows of B (and infinite ones for E), d = K^-1 (r - C'u), (C K^-1
    C' + 1/w) u = C K^-1 r.
    """

    def __init__(self, H: Host, B: Inequalities, weights: Host, E: Host) -> None:
        self.B, self._rows = B.B, B.dense[:0]
        diagonal, others = B.square(weights)
        n, rows = len(H), len(B.dense) + len(E)
        is_split = len(E) or (H.ndim == 1 and 2 * rows < n)
        # The work of the products and Cholesky factorisations, for the kernel K and for the rows C.
        work = 0 if is_split and H.ndim == 1 else n * n * (n + rows)
        work += rows * rows * (n + rows) if is_split else 0
        deadline.check(0.1 * work)
        if is_split:
            self._rows = np.vstack([B.dense, E])
            self._kernel = _Factor(H, diagonal)
            self._across = self._kernel.solve(self._rows.T)
            matrix = self._rows @ self._across
            softness = np.append(1.0 / others, np.zeros(len(E)))
            self._small = _Factor(matrix, softness, 1e-3 * np.trace(matrix))
        else:
            scaled = np.sqrt(others)[:, None] * B.dense
            matrix = np.diag(H) if H.ndim == 1 else H
            self._kernel = _Factor(matrix + scaled.T @ scaled, diagonal)
        self.is_sound: bool = self._kernel.is_sound and (
            not len(self._rows) or self._small.is_sound
        )

    def solve(self, right: Host) -> Host:
        """Return d for this right-hand side."""
        d = self._kernel.solve(right)
        return d - self._across @ self._small.refined(self._rows @ d) if len(self._rows) else d


class _Factor:
    """The factors of matrix + diag(diagonal) + a small shift; a diagonal matrix may be a vector."""

    def __init__(self, matrix: Host, diagonal: Host, size: float = 1.0) -> None:
        from scipy.linalg import LinAlgError, cho_factor

        self._matrix, self._diagonal, self.is_sound = matrix, diagonal, matrix.ndim == 1
        if self.is_sound:
            return
        shifted = np.array(matrix, order="F")
        entries = np.einsum("ii->i", shifted)  # a view
        entries += diagonal
        added = REGULARISATION
        while not self.is_sound and added < 1.0:
            entries += added * size
            try:
                self._factor = cho_factor(shifted, lower=True, check_finite=False)
                self.is_sound = True
            except (LinAlgError, ValueError):
                added *= 100.0

    def solve(self, right: Host) -> Host:
        """Return the solution for one right-hand side, or for several as columns."""
        from scipy.linalg import cho_solve

        if self._matrix.ndim == 1:
            return np.asarray((right.T / (self._matrix + self._diagonal + REGULARISATION)).T)
        return np.asarray(cho_solve(self._factor, right, check_finite=False))

    def refined(self, right: Host) -> Host:
        """Return the solution after refinement, which also removes the effect of the shift."""
        found = self.solve(right)
        for _ in range(2):
            found = found + self.solve(right - self._matrix @ found - self._diagonal * found)
        return found
