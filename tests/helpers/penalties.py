"""Penalties as plain formulas and as conic models: what the fast versions are compared with."""

from __future__ import annotations

import numpy as np

from tiebreak import sets as domains
from tiebreak.functions.penalties.penalties import L1, L2, ElasticNet, GroupL2, Indicator


def labels(rng, n):
    """Groups of all kinds: some variables in none, all in one, neighbours together."""
    drawn = rng.integers(-1, max(2, n // 2), n)
    match rng.integers(4):
        case 0:
            return np.sort(drawn)
        case 1:
            return np.zeros(n, dtype=int)
        case 2:
            return np.abs(drawn)
    return drawn


def make_set(kind, rng, n):
    match kind:
        case "Box":
            if rng.random() < 0.3:
                return domains.Box(*sorted(rng.normal(size=2)))
            a, b = rng.normal(size=(2, n))
            lower = np.where(rng.random(n) < 0.2, -np.inf, np.minimum(a, b))
            return domains.Box(lower, np.where(rng.random(n) < 0.2, np.inf, np.maximum(a, b)))
        case "Ball" | "L1Ball" | "Simplex":
            return getattr(domains, kind)(float(rng.exponential()) + 0.1)
        case "Halfspace":
            return domains.Halfspace(rng.normal(size=n), float(rng.normal()))
    return getattr(domains, kind)()


def plain_value(penalty, x):
    """The formula, written as it is in the docstrings."""
    match penalty:
        case L1():
            off = x if penalty.center is None else x - penalty.center
            return np.sum(penalty.weight * np.abs(off))
        case L2():
            off = x if penalty.center is None else x - penalty.center
            return np.sqrt(np.sum((penalty.weight * off) ** 2))
        case ElasticNet():
            return penalty.l1 * np.sum(np.abs(x)) + penalty.l2 / 2 * np.sum(x * x)
        case GroupL2():
            return penalty.weight * sum(
                np.sqrt(np.sum(x[where] ** 2)) for where in members(penalty, len(x))
            )
    return 0.0


def members(penalty, n):
    """The variables of each group."""
    label = np.append(penalty.groups.labels, np.full(n - len(penalty.groups.labels), -1))
    return [np.flatnonzero(label == g) for g in range(penalty.groups.count)]


def conic(penalty, z):
    """The penalty of a CVXPY variable, and its constraints."""
    import cvxpy as cp

    match penalty:
        case L1():
            off = z if penalty.center is None else z - penalty.center
            weight = np.broadcast_to(penalty.weight, z.shape)
            return cp.norm1(cp.multiply(weight, off)), []
        case L2():
            off = z if penalty.center is None else z - penalty.center
            weight = np.broadcast_to(penalty.weight, z.shape)
            return cp.norm(cp.multiply(weight, off)), []
        case ElasticNet():
            return penalty.l1 * cp.norm1(z) + penalty.l2 / 2 * cp.sum_squares(z), []
        case GroupL2():
            norms = [cp.norm(z[where]) for where in members(penalty, z.shape[0])]
            return penalty.weight * sum(norms, cp.Constant(0.0)), []
        case Indicator():
            return cp.Constant(0.0), rules(penalty.domain, z)
    return cp.Constant(0.0), []


def rules(domain, z):
    import cvxpy as cp

    match domain:
        case domains.Box():
            lower, upper = (np.broadcast_to(b, z.shape) for b in (domain.lower, domain.upper))
            below = [z[i] >= lower[i] for i in np.flatnonzero(np.isfinite(lower))]
            return below + [z[i] <= upper[i] for i in np.flatnonzero(np.isfinite(upper))]
        case domains.Ball():
            return [cp.norm(z) <= domain.radius]
        case domains.Simplex():
            return [z >= 0, cp.sum(z) == domain.total]
        case domains.L1Ball():
            return [cp.norm1(z) <= domain.radius]
        case domains.Monotone():
            return [cp.diff(z) >= 0]
        case domains.Halfspace():
            return [domain.normal @ z <= domain.offset]
    return []


def clarabel(objective, constraints):
    """The minimum of a conic problem: -inf where it is unbounded."""
    import cvxpy as cp

    problem = cp.Problem(cp.Minimize(objective), constraints)
    for tol in (1e-11, 1e-10, 1e-9, 1e-8):
        try:
            return problem.solve(solver="CLARABEL", tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
        except cp.error.SolverError:
            continue
    raise AssertionError("Clarabel does not solve it")
