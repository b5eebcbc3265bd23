"""States what proved bounds mean for a point: its gaps, its standing and its certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tiebreak import theory
from tiebreak.functions import PointWithImage
from tiebreak.linalg import EPS, TINY, TOL, Array, arrays, deadline, in_files
from tiebreak.proofs.accumulator import BoundAccumulator
from tiebreak.proofs.evidence import minorant_errors, value_error

UNDERFLOW = 1e-290  # a smaller gap counts as 0, and a smaller tolerance as no tolerance
BY_GROWTH = "the distance from x to a minimiser of g, which follows from the growth of g"
NOWHERE = (-math.inf, math.inf)  # the interval of an unknown value


@in_files("standing")
class Standing(NamedTuple):
    """The status of a point: the proved gaps, and how far below f* the value f(x) may be.

    The gaps alone do not rule out that f(x) lies far below f*, if x is slightly suboptimal for g.
    Let v(c) = min { f : g <= g* + c } and c = g(x) - g*. If the bound min { f : g <= l } >= L - mu
    (l - ghat) holds with f(x) <= L + eps/2 and mu c <= eps/8, then v(4c) is at most eps below f(x).
    So if v decreases at least half as much from c to 4c as from 0 to c, that is f* - v(4c) >= 1.5
    (f* - v(c)), then |f(x) - f*| <= 2 eps. The condition on v holds for quadratic growth of g, if x
    is not close to a minimiser of f alone. The condition fails if g grows so slowly in some
    direction that this growth is negligible relative to c: then f* - v(c) has a part that does not
    decrease with c. So this test is a guard and not a proof, whereas `upper_error` is a proved
    bound.
    """

    upper_gap: float  # an upper bound on f(x) - f*
    lower_gap: float  # an upper bound on g(x) - g*
    guard_gap: float  # f(x) - L
    price: float  # an upper bound on mu (g(x) - g*)

    def is_within(self, tolerance: tuple[float, float]) -> bool:
        """Are both gaps proved to be within the tolerance?"""
        return self.upper_gap <= tolerance[0] and self.lower_gap <= tolerance[1]

    def is_guarded(self, tolerance: float) -> bool:
        """Does the guard suggest that f(x) is not far below f*?"""
        half = 0.5 * tolerance
        return self.guard_gap <= half and -half <= self.upper_gap and self.price <= 0.25 * half

    @property
    def estimate(self) -> float:
        """An estimate of |f(x) - f*|: for quadratic growth of g, f* - f(x) is about 2 ``price``."""
        return max(abs(self.upper_gap), 2.0 * self.price)


class Proved(NamedTuple):
    """The bounds proved so far, passed to methods that adapt to them."""

    standing: Standing  # the standing of the method's point
    lower_bound: float  # a lower bound on g*
    least_value: float  # an upper bound on g*
    asked: tuple[float, float]  # the tolerances on both gaps, 0 if they do not stop the run
    is_guarded: bool  # must f(x) also be bounded from below?


@in_files("Certificate")
@dataclass(frozen=True)
class Certificate:
    """The bounds proved for a point x.

    Attributes:
        upper_value, lower_value: f(x) and g(x).
        upper_gap: a bound on f(x) - f* (inf: nothing is proved; negative: f(x) < f* is proved).
        lower_gap: a bound on g(x) - g*.
        upper_error: a bound on |f(x) - f*|.
        upper_optimum, lower_optimum: intervals that contain f* and g*.
        distance: how far x is from the domain; the gaps refer to x itself.
        upper_estimate: an estimate of |f(x) - f*| that assumes quadratic growth of g; not a bound.
        rests: what the upper bound on f* is based on: a point of Z, or the distance to such a
            point.
        status, message: set by ``certify``, with the same meaning as in a Result; empty in a
            Result's own certificate.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> proof = tb.solve(tb.Problem(lower=fit, upper=tb.SquaredNorm())).certificate
        >>> low, high = proof.upper_optimum  # f* lies between them
        >>> round(low, 6), round(high, 6)
        (1.0, 1.0)
    """

    upper_value: float
    lower_value: float
    upper_gap: float
    lower_gap: float
    upper_error: float
    upper_optimum: tuple[float, float]
    lower_optimum: tuple[float, float]
    distance: float
    upper_estimate: float = math.inf
    rests: str = ""
    status: str = ""
    message: str = ""

    @classmethod
    def of_gaps(
        cls,
        upper_value: float,
        lower_value: float,
        upper_gap: float = math.inf,
        lower_gap: float = math.inf,
    ) -> Certificate:
        """A certificate that contains only these gaps."""
        gaps = upper_gap, lower_gap, math.inf
        return cls(upper_value, lower_value, *gaps, NOWHERE, NOWHERE, 0.0)

    def without_upper(self) -> Certificate:
        """The certificate without bounds on f*, for a problem whose f* turned out not to exist."""
        return replace(self, upper_gap=math.inf, upper_error=math.inf, upper_optimum=NOWHERE)

    def __str__(self) -> str:
        lines = [
            _proved("upper level", "f", self.upper_value, self.upper_gap, self.upper_optimum),
            _proved("lower level", "g", self.lower_value, self.lower_gap, self.lower_optimum),
        ]
        if math.isfinite(self.upper_error):
            lines.append(f"both sides    |f(x) - f*| <= {self.upper_error:.3g}")
        if self.status:
            lines.insert(0, f"{self.status}{': ' if self.message else ''}{self.message}")
        if self.distance > 0.0:
            lines.append(f"outside       x is {self.distance:.3g} away from the domain")
        return "\n".join(lines)


def _proved(level: str, letter: str, value: float, gap: float, where: tuple[float, float]) -> str:
    """One line of a report: the value, and the bounds proved for it."""
    if math.isinf(gap):
        return (
            f"{level}   {letter}(x) = {value:.9g}, not certified: "
            f"nothing bounds {letter}* from below"
        )
    low, high = where
    interval = f"{letter}* in [{low:.9g}, {high:.9g}]"
    if math.isinf(high):
        interval = f"{letter}* >= {low:.9g}"
    if gap < 0.0:
        return (
            f"{level}   {letter}(x) = {value:.9g}, proved: {letter}(x) < {letter}* "
            f"by at least {-gap:.3g}, so x does not minimise the lower level; {interval}"
        )
    proved = f"{letter}(x) - {letter}* <= {gap:.3g}"
    return f"{level}   {letter}(x) = {value:.9g}, proved: {proved}; {interval}"


class Certifier:
    """Judges a point using an accumulator's bounds, and writes the point's certificate."""

    def __init__(self, accumulator: BoundAccumulator) -> None:
        self._accumulator, self._problem = accumulator, accumulator.problem
        # The last point, the data that its errors depend on, and these errors.
        self._errors: tuple[Any, ...] = (None,)

    def standing(
        self, x: Array, upper_value: float, lower_value: float, effort: int = 5, reach: Any = None
    ) -> Standing:
        """Proved upper bounds on f(x) - f* and g(x) - g*, and the guard; inf for a missing bound.

        If ``effort`` is 0, bounds found earlier are reused. `Minorant` explains ``reach``.
        """
        known = self._accumulator
        if effort:
            known.bounds(effort)
        if known.is_contradicted:
            return Standing(math.inf, math.inf, math.inf, math.inf)
        errors = self.value_errors(x, upper_value, lower_value, reach)
        upper, s = upper_value + errors[0], known.sums
        gap, mu = lower_value + errors[1] - s.lower_bound, s.guard.multiplier
        return Standing(
            upper_gap=upper - s.upper_bound,
            lower_gap=gap,
            guard_gap=upper - s.guard.at(s.ghat),
            price=mu * max(gap, 0.0) if mu > 0.0 else 0.0,
        )

    def value_errors(
        self, x: Array, upper_value: float, lower_value: float, reach: Any = None
    ) -> tuple[float, float]:
        """Bounds on the rounding errors of f and g at x; `Minorant` explains ``reach``.

        The errors of the last point are cached, because a step needs them several times.
        """
        known, values = self._accumulator, (upper_value, lower_value)
        lasts = known.sums.last_upper, known.sums.last_lower
        key = (id(reach), values, *map(id, lasts), known.part_sizes)
        if self._errors[0] is not x or self._errors[1] != key:
            size = max(arrays.norm(x), *arrays.floats([reach]))
            levels = self._problem.upper, self._problem.lower
            found = tuple(
                value_error(
                    h,
                    x,
                    size if reach is not None else h.extent(x),
                    value,
                    parts,
                    0.0 if last is None else known.steepness(last, size),
                )
                + TINY
                for h, value, last, parts in zip(
                    levels, values, lasts, known.part_sizes, strict=True
                )
            )
            self._errors = x, key, found, (reach, lasts)
        errors: tuple[float, float] = self._errors[2]
        return errors

    def certificate(
        self, x: Array, upper_value: float, lower_value: float, asked: float = 0.0
    ) -> Certificate:
        """The certificate of x, given f(x) and g(x); ``asked`` is the tolerance on f."""
        known = self._accumulator
        standing = self.standing(x, upper_value, lower_value, effort=30)
        distance = self._problem.domain.excess(x)
        ceiling, rests = known.sums.upper_ceiling, known.sums.rests
        # If the upper bound on f* is as close to f(x) as the lower bound, within the tolerance, or
        # accurate to half the digits, we do not factorise to improve it.
        close = max(standing.upper_gap, asked, math.sqrt(EPS) * abs(upper_value))
        if ceiling - upper_value > close and not known.is_steep:
            values = upper_value, lower_value
            own = self._upper_ceiling(x, *values, standing.lower_gap, distance)
            ceiling, rests = min((ceiling, rests), (own, BY_GROWTH))
        if not ceiling >= known.sums.upper_bound:
            known.refuted = True  # an error bound or Lipschitz constant that cannot be true
        if known.is_contradicted:
            nothing = Certificate.of_gaps(upper_value, lower_value)
            value = (-math.inf, known.sums.ghat)
            return replace(nothing, lower_optimum=value, distance=distance)
        return Certificate(
            upper_value=upper_value,
            lower_value=lower_value,
            upper_gap=standing.upper_gap,
            lower_gap=standing.lower_gap,
            upper_error=max(standing.upper_gap, ceiling - upper_value),
            upper_optimum=(known.sums.upper_bound, ceiling),
            lower_optimum=(known.sums.lower_bound, known.sums.ghat),
            distance=distance,
            upper_estimate=standing.estimate,
            rests=rests if math.isfinite(ceiling) else "",
        )

    def _upper_ceiling(
        self, x: Array, upper_value: float, lower_value: float, lower_gap: float, distance: float
    ) -> float:
        """An upper bound on f*, from a bound d on the distance from x to the solution set.

        If g grows like mu/2 dist² (strongly convex, or least squares on R^n), d² = 2 gap/mu and f*
        <= f(x) + |grad f1(x)| d + L_f/2 d² + (the rise of f2 over a distance d); with the user's
        error bound, f* <= f(x) + M d (Proposition 1). Otherwise we return inf: no first-order
        method can bound f* from above. The growth condition holds on Z: for a point outside Z (by
        ``distance``) we return inf, unless that distance is within rounding error. If x is deep
        inside Z, growth on R^n suffices.
        """
        f, bound = self._problem.in_precision_of(x).upper, self._problem.error_bound
        (upper,), _ = f.evaluate([PointWithImage(x, *f.forward(x))])
        known, n = self._accumulator, int(x.shape[0])
        f2, g2 = (penalty.terms for penalty in self._problem.penalties)
        size, steepness = arrays.norm(x), arrays.norm(upper.slope)
        _, slope_error = minorant_errors(f, upper, size, steepness)
        above = upper_value + value_error(f, x, size, upper_value, upper.size, steepness)
        if f.lipschitz == 0.0 and steepness == 0.0 and not f2.has_weights:
            return above  # f is constant
        outside = self._problem.domain.distance_bound(x)
        is_inside = distance <= self._problem.domain.projection_error(x, size)
        if not (is_inside and math.isfinite(steepness) and math.isfinite(lower_gap)):
            return math.inf
        last = known.sums.last_lower or known.sums.last_cut
        gap = max(lower_gap, 0.0)
        if outside > 0.0 and last is not None:
            gap += outside * (known.steepness(last, size) + g2.steepness(n, size))
        rises = [math.inf]
        growth = deadline.unless_too_long(lambda: self._problem.growth, 0.0)
        reaches = [math.sqrt(2.0 * gap / growth) + outside] if growth > 0.0 else []
        reaches = [d for d in (*reaches, self._way_inside(x, lower_value)) if math.isfinite(d)]
        for d in reaches if reaches and math.isfinite(f.lipschitz) else ():
            slope = steepness + slope_error + f2.steepness(n, size + d)
            rises.append(slope * d + 0.5 * f.lipschitz * d * d)
        if bound is not None:
            floor = theory.upper_floor(
                gap,
                order=bound.order,
                modulus=bound.modulus,
                gradient_bound=bound.gradient_bound,
            )
            slope = steepness + slope_error + f2.steepness(n, size)
            rises.append(outside * slope - floor)
        return above + min(rises)

    def _way_inside(self, x: Array, lower_value: float) -> float:
        """A bound on the distance to a minimiser of g on R^n that lies in Z; inf if there is none.

        Growth on R^n, g - inf g >= mu/2 dist², bounds the distance. If the ball of that radius
        around x is in Z, so is the nearest minimiser, which then also minimises g on Z.
        """
        g, depth = self._problem.lower, self._problem.domain.depth(x)
        if depth == 0.0:
            return math.inf
        error = self.value_errors(x, 0.0, lower_value)[1]
        excess = max(lower_value - g.lower_bound, 0.0) + error
        # The growth takes a factorisation, so compute it only if it can help.
        if not 0.5 * depth * depth * TOL.independent * g.rough_lipschitz > excess:
            return math.inf
        growth = deadline.unless_too_long(lambda: g.growth, 0.0)
        d = math.sqrt(2.0 * excess / growth) if growth > 0.0 else math.inf
        return d if d < depth else math.inf
