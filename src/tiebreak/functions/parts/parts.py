"""The parts of a function: h(x) = sum of w_i phi_i(A_i x) + <c, x>, with its matrices.

All arrays are NumPy float64 on the host, for the exact solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from tiebreak.functions.base import Function
from tiebreak.functions.parts.loss_parts import ClippedPart, Kinks, LossPart
from tiebreak.functions.parts.quadratic_parts import (
    LeastSquaresPart,
    LinearPart,
    Part,
    QuadraticPart,
)
from tiebreak.functions.sums import summands
from tiebreak.linalg import DENSE_LIMIT, EPS, Host, Refusal, cleaned, rounding_unit
from tiebreak.linalg.host import norm, power_of_two, top_exponent, total

Kind = TypeVar("Kind", bound=Part)

KEPT_SLOPES = 8  # how many slopes a function keeps: callers compare up to 8 points


class Slope(NamedTuple):
    """A gradient, the size of its terms before they cancel, and bounds on its rounding error e.

    |e| <= error, and |<e, d>| <= image_error |R d| + product_error |d| for all d, with R as in
    `curvature`. Most of e comes from errors of the duals, multiplied by the rows, so <e, d> is
    small if R d is small.
    """

    vector: Host
    size: float
    error: float
    image_error: float = 0.0
    product_error: float = 0.0


def product_error(length: float, shape: tuple[int, ...], size: float, is_plain: bool) -> float:
    """A bound on the error of products with ordinary (``is_plain``) or twice the usual precision.

    ``length`` is the norm of the result, and ``size`` is the norm of its terms.
    """
    error = 2.0 * EPS * length + 4.0 * (EPS * max(shape)) ** 2 * size
    return error + rounding_unit(EPS, *shape) * size if is_plain else error


def _of_kind(kind: type[Kind]) -> cached_property[list[Kind]]:
    """The parts that are instances of one class."""
    return cached_property(lambda self: [part for part in self.parts if isinstance(part, kind)])


@dataclass(frozen=True)
class Parts:
    """h(x) as the sum of the parts of h, up to a constant, for x of length n."""

    n: int
    parts: tuple[Part, ...]

    squares: ClassVar[cached_property[list[LeastSquaresPart]]] = _of_kind(LeastSquaresPart)
    tilts: ClassVar[cached_property[list[LinearPart]]] = _of_kind(LinearPart)
    forms: ClassVar[cached_property[list[QuadraticPart]]] = _of_kind(QuadraticPart)
    # Losses that are not squares.
    losses: ClassVar[cached_property[list[LossPart]]] = _of_kind(LossPart)
    # Losses whose slopes have kinks.
    kinked: ClassVar[cached_property[list[ClippedPart]]] = _of_kind(ClippedPart)

    @cached_property
    def c(self) -> Host:
        """The sum of the slopes of the linear parts."""
        slopes = [part.c for part in self.tilts]
        return np.asarray(np.sum([np.zeros(self.n), *slopes], axis=0))

    @property
    def curved(self) -> list[Part]:
        """The parts of h that are not linear."""
        return [part for part in self.parts if not isinstance(part, LinearPart)]

    @property
    def is_squares(self) -> bool:
        """Are all parts sums of squares?"""
        return len(self.squares) == len(self.parts)

    @cached_property
    def has_norm(self) -> bool:
        """Is some part a squared norm of all variables, which makes h strictly convex?"""
        return any(
            len(part.rows) == np.count_nonzero(part.rows) == np.count_nonzero(np.diag(part.rows))
            for part in self.squares
            if part.rows.shape == (self.n, self.n)
        )

    def between_kinks(self, x: Host) -> tuple[Parts, Kinks]:
        """The parts without outliers at x, and how far the rows are from their kinks.

        As long as no row passes a kink, h is the sum of the returned parts and a linear function of
        the outliers' products.
        """
        each = [(part, part.kinks(x)) for part in self.kinked]
        parts = {id(part): part.some(~kinks.is_outlier) for part, kinks in each}
        curved = (parts.get(id(part), part) for part in self.parts)
        near = Parts(self.n, tuple(part for part in curved if part.rows.any()))
        nothing = np.zeros(0)
        none = Kinks(np.zeros((0, self.n)), nothing, np.zeros(0, dtype=bool), nothing, nothing)
        every = zip(none, *(kinks for _, kinks in each), strict=True)
        return near, Kinks(*map(np.concatenate, every))

    @cached_property
    def is_quadratic(self) -> bool:
        """Are all parts quadratic or linear?"""
        return not (self.losses or self.kinked)

    @cached_property
    def _slopes(self) -> dict[bytes, Slope]:
        return {}

    def slope(self, x: Host) -> Slope:
        """The gradient at x; the latest gradients are cached, as callers often need them again."""
        key = x.tobytes()
        if key not in self._slopes:
            while len(self._slopes) >= KEPT_SLOPES:
                del self._slopes[next(iter(self._slopes))]
            self._slopes[key] = self._slope(x)
        return self._slopes[key]

    def _slope(self, x: Host) -> Slope:
        """The gradient at x; products with the rows and their transpose use twice the precision."""
        if not self.parts:
            return Slope(np.zeros(self.n), 0.0, 0.0)
        pairs = [(part, part.dual(x)) for part in self.parts]
        vector = total([part.sliced.terms(dual, transposed=True) for part, dual in pairs])
        shape = sum(len(part.rows) for part in self.parts), self.n
        size = sum(part.norm * part.size(x) for part in self.parts)
        is_plain = any(part.sliced.is_plain for part in self.parts)
        error = product_error(norm(vector), shape, size, is_plain)
        in_images, apart = [], error
        for part, dual in pairs:
            of_dual = 8.0 * EPS * part.norm * (norm(dual) + part.noise(x, dual))
            error += of_dual
            seen = part.image_error(x, dual)
            if math.isfinite(seen):
                in_images.append(seen)
                of_dual *= rounding_unit(EPS, self.n)  # R has rounding errors too
            apart += of_dual
        return Slope(vector, size, error, math.hypot(*in_images), apart)

    def curvature(self, x: Host, above: bool = False) -> Host:
        """R such that R'R is the Hessian at x; for ``above`` see `Part.curvature_above`."""
        blocks = [p.curvature_above(x) if above else p.curvature(x) for p in self.parts]
        return np.vstack([np.zeros((0, self.n)), *blocks])

    def largest_change(self, d: Host) -> float:
        """The largest change of a margin along d, or of a residual relative to its kinks."""
        units = [*((1.0, part) for part in self.losses), *((p.unit, p) for p in self.kinked)]
        return max((float(np.max(np.abs(p.rows @ d))) / unit for unit, p in units), default=0.0)

    def magnified(self, x: Host) -> Parts:
        """A multiple of h such that derivatives of logistic losses at x do not underflow."""
        lifts = [part.phi.lift for part in self.losses]
        if not lifts or len(lifts) < len(self.parts) or None in lifts:
            return self
        lift = max(min(float(np.min(part.rows @ x)) for part in self.losses), 0.0)
        if all(of_part == lift for of_part in lifts):
            return self
        return Parts(self.n, tuple(part.lifted(lift) for part in self.losses))

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        """The function step -> derivative of h(x + step d) with respect to step."""
        parts = [part.along(x, d) for part in self.parts]
        return lambda step: sum(part(step) for part in parts)

    def blocks(self) -> list[Host]:
        """The matrices whose products with x determine h(x); linear terms form a single row."""
        blocks = [part.rows for part in self.curved]
        return [*blocks, self.c[None]] if self.c.any() else blocks

    def with_margins(self, share: float) -> Parts:
        """The function h with all margins multiplied by ``share``."""
        parts = [
            replace(part, rows=share * part.rows) if isinstance(part, LossPart) else part
            for part in self.parts
        ]
        return Parts(self.n, tuple(parts))

    def with_kinks(self, share: float) -> Parts:
        """The function h with all distances between kinks and targets multiplied by ``share``."""
        parts = [p.with_kinks(share) if isinstance(p, ClippedPart) else p for p in self.parts]
        return Parts(self.n, tuple(parts))

    def without_negligible(self, x: Host, least: float) -> Parts:
        """The function h without the losses whose slopes at x are at most ``least``."""
        parts = []
        for part in self.parts:
            if isinstance(part, LossPart):
                visible = part.phi.visible(part.rows @ x, part.target)
                visible = part.weight * part.weights * visible
                part = part.some(visible * part.lengths > least)
            parts.append(part)
        return Parts(self.n, tuple(part for part in parts if part.rows.any()))

    def rows(self, epsilon: float = EPS, sizes: Host | None = None) -> Host:
        """All rows whose products with x determine h(x), with every matrix divided by its norm.

        Columns and rows that are only rounding errors become 0: ``epsilon`` is the data's machine
        epsilon, and columns are compared after division by their ``sizes`` (0 means unknown).
        """
        units = None if sizes is None else power_of_two(sizes, -1.0)
        scaled = [cleaned(block, epsilon, units) / norm(block) for block in self.blocks()]
        return np.vstack([np.zeros((0, self.n)), *scaled])

    def sizes(self) -> Host:
        """For each variable, the largest of the sizes of its columns in all matrices."""
        columns = [part.column_sizes() for part in self.parts]
        return np.asarray(np.max([np.zeros(self.n), *columns], axis=0))

    def stretched(self, units: Host) -> Parts:
        """h as a function of u with x = units u, entry by entry; exact if units are powers of 2."""
        return Parts(self.n, tuple(part.stretched(units) for part in self.parts))

    def reweighted(self, weights: Host) -> Parts:
        """The sums of squares, with residuals times ``weights`` and matrices scaled to about 1."""
        parts, done = [], 0
        for part in self.squares:
            mine = np.ldexp(weights[done : done + len(part.rows)], -top_exponent(part.rows))
            parts.append(LeastSquaresPart(1.0, mine[:, None] * part.rows, mine * part.target))
            done += len(part.rows)
        return Parts(self.n, tuple(parts))

    @property
    def unit(self) -> float:
        """The number that `rows` divides by if there is only one matrix; otherwise 1."""
        blocks = self.blocks()
        return norm(blocks[0]) if len(blocks) == 1 else 1.0

    @property
    def exponent(self) -> int:
        """The k of the power 2^k that `scaled` divides by."""
        return max((part.exponent for part in self.parts), default=0)

    @cached_property
    def scaled(self) -> Parts:
        """The function h up to a positive factor, with magnitudes near 1 to avoid overflow.

        All factors are powers of two, so nothing is rounded.
        """
        exponent = self.exponent
        return Parts(self.n, tuple(part.scaled(exponent) for part in self.parts))

    def composed(self, M: Host) -> Parts:
        """h as a function of u with x = M u."""
        return Parts(M.shape[1], tuple(part.composed(M) for part in self.parts))


def decompose(owner: str, level: str, h: Function, n: int) -> Parts:
    """The parts of ``h``, a function of n variables; raise a Refusal if some part is unknown."""
    parts: list[Part] = []
    for weight, part in summands(h.bare):
        rows = n if part.matrix is None else max(part.matrix.shape[0], n)
        if rows * n > DENSE_LIMIT:
            needed = f"must have at most {DENSE_LIMIT:,} matrix entries to be factorised"
            raise Refusal(owner, level, needed, f"{rows} x {n}")
        if part.matrix is not None and not part.matrix.is_explicit:
            needed = "must have matrices with known entries, which can be factorised"
            raise Refusal(owner, level, needed, f"an operator of {part.matrix.shape[0]} x {n}")
        found = part.parts(weight, n)
        if found is None:
            needed = "must be made of LeastSquares, Logistic or other functions with known parts"
            raise Refusal(owner, level, needed, type(part).__name__)
        parts.extend(found)
    return Parts(n, tuple(part for part in parts if part.rows.any()))  # other parts are constant
