"""CVXPY levels compiled to the same constraints.

To compile level i, we sum all levels, with weight 1 for level i and 0 for the others. Then CVXPY
writes the same constraints and the same auxiliary variables for every level, and only the objective
differs. If the weights were cp.Parameters, one compilation would be enough at first. But a level
with its own parameter would no longer be DPP, and every new value would need a new compilation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.program import Cone, Objective
from tiebreak.conic.representation import objective_of
from tiebreak.linalg import EPS, Host
from tiebreak.linalg.conic_form import Affine, Cost, Misfit, completed_square, entries, misfit_of
from tiebreak.linalg.tolerances import TOL


class CompiledLevel:
    """One level as CVXPY compiled it, with the map back to the user's variables."""

    def __init__(self, data: dict[str, Any], chain: Any, inverse: Any) -> None:
        self.data, self._chain, self._inverse = data, chain, inverse
        self.size: int = int(data["A"].shape[1])
        self.constant: float = float(self.inverted(np.zeros(self.size)).opt_val)

    def inverted(self, z: Host, y: Host | None = None) -> Any:
        """CVXPY's solution at z, as if Clarabel had returned it with value 0 and multipliers y."""
        returned = SimpleNamespace(
            status="Solved",
            x=z,
            z=np.zeros(self.data["A"].shape[0]) if y is None else y,
            obj_val=0.0,
            solve_time=0.0,
            iterations=0,
        )
        return self._chain.invert(returned, self._inverse)


class Compiler:
    """Compiles all levels at the first call of `apply`, and later only those with new parameters.

    Args:
        levels: convex expressions, the most important first.
        constraints: CVXPY constraints.
        variables: the user's variables.

    Attributes:
        columns: the entries of z that are the user's variables.
        is_shared: do a level and a constraint have auxiliary variables in common? CVXPY 1.9 writes
            |x| only once if it occurs in a level and in a constraint.
    """

    def __init__(
        self, levels: Sequence[Any], constraints: Sequence[Any], variables: Sequence[Any]
    ) -> None:
        import cvxpy as cp

        self._variables, self._constraints = variables, list(constraints)
        self._probe = cp.Parameter(value=0.0)
        probed = self._probe * sum(variable.sum() for variable in variables)
        costs = [
            cp.Minimize(sum(float(i == j) * level for j, level in enumerate(levels)) + probed)
            for i in range(len(levels))
        ]
        self._problems = [cp.Problem(cost, self._constraints) for cost in costs]
        self._halves = (cp.Problem(costs[0]), cp.Problem(cp.Minimize(probed), self._constraints))
        # For each level, the parameters whose new values make it necessary to compile the level
        # again: its own, or all parameters if the problem is not DPP.
        everything = {parameter.id for parameter in self._problems[0].parameters()}
        self._parameters = [
            {parameter.id for parameter in level.parameters()}
            if self._problems[0].is_dpp()
            else everything
            for level in levels
        ]
        self._objectives: dict[int, Objective] = {}
        self._roots: dict[int, tuple[Any, SquareRoot]] = {}  # P and its root, for each level
        self._size = 0
        self.columns: Host = np.zeros(0, dtype=int)
        self.is_shared: bool = False

    def apply(self, new: set[Any]) -> tuple[CompiledLevel, tuple[Objective, ...]]:
        """The first level, with the constraints of all levels, and all objectives.

        ``new`` are the ids of the parameters that have changed: the objective of a level without
        them is reused.
        """
        wanted = [
            i
            for i, used in enumerate(self._parameters)
            if i == 0 or i not in self._objectives or used & new
        ]
        # CVXPY has taken the y of quad_over_lin(x, y) for a constant if it had a value (its #2773).
        with with_values(self._variables, {}):
            parts = [_compile(self._problems[i]) for i in wanted]
        first = parts[0]
        if any(not _same_set(first.data, part.data) for part in parts[1:]):
            raise ValueError(
                "from_cvxpy: CVXPY must compile all levels to the same constraints, "
                "got different ones for this problem"
            )
        if first.size != self._size:
            self._size, self.columns = first.size, self._user_columns(first)
            self.is_shared = self._shares(first)
        for i, part in zip(wanted, parts, strict=True):
            self._objectives[i] = self._objective(i, part)
        return first, tuple(self._objectives[i] for i in range(len(self._problems)))

    def _user_columns(self, first: CompiledLevel) -> Host:
        """The columns whose costs change if the user's variables are added to the objective."""
        costs = first.data["c"]
        self._probe.value = max(1.0, np.max(np.abs(costs)))  # large enough to change every cost
        try:
            moved = _compile(self._problems[0]).data["c"]
        finally:
            self._probe.value = 0.0
        return np.flatnonzero(moved != costs)

    def _shares(self, first: CompiledLevel) -> bool:
        """Do the levels and constraints have more variables in total if compiled separately?"""
        if all(arg.is_affine() for one in self._constraints for arg in getattr(one, "args", ())):
            return False  # affine constraints need no auxiliary variables
        with with_values(self._variables, {}):
            alone = sum(_compile(half).size for half in self._halves)
        return alone - len(self.columns) > first.size

    def _objective(self, i: int, part: CompiledLevel) -> Objective:
        P = part.data.get("P")
        if P is None:  # no level has squares
            import scipy.sparse as sp

            P = sp.csc_array((part.size, part.size))
        known = self._roots.get(i)
        if known is None or not same_matrix(known[0], P):
            self._roots[i] = known = (P.copy(), square_root(P))
        (F, misfit), linear = known[1], np.asarray(part.data["c"], dtype=float)
        misfits = (misfit.at,) * bool(misfit.square.nnz)
        return Objective(F, np.zeros(F.shape[0]), linear, part.constant, misfits)


@contextlib.contextmanager
def with_values(variables: Sequence[Any], values: Mapping[Any, Any]) -> Iterator[None]:
    """Temporarily give the variables these values by variable id; other variables get None."""
    former = {variable.id: variable.value for variable in variables}
    save_values(variables, values)
    try:
        yield
    finally:
        save_values(variables, former)


def save_values(variables: Sequence[Any], values: Mapping[Any, Any]) -> None:
    """Give each variable the value listed under its id."""
    for variable in variables:
        variable.save_value(values.get(variable.id))


def _compile(problem: Any) -> CompiledLevel:
    import cvxpy as cp

    try:
        return CompiledLevel(*problem.get_problem_data(cp.CLARABEL, solver_opts={}))
    except cp.SolverError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            f"from_cvxpy: the levels must compile for Clarabel, got: {reason}"
        ) from error


def _same_set(one: dict[str, Any], other: dict[str, Any]) -> bool:
    same = str(one["dims"]) == str(other["dims"]) and np.array_equal(one["b"], other["b"])
    return bool(same and same_matrix(one["A"], other["A"]))


def same_matrix(one: Any, other: Any) -> bool:
    """Are two sparse matrices (csc) equal?"""
    if one.shape != other.shape:
        return False
    if np.array_equal(one.indptr, other.indptr) and np.array_equal(one.indices, other.indices):
        return np.array_equal(one.data, other.data)
    return bool((one != other).nnz == 0)


class SquareRoot(NamedTuple):
    """A sparse F without zero rows, and a bound on how far ½|F z|² is from ½z'Pz."""

    factor: Any
    misfit: Misfit


def square_root(P: Any) -> SquareRoot:
    """The square root of a sparse P.

    P is diagonal if CVXPY wrote squares with auxiliary variables. Otherwise F is computed block by
    block, so that one dense quadratic form does not make all of F dense.
    """
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components

    P = sp.csr_array(P)
    P.eliminate_zeros()
    n, diagonal = P.shape[0], P.diagonal()
    is_alone = np.diff(P.indptr) == (diagonal != 0.0)
    # The root of a number is rounded like any entry, which all bounds count: here only negative
    # numbers are misfits.
    alone = sp.diags_array(np.where(is_alone, diagonal, 0.0), format="csr")
    factors = [completed_square(alone.maximum(0.0), np.zeros(n), EPS)[0]]
    misfits = [entries(abs(alone.minimum(0.0)))]
    used = np.flatnonzero(~is_alone)
    blocks, block_of = connected_components(P[used][:, used], directed=False)
    for block in range(blocks):
        columns = used[block_of == block]
        part, zero = P[columns][:, columns].toarray(), np.zeros(columns.size)
        factor, _ = completed_square(part, zero, EPS)
        row, column, values = entries(factor)
        shape = factor.shape[0], n
        factors.append(sp.csr_array((values, (row, columns[column])), shape=shape))
        square = misfit_of(part, zero, factor, np.zeros(factor.shape[0])).square
        row, column, values = entries(square)
        misfits.append((columns[row], columns[column], values))
    F = sp.csr_array(sp.vstack(factors, format="csr"))
    row, column, values = map(np.concatenate, zip(*misfits, strict=True))
    square = sp.csr_array((values, (row, column)), shape=(n, n))
    # psd_wrap takes any matrix, but F'F may differ by rounding only; misfits are twice that.
    if square.max() > 2.0 * TOL.accurate * abs(P).max():
        needed = "from_cvxpy: each level must be convex"
        raise ValueError(f"{needed}, got a quadratic form that is not positive semidefinite")
    return SquareRoot(F, Misfit(square, np.zeros(n), 0.0))


class Definitions:
    """Auxiliary variables u whose only constraint is their definition, u = given - taken w.

    z is (w, u) in some order. The objectives become functions of w: CVXPY writes |A x - b|² as |u|²
    with the rows u = A x - b. After substitution the square is again a function of x, with fewer
    variables and rows, and its rounding is measured against A x and b, not against u, which is 0
    for an exact fit.

    Args:
        rows: the rows of the program, a sparse array (csc). equations: how many of the first rows
            are equations. variables: the columns that are never substituted.

    Attributes:
        given: the part of u that does not depend on w; it is set in `with_offset`.
        kept, defined: the entries of z that are w and u.
        variables: the entries of w that are the user's variables.
        rows: the remaining rows, which multiply w.
    """

    def __init__(self, rows: Any, equations: int, variables: Host) -> None:
        import scipy.sparse as sp

        self.given: Host = np.zeros(0)
        self.matrix = rows = sp.csc_array(rows)
        m, n = rows.shape
        # Each u occurs in one row only, so substituting it changes no other row.
        alone = np.diff(rows.indptr) == 1
        alone[variables] = False
        columns = np.flatnonzero(alone)
        where, size = rows.indices[rows.indptr[columns]], rows.data[rows.indptr[columns]]
        largest = abs(rows).max(axis=1).toarray().ravel() if len(columns) else np.zeros(m)
        good = (where < equations) & (np.abs(size) > TOL.independent * largest[where])
        self._where, first = np.unique(where[good], return_index=True)
        self.defined, self._pivot = columns[good][first], size[good][first]
        self.kept = np.delete(np.arange(n), self.defined)
        self.variables = np.searchsorted(self.kept, variables)
        self._others = np.delete(np.arange(m), self._where)
        inner = rows[:, self.kept]
        self.rows: Any = inner[self._others]
        self._taken = sp.csr_array(inner[self._where].multiply(1.0 / self._pivot[:, None]))

    def with_offset(self, offset: Host) -> Host:
        """Accept the offset of the program, and return the offset of the remaining rows."""
        self.given = offset[self._where] / self._pivot
        return np.asarray(offset[self._others])

    def multipliers(self, y: Host) -> Host:
        """The multipliers of all rows, 0 for those that define u."""
        found = np.zeros(self.matrix.shape[0])
        found[self._others] = y
        return found

    def cones(self, cones: tuple[Cone, ...]) -> tuple[Cone, ...]:
        """The cones without the equations that define u; all equations come first."""
        if not len(self.defined):
            return cones
        left = Cone("zero", cones[0].size - len(self.defined))
        return (left, *cones[1:]) if left.size else cones[1:]

    def objective(self, h: Objective) -> Objective:
        """The objective h of z, as a function of w."""
        import scipy.sparse as sp

        F = sp.csc_array(h.squares)
        ours = F[:, self.defined]
        squares = sp.csr_array(F[:, self.kept] - ours @ self._taken)
        cost, costs = Cost(), h.linear[self.defined]
        cost.add(1.0, Affine(((0, h.linear[self.kept][None]),), np.array([h.constant])))
        mine, given, taken = costs != 0.0, self.given, abs(self._taken)
        cost.add(costs[mine], Affine(((0, -self._taken[mine]),), given[mine]), is_rounded=True)
        made = objective_of(cost, len(self.kept))

        def misfit(sizes: Host) -> float:
            return h.misfit(self._joined(sizes, np.abs(given) + taken @ sizes))

        misfits = made.misfits + (misfit,) * bool(h.misfits)
        target = h.target - ours @ given
        return Objective(squares, target, made.linear, made.constant, misfits)

    def lifted(self, w: Host) -> Host:
        """The z for this w."""
        return self._joined(w, self.given - self._taken @ w)

    def _joined(self, w: Host, u: Host) -> Host:
        z = np.empty(len(self.kept) + len(self.defined))
        z[self.kept], z[self.defined] = w, u
        return z
