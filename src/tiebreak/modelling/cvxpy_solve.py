"""``problem.solve(method="tiebreak")`` for CVXPY problems."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from tiebreak.driver.solve import solve
from tiebreak.linalg.refusals import missing
from tiebreak.modelling.cvxpy_levels import CvxpyLevels, from_cvxpy

# The levels with which each CVXPY problem was last solved: a new parameter value should not make us
# compile these levels again.
_LAST: weakref.WeakKeyDictionary[Any, tuple[list[Any], dict[str, Any], CvxpyLevels]] = (
    weakref.WeakKeyDictionary()
)
LEVELS = ("radius", "slacks", "names")  # arguments of `from_cvxpy`; all others belong to `solve`


def register_cvxpy() -> None:
    """Make ``problem.solve(method="tiebreak", then=...)`` known to CVXPY.

        tb.register_cvxpy()
        problem = cp.Problem(cp.Minimize(cp.sum_squares(A @ x - b)), [x >= 0])
        problem.solve(method="tiebreak", then=cp.Minimize(cp.norm1(x)))

    The problem's own objective comes first, and ``then`` chooses among its minimisers. The
    ``radius``, ``slacks`` and ``names`` arguments are those of `from_cvxpy`, whose first call also
    registers the method; ``rtol`` and ``max_time`` are those of `solve`. Afterwards
    ``problem.value`` is the first objective's value, ``problem.status`` is "optimal", and
    ``problem.solution.attr["tiebreak"]`` is the result, with one row per level. Dual values are
    None: a chain of problems has no single set of duals. If the problem cannot be solved,
    cp.SolverError says why, and the variables keep their values. Another solve with the same
    ``then`` objects and new parameter values needs no new compilation.

    Examples:
        >>> import cvxpy as cp
        >>> tb.register_cvxpy()
        >>> x = cp.Variable(2)
        >>> problem = cp.Problem(cp.Minimize(cp.sum(x)), [x >= 0, cp.sum(x) >= 4])
        >>> value = problem.solve(method="tiebreak", then=cp.Minimize(cp.sum_squares(x)))
        >>> round(float(value), 4), x.value.round(4)
        (4.0, array([2., 2.]))
    """
    try:
        import cvxpy as cp
    except ImportError:
        raise missing("from_cvxpy", "cvxpy", "cvxpy") from None
    cp.Problem.register_solve("tiebreak", _solve_problem)


def _solve_problem(problem: Any, then: Any = (), **options: Any) -> float:
    import cvxpy as cp

    # Lists, because == of arrays returns no truth value.
    chosen = {k: list(v) if np.ndim(v) else v for k, v in options.items() if k in LEVELS}
    levels = _levels_of(problem, then, chosen)
    result = solve(levels, **{k: v for k, v in options.items() if k not in LEVELS})
    if not result.success:
        raise cp.SolverError(f"tiebreak: {result.message}")
    solution = levels.last
    solution.dual_vars, solution.attr = {}, {**solution.attr, "tiebreak": result}
    for constraint in problem.constraints:
        for dual in constraint.dual_variables:
            dual.save_value(None)
    problem.unpack(solution)
    solution.opt_val = problem.value
    return float(problem.value)


def _levels_of(problem: Any, then: Any, options: dict[str, Any]) -> CvxpyLevels:
    then = list(then) if isinstance(then, list | tuple) else [then]
    if problem in _LAST:
        former, options_then, levels = _LAST[problem]
        # Compare by identity: == of CVXPY objects may return a constraint instead of a truth value.
        if list(map(id, former)) == list(map(id, then)) and options_then == options:
            return levels
    levels = from_cvxpy(problem.objective, then, problem.constraints, **options)
    _LAST[problem] = (then, options, levels)
    return levels
