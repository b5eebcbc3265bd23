"""Penalties: convex functions with a simple prox, for the non-smooth parts of f and g.

This module contains the classes of penalties and their sums; the formulas are in `terms`, and
``smooth + penalty`` is in `composite`.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tiebreak.functions.base import SmoothFunction, is_weight
from tiebreak.functions.elementary import SquaredNorm
from tiebreak.functions.far_slopes import FarRows
from tiebreak.functions.penalties.groups import Groups
from tiebreak.functions.penalties.joint_prox import joint
from tiebreak.functions.penalties.operator_terms import OperatorTerms, added, in_memory
from tiebreak.functions.penalties.terms import Terms
from tiebreak.linalg import Array, Host, Refusal, arrays, checks, tables
from tiebreak.linalg.conic_form import ConicForm, Cost
from tiebreak.linalg.fingerprints import FromData, assign, digest, known, remember
from tiebreak.linalg.host import host
from tiebreak.linalg.matrices import Differences
from tiebreak.sets import INFINITY, Domain


class Penalty(FromData, is_open=True):
    """The base of all penalties; the formulas are in `Terms`."""

    __array_ufunc__ = None  # so that a NumPy number times a penalty calls __rmul__
    _weights: ClassVar[tuple[str, ...]] = ("weight",)
    names: ClassVar[tuple[Any, ...] | None] = None  # names of the variables, as in Function
    dimension: ClassVar[int | None] = None  # number of variables; None if any number is accepted
    describing: ClassVar[tuple[str, ...]] = ("terms", "add_to_conic", "far_rows", "squared")

    def __post_init__(self) -> None:
        for name in self._weights:
            assign(self, name, checks.at_least(type(self).__name__, name, getattr(self, name)))

    @property
    def label(self) -> str:
        """The name of the penalty in messages."""
        return type(self).__name__

    @property
    def terms(self) -> Terms:
        """The penalty as a sum of standard parts."""
        raise TypeError(
            f"{type(self).__name__}: terms must be defined, because all other members use them"
        )

    @property
    def strong_convexity(self) -> float:
        """A lower bound on the curvature of the penalty."""
        return self.terms.square

    @property
    def summands(self) -> tuple[Penalty, ...]:
        """The penalties that add up to this one; a single penalty returns itself."""
        return (self,)

    @property
    def vectors(self) -> list[Array]:
        """The vectors among the penalty's parameters."""
        return []

    def check(self, n: int) -> None:
        """Raise ValueError if the parameters do not fit ``n`` variables."""

    def value(self, x: Array) -> float:
        """The penalty of x."""
        return self.terms.value(x)

    def subgradient(self, x: Array) -> Array:
        """One subgradient at x; an entry at a kink contributes the mean of its two slopes."""
        return self.terms.subgradient(x)

    def prox(self, x: Array, step: float) -> Array:
        """argmin over z of step penalty(z) + ½|z - x|², for step >= 0."""
        if not self.terms.has_prox:
            hint = "the conic and exact methods need no prox"
            raise Refusal(self.label, "prox", "must have a closed form", "a penalty without", hint)
        return self.terms.times(checks.at_least(type(self).__name__, "step", step)).prox(x)

    def least(self, slope: Array) -> tuple[float, Array | None]:
        """The minimum of <slope, x> + penalty(x), rounded down, and a minimiser (or None)."""
        return self.terms.least(slope)

    def is_conic(self, n: int) -> bool:
        """Can cones represent the penalty of n variables? If so, `add_to_conic` does it."""
        return self.terms.is_conic(n)

    def add_to_conic(self, form: ConicForm, cost: Cost) -> bool:
        """Add the penalty, without indicators, to an objective; False if no conic form is known."""
        return self.terms.add_to_conic(form, cost)

    def far_rows(self, n: int) -> FarRows | None:
        """How the penalty grows far from 0; None if unknown."""
        return self.terms.far_rows(n)

    @property
    def squared(self) -> tuple[float, SmoothFunction] | None:
        """The w and h for which the penalty is w sqrt(2 h); None if there are none."""
        return None

    @property
    def unrestricted(self) -> Penalty:
        """The penalty without its indicators."""
        return self

    def scaled(self, factor: float) -> Penalty:
        """``factor`` times the penalty; an indicator does not change, even if the factor is 0."""
        parts = {name: factor * getattr(self, name) for name in self._weights}
        made: Penalty = dataclasses.replace(self, **parts)  # type: ignore[type-var]
        assign(made, "names", self.names)  # scaling a pandas Series loses its index
        return made

    def __rmul__(self, factor: object) -> Penalty:
        if not is_weight(factor):
            return NotImplemented
        return self.scaled(checks.at_least(type(self).__name__, "its factor", factor))

    __mul__ = __rmul__

    def __add__(self, other: object) -> Any:
        if isinstance(other, Penalty):
            return PenaltySum(self, other)
        from tiebreak.functions.penalties.composite import Composite

        return Composite(other, self) if isinstance(other, SmoothFunction) else NotImplemented

    def __radd__(self, other: object) -> Any:
        return self if isinstance(other, int) and other == 0 else self.__add__(other)


@dataclasses.dataclass(frozen=True)
class Zero(Penalty):
    """The penalty 0.

    Examples:
        >>> tb.Zero() + tb.L1(0.1)
        Zero() + L1(weight=0.1)
    """

    _weights: ClassVar[tuple[str, ...]] = ()

    @cached_property
    def terms(self) -> Terms:
        return Terms()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CentredNorm(Penalty, is_open=True):
    """A norm of x - center with a single weight, or with one weight per variable."""

    weight: Any = 1.0
    center: Any = None

    def __post_init__(self) -> None:
        names = [(name, tables.names(getattr(self, name))) for name in ("weight", "center")]
        assign(self, "names", tables.common(self.label, *names, what="names"))
        self._set_vectors()
        if self.vectors:
            assign(self, "dimension", int(self.vectors[-1].shape[0]))
            self.check(int(self.vectors[-1].shape[0]))

    def _set_vectors(self) -> None:
        """Check the weight and the center, and convert them to arrays or a number."""
        if checks.is_sequence(self.weight):
            assign(self, "weight", checks.weights(self.label, "weight", self.weight))
        else:
            super().__post_init__()
        if self.center is not None:
            assign(self, "center", checks.vector(self.label, "center", self.center))

    def check(self, n: int) -> None:
        self._check_lengths(n, "variable")

    def _check_lengths(self, n: int, per: str) -> None:
        for name in ("weight", "center"):
            value = getattr(self, name)
            if arrays.is_array(value):
                checks.length(self.label, name, value, n, per)

    def __repr__(self) -> str:
        weight = f"<{self.dimension} weights>" if arrays.is_array(self.weight) else self.weight
        center = "" if self.center is None else ", center=<vector>"
        return f"{self.label}(weight={weight}{center})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and digest(other) == digest(self)

    def __hash__(self) -> int:
        return hash(digest(self))

    @property
    def vectors(self) -> list[Array]:
        return [v for v in (self.weight, self.center) if arrays.is_array(v)]

    @property
    def _origin(self) -> Host | None:
        """The center on the host; None if it is 0."""
        is_off = self.center is not None and arrays.max_abs(self.center) > 0.0
        return host(self.center) if is_off else None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class L1(CentredNorm):
    """weight |x - center|_1, or the sum of weight_j |x_j - center_j|; its prox is a soft threshold.

    Args:
        weight: a non-negative number; or a vector, one entry per variable. Variables of weight 0
            are not penalised.
        center: vector, the origin if None. With a nonzero center, there is a joint prox with
            squares, with boxes, and with L1 and L2 that have the same center.
        operator: matrix D for weight |D x - center|_1 (dense, scipy.sparse or a linear operator).
            Weights and center then have one entry per row of D. With an operator there is no prox
            in closed form: `Exact` and `PrimalDual` accept the norm as the whole upper level, and
            `Conic` accepts it on both levels.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2, 4]], [4])
        >>> tb.solve(tb.Problem(lower=fit, upper=tb.L1())).x.round(4)  # the sparsest solution
        array([0., 0., 1.])
    """

    operator: Any = None

    def __post_init__(self) -> None:
        remember(self, L1, weight=self.weight, center=self.center, operator=self.operator)
        if self.operator is None:
            super().__post_init__()
            return
        from scipy.sparse import csr_array

        if tables.is_frame(self.operator):
            assign(self, "names", tables.names(self.operator))
        matrix = checks.matrix("L1", "operator", self.operator)
        rows = csr_array(matrix.on_host(), copy=True) if matrix.is_at_hand else matrix
        assign(self, "operator", rows)
        assign(self, "dimension", int(self.operator.shape[1]))
        self._set_vectors()
        self._check_lengths(self.operator.shape[0], "row of operator")

    def __repr__(self) -> str:
        if self.operator is None:
            return super().__repr__()
        return "L1(operator=<{} x {}>)".format(*self.operator.shape)

    @property
    def vectors(self) -> list[Array]:
        # the operator is applied in float64, whatever the precision of x
        return super().vectors if self.operator is None else []

    def check(self, n: int) -> None:
        if self.operator is None:
            super().check(n)
        elif self.operator.shape[1] != n:
            raise ValueError(
                f"L1: operator must have one column per variable ({n}), "
                f"got {self.operator.shape[1]}"
            )

    @cached_property
    def terms(self) -> Terms:
        weight = self.weight if isinstance(self.weight, float) else host(self.weight)
        if self.operator is not None:
            return OperatorTerms(l1=weight, center=self._origin, matrix=in_memory(self.operator))
        return Terms(l1=weight, center=self._origin)


@dataclasses.dataclass(frozen=True)
class TotalVariation(Penalty):
    """weight times the sum of |x_{j+1} - x_j|: few jumps between neighbours in a series or image.

    Total variation is L1 with the operator of first differences: `Exact` and `PrimalDual` accept it
    as the whole upper level, and `Conic` on both levels.

    Args:
        weight: a non-negative number.
        shape: (m, n) for an image of m rows and n columns, with x = image.ravel(). Each pixel is
            compared with the ones below and to its right. If None, x is a series of values.
        isotropic: use the Euclidean length of a pixel's two differences instead of the sum of their
            absolute values.

    Examples:
        >>> fit = tb.LeastSquares([[1, 0, 0], [0, 0, 1]], [1, 2])  # both ends are known
        >>> tb.solve(tb.Problem(lower=fit, upper=tb.TotalVariation())).upper_value  # 2 - 1
        1.0
    """

    weight: float = 1.0
    shape: Any = None
    isotropic: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        assign(self, "isotropic", checks.flag(self.label, "isotropic", self.isotropic))
        if self.shape is not None:
            if not checks.is_sequence(self.shape) or len(self.shape) != 2:
                raise ValueError(f"{self.label}: shape must be two numbers, got {self.shape!r}")
            m, n = (checks.whole(self.label, "shape", side, least=1) for side in self.shape)
            assign(self, "shape", (m, n))
            assign(self, "dimension", m * n)

    def check(self, n: int) -> None:
        if self.shape is None and n < 2:
            raise ValueError(f"TotalVariation: x must have at least two variables, got {n}")
        if self.dimension not in (None, n):
            raise ValueError(
                f"TotalVariation: shape must have one pixel per variable ({n}), got {self.shape}"
            )

    @cached_property
    def terms(self) -> Terms:
        is_by_pixel = self.isotropic and self.shape is not None
        return OperatorTerms(
            l1=self.weight,
            matrix=lambda n: Differences(self.shape or (n,), is_by_pixel),
            stacks=2 if is_by_pixel else 1,
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class L2(CentredNorm):
    """weight |x - center|_2, the Euclidean norm, not squared; its prox shortens x - center.

    Args:
        weight: a non-negative number, or a vector with one entry per variable. All nonzero entries
            must be equal, and variables of weight 0 are not penalised. With unequal weights, the
            norm would have no prox in closed form. If the norm is the whole upper level,
            `SquaredNorm` with the squared weights has the same minimisers.
        center: vector, the origin if None. With a nonzero center, there is a joint prox with
            squares, and with L1 and L2 that have the same center.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> tb.solve(tb.Problem(lower=fit, upper=tb.L2())).x.round(2)  # the shortest solution
        array([1., 1.])
    """

    def __post_init__(self) -> None:
        remember(self, L2, weight=self.weight, center=self.center)
        super().__post_init__()
        kinds = np.unique(host(self.weight)[host(self.weight) > 0.0])
        if len(kinds) > 1:
            raise ValueError(
                "L2: weight must be a number, or a vector whose nonzero entries are equal, got "
                f"{kinds[0]:g} and {kinds[1]:g}"
            )

    @cached_property
    def terms(self) -> Terms:
        weights = host(self.weight)
        top = float(np.max(weights))
        if np.min(weights) > 0.0 or isinstance(self.weight, float):
            return Terms(l2=top, center=self._origin)
        groups = Groups(np.where(weights > 0.0, 0, -1))
        return Terms(group=top, groups=groups, center=self._origin)

    @property
    def squared(self) -> tuple[float, SmoothFunction] | None:
        top = float(np.max(host(self.weight)))
        if not top:
            return None
        counts = 1.0
        if arrays.is_array(self.weight):
            counts = arrays.namespace(self.weight).astype(self.weight > 0.0, self.weight.dtype)
        return top, SquaredNorm(counts, self.center)


@dataclasses.dataclass(frozen=True)
class ElasticNet(Penalty):
    """l1 |x|_1 + l2/2 |x|_2², which has strong convexity l2.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2, 4]], [4])
        >>> tb.solve(tb.Problem(lower=fit, upper=tb.ElasticNet(1.0, 2.0))).x.round(2)
        array([0. , 0.2, 0.9])
    """

    l1: float
    l2: float
    _weights: ClassVar[tuple[str, ...]] = ("l1", "l2")

    @cached_property
    def terms(self) -> Terms:
        return Terms(l1=self.l1, square=self.l2)


@dataclasses.dataclass(frozen=True, eq=False)
class GroupL2(Penalty):
    """weight times the sum over the groups G of |x_G|_2, without factors for their sizes.

    ``groups`` is either a vector of whole numbers, the group of each variable (-1 for none), or a
    list of lists of variables. Groups are disjoint. Variables in no group are not penalised. Sums
    over groups are computed on the host.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1, 1]], [6])  # one group is enough
        >>> tb.solve(tb.Problem(lower=fit, upper=tb.GroupL2([0, 0, 1]))).x.round(2)
        array([3., 3., 0.])
    """

    groups: Any
    weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.groups, Groups):
            assign(self, "groups", Groups(self.groups))
        assign(self, "names", self.groups.names)
        assign(self, "dimension", self.groups.length)  # None if groups were given as lists
        remember(self, GroupL2, groups=self.groups, weight=self.weight)

    def check(self, n: int) -> None:
        self.groups.check(n)

    @cached_property
    def terms(self) -> Terms:
        groups = self.groups
        if groups.count == 1 and groups.length is not None and not groups.labels.any():
            # There is only one group, and all variables are in it.
            return Terms(l2=self.weight)
        return Terms(group=self.weight if groups.count else 0.0, groups=groups)


@dataclasses.dataclass(frozen=True, eq=False)
class Indicator(Penalty, in_tables=False):
    """0 on the set ``domain``, inf outside; its prox is the projection.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2]) + tb.Indicator(tb.Box(0.0, 1.5))
        >>> tb.solve(tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]))).x.round(4)
        array([1.5, 0.5])
    """

    domain: Domain
    _weights: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if isinstance(self.domain, type) or not isinstance(self.domain, Domain):
            got = checks.what_it_is(self.domain)
            raise TypeError(f"Indicator: domain must be a domain such as Box(0, 1), got {got}")
        remember(self, Indicator, domain=self.domain)
        assign(self, "names", self.domain.names)

    @property
    def label(self) -> str:
        return type(self.domain).__name__

    def check(self, n: int) -> None:
        self.domain.check(n)

    def value(self, x: Array) -> float:
        """Return 0 if the set's ``contains`` says that x is in the set; otherwise inf."""
        return 0.0 if self.domain.contains(x) else INFINITY

    @property
    def unrestricted(self) -> Penalty:
        return Zero()

    @cached_property
    def terms(self) -> Terms:
        return Terms(domain=self.domain)


@dataclasses.dataclass(frozen=True, eq=False)
class PenaltySum(Penalty, in_tables=False):
    """The sum of two penalties, written ``first + second``.

    If the two penalties have no joint prox in closed form, only conic solvers accept the sum.
    """

    first: Penalty
    second: Penalty

    def __post_init__(self) -> None:
        sizes = [p.dimension for p in (self.first, self.second) if p.dimension is not None]
        if len(set(sizes)) > 1:
            raise ValueError(
                "PenaltySum: both penalties must have the same number of variables, "
                f"got {sizes[0]} and {sizes[1]}"
            )
        assign(self, "dimension", sizes[0] if sizes else None)
        _ = self.terms  # raises a Refusal if the two cannot be added
        remember(self, PenaltySum, first=self.first, second=self.second)
        both = ("first", self.first.names), ("second", self.second.names)
        assign(self, "names", tables.common("PenaltySum", *both))

    def __repr__(self) -> str:
        return f"{self.first!r} + {self.second!r}"

    @property
    def label(self) -> str:
        return f"{self.first.label} + {self.second.label}"

    @property
    def summands(self) -> tuple[Penalty, ...]:
        return self.first.summands + self.second.summands

    @property
    def vectors(self) -> list[Array]:
        return [*self.first.vectors, *self.second.vectors]

    def check(self, n: int) -> None:
        self.first.check(n)
        self.second.check(n)

    def value(self, x: Array) -> float:
        return self.first.value(x) + self.second.value(x)

    def is_conic(self, n: int) -> bool:
        return self.first.is_conic(n) and self.second.is_conic(n)

    def add_to_conic(self, form: ConicForm, cost: Cost) -> bool:
        return self.first.add_to_conic(form, cost) and self.second.add_to_conic(form, cost)

    @property
    def unrestricted(self) -> Penalty:
        return PenaltySum(self.first.unrestricted, self.second.unrestricted)

    def scaled(self, factor: float) -> Penalty:
        return PenaltySum(self.first.scaled(factor), self.second.scaled(factor))

    @cached_property
    def terms(self) -> Terms:
        """The sum for conic solvers only, if one of the two has no prox with other penalties."""
        pair = known(self.first), known(self.second)
        first, second = (penalty.terms for penalty in pair)
        is_alone = first.is_alone or second.is_alone
        if not is_alone and (first.has_operator or second.has_operator):
            return added(first, second)
        return joint(*pair, owner="PenaltySum").terms(1.0, 1.0)
