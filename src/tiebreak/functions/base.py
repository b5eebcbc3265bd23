"""The interface of a function, and the outcome of an evaluation.

Besides ``value`` and ``gradient``, a function offers two calls that let a method read the data as
rarely as possible:

- ``forward(*xs)`` returns the images of some points under the function's matrix.
- ``evaluate(at, values_at)`` returns value and slope at some points, and only the value at others.

The points passed to ``evaluate`` come with their images. Images are linear in the point, so a
method that combines points combines their images too, without another product. ``evaluate`` then
needs one adjoint product per slope, and no product for a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, TypeGuard, TypeVar

import numpy as np

from tiebreak.functions.far_slopes import FarRows
from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import TINY, Array, FromData, Host, Image, Matrix, arrays, in_files
from tiebreak.linalg.conic_form import ConicForm, Cost


class PointWithImage(NamedTuple):
    """A point with its image under one function's matrix."""

    x: Array
    image: Image
    reach: Any = None  # defined in `Minorant`


@in_files("minorant")
class Minorant(NamedTuple):
    """A minorant of a convex function: h(x) >= value + <slope, x - at> for all x."""

    at: Array
    value: float
    slope: Array
    size: float = 0.0  # for a Sum, the sum of its parts' sizes (the values may cancel)
    # If the image combines other images, ``reach`` combines the norms of their points in the same
    # way. The image's rounding error is proportional to ``reach``, which may far exceed |at|. If
    # ``reach`` is None, it is |at|.
    reach: Any = None

    def reaching(self, other: PointWithImage) -> Minorant:
        """The same minorant, with the reach of ``other`` added to its own reach."""
        known = [reach for reach in (self.reach, other.reach) if reach is not None]
        return self._replace(reach=sum(known)) if known else self


Kind = TypeVar("Kind")

Projection: TypeAlias = Callable[[Array], Array]  # the projection onto Z
Outcome: TypeAlias = tuple[list[Minorant], list[float]]  # see `Function.evaluate`


class PendingEvaluation:
    """An evaluation in progress: calling the object waits until it ends and returns the outcome.

    ``slopes`` does not wait: on a GPU, slopes can enter the next computation before they are known.
    ``losses``, if given, can be fetched together with other numbers: see `arrays.fetch_together`.
    """

    losses: Callable[[], list[float]] | None

    def __init__(
        self,
        end: Callable[[], Outcome],
        slopes: Callable[[], list[Array]] | None = None,
        losses: Callable[[], list[float]] | None = None,
    ) -> None:
        self._end, self._slopes, self.losses = end, slopes, losses
        self._outcome: Outcome | None = None

    @classmethod
    def of(
        cls,
        at: Sequence[PointWithImage],
        losses: Callable[[], list[float]],
        slopes: Callable[[], list[Array]],
    ) -> PendingEvaluation:
        """An evaluation with slopes at the points ``at``, and losses at those and other points."""

        def end() -> Outcome:
            found = losses()
            each = zip(at, found, slopes())  # noqa: B905
            minorants = [Minorant(p.x, loss, slope, reach=p.reach) for p, loss, slope in each]
            return minorants, found[len(at) :]

        return cls(end, slopes, losses)

    def __call__(self) -> Outcome:
        if self._outcome is None:
            self._outcome = self._end()
        return self._outcome

    def slopes(self) -> list[Array]:
        """The slopes of all minorants, in order."""
        if self._slopes is not None:
            return self._slopes()
        return [minorant.slope for minorant in self()[0]]


class Squares(NamedTuple):
    """scale/2 times the sum of weights_i (rows x - target)_i², for the data the user gave."""

    rows: Any  # a matrix, or None for the variables themselves
    target: Any  # one entry per row, or None for 0
    weights: Any = None  # one weight per row, or None if all are 1
    scale: float = 1.0


class Function(FromData, is_open=True):
    """A convex function, smooth or the sum of a smooth function and a penalty.

    ``lipschitz`` is an upper bound on the gradient's Lipschitz constant (inf if unknown), and
    ``strong_convexity`` is a lower bound on the curvature. ``lower_bound`` is a lower bound on the
    values (-inf if unknown), and ``dimension`` is the number of variables (None if the function
    accepts any number).
    """

    lipschitz: float
    strong_convexity: float = 0.0
    defect: float = 0.0  # how far rounding may have pushed the curvature below zero
    lower_bound: float = -math.inf
    dimension: int | None = None
    matrix: Matrix | None = None  # the matrix of a loss or a quadratic
    # Are products deferred until the next evaluation, which then reads the data only once?
    shares_passes: bool = False
    __array_ufunc__ = None  # so that a NumPy number times a function calls __rmul__
    prototype: Array | None = None  # an empty vector of the function's library, dtype and device
    amplification: float = 1.0  # the weight of numbers in the function that may underflow
    data_epsilon: float = 0.0  # machine epsilon of the data before they became float64
    note: str = ""  # a remark for the report if the data were interpreted in an unexpected way
    names: tuple[Any, ...] | None = None  # names of the variables, if they come from a pandas table
    describing: ClassVar[tuple[str, ...]] = (
        *("add_to_conic", "far_rows", "parts", "squares", "falls_unseen"),
    )
    falls_unseen: bool = True  # might the library fail to detect that there is no minimiser?
    degree: float = math.inf  # degree of a polynomial, inf for other functions
    is_zero: ClassVar[bool] = False  # is the function 0 everywhere?
    title: str = ""  # name in a report; if "", the class's name is used
    known_by: str = ""  # for error messages: how a function without a known formula is given

    def value(self, x: Array) -> float:
        """h(x)."""
        raise NotImplementedError

    def gradient(self, x: Array) -> Array:
        """The gradient of the function h at x."""
        raise NotImplementedError

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        """The images of ``xs``; all of them are None if the function has no matrix."""
        return (None,) * len(xs)

    def evaluate(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> Outcome:
        """Minorants at the points ``at``, and values at the points ``values_at``."""
        return self.evaluate_async(at, values_at)()

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        """Start ``evaluate`` and return a handle; calling the handle waits for the outcome.

        In this way, two functions with data on a GPU or a cluster can be evaluated at once.
        """

        def end() -> Outcome:
            found = [Minorant(p.x, self.value(p.x), self.gradient(p.x), reach=p.reach) for p in at]
            return found, [self.value(p.x) for p in values_at]

        return PendingEvaluation(end)

    def note_reading(self) -> None:
        """Count a pass over all the data that was not part of an evaluation."""

    def passes(self, forwards: int, slopes: int, values: int) -> int:
        """The number of data passes that this many forward products, slopes and values need."""
        return 0

    @property
    def known_lipschitz(self) -> float:
        """An upper bound on ``lipschitz``, found without a data pass if passes are expensive."""
        return self.lipschitz

    @property
    def rough_lipschitz(self) -> float:
        """A loose upper bound on ``lipschitz`` that needs no more products than one step."""
        return self.known_lipschitz

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        """Bounds on a value's rounding error, and on the norm of a slope's rounding error.

        The bounds hold at a point x in R^n with |x| <= reach, where the function has the value
        ``value`` and a slope of norm ``slope``, in arithmetic with machine epsilon ``epsilon``.
        If they are unknown, nothing is proved.
        """
        return math.inf, math.inf

    def rounding_errors(
        self, x: Array, reach: float, value: float, slope: float
    ) -> tuple[float, float]:
        """The bounds of `rounding` in the precision of x, plus the possible error from underflow in
        float32, or before a multiplication by weights."""
        errors = self.rounding(reach, value, slope, arrays.epsilon(x), int(x.shape[0]))
        lost = max(self.amplification, 1.0) * arrays.underflow(x) + self.amplification * TINY
        return errors[0] + lost, errors[1] + lost

    def extent(self, x: Array) -> float:
        """The ``reach`` of x for `rounding`: |x|, or less if large entries multiply small columns.

        If a column of the matrix is much smaller than the others, the corresponding entry of x may
        be large, although the products of this entry with the column are not.
        """
        return arrays.norm(x)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        """A bound on the sizes of the terms that make up the value, for |x| <= reach.

        A `Sum` needs this bound for each of its parts, because it only knows its own ``value`` and
        ``slope``, and passes these to the parts. A function that knows its data ignores both
        arguments.
        """
        return abs(value) + (slope + self.turning(reach, slope)) * reach

    def turning(self, reach: float, slope: float) -> float:
        """How far the slope may exceed ``slope`` where |x| <= reach; a guess if L is unknown.

        In a `Sum`, ``slope`` is that of the sum, in which the slopes of the parts may cancel. A
        function whose errors depend on its slope, or whose slope is exact, must allow for that.
        """
        known = self.rough_lipschitz
        return known * reach if math.isfinite(known) else slope

    # --- The methods below are how a function describes itself; the defaults mean "unknown". ---

    @property
    def is_conic(self) -> bool:
        """Can cones represent the function? If so, `add_to_conic` does it."""
        is_known = type(self).add_to_conic is not Function.add_to_conic
        return is_known and (self.matrix is None or self.matrix.is_at_hand)

    def add_to_conic(self, form: ConicForm, cost: Cost, weight: float) -> bool:
        """Add ``weight`` times the function to a conic program; False if no conic form is known."""
        return False

    def far_rows(self, weight: float, n: int) -> FarRows | None:
        """How ``weight`` times a function of n variables grows far from 0; None if unknown."""
        return None

    def parts(self, weight: float, n: int) -> Sequence[Part] | None:
        """The parts of ``weight`` times a function of n variables, for ``exact``; None if unknown.

        This method is only called if the entries of the function's matrix are available.
        """
        return None

    def solution_dimension(self, center: Any, radius: float) -> int | None:
        """The dimension of the set of minimisers in a ball, or in R^n if the radius is inf; None if
        unknown."""
        return None

    @property
    def squares(self) -> Squares | None:
        """The function as a sum of squares; None if the function is not a sum of squares."""
        return None

    @property
    def bare(self) -> Self:
        """The function itself, without the wrapper that counts evaluations."""
        return self

    @property
    def in_float64(self) -> Self | None:
        """The function for vectors in float64; None if it has no float64 version.

        The data may stay in single precision; then they are converted whenever they are read.
        """
        return None

    @property
    def growth(self) -> float:
        """mu > 0 with h(x) - min h <= |grad h(x)|²/(2 mu) on all of R^n, or 0 if none is known."""
        return self.strong_convexity

    def __repr__(self) -> str:
        size = "" if self.dimension is None else f" of {self.dimension} variables"
        return f"<{type(self).__name__}{size}>"


def with_members(member: Callable[[str], Any], *names: str) -> Callable[[type[Kind]], type[Kind]]:
    """A class decorator that adds ``member(name)`` to a class under each of the names."""

    def completed(kind: type[Kind]) -> type[Kind]:
        for name in names:
            setattr(kind, name, member(name))
        return kind

    return completed


def delegated(part: str) -> Callable[[str], Any]:
    """For `with_members`: the members of the attribute ``part``."""
    return lambda name: property(attrgetter(f"{part}.{name}"))


def is_weight(value: object) -> TypeGuard[float]:
    """Is ``value`` a number by which a function or penalty can be multiplied?"""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def signs_of(owner: str, y: Array) -> Array:
    """Convert labels 0 and 1 to -1 and +1.

    Raise ValueError unless all labels are 0 or 1, or all labels are -1 or +1.
    """
    labels = arrays.to_numpy(y)
    if bool(np.all(np.abs(labels) == 1.0)):
        return y
    if not bool(np.all((labels == 0.0) | (labels == 1.0))):
        found = ", ".join(f"{v:g}" for v in np.unique(labels)[:5])
        raise ValueError(f"{owner}: y must hold labels -1 and +1, or 0 and 1, got values {found}")
    return 2.0 * y - 1.0


class EstimatorLoss:
    """What estimators need to know about a loss over rows, with or without a gradient."""

    loss_name: ClassVar[str] = ""  # the loss's name in estimators; "" if no estimator fits it
    # Maps an estimator's parameter names to the names that the loss uses.
    loss_parameters: ClassVar[dict[str, str]] = {}
    task: ClassVar[str] = "regression"  # or "two classes", or "more classes"
    has_counts: ClassVar[bool] = False  # must the targets be non-negative?
    lower_bound: float = 0.0

    @staticmethod
    def predicted(scores: Host) -> Host:
        """The predictions for some rows, given their products with the coefficients."""
        return scores


class SmoothFunction(Function, is_open=True):
    """A convex function with Lipschitz gradient."""

    @property
    def negative(self) -> SmoothFunction | None:
        """-h, if that is convex too: then h is linear, and can be maximised; otherwise None."""
        return None

    def sized(self, x0: Array, project: Projection, in_sum: bool = False) -> SmoothFunction:
        """The function for a run that starts at x0 in Z.

        If error bounds need the typical size of values and slopes, it is measured near x0. A part
        of a sum needs more: only the value and slope of the sum are known at other points.
        """
        return self

    def without_structure(self, own: tuple[str, ...]) -> SmoothFunction:
        """Reduce the function to its value, its gradient and the constants in ``own``."""
        from tiebreak.functions.callables import Smooth

        constants = {"lipschitz", "strong_convexity", "lower_bound"}.intersection(own)
        smooth = Smooth(self.value, self.gradient, **{c: getattr(self, c) for c in constants})
        vars(smooth).update(
            dimension=self.dimension,
            prototype=self.prototype,
            names=self.names,
            note=f"{type(self).__name__} has its own {', '.join(own)}: treated as a Smooth",
        )
        return smooth

    def __add__(self, other: object) -> SmoothFunction:
        from tiebreak.functions.sums import Sum

        return Sum(self, other) if isinstance(other, SmoothFunction) else NotImplemented

    def __radd__(self, other: object) -> SmoothFunction:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # sum([f, g])

    def __rmul__(self, weight: object) -> SmoothFunction:
        from tiebreak.functions.sums import Scaled

        return Scaled(float(weight), self) if is_weight(weight) else NotImplemented

    __mul__ = __rmul__
