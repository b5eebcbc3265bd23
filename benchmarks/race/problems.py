"""The twelve problems of `decide.py` that stay the same; `drawn.py` has those drawn anew.

Sizes from 10 to 20,000 variables, well and ill conditioned, single and many minimisers below. Six
are of the kind that Exact takes, six are not: callables, sums of losses, a logistic loss above,
penalties. The answers are planted (see `planting.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from planting import (
    Case,
    Generator,
    Huber,
    Matrix,
    Vector,
    built,
    checked,
    fitted,
    logistic,
    margins,
    spectrum,
    squares,
)

import tiebreak as tb

# --- of the kind that Exact takes -----------------------------------------------------------------


def ball(rng: Generator, rows: int = 801, columns: int = 730, rank: int = 500) -> Case:
    """Validation over training loss in an l2 ball; x* on the sphere, the rank deficient."""
    A = 100.0 * spectrum(rng, rows, columns, 30.0, rank)
    x = rng.standard_normal(columns) / math.sqrt(columns)
    noise = rng.standard_normal(rows)
    U = np.linalg.svd(A, full_matrices=False)[0][:, :rank]
    noise -= U @ (U.T @ noise)
    noise -= U @ (U.T @ noise)
    b = A @ x + noise
    slope = A.T @ rng.standard_normal(rows) / 100.0 - 0.5 * x
    B, dual = 10.0 * spectrum(rng, rows // 3, columns, 30.0), 0.1 * rng.standard_normal(rows // 3)
    B, c = squares(B, x, dual, slope)

    def make() -> tb.Problem:
        radius = float(np.linalg.norm(x))
        return tb.Problem(
            upper=tb.LeastSquares(B, c), lower=tb.LeastSquares(A, b), domain=tb.Ball(radius)
        )

    what = f"least squares twice, {rows} x {columns} below, rank {rank}, ball that binds"
    ties = columns - rank
    return checked("ball", what, make, x, 0.0 * x, slope, ties=ties, order=2.0, is_structured=True)


def unique(rng: Generator, rows: int = 300, columns: int = 100, condition: float = 1e3) -> Case:
    """Ill-conditioned least squares on R^n: a single minimiser, that first-order methods miss."""
    A = spectrum(rng, rows, columns, condition)
    x = 10.0 * rng.standard_normal(columns)
    U = np.linalg.svd(A, full_matrices=False)[0]
    noise = rng.standard_normal(rows)
    noise -= U @ (U.T @ noise)
    noise -= U @ (U.T @ noise)
    b, B = A @ x + noise, spectrum(rng, 2 * columns, columns, 10.0)
    c = B @ x + rng.standard_normal(2 * columns)

    def make() -> tb.Problem:
        return tb.Problem(upper=1e3 * tb.LeastSquares(B, c), lower=tb.LeastSquares(A, b))

    what = f"least squares twice, {rows} x {columns} below, condition {condition:g}, R^n"
    above = 1e3 * (B.T @ (B @ x - c))
    return checked("unique", what, make, x, 0.0 * x, above, ties=0, is_structured=True)


def sparse(rng: Generator, columns: int = 20_000) -> Case:
    """Sparse matrices: validation loss plus the distance from a guess, over least squares, R^n."""
    rows = 2 * columns // 5
    A, B = (_sparse(rng, m, columns) for m in (rows, rows // 2))
    x = rng.standard_normal(columns)
    b, dual, w = A @ x, rng.standard_normal(rows // 2), 0.1
    d, slope = B @ x - dual, 0.1 * (A.T @ rng.standard_normal(rows))
    center = x + (B.T @ dual - slope) / w

    def make() -> tb.Problem:
        upper = tb.LeastSquares(B, d) + tb.SquaredNorm(w, center)
        return tb.Problem(upper=upper, lower=tb.LeastSquares(A, b))

    what = f"sparse least squares below, {rows} x {columns}, least squares + norm above, R^n"
    return checked("sparse", what, make, x, 0.0 * x, slope, order=2.0, is_structured=True)


def _sparse(rng: Generator, rows: int, columns: int, each: int = 10) -> Matrix:
    """``each`` random entries in every row."""
    from scipy.sparse import csr_array

    where = rng.integers(0, columns, rows * each)
    starts = np.arange(0, rows * each + 1, each)
    values = rng.standard_normal(rows * each) / math.sqrt(each)
    matrix = csr_array((values, where, starts), shape=(rows, columns))
    matrix.sum_duplicates()
    return matrix


def simplex(rng: Generator, n: int = 10, rows: int = 3) -> Case:
    """Ten variables on a simplex, four of them 0 at x*: small enough for any solver."""
    x = np.zeros(n)
    x[: n - 4] = rng.dirichlet(np.full(n - 4, 3.0))

    def normal() -> Vector:
        return rng.standard_normal() - np.where(x == 0.0, rng.uniform(0.1, 1.0, n), 0.0)

    nu = normal()
    A, b = squares(rng.standard_normal((rows, n)), x, rng.standard_normal(rows), -nu)
    slope = A.T @ rng.standard_normal(rows) - normal()
    B, c = squares(rng.standard_normal((n + 2, n)), x, rng.standard_normal(n + 2), slope)

    def make() -> tb.Problem:
        return tb.Problem(
            upper=tb.LeastSquares(B, c), lower=tb.LeastSquares(A, b), domain=tb.Simplex(1.0)
        )

    what = f"least squares twice, {n} variables, simplex with 4 of them at 0"
    ties, order = 6 - rows, 2.0  # one row repeats the sum of the simplex
    return checked("simplex", what, make, x, -nu, slope, ties=ties, order=order, is_structured=True)


def chain(rng: Generator) -> Case:
    what = "the hard chain in a ball: long for every first-order method"
    return built("chain", what, "hard", True)


def pursuit(rng: Generator) -> Case:
    what = "the sparsest least-squares solution, 100 x 400"
    size = {"rows": 100, "variables": 400, "nonzeros": 10}
    return built("pursuit", what, "basis-pursuit", True, **size)


# --- without it -----------------------------------------------------------------------------------


def callables(rng: Generator, rows: int = 60, columns: int = 200) -> Case:
    """Plain callables on both levels: a logistic loss over least squares, in a ball."""
    A = 0.1 * spectrum(rng, rows, columns, 2.0)
    x = 3.0 * rng.standard_normal(columns) / math.sqrt(columns)
    signed, slope = _logistic_over(rng, A, x, 3 * columns // 2)

    def make() -> tb.Problem:
        return tb.Problem(
            upper=logistic(np.random.default_rng(1), signed),
            lower=tb.LeastSquares(A, A @ x),
            domain=tb.Ball(6.0),
        )

    what = f"callables: logistic above, least squares below, {rows} x {columns}, ball"
    return checked(
        "callables", what, make, x, 0.0 * x, slope,
        callables=(True, True), ties=columns - rows, order=2.0,
    )  # fmt: skip


def _logistic_over(rng: Generator, A: Vector, x: Vector, rows: int) -> tuple[Vector, Vector]:
    """Signed rows of a mean logistic loss whose slope at x is A'lambda, and that slope."""
    t, dual = margins(rng, rows)
    pull = A.T @ rng.standard_normal(A.shape[0])
    slope = pull * (float(dual @ t) / float(pull @ x))
    signed = rng.standard_normal((rows, len(x))) / np.linalg.norm(x)
    return fitted(signed, x, t, dual, slope), slope


def sums(rng: Generator, columns: int = 400) -> Case:
    """Logistic loss plus least squares, of different matrices, on both levels; a box that binds."""
    side = rng.choice([-1.0, 0.0, 0.0, 1.0], columns)
    x = np.where(side == 0.0, rng.uniform(-0.8, 0.8, columns), side)

    def normal() -> Vector:
        return np.asarray(side * rng.uniform(0.01, 0.1, columns))

    first = 0.3 * rng.standard_normal((80, columns)) / math.sqrt(columns)
    second, dual, nu = spectrum(rng, 60, columns, 5.0), rng.standard_normal(60), normal()
    labels = rng.choice([-1.0, 1.0], 80)
    second, b = squares(second, x, dual, -nu - tb.Logistic(first, labels).gradient(x))
    slope = first.T @ rng.standard_normal(80) + second.T @ rng.standard_normal(60) - normal()
    third, marks = rng.standard_normal((300, columns)), rng.choice([-1.0, 1.0], 300)
    rest = (slope - tb.Logistic(third, marks).gradient(x)) / 0.1
    fourth, c = squares(spectrum(rng, 200, columns, 10.0), x, rng.standard_normal(200), rest)

    def make() -> tb.Problem:
        return tb.Problem(
            upper=tb.Logistic(third, marks) + 0.1 * tb.LeastSquares(fourth, c),
            lower=tb.Logistic(first, labels) + tb.LeastSquares(second, b),
            domain=tb.Box(-1.0, 1.0),
        )

    what = f"logistic + least squares, twice, {columns} variables, box that binds"
    return checked("sums", what, make, x, -nu, slope, order=2.0, is_structured=True)


def lasso(rng: Generator) -> Case:
    what = "best validation loss over all solutions of a Lasso with copied columns, 80 x 200"
    return built("lasso", what, "lasso-duplicates", True)


def groups(rng: Generator) -> Case:
    what = "the least-squares solution with the fewest groups, 100 x 400"
    return built("groups", what, "group-pursuit", False)


def isotonic(rng: Generator, n: int = 300, rows: int = 120) -> Case:
    """Robust isotonic regression: Huber's loss as callables below; above the distance from a guess.

    A tenth of the residuals are outliers, where Huber's loss is flat and allows more minimisers.
    """
    x = np.sort(rng.integers(-20, 21, n)) / 4.0
    steps = (np.eye(n)[:-1] - np.eye(n)[1:])[np.diff(x) == 0.0]

    def normal() -> Vector:
        return np.asarray(rng.uniform(0.0, 0.3, len(steps)) @ steps)

    residual = rng.uniform(-0.9, 0.9, rows)
    residual[: rows // 10] = rng.choice([-3.0, 5.0], rows // 10)
    dual, nu = np.clip(residual, -1.0, 1.0), normal()
    A = spectrum(rng, rows, n, 10.0)
    image = A @ x
    image -= dual * (float(dual @ image) / float(dual @ dual))
    A = fitted(A, x, image, dual, -nu)
    bent = A[rows // 10 :]
    slope = 0.1 * (bent.T @ rng.standard_normal(len(bent)) - normal())
    center, b = x - slope / 1e-2, A @ x - residual

    def make() -> tb.Problem:
        return tb.Problem(
            upper=tb.SquaredNorm(1e-2, center), lower=Huber(A, b), domain=tb.Monotone()
        )

    what = f"isotonic: Huber's loss as callables below, {rows} x {n}, norm above"
    return checked("isotonic", what, make, x, -nu, slope, callables=(False, True))


def large(rng: Generator, columns: int = 20_000) -> Case:
    """Sparse matrices: logistic loss plus distance above, least squares below, box that binds."""
    rows = 3 * columns // 10
    A, B = (_sparse(rng, m, columns) for m in (rows, rows))
    x = np.clip(rng.uniform(-0.5, 1.5, columns), 0.0, 1.0)
    y = rng.choice([-1.0, 1.0], rows)
    side = np.where(x == 0.0, -1.0, np.where(x == 1.0, 1.0, 0.0))
    loss = tb.Logistic(B, y, mean=False)
    slope = 0.1 * (A.T @ rng.standard_normal(rows) - side * rng.uniform(0.0, 1.0, columns))
    center = x + (loss.gradient(x) - slope) / 0.2

    def make() -> tb.Problem:
        return tb.Problem(
            upper=tb.Logistic(B, y, mean=False) + tb.SquaredNorm(0.2, center),
            lower=tb.LeastSquares(A, A @ x),
            domain=tb.Box(0.0, 1.0),
        )

    what = f"sparse: logistic + norm above, least squares below, {rows} x {columns}, box that binds"
    return checked("large", what, make, x, 0.0 * x, slope, order=2.0)


FIXED: dict[str, Callable[[Generator], Case]] = {
    "ball": ball,
    "unique": unique,
    "sparse": sparse,
    "simplex": simplex,
    "chain": chain,
    "pursuit": pursuit,
    "callables": callables,
    "sums": sums,
    "lasso": lasso,
    "groups": groups,
    "isotonic": isotonic,
    "large": large,
}


def fixed(name: str) -> Case:
    """The problem of this name, the same each time."""
    return FIXED[name](np.random.default_rng(list(FIXED).index(name)))
