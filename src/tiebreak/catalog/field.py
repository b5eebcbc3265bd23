"""Small problems from papers that show where methods differ, all with known answers."""

from __future__ import annotations

import math

import numpy as np

from tiebreak.catalog.built import Built, Vector
from tiebreak.functions import (
    L1,
    LeastSquares,
    Linear,
    Quadratic,
    Smooth,
    SquaredHinge,
    SquaredNorm,
)
from tiebreak.linalg import checks
from tiebreak.problem import Problem
from tiebreak.sets import Ball, Box, Polyhedron


def nemirovsky(n: int = 7, rows: int = 4, center: float = 50.0) -> Built:
    """A chain that fixes only the first entries at 1, and an l1 norm that pulls all entries away.

        g(x) = ½ [ (x_1 - 1)² + sum_{1<i<=rows} (x_i - x_{i-1})² ],   f(x) = |x - center|_1
        x* = (1, ..., 1, center, ..., center),   f* = rows |center - 1|,   g* = 0

    Starting from 0, each gradient of g moves one more entry of the chain. The matrix of g has
    eigenvalues 4 sin²((2j - 1) pi/(4 rows + 2)), so L_g < 4, and g grows quadratically (order 2).

    Args:
        n, rows: the number of variables, and the number of variables in the chain.
        center: the value towards which f pulls every entry.
    """
    center = checks.finite("nemirovsky", "center", center)
    if rows > n:
        raise ValueError(f"nemirovsky: rows must be at most {n}, got {rows}")
    chain = np.eye(rows, n) - np.eye(rows, n, k=-1)
    x = np.where(np.arange(n) < rows, 1.0, center)
    return Built(
        label=f"Nemirovsky's chain, {rows} of {n} entries",
        problem=Problem(
            upper=L1(center=np.full(n, center)), lower=LeastSquares(chain, np.eye(rows)[0])
        ),
        x0=np.zeros(n),
        upper_optimum=rows * abs(center - 1.0),
        lower_optimum=0.0,
        solution=x,
        ties=n - rows,
        order=2.0,
    )


def squared_hinge(n: int = 20, rows: int = 60, active: int = 8, seed: int = 0) -> Built:
    """The projection of c onto a polyhedron on which a squared hinge g is constant.

        g(x) = 1/(2 rows) sum_i max(0, 1 - <a_i, x>)²,   f(x) = ½|x - c|²,   Z = Ball(2 sqrt(n))

    x* has entries -1 and 1, the first ``active`` products <a_i, x*> are 1, all other products are
    at least 2, and c = x* - sum of lambda_i a_i over the active rows, with all lambda_i > 0: then
    x* is the projection of c, and f* = ½|x* - c|². All numbers are dyadic, so the stated values are
    exact. At 1.1 x*, all products exceed 1, so the minimisers of g form a polyhedron with an
    interior; there, the slope of g is 0, so the minorant of g contributes nothing to a bound on f*.
    The error bound of g has order 2 (Hoffman).

    Args:
        n, rows, active: variables, rows, and rows with a product of 1 at x*.
        seed: the random seed.
    """
    if active > rows:
        raise ValueError(f"squared-hinge: active must be at most {rows}, got {active}")
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], n)
    A = rng.integers(-3, 4, (rows, n)).astype(np.float64)
    wanted = np.where(np.arange(rows) < active, 1.0, rng.integers(2, 9, rows))
    place = rng.integers(0, n, rows)
    A[np.arange(rows), place] += x[place] * (wanted - A @ x)
    pull = rng.integers(1, 5, active) / 8.0 @ A[:active]
    return Built(
        label=f"squared hinge, {rows} x {n}, {active} rows active",
        problem=Problem(
            upper=SquaredNorm(center=x - pull),
            lower=SquaredHinge(A, np.ones(rows)),
            domain=Ball(2.0 * float(np.sqrt(n))),
        ),
        x0=np.zeros(n),
        upper_optimum=0.5 * float(pull @ pull),
        lower_optimum=0.0,
        solution=x,
        ties=n,
        order=2.0,
    )


def cg_bio_toy() -> Built:
    """The two-variable example of CG-BiO's authors, on a polyhedron without a cheap projection.

        f(x) = ½ x_1² - ½ x_1 + x_2/10,   g(x) = -x_1 - x_2
        Z = { x >= 0, x_1 + x_2 <= 1, 4 x_1 + 6 x_2 <= 5 },   x* = (0.6, 0.4)

    The minimisers of g are the edge from (½, ½) to (1, 0); along it, f(t, 1-t) = ½t² - 0.6t + 0.1.
    The redundant constraints x <= 1 make it evident that Z is bounded. g is weakly sharp (order 1).
    """
    rows = [[1.0, 1.0], [4.0, 6.0], [-1.0, 0.0], [0.0, -1.0], [1.0, 0.0], [0.0, 1.0]]
    return Built(
        label="the example of CG-BiO's authors",
        problem=Problem(
            upper=Quadratic([[1.0, 0.0], [0.0, 0.0]], [-0.5, 0.1]),
            lower=Linear([-1.0, -1.0]),
            domain=Polyhedron(rows, [1.0, 5.0, 0.0, 0.0, 1.0, 1.0]),
        ),
        x0=np.zeros(2),
        upper_optimum=-0.08,
        lower_optimum=-1.0,
        solution=np.array([0.6, 0.4]),
        ties=1,
        order=1.0,
    )


def duffin() -> Built:
    """Duffin's duality gap: no multiplier gives a bound near f*, however small g(x) - g* is.

        f(x) = (x_2 - 1)²,   g(x) = |x| - x_1 if |x| >= 1,   Z = { x_1 >= 1, |x_2| <= 2 }

    g = 0 exactly where x_2 = 0, so f* = 1, and every such point is a solution. Yet the point (s, 1)
    has f = 0 and g < 1/(2s): min{ f : g <= d } = 0 for every d > 0, so a weakly optimal point says
    nothing about f*, and no error bound holds. In the unit disc, outside Z, |x| is replaced by
    (|x|² + 1)/2, so that L_g = 1 and g >= 0.
    """

    def value(x: Vector) -> float:
        along, across = float(x[0]), float(x[1])
        length = math.hypot(along, across)
        if length < 1.0:
            return 0.5 * (length * length + 1.0) - along
        return across * across / (length + along) if along > 0.0 else length - along

    def gradient(x: Vector) -> Vector:
        slope = x / np.maximum(np.sqrt(x @ x), 1.0)
        return np.asarray(slope - np.eye(2, dtype=x.dtype)[0])

    return Built(
        label="Duffin's gap",
        problem=Problem(
            upper=SquaredNorm([0.0, 2.0], center=[0.0, 1.0]),
            lower=Smooth(value, gradient, lipschitz=1.0, lower_bound=0.0),
            domain=Box([1.0, -2.0], [np.inf, 2.0]),
        ),
        x0=np.array([1.0, 2.0]),
        upper_optimum=1.0,
        lower_optimum=0.0,
        ties=1,
    )
