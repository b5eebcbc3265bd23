"""Linear programs by HiGHS: the one call, and what is tried again where it fails."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.tolerances import TOL


def linear_program(
    cost: Host, rows: Any, right: Host, bounds: Any, equal: Any = None
) -> Host | None:
    """A minimiser of <cost, v> over {rows v <= right, equal v = 0} and bounds.

    None where HiGHS finds none.
    """
    zero = None if equal is None else np.zeros(equal.shape[0])
    found = highs(cost, A_ub=rows, b_ub=right, A_eq=equal, b_eq=zero, bounds=bounds)
    return None if found is None else np.asarray(found.x)


def highs(cost: Host, presolve: bool = True, **program: Any) -> Any:
    """SciPy's answer to a linear program; None where HiGHS finds no minimiser."""
    found = last_attempt(cost, presolve, **program)
    return found if found.success else None


def last_attempt(cost: Host, presolve: bool = True, **program: Any) -> Any:
    """SciPy's answer, whose ``success`` and ``status`` say what it is worth."""
    from scipy.optimize import linprog

    found = None
    # Without presolve HiGHS knows what it is that fails; and a tolerance may be too strict for it.
    tolerances = (TOL.touching, TOL.touching, TOL.solver)
    for with_presolve, tolerance in zip((True, False, False), tolerances, strict=True):
        if with_presolve and not presolve:
            continue
        deadline.check()
        options = {
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
            "time_limit": deadline.left(),
            "presolve": with_presolve,
        }
        found = linprog(cost, **program, options=options)
        deadline.check()
        if found.success:
            break
    return found
