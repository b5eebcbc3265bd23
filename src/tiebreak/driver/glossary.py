"""The meaning of every word in a report, for ``help(tiebreak.solve)`` and docs/statuses.md.

`make docs` writes the tables of docs/statuses.md.
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
        "f, g": "the upper and the lower objective; g comes first, and f chooses among its "
        "minimisers.",
        "x, x0": "the answer, and the point where the run began (the origin if none was given).",
        "g*": "the least value of g on the domain.",
        "f*": "the least value of f among all minimisers of g.",
        "gap": "a proved upper bound on f(x) - f*, or on g(x) - g*. A negative gap of f proves "
        "that f(x) < f*: x is not exactly a minimiser of g.",
        "ties": "the minimisers of g, the set that f chooses from.",
    },
    "The status": {
        "certified": "x is in the domain, and |f(x) - f*| and g(x) - g* are proved to be within "
        "the tolerance; with criterion='weak', the proof is about f(x) - f* without the absolute "
        "value. If you gave radius= or error_bound=, the first line says that the proof assumes "
        "it.",
        "solved": "an answer was found, but not all of it is proved: the optimality conditions of "
        "both levels hold up to rounding, or the stopping rule named in the report was met. The "
        "report says which half is proved, how wide the other gap is, and what would close it.",
        "unbounded": "there is no minimiser: g decreases forever along a direction of the domain, "
        "or f does so among the minimisers of g. The usual cause is separable classes.",
        "infeasible": "no point meets the constraints; the message names rows that contradict each "
        "other. x and its values are nan.",
        "undetermined": "the method cannot vouch for an answer, and the message says why. Usually "
        "rounding decides the rank of the data, so two readings are possible and their answers "
        "differ; both are shown.",
        "max_iter, max_time, stopped": "a limit or Ctrl-C ended the run before both levels were "
        "within the tolerance; x is the last point, or the point with the least g seen if that is "
        "clearly better.",
        "failed": "no answer: a value was not finite; a promise (convexity, a gradient, a "
        "constant) turned out to be false; or one of several levels seems to have no minimiser, "
        "because its answer keeps growing as the tolerance is tightened (min x on {xy >= 1}).",
    },
    "print(result)": {
        "upper": "f(x), what is proved about f(x) - f* or |f(x) - f*|, and the tolerance.",
        "lower": "g(x), what is proved about g(x) - g*, and the tolerance.",
        "ties": "the dimension of the set of minimisers of g, given the rank that was chosen; if "
        "it is 0, the upper level has no choice.",
        "note": "what is not proved, why, and the one argument that would close the gap; and what "
        "the proof assumes.",
    },
    "result.details()": {
        "optimum": "proved intervals that contain f* and g*.",
        "rests on": "why f* is not above the upper end of its interval: a minimiser of g that is "
        "proved to be near x.",
        "suboptimal": "an upper bound on g(x) - g*, also as a share of g(x0) - g*.",
        "secured": "why f(x) cannot lie far below f*: a bound on |f(x) - f*| is proved, or the "
        "guard, a stopping test, is met. The guard keeps |f(x) - f*| within two tolerances if g "
        "grows quadratically, not too slowly in any direction, and x is not close to f's own "
        "minimiser.",
        "x is": "which of the method's points was returned.",
        "non-zeros": "how many entries or groups of x are not small, if a penalty favours zeros.",
        "rank": "the rank of the lower level's data, with the singular values on both sides of the "
        "decision.",
        "backward": "backward error: x is the exact answer for data that differ from yours by this "
        "much, in units of the singular values.",
        "residual": "the relative violation of the optimality conditions.",
        "f by rank": "f* for both readings, if rounding decides the rank.",
        "left open": "f takes its least value at many minimisers of g; x is the one of least norm.",
        "one-sided": "why there is no proved upper bound on f*.",
        "g bound, f bound": "`conic` method: the optimum, its error, and what the bound rests on "
        "(proved or estimated, see below).",
        "held": "`conic` method: how the upper level was restricted to the minimisers of the lower "
        "level.",
        "solver": "`conic` method: how the interior-point solver ended, level by level.",
        "bisection": "`bisec-bio` method: the interval in which its own tests locate f*.",
        "own bound": "`mng` method: a lower bound on f* from its own theorem, not rechecked.",
        "method": "which method found x, and how its steps were chosen.",
        "message": "a text that says how the run ended and what to do next.",
        "assumed": "what the proofs assume without checking it.",
    },
    "Levels, one row each": {
        "best value": "the least value of the level while more important ones keep theirs, ± half "
        "the width of an interval proved to contain it; or, after 'about', the digits that an "
        "estimate supports.",
        "at x": "the value of the level's objective at the answer.",
        "given up (allowed)": "how far the value at x is above the best one, for the sake of the "
        "less important levels; in brackets, the slack that you allowed.",
        "ties": "the dimension of the set that this level leaves to the next one.",
        "price": "how fast the next level's best value falls as this level's slack grows: a slope, "
        "so one more unit of slack gains at most this much.",
        "proved": "the interval is proved, and accounts for rounding errors.",
        "estimated": "a bound from duality that rests on an assumption, named in a line below.",
        "held": "how later levels were restricted: exactly to this level's minimisers, using its "
        "face or image, or by a cut at its best value + slack.",
        "image, face, cut": "the image of a loss of A x is the vector A x, which is the same for "
        "all its minimisers; the face of a linear level is the set of constraints that hold with "
        "equality at all its minimisers; a cut keeps the level's value at or below its best value "
        "+ slack.",
        "proof": "the sense in which the bounds hold, and why a level is estimated, not proved.",
        "sensitive": "a tiny slack changes the next level a lot; do not trust that level's digits.",
        "rest": "the levels that were not reached.",
    },
}


def with_glossary(function: Callable[P, R]) -> Callable[P, R]:
    """Append the glossary to the docstring of a function."""
    # Under `python -OO` there is no docstring to extend.
    if function.__doc__ is not None:
        function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\n{plain()}"
    return function


def plain() -> str:
    """Return the glossary for a terminal."""
    lines = []
    for title, terms in GLOSSARY.items():
        lines += [f"{title}:"]
        for term, meaning in terms.items():
            lines += textwrap.wrap(
                f"{term}: {meaning}", 96, initial_indent="    ", subsequent_indent="        "
            )
        lines.append("")
    return "\n".join(lines)


def tables() -> str:
    """Return the glossary as tables for the documentation."""
    lines: list[str] = []
    for title, terms in GLOSSARY.items():
        lines += [f"## {title}", "", "| word | meaning |", "|---|---|"]
        lines += [f"| {_escaped(term)} | {_escaped(text)} |" for term, text in terms.items()]
        lines.append("")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Escape bars, which end a cell, and stars, which start italics."""
    return text.replace("|", "\\|").replace("*", "\\*")
