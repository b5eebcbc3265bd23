"""Lexicographic linear programs, many of them degenerate, solved twice by HiGHS.

``by_priorities`` uses HiGHS's own lexicographic objectives, ``by_faces`` one solve after the other,
the optimal face of each held by its reduced costs: rows and bounds with a multiplier become
equations. Data are small whole numbers, so that a multiplier is either 0 or far from it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from planted.levels import Array, Block, Level, Leveled

KINDS = ["generic", "ties", "transport", "assignment", "flow", "simplex", "copies", "free"]


class LinearProgram(NamedTuple):
    """low <= x <= high, rows x <= right, equal x = level: costs, the most important first."""

    costs: Array
    rows: Array
    right: Array
    equal: Array
    level: Array
    low: Array
    high: Array


def transport(
    rng: np.random.Generator, sources: int, sinks: int, amount: int
) -> tuple[Array, Array]:
    """Equations of a transport problem, one of them redundant."""
    ship = np.arange(sources * sinks).reshape(sources, sinks)
    equal = np.zeros((sources + sinks, sources * sinks))
    for i in range(sources):
        equal[i, ship[i]] = 1.0
    for j in range(sinks):
        equal[sources + j, ship[:, j]] = 1.0
    plan = rng.integers(0, amount + 1, (sources, sinks)).astype(float)
    return equal, np.concatenate([plan.sum(axis=1), plan.sum(axis=0)])


def drawn(seed: int) -> LinearProgram:
    """Program number ``seed``: 2 to 4 levels, each kind in turn; all have a solution."""
    rng = np.random.default_rng([20261117, 2, seed])
    kind, count = KINDS[seed % len(KINDS)], 2 + seed // len(KINDS) % 3
    n = int(rng.integers(4, 16))
    rows, right = np.zeros((0, n)), np.zeros(0)
    equal, level = np.zeros((0, n)), np.zeros(0)
    low, high = np.zeros(n), rng.integers(1, 6, n).astype(float)
    if kind in ("transport", "assignment"):
        size = int(rng.integers(2, 5))
        if kind == "assignment":
            equal, level = transport(rng, size, size, 0)
            level[:] = 1.0
        else:
            equal, level = transport(rng, size, size + 1, 3)
        n = equal.shape[1]
        rows, low, high = np.zeros((0, n)), np.zeros(n), np.full(n, np.inf)
    elif kind == "flow":  # a network with one unit from the first node to the last
        nodes = int(rng.integers(4, 7))
        arcs = [(i, j) for i in range(nodes) for j in range(i + 1, nodes)]
        n = len(arcs)
        equal = np.zeros((nodes, n))
        for k, (i, j) in enumerate(arcs):
            equal[i, k], equal[j, k] = 1.0, -1.0
        level = np.zeros(nodes)
        level[0], level[-1] = 2.0, -2.0
        rows, low, high = np.zeros((0, n)), np.zeros(n), rng.integers(1, 3, n).astype(float)
        high[[k for k, (i, j) in enumerate(arcs) if j == i + 1]] = 2.0  # one path for all
    elif kind == "simplex":
        equal, level = np.ones((1, n)), np.ones(1)
        high = np.full(n, np.inf)
    else:
        m = int(rng.integers(2, n + 3))
        rows = rng.integers(-3, 4, (m, n)).astype(float)
        inside = np.array([rng.integers(0, int(v) + 1) for v in high], dtype=float)
        right = rows @ inside + rng.integers(0, 3, m)  # many rows meet at one point
        if kind == "copies":
            twice = rng.integers(0, m, 3)
            rows = np.vstack([rows, rows[twice], 2.0 * rows[twice], np.zeros((1, n))])
            right = np.concatenate([right, right[twice], 2.0 * right[twice], [0.0]])
            equal, level = np.vstack([rows[:1] + rows[1:2]] * 2), np.zeros(2)
            level[:] = equal[0] @ inside
        if kind == "free":
            low[: n // 2], high[n // 2 :] = -high[: n // 2], np.inf
    size = 2 if kind in ("ties", "assignment", "flow", "simplex") else 5
    costs = rng.integers(-size, size + 1, (count, n)).astype(float)
    for i in range(count - 1):  # ties: much of a level does not matter
        costs[i, rng.random(n) < 0.5] = 0.0
    if kind == "ties" and rng.random() < 0.5:
        costs[0] = 0.0
    if kind == "copies":
        costs[-1] = costs[0] if rng.random() < 0.3 else costs[-1]
        costs[0] = -rows[0]  # all of a face
    costs[:, np.isinf(high)] = np.abs(costs[:, np.isinf(high)])
    return LinearProgram(costs, rows, right, equal, level, low, high)


def problem(lp: LinearProgram) -> Leveled:
    """The same as levels on a set; reach where every variable has two bounds."""
    n = lp.costs.shape[1]
    eye, above, below = np.eye(n), np.isfinite(lp.high), np.isfinite(lp.low)
    blocks = [
        Block("zero", lp.equal, lp.level),
        Block("nonnegative", lp.rows, lp.right),
        Block("nonnegative", -eye[below], -lp.low[below]),
        Block("nonnegative", eye[above], lp.high[above]),
    ]
    is_bounded = bool(np.all(above & below))
    reach = float(np.max(np.abs([lp.low, lp.high]))) if is_bounded else np.inf
    return Leveled(
        n, [Level(linear=c) for c in lp.costs], [b for b in blocks if len(b.offset)], reach
    )


def highs(lp: LinearProgram) -> Any:
    """A HiGHS model with all rows of lp and no cost."""
    import highspy

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for name in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        solver.setOptionValue(name, 1e-10)
    matrix = np.vstack([lp.equal, lp.rows])
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = matrix.shape[1], matrix.shape[0]
    model.col_cost_ = np.zeros(matrix.shape[1])
    model.col_lower_, model.col_upper_ = lp.low, lp.high
    model.row_lower_ = np.concatenate([lp.level, np.full(len(lp.right), -np.inf)])
    model.row_upper_ = np.concatenate([lp.level, lp.right])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.arange(matrix.shape[0] + 1) * matrix.shape[1]
    model.a_matrix_.index_ = np.tile(np.arange(matrix.shape[1]), matrix.shape[0])
    model.a_matrix_.value_ = matrix.ravel()
    assert solver.passModel(model) == highspy.HighsStatus.kOk
    return solver


def solution(solver: Any) -> Array:
    import highspy

    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal, solver.getModelStatus()
    return np.array(solver.getSolution().col_value)


def by_priorities(lp: LinearProgram) -> Array:
    """The values of all levels by HiGHS's lexicographic objectives, tolerances of 0."""
    import highspy

    solver = highs(lp)
    solver.setOptionValue("blend_multi_objectives", False)
    for i, cost in enumerate(lp.costs):
        objective = highspy.HighsLinearObjective()
        objective.weight, objective.offset = 1.0, 0.0
        objective.coefficients = [float(c) for c in cost]
        objective.abs_tolerance = objective.rel_tolerance = 0.0  # negative ones switch it off
        objective.priority = len(lp.costs) - i  # the highest first
        solver.addLinearObjective(objective)
    return lp.costs @ solution(solver)


def by_faces(lp: LinearProgram) -> Array:
    """The values of all levels, one solve each, on the face that reduced costs expose."""
    values = []
    for cost in lp.costs:
        solver = highs(lp)
        for j, c in enumerate(cost):
            solver.changeColCost(j, float(c))
        x = solution(solver)
        values.append(float(cost @ x))
        found = solver.getSolution()
        reduced = np.abs(np.array(found.col_dual)) > 1e-7
        priced = np.abs(np.array(found.row_dual))[len(lp.level) :] > 1e-7
        # A variable with a reduced cost lies on one of its bounds, a row with a price is tight.
        nearest = np.where(np.abs(x - lp.low) < np.abs(x - lp.high), lp.low, lp.high)
        lp = lp._replace(
            equal=np.vstack([lp.equal, lp.rows[priced]]),
            level=np.concatenate([lp.level, lp.right[priced]]),
            rows=lp.rows[~priced],
            right=lp.right[~priced],
            low=np.where(reduced, nearest, lp.low),
            high=np.where(reduced, nearest, lp.high),
        )
    return np.array(values)
