"""Linear programs solved by HiGHS: single programs, with retries, and sequences of programs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.tolerances import TOL


def linear_program(
    cost: Host, rows: Any, right: Host, bounds: Any, equal: Any = None
) -> Host | None:
    """A minimiser of <cost, v> subject to rows v <= right, equal v = 0 and ``bounds`` on v.

    The result is None if HiGHS finds no minimiser.
    """
    zero = None if equal is None else np.zeros(equal.shape[0])
    found = last_attempt(cost, A_ub=rows, b_ub=right, A_eq=equal, b_eq=zero, bounds=bounds)
    return np.asarray(found.x) if found.success else None


def last_attempt(cost: Host, **program: Any) -> Any:
    """The result of SciPy's last attempt; ``success`` and ``status`` say how far to trust it."""
    from scipy.optimize import linprog

    found = None
    # Without presolve, HiGHS can say why it fails. If a tolerance is too strict for HiGHS, a looser
    # one is tried.
    strictest = 1e-10  # the strictest tolerance that HiGHS accepts
    attempts = ((True, strictest), (False, strictest), (False, TOL.solver))
    for presolve, tolerance in attempts:
        deadline.check()
        options = {
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
            "time_limit": deadline.left(),
            "presolve": presolve,
        }
        found = linprog(cost, **program, options=options)
        deadline.check()
        if found.success:
            break
    return found


def strict_rows(rows: Any, equal: Any = None) -> Host | None:
    """Find the inequalities rows v <= 0 that can all be strict at once, with equal v = 0.

    Every row has norm 1 or 0. We maximise sum z over {rows v + z <= 0, equal v = 0} with |v_i| <= 1
    and 0 <= z_i <= 1, and then repeatedly the sum over the rows that are not yet strict along any
    direction found. Along the mean of all these directions, every row found is strict. A row with
    one entry is a bound on v and needs no z. The result is None if HiGHS fails, or if a slack is so
    small that it may be an error of HiGHS, but larger than rounding errors.
    """
    from scipy.sparse import csr_array, eye_array, hstack

    rows = csr_array(rows)
    is_bound = np.diff(rows.indptr) == 1
    bounds, rest = rows[is_bound], rows[~is_bound]
    (m, k), column, sign = rest.shape, bounds.indices, np.sign(bounds.data)
    low, high = np.full(k + m, -1.0), np.ones(k + m)
    low[column[sign < 0.0]], high[column[sign > 0.0]], low[k:] = 0.0, 0.0, 0.0
    known, is_doubtful = np.zeros((2, len(is_bound)), dtype=bool)
    whole = hstack([rest, eye_array(m)])
    equal = csr_array((0, k) if equal is None else equal)
    whole_equal = hstack([equal, csr_array((equal.shape[0], m))])
    while not known.all():
        cost = np.append(np.zeros(k), known[~is_bound] - 1.0)
        np.add.at(cost, column, np.where(known[is_bound], 0.0, sign))
        found = linear_program(cost, whole, np.zeros(m), np.column_stack([low, high]), whole_equal)
        if found is None:
            return None
        v = found[:k]
        slack = -(rows @ v)
        # Slacks that exceed all violations by this factor are not caused by them.
        clear = 1e4 * max(np.max(-slack, initial=0.0), np.max(np.abs(equal @ v), initial=0.0))
        is_doubtful |= slack > max(clear, TOL.met)
        more = (slack > min(max(clear, TOL.accurate), TOL.faint)) & ~known
        if not more.any():
            return None if np.any(is_doubtful & ~known) else known
        known |= more
    return known


# -- sequences of programs ------------------------------------------------------------------------


class Ranges(NamedTuple):
    """Bounds low <= x <= high and least <= rows x <= most; a missing bound is infinite."""

    low: Host
    high: Host
    least: Host
    most: Host


class Vertex(NamedTuple):
    """A minimiser and the rows' multipliers; a multiplier is positive if ``least`` binds."""

    x: Host
    duals: Host


class LinearPrograms:
    """Linear programs with the same rows (csr), each solved by SciPy from scratch."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def append(self, columns: Any) -> None:
        """Append variables, given by their columns (csc), to all later programs."""
        import scipy.sparse as sp

        self._rows = sp.csr_array(sp.hstack([self._rows, columns]))

    def minimise(self, cost: Host, ranges: Ranges) -> Vertex | None:
        """A minimiser of <cost, x>; None if HiGHS finds no minimiser."""
        import scipy.sparse as sp

        low, high, least, most = ranges
        equal = least == most
        above, below = (~equal & np.isfinite(end) for end in (most, least))
        found = last_attempt(
            cost,
            A_ub=sp.vstack([self._rows[above], -self._rows[below]]),
            b_ub=np.append(most[above], -least[below]),
            A_eq=self._rows[equal],
            b_eq=most[equal],
            bounds=np.column_stack([low, high]),
        )
        if not found.success:
            return None
        duals, count = np.zeros(len(least)), np.count_nonzero(above)
        duals[above] += found.ineqlin.marginals[:count]
        duals[below] -= found.ineqlin.marginals[count:]
        duals[equal] = found.eqlin.marginals
        return Vertex(np.asarray(found.x), duals)


class _WarmStarted(LinearPrograms):
    """Linear programs with the same rows; highspy starts each from the basis of the previous one.

    If the new ranges still contain the previous minimiser, the primal simplex method continues from
    it.
    """

    def __init__(self, rows: Any) -> None:
        import highspy

        super().__init__(rows)
        self._solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        self._optimal = highspy.HighsModelStatus.kOptimal
        self._former: Ranges | None = None
        for name, value in (
            ("output_flag", False),
            ("threads", 1),
            ("primal_feasibility_tolerance", 1e-9),  # far tighter than is needed to identify a face
            ("dual_feasibility_tolerance", 1e-9),
        ):
            self._solver.setOptionValue(name, value)

    def append(self, columns: Any) -> None:
        """Add variables, which are 0 in the last basis."""
        if self._former is not None:
            none, parts = np.zeros(columns.shape[1]), (columns.indptr[:-1], columns.indices)
            self._solver.addCols(len(none), none, none, none, columns.nnz, *parts, columns.data)
        super().append(columns)

    def minimise(self, cost: Host, ranges: Ranges) -> Vertex | None:
        solver, former, (m, n) = self._solver, self._former, self._rows.shape
        if former is None:
            parts = (self._rows.indptr, self._rows.indices, self._rows.data)
            solver.passModel(
                n, m, self._rows.nnz, 2, 1, 0.0, cost, *ranges, *parts, np.zeros(n, dtype=np.int32)
            )
        else:
            places = np.arange(n, dtype=np.int32)
            solver.setOptionValue("simplex_strategy", 4)  # the primal simplex method
            solver.changeColsCost(n, places, cost)
            solver.changeColsBounds(n, places, ranges.low, ranges.high)
            changed = (former.least != ranges.least) | (former.most != ranges.most)
            for i in np.flatnonzero(changed):
                solver.changeRowBounds(int(i), float(ranges.least[i]), float(ranges.most[i]))
        self._former = ranges
        deadline.check()
        if np.isfinite(left := deadline.left()):
            solver.setOptionValue("time_limit", solver.getRunTime() + left)
        solver.run()
        deadline.check()
        if solver.getModelStatus() != self._optimal:
            return None
        found = solver.getSolution()
        return Vertex(np.array(found.col_value), np.array(found.row_dual))


def linear_programs(rows: Any) -> LinearPrograms:
    """Linear programs with the given rows (csr), solved by highspy if installed, or by SciPy."""
    try:
        return _WarmStarted(rows)
    except ImportError:
        return LinearPrograms(rows)
