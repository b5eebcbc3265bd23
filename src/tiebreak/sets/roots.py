"""Find the root of a non-increasing function of mu >= 0 with safeguarded Newton steps."""

from __future__ import annotations

import math
import struct
from typing import NamedTuple, Protocol


class PathPoint(NamedTuple):
    """A point of a path, with its gap, whose derivative with respect to mu is -slope^2."""

    mu: float
    gap: float
    slope: float
    energy: float  # the objective at z, up to a constant

    @property
    def newton(self) -> float:
        """The mu at which the gap would be 0 if the current piece continued."""
        if self.slope == 0.0:
            return math.copysign(math.inf, self.gap)
        return self.mu + self.gap / self.slope / self.slope


class Gap(Protocol):
    """A non-increasing function gap(mu), and how to search for its root."""

    @property
    def epsilon(self) -> float:
        """The machine epsilon of the vectors."""

    def at(self, mu: float) -> PathPoint:
        """The gap at mu and its slope; in the first two calls, the energy may be NaN."""

    def is_noise(self, gap: float) -> bool:
        """Is the latest gap no larger than its usual rounding error?"""

    def further(self, point: PathPoint, tries: int) -> float | PathPoint:
        """The next mu to try, if the gap was positive at all ``tries`` points up to ``point``.

        The result may also be a point that needs no evaluation: a point past the root or, if its
        gap is positive, the answer itself.
        """


def root(gap: Gap, guess: float) -> tuple[float, bool]:
    """The first mu >= 0 with gap(mu) <= 0, and whether its gap is only a rounding error.

    We use Newton's method, which is exact as soon as it reaches the right linear piece. The iterate
    stays between ``low`` (gap > 0) and ``high`` (gap <= 0); if Newton's method is slow, other steps
    are tried. The last evaluation of ``gap`` is at the returned mu, unless that mu came from
    ``further``.
    """
    eps = gap.epsilon
    low: PathPoint | None = None
    high: PathPoint | None = None
    mu, slow, smallest = guess, 0, math.inf
    for tries in range(1000):
        here = latest = gap.at(mu)
        if (here.gap <= 0.0 and mu == 0.0) or gap.is_noise(here.gap):
            return mu, True
        low, high = (here, high) if here.gap > 0.0 else (low, here)
        if high is None:
            ahead = gap.further(here, tries)
            if not isinstance(ahead, PathPoint):
                mu = ahead
                continue
            if ahead.gap > 0.0:
                return ahead.mu, False
            latest = high = ahead
        sound = low is None or low.mu < latest.newton < high.mu
        slow = 0 if sound and abs(latest.gap) <= 0.5 * smallest else slow + 1
        smallest = min(smallest, abs(latest.gap))
        if low is None:
            following = here.newton if here.slope > 0.0 else 0.9 * mu
            following = following if 0.0 < following < mu and tries < 3 else 0.0
        else:
            following = between(low, high, latest, slow)
        following = past_a_breakpoint(here, following, eps)
        if low is not None and not low.mu < following < high.mu:
            mu = min(low, high, key=lambda end: abs(end.gap)).mu
            break
        mu = following
    gap.at(mu)
    return mu, False


def between(low: PathPoint, high: PathPoint, latest: PathPoint, slow: int) -> float:
    """The next mu to try: Newton's, or a more careful choice if Newton's method has been slow."""
    following = latest.newton
    if slow % 4 == 1:
        # If the gap is convex or concave between the ends, the middle of three proposals is best.
        secant = low.mu + (high.mu - low.mu) * (low.gap / (low.gap - high.gap))
        following = sorted((low.newton, secant, high.newton))[1]
    if slow % 4 == 2 or not low.mu < following < high.mu:
        # At this mu, both ends have the same Lagrangian |z - x|^2/2 + mu (<c, z> - beta). For a
        # polytope the gap may be a step function, for which Newton's method does not help.
        following = (high.energy - low.energy) / (low.gap - high.gap)
    if slow % 4 == 3 or not low.mu < following < high.mu:
        following = middle(low.mu, high.mu)
    return following


def past_a_breakpoint(point: PathPoint, following: float, eps: float) -> float:
    """``following``, or two machine epsilons beyond ``point`` if the step is too short.

    If ``point`` is a breakpoint, another piece of the path begins beyond it.
    """
    mu = point.mu
    if mu > 0.0 and min(abs(following - mu), abs(point.newton - mu)) <= eps * mu:
        return mu * (1.0 + math.copysign(2.0 * eps, point.gap))
    return following


def middle(low: float, high: float) -> float:
    """The median of the floating-point numbers from low to high, near their geometric mean."""
    a, b = struct.unpack("<qq", struct.pack("<dd", low, high))
    return float(struct.unpack("<d", struct.pack("<q", (a + b) // 2))[0])
