"""The twelve problems of `decide.py` that stay the same: five of `planted.py`, and seven more.

Sizes from 10 to 20,000 variables, well and ill conditioned, single and many minimisers below. Six
are of the kind that Exact takes, six are not: callables, sums of losses, a logistic loss above,
penalties. The answers are planted (see `tiebreak.experiments.planted`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tiebreak as tb
from tiebreak.catalog.instances import instance
from tiebreak.experiments.planted import (
    Case,
    Generator,
    Matrix,
    Vector,
    ball,
    checked,
    fitted,
    isotonic,
    simplex,
    spectrum,
    sums,
    unique,
)
from tiebreak.functions import Composite, Function, SmoothFunction

# --- of the kind that Exact takes -----------------------------------------------------------------


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


def lasso(rng: Generator) -> Case:
    what = "best validation loss over all solutions of a Lasso with copied columns, 80 x 200"
    return built("lasso", what, "lasso-duplicates", True)


def groups(rng: Generator) -> Case:
    what = "the least-squares solution with the fewest groups, 100 x 400"
    return built("groups", what, "group-pursuit", False)


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


def margins(rng: Generator, rows: int) -> tuple[Vector, Vector]:
    """Margins of a mean logistic loss with signed rows, and its slopes there."""
    t = rng.standard_normal(rows) + 0.5
    return t, -1.0 / (rows * (1.0 + np.exp(t)))


def logistic(rng: Generator, signed: Vector) -> tb.Logistic:
    """The mean of log(1 + exp(-<row, x>)) over signed rows, with labels drawn by lot."""
    y = rng.choice([-1.0, 1.0], signed.shape[0])
    return tb.Logistic(y[:, None] * signed, y)


def _again(h: Function) -> Function:
    """The same least squares (and penalty) from the same data, nothing known about it yet."""
    if isinstance(h, Composite):
        again = _again(h.smooth)
        assert isinstance(again, SmoothFunction)
        return Composite(again, h.penalty)
    return tb.LeastSquares(h.matrix.entries, h.b) if isinstance(h, tb.LeastSquares) else h


def built(name: str, what: str, kind: str, structured: bool, **parameters: Any) -> Case:
    """One of tiebreak's own instances, whose builder proves the answer."""
    known = instance(kind, **parameters)
    assert known.answer is not None

    plain = known.problem

    def make() -> tb.Problem:
        return tb.Problem(upper=_again(plain.upper), lower=_again(plain.lower), domain=plain.domain)

    order = known.order
    answer, ties = known.answer, known.ties
    return Case(name, what, make, answer, ties=ties, order=order, is_structured=structured)


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
