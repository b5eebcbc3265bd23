"""What the library is for, on one screen and in one picture: ``tiebreak demo``.

Fifty tumours are fitted as well as possible, which 495 columns allow in many ways; 260 others
choose among all best fits, and 259 that neither level has seen are the judges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiebreak.catalog.datasets import degree_two, load, unit_rows
from tiebreak.display.plotting import BAND, DARK, GREY, new_figure, saved
from tiebreak.driver.result import Result
from tiebreak.driver.solve import solve
from tiebreak.driver.trace import Row
from tiebreak.experiments.figures import style_of
from tiebreak.functions import LeastSquares
from tiebreak.problem import Problem
from tiebreak.sets import Ball

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAIN, CHOOSE, RADIUS = 50, 260, 10.0
DEMO_STEPS = 1000  # of each first-order method: a second or two
RANDOM_FITS = 1000  # best fits at random, to show where most of them lie
METHODS = ("agm-bio", "adaptive", "r-apm", "bi-sg")  # the paper's, its successor here, two rivals
PROOF = "adaptive"  # whose proved bounds are drawn

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Demo:
    """The demonstration, solved; printing it gives the screen.

    Attributes:
        problem: f over all minimisers of g.
        result: its exact answer.
        standard: what a standard least-squares solver returns, the shortest of all best fits.
        drawn: f at best fits drawn at random.
        wrong: how many of ``judges`` tumours are misclassified by ``standard`` and by the answer.
        runs: first-order methods on the same problem, by name.
    """

    problem: Problem
    result: Result
    standard: Numbers
    drawn: Numbers
    wrong: tuple[int, int]
    judges: int
    runs: dict[str, Result]

    @property
    def before(self) -> float:
        """f at what the standard solver returns."""
        return self.problem.upper.value(self.standard)

    def __str__(self) -> str:
        result, run = self.result, self.runs[PROOF]
        fits = (
            ("numpy.linalg.lstsq", self.problem.lower.value(self.standard), self.before),
            ("tiebreak", result.lower_value, result.upper_value),
        )
        return "\n".join(
            [
                f"Of all models that fit {TRAIN} tumours best, which is best for {CHOOSE} others?",
                "  data    breast cancer, bundled with scikit-learn: 569 tumours, 30 measurements",
                "          and all products of two of them, 495 columns",
                f"  lower   g, half the mean squared error on the first {TRAIN} tumours",
                f"  upper   f, the same on the next {CHOOSE}",
                f"  domain  the ball of radius {RADIUS:g}",
                "",
                str(result),
                "",
                f"{'':<22}{'g':>10}{'f':>10}   wrong, of the {self.judges} that no level saw",
                *(
                    f"  {name:<20}{g:>10.1e}{f:>10.4f}   {wrong}"
                    for (name, g, f), wrong in zip(fits, self.wrong, strict=True)
                ),
                f"No model of the ball that fits the {TRAIN} as well has f below "
                f"{_rounded_down(result.upper_optimum[0])}: proved.",
                "",
                f"By gradients alone, without a factorisation: {run.nit:,} steps of {PROOF} prove",
                f"f(x) - f* <= {run.upper_gap:.1e} and g(x) - g* <= {run.lower_gap:.1e}.",
            ]
        )

    def plot(self, path: str | Path | None = None) -> Any:
        """Left: f of all best fits; right: how first-order methods approach it, and the proof.

        Returns the matplotlib figure (needs the extra ``plot``); saved to ``path`` if given.
        """
        figure = new_figure(10.0, 4.6)
        parts = figure.subplot_mosaic([["ties", "upper"], ["ties", "lower"]], width_ratios=(1, 1.1))
        _draw_ties(parts["ties"], self)
        _draw_runs(parts["upper"], self)
        _draw_infeasibility(parts["lower"], self)
        parts["upper"].sharex(parts["lower"])
        parts["upper"].tick_params(labelbottom=False)
        for ax in parts.values():
            ax.spines[["top", "right"]].set_visible(False)
        return saved(figure, path)


def demo() -> Demo:
    """Solve the demonstration: the data in the order of their file, no seed to choose."""
    measured, benign = load("breast cancer")
    features, target = unit_rows(degree_two(measured)), 2.0 * benign - 1.0
    fitted, choosing, judging = np.split(np.arange(target.shape[0]), (TRAIN, TRAIN + CHOOSE))
    problem = Problem(
        lower=LeastSquares(features[fitted], target[fitted], mean=True),
        upper=LeastSquares(features[choosing], target[choosing], mean=True),
        domain=Ball(RADIUS),
    )
    result = solve(problem)
    standard = np.linalg.lstsq(features[fitted], target[fitted])[0]
    wrong = [
        int(np.count_nonzero(np.sign(features[judging] @ x) != target[judging]))
        for x in (standard, result.x)
    ]
    points = _best_fits(features[fitted], standard, np.random.default_rng(0))
    drawn = np.array([problem.upper.value(x) for x in points])
    runs = {name: solve(problem, name, rtol=1e-3, max_iter=DEMO_STEPS) for name in METHODS}
    return Demo(problem, result, standard, drawn, (wrong[0], wrong[1]), len(judging), runs)


def _best_fits(A: Numbers, shortest: Numbers, rng: np.random.Generator) -> Numbers:
    """Best fits drawn evenly from the ball: the shortest one plus a vector of A's null space."""
    free = np.linalg.svd(A)[2][A.shape[0] :]
    room = math.sqrt(max(RADIUS**2 - float(shortest @ shortest), 0.0))
    directions = rng.standard_normal((RANDOM_FITS, free.shape[0]))
    length = room * rng.random(RANDOM_FITS) ** (1.0 / free.shape[0])
    directions *= (length / np.linalg.norm(directions, axis=1))[:, None]
    return np.asarray(shortest + directions @ free)


# -- the picture ----------------------------------------------------------------------------------


def _draw_ties(ax: Axes, shown: Demo) -> None:
    """Where the best fits lie by f: most of them, the standard solver's, and the best one."""
    best, before, top = shown.result.upper_value, shown.before, 1.25
    left = max(0.0, 2.0 * best - before)
    heights, edges = np.histogram(shown.drawn, bins=24)
    ax.bar(edges[:-1], heights / heights.max(), np.diff(edges), align="edge", color=BAND)
    ax.fill_between([left, best], top, facecolor="0.97", edgecolor="0.8", hatch="///", linewidth=0)
    ax.plot([best, best], [0.0, top], color="black", linewidth=2.4)
    ax.plot([before, before], [0.0, top], color=DARK, linewidth=1.6, linestyle="--")
    arrow = {"arrowstyle": "-|>", "color": "black", "lw": 1.4}
    ax.annotate("", (best, 1.1), (before, 1.1), arrowprops=arrow)
    middle, drop = 0.5 * (best + before), 100.0 * (1.0 - best / before)
    ax.text(middle, 1.12, f"{drop:.0f} % less", ha="center", fontsize=11)
    ax.text(best, 1.28, f"tiebreak: {best:.3f}", ha="right", fontsize=11, fontweight="bold")
    ax.text(
        before, 1.28, f"least-squares solver: {before:.3f}", ha="center", fontsize=11, color=DARK
    )
    ax.text(
        0.5 * (left + best), 0.6, "proved:\nno best fit\nis in here", ha="center", va="center",
        fontsize=11, bbox={"facecolor": "white", "edgecolor": "none", "pad": 3},
    )  # fmt: skip
    ax.annotate(
        f"{len(shown.drawn):,} best fits\ndrawn at random", (float(edges[4]), 0.2), (middle, 0.45),
        ha="center", fontsize=10, color=DARK, arrowprops={"arrowstyle": "-", "color": DARK},
    )  # fmt: skip
    ax.set(xlim=(left, float(edges[-1])), ylim=(0.0, 1.4), yticks=[])
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel(f"$f$: error on {CHOOSE} other tumours", fontsize=11)
    ax.set_title(f"All of these fit {TRAIN} tumours equally well", fontsize=12)


def _draw_runs(ax: Axes, shown: Demo) -> None:
    """f(x_k) of the methods, and the proved bounds of one of them."""
    rows = _steps(shown.runs[PROOF])
    step = [row.iteration for row in rows]
    bound = np.maximum.accumulate([row.upper_value - row.upper_gap for row in rows])
    best = shown.result.upper_value
    ax.fill_between(step, bound, best, color=BAND, linewidth=0)
    ax.plot(step, bound, color=GREY, linewidth=1.0)
    ax.axhline(best, color="black", linewidth=1.0, linestyle=(0, (6, 3)))
    _draw_methods(ax, shown, lambda row: row.upper_value)
    ax.annotate(
        "exact\nanswer\n$f^*$", (1.015, best), xycoords=("axes fraction", "data"),
        va="center", fontsize=10,
    )  # fmt: skip
    ax.set(xscale="log", ylim=(0.0, 2.1 * best))
    ax.set_ylabel("$f(x_k)$", fontsize=11)
    ax.set_title("First-order methods on the way to it", fontsize=12)


def _draw_infeasibility(ax: Axes, shown: Demo) -> None:
    """g(x_k) - g*: how far from a best fit the methods are."""
    best = shown.result.lower_value
    _draw_methods(ax, shown, lambda row: row.lower_value - best)
    said = f"band above: from the bound\nproved by {PROOF} to $f^*$"
    ax.fill_between([], [], facecolor=BAND, edgecolor=GREY, label=said)
    ax.set(xscale="log", yscale="log", xlim=(2, DEMO_STEPS), xlabel="step $k$")
    ax.set_ylabel("$g(x_k) - g^*$", fontsize=11)
    ax.legend(frameon=False, fontsize=10, loc="lower left", handlelength=3.2)


def _draw_methods(ax: Axes, shown: Demo, value: Callable[[Row], float]) -> None:
    for name, run in shown.runs.items():
        rows, style = _steps(run), style_of(name)
        ax.plot(
            [row.iteration for row in rows], [value(row) for row in rows], label=name,
            color=style.color, linestyle=style.line, linewidth=style.width,
            marker=style.marker, markersize=5, markevery=0.16,
        )  # fmt: skip


def _steps(run: Result) -> Sequence[Row]:
    """Without the first two, which come from far away, and the last, the point returned."""
    return [row for row in run.trace[:-1] if row.iteration >= 2]


def _rounded_down(value: float) -> str:
    """Four digits that a bound from below keeps."""
    digits = 3 - math.floor(math.log10(value))
    return f"{math.floor(value * 10**digits) / 10**digits:.{digits}f}"
