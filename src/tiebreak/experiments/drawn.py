"""Planted problems drawn from a seed, so that no method can be tuned for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tiebreak.experiments.planting import Case, Generator, Vector, checked, spectrum, squares
from tiebreak.functions import L1, LeastSquares, Logistic
from tiebreak.problem import Problem
from tiebreak.sets import Ball, Box, Domain, Simplex, Space


def drawn(seed: int, number: int) -> Case:
    """Return a problem whose size, condition, domain, losses and units come from the seed."""
    rng = np.random.default_rng([seed, number])
    n = round(10.0 ** rng.uniform(1.3, 2.9))
    rows = max(3, round(n * rng.uniform(0.2, 0.8)))
    condition = 10.0 ** rng.uniform(0.2, 2.0)
    size, unit_f, unit_g = 10.0 ** rng.uniform(-2.0, 2.0, 3)
    domain, x, normal = _domain(rng, n, size)
    penalty = number == 3  # one of them has a penalty in g, but no domain
    if penalty:
        domain, x, normal = Space(), x * (rng.random(n) < 0.3), lambda: np.zeros(n)
        x[0] = size
    # Lower level: least squares, perhaps a penalty, and a residual.
    weight = 0.1 / size
    s = np.where(x == 0.0, rng.uniform(-0.8, 0.8, n), np.sign(x))
    s *= weight if penalty else 0.0
    nu = normal()
    spread = spectrum(rng, rows, n, condition) / size
    A, b = squares(spread, x, 0.3 * rng.standard_normal(rows) + 0.1 * (spread @ x), -nu - s)
    # Upper level: least squares, plus a logistic loss in half of the problems.
    slope = A.T @ rng.standard_normal(rows) - normal()
    above: list[Callable[[], Any]] = []
    rest = slope
    if not_quadratic := bool(rng.random() < 0.5):
        C, y = rng.standard_normal((n, n)) / size, rng.choice([-1.0, 1.0], n)
        above.append(lambda: Logistic(C, y))
        rest = slope - Logistic(C, y).gradient(x)
    m = round(n * rng.uniform(1.0, 1.5))
    B, c = squares(
        spectrum(rng, m, n, condition**0.5) / size, x, 0.3 * rng.standard_normal(m), rest
    )
    above.append(lambda: LeastSquares(B, c))

    def make() -> Problem:
        g = unit_g * LeastSquares(A, b)
        return Problem(
            upper=unit_f * sum(part() for part in above),
            lower=g + L1(unit_g * weight) if penalty else g,
            domain=domain,
        )

    hidden = (bool(rng.random() < 0.5), bool(rng.random() < 0.5) and not penalty)
    what = (
        f"drawn: {'logistic + ' if not_quadratic else ''}least squares above, least squares "
        f"{'+ L1 ' if penalty else ''}below, {rows} x {n}, condition {condition:.0f}, "
        f"{type(domain).__name__}, callables {'yes' if any(hidden) else 'no'}"
    )
    structured = not (any(hidden) or penalty or not_quadratic)
    return checked(
        f"drawn {number}", what, make, x, unit_g * (-nu - s), unit_f * slope,
        callables=hidden, order=None if penalty else 2.0, is_structured=structured,
    )  # fmt: skip


def _domain(rng: Generator, n: int, size: float) -> tuple[Domain, Vector, Callable[[], Vector]]:
    """Return a domain, x* with entries of this size, and a sampler of the normal cone at x*."""
    kind = rng.choice(["Ball", "Box", "Simplex"])
    x = size * rng.uniform(0.1, 1.0, n)
    if kind == "Ball":
        x *= rng.choice([-1.0, 1.0], n)
        radius, binds = float(np.linalg.norm(x)), bool(rng.random() < 0.5)
        outward = x / radius if binds else 0.0 * x
        ball = Ball(radius if binds else 2.0 * radius)
        return ball, x, lambda: np.asarray(rng.uniform(0.1, 1.0) / size * outward)
    zero = rng.random(n) < 0.4
    zero[0] = False
    x[zero] = 0.0

    def cone(lift: float = 0.0) -> Vector:
        return np.asarray((lift - np.where(zero, rng.uniform(0.01, 0.2, n), 0.0)) / size)

    if kind == "Simplex":
        return Simplex(float(np.sum(x))), x, lambda: cone(0.1 * rng.standard_normal())
    return Box(0.0, 2.0 * size), x, cone
