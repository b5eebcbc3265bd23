"""Functions, penalties and sets as pieces of a conic program.

Squares stay squares; everything else nonlinear gets auxiliary variables, whose least cost for a
given x is the function's value at x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tiebreak.conic.builder import Builder
from tiebreak.conic.program import ConicProgram
from tiebreak.functions.base import Function
from tiebreak.functions.penalties.composite import split
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.functions.sums import summands
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.conic_form import Cost
from tiebreak.linalg.refusals import Refusal
from tiebreak.sets import Domain, Set, described
from tiebreak.sets.descriptions import bounds_on


def compile_levels(
    objectives: Sequence[Function | Penalty],
    domain: Domain,
    n: int,
    radius: float | None = None,
    owner: str = "Levels",
) -> ConicProgram:
    """Compile objectives in order of priority on a set in R^n into a conic program.

    Args:
        radius: |x| <= radius for some solution, if known; it bounds ``reach`` and is not a
            constraint.
        owner: named in the `Refusal` of what cones cannot represent.
    """
    sets = [*described(domain).parts]
    for i, h in enumerate(objectives):
        restriction = split(h)[1].terms.domain
        if described(restriction).is_space:
            continue
        if i > 0:  # a set in a later level would restrict the earlier ones too
            got = f"the indicator of {type(restriction).__name__}"
            raise Refusal(owner, f"level {i + 1}", "must not contain a set", got)
        sets += described(restriction).parts
    for part in sets:
        if not part.is_conic:
            needed = "must be a set that cones can represent, such as Ball, Box or Polyhedron"
            nameless = type(part) is Set  # a set without a description
            raise Refusal(owner, "domain", needed, type(domain if nameless else part).__name__)
        part.check(n)
    lower, upper, reach = bounds_on(sets, n)
    builder = Builder(lower, upper, min(reach, math.inf if radius is None else float(radius)))
    for part in sets:
        builder.owner = type(part).__name__
        part.conic_form(builder)
    levels = [_Level(builder, owner, f"level {i + 1}") for i in range(len(objectives))]
    for level, h in zip(levels, objectives, strict=True):
        level.add(h)

    def evaluate(number: int, z: Host) -> float:
        h = objectives[number]
        prototype = h.prototype if isinstance(h, Function) else None
        return float(h.value(z[:n] if prototype is None else arrays.like(z[:n], prototype)))

    program = builder.program(level.cost for level in levels)
    return replace(program, evaluate=evaluate, owners=builder.owners)


class _Level:
    """One objective: its cost, and the constraints on its auxiliary variables."""

    def __init__(self, builder: Builder, owner: str, name: str) -> None:
        self.builder, self.cost = builder, Cost()
        self._owner, self._name = owner, name

    def _refusal(self, got: str) -> Refusal:
        needed = "must consist of functions that cones can represent"
        return Refusal(self._owner, self._name, needed, got)

    def add(self, h: Function | Penalty) -> None:
        """Add a function of x."""
        smooth, penalty = split(h if isinstance(h, Penalty) else h.bare)
        if smooth.dimension not in (None, self.builder.n):
            needed = f"must have one variable for each of the {self.builder.n}"
            raise Refusal(self._owner, self._name, needed, f"{smooth.dimension}")
        for weight, part in summands(smooth):
            self._smooth(part.bare, weight)
        penalty.check(self.builder.n)
        if not penalty.add_to_conic(self.builder, self.cost):
            raise self._refusal(f"the penalty {penalty.label}")

    def _smooth(self, h: Function, weight: float) -> None:
        if h.add_to_conic(self.builder, self.cost, weight):
            return
        name, matrix = type(h).__name__, h.matrix
        if matrix is not None and not matrix.is_at_hand:
            raise self._refusal(f"{name} of {matrix.known_by}, whose entries are not known")
        raise self._refusal(f"{name}, known by {h.known_by}" if h.known_by else name)
