"""The one loop: prepare, iterate, conclude.  Methods neither time, count, record, stop nor save."""

from __future__ import annotations

import contextlib
import inspect
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

from tiebreak.algorithms.base import Method
from tiebreak.auto.selection import choose, problem_in_float64
from tiebreak.driver.advice import after_nonfinite, contradiction, what_next
from tiebreak.driver.checkpoint import Store
from tiebreak.driver.console import LiveLine, Progress, stopping_on_ctrl_c
from tiebreak.driver.glossary import with_glossary
from tiebreak.driver.input_checks import (
    check_functions,
    check_limits,
    need_problem,
    tolerances,
    wrong_gradient,
)
from tiebreak.driver.levels_result import LevelsResult
from tiebreak.driver.registry import find_method
from tiebreak.driver.result import SUCCESSES, Result
from tiebreak.driver.run import Counts, Intermediate, Run, Saved
from tiebreak.driver.solve_levels import (
    of_problem,
    solve_chained,
    with_proved_direction,
)
from tiebreak.driver.trace import Row, Trace
from tiebreak.levels import ConicLevels, Levels
from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Array
from tiebreak.linalg.deadline import Limit
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import UNDERFLOW, Certificate
from tiebreak.proofs.recession.watch import NoMinimum, RecessionWatch

Tolerance = float | tuple[float, float]

ROUNDED = "rounded to single precision, x is not as good as asked: pass data in float64"
WORSE = "the method ended where g is {:.3g}, but had seen {:.3g}: x is the point of least g"
REFUTED = (
    "f(x) is proved to lie below f* by {:.3g}: x does not minimise the lower level well enough"
)
NO_TIME = "there was no time left for a certificate: give a longer max_time"
NO_START = "there was no time left for the first step: give a longer max_time"
CRITERIA = ("absolute", "weak")
NOTHING = (math.inf, math.inf)  # the gaps where nothing is proved


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
        problem: the Problem; or Levels, of which three or more, and such with slacks, are solved by
            the method "conic" and give a LevelsResult with one row for each. They take x0 (for
            slacks that are a share), rtol and max_time, and no callback or checkpoint.
        method: a method or its name; "auto" chooses.
        x0: where to start; the origin if None. The Result of a former call, of this problem or one
            like it, is a warm start: with its point and its multipliers; tolerances are relative to
            the values at the origin then. If the problem is the same object with the same numbers,
            what was proved still counts, and tolerances stay as they were; of a callable only its
            value at x is compared. Projected onto the domain, and rounded where the problem is in
            float32: a start is no part of the data.
        rtol, atol: one number or a pair (upper, lower). The tolerance of a level is
            atol + rtol * max(|value at x|, |value at x0|); where both values are 0 to rounding, the
            size of the terms that cancel in them takes their place.
        criterion: "absolute" asks for a proof that f(x) - f* and g(x) - g* are within their
            tolerances, and that f(x) is secured from below, so that a point which is not quite
            optimal below does not pass for an answer: see ``certified``. "weak" asks for the two
            proved gaps alone, which let f(x) lie below f* by any amount.
        max_iter: the most steps, those before a checkpoint included.
        max_time: the most seconds of this call. What cannot be stopped (a call of yours, a product
            with the data, a factorisation) is waited for; no factorisation is begun that would
            take longer than what is left. The certificate of the end may take a second more.
        callback: called at the start and after every step with an ``Intermediate`` (x, nit, both
            values, both proved gaps, time); raising StopIteration stops the run.
        progress: show it live on standard error or below a notebook's cell; with the pass where
            rows are streamed. Or an object of yours with update(row) and close(), or a function.
        checkpoint: a .npz file. The run is saved there now and then; a later call with the same
            problem, method and x0 goes on from it (with the step sizes that it was planned with).
            Where it cannot be written, a RuntimeWarning says so and the run goes on.

    Returns:
        A Result; ``print(result)`` says what is proved and what is not. Its ``status`` is one of
        certified, solved, unbounded, undetermined, max_iter, max_time, stopped, failed.

        ``success`` is True for the first two, ``proved`` for the first alone. Without success x is
        the last point of the method, or, where its g exceeds the least g seen by more than the
        tolerance, the point of least g.

    The answer is for the numbers that your arrays hold now, whatever they held when the problem
    was made or solved before. (Not seen: those behind a linear operator or a plain callable.)

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
    former, x0 = (x0, x0.x) if isinstance(x0, Result) else (None, x0)
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
        ending = _iterate(run, limit, max_iter, callback, given, live, store, watch)
        limit.close()
        ending, x, proof = _conclude(run, ending, given, store, watch)
        live.end(run.rows[-1])
        tolerance = run.tolerance(x, proof.upper_value, proof.lower_value)
        advice = NO_TIME
        with contextlib.suppress(deadline.Over):
            advice = what_next(run, ending.status, proof, tolerance, max_iter)
        return Result(
            x=x,
            certificate=proof,
            tolerance=tolerance,
            start_values=run.start_values,
            status=ending.status,
            reason=ending.reason,
            advice=advice,
            nit=run.iteration,
            time=run.seconds,
            method=f"{'auto: ' if is_auto else ''}{run.method.history(run.problem, run.state)}",
            trace=Trace(run.rows),
            problem=asked,
            findings=ending.fall or run.report.findings,
            multipliers=run.report.multipliers,
            known=run.accumulator.sums.known,
            criterion=criterion,
        )


def _solve_levels(
    levels: Levels | ConicLevels,
    method: str | Method,
    x0: Any,
    rtol: Tolerance,
    max_time: float | None,
    options: dict[str, Any],
) -> LevelsResult:
    """Two levels without slack by any method; all others as a chain."""
    began = time.perf_counter()
    levels = levels.current() if isinstance(levels, Levels) else levels
    if isinstance(levels, Levels) and levels.is_plain:
        result = solve(levels.problem(), method, x0=x0, rtol=rtol, max_time=max_time, **options)
        return of_problem(levels, result)
    for name, default in inspect.signature(solve).parameters.items():
        if name == "max_iter" or (name == "progress" and options[name] is True):
            continue  # harmless: there are no steps to count or to show
        if name in options and options[name] != default.default:
            raise ValueError(
                f"solve: {name} does not apply to three levels or more and to slacks, "
                f"got {options[name]!r}"
            )
    check_limits("solve", options["max_iter"], max_time)
    found = solve_chained(levels, method, x0, min(tolerances("rtol", rtol)), max_time, began)
    if not isinstance(levels, Levels) or found.direction is None:
        return found
    return with_proved_direction(levels, found)


class Ending(NamedTuple):
    """How a run ended: its status, and a sentence where that does not say it all."""

    status: str
    reason: str = ""
    fall: NoMinimum | None = None  # the direction along which there is no minimum

    @classmethod
    def without_end(cls, fall: NoMinimum, problem: Problem) -> Ending:
        """Along a direction in which a level falls for ever."""
        return cls(fall.status, fall.sentence(problem.names), fall)


# -- prepare --------------------------------------------------------------------------------------


def _prepare(problem: Problem, start: Array, method: str | Method) -> tuple[Problem, Array, Method]:
    """The problem, the start and the method that the run is made of, all of them checked.

    Where "auto" solves a problem in single precision in double, those of the problem in float64.
    """
    chosen = find_method(method, problem)
    check_functions("solve", problem, start)
    if wrong := wrong_gradient(problem, start):
        raise ValueError(f"solve: {wrong}")
    if method == "auto" and (wide := problem_in_float64(problem)) is not problem:
        problem, start, chosen = wide, arrays.double(start), choose(wide)
    if refusal := chosen.refusal(problem):
        raise ValueError(refusal.sentence)
    return problem, start, chosen


def _unbegun(
    limit: Limit, problem: Problem, name: str, x0: Array, saved: Saved | None, began: float
) -> Result:
    """The start, or the last point of the checkpoint, for a call that had to end before a step."""
    limit.close()
    x, values, nit, seconds = x0, (math.nan, math.nan), 0, time.perf_counter() - began
    with contextlib.suppress(deadline.Over):  # a pass over the data may take longer
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


def _ending(run: Run, limit: Limit, max_iter: int) -> Ending | None:
    """How the run ends here; None where it goes on."""
    report = run.report
    if report.finished[0]:
        return Ending(*report.finished)
    if limit.is_interrupted:
        return Ending("stopped")
    if run.iteration < max_iter and not limit.is_over:
        return None
    if report.answer[0]:  # only the proof is missing
        return Ending(*report.answer)
    return Ending("max_iter" if run.iteration >= max_iter else "max_time")


def _iterate(
    run: Run,
    limit: Limit,
    max_iter: int,
    callback: Callable[[Intermediate], object] | None,
    given: Array,
    live: LiveLine,
    store: Store,
    watch: RecessionWatch,
) -> Ending:
    """Step by step until something ends the run."""
    is_first = run.is_recorded  # a run that goes on may have its row already
    while True:
        ending = _ending(run, limit, max_iter)
        if limit.is_over or limit.is_interrupted:
            limit.close()
        try:
            if is_first or run.due or ending or (run.is_adapting and run.is_met):
                live.show(run.record())
                if run.is_met and (ending or not run.report.is_settling):
                    ending = Ending("certified")
                fall = watch.check(run.iteration, run.state.x, run.gaps, deadline.left())
                ending = Ending.without_end(fall, run.problem) if fall else ending
                is_first = False
            _tell(callback, run, given)
            if ending:
                return ending
            if not run.step():
                return _failed(run)
            store.save_when_due(run)
        except (StopIteration, KeyboardInterrupt):
            return ending or Ending("stopped")
        except deadline.Over:  # the next turn is the last, unless this one was
            if limit.is_closing:
                return ending or Ending(limit.ending)
            limit.close()


def _tell(callback: Callable[[Intermediate], object] | None, run: Run, given: Array) -> None:
    """Call back, with a point like the one that was given."""
    if callback is not None:
        now = run.intermediate()
        callback(now._replace(x=arrays.own(now.x, given)))  # theirs to write into


def _failed(run: Run) -> Ending:
    """The end at a value that is not finite; an answer that only lacks its proof stays one."""
    answer = run.report.answer
    return Ending(*answer) if answer[0] else Ending("failed", after_nonfinite(run))


# -- conclude -------------------------------------------------------------------------------------


def _conclude(
    run: Run, ending: Ending, given: Array, store: Store, watch: RecessionWatch
) -> tuple[Ending, Array, Certificate]:
    """The status that the run deserves, the point that is returned, what is proved about it.

    Where there is no time left for that: the last point, with what was proved about it before.
    """
    try:
        store.save(run)
        ending, x = _answer(run, ending)
        if (
            ending.status in (*SUCCESSES, "max_iter", "max_time")
            and not run.accumulator.has_optimum
        ):
            is_success = ending.status in SUCCESSES
            fall = watch.check_at_end(run.state.x, run.gaps, is_success, deadline.left())
            ending = Ending.without_end(fall, run.problem) if fall else ending
        x = arrays.like(x, given)
        proof = run.certificate(arrays.like(x, run.state.x))  # as it is, in a wider precision too
        ending = _deserved(run, ending, x, proof)
    except deadline.Over:
        x = arrays.like(run.state.x, given)
        return ending, x, _last_proof(run, x)
    run.record_answer(proof)
    return ending, x, proof.without_upper() if ending.status == "unbounded" else proof


def _answer(run: Run, ending: Ending) -> tuple[Ending, Array]:
    """The point that is returned.

    A certified point is never given up. Otherwise the last point of the method stays, unless its g
    exceeds the least one seen by more than the tolerance.
    """
    if ending.status in ("certified", "unbounded"):
        return ending, run.state.x
    if run.has_gone_back():
        return Ending("certified"), run.state.x
    better = run.better_below
    if better is None or (ending.status == "solved" and run.method.has_own_rule):
        return ending, run.state.x
    if ending.status == "solved":
        ending = Ending("failed", WORSE.format(run.state.lower_value, better.value))
    return ending, better.x


def _deserved(run: Run, ending: Ending, x: Array, proof: Certificate) -> Ending:
    """The status of a point, by its certificate: more or less than that of the run."""
    if ending.fall or ending.status == "unbounded":
        return ending
    if run.accumulator.is_contradicted:
        return Ending("failed", wrong_gradient(run.problem, run.state.x) or contradiction(run))
    if run.is_exact(x, proof) and ending.status != "stopped":
        return Ending("certified")
    if ending.status == "certified" and not run.is_proved(proof):
        ending = Ending("solved", ROUNDED if x.dtype != run.state.x.dtype else "")
    if ending.status in ("solved", "max_iter") and run.report.readings:
        ending = Ending("undetermined", run.report.readings)
    is_too_low = -proof.upper_gap > run.asked[0] > UNDERFLOW
    if ending.status == "solved" and is_too_low and not run.method.has_own_rule:
        ending = Ending("failed", REFUTED.format(-proof.upper_gap))
    return ending


def _last_proof(run: Run, x: Array) -> Certificate:
    """What the last row says, for a run that has no time left for more."""
    if not run.is_recorded:
        run.append_row(NOTHING)
    if arrays.epsilon(x) > arrays.epsilon(run.state.x):  # it is about x before rounding
        return Certificate.of_gaps(*run.values)
    return Certificate.of_gaps(*run.values, run.rows[-1].upper_gap, run.rows[-1].lower_gap)
