"""Draws pictures of which-criterion, what-auto-does and estimators, from what these pages compute.

`python docs/page_pictures.py`.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, ClassVar

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

import tiebreak as tb
from tiebreak.auto.candidates import PROVING
from tiebreak.auto.portfolio import Portfolio
from tiebreak.auto.selection import choose

HERE = Path(__file__).parent
BLUE, GREY = "#1f3b6f", "0.6"


def names_of(page: str) -> dict[str, Any]:
    """What the first Python block of a page defines: a picture is of what the page computes."""
    found = re.search(
        r"^```python\n(.*?)^```$", (HERE / page).read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    names: dict[str, Any] = {}
    exec(compile(found[1], page, "exec", dont_inherit=True), names)
    return names


def blank(width: float, height: float) -> Figure:
    """A figure in inches that needs no display."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, name: str, dpi: int = 100) -> None:
    """With a palette of 64 colours: a third of the bytes, and nobody sees it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dpi)
    Image.open(buffer).convert("RGB").quantize(64).save(HERE / name, optimize=True)


def criteria() -> None:
    """The coefficients of the six answers, and the truth."""
    names = names_of("which-criterion.md")
    figure = blank(9.2, 4.6)
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for axes, (name, answer) in zip(panels.flat, names["answers"].items(), strict=True):
        axes.fill_between(names["lag"], names["truth"], color=GREY, alpha=0.5, lw=0)
        axes.plot(names["lag"], answer.x, ".-", color=BLUE, lw=0.9, ms=5)
        axes.set_title(name, fontsize=14)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=11.5)
    for axes in panels[1]:
        axes.set_xlabel("lag", fontsize=12.5)
    save(figure, "which-criterion.png")


class Recorded(Portfolio):
    """The portfolio of "auto" that writes down who works when."""

    turns: ClassVar[list[tuple[int, float, float, bool]]] = []

    def step(self, problem: Any, state: Any) -> Any:
        """A step of it: who was at work, from where to where, and whether an answer was there."""
        after = super().step(problem, state)
        self.turns.append((state.at, state.work, after.work, state.phase == PROVING))
        return after


def timeline() -> None:
    """Who worked when, and what for."""
    problem = names_of("what-auto-does.md")["problem"]
    chosen = choose(problem)
    tb.solve(problem, Recorded(chosen.candidates, chosen.why))
    names = {
        "BregmanIteration": "Bregman iteration",
        "PrimalDual": "primal-dual",
        "AdaptiveAGMBiO": "adaptive AGM-BiO",
    }
    labels = [names[type(candidate.method).__name__] for candidate in chosen.candidates]
    figure = blank(9.2, 2.9)
    axes = figure.subplots()
    answer = min(begin for _, begin, _, proves in Recorded.turns if proves) / 1e6
    for at, begin, end, _ in Recorded.turns:
        colour = BLUE if begin / 1e6 < answer else "0.7"
        axes.barh(at, (end - begin) / 1e6, left=begin / 1e6, height=0.6, color=colour)
    axes.axvline(answer, color="black", lw=1.4, ls="--")
    axes.text(answer + 5, -0.62, "answer: from here on for the proof", fontsize=12, va="bottom")
    axes.set_yticks(range(len(labels)), labels, fontsize=12.5)
    axes.set(ylim=(len(labels) - 0.5, -0.95), xlim=(0, Recorded.turns[-1][2] / 1e6))
    axes.set_xlabel(
        "work: entries of data read, and what a step costs besides, in millions", fontsize=12
    )
    axes.tick_params(axis="x", labelsize=11)
    axes.spines[["top", "right", "left"]].set_visible(False)
    save(figure, "what-auto-does.png")


def choice() -> None:
    """What the choice of the first example of estimators.md gains along the ties."""
    figure = blank(7.2, 4.2)
    names_of("estimators.md")["model"].plot_choice(figure.subplots())
    save(figure, "plot-choice.png")


if __name__ == "__main__":
    choice()
    criteria()
    timeline()
