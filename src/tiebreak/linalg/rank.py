"""Deciding the rank of a matrix; a rank is in doubt if rounding errors could change it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.conic_form import row_lengths, scaled_rows
from tiebreak.linalg.host import CAREFUL, Sliced, norm
from tiebreak.linalg.least_eigenvalue import factorise
from tiebreak.linalg.spectra import EPS, clear_rank, eigenvalues, equilibrate, rounding_level
from tiebreak.linalg.tolerances import TOL

# Units with which `decide_rank` leaves rows as they are, because they were computed in suitable
# units: a row of rounding errors counts as 0 in these units, but equilibration would enlarge it.
AS_IT_IS = np.ones(1), np.ones(1)
WHOLE = 2.0**20  # ties are rounded to whole numbers only up to this size


class Rank(NamedTuple):
    """The singular values of rows in comparable units, and the cut between large and small ones.

    The first ``low`` singular values are certainly not rounding errors. The next ``high - low`` are
    doubtful: larger than rounding errors, but not by a factor of 1e3. If the rank is determined,
    ``low == high``. Singular values and vectors are those of diag(row_units) rows diag(units) =
    left sigma right'.
    """

    low: int
    high: int
    sigma: Host
    basis: Host  # orthonormal, n columns: the first `low` (or `high`) columns span the rows
    left: Host  # left singular vectors as columns, at least as many as the rank
    right: Host
    row_units: Host
    units: Host

    @property
    def is_determined(self) -> bool:
        return self.low == self.high

    @property
    def is_plain(self) -> bool:
        """Are the units of rows and columns all 1?"""
        return bool(np.all(self.row_units == 1.0) and np.all(self.units == 1.0))

    def pair(self) -> tuple[float, float]:
        """The singular values on either side of the cut (0 if there is none)."""
        sides = [*self.sigma, 0.0, 0.0]
        return (float(sides[self.low - 1]) if self.low else 0.0), float(sides[self.low])

    def moved(self, images: Host, rank: int) -> Host:
        """Least-squares solutions d of rows d = images, one per column, for the rank found."""
        across = self.left[:, :rank].T @ (self.row_units * images.T).T
        d = self.right[:, :rank] @ (across.T / self.sigma[:rank]).T
        return np.asarray((self.units * d.T).T)


def decide_rank(rows: Host, epsilon: float = EPS, units: tuple[Host, Host] | None = None) -> Rank:
    """The rank of the rows, with the singular values for which rounding leaves it in doubt.

    Singular values up to the rounding level count as 0, and those above 1e3 times this level do
    not; singular values in between are doubtful. The rows are equilibrated first (or the given
    units are used), because rank does not depend on units; the rows as given are used if they lead
    to the same result. ``epsilon`` is the machine epsilon of the data.
    """
    m, n = rows.shape
    plain = _factorised(rows, epsilon, np.ones(m))
    if plain.low == min(m, n):
        return plain
    row_units, columns = units or equilibrate(rows)
    if np.all(row_units == 1.0) and np.all(columns == 1.0):
        return plain
    found = _factorised(rows * columns, epsilon, row_units)
    if plain.low == plain.high == found.low == found.high:
        return plain
    return found if np.all(columns == 1.0) else in_units(found, rows, columns)


def _factorised(rows: Host, epsilon: float, row_units: Host) -> Rank:
    """The singular values of diag(row_units) rows, and how many count as nonzero."""
    m, n = rows.shape
    deadline.check(deadline.svd_work(m, n, whole=m < n))
    left, sigma, vt = np.linalg.svd(row_units[:, None] * rows, full_matrices=m < n)
    low, high = clear_rank(sigma, (m, n), epsilon)
    return Rank(low, high, sigma, vt.T, left, vt.T, row_units, np.ones(n))


def in_units(found: Rank, rows: Host, units: Host) -> Rank:
    """The `Rank` of the rows, if ``found`` is the `Rank` of rows diag(units)."""
    from scipy.linalg import qr

    # Singular vectors would not stay orthogonal in other units. In a factorisation with rows sorted
    # by size and columns pivoted, large rows do not swamp small ones (Cox and Higham 1998): the
    # first columns span the rows' space, and the others span its complement.
    order, basis = np.argsort(units, kind="stable"), np.empty((len(units), len(units)))
    basis[order] = qr((found.row_units[:, None] * rows).T[order], pivoting=True)[0]
    return found._replace(basis=basis, units=units * found.units)


def null_basis(
    rows: Host, epsilon: float = EPS, doubtful: bool = False, found: Rank | None = None
) -> Host:
    """An orthonormal basis of {d: rows d = 0}, as columns.

    The error of a singular vector is the rounding level times sigma_1/sigma_r; products with
    `Sliced` remove this error. If the rows fix a variable, the variable's row of the basis is
    exactly 0. With ``doubtful``, doubtful singular values count as nonzero. ``found`` is the result
    of `decide_rank` for these rows, if already known.
    """
    found = found or decide_rank(rows, epsilon)
    rank = found.high if doubtful else found.low
    N = found.basis[:, rank:].copy()
    if rank == 0 or N.size == 0 or rows.size * N.shape[1] > CAREFUL:
        return N
    deadline.check(deadline.svd_work(*N.shape))
    N -= found.moved(Sliced(rows).times(N), rank)
    if np.all(found.units == 1.0):
        N = np.linalg.qr(N)[0]
    else:  # keeps the digits of small entries, which matter if entries of the rows are large
        N = np.asarray(np.linalg.solve(np.linalg.cholesky(N.T @ N), N.T).T)
    return without_fixed(N, found.units, rounding_level(rows.shape, 1.0, epsilon))


def without_fixed(N: Host, units: Host, level: float) -> Host:
    """The basis N, with exact zeros for variables that no column of N moves.

    The entries of such variables are only rounding errors: a few times ``level``, relative to the
    norm of the column in the given units. Without the zeros, a function of these variables alone
    would still change slightly along N.
    """
    in_units = np.abs(N / units[:, None])
    least = TOL.few_units * level * np.linalg.norm(in_units, axis=0)
    return np.where(np.any(in_units > least, axis=1, keepdims=True), N, 0.0)


def graded_basis(N: Host, R: Host, rows: Host, found: Rank | None = None) -> Host:
    """The basis N of {d: rows d = 0}, rotated so that R N has orthogonal columns, longest first.

    Each column of R N is orthogonal to the others up to rounding errors relative to its own norm,
    unless it is itself only a rounding error of the longest. This keeps other columns from swamping
    directions that hardly change |R x|². ``found`` is the rank of the rows, if it is already known.
    """
    from scipy.linalg import solve_triangular

    deadline.check(deadline.svd_work(len(R), N.shape[1]))
    M = R @ N
    N = N @ np.linalg.svd(M, full_matrices=len(M) < N.shape[1])[2].T
    # Rounding errors of the longest columns remain in shorter columns. So the columns are
    # orthogonalised again, each in its own unit (as in one-sided Jacobi methods: Demmel and Veselic
    # 1992).
    M = R @ N
    lengths = np.linalg.norm(M, axis=0)
    # Shorter columns are only rounding errors.
    seen = lengths > max(M.shape) * EPS * np.max(lengths, initial=0.0)
    seen[len(M) :] = False
    triangle = np.linalg.qr(M[:, seen] / lengths[seen], mode="r")
    turn = solve_triangular(triangle, np.diag(np.diag(triangle)))
    N[:, seen] = N[:, seen] @ (turn * lengths[seen] / lengths[seen, None])
    # Rotating N left rounding errors in directions that change the rows' products; along these
    # directions, R may be large. These errors can make columns of R N longer, but removing them
    # causes rounding errors, too.
    rank = len(N) - N.shape[1]
    if rank and N.size and rows.size * N.shape[1] <= CAREFUL:
        cleaned = N - (found or decide_rank(rows)).moved(Sliced(rows).times(N), rank)
        N = np.where(
            np.linalg.norm(R @ cleaned, axis=0) <= np.linalg.norm(R @ N, axis=0), cleaned, N
        )
    # Orthonormalise again from the last column to the first: adding a little of a short column to a
    # long one does no harm.
    last_first = N[:, ::-1]
    root = np.linalg.cholesky(last_first.T @ last_first)
    return np.asarray(solve_triangular(root, last_first.T, lower=True).T[:, ::-1])


# --- which directions of a slice change the rows --------------------------------------------------


class Directions(NamedTuple):
    """Orthonormal directions v of a slice x0 + N v, which change the rows' products if ``seen``."""

    seen: Host
    unseen: Host
    is_clear: bool = True  # is the split into directions certain?


def directions(
    rows: Host,
    N: Host,
    epsilon: float = EPS,
    doubtful: bool = False,
    others: int = 0,
    is_graded: bool = False,
) -> Directions:
    """The `Directions` in the range of N, which is the null space of ``others`` other rows.

    Whether a product of a row and a column of N is a rounding error is judged relative to the terms
    of that product, in comparable units. If all products are rounding errors, no direction counts
    as seen. With ``doubtful``, doubtful directions count as seen. The error of an entry of N is
    relative to that variable's entries in all columns, or to the entry itself if N ``is_graded``
    (by `graded_basis`).
    """
    k, sizes = N.shape[1], np.abs(N)
    if not is_graded:
        sizes = np.repeat(np.linalg.norm(N, axis=1, keepdims=True), k, axis=1)
    terms = np.abs(rows) @ sizes
    row_units, units = equilibrate(terms)
    M, size = row_units[:, None] * (rows @ N) * units, norm(row_units[:, None] * terms * units)
    if len(M) >= k > 0:
        deadline.check(0.2 * deadline.svd_work(*M.shape))
        if eigenvalues(M.T @ M)[0] > TOL.half * size * size:
            return Directions(np.eye(k), np.zeros((k, 0)))
    deadline.check(deadline.svd_work(len(M), k, whole=len(M) < k))
    _, sigma, vt = np.linalg.svd(M, full_matrices=len(M) < k)
    low, high = clear_rank(np.append(sigma, size), (len(rows) + others, len(N)), epsilon)
    rank = (high if doubtful else low) - (size > 0.0)
    Q = np.linalg.qr(units[:, None] * vt[rank:].T, mode="complete")[0]
    return Directions(Q[:, k - rank :], Q[:, : k - rank], low == high)


# --- whole ties -----------------------------------------------------------------------------------


def whole_ties(N: Host) -> Host | None:
    """Return a basis of the range of N with whole-number entries ("ties"); None if none is found.

    For example, indicators of categories have such ties, because they add up to 1. The ties are
    independent, because each of them has a variable that no other tie involves.
    """
    from scipy.linalg import qr

    own = qr(N.T, mode="r", pivoting=True)[1][: N.shape[1]]
    ties = N @ np.linalg.inv(N[own])
    whole = np.round(ties)
    off = np.max(np.abs(ties - whole), initial=0.0)
    return (
        whole if off <= TOL.small_change and np.max(np.abs(whole), initial=0.0) <= WHOLE else None
    )


def have_whole_ties(parts: Iterable[Any], N: Host) -> bool:
    """Do `whole_ties` of N exist, and do they leave the products of all these rows unchanged?"""
    ties = whole_ties(N)
    return ties is not None and all(are_tied(rows, ties) for rows in parts)


def are_tied(rows: Any, ties: Host) -> bool:
    """Do whole-number ties leave the rows' products unchanged? True only if computed exactly.

    Columns that no tie involves may hold any numbers.
    """
    moved = np.flatnonzero(ties.any(axis=1))
    some = rows[:, moved]
    entries = some if isinstance(some, np.ndarray) else some.data
    size = float(np.max(np.abs(entries), initial=0.0)) * WHOLE * len(moved)
    is_exact = size < 2.0**53 and bool(np.all(entries == np.rint(entries)))
    return is_exact and not np.any(some @ ties[moved])


def sparse_nullity(rows: Any) -> int | None:
    """The dimension of { v : rows v = 0 } for sparse rows; None if rounding would decide it.

    The method is a Cholesky factorisation of the Gram matrix of rows or columns, whichever are
    fewer. A pivot is the squared distance of a column from the span of the columns before it, so
    each dependent column leaves a pivot of 0. A small shift makes these pivots positive, so that
    the factorisation can continue.

    A squared distance has only half of the digits. So a random combination of the columns that look
    dependent is computed, minus the combination of other columns that is closest to it: it must
    vanish to nearly all digits.
    """
    import scipy.sparse as sp

    m, n = rows.shape
    few = sp.csr_array(rows if m <= n else rows.T)
    lengths = row_lengths(few)
    few = scaled_rows(few[lengths > 0.0], 1.0 / lengths[lengths > 0.0])
    if not few.shape[0]:
        return int(n)
    found = factorise(few @ few.T + 64.0 * EPS * sp.eye_array(few.shape[0]))
    pivots = found.U.diagonal()
    seems = pivots <= TOL.half
    some = np.where(seems, np.random.default_rng(0).standard_normal(len(pivots)), 0.0)
    weights = found.solve((found.L @ (pivots * some))[found.perm_r])
    if not norm(weights @ few) <= TOL.touching * norm(weights):
        return None
    return int(n - np.count_nonzero(~seems))
