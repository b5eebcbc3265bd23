"""The problem, and checks that reject wrong input with a clear message before the first step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from tiebreak.functions import (
    Function,
    Joint,
    Minorant,
    Penalty,
    PointWithImage,
    SmoothFunction,
    Zero,
    joint,
    split,
    summands,
)
from tiebreak.functions.sums import in_one_precision
from tiebreak.linalg import (
    Array,
    FromData,
    Image,
    arrays,
    assign,
    checks,
    deadline,
    in_files,
    remember,
    tables,
)
from tiebreak.linalg.archive import save
from tiebreak.linalg.fingerprints import known
from tiebreak.sets.base import Domain, Violation
from tiebreak.sets.constraints import arrays_of, intersection
from tiebreak.sets.domains import Space

DOMAIN = "a set such as Box(0.0, 1.0) or Space()"
FUNCTION = (
    "a function such as LeastSquares(A, b), Smooth(value, gradient), L1(0.1) or a sum of them"
)


@in_files("ErrorBound")
@dataclass(frozen=True)
class ErrorBound:
    """A Hölderian error bound of the lower level and a bound on |grad f|; neither is verified.

        modulus/order * dist(x, X_g*)^order <= g(x) - g*   for all x in Z   (Assumption 4.1)

    Args:
        order: r >= 1 (1: weak sharpness, 2: quadratic growth).
        modulus: alpha > 0.
        gradient_bound: M >= |grad f| on the solution set; |grad f(x*)| is enough. If f has a
            penalty, M bounds the subgradients of the whole f on this set.

    Examples:
        >>> growth = tb.ErrorBound(order=2, modulus=2.0, gradient_bound=2.0)
        >>> f, g = tb.SquaredNorm(), tb.LeastSquares([[1, 1]], [2])
        >>> tb.solve(tb.Problem(upper=f, lower=g, error_bound=growth), "agm-bio", rtol=0.1).status
        'certified'
    """

    order: float
    modulus: float
    gradient_bound: float

    def __post_init__(self) -> None:
        # NumPy numbers would decide the precision of a run, so they become Python's.
        assign(self, "order", checks.at_least("ErrorBound", "order", self.order, 1.0))
        assign(self, "modulus", checks.positive("ErrorBound", "modulus", self.modulus))
        bound = checks.at_least("ErrorBound", "gradient_bound", self.gradient_bound)
        assign(self, "gradient_bound", bound)


def check_kind(owner: str, name: str, value: object, kind: Any, what: str) -> None:
    """Raise TypeError unless the value is an object, not a class, of this kind."""
    if isinstance(value, type) or not isinstance(value, kind):
        raise TypeError(f"{owner}: {name} must be {what}, got {checks.what_it_is(value)}")


def html_table(parts: dict[str, object]) -> str:
    """Return a description of the problem as a table for notebooks."""
    rows = (f"<tr><th>{escape(k)}</th><td>{escape(repr(v))}</td></tr>" for k, v in parts.items())
    return f"<table>{''.join(rows)}</table>"


def _linear_slope(h: Function) -> Array | None:
    """Return c if h(x) = <c, x>, possibly as a multiple or sum; otherwise None."""
    parts = summands(h)
    if h.prototype is None or any(part.degree != 1 for _, part in parts):
        return None
    zero = arrays.like(np.zeros(h.dimension or 0), h.prototype)
    slopes = [weight * part.gradient(zero) for weight, part in parts]
    return sum(slopes[1:], slopes[0])


@in_files("point")
class Point(NamedTuple):
    """A point with its images under the matrices of the upper and lower functions."""

    x: Array
    upper: Image = None
    lower: Image = None
    reach: Any = None  # for mixed images: the sum of norms in the bound on their errors

    @property
    def f(self) -> PointWithImage:
        """The point with its image under the matrix of the upper function."""
        return PointWithImage(self.x, self.upper, self.reach)

    @property
    def g(self) -> PointWithImage:
        """The point with its image under the matrix of the lower function."""
        return PointWithImage(self.x, self.lower, self.reach)

    def with_reach(self) -> Point:
        """Return the point with ``reach`` = |x|, unless its images were mixed."""
        return self if self.reach is not None else self._replace(reach=arrays.length(self.x))


class PendingReach(NamedTuple):
    """The sum constant + weight |z|; |z| is still on a device, to be fetched with other numbers."""

    constant: float = 0.0
    weight: float = 1.0

    def __rmul__(self, factor: float) -> PendingReach:  # type: ignore[override]
        return PendingReach(factor * self.constant, factor * self.weight)

    def __add__(self, other: Any) -> PendingReach:
        if isinstance(other, PendingReach):
            return PendingReach(self.constant + other.constant, self.weight + other.weight)
        return self._replace(constant=self.constant + float(other))


T = TypeVar("T", Point, Minorant)


def with_length(at: T, length: float) -> T:
    """Compute the reach of a point or minorant from ``length`` = |z|, if it is still pending."""
    pending = at.reach
    if not isinstance(pending, PendingReach):
        return at
    return at._replace(reach=pending.constant + pending.weight * length)


def mixed(p: Point, q: Point, weight: float) -> Point:
    """Return (1 - weight) p + weight q, with images mixed from theirs without a new product."""
    # The images have errors of a few unit roundoffs times |1 - weight| |p| + |weight| |q|; if p or
    # q is itself a mixture, its ``reach`` replaces its norm. The certificate needs this sum, which
    # is the ``reach`` of the new mixture.
    if weight == 1.0:
        return q
    p, q = p.with_reach(), q.with_reach()
    reach = abs(weight) * q.reach + abs(1.0 - weight) * p.reach
    x, upper, lower = (arrays.mix(a, b, weight) for a, b in zip(p[:3], q[:3], strict=True))
    return Point(x, upper, lower, reach)


class _ByName:
    """Rejects levels that are not passed by name, with a message that shows the correct call."""

    def __new__(cls, *unnamed: object, **named: object) -> Self:
        lacking = [name for name in ("upper", "lower") if named and name not in named]
        if unnamed or lacking:
            got = f"no {' and no '.join(lacking)}" if lacking else f"{len(unnamed)} without a name"
            raise TypeError(
                "Problem: upper and lower must be given by name, as in Problem(upper=f, lower=g), "
                f"which minimises f over all minimisers of g, got {got}"
            )
        return super().__new__(cls)


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem(_ByName, FromData):
    """Minimise ``upper`` over all minimisers of ``lower`` on ``domain``.

        min f(x)   subject to   x in argmin_{z in Z} g(z)

    Args:
        upper: f, the objective that decides among the ties: smooth, a penalty, or a sum of both.
        lower: g, the objective that is minimised first: smooth, a penalty, or a sum of both.
        domain: Z, a closed convex set; all of R^n if not given. An Indicator in ``upper`` or
            ``lower`` is a part of Z, for both levels.
        radius: a promise that some solution has |x| <= radius; it is not verified, and only the
            certificate uses it.
        error_bound: how g grows away from its minimisers; it is not verified either.
        counted: the weights of the variables in the norm that decides among the remaining ties; 0
            for a variable that does not count, such as an intercept; all ones if not given.

    No data are rounded: a problem that mixes float32 and float64 is solved in float64, unless its
    only float64 numbers are vectors of a function or of the domain that float32 holds exactly. If
    pandas tables name the variables, the names must agree everywhere.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])  # one equation, two unknowns: many solutions
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]))
        >>> tb.solve(problem).x.round(6)  # the one nearest to (3, 0)
        array([ 2.5, -0.5])
    """

    upper: Function
    lower: Function
    domain: Domain = field(default_factory=Space)
    radius: float | None = None
    error_bound: ErrorBound | None = None
    counted: Array | None = None
    # the names of the variables, if pandas gives any
    names: ClassVar[tuple[Any, ...] | None] = None
    _latest: ClassVar[Problem | None] = None  # a copy with the numbers used in the last call
    # the problem from which a run made this copy, whose functions count their calls
    original: ClassVar[Problem | None] = None

    if TYPE_CHECKING:  # a penalty alone is accepted and becomes a Composite

        def __init__(
            self,
            *,
            upper: Function | Penalty,
            lower: Function | Penalty,
            domain: Domain = ...,
            radius: float | None = None,
            error_bound: ErrorBound | None = None,
            counted: Array | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check_kinds()
        remember(self, Problem, **{name: getattr(self, name) for name in _names(self)})
        named = ("upper", self.upper.names), ("lower", self.lower.names)
        assign(self, "names", tables.common("Problem", *named, ("domain", self.domain.names)))
        for name in ("upper", "lower"):
            smooth, penalty = split(known(getattr(self, name)))
            assign(self, "domain", intersection("Problem", self.domain, penalty.terms.domain))
            # An indicator is now a part of the domain, and a penalty without weight is dropped.
            has_penalty = penalty.terms.has_weights
            assign(self, name, smooth + penalty.unrestricted if has_penalty else smooth)
        self._check_sizes()
        self._take(*in_one_precision("Problem: upper and lower", self.upper, self.lower))
        if self.is_single and not all(map(self._holds_vectors, self._prototypes)):
            upper, lower = self.upper.in_float64, self.lower.in_float64
            if upper is None or lower is None:
                raise ValueError(
                    "Problem: domain must hold float32 numbers like the functions, which "
                    "cannot be converted to float64; got float64 numbers that would be rounded"
                )
            self._take(upper, lower)
        if self.radius is not None:
            assign(self, "radius", checks.positive("Problem", "radius", self.radius))
        if self.counted is not None:
            assign(self, "counted", checks.weights("Problem", "counted", self.counted))
        if self.dimension is not None:
            self._check_dimension(self.dimension)
        if self._falls_without_end():
            raise ValueError(
                "Problem: lower is unbounded below on the domain, so it has no minimisers"
            )

    def _repr_html_(self) -> str:
        parts = {"upper level f": self.upper, "lower level g": self.lower, "domain": self.domain}
        given = {"radius": self.radius, "error bound": self.error_bound}
        return html_table(parts | {name: value for name, value in given.items() if value})

    def _check_kinds(self) -> None:
        """Raise TypeError if an argument has the wrong kind."""
        check_kind("Problem", "domain", self.domain, Domain, DOMAIN)
        check_kind("Problem", "upper", self.upper, Function | Penalty, FUNCTION)
        check_kind("Problem", "lower", self.lower, Function | Penalty, FUNCTION)
        bound = self.error_bound
        check_kind("Problem", "error_bound", bound, ErrorBound | None, "an ErrorBound")

    def _check_sizes(self) -> None:
        """Raise ValueError if the levels have different numbers of variables."""
        sizes = (self.upper.dimension, self.lower.dimension)
        if None in sizes or sizes[0] == sizes[1]:
            return
        for h, n in ((self.upper, sizes[1]), (self.lower, sizes[0])):
            if split(h)[0].dimension is None and n is not None:
                split(h)[1].check(n)  # for a lone penalty, its own message is clearer
        raise ValueError(
            "Problem: upper and lower must have the same number of variables, "
            f"got {sizes[0]} and {sizes[1]}"
        )

    def _take(self, upper: Function, lower: Function) -> None:
        assign(self, "upper", upper)
        assign(self, "lower", lower)

    @property
    def _prototypes(self) -> list[Array]:
        return [h.prototype for h in (self.upper, self.lower) if h.prototype is not None]

    def _holds_vectors(self, prototype: Array) -> bool:
        """Can the prototype's precision represent the domain's and penalties' vectors exactly?"""
        vectors = arrays_of(self.domain)
        vectors += [v for h in (self.upper, self.lower) for v in split(h)[1].vectors]
        return all(checks.in_precision_of(prototype, v) is not None for v in vectors)

    def current(self) -> Problem:
        """Return a problem with the current numbers of the arrays; itself if none has changed."""
        # Keep the new problem and the results cached in it for the next call.
        latest = FromData.current(self._latest or self)
        if latest is not self:
            assign(self, "_latest", latest)
        return latest

    def save(self, path: str | Path) -> None:
        """Save to a .npz file with all data, for ``tiebreak.load``; nothing is pickled.

        Dtypes and sparse formats are kept (dia, lil and dok become csr), and so are pandas tables
        whose labels are text or numbers; arrays of other libraries come back as NumPy arrays.
        Objects that a file cannot hold are rejected before anything is written: callables, linear
        operators, streamed and distributed rows, and your own classes. The file is written whole or
        not at all; NumPy can read its arrays too, under names such as ``lower.A``.
        """
        now = self.current()
        save("Problem.save", path, "Problem", lambda writer: writer.model("", now, now.names))

    def _falls_without_end(self) -> bool:
        """Is the lower level linear apart from its penalty, and certainly unbounded below on Z?"""
        smooth, penalty = split(self.lower)
        slope = _linear_slope(smooth)
        if slope is None or penalty.terms.square > 0.0 or not self.domain.has_projection:
            return False
        if not penalty.terms.has_weights:
            unit = arrays.max_abs(slope) or 1.0  # prevents overflow of a finite support
            return math.isinf(self.domain.support(slope / -unit / slope.shape[0]))
        if not self.domain.is_cone or penalty.terms.center is not None:
            return False
        # The penalty p is a norm on a cone: d = prox of p at -slope has <slope, d> + p(d) = -|d|².
        # The weight is increased slightly, so that rounding errors do not make us reject a problem
        # that is barely bounded.
        little = math.sqrt(arrays.epsilon(slope))
        try:
            d = self.prox(-slope, 0.0, 1.0 + little)
        except ValueError:  # no prox in closed form
            return False
        return arrays.norm(d) > little * arrays.norm(slope)

    @cached_property
    def dimension(self) -> int | None:
        """The number of variables; None if nothing in the problem determines it."""
        known = (part.dimension for part in (self.upper, self.lower, self.domain))
        return next((n for n in known if n is not None), None)

    def _check_dimension(self, n: int) -> None:
        """Raise ValueError if the domain or a penalty does not fit ``n`` variables."""
        self.domain.check(n)
        if self.counted is not None:
            checks.length("Problem", "counted", self.counted, n, "variable")
        for penalty in self.penalties:
            penalty.check(n)

    @cached_property
    def smooth_parts(self) -> tuple[SmoothFunction, SmoothFunction]:
        """f1 and g1, both levels without their penalties."""
        (f1, _), (g1, _) = split(self.upper), split(self.lower)
        return f1, g1

    @cached_property
    def penalties(self) -> tuple[Penalty, Penalty]:
        """f2 and g2, the penalties of both levels; Zero() if there is none."""
        (_, f2), (_, g2) = split(self.upper), split(self.lower)
        return f2, g2

    @property
    def is_smooth(self) -> bool:
        """Are both levels without a penalty?"""
        return not any(penalty.terms.has_weights for penalty in self.penalties)

    @cached_property
    def joint(self) -> Joint:
        """Both penalties on Z; ValueError if their weighted sums have no prox in closed form."""
        return joint(*self.penalties, self.domain, owner="Problem")

    @cached_property
    def lower_joint(self) -> Joint:
        """The lower penalty on Z; ValueError if it has no prox in closed form."""
        return joint(Zero(), self.penalties[1], self.domain, owner="Problem")

    def prox(self, v: Array, a: float, b: float) -> Array:
        """Return the minimiser over z in Z of a f2(z) + b g2(z) + ½|z - v|²."""
        return (self.lower_joint if a == 0.0 else self.joint).prox(v, a, b)

    @cached_property
    def in_float64(self) -> Problem | None:
        """The problem for vectors in float64; None if its functions do not support that."""
        upper, lower = self.upper.in_float64, self.lower.in_float64
        return None if upper is None or lower is None else replace(self, upper=upper, lower=lower)

    @property
    def is_single(self) -> bool:
        """Are the data of the problem in single precision?"""
        return any(map(arrays.is_single, self._prototypes))

    def in_precision_of(self, x: Array) -> Problem:
        """Return this problem, or its float64 version if only its data are in single precision."""
        return self.in_float64 or self if self.is_single and not arrays.is_single(x) else self

    @property
    def shares_passes(self) -> bool:
        """Does a level postpone its products, so that an evaluation needs only one data pass?"""
        return any(h.shares_passes for h in self.smooth_parts)

    @property
    def is_bounded(self) -> bool:
        """Is the domain bounded?"""
        return math.isfinite(self.domain.diameter_in(self.dimension or 1))

    @property
    def is_open_below(self) -> bool:
        """Is g smooth on R^n with unknown growth?  If so, the slopes of g do not bound g*."""
        is_free = self.domain.is_space and self.radius is None
        if not is_free or self.penalties[1].terms.has_weights:
            return False
        return not deadline.unless_too_long(lambda: self.growth, 0.0) > 0.0

    @property
    def growth(self) -> float:
        """A mu > 0 with g(x) - g* >= mu/2 dist(x, X_g*)² on Z, if one is known; otherwise 0."""
        # Such growth holds for a strongly convex g on every Z, and for least squares on R^n.
        on_space = self.lower.growth if self.domain.is_space else 0.0
        curvature = self.lower.strong_convexity - self.lower.defect
        return max(curvature + self.penalties[1].strong_convexity, on_space)

    def point(self, x: Any, owner: str, name: str, *, is_start: bool = False) -> Array:
        """Return ``x`` as a vector with this problem's array library, dtype and length."""
        # A vector that float32 would round stays in float64: see `in_precision_of`. A starting
        # point is rounded, because it is not a part of the problem.
        tables.common(owner, ("the problem", self.names), (name, tables.names(x)), what="names")
        x = checks.vector(owner, name, x)
        if self.dimension is not None:
            checks.length(owner, name, x, self.dimension, "variable")
        self._check_dimension(int(x.shape[0]))
        prototypes = self._prototypes
        if not prototypes:
            return x if self._holds_vectors(x) else arrays.double(x)
        if is_start or checks.in_precision_of(prototypes[0], x) is not None:
            return arrays.own(x, prototypes[0])
        if self.in_float64 is None:
            raise ValueError(
                f"{owner}: {name} must hold float32 numbers like the problem, which cannot "
                "be converted to float64; got float64 numbers that would be rounded"
            )
        return arrays.own(x, arrays.double(prototypes[0]))

    def start(self, x0: Any = None) -> Array:
        """Project x0 (the origin if None) onto the domain, in this problem's library and dtype."""
        if x0 is None:
            if self.dimension is None:
                raise ValueError(
                    "solve: x0 is needed, because nothing in the problem says how many variables "
                    "there are"
                )
            x0 = np.zeros(self.dimension)
        return self.domain.projected(self.point(x0, "solve", "x0", is_start=True))

    def violations(self, x: Array) -> list[Violation]:
        """Return what x violates: the required length, or constraints of the domain."""
        Z, n = self.domain, self.dimension
        if x.ndim != 1 or n not in (None, x.shape[0]):
            return [Violation(f"the shape ({n},)", math.inf, 1.0)]
        return Z.violations(x)

    def forward(self, *xs: Array) -> tuple[Point, ...]:
        """Return the points ``xs`` with their images under the matrices of both functions."""
        images = zip(self.upper.forward(*xs), self.lower.forward(*xs), strict=True)
        return tuple(Point(x, *pair) for x, pair in zip(xs, images, strict=True))


def with_smooth_parts(problem: Problem, *parts: SmoothFunction) -> Problem:
    """Return the problem with f1 and g1 replaced, from the same data; nothing is checked again."""
    twin = object.__new__(type(problem))
    vars(twin).update({name: getattr(problem, name) for name in (*_names(problem), "names")})
    for name, h, penalty in zip(("upper", "lower"), parts, problem.penalties, strict=True):
        assign(twin, name, h + penalty if penalty.terms.has_weights else h)
    assign(twin, "original", problem)
    return twin


def _names(made: Any) -> list[str]:
    """Return the names of a dataclass's fields."""
    return [part.name for part in fields(made)]


def solution_dimension(problem: Problem) -> int | None:
    """Return the dimension of the set of lower minimisers; None if it is unknown.

    The dimension is 0 if g is strongly convex; on R^n and in a ball, g may provide it.
    """
    g, ball = problem.lower, problem.domain.as_ball
    if g.strong_convexity - g.defect + problem.penalties[1].strong_convexity > 0.0:
        return 0
    return None if ball is None else g.solution_dimension(*ball)
