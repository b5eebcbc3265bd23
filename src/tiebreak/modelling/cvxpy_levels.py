"""Objectives of CVXPY in the order of their priority, compiled to one conic program.

Level i is compiled as the sum of all levels with weight 1 for itself and 0 for the others: CVXPY
then writes the same constraints and the same auxiliary variables for every level, and only the
objective differs. (Weights as cp.Parameters would compile once, but a level that holds a parameter
itself is no longer DPP under them, and every new value would compile anew.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tiebreak.conic.chain import Slack
from tiebreak.conic.program import Cone, ConicProgram, Objective
from tiebreak.linalg.arrays import Host
from tiebreak.modelling.square_roots import square_root

# Attributes of a variable that are constraints in disguise, and not ones that we take.
REFUSED = {
    "boolean": "boolean",
    "integer": "integer",
    "complex": "complex",
    "imag": "imaginary",
    "hermitian": "Hermitian",
    "PSD": "positive semidefinite",
    "NSD": "negative semidefinite",
}
REFUSED_CONES = {"psd": "a semidefinite cone", "p3d": "a power cone", "pnd": "a power cone"}


def from_cvxpy(
    objective: Any,
    then: Any,
    constraints: Sequence[Any] = (),
    radius: float | None = None,
    slacks: Sequence[Slack | None] | None = None,
) -> CvxpyLevels:
    """Levels written in CVXPY: ``then`` chooses among all minimisers of ``objective``.

        x = cp.Variable(50)
        fit = cp.Minimize(cp.sum_squares(A @ x - b))
        levels = tb.from_cvxpy(fit, then=[cp.Minimize(cp.norm1(x))], constraints=[G @ x <= h])

    Parameters may change between solves; where the problem follows CVXPY's DPP rules nothing is
    compiled again. From the first call on, ``problem.solve(method="tiebreak", then=...)`` works
    too, see `register_cvxpy`.

    Args:
        objective: the most important level, cp.Minimize or cp.Maximize.
        then: the levels after it, one or several, in the order of their priority.
        constraints: of CVXPY, for all levels.
        radius: no entry of a solution's variables is larger, if you know one: bounds that were
            "verified" with an assumed radius are then proved.
        slacks: what each level but the last may give up; None for nothing.

    Raises:
        TypeError: where something is not an object of CVXPY.
        ValueError: what cannot be taken: integers, semidefinite and power cones, complex numbers,
            problems that are not DCP; the message names it.
    """
    from tiebreak.modelling.cvxpy_solve import register_cvxpy

    register_cvxpy()
    if not isinstance(then, list | tuple):
        then = [then]
    levels = CvxpyLevels([objective, *then], list(constraints), radius, slacks)
    if all(parameter.value is not None for parameter in levels.parameters):
        levels.program()  # what only the compiled form shows is refused here, not later
    return levels


class CvxpyLevels:
    """Levels of CVXPY; made by `from_cvxpy`.

    Attributes:
        names: of the levels.
        signs: 1 for cp.Minimize, -1 for cp.Maximize, which the program minimises negated.
        variables, parameters: of CVXPY, of all levels and constraints together.
        slacks: what each level but the last may give up; None for nothing.
    """

    def __init__(
        self,
        levels: Sequence[Any],
        constraints: list[Any],
        radius: float | None = None,
        slacks: Sequence[Slack | None] | None = None,
    ) -> None:
        import cvxpy as cp

        _check_objects(levels, constraints)
        if radius is not None and not 0 < radius < math.inf:
            raise ValueError(f"from_cvxpy: radius must be positive and finite, got {radius!r}")
        self.slacks = tuple(slacks) if slacks is not None else (None,) * (len(levels) - 1)
        if len(self.slacks) != len(levels) - 1:
            raise ValueError(
                f"from_cvxpy: slacks must be one for each level but the last, {len(levels) - 1}, "
                f"got {len(self.slacks)}"
            )
        self.levels, self.constraints, self.radius = tuple(levels), constraints, radius
        self.names = tuple(f"level {i + 1}" for i in range(len(levels)))
        self.signs = tuple(-1 if isinstance(level, cp.Maximize) else 1 for level in levels)
        terms = [sign * level.args[0] for sign, level in zip(self.signs, levels, strict=True)]
        plain = cp.Problem(cp.Minimize(sum(terms)), constraints)
        self.variables, self.parameters = tuple(plain.variables()), tuple(plain.parameters())
        _check_problem(self)
        self._probe = cp.Parameter(value=0.0)
        probed = self._probe * sum(variable.sum() for variable in self.variables)
        self._problems = [
            cp.Problem(
                cp.Minimize(sum(float(i == j) * term for j, term in enumerate(terms)) + probed),
                constraints,
            )
            for i in range(len(levels))
        ]
        self._squares = True  # quadratic terms stay in the objectives
        self._compiled: ConicProgram | None = None
        self._first: Any = None
        self._columns = np.zeros(0, dtype=int)
        self._roots: dict[int, tuple[Any, Any]] = {}  # of each level: P and its square root

    def program(self) -> ConicProgram:
        """The conic program at the present values of the parameters."""
        if self._compiled is not None and not self.parameters:
            return self._compiled
        for parameter in self.parameters:
            if parameter.value is None:
                raise ValueError(f"from_cvxpy: parameter {parameter.name()} must have a value")
        compiled = self._compile_all()
        self._first = first = compiled[0]
        cones = _cones(first.data["dims"], self)
        if any(not _same_set(first.data, other.data) for other in compiled[1:]):
            raise ValueError(
                "from_cvxpy: CVXPY must compile all levels to the same constraints, got different "
                "ones; write the levels with fewer constants that are zero"
            )
        if self._compiled is None or self._compiled.size != first.size:
            self._columns = self._user_columns(first)
        reach = np.full(first.size, math.inf)
        if self.radius is not None:
            reach[self._columns] = self.radius
        self._compiled = ConicProgram(
            rows=first.data["A"].tocsc(),
            offset=np.asarray(first.data["b"], dtype=float),
            cones=cones,
            objectives=tuple(self._objective(i, part) for i, part in enumerate(compiled)),
            variables=self._columns,
            reach=reach,
        )
        return self._compiled

    def solution(self, z: Host) -> Any:
        """CVXPY's own Solution at ``z``: ``primal_vars`` has the variables' values by their ids."""
        if self._first is None:
            self.program()
        return self._first.inverted(z)

    def assign(self, z: Host) -> None:
        """Write ``z`` into the user's variables: all of them or, if anything fails, none."""
        values = self.solution(z).primal_vars
        new = [values[variable.id] for variable in self.variables]
        for variable, value in zip(self.variables, new, strict=True):
            variable.save_value(value)

    def _objective(self, i: int, part: _Compiled) -> Objective:
        P = part.data.get("P")
        if P is None:  # no level has squares
            import scipy.sparse as sp

            P = sp.csc_array((part.size, part.size))
        known = self._roots.get(i)
        if known is None or not _same_matrix(known[0], P):
            self._roots[i] = known = (P.copy(), square_root(P))
        F = known[1]
        linear = np.asarray(part.data["c"], dtype=float)
        return Objective(F, np.zeros(F.shape[0]), linear, part.constant)

    def _compile_all(self) -> list[_Compiled]:
        try:
            return [_compile(problem, self._squares) for problem in self._problems]
        except TypeError:  # CVXPY 1.5 on quad_over_lin(x, y) beside another square
            if not self._squares:
                raise
            self._squares = False
            return self._compile_all()

    def _user_columns(self, first: _Compiled) -> Host:
        """Which entries of z are the user's variables: those that a sum of them moves."""
        self._probe.value = 1.0
        moved = _compile(self._problems[0], self._squares).data["c"]
        self._probe.value = 0.0
        return np.flatnonzero(moved != first.data["c"])


class _Compiled:
    """One level as CVXPY compiled it, with the way back into the user's variables."""

    def __init__(self, data: dict[str, Any], chain: Any, inverse: Any) -> None:
        self.data, self._chain, self._inverse = data, chain, inverse
        self.size = int(data["A"].shape[1])
        self.constant = float(self.inverted(np.zeros(self.size)).opt_val)

    def inverted(self, z: Host) -> Any:
        """CVXPY's solution at z, as if Clarabel had returned it with multipliers 0."""
        returned = SimpleNamespace(
            status="Solved",
            x=z,
            z=np.zeros(self.data["A"].shape[0]),
            obj_val=0.0,
            solve_time=0.0,
            iterations=0,
        )
        return self._chain.invert(returned, self._inverse)


def _compile(problem: Any, squares: bool) -> _Compiled:
    import cvxpy as cp

    options = {} if squares else {"use_quad_obj": False}
    try:
        return _Compiled(*problem.get_problem_data(cp.CLARABEL, solver_opts=options))
    except cp.SolverError as error:
        raise ValueError(
            f"from_cvxpy: the levels must compile for Clarabel, got: {_short(error).rstrip('.')}"
        ) from error


def _cones(dims: Any, levels: CvxpyLevels) -> tuple[Cone, ...]:
    """Of CVXPY's rows, in their order."""
    for name, cone in REFUSED_CONES.items():
        if getattr(dims, name, None):
            raise ValueError(
                f"from_cvxpy: {_owner(levels, name)} needs {cone}, which is not taken yet"
            )
    cones = [Cone("zero", int(dims.zero)), Cone("nonnegative", int(dims.nonneg))]
    cones += [Cone("second-order", int(size)) for size in dims.soc]
    cones += [Cone("exponential", 3)] * int(dims.exp)
    return tuple(cone for cone in cones if cone.size)


def _owner(levels: CvxpyLevels, cone: str) -> str:
    """Which level or constraint brings this cone: each is compiled alone."""
    import cvxpy as cp

    pieces = [
        (f"{name}, {_short(level.args[0])},", cp.Problem(level))
        for name, level in zip(levels.names, levels.levels, strict=True)
    ]
    pieces += [
        (f"the constraint {_short(constraint)}", cp.Problem(cp.Minimize(0), [constraint]))
        for constraint in levels.constraints
    ]
    for name, problem in pieces:
        data = problem.get_problem_data(cp.CLARABEL, solver_opts={})[0]
        if getattr(data["dims"], cone, None):
            return name
    return "the problem"


def _check_objects(levels: Sequence[Any], constraints: Sequence[Any]) -> None:
    import cvxpy as cp

    if len(levels) < 2:
        raise ValueError("from_cvxpy: then must hold one level or more, got none")
    for i, level in enumerate(levels):
        if not isinstance(level, cp.Minimize | cp.Maximize):
            where = f"then[{i - 1}]" if i else "objective"
            raise TypeError(
                f"from_cvxpy: {where} must be cp.Minimize(...) or cp.Maximize(...), "
                f"got {type(level).__name__}"
            )
    for constraint in constraints:
        if not isinstance(constraint, cp.Constraint | bool | np.bool_):
            raise TypeError(
                "from_cvxpy: constraints must be constraints of CVXPY, "
                f"got {type(constraint).__name__}"
            )


def _check_problem(levels: CvxpyLevels) -> None:
    """What CVXPY's own tree already shows."""
    import cvxpy as cp

    if not levels.variables:
        raise ValueError("from_cvxpy: the levels must hold a variable, got constants only")
    for variable in levels.variables:
        for attribute, word in REFUSED.items():
            if np.any(np.asarray(variable.attributes.get(attribute), dtype=bool)):
                raise ValueError(
                    f"from_cvxpy: variables must be real numbers and vectors of them, "
                    f"got {variable.name()}, which is {word}"
                )
    for name, level in zip(levels.names, levels.levels, strict=True):
        if not level.is_dcp():
            word = "concave" if isinstance(level, cp.Maximize) else "convex"
            raise ValueError(
                f"from_cvxpy: {name} must be {word} by CVXPY's rules (DCP), "
                f"got {_short(level.args[0])}"
            )
    for constraint in levels.constraints:
        if isinstance(constraint, cp.FiniteSet):
            raise ValueError(
                f"from_cvxpy: constraints must not need integers, got {_short(constraint)}"
            )
        if not isinstance(constraint, bool | np.bool_) and not constraint.is_dcp():
            raise ValueError(
                f"from_cvxpy: constraints must be convex by CVXPY's rules (DCP), "
                f"got {_short(constraint)}"
            )


def _same_set(one: dict[str, Any], other: dict[str, Any]) -> bool:
    same = str(one["dims"]) == str(other["dims"]) and np.array_equal(one["b"], other["b"])
    return bool(same and _same_matrix(one["A"], other["A"]))


def _same_matrix(one: Any, other: Any) -> bool:
    if one.shape != other.shape:
        return False
    if np.array_equal(one.indptr, other.indptr) and np.array_equal(one.indices, other.indices):
        return np.array_equal(one.data, other.data)
    return bool((one != other).nnz == 0)


def _short(value: Any) -> str:
    """On one line, and not longer than one."""
    line = " ".join(str(value).split())
    return line if len(line) <= 100 else f"{line[:97]}..."
