"""Huber losses as a part: squares within delta of their targets, and forces of size delta beyond.

With r = Ax - b and psi = clip(r, -delta, delta), all minimisers of g have the same psi: what they
minimise has the conjugate psi²/2 + <b, psi> on |psi| <= delta, which is strictly convex. So they
share <a_i, x> in the rows where |psi_i| < delta; of the others, outliers, they share that
+-r_i >= delta and no more. Where the outliers' rows are combinations of the others (and of what Z
holds), that makes no difference: all of Ax is shared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from tiebreak.functions.losses.huber import Huber
from tiebreak.functions.parts.quadratic_parts import Part
from tiebreak.linalg import EPS, Host, rounding_unit
from tiebreak.linalg.host import host, norm, top_exponent

# Outliers have no curvature. This share of that of a quadratic above them keeps steps of Newton's
# method finite where outliers alone see a direction; x gains six digits with a step all the same.
OUTLIER_CURVATURE = 1e-6


class Kinks(NamedTuple):
    """How far rows of Huber losses are from |r| = delta at a point, rounding errors subtracted."""

    rows: Host
    room: Host  # negative: nothing is known
    is_outlier: Host

    @property
    def outliers(self) -> Host:
        """The rows of the outliers."""
        return np.asarray(self.rows[self.is_outlier])

    def some(self, which: Host) -> Kinks:
        """Those of some rows."""
        return Kinks(*(of_all[which] for of_all in self))

    def radius(self) -> float:
        """No row of a point that is closer than this passes its kink; inf without rows."""
        lengths = np.sqrt(np.sum(self.rows * self.rows, axis=1)) * (1.0 + 1e-12)
        with np.errstate(divide="ignore", invalid="ignore"):
            ways = np.where(self.room > 0.0, self.room / lengths, 0.0)
        return float(np.min(ways, where=lengths > 0.0, initial=math.inf))


@dataclass(frozen=True)
class HuberPart(Part):
    """weight times the sum of weights_i h(<a_i, x> - target_i)."""

    target: Host
    weights: Host  # of the rows, positive
    delta: float
    is_quadratic: ClassVar[bool] = False

    def dual(self, x: Host) -> Host:
        r = self.sliced.times(x, self.target)
        return np.asarray(self.weight * self.weights * np.clip(r, -self.delta, self.delta))

    def size(self, x: Host) -> float:
        return self.weight * norm(self.weights * np.minimum(self._sizes(x), self.delta))

    def noise(self, x: Host, dual: Host) -> float:
        """Residuals err by more than their slopes, unless they are those of outliers."""
        shape, kinks = self.rows.shape, self.kinks(x)
        unit = 4.0 * (EPS * float(max(shape))) ** 2
        if self.sliced.is_plain:
            unit = rounding_unit(EPS, *shape)
        may_err = ~(kinks.is_outlier & (kinks.room > 0.0))
        return unit / (8.0 * EPS) * self.weight * norm(self._sizes(x) * self.weights * may_err)

    def _sizes(self, x: Host) -> Host:
        """The sizes of the terms of the residuals."""
        return np.asarray(self.lengths * norm(x) + np.abs(self.target))

    def curvature(self, x: Host, above: bool = False) -> Host:
        """The quadratic ``above`` has the curvature psi/r in every row, as is well known."""
        r = np.abs(self.rows @ x - self.target)
        bend = self.delta / np.maximum(r, self.delta)
        if not above:
            bend = np.where(r < self.delta, 1.0, OUTLIER_CURVATURE * bend)
        return np.asarray(np.sqrt(self.weight * self.weights * bend)[:, None] * self.rows)

    def along(self, x: Host, d: Host) -> Callable[[float], float]:
        start, change, most = self.rows @ x - self.target, self.rows @ d, self.delta
        weighted = self.weight * self.weights * change
        return lambda step: float(weighted @ np.clip(start + step * change, -most, most))

    def largest_curvature(self, at: Host, reach: float) -> float:
        return self.weight * float(np.max(self.weights)) * self.norm * self.norm

    def slope_ratio(self, at: Host, off: float) -> float:
        """Of squares: for rows that are no outliers."""
        r = np.abs(self.rows @ at - self.target) + self.norm * off
        return math.sqrt(self.weight) * norm(np.sqrt(self.weights) * r)

    def kinks(self, x: Host) -> Kinks:
        """How far all rows are from their kinks at x."""
        r = np.abs(self.sliced.times(x, self.target))
        error = 2.0 * rounding_unit(EPS, self.rows.shape[1]) * (self._sizes(x) + self.delta)
        return Kinks(self.rows, np.abs(r - self.delta) - error, r >= self.delta)

    @property
    def exponent(self) -> int:
        return super().exponent + top_exponent(self.weights)

    def scaled(self, top: int) -> Part:
        """Residuals in units in which rows are near 1: delta too."""
        e = top_exponent(self.rows)
        target, delta = np.ldexp(self.target, -e), math.ldexp(self.delta, -e)
        return Part.scaled(replace(self, target=target, delta=delta), top)


def huber_part(weight: float, loss: Huber) -> HuberPart:
    """weight times a loss, as a part; rows of weight 0 are left out."""
    rows, b = loss.matrix.dense(), host(loss.b)
    weights = np.ones(len(rows)) if loss.weights is None else host(loss.weights)
    kept = weights > 0.0
    return HuberPart(weight * loss.scale, rows[kept], b[kept], weights[kept], loss.delta)
