"""``tiebreak demo`` shows the purpose of the library on one screen and in one plot.

With 495 columns, many models fit 50 tumours perfectly. The next 260 tumours decide which of these
models is chosen, and the 259 tumours that neither level has seen show whether the choice was good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiebreak.catalog.datasets import degree_two, load, unit_rows
from tiebreak.display.plotting import BAND, DARK, new_figure, saved
from tiebreak.driver.result import Result
from tiebreak.driver.solve import solve
from tiebreak.functions import LeastSquares
from tiebreak.problem import Problem
from tiebreak.sets import Ball

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAIN, CHOOSE, RADIUS = 50, 260, 10.0
RANDOM_FITS = 1000  # number of random best fits, to show where most of them lie

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Demo:
    """The solved demonstration, which can be printed.

    Attributes:
        problem: f over all minimisers of g.
        result: the exact answer of the problem.
        standard: the best fit of smallest norm, which a standard least-squares solver returns.
        drawn: the values of f at randomly drawn best fits.
        wrong: how many of the ``judges`` unseen tumours ``standard`` misclassifies, and how many
            the answer does.
    """

    problem: Problem
    result: Result
    standard: Numbers
    drawn: Numbers
    wrong: tuple[int, int]
    judges: int

    @property
    def before(self) -> float:
        """The value of f at the standard solver's answer."""
        return self.problem.upper.value(self.standard)

    def __str__(self) -> str:
        result = self.result
        down = Context(prec=4, rounding=ROUND_FLOOR)  # rounding down keeps a lower bound valid
        fits = (
            ("numpy.linalg.lstsq", self.problem.lower.value(self.standard), self.before),
            ("tiebreak", result.lower_value, result.upper_value),
        )
        return "\n".join(
            [
                f"Many models fit {TRAIN} tumours perfectly. Which does best on {CHOOSE} others?",
                "  data    breast cancer, bundled with scikit-learn: 569 tumours, 30 measurements",
                "          and their pairwise products, 495 columns",
                f"  lower   g, half the mean squared error on the first {TRAIN} tumours",
                f"  upper   f, half the mean squared error on the next {CHOOSE}",
                f"  domain  the ball of radius {RADIUS:g}",
                "",
                str(result),
                "",
                f"{'':<22}{'g':>10}{'f':>10}   errors on {self.judges} unseen tumours",
                *(
                    f"  {name:<20}{g:>10.1e}{f:>10.4f}   {wrong}"
                    for (name, g, f), wrong in zip(fits, self.wrong, strict=True)
                ),
                f"Proved: f is at least {down.create_decimal_from_float(result.upper_optimum[0])} "
                f"for every model in the ball that fits these {TRAIN} equally well.",
            ]
        )

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw f at many best fits, at the fit of a standard solver and at the answer.

        Returns the matplotlib figure (needs the ``plot`` extra), saved to ``path`` if given.
        """
        figure = new_figure(9.0, 3.4)
        ax = figure.subplots()
        _draw_ties(ax, self)
        ax.spines[["top", "right"]].set_visible(False)
        return saved(figure, path)


def demo() -> Demo:
    """Solve the demonstration; the data are used in file order, so there is no seed to tune."""
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
    return Demo(problem, result, standard, drawn, (wrong[0], wrong[1]), len(judging))


def _best_fits(A: Numbers, shortest: Numbers, rng: np.random.Generator) -> Numbers:
    """Draw random best fits in the ball: the minimum-norm fit plus a vector in A's null space."""
    free = np.linalg.svd(A)[2][A.shape[0] :]
    room = math.sqrt(max(RADIUS**2 - float(shortest @ shortest), 0.0))
    directions = rng.standard_normal((RANDOM_FITS, free.shape[0]))
    length = room * rng.random(RANDOM_FITS) ** (1.0 / free.shape[0])
    directions *= (length / np.linalg.norm(directions, axis=1))[:, None]
    return np.asarray(shortest + directions @ free)


# -- the plot -------------------------------------------------------------------------------------


def _draw_ties(ax: Axes, shown: Demo) -> None:
    """Draw f at random best fits, at the standard solver's fit and at the answer."""
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
        0.5 * (left + best), 0.6, "proved:\nno best fit\nlies here", ha="center", va="center",
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
