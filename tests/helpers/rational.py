"""Chains of levels on polyhedra, solved in fractions: a truth that shares nothing with tiebreak.

A level is ½x'Qx + <c, x> + constant, plus squares ½w(<a, x> - b)², absolute values w|<a, x> - b|
and Huber's w h(<a, x> - b). Its minimiser over {below: <a, x> <= b, equal: <a, x> = b} comes from
Lemke's method in integers. Every answer is proved before it is given: a minimiser by its
multipliers, "unbounded" by a direction, "infeasible" by multipliers that contradict the rows.

The minimisers are again a polyhedron. With theta_i a slope of the i-th term at the minimiser and
s = Qx + c + sum theta_i a_i the slope of the level, which no feasible direction makes negative,
they are the feasible points with the same <s, x> and Qx where every term still has slope theta_i.
So the next level needs no auxiliary variable of this one. What all levels leave open is decided by
the least Euclidean norm. Slacks are for levels without squares: linear, l1, total variation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

ZERO, ONE = Fraction(0), Fraction(1)
Vector = list[Fraction]


class Row(NamedTuple):
    """<a, x> <= b, or = b."""

    a: Vector
    b: Fraction


class Term(NamedTuple):
    """w times a function of <a, x> - b: its square / 2, its absolute value, or Huber's."""

    w: Fraction
    a: Vector
    b: Fraction
    delta: Fraction = ZERO


def fractions(values: Iterable[Any]) -> Vector:
    """The numbers as they are, to the last bit."""
    return [Fraction(v) if isinstance(v, int | Fraction) else Fraction(float(v)) for v in values]


def dot(u: Sequence[Fraction], v: Sequence[Fraction]) -> Fraction:
    return sum((s * t for s, t in zip(u, v, strict=True) if s and t), ZERO)


def unit(n: int, j: int) -> Vector:
    return [ONE if i == j else ZERO for i in range(n)]


def negated(v: Sequence[Fraction]) -> Vector:
    return [-t for t in v]


# -- what is minimised, and over what -------------------------------------------------------------


@dataclass
class Objective:
    """A sum of the terms above, of n variables."""

    n: int
    squares: list[Term] = field(default_factory=list)
    absolutes: list[Term] = field(default_factory=list)
    hubers: list[Term] = field(default_factory=list)
    c: Vector = field(default_factory=list)
    Q: list[Vector] = field(default_factory=list)  # empty, or n rows
    constant: Fraction = ZERO

    def __post_init__(self) -> None:
        self.c = self.c or [ZERO] * self.n

    @property
    def is_linear(self) -> bool:
        """Is it linear or piecewise linear, so that a slack leaves a polyhedron?"""
        return not (self.squares or self.hubers or any(map(any, self.Q)))

    def __add__(self, other: Objective) -> Objective:
        first, second = (h.Q or [[ZERO] * self.n] * self.n for h in (self, other))
        pairs = zip(first, second, strict=True)
        summed = [[s + t for s, t in zip(*rows, strict=True)] for rows in pairs]
        return Objective(
            self.n,
            self.squares + other.squares,
            self.absolutes + other.absolutes,
            self.hubers + other.hubers,
            [s + t for s, t in zip(self.c, other.c, strict=True)],
            summed if self.Q or other.Q else [],
            self.constant + other.constant,
        )

    def value(self, x: Sequence[Fraction]) -> Fraction:
        """At x, exactly."""
        found = self.constant + dot(self.c, x)
        found += sum((dot(row, x) * x[i] for i, row in enumerate(self.Q)), ZERO) / 2
        found += sum((w * (dot(a, x) - b) ** 2 for w, a, b, _ in self.squares), ZERO) / 2
        found += sum((w * abs(dot(a, x) - b) for w, a, b, _ in self.absolutes), ZERO)
        return found + sum((w * _huber(dot(a, x) - b, d) for w, a, b, d in self.hubers), ZERO)

    def size(self, x: Sequence[Fraction]) -> Fraction:
        """The size of the terms that are added up in the value at x: what rounding is a part of."""
        at = [abs(t) for t in x]
        reach = [(t, dot(list(map(abs, t.a)), at) + abs(t.b)) for t in self._terms]
        found = abs(self.constant) + dot(list(map(abs, self.c)), at)
        found += sum((dot(list(map(abs, row)), at) * at[i] for i, row in enumerate(self.Q)), ZERO)
        squares = len(self.squares)
        found += sum((t.w * r * r for t, r in reach[:squares]), ZERO)
        return found + sum((t.w * r * (t.delta or ONE) for t, r in reach[squares:]), ZERO)

    @property
    def _terms(self) -> list[Term]:
        return [*self.squares, *self.absolutes, *self.hubers]

    def widened(self, size: int) -> Objective:
        """The same function of more variables, of which it does not see the others."""
        more = [ZERO] * (size - self.n)
        kinds = (self.squares, self.absolutes, self.hubers)
        terms = [[Term(w, a + more, b, d) for w, a, b, d in kind] for kind in kinds]
        Q = [row + more for row in self.Q] + [[ZERO] * size for _ in more if self.Q]
        return Objective(size, *terms, self.c + more, Q, self.constant)


def _huber(r: Fraction, delta: Fraction) -> Fraction:
    return r * r / 2 if abs(r) <= delta else delta * abs(r) - delta * delta / 2


def _terms_of(A: Any, b: Any, weights: Any, mean: bool, delta: Fraction = ZERO) -> list[Term]:
    rows, rhs = [fractions(row) for row in A], fractions(b)
    w = [ONE] * len(rows) if weights is None else fractions(weights)
    total = sum(w, ZERO) if mean else ONE
    parts = zip(rows, rhs, w, strict=True)
    return [Term(u / total, row, t, delta) for row, t, u in parts if u]


def least_squares(A: Any, b: Any, weights: Any = None, mean: bool = False) -> Objective:
    return Objective(len(A[0]), squares=_terms_of(A, b, weights, mean))


def huber(A: Any, b: Any, delta: float, weights: Any = None, mean: bool = False) -> Objective:
    return Objective(len(A[0]), hubers=_terms_of(A, b, weights, mean, *fractions([delta])))


def linear(c: Any) -> Objective:
    return Objective(len(c), c=fractions(c))


def quadratic(Q: Any, c: Any, constant: float = 0.0) -> Objective:
    Q, c = [fractions(row) for row in Q], fractions(c)
    return Objective(len(c), c=c, Q=Q, constant=Fraction(constant))


def squared_norm(n: int, weight: Any = 1.0, center: Any = None) -> Objective:
    w = fractions(np.broadcast_to(np.asarray(weight, dtype=float), n).tolist())
    b = [ZERO] * n if center is None else fractions(center)
    return Objective(n, squares=[Term(w[j], unit(n, j), b[j]) for j in range(n) if w[j]])


def l1(n: int, weight: Any = 1.0, center: Any = None, operator: Any = None) -> Objective:
    rows = [unit(n, j) for j in range(n)] if operator is None else list(map(fractions, operator))
    w = fractions(np.broadcast_to(np.asarray(weight, dtype=float), len(rows)).tolist())
    b = [ZERO] * len(rows) if center is None else fractions(center)
    return Objective(n, absolutes=[Term(*part) for part in zip(w, rows, b, strict=True) if part[0]])


def total_variation(n: int, weight: float = 1.0) -> Objective:
    return l1(n, weight, operator=np.diff(np.eye(n), axis=0).tolist())


@dataclass
class Region:
    """A polyhedron of n variables; those after the n-th are auxiliary ones, of l1 balls."""

    n: int
    below: list[Row] = field(default_factory=list)
    equal: list[Row] = field(default_factory=list)
    radii: list[Fraction] = field(default_factory=list)  # of l1 balls

    def add_below(self, A: Any, b: Any) -> None:
        rows = [(a, t) for a, t in zip(A, b, strict=True) if t < math.inf]
        self.below += [Row(fractions(a), *fractions([t])) for a, t in rows]

    def add_equal(self, A: Any, b: Any) -> None:
        self.equal += [Row(fractions(a), *fractions([t])) for a, t in zip(A, b, strict=True)]

    def add_bounds(self, lower: Any, upper: Any) -> None:
        for j, (low, high) in enumerate(zip(lower, upper, strict=True)):
            self.add_below([unit(self.n, j)], [high])
            self.add_below([negated(unit(self.n, j))], [-low])

    def add_l1_ball(self, radius: float) -> None:
        self.radii += fractions([radius])

    def polyhedron(self) -> Polyhedron:
        """As rows alone, with auxiliary variables for the balls."""
        found = Polyhedron(self.n, self.n, list(self.below), list(self.equal))
        for radius in self.radii:
            found.limit([Term(ONE, unit(self.n, j), ZERO) for j in range(self.n)], None, radius)
        return found

    def excess(self, x: Sequence[Fraction]) -> Fraction:
        """By how much x is outside, 1 for what may pass: 1e-9 of the terms of the constraint.

        Or n units of the precision of x, where these are more.
        """
        worst, size, eps = ZERO, max(map(abs, x)), Fraction(1, 2**52)
        rows = [(dot(r.a, x) - r.b, r) for r in self.below]
        rows += [(abs(dot(r.a, x) - r.b), r) for r in self.equal]
        ones = [ONE] * self.n
        rows += [(sum(map(abs, x), ZERO) - radius, Row(ones, radius)) for radius in self.radii]
        for off, (a, b) in rows:
            if off > 0:
                slopes = list(map(abs, a))
                terms = dot(slopes, list(map(abs, x))) + abs(b)
                allowed = max(terms / 10**9, self.n * eps * size * sum(slopes))
                worst = max(worst, off / allowed if allowed else Fraction(10**30))
        return worst


@dataclass
class Polyhedron:
    """{z : below, equal} of `size` variables, the first n of which are x."""

    n: int
    size: int
    below: list[Row]
    equal: list[Row]

    def limit(self, terms: list[Term], c: Vector | None, limit: Fraction) -> None:
        """<c, x> + sum w|<a, x> - b| <= limit, with one more variable for each term."""
        more = [ZERO] * len(terms)
        self.below = [Row(a + more, b) for a, b in self.below]
        self.equal = [Row(a + more, b) for a, b in self.equal]
        start, self.size = self.size, self.size + len(terms)
        total = (c or []) + [ZERO] * (self.size - len(c or []))
        for k, (w, a, b, _) in enumerate(terms, start):
            wide = a + [ZERO] * (self.size - len(a))
            for sign in (1, -1):
                row = [sign * t for t in wide]
                row[k] = -ONE
                self.below.append(Row(row, sign * b))
            total[k] = w
        self.below.append(Row(total, limit))


# -- Lemke's method, in integers ------------------------------------------------------------------


def lemke(M: list[list[int]], q: list[int]) -> Vector | None:
    """z >= 0 with w = Mz + q >= 0 and <w, z> = 0; None where there is none.

    M is positive semidefinite. Ties are broken lexicographically, so that it ends. The tableau
    [I, -M, -1, q] stays in integers: all entries are over the last pivot, and each step divides by
    the one before without a remainder (Bareiss 1968).
    """
    n = len(q)
    if all(t >= 0 for t in q):
        return [ZERO] * n
    table = np.zeros((n, 2 * n + 2), dtype=object)
    table[:, :n] = np.identity(n, dtype=int).astype(object)
    for i in range(n):
        table[i, n : 2 * n] = [-t for t in M[i]]
        table[i, 2 * n :] = -1, q[i]
    basis, over, artificial, rhs = list(range(n)), 1, 2 * n, 2 * n + 1

    def pivot(r: int, c: int) -> None:
        nonlocal table, over
        p, row, column = table[r, c], table[r].copy(), table[:, c].copy()
        table = (table * p - np.outer(column, row)) // over
        table[r] = row
        over = p
        if p < 0:
            table, over = -table, -p

    r = min(range(n), key=lambda i: (q[i], *table[i, :n]))
    entering = artificial
    while True:
        pivot(r, entering)
        leaving, basis[r] = basis[r], entering
        if leaving == artificial:
            break
        entering = leaving + n if leaving < n else leaving - n
        rows = [i for i in range(n) if table[i, entering] > 0]
        if not rows:
            return None
        ratios = {i: Fraction(table[i, rhs], table[i, entering]) for i in rows}
        least = min(ratios.values())
        ties = [i for i in rows if ratios[i] == least]
        for i in ties:
            if basis[i] == artificial:
                ties = [i]
                break
        for column in range(n):
            if len(ties) == 1:
                break
            ratios = {i: Fraction(table[i, column], table[i, entering]) for i in ties}
            least = min(ratios.values())
            ties = [i for i in ties if ratios[i] == least]
        r = ties[0]
    z = [ZERO] * n
    for i, j in enumerate(basis):
        if n <= j < 2 * n:
            z[j - n] = Fraction(table[i, rhs], over)
    return z


def _whole(values: Sequence[Fraction]) -> Fraction:
    """The positive factor that makes these the smallest integers."""
    denominator = math.lcm(*(v.denominator for v in values))
    divisor = math.gcd(*(int(v * denominator) for v in values))
    return Fraction(denominator, divisor or 1)


# -- one level ------------------------------------------------------------------------------------


class Slice(NamedTuple):
    """All solutions of equations: start + combinations of the columns."""

    start: Vector
    columns: list[Vector]

    def rows(self, below: list[Row]) -> list[Row] | None:
        """The rows in coordinates of the slice, without those of zeros; None: one is violated."""
        found = []
        for a, b in below:
            row = Row([dot(a, column) for column in self.columns], b - dot(a, self.start))
            if any(row.a):
                found.append(row)
            elif row.b < 0:
                return None
        return found


def _slice(equal: list[Row], size: int) -> Slice | None:
    """By elimination; None where the equations contradict each other."""
    rows: list[tuple[int, Vector]] = []
    for a, b in equal:
        row = [*a, b]
        for j, other in rows:
            if row[j]:
                row = [s - row[j] * t for s, t in zip(row, other, strict=True)]
        at = next((j for j, t in enumerate(row) if t), None)
        if at is None:
            continue
        if at == size:
            return None
        row = [t / row[at] for t in row]
        rows = [
            (
                j,
                [s - other[at] * t for s, t in zip(other, row, strict=True)]
                if other[at]
                else other,
            )
            for j, other in rows
        ] + [(at, row)]
    start = [ZERO] * size
    for j, row in rows:
        start[j] = row[size]
    bound = {j for j, _ in rows}
    columns = []
    for k in range(size):
        if k not in bound:
            column = unit(size, k)
            for j, row in rows:
                column[j] = -row[k]
            columns.append(column)
    return Slice(start, columns)


@dataclass
class Optimum:
    """A minimiser, the least value, and the rows that hold all minimisers."""

    z: Vector
    value: Fraction
    below: list[Row]
    equal: list[Row]


class NoOptimum(NamedTuple):
    """Why there is none: "infeasible" or "unbounded", with the direction or the multipliers."""

    word: str
    witness: Vector


def minimise(objective: Objective, over: Polyhedron) -> Optimum | NoOptimum:
    """The minimiser over the polyhedron, with its proof checked."""
    h = objective.widened(over.size)
    within = _slice(over.equal, over.size)
    rows = within and within.rows(over.below)
    solved = None if rows is None else _solve(h, within, rows)
    if solved is None:
        return _no_optimum(h, over)
    z, slopes, multipliers = solved
    _check(h, within, rows, z, slopes, multipliers)
    return Optimum(z, h.value(z), *_held(h, z, slopes))


def _solve(h: Objective, within: Slice, rows: list[Row]) -> tuple[Vector, Vector, Vector] | None:
    """z, the slopes theta of absolute values and Huber terms, the multipliers of the rows.

    The unknowns of the linear complementarity problem are u and t with y = u - t the coordinates
    in the slice, s with |r| = r + 2 s, s >= -r for each absolute value, and v, v' with the cost
    ½ (r - v + v')² + delta (v + v') for each Huber term; then the multipliers.
    """
    k, columns = len(within.columns), within.columns
    free, kinks, size = k + 1, len(h.absolutes), k + 1 + len(h.absolutes) + 2 * len(h.hubers)

    def along(a: Vector) -> Vector:
        row = [dot(a, column) for column in columns]
        return [*row, -sum(row, ZERO)] + [ZERO] * (size - free)

    H = [[ZERO] * size for _ in range(size)]
    d, G = along(h.c), [Row(along_y(row.a, size), row.b) for row in rows]

    def add_square(w: Fraction, a: Vector, b: Fraction) -> None:
        where = [j for j in range(size) if a[j]]
        for i in where:
            d[i] -= w * a[i] * b
            for j in where:
                H[i][j] += w * a[i] * a[j]

    if h.Q:
        back = negated([sum(entries, ZERO) for entries in zip(*columns, strict=True)])
        ways = [*columns, back or [ZERO] * h.n]
        pull, wide = [dot(row, within.start) for row in h.Q], [along(row) for row in h.Q]
        for i, way in enumerate(ways):
            d[i] += dot(pull, way)
            for j in range(free):
                H[i][j] += dot(way, [row[j] for row in wide])
    for w, a, b, _ in h.squares:
        add_square(w, along(a), b - dot(a, within.start))
    for i, (w, a, b, _) in enumerate(h.absolutes, free):
        row, b = along(a), b - dot(a, within.start)
        d = [s + w * t for s, t in zip(d, row, strict=True)]
        d[i] += 2 * w
        row = negated(row)
        row[i] = -ONE
        G.append(Row(row, -b))
    for i, (w, a, b, delta) in enumerate(h.hubers):
        row, at = along(a), free + kinks + 2 * i
        row[at], row[at + 1] = -ONE, ONE
        add_square(w, row, b - dot(a, within.start))
        d[at] += w * delta
        d[at + 1] += w * delta

    found = _complementary(H, d, G)
    if found is None:
        return None
    u, multipliers = found
    y = [t - u[k] for t in u[:k]]
    z = list(within.start)
    for t, column in zip(y, columns, strict=True):
        z = [s + t * v for s, v in zip(z, column, strict=True)] if t else z
    slopes = [t.w - m for t, m in zip(h.absolutes, multipliers[len(rows) :], strict=True)]
    for w, a, b, delta in h.hubers:
        slopes.append(w * min(max(dot(a, z) - b, -delta), delta))
    return z, slopes, multipliers[: len(rows)]


def along_y(a: Vector, size: int) -> Vector:
    """A row in the coordinates of the slice as a row of all unknowns."""
    return [*a, -sum(a, ZERO)] + [ZERO] * (size - len(a) - 1)


def _complementary(H: list[Vector], d: Vector, G: list[Row]) -> tuple[Vector, Vector] | None:
    """u >= 0 that minimises ½u'Hu + <d, u> with G, and the multipliers of G."""
    cost = _whole([t for row in H for t in row] + d)
    scales = [_whole([*row.a, row.b]) for row in G]
    M = [
        [int(t * cost) for t in row] + [int(g.a[i] * s) for g, s in zip(G, scales, strict=True)]
        for i, row in enumerate(H)
    ]
    M += [[-int(t * s) for t in g.a] + [0] * len(G) for g, s in zip(G, scales, strict=True)]
    q = [int(t * cost) for t in d] + [int(g.b * s) for g, s in zip(G, scales, strict=True)]
    found = lemke(M, q)
    if found is None:
        return None
    size = len(d)
    return found[:size], [m * s / cost for m, s in zip(found[size:], scales, strict=True)]


def _slope(h: Objective, z: Vector, slopes: Vector) -> Vector:
    """Qz + c + sum theta_i a_i."""
    total = list(h.c)
    if h.Q:
        total = [s + dot(row, z) for s, row in zip(total, h.Q, strict=True)]
    parts = [(w * (dot(a, z) - b), a) for w, a, b, _ in h.squares]
    parts += [(s, t.a) for s, t in zip(slopes, [*h.absolutes, *h.hubers], strict=True)]
    for factor, a in parts:
        if factor:
            total = [s + factor * t for s, t in zip(total, a, strict=True)]
    return total


def _is_slope(term: Term, theta: Fraction, r: Fraction) -> bool:
    """Is theta in the subdifferential of w|r|, or of w h(r) where there is a delta, at r?"""
    if term.delta:
        return theta == term.w * min(max(r, -term.delta), term.delta)
    return abs(theta) <= term.w if r == 0 else theta == (term.w if r > 0 else -term.w)


def _check(
    h: Objective, within: Slice, rows: list[Row], z: Vector, slopes: Vector, multipliers: Vector
) -> None:
    """The conditions of Karush, Kuhn and Tucker, exactly."""
    for term, theta in zip([*h.absolutes, *h.hubers], slopes, strict=True):
        assert _is_slope(term, theta, dot(term.a, z) - term.b)
    slope = _slope(h, z, slopes)
    for j, column in enumerate(within.columns):
        pull = sum((m * row.a[j] for m, row in zip(multipliers, rows, strict=True)), ZERO)
        assert dot(slope, column) + pull == 0
    y = _coordinates(within, z)
    for m, row in zip(multipliers, rows, strict=True):
        left = row.b - dot(row.a, y)
        assert m >= 0
        assert left >= 0
        assert m * left == 0


def _coordinates(within: Slice, z: Vector) -> Vector:
    """Of a point of the slice: its entries where a column is the only one that is not 0."""
    size = len(z)
    where = [
        next(
            i for i in range(size)
            if column[i] == 1 and not any(o[i] for o in within.columns if o is not column)
            and not within.start[i]
        )
        for column in within.columns
    ]  # fmt: skip
    return [z[i] for i in where]


def _held(h: Objective, z: Vector, slopes: Vector) -> tuple[list[Row], list[Row]]:
    """The rows that tell the minimisers among the feasible points."""
    below, equal = [], []
    for a in (*h.Q, *(t.a for t in h.squares), _slope(h, z, slopes)):
        if any(a):
            equal.append(Row(a, dot(a, z)))
    for (w, a, b, delta), theta in zip([*h.absolutes, *h.hubers], slopes, strict=True):
        top = w * (delta or ONE)
        if theta == top:
            below.append(Row(negated(a), -(b + delta)))
        elif theta == -top:
            below.append(Row(a, b - delta))
        else:
            equal.append(Row(a, b + (theta / w if delta else ZERO)))
    return below, equal


# -- words that say no ----------------------------------------------------------------------------


def _no_optimum(h: Objective, over: Polyhedron) -> NoOptimum:
    """Proved: multipliers that contradict the rows, or a direction along which the level falls."""
    size = over.size
    if _feasible(over) is None:
        # y >= 0 and u with A'y + E'u = 0 and <b, y> + <e, u> = -1.
        rows = [*over.below, *over.equal]
        sums = [Row([row.a[j] for row in rows], ZERO) for j in range(size)]
        sums.append(Row([row.b for row in rows], -ONE))
        signs = [Row(negated(unit(len(rows), i)), ZERO) for i in range(len(over.below))]
        found = _feasible(Polyhedron(len(rows), len(rows), signs, sums))
        assert found is not None
        return NoOptimum("infeasible", found)
    equal = [Row(row.a, ZERO) for row in over.equal]
    equal += [Row(a, ZERO) for a in (*h.Q, *(t.a for t in h.squares)) if any(a)]
    cone = Polyhedron(over.n, size, [Row(row.a, ZERO) for row in over.below], equal)
    steep = [Term(w * (d or ONE), a, ZERO) for w, a, _, d in (*h.absolutes, *h.hubers)]
    cone.limit(steep, list(h.c), -ONE)
    found = _feasible(cone)
    assert found is not None
    return NoOptimum("unbounded", found[:size])


def _feasible(over: Polyhedron) -> Vector | None:
    """A point of the polyhedron."""
    within = _slice(over.equal, over.size)
    rows = within and within.rows(over.below)
    if rows is None:
        return None
    solved = _solve(Objective(over.size), within, rows)
    if solved is None:
        return None
    z = solved[0]
    assert all(dot(a, z) <= b for a, b in over.below)
    assert all(dot(a, z) == b for a, b in over.equal)
    return z


# -- the chain ------------------------------------------------------------------------------------


class Allowance(NamedTuple):
    """What a level may give up: absolute + relative |best value|."""

    absolute: Fraction = ZERO
    relative: Fraction = ZERO

    def amount(self, best: Fraction) -> Fraction:
        return self.absolute + self.relative * abs(best)


@dataclass
class Truth:
    """The best value of each level that has one; x by the least norm; or why there is none.

    Attributes:
        word: "optimal", "infeasible" or "unbounded"; then level number ``len(values)`` is at fault.
        values: of the levels, best values among what those before leave.
        slacks: what each may give up, as numbers.
        x: the point of least norm among what all levels leave, None where there is none.
        witness: the direction or the multipliers of a no.
    """

    word: str
    values: list[Fraction]
    slacks: list[Fraction]
    x: Vector | None
    witness: Vector | None = None


def solve(region: Region, levels: Sequence[tuple[Objective, Allowance]]) -> Truth:
    """Minimise each level over what those before it leave, then the norm."""
    left = region.polyhedron()
    values: list[Fraction] = []
    slacks: list[Fraction] = []
    for objective, allowance in levels:
        found = minimise(objective, left)
        if isinstance(found, NoOptimum):
            return Truth(found.word, values, slacks, None, found.witness)
        values.append(found.value)
        slacks.append(allowance.amount(found.value))
        if slacks[-1] > 0:
            assert objective.is_linear, "a slack needs a level without squares"
            limit = found.value + slacks[-1] - objective.constant
            left.limit(objective.absolutes, list(objective.c), limit)
        else:
            left.below += found.below
            left.equal += found.equal
    found = minimise(squared_norm(region.n), left)
    assert isinstance(found, Optimum)
    return Truth("optimal", values, slacks, found.z[: region.n])
