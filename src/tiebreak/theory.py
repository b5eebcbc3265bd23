"""The theorems about AGM-BiO as plain formulas: numbers in, numbers out.

The paper is Cao, Jiang, Yazdandoost Hamedani, Mokhtari, NeurIPS 2024 (arXiv 2402.08097); "Theorem",
"Lemma" and "Proposition" refer to it. All functions use these argument names:

- ``L_f``, ``L_g``: Lipschitz constants of the two gradients;
- ``smoothness``: S = L_f/gamma, the only number that determines the step sizes. With S in place of
  gamma, every formula stays finite for a linear f (L_f = 0, gamma = 0, S > 0);
- ``distance``: R0 = |x_0 - x*|;  ``diameter``: D, of Z;
- ``order``, ``modulus``, ``gradient_bound``: r, alpha, M of the error bound
  (alpha/r) dist(x, X_g*)^r <= g(x) - g*; M may be |grad f(x*)|;
- ``unit``: w = unit of g / unit of f (Theorem 2 with w = 1 adds L_f to L_g);
- ``fixed``: None if the levels are online, g_k - g* <= 2 L_g R0²/(k+1)²; K if every level is
  g_K, the result of a first phase of K steps, which removes the logarithms.

The three theorems are three small records with the same methods: ``upper`` bounds f(x_k) - f* from
above, ``upper_floor`` from below (a number <= 0), and ``lower`` bounds g(x_k) - g* from above.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# --- step sizes --------------------------------------------------------------------------------


def step_size(k: int, smoothness: float) -> float:
    """a_k = (k+1)/(4 S), for k >= 0 (Algorithm 1, step 4)."""
    return (_at_least(0, k) + 1) / (4 * _positive("smoothness", smoothness))


def step_sum(k: int, smoothness: float) -> float:
    """A_k = a_0 + ... + a_{k-1} = k(k+1)/(8 S), for k >= 0."""
    return _at_least(0, k) * (k + 1) / (8 * _positive("smoothness", smoothness))


def auxiliary_step_size(k: int, L_g: float) -> float:
    """b_k = (k+1)/(2 L_g), the steps of the auxiliary run on g alone: L_g b_k² <= B_{k+1}."""
    return (_at_least(0, k) + 1) / (2 * _positive("L_g", L_g))


# --- the smoothness S = L_f/gamma ---------------------------------------------------


def smoothness_error_bound(
    L_f: float, L_g: float, order: float, iterations: int, unit: float = 1.0
) -> float:
    """S = 2 L_g T^p/w + 2 L_f, p = (2r-2)/(2r-1) (Theorem 2); 2 L_g T^p/w for a linear f."""
    _at_least(1, iterations)
    return 2 * L_g * _power(iterations, _decay(order)) / _positive("unit", unit) + 2 * L_f


def smoothness_weak_sharpness(
    L_f: float, L_g: float, modulus: float, gradient_bound: float
) -> float:
    """S = max{(2 M L_g + alpha L_f)/(2 alpha), L_f} (Theorem 3); M L_g/alpha for a linear f."""
    return max(gradient_bound * L_g / _positive("modulus", modulus) + L_f / 2, L_f)


# --- the levels and the auxiliary run ----------------------------------------------------------


def level_bound(k: int, *, L_g: float, distance: float) -> float:
    """g_k - g* <= 2 L_g R0²/(k+1)², for k >= 0, as the theorems require of the levels."""
    return 2 * L_g * distance**2 / (_at_least(0, k) + 1) ** 2


def level_term(k: int, *, L_g: float, distance: float, fixed: int | None = None) -> float:
    """An upper bound on (1/A_k) sum_{i<k} a_i (g_i - g*), which the levels add to every bound on g.

    Online: 4 L_g R0² (ln k + 1)/(k(k+1)).  Fixed: 2 L_g R0²/(K+1)².
    """
    _at_least(1, k)
    if fixed is not None:
        return level_bound(fixed, L_g=L_g, distance=distance)
    return 4 * L_g * distance**2 * (math.log(k) + 1) / (k * (k + 1))


# --- the weighted sum and Proposition 1 --------------------------------------------------------


def upper_bound(k: int, *, smoothness: float, distance: float) -> float:
    """f(x_k) - f* <= R0²/(2 A_k) = 4 S R0²/(k(k+1)): (i) of every theorem; S >= L_f/2 suffices."""
    return 4 * smoothness * distance**2 / (_at_least(1, k) * (k + 1))


def smallest_weight(*, L_f: float, L_g: float, smoothness: float) -> float:
    """The smallest lambda of the weighted-sum lemma: L_g/((2/gamma - 1) L_f) = L_g/(2 S - L_f)."""
    if 2 * smoothness <= L_f:
        raise ValueError(f"smoothness must exceed L_f/2 = {L_f / 2}, got {smoothness}")
    return L_g / (2 * smoothness - L_f)


def weighted_sum(
    k: int,
    *,
    weight: float,
    L_g: float,
    smoothness: float,
    distance: float,
    fixed: int | None = None,
) -> float:
    """The weighted-sum lemma, for every lambda = ``weight`` >= ``smallest_weight``.

    lambda (f(x_k) - f*) + g(x_k) - g* <= 4 L_g R0² (ln k + 1)/(k(k+1)) + 4 lambda S R0²/(k(k+1)).
    """
    upper = upper_bound(k, smoothness=smoothness, distance=distance)
    return level_term(k, L_g=L_g, distance=distance, fixed=fixed) + weight * upper


def upper_floor(lower_gap: float, *, order: float, modulus: float, gradient_bound: float) -> float:
    """f(x) - f* >= -M (r (g(x) - g*)/alpha)^(1/r) for every x in Z (Proposition 1)."""
    if not (order >= 1 and lower_gap >= 0):
        raise ValueError(f"needs order >= 1 and lower_gap >= 0, got {order} and {lower_gap}")
    if gradient_bound == 0:
        return 0.0
    return -gradient_bound * _power(order * lower_gap / _positive("modulus", modulus), 1 / order)


# --- the three theorems, for k >= 1 ------------------------------------------------------------


class Theorem1(NamedTuple):
    """Z is compact; ``smoothness`` is S = L_f/gamma, which is L_f in the paper."""

    L_f: float
    L_g: float
    smoothness: float
    distance: float
    diameter: float = math.inf

    def upper(self, k: int) -> float:
        """(i) f(x_k) - f* <= 4 S R0²/(k(k+1)), even if Z is not compact."""
        return upper_bound(k, smoothness=self.smoothness, distance=self.distance)

    def lower(self, k: int, fixed: int | None = None) -> float:
        """(ii) g(x_k) - g* <= 4 L_g R0² (ln k + 1)/(k(k+1)) + 2 L_g D²/(k+1) for any gamma."""
        levels = level_term(k, L_g=self.L_g, distance=self.distance, fixed=fixed)
        return levels + 2 * self.L_g * self.diameter**2 / (k + 1)

    def lower_if_above(self, k: int, fixed: int | None = None) -> float:
        """(iii) If f(x_k) >= f*, on any Z: g(x_k) - g* <= [4 L_g R0² (ln k + 1) + 2 L_g
        R0²/(1 - gamma/2)]/(k(k+1)).
        """
        weight = smallest_weight(L_f=self.L_f, L_g=self.L_g, smoothness=self.smoothness)
        return weighted_sum(
            k,
            weight=weight,
            L_g=self.L_g,
            smoothness=self.smoothness,
            distance=self.distance,
            fixed=fixed,
        )


class Theorem2(NamedTuple):
    """The error bound has order r > 1; Z may be any set.

    S depends on the planned number T of steps, all of which are taken.
    """

    L_f: float
    L_g: float
    distance: float
    order: float
    modulus: float
    gradient_bound: float
    unit: float = 1.0

    def smoothness(self, iterations: int) -> float:
        """S = 2 L_g T^p/w + 2 L_f."""
        return smoothness_error_bound(self.L_f, self.L_g, self.order, iterations, self.unit)

    def weight(self, iterations: int) -> float:
        """The weight lambda = w T^-p for which the proof uses the weighted sum."""
        return self.unit * _power(_at_least(1, iterations), -_decay(self.order))

    def upper(self, iterations: int) -> float:
        """(i) f(x_T) - f* <= 8 (L_g T^p/w + L_f) R0²/(T(T+1)), without the paper's logarithm."""
        return upper_bound(
            iterations, smoothness=self.smoothness(iterations), distance=self.distance
        )

    def upper_floor(self, iterations: int, fixed: int | None = None) -> float:
        """(ii) f(x_T) - f* >= -M (r e/alpha)^(1/r), e = ``lower(T)``."""
        return upper_floor(
            self.lower(iterations, fixed),
            order=self.order,
            modulus=self.modulus,
            gradient_bound=self.gradient_bound,
        )

    def lower(self, iterations: int, fixed: int | None = None) -> float:
        """(iii) g(x_T) - g* <= max{2 E, (2 lambda C)^(r/(r-1))}, C = M (r/alpha)^(1/r).

        E bounds the weighted sum. By Proposition 1, t = g(x_T) - g* satisfies
        t - lambda C t^(1/r) <= E. If lambda C t^(1/r) <= t/2, the first term of the maximum bounds
        t; otherwise the second term does. Written out,
        2 E = [8 L_g (ln T + 3) + 16 w L_f T^-p] R0²/(T(T+1))
        <= 24 L_g R0² (ln T + 1)/T² + 16 w L_f R0²/T^(2+p), below both forms that the paper prints.
        """
        weight = self.weight(iterations)
        total = weighted_sum(
            iterations,
            weight=weight,
            L_g=self.L_g,
            smoothness=self.smoothness(iterations),
            distance=self.distance,
            fixed=fixed,
        )
        r = self.order
        C = self.gradient_bound * _power(r / _positive("modulus", self.modulus), 1 / r)
        return max(2 * total, _power(2 * weight * C, r / (r - 1)))


class Theorem3(NamedTuple):
    """Weak sharpness (r = 1) on any Z; needs S >= ``smoothness_weak_sharpness``."""

    L_f: float
    L_g: float
    smoothness: float
    distance: float
    modulus: float
    gradient_bound: float

    def upper(self, k: int) -> float:
        """(i) f(x_k) - f* <= 4 S R0²/(k(k+1))."""
        return upper_bound(k, smoothness=self.smoothness, distance=self.distance)

    def upper_floor(self, k: int, fixed: int | None = None) -> float:
        """(ii) f(x_k) - f* >= -8 M L_g R0² (ln k + 1)/(alpha k(k+1)) - 4 S R0²/(k(k+1))."""
        return upper_floor(
            self.lower(k, fixed),
            order=1,
            modulus=self.modulus,
            gradient_bound=self.gradient_bound,
        )

    def lower(self, k: int, fixed: int | None = None) -> float:
        """(iii) g(x_k) - g* <= 8 L_g R0² (ln k + 1)/(k(k+1)) + 4 alpha S R0²/(M k(k+1)).

        This is twice the weighted sum with lambda = alpha/(2 M). If M = 0, then f(x_k) >= f*
        always holds, and Theorem 1 (iii) gives the bound.
        """
        L_f, L_g, smoothness, distance, alpha, M = self
        needed = smoothness_weak_sharpness(L_f, L_g, alpha, M)
        if smoothness < needed * (1 - 1e-12):
            raise ValueError(f"smoothness must be at least {needed} here, got {smoothness}")
        if M == 0:
            return Theorem1(L_f, L_g, smoothness, distance).lower_if_above(k, fixed)
        return 2 * weighted_sum(
            k,
            weight=alpha / (2 * M),
            L_g=L_g,
            smoothness=smoothness,
            distance=distance,
            fixed=fixed,
        )


# --- small helpers -----------------------------------------------------------------------------


def _decay(order: float) -> float:
    """p = (2r-2)/(2r-1)."""
    if not order > 1:
        raise ValueError(f"Theorem 2 needs order > 1 (Theorem 3 has order 1), got {order}")
    return (2 * order - 2) / (2 * order - 1)


def _power(base: float, exponent: float) -> float:
    """The power base**exponent; inf if it overflows."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def _at_least(first: int, k: int) -> int:
    if k < first:
        raise ValueError(f"the iteration number must be at least {first}, got {k}")
    return k


def _positive(name: str, number: float) -> float:
    if not number > 0:
        raise ValueError(f"{name} must be positive, got {number}")
    return number
