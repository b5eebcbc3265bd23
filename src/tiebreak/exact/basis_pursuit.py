"""Basis pursuit: the least |x|_1 over an affine slice of a polyhedron, to rounding.

    minimise sum of prices_i |x_i|   over   { x : equations x = equations x0,  rows x <= offset }

With x = p - q, p and q >= 0, it is a linear program. HiGHS tells which entries are 0 and which
inequalities are active; with that the point and the multipliers are solutions of equations, which
are solved to rounding. Optimal is an x with a subgradient s and a normal of the inequalities whose
sum is a combination of the equations. The prices are 1 in the units of the problem.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.exact.active_set import PolyhedronSlice
from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import Sliced, norm
from tiebreak.linalg.linear_programs import highs
from tiebreak.linalg.rank import Rank, null_basis
from tiebreak.linalg.spectra import EPS
from tiebreak.linalg.tolerances import TOL

ZERO_SHARES = (1e-13, 1e-11, 1e-9, 1e-7)  # entries below this share of the largest are taken for 0,
# as long as the equations can still be met: HiGHS's own tolerance is the last of them


class SparsestPoint(NamedTuple):
    """A minimiser, and what shows that it is one."""

    x: Host
    sign: Host  # a subgradient at x
    normal: Host  # of the inequalities at x
    residual: float  # what the equations leave of both, relative to their size


class BasisPursuit(NamedTuple):
    """|x|_1 over the points with the same ``equations`` as ``start``, and rows x <= offset.

    The rows have length 1.
    """

    equations: Sliced
    rank: Rank  # of the equations
    start: Host
    rows: Host
    offset: Host
    prices: Host

    @property
    def basis(self) -> Host:
        """Of the equations' row space, orthonormal, as rows."""
        return self.rank.basis[:, : self.rank.low].T

    def misfit(self, x: Host) -> Host:
        """How far x is from the equations, in the coordinates of the basis: as lengths in x."""
        off = self.equations.times(self.start - x)
        return np.asarray(self.basis @ self.rank.moved(off, self.rank.low))


def sparsest(program: BasisPursuit) -> SparsestPoint | None:
    """A minimiser over the slice, to rounding; None where HiGHS finds none."""
    from scipy import sparse

    n, unit = len(program.start), float(np.max(np.abs(program.start), initial=0.0))
    if unit == 0.0:  # then 0 is in the slice
        return SparsestPoint(program.start, program.start, program.start, 0.0)
    basis, rows = program.basis, sparse.csr_array(program.rows)
    found = highs(
        np.concatenate([program.prices, program.prices]),
        A_eq=np.hstack([basis, -basis]),
        b_eq=basis @ program.start / unit,
        A_ub=sparse.hstack([rows, -rows]),
        b_ub=program.offset / unit,
        presolve=False,  # which gains nothing on dense rows, and does not look at the clock
    )
    if found is None:
        return None
    x, touches = _snapped(program, unit * (found.x[:n] - found.x[n:]))
    multipliers = np.concatenate([found.eqlin.marginals, found.ineqlin.marginals[touches]])
    return _proved(program, x, touches, multipliers)


def face_of_sparsest(program: BasisPursuit, found: SparsestPoint, center: Host) -> PolyhedronSlice:
    """All minimisers, each plus the center.

    As for any linear program they are the points that balance with one solution of the dual: 0
    where the subgradient is less than the price, of its sign elsewhere, and with the same product
    with the normal.
    """
    free = np.flatnonzero(np.abs(found.sign) >= (1.0 - TOL.touching) * program.prices)
    inside = null_basis(np.vstack([program.basis, found.normal])[:, free])
    N, signs = np.zeros((len(center), inside.shape[1])), np.zeros((len(free), len(center)))
    N[free], signs[np.arange(len(free)), free] = inside, -np.sign(found.sign[free])
    rows, offset = np.vstack([program.rows, signs]), np.append(program.offset, np.zeros(len(free)))
    return PolyhedronSlice(rows, offset + rows @ center, N)


def _snapped(program: BasisPursuit, guess: Host) -> tuple[Host, Host]:
    """The guess to rounding, and which inequalities it meets with equality.

    With as few entries and as many equalities as the equations allow.
    """
    best, has_fit = None, False
    for share in ZERO_SHARES:
        size = float(np.max(np.abs(guess)))
        kept = np.abs(guess) > share * size
        touches = program.offset - program.rows @ guess <= share * (size + np.abs(program.offset))
        matrix = np.vstack([program.basis, program.rows[touches]])
        x = np.where(kept, guess, 0.0)
        for _ in range(TOL.refinements):
            off = program.offset[touches] - Sliced(program.rows[touches]).times(x)
            right = np.concatenate([program.misfit(x), off])
            deadline.check(0.5 * deadline.svd_work(*matrix.shape))
            x[kept] += np.linalg.lstsq(matrix[:, kept], right, rcond=64 * EPS)[0]
        off = program.offset - program.rows @ x
        worst = max(norm(program.misfit(x)), norm(off[touches]), -float(np.min(off, initial=0.0)))
        fits = worst <= TOL.met * (norm(x) + norm(program.offset[touches]))
        fits &= bool(np.all(x * guess >= 0.0))
        if has_fit and not fits:
            break
        if best is None or fits:
            best, has_fit = (x, touches), fits
    assert best is not None
    return best


def _proved(program: BasisPursuit, x: Host, touches: Host, multipliers: Host) -> SparsestPoint:
    """x with the best of some multipliers: HiGHS's, and these corrected in two ways.

    With s = basis' y - rows' mu: s is to be +-price by the sign of x where x is not 0, or also
    where it nearly is, as at a corner of the set of all multipliers.
    """
    matrix, sign, candidates = np.vstack([program.basis, program.rows[touches]]), np.sign(x), []
    slope = matrix.T @ multipliers
    for exact in (sign != 0.0, (sign != 0.0) | (np.abs(slope) > (1.0 - 1e-7) * program.prices)):
        wanted = (program.prices * np.where(sign != 0.0, sign, np.sign(slope)))[exact]
        m = multipliers
        for _ in range(TOL.refinements):
            off = wanted - Sliced(matrix.T[exact]).times(m)
            deadline.check(0.5 * deadline.svd_work(*matrix.shape))
            m = m + np.linalg.lstsq(matrix.T[exact], off, rcond=64 * EPS)[0]
        candidates.append(m)
    answers = [_answer(program, x, touches, m) for m in (*candidates, multipliers)]
    return min(answers, key=lambda answer: answer.residual)


def _answer(program: BasisPursuit, x: Host, touches: Host, multipliers: Host) -> SparsestPoint:
    """A true subgradient and a true normal next to the multipliers', and what they leave."""
    r, rows = len(program.basis), program.rows[touches]
    normal = rows.T @ np.maximum(-multipliers[r:], 0.0)
    s = program.basis.T @ multipliers[:r] - normal
    s = np.where(x == 0.0, np.clip(s, -program.prices, program.prices), program.prices * np.sign(x))
    both = s + normal
    rest = both - program.basis.T @ (program.basis @ both)
    size = norm(s) + norm(normal)
    return SparsestPoint(x, s, normal, norm(rest) / size if size > 0.0 else 0.0)
