"""The parts of a function that are losses of a linear map and no squares, their matrices at hand.

All that the exact solver and its proofs ask of a loss is a method here; another loss is another
subclass of `LossPart`, with one more line in `loss_part`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.losses.logistic import Logistic
from tiebreak.functions.losses.poisson import Poisson
from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import EPS, Host, arrays, rounding_unit
from tiebreak.linalg.host import host, norm, top_exponent

LARGEST_POWER = 700.0  # e to this is no overflow


@dataclass(frozen=True)
class LossPart(Part):
    """weight times the sum of weights_i phi_i(<a_i, x>), phi_i convex and smooth, no square.

    The third derivative of phi_i is at most ``concordance`` times its second one, so that this
    changes by no more than a factor e^(concordance s) where the margin <a_i, x> changes by s (Bach,
    Electron. J. Statist. 2010); a loss with kinks in its slope says by `room` how far that holds.
    """

    weights: Host  # of the rows, positive
    is_quadratic: ClassVar[bool] = False
    concordance: ClassVar[float] = 1.0

    # -- a subclass gives these, for all margins

    @abstractmethod
    def first(self, margins: Host) -> Host:
        """The derivatives of phi_i."""

    @abstractmethod
    def second(self, margins: Host) -> Host:
        """The second derivatives of phi_i."""

    @abstractmethod
    def second_above(self, margins: Host) -> Host:
        """Those of quadratics that touch phi_i at the margins and are above it where that counts.

        Everywhere, or with ``has_quadratic_above = False`` on the way to the minimiser of phi_i.
        """

    @abstractmethod
    def terms(self, margins: Host) -> Host:
        """The sizes of the terms of ``first`` before they cancel."""

    @abstractmethod
    def first_error(self, first: Host) -> Host:
        """Bounds on the errors of ``first`` beyond its rounding, over 8 EPS, from what it is."""

    @abstractmethod
    def largest_second(self, low: Host, high: Host) -> Host:
        """The largest second derivatives between two margins."""

    @abstractmethod
    def largest_ratio(self, low: Host, high: Host) -> Host:
        """The largest first'²/second between two margins."""

    def room(self, x: Host) -> float:
        """All margins may change by less than this from x: so far ``concordance`` holds."""
        return math.inf

    # -- and these follow

    def curvature_kept(self, x: Host, change: float) -> float:
        """The least share of the second derivatives at x that is left where margins change so much.

        1/share bounds what they are at most; 0: nothing is known.
        """
        return math.exp(-self.concordance * change) if change < self.room(x) else 0.0

    def visible(self, margins: Host) -> Host:
        """What must not drown in rounding errors for the losses to decide anything."""
        return self.terms(margins)

    def margins_per_curvature(self, x: Host) -> float:
        """|<a_i, d>| <= this times |R d|, R'R the second derivative at x, for all i and d."""
        bends = self.weight * self.weights * self.second(self.rows @ x)
        least = float(np.min(bends, initial=math.inf))
        return 1.0 / math.sqrt(least) if least > 0.0 else math.inf

    def dual(self, x: Host) -> Host:
        return np.asarray(self.weight * self.weights * self.first(self.sliced.times(x)))

    def size(self, x: Host) -> float:
        """What the terms are, and what a change of all of x would make of them."""
        t = self.rows @ x
        slope, bend = norm(self.weights * self.terms(t)), norm(self.weights * self.second(t))
        return self.weight * (slope + bend * self.norm * norm(x))

    def noise(self, x: Host, dual: Host) -> float:
        """Where rounding changes the margins themselves nothing is known."""
        if not EPS * len(x) * self.norm * norm(x) < 1e-2:
            return math.inf
        return norm(self._first_errors(dual))

    def _first_errors(self, dual: Host) -> Host:
        """Those of `first_error`, weighted as the dual is."""
        errors = self.first_error(dual / self.weight / self.weights)
        return np.asarray(self.weight * self.weights * errors)

    def image_error(self, x: Host, dual: Host) -> float:
        roots = np.sqrt(self.weight * self.weights * self.second(self.rows @ x))
        if not (math.isfinite(self.noise(x, dual)) and np.all(roots > 0.0)):
            return math.inf
        return 8.0 * EPS * norm((np.abs(dual) + self._first_errors(dual)) / roots)

    def curvature(self, x: Host, above: bool = False) -> Host:
        t = self.rows @ x
        bend = self.weights * (self.second_above(t) if above else self.second(t))
        return np.sqrt(self.weight * bend)[:, None] * self.rows

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change = self.rows @ x, self.rows @ d
        weighted = self.weight * self.weights * change
        return lambda step: float(weighted @ self.first(start + step * change))

    def largest_curvature(self, at: Host, reach: float) -> float:
        t, off = self._margins(at, reach)
        bends = self.weights * self.largest_second(t - off, t + off)
        return self.weight * float(np.sum(bends * self.lengths * self.lengths))

    def slope_ratio(self, at: Host, off: float) -> float:
        t, error = self._margins(at, off)
        return math.sqrt(self.weight) * math.sqrt(
            float(np.sum(self.weights * self.largest_ratio(t - error, t + error)))
        )

    def _margins(self, at: Host, reach: float) -> tuple[Host, Host]:
        """The margins at a point, and how much they change within ``reach``, rounding included."""
        error = self.lengths * (reach + rounding_unit(EPS, *self.rows.shape) * norm(at))
        return self.rows @ at, np.asarray(error * (1.0 + 1e-9))

    @property
    def exponent(self) -> int:
        return super().exponent + top_exponent(self.weights)

    def scaled(self, top: int) -> Part:
        """The rows stay, for margins have a scale of their own."""
        return replace(self, weight=math.ldexp(self.weight, -top))


@dataclass(frozen=True)
class LogisticPart(LossPart):
    """phi(t) = log(1 + e^-t); the rows carry the labels' signs.

    Derivatives are e^lift times what they are: far out they would underflow.
    """

    lift: float = 0.0

    def first(self, margins: Host) -> Host:
        return -_logistic(margins, self.lift)

    def second(self, margins: Host) -> Host:
        return _logistic(margins, self.lift) * _logistic(-margins)

    def second_above(self, margins: Host) -> Host:
        """tanh(t/2)/(2t) (Jaakkola and Jordan 2000), 1/4 at t = 0: above phi everywhere."""
        bend = np.full(len(margins), 0.25)
        where = np.abs(margins) > 1e-4
        np.divide(np.tanh(0.5 * margins), 2.0 * margins, out=bend, where=where)
        return bend

    def terms(self, margins: Host) -> Host:
        return _logistic(margins, self.lift)

    def first_error(self, first: Host) -> Host:
        """e^-t errs by t units of rounding, relative, and absolutely by underflow."""
        slopes = np.maximum(np.abs(first), 2.0**-1022)
        return np.asarray(slopes * (3.0 + self.lift + np.abs(self.lift - np.log(slopes))))

    def largest_second(self, low: Host, high: Host) -> Host:
        return np.full(len(low), 0.25)

    def largest_ratio(self, low: Host, high: Host) -> Host:
        """(phi')²/phi'' = e^-t."""
        return np.asarray(np.exp(np.minimum(-low, LARGEST_POWER)))

    def lifted(self, lift: float) -> LogisticPart:
        """The same with another lift; what is known about the rows is kept."""
        found = replace(self, lift=lift)
        found.__dict__.update(sliced=self.sliced, norm=self.norm)
        return found


def _logistic(margins: Host, lift: float = 0.0) -> Host:
    """e^lift/(1 + e^t), accurate however small it is (and no more than e^700)."""
    return np.asarray(np.exp(np.minimum(lift - np.logaddexp(0.0, margins), LARGEST_POWER)))


@dataclass(frozen=True)
class PoissonPart(LossPart):
    """phi(t) = e^t - y t, up to a constant; phi''' = phi''."""

    counts: Host
    has_quadratic_above: ClassVar[bool] = False

    def first(self, margins: Host) -> Host:
        return np.asarray(_power(margins) - self.counts)

    def second(self, margins: Host) -> Host:
        return _power(margins)

    def second_above(self, margins: Host) -> Host:
        """The slope of the chord of phi' from t to log y, where t is below that; otherwise e^t.

        phi' is convex, hence below the chord between its ends and above it elsewhere: the quadratic
        is above phi at all margins up to log y. And phi' is above its tangent: the one of e^t is
        above phi at all margins up to t. Beyond there is none, for e^t grows faster.
        """
        has_count = self.counts > 0.0
        u = np.where(has_count, margins - np.log(np.where(has_count, self.counts, 1.0)), 0.0)
        u = np.minimum(u, 0.0)
        chord = np.ones(len(u))
        np.divide(np.expm1(u), u, out=chord, where=u < 0.0)
        return np.maximum(self.counts * chord, _power(margins))

    def terms(self, margins: Host) -> Host:
        return np.asarray(_power(margins) + self.counts)

    def visible(self, margins: Host) -> Host:
        return _power(margins)

    def first_error(self, first: Host) -> Host:
        """e^t errs by t units of rounding, relative, and absolutely by underflow."""
        means = np.maximum(first + self.counts, 2.0**-1022)
        return np.asarray(means * (3.0 + np.abs(np.log(means))))

    def largest_second(self, low: Host, high: Host) -> Host:
        with arrays.quiet():
            return np.asarray(np.exp(high))

    def largest_ratio(self, low: Host, high: Host) -> Host:
        """phi'/sqrt(phi'') = e^(t/2) - y e^(-t/2) rises with t."""
        with arrays.quiet():
            ends = [np.exp(0.5 * t) - self.counts * np.exp(-0.5 * t) for t in (low, high)]
            return np.asarray(np.maximum(*np.abs(ends)) ** 2)

    @property
    def exponent(self) -> int:
        return super().exponent + top_exponent(np.maximum(self.counts, 1.0))


def _power(margins: Host) -> Host:
    """e^t, and no more than e^700."""
    return np.asarray(np.exp(np.minimum(margins, LARGEST_POWER)))


# --- losses as parts ------------------------------------------------------------------------------


def loss_part(weight: float, loss: LinearLoss) -> LossPart:
    """weight times a loss, as a part; rows of weight 0 are left out."""
    rows, y = loss.matrix.dense(), host(loss.target)
    weights = np.ones(len(rows)) if loss.weights is None else host(loss.weights)
    kept = weights > 0.0
    if not kept.all():
        rows, y, weights = rows[kept], y[kept], weights[kept]
    if isinstance(loss, Poisson):
        return PoissonPart(weight * loss.scale, rows, weights, y)
    assert isinstance(loss, Logistic)
    return LogisticPart(weight * loss.scale, y[:, None] * rows, weights)
