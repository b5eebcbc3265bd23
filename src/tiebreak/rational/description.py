"""Convert levels and sets, from their own descriptions, to rational numbers without rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.program import Objective
from tiebreak.functions import Function, Parts, Penalty, split, summands
from tiebreak.linalg import EPS, Host, arrays
from tiebreak.linalg.host import binary_digits
from tiebreak.rational.active_set import Feasible, Form
from tiebreak.rational.arithmetic import (
    Row,
    Unproved,
    Vector,
    as_integers,
    as_row,
    flint,
    is_semidefinite,
    over_one_unit,
)
from tiebreak.sets import Domain


class Reach(NamedTuple):
    """The limits of exact arithmetic."""

    variables: int
    digits: int  # variables times the bits of the data
    entries: int  # entries of a matrix
    work: float  # total work of all pivots, as `deadline.spend` counts it


# True: with python-flint; False: without it
REACH = {True: Reach(200, 8_000, 50_000, 2e9), False: Reach(40, 2_500, 5_000, 1e9)}
OTHER = "a level is not linear or quadratic, or the set is not described by linear rows"
NOT_CONVEX = "a quadratic form cannot be proved to be semidefinite as stored"


@dataclass(frozen=True)
class IntegerRows:
    """Rows of integers, each a positive multiple of the given row."""

    rows: tuple[Row, ...]
    limits: tuple[Fraction, ...]
    scales: tuple[Fraction, ...]


def integer_rows(matrix: Any, limits: Sequence[Any]) -> IntegerRows:
    """Convert rows of floats to rows of integers."""
    dense = matrix.toarray() if arrays.is_sparse(matrix) else matrix
    pairs = [as_integers(list(map(float, row))) for row in dense]
    scales = tuple(scale for _, scale in pairs)
    right = tuple(scale * Fraction(v) for scale, v in zip(scales, limits, strict=True))
    return IntegerRows(tuple(as_row(row) for row, _ in pairs), right, scales)


def check_reach(n: int, *parts: Any) -> None:
    """Raise `Unproved` if there are too many variables, entries or digits."""
    reach = REACH[flint() is not None]
    if n > reach.variables or any(rows.shape[0] * n > reach.entries for rows in parts):
        raise Unproved("there are too many variables or rows for exact arithmetic")
    for rows in parts:
        some = rows.data if arrays.is_sparse(rows) else np.asarray(rows)
        if n * _bits(some[some != 0.0]) > reach.digits:
            raise Unproved("the numbers have too many digits for exact arithmetic")


def _bits(values: Host) -> int:
    """How many bits lie between the highest and the lowest bit of all the numbers."""
    if not values.size:
        return 0
    exponent, digits = binary_digits(values)
    return int(np.max(exponent) - np.min(exponent - digits))


def data_epsilon(h: Function | Penalty) -> float:
    """The machine epsilon of a level's data."""
    smooth = split(h)[0]
    given = EPS if smooth.prototype is None else arrays.epsilon(smooth.prototype)
    return max(given, *(part.data_epsilon for _, part in summands(smooth.bare)))


def feasible_set(domain: Domain, n: int) -> tuple[Feasible, IntegerRows, IntegerRows]:
    """The set with its inequalities and equations."""
    check_reach(n)
    given = domain.linear_rows(n)
    if given is None:
        raise Unproved(OTHER)
    check_reach(n, given.A, given.A_eq)
    below, equal = integer_rows(given.A, given.b), integer_rows(given.A_eq, given.b_eq)
    Z = Feasible(n, below.rows, below.limits).within(equal.rows, equal.limits)
    return Z, below, equal


class LevelData(NamedTuple):
    """An exact level, the rows with equal products for all minimisers, and the level in floats."""

    form: Form
    image: IntegerRows
    objective: Objective


def level_data(h: Function | Penalty, n: int) -> LevelData:
    """The data of a level; raises `Unproved` if it is not a quadratic function."""
    smooth = split(h)[0]
    if smooth is not h:
        raise Unproved(OTHER)
    pieces: list[tuple[Any, Fraction]] = []  # bordered matrices [Q c; c' 2 constant] with scales
    image: list[Host] = []
    roots: list[Host] = []
    for weight, part in summands(smooth.bare, Fraction(1)):
        parts = _parts(part, n)
        roots.append(float(weight) ** 0.5 * parts.curvature(np.zeros(n)))
        for squares in parts.squares:
            weights = np.ones(len(squares.rows)) if squares.w is None else squares.w
            factor = _exact_weight(squares.weight, getattr(part, "mean", False))
            pieces.append(_gram(squares.rows, squares.target, weights, weight, factor))
            image.append(squares.rows)
        for quadratic in parts.forms:
            numbers, scale = _integers(quadratic.rows)
            if not is_semidefinite(numbers.tolist()):
                raise Unproved(NOT_CONVEX)
            pieces.append((np.pad(numbers, (0, 1)), scale / (weight * Fraction(quadratic.weight))))
            image.append(quadratic.rows)
        for tilt in parts.tilts:
            pieces.append(_tilt(tilt.rows, tilt.weights, weight * Fraction(tilt.weight)))
        if not parts.squares:  # only squares include the function's constant
            zero = np.zeros(n)
            at = zero if part.prototype is None else arrays.like(zero, part.prototype)
            constant = weight * Fraction(float(part.value(at)))
            corner = np.zeros((n + 1, n + 1), dtype=object)
            corner[n, n] = 2 * constant.numerator
            pieces.append((corner, Fraction(constant.denominator)))
    form, rows = _form(pieces, n), np.vstack([np.zeros((0, n)), *image])
    root, slope = np.vstack([np.zeros((0, n)), *roots]), form.slope(Vector([0] * n)).numbers
    linear = np.array([float(v / form.scale) for v in slope])
    objective = Objective(root, np.zeros(len(root)), linear)
    return LevelData(form, integer_rows(rows, [0] * len(rows)), objective)


def _parts(part: Function, n: int) -> Parts:
    """The parts of a function; raises `Unproved` if it is not quadratic or not available."""
    matrix = part.matrix
    if matrix is not None:
        if not matrix.is_explicit:
            raise Unproved(OTHER)
        check_reach(n, np.empty((matrix.shape[0], 0)))
    found = part.parts(1.0, n)
    parts = None if found is None else Parts(n, tuple(found))
    if parts is None or not parts.is_quadratic:
        raise Unproved(OTHER)
    check_reach(n, *(one.rows for one in parts.parts))
    return parts


def _integers(rows: Host) -> tuple[Any, Fraction]:
    """The rows as Python integers, and a scale: integers = scale * rows."""
    numbers, scale = as_integers([float(v) for v in rows.ravel()])
    return np.array([*numbers, None], dtype=object)[:-1].reshape(rows.shape), scale


def _exact_weight(weight: float, is_mean: bool) -> Fraction:
    """The weight as a fraction: a mean divides by the number of rows, and 1/3 is not a float."""
    count = round(1.0 / weight) if is_mean else 0
    if is_mean and 1.0 / (count or 1) != weight:
        raise Unproved("the divisor of a weighted mean is not a whole number")
    return Fraction(1, count) if count else Fraction(weight)


def _gram(rows: Host, target: Host, weights: Host, *factors: Any) -> tuple[Any, Fraction]:
    """The sum of w_i (A x - b)_i², times half the product of ``factors``, as a bordered matrix."""
    whole, scale = _integers(np.hstack([rows, -target[:, None]]))
    each, of_weights = _integers(weights)
    total = scale * scale * of_weights
    for factor in factors:
        total /= Fraction(factor)
    return whole.T @ (each[:, None] * whole), total


def _tilt(rows: Host, weights: Host, factor: Fraction) -> tuple[Any, Fraction]:
    """The weighted sum of the rows, times ``factor``, as a bordered matrix."""
    (numbers, scale), (each, of_weights) = _integers(rows), _integers(weights)
    n = rows.shape[1]
    bordered = np.zeros((n + 1, n + 1), dtype=object)
    bordered[:n, n] = bordered[n, :n] = each @ numbers
    return bordered, scale * of_weights / factor


def _form(pieces: list[tuple[Any, Fraction]], n: int) -> Form:
    """The sum of bordered matrices divided by their scales."""
    shares = over_one_unit([1 / scale for _, scale in pieces])
    total = sum(
        (share * M for share, (M, _) in zip(shares.numbers, pieces, strict=True)),
        np.zeros((n + 1, n + 1), dtype=object),
    )
    numbers, scale = as_integers([Fraction(int(v), shares.unit) for v in total[:n].ravel()])
    rows = [as_row(numbers[i * (n + 1) : (i + 1) * (n + 1)]) for i in range(n)]
    linear = {i: c for i, row in enumerate(rows) if (c := row.pop(n, 0))}
    constant = Fraction(int(total[n, n]), 2 * shares.unit)
    return Form(tuple(rows) if any(rows) else (), linear, scale, constant)
