"""CVXPY objectives in order of priority, as one conic program."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tiebreak.conic.bounds import value_error
from tiebreak.conic.program import Cone, ConicProgram
from tiebreak.driver.result import RELIES_ON
from tiebreak.levels import ConicLevels, Slack
from tiebreak.linalg import EPS, Host, checks
from tiebreak.modelling.cvxpy_compile import (
    CompiledLevel,
    Compiler,
    Definitions,
    same_matrix,
    save_values,
    with_values,
)
from tiebreak.sets.base import Violation

# Attributes of a variable that are hidden constraints, and that we do not accept.
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
    slacks: Sequence[float | Slack] | None = None,
    names: Sequence[str] | None = None,
) -> CvxpyLevels:
    """Levels written in CVXPY: ``then`` chooses among all minimisers of ``objective``.

        x = cp.Variable(50)
        fit = cp.Minimize(cp.sum_squares(A @ x - b))
        levels = tb.from_cvxpy(fit, then=[cp.Minimize(cp.norm1(x))], constraints=[G @ x <= h])
        print(tb.solve(levels))
        x.value

    Parameters may change between solves; if the problem follows CVXPY's DPP rules, nothing is
    compiled again. After the first call, ``problem.solve(method="tiebreak", then=...)`` works too
    (see `register_cvxpy`).

    Args:
        objective: the most important level, cp.Minimize or cp.Maximize.
        then: one or more levels after the first, in order of priority.
        constraints: CVXPY constraints, for all levels.
        radius: a bound on the entries of a solution's variables, if known; it is not verified, and
            only bounds use it.
        slacks: how much worse each level but the last may get in favour of later levels: numbers
            (absolute) or `Slack`; zero if None.
        names: the names of the levels, for the report.

    Raises:
        TypeError: if something is not a CVXPY object. ValueError: for integers, semidefinite and
            power cones, complex numbers and problems that are not DCP; the message names them.

    Examples:
        >>> import cvxpy as cp
        >>> x = cp.Variable(2)
        >>> cost, even = cp.Minimize(cp.sum(x)), cp.Minimize(cp.sum_squares(x))
        >>> plan = tb.from_cvxpy(cost, then=even, constraints=[x >= 0, cp.sum(x) >= 4])
        >>> tb.solve(plan).success, x.value.round(4)
        (True, array([2., 2.]))
    """
    from tiebreak.modelling.cvxpy_solve import register_cvxpy

    register_cvxpy()
    if not isinstance(then, list | tuple):
        then = [then]
    constraints = _listed("constraints", constraints)
    levels = CvxpyLevels([objective, *then], constraints, radius, slacks, names)
    if all(parameter.value is not None for parameter in levels.parameters):
        levels.program()  # raises the errors that only the compiled form reveals
    return levels


class SharedProgram(ConicProgram):
    """A program in which constraints and levels have auxiliary variables in common.

    Rows that a later level needs may then also be constraints, and apply from the first level on.
    """

    def first_levels(self) -> Host:
        """All rows belong to the first level."""
        return np.zeros(len(self.offset), dtype=np.int64)


class CvxpyLevels(ConicLevels):
    """CVXPY levels; made by `from_cvxpy`.

    Attributes:
        names: the names of the levels. rules: the slacks of the levels.
        signs: 1 for cp.Minimize, -1 for cp.Maximize, whose negative the program minimises.
        variables, parameters: the CVXPY objects of all levels and constraints.
        last: the values that were assigned last, as a CVXPY Solution.
    """

    def __init__(
        self,
        levels: Sequence[Any],
        constraints: list[Any],
        radius: float | None = None,
        slacks: Sequence[float | Slack] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        import cvxpy as cp

        _check_objects(levels, constraints)
        if radius is not None:
            checks.positive("from_cvxpy", "radius", radius)
        self.levels, self.constraints, self.radius = tuple(levels), constraints, radius
        self.model, self.promises = self, () if radius is None else (f"{radius=}",)
        self.assumed: tuple[str, ...] = tuple(map(RELIES_ON.format, self.promises))
        self.rules: tuple[Slack, ...] = _rules(slacks, len(levels))
        self.names: tuple[str, ...] = _names(names, len(levels))
        self.signs: tuple[int, ...] = tuple(
            -1 if isinstance(level, cp.Maximize) else 1 for level in levels
        )
        terms = [sign * level.args[0] for sign, level in zip(self.signs, levels, strict=True)]
        plain = cp.Problem(cp.Minimize(sum(terms)), constraints)
        self.variables, self.parameters = tuple(plain.variables()), tuple(plain.parameters())
        _check_problem(self)
        self._compiler = Compiler(terms, constraints, self.variables)
        self._program: ConicProgram | None = None
        self._first: CompiledLevel | None = None
        self._put: Definitions | None = None
        self.last: Any = None
        self._values: dict[Any, Host] = {}  # the parameter values of the program

    def __repr__(self) -> str:
        return f"<tiebreak.CvxpyLevels: {', '.join(self.names)}>"

    def program(self) -> ConicProgram:
        """The conic program at the current parameter values."""
        for parameter in self.parameters:
            if parameter.value is None:
                raise ValueError(
                    f"from_cvxpy: parameter {parameter.name()} must have a value, got None"
                )
        self.before: float = self._first_value() if self.rules[0].share else math.nan
        new = {
            parameter.id  # parameters whose values differ from the program's
            for parameter in self.parameters
            if parameter.id not in self._values
            or not np.array_equal(_copied(parameter.value), self._values[parameter.id])
        }
        if self._program is not None and not new:
            return self._program
        self._first, objectives = self._compiler.apply(new)
        data = self._first.data
        cones = _cones(data["dims"], self)
        rows, offset = data["A"], np.asarray(data["b"], dtype=float)
        if self._put is None or not same_matrix(self._put.matrix, rows):
            self._put = Definitions(rows, int(data["dims"].zero), self._compiler.columns)
        put = self._put
        offset = put.with_offset(offset)
        reach = np.full(len(put.kept), math.inf)
        if self.radius is not None:
            reach[put.variables] = self.radius
        kind = SharedProgram if self._compiler.is_shared else ConicProgram
        self._program = kind(
            rows=put.rows,
            offset=offset,
            cones=put.cones(cones),
            objectives=tuple(map(put.objective, objectives)),
            variables=put.variables,
            reach=reach,
            owners=self._owners,
        )
        self._values = {parameter.id: _copied(parameter.value) for parameter in self.parameters}
        return self._program

    def _first_value(self) -> float:
        """The first level at the current values of the variables; nan if a value is missing."""
        first = self.levels[0]
        if any(variable.value is None for variable in first.variables()):
            return math.nan
        return self.signs[0] * float(np.asarray(first.value).item())

    def assign(self, z: Host) -> Any:
        """Assign ``z`` to the user's variables: to all of them or, if anything fails, to none.

        Return the variables as one vector, the x of a result.
        """
        if self._first is None or self._put is None:
            raise RuntimeError("CvxpyLevels: program() must be called before assign(z)")
        self.last = self._first.inverted(self._put.lifted(z))
        save_values(self.variables, self.last.primal_vars)
        return z[self._put.variables]

    @contextlib.contextmanager
    def _at(self, x: Host) -> Iterator[tuple[Host, Host]]:
        """Give the user's variables the values x temporarily.

        Yield |z| and, for each row of the program, the sum of the absolute values of its terms,
        with auxiliary variables at 0.
        """
        program, z = self.program(), np.zeros(self.program().size)
        assert self._first is not None
        assert self._put is not None
        z[program.variables] = x
        found = self._first.inverted(self._put.lifted(z)).primal_vars
        with with_values(self.variables, found):
            yield np.abs(z), abs(program.rows) @ np.abs(z) + np.abs(program.offset)

    def values(self, x: Host) -> list[tuple[float, float]]:
        """CVXPY's value of each level at x, with a bound on the rounding errors of its terms.

        An auxiliary variable is assumed to be as large as the terms of its rows allow.
        """
        from scipy.sparse import find

        with self._at(x) as (sizes, terms):
            found = [float(np.asarray(level.args[0].value).item()) for level in self.levels]
        program = self.program()
        i, j, entries = find(program.rows)
        np.maximum.at(sizes, j, terms[i] / np.abs(entries))
        sizes[program.variables] = np.abs(x)
        errors = [value_error(h, sizes) for h in program.objectives]
        unit = EPS * (len(sizes) + 8)
        return [(v, error + unit * abs(v)) for v, error in zip(found, errors, strict=True)]

    def violations(self, x: Host) -> list[Violation]:
        """The constraints that x violates according to CVXPY, and the worst violation of each."""
        found = []
        with self._at(x) as (_, terms):
            for constraint, own in zip(self.constraints, self._by_constraint(terms), strict=True):
                if isinstance(constraint, bool | np.bool_):
                    found += [] if constraint else [Violation("False", math.inf, 1.0)]
                    continue
                amounts = np.ravel(constraint.violation(), order="F")
                sizes = np.zeros_like(amounts)
                for part in (own, *map(_sizes, constraint.args)):  # cones use their largest entry
                    sizes += part if part.shape == amounts.shape else np.max(part)
                worst = int(np.argmax(amounts / np.where(sizes > 0.0, sizes, 1.0)))
                found += [Violation(_short(constraint), float(amounts[worst]), float(sizes[worst]))]
        return [one for one in found if not one.amount <= 0.0]

    def _by_constraint(self, y: Host) -> list[Host]:
        """The absolute values of y, which has one number per row of the program, by constraint."""
        assert self._first is not None
        assert self._put is not None
        full = self._put.multipliers(y)
        found = self._first.inverted(np.zeros(self._first.size), full).dual_vars
        duals = [found.get(getattr(one, "id", None), 0.0) for one in self.constraints]
        return [
            np.concatenate([_sizes(v) for v in (d if isinstance(d, list) else [d])]) for d in duals
        ]

    def _owners(self, y: Host) -> list[str]:
        """The constraints whose rows have nonzero multipliers."""
        pairs = zip(self.constraints, self._by_constraint(y), strict=True)
        return [_short(one) for one, sizes in pairs if sizes.any()]


def _sizes(numbers: Any) -> Host:
    """The absolute values of the entries of an array, or of an expression's value."""
    return np.abs(np.ravel(getattr(numbers, "value", numbers), order="F"))


def _listed(name: str, value: Any) -> list[Any]:
    """Return a list; reject a single object or a string."""
    if not isinstance(value, Iterable) or isinstance(value, str):
        raise TypeError(f"from_cvxpy: {name} must be a list, got {checks.what_it_is(value)}")
    return list(value)


def _rules(slacks: Sequence[float | Slack] | None, count: int) -> tuple[Slack, ...]:
    slacks = [0.0] * (count - 1) if slacks is None else _listed("slacks", slacks)
    if len(slacks) != count - 1:
        raise ValueError(
            f"from_cvxpy: slacks must be {count - 1}, one for each level but the last, "
            f"got {len(slacks)}"
        )
    for slack in slacks:
        if not isinstance(slack, Slack):
            checks.at_least("from_cvxpy", "slacks", slack)
    rules = (s if isinstance(s, Slack) else Slack(absolute=float(s)) for s in slacks)
    return (*rules, Slack())


def _names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    found = [f"level {i + 1}" for i in range(count)] if names is None else _listed("names", names)
    if not all(isinstance(name, str) for name in found):
        raise TypeError(f"from_cvxpy: names must be strings, got {found}")
    if len(found) != count or len(set(found)) != count:
        raise ValueError(
            f"from_cvxpy: names must be {count} different strings, one for each level, got {found}"
        )
    return tuple(found)


def _cones(dims: Any, levels: CvxpyLevels) -> tuple[Cone, ...]:
    """The cones of CVXPY's rows, in order."""
    for name, cone in REFUSED_CONES.items():
        if getattr(dims, name, None):
            raise ValueError(
                f"from_cvxpy: {_owner(levels, name)} needs {cone}, which is not supported yet"
            )
    cones = [Cone("zero", int(dims.zero)), Cone("nonnegative", int(dims.nonneg))]
    cones += [Cone("second-order", int(size)) for size in dims.soc]
    cones += [Cone("exponential", 3)] * int(dims.exp)
    return tuple(cone for cone in cones if cone.size)


def _owner(levels: CvxpyLevels, cone: str) -> str:
    """The level or constraint that needs this cone, found by compiling each of them alone."""
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
        raise ValueError("from_cvxpy: then must contain at least one level, got none")
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
                "from_cvxpy: constraints must be CVXPY constraints, "
                f"got {type(constraint).__name__}"
            )


def _check_problem(levels: CvxpyLevels) -> None:
    """Check everything that CVXPY's expressions reveal before they are compiled."""
    import cvxpy as cp

    if not levels.variables:
        raise ValueError("from_cvxpy: the levels must contain a variable, got only constants")
    for variable in levels.variables:
        for attribute, word in REFUSED.items():
            if np.any(np.asarray(variable.attributes.get(attribute), dtype=bool)):
                raise ValueError(
                    f"from_cvxpy: variables must be real numbers or arrays of them, "
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
                f"from_cvxpy: constraints must not require integers, got {_short(constraint)}"
            )
        if not isinstance(constraint, bool | np.bool_) and not constraint.is_dcp():
            raise ValueError(
                f"from_cvxpy: constraints must be convex by CVXPY's rules (DCP), "
                f"got {_short(constraint)}"
            )


def _copied(value: Any) -> Host:
    return np.array(value.toarray() if hasattr(value, "toarray") else value, dtype=complex)


def _short(value: Any) -> str:
    """The text on one line, shortened."""
    line = " ".join(str(value).split())
    return line if len(line) <= 100 else f"{line[:97]}..."
