"""Hostile problems with their true answers, in rational or 60-digit arithmetic.

Nothing here is computed by tiebreak. Data are floats of all sizes, read as the rationals that they
are. On polyhedra both levels are quadratic programs with at most three variables, solved exactly by
trying every active set (and every pattern of signs, where there is an l1 norm). On balls the one
multiplier is found to 60 digits. All minimisers of a convex quadratic x'Hx/2 + h'x on Z share Hx
and h'x, which makes the second level a quadratic program too; where that leaves one point, f may be
anything. Losses and norms that are not quadratic have a minimiser by construction.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

import tiebreak as tb

mpmath.mp.dps = 60
F = Fraction
ZERO, ONE = F(0), F(1)
Vector = list[Fraction]
Rows = list[Vector]

DOMAINS = ["Space", "Ball", "Box", "Orthant", "Simplex", "L1Ball", "Monotone", "Halfspace"]
QUADRATIC = ["LeastSquares", "Quadratic", "SquaredNorm", "Scaled", "Sum", "Smooth", "Linear"]
PENALISED = ["L1", "ElasticNet"]
OTHERS = ["Logistic", "L2", "GroupL2"]


# -- rational linear algebra ----------------------------------------------------------------------


def rational(array: Any) -> Any:
    """Floats as the rationals that they are."""
    array = np.asarray(array)
    if array.ndim == 0:
        return F(float(array))
    return [rational(part) for part in array]


def real(value: Any) -> mpmath.mpf:
    """A rational to 60 digits."""
    if isinstance(value, Fraction):
        return mpmath.mpf(value.numerator) / value.denominator
    return mpmath.mpf(value)


def dot(a: Any, b: Any) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True)), F(0))


def apply(M: Rows, x: Any) -> Any:
    return [dot(row, x) for row in M]


def solution(rows: Rows, right: Vector, n: int) -> tuple[Vector, Rows] | None:
    """A solution of rows x = right and a basis of the null space; None where there is none."""
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    pivots: list[int] = []
    for column in range(n):
        k = len(pivots)
        found = next((i for i in range(k, len(table)) if table[i][column] != 0), None)
        if found is None:
            continue
        table[k], table[found] = table[found], table[k]
        scale = table[k][column]
        table[k] = [value / scale for value in table[k]]
        for i, row in enumerate(table):
            if i != k and row[column] != 0:
                factor = row[column]
                table[i] = [a - factor * b for a, b in zip(row, table[k], strict=True)]
        pivots.append(column)
    if any(row[n] != 0 for row in table[len(pivots) :]):
        return None
    x = [F(0)] * n
    for row, column in zip(table, pivots, strict=False):
        x[column] = row[n]
    null = []
    for free in (j for j in range(n) if j not in pivots):
        d = [F(0)] * n
        d[free] = F(1)
        for row, column in zip(table, pivots, strict=False):
            d[column] = -row[free]
        null.append(d)
    return x, null


# -- levels ---------------------------------------------------------------------------------------


@dataclass(eq=False)
class Level:
    """x'Hx/2 + h'x + constant + l1 |x|_1, and whatever else ``more`` says at a point."""

    H: Rows
    h: Vector
    constant: Fraction = ZERO
    l1: Fraction = ZERO
    more: list[Callable[[Vector], mpmath.mpf]] = field(default_factory=list)

    @classmethod
    def squares(cls, A: Any, b: Any, weight: Fraction = ONE) -> Level:
        """weight/2 |Ax - b|²."""
        rows, right, n = rational(A), rational(b), np.asarray(A).shape[1]
        columns = [[row[j] for row in rows] for j in range(n)]
        H = [[weight * dot(p, q) for q in columns] for p in columns]
        h = [-weight * dot(p, right) for p in columns]
        return cls(H, h, weight * dot(right, right) / 2)

    @classmethod
    def nothing(cls, n: int) -> Level:
        return cls([[F(0)] * n for _ in range(n)], [F(0)] * n)

    def plus(self, other: Level, weight: Fraction = ONE) -> Level:
        return Level(
            [
                [a + weight * b for a, b in zip(p, q, strict=True)]
                for p, q in zip(self.H, other.H, strict=True)
            ],
            [a + weight * b for a, b in zip(self.h, other.h, strict=True)],
            self.constant + weight * other.constant,
            self.l1 + weight * other.l1,
            self.more + other.more,
        )

    def at(self, x: Vector) -> mpmath.mpf:
        """The value at a point, of rationals or to 60 digits."""
        smooth = dot(x, apply(self.H, x)) / 2 + dot(self.h, x) + self.constant
        value = real(smooth + self.l1 * sum((abs(t) for t in x), F(0)))
        return value + sum((term(x) for term in self.more), mpmath.mpf(0))

    def size(self, x: Any) -> mpmath.mpf:
        """That of the terms that a value is made of."""
        y = [abs(real(t)) for t in x]
        bent = sum(
            abs(real(t)) * a * b
            for row, a in zip(self.H, y, strict=True)
            for t, b in zip(row, y, strict=True)
        )
        return (
            bent
            + sum(abs(real(s)) * t for s, t in zip(self.h, y, strict=True))
            + abs(real(self.constant))
            + abs(self.at(x))
        )


@dataclass
class Polyhedron:
    """equal x = e, rows x <= d."""

    equal: Rows
    e: Vector
    rows: Rows
    d: Vector

    def and_equal(self, rows: Rows, right: Vector) -> Polyhedron:
        return Polyhedron(self.equal + rows, self.e + right, self.rows, self.d)

    def and_below(self, rows: Rows, right: Vector) -> Polyhedron:
        return Polyhedron(self.equal, self.e, self.rows + rows, self.d + right)


def least(H: Rows, h: Vector, Z: Polyhedron, n: int) -> tuple[Fraction, Vector] | None:
    """The minimum of x'Hx/2 + h'x over Z, which is attained, and a minimiser: every active set."""
    best = None
    for size in range(min(len(Z.rows), n) + 1):
        for active in itertools.combinations(range(len(Z.rows)), size):
            flat = solution(
                Z.equal + [Z.rows[i] for i in active], Z.e + [Z.d[i] for i in active], n
            )
            if flat is None:
                continue
            x, null = flat
            if null:
                bent = [apply(H, d) for d in null]
                reduced = [[dot(d, other) for other in bent] for d in null]
                pull = apply(H, x)
                right = [-(dot(d, pull) + dot(d, h)) for d in null]
                inner = solution(reduced, right, len(null))
                if inner is None:
                    continue
                x = [
                    x[j] + sum((t * d[j] for t, d in zip(inner[0], null, strict=True)), F(0))
                    for j in range(n)
                ]
            if all(dot(row, x) <= bound for row, bound in zip(Z.rows, Z.d, strict=True)):
                value = dot(x, apply(H, x)) / 2 + dot(h, x)
                if best is None or value < best[0]:
                    best = value, x
    return best


def least_level(
    level: Level, Z: Polyhedron, n: int, kept: Level | None = None, at: Vector | None = None
) -> tuple[Fraction, Vector] | None:
    """The same with an l1 norm, over the points of Z where ``kept`` is as it is ``at`` one."""
    best = None
    needs_signs = level.l1 != 0 or (kept is not None and kept.l1 != 0)
    patterns = itertools.product((1, -1), repeat=n) if needs_signs else [(0,) * n]
    for signs in patterns:
        here = Z
        if needs_signs:
            rows = [[F(-s if i == j else 0) for j in range(n)] for i, s in enumerate(signs)]
            here = here.and_below(rows, [F(0)] * n)
        if kept is not None:
            assert at is not None
            total = dot(kept.h, at) + kept.l1 * sum((abs(t) for t in at), F(0))
            slope = [a + kept.l1 * s for a, s in zip(kept.h, signs, strict=True)]
            here = here.and_equal([*kept.H, slope], [*apply(kept.H, at), total])
        slope = [a + level.l1 * s for a, s in zip(level.h, signs, strict=True)]
        found = least(level.H, slope, here, n)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return best


# -- balls, to 60 digits --------------------------------------------------------------------------


def least_in_ball(B: mpmath.matrix, b: Any, radius: mpmath.mpf) -> tuple[Any, bool]:
    """The minimiser of v'Bv/2 + b'v over |v| <= radius next to 0, and whether the ball binds."""
    k = len(b)
    if k == 0 or radius <= 0:
        return [mpmath.mpf(0)] * k, True
    values, Q = mpmath.eigsy(B)
    tiny = mpmath.mpf(10) ** -40
    top = max(abs(value) for value in values)
    size = mpmath.sqrt(sum(t * t for t in b))
    values = [value if value > tiny * top else mpmath.mpf(0) for value in values]
    pull = [sum(Q[i, j] * b[i] for i in range(k)) for j in range(k)]
    pull = [p if abs(p) > tiny * size else mpmath.mpf(0) for p in pull]

    def step(mu: mpmath.mpf) -> list[mpmath.mpf]:
        return [
            -p / (value + mu) if p != 0 else mpmath.mpf(0)
            for p, value in zip(pull, values, strict=True)
        ]

    def length(mu: mpmath.mpf) -> mpmath.mpf:
        return mpmath.sqrt(sum(t * t for t in step(mu)))

    is_bounded = all(value > 0 or p == 0 for p, value in zip(pull, values, strict=True))
    if is_bounded and length(mpmath.mpf(0)) <= radius:
        v, binds = step(mpmath.mpf(0)), False
    else:
        low, high = mpmath.mpf(0), size / radius
        for _ in range(40):  # powers first, for the root may be far smaller than its bound
            if length(high / 2**16) > radius:
                break
            high /= 2**16
        for _ in range(230):
            mu = (low + high) / 2
            low, high = (mu, high) if length(mu) > radius else (low, mu)
        v, binds = step(high), True
    return [sum(Q[i, j] * v[j] for j in range(k)) for i in range(k)], binds


def orthonormal(vectors: Rows) -> list[list[mpmath.mpf]]:
    found: list[list[mpmath.mpf]] = []
    for vector in vectors:
        v = [real(t) for t in vector]
        for _ in range(2):
            for q in found:
                along = sum(a * b for a, b in zip(v, q, strict=True))
                v = [a - along * b for a, b in zip(v, q, strict=True)]
        size = mpmath.sqrt(sum(t * t for t in v))
        found.append([t / size for t in v])
    return found


def ball_answer(
    f: Level, g: Level, center: Vector, radius: Fraction, n: int
) -> tuple[Any, Any, bool]:
    """A minimiser of g and x*, in the ball, and whether it is the only one."""
    c, R = [real(t) for t in center], real(radius)

    def on_slice(level: Level, start: Any, basis: Any, room: Any) -> tuple[Any, bool]:
        pull = [
            sum(real(a) * t for a, t in zip(row, start, strict=True)) + real(s)
            for row, s in zip(level.H, level.h, strict=True)
        ]
        k = len(basis)
        B = mpmath.matrix(k, k)
        for i, j in itertools.product(range(k), repeat=2):
            B[i, j] = sum(
                basis[i][p] * real(level.H[p][q]) * basis[j][q] for p in range(n) for q in range(n)
            )
        b = [sum(p * t for p, t in zip(pull, d, strict=True)) for d in basis]
        v, binds = least_in_ball(B, b, room)
        x = [start[j] + sum(v[i] * basis[i][j] for i in range(k)) for j in range(n)]
        return x, binds

    unit = [[F(int(i == j)) for j in range(n)] for i in range(n)]
    x, binds = on_slice(g, c, orthonormal(unit), R)
    flat = solution(g.H, [F(0)] * n, n)
    assert flat is not None
    if binds or not flat[1]:
        return x, x, True
    basis = orthonormal(flat[1])
    away = [a - b for a, b in zip(x, c, strict=True)]
    for q in basis:  # the point of the slice next to the center
        along = sum(a * b for a, b in zip(away, q, strict=True))
        away = [a - along * b for a, b in zip(away, q, strict=True)]
    room = mpmath.sqrt(R * R - sum(t * t for t in away))
    near = [a + b for a, b in zip(c, away, strict=True)]
    return near, on_slice(f, near, basis, room)[0], False


# -- drawing problems -----------------------------------------------------------------------------


@dataclass
class Hostile:
    """A problem with its truth."""

    problem: Any
    x0: Any
    f: Level
    g: Level
    x_star: Any
    f_star: mpmath.mpf
    g_star: mpmath.mpf
    what: str


class Draw:
    """One problem, drawn piece by piece."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng([14, seed])
        self.kind = DOMAINS[seed % len(DOMAINS)] if rng.random() < 0.8 else "Ball"
        self.dtype = np.float32 if rng.random() < 0.15 else np.float64
        self.n = int(rng.integers(1, 4))
        widest = 4 if self.dtype == np.float32 else 12
        self.X = self.power(widest if rng.random() < 0.3 else 2)
        self.what: list[str] = [f"seed {seed}", self.kind, self.dtype.__name__]

    def power(self, most: float) -> float:
        return float(10.0 ** self.rng.uniform(-most, most))

    def cast(self, array: Any) -> Any:
        return np.asarray(array).astype(self.dtype)

    def point(self) -> Any:
        x = self.rng.standard_normal(self.n)
        if self.rng.random() < 0.3:
            x = np.round(2.0 * x)
        return self.cast(self.X * x)

    def weight(self) -> float:
        widest = 4 if self.dtype == np.float32 else 12
        return self.power(widest) if self.rng.random() < 0.4 else 1.0

    def matrix(self, whole: bool = False) -> Any:
        rng, n, m = self.rng, self.n, int(self.rng.integers(1, 5))
        if rng.random() < 0.35:  # so plain that methods arrive, and rounding is all that is left
            A = np.vstack([np.eye(n), np.zeros((int(rng.integers(0, 3)), n))])
            return self.cast(A * float(rng.choice([1.0, 1000.0])))
        A = rng.integers(-9, 10, (m, n)).astype(float)
        if not whole and rng.random() < 0.5:
            A = rng.standard_normal((m, n))
        kind = rng.random()
        if n > 1 and kind < 0.25:
            A[:, -1] = A[:, 0]
        elif n > 1 and not whole and kind < 0.5:  # nearly
            A[:, -1] = A[:, 0] + 10.0 ** -rng.uniform(3, 15) * rng.standard_normal(m)
        return self.cast(A)

    # -- functions: the object, and what it is

    def squares(self) -> tuple[Any, Level]:
        A = self.matrix()
        b = self.cast(A @ (self.X * self.rng.standard_normal(self.n)))
        if self.rng.random() < 0.5:
            b = self.cast(b + self.X * self.rng.standard_normal(len(b)))
        mean = bool(self.rng.random() < 0.3)
        weight = F(1, len(b)) if mean else F(1)
        if mean:  # what it divides by is a float
            weight = F(1.0 / len(b))
        return tb.LeastSquares(A, b, mean), Level.squares(A, b, weight)

    def squared_norm(self) -> tuple[Any, Level]:
        weight = self.weight()
        eye = np.eye(self.n)
        if self.rng.random() < 0.3:
            return tb.SquaredNorm(weight), Level.squares(eye, np.zeros(self.n), F(weight))
        center = self.point()
        return tb.SquaredNorm(weight, center), Level.squares(eye, center, F(weight))

    def linear(self) -> tuple[Any, Level]:
        c = self.cast(self.rng.standard_normal(self.n) * self.weight())
        level = Level.nothing(self.n)
        level.h = rational(c)
        return tb.Linear(c), level

    def quadratic(self) -> tuple[Any, Level]:
        """Whole numbers, so that Q is semidefinite as it is; c in its range."""
        A = self.matrix(whole=True)
        Q = self.cast(A.T.astype(float) @ A)
        p = self.rng.integers(-9, 10, self.n).astype(float)
        scale = 2.0 ** float(np.round(np.log2(self.X)))
        c, constant = self.cast(-scale * (Q @ p)), float(self.rng.integers(-3, 4))
        level = Level(rational(Q), rational(c), F(constant))
        return tb.Quadratic(Q, c, constant), level

    def smooth(self) -> tuple[Any, Level]:
        """Callables: ½|Ax - b|², or the same multiplied out."""
        A = self.matrix(whole=True).astype(float)
        scale = 2.0 ** float(np.round(np.log2(self.X)))
        b = scale * (A @ self.rng.integers(-9, 10, self.n).astype(float))
        L = float(np.linalg.norm(A) ** 2) * 1.01 if self.rng.random() < 0.5 else None
        level = Level.squares(A, b)
        if self.rng.random() < 0.5:
            h = tb.Smooth(
                lambda x: 0.5 * float((A @ x - b) @ (A @ x - b)), lambda x: A.T @ (A @ x - b), L
            )
        else:
            G, c, d = A.T @ A, A.T @ b, 0.5 * float(b @ b)
            h = tb.Smooth(lambda x: float(0.5 * x @ (G @ x) - c @ x + d), lambda x: G @ x - c, L)
        return h, level

    def quadratic_of(self, kind: str) -> tuple[Any, Level]:
        if kind == "LeastSquares":
            return self.squares()
        if kind == "SquaredNorm":
            return self.squared_norm()
        if kind == "Quadratic":
            return self.quadratic()
        if kind == "Linear":
            return self.linear()
        if kind == "Smooth" and self.dtype == np.float64:
            return self.smooth()
        if kind == "Scaled":
            h, level = self.squares()
            weight = self.weight()
            return weight * h, Level.nothing(self.n).plus(level, F(weight))
        (h, level), (other, more) = self.squares(), self.squared_norm()
        return h + other, level.plus(more)

    def pairs(self) -> tuple[Any, Level, Level]:
        """Logistic losses with both labels for every row: smallest where Ax = 0."""
        A = self.cast(self.matrix() / self.X)
        both = np.vstack([A, A])
        y = self.cast(np.repeat([1.0, -1.0], len(A)))
        level = Level.nothing(self.n)
        level.more = [logistic(both, y)]
        return tb.Logistic(both, y), level, Level.squares(A, np.zeros(len(A)))

    def logistic(self) -> tuple[Any, Level]:
        A = self.cast(self.matrix() / self.X)
        y = self.cast(np.where(self.rng.random(len(A)) < 0.5, 1.0, -1.0))
        level = Level.nothing(self.n)
        level.more = [logistic(A, y)]
        return tb.Logistic(A, y), level

    def norm(self, kind: str, weight: float) -> tuple[Any, Level]:
        level = Level.nothing(self.n)
        groups = [0] * (self.n - 1) + [1] if self.n > 1 else [0]
        if kind == "GroupL2":
            level.more = [lambda x: F_(weight) * grouped(x, groups)]
            return tb.GroupL2(groups, weight), level
        level.more = [lambda x: F_(weight) * grouped(x, [0] * self.n)]
        return tb.L2(weight), level

    # -- domains

    def domain(self, holds_zero: bool) -> tuple[Any, Any]:
        rng, n, X = self.rng, self.n, self.X
        unit = [[F(int(i == j)) for j in range(n)] for i in range(n)]
        minus = [[-t for t in row] for row in unit]
        number = float(self.cast(X * rng.uniform(0.3, 3.0)))
        if self.kind == "Space":
            return tb.Space(), Polyhedron([], [], [], [])
        if self.kind == "Orthant":
            return tb.Orthant(), Polyhedron([], [], minus, [F(0)] * n)
        if self.kind == "Box":
            low, high = np.sort(X * rng.standard_normal((2, n)), axis=0)
            if holds_zero:
                low, high = -np.abs(low), np.abs(high)
            low, high = self.cast(low), self.cast(high)
            box = Polyhedron([], [], unit + minus, rational(high) + rational(-low))
            return tb.Box(low, high), box
        if self.kind == "Simplex":
            return tb.Simplex(number), Polyhedron([[F(1)] * n], [F(number)], minus, [F(0)] * n)
        if self.kind == "L1Ball":
            rows = [[F(s) for s in signs] for signs in itertools.product((1, -1), repeat=n)]
            return tb.L1Ball(number), Polyhedron([], [], rows, [F(number)] * len(rows))
        if self.kind == "Monotone":
            rows = [[F((j == i) - (j == i + 1)) for j in range(n)] for i in range(n - 1)]
            return tb.Monotone(), Polyhedron([], [], rows, [F(0)] * (n - 1))
        if self.kind == "Halfspace":
            normal = self.cast(rng.standard_normal(n) * self.power(3))
            offset = float(self.cast(X * float(np.linalg.norm(normal)) * rng.standard_normal()))
            offset = abs(offset) if holds_zero else offset
            return tb.Halfspace(normal, offset), Polyhedron([], [], [rational(normal)], [F(offset)])
        if holds_zero or rng.random() < 0.3:
            return tb.Ball(number), ([F(0)] * n, F(number))
        # The sphere passes close to where the answers are, however far its center is.
        center = self.cast(
            rng.standard_normal(n)
            * X
            * 10.0 ** rng.uniform(0, 12 if self.dtype == np.float64 else 5)
        )
        radius = float(self.cast(np.linalg.norm(center.astype(float)) + X * rng.uniform(-1, 1)))
        radius = radius if radius > 0.0 else number
        return tb.Ball(radius, center), (rational(center), F(radius))


def F_(weight: float) -> mpmath.mpf:
    return mpmath.mpf(weight)


def logistic(A: Any, y: Any) -> Callable[[Any], mpmath.mpf]:
    """The mean of log(1 + exp(-y <a, x>)); what it divides by is a float."""
    rows, labels, weight = rational(A), rational(y), real(F(1.0 / len(y)))

    def value(x: Any) -> mpmath.mpf:
        margins = [real(label) * real_dot(row, x) for row, label in zip(rows, labels, strict=True)]
        return weight * sum((softplus(-t) for t in margins), mpmath.mpf(0))

    return value


def softplus(t: mpmath.mpf) -> mpmath.mpf:
    return max(t, mpmath.mpf(0)) + mpmath.log1p(mpmath.exp(-abs(t)))


def real_dot(row: Vector, x: Any) -> mpmath.mpf:
    return sum((real(a) * real(t) for a, t in zip(row, x, strict=True)), mpmath.mpf(0))


def grouped(x: Any, groups: list[int]) -> mpmath.mpf:
    squares: dict[int, mpmath.mpf] = {}
    for t, group in zip(x, groups, strict=True):
        squares[group] = squares.get(group, mpmath.mpf(0)) + real(t) ** 2
    return sum((mpmath.sqrt(square) for square in squares.values()), mpmath.mpf(0))


def hostile(seed: int) -> Hostile:
    """Problem number ``seed``."""
    draw = Draw(seed)
    rng, n = draw.rng, draw.n
    is_ball = draw.kind == "Ball"
    is_bounded = draw.kind in ("Ball", "Box", "Simplex", "L1Ball")
    kinds = [k for k in QUADRATIC if is_bounded or k != "Linear"]
    holds_zero = draw.kind != "Simplex"
    extra = [*([] if is_ball else PENALISED), *(OTHERS if holds_zero else [])]
    below = str(rng.choice(kinds) if rng.random() < 0.65 or not extra else rng.choice(extra))
    if below in ("L1", "ElasticNet"):
        draw.n = n = min(n, 2)
    Z, region = draw.domain(holds_zero=below in OTHERS)
    slice_of: Level | None = None  # whose minimisers are those of g, where g is not quadratic
    at: Any = [F(0)] * n
    if below == "Logistic":
        lower, g, slice_of = draw.pairs()
    elif below in ("L2", "GroupL2"):  # heavy enough that 0 is best
        smooth, g = draw.squares()
        steepest = float(np.linalg.norm([float(t) for t in g.h]))
        penalty, more = draw.norm(below, 4.0 * steepest + float(np.finfo(float).tiny))
        lower, g = smooth + penalty, g.plus(more)
        slice_of = Level.squares(np.eye(n), np.zeros(n))
    elif below in PENALISED:
        smooth, g = draw.squares()
        l1 = float(np.max(np.abs([float(t) for t in g.h]))) * rng.uniform(0.01, 1.5) or 1.0
        if below == "L1":
            lower = smooth + tb.L1(l1)
        else:
            l2 = draw.power(3)
            lower = smooth + tb.ElasticNet(l1, l2)
            g = g.plus(Level.squares(np.eye(n), np.zeros(n), F(l2)))
        g.l1 = F(l1)
    else:
        lower, g = draw.quadratic_of(below)
    kept = slice_of or g

    # Where the lower level leaves one point, f may be anything.
    if is_ball:
        center, radius = region
        x_low, _, is_unique = ball_answer(Level.nothing(n), kept, center, radius, n)
    else:
        found = (F(0), at) if slice_of is not None else least_level(g, region, n)
        assert found is not None
        x_low = found[1]
        flat = solution([*region.equal, *kept.H], [F(0)] * (len(region.equal) + n), n)
        assert flat is not None
        is_unique = not flat[1]
    choices = [k for k in kinds if is_bounded or k != "Linear"]
    if not is_ball and n < 3:
        choices += PENALISED
    if is_unique:
        choices += ["Linear", *OTHERS]
    above = str(rng.choice(choices))
    if above == "Logistic":
        upper, f = draw.logistic()
    elif above in ("L2", "GroupL2"):
        upper, f = draw.norm(above, draw.weight())
    elif above in PENALISED:
        l1, l2 = draw.weight(), draw.power(3)
        upper, f = (
            (tb.L1(l1), Level.nothing(n))
            if above == "L1"
            else (tb.ElasticNet(l1, l2), Level.squares(np.eye(n), np.zeros(n), F(l2)))
        )
        f.l1 = F(l1)
    else:
        upper, f = draw.quadratic_of(above)

    if is_unique:
        x_star = x_low
    elif is_ball:
        x_low, x_star, _ = ball_answer(f, kept, center, radius, n)
    else:
        answer = least_level(f, region, n, kept, x_low)
        assert answer is not None
        x_star = answer[1]
    problem = tb.Problem(upper=upper, lower=lower, domain=Z)
    start = rng.random()
    if start < 0.25 and problem.dimension is not None:
        x0 = None
    elif start < 0.4:  # at the answer
        x0 = draw.cast([float(t) for t in x_star])
    else:
        x0 = draw.point() * draw.dtype(
            10.0 ** rng.uniform(0, 16 if draw.dtype == np.float64 else 6)
        )
    what = ", ".join([*draw.what, f"n = {n}", f"{above} over {below}"])
    return Hostile(problem, x0, f, g, x_star, f.at(x_star), g.at(x_star), what)
