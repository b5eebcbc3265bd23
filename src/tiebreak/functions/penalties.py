"""Penalties: convex functions with an easy prox, for the non-smooth parts of f and g.

The formulas are in `terms`; here are their names, their sums, and ``smooth + penalty``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tiebreak.functions.base import (
    Flat,
    Function,
    Outcome,
    PendingEvaluation,
    PointWithImage,
    SmoothFunction,
)
from tiebreak.functions.groups import Groups, groups_of
from tiebreak.functions.terms import Terms
from tiebreak.linalg import arrays, checks, tables
from tiebreak.linalg.arrays import Array, Image, to_numpy
from tiebreak.linalg.fingerprints import FromData, remember
from tiebreak.linalg.refusals import Refusal
from tiebreak.sets.cuts import INFINITY, assign
from tiebreak.sets.domains import Ball, Box, Domain, Space


class Penalty(FromData):
    """What every penalty has in common; the formulas are in `Terms`."""

    __array_ufunc__ = None  # so that a NumPy number times a penalty comes to __rmul__
    _weights: ClassVar[tuple[str, ...]] = ("weight",)
    names: ClassVar[tuple[Any, ...] | None] = None  # of the variables, as in Function

    @property
    def terms(self) -> Terms:
        """The penalty as a sum of standard parts."""
        raise NotImplementedError

    @property
    def strong_convexity(self) -> float:
        """The curvature that the penalty has everywhere."""
        return self.terms.square

    def check(self, n: int) -> None:
        """Raise ValueError if the parameters do not fit ``n`` variables."""

    def value(self, x: Array) -> float:
        """The penalty of x."""
        return self.terms.value(x)

    def prox(self, x: Array, step: float) -> Array:
        """argmin over z of step penalty(z) + ½|z - x|², for step >= 0."""
        step = checks.at_least(type(self).__name__, "step", step)
        return self.terms.times(step).prox(x)

    def least(self, slope: Array) -> tuple[float, Array | None]:
        """The minimum of <slope, x> + penalty(x), never too large, and a minimiser; -inf, None."""
        return self.terms.least(slope)

    @property
    def dimension(self) -> int | None:
        """The number of variables, None if it fits any."""
        return None

    @property
    def unrestricted(self) -> Penalty:
        """The same without its indicators."""
        return self

    def scaled(self, factor: float) -> Penalty:
        """``factor`` times the penalty; an indicator stays what it is, also times 0."""
        parts = {name: factor * getattr(self, name) for name in self._weights}
        return dataclasses.replace(self, **parts)  # type: ignore[type-var]

    def __rmul__(self, factor: object) -> Penalty:
        if isinstance(factor, bool) or not isinstance(factor, int | float | np.number):
            return NotImplemented
        return self.scaled(checks.at_least(type(self).__name__, "its factor", factor))

    __mul__ = __rmul__

    def __add__(self, other: object) -> Any:
        if isinstance(other, Penalty):
            return PenaltySum(self, other)
        return Composite(other, self) if isinstance(other, SmoothFunction) else NotImplemented

    def __radd__(self, other: object) -> Any:
        return self if isinstance(other, int) and other == 0 else self.__add__(other)


def _check_weights(penalty: Penalty) -> None:
    for name in penalty._weights:
        value = checks.at_least(type(penalty).__name__, name, getattr(penalty, name))
        assign(penalty, name, value)


@dataclasses.dataclass(frozen=True)
class Zero(Penalty):
    """0."""

    _weights: ClassVar[tuple[str, ...]] = ()

    def value(self, x: Array) -> float:
        return 0.0

    @cached_property
    def terms(self) -> Terms:
        return Terms()


@dataclasses.dataclass(frozen=True)
class L1(Penalty):
    """weight |x|_1, the sum of the absolute entries; its prox is the soft threshold."""

    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_weights(self)

    @cached_property
    def terms(self) -> Terms:
        return Terms(l1=self.weight)


@dataclasses.dataclass(frozen=True)
class L2(Penalty):
    """weight |x|_2, the Euclidean norm, not squared; its prox is x max(0, 1 - step weight/|x|)."""

    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_weights(self)

    @cached_property
    def terms(self) -> Terms:
        return Terms(l2=self.weight)


@dataclasses.dataclass(frozen=True)
class ElasticNet(Penalty):
    """l1 |x|_1 + l2/2 |x|_2²: with strong convexity l2."""

    l1: float
    l2: float
    _weights: ClassVar[tuple[str, ...]] = ("l1", "l2")

    def __post_init__(self) -> None:
        _check_weights(self)

    @cached_property
    def terms(self) -> Terms:
        return Terms(l1=self.l1, square=self.l2)


@dataclasses.dataclass(frozen=True, eq=False)
class GroupL2(Penalty):
    """weight times the sum over the groups G of |x_G|_2, whatever their sizes.

    ``groups`` is a vector of whole numbers, the group of each variable, where -1 is none; or a list
    of lists of variables.  Groups are disjoint.  Variables in no group are not penalised.
    The sums over groups are taken on the host.
    """

    groups: Any
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_weights(self)
        assign(self, "groups", groups_of(self.groups))
        assign(self, "names", self.groups.names)
        remember(self, GroupL2, groups=self.groups, weight=self.weight)

    def check(self, n: int) -> None:
        """Raise ValueError if the groups do not fit ``n`` variables."""
        self.groups.check(n)

    @property
    def dimension(self) -> int | None:
        """The number of labels, None if groups were given as lists."""
        length: int | None = self.groups.length
        return length

    @cached_property
    def terms(self) -> Terms:
        if self.groups.is_everything:
            return Terms(l2=self.weight)
        return Terms(group=self.weight if self.groups.count else 0.0, groups=self.groups)


@dataclasses.dataclass(frozen=True, eq=False)
class Indicator(Penalty):
    """0 on the set ``domain``, inf outside; its prox is the projection."""

    domain: Domain
    _weights: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if isinstance(self.domain, type) or not isinstance(self.domain, Domain):
            got = checks.what_it_is(self.domain)
            raise TypeError(f"Indicator: domain must be a domain such as Box(0, 1), got {got}")
        remember(self, Indicator, domain=self.domain)
        assign(self, "names", getattr(self.domain, "names", None))

    def check(self, n: int) -> None:
        """Raise ValueError if the parameters of the set do not fit ``n`` variables."""
        self.domain.check(n)

    def value(self, x: Array) -> float:
        """0 for x in the set, as its ``contains`` sees it; otherwise inf."""
        return 0.0 if self.domain.contains(x) else INFINITY

    @property
    def unrestricted(self) -> Penalty:
        """0."""
        return Zero()

    @cached_property
    def terms(self) -> Terms:
        return Terms(domain=self.domain)


@dataclasses.dataclass(frozen=True, eq=False)
class PenaltySum(Penalty):
    """first + second, written ``first + second``; both must have a joint prox in closed form."""

    first: Penalty
    second: Penalty

    def __post_init__(self) -> None:
        joint(self.first, self.second, owner="PenaltySum")
        remember(self, PenaltySum, first=self.first, second=self.second)
        both = ("first", self.first.names), ("second", self.second.names)
        assign(self, "names", tables.common("PenaltySum", *both))

    def __repr__(self) -> str:
        return f"{self.first!r} + {self.second!r}"

    def check(self, n: int) -> None:
        """Raise ValueError if the parameters of either do not fit ``n`` variables."""
        self.first.check(n)
        self.second.check(n)

    def value(self, x: Array) -> float:
        """The sum of both."""
        return self.first.value(x) + self.second.value(x)

    @property
    def dimension(self) -> int | None:
        """That of the first, or of the second."""
        return self.second.dimension if self.first.dimension is None else self.first.dimension

    @property
    def unrestricted(self) -> Penalty:
        """The same without its indicators."""
        return PenaltySum(self.first.unrestricted, self.second.unrestricted)

    def scaled(self, factor: float) -> Penalty:
        """``factor`` times both."""
        return PenaltySum(self.first.scaled(factor), self.second.scaled(factor))

    @cached_property
    def terms(self) -> Terms:
        return joint(self.first, self.second).terms(1.0, 1.0)


# --- the pairs that have a joint prox


@dataclasses.dataclass(frozen=True, eq=False)
class Joint:
    """Two penalties f2 and g2 and a set whose weighted sums have a prox in closed form."""

    upper: Terms
    lower: Terms

    @cached_property
    def has_norms(self) -> bool:
        """Is there more than squares in them?"""
        return any(self.upper.weights[:3]) or any(self.lower.weights[:3])

    def terms(self, a: float, mu: float) -> Terms:
        """a f2 + mu g2 on the common set."""
        pairs = zip(self.upper.weights, self.lower.weights, strict=True)
        return self.upper.with_weights(*(a * p + mu * q for p, q in pairs))

    def prox(self, v: Array, a: float, mu: float) -> Array:
        """argmin over z in the common set of a f2(z) + mu g2(z) + ½|z - v|²."""
        return self.terms(a, mu).prox(v)

    def least(self, slope: Array, a: float, mu: float) -> tuple[float, Array | None]:
        """The minimum of <slope, x> + a f2(x) + mu g2(x) over the set: see `Terms.least`.

        With weights that are smaller by two units of rounding, so that it is never too large.
        """
        return self.terms(a, mu).times(1.0 - 2.0**-51).least(slope)


def joint(f2: Penalty, g2: Penalty, domain: Domain | None = None, owner: str = "joint") -> Joint:
    """The two penalties on the common set of their domains and ``domain``.

    ValueError, with the names of what does not go together, if their joint prox has no closed form:
    that is the case for two kinds of groups, for two sets (unless both are boxes or balls around
    0), for groups or L2 with a box that is not a cone, and for a norm with any other set.
    """
    f, g = f2.terms, g2.terms
    if f.group > 0.0 and g.group > 0.0:
        assert f.groups is not None
        assert g.groups is not None
        if not f.groups.same_as(g.groups):
            raise _no_prox(owner, "GroupL2", "GroupL2 with other groups")
    groups: Groups | None = f.groups if f.group > 0.0 else g.groups
    common = intersection(owner, f.domain, g.domain, domain or Space())
    for penalty in (f2, g2):
        if not _go_together(penalty.terms, common):
            off_centre = isinstance(common, Ball) and not _centred(common)
            raise _no_prox(
                owner,
                _name(penalty),
                type(common).__name__ + " with another center" * off_centre,
            )
    return Joint(*(dataclasses.replace(part, groups=groups, domain=common) for part in (f, g)))


def intersection(owner: str, *sets: Domain) -> Domain:
    """The points that all the sets have in common, where that is a set that we know."""
    common: Domain = Space()
    for other in sets:
        common = _intersection(owner, common, other)
    return common


def _no_prox(owner: str, first: str, second: str) -> Refusal:
    needed = "must have a joint prox in closed form"
    return Refusal(owner, "the penalties and the domain", needed, f"{first} and {second}")


def _name(penalty: Penalty) -> str:
    if isinstance(penalty, PenaltySum):
        return f"{_name(penalty.first)} + {_name(penalty.second)}"
    return type(penalty.domain if isinstance(penalty, Indicator) else penalty).__name__


def _intersection(owner: str, first: Domain, second: Domain) -> Domain:
    if isinstance(first, Space) or first is second:
        return second
    if isinstance(second, Space) or (type(first) is type(second) and first == second):
        return first
    if isinstance(first, Box) and isinstance(second, Box):
        bounds = [to_numpy(b) for b in (first.lower, second.lower, first.upper, second.upper)]
        sizes = {bound.shape[0] for bound in bounds if bound.ndim}
        if len(sizes) > 1:
            needed, got = "must have the same number of variables", f"{min(sizes)} and {max(sizes)}"
            raise Refusal(owner, "the two boxes", needed, got)
        lower, upper = np.maximum(*bounds[:2]), np.minimum(*bounds[2:])
        if np.any(lower > upper):
            raise Refusal(owner, "the two boxes", "must have a point in common")
        return Box(*(b if b.ndim else float(b) for b in (lower, upper)))
    if (
        isinstance(first, Ball)
        and isinstance(second, Ball)
        and _centred(first)
        and _centred(second)
    ):
        return min(first, second, key=lambda ball: ball.radius)
    raise _no_prox(owner, type(first).__name__, type(second).__name__)


def _centred(ball: Ball) -> bool:
    return ball.center is None or arrays.max_abs(ball.center) == 0.0


def _go_together(terms: Terms, common: Domain) -> bool:
    if not any(terms.weights) or isinstance(common, Space):
        return True
    if isinstance(common, Box):
        return (terms.group == 0.0 and terms.l2 == 0.0) or _is_cone(common)
    return isinstance(common, Ball) and _centred(common)


def _is_cone(box: Box) -> bool:
    bounds = (to_numpy(bound) for bound in (box.lower, box.upper))
    return all(bool(np.all(np.isinf(b) | (b == 0.0))) for b in bounds)


# --- smooth + penalty


class Composite(Function):
    """smooth + penalty, written ``smooth + penalty``.

    Values are those of the sum.  All that has to do with slopes (minorants, lipschitz,
    strong_convexity, rounding) speaks of the smooth part, and the penalty is taken as it is.
    """

    def __init__(self, smooth: SmoothFunction, penalty: Penalty) -> None:
        remember(self, Composite, smooth=smooth, penalty=penalty)
        self.smooth, self.penalty = smooth, penalty
        both = ("the smooth part", smooth.names), ("the penalty", penalty.names)
        self.names = tables.common("Composite", *both)
        sizes = [p.dimension for p in (smooth, penalty) if p.dimension is not None]
        self.dimension = sizes[0] if sizes else None
        if self.dimension is not None:
            penalty.check(self.dimension)
        self.prototype = smooth.prototype

    def __repr__(self) -> str:
        is_flat = isinstance(self.smooth.bare, Flat)
        return repr(self.penalty) if is_flat else f"{self.smooth!r} + {self.penalty!r}"

    @property
    def bare(self) -> Function:
        return Composite(self.smooth.bare, self.penalty)

    @property
    def in_float64(self) -> Composite | None:
        smooth = self.smooth.in_float64
        return None if smooth is None else Composite(smooth, self.penalty)

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return self.smooth.lipschitz

    @property
    def known_lipschitz(self) -> float:
        return self.smooth.known_lipschitz

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        return self.smooth.strong_convexity

    @property
    def defect(self) -> float:  # type: ignore[override]
        return self.smooth.defect

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return self.smooth.lower_bound  # penalties are never negative

    @property
    def growth(self) -> float:
        return 0.0

    def value(self, x: Array) -> float:
        return self.smooth.value(x) + self.penalty.value(x)

    def gradient(self, x: Array) -> Array:
        return self.smooth.gradient(x)

    def forward(self, *xs: Array) -> tuple[Image, ...]:
        return self.smooth.forward(*xs)

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        """Minorants of the smooth part, values of the sum."""
        looking = self.smooth.evaluate_async(at, values_at)

        def end() -> Outcome:
            seen, values = looking()
            extra = [self.penalty.value(p.x) for p in values_at]
            return seen, [v + more for v, more in zip(values, extra, strict=True)]

        return PendingEvaluation(end, looking.slopes)

    def passes(self, lifts: int, slopes: int, values: int) -> int:
        return self.smooth.passes(lifts, slopes, values)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        return self.smooth.rounding(reach, value, slope, epsilon, n)

    def extent(self, x: Array) -> float:
        return self.smooth.extent(x)

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
        penalty = self.penalty.__rmul__(weight)
        return (
            NotImplemented
            if penalty is NotImplemented
            else Composite(weight * self.smooth, penalty)
        )

    __mul__ = __rmul__


NOTHING = Zero()  # one for all: its terms are made once


def split(h: Function | Penalty) -> tuple[SmoothFunction, Penalty]:
    """The smooth part and the penalty of a function; each may be missing, that is 0."""
    if isinstance(h, Composite):
        return h.smooth, h.penalty
    if isinstance(h, Penalty):
        return Flat(), h
    assert isinstance(h, SmoothFunction)
    return h, NOTHING
