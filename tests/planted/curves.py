"""What a slack buys: f*(delta) = min f over { x in Z : g(x) <= g* + delta }, by Clarabel.

Problems with losses below, norms and costs above, on R^n, balls, boxes and polyhedra, as arrays
(``drawn``) from which any form can be built. ``reference`` gives f* at slacks from about 1e-4 to 1
times what g could lose. A conic solve with the cut gives the price alone; the point of the curve is
then a minimiser of f + price g, which meets no cut and is as accurate as a solve can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

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

    def build(self, tb: Any) -> Any:
        """As Levels of the library."""
        g, f = self.problem.levels
        if g.logistic is not None:
            below = tb.Logistic(*g.logistic, mean=False)
        else:
            below = tb.LeastSquares(*g.squares) if g.squares else tb.L1(1.0, g.l1[1], g.l1[0])
        above = {
            "norm": lambda: tb.L2(),
            "linear": lambda: tb.Linear(f.linear),
            "l1": lambda: tb.L1(),
            "squares": lambda: tb.SquaredNorm(center=f.squares[1]),
        }[self.upper]()
        domain = {
            "polyhedron": lambda: tb.Polyhedron(self.rows, self.right) & self.box(tb),
            "ball": lambda: tb.Ball(self.radius),
            "space": lambda: tb.Space(),
            "box": lambda: self.box(tb),
        }[self.domain]()
        return tb.Levels(tb.Level(below), tb.Level(above), domain=domain)

    def box(self, tb: Any) -> Any:
        return tb.Box(-self.radius, self.radius)


def drawn(seed: int) -> Curve:
    """Number ``seed``: 3 losses, 4 upper levels and 4 sets in turn; f is bounded below on Z."""
    rng = np.random.default_rng([20261117, 7, seed])
    lower, upper, domain = LOWER[seed % 3], UPPER[seed // 3 % 4], DOMAINS[seed // 12 % 4]
    n, m = int(rng.integers(5, 13)), int(rng.integers(3, 16))
    A = rng.normal(size=(m, n))
    if lower == "logistic" and upper == "norm":
        upper = "linear"  # Clarabel alone solves too few of these to eight digits
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
        "norm": Level(norm=(np.eye(n), np.zeros(n))),
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
    """low <= f*(slack) <= high, and -df*/d slack."""

    slack: float
    low: float
    high: float
    price: float
    by_cut: float  # f* by one conic solve below the cut, near the slack


def reference(curve: Curve) -> tuple[float, list[Point]]:
    """g* and the points of the curve at ten slacks."""
    g, f = curve.problem.levels
    best = least(g, curve.problem, []).value
    # What a slack can be worth ends where f is least.
    rise = max(g.value(least(f, curve.problem, []).x) - best, 1e-2 * max(1.0, best))
    return best, [at(curve, best, float(share * rise)) for share in SHARES]


def at(curve: Curve, best: float, slack: float) -> Point:
    """The point near a slack, where the price of a cut leads.

    A minimiser x of f + price g is one of f below g(x), so that no cut has to be held; if it is a
    minimiser up to epsilon only, f(x) lies above the curve by at most that.
    """
    g, f = curve.problem.levels
    cut = least(f, curve.problem, [(g, best + slack)])
    price = max(cut.prices[0], 0.0)
    both = least(f, curve.problem, [], (price, g))
    high, slack_there = f.value(both.x), g.value(both.x) - best
    epsilon = 4.0 * both.tolerance * (1.0 + abs(high) + price * abs(best + slack_there))
    near = cut.value - price * (slack_there - slack)
    return Point(slack_there, high - epsilon, high, price, near)
