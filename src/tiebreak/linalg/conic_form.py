"""What functions and sets say about themselves to a conic solver: affine terms, costs, and cones.

A function adds its value to a `Cost`, a set its constraints to a `ConicForm`, both in terms that
are affine in x and in auxiliary variables; the room `conic` makes a program of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import power_of_two
from tiebreak.linalg.spectra import EPS
from tiebreak.linalg.tolerances import TOL


@dataclass(frozen=True, eq=False)
class Affine:
    """Numbers that are affine in z: each block times the entries of z from its first, and offset.

    Blocks are NumPy arrays or SciPy's CSR, float64.
    """

    blocks: tuple[tuple[int, Any], ...]
    offset: Host
    __array_ufunc__ = None  # so that a NumPy number times it comes to __rmul__

    def __len__(self) -> int:
        return len(self.offset)

    def __add__(self, other: Affine | Host | float) -> Affine:
        if isinstance(other, Affine):
            return Affine(self.blocks + other.blocks, self.offset + other.offset)
        return Affine(self.blocks, self.offset + other)

    def __sub__(self, other: Affine | Host | float) -> Affine:
        return self + (-1.0 * other if isinstance(other, Affine) else -other)

    def __rmul__(self, factor: float) -> Affine:
        return Affine(tuple((i, factor * block) for i, block in self.blocks), factor * self.offset)

    def scaled(self, factors: Host) -> Affine:
        """Each of the numbers times its own factor."""
        if np.all(factors == 1.0):
            return self
        return Affine(
            tuple((i, scaled_rows(block, factors)) for i, block in self.blocks),
            factors * self.offset,
        )

    def some(self, places: Host) -> Affine:
        """Only some of the numbers: a mask, or their places."""
        if places.dtype == bool:
            if places.all():
                return self
            places = np.flatnonzero(places)
        return Affine(tuple((i, block[places]) for i, block in self.blocks), self.offset[places])

    def sum(self) -> Affine:
        """Their sum, as one number."""
        blocks = tuple((i, np.asarray(block.sum(axis=0))[None]) for i, block in self.blocks)
        return Affine(blocks, np.array([np.sum(self.offset)]))


def constants(values: Host) -> Affine:
    """Numbers that do not depend on z."""
    return Affine((), np.asarray(values, dtype=np.float64))


def stacked_terms(parts: Sequence[Affine], order: Host | None = None) -> Affine:
    """The numbers of all parts one below the other; in another order, if one is given."""
    from scipy.sparse import csr_array

    offset, blocks = np.concatenate([terms.offset for terms in parts]), []
    start = 0
    for terms in parts:
        for first, block in terms.blocks:
            rows, columns, values = entries(block)
            shape = (len(offset), block.shape[1])
            blocks.append((first, csr_array((values, (rows + start, columns)), shape=shape)))
        start += len(terms)
    whole = Affine(tuple(blocks), offset)
    return whole if order is None else whole.some(order)


class Misfit(NamedTuple):
    """How far an objective may be from the function that it represents, at |x| <= sizes.

    A quadratic function is a square up to the rounding errors of a factorisation:
    ½ sizes' square sizes + <linear, sizes> + constant.
    """

    square: Any
    linear: Host
    constant: float

    def at(self, sizes: Host) -> float:
        """At most this; sizes are those of x or of z, which begins with it."""
        x = sizes[: len(self.linear)]
        return 0.5 * float(x @ (self.square @ x)) + float(self.linear @ x) + self.constant

    def in_units(self, lengths: Host, value: float) -> Misfit:
        """For x and values in these units."""
        from scipy.sparse import csr_array, diags_array

        own = lengths[: len(self.linear)]
        square = diags_array(own / value) @ csr_array(self.square) @ diags_array(own)
        return Misfit(square, self.linear * own / value, self.constant / value)


class Cost:
    """½ of a sum of squares, plus a linear function: an objective in the making."""

    def __init__(self) -> None:
        self.squares: list[Affine] = []
        self.linear: list[tuple[Host, Affine]] = []
        self.constant: float = 0.0
        self.misfits: list[Misfit] = []

    def add_squares(self, weights: Host | float, terms: Affine) -> None:
        """½ sum of weights_i terms_i²."""
        w = np.broadcast_to(np.asarray(weights, dtype=np.float64), len(terms))
        self.squares.append(terms.scaled(np.sqrt(w)).some(w > 0.0))

    def add(self, weights: Host | float, terms: Affine) -> None:
        """The sum of weights_i terms_i."""
        w = np.broadcast_to(np.asarray(weights, dtype=np.float64), len(terms))
        self.linear.append((w, terms))


class ConicForm(Protocol):
    """Variables z = (x, auxiliary ones), and the constraints on them, in the making.

    What is known of the size of x goes into bounds for auxiliary variables, and these into proofs.
    """

    n: int
    owner: str  # of the constraints to come, in words, with {} for the number of a row

    @property
    def x(self) -> Affine:
        """The variables of the problem."""

    def of_x(self, matrix: Any, offset: Host | float = 0.0) -> Affine:
        """matrix x + offset; the matrix is NumPy's or SciPy's."""

    def variables(self, count: int, reach: Host | float = math.inf) -> Affine:
        """New ones, each at most ``reach`` in size in some solution."""

    def zero(self, terms: Affine, numbers: Host | None = None) -> None:
        """terms = 0; ``numbers``: of the rows, for their names."""

    def nonnegative(self, terms: Affine, numbers: Host | None = None) -> None:
        """terms >= 0; ``numbers``: of the rows, for their names."""

    def second_order(self, top: Affine, rest: Affine) -> None:
        """top >= |rest|; top is one number."""

    def exponential(self, exponent: Affine, above: Affine) -> None:
        """exp(exponent_i) <= above_i for every i."""

    def bound(self, terms: Affine) -> Host:
        """A bound on the size of each number, from those of the variables."""

    def absolute(self, terms: Affine) -> Affine:
        """Numbers that are |terms| where they are minimised."""

    def length(self, terms: Affine) -> Affine:
        """One number that is |terms|, the Euclidean norm, where it is minimised."""


def scaled_rows(rows: Any, factors: Host) -> Any:
    """Every row times its factor."""
    if isinstance(rows, np.ndarray):
        return factors[:, None] * rows
    return rows.multiply(factors[:, None]).tocsr()


def entries(block: Any) -> tuple[Host, Host, Host]:
    """Rows, columns and values of what is not 0."""
    if arrays.is_sparse(block):
        found = block.tocoo()
        stored = np.flatnonzero(found.data)
        return found.row[stored], found.col[stored], found.data[stored]
    rows, columns = np.nonzero(block)
    return rows, columns, block[rows, columns]


def add_log_sum_exp(form: ConicForm, cost: Cost, weights: Host, margins: Sequence[Affine]) -> None:
    """Add weights_i log(1 + sum over the margins m of exp m_i), for positive weights.

    It is the least s with exp(m_i - s) <= p_i for every m and exp(-s) <= 1 - sum of the p.
    """
    sizes = np.max([form.bound(some) for some in margins], axis=0)
    s = form.variables(len(weights), sizes + math.log(len(margins) + 1))
    rest = constants(np.ones(len(weights)))
    for some in margins:
        p = form.variables(len(weights), 1.0)
        form.exponential(some - s, p)
        rest = rest - p
    form.exponential(-1.0 * s, rest)
    cost.add(weights, s)


def add_quadratic(
    form: ConicForm, cost: Cost, weight: float, Q: Any, c: Host, constant: float, epsilon: float
) -> None:
    """Add weight (½x'Qx + <c, x> + constant), for data with this unit of rounding."""
    root, shift = completed_square(Q, c, epsilon)
    if shift is None:
        cost.add(weight * c, form.x)
        shift = np.zeros(root.shape[0])
    cost.add_squares(weight, form.of_x(root, shift))
    cost.constant += weight * (constant - 0.5 * float(shift @ shift))
    cost.misfits.append(_misfit(Q, c, root, shift, weight, constant))


def _misfit(Q: Any, c: Host, root: Any, shift: Host, weight: float, constant: float) -> Misfit:
    """How far ½|root x + shift|² - ½|shift|² may be from ½x'Qx + <c, x>, of a small Q."""
    sizes, unit = abs(root), EPS * (len(c) + 8)
    square = abs(root.T @ root - Q) + unit * (sizes.T @ sizes + abs(Q))
    falls = np.zeros_like(c) if shift.any() else c  # then c is a linear part of its own
    linear = np.abs(root.T @ shift + falls - c) + unit * (sizes.T @ np.abs(shift) + np.abs(c))
    rest = unit * (float(shift @ shift) + abs(constant))
    return Misfit(2.0 * weight * square, 2.0 * weight * linear, 2.0 * weight * rest)


def completed_square(Q: Any, c: Host, epsilon: float) -> tuple[Any, Host | None]:
    """F and s with ½x'Qx + <c, x> = ½|F x + s|² - ½|s|², F with as many rows as Q's rank.

    Q is symmetric and positive semidefinite. In units of the variables in which its diagonal is
    about 1, for rank has no units; what is within the rounding errors of the data (``epsilon``) is
    taken as 0. s is None where c falls in a direction in which F x stays as it is.
    """
    from scipy.sparse import csr_array, diags_array

    diagonal = np.maximum(np.asarray(Q.diagonal(), dtype=np.float64), 0.0)
    used, roots = diagonal > 0.0, np.sqrt(diagonal)
    falls = bool(c[~used].any())
    if (csr_array(Q) - diags_array(diagonal)).count_nonzero() == 0:
        return diags_array(roots).tocsr()[np.flatnonzero(used)], (
            None if falls else c[used] / roots[used]
        )
    units = power_of_two(diagonal, 0.5)
    scaled = (Q.toarray() if arrays.is_sparse(Q) else Q) / units / units[:, None]
    deadline.check(0.5 * deadline.svd_work(*scaled.shape))
    values, vectors = np.linalg.eigh(scaled)
    slack = TOL.few_units * len(c) * epsilon
    kept = values > slack * float(np.max(np.abs(values), initial=0.0))
    roots, basis = np.sqrt(values[kept]), np.where(used, vectors.T[kept], 0.0)
    wanted = c / units
    found = basis @ wanted
    falls = falls or arrays.norm(basis.T @ found - wanted) > slack * arrays.norm(wanted)
    return roots[:, None] * basis * units, None if falls else found / roots
