"""Draws docs/demo.png, the picture of the README and of `make run`, and docs/ties.png: `make docs`.

Of ties.png, left: a problem in the plane whose lower level has a whole segment of minimisers.
Gradient descent on g ends somewhere on it, AGM-BiO at the point of it that f prefers. Right: a
portfolio by the adaptive method; f(x) and the proved bound below f* close in on f*.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import tiebreak as tb
from tiebreak.experiments.demo import demo

HERE = Path(__file__).parent
A, b = np.array([[1.0, 1.6]]), np.array([1.2])  # g = 0 on the line x + 1.6 y = 1.2
Q, WISH = np.array([[1.0, 0.35], [0.35, 0.8]]), np.array([1.5, 1.15])  # f is least at WISH
START, STEPS = np.array([-1.3, -0.9]), 60
BLUE, RED, GREY = "#1f3b6f", "#b3372f", "0.35"


def upper(x):
    """f at points along the first axis."""
    d = np.moveaxis(x, 0, -1) - WISH
    return 0.5 * np.einsum("...i,ij,...j", d, Q, d)


def lower(x):
    """g at points along the first axis."""
    return 0.5 * (np.tensordot(A[0], x, 1) - b[0]) ** 2


def descent():
    """Gradient descent on g alone."""
    points = [START]
    for _ in range(STEPS):
        x = points[-1]
        points.append(x - 0.1 * A.T @ (A @ x - b))
    return np.array(points)


def agm_bio():
    """The iterates of AGM-BiO, and the answer."""
    f = tb.Quadratic(Q, -Q @ WISH)
    problem = tb.Problem(upper=f, lower=tb.LeastSquares(A, b), domain=tb.Ball(2.0))
    points = [START]
    tb.solve(
        problem,
        "agm-bio",
        x0=START,
        rtol=0.0,
        max_iter=STEPS,
        callback=lambda now: points.append(np.array(now.x)),
    )
    return np.array(points), tb.solve(problem).x


def portfolio():
    """Of all portfolios that track an index, the one closest to today's, step by step."""
    rng = np.random.default_rng(0)
    returns = rng.normal(0.001, 0.02, (52, 150))
    index = returns @ rng.dirichlet(np.ones(150))
    held = rng.dirichlet(np.full(150, 0.2))
    problem = tb.Problem(
        lower=tb.LeastSquares(returns, index),
        upper=tb.SquaredNorm(center=held),
        domain=tb.Simplex(),
    )
    return tb.solve(problem, "adaptive", rtol=1e-3)


def draw_plane(axes, path, plain, best):
    """Both levels, the minimisers of the lower one, and two ways to them."""
    grid = np.stack(np.meshgrid(np.linspace(-1.9, 2.1, 300), np.linspace(-1.5, 1.9, 260)))
    axes.contourf(*grid, lower(grid) ** 0.5, levels=14, cmap="Blues", alpha=0.55)
    axes.contour(*grid, upper(grid), levels=10, colors=RED, linewidths=0.7, alpha=0.7)
    x = np.linspace(-1.9, 2.1, 2)
    axes.plot(x, (b[0] - A[0, 0] * x) / A[0, 1], color=BLUE, lw=3.0)
    axes.plot(*plain.T, ".-", color=GREY, ms=3, lw=1.0)
    axes.plot(*path.T, ".-", color="black", ms=4, lw=1.2)
    axes.plot(*best, "*", color=RED, ms=17, mec="white")
    axes.plot(*START, "o", color="black", ms=6)
    notes = (
        ("start", START, (8, -12), "black"),
        ("gradient descent\non $g$: just any", plain[-1], (-112, -26), GREY),
        ("AGM-BiO: the one\nthat $f$ prefers", best, (-62, -40), "black"),
        ("all of these minimise $g$", (-1.3, 1.58), (12, 2), BLUE),
    )
    for text, at, offset, colour in notes:
        axes.annotate(text, at, offset, textcoords="offset points", fontsize=9.5, color=colour)
    axes.set(xlim=(-1.9, 2.1), ylim=(-1.5, 1.9), xticks=[], yticks=[], aspect="equal")
    axes.set_title("many minimisers of $g$ (blue), one best by $f$ (red)", fontsize=10.5)


def draw_proof(axes, result):
    """f(x_k) and the proved bound below f*."""
    rows = [row for row in result.trace if row.iteration >= 2]
    step = [row.iteration for row in rows]
    value = np.array([row.upper_value for row in rows])
    bound = value - [row.upper_gap for row in rows]
    axes.fill_between(step, value, bound, color="#c3d0e8")
    axes.plot(step, value, color="black", lw=1.5, label="$f(x_k)$")
    axes.plot(step, bound, "--", color=BLUE, lw=1.5, label="proved: $f^*$ is not below this")
    axes.set(xlabel="step $k$", xscale="log", xlim=(2, step[-1]))
    axes.legend(frameon=False, fontsize=9.5, loc="lower right")
    axes.set_title("what is proved on the way, for the portfolio", fontsize=10.5)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Draw and save."""
    path, best = agm_bio()
    figure = Figure(figsize=(9.2, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    draw_plane(left, path, descent(), best)
    draw_proof(right, portfolio())
    figure.savefig(HERE / "ties.png", dpi=110)
    demo().plot().savefig(HERE / "demo.png", dpi=110)


if __name__ == "__main__":
    main()
