"""f* and g* of problems on real data, without tiebreak: an interior-point method in longdouble.

    lower level   u_g, a minimiser of g on Z (the analytic centre of the minimisers, on polyhedra)
    upper level   minimise f over Z subject to A u = A u_g

A loss of Ax that is strictly convex in Ax has one image Ax on all of its minimisers; constraints
that hold with equality on all of them (a multiplier, or no room left) stay equalities above. Every
variable is scaled by the norm of its column, ranks are decided on the scaled columns, and f* and g*
count only if two settings (another scaling, another order of the columns, another end) agree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from extended import (
    EPS,
    TINY,
    Basis,
    Q,
    Region,
    Unclear,
    bases,
    damped,
    interior_point,
    local,
    minimise,
    triangular,
)
from real_spec import Level, Matrix, Spec, Vector, value

AGREE = 1e-9  # what two settings may differ by, relative
DAMPING = 1e-4  # of curvature where valleys may be level, as a multiple of the end's accuracy
FACE = 1e-8  # relative: a room or a multiplier that is well above this is not 0


class Reference(NamedTuple):
    """The answer; status: "minimum", or "unbounded" where a level has none on its set."""

    status: str
    f: float = np.nan
    g: float = np.nan
    ties: int = -1  # the dimension of the set of lower minimisers
    doubtful: bool = False  # does rounding of the data decide a rank?


# --- a problem ------------------------------------------------------------------------------------


class Lift(NamedTuple):
    """x = S v of more variables v, with E v fixed, a region and a point inside."""

    S: Matrix
    E: Matrix
    region: Region
    inside: Vector


def lifted(spec: Spec, scale: Vector) -> Lift:
    """Z in scaled variables; the l1 ball with a bound t_i >= |x_i| for each."""
    n, S = spec.variables, np.diag(scale.astype(Q))
    none, eye = np.zeros((0, n), dtype=Q), np.eye(n, dtype=Q)
    empty = Region(none, np.zeros(0, dtype=Q))
    zero, size = np.zeros(n, dtype=Q), spec.size
    inverse = 1 / scale.astype(Q)
    if spec.domain == "Space":
        return Lift(S, none, empty, zero)
    if spec.domain == "Ball":
        return Lift(S, none, empty._replace(P=S, q=zero, radius=size[0]), zero)
    if spec.domain in ("Orthant", "Simplex"):
        # x >= 0, in units of each variable; the simplex fixes the sum
        region, ones = Region(-eye, zero), np.ones(n, dtype=Q)
        if spec.domain == "Orthant":
            return Lift(S, none, region, ones)
        total = scale.astype(Q)[None] / np.linalg.norm(scale)
        return Lift(S, total, region, inverse * Q(size[0]) / n)
    if spec.domain == "Box":
        low, high = (np.broadcast_to(np.asarray(side, dtype=Q), n) for side in size)
        region = Region(np.vstack([eye, -eye]), np.concatenate([high, -low]) * np.tile(inverse, 2))
        return Lift(S, none, region, inverse * (low + high) / 2)
    if spec.domain == "Halfspace":
        a = np.asarray(size[0], dtype=Q) @ S
        length = np.sqrt(a @ a)
        region = Region(a[None] / length, np.array([Q(size[1]) / length]))
        return Lift(S, none, region, zero)
    if spec.domain == "Monotone":
        K = (eye[:-1] - eye[1:]) @ S
        lengths = np.sqrt((K * K).sum(axis=1))
        region = Region(K / lengths[:, None], np.zeros(n - 1, dtype=Q))
        return Lift(S, none, region, inverse * np.arange(n) / Q(n))
    K = np.vstack([np.hstack([eye, -eye]), np.hstack([-eye, -eye])])
    total = np.concatenate([zero, scale.astype(Q)])[None]
    total, edge = total / scale.max(), Q(size[0]) / scale.max()
    region = Region(np.vstack([K, total]), np.concatenate([zero, zero, [edge]]))
    inside = np.concatenate([zero, inverse * Q(size[0]) / (2 * n)])
    return Lift(np.hstack([S, 0 * S]), np.zeros((0, 2 * n), dtype=Q), region, inside)


def _within(region: Region, v: Vector, N: Matrix, keep: Vector) -> Region:
    """The region of w in v + N w, without some of its constraints."""
    smaller = Region(region.K[keep] @ N, (region.d - region.K @ v)[keep])
    if region.P is None:
        return smaller
    return smaller._replace(P=region.P @ N, q=region.P @ v + region.q, radius=region.radius)


def _reduced(level: Level) -> Level:
    """Least squares with no more rows than columns and one: the same up to a constant in b."""
    if level.kind != "squares" or level.A.shape[0] <= level.A.shape[1] + 1:
        return level
    R, (c,) = triangular(level.A, level.b)
    n = R.shape[0]
    rest = np.zeros((1, n), dtype=Q)
    return Level("squares", np.vstack([R, rest]), np.append(c[:n], np.sqrt(c[n:] @ c[n:])))


class Shortened(NamedTuple):
    """Both levels with few rows where that is the same, and a matrix with the row space of A."""

    lower: Level
    upper: Level
    image: Matrix

    @classmethod
    def of(cls, spec: Spec) -> Shortened:
        lower, upper = _reduced(spec.lower), _reduced(spec.upper)
        A = lower.A if lower.kind == "squares" else _distinct(spec.lower.A)  # rows of all sizes
        return cls(lower, upper, np.asarray(A, dtype=Q))


def once(
    spec: Spec, short: Shortened, scale: Vector, end: float, is_free: bool
) -> tuple[Any, Any, int, bool]:
    """f*, g*, the dimension of the lower minimisers, and whether rounding decides a rank."""
    lower, upper, image = short
    lift = lifted(spec, scale)
    region, v = lift.region, lift.inside
    if spec.domain in ("Orthant", "Monotone"):  # cones: begin where Ax is as large as b
        reach = np.asarray(spec.lower.A, dtype=np.float64) @ np.asarray(lift.S @ v, dtype=float)
        v = v * (np.linalg.norm(spec.lower.b) / max(float(np.linalg.norm(reach)), 1e-300))
    images = bases(image @ lift.S)
    found = _free(lower, lift, images, end) if is_free else None
    if found is None and spec.domain == "Halfspace":
        found = _on_hyperplane(lower, lift, image, end)
    v, z = _below(spec, lower, lift, v, end) if found is None else (found, np.zeros(1, dtype=Q))
    g = value(spec.lower, lift.S @ v)
    # above
    room = region.slack(v)
    sizes = np.abs(region.d) + np.abs(region.K) @ np.abs(v)
    if region.P is not None:
        sizes = np.append(sizes, Q(region.radius) ** 2)
    share = np.asarray(room / np.maximum(sizes, Q(1e-300)), dtype=np.float64)
    is_near, binds = share < FACE * 1e2, np.asarray(z > FACE * z.max(initial=0))
    face = (share <= FACE * 1e-3) | (is_near & binds)
    if (unclear := is_near & ~face).any():
        raise Unclear(f"a face is not clear: {share[unclear].min():.1e}")
    if region.P is not None and face[-1]:  # the sphere, and a multiplier: a single minimiser
        if float(z[-1] * sizes[-1] / max(abs(g), Q(1e-300))) < 1e-12:
            raise Unclear("the sphere is only touched")
        return value(spec.upper, lift.S @ v), g, 0, images.doubtful
    face = face[: len(region.d)]
    held = bases(np.vstack([images.rows.T, lift.E, region.K[face]]))
    x, M = lift.S @ v, lift.S @ held.null
    if spec.domain == "L1Ball":  # of the bounds t only those that matter are variables
        ties = int(np.linalg.matrix_rank(np.asarray(M, dtype=np.float64), tol=1e-9))
    else:
        ties = M.shape[1]
    doubtful = images.doubtful or held.doubtful
    if not ties:
        return value(spec.upper, x), g, 0, doubtful
    inside = _within(region, v, held.null, ~face)
    if upper.kind == "l1":
        return _least_l1(x, M, inside, end), g, ties, doubtful
    h = local(upper, x, M)
    if len(inside.d) and upper.kind != "linear":
        h = damped(h, end * DAMPING)
    w, _ = minimise(h, inside, 0 * M[0], end)
    return value(spec.upper, x + M @ w), g, ties, doubtful


def _free(lower: Level, lift: Lift, images: Basis, end: float) -> Vector | None:
    """A minimiser where nothing binds: in a ball the one of least norm, None if that is outside."""
    S, v, region = lift.S, lift.inside, lift.region
    try:
        h = local(lower, S @ v, S @ images.rows)
        v = v + images.rows @ interior_point(h, Region.none(h.size), np.zeros(h.size, Q), end)[0]
    except Unclear:
        if region.P is None and not len(region.d):
            raise
        return None
    if len(region.d):
        return _inside_halfspace(v, region, images.null)
    if region.P is None:
        return np.asarray(v)
    if images.null.shape[1]:
        least = local(Level("norm"), S @ v, S @ images.null)
        start = np.zeros(least.size, dtype=Q)
        v = v + images.null @ interior_point(least, Region.none(least.size), start, end)[0]
    x = S @ v
    return np.asarray(v) if np.sqrt(x @ x) < Q(region.radius) else None


def _inside_halfspace(v: Vector, region: Region, null: Matrix) -> Vector | None:
    """The minimiser v, moved along the others until there is room; None where it is outside."""
    normal, room = region.K[0], (region.d - region.K @ v)[0]
    along = normal @ null
    want = (abs(region.d[0]) + np.abs(normal) @ np.abs(v)) / 2
    if along @ along > Q(1e-14):
        return np.asarray(v - null @ along * (max(want - room, Q(0)) / (along @ along)))
    return np.asarray(v) if room > 0 else None


def _on_hyperplane(lower: Level, lift: Lift, image: Matrix, end: float) -> Vector:
    """The minimiser where a half-space binds."""
    normal, offset = lift.region.K[0], lift.region.d[0]
    N = bases(normal[None]).null
    N = N @ bases(image @ lift.S @ N).rows
    h = local(lower, lift.S @ (normal * offset), lift.S @ N)
    w, _ = interior_point(h, Region.none(h.size), np.zeros(h.size, dtype=Q), end)
    return np.asarray(normal * offset + N @ w)


def _below(spec: Spec, lower: Level, lift: Lift, v: Vector, end: float) -> tuple[Vector, Vector]:
    """A minimiser of the lower level within its domain, and the multipliers."""
    N = bases(lift.E).null
    h = local(lower, lift.S @ v, lift.S @ N)
    if spec.domain in ("Orthant", "Monotone"):
        h = damped(h, end * DAMPING)
    every = np.ones(len(lift.region.d), dtype=bool)
    w, z = minimise(h, _within(lift.region, v, N, every), 0 * N[0], end, binds=True)
    return v + N @ w, z


def _least_l1(x: Vector, M: Matrix, region: Region, end: float) -> Any:
    """The least |x + M w|_1: a linear program in w and bounds t."""
    n, k = M.shape
    units = np.maximum(np.sqrt((M * M).sum(axis=1)), Q(1e-300))
    moves = units > EPS * 1e6 * units.max()
    M, fixed, x, units = M[moves], x[~moves], x[moves], units[moves]
    n = len(x)
    cost = np.concatenate([np.zeros(k, dtype=Q), units])
    eye = np.eye(n, dtype=Q)
    scaled = M / units[:, None]
    K = np.vstack([np.hstack([scaled, -eye]), np.hstack([-scaled, -eye])])
    rows = np.hstack([region.K, np.zeros((len(region.d), n), dtype=Q)])
    bounds = np.concatenate([-x / units, x / units, region.d])
    start = np.concatenate([np.zeros(k, dtype=Q), np.abs(x) / units * Q(1.5) + Q(0.1)])
    whole = Region(np.vstack([K, rows]), bounds)
    if region.P is not None:
        P = np.hstack([region.P, np.zeros((region.P.shape[0], n), dtype=Q)])
        whole = whole._replace(P=P, q=region.q, radius=region.radius)
    level = Level("linear", None, cost)
    w, _ = interior_point(local(level, 0 * cost, np.eye(k + n, dtype=Q)), whole, start, end)
    return np.abs(x + M @ w[:k]).sum() + np.abs(fixed).sum()


# --- is there a minimum? --------------------------------------------------------------------------


def falls_for_ever(spec: Spec, scale: Vector) -> str:
    """Which level has no minimum on its set, by linear programs over directions; "" if none."""
    if spec.domain in ("Ball", "Box", "Simplex", "L1Ball"):
        return ""
    n = spec.variables
    A = np.asarray(spec.lower.A, dtype=np.float64) * scale
    cone = np.zeros((0, n))  # directions d with cone d <= 0
    if spec.domain == "Halfspace":
        cone = (np.asarray(spec.size[0]) * scale)[None]
    elif spec.domain == "Monotone":
        cone = (np.eye(n)[:-1] - np.eye(n)[1:]) * scale
    elif spec.domain == "Orthant":
        cone = -np.eye(n)
    lengths = np.linalg.norm(cone, axis=1, keepdims=True)
    cone = cone / np.maximum(lengths, 1e-300)
    if spec.lower.kind == "logistic":
        signed = _directions(spec.lower.b[:, None] * A)
        if _fall(-signed.sum(axis=0), np.vstack([cone, -signed]), np.zeros((0, n))):
            return "lower"
    if spec.upper.kind == "linear":
        held = np.asarray(bases(_distinct(A)).rows.T, dtype=np.float64)
        c = np.asarray(spec.upper.b, dtype=np.float64) * scale
        return "upper" if _fall(c / np.linalg.norm(c), cone, held) else ""
    if spec.upper.kind == "logistic":
        held = np.asarray(bases(_distinct(A)).rows.T, dtype=np.float64)
        B = spec.upper.b[:, None] * np.asarray(spec.upper.A, dtype=np.float64) * scale
        signed = _directions(B)
        if _fall(-signed.sum(axis=0), np.vstack([cone, -signed]), held):
            return "upper"
    return ""


def _directions(rows: Matrix) -> Matrix:
    """The rows, each once, at most of length 1."""
    rows = np.unique(rows, axis=0)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))


def _distinct(A: Matrix) -> Matrix:
    """A matrix with the same row space and no more rows than columns."""
    return triangular(A)[0] if A.shape[0] > A.shape[1] else np.asarray(A, dtype=Q)


def _fall(cost: Vector, at_most: Matrix, equal: Matrix) -> bool:
    """Is <cost, d> < 0 for a direction with at_most d <= 0, equal d = 0, |d_i| <= 1?"""
    from scipy.optimize import linprog

    found = linprog(
        cost, A_ub=at_most, b_ub=np.zeros(len(at_most)), A_eq=equal, b_eq=np.zeros(len(equal)),
        bounds=(-1.0, 1.0), method="highs",
    )  # fmt: skip
    if found.status != 0:
        raise Unclear(f"the linear program of directions: {found.message}")
    unit = float(np.abs(cost).max(initial=0.0))
    if 1e-9 * unit < -found.fun < 1e-5 * unit:
        raise Unclear(f"a direction of descent is not clear: {-found.fun / unit:.1e}")
    return bool(-found.fun > 1e-6 * unit)


def reference(spec: Spec) -> Reference:
    """The answer, if two settings agree on it; otherwise Unclear says why not."""
    lengths = np.linalg.norm(spec.lower.A, axis=0)
    exponents = np.where(lengths > 0.0, -np.round(np.log2(np.maximum(lengths, 1e-300))), 0.0)
    scale = 2.0**exponents
    if falls_for_ever(spec, scale):
        return Reference("unbounded")
    rng = np.random.default_rng(0)
    other = scale * 2.0 ** rng.integers(-2, 3, len(scale))
    end = EPS**0.8
    is_free = spec.domain == "Space"
    if spec.domain in ("Ball", "Halfspace"):  # may it be left out below?
        is_free = not falls_for_ever(Spec("", "", spec.lower, Level("norm")), scale)
    short = Shortened.of(spec)
    f, g, ties, doubtful = once(spec, short, scale, end, is_free)
    second = once(spec, short, other, 1e3 * end, is_free)
    start = start_of(spec)
    for level, found, again in ((spec.upper, f, second[0]), (spec.lower, g, second[1])):
        unit = max(abs(found), abs(value(level, start) - found))
        if unit < TINY:
            raise Unclear("nothing that errors could be relative to: the start is the answer")
        if not abs(found - again) <= AGREE * unit:
            raise Unclear(f"two settings differ by {float(abs(found - again) / unit):.1e}")
    return Reference("minimum", float(f), float(g), ties, doubtful)


def start_of(spec: Spec) -> Vector:
    """The projection of the origin onto the domain: where a run begins."""
    zero = np.zeros(spec.variables)
    if spec.domain == "Box":
        return np.asarray(np.clip(zero, *spec.size))
    if spec.domain == "Simplex":
        return np.asarray(zero + spec.size[0] / spec.variables)
    if spec.domain == "Halfspace" and spec.size[1] < 0.0:
        a = np.asarray(spec.size[0], dtype=np.float64)
        return np.asarray(a * (spec.size[1] / float(a @ a)))
    return zero
