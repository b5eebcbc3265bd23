"""Bilevel problems whose answers are planted, not computed.

``planted(seed)`` picks x* first and then builds the problem around it, over every kind of smooth
function and every kind of domain:

- lower level: -grad g(x*) lies in the normal cone N of Z at x*, hence x* minimises g. Every other
  minimiser x has ``rows @ x = rows @ x*`` (g is strictly convex in these images) and
  <grad g(x*), x - x*> = 0;
- upper level: -grad f(x*) = rows' lambda + nu grad g(x*) + (an element of N), hence f(x) >= f(x*)
  for all of those.

Both hold *exactly*, not only up to rounding: the data are small integers times powers of two, the
transcendental functions are met only where their slopes are rational (softplus at 0), and wherever
a number is not representable the builder fails. So f* = f(x*) and g* = g(x*) are computed in
rational arithmetic and rounded once.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
LOG2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009493")

DOMAINS = ["Space", "Ball", "Box", "Orthant", "Simplex", "L1Ball", "Monotone", "Halfspace"]
LOWER = [
    "consistent",
    "inconsistent",
    "active",
    "Logistic",
    "Quadratic",
    "SquaredNorm",
    "Linear",
    "LeastSquares+Linear",
    "Logistic+Linear",
    "Softplus+Linear",
    "Huber+Linear",
    "LogSumExp+Linear",
    "sum",
]
UPPER = [
    "SquaredNorm",
    "LeastSquares",
    "Quadratic",
    "Linear",
    "Logistic+Linear",
    "Softplus+Linear",
    "Huber+Linear",
    "LogSumExp+Linear",
    "LeastSquares+Linear",
    "sum",
    "at rest",
]


# --- exact arithmetic --------------------------------------------------------------------------


def fractions(x: Any) -> list[Fraction]:
    return [Fraction(float(t)) for t in x]


def dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((s * t for s, t in zip(a, b, strict=True) if s and t), Fraction(0))


def floats(x: list[Fraction]) -> Vector:
    """The same numbers as floats; fails if one of them is not representable."""
    result = [float(t) for t in x]
    if any(Fraction(r) != t for r, t in zip(result, x, strict=True)):
        raise ArithmeticError(f"not representable: {x}")
    return np.array(result, dtype=np.float64)


def null_space(rows: Matrix) -> list[list[Fraction]]:
    """A basis of {d: rows @ d = 0}, by elimination in rational arithmetic."""
    n = rows.shape[1]
    pivots: list[tuple[int, list[Fraction]]] = []
    for raw in rows:
        row = fractions(raw)
        for column, pivot in pivots:
            if row[column]:
                row = [s - row[column] * t for s, t in zip(row, pivot, strict=True)]
        column = next((j for j, t in enumerate(row) if t), n)
        if column < n:
            row = [t / row[column] for t in row]
            pivots = [
                (c, [s - p[column] * t for s, t in zip(p, row, strict=True)]) for c, p in pivots
            ]
            pivots.append((column, row))
    basis = []
    for free in sorted(set(range(n)) - {column for column, _ in pivots}):
        d = [Fraction(int(j == free)) for j in range(n)]
        for column, pivot in pivots:
            d[column] = -pivot[free]
        basis.append(d)
    return basis


# --- functions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """One function of the library, with a plain numpy version and an exact one.

    ``exact(x)`` = value, gradient and sum of the absolute terms (softplus and its kin only where
    all their arguments are 0); ``rows``: integer rows; h is strictly convex in their images at x*.
    """

    value: Callable[[Vector], float]
    gradient: Callable[[Vector], Vector]
    exact: Callable[[list[Fraction]], tuple[Fraction, list[Fraction], Fraction]]
    lipschitz: float
    rows: Matrix
    build: Callable[[Any], Any]  # of the library ``tiebreak``
    conic: Callable[[Any, Any], Any]  # of the module cvxpy and a variable
    unit: float = 1.0  # the gradient at x* is a small multiple of it


@dataclass(frozen=True)
class Function:
    """weight · sum of (weight, term)."""

    parts: list[tuple[float, Term]]
    weight: float = 1.0

    def value(self, x: Vector) -> float:
        return self.weight * math.fsum(w * term.value(x) for w, term in self.parts)

    def gradient(self, x: Vector) -> Vector:
        total = np.sum([w * term.gradient(x) for w, term in self.parts], axis=0)
        return np.asarray(self.weight * total)

    def exact(self, x: Vector) -> tuple[Fraction, list[Fraction], Fraction]:
        p, outer = fractions(x), Fraction(self.weight)
        found = [(outer * Fraction(w), term.exact(p)) for w, term in self.parts]
        gradient = [
            sum((w * grad[j] for w, (_, grad, _) in found), Fraction(0)) for j in range(len(p))
        ]
        value = sum((w * v for w, (v, _, _) in found), Fraction(0))
        return value, gradient, sum((w * scale for w, (_, _, scale) in found), Fraction(0))

    @property
    def lipschitz(self) -> float:
        return self.weight * math.fsum(w * term.lipschitz for w, term in self.parts)

    @property
    def rows(self) -> Matrix:
        return np.vstack([term.rows for _, term in self.parts])

    def build(self, tb: Any) -> Any:
        built = [term.build(tb) if w == 1 else w * term.build(tb) for w, term in self.parts]
        total = built[0]
        for other in built[1:]:
            total = total + other
        return total if self.weight == 1 else self.weight * total

    def conic(self, cp: Any, x: Any) -> Any:
        """Without the outer weight: a conic solver wants numbers near 1."""
        return sum(w * term.conic(cp, x) for w, term in self.parts)


def _sigmoid(t: Vector) -> Vector:
    return np.asarray(np.exp(-np.logaddexp(0.0, -t)))


def _huber(t: Vector) -> Vector:
    return np.where(np.abs(t) <= 1, t * t / 2, np.abs(t) - 0.5)


def _softplus_exact(t: Fraction) -> tuple[Fraction, Fraction]:
    if t:
        raise ArithmeticError("softplus is exact at 0 only")
    return LOG2, Fraction(1, 2)


def _huber_exact(t: Fraction) -> tuple[Fraction, Fraction]:
    return (t * t / 2, t) if abs(t) <= 1 else (abs(t) - Fraction(1, 2), Fraction(t > 0) * 2 - 1)


def _square_exact(t: Fraction) -> tuple[Fraction, Fraction]:
    return t * t / 2, t


Loss = tuple[
    Callable[[Vector], Vector],
    Callable[[Vector], Vector],
    Callable[[Fraction], tuple[Fraction, Fraction]],
    float,
]
SQUARE: Loss = (lambda t: t * t / 2, lambda t: t, _square_exact, 1.0)
HUBER: Loss = (_huber, lambda t: np.clip(t, -1, 1), _huber_exact, 1.0)
SOFTPLUS: Loss = (lambda t: np.logaddexp(0.0, t), _sigmoid, _softplus_exact, 0.25)


def _norm_squared(A: Matrix) -> float:
    return float(np.linalg.norm(A, 2)) ** 2 if A.size else 0.0


def _fit(
    loss: Loss,
    A: Matrix,
    b: Vector,
    integer: Matrix,
    unit: float,
    build: Callable[[Any], Any],
    conic: Callable[[Any, Any], Any],
    share: float = 1.0,
) -> Term:
    """share · sum of loss(a_i'x - b_i); ``share`` is 1/m for a mean."""
    phi, slope, exact_loss, curvature = loss
    A_exact, b_exact = [fractions(row) for row in A], fractions(b)

    def exact(x: list[Fraction]) -> tuple[Fraction, list[Fraction], Fraction]:
        value, gradient, scale = Fraction(0), [Fraction(0)] * len(x), Fraction(0)
        for row, offset in zip(A_exact, b_exact, strict=True):
            v, s = exact_loss(dot(row, x) - offset)
            size = dot([abs(t) for t in row], [abs(t) for t in x]) + abs(offset)
            value += v
            gradient = [p + s * q for p, q in zip(gradient, row, strict=True)]
            scale += abs(v) + abs(s) * size + Fraction(EPS) * size * size
        w = Fraction(share)
        return w * value, [w * t for t in gradient], w * scale

    return Term(
        value=lambda x: share * math.fsum(phi(A @ x - b)),
        gradient=lambda x: np.asarray(share * (A.T @ slope(A @ x - b))),
        exact=exact,
        lipschitz=share * curvature * _norm_squared(A),
        rows=integer,
        build=build,
        conic=conic,
        unit=unit,
    )


def least_squares(integer: Matrix, scale: float, b: Vector, unit: float, mean: bool) -> Term:
    A = scale * integer
    share = 1 / len(b) if mean else 1.0
    return _fit(
        SQUARE,
        A,
        b,
        integer,
        unit * share,
        lambda tb: tb.LeastSquares(A, b, mean=mean),
        lambda cp, x: share / 2 * cp.sum_squares(A @ x - b),
        share,
    )


def logistic(integer: Matrix, scale: float, y: Vector, mean: bool) -> Term:
    """Rows orthogonal to x*, so that every margin is 0 there."""
    A = scale * integer
    share = 1 / len(y) if mean else 1.0
    return _fit(
        SOFTPLUS,
        -y[:, None] * A,
        0 * y,
        integer,
        scale * share / 2,
        lambda tb: tb.Logistic(A, y, mean=mean),
        lambda cp, x: share * cp.sum(cp.logistic(-cp.multiply(y, A @ x))),
        share,
    )


def _smooth(tb: Any, term: Term, lower_bound: float | None) -> Any:
    known = {} if lower_bound is None else {"lower_bound": lower_bound}
    return tb.Smooth(term.value, term.gradient, lipschitz=term.lipschitz, **known)


def softplus(integer: Matrix, scale: float, x_star: Vector, bounded: bool) -> Term:
    """sum log(1 + exp(a_i'(x - x*))), as plain callables."""
    A = scale * integer
    b = A @ x_star
    term = _fit(
        SOFTPLUS,
        A,
        b,
        integer,
        scale / 2,
        lambda tb: _smooth(tb, term, 0.0 if bounded else None),
        lambda cp, x: cp.sum(cp.logistic(A @ x - b)),
    )
    return term


def huber(integer: Matrix, scale: float, b: Vector, x_star: Vector, bounded: bool) -> Term:
    """sum of Huber's function, as plain callables; strictly convex where the residual is < 1."""
    A = scale * integer
    term = _fit(
        HUBER,
        A,
        b,
        integer[np.abs(A @ x_star - b) < 1],
        scale / 4,
        lambda tb: _smooth(tb, term, 0.0 if bounded else None),
        lambda cp, x: cp.sum(cp.huber(A @ x - b, 1.0)) / 2,
    )
    return term


def log_sum_exp(integer: Matrix, scale: float, x_star: Vector) -> Term:
    """log sum exp(a_i'(x - x*)) with 2^j rows, as plain callables."""
    A, m = scale * integer, len(integer)
    b = A @ x_star
    A_exact = [fractions(row) for row in A]
    mean = [sum(column, Fraction(0)) / m for column in zip(*A_exact, strict=True)]

    def value(x: Vector) -> float:
        return float(np.logaddexp.reduce(A @ x - b))

    def gradient(x: Vector) -> Vector:
        t = A @ x - b
        return np.asarray(A.T @ np.exp(t - np.logaddexp.reduce(t)))

    def exact(x: list[Fraction]) -> tuple[Fraction, list[Fraction], Fraction]:
        shift, *others = [dot(r, x) - t for r, t in zip(A_exact, fractions(b), strict=True)]
        if any(t != shift for t in others):
            raise ArithmeticError("log-sum-exp is exact only where its arguments are equal")
        size = sum(dot([abs(t) for t in row], [abs(t) for t in x]) for row in A_exact)
        return shift + LOG2 * (m.bit_length() - 1), mean, LOG2 * m + 2 * size

    term = Term(
        value=value,
        gradient=gradient,
        exact=exact,
        lipschitz=_norm_squared(A) / 2,
        rows=integer[1:] - integer[0],
        build=lambda tb: _smooth(tb, term, None),
        conic=lambda cp, x: cp.log_sum_exp(A @ x - b),
        unit=scale / m,
    )
    return term


def quadratic(integer: Matrix, scale: float, c: Vector, constant: float) -> Term:
    """½|Bx|² + c'x + constant, given to the library as Q = B'B."""
    B = scale * integer
    Q = B.T @ B
    Q_exact, c_exact = [fractions(row) for row in Q], fractions(c)

    def exact(x: list[Fraction]) -> tuple[Fraction, list[Fraction], Fraction]:
        image = [dot(row, x) for row in Q_exact]
        value = dot(x, image) / 2 + dot(c_exact, x) + Fraction(constant)
        size = [abs(t) for t in x]
        scale = dot(size, [dot([abs(q) for q in row], size) for row in Q_exact])
        scale += dot([abs(t) for t in c_exact], size) + abs(Fraction(constant))
        return value, [s + t for s, t in zip(image, c_exact, strict=True)], scale

    return Term(
        value=lambda x: float(x @ (Q @ x) / 2 + c @ x + constant),
        gradient=lambda x: Q @ x + c,
        exact=exact,
        lipschitz=_norm_squared(B),
        rows=integer,
        build=lambda tb: tb.Quadratic(Q, c=c, constant=constant),
        conic=lambda cp, x: cp.sum_squares(B @ x) / 2 + c @ x + constant,
    )


def squared_norm(weight: float, center: Vector) -> Term:
    c, w = fractions(center), Fraction(weight)

    def exact(x: list[Fraction]) -> tuple[Fraction, list[Fraction], Fraction]:
        gradient = [w * (s - t) for s, t in zip(x, c, strict=True)]
        scale = sum(
            (abs(g) * (abs(s) + abs(t)) for g, s, t in zip(gradient, x, c, strict=True)),
            Fraction(0),
        )
        scale += Fraction(EPS) * w * (dot(x, x) + dot(c, c))
        return sum((g * g for g in gradient), Fraction(0)) / (2 * w), gradient, scale

    return Term(
        value=lambda x: float(weight / 2 * ((x - center) @ (x - center))),
        gradient=lambda x: weight * (x - center),
        exact=exact,
        lipschitz=weight,
        rows=np.eye(len(center)),
        build=lambda tb: tb.SquaredNorm(weight, center=center if center.any() else None),
        conic=lambda cp, x: weight / 2 * cp.sum_squares(x - center),
    )


def linear(c: Vector) -> Term:
    slope = fractions(c)
    return Term(
        value=lambda x: float(c @ x),
        gradient=lambda x: c.copy(),
        exact=lambda x: (dot(slope, x), slope, dot([abs(t) for t in slope], [abs(t) for t in x])),
        lipschitz=0.0,
        rows=np.zeros((0, len(c))),
        build=lambda tb: tb.Linear(c),
        conic=lambda cp, x: c @ x,
    )


# --- domains -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Region:
    """A domain Z, seen from x*: ``normal(rng)`` draws an integer vector of the normal cone N."""

    kind: str
    x_star: Vector
    project: Callable[[Vector], Vector]  # slow and obvious
    contains: Callable[[list[Fraction]], bool]  # exact
    normal: Callable[[np.random.Generator], Vector]
    sample: Callable[[np.random.Generator], Vector]
    build: Callable[[Any], Any]
    conic: Callable[[Any, Any], list[Any]]
    active: Matrix  # normals of the constraints that hold with equality at x*
    hull: Matrix | None  # normals of Z's affine hull if x* is in its relative interior, else None


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """A root of a non-increasing function, by bisection to the last bit."""
    for _ in range(2000):
        middle = low + (high - low) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return high


def project_simplex(v: Vector, total: float) -> Vector:
    low, high = float(v.min()) - total, float(v.max())
    tau = _root(lambda t: math.fsum(np.maximum(v - t, 0)) - total, low, high)
    return np.maximum(v - tau, 0)


def project_monotone(v: Vector) -> Vector:
    """The min-max formula: max over a <= i of min over b >= i of the mean of v[a..b]."""
    n = len(v)
    sums = np.concatenate([[0.0], np.cumsum(v)])
    return np.array(
        [
            max(
                min((sums[b + 1] - sums[a]) / (b + 1 - a) for b in range(i, n))
                for a in range(i + 1)
            )
            for i in range(n)
        ]
    )


def _nonzero(rng: np.random.Generator, low: int, high: int, n: int) -> Vector:
    while not (x := rng.integers(low, high + 1, n).astype(float)).any():
        pass
    return x


def _pythagorean(rng: np.random.Generator, n: int) -> tuple[Vector, int]:
    """An integer vector whose Euclidean norm is an integer, and that norm."""
    v = rng.integers(-1, 2, n)
    v[0] = 0
    s = int(v @ v)
    if s % 4 == 2:  # a square cannot differ from a square by that: make it odd
        v[1 + int(np.flatnonzero(v[1:])[0])] *= 2
        s = int(v @ v)
    t, m = ((s - 1) // 2, (s + 1) // 2) if s % 2 else (s // 4 - 1, s // 4 + 1)
    v[0] = t * int(rng.choice([-1, 1]))
    assert int(v @ v) == m * m
    return rng.permutation(v).astype(float), m


def region(kind: str, rng: np.random.Generator, n: int, X: float, boundary: bool) -> Region:
    """A domain of that kind with an x* (integers times ``X``) on its boundary or not."""
    empty = np.zeros((0, n))

    def gaussian(rng: np.random.Generator) -> Vector:
        return 3 * X * rng.standard_normal(n)

    def none(rng: np.random.Generator) -> Vector:
        return np.zeros(n)

    if kind == "Space":
        return Region(
            kind,
            X * rng.integers(-3, 4, n),
            project=lambda v: v.copy(),
            contains=lambda x: True,
            normal=none,
            sample=gaussian,
            build=lambda tb: tb.Space(),
            conic=lambda cp, x: [],
            active=empty,
            hull=empty,
        )

    if kind == "Ball":
        v, m = _pythagorean(rng, n)
        center = X * rng.integers(-2, 3, n) * int(rng.integers(2))
        radius = X * (m if boundary else m + int(rng.integers(1, 4)))

        def into_ball(p: Vector) -> Vector:
            distance = float(np.linalg.norm(p - center))
            return p if distance <= radius else center + radius / distance * (p - center)

        def in_ball(p: list[Fraction]) -> bool:
            d = [s - t for s, t in zip(p, fractions(center), strict=True)]
            return dot(d, d) <= Fraction(radius) ** 2

        def in_the_ball(rng: np.random.Generator) -> Vector:
            d = rng.standard_normal(n)
            return center + radius * rng.uniform(0, 0.999) / np.linalg.norm(d) * d

        return Region(
            kind,
            center + X * v,
            project=into_ball,
            contains=in_ball,
            normal=(lambda rng: int(rng.integers(0, 3)) * v) if boundary else none,
            sample=in_the_ball,
            build=lambda tb: tb.Ball(radius, center=center if center.any() else None),
            conic=lambda cp, x: [cp.norm(x - center) <= radius],
            active=v[None] if boundary else empty,
            hull=None if boundary else empty,
        )

    if kind == "Box":
        x = rng.integers(-2, 3, n)
        side = rng.choice([-1, 0, 1, 2], n, p=[0.3, 0.35, 0.3, 0.05]) if boundary else 0 * x
        if boundary and rng.random() < 0.2:  # the same bounds for all
            low_int, high_int = np.full(n, int(x.min())), np.full(n, int(x.max()) + 1)
            side = np.where(x == low_int, -1, 0)
        else:
            low_int = x - np.where(np.isin(side, [-1, 2]), 0, rng.integers(1, 4, n))
            high_int = x + np.where(np.isin(side, [1, 2]), 0, rng.integers(1, 4, n))
        low, high = X * low_int, X * high_int
        signs = np.where(side == 2, rng.choice([-1, 1], n), side)
        same = np.ptp(low) == 0 and np.ptp(high) == 0
        bounds = (float(low[0]), float(high[0])) if same and rng.random() < 0.5 else (low, high)
        hull = np.eye(n)[side == 2]
        return Region(
            kind,
            X * x,
            project=lambda v: np.clip(v, low, high),
            contains=lambda p: all(
                Fraction(a) <= t <= Fraction(b) for a, t, b in zip(low, p, high, strict=True)
            ),
            normal=lambda rng: (signs * rng.integers(0, 4, n)).astype(float),
            sample=lambda rng: np.clip(low + rng.uniform(0, 1, n) * (high - low), low, high),
            build=lambda tb: tb.Box(*bounds),
            conic=lambda cp, x: [x >= low, x <= high],
            active=np.eye(n)[side != 0],
            hull=None if np.isin(side, [-1, 1]).any() else hull,
        )

    if kind in ("Orthant", "Simplex"):
        x = rng.integers(0, 4, n) * (rng.random(n) < 0.6) if boundary else rng.integers(1, 4, n)
        if kind == "Simplex" and not x.any():
            x[int(rng.integers(n))] = int(rng.integers(1, 4))
        total = X * int(x.sum())
        zero = x == 0
        free = kind == "Simplex"
        ones = np.ones((1, n))

        def cone(rng: np.random.Generator) -> Vector:
            lift = int(rng.integers(-2, 3)) if free else 0
            return (lift - zero * rng.integers(0, 4, n)).astype(float)

        def parts(rng: np.random.Generator) -> Vector:
            if not free:
                return np.abs(gaussian(rng)) * (rng.random(n) < 0.8)
            return X * np.bincount(rng.integers(0, n, int(x.sum())), minlength=n)

        def is_in(p: list[Fraction]) -> bool:
            return min(p) >= 0 and (not free or sum(p) == Fraction(total))

        return Region(
            kind,
            X * x,
            project=(lambda v: project_simplex(v, total))
            if free
            else (lambda v: np.maximum(v, 0.0)),
            contains=is_in,
            normal=cone,
            sample=parts,
            build=lambda tb: tb.Simplex(total) if free else tb.Orthant(),
            conic=lambda cp, x: [x >= 0] + ([cp.sum(x) == total] if free else []),
            active=np.vstack([ones[: int(free)], np.eye(n)[zero]]),
            hull=None if zero.any() else ones[: int(free)],
        )

    if kind == "L1Ball":
        x = rng.integers(-3, 4, n) * (rng.random(n) < 0.6)
        boundary = boundary and bool(x.any())
        radius = X * (int(np.abs(x).sum()) + (0 if boundary else int(rng.integers(1, 4))))

        def into_cross(v: Vector) -> Vector:
            if math.fsum(np.abs(v)) <= radius:
                return v.copy()
            return np.sign(v) * project_simplex(np.abs(v), radius)

        def cross_cone(rng: np.random.Generator) -> Vector:
            tau = int(rng.integers(0, 4))
            return np.where(x == 0, rng.integers(-tau, tau + 1, n), tau * np.sign(x)).astype(float)

        def in_the_cross(rng: np.random.Generator) -> Vector:
            d = rng.standard_normal(n)
            return radius * rng.uniform(0, 0.999) / np.abs(d).sum() * d

        return Region(
            kind,
            X * x,
            project=into_cross,
            contains=lambda p: sum(abs(t) for t in p) <= Fraction(radius),
            normal=cross_cone if boundary else none,
            sample=in_the_cross,
            build=lambda tb: tb.L1Ball(radius),
            conic=lambda cp, x: [cp.norm1(x) <= radius],
            active=np.vstack([np.sign(x), np.eye(n)[x == 0]]) if boundary else empty,
            hull=None if boundary else empty,
        )

    if kind == "Monotone":
        x = np.sort(rng.integers(-3, 4, n)) if boundary else np.cumsum(rng.integers(1, 3, n)) - n
        steps = np.eye(n)[:-1] - np.eye(n)[1:]
        ties = steps[np.diff(x) == 0]
        return Region(
            kind,
            X * x,
            project=project_monotone,
            contains=lambda p: all(s <= t for s, t in itertools.pairwise(p)),
            normal=lambda rng: rng.integers(0, 4, len(ties)) @ ties,
            sample=lambda rng: np.sort(gaussian(rng)),
            build=lambda tb: tb.Monotone(),
            conic=lambda cp, x: [cp.diff(x) >= 0] if n > 1 else [],
            active=ties,
            hull=None if len(ties) else empty,
        )

    if kind == "Halfspace":
        x = X * rng.integers(-3, 4, n)
        direction = _nonzero(rng, -2, 2, n)
        normal = 2.0 ** int(rng.integers(-5, 6)) * direction
        offset = float(normal @ x)
        offset += 0.0 if boundary else X * float(np.abs(normal).max()) * int(rng.integers(1, 4))

        def into_half(v: Vector) -> Vector:
            excess = max(float(normal @ v) - offset, 0.0)
            return v - excess / float(normal @ normal) * normal

        return Region(
            kind,
            x,
            project=into_half,
            contains=lambda p: dot(fractions(normal), p) <= Fraction(offset),
            normal=(lambda rng: int(rng.integers(0, 4)) * direction) if boundary else none,
            sample=lambda rng: into_half(gaussian(rng)) - X * rng.uniform(0.01, 2) * direction,
            build=lambda tb: tb.Halfspace(normal, offset),
            conic=lambda cp, x: [normal @ x <= offset],
            active=direction[None] if boundary else empty,
            hull=None if boundary else empty,
        )

    raise ValueError(f"unknown domain {kind}")


# --- the builder -------------------------------------------------------------------------------


def _matrix(rng: np.random.Generator, m: int, n: int) -> Matrix:
    """Small integers, so that the rank is exact; now and then degenerate in the usual ways."""
    A = rng.integers(-3, 4, (m, n)) * (rng.random((m, n)) < rng.choice([0.3, 1.0]))
    trick = rng.random(5) < 0.15
    if trick[0]:
        A[int(rng.integers(m))] = 0
    if trick[1]:
        A[:, int(rng.integers(n))] = 0
    if trick[2]:
        A[:, int(rng.integers(n))] = 1
    if trick[3]:
        A[:, int(rng.integers(n))] = A[:, int(rng.integers(n))]
    if trick[4]:
        A[int(rng.integers(m))] = A[int(rng.integers(m))]
    if not A.any():
        A[0, int(rng.integers(n))] = 1
    return A.astype(float)


def _orthogonal(rng: np.random.Generator, m: int, x: Vector) -> Matrix:
    """Integer rows orthogonal to the integer vector x (all zero only if n = 1 and x is not 0)."""
    n, rows = len(x), np.zeros((m, len(x)))
    for row in rows:
        for _ in range(2):
            i, j = (int(t) for t in rng.integers(0, n, 2))
            if x[i] == 0:
                row[i] += int(rng.integers(-2, 3))
            elif i != j:
                row[i] += x[j]
                row[j] -= x[i]
    return rows


def _term(
    kind: str, rng: np.random.Generator, x: Vector, X: float, m: int | None = None
) -> Term | None:
    """A term whose gradient at x* is whatever it is; None where there is no such term."""
    n = len(x)
    m = int(rng.integers(1, max(2, n))) if m is None else m
    scale = 2.0 ** int(rng.integers(-6, 7))
    near = 2.0 ** int(rng.integers(-2, 2)) / X  # arguments of order 1
    if kind == "LeastSquares":
        mean = bool(rng.integers(2)) and m & (m - 1) == 0
        A = _matrix(rng, m, n)
        unit = scale * X
        b = scale * A @ x - unit * rng.integers(-2, 3, m)
        return least_squares(A, scale, b, scale * unit, mean)
    if kind == "Logistic":
        m = 2 ** int(rng.integers(0, 4))
        A = _orthogonal(rng, m, x / X)
        if not A.any():
            return None
        return logistic(A, near, rng.choice([-1.0, 1.0], m), bool(rng.integers(2)))
    if kind == "Softplus":
        return softplus(_matrix(rng, m, n), near, x, bool(rng.integers(2)))
    if kind == "Huber":
        A = _matrix(rng, m, n)
        r = rng.choice([-6, -5, -3, -2, -1, 0, 1, 2, 3, 5, 6], m) / 4  # on both pieces, not between
        return huber(A, near, near * A @ x - r, x, bool(rng.integers(2)))
    if kind == "LogSumExp":
        return log_sum_exp(_matrix(rng, 2 ** int(rng.integers(0, 4)), n), near, x)
    raise ValueError(f"unknown kind {kind}")


def _corrected(terms: list[Term], rng: np.random.Generator, x: Vector, t: Vector) -> Function:
    """The terms plus the linear function that makes -(gradient at x*) a positive multiple of t."""
    target = 2.0 ** int(rng.integers(-2, 3)) * max(term.unit for term in terms)
    weights = [1.0] + [2.0 ** int(rng.integers(-3, 4)) for _ in terms[1:]]
    parts = list(zip(weights, terms, strict=True))
    gradient = Function(parts).exact(x)[1]
    c = floats([-g - Fraction(target) * s for g, s in zip(gradient, fractions(t), strict=True)])
    return Function([*parts, (1.0, linear(c))] if c.any() else parts)


def _lower(
    kind: str, rng: np.random.Generator, x: Vector, X: float, normal: Vector
) -> tuple[str, Function]:
    """A function whose gradient at x is minus a positive multiple of ``normal``."""
    n = len(x)
    m = int(rng.integers(1, max(2, n)))
    scale = 2.0 ** int(rng.integers(-6, 7))
    A = _matrix(rng, m, n)
    if kind in ("consistent", "inconsistent", "active"):
        r = np.zeros(m)
        if kind != "consistent":  # residuals orthogonal to the columns
            A, r = np.vstack([A, A]), rng.integers(-2, 3, m).astype(float)
            r = np.concatenate([r, -r])
        if kind == "active" and normal.any():
            A, r = np.vstack([A, -normal]), np.append(r, 1.0)
        order = rng.permutation(len(r))
        A, r = A[order], r[order]
        b = scale * A @ x - scale * X * r
        return kind, Function([(1.0, least_squares(A, scale, b, 1.0, bool(rng.integers(2))))])
    if kind == "Logistic":  # symmetric data: each row with both labels
        rows = _orthogonal(rng, m, x / X)
        if rows.any() and not normal.any():
            y = np.concatenate([np.ones(m), -np.ones(m)])
            near = 2.0 ** int(rng.integers(-2, 2)) / X
            return kind, Function([(1.0, logistic(np.vstack([rows, rows]), near, y, True))])
        kind = "Logistic+Linear"
    if kind == "SquaredNorm":
        return kind, Function([(1.0, squared_norm(scale, x + X * normal))])
    if kind == "Linear" and normal.any():
        return kind, Function([(1.0, linear(scale * normal * -1))])
    if kind in ("Quadratic", "Linear"):
        Q = scale**2 * (A.T @ A)
        c = -Q @ x - scale**2 * X * normal
        return "Quadratic", Function([(1.0, quadratic(A, scale, c, scale * X * 3))])
    return _with_linear(kind, rng, x, X, normal)


def _upper(
    kind: str, rng: np.random.Generator, x: Vector, X: float, t: Vector
) -> tuple[str, Function]:
    """A function whose gradient at x is minus a positive multiple of ``t``."""
    n = len(x)
    m = int(rng.integers(1, max(2, n)))
    scale = 2.0 ** int(rng.integers(-6, 7))
    if kind == "at rest":  # x* minimises f over the whole space
        t = 0 * t
        kind = str(rng.choice(["SquaredNorm", "LeastSquares", "Quadratic", "Huber+Linear"]))
    if kind == "Linear" and t.any():
        return kind, Function([(1.0, linear(-scale * t))])
    if kind in ("SquaredNorm", "Linear"):
        return "SquaredNorm", Function([(1.0, squared_norm(scale, x + X / 2 * t))])
    A = _matrix(rng, m, n)
    if kind == "LeastSquares":
        A, r = np.vstack([A, -t]), np.append(np.zeros(m), 1.0)
        b = scale * A @ x - scale * X * r
        return kind, Function([(1.0, least_squares(A, scale, b, 1.0, bool(rng.integers(2))))])
    if kind == "Quadratic":
        c = -(scale**2) * (A.T @ A) @ x - scale**2 * X * t
        return kind, Function([(1.0, quadratic(A, scale, c, -scale * X))])
    return _with_linear(kind, rng, x, X, t)


def _with_linear(
    kind: str, rng: np.random.Generator, x: Vector, X: float, t: Vector
) -> tuple[str, Function]:
    kinds = ["Softplus", "Huber", "LeastSquares", "Logistic"]
    names = list(rng.permutation(kinds)[:2]) if kind == "sum" else [kind.removesuffix("+Linear")]
    found = [_term(name, rng, x, X) for name in names]
    if None in found:  # no logistic rows: all of them would be zero
        kind, found = "Softplus+Linear", [_term("Softplus", rng, x, X)]
    return kind, _corrected([term for term in found if term is not None], rng, x, t)


@dataclass(frozen=True)
class Planted:
    """A bilevel problem with its answer. ``f``, ``grad_f``, ``g``, ``grad_g`` are plain numpy.

    ``f_scale``, ``g_scale``: the sum of the absolute terms in the evaluation of f* and g*, plus
    |gradient|·|x*|: a float computation may be off by a few eps of it, and by no more.
    ``rows``: all lower-level minimisers x have ``rows @ x == rows @ x_star`` and
    <grad g(x*), x - x*> = 0. ``dimension`` of the solution set of the lower level, None where it is
    not known. ``L_f``, ``L_g``: valid Lipschitz constants (the smallest ones, up to rounding, if
    there is only one least-squares, quadratic, norm or linear term).
    """

    seed: int
    kind: str
    upper: Function = field(repr=False)
    lower: Function = field(repr=False)
    region: Region = field(repr=False)
    x_star: Vector
    f_star: float
    g_star: float
    f_scale: float
    g_scale: float
    x0: Vector
    rows: Matrix = field(repr=False)
    normal: Vector = field(repr=False)  # a positive multiple of -grad g(x*)
    dimension: int | None
    unit: float  # x* is this times integers

    @property
    def n(self) -> int:
        return len(self.x_star)

    @property
    def f(self) -> Callable[[Vector], float]:
        return self.upper.value

    @property
    def grad_f(self) -> Callable[[Vector], Vector]:
        return self.upper.gradient

    @property
    def g(self) -> Callable[[Vector], float]:
        return self.lower.value

    @property
    def grad_g(self) -> Callable[[Vector], Vector]:
        return self.lower.gradient

    @property
    def L_f(self) -> float:
        return self.upper.lipschitz

    @property
    def L_g(self) -> float:
        return self.lower.lipschitz

    def problem(self, **kwargs: Any) -> Any:
        """The same problem in the library's words."""
        import tiebreak as tb

        return tb.Problem(
            upper=self.upper.build(tb),
            lower=self.lower.build(tb),
            domain=self.region.build(tb),
            **kwargs,
        )


def kinds(seed: int) -> tuple[str, str, str]:
    """Upper, lower and domain: each 8 seeds have all domains, each 8·13 all lower kinds with all
    domains, each 8·13·11 all upper kinds with all of those."""
    block = seed // len(DOMAINS)
    upper = UPPER[(block // len(LOWER) + 2 * block + seed) % len(UPPER)]
    return upper, LOWER[(block + seed) % len(LOWER)], DOMAINS[seed % len(DOMAINS)]


@functools.lru_cache(maxsize=512)  # one process makes each once
def planted(seed: int) -> Planted:
    """Problem number ``seed``, of the ``kinds(seed)`` (up to the few that cannot be: a linear lower
    level without a normal to push along, logistic rows in one variable)."""
    rng = np.random.default_rng([20240208, seed])
    upper_kind, lower_kind, domain = kinds(seed)
    n = int(rng.choice([1, 2, 3, 5, 8, 12, 40], p=[0.08, 0.14, 0.2, 0.22, 0.2, 0.12, 0.04]))
    X = 2.0 ** int(rng.integers(-8, 9))
    pushed = lower_kind in ("Linear", "active")
    Z = region(domain, rng, n, X, boundary=pushed or rng.random() < 0.7)
    x = Z.x_star
    normal = Z.normal(rng) if pushed or rng.random() < 0.7 else np.zeros(n)
    weights = [1.0 if rng.random() < 0.5 else float(10 ** rng.uniform(-4, 4)) for _ in range(2)]

    lower_kind, lower = _lower(lower_kind, rng, x, X, normal)
    lower = Function(lower.parts, weights[0])
    g_star, grad_g, g_scale = lower.exact(x)
    rows = lower.rows
    if not any(grad_g):
        normal = np.zeros(n)  # g does not push: its minimisers may leave the face of x*

    some = rng.integers(-2, 3, len(rows)) * (rng.random(len(rows)) < 0.7)
    t = some @ rows + int(rng.integers(-2, 3)) * normal + Z.normal(rng) * int(rng.integers(2))
    upper_kind, upper = _upper(upper_kind, rng, x, X, t)
    upper = Function(upper.parts, weights[1])
    f_star, grad_f, f_scale = upper.exact(x)

    fixed = rows if Z.hull is None else np.vstack([rows, Z.hull])
    free = len(null_space(fixed))
    size = [abs(s) for s in fractions(x)]
    center = x + np.array([float(-s / Fraction(upper.lipschitz or 1)) for s in grad_f])
    start = rng.random()
    x0 = x.copy() if start < 0.1 else Z.project(center) if start < 0.2 else Z.sample(rng)
    return Planted(
        seed=seed,
        kind=f"{upper_kind} over {lower_kind} on {domain}",
        upper=upper,
        lower=lower,
        region=Z,
        x_star=x,
        f_star=float(f_star),
        g_star=float(g_star),
        f_scale=float(f_scale + dot([abs(s) for s in grad_f], size)),
        g_scale=float(g_scale + dot([abs(s) for s in grad_g], size)),
        x0=x0,
        rows=rows,
        normal=normal,
        dimension=0 if free == 0 else None if Z.hull is None else free,
        unit=X,
    )


# --- points to judge ---------------------------------------------------------------------------


def lower_minimisers(p: Planted, rng: np.random.Generator, tries: int = 20) -> Iterator[Vector]:
    """Other minimisers of g over Z, exact ones; none where none is found."""
    x, best = fractions(p.x_star), p.lower.exact(p.x_star)[0]
    flat = np.vstack([p.rows, p.normal[None]])
    for rows in (flat, np.vstack([flat, p.region.active])):
        basis = null_space(rows)
        for _ in range(tries if basis else 0):
            weights = rng.integers(-2, 3, len(basis)) * (rng.random(len(basis)) < 0.5)
            d = [dot(fractions(weights), list(column)) for column in zip(*basis, strict=True)]
            d = [math.lcm(*(t.denominator for t in d)) * t for t in d]
            if not any(d):
                continue
            start = int(rng.integers(0, 6))
            for shrink in range(start, start + 18, 3):
                step = Fraction(p.unit) / 2**shrink
                point = [s + step * t for s, t in zip(x, d, strict=True)]
                near = max(abs(step * t) for t in d) <= 64 * Fraction(p.unit)
                if (
                    near
                    and p.region.contains(point)
                    and all(Fraction(float(t)) == t for t in point)
                ):
                    found = floats(point)
                    if p.lower.exact(found)[0] == best:  # Huber's function may bend on the way
                        yield found
                        break


def wrong_points(p: Planted, rng: np.random.Generator) -> Iterator[tuple[str, Vector]]:
    """Labelled points of Z (up to rounding in a projection) that are not optimal: g(x) > g*, or
    f(x) > f*, by far more than rounding."""
    Z, x = p.region, p.x_star

    def candidates() -> Iterator[tuple[str, Vector]]:
        for _ in range(3):
            yield "random point", Z.sample(rng)
        for point in lower_minimisers(p, rng, 8):
            yield "lower minimiser", point
        point = x
        for _ in range(5):  # gradient steps on f alone
            step = p.grad_f(point) / (p.L_f or 1.0)
            size = float(np.linalg.norm(step)) / p.unit
            point = Z.project(
                point - step / size if size > 1 or p.L_f == 0 < size else point - step
            )
            yield "towards the upper minimiser", point
        for size in (1e-6, 1e-3, 1e-1):
            yield "x* perturbed", Z.project(x + size * p.unit * rng.standard_normal(p.n))

    for label, point in candidates():
        worse_f = p.f(point) - p.f_star > 1e-10 * (p.f_scale + abs(p.f(point)))
        worse_g = p.g(point) - p.g_star > 1e-10 * (p.g_scale + abs(p.g(point)))
        if worse_f or worse_g:
            yield label, point
