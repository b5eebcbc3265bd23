"""Solve levels in order in rational arithmetic; every value is exact and comes with a proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.chain_solution import ChainSolution, LevelSolution, Told
from tiebreak.conic.program import Objective
from tiebreak.levels import Levels
from tiebreak.linalg import deadline, decide_rank
from tiebreak.linalg.deferred import Deferred
from tiebreak.linalg.linear_programs import strict_rows
from tiebreak.rational.active_set import (
    Feasible,
    Form,
    Optimum,
    in_floats,
    minimise,
    solve_level,
)
from tiebreak.rational.arithmetic import (
    Row,
    Unproved,
    Vector,
    flint,
    independent,
    over_one_unit,
    product,
)
from tiebreak.rational.description import REACH, data_epsilon, feasible_set, level_data

METHOD = "rational arithmetic, an exact active set"


class LevelProof(NamedTuple):
    """A minimiser of one level, and multipliers that prove it, in the units of the data."""

    x: list[Fraction]
    rows: list[Fraction]  # multipliers of the inequalities of the set, then of the cuts so far
    equal: list[Fraction]  # multipliers of the set's equations, then of earlier levels'


class ChainProof(NamedTuple):
    """The answer, and the proof of every level.

    All minimisers of a level have the same image, and satisfy the rows with nonzero multipliers
    with equality. These rows and the image, in this order, become equations for later levels. A
    level with a slack becomes an inequality instead.
    """

    x: list[Fraction]
    levels: list[LevelProof]
    found: list[LevelSolution]
    is_least: bool


def certificate(
    levels: Levels, before: float = math.nan, told: Told | None = None
) -> ChainProof | None:
    """Solve and prove the levels; return None if exact arithmetic does not finish in time.

    ``before`` is the first level's value at the start, for a slack that is a share of its gain.

    The costs 0.1 * 3 and 0.3 differ as stored, although the user means them to tie. If rounding may
    have broken a tie, the levels are solved twice, with and without the tie, and nothing is claimed
    unless the answers agree. Rounded right-hand sides need no second solution: if they change a
    little, minimisers change only a little.
    """
    work = REACH[flint() is not None].work
    try:
        with deadline.half(), deadline.metered(work) as meter:
            stored = _Levels(levels)
            found = stored.solve(before, told)
            if stored.has_doubt:
                meter.allowed = min(work, meter.spent + work / 8.0)  # at most a few seconds
                meant = _Levels(levels, is_tied=True, first=stored.first).solve(before)
                most = 1e-9 * max(1.0, *(abs(float(v)) for v in found.x))
                pairs = zip(found.x, meant.x, strict=True)
                if any(abs(float(a - b)) > most for a, b in pairs):
                    return None
            return found
    except (Unproved, deadline.TimeIsUp, OverflowError):
        return None


def solve_exactly(levels: Levels, before: float, told: Told | None = None) -> ChainSolution | None:
    """Solve and prove the levels, and return the answer as a `ChainSolution`; x is rounded once."""
    found = certificate(levels, before, told)
    if found is None:
        return None
    x = np.array([float(v) for v in found.x])
    return ChainSolution(x, tuple(found.found), "solved", is_least=found.is_least, method=METHOD)


class _Levels:
    """The set that remains after the levels so far; if ``is_tied``, tiny multipliers count as 0.

    ``first``: the solution of the first level, if known; it does not depend on ``is_tied``.
    """

    def __init__(self, levels: Levels, is_tied: bool = False, first: Optimum | None = None) -> None:
        n = levels.dimension
        assert n is not None
        self.Z, below, equal = feasible_set(levels.domain, n)
        self.of_rows, self.of_equal = list(below.scales), list(equal.scales)
        self.rules = [level.rule for level in levels.levels]
        self.levels = [level_data(level.minimised, n) for level in levels.levels]
        self.epsilon = max(data_epsilon(level.objective) for level in levels.levels)
        self.x: Vector | None = None
        self.proofs: list[LevelProof] = []
        self.found: list[LevelSolution] = []
        self.is_tied, self.has_doubt, self.first = is_tied, False, first

    def solve(self, before: float, told: Told | None = None) -> ChainProof:
        """Solve all levels, then choose the point of least norm among the remaining points."""
        for number, rule in enumerate(self.rules):
            self._level(number, rule, before)
            if told is not None:
                told(number, self.found[-1].best)
        assert self.x is not None
        n = self.Z.n
        for number, level in enumerate(self.found):
            if level.slack > 0.0 and self._dimension:  # later levels may not need all of this slack
                self._hold(number, self._solved(*self.levels[number][::2]))
        is_least = self._dimension > 0
        if is_least:
            norm = Form(tuple({j: 1} for j in range(n)), {}, Fraction(1))
            self._solved(norm, Objective(np.eye(n), np.zeros(n), np.zeros(n)))
        self._check_rank()
        return ChainProof(self.x.fractions(), self.proofs, self.found, is_least)

    def _check_rank(self, image: Sequence[Row] = ()) -> None:
        """Raise `Unproved` if rounding decides how many of the equations are independent."""
        rows = [*(self.Z.equal[i] for i in self.Z.needed), *image]
        floats = in_floats(rows, [0] * len(rows), self.Z.n)[0]
        if decide_rank(floats, self.epsilon).low < len(independent(rows, self.Z.n)):
            raise Unproved("rounding decides how many of the equations are independent")

    @property
    def _dimension(self) -> int:
        """The dimension of the remaining set."""
        return self.Z.n - len(self.Z.needed)

    def _ties(self) -> Deferred:
        """The dimension of the remaining set; rows that are tight everywhere are equations."""
        Z, x = self.Z, self.x
        assert x is not None
        needed = [Z.equal[i] for i in Z.needed]

        def count() -> int | None:
            if len(needed) == Z.n:
                return 0
            edges = [row for row, room in zip(Z.rows, Z.room(x), strict=True) if row and not room]
            rows, equal = (in_floats(M, [0] * len(M), Z.n)[0] for M in (edges, needed))
            lengths = np.linalg.norm(rows, axis=1)
            is_strict = strict_rows(rows / lengths[:, None], equal)
            if is_strict is None:
                return None
            flat = [row for row, moves in zip(edges, is_strict, strict=True) if not moves]
            return Z.n - len(independent([*needed, *flat], Z.n))

        return Deferred(count)

    def _solved(self, form: Form, objective: Objective) -> Optimum:
        """Solve a level on the remaining set, and check the solution."""
        if self.x is None:
            found = self.first = self.first or solve_level(form, objective, self.Z, None)
        elif self._dimension:
            found = solve_level(form, objective, self.Z, self.x)
        else:
            found = minimise(form, self.Z, self.x, [])
        if not is_proof(form, self.Z, found):
            raise Unproved("the optimality conditions do not hold")
        self.x = found.x
        return found

    def _level(self, number: int, rule: Callable[[Any, Any], Any], before: float) -> None:
        form, _, objective = self.levels[number]
        previous = Fraction(before) if math.isfinite(before) else math.nan
        if number:
            assert self.x is not None
            previous = form.value(self.x)
        is_fixed = self.x is not None and not self._dimension
        found = self._solved(form, objective)
        best = form.value(found.x)
        self._price(number, found)
        slack = Fraction(rule(best, previous))  # a user's rule may return a float
        self.proofs.append(
            LevelProof(
                found.x.fractions(),
                [found.rows.get(i, 0) * scale for i, scale in enumerate(self.of_rows)],
                [found.equal.get(i, 0) * scale for i, scale in enumerate(self.of_equal)],
            )
        )
        if slack:
            if form.hessian:
                raise Unproved("a quadratic level has a slack")
            limit = form.scale * (best + slack - form.constant)
            self.Z = replace(
                self.Z, rows=(*self.Z.rows, form.linear), limits=(*self.Z.limits, limit)
            )
            self.of_rows.append(form.scale)
            held = "cut"
        else:
            held = self._hold(number, found)
            held = "point" if is_fixed else held
        value = float(best)
        error = 0.0 if Fraction(value) == best else math.ulp(value)
        self.found.append(
            LevelSolution(
                best=value,
                bound=value - error,
                error=error,
                value=value,
                slack=float(slack),
                dimension=self._ties(),
                held=held,
                word="proved",
                price=None,
                solver="",
                residual=0.0,
                is_bound_proved=True,
            )
        )

    def _price(self, number: int, found: Optimum) -> None:
        """Set the price of the previous level's slack: the gain of this level per unit of slack."""
        if number and self.found[-1].held == "cut":
            last = len(self.Z.rows) - 1
            price = float(found.rows.get(last, 0) * self.of_rows[last])
            self.found[-1] = self.found[-1]._replace(price=price)

    def _hold(self, number: int, found: Optimum) -> str:
        """Turn the face and the image of a level into equations; return which of the two exist."""
        form, image, _ = self.levels[number]
        self._check_rank(image.rows)
        small = self._of_rounding(form, image.rows, found)
        self.has_doubt |= bool(small)
        tight = sorted(i for i, v in found.rows.items() if v and not (self.is_tied and i in small))
        values = [Fraction(product(row, found.x.numbers), found.x.unit) for row in image.rows]
        self.Z = self.Z.within(
            [*(self.Z.rows[i] for i in tight), *image.rows],
            [*(self.Z.limits[i] for i in tight), *values],
        )
        self.of_equal += [*(self.of_rows[i] for i in tight), *image.scales]
        names = ["image"] * bool(image.rows) + ["face"] * bool(tight)
        return " and ".join(names) or "nothing"

    def _of_rounding(self, form: Form, image: Sequence[Row], found: Optimum) -> set[int]:
        """The rows whose multipliers are so small that only rounding may have made them nonzero.

        In each column, the slope and the contributions of the rows cancel. No row is returned if
        the image alone determines the minimisers, whatever the multipliers are.
        """
        Z, scale = self.Z, form.scale
        others = [*(Z.equal[i] for i in Z.needed), *image]
        if not form.linear or len(others) not in independent([*others, form.linear], Z.n):
            return set()
        x = [abs(v) for v in found.x.numbers]
        sizes = [float(abs(form.linear.get(j, 0))) for j in range(Z.n)]
        counts = [1] * Z.n
        for j, row in enumerate(form.hessian):
            sizes[j] += sum(abs(a) * x[k] for k, a in row.items()) / found.x.unit
            counts[j] += len(row)
        pulls = [(Z.equal[i], v) for i, v in found.equal.items() if v]
        pulls += [(Z.rows[i], v) for i, v in found.rows.items() if v]
        for row, v in pulls:
            for j, a in row.items():
                sizes[j] += float(abs(a * v) * scale)
                counts[j] += 1
        unit = 2.0 * self.epsilon  # allows a few roundings of each term
        return {
            i
            for i, v in found.rows.items()
            for j, a in Z.rows[i].items()
            if v and float(abs(a) * v * scale) < unit * counts[j] * sizes[j]
        }


def is_proof(form: Form, Z: Feasible, found: Optimum) -> bool:
    """Do the optimality conditions hold exactly?"""
    if not Z.contains(found.x):
        return False
    room, slope, total = Z.room(found.x), form.slope(found.x), [0] * Z.n
    weights = over_one_unit([*found.equal.values(), *found.rows.values()])
    rows = [*(Z.equal[i] for i in found.equal), *(Z.rows[i] for i in found.rows)]
    for row, v in zip(rows, weights.numbers, strict=True):
        for j, a in row.items():
            total[j] += a * v
    share = -form.scale * Fraction(slope.unit, weights.unit)
    balance = [
        share.denominator * v - share.numerator * w
        for v, w in zip(slope.numbers, total, strict=True)
    ]
    signs = all(v >= 0 and not (v and room[i]) for i, v in found.rows.items())
    return signs and not any(balance)
