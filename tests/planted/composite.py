"""Composite bilevel problems, f1 + f2 over g1 + g2, whose answers are planted, not computed.

As in ``planted``: x* first, then a problem around it, all in rational arithmetic. With s a
subgradient of g2 at x* and N the normal cone of Z there:

- lower level: -grad g1(x*) = s + nu with nu in N, hence x* minimises g. Along the segment to
  another minimiser x both g1 and g2 are affine, so that with d = x - x*: ``rows @ d = 0`` (g1 is
  strictly convex in these images), <nu, d> = 0 and g2(x) - g2(x*) = <s, d>;
- upper level: -grad f1(x*) = p + rows' lambda + c nu + n + beta (s' - s), with p a subgradient of
  f2 and s' one of g2 at x*, n in N and beta >= 0. Each of the last four has an inner product <= 0
  with d, hence f(x) - f(x*) >= <grad f1(x*) + p, d> >= 0.

Norms are rational because x* and its groups are Pythagorean: integer vectors of integer length.
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
from planted import smooth as planted
from planted.smooth import Function, Matrix, Region, Vector, dot, floats, fractions, null_space

Labels = NDArray[np.int64]  # the group of each variable, -1: none

PENALTIES = ["none", "L1", "L2", "ElasticNet", "GroupL2"]
NORMS = {"L2", "GroupL2"}  # these go with a box only if it is a cone
OTHER_DOMAINS = ["Simplex", "L1Ball", "Monotone", "Halfspace"]  # and with none of these
ALL = [
    (f2, g2, domain)
    for domain in ["Space", "Ball", "Orthant", "Cone", "Box", *OTHER_DOMAINS]
    for f2, g2 in itertools.product(PENALTIES, PENALTIES)
    if (f2, g2) != ("none", "none")
]
COMBINATIONS = tuple(  # with a joint prox
    (f2, g2, domain)
    for f2, g2, domain in ALL
    if domain not in OTHER_DOMAINS and (domain != "Box" or not NORMS & {f2, g2})
)
APART = tuple(  # without
    (f2, g2, domain)
    for f2, g2, domain in ALL
    if (domain == "Box" or domain in OTHER_DOMAINS) and (domain == "Box") == bool(NORMS & {f2, g2})
)
LOWER = [
    "LeastSquares",
    "Quadratic",
    "SquaredNorm",
    "Linear",
    "LeastSquares+Linear",
    "Logistic+Linear",
    "Huber+Linear",
    "none",
]
UPPER = [
    "none",
    "SquaredNorm",
    "LeastSquares",
    "Quadratic",
    "Linear",
    "Logistic+Linear",
    "Huber+Linear",
]


# --- penalties ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kink:
    """A penalty, seen from x*; everything here is for the ``factor`` 1.

    ``subgradient(rng)`` draws an integer vector; ``at_star`` is the exact value at x*; ``moving``:
    the variables along which the penalty is affine near x*.
    """

    kind: str
    subgradient: Callable[[np.random.Generator], Vector]
    value: Callable[[Vector], float]
    at_star: Fraction
    build: Callable[[Any, float], Any]  # of the library ``tiebreak``, times a factor
    conic: Callable[[Any, Any], Any]  # of the module cvxpy and a variable
    moving: NDArray[np.bool_]
    is_coercive: bool = True


def _within(rng: np.random.Generator, n: int, length: int) -> Vector:
    """An integer vector of at most that length; now and then exactly that."""
    if n == 0:
        return np.zeros(0)
    s = rng.integers(-length, length + 1, n).astype(float)
    while float(s @ s) > length**2:
        s = np.trunc(s / 2)
    if rng.random() < 0.2:
        s = np.zeros(n)
        s[int(rng.integers(n))] = length * int(rng.choice([-1, 1]))
    return s


def kink(kind: str, rng: np.random.Generator, v: Vector, X: float, labels: Labels) -> Kink:
    """A penalty of that kind around x* = X v."""
    n, zero = len(v), v == 0
    x = [Fraction(X) * t for t in fractions(v)]
    w = int(rng.integers(1, 4))
    if kind == "none":
        return Kink(
            kind,
            lambda rng: np.zeros(n),
            lambda x: 0.0,
            Fraction(0),
            lambda tb, factor: tb.Zero(),
            lambda cp, x: 0.0,
            np.ones(n, dtype=bool),
            is_coercive=False,
        )
    if kind in ("L1", "ElasticNet"):
        square = int(rng.integers(0, 3)) if kind == "ElasticNet" else 0
        w = w if square == 0 else int(rng.integers(0, 4))  # ElasticNet(0, l2) is a square alone

        def signs(rng: np.random.Generator) -> Vector:
            free = rng.integers(-w, w + 1, n)
            return np.asarray(np.where(zero, free, w * np.sign(v)) + square * v)

        def build(tb: Any, factor: float) -> Any:
            if kind == "L1":
                return tb.L1(factor * w)
            return tb.ElasticNet(factor * w, factor * square / X)

        return Kink(
            kind,
            signs,
            lambda x: float(w * np.sum(np.abs(x)) + square / X / 2 * (x @ x)),
            w * sum((abs(t) for t in x), Fraction(0))
            + Fraction(square) / Fraction(X) * dot(x, x) / 2,
            build,
            lambda cp, x: w * cp.norm1(x) + square / X / 2 * cp.sum_squares(x),
            ~zero if square == 0 else np.zeros(n, dtype=bool),
        )
    if kind == "L2":
        labels = np.zeros(n, dtype=int)
    members = [np.flatnonzero(labels == g) for g in range(int(labels.max(initial=-1)) + 1)]
    lengths = [math.isqrt(int(v[where] @ v[where])) for where in members]
    assert all(m * m == int(v[g] @ v[g]) for m, g in zip(lengths, members, strict=True))
    weight = w * math.lcm(*(m for m in lengths if m), 1)

    def radial(rng: np.random.Generator) -> Vector:
        s = np.zeros(n)
        for where, m in zip(members, lengths, strict=True):
            s[where] = weight // m * v[where] if m else _within(rng, len(where), weight)
        return s

    def lengths_of(x: Vector) -> float:
        return math.fsum(float(np.linalg.norm(x[where])) for where in members)

    return Kink(
        kind,
        radial,
        lambda x: weight * lengths_of(x),
        Fraction(X) * weight * sum(lengths),
        lambda tb, factor: (
            tb.L2(factor * weight) if kind == "L2" else tb.GroupL2(labels, factor * weight)
        ),
        lambda cp, x: weight * sum(cp.norm(x[where]) for where in members),
        labels < 0,
        is_coercive=bool(np.all(labels >= 0)),
    )


# --- x*, its groups and the domain -------------------------------------------------------------


def _start(rng: np.random.Generator, n: int, kinds: tuple[str, str, str]) -> tuple[Vector, Labels]:
    """The integer vector x*/X and the groups; all lengths that matter are integers."""
    f2, g2, domain = kinds
    labels = rng.integers(0, max(1, n // 2), n)
    if rng.random() < 0.4:
        labels[rng.random(n) < 0.4] = -1  # in no group
    names = np.unique(labels[labels >= 0])
    if len(names) == 0:
        names, labels = np.zeros(1), 0 * labels
    labels = np.where(labels < 0, -1, np.searchsorted(names, labels))
    if rng.random() < 0.1:
        return np.zeros(n), labels
    if "GroupL2" in (f2, g2):
        v = np.zeros(n)
        chosen = rng.permutation(len(names))[: int(rng.integers(1, 3))]
        parts = [planted._pythagorean(rng, int(np.sum(labels == g))) for g in chosen]
        if len(parts) == 2:  # of lengths 3 m and 4 m, so that the whole has 5 m
            (a, m), (b, k) = parts
            parts = [(3 * k * a, 3 * k * m), (4 * m * b, 4 * m * k)]
        for g, (part, _) in zip(chosen, parts, strict=True):
            v[labels == g] = part
        if "L2" not in (f2, g2) and domain != "Ball":
            v[labels < 0] = rng.integers(-2, 3, int(np.sum(labels < 0)))
        return v, labels
    if "L2" in (f2, g2) or domain == "Ball":
        return planted._pythagorean(rng, n)[0], labels
    v = rng.integers(-3, 4, n) * (rng.random(n) < rng.choice([0.4, 0.9]))
    return v.astype(float), labels


def region(kind: str, rng: np.random.Generator, v: Vector, X: float) -> tuple[Vector, Region]:
    """A domain of that kind that goes with penalties, and x*/X, whose signs may change for it."""
    n = len(v)
    empty = np.zeros((0, n))
    if kind in OTHER_DOMAINS:
        Z = planted.region(kind, rng, n, X, boundary=rng.random() < 0.7)
        return Z.x_star / X, Z
    if kind in ("Space", "Ball"):
        m = math.isqrt(int(v @ v))
        active = kind == "Ball" and m > 0 and rng.random() < 0.7
        radius = X * (m if active else m + int(rng.integers(1, 4)))
        is_ball = kind == "Ball"

        def into(p: Vector) -> Vector:
            return p * min(1.0, radius / max(float(np.linalg.norm(p)), radius)) if is_ball else p

        return v, Region(
            kind,
            X * v,
            project=into,
            contains=lambda p: not is_ball or dot(p, p) <= Fraction(radius) ** 2,
            normal=lambda rng: int(rng.integers(0, 3)) * active * v,
            sample=lambda rng: into(3 * X * rng.standard_normal(n)),
            build=lambda tb: tb.Ball(radius) if is_ball else tb.Space(),
            conic=lambda cp, x: [cp.norm(x) <= radius] if is_ball else [],
            active=v[None] if active else empty,
            hull=None if active else empty,
        )
    if kind == "Box":
        side = rng.choice([-1, 0, 1], n, p=[0.3, 0.4, 0.3])
        low = X * (v - np.where(side == -1, 0, rng.integers(1, 4, n)))
        high = X * (v + np.where(side == 1, 0, rng.integers(1, 4, n)))
    else:  # half-lines, lines and points: a cone
        side = -np.ones(n, dtype=int) if kind == "Orthant" else rng.choice([-1, 0, 1, 2], n)
        side = np.where((side == 2) & (v != 0), 0, side)
        v = np.where(side == 0, v, np.where(side == -1, np.abs(v), -np.abs(v))) + 0.0
        low = np.where((side == -1) | (side == 2), 0.0, -np.inf)
        high = np.where((side == 1) | (side == 2), 0.0, np.inf)
        side = np.where(v == 0, side, 0)
    signs = np.where(side == 2, rng.choice([-1, 1], n), side)
    finite_low, finite_high = np.flatnonzero(low > -np.inf), np.flatnonzero(high < np.inf)
    return v, Region(
        kind,
        X * v,
        project=lambda p: np.clip(p, low, high),
        contains=lambda p: all(
            (a == -np.inf or Fraction(a) <= t) and (b == np.inf or t <= Fraction(b))
            for a, t, b in zip(low, p, high, strict=True)
        ),
        normal=lambda rng: (signs * rng.integers(0, 4, n)).astype(float),
        sample=lambda rng: np.clip(X * (v + 3 * rng.standard_normal(n)), low, high),
        build=lambda tb: tb.Orthant() if kind == "Orthant" else tb.Box(low, high),
        conic=lambda cp, x: (
            [x[i] >= low[i] for i in finite_low] + [x[i] <= high[i] for i in finite_high]
        ),
        active=np.eye(n)[side != 0],
        hull=None,
    )


# --- the smooth parts --------------------------------------------------------------------------


def _tilted(
    kind: str, rng: np.random.Generator, x: Vector, X: float, t: Vector, A: Matrix
) -> tuple[str, Function | None]:
    """A smooth function whose gradient at x is minus a power of two times the integers t.

    It is strictly convex in the images of A, where it has a matrix of its own.
    """
    scale = 2.0 ** int(rng.integers(-4, 5))
    if kind == "none":
        return kind, None
    if kind == "SquaredNorm" or (kind == "Linear" and not t.any()):
        return "SquaredNorm", Function([(1.0, planted.squared_norm(scale, x + X * t))])
    if kind == "Linear":
        return kind, Function([(1.0, planted.linear(-scale * t))])
    if kind == "Quadratic":
        c = -(scale**2) * (A.T @ A) @ x - scale**2 * X * t
        return kind, Function([(1.0, planted.quadratic(A, scale, c, 3 * scale * X))])
    if kind == "LeastSquares":
        r = rng.integers(-2, 3, len(A)) * int(rng.integers(2))  # orthogonal to the columns
        A, r = np.vstack([A, A, -t]), np.concatenate([r, -r, [1.0 if t.any() else 0.0]])
        b = scale * A @ x - scale * X * r
        mean = bool(rng.integers(2)) and len(b) & (len(b) - 1) == 0
        return kind, Function([(1.0, planted.least_squares(A, scale, b, 1.0, mean))])
    if kind == "LeastSquares+Linear":
        b = scale * A @ x - scale * X * rng.integers(-2, 3, len(A))
        term = planted.least_squares(A, scale, b, scale**2 * X, False)
        return kind, planted._corrected([term], rng, x, t)
    return planted._with_linear(kind, rng, x, X, t)


def _factor(function: Function | None, x: Vector, t: Vector, rng: np.random.Generator) -> float:
    """The power of two (or nearly) by which -(gradient at x) is longer than t."""
    slope = [Fraction(0)] * len(x) if function is None else function.exact(x)[1]
    found = {-s / Fraction(w) for s, w in zip(slope, fractions(t), strict=True) if w}
    if any(s and not w for s, w in zip(slope, fractions(t), strict=True)) or len(found) > 1:
        raise ArithmeticError("the gradient is no multiple of t")
    if not found or found == {Fraction(0)}:
        return 2.0 ** int(rng.integers(-4, 5))
    (factor,) = found
    assert factor > 0
    return float(floats([factor])[0])


# --- the builder -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Level:
    """smooth + factor kink."""

    smooth: Function | None
    kink: Kink
    factor: float

    def value(self, x: Vector) -> float:
        smooth = 0.0 if self.smooth is None else self.smooth.value(x)
        return smooth + self.factor * self.kink.value(x)

    def gradient(self, x: Vector) -> Vector:
        """Of the smooth part."""
        return 0.0 * x if self.smooth is None else self.smooth.gradient(x)

    def exact(self, x: Vector) -> tuple[Fraction, Fraction]:
        """The value at x* and the size of all that it is made of."""
        value, slope, scale = Fraction(0), [Fraction(0)] * len(x), Fraction(0)
        if self.smooth is not None:
            value, slope, scale = self.smooth.exact(x)
        penalty = Fraction(self.factor) * self.kink.at_star
        scale += dot([abs(t) for t in slope], [abs(t) for t in fractions(x)])
        return value + penalty, scale + penalty

    def build(self, tb: Any) -> Any:
        penalty = self.kink.build(tb, self.factor)
        return penalty if self.smooth is None else self.smooth.build(tb) + penalty

    def conic(self, cp: Any, x: Any) -> Any:
        penalty = self.factor * self.kink.conic(cp, x)
        if self.smooth is None:
            return penalty
        return self.smooth.weight * self.smooth.conic(cp, x) + penalty

    @property
    def lipschitz(self) -> float:
        return 0.0 if self.smooth is None else self.smooth.lipschitz


@dataclass(frozen=True)
class PlantedComposite:
    """A composite bilevel problem with its answer; see `planted.Planted`."""

    seed: int
    kind: str
    upper: Level = field(repr=False)
    lower: Level = field(repr=False)
    region: Region = field(repr=False)
    x_star: Vector
    f_star: float
    g_star: float
    f_scale: float
    g_scale: float
    x0: Vector
    rows: Matrix = field(repr=False)
    subgradient: Vector = field(repr=False)  # of g2 at x*, for factor 1
    normal: Vector = field(repr=False)  # nu, for factor 1
    unit: float  # x* is this times integers

    @property
    def n(self) -> int:
        return len(self.x_star)

    @property
    def f(self) -> Callable[[Vector], float]:
        return self.upper.value

    @property
    def g(self) -> Callable[[Vector], float]:
        return self.lower.value

    def problem(self, **kwargs: Any) -> Any:
        """The same problem in the library's words."""
        import tiebreak as tb

        return tb.Problem(
            upper=self.upper.build(tb),
            lower=self.lower.build(tb),
            domain=self.region.build(tb),
            **kwargs,
        )


@functools.lru_cache(maxsize=512)  # one process makes each once
def planted_composite(
    seed: int, kinds: tuple[tuple[str, str, str], ...] = COMBINATIONS
) -> PlantedComposite:
    """Problem number ``seed``: each ``len(kinds)`` seeds have all penalties on all domains."""
    rng = np.random.default_rng([20240209, seed])
    f2_kind, g2_kind, domain = kinds[seed % len(kinds)]
    f1_kind = UPPER[(seed + seed // len(kinds)) % len(UPPER)]
    g1_kind = LOWER[(seed // 3 + seed // len(kinds)) % len(LOWER)]
    n = int(rng.choice([1, 2, 3, 5, 8, 12], p=[0.08, 0.14, 0.2, 0.24, 0.2, 0.14]))
    X = 2.0 ** int(rng.integers(-6, 7))
    v, labels = _start(rng, n, (f2_kind, g2_kind, domain))
    if g1_kind == "none" and domain in OTHER_DOMAINS:
        g1_kind = "LeastSquares"
    if g1_kind == "none":  # x* minimises a penalty: then that is 0 there
        v = np.where(labels < 0, v, 0.0) if g2_kind == "GroupL2" else 0.0 * v
        if "L2" in (f2_kind, g2_kind) or domain == "Ball" or g2_kind == "none":
            v = 0.0 * v
    v, Z = region(domain, rng, v, X)
    x = Z.x_star
    f2, g2 = (kink(kind, rng, v, X, labels) for kind in (f2_kind, g2_kind))
    if f1_kind == "none" and f2_kind == "none":
        f1_kind = "SquaredNorm"
    if (f1_kind == "none" and g1_kind not in ("LeastSquares", "Quadratic")) or (
        g1_kind == "none" and g2_kind == "none"
    ):
        g1_kind = "LeastSquares"

    # The lower level.
    s, nu = g2.subgradient(rng), Z.normal(rng) * int(rng.integers(2))
    p = f2.subgradient(rng)
    A = planted._matrix(rng, int(rng.integers(1, max(2, n))), n)
    twins = np.flatnonzero(v > 0 if rng.random() < 0.5 else v < 0)[:2]
    if len(twins) == 2 and s[twins[0]] == s[twins[1]] and rng.random() < 0.8:
        A[:, twins[1]] = A[:, twins[0]]  # only their sum counts: many minimisers
        nu = 0 * nu
    if f1_kind == "none":
        A = np.vstack([A, p])  # its multiplier proves that x* is best
    if g1_kind == "none":
        s, nu = 0 * s, 0 * nu
    t = s + nu
    g1_kind, g1 = _tilted(g1_kind, rng, x, X, t, A)
    if g1 is not None:
        g1 = Function(g1.parts, 2.0 ** int(rng.integers(-8, 9)))
    lower = Level(g1, g2, _factor(g1, x, t, rng))
    rows = np.zeros((0, n)) if g1 is None else g1.rows

    # The upper level.
    if f1_kind == "none":
        f1: Function | None = None
        upper = Level(None, f2, _factor(None, x, 0 * p, rng))
    else:
        some = rng.integers(-2, 3, len(rows)) * (rng.random(len(rows)) < 0.7)
        T = p + some @ rows + int(rng.integers(-2, 3)) * nu
        T = T + int(rng.integers(2)) * Z.normal(rng)
        T = T + int(rng.integers(0, 3)) * (g2.subgradient(rng) - s)
        B = planted._matrix(rng, int(rng.integers(1, max(2, n))), n)
        f1_kind, f1 = _tilted(f1_kind, rng, x, X, T, B)
        assert f1 is not None
        f1 = Function(f1.parts, 2.0 ** int(rng.integers(-8, 9)))
        upper = Level(f1, f2, _factor(f1, x, T, rng))
    (f_star, f_scale), (g_star, g_scale) = upper.exact(x), lower.exact(x)
    names = [
        " + ".join(k for k in pair if k != "none")
        for pair in ((f1_kind, f2_kind), (g1_kind, g2_kind))
    ]
    return PlantedComposite(
        seed=seed,
        kind=f"{names[0]} over {names[1]} on {domain}",
        upper=upper,
        lower=lower,
        region=Z,
        x_star=x,
        f_star=float(f_star),
        g_star=float(g_star),
        f_scale=float(f_scale),
        g_scale=float(g_scale),
        x0=x.copy() if rng.random() < 0.1 else Z.sample(rng),
        rows=rows,
        subgradient=s,
        normal=nu,
        unit=X,
    )


# --- points to judge ---------------------------------------------------------------------------


def ties(p: PlantedComposite, rng: np.random.Generator, tries: int = 10) -> Iterator[Vector]:
    """Other minimisers of g over Z, exact ones, where g2 is affine; none where none is found."""
    fixed = np.vstack([p.rows, p.normal, np.eye(p.n)[~p.lower.kink.moving], p.region.active])
    if p.lower.smooth is not None:
        fixed = np.vstack([fixed, p.subgradient + p.normal])
    basis = null_space(fixed)
    x = fractions(p.x_star)
    for _ in range(tries if basis else 0):
        weights = rng.integers(-2, 3, len(basis))
        d = [dot(fractions(weights), list(column)) for column in zip(*basis, strict=True)]
        d = [math.lcm(*(t.denominator for t in d)) * t for t in d]
        if not any(d):
            continue
        for shrink in range(0, 20, 2):
            step = Fraction(p.unit) / 2**shrink
            point = [a + step * b for a, b in zip(x, d, strict=True)]
            same_signs = all(a * b > 0 for a, b in zip(x, point, strict=True) if a)
            exact = all(Fraction(float(t)) == t for t in point)
            if same_signs and exact and p.region.contains(point):
                found, g1 = floats(point), p.lower.smooth
                # Huber's function may bend on the way.
                if g1 is None or g1.exact(found)[0] == g1.exact(p.x_star)[0]:
                    yield found
                    break


def wrong_points(p: PlantedComposite, rng: np.random.Generator) -> Iterator[Vector]:
    """Points of Z (up to rounding) that are hardly optimal: random, other ties, better for f."""
    Z, x = p.region, p.x_star
    yield Z.sample(rng)
    yield from itertools.islice(ties(p, rng), 2)
    point = x
    for _ in range(2):  # a step on f alone
        step = p.upper.gradient(point)
        size = float(np.linalg.norm(step)) or 1.0
        point = Z.project(point - p.unit * step / size)
        yield point
    for size in (1e-6, 1e-2):
        yield Z.project(x + size * p.unit * rng.standard_normal(p.n))
