"""Bounds for any point, no matter which solver found it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tiebreak.algorithms import AGMBiO, PAGMBiO, no_projection
from tiebreak.auto.selection import first_order
from tiebreak.driver.advice import contradiction
from tiebreak.driver.console import stopping_on_ctrl_c
from tiebreak.driver.input_checks import check_functions, check_limits, need_problem, tolerances
from tiebreak.driver.result import promises
from tiebreak.driver.run import Run
from tiebreak.exact.bounds.intervals import prove_at
from tiebreak.linalg import TOL, Array, arrays, deadline
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import Certificate
from tiebreak.proofs.evidence import StepEvidence
from tiebreak.proofs.gate import (
    BROKEN,
    DOUBT,
    OUTSIDE,
    Ended,
    ResultClaim,
    claims_of,
    judge,
    violated,
)

Tolerance = float | tuple[float, float]

WIDE = "the bounds no longer improve, and they are wider than the tolerance"


def certify(
    problem: Problem,
    x: Any,
    max_iter: int = 10_000,
    max_time: float | None = None,
    *,
    rtol: Tolerance = 1e-4,
    atol: Tolerance = 0.0,
) -> Certificate:
    """Prove how close ``x`` is to optimal, no matter which solver found it.

    The proof needs oracle calls. The first-order method that "auto" prefers starts from the
    projection of x and collects minorants until both gaps of x stop shrinking. Because no method is
    best everywhere, AGM-BiO (P-AGM-BiO if there are penalties) then does the same with two values
    of gamma, if it accepts the problem. Together the methods take at most ``max_iter`` steps and
    ``max_time`` seconds; Ctrl-C returns the bounds proved so far.

    The ``status`` of the certificate is "certified" if |f(x) - f*| and g(x) - g* are proved to be
    within the tolerances, defined as in `solve` (with the point of the domain nearest to x in place
    of x0). It is "failed" if x is not in the domain, or if your promises contradict each other.
    Otherwise it names the limit that was reached, or is "undetermined" if the bounds no longer
    improve but are wider than the tolerance.

    Examples:
        >>> fit = tb.LeastSquares([[1, 1]], [2])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(5.0))
        >>> proof = tb.certify(problem, [1.0, 1.0])  # found by any solver
        >>> proof.upper_gap < 1e-6, proof.lower_gap < 1e-6, proof.status
        (True, True, 'certified')
    """
    problem = need_problem("certify", problem)
    check_limits("certify", max_iter, max_time)
    problem = problem.current()
    if refusal := no_projection("certify", problem):
        raise ValueError(refusal.sentence)
    x = problem.point(x, "certify", "x")
    problem = problem.in_precision_of(x)
    asked = tolerances("rtol", rtol, "certify"), tolerances("atol", atol, "certify")
    runs: list[Run] = []
    with deadline.limited(max_time) as limit, stopping_on_ctrl_c(limit), arrays.quiet():
        try:
            start = problem.start(x)
            check_functions("certify", problem, start)
            steps, proof = _collected(problem, x, start, max_iter, runs)
            ended = Ended("max_iter") if steps >= max_iter else Ended(DOUBT, WIDE)
        except deadline.Over:
            limit.close()
            ended, proof = Ended(limit.ending), _after_limit(problem, x, runs)
        return _judged(problem, x, ended, proof, runs, asked)


def _after_limit(problem: Problem, x: Array, runs: list[Run]) -> Certificate:
    """Return the bounds proved for x when the time is up."""
    try:
        if runs:
            return runs[-1].certificate(x)
        return Certificate.of_gaps(problem.upper.value(x), problem.lower.value(x))
    except deadline.Over:
        return Certificate.of_gaps(math.nan, math.nan)


def _judged(
    problem: Problem,
    x: Array,
    ended: Ended,
    proof: Certificate,
    runs: list[Run],
    asked: tuple[tuple[float, float], tuple[float, float]],
) -> Certificate:
    """Return the certificate with its status, as decided by `proofs.gate`."""
    tolerance = (0.0, 0.0)
    if runs and math.isfinite(proof.upper_value):
        runs[-1].relative, runs[-1].absolute = asked
        tolerance = runs[-1].tolerance(x, proof.upper_value, proof.lower_value)
    if (outside := violated(problem, x)) is not None:
        ended = Ended(BROKEN, OUTSIDE.format(outside.what, outside.amount))
    levels, broken = claims_of(proof, tolerance), contradiction(runs[-1]) if runs else ""
    assumed = " and ".join(promises(problem))
    word, sentence = judge(ResultClaim(problem, x, ended, levels, broken=broken, assumed=assumed))
    return replace(proof, status=word, message=sentence)


def _collected(
    problem: Problem, x: Array, start: Array, max_iter: int, runs: list[Run]
) -> tuple[int, Certificate]:
    """Run some methods and append their runs; return the number of steps and the proof for x."""
    kind, steps, proof = AGMBiO if problem.is_smooth else PAGMBiO, 0, None
    for method in (first_order(problem), kind(gamma=1e-3), kind(gamma=1e-1)):
        if refusal := method.refusal(problem):
            if proof is None:
                raise ValueError(refusal.sentence)
            continue
        run = Run(problem, method, start)
        for before in runs[-1:]:
            run.accumulator.inherit(before.accumulator)
        if not runs and (intervals := prove_at(problem, x)):
            run.accumulator.add(StepEvidence(intervals=intervals))
        runs.append(run)
        proof = run.certificate(x)
        # The gaps are first compared after this many steps; the number doubles after each
        # comparison.
        next_check = 256
        while steps < max_iter and run.step():
            deadline.check()
            steps += 1
            if run.iteration == next_check or steps == max_iter:
                last, proof = proof, run.certificate(x)
                next_check *= 2
                if _settled(last.upper_gap, proof.upper_gap, proof.upper_value) and _settled(
                    last.lower_gap, proof.lower_gap, proof.lower_value
                ):
                    break
        if steps >= max_iter:
            break
    return steps, runs[-1].certificate(x)


def _settled(before: float, after: float, value: float) -> bool:
    """Has a gap stopped shrinking, apart from rounding, since the last check?"""
    if math.isinf(before) or math.isinf(after):
        return before == after
    return before - after <= TOL.percent * abs(before) or after <= 1e-12 * abs(value)
