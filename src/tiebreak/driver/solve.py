"""The only loop over a method's steps.  It also times, records, stops and saves the run."""

from __future__ import annotations

import contextlib
import inspect
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from tiebreak.algorithms import Method
from tiebreak.auto.selection import choose, problem_in_float64
from tiebreak.conic.chain import NO_POINT, solve_chain
from tiebreak.conic.representation import compile_levels
from tiebreak.display.progress import LevelNames
from tiebreak.driver.advice import after_nonfinite, contradiction, what_next
from tiebreak.driver.checkpoint import Store
from tiebreak.driver.console import LevelLines, LiveLine, Progress, stopping_on_ctrl_c
from tiebreak.driver.glossary import with_glossary
from tiebreak.driver.input_checks import (
    check_functions,
    check_limits,
    need_problem,
    tolerances,
)
from tiebreak.driver.levels_result import LevelsResult
from tiebreak.driver.registry import find_method
from tiebreak.driver.result import Result, promises
from tiebreak.driver.row_duals import name_all
from tiebreak.driver.run import NOTHING, Counts, Intermediate, Run, Saved
from tiebreak.driver.solve_levels import (
    CompiledLevels,
    of_problem,
    proved_exactly,
    solve_chained,
)
from tiebreak.driver.trace import Row, Trace
from tiebreak.functions import Linear
from tiebreak.levels import ConicLevels, Levels
from tiebreak.linalg import Array, arrays, deadline
from tiebreak.linalg.deadline import Limit
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import Certificate
from tiebreak.proofs.gate import (
    ANSWER,
    BROKEN,
    DOUBT,
    EMPTY,
    FALLS,
    HOPES,
    MET,
    RULE,
    STATUSES,
    Ended,
    ResultClaim,
    Word,
    claims_of,
    judge,
)
from tiebreak.proofs.recession.watch import NoMinimum, RecessionWatch
from tiebreak.sets.polyhedra import EmptySet

Tolerance = float | tuple[float, float]

ROUNDED = "x is outside the tolerance once rounded to single precision: pass data in float64"
WORSE = "the method ended with g = {:.3g} but had seen {:.3g}: x is the point with the least g"
CLAIMED = "The intervals that the method {} claims have not been checked and prove nothing here"
INSTEAD = "{}; x is the point with the least g seen: g at the last point is larger by {:.2g}"
LEAST_G = "the point with the least g seen"
NO_TIME = "there was no time for a certificate: increase max_time"
NO_START = "there was no time for the first step: increase max_time"
CRITERIA = ("absolute", "weak")


@overload
def solve(
    problem: Problem,
    method: str | Method = "auto",
    *,
    x0: Any = None,
    rtol: Tolerance = 1e-4,
    atol: Tolerance = 0.0,
    criterion: str = "absolute",
    max_iter: int = 10_000,
    max_time: float | None = None,
    callback: Callable[[Intermediate], object] | None = None,
    progress: Progress = False,
    checkpoint: str | Path | None = None,
) -> Result: ...


@overload
def solve(
    problem: Levels | ConicLevels,
    method: str = "auto",
    *,
    x0: Any = None,
    rtol: float = 1e-4,
    max_time: float | None = None,
) -> LevelsResult: ...


@with_glossary
def solve(
    problem: Problem | Levels | ConicLevels,
    method: str | Method = "auto",
    *,
    x0: Any = None,
    rtol: Tolerance = 1e-4,
    atol: Tolerance = 0.0,
    criterion: str = "absolute",
    max_iter: int = 10_000,
    max_time: float | None = None,
    callback: Callable[[Intermediate], object] | None = None,
    progress: Progress = False,
    checkpoint: str | Path | None = None,
) -> Result | LevelsResult:
    """Minimise the upper objective over all minimisers of the lower one.

    Args:
        problem: the Problem, or Levels. Three or more levels, or levels with slack, give a
            LevelsResult with one row per level. They are solved by the "conic" method, or in
            rational arithmetic if "auto" can prove them that way. Such levels accept x0 (for
            relative slacks), rtol and max_time, but no callback or checkpoint.
        method: a method or its name; "auto" chooses.
        x0: where to start; the origin if None. The Result of a former call, for this problem or a
            similar one, is a warm start: its point and multipliers are used, and tolerances are
            then relative to the values at the origin. If the problem is the same object with the
            same numbers, its tolerances stay the same, and its proved bounds are reused unless a
            change may go unnoticed, as behind a callable or a linear operator. x0 is projected onto
            the domain, and rounded if the problem is in float32.
        rtol, atol: one number or a pair (upper, lower). The tolerance of a level is
            atol + rtol * max(|value at x|, |value at x0|); if both values are 0 up to rounding, the
            size of the terms that cancel in them is used instead.
        criterion: "absolute" asks for a proof that f(x) - f* and g(x) - g* are within their
            tolerances, and that f(x) does not lie far below f*, as it may at a point that is
            slightly suboptimal for g: see ``certified``. "weak" asks only for the two proved gaps,
            which allow f(x) to lie below f* by any amount.
        max_iter: the maximum number of steps, including those before a checkpoint.
        max_time: the maximum number of seconds for this call. Work that cannot be interrupted (your
            own function, a product with the data, a factorisation) finishes first. No factorisation
            is started that would take longer than the time left. The final certificate may take
            another second.
        callback: called at the start and after every step with an ``Intermediate`` (x, nit, both
            values, both proved gaps, time); raising StopIteration stops the run.
        progress: show progress live on standard error or below a notebook cell, with the current
            pass if rows are streamed; or your own function, or object with update(row) and close().
            For three or more levels, True shows a line for each level as it is solved.
        checkpoint: a .npz file. The run is saved to this file from time to time; a later call with
            the same problem, method and x0 resumes it, with the step sizes that the first call
            planned. If the file cannot be written, a RuntimeWarning says so and the run continues.

    Returns:
        A Result; ``print(result)`` says what is proved and what is not. Its ``status`` is one of
        certified, solved, unbounded, undetermined, max_iter, max_time, stopped, failed.

        ``success`` is True for the first two, ``proved`` only for the first. Without success, x is
        the last point of the method, or the point of least g seen if g is larger at the last point
        by more than the tolerance.

    The answer is for the numbers that your arrays hold now, even if they have changed since the
    problem was created or last solved. (Changes behind a linear operator or a callable go
    unnoticed.)

    Examples:
        >>> problem = tb.Problem(lower=tb.LeastSquares([[1, 1]], [2]), upper=tb.SquaredNorm())
        >>> tb.solve(problem).x.round(6)
        array([1., 1.])

    What the words of a report mean:
    """
    began = time.perf_counter()
    if isinstance(problem, Levels | ConicLevels):
        options = {"criterion": criterion, "max_iter": max_iter, "atol": atol}
        hooks = {"callback": callback, "progress": progress, "checkpoint": checkpoint}
        return _solve_levels(problem, method, x0, rtol, max_time, options | hooks)
    problem = need_problem("solve", problem).current()
    relative, absolute = tolerances("rtol", rtol), tolerances("atol", atol)
    if criterion not in CRITERIA:
        known = " or ".join(map(repr, CRITERIA))
        raise ValueError(f"solve: criterion must be {known}, got {criterion!r}")
    check_limits("solve", max_iter, max_time)
    if callback is not None and not callable(callback):
        raise TypeError(f"solve: callback must be callable, got {type(callback).__name__}")
    if isinstance(x0, Result):
        former, x0 = x0, None if x0.status == "infeasible" else x0.x
    else:
        former = None
    asked, given, is_auto, saved = problem, problem.start(x0), method == "auto", None
    live = LiveLine(problem, progress)

    with (
        live,
        deadline.limited(max_time, began) as limit,
        stopping_on_ctrl_c(limit),
        arrays.quiet(),
    ):
        try:
            problem, start, chosen = _prepare(asked, given, method)
            store = Store(checkpoint, problem, chosen, start)
            saved = store.load()
            run = Run(problem, chosen.planned(max(max_iter, 1)), start, saved, began, former=former)
        except deadline.Over:
            name = method if isinstance(method, str) else method.name
            return _unbegun(limit, asked, name, given, saved, began)
        if former is not None and former.is_of(asked):
            run.take_over(former)
        run.relative, run.absolute, run.is_guarded = relative, absolute, criterion != "weak"
        watch = RecessionWatch(problem, start)
        ended = _iterate(run, limit, max_iter, callback, given, live, store, watch)
        limit.close()
        word, x, point, proof, tolerance = _conclude(run, ended, asked, given, store, watch)
        live.end(run.rows[-1])
        advice = NO_TIME
        with contextlib.suppress(deadline.Over):
            advice = what_next(run, word.status, proof, tolerance, max_iter)
        return Result(
            x=x,
            certificate=proof,
            tolerance=tolerance,
            start_values=run.start_values,
            status=word.status,
            reason=word.sentence,
            advice=advice,
            nit=run.iteration,
            time=run.seconds,
            method=f"{'auto: ' if is_auto else ''}{run.method.history(run.problem, run.state)}",
            trace=Trace(run.rows),
            problem=asked,
            findings=run.fall or run.report.findings,
            multipliers=run.report.multipliers,
            # A broken promise refutes its bounds for a warm start, which may not see it again.
            known=None if run.accumulator.refuted else run.accumulator.sums.known,
            criterion=criterion,
            point=point,
            claims=(CLAIMED.format(run.method.name),) if run.has_claims else (),
        )


def _solve_levels(
    levels: Levels | ConicLevels,
    method: str | Method,
    x0: Any,
    rtol: Tolerance,
    max_time: float | None,
    options: dict[str, Any],
) -> LevelsResult:
    """Solve a problem with two levels and no slack by any method, and any other as a chain."""
    began = time.perf_counter()
    levels = levels.current() if isinstance(levels, Levels) else levels
    if isinstance(levels, Levels) and levels.is_plain:
        if options["progress"] is True:  # runs minimise the negative of a maximised level
            named = zip(levels.names, levels.levels, strict=True)
            names = (name if level.sign > 0 else f"-{name}" for name, level in named)
            options["progress"] = LevelNames(*names)
        result = solve(levels.problem(), method, x0=x0, rtol=rtol, max_time=max_time, **options)
        exact = None
        is_double = isinstance(result.x, np.ndarray) and result.x.dtype == np.float64
        if method == "auto" and result.status in ("solved", "undetermined") and is_double:
            with contextlib.suppress(deadline.Interrupted):  # the run already has an answer
                exact = proved_exactly(
                    levels, math.nan, min(tolerances("rtol", rtol)), max_time, began,
                    lambda: CompiledLevels(levels),
                )  # fmt: skip
        return name_all(of_problem(levels, result) if exact is None else exact, levels)
    for name, default in inspect.signature(solve).parameters.items():
        if name == "max_iter" or (name == "progress" and options[name] is True):
            continue  # chains have no steps to count; progress shows the levels
        if name in options and options[name] != default.default:
            raise ValueError(
                f"solve: {name} does not apply to three or more levels or to slacks, "
                f"got {options[name]!r}"
            )
    check_limits("solve", options["max_iter"], max_time)
    told = LevelLines(levels, began) if options["progress"] is True else None
    found = solve_chained(levels, method, x0, min(tolerances("rtol", rtol)), max_time, began, told)
    return name_all(found, levels) if isinstance(levels, Levels) else found


def _without_end(fall: NoMinimum, problem: Problem) -> Ended:
    """End a run that has found a direction along which a level is unbounded."""
    return Ended(FALLS if fall.is_proved else DOUBT, fall.sentence(problem.names))


# -- prepare --------------------------------------------------------------------------------------


def _prepare(problem: Problem, start: Array, method: str | Method) -> tuple[Problem, Array, Method]:
    """Return the checked problem, start and method of the run.

    If "auto" solves a single-precision problem in double precision, problem and start are in
    float64.
    """
    chosen = find_method(method, problem)
    check_functions("solve", problem, start)
    if method == "auto" and (wide := problem_in_float64(problem)) is not problem:
        problem, start, chosen = wide, arrays.double(start), choose(wide)
    if refusal := chosen.refusal(problem):
        raise ValueError(refusal.sentence)
    return problem, start, chosen


def _unbegun(
    limit: Limit, problem: Problem, name: str, x0: Array, saved: Saved | None, began: float
) -> Result:
    """Return the start, or the checkpoint's last point, if the call ends before a step."""
    limit.close()
    x, values, nit, seconds = x0, (math.nan, math.nan), 0, time.perf_counter() - began
    with contextlib.suppress(deadline.Over):  # this pass over the data may take too long
        values = problem.upper.value(x0), problem.lower.value(x0)
    starts = values
    rows: Sequence[Row] = ()
    if saved is not None:
        x = arrays.like(saved.state.x, x0)
        values = saved.state.upper_value, saved.state.lower_value
        nit, starts, rows = saved.iteration, saved.start_values, saved.rows
        seconds += saved.seconds
    return Result(
        x=x,
        certificate=Certificate.of_gaps(*values),
        tolerance=(math.nan, math.nan),
        start_values=starts,
        status=limit.ending,
        reason="",
        advice=NO_START,
        nit=nit,
        time=seconds,
        method=name,
        trace=Trace(rows or [Row(nit, seconds, *values, *NOTHING, *Counts())]),
        problem=problem,
    )


# -- iterate --------------------------------------------------------------------------------------


def _ended(run: Run, limit: Limit, max_iter: int) -> Ended | None:
    """Return why the run ends here, or None if it goes on."""
    report = run.report
    if report.finished[0]:
        run.fall = report.fall
        return Ended.of(*report.finished)
    if limit.is_interrupted:
        return Ended("stopped")
    if run.iteration < max_iter and not limit.is_over:
        return None
    if report.answer.why:  # the answer lacks only its proof
        return report.answer
    return Ended("max_iter" if run.iteration >= max_iter else "max_time")


def _iterate(
    run: Run,
    limit: Limit,
    max_iter: int,
    callback: Callable[[Intermediate], object] | None,
    given: Array,
    live: LiveLine,
    store: Store,
    watch: RecessionWatch,
) -> Ended:
    """Take steps until the run ends, for whatever reason."""
    is_first = run.is_recorded  # a resumed run may have recorded it already
    while True:
        ended = _ended(run, limit, max_iter)
        if limit.is_over or limit.is_interrupted:
            limit.close()
        try:
            # `_conclude` computes what is proved about the last point.
            if not ended and (is_first or run.due or (run.is_adapting and run.is_met)):
                live.show(run.record())
                ended, is_first = _after_record(run, watch), False
            _tell(callback, run, given)
            if ended:
                return ended
            if not run.step():
                answer = run.report.answer  # keep an answer that lacks only its proof
                return answer if answer.why else Ended(BROKEN, after_nonfinite(run))
            store.save_when_due(run)
        except (StopIteration, KeyboardInterrupt):
            return ended or Ended("stopped")
        except (EmptySet, np.linalg.LinAlgError) as error:
            return ended or _without_answer(run, error)
        except deadline.Over:  # the next pass of the loop ends the run, unless this was the last
            if limit.is_closing:
                return ended or Ended(limit.ending)
            limit.close()


def _without_answer(run: Run, error: Exception) -> Ended:
    """Return why the run ends: Z is empty (multipliers prove this), or LAPACK failed.

    LAPACK may fail if numbers in the data differ too much in size.
    """
    if not isinstance(error, EmptySet):
        return Ended(BROKEN, f"a factorisation failed ({error}): check the units of the data")
    n = int(run.state.x.shape[0])
    found = solve_chain(compile_levels([Linear(np.zeros(n))], run.problem.domain, n), [])
    run.is_empty = found.contradiction is not None
    return Ended(EMPTY, found.message or NO_POINT)


def _after_record(run: Run, watch: RecessionWatch) -> Ended | None:
    """Return why the bounds of a recorded step end the run, or None if it goes on.

    An answer that only lacks its proof is checked at the end, when checking takes less work.
    """
    if run.report.decides:
        return None
    if not (run.accumulator.has_optimum or run.report.answer.why) and (
        fall := watch.check(run.iteration, run.state.x, run.gaps, deadline.left())
    ):
        run.fall = fall
        return _without_end(fall, run.problem)
    return Ended(MET) if run.is_met and not run.report.is_settling else None


def _tell(callback: Callable[[Intermediate], object] | None, run: Run, given: Array) -> None:
    """Call the callback with a point of the same array type as the start."""
    if callback is not None:
        now = run.intermediate()
        callback(now._replace(x=arrays.own(now.x, given)))  # a copy that the user may overwrite


# -- conclude -------------------------------------------------------------------------------------


def _conclude(
    run: Run, ended: Ended, asked: Problem, given: Array, store: Store, watch: RecessionWatch
) -> tuple[Word, Array, str, Certificate, tuple[float, float]]:
    """Return the status, the point and its description, the certificate and the tolerances.

    If there is no time for a certificate, return the last point with the bounds already proved for
    it.
    """
    store.save(run)
    run.record(is_proved=False)
    try:
        ended, x = _answer(run, ended)
        point = run.method.answer(run.state) if x is run.state.x else LEAST_G
        if ended.why in (*HOPES, "max_iter", "max_time") and not run.accumulator.has_optimum:
            is_hope = ended.why in HOPES
            seconds = 0.0 if ended.why == "max_time" else deadline.left()
            if fall := watch.check_at_end(run.state.x, run.gaps, is_hope, seconds):
                run.fall, ended = fall, _without_end(fall, run.problem)
        x = arrays.like(x, given)
        proof = run.certificate(arrays.like(x, run.state.x))  # x in the run's precision
    except deadline.Over:
        x, point = arrays.like(run.state.x, given), run.method.answer(run.state)
        proof = _last_proof(run, x)
    tolerance = run.tolerance(x, proof.upper_value, proof.lower_value)
    word = judge(_claim(run, ended, asked, x, proof, tolerance))
    run.record_answer(proof)
    if word.status == "unbounded":
        proof = proof.without_upper()
    elif word.status == "infeasible":  # there is no point, and neither optimum exists
        x, point, proof = arrays.nowhere(x), "", Certificate.of_gaps(math.nan, math.nan)
    return word, x, point, proof, tolerance


def _answer(run: Run, ended: Ended) -> tuple[Ended, Array]:
    """Return the final point.

    A point at which everything requested is proved is never discarded. Otherwise the answer is the
    method's last point, unless its g exceeds the least g seen by more than the tolerance.
    """
    if ended.why in (MET, FALLS, EMPTY):
        return ended, run.state.x
    if run.is_proved(run.certificate(run.state.x)) or run.has_gone_back():
        return Ended(MET), run.state.x
    better = run.better_below
    if better is None or ended.why == RULE:
        return ended, run.state.x
    if ended.why == ANSWER:
        ended = Ended(BROKEN, WORSE.format(run.values[1], better.value))
    elif ended.why in STATUSES:  # a limit
        said = INSTEAD.format(STATUSES[ended.why], run.values[1] - better.value)
        ended = Ended(ended.why, said)
    return ended, better.x


def _claim(
    run: Run,
    ended: Ended,
    asked: Problem,
    x: Array,
    proof: Certificate,
    tolerance: tuple[float, float],
) -> ResultClaim:
    """Return the run's claim about x, which `proofs.gate` checks."""
    if ended.why == MET and not run.is_proved(proof) and x.dtype != run.state.x.dtype:
        ended = Ended(MET, ROUNDED)
    fall = run.fall
    return ResultClaim(
        problem=asked,
        x=x,
        ended=ended,
        levels=claims_of(proof, tolerance),
        criterion="absolute" if run.is_guarded else "weak",
        fall=None if fall is None else (int(fall.level == "upper"), fall.direction),
        is_shown=run.is_empty or run.report.is_empty,
        broken=contradiction(run),
        readings=run.report.readings,
        assumed=" and ".join(promises(asked)),
    )


def _last_proof(run: Run, x: Array) -> Certificate:
    """Return the bounds already known for the point, if no time is left for more.

    We use the `Standing` of this point: the last row may describe a point that this one replaced.
    """
    if arrays.epsilon(x) > arrays.epsilon(run.state.x):  # the proof is about x before rounding
        return Certificate.of_gaps(*run.values)
    return Certificate.of_gaps(*run.values, run.standing.upper_gap, run.standing.lower_gap)
