"""What a function is made of: h(x) = sum of w_i phi_i(A_i x) + <c, x>, its matrices at hand.

Everything here is NumPy float64 on the host, for the exact solver.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from tiebreak.functions.base import Function
from tiebreak.functions.elementary import Flat, Linear, Quadratic, SquaredNorm
from tiebreak.functions.losses import LeastSquares, Logistic
from tiebreak.functions.sums import summands
from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import Sliced, host, norm, power_of_two, top_exponent, total
from tiebreak.linalg.matrices.base import DENSE_LIMIT
from tiebreak.linalg.refusals import Refusal
from tiebreak.linalg.spectra import EPS, GAP, cleaned

KEPT = 4  # slopes that a function remembers: as many points are compared at a time


@dataclass(frozen=True)
class Part(ABC):
    """weight phi(rows x)."""

    weight: float
    rows: Host
    power: ClassVar[int] = 2  # of the rows in the value

    @cached_property
    def sliced(self) -> Sliced:
        """The rows for products in twice the precision."""
        return Sliced(self.rows)

    @cached_property
    def norm(self) -> float:
        """The Frobenius norm of the rows."""
        return norm(self.rows)

    @abstractmethod
    def dual(self, x: Host) -> Host:
        """The gradient with respect to rows x."""

    @abstractmethod
    def size(self, x: Host) -> float:
        """A bound on the length of the dual before anything in it cancels."""

    def noise(self, x: Host, dual: Host) -> float:
        """A bound on the error of the dual at x beyond the rounding of its entries, over 8 EPS."""
        return 0.0

    @abstractmethod
    def curvature(self, x: Host, above: bool = False) -> Host:
        """R with R'R the second derivative at x, or ``above`` that of a quadratic above it."""

    @abstractmethod
    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        """step -> the derivative at x + step d along d."""

    def composed(self, M: Host) -> Part:
        """The same as a function of u, x = M u."""
        return replace(self, rows=self.rows @ M)

    def stretched(self, units: Host) -> Part:
        """The same as a function of u, x = units u, entry by entry."""
        return replace(self, rows=self.rows * units)

    def column_sizes(self) -> Host:
        """The size of each variable's column: that of its largest entry."""
        return np.asarray(np.max(np.abs(self.rows), axis=0, initial=0.0))

    def scaled(self, top: int) -> Part:
        """2^-top times the part, with rows near 1."""
        e = top_exponent(self.rows)
        weight = math.ldexp(self.weight, self.power * e - top)
        return replace(self, weight=weight, rows=np.ldexp(self.rows, -e))


@dataclass(frozen=True)
class LeastSquaresPart(Part):
    """weight/2 |A x - b|², or weight/2 times the sum of w_i (A x - b)_i², 0 < w_i <= 1."""

    target: Host
    w: Host | None = None

    @property
    def roots(self) -> Host:
        """Of the weights of the rows."""
        return math.sqrt(self.weight) * (np.ones(len(self.rows)) if self.w is None else self.w**0.5)

    def dual(self, x: Host) -> Host:
        off = self.weight * self.sliced.times(x, self.target)
        return off if self.w is None else self.w * off

    def size(self, x: Host) -> float:
        return self.weight * (self.norm * norm(x) + norm(self.target))

    def curvature(self, x: Host, above: bool = False) -> Host:
        return (math.sqrt(self.weight) if self.w is None else self.roots[:, None]) * self.rows

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change = self.rows @ x - self.target, self.rows @ d
        weighted = change if self.w is None else self.w * change
        return lambda step: self.weight * float(weighted @ (start + step * change))

    def scaled(self, top: int) -> Part:
        target = np.ldexp(self.target, -top_exponent(self.rows))
        return Part.scaled(replace(self, target=target), top)


@dataclass(frozen=True)
class LogisticPart(Part):
    """weight times the sum of log(1 + exp(-<a_i, x>)); the rows a_i carry the labels' signs.

    Derivatives are e^lift times what they are: far out they would underflow.
    """

    lift: float = 0.0

    def dual(self, x: Host) -> Host:
        return -self.weight * self._slopes(self.sliced.times(x))

    def size(self, x: Host) -> float:
        """What the terms are, and what a change of all of x would make of them."""
        t = self.rows @ x
        slope, bend = norm(self._slopes(t)), norm(self._second(t))
        return self.weight * (slope + bend * self.norm * norm(x))

    def noise(self, x: Host, dual: Host) -> float:
        """e^-t errs by t units of rounding, relative, and absolutely by underflow.

        Where rounding changes the margins themselves nothing is known.
        """
        if not EPS * len(x) * self.norm * norm(x) < 1e-2:
            return math.inf
        slopes = np.maximum(np.abs(dual) / self.weight, 2.0**-1022)
        return self.weight * norm(slopes * (3.0 + self.lift + np.abs(self.lift - np.log(slopes))))

    def _slopes(self, margins: Host) -> Host:
        """Minus the derivatives of the losses at these margins."""
        return _logistic(margins, self.lift)

    def _second(self, margins: Host) -> Host:
        """The second derivatives of the losses at these margins."""
        return self._slopes(margins) * _logistic(-margins)

    def curvature(self, x: Host, above: bool = False) -> Host:
        """The quadratic ``above`` touches the loss and is never below it.

        Its second derivative is tanh(t/2)/(2t) per row (Jaakkola and Jordan 2000), 1/4 at t = 0.
        """
        t = self.rows @ x
        if above:
            bend = np.full(len(t), 0.25)
            np.divide(np.tanh(0.5 * t), 2.0 * t, out=bend, where=np.abs(t) > 1e-4)
        else:
            bend = self._second(t)
        return np.sqrt(self.weight * bend)[:, None] * self.rows

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change = self.rows @ x, self.rows @ d
        return lambda step: -self.weight * float(change @ self._slopes(start + step * change))

    def lifted(self, lift: float) -> LogisticPart:
        """The same with another lift; what is known about the rows is kept."""
        found = replace(self, lift=lift)
        found.__dict__.update(sliced=self.sliced, norm=self.norm)
        return found

    def scaled(self, top: int) -> Part:
        """The rows stay, for margins have a scale of their own."""
        return LogisticPart(math.ldexp(self.weight, -top), self.rows)


@dataclass(frozen=True)
class QuadraticPart(Part):
    """weight/2 x'Qx; its rows are those of Q, for Qx is what all minimisers share."""

    power: ClassVar[int] = 1

    def dual(self, x: Host) -> Host:
        return self.weight * x

    def size(self, x: Host) -> float:
        return self.weight * norm(x)

    def curvature(self, x: Host, above: bool = False) -> Host:
        deadline.check(0.5 * deadline.svd(*self.rows.shape))
        unit = power_of_two(np.abs(np.diag(self.rows)), 0.5)  # in which the diagonal is about 1
        values, vectors = np.linalg.eigh(self.rows / unit / unit[:, None])
        # The root of a rounding error is no rounding error: cut before it is taken.
        kept = values > GAP * len(values) * EPS * values[-1]
        return np.asarray(np.sqrt(self.weight * values[kept])[:, None] * vectors.T[kept] * unit)

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change = self.rows @ x, self.rows @ d
        return lambda step: self.weight * float(d @ (start + step * change))

    def composed(self, M: Host) -> Part:
        return replace(self, rows=M.T @ (self.rows @ M))

    def stretched(self, units: Host) -> Part:
        return replace(self, rows=units[:, None] * (self.rows * units))

    def column_sizes(self) -> Host:
        """The roots of the diagonal, on the scale of the columns of a root of Q."""
        return np.asarray(np.sqrt(np.abs(np.diag(self.rows))))


@dataclass(frozen=True)
class LinearPart(Part):
    """weight <c, x>, c the sum of the rows times their weights."""

    weights: Host = field(default_factory=lambda: np.ones(1))
    power: ClassVar[int] = 1

    @property
    def c(self) -> Host:
        """The slope."""
        return np.asarray(self.weight * (self.weights @ self.rows))

    def dual(self, x: Host) -> Host:
        return self.weight * self.weights

    def size(self, x: Host) -> float:
        return self.weight * norm(self.weights)

    def curvature(self, x: Host, above: bool = False) -> Host:
        return self.rows[:0]

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        change = float(self.c @ d)
        return lambda step: change


def _logistic(margins: Host, lift: float = 0.0) -> Host:
    """e^lift/(1 + e^t), accurate however small it is (and no more than e^700)."""
    return np.asarray(np.exp(np.minimum(lift - np.logaddexp(0.0, margins), 700.0)))


class Slope(NamedTuple):
    """A gradient, the size of its terms before they cancel, and a bound on its rounding error."""

    vector: Host
    size: float
    error: float


@dataclass(frozen=True)
class Parts:
    """h(x) = the sum of its parts, up to a constant, for x of length n."""

    n: int
    parts: tuple[Part, ...]

    @property
    def c(self) -> Host:
        """The slope of the linear parts together."""
        slopes = [part.c for part in self.parts if isinstance(part, LinearPart)]
        return np.asarray(np.sum([np.zeros(self.n), *slopes], axis=0))

    def only(self, *kinds: type[Part]) -> bool:
        """Is every part of one of these kinds?"""
        return all(isinstance(part, kinds) for part in self.parts)

    @cached_property
    def logistic(self) -> list[LogisticPart]:
        """The logistic parts."""
        return [part for part in self.parts if isinstance(part, LogisticPart)]

    @property
    def is_quadratic(self) -> bool:
        """Is there no logistic part?"""
        return not self.logistic

    @cached_property
    def _slopes(self) -> dict[bytes, Slope]:
        return {}

    def slope(self, x: Host) -> Slope:
        """The gradient at x; the last ones are kept, for the same are needed several times."""
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
        pairs = [(part, part.dual(x)) for part in self.parts]
        vector = total([part.sliced.terms(dual, transposed=True) for part, dual in pairs])
        shape = sum(len(part.rows) for part in self.parts), self.n
        size = sum(part.norm * part.size(x) for part in self.parts)
        error = 2.0 * EPS * norm(vector) + 4.0 * (EPS * max(shape)) ** 2 * size
        if any(part.sliced.is_plain for part in self.parts):
            error += arrays.rounding_unit(EPS, *shape) * size
        for part, dual in pairs:
            error += 8.0 * EPS * part.norm * (norm(dual) + part.noise(x, dual))
        return Slope(vector, size, error)

    def curvature(self, x: Host, above: bool = False) -> Host:
        """R with R'R the second derivative at x, or ``above`` that of a quadratic above h."""
        blocks = [part.curvature(x, above) for part in self.parts]
        return np.vstack([np.zeros((0, self.n)), *blocks])

    def largest_change(self, d: Host) -> float:
        """The largest change of a margin along d."""
        return max((float(np.max(np.abs(part.rows @ d))) for part in self.logistic), default=0.0)

    def largest_margin(self, reach: float) -> float:
        """About the largest margin that a point of this length can have; 0 without margins."""
        return max((part.norm * reach for part in self.logistic), default=0.0)

    def magnified(self, x: Host) -> Parts:
        """The same up to a factor, for derivatives at x: logistic ones do not underflow there."""
        if not self.logistic or not self.only(LogisticPart):
            return self
        lift = max(min(float(np.min(part.rows @ x)) for part in self.logistic), 0.0)
        if all(part.lift == lift for part in self.logistic):
            return self
        return Parts(self.n, tuple(part.lifted(lift) for part in self.logistic))

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        """step -> the derivative of h(x + step d)."""
        parts = [part.along(x, d) for part in self.parts]
        return lambda step: sum(part(step) for part in parts)

    def blocks(self) -> list[Host]:
        """The matrices whose products with x determine h(x); of the linear terms their sum."""
        blocks = [part.rows for part in self.parts if not isinstance(part, LinearPart)]
        return [*blocks, self.c[None]] if self.c.any() else blocks

    def with_margins(self, share: float) -> Parts:
        """The same with all margins multiplied by ``share``."""
        parts = [
            replace(part, rows=share * part.rows) if isinstance(part, LogisticPart) else part
            for part in self.parts
        ]
        return Parts(self.n, tuple(parts))

    def without_negligible(self, x: Host, least: float) -> Parts:
        """The same without the logistic losses that add at most ``least`` to the slope at x."""
        parts = []
        for part in self.parts:
            if isinstance(part, LogisticPart):
                lengths = np.sqrt(np.sum(part.rows * part.rows, axis=1))
                part = replace(part, rows=part.rows[np.abs(part.dual(x)) * lengths > least])
            parts.append(part)
        return Parts(self.n, tuple(part for part in parts if part.rows.any()))

    def rows(self, epsilon: float = EPS, sizes: Host | None = None) -> Host:
        """All rows whose products with x determine h(x), each matrix scaled to length 1.

        Without columns and rows that are rounding errors, for data of this unit of rounding and
        variables of units in which columns of these ``sizes`` are alike (0: not known).
        """
        units = None if sizes is None else power_of_two(sizes, -1.0)
        scaled = [cleaned(block, epsilon, units) / norm(block) for block in self.blocks()]
        return np.vstack([np.zeros((0, self.n)), *scaled])

    def sizes(self) -> Host:
        """The size of each variable's largest column."""
        columns = [part.column_sizes() for part in self.parts]
        return np.asarray(np.max([np.zeros(self.n), *columns], axis=0))

    def stretched(self, units: Host) -> Parts:
        """The same function of u, x = units u, entry by entry: exact where they are powers of 2."""
        return Parts(self.n, tuple(part.stretched(units) for part in self.parts))

    def reweighted(self, weights: Host) -> Parts:
        """Sums of squares with other weights: of all rows, of matrices scaled to about 1."""
        parts, done = [], 0
        for part in self.parts:
            assert isinstance(part, LeastSquaresPart)
            mine = np.ldexp(weights[done : done + len(part.rows)], -top_exponent(part.rows))
            parts.append(LeastSquaresPart(1.0, mine[:, None] * part.rows, mine * part.target))
            done += len(part.rows)
        return Parts(self.n, tuple(parts))

    @property
    def unit(self) -> float:
        """What `rows` divides by, where it is one matrix only; otherwise 1."""
        blocks = self.blocks()
        return norm(blocks[0]) if len(blocks) == 1 else 1.0

    @property
    def exponent(self) -> int:
        """The power of two that `scaled` divides by."""
        sizes = [
            top_exponent(np.array(part.weight)) + part.power * top_exponent(part.rows)
            for part in self.parts
        ]
        return max(sizes, default=0)

    def scaled(self) -> Parts:
        """The same up to a positive factor, with magnitudes near 1: nothing over- or underflows.

        By powers of two, so that nothing is rounded.
        """
        exponent = self.exponent
        return Parts(self.n, tuple(part.scaled(exponent) for part in self.parts))

    def composed(self, M: Host) -> Parts:
        """The same function of u, x = M u."""
        return Parts(M.shape[1], tuple(part.composed(M) for part in self.parts))


def decompose(owner: str, level: str, h: Function, n: int) -> Parts:
    """The parts of ``h``, a function of n variables; a Refusal if they are not all known.

    Logistic is for the lower level alone.
    """
    parts: list[Part] = []
    for weight, part in summands(h.bare):
        rows = n if part.matrix is None else max(part.matrix.shape[0], n)
        if rows * n > DENSE_LIMIT:
            needed = f"must have at most {DENSE_LIMIT:,} matrix entries to be factorised"
            raise Refusal(owner, level, needed, f"{rows} x {n}")
        if part.matrix is not None and not part.matrix.is_explicit:
            needed = "must have matrices whose entries are known to be factorised"
            raise Refusal(owner, level, needed, f"an operator of {part.matrix.shape[0]} x {n}")
        if isinstance(part, LeastSquares):
            parts.append(LeastSquaresPart(weight * part.scale, part.matrix.dense(), host(part.b)))
        elif isinstance(part, Logistic) and level == "lower":
            signed = host(part.y)[:, None] * part.matrix.dense()
            parts.append(LogisticPart(weight * part.scale, signed))
        elif isinstance(part, SquaredNorm):
            parts.append(LeastSquaresPart(*part.in_rows(n, weight)))
        elif isinstance(part, Quadratic):
            parts.append(QuadraticPart(weight, part.matrix.dense()))
            parts.append(LinearPart(weight, host(part.c)[None]))
        elif isinstance(part, Linear):
            parts.append(LinearPart(weight, host(part.c)[None]))
        elif not isinstance(part, Flat):
            logistic = "Logistic, " if level == "lower" else ""
            needed = f"must be made of LeastSquares, {logistic}Quadratic, SquaredNorm and Linear"
            raise Refusal(owner, level, needed, type(part).__name__)
    return Parts(n, tuple(part for part in parts if part.rows.any()))  # 0 gives a constant
