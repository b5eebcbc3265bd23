"""Draws the pictures of how-proofs-work.md: `python docs/proof_pictures.py`.

All that they show is computed by the library: the points at which it took gradients, the bounds
that it proved, the values on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from page_pictures import BLUE, GREY, blank, save
from sklearn.datasets import load_wine

import tiebreak as tb

RED, PALE = "#b3372f", "#c3d0e8"
LEFT, RIGHT, WISH = -2.0, 5.0, 3.4  # Z = [-2, 5]; f is least at WISH, outside the minimisers of g
FLAT = (1.5, 2.1)  # all minimisers of g
STEPS = 4


# -- in one variable ------------------------------------------------------------------------------


def valley(x: Any) -> Any:
    """g: flat between the two ends of FLAT."""
    outside = np.maximum(FLAT[0] - x, 0.0) + np.maximum(x - FLAT[1], 0.0)
    return 0.5 * outside**2


def valley_slope(x: Any) -> Any:
    """Its derivative."""
    return np.minimum(x - FLAT[0], 0.0) + np.maximum(x - FLAT[1], 0.0)


def wish(x: Any) -> Any:
    """f."""
    return 0.5 * (x - WISH) ** 2


def few_steps() -> tuple[Any, list[float], list[float]]:
    """A short run, and where it took gradients of f and of g."""
    of_f: list[float] = []
    of_g: list[float] = []

    def recorded(slope: Any, points: list[float]) -> Any:
        def gradient(x: Any) -> Any:
            points.append(float(x[0]))
            return slope(x)

        return gradient

    problem = tb.Problem(
        upper=tb.Smooth(lambda x: wish(x[0]), recorded(lambda x: x - WISH, of_f), lipschitz=1.0),
        lower=tb.Smooth(lambda x: valley(x[0]), recorded(valley_slope, of_g), lipschitz=3.0),
        domain=tb.Box([LEFT], [RIGHT]),
    )
    result = tb.solve(problem, "agm-bio", x0=np.array([-1.5]), max_iter=STEPS, rtol=0.0)
    return result, sorted(set(of_f)), sorted(set(of_g))


def sure_set(points: list[float], level: float) -> tuple[float, float]:
    """Where all tangents of g are at most ``level``: all minimisers lie there."""
    ends = [
        (y, valley_slope(y), y + (level - valley(y)) / s) for y in points if (s := valley_slope(y))
    ]
    left = max((end for _, slope, end in ends if slope < 0.0), default=LEFT)
    right = min((end for _, slope, end in ends if slope > 0.0), default=RIGHT)
    return max(left, LEFT), min(right, RIGHT)


def one_variable() -> None:
    """Tangents of g, the set that surely contains all minimisers, and f over it."""
    result, of_f, of_g = few_steps()
    (low, high), bound = result.lower_optimum, result.upper_optimum[0]
    left, right = sure_set(of_g, high)
    figure = blank(9.2, 6.0)
    above, below = figure.subplots(2, 1, sharex=True)
    x = np.linspace(LEFT, RIGHT, 400)
    for axes, h, slope, points in (
        (above, valley, valley_slope, of_g),
        (below, wish, lambda y: y - WISH, of_f),
    ):
        axes.axvspan(left, right, color=PALE, lw=0)
        for y in points:
            axes.plot(x, h(y) + slope(y) * (x - y), color=GREY, lw=0.8)
        axes.plot(x, h(x), color="black", lw=2.2)
        axes.plot(points, [h(y) for y in points], "o", color="black", ms=4)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=11)
    above.axhline(low, color=BLUE, ls="--", lw=1.6)
    above.axhline(high, color=BLUE, ls=":", lw=1.6)
    above.plot(FLAT, [0.0, 0.0], color=RED, lw=5, solid_capstyle="butt")
    below.axhline(bound, color=BLUE, ls="--", lw=1.6)
    between = np.linspace(*FLAT, 20)
    below.plot(between, wish(between), color=RED, lw=5, solid_capstyle="butt")
    below.plot(FLAT[1], wish(FLAT[1]), "*", color=RED, ms=15, mec="white")
    below.plot(float(result.x[0]), result.upper_value, "s", color="black", ms=8)
    notes = (
        (above, "$g$", (3.95, 1.2), "black"),
        (above, "all minimisers of $g$", (FLAT[0], 0.16), RED),
        (above, "least value of $g$ seen", (3.35, high - 0.28), BLUE),
        (above, "proved: $g^*$ is not below this", (2.9, low + 0.13), BLUE),
        (below, "$f$", (1.12, 2.75), "black"),
        (below, "$f^*$", (FLAT[1] + 0.02, wish(FLAT[1]) + 0.2), RED),
        (below, "proved: $f^*$ is not below this", (-0.4, bound + 0.13), BLUE),
        (below, "$f(x)$ after four steps", (2.58, result.upper_value + 0.28), "black"),
    )
    for axes, text, at, colour in notes:
        box = {"facecolor": "white", "alpha": 0.75, "lw": 0, "pad": 0}
        axes.text(*at, text, fontsize=13, color=colour, bbox=None if at[0] in FLAT else box)
    above.set(ylim=(-1.15, 1.9), xlim=(-0.5, 4.8), yticks=[0, 1])
    below.set(ylim=(-0.35, 3.4), yticks=[0, 1, 2, 3])
    above.set_title(
        "all minimisers of $g$ lie where no tangent exceeds a value of $g$", fontsize=13
    )
    below.set_title("over that set the tangents of $f$ give a bound on $f^*$", fontsize=13)
    save(figure, "proof-one-variable.png")


# -- on real data ---------------------------------------------------------------------------------


def wines() -> tb.Problem:
    """The shortest of all best fits: the problem of reading-a-report.md, in a ball."""
    X, grower = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    A = np.hstack([X[:, 1:], grower[:, None] == range(3), np.ones((178, 1))])
    return tb.Problem(
        lower=tb.LeastSquares(A, X[:, 0]), upper=tb.SquaredNorm(), domain=tb.Ball(10.0)
    )


def band() -> None:
    """The proved interval of f* after more and more steps."""
    problem = wines()
    free = tb.Problem(lower=problem.lower, upper=problem.upper)  # on R^n both ends are proved
    best = tb.solve(free).upper_value
    steps = np.unique(np.geomspace(4, 414, 36).astype(int))
    runs = [tb.solve(free, "adaptive", max_iter=int(k)) for k in steps]
    value = np.array([run.upper_value for run in runs])
    low, high = np.array([run.upper_optimum for run in runs]).T
    figure = blank(9.2, 3.9)
    left, right = figure.subplots(1, 2)
    left.fill_between(steps, low, np.minimum(high, 10.0), color=PALE, lw=0)
    left.plot(steps, high, "-.", color=BLUE, lw=1.4, label="proved: $f^*$ is not above this")
    left.plot(steps, value, ".-", color="black", lw=1.2, ms=5, label="$f(x_k)$")
    left.plot(steps, low, "--", color=BLUE, lw=1.4, label="proved: $f^*$ is not below this")
    left.axhline(best, color=RED, lw=1.0)
    left.text(4.2, best + 0.02, "$f^*$", color=RED, fontsize=12)
    left.set(xscale="log", ylim=(-0.55, 1.3), yticks=[0, 0.5, 1], xlabel="step $k$")
    left.legend(frameon=False, fontsize=11, loc="lower right")
    right.plot(steps, np.abs(value - best), ".-", color="black", lw=1.2, ms=5)
    right.plot(steps, [run.upper_error for run in runs], "--", color=BLUE, lw=1.4)
    right.axhline(runs[-1].tolerance[0], color=GREY, lw=1.0)
    right.text(4.2, 1.25 * runs[-1].tolerance[0], "asked", color="0.35", fontsize=12)
    right.set(xscale="log", yscale="log", xlabel="step $k$")
    right.text(0.56, 0.80, "proved", color=BLUE, fontsize=12, transform=right.transAxes)
    right.text(0.18, 0.42, "true", color="black", fontsize=12, transform=right.transAxes)
    left.set_title("the interval of $f^*$ closes", fontsize=13)
    right.set_title("$|f(x_k) - f^*|$, proved and true", fontsize=13)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.label.set_size(12)
        axes.tick_params(labelsize=11)
    save(figure, "proof-band.png")


def below_the_optimum() -> None:
    """The least f for each excess of g, the points of a run, and the line that was proved."""
    problem = wines()
    least = tb.solve(problem).lower_value
    slacks = np.linspace(0.0, 0.055, 14) ** 2
    curve = tb.tradeoff(problem, list(slacks))
    path: list[tuple[float, float]] = []
    run = tb.solve(
        problem,
        "adaptive",
        criterion="weak",
        callback=lambda now: path.append((now.lower_value - least, now.upper_value)),
    )
    figure = blank(9.2, 4.4)
    axes = figure.subplots()
    c = np.array([point.slack for point in curve.points])
    v = np.array([point.value for point in curve.points])
    axes.fill_between(c, v, 0.5, color="0.92", lw=0)
    axes.plot(c, v, color="black", lw=2.0)
    axes.plot(*np.array(path).T, ".", color=BLUE, ms=6)
    x = run.lower_value - least
    axes.plot(x, run.upper_value, "s", color=BLUE, ms=9)
    assert run.known is not None
    line = [run.known.guard.at(least + each) for each in c]
    axes.plot(c, line, "--", color=BLUE, lw=1.5)
    axes.axhline(v[0], color=RED, lw=1.0, ls=":")
    axes.plot(0.0, v[0], "*", color=RED, ms=16, mec="white", clip_on=False, zorder=5)
    notes = (
        ("$f^*$", (7e-5, v[0] + 0.0009), RED),
        ("an answer by the weak criterion", (x + 6e-5, run.upper_value + 0.001), BLUE),
        ("the least $f$ where $g$ exceeds $g^*$ by so much", (1.52e-3, 0.5625), "black"),
        ("proved: the curve is\nnot below this line", (8e-4, 0.5515), BLUE),
    )
    for text, at, colour in notes:
        axes.text(*at, text, fontsize=12.5, color=colour)
    axes.set(xlim=(-2e-5, 3e-3), ylim=(0.548, 0.583))
    axes.ticklabel_format(axis="x", style="plain")
    axes.tick_params(labelsize=11)
    axes.set_xlabel("$g - g^*$", fontsize=12.5)
    axes.set_ylabel("$f$", fontsize=12.5)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, "proof-below.png")


if __name__ == "__main__":
    one_variable()
    band()
    below_the_optimum()
