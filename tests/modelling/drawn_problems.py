"""Drawn problems of several levels in CVXPY whose answers are known without tiebreak.

All levels but the last are planted at a point x0: each is a convex function of A x whose
minimisers over the drawn set are known by construction,

    a strictly convex function of A x, least at A x0             S = { A x = A x0 }
    the same, held back at x0 by a half-space or a ball          S = { A x = A x0 (, Q x = Q x0) }
    a function with a flat part around A x0                      S = { A x in the flat part }
    a linear function with multipliers on some active rows       S = { those rows are equations }

so their best values are those at x0, and the last level's is one ordinary problem of CVXPY on the
intersection of those S.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np


class Drawn(NamedTuple):
    """One problem."""

    atoms: tuple[str, ...]  # of the levels
    kinds: tuple[str, ...]  # of constraints
    x: Any
    levels: tuple[Any, ...]  # cp.Minimize or cp.Maximize
    constraints: list[Any]
    best: tuple[float, ...]  # the value of each level at the answer
    x0: Any  # where all levels but the last are least


class Level(NamedTuple):
    """A planted level."""

    objective: Any
    minimisers: list[Any]  # constraints that say which they are
    needed: list[Any]  # constraints that hold the level back at x0, and belong to the problem
    kind: str = ""  # of those


def sigmoid(t):
    return 1 / (1 + np.exp(-t))


# Strictly convex functions of u: the expression and its derivative at t, before any tilt.
# Those of POSITIVE have u > 0 as their domain.
STRICT: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sum_squares": (cp.sum_squares, lambda t: 2 * t),
    "logistic": (lambda u: cp.sum(cp.logistic(u)), sigmoid),
    "exp": (lambda u: cp.sum(cp.exp(u)), np.exp),
    "kl_div": (lambda u: cp.sum(cp.kl_div(u, 1.0)), np.log),
    "entr": (lambda u: -cp.sum(cp.entr(u)), lambda t: 1 + np.log(t)),
    "power": (lambda u: cp.sum(cp.power(u, 3)), lambda t: 3 * t**2),
    "power 1.5": (lambda u: cp.sum(cp.power(u, 1.5)), lambda t: 1.5 * np.sqrt(t)),
    "inv_pos": (lambda u: cp.sum(cp.inv_pos(u)), lambda t: -1 / t**2),
    "log": (lambda u: -cp.sum(cp.log(u)), lambda t: -1 / t),
    "sqrt": (lambda u: -cp.sum(cp.sqrt(u)), lambda t: -0.5 / np.sqrt(t)),
}
POSITIVE = ("kl_div", "entr", "power", "power 1.5", "inv_pos", "log", "sqrt")


def strict(name: str, rng: Any, x: Any, x0: Any) -> Level:
    """φ(A x + a) + <c, A x>, least at A x0; one third held back there by a half-space or a ball."""
    m, n = int(rng.integers(2, 4)), x0.size
    A = rng.normal(size=(m, n)) / np.sqrt(n)
    t = rng.uniform(0.4, 1.6, size=m) if name in POSITIVE else rng.normal(size=m)
    phi, slope = STRICT[name]
    tilt, pull = -slope(t), rng.uniform(0.2, 1.0, size=m)
    binding = rng.integers(3)  # 0: none
    if binding:
        tilt = tilt + pull
    objective = phi(A @ x + (t - A @ x0)) + tilt @ (A @ x)
    same = [A @ (x - x0) == 0]
    if not binding:
        return Level(objective, same, [])
    normal = A.T @ pull
    if binding == 1:
        return Level(objective, same, [normal @ x >= normal @ x0], "binding half-space")
    free = np.linalg.svd(normal[None, :])[2][1:]
    Q = np.vstack([normal / np.linalg.norm(normal), free[:1]])
    radius = rng.uniform(0.5, 2.0)
    centre = x0 + radius * Q[0]
    ball = cp.norm(Q @ (x - centre)) <= radius
    return Level(objective, [*same, Q @ (x - x0) == 0], [ball], "binding ball")


def image(name: str, rng: Any, x: Any, x0: Any) -> Level:
    """Functions of A x that are least at A x0 alone."""
    m, n = int(rng.integers(2, 4)), x0.size
    A = rng.normal(size=(m, n)) / np.sqrt(n)
    u = A @ (x - x0)
    same = [u == 0]
    if name == "least squares":  # exact, or with a residual that no x can reduce
        tall = rng.normal(size=(m + 2, m)) if rng.integers(2) else np.eye(m)
        rest = rng.normal(size=len(tall))
        rest -= tall @ np.linalg.lstsq(tall, rest)[0]
        return Level(cp.sum_squares(tall @ A @ x - (tall @ A @ x0 + rest)), same, [])
    if name == "quad_form":
        return Level(cp.quad_form(x - x0, A.T @ A + 0.0), same, [])
    if name == "huber":
        return Level(cp.sum(cp.huber(u, rng.uniform(0.2, 1.0))), same, [])
    if name == "norm1":
        return Level(cp.norm1(u), same, [])
    if name == "norm2":
        return Level(cp.norm(u, 2), same, [])
    if name == "norm_inf":
        return Level(cp.norm_inf(u), same, [])
    if name == "quad_over_lin":
        c = rng.normal(size=n) / np.sqrt(n)
        below = c @ (x - x0) + rng.uniform(0.5, 2)
        return Level(cp.quad_over_lin(u, below), [*same, below >= 0], [])
    if name == "tv":
        k = min(m + 1, n - 2)
        return Level(cp.tv(x[:k] - x0[:k]), [cp.diff(x[:k] - x0[:k]) == 0], [])
    if name == "max":  # rows with a positive combination that vanishes
        rows = np.vstack([A, -rng.uniform(0.5, 2, size=m) @ A])
        return Level(cp.max(rows @ (x - x0)), same, [])
    if name == "log_sum_exp":  # free along A x + constant
        t = rng.normal(size=m)
        share = np.exp(t) / np.sum(np.exp(t))
        return Level(cp.log_sum_exp(u + t) - share @ u, [cp.diff(u) == 0], [])
    raise KeyError(name)


def flat(name: str, rng: Any, x: Any, x0: Any) -> Level:
    """Functions with a flat part: A x may lie anywhere in an interval."""
    m, n = int(rng.integers(2, 4)), x0.size
    A = rng.normal(size=(m, n)) / np.sqrt(n)
    low, high = rng.uniform(0.1, 0.6, size=(2, m))
    u = A @ (x - x0)
    interval = [u >= -low, u <= high]
    if name == "flat pos":
        return Level(cp.sum(cp.pos(u - high)) + cp.sum(cp.pos(-low - u)), interval, [])
    if name == "flat abs":
        return Level(cp.sum(cp.abs(u - high)) + cp.sum(cp.abs(u + low)), interval, [])
    if name == "flat norm_inf":
        top = rng.uniform(0.2, 0.6)
        return Level(cp.maximum(cp.norm_inf(u), top), [cp.norm_inf(u) <= top], [])
    if name == "flat huber":  # two outliers pull as hard as each other
        width = 0.1
        pull = cp.huber(u - high - width, width) + cp.huber(u + low + width, width)
        return Level(cp.sum(pull), interval, [])
    raise KeyError(name)


def linear(name: str, rng: Any, x: Any, x0: Any) -> Level:
    """Multipliers on rows that are active at x0; further rows pass through x0 without one."""
    n = x0.size
    G = rng.normal(size=(3, n)) / np.sqrt(n)
    h = G @ x0
    charged = int(rng.integers(1, 3))
    cost = -rng.uniform(0.3, 1.0, size=charged) @ G[:charged]
    return Level(cost @ x, [G[:charged] @ x == h[:charged]], [G @ x <= h], "active rows")


IMAGES = ("least squares", "quad_form", "huber", "norm1", "norm2", "norm_inf", "quad_over_lin")
IMAGES += ("tv", "max", "log_sum_exp")
FLATS = ("flat pos", "flat abs", "flat norm_inf", "flat huber")
PLANTED: dict[str, Callable[..., Level]] = {
    **dict.fromkeys(STRICT, strict),
    **dict.fromkeys(IMAGES, image),
    **dict.fromkeys(FLATS, flat),
    "linear": linear,
}


# ---- The last level: anything convex ----


def last(name: str, rng: Any, x: Any, x0: Any) -> Any:
    """Not planted; finite at x0."""
    m, n = x0.size, x0.size
    V = rng.normal(size=(m, n)) / np.sqrt(n)
    t = rng.uniform(0.4, 1.6, size=m) if name in POSITIVE else rng.normal(size=m)
    u = V @ (x - x0) + t
    if name in STRICT:
        return STRICT[name][0](u) + 0.3 * rng.normal(size=n) @ x
    others: dict[str, Callable[[], Any]] = {
        "least squares": lambda: cp.sum_squares(u),
        "quad_form": lambda: cp.quad_form(u, V.T @ V + np.eye(n)),
        "huber": lambda: cp.sum(cp.huber(u, 0.5)),
        "norm1": lambda: cp.norm1(u),
        "norm2": lambda: cp.norm(u, 2),
        "norm_inf": lambda: cp.norm_inf(u),
        "quad_over_lin": lambda: cp.quad_over_lin(u, V[0] @ (x - x0) + 2),
        "tv": lambda: cp.tv(u),
        "max": lambda: cp.max(u),
        "log_sum_exp": lambda: cp.log_sum_exp(u),
        "pos": lambda: cp.sum(cp.pos(u)) + cp.norm1(x) / 10,
        "sum_largest": lambda: cp.sum_largest(u, 2),
        "linear": lambda: V[0] @ x,
    }
    return others[name]()


LAST = (*STRICT, *IMAGES, "pos", "sum_largest", "linear")


# ---- Constraints: x0 lies inside, on equations, and on some of the flat sides ----


def room(rng: Any, low: float, high: float, size: int) -> Any:
    """Between low and high; one in two draws has an entry that is 0: x0 touches that side."""
    sizes = rng.uniform(low, high, size=size)
    if rng.integers(2):
        sizes[rng.integers(size)] = 0.0
    return sizes


def halfspaces(rng: Any, x: Any, x0: Any) -> list[Any]:
    G = rng.normal(size=(4, x0.size)) / np.sqrt(x0.size)
    return [G @ x <= G @ x0 + room(rng, 0.1, 0.8, 4)]


def equation(rng: Any, x: Any, x0: Any) -> list[Any]:
    E = rng.normal(size=(1, x0.size))
    return [E @ x == E @ x0]


def box(rng: Any, x: Any, x0: Any) -> list[Any]:
    below, above = room(rng, 0.2, 1.5, x0.size), rng.uniform(0.2, 1.5, size=x0.size)
    return [x >= x0 - below, x <= x0 + above]


def simplex(rng: Any, x: Any, x0: Any) -> list[Any]:
    """Of the size of x0, moved so that x0 lies in it."""
    corner = x0 - room(rng, 0.1, 0.8, x0.size)
    return [x >= corner, cp.sum(x) == np.sum(x0)]


def ball(rng: Any, x: Any, x0: Any) -> list[Any]:
    away = rng.normal(size=x0.size)
    centre = x0 + 0.5 * away / np.linalg.norm(away)
    return [cp.norm(x - centre) <= rng.uniform(0.8, 2.0)]


def second_order(rng: Any, x: Any, x0: Any) -> list[Any]:
    n = x0.size
    B, c = rng.normal(size=(3, n)) / np.sqrt(n), rng.normal(size=n) / np.sqrt(n)
    most = np.linalg.norm(B @ x0) - c @ x0 + rng.uniform(0.2, 1.0)
    return [cp.norm(B @ x) <= c @ x + most]


def exponential(rng: Any, x: Any, x0: Any) -> list[Any]:
    B = rng.normal(size=(3, x0.size)) / np.sqrt(x0.size)
    if rng.integers(2):
        most = float(np.log(np.sum(np.exp(B @ x0))))
        return [cp.log_sum_exp(B @ x) <= most + rng.uniform(0.1, 0.5)]
    return [cp.sum(cp.log(1 + B @ (x - x0))) >= -rng.uniform(0.3, 1.0)]


def l1_ball(rng: Any, x: Any, x0: Any) -> list[Any]:
    return [cp.norm1(x) <= np.sum(np.abs(x0)) + rng.uniform(0.3, 1.0)]


def quadratic(rng: Any, x: Any, x0: Any) -> list[Any]:
    B = rng.normal(size=(3, x0.size))
    return [cp.sum_squares(B @ x) <= np.sum((B @ x0) ** 2) + rng.uniform(0.3, 1.0)]


KINDS: dict[str, Callable[..., list[Any]]] = {
    "half-spaces": halfspaces,
    "equation": equation,
    "box": box,
    "simplex": simplex,
    "ball": ball,
    "second-order": second_order,
    "exponential": exponential,
    "l1 ball": l1_ball,
    "quadratic": quadratic,
}
COMPACT = ("box", "simplex", "ball", "l1 ball")


# ---- One draw ----

TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def turned(expression: Any, rng: Any) -> Any:
    """One in four is written as a Maximize."""
    return cp.Minimize(expression) if rng.integers(4) else cp.Maximize(-expression)


def reference(objective: Any, constraints: list[Any]) -> float | None:
    """Its optimal value by Clarabel alone, None where that is not sure to nine digits."""
    problem = cp.Problem(objective, constraints)
    with warnings.catch_warnings():
        # "May be inaccurate", and values at points outside a domain by rounding: compared below.
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        values = []
        for options in (TIGHT, {**TIGHT, "equilibrate_enable": False}):
            try:
                values.append(float(problem.solve(solver="CLARABEL", **options)))
            except cp.SolverError:
                return None
    spread = max(values) - min(values)
    sure = problem.status in ("optimal", "optimal_inaccurate")
    return values[0] if sure and spread <= 2e-9 * max(1.0, abs(values[0])) else None


def drawn(seed: int) -> Drawn:
    """A problem of two or three levels; drawn again where its reference is not sure."""
    for attempt in range(20):
        found = once(seed, np.random.default_rng([seed, attempt]))
        if found is not None:
            return found
    raise RuntimeError(f"no sure reference for seed {seed}")


def once(seed: int, rng: Any) -> Drawn | None:
    """The first level's and the last level's atoms go round with the seed: all are met."""
    n = int(rng.integers(7, 11))
    x, x0 = cp.Variable(n), rng.normal(size=n)
    names = [list(PLANTED)[seed % len(PLANTED)]]
    if seed % 3 == 2:
        names.append(str(rng.choice(list(STRICT))))
    final = LAST[(seed // 2) % len(LAST)]
    planted = [PLANTED[name](name, rng, x, x0) for name in names]
    kinds = [str(rng.choice(COMPACT))]
    kinds += [str(kind) for kind in rng.choice(list(KINDS), size=rng.integers(1, 3), replace=False)]
    kinds = list(dict.fromkeys(kinds))
    common = [c for kind in kinds for c in KINDS[kind](rng, x, x0)]
    needed = [c for level in planted for c in level.needed]
    minimisers = [c for level in planted for c in level.minimisers]
    levels = [turned(level.objective, rng) for level in planted]
    goal = turned(last(final, rng, x, x0), rng)
    # On the minimisers the constraints that hold a level back are equations, or implied; the rows
    # of "linear" that carry no multiplier are not.
    rows = [c for level in planted if level.kind == "active rows" for c in level.needed]
    value = reference(goal, common + rows + minimisers)
    if value is None:
        return None
    x.value = x0
    best = (*(float(level.value) for level in levels), value)
    x.value = None
    held = [level.kind for level in planted if level.kind]
    return Drawn((*names, final), (*kinds, *held), x, (*levels, goal), common + needed, best, x0)
