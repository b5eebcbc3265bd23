"""How functions and sets describe themselves to a conic solver: affine terms, costs and cones.

A function adds its value to a `Cost`, and a set adds its constraints to a `ConicForm`. Costs and
constraints use terms that are affine in x and in auxiliary variables. The `conic` package builds a
program from these terms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Host, rounding_unit
from tiebreak.linalg.spectra import EPS, norm_bound, semidefinite_root

Kind = Literal["zero", "nonnegative", "second-order", "exponential"]  # the kind of a cone


@dataclass(frozen=True, eq=False)
class Affine:
    """Numbers that are affine in z: blocks times slices of z, plus an offset.

    Blocks are NumPy arrays or SciPy CSR matrices, in float64.
    """

    blocks: tuple[tuple[int, Any], ...]
    offset: Host
    __array_ufunc__ = None  # so that a NumPy number times this object calls __rmul__

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
        """The terms with each number multiplied by its own factor."""
        return Affine(
            tuple((i, scaled_rows(block, factors)) for i, block in self.blocks),
            factors * self.offset,
        )

    def some(self, places: Host) -> Affine:
        """The terms of the numbers that a mask or indices select."""
        return Affine(tuple((i, block[places]) for i, block in self.blocks), self.offset[places])

    def sum(self) -> Affine:
        """The sum of all the numbers, as a single number."""
        blocks = tuple((i, np.asarray(block.sum(axis=0))[None]) for i, block in self.blocks)
        return Affine(blocks, np.array([np.sum(self.offset)]))


def constants(values: Host) -> Affine:
    """Constant terms, which do not depend on z."""
    return Affine((), np.asarray(values, dtype=np.float64))


def stacked_terms(parts: Sequence[Affine]) -> Affine:
    """The numbers of all parts, one part after another."""
    from scipy.sparse import csr_array

    offset, blocks = np.concatenate([terms.offset for terms in parts]), []
    start = 0
    for terms in parts:
        for first, block in terms.blocks:
            rows, columns, values = entries(block)
            shape = (len(offset), block.shape[1])
            blocks.append((first, csr_array((values, (rows + start, columns)), shape=shape)))
        start += len(terms)
    return Affine(tuple(blocks), offset)


class Misfit(NamedTuple):
    """A bound on how far an objective is from the function that it represents, if |x_i| <= sizes_i.

    The bound is ½ <sizes, square sizes> + <linear, sizes> + constant. It covers the rounding errors
    of the factorisation that turns a quadratic function into a square, and of sums over the data.
    """

    square: Any
    linear: Host
    constant: float

    def at(self, sizes: Host) -> float:
        """The bound for |x_i| <= sizes_i; ``sizes`` may continue with the other entries of z."""
        x = sizes[: len(self.linear)]
        return 0.5 * float(x @ (self.square @ x)) + float(self.linear @ x) + self.constant


class Cost:
    """An objective under construction: half a sum of squares plus a linear function."""

    def __init__(self) -> None:
        self.squares: list[Affine] = []
        self.linear: list[tuple[Host, Affine, float]] = []  # weights, terms, error of the weights
        self.constant: float = 0.0
        self.misfits: list[Misfit] = []

    def add_squares(self, weights: Host | float, terms: Affine) -> None:
        """Add ½ sum of weights_i terms_i²."""
        w = np.broadcast_to(np.asarray(weights, dtype=np.float64), len(terms))
        self.squares.append(terms.scaled(np.sqrt(w)).some(w > 0.0))

    def add(self, weights: Host | float, terms: Affine, is_rounded: bool = False) -> None:
        """Add the sum of weights_i terms_i to the objective.

        If ``is_rounded``, the weights are computed numbers: their rounding errors are counted.
        """
        w = np.broadcast_to(np.asarray(weights, dtype=np.float64), len(terms))
        self.linear.append((w, terms, rounding_unit(EPS) if is_rounded else 0.0))


class ConicForm:
    """The variables z = (x, auxiliary variables) and their constraints, under construction.

    Bounds on the size of x give bounds on auxiliary variables, and those bounds enter the proofs.

    Args:
        lower, upper: lower <= x <= upper on the whole feasible set; infinite if unknown.
        radius: |x| <= radius for some solution; inf if unknown.
    """

    def __init__(self, lower: Host, upper: Host, radius: float = math.inf) -> None:
        self.lower: Host = lower
        self.upper: Host = upper
        farthest = np.maximum(np.abs(lower), np.abs(upper))
        self.n: int = len(lower)
        self.size: int = self.n
        self.radius: float = min(radius, self._rounded_up(arrays.norm(farthest)))
        self._reach = [np.minimum(farthest, self.radius)]
        self._constraints: dict[Kind, list[Affine]] = {kind: [] for kind in get_args(Kind)}
        self._names: dict[Kind, list[tuple[str, Any]]] = {kind: [] for kind in get_args(Kind)}
        self.owner = ""  # name of the constraints added next; {} stands for the row number

    @cached_property
    def x(self) -> Affine:
        """The variables x of the problem, as terms."""
        return _identity(0, self.n)

    def of_x(self, matrix: Any, offset: Host | float = 0.0) -> Affine:
        """The terms matrix x + offset, for a NumPy or SciPy matrix."""
        if not arrays.is_sparse(matrix):
            matrix = np.asarray(matrix, dtype=np.float64)
        rows = np.broadcast_to(np.asarray(offset, dtype=np.float64), matrix.shape[0])
        return Affine(((0, matrix),), rows)

    def variables(self, count: int, reach: Host | float = math.inf) -> Affine:
        """New variables, whose absolute values are at most ``reach`` in some solution."""
        made = _identity(self.size, count)
        self._reach.append(np.array(np.broadcast_to(reach, count), dtype=np.float64))
        self.size += count
        return made

    def zero(self, terms: Affine, numbers: Host | None = None) -> None:
        """Require terms = 0; ``numbers`` are the row numbers in the constraints' names."""
        self._add("zero", terms, numbers)

    def nonnegative(self, terms: Affine, numbers: Host | None = None) -> None:
        """Require terms >= 0; ``numbers`` are the row numbers in the constraints' names."""
        self._add("nonnegative", terms, numbers)

    def second_order(self, top: Affine, rest: Affine) -> None:
        """Require top >= |rest|, where top is a single number."""
        self._add("second-order", stacked_terms([top, rest]))

    def exponential(self, exponent: Affine, above: Affine) -> None:
        """Require exp(exponent_i) <= above_i for every i."""
        count = len(exponent)
        each = stacked_terms([exponent, constants(np.ones(count)), above])
        turns = np.arange(3 * count).reshape(3, count).T.reshape(-1)  # one cone after another
        self._add("exponential", each.some(turns))

    def _add(self, kind: Kind, terms: Affine, numbers: Host | None = None) -> None:
        self._constraints[kind].append(terms)
        self._names[kind].append((self.owner, range(len(terms)) if numbers is None else numbers))

    def bound(self, terms: Affine) -> Host:
        """A bound on the size of each number, from the bounds on the variables."""
        reach, total = np.concatenate(self._reach), np.abs(terms.offset)
        for first, block in terms.blocks:
            most = _product(abs(block), reach[first : first + block.shape[1]])
            if first == 0 and block.shape[1] == self.n and self.radius < math.inf:
                most = np.minimum(most, row_lengths(block) * self.radius)
            total = total + most
        return np.asarray(self._rounded_up(total))

    def _rounded_up(self, bound: Any, terms: int = 0) -> Any:
        """A bound, computed by sums over the variables or over ``terms``, plus rounding errors."""
        return bound * (1.0 + rounding_unit(EPS, self.size, terms))

    def signs(self, terms: Affine) -> Host:
        """The sign of each number on the whole feasible set: 1 if >= 0, -1 if <= 0, 0 if unknown.

        The terms must depend on x only.
        """
        found = np.zeros(len(terms))
        for sign, near, far in ((1.0, self.lower, self.upper), (-1.0, -self.upper, -self.lower)):
            # A lower bound on sign * terms, and the sum of the sizes of its summands.
            least, sizes = sign * terms.offset, np.abs(terms.offset)
            for first, block in terms.blocks:
                assert first + block.shape[1] <= self.n
                up, down = _positive(block), _positive(-block)
                least = least + _product(up, near) - _product(down, far)
                sizes = sizes + _product(up, np.abs(near)) + _product(down, np.abs(far))
            sure = least >= rounding_unit(EPS, self.n) * sizes
            found[sure & (found == 0.0)] = sign
        return found

    def absolute(self, terms: Affine) -> Affine:
        """Numbers that equal |terms| if they are minimised; the terms must depend on x only."""
        signs = self.signs(terms)
        known = signs != 0.0
        if known.all():
            return terms.scaled(signs)
        open_terms = terms.some(~known)
        sizes = self.variables(len(open_terms), self.bound(open_terms))
        self.nonnegative(sizes - open_terms)
        self.nonnegative(sizes + open_terms)
        # The terms with unknown signs come first in the stack; restore the original order.
        order = np.argsort(np.argsort(known, kind="stable"))
        return stacked_terms([sizes, terms.scaled(signs).some(known)]).some(order)

    def length(self, terms: Affine) -> Affine:
        """One number that equals the Euclidean norm |terms| if the number is minimised."""
        most = arrays.norm(self.bound(terms))
        is_of_x = all(first == 0 for first, _ in terms.blocks)
        if is_of_x and self.radius < math.inf:
            of_matrix = sum(norm_bound(block) for _, block in terms.blocks)
            most = min(most, of_matrix * self.radius + arrays.norm(terms.offset))
        size = self.variables(1, self._rounded_up(most, self.n * len(terms)))
        self.second_order(size, terms)
        return size


def _identity(first: int, count: int) -> Affine:
    from scipy.sparse import eye_array

    return Affine(((first, eye_array(count, format="csr")),), np.zeros(count))


def _product(size: Any, reach: Host) -> Host:
    """A non-negative matrix times numbers that may be infinite, where 0 times infinity is 0."""
    known = np.isfinite(reach)
    total = np.asarray(size @ np.where(known, reach, 0.0))
    if not known.all():
        for end in (math.inf, -math.inf):
            total = np.where(np.asarray(size @ (reach == end).astype(float)) > 0.0, end, total)
    return total


def _positive(block: Any) -> Any:
    """max(entries, 0)."""
    return block.maximum(0.0) if arrays.is_sparse(block) else np.maximum(block, 0.0)


def scaled_rows(rows: Any, factors: Host, columns: Host | None = None) -> Any:
    """The matrix with row i times factors_i and, given ``columns``, column j times columns_j."""
    if isinstance(rows, np.ndarray):
        return factors[:, None] * (rows if columns is None else rows * columns)
    # Copy the indices, too: SciPy sorts them in place, but reorders the data of only one of the two
    # matrices.
    found = rows.tocsr(copy=True)
    found.data = found.data * np.repeat(factors, np.diff(found.indptr))
    if columns is not None:
        found.data *= columns[found.indices]
    return found


def row_lengths(rows: Any) -> Host:
    """The Euclidean norm of every row, dense or sparse, computed so that no square overflows."""
    if isinstance(rows, np.ndarray):
        exponents = np.frexp(np.max(np.abs(rows), axis=1, initial=0.0))[1]
        squares = np.sum(np.ldexp(rows, -exponents[:, None]) ** 2, axis=1)
        return np.asarray(np.ldexp(np.sqrt(squares), exponents))
    found = rows.tocsr()
    which, largest = row_numbers(found), np.zeros(rows.shape[0])
    np.maximum.at(largest, which, np.abs(found.data))
    exponents = np.frexp(largest)[1]
    squares = np.bincount(which, np.ldexp(found.data, -exponents[which]) ** 2, rows.shape[0])
    return np.ldexp(np.sqrt(squares), exponents)


def row_numbers(rows: Any) -> Host:
    """The row number of every stored entry of a CSR matrix."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def entries(block: Any) -> tuple[Host, Host, Host]:
    """The rows, columns and values of the nonzero entries of a matrix."""
    if arrays.is_sparse(block):
        found = block.tocoo()
        stored = np.flatnonzero(found.data)
        return found.row[stored], found.col[stored], found.data[stored]
    rows, columns = np.nonzero(block)
    return rows, columns, block[rows, columns]


def add_log_sum_exp(form: ConicForm, cost: Cost, weights: Host, margins: Sequence[Affine]) -> None:
    """Add weights_i log(1 + sum over the margins m of exp m_i), for positive weights.

    The logarithm is the least s with exp(m_i - s) <= p_i for every m and exp(-s) <= 1 - sum of the
    p.
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
    """Add weight (½x'Qx + <c, x> + constant), for data with machine epsilon ``epsilon``."""
    root, shift = completed_square(Q, c, epsilon)
    if shift is None:
        cost.add(weight * c, form.x)
        shift = np.zeros(root.shape[0])
    cost.add_squares(weight, form.of_x(root, shift))
    cost.constant += weight * (constant - 0.5 * float(shift @ shift))
    cost.misfits.append(misfit_of(Q, c, root, shift, weight, constant))


def misfit_of(
    Q: Any, c: Host, root: Any, shift: Host, weight: float = 1.0, constant: float = 0.0
) -> Misfit:
    """``weight`` times a bound on how far ½|root x + shift|² - ½|shift|² is from ½x'Qx + <c, x>."""
    sizes, unit = abs(root), EPS * (len(c) + 8)
    square = abs(root.T @ root - Q) + unit * (sizes.T @ sizes + abs(Q))
    falls = np.zeros_like(c) if shift.any() else c  # with shift 0, <c, x> is a linear term
    linear = np.abs(root.T @ shift + falls - c) + unit * (sizes.T @ np.abs(shift) + np.abs(c))
    rest = unit * (float(shift @ shift) + abs(constant))
    return Misfit(2.0 * weight * square, 2.0 * weight * linear, 2.0 * weight * rest)


def completed_square(Q: Any, c: Host, epsilon: float) -> tuple[Any, Host | None]:
    """F and s with ½x'Qx + <c, x> = ½|F x + s|² - ½|s|²; F has as many rows as Q's rank.

    Q is symmetric and positive semidefinite. The variables are scaled so that the diagonal is about
    1, because rank does not depend on units; anything within the rounding errors of the data, whose
    machine epsilon is ``epsilon``, counts as 0. The result s is None if <c, x> decreases in a
    direction that leaves F x unchanged.
    """
    from scipy.sparse import csr_array, diags_array

    diagonal = np.maximum(np.asarray(Q.diagonal(), dtype=np.float64), 0.0)
    used, roots = diagonal > 0.0, np.sqrt(diagonal)
    falls = bool(c[~used].any())
    if (csr_array(Q) - diags_array(diagonal)).count_nonzero() == 0:
        return diags_array(roots).tocsr()[np.flatnonzero(used)], (
            None if falls else c[used] / roots[used]
        )
    # Eigenvalues of Q up to 8 n ``epsilon`` times the largest count as 0.
    slack = 8.0 * len(c) * epsilon
    roots, basis, units = semidefinite_root(Q.toarray() if arrays.is_sparse(Q) else Q, slack)
    wanted = c / units
    found = basis @ wanted
    falls = falls or arrays.norm(basis.T @ found - wanted) > slack * arrays.norm(wanted)
    return roots[:, None] * basis * units, None if falls else found / roots
