"""The methods that ``solve`` knows by name."""

from __future__ import annotations

from dataclasses import dataclass

from tiebreak.algorithms import (
    AIRG,
    PBAPG,
    RAPM,
    SEA,
    AdaptiveAGMBiO,
    AGMBiO,
    BisecBiO,
    BiSG,
    BregmanSVRG,
    CGBiO,
    Method,
    PAGMBiO,
    PrimalDual,
)
from tiebreak.auto.selection import choose
from tiebreak.conic.method import Conic
from tiebreak.exact.method import Exact
from tiebreak.linalg import checks
from tiebreak.problem import Problem

METHODS = {
    method.name: method
    for method in (
        *(AGMBiO, PAGMBiO, AdaptiveAGMBiO, PrimalDual, BregmanSVRG, Exact, Conic),
        *(AIRG, BiSG, SEA, CGBiO, RAPM, PBAPG, BisecBiO),
    )
}


@dataclass(frozen=True)
class MethodInfo:
    """A line of ``tb.methods()``."""

    name: str
    paper: str
    assumptions: str
    guarantee: str


def methods() -> list[MethodInfo]:
    """The methods that ``solve`` knows by name, with paper, assumptions and guarantee.

    Examples:
        >>> for method in tb.methods()[:1]:
        ...     print(method.name, "|", method.assumptions)
        agm-bio | f, g convex and smooth; Z closed, with an easy projection
    """
    return [MethodInfo(m.name, m.paper, m.assumptions, m.guarantee) for m in METHODS.values()]


def find_method(method: str | Method, problem: Problem, owner: str = "solve") -> Method:
    """A method by its name, or the one given; one clear sentence for anything else."""
    if isinstance(method, str):
        if method == "auto":
            return choose(problem)
        if method in METHODS:
            return METHODS[method]()
        known = ["auto", *METHODS]
        meant = checks.did_you_mean(method, known) or f", known are {', '.join(known)}"
        raise ValueError(f"{owner}: unknown method {method!r}{meant}")
    if not isinstance(method, Method):
        raise TypeError(
            f"{owner}: method must be a name or an object such as AGMBiO(), "
            f"got {checks.what_it_is(method)}"
        )
    return method
