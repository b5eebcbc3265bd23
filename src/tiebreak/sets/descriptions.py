"""How a set describes itself: rows, bounds on its points, recession directions and faces.

Matrices are NumPy arrays or CSR arrays of SciPy, in float64 on the host.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiebreak.linalg import SAFE, Array, Host, arrays, assign
from tiebreak.linalg.conic_form import ConicForm, entries

if TYPE_CHECKING:
    from tiebreak.sets.base import Set


@dataclasses.dataclass(frozen=True, eq=False)
class LinearRows:
    """A x <= b and A_eq x = b_eq, in R^n; either pair may be left out.

    Args:
        words: what messages call the rows of A and of A_eq, with {} for the row's number; empty
            for the default.
        numbers: the numbers or names of the rows; counted from 0 if None.
    """

    n: int
    A: Any = None
    b: Any = ()
    A_eq: Any = None
    b_eq: Any = ()
    words: tuple[str, str] = ("", "")
    numbers: tuple[Host | None, Host | None] = (None, None)

    def __post_init__(self) -> None:
        for name in ("A", "A_eq"):
            matrix = getattr(self, name)
            assign(self, name, np.zeros((0, self.n)) if matrix is None else matrix)
        for name in ("b", "b_eq"):
            assign(self, name, np.asarray(getattr(self, name), dtype=np.float64))

    def add_to(self, form: ConicForm) -> None:
        """Add the rows as constraints to a conic program."""
        owner = form.owner
        if len(self.b_eq):
            form.owner = self.words[1] or owner
            form.zero(form.of_x(self.A_eq, -self.b_eq), self.numbers[1])
        if len(self.b):
            form.owner = self.words[0] or owner
            form.nonnegative(form.of_x(-self.A, self.b + 0.0), self.numbers[0])  # -0 becomes 0


def of_single(places: Host, factors: Host, n: int) -> Any:
    """Rows of length n with one nonzero entry each, as a CSR matrix."""
    from scipy.sparse import csr_array

    return csr_array((factors, places, np.arange(len(places) + 1)), shape=(len(places), n))


def identity(n: int) -> Any:
    """The identity matrix, in CSR form."""
    return of_single(np.arange(n), np.ones(n), n)


def stacked(matrices: Sequence[Any], n: int) -> Any:
    """The matrices stacked row-wise; sparse if one of them is."""
    if all(isinstance(rows, np.ndarray) for rows in matrices):
        return np.vstack([np.zeros((0, n)), *matrices])
    from scipy.sparse import csr_array, vstack

    return vstack([csr_array(rows) for rows in matrices], format="csr")


class RecessionDirections(NamedTuple):
    """{d : low <= d <= high, rows d <= 0, |A d| <= <c, d>}: if x is in Z, so is x + d.

    The bounds low and high are 0 or infinite.
    """

    low: Host | float = -math.inf
    high: Host | float = math.inf
    rows: tuple[Any, ...] = ()
    curves: tuple[tuple[Any, Host], ...] = ()  # A and c of every second-order cone
    # The projection onto the cone of directions, if there is a formula.
    project: Callable[[Host], Host] | None = None


class Bounds(NamedTuple):
    """lower <= x <= upper and |x| <= radius."""

    lower: Host | float = -math.inf
    upper: Host | float = math.inf
    radius: float = math.inf

    def within(self, other: Bounds) -> Bounds:
        """The bounds that ``self`` and ``other`` jointly imply."""
        lower = np.maximum(self.lower, other.lower)
        return Bounds(lower, np.minimum(self.upper, other.upper), min(self.radius, other.radius))


def bounds_on(sets: Sequence[Set], n: int) -> tuple[Host, Host, float]:
    """The lower and upper bounds and the radius that the sets jointly imply for x in R^n."""
    found = Bounds(np.full(n, -math.inf), np.full(n, math.inf))
    linear: list[tuple[Any, Host]] = []
    for part in sets:
        found = found.within(part.bounds_in(n))
        rows = part.necessary_rows(n)
        if rows is not None:
            equal = ((rows.A_eq, rows.b_eq), (-rows.A_eq, -rows.b_eq))
            linear += [pair for pair in ((rows.A, rows.b), *equal) if len(pair[1])]
    lower, upper = np.asarray(found.lower), np.asarray(found.upper)
    if linear:
        rows, offset = stacked([pair[0] for pair in linear], n), np.hstack([b for _, b in linear])
        lower, upper = _tightened(lower, upper, rows, offset)
    return lower, upper, found.radius


def _tightened(lower: Host, upper: Host, rows: Any, offset: Host) -> tuple[Host, Host]:
    """The bounds after tightening with each row of ``rows @ x <= offset`` in a few sweeps.

    A row bounds a variable if all other variables in it are bounded: x >= 0 and sum x <= 1 give
    0 <= x <= 1. New bounds are rounded outwards.
    """
    # Several sweeps over all rows are needed, because new bounds may lead to others.
    for _ in range(10):
        with arrays.quiet():  # bounds that overflow are infinite
            before, (lower, upper) = (lower, upper), _swept(lower, upper, rows, offset)
        if np.array_equal(before, (lower, upper)):
            break
    return lower, upper


def _swept(lower: Host, upper: Host, rows: Any, offset: Host) -> tuple[Host, Host]:
    i, j, a = entries(rows)
    least = a * np.where(a > 0.0, lower[j], upper[j])  # the least value of each term of a row
    is_known = np.isfinite(least)
    known = np.where(is_known, least, 0.0)
    total, size = (np.bincount(i, terms, len(offset)) for terms in (known, np.abs(known)))
    # For each term, the number of other terms in its row that have no bound.
    unknown = np.bincount(i, ~is_known, len(offset))[i] - ~is_known
    # For each term, are all other known terms of its row 0, so that their sum is exact?
    alone = np.bincount(i, known != 0.0, len(offset))[i] - (known != 0.0) == 0
    rest, size = (np.where(alone, 0.0, sums) for sums in (total[i] - known, size[i]))
    slack = (SAFE - 1.0) * (size + np.abs(offset[i]))
    bound = (offset[i] - rest + np.where(alone, 0.0, slack)) / a
    lower, upper = lower.copy(), upper.copy()
    for end, better, some in ((upper, np.minimum, a > 0.0), (lower, np.maximum, a < 0.0)):
        some = some & (unknown == 0)
        better.at(end, j[some], _outwards(bound[some], 1.0 if end is upper else -1.0))
    return lower, upper


def _outwards(bound: Host, sign: float) -> Host:
    """Bounds rounded outwards by the rounding error of a division; a bound of 0 stays exact."""
    return np.where(bound == 0.0, 0.0, bound + sign * (SAFE - 1.0) * np.abs(bound))


# -- faces ----------------------------------------------------------------------------------------


class ActiveFace(NamedTuple):
    """The directions along a face, and an array that identifies the face."""

    along: Callable[[Array], Array]  # the part of a vector along the face
    key: Array
    retract: Callable[[Array], Array]  # maps a point to the set, after a step along the face
    # 1 for entries that may change, 0 for the others; None if the face is more complicated
    free: Array | None
    # The largest t for which x + t d stays on the face.
    room: Callable[[Array, Array], float] = lambda x, d: math.inf
    is_plain: bool = False  # is the face described by the entries of `free` alone?
    # The curvature that a curved face adds to the Hessian if the slope pushes x against the face.
    curvature: Callable[[Array], float] = lambda slope: 0.0


def face_of_signs(project: Callable[[Array], Array], x: Array, sign: Array) -> ActiveFace:
    """The face where the sum of sign_i x_i is constant, and x_i = 0 if sign_i = 0."""
    xp = arrays.namespace(x)
    count = max(arrays.dot(sign, sign), 1.0)
    zero = arrays.zeros_like(x)

    def along(v: Array) -> Array:
        return xp.where(sign != 0.0, v, zero) - (arrays.dot(sign, v) / count) * sign

    def retract(y: Array) -> Array:
        # The step itself keeps the sum constant along the face; a projection would add rounding
        # errors.
        return y if float(xp.min(sign * y)) >= 0.0 else project(y)

    return ActiveFace(
        along, sign, retract, xp.abs(sign), lambda x, d: room_along(sign * x, sign * d)
    )


def room_along(x: Array, d: Array) -> float:
    """The largest t with x + t d >= 0, for x >= 0; only entries that decrease can limit t."""
    xp = arrays.namespace(x)
    falls = d < 0.0
    ratio = xp.where(falls, x / xp.where(falls, -d, xp.ones_like(d)), math.inf)
    return float(xp.min(ratio))


def face_across(project: Callable[[Array], Array], normal: Array) -> ActiveFace:
    """The face on which <normal, x> is constant."""
    unit = normal / arrays.norm(normal)
    one = arrays.namespace(normal).ones_like(normal)
    return ActiveFace(lambda v: v - arrays.dot(unit, v) * unit, one, project, one)
