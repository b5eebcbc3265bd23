"""What a function is made of: h(x) = sum of w_i phi_i(A_i x) + <c, x>, with its matrices in hand.

Everything here is NumPy float64 on the host. Products with the data are had in twice the
precision, so that an ill-conditioned system loses no more digits than its data do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tiebreak.functions.base import Flat, Function, Linear, Scaled, SquaredNorm, Sum
from tiebreak.functions.losses import LeastSquares, Logistic, Quadratic
from tiebreak.linalg import arrays, deadline, spectra
from tiebreak.linalg.matrices import DENSE_LIMIT, Matrix
from tiebreak.linalg.refusals import Refusal
from tiebreak.linalg.spectra import GAP, cleaned, clear_rank, equilibrate

Host = spectra.Host

EPS = spectra.EPS
CAREFUL = 2**21  # matrices of up to so many entries are multiplied in twice the precision
KEPT = 4  # slopes that a function remembers


# --- products -------------------------------------------------------------------------------------


class Sliced:
    """A matrix for products as if in twice the precision, by plain ones (Ozaki et al. 2012).

    Matrix and vector are sums of slices, whole multiples of 2^(-i bits) below 2^((1-i) bits) in
    size, with n 2^(2 bits) <= 2^53: then no product of two slices is rounded, in whatever order its
    terms are added. What three slices leave is below 2^(-3 bits), and so its rounding errors are
    smaller than those of twice the precision. Very large matrices are multiplied as they are.
    """

    def __init__(self, A: Host) -> None:
        self.shape, self.exponent = A.shape, _exponent(A)
        self._bits = (53 - max(*A.shape, 1).bit_length()) // 2
        self._slices = [A]
        if A.size <= CAREFUL:
            # In units of 2^exponent: at most 1 in size, so that nothing overflows.
            self._slices = _slices(np.ldexp(A, -self.exponent), self._bits)

    @property
    def is_plain(self) -> bool:
        """Is it too large for more than plain products?"""
        return math.prod(self.shape) > CAREFUL

    def terms(self, x: Host, transposed: bool = False) -> tuple[Host, int]:
        """Numbers that add up, along the last axis, to A x (A'x) in units of 2^exponent."""
        slices = [A.T for A in self._slices] if transposed else self._slices
        if self.is_plain:
            return (slices[0] @ x)[..., None], 0
        top = _exponent(x)
        parts = np.stack(_slices(np.ldexp(x, -top), self._bits), axis=-1)
        rows, width = self.shape[int(transposed)], math.prod(parts.shape[1:])
        products = [A @ parts.reshape(len(x), width) for A in slices]
        shape = (rows, *parts.shape[1:])
        return np.concatenate([p.reshape(shape) for p in products], axis=-1), self.exponent + top

    def times(self, x: Host, b: Host | None = None, transposed: bool = False) -> Host:
        """A x - b (A'x - b), rounded once; x may have several columns, if there is no b."""
        terms, exponent = self.terms(x, transposed)
        if b is None:
            return np.ldexp(_sums(terms), exponent)
        return total([(terms, exponent), (-b[:, None], 0)])


def product(A: Host, x: Host, b: Host | None = None) -> Host:
    """A x - b as if in twice the precision, then rounded (plain products where A is very large)."""
    return Sliced(A).times(x, b)


def total(parts: list[tuple[Host, int]]) -> Host:
    """The sum of all terms, each in units of its power of two, along their last axis."""
    tops = [_exponent(terms) + exponent for terms, exponent in parts if terms.any()]
    top = max(tops, default=0)
    scaled = [np.ldexp(terms, exponent - top) for terms, exponent in parts]
    return np.ldexp(_sums(np.concatenate(scaled, axis=-1)), top)


def _exponent(x: Host) -> int:
    """The power of two that is just above all entries."""
    return math.frexp(float(np.max(np.abs(x), initial=0.0)))[1]


def _slices(A: Host, bits: int) -> list[Host]:
    """A, at most 1 in size, as the sum of these; the i-th holds multiples of 2^(-i bits)."""
    slices = []
    for i in range(1, 4):
        shift = 1.5 * 2.0 ** (52 - i * bits)  # numbers of this size are multiples of 2^(-i bits)
        head = (A + shift) - shift
        slices.append(head)
        A = A - head
    return [part for part in (*slices, A) if part.any()] or slices[:1]


def _sums(terms: Host) -> Host:
    """The sums along the last axis: pairs are added, and what rounding takes is kept.

    Knuth's two-sum, level by level; the result errs by len² units of rounding *squared*.
    """
    errors = np.zeros(terms.shape[:-1])
    while terms.shape[-1] > 1:
        half = terms.shape[-1] // 2
        a, b, left = terms[..., :half], terms[..., half : 2 * half], terms[..., 2 * half :]
        added = a + b
        of_b = added - a
        errors = errors + np.sum((a - (added - of_b)) + (b - of_b), axis=-1)
        terms = np.concatenate([added, left], axis=-1)
    return terms[..., 0] + errors


# --- functions ------------------------------------------------------------------------------------


class _Rows:
    """What all parts share: their matrix."""

    rows: Host

    @cached_property
    def sliced(self) -> Sliced:
        """The matrix for products in twice the precision."""
        return Sliced(self.rows)


@dataclass(frozen=True)
class Squares(_Rows):
    """weight/2 |A x - b|²."""

    weight: float
    rows: Host
    target: Host
    power: ClassVar[int] = 2  # of the rows in the value

    def dual(self, x: Host) -> Host:
        return self.weight * self.sliced.times(x, self.target)

    def size(self, x: Host) -> float:
        return self.weight * (norm(self.rows) * norm(x) + norm(self.target))

    def curvature(self, x: Host, above: bool = False) -> Host:
        return math.sqrt(self.weight) * self.rows

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change = self.rows @ x - self.target, self.rows @ d
        return lambda step: self.weight * float(change @ (start + step * change))

    def scaled(self, top: int) -> Squares:
        e = _exponent(self.rows)
        weight = math.ldexp(self.weight, 2 * e - top)
        return Squares(weight, np.ldexp(self.rows, -e), np.ldexp(self.target, -e))


@dataclass(frozen=True)
class LogisticPart(_Rows):
    """weight times the sum of log(1 + exp(-<a_i, x>)); the rows a_i carry the labels' signs.

    Derivatives are e^lift times what they are: far out they would underflow.
    """

    weight: float
    rows: Host
    lift: float = 0.0
    power: ClassVar[int] = 2

    def dual(self, x: Host) -> Host:
        return -self.weight * self._pull(self.sliced.times(x))

    def size(self, x: Host) -> float:
        """What the terms are, and what a change of all of x would make of them."""
        t = self.rows @ x
        pull, bend = norm(self._pull(t)), norm(self._pull(t) * _pull(-t))
        return self.weight * (pull + bend * norm(self.rows) * norm(x))

    def noise(self, x: Host, dual: Host) -> float:
        """A bound on the error of the dual at x, in units of 8 EPS.

        e^-t errs by t units of rounding, relative, and absolutely by underflow. Where rounding
        changes the margins themselves nothing is known.
        """
        if not EPS * len(x) * norm(self.rows) * norm(x) < 1e-2:
            return math.inf
        pull = np.maximum(np.abs(dual) / self.weight, 2.0**-1022)
        return self.weight * norm(pull * (3.0 + self.lift + np.abs(self.lift - np.log(pull))))

    def _pull(self, margins: Host) -> Host:
        return _pull(margins, self.lift)

    def curvature(self, x: Host, above: bool = False) -> Host:
        """The second derivative, or ``above`` that of a quadratic that touches and is never below.

        The latter is tanh(t/2)/(2t) per row (Jaakkola and Jordan 2000), 1/4 at t = 0.
        """
        t = self.rows @ x
        if above:
            bend = np.full(len(t), 0.25)
            np.divide(np.tanh(0.5 * t), 2.0 * t, out=bend, where=np.abs(t) > 1e-4)
        else:
            bend = self._pull(t) * _pull(-t)
        return np.sqrt(self.weight * bend)[:, None] * self.rows

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change = self.rows @ x, self.rows @ d
        return lambda step: -self.weight * float(change @ self._pull(start + step * change))

    def scaled(self, top: int) -> LogisticPart:
        """The rows stay, for margins have a scale of their own."""
        return LogisticPart(math.ldexp(self.weight, -top), self.rows)


@dataclass(frozen=True)
class QuadraticPart(_Rows):
    """weight/2 x'Qx; its rows are those of Q, for Qx is what all minimisers share."""

    weight: float
    rows: Host
    power: ClassVar[int] = 1

    def dual(self, x: Host) -> Host:
        return self.weight * x

    def size(self, x: Host) -> float:
        return self.weight * norm(x)

    def curvature(self, x: Host, above: bool = False) -> Host:
        deadline.check(0.5 * deadline.svd(*self.rows.shape))
        with np.errstate(divide="ignore"):  # in units in which the diagonal is 1: Q >= 0
            exponents = np.round(0.5 * np.log2(np.abs(np.diag(self.rows))))
        unit = np.exp2(np.where(np.isfinite(exponents), exponents, 0.0))
        values, vectors = np.linalg.eigh(self.rows / unit / unit[:, None])
        # The root of a rounding error is no rounding error: cut before it is taken.
        kept = values > GAP * len(values) * EPS * values[-1]
        return np.asarray(np.sqrt(self.weight * values[kept])[:, None] * vectors.T[kept] * unit)

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change = self.rows @ x, self.rows @ d
        return lambda step: self.weight * float(d @ (start + step * change))

    def scaled(self, top: int) -> QuadraticPart:
        e = _exponent(self.rows)
        return QuadraticPart(math.ldexp(self.weight, e - top), np.ldexp(self.rows, -e))


@dataclass(frozen=True)
class Tilt(_Rows):
    """weight <c, x>, c the sum of the rows times their pulls."""

    weight: float
    rows: Host
    pulls: Host = field(default_factory=lambda: np.ones(1))
    power: ClassVar[int] = 1

    @property
    def c(self) -> Host:
        return np.asarray(self.weight * (self.pulls @ self.rows))

    def dual(self, x: Host) -> Host:
        return self.weight * self.pulls

    def size(self, x: Host) -> float:
        return self.weight * norm(self.pulls)

    def curvature(self, x: Host, above: bool = False) -> Host:
        return self.rows[:0]

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        change = float(self.c @ d)
        return lambda step: change

    def scaled(self, top: int) -> Tilt:
        e = _exponent(self.rows)
        return Tilt(math.ldexp(self.weight, e - top), np.ldexp(self.rows, -e), self.pulls)


def _pull(margins: Host, lift: float = 0.0) -> Host:
    """e^lift/(1 + e^t), accurate however small it is (and no more than e^700)."""
    return np.asarray(np.exp(np.minimum(lift - np.logaddexp(0.0, margins), 700.0)))


Part = Squares | LogisticPart | QuadraticPart | Tilt


class Slope(NamedTuple):
    """A gradient, the size of its terms before they cancel, and a bound on its rounding error."""

    vector: Host
    size: float
    error: float


@dataclass(frozen=True)
class Structure:
    """h(x) = the sum of its parts, up to a constant, for x of length n.

    A part is a function of its rows times x; ``dual`` is its gradient with respect to those
    products, ``size`` a bound on the length of the dual before anything in it cancels, and
    ``scaled(top)`` is 2^-top times the part, with rows near 1.
    """

    n: int
    parts: tuple[Part, ...]

    @property
    def c(self) -> Host:
        """The linear part."""
        tilts = [part.c for part in self.parts if isinstance(part, Tilt)]
        return np.asarray(np.sum([np.zeros(self.n), *tilts], axis=0))

    def only(self, *kinds: type[Part]) -> bool:
        """Is every part of one of these kinds?"""
        return all(isinstance(part, kinds) for part in self.parts)

    @property
    def is_quadratic(self) -> bool:
        return self.only(Squares, QuadraticPart, Tilt)

    @cached_property
    def _slopes(self) -> dict[bytes, Slope]:
        return {}

    def slope(self, x: Host) -> Slope:
        """The gradient at x; the last ones are kept, for several ask for the same."""
        key = x.tobytes()
        if key not in self._slopes:
            while len(self._slopes) >= KEPT:
                del self._slopes[next(iter(self._slopes))]
            self._slopes[key] = self._slope(x)
        return self._slopes[key]

    def _slope(self, x: Host) -> Slope:
        """The gradient at x: both products, to the duals and back, in twice the precision."""
        if not self.parts:
            return Slope(np.zeros(self.n), 0.0, 0.0)
        duals = [part.dual(x) for part in self.parts]
        pairs = list(zip(self.parts, duals, strict=True))
        vector = total([part.sliced.terms(dual, transposed=True) for part, dual in pairs])
        shape = sum(len(part.rows) for part in self.parts), self.n
        sizes = [norm(part.rows) for part in self.parts]
        size = sum(s * part.size(x) for s, part in zip(sizes, self.parts, strict=True))
        error = 2.0 * EPS * norm(vector) + 4.0 * (EPS * max(shape)) ** 2 * size
        if any(part.sliced.is_plain for part in self.parts):
            error += arrays.rounding_unit(EPS, *shape) * size
        for s, dual, part in zip(sizes, duals, self.parts, strict=True):
            length = norm(dual) + (part.noise(x, dual) if isinstance(part, LogisticPart) else 0.0)
            error += 8.0 * EPS * s * length
        return Slope(vector, size, error)

    def curvature(self, x: Host, above: bool = False) -> Host:
        """R with R'R the second derivative at x, or ``above`` that of a quadratic above h."""
        blocks = [part.curvature(x, above) for part in self.parts]
        return np.vstack([np.zeros((0, self.n)), *blocks])

    def largest_change(self, d: Host) -> float:
        """The largest change of a margin along d."""
        changes = [part.rows @ d for part in self.parts if isinstance(part, LogisticPart)]
        return max((float(np.max(np.abs(change))) for change in changes), default=0.0)

    def largest_margin(self, reach: float) -> float:
        """About the largest margin that a point of this length can have; 0 without margins."""
        return max(
            (norm(p.rows) * reach for p in self.parts if isinstance(p, LogisticPart)), default=0.0
        )

    def magnified(self, x: Host) -> Structure:
        """The same up to a factor, for derivatives at x: sums of Margins do not underflow there."""
        margins = [part for part in self.parts if isinstance(part, LogisticPart)]
        if not margins or len(margins) < len(self.parts):
            return self
        lift = max(min(float(np.min(part.rows @ x)) for part in margins), 0.0)
        return Structure(self.n, tuple(replace(part, lift=lift) for part in margins))

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        """step -> the derivative of h(x + step d)."""
        parts = [part.along(x, d) for part in self.parts]
        return lambda step: sum(part(step) for part in parts)

    def blocks(self) -> list[Host]:
        """The matrices whose products with x determine h(x); of the linear terms their sum."""
        blocks = [part.rows for part in self.parts if not isinstance(part, Tilt)]
        return [*blocks, self.c[None]] if self.c.any() else blocks

    def tempered(self, share: float) -> Structure:
        """The same with all margins multiplied by ``share``."""
        parts = [
            replace(part, rows=share * part.rows) if isinstance(part, LogisticPart) else part
            for part in self.parts
        ]
        return Structure(self.n, tuple(parts))

    def audible(self, x: Host, least: float) -> Structure:
        """The same without the logistic losses that add at most ``least`` to the slope at x."""
        parts = []
        for part in self.parts:
            if isinstance(part, LogisticPart):
                lengths = np.sqrt(np.sum(part.rows * part.rows, axis=1))
                part = replace(part, rows=part.rows[np.abs(part.dual(x)) * lengths > least])
            parts.append(part)
        return Structure(self.n, tuple(part for part in parts if part.rows.any()))

    def rows(self, epsilon: float = EPS, sizes: Host | None = None) -> Host:
        """All rows whose products with x determine h(x), each matrix scaled to length 1.

        Without columns and rows that are rounding errors, for data of this unit of rounding and
        variables of units in which columns of these ``sizes`` are alike (0: not known).
        """
        if sizes is not None:
            with np.errstate(divide="ignore"):
                exponents = -np.round(np.log2(sizes))
            sizes = np.exp2(np.where(np.isfinite(exponents), exponents, 0.0))
        scaled = [cleaned(block, epsilon, sizes) / norm(block) for block in self.blocks()]
        return np.vstack([np.zeros((0, self.n)), *scaled])

    def sizes(self) -> Host:
        """The size of each variable's column: that of its largest entry."""
        columns = [
            np.sqrt(np.abs(np.diag(part.rows)))
            if isinstance(part, QuadraticPart)
            else np.max(np.abs(part.rows), axis=0, initial=0.0)
            for part in self.parts
        ]
        return np.asarray(np.max([np.zeros(self.n), *columns], axis=0))

    def stretched(self, units: Host) -> Structure:
        """The same function of u, x = units u, entry by entry: exact where they are powers of 2."""
        parts = []
        for part in self.parts:
            rows = part.rows * units
            rows = units[:, None] * rows if isinstance(part, QuadraticPart) else rows
            parts.append(replace(part, rows=rows))
        return Structure(self.n, tuple(parts))

    def reweighted(self, weights: Host) -> Structure:
        """Sums of squares with other weights: of all rows, of matrices scaled to about 1."""
        parts, done = [], 0
        for part in self.parts:
            assert isinstance(part, Squares)
            mine = np.ldexp(weights[done : done + len(part.rows)], -_exponent(part.rows))
            parts.append(Squares(1.0, mine[:, None] * part.rows, mine * part.target))
            done += len(part.rows)
        return Structure(self.n, tuple(parts))

    @property
    def unit(self) -> float:
        """What `rows` divides by, where it is one matrix only; otherwise 1."""
        blocks = self.blocks()
        return norm(blocks[0]) if len(blocks) == 1 else 1.0

    @property
    def exponent(self) -> int:
        """The power of two that `scaled` divides by."""
        sizes = [
            _exponent(np.array(part.weight)) + part.power * _exponent(part.rows)
            for part in self.parts
        ]
        return max(sizes, default=0)

    def scaled(self) -> Structure:
        """The same up to a positive factor, with magnitudes near 1: nothing over- or underflows.

        By powers of two, so that nothing is rounded.
        """
        exponent = self.exponent
        return Structure(self.n, tuple(part.scaled(exponent) for part in self.parts))

    def lifted(self, lift: Host) -> Structure:
        """The same function of u, x = lift u."""
        parts = []
        for part in self.parts:
            rows = part.rows @ lift
            parts.append(
                replace(part, rows=lift.T @ rows if isinstance(part, QuadraticPart) else rows)
            )
        return Structure(lift.shape[1], tuple(parts))


def structure(owner: str, level: str, h: Function, n: int) -> Structure:
    """What ``h``, a function of n variables, is made of; a sentence if it is not known.

    Logistic is for the lower level alone.
    """
    parts: list[Part] = []
    for weight, part in parts_of(h.bare):
        rows = max(part.matrix.shape[0] if hasattr(part, "matrix") else 1, n)
        if rows * n > DENSE_LIMIT:
            needed = f"must have at most {DENSE_LIMIT:,} matrix entries to be factorised"
            raise Refusal(owner, level, needed, f"{rows} x {n}")
        if hasattr(part, "matrix") and not part.matrix.is_explicit:
            needed = "must have matrices whose entries are known to be factorised"
            raise Refusal(owner, level, needed, f"an operator of {part.matrix.shape[0]} x {n}")
        if isinstance(part, LeastSquares):
            parts.append(Squares(weight * part._scale, part.matrix.dense(), host(part.b)))
        elif isinstance(part, Logistic) and level == "lower":
            signed = host(part.y)[:, None] * part.matrix.dense()
            parts.append(LogisticPart(weight * part._scale, signed))
        elif isinstance(part, SquaredNorm):
            center = np.zeros(n) if part.center is None else host(part.center)
            parts.append(Squares(weight * part.weight, np.eye(n), center))
        elif isinstance(part, Quadratic):
            parts += [QuadraticPart(weight, part.matrix.dense()), Tilt(weight, host(part.c)[None])]
        elif isinstance(part, Linear):
            parts.append(Tilt(weight, host(part.c)[None]))
        elif not isinstance(part, Flat):
            logistic = "Logistic, " if level == "lower" else ""
            needed = f"must be made of LeastSquares, {logistic}Quadratic, SquaredNorm and Linear"
            raise Refusal(owner, level, needed, type(part).__name__)
    return Structure(n, tuple(part for part in parts if part.rows.any()))  # 0 gives a constant


def matrix_of(part: Function) -> Matrix | None:
    """The matrix of a function's data, None where it has none."""
    return getattr(part, "matrix", None)


def matrices_of(h: Function) -> list[Matrix]:
    """The matrices of all parts of h."""
    return [m for _, part in parts_of(h.bare) if (m := matrix_of(part)) is not None]


def parts_of(h: Function, weight: float = 1.0) -> list[tuple[float, Function]]:
    """The functions that h is a weighted sum of."""
    if isinstance(h, Scaled):
        return parts_of(h.function, weight * h.weight)
    if isinstance(h, Sum):
        return parts_of(h.first, weight) + parts_of(h.second, weight)
    return [(weight, h)]


def host(x: Any) -> Host:
    """``x``, an array of any library or a number, as NumPy float64."""
    return np.asarray(arrays.to_numpy(x), dtype=np.float64)


def norm(x: Host) -> float:
    """The Euclidean (Frobenius) norm, safe against overflow."""
    return arrays.norm(x.reshape(-1))


# --- rank is a decision ---------------------------------------------------------------------------


class Rank(NamedTuple):
    """The singular values of some rows in units in which they are alike, and where these are cut.

    ``low`` directions are certainly there. ``high - low`` more are doubtful: larger than rounding,
    but not by 1e3. ``low == high`` where the rank is determined. Singular values and vectors are
    those of diag(row_units) rows diag(units) = left sigma right'.
    """

    low: int
    high: int
    sigma: Host
    basis: Host  # orthonormal, all n columns: the first `low` span the rows, or the first `high`
    left: Host  # left singular vectors as columns, at least those of the rank
    right: Host
    row_units: Host
    units: Host

    @property
    def is_determined(self) -> bool:
        return self.low == self.high

    @property
    def is_plain(self) -> bool:
        """Are rows and columns as they were?"""
        return bool(np.all(self.row_units == 1.0) and np.all(self.units == 1.0))

    def pair(self) -> tuple[float, float]:
        """The singular values on both sides of the cut (0 where there is none)."""
        sides = [*self.sigma, 0.0, 0.0]
        return (float(sides[self.low - 1]) if self.low else 0.0), float(sides[self.low])

    def weights(self, target: Host) -> Host:
        """The smallest weights with which the rows add up to the target, as well as it goes."""
        along = self.right[:, : self.low].T @ (self.units * target)
        weights = self.left[:, : self.low] @ (along / self.sigma[: self.low])
        return np.asarray(self.row_units * weights)

    def moved(self, images: Host, rank: int) -> Host:
        """A d with rows d = images, one or several columns, as well as it goes with this rank."""
        across = self.left[:, :rank].T @ (self.row_units * images.T).T
        d = self.right[:, :rank] @ (across.T / self.sigma[:rank]).T
        return np.asarray((self.units * d.T).T)


def decide_rank(rows: Host, epsilon: float = EPS, units: tuple[Host, Host] | None = None) -> Rank:
    """Singular values at the level of rounding are zero, those above 1e3 times that are not.

    What lies between is in doubt. They are those of the equilibrated rows, for a rank has no units
    (or with the given units of rows and columns); those of the rows as they are if these tell the
    same. ``epsilon`` is the unit of rounding of the data.
    """
    m, n = rows.shape
    if m == 0 or not rows.any():
        one, none = np.eye(n), np.zeros((m, 0))
        return Rank(0, 0, np.zeros(0), one, none, one, np.ones(m), np.ones(n))
    plain = _factorised(rows, epsilon, np.ones(m))
    row_units, columns = units or equilibrate(rows)
    if plain.low == min(m, n) or (np.all(row_units == 1.0) and np.all(columns == 1.0)):
        return plain
    found = _factorised(rows * columns, epsilon, row_units)
    if plain.low == plain.high == found.low == found.high:
        return plain
    return found if np.all(columns == 1.0) else in_units(found, rows, columns)


def _factorised(rows: Host, epsilon: float, row_units: Host) -> Rank:
    """The singular values of diag(row_units) rows, and which of them count."""
    m, n = rows.shape
    deadline.check(deadline.svd(m, n, whole=m < n))
    left, sigma, vt = np.linalg.svd(row_units[:, None] * rows, full_matrices=m < n)
    low, high = clear_rank(sigma, (m, n), epsilon)
    return Rank(low, high, sigma, vt.T, left, vt.T, row_units, np.ones(n))


def in_units(found: Rank, rows: Host, units: Host) -> Rank:
    """The rank of these rows, where what is known is that of rows diag(units)."""
    from scipy.linalg import qr

    # Singular vectors are not orthogonal in other units. By a factorisation with rows sorted by
    # size and columns pivoted no row is drowned by another (Cox and Higham 1998): the first columns
    # span the rows' space, the others are its complement.
    order, basis = np.argsort(units, kind="stable"), np.empty((len(units), len(units)))
    basis[order] = qr((found.row_units[:, None] * rows).T[order], pivoting=True)[0]
    return found._replace(basis=basis, units=units * found.units)


def as_it_is(rows: Host) -> tuple[Host, Host]:
    """Units of 1 for `decide_rank`.

    For rows that are computed in units that are known to be right: there a row of rounding errors
    is 0, and would be none if it were equilibrated.
    """
    return np.ones(rows.shape[0]), np.ones(rows.shape[1])


def null_basis(
    rows: Host, epsilon: float = EPS, doubtful: bool = False, found: Rank | None = None
) -> Host:
    """An orthonormal basis of {d: rows d = 0}, as columns; ``doubtful`` rows count only if asked.

    A singular vector errs by rounding times sigma_1/sigma_r; ``product`` takes that off.
    ``found`` is what `decide_rank` says about these rows, if that is known already.
    """
    found = found or decide_rank(rows, epsilon)
    rank = found.high if doubtful else found.low
    N = found.basis[:, rank:].copy()
    if rank == 0 or N.size == 0 or rows.size * N.shape[1] > CAREFUL:
        return N
    deadline.check(deadline.svd(*N.shape))
    N -= found.moved(Sliced(rows).times(N), rank)
    if np.all(found.units == 1.0):
        return np.linalg.qr(N)[0]
    # Small entries keep their digits, which matter where the rows' are large.
    return np.asarray(np.linalg.solve(np.linalg.cholesky(N.T @ N), N.T).T)
