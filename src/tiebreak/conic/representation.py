"""Functions, penalties and sets of tiebreak as pieces of a conic program.

Squares stay squares; everything else that is not linear gets auxiliary variables, whose least cost
for a given x is the function's value at x.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tiebreak.conic import domains
from tiebreak.conic.builder import Builder
from tiebreak.conic.program import ConicProgram
from tiebreak.functions.base import Function
from tiebreak.functions.penalties.composite import split
from tiebreak.functions.penalties.operator_terms import OperatorTerms
from tiebreak.functions.penalties.penalties import (
    L1,
    L2,
    ElasticNet,
    GroupL2,
    Indicator,
    Penalty,
    PenaltySum,
    TotalVariation,
    Zero,
)
from tiebreak.functions.penalties.terms import Terms
from tiebreak.functions.sums import summands
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.conic_form import Cost
from tiebreak.linalg.refusals import Refusal
from tiebreak.sets.domains import Domain

PENALTIES = (Zero, L1, TotalVariation, L2, ElasticNet, GroupL2, Indicator)


def compile_levels(
    objectives: Sequence[Function | Penalty],
    domain: Domain,
    n: int,
    radius: float | None = None,
    owner: str = "Levels",
) -> ConicProgram:
    """Objectives in the order of their priority on a set in R^n, as a conic program.

    Args:
        radius: |x| <= radius for some solution, if that is known; it bounds ``reach`` and is no
            constraint.
        owner: who refuses, in one sentence (a `Refusal`), what cones cannot represent.
    """
    sets = [*domains.parts_of(domain)]
    for i, h in enumerate(objectives):
        for restriction in _restrictions(h):
            if i > 0:  # there it would restrict the levels before it too
                got = f"the indicator of {type(restriction).__name__}"
                raise Refusal(owner, f"level {i + 1}", "must have no set of its own", got)
            sets += domains.parts_of(restriction)
    for part in sets:
        if not domains.can_represent(part):
            needed = "must be a set that cones can represent, such as Ball, Box or Polyhedron"
            raise Refusal(owner, "domain", needed, f"{type(part).__name__}")
        part.check(n)
    known = domains.bounds_on(sets, n)
    within = min(known.radius, math.inf if radius is None else float(radius))
    builder = Builder(known.lower, known.upper, within)
    for part in sets:
        domains.constrain(builder, part)
    levels = [_Level(builder, owner, f"level {i + 1}") for i in range(len(objectives))]
    for level, h in zip(levels, objectives, strict=True):
        level.add(h)

    def evaluate(number: int, z: Host) -> float:
        h = objectives[number]
        prototype = h.prototype if isinstance(h, Function) else None
        return float(h.value(z[:n] if prototype is None else arrays.like(z[:n], prototype)))

    program = builder.program(level.cost for level in levels)
    return replace(program, evaluate=evaluate, owners=builder.owners)


def _restrictions(h: Function | Penalty) -> Iterator[Domain]:
    """The sets whose indicators are part of a function."""
    penalty = split(h)[1]
    if isinstance(penalty, PenaltySum):
        yield from _restrictions(penalty.first)
        yield from _restrictions(penalty.second)
    elif isinstance(penalty, Indicator):
        yield penalty.domain


class _Level:
    """One objective: its cost, and constraints on the auxiliary variables that it needs."""

    def __init__(self, builder: Builder, owner: str, name: str) -> None:
        self.builder, self.cost = builder, Cost()
        self._owner, self._name = owner, name

    def _refusal(self, got: str) -> Refusal:
        needed = "must be made of functions that cones can represent"
        return Refusal(self._owner, self._name, needed, got)

    def add(self, h: Function | Penalty) -> None:
        """A function of x."""
        smooth, penalty = split(h if isinstance(h, Penalty) else h.bare)
        if smooth.dimension not in (None, self.builder.n):
            needed = f"must have one variable for each of the {self.builder.n}"
            raise Refusal(self._owner, self._name, needed, f"{smooth.dimension}")
        for weight, part in summands(smooth):
            self._smooth(part.bare, weight)
        self._penalty(penalty)

    def _smooth(self, h: Function, weight: float) -> None:
        if h.add_to_conic(self.builder, self.cost, weight):
            return
        name, matrix = type(h).__name__, h.matrix
        if matrix is not None and not matrix.is_at_hand:
            raise self._refusal(f"{name} of {matrix.known_by}, whose entries are not known")
        raise self._refusal(f"{name}, known by {h.known_by}" if h.known_by else name)

    # --- penalties --------------------------------------------------------------------------------

    def _penalty(self, penalty: Penalty) -> None:
        if isinstance(penalty, PenaltySum):
            self._penalty(penalty.first)
            self._penalty(penalty.second)
            return
        if not isinstance(penalty, PENALTIES):
            raise self._refusal(f"the penalty {type(penalty).__name__}")
        penalty.check(self.builder.n)
        self._terms(penalty.terms)

    def _terms(self, terms: Terms) -> None:
        builder, x = self.builder, self.builder.x
        inner = builder.of_x(terms.matrix(builder.n)) if isinstance(terms, OperatorTerms) else x
        weights = np.broadcast_to(np.asarray(terms.l1, dtype=np.float64), len(inner))
        counts = weights > 0.0
        off = inner if terms.center is None else inner - terms.center
        if counts.any():
            self.cost.add(weights[counts], builder.absolute(off.some(counts)))
        if terms.square > 0.0:
            self.cost.add_squares(terms.square, x)
        if terms.l2 > 0.0:
            self.cost.add(terms.l2, builder.length(off))
        if terms.group > 0.0 and terms.groups is not None:
            layout = terms.groups.layout(builder.n)
            for group in np.flatnonzero(layout.penalised):
                members = np.flatnonzero(layout.labels == group)
                self.cost.add(terms.group, builder.length(off.some(members)))
