"""Penalties: convex functions with an easy prox, for the non-smooth parts of f and g.

Every penalty, and every weighted sum of two that has a joint prox in closed form, is of the form

    l1 |x|_1 + group sum_G |x_G|_2 + l2 |x|_2 + square/2 |x|_2² + (0 on Z, inf outside)

and one chain is the prox of all of them: soft threshold by l1, divide by 1 + square, clip to Z if
it is a box, shrink each group by group/(1 + square), shrink the whole by l2/(1 + square), scale
down to Z if it is a ball.  Each link keeps the subgradients of the earlier ones, because these
parts are positively homogeneous (Jenatton, Mairal, Obozinski, Bach 2011; Yu 2013).  That needs a
ball centred at 0, and a box that is a cone if there are groups or an l2 part; any other Z stands
alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tiebreak import arrays, checks
from tiebreak.arrays import Array, dot, like, namespace, norm, to_numpy
from tiebreak.cuts import INFINITY, assign, into
from tiebreak.domains import Ball, Box, Domain, Space

Host = np.ndarray[Any, Any]


# --- groups of variables


class Layout(NamedTuple):
    """The groups in R^n; if there are variables in none, they are one more, the last."""

    labels: Host | None  # the group of each variable; None: all are in one
    penalised: Host  # 1.0 for a group, 0.0 for the variables in none

    def dots(self, x: Array, y: Array, room: Array | None = None) -> Host:
        """<x, y> over each group, on the host; ``room`` is a vector that may be overwritten."""
        if self.labels is None:
            return np.array([dot(x, y)])
        products = to_numpy(into(room, "multiply", x, y))
        return np.bincount(self.labels, products, len(self.penalised))

    def spread(self, x: Array, factors: Host, room: Array | None = None) -> Array:
        """x with each group times its factor, in ``room`` if that is given."""
        if self.labels is None:
            return into(room, "multiply", x, float(factors[0]))
        if type(x) is not np.ndarray:
            return x * like(np.take(factors, self.labels), x)
        factors = factors.astype(x.dtype, copy=False)
        each = np.take(factors, self.labels, out=room, mode="clip")  # "raise" would copy ``room``
        return np.multiply(x, each, out=each)


UNGROUPED = Layout(None, np.zeros(1))


class Groups:
    """Disjoint groups of variables; -1 is the label of a variable in no group.

    ``length`` is the number of variables; None where only the variables in groups are known, and
    all others are in none.
    """

    def __init__(self, labels: Host, length: int | None) -> None:
        inside = labels >= 0
        first, names = np.unique(labels[inside], return_index=True, return_inverse=True)[1:]
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))  # numbered as they appear
        self.labels = np.full(len(labels), -1)
        self.labels[inside] = rank[names]
        self.length = length
        self.count = len(first)
        self._layouts: dict[int, Layout] = {}

    def __repr__(self) -> str:
        return f"<{self.count} groups of {np.count_nonzero(self.labels >= 0)} variables>"

    @property
    def is_everything(self) -> bool:
        """Is there one group, which holds all variables?"""
        return self.count == 1 and self.length is not None and bool(np.all(self.labels == 0))

    def same_as(self, other: Groups) -> bool:
        """Are these the same groups?"""
        return np.array_equal(
            np.trim_zeros(self.labels + 1, "b"), np.trim_zeros(other.labels + 1, "b")
        )

    def check(self, n: int) -> None:
        """Raise ValueError if the groups do not fit ``n`` variables."""
        if self.length is not None:
            checks.length("GroupL2", "groups", self.labels, n, "variable")
        elif len(self.labels) > n:
            raise ValueError(
                f"GroupL2: groups must hold variables below {n}, got {len(self.labels) - 1}"
            )

    def layout(self, n: int) -> Layout:
        """The groups in R^n; computed once for every n."""
        if n not in self._layouts:
            labels = np.full(n, self.count)
            labels[: len(self.labels)] = np.where(self.labels < 0, self.count, self.labels)
            penalised = np.arange(np.max(labels) + 1) < self.count
            self._layouts[n] = Layout(labels, penalised.astype(np.float64))
        return self._layouts[n]


def _groups(value: Any) -> Groups:
    """What a user passes as groups: a label for each variable, or lists of variables."""
    needed = (
        "GroupL2: groups must be a vector with the group of each variable (-1: none) "
        "or a list of lists of variables, got "
    )
    if isinstance(value, Groups):
        return value
    if isinstance(value, list | tuple) and value and not isinstance(value[0], int | np.integer):
        return Groups(_from_lists(value, needed), None)
    if not arrays.is_array(value) and not isinstance(value, list | tuple | range):
        raise TypeError(needed + checks.what_it_is(value))
    labels = np.asarray(value) if not arrays.is_array(value) else to_numpy(value)
    if labels.ndim != 1 or labels.shape[0] == 0:
        raise ValueError(needed + checks.what_it_is(value))
    if labels.dtype.kind not in "iu":
        raise TypeError(f"{needed}entries of type {labels.dtype}")
    if np.any(labels < -1):
        raise ValueError(f"GroupL2: groups must be whole numbers >= -1, got {np.min(labels)}")
    return Groups(labels.astype(np.int64), len(labels))


def _from_lists(lists: Sequence[Any], needed: str) -> Host:
    """The labels of the variables up to the last one in a group."""
    label: dict[int, int] = {}
    for name, variables in enumerate(lists):
        if not isinstance(variables, list | tuple | range | np.ndarray):
            raise TypeError(f"{needed}a list with {checks.what_it_is(variables)}")
        if len(variables) == 0:
            raise ValueError(f"GroupL2: groups must not be empty, got group {name} of no variable")
        for variable in variables:
            i = checks.whole("GroupL2", "a variable in groups", variable)
            if i in label:
                raise ValueError(f"GroupL2: groups must be disjoint, got variable {i} twice")
            label[i] = name
    labels = np.full(max(label) + 1, -1)
    labels[list(label)] = list(label.values())
    return labels


# --- the sum of all parts


@dataclasses.dataclass(frozen=True, eq=False)
class Terms:
    """l1 |x|_1 + group sum_G |x_G|_2 + l2 |x|_2 + square/2 |x|_2², restricted to ``domain``."""

    l1: float = 0.0
    group: float = 0.0
    l2: float = 0.0
    square: float = 0.0
    groups: Groups | None = None
    domain: Domain = dataclasses.field(default_factory=Space)

    @property
    def weights(self) -> tuple[float, float, float, float]:
        """l1, group, l2, square."""
        return self.l1, self.group, self.l2, self.square

    def times(self, factor: float) -> Terms:
        """The same with ``factor`` times the weights; the set stays, also where factor is 0."""
        return self.with_weights(*(factor * weight for weight in self.weights))

    def with_weights(self, l1: float, group: float, l2: float, square: float) -> Terms:
        """The same groups and set with other weights."""
        return Terms(l1, group, l2, square, self.groups, self.domain)

    @property
    def radius(self) -> float:
        """Of the ball that x is restricted to; inf if there is none."""
        return self.domain.radius if isinstance(self.domain, Ball) else INFINITY

    @property
    def box(self) -> Box | None:
        """The box that x is restricted to, if there is one."""
        return self.domain if isinstance(self.domain, Box) else None

    def value(self, x: Array) -> float:
        """The value at a point x of the domain."""
        total, xp = 0.0, namespace(x)
        if self.l1 > 0.0:
            total += self.l1 * float(xp.sum(abs(x)))
        if self.group > 0.0:
            lengths, layout = self.lengths(x)
            total += self.group * float(layout.penalised @ lengths)
        if self.l2 > 0.0 or self.square > 0.0:
            length = norm(x)
            total += self.l2 * length + 0.5 * (self.square * length) * length
        return total

    def prox(self, x: Array) -> Array:
        """argmin over z of this(z) + ½|z - x|²."""
        if not any(self.weights):
            return self.domain.project(x)
        u = soft(x, self.l1)
        if self.square > 0.0:
            u = u / (1.0 + self.square)
        if self.box is not None:
            u = self.box.project(u)
        if self.group == 0.0 and self.l2 == 0.0 and self.radius == INFINITY:
            return u
        lengths, layout = self.lengths(u)
        return layout.spread(u, self.shrunk(lengths, layout, 1.0 + self.square)[1])

    def least(self, slope: Array) -> tuple[float, Array | None]:
        """The minimum of <slope, x> + this(x) over all x, and a minimiser.

        -inf and None where there is none.  The value is never above the true minimum for this very
        slope: rounding errors are bounded and subtracted, so that -inf is also the answer where a
        dual norm of the slope is within its own rounding error of a weight.  (Without weights it is
        -support(-slope) of the set, to the rounding of that.)
        """
        with arrays.quiet():
            if not any(self.weights):
                value = -self.domain.support(-slope)
                return value, None if value == -INFINITY else self.domain.argmin(slope)
            xp = namespace(slope)
            s = xp.astype(slope, xp.float64)
            pull = soft(-s, self.l1)
            entrywise = self.box is not None and self.group == 0.0 and self.l2 == 0.0
            value, x = self._least_in_box(s, pull) if entrywise else self._least(pull)
            return value, None if x is None else xp.astype(x, slope.dtype)

    def _least_in_box(self, s: Array, pull: Array) -> tuple[float, Array | None]:
        """Each entry by itself: pull/square clipped to the box, or the end that it is pulled to."""
        assert self.box is not None
        if self.square > 0.0:
            x = self.box.project(pull / self.square)
        elif math.isinf(self.box.support(pull)):
            return -INFINITY, None
        else:
            x = self.box.argmin(-pull)
        if not arrays.all_finite(x):  # pull/square overflows
            return -INFINITY, None
        unit = (8.0 + s.shape[0]) * arrays.epsilon(s)
        size = dot(abs(s), abs(x)) + self.value(x)
        return dot(s, x) + self.value(x) - unit * size - _lost(s), x

    def _least(self, pull: Array) -> tuple[float, Array | None]:
        """square/2 t² - left t, where groups and l2 leave ``left`` of the pull, for the best t."""
        if self.box is not None:
            pull = self.box.project(pull)
        lengths, layout = self.lengths(pull)
        unit = (8.0 + pull.shape[0]) * arrays.epsilon(pull)
        at_most = (lengths + 2.0**-500 * arrays.max_abs(pull)) * (1.0 + unit)
        left = max(norm(self._kept(at_most, layout)) * (1.0 + unit) - self.l2, 0.0)
        reach = self._reach(left)
        if reach == INFINITY:
            return -INFINITY, None
        value = -reach * (left - 0.5 * self.square * reach)
        value = 0.0 if left == 0.0 else value * (1.0 + unit) - _lost(pull)
        kept = self._kept(lengths, layout)
        total = norm(kept)
        reach = self._reach(max(total - self.l2, 0.0))
        return value, layout.spread(pull, _ratio(kept, lengths) * _ratio(reach, total))

    def _reach(self, left: float) -> float:
        """The length t >= 0 that minimises square/2 t² - left t within the ball."""
        if left == 0.0:
            return 0.0
        return min(left / self.square if self.square > 0.0 else INFINITY, self.radius)

    # --- the links of the chain for groups, l2 and the ball, in terms of the groups' lengths

    def layout(self, n: int) -> Layout:
        """The groups in R^n; all variables in one where groups have no weight."""
        if self.group == 0.0 or self.groups is None:
            return UNGROUPED
        return self.groups.layout(n)

    def lengths(self, x: Array) -> tuple[Host, Layout]:
        """|x_G| for each group, also if its square is not a number; without groups just |x|."""
        layout = self.layout(x.shape[0])
        if layout is UNGROUPED:
            return np.array([norm(x)]), layout
        top = arrays.max_abs(x)
        if top == 0.0 or not math.isfinite(top):
            return np.full(len(layout.penalised), top), layout
        part = to_numpy(x).astype(np.float64, copy=False) / top
        return top * np.sqrt(layout.dots(part, part)), layout

    def shrunk(
        self, lengths: Host, layout: Layout, divisor: float = 1.0
    ) -> tuple[Host, Host, float, float]:
        """What groups, l2 and the ball leave of a vector whose groups have these lengths.

        The lengths after the shrinking by groups; the factor of each group in all; the length after
        the shrinking by groups; and that in the end.  The weights are divided by ``divisor``.
        """
        kept = self._kept(lengths, layout, divisor)
        total = norm(kept)
        length = min(max(total - self.l2 / divisor, 0.0), self.radius)
        return kept, _ratio(kept, lengths) * _ratio(length, total), total, length

    def _kept(self, lengths: Host, layout: Layout, divisor: float = 1.0) -> Host:
        """The lengths of the groups after shrinking each."""
        return np.maximum(lengths - self.group / divisor * layout.penalised, 0.0)


def soft(x: Array, threshold: float) -> Array:
    """The soft threshold sign(x) max(|x| - threshold, 0)."""
    return x if threshold == 0.0 else x - into(None, "clip", x, -threshold, threshold)


def _ratio(part: Any, whole: Any) -> Any:
    """part/whole, and 0 where the whole is 0."""
    return part / np.where(whole > 0.0, whole, INFINITY)


def _lost(x: Array) -> float:
    """What underflow can take from a sum over the entries of x, if one of them is not 0."""
    return x.shape[0] * 2.0**-1070 if arrays.max_abs(x) > 0.0 else 0.0


# --- the penalties


class Penalty:
    """What every penalty has in common; the formulas are in `Terms`."""

    __array_ufunc__ = None  # so that a NumPy number times a penalty comes to __rmul__
    _weights: ClassVar[tuple[str, ...]] = ("weight",)

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
        return self.terms.times(step).prox(x)

    def least(self, slope: Array) -> tuple[float, Array | None]:
        """The minimum of <slope, x> + penalty(x), never too large, and a minimiser; -inf, None."""
        return self.terms.least(slope)

    def __rmul__(self, factor: object) -> Self:
        """``factor`` times the penalty; an indicator stays what it is, also times 0."""
        if isinstance(factor, bool) or not isinstance(factor, int | float | np.number):
            return NotImplemented
        name = type(self).__name__
        weight = checks.at_least(name, "its factor", factor)
        scaled = {part: weight * getattr(self, part) for part in self._weights}
        return dataclasses.replace(self, **scaled)  # type: ignore[type-var]

    __mul__ = __rmul__


def _check_weights(penalty: Penalty) -> None:
    for name in penalty._weights:
        value = checks.at_least(type(penalty).__name__, name, getattr(penalty, name))
        assign(penalty, name, value)


@dataclasses.dataclass(frozen=True)
class Zero(Penalty):
    """0."""

    _weights: ClassVar[tuple[str, ...]] = ()

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
        assign(self, "groups", _groups(self.groups))

    def check(self, n: int) -> None:
        """Raise ValueError if the groups do not fit ``n`` variables."""
        self.groups.check(n)

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

    def check(self, n: int) -> None:
        """Raise ValueError if the parameters of the set do not fit ``n`` variables."""
        self.domain.check(n)

    def value(self, x: Array) -> float:
        """0 for x in the set, as its ``contains`` sees it; otherwise inf."""
        return 0.0 if self.domain.contains(x) else INFINITY

    @cached_property
    def terms(self) -> Terms:
        return Terms(domain=self.domain)
