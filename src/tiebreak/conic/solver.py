"""Solve one conic problem with Clarabel, whose status is reported but never trusted."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.effort import ask_for_factor
from tiebreak.conic.program import Cone, Objective
from tiebreak.linalg import TOL, Host, deadline

NEAR_ONE = 2.0**7  # lengths and slopes within this factor of 1 are not rescaled


class SolverAnswer(NamedTuple):
    """Clarabel's final point: Az + s = b with s in K, y in the dual cone."""

    z: Host
    s: Host
    y: Host
    status: str

    @property
    def is_infeasible(self) -> bool:
        """Does the solver say that no z is feasible?"""
        return self.status in ("PrimalInfeasible", "AlmostPrimalInfeasible")

    @property
    def is_unbounded(self) -> bool:
        """Does the solver say that the objective is unbounded along z?"""
        return self.status in ("DualInfeasible", "AlmostDualInfeasible")


def clarabel_solve(
    objective: Objective,
    rows: Any,
    offset: Host,
    cones: tuple[Cone, ...],
    tolerance: float | None = None,
    center: Host | None = None,
) -> SolverAnswer:
    """Minimise the objective over { z : offset - rows z in K } with Clarabel.

    If a ``center`` is given, we solve for the difference from it, because Clarabel's accuracy is
    relative to its input. Clarabel's tolerances are also absolute, so we scale lengths and slopes
    to about 1.
    """
    import clarabel
    import scipy.sparse as sp

    kinds = {
        "zero": clarabel.ZeroConeT,
        "nonnegative": clarabel.NonnegativeConeT,
        "second-order": clarabel.SecondOrderConeT,
        "exponential": lambda size: clarabel.ExponentialConeT(),
    }
    n = len(objective.linear)
    z0 = np.zeros(n) if center is None else center
    gram, q, rows, offset, cones = _standard_form(objective, rows, offset, cones, z0)
    added = len(q) - n
    length = _unit(offset)
    steepest = length * float(abs(gram).max()) if len(q) else 0.0
    # Near a minimiser, slopes may be far smaller than the terms that cancel in them. Near a center,
    # the unit of slopes is therefore at least 2^-30 of the largest of these terms.
    slope = _unit(np.append(q, steepest if center is None else 2.0**-30 * steepest)) * length
    P = gram * (length / slope * length)
    P, rows = sp.csc_matrix(sp.triu(P)), sp.csc_matrix(rows)
    ask_for_factor(P, rows)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance or TOL.half
    settings.tol_ktratio = TOL.accurate
    cone_types = [kinds[cone.kind](cone.size) for cone in cones]
    q, b = q * (length / slope), offset / length
    solver = clarabel.DefaultSolver(P, q, rows, b, cone_types, settings)
    solver.set_termination_callback(lambda info: deadline.is_over())  # called in every iteration
    found = solver.solve()
    deadline.check()
    z, s, y = (np.asarray(part, dtype=np.float64) for part in (found.x, found.s, found.z))
    status = str(found.status)
    answer = SolverAnswer(length * z[:n], length * s[added:], slope / length * y[added:], status)
    return answer if answer.is_unbounded else answer._replace(z=z0 + answer.z)


def _standard_form(
    objective: Objective, rows: Any, offset: Host, cones: tuple[Cone, ...], z0: Host
) -> tuple[Any, Host, Any, Host, tuple[Cone, ...]]:
    """Return the problem in w = z - z0, with r = F z - t as extra variables if F'F is large.

    The problem is to minimise ½ w'gram w + <q, w> over { offset - rows w in K }; we return gram, q,
    rows, offset and the cones. The equations for r come before all others.
    """
    import scipy.sparse as sp

    F, q, n = objective.squares, objective.linear, len(z0)
    if F.size == 0:  # an empty F would give a large dense square
        F = sp.csr_array(F)
    offset, target, p = offset - rows @ z0, objective.target - F @ z0, F.shape[0]
    if not _has_large_square(F):
        gram = F.T @ F if p else sp.csc_array((n, n))
        return gram, q - F.T @ target, rows, offset, cones
    return (
        sp.csc_array(sp.diags_array(np.append(np.zeros(n), np.ones(p)))),
        np.append(q, np.zeros(p)),
        sp.block_array([[F, -sp.eye_array(p)], [sp.csr_array(rows), None]]),
        np.append(target, offset),
        (Cone("zero", p), *cones),
    )


def _has_large_square(F: Any) -> bool:
    """Does F'F have so many more entries than F that r = F z should become variables?

    A dense F'F is factorised in large blocks, so we allow it four times as many entries.
    """
    p, n = F.shape
    in_rows = np.full(p, n) if isinstance(F, np.ndarray) else np.diff(F.tocsr().indptr)
    of_square = min(float(np.sum(in_rows.astype(float) ** 2)), float(n) * n) / 2.0
    return bool(4.0 * (np.sum(in_rows) + p) < of_square)


def _unit(values: Host) -> float:
    """Return a power of two near the largest value, or 1 if that is close to 1."""
    most = float(np.max(np.abs(values), initial=0.0))
    near = 1.0 / NEAR_ONE <= most <= NEAR_ONE or most == 0.0 or not math.isfinite(most)
    return 1.0 if near else 2.0 ** round(math.log2(most))
