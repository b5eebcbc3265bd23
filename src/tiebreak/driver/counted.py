"""A function that counts its gradients and data passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from tiebreak.functions import PendingEvaluation, PointWithImage, SmoothFunction, matrices_of
from tiebreak.functions.base import delegated, with_members
from tiebreak.linalg import Array, Image, arrays, deadline


# Attributes that need no counting come from the function itself.
@with_members(
    delegated("function"),
    *("bare", "lipschitz", "known_lipschitz", "rough_lipschitz", "strong_convexity", "defect"),
    *("lower_bound", "growth", "shares_passes", "rounding", "extent", "magnitude", "turning"),
    "amplification",
)
class Counted(SmoothFunction, keyword=""):
    """Counts how often a function is evaluated, and otherwise behaves like that function.

    The certificate assumes that an evaluation is as precise as its point. Points that are more
    precise than the data are therefore rejected: some libraries would round such points silently.
    """

    meanwhile: Callable[[], object] = staticmethod(lambda: None)  # called while an evaluation runs

    def __init__(self, function: SmoothFunction, counter: Counted | None = None) -> None:
        self.function, self._counter = function, counter or self
        self.gradients = self.passed = 0
        self.dimension, self.prototype = function.dimension, function.prototype
        self._entries = sum(matrix.size for matrix in matrices_of(function))
        own = self.prototype
        # The dtype of single-precision data. None skips `_check`, which is called ten times per
        # step.
        self._single = own.dtype if own is not None and arrays.is_single(own) else None

    @cached_property
    def in_float64(self) -> Counted | None:
        """Return a float64 version of this function that adds to the same counts."""
        wide = self.function.in_float64
        return None if wide is None else Counted(wide, self._counter)

    def count(self, products: int, slopes: int, values: int) -> None:
        """Add to the counts of forward products, slopes and values."""
        self._counter.gradients += slopes
        passes = self.function.passes(products, slopes, values)
        self._counter.passed += passes
        deadline.spend(passes * self._entries)

    def note_reading(self) -> None:
        self._counter.passed += 1
        deadline.spend(self._entries)

    def _check(self, x: Array) -> None:
        """Raise ValueError if x is more precise than the data."""
        if self._single is not None and x.dtype != self._single and not arrays.is_single(x):
            raise ValueError(
                f"{type(self.bare).__name__}: points must be {arrays.kind(self.prototype)} like "
                f"its data, got {arrays.kind(x)}"
            )

    def value(self, x: Array) -> float:
        self._check(x)
        self.count(1, 0, 1)
        return self.function.value(x)

    def gradient(self, x: Array) -> Array:
        self._check(x)
        self.count(1, 1, 0)
        return self.function.gradient(x)

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        for x in xs:
            self._check(x)
        self.count(len(xs), 0, 0)
        return self.function.forward(*xs)

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        for point in (*at, *values_at):
            self._check(point.x)
        self.count(0, len(at), len(values_at))
        pending = self.function.evaluate_async(at, values_at)
        self.meanwhile()
        return pending
