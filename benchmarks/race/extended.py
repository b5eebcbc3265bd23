"""Convex minimisation in longdouble: an interior-point method, and Newton's method with a ball.

What `references.py` is made of: slow, small, in extended precision, and independent of tiebreak.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from real_spec import Level, Matrix, Vector

Q = np.longdouble
EPS = float(np.finfo(Q).eps)
CLEAR = 1e-11  # relative sizes of scaled columns above this count as rank ...
ROUNDING = 1e-15  # ... below this as rounding of the data, and in between nobody knows
STEPS = 200  # of a method, at most
FALL = 1e-3  # of the first value: what counts is relative to smaller ones, but for rounding in it
SPREAD = 1e6  # products of room and multiplier stay within this factor of the barrier's
TINY = 1e-13  # values that count as 0


class Unclear(ArithmeticError):
    """No reference: two settings disagree, or a rank or a face is not clear."""


# --- linear algebra in extended precision ---------------------------------------------------------


def triangular(A: Matrix, *beside: Vector) -> tuple[Matrix, list[Vector]]:
    """R of A = QR by Householder's reflections, and Q'b for each vector b."""
    R = np.array(A, dtype=Q)
    rows, n = R.shape
    vectors = np.array(beside, dtype=Q).reshape(len(beside), rows).T
    for k in range(min(rows - 1, n)):
        v = R[k:, k].copy()
        size = np.sqrt(v @ v)
        if size == 0:
            continue
        v[0] += size if v[0] >= 0 else -size
        v *= np.sqrt(2 / (v @ v))
        R[k:, k:] -= np.outer(v, v @ R[k:, k:])
        if beside:
            vectors[k:] -= np.outer(v, v @ vectors[k:])
    return np.triu(R[: min(rows, n)]), list(vectors.T)


class Basis(NamedTuple):
    """Orthonormal bases of the span of some rows, and of what is orthogonal to it."""

    rows: Matrix  # n x r
    null: Matrix  # n x (n - r)
    doubtful: bool


def bases(rows: Matrix) -> Basis:
    """By QR with column pivoting of the transpose; the longest row has a length of about 1."""
    T = np.array(rows, dtype=Q).T
    longest = np.sqrt((T * T).sum(axis=0).max(initial=0))
    T /= longest if longest > 0 else 1
    n, count = T.shape
    reflections: list[Vector] = []
    left = (T * T).sum(axis=0)
    rank, doubtful = 0, False
    for k in range(min(n, count)):
        left = (T[k:] * T[k:]).sum(axis=0)
        left[:k] = -1
        best = int(np.argmax(left))
        size = np.sqrt(left[best])
        if size < CLEAR:
            if size > ROUNDING * 100:
                raise Unclear(f"a rank is not clear: {float(size):.1e}")
            doubtful = bool(size > min(EPS * 1e10, 1e-16))
            break
        T[:, [k, best]] = T[:, [best, k]]
        v = T[k:, k].copy()
        v[0] += size if v[0] >= 0 else -size
        v *= np.sqrt(2 / (v @ v))
        T[k:, k:] -= np.outer(v, v @ T[k:, k:])
        reflections.append(v)
        rank = k + 1
    basis = np.eye(n, dtype=Q)
    for k in reversed(range(rank)):
        v = reflections[k]
        basis[k:] -= np.outer(v, v @ basis[k:])
    return Basis(basis[:, :rank], basis[:, rank:], doubtful)


def weighted_gram(G: Matrix, weights: Vector) -> Matrix:
    """G'DG; where each row has one entry, as bounds do, it is diagonal."""
    if len(G) and (np.count_nonzero(G, axis=1) <= 1).all():
        return np.diag(weights @ (G * G))
    return np.asarray(G.T @ (weights[:, None] * G))


def cholesky_solve(H: Matrix, b: Vector) -> Vector:
    """H⁻¹b, H scaled to a unit diagonal; pivots that are rounding get a tiny ridge."""
    d = 1 / np.sqrt(np.maximum(np.diag(H), Q(1e-300)))
    L = d[:, None] * H * d
    n = len(b)
    ridge = EPS * 100 * n
    for k in range(n):
        pivot = np.sqrt(max(L[k, k] + ridge, ridge))
        L[k:, k] /= pivot
        L[k, k] = pivot
        if k + 1 < n:
            L[k + 1 :, k + 1 :] -= np.outer(L[k + 1 :, k], L[k + 1 :, k])
    y = d * b
    for k in range(n):
        y[k] = (y[k] - L[k, :k] @ y[:k]) / L[k, k]
    for k in reversed(range(n)):
        y[k] = (y[k] - L[k + 1 :, k] @ y[k + 1 :]) / L[k, k]
    return np.asarray(d * y)


# --- functions of w in u = u0 + N w ---------------------------------------------------------------


class Local(NamedTuple):
    """A function of w: value, gradient and Hessian."""

    at: Callable[[Vector], tuple[Any, Vector, Matrix]]
    value: Callable[[Vector], Any]
    size: int
    curvature: Any  # the most that there could be


def _cleaned(image: Matrix, A: Matrix, M: Matrix) -> Matrix:
    """A M without the columns that are nothing but rounding."""
    size = np.sqrt((A * A).sum()) * np.sqrt((M * M).sum(axis=0))
    return np.asarray(image * (np.sqrt((image * image).sum(axis=0)) > EPS * 1e4 * size))


def damped(h: Local, weight: float) -> Local:
    """h + weight/2 |w|² relative to the largest curvature: no valley without end stays level."""
    curvature = weight * h.curvature
    ridge = curvature * np.eye(h.size, dtype=Q)

    def at(w: Vector) -> tuple[Any, Vector, Matrix]:
        f, slope, H = h.at(w)
        return f + curvature * (w @ w) / 2, slope + curvature * w, H + ridge

    return Local(at, lambda w: h.value(w) + curvature * (w @ w) / 2, h.size, h.curvature)


def local(level: Level, x0: Vector, M: Matrix) -> Local:
    """h(x0 + M w)."""
    if level.kind == "linear":
        c = M.T @ np.asarray(level.b, dtype=Q)
        start = np.asarray(level.b, dtype=Q) @ x0
        flat = np.zeros((M.shape[1],) * 2, dtype=Q)
        return Local(lambda w: (start + c @ w, c, flat), lambda w: start + c @ w, len(c), Q(0))
    longest = (M * M).sum(axis=0).max(initial=0)
    if level.kind in ("squares", "norm"):
        most = longest
        if level.kind == "norm":
            image, target = M, (np.zeros(len(x0), dtype=Q) if level.b is None else Q(1) * level.b)
            residual = x0 - target
        else:
            A = np.asarray(level.A, dtype=Q)
            most = (A * A).sum() * longest
            image, residual = _cleaned(A @ M, A, M), A @ x0 - level.b
        R, (c,) = triangular(image, residual)
        rank = R.shape[0]
        c, rest = c[:rank], c[rank:]
        constant, gram = rest @ rest / 2, R.T @ R

        def squares(w: Vector) -> tuple[Any, Vector, Matrix]:
            r = R @ w + c
            return constant + r @ r / 2, R.T @ r, gram

        return Local(squares, lambda w: squares(w)[0], M.shape[1], most)
    A = level.b[:, None] * np.asarray(level.A, dtype=Q)
    image, start = _cleaned(A @ M, A, M), A @ x0
    along = bases(triangular(image)[0]).rows  # Hessians in float64, but exactly 0 across this
    rough = np.asarray(image @ along, dtype=np.float64)

    def losses(w: Vector) -> Any:
        t = start + image @ w
        return (np.log1p(np.exp(-np.abs(t))) + np.maximum(-t, 0)).mean()

    def logistic(w: Vector) -> tuple[Any, Vector, Matrix]:
        t = start + image @ w
        p = np.where(t > 0, np.exp(-np.abs(t)), 1) / (1 + np.exp(-np.abs(t)))
        weights = np.asarray(p * (1 - p) / len(t), dtype=np.float64)
        C = rough.T @ (weights[:, None] * rough)
        H = along @ (Q(0.5) * (C + C.T)) @ along.T
        return losses(w), -(p @ image) / len(t), H

    return Local(logistic, losses, M.shape[1], (A * A).sum() * longest / (4 * len(A)))


# --- the interior-point method --------------------------------------------------------------------


class Region(NamedTuple):
    """{w : K w <= d} and |P w + q| <= radius, where there is such a ball."""

    K: Matrix
    d: Vector
    P: Any = None
    q: Any = None
    radius: float = 0.0

    @classmethod
    def none(cls, size: int) -> Region:
        """Nothing binds."""
        return cls(np.zeros((0, size), dtype=Q), np.zeros(0, dtype=Q))

    def slack(self, w: Vector) -> Vector:
        room = self.d - self.K @ w
        if self.P is None:
            return np.asarray(room)
        y = self.P @ w + self.q
        return np.append(room, (Q(self.radius) ** 2 - y @ y) / 2)

    def slopes(self, w: Vector) -> Matrix:
        if self.P is None:
            return self.K
        return np.vstack([self.K, (self.P @ w + self.q) @ self.P])


def minimise(
    h: Local, region: Region, w: Vector, end: float, binds: bool = False
) -> tuple[Vector, Vector]:
    """A minimiser and the multipliers; w is strictly feasible; does a ball surely bind?"""
    if region.P is None or len(region.d):
        return interior_point(h, region, w, end)
    return in_ball(h, region, w, end, binds)


def in_ball(h: Local, region: Region, w: Vector, end: float, binds: bool) -> tuple[Vector, Vector]:
    """By the equation of the multiplier, |P w + q| = radius: Hebden's steps, kept in a bracket."""
    P, q, nowhere = region.P, region.q, Region.none(h.size)
    gram = P.T @ P
    largest = np.diag(gram).max()

    def at(weight: Any, w: Vector) -> Vector:
        def penalised(w: Vector) -> tuple[Any, Vector, Matrix]:
            f, slope, H = h.at(w)
            y = P @ w + q
            return f + weight * (y @ y) / 2, slope + weight * (y @ P), H + weight * gram

        def only(w: Vector) -> Any:
            y = P @ w + q
            return h.value(w) + weight * (y @ y) / 2

        both = Local(penalised, only, h.size, h.curvature)
        return interior_point(both, nowhere, w, end)[0]

    size = max(h.curvature, np.abs(h.at(w)[1]).max() / np.sqrt(largest))
    low, high = Q(end) * size / largest, Q(1e6) * size / largest
    weight, radius = Q(1e-3) * size / largest if binds else low, Q(region.radius)
    for _ in range(200):
        w = at(weight, w)
        y = P @ w + q
        length = np.sqrt(y @ y)
        if weight == low and length <= radius:
            return w, np.zeros(1, dtype=Q)
        if abs(length - radius) <= EPS**0.6 * radius or high <= low * (1 + EPS * 16):
            return w, np.array([weight])
        low, high = (max(low, weight), high) if length > radius else (low, min(high, weight))
        slope = y @ P
        step = (length / radius - 1) * length**2
        curved = slope @ cholesky_solve(h.at(w)[2] + weight * gram, slope)
        weight = weight + step / max(curved, Q(1e-300))
        if not low < weight < high:
            weight = np.sqrt(low * high)
    raise Unclear("the multiplier of the ball was not found")


def interior_point(h: Local, region: Region, w: Vector, end: float) -> tuple[Vector, Vector]:
    """A minimiser and the multipliers, from a strictly feasible w; primal-dual, by Newton's steps.

    The barrier falls until the products of room and multiplier are ``end`` relative to the values.
    """
    w = np.array(w, dtype=Q)
    room = region.slack(w)
    size = max(abs(h.value(w)), Q(1e-30))
    first, least = _steepness(h, w), FALL * size
    gram = None if region.P is None else region.P.T @ region.P
    z = (size / max(len(room), 1)) / np.maximum(room, Q(1e-300))
    target = size / max(len(room), 1)
    for _ in range(STEPS):
        f, slope, H = h.at(w)
        size = max(min(size, abs(f)), least)
        room, G = region.slack(w), region.slopes(w)
        mu = (room @ z) / max(len(room), 1)
        dual = slope + G.T @ z
        if len(room) == 0:  # Newton's method, by its decrement; and one step more
            step = -cholesky_solve(H, slope)
            off = float(abs(slope @ step) / size)
            if off <= end:
                return w + step, z
        else:
            gauge = (np.abs(slope) + np.abs(G).T @ z).max()
            off = float(np.abs(dual).max() / max(gauge, first))
        if len(room) and mu <= end * size and off <= max(1e4 * end, EPS**0.5):
            return w, z
        is_central = len(room) == 0 or float(np.abs(room * z - target).max()) < 0.9 * target
        if is_central and off < 0.1 * min(1.0, 1e2 * float(np.sqrt(target / size))):
            target = max(target * Q(0.05), Q(0.1) * end * size)
        full = H + weighted_gram(G, z / np.maximum(room, Q(1e-300)))
        if gram is not None:
            full = full + z[-1] * gram
        right = -(slope + G.T @ (target / room)) if len(room) else -slope
        step = cholesky_solve(full, right)
        step_z = target / room - z + z * (G @ step) / room if len(room) else z
        w, z = _moved(h, region, w, z, step, step_z, target)
    if mu <= 1e6 * end * size and off <= EPS**0.45 and len(room):  # rounding ended it
        return w, z
    raise Unclear(f"the interior-point method has not ended: mu {float(mu / size):.1e}, {off:.1e}")


def _steepness(h: Local, w: Vector) -> Any:
    """What slopes are relative to: the first one, or curvature and value where that is 0."""
    f, slope, H = h.at(w)
    return max(np.abs(slope).max(initial=0), np.sqrt(np.diag(H).max(initial=0) * abs(f)), TINY)


def _moved(
    h: Local, region: Region, w: Vector, z: Vector, step: Vector, step_z: Vector, target: Any
) -> tuple[Vector, Vector]:
    """The next point: within the region, and no increase of the barrier function."""

    def barrier(at: Vector) -> Any:
        room = region.slack(at)
        return h.value(at) - target * np.log(room).sum() if (room > 0).all() else np.inf

    t, least = Q(1), region.slack(w) / 100
    while not (region.slack(w + t * step) > least).all():
        t *= Q(0.8)
        if t < 1e-30:
            raise Unclear("the interior-point method is stuck at the boundary")
    now = barrier(w)
    while t > 1e-20 and barrier(w + t * step) > now + abs(now) * EPS * 1e3:
        t *= Q(0.5)
    falls = step_z < 0
    t_z = min(Q(1), (Q(0.99) * z[falls] / -step_z[falls]).min(initial=1))
    w, z = w + t * step, z + t_z * step_z if len(z) else z
    central = target / region.slack(w)
    return w, np.clip(z, central / SPREAD, central * SPREAD)
