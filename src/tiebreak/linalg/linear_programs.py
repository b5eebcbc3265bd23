"""Linear programs by HiGHS."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host

HIGHS_TOLERANCES = (1e-10, 1e-7)  # the second if the first fails: it may be too strict for HiGHS


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
    from scipy.optimize import linprog

    for tolerance in HIGHS_TOLERANCES:
        deadline.check()
        options = {
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
            "time_limit": deadline.left(),
            "presolve": presolve,
        }
        found = linprog(cost, **program, options=options)
        deadline.check()
        if found.status == 0:
            return found
    return None
