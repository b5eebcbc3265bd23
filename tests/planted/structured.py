"""Planted problems for `Exact`: every lower kind with every upper kind on every domain.

As in ``planted``: x* first, then a problem around it, in rational arithmetic. Here the rank of the
lower level's matrix is chosen (a unique minimiser, a line, a hyperplane, in between), the matrix
may be graded down to sigma_r = 1e-6 sigma_1, and f is strictly convex wherever it can be.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from planted import smooth as planted
from planted.smooth import Function, Matrix, Planted, Vector

LOWERS = [
    "consistent",
    "inconsistent",
    "Quadratic",
    "SquaredNorm",
    "LeastSquares+Linear",
    "Logistic",
    "Logistic+Linear",
    "LeastSquares+Logistic",
]
UPPERS = ["SquaredNorm", "LeastSquares", "Quadratic", "Linear", "sum"]
COMBINATIONS = list(itertools.product(LOWERS, UPPERS, planted.DOMAINS))
GRADES = [0, 0, 9, 18]  # rows are scaled down to 2^-grade: sigma_r/sigma_1 of about 1e-6 at most


def _rows(rng: np.random.Generator, rank: int, n: int, near: Vector | None) -> Matrix:
    """Small integer rows of that rank (or one less), some of them twice or summed.

    With ``near`` all are orthogonal to it, as logistic rows must be.
    """
    if near is None:
        A = rng.integers(-3, 4, (rank, n)).astype(float)
        A[:, :rank] += np.triu(np.ones((rank, rank)))[:, :n] * 4
    else:
        A = planted._orthogonal(rng, rank, near)
    more = int(rng.integers(0, 3)) if rank else 0
    extra = [A[int(rng.integers(rank))] + A[int(rng.integers(rank))] for _ in range(more)]
    return np.vstack([A, *extra])


def _graded(rng: np.random.Generator, A: Matrix, grade: int) -> Matrix:
    """The same rows, each scaled by a power of two between 2^-grade and 1."""
    powers = rng.integers(0, grade + 1, len(A))
    if len(A) > 1 and grade:
        powers[0], powers[-1] = 0, grade
    return 2.0 ** -powers[:, None] * A


def instance(seed: int) -> tuple[Planted, bool]:
    """Problem number ``seed``, and whether its x* is unique."""
    rng = np.random.default_rng([20240209, seed])
    lower_kind, upper_kind, domain = COMBINATIONS[seed % len(COMBINATIONS)]
    n = int(rng.choice([1, 2, 3, 5, 8, 12], p=[0.05, 0.15, 0.25, 0.25, 0.2, 0.1]))
    X = 2.0 ** int(rng.integers(-8, 9))
    region = planted.region(domain, rng, n, X, boundary=rng.random() < 0.7)
    x = region.x_star
    rank = int(rng.choice([n, max(n - 1, 1), 1, int(rng.integers(1, n + 1))]))
    squared = lower_kind in ("Quadratic", "LeastSquares+Logistic")  # in Q, in the sum's curvature
    grade = int(rng.choice(GRADES)) // (2 if squared else 1)
    A = _graded(rng, _rows(rng, rank, n, None), grade)
    normal = region.normal(rng) if rng.random() < 0.7 else np.zeros(n)
    lower, rows, normal = _lower(lower_kind, rng, x, X, A, normal)
    lower = Function(lower.parts, float(10 ** rng.uniform(-3, 3)))

    some = rng.integers(-2, 3, len(rows)) * (rng.random(len(rows)) < 0.7)
    t = some @ rows + int(rng.integers(-2, 3)) * normal + region.normal(rng)
    upper, strict = _upper(upper_kind, rng, x, X, t)
    upper = Function(upper.parts, float(10 ** rng.uniform(-3, 3)))

    f_star, grad_f, f_scale = upper.exact(x)
    g_star, grad_g, g_scale = lower.exact(x)
    fixed = rows if region.hull is None else np.vstack([rows, region.hull])
    free = len(planted.null_space(fixed))
    size = [abs(s) for s in planted.fractions(x)]
    found = Planted(
        seed=seed,
        kind=f"{upper_kind} over {lower_kind} on {domain}",
        upper=upper,
        lower=lower,
        region=region,
        x_star=x,
        f_star=float(f_star),
        g_star=float(g_star),
        f_scale=float(f_scale + planted.dot([abs(s) for s in grad_f], size)),
        g_scale=float(g_scale + planted.dot([abs(s) for s in grad_g], size)),
        x0=region.sample(rng),
        rows=rows,
        normal=normal,
        dimension=0 if free == 0 else None if region.hull is None else free,
        unit=X,
    )
    return found, strict or free == 0


def _lower(
    kind: str, rng: np.random.Generator, x: Vector, X: float, A: Matrix, normal: Vector
) -> tuple[Function, Matrix, Vector]:
    """g with gradient -(a multiple of normal) at x*, its rows, and the normal that is left."""
    m, n = A.shape
    nothing = np.zeros(n)
    near = 2.0 ** int(rng.integers(-2, 2)) / X
    margins = _rows(rng, m, n, x / X)
    if not margins.any():  # one variable that is not 0: every row would vanish
        kind = {"Logistic": "consistent"}.get(kind, kind.replace("Logistic", "LeastSquares"))
    m = len(margins)
    if kind == "consistent":
        term = planted.least_squares(A, 1.0, A @ x, 1.0, mean=False)
        return Function([(1.0, term)]), A, nothing
    if kind == "inconsistent":  # residuals orthogonal to the columns, and one along the normal
        r = X * rng.integers(-2, 3, len(A)).astype(float)
        A, r = np.vstack([A, A]), np.concatenate([r, -r])
        if normal.any():
            A, r = np.vstack([A, -normal]), np.append(r, X)
        term = planted.least_squares(A, 1.0, A @ x - r, 1.0, mean=False)
        return Function([(1.0, term)]), A, normal
    if kind == "Quadratic":
        c = -(A.T @ (A @ x)) - X * normal
        return Function([(1.0, planted.quadratic(A, 1.0, c, 3 * X))]), A, normal
    if kind == "SquaredNorm":
        return Function([(1.0, planted.squared_norm(1.0, x + X * normal))]), np.eye(n), normal
    if kind == "Logistic":  # every row with both labels
        y = np.concatenate([np.ones(m), -np.ones(m)])
        term = planted.logistic(np.vstack([margins, margins]), near, y, mean=False)
        return Function([(1.0, term)]), margins, nothing
    terms = []
    if "Squares" in kind:
        b = A @ x - X * rng.integers(-2, 3, len(A))
        terms.append(planted.least_squares(A, 1.0, b, X, mean=False))
    if "Logistic" in kind:
        terms.append(planted.logistic(margins, near, rng.choice([-1.0, 1.0], m), mean=False))
    total = planted._corrected(terms, rng, x, normal)
    return total, total.rows, normal


def _upper(
    kind: str, rng: np.random.Generator, x: Vector, X: float, t: Vector
) -> tuple[Function, bool]:
    """f with gradient -(a positive multiple of t) at x*, and whether it is strictly convex."""
    n = len(x)
    B = rng.integers(-2, 3, (n, n)) + 6.0 * np.eye(n)
    if kind == "Linear" and t.any():
        return Function([(1.0, planted.linear(-t))]), False
    if kind in ("SquaredNorm", "Linear"):
        return Function([(1.0, planted.squared_norm(2.0, x + X / 2 * t))]), True
    if kind == "LeastSquares":
        B, r = np.vstack([B, -t]), np.append(np.zeros(n), 1.0)
        return Function([(1.0, planted.least_squares(B, 1.0, B @ x - X * r, 1.0, False))]), True
    if kind == "Quadratic":
        return Function([(1.0, planted.quadratic(B, 1.0, -B.T @ (B @ x) - X * t, -X))]), True
    few = B[: max(n // 2, 1)]
    term = planted.least_squares(few, 1.0, few @ x - X * rng.integers(-2, 3, len(few)), X, False)
    strict = len(planted.null_space(few)) == 0
    return planted._corrected([term], rng, x, t), strict


def conic_value(p: Planted, cp: Any) -> float:
    """f* by a conic solver, from the equality form: rows x = rows x*, x in Z."""
    v = cp.Variable(p.n)
    rows = p.rows / np.maximum(np.abs(p.rows).max(axis=1, keepdims=True), 1e-300)
    constraints = [*p.region.conic(cp, p.unit * v), rows @ v == rows @ p.x_star / p.unit]
    if p.normal.any():
        constraints.append(p.normal @ v == p.normal @ p.x_star / p.unit)
    problem = cp.Problem(cp.Minimize(p.upper.conic(cp, p.unit * v)), constraints)
    problem.solve(solver=cp.CLARABEL)
    return float(p.upper.weight * problem.value)
