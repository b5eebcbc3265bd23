"""Sparse problems with a planted answer; each builder checks a dual certificate that proves it."""

from __future__ import annotations

import math

import numpy as np

from tiebreak.catalog.built import Built, Matrix, Vector
from tiebreak.functions import L1, GroupL2, LeastSquares, Penalty
from tiebreak.linalg import TOL, checks
from tiebreak.problem import Problem

DRAWS = 20  # number of draws after which a shape is rejected
LIMIT = 0.9  # limit on |A_G'y| where x* is zero: below 1 by far more than rounding


def basis_pursuit(
    rows: int = 200, variables: int = 1000, nonzeros: int = 20, seed: int = 0
) -> Built:
    """The sparsest least-squares solution: f(x) = |x|_1, g(x) = ½|Ax - b|², Z = R^n.

    The matrix A is Gaussian, x* has ``nonzeros`` entries of size 1 to 3 at random places, and b = A
    x*. The entries of A and x* are dyadic, so b, f* = |x*|_1 and g* = 0 are exact.

    *Proof.* The builder finds y with A_S'y = sign(x*) on the support S and |A'y| < 1 elsewhere.
    With this y, every x with Ax = b has |x|_1 >= <A'y, x> = <y, b> = <A'y, x*> = |x*|_1, with
    equality only for x = 0 off S, and A_S has full rank: x* is the only solution. A problem without
    such a y is redrawn. A has full rank, so the solution set has dimension n - rows; the error
    bound has order 2.

    Args:
        rows, variables: the shape of A, which must have fewer rows than variables.
        nonzeros: the number of nonzero entries of x*.
        seed: the random seed.
    """
    owner, label = "basis-pursuit", f"basis pursuit, {rows} x {variables}, {nonzeros} non-zeros"
    return _pursuit(owner, "nonzeros", label, L1(), rows, variables, 1, nonzeros, seed)


def group_pursuit(
    rows: int = 100, groups: int = 80, size: int = 5, active: int = 6, seed: int = 0
) -> Built:
    """The least-squares solution with the fewest groups: f(x) = sum_G |x_G|, g(x) = ½|Ax - b|².

    The construction is as in ``basis_pursuit``, with A_G'y = x*_G/|x*_G| on the active groups and
    |A_G'y| < 1 elsewhere.

    Args:
        rows: the number of rows of A; less than the number of its columns, groups times size.
        groups, size: the number of groups, and the number of variables in each.
        active: the number of groups in which x* is not zero.
        seed: the random seed.
    """
    label = f"group pursuit, {rows} x {groups * size}, {active} of {groups} groups"
    norms = GroupL2(np.repeat(np.arange(groups), size))
    owner = "group-pursuit"
    return _pursuit(owner, "active", label, norms, rows, groups * size, size, active, seed)


def _pursuit(
    owner: str,
    name: str,
    label: str,
    upper: Penalty,
    rows: int,
    columns: int,
    size: int,
    active: int,
    seed: int,
) -> Built:
    """Build the problem: among all x with Ax = A x*, x* has the least sum of group lengths."""
    if rows >= columns:
        raise ValueError(f"{owner}: rows must be fewer than the variables ({columns}), got {rows}")
    A, x, _ = _certified(owner, name, rows, columns, size, active, np.random.default_rng(seed))
    return Built(
        label=label,
        problem=Problem(upper=upper, lower=LeastSquares(A, A @ x)),
        x0=np.zeros(columns),
        upper_optimum=upper.value(x),
        lower_optimum=0.0,
        solution=x,
        ties=columns - rows,
        order=2.0,
    )


def lasso_duplicates(
    rows: int = 80,
    features: int = 100,
    copies: int = 2,
    nonzeros: int = 12,
    validation: int = 60,
    weight: float = 0.5,
    seed: int = 0,
) -> Built:
    """The best validation loss over all solutions of a Lasso with duplicated columns.

        f(x) = ½|Bx - c|²,   g(x) = ½|Ax - b|² + weight |x|_1,   Z = R^n

    Each of the ``features`` columns of D occurs ``copies`` times in A; in B, the validation data,
    the copies differ. Let u_j be the sum of x over the copies of column j.

    *Lower level.* Ax = Du and |x|_1 >= |u|_1, with equality exactly if the copies of a feature
    never have coefficients of opposite signs. The builder chooses u* and b = D u* + weight y with a
    y that it checks: D_S'y = sign(u*) on the support S, |D'y| < 1 elsewhere, D_S of full rank: by
    the optimality conditions, u* is the only solution of the Lasso in u. Therefore, the minimisers
    of g are the ways to divide each u*_j among its copies into shares >= 0: they have copies - 1
    dimensions for each non-zero u*_j, and g* = weight²/2 |y|² + weight |u*|_1. (The error bound has
    order 2 on bounded sets only.)

    *Upper level.* For half of the nonzero u*_j, rounded up, x* divides u*_j among all copies;
    otherwise, one copy gets all of u*_j. The residual r = B x* - c is chosen such that sign(u*_j)
    B_i'r is the same for all copies i of j with a share, and larger for the others, as the
    optimality conditions require. The differences of the copies' columns in B have full rank, so x*
    is the only solution; f* = ½|r|².

    Args:
        rows, features: the shape of D.
        copies: how often each column occurs in A, at least 2.
        nonzeros: the number of nonzero entries of u*.
        validation: rows of B; more than nonzeros (copies - 1), the dimension of the solution set.
        weight: the weight of the l1 norm.
        seed: the random seed.
    """
    owner, ties = "lasso-duplicates", nonzeros * (copies - 1)
    validation = checks.whole(owner, "validation", validation, ties + 1)
    rng = np.random.default_rng(seed)
    D, u, y = _certified(owner, "nonzeros", rows, features, 1, nonzeros, rng)
    support, shared = np.flatnonzero(u), (nonzeros + 1) // 2

    shares = np.zeros((features, copies))
    shares[support, 0] = 1.0
    shares[support[:shared]] = rng.dirichlet(np.full(copies, 5.0), shared)
    while True:  # redraw until the copies' differences have full rank: rarely needed
        B = rng.standard_normal((validation, features, copies)) / math.sqrt(validation)
        signed = np.sign(u[support])[:, None] * B[:, support]
        differences = (signed[:, :, 1:] - signed[:, :, :1]).reshape(validation, ties)
        if np.linalg.cond(differences) < 1.0 / TOL.independent:
            break
    slack = rng.uniform(0.1, 0.5, (nonzeros, copies - 1))
    slack[:shared] = 0.0
    r = rng.standard_normal(validation) / math.sqrt(validation)
    r += np.linalg.lstsq(differences.T, slack.reshape(ties) - differences.T @ r)[0]

    order = rng.permutation(features * copies)  # so that no copy always comes first
    A = np.repeat(D, copies, axis=1)[:, order]
    B = B.reshape(validation, features * copies)[:, order]
    x = (shares * u[:, None]).reshape(features * copies)[order]
    return Built(
        label=f"lasso with {features} columns, each {copies} times, {nonzeros} in use",
        problem=Problem(
            upper=LeastSquares(B, B @ x - r), lower=LeastSquares(A, D @ u + weight * y) + L1(weight)
        ),
        x0=np.zeros(features * copies),
        upper_optimum=0.5 * float(r @ r),
        lower_optimum=0.5 * float(weight * weight * (y @ y)) + weight * float(np.sum(np.abs(u))),
        solution=x,
        ties=ties,
    )


# -- dual certificates ----------------------------------------------------------------------------


def _certified(
    owner: str, name: str, rows: int, columns: int, size: int, active: int, rng: np.random.Generator
) -> tuple[Matrix, Vector, Vector]:
    """Return a Gaussian A of full rank, x* with ``active`` groups of ``size`` entries, and y."""
    most = min(rows, columns) // size
    if active > most:
        raise ValueError(f"{owner}: {name} must be at most {most}, got {active}")
    for _ in range(DRAWS):
        A = _dyadic(rng.standard_normal((rows, columns))) / 2.0 ** round(0.5 * math.log2(rows))
        x = np.zeros((columns // size, size))
        sizes = rng.uniform(1.0, 3.0, (active, size))
        x[rng.choice(columns // size, active, replace=False)] = _dyadic(
            rng.choice([-1.0, 1.0], (active, size)) * sizes
        )
        y = _certificate(A, x)
        if y is not None and np.linalg.cond(A) < 1.0 / TOL.independent:
            return A, x.reshape(columns), y
    raise ValueError(
        f"{owner}: {name} must be small enough for a dual certificate of the answer, "
        f"got {active} with {rows} x {columns}"
    )


def _dyadic(values: Matrix) -> Matrix:
    """Round to multiples of 2^-10, so that products and sums are exact."""
    return np.asarray(np.round(values * 1024.0) / 1024.0)


def _certificate(A: Matrix, x: Matrix) -> Vector | None:
    """Return y with A_G'y = x_G/|x_G| for rows x_G of x that are not 0 and |A_G'y| < 1 elsewhere.

    y is the solution of least norm of these equations. If |A_G'y| exceeds LIMIT for other groups,
    further equations set it to LIMIT there, until no group exceeds it. The result is None if no
    such y is found, although another y may exist.
    """
    size, active = x.shape[1], np.any(x != 0.0, axis=1)
    wanted, held = np.zeros(x.shape), active.copy()
    wanted[active] = x[active] / np.linalg.norm(x[active], axis=1, keepdims=True)
    if np.linalg.cond(A[:, np.repeat(active, size)]) >= 1.0 / TOL.independent:
        return None
    while size * np.count_nonzero(held) <= A.shape[0]:
        y = np.linalg.lstsq(A[:, np.repeat(held, size)].T, wanted[held].reshape(-1))[0]
        slopes = (A.T @ y).reshape(x.shape)
        lengths = np.linalg.norm(slopes, axis=1)
        above = ~held & (lengths > LIMIT)
        if not np.any(above):
            proved = np.allclose(slopes[active], wanted[active], rtol=0.0, atol=1e-10)
            return y if proved and np.all(lengths[~active] < 0.5 * (1.0 + LIMIT)) else None
        wanted[above] = LIMIT * slopes[above] / lengths[above, None]
        held |= above
    return None
