"""The part of a function that is a loss of a linear map and no square, its matrix at hand.

All that the exact solver and its proofs ask of a loss is a method of its `ScalarLoss`, which stands
in the file of the loss.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import EPS, Host, rounding_unit
from tiebreak.linalg.host import norm, top_exponent

LARGEST_POWER = 700.0  # e to this is no overflow


class ScalarLoss(ABC):
    """phi_i of one margin, convex and smooth; ``target`` is what the rows are compared with.

    The third derivative of phi_i is at most ``concordance`` times its second one, so that this
    changes by no more than a factor e^(concordance s) where the margin <a_i, x> changes by s (Bach,
    Electron. J. Statist. 2010).
    """

    concordance: float = 1.0
    has_quadratic_above: ClassVar[bool] = True  # is the quadratic of `second_above` so everywhere?
    lift: float | None = None  # derivatives are e^lift times what they are; None: it has no lift

    @abstractmethod
    def first(self, margins: Host, target: Host) -> Host:
        """The derivatives of phi_i."""

    @abstractmethod
    def second(self, margins: Host, target: Host) -> Host:
        """The second derivatives of phi_i."""

    @abstractmethod
    def second_above(self, margins: Host, target: Host) -> Host:
        """Those of quadratics that touch phi_i at the margins and are above it where that counts.

        Everywhere, or with ``has_quadratic_above = False`` on the way to the minimiser of phi_i.
        """

    @abstractmethod
    def terms(self, margins: Host, target: Host) -> Host:
        """The sizes of the terms of ``first`` before they cancel."""

    @abstractmethod
    def first_error(self, first: Host, target: Host) -> Host:
        """Bounds on the errors of ``first`` beyond its rounding, over 8 EPS, from what it is."""

    @abstractmethod
    def largest_second(self, low: Host, high: Host, target: Host) -> Host:
        """The largest second derivatives between two margins."""

    @abstractmethod
    def largest_ratio(self, low: Host, high: Host, target: Host) -> Host:
        """The largest first'²/second between two margins."""

    def least_margin(self, value: Any) -> Any:
        """phi_i is never negative, and at most ``value`` only at margins from this on."""
        return 0.0 * value - math.inf

    def visible(self, margins: Host, target: Host) -> Host:
        """What must not drown in rounding errors for the losses to decide anything."""
        return self.terms(margins, target)

    def lifted(self, lift: float) -> ScalarLoss:
        """The same with another lift, of a loss that has one."""
        raise NotImplementedError

    def exponent(self, target: Host) -> int:
        """Of the power of two that its magnitude is near at moderate margins."""
        return 0


@dataclass(frozen=True)
class LossPart(Part):
    """weight times the sum of weights_i phi_i(<a_i, x>), phi no square."""

    weights: Host  # of the rows, positive
    target: Host
    phi: ScalarLoss
    is_quadratic: ClassVar[bool] = False

    @property
    def concordance(self) -> float:
        """That of phi."""
        return self.phi.concordance

    @property
    def has_quadratic_above(self) -> bool:  # type: ignore[override]
        return self.phi.has_quadratic_above

    def curvature_kept(self, x: Host, change: float) -> float:
        """The least share of the second derivatives at x that is left where margins change so much.

        1/share bounds what they are at most; 0: nothing is known.
        """
        return math.exp(-self.concordance * change)

    def margins_per_curvature(self, x: Host) -> float:
        """|<a_i, d>| <= this times |R d|, R'R the second derivative at x, for all i and d."""
        bends = self.weight * self.weights * self.phi.second(self.rows @ x, self.target)
        least = float(np.min(bends, initial=math.inf))
        return 1.0 / math.sqrt(least) if least > 0.0 else math.inf

    def dual(self, x: Host) -> Host:
        first = self.phi.first(self.sliced.times(x), self.target)
        return np.asarray(self.weight * self.weights * first)

    def size(self, x: Host) -> float:
        """What the terms are, and what a change of all of x would make of them."""
        t, y, w = self.rows @ x, self.target, self.weights
        slope, bend = norm(w * self.phi.terms(t, y)), norm(w * self.phi.second(t, y))
        return self.weight * (slope + bend * self.norm * norm(x))

    def noise(self, x: Host, dual: Host) -> float:
        """Where rounding changes the margins themselves nothing is known."""
        if not EPS * len(x) * self.norm * norm(x) < 1e-2:
            return math.inf
        return norm(self._first_errors(dual))

    def _first_errors(self, dual: Host) -> Host:
        """Those of `first_error`, weighted as the dual is."""
        errors = self.phi.first_error(dual / self.weight / self.weights, self.target)
        return np.asarray(self.weight * self.weights * errors)

    def image_error(self, x: Host, dual: Host) -> float:
        bends = self.phi.second(self.rows @ x, self.target)
        roots = np.sqrt(self.weight * self.weights * bends)
        if not (math.isfinite(self.noise(x, dual)) and np.all(roots > 0.0)):
            return math.inf
        return 8.0 * EPS * norm((np.abs(dual) + self._first_errors(dual)) / roots)

    def curvature(self, x: Host, above: bool = False) -> Host:
        second = self.phi.second_above if above else self.phi.second
        bend = self.weights * second(self.rows @ x, self.target)
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
        """The rows stay, for margins have a scale of their own."""
        return replace(self, weight=math.ldexp(self.weight, -top))

    def lifted(self, lift: float) -> LossPart:
        """The same with another lift; what is known about the rows is kept."""
        found = replace(self, phi=self.phi.lifted(lift))
        found.__dict__.update(sliced=self.sliced, norm=self.norm)
        return found
