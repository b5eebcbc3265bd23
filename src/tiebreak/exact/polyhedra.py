"""Domains described by inequalities and equations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tiebreak.linalg import TOL, Host, arrays
from tiebreak.linalg.conic_form import row_lengths
from tiebreak.linalg.host import host, norm
from tiebreak.sets import Domain, polyhedra

NO_START = (
    "Polyhedron: the constraints must have a common point up to rounding; the best point found "
    "violates one of them by {:.1g}"
)


class PolyhedralRows(NamedTuple):
    """The set {x = lift u : rows u <= offset, equal u = right}, with x = u if lift is None.

    Without ``right``, a feasible start determines the right-hand sides of the equations.
    """

    rows: Host
    offset: Host
    equal: Host
    lift: Host | None = None
    right: Host = np.zeros(0)

    def lifted(self, x: Host) -> Host:
        """Return a u with lift u = x that is in the set if x is."""
        return x if self.lift is None else np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)])

    def stretched(self, units: Host) -> PolyhedralRows:
        """Return the set of u / units; exact for bounds if units are powers of two. No lift."""
        assert self.lift is None
        return self._replace(rows=self.rows * units, equal=self.equal * units).of_length_one()

    def of_length_one(self) -> PolyhedralRows:
        """Return the same set, described by rows of norm 1."""
        lengths, others = row_lengths(self.rows), row_lengths(self.equal)
        rows, equal = self.rows / lengths[:, None], self.equal / others[:, None]
        return PolyhedralRows(rows, self.offset / lengths, equal, self.lift, self.right / others)

    @property
    def bounds(self) -> Host:
        """Find the inequalities that bound a single variable with the coefficient 1 or -1."""
        entries = np.sum(self.rows, axis=1)
        single = np.count_nonzero(self.rows, axis=1) == 1
        return np.asarray(single & (np.abs(entries) == 1.0))

    def point(self, u: Host) -> Host:
        """Return lift u, after moving the entries of u that nearly equal a bound onto the bound."""
        rows, offset = self.rows[self.bounds], self.offset[self.bounds]
        ranges = row_ranges(rows, offset)
        near = np.abs(offset - rows @ u) <= slack_noise(rows, offset, u, TOL.met, ranges)
        which, sign = np.nonzero(rows[near])[1], np.sum(rows[near], axis=1)
        u = u.copy()
        u[which] = sign * offset[near] + 0.0  # avoids -0
        return u if self.lift is None else self.lift @ u


def row_ranges(rows: Host, offset: Host) -> Host:
    """Return bounds on the slacks of inequalities over the set; inf if no bound is known.

    The bounds follow from two bounds on each variable of a row, or from the opposite inequality.
    """
    sizes = np.abs(rows)
    single = np.flatnonzero(np.count_nonzero(rows, axis=1) == 1)
    which = np.nonzero(rows[single])[1]
    entries = rows[single, which]
    ends = np.full((2, rows.shape[1]), math.inf)  # upper bounds on x and on -x
    sides = np.where(entries > 0.0, 0, 1), which
    np.minimum.at(ends, sides, offset[single] / np.abs(entries))  # the tightest of several bounds
    width = np.sum(ends, axis=0)
    is_open = ~(width > 0.0) | np.isinf(width)
    ranges = sizes @ np.where(is_open, 0.0, width)
    ranges[sizes @ is_open > 0.0] = math.inf
    others = np.flatnonzero(np.isinf(ranges))
    opposite = {(0.0 - rows[i]).tobytes(): offset[i] for i in others}
    for i in others:
        between = offset[i] + opposite.get((rows[i] + 0.0).tobytes(), math.inf)
        ranges[i] = between if between > 0.0 else math.inf
    return np.asarray(ranges)


def slack_noise(rows: Host, offset: Host, x: Host, share: float, ranges: Host) -> Host:
    """Return the slacks of inequalities at x that count as rounding errors.

    Each is a share of the terms of its row, but at most a small part of the row's range, because
    far from the origin rounding errors could be as large as the range. For rows that are not
    bounds, this limit is at least the rounding error of the slack; slacks of bounds have no such
    error. Variables outside a row count only with the rounding errors that steps mix into all.
    """
    terms = np.abs(rows) @ np.abs(x) + np.abs(offset)
    is_row = np.count_nonzero(rows, axis=1) > 1
    least = np.maximum(TOL.faint * ranges, TOL.rounding * terms * is_row)
    return np.asarray(np.minimum(share * terms, least)) + TOL.rounding * norm(x)


def whole_space(n: int) -> PolyhedralRows:
    """R^n."""
    return PolyhedralRows(np.zeros((0, n)), np.zeros(0), np.zeros((0, n)))


# -- exact rows -----------------------------------------------------------------------------------


def exact_rows(domain: Domain, n: int) -> PolyhedralRows:
    """Describe the domain (not a ball) in R^n by inequalities for x, or for a u with lift u = x.

    Each row is multiplied by a power of two, which is exact, so that its norm is in (½, 1].
    """
    lift, found = domain.lifted_rows(n)
    rows, equal = (A.toarray() if arrays.is_sparse(A) else A for A in (found.A, found.A_eq))
    rows, offset = _scaled_rows(rows, found.b)
    equal, right = _scaled_rows(equal, found.b_eq)
    Z = PolyhedralRows(rows, offset, equal, lift, right)
    return Z if domain.has_projection else _without_twins(Z)


def _scaled_rows(rows: Host, offset: Host) -> tuple[Host, Host]:
    """Scale rows by powers of two, and drop rows of zeros."""
    rows, offset = rows[rows.any(axis=1)], offset[rows.any(axis=1)]
    mantissas, exponents = np.frexp(row_lengths(rows))
    exponents = (exponents - (mantissas == 0.5)).astype(int)
    return np.ldexp(rows, -exponents[:, None]), np.ldexp(offset, -exponents)


def _without_twins(Z: PolyhedralRows) -> PolyhedralRows:
    """Keep the strictest of parallel inequalities; opposite ones that meet become an equation."""
    strictest: dict[Key, int] = {}
    for i, key in enumerate(_directions(Z.rows)):
        if key not in strictest or _level(Z, i) < _level(Z, strictest[key]):
            strictest[key] = i
    kept, planes = [], []
    levels = Z.offset / np.max(np.abs(Z.rows), axis=1, initial=0.0)
    for (group, sign), i in strictest.items():
        other = strictest.get((group, -sign))
        if other is None or levels[i] + levels[other] > TOL.met * abs(levels[i]):
            kept.append(i)
            continue
        room = _level(Z, i) + _level(Z, other)
        if room < -Fraction(TOL.met) * abs(_level(Z, i)):
            raise polyhedra.EmptySet(polyhedra.NO_POINT)
        if room != 0:  # if rounding makes room negative, no proof will succeed
            kept.append(i)
        elif sign > 0:
            planes.append(i)
    equal = np.vstack([Z.equal, Z.rows[planes]])
    right = np.append(Z.right, Z.offset[planes])
    once = _different(equal, right)
    return PolyhedralRows(Z.rows[kept], Z.offset[kept], equal[once], None, right[once])


def _different(equal: Host, right: Host) -> list[int]:
    """Return the equations to keep: one of each group of identical ones."""
    found, seen = [], dict[int, Fraction]()
    for i, (group, _) in enumerate(_directions(equal)):
        level = Fraction(right[i]) / Fraction(equal[i, np.argmax(np.abs(equal[i]))])
        off = abs(level - seen.setdefault(group, level))
        if off > Fraction(TOL.met) * abs(level):
            raise polyhedra.EmptySet(polyhedra.NO_POINT)
        if group == i or off:  # equations that agree only up to rounding prevent a proof
            found.append(i)
    return found


Key = tuple[int, int]  # the line that a row is parallel to, and its orientation


def _directions(rows: Host) -> list[Key]:
    """Return, for each row, the line that its exact multiples share, and the row's orientation."""
    alike: dict[bytes, list[int]] = {}  # rows that are multiples of each other up to rounding
    found: list[Key] = []
    tops = rows[np.arange(len(rows)), np.argmax(np.abs(rows), axis=1)]
    for i, (unit, top) in enumerate(zip(rows / tops[:, None] + 0.0, tops, strict=True)):
        group = alike.setdefault(unit.tobytes(), [])
        first = next((j for j in group if _are_parallel(rows[j], rows[i])), None)
        if first is None:
            group.append(i)
            first = i
        found.append((first, 1 if top > 0.0 else -1))
    return found


def _are_parallel(a: Host, b: Host) -> bool:
    if np.array_equal(a, b) or np.array_equal(a, -b):
        return True
    k = int(np.argmax(np.abs(a)))
    p, q = Fraction(a[k]), Fraction(b[k])
    return all(Fraction(s) * q == Fraction(t) * p for s, t in zip(a, b, strict=True))


def _level(Z: PolyhedralRows, i: int) -> Fraction:
    """Return the offset of an inequality after scaling its largest entry to 1 or -1."""
    return Fraction(Z.offset[i]) / Fraction(float(np.max(np.abs(Z.rows[i]))))


# -- a start --------------------------------------------------------------------------------------


def start(domain: Domain, n: int, rows: PolyhedralRows | None) -> Host:
    """Return a point that lies in the domain to within rounding error.

    If the domain has a projection, this is the point nearest to the origin, otherwise 0 or a point
    in the interior.
    """
    if rows is None or domain.has_projection:
        return host(domain.project(np.zeros(n)))
    Z = rows.of_length_one()
    if np.all(Z.offset >= 0.0) and not Z.right.any():
        return np.zeros(n)
    size = float(np.max(np.append(-Z.offset, np.abs(Z.right))))  # roughly the distance from 0 to Z
    x, room = polyhedra.deepest_point(Z.rows, Z.offset / size, Z.equal, Z.right / size)
    x = size * x
    missed = math.inf
    for point in _candidates(Z, x, TOL.solver * size if room < TOL.independent else None):
        off = [np.maximum(Z.rows @ point - Z.offset, 0.0), abs(Z.equal @ point - Z.right)]
        most = float(np.max(np.concatenate(off), initial=0.0))
        missed = min(missed, most / (size + norm(point)))
        if missed <= TOL.met:
            return Z.point(point)
    raise polyhedra.EmptySet(NO_START.format(missed))


def _candidates(Z: PolyhedralRows, x: Host, close: float | None) -> Iterator[Host]:
    """Yield points near x that satisfy the equations up to rounding; x has nine correct digits.

    If the set is thin, also make inequalities active: first those that the previous point violates,
    then all that x is ``close`` to.
    """
    held = np.zeros(len(Z.rows), dtype=bool)
    point = _meeting(Z, x, held)
    yield point
    if close is None:
        return
    for _ in range(3):
        held = held | (Z.rows @ point > Z.offset)
        point = _meeting(Z, x, held)
        yield point
    yield _meeting(Z, x, Z.offset - Z.rows @ x <= close)


def _meeting(Z: PolyhedralRows, x: Host, held: Host) -> Host:
    """Return the point nearest x that satisfies the equations and makes ``held`` rows active."""
    rows, target = np.vstack([Z.rows[held], Z.equal]), np.append(Z.offset[held], Z.right)
    for _ in range(3 if len(rows) else 0):
        x = x - np.linalg.lstsq(rows, rows @ x - target, rcond=None)[0]
    return x
