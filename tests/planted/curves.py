"""What a slack buys: f*(delta) = min f over { x in Z : g(x) <= g* + delta }, by Clarabel.

Problems with losses below, norms and costs above, on R^n, balls, boxes and polyhedra, as arrays
(``drawn``) from which any form can be built. ``reference`` gives f* at slacks from 1e-4 to 1 times
what g could lose, each enclosed: from above by the conic solve itself, from below by the least
f + price g, a problem without the cut that has to give the same value by duality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from planted.levels import Array, Block, Level, Leveled, ball, box, least

LOWER = ["squares", "logistic", "l1"]
UPPER = ["norm", "linear", "l1", "squares"]
DOMAINS = ["polyhedron", "ball", "space", "box"]
SHARES = np.geomspace(1e-4, 0.9, 10)  # of what g rises from its least value to the minimiser of f


@dataclass(frozen=True)
class Curve:
    """Levels g, f on a set; the names say which."""

    problem: Leveled
    lower: str
    upper: str
    domain: str
    radius: float  # of the ball or the box
    rows: Array  # of the polyhedron, rows x <= right, in the box
    right: Array


def drawn(seed: int) -> Curve:
    """Number ``seed``: 3 losses, 4 upper levels and 4 sets in turn; f is bounded below on Z."""
    rng = np.random.default_rng([20261117, 7, seed])
    lower, upper, domain = LOWER[seed % 3], UPPER[seed // 3 % 4], DOMAINS[seed // 12 % 4]
    n, m = int(rng.integers(5, 13)), int(rng.integers(3, 16))
    A = rng.normal(size=(m, n))
    if upper == "linear" and domain == "space":
        domain = "polyhedron"  # a cost has no minimum on R^n
    if lower == "logistic":  # the rows of A have both labels: not separable, a minimum on R^n
        A = np.vstack([A, A, rng.normal(size=(m, m)) @ A / np.sqrt(m)])
        g = Level(logistic=(A, np.repeat([1.0, -1.0, 1.0], m)))
    else:
        b = 2.0 * rng.normal(size=m)
        g = Level(squares=(A, b)) if lower == "squares" else Level(l1=(A, b))
    p = rng.normal(size=n)
    f = {
        "norm": Level(norm=(np.eye(n), 3.0 * p)),
        "linear": Level(linear=p),
        "l1": Level(l1=(np.eye(n), np.zeros(n))),
        "squares": Level(squares=(np.eye(n), p)),
    }[upper]
    rows, right, radius = np.zeros((0, n)), np.zeros(0), 2.0
    blocks: list[Block] = []
    if domain == "polyhedron":
        rows = rng.normal(size=(int(rng.integers(2, 8)), n))
        right = rng.uniform(0.1, 1.0, len(rows))
        blocks = [Block("nonnegative", rows, right)]
    if domain in ("polyhedron", "box"):
        blocks.append(box(n, radius))
    if domain == "ball":
        blocks.append(ball(n, radius))
    reach = np.inf if domain == "space" else radius
    return Curve(Leveled(n, [g, f], blocks, reach), lower, upper, domain, radius, rows, right)


class Point(NamedTuple):
    """f* at a slack, enclosed, and the price -df*/d slack."""

    slack: float
    low: float
    high: float
    price: float


def reference(curve: Curve) -> tuple[float, list[Point]]:
    """g* and the points of the curve at ten slacks."""
    g, f = curve.problem.levels
    best = least(g, curve.problem, []).value
    # What a slack can be worth ends where f is least.
    rise = max(g.value(least(f, curve.problem, []).x) - best, 1e-2 * max(1.0, best))
    return best, [at(curve, best, float(share * rise)) for share in SHARES]


def at(curve: Curve, best: float, slack: float) -> Point:
    """One point: the conic solve, and the bound that its multiplier gives without the cut."""
    g, f = curve.problem.levels
    high = least(f, curve.problem, [(g, best + slack)])
    price = max(high.prices[0], 0.0)
    low = least(f, curve.problem, [], (price, g)).value - price * (best + slack)
    return Point(slack, low, high.value, price)
