"""Levels in order: each over the minimisers of all before it, images and exposed faces held."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.bounds import lower_bound, value_error
from tiebreak.conic.cones import Active, exposed, outside
from tiebreak.conic.direct import least_squares, on_equations
from tiebreak.conic.faces import Constraints, HeldRows, held_rows, remaining, varying
from tiebreak.conic.polish import Multipliers, polished, residual
from tiebreak.conic.program import Cone, ConicProgram, Objective
from tiebreak.conic.solver import clarabel_solve
from tiebreak.conic.stage import Affine, Stage, dense, stage_of
from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm
from tiebreak.linalg.rank import as_it_is, decide_rank

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


def solve_chain(program: ConicProgram, slacks: Sequence[Slack | None]) -> ChainSolution:
    """One level after the other; a slack for each but the last, None for none."""
    return _Chain(program, slacks).solve()


class _Chain:
    """What the levels so far have left."""

    def __init__(self, program: ConicProgram, slacks: Sequence[Slack | None]) -> None:
        import scipy.sparse as sp

        self.program, self.slacks = program, [*slacks, None]
        rows = sp.csc_array(program.rows)
        self.constraints = Constraints(rows, program.offset, program.cones)
        self.where = Affine(np.zeros(program.size))
        self.held: list[tuple[list[HeldRows], float]] = []  # of each level, with its gap
        self.cut: _Cut | None = None  # of the level before
        self.has_cuts = False
        self.found: list[LevelSolution] = []
        self.previous = np.zeros(program.size) if program.start is None else program.start

    def solve(self) -> ChainSolution:
        """All levels."""
        if (end := self._without_inequalities()) is not None:
            return end
        for number, objective in enumerate(self.program.objectives):
            try:
                end = self._level(number, objective)
            except deadline.Over:
                return self._end("max_time", f"no time was left for level {number + 1}")
            if end is not None:
                return end
        return self._end("solved")

    def _without_inequalities(self) -> ChainSolution | None:
        """Where there are equations alone, they are solved at once."""
        import scipy.sparse as sp

        if any(cone.kind != "zero" for cone in self.constraints.cones):
            return None
        rows, offset, _ = self.constraints
        where = on_equations(dense(rows), offset)
        if where is None:
            return self._end("failed", "no point satisfies the equations")
        self.where = where
        self.constraints = Constraints(sp.csc_array((0, rows.shape[1])), np.zeros(0), ())
        return None

    def _end(self, status: str, message: str = "", direction: Host | None = None) -> ChainSolution:
        z = self.previous
        values = [h.value(z) for h in self.program.objectives[: len(self.found)]]
        levels = (
            level._replace(value=value) for level, value in zip(self.found, values, strict=True)
        )
        return ChainSolution(z, tuple(levels), status, message, direction)

    def _level(self, number: int, objective: Objective) -> ChainSolution | None:
        """Solve one level and hold it; an end where there is none."""
        stage = stage_of(objective, *self.constraints, self.where)
        if self.where.dimension == 0:
            self._nothing_left(number, objective)
            return None
        found = _unchanged(stage) if number and stage.is_flat else _solved(stage)
        if isinstance(found, str):
            return self._end("failed", f"level {number + 1}: {found}")
        if isinstance(found, np.ndarray):
            direction = self.where.point(found) - self.where.base
            text = f"level {number + 1} falls without end on the minimisers of those before it"
            return self._end("unbounded", text, direction)
        self._hold(number, objective, found)
        return None

    def _nothing_left(self, number: int, objective: Objective) -> None:
        value = objective.value(self.previous)
        self.found.append(
            LevelSolution(value, value, 0.0, value, 0.0, 0, "point", self._word(number), None, "")
        )

    def _word(self, number: int) -> str:
        is_known = bool(np.all(np.isfinite(self.program.reach)))
        return "proved" if is_known and number < 2 and not self.has_cuts else "verified"

    @property
    def _reach(self) -> float:
        """A bound on |z - base|, assumed where none is known."""
        known = self.program.reach
        assumed = ASSUMED * (norm(self.previous) + norm(self.where.base))
        size = norm(np.where(np.isfinite(known), known, assumed))
        return (size or 1.0) + norm(self.where.base)

    def _hold(self, number: int, objective: Objective, found: _Level) -> None:
        stage, at = found.stage, found.at
        z = self.where.point(at.w)
        before, self.previous = self.previous, z
        best = stage.objective.value(at.w)
        off = float(np.max(outside(stage.blocks, stage.slack(at.w)), initial=0.0))
        off = max(off, 0.0) * float(np.sum(np.abs(at.y)))
        price = self._price_of_held(objective, at)
        bound = lower_bound(stage, at, self._reach) - price
        gap = max(best - bound, 0.0) + off + value_error(stage, at.w)
        slack_of = self.slacks[number]
        slack = 0.0 if slack_of is None else max(slack_of(best, objective.value(before)), 0.0)
        self._price(number, at)
        held, is_last = "last", number + 1 == len(self.program.objectives)
        if not is_last and slack > 0.0:
            self.cut = _Cut(
                number, len(self.constraints.offset), *_sublevel(objective, best + slack)
            )
            self.has_cuts, held = True, "cut"
            self.constraints = self.constraints.joined(*self.cut[2:5])
        elif not is_last:
            held = self._hold_face(objective, found, gap)
        self.found.append(
            LevelSolution(
                best=best,
                bound=bound,
                error=gap,
                value=best,
                slack=slack,
                dimension=self._dimension(),
                held=held,
                word=self._word(number),
                price=None,
                solver=found.solver,
            )
        )

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
        rows = self.constraints.rows
        reach = abs(rows) @ np.minimum(self.program.reach, ASSUMED * (norm(z) or 1.0)) + np.abs(
            self.constraints.offset
        )
        held = held_rows(self.constraints, objective.squares, found.active, s, y, reach)
        self.held.append((held, gap))
        # The rows of later cuts keep their places among those that remain: they are looked up anew.
        self.constraints = remaining(self.constraints, found.active, s)
        self.where = _within(self.where, [part.rows for part in held], z)
        self.constraints = varying(self.constraints, self.where)
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

    def _price_of_held(self, objective: Objective, at: Multipliers) -> float:
        """What this level could gain where the held equations are off by as much as they may be."""
        groups = [part for level, _ in self.held for part in level]
        if not groups:
            return 0.0
        gaps = [gap for level, gap in self.held for _ in level]
        z = self.where.point(at.w)
        off = objective.squares @ z - objective.target
        slope = objective.squares.T @ off + objective.linear + self.constraints.rows.T @ at.y
        E = np.vstack([dense(part.rows) for part in groups])
        lengths = np.sqrt(np.sum(E * E, axis=1))
        lengths[lengths == 0.0] = 1.0
        weights = np.linalg.lstsq((E / lengths[:, None]).T, -slope, rcond=1e-12)[0] / lengths
        ends = np.cumsum([part.rows.shape[0] for part in groups])
        total = 0.0
        for part, gap, some in zip(groups, gaps, np.split(weights, ends[:-1]), strict=True):
            total += norm(some) * (part.linear * gap + part.root * math.sqrt(gap))
        return total


NONE = Active(*(np.zeros(0, dtype=np.int64), (), (), np.zeros((0, 3), dtype=np.int64), 0))


def _unchanged(stage: Stage) -> _Level:
    """A level that is constant on what is left: all of it is optimal, the point of before too."""
    at = Multipliers(np.zeros(stage.rows.shape[1]), np.zeros(len(stage.offset)))
    return _Level(stage, at, NONE, 0.0, "")


def _solved(stage: Stage) -> _Level | Host | str:
    """The level solved; a direction without end, or a sentence why there is no answer."""
    if not stage.cones:
        direct = least_squares(stage)
        if isinstance(direct, np.ndarray):
            return direct
        return _Level(stage, direct, NONE, residual(stage, direct), "")
    answer = clarabel_solve(stage.objective, stage.rows, stage.offset, stage.cones)
    if answer.is_infeasible:
        return f"Clarabel finds no feasible point ({answer.status})"
    if answer.is_unbounded:
        return answer.z
    start = Multipliers(answer.z, 0.0 * answer.y if stage.is_flat else answer.y)
    size = norm(stage.slope_terms(answer.z))
    active = exposed(stage.blocks, stage.slack(answer.z), start.y, stage.lengths, size)
    at = polished(stage, active, start)
    left = residual(stage, at)
    if not left <= ACCURATE:
        return f"the conditions of optimality hold to {left:.2g} only ({answer.status})"
    return _Level(stage, at, active, left, answer.status)


def _within(where: Affine, rows: list[Any], base: Host) -> Affine:
    """The points of an affine set that share the values of these rows with ``base``."""
    E = np.vstack([dense(part) for part in rows]) if rows else np.zeros((0, len(base)))
    lengths = np.sqrt(np.sum(E * E, axis=1))
    E = E[lengths > 0.0] / lengths[lengths > 0.0, None]
    inner = where.columns(E)
    rank = decide_rank(np.asarray(inner), units=as_it_is(inner))
    free = rank.basis[:, rank.low :]
    return Affine(base, free if where.basis is None else where.basis @ free)


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
