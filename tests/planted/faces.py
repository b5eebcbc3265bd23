"""Levels on polyhedra and second-order cones whose optimum is known: x* first, then all around it.

Every piece of the set that x* touches is given the level at which it presses: there its multiplier
is positive, and from then on all minimisers stay on the face that it exposes, so that its later
multipliers are free on that face. The same holds for what a level fixes itself: F x for squares,
the entries of B x - s that are 0 for an l1 norm, the ray of C x - p for a norm. Stationarity of
level i at x* is solved for one thing that is left open: its linear term, or one more row.
All data are multiples of powers of two (points on cones are Pythagorean): no rounding anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from planted.levels import Array, Block, Level, Leveled, ball, box

# Vectors of whole numbers with a whole length.
LENGTHS = {
    2: [((3, 4), 5), ((5, 12), 13), ((0, 1), 1)],
    3: [((1, 2, 2), 3), ((2, 3, 6), 7), ((1, 4, 8), 9), ((0, 3, 4), 5)],
    4: [((1, 1, 1, 1), 2), ((1, 1, 3, 5), 6), ((1, 2, 2, 4), 5)],
}
# The same with a power of two, so that v / |v| has no rounding.
EVEN = {
    4: [((1, 1, 1, 1), 2)],
    5: [((1, 1, 1, 5, 6), 8), ((3, 3, 3, 1, 6), 8), ((2, 3, 5, 1, 5), 8)],
}

State = Literal["row", "ray", "apex", "apex to ray"]


def pythagorean(rng: np.random.Generator, table: Any, size: int) -> tuple[Array, float]:
    """A vector and its length."""
    values, length = table[size][rng.integers(len(table[size]))]
    return rng.permutation(np.array(values, dtype=float)) * rng.choice([-1.0, 1.0], size), length


def small(rng: np.random.Generator, *shape: int) -> Array:
    return np.asarray(rng.integers(-3, 4, shape), dtype=float)


@dataclass(frozen=True)
class Piece:
    """One cone that x* touches, and from which level on it presses (0: never)."""

    state: State
    rows: Array
    presses: int
    direction: Array = field(default_factory=lambda: np.ones(1))  # of the ray, (|v|, v)

    @property
    def slack(self) -> Array:
        """offset - rows x*."""
        return self.direction if self.state == "ray" else np.zeros(len(self.rows))

    def multiplier(self, level: int, rng: np.random.Generator) -> Array:
        """rows' y for a multiplier y that is right at this level, counted from 1."""
        size = len(self.rows)
        if self.presses == 0 or level < self.presses:
            return np.zeros(self.rows.shape[1])
        if level > self.presses:
            return self.later(rng) @ self.rows
        length = float(self.direction[0])
        if self.state == "row":
            y = np.array([float(rng.integers(1, 4))])
        elif self.state == "apex":  # inside the dual cone
            tail = small(rng, size - 1)
            y = np.concatenate([[float(np.sum(np.abs(tail))) + 1.0], tail])
        else:
            y = np.concatenate([[length], -self.direction[1:]])
        return y @ self.rows

    def later(self, rng: np.random.Generator) -> Array:
        """A multiplier on the face that was exposed before."""
        size = len(self.rows)
        if self.state in ("row", "apex"):
            return small(rng, size)
        whole = small(rng, size - 1)
        w = np.concatenate([[-float(whole @ self.direction[1:])], self.direction[0] * whole])
        return w + self.direction if self.state == "apex to ray" else w

    def held(self) -> Array:
        """The rows that are constant on the exposed face."""
        if self.state in ("row", "apex"):
            return self.rows
        tail, length = self.direction[1:], self.direction[0]
        return length * self.rows[1:] - np.outer(tail, self.rows[0])

    def free(self, level: int) -> Array:
        """Rows that must be free to move for x* to be no more than one end of the minimisers."""
        if self.presses and self.presses <= level:
            is_open = self.state == "apex to ray" and self.presses == level
            return self.rows[:1] if is_open else self.rows[:0]
        if self.state == "ray":
            return (np.concatenate([[self.direction[0]], -self.direction[1:]]) @ self.rows)[None]
        return self.rows


@dataclass(frozen=True)
class Part:
    """What a level is made of besides its linear term: its slope at x* and what it fixes."""

    level: Level
    slope: Array
    fixed: Array  # rows that are constant on its minimisers
    value: Fraction | None = None  # at x*, where it is not rational by itself


def squares(rng: np.random.Generator, x: Array, rank: int) -> Part:
    n = len(x)
    basis = small(rng, rank, n)
    mixed = small(rng, int(rng.integers(1, 3)), rank) if rng.random() < 0.5 else np.zeros((0, rank))
    F = np.vstack([basis, mixed @ basis])
    off = small(rng, len(F))
    return Part(Level(squares=(F, F @ x - off)), off @ F, basis)


def strongly_convex(rng: np.random.Generator, x: Array) -> Part:
    n = len(x)
    F, off = np.eye(n) + np.diag(rng.integers(0, 2, n).astype(float)), small(rng, n)
    return Part(Level(squares=(F, F @ x - off)), off @ F, np.eye(n))


def l1(rng: np.random.Generator, x: Array, zeros: int, edge: bool) -> Part:
    n = len(x)
    rows = zeros + int(rng.integers(1, n // 2 + 1))
    B = small(rng, rows, n) if rng.random() < 0.5 else rng.permutation(np.eye(n))[:rows]
    rows = len(B)
    off = np.where(np.arange(rows) < zeros, 0.0, rng.integers(1, 4, rows))
    off *= rng.choice([-1.0, 1.0], rows)
    weights = rng.integers(1, 4, rows).astype(float)
    sign = np.where(off == 0.0, rng.integers(-6, 7, rows) / 8.0, np.sign(off))
    if edge:
        sign[0] = 1.0
    fixed = B[int(edge) : zeros]
    return Part(Level(l1=(B, B @ x - off), weights=weights), (weights * sign) @ B, fixed)


def norm(rng: np.random.Generator, x: Array) -> Part:
    v, length = pythagorean(rng, EVEN, int(rng.choice([4, 5])))
    C = small(rng, len(v), len(x))
    fixed = v[0] * C[1:] - np.outer(v[1:], C[0])
    return Part(Level(norm=(C, C @ x - v)), v / length @ C, fixed, Fraction(length))


def linear(x: Array) -> Part:
    return Part(Level(), np.zeros(len(x)), np.zeros((0, len(x))))


@dataclass(frozen=True)
class Planted:
    """A problem and its answer; strict: multipliers are strictly complementary at every level."""

    problem: Leveled
    x: Array
    values: list[Fraction]
    is_strict: bool
    kinds: tuple[str, ...]


class Planter:
    """Puts levels and pieces around x*."""

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self.rng, self.x = rng, small(rng, n)
        self.pieces: list[Piece] = []
        self.equal = small(rng, int(rng.integers(0, 2)), n)
        self.levels: list[Level] = []
        self.values: list[Fraction] = []
        self.fixed = [self.equal]  # by the levels so far
        self.is_strict = True

    def touch(self, state: State, size: int, presses: int) -> None:
        """One more cone through x*."""
        n = len(self.x)
        if state == "row":
            row = small(self.rng, 1, n)
            if self.rng.random() < 0.3:
                row = np.eye(n)[self.rng.integers(n)][None] * self.rng.choice([-1.0, 1.0])
            self.pieces.append(Piece("row", row, presses))
            return
        v, length = pythagorean(self.rng, LENGTHS, size)
        rows = small(self.rng, size + 1, n)
        self.pieces.append(Piece(state, rows, presses, np.concatenate([[length], v])))

    def level(self, part: Part, by_row: bool) -> None:
        """The next level; what makes x* optimal is a new row or the linear term."""
        i, n = len(self.levels) + 1, len(self.x)
        total = part.slope.copy()
        for rows in self.fixed:
            total += small(self.rng, len(rows)) @ rows
        for piece in self.pieces:
            total += piece.multiplier(i, self.rng)
        q, size = None, float(np.max(np.abs(total), initial=0.0))
        if by_row and size > 0.0:
            unit = 2.0 ** np.floor(np.log2(size))
            self.pieces.append(Piece("row", -total[None] / unit, i))
        else:
            q = -total
        level = scaled(replace(part.level, linear=q))
        self.levels.append(level)
        self.values.append(value(level, self.x, part.value))
        self.fixed.append(part.fixed)
        held = [*self.fixed, *[p.held() for p in self.pieces if 0 < p.presses <= i]]
        moving = np.vstack([np.zeros((0, n)), *[p.free(i) for p in self.pieces]])
        both = np.vstack([*held, moving])
        self.is_strict &= rank(both) == rank(np.vstack(held)) + len(moving)

    def idle_rows(self) -> Block:
        """Rows that x* is far from."""
        rows = small(self.rng, int(self.rng.integers(1, 6)), len(self.x))
        return Block("nonnegative", rows, rows @ self.x + self.rng.integers(1, 5, len(rows)))

    def blocks(self) -> list[Block]:
        """The set, rows together and cones apart."""
        found = [Block("zero", self.equal, self.equal @ self.x)] if len(self.equal) else []
        rows = [p.rows for p in self.pieces if p.state == "row"]
        if rows:
            stacked = np.vstack(rows)
            found.append(Block("nonnegative", stacked, stacked @ self.x))
        for p in self.pieces:
            if p.state != "row":
                found.append(Block("second-order", p.rows, p.slack + p.rows @ self.x))
        return found


def rank(rows: Array) -> int:
    return int(np.linalg.matrix_rank(rows)) if rows.size else 0


def scaled(level: Level) -> Level:
    """By a power of four, so that its slopes are of size one."""
    sizes = [np.abs(level.linear).max()] if level.linear is not None else [1.0]
    half = 2.0 ** -np.ceil(np.log2(max(*sizes, 1.0)) / 2.0)

    def times(part: Any, factor: float) -> Any:
        return None if part is None else tuple(factor * a for a in part)

    weights = None if level.weights is None else half**2 * level.weights
    return Level(
        squares=times(level.squares, half),
        l1=level.l1,
        weights=weights,
        norm=times(level.norm, half**2),
        linear=None if level.linear is None else half**2 * level.linear,
        constant=level.constant,
    )


def value(level: Level, x: Array, length: Fraction | None) -> Fraction:
    """At x*, exactly."""
    point = [Fraction(float(v)) for v in x]
    if level.norm is None:
        return level.exact(point)
    C, p = level.norm
    off = [Fraction(float(v)) for v in C @ x - p]
    root = Fraction(float(np.linalg.norm(C @ x - p)))
    assert root * root == sum(v * v for v in off)
    return replace(level, norm=None).exact(point) + root


def part_of(rng: np.random.Generator, kind: str, x: Array, edge: bool) -> Part:
    return {
        "squares": lambda: squares(rng, x, int(rng.integers(1, 4))),
        "strong": lambda: strongly_convex(rng, x),
        "l1": lambda: l1(rng, x, int(rng.integers(1, 3)), edge),
        "norm": lambda: norm(rng, x),
        "linear": lambda: linear(x),
    }[kind]()


MIXED = [
    ("squares", "l1", "linear"),
    ("squares", "l1", "linear"),
    ("squares", "squares", "l1", "linear"),
    ("l1", "squares", "linear"),
    ("linear", "squares", "l1"),
]


def mixed(seed: int) -> Planted:
    """Number ``seed`` of the mixed chains on a polyhedron in a box."""
    rng = np.random.default_rng([20261117, 3, seed])
    kinds = MIXED[seed % len(MIXED)]
    planter = Planter(rng, int(rng.integers(8, 15)))
    for i in range(len(kinds)):
        for _ in range(int(rng.integers(0, 2))):
            planter.touch("row", 0, i + 1)
    for kind in kinds:
        by_row = bool(rng.random() < 0.6) and kind != "linear"
        planter.level(part_of(rng, kind, planter.x, False), by_row)
    blocks = [*planter.blocks(), planter.idle_rows(), box(len(planter.x), 16.0)]
    problem = Leveled(len(planter.x), planter.levels, blocks, 16.0)
    return Planted(problem, planter.x, planter.values, planter.is_strict, kinds)


LOWER = ["squares", "squares", "l1", "linear", "norm"]
UPPER = ["strong", "squares", "linear", "l1", "norm"]
FLAWS = ["copied row", "idle ray", "idle apex", "edge", "idle row"]


def two_levels(seed: int) -> Planted:
    """Number ``seed`` of the problems on cones; every fourth with a flaw in its multipliers."""
    rng = np.random.default_rng([20261117, 4, seed])
    kinds = (LOWER[seed % 5], UPPER[seed // 5 % 5])
    flaw = FLAWS[seed // 4 % len(FLAWS)] if seed % 4 == 3 else ""
    planter = Planter(rng, int(rng.integers(9, 15)))
    for _ in range(int(rng.integers(0, 3))):
        planter.touch("row", 0, int(rng.integers(1, 3)))
    states: list[State] = ["ray", "ray", "apex", "apex to ray"]
    for _ in range(int(rng.integers(0, 3)) if seed % 6 else 0):
        state = states[rng.integers(4)]
        presses = 1 if state == "apex to ray" else int(rng.integers(1, 3))
        planter.touch(state, int(rng.integers(2, 4)), presses)
    if flaw.startswith("idle"):
        state = {"idle ray": "ray", "idle apex": "apex", "idle row": "row"}[flaw]  # type: ignore[assignment]
        planter.touch(state, 2, 0)
    lower = part_of(rng, kinds[0], planter.x, flaw == "edge")
    if flaw == "copied row" and len(
        lower.fixed
    ):  # on the boundary everywhere, without a multiplier
        planter.pieces.append(Piece("row", lower.fixed[:1].copy(), 0))
    planter.level(lower, by_row=bool(rng.random() < 0.5) and kinds[0] != "linear")
    planter.level(part_of(rng, kinds[1], planter.x, False), by_row=bool(rng.random() < 0.4))
    if flaw == "edge":
        planter.is_strict = False
    n, limit = len(planter.x), rng.random()
    blocks = [*planter.blocks(), planter.idle_rows()]
    reach = np.inf
    if limit < 0.45:
        blocks, reach = [*blocks, box(n, 16.0)], 16.0
    elif limit < 0.65:
        blocks, reach = [*blocks, ball(n, 32.0)], 32.0
    elif limit < 0.95:
        reach = 16.0
    problem = Leveled(n, planter.levels, blocks, reach)
    return Planted(problem, planter.x, planter.values, planter.is_strict, kinds)
