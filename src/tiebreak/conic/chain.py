"""Levels in order: each over the minimisers of all before it, images and exposed faces held."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.bounds import (
    HeldLevel,
    assumed_reach,
    lower_bound,
    value_error,
    value_inside,
)
from tiebreak.conic.cones import NONE, Active, outside
from tiebreak.conic.direct import Fall, least_squares, on_equations
from tiebreak.conic.faces import Constraints, held_rows, remaining
from tiebreak.conic.polish import Multipliers, polished, residual
from tiebreak.conic.program import Cone, ConicProgram, Objective
from tiebreak.conic.solver import clarabel_solve
from tiebreak.conic.stage import Affine, Stage, as_rows, dense, stacked, stage_of
from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host

Slack = Callable[[float, float], float]  # of the best value and of the value before this level

ACCURATE = 1e-8  # the conditions of optimality hold to this, or there is no answer
ASSUMED = 10.0  # times the length of the answer: a solution is assumed to be no longer than that
VISIBLE = 1e-9  # a direction of z in which x moves less than this is none of x


class LevelSolution(NamedTuple):
    """What was found of one level."""

    best: float  # its least value over the minimisers of the levels before it, as found
    bound: float  # that least value is at least this
    error: float  # how far `best` may be off, on both sides
    value: float  # at the final point
    slack: float  # what it may give up, resolved to a number
    dimension: int  # of what is left to choose after it
    held: str  # how it was held: "image", "face", "image and face", "cut", "point", "last"
    word: str  # "proved", "verified" or "claimed"
    price: float | None  # -d(last level)/d(slack), where its slack is positive
    solver: str  # the solver's own word, "" where none was asked
    residual: float = math.nan  # of the conditions of optimality, relative


class ChainSolution(NamedTuple):
    """All levels solved, or those before a limit."""

    z: Host
    levels: tuple[LevelSolution, ...]
    status: str  # "solved", "unbounded", "undetermined", "failed", "max_time"
    message: str = ""
    direction: Host | None = None  # where it is unbounded


class _Level(NamedTuple):
    """A stage and its solution."""

    stage: Stage
    at: Multipliers
    active: Active
    residual: float
    solver: str
    inner: Host | None = None  # the point of the interior-point method


def solve_chain(program: ConicProgram, slacks: Sequence[Slack | None]) -> ChainSolution:
    """One level after the other; a slack for each but the last, None for none."""
    return _Chain(program, slacks).solve()


class _Chain:
    """What the levels so far have left."""

    def __init__(self, program: ConicProgram, slacks: Sequence[Slack | None]) -> None:
        self.program, self.slacks = program, [*slacks, None]
        self.constraints = Constraints(as_rows(program.rows), program.offset, program.cones)
        self.objectives = [replace(h, squares=as_rows(h.squares)) for h in program.objectives]
        self.where = Affine(np.zeros(program.size))
        self.held: list[HeldLevel] = []
        self.is_proved = True  # do the bounds so far rest on nothing assumed?
        self.cut: _Cut | None = None  # of the level before
        self.found: list[LevelSolution] = []
        self.previous = np.zeros(program.size) if program.start is None else program.start

    def solve(self) -> ChainSolution:
        """All levels."""
        if (end := self._without_inequalities()) is not None:
            return end
        for number, objective in enumerate(self.objectives):
            try:
                end = self._level(number, objective)
            except deadline.Over:
                return self._end("max_time", f"no time was left for level {number + 1}")
            if end is not None:
                return end
        return self._end("solved")

    def _without_inequalities(self) -> ChainSolution | None:
        """Where there are equations alone, they are solved at once."""
        if any(cone.kind != "zero" for cone in self.constraints.cones):
            return None
        rows, offset, _ = self.constraints
        where = on_equations(dense(rows), offset)
        if where is None:
            return self._end("failed", "no point satisfies the equations")
        self.where = where
        self.constraints = Constraints(np.zeros((0, rows.shape[1])), np.zeros(0), ())
        return None

    def _end(self, status: str, message: str = "", direction: Host | None = None) -> ChainSolution:
        z = self.previous
        values = [h.value(z) for h in self.objectives[: len(self.found)]]
        levels = (
            level._replace(value=value) for level, value in zip(self.found, values, strict=True)
        )
        return ChainSolution(z, tuple(levels), status, message, direction)

    def _level(self, number: int, objective: Objective) -> ChainSolution | None:
        """Solve one level and hold it; an end where there is none."""
        stage = stage_of(objective, *self.constraints, self.where)
        is_fixed = self.where.dimension == 0
        is_done = is_fixed or (number > 0 and stage.is_flat)
        found = _unchanged(stage) if is_done else self._solved(objective, stage)
        if isinstance(found, str):
            self._claim(objective, found)
            return self._end("failed", f"level {number + 1}: {found}")
        if isinstance(found, Fall):
            direction = self.where.point(found.direction) - self.where.base
            text = f"level {number + 1} falls without end on the minimisers of those before it"
            return self._end("unbounded", text, direction)
        self._hold(number, objective, found)
        return None

    def _claim(self, objective: Objective, why: str) -> None:
        """A level that is not solved: the point of before stays, and nothing is known of it."""
        value = objective.value(self.previous)
        dimension = self._dimension()
        self.found.append(
            LevelSolution(
                value, -math.inf, math.inf, value, 0.0, dimension, "nothing", "claimed", None, why
            )
        )

    def _solved(self, objective: Objective, stage: Stage) -> _Level | Fall | str:
        """The level solved; a direction without end, or a sentence why there is no answer."""
        if stage.cones:
            return _by_solver(stage)
        w = least_squares(objective, self.where)
        if isinstance(w, Fall):
            return w
        at = Multipliers(w, np.zeros(0))
        return _Level(stage, at, NONE, residual(stage, at), "")

    def _hold(self, number: int, objective: Objective, found: _Level) -> None:
        """Take the solution of a level, and keep all that shares its image and its faces."""
        at, z = found.at, self.where.point(found.at.w)
        before, self.previous = self.previous, z
        best = objective.value(z)
        most, is_known = assumed_reach(self.program.reach, z, ASSUMED)
        bound = lower_bound(objective, self.constraints, at.y, z, self.held, most)
        self.is_proved = self.is_proved and is_known and number < 2
        word = "proved" if self.is_proved else "verified"
        gap = max(best - bound, 0.0) + value_error(objective, z) + self._above(found)
        slack_of = self.slacks[number]
        slack = 0.0 if slack_of is None else max(slack_of(best, objective.value(before)), 0.0)
        self._price(number, at)
        held = self._keep(number, objective, found, gap, best + slack if slack > 0.0 else None)
        self.found.append(
            LevelSolution(
                best=best,
                bound=bound,
                error=gap,
                value=best,
                slack=slack,
                dimension=self._dimension(),
                held=held,
                word=word,
                price=None,
                solver=found.solver,
                residual=found.residual,
            )
        )

    def _above(self, found: _Level) -> float:
        """How far the least value may lie above that at the point, which may be a little outside.

        Proved by a point that is inside; where there is none, by the multipliers, to first order.
        """
        stage, at = found.stage, found.at
        off = float(np.max(outside(stage.blocks, stage.slack(at.w)), initial=0.0))
        if not stage.blocks.has_inequalities:
            return 0.0
        inside = None if found.inner is None else value_inside(stage, at, found.inner)
        if inside is None:
            self.is_proved = False
            return max(off, 0.0) * float(np.sum(np.abs(at.y)))
        return max(inside - stage.objective.value(at.w), 0.0)

    def _keep(
        self, number: int, objective: Objective, found: _Level, gap: float, most: float | None
    ) -> str:
        """Cut at ``most``, or hold image and face; which of them it was."""
        if self.where.dimension == 0:
            return "point"
        if most is None:
            return self._hold_face(objective, found, gap)
        self.cut = _Cut(number, len(self.constraints.offset), *_sublevel(objective, most))
        self.constraints = self.constraints.joined(*self.cut[2:5])
        self.where = replace(self.where, base=self.previous)
        self.is_proved = False
        return "cut"

    def _price(self, number: int, at: Multipliers) -> None:
        """Of the cut of the level before: how fast this level falls with its slack."""
        if self.cut is None or self.cut.level != number - 1:
            return
        y = at.y[self.cut.row :]
        price = float(y[0]) if self.cut.cone.size == 1 else float(y[0] + y[1]) / self.cut.scale
        self.found[-1] = self.found[-1]._replace(price=price)

    def _hold_face(self, objective: Objective, found: _Level, gap: float) -> str:
        s, y = found.stage.slack(found.at.w), found.at.y
        z = self.previous
        most, _ = assumed_reach(self.program.reach, z, ASSUMED)
        reach = abs(self.constraints.rows) @ most + np.abs(self.constraints.offset)
        held = held_rows(self.constraints, objective.squares, found.active, s, y, reach)
        self.held.append(HeldLevel(held, gap))
        if held:
            self.where = self.where.within(stacked([part.rows for part in held]), z)
        else:
            self.where = replace(self.where, base=z)
        self.constraints = remaining(self.constraints, found.active, s, y, self.where)
        faces = len(found.active.nonnegative) + len(found.active.vertices) + len(found.active.rays)
        names = ["image"] * bool(objective.squares.shape[0] or len(found.active.curves))
        names += ["face"] * bool(faces)
        return " and ".join(names) or "nothing"

    def _dimension(self) -> int:
        """Of what is left to choose, in x."""
        if self.where.basis is None:
            return len(self.program.variables)
        seen = self.where.basis[self.program.variables]
        if not seen.size:
            return 0
        return int(np.count_nonzero(np.linalg.svd(seen, compute_uv=False) > VISIBLE))


def _unchanged(stage: Stage) -> _Level:
    """A level that is constant on what is left: all of it is optimal, the point of before too."""
    at = Multipliers(np.zeros(stage.rows.shape[1]), np.zeros(len(stage.offset)))
    return _Level(stage, at, NONE, 0.0, "")


def _by_solver(stage: Stage) -> _Level | Fall | str:
    """The level by Clarabel and Newton's method."""
    answer = clarabel_solve(stage.objective, stage.rows, stage.offset, stage.cones)
    if answer.is_infeasible:
        return f"Clarabel finds no feasible point ({answer.status})"
    if answer.is_unbounded:
        return Fall(answer.z)
    start = Multipliers(answer.z, 0.0 * answer.y if stage.is_flat else answer.y)
    found = polished(stage, start)
    if not found.residual <= ACCURATE:
        return f"the conditions of optimality hold to {found.residual:.2g} only ({answer.status})"
    return _Level(stage, *found, answer.status, answer.z)


class _Cut(NamedTuple):
    """{ z : h(z) <= most } as rows, an offset and a cone, of a level."""

    level: int
    row: int  # where it begins among the constraints
    rows: Any
    offset: Host
    cone: Cone
    scale: float


def _sublevel(h: Objective, most: float) -> tuple[Any, Host, Cone, float]:
    """Its rows, offset, cone and scale.

    With tau = most - constant - <q, z>: |F z - t|² <= 2 tau, or |(F z - t, tau/a - a/2)| <= tau/a +
    a/2 for any a > 0.
    """
    import scipy.sparse as sp

    room = most - h.constant
    if not h.squares.shape[0]:
        return h.linear[None], np.array([room]), Cone("nonnegative", 1), 1.0
    a = math.sqrt(2.0 * max(abs(room), np.finfo(float).tiny))
    q = sp.csr_array(h.linear[None])
    rows = sp.vstack([q / a, q / a, -sp.csr_array(h.squares)])
    offset = np.concatenate([[room / a + a / 2.0, room / a - a / 2.0], -h.target])
    return rows, offset, Cone("second-order", len(offset)), a
