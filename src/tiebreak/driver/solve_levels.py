"""Levels: two without slack are a `Problem`, all others a chain of conic programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tiebreak.conic.chain import ChainSolution, LevelSolution, cut_short, solve_chain
from tiebreak.conic.method import ConicFindings
from tiebreak.conic.program import ConicProgram
from tiebreak.conic.representation import compile_levels
from tiebreak.driver.console import stopping_on_ctrl_c
from tiebreak.driver.levels_result import LevelReport, LevelsResult, lower_interval
from tiebreak.driver.result import Result, assumptions
from tiebreak.exact.method import ExactFindings
from tiebreak.levels import ConicLevels, Levels, Slack
from tiebreak.linalg import arrays, checks, deadline
from tiebreak.linalg.arrays import Host
from tiebreak.proofs.recession.direction import settled_direction

CHAINED = ("auto", "conic")
METHOD = "conic, images and faces held"


def of_problem(levels: Levels, result: Result) -> LevelsResult:
    """The result of two levels without slack, level by level."""
    proof, (lower, upper) = result.certificate, levels.names
    ends, word, why = lower_interval(result)
    is_known = np.isfinite(proof.upper_optimum).all()  # a proof, even where wider than asked
    other = "verified" if result.success else "claimed"
    held = "solution set" if isinstance(result.findings, ExactFindings) else "gap"
    reports = {
        lower: LevelReport(
            lower, ends, proof.lower_value, 0.0, result.dimension, None, held, word, why=why
        ),
        upper: LevelReport(
            upper, proof.upper_optimum, proof.upper_value, 0.0, None, None, "last",
            "proved" if is_known else other,
        ),
    }  # fmt: skip
    if isinstance(result.findings, ConicFindings):  # it knows more than the certificate takes
        pairs = zip(levels.names, result.findings.levels, strict=False)
        reports |= {name: _level(name, level, 1) for name, level in pairs}
    return LevelsResult(
        x=result.x,
        levels=reports,
        status=result.status,
        reason=result.message,
        time=result.time,
        method=result.method,
        result=result,
        assumed=tuple(assumptions(result.problem)),
    )


class CompiledLevels(ConicLevels):
    """`Levels` of ours as one conic program."""

    def __init__(self, levels: Levels, x0: Any = None) -> None:
        start = _start(levels, x0)
        n = len(start)
        objectives = [level.objective for level in levels.levels]
        self._program = compile_levels(objectives, levels.domain, n, levels.radius)
        self.names, self.signs = levels.names, (1,) * len(objectives)
        self.rules = tuple(level.rule for level in levels.levels)
        self.before = float(objectives[0].value(start))
        said = (text for pair in levels.pairs() for text in assumptions(pair))
        self.assumed = tuple(dict.fromkeys(said))

    def program(self) -> ConicProgram:
        """Compiled once."""
        return self._program

    def assign(self, z: Any) -> Any:
        """x, without the auxiliary variables."""
        return z[self._program.variables]


def solve_chained(
    given: Levels | ConicLevels,
    method: object,
    x0: Any,
    rtol: float,
    max_time: float | None,
    began: float,
) -> LevelsResult:
    """One conic program after the other."""
    if method not in CHAINED:
        known = " or ".join(map(repr, CHAINED))
        raise ValueError(
            f"solve: method must be {known} for three levels or more and for slacks, got {method!r}"
        )
    try:
        with deadline.limited(max_time, began):
            levels = CompiledLevels(given, x0) if isinstance(given, Levels) else given
            program = levels.program()
    except deadline.Over as over:
        return _out_of_time(given, x0, over, time.perf_counter() - began)
    found = chain(program, levels.rules, levels.before, max_time, began)
    x = levels.assign(found.z) if found.status == "solved" else found.z[program.variables]
    starts = [h.value(np.zeros(program.size)) for h in program.objectives]
    return report(found, x, levels, rtol, starts, time.perf_counter() - began)


def _out_of_time(
    levels: Levels | ConicLevels, x0: Any, over: deadline.Over, seconds: float
) -> LevelsResult:
    """For a call that had to end before its first level: the start."""
    assert isinstance(levels, Levels)  # a compiler from elsewhere does not look at the clock
    status, why = cut_short(over, 0)
    x = _start(levels, x0)
    return LevelsResult(x, {}, status, why, seconds, METHOD, skipped=levels.names)


def _start(levels: Levels, x0: Any) -> Any:
    """x0 as a vector of all variables, or 0."""
    n = levels.dimension
    assert n is not None
    start = np.zeros(n) if x0 is None else checks.vector("solve", "x0", x0)
    checks.length("solve", "x0", start, n, "variable")
    return start


def with_proved_direction(levels: Levels, result: LevelsResult) -> LevelsResult:
    """The result of a chain that ended at a direction: is a level proved to fall along it?"""
    number = len(result.levels)
    direction = settled_direction(levels, number, result.direction)
    if direction is None:
        return replace(result, status="undetermined")
    where = " on the minimisers of those before it" if number else ""
    reason = f"level {number + 1} has no minimiser{where}: it falls without end"
    return replace(result, status="unbounded", reason=reason, direction=direction)


def chain(
    program: ConicProgram,
    rules: tuple[Slack, ...],
    before: float,
    max_time: float | None,
    began: float,
) -> ChainSolution:
    """Solve the program with these slacks; ``before``: the first level at x0."""
    slacks: list[Callable[[float, float], float] | None] = [
        None if rule.is_none else rule for rule in rules[:-1]
    ]
    first = rules[0]
    if not first.is_none:
        slacks[0] = lambda best, _: first(best, before)
    with deadline.limited(max_time, began) as limit, stopping_on_ctrl_c(limit), arrays.quiet():
        return solve_chain(program, slacks)


def report(
    found: ChainSolution,
    x: Any,
    levels: ConicLevels,
    rtol: float,
    starts: list[float],
    seconds: float,
) -> LevelsResult:
    """What was found, in the words of a result."""
    names, signs = levels.names, levels.signs
    rows = {
        name: _level(name, level, sign)
        for name, level, sign in zip(names, found.levels, signs, strict=False)
    }
    status, reason = found.status, found.message
    if status == "solved":
        widths = [
            level.error <= rtol * max(abs(level.value), abs(start))
            for level, start in zip(found.levels, starts, strict=True)
        ]
        if all(widths) and all(level.word == "proved" for level in found.levels):
            status = "certified"
        else:
            reason = _how_well(found)
    direction: Host | None = found.direction
    if direction is not None:
        direction = direction[levels.program().variables]
    return LevelsResult(
        x=x,
        levels=rows,
        status=status,
        reason=reason,
        time=seconds,
        method=METHOD,
        skipped=names[len(found.levels) :],
        direction=direction,
        assumed=levels.assumed,
    )


def _how_well(found: ChainSolution) -> str:
    off = max(level.residual for level in found.levels)
    return f"all optimality conditions hold to {off:.1g}"


def _level(name: str, level: LevelSolution, sign: int) -> LevelReport:
    ends = (level.bound, level.best + level.error)
    best = ends if sign > 0 else (-ends[1], -ends[0])
    return LevelReport(
        name, best, sign * level.value, level.slack, level.dimension, level.price, level.held,
        level.word, sign, level.why,
    )  # fmt: skip
