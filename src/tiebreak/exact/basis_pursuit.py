"""The sparsest point: |x|_1 at its smallest over a flat slice of a polyhedron, to rounding.

    minimise sum of prices_i |x_i|   over   { x : equations x = equations x0,  rows x <= offset }

With x = p - q, p and q >= 0, it is a linear program. HiGHS says which entries are 0 and which
inequalities press; with that the point and the multipliers are solutions of equations, which are
solved to rounding. Optimal is an x with a subgradient s and a normal of the inequalities whose sum
is a combination of the equations. The prices are 1 in the units of the problem.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.exact.faces import highs
from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm, product
from tiebreak.linalg.rank import Rank
from tiebreak.linalg.spectra import EPS

FITS = 1e-12  # relative: equations met to this are met
OPTIMAL = 1e-10  # a residual below this is rounding
SHARES = (1e-13, 1e-11, 1e-9, 1e-7)  # entries below this share of the largest are 0, if that fits
REFINED = 4  # rounds of iterative refinement


class Sparsest(NamedTuple):
    """A minimiser, and what shows that it is one."""

    x: Host
    sign: Host  # a subgradient at x
    normal: Host  # of the inequalities at x
    residual: float  # what is left of both, beside their size, when the equations take their part


class Slice(NamedTuple):
    """The points with the same ``equations`` as ``start`` within some inequalities, of length 1."""

    equations: Host
    rank: Rank  # of the equations
    start: Host
    rows: Host
    offset: Host
    prices: Host

    @property
    def basis(self) -> Host:
        """Of the equations' row space, orthonormal, as rows."""
        return self.rank.basis[:, : self.rank.low].T

    @property
    def condition(self) -> float:
        """The largest singular value of the equations over the smallest that counts."""
        kept = self.rank.sigma[: self.rank.low]
        return float(kept[0] / kept[-1]) if len(kept) else 1.0

    def misfit(self, x: Host) -> Host:
        """How far x is from the equations, in the coordinates of the basis: as lengths in x."""
        off = product(self.equations, self.start - x)
        return np.asarray(self.basis @ self.rank.moved(off, self.rank.low))


def sparsest(where: Slice) -> Sparsest | None:
    """A minimiser over the slice, to rounding; None where HiGHS finds none."""
    from scipy import sparse

    n, unit = len(where.start), float(np.max(np.abs(where.start), initial=0.0))
    if unit == 0.0:  # then 0 is in the slice
        return Sparsest(where.start, where.start, where.start, 0.0)
    basis, rows = where.basis, sparse.csr_array(where.rows)
    found = highs(
        np.concatenate([where.prices, where.prices]),
        A_eq=np.hstack([basis, -basis]),
        b_eq=basis @ where.start / unit,
        A_ub=sparse.hstack([rows, -rows]),
        b_ub=where.offset / unit,
    )
    if found is None:
        return None
    best, guess = None, unit * (found.x[:n] - found.x[n:])
    # Equations of bad condition hide entries that are rounding: then fewer may be kept.
    for fits in (FITS, FITS * where.condition):
        x, touches = _snapped(where, guess, fits)
        multipliers = np.concatenate([found.eqlin.marginals, found.ineqlin.marginals[touches]])
        answer = _proved(where, x, touches, multipliers)
        if best is None or answer.residual < best.residual:
            best = answer
        if best.residual <= OPTIMAL:
            break
    return best


def _snapped(where: Slice, guess: Host, tolerance: float) -> tuple[Host, Host]:
    """The guess to rounding, and which inequalities it meets with equality.

    With as few entries and as many equalities as the equations allow, to the tolerance.
    """
    best = None
    for share in SHARES:
        size = float(np.max(np.abs(guess)))
        kept = np.abs(guess) > share * size
        touches = where.offset - where.rows @ guess <= share * (size + np.abs(where.offset))
        matrix = np.vstack([where.basis, where.rows[touches]])
        x = np.where(kept, guess, 0.0)
        for _ in range(REFINED):
            off = where.offset[touches] - product(where.rows[touches], x)
            right = np.concatenate([where.misfit(x), off])
            deadline.check(0.5 * deadline.svd(*matrix.shape))
            x[kept] += np.linalg.lstsq(matrix[:, kept], right, rcond=64 * EPS)[0]
        off = where.offset - where.rows @ x
        worst = max(norm(where.misfit(x)), norm(off[touches]), -float(np.min(off, initial=0.0)))
        fits = worst <= tolerance * (norm(x) + norm(where.offset[touches]))
        fits &= bool(np.all(x * guess >= 0.0))
        if best is not None and not fits:
            break
        best = x, touches
    assert best is not None
    return best


def _proved(where: Slice, x: Host, touches: Host, multipliers: Host) -> Sparsest:
    """x with the best of some multipliers: HiGHS's, and these corrected in two ways.

    With s = basis' y - rows' mu: s is to be +-price by the sign of x where x is not 0, or also
    where it nearly is, as at a corner of the set of all multipliers.
    """
    matrix, sign, candidates = np.vstack([where.basis, where.rows[touches]]), np.sign(x), []
    slope = matrix.T @ multipliers
    for exact in (sign != 0.0, (sign != 0.0) | (np.abs(slope) > (1.0 - 1e-7) * where.prices)):
        wanted = (where.prices * np.where(sign != 0.0, sign, np.sign(slope)))[exact]
        m = multipliers
        for _ in range(REFINED):
            off = wanted - product(matrix.T[exact], m)
            deadline.check(0.5 * deadline.svd(*matrix.shape))
            m = m + np.linalg.lstsq(matrix.T[exact], off, rcond=64 * EPS)[0]
        candidates.append(m)
    answers = [_answer(where, x, touches, m) for m in (*candidates, multipliers)]
    return min(answers, key=lambda answer: answer.residual)


def _answer(where: Slice, x: Host, touches: Host, multipliers: Host) -> Sparsest:
    """A true subgradient and a true normal next to the multipliers', and what they leave."""
    r, rows = len(where.basis), where.rows[touches]
    normal = rows.T @ np.maximum(-multipliers[r:], 0.0)
    s = where.basis.T @ multipliers[:r] - normal
    s = np.where(x == 0.0, np.clip(s, -where.prices, where.prices), where.prices * np.sign(x))
    both = s + normal
    rest = both - where.basis.T @ (where.basis @ both)
    size = norm(s) + norm(normal)
    return Sparsest(x, s, normal, norm(rest) / size if size > 0.0 else 0.0)
