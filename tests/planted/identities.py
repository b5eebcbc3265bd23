"""The identities behind Lemma 1 of the paper, whose own inequalities have room to spare."""

from __future__ import annotations

import math
from typing import NamedTuple


class At(NamedTuple):
    """A function h at a point p, seen from y_k."""

    value: float  # h(p)
    inner: float  # <grad h(y_k), p - y_k>


def auxiliary_step_sum(k: int, L_g: float) -> float:
    """B_k = b_0 + ... + b_{k-1} = k(k+1)/(4 L_g)."""
    return k * (k + 1) / (4 * L_g)


def auxiliary_bound(k: int, *, L_g: float, distance: float) -> float:
    """g(u_k) - g* <= R0²/(2 B_k) = 2 L_g R0²/(k(k+1)), for k >= 1, of the auxiliary run.

    Hence g_k = g(u_{k+1}), one step ahead, is a level; g(u_k) is not.
    """
    return 2 * L_g * distance**2 / (k * (k + 1))


def upper_identity(
    *,
    step: float,
    total: float,
    y: float,
    x: At,
    x_next: At,
    star: At,
    distance: float,
    distance_next: float,
    move: float,
    slack: float,
) -> tuple[float, float]:
    """(residual, sum of absolute terms) of the identity behind Lemma 1 for f, zero up to rounding.

    A_{k+1}(f(x_{k+1})-f*) + |z_{k+1}-x*|²/2 - [A_k(f(x_k)-f*) + |z_k-x*|²/2]
    = A_{k+1} D_f(x_{k+1}) - A_k D_f(x_k) - a_k D_f(x*) - |z_{k+1}-z_k|²/2 - V_k,

    D_f(p) = f(p) - f(y_k) - <grad f(y_k), p - y_k>; ``step`` = a_k, ``total`` = A_k, ``y`` =
    f(y_k), ``star``: f at x*; ``distance`` = |z_k-x*|, ``distance_next`` = |z_{k+1}-x*|, ``move``
    = |z_{k+1}-z_k|, ``slack`` = V_k = <z_{k+1} - z_k + a_k grad f(y_k), x* - z_{k+1}> (>= 0).
    """
    after = total + step
    left = [after * x_next.value, -after * star.value, -total * x.value, total * star.value]
    left += [distance_next**2 / 2, -(distance**2) / 2]
    right = _bregman(after, x_next, y) + _bregman(-total, x, y) + _bregman(-step, star, y)
    right += [-(move**2) / 2, -slack]
    return _balance(left, right)


def lower_identity(
    *, step: float, total: float, y: float, x: At, x_next: At, cut: float, optimum: float = 0.0
) -> tuple[float, float]:
    """(residual, sum of absolute terms) of the identity behind Lemma 1 for g, zero up to rounding.

    A_{k+1}(g(x_{k+1})-g*) - A_k(g(x_k)-g*)
    = a_k (l_k(z_{k+1}) - g*) + A_{k+1} D_g(x_{k+1}) - A_k D_g(x_k),

    ``y`` = g(y_k), ``cut`` = l_k(z_{k+1}) = g(y_k) + <grad g(y_k), z_{k+1} - y_k>, which is <= g_k.
    g* cancels, so that any number will do for ``optimum``.
    """
    after = total + step
    left = [after * x_next.value, -after * optimum, -total * x.value, total * optimum]
    right = [step * cut, -step * optimum]
    right += _bregman(after, x_next, y) + _bregman(-total, x, y)
    return _balance(left, right)


def polyak_step(value: float, inner: float, slope_norm_squared: float, level: float) -> float:
    """mu = [g(y) + <grad g(y), z - y> - level]_+ / |grad g(y)|²: z - mu grad g(y) is on the cut.

    With Z = R^n, f = 0 and level g* this is a step of AGM-BiO; with z = y, Polyak's step size.
    """
    excess = value + inner - level
    return excess / slope_norm_squared if excess > 0 else 0.0


def _bregman(weight: float, p: At, y: float) -> list[float]:
    """The terms of weight · D(p)."""
    return [weight * p.value, -weight * y, -weight * p.inner]


def _balance(left: list[float], right: list[float]) -> tuple[float, float]:
    """(sum of left - sum of right, sum of absolute terms), summed without rounding."""
    return math.fsum([*left, *(-t for t in right)]), math.fsum(abs(t) for t in [*left, *right])
