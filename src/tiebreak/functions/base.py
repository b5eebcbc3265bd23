"""The contract of a function, and what an evaluation of it gives.

Besides ``value`` and ``gradient`` a function offers the two calls that let a method read the data
as rarely as possible:

    forward(*xs)              the images of some points under the function's matrix
    evaluate(at, values_at)   value and slope at some points with images, the value alone at others

Images are linear in the point, so that a method which mixes points mixes their images too and
never multiplies twice; ``evaluate`` then costs one adjoint product per slope, and values are free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from tiebreak.functions.far_slopes import FarRows
from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import Array, FromData, Host, Image, Matrix, arrays, in_files
from tiebreak.linalg.conic_form import ConicForm, Cost


class PointWithImage(NamedTuple):
    """A point with its image under one function's matrix."""

    x: Array
    image: Image
    reach: Any = None  # see `Minorant`


@in_files("minorant")
class Minorant(NamedTuple):
    """A minorant of a convex function: h(x) >= value + <slope, x - at> for all x."""

    at: Array
    value: float
    slope: Array
    size: float = 0.0  # of a sum: the sum of the sizes of its parts, which may cancel in the value
    # Where the image was mixed from others: the mixture of their lengths, of which it errs by a few
    # units, and which may be far longer than the point. None: multiplied, so |at|.
    reach: Any = None

    def reaching(self, other: PointWithImage) -> Minorant:
        """The same with a reach that suffices for the image of another point too."""
        known = [reach for reach in (self.reach, other.reach) if reach is not None]
        return self._replace(reach=sum(known)) if known else self


Projection: TypeAlias = Callable[[Array], Array]  # onto Z
Outcome: TypeAlias = tuple[list[Minorant], list[float]]  # minorants, and values at other points


class PendingEvaluation:
    """An evaluation that has begun: calling it waits for its end, and gives the outcome.

    ``slopes`` need not wait: those on a GPU can go into what is to be computed there next. Its
    ``losses``, if they are known as such, can be waited for together with other numbers: see
    `arrays.fetch_together`.
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
        """Losses at the points ``at`` and at others after them, slopes at the first."""

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
        """The slopes of the minorants, in their order."""
        if self._slopes is not None:
            return self._slopes()
        return [minorant.slope for minorant in self()[0]]


class Squares(NamedTuple):
    """scale/2 times the sum of weights_i (rows x - target)_i², as they were given."""

    rows: Any  # a matrix; None: the variables themselves
    target: Any  # one for each row; None: 0
    weights: Any = None  # of the rows; None: all are 1
    scale: float = 1.0


class Function(FromData, is_open=True):
    """What a level can be: a convex function, smooth or the sum of a smooth one and a penalty.

    ``lipschitz`` is an upper bound on the gradient's Lipschitz constant (inf if unknown),
    ``strong_convexity`` a lower bound on the curvature, ``lower_bound`` a number that the function
    never falls below (-inf if unknown), ``dimension`` the number of variables (None if any).
    """

    lipschitz: float
    strong_convexity: float = 0.0
    defect: float = 0.0  # how far below zero rounding may have put the curvature of a convex one
    lower_bound: float = -math.inf
    dimension: int | None = None
    matrix: Matrix | None = None  # that of a loss or a quadratic
    shares_passes: bool = False  # do products wait for an evaluation, which does all in one pass?
    __array_ufunc__ = None  # so that a NumPy number times a function comes to __rmul__
    prototype: Array | None = None  # an empty vector of the function's library, dtype and device
    data_epsilon: float = 0.0  # unit of rounding of its data, where these are taken in float64
    note: str = ""  # how its data were taken, for the report, where that could surprise
    names: tuple[Any, ...] | None = None  # of the variables, where a table of pandas has them
    describing: ClassVar[tuple[str, ...]] = (
        *("add_to_conic", "far_rows", "parts", "squares", "falls_unseen"),
    )
    falls_unseen: bool = True  # may it decrease forever, never reaching its infimum, unnoticed?
    degree: float = math.inf  # of the polynomial that it is
    is_zero: ClassVar[bool] = False  # is it 0 everywhere?
    title: str = ""  # in the words of a report; "" for the name of its class
    known_by: str = ""  # all that is known of it, where that is less than a description

    def value(self, x: Array) -> float:
        """h(x)."""
        raise NotImplementedError

    def gradient(self, x: Array) -> Array:
        """The gradient of h at x."""
        raise NotImplementedError

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        """The images of ``xs``; a function without a matrix has none."""
        return (None,) * len(xs)

    def evaluate(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> Outcome:
        """Minorants at the points ``at``, values at the points ``values_at``."""
        return self.evaluate_async(at, values_at)()

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        """Begin ``evaluate``; what is returned waits for its end, and gives the outcome.

        Where the data are on a GPU or on a cluster, two functions then work at the same time.
        """

        def end() -> Outcome:
            found = [Minorant(p.x, self.value(p.x), self.gradient(p.x), reach=p.reach) for p in at]
            return found, [self.value(p.x) for p in values_at]

        return PendingEvaluation(end)

    def note_reading(self) -> None:
        """Once more all data were read, without an evaluation: for whoever counts."""

    def passes(self, forwards: int, slopes: int, values: int) -> int:
        """How many data passes so many forward products, slopes and values cost."""
        return 0

    @property
    def known_lipschitz(self) -> float:
        """An upper bound on ``lipschitz`` without a data pass where these are expensive."""
        return self.lipschitz

    @property
    def rough_lipschitz(self) -> float:
        """An upper bound where it need not be close: no more products than a step takes."""
        return self.known_lipschitz

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        """Bounds on the rounding errors of a computed value and of a computed slope (its norm).

        At a point with |x| <= reach, where the value is ``value`` and the slope has norm ``slope``,
        in arithmetic with unit of rounding ``epsilon``, with ``n`` variables.
        """
        raise NotImplementedError

    def rounding_errors(
        self, x: Array, reach: float, value: float, slope: float
    ) -> tuple[float, float]:
        """`rounding` in the precision of x, and what single precision may lose by underflow."""
        errors = self.rounding(reach, value, slope, arrays.epsilon(x), int(x.shape[0]))
        lost = arrays.underflow(x)
        return errors[0] + lost, errors[1] + lost

    def extent(self, x: Array) -> float:
        """The ``reach`` of x in `rounding`: |x|, or less where its long entries hardly count.

        A column of a matrix that is much smaller than others makes entries of x large, and their
        products are none the larger for it.
        """
        return arrays.norm(x)

    def magnitude(self, reach: float, value: float, slope: float) -> float:
        """A bound on the sizes of the terms that make up the value where |x| <= reach.

        For a Sum, which knows its own value but not those of its parts. ``value`` and ``slope``
        are the Sum's; a function that knows its data does not need them.
        """
        return abs(value) + (slope + self.turning(reach, slope)) * reach

    def turning(self, reach: float, slope: float) -> float:
        """How far a slope of norm ``slope`` turns within ``reach``; a guess where L is unknown."""
        known = self.rough_lipschitz
        return known * reach if math.isfinite(known) else slope

    # --- what it says of itself; "unknown" is the default ---

    def add_to_conic(self, form: ConicForm, cost: Cost, weight: float) -> bool:
        """Add ``weight`` times the function to a conic program; False: its form is not known."""
        return False

    def far_rows(self, weight: float, n: int) -> FarRows | None:
        """How ``weight`` times a function of n variables grows far out; None: not known."""
        return None

    def parts(self, weight: float, n: int) -> Sequence[Part] | None:
        """What ``weight`` times a function of n variables is made of, for ``exact``.

        None: not known. It is asked for only if the entries of its matrix are at hand.
        """
        return None

    def solution_dimension(self, center: Any, radius: float) -> int | None:
        """The dimension of its minimisers in a ball, R^n if its radius is inf; None: not known."""
        return None

    @property
    def squares(self) -> Squares | None:
        """The squares that it is the sum of; None if it is something else."""
        return None

    @property
    def bare(self) -> Function:
        """The function itself, without the wrapper that counts."""
        return self

    @property
    def in_float64(self) -> Function | None:
        """The same function of the same data for vectors in float64; None if that is not known.

        The data may stay in single precision: then they are converted as they are read.
        """
        return None

    @property
    def growth(self) -> float:
        """mu > 0 with h(x) - min h <= |grad h(x)|²/(2 mu) on all of R^n, or 0 if none is known."""
        return self.strong_convexity

    def __repr__(self) -> str:
        size = "" if self.dimension is None else f" of {self.dimension} variables"
        return f"<{type(self).__name__}{size}>"


def delegated(path: str) -> Any:
    """A property or a method that is another object's: ``delegated("function.passes")``."""
    return property(attrgetter(path))


def is_weight(value: object) -> TypeGuard[float]:
    """Is it a number that a function or a penalty can be multiplied by?"""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


class EstimatorLoss:
    """What estimators ask of a loss of rows, with or without a gradient."""

    loss_name: ClassVar[str] = ""  # of estimators that fit it, their argument; "" where none does
    loss_parameters: ClassVar[dict[str, str]] = {}  # of these, and its own name for each
    task: ClassVar[str] = "regression"  # or "two classes", "more classes"
    has_counts: ClassVar[bool] = False  # must the targets not be negative?
    lower_bound = 0.0

    @staticmethod
    def predicted(scores: Host) -> Host:
        """What is predicted for rows whose products with the coefficients are these."""
        return scores


class SmoothFunction(Function, is_open=True):
    """A convex function with Lipschitz gradient."""

    @property
    def bare(self) -> SmoothFunction:
        return self

    @property
    def in_float64(self) -> SmoothFunction | None:
        return None

    def sized(self, x0: Array, project: Projection) -> SmoothFunction:
        """The same for a run from x0 in Z, with the sizes that its rounding errors need."""
        return self

    def without_structure(self, own: tuple[str, ...]) -> SmoothFunction:
        """Its value and its gradient, with the constants that its class states."""
        from tiebreak.functions.callables import Smooth

        constants = {"lipschitz", "strong_convexity", "lower_bound"}.intersection(own)
        smooth = Smooth(self.value, self.gradient, **{c: getattr(self, c) for c in constants})
        vars(smooth).update(
            dimension=self.dimension,
            prototype=self.prototype,
            names=self.names,
            note=f"{type(self).__name__} has its own {', '.join(own)}: taken as a Smooth",
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
