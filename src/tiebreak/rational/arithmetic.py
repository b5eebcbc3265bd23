"""Rational numbers: vectors over one denominator, linear equations, ranks, semidefiniteness.

Floats are integers times powers of two, so the data of a problem are rational numbers already.
python-flint solves equations if it is installed, otherwise Bareiss's elimination does.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from operator import mul
from typing import Any, NamedTuple

from tiebreak.linalg import deadline

Row = dict[int, int]  # the nonzero entries by column
SINGULAR = "equations that should be regular are singular"


class Unproved(Exception):
    """Raised if nothing can be proved; the message says why."""


class Vector(NamedTuple):
    """The vector numbers / unit, with a positive unit."""

    numbers: list[int]
    unit: int = 1

    def reduced(self) -> Vector:
        """The vector over its least denominator."""
        common = math.gcd(self.unit, *self.numbers)
        return Vector([v // common for v in self.numbers], self.unit // common)

    def moved(self, step: Fraction, along: Vector) -> Vector:
        """self + step along."""
        own, other = step.denominator * along.unit, step.numerator * self.unit
        pairs = zip(self.numbers, along.numbers, strict=True)
        return Vector([own * a + other * b for a, b in pairs], own * self.unit).reduced()

    def fractions(self) -> list[Fraction]:
        return [Fraction(v, self.unit) for v in self.numbers]


def over_one_unit(values: Sequence[Fraction]) -> Vector:
    """Fractions over their least common denominator."""
    unit = math.lcm(*(v.denominator for v in values))
    return Vector([v.numerator * (unit // v.denominator) for v in values], unit)


def product(row: Row, numbers: Sequence[int]) -> int:
    """The inner product of a row with numbers."""
    return sum(map(mul, row.values(), map(numbers.__getitem__, row)))


def as_integers(values: Sequence[float | Fraction]) -> tuple[list[int], Fraction]:
    """Integers without a common factor, and a positive scale: integers = scale * values."""
    exact = over_one_unit([Fraction(v) for v in values])
    common = math.gcd(*exact.numbers) or 1
    return [v // common for v in exact.numbers], Fraction(exact.unit, common)


def as_row(values: Sequence[int]) -> Row:
    """The row without its zeros."""
    return {j: v for j, v in enumerate(values) if v}


@cache
def flint() -> Any:
    """The python-flint module, or None if it is not installed."""
    try:
        return importlib.import_module("flint")
    except ImportError:
        return None


def solve(rows: Sequence[Row], right: Vector) -> Vector:
    """Solve rows x = right for a square matrix; raises `Unproved` if it is singular."""
    n = len(rows)
    if not n:
        return Vector([])
    dense = [[row.get(j, 0) for j in range(n)] for row in rows]
    words = max(max(map(abs, row)) for row in dense).bit_length() / 64.0 + 1.0
    words += max(map(abs, right.numbers)).bit_length() / (64.0 * n)
    if (library := flint()) is None:
        deadline.check(25.0 * words * n**4)
        whole = [[*row, v] for row, v in zip(dense, right.numbers, strict=True)]
        numbers, unit = _back_substituted(whole)
        return Vector(numbers, unit * right.unit).reduced()
    deadline.check(10.0 * words * n**3)
    try:
        found = library.fmpz_mat(dense).solve(library.fmpz_mat([[v] for v in right.numbers]))
    except ZeroDivisionError:
        raise Unproved(SINGULAR) from None
    numbers, unit = found.numer_denom()
    return Vector([int(v) for v in numbers.entries()], int(unit) * right.unit).reduced()


def _back_substituted(M: list[list[int]]) -> tuple[list[int], int]:
    """The numbers and the unit of x, for a matrix whose last column is the right-hand side."""
    n = len(M)
    if _eliminate(M) != list(range(n)):
        raise Unproved(SINGULAR)
    found, unit = [0] * n, abs(M[-1][-2])
    for i in reversed(range(n)):
        rest = sum(M[i][j] * found[j] for j in range(i + 1, n))
        found[i] = (unit * M[i][n] - rest) // M[i][i]
    return found, unit


def _eliminate(M: list[list[int]], prime: int = 0) -> list[int]:
    """Bring rows to echelon form in place, modulo a prime if given; return the pivot columns.

    We use Bareiss's fraction-free elimination: all divisions are exact.
    """
    found: list[int] = []
    before = 1
    for j in range(len(M[0])):
        deadline.check()
        i = len(found)
        candidates = [k for k in range(i, len(M)) if M[k][j]]
        if not candidates:
            continue
        k = min(candidates, key=lambda k: abs(M[k][j]))
        M[i], M[k] = M[k], M[i]
        row, pivot = M[i], M[i][j]
        for k in range(i + 1, len(M)):
            a, pairs = M[k][j], zip(M[k], row, strict=True)
            if prime and a:
                M[k] = [(pivot * u - a * v) % prime for u, v in pairs]
            elif not prime:
                M[k] = [(pivot * u - a * v) // before for u, v in pairs]
        before = pivot
        found.append(j)
    return found


def independent(rows: Sequence[Row], n: int) -> list[int]:
    """The rows that are independent of the rows before them, modulo a prime."""
    columns: list[Row] = [{} for _ in range(n)]
    for i, row in enumerate(rows):
        for j, a in row.items():
            columns[j][i] = a
    return pivot_columns(columns, len(rows))


def pivot_columns(rows: Sequence[Row], n: int) -> list[int]:
    """The columns that are independent of the columns before them, modulo a prime.

    With a probability of about 10^-16, the result has too few columns, and the final check fails.
    """
    if not rows or not n:
        return []
    prime = 2**61 - 1
    residues = [[0] * n for _ in rows]
    for row, to in zip(rows, residues, strict=True):
        for j, a in row.items():
            to[j] = a % prime
    deadline.check(len(rows) * n * min(len(rows), n))
    if (library := flint()) is not None:
        matrix, rank = library.nmod_mat(residues, prime).rref()
        residues = [[int(v) for v in row] for row in matrix.table()[:rank]]
        return [next(j for j, v in enumerate(row) if v) for row in residues]
    return _eliminate(residues, prime)


def is_semidefinite(Q: Sequence[Sequence[int]]) -> bool:
    """Is x'Qx >= 0 for all x, for a symmetric integer matrix Q? We use a fraction-free LDL'."""
    rest, before = [list(row) for row in Q], 1
    while rest:
        deadline.check()
        diagonal = [row[i] for i, row in enumerate(rest)]
        if min(diagonal) < 0:
            return False
        if not any(diagonal):
            return not any(map(any, rest))
        k = min((i for i, v in enumerate(diagonal) if v), key=diagonal.__getitem__)
        row, pivot = rest[k], rest[k][k]
        rest = [
            [
                (pivot * u - other[k] * v) // before
                for j, (u, v) in enumerate(zip(other, row, strict=True))
                if j != k
            ]
            for i, other in enumerate(rest)
            if i != k
        ]
        before = pivot
    return True
