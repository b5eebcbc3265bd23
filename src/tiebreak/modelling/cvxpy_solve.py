"""Levels of CVXPY solved, and ``problem.solve(method="tiebreak")``."""

from __future__ import annotations

import weakref
from typing import Any

from tiebreak.conic.chain import ChainSolution, LevelSolution, solve_chain
from tiebreak.modelling.cvxpy_levels import CvxpyLevels, from_cvxpy

# The levels that each problem of CVXPY was last solved with: a new value of a parameter must not
# compile them again.
_LAST: weakref.WeakKeyDictionary[Any, tuple[list[Any], dict[str, Any], CvxpyLevels]] = (
    weakref.WeakKeyDictionary()
)


def solve_cvxpy(levels: CvxpyLevels) -> ChainSolution:
    """All levels at the present values of the parameters; values as the user wrote the levels.

    The answer is written into the user's variables if the status is "solved"; otherwise they keep
    the values that they had.
    """
    found = solve_chain(levels.program(), levels.slacks)
    if found.status == "solved":
        levels.assign(found.z)
    signed = (_signed(*pair) for pair in zip(found.levels, levels.signs, strict=False))
    return found._replace(levels=tuple(signed))


def register_cvxpy() -> None:
    """Make ``problem.solve(method="tiebreak", then=...)`` known to CVXPY.

        tb.register_cvxpy()
        problem = cp.Problem(cp.Minimize(cp.sum_squares(A @ x - b)), [x >= 0])
        problem.solve(method="tiebreak", then=cp.Minimize(cp.norm1(x)))

    The problem's own objective comes first, ``then`` chooses among its minimisers; ``radius`` and
    ``slacks`` are those of `from_cvxpy`, whose first call registers too. Afterwards
    ``problem.value`` is the first objective's value and ``problem.status`` "optimal". Dual values
    are None: a chain of problems has no one set of them. Where it cannot be solved,
    cp.SolverError says why, and the variables keep the values that they had. Solving again with
    the same ``then`` objects and new values of the parameters compiles nothing again.
    """
    import cvxpy as cp

    cp.Problem.register_solve("tiebreak", _solve_problem)


def _solve_problem(problem: Any, then: Any = (), **options: Any) -> float:
    import cvxpy as cp

    levels = _levels_of(problem, then, options)
    found = solve_cvxpy(levels)
    if found.status != "solved":
        raise cp.SolverError(f"tiebreak: {found.message}")
    solution = levels.solution(found.z)
    solution.dual_vars = {}
    for constraint in problem.constraints:
        for dual in constraint.dual_variables:
            dual.save_value(None)
    problem.unpack(solution)
    return float(problem.value)


def _levels_of(problem: Any, then: Any, options: dict[str, Any]) -> CvxpyLevels:
    then = list(then) if isinstance(then, list | tuple) else [then]
    if problem in _LAST:
        former, options_then, levels = _LAST[problem]
        # By identity: == of CVXPY's objects may be a constraint, not an answer.
        if list(map(id, former)) == list(map(id, then)) and options_then == options:
            return levels
    levels = from_cvxpy(problem.objective, then, problem.constraints, **options)
    _LAST[problem] = (then, options, levels)
    return levels


def _signed(level: LevelSolution, sign: int) -> LevelSolution:
    """Back from the negated level of a cp.Maximize, where ``bound`` is then one from above."""
    if sign > 0:
        return level
    return level._replace(best=-level.best, bound=-level.bound, value=-level.value)
