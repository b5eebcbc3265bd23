"""Basis pursuit: minimises |x|_1 over an affine slice of a polyhedron, to full precision.

    minimise sum of prices_i |x_i|   over   { x : V x = V x0,  rows x <= offset }

The rows of V are orthonormal. With x = p - q, p and q >= 0, basis pursuit is a linear program. On
R^n we use column generation: we begin with few columns and add those whose slope |V'y| exceeds
their price, where y is the dual of the current program, until no such column is left. HiGHS says
which entries are 0 and which inequalities are active. The point and the multipliers then follow
from linear equations, to full precision. The point x is optimal if some subgradient at x plus some
normal of the inequalities is a combination of the rows of V. For |x|_1 all prices are equal in the
original units of the variables; other units make them differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tiebreak.exact.active_set import PolyhedronSlice
from tiebreak.exact.newton import minimise
from tiebreak.exact.polyhedra import PolyhedralRows
from tiebreak.functions import LeastSquaresPart, Parts
from tiebreak.functions.penalties.terms import largest
from tiebreak.linalg import EPS, TOL, Host, Rank, deadline, null_basis
from tiebreak.linalg.host import Sliced, norm, power_of_two
from tiebreak.linalg.linear_programs import Ranges, linear_programs
from tiebreak.linalg.row_gram import RowGram
from tiebreak.problem import Problem

# Entries below one of these shares of the largest entry are set to 0 if the equations can still be
# satisfied; the last share is HiGHS's own tolerance.
ZERO_SHARES = (1e-13, 1e-11, 1e-9, 1e-7)


class RankedEquations:
    """The equations V x = V x0, where the orthonormal rows V come from a known `Rank`."""

    def __init__(self, rows: Host, rank: Rank, start: Host) -> None:
        self._rows, self._rank, self._start = Sliced(rows), rank, start
        self._V: Host = rank.basis[:, : rank.low].T
        self.target: Host = self._V @ start  # V x0

    def columns(self, which: Host) -> Host:
        """Return the columns ``which`` of V."""
        return np.asarray(self._V[:, which])

    def slopes(self, y: Host) -> Host:
        """V'y."""
        return np.asarray(self._V.T @ y)

    def misfit(self, x: Host) -> Host:
        """Return V (x0 - x), as if computed in twice the precision."""
        off = self._rows.times(self._start - x)
        return np.asarray(self._V @ self._rank.moved(off, self._rank.low))


class GramEquations:
    """The equations S x = b in the least-squares sense: V = T S, T from eigenvectors of S S'."""

    def __init__(self, S: Any, b: Host, gram: RowGram, rank: int) -> None:
        first = len(gram.values) - rank
        self.T: Host = (gram.vectors[:, first:] / np.sqrt(gram.values[first:])).T
        self._S, self._b = S, b
        self._by_columns = S if isinstance(S, np.ndarray) else S.tocsc()
        self.target: Host = self.T @ b

    def _columns(self, which: Host) -> Host:
        some = self._by_columns[:, which]
        return some if isinstance(some, np.ndarray) else np.asarray(some.toarray())

    def columns(self, which: Host) -> Host:
        """Return the columns ``which`` of V."""
        return np.asarray(self.T @ self._columns(which))

    def slopes(self, y: Host) -> Host:
        """V'y."""
        return np.asarray(self._S.T @ (self.T.T @ y))

    def misfit(self, x: Host) -> Host:
        """Return V (x0 - x), as if computed in twice the precision."""
        seen = np.flatnonzero(x)
        return np.asarray(-self.T @ Sliced(self._columns(seen)).times(x[seen], self._b))


class L1Norm(NamedTuple):
    """The sum of weights_j |x_j - center_j|, scaled so that the largest weight is 1."""

    weights: Host
    center: Host

    @classmethod
    def of(cls, problem: Problem, n: int) -> L1Norm:
        """Return the l1 norm of the upper level."""
        terms = problem.penalties[0].terms
        center = np.zeros(n) if terms.center is None else terms.center
        return cls(np.broadcast_to(terms.l1 / largest(terms.l1), n), center)

    def in_units(self, units: Host) -> L1Norm:
        """Return the norm as a function of u = x/units."""
        weights = self.weights * units
        return L1Norm(weights / np.max(weights), self.center / units)


class SparsestPoint(NamedTuple):
    """A minimiser, and the evidence that it is one."""

    x: Host
    sign: Host  # a subgradient at x
    normal: Host  # a normal of the inequalities at x
    multipliers: Host  # y, with V'y close to sign + normal
    residual: float  # relative distance of V'y from sign + normal
    left_open: int = 0  # the dimension of the set of all minimisers


class BasisPursuit(NamedTuple):
    """The sum of prices_i |x_i| over the points with V x = V x0 and rows x <= offset.

    The ``rows`` have norm 1.
    """

    equations: RankedEquations | GramEquations
    rows: Host
    offset: Host
    prices: Host

    def matrix(self, which: Host, touches: Host) -> Host:
        """Return the columns ``which`` of the equations and of the active inequalities."""
        return np.vstack([self.equations.columns(which), self.rows[touches][:, which]])


def sparsest(program: BasisPursuit, center: Host, weights: Host) -> SparsestPoint | None:
    """Return x + center for the minimiser x with the least weighted norm of x + center.

    Return None if HiGHS finds no minimiser.
    """
    found = _some_minimiser(program)
    return None if found is None else _of_least_norm(program, found, center, weights)


def _some_minimiser(program: BasisPursuit) -> SparsestPoint | None:
    """Return a minimiser over the slice to within rounding error; None if HiGHS finds none."""
    target, zero = program.equations.target, np.zeros(len(program.prices))
    if not target.any() and np.all(program.offset >= 0.0):
        return SparsestPoint(zero, zero, zero, target, 0.0)
    best = None
    for _ in range(2):
        found = _by_columns(program, zero if best is None else best[0])
        if found is None:
            break
        y, weights = np.split(found[1], [len(target)])
        slope = program.equations.slopes(y) + program.rows.T @ weights
        x, touches, fits = _snapped(program, found[0], slope)
        best = x, touches, np.append(y, weights[touches]), slope
        if fits:
            break
    return None if best is None else _proved(program, *best)


def _by_columns(program: BasisPursuit, base: Host) -> tuple[Host, Host] | None:
    """Approximate a minimiser and the multipliers of all rows, using HiGHS.

    Given a ``base`` that satisfies the equations up to HiGHS's tolerances, we solve for its
    correction, in units of the misfit; the costs assume that nonzero entries of the base keep their
    signs.

    If the polyhedron has inequalities, we use all columns. On R^n a few columns may not suffice for
    the equations, so we add unit vectors for each equation and sign. The dual y of the program with
    all columns has |V'y| <= prices, so |y| <= |prices|: if unit vectors cost twice that, the
    solution uses none of them.
    """
    from scipy.sparse import csc_array, csr_array

    V, prices, every = program.equations, program.prices, np.arange(len(program.rows))
    target = V.misfit(base) if base.any() else V.target
    r, n, size = len(target), len(prices), norm(target) or 1.0
    unit = float(power_of_two(np.array([n / max(r, 1)]), 0.5)[0])  # the rough size of V's columns
    ends = np.full(len(every), -np.inf), (program.offset - program.rows @ base) / size
    least, most = (np.append(target * (unit / size), end) for end in ends)
    spare = np.hstack([np.eye(r), -np.eye(r)])[:, : 0 if len(every) else None]
    cost = np.full(spare.shape[1], 2.0 * norm(prices) / unit)
    programs = linear_programs(csr_array(np.vstack([spare, np.zeros((len(every), len(cost)))])))
    # The two rows of `taken` stand for the columns and their negatives.
    taken = np.tile((prices == 0.0) | (base != 0.0), (2, 1)) | (len(every) > 0)
    new = taken | _largest(V.slopes(target), -1.0, taken, 2 * r)
    taken, signs, places = new, np.zeros(0), np.zeros(0, dtype=int)
    while new.any():
        sign, place = np.nonzero(new)
        sign = np.where(sign, -1.0, 1.0)
        columns = program.matrix(place, every) * np.append(np.full(r, unit), every >= 0)[:, None]
        programs.append(csc_array(sign * columns))
        signs, places = np.append(signs, sign), np.append(places, place)
        cost = np.append(
            cost, prices[place] * np.where(base[place], sign * np.sign(base[place]), 1.0)
        )
        ranges = Ranges(np.zeros(len(cost)), np.full(len(cost), np.inf), least, most)
        if (vertex := programs.minimise(cost, ranges)) is None:
            return None
        u, y, others = vertex.x, unit * vertex.duals[:r], vertex.duals[r:]
        new = _largest(V.slopes(y), (1.0 + TOL.accurate) * prices, taken, 2 * r)
        taken = taken | new
    spares, u = np.split(u, [spare.shape[1]])
    if np.max(spares, initial=0.0) > TOL.solver:
        return None
    return base + size * np.bincount(places, signs * u, n), np.append(y, others)


def _largest(slopes: Host, prices: Host | float, taken: Host, count: int) -> Host:
    """Return the columns, or their negatives, whose slopes most exceed their prices."""
    excess = np.where(taken, -np.inf, np.stack([slopes, -slopes]) - prices)
    found = excess > 0.0
    if np.count_nonzero(found) > count:
        found &= excess >= np.partition(excess, -count, axis=None)[-count]
    return found


def _of_least_norm(
    program: BasisPursuit, found: SparsestPoint, center: Host, weights: Host
) -> SparsestPoint:
    """Return x + center for the minimiser x with the least weighted norm of x + center.

    As in any linear program, the minimisers are the points complementary to one dual solution: an
    entry is 0 if its subgradient is below the price, and otherwise has the sign of the subgradient.
    All minimisers have the same product with the normal.
    """
    x = found.x + center
    free = np.flatnonzero(np.abs(found.sign) >= (1.0 - TOL.touching) * program.prices)
    N = null_basis(np.vstack([program.equations.columns(free), found.normal[free]]))
    if not N.size:
        return found._replace(x=x)
    rows = np.vstack([program.rows[:, free], -np.diag(np.sign(found.sign[free]))])
    offset = np.append(program.offset, np.zeros(len(free))) + rows @ center[free]
    size = LeastSquaresPart(1.0, np.diag(weights[free]), np.zeros(len(free)))
    face = PolyhedronSlice(rows, offset, N)
    x[free] = minimise(Parts(len(free), (size,)).scaled, face, x[free])[0]
    x[free] = PolyhedralRows(rows, offset, rows[:0]).point(x[free])
    return found._replace(x=x, left_open=N.shape[1])


def _snapped(program: BasisPursuit, guess: Host, slope: Host) -> tuple[Host, Host, bool]:
    """Return the refined guess, its active inequalities, and whether it satisfies all constraints.

    The refined point has as few nonzero entries and as many active inequalities as the equations
    allow. If HiGHS's tolerance hides a nonzero entry, the ``slope`` of that entry still reaches its
    price.
    """
    tight = np.abs(slope) > (1.0 - TOL.solver) * program.prices
    x, _, fits = _refined(program, guess, ZERO_SHARES[0], tight)
    guess = x if fits and np.all(x * slope >= 0.0) else guess
    best, has_fit, known = None, False, None
    for share in ZERO_SHARES:
        above = np.abs(guess) > share * np.max(np.abs(guess))
        if known is not None and np.array_equal(above, known) and not len(program.rows):
            continue
        known, (x, touches, fits) = above, _refined(program, guess, share)
        fits &= bool(np.all(x * guess >= 0.0))
        if has_fit and not fits:
            break
        if best is None or fits:
            best, has_fit = (x, touches), fits
    assert best is not None
    return *best, has_fit


def _refined(
    program: BasisPursuit, guess: Host, share: float, more: Host | bool = False
) -> tuple[Host, Host, bool]:
    """Solve for the entries above this share of the largest entry, and for those in ``more``.

    Return x, its active rows, and whether it satisfies all constraints.
    """
    size, misfit = float(np.max(np.abs(guess))), program.equations.misfit
    kept = np.flatnonzero((np.abs(guess) > share * size) | more)
    touches = program.offset - program.rows @ guess <= share * (size + np.abs(program.offset))
    matrix, x = program.matrix(kept, touches), np.zeros(len(guess))
    x[kept] = guess[kept]
    solve, right = _least_squares(matrix), program.offset[touches]
    for _ in range(TOL.refinements):
        off = right - Sliced(program.rows[touches]).times(x) if len(right) else right
        x[kept] += solve(np.append(misfit(x), off))
    off = program.offset - program.rows @ x
    worst = max(norm(misfit(x)), norm(off[touches]), -float(np.min(off, initial=0.0)))
    return x, touches, worst <= TOL.met * (norm(x) + norm(program.offset[touches]))


def _least_squares(matrix: Host) -> Callable[[Host], Host]:
    """Return a function that maps b to the least-norm solution of matrix x = b."""
    deadline.check(deadline.svd_work(*matrix.shape))
    left, sigma, right = np.linalg.svd(matrix, full_matrices=False)
    rank = int(np.count_nonzero(sigma > 64 * EPS * np.max(sigma, initial=0.0)))
    left, sigma, right = left[:, :rank], sigma[:rank], right[:rank]
    return lambda b: np.asarray(right.T @ ((left.T @ b) / sigma))


def _proved(
    program: BasisPursuit, x: Host, touches: Host, multipliers: Host, slope: Host
) -> SparsestPoint:
    """Return x with the first multipliers that are right up to rounding, or the best of three.

    With s = V'y - rows' mu, the first correction of HiGHS's multipliers makes s equal to the price
    times the sign of x wherever x is not 0. The second correction also makes |s| equal to the price
    wherever the two nearly agree, as at a vertex of the set of all multipliers. The multipliers
    tried last are HiGHS's own.
    """
    sign, tight = np.sign(x), np.abs(slope) > (1.0 - TOL.solver) * program.prices
    answers = []
    for exact in (sign != 0.0, (sign != 0.0) | tight, None):
        m = multipliers
        if exact is not None:
            wanted = (program.prices * np.where(sign != 0.0, sign, np.sign(slope)))[exact]
            matrix = program.matrix(np.flatnonzero(exact), touches).T
            solve, rows = _least_squares(matrix), Sliced(matrix)
            for _ in range(TOL.refinements):
                m = m - solve(rows.times(m, wanted))
        answers.append(_answer(program, x, touches, m))
        if answers[-1].residual <= TOL.rounding:
            break
    return min(answers, key=lambda answer: answer.residual)


def _answer(program: BasisPursuit, x: Host, touches: Host, multipliers: Host) -> SparsestPoint:
    """Return x with the subgradient and normal that best fit the multipliers, and the residual."""
    y, weights = np.split(multipliers, [len(program.equations.target)])
    normal = program.rows[touches].T @ np.maximum(-weights, 0.0)
    seen = program.equations.slopes(y)
    s, prices = seen - normal, program.prices
    s = np.where(x == 0.0, np.clip(s, -prices, prices), prices * np.sign(x))
    size = norm(s) + norm(normal)
    rest = norm(s + normal - seen)
    return SparsestPoint(x, s, normal, y, rest / size if size > 0.0 else 0.0)
