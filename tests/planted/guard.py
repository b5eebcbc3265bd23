"""Quadratic and logistic bilevel problems with ties, with planted answers.

``drawn(seed)``: f a norm, a validation loss or linear, g least squares or logistic, on R^n, a ball
or a box. x* comes first: -grad g(x*) lies in the normal cone of Z, and -grad f(x*) is a sum of rows
of g, a multiple of grad g(x*) and a normal; ``pull`` says how long it is, from far away to close to
f's own minimiser. The data are rounded, so that f* is known to a few units in the last place.

``Drawn.shortfall(c)`` = f* - v(c), v(c) = min { f : g <= g* + c, x in Z }, for quadratic pairs:
what f can gain where g gives up c. By the minimisers d of f + mu g around x*, with plain NumPy, and
without cancellation, for there f - f* = <p, d> + d'Fd/2 and g - g* = <q, d> + d'Gd/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

UPPER = ("norm", "distance", "validation", "linear")
LOWER = ("consistent", "inconsistent", "logistic")
DOMAINS = ("Space", "Ball", "Box")


@dataclass(frozen=True)
class Drawn:
    """A problem with its answer; F, G and p, q: the Hessians and gradients of f and g at x*."""

    seed: int
    kind: str
    problem: Any
    x0: Any
    x_star: Any
    f_star: float
    F: Any
    p: Any
    G: Any
    q: Any
    is_quadratic: bool
    nearest: Callable[[Any, Any], Any]  # argmin <h, d> + d'Hd/2 over Z - x*

    def excess(self, x: Any) -> float:
        """g(x) - g*, without cancellation."""
        return _value(self.G, self.q, x - self.x_star)

    def knows(self, x: Any) -> bool:
        """Is g(x) - g* about that of the quadratic: always, or near x* for a logistic loss?"""
        g = self.problem.lower
        rise = g.value(x) - g.value(self.x_star)
        return self.is_quadratic or abs(self.excess(x) - rise) <= 0.1 * rise

    def shortfall(self, c: float) -> float:
        """f* - v(c)."""
        low, high = -40.0, 40.0  # of the logarithm of mu

        def at(power: float) -> Any:
            mu = math.exp(power)
            return self.nearest(self.F + mu * self.G, self.p + mu * self.q)

        for _ in range(60):
            middle = 0.5 * (low + high)
            if _value(self.G, self.q, at(middle)) > c:
                low = middle
            else:
                high = middle
        d = at(high)  # the best that g <= g* + c allows, up to the last halving
        return -_value(self.F, self.p, d)

    def meets_the_condition(self, x: Any) -> bool:
        """f* - v(4c) >= 1.5 (f* - v(c)), c = g(x) - g*: g grows, and f goes on falling."""
        c = max(self.excess(x), 0.0)
        return self.shortfall(4.0 * c) >= 1.5 * self.shortfall(c)


def _value(H: Any, h: Any, d: Any) -> float:
    return float(h @ d + 0.5 * d @ H @ d)


# --- minimisers of quadratics over Z - x* --------------------------------------------------------


def _in_space(H: Any, h: Any) -> Any:
    return np.linalg.lstsq(H, -h, rcond=1e-13)[0]


def _in_ball(x: Any, radius: float) -> Callable[[Any, Any], Any]:
    def nearest(H: Any, h: Any) -> Any:
        values, basis = np.linalg.eigh(H)
        keep = values > 1e-13 * values[-1]
        slope, center = basis.T @ h, basis.T @ x

        def at(shift: float) -> Any:  # with the multiplier of |x* + d|² <= radius², halved
            if shift > 0.0:
                return -(slope + shift * center) / (np.maximum(values, 0.0) + shift)
            # Free where the quadratic is flat: there as close to the center as can be.
            return np.where(keep, -slope / np.where(keep, values, 1.0), -center)

        def is_outside(shift: float) -> bool:
            return bool(np.linalg.norm(center + at(shift)) > radius)

        is_flat = np.abs(slope[~keep]).max(initial=0.0) <= 1e-13 * np.abs(slope).max(initial=0.0)
        if is_flat and not is_outside(0.0):
            return basis @ at(0.0)
        low, high = -80.0, 80.0  # of the logarithm of the shift
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if is_outside(math.exp(middle)) else (low, middle)
        return basis @ at(math.exp(high))

    return nearest


def _in_box(lower: Any, upper: Any) -> Callable[[Any, Any], Any]:
    """An active-set method: lower <= d <= upper, both around 0."""

    def nearest(H: Any, h: Any) -> Any:
        n = len(h)
        d, fixed = np.zeros(n), (lower >= 0.0) | (upper <= 0.0)
        for _ in range(50 * n):
            free = ~fixed
            slope = H @ d + h
            way = np.zeros(n)
            if free.any():
                inside = H[np.ix_(free, free)]
                way[free] = np.linalg.lstsq(inside, -slope[free], rcond=1e-13)[0]
                rest = slope[free] + inside @ way[free]
                if np.abs(rest).max() > 1e-9 * np.abs(h).max(initial=0.0):
                    way[free] = -1e12 * rest  # it falls for ever along a flat direction
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = np.where(way > 0.0, (upper - d) / way, (lower - d) / way)
                ends = np.where(way == 0.0, np.inf, ends)
            step = min(float(np.min(ends[free], initial=np.inf)), 1.0)
            d = np.clip(d + step * way, lower, upper)
            if step < 1.0:
                fixed = fixed | (free & (ends <= step))
                continue
            slope = H @ d + h
            # At a lower end the slope has to point up, at an upper end down.
            wrong = np.where(d <= lower, -slope, slope)
            wrong = np.where(fixed & (lower < upper), wrong, -np.inf)
            worst = int(np.argmax(wrong))
            if not wrong[worst] > 1e-12 * np.abs(h).max(initial=0.0):
                return d
            fixed[worst] = False
        return d

    return nearest


# --- drawing -------------------------------------------------------------------------------------


def drawn(seed: int) -> Drawn:
    """Problem number ``seed``; each 36 of them have all kinds."""
    import tiebreak as tb

    rng = np.random.default_rng([20260714, seed])
    upper_kind = UPPER[seed % 4]
    lower_kind, domain = LOWER[seed // 4 % 3], DOMAINS[seed // 12 % 3]
    n = int(rng.integers(3, 16))
    rank = int(rng.integers(1, n))
    values = 10.0 ** rng.uniform(-rng.uniform(0.0, 1.5), 0.0, rank)
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0][:, :rank]
    rows = np.linalg.qr(rng.standard_normal((rank, rank)))[0] @ (values[:, None] * basis.T)
    x = rng.standard_normal(n)
    if upper_kind == "norm":  # then -grad f(x*) = -x* is what it is
        x = basis @ rng.standard_normal(rank)
    Z, normal, nearest = _region(tb, domain, rng, x)

    is_pressed = bool(rng.integers(2)) and upper_kind != "norm"
    g_normal = normal * is_pressed * 10.0 ** rng.uniform(-1.0, 1.0)
    lower, rows, G = _lower(tb, lower_kind, rng, rows, x, g_normal)
    q = -g_normal

    pull = 10.0 ** rng.uniform(-3.0, 1.0)
    push = rows.T @ rng.standard_normal(len(rows))
    push += normal * abs(rng.standard_normal()) * rng.integers(2) + q * rng.standard_normal()
    push *= pull / np.linalg.norm(push)
    upper, F, p = _upper(tb, upper_kind, rng, x, push)
    near = x + 10.0 ** rng.uniform(-3.0, 0.0) * rng.standard_normal(n)
    return Drawn(
        seed=seed,
        kind=f"{upper_kind} over {lower_kind} on {domain}",
        problem=tb.Problem(upper=upper, lower=lower, domain=Z),
        x0=Z.project(near) if rng.integers(2) else np.zeros(n),
        x_star=x,
        f_star=upper.value(x),
        F=F, p=p, G=G, q=q,
        is_quadratic=lower_kind != "logistic",
        nearest=nearest,
    )  # fmt: skip


def _region(tb: Any, kind: str, rng: Any, x: Any) -> tuple[Any, Any, Callable[[Any, Any], Any]]:
    """The domain, a normal of it at x* (0 inside), and the minimiser of a quadratic over it."""
    n, is_inside = len(x), rng.integers(2)
    if kind == "Space":
        return tb.Space(), np.zeros(n), _in_space
    if kind == "Ball":
        size = float(np.linalg.norm(x))
        radius = size * (1.0 + is_inside * rng.uniform(0.1, 2.0))
        normal = np.zeros(n) if is_inside else x / size
        return tb.Ball(radius), normal, _in_ball(x, radius)
    at = np.zeros(n) if is_inside else rng.choice([-1.0, 0.0, 1.0], n)
    lower = np.where(at < 0.0, x, x - rng.uniform(0.1, 3.0, n))
    upper = np.where(at > 0.0, x, x + rng.uniform(0.1, 3.0, n))
    normal = at * rng.uniform(0.1, 1.0, n)
    return tb.Box(lower, upper), normal, _in_box(lower - x, upper - x)


def _lower(tb: Any, kind: str, rng: Any, rows: Any, x: Any, normal: Any) -> tuple[Any, Any, Any]:
    """g with grad g(x*) = -normal; the rows that its minimisers share; its Hessian at x*."""
    if kind == "logistic":
        # Each row twice, p times with one label and q times with the other: best at log(p/q).
        p, q = rng.permuted(np.tile([[1], [2], [3]], len(rows)), axis=0)[:2]
        rows = rows + np.outer(np.log(p / q) - rows @ x, x) / (x @ x)
        A = np.vstack([np.repeat(rows, p, axis=0), np.repeat(rows, q, axis=0)])
        y = np.concatenate([np.ones(p.sum()), -np.ones(q.sum())])
        curvature = p * q / (p + q)
        g = tb.Logistic(A, y) + tb.Linear(-normal) if normal.any() else tb.Logistic(A, y)
        return g, rows, rows.T @ (curvature[:, None] * rows) / len(y)  # a mean
    A, residual = rows, np.zeros(len(rows))
    if normal.any():
        A, residual = np.vstack([A, normal]), np.append(residual, -1.0)
    if kind == "inconsistent":
        A = np.vstack([A, A])
        other = rng.standard_normal(len(residual))
        residual = np.concatenate([residual + other, -other])
    return tb.LeastSquares(A, A @ x - residual), rows, A.T @ A


def _upper(tb: Any, kind: str, rng: Any, x: Any, push: Any) -> tuple[Any, Any, Any]:
    """f with grad f(x*) = -push (for the norm: x*), its Hessian and its gradient there."""
    n = len(x)
    if kind == "norm":
        return tb.SquaredNorm(), np.eye(n), x
    if kind == "distance":
        return tb.SquaredNorm(1.0, x + push), np.eye(n), -push
    if kind == "linear":
        return tb.Linear(-push), np.zeros((n, n)), -push
    size = np.linalg.norm(push)
    V = np.vstack([rng.standard_normal((int(rng.integers(1, 2 * n)), n)), push / size])
    residual = np.append(np.zeros(len(V) - 1), -size)
    return tb.LeastSquares(V, V @ x - residual), V.T @ V, -push
