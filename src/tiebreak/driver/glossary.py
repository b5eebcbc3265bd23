"""What every word of a report means: the end of ``help(tiebreak.solve)``, and docs/glossary.md.

`make docs` writes that page.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

GLOSSARY: dict[str, dict[str, str]] = {
    "Letters": {
        "f, g": "the upper and the lower objective; g comes first, f chooses among its minimisers.",
        "x, x0": "the answer, and the point where the run began (the origin if none was given).",
        "g*": "the least value of g on the domain.",
        "f*": "the least value of f among all minimisers of g.",
        "gap": "a proved upper bound on f(x) - f*, or on g(x) - g*. A negative gap of f proves "
        "that f(x) < f*: x is not quite a minimiser of g.",
        "ties": "the minimisers of g, the set that f chooses from.",
    },
    "The status": {
        "certified": "|f(x) - f*| and g(x) - g* are proved to be within the tolerance, at a point "
        "of the domain; with criterion='weak' f(x) - f* and g(x) - g*. Where radius= or "
        "error_bound= was given, the first line says that it is assumed.",
        "solved": "an answer was found, and not all of it is proved: the optimality conditions of "
        "both levels hold to rounding, or the stopping rule that the report names was met. The "
        "report says which half is proved, how wide the rest is, and what would close it.",
        "unbounded": "there is no minimiser: g falls without end along a direction of the domain, "
        "or f does among the minimisers of g. Separable labels are the usual case.",
        "infeasible": "no point meets the constraints; the message names rows that contradict each "
        "other.",
        "undetermined": "the method can vouch for no answer, and the message says why; as a rule "
        "the data allow two readings, a rank that rounding decides, and the "
        "answers differ; both are shown.",
        "max_iter, max_time, stopped": "a limit, or Ctrl-C, came before both levels were within "
        "the tolerance; x is the last point, or that of the least g seen where that is clearly "
        "better.",
        "failed": "no answer: a value was not finite, or a promise (convexity, a gradient, a "
        "constant) was seen to be false.",
    },
    "print(result)": {
        "upper": "f(x), what is proved of f(x) - f* or |f(x) - f*|, and the tolerance asked for.",
        "lower": "the same of g.",
        "ties": "the dimension of the set of minimisers of g, by the rank that was decided: 0 "
        "means that there was nothing to choose.",
        "note": "what is not proved, why, and the one argument that would close the gap; and what "
        "the proof assumes.",
    },
    "result.details()": {
        "optimum": "proved intervals that contain f* and g*.",
        "rests on": "why f* is not above the upper end of its interval: a minimiser of g that is "
        "proved to be near x.",
        "suboptimal": "how far g(x) is above g* at most, also as a share of the way from g(x0).",
        "secured": "how f(x) is known not to lie far below f*: by a proof of |f(x) - f*|; or by "
        "the guard, a test which makes |f(x) - f*| at most two tolerances where g grows "
        "quadratically, in no direction very slowly, and x is not close to f's own minimiser.",
        "non-zeros": "how many entries or groups of x are not small, where a penalty wants zeros.",
        "rank": "of the data below, with the singular values on both sides of the decision.",
        "backward": "backward error: x is the exact answer for data that differ from yours by so "
        "much, in units of the singular values.",
        "residual": "by how much the conditions of optimality are violated, relative.",
        "f by rank": "f* by both readings, where rounding decides the rank.",
        "left open": "f is the same for many minimisers of g, or for all: the one of least norm.",
        "one-sided": "why f* is not proved from above, where it is not.",
        "g bound, f bound": "of the method conic: the optimum, its error, and what the bound rests "
        "on (proved or estimated, see below).",
        "held": "of the method conic: how the minimisers of the level were kept for the next one.",
        "solver": "of the method conic: how the interior-point solver ended, level by level.",
        "bisection": "of the method bisec-bio: where its own tests have enclosed f*.",
        "method": "which method found x, and how its steps were chosen.",
        "message": "how the run ended in words, with what to do next.",
        "assumed": "what the proofs rely on and nobody has checked.",
    },
    "Levels, one row each": {
        "best value": "the least value of the level, all more important ones being kept: ± half "
        "the width of an interval that is proved to contain it; or, after about, the digits that "
        "an estimate leaves.",
        "at x": "the value of the level at the answer, by the objective's own value.",
        "given up (allowed)": "how far the value at x is above the best one, for the sake of the "
        "less important levels; in brackets the slack that you allowed.",
        "ties": "the dimension of what is left to choose from after this level.",
        "price": "how fast the next level's best value falls as this level's slack grows: a slope, "
        "so that one unit more of slack gains at most this.",
        "proved": "the interval is a theorem, rounding errors included.",
        "estimated": "a bound from duality that assumes something, which a line below names.",
        "held": "how a level's minimisers were kept: exactly, by its face or image, or by a cut at "
        "its best value + slack.",
        "image, face, cut": "the image of a loss of A x: the products A x, the same for all its "
        "minimisers; the face: those constraints that hold with equality at all minimisers of a "
        "linear level; a cut: the level's value is at most its best one + slack.",
        "proof": "in which sense the bounds hold, and why a level is estimated and not proved.",
        "sensitive": "a tiny slack changes the next level a lot: do not trust its digits.",
        "rest": "levels that were not reached.",
    },
}


def with_glossary(function: Callable[P, R]) -> Callable[P, R]:
    """The function, its help ending in the glossary."""
    # Under `python -OO` there is no docstring to lengthen.
    if function.__doc__ is not None:
        function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\n{plain()}"
    return function


def plain() -> str:
    """The glossary for a terminal."""
    lines = []
    for title, terms in GLOSSARY.items():
        lines += [f"{title}:"]
        for term, meaning in terms.items():
            lines += textwrap.wrap(
                f"{term}: {meaning}", 96, initial_indent="    ", subsequent_indent="        "
            )
        lines.append("")
    return "\n".join(lines)


def page() -> str:
    """The glossary as a page of the documentation."""
    lines = [
        "# Glossary: every word of a report",
        "",
        "`help(tb.solve)` ends with the same words. With examples:",
        "[reading a report](reading-a-report.md). What the proofs need: [statuses](statuses.md).",
    ]
    for title, terms in GLOSSARY.items():
        lines += ["", f"## {title}", "", "| word | meaning |", "|---|---|"]
        lines += [f"| {_escaped(term)} | {_escaped(text)} |" for term, text in terms.items()]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Bars end a cell, and stars slant a text."""
    return text.replace("|", "\\|").replace("*", "\\*")
