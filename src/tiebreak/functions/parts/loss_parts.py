"""Parts of a function that are losses of a linear map, but not squares, with their matrices.

The methods of a `ScalarLoss` give everything that the exact solver and its proofs need to know
about a smooth loss. Each subclass is in the same file as its loss.

All other losses have clipped residuals as slopes: such losses are squares near the targets and
linear far from them. With r = Ax - target, the slopes are psi = clip(r, low, high). For Huber's
loss, low and high are -delta and delta; for squared hinge losses, they are -inf and 0. All
minimisers of g have the same psi, because the conjugate of the loss, psi²/2 + <target, psi> on
low <= psi <= high, is strictly convex. So all minimisers have the same <a_i, x> in the rows where
psi_i is between its bounds. In the other rows, the outliers, minimisers only have r_i >= high (or
r_i <= low) in common. If the rows of the outliers are combinations of the others (and of rows that
Z fixes), all minimisers have the same Ax.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import EPS, TOL, Host, rounding_unit
from tiebreak.linalg.host import norm, top_exponent

LARGEST_POWER = 700.0  # e^p does not overflow for p up to 700


class ScalarLoss(ABC):
    """Convex smooth losses phi_i of one margin each; ``target`` has one number per loss.

    The third derivative of phi_i is at most ``concordance`` times the second derivative, which
    therefore changes by at most a factor e^(concordance s) if the margin <a_i, x> changes by s
    (Bach 2010).
    """

    concordance: float = 1.0
    lift: float | None = None  # derivatives have the factor e^lift; None if not supported

    @abstractmethod
    def first(self, margins: Host, target: Host) -> Host:
        """The derivatives of phi_i."""

    @abstractmethod
    def second(self, margins: Host, target: Host) -> Host:
        """The second derivatives of the losses phi_i."""

    @abstractmethod
    def terms(self, margins: Host, target: Host) -> Host:
        """The sizes of the terms of `first` before they cancel."""

    @abstractmethod
    def first_error(self, first: Host, target: Host) -> Host:
        """Bounds, in units of 8 EPS, on the errors of ``first``, apart from its final rounding."""

    @abstractmethod
    def largest_second(self, low: Host, high: Host, target: Host) -> Host:
        """The largest second derivatives at margins between ``low`` and ``high``, or infinite."""

    @abstractmethod
    def largest_ratio(self, low: Host, high: Host, target: Host) -> Host:
        """The largest (phi_i')²/phi_i'' at margins between ``low`` and ``high``."""

    def least_margin(self, value: Any) -> Any:
        """A lower bound on the margins where phi_i, which is non-negative, is at most ``value``."""
        return 0.0 * value - math.inf

    def visible(self, margins: Host, target: Host) -> Host:
        """The terms of each loss that decide whether `Parts.without_negligible` removes it."""
        return self.terms(margins, target)

    def lifted(self, lift: float) -> ScalarLoss:
        """The loss with derivatives multiplied by e^lift; only some losses support a lift."""
        raise NotImplementedError

    def exponent(self, target: Host) -> int:
        """The k for which 2^k is near the size of the loss at moderate margins."""
        return 0


@dataclass(frozen=True)
class LossPart(Part):
    """weight times the sum of weights_i phi_i(<a_i, x>), where phi is not a square."""

    target: Host
    weights: Host  # positive weights, one per row
    phi: ScalarLoss

    def curvature_kept(self, change: float) -> float:
        """A lower bound on the factor of second derivatives if margins change by ``change``.

        The inverse of this bound is an upper bound on the factor.
        """
        return math.exp(-self.phi.concordance * change)

    def margins_per_curvature(self, x: Host) -> float:
        """A bound on |<a_i, d>|/|R d| for all i and d, R'R being the second derivative at x."""
        bends = self.weight * self.weights * self.phi.second(self.rows @ x, self.target)
        least = float(np.min(bends, initial=math.inf))
        return 1.0 / math.sqrt(least) if least > 0.0 else math.inf

    def dual(self, x: Host) -> Host:
        first = self.phi.first(self.sliced.times(x), self.target)
        return np.asarray(self.weight * self.weights * first)

    def size(self, x: Host) -> float:
        """The size of the dual's terms, plus the size of their change if x moved to 0."""
        t, y, w = self.rows @ x, self.target, self.weights
        slope, bend = norm(w * self.phi.terms(t, y)), norm(w * self.phi.second(t, y))
        return self.weight * (slope + bend * self.norm * norm(x))

    def noise(self, x: Host, dual: Host) -> float:
        """The norm of the errors from `first_error`; inf if margins may have errors above 1e-2."""
        if not EPS * len(x) * self.norm * norm(x) < 1e-2:
            return math.inf
        return norm(self._first_errors(x, dual))

    def _first_errors(self, x: Host, dual: Host) -> Host:
        """The bounds from `first_error`, multiplied by the weights of the dual."""
        errors = self.phi.first_error(dual / self.weight / self.weights, self.target)
        return np.asarray(self.weight * self.weights * errors)

    def image_error(self, x: Host, dual: Host) -> float:
        bends = self.phi.second(self.rows @ x, self.target)
        roots = np.sqrt(self.weight * self.weights * bends)
        if not (math.isfinite(self.noise(x, dual)) and np.all(roots > 0.0)):
            return math.inf
        return 8.0 * EPS * norm((np.abs(dual) + self._first_errors(x, dual)) / roots)

    def curvature(self, x: Host) -> Host:
        bend = self.weights * self.phi.second(self.rows @ x, self.target)
        return np.sqrt(self.weight * bend)[:, None] * self.rows

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change = self.rows @ x, self.rows @ d
        weighted = self.weight * self.weights * change
        return lambda step: float(weighted @ self.phi.first(start + step * change, self.target))

    def largest_curvature(self, at: Host, reach: float) -> float:
        t, off = self._margins(at, reach)
        bends = self.weights * self.phi.largest_second(t - off, t + off, self.target)
        return self.weight * float(np.sum(bends * self.lengths * self.lengths))

    def slope_ratio(self, at: Host, off: float) -> float:
        t, error = self._margins(at, off)
        ratios = self.phi.largest_ratio(t - error, t + error, self.target)
        return math.sqrt(self.weight) * math.sqrt(float(np.sum(self.weights * ratios)))

    def _margins(self, at: Host, reach: float) -> tuple[Host, Host]:
        """The margins at a point, and how much they change within ``reach``, rounding included."""
        error = self.lengths * (reach + rounding_unit(EPS, *self.rows.shape) * norm(at))
        return self.rows @ at, np.asarray(error * (1.0 + 1e-9))

    @property
    def exponent(self) -> int:
        return super().exponent + top_exponent(self.weights) + self.phi.exponent(self.target)

    def scaled(self, top: int) -> Part:
        """Scale only the weight, because margins have a fixed scale."""
        return replace(self, weight=math.ldexp(self.weight, -top))

    def lifted(self, lift: float) -> LossPart:
        """The part with a different lift; everything computed from the rows is reused."""
        found = replace(self, phi=self.phi.lifted(lift))
        found.__dict__.update(sliced=self.sliced, norm=self.norm)
        return found


# --- clipped residuals


class Kinks(NamedTuple):
    """How far the residual of each row, at a point, is from the kinks of the row's slope."""

    rows: Host
    room: Host  # a lower bound on each row's distance from its kinks; negative if unknown
    is_outlier: Host
    side: Host  # -1 or +1, the side of the nearest kink: outliers have side * r >= bound
    bound: Host

    @property
    def outliers(self) -> Host:
        """The rows that are outliers."""
        return np.asarray(self.rows[self.is_outlier])

    def some(self, which: Host) -> Kinks:
        """The kinks of the chosen rows only."""
        return Kinks(*(of_all[which] for of_all in self))

    def radius(self) -> float:
        """A distance within which no row passes its kink; inf if there are no rows."""
        lengths = np.sqrt(np.sum(self.rows * self.rows, axis=1)) * (1.0 + 1e-12)
        with np.errstate(divide="ignore", invalid="ignore"):
            ways = np.where(self.room > 0.0, self.room / lengths, 0.0)
        return float(np.min(ways, where=lengths > 0.0, initial=math.inf))


@dataclass(frozen=True)
class ClippedPart(Part):
    """weight times the sum of weights_i phi(<a_i, x> - target_i); phi' is the clipped residual.

    The residuals are clipped to [-delta, delta], or to [-inf, 0]; ``high`` is the distance between
    kinks and targets.
    """

    target: Host
    weights: Host  # positive weights, one per row
    low: float
    high: float
    has_kinks: ClassVar[bool] = True
    in_units_of_rows: ClassVar[tuple[str, ...]] = ("target", "low", "high")

    @property
    def unit(self) -> float:
        """The unit for residuals: ``high`` or, if that is 0, the largest |target|."""
        return self.high or float(np.max(np.abs(self.target), initial=0.0)) or 1.0

    def beyond(self, x: Host) -> float:
        """The largest |residual|/delta; 0 if the kinks are at the targets."""
        off = float(np.max(np.abs(self.rows @ x - self.target)))
        return off / self.high if self.high else 0.0

    def dual(self, x: Host) -> Host:
        r = self.sliced.times(x, self.target)
        return np.asarray(self.weight * self.weights * np.clip(r, self.low, self.high))

    def size(self, x: Host) -> float:
        return self.weight * norm(self.weights * np.minimum(self._sizes(x), -self.low))

    def noise(self, x: Host, dual: Host) -> float:
        """The errors of the residuals, or 0 for definite outliers, whose slopes do not change."""
        shape, kinks = self.rows.shape, self.kinks(x)
        unit = 4.0 * (EPS * float(max(shape))) ** 2
        if self.sliced.is_plain:
            unit = rounding_unit(EPS, *shape)
        may_err = ~(kinks.is_outlier & (kinks.room > 0.0))
        return unit / (8.0 * EPS) * self.weight * norm(self._sizes(x) * self.weights * may_err)

    def _sizes(self, x: Host) -> Host:
        """The sizes of the terms of the residuals."""
        return np.asarray(self.lengths * norm(x) + np.abs(self.target))

    def curvature(self, x: Host) -> Host:
        """R for Newton's method, with a small curvature for outliers, which have none of their own.

        This curvature keeps Newton steps finite along directions that change only outliers; each
        step still adds six correct digits.
        """
        r, bend = self.rows @ x - self.target, self._bend_above(x)
        is_inside = (r > self.low) & (r < self.high)
        return self._root(np.where(is_inside, 1.0, TOL.small_change * bend))

    def curvature_above(self, x: Host) -> Host:
        """The second derivative of a quadratic function that lies above the loss."""
        return self._root(self._bend_above(x))

    def _bend_above(self, x: Host) -> Host:
        """The ratio psi/r in every row; 1 for a squared hinge."""
        r = np.abs(self.rows @ x - self.target)
        return np.asarray(self.high / np.maximum(r, self.high) if self.high else np.ones(len(r)))

    def _root(self, bend: Host) -> Host:
        return np.asarray(np.sqrt(self.weight * self.weights * bend)[:, None] * self.rows)

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change = self.rows @ x - self.target, self.rows @ d
        weighted = self.weight * self.weights * change
        return lambda step: float(weighted @ np.clip(start + step * change, self.low, self.high))

    def largest_curvature(self, at: Host, reach: float) -> float:
        return self.weight * float(np.max(self.weights)) * self.norm * self.norm

    def slope_ratio(self, at: Host, off: float) -> float:
        """The bound for a sum of squares: the caller has removed the outliers."""
        r = np.abs(self.rows @ at - self.target) + self.norm * off
        return math.sqrt(self.weight) * norm(np.sqrt(self.weights) * r)

    def kinks(self, x: Host) -> Kinks:
        """How far the residuals at x are from the kinks."""
        r = self.sliced.times(x, self.target)
        ways = np.abs(r - self.low), np.abs(r - self.high)
        side = np.where(ways[0] < ways[1], -1.0, 1.0)
        error = 2.0 * rounding_unit(EPS, self.rows.shape[1]) * (self._sizes(x) + self.high)
        is_outlier = (r <= self.low) | (r >= self.high)
        bound = np.where(side > 0.0, self.high, -self.low)
        return Kinks(self.rows, np.minimum(*ways) - error, is_outlier, side, bound)

    @property
    def exponent(self) -> int:
        return super().exponent + top_exponent(self.weights)

    def with_kinks(self, share: float) -> ClippedPart:
        """The part with the distances between kinks and targets multiplied by ``share``."""
        return replace(self, low=share * self.low, high=share * self.high)
