"""Levels: two without slack form a `Problem`, all others a chain of conic programs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tiebreak.conic.chain import solve_chain
from tiebreak.conic.chain_solution import (
    LEAST,
    METHOD,
    ChainSolution,
    LevelSolution,
    Told,
    cut_short,
)
from tiebreak.conic.method import NOT_SURE, WHY, ConicFindings
from tiebreak.conic.program import ConicProgram
from tiebreak.conic.representation import compile_levels
from tiebreak.driver.console import stopping_on_ctrl_c
from tiebreak.driver.input_checks import check_size
from tiebreak.driver.levels_result import LevelReport, LevelsResult, lower_interval
from tiebreak.driver.result import Result, assumptions, descriptions, promises
from tiebreak.exact.method import ExactFindings
from tiebreak.functions import split
from tiebreak.levels import ConicLevels, Levels, Slack, value_with_error
from tiebreak.linalg import TOL, Host, arrays, checks, deadline
from tiebreak.linalg.deferred import Deferred
from tiebreak.proofs.gate import DOUBT, FALLS, Ended, LevelClaim, ResultClaim, judge
from tiebreak.proofs.recession.direction import settled_direction
from tiebreak.proofs.recession.watch import largest_entries
from tiebreak.rational import solve_exactly

CHAINED = ("auto", "conic")


def of_problem(levels: Levels, result: Result) -> LevelsResult:
    """Return the result of two levels without slack, level by level."""
    proof, (lower, upper) = result.certificate, levels.names
    ends, word, why = lower_interval(result)
    is_known = np.isfinite(proof.upper_optimum).all()  # a proof, even if it is wider than requested
    held = "solution set" if isinstance(result.findings, ExactFindings) else "gap"
    ties: Any = Deferred(lambda: result.dimension)
    reports = {
        lower: LevelReport(
            lower, ends, proof.lower_value, 0.0, ties, None, held, word, why=why
        ),
        upper: LevelReport(
            upper, proof.upper_optimum, proof.upper_value, 0.0, None, None, "last",
            "proved" if is_known else "estimated",
        ),
    }  # fmt: skip
    if isinstance(result.findings, ConicFindings):  # conic bounds say more than the certificate
        values = proof.lower_value, proof.upper_value
        triples = zip(levels.names, result.findings.levels, values, strict=False)
        reports |= {name: _level(name, level, value, 1) for name, level, value in triples}
    signs = {name: level.sign for name, level in zip(levels.names, levels.levels, strict=True)}
    for name, sign in signs.items():
        if sign < 0:
            (low, high), value = reports[name].best, reports[name].value
            reports[name] = replace(reports[name], best=(-high, -low), value=-value, sign=-1)
    is_empty = result.status == "infeasible"  # then no level has a best value
    return LevelsResult(
        x=result.x,
        levels={} if is_empty else reports,
        status=result.status,
        reason=result.message,
        time=result.time,
        method=result.method,
        skipped=levels.names if is_empty else (),
        result=result if min(signs.values()) > 0 else None,  # a Result minimises both levels
        assumed=result.assumed,
    )


class CompiledLevels(ConicLevels):
    """`Levels` of this library, compiled to one conic program."""

    def __init__(self, levels: Levels, x0: Any = None, owner: str = "solve") -> None:
        start = _start(levels, x0, owner)
        n = len(start)
        objectives = [level.minimised for level in levels.levels]
        self._program = compile_levels(objectives, levels.domain, n, levels.radius)
        pairs = levels.pairs()
        promised = promises(pairs[0]) + [text for pair in pairs for text in descriptions(pair)]
        self.model, self.promises = levels, tuple(dict.fromkeys(promised))
        self.names, self.signs = levels.names, tuple(level.sign for level in levels.levels)
        self.rules: tuple[Slack, ...] = tuple(level.rule for level in levels.levels)
        self.before, _ = value_with_error(objectives[0], start)
        said = (text for pair in pairs for text in assumptions(pair))
        self.assumed: tuple[str, ...] = tuple(dict.fromkeys(said))

    def program(self) -> ConicProgram:
        """Return the program, which is compiled only once."""
        return self._program


def solve_chained(
    given: Levels | ConicLevels,
    method: object,
    x0: Any,
    rtol: float,
    max_time: float | None,
    began: float,
    told: Told | None = None,
) -> LevelsResult:
    """Solve one conic program after another."""
    if method not in CHAINED:
        known = " or ".join(map(repr, CHAINED))
        raise ValueError(
            f"solve: method must be {known} for three or more levels or slacks, got {method!r}"
        )
    try:
        with deadline.limited(max_time, began):
            levels = CompiledLevels(given, x0) if isinstance(given, Levels) else given
            program = levels.program()
        if method == "auto" and isinstance(given, Levels):
            exact = proved_exactly(
                given, levels.before, rtol, max_time, began, lambda: levels, told
            )
            if exact is not None:
                return exact
    except deadline.Over as over:
        return _out_of_time(given, x0, over, time.perf_counter() - began)
    if isinstance(given, Levels):
        for name, level in zip(given.names, given.levels, strict=True):
            check_size("solve", name, split(level.objective)[0])
    found = chain(program, levels.rules, levels.before, max_time, began, told)
    result = report(found, levels, rtol, time.perf_counter() - began)
    if result.success:
        levels.assign(found.z)
    return result


def proved_exactly(
    levels: Levels,
    before: float,
    rtol: float,
    max_time: float | None,
    began: float,
    compiled: Callable[[], ConicLevels],
    told: Told | None = None,
) -> LevelsResult | None:
    """Solve exactly, in rational arithmetic; return None if this does not succeed."""
    with deadline.limited(max_time, began) as limit, stopping_on_ctrl_c(limit), arrays.quiet():
        found = solve_exactly(levels, before, told)
    if found is None:
        return None
    result = report(found, compiled(), rtol, time.perf_counter() - began)
    return result if result.proved else None


def _out_of_time(
    levels: Levels | ConicLevels, x0: Any, over: deadline.Over, seconds: float
) -> LevelsResult:
    """Return the start as the result of a call that had to end before its first level."""
    assert isinstance(levels, Levels)  # third-party compilers do not watch the clock
    status, why = cut_short(over, 0)
    x = _start(levels, x0, "solve")
    return LevelsResult(x, {}, status, why, seconds, METHOD, skipped=levels.names)


def _start(levels: Levels, x0: Any, owner: str) -> Any:
    """Return x0 as a vector of all variables; zeros if it is None."""
    n = levels.dimension
    assert n is not None
    start = np.zeros(n) if x0 is None else arrays.to_numpy(checks.vector(owner, "x0", x0))
    checks.length(owner, "x0", start, n, "variable")
    return start


def chain(
    program: ConicProgram,
    rules: tuple[Slack, ...],
    before: float,
    max_time: float | None,
    began: float,
    told: Told | None = None,
) -> ChainSolution:
    """Solve the program with these slacks; ``before`` is the value of the first level at x0."""
    slacks: list[Callable[[float, float], float] | None] = [
        None if rule.is_none else rule for rule in rules[:-1]
    ]
    first = rules[0]
    if not first.is_none:
        slacks[0] = lambda best, _: first(best, before)
    with deadline.limited(max_time, began) as limit, stopping_on_ctrl_c(limit), arrays.quiet():
        return solve_chain(program, slacks, told)


def report(found: ChainSolution, levels: ConicLevels, rtol: float, seconds: float) -> LevelsResult:
    """Convert the chain's solution to a result."""
    names, own = levels.names, levels.program().variables
    x = found.z[own]
    with arrays.quiet():  # the values may be 0/0
        at, at_zero = levels.model.values(x), levels.model.values(np.zeros_like(x))
    each = list(zip(names, found.levels, at, levels.signs, strict=False))
    sizes = [abs(value) if math.isfinite(value) else 0.0 for value, _ in at_zero]
    claims = [
        _claim(level, sign * value, error, size, rtol)
        for (_, level, (value, error), sign), size in zip(each, sizes, strict=False)
    ]
    ended, direction, number = _ended(found), found.direction, len(found.levels)
    if direction is not None:
        direction = direction[own]
        # an exact direction nearby, or None without a proof
        if isinstance(levels.model, Levels):
            direction = settled_direction(levels.model, number, direction)
            # A level with slack needs no minimiser: only an unbounded level ends the chain.
            needs_one = levels.rules[number].is_none or found.status == "unbounded"
            ended = (
                _without_end(levels.model, number, direction)
                if direction is not None and needs_one
                else Ended(DOUBT, found.message + NOT_SURE)
            )
    undefined = [name for name, _, (value, _), _ in each if not math.isfinite(value)]
    share = max(rtol, TOL.solver)
    # The chain has checked its own value at x; the model's value must be as good as that.
    lost = [
        name
        for (name, level, (value, error), sign), size in zip(each, sizes, strict=False)
        if sign * value - max(level.best + level.slack + level.error, level.value)
        > error + share * max(size, abs(level.best), level.slack)
    ]
    broken = [f"the value of {name} is not finite at x" for name in undefined]
    broken += [f"{name} became worse after it was solved" for name in lost]
    claim = ResultClaim(
        problem=levels.model,
        x=x,
        ended=ended,
        levels=(*claims, *[LevelClaim()] * (len(names) - len(claims))),
        fall=None if direction is None else (number, direction),
        is_shown=found.status in ("unbounded", "infeasible"),
        broken=broken[0] if broken and found.status == "solved" else "",
        assumed=" and ".join(levels.promises),
    )
    status, reason = judge(claim)
    return LevelsResult(
        x=arrays.nowhere(x) if status == "infeasible" else x,
        levels={name: _level(name, level, value, sign) for name, level, (value, _), sign in each},
        status=status,
        reason=reason,
        time=seconds,
        method=found.method,
        skipped=names[len(found.levels) :],
        direction=direction,
        assumed=levels.assumed,
        note=LEAST if found.is_least else "",
    )


def _without_end(levels: Levels, number: int, direction: Host) -> Ended:
    """Say which level has no minimum or maximum, and along which direction."""
    where = " over the solutions of the levels before it" if number else ""
    is_min = levels.levels[number].sign > 0
    what, does = ("minimum", "decreases") if is_min else ("maximum", "increases")
    entries = f"the direction {largest_entries(direction, levels.variables)}"
    return Ended(FALLS, f"{levels.names[number]} has no {what}{where}: it {does} along {entries}")


def _ended(found: ChainSolution) -> Ended:
    off = max((level.residual for level in found.levels), default=0.0)
    sentence = found.message or f"all optimality conditions hold to {off:.1g}"
    return Ended(WHY.get(found.status, found.status), sentence)


def _claim(
    level: LevelSolution, value: float, rounding: float, size: float, rtol: float
) -> LevelClaim:
    """Return the claim about a level, with a tolerance above the rounding error of its value."""
    if level.word != "proved":
        return LevelClaim()
    scale = max(abs(value), size)
    high = level.best + level.error
    off = max(high, value - level.slack) - level.bound + rounding
    return LevelClaim(
        off, max(off, high - value + rounding), max(rtol * scale, TOL.clear_units * rounding)
    )


def _level(name: str, level: LevelSolution, value: float, sign: int) -> LevelReport:
    ends = (level.bound, level.best + level.error)
    best = ends if sign > 0 else (-ends[1], -ends[0])
    ties: Any = Deferred(lambda: level.dimension)
    return LevelReport(
        name, best, value, level.slack, ties, level.price, level.held,
        level.word, sign, level.why,
    )  # fmt: skip
