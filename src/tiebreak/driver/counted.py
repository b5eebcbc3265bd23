"""A function that counts its gradients and data passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter

from tiebreak.functions import matrices_of
from tiebreak.functions.base import Outcome, PendingEvaluation, PointWithImage, SmoothFunction
from tiebreak.linalg import Array, Image, arrays, deadline


class Counted(SmoothFunction, keyword=""):
    """Counts how often a function is evaluated; otherwise it is the function itself.

    The certificate assumes that an evaluation is as precise as its point. Points that are more
    precise than the data therefore go to the function in float64: NumPy would promote its products
    anyway, but other libraries would round silently.
    """

    meanwhile: Callable[[], object] = staticmethod(lambda: None)  # called while an evaluation runs

    def __init__(self, function: SmoothFunction, counter: Counted | None = None) -> None:
        self.function, self._counter = function, counter or self
        self.gradients = self.passed = 0
        self.dimension, self.prototype = function.dimension, function.prototype
        self._entries = sum(matrix.size for matrix in matrices_of(function))
        own = self.prototype
        # None if no point can be more precise: saves ten checks per step.
        self._single = own.dtype if own is not None and arrays.is_single(own) else None

    @cached_property
    def in_float64(self) -> Counted | None:
        """Return the function in float64; both count together."""
        wide = self.function.in_float64
        return None if wide is None else Counted(wide, self._counter)

    def count(self, products: int, slopes: int, values: int) -> None:
        """Add to the numbers of forward products, slopes and values."""
        self._counter.gradients += slopes
        passes = self.function.passes(products, slopes, values)
        self._counter.passed += passes
        deadline.spend(passes * self._entries)

    def note_reading(self) -> None:
        self._counter.passed += 1
        deadline.spend(self._entries)

    def _for(self, x: Array) -> Counted:
        """Return this function, or the one in float64 if x is more precise than the data."""
        if self._single is None or x.dtype == self._single or arrays.is_single(x):
            return self
        if self.in_float64 is None:
            raise ValueError(
                f"{type(self.bare).__name__}: points must be {arrays.kind(self.prototype)} like "
                f"its data, which have no float64 version, got {arrays.kind(x)}"
            )
        return self.in_float64

    def _is_plain(self, points: Sequence[PointWithImage]) -> bool:
        """Do all points have the dtype of the data, as they nearly always do?"""
        for p in points:  # noqa: SIM110 -- a generator would take three times as long
            if p.x.dtype != self._single:
                return False
        return True

    def value(self, x: Array) -> float:
        h = self._for(x)
        h.count(1, 0, 1)
        return h.function.value(x)

    def gradient(self, x: Array) -> Array:
        h = self._for(x)
        h.count(1, 1, 0)
        return h.function.gradient(x)

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        self.count(len(xs), 0, 0)
        if self._single is None:
            return self.function.forward(*xs)
        # A more precise point gets a new image when it is evaluated; until then this one will do.
        return self.function.forward(
            *[x if self._for(x) is self else arrays.like(x, self.prototype) for x in xs]
        )

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        if self._single is not None and not (self._is_plain(at) and self._is_plain(values_at)):
            return self._evaluate_apart(at, values_at)
        self.count(0, len(at), len(values_at))
        pending = self.function.evaluate_async(at, values_at)
        self.meanwhile()
        return pending

    def _evaluate_apart(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage]
    ) -> PendingEvaluation:
        """Begin to evaluate points, some of which may need the function in float64.

        Those get new images: a combination of several images may contain a rounded one.
        """
        parts = []
        for h in dict.fromkeys(self._for(p.x) for p in (*at, *values_at)):
            mine = [[p for p in points if self._for(p.x) is h] for points in (at, values_at)]
            if h is not self:
                mine = [[PointWithImage(p.x, *h.forward(p.x)) for p in points] for points in mine]
            h.count(0, *map(len, mine))
            parts.append((h, h.function.evaluate_async(*mine)))

        def end() -> Outcome:
            found = [(h, *pending()) for h, pending in parts]
            seen = {h: iter(some) for h, some, _ in found}
            values = {h: iter(some) for h, _, some in found}
            return (
                [next(seen[self._for(p.x)]) for p in at],
                [next(values[self._for(p.x)]) for p in values_at],
            )

        return PendingEvaluation(end)


# Members that need no counting are passed through.
for _name in (
    *("bare", "lipschitz", "known_lipschitz", "rough_lipschitz", "strong_convexity", "defect"),
    *("lower_bound", "growth", "shares_passes", "rounding", "extent", "magnitude", "turning"),
):
    setattr(Counted, _name, property(attrgetter(f"function.{_name}")))
