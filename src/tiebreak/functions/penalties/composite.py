"""The sum of a smooth function and a penalty, and how any function splits into these parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiebreak.functions.base import (
    Function,
    Outcome,
    PendingEvaluation,
    PointWithImage,
    SmoothFunction,
    delegated,
    is_weight,
    with_members,
)
from tiebreak.functions.elementary import Flat
from tiebreak.functions.penalties.penalties import Penalty, Zero
from tiebreak.linalg import Array, tables
from tiebreak.linalg.fingerprints import known, remember


@with_members(
    delegated("smooth"),
    *("lipschitz", "known_lipschitz", "rough_lipschitz", "strong_convexity", "defect"),
    "lower_bound",  # penalties are never negative
    *("gradient", "forward", "passes", "rounding", "extent", "amplification"),
)
class Composite(Function, in_tables=False):
    """The sum of a smooth function and a penalty, written ``smooth + penalty``.

    ``value`` is the value of the sum. Everything about slopes (minorants, lipschitz,
    strong_convexity, rounding) refers to the smooth part alone; the penalty is handled separately.
    """

    smooth: SmoothFunction
    penalty: Penalty

    def __init__(self, smooth: SmoothFunction, penalty: Penalty) -> None:
        remember(self, Composite, smooth=smooth, penalty=penalty)
        self.smooth, self.penalty = known(smooth), known(penalty)
        both = ("the smooth part", smooth.names), ("the penalty", penalty.names)
        self.names: tuple[Any, ...] | None = tables.common("Composite", *both)
        sizes = [p.dimension for p in (smooth, penalty) if p.dimension is not None]
        self.dimension: int | None = sizes[0] if sizes else None
        if self.dimension is not None:
            penalty.check(self.dimension)
        self.prototype: Any | None = smooth.prototype

    def __repr__(self) -> str:
        is_flat = isinstance(self.smooth.bare, Flat)
        return repr(self.penalty) if is_flat else f"{self.smooth!r} + {self.penalty!r}"

    @property
    def bare(self) -> Composite:
        return Composite(self.smooth.bare, self.penalty)

    @property
    def in_float64(self) -> Composite | None:
        smooth = self.smooth.in_float64
        return None if smooth is None else Composite(smooth, self.penalty)

    growth = 0.0

    def value(self, x: Array) -> float:
        return self.smooth.value(x) + self.penalty.value(x)

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        """Minorants of the smooth part, but values of the whole sum."""
        pending = self.smooth.evaluate_async(at, values_at)

        def end() -> Outcome:
            minorants, values = pending()
            both = zip(values, values_at, strict=True)
            return minorants, [value + self.penalty.value(p.x) for value, p in both]

        return PendingEvaluation(end, pending.slopes)

    def __add__(self, other: object) -> Any:
        if isinstance(other, Composite):
            return Composite(self.smooth + other.smooth, self.penalty + other.penalty)
        if isinstance(other, Penalty):
            return Composite(self.smooth, self.penalty + other)
        if isinstance(other, SmoothFunction):
            return Composite(self.smooth + other, self.penalty)
        return NotImplemented

    def __radd__(self, other: object) -> Any:
        return self if isinstance(other, int) and other == 0 else self.__add__(other)

    def __rmul__(self, weight: object) -> Composite:
        if not is_weight(weight):
            return NotImplemented
        # The penalty comes first, so that a message about a negative weight names the penalty.
        penalty = weight * self.penalty
        return Composite(weight * self.smooth, penalty)

    __mul__ = __rmul__


NOTHING = Zero()  # one object for all functions, so that its terms are made only once


def split(h: Function | Penalty) -> tuple[SmoothFunction, Penalty]:
    """The smooth part and the penalty of a function; a missing part is 0."""
    if isinstance(h, Composite):
        return h.smooth, h.penalty
    if isinstance(h, Penalty):
        return Flat(), h
    assert isinstance(h, SmoothFunction)
    return h, NOTHING
