"""Levels on one set as plain arrays: written as a ConicProgram, and as a CVXPY problem.

A level is  ½|F x - t|² + Σ w |B x - s| + |C x - p| + Σ log(1 + exp(-y ⊙ A x)) + <q, x> + constant,
each part only where it is given; the set is { x : offset - rows x in K } for every block. Nothing
here is solved by tiebreak: ``program`` alone imports it, for the form that it takes.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from planted.adversary import apply, dot, rational

Array = np.ndarray[Any, Any]


class Block(NamedTuple):
    """offset - rows x in a cone: "zero", "nonnegative" or "second-order"."""

    kind: str
    rows: Array
    offset: Array


@dataclass(frozen=True)
class Level:
    """One objective; parts are pairs of a matrix and what is taken off (for logistic: labels)."""

    squares: tuple[Array, Array] | None = None
    l1: tuple[Array, Array] | None = None
    weights: Array | None = None  # of the l1 part, else 1
    norm: tuple[Array, Array] | None = None
    logistic: tuple[Array, Array] | None = None
    linear: Array | None = None
    constant: float = 0.0

    def value(self, x: Array) -> float:
        """At a point, in floats."""
        total = self.constant
        if self.squares is not None:
            total += 0.5 * float(np.sum((self.squares[0] @ x - self.squares[1]) ** 2))
        if self.l1 is not None:
            weights = np.ones(len(self.l1[1])) if self.weights is None else self.weights
            total += float(weights @ np.abs(self.l1[0] @ x - self.l1[1]))
        if self.norm is not None:
            total += float(np.linalg.norm(self.norm[0] @ x - self.norm[1]))
        if self.logistic is not None:
            total += float(np.sum(np.logaddexp(0.0, -self.logistic[1] * (self.logistic[0] @ x))))
        return total + (0.0 if self.linear is None else float(self.linear @ x))

    def exact(self, x: Any) -> Fraction:
        """At a point of rationals; not for norms and logistic losses."""
        assert self.norm is None
        assert self.logistic is None
        total = Fraction(self.constant)
        if self.squares is not None:
            off = difference(*self.squares, x)
            total += dot(off, off) / 2
        if self.l1 is not None:
            off = [abs(v) for v in difference(*self.l1, x)]
            total += sum(off, Fraction(0)) if self.weights is None else weigh(self.weights, off)
        return total + (Fraction(0) if self.linear is None else weigh(self.linear, x))

    def in_cvxpy(self, x: Any) -> Any:
        import cvxpy as cp

        parts: list[Any] = [cp.Constant(self.constant)]
        if self.squares is not None:
            parts.append(cp.sum_squares(self.squares[0] @ x - self.squares[1]) / 2)
        if self.l1 is not None:
            weights = np.ones(len(self.l1[1])) if self.weights is None else self.weights
            parts.append(weights @ cp.abs(self.l1[0] @ x - self.l1[1]))
        if self.norm is not None:
            parts.append(cp.norm(self.norm[0] @ x - self.norm[1], 2))
        if self.logistic is not None:
            parts.append(cp.sum(cp.logistic(-cp.multiply(self.logistic[1], self.logistic[0] @ x))))
        if self.linear is not None:
            parts.append(self.linear @ x)
        return sum(parts)


def difference(matrix: Array, target: Array, x: Any) -> list[Fraction]:
    """matrix x - target, in rational arithmetic."""
    return [a - b for a, b in zip(apply(rational(matrix), x), rational(target), strict=True)]


def weigh(weights: Array, values: Any) -> Fraction:
    total: Fraction = dot(rational(weights), values)
    return total


@dataclass(frozen=True)
class Leveled:
    """Levels, the most important first; reach bounds the entries of some solution."""

    n: int
    levels: list[Level]
    blocks: list[Block] = field(default_factory=list)
    reach: float = np.inf

    def is_inside(self, x: Array, tolerance: float) -> bool:
        """Whether a point lies in the set, each row within a tolerance of its size."""
        for kind, rows, offset in self.blocks:
            s = offset - rows @ x
            unit = 1.0 + np.abs(offset) + np.abs(rows) @ np.abs(x)
            if kind == "second-order":
                out = (np.linalg.norm(s[1:]) - s[0]) / np.max(unit)
            else:
                out = np.max((np.abs(s) if kind == "zero" else -s) / unit, initial=0.0)
            if out > tolerance:
                return False
        return True

    def in_cvxpy(self, x: Any) -> list[Any]:
        """The set, as constraints."""
        import cvxpy as cp

        limits = []
        for kind, rows, offset in self.blocks:
            s = offset - rows @ x
            if kind == "second-order":
                limits.append(cp.SOC(s[0], s[1:]))
            else:
                limits.append(s == 0 if kind == "zero" else s >= 0)
        return limits


def box(n: int, radius: float) -> Block:
    """|x_j| <= radius."""
    eye = np.eye(n)
    return Block("nonnegative", np.vstack([eye, -eye]), np.full(2 * n, radius))


def ball(n: int, radius: float) -> Block:
    """|x| <= radius."""
    return Block("second-order", -np.vstack([np.zeros(n), np.eye(n)]), np.eye(1, n + 1)[0] * radius)


class Writer:
    """Collects cones and objectives while auxiliary variables are added."""

    def __init__(self, n: int, reach: float) -> None:
        self.reach = [reach] * n
        self.blocks: list[Block] = []
        self.terms: list[tuple[Any, Array, list[tuple[int, float]], float]] = []

    def rows(
        self, kind: str, x_rows: Array, auxiliary: list[tuple[int, int, float]], b: Any
    ) -> None:
        """x_rows on x, and entries (row, column, value) on auxiliary variables."""
        rows = np.zeros((len(x_rows), len(self.reach)))
        rows[:, : x_rows.shape[1]] = x_rows
        for i, j, value in auxiliary:
            rows[i, j] = value
        self.blocks.append(Block(kind, rows, np.asarray(b, dtype=float)))

    def new(self, reach: Array) -> list[int]:
        first = len(self.reach)
        self.reach += [float(r) for r in reach]
        return list(range(first, first + len(reach)))

    def reached(self, matrix: Array, target: Array) -> Array:
        """How large matrix x - target may be where x is within reach."""
        if not np.all(np.isfinite(self.reach)):
            return np.full(len(target), np.inf)
        return np.abs(matrix) @ np.array(self.reach[: matrix.shape[1]]) + np.abs(target) + 1.0

    def epigraphs(self, level: Level) -> list[tuple[int, float]]:
        """The weights of new variables above the l1, norm and logistic parts."""
        found: list[tuple[int, float]] = []
        if level.l1 is not None:
            B, s = level.l1
            weights = np.ones(len(s)) if level.weights is None else level.weights
            new = self.new(self.reached(B, s))
            for sign in (1.0, -1.0):
                self.rows(
                    "nonnegative", sign * B, [(i, j, -1.0) for i, j in enumerate(new)], sign * s
                )
            found += [(j, float(w)) for j, w in zip(new, weights, strict=True)]
        if level.norm is not None:
            C, p = level.norm
            new = self.new(np.array([np.sum(self.reached(C, p))]))
            stacked = np.vstack([np.zeros(C.shape[1]), C])
            self.rows("second-order", stacked, [(0, new[0], -1.0)], np.concatenate([[0.0], p]))
            found.append((new[0], 1.0))
        if level.logistic is not None:  # exp(-u) + exp(-y a x - u) <= 1
            A, y = level.logistic
            size = self.reached(A, np.zeros(len(y)))
            for row, label, high in zip(A, y, size, strict=True):
                u, a, b = self.new(np.array([high + 1.0, 1.0, 1.0]))
                nothing = np.zeros((3, A.shape[1]))
                self.rows("exponential", nothing, [(0, u, 1.0), (2, a, -1.0)], [0.0, 1.0, 0.0])
                tilted = np.vstack([label * row, nothing[:2]])
                self.rows("exponential", tilted, [(0, u, 1.0), (2, b, -1.0)], [0.0, 1.0, 0.0])
                self.rows("nonnegative", nothing[:1], [(0, a, 1.0), (0, b, 1.0)], [1.0])
                found.append((u, 1.0))
        return found

    def level(self, level: Level, n: int) -> None:
        q = np.zeros(n) if level.linear is None else np.asarray(level.linear, dtype=float)
        self.terms.append((level.squares, q, self.epigraphs(level), level.constant))


def program(problem: Leveled) -> Any:
    """As a ConicProgram, auxiliary variables after x."""
    import scipy.sparse as sp

    from tiebreak.conic.program import Cone, ConicProgram, Objective

    n = problem.n
    writer = Writer(n, problem.reach)
    for kind, rows, offset in problem.blocks:
        writer.rows(kind, rows, [], offset)
    for level in problem.levels:
        writer.level(level, n)
    size = len(writer.reach)

    def widened(matrix: Array) -> Array:
        return np.hstack([matrix, np.zeros((len(matrix), size - matrix.shape[1]))])

    objectives = []
    for squares, q, lifted, constant in writer.terms:
        F, t = squares if squares is not None else (np.zeros((0, n)), np.zeros(0))
        linear = np.concatenate([q, np.zeros(size - n)])
        for j, weight in lifted:
            linear[j] = weight
        objectives.append(Objective(sp.csc_array(widened(F)), t, linear, constant))
    rows = [widened(block.rows) for block in writer.blocks]
    return ConicProgram(
        rows=sp.csc_array(np.vstack([np.zeros((0, size)), *rows])),
        offset=np.concatenate([np.zeros(0), *[block.offset for block in writer.blocks]]),
        cones=tuple(Cone(block.kind, len(block.offset)) for block in writer.blocks),  # type: ignore[arg-type]
        objectives=tuple(objectives),
        variables=np.arange(n),
        reach=np.array(writer.reach),
    )


class NoReferenceError(Exception):
    """A problem that Clarabel alone does not solve."""


class Least(NamedTuple):
    """A least value, where it is, and the multipliers of the cuts."""

    value: float
    x: Array
    prices: list[float]
    tolerance: float  # that it was solved to


def least(
    level: Level,
    problem: Leveled,
    cuts: list[tuple[Level, float]],
    plus: tuple[float, Level] | None = None,
) -> Least:
    """The least value on the set below all cuts, by Clarabel; ``plus``: a weight and its level."""
    import cvxpy as cp

    x = cp.Variable(problem.n)
    below = [cut.in_cvxpy(x) <= height for cut, height in cuts]
    total = level.in_cvxpy(x) + (0.0 if plus is None else plus[0] * plus[1].in_cvxpy(x))
    conic = cp.Problem(cp.Minimize(total), [*problem.in_cvxpy(x), *below])
    for tol, scale in itertools.product((1e-11, 1e-10, 1e-9, 1e-8), (True, False)):
        settings = {"tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "may be inaccurate": then the next tolerance
            try:
                conic.solve(solver="CLARABEL", equilibrate_enable=scale, **settings)
            except cp.error.SolverError:
                continue
        if conic.status == "optimal":
            prices = [float(np.squeeze(limit.dual_value)) for limit in below]
            return Least(float(conic.value), np.array(x.value), prices, tol)
    raise NoReferenceError("Clarabel does not solve it")
