"""Algorithms 1 and 2 as printed in the paper; tests compare the fast versions with these.

Cao, Jiang, Yazdandoost Hamedani, Mokhtari: An accelerated gradient method for convex smooth simple
bilevel optimization, NeurIPS 2024, arXiv 2402.08097.

The code is plain NumPy in the paper's notation, independent of the rest of the library and without
any tricks for speed. Comments give line numbers of the algorithm. A complete run on the set Z:

    project_cut = partial(projection_onto_cut, project)  # project(v) is the nearest point of Z
    levels = accelerated_levels(g, grad_g, lambda v, b: project(v), L_g, x_0)
    for y_k, z_next, x_next in agm_bio(grad_f, g, grad_g, project_cut, islice(levels, K), x_0, L_f):
        ...
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Value = Callable[[Vector], float]
Gradient = Callable[[Vector], Vector]
Iterates = tuple[Vector, Vector, Vector]  # y_k, z_{k+1}, x_{k+1}


def agm_bio(
    grad_f: Gradient,
    g: Value,
    grad_g: Gradient,
    project_cut: Callable[[Vector, Vector, float], Vector],
    levels: Iterable[float],
    x_0: Vector,
    L_f: float,
    gamma: float = 1.0,
) -> Iterator[Iterates]:
    """Algorithm 1, AGM-BiO: minimise a smooth f over the minimisers of a smooth g on Z.

    Yields y_k, z_{k+1} and x_{k+1} of each step; line 10 returns the last x.

    Args:
        project_cut: (v, c, beta) -> the projection of v onto { z in Z : <c, z> <= beta }.
        levels: g_0, ..., g_K, all at least the minimum of g on Z.
        L_f: Lipschitz constant of the gradient of f.
    """
    # Line 1: the inputs are the sequence g_k and gamma.
    A_k, x_k, z_k = 0.0, x_0, x_0  # line 2
    for k, g_k in enumerate(levels):  # line 3
        a_k = gamma * (k + 1) / (4 * L_f)  # line 4
        y_k = A_k / (A_k + a_k) * x_k + a_k / (A_k + a_k) * z_k  # line 5
        # Line 6, where X_k = { z in Z : g(y_k) + <grad g(y_k), z - y_k> <= g_k }.
        c = grad_g(y_k)
        beta = g_k - g(y_k) + float(c @ y_k)
        z_next = project_cut(z_k - a_k * grad_f(y_k), c, beta)
        x_next = A_k / (A_k + a_k) * x_k + a_k / (A_k + a_k) * z_next  # line 7
        A_next = A_k + a_k  # line 8
        yield y_k, z_next, x_next
        A_k, x_k, z_k = A_next, x_next, z_next


def p_agm_bio(
    grad_f1: Gradient,
    g1: Value,
    grad_g1: Gradient,
    prox_cut: Callable[[Vector, float, Vector, float], Vector],
    levels: Iterable[float],
    x_0: Vector,
    L_f: float,
    gamma: float = 1.0,
) -> Iterator[Iterates]:
    """Algorithm 2, P-AGM-BiO: Algorithm 1 for f = f1 + f2 and g = g1 + g2 with smooth f1 and g1.

    Yields y_k, z_{k+1} and x_{k+1} of each step; line 10 returns the last x.

    Args:
        prox_cut: (v, a, c, beta) -> the z that minimises a f2(z) + ½|z - v|² among those with <c,
            z> + g2(z) <= beta; f2 or g2 includes the set Z, as a function that is 0 on Z and inf
            outside.
        levels: g_0, ..., g_K, all at least the minimum of g.
        L_f: Lipschitz constant of the gradient of f1.
    """
    # Line 1: the inputs are the sequence g_k and gamma.
    A_k, x_k, z_k = 0.0, x_0, x_0  # line 2
    for k, g_k in enumerate(levels):  # line 3
        a_k = gamma * (k + 1) / (4 * L_f)  # line 4
        y_k = A_k / (A_k + a_k) * x_k + a_k / (A_k + a_k) * z_k  # line 5
        # Line 6, where X_k = { z : g1(y_k) + <grad g1(y_k), z - y_k> + g2(z) <= g_k }.
        c = grad_g1(y_k)
        beta = g_k - g1(y_k) + float(c @ y_k)
        z_next = prox_cut(z_k - a_k * grad_f1(y_k), a_k, c, beta)
        x_next = A_k / (A_k + a_k) * x_k + a_k / (A_k + a_k) * z_next  # line 7
        A_next = A_k + a_k  # line 8
        yield y_k, z_next, x_next
        A_k, x_k, z_k = A_next, x_next, z_next


# --- the levels


def accelerated_levels(
    g: Value,
    grad_g1: Gradient,
    prox_g2: Callable[[Vector, float], Vector],
    L_g: float,
    x_0: Vector,
) -> Iterator[float]:
    """Yield g_0, g_1, ... from an accelerated proximal gradient run on g = g1 + g2 alone.

    g_k is the least of g(x_0), g(u_1), ..., g(u_{k+1}): one step ahead, because the theorems
    require g_k - g* <= 2 L_g |x_0 - x*|²/(k+1)².

    Args:
        prox_g2: (v, b) -> the z that minimises b g2(z) + ½|z - v|²; without g2, this is the
            projection onto Z.
    """
    B_k, u_k, v_k, g_k = 0.0, x_0, x_0, g(x_0)
    for k in itertools.count():
        b_k = (k + 1) / (2 * L_g)
        w_k = B_k / (B_k + b_k) * u_k + b_k / (B_k + b_k) * v_k
        v_k = prox_g2(v_k - b_k * grad_g1(w_k), b_k)
        u_k = B_k / (B_k + b_k) * u_k + b_k / (B_k + b_k) * v_k
        B_k = B_k + b_k
        g_k = min(g_k, g(u_k))
        yield g_k


# --- line 6 by bisection


def projection_onto_cut(
    project: Callable[[Vector], Vector], v: Vector, c: Vector, beta: float
) -> Vector:
    """Run line 6 of Algorithm 1, using only the projection onto Z.

    The result is the projection of v - mu c onto Z, where mu >= 0 is the multiplier of the cut.
    """
    return first_within(lambda mu: project(v - mu * c), lambda z: float(c @ z) - beta)


def prox_within_cut(
    prox: Callable[[Vector, float, float], Vector],
    g2: Value,
    v: Vector,
    a: float,
    c: Vector,
    beta: float,
) -> Vector:
    """Run line 6 of Algorithm 2 with prox(v, a, mu) = argmin of a f2(z) + mu g2(z) + ½|z - v|²."""
    return first_within(lambda mu: prox(v - mu * c, a, mu), lambda z: float(c @ z) + g2(z) - beta)


def first_within(path: Callable[[float], Vector], gap: Value) -> Vector:
    """Return path(mu) for the least mu >= 0 with gap(path(mu)) <= 0; gap must not grow with mu."""
    z = path(0.0)
    if gap(z) <= 0.0:
        return z
    low, high = 0.0, 1.0
    while gap(path(high)) > 0.0 and high < 2.0**60:
        low, high = high, 2.0 * high
    middle = 0.5 * (low + high)
    while low < middle < high:
        low, high = (middle, high) if gap(path(middle)) > 0.0 else (low, middle)
        middle = 0.5 * (low + high)
    return path(high)
