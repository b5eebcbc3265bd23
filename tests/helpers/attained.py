"""Losses with and without a minimiser, on every set and in every place of a chain.

Whether there is a minimiser is planted. A loss without one has a direction d of the set, in whole
numbers, with <m_i, d> >= 0 for all of its rows and > 0 for some, which nothing else sees. A loss
with one has whole numbers theta > 0 with sum theta_i m_i = 0 and rows of full rank, so that no
direction lowers it (Stiemke).
"""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np

import tiebreak as tb
from tiebreak.functions.sums import summands

LOSSES = ("logistic", "poisson", "multinomial", "sum", "squares", "tilted")
SETS = ("space", "orthant", "box", "halfspace", "monotone", "polyhedron", "both", "cone")
PLACES = ("auto", "conic", "direct", "above", "first", "second", "third", "cvxpy")
ABOVE = (
    tb.SquaredNorm(),
    tb.L1(),
    tb.ElasticNet(1.0, 1.0),
    tb.GroupL2([[0, 1]]) + tb.L1(0.5),
    tb.L2(),
)


def drawn_set(rng, name, n):
    """A set and a direction of it in whole numbers."""
    d = rng.integers(-3, 4, n).astype(float)
    d[int(rng.integers(n))] = 2.0
    side = rng.integers(-3, 4, n).astype(float)
    side = -side if side @ d > 0.0 else side
    row = tb.Polyhedron(side[None], [1.0])
    if name == "orthant":
        return tb.Orthant(), np.abs(d)
    if name == "box":
        return tb.Box(np.where(d > 0.0, -1.0, -math.inf), np.where(d < 0.0, 2.0, math.inf)), d
    if name == "halfspace":
        return tb.Halfspace(side if side.any() else -d, 1.0), d
    if name == "monotone":
        return tb.Monotone(), np.sort(d)
    if name == "polyhedron":
        return row, d
    if name == "both":
        return row & tb.Box(np.where(d >= 0.0, -3.0, -math.inf), math.inf), d
    if name == "cone":  # |x_0| <= <c, x> + 1, with d inside
        c = 2.0 * np.sign(d)
        return tb.SecondOrderCone(np.eye(n)[:1], c=c, d=1.0), d
    return tb.Space(), d


def rows_up(rng, d, m):
    """m rows in whole numbers with <row, d> >= 0, the first of them with > 0."""
    rows = rng.integers(-4, 5, (m, len(d))).astype(float)
    rows[0] = np.sign(d)
    return rows * np.where(rows @ d < 0.0, -1.0, 1.0)[:, None]


def rows_across(rng, d, m):
    """m rows in whole numbers with <row, d> = 0."""
    j = int(np.argmax(np.abs(d)))
    rows = rng.integers(-2, 3, (m, len(d))) * abs(d[j])
    rows[:, j] = 0.0
    rows[:, j] = -np.sign(d[j]) * (rows @ d) / abs(d[j])
    return rows


def balanced(rng, n):
    """Rows of full rank with sum theta_i m_i = 0, theta > 0."""
    rows = np.vstack([np.eye(n), rng.integers(-3, 4, (int(rng.integers(2, 9)), n))])
    return np.vstack([rows, -(rng.integers(1, 4, len(rows)) @ rows)])


def loss(rng, kind, rows, across):
    """A loss whose rows are these, with squares that see nothing of the direction."""
    y = rng.choice([-1.0, 1.0], len(rows))
    logistic = tb.Logistic(y[:, None] * rows, y, mean=bool(rng.random() < 0.5))
    if kind == "poisson":  # e^t without a count
        return tb.Poisson(-rows, np.zeros(len(rows)))
    if kind == "sum":
        half = len(rows) // 2
        first, second = (
            tb.Logistic(part, np.ones(len(part))) for part in (rows[:half], rows[half:])
        )
        return first + 10.0 ** rng.uniform(-2, 2) * second
    if kind == "squares":
        return logistic + tb.LeastSquares(across, rng.standard_normal(len(across)))
    if kind == "tilted":  # log(1 + e^-t) + t = log(1 + e^t)
        weight = float(rng.integers(1, 3))
        flipped = tb.Logistic(-rows, np.ones(len(rows)), mean=False)
        return weight * flipped + tb.Linear(-weight * np.sum(rows, axis=0))
    return logistic


def draw(seed, is_attained):
    """The loss, a set, a direction that no level before the loss sees, and where it stands."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    kind, place = LOSSES[seed % len(LOSSES)], PLACES[int(rng.integers(len(PLACES)))]
    domain, d = drawn_set(rng, SETS[int(rng.integers(len(SETS)))], n)
    if kind == "multinomial":
        n, d, domain = 3 * n, np.concatenate([d, -d, 0.0 * d]), tb.Space()
        A = rows_up(rng, d[: n // 3], 6)
        if is_attained:  # every row in every class
            A = balanced(rng, n // 3)
            A, y = np.vstack([A, A, A]), np.repeat([0, 1, 2], len(A))
            return tb.Multinomial(A, y), domain, d, place, rng
        A = np.vstack([A, -A])
        return tb.Multinomial(A, np.repeat([0, 1], len(A) // 2), classes=3), domain, d, place, rng
    rows = balanced(rng, n) if is_attained else rows_up(rng, d, int(rng.integers(2, 12)))
    return loss(rng, kind, rows, rows_across(rng, d, 2)), domain, d, place, rng


def answer(h, domain, d, place, rng):
    """Solve with the loss in its place; the result, the problem and the level that it is."""
    above = ABOVE[int(rng.integers(len(ABOVE)))]
    before = tb.LeastSquares(rows_across(rng, d, 1), [1.0])
    flat = tb.Huber(rows_across(rng, d, 2), [5.0, -3.0], 0.5)
    if place == "cvxpy":
        return through_cvxpy(h, domain, d)
    if place == "above":
        problem = tb.Problem(lower=before, upper=h, domain=domain)
        return tb.solve(problem, max_iter=300), problem, 1
    if place in ("first", "second", "third"):
        number = ("first", "second", "third").index(place)
        chain = [*[before, flat][:number], h, tb.L1(), tb.SquaredNorm()]
        problem = tb.Levels(*chain, domain=domain)
        return tb.solve(problem, max_iter=300), problem, number
    problem = tb.Problem(lower=h, upper=above, domain=domain)
    method = {"direct": "exact"}.get(place, place)
    if place == "direct" and tb.Exact().refusal(problem) is not None:
        method = "auto"
    return tb.solve(problem, method, max_iter=300), problem, 0


def through_cvxpy(h, domain, d):
    """The same loss as CVXPY's own atoms, on the rows that it is made of."""
    x = cp.Variable(len(d))
    kinds = {
        tb.Poisson: lambda part: cp.sum(cp.exp(part.matrix.entries @ x)),
        tb.Logistic: lambda part: (
            part.scale * cp.sum(cp.logistic(-np.asarray(part.y)[:, None] * part.matrix.entries @ x))
        ),
        tb.LeastSquares: lambda part: 0.5 * cp.sum_squares(part.matrix.entries @ x - part.target),
        tb.Linear: lambda part: part.c @ x,
    }
    parts = list(summands(h))
    if any(type(part) not in kinds for _, part in parts):
        return None, None, 0
    total = sum(weight * kinds[type(part)](part) for weight, part in parts)
    constraints = [x >= 0] if isinstance(domain, tb.Orthant) else []  # else without one
    levels = tb.from_cvxpy(
        cp.Minimize(total), then=[cp.Minimize(cp.sum_squares(x))], constraints=constraints
    )
    return tb.solve(levels, max_iter=300), None, 0
