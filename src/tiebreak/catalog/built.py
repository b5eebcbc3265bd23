"""A built-in problem, with its starting point and all known facts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiebreak.linalg import Array
from tiebreak.problem import Problem, solution_dimension

Vector = np.ndarray[Any, Any]
Matrix = np.ndarray[Any, Any]


class Answer(NamedTuple):
    """The reference answer for measuring errors; nan and None stand for unknown parts.

    Examples:
        >>> race = tb.compare(tb.instance("toy").problem, ["agm-bio"], max_iter=20)
        >>> round(race.answer.upper, 3)  # f*
        0.196
    """

    upper: float  # f*
    lower: float  # g*
    solution: Array | None = None  # x*, if unique


@dataclass(frozen=True, kw_only=True, eq=False)
class Built:
    """A problem with its starting point and known facts; unknown facts are None.

    Args:
        label: what the data are, for plots and reports ("synthetic twin of ...").
        problem: the Problem.
        x0: where every method starts.
        upper_optimum, lower_optimum: f* and g*, if there is a closed form.
        solution: x*, if it is unique and has a closed form.
        truth: the point from which the data were generated, if any. Because of noise and ties, this
            point is not the solution.
        ties: the dimension of the set of lower minimisers, if theory determines it.
        order: the order r of the lower level's error bound on the domain, if one is known to hold.
    """

    label: str
    problem: Problem
    x0: Vector
    upper_optimum: float | None = None
    lower_optimum: float | None = None
    solution: Vector | None = None
    truth: Vector | None = None
    ties: int | None = None
    order: float | None = None

    @property
    def variables(self) -> int:
        """n."""
        return int(self.x0.shape[0])

    @property
    def answer(self) -> Answer | None:
        """The answer (f*, g* and x*), if both optima are known."""
        if self.upper_optimum is None or self.lower_optimum is None:
            return None
        return Answer(self.upper_optimum, self.lower_optimum, self.solution)

    @property
    def upper_lipschitz(self) -> float:
        """L_f."""
        return self.problem.upper.lipschitz

    @property
    def lower_lipschitz(self) -> float:
        """L_g."""
        return self.problem.lower.lipschitz

    @property
    def diameter(self) -> float:
        """The diameter D of the domain."""
        return self.problem.domain.diameter_in(self.variables)

    @cached_property
    def dimension(self) -> int | None:
        """The dimension of the set of lower minimisers, either known or computed with certainty."""
        return self.ties if self.ties is not None else solution_dimension(self.problem)

    def __str__(self) -> str:
        domain = type(self.problem.domain).__name__
        f2, g2 = self.problem.penalties
        rows = {
            "variables": f"{self.variables}",
            "penalties": f"upper {f2}, lower {g2}",
            "domain": f"{domain}, diameter {self.diameter:g}",
            "smoothness": f"L_f = {self.upper_lipschitz:.6g}, L_g = {self.lower_lipschitz:.6g}",
            "error bound": "none known" if self.order is None else f"order {self.order:g}",
            "ties": in_words(self.dimension),
            "optimum": f"f* = {_known(self.upper_optimum)}, g* = {_known(self.lower_optimum)}",
        }
        if self.problem.is_smooth:
            del rows["penalties"]
        return "\n".join([self.label, *(f"  {what:<13}{text}" for what, text in rows.items())])


def in_words(dimension: int | None) -> str:
    """Say what the dimension of the set of lower minimisers means for the upper level."""
    if dimension is None:
        return "not known"
    if dimension == 0:
        return "none: the lower level has a single minimiser, so the upper level has no choice"
    return f"the solution set has dimension {dimension}"


def _known(value: float | None) -> str:
    return "not known" if value is None else f"{value:.10g}"
