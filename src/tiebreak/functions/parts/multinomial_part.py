"""Softmax regression as a part: losses log(1 + sum of e^-t) over several margins t of an example.

With p_k = e^-t_k/(1 + sum of e^-t) the second derivative in the margins of one example is
diag(p) - pp', and with p_0 = 1 - sum of p_k the probability of its own class

    diag(p) - pp' = S'S,   S = diag(sqrt p) (1 - p'/(1 + sqrt p_0) in every row).

It is the variance of a variable that is u_k with probability p_k, and 0 with p_0, along a change u
of the margins. Its derivative along another change w is the mean of (u - mean u)² (w - mean w),
up to the sign: at most the range of w, which is twice the largest |w_k|, times that variance. So
the second derivative changes by no more than e^(2s) where no margin changes by more than s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tiebreak.functions.losses.multinomial import Multinomial
from tiebreak.functions.parts.loss_parts import LARGEST_POWER, LossPart
from tiebreak.linalg import EPS, Host
from tiebreak.linalg.host import host, norm


@dataclass(frozen=True)
class MultinomialPart(LossPart):
    """weight times the sum over examples of weight log(1 + sum of e^-<m, x>), m its rows.

    ``weights`` are those of the rows: the same for all rows of an example.
    """

    examples: Host  # the example of each row, by number
    concordance: ClassVar[float] = 2.0

    def _sums(self, values: Host) -> Host:
        """The sum over all rows of an example, for each row."""
        return np.asarray(np.bincount(self.examples, values)[self.examples])

    def _probabilities(self, margins: Host) -> tuple[Host, Host]:
        """p of every row, and p_0 of its example."""
        top = np.zeros(int(np.max(self.examples, initial=-1)) + 1)
        np.maximum.at(top, self.examples, -margins)  # at least 0, which is that of p_0
        top = top[self.examples]
        powers = np.exp(-margins - top)
        total = np.exp(-top) + self._sums(powers)
        return powers / total, np.exp(-top) / total

    def first(self, margins: Host) -> Host:
        return -self._probabilities(margins)[0]

    def second(self, margins: Host) -> Host:
        """The diagonal, or more: diag(p) - pp' is at most diag(p)."""
        return self._probabilities(margins)[0]

    def second_above(self, margins: Host) -> Host:
        return np.full(len(margins), 0.5)

    def terms(self, margins: Host) -> Host:
        return self._probabilities(margins)[0]

    def first_error(self, first: Host) -> Host:
        raise NotImplementedError  # that depends on the margins: see noise

    def noise(self, x: Host, dual: Host) -> float:
        """p errs by as many units as the largest margins of the example have, relative."""
        if not EPS * len(x) * self.norm * norm(x) < 1e-2:
            return math.inf
        sizes = np.zeros(int(np.max(self.examples, initial=-1)) + 1)
        np.maximum.at(sizes, self.examples, np.abs(self.rows @ x))
        likely = np.maximum(np.abs(dual) / self.weight / self.weights, 2.0**-1022)
        return self.weight * norm(self.weights * likely * (8.0 + sizes[self.examples]))

    def image_error(self, x: Host, dual: Host) -> float:
        """Not known: the second derivative of an example is no diagonal."""
        return math.inf

    def curvature(self, x: Host, above: bool = False) -> Host:
        """The quadratic ``above``: diag(p) - pp' is at most (1 - 11'/K)/2 (Boehning 1992)."""
        p, own = self._probabilities(self.rows @ x)
        counts = self._sums(np.ones(len(p)))
        if above:  # the same root for p = 1/K, times the root of K/2
            p, own = 1.0 / (counts + 1.0), 1.0 / (counts + 1.0)
        means = np.zeros((int(np.max(self.examples, initial=-1)) + 1, self.rows.shape[1]))
        np.add.at(means, self.examples, p[:, None] * self.rows)
        root = self.rows - means[self.examples] / (1.0 + np.sqrt(own))[:, None]
        bend = self.weight * self.weights * p * (0.5 * (counts + 1.0) if above else 1.0)
        return np.asarray(np.sqrt(bend)[:, None] * root)

    def largest_second(self, low: Host, high: Host) -> Host:
        return np.full(len(low), 0.5)

    def largest_ratio(self, low: Host, high: Host) -> Host:
        """(mean u)²/variance is at most (1 - p_0)/p_0, the sum of all e^-t."""
        return np.asarray(np.exp(np.minimum(-low, LARGEST_POWER)))

    def margins_per_curvature(self, x: Host) -> float:
        """The least eigenvalue of diag(p) - pp' is at least p_0 times the least p."""
        p, own = self._probabilities(self.rows @ x)
        least = float(np.min(self.weight * self.weights * p * own, initial=math.inf))
        return 1.0 / math.sqrt(least) if least > 0.0 else math.inf


def multinomial_part(weight: float, loss: Multinomial) -> MultinomialPart:
    """weight times a loss, as a part; examples of weight 0 are left out.

    Its rows are a_i for the class of i less a_i for another one: differences of nothing but 0.
    """
    products, y = loss.matrix.dense(), host(loss.y).astype(np.int64)
    m = len(y)
    weights = np.ones(m) if loss.weights is None else host(loss.weights)
    which, other = np.nonzero((np.arange(loss.classes) != y[:, None]) & (weights > 0.0)[:, None])
    rows = products[y[which] * m + which] - products[other * m + which]
    return MultinomialPart(weight * loss.scale, rows, weights[which], which)
